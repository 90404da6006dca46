"""Runs in Azure Data Lake Storage that are killed at a point, and a service that goes away there, on a stub of ours.

Readers see the same rows, and later runs end what is left.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from abfs_tables import downloaded, names, uploaded
from judges import merge
from long_runs import amount
from servers.abfs import AbfsStub

from acidlib.location import Location
from acidlib.points import KILL_AT, Point
from integration.children import Child, stopped_at
from integration.harness import AROUND, Jobs, Ran, fixture
from integration.test_kill_points import CLEANING, COMMON, PAIR, UNDOING

ALL = ("--all-committed",)
NOW = ("--retention", "0s")
TWO_RENAMES = ("--minor-as-major-bytes", "0")
DAYS = 86_400
KINDS = {"major_compact": (ALL, COMMON), "minor_compact": ((*ALL, *TWO_RENAMES), PAIR)}
COMPACTIONS = [(kind, point) for kind, (_, points) in KINDS.items() for point in points]
CLEANINGS = [(more, point) for more in ((), ("--trash",)) for point in CLEANING]


@pytest.fixture(autouse=True)
def configured(abfs: AbfsStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AROUND, "hadoop", {**abfs.properties(), "fs.azure.io.retry.max.retries": "1"})


@pytest.fixture
def table(abfs: AbfsStub, abfs_container: str, tmp_path: Path) -> Location:
    return uploaded(abfs, fixture("hive3/a_crud", tmp_path / "t"), "crud", container=abfs_container)


def rows(abfs: AbfsStub, place: Location, tmp_path: Path) -> list[merge.Row]:
    """What a reader that is not ours sees."""
    return merge.read(downloaded(abfs, place, tmp_path / "seen/t"), "", generation=3)


def killed_at(point: str, jobs: Jobs, tmp_path: Path, *words: str) -> bool:
    """Runs a job in a process that is killed at a point; whether it came to that."""

    def run() -> None:
        os.environ[KILL_AT] = point
        jobs(*words)

    status = Child(run, tmp_path / "answer").wait()
    assert status in (0, -signal.SIGKILL)
    return status != 0


def settle(abfs: AbfsStub, table: Location, jobs: Jobs, tmp_path: Path, before: list[merge.Row]) -> None:
    """The next runs find the rows as they were, and leave a base alone."""
    with pytest.MonkeyPatch.context() as patch:
        for days in (2, 5, 8):  # what failed waits before it comes again, and litter for a day
            patch.setattr(AROUND, "clock", lambda days=days: time.time() + days * DAYS)
            jobs.good("initiator", "--location", str(table), *ALL)
            again = jobs("major_compact", "--location", str(table), *ALL)
            assert set(again.states) <= {"ready for cleaning", "already compact", "refused"}, again
            assert rows(abfs, table, tmp_path) == before
            jobs.good("cleaner", *NOW)
            jobs.good("cleaner", "--location", str(table), *NOW)
            assert rows(abfs, table, tmp_path) == before
    assert [name for name in names(abfs, table) if name != "_acidlib_trash"] == ["base_0000004"]
    assert {row["state"] for row in jobs.shown().values()} <= {"succeeded", "failed", "refused", "already compact"}


@pytest.mark.parametrize(("kind", "point"), amount([("minor_compact", Point.FIRST_RENAMED)], long=COMPACTIONS), ids=str)
def test_killed_while_it_compacts(
    abfs: AbfsStub, table: Location, jobs: Jobs, tmp_path: Path, kind: str, point: Point
) -> None:
    before = rows(abfs, table, tmp_path)
    assert killed_at(point, jobs, tmp_path, kind, "--location", str(table), *KINDS[kind][0])
    # between two renames a reader sees too much: the caller has stated that nobody reads
    between = (kind, point) == ("minor_compact", Point.FIRST_RENAMED)
    assert (rows(abfs, table, tmp_path) != before) is between
    again = jobs(kind, "--location", str(table), *KINDS[kind][0])
    assert set(again.states) <= {"ready for cleaning", "already compact", "refused"}, again
    assert rows(abfs, table, tmp_path) == before
    settle(abfs, table, jobs, tmp_path, before)


@pytest.mark.parametrize(("more", "point"), amount([((), Point.REMOVED_ONE)], long=CLEANINGS), ids=str)
def test_killed_while_it_cleans(
    abfs: AbfsStub, table: Location, jobs: Jobs, tmp_path: Path, more: tuple[str, ...], point: str
) -> None:
    before = rows(abfs, table, tmp_path)
    jobs.good("major_compact", "--location", str(table), *ALL)
    was_killed = killed_at(point, jobs, tmp_path, "cleaner", *NOW, *more)
    assert was_killed or (more and point == Point.REMOVED_HIDDEN)
    assert rows(abfs, table, tmp_path) == before
    jobs.good("cleaner", *NOW, *more)
    assert rows(abfs, table, tmp_path) == before
    settle(abfs, table, jobs, tmp_path, before)


@pytest.mark.parametrize("point", amount([Point.UNDO_MOVED], long=UNDOING), ids=str)
def test_killed_while_it_undoes(abfs: AbfsStub, table: Location, jobs: Jobs, tmp_path: Path, point: str) -> None:
    before, there = rows(abfs, table, tmp_path), names(abfs, table)
    jobs.good("minor_compact", "--location", str(table), *ALL, *TWO_RENAMES)
    assert killed_at(point, jobs, tmp_path, "undo", "1", "--nobody-reads")
    undone = jobs.good("undo", "1", "--nobody-reads").document["undo"]["state"]
    assert undone == ("already undone" if point == Point.UNDONE else "undone")
    assert rows(abfs, table, tmp_path) == before
    assert [name for name in names(abfs, table) if name[0] != "_"] == there


@pytest.mark.parametrize(("kind", "point"), amount([("major_compact", Point.CHECKED)], long=COMPACTIONS), ids=str)
def test_a_service_that_goes_away_and_comes_back(
    abfs: AbfsStub, table: Location, jobs: Jobs, tmp_path: Path, kind: str, point: Point
) -> None:
    """The run fails with a line that names the account, as does one in the meantime; a later one does it all."""
    before = rows(abfs, table, tmp_path)

    def run() -> Ran:
        return jobs(kind, "--location", str(table), *KINDS[kind][0])

    with stopped_at(point, run, tmp_path / "answer") as child:
        with abfs.away():
            child.wake()
            failed = child.ran()
            meanwhile = Child(run, tmp_path / "meanwhile").ran()
        assert meanwhile.status == 1
        for ran in (failed, meanwhile) if failed.status else (meanwhile,):
            told = f"{abfs.authority} cannot be reached, or went away"
            assert [line for line in ran.err.splitlines() if told in line and table.authority in line], ran.err
        # from the last rename on all is done that counts; the queue knows it
        assert failed.status == 1 or COMMON.index(Point.FIRST_RENAMED) <= COMMON.index(point), failed
    settle(abfs, table, jobs, tmp_path, before)
