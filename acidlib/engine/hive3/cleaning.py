"""Cleaning with a metastore of Hive 3.1: by proof, bound to publications that were seen.

A directory may go only when every transaction and lock that existed once the newest publication at its place was
visible has ended, and the same holds for every directory that covers it. A covering directory that this engine did not
publish counts as published when it was first seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

from acidlib.engine.catalog import Catalog
from acidlib.engine.cleaning import CleanerOptions, Cleaning, ListedRequest, each_alone, recorded_mark
from acidlib.engine.hive3.evidence import concerns, evidence_now, still_to_end, table_id
from acidlib.engine.hive3.metastore import Hive3Metastore, alone_with
from acidlib.engine.hive3.recovery import recover
from acidlib.engine.metastore_cleaning import DROPPED, CleaningPlaces, is_wanted, retention_of, why_not_forgotten
from acidlib.engine.queueing import SqlReadyRequests
from acidlib.engine.services import Services
from acidlib.engine.target import Target
from acidlib.errors import AcidError, ConflictError
from acidlib.model.generation import Generation
from acidlib.model.request_facts import Evidence, RequestFacts
from acidlib.model.requests import CompactionRequest, State
from acidlib.planning.clean import CleanPlan, aborted_present, cleanable

MOST_NOTED = 20
"""Directories of which evidence is noted in one request: the metastore's queue has little room for properties."""


def hive3_cleaning(services: Services, metastore: Hive3Metastore, options: CleanerOptions) -> Cleaning:
    """The requests of a Hive 3.1 metastore, in its own queue or in ours."""
    catalog = Catalog(services, metastore.hms)
    places = CleaningPlaces(catalog, lambda _: None, lambda request_id: _find(metastore, request_id))
    requests = Hive3ReadyRequests(services, metastore, catalog, options, places)

    def without_readers(request: CompactionRequest) -> AbstractContextManager[object]:
        """As the publication itself: nobody reads or writes the table between two renames."""
        return alone_with(services, metastore, *request.entity)

    def check(request: CompactionRequest, target: Target) -> None:
        """Hive's own compactor must not be at work there."""
        require_no_compactor(metastore, request, target, "clean")

    return Cleaning(
        requests=requests,
        proof=EvidenceProof(services, metastore, places, options),
        history=Hive3History(services, metastore),
        must_exist=True,
        note_failure=requests.note_failure,
        check=check,
        unmoved=places.require_unmoved,
        without_readers=without_readers,
        known_places=requests.known_places if metastore.own_queue else list,
    )


class Hive3ReadyRequests(SqlReadyRequests):
    """The requests of this metastore, where the queue holds those of others too."""

    def __init__(
        self,
        services: Services,
        metastore: Hive3Metastore,
        catalog: Catalog,
        options: CleanerOptions,
        places: CleaningPlaces,
    ) -> None:
        super().__init__(
            services,
            metastore.queue,
            lambda row: metastore.ours(row) and is_wanted(options, row),
            recover=lambda: recover(services, metastore, catalog, partial(is_wanted, options)),
        )
        self._metastore = metastore
        self._places = places

    def ready(self) -> list[CompactionRequest]:
        """The requests of this metastore, an earlier mark of a place before a later one."""
        for line in self._metastore.passed_over():
            self._services.progress.note(line)
        rows = [_with_mark(row) for row in super().ready()]
        self._places.expect(rows)
        return rows


class EvidenceProof:
    """That every transaction and lock has ended that existed when something was published or first seen."""

    def __init__(
        self, services: Services, metastore: Hive3Metastore, places: CleaningPlaces, options: CleanerOptions
    ) -> None:
        self._services = services
        self._metastore = metastore
        self._hms = metastore.hms
        self._places = places
        self._dry_run = options.dry_run
        self._retention_ms = int(retention_of(services.settings, options) * 1000)

    def place(self, request: CompactionRequest, *, anew: bool = False) -> tuple[CompactionRequest, Target | None]:
        """The place as of a snapshot of this run."""
        return self._places.of(request, anew=anew)

    def known(self, about: Sequence[ListedRequest]) -> list[Sequence[CompactionRequest] | AcidError]:
        """The rows about each table or partition."""
        return each_alone(lambda one: self._metastore.of_entity(one.request), about)

    def plan(self, looked: ListedRequest, known: Sequence[CompactionRequest]) -> CleanPlan:
        """What is obsolete for the recorded mark, and which of it somebody may still read.

        Noted is what existed when directories that cover something were first seen.
        """
        request, target, listing = looked.request, looked.target, looked.listing
        seen = _seen(target, known)
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
        plan = cleanable(
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
        if plan.first_seen and not self._dry_run:
            self._note(request, target, plan.first_seen)
        return plan

    def _note(self, request: CompactionRequest, target: Target, first_seen: tuple[str, ...]) -> None:
        """Note evidence in the request; what does not fit is noted by a later run."""
        now = evidence_now(self._hms.open_txns(), self._hms.show_locks(), self._services.now_ms())
        table = table_id(target)
        noted = dict(request.facts.evidence) if request.facts.table_id == table else {}
        room = MOST_NOTED - len(noted)
        noted.update(dict.fromkeys(first_seen[: max(room, 0)], now))
        self._metastore.queue.set_facts(request.id, None, RequestFacts(evidence=noted, table_id=table))


def _seen(target: Target, known: Sequence[CompactionRequest]) -> dict[str, Evidence]:
    """Of each directory of this very table, the latest evidence: to wait longer is always right."""
    seen: dict[str, Evidence] = {}
    for row in known:
        if row.facts.table_id == table_id(target):
            row.require_understood("clean", "evidence")
            for name, evidence in row.facts.evidence.items():
                seen[name] = evidence.newer(seen.get(name))
    return seen


class Hive3History:
    """The history of a SQL queue; in the metastore's, cleaned means that aborted write ids up to the mark go."""

    def __init__(self, services: Services, metastore: Hive3Metastore) -> None:
        self._services = services
        self._metastore = metastore
        self._queue = metastore.queue

    def cleaned(self, done: Sequence[ListedRequest]) -> list[str | AcidError | None]:
        """End the requests as succeeded."""
        return each_alone(self._cleaned, done)

    def _cleaned(self, done: ListedRequest) -> str | None:
        """In the metastore's queue only with nothing aborted left up to the mark."""
        request, target, listing = done.request, done.target, done.listing
        mark = recorded_mark(request)
        if not self._metastore.own_queue:
            rows = self._metastore.of_entity(request)
            outputs = {name for row in rows for name in row.facts.outputs or ()}
            write_ids = target.write_ids(listing)
            stays = why_not_forgotten(
                aborted_present(listing, write_ids, generation=Generation.HIVE3, up_to=mark, compacted=outputs)
            )
            if stays is not None:
                return stays
        self._queue.mark_cleaned(request.id, self._services.now_ms(), up_to=mark)
        return None

    def dropped(self, request: CompactionRequest) -> None:
        """End the request as refused."""
        self._queue.mark_refused(request.id, DROPPED, self._services.now_ms(), worker_id=None)


def require_no_compactor(metastore: Hive3Metastore, request: CompactionRequest, target: Target, doing: str) -> None:
    """Hive's own compactor is not at work at a place, nor about to be; else ConflictError: cannot do that."""
    shown = metastore.hms.show_compactions() if metastore.own_queue else metastore.queue.of_entity(request)
    for row in shown:
        if row.entity == request.entity and row.state in (State.INITIATED, State.WORKING):
            raise ConflictError(f"Cannot {doing} {target.name}: because request {row.id} for it is {row.state.label}")


def _find(metastore: Hive3Metastore, request_id: int) -> CompactionRequest | None:
    """The request of an id, where it is still ready for cleaning."""
    row = metastore.queue.find(request_id)
    return None if row is None or row.state is not State.READY_FOR_CLEANING else _with_mark(row)


def _with_mark(row: CompactionRequest) -> CompactionRequest:
    """The metastore's queue has no null for it: the mark 0, of a compaction of nothing but original files, reads so."""
    known = row.highest_write_id is not None or row.facts.outputs is None
    return row if known else replace(row, highest_write_id=0)
