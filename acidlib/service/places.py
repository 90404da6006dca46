"""Places: a table or partition with its names and listing, and which of them a job is about."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial

from acidlib.config.settings import Layer, Settings
from acidlib.errors import AcidError, MissingError, RefusedError
from acidlib.model.listing import Listing, detect_generation
from acidlib.model.location import Location
from acidlib.model.names import Generation
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts
from acidlib.model.snapshots import ALL_COMMITTED, ValidTxnList, ValidWriteIdList
from acidlib.model.tables import Database, Partition, PartitionName, Storage, Table, TableRef, matches, row_type
from acidlib.model.units import ColumnMatching, RewriteSettings
from acidlib.planning.initiate import cleaning_forbidden_reason
from acidlib.planning.inputs import not_enough_reason
from acidlib.planning.orc_settings import rewrite_settings
from acidlib.planning.state import AcidState, acid_state
from acidlib.planning.stated_write_ids import (
    StatedWriteIds,
    directory_ids,
    require_list_per_table,
    side_files,
    signs_of_aborts,
)
from acidlib.report.progress import WARNING
from acidlib.service.services import Services, in_threads, value_of
from acidlib.stores.listing import identity_file_of, list_location
from acidlib.stores.store import CLAIM, STAGING_PREFIX
from acidlib.wording import duration_text, plural, size_words, utc_words

POSITIONAL, CASE_SENSITIVE = "orc.force.positional.evolution", "orc.schema.evolution.case.sensitive"
FULL, INSERT_ONLY = "full", "insert-only"
"""Kinds of transactional tables, as `--table-kind` names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpretation:
    """How the directories of a table are to be read: as the caller says, or as the metastore does.

    write_ids          which are committed; None = not stated
    generation         3, 4, or None: as the directory's names tell
    table_kind         "full" or "insert-only", where files cannot prove it
    columns            the table's as Hive's text `struct<name:type,...>`; None = not stated
    visibility_txn     the transaction in the names of the results (Hive 4)
    visible_on_commit  that is our own open transaction, whose commit shows the results; else it has committed
    txns               which transactions are committed, for directories with a visibility suffix
    """

    write_ids: StatedWriteIds | None = None
    generation: Generation | None = None
    table_kind: str | None = None
    columns: str | None = None
    visibility_txn: int | None = None
    visible_on_commit: bool = False
    txns: ValidTxnList = ALL_COMMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What a metastore says of a target: its table, its database, and its partition where it is one."""

    table: Table
    database: Database
    partition: Partition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One table without partitions, or one partition; `facts` are a metastore's.

    `request_properties` are those of the request that it is compacted for (ALTER TABLE … COMPACT … WITH OVERWRITE
    TBLPROPERTIES).
    """

    ref: TableRef
    location: Location
    interpretation: Interpretation = field(default_factory=Interpretation)
    facts: TableFacts | None = None
    request_properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_insert_only(self) -> bool:
        """True where rows have no ids, and files may be of any format."""
        return self.interpretation.table_kind == INSERT_ONLY

    @property
    def table_identity(self) -> tuple[int | None, int | None]:
        """When its table was made (epoch seconds) and its id, which tell it from another of its name.

        None for what no metastore tells: both of a directory, the id of a table of Hive 3.
        """
        return (None, None) if self.facts is None else (self.facts.table.created, self.facts.table.id)

    @property
    def storage(self) -> Storage | None:
        """How its rows are stored, where a metastore tells it."""
        if self.facts is None:
            return None
        return (self.facts.partition or self.facts.table).storage

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties, where a metastore tells them."""
        return {} if self.facts is None else self.facts.table.properties

    def cleaning_forbidden(self) -> str | None:
        """Return why nothing may be removed, where a metastore tells it; None if it may."""
        return None if self.facts is None else cleaning_forbidden_reason(self.facts.table, self.facts.partition)

    def generation(self, listing: Listing) -> Generation:
        """Return the generation whose names and rules hold here."""
        return self.interpretation.generation or detect_generation(listing)[0]

    def write_ids(self, listing: Listing) -> ValidWriteIdList:
        """Return the reader's list of the table; RefusedError when nothing states it."""
        return (self.interpretation.write_ids or StatedWriteIds()).of(self.ref, listing)

    def settings(self, common: Settings) -> Settings:
        """Return the settings that hold here: those of the run, then the database's properties, then the table's."""
        if self.facts is None:
            return common
        common, _ = common.with_layer(Layer.DATABASE, self.facts.database.properties)
        return common.with_layer(Layer.TABLE, self.facts.table.properties)[0]

    def row_type(self) -> str | None:
        """Return the columns of the table, where a metastore or the caller tells them; else its files' count."""
        return self.interpretation.columns if self.facts is None else row_type(self.facts.table)

    def matching(self, common: Settings, generation: Generation) -> ColumnMatching:
        """Return how readers find the table's columns in files: as the site says, as the table does, or as Hive does.

        Readers copy a table's property into their job only where the job has none of that name (Hive
        Utilities.copyTableJobPropertiesToConf). Jobs of Hive 4 always have one for positions (HiveConf), so its tables
        cannot set that. Properties of databases do not reach readers.
        """
        found = ColumnMatching.of(generation)
        by_table = self.properties if generation is Generation.HIVE3 else {}
        return ColumnMatching(
            by_position=_flag(POSITIONAL, common, by_table, otherwise=found.by_position),
            case_sensitive=_flag(CASE_SENSITIVE, common, self.properties, otherwise=found.case_sensitive),
        )

    def rewrite_settings(self, otherwise: RewriteSettings, generation: Generation) -> RewriteSettings:
        """Return how the table wants its files written, where a metastore tells it."""
        if self.facts is None:
            return otherwise
        return rewrite_settings(self.facts.table, self.request_properties, generation=generation, otherwise=otherwise)

    def listed(self, listing: Listing) -> ListedPlace:
        """Return the target as a listing shows it, for good: what is written later is not committed.

        RefusedError when nothing states what is committed.
        """
        generation, write_ids = self.generation(listing), self.write_ids(listing)
        fixed = replace(self.interpretation, write_ids=StatedWriteIds(single=write_ids), generation=generation)
        return ListedPlace(
            target=replace(self, interpretation=fixed),
            listing=listing,
            generation=generation,
            write_ids=write_ids,
            state=acid_state(
                listing, write_ids.for_compactor(), generation=generation, txns=fixed.txns, ignore_empty_files=True
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPlace:
    """A target with one listing of it, and all that follows from the two.

    write_ids  the reader's list
    state      as a compactor sees the place
    """

    target: Target
    listing: Listing
    generation: Generation
    write_ids: ValidWriteIdList
    state: AcidState

    @property
    def deltas(self) -> int:
        """The number of deltas that a reader has to merge."""
        return len(self.state.deltas)

    @property
    def delta_bytes(self) -> int:
        """Bytes of the files in these deltas."""
        names = {delta.path for delta in self.state.deltas}
        return sum(file.length for file in self.listing.files if file.directory in names)

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.length for file in self.listing.files)

    @property
    def modified(self) -> float:
        """When the newest file was modified, in epoch seconds; 0 without one."""
        newest = self.listing.newest_file()
        return 0.0 if newest is None else newest.modified

    @property
    def holds_staging(self) -> bool:
        """True where an unfinished publication may lie there."""
        return any(path.startswith(STAGING_PREFIX) for path in self.listing.directories)

    @property
    def obsolete(self) -> dict[str, int]:
        """The directories and files at the top that no reader needs any more, aborted ones too, with their bytes."""
        found = dict.fromkeys((*self.state.obsolete, *self.state.aborted), 0)
        for file in self.listing.files:
            top = file.path.partition("/")[0]
            if top in found:
                found[top] += file.length
        return found

    @property
    def is_claimed(self) -> bool:
        """True where a run was at work there when it was listed, or died there; in a bucket no listing tells."""
        return CLAIM in self.listing.directories

    def nothing_to_merge(self, kind: CompactionType, *, automatic: bool) -> str | None:
        """Return why a place is compact already; None when it is not.

        automatic  an initiator asked for it, not a person
        """
        insert_only = self.target.is_insert_only
        return not_enough_reason(
            self.state, kind, generation=self.generation, insert_only=insert_only, automatic=automatic
        )

    def held_as(self, target: Target) -> ListedPlace:
        """Return the listing for the target as it is held now; what is committed stays as of before the listing."""
        known, now = self.target.interpretation, target.interpretation
        held = replace(now, write_ids=known.write_ids, generation=known.generation, txns=known.txns)
        return replace(self, target=replace(target, interpretation=held))


def _flag(key: str, common: Settings, properties: Mapping[str, str], *, otherwise: bool) -> bool:
    if common.setting(key).layer is not Layer.BUILT_IN:
        return common.flag(key)
    text = properties.get(key)
    return otherwise if text is None else text.lower() == "true"  # as OrcConf.getBoolean understands it


def request_of(place: ListedPlace, kind: CompactionType, *, initiator: str) -> CompactionRequest:
    """Return a request that says everything a later worker and cleaner need: they never guess anew."""
    target, mark = place.target, place.write_ids.for_compactor().high_water_mark
    facts = RequestFacts(
        location=target.location,
        write_ids=place.write_ids,
        generation=place.generation,
        witness=identity_file_of(place.listing, mark, place.generation),
        table_kind=target.interpretation.table_kind,
        columns=target.interpretation.columns,
        visibility_txn=target.interpretation.visibility_txn,
    )
    return CompactionRequest(id=0, ref=target.ref, type=kind, facts=facts, initiator_id=initiator)


def target_of(request: CompactionRequest) -> Target:
    """Return the target of a queued request, understood as of then. RefusedError when it does not say so."""
    request.require_understood("compact")
    facts = request.facts
    if facts.location is None or facts.write_ids is None:
        raise RefusedError(
            f"Cannot compact {request.ref}: request {request.id} does not say where it lies and what is "
            "committed in it; name it by --location, or have the initiator look for it again"
        )
    return Target(
        ref=request.ref,
        location=facts.location,
        interpretation=Interpretation(
            write_ids=StatedWriteIds(single=facts.write_ids),
            generation=facts.generation or Generation.HIVE3,
            table_kind=facts.table_kind,
            columns=facts.columns,
            visibility_txn=facts.visibility_txn,
        ),
    )


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

    def wants_table(self, ref: TableRef) -> bool:
        """Return whether a table (its names in lower case) is meant by --table and not by --exclude."""
        name = str(ref.whole_table)
        return not _any_matches(self.exclude, name) and (not self.tables or _any_matches(self.tables, name))

    def names_table(self, full_name: str) -> bool:
        """Return whether --table names it, and not by a glob that others may match as well."""
        return any(name.lower() == full_name for name in self.tables if not set(name) & set("*?["))

    def absent(self, tables: Iterable[TableRef], where: str) -> list[str]:
        """Return notes about what --table names and none of the tables that are left is; see `note_of`."""
        full = [str(ref.whole_table) for ref in tables]
        without = [name for name in self.tables if not any(_any_matches([name], one) for one in full)]
        if not without:
            return []
        return [self.note_of(MissingError(f"Cannot find {', '.join(without)}: {where} has such a name"))]

    def note_of(self, error: MissingError) -> str:
        """Return a note about what is named and does not exist, with --if-exists; else raises the error."""
        if not self.if_exists:
            raise error
        return f"{error}; nothing is done there, as --if-exists says"

    def no_partition(self, tables: Sequence[str]) -> MissingError:
        """Return the error where partitions are named and none of the tables has one of them."""
        about = tables[0] if len(tables) == 1 else f"{len(tables)} tables"
        return MissingError(f"Cannot find partitions of {about}: none matches {', '.join(self.partitions)}")


def _any_matches(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern.lower()) for pattern in patterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerOptions:
    """The way in which the cleaner is to be run.

    retention_seconds  how long to leave what was made obsolete; None = as settings say
    selection          only these tables and partitions; without a metastore only this location, or what is below it
    force              also where Hive's own cleaner is on
    dry_run            say what would be removed, and change nothing
    trash              move aside instead of removing
    """

    retention_seconds: float | None = None
    selection: Selection = field(default_factory=Selection)
    force: bool = False
    dry_run: bool = False
    trash: bool = False

    def wants(self, ref: TableRef) -> bool:
        """Return whether the cleaner was asked for a table or partition."""
        partitions, name = self.selection.partitions, ref.partition
        if not self.selection.wants_table(ref):  # first: another table need not have the keys that are named
            return False
        return not partitions or (name is not None and matches(PartitionName.parse(name), partitions))


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
    bytes: int = 0


ListingOutcome = ListedPlace | Unlisted


PORTION = 256
"""Places that are listed at a time, where not all have to be before the first is begun."""


def look_in_portions(
    services: Services, targets: Sequence[Target], idle_seconds: float | None
) -> Iterator[tuple[list[ListingOutcome], list[PassedOver]]]:
    """Yield what `look_at` returns, some at a time: a place can be forgotten before the last is listed."""
    if not targets:
        return
    progress = services.progress

    def advance(before: int, done: int) -> None:
        progress.advance(before + done)

    progress.start(f"listing {plural(len(targets), 'location')}", len(targets))
    try:
        for start in range(0, len(targets), PORTION):
            yield look_at(services, targets[start : start + PORTION], idle_seconds, on_progress=partial(advance, start))
    finally:
        progress.finish()


def look_at(
    services: Services,
    targets: Sequence[Target],
    idle_seconds: float | None,
    *,
    on_progress: Callable[[int], None] = lambda _: None,
) -> tuple[list[ListingOutcome], list[PassedOver]]:
    """List every target; those that have changed within `idle_seconds` are passed over."""
    found = in_threads(
        lambda target: list_location(services.fs(target.location), target.location, without_unfinished=True),
        targets,
        on_progress=on_progress,
    )
    looked: list[ListingOutcome] = []
    passed_over = []
    now = services.clock()
    for target, listing in zip(targets, found, strict=True):
        try:
            place = target.listed(value_of(listing))
        except AcidError as error:
            looked.append(Unlisted(target=target, error=error))
            continue
        newest = None if idle_seconds is None else place.listing.newest_file()
        if idle_seconds is None or newest is None or newest.modified <= now - idle_seconds:
            looked.append(place)
            continue
        young, when = duration_text(idle_seconds), utc_words(newest.modified)
        reason = f"something in it is younger than {young}: {newest.path}, modified {when}"
        passed_over.append(PassedOver(target=target, reason=reason))
    return looked, passed_over


class Doubts:
    """What hints at rolled back transactions in tables of which the caller says that all is committed.

    A hint is no proof, and no hint is none: it is told as a warning, as soon as a table is listed.
    """

    def __init__(self, services: Services, selection: Selection, targets: Sequence[Target]) -> None:
        stated = targets[0].interpretation.write_ids if targets else None  # of a run it is the same for all
        vouched = targets if stated is not None and stated.everything else ()
        self._progress = services.progress
        self._is_of_each = stated is not None and stated.of_each
        self._left = Counter(one.ref.whole_table for one in vouched)
        self._is_part = bool(selection.partitions) or any(
            one.ref.partition is not None and one.location == selection.location for one in vouched
        )
        self._ids: dict[TableRef, set[tuple[int, int]]] = {}
        self._streams: dict[TableRef, list[str]] = {}

    def require_vouched(self) -> None:
        """Raise RefusedError where one word is to stand for several tables."""
        if not self._is_of_each:
            require_list_per_table(sorted(map(str, self._left)))

    def look(self, looked: Iterable[ListingOutcome]) -> None:
        """Look at places that are listed; tell of each table whose last one this was."""
        for one in looked:
            table = one.target.ref.whole_table
            if self._left[table] and isinstance(one, ListedPlace):
                below = f"{one.target.ref.partition}/" if one.target.ref.partition else ""
                self._streams.setdefault(table, []).extend(below + path for path in side_files(one.listing))
                self._ids.setdefault(table, set()).update(directory_ids(one.listing))
                self._left[table] -= 1
                if not self._left[table]:
                    self._tell(table, () if self._is_part else self._ids.pop(table))

    def end(self) -> None:
        """Tell of tables of which not all was listed what is seen of them: what the rest has fills every gap."""
        for table in list(self._streams):
            self._tell(table, ())

    def _tell(self, table: TableRef, ids: Iterable[tuple[int, int]]) -> None:
        if signs := signs_of_aborts(ids, self._streams.pop(table)):
            text = f"--all-committed may not be so: {'; '.join(signs)}. If it is not, give --write-ids"
            self._progress.note(text, level=WARNING, place=str(table))


class Order(enum.Enum):
    """What goes first: most deltas, most delta bytes, the longest untouched, or by name."""

    DELTAS = "deltas"
    BYTES = "bytes"
    AGE = "age"
    NAME = "name"


_URGENCY: dict[Order, Callable[[ListedPlace], float]] = {
    Order.DELTAS: lambda place: place.deltas,
    Order.BYTES: lambda place: place.delta_bytes,
    Order.AGE: lambda place: -place.modified,
    Order.NAME: lambda _: 0,
}


def urgency(order: Order, one: ListingOutcome) -> float:
    """Return a figure that is the larger the more urgent a place is."""
    return 0 if isinstance(one, Unlisted) else _URGENCY[order](one)


def ordered(looked: Iterable[ListingOutcome], order: Order) -> list[ListingOutcome]:
    """Return the most urgent first; equal ones by name, so that the same input gives the same order."""
    return sorted(looked, key=lambda one: (-urgency(order, one), str(one.target.ref)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a run may start. `deadline` in epoch seconds, `bytes` of inputs of started partitions."""

    partitions: int | None = None
    bytes: int | None = None
    deadline: float | None = None


class Spending:
    """Counts what was started against a budget; afterwards `stopped` says what ended it, if anything did."""

    def __init__(self, budget: Budget, clock: Callable[[], float]) -> None:
        self._budget = budget
        self._clock = clock
        self._partitions = 0
        self._bytes = 0
        self.stopped: str | None = None

    def lets_start(self, input_bytes: int, *, is_free: bool = False) -> bool:
        """Return whether the budget lets a place start, which is counted then; what is free costs nothing but time."""
        self.stopped = self._late() if is_free else self._reason(input_bytes)
        if self.stopped is None and not is_free:
            self._partitions += 1
            self._bytes += input_bytes
        return self.stopped is None

    def lets_look_on(self) -> bool:
        """Return whether the budget would let any other place start, so that it is worth a look at more of them."""
        self.stopped = self._reason(0)
        return self.stopped is None

    def unspent(self, input_bytes: int) -> None:
        """Take back what was let start and did not come to that."""
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
