"""Whichever call of the system fails, no descriptor of a place is left open."""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from located import at

from acidlib.errors import AcidError
from acidlib.stores.filesystem import RenameFileSystem
from acidlib.stores.listing import list_location
from acidlib.stores.renaming.local import LocalDataFiles, LocalFileSystem
from acidlib.stores.renaming.store import RenameStage, RenameStore
from unit.stores.places import DELETES, DELTA, INPUTS, fine, stage

pytestmark = pytest.mark.usefixtures("way")

CALLS = (
    *("open", "dup", "fstat", "stat", "listdir", "scandir", "fsync", "pread", "write", "utime", "fchmod", "fchown"),
    *("mkdir", "rename", "unlink", "rmdir", "fdopen"),
)


def read(_: RenameFileSystem, place: Path) -> None:
    path = place / INPUTS[0] / "bucket_00000"
    with closing(LocalDataFiles().open(str(path), 4)) as source:
        source.read(0, 4)


def write(_: RenameFileSystem, place: Path) -> None:
    sink = LocalDataFiles().create(str(place / "made"))
    try:
        sink.write(b"text")
        sink.close()
    except BaseException:
        sink.abort()
        raise


def look(fs: RenameFileSystem, place: Path) -> None:
    list_location(fs, at(place))


def claim(fs: RenameFileSystem, place: Path) -> None:
    RenameStore(fs).claim(at(place), owner="o", token="t", now=1.0).release()


def publish(fs: RenameFileSystem, place: Path) -> None:
    staging, staged = stage(place, DELTA, DELETES)
    RenameStage(fs, str(place), staging).publish(staged, inputs=INPUTS, last_check=fine)


def remove(fs: RenameFileSystem, place: Path) -> None:
    store = RenameStore(fs)
    hidden = store.hide(at(place), INPUTS[0], "u")
    store.remove(at(place), hidden)
    store.make_durable(at(place))


class Failing:
    """Has the `number`-th of the calls fail."""

    def __init__(self, patch: pytest.MonkeyPatch, number: int) -> None:
        self.left = number
        for name in CALLS:
            patch.setattr(os, name, self.of(getattr(os, name)))

    def of(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            self.left -= 1
            if not self.left:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(*arguments, **more)

        return call


def open_below(place: Path) -> list[str]:
    opened = []
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of this look
            opened.append(str(path.readlink()))
    return [path for path in opened if str(place) in path]


def left_open(place: Path) -> list[str]:
    """What stays open also when cycles are collected, which takes long beside many tests."""
    if open_below(place):
        gc.collect()
    return open_below(place)


@pytest.mark.parametrize("work", [read, write, look, claim, publish, remove], ids=lambda work: work.__name__)
def test_none_is_left_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[RenameFileSystem, Path], None]
) -> None:
    for number in count(1):
        place = tmp_path / str(number)
        for name in INPUTS:
            (place / name).mkdir(parents=True)
            (place / name / "bucket_00000").write_bytes(b"rows")
        fs = LocalFileSystem()
        with monkeypatch.context() as patch:
            failing = Failing(patch, number)
            with suppress(AcidError, OSError):
                work(fs, place)
        del fs
        assert left_open(place) == [], f"after call {number} has failed"
        if failing.left > 0:
            break
    assert number > 2
