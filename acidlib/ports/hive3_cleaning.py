"""The cleaning of requests of a Hive 3.1 metastore, in its own queue or in ours, by proof that no reader is left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from acidlib.acid.names import Generation, Names
from acidlib.acid.write_ids import ValidTxnList
from acidlib.errors import AcidError
from acidlib.execute.answers import answer_of
from acidlib.metastore.transactions import HeldLock
from acidlib.model.requests import ActivityMark, CompactionRequest, RequestFacts, State
from acidlib.places.place import Place
from acidlib.places.selection import CleanerOptions
from acidlib.planning.clean import CleanPlan, aborted_present, plan_cleaning
from acidlib.ports.cleaning import ListedRequest
from acidlib.ports.hive3 import (
    CLEAN,
    Hive3Tables,
    LockedPlace,
    current_activity,
    hive3,
    may_read,
    table_id,
)
from acidlib.ports.holds import Hold
from acidlib.ports.metastore_cleaning import (
    DROPPED,
    CatalogPlaces,
    notes_about_named,
    retention_of,
    with_mark,
)
from acidlib.ports.sql import note_failed_cleaning, retry_reason
from acidlib.wording import retention_words

_MAX_NOTED = 20
"""Directories of which evidence is noted in one request: the metastore's queue has little room for properties."""


class Hive3Cleaning:
    """The requests of one Hive 3.1 metastore, in its own queue or in ours: cleaned by proof.

    Hive 3.1 has no watermark in its queue. A directory may go only when every transaction and lock that existed once
    the newest publication at its place was visible has ended, and the same holds for every directory that covers it. A
    covering directory that this engine did not publish counts as published when it was first seen. Hive 3.1's `Cleaner`
    remembers locks in memory; transactions are added here because a query takes its snapshot before its locks.
    """

    ends_many = False
    must_exist = True
    rolled_back = None

    def __init__(self, tables: Hive3Tables, options: CleanerOptions) -> None:
        """Raise as `notes_about_named`."""
        self.services = tables.services
        self.options = options
        self._tables = tables
        self._queue = tables.queue
        self._retention = retention_of(tables.services.settings, options)
        self._places = CatalogPlaces(tables.catalog, current=self._current, snapshot=lambda _: None)
        self.notes = notes_about_named(tables.catalog, options, tables.queue.show)

    def is_wanted(self, request: CompactionRequest) -> bool:
        """Return whether a request is of this metastore and selected."""
        return self._tables.ours(request) and self.options.selection.wants(request.ref)

    def recover(self) -> list[str]:
        """Give back wanted requests of dead runs, and drop their locks."""
        return hive3(self._tables).recover(self.is_wanted)

    def ready(self) -> list[CompactionRequest]:
        """Return the requests of this metastore, an earlier mark of a place before a later one."""
        if self.options.dry_run:  # else `recover` has returned these notes
            for line in self._tables.notes():
                self.services.progress.note(line)
        rows = [with_mark(row) for row in self._queue.ready_for_cleaning() if self.is_wanted(row)]
        self._places.expect(rows)
        return rows

    def not_ready_reason(self, request: CompactionRequest) -> str | None:
        """Wait after a failure."""
        return retry_reason(self.services, request)

    def _current(self, request_id: int) -> CompactionRequest | None:
        row = self._queue.find(request_id)
        return None if row is None or row.state is not State.READY_FOR_CLEANING else with_mark(row)

    def place(self, request: CompactionRequest, *, anew: bool = False) -> tuple[CompactionRequest, Place | None]:
        """Ask the metastore."""
        return self._places.place(request, anew=anew)

    def require_unmoved(self, request: CompactionRequest, place: Place) -> None:
        """Ask the metastore."""
        self._places.require_unmoved(request, place)

    def require_alone(self, request: CompactionRequest, place: Place) -> None:
        """Ask whether Hive's own compactor works there, or is about to.

        One that comes later finds what covers the obsolete paths, and reads none of these.
        """
        del place
        self._tables.require_no_compactor(request, CLEAN)

    def hold(self, request: CompactionRequest, place: Place) -> Hold:
        """Return a claim of the place, with a lock on readers while the publication of a dead run is finished there."""
        return LockedPlace(self._tables, request, doing=CLEAN, place=place)

    def requests_at(self, place: Place) -> Sequence[CompactionRequest]:
        """Return the rows about the table or partition."""
        return self._tables.rows_at(place)

    def plan(self, listed: ListedRequest, requests: Sequence[CompactionRequest]) -> CleanPlan:
        """Return the paths that are obsolete for the recorded mark, except those that may still be read.

        Of each directory of this very table the latest evidence counts: to wait longer is always right. The evidence of
        now is noted for covering directories that are seen for the first time.
        """
        request, place, listing = listed.request, listed.place, listed.listing
        seen: dict[str, ActivityMark] = {}
        for row in requests:
            if row.facts.table_id == table_id(place):
                row.require_understood("clean", "evidence")
                for name, evidence in row.facts.evidence.items():
                    seen[name] = max(evidence, seen.get(name, evidence))
        hms, now_ms = self._tables.hms, self.services.now_ms()
        retention_ms = int(self._retention * 1000)
        txns = hms.open_txns()
        locks = [lock for lock in hms.show_locks() if may_read(lock, request.ref)]
        waited_for = dict(seen)
        if seen:
            waited_for[""] = max(seen.values())  # of the newest publication, whatever it left
        still_read = {}
        for name, evidence in waited_for.items():
            reason = wait_reason(evidence, txns, locks, now_ms=now_ms, retention_ms=retention_ms)
            if reason is not None:
                still_read[name] = reason
        for name in listing.top_directories():
            if name not in seen:
                still_read[name] = "what covers it is seen for the first time; the next run goes on from there"
        plan = plan_cleaning(
            listing,
            listed.mark,
            place.write_ids(listing),
            names=Names(Generation.HIVE3),
            age=None,
            seen=seen,
            still_read=still_read,
        )
        if plan.first_seen and not self.options.dry_run:
            # a later run notes those for which there is no room
            now = current_activity(hms.open_txns(), hms.show_locks(), self.services.now_ms())
            noted = dict(request.facts.evidence) if request.facts.table_id == table_id(place) else {}
            noted.update(dict.fromkeys(plan.first_seen[: max(_MAX_NOTED - len(noted), 0)], now))
            self._queue.change(request.id, None, facts=RequestFacts(evidence=noted, table_id=table_id(place)))
        return plan

    def end_cleaned(self, cleaned: Sequence[ListedRequest]) -> list[str | AcidError | None]:
        """End the requests, one after the other."""
        return [answer_of(self._end, listed) for listed in cleaned]

    def _end(self, cleaned: ListedRequest) -> str | None:
        """End a request as succeeded; or return why it stays, in the metastore's own queue.

        There the end has the metastore forget aborted write ids up to the mark: so no rows of them may be left.
        """
        if not self._tables.own_queue:
            place, listing = cleaned.place, cleaned.listing
            outputs = {name for row in self._tables.rows_at(place) for name in row.facts.outputs or ()}
            aborted = aborted_present(
                listing,
                place.write_ids(listing),
                names=Names(Generation.HIVE3),
                up_to=cleaned.mark,
                compacted=outputs,
            )
            if aborted:
                ids = ", ".join(map(str, aborted[:5]))
                return (
                    f"nothing obsolete is left, but rows of aborted write ids ({ids}) still lie there; "
                    "only Hive's own cleaner can forget the others, so the request stays for it"
                )
        self._queue.end(cleaned.request.id, State.SUCCEEDED, self.services.now_ms(), up_to=cleaned.mark)
        return None

    def end_dropped(self, request: CompactionRequest) -> None:
        """End the request as refused."""
        self._queue.end(request.id, State.REFUSED, self.services.now_ms(), reason=DROPPED)

    def end_forbidden(self, request: CompactionRequest, reason: str) -> bool:
        """Let it wait."""
        del request, reason
        return False

    def note_failure(self, request: CompactionRequest, error: AcidError) -> None:
        """Have it tried again later, or give it up."""
        note_failed_cleaning(self.services, self._queue, request, error)

    def known_places(self) -> list[CompactionRequest]:
        """Return the places of our own queue; rows of a metastore's state no location."""
        return list(filter(self.is_wanted, self._queue.newest_of_places())) if self._tables.own_queue else []

    def nothing_to_clean_notes(self) -> list[str]:
        """Return none."""
        return []


def wait_reason(
    evidence: ActivityMark, txns: ValidTxnList, locks: Iterable[HeldLock], *, now_ms: int, retention_ms: int
) -> str | None:
    """Return the transaction or lock that existed at the evidence and has not ended, or the retention since it.

    locks  those of the place
    """
    if txns.min_open <= evidence.txn:
        return f"transaction {txns.min_open} is open since before it (up to {evidence.txn} have to end)"
    old = sorted(lock.lock_id for lock in locks if lock.lock_id <= evidence.lock)
    if old:
        return f"lock {old[0]} is held since before it"
    if now_ms < evidence.ms + retention_ms:
        return retention_words(retention_ms / 1000, (evidence.ms + retention_ms) / 1000)
    return None
