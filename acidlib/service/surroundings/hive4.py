"""A metastore of Hive 4: tables and requests, one request under its transaction, and what dead runs left.

Requests are handed out by the metastore, in their order. Source: Hive 4 `CompactionTxnHandler`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

from acidlib import __version__
from acidlib.errors import AcidError, ConflictError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.metastore.compactions import Accepted, ShownRequest
from acidlib.metastore.heartbeat import Heartbeater
from acidlib.metastore.hms import Hms
from acidlib.metastore.holding import CompactionTransaction, begin_compaction
from acidlib.metastore.transactions import TxnType
from acidlib.model.listing import Listing
from acidlib.model.names import Generation, parse_directory
from acidlib.model.requests import (
    NO_FACTS,
    CommitNote,
    CompactionRequest,
    CompactionType,
    RequestFacts,
    State,
    with_noted,
)
from acidlib.model.snapshots import ValidTxnList
from acidlib.model.tables import TableRef
from acidlib.planning.clean import (
    CleanPlan,
    OpenReader,
    aborted_present,
    cleanable,
    readers_of,
    still_reading,
)
from acidlib.planning.inputs import lacks_number, refused_message
from acidlib.planning.results import holding
from acidlib.points import Point, passing
from acidlib.processes import has_ended, process_identity
from acidlib.queue.metastore_database import MetastoreDatabase
from acidlib.queue.rules import failed_attempts_reason
from acidlib.report.results import Outcome, Statistics
from acidlib.service.attempts import Attempts, awaited_marks
from acidlib.service.backend import Backend, CompactionHold, Decided, Hold, Selected, Taken, Waiting, nowhere
from acidlib.service.clean import Cleaning, ListedRequest, each_alone
from acidlib.service.places import CleanerOptions, ListedPlace, Selection, Target
from acidlib.service.plan import require_rebalanceable
from acidlib.service.rolled_back import NOTHING_FORGOTTEN, RolledBack, not_its_database, own_transaction
from acidlib.service.services import WORKER_PREFIX, Services
from acidlib.service.statistics import StatisticsUpdater
from acidlib.service.surroundings.catalog import (
    DROPPED,
    Catalog,
    CleaningPlaces,
    about_named,
    retention_of,
    run_as_user,
)
from acidlib.service.surroundings.sql import in_the_way, not_accepted, taken_by_another
from acidlib.stores.listing import list_location
from acidlib.stores.store import STALE_SECONDS
from acidlib.wording import retention_words

POOL = "hive.compactor.worker.pool"
MIN_HISTORY = "metastore.txn.use.minhistorywriteid"
CLEANER_ON = "metastore.compactor.cleaner.on"
_CANARY = "acidlib"
"""The database of a table that does not exist, for which a run registers itself."""


class Hive4Backend(Backend):
    """Tables, queue and transactions of one Hive 4 metastore."""

    in_order = True
    can_rebalance = True

    def __init__(
        self,
        services: Services,
        hms: Hms,
        beats: Heartbeater,
        *,
        pool: str | None = None,
        into_pool: str | None = None,
        min_history: bool = False,
        database: MetastoreDatabase | None = None,
    ) -> None:
        """Work with one metastore.

        pool         the pool whose requests are taken; None = the default one
        into_pool    the pool that new requests are put into, whatever the tables say; None = as they say
        min_history  whether the server counts readers by write id, so that we have to register
        database     that was named for the queue, and may be this metastore's; None where none was
        """
        super().__init__(services)
        self.hms = hms
        self.beats = beats
        self.catalog = Catalog(services, hms)
        self.min_history = min_history
        self.database = database
        self._pool = pool
        self._into_pool = into_pool
        self._rows: dict[TableRef, list[CompactionRequest]] | None = None
        self._mutex = threading.Lock()

    def rows_at(self, target: Target) -> Sequence[CompactionRequest]:
        """Return the requests about a place as this run has read them last: once for all places."""
        with self._mutex:
            rows = self._rows
            if rows is None:
                rows = self._remember(self.hms.show_compactions())
        return rows.get(target.ref, ())

    def _remember(self, shown: Sequence[CompactionRequest]) -> dict[TableRef, list[CompactionRequest]]:
        rows: dict[TableRef, list[CompactionRequest]] = {}
        for row in shown:
            rows.setdefault(row.ref, []).append(row)
        self._rows = rows
        return rows

    def recover(self) -> list[str]:
        """End requests of dead runs of this engine, and results that can never be committed."""
        return recover(self.services, self.hms, self._remember)

    def select(self, selection: Selection, *, automatic: bool) -> Selected:
        """Return tables and partitions of the metastore, by one snapshot."""
        busy: set[TableRef] = set()
        if automatic:
            shown, others = self.hms.show_all_compactions()
            self._remember(shown)
            busy = {row.ref for row in shown if row.state in (State.INITIATED, State.WORKING)}
            busy |= {row.ref for row in others if row.state in ("initiated", "working")}
        return self.catalog.select(selection, automatic=automatic, busy=busy)

    def waiting(self, kind: CompactionType) -> list[Waiting]:
        """Return the requests of our pool up to the last one of this kind, for they are handed out by their order.

        A run that does majors does rebalances, too.
        """
        rows = [
            row
            for row in reversed(self.hms.show_compactions())
            if row.state is State.INITIATED and self._pool == (None if row.pool in ("", "default") else row.pool)
        ]
        while rows and rows[-1].type is not kind and not (kind.makes_base and rows[-1].type.makes_base):
            rows.pop()
        return [Waiting.at(row, place) for row, place in zip(rows, self.catalog.places(rows), strict=True)]

    def cautions(self) -> list[str]:
        """Warn that in the default pool requests are taken that only Hive's own workers can do."""
        if self._pool is not None:
            return []
        return [
            "warning: requests of the default pool are taken, of either kind and in their order; those that only "
            "Hive's own workers can do are refused. --pool gives this engine a pool of its own"
        ]

    def take(self, waiting: Waiting) -> Taken | None:
        """Take whatever request the metastore hands out next."""
        found = self.hms.find_next_compaction(self.services.worker_id, __version__, self._pool)
        if found is None:
            return None
        target = waiting.target if waiting.request.id == found.id else nowhere(found)
        return Taken(request=found, target=target)

    def submit(self, place: ListedPlace, kind: CompactionType, *, buckets: int | None = None) -> Taken:
        """Queue it in a pool that only this run takes from, so that what is handed out is what was asked for."""
        target = place.target
        # one of its own for each request: after a lost answer nothing else can be handed out for it
        pool = f"{WORKER_PREFIX}{process_identity()}-{self.services.unique()}"
        request = self._request(target, kind, initiator=f"{self.services.host}-manual", pool=pool)
        request = replace(request, bucket_count=buckets)
        try:
            answer = self.hms.compact(request)
        except UnknownOutcomeError:
            row = self._in_pool(pool)
            if row is None:
                raise
            answer = Accepted(id=row.id, accepted=True)
        if not answer.accepted:
            reason = answer.reason or "it is already queued"
            if State.READY_FOR_CLEANING.label in reason:  # the answer has no field for the state of the other request
                raise RefusedError(
                    f"Cannot compact {target.ref}: nothing was written to it since it was compacted last ({reason}); "
                    "call again when that request is cleaned"
                )
            raise in_the_way(str(target.ref), reason)
        try:
            found = self.hms.find_next_compaction(self.services.worker_id, __version__, pool)
        except UnknownOutcomeError:
            found = self._in_pool(pool)
            if found is None or found.worker_id != self.services.worker_id:
                raise
        if found is None or found.id != answer.id:
            raise taken_by_another(str(target.ref), answer.id)
        return Taken(request=found, target=target)

    def _in_pool(self, pool: str) -> ShownRequest | None:
        return next((row for row in self.hms.show_compactions() if row.pool == pool), None)

    def refuse(self, waiting: Waiting, reason: str) -> None:
        """Do nothing: only a request that was handed out can be refused."""

    def hold(self, taken: Taken) -> Hive4Hold:
        """Return the hold of a request that was handed out to us."""
        return Hive4Hold(self, taken.request)

    def attempts(self, targets: Sequence[Target]) -> Attempts:
        """Ask the metastore's queue and its history."""
        del targets
        return Attempts(self.hms.show_compactions(), self.services.settings)

    def held_back(self, target: Target, kind: CompactionType, *, dry_run: bool) -> str | None:
        """Apply the failed-attempt rule to the metastore's history (Hive Initiator)."""
        settings = self.services.settings
        reason = failed_attempts_reason(
            self.rows_at(target),
            threshold=settings.integer("metastore.compactor.initiator.failed.compacts.threshold"),
            retry_ms=settings.integer("metastore.compactor.initiator.failed.retry.time"),
            now_ms=self.services.now_ms(),
            generation=Generation.HIVE4,
        )
        if reason is not None and not dry_run:
            request = self._request(target, kind, initiator=self.services.initiator_id, pool=None)
            self.hms.mark_not_initiated(replace(request, error_message=reason))
        return reason

    def unverified(self, target: Target, listing: Listing) -> CompactionRequest | None:
        """Go by the metastore's history: what was found wrong was taken back, but it would be made again."""
        del listing
        return holding(self.rows_at(target))

    def is_dropped(self, target: Target) -> bool:
        """Return whether the metastore does not know it any more."""
        return self.catalog.is_dropped(target)

    def enqueue(self, decided: Sequence[Decided]) -> list[int | AcidError]:
        """Queue each decision by compact2, which refuses duplicates by itself."""
        return [self._queued(one) for one in decided]

    def _queued(self, decided: Decided) -> int | AcidError:
        target = decided.place.target
        pool = self._into_pool or target.settings(self.services.settings).text(POOL) or None
        try:
            request = self._request(target, decided.kind, initiator=self.services.initiator_id, pool=pool)
            answer = self.hms.compact(replace(request, facts=decided.figures))
        except AcidError as error:
            return error
        return answer.id if answer.accepted else not_accepted(answer.reason)

    def purge_history(self) -> None:
        """Do nothing: the metastore purges its own history."""

    def _request(self, target: Target, kind: CompactionType, *, initiator: str, pool: str | None) -> CompactionRequest:
        return CompactionRequest(
            id=0,
            ref=target.ref,
            type=kind,
            run_as=run_as_user(self.services, target),
            initiator_id=initiator,
            pool=pool,
        )


def recover(
    services: Services,
    hms: Hms,
    shown: Callable[[Sequence[ShownRequest]], object] = lambda _: None,
    is_wanted: Callable[[CompactionRequest], bool] = lambda _: True,
) -> list[str]:
    """End what dead runs of this engine left in the queue, and any result whose transaction was aborted.

    `shown` gets all requests, as the metastore shows them now; those that are not wanted stay as they are.

    Hive's own initiator gives back what timed out, but only after `hive.compactor.worker.timeout`, and where it runs.
    """
    notes = []
    snapshot = hms.open_txns()
    rows = hms.show_compactions()
    shown(rows)
    for row in rows:
        problem = _dead_reason(services, row, snapshot) if is_wanted(row) else None
        if problem is None:
            continue
        try:
            if row.state is State.INITIATED:
                hms.abort_compactions([row.id])
            else:
                if row.state is State.WORKING and row.txn_id is not None:
                    with suppress(AcidError):  # it ends by itself, but later, and keeps cleaners waiting until then
                        rebalances = row.type is CompactionType.REBALANCE
                        kind = TxnType.REBALANCE_COMPACTION if rebalances else TxnType.COMPACTION
                        hms.abort_txn(row.txn_id, kind)
                hms.mark_failed(replace(row, error_message=problem))
        except AcidError as error:
            notes.append(f"request {row.id} for {row.ref} could not be ended: {error}")
            continue
        notes.append(f"request {row.id} for {row.ref} was ended: {problem}")
    return notes


def _dead_reason(services: Services, row: ShownRequest, txns: ValidTxnList) -> str | None:
    """Return why the run that began a request can never finish it; None while it is alive, or not known to be dead."""
    if row.state is State.READY_FOR_CLEANING:
        lost = row.txn_id is not None and row.next_txn_id is None and txns.is_txn_aborted(row.txn_id)
        return f"its transaction {row.txn_id} was aborted after it was marked as compacted" if lost else None
    if row.state in (State.INITIATED, State.WORKING) and has_ended(_process_of_pool(row.pool)):
        return "its run is dead"
    since = row.start_ms if row.state is State.WORKING else row.enqueue_ms
    # a worker tells its transaction soon after it took a request
    if since is None or services.now_ms() - since < STALE_SECONDS * 1000:
        return None
    if row.state is State.INITIATED:
        return "its run is dead" if (row.pool or "").startswith(WORKER_PREFIX) else None
    if row.state is not State.WORKING or not (row.worker_id or "").startswith(WORKER_PREFIX):
        return None
    if row.txn_id is not None and row.txn_id > txns.high_water_mark:
        return None
    alive = row.txn_id is not None and not txns.is_txn_aborted(row.txn_id) and not txns.is_txn_valid(row.txn_id)
    return None if alive else "its run is dead"


def _process_of_pool(pool: str | None) -> str:
    """Return the process that a private pool belongs to; empty for any other pool."""
    own = (pool or "").partition(WORKER_PREFIX)
    return own[2].rpartition("-")[0] if not own[0] else ""


class Hive4Hold(CompactionHold):
    """A place that is locked by an open transaction of ours, and claimed, for a request that was handed out to us.

    The result becomes visible, and the request ready for cleaning, by the commit of that transaction, which is open and
    heartbeating from before the inputs are listed until then. Source: Hive 4 `Worker.findNextCompactionAndExecute`.
    """

    def __init__(self, backend: Hive4Backend, request: CompactionRequest) -> None:
        super().__init__(backend.services, request, nowhere(request))
        self._backend = backend
        self._hms = backend.hms
        self._taken_at = self._held_since = self._services.clock()
        self._txn: CompactionTransaction | None = None
        self._marked = False
        """The request is marked as compacted, or perhaps: the answer may have been lost."""
        self._outcome_unknown = False
        """It is not known whether the transaction has committed."""

    @property
    def _transaction(self) -> CompactionTransaction:
        if self._txn is None:
            raise ConflictError(f"Cannot go on with {self.target.ref}: it is not locked")
        return self._txn

    def begin(self) -> None:
        """Open the transaction, lock, claim, and take the snapshot by which everything is understood from here on."""
        request = self.request
        rebalances = request.type is CompactionType.REBALANCE
        if request.type is CompactionType.ABORT_TXN_CLEANUP or (rebalances and request.order_by):
            what = f"a {request.type.label}" if not rebalances else "a REBALANCE with ORDER BY, which compares values,"
            raise RefusedError(
                f"Cannot compact {request.ref}: because {what} is not done by this engine, only by Hive's own "
                "worker; give this engine a pool of its own"
            )
        txn = self._txn = begin_compaction(
            self._hms,
            self._backend.beats,
            ref=request.ref,
            agent=self._services.worker_id,
            rebalances=rebalances,
        )
        if rebalances:
            self._have_number()
        # our own transaction is among the open ones, as it has to be: see HIVE-29567
        txns = self._hms.open_txns(exclude_readers=True).without(txn.txn_id)
        place, write_ids = self._backend.catalog.place_and_write_ids(request, txns)
        understood = replace(place.interpretation, visibility_txn=txn.txn_id, visible_on_commit=True, txns=txns)
        self.target = replace(place, interpretation=understood)
        super().begin()
        if self._backend.min_history:
            lowest = min(write_ids.min_open, write_ids.high_water_mark + 1)
            self._hms.add_write_ids_to_min_history(txn.txn_id, {str(place.ref.whole_table): lowest})
        self.request = replace(request, run_as=request.run_as or run_as_user(self._services, place))
        self._tell_mark(write_ids.for_compactor().high_water_mark)
        self._held_since = self._services.clock()

    def _have_number(self) -> None:
        """Have a write id that nothing is written under, where a rebalance lacks one, by an empty transaction.

        Other takers of the request are kept out by the lock; if a lower write id is open the plan is refused later.
        """
        txns = self._hms.open_txns(exclude_readers=True).without(self._transaction.txn_id)
        place, _ = self._backend.catalog.place_and_write_ids(self.request, txns)
        understood = replace(place.interpretation, txns=txns)
        fs = self._services.fs(place.location)
        listed = replace(place, interpretation=understood).listed(
            list_location(fs, place.location, missing=RefusedError)
        )
        require_rebalanceable(listed.target, listed.generation)
        if not lacks_number(listed.state):
            return
        empty = self._hms.open_txn(TxnType.DEFAULT, self._services.worker_id)
        try:
            self._hms.allocate_write_id(empty, place.ref)
            self._hms.commit_txn(empty, TxnType.DEFAULT)
        except AcidError:
            with suppress(AcidError):  # the first error is the one to raise
                self._hms.abort_txn(empty, TxnType.DEFAULT)
            raise

    def _tell_mark(self, high_water_mark: int) -> None:
        """Tell the metastore mark and transaction: from now on it remembers aborted results of this transaction, and
        other runs see that this one is alive.
        """
        self.request = replace(self.request, highest_write_id=high_water_mark)
        self._assert_request_ours()
        self._hms.update_compactor_state(self.request, self._transaction.txn_id)

    def _assert_request_ours(self) -> None:
        """Raise ConflictError unless this run works on the request: mark_compacted, which tests the id alone, would
        succeed on the claim of another.
        """
        row = self._hms.find_compaction(self.request.id)
        if not self._is_ours(row):
            held = "it is not in the queue" if row is None else f"it is {row.state.label}, of worker {row.worker_id}"
            raise ConflictError(
                f"Cannot go on with {self.request.ref}: request {self.request.id} is not ours any more: {held}; "
                "see acidlib show"
            )

    def _is_ours(self, row: ShownRequest | None) -> bool:
        return row is not None and row.state is State.WORKING and row.worker_id == self._services.worker_id

    def unverified(self, listing: Listing) -> CompactionRequest | None:
        """Ask the metastore's history, as this run has read it."""
        return self._backend.unverified(self.target, listing)

    def will_verify(self, directories: tuple[str, ...]) -> None:
        """Note nothing: before the commit no reader sees it, and a run that dies before has made nothing."""

    def start(self, high_water_mark: int, inputs: str | None = None) -> None:
        """Tell another mark than the metastore knows from the beginning on; it does not keep what is read."""
        del inputs
        if high_water_mark != self.request.highest_write_id:
            self._tell_mark(high_water_mark)

    def awaited_marks(self) -> tuple[int, ...]:
        """Ask the metastore's queue as it is now."""
        return awaited_marks(row for row in self._hms.show_compactions() if row.ref == self.request.ref)

    def only_clean(self, high_water_mark: int) -> None:
        """Mark it as Hive's worker does: compacted without a result, so that the cleaner comes."""
        self.start(high_water_mark)
        self.published(())

    def assert_mine(self) -> None:
        """Ask for transaction and claim, and that the server does not take us for dead before we have ended.

        Whose the request is, `published` asks: no reader sees before a commit what is renamed.
        """
        self._transaction.assert_alive()
        super().assert_mine()
        limit = self._services.settings.integer("hive.compactor.worker.timeout") / 1000
        if self._services.clock() - self._taken_at > 0.9 * limit:
            raise RetryError(
                f"Cannot publish {self.request.ref}: because it took more than 90 % of "
                f"hive.compactor.worker.timeout ({limit:g} s), after which the request is given to another worker"
            )

    def transactions_now(self) -> ValidTxnList:
        """Ask the metastore."""
        return self._hms.open_txns()

    def published(self, directories: tuple[str, ...]) -> None:
        """Make the request ready for cleaning, then commit, which shows the results."""
        del directories
        txn, request = self._transaction, self.request
        self._assert_request_ours()
        try:
            self._hms.mark_compacted(request)
        except AcidError as error:
            self._marked = True  # perhaps: the answer may have been lost
            txn.abort()
            raise RetryError(
                f"Cannot note that {request.ref} is compacted: because {error}; transaction {txn.txn_id} is "
                "aborted and nothing became visible"
            ) from error
        self._marked = True
        passing(Point.MARKED)
        try:
            txn.commit()
        except UnknownOutcomeError as error:
            self._settle(txn, error)
        passing(Point.COMMITTED)

    def _settle(self, txn: CompactionTransaction, error: UnknownOutcomeError) -> None:
        """Find out whether a transaction has committed after all; the metastore refuses to abort what has.

        ConflictError when it has not and never will; the same error again when even that cannot be found out.
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
            return  # it sets nothing; one that was aborted is remembered while its request is there
        if not txns.is_txn_aborted(txn.txn_id):
            raise error
        self._outcome_unknown = False
        raise ConflictError(f"Cannot commit transaction {txn.txn_id} for {self.request.ref}: because {error}")

    def update_statistics(self, directories: tuple[str, ...], rows: int | None) -> Statistics | None:
        """Write them by a call where one is safe, or in the metastore's database where that is named."""
        updater = StatisticsUpdater(self._services, self._hms, self._backend.database)
        return updater.update(self.target, known_since=self._held_since, results=directories, rows=rows)

    def end(self, outcome: Outcome, reason: str, *, named: bool, noted: RequestFacts) -> str | None:
        """Tell the metastore what it does not know from the commit.

        It has no state for what is compact already: Hive's own worker refuses that, and its words tell it.
        """
        message = refused_message(reason) if outcome is Outcome.ALREADY_COMPACT else with_noted(reason, noted)
        if outcome is Outcome.READY_FOR_CLEANING or self._outcome_unknown:
            return None
        commits = outcome in (Outcome.REFUSED, Outcome.ALREADY_COMPACT) and not self._marked
        if self._txn is not None:
            self._end_transaction(self._txn, commits=commits)
        row = self._hms.find_compaction(self.request.id)
        ended = replace(self.request, error_message=message)
        txn_id = None if self._txn is None else self._txn.txn_id
        undone = row is not None and row.state in (State.WORKING, State.READY_FOR_CLEANING) and row.txn_id == txn_id
        if self._marked and undone:
            # a row that is ready for cleaning and whose transaction was aborted blocks its place for ever (HIVE-29572)
            self._hms.mark_failed(ended)
        elif not self._is_ours(row):
            return "the request is not ours any more and was left alone"
        elif outcome is Outcome.FAILED:
            self._hms.mark_failed(ended)
        elif outcome in (Outcome.CONFLICT, Outcome.SKIPPED) and not (
            named or (self.request.pool or "").startswith(WORKER_PREFIX)
        ):
            self._hms.mark_refused(replace(self.request, error_message=f"{reason} (given back)"))
            try:
                again = self._hms.compact(replace(self.request, id=0, state=State.INITIATED, highest_write_id=None))
            except AcidError as error:
                return f"it could not be queued again: {error}"
            return f"queued again as request {again.id}" if again.accepted else f"not queued again: {again.reason}"
        else:
            self._hms.mark_refused(ended)
        return None

    @staticmethod
    def _end_transaction(txn: CompactionTransaction, *, commits: bool) -> None:
        """Commit nothing, as Hive's worker: an aborted one would be remembered for this place until a cleaner came."""
        if commits:
            try:
                txn.commit()
            except AcidError:
                txn.abort()
        else:
            txn.abort()

    def abandon(self, *, may_be_visible: bool = False) -> None:
        """Queue it again, as a new request: nothing in the protocol undoes a claim."""
        del may_be_visible  # a transaction decides it
        if not self._marked:
            self.end(Outcome.CONFLICT, "the run was interrupted", named=False, noted=NO_FACTS)

    def close(self) -> None:
        """Abort what was not committed, and release the claim."""
        try:
            if self._txn is not None and not self._outcome_unknown:
                self._txn.abort()
        finally:
            super().close()


class Readers:
    """Transactions that may still read, as one run of the cleaner sees them: every open one may read everything.

    A transaction from after a commit has a higher id than any that the commit has seen: this is the strict watermark of
    open transactions, which thrift shows (HIVE-23048, HIVE-24291).
    """

    renamed_is_another = False
    """Whether what was said of a table does not hold under another name of it."""

    def __init__(self, hms: Hms) -> None:
        self._hms = hms

    @cached_property
    def txns(self) -> ValidTxnList:
        """The transactions before the requests were read, asked for once: what has committed by then is among those."""
        return self._hms.open_txns()

    def look(self) -> None:
        """Look at readers, once there are requests. Raises RefusedError where the answer would prove nothing."""

    def not_ended_reason(self, request: CompactionRequest) -> str | None:
        """Return which transaction a committed request has to wait for: the lowest open one, if it existed by then."""
        assert request.next_txn_id is not None
        lowest = self.txns.min_open
        if lowest > request.next_txn_id:
            return None
        return (
            f"transaction {lowest} is open since before its commit (transactions up to "
            f"{request.next_txn_id} have to end; show_compactions --blockers names them)"
        )

    def snapshot(self, request: CompactionRequest) -> ValidTxnList:
        """Return the snapshot that every transaction has at least that may read the table of a request."""
        del request
        return self._below(self.txns.min_open)

    def _below(self, lowest: int) -> ValidTxnList:
        """Return the snapshot that every transaction from this one on has at least.

        What committed at or above it is not in it, nor what was not known then. Source: Hive 4 `CompactionCleaner` (the
        capped transaction list).
        """
        cap = min(lowest - 1, self.txns.high_water_mark)
        return ValidTxnList(
            high_water_mark=cap,
            opened=tuple((low, min(high, cap)) for low, high in self.txns.opened if low <= cap),
            aborted=tuple((low, min(high, cap)) for low, high in self.txns.aborted if low <= cap),
        )


class UnseenReaders(Readers):
    """Readers that register where this run cannot look: all cleaning is left to Hive's own cleaner."""

    def __init__(self, hms: Hms, reason: str) -> None:
        """`reason`: why requests wait."""
        super().__init__(hms)
        self._reason = reason

    def not_ended_reason(self, request: CompactionRequest) -> str | None:
        """Return the same for each."""
        del request
        return self._reason


class RegisteredReaders(Readers):
    """Transactions that have registered what they read in the metastore's database: others count only if they did not.

    The metastore does so with `metastore.txn.use.minhistorywriteid`; see `acidlib.planning.clean`.
    """

    renamed_is_another = True

    def __init__(self, hms: Hms, database: MetastoreDatabase, unique: Callable[[], str]) -> None:
        """`unique` gives a new text at each call."""
        super().__init__(hms)
        self._database = database
        self._unique = unique

    def look(self) -> None:
        """Raise RefusedError where the database is another one than this metastore's, or a copy that is behind."""
        self._opened  # noqa: B018 - asks

    def not_ended_reason(self, request: CompactionRequest) -> str | None:
        """Return the lowest transaction that may read the table with a snapshot from before the commit."""
        assert request.next_txn_id is not None
        assert request.commit_ms is not None
        table = _table_of(request)
        return still_reading(
            table,
            readers_of(table, self._opened),
            mark=request.highest_write_id or 0,
            next_txn_id=request.next_txn_id,
            commit_ms=request.commit_ms,
        )

    def snapshot(self, request: CompactionRequest) -> ValidTxnList:
        """Go below the lowest transaction that may read the table; open ones that do not read it count as open."""
        readers = readers_of(_table_of(request), self._opened)
        return self._below(readers[0].txn_id if readers else self.txns.high_water_mark + 1)

    @cached_property
    def _opened(self) -> tuple[OpenReader, ...]:
        """First the transactions, then what they registered: one that has ended in between counts as unregistered.

        Registrations are read while this run itself has registered for a table that does not exist, over thrift: a
        database that shows that shows the others, too.
        """
        opened = self._hms.open_txns().opened
        ids = [txn for low, high in opened for txn in range(low, high + 1)]
        started = {txn.id: txn.started_ms for txn in self._hms.open_txns_info()}
        name = self._unique().lower()
        with own_transaction(self._hms, f"acidlib-{name}") as own:
            self._hms.add_write_ids_to_min_history(own, {f"{_CANARY}.{name}": 1})
            found = self._database.registrations()
        if found is None or found.get(own, {}).get(TableRef(_CANARY, name)) != 1:
            what = "has no table MIN_HISTORY_WRITE_ID" if found is None else "does not show what was just registered"
            why = f"{what} (unless the metastore has given up {MIN_HISTORY})"
            raise not_its_database(self._database, "what readers register", why)
        return tuple(
            OpenReader(txn_id=txn, started_ms=started.get(txn), tables=found.get(txn, {})) for txn in sorted(ids)
        )


def _table_of(request: CompactionRequest) -> TableRef:
    return request.ref.whole_table.as_stored


class Hive4Cleaning(Cleaning):
    """The requests of a Hive 4 metastore that are ready for cleaning, and what is due after rolled back transactions.

    A request may be cleaned when no transaction is open that existed when its compaction committed: then every snapshot
    in use was taken after that commit, and knows the result. Source: Hive 4 `CompactionTxnHandler.findReadyToClean` and
    `CompactionCleaner`, except that the comparison is strict. Where readers register what they read, transactions that
    read other tables do not count.

    The commit of a rebalance notes no transaction with its request, and Hive's cleaner takes that for "none". Here the
    first run that sees it committed notes the highest transaction there is by then, which is none too low.

    A cleaning that failed leaves its row as it is, for thrift has no way to note it; and places of which no request is
    at hand are not known without a look at all tables.
    """

    def __init__(self, backend: Hive4Backend, options: CleanerOptions) -> None:
        super().__init__(backend.services, options)
        self._hms = hms = backend.hms
        self.notes = about_named(backend.catalog, options, hms.show_compactions)
        self._readers = self._readers_of(backend.database)
        if not (isinstance(self._readers, UnseenReaders) or options.force) and self._cleaner_on() != "false":
            raise RefusedError(
                f"Cannot clean beside Hive's own cleaner: because the metastore's {CLEANER_ON} is not false; Hive "
                "cleans what was compacted, or --force cleans too"
            )
        self._retention = retention_of(self.services.settings, options)
        self._places = CleaningPlaces(backend.catalog, self._readers.snapshot, self.find)
        self._not_ready: dict[int, str] = {}
        """The transactions of requests that wait, and what for: what they cover may be read, also after a rename."""
        if backend.database is not None:
            self.further = RolledBack(self.services, hms, backend.catalog, backend.database, options)

    def _readers_of(self, database: MetastoreDatabase | None) -> Readers:
        """Go by the metastore's setting; where it is unknown, readers may register."""
        if self._hms.config_value(MIN_HISTORY, "unknown").strip().lower() == "false":
            return Readers(self._hms)
        if database is not None and database.registrations() is not None:
            return RegisteredReaders(self._hms, database, self.services.unique)
        named = "--queue-url does not name it"
        if database is not None:
            named = f"{database.shown} is none of a metastore of Hive 4"
        is_off = ", which is off" if self._cleaner_on() == "false" else ""
        where = f"readers register in the metastore's database ({MIN_HISTORY}), and {named}"
        return UnseenReaders(self._hms, f"left to Hive's own cleaner{is_off}: {where}")

    def _cleaner_on(self) -> str:
        return self._hms.config_value(CLEANER_ON, "unknown").strip().lower()

    def recover(self) -> list[str]:
        """End requests of dead runs of this engine, and results that can never be committed."""
        return recover(self.services, self._hms, is_wanted=lambda row: self.options.wants(row.ref))

    def ready(self) -> list[CompactionRequest]:
        """Return the requests that the metastore shows, an earlier mark of a place before a later one.

        A later one does not wait for an earlier one: its own watermark is the higher one, and what it covers may be
        just what the earlier one cannot get rid of. What Hive's cleaner queued after rolled back transactions is left
        out where this run sees to that itself.
        """
        txns = self._readers.txns  # before the requests: what has committed by it is among them
        ends_retries = self.further is not None and self.further.is_seen
        rows = [
            self._with_bound(_with_mark(row), txns)
            for row in self._hms.show_compactions()
            if row.state is State.READY_FOR_CLEANING
            and self.options.wants(row.ref)
            and not (row.type is CompactionType.ABORT_TXN_CLEANUP and ends_retries)
        ]
        if rows:
            self._readers.look()
        expected = []
        for row in rows:
            reason = self.not_ready_reason(row)
            if reason is not None and row.txn_id is not None:
                self._not_ready[row.txn_id] = reason
            if reason is None or self.options.dry_run:
                expected.append(row)
        self._places.expect(expected)
        return sorted(rows, key=lambda row: (row.highest_write_id or 0, row.id))

    def _with_bound(self, row: ShownRequest, txns: ValidTxnList) -> ShownRequest:
        """Give a rebalance that has committed the highest transaction and the time that are noted of it, or are now.

        They are later than its commit, which they stand for.
        """
        if row.type is not CompactionType.REBALANCE or row.next_txn_id is not None or row.txn_id is None:
            return row
        bound = row.noted_commit
        if bound is None and txns.is_txn_valid(row.txn_id):
            bound = CommitNote(next_txn_id=txns.high_water_mark, commit_ms=self.services.now_ms())
            if not self.options.dry_run:
                self._hms.set_job_id(row, bound.text)
        if bound is None:
            return row
        return replace(row, next_txn_id=bound.next_txn_id, commit_ms=bound.commit_ms)

    def not_ready_reason(self, request: CompactionRequest) -> str | None:
        """Return why the watermark has not passed the request, or why its row is not ours to clean."""
        if request.type is CompactionType.ABORT_TXN_CLEANUP:
            return f"left to Hive's own cleaner: it is a {request.type.label}"
        if request.start_ms is None:
            return "left to Hive's own cleaner: it is for a table or partition that was dropped, not for a compaction"
        if request.next_txn_id is None or request.commit_ms is None:
            return f"its transaction {request.txn_id or 'unknown'} has not committed"
        reading = self._readers.not_ended_reason(request)
        if reading is not None:
            return reading
        due = request.commit_ms / 1000 + self._retention
        return retention_words(self._retention, due) if due > self.services.clock() else None

    def find(self, request_id: int) -> CompactionRequest | None:
        """Return the request of an id, where it is still ready for cleaning."""
        row = self._hms.find_compaction(request_id)
        if row is None or row.state is not State.READY_FOR_CLEANING:
            return None
        return self._with_bound(_with_mark(row), self._readers.txns)

    def place(self, request: CompactionRequest, *, anew: bool = False) -> tuple[CompactionRequest, Target | None]:
        """Return the place as of a snapshot that all have at least who may read it."""
        found, target = self._places.of(request, anew=anew)
        self.require_name(found, request)
        return found, target

    def require_name(self, found: CompactionRequest, request: CompactionRequest) -> None:
        """Raise ConflictError unless a table still has the name by which readers were looked for."""
        if self._readers.renamed_is_another and found.ref != request.ref:
            raise ConflictError(
                f"Cannot clean {found.ref}: because its table was renamed since readers were looked for; the next run "
                "goes on"
            )

    def require_unmoved(self, request: CompactionRequest, target: Target) -> None:
        """Ask the metastore."""
        self._places.require_unmoved(request, target)

    def hold(self, request: CompactionRequest, target: Target) -> Hold:
        """Return a claim of the place."""
        return Hive4CleaningHold(self, request, target)

    def plan(self, looked: ListedRequest, known: Sequence[CompactionRequest]) -> CleanPlan:
        """Return what is obsolete and aborted as every transaction sees it that is open now; there is nothing to note.

        Every directory counts as published at the commit: the watermark is the proof, which `not_ready_reason` has
        judged, not the age.
        """
        del known
        request, target, listing = looked.request, looked.target, looked.listing
        commit = (request.commit_ms or 0) / 1000
        waiting, tops = self._not_ready, listing.top_directories()
        names = {name: parse_directory(name, Generation.HIVE4) for name in tops if waiting}
        return cleanable(
            listing,
            looked.mark,
            target.write_ids(listing),
            generation=Generation.HIVE4,
            now=self.services.clock(),
            retention_seconds=self._retention,
            newest_publication=commit,
            published_at=dict.fromkeys(tops, commit),
            txns=target.interpretation.txns,
            still_read={
                name: waiting[parsed.visibility_txn]
                for name, parsed in names.items()
                if parsed is not None and parsed.visibility_txn in waiting
            },
        )

    def cleaned(self, done: Sequence[ListedRequest]) -> list[str | AcidError | None]:
        """End the requests, one after the other."""
        return each_alone(self._end_cleaned, done)

    def _end_cleaned(self, done: ListedRequest) -> str | None:
        """End a request; up to the mark the metastore forgets what no directory holds rows of.

        Where a delta that is needed holds rows of aborted write ids, it forgets only what is below the lowest of them:
        Hive's own cleaner has those forgotten that it removed (HIVE-24481), which thrift cannot say.

        The list may end below the recorded mark, when the metastore has forgotten all that committed: what lies above
        its end was not looked at, and must not be forgotten.
        """
        write_ids = done.target.write_ids(done.listing)
        mark = min(done.mark, write_ids.high_water_mark)
        present = aborted_present(done.listing, write_ids, generation=Generation.HIVE4, up_to=mark)
        forgotten = min([mark, *(write_id - 1 for write_id in present)])
        self._hms.mark_cleaned(replace(done.request, highest_write_id=forgotten or NOTHING_FORGOTTEN))
        if present and self.further is not None:
            self.further.forget_what_is_gone(done.target, done.listing, mark)
        return None

    def end_dropped(self, request: CompactionRequest) -> None:
        """End the request as refused."""
        self._hms.mark_refused(replace(request, error_message=DROPPED))


class Hive4CleaningHold(Hold):
    """A place that is claimed by the cleaner."""

    def __init__(self, cleaning: Hive4Cleaning, request: CompactionRequest, target: Target) -> None:
        super().__init__(cleaning.services, request, target)
        self._cleaning = cleaning

    def assert_mine(self) -> None:
        """Ask for the claim, whether the request is still there, and for the name by which readers were looked for."""
        super().assert_mine()
        found = self._cleaning.find(self.request.id)
        if found is None:
            raise ConflictError(
                f"Cannot clean {self.target.ref}: because request {self.request.id} was cleaned by another"
            )
        self._cleaning.require_name(found, self.request)


def _with_mark(row: ShownRequest) -> ShownRequest:
    """Give a request its mark 0, of a compaction of nothing but original files: thrift has no null, and reads so."""
    known = row.highest_write_id is not None or row.txn_id is None
    return row if known else replace(row, highest_write_id=0)
