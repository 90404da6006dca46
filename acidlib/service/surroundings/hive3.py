"""A metastore of Hive 3.1: transactions and locks over thrift, requests in a SQL queue.

The queue is the metastore's own, in its database, where its URL is given; then ALTER TABLE … COMPACT and SHOW
COMPACTIONS work. Else it is ours, and Hive's queue is only read: a place that Hive itself works on is left alone.
Results become visible by a rename (Hive 3.1 knows no visibility suffix), under a lock for these seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from acidlib.errors import AcidError, ConflictError, RefusedError, RetryError
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
from acidlib.model.location import Location
from acidlib.model.names import Generation
from acidlib.model.requests import NO_FACTS, CompactionRequest, CompactionType, Evidence, RequestFacts, State
from acidlib.model.snapshots import ValidTxnList
from acidlib.model.tables import TableRef
from acidlib.planning.clean import CleanPlan, aborted_present, plan_cleaning
from acidlib.planning.inputs import Publication
from acidlib.queue.metastore_database import MetastoreDatabase
from acidlib.queue.sql import SqlQueue
from acidlib.report.results import Statistics
from acidlib.service.backend import Decided, Hold, WaitingRequest, finish_publications, nowhere
from acidlib.service.clean import ListedRequest, each_alone
from acidlib.service.places import ListedPlace, Target
from acidlib.service.selection import CleanerOptions, Selected, Selection
from acidlib.service.services import Services
from acidlib.service.statistics import StatisticsUpdater
from acidlib.service.surroundings.catalog import (
    DROPPED,
    Catalog,
    CleaningPlaces,
    about_named,
    require_unchanged,
    retention_of,
    run_as_user,
)
from acidlib.service.surroundings.sql import SqlBackend, SqlCleaning, SqlHold, with_figures
from acidlib.wording import retention_words

_BUSY = (State.INITIATED, State.WORKING)
_MOST_NOTED = 20
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
        database  that was named for the queue, and may be this metastore's; None where none was
        """
        super().__init__(services, queue)
        self.hms = hms
        self.beats = beats
        self.name = name
        self.database = database
        self.own_queue = queue.schema_version is None
        self.catalog = Catalog(services, hms)

    def ours(self, row: CompactionRequest) -> bool:
        """Return whether a request is of this metastore: in its own queue each is, in ours those with its name."""
        return not self.own_queue or row.facts.metastore == self.name

    def rows_at(self, target: Target) -> Sequence[CompactionRequest]:
        """Go by the names: rows of a metastore's queue state no location."""
        about = CompactionRequest(id=0, ref=target.ref, type=CompactionType.MAJOR)
        return [row for row in self.queue.of_entity(about) if self.ours(row)]

    def whereabouts(self, row: CompactionRequest) -> Location:
        """Ask the metastore."""
        return self.catalog.whereabouts(row).location

    def request_for(self, target: Target, kind: CompactionType, *, initiator: str) -> CompactionRequest:
        """Return a request that tells its metastore, where the queue is ours."""
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
        """Lock a table or partition for readers, or only against ALTER and DROP; ConflictError when not in time."""
        return publication_lock(
            self.hms,
            self.beats,
            ref=ref,
            exclusive=exclusive,
            timeout_seconds=self.services.settings.integer("acidlib.lock.timeout") / 1000,
            agent=self.services.worker_id,
        )

    def exclusive(self, ref: TableRef) -> AbstractContextManager[object]:
        """Keep readers away by an exclusive lock."""
        return self.lock(ref, exclusive=True)

    def require_no_compactor(self, row: CompactionRequest, doing: str) -> None:
        """Raise ConflictError, cannot do that, where Hive's own compactor is at work at a place, or about to be.

        Hive's own committer deletes an existing target before it renames: never be there at the same time. In its
        queue a request that this run works on is the only one.
        """
        if self.own_queue:
            shown: Sequence[CompactionRequest] = self.hms.show_compactions()
        else:
            shown = () if row.state is State.WORKING else self.queue.of_entity(row)
        for one in shown:
            if one.ref == row.ref and one.state in _BUSY:
                what, then = "request", ""
                if doing == Hive3Hold.doing:
                    what, then = "Hive's own request", "; call again when it is done"
                raise ConflictError(f"Cannot {doing} {one.ref}: {what} {one.id} for it is {one.state.label}{then}")

    def passed_over(self) -> list[str]:
        """Return notes about requests of other metastores in our queue; of this one too, if other URIs named it."""
        if not self.own_queue:
            return []
        rows = self.queue.in_states(State.INITIATED, State.WORKING, State.READY_FOR_CLEANING)
        left = Counter(row.facts.metastore for row in rows if row.facts.metastore is not None and not self.ours(row))
        return [
            f"left alone in this queue: requests of the metastore {name} ({count}); this run's is {self.name}"
            for name, count in sorted(left.items())
        ]

    def recover(self, is_wanted: Callable[[CompactionRequest], bool] = lambda _: True) -> list[str]:
        """Drop locks of dead runs, too: before one that keeps readers away goes, what it keeps from them is whole."""
        notes = self.passed_over() + super().recover(is_wanted)
        dead = release_dead_locks(
            self.hms,
            timeout_seconds=self.beats.timeout_seconds,
            agent=self.services.worker_id,
            may_go=self._is_mended,
        )
        return notes + [f"lock {lock.lock_id} of a dead run ({lock.agent}) was dropped" for lock in dead]

    def _is_mended(self, lock: HeldLock) -> bool:
        """Make whole what a dead run was about to make visible, or to take back, under an exclusive lock on a place.

        No request that is being worked on tells where an undo died. False where it is not whole.
        """
        if lock.type is not LockType.EXCLUSIVE or lock.database == PLACES or lock.table is None:
            return True
        ref = TableRef(lock.database, lock.table, lock.partition)
        about = CompactionRequest(id=0, ref=ref, type=CompactionType.MAJOR)
        try:
            finish_publications(self.services, self.whereabouts(about), lambda: self.exclusive(ref))
        except (ConflictError, RetryError):
            return False  # another run is there, or the place is out of reach: the metastore drops the lock in time
        except AcidError:
            return True  # the table is gone, or the run that compacts it says what is wrong
        return True

    def select(self, selection: Selection, *, automatic: bool) -> Selected:
        """Return tables and partitions of the metastore, by one snapshot."""
        busy: set[TableRef] = set()
        if automatic:
            rows: list[CompactionRequest] = [*self.hms.show_compactions()]
            if self.own_queue:
                rows += filter(self.ours, self.queue.in_states(*_BUSY))
            busy = {row.ref for row in rows if row.state in _BUSY}
        return self.catalog.select(selection, automatic=automatic, busy=busy)

    def waiting(self, kind: CompactionType) -> list[WaitingRequest]:
        """Return the requests of this kind that no run works on."""
        rows = list(filter(self.ours, self.queue.waiting(kind)))
        return list(zip(rows, self.catalog.places(rows), strict=True))

    def submit(self, place: ListedPlace, kind: CompactionType, *, buckets: int | None = None) -> CompactionRequest:
        """Queue it and take it."""
        del buckets
        request = self.request_for(place.target, kind, initiator=f"{self.services.host}-manual")
        return self.queue_and_take(request)

    def decided_request(self, decided: Decided) -> CompactionRequest:
        """Return a request with its figures only where the queue is ours, for Hive's has little room."""
        request = self.request_for(decided.place.target, decided.kind, initiator=self.services.initiator_id)
        return with_figures(request, decided) if self.own_queue else request

    def hold(self, request: CompactionRequest, target: Target) -> Hive3Hold:
        """Return the hold of a request that is ours, whose place is looked up once it is locked."""
        del target
        return Hive3Hold(self, request)

    def undo_target(self, request: CompactionRequest) -> Target:
        """Return the very table that was compacted, where it lay."""
        target = self.catalog.place(request)
        if request.facts.table_id != table_id(target):
            raise RefusedError(f"Cannot undo the compaction of {target.ref}: the table was made anew or moved since")
        return target

    def undo_hold(self, request: CompactionRequest) -> Hold:
        """Return the lock of a compactor with a claim of the place; see `Hive3UndoHold`."""
        return Hive3UndoHold(self, request)

    def require_no_reader(self, request: CompactionRequest, target: Target) -> None:
        """Ask that no query holds a lock there, or waits for one: then none has to wait for us for long, either."""
        self.require_no_compactor(request, Hive3UndoHold.doing)
        locks = [lock for lock in self.hms.show_locks() if concerns(lock, request.ref)]
        if locks:
            held = describe_holders(locks)
            raise ConflictError(f"Cannot undo the compaction of {target.ref}: its result may be read: {held}")

    def is_dropped(self, target: Target) -> bool:
        """Return whether the metastore does not know it any more."""
        return self.catalog.is_dropped(target)

    def purge_history(self) -> None:
        """Purge our history by Hive's settings; the metastore purges its own."""
        if self.own_queue:
            super().purge_history()


class Hive3Hold(SqlHold):
    """A place that is claimed, and locked against other compactors in the metastore."""

    doing = "compact"
    """The verb in messages about what cannot be done."""

    def __init__(self, backend: Hive3Backend, request: CompactionRequest) -> None:
        super().__init__(backend, request, nowhere(request))
        self._hive3 = backend
        self._locks: list[CompactorLock] = []
        self._since = 0.0

    def begin(self) -> None:
        """Lock, claim, and take the snapshot by which everything is understood from here on."""
        hive3, request = self._hive3, self.request
        lock = lock_place(
            hive3.hms,
            hive3.beats,
            ref=request.ref,
            agent=self._services.worker_id,
        )
        self._locks.append(lock)
        self.target = self._place()
        hive3.require_no_compactor(request, self.doing)
        super().begin()
        self._since = self._services.clock()

    def _place(self) -> Target:
        return self._hive3.catalog.place(self.request)

    def assert_mine(self) -> None:
        """Ask for locks, claim and request, whether Hive's own compactor is there, and for the table and its place."""
        for lock in self._locks:
            lock.assert_alive()
        super().assert_mine()
        self._hive3.require_no_compactor(self.request, self.doing)
        require_unchanged(self.target, self._hive3.catalog.whereabouts(self.request), self.doing)

    def close(self) -> None:
        """Give claim and locks back."""
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
            lock = self._hive3.lock(self.request.ref, exclusive=exclusive)
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
            except AcidError as error:
                # what was published, or taken back, stays so
                self._services.progress.note(str(error), place=str(self.target.ref))

    def start(self, high_water_mark: int, inputs: str | None = None) -> None:
        """Record the mark, and whom this runs as where Hive shows it."""
        super().start(high_water_mark, inputs)
        if self.request.run_as is None and not self._hive3.own_queue:
            self._queue.change(
                self.request.id, self._services.worker_id, run_as=run_as_user(self._services, self.target)
            )

    def update_statistics(self, directories: tuple[str, ...], rows: int | None) -> Statistics | None:
        """Write them in the metastore's database, where that is named."""
        updater = StatisticsUpdater(self._services, self._hive3.hms, self._hive3.database)
        return updater.update(self.target, known_since=self._since, results=directories, rows=rows)

    def _identity(self) -> RequestFacts:
        return RequestFacts(table_id=table_id(self.target))

    def _facts(self, directories: tuple[str, ...]) -> RequestFacts:
        """Note what the cleaner needs: which transactions and locks existed once the results were visible."""
        hms = self._hive3.hms
        evidence = evidence_now(hms.open_txns(), hms.show_locks(), self._services.now_ms())
        return RequestFacts(evidence=dict.fromkeys(directories or ("",), evidence), table_id=table_id(self.target))


class Hive3UndoHold(Hive3Hold):
    """A place that is held to undo a compaction: under the lock of a compactor, and an exclusive one for the change.

    A reader without a lock yet waits for it, lists the place after that, and reads the inputs: by any snapshot, for
    they are directories of single writes. So open transactions that hold no lock there do not matter.
    """

    doing = "undo the compaction of"

    def _place(self) -> Target:
        return self._hive3.undo_target(self.request)


class Hive3CleaningHold(Hive3Hold):
    """A place that is claimed by the cleaner, which needs no compactor's lock."""

    doing = "clean"

    def begin(self) -> None:
        """Claim the place, which is known already."""
        Hold.begin(self)


class Hive3Cleaning(SqlCleaning):
    """The requests of a Hive 3.1 metastore, in its own queue or in ours: cleaned by proof.

    Hive 3.1 has no watermark in its queue. A directory may go only when every transaction and lock that existed once
    the newest publication at its place was visible has ended, and the same holds for every directory that covers it. A
    covering directory that this engine did not publish counts as published when it was first seen. Hive 3.1's `Cleaner`
    remembers locks in memory; transactions are added here because a query takes its snapshot before its locks.
    """

    backend: Hive3Backend

    def __init__(self, backend: Hive3Backend, options: CleanerOptions) -> None:
        super().__init__(backend, options)
        self._places = CleaningPlaces(backend.catalog, lambda _: None, self._find)
        self._retention_ms = int(retention_of(self.services.settings, options) * 1000)
        self.notes = about_named(backend.catalog, options, backend.queue.show)

    def is_wanted(self, request: CompactionRequest) -> bool:
        """Return whether a request is of this metastore and selected."""
        return self.backend.ours(request) and self.options.wants(request.ref)

    def ready(self) -> list[CompactionRequest]:
        """Return the requests of this metastore, an earlier mark of a place before a later one."""
        if self.options.dry_run:  # else `recover` has told it
            for line in self.backend.passed_over():
                self.services.progress.note(line)
        rows = [_with_mark(row) for row in super().ready()]
        self._places.expect(rows)
        return rows

    def _find(self, request_id: int) -> CompactionRequest | None:
        row = self.backend.queue.find(request_id)
        return None if row is None or row.state is not State.READY_FOR_CLEANING else _with_mark(row)

    def place(self, request: CompactionRequest, *, anew: bool = False) -> tuple[CompactionRequest, Target | None]:
        """Return the place as of a snapshot of this run."""
        return self._places.of(request, anew=anew)

    def require_unmoved(self, request: CompactionRequest, target: Target) -> None:
        """Ask the metastore."""
        self._places.require_unmoved(request, target)

    def require_alone(self, request: CompactionRequest, target: Target) -> None:
        """Ask whether Hive's own compactor is there."""
        del target
        self.backend.require_no_compactor(request, Hive3CleaningHold.doing)

    def hold(self, request: CompactionRequest, target: Target) -> Hold:
        """Return a claim of the place, beside which Hive's own compactor must not be at work."""
        hold = Hive3CleaningHold(self.backend, request)
        hold.target = target
        return hold

    def known(self, about: Sequence[ListedRequest]) -> list[Sequence[CompactionRequest] | AcidError]:
        """Return the rows about each table or partition."""
        return each_alone(lambda one: self.backend.rows_at(one.target), about)

    def plan(self, looked: ListedRequest, known: Sequence[CompactionRequest]) -> CleanPlan:
        """Return what is obsolete for the recorded mark, and which of it may still be read.

        Of each directory of this very table the latest evidence counts: to wait longer is always right. Noted is what
        existed when directories that cover something were first seen.
        """
        request, target, listing = looked.request, looked.target, looked.listing
        seen: dict[str, Evidence] = {}
        for row in known:
            if row.facts.table_id == table_id(target):
                row.require_understood("clean", "evidence")
                for name, evidence in row.facts.evidence.items():
                    seen[name] = max(evidence, seen.get(name, evidence))
        hms, now_ms = self.backend.hms, self.services.now_ms()
        txns = hms.open_txns()
        locks = [lock for lock in hms.show_locks() if concerns(lock, request.ref)]
        waited_for = dict(seen)
        if seen:
            waited_for[""] = max(seen.values())  # of the newest publication, whatever it left
        reasons = {
            name: still_to_end(evidence, txns, locks, now_ms=now_ms, retention_ms=self._retention_ms)
            for name, evidence in waited_for.items()
        }
        still_read = {name: reason for name, reason in reasons.items() if reason is not None}
        for name in listing.top_directories():
            if name not in seen:
                still_read[name] = "what covers it is seen for the first time; the next run goes on from there"
        plan = plan_cleaning(
            listing,
            looked.mark,
            target.write_ids(listing),
            generation=Generation.HIVE3,
            now=now_ms / 1000,
            retention_seconds=0,
            newest_publication=0,
            published_at=dict.fromkeys(seen, 0.0),
            still_read=still_read,
        )
        if plan.first_seen and not self.options.dry_run:
            # what does not fit is noted by a later run
            now = evidence_now(hms.open_txns(), hms.show_locks(), self.services.now_ms())
            noted = dict(request.facts.evidence) if request.facts.table_id == table_id(target) else {}
            noted.update(dict.fromkeys(plan.first_seen[: max(_MOST_NOTED - len(noted), 0)], now))
            self.backend.queue.change(request.id, None, facts=RequestFacts(evidence=noted, table_id=table_id(target)))
        return plan

    def cleaned(self, done: Sequence[ListedRequest]) -> list[str | AcidError | None]:
        """End the requests as succeeded, one after the other."""
        return each_alone(self._end_cleaned, done)

    def _end_cleaned(self, done: ListedRequest) -> str | None:
        """End the request as succeeded; in the metastore's queue, where it has aborted write ids up to the mark
        forgotten, only with no rows of them left.
        """
        listing, mark = done.listing, done.mark
        if not self.backend.own_queue:
            outputs = {name for row in self.backend.rows_at(done.target) for name in row.facts.outputs or ()}
            write_ids = done.target.write_ids(listing)
            aborted = aborted_present(listing, write_ids, generation=Generation.HIVE3, up_to=mark, compacted=outputs)
            if aborted:
                ids = ", ".join(map(str, aborted[:5]))
                return (
                    f"nothing obsolete is left, but rows of aborted write ids ({ids}) still lie there; "
                    "only Hive's own cleaner can forget the others, so the request stays for it"
                )
        self.backend.queue.end(done.request.id, State.SUCCEEDED, self.services.now_ms(), up_to=mark)
        return None

    def end_dropped(self, request: CompactionRequest) -> None:
        """End the request as refused."""
        self.backend.queue.end(request.id, State.REFUSED, self.services.now_ms(), reason=DROPPED)

    def known_places(self) -> list[CompactionRequest]:
        """Return what our own queue knows; rows of a metastore's state no location."""
        return super().known_places() if self.backend.own_queue else []


def _with_mark(row: CompactionRequest) -> CompactionRequest:
    """Give a request its mark 0, that of a compaction of nothing but original files: the metastore's queue has no null
    for it, and reads so.
    """
    known = row.highest_write_id is not None or row.facts.outputs is None
    return row if known else replace(row, highest_write_id=0)


def evidence_now(txns: ValidTxnList, locks: Iterable[HeldLock], now_ms: int) -> Evidence:
    """Return what exists now. Ids of both kinds only grow, so whatever exists has at most these."""
    return Evidence(txn=txns.high_water_mark, lock=max((lock.lock_id for lock in locks), default=0), ms=now_ms)


def still_to_end(
    evidence: Evidence, txns: ValidTxnList, locks: Iterable[HeldLock], *, now_ms: int, retention_ms: int
) -> str | None:
    """Return what existed then and has not ended, or the retention since; None without it. `locks`: of the place."""
    if txns.min_open <= evidence.txn:
        return f"transaction {txns.min_open} is open since before it (up to {evidence.txn} have to end)"
    old = sorted(lock.lock_id for lock in locks if lock.lock_id <= evidence.lock)
    if old:
        return f"lock {old[0]} is held since before it"
    if now_ms < evidence.ms + retention_ms:
        return retention_words(retention_ms / 1000, (evidence.ms + retention_ms) / 1000)
    return None


def table_id(target: Target) -> str:
    """Return what tells a table from another one of its name, and its place from an earlier one."""
    created, _ = target.table_identity
    return f"{created} {target.location}"


def concerns(lock: HeldLock, ref: TableRef) -> bool:
    """Return whether a lock may be that of a reader of a place: on it, on its table, on its database, or on a partition
    of the table where the place is the whole table.
    """
    if lock.database.lower() != ref.database:
        return False
    if lock.table is None:
        return True
    if lock.table.lower() != ref.table:
        return False
    return lock.partition is None or ref.partition is None or lock.partition.lower() == ref.partition.lower()
