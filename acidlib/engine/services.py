"""What the services work with: handed in once by the job, so that nothing below reads a clock or the environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from acidlib.engine.runner import Runner
from acidlib.model.location import Location
from acidlib.report.log import INFO
from acidlib.settings import Settings
from acidlib.storage.filesystem import FileSystem
from acidlib.storage.held import Claim
from acidlib.storage.store import Store
from acidlib.storage.stores import Stores

WORKER_PREFIX = "acidlib-"
"""Every worker id, and every private pool, of this engine begins with it."""


class Progress(Protocol):
    """Tells a person how far the work is; on standard error."""

    def start(self, what: str, total: int) -> None:
        """A piece of work with a number of parts begins."""

    def advance(self, done: int, *, detail: str = "") -> None:
        """So many parts are done; `detail` is what else there is to say of that."""

    def finish(self) -> None:
        """It has ended."""

    def note(self, line: str, *, level: str = INFO, place: str | None = None) -> None:
        """One line about something that has happened, at a place by its name where it was at one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What all parts of one run work with.

    host       of the driver, for names
    worker_id  unique to the run: `acidlib-<host>-<run>`; no host name is a prefix of it
    clock      epoch seconds
    pause      waits for so many seconds
    unique     a new text at each call
    """

    stores: Stores
    runner: Runner
    settings: Settings
    host: str
    worker_id: str
    clock: Callable[[], float]
    pause: Callable[[float], None]
    unique: Callable[[], str]
    progress: Progress

    def fs(self, location: Location) -> FileSystem:
        """What reads and removes at a place."""
        return self.stores.fs(location)

    def store(self, location: Location) -> Store:
        """What publishes at a place."""
        return self.stores.store(location)

    def claim(self, location: Location) -> Claim:
        """A claim of this run on a place, to be used as a context manager; ConflictError while another works there.

        What earlier runs staged there is taken from them: none of them can publish any more.
        """
        store = self.store(location)
        held = store.claim(location, owner=self.worker_id, token=self.unique(), now=self.clock())
        try:
            store.revoke_others(location)
        except BaseException:
            held.release()
            raise
        return held

    @property
    def initiator_id(self) -> str:
        """Who queues what is decided automatically: `<host>-acidlib-<run>`."""
        return f"{self.host}-acidlib-{self.worker_id.rpartition('-')[2]}"

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        return int(self.clock() * 1000)
