"""A metastore of Hive 3.1: transactions and locks over thrift, requests in a SQL queue.

The queue is the metastore's own, in its database, where the URL of that is given; then ALTER TABLE … COMPACT and SHOW
COMPACTIONS work. Else it is ours, and Hive's queue is only read: a place where Hive's own compactor works is left
alone. Results become visible by a rename (Hive 3.1 knows no visibility suffix), which is made under a lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from acidlib.acid.write_ids import ValidTxnList
from acidlib.errors import AcidError, ConflictError, RefusedError, RetryError, known_error
from acidlib.location import Location
from acidlib.metastore.heartbeat import Heartbeater
from acidlib.metastore.hms import Hms
from acidlib.metastore.holding import (
    PLACES,
    CompactorLock,
    describe_holders,
    lock_place,
    publication_lock,
    release_dead_locks,
)
from acidlib.metastore.transactions import HeldLock, LockType
from acidlib.model.requests import NO_FACTS, ActivityMark, CompactionRequest, CompactionType, RequestFacts, State
from acidlib.model.results import Statistics
from acidlib.model.tables import TableRef
from acidlib.planning.inputs import Publication
from acidlib.queue.metastore_database import MetastoreDatabase
from acidlib.queue.sql import SqlQueue
from acidlib.service.backend import Decided, Hold, WaitingRequest, finish_publications, nowhere
from acidlib.service.places import ListedPlace, Target
from acidlib.service.selection import Selected, Selection
from acidlib.service.services import Services
from acidlib.service.statistics import StatisticsUpdater
from acidlib.service.surroundings.catalog import Catalog, GoneError, require_unchanged, run_as_user
from acidlib.service.surroundings.sql import SqlBackend, SqlHold, with_figures

_BUSY = (State.INITIATED, State.WORKING)
_MAX_NOTED = 20
"""Directories of which evidence is noted in one request: the metastore's queue has little room for properties."""


class Hive3Backend(SqlBackend):
    """Tables and transactions of one Hive 3.1 metastore, and a SQL queue."""

    def __init__(
        self,
        services: Services,
        queue: SqlQueue,
        hms: Hms,
        beats: Heartbeater,
        *,
        name: str,
        database: MetastoreDatabase | None = None,
    ) -> None:
        """Work with one metastore.

        name      of the metastore, for requests in a queue of our own
        database  named for the queue, and perhaps this metastore's; None where none is named
        """
        super().__init__(services, queue)
        self.hms = hms
        self.beats = beats
        self.name = name
        self.database = database
        self.own_queue = queue.schema_version is None
        self.catalog = Catalog(services, hms)

    def ours(self, row: CompactionRequest) -> bool:
        """Return whether a request is of this metastore: all in its own queue, in ours those with its name."""
        return not self.own_queue or row.facts.metastore == self.name

    def rows_at(self, target: Target) -> Sequence[CompactionRequest]:
        """Return the rows of the names: rows of a metastore's queue state no location."""
        return [row for row in self.queue.of_entity(target.ref) if self.ours(row)]

    def whereabouts(self, row: CompactionRequest) -> Location:
        """Ask the metastore."""
        return self.catalog.whereabouts(row.ref).location

    def request_for(self, target: Target, kind: CompactionType, *, initiator: str) -> CompactionRequest:
        """Return a request that states its metastore, where the queue is ours."""
        own = RequestFacts(metastore=self.name, location=target.location)
        return CompactionRequest(
            id=0,
            ref=target.ref,
            type=kind,
            facts=own if self.own_queue else NO_FACTS,
            run_as=run_as_user(self.services, target),
            initiator_id=initiator,
        )

    def lock(self, ref: TableRef, *, exclusive: bool) -> CompactorLock:
        """Lock out readers of a table or partition, or only ALTER and DROP; ConflictError when not granted in time."""
        return publication_lock(
            self.hms,
            self.beats,
            ref=ref,
            exclusive=exclusive,
            timeout_seconds=self.services.settings.integer("acidlib.lock.timeout") / 1000,
            agent=self.services.worker_id,
        )

    def exclusive(self, ref: TableRef) -> AbstractContextManager[object]:
        """Lock out readers by an exclusive lock."""
        return self.lock(ref, exclusive=True)

    def require_no_compactor(self, row: CompactionRequest, doing: str) -> None:
        """Raise ConflictError where Hive's own compactor works at the place of a request, or is about to.

        Hive's committer deletes an existing target before it renames: this engine must never be there at the same time.
        In Hive's queue, a request that this run works on is the only one of its place.

        doing  the verb of the message
        """
        if self.own_queue:
            shown: Sequence[CompactionRequest] = self.hms.show_compactions()
        else:
            shown = () if row.state is State.WORKING else self.queue.of_entity(row.ref)
        for other in shown:
            if other.ref == row.ref and other.state in _BUSY:
                owner, advice = "", ""
                if doing == Hive3Hold.doing:
                    owner, advice = "Hive's own ", "; call again when it is done"
                raise ConflictError(
                    f"Cannot {doing} {other.ref}: {owner}request {other.id} for it is {other.state.label}{advice}"
                )

    def left_alone_notes(self) -> list[str]:
        """Return notes about requests of other metastores in our queue, or of this one by other URIs."""
        if not self.own_queue:
            return []
        rows = self.queue.in_states(State.INITIATED, State.WORKING, State.READY_FOR_CLEANING)
        counts = Counter(row.facts.metastore for row in rows if row.facts.metastore is not None and not self.ours(row))
        return [
            f"left alone in this queue: requests of the metastore {name} ({count}); this run's is {self.name}"
            for name, count in sorted(counts.items())
        ]

    def recover(self, is_wanted: Callable[[CompactionRequest], bool] = lambda _: True) -> list[str]:
        """Drop locks of dead runs, too; one that locks readers out only when the publication under it is finished."""
        notes = self.left_alone_notes() + super().recover(is_wanted)
        dead = release_dead_locks(
            self.hms,
            timeout_seconds=self.beats.timeout_seconds,
            agent=self.services.worker_id,
            may_drop=self._may_drop,
        )
        return notes + [f"lock {lock.lock_id} of a dead run ({lock.agent}) was dropped" for lock in dead]

    def _may_drop(self, lock: HeldLock) -> bool:
        """Finish the publication or undo of a dead run under its exclusive lock; return whether the lock may go.

        A run that died in an undo has no request in the state working: only its lock tells the place.
        """
        if lock.type is not LockType.EXCLUSIVE or lock.database == PLACES or lock.table is None:
            return True
        ref = TableRef(lock.database, lock.table, lock.partition)
        try:
            finish_publications(self.services, self.catalog.whereabouts(ref).location, lambda: self.exclusive(ref))
        except (ConflictError, RetryError):
            return False  # another run is there, or the place is out of reach: the metastore drops the lock in time
        except AcidError:
            return True  # the table is gone, or the run that compacts it says what is wrong
        except Exception:
            return False  # nothing is known of the place
        return True

    def select(self, selection: Selection, *, automatic: bool) -> Selected:
        """Return tables and partitions of the metastore, as of one snapshot."""
        busy: set[TableRef] = set()
        if automatic:
            rows: list[CompactionRequest] = [*self.hms.show_compactions()]
            if self.own_queue:
                rows += filter(self.ours, self.queue.in_states(*_BUSY))
            busy = {row.ref for row in rows if row.state in _BUSY}
        return self.catalog.select(selection, automatic=automatic, busy=busy)

    def waiting(self, kind: CompactionType) -> list[WaitingRequest]:
        """Return the requests of this kind that wait."""
        rows = list(filter(self.ours, self.queue.waiting(kind)))
        return list(zip(rows, self.catalog.places(rows), strict=True))

    def submit(self, place: ListedPlace, kind: CompactionType, *, buckets: int | None = None) -> CompactionRequest:
        """Queue a request and take it."""
        del buckets
        request = self.request_for(place.target, kind, initiator=f"{self.services.host}-manual")
        return self.queue_and_take(request)

    def decided_request(self, decided: Decided) -> CompactionRequest:
        """Return a request, with the figures where the queue is ours: Hive's has little room."""
        request = self.request_for(decided.place.target, decided.kind, initiator=self.services.initiator_id)
        return with_figures(request, decided) if self.own_queue else request

    def hold(self, request: CompactionRequest, target: Target) -> Hive3Hold:
        """Return the hold of a request that this run has taken; its place is looked up once it is locked."""
        del target
        return Hive3Hold(self, request)

    def undo_target(self, request: CompactionRequest) -> Target:
        """Return the place; RefusedError unless it is the very table that was compacted, at the same location."""
        target = self.catalog.place(request)
        if request.facts.table_id != table_id(target):
            raise RefusedError(f"Cannot undo the compaction of {target.ref}: the table was re-created or moved since")
        return target

    def undo_hold(self, request: CompactionRequest) -> Hold:
        """Return a hold with the lock of a compactor and a claim; see `Hive3UndoHold`."""
        return Hive3UndoHold(self, request)

    def require_no_reader(self, request: CompactionRequest, target: Target) -> None:
        """Check that no query holds a lock there or waits for one: then none will wait long for the undo, either."""
        self.require_no_compactor(request, Hive3UndoHold.doing)
        locks = [lock for lock in self.hms.show_locks() if concerns(lock, request.ref)]
        if locks:
            held = describe_holders(locks)
            raise ConflictError(f"Cannot undo the compaction of {target.ref}: its result may be read: {held}")

    def is_dropped(self, target: Target) -> bool:
        """Ask the metastore."""
        return self.catalog.is_dropped(target)

    def purge_history(self) -> None:
        """Purge our history by Hive's settings; the metastore purges its own."""
        if self.own_queue:
            super().purge_history()


class Hive3Hold(SqlHold):
    """A place with a claim, and with a lock in the metastore that keeps other compactors away."""

    doing = "compact"
    """The verb of messages."""
    _backend: Hive3Backend

    def __init__(self, backend: Hive3Backend, request: CompactionRequest) -> None:
        super().__init__(backend, request, nowhere(request))
        self._locks: list[CompactorLock] = []
        self._since = 0.0

    def begin(self) -> None:
        """Lock, claim, and take the snapshot by which everything is interpreted from here on."""
        backend, request = self._backend, self.request
        self._locks.append(lock_place(backend.hms, backend.beats, ref=request.ref, agent=self._services.worker_id))
        self.target = self._place()
        backend.require_no_compactor(request, self.doing)
        super().begin()
        self._since = self._services.clock()

    def _place(self) -> Target:
        return self._backend.catalog.place(self.request)

    def assert_mine(self) -> None:
        """Check locks, claim and request, that Hive's own compactor is not there, and that the table is the same."""
        for lock in self._locks:
            lock.assert_alive()
        super().assert_mine()
        self._backend.require_no_compactor(self.request, self.doing)
        try:
            now = self._backend.catalog.whereabouts(self.request.ref)
        except GoneError as error:
            raise ConflictError(
                f"Cannot {self.doing} {self.target.ref}: it was renamed or dropped meanwhile"
            ) from error
        require_unchanged(self.target, now, self.doing)

    def close(self) -> None:
        """Release claim and locks."""
        try:
            super().close()
        finally:
            for lock in self._locks:
                lock.release()

    def exclusive(self) -> AbstractContextManager[object]:
        """Lock readers out."""
        return self._locked(exclusive=True)

    def publishing(self, publication: Publication) -> AbstractContextManager[object]:
        """Lock out ALTER and DROP, and for two renames readers as well."""
        return self._locked(exclusive=publication in (Publication.TWO_RENAMES, Publication.FILE_BY_FILE))

    @contextmanager
    def _locked(self, *, exclusive: bool) -> Iterator[None]:
        try:
            lock = self._backend.lock(self.request.ref, exclusive=exclusive)
        except ConflictError:
            if exclusive and self.request.state is State.WORKING:
                tried = RequestFacts(lock_tries=self.request.facts.lock_tries + 1)
                self._queue.change(self.request.id, self._services.worker_id, facts=tried)
            raise
        self._locks.append(lock)
        try:
            yield
        finally:
            self._locks.remove(lock)
            try:
                lock.release()
            except Exception as error:
                # the publication or undo stands
                note = str(known_error(error, f"release the lock on {self.target.ref}"))
                self._services.progress.note(note, place=str(self.target.ref))

    def start(self, high_water_mark: int, inputs: str | None = None) -> None:
        """Record the mark, and in Hive's queue the user that this runs as."""
        super().start(high_water_mark, inputs)
        if self.request.run_as is None and not self._backend.own_queue:
            run_as = run_as_user(self._services, self.target)
            self._queue.change(self.request.id, self._services.worker_id, run_as=run_as)

    def update_statistics(self, directories: tuple[str, ...], rows: int | None) -> Statistics | None:
        """Write the statistics in the metastore's database, where that is named."""
        updater = StatisticsUpdater(self._services, self._backend.hms, self._backend.database)
        return updater.update(self.target, known_since=self._since, results=directories, rows=rows)

    def _identity_facts(self) -> RequestFacts:
        return RequestFacts(table_id=table_id(self.target))

    def _publication_facts(self, directories: tuple[str, ...]) -> RequestFacts:
        """Return as evidence for the cleaner the transactions and locks that exist now that the results are visible."""
        hms = self._backend.hms
        evidence = evidence_now(hms.open_txns(), hms.show_locks(), self._services.now_ms())
        return RequestFacts(evidence=dict.fromkeys(directories or ("",), evidence), table_id=table_id(self.target))


class Hive3UndoHold(Hive3Hold):
    """A place that is held to undo a compaction: with the lock of a compactor, and an exclusive one for the change.

    A reader that has no lock yet waits for one, lists the place after that, and reads the inputs, with any snapshot:
    they are directories of single writes. So open transactions that hold no lock there do not matter.
    """

    doing = "undo the compaction of"

    def _place(self) -> Target:
        return self._backend.undo_target(self.request)


def evidence_now(txns: ValidTxnList, locks: Iterable[HeldLock], now_ms: int) -> ActivityMark:
    """Return the highest ids of now. Ids of both kinds only grow: nothing that exists now has a higher one."""
    return ActivityMark(txn=txns.high_water_mark, lock=max((lock.lock_id for lock in locks), default=0), ms=now_ms)


def table_id(target: Target) -> str:
    """Return a text that tells a table from another one of its name, and its location from an earlier one."""
    created, _ = target.table_identity
    return f"{created} {target.location}"


def concerns(lock: HeldLock, ref: TableRef) -> bool:
    """Return whether the holder of a lock may read a place.

    The lock is on the place, on its table or its database, or on a partition if the place is a whole table.
    """
    if lock.database.lower() != ref.database:
        return False
    if lock.table is None:
        return True
    if lock.table.lower() != ref.table:
        return False
    return lock.partition is None or ref.partition is None or lock.partition.lower() == ref.partition.lower()
