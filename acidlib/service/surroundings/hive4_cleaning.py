"""Cleaning with a metastore of Hive 4: who may still read, obsolete directories, and rolled back transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol

from acidlib.errors import AcidError, BusyError, ConflictError, RefusedError, RetryError
from acidlib.metastore.compactions import ShownRequest
from acidlib.metastore.hms import Hms
from acidlib.metastore.transactions import TxnType
from acidlib.model.listing import Listing
from acidlib.model.location import LOCAL
from acidlib.model.names import Generation, parse_directory
from acidlib.model.requests import CommitNote, CompactionRequest, CompactionType, State
from acidlib.model.snapshots import ValidTxnList
from acidlib.model.tables import TableRef
from acidlib.planning.clean import (
    CleanPlan,
    DueCleaning,
    NotedWrite,
    OpenReader,
    Removal,
    aborted_present,
    cleanable,
    due_cleanings,
    held_notes,
    places_below,
    readers_of,
    rolled_back_directories,
    still_reading,
)
from acidlib.planning.initiate import ABORTED_TXN_KEY, ABORTED_TXN_TIME_KEY, ABORTS_BY_CLEANER
from acidlib.points import Point, passing
from acidlib.queue.metastore_database import MetastoreDatabase
from acidlib.report.progress import WARNING
from acidlib.report.results import CleaningResult, RemovedPath
from acidlib.service.backend import CleanerOptions, Cleaning, ListedRequest, NotOursError, each_alone, recorded_mark
from acidlib.service.places import Target
from acidlib.service.removals import Pace, remove_named, would_go
from acidlib.service.services import Services
from acidlib.service.surroundings.catalog import Catalog, GoneError, require_unchanged
from acidlib.service.surroundings.hive4 import recover
from acidlib.service.surroundings.metastore_cleaning import DROPPED, CleaningPlaces, is_wanted, retention_of
from acidlib.stores.listing import list_location
from acidlib.wording import plural, retention_words

# --- readers ----------------------------------------------------------------------------------------------------------
# What proves with a metastore of Hive 4 that nobody reads any more what a compaction made obsolete.
#
# Either the watermark of open transactions, which thrift shows; or, where the metastore has readers register what they
# read (`metastore.txn.use.minhistorywriteid`), what they registered in its database, see `acidlib.planning.clean`.

MIN_HISTORY = "metastore.txn.use.minhistorywriteid"
_CANARY = "acidlib"
"""The database of a table that does not exist, for which a run registers itself."""


class Readers(Protocol):
    """Who may still read, as one run of the cleaner sees it: asked once, after the requests were read."""

    renamed_is_another: bool
    """Whether what was said of a table does not hold under another name of it."""

    def look(self) -> None:
        """Ask now. Raises RefusedError where the answer would prove nothing."""

    def waits(self, request: CompactionRequest) -> str | None:
        """Whom a committed request has to wait for."""

    def snapshot(self, request: CompactionRequest) -> ValidTxnList:
        """The snapshot that everybody has at least who may read its table."""


class SeenFirst:
    """The transactions as they were before the requests were read: what has committed by then is among those."""

    def __init__(self, hms: Hms) -> None:
        self._hms = hms

    @cached_property
    def txns(self) -> ValidTxnList:
        """Asked for once."""
        return self._hms.open_txns()

    def of_all(self) -> ValidTxnList:
        """The snapshot that every open transaction has at least."""
        return self.below(self.txns.min_open)

    def below(self, lowest: int) -> ValidTxnList:
        """The snapshot that every transaction from this one on has at least.

        What committed at or above it is not in it, nor what was not known then. Source: Hive 4 `CompactionCleaner` (the
        capped transaction list).
        """
        cap = min(lowest - 1, self.txns.high_water_mark)
        return ValidTxnList(
            high_water_mark=cap,
            opened=tuple((low, min(high, cap)) for low, high in self.txns.opened if low <= cap),
            aborted=tuple((low, min(high, cap)) for low, high in self.txns.aborted if low <= cap),
        )


class Watermark:
    """Every open transaction may read everything; one from after a commit has a higher id than any it has seen."""

    renamed_is_another = False

    def __init__(self, first: SeenFirst) -> None:
        self._first = first

    def look(self) -> None:
        """Nothing that could prove nothing."""

    def waits(self, request: CompactionRequest) -> str | None:
        """The lowest open transaction, where it existed at the commit."""
        assert request.next_txn_id is not None
        lowest = self._first.txns.min_open
        if lowest > request.next_txn_id:
            return None
        return (
            f"transaction {lowest} is open since before its commit (transactions up to "
            f"{request.next_txn_id} have to end; show_compactions --blockers names them)"
        )

    def snapshot(self, request: CompactionRequest) -> ValidTxnList:
        """The same for all."""
        del request
        return self._first.of_all()


class Unseen:
    """Readers register where nobody looks: all cleaning is left to Hive's own cleaner."""

    renamed_is_another = False

    def __init__(self, first: SeenFirst, why: str, *, is_off: bool) -> None:
        """`why` nobody looks there; `is_off`: whether that cleaner is."""
        self._first = first
        self._reason = (
            f"left to Hive's own cleaner{', which is off' if is_off else ''}: readers register in the metastore's "
            f"database ({MIN_HISTORY}), {why}"
        )

    def look(self) -> None:
        """At nothing."""

    def waits(self, request: CompactionRequest) -> str | None:
        """Always."""
        del request
        return self._reason

    def snapshot(self, request: CompactionRequest) -> ValidTxnList:
        """For a dry run, which plans what would go later."""
        del request
        return self._first.of_all()


class Registered:
    """What open transactions have registered in the metastore's database."""

    renamed_is_another = True

    def __init__(self, hms: Hms, first: SeenFirst, database: MetastoreDatabase, unique: Callable[[], str]) -> None:
        """`unique` gives a new text at each call."""
        self._hms = hms
        self._first = first
        self._database = database
        self._unique = unique

    def look(self) -> None:
        """Raises RefusedError where the database is another one than this metastore's, or a copy that is behind."""
        self._opened  # noqa: B018 - asks

    def waits(self, request: CompactionRequest) -> str | None:
        """The lowest transaction that may read the table with a snapshot from before the commit."""
        assert request.next_txn_id is not None
        assert request.commit_ms is not None
        table = _table_of(request)
        return still_reading(
            table,
            readers_of(table, self._opened),
            mark=request.highest_write_id or 0,
            next_txn_id=request.next_txn_id,
            commit_ms=request.commit_ms,
        )

    def snapshot(self, request: CompactionRequest) -> ValidTxnList:
        """Below the lowest transaction that may read the table; open ones that do not read it count as open."""
        readers = readers_of(_table_of(request), self._opened)
        return self._first.below(readers[0].txn_id if readers else self._first.txns.high_water_mark + 1)

    @cached_property
    def _opened(self) -> tuple[OpenReader, ...]:
        """First the transactions, then what they registered: one that has ended in between counts as unregistered."""
        opened = self._hms.open_txns().opened
        ids = [txn for low, high in opened for txn in range(low, high + 1)]
        started = {txn.id: txn.started_ms for txn in self._hms.open_txns_info()}
        tables = self._registrations()
        return tuple(
            OpenReader(txn_id=txn, started_ms=started.get(txn), tables=tables.get(txn, {})) for txn in sorted(ids)
        )

    def _registrations(self) -> dict[int, dict[TableRef, int]]:
        """All of them, read while this run itself has registered, over thrift: who sees that sees the others, too."""
        name = self._unique().lower()
        txn = self._hms.open_txn(TxnType.READ_ONLY, "acidlib cleaner")
        try:
            self._hms.add_write_ids_to_min_history(txn, {f"{_CANARY}.{name}": 1})
            found = self._database.registrations()
        finally:
            self._hms.commit_txn(txn, TxnType.READ_ONLY)
        if found is None or found.get(txn, {}).get(TableRef(_CANARY, name)) != 1:
            what = "has no table MIN_HISTORY_WRITE_ID" if found is None else "does not show what was just registered"
            raise RefusedError(
                f"Cannot clean by what readers register in {self._database.shown}: it {what}: it is not the database "
                f"of this metastore, or a copy of it, or the metastore has given up {MIN_HISTORY}; give --queue-url of "
                "its own database"
            )
        return found


def _table_of(request: CompactionRequest) -> TableRef:
    return request.ref.whole_table.as_stored


# --- rolled back ------------------------------------------------------------------------------------------------------
# Cleaning after transactions that were rolled back, at places of which no request says so: Hive's `AbortedTxnCleaner`.
#
# Directories go first, and only then does the metastore forget: a run that dies in between leaves notes of which
# nothing lies there any more, and the next one has them forgotten.

NOTHING_FORGOTTEN = -1
"""A mark below every write id: a request that ends with it has nothing forgotten, where 0 would mean all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cleaned:
    """What came of one location: what went, what may still hold rows, and what could not be removed."""

    removed: tuple[RemovedPath, ...] = ()
    held: tuple[tuple[NotedWrite, str], ...] = ()
    problems: tuple[str, ...] = ()


class RolledBack:
    """The places of one metastore that are due, and their cleaning."""

    def __init__(
        self, services: Services, hms: Hms, catalog: Catalog, database: MetastoreDatabase, options: CleanerOptions
    ) -> None:
        """`notes` are of the database of this metastore, which is proven before anything goes by them."""
        self._services = services
        self._hms = hms
        self._catalog = catalog
        self._database = database
        self._options = options
        self._is_proven = False
        self.is_seen = False
        """Whether the database has shown what is noted of rolled back transactions."""

    def due(self) -> list[list[DueCleaning]]:
        """Return what is due and selected, by table: at one table, one place is cleaned after the other.

        A user of the database who may not read it all gets a line that says so: what readers register may be all that
        he is for. RefusedError where the database is another one than this metastore's, or a copy that is behind.
        """
        settings = self._services.settings
        if not settings.flag(ABORTS_BY_CLEANER):
            return []  # the initiator counts them
        try:
            found = self._database.noted_writes()
        except RefusedError as error:
            self._services.progress.note(str(error), level=WARNING)
            return []
        if found is None:
            return []
        self.is_seen = True
        notes, now_ms = found
        longest = settings.integer(ABORTED_TXN_TIME_KEY)
        due = due_cleanings(notes, most=settings.integer(ABORTED_TXN_KEY), longest_ms=longest, now_ms=now_ms)
        by_table: dict[TableRef, list[DueCleaning]] = {}
        for one in due:
            if is_wanted(self._options, _request(one)):
                by_table.setdefault(one.ref.whole_table, []).append(one)
        if by_table:
            self._require_its_database()
        return list(by_table.values())

    def clean(self, due: DueCleaning, pace: Pace) -> CleaningResult:
        """Return what came of one place, whatever goes wrong there."""
        result = CleaningResult(id=None, ref=due.ref, location="", state="failed", reason="")
        try:
            return self._clean(due, result, pace)
        except ConflictError as error:
            return replace(result, state="conflict", reason=str(error), is_busy=isinstance(error, BusyError))
        except RefusedError as error:
            return replace(result, state="ready for cleaning", reason=str(error))
        except AcidError as error:
            return replace(result, reason=str(error))

    def forget_what_is_gone(self, target: Target, listing: Listing, up_to: int) -> None:
        """Have forgotten what no directory of a place holds any more, up to the mark of a request that has just ended.

        Up to it nothing was open when the place was listed. What compactions were rolled back is left: one may have
        been at work then.
        """
        if not self.is_seen:
            return
        self._require_its_database()
        notes = [
            note
            for note in self._database.noted_writes_of(target.ref)
            if note.ref == target.ref and not (note.is_open or note.compacts or note.write_id is None)
            if note.write_id <= up_to
        ]
        self._database.forget(_free(notes, dict(_held(listing, notes))))

    def end_retries(self) -> None:
        """End what Hive's own cleaner queued for itself after a failure, once nothing is noted of its place."""
        rows = [
            row
            for row in self._hms.show_compactions()
            if row.type is CompactionType.ABORT_TXN_CLEANUP and row.state is State.READY_FOR_CLEANING
        ]
        if not rows or self._options.dry_run or not self.is_seen:
            return
        found = self._database.noted_writes()
        if found is None:
            return
        noted = {note.ref for note in found[0] if not note.is_open}
        for row in rows:
            if row.ref not in noted and is_wanted(self._options, row):
                self._hms.mark_cleaned(replace(row, highest_write_id=NOTHING_FORGOTTEN))

    def _clean(self, due: DueCleaning, result: CleaningResult, pace: Pace) -> CleaningResult:
        # what is rolled back from here on is not looked for at the first place: it is left for the next run
        notes = [note for note in self._database.noted_writes_of(due.ref) if due.concerns(note)]
        at_work = self._at_work(notes)
        table_itself = self._catalog.table_itself(due.ref)
        if table_itself is None:
            if self._database.has_table(due.ref):
                raise NotOursError(
                    f"Cannot clean {result.ref}: the metastore does not show this user the table, though its database "
                    "has it; run the cleaner as a user who may see it"
                )
            return self._ended(result, notes, [], at_work, f"{due.reason}; the table does not exist any more")
        cleaned = []
        for target in self._places(due, notes, table_itself):
            result = result if result.location else replace(result, location=str(target.location))
            cleaned.append(self._clean_at(due, notes, target, table_itself, pace))
        return self._ended(result, notes, cleaned, at_work, due.reason)

    def _at_work(self, notes: Sequence[NotedWrite]) -> dict[NotedWrite, str]:
        """The notes of compactions that were rolled back and whose worker may not know it yet: a result may come."""
        if not any(note.compacts for note in notes):
            return {}
        rows = {row.txn_id: row.id for row in self._hms.show_compactions() if row.state is State.WORKING}
        return {
            note: f"request {rows[note.txn_id]}: it is worked on, and its {_words(note)} was rolled back"
            for note in notes
            if note.txn_id in rows
        }

    def _places(self, due: DueCleaning, notes: Sequence[NotedWrite], table: Target) -> Iterator[Target]:
        """The places that may hold rows of what is due."""
        if table.facts is None or not table.facts.table.partition_keys:
            yield table
        elif due.ref.partition is None:
            yield from self._all_partitions(notes, table)
        else:
            try:
                yield self._catalog.whereabouts(_request(due))
            except GoneError:
                if self._database.has_partition(due.ref):
                    raise NotOursError(
                        f"Cannot clean {due.ref}: the metastore does not show this user the "
                        "partition, though its database has it; run the cleaner as a user who may see it"
                    ) from None
                # where it lay unless it was given a location, which went with it
                yield replace(table, ref=due.ref, location=table.location.child(due.ref.partition))

    def _all_partitions(self, notes: Sequence[NotedWrite], table: Target) -> Iterator[Target]:
        """Wherever rows may lie below the table, and in its partitions that lie elsewhere.

        A write to partitions that are known only at its end may have made some that the metastore never heard of.
        """
        known = {place.location: place for place in self._catalog.partitions_of(table)}
        below = places_below(list_location(self._services.fs(table.location), table.location, missing=RetryError))
        for path in sorted(path for path, names in below.items() if held_notes(names, notes)):
            location = table.location.child(path) if path else table.location
            yield known.get(location, replace(table, ref=table.ref._replace(partition=path or None), location=location))
        for place in known.values():
            if table.location.holds(place.location):
                continue
            listing = list_location(self._services.fs(place.location), place.location, missing=RetryError)
            if held_notes(listing.top_directories(), notes):
                yield place

    def _clean_at(
        self, due: DueCleaning, notes: Sequence[NotedWrite], target: Target, table: Target, pace: Pace
    ) -> _Cleaned:
        """Remove what is nothing but rolled back at one location."""
        services, location = self._services, target.location
        forbidden = target.cleaning_forbidden()
        if forbidden is not None:
            raise NotOursError(f"Cannot clean {target.ref}: {forbidden}")
        fs = services.fs(location)
        if not fs.exists(str(location)):
            self._require_believable(target, table)
            return _Cleaned()
        if self._options.dry_run:
            listing = list_location(fs, location, missing=ConflictError)
            wanted = self._wanted(due, notes, target, listing)
            removed, stays = would_go(services, location, [_removal(*one) for one in wanted.items()], listing)
            left = listing.without([item.path for item in removed])
            return _Cleaned(removed=removed, held=_held(left, notes), problems=stays)
        pace.assert_not_stopped()
        with services.claim(location) as held:
            passing(Point.CLEANING_CLAIMED)
            listing = list_location(fs, location, missing=ConflictError)
            if not listing.files and not listing.top_directories():
                self._require_believable(target, table)
            wanted = self._wanted(due, notes, target, listing)
            passing(Point.CLEANING_PLANNED)
            if not wanted:
                return _Cleaned(held=_held(listing, notes))
            self._require_unmoved(table)
            removed, problems = remove_named(
                services, held, wanted, trash=self._options.trash, pace=pace, known=frozenset(listing.files)
            )
            passing(Point.REMOVED_ALL)
            listing = list_location(fs, location, missing=ConflictError)
            return _Cleaned(removed=removed, held=_held(listing, notes), problems=problems)

    def _wanted(
        self, due: DueCleaning, notes: Sequence[NotedWrite], target: Target, listing: Listing
    ) -> dict[str, str]:
        """What may go. Write ids are read after the listing: a table that was made anew meanwhile has its own."""
        found = self._database.rolled_back(target.ref)
        write_ids = [write_id for write_id, txn in found if due.below is None or txn < due.below]
        return rolled_back_directories(listing, {note.txn_id for note in notes}, write_ids)

    def _require_unmoved(self, table: Target) -> None:
        now = self._catalog.table_itself(table.ref)
        if now is None:
            raise ConflictError(f"Cannot clean {table.ref}: it was dropped meanwhile")
        require_unchanged(table, now, "clean")

    def _require_believable(self, target: Target, table: Target) -> None:
        """Raise RetryError where nothing lies at a place though something may: what is not seen must not be forgotten.

        An empty directory of a local disk may be that of a mount that is missing, unless nothing was ever committed in
        the table, or something else lies in it.
        """
        fs, is_local = self._services.fs(table.location), table.location.kind == LOCAL
        is_there = fs.exists(str(table.location))
        if is_there and (
            not is_local
            or (target.location != table.location and fs.list_directory(str(table.location), missing=ConflictError))
        ):
            return
        name = table.ref.whole_table
        write_ids = self._hms.valid_write_ids([name], self._hms.open_txns())[name]
        was_committed = len(write_ids.open_ids) + len(write_ids.aborted_ids) < write_ids.high_water_mark
        if was_committed or (is_local and not is_there):
            raise RetryError(
                f"Cannot clean {target.ref}: nothing lies at {target.location}; a mount may be missing, or what is "
                "configured lead to another store than it did"
            )

    def _ended(
        self,
        result: CleaningResult,
        notes: Sequence[NotedWrite],
        cleaned: Sequence[_Cleaned],
        at_work: Mapping[NotedWrite, str],
        why: str,
    ) -> CleaningResult:
        """Have forgotten what is gone everywhere, and return what is left and why."""
        lying = {note: name for one in cleaned for note, name in one.held}
        held = {**at_work, **{note: f"{name}: it may hold rows of {_words(note)}" for note, name in lying.items()}}
        free = _free(notes, held)
        result = replace(
            result,
            removed=tuple(item for one in cleaned for item in one.removed),
            blocked=tuple(sorted(set(held.values()))),
        )
        count = plural(len({note.txn_id for note in free}), "rolled back transaction")
        if self._options.dry_run:
            return replace(result, state="planned", reason=f"{why}; {count} would be forgotten here")
        self._database.forget(free)
        passing(Point.CLEANED)
        problems = [problem for one in cleaned for problem in one.problems]
        if problems:
            return replace(result, reason="; ".join(problems))
        if held:
            left = len({note.txn_id for note in held})
            return replace(
                result, state="ready for cleaning", reason=f"{why}; {count} forgotten here, {left} remembered"
            )
        return replace(result, state="succeeded", reason=f"{why}; {count} forgotten here")

    def _require_its_database(self) -> None:
        """The database shows what this run does over thrift; asked once."""
        if self._is_proven:
            return
        host = f"acidlib-{self._services.unique()}"
        txn = self._hms.open_txn(TxnType.READ_ONLY, "acidlib cleaner", host)
        try:
            shown = self._database.shows(txn, host)
        finally:
            self._hms.commit_txn(txn, TxnType.READ_ONLY)
        if not shown:
            raise RefusedError(
                f"Cannot clean by the rolled back transactions in {self._database.shown}: it does not show what was "
                "just opened over thrift, so it is not the database of this metastore, or a copy that is behind; give "
                "--queue-url of its own database"
            )
        self._is_proven = True


def _held(listing: Listing, notes: Iterable[NotedWrite]) -> tuple[tuple[NotedWrite, str], ...]:
    return tuple(held_notes(listing.top_directories(), notes, listing.compacted_bases).items())


def _free(notes: Iterable[NotedWrite], held: Mapping[NotedWrite, str]) -> list[NotedWrite]:
    """The notes of transactions of which nothing may lie at the place: they are forgotten by transaction and place."""
    kept = {(note.txn_id, note.ref) for note in held}
    return [note for note in notes if (note.txn_id, note.ref) not in kept]


def _words(note: NotedWrite) -> str:
    return f"transaction {note.txn_id}" + ("" if note.write_id is None else f" (write id {note.write_id})")


def _removal(path: str, reason: str) -> Removal:
    return Removal(path=path, is_directory=True, length=0, files=0, reason=reason)


def _request(due: DueCleaning) -> CompactionRequest:
    """The request that nobody has queued."""
    return CompactionRequest(id=0, ref=due.ref, type=CompactionType.ABORT_TXN_CLEANUP)


# --- cleaning ---------------------------------------------------------------------------------------------------------
# Cleaning with a metastore of Hive 4: by the strict watermark, over thrift alone, or by what readers registered.
#
# A request may be cleaned when no transaction is open that existed when its compaction committed: then every snapshot
# in use was taken after that commit, and knows the result. Source: Hive 4 `CompactionTxnHandler.findReadyToClean` and
# `CompactionCleaner`, except that the comparison is strict (HIVE-23048, HIVE-24291). Where readers register what they
# read, transactions that read other tables do not count: see above.
#
# The commit of a rebalance notes no transaction with its request, and Hive's cleaner takes that for "none". Here the
# first run that sees it committed notes the highest transaction there is by then, which is none too low.

CLEANER_ON = "metastore.compactor.cleaner.on"


def hive4_cleaning(
    services: Services,
    hms: Hms,
    options: CleanerOptions,
    database: MetastoreDatabase | None = None,
) -> Cleaning:
    """The requests of a Hive 4 metastore that are ready for cleaning, and what is due after rolled back transactions.

    `database` is its own, if that is known.

    A cleaning that failed leaves its row as it is, for thrift has no way to note it; and places of which no request is
    at hand are not known without a look at all tables.
    """
    first = SeenFirst(hms)
    readers = _readers(services, hms, first, database)
    if not isinstance(readers, Unseen):
        refuse_beside_hives(hms, force=options.force)
    retention = retention_of(services.settings, options)
    catalog = Catalog(services, hms)
    places = CleaningPlaces(catalog, readers.snapshot, lambda request_id: _find(hms, request_id))
    rolled_back = None if database is None else RolledBack(services, hms, catalog, database, options)

    def check(request: CompactionRequest, target: Target) -> None:
        """The request is still there, and its table has the name by which readers were looked for."""
        found = _find(hms, request.id)
        if found is None:
            raise ConflictError(f"Cannot clean {target.ref}: because request {request.id} was cleaned by another")
        if readers.renamed_is_another and found.ref != request.ref:
            raise _renamed(request)

    requests = Hive4ReadyRequests(
        services,
        hms,
        first,
        readers,
        options,
        retention,
        places,
        lambda: rolled_back is not None and rolled_back.is_seen,
    )
    return Cleaning(
        requests=requests,
        proof=WatermarkProof(services, places, retention, readers, requests.still_waiting),
        history=Hive4History(hms, rolled_back),
        must_exist=True,
        check=check,
        unmoved=places.require_unmoved,
        further=rolled_back,
    )


class Hive4ReadyRequests:
    """The requests that the metastore shows as ready for cleaning."""

    def __init__(
        self,
        services: Services,
        hms: Hms,
        first: SeenFirst,
        readers: Readers,
        options: CleanerOptions,
        retention: float,
        places: CleaningPlaces,
        ends_retries: Callable[[], bool],
    ) -> None:
        """`ends_retries` says whether this run sees itself to what Hive's cleaner queued after rolled back ones."""
        self._services = services
        self._hms = hms
        self._ends_retries = ends_retries
        self._first = first
        self._readers = readers
        self._options = options
        self._retention = retention
        self._places = places
        self._waiting: dict[TableRef, dict[int, str]] = {}

    def recover(self) -> list[str]:
        """End requests of dead runs of this engine, and results that can never be committed."""
        return recover(self._services, self._hms, is_wanted=partial(is_wanted, self._options))

    def ready(self) -> list[CompactionRequest]:
        """The requests that the metastore shows, an earlier mark of a place before a later one.

        A later one does not wait for an earlier one: its own watermark is the higher one, and what it covers may be
        just what the earlier one cannot get rid of.
        """
        txns = self._first.txns  # before the requests: what has committed by it is among them
        rows = [
            self._with_bound(_with_mark(row), txns)
            for row in self._hms.show_compactions()
            if row.state is State.READY_FOR_CLEANING
            and is_wanted(self._options, row)
            and not (row.type is CompactionType.ABORT_TXN_CLEANUP and self._ends_retries())
        ]
        if rows:
            self._readers.look()
        for row in rows:
            reason = self.waits(row)
            if reason is not None and row.txn_id is not None:
                self._waiting.setdefault(row.ref, {})[row.txn_id] = reason
        self._places.expect([row for row in rows if self._options.dry_run or self.waits(row) is None])
        return sorted(rows, key=lambda row: (row.highest_write_id or 0, row.id))

    def still_waiting(self, request: CompactionRequest) -> Mapping[int, str]:
        """The transactions of requests of the same place that wait, and what for: what they cover may be read."""
        return self._waiting.get(request.ref, {})

    def _with_bound(self, row: ShownRequest, txns: ValidTxnList) -> ShownRequest:
        """A rebalance that has committed, with the highest transaction and the time that are noted of it, or are now.

        They are later than its commit, which they stand for.
        """
        if row.type is not CompactionType.REBALANCE or row.next_txn_id is not None or row.txn_id is None:
            return row
        bound = row.noted_commit
        if bound is None and txns.is_txn_valid(row.txn_id):
            bound = CommitNote(next_txn_id=txns.high_water_mark, commit_ms=self._services.now_ms())
            if not self._options.dry_run:
                self._hms.set_job_id(row, bound.text)
        if bound is None:
            return row
        return replace(row, next_txn_id=bound.next_txn_id, commit_ms=bound.commit_ms)

    def waits(self, request: CompactionRequest) -> str | None:
        """Whether the watermark has passed the request, and whether its row is ours to clean."""
        if request.type is CompactionType.ABORT_TXN_CLEANUP:
            return f"left to Hive's own cleaner: it is a {request.type.label}"
        if request.start_ms is None:
            return "left to Hive's own cleaner: it is for a table or partition that was dropped, not for a compaction"
        if request.next_txn_id is None or request.commit_ms is None:
            return f"its transaction {request.txn_id or 'unknown'} has not committed"
        reading = self._readers.waits(request)
        if reading is not None:
            return reading
        due = request.commit_ms / 1000 + self._retention
        if due > self._services.clock():
            return retention_words(self._retention, due)
        return None


class WatermarkProof:
    """That no transaction is open any more that existed when the compaction committed; `waits` has judged that."""

    def __init__(
        self,
        services: Services,
        places: CleaningPlaces,
        retention: float,
        readers: Readers,
        still_waiting: Callable[[CompactionRequest], Mapping[int, str]],
    ) -> None:
        """`still_waiting` names the transactions of results whose inputs may be read, and why."""
        self._services = services
        self._places = places
        self._retention = retention
        self._readers = readers
        self._still_waiting = still_waiting

    def place(self, request: CompactionRequest, *, anew: bool = False) -> tuple[CompactionRequest, Target | None]:
        """The place as of a snapshot that all who may read it have at least."""
        found, target = self._places.of(request, anew=anew)
        if self._readers.renamed_is_another and found.ref != request.ref:
            raise _renamed(found)
        return found, target

    def known(self, about: Sequence[ListedRequest]) -> list[Sequence[CompactionRequest] | AcidError]:
        """Nothing that is needed."""
        return [() for _ in about]

    def plan(self, looked: ListedRequest, known: Sequence[CompactionRequest]) -> CleanPlan:
        """Obsolete and aborted, as every transaction that is open now sees it; there is nothing to note."""
        del known
        request, target, listing = looked.request, looked.target, looked.listing
        commit = (request.commit_ms or 0) / 1000
        waiting = self._still_waiting(request)
        names = {name: parse_directory(name, Generation.HIVE4) for name in listing.top_directories() if waiting}
        return cleanable(
            listing,
            recorded_mark(request),
            target.write_ids(listing),
            generation=Generation.HIVE4,
            now=self._services.clock(),
            retention_seconds=self._retention,
            newest_publication=commit,
            published_at=_Always(commit),
            txns=target.interpretation.txns,
            still_read={
                name: waiting[parsed.visibility_txn]
                for name, parsed in names.items()
                if parsed is not None and parsed.visibility_txn in waiting
            },
        )


class Hive4History:
    """The history of the metastore, which then forgets aborted write ids up to the mark that is stated."""

    def __init__(self, hms: Hms, rolled_back: RolledBack | None = None) -> None:
        """`rolled_back` has forgotten what thrift cannot say."""
        self._hms = hms
        self._rolled_back = rolled_back

    def cleaned(self, done: Sequence[ListedRequest]) -> list[str | AcidError | None]:
        """End the requests as succeeded."""
        return each_alone(self._cleaned, done)

    def _cleaned(self, done: ListedRequest) -> str | None:
        """End a request; up to the mark the metastore forgets what no directory holds rows of.

        Where a delta that is needed holds rows of aborted write ids, it forgets only what is below the lowest of them:
        Hive's own cleaner has those forgotten that it removed (HIVE-24481), which thrift cannot say.

        The list may end below the recorded mark, when the metastore has forgotten all that committed: what lies above
        its end was not looked at, and must not be forgotten.
        """
        request, listing, target = done.request, done.listing, done.target
        write_ids = target.write_ids(listing)
        mark = min(recorded_mark(request), write_ids.high_water_mark)
        present = aborted_present(listing, write_ids, generation=Generation.HIVE4, up_to=mark)
        forgotten = min([mark, *(write_id - 1 for write_id in present)])
        self._hms.mark_cleaned(replace(request, highest_write_id=forgotten or NOTHING_FORGOTTEN))
        if present and self._rolled_back is not None:
            self._rolled_back.forget_what_is_gone(target, listing, mark)
        return None

    def dropped(self, request: CompactionRequest) -> None:
        """End the request as refused."""
        self._hms.mark_refused(replace(request, error_message=DROPPED))


def _find(hms: Hms, request_id: int) -> CompactionRequest | None:
    """The request of an id, where it is still ready for cleaning."""
    row = hms.find_compaction(request_id)
    return None if row is None or row.state is not State.READY_FOR_CLEANING else _with_mark(row)


def _with_mark(row: ShownRequest) -> ShownRequest:
    """Thrift has no null: the mark 0 of a compaction of nothing but original files reads like none."""
    known = row.highest_write_id is not None or row.txn_id is None
    return row if known else replace(row, highest_write_id=0)


class _Always(Mapping[str, float]):
    """Every directory was published at one time: the watermark is the proof, not the age."""

    def __init__(self, time: float) -> None:
        self._time = time

    def __getitem__(self, key: str) -> float:
        return self._time

    def __contains__(self, key: object) -> bool:
        return True

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(())

    def __len__(self) -> int:
        return 0


def _readers(services: Services, hms: Hms, first: SeenFirst, database: MetastoreDatabase | None) -> Readers:
    """What proves that nobody reads, by the metastore's setting; where it is unknown, readers may register."""
    if hms.config_value(MIN_HISTORY, "unknown").strip().lower() == "false":
        return Watermark(first)
    if database is not None and database.registrations() is not None:
        return Registered(hms, first, database, services.unique)
    named = "--queue-url does not name it" if database is None else f"{database.shown} is none of a metastore of Hive 4"
    return Unseen(first, f"and {named}", is_off=_cleaner_on(hms) == "false")


def _renamed(request: CompactionRequest) -> ConflictError:
    return ConflictError(
        f"Cannot clean {request.ref}: because its table was renamed since readers were looked for; the next run goes on"
    )


def refuse_beside_hives(hms: Hms, *, force: bool) -> None:
    """Refuse where Hive's own cleaner does it, unless that is forced."""
    if not force and _cleaner_on(hms) != "false":
        raise RefusedError(
            f"Cannot clean beside Hive's own cleaner: because the metastore's {CLEANER_ON} is not false; Hive cleans "
            "what was compacted, or --force cleans too"
        )


def _cleaner_on(hms: Hms) -> str:
    return hms.config_value(CLEANER_ON, "unknown").strip().lower()
