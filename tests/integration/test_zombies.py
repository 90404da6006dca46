"""A run that sleeps at any point, is taken for dead, and wakes when others have done its work: it changes nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from judges import merge, tables
from long_runs import LONG
from mounts import FLAG, WAYS

from acidlib.points import Point
from integration.children import stopped_at
from integration.harness import Jobs, at_time, names, visible

RUN = ("--all-committed",)
TWO_RENAMES = (*RUN, "--minor-as-major-bytes", "0")
COLUMNS = "struct<a:int,b:string>"
POINTS = [
    Point.CLAIMED,
    Point.WRITTEN,
    Point.ACCEPTED,
    Point.CHECKED,
    Point.RECORDED,
    Point.FIRST_RENAMED,
    Point.SECOND_RENAMED,
    Point.PUBLISHED,
]
ONE_RENAME = [point for point in POINTS if point not in (Point.RECORDED, Point.SECOND_RENAMED)]
KINDS = {"major": RUN, "minor": TWO_RENAMES}
CASES = [("major", point) for point in ONE_RENAME] + [("minor", point) for point in POINTS]
WITH_SUCCESSORS = [
    pytest.param(way, kind, point, successor, id=f"{way}, {kind}, {point}, then {successor}")
    for way in WAYS
    for kind, point in CASES
    for number, successor in enumerate(KINDS)
    # where the flag is not known, renames are what may go another way
    if way == FLAG or (successor == "minor" and point not in (Point.CLAIMED, Point.WRITTEN))
    # a point that both kinds have is followed by one of each; those of two renames alone by either
    if LONG or way != FLAG or point not in ONE_RENAME or (number + (kind == "major") + POINTS.index(point)) % 2
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Inserts and deletes of four transactions."""
    made = tmp_path / "t"
    for write_id in (1, 2, 4):
        rows = [(write_id * 10 + number, f"row {number} of {write_id}") for number in range(5)]
        tables.write_dir(made, tables.delta_name(write_id, write_id), COLUMNS, tables.inserts(write_id, rows))
    write(made, 3, delete=1)
    return made


def write(place: Path, write_id: int, *, delete: int) -> None:
    """One more transaction, which deletes a row that another one inserted."""
    events = tables.deletes(write_id, [(delete, merge.bucket_property(0, 0), 2)])
    tables.write_dir(place, tables.delta_name(write_id, write_id, delete=True), COLUMNS, events)


@pytest.mark.parametrize(("way", "kind", "point", "successor"), WITH_SUCCESSORS, indirect=["way"])
def test_what_wakes_after_others_have_been_there(
    jobs: Jobs,
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    kind: str,
    point: Point,
    successor: str,
) -> None:
    other = f"{jobs.queue_url}2"
    run = (f"{kind}_compact", "--location", place, *KINDS[kind])
    with stopped_at(point, lambda: jobs(*run), tmp_path / "answer") as zombie:
        # the sleeper may hold half a publication: who runs two renames has stated that nobody reads meanwhile
        early = jobs(f"{successor}_compact", "--location", place, *KINDS[successor], queue_url=other)
        assert (early.status, early.states) == (1, ["conflict"])
        at_time(monkeypatch, 3600)
        write(place, 5, delete=4)
        rows = merge.read(place, strict=False)
        done = jobs(f"{successor}_compact", "--location", place, *KINDS[successor], queue_url=other)
        assert done.states == ["ready for cleaning"]
        if point not in (Point.FIRST_RENAMED, Point.RECORDED):
            assert merge.read(place) == rows
        rows = merge.read(place)
        jobs("cleaner", "--retention", "0s", queue_url=other)
        assert merge.read(place) == rows
        seen = visible(place)
        zombie.wake()
        ran = zombie.ran()
    assert merge.read(place, strict=True) == rows
    assert visible(place) == seen
    if point in (Point.SECOND_RENAMED, Point.PUBLISHED) or (kind == "major" and point is Point.FIRST_RENAMED):
        assert ran.states == ["ready for cleaning"], ran.compactions
    else:
        # what slept before it had looked may find that nothing is left to do
        assert ran.states in (["conflict"], ["refused"] if point is Point.CLAIMED else []), ran.compactions
    at_time(monkeypatch, 7200)
    for queue in (jobs.queue_url, other):
        for job in ("major_compact", "minor_compact"):
            jobs(job, queue_url=queue)
            jobs("cleaner", "--retention", "0s", queue_url=queue)
            assert merge.read(place, strict=True) == rows
    at_time(monkeypatch, 3 * 86_400)
    jobs("cleaner", "--retention", "0s")
    assert [name for name in names(place) if name.startswith(("_tmp", "_acidlib"))] == []


@pytest.mark.parametrize("point", [Point.ACCEPTED, Point.VERIFIED])
def test_a_run_that_verifies_what_others_have_taken_away_finds_no_difference(
    jobs: Jobs, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: Point
) -> None:
    run, other = ("major_compact", "--location", place, *RUN), f"{jobs.queue_url}2"
    with stopped_at(point, lambda: jobs(*run, "--verify"), tmp_path / "answer") as zombie:
        at_time(monkeypatch, 3600)
        assert jobs(*run, queue_url=other).states == ["ready for cleaning"]
        seen = visible(place)
        zombie.wake()
        ran = zombie.ran()
    assert (ran.status, ran.states, visible(place)) == (1, ["conflict"], seen), ran.compactions
    found = jobs("status", "--location", place).document["findings"]
    assert "result not verified" not in {one["trouble"] for one in found}


@pytest.mark.parametrize("more", [(), ("--trash",)], ids=["deleted", "to the trash"])
def test_a_cleaner_that_wakes_removes_nothing_more(
    jobs: Jobs, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    """Meanwhile the table was made again, and the names that the sleeper knows as obsolete are in use."""
    jobs.good("major_compact", "--location", place, *RUN)
    clean = ("cleaner", "--retention", "0s", *more)
    with stopped_at(Point.REMOVED_ONE, lambda: jobs(*clean), tmp_path / "answer") as zombie:
        (base,) = (path for path in place.iterdir() if path.name.startswith("base_"))
        gone = {path.name for path in place.iterdir()}
        at_time(monkeypatch, 3600)
        other = f"{jobs.queue_url}2"
        write(place, 5, delete=4)
        assert jobs("major_compact", "--location", place, *RUN, queue_url=other).states == ["ready for cleaning"]
        shutil.rmtree(base)
        rows = merge.read(place, strict=False)
        zombie.wake()
        ran = zombie.ran()
    (cleaning,) = ran.document["cleanings"]
    assert cleaning["state"] == "conflict"
    assert "our claim on it is lost" in cleaning["reason"]
    assert "1 were removed before" in cleaning["reason"]
    assert merge.read(place, strict=False) == rows
    assert gone - {base.name, "_acidlib_claim"} <= set(names(place))
