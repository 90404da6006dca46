"""Which tables and partitions a job is about, in which order, and how many of them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from acidlib.engine.runner import Done
from acidlib.engine.services import Services
from acidlib.engine.target import Target
from acidlib.engine.tasks import listing_task
from acidlib.errors import AcidError
from acidlib.model.listing import Listing
from acidlib.planning.state import acid_state


class Order(enum.Enum):
    """What goes first: most deltas, most delta bytes, the longest untouched, or by name."""

    DELTAS = "deltas"
    BYTES = "bytes"
    AGE = "age"
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What the command line selects; see the job's help."""

    location: str | None = None
    warehouse: str | None = None
    tables: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    idle_seconds: float | None = None

    def wants_table(self, database: str, table: str) -> bool:
        """Whether a table (its names in lower case) is meant by --table and not by --exclude."""
        name = f"{database}.{table}"
        if any(fnmatchcase(name, pattern.lower()) for pattern in self.exclude):
            return False
        return not self.tables or any(fnmatchcase(name, pattern.lower()) for pattern in self.tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a run may start. `deadline` in epoch seconds, `bytes` of inputs of started partitions."""

    partitions: int | None = None
    bytes: int | None = None
    deadline: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A target with its one listing and the figures that order it; `error` when it could not be looked at."""

    target: Target
    listing: Listing | None
    deltas: int = 0
    bytes: int = 0
    modified: float = 0.0
    error: AcidError | None = None


def look_at(services: Services, targets: Sequence[Target], selection: Selection) -> list[Looked]:
    """List every target in one Spark job and measure it; those that are not idle long enough are left out."""
    if not targets:
        return []
    services.progress.start(f"listing {len(targets)} locations", len(targets))
    try:
        found: list[Done[Listing]] = services.runner.run(
            listing_task,
            [target.location for target in targets],
            group=f"{services.host}-compactor listing",
            on_progress=services.progress.advance,
        )
    finally:
        services.progress.finish()
    looked = [_measured(target, done) for target, done in zip(targets, found, strict=True)]
    if selection.idle_seconds is None:
        return looked
    limit = services.clock() - selection.idle_seconds
    return [one for one in looked if one.error is not None or one.modified <= limit]


def _measured(target: Target, done: Done[Listing]) -> Looked:
    if done.error is not None:
        return Looked(target=target, listing=None, error=done.error)
    listing = done.get()
    try:
        write_ids = target.write_ids(listing).for_compactor()
        state = acid_state(
            listing,
            write_ids,
            generation=target.generation(listing),
            txns=target.understanding.txns,
            ignore_empty_files=True,
        )
    except AcidError as error:
        return Looked(target=target, listing=listing, error=error)
    names = {delta.path for delta in state.deltas}
    return Looked(
        target=target,
        listing=listing,
        deltas=len(state.deltas),
        bytes=sum(file.length for file in listing.files if file.directory in names),
        modified=listing.newest_modification() or 0.0,
    )


def ordered(looked: Iterable[Looked], order: Order) -> list[Looked]:
    """Most urgent first; equal ones by name, so that the same input gives the same order."""
    keys: dict[Order, Callable[[Looked], float]] = {
        Order.DELTAS: lambda one: -one.deltas,
        Order.BYTES: lambda one: -one.bytes,
        Order.AGE: lambda one: one.modified,
        Order.NAME: lambda _: 0,
    }
    return sorted(looked, key=lambda one: (keys[order](one), one.target.name))


class Spending:
    """Counts what was started against a budget; afterwards `stopped` says what ended it, if anything did."""

    def __init__(self, budget: Budget, clock: Callable[[], float]) -> None:
        self._budget = budget
        self._clock = clock
        self._partitions = 0
        self._bytes = 0
        self.stopped: str | None = None

    def within(self, looked: Iterable[Looked]) -> Iterator[Looked]:
        """As many as the budget lets start."""
        for one in looked:
            self.stopped = self._reason(one)
            if self.stopped is not None:
                return
            self._partitions += 1
            self._bytes += _input_bytes(one)
            yield one

    def _reason(self, one: Looked) -> str | None:
        budget = self._budget
        if budget.partitions is not None and self._partitions >= budget.partitions:
            return f"--max-partitions {budget.partitions} is reached"
        if budget.bytes is not None and self._partitions and self._bytes + _input_bytes(one) > budget.bytes:
            return f"--max-bytes {budget.bytes} is reached"
        if budget.deadline is not None and self._clock() >= budget.deadline:
            return "the time budget is spent"
        return None


def _input_bytes(one: Looked) -> int:
    return 0 if one.listing is None else sum(file.length for file in one.listing.files)
