"""What is published belongs to whom the table does, whoever runs the job and whatever its umask is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from acidlib.stores.renaming.local import LocalFileSystem
from integration.harness import Jobs, fixture


@pytest.fixture
def narrow() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def rights(path: Path) -> tuple[int, int, int]:
    status = path.lstat()
    return status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)


@pytest.mark.pairs
@pytest.mark.parametrize("mode", [0o2775, 0o750, 0o700])
@pytest.mark.parametrize("kind", ["major", "minor"])
def test_owner_group_and_mode_of_the_table(jobs: Jobs, tmp_path: Path, narrow: None, kind: str, mode: int) -> None:
    place = fixture("hive3/a_crud", tmp_path / "t")
    is_root = os.geteuid() == 0
    owner, group = (12_345, 54_321) if is_root else (os.geteuid(), os.getegid())
    os.chown(place, owner, group)
    place.chmod(mode)
    two_renames = ("--minor-as-major-bytes", "0")
    (entry,) = jobs.good(f"{kind}_compact", "--location", place, "--all-committed", *two_renames).compactions
    assert len(entry["output_directories"]) == (1 if kind == "major" else 2)
    for name in entry["output_directories"]:
        assert rights(place / name) == (owner, group, mode)
        files = list((place / name).iterdir())
        assert {file.name for file in files} >= {"bucket_00000", "_orc_acid_version"}
        assert {rights(file) for file in files} == {(owner, group, mode & 0o666)}


def test_what_may_not_be_changed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: object) -> None:
        raise PermissionError(*arguments)

    made = tmp_path / "made"
    made.mkdir()
    (made / "file").touch()
    before = rights(made)
    monkeypatch.setattr(os, "fchown", refused)
    monkeypatch.setattr(os, "fchmod", refused)
    LocalFileSystem().inherit(str(made), str(tmp_path))
    assert rights(made) == before


def test_no_link_is_followed(tmp_path: Path) -> None:
    made, other = tmp_path / "made", tmp_path / "other"
    made.mkdir()
    other.touch(mode=0o600)
    (made / "_link").symlink_to(other)
    with pytest.raises(Exception, match="link"):
        LocalFileSystem().inherit(str(made), str(tmp_path))
    assert rights(other)[2] == 0o600
