"""Removing: what the plan names, nothing else, never through a link; and litter of dead runs, after a day."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from located import at

from acidlib.acid.listing import ListedFile
from acidlib.errors import ConflictError, RefusedError, RetryError
from acidlib.location import Location
from acidlib.stores.filesystem import RenameFileSystem
from acidlib.stores.listing import list_location
from acidlib.stores.removing import RemovalReport, Removed, find_litter, remove_paths
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.renaming.store import RenameStore, try_to_remove_staging
from unit.stores.places import FS, recorded, stage


@dataclass
class Held:
    """A claim that nobody takes over."""

    location: Location
    token: str = "ours"

    def assert_mine(self) -> None:
        """It is."""


def removed(
    table: Path,
    *paths: str,
    trash: str | None = None,
    known: Collection[ListedFile] | None = None,
    fs: RenameFileSystem = FS,
) -> RemovalReport:
    """What is removed of what lies in a table, or moved to the trash."""
    store: Any = RenameStore(fs)
    to_trash = None if trash is None else store.trash(at(table), trash)
    held: Any = Held(at(table))
    return remove_paths(store, held, paths, known=known, is_seen=False, to_trash=to_trash)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    location = tmp_path / "t"
    for path in (
        "base_1/bucket_00000",
        "base_1/_orc_acid_version",
        "delta_2_2/bucket_00000",
        "sub/000000_0",
        "000001_0",
    ):
        (location / path).parent.mkdir(parents=True, exist_ok=True)
        (location / path).write_bytes(b"12345")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/precious").touch()
    return location


def listed(location: Path) -> frozenset[ListedFile]:
    return frozenset(list_location(FS, at(location)).files)


def names(location: Path) -> set[str]:
    return {str(path.relative_to(location)) for path in location.rglob("*") if not path.is_dir()}


def test_directories_and_files_are_removed_and_counted(table: Path) -> None:
    identity = FS.identity(str(table / "base_1"))
    report = removed(table, "base_1", "sub/000000_0", "000001_0", "delta_9_9", "gone/000000_0")
    assert report.removed == (
        Removed(path="base_1", files=2, bytes=10, identity=identity),
        Removed(path="sub/000000_0", files=1, bytes=5),
        Removed(path="000001_0", files=1, bytes=5),
    )
    assert report.failed == {}
    assert names(table) == {"delta_2_2/bucket_00000"}


def test_trash_moves_aside(table: Path) -> None:
    report = removed(table, "base_1", "sub/000000_0", trash="2024-01-01T00-00-00")
    assert [(item.path, item.bytes) for item in report.removed] == [("base_1", 10), ("sub/000000_0", 5)]
    assert names(table) == {
        "_acidlib_trash/2024-01-01T00-00-00/base_1/bucket_00000",
        "_acidlib_trash/2024-01-01T00-00-00/base_1/_orc_acid_version",
        "_acidlib_trash/2024-01-01T00-00-00/sub/000000_0",
        "delta_2_2/bucket_00000",
        "000001_0",
    }
    again = removed(table, "delta_2_2", trash="2024-01-01T00-00-00")
    assert [item.path for item in again.removed] == ["delta_2_2"]


def test_one_failure_does_not_stop_the_others(table: Path) -> None:
    class Failing(LocalFileSystem):
        def remove_tree(self, root: str, relative: str, **more: str) -> None:
            if relative == "base_1":
                raise RetryError("Cannot remove base_1: the permission is missing")
            super().remove_tree(root, relative, **more)

    report = removed(table, "base_1", "delta_2_2", fs=Failing())
    assert [item.path for item in report.removed] == ["delta_2_2"]
    assert [*report.failed.items()] == [("base_1", "Cannot remove base_1: the permission is missing")]


@pytest.mark.parametrize("path", ["../outside", "base_1/../../outside", "", ".", "/etc", "base_1/", "a//b"])
@pytest.mark.parametrize("trash", [None, "now"])
def test_nothing_beyond_the_location(table: Path, path: str, trash: str | None) -> None:
    before = names(table.parent)
    report = removed(table, path, trash=trash)
    assert [*report.failed] == [path]
    assert names(table.parent) == before
    with pytest.raises(RefusedError):
        FS.remove_tree(str(table), path)


@pytest.mark.parametrize("trash", [None, "now"])
@pytest.mark.parametrize("path", ["link", "link/precious", "base_1"])
def test_never_through_a_symbolic_link(table: Path, path: str, trash: str | None) -> None:
    (table / "link").symlink_to(table.parent / "outside")
    (table / "base_1/inner").symlink_to(table.parent / "outside")
    report = removed(table, path, trash=trash)
    assert [*report.failed] == [path]
    assert "symbolic link" in report.failed[path]
    assert (table.parent / "outside/precious").exists()
    assert (table / "base_1/bucket_00000").exists()


def test_a_link_inside_a_removed_tree_is_unlinked_only(table: Path) -> None:
    (table / "base_1/inner").symlink_to(table.parent / "outside")
    FS.remove_tree(str(table), "base_1")
    assert not (table / "base_1").exists()
    assert (table.parent / "outside/precious").exists()
    with pytest.raises(ConflictError, match="no such file"):
        FS.remove_tree(str(table), "base_1")


@pytest.mark.parametrize("trash", ["a/b", "..", ""])
def test_the_trash_is_one_name(table: Path, trash: str) -> None:
    before = names(table.parent)
    with pytest.raises(RefusedError):
        removed(table, "base_1", trash=trash)
    assert names(table.parent) == before


def test_the_trash_may_not_be_a_link(table: Path) -> None:
    (table / "_acidlib_trash").symlink_to(table.parent / "outside")
    with pytest.raises(ConflictError, match="already exists"):
        removed(table, "base_1", trash="now")
    assert names(table.parent / "outside") == {"precious"}


@pytest.mark.parametrize("trash", [None, "now"])
@pytest.mark.parametrize(
    "late", ["base_1/bucket_00001", "base_1/sub/000000_0", "base_1/bucket_00000", "000001_0"], ids=lambda one: one
)
def test_what_was_written_after_the_listing_stays(table: Path, late: str, trash: str | None) -> None:
    known = listed(table)
    (table / late).parent.mkdir(exist_ok=True)
    (table / late).write_bytes(b"54321")
    os.utime(table / late, (1e9, 1e9))
    path = late.partition("/")[0]
    before = names(table)
    report = removed(table, "delta_2_2", path, trash=trash, known=known)
    assert [item.path for item in report.removed] == ["delta_2_2"]
    ((failed, reason),) = [*report.failed.items()]
    assert failed == path
    assert f"{late}: it was written after the listing" in reason
    assert (table / late).read_bytes() == b"54321"
    assert {name for name in names(table) if "_trash" not in name} == before - {"delta_2_2/bucket_00000"}
    assert [item.path for item in removed(table, path, known=listed(table)).removed] == [path]


def test_what_another_removes_meanwhile_and_what_nobody_reads_is_in_nobodys_way(table: Path) -> None:
    known = listed(table)
    (table / "base_1/bucket_00000").unlink()
    (table / "base_1/_late").touch()
    (table / "base_1/.hidden").mkdir()
    (table / "base_1/.hidden/file").touch()
    (table / "000001_0").unlink()
    report = removed(table, "base_1", "000001_0", known=known)
    assert [item.path for item in report.removed] == ["base_1"]
    assert report.failed == {}


DAY = 86_400.0
NOW = 1_700_000_000.0


def _age(root: Path, seconds: float) -> None:
    for path in [*root.rglob("*"), root]:
        os.utime(path, (NOW - seconds, NOW - seconds))


@pytest.mark.usefixtures("way")
def test_litter_of_dead_runs_goes_after_a_day(tmp_path: Path) -> None:
    dead = stage(tmp_path, "base_0000004", unique="dead")[0]
    stage(tmp_path, "base_0000004", unique="young")
    stage(tmp_path, "base_0000004", unique="growing")
    for name, content in (("_tmp_foreign", True), ("_tmp_empty", False), ("delta_0000001_0000001", True)):
        (tmp_path / name).mkdir()
        if content:
            (tmp_path / name / "file").touch()
    (tmp_path / "_acidlib_claim.t").mkdir()
    (tmp_path / "_acidlib_claim.t" / "t.json").write_bytes(b"{")
    (tmp_path / "_acidlib_claimed").mkdir()
    unfinished = "_acidlib_trash.0123456789abcdef0123456789abcdef.tmp"
    for name in (unfinished, unfinished.replace("ab", "yz"), unfinished + "x", "_acidlib_trash", "_other" + unfinished):
        (tmp_path / name).mkdir()
    full = tmp_path / unfinished.replace("ab", "aa")
    full.mkdir()
    (full / "file").touch()
    (tmp_path / unfinished.replace("ab", "bb")).touch()
    recorded(tmp_path)
    _age(tmp_path, DAY + 1)
    _age(tmp_path / "_tmp_young", DAY - 1)
    os.utime(tmp_path / "_tmp_growing/base_0000004/bucket_00000", (NOW, NOW))
    found = find_litter(FS, str(tmp_path), now=NOW)
    ours = {"_acidlib_claim.t", "_tmp_dead", "_tmp_empty", unfinished}
    assert {item.name for item in found} == ours
    sizes = {item.name: item.bytes for item in found}
    assert sizes["_tmp_dead"] > len("base_0000004")
    assert all(item.idle_seconds == pytest.approx(DAY + 1) for item in found)
    assert try_to_remove_staging(FS, str(tmp_path), dead) is None
    assert not Path(dead).exists()
