"""Tables on mounts that do not know a rename which never replaces: the same work and the same fences, or a clear no."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from judges import merge
from mounts import refuse_flag

from acidlib.points import Point
from integration.children import Child, killed_at, stopped_at
from integration.harness import Jobs, at_time, fixture, names, visible
from integration.test_kill_points import settle

ALL = ("--all-committed",)
KINDS = {"major": (), "minor": ("--minor-as-major-bytes", "0")}


@pytest.fixture
def place(mount: Path) -> Path:
    """A table on a mount of FUSE."""
    return fixture("hive3/a_crud", mount / "db.db" / "crud")


@pytest.mark.parametrize("kind", KINDS)
def test_compacted_and_cleaned_on_a_mount(jobs: Jobs, place: Path, kind: str) -> None:
    rows = merge.read(place)
    ran = jobs.good(f"{kind}_compact", "--location", place, *ALL, *KINDS[kind])
    assert ran.states == ["ready for cleaning"]
    assert merge.read(place) == rows
    jobs.good("cleaner", "--retention", "0s", "--trash")
    assert visible(place) == sorted(ran.compactions[0]["output_directories"])
    assert merge.read(place) == rows
    assert [name for name in names(place) if name.startswith("_")] == ["_acidlib_trash"]


@pytest.mark.parametrize("point", [Point.CLAIMED, Point.ACCEPTED, Point.RECORDED, Point.FIRST_RENAMED])
def test_killed_on_a_mount(jobs: Jobs, place: Path, point: Point) -> None:
    rows = merge.read(place)
    assert killed_at(point, lambda: jobs("minor_compact", "--location", place, *ALL, *KINDS["minor"]))
    settle(jobs, place, "minor_compact", KINDS["minor"], rows)


@pytest.mark.parametrize("point", [Point.CHECKED, Point.FIRST_RENAMED])
def test_asleep_on_a_mount(
    jobs: Jobs, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: Point
) -> None:
    rows = merge.read(place)
    run = ("--location", place, *ALL, *KINDS["minor"])
    with stopped_at(point, lambda: jobs("minor_compact", *run), tmp_path / "answer") as zombie:
        at_time(monkeypatch, 3600)
        jobs("minor_compact", *run, queue_url=f"{jobs.queue_url}2")
        assert merge.read(place) == rows
        seen = visible(place)
        zombie.wake()
        assert zombie.ran().states == ["conflict"]
    assert (visible(place), merge.read(place)) == (seen, rows)


def test_of_runs_at_the_same_moment_one_has_the_place(jobs: Jobs, place: Path, tmp_path: Path) -> None:
    rows = merge.read(place)

    def run(number: int) -> Child:
        queue = f"{jobs.queue_url}{number}"
        return Child(
            lambda: jobs("major_compact", "--location", place, *ALL, queue_url=queue), tmp_path / f"answer{number}"
        )

    ended = [child.ran().compactions[0] for child in [run(number) for number in range(3)]]
    assert len([one for one in ended if one["output_directories"]]) == 1, ended
    # who comes after it has nothing left to merge, or is refused
    assert {one["state"] for one in ended} <= {"ready for cleaning", "already compact", "conflict", "refused"}, ended
    assert [name for name in visible(place) if name.startswith("base_")] == ["base_0000004"]
    assert merge.read(place) == rows


@pytest.mark.parametrize("named", [True, False], ids=["one place", "the queue"])
def test_a_mount_on_which_nothing_can_be_claimed_is_no_success(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """From cron only the status tells."""
    place = fixture("hive3/a_crud", tmp_path / "db.db" / "crud")
    before = names(place)

    def no_links(*arguments: object, **more: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    refuse_flag(monkeypatch)
    monkeypatch.setattr(os, "link", no_links)
    where = ("--location", place, *ALL)
    if not named:
        jobs.good("initiator", *where, "--set", "hive.compactor.delta.num.threshold=1")
    ran = jobs("major_compact", *(where if named else ()))
    (entry,) = ran.compactions
    assert (ran.status, entry["state"]) == (1 if named else 3, "failed")
    point = next(path for path in [place, *place.parents] if path.is_mount())
    assert f"the file system of {point} (" in entry["reason"]
    assert names(place) == before
