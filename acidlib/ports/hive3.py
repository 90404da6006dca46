"""A metastore of Hive 3.1: transactions and locks over thrift, requests in a SQL queue.

The queue is the metastore's own, in its database, where the URL of that is given; then ALTER TABLE … COMPACT and SHOW
COMPACTIONS work. Else it is ours, and Hive's queue is only read: a place where Hive's own compactor works is left
alone. Results become visible by a rename (Hive 3.1 knows no visibility suffix), which is made under a lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from acidlib.acid.write_ids import ValidTxnList
from acidlib.errors import AcidError, ConflictError, RefusedError, RetryError, known_error
from acidlib.execute.services import Services
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
from acidlib.places.place import ListedPlace, Place
from acidlib.places.selection import Selected, Selection
from acidlib.planning.inputs import Publication
from acidlib.ports.backend import Backend, Decided, nowhere
from acidlib.ports.catalog import Catalog, GoneError, require_unchanged, run_as_user
from acidlib.ports.holds import ClaimedPlace, Hold, finish_publications
from acidlib.ports.sql import SqlHold, SqlRequests, with_figures
from acidlib.ports.statistics import StatisticsUpdater
from acidlib.queue.metastore_database import MetastoreDatabase
from acidlib.queue.sql import SqlQueue

COMPACT, CLEAN, UNDO = "compact", "clean", "undo the compaction of"
"""The verbs of messages."""
_BUSY = (State.INITIATED, State.WORKING)


def hive3(tables: Hive3Tables) -> Backend:
    """Return the surroundings of one metastore."""
    requests = SqlRequests(tables.services, tables.queue, tables)
    return Backend(tables, requests, Hive3Fence(tables, requests))


class Hive3Tables:
    """Tables, transactions and locks of one Hive 3.1 metastore, and the requests for them in a SQL queue."""

    by_location = False  # rows of a metastore's queue state no location

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
        self.services = services
        self.queue = queue
        self.hms = hms
        self.beats = beats
        self.name = name
        self.database = database
        self.own_queue = queue.schema_version is None
        self.catalog = Catalog(services, hms)

    def ours(self, row: CompactionRequest) -> bool:
        """Return whether a request is of this metastore: all in its own queue, in ours those with its name."""
        return not self.own_queue or row.facts.metastore == self.name

    def rows_at(self, place: Place) -> Sequence[CompactionRequest]:
        """Return the rows of the names: rows of a metastore's queue state no location."""
        return [row for row in self.queue.of_entity(place.ref) if self.ours(row)]

    def unverified_rows(self, place: Place) -> Sequence[CompactionRequest]:
        """Return all rows of the names."""
        return self.rows_at(place)

    def current_location(self, row: CompactionRequest) -> Location:
        """Ask the metastore."""
        return self.catalog.current_place(row.ref).location

    def places(self, rows: Sequence[CompactionRequest]) -> Sequence[Place | AcidError]:
        """Ask the metastore, for all together."""
        return self.catalog.places(rows)

    def request_for(self, place: Place, kind: CompactionType, *, initiator: str) -> CompactionRequest:
        """Return a request that states its metastore, where the queue is ours."""
        own = RequestFacts(metastore=self.name, location=place.location)
        return CompactionRequest(
            id=0,
            ref=place.ref,
            type=kind,
            facts=own if self.own_queue else NO_FACTS,
            run_as=run_as_user(self.services, place),
            initiator_id=initiator,
        )

    def lock(self, request: CompactionRequest, *, exclusive: bool) -> CompactorLock:
        """Lock out readers of a request's place, or only ALTER and DROP.

        ConflictError when not granted in time, which a request that is worked on notes of an exclusive lock.
        """
        try:
            return self._lock(request.ref, exclusive=exclusive)
        except ConflictError:
            if exclusive and request.state is State.WORKING:
                tried = RequestFacts(lock_tries=request.facts.lock_tries + 1)
                self.queue.change(request.id, self.services.worker_id, facts=tried)
            raise

    def _lock(self, ref: TableRef, *, exclusive: bool) -> CompactorLock:
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
        return self._lock(ref, exclusive=True)

    def require_unchanged(self, request: CompactionRequest, held: Place, doing: str) -> None:
        """Raise ConflictError where Hive's own compactor is at a held place, or its table is not the same any more."""
        self.require_no_compactor(request, doing)
        try:
            now = self.catalog.current_place(request.ref)
        except GoneError as error:
            raise ConflictError(f"Cannot {doing} {held.ref}: it was renamed or dropped meanwhile") from error
        require_unchanged(held, now, doing)

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
                if doing == COMPACT:
                    owner, advice = "Hive's own ", "; call again when it is done"
                raise ConflictError(
                    f"Cannot {doing} {other.ref}: {owner}request {other.id} for it is {other.state.label}{advice}"
                )

    def notes(self) -> list[str]:
        """Return notes about requests of other metastores in our queue, or of this one by other URIs."""
        if not self.own_queue:
            return []
        rows = self.queue.in_states(State.INITIATED, State.WORKING, State.READY_FOR_CLEANING)
        counts = Counter(row.facts.metastore for row in rows if row.facts.metastore is not None and not self.ours(row))
        return [
            f"left alone in this queue: requests of the metastore {name} ({count}); this run's is {self.name}"
            for name, count in sorted(counts.items())
        ]

    def select(self, selection: Selection, *, automatic: bool) -> Selected:
        """Return tables and partitions of the metastore, as of one snapshot."""
        busy: set[TableRef] = set()
        if automatic:
            rows: list[CompactionRequest] = [*self.hms.show_compactions()]
            if self.own_queue:
                rows += filter(self.ours, self.queue.in_states(*_BUSY))
            busy = {row.ref for row in rows if row.state in _BUSY}
        return self.catalog.select(selection, automatic=automatic, busy=busy)

    def names(self, selection: Selection) -> Sequence[TableRef]:
        """Return the transactional tables of the metastore."""
        return self.catalog.names(selection)

    def named_request(self, listed: ListedPlace, kind: CompactionType) -> CompactionRequest:
        """Return a request for a place that was named."""
        return self.request_for(listed.place, kind, initiator=f"{self.services.host}-manual")

    def decided_request(self, decided: Decided) -> CompactionRequest:
        """Return a request, with the figures where the queue is ours: Hive's has little room."""
        request = self.request_for(decided.listed.place, decided.kind, initiator=self.services.initiator_id)
        return with_figures(request, decided) if self.own_queue else request

    def is_dropped(self, place: Place) -> bool:
        """Ask the metastore."""
        return self.catalog.is_dropped(place)


class Hive3Fence:
    """Claims, and locks in the metastore: a lock keeps compactors away, an exclusive one readers as well."""

    can_rebalance = False

    def __init__(self, tables: Hive3Tables, requests: SqlRequests) -> None:
        self._tables = tables
        self._requests = requests

    def recover(self) -> list[str]:
        """Drop locks of dead runs; one that locks readers out only when the publication under it is finished."""
        tables = self._tables
        dead = release_dead_locks(
            tables.hms,
            timeout_seconds=tables.beats.timeout_seconds,
            agent=tables.services.worker_id,
            may_drop=self._may_drop,
        )
        return [f"lock {lock.lock_id} of a dead run ({lock.agent}) was dropped" for lock in dead]

    def _may_drop(self, lock: HeldLock) -> bool:
        """Finish the publication or undo of a dead run under its exclusive lock; return whether the lock may go.

        A run that died in an undo has no request in the state working: only its lock tells the place.
        """
        if lock.type is not LockType.EXCLUSIVE or lock.database == PLACES or lock.table is None:
            return True
        ref = TableRef(lock.database, lock.table, lock.partition)
        try:
            location = self._tables.catalog.current_place(ref).location
            finish_publications(self._tables.services, location, partial(self._tables.exclusive, ref))
        except (ConflictError, RetryError):
            return False  # another run is there, or the place is out of reach: the metastore drops the lock in time
        except AcidError:
            return True  # the table is gone, or the run that compacts it says what is wrong
        except Exception:
            return False  # nothing is known of the place
        return True

    def hold(self, request: CompactionRequest, place: Place) -> SqlHold:
        """Return the hold of a request that this run has taken; its place is looked up once it is locked."""
        del place
        tables = self._tables
        locked = LockedPlace(tables, request, doing=COMPACT, look_up=lambda: tables.catalog.place(request))
        return SqlHold(self._requests, locked)

    def finish(self, place: Place) -> None:
        """Finish the publications of dead runs, while readers are locked out."""
        finish_publications(self._tables.services, place.location, partial(self._tables.exclusive, place.ref))


class Hive3Undoing:
    """The undoing of compactions of one metastore.

    A reader that has no lock yet waits for the exclusive lock of the undo, lists the place after that, and reads the
    inputs, with any snapshot: they are directories of single writes. So open transactions that hold no lock there do
    not matter.
    """

    knows_readers = True

    def __init__(self, tables: Hive3Tables) -> None:
        self._tables = tables
        self.requests = SqlRequests(tables.services, tables.queue, tables)

    def place(self, request: CompactionRequest) -> Place:
        """Return the place; RefusedError unless it is the very table that was compacted, at the same location."""
        place = self._tables.catalog.place(request)
        if request.facts.table_id != table_id(place):
            raise RefusedError(f"Cannot undo the compaction of {place.ref}: the table was re-created or moved since")
        return place

    def hold(self, request: CompactionRequest) -> Hold:
        """Return a hold with the lock of a compactor and a claim."""
        return LockedPlace(self._tables, request, doing=UNDO, look_up=lambda: self.place(request))

    def require_no_reader(self, request: CompactionRequest, place: Place) -> None:
        """Check that no query holds a lock there or waits for one: then none will wait long for the undo, either."""
        self._tables.require_no_compactor(request, UNDO)
        locks = [lock for lock in self._tables.hms.show_locks() if may_read(lock, request.ref)]
        if locks:
            held = describe_holders(locks)
            raise ConflictError(f"Cannot undo the compaction of {place.ref}: its result may be read: {held}")


class LockedPlace(ClaimedPlace):
    """A claimed place, with a lock in the metastore that keeps other compactors away, except from the cleaner."""

    def __init__(
        self,
        tables: Hive3Tables,
        request: CompactionRequest,
        *,
        doing: str,
        look_up: Callable[[], Place] | None = None,
        place: Place | None = None,
    ) -> None:
        """Hold nothing yet.

        doing    the verb of messages: `COMPACT`, `CLEAN` or `UNDO`
        look_up  returns the place once it is locked; None for one that is only claimed, as by the cleaner
        place    that place
        """
        super().__init__(tables.services, request, place or nowhere(request))
        self._tables = tables
        self._doing = doing
        self._look_up = look_up
        self._locks: list[CompactorLock] = []
        self._since = 0.0

    def begin(self) -> None:
        """Lock, claim, and take the snapshot by which everything is interpreted from here on."""
        tables, request = self._tables, self.request
        if self._look_up is not None:
            self._locks.append(lock_place(tables.hms, tables.beats, ref=request.ref, agent=self._services.worker_id))
            self.place = self._look_up()
            tables.require_no_compactor(request, self._doing)
        super().begin()
        self._since = self._services.clock()

    def assert_mine(self) -> None:
        """Check locks and claim, that Hive's own compactor is not there, and that the table is the same."""
        for lock in self._locks:
            lock.assert_alive()
        super().assert_mine()
        self._tables.require_unchanged(self.request, self.place, self._doing)

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

    def publishing(self, publication: Publication) -> AbstractContextManager[bool]:
        """Lock out ALTER and DROP, and for two renames readers as well."""
        return self._locked(exclusive=publication in (Publication.TWO_RENAMES, Publication.FILE_BY_FILE))

    @contextmanager
    def _locked(self, *, exclusive: bool) -> Iterator[bool]:
        lock = self._tables.lock(self.request, exclusive=exclusive)
        self._locks.append(lock)
        try:
            yield not exclusive
        finally:
            self._locks.remove(lock)
            try:
                lock.release()
            except Exception as error:
                # the publication or undo stands
                note = known_error(error, f"release the lock on {self.place.ref}").words
                self._services.progress.note(note, place=str(self.place.ref))

    def user_to_note(self) -> str | None:
        """Return the user that this runs as, which Hive's queue has a column for."""
        if self.request.run_as is not None or self._tables.own_queue:
            return None
        return run_as_user(self._services, self.place)

    def identity_facts(self) -> RequestFacts:
        """Return what tells the table from another one of its name."""
        return RequestFacts(table_id=table_id(self.place))

    def publication_facts(self, directories: tuple[str, ...]) -> RequestFacts:
        """Return as evidence for the cleaner the transactions and locks that exist now that the results are visible."""
        hms = self._tables.hms
        evidence = current_activity(hms.open_txns(), hms.show_locks(), self._services.now_ms())
        return RequestFacts(evidence=dict.fromkeys(directories or ("",), evidence), table_id=table_id(self.place))

    def update_statistics(self, directories: tuple[str, ...], rows: int | None) -> Statistics | None:
        """Write the statistics in the metastore's database, where that is named."""
        updater = StatisticsUpdater(self._services, self._tables.hms, self._tables.database)
        return updater.update(self.place, known_since=self._since, results=directories, rows=rows)


def current_activity(txns: ValidTxnList, locks: Iterable[HeldLock], now_ms: int) -> ActivityMark:
    """Return the highest ids of now. Ids of both kinds only grow: nothing that exists now has a higher one."""
    return ActivityMark(txn=txns.high_water_mark, lock=max((lock.lock_id for lock in locks), default=0), ms=now_ms)


def table_id(place: Place) -> str:
    """Return a text that tells a table from another one of its name, and its location from an earlier one."""
    created, _ = place.table_identity
    return f"{created} {place.location}"


def may_read(lock: HeldLock, ref: TableRef) -> bool:
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
