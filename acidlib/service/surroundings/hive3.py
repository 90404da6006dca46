"""A metastore of Hive 3.1: transactions and locks over thrift, requests in a SQL queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from acidlib.errors import AcidError, ConflictError, RefusedError, RetryError
from acidlib.metastore.heartbeat import Heartbeater
from acidlib.metastore.hms import Hms
from acidlib.metastore.holding import PLACES, CompactorLock, lock_place, publication_lock, release_dead_locks
from acidlib.metastore.transactions import HeldLock, LockType
from acidlib.model.location import Location
from acidlib.model.requests import NO_FACTS, CompactionRequest, CompactionType, Evidence, RequestFacts, State
from acidlib.model.snapshots import ValidTxnList
from acidlib.model.tables import TableRef
from acidlib.planning.inputs import Publication
from acidlib.planning.results import holding
from acidlib.queue.metastore_database import MetastoreDatabase
from acidlib.queue.sql import SqlQueue
from acidlib.report.results import Statistics
from acidlib.service.attempts import COUNTED, Attempts
from acidlib.service.backend import Decided, Hold, Selected, Taken, Waiting
from acidlib.service.leftovers import (
    finish_publications,
    give_back_dead,
    give_back_timed_out,
    is_dead_at,
    is_known_dead,
    took_long,
)
from acidlib.service.places import ListedPlace, Selection, Target
from acidlib.service.services import WORKER_PREFIX, Services
from acidlib.service.statistics import StatisticsUpdater
from acidlib.service.surroundings.catalog import Catalog, require_unchanged, run_as_user
from acidlib.service.surroundings.sql import (
    SqlHeldPlace,
    SqlHold,
    failed_attempts,
    purge_history,
    queue_all,
    queue_and_claim,
    refuse_waiting,
    take_waiting,
)
from acidlib.stores.store import Claim
from acidlib.wording import retention_words

# --- metastore --------------------------------------------------------------------------------------------------------
# One run's metastore of Hive 3.1 and its queue.


@dataclass(frozen=True, slots=True, kw_only=True)
class Hive3Metastore:
    """One run's metastore and queue.

    own_queue  the queue is ours, not the metastore's
    name       of the metastore, for requests in our queue
    database   that was named for the queue, and may be this metastore's; None where none was
    """

    hms: Hms
    beats: Heartbeater
    queue: SqlQueue
    own_queue: bool
    name: str
    database: MetastoreDatabase | None = None

    def ours(self, row: CompactionRequest) -> bool:
        """Whether a request is of this metastore: in its own queue each is, in ours those that carry its name."""
        return not self.own_queue or row.facts.metastore == self.name

    def of_entity(self, request: CompactionRequest) -> list[CompactionRequest]:
        """All requests of this metastore about a table and partition."""
        return [row for row in self.queue.of_entity(request) if self.ours(row)]

    def passed_over(self) -> list[str]:
        """Notes about requests of other metastores in our queue; of this one too, if other URIs named it then."""
        if not self.own_queue:
            return []
        rows = self.queue.in_states(State.INITIATED, State.WORKING, State.READY_FOR_CLEANING)
        left = Counter(row.facts.metastore for row in rows if row.facts.metastore is not None and not self.ours(row))
        return [
            f"left alone in this queue: requests of the metastore {name} ({count}); this run's is {self.name}"
            for name, count in sorted(left.items())
        ]


def lock_timeout(services: Services) -> float:
    """Seconds to wait for an exclusive lock."""
    return services.settings.integer("acidlib.lock.timeout") / 1000


@contextmanager
def alone_with(services: Services, metastore: Hive3Metastore, ref: TableRef) -> Iterator[CompactorLock]:
    """Under an exclusive lock on a place; ConflictError when it is not granted in time."""
    with publication_lock(
        metastore.hms,
        metastore.beats,
        ref=ref,
        exclusive=True,
        timeout_seconds=lock_timeout(services),
        agent=services.worker_id,
    ) as lock:
        yield lock


# --- evidence ---------------------------------------------------------------------------------------------------------
# What existed in the metastore when something became visible: the proof by which cleaning with Hive 3.1 goes.
#
# Hive 3.1 has no watermark in its queue. What proves that nobody reads a replaced directory any more is that every
# transaction and every lock that existed once its replacement was visible has ended. Hive 3.1's `Cleaner` remembers
# locks in memory; transactions are added here because a query takes its snapshot before its locks.


def evidence_now(txns: ValidTxnList, locks: Iterable[HeldLock], now_ms: int) -> Evidence:
    """What exists now. Ids of both kinds only grow, so whatever exists has at most these."""
    return Evidence(txn=txns.high_water_mark, lock=max((lock.lock_id for lock in locks), default=0), ms=now_ms)


def still_to_end(
    evidence: Evidence, txns: ValidTxnList, locks: Iterable[HeldLock], *, now_ms: int, retention_ms: int
) -> str | None:
    """What existed then and has not ended, or the retention since; None without it. `locks`: of the place."""
    if txns.min_open <= evidence.txn:
        return f"transaction {txns.min_open} is open since before it (up to {evidence.txn} have to end)"
    old = sorted(lock.lock_id for lock in locks if lock.lock_id <= evidence.lock)
    if old:
        return f"lock {old[0]} is held since before it"
    if now_ms < evidence.ms + retention_ms:
        return retention_words(retention_ms / 1000, (evidence.ms + retention_ms) / 1000)
    return None


def table_id(target: Target) -> str:
    """What tells a table from another one of its name, and its place from an earlier one."""
    created, _ = target.table_identity
    return f"{created} {target.location}"


def concerns(lock: HeldLock, ref: TableRef) -> bool:
    """Whether a lock may be of somebody who reads a place: on it, on its table, on its database, or on a partition of
    the table where the place is the whole table.
    """
    if lock.database.lower() != ref.database:
        return False
    if lock.table is None:
        return True
    if lock.table.lower() != ref.table:
        return False
    return lock.partition is None or ref.partition is None or lock.partition.lower() == ref.partition.lower()


# --- recovery ---------------------------------------------------------------------------------------------------------
# What dead runs of this engine left in a Hive 3.1 metastore and its queue.


def recover(
    services: Services,
    metastore: Hive3Metastore,
    catalog: Catalog,
    is_wanted: Callable[[CompactionRequest], bool] = lambda _: True,
) -> list[str]:
    """Give requests of dead runs back to the queue, those that are wanted, and drop locks of theirs; notes about it.

    Before a lock that keeps readers away goes, what it keeps them from is made whole.
    """

    def is_dead(row: CompactionRequest) -> bool:
        return metastore.ours(row) and is_wanted(row) and _is_dead(services, metastore, catalog, row)

    notes = give_back_timed_out(services, metastore.queue)
    notes += give_back_dead(
        metastore.queue,
        is_dead,
        finish=lambda row: finish_alone(services, metastore, row.ref, catalog.whereabouts(row).location),
    )
    dead = release_dead_locks(
        metastore.hms,
        timeout_seconds=metastore.beats.timeout_seconds,
        agent=services.worker_id,
        may_go=lambda lock: _is_mended(services, metastore, catalog, lock),
    )
    return notes + [f"lock {lock.lock_id} of a dead run ({lock.agent}) was dropped" for lock in dead]


def _is_mended(services: Services, metastore: Hive3Metastore, catalog: Catalog, lock: HeldLock) -> bool:
    """What a dead run was about to make visible, or to take back, under an exclusive lock on a place is whole now.

    No request that is being worked on tells where an undo died.
    """
    if lock.type is not LockType.EXCLUSIVE or lock.database == PLACES or lock.table is None:
        return True
    about = CompactionRequest(id=0, ref=TableRef(lock.database, lock.table, lock.partition), type=CompactionType.MAJOR)
    try:
        finish_alone(services, metastore, about.ref, catalog.whereabouts(about).location)
    except (ConflictError, RetryError):
        return False  # another run is there, or nobody can look: the metastore drops the lock in time
    except AcidError:
        return True  # the table is gone, or whoever compacts it says what is wrong
    return True


def finish_alone(services: Services, metastore: Hive3Metastore, ref: TableRef, location: Location) -> None:
    """Finish the publications of dead runs at a place: those that nobody sees yet under an exclusive lock."""
    finish_publications(services, location, lambda: alone_with(services, metastore, ref))


def _is_dead(services: Services, metastore: Hive3Metastore, catalog: Catalog, row: CompactionRequest) -> bool:
    if not (row.worker_id or "").startswith(WORKER_PREFIX):
        return False
    if is_known_dead(row):
        return True
    now_ms = metastore.queue.now_ms(services.now_ms())
    try:
        return is_dead_at(services, catalog.whereabouts(row).location, row, now_ms=now_ms)
    except RefusedError:
        # the table is gone: whoever takes the request says so
        return took_long(row, now_ms)
    except AcidError:
        return False


# --- hold -------------------------------------------------------------------------------------------------------------
# One request in a SQL queue, done under locks of the metastore and published by renames.


class Hive3Hold(SqlHold):
    """A request in a SQL queue, the claim on its place, and a lock of ours in the metastore."""

    def __init__(self, services: Services, metastore: Hive3Metastore, catalog: Catalog, taken: Taken) -> None:
        super().__init__(services, metastore.queue, taken)
        self._metastore = metastore
        self._catalog = catalog
        self._lock: CompactorLock | None = None

    def begin(self) -> Hive3HeldPlace:
        """Lock, claim, and take the snapshot by which everything is understood from here on."""
        request = self._taken.request
        lock = self._lock = lock_place(
            self._metastore.hms,
            self._metastore.beats,
            ref=request.ref,
            agent=self._services.worker_id,
        )
        target = self._catalog.place(request)
        _leave_to_hive(self._metastore, request)
        claim = self._claimed(target.location)
        return Hive3HeldPlace(self._services, self._metastore, self._catalog, request, target, claim=claim, lock=lock)

    def close(self) -> None:
        """Give claim and lock back."""
        try:
            super().close()
        finally:
            if self._lock is not None:
                self._lock.release()


class Hive3HeldPlace(SqlHeldPlace):
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
        super().__init__(services, metastore.queue, request, target, claim)
        self._metastore = metastore
        self._hms = metastore.hms
        self._catalog = catalog
        self._lock = lock
        self._since = services.clock()
        self._publication: CompactorLock | None = None

    def start(self, high_water_mark: int, inputs: str | None = None) -> None:
        """Record the mark, and whom this runs as where Hive shows it."""
        super().start(high_water_mark, inputs)
        if self._request.run_as is None and not self._metastore.own_queue:
            self._queue.set_run_as(self._request.id, self._services.worker_id, run_as_user(self._services, self.target))

    @contextmanager
    def publishing(self, publication: Publication) -> Iterator[None]:
        """Under a lock: no ALTER or DROP in between, and for two renames no reader either."""
        request = self._request
        exclusive = publication in (Publication.TWO_RENAMES, Publication.FILE_BY_FILE)
        try:
            lock = publication_lock(
                self._hms,
                self._metastore.beats,
                ref=request.ref,
                exclusive=exclusive,
                timeout_seconds=lock_timeout(self._services),
                agent=self._services.worker_id,
            )
            self._publication = lock.__enter__()
        except ConflictError:
            if exclusive:
                self._count_try()
            raise
        try:
            yield
        finally:
            self._publication = None
            try:
                lock.__exit__(None, None, None)
            except AcidError as error:
                # what was published stays published
                self._services.progress.note(str(error), place=str(self.target.ref))

    def assert_mine(self, high_water_mark: int) -> None:
        """Lock, claim and request are ours, and table and place are what they were."""
        self._lock.assert_alive()
        if self._publication is not None:
            self._publication.assert_alive()
        super().assert_mine(high_water_mark)
        _leave_to_hive(self._metastore, self._request)
        require_unchanged(self.target, self._catalog.whereabouts(self._request), "publish")

    def update_statistics(self, directories: tuple[str, ...], rows: int | None) -> Statistics | None:
        """In the metastore's database, where that is named."""
        updater = StatisticsUpdater(self._services, self._hms, self._metastore.database)
        return updater.update(self.target, known_since=self._since, results=directories, rows=rows)

    def _identity(self) -> RequestFacts:
        return RequestFacts(table_id=table_id(self.target))

    def _facts(self, directories: tuple[str, ...]) -> RequestFacts:
        """What the cleaner needs: which transactions and locks existed once the results were visible."""
        evidence = evidence_now(self._hms.open_txns(), self._hms.show_locks(), self._services.now_ms())
        return RequestFacts(evidence=dict.fromkeys(directories or ("",), evidence), table_id=table_id(self.target))

    def _rows_here(self, noting: str | None = None) -> Sequence[CompactionRequest]:
        del noting  # rows of a metastore's queue state no location
        return self._metastore.of_entity(self._request)

    def _count_try(self) -> None:
        tried = RequestFacts(lock_tries=self._request.facts.lock_tries + 1)
        self._queue.set_facts(self._request.id, self._services.worker_id, tried)


def _leave_to_hive(metastore: Hive3Metastore, request: CompactionRequest) -> None:
    """Hive's own committer deletes an existing target before it renames: never be there at the same time."""
    if not metastore.own_queue:
        return
    for row in metastore.hms.show_compactions():
        if row.ref == request.ref and row.state in (State.INITIATED, State.WORKING):
            raise ConflictError(
                f"Cannot compact {row.ref}: Hive's own request {row.id} for it is {row.state.label}; "
                "call again when it is done"
            )


# --- backend ----------------------------------------------------------------------------------------------------------
# The queue is the metastore's own, in its database, where its URL is given; then ALTER TABLE … COMPACT and SHOW
# COMPACTIONS work. Else it is ours, and Hive's queue is only read: a place that Hive itself works on is left alone.
# Results become visible by a rename (Hive 3.1 knows no visibility suffix), under a lock for these seconds.

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
        busy: set[TableRef] = set()
        if automatic:
            rows: list[CompactionRequest] = [*self._metastore.hms.show_compactions()]
            if self._metastore.own_queue:
                rows += [row for row in self._queue.in_states(*_BUSY) if self._metastore.ours(row)]
            busy = {row.ref for row in rows if row.state in _BUSY}
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
        if self._metastore.own_queue:
            rows = self._queue.rows_at((target.location for target in targets), states=tuple(COUNTED))
        else:  # its rows have no locations
            rows = self._queue.in_states(*COUNTED)
        return Attempts((row for row in rows if self._metastore.ours(row)), self._services.settings)

    def held_back(self, target: Target, kind: CompactionType, *, dry_run: bool) -> str | None:
        """The failed-attempt rule of Hive 3.1."""
        request = self._request(target, kind, initiator=self._services.initiator_id)
        return failed_attempts(self._services, self._queue, request, dry_run=dry_run)

    def finish(self, target: Target) -> None:
        """Finish what dead runs began to publish, under a claim and an exclusive lock, as the publication itself."""
        finish_alone(self._services, self._metastore, target.ref, target.location)

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
            ref=target.ref,
            type=kind,
            facts=own if self._metastore.own_queue else NO_FACTS,
            run_as=run_as_user(self._services, target),
            initiator_id=initiator,
        )
