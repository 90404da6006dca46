"""Whole jobs on tables in Ozone, also killed ones: what they leave is what they leave on a local disk."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from crud_walk_through import BASE, TABLE, check_base, check_row_ids, files_below
from judges import merge
from long_runs import amount, in_a_long_run
from ozone_tables import ask, downloaded, names, uploaded
from servers.ozone import Ozone
from servers.process import listens
from servers.s3_proxy import Relay

from acidlib.points import KILL_AT, Point
from acidlib.stores.renaming.ozone_client import HTTPFS
from integration.children import Child
from integration.harness import AROUND, Jobs, Ran, fixture, tree, visible

pytestmark = pytest.mark.live

ALL = ("--all-committed",)
NOW = ("--retention", "0s")
TWO_RENAMES = ("--minor-as-major-bytes", "0")
DAYS = 86_400
COMPACTING = (
    *(Point.CLAIMED, Point.STAGED, Point.CREATED, Point.WRITTEN, Point.CLOSED, Point.PROVED, Point.ACCEPTED),
    *(Point.SEALED, Point.CHECKED, Point.FIRST_RENAMED, Point.PUBLISHED, Point.MARKED, Point.ENDED),
)
CLEANING = (
    *(Point.CLEANING_CLAIMED, Point.CLEANING_PLANNED, Point.REMOVED_ONE, Point.REMOVED_HIDDEN, Point.REMOVED_ALL),
    Point.CLEANED,
)
UNDOING = (Point.UNDO_RECORDED, Point.UNDO_MOVED, Point.UNDO_ASIDE, Point.UNDONE)
# by the name of a job, what it is given, where it is killed, and what is left in the end
RUNS = {
    "one directory": (
        ("major_compact",),
        amount((Point.FIRST_RENAMED,), long=COMPACTING),
        ["base_0000004"],
    ),
    "two directories": (
        ("minor_compact", *TWO_RENAMES),
        amount((Point.FIRST_RENAMED,), long=(*COMPACTING, Point.RECORDED, Point.SECOND_RENAMED, Point.UNRECORDED)),
        ["delete_delta_0000001_0000004", "delta_0000001_0000004"],
    ),
}


@pytest.fixture(autouse=True)
def configured(ozone: Ozone, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(ozone.conf_dir))
    return ("--set", f"{HTTPFS}={ozone.url}")


def test_the_walk_through(ozone: Ozone, jobs: Jobs, tmp_path: Path, configured: tuple[str, ...]) -> None:
    """From the scan to the cleaning: the files, rows and row ids of Hive; a place has one name by either scheme."""
    hives = TABLE.copy(tmp_path / "hives", "after_major")
    table = uploaded(ozone, TABLE.before, "crud")
    _, volume, bucket, path = table.path.split("/", 3)
    by_bucket = f"o3fs://{bucket}.{volume}.{ozone.authority}/{path}"
    before = merge.read(TABLE.before, strict=True)

    def copied() -> Path:
        copy = downloaded(ozone, table, tmp_path / "copy")
        assert merge.read(copy, strict=True) == before
        return copy

    warehouse = ("--warehouse", by_bucket.rpartition("/")[0], *ALL)
    scanned = jobs.good("initiator", *warehouse, "--set", "hive.compactor.delta.num.threshold=1", *configured)
    [decided] = scanned.document["decisions"]
    assert (decided["location"], decided["type"]) == (str(table), "major")
    [compacted] = jobs.good("major_compact", *configured).compactions
    assert compacted["location"] == str(table)
    copy = copied()
    assert files_below(copy) == files_below(hives)
    check_base(copy, hives)
    check_row_ids(copy)
    [cleaned] = jobs.good("cleaner", "--location", by_bucket, *NOW, *configured).document["cleanings"]
    assert (cleaned["state"], cleaned["location"]) == ("succeeded", str(table))
    assert visible(copied()) == [BASE]
    check_base(copy, hives)


@pytest.mark.parametrize("kind", ["major", "minor"])
def test_the_same_bytes_as_on_a_local_disk(
    ozone: Ozone, jobs: Jobs, tmp_path: Path, configured: tuple[str, ...], kind: str, steady_deflate: None
) -> None:
    local = fixture("hive3/a_crud", tmp_path / "local/t")
    remote = uploaded(ozone, local)
    for place in (str(local), str(remote)):
        jobs.good(f"{kind}_compact", "--location", place, *ALL, *configured)
        jobs.good("cleaner", "--location", place, *NOW, *configured)
    copy = downloaded(ozone, remote, tmp_path / "copy/t")
    facts = [{name: found[0] for name, found in tree(root).items() if name != "."} for root in (copy, local)]
    assert facts[0] == facts[1]


def kill(jobs: Jobs, point: Point, folder: Path, *words: str) -> None:
    """A job that is killed there."""

    def run() -> None:
        os.environ[KILL_AT] = point
        jobs(*words)

    assert Child(run, folder / "answer").wait() == -signal.SIGKILL, point


@pytest.mark.parametrize("way", RUNS)
def test_killed_while_it_compacts(
    ozone: Ozone,
    tmp_path: Path,
    jobs: Jobs,
    monkeypatch: pytest.MonkeyPatch,
    configured: tuple[str, ...],
    way: str,
) -> None:
    (kind, *options), points, results = RUNS[way]
    local = fixture("hive3/a_crud", tmp_path / "t")
    before = merge.read(local, "", generation=3)
    for number, point in enumerate(points):
        table = uploaded(ozone, local, "crud")
        own = Jobs(queue_url=f"sqlite:///{tmp_path / f'queue{number}.db'}")
        there = ("--location", str(table), *ALL, *configured)

        def seen(table: object = table) -> list[merge.Row]:
            return merge.read(downloaded(ozone, table, tmp_path / "seen/t"), "", generation=3)  # type: ignore[arg-type]

        monkeypatch.setattr(AROUND, "clock", time.time)
        kill(own, point, tmp_path, kind, *there, *options)
        # between two renames a reader sees too much: the caller has stated that nobody reads
        between = way == "two directories" and point == Point.FIRST_RENAMED
        assert (seen() != before) is between, point
        again = own(kind, *there, *options)  # it may find all done
        assert set(again.states) <= {"ready for cleaning", "already compact", "refused"}, again
        assert seen() == before, point
        own.good("cleaner", *NOW, *configured)
        monkeypatch.setattr(AROUND, "clock", lambda: time.time() + 3 * DAYS)
        own.good("cleaner", *there[:2], *NOW, *configured)
        assert names(ozone, table) == results, point
        assert seen() == before, point


@in_a_long_run
@pytest.mark.parametrize("point", CLEANING)
def test_killed_while_it_cleans(
    ozone: Ozone, tmp_path: Path, jobs: Jobs, configured: tuple[str, ...], point: Point
) -> None:
    local = fixture("hive3/a_crud", tmp_path / "t")
    table = uploaded(ozone, local, "crud")
    jobs.good("major_compact", "--location", str(table), *ALL, *configured)
    kill(jobs, point, tmp_path, "cleaner", *NOW, *configured)
    before = merge.read(local, "", generation=3)
    assert merge.read(downloaded(ozone, table, tmp_path / "seen/t"), "", generation=3) == before
    jobs.good("cleaner", *NOW, *configured)
    assert [name for name in names(ozone, table) if name[0] != "_"] == ["base_0000004"]
    assert merge.read(downloaded(ozone, table, tmp_path / "seen/t"), "", generation=3) == before
    assert {row["state"] for row in jobs.shown().values()} == {"succeeded"}


@in_a_long_run
@pytest.mark.parametrize("point", UNDOING)
def test_killed_while_it_undoes(
    ozone: Ozone, tmp_path: Path, jobs: Jobs, configured: tuple[str, ...], point: Point
) -> None:
    local = fixture("hive3/a_crud", tmp_path / "t")
    table = uploaded(ozone, local, "crud")
    there = names(ozone, table)
    jobs.good("minor_compact", "--location", str(table), *ALL, *TWO_RENAMES, *configured)
    kill(jobs, point, tmp_path, "undo", "1", "--nobody-reads", *configured)
    again = jobs("undo", "1", "--nobody-reads", *configured)
    assert again.status == 0 or point == Point.UNDONE, again
    assert merge.read(downloaded(ozone, table, tmp_path / "seen/t"), "", generation=3) == merge.read(
        local, "", generation=3
    )
    assert [name for name in names(ozone, table) if name[0] != "_"] == there


@pytest.mark.parametrize(
    "point", amount((Point.FIRST_RENAMED,), long=(Point.CLAIMED, Point.STAGED, Point.CHECKED, Point.FIRST_RENAMED))
)
def test_a_gateway_that_is_killed_in_the_middle(
    ozone: Ozone,
    jobs: Jobs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    configured: tuple[str, ...],
    point: Point,
) -> None:
    """The place fails with a line that names it and HttpFS, as does a run while it is away; a later one does it."""
    local = fixture("hive3/a_crud", tmp_path / "t")
    table = uploaded(ozone, local)
    words = ("minor_compact", "--location", str(table), *ALL, *TWO_RENAMES, *configured)
    gateway = ozone.http_fs.pid
    assert gateway is not None

    def kill(reached: object) -> None:
        if reached == point:
            os.killpg(gateway, signal.SIGKILL)
            while listens(ozone.port):
                time.sleep(0.01)

    def run() -> Ran:
        with pytest.MonkeyPatch.context() as patch:
            for module in ("stores.renaming.store", "runs.compact"):
                patch.setattr(f"acidlib.{module}.reach", kill)
            return jobs(*words)

    try:
        failed = Child(run, tmp_path / "answer").ran()
        away = jobs(*words)
    finally:
        ozone.http_fs.kill()
        ozone.start()
    for ran in (failed, away):
        assert ran.status == 1, ran
        told = f"HttpFS of Ozone cannot be reached, or gave no answer (no connection to {ozone.url}"
        assert [line for line in ran.err.splitlines() if str(table) in line and told in line], ran.err
        assert "Traceback" not in ran.err
    jobs.good(*words)
    jobs.good("cleaner", *NOW, *configured)
    monkeypatch.setattr(
        AROUND, "clock", lambda: time.time() + 3 * DAYS
    )  # the staging of the dead run is litter by then
    jobs.good("cleaner", *words[1:3], *NOW, *configured)
    assert names(ozone, table) == RUNS["two directories"][2]
    after = merge.read(downloaded(ozone, table, tmp_path / "seen/t"), "", generation=3)
    assert after == merge.read(local, "", generation=3)


def test_a_name_that_somebody_takes_before(
    ozone: Ozone, jobs: Jobs, tmp_path: Path, configured: tuple[str, ...]
) -> None:
    """Ozone would move the result into it, and say that it is done."""
    local = fixture("hive3/a_crud", tmp_path / "t")
    table = uploaded(ozone, local)
    before = merge.read(local, "", generation=3)

    def taken(point: object) -> None:
        ask(ozone, "PUT", f"{table.path}/base_0000004", "MKDIRS")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "acidlib.stores.renaming.store.reach", lambda point: taken(point) if point == Point.CHECKED else None
        )
        ran = jobs("major_compact", "--location", str(table), *ALL, *configured)
    assert ran.status != 0
    assert "base_0000004 already exists" in ran.err
    assert names(ozone, table).count("base_0000004") == 1
    assert ask(ozone, "GET", f"{table.path}/base_0000004", "LISTSTATUS").count(b"pathSuffix") == 0
    ask(ozone, "DELETE", f"{table.path}/base_0000004", "DELETE", recursive="true")
    assert merge.read(downloaded(ozone, table, tmp_path / "seen/t"), "", generation=3) == before


def test_what_a_place_costs(ozone: Ozone, jobs: Jobs, tmp_path: Path) -> None:
    """Requests for a place of five directories with one file each: a bucket of S3 takes 3, 13, 74 and 46."""
    table = uploaded(ozone, fixture("hive3/a_crud", tmp_path / "t"), "crud")
    warehouse = ("--warehouse", str(table).rpartition("/")[0], *ALL)
    with Relay(ozone.port) as relay:
        configured = ("--set", f"{HTTPFS}={relay.endpoint}")
        for most, words in (
            (8, ("initiator", *warehouse)),
            (17, ("major_compact", "--location", str(table), *ALL, "--dry-run")),
            (103, ("major_compact", "--location", str(table), *ALL)),
            (94, ("cleaner", "--location", str(table), *NOW)),
        ):
            relay.reset()
            jobs.good(*words, *configured)
            assert relay.requests.total() <= most, relay.requests
