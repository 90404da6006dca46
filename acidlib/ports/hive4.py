"""A metastore of Hive 4: tables, requests, recovery after dead runs, and one request under its transaction.

The metastore hands out requests in their order. Source: Hive 4 `CompactionTxnHandler`.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace

from acidlib.acid.listing import Listing
from acidlib.acid.names import Calls, Generation
from acidlib.acid.write_ids import ValidTxnList
from acidlib.arguments import POOL as POOL_ARGUMENT
from acidlib.arguments import SHOW, TABLE
from acidlib.errors import AcidError, ConflictError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.execute.answers import answer_of
from acidlib.execute.services import WORKER_PREFIX, Services
from acidlib.metastore.compactions import MAY_WORK
from acidlib.metastore.heartbeat import Heartbeater
from acidlib.metastore.hms import Hms
from acidlib.metastore.holding import CompactionTransaction, begin_compaction
from acidlib.metastore.transactions import TxnType
from acidlib.model.requests import (
    NO_FACTS,
    CompactionRequest,
    CompactionType,
    Enqueued,
    RequestFacts,
    State,
    bucket_note,
    message_with_facts,
)
from acidlib.model.results import Outcome, Statistics
from acidlib.model.tables import TableRef
from acidlib.places.attempts import Attempts, awaited_marks
from acidlib.places.place import ListedPlace, Place
from acidlib.places.selection import Selected, Selection
from acidlib.planning.inputs import Publication, needs_empty_write_id, refused_message
from acidlib.planning.results import quarantining_request
from acidlib.points import Point, reach
from acidlib.ports.backend import Backend, Decided, WaitingRequest, nowhere
from acidlib.ports.catalog import Catalog, run_as_user
from acidlib.ports.hive4_recovery import give_back, is_private, pool_of, queue_again, recover
from acidlib.ports.holds import ClaimedPlace, finish_publications
from acidlib.ports.sql import ALREADY_QUEUED, blocked_by_request_error, taken_by_another_error
from acidlib.ports.statistics import StatisticsUpdater
from acidlib.processes import process_identity
from acidlib.queue.metastore_database import MetastoreDatabase
from acidlib.queue.rules import failed_attempts_reason
from acidlib.stores.listing import list_location
from acidlib.version import __version__

POOL = "hive.compactor.worker.pool"
MIN_HISTORY = "metastore.txn.use.minhistorywriteid"


def hive4(
    services: Services,
    hms: Hms,
    beats: Heartbeater,
    *,
    pool: str | None = None,
    into_pool: str | None = None,
    min_history: bool = False,
    database: MetastoreDatabase | None = None,
) -> Backend:
    """Return the surroundings of one metastore; see `Hive4Requests` and `Hive4Fence`."""
    requests = Hive4Requests(services, hms, pool=pool, into_pool=into_pool)
    fence = Hive4Fence(requests, beats, min_history=min_history, database=database)
    return Backend(requests, requests, fence)


class Hive4Requests:
    """Tables and queue of one Hive 4 metastore, which shows both at once."""

    in_order = True

    def __init__(self, services: Services, hms: Hms, *, pool: str | None = None, into_pool: str | None = None) -> None:
        """Work with one metastore.

        pool       the pool whose requests are taken; None = the default one
        into_pool  the pool for new requests, whatever the tables say; None = as they say
        """
        self.services = services
        self.hms = hms
        self.catalog = Catalog(services, hms)
        self._pool = pool
        self._into_pool = into_pool
        self._asked_at: dict[int, float] = {}
        """When this run asked for each request that it was handed out, until it holds its place: the server counts the
        worker's timeout from a later moment.
        """
        self._obeys_pools = False
        """Whether a request in a pool has been seen there. A fork that has none puts it where any worker takes it."""
        self._rows: dict[TableRef, list[CompactionRequest]] | None = None
        self._mutex = threading.Lock()

    def rows_at(self, place: Place) -> Sequence[CompactionRequest]:
        """Return the requests about a place as this run has last read them, for all places together."""
        with self._mutex:
            rows = self._rows
            if rows is None:
                rows = self._remember(self.hms.show_compactions())
        return rows.get(place.ref, ())

    def _remember(self, shown: Sequence[CompactionRequest]) -> dict[TableRef, list[CompactionRequest]]:
        """Keep the rows for `rows_at`, under the mutex."""
        rows: dict[TableRef, list[CompactionRequest]] = {}
        for row in shown:
            rows.setdefault(row.ref, []).append(row)
        self._rows = rows
        return rows

    def recover(self, is_wanted: Callable[[CompactionRequest], bool]) -> list[str]:
        """End wanted requests that their run or worker will never end, and queue them again: see `recover`."""
        txns = self.hms.open_txns()
        rows = self.hms.show_compactions()
        wanted = [row for row in rows if is_wanted(row)]
        notes = recover(self.services, self.hms, wanted, txns, current_place=self.catalog.current_place)
        with self._mutex:
            self._rows = None
            if not notes:
                self._remember(rows)
        return notes

    def select(self, selection: Selection, *, automatic: bool) -> Selected:
        """Return tables and partitions of the metastore, as of one snapshot."""
        busy: set[TableRef] = set()
        if automatic:
            shown, others = self.hms.show_all_compactions()
            with self._mutex:
                self._remember(shown)
            busy = {row.ref for row in shown if row.state in (State.INITIATED, State.WORKING)}
            busy |= {row.ref for row in others if row.state in ("initiated", "working")}
        return self.catalog.select(selection, automatic=automatic, busy=busy)

    def names(self, selection: Selection) -> Sequence[TableRef]:
        """Return the transactional tables of the metastore."""
        return self.catalog.names(selection)

    def waiting(self, kind: CompactionType) -> list[WaitingRequest]:
        """Return the requests of our pool up to the last one of this kind, as they are handed out in their order.

        A run for majors carries out rebalances, too.
        """
        rows: list[CompactionRequest] = [
            row
            for row in reversed(self.hms.show_compactions())
            if row.state is State.INITIATED and self._pool == pool_of(row)
        ]
        while rows and rows[-1].type is not kind and not (kind.makes_base and rows[-1].type.makes_base):
            rows.pop()
        return list(zip(rows, self.catalog.places(rows), strict=True))

    def warnings(self) -> list[str]:
        """Warn that the default pool may have requests that only Hive's own workers can carry out."""
        if self._pool is not None:
            doubt = (
                f"warning: no request shows a pool, so it is not known whether {self.hms.shown_version} has pools: it "
                "may have put requests for this one into the default pool"
            )
            has_pools = not self.hms.may_be_fork or any(pool_of(row) for row in self.hms.show_compactions())
            return [] if has_pools else [doubt]
        return [
            "warning: requests of the default pool are taken, of either kind and in their order; those that only "
            f"Hive's own workers can do are refused. {POOL_ARGUMENT} gives this engine a pool of its own"
        ]

    def take(self, request: CompactionRequest) -> CompactionRequest | None:
        """Take the request that the metastore hands out next; RefusedError where that is of another pool than asked."""
        asked_at = self.services.clock()
        taken = self.hms.find_next_compaction(self.services.worker_id, __version__, self._pool)
        if taken is not None and self._pool is not None and taken.pool != self._pool:
            raise RefusedError(
                f"Cannot compact {request.ref}: {self._not_obeyed(self._pool)}; {give_back(self.hms, taken)}"
            )
        if taken is not None:
            self._asked_at[taken.id] = asked_at
        return taken

    def submit(self, listed: ListedPlace, kind: CompactionType, *, buckets: int | None = None) -> CompactionRequest:
        """Queue a request in a pool that only this run takes from, so that this very request is handed out."""
        place = listed.place
        # a pool for each request: after a lost answer no other request can be handed out from it
        pool = f"{WORKER_PREFIX}{process_identity()}-{self.services.unique()}"
        request = self._request(place, kind, initiator=f"{self.services.host}-manual", pool=pool)
        request = replace(request, bucket_count=buckets)
        try:
            answer = self.hms.compact(request)
        except UnknownOutcomeError:
            row = self._in_pool(pool)
            if row is None:
                raise
            answer = Enqueued(id=row.id, accepted=True)
        if answer.accepted:
            self._require_in_pool(place.ref, answer.id, pool)
        else:
            reason = answer.reason or ALREADY_QUEUED
            if State.READY_FOR_CLEANING.label in reason:  # the answer has no field for the state of the other request
                raise RefusedError(
                    f"Cannot compact {place.ref}: nothing was written to it since it was compacted last ({reason}); "
                    "call again when that request is cleaned"
                )
            raise blocked_by_request_error(str(place.ref), reason)
        asked_at = self.services.clock()
        try:
            taken = self.hms.find_next_compaction(self.services.worker_id, __version__, pool)
        except UnknownOutcomeError:
            taken = self._in_pool(pool)
            if taken is None or taken.worker_id != self.services.worker_id:
                raise
        if taken is None or taken.id != answer.id:
            error = taken_by_another_error(str(place.ref), answer.id)
            raise error if taken is None else ConflictError(f"{error}; {give_back(self.hms, taken)}")
        self._asked_at[taken.id] = asked_at
        return taken

    def _require_in_pool(self, ref: TableRef, number: int, pool: str) -> None:
        """Raise RefusedError, and withdraw a request that was just queued, unless the metastore obeys pools.

        One that does shows the pool. In a fork without pools the request would be any worker's, and this run would be
        handed any other request.
        """
        if self._obeys_pools:
            return
        row = self.hms.find_compaction(number)
        if row is not None and row.pool != pool:
            answer = self.hms.abort_compactions([number]).get(number, "nothing")
            withdrawn = "is withdrawn" if answer.startswith("Success") else f"could not be withdrawn ({answer})"
            raise RefusedError(f"Cannot compact {ref}: {self._not_obeyed(pool)}; request {number} {withdrawn}")
        self._obeys_pools = row is not None

    def _not_obeyed(self, pool: str) -> str:
        return (
            f"{self.hms.shown_version} does not obey the pool {pool}, so that no request is a run's own; a run that "
            f"drains the default pool may work (without {TABLE} and {POOL_ARGUMENT}), and {MAY_WORK}"
        )

    def _in_pool(self, pool: str) -> CompactionRequest | None:
        return next((row for row in self.hms.show_compactions() if row.pool == pool), None)

    def refuse(self, request: CompactionRequest, reason: str) -> None:
        """Do nothing: only a request that was handed out can be refused."""

    def taken_at(self, request: CompactionRequest) -> float:
        """Return when this run asked for a request that it was handed out; that is forgotten."""
        return self._asked_at.pop(request.id, self.services.clock())

    def attempts(self, places: Sequence[Place]) -> Attempts:
        """Read the metastore's queue and its history."""
        del places
        return Attempts(self.hms.show_compactions(), self.services.settings)

    def backoff_reason(self, place: Place, kind: CompactionType, *, dry_run: bool) -> str | None:
        """Apply the failed-attempt rule to the metastore's history (Hive Initiator)."""
        settings = self.services.settings
        reason = failed_attempts_reason(
            self.rows_at(place),
            threshold=settings.integer("metastore.compactor.initiator.failed.compacts.threshold"),
            retry_ms=settings.integer("metastore.compactor.initiator.failed.retry.time"),
            now_ms=self.services.now_ms(),
            calls=Calls(Generation.HIVE4),
        )
        if reason is not None and not dry_run:
            request = self._request(place, kind, initiator=self.services.initiator_id, pool=None)
            self.hms.mark_not_initiated(replace(request, error_message=reason))
        return reason

    def quarantining_request(self, place: Place, listing: Listing, *, anew: bool) -> CompactionRequest | None:
        """Judge the metastore's history: a wrong result was taken back, but a compaction would make it again."""
        del listing
        return quarantining_request(self.hms.show_compactions_of(place.ref) if anew else self.rows_at(place))

    def is_dropped(self, place: Place) -> bool:
        """Ask the metastore."""
        return self.catalog.is_dropped(place)

    def enqueue(self, decided: Sequence[Decided]) -> list[int | AcidError]:
        """Queue each request by compact2, which refuses duplicates by itself."""
        return [answer_of(self._enqueue, decision) for decision in decided]

    def _enqueue(self, decision: Decided) -> int:
        place = decision.listed.place
        pool = self._into_pool or place.settings(self.services.settings).text(POOL) or None
        request = self._request(place, decision.kind, initiator=self.services.initiator_id, pool=pool)
        answer = self.hms.compact(replace(request, facts=decision.figures))
        if not answer.accepted:
            raise ConflictError(answer.reason or ALREADY_QUEUED)
        if pool is not None:
            self._require_in_pool(place.ref, answer.id, pool)
        return answer.id

    def purge_history(self) -> None:
        """Do nothing: the metastore purges its own history."""

    def _request(self, place: Place, kind: CompactionType, *, initiator: str, pool: str | None) -> CompactionRequest:
        return CompactionRequest(
            id=0,
            ref=place.ref,
            type=kind,
            run_as=run_as_user(self.services, place),
            initiator_id=initiator,
            pool=pool,
        )


class Hive4Fence:
    """Claims, and transactions of the metastore whose locks keep compactors away, and for a rebalance writers."""

    can_rebalance = True

    def __init__(
        self,
        requests: Hive4Requests,
        beats: Heartbeater,
        *,
        min_history: bool = False,
        database: MetastoreDatabase | None = None,
    ) -> None:
        """Work with one metastore.

        min_history  the server counts readers by write id, so that this run has to register
        database     named for the queue, and perhaps this metastore's; None where none is named
        """
        self.requests = requests
        self.beats = beats
        self.min_history = min_history
        self.statistics = StatisticsUpdater(requests.services, requests.hms, database)

    def recover(self) -> list[str]:
        """Return none: the metastore ends the transactions of dead runs, and claims go stale by themselves."""
        return []

    def hold(self, request: CompactionRequest, place: Place) -> Hive4Hold:
        """Return the hold of a request that was handed out to this run; its place is looked up once it is locked."""
        del place
        return Hive4Hold(self, request, taken_at=self.requests.taken_at(request))

    def finish(self, place: Place) -> None:
        """Finish the publications of dead runs, which no reader sees before the commit."""
        finish_publications(self.requests.services, place.location)


class RequestEnd(enum.Enum):
    """The end of a request whose transaction has not committed."""

    FAILED = enum.auto()
    REFUSED = enum.auto()
    GIVEN_BACK = enum.auto()
    LEFT_ALONE = enum.auto()


def request_end(
    outcome: Outcome,
    row: CompactionRequest | None,
    *,
    worker_id: str,
    txn_id: int | None,
    is_marked: bool,
    is_returned: bool,
) -> RequestEnd:
    """Decide how a request ends.

    row          the request as the metastore has it now, after the transaction has ended
    txn_id       that transaction; None where none was opened
    is_marked    it is marked as compacted, or may be: the answer may have been lost
    is_returned  it goes back to the queue after a conflict, as this run did not queue it for itself
    """
    if (
        is_marked
        and row is not None
        and row.txn_id == txn_id
        and row.state in (State.WORKING, State.READY_FOR_CLEANING)
    ):
        # a row that is ready for cleaning and whose transaction was aborted blocks its place for ever (HIVE-29572)
        return RequestEnd.FAILED
    if not is_worked_on(row, worker_id):
        return RequestEnd.LEFT_ALONE
    if outcome is Outcome.FAILED:
        return RequestEnd.FAILED
    if is_returned and outcome in (Outcome.CONFLICT, Outcome.SKIPPED):
        return RequestEnd.GIVEN_BACK
    return RequestEnd.REFUSED


def is_worked_on(row: CompactionRequest | None, worker_id: str) -> bool:
    """Return whether this worker works on a row of the queue."""
    return row is not None and row.state is State.WORKING and row.worker_id == worker_id


class Hive4Hold(ClaimedPlace):
    """A place with a lock of our open transaction and a claim, for a request that was handed out to this run.

    The commit of that transaction makes the result visible and the request ready for cleaning. From before the inputs
    are listed until then it is open, with heartbeats. Source: Hive 4 `Worker.findNextCompactionAndExecute`.
    """

    def __init__(self, fence: Hive4Fence, request: CompactionRequest, *, taken_at: float) -> None:
        """Hold nothing yet. `taken_at` is no later than the server's start of the request, by the clock here."""
        super().__init__(fence.requests.services, request, nowhere(request))
        self._fence = fence
        self._hms = fence.requests.hms
        self._taken_at = taken_at
        self._held_since = self._services.clock()
        self._txn: CompactionTransaction | None = None
        self._marked = False
        """The request is marked as compacted, or may be: the answer may have been lost."""
        self._outcome_unknown = False
        """It is not known whether the transaction has committed."""

    @property
    def _transaction(self) -> CompactionTransaction:
        if self._txn is None:
            raise ConflictError(f"Cannot go on with {self.place.ref}: it is not locked")
        return self._txn

    def begin(self) -> None:
        """Open the transaction, lock, claim, and take the snapshot by which everything is interpreted from here on."""
        request = self.request
        rebalances = request.type is CompactionType.REBALANCE
        if request.type is CompactionType.ABORT_TXN_CLEANUP or (rebalances and request.order_by):
            kind = f"a {request.type.label}" if not rebalances else "a REBALANCE with ORDER BY, which compares values,"
            raise RefusedError(
                f"Cannot compact {request.ref}: {kind} is not done by this engine, only by Hive's own "
                "worker; give this engine a pool of its own"
            )
        if rebalances:
            # for the run that queues it again, should this one die
            self._hms.set_job_id(request, bucket_note(request.bucket_count))
        txn = self._txn = begin_compaction(
            self._hms,
            self._fence.beats,
            ref=request.ref,
            agent=self._services.worker_id,
            rebalances=rebalances,
        )
        if rebalances:
            self._allocate_empty_write_id(txn)
        # our own transaction is among the open ones, as it has to be: see HIVE-29567
        txns = self._hms.open_txns(exclude_readers=True).without(txn.txn_id)
        place = self._fence.requests.catalog.place(request, txns)
        self.place = replace(place, interpretation=replace(place.interpretation, visibility_txn=txn.txn_id))
        super().begin()
        stated = place.interpretation.write_ids
        assert stated is not None
        assert stated.single is not None
        write_ids = stated.single
        if self._fence.min_history:
            lowest = min(write_ids.min_open, write_ids.high_water_mark + 1)
            self._hms.add_write_ids_to_min_history(txn.txn_id, {str(place.ref.whole_table): lowest})
        self.request = replace(request, run_as=request.run_as or run_as_user(self._services, place))
        self._record_mark(write_ids.for_compactor().high_water_mark)
        self._held_since = self._services.clock()

    def _allocate_empty_write_id(self, txn: CompactionTransaction) -> None:
        """Allocate an empty write id by a transaction of its own, where a rebalance lacks one.

        The lock keeps other workers of the request out; if a lower write id is open the plan is refused later.
        """
        place = self._fence.requests.catalog.place(
            self.request, self._hms.open_txns(exclude_readers=True).without(txn.txn_id)
        )
        listed = place.listed(list_location(self._services.fs(place.location), place.location, missing=RefusedError))
        listed.place.require_rebalanceable(listed.hive.names)
        if not needs_empty_write_id(listed.state):
            return
        empty = self._hms.open_txn(TxnType.DEFAULT, self._services.worker_id)
        try:
            self._hms.allocate_write_id(empty, place.ref)
            self._hms.commit_txn(empty, TxnType.DEFAULT)
        except AcidError:
            with suppress(AcidError):  # the first error is the one to raise
                self._hms.abort_txn(empty, TxnType.DEFAULT)
            raise

    def _record_mark(self, high_water_mark: int) -> None:
        """Record mark and transaction in the metastore.

        From then on it remembers an aborted result of this transaction, and other runs see that this one is alive.
        """
        self.request = replace(self.request, highest_write_id=high_water_mark)
        self._assert_request_ours()
        self._hms.update_compactor_state(self.request, self._transaction.txn_id)

    def _assert_request_ours(self) -> None:
        """Raise ConflictError unless this run works on the request.

        mark_compacted tests the id alone: it would succeed on a request that another worker has taken.
        """
        row = self._hms.find_compaction(self.request.id)
        if not is_worked_on(row, self._services.worker_id):
            state = "it is not in the queue" if row is None else f"it is {row.state.label}, of worker {row.worker_id}"
            raise ConflictError(
                f"Cannot go on with {self.request.ref}: request {self.request.id} is not ours any more: {state}; "
                f"see {SHOW}"
            )

    def will_verify(self, directories: tuple[str, ...]) -> None:
        """Note nothing: before the commit no reader sees the result, and a run that dies before that leaves none."""

    def note_mark(self, high_water_mark: int, inputs: str | None = None) -> None:
        """Record a mark other than that of `begin`; the metastore has no place for the digest of the inputs."""
        del inputs
        if high_water_mark != self.request.highest_write_id:
            self._record_mark(high_water_mark)

    def awaited_marks(self) -> tuple[int, ...]:
        """Read the metastore's queue as it is now."""
        return awaited_marks(self._hms.show_compactions_of(self.request.ref))

    def only_clean(self, high_water_mark: int) -> None:
        """Mark it as Hive's worker does: compacted without a result, so that the cleaner takes it."""
        self.note_mark(high_water_mark)
        self.published(())

    def assert_mine(self) -> None:
        """Check transaction and claim, and that the server will not take this run for dead before its end.

        `published` checks the request: renamed results are invisible before the commit.
        """
        self._transaction.assert_alive()
        super().assert_mine()
        limit = self._services.settings.integer("hive.compactor.worker.timeout") / 1000
        if self._services.clock() - self._taken_at > 0.9 * limit:
            raise RetryError(
                f"Cannot publish {self.request.ref}: it took more than 90 % of "
                f"hive.compactor.worker.timeout ({limit:g} s), after which the request is given to another worker"
            )

    def publishing(self, publication: Publication) -> AbstractContextManager[bool]:
        """Do nothing: no reader sees anything before the commit."""
        del publication
        return nullcontext(False)

    def transactions_now(self) -> ValidTxnList:
        """Ask the metastore."""
        return self._hms.open_txns()

    def published(self, directories: tuple[str, ...]) -> None:
        """Make the request ready for cleaning, then commit, which makes the results visible."""
        del directories
        txn, request = self._transaction, self.request
        self._assert_request_ours()
        try:
            self._hms.mark_compacted(request)
        except AcidError as error:
            self._marked = True  # or may be: the answer may have been lost
            txn.abort()
            raise RetryError(
                f"Cannot note that {request.ref} is compacted: {error}; transaction {txn.txn_id} is "
                "aborted and nothing became visible"
            ) from error
        self._marked = True
        reach(Point.MARKED)
        try:
            txn.commit()
        except UnknownOutcomeError as error:
            self._find_out_whether_committed(txn, error)
        reach(Point.COMMITTED)

    def _find_out_whether_committed(self, txn: CompactionTransaction, error: UnknownOutcomeError) -> None:
        """Return if a transaction has committed after all; the metastore refuses to abort a committed one.

        ConflictError when it was aborted; the same error again when even that cannot be found out.
        """
        self._outcome_unknown = True
        try:
            txn.abort()
            row = self._hms.find_compaction(self.request.id)
            txns = self._hms.open_txns()
        except AcidError:
            raise error from None
        if row is not None and (row.next_txn_id is not None or row.state is State.SUCCEEDED):
            return  # only the commit sets it
        if self.request.type is CompactionType.REBALANCE and txns.is_txn_valid(txn.txn_id):
            return  # it sets nothing; an aborted one is remembered while its request is there
        if not txns.is_txn_aborted(txn.txn_id):
            raise error
        self._outcome_unknown = False
        raise ConflictError(f"Cannot commit transaction {txn.txn_id} for {self.request.ref}: {error}")

    def update_statistics(self, directories: tuple[str, ...], rows: int | None) -> Statistics | None:
        """Write the statistics by a call where one is safe, or in the metastore's database where that is named."""
        return self._fence.statistics.update(self.place, known_since=self._held_since, results=directories, rows=rows)

    @property
    def keeps_needless(self) -> bool:
        """The metastore keeps it as a refused one."""
        return True

    def end(self, outcome: Outcome, reason: str, *, named: bool, noted: RequestFacts) -> str | None:
        """Tell the metastore an end that the commit has not told it.

        It has no state for a place that is compact already: Hive's own worker refuses the request in certain words.
        """
        if outcome is Outcome.READY_FOR_CLEANING or self._outcome_unknown:
            return None
        txn, hms = self._txn, self._hms
        if txn is not None and not self._marked and outcome in (Outcome.REFUSED, Outcome.ALREADY_COMPACT):
            # an empty commit, as Hive's worker: an aborted transaction would be remembered until a cleaner came
            try:
                txn.commit()
            except AcidError:
                txn.abort()
        elif txn is not None:
            txn.abort()
        how = request_end(
            outcome,
            hms.find_compaction(self.request.id),
            worker_id=self._services.worker_id,
            txn_id=None if txn is None else txn.txn_id,
            is_marked=self._marked,
            is_returned=not named and not is_private(self.request),
        )
        message = refused_message(reason) if outcome is Outcome.ALREADY_COMPACT else message_with_facts(reason, noted)
        match how:
            case RequestEnd.LEFT_ALONE:
                return "the request is not ours any more and was left alone"
            case RequestEnd.FAILED:
                hms.mark_failed(replace(self.request, error_message=message))
            case RequestEnd.REFUSED:
                hms.mark_refused(replace(self.request, error_message=message))
            case RequestEnd.GIVEN_BACK:
                hms.mark_refused(replace(self.request, error_message=f"{reason} (given back)"))
                return queue_again(hms, self.request)
        return None

    def abandon(self, *, may_be_visible: bool = False) -> None:
        """Queue the request again, as a new one: no call gives a taken request back."""
        del may_be_visible  # that depends on the transaction alone
        if not self._marked:
            self.end(Outcome.CONFLICT, "the run was interrupted", named=False, noted=NO_FACTS)

    def close(self) -> None:
        """Abort the transaction unless it has committed, and release the claim."""
        try:
            if self._txn is not None and not self._outcome_unknown:
                self._txn.abort()
        finally:
            super().close()
