"""A metastore of Hive 4: tables and requests, one request under its transaction, and what dead runs left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace

from acidlib import __version__
from acidlib.errors import AcidError, ConflictError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.metastore.compactions import Accepted, ShownRequest
from acidlib.metastore.heartbeat import Heartbeater
from acidlib.metastore.hms import Hms
from acidlib.metastore.holding import CompactionTransaction, begin_compaction
from acidlib.metastore.transactions import TxnType
from acidlib.model.listing import Listing
from acidlib.model.names import Generation
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.snapshots import ValidTxnList
from acidlib.model.tables import TableRef
from acidlib.planning.inputs import Publication, lacks_number, refused_message
from acidlib.planning.results import holding
from acidlib.points import Point, passing
from acidlib.processes import has_ended, process_identity
from acidlib.queue.metastore_database import MetastoreDatabase
from acidlib.queue.rules import failed_attempts_reason
from acidlib.report.results import Outcome, Statistics
from acidlib.service.attempts import Attempts, awaited_marks, with_note
from acidlib.service.backend import Decided, Hold, Selected, Taken, Waiting, nowhere
from acidlib.service.leftovers import finish_publications
from acidlib.service.places import ListedPlace, Selection, Target
from acidlib.service.plan import require_rebalanceable
from acidlib.service.services import WORKER_PREFIX, Services
from acidlib.service.statistics import StatisticsUpdater
from acidlib.service.surroundings.catalog import Catalog, run_as_user
from acidlib.service.surroundings.sql import in_the_way, not_accepted, taken_by_another
from acidlib.stores.listing import list_location
from acidlib.stores.store import STALE_SECONDS, Claim

# --- metastore --------------------------------------------------------------------------------------------------------
# One run's metastore of Hive 4, and the pools of its queue.

POOL = "hive.compactor.worker.pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hive4Metastore:
    """One run's metastore, with its heartbeats.

    pool         the pool whose requests are taken; None = the default one
    into_pool    the pool that new requests are put into, whatever the tables say; None = as they say
    min_history  whether the server counts readers by write id, so that we have to register
    database     that was named for the queue, and may be this metastore's; None where none was
    """

    hms: Hms
    beats: Heartbeater
    pool: str | None = None
    into_pool: str | None = None
    min_history: bool = False
    database: MetastoreDatabase | None = None


def private_pool(unique: str) -> str:
    """A pool that only this run takes from; it tells which process that is."""
    return f"{WORKER_PREFIX}{process_identity()}-{unique}"


def process_of_pool(pool: str | None) -> str:
    """The process that a private pool belongs to; empty for any other pool."""
    own = (pool or "").partition(WORKER_PREFIX)
    return own[2].rpartition("-")[0] if not own[0] else ""


def pool_of(row: CompactionRequest) -> str | None:
    """The pool of a shown request: Hive shows `default` for none."""
    return None if row.pool in (None, "", "default") else row.pool


# --- recovery ---------------------------------------------------------------------------------------------------------
# What dead runs of this engine left in a Hive 4 metastore's queue, and results that can never be committed.


def recover(
    services: Services,
    hms: Hms,
    shown: Callable[[Sequence[ShownRequest]], None] = lambda _: None,
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
        problem = _dead(services, row, snapshot) if is_wanted(row) else None
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


def _dead(services: Services, row: ShownRequest, txns: ValidTxnList) -> str | None:
    """Why a row can never be finished by whoever began it; None for rows that are alive or not known to be dead."""
    if row.state is State.READY_FOR_CLEANING:
        lost = row.txn_id is not None and row.next_txn_id is None and txns.is_txn_aborted(row.txn_id)
        return f"its transaction {row.txn_id} was aborted after it was marked as compacted" if lost else None
    if row.state in (State.INITIATED, State.WORKING) and has_ended(process_of_pool(row.pool)):
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


# --- hold -------------------------------------------------------------------------------------------------------------
# One request that the metastore handed out, from the transaction it is done under to its commit.
#
# Source: Hive 4 `Worker.findNextCompactionAndExecute`. The result becomes visible, and the request ready for cleaning,
# by the commit of a transaction of our own, which is open and heartbeating from before the inputs are listed until
# then.


class Unverified:
    """The requests for which places are held, by what is compacted, as they are shown when a run begins."""

    def __init__(self, hms: Hms) -> None:
        self._hms = hms
        self._found: dict[TableRef, CompactionRequest] | None = None
        self._mutex = threading.Lock()

    def at(self, entity: TableRef) -> CompactionRequest | None:
        """The one of a table or partition; None where there is none."""
        with self._mutex:
            if self._found is None:
                self._found = _held(self._hms.show_compactions())
            return self._found.get(entity)

    def note(self, shown: Sequence[CompactionRequest]) -> None:
        """All requests, as the metastore shows them now: they need not be asked for."""
        with self._mutex:
            self._found = _held(shown)


def _held(shown: Sequence[CompactionRequest]) -> dict[TableRef, CompactionRequest]:
    rows: dict[TableRef, list[CompactionRequest]] = {}
    for row in shown:
        rows.setdefault(row.ref, []).append(row)
    held = ((entity, holding(some)) for entity, some in rows.items())
    return {entity: request for entity, request in held if request is not None}


class _QueueRow:
    """The row of our request in the metastore's queue: what this run has done to it, by which it ends.

    request          as the metastore knows it, or is about to
    marked           as compacted, or perhaps: the answer may have been lost
    outcome_unknown  of the commit
    """

    def __init__(self, hms: Hms, worker_id: str, request: CompactionRequest) -> None:
        self._hms = hms
        self._worker_id = worker_id
        self.request = request
        self.marked = False
        self.outcome_unknown = False

    def shown(self) -> ShownRequest | None:
        """The row as it is now; None where there is none any more."""
        return self._hms.find_compaction(self.request.id)

    def is_ours(self, row: ShownRequest | None) -> bool:
        """Whether a row, as it was shown, is being worked on by this run."""
        return row is not None and row.state is State.WORKING and row.worker_id == self._worker_id

    def assert_ours(self) -> None:
        """mark_compacted would succeed on somebody else's claim: the server tests the id alone."""
        row = self.shown()
        if not self.is_ours(row):
            held = "it is not in the queue" if row is None else f"it is {row.state.label}, of worker {row.worker_id}"
            raise ConflictError(
                f"Cannot go on with {self.request.ref}: request {self.request.id} is not ours any more: {held}; "
                "see acidlib show"
            )

    def update(self, high_water_mark: int, txn_id: int) -> None:
        """Tell the metastore mark and transaction: from now on it remembers aborted results of this transaction, and
        other runs see that this one is alive.
        """
        self.request = replace(self.request, highest_write_id=high_water_mark)
        self.assert_ours()
        self._hms.update_compactor_state(self.request, txn_id)


class Hive4Hold:
    """One request of the metastore's queue, the transaction and lock it is done under, and a claim on the place."""

    def __init__(
        self,
        services: Services,
        metastore: Hive4Metastore,
        catalog: Catalog,
        taken: Taken,
        unverified: Unverified | None = None,
    ) -> None:
        """`unverified` is the run's, so that the history is read once for all places."""
        self._services = services
        self._metastore = metastore
        self._hms = metastore.hms
        self._catalog = catalog
        self._unverified = unverified or Unverified(metastore.hms)
        self._started = services.clock()
        self._row = _QueueRow(metastore.hms, services.worker_id, taken.request)
        self._txn: CompactionTransaction | None = None
        self._claim: Claim | None = None

    def begin(self) -> Hive4HeldPlace:
        """Open the transaction, lock, claim, and take the snapshot by which everything is understood from here on."""
        request = self._row.request
        rebalances = request.type is CompactionType.REBALANCE
        if request.type is CompactionType.ABORT_TXN_CLEANUP or (rebalances and request.order_by):
            what = f"a {request.type.label}" if not rebalances else "a REBALANCE with ORDER BY, which compares values,"
            raise RefusedError(
                f"Cannot compact {request.ref}: because {what} is not done by this engine, only by Hive's own "
                "worker; give this engine a pool of its own"
            )
        txn = self._txn = begin_compaction(
            self._hms,
            self._metastore.beats,
            ref=request.ref,
            agent=self._services.worker_id,
            rebalances=rebalances,
        )
        if rebalances:
            self._have_number(txn.txn_id)
        # our own transaction is among the open ones, as it has to be: see HIVE-29567
        txns = self._hms.open_txns(exclude_readers=True).without(txn.txn_id)
        place, write_ids = self._catalog.place_and_write_ids(request, txns)
        claim = self._claim = self._services.claim(place.location)
        if self._metastore.min_history:
            lowest = min(write_ids.min_open, write_ids.high_water_mark + 1)
            self._hms.add_write_ids_to_min_history(txn.txn_id, {str(place.ref.whole_table): lowest})
        run_as = request.run_as or run_as_user(self._services, place)
        self._row.request = replace(request, run_as=run_as)
        understood = replace(place.interpretation, visibility_txn=txn.txn_id, visible_on_commit=True, txns=txns)
        self._row.update(write_ids.for_compactor().high_water_mark, txn.txn_id)
        target = replace(place, interpretation=understood)
        return Hive4HeldPlace(
            self._services,
            self._metastore,
            self._row,
            target,
            txn=txn,
            claim=claim,
            started=self._started,
            unverified=self._unverified,
        )

    def _have_number(self, txn_id: int) -> None:
        """Where a rebalance lacks one, have a write id that nothing is written under: an empty transaction of its own.

        Whoever may take the request is kept out by the lock; if a lower write id is open the plan is refused later.
        """
        txns = self._hms.open_txns(exclude_readers=True).without(txn_id)
        place, _ = self._catalog.place_and_write_ids(self._row.request, txns)
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

    def assert_held(self) -> None:
        """The claim is ours, as far as there is one."""
        if self._claim is not None:
            self._claim.assert_mine()

    def end(self, outcome: Outcome, reason: str, *, named: bool, note: str | None) -> str | None:
        """Tell the metastore what it does not know from the commit.

        It has no state for what is compact already: Hive's own worker refuses that, and its words tell it.
        """
        is_compact = outcome is Outcome.ALREADY_COMPACT
        noted = refused_message(reason) if is_compact else with_note(reason, note)
        if outcome is Outcome.READY_FOR_CLEANING or self._row.outcome_unknown:
            return None
        if outcome in (Outcome.REFUSED, Outcome.ALREADY_COMPACT) and not self._row.marked:
            self._commit_nothing()
        else:
            self._abort()
        row = self._row.shown()
        ours = self._row.is_ours(row)
        txn_id = None if self._txn is None else self._txn.txn_id
        undone = row is not None and row.state in (State.WORKING, State.READY_FOR_CLEANING) and row.txn_id == txn_id
        if self._row.marked and undone:
            # a row that is ready for cleaning and whose transaction was aborted blocks its place for ever (HIVE-29572)
            self._hms.mark_failed(replace(self._row.request, error_message=noted))
        elif not ours:
            return "the request is not ours any more and was left alone"
        elif outcome is Outcome.FAILED:
            self._hms.mark_failed(replace(self._row.request, error_message=noted))
        elif outcome in (Outcome.CONFLICT, Outcome.SKIPPED) and not (
            named or (self._row.request.pool or "").startswith(WORKER_PREFIX)
        ):
            return self._give_back(reason)
        else:
            self._hms.mark_refused(replace(self._row.request, error_message=noted))
        return None

    def abandon(self, *, may_be_visible: bool = False) -> None:
        """Queue it again, as a new request: nothing in the protocol undoes a claim."""
        del may_be_visible  # a transaction decides it
        if not self._row.marked:
            self.end(Outcome.CONFLICT, "the run was interrupted", named=False, note=None)

    def close(self) -> None:
        """Release the claim, and abort what was not committed."""
        try:
            if self._txn is not None and not self._row.outcome_unknown:
                self._txn.abort()
        finally:
            if self._claim is not None:
                self._claim.release()

    def _commit_nothing(self) -> None:
        """As Hive's worker: an aborted transaction would be remembered for this place until a cleaner came."""
        if self._txn is None:
            return
        try:
            self._txn.commit()
        except AcidError:
            self._abort()

    def _abort(self) -> None:
        if self._txn is not None:
            self._txn.abort()

    def _give_back(self, reason: str) -> str:
        self._hms.mark_refused(replace(self._row.request, error_message=f"{reason} (given back)"))
        try:
            again = self._hms.compact(replace(self._row.request, id=0, state=State.INITIATED, highest_write_id=None))
        except AcidError as error:
            return f"it could not be queued again: {error}"
        return f"queued again as request {again.id}" if again.accepted else f"not queued again: {again.reason}"


class Hive4HeldPlace:
    """A place that is locked by an open transaction of ours, and claimed."""

    def __init__(
        self,
        services: Services,
        metastore: Hive4Metastore,
        row: _QueueRow,
        target: Target,
        *,
        txn: CompactionTransaction,
        claim: Claim,
        started: float,
        unverified: Unverified,
    ) -> None:
        self._services = services
        self._metastore = metastore
        self._hms = metastore.hms
        self._row = row
        self._txn = txn
        self._claim = claim
        self._started = started
        self._unverified = unverified
        self._since = services.clock()
        self.target = target

    @property
    def request_id(self) -> int:
        """Of the request that was handed out to us."""
        return self._row.request.id

    def unverified(self, listing: Listing) -> CompactionRequest | None:
        """By the metastore's history, as this run has read it: what was found wrong was taken back, and nothing of it
        can be built on or cleaned; but it would be made again.
        """
        del listing
        return self._unverified.at(self._row.request.ref)

    def will_verify(self, directories: tuple[str, ...]) -> None:
        """Nothing to note: before the commit nobody sees it, and whoever dies before has made nothing."""
        del directories

    def start(self, high_water_mark: int, inputs: str | None = None) -> None:
        """The metastore knows the mark from the beginning on, as from Hive's worker; what is read it does not keep."""
        del inputs
        if high_water_mark != self._row.request.highest_write_id:
            self._row.update(high_water_mark, self._txn.txn_id)

    def awaited_marks(self) -> tuple[int, ...]:
        """By the metastore's queue."""
        entity = self._row.request.ref
        return awaited_marks(row for row in self._hms.show_compactions() if row.ref == entity)

    def only_clean(self, high_water_mark: int) -> None:
        """As Hive's worker: compacted without a result, so that the cleaner comes."""
        self.start(high_water_mark)
        self.published(())

    def publishing(self, publication: Publication) -> AbstractContextManager[None]:
        """Nothing is visible before the commit: no lock is needed but the transaction's own."""
        del publication
        return nullcontext()

    def assert_mine(self, high_water_mark: int) -> None:
        """Transaction and claim are ours, and the server does not take us for dead before we have ended.

        Whose the request is, `published` asks: what is renamed before is seen by nobody without a commit.
        """
        del high_water_mark
        self._txn.assert_alive()
        self._claim.assert_mine()
        limit = self._services.settings.integer("hive.compactor.worker.timeout") / 1000
        if self._services.clock() - self._started > 0.9 * limit:
            raise RetryError(
                f"Cannot publish {self._row.request.ref}: because it took more than 90 % of "
                f"hive.compactor.worker.timeout ({limit:g} s), after which the request is given to another worker"
            )

    def transactions_now(self) -> ValidTxnList:
        """As the metastore has them."""
        return self._hms.open_txns()

    def published(self, directories: tuple[str, ...]) -> None:
        """Ready for cleaning, then the commit that shows the results."""
        del directories
        self._row.assert_ours()
        try:
            self._hms.mark_compacted(self._row.request)
        except AcidError as error:
            self._row.marked = True  # perhaps: the answer may have been lost
            self._txn.abort()
            raise RetryError(
                f"Cannot note that {self._row.request.ref} is compacted: because {error}; transaction "
                f"{self._txn.txn_id} is aborted and nothing became visible"
            ) from error
        self._row.marked = True
        passing(Point.MARKED)
        try:
            self._txn.commit()
        except UnknownOutcomeError as error:
            self._settle(error)
        passing(Point.COMMITTED)

    def update_statistics(self, directories: tuple[str, ...], rows: int | None) -> Statistics | None:
        """By a call where one is safe, or in the metastore's database where that is named."""
        updater = StatisticsUpdater(self._services, self._hms, self._metastore.database)
        return updater.update(self.target, known_since=self._since, results=directories, rows=rows)

    def _settle(self, error: UnknownOutcomeError) -> None:
        """Whether it has committed after all; the metastore refuses to abort what has.

        ConflictError when it has not and never will; the same error again when even that cannot be found out.
        """
        self._row.outcome_unknown = True
        try:
            self._txn.abort()
            row = self._row.shown()
            txns = self._hms.open_txns()
            aborted = txns.is_txn_aborted(self._txn.txn_id)
        except AcidError:
            raise error from None
        if row is not None and (row.next_txn_id is not None or row.state is State.SUCCEEDED):
            return  # only the commit sets it
        if self._row.request.type is CompactionType.REBALANCE and txns.is_txn_valid(self._txn.txn_id):
            return  # it sets nothing; one that was aborted is remembered while its request is there
        if not aborted:
            raise error
        self._row.outcome_unknown = False
        raise ConflictError(
            f"Cannot commit transaction {self._txn.txn_id} for {self._row.request.ref}: because {error}"
        )


# --- backend ----------------------------------------------------------------------------------------------------------
# Tables and requests of a Hive 4 metastore. Requests are handed out by the metastore, in their order.
#
# Source: Hive 4 `CompactionTxnHandler`.


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
        self._history: dict[TableRef, list[CompactionRequest]] = {}

    def recover(self) -> list[str]:
        """End requests of dead runs of this engine, and results that can never be committed."""
        return recover(self._services, self._hms, self._unverified.note)

    def select(self, selection: Selection, *, automatic: bool) -> Selected:
        """Tables and partitions of the metastore, by one snapshot."""
        busy: set[TableRef] = set()
        if automatic:
            shown, others = self._hms.show_all_compactions()
            self._history = {}
            for row in shown:
                self._history.setdefault(row.ref, []).append(row)
            busy = {row.ref for row in shown if row.state in (State.INITIATED, State.WORKING)}
            busy |= {row.ref for row in others if row.state in ("initiated", "working")}
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
                    f"Cannot compact {target.ref}: nothing was written to it since it was compacted last ({reason}); "
                    "call again when that request is cleaned"
                )
            raise in_the_way(str(target.ref), reason)
        try:
            found = self._hms.find_next_compaction(self._services.worker_id, __version__, pool)
        except UnknownOutcomeError:
            found = self._in_pool(pool)
            if found is None or found.worker_id != self._services.worker_id:
                raise
        if found is None or found.id != answer.id:
            raise taken_by_another(str(target.ref), answer.id)
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
            self._history.get(target.ref, ()),
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
        return self._unverified.at(target.ref)

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
            ref=target.ref,
            type=kind,
            run_as=run_as_user(self._services, target),
            initiator_id=initiator,
            pool=pool,
        )
