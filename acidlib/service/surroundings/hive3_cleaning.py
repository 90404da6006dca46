"""Cleaning and undoing with a metastore of Hive 3.1: by proof, bound to publications that were seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial

from acidlib.errors import AcidError, ConflictError, MissingError, RefusedError
from acidlib.metastore.holding import CompactorLock, describe_holders, lock_place
from acidlib.model.names import Generation
from acidlib.model.requests import CompactionRequest, Evidence, RequestFacts, State
from acidlib.planning.clean import CleanPlan, aborted_present, cleanable
from acidlib.service.backend import CleanerOptions, Cleaning, ListedRequest, each_alone, recorded_mark
from acidlib.service.places import Target
from acidlib.service.services import Services
from acidlib.service.surroundings.catalog import Catalog, require_unchanged
from acidlib.service.surroundings.hive3 import (
    Hive3Metastore,
    alone_with,
    concerns,
    evidence_now,
    recover,
    still_to_end,
    table_id,
)
from acidlib.service.surroundings.metastore_cleaning import (
    DROPPED,
    CleaningPlaces,
    is_wanted,
    retention_of,
    why_not_forgotten,
)
from acidlib.service.surroundings.sql import SqlReadyRequests
from acidlib.service.undo import HeldForUndo
from acidlib.stores.store import Claim

# --- cleaning ---------------------------------------------------------------------------------------------------------
# Cleaning with a metastore of Hive 3.1: by proof, bound to publications that were seen.
#
# A directory may go only when every transaction and lock that existed once the newest publication at its place was
# visible has ended, and the same holds for every directory that covers it. A covering directory that this engine did
# not publish counts as published when it was first seen.

MOST_NOTED = 20
"""Directories of which evidence is noted in one request: the metastore's queue has little room for properties."""


def hive3_cleaning(services: Services, metastore: Hive3Metastore, options: CleanerOptions) -> Cleaning:
    """The requests of a Hive 3.1 metastore, in its own queue or in ours."""
    catalog = Catalog(services, metastore.hms)
    places = CleaningPlaces(catalog, lambda _: None, lambda request_id: _find(metastore, request_id))
    requests = Hive3ReadyRequests(services, metastore, catalog, options, places)

    def without_readers(request: CompactionRequest) -> AbstractContextManager[object]:
        """As the publication itself: nobody reads or writes the table between two renames."""
        return alone_with(services, metastore, request.ref)

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
        locks = [lock for lock in self._hms.show_locks() if concerns(lock, request.ref)]
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
        if row.ref == request.ref and row.state in (State.INITIATED, State.WORKING):
            raise ConflictError(f"Cannot {doing} {target.ref}: because request {row.id} for it is {row.state.label}")


def _find(metastore: Hive3Metastore, request_id: int) -> CompactionRequest | None:
    """The request of an id, where it is still ready for cleaning."""
    row = metastore.queue.find(request_id)
    return None if row is None or row.state is not State.READY_FOR_CLEANING else _with_mark(row)


def _with_mark(row: CompactionRequest) -> CompactionRequest:
    """The metastore's queue has no null for it: the mark 0, of a compaction of nothing but original files, reads so."""
    known = row.highest_write_id is not None or row.facts.outputs is None
    return row if known else replace(row, highest_write_id=0)


# --- undoing ----------------------------------------------------------------------------------------------------------
# Undoing with a metastore of Hive 3.1: under the lock of a compactor, and an exclusive one that no reader shares.
#
# A reader without a lock yet waits for it, lists the place after that, and reads the inputs: by any snapshot, for they
# are directories of single writes. So open transactions that hold no lock there do not matter.


class Hive3Undoing:
    """The requests of one metastore, in its own queue or in ours."""

    def __init__(self, services: Services, metastore: Hive3Metastore) -> None:
        self._services = services
        self._metastore = metastore
        self._catalog = Catalog(services, metastore.hms)

    def find(self, request_id: int) -> CompactionRequest:
        """The row of the queue or its history."""
        row = self._metastore.queue.find(request_id)
        if row is None:
            raise MissingError(
                f"Cannot undo request {request_id}: there is no such request in {self._metastore.queue.shown}; see "
                "acidlib show"
            )
        if not self._metastore.ours(row):
            raise RefusedError(
                f"Cannot undo the compaction of {row.ref}: because request {request_id} is not of the metastore "
                f"{self._metastore.name}"
            )
        return row

    def require_stated(self) -> None:
        """Nothing: the metastore knows who reads."""

    def target(self, request: CompactionRequest) -> Target:
        """The very table that was compacted, where it lay."""
        target = self._catalog.place(request)
        if request.facts.table_id != table_id(target):
            raise RefusedError(
                f"Cannot undo the compaction of {target.ref}: because the table was made anew or moved since"
            )
        return target

    def known(self, request: CompactionRequest, target: Target) -> Sequence[CompactionRequest]:
        """The rows about the table or partition."""
        del target
        return self._metastore.of_entity(request)

    @contextmanager
    def hold(self, request: CompactionRequest) -> Iterator[HeldForUndo]:
        """The lock of a compactor, and a claim of the place."""
        with lock_place(
            self._metastore.hms,
            self._metastore.beats,
            ref=request.ref,
            agent=self._services.worker_id,
        ) as lock:
            target = self.target(request)
            with self._services.claim(target.location) as claim:
                yield _Held(self._services, self._metastore, self._catalog, request, target, claim=claim, lock=lock)

    def require_no_reader(self, request: CompactionRequest, target: Target) -> None:
        """Nobody holds a lock there, or waits for one: then nobody has to wait for us for long, either."""
        require_no_compactor(self._metastore, request, target, "undo the compaction of")
        locks = [lock for lock in self._metastore.hms.show_locks() if concerns(lock, request.ref)]
        if locks:
            held = describe_holders(locks)
            raise ConflictError(f"Cannot undo the compaction of {target.ref}: because its result may be read: {held}")

    def mark_undone(self, request: CompactionRequest, reason: str, facts: RequestFacts) -> None:
        """In whichever queue it is."""
        self._metastore.queue.mark_undone(request.id, reason, self._services.now_ms(), facts=facts)


class _Held:
    """A place that is claimed, and locked against other compactors in the metastore."""

    def __init__(
        self,
        services: Services,
        metastore: Hive3Metastore,
        catalog: Catalog,
        request: CompactionRequest,
        target: Target,
        *,
        claim: Claim,
        lock: CompactorLock,
    ) -> None:
        self._services = services
        self._metastore = metastore
        self._catalog = catalog
        self._request = request
        self._claim = claim
        self._locks = [lock]
        self.target = target

    @contextmanager
    def without_readers(self) -> Iterator[None]:
        """An exclusive lock on the place."""
        exclusive = alone_with(self._services, self._metastore, self._request.ref)
        lock = exclusive.__enter__()
        self._locks.append(lock)
        try:
            yield
        finally:
            self._locks.remove(lock)
            try:
                exclusive.__exit__(None, None, None)
            except AcidError as error:
                # what was taken back stays so
                self._services.progress.note(str(error), place=str(self.target.ref))

    def assert_mine(self) -> None:
        """Locks and claim are ours; the table is that one, lies there, and Hive's own compactor is not at work."""
        for lock in self._locks:
            lock.assert_alive()
        self._claim.assert_mine()
        require_unchanged(self.target, self._catalog.whereabouts(self._request), "undo the compaction of")
        require_no_compactor(self._metastore, self._request, self.target, "undo the compaction of")
