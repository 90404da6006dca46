"""Recovery of requests at a Hive 4 metastore whose run or worker has died: they are ended, and queued again.

No call gives a request that was handed out back to the queue: the old one ends as refused, which counts for no
back-off, and a new one takes its place. Hive's initiator, where it is on, revokes the requests of workers that timed
out (Hive `CompactionTxnHandler.revokeTimedoutWorkers`), and does not end their transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from acidlib.acid.write_ids import ValidTxnList
from acidlib.errors import AcidError, ConflictError
from acidlib.execute.in_threads import in_threads
from acidlib.execute.services import WORKER_PREFIX, Services, step_seconds
from acidlib.metastore.hms import Hms
from acidlib.metastore.holding import agent_text
from acidlib.metastore.transactions import TxnType
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts, State
from acidlib.model.tables import TableRef
from acidlib.places.place import Place
from acidlib.processes import has_ended, signer_has_ended
from acidlib.stores.store import STALE_SECONDS

RUN_IS_DEAD = "its run is dead"
BY_INITIATOR = f"-{WORKER_PREFIX}"
"""The part of an initiator's name that distinguishes this engine's from Hive's, and from people."""


def recover(
    services: Services,
    hms: Hms,
    rows: Iterable[CompactionRequest],
    txns: ValidTxnList,
    *,
    current_place: Callable[[TableRef], Place],
) -> list[str]:
    """End the requests among these that nothing else will end, and queue them again; warn of each, and return that.

    rows         as the metastore has them now
    txns         as they were before the rows were read
    current_place  returns the place of a request, by its names
    """
    notes = []

    def end(row: CompactionRequest) -> str | None:
        request = _Request(services, hms, row)
        problem = request.problem(txns, current_place)
        how = None if problem is None else request.end(problem)
        return None if how is None else f"{how}: {problem}"

    for row in rows:
        if row.state not in (State.INITIATED, State.WORKING, State.READY_FOR_CLEANING):
            continue
        (answer,) = in_threads(end, [row], seconds=step_seconds(services.settings))  # its file system may hang
        if isinstance(answer, AcidError):
            answer = f"could not be ended: {answer}"
        if answer is not None:
            notes.append(f"request {row.id} for {row.ref} {answer}")
    services.warn(notes)
    return notes


def is_private(request: CompactionRequest) -> bool:
    """Return whether a run has queued a request for itself: then it ends with the run."""
    return (request.pool or "").startswith(WORKER_PREFIX)


def pool_of(row: CompactionRequest) -> str | None:
    """Return the pool of a request; None for the default one, which is shown by a name and stored without one."""
    return None if row.pool in ("", "default") else row.pool


def queue_again(hms: Hms, request: CompactionRequest) -> str:
    """Queue a request again that has ended, and return what came of it."""
    try:
        new = replace(request, id=0, state=State.INITIATED, highest_write_id=None, pool=pool_of(request))
        again = hms.compact(new)
    except AcidError as error:
        return f"could not be queued again: {error}"
    return f"queued again as request {again.id}" if again.accepted else f"not queued again: {again.reason}"


def give_back(hms: Hms, request: CompactionRequest) -> str:
    """Give back a request that was handed out and is not wanted, and return what became of it."""
    it, why = f"request {request.id} for {request.ref}", "it was handed out to a run that did not ask for it"
    try:
        row = hms.find_compaction(request.id)
        if row is not None:  # what is handed out does not name them
            request = replace(request, initiator_id=row.initiator_id, run_as=request.run_as or row.run_as)
        hms.mark_refused(replace(request, error_message=f"{why} (given back)"))
    except AcidError as error:
        return f"{it} could not be given back: {error}"
    return f"{it}, which was handed out in its place, is {queue_again(hms, request)}"


class _Request:
    """A request of the queue, with what shows whether it is still worked on."""

    def __init__(self, services: Services, hms: Hms, row: CompactionRequest) -> None:
        self._services = services
        self._hms = hms
        self._row = row

    def problem(self, txns: ValidTxnList, current_place: Callable[[TableRef], Place]) -> str | None:
        """Return why nothing else will end it; None while its run is alive, or not known to be dead.

        ready for cleaning  its transaction was aborted after it was marked as compacted, or its process ended before it
                            committed
        waiting             in a private pool whose process has ended, or for longer than a worker waits for it there
        working             its process has ended; or it was taken long ago, and has no open transaction (which a worker
                            opens soon after it took a request) or a stale claim, without which it publishes nothing; or
                            whichever worker it has, Hive's too, has held it for longer than the worker's timeout

        Times are the server's, and now is this machine's: with a clock that is ahead a request may be ended whose
        worker is about to record its transaction, which the worker then notices.
        """
        row, settings = self._row, self._services.settings
        if row.state is State.READY_FOR_CLEANING:
            return self._problem_when_ready(txns)
        has_process = row.state is State.WORKING and signer_has_ended(row.worker_id or "")
        if has_process or (is_private(row) and has_ended(_process_of_pool(row.pool or ""))):
            return RUN_IS_DEAD
        since = row.start_ms if row.state is State.WORKING else row.enqueue_ms
        if since is None:
            return None
        seconds = self._services.clock() - since / 1000
        if row.state is State.INITIATED:
            return RUN_IS_DEAD if is_private(row) and seconds > STALE_SECONDS else None
        limit = settings.integer("hive.compactor.worker.timeout") / 1000
        if seconds > limit:
            return f"{row.worker_id} has held it for longer than hive.compactor.worker.timeout ({limit:g} s)"
        if seconds <= STALE_SECONDS or not (row.worker_id or "").startswith(WORKER_PREFIX):
            return None
        is_open = any(not txns.is_txn_aborted(txn) and not txns.is_txn_valid(txn) for txn in self._transactions())
        return None if is_open and not self._has_stale_claim(current_place) else RUN_IS_DEAD

    def _problem_when_ready(self, txns: ValidTxnList) -> str | None:
        txn = self._row.txn_id
        if txn is None or self._row.next_txn_id is not None or txns.is_txn_valid(txn):
            return None
        if txns.is_txn_aborted(txn):
            return f"its transaction {txn} was aborted after it was marked as compacted"
        # a request that is marked names no worker any more, but the lock of its transaction does
        agents = [lock.agent for lock in self._hms.show_locks(*self._row.ref.as_stored) if lock.txn_id == txn]
        return RUN_IS_DEAD if any(map(signer_has_ended, agents)) else None

    def _transactions(self) -> set[int]:
        """Return its transaction, and those of its worker's locks at the place, which come before it is noted."""
        row, noted = self._row, self._row.txn_id
        txns = set() if noted is None else {noted}
        if (row.worker_id or "").startswith(WORKER_PREFIX):
            agent = agent_text(row.worker_id or "")
            locks = self._hms.show_locks(*row.ref.as_stored)
            txns |= {lock.txn_id for lock in locks if lock.txn_id is not None and lock.agent == agent}
        return txns

    def _has_stale_claim(self, current_place: Callable[[TableRef], Place]) -> bool:
        """Return whether its claim on the place is stale.

        One that seems so by the clock here is taken, which is possible only if it is so by the clock of the store.
        """
        try:
            location = current_place(self._row.ref).location
            holder = self._services.store(location).holder(location, now=self._services.clock())
            if holder is None or holder.owner != self._row.worker_id or not holder.is_stale:
                return False
            with self._services.claim_and_revoke(location):
                return True
        except AcidError:
            return False  # a place that is out of reach from here proves nothing

    def end(self, problem: str) -> str | None:
        """End it, and queue it again unless its run had queued it for itself; return what came of it.

        None where it has gone on meanwhile. Its transaction ends first: it keeps files from every cleaner, and nothing
        may become visible by it any more.
        """
        row, hms = self._row, self._hms
        if row.state is State.INITIATED:
            hms.abort_compactions([row.id])
            return "was ended"
        kind = TxnType.REBALANCE_COMPACTION if row.type is CompactionType.REBALANCE else TxnType.COMPACTION
        for txn in self._transactions():
            with suppress(ConflictError):  # it has ended
                hms.abort_txn(txn, kind)
        now = hms.find_compaction(row.id)
        if now is None or (now.state, now.worker_id, now.txn_id) != (row.state, row.worker_id, row.txn_id):
            return None
        if row.state is State.READY_FOR_CLEANING and hms.open_txns().is_txn_valid(row.txn_id or 0):
            return None  # its commit was under way when its process ended
        if is_private(row):
            hms.mark_refused(replace(now, error_message=problem))
            return "was ended"
        hms.mark_refused(replace(now, error_message=f"{problem} (given back)"))
        if row.type is CompactionType.REBALANCE:
            if now.noted_buckets is None:
                return "was ended, and has to be requested again, as no call tells its number of buckets and its order"
            now = replace(now, bucket_count=now.noted_buckets or None)
        if BY_INITIATOR in (row.initiator_id or ""):
            now = replace(now, facts=RequestFacts(reason=f"queued again for request {row.id}: {problem}"))
        return f"was ended, and {queue_again(hms, now)}"


def _process_of_pool(pool: str) -> str:
    """Return the identity of the process in the name of a private pool."""
    return pool.removeprefix(WORKER_PREFIX).rpartition("-")[0]
