"""The typed calls: what they send to a metastore, and what they make of its answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fake_metastore import TYPES, FakeMetastore, raises

from acidlib.errors import ConflictError, CorruptError, RefusedError, RetryError
from acidlib.metastore.hms import Hms, connect
from acidlib.metastore.options import ConnectionOptions
from acidlib.metastore.values import (
    HeldLock,
    LockComponent,
    LockState,
    LockType,
    OpenTxns,
    OtherRequest,
    ShownRequest,
    TxnType,
)
from acidlib.model.generation import Generation
from acidlib.model.names import LONG_MAX
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.tables import Partition, Storage, Table
from acidlib.model.txnids import ValidTxnList

STORAGE = TYPES.StorageDescriptor(
    cols=[TYPES.FieldSchema(name="a", type="int")],
    location="file:/t",
    inputFormat="in",
    numBuckets=-1,
    serdeInfo=TYPES.SerDeInfo(serializationLib="serde"),
    bucketCols=[],
    sortCols=[],
)
TABLE = Table(
    database="d", name="t", kind="MANAGED_TABLE", owner=None, created=1, storage=Storage(location="", columns=())
)
READ = LockComponent(type=LockType.SHARED_READ, database="D", table="T", partition="p=A")
REQUEST = CompactionRequest(id=7, database="d", table="t", type=CompactionType.MINOR)


@pytest.fixture
def hive4() -> Iterator[FakeMetastore]:
    with FakeMetastore(Generation.HIVE4) as server:
        yield server


@pytest.fixture
def hive3() -> Iterator[FakeMetastore]:
    with FakeMetastore(Generation.HIVE3, version="3.0") as server:
        yield server


def hms(server: FakeMetastore) -> Hms:
    options = ConnectionOptions(timeout_seconds=5, attempts=1)
    return connect([server.uri], options, user="joe", host="here", sleep=lambda _seconds: None)


def keep(into: list[Any], answer: object) -> Any:
    """An answer that keeps what it was asked."""

    def answered(*asked: Any) -> object:
        into.append(asked[0] if len(asked) == 1 else asked)
        return answer

    return answered


def table(**changes: object) -> Any:
    return TYPES.Table(
        **{"tableName": "T", "dbName": "D", "createTime": 5, "sd": STORAGE, "partitionKeys": [], "parameters": {}}
        | {"tableType": "MANAGED_TABLE", "id": 9}
        | changes
    )


def changed(answer: Any, **changes: object) -> Any:
    return type(answer)(**(vars(answer) | changes))


# ---- the catalog


def test_a_table_as_hive_4_tells_it(hive4: FakeMetastore) -> None:
    asked: list[Any] = []
    hive4.answers["get_table_req"] = keep(asked, TYPES.GetTableResult(table=table()))
    with hms(hive4) as found:
        read = found.table("D", "T")
    assert read is not None
    assert (read.full_name, read.id, read.created, read.owner) == ("d.t", 9, 5, None)
    assert (asked[0].dbName, asked[0].tblName, asked[0].catName) == ("d", "t", "hive")
    # or insert-only tables are hidden behind an error
    assert 2 in asked[0].capabilities.values


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"tableType": None}, "tableType"),
        ({"createTime": None}, "createTime"),
        ({"parameters": None}, "parameters"),
        ({"partitionKeys": None}, "partitionKeys"),
        ({"sd": None}, "sd"),
        ({"sd": changed(STORAGE, location=None)}, "sd.location"),
        ({"sd": changed(STORAGE, cols=None)}, "sd.cols"),
        ({"sd": changed(STORAGE, bucketCols=None)}, "sd.bucketCols"),
        ({"sd": changed(STORAGE, cols=[TYPES.FieldSchema(name="a")])}, "sd.cols.type"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_table_without_a_field_is_an_error(hive4: FakeMetastore, changes: dict[str, object], field: str) -> None:
    hive4.answers["get_table_req"] = lambda request: TYPES.GetTableResult(table=table(**changes))
    with hms(hive4) as found, pytest.raises(CorruptError) as caught:
        found.table("d", "t")
    assert str(caught.value) == f"Cannot read the answer of get_table_req: because field {field} is missing"


def test_only_managed_tables_need_a_location(hive4: FakeMetastore) -> None:
    view = table(tableType="VIRTUAL_VIEW", sd=changed(STORAGE, location=None), id=-1)
    hive4.answers["get_table_req"] = lambda request: TYPES.GetTableResult(table=view)
    with hms(hive4) as found:
        read = found.table("d", "t")
    assert read is not None
    assert (read.storage.location, read.id) == ("", None)


def test_tables_are_asked_for_300_at_a_time_and_each_once(hive4: FakeMetastore) -> None:
    asked: list[Any] = []
    hive4.answers["get_table_objects_by_name_req"] = keep(asked, TYPES.GetTablesResult(tables=[]))
    with hms(hive4) as found:
        assert found.tables("D", [f"T{number % 650}" for number in range(1300)]) == ()
    assert [len(request.tblNames) for request in asked] == [300, 300, 50]
    assert asked[0].tblNames[:2] == ["t0", "t1"]


def test_a_database_that_is_listed_but_not_given_is_no_missing_one(hive4: FakeMetastore) -> None:
    with hms(hive4) as found:
        hive4.answers["get_database_req"] = raises(TYPES.NoSuchObjectException(message="database x: null pointer"))
        hive4.answers["get_all_databases"] = lambda: ["default", "x"]
        with pytest.raises(RetryError, match="because the metastore lists it but does not give it"):
            found.database("x")
        assert found.database("y") is None


def test_partition_names_of_a_hive_4_without_the_newer_call(hive4: FakeMetastore) -> None:
    asked: list[Any] = []
    hive4.answers["get_partition_names"] = keep(asked, ["p=1"])
    with hms(hive4) as found:
        assert found.partition_names("D", "T") == ("p=1",)
        assert asked == [("d", "t", -1)]
        hive4.answers["fetch_partition_names_req"] = lambda request: ["p=2"]
        assert found.partition_names("D", "T") == ("p=2",)


def test_partitions_are_matched_by_their_values(hive4: FakeMetastore) -> None:
    asked: list[Any] = []

    def answer(request: Any) -> Any:
        asked.append(request.names)
        values = {"p=A%2f": "A/", "p=A%2F": "A/", "p=b": "b", "p=": "__HIVE_DEFAULT_PARTITION__"}
        found = [
            TYPES.Partition(values=[values[name]], createTime=1, sd=STORAGE, parameters={"name": name})
            for name in request.names
        ]
        return TYPES.GetPartitionsByNamesResult(partitions=found[::-1])

    hive4.answers["get_partitions_by_names_req"] = answer
    with hms(hive4) as found:
        # two names of the same values are asked for one by one
        read = found.partitions(TABLE, ["p=A%2f", "p=b", "p=A%2F"])
        assert {name: partition.properties["name"] for name, partition in read.items()} == {
            name: name for name in ("p=A%2f", "p=b", "p=A%2F")
        }
        assert isinstance(read["p=b"], Partition)
        assert asked == [["p=A%2f"], ["p=b"], ["p=A%2F"]]
        assert list(found.partitions(TABLE, ["p=b", "p="])) == ["p=", "p=b"]
        with pytest.raises(CorruptError, match="partition name 'nonsense'"):
            found.partitions(TABLE, ["nonsense"])


def test_partitions_are_asked_for_500_at_a_time(hive4: FakeMetastore) -> None:
    asked: list[Any] = []
    hive4.answers["get_partitions_by_names_req"] = keep(asked, TYPES.GetPartitionsByNamesResult(partitions=[]))
    with hms(hive4) as found:
        assert found.partitions(TABLE, [f"p={number}" for number in range(1100)]) == {}
    assert [len(request.names) for request in asked] == [500, 500, 100]


def test_a_partition_that_was_not_asked_for_is_an_error(hive4: FakeMetastore) -> None:
    other = TYPES.Partition(values=["other"], createTime=1, sd=STORAGE, parameters={})
    hive4.answers["get_partitions_by_names_req"] = lambda _: TYPES.GetPartitionsByNamesResult(partitions=[other])
    with hms(hive4) as found, pytest.raises(CorruptError, match=r"a partition of d\.t that was not asked for.*other"):
        found.partitions(TABLE, ["p=1"])


# ---- transactions


def bits(*numbers: int) -> bytes:
    return sum(1 << number for number in numbers).to_bytes(max(numbers, default=-1) // 8 + 1, "little")


def test_hive_4_is_always_asked_which_kinds_to_leave_out(hive4: FakeMetastore) -> None:
    # without a list it fails, and its older call leaves readers out
    asked: list[Any] = []
    answer = TYPES.GetOpenTxnsResponse(txn_high_water_mark=4, open_txns=[], abortedBits=b"")
    hive4.answers["get_open_txns_req"] = keep(asked, answer)
    with hms(hive4) as found:
        found.open_txns()
        found.open_txns(exclude_readers=True)
    assert [request.excludeTxnTypes for request in asked] == [[], [2]]


def test_open_and_aborted_are_told_apart_over_many_bytes(hive3: FakeMetastore) -> None:
    ids = [3, 4, 5, 8, *range(20, 40)]
    aborted = (1, 3, 8, 23)
    answer = TYPES.GetOpenTxnsResponse(txn_high_water_mark=50, open_txns=ids, abortedBits=bits(*aborted))
    hive3.answers["get_open_txns"] = lambda: answer
    with hms(hive3) as found:
        read = found.open_txns(exclude_readers=True)
    assert read == OpenTxns(
        txns=ValidTxnList(
            high_water_mark=50,
            opened=((3, 3), (5, 5), (20, 23), (25, 38)),
            aborted=((4, 4), (8, 8), (24, 24), (39, 39)),
        ),
        high_water_mark=50,
    )
    assert read.min_open == 3


def test_the_lowest_open_id_is_not_that_of_an_aborted_one(hive3: FakeMetastore) -> None:
    answer = TYPES.GetOpenTxnsResponse(txn_high_water_mark=9, open_txns=[3, 7], abortedBits=b"\x01")
    hive3.answers["get_open_txns"] = lambda: answer
    with hms(hive3) as found:
        assert found.open_txns().min_open == 7
        answer.abortedBits = b"\x03"
        assert found.open_txns().min_open == 10


def test_bits_for_ids_that_are_not_there_are_an_error(hive3: FakeMetastore) -> None:
    answer = TYPES.GetOpenTxnsResponse(txn_high_water_mark=9, open_txns=[3, 7], abortedBits=b"\x04")
    hive3.answers["get_open_txns"] = lambda: answer
    with hms(hive3) as found, pytest.raises(CorruptError, match="it marks entry 3 of 2 as aborted"):
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
    with hms(hive4) as found:
        read = found.valid_write_ids([("D", "T"), ("d", "u"), ("d", "t")], ValidTxnList(high_water_mark=5))
    assert list(read) == [("d", "t"), ("d", "u")]
    first, second = read.values()
    assert (first.table, first.open_ids, first.aborted_ids, first.min_open) == ("d.t", (2, 6), (4,), 2)
    assert (second.high_water_mark, second.min_open) == (9, LONG_MAX)


def test_a_table_that_the_answer_leaves_out_is_an_error(hive4: FakeMetastore) -> None:
    answer = TYPES.GetValidWriteIdsResponse(tblValidWriteIds=[valid("d.t")])
    hive4.answers["get_valid_write_ids"] = lambda request: answer
    with hms(hive4) as found, pytest.raises(CorruptError, match=r"because the table d\.u is missing$"):
        found.valid_write_ids([("d", "t"), ("d", "u")], ValidTxnList(high_water_mark=5))


@pytest.mark.parametrize(("generation", "text"), [(3, "9:2:2,3,4:6,7"), (4, "9:2:2-4:6-7")])
def test_hive_3_gets_no_ranges(generation: int, text: str) -> None:
    asked: list[Any] = []
    with FakeMetastore(Generation(generation)) as server, hms(server) as found:
        answer = TYPES.GetValidWriteIdsResponse(tblValidWriteIds=[valid("d.t")])
        server.answers["get_valid_write_ids"] = keep(asked, answer)
        found.valid_write_ids([("d", "t")], ValidTxnList(high_water_mark=9, opened=((2, 4),), aborted=((6, 7),)))
    assert asked[0].validTxnList == text


@pytest.mark.parametrize(("generation", "kind"), [(3, None), (4, 3)])
def test_the_kind_of_a_transaction_is_for_hive_4(generation: int, kind: int | None) -> None:
    asked: list[Any] = []
    with FakeMetastore(Generation(generation)) as server, hms(server) as found:
        server.answers["open_txns"] = keep(asked, TYPES.OpenTxnsResponse(txn_ids=[5]))
        server.answers["commit_txn"] = server.answers["abort_txn"] = keep(asked, None)
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
    with hms(hive4) as found:
        with pytest.raises(CorruptError, match="it has 0 ids instead of 1"):
            found.open_txn(TxnType.DEFAULT, "agent")
        assert found.allocate_write_id(6, "D", "T") == 1
        with pytest.raises(CorruptError, match="transaction 5 is missing"):
            found.allocate_write_id(5, "D", "T")
        with pytest.raises(CorruptError, match="transaction 1 is in state 1"):
            found.open_txns_info()


# ---- locks


def test_what_is_asked_for_when_locking(hive4: FakeMetastore) -> None:
    asked: list[Any] = []
    hive4.answers["lock"] = keep(asked, TYPES.LockResponse(lockid=8, state=4))
    hive4.answers["heartbeat"] = keep([], None)
    parts = [
        READ,
        LockComponent(type=LockType.EXCL_WRITE, database="D", table="T", transactional=True),
        LockComponent(type=LockType.EXCLUSIVE, database="D"),
    ]
    with hms(hive4) as found:
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


def test_hive_4_is_not_asked_for_locks_of_a_transaction_that_is_over(hive4: FakeMetastore) -> None:
    hive4.answers["heartbeat"] = raises(TYPES.NoSuchTxnException(message="No such txn: 5"))
    with hms(hive4) as found, pytest.raises(ConflictError, match=r"^Cannot lock d\.t\.p=A: because No such txn: 5$"):
        found.lock([READ], txn_id=5, agent="agent")
    assert "lock" not in hive4.calls


def test_what_hive_3_has_not_is_not_sent(hive3: FakeMetastore) -> None:
    asked: list[Any] = []
    hive3.answers["lock"] = keep(asked, TYPES.LockResponse(lockid=8, state=1))
    hive3.answers["show_locks"] = keep(asked, TYPES.ShowLocksResponse(locks=[]))
    with hms(hive3) as found:
        found.lock([READ], txn_id=None, agent="agent", zero_wait=True)
        # it keeps partitions of locks in lower case, and compares them as they are
        found.show_locks("D", "T", "p=A")
        with pytest.raises(RefusedError, match=r"^Cannot lock d\.t: because a Hive 3\.1 metastore has no EXCL_WRITE"):
            found.lock([LockComponent(type=LockType.EXCL_WRITE, database="D", table="T")], txn_id=None, agent="agent")
    assert asked[0].zeroWaitReadEnabled is None
    assert (asked[1].dbname, asked[1].tablename, asked[1].partname) == ("d", "t", "p=a")


def test_locks_that_are_shown(hive4: FakeMetastore) -> None:
    row = TYPES.ShowLocksResponseElement(
        lockid=1, dbname="d", state=2, type=3, txnid=0, lastheartbeat=0, acquiredat=0, user="u", hostname="h"
    )
    hive4.answers["show_locks"] = lambda request: TYPES.ShowLocksResponse(locks=[row])
    with hms(hive4) as found:
        assert found.show_locks() == (
            HeldLock(lock_id=1, database="d", state=LockState.WAITING, type=LockType.EXCLUSIVE, user="u", host="h"),
        )
        for name, number in (("state", 9), ("type", 9)):
            setattr(row, name, number)
            with pytest.raises(CorruptError, match=f"there is no lock {name} 9"):
                found.show_locks()
            setattr(row, name, 1)
        hive4.answers["show_locks"] = lambda request: TYPES.ShowLocksResponse()
        with pytest.raises(CorruptError, match="because field locks is missing"):
            found.show_locks()


def test_a_lock_that_is_gone_already_is_unlocked(hive4: FakeMetastore) -> None:
    hive4.answers["unlock"] = raises(TYPES.NoSuchLockException(message="No such lock"))
    with hms(hive4) as found:
        found.unlock(1)


def test_a_partition_without_its_table_cannot_be_locked(hive4: FakeMetastore) -> None:
    part = LockComponent(type=LockType.SHARED_READ, database="d", partition="p=1")
    with hms(hive4) as found, pytest.raises(RefusedError, match="because its table is not named"):
        found.lock([part], txn_id=None, agent="agent")


# ---- compactions


def element(**changes: object) -> Any:
    row: dict[str, object] = {"dbname": "D", "tablename": "T", "type": 2, "state": "initiated", "id": 1}
    return TYPES.ShowCompactResponseElement(**(row | changes))


def test_the_queue(hive4: FakeMetastore) -> None:
    rows = [
        element(),
        element(id=3, type=1, state="ready for cleaning", hightestTxnId=4, hightestWriteId=5, start=0, nextTxnId=8),
        element(id=2, type=5),
        element(id=9, type=77, state="working", partitionname="p=A"),
        element(id=8, state="dreaming"),
        element(id=7, state="attempted", hightestTxnId=4, hadoopJobId="None", type=3),
    ]
    hive4.answers["show_compact"] = lambda request: TYPES.ShowCompactResponse(compacts=rows)
    with hms(hive4) as found:
        shown = found.show_all_compactions()
        assert found.show_compactions() == shown.requests
    assert [(row.id, row.type, row.state) for row in shown.requests] == [
        (7, CompactionType.REBALANCE, State.ATTEMPTED),
        (3, CompactionType.MINOR, State.READY_FOR_CLEANING),
        (1, CompactionType.MAJOR, State.INITIATED),
    ]
    assert [(row.highest_write_id, row.start_ms, row.next_txn_id) for row in shown.requests] == [
        (4, None, None), (5, None, 8), (None, None, None),
    ]  # fmt: skip
    assert shown.requests[0].hadoop_job_id is None
    assert shown.others == (
        OtherRequest(id=9, database="d", table="t", partition="p=A", kind="number 77", state="working"),
        OtherRequest(id=8, database="d", table="t", kind="MAJOR", state="dreaming"),
        OtherRequest(id=2, database="d", table="t", kind="SMART_OPTIMIZE", state="initiated"),
    )
    assert shown.others[0].entity == ("d", "t", "p=A")


def test_a_row_without_an_id_is_an_error(hive4: FakeMetastore) -> None:
    hive4.answers["show_compact"] = lambda request: TYPES.ShowCompactResponse(compacts=[element(id=None)])
    with hms(hive4) as found, pytest.raises(CorruptError, match=r"field compacts\.id is missing"):
        found.show_compactions()


@pytest.mark.parametrize(("generation", "extra"), [(3, (None, None, None)), (4, ("me", "0.1", "pool"))])
def test_what_is_asked_for(generation: int, extra: tuple[object, ...]) -> None:
    asked: list[Any] = []
    request = CompactionRequest(
        id=0, database="D", table="T", partition="p=A", type=CompactionType.MAJOR, properties=(("k", "v"),),
        run_as="joe", initiator_id="me", pool="pool",
    )  # fmt: skip
    with FakeMetastore(Generation(generation)) as server, hms(server) as found:
        answer = TYPES.CompactionResponse(id=4, state="initiated", accepted=True)
        server.answers["compact2"] = keep(asked, answer)
        accepted = found.compact(request, initiator_version="0.1")
    assert (accepted.id, accepted.accepted, accepted.state, accepted.reason) == (4, True, State.INITIATED, None)
    (sent,) = asked
    assert (sent.dbname, sent.tablename, sent.partitionname, sent.type) == ("d", "t", "p=A", 2)
    assert (sent.runas, sent.properties) == ("joe", {"k": "v"})
    assert (sent.initiatorId, sent.initiatorVersion, sent.poolName) == extra


def info(**changes: object) -> Any:
    row: dict[str, object] = {"id": 1, "dbname": "d", "tablename": "t", "type": 1}
    return TYPES.CompactionInfoStruct(**(row | changes))


def test_what_a_worker_is_given(hive4: FakeMetastore) -> None:
    asked: list[Any] = []
    given = info(properties="1:1:k1:v", poolname="p", numberOfBuckets=0, highestWriteId=0, start=0)
    hive4.answers["find_next_compact2"] = keep(asked, TYPES.OptionalCompactionInfoStruct(ci=given))
    with hms(hive4) as found:
        request = found.find_next_compaction("worker", "0.1", "p")
        assert request == ShownRequest(
            id=1, database="d", table="t", type=CompactionType.MINOR, state=State.WORKING, worker_id="worker",
            properties=(("k", "v"),), pool="p",
        )  # fmt: skip
        hive4.answers["find_next_compact2"] = keep(asked, TYPES.OptionalCompactionInfoStruct())
        assert found.find_next_compaction("worker", "0.1", None) is None
    assert [(sent.workerId, sent.workerVersion, sent.poolName) for sent in asked] == [
        ("worker", "0.1", "p"),
        ("worker", "0.1", None),
    ]


def test_a_kind_that_is_unknown_is_refused_and_the_next_one_taken(hive4: FakeMetastore) -> None:
    refused: list[Any] = []
    hive4.answers["find_next_compact2"] = [
        lambda _: TYPES.OptionalCompactionInfoStruct(ci=info(id=5, type=5)),
        lambda _: TYPES.OptionalCompactionInfoStruct(ci=info(id=6)),
    ]
    hive4.answers["mark_refused"] = keep(refused, None)
    with hms(hive4) as found:
        request = found.find_next_compaction("worker", "0.1", None)
    assert request is not None
    assert request.id == 6
    assert [(sent.id, sent.errorMessage) for sent in refused] == [
        (5, "compactions of type SMART_OPTIMIZE are not supported by this worker")
    ]


def test_what_the_server_is_told_of_a_request(hive4: FakeMetastore) -> None:
    told: list[Any] = []
    for call in ("mark_compacted", "mark_failed", "mark_refused", "mark_cleaned", "update_compactor_state"):
        hive4.answers[call] = keep(told, None)
    request = CompactionRequest(
        id=7, database="d", table="t", partition="p=A", type=CompactionType.MAJOR, state=State.READY_FOR_CLEANING,
        properties=(("k", "ü"),), worker_id="w", highest_write_id=9, run_as="joe", error_message="boom", pool="p",
    )  # fmt: skip
    with hms(hive4) as found:
        found.mark_compacted(request)
        found.mark_failed(request)
        found.mark_refused(request)
        found.mark_cleaned(request)
        found.update_compactor_state(request, 44)
    assert hive4.calls[-5:] == [
        "mark_compacted", "mark_failed", "mark_refused", "mark_cleaned", "update_compactor_state",
    ]  # fmt: skip
    assert told[4][1] == 44
    for sent in (*told[:4], told[4][0]):
        assert (sent.id, sent.dbname, sent.tablename, sent.partitionname, sent.type) == (7, "d", "t", "p=A", 2)
        # one letter, or the server throws
        assert (sent.state, sent.workerId, sent.highestWriteId, sent.runas) == ("r", "w", 9, "joe")
        assert (sent.errorMessage, sent.poolname, sent.properties) == ("boom", "p", "1:1:k1:ü")


def test_a_request_without_an_id_is_not_marked(hive4: FakeMetastore) -> None:
    # the server would take it for one of its own and write a row of history
    request = CompactionRequest(id=0, database="d", table="t", type=CompactionType.MAJOR)
    with hms(hive4) as found:
        for mark in (found.mark_failed, found.mark_refused, found.mark_cleaned, found.mark_compacted):
            with pytest.raises(RefusedError, match="because it has no id of the queue"):
                mark(request)
    assert hive4.calls == []


def test_calls_of_hive_4_are_refused_by_hive_3_before_anything_is_sent(hive3: FakeMetastore) -> None:
    with hms(hive3) as found:
        hive3.calls.clear()
        for call in (
            lambda: found.find_next_compaction("w", "0.1", None),
            lambda: found.update_compactor_state(REQUEST, 1),
            lambda: found.mark_compacted(REQUEST),
            lambda: found.abort_compactions([1]),
            lambda: found.add_write_ids_to_min_history(1, {}),
        ):
            with pytest.raises(RefusedError, match=r"because a Hive 3\.1 metastore has no such call$"):
                call()
    assert hive3.calls == []
