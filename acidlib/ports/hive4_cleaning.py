"""The cleaning of requests that a Hive 4 metastore calls ready: the readers it waits for, what may go, how they end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

from acidlib.acid.names import ANY_NAMES, Generation, Names, parse_directory
from acidlib.acid.write_ids import ValidTxnList
from acidlib.arguments import FORCE, METASTORE_DB, SHOW_BLOCKERS
from acidlib.errors import AcidError, ConflictError, RefusedError
from acidlib.execute.answers import answer_of
from acidlib.metastore.hms import Hms
from acidlib.model.requests import CompactionRequest, CompactionType, State, commit_note
from acidlib.model.tables import TableRef
from acidlib.places.place import Place
from acidlib.places.selection import CleanerOptions
from acidlib.planning.clean import (
    AgeRule,
    CleanPlan,
    OpenReader,
    aborted_present,
    plan_cleaning,
    readers_of,
    still_reading_reason,
)
from acidlib.ports.cleaning import ListedRequest
from acidlib.ports.hive4 import MIN_HISTORY, Hive4Requests
from acidlib.ports.holds import ClaimedPlace
from acidlib.ports.metastore_cleaning import (
    DROPPED,
    CatalogPlaces,
    notes_about_named,
    retention_of,
    with_mark,
)
from acidlib.ports.rolled_back import NOTHING_FORGOTTEN, RolledBack, own_transaction, wrong_database_error
from acidlib.queue.metastore_database import MetastoreDatabase
from acidlib.wording import retention_words

CLEANER_ON = "metastore.compactor.cleaner.on"
_CANARY = "acidlib"
"""The database of a table that does not exist, for which a run registers itself."""


class Hive4Cleaning:
    """The requests of a Hive 4 metastore that are ready for cleaning, and places due after rolled back transactions.

    A request may be cleaned when no transaction is open that existed when its compaction committed: then every snapshot
    in use was taken after that commit, and knows the result. Source: Hive 4 `CompactionTxnHandler.findReadyToClean` and
    `CompactionCleaner`, except that the comparison is strict. Where readers register what they read, transactions that
    read other tables do not count.

    When a rebalance commits, the metastore stores no transaction id in its request, and Hive's cleaner waits for no
    reader then. Here the first run that sees the request committed stores the highest transaction id of that moment.

    A failed cleaning leaves its row as it is, for thrift has no call to note it; and a place without a request is
    unknown to the cleaner, unless it looked at all tables.
    """

    ends_many = False
    must_exist = True
    rolled_back: RolledBack | None = None

    def __init__(self, requests: Hive4Requests, options: CleanerOptions, database: MetastoreDatabase | None) -> None:
        """Raise as `notes_about_named`, and RefusedError where Hive's own cleaner works.

        database  named for the queue, and perhaps this metastore's; None where none is named
        """
        self.services = requests.services
        self.options = options
        self._requests = requests
        self._hms = hms = requests.hms
        self._retention = retention_of(self.services.settings, options)
        self._places = CatalogPlaces(requests.catalog, current=self._current, snapshot=self._snapshot)
        self.notes = notes_about_named(requests.catalog, options, hms.show_compactions)
        self._left_to_hive: str | None = None
        """The reason to leave all cleaning to Hive's own cleaner: readers register where this run cannot look."""
        registry = None
        if hms.config_value(MIN_HISTORY, "unknown").strip().lower() != "false":  # where unknown, they may register
            registry = database
            if database is None or database.registrations() is None:
                registry, named = None, f"{METASTORE_DB} does not name it"
                if database is not None:
                    named = f"{database.shown} is none of a metastore of Hive 4"
                is_off = ", which is off" if self._is_hives_off() else ""
                where = f"readers register in the metastore's database ({MIN_HISTORY}), and {named}"
                self._left_to_hive = f"left to Hive's own cleaner{is_off}: {where}"
        if not (self._left_to_hive or options.force or self._is_hives_off()):
            raise RefusedError(
                f"Cannot clean beside Hive's own cleaner: the metastore's {CLEANER_ON} is not false; Hive "
                f"cleans what was compacted, or {FORCE} cleans too"
            )
        self._readers = Readers(hms, registry, self.services.unique)
        self._not_ready: dict[int, str] = {}
        """The transactions of requests that wait, with the reason: the inputs of these results may be read, also after
        a rename.
        """
        if database is not None:
            self.rolled_back = RolledBack(self.services, hms, requests.catalog, database, options)

    def _is_hives_off(self) -> bool:
        return self._hms.config_value(CLEANER_ON, "unknown").strip().lower() == "false"

    def recover(self) -> list[str]:
        """End requests of dead runs of this engine, and results that can never be committed."""
        return self._requests.recover(lambda row: self.options.selection.wants(row.ref))

    def ready(self) -> list[CompactionRequest]:
        """Return the requests that the metastore shows, an earlier mark of a place before a later one.

        A later one does not wait for an earlier one: its own watermark is the higher one, and it may cover just those
        directories that the earlier one cannot get rid of. Requests that Hive's cleaner queued after rolled back
        transactions are left out where this run cleans after these.
        """
        txns = self._readers.txns  # before the requests: a result that has committed by then is among them
        cleans_rolled_back = self.rolled_back is not None and self.rolled_back.is_seen
        rows = [
            self._with_bound(with_mark(row), txns)
            for row in self._hms.show_compactions()
            if row.state is State.READY_FOR_CLEANING
            and self.options.selection.wants(row.ref)
            and not (row.type is CompactionType.ABORT_TXN_CLEANUP and cleans_rolled_back)
        ]
        if rows:
            self._readers.registered  # noqa: B018 - refuses a database that proves nothing
        expected = []
        for row in rows:
            reason = self.not_ready_reason(row)
            if reason is not None and row.txn_id is not None:
                self._not_ready[row.txn_id] = reason
            if reason is None or self.options.dry_run:
                expected.append(row)
        self._places.expect(expected)
        return sorted(rows, key=lambda row: (row.highest_write_id or 0, row.id))

    def _with_bound(self, row: CompactionRequest, txns: ValidTxnList) -> CompactionRequest:
        """Return a committed rebalance with the highest transaction and the time that are noted of it, or are now.

        They are later than its commit, which they stand for.
        """
        if row.type is not CompactionType.REBALANCE or row.next_txn_id is not None or row.txn_id is None:
            return row
        bound = row.noted_commit
        if bound is None and txns.is_txn_valid(row.txn_id):
            bound = txns.high_water_mark, self.services.now_ms()
            if not self.options.dry_run:
                self._hms.set_job_id(row, commit_note(*bound))
        if bound is None:
            return row
        next_txn_id, commit_ms = bound
        return replace(row, next_txn_id=next_txn_id, commit_ms=commit_ms)

    def not_ready_reason(self, request: CompactionRequest) -> str | None:
        """Return why the watermark has not passed the request, or why its row is left to Hive's own cleaner."""
        if request.type is CompactionType.ABORT_TXN_CLEANUP:
            return f"left to Hive's own cleaner: it is a {request.type.label}"
        if request.start_ms is None:
            return "left to Hive's own cleaner: it is for a table or partition that was dropped, not for a compaction"
        if request.next_txn_id is None or request.commit_ms is None:
            return f"its transaction {request.txn_id or 'unknown'} has not committed"
        reading = self._left_to_hive or self._readers.wait_reason(request)
        if reading is not None:
            return reading
        due = request.commit_ms / 1000 + self._retention
        return retention_words(self._retention, due) if due > self.services.clock() else None

    def _current(self, request_id: int) -> CompactionRequest | None:
        """Ask the metastore."""
        row = self._hms.find_compaction(request_id)
        if row is None or row.state is not State.READY_FOR_CLEANING:
            return None
        return self._with_bound(with_mark(row), self._readers.txns)

    def _snapshot(self, request: CompactionRequest) -> ValidTxnList:
        return self._readers.snapshot(request)

    def hold(self, request: CompactionRequest, place: Place) -> ClaimedPlace:
        """Return a claim of the place."""
        return ClaimedPlace(self.services, request, place)

    def requests_at(self, place: Place) -> Sequence[CompactionRequest]:
        """Return none: no result here is seen before it is verified."""
        del place
        return ()

    def place(self, request: CompactionRequest, *, anew: bool = False) -> tuple[CompactionRequest, Place | None]:
        """Return the place as of a snapshot that every possible reader has at least."""
        now, place = self._places.place(request, anew=anew)
        self._require_name(now, request)
        return now, place

    def _require_name(self, now: CompactionRequest, request: CompactionRequest) -> None:
        """Raise ConflictError unless a table still has the name by which readers were looked for."""
        if self._readers.goes_by_names and now.ref != request.ref:
            raise ConflictError(
                f"Cannot clean {now.ref}: its table was renamed since readers were looked for; the next run goes on"
            )

    def require_unmoved(self, request: CompactionRequest, place: Place) -> None:
        """Ask the metastore."""
        self._places.require_unmoved(request, place)

    def require_alone(self, request: CompactionRequest, place: Place) -> None:
        """Ask whether the request is still there, and for the name by which readers were looked for."""
        now = self._current(request.id)
        if now is None:
            raise ConflictError(f"Cannot clean {place.ref}: request {request.id} was cleaned by another")
        self._require_name(now, request)

    def plan(self, listed: ListedRequest, requests: Sequence[CompactionRequest]) -> CleanPlan:
        """Return the paths that are obsolete or aborted for every transaction that is open now; note nothing.

        Every directory counts as published at the commit: the watermark, which `not_ready_reason` has judged, is the
        proof, not the age.
        """
        del requests
        request, place, listing = listed.request, listed.place, listed.listing
        commit = (request.commit_ms or 0) / 1000
        tops, still_read = listing.top_directories(), {}
        for name in tops if self._not_ready else ():
            parsed = parse_directory(name, ANY_NAMES)
            if parsed is not None and parsed.visibility_txn in self._not_ready:
                still_read[name] = self._not_ready[parsed.visibility_txn]
        return plan_cleaning(
            listing,
            listed.mark,
            place.write_ids(listing),
            names=Names(Generation.HIVE4),
            age=AgeRule(
                now=self.services.clock(),
                retention_seconds=self._retention,
                newest_publication=commit,
                published_at=dict.fromkeys(tops, commit),
            ),
            txns=place.interpretation.txns,
            still_read=still_read,
        )

    def end_cleaned(self, cleaned: Sequence[ListedRequest]) -> list[str | AcidError | None]:
        """End the requests, one after the other."""
        return [answer_of(self._end, listed) for listed in cleaned]

    def _end(self, cleaned: ListedRequest) -> None:
        """End a request; up to its mark the metastore forgets write ids of which no directory holds rows.

        Where a delta that is needed holds rows of aborted write ids, it forgets only those below the lowest of them:
        Hive's own cleaner has those forgotten that it removed (HIVE-24481), which thrift cannot say.

        The list may end below the recorded mark, when the metastore has forgotten everything that committed: write ids
        above its end were not looked at, and must not be forgotten.
        """
        write_ids = cleaned.place.write_ids(cleaned.listing)
        mark = min(cleaned.mark, write_ids.high_water_mark)
        present = aborted_present(cleaned.listing, write_ids, names=Names(Generation.HIVE4), up_to=mark)
        forgotten = min([mark, *(write_id - 1 for write_id in present)])
        self._hms.mark_cleaned(replace(cleaned.request, highest_write_id=forgotten or NOTHING_FORGOTTEN))
        if present and self.rolled_back is not None:
            self.rolled_back.forget_gone(cleaned.place, cleaned.listing, mark)

    def end_forbidden(self, request: CompactionRequest, reason: str) -> bool:
        """End the request as refused (Hive `CompactionCleaner`); the next compaction's request cleans what it left."""
        self._hms.mark_refused(replace(request, error_message=reason))
        return True

    def end_dropped(self, request: CompactionRequest) -> None:
        """End the request as refused."""
        self._hms.mark_refused(replace(request, error_message=DROPPED))

    def note_failure(self, request: CompactionRequest, error: AcidError) -> None:
        """Note nothing: the row stays as it is."""

    def known_places(self) -> list[CompactionRequest]:
        """Return none: a place without a request is unknown."""
        return []

    def nothing_to_clean_notes(self) -> list[str]:
        """Return none."""
        return []


class Readers:
    """Transactions that may still read, as one run of the cleaner sees them.

    Every open one may read everything. A transaction from after a commit has a higher id than any that the commit has
    seen: this is the strict watermark of open transactions, which thrift shows (HIVE-23048, HIVE-24291).

    Where the metastore has readers register the tables that they read (`metastore.txn.use.minhistorywriteid`), its
    database shows that, and readers of other tables do not count; see `acidlib.planning.clean`.
    """

    def __init__(self, hms: Hms, registry: MetastoreDatabase | None, unique: Callable[[], str]) -> None:
        """Look at the readers of a metastore.

        registry  the database in which they register; None where they do not
        unique    returns a new text at each call
        """
        self._hms = hms
        self._registry = registry
        self._unique = unique
        self.goes_by_names = registry is not None
        """An answer about a table does not hold under another name of it."""

    @cached_property
    def txns(self) -> ValidTxnList:
        """The transactions before the requests were read, asked for once."""
        return self._hms.open_txns()

    def wait_reason(self, request: CompactionRequest) -> str | None:
        """Return which transaction a committed request has to wait for: the lowest with a snapshot from before it."""
        assert request.next_txn_id is not None
        assert request.commit_ms is not None
        if self._registry is not None:
            return still_reading_reason(
                request.ref.whole_table.as_stored,
                self._readers_of(request),
                mark=request.highest_write_id or 0,
                next_txn_id=request.next_txn_id,
                commit_ms=request.commit_ms,
            )
        lowest = self.txns.min_open
        if lowest > request.next_txn_id:
            return None
        return (
            f"transaction {lowest} is open since before its commit (transactions up to "
            f"{request.next_txn_id} have to end; {SHOW_BLOCKERS} names them)"
        )

    def snapshot(self, request: CompactionRequest) -> ValidTxnList:
        """Return the snapshot that every transaction has at least that may read the table of a request.

        It leaves out transactions that committed at or above the lowest of these, and those not known then. Source:
        Hive 4 `CompactionCleaner` (the capped transaction list).
        """
        txns, lowest = self.txns, self.txns.min_open
        if self._registry is not None:
            readers = self._readers_of(request)
            lowest = readers[0].txn_id if readers else txns.high_water_mark + 1
        cap = min(lowest - 1, txns.high_water_mark)
        return ValidTxnList(
            high_water_mark=cap,
            opened=tuple((low, min(high, cap)) for low, high in txns.opened if low <= cap),
            aborted=tuple((low, min(high, cap)) for low, high in txns.aborted if low <= cap),
        )

    def _readers_of(self, request: CompactionRequest) -> tuple[OpenReader, ...]:
        return readers_of(request.ref.whole_table.as_stored, self.registered)

    @cached_property
    def registered(self) -> tuple[OpenReader, ...]:
        """The open transactions with their registrations, which are read last: one that ends in between has none.

        Registrations are read while this run itself has registered for a table that does not exist, over thrift: a
        database that shows that shows the others, too. RefusedError where it does not: it is another one than this
        metastore's, or a copy that is behind.
        """
        if self._registry is None:
            return ()
        opened = self._hms.open_txns().opened
        ids = [txn for low, high in opened for txn in range(low, high + 1)]
        started = {txn.id: txn.started_ms for txn in self._hms.open_txns_info()}
        name = self._unique().lower()
        with own_transaction(self._hms, f"acidlib-{name}") as own:
            self._hms.add_write_ids_to_min_history(own, {f"{_CANARY}.{name}": 1})
            tables = self._registry.registrations()
        if tables is None or tables.get(own, {}).get(TableRef(_CANARY, name)) != 1:
            fact = "has no table MIN_HISTORY_WRITE_ID" if tables is None else "does not show the registration just made"
            reason = f"{fact} (unless the metastore has given up {MIN_HISTORY})"
            raise wrong_database_error(self._registry, "the registrations of readers", reason)
        return tuple(
            OpenReader(txn_id=txn, started_ms=started.get(txn), tables=tables.get(txn, {})) for txn in sorted(ids)
        )
