"""The cache of compiled kernels: files that a run refuses to load, because loading them runs code."""

import hashlib
import os
from pathlib import Path

import pytest

from acidlib.orc.kernels import jit

_WHOLE = hashlib.sha256(b"kernel").digest() + b"kernel"


def _written(directory: Path) -> Path:
    assert jit._write(directory, "a.nbc", _WHOLE)
    return directory / "a.nbc"


@pytest.mark.parametrize("umask", [0o077, 0o022, 0o002, 0o000])
def test_a_file_of_this_user_is_read_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        path = _written(tmp_path)
    finally:
        os.umask(before)
    assert jit._read(path, is_installed=False) == b"kernel"


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_can_write_counts_only_in_an_installation(tmp_path: Path, mode: int) -> None:
    path = _written(tmp_path)
    path.chmod(mode)
    assert jit._read(path, is_installed=False) is None
    assert jit._read(path, is_installed=True) == b"kernel"


def test_a_file_of_another_user_counts_only_in_an_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _written(tmp_path)
    status = list(path.stat())
    for owner, content in ((os.geteuid(), b"kernel"), (0, b"kernel"), (os.geteuid() + 1, None)):
        status[4] = owner
        monkeypatch.setattr(os, "fstat", lambda _file, status=tuple(status): os.stat_result(status))
        assert jit._read(path, is_installed=False) == content
        assert jit._read(path, is_installed=True) == b"kernel"


def test_a_directory_that_others_can_write_and_a_link_count_for_nothing(tmp_path: Path) -> None:
    """In a shared directory another user plants a link to a directory or a file, or waits for a directory's rights."""
    shared, own = tmp_path / "shared" / "acidlib", tmp_path / "own"
    own.mkdir()
    shared.parent.mkdir()
    _written(own)
    shared.symlink_to(own)
    assert jit._read(shared / "a.nbc", is_installed=False) is None
    assert not jit._write(shared, "b.nbc", _WHOLE)
    assert [path.name for path in own.iterdir()] == ["a.nbc"]
    shared.unlink()
    shared.mkdir(mode=0o755)
    (shared / "a.nbc").symlink_to(own / "a.nbc")
    assert jit._read(shared / "a.nbc", is_installed=False) is None
    (shared / "a.nbc").unlink()
    (shared / "a.nbc").hardlink_to(own / "a.nbc")
    assert jit._read(shared / "a.nbc", is_installed=False) is None
    (shared / "a.nbc").unlink()
    os.mkfifo(shared / "a.nbc")
    assert jit._read(shared / "a.nbc", is_installed=False) is None
    path = _written(shared)
    assert jit._read(path, is_installed=False) == b"kernel"
    shared.chmod(0o777)
    assert jit._read(path, is_installed=False) is None
    assert jit._write(shared, "b.nbc", _WHOLE)
    assert shared.stat().st_mode & 0o777 == 0o755


def test_the_users_own_directory_comes_behind_a_shared_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "shared"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    _, *directories = jit._directories()
    assert directories == [tmp_path / "shared" / "acidlib", tmp_path / "own" / "acidlib"]


def test_a_missing_and_a_damaged_file_are_not_there(tmp_path: Path) -> None:
    assert jit._read(tmp_path / "a.nbc", is_installed=False) is None
    path = _written(tmp_path)
    path.write_bytes(_WHOLE[:-1])
    assert jit._read(path, is_installed=True) is None
