"""Whole jobs on tables in a bucket: readers see what they see after the same jobs on a local disk."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from judges.fixtures import Fixture
from s3_tables import downloaded, uploaded
from servers.s3 import S3Server

from acidlib.points import Point
from integration.children import killed_at
from integration.harness import AROUND, Jobs, fixture
from integration.store_jobs import NOW, contents, each_table, leave_the_same_rows, without_claims

pytestmark = pytest.mark.live


@pytest.fixture(autouse=True)
def configured(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AROUND, "hadoop", s3_server.properties())


@each_table(first="major", usual=slice(1, None, 3))
def test_tables_that_hive_wrote(
    s3_server: S3Server, jobs: Jobs, tmp_path: Path, table: Fixture, kind: str, steady_deflate: None
) -> None:
    to_and_fro = {"upload": partial(uploaded, s3_server), "download": partial(downloaded, s3_server)}
    leave_the_same_rows(jobs, tmp_path, table, kind, **to_and_fro)


def test_a_place_that_is_gone_is_not_taken_for_an_empty_one(s3_server: S3Server, jobs: Jobs, tmp_path: Path) -> None:
    """Nor is it made again: no claim, no request that ends as if it were cleaned."""
    remote = uploaded(s3_server, fixture("hive3/a_crud", tmp_path / "t"))
    client = s3_server.client()
    told = "neither it nor the directory above it is there; the configuration may lead to another"
    scan = ("--all-committed", "--set", "hive.compactor.delta.num.threshold=1")
    jobs.good("initiator", "--location", str(remote), *scan)
    jobs.good("major_compact")
    refused = jobs("undo", "1", "--nobody-reads")
    undo = refused.document["undo"]
    assert refused.status == 1
    assert (undo["state"], "nothing can be renamed in a bucket" in undo["reason"]) == ("refused", True)
    (waits,) = jobs.good("cleaner", *NOW, "--trash", "--dry-run").document["cleanings"]
    assert (waits["state"], "nothing can be moved in a bucket" in waits["reason"]) == ("ready for cleaning", True)
    queued = uploaded(s3_server, fixture("hive3/a_crud", tmp_path / "u"))
    jobs.good("initiator", "--location", str(queued), *scan)
    for place in (remote, queued):
        for item in client.list_objects_v2(Bucket=place.authority)["Contents"]:
            client.delete_object(Bucket=place.authority, Key=item["Key"])
    (failed,) = jobs("major_compact").compactions
    assert (failed["state"], "there is no object below it" in failed["reason"]) == ("failed", True)
    for options in (("--dry-run",), ()):
        (entry,) = jobs("cleaner", "--location", str(remote), *NOW, *options).document["cleanings"]
        assert (entry["state"], told in entry["reason"]) == ("failed", True)
    assert {number: row["state"] for number, row in jobs.shown().items()} == {1: "ready for cleaning", 2: "failed"}
    assert not any("Contents" in client.list_objects_v2(Bucket=place.authority) for place in (remote, queued))


@pytest.mark.parametrize("point", [Point.RECORDED, Point.FIRST_RENAMED, Point.SECOND_RENAMED])
def test_a_base_that_a_dead_run_has_begun_to_publish(
    s3_server: S3Server, jobs: Jobs, tmp_path: Path, point: Point, steady_deflate: None
) -> None:
    """A run that knows nothing of the dead one, by another queue, finishes it."""
    local = fixture("hive3/c_bucket", tmp_path / "l" / "c_bucket")
    remote = uploaded(s3_server, local, f"begun-{point.name.lower().replace('_', '-')}")
    assert killed_at(point, lambda: jobs("major_compact", "--location", str(remote), "--all-committed"))
    other = Jobs(queue_url=f"sqlite:///{tmp_path / 'other.db'}")
    (planned,) = other("major_compact", "--location", str(remote), "--all-committed", "--dry-run").compactions
    assert "a publication there is unfinished" in planned["reason"]
    other.good("major_compact", "--location", str(remote), "--all-committed")
    here = jobs("major_compact", "--location", local, "--all-committed")
    assert here.status == 0
    there = without_claims(downloaded(s3_server, remote, tmp_path / "copy/t"))
    assert there == contents(local)
