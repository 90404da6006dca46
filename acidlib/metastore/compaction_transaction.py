"""The transaction of a compaction on Hive 4: what it writes becomes visible when it commits.

Source: Hive 4 `Worker` (`CompactionTxn`): opened before the inputs are looked at, a shared lock that is not waited for,
heartbeats that stop only after commit or abort has returned. A rebalance gives rows other ids: its lock keeps those out
that change rows, and counts as an update.
"""

from __future__ import annotations

import enum
import sys
from contextlib import suppress
from types import TracebackType

from acidlib.errors import AcidError, ConflictError, RetryError, UnknownOutcomeError
from acidlib.metastore.compactor_locks import agent_text, blocking_locks, refusal
from acidlib.metastore.heartbeat import Heartbeater, Lease, reason_of
from acidlib.metastore.hms import Hms
from acidlib.metastore.transactions import LockComponent, LockState, LockType, TxnType
from acidlib.model.names import LONG_MAX
from acidlib.model.tables import TableRef


class _State(enum.Enum):
    OPEN = enum.auto()
    ABORTING = enum.auto()
    ENDED = enum.auto()
    COMMITTED = enum.auto()


class CompactionTransaction:
    """An open transaction with its lock. As a context manager: leaving it without a commit aborts.

    `txn_id` is the T of the `_vT` names.
    """

    def __init__(self, hms: Hms, lease: Lease, *, txn_id: int, lock_id: int, name: str, kind: TxnType) -> None:
        """Made by `begin_compaction`."""
        self._kind = kind
        self.txn_id = txn_id
        self.lock_id = lock_id
        self._hms = hms
        self._lease = lease
        self._name = name
        self._state = _State.OPEN
        self._commit_attempted = False

    def assert_alive(self) -> None:
        """Raises what `Lease.assert_alive` does, and ConflictError after the end."""
        if self._state is not _State.OPEN:
            raise ConflictError(f"Cannot go on with {self._name}: because it has ended")
        self._lease.assert_alive()

    def commit(self) -> None:
        """Commit; may be called again.

        Raises ConflictError when the transaction was aborted. Raises UnknownOutcomeError when that cannot be found out:
        heartbeats go on, commit may be tried again, and the request's `next_txn_id`, which only the commit sets (but
        not that of a rebalance), shows whether it has committed.
        """
        if self._state is _State.COMMITTED:
            return
        if self._state is not _State.OPEN:
            raise ConflictError(f"Cannot commit {self._name}: because it has ended")
        if not self._commit_attempted:
            # later on "no such transaction" may mean that it has committed: Hive forgets those within seconds
            self._assert_not_lost()
        self._commit_attempted = True
        error = self._attempt_commit()
        if error is not None:
            # Hive 4 takes a second commit of a transaction without an error
            error = self._attempt_commit()
        if error is not None:
            raise UnknownOutcomeError(
                f"Cannot tell whether {self._name} was committed: because {reason_of(error)}"
            ) from error

    def abort(self) -> None:
        """Abort; nothing after the end, and it may be called again. After an uncertain commit it settles the matter.

        Raises RetryError when the metastore could not be asked (it aborts by itself after its timeout), but not while
        another error is being handled.
        """
        if self._state in (_State.COMMITTED, _State.ENDED):
            return
        self._state = _State.ABORTING
        earlier = sys.exception()
        try:
            self._hms.abort_txn(self.txn_id, self._kind)
        except ConflictError:  # aborted or committed: it has ended anyhow
            self._end(_State.ENDED)
        except AcidError as error:
            self._lease.stop()  # or it would stay open for as long as we live
            if earlier is None:
                raise RetryError(
                    f"Cannot abort {self._name}: because {reason_of(error)}; the metastore aborts it by itself after "
                    f"{self._lease.timeout_seconds:g} s"
                ) from error
        else:
            self._end(_State.ENDED)

    def close(self) -> None:
        """Abort what was not committed."""
        self.abort()

    def __enter__(self) -> CompactionTransaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def _attempt_commit(self) -> AcidError | None:
        """None when it is committed, the error when that is not known; raises ConflictError when it was aborted."""
        try:
            self._hms.commit_txn(self.txn_id, self._kind)
        except AcidError as error:
            if not self._is_aborted():
                return error
            self._end(_State.ENDED)
            raise ConflictError(f"Cannot commit {self._name}: because it was aborted: {reason_of(error)}") from error
        self._end(_State.COMMITTED)
        return None

    def _assert_not_lost(self) -> None:
        try:
            self._lease.assert_alive()
        except ConflictError:
            self._end(_State.ENDED)
            raise
        except RetryError:
            pass  # no heartbeat for long: the commit itself will show

    def _is_aborted(self) -> bool:
        """Whether the metastore lists it as aborted; False when it cannot be asked."""
        try:
            return self._hms.open_txns().txns.is_txn_aborted(self.txn_id)
        except AcidError:
            return False

    def _end(self, state: _State) -> None:
        self._state = state
        self._lease.stop()


def begin_compaction(
    hms: Hms,
    heartbeater: Heartbeater,
    *,
    ref: TableRef,
    agent: str,
    rebalances: bool = False,
) -> CompactionTransaction:
    """Open a transaction for a compaction of one table or partition, keep it alive, and lock the place for it.

    rebalances  rows get other ids: nobody may change any meanwhile

    Raises ConflictError when the lock is not granted at once; the transaction is aborted then, as after any error.
    """
    component = LockComponent(
        type=LockType.EXCL_WRITE if rebalances else LockType.SHARED_READ,
        database=ref.database,
        table=ref.table,
        partition=ref.partition,
        transactional=True,
        updates=rebalances,
    )
    if rebalances:
        _require_free(hms, component, ref)
    text = agent_text(agent)
    since = heartbeater.now
    kind = TxnType.REBALANCE_COMPACTION if rebalances else TxnType.COMPACTION
    txn_id = hms.open_txn(kind, text)
    name = f"transaction {txn_id} for {ref}"
    lease: Lease | None = None
    try:
        lease = heartbeater.register(txn_id=txn_id, lock_id=None, name=name, since=since)
        lock_id = _lock(hms, component, txn_id=txn_id, agent=text, ref=ref)
        lease.watch_lock(lock_id)
    except BaseException:
        with suppress(AcidError):  # the first error is the one to raise
            hms.abort_txn(txn_id, kind)
        if lease is not None:
            lease.stop()
        raise
    return CompactionTransaction(hms, lease, txn_id=txn_id, lock_id=lock_id, name=name, kind=kind)


def _require_free(hms: Hms, wanted: LockComponent, ref: TableRef) -> None:
    """ConflictError where a lock would have to wait: what asks for an update and is aborted is never forgotten.

    Source: Hive 4 `MarkCleanedFunction`, which looks at write ids, and a rebalance has none.
    """
    blocking = blocking_locks(hms.show_locks(wanted.database), wanted, lock_id=LONG_MAX)
    if blocking:
        raise refusal(_not_granted(ref), blocking)


def _not_granted(ref: TableRef) -> str:
    return f"Cannot compact {ref}: its lock was not granted"


def _lock(hms: Hms, wanted: LockComponent, *, txn_id: int, agent: str, ref: TableRef) -> int:
    """The lock of a compaction, which is not waited for. Raises ConflictError when it is not granted.

    But for a rebalance it names no operation that writes, for the server would note one as a change of the data.
    """
    lock_id, state = hms.lock([wanted], txn_id=txn_id, agent=agent, zero_wait=True, may_have_committed=False)
    if state is LockState.ACQUIRED:
        return lock_id
    try:
        blocking = blocking_locks(hms.show_locks(wanted.database), wanted, lock_id=lock_id)
    except AcidError as error:
        why = f"by whom it is held is not known, {reason_of(error)}; call again"
        raise ConflictError(f"{_not_granted(ref)}: {why}") from error
    raise refusal(_not_granted(ref), blocking)
