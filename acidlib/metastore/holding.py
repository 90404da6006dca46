"""The locks of a compaction at a Hive 3.1 metastore, and its transaction with a lock at a Hive 4 metastore.

Two compactors must never work on the same place. On Hive 4 the queue prevents that; on Hive 3.1 an exclusive lock does,
under a name that no user's table has, so that it blocks no query. A short lock on the table itself keeps it from being
dropped or changed while results are renamed into place.

On Hive 4 the result of a compaction becomes visible when its transaction commits. Source: Hive 4 `Worker`
(`CompactionTxn`): the transaction is opened before the inputs are listed, its shared lock is not waited for, and
heartbeats stop only after commit or abort has returned. A rebalance gives rows other ids: its lock keeps writers that
change rows out, and counts as an update.

Source of the rules of locks: Hive `TxnHandler.lock`, and the widths of table HIVE_LOCKS in Hive 3.1.
"""

from __future__ import annotations

import enum
import hashlib
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from urllib.parse import unquote

from acidlib.acid.names import LONG_MAX
from acidlib.errors import (
    WHEN_FREE,
    AcidError,
    BusyError,
    ConflictError,
    RefusedError,
    RetryError,
    UnknownOutcomeError,
)
from acidlib.metastore.heartbeat import Heartbeater, Lease
from acidlib.metastore.hms import Hms
from acidlib.metastore.transactions import HeldLock, LockComponent, LockState, LockType, TxnType
from acidlib.model.tables import TableRef
from acidlib.processes import has_ended, process_identity

PLACES = "acidlib.places"
"""The database in the locks of compactors on the places they work on; no Hive database can have this name."""

AGENT = "acidlib"
"""The beginning of the agent in every lock of this engine."""

AGENT_WIDTH, TABLE_WIDTH, PARTITION_WIDTH = 128, 128, 767
DEAD_AFTER_TIMEOUTS = 2
"""A lock is dead after so many timeouts without a heartbeat; its owner does not rely on it after one."""

SHOWN_LOCKS = 5


def agent_text(agent: str, token: str = "") -> str:
    """Return the agent that Hive shows for a lock: at most 128 characters, ending in `token`, which makes it unique."""
    named = agent if agent.startswith(AGENT) else f"{AGENT} {agent}"
    return f"{named[: AGENT_WIDTH - len(token) - 1]} {token}".rstrip()


def place_table(ref: TableRef) -> str:
    """Return a table's name in the database `PLACES`; equal for equal tables only."""
    name = str(ref.whole_table).lower()
    if name.isascii() and len(name) <= TABLE_WIDTH:
        return name
    plain = name.encode("ascii", "replace").decode().replace("?", "_")
    return f"{plain[: TABLE_WIDTH - 33]}.{_digest(name)[:32]}"


def place_partition(partition: str | None) -> str | None:
    """Return a partition's name in the database `PLACES`; equal for equal partitions only.

    Hive 3.1 stores the whole name of a partition in lower case in its locks, values included, so two partitions that
    differ in case alone would share a lock. The result has to have the form of a partition's name: Hive 4 parses it.
    """
    if partition is None:
        return None
    with_digest = f"{partition}/{AGENT}={_digest(partition)[:16]}"
    if not partition.isascii() or len(with_digest) > PARTITION_WIDTH:
        return f"{AGENT}={_digest(partition)}"
    return partition if partition == partition.lower() else with_digest


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def blocking_locks(locks: Iterable[HeldLock], wanted: LockComponent, *, lock_id: int) -> tuple[HeldLock, ...]:
    """Return the locks for which a SHARED_READ, EXCL_WRITE or EXCLUSIVE lock with this id has to wait, by id.

    Only older locks count, including waiting ones. A shared lock of the whole database blocks no other.
    """
    # an EXCLUSIVE lock excludes all others
    excluded = {LockType.EXCLUSIVE}
    if wanted.type is LockType.EXCL_WRITE:
        excluded |= {LockType.EXCL_WRITE, LockType.SHARED_WRITE}
    blocking = {
        lock.lock_id: lock
        for lock in locks
        if lock.lock_id < lock_id
        and lock.database.lower() == wanted.database.lower()
        and _overlaps(lock, wanted)
        and (wanted.type is LockType.EXCLUSIVE or lock.type in excluded)
        and not (lock.table is None and lock.type is LockType.SHARED_READ)
    }
    return tuple(blocking[number] for number in sorted(blocking))


def _overlaps(lock: HeldLock, wanted: LockComponent) -> bool:
    if lock.table is None or wanted.table is None:
        return True
    if lock.table.lower() != wanted.table.lower():
        return False
    if lock.partition is None or wanted.partition is None:
        return True
    return _comparable(lock.partition) == _comparable(wanted.partition)


def _comparable(partition: str) -> str:
    """Return a comparable form of a partition's name in locks: lower case as in Hive 3.1, without Hive 4's escapes."""
    return unquote(unquote(partition)).lower()


def dead_locks(
    locks: Iterable[HeldLock], *, now_ms: int, timeout_seconds: float, has_ended: Callable[[str], bool]
) -> tuple[HeldLock, ...]:
    """Return our locks without a transaction that have dead owners: no heartbeat for two timeouts, or no process.

    `now_ms` is by the clock of the server's database; `has_ended` takes the identity of a process. Hive 3.1 drops such
    locks by itself only where its initiator runs.
    """
    limit = DEAD_AFTER_TIMEOUTS * timeout_seconds * 1000
    return tuple(
        lock
        for lock in locks
        if not lock.txn_id
        and lock.agent.startswith(AGENT)
        and (
            (lock.heartbeat_ms and now_ms - lock.heartbeat_ms > limit)
            # the last word of the agent, before a colon, is the process: see `_request_lock`
            or has_ended(lock.agent.rpartition(" ")[2].rpartition(":")[0])
        )
    )


def refusal(begin: str, blocking: Sequence[HeldLock]) -> ConflictError:
    """Return the error for a lock that is not granted: `BusyError` if all blocking locks are of this engine.

    begin  the beginning of the message, without the `: ` after it
    """
    if blocking and all(lock.agent.startswith(AGENT) for lock in blocking):
        return BusyError(f"{begin}: held by {describe_holders(blocking)}; {WHEN_FREE}")
    return ConflictError(f"{begin}: held by {describe_holders(blocking)}; call again when it is released")


def describe_holders(locks: Sequence[HeldLock]) -> str:
    """Return the holders of these locks, for messages; at most five of them."""
    described = []
    for lock in locks[:SHOWN_LOCKS]:
        parts = [f"{lock.type.name} by {lock.user} on {lock.host}"]
        if lock.txn_id:
            parts.append(f"transaction {lock.txn_id}")
        if lock.agent:
            parts.append(lock.agent)
        described.append(f"lock {lock.lock_id} ({', '.join(parts)})")
    if len(locks) > SHOWN_LOCKS:
        described.append(f"{len(locks) - SHOWN_LOCKS} more")
    return ", ".join(described) or "a lock that is gone by now"


_FIRST_POLL_SECONDS, _MAX_POLL_SECONDS = 0.05, 1.0


def wait_until_granted(
    hms: Hms,
    wanted: Sequence[LockComponent],
    lock_id: int,
    state: LockState,
    *,
    txn_id: int | None,
    refused: str,
    deadline: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Wait until a lock that was requested, and is in this state by now, is granted.

    wanted    its components, all in one database
    refused   the beginning of the message when it is not granted
    deadline  by `clock`

    Raises ConflictError naming the holders at the deadline. The request stays: end it.
    """
    pause = _FIRST_POLL_SECONDS
    while state is LockState.WAITING:
        remaining = deadline - clock()
        if remaining <= 0:
            locks = hms.show_locks(wanted[0].database)
            holders = {lock.lock_id: lock for part in wanted for lock in blocking_locks(locks, part, lock_id=lock_id)}
            raise refusal(refused, [holders[number] for number in sorted(holders)])
        sleep(min(pause, remaining))
        pause = min(2 * pause, _MAX_POLL_SECONDS)
        state = hms.check_lock(lock_id, txn_id=txn_id)
    if state is not LockState.ACQUIRED:
        raise ConflictError(f"{refused}: the metastore answered {state.name}; call again")


def lock_place(hms: Hms, heartbeater: Heartbeater, *, ref: TableRef, agent: str) -> CompactorLock:
    """Take the lock that lets only one compactor of this engine at a time work on a table or partition (Hive 3.1).

    It does not affect queries and Hive's own compactor. The lock of a dead holder is dropped: its heartbeats are
    overdue, or its process ran on this machine and has ended. Raises ConflictError naming the holder.
    """
    return _acquire(
        hms,
        heartbeater,
        LockComponent(
            type=LockType.EXCLUSIVE,
            database=PLACES,
            table=place_table(ref),
            partition=place_partition(ref.partition),
        ),
        agent=agent,
        name=f"the place {ref}",
        refused=f"Cannot compact {ref}: another compactor works on it",
    )


def publication_lock(
    hms: Hms,
    heartbeater: Heartbeater,
    *,
    ref: TableRef,
    exclusive: bool,
    agent: str,
    timeout_seconds: float = 30.0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> CompactorLock:
    """Lock the table or partition itself for the seconds of a publication; wait up to `timeout_seconds` for it.

    A shared lock prevents that it is dropped or altered, an exclusive one also that it is read or written; while that
    waits, all later locks wait behind it. Raises ConflictError naming the holders when it is not granted in time.
    """
    kind = LockType.EXCLUSIVE if exclusive else LockType.SHARED_READ
    return _acquire(
        hms,
        heartbeater,
        LockComponent(type=kind, database=ref.database, table=ref.table, partition=ref.partition),
        agent=agent,
        name=f"the {kind.name} lock on {ref}",
        refused=f"Cannot publish {ref}: its {kind.name} lock was not granted within {timeout_seconds:g} s",
        timeout_seconds=timeout_seconds,
        clock=clock,
        sleep=sleep,
    )


def _acquire(
    hms: Hms,
    heartbeater: Heartbeater,
    wanted: LockComponent,
    *,
    agent: str,
    name: str,
    refused: str,
    timeout_seconds: float = 0.0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> CompactorLock:
    """Return a granted lock; raise ConflictError when it is not granted in time. After any error the request is ended.

    name     the lock's name in messages
    refused  the beginning of the message when it is not granted in time
    """
    since = heartbeater.clock()
    lock_id, state = _request_lock(hms, wanted, agent)
    lease: Lease | None = None
    try:
        lease = heartbeater.register(txn_id=None, lock_id=lock_id, name=name, since=since)
        deadline = clock() + timeout_seconds
        if state is LockState.WAITING:
            locks = hms.show_locks(wanted.database)
            blocking = blocking_locks(locks, wanted, lock_id=lock_id)
            # it may be grantable by now, or after the locks of dead compactors are dropped
            if not blocking or _drop_dead_locks(
                hms, blocking, locks, lock_id=lock_id, timeout_seconds=heartbeater.timeout_seconds
            ):
                state = hms.check_lock(lock_id, txn_id=None)
        wait_until_granted(
            hms, [wanted], lock_id, state, txn_id=None, refused=refused, deadline=deadline, clock=clock, sleep=sleep
        )
    except BaseException:
        with suppress(AcidError):  # the first error is the one to raise
            hms.unlock(lock_id)
        if lease is not None:
            lease.stop()
        raise
    return CompactorLock(hms, lease, lock_id)


def _request_lock(hms: Hms, component: LockComponent, agent: str) -> tuple[int, LockState]:
    """Request a lock. If no answer comes, or the server failed, end the request if it exists by then.

    The agent in the lock identifies it. Hive 3.1 stores a request before it checks whether it can grant the lock.
    """
    # unique, and with our process, for `dead_locks`
    process, unique = process_identity(), uuid.uuid4().hex[:12]
    own = agent_text(agent, f"{process}:{unique}" if process else unique)
    try:
        return hms.lock([component], txn_id=None, agent=own)
    except (ConflictError, RefusedError):
        raise
    except BaseException:
        with suppress(AcidError):  # the first error is the one to raise
            for lock_id in {lock.lock_id for lock in hms.show_locks(component.database) if lock.agent == own}:
                hms.unlock(lock_id)
        raise


class CompactorLock:
    """A lock without a transaction, kept alive until it is released. As a context manager it is released at the end."""

    def __init__(self, hms: Hms, lease: Lease, lock_id: int) -> None:
        """Use `lock_place` or `publication_lock`."""
        self.lock_id = lock_id
        self._hms = hms
        self._lease = lease
        self._released = False

    def assert_alive(self) -> None:
        """Raise the errors of `Lease.assert_alive`, and ConflictError after the release."""
        if self._released:
            raise ConflictError(f"Cannot go on with {self._lease.name}: it was released")
        self._lease.assert_alive()

    def release(self) -> None:
        """Unlock; may be called again.

        Raises RetryError when the call fails (the metastore drops the lock by itself after its timeout), but not while
        another error is being handled.
        """
        if not self._released:
            self._released = end_lease(self._lease, lambda: self._hms.unlock(self.lock_id), "release", "drops")

    def __enter__(self) -> CompactorLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def end_lease(lease: Lease, call: Callable[[], None], verb: str, by_itself: str) -> bool:
    """End a lock or transaction by a call, and its heartbeats in any case; return whether it has ended.

    Raises RetryError when the call fails, but not while another error is being handled: `verb` and `by_itself` complete
    the message with our act and the metastore's.
    """
    earlier = sys.exception()
    try:
        call()
    except ConflictError:  # it has ended before
        return True
    except AcidError as error:
        if earlier is None:
            raise RetryError(
                f"Cannot {verb} {lease.name}: {error.reason}; the metastore {by_itself} it by itself after "
                f"{lease.timeout_seconds:g} s without a heartbeat"
            ) from error
        return False
    finally:
        lease.stop()
    return True


def release_dead_locks(
    hms: Hms, *, timeout_seconds: float, agent: str, may_drop: Callable[[HeldLock], bool] = lambda _: True
) -> tuple[HeldLock, ...]:
    """Drop the locks that killed compactors left on any table; return them.

    may_drop         decides on each lock before it is dropped, and may first finish what the lock protects
    timeout_seconds  the metastore's timeout of transactions

    For Hive 3.1, which drops them by itself only while its initiator is on (`hive.compactor.initiator.on`).
    """
    probe = LockComponent(type=LockType.SHARED_READ, database=PLACES, table="clock")
    # its first heartbeat has the time of the metastore's database, with which those of the other locks are compared
    probe_id = _request_lock(hms, probe, agent)[0]
    try:
        locks = hms.show_locks()
        return _drop_dead_locks(hms, locks, locks, lock_id=probe_id, timeout_seconds=timeout_seconds, may_drop=may_drop)
    finally:
        with suppress(AcidError):  # the server drops it, or the next call of this function
            hms.unlock(probe_id)


def _drop_dead_locks(
    hms: Hms,
    suspects: tuple[HeldLock, ...],
    locks: tuple[HeldLock, ...],
    *,
    lock_id: int,
    timeout_seconds: float,
    may_drop: Callable[[HeldLock], bool] = lambda _: True,
) -> tuple[HeldLock, ...]:
    """Drop the dead locks among the suspects; return them. The database's time is the heartbeat of our own lock."""
    now_ms = next((lock.heartbeat_ms for lock in locks if lock.lock_id == lock_id), None)
    if now_ms is None:
        return ()
    dead = dead_locks(suspects, now_ms=now_ms, timeout_seconds=timeout_seconds, has_ended=has_ended)
    dropped = tuple(filter(may_drop, dead))
    for dropped_id in {lock.lock_id for lock in dropped}:
        hms.unlock(dropped_id)
    return dropped


def begin_compaction(
    hms: Hms, heartbeater: Heartbeater, *, ref: TableRef, agent: str, rebalances: bool = False
) -> CompactionTransaction:
    """Open a transaction for a compaction of a table or partition, keep it alive, and lock the place for it (Hive 4).

    rebalances  rows get other ids: no writer may change them meanwhile

    Raises ConflictError when the lock is not granted at once; the transaction is aborted then, as after any error.
    """
    # only a rebalance names an operation that writes: the server notes that as a change of the data
    wanted = LockComponent(
        type=LockType.EXCL_WRITE if rebalances else LockType.SHARED_READ,
        database=ref.database,
        table=ref.table,
        partition=ref.partition,
        transactional=True,
        updates=rebalances,
    )
    not_granted = f"Cannot compact {ref}: its lock was not granted"
    if rebalances:
        # checked before the transaction is opened: Hive 4 never forgets an aborted transaction that requested an
        # update and has no write id (`MarkCleanedFunction`), as a rebalance
        blocking = blocking_locks(hms.show_locks(wanted.database), wanted, lock_id=LONG_MAX)
        if blocking:
            raise refusal(not_granted, blocking)
    text = agent_text(agent)
    kind = TxnType.REBALANCE_COMPACTION if rebalances else TxnType.COMPACTION
    with begun_transaction(hms, heartbeater, kind, text, name=lambda txn_id: f"transaction {txn_id} for {ref}") as (
        txn_id,
        lease,
    ):
        lock_id, state = hms.lock([wanted], txn_id=txn_id, agent=text, zero_wait=True, may_have_committed=False)
        if state is not LockState.ACQUIRED:
            try:
                blocking = blocking_locks(hms.show_locks(wanted.database), wanted, lock_id=lock_id)
            except AcidError as error:
                raise ConflictError(f"{not_granted}: its holder is not known, {error.reason}; call again") from error
            raise refusal(not_granted, blocking)
        lease.lock_id = lock_id
    return CompactionTransaction(hms, lease, txn_id=txn_id, lock_id=lock_id, kind=kind)


@contextmanager
def begun_transaction(
    hms: Hms, heartbeater: Heartbeater, kind: TxnType, agent: str, *, name: Callable[[int], str]
) -> Iterator[tuple[int, Lease]]:
    """Open a transaction and keep it alive; yield its id and its lease. After an error of the body it is aborted.

    name  returns its name in messages, by its id
    """
    since = heartbeater.clock()
    txn_id = hms.open_txn(kind, agent)
    lease: Lease | None = None
    try:
        lease = heartbeater.register(txn_id=txn_id, lock_id=None, name=name(txn_id), since=since)
        yield txn_id, lease
    except BaseException:
        with suppress(AcidError):  # the first error is the one to raise
            hms.abort_txn(txn_id, kind)
        if lease is not None:
            lease.stop()
        raise


class _State(enum.Enum):
    OPEN = enum.auto()
    ABORTING = enum.auto()
    ENDED = enum.auto()
    COMMITTED = enum.auto()


class CompactionTransaction:
    """An open transaction with its lock. As a context manager it is aborted at the end unless it was committed.

    `txn_id` is the T of the `_vT` names.
    """

    def __init__(self, hms: Hms, lease: Lease, *, txn_id: int, lock_id: int, kind: TxnType) -> None:
        """Use `begin_compaction`."""
        self._kind = kind
        self.txn_id = txn_id
        self.lock_id = lock_id
        self._hms = hms
        self._lease = lease
        self._state = _State.OPEN
        self._commit_attempted = False

    def assert_alive(self) -> None:
        """Raise the errors of `Lease.assert_alive`, and ConflictError after the end."""
        if self._state is not _State.OPEN:
            raise ConflictError(f"Cannot go on with {self._lease.name}: it has ended")
        self._lease.assert_alive()

    def commit(self) -> None:
        """Commit; may be called again.

        Raises ConflictError when the transaction was aborted. Raises UnknownOutcomeError when that is unknown: the
        heartbeats go on and commit may be called again; the request's `next_txn_id`, which only a commit sets (but not
        that of a rebalance), shows whether it has committed.
        """
        if self._state is _State.COMMITTED:
            return
        if self._state is not _State.OPEN:
            raise ConflictError(f"Cannot commit {self._lease.name}: it has ended")
        if not self._commit_attempted:
            # not later: then "no such transaction" may mean that it has committed, since Hive forgets those in seconds
            try:
                self._lease.assert_alive()
            except ConflictError:
                self._set_ended(_State.ENDED)
                raise
            except RetryError:
                pass  # no heartbeat has arrived for long: the commit itself will show whether it is alive
        self._commit_attempted = True
        error = self._attempt_commit()
        if error is not None:
            # Hive 4 accepts a second commit of a transaction
            error = self._attempt_commit()
        if error is not None:
            raise UnknownOutcomeError(
                f"Cannot tell whether {self._lease.name} was committed: {error.reason}"
            ) from error

    def abort(self) -> None:
        """Abort unless the transaction has ended; may be called again, also after a commit of unknown outcome.

        Raises RetryError when the call fails (the metastore aborts by itself after its timeout), but not while another
        error is being handled.
        """
        if self._state in (_State.COMMITTED, _State.ENDED):
            return
        self._state = _State.ABORTING
        if end_lease(self._lease, lambda: self._hms.abort_txn(self.txn_id, self._kind), "abort", "aborts"):
            self._state = _State.ENDED

    def __enter__(self) -> CompactionTransaction:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    def _attempt_commit(self) -> AcidError | None:
        """Return None once it is committed, the error if that is unknown; raise ConflictError when it was aborted."""
        try:
            self._hms.commit_txn(self.txn_id, self._kind)
        except AcidError as error:
            is_aborted = False
            with suppress(AcidError):
                is_aborted = self._hms.open_txns().is_txn_aborted(self.txn_id)
            if not is_aborted:
                return error
            self._set_ended(_State.ENDED)
            raise ConflictError(f"Cannot commit {self._lease.name}: it was aborted: {error.reason}") from error
        self._set_ended(_State.COMMITTED)
        return None

    def _set_ended(self, state: _State) -> None:
        self._state = state
        self._lease.stop()
