"""Cleaning with a metastore of Hive 3.1: by proof, bound to publications that were seen.

A directory may go only when every transaction and lock that existed once the newest publication at its place was
visible has ended, and the same holds for every directory that covers it. A covering directory that this engine did not
publish counts as published when it was first seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from acidlib.engine.catalog import Catalog, require_unchanged
from acidlib.engine.cleaner import CleaningAsked, recorded_mark
from acidlib.engine.cleaning_rules import GONE, NO_FORGETTING, cleaning_place, retention_of, wanted
from acidlib.engine.hive3.connected import Connected3, alone_with
from acidlib.engine.hive3.evidence import concerns, evidence_now, still_to_end, table_id
from acidlib.engine.hive3.recovery import recover
from acidlib.engine.retrying import note_failure, retry_wait
from acidlib.engine.services import Services
from acidlib.engine.target import Target
from acidlib.errors import AcidError, ConflictError
from acidlib.model.generation import Generation
from acidlib.model.listing import Listing
from acidlib.model.request_facts import Evidence, RequestFacts
from acidlib.model.requests import CompactionRequest, State
from acidlib.planning.clean import CleanPlan, aborted_present, cleanable, left_over

MOST_NOTED = 20


class Hive3Cleaning:
    """The requests of a Hive 3.1 metastore, in its own queue or in ours."""

    def __init__(self, services: Services, connected: Connected3, asked: CleaningAsked) -> None:
        self._services = services
        self._connected = connected
        self._hms = connected.hms
        self._queue = connected.queue
        self._asked = asked
        self._catalog = Catalog(services, connected.hms)
        self._tables: dict[int, str] = {}
        self._retention_ms = int(retention_of(services.settings, asked) * 1000)

    def recover(self) -> list[str]:
        """Requests of dead runs go back to the queue, and their locks, which keep directories from being cleaned, go.

        By Hive 3.1 they are dropped only where its housekeeper runs.
        """
        return recover(self._services, self._connected, self._catalog)

    def ready(self) -> list[CompactionRequest]:
        """What awaits the cleaner, an earlier result of a place before a later one."""
        for line in self._connected.passed_over():
            self._services.progress.note(line)
        rows = [
            row for row in self._queue.ready_for_cleaning() if self._connected.ours(row) and wanted(self._asked, row)
        ]
        return [_with_mark(row) for row in rows]

    def waits(self, request: CompactionRequest) -> str | None:
        """A cleaning that failed is tried again after a while."""
        return retry_wait(self._services, request)

    def again(self, request: CompactionRequest) -> CompactionRequest | None:
        """Hive renames requests of its own queue with their table."""
        row = self._queue.find(request.id)
        return None if row is None or row.state is not State.READY_FOR_CLEANING else _with_mark(row)

    @property
    def place_is_known(self) -> bool:
        """The metastore says that it exists."""
        return True

    def target(self, request: CompactionRequest) -> Target | None:
        """The place as of now; None when it was dropped."""
        return cleaning_place(self._catalog, request, None)

    def finishing(self, request: CompactionRequest) -> AbstractContextManager[None]:
        """As the publication itself: nobody reads or writes the table between two renames."""
        return alone_with(self._services, self._connected, *request.entity)

    def plan(self, request: CompactionRequest, target: Target, listing: Listing) -> CleanPlan:
        """What is obsolete for the recorded mark, and which of it somebody may still read."""
        seen = self._seen(request, target)
        self._tables[request.id] = table_id(target)
        now_ms = self._services.now_ms()
        txns = self._hms.open_txns()
        locks = [lock for lock in self._hms.show_locks() if concerns(lock, *request.entity)]
        still_read = {}
        newest: Evidence | None = None
        for name, evidence in seen.items():
            newest = evidence.newer(newest)
            reason = still_to_end(evidence, txns, locks, now_ms=now_ms, retention_ms=self._retention_ms)
            if reason is not None:
                still_read[name] = reason
        for name in listing.top_directories():
            if name not in seen:
                still_read[name] = "what covers it is seen for the first time; the next run goes on from there"
        if newest is not None:
            reason = still_to_end(newest, txns, locks, now_ms=now_ms, retention_ms=self._retention_ms)
            still_read.pop("", None)
            if reason is not None:
                still_read[""] = reason
        return cleanable(
            listing,
            recorded_mark(request),
            target.write_ids(listing),
            generation=Generation.HIVE3,
            now=now_ms / 1000,
            retention_seconds=0,
            newest_publication=0,
            published_at=dict.fromkeys(seen, 0.0),
            still_read=still_read,
        )

    def remember(self, request: CompactionRequest, plan: CleanPlan) -> None:
        """What existed when covering directories were first seen."""
        if not plan.first_seen:
            return
        now = evidence_now(self._hms.open_txns(), self._hms.show_locks(), self._services.now_ms())
        table = self._tables[request.id]
        noted = dict(request.facts.evidence) if request.facts.table_id == table else {}
        # the metastore's queue has little room for properties; what does not fit is noted by a later run
        room = MOST_NOTED - len(noted)
        noted.update(dict.fromkeys(plan.first_seen[: max(room, 0)], now))
        self._queue.set_facts(request.id, None, RequestFacts(evidence=noted, table_id=table))

    def check(self, request: CompactionRequest, target: Target) -> None:
        """Hive's own compactor must not be at work there, and the place must be where it was."""
        rows: list[CompactionRequest] = [*self._hms.show_compactions()]
        for row in rows:
            if row.entity == request.entity and row.state in (State.INITIATED, State.WORKING):
                raise ConflictError(f"Cannot clean {target.name}: because request {row.id} for it is {row.state.label}")
        require_unchanged(target, self._catalog.place(request), "clean")

    def left(self, request: CompactionRequest, target: Target, listing: Listing) -> Sequence[str]:
        """By the recorded mark."""
        mark, write_ids = recorded_mark(request), target.write_ids(listing)
        return left_over(listing, mark, write_ids, generation=Generation.HIVE3)

    def keeps(self, request: CompactionRequest, target: Target, listing: Listing) -> str | None:
        """In the metastore's queue, cleaned means that aborted write ids up to the mark are forgotten."""
        if self._connected.own_queue:
            return None
        still = aborted_present(
            listing,
            target.write_ids(listing),
            generation=Generation.HIVE3,
            up_to=recorded_mark(request),
            compacted=self._outputs(request),
        )
        return NO_FORGETTING.format(ids=", ".join(map(str, still[:5]))) if still else None

    def cleaned(self, request: CompactionRequest) -> None:
        """To the history."""
        self._queue.mark_cleaned(request.id, self._services.now_ms(), up_to=recorded_mark(request))

    def gone(self, request: CompactionRequest) -> None:
        """Refused: a table may only seem to be gone, to a user who may not see it, and cleaned would mean forgotten."""
        self._queue.mark_refused(request.id, GONE, self._services.now_ms(), worker_id=None)

    def failed(self, request: CompactionRequest, error: AcidError) -> None:
        """Tried again after a while, a few times."""
        note_failure(self._services, self._queue, request, error)

    def places(self) -> list[tuple[CompactionRequest, str]]:
        """Wherever our own queue knows a place."""
        if not self._connected.own_queue:
            return []
        rows = [row for row in self._queue.show() if self._connected.ours(row) and wanted(self._asked, row)]
        return [(row, row.facts.location or "") for row in rows]

    def _rows(self, request: CompactionRequest) -> list[CompactionRequest]:
        return [row for row in self._queue.of_entity(request) if self._connected.ours(row)]

    def _seen(self, request: CompactionRequest, target: Target) -> dict[str, Evidence]:
        """Of each directory of this very table, the latest evidence: to wait longer is always right."""
        seen: dict[str, Evidence] = {}
        for row in self._rows(request):
            if row.facts.table_id == table_id(target):
                row.require_understood("clean", "evidence")
                for name, evidence in row.facts.evidence.items():
                    seen[name] = evidence.newer(seen.get(name))
        return seen

    def _outputs(self, request: CompactionRequest) -> set[str]:
        return {name for row in self._rows(request) for name in row.facts.outputs or ()}


def _with_mark(row: CompactionRequest) -> CompactionRequest:
    """The metastore's queue has no null for it: the mark 0, of a compaction of nothing but original files, reads so."""
    known = row.highest_write_id is not None or row.facts.outputs is None
    return row if known else replace(row, highest_write_id=0)
