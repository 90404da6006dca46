"""Whole jobs on tables in Google Cloud Storage, on an emulator: readers see what they see on a local disk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from gcs_tables import downloaded, names, uploaded
from judges.fixtures import Fixture
from long_runs import in_a_long_run
from servers.gcs import FAKE, GcsServer
from servers.s3_proxy import Relay

from acidlib.points import Point
from acidlib.stores.buckets.bucket import StoredObject
from acidlib.stores.buckets.store import BucketStore
from acidlib.stores.gcs.bucket import GcsBucket
from acidlib.stores.gcs.options import gcs_options
from acidlib.stores.probe import require_promises
from acidlib.stores.promises import BrokenPromiseError
from acidlib.stores.stores import Stores
from integration.children import killed_at
from integration.harness import AROUND, Jobs, fixture, probed
from integration.store_jobs import NOW, contents, each_table, leave_the_same_rows, without_claims

pytestmark = pytest.mark.live

ALL = ("--all-committed",)


@pytest.fixture(autouse=True)
def configured(gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AROUND, "hadoop", gcs_server.properties())


@each_table(usual=slice(1, None, 10))
def test_tables_that_hive_wrote(
    gcs_server: GcsServer, jobs: Jobs, tmp_path: Path, table: Fixture, kind: str, steady_deflate: None
) -> None:
    to_and_fro = {"upload": partial(uploaded, gcs_server), "download": partial(downloaded, gcs_server)}
    remote = leave_the_same_rows(jobs, tmp_path, table, kind, **to_and_fro)
    assert not [key for key in gcs_server.objects(remote.authority) if "/_tmp_" in key]


@pytest.mark.parametrize("point", [Point.RECORDED, Point.FIRST_RENAMED, Point.SECOND_RENAMED])
def test_a_base_that_a_dead_run_has_begun_to_publish(
    gcs_server: GcsServer, jobs: Jobs, tmp_path: Path, point: Point, steady_deflate: None
) -> None:
    """A run that knows nothing of the dead one, by another queue, finishes it."""
    local = fixture("hive3/c_bucket", tmp_path / "l" / "c_bucket")
    remote = uploaded(gcs_server, local, f"begun-{point.name.lower().replace('_', '-')}")
    assert killed_at(point, lambda: jobs("major_compact", "--location", str(remote), *ALL))
    other = Jobs(queue_url=f"sqlite:///{tmp_path / 'other.db'}")
    (planned,) = other("major_compact", "--location", str(remote), *ALL, "--dry-run").compactions
    assert "a publication there is unfinished" in planned["reason"]
    other.good("major_compact", "--location", str(remote), *ALL)
    assert jobs("major_compact", "--location", local, *ALL).status == 0
    assert without_claims(downloaded(gcs_server, remote, tmp_path / "copy/t")) == contents(local)


def test_what_claims_rest_on_is_tried_and_leaves_nothing(gcs_server: GcsServer, tmp_path: Path) -> None:
    place = uploaded(gcs_server, fixture("hive3/a_crud", tmp_path / "t"))
    before = names(gcs_server, place)
    require_promises(Stores(configuration=gcs_server.properties()).store(place), place, unique="1")
    assert names(gcs_server, place) == before


def test_a_probe_finds_all_promises_kept(gcs_server: GcsServer) -> None:
    bucket = gcs_server.new_bucket()
    states = probed(f"gs://{bucket}/w")
    # this server composes what it has read before: in about 1 of 1000 races what was aborted appears afterwards
    assert {name for name, state in states.items() if state != "holds"} <= {"aborts are final"}
    assert list(gcs_server.objects(bucket)) == ["w/_acidlib_probe.json"]


class Late(GcsBucket):
    """Composes what was there a moment before, as a store does that reads sources, and then makes the object."""

    def _compose(
        self, key: str, sources: Sequence[tuple[str, str]], generation: str | None, origin: str
    ) -> StoredObject:
        time.sleep(0.1)
        return self._insert(key, b"x" * len(sources), generation, origin)


def test_a_probe_finds_what_appears_after_its_abort(gcs_server: GcsServer) -> None:
    late = Late(gcs_options(gcs_server.new_bucket(), gcs_server.properties(), str))
    trials = {promise.name: promise.trial for promise in BucketStore(late).promises()}
    for name, seen in (("aborts are final", "after an abort"), ("no removed piece is composed", "after one of them")):
        with pytest.raises(BrokenPromiseError, match=seen):
            trials[name](late.path(f"w/{name}"))


@in_a_long_run
def test_a_probe_names_the_conditions_that_a_server_ignores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = GcsServer(tmp_path, FAKE)
    fake.start()
    try:
        monkeypatch.setattr(AROUND, "hadoop", fake.properties())
        states = probed(f"gs://{fake.new_bucket()}/w")
    finally:
        fake.stop()
    broken = {"completions replace nothing", "one completion of a name", "no changed piece is composed"}
    assert {name for name, state in states.items() if state == "BROKEN"} == broken


def test_a_server_that_ignores_conditions_is_refused_at_the_first_claim(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads and listings are judged there by a second server; nothing is published."""
    (tmp_path / "server").mkdir()
    fake = GcsServer(tmp_path / "server", FAKE)
    fake.start()
    try:
        monkeypatch.setattr(AROUND, "hadoop", fake.properties())
        place = uploaded(fake, fixture("hive3/a_crud", tmp_path / "t"))
        before = fake.objects(place.authority).keys()
        (planned,) = jobs("major_compact", "--location", str(place), *ALL, "--dry-run").compactions
        assert planned["output_directories"] == ["base_0000004"]
        ran = jobs("major_compact", "--location", str(place), *ALL)
        assert (ran.status, ran.states) == (0, ["refused"])
        assert "it completes an upload over an object that is there" in ran.told
        assert fake.objects(place.authority).keys() == before
    finally:
        fake.stop()


def test_what_a_place_costs(gcs_server: GcsServer, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests for a place of five directories with two files each, in a bucket whose promises this run has tried."""
    place = uploaded(gcs_server, fixture("hive3/a_crud", tmp_path / "t"))
    with Relay(gcs_server.port) as relay:
        monkeypatch.setattr(AROUND, "hadoop", gcs_server.properties(relay.endpoint))
        monkeypatch.setattr("acidlib.stores.buckets.store.PROBED", {gcs_options(place.authority, AROUND.hadoop, str)})
        for most, words in (
            (3, ("initiator", "--location", str(place), *ALL, "--dry-run")),
            (12, ("major_compact", "--location", str(place), *ALL, "--dry-run")),
            (40, ("major_compact", "--location", str(place), *ALL)),
            (35, ("cleaner", "--location", str(place), *NOW)),
        ):
            relay.reset()
            jobs.good(*words)
            assert relay.requests.total() <= most, (words[0], relay.requests)
