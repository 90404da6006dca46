"""SHOW COMPACTIONS against the lines that Hive itself prints."""

import dataclasses
import json

import pytest

from acidlib.engine.services import Services
from acidlib.model.generation import Generation
from acidlib.model.location import local_location
from acidlib.model.request_facts import RequestFacts
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.report.show import blockers_text, hive_text, initiator_of, show_document, show_text, worker_of

# ShowCompactionsOperation.writeHeader of Hive 4.0
HIVE4_HEADER = (
    "CompactionId\tDatabase\tTable\tPartition\tType\tState\tWorker host\tWorker\tEnqueue Time\tStart Time\t"
    "Duration(ms)\tHadoopJobId\tError message\tInitiator host\tInitiator\tPool name\t"
    "TxnId\tNext TxnId\tCommit Time\tHighest WriteId"
)
# the start of a line in the expected output of Hive's own test dbtxnmgr_showlocks
HIVE_LINE = "1\tdefault\tpartitioned_acid_table\tp=abc\tMINOR\tinitiated\t --- \t --- \t"

REST = [field.name for field in dataclasses.fields(Services) if field.name not in ("host", "worker_id")]
WAITING = CompactionRequest(
    id=1, database="default", table="partitioned_acid_table", partition="p=abc", type=CompactionType.MINOR
)
DONE = CompactionRequest(
    id=22,
    database="sales",
    table="orders",
    type=CompactionType.MAJOR,
    state=State.SUCCEEDED,
    worker_id="compactor-node-7-99",
    initiator_id="node-1.example.org-manual",
    enqueue_ms=1_700_000_000_000,
    start_ms=1_700_000_001_000,
    end_ms=1_700_000_003_500,
    commit_ms=1_700_000_003_400,
    highest_write_id=17,
    hadoop_job_id="job_1",
    error_message="first\nsecond\tthird",
    pool="etl",
)


def test_the_header_and_a_waiting_request_are_as_hive_prints_them() -> None:
    lines = hive_text([WAITING], Generation.HIVE4).split("\n")
    assert lines[0] == HIVE4_HEADER
    assert lines[1].startswith(HIVE_LINE)
    assert lines[1].split("\t")[8:] == [" --- "] * 12
    assert len(lines) == 2


def test_every_fact_is_in_its_column() -> None:
    row = hive_text([DONE], Generation.HIVE4).split("\n")[1].split("\t")
    assert dict(zip(HIVE4_HEADER.split("\t"), row, strict=True)) == {
        "CompactionId": "22",
        "Database": "sales",
        "Table": "orders",
        "Partition": " --- ",
        "Type": "MAJOR",
        "State": "succeeded",
        "Worker host": "compactor-node-7",
        "Worker": "99",
        "Enqueue Time": "1700000000000",
        "Start Time": "1700000001000",
        "Duration(ms)": "2500",
        "HadoopJobId": "job_1",
        "Error message": "first second third",
        "Initiator host": "node-1.example.org",
        "Initiator": "manual",
        "Pool name": "etl",
        "TxnId": " --- ",
        "Next TxnId": " --- ",
        "Commit Time": "1700000003400",
        "Highest WriteId": "17",
    }


NOW = 1_700_000_003_500 + 2 * 3_600_000


def test_people_see_ages_on_80_columns_and_the_summary_first() -> None:
    failed = dataclasses.replace(
        DONE, id=23, state=State.FAILED, facts=RequestFacts(location=local_location("/w/sales/orders"))
    )
    assert (
        show_text([WAITING, failed, DONE], Generation.HIVE4, NOW)
        == """\
3 requests: 1 initiated, 1 failed, 1 succeeded

Place
  Id  Type   State      Since  Took  Worker
default.partitioned_acid_table.p=abc
   1  minor  initiated      -     -  -
sales.orders
  23  major  failed       2 h   2 s  compactor-node-7
    first second third
    /w/sales/orders
sales.orders
  22  major  succeeded    2 h   2 s  compactor-node-7"""
    )
    assert show_text([DONE], Generation.HIVE4, NOW).splitlines()[2:] == [
        "Place         Id  Type   State      Since  Took  Worker",
        "sales.orders  22  major  succeeded    2 h   2 s  compactor-node-7",
    ]


def test_blockers_are_named_with_their_age() -> None:
    blocker = {
        "request_id": 5,
        "name": "db.t",
        "kind": "lock",
        "id": 7,
        "user": "ann",
        "host": "h",
        "age_ms": 7_200_000,
    }
    assert blockers_text([blocker]).splitlines() == [
        "1 request ready for cleaning waits",
        "",
        "Waits  Request  For   Id  User  Host  Since",
        "db.t         5  lock   7  ann   h       2 h",
    ]


def test_an_empty_queue_has_a_header_alone() -> None:
    assert hive_text([], Generation.HIVE3) == HIVE4_HEADER
    assert show_document([]) == []


def test_the_name_of_a_state_is_the_generations() -> None:
    tried = CompactionRequest(id=3, database="d", table="t", type=CompactionType.MINOR, state=State.ATTEMPTED)
    assert "\tattempted\t" in hive_text([tried], Generation.HIVE3)
    assert "\tdid not initiate\t" in hive_text([tried], Generation.HIVE4)
    assert show_document([tried])[0]["state"] == "did not initiate"
    assert show_document([tried], Generation.HIVE3)[0]["state"] == "attempted"


@pytest.mark.parametrize(("start", "end", "duration"), [(None, 5, None), (5, None, None), (5, 5, 0), (0, 7, 7)])
def test_a_duration_needs_both_ends(start: int | None, end: int | None, duration: int | None) -> None:
    request = CompactionRequest(
        id=3, database="d", table="t", type=CompactionType.MINOR, start_ms=start, end_ms=end, state=State.FAILED
    )
    assert show_document([request])[0]["duration_ms"] == duration


def test_the_document_has_the_same_facts_and_is_json() -> None:
    waiting, done = json.loads(json.dumps(show_document([WAITING, DONE])))
    assert done == {
        "id": 22,
        "database": "sales",
        "table": "orders",
        "partition": None,
        "type": "MAJOR",
        "state": "succeeded",
        "worker_host": "compactor-node-7",
        "worker": "99",
        "enqueue_ms": 1_700_000_000_000,
        "start_ms": 1_700_000_001_000,
        "duration_ms": 2500,
        "hadoop_job_id": "job_1",
        "error_message": "first\nsecond\tthird",
        "initiator_host": "node-1.example.org",
        "initiator": "manual",
        "pool": "etl",
        "txn_id": None,
        "next_txn_id": None,
        "commit_ms": 1_700_000_003_400,
        "highest_write_id": 17,
    }
    assert waiting.keys() == done.keys()
    assert {key for key, value in waiting.items() if value is not None} == {
        "id", "database", "table", "partition", "type", "state",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("identity", "host", "thread"),
    [
        ("node-1-42", "node-1", "42"),
        ("plain", "plain", "plain"),
        ("node-", "node", ""),
        ("-5", "", "5"),
        (None, None, None),
    ],
)
def test_an_id_is_split_at_its_last_hyphen(identity: str | None, host: str | None, thread: str | None) -> None:
    assert worker_of(identity) == initiator_of(identity) == (host, thread)


RUN, EARLIER = "0123456789abcdef", "0123456789ab"
HOSTS = ["node", "node-1.example.org", "0123456789ab", "0123456789ab-x", "x-0123456789ab", "acidlib-1", "1-acidlib"]


@pytest.mark.parametrize("host", HOSTS)
def test_of_our_own_ids_the_host_is_told_whatever_it_is(host: str) -> None:
    services = Services(host=host, worker_id=f"acidlib-{host}-{RUN}", **dict.fromkeys(REST))
    assert worker_of(services.worker_id) == (host, f"acidlib-{RUN}")
    assert initiator_of(services.initiator_id) == (host, f"acidlib-{RUN}")
    # Hive's own SHOW COMPACTIONS splits both at the last hyphen
    assert services.worker_id.rpartition("-")[2] == services.initiator_id.rpartition("-")[2] == RUN


@pytest.mark.parametrize("host", HOSTS)
def test_of_the_ids_of_earlier_runs_too(host: str) -> None:
    worker = f"acidlib-{EARLIER}-{host}"
    assert worker_of(worker) == (host, f"acidlib-{EARLIER}")
    assert initiator_of(f"{host}-{worker}") == (host, f"acidlib-{EARLIER}")
    assert initiator_of(f"{host}-manual") == (host, "manual")
