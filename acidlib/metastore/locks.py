"""The calls about locks: asking for them, giving them up, and showing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from acidlib.errors import CorruptError, RefusedError
from acidlib.metastore.failover import Calls
from acidlib.metastore.idl import required
from acidlib.metastore.values import HeldLock, LockComponent, LockState, LockType

# Hive `LockLevel` and `DataOperationType`
_DATABASE, _TABLE, _PARTITION = 1, 2, 3
_SELECT, _UPDATE, _NO_TXN = 1, 3, 6


class LockCalls(Calls):
    """Locks. All calls but `lock` are repeated when a connection is lost."""

    def lock(
        self,
        components: Sequence[LockComponent],
        *,
        txn_id: int | None,
        agent: str,
        zero_wait: bool = False,
        may_have_committed: bool = True,
    ) -> tuple[int, LockState]:
        """Asks for locks, all or none, and gives the id of the request and what became of it.

        A request that is WAITING holds its place: ask again with `check_lock`, or give it up with `unlock`. With
        `zero_wait` (Hive 4; no effect on 3.1) a SHARED_READ that would have to wait is NOT_ACQUIRED instead. Whoever
        has just opened the transaction knows that nobody `may_have_committed` it, and saves a question. Raises
        RefusedError for a type of lock that Hive 3.1 does not have, ConflictError when the transaction has ended,
        UnknownOutcomeError when the answer is lost: the locks may then be held until a timeout without heartbeats.
        """
        action = f"lock {_description(components)}"
        if not self._is_hive4 and any(component.type is LockType.EXCL_WRITE for component in components):
            raise RefusedError(f"Cannot {action}: because a Hive 3.1 metastore has no EXCL_WRITE locks")
        if txn_id is not None and self._is_hive4 and may_have_committed:
            # Hive 4 refuses one that was aborted, but grants locks to a committed one, and nothing ever ends them
            self._read(action, "heartbeat", self._types.HeartbeatRequest(txnid=txn_id))
        request = self._types.LockRequest(
            component=[self._component(component) for component in components],
            txnid=txn_id,
            user=self._client.user,
            hostname=self._client.host,
            agentInfo=agent,
            zeroWaitReadEnabled=zero_wait if self._is_hive4 else None,
        )
        answer = self._client.call(action, "lock", request)
        return answer.lockid, _state(answer.state, "lock")

    def check_lock(self, lock_id: int, *, txn_id: int | None) -> LockState:
        """The state of a request; asking counts as a heartbeat. Raises ConflictError when there is no such lock."""
        request = self._types.CheckLockRequest(lockid=lock_id, txnid=txn_id)
        return _state(self._read(f"check lock {lock_id}", "check_lock", request).state, "check_lock")

    def unlock(self, lock_id: int) -> None:
        """Gives up locks that belong to no transaction, and a request that is waiting; what does not exist is no error.

        Raises ConflictError for locks that a transaction holds: they end with it.
        """
        request = self._types.UnlockRequest(lockid=lock_id)
        self._client.call(f"unlock {lock_id}", "unlock", request, missing="NoSuchLockException")

    def show_locks(
        self, database: str | None = None, table: str | None = None, partition: str | None = None
    ) -> tuple[HeldLock, ...]:
        """The locks on a partition, on a table and its partitions, on a database and all in it, or all there are.

        Hive 3.1 keeps the partitions of locks in lower case: there `partition` is compared and returned so.
        """
        call = "show_locks"
        if partition is not None and not self._is_hive4:
            partition = partition.lower()
        request = self._types.ShowLocksRequest(
            dbname=database.lower() if database is not None else None,
            tablename=table.lower() if table is not None else None,
            partname=partition,
        )
        answer = self._read("read the locks", call, request)
        return tuple(_held_lock_of(row, call) for row in required(answer.locks, call, "locks"))

    def _component(self, component: LockComponent) -> Any:
        if component.partition is not None and component.table is None:
            raise RefusedError(f"Cannot lock {component.partition}: because its table is not named")
        operation = _UPDATE if component.updates else _SELECT if component.transactional else _NO_TXN
        level = _DATABASE if component.table is None else _TABLE if component.partition is None else _PARTITION
        return self._types.LockComponent(
            type=component.type.value,
            level=level,
            dbname=component.database.lower(),
            tablename=component.table.lower() if component.table is not None else None,
            partitionname=component.partition,
            operationType=operation,
            isTransactional=component.transactional,
        )


def _held_lock_of(row: Any, call: str) -> HeldLock:
    return HeldLock(
        lock_id=row.lockid,
        database=row.dbname,
        table=row.tablename,
        partition=row.partname,
        state=_state(row.state, call),
        type=_type(row.type, call),
        txn_id=row.txnid or None,
        user=row.user,
        host=row.hostname,
        acquired_ms=row.acquiredat or None,
        heartbeat_ms=row.lastheartbeat or None,
        agent=row.agentInfo,
    )


def _state(number: int, call: str) -> LockState:
    try:
        return LockState(number)
    except ValueError:
        raise CorruptError(f"Cannot read the answer of {call}: because there is no lock state {number}") from None


def _type(number: int, call: str) -> LockType:
    try:
        return LockType(number)
    except ValueError:
        raise CorruptError(f"Cannot read the answer of {call}: because there is no lock type {number}") from None


def _description(components: Sequence[LockComponent]) -> str:
    return ", ".join(
        ".".join(
            part for part in (component.database.lower(), (component.table or "").lower(), component.partition) if part
        )
        for component in components
    )
