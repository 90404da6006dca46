"""The services of a run, handed in once by the job, so that nothing below reads a clock or the environment."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf

from acidlib.config.settings import Settings
from acidlib.execute.task import Runner
from acidlib.location import Location
from acidlib.report.progress import WARNING, Progress
from acidlib.stores.filesystem import FileSystem
from acidlib.stores.probe_records import require_probe
from acidlib.stores.store import Claim, Store
from acidlib.stores.stores import Stores

WORKER_PREFIX = "acidlib-"
"""Every worker id, and every private pool, of this engine begins with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services of one run.

    host       of the driver, for names
    worker_id  unique to the run: `acidlib-<host>-<run>`, signed by its process; no host name is a prefix of it
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
        """Return the file system of a place, to read and remove there."""
        return self.stores.fs(location)

    def store(self, location: Location) -> Store:
        """Return the store of a place, to publish there."""
        return self.stores.store(location)

    def claim_and_revoke(self, location: Location, *, table: str = "") -> Claim:
        """Return this run's claim on a place, as a context manager; ConflictError while another run works there.

        Stages of earlier runs there are revoked: none of these runs can publish any more. RefusedError in a store that
        demands a probe, where none has passed above the place and its table.

        table  the location of the place's table, where a metastore names it
        """
        store = self.store(location)
        if store.demands_probe:
            require_probe(self.stores, location, table=self.stores.locate(table) if table else None)
        claim = store.claim(location, owner=self.worker_id, token=self.unique(), now=self.clock())
        try:
            store.revoke_others(location)
        except BaseException:
            claim.release()
            raise
        return claim

    def warn(self, lines: Iterable[str]) -> None:
        """Show events that an operator has to know of, also where only problems are mailed."""
        for line in lines:
            self.progress.note(line, level=WARNING)

    @property
    def initiator_id(self) -> str:
        """The initiator of requests that are queued automatically: `<host>-acidlib-<run>`."""
        return f"{self.host}-acidlib-{self.worker_id.rpartition('-')[2].partition('.')[0]}"

    def now_ms(self) -> int:
        """Return the time in epoch milliseconds."""
        return int(self.clock() * 1000)


STEP_TIMEOUT = "acidlib.step.timeout"


def step_seconds(settings: Settings) -> float:
    """Return how long a run waits for one answer of a file system."""
    return settings.integer(STEP_TIMEOUT) / 1000 or inf
