"""A metastore of Hive 3.1: transactions and locks over thrift, requests in a SQL queue.

The queue is the metastore's own, in its database, where its URL is given; then ALTER TABLE … COMPACT and SHOW
COMPACTIONS work. Else it is ours, and Hive's queue is only read: a place that Hive itself works on is left alone.
Results become visible by a rename (Hive 3.1 knows no visibility suffix), under a lock for these seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from acidlib.engine.attempts import COUNTED, Attempts
from acidlib.engine.backend import Decided, Hold, Selected, Taken, Waiting
from acidlib.engine.catalog import Catalog, Entity, run_as_user
from acidlib.engine.hive3.hold import Hive3Hold
from acidlib.engine.hive3.metastore import Hive3Metastore
from acidlib.engine.hive3.recovery import finish_alone, recover
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
from acidlib.engine.target import ListedPlace, Target
from acidlib.errors import AcidError
from acidlib.model.request_facts import NO_FACTS, RequestFacts
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.planning.verification import holding

_BUSY = (State.INITIATED, State.WORKING)


class Hive3Backend:
    """Tables and transactions of one Hive 3.1 metastore, and a SQL queue."""

    in_order = False
    can_rebalance = False

    def __init__(self, services: Services, metastore: Hive3Metastore) -> None:
        self._services = services
        self._metastore = metastore
        self._queue = metastore.queue
        self._catalog = Catalog(services, metastore.hms)

    def recover(self) -> list[str]:
        """Requests of dead runs go back to the queue, and locks of theirs go."""
        return self._metastore.passed_over() + recover(self._services, self._metastore, self._catalog)

    def select(self, selection: Selection, *, automatic: bool) -> Selected:
        """Tables and partitions of the metastore, by one snapshot."""
        busy: set[Entity] = set()
        if automatic:
            rows: list[CompactionRequest] = [*self._metastore.hms.show_compactions()]
            if self._metastore.own_queue:
                rows += [row for row in self._queue.in_states(*_BUSY) if self._metastore.ours(row)]
            busy = {row.entity for row in rows if row.state in _BUSY}
        return self._catalog.select(selection, automatic=automatic, busy=busy)

    def waiting(self, kind: CompactionType) -> list[Waiting]:
        """The requests of this kind that nobody works on."""
        rows = [row for row in self._queue.waiting(kind) if self._metastore.ours(row)]
        places = self._catalog.places(rows)
        return [Waiting.at(row, place) for row, place in zip(rows, places, strict=True)]

    def cautions(self) -> list[str]:
        """Nothing: a request is claimed by its id, by the first who comes."""
        return []

    def take(self, waiting: Waiting) -> Taken | None:
        """Claim the request by its id."""
        return take_waiting(self._services, self._queue, waiting)

    def submit(self, place: ListedPlace, kind: CompactionType, *, buckets: int | None = None) -> Taken:
        """Queue it and claim it; one of its kind that waits already is taken over."""
        del buckets
        request = self._request(place.target, kind, initiator=f"{self._services.host}-manual")
        return queue_and_claim(self._services, self._queue, request, place.target)

    def refuse(self, waiting: Waiting, reason: str) -> None:
        """End the request as refused."""
        refuse_waiting(self._services, self._queue, waiting, reason)

    def hold(self, taken: Taken) -> Hold:
        """The hold of a request that is ours."""
        return Hive3Hold(self._services, self._metastore, self._catalog, taken)

    def attempts(self, targets: Sequence[Target]) -> Attempts:
        """What the queue of this metastore and its history know, whichever queue it is."""
        rows = self._queue.in_states_at((target.location for target in targets), *COUNTED)
        return Attempts((row for row in rows if self._metastore.ours(row)), self._services.settings)

    def held_back(self, target: Target, kind: CompactionType, *, dry_run: bool) -> str | None:
        """The failed-attempt rule of Hive 3.1."""
        request = self._request(target, kind, initiator=self._services.initiator_id)
        return failed_attempts(self._services, self._queue, request, dry_run=dry_run)

    def finish(self, target: Target) -> None:
        """Finish what dead runs began to publish, under a claim and an exclusive lock, as the publication itself."""
        place = (target.database, target.table, target.partition)
        finish_alone(self._services, self._metastore, place, target.location)

    def unverified(self, place: ListedPlace) -> CompactionRequest | None:
        """By the rows about the table or partition, whichever queue it is."""
        about = self._request(place.target, CompactionType.MAJOR, initiator="")
        return holding(self._metastore.of_entity(about), place.listing.top_directories())

    def is_dropped(self, target: Target) -> bool:
        """Whether the metastore does not know it any more."""
        return self._catalog.is_dropped(target)

    def enqueue(self, decided: Sequence[Decided]) -> list[int | AcidError]:
        """Queue each decision; with its figures only where the queue is ours, for Hive's has little room."""
        return queue_all(self._services, self._queue, decided, self._decided)

    def _decided(self, decided: Decided) -> CompactionRequest:
        request = self._request(decided.place.target, decided.kind, initiator=self._services.initiator_id)
        if not self._metastore.own_queue:
            return request
        mark = decided.place.write_ids.for_compactor().high_water_mark
        return replace(request, highest_write_id=mark, facts=request.facts.updated(decided.figures))

    def purge_history(self) -> None:
        """Purge our history by Hive's settings; the metastore purges its own."""
        if self._metastore.own_queue:
            purge_history(self._services, self._queue)

    def _request(self, target: Target, kind: CompactionType, *, initiator: str) -> CompactionRequest:
        own = RequestFacts(metastore=self._metastore.name, location=target.location)
        return CompactionRequest(
            id=0,
            database=target.database,
            table=target.table,
            partition=target.partition,
            type=kind,
            facts=own if self._metastore.own_queue else NO_FACTS,
            run_as=run_as_user(self._services, target),
            initiator_id=initiator,
        )
