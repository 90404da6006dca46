"""A metastore that knows transactions and locks only, with the rules of Hive: as many clients of it as a test wants.

Times move only when the test says so. `errors` makes calls fail by name, before or after they had their effect.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from acidlib.errors import ConflictError
from acidlib.metastore.values import HeldLock, LockComponent, LockState, LockType, OpenTxns, TxnType
from acidlib.model.txnids import ValidTxnList


@dataclass
class Failure:
    """What a call raises; `after`: it had its effect, and only the answer was lost."""

    error: BaseException
    after: bool = False


@dataclass
class LockServer:
    """The state of the metastore. `now_ms` is the clock of its database."""

    zero_wait: bool = True
    now_ms: int = 1_000_000
    locks: dict[int, HeldLock] = field(default_factory=dict)
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
            for old in self.locks.values()
        )

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

    def close(self) -> None:
        self.closed = True

    def open_txn(self, kind: TxnType, agent: str) -> int:
        with self._call("open_txn"):
            txn_id = len(self.server.txns) + 1
            self.server.txns[txn_id] = "open"
            return txn_id

    def commit_txn(self, txn_id: int, kind: TxnType) -> None:
        with self._call("commit_txn"):
            self._must_be(txn_id, "open", "committed")
            self.server.abort(txn_id)
            self.server.txns[txn_id] = "committed"

    def abort_txn(self, txn_id: int, kind: TxnType) -> None:
        with self._call("abort_txn"):
            if self.server.txns.get(txn_id) == "committed":
                raise ConflictError(f"Cannot abort: because Transaction txnid:{txn_id} is already committed.")
            self._must_be(txn_id, "open", "aborted")
            self.server.abort(txn_id)

    def open_txns(self) -> OpenTxns:
        with self._call("open_txns"):
            state = self.server.txns
            opened = tuple((one, one) for one in state if state[one] == "open")
            aborted = tuple((one, one) for one in state if state[one] == "aborted")
            return OpenTxns(
                txns=ValidTxnList(high_water_mark=len(state), opened=opened, aborted=aborted),
                high_water_mark=len(state),
            )

    def heartbeat(self, *, txn_id: int | None = None, lock_id: int | None = None) -> None:
        with self._call("heartbeat"):
            if txn_id is not None:
                self._must_be(txn_id, "open")
            if lock_id is not None:
                self._must_exist(lock_id)
                found = self.server.locks[lock_id]
                self.server.locks[lock_id] = replace(found, heartbeat_ms=self.server.now_ms)

    def lock(
        self, components: Sequence[LockComponent], *, txn_id: int | None, agent: str, zero_wait: bool = False
    ) -> tuple[int, LockState]:
        with self._call("lock"):
            if txn_id is not None:
                self._must_be(txn_id, "open")
            (one,) = components
            self.server.last_lock += 1
            wanted = HeldLock(
                lock_id=self.server.last_lock,
                database=one.database,
                table=one.table,
                partition=one.partition,
                type=one.type,
                state=LockState.WAITING,
                txn_id=txn_id,
                user=self.user,
                host=self.host,
                agent=agent,
                heartbeat_ms=None if txn_id else self.server.now_ms,
            )
            if self.server.free(wanted):
                wanted = replace(wanted, state=LockState.ACQUIRED)
            elif zero_wait and self.server.zero_wait:
                return wanted.lock_id, LockState.NOT_ACQUIRED
            self.server.locks[wanted.lock_id] = wanted
            return wanted.lock_id, wanted.state

    def check_lock(self, lock_id: int, *, txn_id: int | None) -> LockState:
        with self._call("check_lock"):
            self._must_exist(lock_id)
            found = self.server.locks[lock_id]
            if self.server.free(found):
                self.server.locks[lock_id] = replace(found, state=LockState.ACQUIRED)
            return self.server.locks[lock_id].state

    def unlock(self, lock_id: int) -> None:
        with self._call("unlock"):
            self.server.locks.pop(lock_id, None)

    def show_locks(
        self, database: str | None = None, table: str | None = None, partition: str | None = None
    ) -> tuple[HeldLock, ...]:
        with self._call("show_locks"):
            return tuple(
                lock
                for lock in self.server.locks.values()
                if database in (None, lock.database) and table in (None, lock.table)
            )

    def _must_be(self, txn_id: int, *states: str) -> None:
        state = self.server.txns.get(txn_id)
        if state is None:
            raise ConflictError(f"Cannot go on: because No such transaction txnid:{txn_id}")
        if state not in states:
            raise ConflictError(f"Cannot go on: because Transaction txnid:{txn_id} already {state}")

    def _must_exist(self, lock_id: int) -> None:
        if lock_id not in self.server.locks:
            raise ConflictError(f"Cannot go on: because No such lock lockid:{lock_id}")

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
