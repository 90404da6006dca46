"""Which tables and partitions a job is about, in which order, and how many of them."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial

from acidlib.engine.runner import Done, in_threads
from acidlib.engine.services import Services
from acidlib.engine.target import ListedPlace, Target
from acidlib.errors import AcidError, MissingError
from acidlib.model.listing import Listing
from acidlib.model.location import Location
from acidlib.planning.stated_write_ids import directory_ids, require_said_of_each, side_files, signs_of_aborts
from acidlib.report.log import WARNING
from acidlib.settings import duration_text
from acidlib.storage.listing import list_location
from acidlib.wording import plural, size_words, utc_words

PORTION = 256
"""Places that are listed at a time, where not all have to be before the first is begun."""


class Order(enum.Enum):
    """What goes first: most deltas, most delta bytes, the longest untouched, or by name."""

    DELTAS = "deltas"
    BYTES = "bytes"
    AGE = "age"
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What the command line selects; see the job's help. `if_exists`: what is named and does not exist is no error."""

    location: Location | None = None
    warehouse: Location | None = None
    tables: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    idle_seconds: float | None = None
    if_exists: bool = False

    def wants_table(self, database: str, table: str) -> bool:
        """Whether a table (its names in lower case) is meant by --table and not by --exclude."""
        name = f"{database}.{table}"
        return not _any_matches(self.exclude, name) and (not self.tables or _any_matches(self.tables, name))

    def names_table(self, full_name: str) -> bool:
        """Return whether --table names it, and not by a glob that others may match as well."""
        return any(name.lower() == full_name for name in self.tables if not set(name) & set("*?["))

    def absent(self, names: Iterable[tuple[str, str]], where: str) -> list[str]:
        """Notes about what --table names and none of the tables (database, name) that are left is; see `note_of`."""
        full = [f"{database}.{table}" for database, table in names]
        without = [name for name in self.tables if not any(_any_matches([name], one) for one in full)]
        if not without:
            return []
        return [self.note_of(MissingError(f"Cannot find {', '.join(without)}: because {where} has such a name"))]

    def note_of(self, error: MissingError) -> str:
        """A note about what is named and does not exist, with --if-exists; else raises the error."""
        if not self.if_exists:
            raise error
        return f"{error}; nothing is done there, as --if-exists says"

    def no_partition(self, tables: Sequence[str]) -> MissingError:
        """The error where partitions are named and none of the tables has one of them."""
        about = tables[0] if len(tables) == 1 else f"{len(tables)} tables"
        return MissingError(f"Cannot find partitions of {about}: because none matches {', '.join(self.partitions)}")


def _any_matches(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern.lower()) for pattern in patterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a run may start. `deadline` in epoch seconds, `bytes` of inputs of started partitions."""

    partitions: int | None = None
    bytes: int | None = None
    deadline: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """A place that a job is about and leaves alone, and why; `is_refused`: because no compaction of it can be made."""

    target: Target
    reason: str
    is_refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlisted:
    """A place that cannot be listed, and why. In an order and in a budget it counts as one that holds nothing."""

    target: Target
    error: AcidError
    deltas: int = 0
    delta_bytes: int = 0
    bytes: int = 0
    modified: float = 0.0


ListingOutcome = ListedPlace | Unlisted


class Doubts:
    """What hints at rolled back transactions in tables of which the caller says that all is committed.

    A hint is no proof, and no hint is none: it is told as a warning, as soon as a table is listed.
    """

    def __init__(self, services: Services, selection: Selection, targets: Sequence[Target]) -> None:
        stated = targets[0].interpretation.write_ids if targets else None  # of a run it is the same for all
        vouched = targets if stated is not None and stated.everything else ()
        self._progress = services.progress
        self._is_of_each = stated is not None and stated.of_each
        self._left = Counter((one.database, one.table) for one in vouched)
        self._is_part = bool(selection.partitions) or any(
            one.partition is not None and one.location == selection.location for one in vouched
        )
        self._ids: dict[tuple[str, str], set[tuple[int, int]]] = {}
        self._streams: dict[tuple[str, str], list[str]] = {}

    def require_vouched(self) -> None:
        """Raise RefusedError where one word is to stand for several tables."""
        if not self._is_of_each:
            require_said_of_each(sorted(map(".".join, self._left)))

    def look(self, looked: Iterable[ListingOutcome]) -> None:
        """Look at places that are listed; tell of each table whose last one this was."""
        for one in looked:
            table = (one.target.database, one.target.table)
            if self._left[table] and isinstance(one, ListedPlace):
                below = f"{one.target.partition}/" if one.target.partition else ""
                self._streams.setdefault(table, []).extend(below + path for path in side_files(one.listing))
                self._ids.setdefault(table, set()).update(directory_ids(one.listing))
                self._left[table] -= 1
                if not self._left[table]:
                    self._tell(table, () if self._is_part else self._ids.pop(table))

    def end(self) -> None:
        """Tell of tables of which not all was listed what is seen of them: what the rest has fills every gap."""
        for table in list(self._streams):
            self._tell(table, ())

    def _tell(self, table: tuple[str, str], ids: Iterable[tuple[int, int]]) -> None:
        if signs := signs_of_aborts(ids, self._streams.pop(table)):
            text = f"--all-committed may not be so: {'; '.join(signs)}. If it is not, give --write-ids"
            self._progress.note(text, level=WARNING, place=".".join(table))


def look_at(
    services: Services,
    targets: Sequence[Target],
    idle_seconds: float | None,
    *,
    on_progress: Callable[[int], None] = lambda _: None,
) -> tuple[list[ListingOutcome], list[PassedOver]]:
    """List every target; those that have changed within `idle_seconds` are passed over."""
    found: list[Done[Listing]] = in_threads(
        lambda target: list_location(services.fs(target.location), target.location, without_unfinished=True),
        targets,
        on_progress=on_progress,
    )
    looked, passed_over = [], []
    now = services.clock()
    for target, done in zip(targets, found, strict=True):
        place = _listed(target, done)
        reason = None
        if idle_seconds is not None and isinstance(place, ListedPlace):
            reason = _too_young(place.listing, idle_seconds, now)
        if reason is None:
            looked.append(place)
        else:
            passed_over.append(PassedOver(target=target, reason=reason))
    return looked, passed_over


def look_in_portions(
    services: Services, targets: Sequence[Target], idle_seconds: float | None
) -> Iterator[tuple[list[ListingOutcome], list[PassedOver]]]:
    """The same, some at a time, so that what is known of a place can be forgotten before the last is listed."""
    if not targets:
        return
    services.progress.start(f"listing {plural(len(targets), 'location')}", len(targets))
    try:
        for start in range(0, len(targets), PORTION):
            some = targets[start : start + PORTION]
            yield look_at(services, some, idle_seconds, on_progress=partial(_advance, services, start))
    finally:
        services.progress.finish()


def _advance(services: Services, before: int, done: int) -> None:
    services.progress.advance(before + done)


def _listed(target: Target, done: Done[Listing]) -> ListingOutcome:
    try:
        return target.listed(done.get())
    except AcidError as error:
        return Unlisted(target=target, error=error)


def _too_young(listing: Listing, idle_seconds: float, now: float) -> str | None:
    """Why a place has not been idle for so long, by its newest file; None when it has."""
    newest = listing.newest_file()
    if newest is None or newest.modified <= now - idle_seconds:
        return None
    when = utc_words(newest.modified)
    return f"something in it is younger than {duration_text(idle_seconds)}: {newest.path}, modified {when}"


def urgency(order: Order, one: ListingOutcome) -> float:
    """The larger the more urgent."""
    urgencies: dict[Order, Callable[[ListingOutcome], float]] = {
        Order.DELTAS: lambda one: one.deltas,
        Order.BYTES: lambda one: one.delta_bytes,
        Order.AGE: lambda one: -one.modified,
        Order.NAME: lambda _: 0,
    }
    return urgencies[order](one)


def ordered(looked: Iterable[ListingOutcome], order: Order) -> list[ListingOutcome]:
    """Most urgent first; equal ones by name, so that the same input gives the same order."""
    return sorted(looked, key=lambda one: (-urgency(order, one), one.target.name))


class Spending:
    """Counts what was started against a budget; afterwards `stopped` says what ended it, if anything did."""

    def __init__(self, budget: Budget, clock: Callable[[], float]) -> None:
        self._budget = budget
        self._clock = clock
        self._partitions = 0
        self._bytes = 0
        self.stopped: str | None = None

    def lets_start(self, input_bytes: int, *, is_free: bool = False) -> bool:
        """Whether the budget lets a place start, which is counted then; what is free costs nothing but time."""
        self.stopped = self._late() if is_free else self._reason(input_bytes)
        if self.stopped is None and not is_free:
            self._partitions += 1
            self._bytes += input_bytes
        return self.stopped is None

    def lets_look_on(self) -> bool:
        """Whether the budget would let any other place start, so that it is worth a look at more of them."""
        self.stopped = self._reason(0)
        return self.stopped is None

    def unspent(self, input_bytes: int) -> None:
        """What was let start did not come to that."""
        self._partitions -= 1
        self._bytes -= input_bytes

    def _reason(self, input_bytes: int) -> str | None:
        budget = self._budget
        if budget.partitions is not None and self._partitions >= budget.partitions:
            return f"--max-partitions {budget.partitions} is reached"
        if budget.bytes is not None and self._partitions and self._bytes + input_bytes > budget.bytes:
            return f"--max-bytes {size_words(budget.bytes)} is reached"
        return self._late()

    def _late(self) -> str | None:
        late = self._budget.deadline is not None and self._clock() >= self._budget.deadline
        return "the time budget is spent" if late else None
