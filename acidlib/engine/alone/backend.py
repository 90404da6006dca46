"""Without a metastore: tables are directories, what is committed is stated, the queue is our own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from acidlib.engine.alone.hold import StandaloneHold
from acidlib.engine.alone.recovery import recover
from acidlib.engine.alone.selecting import select_targets
from acidlib.engine.attempts import COUNTED, Attempts
from acidlib.engine.backend import Decided, Hold, Selected, Taken, Waiting
from acidlib.engine.leftovers import finish_publications
from acidlib.engine.queueing import (
    failed_attempts,
    purge_history,
    queue_all,
    queue_and_claim,
    refuse_waiting,
    take_waiting,
)
from acidlib.engine.selection import Selection
from acidlib.engine.services import Services
from acidlib.engine.target import Interpretation, ListedPlace, Target, request_of, target_of
from acidlib.errors import AcidError
from acidlib.model.location import Location
from acidlib.model.request_facts import UNVERIFIED, RequestFacts
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.planning.verification import holding
from acidlib.queue.sql import SqlQueue


class StandaloneBackend:
    """Directories and stated write ids, with a queue of our own."""

    in_order = False
    can_rebalance = False

    def __init__(self, services: Services, queue: SqlQueue, interpretation: Interpretation) -> None:
        self._services = services
        self._queue = queue
        self._interpretation = interpretation
        self._failed: set[tuple[str, str, str | None]] | None = None

    def recover(self) -> list[str]:
        """Requests of dead runs go back to the queue."""
        return recover(self._services, self._queue)

    def select(self, selection: Selection, *, automatic: bool) -> Selected:
        """The ACID tables and partitions below the named directory."""
        del automatic
        return select_targets(
            self._services, selection, self._interpretation, may_be_empty=self._was_cleaned(selection.location)
        )

    def waiting(self, kind: CompactionType) -> list[Waiting]:
        """What waits in our queue and was not made for a metastore."""
        return [_waiting(request) for request in self._queue.waiting(kind) if request.facts.metastore is None]

    def cautions(self) -> list[str]:
        """Nothing: the queue is ours alone."""
        return []

    def take(self, waiting: Waiting) -> Taken | None:
        """Claim the request by its id."""
        return take_waiting(self._services, self._queue, waiting)

    def submit(self, place: ListedPlace, kind: CompactionType, *, buckets: int | None = None) -> Taken:
        """Queue it, understood as it is now, and claim it; one of its kind that waits already is taken over."""
        del buckets
        if place.holds_staging:
            finish_publications(self._services, place.target.location)
        request = request_of(place, kind, initiator=f"{self._services.host}-manual")
        return queue_and_claim(self._services, self._queue, request, place.target)

    def refuse(self, waiting: Waiting, reason: str) -> None:
        """End the request as refused."""
        refuse_waiting(self._services, self._queue, waiting, reason)

    def hold(self, taken: Taken) -> Hold:
        """What works on a request of our queue."""
        return StandaloneHold(self._services, self._queue, taken)

    def attempts(self, targets: Sequence[Target]) -> Attempts:
        """What our own queue and its history know."""
        rows = self._queue.in_states_at((target.location for target in targets), *COUNTED)
        self._failed = {row.entity for row in rows if row.state is State.FAILED}
        return Attempts(rows, self._services.settings)

    def held_back(self, target: Target, kind: CompactionType, *, dry_run: bool) -> str | None:
        """The failed-attempt rule over our own history, which is not asked where `attempts` saw no failure."""
        if self._failed is not None and (target.database, target.table, target.partition) not in self._failed:
            return None
        request = CompactionRequest(
            id=0,
            database=target.database,
            table=target.table,
            partition=target.partition,
            type=kind,
            facts=RequestFacts(location=target.location),
            initiator_id=self._services.initiator_id,
        )
        return failed_attempts(self._services, self._queue, request, dry_run=dry_run)

    def finish(self, target: Target) -> None:
        """Finish the publications of dead runs, under a claim of our own."""
        finish_publications(self._services, target.location)

    def unverified(self, place: ListedPlace) -> CompactionRequest | None:
        """By the rows of our queue about the place."""
        location = place.target.location
        if not self._queue.may_note_at(location, UNVERIFIED):
            return None
        return holding(self._queue.at_location(location), place.listing.top_directories())

    def is_dropped(self, target: Target) -> bool:
        """Whether the directory is gone and the one above it is not, as where a mount is missing."""
        fs, location = self._services.fs(target.location), target.location
        return not fs.exists(str(location)) and fs.exists(str(location.parent))

    def enqueue(self, decided: Sequence[Decided]) -> list[int | AcidError]:
        """Queue each decision with all that a later worker and cleaner need."""
        return queue_all(self._services, self._queue, decided, self._request)

    def _request(self, decided: Decided) -> CompactionRequest:
        request = request_of(decided.place, decided.kind, initiator=self._services.initiator_id)
        mark = decided.place.write_ids.for_compactor().high_water_mark
        return replace(request, highest_write_id=mark, facts=request.facts.updated(decided.figures))

    def _was_cleaned(self, location: Location | None) -> bool:
        """Whether the history knows a cleaning there or below it: all that was written may have been rolled back."""
        if location is None:
            return False
        return self._queue.has_succeeded_below(location)

    def purge_history(self) -> None:
        """Forget what Hive's settings of retention do not keep."""
        purge_history(self._services, self._queue)


def _waiting(request: CompactionRequest) -> Waiting:
    try:
        return Waiting.at(request, target_of(request))
    except AcidError as error:
        return Waiting.at(request, error)
