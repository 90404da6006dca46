"""Orphans: what belongs to nobody is listed, and removed only when that is asked for."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from claim_directories import lay_claim
from judges import merge

from acidlib.points import Point
from integration.children import killed_at
from integration.harness import Jobs, fixture, names, tree

DAY = 86_400


def put(place: Path, name: str, days: float) -> Path:
    """A directory with a file of ten bytes, untouched for so long."""
    folder = place / name
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "bucket_00000").write_bytes(b"x" * 10)
    aged(folder, days)
    return folder


def aged(folder: Path, days: float) -> None:
    for path in (*sorted(folder.rglob("*"), reverse=True), folder):
        os.utime(path, (time.time() - days * DAY,) * 2)


@pytest.fixture
def part(tmp_path: Path) -> Path:
    return fixture("hive3/b_part", tmp_path / "db.db" / "b_part")


def listed(jobs: Jobs, *words: str | Path) -> dict[str, list[str]]:
    """The paths that are told, by partition."""
    found = jobs.good("cleaner", "--orphans", *words).document["cleanings"]
    trash = "_acidlib_trash" if "--trash" in words else "orphan"
    assert all(trash in entry["reason"] for entry in found)
    return {entry["partition"]: [item["path"] for item in entry["removed"]] for entry in found}


def test_listed_first_and_removed_when_asked_for(jobs: Jobs, part: Path) -> None:
    one, two = part / "dt=2024-01-01", part / "dt=2024-01-02"
    put(one, "_tmp_1a2b", 4)
    put(one, ".hive-staging_hive_2024-01-01_00-00-00_000_1-1", 4)
    put(one, "_tmp_young", 2)
    put(one, "_acidlib_trash", 9)
    put(one, "_other", 9)
    put(two, "_tmp_3c", 4)
    rows = {place: merge.read(place) for place in (one, two)}
    before = tree(part)
    wanted = {
        "dt=2024-01-01": [".hive-staging_hive_2024-01-01_00-00-00_000_1-1", "_tmp_1a2b"],
        "dt=2024-01-02": ["_tmp_3c"],
    }
    assert listed(jobs, "--location", part) == wanted
    assert listed(jobs, "--location", part, "--dry-run", "--trash") == wanted
    assert listed(jobs, "--warehouse", part.parent.parent, "--older-than", "5d") == {}
    assert listed(jobs, "--warehouse", part.parent.parent, "--partition", "dt=*-02") == {
        "dt=2024-01-02": wanted["dt=2024-01-02"]
    }
    assert tree(part) == before
    found = jobs.good("cleaner", "--orphans", "--location", part, "--delete").document
    assert [entry["state"] for entry in found["cleanings"]] == ["succeeded", "succeeded"]
    assert found["totals"]["bytes_removed"] == 30
    assert {name for name in names(one) if name[0] in "_."} == {"_tmp_young", "_acidlib_trash", "_other"}
    assert listed(jobs, "--location", part) == {}
    assert {place: merge.read(place) for place in (one, two)} == rows


def test_what_may_be_hives_is_left_for_a_day(jobs: Jobs, part: Path) -> None:
    place = part / "dt=2024-01-01"
    for name in ("_tmp_1a2b", ".hive-staging_hive_1"):
        put(place, name, 0.9)
        put(place, f"{name}2", 1.1)
    ours = put(place, "_tmp_ours", 0.1)
    (ours / "_acidlib_staging").write_text("{}")
    aged(ours, 0.1)
    found = listed(jobs, "--location", part, "--older-than", "0s", "--delete")
    assert sorted(found["dt=2024-01-01"]) == [".hive-staging_hive_12", "_tmp_1a2b2", "_tmp_ours"]


def test_moved_aside(jobs: Jobs, part: Path) -> None:
    place = part / "dt=2024-01-01"
    put(place, "_tmp_1a2b", 4)
    jobs.good("cleaner", "--orphans", "--location", part, "--trash")
    (moved,) = (place / "_acidlib_trash").iterdir()
    assert names(moved) == ["_tmp_1a2b"]
    assert not (place / "_tmp_1a2b").exists()


def test_what_is_worked_on_or_has_to_be_finished_is_none(jobs: Jobs, tmp_path: Path) -> None:
    place = fixture("hive3/a_crud", tmp_path / "t")
    two_renames = ("--all-committed", "--minor-as-major-bytes", "0")
    assert killed_at(Point.FIRST_RENAMED, lambda: jobs("minor_compact", "--location", place, *two_renames))
    (staging,) = (path for path in place.iterdir() if path.name.startswith("_tmp_"))
    aged(staging, 9)
    assert listed(jobs, "--location", place) == {}
    jobs.good("minor_compact", "--location", place, *two_renames)
    put(place, "_tmp_1a2b", 4)
    claim = lay_claim(place)
    assert listed(jobs, "--location", place, "--delete") == {}
    assert (place / "_tmp_1a2b").is_dir()
    shutil.rmtree(claim)
    assert listed(jobs, "--location", place, "--delete") == {None: ["_tmp_1a2b"]}


def test_a_link_is_none(jobs: Jobs, tmp_path: Path) -> None:
    place = fixture("hive3/a_crud", tmp_path / "t")
    elsewhere = put(tmp_path, "elsewhere", 9)
    (place / "_tmp_link").symlink_to(elsewhere)
    put(place, "_tmp_holds_a_link", 9)
    (place / "_tmp_holds_a_link" / "link").symlink_to(elsewhere)
    jobs.good("cleaner", "--orphans", "--location", place, "--older-than", "0s", "--delete")
    assert (place / "_tmp_link").is_symlink()
    assert (elsewhere / "sub" / "bucket_00000").read_bytes() == b"x" * 10


@pytest.mark.parametrize(
    "words",
    [
        ("--orphans",),
        ("--delete",),
        ("--older-than", "1d"),
        ("--orphans", "--location", "/t", "--warehouse", "/w"),
        ("--orphans", "--location", "/t", "--delete", "--trash"),
        ("--orphans", "--location", "/t", "--delete", "--dry-run"),
    ],
)
def test_wrong_usage(jobs: Jobs, words: tuple[str, ...]) -> None:
    assert jobs("cleaner", *words).status == 2


def test_no_faster_than_allowed(jobs: Jobs, part: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = part / "dt=2024-01-01"
    for number in range(3):
        put(place, f"_tmp_{number}", 4)
    rate = ("--set", "acidlib.cleaner.files.per.second=20")
    start = time.monotonic()
    jobs.good("cleaner", "--orphans", "--location", part, "--delete", *rate)
    assert time.monotonic() - start >= 2 / 20  # from the first file to the last of three
