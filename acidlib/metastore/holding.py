"""What a compaction holds at a metastore while it runs: locks on Hive 3.1, a transaction with its lock on Hive 4.

Two compactors must never work on one place. On Hive 4 the queue sees to that; on Hive 3.1 it is an exclusive lock under
a name that no user's table has, so that it blocks no query. A short lock on the table itself makes sure that it is not
dropped or changed while results are renamed into place.

On Hive 4 what a compaction writes becomes visible when its transaction commits. Source: Hive 4 `Worker`
(`CompactionTxn`): opened before the inputs are looked at, a shared lock that is not waited for, heartbeats that stop
only after commit or abort has returned. A rebalance gives rows other ids: its lock keeps those out that change rows,
and counts as an update.

Source of the rules of locks: Hive `TxnHandler.lock`, and the widths of table HIVE_LOCKS in Hive 3.1.
"""

from __future__ import annotations

import enum
import hashlib
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from urllib.parse import unquote

from acidlib.errors import (
    WHEN_FREE,
    AcidError,
    BusyError,
    ConflictError,
    RefusedError,
    RetryError,
    UnknownOutcomeError,
)
from acidlib.metastore.heartbeat import Heartbeater, Lease, reason_of
from acidlib.metastore.hms import Hms
from acidlib.metastore.transactions import HeldLock, LockComponent, LockState, LockType, TxnType
from acidlib.model.names import LONG_MAX
from acidlib.model.tables import TableRef
from acidlib.processes import has_ended, process_identity

PLACES = "acidlib.places"
"""The database of the locks by which a compactor holds the place it works on; no Hive database can have this name."""

AGENT = "acidlib"
"""The agent of every lock of ours begins with it."""

AGENT_WIDTH, TABLE_WIDTH, PARTITION_WIDTH = 128, 128, 767
DEAD_AFTER_TIMEOUTS = 2
"""A lock counts as dead after so many timeouts without a heartbeat; its owner has stopped relying on it after one."""

SHOWN_LOCKS = 5


def agent_text(agent: str, token: str = "") -> str:
    """Return the agent that Hive shows for a lock: at most 128 characters, of which `token` makes it unique."""
    named = agent if agent.startswith(AGENT) else f"{AGENT} {agent}"
    return f"{named[: AGENT_WIDTH - len(token) - 1]} {token}".rstrip()


def place_table(ref: TableRef) -> str:
    """Return the name under `PLACES` that stands for a table; the same for equal tables only."""
    name = str(ref.whole_table).lower()
    if name.isascii() and len(name) <= TABLE_WIDTH:
        return name
    plain = name.encode("ascii", "replace").decode().replace("?", "_")
    return f"{plain[: TABLE_WIDTH - 33]}.{_digest(name)[:32]}"


def place_partition(partition: str | None) -> str | None:
    """Return the name that stands for a partition; the same for equal partitions only.

    Hive 3.1 puts the whole name of a partition into lower case in its locks, values included, so two partitions that
    differ in case alone would be one. The result has to look like a partition's name, because Hive 4 parses it.
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
    """Return the locks that a wanted SHARED_READ, EXCL_WRITE or EXCLUSIVE lock, of this id, has to wait for, by id.

    Only older locks count, waiting ones too. A shared lock of the whole database blocks nobody.
    """
    # an EXCLUSIVE one excludes all others
    excluded = {LockType.EXCLUSIVE}
    if wanted.type is LockType.EXCL_WRITE:
        excluded |= {LockType.EXCL_WRITE, LockType.SHARED_WRITE}
    found = {
        lock.lock_id: lock
        for lock in locks
        if lock.lock_id < lock_id
        and lock.database.lower() == wanted.database.lower()
        and _overlaps(lock, wanted)
        and (wanted.type is LockType.EXCLUSIVE or lock.type in excluded)
        and not (lock.table is None and lock.type is LockType.SHARED_READ)
    }
    return tuple(found[one] for one in sorted(found))


def _overlaps(lock: HeldLock, wanted: LockComponent) -> bool:
    if lock.table is None or wanted.table is None:
        return True
    if lock.table.lower() != wanted.table.lower():
        return False
    if lock.partition is None or wanted.partition is None:
        return True
    return _comparable(lock.partition) == _comparable(wanted.partition)


def _comparable(partition: str) -> str:
    """Return a partition's name of either generation: Hive 3.1 has it in lower case, Hive 4 escapes escapes again."""
    return unquote(unquote(partition)).lower()


def dead_locks(
    locks: Iterable[HeldLock], *, now_ms: int, timeout_seconds: float, has_ended: Callable[[str], bool]
) -> tuple[HeldLock, ...]:
    """Return our locks without a transaction whose owners are dead: no heartbeat for two timeouts, or no process.

    `now_ms` is by the clock of the server's database; `has_ended` is asked with the identity of a process. Hive 3.1
    drops such locks by itself only where its initiator runs.
    """
    limit = DEAD_AFTER_TIMEOUTS * timeout_seconds * 1000
    return tuple(
        lock
        for lock in locks
        if not lock.txn_id
        and (lock.agent or "").startswith(AGENT)
        and (
            (lock.heartbeat_ms and now_ms - lock.heartbeat_ms > limit)
            # the last word of the agent, before a colon, is the process: see `_request_lock`
            or has_ended((lock.agent or "").rpartition(" ")[2].rpartition(":")[0])
        )
    )


def refusal(begin: str, blocking: Sequence[HeldLock]) -> ConflictError:
    """Return the error for a lock that is not granted: `BusyError` where runs of this engine alone are in the way.

    begin  what cannot be done, as far as `: `
    """
    if blocking and all((lock.agent or "").startswith(AGENT) for lock in blocking):
        return BusyError(f"{begin}: held by {describe_holders(blocking)}; {WHEN_FREE}")
    return ConflictError(f"{begin}: held by {describe_holders(blocking)}; call again when it is released")


def describe_holders(locks: Sequence[HeldLock]) -> str:
    """Return who holds these locks, for messages; at most five of them."""
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


FIRST_POLL_SECONDS, LONGEST_POLL_SECONDS = 0.05, 1.0


def lock_place(hms: Hms, heartbeater: Heartbeater, *, ref: TableRef, agent: str) -> CompactorLock:
    """Take the right to compact one table or partition, which one compactor at a time has (Hive 3.1).

    Queries and Hive's own compactor do not notice it. A holder counts as dead when its heartbeats are overdue, or when
    its process ran on this machine and has ended; its lock is then dropped. Raises ConflictError naming the holder.
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
    """Lock the table or partition itself for the seconds of a publication; it is waited for `timeout_seconds`.

    Shared: it is not dropped or altered. Exclusive: it is not read or written either; while it waits, all later locks
    wait behind it. Raises ConflictError naming the holders when it was not granted in time.
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
    """Return the lock, granted; ConflictError when it is not in time. After any error it is not left behind.

    `name` is what messages call it, `refused` begins the message when it is not granted in time.
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
            # it may be free by now, or once the locks of dead compactors are dropped
            if not blocking or _drop_dead_locks(
                hms, blocking, locks, lock_id=lock_id, timeout_seconds=heartbeater.timeout_seconds
            ):
                state = hms.check_lock(lock_id, txn_id=None)
        pause = FIRST_POLL_SECONDS
        while state is LockState.WAITING:
            remaining = deadline - clock()
            if remaining <= 0:
                raise refusal(refused, blocking_locks(hms.show_locks(wanted.database), wanted, lock_id=lock_id))
            sleep(min(pause, remaining))
            pause = min(2 * pause, LONGEST_POLL_SECONDS)
            state = hms.check_lock(lock_id, txn_id=None)
        if state is not LockState.ACQUIRED:
            raise ConflictError(f"{refused}: the metastore answered {state.name}; call again")
    except BaseException:
        with suppress(AcidError):  # the first error is the one to raise
            hms.unlock(lock_id)
        if lease is not None:
            lease.stop()
        raise
    return CompactorLock(hms, lease, lock_id)


def _request_lock(hms: Hms, component: LockComponent, agent: str) -> tuple[int, LockState]:
    """Ask for a lock. When no answer comes, a lock that may exist all the same is found by its agent and withdrawn.

    That is also so when the server failed: Hive 3.1 stores a request first and looks whether it is free after that.
    """
    # told apart from all others, and with the process that asks for it
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
        """Made by `lock_place` and `publication_lock`."""
        self.lock_id = lock_id
        self._hms = hms
        self._lease = lease
        self._released = False

    def assert_alive(self) -> None:
        """Raise what `Lease.assert_alive` does, and ConflictError after the release."""
        if self._released:
            raise ConflictError(f"Cannot go on with {self._lease.name}: it was released")
        self._lease.assert_alive()

    def release(self) -> None:
        """Unlock; may be called again.

        Raises RetryError when the metastore could not be asked (it drops the lock by itself after its timeout), but not
        while another error is being handled.
        """
        if self._released:
            return
        earlier = sys.exception()
        try:
            self._hms.unlock(self.lock_id)
        except AcidError as error:
            if earlier is None:
                raise RetryError(
                    f"Cannot release {self._lease.name}: {reason_of(error)}; the metastore drops it by itself "
                    f"after {self._lease.timeout_seconds:g} s without a heartbeat"
                ) from error
        else:
            self._released = True
        finally:
            self._lease.stop()

    def __enter__(self) -> CompactorLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def release_dead_locks(
    hms: Hms, *, timeout_seconds: float, agent: str, may_go: Callable[[HeldLock], bool] = lambda _: True
) -> tuple[HeldLock, ...]:
    """Drop the locks that killed compactors left, on whatever table; they are returned.

    `may_go` is asked of each first, and may mend what it keeps others from. For Hive 3.1, which drops them by itself
    only while its initiator is on (`hive.compactor.initiator.on`). `timeout_seconds` is the metastore's for
    transactions.
    """
    probe = LockComponent(type=LockType.SHARED_READ, database=PLACES, table="clock")
    # its first heartbeat has the time of the metastore's database, by which those of the other locks are judged
    probe_id = _request_lock(hms, probe, agent)[0]
    try:
        locks = hms.show_locks()
        return _drop_dead_locks(hms, locks, locks, lock_id=probe_id, timeout_seconds=timeout_seconds, may_go=may_go)
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
    may_go: Callable[[HeldLock], bool] = lambda _: True,
) -> tuple[HeldLock, ...]:
    """Drop those of the suspects that are dead, by the database's time: that of the heartbeat of our own lock."""
    now_ms = next((lock.heartbeat_ms for lock in locks if lock.lock_id == lock_id), None)
    if now_ms is None:
        return ()
    found = dead_locks(suspects, now_ms=now_ms, timeout_seconds=timeout_seconds, has_ended=has_ended)
    dead = tuple(lock for lock in found if may_go(lock))
    for dead_id in {lock.lock_id for lock in dead}:
        hms.unlock(dead_id)
    return dead


def begin_compaction(
    hms: Hms, heartbeater: Heartbeater, *, ref: TableRef, agent: str, rebalances: bool = False
) -> CompactionTransaction:
    """Open a transaction for a compaction of one table or partition, keep it alive, and lock the place for it (Hive 4).

    rebalances  rows get other ids: they must not be changed meanwhile

    Raises ConflictError when the lock is not granted at once; the transaction is aborted then, as after any error.
    """
    # but for a rebalance it names no operation that writes, for the server would note one as a change of the data
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
        # what asks for an update and is aborted is never forgotten: Hive 4 `MarkCleanedFunction` looks at write ids,
        # and a rebalance has none
        blocking = blocking_locks(hms.show_locks(wanted.database), wanted, lock_id=LONG_MAX)
        if blocking:
            raise refusal(not_granted, blocking)
    text = agent_text(agent)
    since = heartbeater.clock()
    kind = TxnType.REBALANCE_COMPACTION if rebalances else TxnType.COMPACTION
    txn_id = hms.open_txn(kind, text)
    name = f"transaction {txn_id} for {ref}"
    lease: Lease | None = None
    try:
        lease = heartbeater.register(txn_id=txn_id, lock_id=None, name=name, since=since)
        lock_id, state = hms.lock([wanted], txn_id=txn_id, agent=text, zero_wait=True, may_have_committed=False)
        if state is not LockState.ACQUIRED:
            try:
                blocking = blocking_locks(hms.show_locks(wanted.database), wanted, lock_id=lock_id)
            except AcidError as error:
                why = f"by whom it is held is not known, {reason_of(error)}; call again"
                raise ConflictError(f"{not_granted}: {why}") from error
            raise refusal(not_granted, blocking)
        lease.lock_id = lock_id
    except BaseException:
        with suppress(AcidError):  # the first error is the one to raise
            hms.abort_txn(txn_id, kind)
        if lease is not None:
            lease.stop()
        raise
    return CompactionTransaction(hms, lease, txn_id=txn_id, lock_id=lock_id, name=name, kind=kind)


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
        """Raise what `Lease.assert_alive` does, and ConflictError after the end."""
        if self._state is not _State.OPEN:
            raise ConflictError(f"Cannot go on with {self._name}: it has ended")
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
            raise ConflictError(f"Cannot commit {self._name}: it has ended")
        if not self._commit_attempted:
            # later on "no such transaction" may mean that it has committed: Hive forgets those within seconds
            try:
                self._lease.assert_alive()
            except ConflictError:
                self._end(_State.ENDED)
                raise
            except RetryError:
                pass  # no heartbeat for long: the commit itself will show
        self._commit_attempted = True
        error = self._attempt_commit()
        if error is not None:
            # Hive 4 takes a second commit of a transaction without an error
            error = self._attempt_commit()
        if error is not None:
            raise UnknownOutcomeError(f"Cannot tell whether {self._name} was committed: {reason_of(error)}") from error

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
                    f"Cannot abort {self._name}: {reason_of(error)}; the metastore aborts it by itself after "
                    f"{self._lease.timeout_seconds:g} s"
                ) from error
        else:
            self._end(_State.ENDED)

    def __enter__(self) -> CompactionTransaction:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    def _attempt_commit(self) -> AcidError | None:
        """Return None when it is committed, the error when that is not known; ConflictError when it was aborted."""
        try:
            self._hms.commit_txn(self.txn_id, self._kind)
        except AcidError as error:
            is_aborted = False
            with suppress(AcidError):
                is_aborted = self._hms.open_txns().is_txn_aborted(self.txn_id)
            if not is_aborted:
                return error
            self._end(_State.ENDED)
            raise ConflictError(f"Cannot commit {self._name}: it was aborted: {reason_of(error)}") from error
        self._end(_State.COMMITTED)
        return None

    def _end(self, state: _State) -> None:
        self._state = state
        self._lease.stop()
