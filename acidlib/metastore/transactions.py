"""Transactions, write ids and locks of a metastore: their values, and the calls about them.

Source of the names and numbers: Hive `hive_metastore.thrift`; of the lists of ids: Hive `TxnCommonUtils`, whose bits
are those of `java.util.BitSet`: bit i % 8 of byte i / 8, lowest first, belongs to entry i of the list.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from acidlib.acid.names import LONG_MAX
from acidlib.acid.write_ids import ValidTxnList, ValidWriteIdList
from acidlib.errors import CorruptError, RefusedError
from acidlib.metastore.connection import MetastoreClient, portions_of, required
from acidlib.model.tables import TableRef

E = TypeVar("E", bound=enum.Enum)
_TABLES_PER_CALL = 100
_TXN_STATES = {2: "aborted", 3: "open"}
# Hive `LockLevel` and `DataOperationType`
_DATABASE, _TABLE, _PARTITION = 1, 2, 3
_SELECT, _UPDATE, _NO_TXN = 1, 3, 6


class LockState(enum.Enum):
    """The state of a request for a lock; the value is the number on the wire."""

    ACQUIRED = 1
    WAITING = 2
    ABORT = 3
    NOT_ACQUIRED = 4


class LockType(enum.Enum):
    """The strength of a lock; the value is the number on the wire. EXCL_WRITE exists in Hive 4 only."""

    SHARED_READ = 1
    SHARED_WRITE = 2
    EXCLUSIVE = 3
    EXCL_WRITE = 4


class TxnType(enum.Enum):
    """The kinds of transactions that are opened here; the value is the number on the wire. Hive 3.1 has no kinds."""

    DEFAULT = 0
    READ_ONLY = 2
    COMPACTION = 3
    REBALANCE_COMPACTION = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class LockComponent:
    """A database to lock, a table (with `table`) or a partition (with both, as `k=v/k2=v2`).

    transactional  the lock is for a read in a transaction (operation SELECT), else for none (NO_TXN)
    updates        the lock is for an update in a transaction (UPDATE): at its commit the server notes a change of the
                   table's data, and writers that have read rows before read them again. Only a rebalance sets it
    """

    type: LockType
    database: str
    table: str | None = None
    partition: str | None = None
    transactional: bool = False
    updates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLock:
    """A lock that is granted or waits. Times are epoch milliseconds of the server's database.

    `heartbeat_ms` is None for a lock of a transaction, with which it ends.
    """

    lock_id: int
    database: str
    table: str | None = None
    partition: str | None = None
    state: LockState
    type: LockType
    txn_id: int | None = None
    user: str
    host: str
    acquired_ms: int | None = None
    heartbeat_ms: int | None = None
    agent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTxn:
    """A transaction; `state` is `open` or `aborted`. Times are epoch milliseconds."""

    id: int
    state: str
    user: str
    host: str
    started_ms: int | None = None
    heartbeat_ms: int | None = None


_WORDS: Mapping[type[enum.Enum], str] = {LockState: "lock state", LockType: "lock type"}


class TransactionCalls(MetastoreClient):
    """Transactions, write ids and locks.

    Calls that open a transaction or request locks are never repeated once sent, all others are.
    """

    def open_txns(self, *, exclude_readers: bool = False) -> ValidTxnList:
        """Return the open and aborted transactions; with `exclude_readers` without READ_ONLY ones (only on Hive 4)."""
        action = "read the open transactions"
        if not self._is_hive4:
            return _open_txns_of(self.call(action, "get_open_txns"), "get_open_txns")
        # Hive 4's get_open_txns leaves the readers out, and get_open_txns_req fails without a list of types
        call = "get_open_txns_req"
        request = self._types.GetOpenTxnsRequest(excludeTxnTypes=[TxnType.READ_ONLY.value] if exclude_readers else [])
        return _open_txns_of(self.call(action, call, request), call)

    def open_txns_info(self) -> tuple[OpenTxn, ...]:
        """Return the open and aborted transactions by id, with their users, hosts and times."""
        call = "get_open_txns_info"
        txns = []
        for info in self.call("read the open transactions", call).open_txns:
            state = _TXN_STATES.get(info.state)
            if state is None:
                raise CorruptError(f"Cannot read the answer of {call}: transaction {info.id} is in state {info.state}")
            txns.append(
                OpenTxn(
                    id=info.id,
                    state=state,
                    user=info.user,
                    host=info.hostname,
                    started_ms=info.startedTime or None,
                    heartbeat_ms=info.lastHeartbeatTime or None,
                )
            )
        return tuple(sorted(txns, key=lambda txn: txn.id))

    def valid_write_ids(self, tables: Sequence[TableRef], txns: ValidTxnList) -> dict[TableRef, ValidWriteIdList]:
        """Return the valid write ids of tables in a snapshot of the transactions.

        A table that never had a write id, and one that does not exist, has a high-water mark of 0. Raises
        CorruptError when a table is missing in the answer.
        """
        call = "get_valid_write_ids"
        lists: dict[TableRef, ValidWriteIdList] = {}
        for batch in portions_of((ref.as_stored for ref in tables), _TABLES_PER_CALL):
            # a missing list means "all transactions are committed" to Hive 3.1
            request = self._types.GetValidWriteIdsRequest(
                fullTableNames=[str(ref) for ref in batch], validTxnList=txns.format(as_ranges=self._is_hive4)
            )
            names = f"{batch[0]} and {len(batch) - 1} more tables" if len(batch) > 1 else batch[0]
            answer = self.call(f"read the write ids of {names}", call, request)
            rows = {row.fullTableName.lower(): row for row in answer.tblValidWriteIds}
            for ref in batch:
                row = rows.get(str(ref))
                if row is None:
                    raise CorruptError(f"Cannot read the answer of {call}: the table {ref} is missing")
                opened, aborted = _open_and_aborted(row.invalidWriteIds, row.abortedBits, call)
                lowest = row.minOpenWriteId
                lists[ref] = ValidWriteIdList(
                    table=str(ref),
                    high_water_mark=row.writeIdHighWaterMark,
                    open_ids=tuple(opened),
                    aborted_ids=tuple(aborted),
                    min_open=LONG_MAX if lowest is None or lowest < 0 else lowest,
                )
        return lists

    def open_txn(self, kind: TxnType, agent: str, host: str | None = None) -> int:
        """Open a transaction and return its id; SHOW TRANSACTIONS shows its `host`, by default this one.

        Raises UnknownOutcomeError when the answer is lost: a transaction of this user and host may then be open, and
        the server aborts it since it gets no heartbeats.
        """
        call = "open_txns"
        request = self._types.OpenTxnRequest(
            num_txns=1,
            user=self.user,
            hostname=host or self.host,
            agentInfo=agent,
            txn_type=kind.value if self._is_hive4 else None,
        )
        answer = self.call("open a transaction", call, request)
        if len(answer.txn_ids) != 1:
            raise CorruptError(f"Cannot read the answer of {call}: it has {len(answer.txn_ids)} ids instead of 1")
        return int(answer.txn_ids[0])

    def commit_txn(self, txn_id: int, kind: TxnType) -> None:
        """Commit a transaction.

        Raises ConflictError when it was aborted or is unknown, UnknownOutcomeError when no answer comes. Hive 4
        accepts a second commit of a transaction without an error; Hive 3.1 forgets a transaction that wrote nothing, so
        the outcome of a commit without an answer is unknown there.
        """
        request = self._types.CommitTxnRequest(txnid=txn_id, txn_type=kind.value if self._is_hive4 else None)
        self.call(f"commit transaction {txn_id}", "commit_txn", request)

    def abort_txn(self, txn_id: int, kind: TxnType) -> None:
        """Abort a transaction; an aborted one is no error.

        Raises ConflictError when it is committed or unknown, UnknownOutcomeError when no answer comes.
        """
        request = self._types.AbortTxnRequest(txnid=txn_id, txn_type=kind.value if self._is_hive4 else None)
        self.call(f"abort transaction {txn_id}", "abort_txn", request)

    def heartbeat(self, *, txn_id: int | None = None, lock_id: int | None = None) -> None:
        """Tell the server that the holder of a transaction, a lock or both is alive.

        Raises ConflictError when one of them does not exist any more.
        """
        request = self._types.HeartbeatRequest(lockid=lock_id, txnid=txn_id)
        ids = (("transaction", txn_id), ("lock", lock_id))
        names = " and ".join(f"{name} {number}" for name, number in ids if number is not None)
        self.call(f"keep {names or 'nothing'} alive", "heartbeat", request)

    def heartbeat_range(self, first: int, last: int) -> dict[int, str]:
        """Tell the server that the holder of all transactions of a range is alive; return what became of lost ones.

        Transactions of others in the range would be kept alive, too.
        """
        call = "heartbeat_txn_range"
        request = self._types.HeartbeatTxnRangeRequest(min=first, max=last)
        answer = self.call(f"keep the transactions {first} to {last} alive", call, request)
        return dict.fromkeys(answer.aborted, "it was aborted") | dict.fromkeys(answer.nosuch, "No such transaction")

    def allocate_write_id(self, txn_id: int, ref: TableRef) -> int:
        """Return the write id of a transaction for a table, always the same one."""
        ref = ref.whole_table.as_stored
        call = "allocate_table_write_ids"
        request = self._types.AllocateTableWriteIdsRequest(dbName=ref.database, tableName=ref.table, txnIds=[txn_id])
        action = f"get a write id of {ref} for transaction {txn_id}"
        answer = self.call(action, call, request)
        for row in answer.txnToWriteIds:
            if row.txnId == txn_id:
                return int(row.writeId)
        raise CorruptError(f"Cannot read the answer of {call}: transaction {txn_id} is missing")

    def add_write_ids_to_min_history(self, txn_id: int, write_ids: Mapping[str, int]) -> None:
        """Register the lowest open write id that a transaction sees of tables, named `database.table` (Hive 4 only).

        If `metastore.txn.use.minhistorywriteid` is true, the cleaner keeps the files that the transaction needs.
        """
        lowest = {name.lower(): write_id for name, write_id in write_ids.items()}
        self.call(f"register the reads of transaction {txn_id}", "add_write_ids_to_min_history", txn_id, lowest)

    def lock(
        self,
        components: Sequence[LockComponent],
        *,
        txn_id: int | None,
        agent: str,
        zero_wait: bool = False,
        may_have_committed: bool = True,
    ) -> tuple[int, LockState]:
        """Request locks, all or none; return the id and the state of the request.

        zero_wait           a SHARED_READ lock that would have to wait is NOT_ACQUIRED instead (no effect on Hive 3.1)
        may_have_committed  the transaction may have ended; False saves a call where it has just been opened

        A WAITING request keeps its position: check it with `check_lock`, or end it with `unlock`. Raises RefusedError
        for a type of lock that Hive 3.1 does not have, ConflictError when the transaction has ended, and
        UnknownOutcomeError when the answer is lost: the locks may then be held until their timeout.
        """
        names = [(part.database.lower(), (part.table or "").lower(), part.partition) for part in components]
        action = f"lock {', '.join('.'.join(filter(None, name)) for name in names)}"
        if not self._is_hive4 and any(component.type is LockType.EXCL_WRITE for component in components):
            raise RefusedError(f"Cannot {action}: a Hive 3.1 metastore has no EXCL_WRITE locks")
        if txn_id is not None and self._is_hive4 and may_have_committed:
            # Hive 4 refuses an aborted transaction, but grants a committed one locks that nothing ever ends
            self.call(action, "heartbeat", self._types.HeartbeatRequest(txnid=txn_id))
        request = self._types.LockRequest(
            component=[
                self._types.LockComponent(
                    type=part.type.value,
                    level=_DATABASE if part.table is None else _TABLE if part.partition is None else _PARTITION,
                    dbname=part.database.lower(),
                    tablename=part.table.lower() if part.table is not None else None,
                    partitionname=part.partition,
                    operationType=_UPDATE if part.updates else _SELECT if part.transactional else _NO_TXN,
                    isTransactional=part.transactional,
                )
                for part in components
            ],
            txnid=txn_id,
            user=self.user,
            hostname=self.host,
            agentInfo=agent,
            zeroWaitReadEnabled=zero_wait if self._is_hive4 else None,
        )
        answer = self.call(action, "lock", request)
        return answer.lockid, _lock_value(LockState, answer.state, "lock")

    def check_lock(self, lock_id: int, *, txn_id: int | None) -> LockState:
        """Return the state of a request; the call counts as a heartbeat. ConflictError when there is no such lock."""
        request = self._types.CheckLockRequest(lockid=lock_id, txnid=txn_id)
        return _lock_value(LockState, self.call(f"check lock {lock_id}", "check_lock", request).state, "check_lock")

    def unlock(self, lock_id: int) -> None:
        """Release locks without a transaction, or end a waiting request; one that does not exist is no error.

        Raises ConflictError for locks that a transaction holds: they end with it.
        """
        request = self._types.UnlockRequest(lockid=lock_id)
        self.call(f"unlock {lock_id}", "unlock", request, missing="NoSuchLockException")

    def show_locks(
        self, database: str | None = None, table: str | None = None, partition: str | None = None
    ) -> tuple[HeldLock, ...]:
        """Return the locks on a partition, on a table and its partitions, on a database and everything in it, or all.

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
        answer = self.call("read the locks", call, request)
        return tuple(
            HeldLock(
                lock_id=row.lockid,
                database=row.dbname,
                table=row.tablename,
                partition=row.partname,
                state=_lock_value(LockState, row.state, call),
                type=_lock_value(LockType, row.type, call),
                txn_id=row.txnid or None,
                user=row.user,
                host=row.hostname,
                acquired_ms=row.acquiredat or None,
                heartbeat_ms=row.lastheartbeat or None,
                agent=row.agentInfo or "",
            )
            for row in required(answer.locks, call, "locks")
        )


def _open_txns_of(answer: Any, call: str) -> ValidTxnList:
    """Return the snapshot of a GetOpenTxnsResponse; raise CorruptError when its bits do not fit its ids."""
    opened, aborted = _open_and_aborted(answer.open_txns, answer.abortedBits, call)
    return ValidTxnList(
        high_water_mark=answer.txn_high_water_mark,
        opened=tuple((txn, txn) for txn in opened),
        aborted=tuple((txn, txn) for txn in aborted),
    )


def _open_and_aborted(ids: Sequence[int], data: bytes, call: str) -> tuple[list[int], list[int]]:
    flags = int.from_bytes(data, "little")
    if flags.bit_length() > len(ids):
        raise CorruptError(
            f"Cannot read the answer of {call}: it marks entry {flags.bit_length()} of {len(ids)} as aborted"
        )
    opened: list[int] = []
    aborted: list[int] = []
    for index, number in enumerate(ids):
        at = index >> 3
        is_aborted = at < len(data) and data[at] >> (index & 7) & 1
        (aborted if is_aborted else opened).append(number)
    return opened, aborted


def _lock_value(kind: type[E], number: int, call: str) -> E:
    try:
        return kind(number)
    except ValueError:
        raise CorruptError(f"Cannot read the answer of {call}: there is no {_WORDS[kind]} {number}") from None
