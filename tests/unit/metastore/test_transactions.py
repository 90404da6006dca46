"""Transactions, write ids and locks: the requests to a metastore, and the values of its answers."""

from __future__ import annotations

from typing import Any

import pytest
from fake_metastore import TYPES, FakeMetastore, connected, raises, recorded

from acidlib.acid.names import LONG_MAX, Generation
from acidlib.acid.write_ids import ValidTxnList
from acidlib.errors import CorruptError, RefusedError
from acidlib.metastore.transactions import HeldLock, LockComponent, LockState, LockType, TxnType
from acidlib.model.tables import TableRef


def bits(*numbers: int) -> bytes:
    return sum(1 << number for number in numbers).to_bytes(max(numbers, default=-1) // 8 + 1, "little")


def test_hive_4_is_always_asked_which_kinds_to_leave_out(hive4: FakeMetastore) -> None:
    # without a list it fails, and its older call leaves readers out
    asked: list[Any] = []
    answer = TYPES.GetOpenTxnsResponse(txn_high_water_mark=4, open_txns=[], abortedBits=b"")
    hive4.answers["get_open_txns_req"] = recorded(asked, answer)
    with connected(hive4) as found:
        found.open_txns()
        found.open_txns(exclude_readers=True)
    assert [request.excludeTxnTypes for request in asked] == [[], [2]]


def test_open_and_aborted_are_told_apart_over_many_bytes(hive3: FakeMetastore) -> None:
    ids = [3, 4, 5, 8, *range(20, 40)]
    aborted = (1, 3, 8, 23)
    answer = TYPES.GetOpenTxnsResponse(txn_high_water_mark=50, open_txns=ids, abortedBits=bits(*aborted))
    hive3.answers["get_open_txns"] = lambda: answer
    with connected(hive3) as found:
        read = found.open_txns(exclude_readers=True)
    assert read == ValidTxnList(
        high_water_mark=50, opened=((3, 3), (5, 5), (20, 23), (25, 38)), aborted=((4, 4), (8, 8), (24, 24), (39, 39))
    )
    assert read.min_open == 3


def test_bits_for_ids_that_are_not_there_are_an_error(hive3: FakeMetastore) -> None:
    answer = TYPES.GetOpenTxnsResponse(txn_high_water_mark=9, open_txns=[3, 7], abortedBits=b"\x04")
    hive3.answers["get_open_txns"] = lambda: answer
    with connected(hive3) as found, pytest.raises(CorruptError, match="it marks entry 3 of 2 as aborted"):
        found.open_txns()


def valid(name: str, **changes: object) -> Any:
    row = {"fullTableName": name, "writeIdHighWaterMark": 9, "invalidWriteIds": [], "abortedBits": b""}
    return TYPES.TableValidWriteIds(**(row | changes))


def test_write_ids(hive4: FakeMetastore) -> None:
    rows = [
        valid("D.U", minOpenWriteId=-1),
        valid("d.t", invalidWriteIds=[2, 4, 6], abortedBits=b"\x02", minOpenWriteId=2),
        valid("d.other"),
    ]
    hive4.answers["get_valid_write_ids"] = lambda request: TYPES.GetValidWriteIdsResponse(tblValidWriteIds=rows)
    with connected(hive4) as found:
        read = found.valid_write_ids(
            [TableRef("D", "T"), TableRef("d", "u"), TableRef("d", "t")], ValidTxnList(high_water_mark=5)
        )
    assert list(read) == [TableRef("d", "t"), TableRef("d", "u")]
    first, second = read.values()
    assert (first.table, first.open_ids, first.aborted_ids, first.min_open) == ("d.t", (2, 6), (4,), 2)
    assert (second.high_water_mark, second.min_open) == (9, LONG_MAX)


def test_a_table_that_the_answer_leaves_out_is_an_error(hive4: FakeMetastore) -> None:
    answer = TYPES.GetValidWriteIdsResponse(tblValidWriteIds=[valid("d.t")])
    hive4.answers["get_valid_write_ids"] = lambda request: answer
    with connected(hive4) as found, pytest.raises(CorruptError, match=r"the table d\.u is missing$"):
        found.valid_write_ids([TableRef("d", "t"), TableRef("d", "u")], ValidTxnList(high_water_mark=5))


@pytest.mark.parametrize(("generation", "text"), [(3, "9:2:2,3,4:6,7"), (4, "9:2:2-4:6-7")])
def test_hive_3_gets_no_ranges(generation: int, text: str) -> None:
    asked: list[Any] = []
    with FakeMetastore(Generation(generation)) as server, connected(server) as found:
        answer = TYPES.GetValidWriteIdsResponse(tblValidWriteIds=[valid("d.t")])
        server.answers["get_valid_write_ids"] = recorded(asked, answer)
        found.valid_write_ids(
            [TableRef("d", "t")], ValidTxnList(high_water_mark=9, opened=((2, 4),), aborted=((6, 7),))
        )
    assert asked[0].validTxnList == text


@pytest.mark.parametrize(("generation", "kind"), [(3, None), (4, 3)])
def test_the_kind_of_a_transaction_is_for_hive_4(generation: int, kind: int | None) -> None:
    asked: list[Any] = []
    with FakeMetastore(Generation(generation)) as server, connected(server) as found:
        server.answers["open_txns"] = recorded(asked, TYPES.OpenTxnsResponse(txn_ids=[5]))
        server.answers["commit_txn"] = server.answers["abort_txn"] = recorded(asked, None)
        assert found.open_txn(TxnType.COMPACTION, "agent") == 5
        found.commit_txn(5, TxnType.COMPACTION)
        found.abort_txn(5, TxnType.COMPACTION)
    opened, committed, aborted = asked
    assert (opened.num_txns, opened.user, opened.hostname, opened.agentInfo) == (1, "joe", "here", "agent")
    assert [request.txn_type for request in asked] == [kind] * 3
    assert (committed.txnid, aborted.txnid) == (5, 5)


def test_an_answer_without_a_transaction_or_write_id_is_an_error(hive4: FakeMetastore) -> None:
    hive4.answers["open_txns"] = lambda request: TYPES.OpenTxnsResponse(txn_ids=[])
    row = TYPES.TxnToWriteId(txnId=6, writeId=1)
    answer = TYPES.AllocateTableWriteIdsResponse(txnToWriteIds=[row])
    hive4.answers["allocate_table_write_ids"] = lambda request: answer
    info = TYPES.TxnInfo(id=1, state=1, user="u", hostname="h")
    hive4.answers["get_open_txns_info"] = lambda: TYPES.GetOpenTxnsInfoResponse(open_txns=[info])
    with connected(hive4) as found:
        with pytest.raises(CorruptError, match="it has 0 ids instead of 1"):
            found.open_txn(TxnType.DEFAULT, "agent")
        assert found.allocate_write_id(6, TableRef("D", "T")) == 1
        with pytest.raises(CorruptError, match="transaction 5 is missing"):
            found.allocate_write_id(5, TableRef("D", "T"))
        with pytest.raises(CorruptError, match="transaction 1 is in state 1"):
            found.open_txns_info()


READ = LockComponent(type=LockType.SHARED_READ, database="D", table="T", partition="p=A")


def test_what_is_asked_for_when_locking(hive4: FakeMetastore) -> None:
    asked: list[Any] = []
    hive4.answers["lock"] = recorded(asked, TYPES.LockResponse(lockid=8, state=4))
    hive4.answers["heartbeat"] = recorded([], None)
    parts = [
        READ,
        LockComponent(type=LockType.EXCL_WRITE, database="D", table="T", transactional=True),
        LockComponent(type=LockType.EXCLUSIVE, database="D"),
    ]
    with connected(hive4) as found:
        assert found.lock(parts, txn_id=5, agent="agent", zero_wait=True) == (8, LockState.NOT_ACQUIRED)
        assert hive4.calls[-2:] == ["heartbeat", "lock"]
    (request,) = asked
    assert (request.txnid, request.user, request.hostname, request.agentInfo) == (5, "joe", "here", "agent")
    assert request.zeroWaitReadEnabled
    assert [
        (part.type, part.level, part.dbname, part.tablename, part.partitionname, part.operationType)
        for part in request.component
    ] == [(1, 3, "d", "t", "p=A", 6), (4, 2, "d", "t", None, 1), (3, 1, "d", None, None, 6)]
    assert [part.isTransactional for part in request.component] == [False, True, False]


def test_what_hive_3_has_not_is_not_sent(hive3: FakeMetastore) -> None:
    asked: list[Any] = []
    hive3.answers["lock"] = recorded(asked, TYPES.LockResponse(lockid=8, state=1))
    hive3.answers["show_locks"] = recorded(asked, TYPES.ShowLocksResponse(locks=[]))
    with connected(hive3) as found:
        found.lock([READ], txn_id=None, agent="agent", zero_wait=True)
        # it keeps partitions of locks in lower case, and compares them as they are
        found.show_locks("D", "T", "p=A")
        with pytest.raises(RefusedError, match=r"^Cannot lock d\.t: a Hive 3\.1 metastore has no EXCL_WRITE"):
            found.lock([LockComponent(type=LockType.EXCL_WRITE, database="D", table="T")], txn_id=None, agent="agent")
    assert asked[0].zeroWaitReadEnabled is None
    assert (asked[1].dbname, asked[1].tablename, asked[1].partname) == ("d", "t", "p=a")


def test_locks_that_are_shown(hive4: FakeMetastore) -> None:
    row = TYPES.ShowLocksResponseElement(
        lockid=1, dbname="d", state=2, type=3, txnid=0, lastheartbeat=0, acquiredat=0, user="u", hostname="h"
    )
    hive4.answers["show_locks"] = lambda request: TYPES.ShowLocksResponse(locks=[row])
    with connected(hive4) as found:
        assert found.show_locks() == (
            HeldLock(lock_id=1, database="d", state=LockState.WAITING, type=LockType.EXCLUSIVE, user="u", host="h"),
        )
        for name, number in (("state", 9), ("type", 9)):
            setattr(row, name, number)
            with pytest.raises(CorruptError, match=f"there is no lock {name} 9"):
                found.show_locks()
            setattr(row, name, 1)
        hive4.answers["show_locks"] = lambda request: TYPES.ShowLocksResponse()
        with pytest.raises(CorruptError, match="field locks is missing"):
            found.show_locks()


def test_a_lock_that_is_gone_already_is_unlocked(hive4: FakeMetastore) -> None:
    hive4.answers["unlock"] = raises(TYPES.NoSuchLockException(message="No such lock"))
    with connected(hive4) as found:
        found.unlock(1)
