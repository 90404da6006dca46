"""Stores that publish by renames, for the suite that every store has to stand."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

from claim_directories import CHANGES
from store_races import Opened, Watch

from acidlib.location import Location
from acidlib.stores.filesystem import RenameFileSystem
from acidlib.stores.renaming.store import RenameStore
from acidlib.stores.stores import Stores

_NUMBERS = count()


def renaming_files(stores: Stores, location: Location) -> RenameFileSystem:
    """The file system of a store that publishes by renames."""
    fs = stores.fs(location)
    assert isinstance(fs, RenameFileSystem)
    return fs


class _Watched:
    """A file system whose changes are done by a `Watch`."""

    def __init__(self, fs: RenameFileSystem, watch: Watch) -> None:
        self._fs = fs
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._fs, name)
        if name not in CHANGES:
            return call
        return lambda *arguments, **more: self._watch(name, lambda: call(*arguments, **more))


@dataclass(frozen=True, slots=True)
class RenameStoreUnderTest:
    """One of them, below a directory."""

    stores: Stores
    root: Location
    apart: int = 1

    def new_place(self) -> Location:
        return self.root.child(f"t{next(_NUMBERS)}")

    def lay(self, path: str, data: bytes | None) -> None:
        if data is None:
            renaming_files(self.stores, self.root).make_directory(path)
        else:
            self._write(path, data)

    def open(self, watch: Watch) -> Opened:
        fs: Any = _Watched(renaming_files(self.stores, self.root), watch)
        return Opened(
            store=RenameStore(fs), fs=fs, write=lambda path, data: watch("write", lambda: self._write(path, data))
        )

    def _write(self, path: str, data: bytes) -> None:
        sink = self.stores.data(self.root).create(path)
        sink.write(data)
        sink.close()
