"""Cleaning after rolled back transactions, at places that no request is about: Hive's `AbortedTxnCleaner`.

Directories are removed first, and only then does the metastore forget: a run that dies in between leaves notes of
directories that are gone, and the next run has these notes forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from acidlib.acid.listing import Listing
from acidlib.arguments import METASTORE_DB
from acidlib.errors import ConflictError, RefusedError, RetryError, known_error
from acidlib.execute.services import Services
from acidlib.metastore.hms import Hms
from acidlib.metastore.transactions import TxnType
from acidlib.model.requests import CompactionType, State
from acidlib.model.results import CleaningResult, Outcome, RemovedPath, Waiting
from acidlib.model.tables import TableRef
from acidlib.places.place import Place
from acidlib.places.removals import DeleteRateLimiter, NotOursError, ended_by, remove_named, would_remove
from acidlib.places.selection import CleanerOptions
from acidlib.planning.clean import (
    DueCleaning,
    NotedWrite,
    due_cleanings,
    notes_to_keep,
    places_below,
    rolled_back_directories,
)
from acidlib.planning.initiate import ABORTED_TXN_KEY, ABORTED_TXN_TIME_KEY, ABORTS_BY_CLEANER
from acidlib.points import Point, reach
from acidlib.ports.catalog import Catalog, GoneError, require_unchanged
from acidlib.ports.cleaning import result_of_due
from acidlib.queue.metastore_database import MetastoreDatabase
from acidlib.report.progress import WARNING
from acidlib.stores.listing import list_location
from acidlib.wording import plural

NOTHING_FORGOTTEN = -1
"""A mark below every write id: with it a request ends and nothing is forgotten, where 0 would mean everything."""


@contextmanager
def own_transaction(hms: Hms, host: str) -> Iterator[int]:
    """Have a transaction for a moment: if a database shows it, it shows all older ones, and is this metastore's."""
    txn = hms.open_txn(TxnType.READ_ONLY, "acidlib cleaner", host)
    try:
        yield txn
    finally:
        hms.commit_txn(txn, TxnType.READ_ONLY)


def wrong_database_error(database: MetastoreDatabase, proof: str, reason: str) -> RefusedError:
    """Return the error for a database that does not show what this run has just done over thrift."""
    return RefusedError(
        f"Cannot clean by {proof} in {database.shown}: it {reason}, so it is not the database of this metastore, or a "
        f"copy that is behind; give {METASTORE_DB}, its own database"
    )


class RolledBack:
    """The places of one metastore that are due after rolled back transactions, and their cleaning."""

    def __init__(
        self, services: Services, hms: Hms, catalog: Catalog, database: MetastoreDatabase, options: CleanerOptions
    ) -> None:
        """Work with the `database` that is named as this metastore's, which is proven before anything depends on it."""
        self._services = services
        self._hms = hms
        self._catalog = catalog
        self._database = database
        self._options = options
        self._is_proven = False
        self.is_seen = False
        """Whether the database has shown the notes of rolled back transactions."""

    def due(self) -> list[list[DueCleaning]]:
        """Return the places that are due and selected, by table: those of one table are cleaned one after the other.

        None are due, and a warning is shown, where the user of the database may not read the notes: it may be named
        only for the registrations of readers. RefusedError where the database is another one than this metastore's, or
        a copy that is behind.
        """
        settings = self._services.settings
        if not settings.flag(ABORTS_BY_CLEANER):
            return []  # the initiator counts them
        try:
            answer = self._database.noted_writes()
        except RefusedError as error:
            self._services.progress.note(error.words, level=WARNING)
            return []
        if answer is None:
            return []
        self.is_seen = True
        notes, now_ms = answer
        longest = settings.integer(ABORTED_TXN_TIME_KEY)
        due = due_cleanings(notes, most=settings.integer(ABORTED_TXN_KEY), longest_ms=longest, now_ms=now_ms)
        by_table: dict[TableRef, list[DueCleaning]] = {}
        for place in due:
            if self._options.selection.wants(place.ref):
                by_table.setdefault(place.ref.whole_table, []).append(place)
        if by_table:
            self._require_its_database()
        return list(by_table.values())

    def clean(self, due: DueCleaning, limiter: DeleteRateLimiter) -> CleaningResult:
        """Return the result of one place, also where an error has ended it: then with the paths removed before."""
        removed: list[RemovedPath] = []
        try:
            result = self._clean(due, removed, limiter)
        except Exception as error:
            result = ended_by(known_error(error, f"clean {due.ref}"), result_of_due(due), waits=RefusedError)
        return replace(result, removed=tuple(removed))

    def _clean(self, due: DueCleaning, removed: list[RemovedPath], limiter: DeleteRateLimiter) -> CleaningResult:
        """Return the result of one place but for the paths, which are added to `removed`."""
        result = result_of_due(due)
        # the next run cleans after transactions that are rolled back from here on
        notes = [note for note in self._database.noted_writes_of(due.ref) if due.concerns(note)]
        kept: dict[NotedWrite, Waiting] = {}
        if any(note.compacts for note in notes):  # its worker may not know yet, and publish a result
            rows = {row.txn_id: row.id for row in self._hms.show_compactions() if row.state is State.WORKING}
            kept = {
                note: Waiting(
                    f"request {rows[note.txn_id]}", f"it is worked on, and its {_words(note)} was rolled back"
                )
                for note in notes
                if note.txn_id in rows
            }
        why, problems = due.reason, list[Waiting]()
        table_itself = self._catalog.table_itself(due.ref)
        if table_itself is not None:
            for place in self._places(due, notes, table_itself):
                result = result if result.location else replace(result, location=str(place.location))
                listing, unremoved = self._clean_at(due, notes, place, table_itself, removed, limiter)
                problems += unremoved
                if listing is not None:
                    for note, name in _kept(listing, notes).items():
                        kept[note] = Waiting(name, f"it may hold rows of {_words(note)}")
        elif self._database.has_table(due.ref):
            raise NotOursError(
                f"Cannot clean {result.ref}: the metastore does not show this user the table, though its database "
                "has it; run the cleaner as a user who may see it"
            )
        else:
            why += "; the table does not exist any more"
        free = _free(notes, kept)
        result = replace(result, waiting=tuple(sorted(set(kept.values()))))
        count = plural(len({note.txn_id for note in free}), "rolled back transaction")
        if self._options.dry_run:
            return replace(result, state=Outcome.PLANNED, reason=f"{why}; {count} would be forgotten here")
        self._database.forget(free)
        reach(Point.CLEANED)
        if problems:
            return replace(result, reason="; ".join(map(str, problems)))
        if kept:
            remembered = len({note.txn_id for note in kept})
            reason = f"{why}; {count} forgotten here, {remembered} remembered"
            return replace(result, state=Outcome.READY_FOR_CLEANING, reason=reason)
        return replace(result, state=Outcome.SUCCEEDED, reason=f"{why}; {count} forgotten here")

    def _places(self, due: DueCleaning, notes: Sequence[NotedWrite], table: Place) -> Iterator[Place]:
        """Yield the places that may hold rows of the transactions.

        A write with dynamic partitions may have made some that the metastore never heard of: then these are all places
        below the table where rows may lie, and its partitions that lie elsewhere.
        """
        if table.facts is None or not table.facts.table.partition_keys:
            yield table
        elif due.ref.partition is not None:
            try:
                yield self._catalog.current_place(due.ref)
            except GoneError:
                if self._database.has_partition(due.ref):
                    raise NotOursError(
                        f"Cannot clean {due.ref}: the metastore does not show this user the partition, though its "
                        "database has it; run the cleaner as a user who may see it"
                    ) from None
                # the default location; one that was set went with the partition
                yield replace(table, ref=due.ref, location=table.location.child(due.ref.partition))
        else:
            known = {place.location: place for place in self._catalog.partitions_of(table)}
            below = places_below(list_location(self._services.fs(table.location), table.location, missing=RetryError))
            for path in sorted(path for path, names in below.items() if notes_to_keep(names, notes)):
                location = table.location.child(path) if path else table.location
                ref = table.ref._replace(partition=path or None)
                yield known.get(location, replace(table, ref=ref, location=location))
            for place in known.values():
                if table.location.holds(place.location):
                    continue
                listing = list_location(self._services.fs(place.location), place.location, missing=RetryError)
                if notes_to_keep(listing.top_directories(), notes):
                    yield place

    def _clean_at(
        self,
        due: DueCleaning,
        notes: Sequence[NotedWrite],
        place: Place,
        table: Place,
        removed: list[RemovedPath],
        limiter: DeleteRateLimiter,
    ) -> tuple[Listing | None, tuple[Waiting, ...]]:
        """Remove the directories of one location that hold nothing but rolled back rows.

        Add the paths to `removed`. Return the listing after that, None where the location does not exist, and the
        problems of paths that could not be removed.
        """
        services, location = self._services, place.location
        forbidden = place.cleaning_forbidden()
        if forbidden is not None:
            raise NotOursError(f"Cannot clean {place.ref}: {forbidden}")
        fs = services.fs(location)
        if not fs.exists(str(location)):
            self._require_believable(place, table)
            return None, ()
        if self._options.dry_run:
            listing = list_location(fs, location, missing=ConflictError)
            reasons = self._rolled_back(due, notes, place, listing)
            removable, problems = would_remove(services, location, reasons, listing)
            removed += removable
            return listing.without([item.path for item in removable]), problems
        limiter.assert_not_stopped()
        with services.claim_and_revoke(location) as claim:
            reach(Point.CLEANING_CLAIMED)
            listing = list_location(fs, location, missing=ConflictError)
            if not listing.files and not listing.top_directories():
                self._require_believable(place, table)
            reasons = self._rolled_back(due, notes, place, listing)
            reach(Point.CLEANING_PLANNED)
            if not reasons:
                return listing, ()
            now = self._catalog.table_itself(table.ref)
            if now is None:
                raise ConflictError(f"Cannot clean {table.ref}: it was dropped meanwhile")
            require_unchanged(table, now, "clean")
            gone, problems = remove_named(
                services, claim, reasons, trash=self._options.trash, limiter=limiter, known=frozenset(listing.files)
            )
            removed += gone
            reach(Point.REMOVED_ALL)
            return list_location(fs, location, missing=ConflictError), problems

    def _rolled_back(
        self, due: DueCleaning, notes: Sequence[NotedWrite], place: Place, listing: Listing
    ) -> dict[str, str]:
        """Return the directories that may be removed, each with the reason.

        Write ids are read after the listing: a table that was re-created meanwhile has its own.
        """
        pairs = self._database.rolled_back(place.ref)
        write_ids = [write_id for write_id, txn in pairs if due.below is None or txn < due.below]
        return rolled_back_directories(listing, {note.txn_id for note in notes}, write_ids)

    def _require_believable(self, place: Place, table: Place) -> None:
        """Raise RetryError where a place looks empty but rows may lie there, of which nothing must be forgotten.

        An empty directory of a local disk may be that of a mount that is missing, unless nothing was ever committed in
        the table, or something else lies in it.
        """
        fs, may_be_absent = self._services.fs(table.location), table.location.kind.may_be_absent
        is_there = fs.exists(str(table.location))
        if is_there and (
            not may_be_absent
            or (place.location != table.location and fs.list_directory(str(table.location), missing=ConflictError))
        ):
            return
        name = table.ref.whole_table
        write_ids = self._hms.valid_write_ids([name], self._hms.open_txns())[name]
        was_committed = len(write_ids.open_ids) + len(write_ids.aborted_ids) < write_ids.high_water_mark
        if was_committed or (may_be_absent and not is_there):
            raise RetryError(
                f"Cannot clean {place.ref}: nothing lies at {place.location}; a mount may be missing, "
                "or the configuration may lead to another store than before"
            )

    def forget_gone(self, place: Place, listing: Listing, up_to: int) -> None:
        """Have notes forgotten whose rows no directory of a place holds, up to the mark of a request that has ended.

        Up to it nothing was open when the place was listed. Notes of compactions stay: one may have been at work then.
        """
        if not self.is_seen:
            return
        self._require_its_database()
        notes = [
            note
            for note in self._database.noted_writes_of(place.ref)
            if note.ref == place.ref and not (note.is_open or note.compacts or note.write_id is None)
            if note.write_id <= up_to
        ]
        self._database.forget(_free(notes, _kept(listing, notes)))

    def end_retries(self) -> None:
        """End requests that Hive's own cleaner queued for itself after a failure, if nothing is noted of the place."""
        rows = [
            row
            for row in self._hms.show_compactions()
            if row.type is CompactionType.ABORT_TXN_CLEANUP and row.state is State.READY_FOR_CLEANING
        ]
        if not rows or self._options.dry_run or not self.is_seen:
            return
        answer = self._database.noted_writes()
        if answer is None:
            return
        noted = {note.ref for note in answer[0] if not note.is_open}
        for row in rows:
            if row.ref not in noted and self._options.selection.wants(row.ref):
                self._hms.mark_cleaned(replace(row, highest_write_id=NOTHING_FORGOTTEN))

    def _require_its_database(self) -> None:
        """Raise RefusedError unless the database shows a transaction that this run opens over thrift; asked once."""
        if self._is_proven:
            return
        host = f"acidlib-{self._services.unique()}"
        with own_transaction(self._hms, host) as txn:
            self._is_proven = self._database.shows(txn, host)
        if not self._is_proven:
            reason = "does not show the transaction that was just opened over thrift"
            raise wrong_database_error(self._database, "the rolled back transactions", reason)


def _kept(listing: Listing, notes: Iterable[NotedWrite]) -> dict[NotedWrite, str]:
    return notes_to_keep(listing.top_directories(), notes, listing.compacted_bases)


def _free(notes: Iterable[NotedWrite], kept: Iterable[NotedWrite]) -> list[NotedWrite]:
    """Return the notes whose transaction has no row left at the place of the note: notes are forgotten by these two."""
    keys = {(note.txn_id, note.ref) for note in kept}
    return [note for note in notes if (note.txn_id, note.ref) not in keys]


def _words(note: NotedWrite) -> str:
    return f"transaction {note.txn_id}" + ("" if note.write_id is None else f" (write id {note.write_id})")
