"""Cleaning after transactions that were rolled back, at places of which no request says so: Hive's `AbortedTxnCleaner`.

Directories go first, and only then does the metastore forget: a run that dies in between leaves notes of which nothing
lies there any more, and the next one has them forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from acidlib.engine.catalog import Catalog, GoneError, require_unchanged
from acidlib.engine.cleaning import CleanerOptions, NotOursError
from acidlib.engine.metastore_cleaning import is_wanted
from acidlib.engine.removals import Pace, remove_named, would_go
from acidlib.engine.services import Services
from acidlib.engine.target import Target
from acidlib.errors import AcidError, BusyError, ConflictError, RefusedError, RetryError
from acidlib.metastore.hms import Hms
from acidlib.metastore.values import TxnType
from acidlib.model.listing import Listing
from acidlib.model.location import LOCAL
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.planning.clean import Removal
from acidlib.planning.rolled_back import (
    DueCleaning,
    NotedWrite,
    due_cleanings,
    held_notes,
    places_below,
    rolled_back_directories,
)
from acidlib.points import Point, passing
from acidlib.queue.noted_writes import NotedWrites
from acidlib.report.decisions import CleaningResult, RemovedPath
from acidlib.report.log import WARNING
from acidlib.storage.listing import list_location
from acidlib.wording import plural

BY_CLEANER = "metastore.compactor.clean.aborts.using.cleaner"
_NUMBER, _TIME = "hive.compactor.abortedtxn.threshold", "hive.compactor.aborted.txn.time.threshold"
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
        self, services: Services, hms: Hms, catalog: Catalog, notes: NotedWrites, options: CleanerOptions
    ) -> None:
        """`notes` are of the database of this metastore, which is proven before anything goes by them."""
        self._services = services
        self._hms = hms
        self._catalog = catalog
        self._notes = notes
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
        if not settings.flag(BY_CLEANER):
            return []  # the initiator counts them
        try:
            found = self._notes.read()
        except RefusedError as error:
            self._services.progress.note(str(error), level=WARNING)
            return []
        if found is None:
            return []
        self.is_seen = True
        notes, now_ms = found
        longest = settings.integer(_TIME)
        due = due_cleanings(notes, most=settings.integer(_NUMBER), longest_ms=longest, now_ms=now_ms)
        by_table: dict[tuple[str, str], list[DueCleaning]] = {}
        for one in due:
            if is_wanted(self._options, _request(one)):
                by_table.setdefault(one.entity[:2], []).append(one)
        if by_table:
            self._require_its_database()
        return list(by_table.values())

    def clean(self, due: DueCleaning, pace: Pace) -> CleaningResult:
        """Return what came of one place, whatever goes wrong there."""
        database, table, partition = due.entity
        result = CleaningResult(
            id=None, database=database, table=table, partition=partition, location="", state="failed", reason=""
        )
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
        entity = (target.database, target.table, target.partition)
        notes = [
            note
            for note in self._notes.of_table(target.database, target.table)
            if note.entity == entity and not (note.is_open or note.compacts or note.write_id is None)
            if note.write_id <= up_to
        ]
        self._notes.forget(_free(notes, dict(_held(listing, notes))))

    def end_retries(self) -> None:
        """End what Hive's own cleaner queued for itself after a failure, once nothing is noted of its place."""
        rows = [
            row
            for row in self._hms.show_compactions()
            if row.type is CompactionType.ABORT_TXN_CLEANUP and row.state is State.READY_FOR_CLEANING
        ]
        if not rows or self._options.dry_run or not self.is_seen:
            return
        found = self._notes.read()
        if found is None:
            return
        noted = {note.entity for note in found[0] if not note.is_open}
        for row in rows:
            if row.entity not in noted and is_wanted(self._options, row):
                self._hms.mark_cleaned(replace(row, highest_write_id=NOTHING_FORGOTTEN))

    def _clean(self, due: DueCleaning, result: CleaningResult, pace: Pace) -> CleaningResult:
        database, table, _ = due.entity
        # what is rolled back from here on is not looked for at the first place: it is left for the next run
        notes = [note for note in self._notes.of_table(database, table) if due.concerns(note)]
        at_work = self._at_work(notes)
        table_itself = self._catalog.table_itself(database, table)
        if table_itself is None:
            if self._notes.has_table(database, table):
                raise NotOursError(
                    f"Cannot clean {result.name}: the metastore does not show this user the table, though its database "
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
        database, name, partition = due.entity
        if table.facts is None or not table.facts.table.partition_keys:
            yield table
        elif partition is None:
            yield from self._all_partitions(notes, table)
        else:
            try:
                yield self._catalog.whereabouts(_request(due))
            except GoneError:
                if self._notes.has_partition(database, name, partition):
                    raise NotOursError(
                        f"Cannot clean {database}.{name}.{partition}: the metastore does not show this user the "
                        "partition, though its database has it; run the cleaner as a user who may see it"
                    ) from None
                # where it lay unless it was given a location, which went with it
                yield replace(table, partition=partition, location=table.location.child(partition))

    def _all_partitions(self, notes: Sequence[NotedWrite], table: Target) -> Iterator[Target]:
        """Wherever rows may lie below the table, and in its partitions that lie elsewhere.

        A write to partitions that are known only at its end may have made some that the metastore never heard of.
        """
        known = {place.location: place for place in self._catalog.partitions_of(table)}
        below = places_below(list_location(self._services.fs(table.location), table.location, missing=RetryError))
        for path in sorted(path for path, names in below.items() if held_notes(names, notes)):
            location = table.location.child(path) if path else table.location
            yield known.get(location, replace(table, partition=path or None, location=location))
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
            raise NotOursError(f"Cannot clean {target.name}: {forbidden}")
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
        found = self._notes.rolled_back(target.database, target.table)
        write_ids = [write_id for write_id, txn in found if due.below is None or txn < due.below]
        return rolled_back_directories(listing, {note.txn_id for note in notes}, write_ids)

    def _require_unmoved(self, table: Target) -> None:
        now = self._catalog.table_itself(table.database, table.table)
        if now is None:
            raise ConflictError(f"Cannot clean {table.name}: it was dropped meanwhile")
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
        name = (table.database, table.table)
        write_ids = self._hms.valid_write_ids([name], self._hms.open_txns().txns)[name]
        was_committed = len(write_ids.open_ids) + len(write_ids.aborted_ids) < write_ids.high_water_mark
        if was_committed or (is_local and not is_there):
            raise RetryError(
                f"Cannot clean {target.name}: nothing lies at {target.location}; a mount may be missing, or what is "
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
        self._notes.forget(free)
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
            shown = self._notes.shows(txn, host)
        finally:
            self._hms.commit_txn(txn, TxnType.READ_ONLY)
        if not shown:
            raise RefusedError(
                f"Cannot clean by the rolled back transactions in {self._notes.shown}: it does not show what was just "
                "opened over thrift, so it is not the database of this metastore, or a copy that is behind; give "
                "--queue-url of its own database"
            )
        self._is_proven = True


def _held(listing: Listing, notes: Iterable[NotedWrite]) -> tuple[tuple[NotedWrite, str], ...]:
    return tuple(held_notes(listing.top_directories(), notes, listing.compacted_bases).items())


def _free(notes: Iterable[NotedWrite], held: Mapping[NotedWrite, str]) -> list[NotedWrite]:
    """The notes of transactions of which nothing may lie at the place: they are forgotten by transaction and place."""
    kept = {(note.txn_id, note.entity) for note in held}
    return [note for note in notes if (note.txn_id, note.entity) not in kept]


def _words(note: NotedWrite) -> str:
    return f"transaction {note.txn_id}" + ("" if note.write_id is None else f" (write id {note.write_id})")


def _removal(path: str, reason: str) -> Removal:
    return Removal(path=path, is_directory=True, length=0, files=0, reason=reason)


def _request(due: DueCleaning) -> CompactionRequest:
    """The request that nobody has queued."""
    database, table, partition = due.entity
    kind = CompactionType.ABORT_TXN_CLEANUP
    return CompactionRequest(id=0, database=database, table=table, partition=partition, type=kind)
