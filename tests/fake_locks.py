"""A metastore that knows transactions and locks only, with the rules of Hive: as many clients of it as a test wants.

It passes the tests of `metastore_behaviour`, as real ones do. Times move only when the test says so;
`errors` makes calls fail by name, before or after they had their effect.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from acidlib.acid.names import Generation
from acidlib.acid.write_ids import ValidTxnList
from acidlib.errors import ConflictError
from acidlib.metastore.transactions import HeldLock, LockComponent, LockState, LockType, TxnType


@dataclass
class Failure:
    """What a call raises; `after`: it had its effect, and only the answer was lost."""

    error: BaseException
    after: bool = False


@dataclass
class LockServer:
    """The state of the metastore. `now_ms` is the clock of its database.

    `locks` have the first component of each request, `more` the others of those that have several.
    """

    generation: Generation = Generation.HIVE4
    now_ms: int = 1_000_000
    locks: dict[int, HeldLock] = field(default_factory=dict)
    more: dict[int, tuple[HeldLock, ...]] = field(default_factory=dict)
    txns: dict[int, str] = field(default_factory=dict)
    errors: dict[str, list[Failure]] = field(default_factory=lambda: defaultdict(list))
    calls: list[str] = field(default_factory=list)
    last_lock: int = 0
    guard: threading.RLock = field(default_factory=threading.RLock)

    def free(self, wanted: HeldLock) -> bool:
        """Whether no older lock stands in its way."""
        return not any(
            old.lock_id < wanted.lock_id
            and LockType.EXCLUSIVE in (old.type, wanted.type)
            and (old.database, old.table) == (wanted.database, wanted.table)
            and (None in (old.partition, wanted.partition) or old.partition == wanted.partition)
            for old in self.all_locks()
        )

    def all_locks(self) -> list[HeldLock]:
        """Every component of every request."""
        return [part for lock in self.locks.values() for part in (lock, *self.more.get(lock.lock_id, ()))]

    def abort(self, txn_id: int) -> None:
        """As the housekeeper or somebody else would."""
        with self.guard:
            self.txns[txn_id] = "aborted"
            self.locks = {one: lock for one, lock in self.locks.items() if lock.txn_id != txn_id}


class Client:
    """What the locks need of `Hms`."""

    def __init__(self, server: LockServer, user: str = "etl", host: str = "host1") -> None:
        self.server = server
        self.user = user
        self.host = host
        self.closed = False

    @property
    def calls(self) -> Generation:
        return self.server.generation

    names = reader = calls

    def close(self) -> None:
        self.closed = True

    def open_txn(self, kind: TxnType, agent: str) -> int:
        with self._call("open_txn"):
            txn_id = len(self.server.txns) + 1
            self.server.txns[txn_id] = "open"
            return txn_id

    def commit_txn(self, txn_id: int, kind: TxnType) -> None:
        with self._call("commit_txn"):
            if self.calls is Generation.HIVE3:
                self._must_be(f"commit transaction {txn_id}", txn_id, "open")
            else:
                self._must_be(f"commit transaction {txn_id}", txn_id, "open", "committed")
            self.server.abort(txn_id)
            self.server.txns[txn_id] = "committed"

    def abort_txn(self, txn_id: int, kind: TxnType) -> None:
        with self._call("abort_txn"):
            self._must_be(f"abort transaction {txn_id}", txn_id, "open", "aborted")
            self.server.abort(txn_id)

    def open_txns(self) -> ValidTxnList:
        with self._call("open_txns"):
            state = self.server.txns
            opened = tuple((one, one) for one in state if state[one] == "open")
            aborted = tuple((one, one) for one in state if state[one] == "aborted")
            return ValidTxnList(high_water_mark=len(state), opened=opened, aborted=aborted)

    def heartbeat(self, *, txn_id: int | None = None, lock_id: int | None = None) -> None:
        with self._call("heartbeat"):
            if txn_id is not None:
                self._must_be(f"keep transaction {txn_id} alive", txn_id, "open")
            if lock_id is not None:
                found = self._lock(f"keep lock {lock_id} alive", lock_id)
                self.server.locks[lock_id] = replace(found, heartbeat_ms=None if found.txn_id else self.server.now_ms)

    def heartbeat_range(self, first: int, last: int) -> dict[int, str]:
        with self._call("heartbeat_range"):
            states = {txn_id: self.server.txns.get(txn_id) for txn_id in range(first, last + 1)}
            return {txn_id: str(state) for txn_id, state in states.items() if state != "open"}

    def lock(
        self,
        components: Sequence[LockComponent],
        *,
        txn_id: int | None,
        agent: str,
        zero_wait: bool = False,
        may_have_committed: bool = True,
    ) -> tuple[int, LockState]:
        del may_have_committed
        with self._call("lock"):
            if txn_id is not None:
                self._must_be(f"lock {components[0].table}", txn_id, "open")
            self.server.last_lock += 1
            number, (first, *more) = self.server.last_lock, [self._asked(one, txn_id, agent) for one in components]
            if not all(map(self.server.free, (first, *more))) and zero_wait and self.calls is Generation.HIVE4:
                return number, LockState.NOT_ACQUIRED
            self.server.locks[number], self.server.more[number] = first, tuple(more)
            return number, self._granted(number)

    def _asked(self, component: LockComponent, txn_id: int | None, agent: str) -> HeldLock:
        assert component.table is not None
        return HeldLock(
            lock_id=self.server.last_lock,
            database=component.database.lower(),
            table=component.table.lower(),
            partition=self._stored(component.partition),
            type=component.type,
            state=LockState.WAITING,
            txn_id=txn_id,
            user=self.user,
            host=self.host,
            agent=agent,
            heartbeat_ms=None if txn_id else self.server.now_ms,
        )

    def check_lock(self, lock_id: int, *, txn_id: int | None) -> LockState:
        with self._call("check_lock"):
            self._lock(f"check lock {lock_id}", lock_id)
            return self._granted(lock_id)

    def _granted(self, lock_id: int) -> LockState:
        """Grant all components of a request if no older lock stands in the way of any; the state of the request."""
        parts = [self.server.locks[lock_id], *self.server.more.get(lock_id, ())]
        if all(map(self.server.free, parts)):
            first, *more = (self._acquired(part) for part in parts)
            self.server.locks[lock_id], self.server.more[lock_id] = first, tuple(more)
        return self.server.locks[lock_id].state

    def unlock(self, lock_id: int) -> None:
        with self._call("unlock"):
            found = self.server.locks.get(lock_id)
            if found is not None and found.txn_id:
                raise ConflictError(f"Cannot unlock {lock_id}: it belongs to transaction {found.txn_id}")
            self.server.locks.pop(lock_id, None)

    def show_locks(
        self, database: str | None = None, table: str | None = None, partition: str | None = None
    ) -> tuple[HeldLock, ...]:
        with self._call("show_locks"):
            return tuple(
                lock
                for lock in self.server.all_locks()
                if (database is None or database.lower() == lock.database)
                and (table is None or table.lower() == lock.table)
                and (partition is None or self._stored(partition) == lock.partition)
            )

    def _stored(self, partition: str | None) -> str | None:
        """Hive 3.1 keeps the partitions of locks in lower case."""
        return partition.lower() if partition and self.calls is Generation.HIVE3 else partition

    def _acquired(self, lock: HeldLock) -> HeldLock:
        return replace(lock, state=LockState.ACQUIRED, acquired_ms=lock.acquired_ms or self.server.now_ms)

    def _must_be(self, action: str, txn_id: int, *states: str) -> None:
        state = self.server.txns.get(txn_id)
        if state is None or (state == "committed" and self.calls is Generation.HIVE3):
            raise ConflictError(f"Cannot {action}: No such transaction txnid:{txn_id}")
        if state not in states:
            raise ConflictError(f"Cannot {action}: Transaction txnid:{txn_id} already {state}")

    def _lock(self, action: str, lock_id: int) -> HeldLock:
        found = self.server.locks.get(lock_id)
        if found is None:
            raise ConflictError(f"Cannot {action}: No such lock lockid:{lock_id}")
        return found

    def _called(self, name: str) -> Failure | None:
        with self.server.guard:
            self.server.calls.append(name)
            planned = self.server.errors[name]
            return planned.pop(0) if planned else None

    def _call(self, name: str) -> _Call:
        return _Call(self.server, self._called(name))


class _Call:
    """One call, alone on the server, with the failure that was planned for it."""

    def __init__(self, server: LockServer, failure: Failure | None) -> None:
        self._server = server
        self._failure = failure

    def __enter__(self) -> None:
        if self._failure is not None and not self._failure.after:
            raise self._failure.error
        self._server.guard.acquire()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._server.guard.release()
        if self._failure is not None and error is None:
            raise self._failure.error
