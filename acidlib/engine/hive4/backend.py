"""Tables and requests of a Hive 4 metastore. Requests are handed out by the metastore, in their order.

Source: Hive 4 `CompactionTxnHandler`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from acidlib import __version__
from acidlib.engine.attempts import Attempts
from acidlib.engine.backend import Decided, Hold, Selected, Taken, Waiting, nowhere
from acidlib.engine.catalog import Catalog, Entity, run_as_user
from acidlib.engine.hive4.hold import Hive4Hold, Unverified
from acidlib.engine.hive4.metastore import POOL, Hive4Metastore, pool_of, private_pool
from acidlib.engine.hive4.recovery import recover
from acidlib.engine.leftovers import finish_publications
from acidlib.engine.queueing import in_the_way, not_accepted, taken_by_another
from acidlib.engine.selection import Selection
from acidlib.engine.services import Services
from acidlib.engine.target import ListedPlace, Target
from acidlib.errors import AcidError, RefusedError, UnknownOutcomeError
from acidlib.metastore.values import Accepted, ShownRequest
from acidlib.model.generation import Generation
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.queue.rules import failed_attempts_reason


class Hive4Backend:
    """Tables, queue and transactions of one Hive 4 metastore."""

    in_order = True
    can_rebalance = True

    def __init__(self, services: Services, metastore: Hive4Metastore) -> None:
        self._services = services
        self._metastore = metastore
        self._hms = metastore.hms
        self._catalog = Catalog(services, metastore.hms)
        self._unverified = Unverified(metastore.hms)
        self._history: dict[Entity, list[CompactionRequest]] = {}

    def recover(self) -> list[str]:
        """End requests of dead runs of this engine, and results that can never be committed."""
        return recover(self._services, self._hms, self._unverified.note)

    def select(self, selection: Selection, *, automatic: bool) -> Selected:
        """Tables and partitions of the metastore, by one snapshot."""
        busy: set[Entity] = set()
        if automatic:
            shown = self._hms.show_all_compactions()
            self._history = {}
            for row in shown.requests:
                self._history.setdefault(row.entity, []).append(row)
            busy = {row.entity for row in shown.requests if row.state in (State.INITIATED, State.WORKING)}
            busy |= {row.entity for row in shown.others if row.state in ("initiated", "working")}
        return self._catalog.select(selection, automatic=automatic, busy=busy)

    def waiting(self, kind: CompactionType) -> list[Waiting]:
        """The requests of our pool up to the last one of this kind, for they are handed out by their order.

        Who does majors does rebalances, too.
        """
        pool = self._metastore.pool
        rows = [
            row
            for row in reversed(self._hms.show_compactions())
            if row.state is State.INITIATED and pool_of(row) == pool
        ]
        while rows and rows[-1].type is not kind and not (kind.makes_base and rows[-1].type.makes_base):
            rows.pop()
        places = self._catalog.places(rows)
        return [Waiting.at(row, place) for row, place in zip(rows, places, strict=True)]

    def cautions(self) -> list[str]:
        """In the default pool requests are taken that only Hive's own workers can do."""
        if self._metastore.pool is not None:
            return []
        return [
            "warning: requests of the default pool are taken, of either kind and in their order; those that only "
            "Hive's own workers can do are refused. --pool gives this engine a pool of its own"
        ]

    def take(self, waiting: Waiting) -> Taken | None:
        """Take whatever request the metastore hands out next."""
        found = self._hms.find_next_compaction(self._services.worker_id, __version__, self._metastore.pool)
        if found is None:
            return None
        target = waiting.target if waiting.request.id == found.id else nowhere(found)
        return Taken(request=found, target=target)

    def submit(self, place: ListedPlace, kind: CompactionType, *, buckets: int | None = None) -> Taken:
        """Queue it in a pool that only this run takes from, so that what is handed out is what was asked for."""
        target = place.target
        # one of its own for each request: after a lost answer nothing else can be handed out for it
        pool = private_pool(self._services.unique())
        request = self._request(target, kind, initiator=f"{self._services.host}-manual", pool=pool)
        request = replace(request, bucket_count=buckets)
        try:
            answer = self._hms.compact(request)
        except UnknownOutcomeError:
            row = self._in_pool(pool)
            if row is None:
                raise
            answer = Accepted(id=row.id, accepted=True)
        if not answer.accepted:
            reason = answer.reason or "it is already queued"
            if State.READY_FOR_CLEANING.label in reason:
                raise RefusedError(
                    f"Cannot compact {target.name}: nothing was written to it since it was compacted last ({reason}); "
                    "call again when that request is cleaned"
                )
            raise in_the_way(target.name, reason)
        try:
            found = self._hms.find_next_compaction(self._services.worker_id, __version__, pool)
        except UnknownOutcomeError:
            found = self._in_pool(pool)
            if found is None or found.worker_id != self._services.worker_id:
                raise
        if found is None or found.id != answer.id:
            raise taken_by_another(target.name, answer.id)
        return Taken(request=found, target=target)

    def _in_pool(self, pool: str) -> ShownRequest | None:
        return next((row for row in self._hms.show_compactions() if row.pool == pool), None)

    def refuse(self, waiting: Waiting, reason: str) -> None:
        """Only a request that was handed out can be refused: nothing to do here."""

    def hold(self, taken: Taken) -> Hold:
        """The hold of a request that was handed out to us."""
        return Hive4Hold(self._services, self._metastore, self._catalog, taken, self._unverified)

    def attempts(self, targets: Sequence[Target]) -> Attempts:
        """What the metastore's queue and its history know."""
        del targets
        return Attempts(self._hms.show_compactions(), self._services.settings)

    def held_back(self, target: Target, kind: CompactionType, *, dry_run: bool) -> str | None:
        """The failed-attempt rule over the metastore's history (Hive Initiator)."""
        reason = failed_attempts_reason(
            self._history.get((target.database, target.table, target.partition), ()),
            threshold=self._services.settings.integer("metastore.compactor.initiator.failed.compacts.threshold"),
            retry_ms=self._services.settings.integer("metastore.compactor.initiator.failed.retry.time"),
            now_ms=self._services.now_ms(),
            generation=Generation.HIVE4,
        )
        if reason is not None and not dry_run:
            request = self._request(target, kind, initiator=self._services.initiator_id, pool=None)
            self._hms.mark_not_initiated(replace(request, error_message=reason))
        return reason

    def finish(self, target: Target) -> None:
        """Finish what dead runs began to publish, under a claim of our own."""
        finish_publications(self._services, target.location)

    def unverified(self, place: ListedPlace) -> CompactionRequest | None:
        """By the metastore's history, as this run has read it."""
        target = place.target
        return self._unverified.at((target.database, target.table, target.partition))

    def is_dropped(self, target: Target) -> bool:
        """Whether the metastore does not know it any more."""
        return self._catalog.is_dropped(target)

    def enqueue(self, decided: Sequence[Decided]) -> list[int | AcidError]:
        """Queue each decision by compact2, which refuses duplicates by itself."""
        return [self._queued(one) for one in decided]

    def _queued(self, decided: Decided) -> int | AcidError:
        target = decided.place.target
        pool = self._metastore.into_pool or target.settings(self._services.settings).text(POOL) or None
        try:
            request = self._request(target, decided.kind, initiator=self._services.initiator_id, pool=pool)
            answer = self._hms.compact(replace(request, facts=decided.figures))
        except AcidError as error:
            return error
        return answer.id if answer.accepted else not_accepted(answer.reason)

    def purge_history(self) -> None:
        """The metastore purges its own history."""

    def _request(self, target: Target, kind: CompactionType, *, initiator: str, pool: str | None) -> CompactionRequest:
        return CompactionRequest(
            id=0,
            database=target.database,
            table=target.table,
            partition=target.partition,
            type=kind,
            run_as=run_as_user(self._services, target),
            initiator_id=initiator,
            pool=pool,
        )
