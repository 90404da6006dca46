"""A run that is killed at any named point: every reader sees the same rows at once, and later runs end what is left."""

from __future__ import annotations

from pathlib import Path

import pytest
from judges import merge
from long_runs import amount
from mounts import FLAG, NO_FLAG

from acidlib.points import Point
from integration.children import killed_at
from integration.harness import Jobs, at_time, fixture, names, visible

RUN = ("--all-committed",)
TWO_RENAMES = ("--minor-as-major-bytes", "0")
DAYS = 86_400
# what a compaction passes, whichever it is
COMMON = [
    Point.TAKEN,
    Point.CLAIMED,
    Point.STARTED,
    Point.STAGED,
    Point.CREATED,
    Point.WRITTEN,
    Point.CLOSED,
    Point.PROVED,
    Point.ACCEPTED,
    Point.SEALED,
    Point.CHECKED,
    Point.FIRST_RENAMED,
    Point.PUBLISHED,
    Point.MARKED,
    Point.ENDED,
]
PAIR = [*COMMON, Point.RECORDED, Point.SECOND_RENAMED, Point.UNRECORDED]
CLEANING = [
    Point.CLEANING_CLAIMED,
    Point.CLEANING_PLANNED,
    Point.REMOVED_ONE,
    f"{Point.REMOVED_ONE}:3",
    Point.REMOVED_HIDDEN,
    Point.REMOVED_ALL,
    Point.LITTER_REMOVED,
    Point.CLEANED,
]
UNDOING = [Point.UNDO_RECORDED, Point.UNDO_MOVED, f"{Point.UNDO_MOVED}:2", Point.UNDO_ASIDE, Point.UNDONE]
# by the name of a job, what it is given, and the table
RUNS = {
    "major": ("major_compact", (), "hive3/a_crud", COMMON),
    "major of Hive 4": ("major_compact", (), "hive4/crud_table", COMMON),
    "minor of two renames": ("minor_compact", TWO_RENAMES, "hive3/a_crud", PAIR),
}
# tables of the two generations differ in names alone: in a usual run each point is tried with one of them
TURNS = {"major": COMMON[::2], "major of Hive 4": COMMON[1::2]}
CASES = [
    pytest.param(FLAG, name, point, id=f"{name}, {point}")
    for name, run in RUNS.items()
    for point in amount(TURNS.get(name, run[3]), long=run[3])
]
# what a file system without the flag of renameat2 does in another way
OTHERWISE = [
    Point.CLAIMED,
    Point.ACCEPTED,
    Point.SEALED,
    Point.RECORDED,
    Point.FIRST_RENAMED,
    Point.SECOND_RENAMED,
    Point.UNRECORDED,
]
CASES += [pytest.param(NO_FLAG, "minor of two renames", point, id=f"{NO_FLAG}, {point}") for point in OTHERWISE]


def read(place: Path, *, strict: bool = True) -> list[object]:
    """What a reader of either generation sees."""
    attempts = any(path.name.endswith("_0") for path in place.rglob("bucket_*"))
    return list(merge.read(place, generation=4 if attempts else 3, strict=strict))


def settle(jobs: Jobs, place: Path, kind: str, options: tuple[str, ...], rows: list[object]) -> None:
    """The runs of the next days end what a dead run left: the rows stay, one result is left, nothing waits."""
    with pytest.MonkeyPatch.context() as patch:
        at_time(patch, DAYS / 24)
        jobs.good("initiator", "--location", place, *RUN)
        jobs.good(kind, *options)
        assert read(place) == rows
        jobs.good("cleaner", "--retention", "0s")
        assert read(place) == rows
        at_time(patch, 3 * DAYS)
        again = jobs(kind, "--location", place, *RUN, *options)  # may have nothing to do
        assert set(again.states) <= {"ready for cleaning", "already compact", "refused"}, again
        jobs.good("cleaner", "--retention", "0s")
        at_time(patch, 6 * DAYS)
        jobs.good("cleaner", "--retention", "0s")
        waiting = [row for row in jobs.shown().values() if row["state"] in ("initiated", "working")]
        assert waiting == []
    assert read(place) == rows
    assert [name for name in names(place) if name.startswith(("_tmp", "_acidlib"))] == []


@pytest.mark.parametrize(("way", "run", "point"), CASES, indirect=["way"])
def test_killed_while_it_compacts(jobs: Jobs, tmp_path: Path, way: str, run: str, point: str) -> None:
    kind, options, table, _ = RUNS[run]
    place = fixture(table, tmp_path / "t")
    rows = read(place, strict=False)
    assert killed_at(point, lambda: jobs(kind, "--location", place, *RUN, *options))
    # between two renames a reader sees too much: the caller has stated that nobody reads
    between = options == TWO_RENAMES and point == Point.FIRST_RENAMED
    assert (read(place, strict=False) != rows) is between
    settle(jobs, place, kind, options, rows)
    left = visible(place)
    if kind == "major_compact":
        assert [name.partition("_")[0] for name in left] == ["base"]
    else:
        assert left == ["delete_delta_0000001_0000004", "delta_0000001_0000004"]


@pytest.mark.parametrize(
    ("point", "more"),
    [
        pytest.param(point, more, id=f"{point}-{'to the trash' if more else 'deleted'}")
        for number, point in enumerate(CLEANING)
        for more in amount([((), ("--trash",))[number % 2]], long=[(), ("--trash",)])
        if not (more and point is Point.REMOVED_HIDDEN)
    ],
)
def test_killed_while_it_cleans(jobs: Jobs, tmp_path: Path, point: str, more: tuple[str, ...]) -> None:
    place = fixture("hive3/a_crud", tmp_path / "t")
    rows = read(place, strict=False)
    jobs.good("major_compact", "--location", place, *RUN)
    assert killed_at(point, lambda: jobs("cleaner", "--retention", "0s", *more))
    assert read(place) == rows
    with pytest.MonkeyPatch.context() as patch:
        at_time(patch, DAYS / 24)
        jobs.good("cleaner", "--retention", "0s", *more)
    assert read(place) == rows
    (base,) = visible(place)
    assert base.startswith("base_")
    assert list(place.glob("_acidlib_removed*")) == []
    assert {row["state"] for row in jobs.shown().values()} == {"succeeded"}


@pytest.mark.parametrize(
    ("point", "then"),
    [
        *((point, "undone again") for point in UNDOING),
        *((point, "others come first") for point in (Point.UNDO_MOVED, Point.UNDO_ASIDE)),
    ],
)
def test_killed_while_it_undoes(jobs: Jobs, tmp_path: Path, point: str, then: str) -> None:
    """Until all of the result has left together, whoever comes next puts it back; from then on it is undone."""
    place = fixture("hive3/a_crud", tmp_path / "t")
    rows, before = read(place, strict=False), visible(place)
    jobs.good("minor_compact", "--location", place, *RUN, *TWO_RENAMES)
    undo = ("undo", "1", "--nobody-reads")
    assert killed_at(point, lambda: jobs(*undo))
    seen = read(place, strict=False)
    assert all(row in seen for row in rows)  # at worst a reader sees too much
    assert (seen != rows) is (point == Point.UNDO_MOVED)
    is_undone = point in (Point.UNDO_ASIDE, Point.UNDONE)
    with pytest.MonkeyPatch.context() as patch:
        at_time(patch, DAYS / 24)
        if then == "others come first":
            jobs.good("cleaner", "--retention", "0s")
            assert read(place) == rows
        state = jobs(*undo).document["undo"]["state"]
    if point is Point.UNDONE:
        assert state == "already undone"
    elif then == "others come first" and not is_undone:
        assert state == "refused"  # the cleaner has put it back, and what it was made of is gone
    else:
        assert state == "undone"
        assert visible(place) == before
        assert [row["state"] for row in jobs.shown().values()] == ["undone"]
    assert read(place) == rows
    settle(jobs, place, "minor_compact", TWO_RENAMES, rows)


def test_killed_after_the_initiator_queued(jobs: Jobs, tmp_path: Path) -> None:
    place = fixture("hive3/a_crud", tmp_path / "t")
    rows = read(place, strict=False)
    words = ("--location", place, *RUN, "--set", "hive.compactor.delta.num.threshold=1")
    assert killed_at(Point.QUEUED, lambda: jobs("initiator", *words))
    assert jobs.good("initiator", *words).document["totals"] is not None
    (request,) = jobs.shown().values()
    assert request["state"] == "initiated"
    jobs.good(f"{request['type'].lower()}_compact")
    assert read(place) == rows


@pytest.mark.parametrize("point", [Point.TAKEN, Point.CLAIMED, Point.CREATED])
def test_killed_while_it_drains_the_queue(jobs: Jobs, tmp_path: Path, point: str) -> None:
    """The next run on this machine does the request: its worker is known to have ended."""
    place = fixture("hive3/a_crud", tmp_path / "t")
    rows = read(place, strict=False)
    jobs.good("initiator", "--location", place, *RUN, "--set", "hive.compactor.delta.num.threshold=1")
    assert killed_at(point, lambda: jobs("major_compact"))
    ran = jobs.good("major_compact")
    assert ran.states == ["ready for cleaning"]
    assert "was given back: its run is dead" in ran.document["notes"][0]
    assert f"warning: {ran.document['notes'][0]}" in ran.err, "which cron mails"
    assert read(place) == rows


def test_every_point_is_tried() -> None:
    """But for the commit of a transaction, which needs a metastore, and for verification: see test_verification."""
    tried = {Point(str(case).partition(":")[0]) for case in (*PAIR, *CLEANING, *UNDOING, Point.QUEUED)}
    assert set(Point) - tried == {Point.COMMITTED, Point.VERIFIED}
