"""The cleaning of requests of a Hive 3.1 metastore, in its own queue or in ours, by proof that no reader is left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from acidlib.acid.names import Generation, Names
from acidlib.acid.write_ids import ValidTxnList
from acidlib.metastore.transactions import HeldLock
from acidlib.model.requests import ActivityMark, CompactionRequest, RequestFacts, State
from acidlib.planning.clean import CleanPlan, aborted_present, plan_cleaning
from acidlib.service.backend import Hold
from acidlib.service.clean import ListedRequest
from acidlib.service.places import Target
from acidlib.service.surroundings.hive3 import Hive3Backend, Hive3Hold, concerns, evidence_now, table_id
from acidlib.service.surroundings.metastore_cleaning import DROPPED, MetastoreCleaning, with_mark
from acidlib.service.surroundings.sql import SqlCleaning
from acidlib.wording import retention_words

_MAX_NOTED = 20
"""Directories of which evidence is noted in one request: the metastore's queue has little room for properties."""


class Hive3Cleaning(SqlCleaning, MetastoreCleaning):
    """The requests of one Hive 3.1 metastore, in its own queue or in ours: cleaned by proof.

    Hive 3.1 has no watermark in its queue. A directory may go only when every transaction and lock that existed once
    the newest publication at its place was visible has ended, and the same holds for every directory that covers it. A
    covering directory that this engine did not publish counts as published when it was first seen. Hive 3.1's `Cleaner`
    remembers locks in memory; transactions are added here because a query takes its snapshot before its locks.
    """

    backend: Hive3Backend

    def is_wanted(self, request: CompactionRequest) -> bool:
        """Return whether a request is of this metastore and selected."""
        return self.backend.ours(request) and self.options.selection.wants(request.ref)

    def all_requests(self) -> Iterable[CompactionRequest]:
        """Read the SQL queue."""
        return self.backend.queue.show()

    def ready(self) -> list[CompactionRequest]:
        """Return the requests of this metastore, an earlier mark of a place before a later one."""
        if self.options.dry_run:  # else `recover` has returned these notes
            for line in self.backend.left_alone_notes():
                self.services.progress.note(line)
        rows = [with_mark(row) for row in super().ready()]
        self.expect(rows)
        return rows

    def current(self, request_id: int) -> CompactionRequest | None:
        """Read the SQL queue."""
        row = self.backend.queue.find(request_id)
        return None if row is None or row.state is not State.READY_FOR_CLEANING else with_mark(row)

    def require_alone(self, request: CompactionRequest, target: Target) -> None:
        """Ask whether Hive's own compactor works there."""
        del target
        self.backend.require_no_compactor(request, Hive3CleaningHold.doing)

    def hold(self, request: CompactionRequest, target: Target) -> Hold:
        """Return a claim of the place; its check also asks whether Hive's own compactor works there."""
        return Hive3CleaningHold(self.backend, request, target)

    def requests_at(self, target: Target) -> Sequence[CompactionRequest]:
        """Return the rows about the table or partition."""
        return self.backend.rows_at(target)

    def plan(self, listed: ListedRequest, requests: Sequence[CompactionRequest]) -> CleanPlan:
        """Return the paths that are obsolete for the recorded mark, except those that may still be read.

        Of each directory of this very table the latest evidence counts: to wait longer is always right. The evidence of
        now is noted for covering directories that are seen for the first time.
        """
        request, target, listing = listed.request, listed.target, listed.listing
        seen: dict[str, ActivityMark] = {}
        for row in requests:
            if row.facts.table_id == table_id(target):
                row.require_understood("clean", "evidence")
                for name, evidence in row.facts.evidence.items():
                    seen[name] = max(evidence, seen.get(name, evidence))
        hms, now_ms = self.backend.hms, self.services.now_ms()
        retention_ms = int(self.retention_seconds * 1000)
        txns = hms.open_txns()
        locks = [lock for lock in hms.show_locks() if concerns(lock, request.ref)]
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
            target.write_ids(listing),
            generation=Names(Generation.HIVE3),
            now=now_ms / 1000,
            retention_seconds=0,
            newest_publication=0,
            published_at=dict.fromkeys(seen, 0.0),
            still_read=still_read,
        )
        if plan.first_seen and not self.options.dry_run:
            # a later run notes those for which there is no room
            now = evidence_now(hms.open_txns(), hms.show_locks(), self.services.now_ms())
            noted = dict(request.facts.evidence) if request.facts.table_id == table_id(target) else {}
            noted.update(dict.fromkeys(plan.first_seen[: max(_MAX_NOTED - len(noted), 0)], now))
            self.backend.queue.change(request.id, None, facts=RequestFacts(evidence=noted, table_id=table_id(target)))
        return plan

    def end_cleaned(self, cleaned: ListedRequest) -> str | None:
        """End a request as succeeded; or return why it stays, in the metastore's own queue.

        There the end has the metastore forget aborted write ids up to the mark: so no rows of them may be left.
        """
        if not self.backend.own_queue:
            target, listing = cleaned.target, cleaned.listing
            outputs = {name for row in self.backend.rows_at(target) for name in row.facts.outputs or ()}
            aborted = aborted_present(
                listing,
                target.write_ids(listing),
                generation=Names(Generation.HIVE3),
                up_to=cleaned.mark,
                compacted=outputs,
            )
            if aborted:
                ids = ", ".join(map(str, aborted[:5]))
                return (
                    f"nothing obsolete is left, but rows of aborted write ids ({ids}) still lie there; "
                    "only Hive's own cleaner can forget the others, so the request stays for it"
                )
        self.backend.queue.end(cleaned.request.id, State.SUCCEEDED, self.services.now_ms(), up_to=cleaned.mark)
        return None

    def end_dropped(self, request: CompactionRequest) -> None:
        """End the request as refused."""
        self.backend.queue.end(request.id, State.REFUSED, self.services.now_ms(), reason=DROPPED)

    def known_places(self) -> list[CompactionRequest]:
        """Return the places of our own queue; rows of a metastore's state no location."""
        return super().known_places() if self.backend.own_queue else []


class Hive3CleaningHold(Hive3Hold):
    """A place that is claimed by the cleaner, which needs no compactor's lock."""

    doing = "clean"

    def __init__(self, backend: Hive3Backend, request: CompactionRequest, target: Target) -> None:
        super().__init__(backend, request)
        self.target = target

    def begin(self) -> None:
        """Claim the place, which is known already."""
        Hold.begin(self)


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
