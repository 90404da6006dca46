"""Disks that are full at any step, rights that are taken away, sources that change: the rows stay as they are."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from judges import merge
from mounts import unmount

from integration.children import without_rights
from integration.harness import Jobs, added, at_time, fixture, names, once_before, tree, visible
from integration.test_kill_points import settle

ALL = ("--all-committed",)
RUNS = {
    "major": ("major_compact", ()),
    "minor of two renames": ("minor_compact", ("--minor-as-major-bytes", "0")),
}
PAGE = 4096


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounts a small file system")
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", path]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no file system may be mounted here")
    try:
        yield path
    finally:
        unmount(path)


def fill(disk: Path, pages: int) -> None:
    """Leave so many pages."""
    filler = disk / "filler"
    free = os.statvfs(disk)
    filler.write_bytes(bytes(free.f_bavail * free.f_frsize))
    assert os.statvfs(disk).f_bavail == 0
    os.truncate(filler, filler.stat().st_size - pages * PAGE)


@pytest.mark.pairs
@pytest.mark.parametrize("queue_too", [False, True], ids=["queue elsewhere", "queue there too"])
@pytest.mark.parametrize("run", RUNS)
def test_a_disk_that_is_full_at_any_step(jobs: Jobs, disk: Path, run: str, queue_too: bool) -> None:
    """Pages are few: for the claim, the marker, the data, the record of two renames, the journal of the queue."""
    kind, options = RUNS[run]
    told: list[str] = []
    for pages in range(40):
        place = fixture("hive3/a_crud", disk / "db.db" / f"crud{pages}")
        rows = merge.read(place)
        here = replace(jobs, queue_url=f"sqlite:///{disk if queue_too else disk.parent}/queue{pages}.db")
        here.good("show_compactions")  # makes its tables
        before = tree(place)
        fill(disk, pages)
        ran = here(kind, "--location", place, *ALL, *options)
        (disk / "filler").unlink()
        assert merge.read(place) == rows
        whole = [name for name in added(before, tree(place)) if not name.startswith("_")]
        assert len(whole) in (0, 2 if options else 1), "all of a result or nothing"
        done = ran.begun and ran.states == ["ready for cleaning"]
        if not done:
            assert ran.status == 1
            told.append(ran.told)
            assert "unexpected" not in told[-1]
            settle(here, place, kind, options, rows)
        assert merge.read(place, strict=True) == rows
        shutil.rmtree(place)
        if done:
            break
    assert done
    assert len(told) >= 4
    assert all("no space is left on the device" in one or "is full" in one for one in told), told


def test_a_full_disk_keeps_the_cleaner_from_its_work_and_does_no_harm(jobs: Jobs, disk: Path) -> None:
    place = fixture("hive3/a_crud", disk / "crud")
    rows = merge.read(place)
    jobs.good("major_compact", "--location", place, *ALL)
    before = visible(place)
    fill(disk, 0)
    ran = jobs("cleaner", "--retention", "0s")
    (entry,) = ran.document["cleanings"]
    assert (ran.status, entry["state"], entry["removed"]) == (3, "failed", [])
    assert "no space is left on the device" in entry["reason"]
    assert visible(place) == before
    (disk / "filler").unlink()
    with pytest.MonkeyPatch.context() as patch:
        at_time(patch, 3600)
        jobs.good("cleaner", "--retention", "0s")
    assert visible(place) == ["base_0000004"]
    assert merge.read(place, strict=True) == rows


# --- rights that are taken away ---------------------------------------------------------------------------------------


@pytest.mark.pairs
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("step", ["stage", "file_task", "publish"])
def test_the_right_to_write_is_taken_away(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str, step: str
) -> None:
    kind, options = RUNS[run]
    place = fixture("hive3/a_crud", tmp_path / "db.db" / "crud")
    rows = merge.read(place)
    # loads what another user may not be allowed to read of the interpreter's files
    jobs.good(kind, "--location", fixture("hive3/a_crud", tmp_path / "db.db" / "other"), *ALL, *options)
    before = tree(place)

    def take_away() -> None:
        staging = [path for path in place.iterdir() if path.name.startswith("_tmp_")]
        for path in (place, *(one for root in staging for one in (root, root / "_attempts"))):
            path.chmod(0o555)

    with monkeypatch.context() as patch:
        once_before(patch, step, take_away)
        ran = without_rights(tmp_path, lambda: jobs(kind, "--location", place, *ALL, *options))
    assert (ran.status, ran.states) == (1, ["failed"])
    assert "the permission is missing" in ran.compactions[0]["reason"]
    for path in (place, *place.glob("_tmp_*"), *place.glob("_tmp_*/_attempts")):
        path.chmod(0o755)
    for path in place.rglob("*"):
        os.chown(path, os.geteuid(), -1)  # claim and staging count for the user who owns them
    assert visible(place) == [name for name in sorted(before) if name[0] not in "_." and "/" not in name]
    assert merge.read(place) == rows
    settle(jobs, place, kind, options, rows)


# --- sources that change ----------------------------------------------------------------------------------------------

SOURCE = "delta_0000002_0000002_0000/bucket_00000"


def change(file: Path, how: str) -> None:
    whole = file.read_bytes()
    if how == "vanishes":
        file.unlink()
    elif how == "its directory vanishes":
        shutil.rmtree(file.parent)
    elif how == "grows":
        file.write_bytes(whole + b"more")
    elif how == "shrinks":
        file.write_bytes(whole[:-10])
    elif how == "is cut to nothing":
        file.write_bytes(b"")
    elif how == "becomes another file of its length":
        other = file.with_name("_other")
        other.write_bytes(bytes(len(whole)))
        other.rename(file)
    elif how == "is overwritten with its own bytes":
        file.write_bytes(whole)
    else:
        file.unlink()
        file.symlink_to("../delta_0000003_0000003_0000/bucket_00000")


@pytest.mark.pairs
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("when", ["stage", "publish"], ids=["before it is read", "after it was read"])
@pytest.mark.parametrize(
    "how",
    [
        "vanishes", "its directory vanishes", "grows", "shrinks", "is cut to nothing",
        "becomes another file of its length", "is overwritten with its own bytes", "becomes a link",
    ],
)  # fmt: skip
def test_a_source_that_changes_is_in_no_result(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str, when: str, how: str
) -> None:
    """What lies there now might be rows that no result has, and the cleaner would take it for merged."""
    kind, options = RUNS[run]
    place = fixture("hive3/a_crud", tmp_path / "db.db" / "crud")
    left: list[dict[str, tuple]] = []

    def happens() -> None:
        change(place / SOURCE, how)
        left.append(tree(place, without=lambda name: name.startswith("_")))

    with monkeypatch.context() as patch:
        once_before(patch, when, happens)
        ran = jobs(kind, "--location", place, *ALL, *options)
    assert (ran.status, ran.states[0]) in ((1, "failed"), (1, "conflict"), (0, "refused"))
    reason = ran.compactions[0]["reason"]
    assert reason.startswith("Cannot ")
    assert "delta_0000002_0000002_0000" in reason
    assert "unexpected" not in reason
    assert {name: facts[:2] for name, facts in tree(place).items()} == {
        name: facts[:2] for name, facts in left[0].items()
    }
    assert [name for name in names(place) if name.startswith("_")] == []
