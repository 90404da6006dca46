"""Azure Data Lake Storage in the races that every store has to stand, on a stub of ours.

Each request that changes something is a step, and so is each file of a task. A rename's answer is lost on its way, as
the client sees it, and the client has to find out whether it was done.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from long_runs import amount
from servers.abfs import AbfsStub
from store_races import WAYS, Opened, StoreRaces, StoreUnderTest, Watch

from acidlib.errors import RetryError
from acidlib.location import Location
from acidlib.stores.http import LostAnswerError
from acidlib.stores.renaming.abfs import AbfsDataFiles, AbfsFileSystem
from acidlib.stores.renaming.abfs_client import Answer, Container, container_options
from acidlib.stores.renaming.store import RenameStore
from acidlib.stores.stores import Stores

pytestmark = pytest.mark.slow

_NUMBERS = count()


class Watched(Container):
    """A connection whose requests that change something are done by a `Watch`."""

    __slots__ = ("watch",)
    watch: Watch

    def _sent(self, method: str, *rest: Any) -> Answer:
        if method in ("GET", "HEAD"):
            return super()._sent(method, *rest)
        name = "rename_noreplace" if "x-ms-rename-source" in rest[2] else method
        try:
            return self.watch(name, lambda: Container._sent(self, method, *rest))
        except RetryError as error:
            raise LostAnswerError("the answer was lost") from error


@dataclass(frozen=True, slots=True)
class AbfsUnderTest:
    """It, below a directory."""

    stub: AbfsStub
    root: Location
    apart: int = amount(3 * len(WAYS), long=4)

    def new_place(self) -> Location:
        return self.root.child(f"t{next(_NUMBERS)}")

    def connected(self) -> Container:
        return Container(container_options(self.root.authority, self.stub.properties()))

    def lay(self, path: str, data: bytes | None) -> None:
        if data is None:
            AbfsFileSystem(self.connected()).make_directory(path)
        else:
            self._write(path, data)

    def open(self, watch: Watch) -> Opened:
        watched = Watched(self.connected().options)
        watched.watch = watch
        fs = AbfsFileSystem(watched, place=self.root.path)
        return Opened(
            store=RenameStore(fs), fs=fs, write=lambda path, data: watch("write", lambda: self._write(path, data))
        )

    def _write(self, path: str, data: bytes) -> None:
        sink = AbfsDataFiles(self.connected(), place=self.root.path).create(path)
        sink.write(data)
        sink.close()


@pytest.fixture
def under(abfs: AbfsStub, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> StoreUnderTest:
    # its times are whole seconds, as those of the service; this test has to tell apart signs of life that come sooner
    monkeypatch.setattr(abfs, "ticking", request.function.__name__ == "test_a_taker_that_sleeps")
    root = Stores(configuration=abfs.properties()).locate(f"{abfs.new_container()}/races")
    found = AbfsUnderTest(abfs, root)
    found.lay(str(root), None)
    return found


class TestAbfs(StoreRaces):
    """The same as on local disks."""
