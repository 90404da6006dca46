"""The calls about transactions and write ids, and the lists of ids in their answers: which are open, which aborted.

Source: Hive `TxnCommonUtils`; the bits are those of `java.util.BitSet`: bit i of byte i / 8, lowest first, belongs to
entry i of the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from acidlib.errors import CorruptError
from acidlib.metastore.failover import Calls
from acidlib.metastore.values import OpenTxn, OpenTxns, TxnType
from acidlib.model.names import LONG_MAX
from acidlib.model.txnids import IdRange, ValidTxnList
from acidlib.model.writeids import ValidWriteIdList

_TABLES_PER_CALL = 100
_STATES = {2: "aborted", 3: "open"}


class TransactionCalls(Calls):
    """Transactions. Reads, heartbeats, commit and abort are repeated when a connection is lost, opening is not."""

    def open_txns(self, *, exclude_readers: bool = False) -> OpenTxns:
        """The open and aborted transactions; with `exclude_readers` without READ_ONLY ones (no effect on Hive 3.1)."""
        action = "read the open transactions"
        if not self._is_hive4:
            return _open_txns_of(self._read(action, "get_open_txns"), "get_open_txns")
        # Hive 4's get_open_txns leaves the readers out, and get_open_txns_req fails without a list of types
        call = "get_open_txns_req"
        request = self._types.GetOpenTxnsRequest(excludeTxnTypes=[TxnType.READ_ONLY.value] if exclude_readers else [])
        return _open_txns_of(self._read(action, call, request), call)

    def open_txns_info(self) -> tuple[OpenTxn, ...]:
        """The open and aborted transactions with who opened them and when, by id."""
        call = "get_open_txns_info"
        answer = self._read("read the open transactions", call)
        return tuple(sorted((_open_txn_of(info, call) for info in answer.open_txns), key=lambda txn: txn.id))

    def valid_write_ids(
        self, names: Sequence[tuple[str, str]], txns: ValidTxnList
    ) -> dict[tuple[str, str], ValidWriteIdList]:
        """Which write ids of tables, given as (database, table), are valid in a snapshot of the transactions.

        A table that never had a write id, and one that does not exist, has a high-water mark of 0. Raises
        CorruptError when a table is missing in the answer.
        """
        # Hive 3.1 does not read ranges; a list that is missing means "all is committed" to it
        text = (txns if self._is_hive4 else _without_ranges(txns)).format()
        wanted = list(dict.fromkeys((database.lower(), table.lower()) for database, table in names))
        found: dict[tuple[str, str], ValidWriteIdList] = {}
        for start in range(0, len(wanted), _TABLES_PER_CALL):
            batch = wanted[start : start + _TABLES_PER_CALL]
            found.update(self._valid_write_ids(batch, text))
        return found

    def open_txn(self, kind: TxnType, agent: str, host: str | None = None) -> int:
        """Opens a transaction and gives its id; SHOW TRANSACTIONS shows its host, this one unless another is given.

        Raises UnknownOutcomeError when the answer is lost: a transaction of this user and host may then be open, and
        the server aborts it when it gets no heartbeats.
        """
        call = "open_txns"
        request = self._types.OpenTxnRequest(
            num_txns=1,
            user=self._client.user,
            hostname=host or self._client.host,
            agentInfo=agent,
            txn_type=kind.value if self._is_hive4 else None,
        )
        answer = self._client.call("open a transaction", call, request)
        if len(answer.txn_ids) != 1:
            raise CorruptError(
                f"Cannot read the answer of {call}: because it has {len(answer.txn_ids)} ids instead of 1"
            )
        return int(answer.txn_ids[0])

    def commit_txn(self, txn_id: int, kind: TxnType) -> None:
        """Commits a transaction.

        Raises ConflictError when it was aborted or is unknown, UnknownOutcomeError when no answer comes. Hive 4
        takes a second commit of one transaction without an error; Hive 3.1 forgets one that wrote nothing: there the
        outcome is unknown after a lost answer.
        """
        request = self._types.CommitTxnRequest(txnid=txn_id, txn_type=kind.value if self._is_hive4 else None)
        self._client.call(f"commit transaction {txn_id}", "commit_txn", request)

    def abort_txn(self, txn_id: int, kind: TxnType) -> None:
        """Aborts a transaction; one that is aborted already is no error.

        Raises ConflictError when it is committed or unknown, UnknownOutcomeError when no answer comes.
        """
        request = self._types.AbortTxnRequest(txnid=txn_id, txn_type=kind.value if self._is_hive4 else None)
        self._client.call(f"abort transaction {txn_id}", "abort_txn", request)

    def heartbeat(self, *, txn_id: int | None = None, lock_id: int | None = None) -> None:
        """Tells the server that the holder of a transaction, a lock or both is alive.

        Raises ConflictError when one of them does not exist any more.
        """
        request = self._types.HeartbeatRequest(lockid=lock_id, txnid=txn_id)
        self._read(f"keep {_description(txn_id, lock_id)} alive", "heartbeat", request)

    def allocate_write_id(self, txn_id: int, database: str, table: str) -> int:
        """The write id of a transaction on a table; every call for the same two gives the same."""
        database, table = database.lower(), table.lower()
        call = "allocate_table_write_ids"
        request = self._types.AllocateTableWriteIdsRequest(dbName=database, tableName=table, txnIds=[txn_id])
        action = f"get a write id of {database}.{table} for transaction {txn_id}"
        answer = self._client.call(action, call, request)
        for row in answer.txnToWriteIds:
            if row.txnId == txn_id:
                return int(row.writeId)
        raise CorruptError(f"Cannot read the answer of {call}: because transaction {txn_id} is missing")

    def add_write_ids_to_min_history(self, txn_id: int, write_ids: Mapping[str, int]) -> None:
        """Registers the lowest open write id that a transaction sees of tables, named `database.table` (Hive 4 only).

        It has an effect where `metastore.txn.use.minhistorywriteid` is true: the cleaner then keeps what it needs.
        """
        action = f"register what transaction {txn_id} reads"
        self._require_hive4(action)
        lowest = {name.lower(): write_id for name, write_id in write_ids.items()}
        self._client.call(action, "add_write_ids_to_min_history", txn_id, lowest)

    def _valid_write_ids(self, names: Sequence[tuple[str, str]], txns: str) -> dict[tuple[str, str], ValidWriteIdList]:
        call = "get_valid_write_ids"
        full_names = {f"{database}.{table}": (database, table) for database, table in names}
        request = self._types.GetValidWriteIdsRequest(fullTableNames=list(full_names), validTxnList=txns)
        answer = self._read(f"read the write ids of {_names_of(list(full_names))}", call, request)
        lists = {row.fullTableName.lower(): row for row in answer.tblValidWriteIds}
        for full_name in full_names:
            if full_name not in lists:
                raise CorruptError(f"Cannot read the answer of {call}: because the table {full_name} is missing")
        return {name: _write_ids_of(lists[full_name], full_name, call) for full_name, name in full_names.items()}


def _open_txn_of(info: Any, call: str) -> OpenTxn:
    state = _STATES.get(info.state)
    if state is None:
        raise CorruptError(f"Cannot read the answer of {call}: because transaction {info.id} is in state {info.state}")
    return OpenTxn(
        id=info.id,
        state=state,
        user=info.user,
        host=info.hostname,
        started_ms=info.startedTime or None,
        heartbeat_ms=info.lastHeartbeatTime or None,
    )


def _description(txn_id: int | None, lock_id: int | None) -> str:
    held = [f"transaction {txn_id}"] if txn_id is not None else []
    held += [f"lock {lock_id}"] if lock_id is not None else []
    return " and ".join(held) or "nothing"


def _names_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more tables"


def _open_txns_of(answer: Any, call: str) -> OpenTxns:
    """The snapshot of a GetOpenTxnsResponse; raises CorruptError when its bits do not fit its ids."""
    opened, aborted = _open_and_aborted(answer.open_txns, answer.abortedBits, call)
    mark = answer.txn_high_water_mark
    return OpenTxns(
        txns=ValidTxnList(high_water_mark=mark, opened=_ranges(opened), aborted=_ranges(aborted)), high_water_mark=mark
    )


def _write_ids_of(answer: Any, full_name: str, call: str) -> ValidWriteIdList:
    """The list of a TableValidWriteIds; raises CorruptError when its bits do not fit its ids."""
    opened, aborted = _open_and_aborted(answer.invalidWriteIds, answer.abortedBits, call)
    lowest = answer.minOpenWriteId
    return ValidWriteIdList(
        table=full_name,
        high_water_mark=answer.writeIdHighWaterMark,
        open_ids=tuple(opened),
        aborted_ids=tuple(aborted),
        min_open=LONG_MAX if lowest is None or lowest < 0 else lowest,
    )


def _without_ranges(txns: ValidTxnList) -> ValidTxnList:
    """The same list with each id on its own."""
    return ValidTxnList(
        high_water_mark=txns.high_water_mark, opened=_each_alone(txns.opened), aborted=_each_alone(txns.aborted)
    )


def _open_and_aborted(ids: Sequence[int], data: bytes, call: str) -> tuple[list[int], list[int]]:
    flags = int.from_bytes(data, "little")
    if flags.bit_length() > len(ids):
        raise CorruptError(
            f"Cannot read the answer of {call}: because it marks entry {flags.bit_length()} of {len(ids)} as aborted"
        )
    opened: list[int] = []
    aborted: list[int] = []
    for index, number in enumerate(ids):
        at = index >> 3
        is_aborted = at < len(data) and data[at] >> (index & 7) & 1
        (aborted if is_aborted else opened).append(number)
    return opened, aborted


def _ranges(ids: Iterable[int]) -> tuple[IdRange, ...]:
    ranges: list[IdRange] = []
    for number in sorted(ids):
        if ranges and number <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return tuple(ranges)


def _each_alone(ranges: Iterable[IdRange]) -> tuple[IdRange, ...]:
    return tuple((number, number) for low, high in ranges for number in range(low, high + 1))
