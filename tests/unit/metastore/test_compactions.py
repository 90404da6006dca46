"""Compactions: the requests to a metastore, and the values of its answers."""

from __future__ import annotations

from typing import Any

import pytest
from fake_metastore import TYPES, FakeMetastore, connected, recorded
from located import at

from acidlib.acid.names import Generation
from acidlib.errors import CorruptError, RefusedError
from acidlib.metastore.compactions import OtherRequest
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts, State, format_map
from acidlib.model.tables import TableRef

REQUEST = CompactionRequest(id=7, ref=TableRef("d", "t"), type=CompactionType.MINOR)


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
    with connected(hive4) as found:
        shown, others = found.show_all_compactions()
        assert found.show_compactions() == shown
    assert [(row.id, row.type, row.state) for row in shown] == [
        (7, CompactionType.REBALANCE, State.ATTEMPTED),
        (3, CompactionType.MINOR, State.READY_FOR_CLEANING),
        (1, CompactionType.MAJOR, State.INITIATED),
    ]
    assert [(row.highest_write_id, row.start_ms, row.next_txn_id) for row in shown] == [
        (4, None, None), (5, None, 8), (None, None, None),
    ]  # fmt: skip
    assert shown[0].hadoop_job_id is None
    assert others == (
        OtherRequest(id=9, ref=TableRef("d", "t", "p=A"), kind="number 77", state="working"),
        OtherRequest(id=8, ref=TableRef("d", "t"), kind="MAJOR", state="dreaming"),
        OtherRequest(id=2, ref=TableRef("d", "t"), kind="SMART_OPTIMIZE", state="initiated"),
    )
    assert others[0].ref == ("d", "t", "p=A")


def test_a_row_without_an_id_is_an_error(hive4: FakeMetastore) -> None:
    hive4.answers["show_compact"] = lambda request: TYPES.ShowCompactResponse(compacts=[element(id=None)])
    with connected(hive4) as found, pytest.raises(CorruptError, match=r"field compacts\.id is missing"):
        found.show_compactions()


@pytest.mark.parametrize(("generation", "extra"), [(3, (None, None, None)), (4, ("me", "0.1", "pool"))])
def test_what_is_asked_for(generation: int, extra: tuple[object, ...]) -> None:
    asked: list[Any] = []
    request = CompactionRequest(
        id=0, ref=TableRef("D", "T", "p=A"), type=CompactionType.MAJOR, properties=(("k", "v"),),
        run_as="joe", initiator_id="me", initiator_version="0.1", pool="pool",
        facts=RequestFacts(reason="12 deltas: too many", deltas=12, bytes=7, location=at("/w/t"), process="p 1"),
    )  # fmt: skip
    with FakeMetastore(Generation(generation)) as server, connected(server) as found:
        answer = TYPES.CompactionResponse(id=4, state="initiated", accepted=True)
        server.answers["compact2"] = recorded(asked, answer)
        accepted = found.compact(request)
    assert (accepted.id, accepted.accepted, accepted.state, accepted.reason) == (4, True, State.INITIATED, None)
    (sent,) = asked
    assert (sent.dbname, sent.tablename, sent.partitionname, sent.type) == ("d", "t", "p=A", 2)
    told = {"acidlib.reason": "12 deltas: too many", "acidlib.deltas": "12", "acidlib.bytes": "7"}
    assert (sent.runas, sent.properties) == ("joe", {"k": "v"} | told)
    assert (sent.initiatorId, sent.initiatorVersion, sent.poolName) == extra


def info(**changes: object) -> Any:
    row: dict[str, object] = {"id": 1, "dbname": "d", "tablename": "t", "type": 1}
    return TYPES.CompactionInfoStruct(**(row | changes))


def test_what_a_worker_is_given(hive4: FakeMetastore) -> None:
    asked: list[Any] = []
    properties = {"k": "v", "acidlib.reason": "12 deltas: too many", "acidlib.bytes": "7", "acidlib.deltas": "many"}
    properties |= {"location": "/dropped"}
    given = info(properties=format_map(properties), poolname="p", numberOfBuckets=0, highestWriteId=0, start=0)
    hive4.answers["find_next_compact2"] = recorded(asked, TYPES.OptionalCompactionInfoStruct(ci=given))
    with connected(hive4) as found:
        request = found.find_next_compaction("worker", "0.1", "p")
        assert request == CompactionRequest(
            id=1, ref=TableRef("d", "t"), type=CompactionType.MINOR, state=State.WORKING, worker_id="worker",
            properties=(("k", "v"), ("acidlib.deltas", "many"), ("location", "/dropped")), pool="p",
            facts=RequestFacts(reason="12 deltas: too many", bytes=7),
        )  # fmt: skip
        hive4.answers["find_next_compact2"] = recorded(asked, TYPES.OptionalCompactionInfoStruct())
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
    hive4.answers["mark_refused"] = recorded(refused, None)
    with connected(hive4) as found:
        request = found.find_next_compaction("worker", "0.1", None)
    assert request is not None
    assert request.id == 6
    assert [(sent.id, sent.errorMessage) for sent in refused] == [
        (5, "compactions of type SMART_OPTIMIZE are not supported by this worker")
    ]


def test_a_request_without_an_id_is_not_marked(hive4: FakeMetastore) -> None:
    # the server would write a new row into the history
    request = CompactionRequest(id=0, ref=TableRef("d", "t"), type=CompactionType.MAJOR)
    with connected(hive4) as found:
        for mark in (found.mark_failed, found.mark_refused, found.mark_cleaned, found.mark_compacted):
            with pytest.raises(RefusedError, match="it has no id of the queue"):
                mark(request)
    assert hive4.calls == []


def test_calls_of_hive_4_are_refused_by_hive_3_before_anything_is_sent(hive3: FakeMetastore) -> None:
    with connected(hive3) as found:
        hive3.calls.clear()
        for call in (
            lambda: found.find_next_compaction("w", "0.1", None),
            lambda: found.update_compactor_state(REQUEST, 1),
            lambda: found.mark_compacted(REQUEST),
            lambda: found.abort_compactions([1]),
            lambda: found.add_write_ids_to_min_history(1, {}),
        ):
            with pytest.raises(RefusedError, match=r"a Hive 3\.1 metastore has no such call$"):
                call()
    assert hive3.calls == []
