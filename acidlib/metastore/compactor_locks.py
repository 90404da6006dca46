"""What a compaction holds in a metastore while it runs: a transaction (Hive 4), or locks without one (Hive 3.1).

Two compactors must never work on one place. On Hive 4 that is the queue's business; on Hive 3.1 it is that of an
exclusive lock under a name that no user's table has, so that it stands in no query's way. A short lock on the table
itself makes sure that nobody drops or changes it while results are renamed into place.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType

from acidlib.errors import AcidError, ConflictError, RefusedError, RetryError
from acidlib.metastore.compaction_transaction import CompactionTransaction, begin_compaction
from acidlib.metastore.heartbeat import Beat, Heartbeater, reason_of
from acidlib.metastore.hms import Hms
from acidlib.metastore.lock_rules import (
    PLACES,
    agent_text,
    dead_locks,
    holders,
    in_the_way,
    lock_token,
    place_partition,
    place_table,
)
from acidlib.metastore.values import HeldLock, LockComponent, LockState, LockType
from acidlib.processes import has_ended, process_identity

__all__ = [
    "CompactionTransaction",
    "NamedLock",
    "begin_compaction",
    "hold_place",
    "publication_lock",
    "release_dead_locks",
]

FIRST_POLL_SECONDS, LONGEST_POLL_SECONDS = 0.05, 1.0


def new_token() -> str:
    """What tells one request for a lock from all others, and the process that asks for it."""
    return lock_token(process_identity(), uuid.uuid4().hex[:12])


class NamedLock:
    """A lock without a transaction, kept alive until it is released. As a context manager it is released at the end."""

    def __init__(self, hms: Hms, beat: Beat, lock_id: int) -> None:
        """Made by `hold_place` and `publication_lock`."""
        self.lock_id = lock_id
        self._hms = hms
        self._beat = beat
        self._released = False

    def assert_alive(self) -> None:
        """Raises what `Beat.assert_alive` does, and ConflictError after the release."""
        if self._released:
            raise ConflictError(f"Cannot go on with {self._beat.name}: because it was released")
        self._beat.assert_alive()

    def release(self) -> None:
        """Unlock; may be called again.

        Raises RetryError when the metastore could not be told (it drops the lock by itself after its timeout), but not
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
                    f"Cannot release {self._beat.name}: because {reason_of(error)}; the metastore drops it by itself "
                    f"after {self._beat.timeout_seconds:g} s without a heartbeat"
                ) from error
        else:
            self._released = True
        finally:
            self._beat.stop()

    def __enter__(self) -> NamedLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """A lock to ask for: `name` for people, `cannot` begins the message when it is not granted in time."""

    type: LockType
    database: str
    table: str
    partition: str | None
    name: str
    cannot: str
    agent: str

    @property
    def component(self) -> LockComponent:
        return LockComponent(type=self.type, database=self.database, table=self.table, partition=self.partition)

    def in_the_way(self, locks: tuple[HeldLock, ...], lock_id: int) -> tuple[HeldLock, ...]:
        return in_the_way(
            locks,
            lock_id=lock_id,
            type=self.type,
            database=self.database,
            table=self.table,
            partition=self.partition,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Patience:
    """How long to wait for a lock."""

    seconds: float
    clock: Callable[[], float]
    sleep: Callable[[float], None]


def hold_place(
    hms: Hms,
    beats: Heartbeater,
    *,
    database: str,
    table: str,
    partition: str | None,
    agent: str,
    token: Callable[[], str] = new_token,
) -> NamedLock:
    """The right to compact one table or partition, which one compactor at a time has (Hive 3.1).

    Queries and Hive's own compactor do not notice it. A holder that is dead is told by the heartbeats it owes, or by
    its process if that ran here, and its lock is dropped. Raises ConflictError naming the holder.
    """
    name = _name(database, table, partition)
    wanted = _Wanted(
        type=LockType.EXCLUSIVE,
        database=PLACES,
        table=place_table(database, table),
        partition=place_partition(partition),
        name=f"the place {name}",
        cannot=f"Cannot compact {name}: because another compactor works on it",
        agent=agent_text(agent, token()),
    )
    return _acquire(hms, beats, wanted, _Patience(seconds=0, clock=time.monotonic, sleep=time.sleep))


@contextmanager
def publication_lock(
    hms: Hms,
    beats: Heartbeater,
    *,
    database: str,
    table: str,
    partition: str | None,
    exclusive: bool,
    agent: str,
    timeout_seconds: float = 30.0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    token: Callable[[], str] = new_token,
) -> Iterator[NamedLock]:
    """A lock on the table or partition itself for the seconds of a publication, waited for at most so long.

    Shared: nobody drops or alters it. Exclusive: nobody reads or writes it either; while it waits, whoever comes later
    waits behind it. Raises ConflictError naming the holders when it was not granted in time.
    """
    kind = LockType.EXCLUSIVE if exclusive else LockType.SHARED_READ
    name = _name(database, table, partition)
    wanted = _Wanted(
        type=kind,
        database=database,
        table=table,
        partition=partition,
        name=f"the {kind.name} lock on {name}",
        cannot=f"Cannot publish {name}: because its {kind.name} lock was not granted within {timeout_seconds:g} s",
        agent=agent_text(agent, token()),
    )
    patience = _Patience(seconds=timeout_seconds, clock=clock, sleep=sleep)
    with _acquire(hms, beats, wanted, patience) as lock:
        yield lock


def release_dead_locks(
    hms: Hms, *, timeout_seconds: float, agent: str, token: Callable[[], str] = new_token
) -> tuple[HeldLock, ...]:
    """Drop the locks that killed compactors left, on whatever table; they are returned.

    For Hive 3.1, which drops them by itself only while its initiator is on (`hive.compactor.initiator.on`).
    `timeout_seconds` is the metastore's for transactions.
    """
    wanted = LockComponent(type=LockType.SHARED_READ, database=PLACES, table="clock")
    text = agent_text(agent, token())
    probe = _ask(hms, wanted, text)[0]  # its first heartbeat is what the clock of the database says now
    try:
        locks = hms.show_locks()
        return _bury(hms, locks, locks, lock_id=probe, timeout_seconds=timeout_seconds)
    finally:
        with suppress(AcidError):  # the server drops it, or the next sweep
            hms.unlock(probe)


def _acquire(hms: Hms, beats: Heartbeater, wanted: _Wanted, patience: _Patience) -> NamedLock:
    """The lock, granted. Whatever happens before that, it is not left behind, waiting or held."""
    since = beats.now
    lock_id, state = _ask(hms, wanted.component, wanted.agent)
    beat: Beat | None = None
    try:
        beat = beats.register(txn_id=None, lock_id=lock_id, name=wanted.name, since=since)
        _wait(hms, wanted, patience, lock_id, state, beats.timeout_seconds)
    except BaseException:
        with suppress(AcidError):  # the first error is the one to tell
            hms.unlock(lock_id)
        if beat is not None:
            beat.stop()
        raise
    return NamedLock(hms, beat, lock_id)


def _ask(hms: Hms, component: LockComponent, agent: str) -> tuple[int, LockState]:
    """Ask for a lock. One that may be there without an answer is looked for by its agent and withdrawn.

    That is also so when the server failed: Hive 3.1 stores a request first and looks whether it is free after that.
    """
    try:
        return hms.lock([component], txn_id=None, agent=agent)
    except (ConflictError, RefusedError):
        raise
    except BaseException:
        with suppress(AcidError):  # the first error is the one to tell
            for lock_id in {lock.lock_id for lock in hms.show_locks(component.database) if lock.agent == agent}:
                hms.unlock(lock_id)
        raise


def _wait(
    hms: Hms, wanted: _Wanted, patience: _Patience, lock_id: int, state: LockState, timeout_seconds: float
) -> None:
    """Returns when the lock is granted; raises ConflictError when it is not in time."""
    deadline = patience.clock() + patience.seconds
    if state is LockState.WAITING:
        locks = hms.show_locks(wanted.database)
        found = wanted.in_the_way(locks, lock_id)
        # it may be free by now, or once the dead are gone
        if not found or _bury(hms, found, locks, lock_id=lock_id, timeout_seconds=timeout_seconds):
            state = hms.check_lock(lock_id, txn_id=None)
    pause = FIRST_POLL_SECONDS
    while state is LockState.WAITING:
        left = deadline - patience.clock()
        if left <= 0:
            held = holders(wanted.in_the_way(hms.show_locks(wanted.database), lock_id))
            raise ConflictError(f"{wanted.cannot}: held by {held}")
        patience.sleep(min(pause, left))
        pause = min(2 * pause, LONGEST_POLL_SECONDS)
        state = hms.check_lock(lock_id, txn_id=None)
    if state is not LockState.ACQUIRED:
        raise ConflictError(f"{wanted.cannot}: the metastore answered {state.name}")


def _bury(
    hms: Hms, suspects: tuple[HeldLock, ...], locks: tuple[HeldLock, ...], *, lock_id: int, timeout_seconds: float
) -> tuple[HeldLock, ...]:
    """Drop those of the suspects that are dead, judged by the time of our own request, which is the database's."""
    now_ms = next((lock.heartbeat_ms for lock in locks if lock.lock_id == lock_id), None)
    if now_ms is None:
        return ()
    dead = dead_locks(suspects, now_ms=now_ms, timeout_seconds=timeout_seconds, has_ended=has_ended)
    for dead_id in {lock.lock_id for lock in dead}:
        hms.unlock(dead_id)
    return dead


def _name(database: str, table: str, partition: str | None) -> str:
    return ".".join(part for part in (database, table, partition) if part is not None)
