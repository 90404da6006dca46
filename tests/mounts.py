"""File systems that do not know a rename which never replaces: the system call is refused below us, or a real mount."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acidlib.stores.renaming import local

FLAG = "rename without replacing"
NO_FLAG = "link and plain rename"
WAYS = [FLAG, NO_FLAG]


def refuse_flag(patch: pytest.MonkeyPatch, code: int = errno.EINVAL) -> None:
    """Let the kernel not know the flag of renameat2, in this process and those that are forked from it."""
    patch.setattr(local, "_renameat2", lambda *arguments: code)


def refuse_flag_for_good() -> None:
    """The same in a process that is started for it."""
    refuse_flag(pytest.MonkeyPatch())


def unmount(path: Path) -> None:
    """Take a mount away, also from under a descriptor that an error of this process still holds."""
    gc.collect()  # an error and the frames that it came through hold each other
    subprocess.run(["umount", "--lazy", path], check=True)


@contextmanager
def fuse_mount(root: Path) -> Iterator[Path]:
    """A mount of FUSE below a directory; skips where none can be had."""
    below, above = root / "below", root / "mount"
    below.mkdir()
    above.mkdir()
    try:
        made = subprocess.run(["bindfs", below, above], check=False, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no bindfs")
    if made.returncode:
        pytest.skip(f"nothing can be mounted here: {made.stderr}")
    try:
        assert os.path.ismount(above)
        (above / "probe").mkdir()
        directory = os.open(above, os.O_RDONLY)
        is_unknown = local._renameat2(directory, "probe", directory, "probed") in local._UNSUPPORTED
        os.close(directory)
        if not is_unknown:
            pytest.skip("this FUSE knows the flag")
        (above / "probe").rmdir()
        yield above
    finally:
        unmount(above)
