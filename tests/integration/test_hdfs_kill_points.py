"""A run on HDFS that is killed at a named point: readers see the same rows, and later runs end what is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hdfs_native import Client
from hdfs_tables import downloaded, uploaded
from judges import merge
from long_runs import amount
from servers.hdfs import Hdfs

from acidlib.location import Location, parse_location
from acidlib.points import KILL_AT, Point
from acidlib.stores.removing import find_litter
from acidlib.stores.renaming.hdfs import HdfsFileSystem
from acidlib.stores.store import CLAIM, STAGING_MARKER, STAGING_PREFIX, TRASH
from integration.children import Child
from integration.harness import AROUND, Jobs, fixture

pytestmark = pytest.mark.live

ALL = ("--all-committed",)
NOW = ("--retention", "0s")
TWO_RENAMES = ("--minor-as-major-bytes", "0")
DAYS = 86_400
# by the name of a job, what it is given, where it is killed, and what is left in the end
RUNS = {
    "one directory": (
        ("major_compact",),
        amount((Point.FIRST_RENAMED,), long=(Point.STAGED, Point.CHECKED, Point.FIRST_RENAMED)),
        ["base_0000004"],
    ),
    "two directories": (
        ("minor_compact", *TWO_RENAMES),
        (Point.CHECKED, Point.RECORDED, Point.FIRST_RENAMED, Point.UNRECORDED),
        ["delete_delta_0000001_0000004", "delta_0000001_0000004"],
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run that is killed, at a table and with a queue of its own."""

    point: Point
    table: Location
    jobs: Jobs


@pytest.fixture(autouse=True)
def configured(hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))


def entries(hdfs: Hdfs, place: Location) -> list[str]:
    return sorted(status.path.rpartition("/")[2] for status in hdfs.client().list_status(place.path))


def rows(hdfs: Hdfs, place: Location, tmp_path: Path) -> list[merge.Row]:
    """What a reader that is not ours sees."""
    return merge.read(downloaded(hdfs, place, tmp_path / "seen/t"), "", generation=3)


def cases(hdfs: Hdfs, tmp_path: Path, points: tuple[Point, ...]) -> list[Case]:
    table = fixture("hive3/a_crud", tmp_path / "t")
    return [
        Case(
            point=point,
            table=uploaded(hdfs, table, "crud"),
            jobs=Jobs(queue_url=f"sqlite:///{tmp_path / f'queue{number}.db'}"),
        )
        for number, point in enumerate(points)
    ]


def kill(cases: list[Case], tmp_path: Path, *words: str, at_table: bool) -> None:
    """All of them at once, as a fork with clients of HDFS waits for some seconds."""

    def start(case: Case) -> Child:
        place = ("--location", str(case.table), *ALL) if at_table else ()

        def run() -> None:
            os.environ[KILL_AT] = case.point
            case.jobs(words[0], *place, *words[1:])

        return Child(run, tmp_path / "answer")

    children = [start(case) for case in cases]
    assert [child.wait() for child in children] == [-signal.SIGKILL] * len(cases)


@pytest.mark.parametrize("way", RUNS)
def test_killed_while_it_compacts(
    hdfs: Hdfs, tmp_path: Path, jobs: Jobs, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    (kind, *options), points, results = RUNS[way]
    killed = cases(hdfs, tmp_path, points)
    before = rows(hdfs, killed[0].table, tmp_path)
    kill(killed, tmp_path, kind, *options, at_table=True)
    for case in killed:
        # between two renames a reader sees too much: the caller has stated that nobody reads
        between = way == "two directories" and case.point == Point.FIRST_RENAMED
        assert (rows(hdfs, case.table, tmp_path) != before) is between, case
        monkeypatch.setattr(AROUND, "clock", time.time)
        again = case.jobs(kind, "--location", str(case.table), *ALL, *options)  # it may find all done
        assert set(again.states) <= {"ready for cleaning", "already compact", "refused"}, again
        assert rows(hdfs, case.table, tmp_path) == before, case
        case.jobs.good("cleaner", *NOW)
        monkeypatch.setattr(AROUND, "clock", lambda: time.time() + 3 * DAYS)
        case.jobs.good("cleaner", "--location", str(case.table), *NOW)
        assert entries(hdfs, case.table) == results, case
        assert rows(hdfs, case.table, tmp_path) == before, case


def test_killed_while_it_undoes(hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = cases(hdfs, tmp_path, (Point.UNDO_MOVED, Point.UNDO_ASIDE))
    before, there = rows(hdfs, killed[0].table, tmp_path), entries(hdfs, killed[0].table)
    for case in killed:
        case.jobs.good("minor_compact", "--location", str(case.table), *ALL, *TWO_RENAMES)
    kill(killed, tmp_path, "undo", "1", "--nobody-reads", at_table=False)
    for case in killed:
        assert case.jobs.good("undo", "1", "--nobody-reads").document["undo"]["state"] == "undone"
        assert rows(hdfs, case.table, tmp_path) == before, case
        assert [name for name in entries(hdfs, case.table) if name[0] != "_"] == there
        assert case.jobs.good("cleaner", *NOW).document["cleanings"] == []
    monkeypatch.setattr(AROUND, "clock", lambda: time.time() + 3 * DAYS)
    for case in killed:
        case.jobs.good("cleaner", *NOW)
        assert entries(hdfs, case.table) == there


def test_killed_while_it_cleans(hdfs: Hdfs, tmp_path: Path, jobs: Jobs) -> None:
    killed = cases(hdfs, tmp_path, (Point.REMOVED_ONE, Point.REMOVED_ALL))
    before = rows(hdfs, killed[0].table, tmp_path)
    for case in killed:
        case.jobs.good("major_compact", "--location", str(case.table), *ALL)
    kill(killed, tmp_path, "cleaner", *NOW, at_table=False)
    for case in killed:
        assert rows(hdfs, case.table, tmp_path) == before, case
        case.jobs.good("cleaner", *NOW)
        assert entries(hdfs, case.table) == ["base_0000004"], case
        assert {row["state"] for row in case.jobs.shown().values()} == {"succeeded"}


# --- what a step leaves whose process ends in the middle of it -------------------------------------------------------


class KilledError(BaseException):
    """Stands for SIGKILL: nothing is done any more."""


@pytest.mark.parametrize("name", [f"{STAGING_PREFIX}run", f"{CLAIM}.token", TRASH])
def test_a_directory_that_has_not_its_name_yet_is_litter(
    hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    place = parse_location(hdfs.new_directory())
    die_at(monkeypatch, "rename", lambda fs: fs.make_directory(f"{place}/{name}"), hdfs)
    assert_litter(hdfs, place)


def test_a_file_that_has_not_its_name_yet_is_litter_with_its_directory(
    hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = parse_location(hdfs.new_directory())
    stage = f"{place}/{STAGING_PREFIX}run"
    HdfsFileSystem(hdfs.authority, hdfs.configuration).make_directory(stage)
    die_at(monkeypatch, "rename", lambda fs: fs.create(f"{stage}/{STAGING_MARKER}", b"{}"), hdfs)
    assert_litter(hdfs, place)


def die_at(patch: pytest.MonkeyPatch, call: str, step: Callable[[HdfsFileSystem], object], hdfs: Hdfs) -> None:
    """A step whose process ends right before a call to the name node."""

    def dies(*_: object, **__: object) -> None:
        raise KilledError

    with patch.context() as dead:
        dead.setattr(Client, call, dies)
        dead.setattr(Client, "delete", dies)
        with pytest.raises(KilledError):
            step(HdfsFileSystem(hdfs.authority, hdfs.configuration))


def assert_litter(hdfs: Hdfs, place: Location) -> None:
    """One hidden entry, which is litter after a day and not before; what others have never is."""
    fs = HdfsFileSystem(hdfs.authority, hdfs.configuration)
    foreign = [f"{TRASH}.mine.tmp", "_other.0123456789abcdef0123456789abcdef.tmp"]
    for name in foreign:
        hdfs.client().mkdirs(f"{place.path}/{name}")
    (left,) = set(entries(hdfs, place)) - set(foreign)
    assert left[0] == "_"
    assert find_litter(fs, place, now=time.time() + 0.9 * DAYS) == ()
    (found,) = find_litter(fs, place, now=time.time() + 1.1 * DAYS)
    assert found.name == left
