"""SHOW COMPACTIONS against the lines that Hive itself prints."""

import dataclasses
import json

import pytest

from acidlib.model.location import local_location
from acidlib.model.names import Generation
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts, State
from acidlib.model.tables import TableRef
from acidlib.report.show import blockers_text, hive_text, initiator_of, show_document, show_text, worker_of
from acidlib.service.services import Services

# ShowCompactionsOperation.writeHeader of Hive 4.0
HIVE4_HEADER = (
    "CompactionId\tDatabase\tTable\tPartition\tType\tState\tWorker host\tWorker\tEnqueue Time\tStart Time\t"
    "Duration(ms)\tHadoopJobId\tError message\tInitiator host\tInitiator\tPool name\t"
    "TxnId\tNext TxnId\tCommit Time\tHighest WriteId"
)
# the start of a line in the expected output of Hive's own test dbtxnmgr_showlocks
HIVE_LINE = "1\tdefault\tpartitioned_acid_table\tp=abc\tMINOR\tinitiated\t --- \t --- \t"

REST = [field.name for field in dataclasses.fields(Services) if field.name not in ("host", "worker_id")]
WAITING = CompactionRequest(id=1, ref=TableRef("default", "partitioned_acid_table", "p=abc"), type=CompactionType.MINOR)
DONE = CompactionRequest(
    id=22,
    ref=TableRef("sales", "orders"),
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


def test_people_see_ages_and_the_summary_first_in_one_layout_whatever_the_widths() -> None:
    failed = dataclasses.replace(DONE, id=23, state=State.FAILED)
    undone = dataclasses.replace(failed, id=24, facts=RequestFacts(undone="_aside"), error_message="undone by ann")
    long = dataclasses.replace(
        WAITING, id=125, ref=WAITING.ref._replace(table="a_table_with_a_name_that_takes_more_than_half_of_a_line_of_80")
    )
    rows = [long, undone, failed, DONE]
    assert (
        show_text(rows, Generation.HIVE4, NOW, of=4)
        == """\
4 requests: 1 undone, 1 initiated, 1 failed, 1 succeeded

 Id  State      Type   Since  Took  Place
125  initiated  minor      -     -  default.a_table_with_a_name_that_takes_more_than_half_of_a_line_of_80.p=abc
 24  undone     major    2 h   2 s  sales.orders
      undone by ann
 23  failed     major    2 h   2 s  sales.orders  on compactor-node-7
      first second third
 22  succeeded  major    2 h   2 s  sales.orders"""
    )
    assert show_text([DONE], Generation.HIVE4, NOW, of=40).splitlines() == [
        "1 request of 40: 1 succeeded",
        "",
        "Id  State      Type   Since  Took  Place",
        "22  succeeded  major    2 h   2 s  sales.orders",
    ]
    assert show_text([], Generation.HIVE4, NOW, of=40) == "none of 40 requests"
    assert "\tfailed\t" in hive_text([undone], Generation.HIVE4), "Hive has no word for it"


def test_what_is_refused_again_and_again_takes_a_line_and_its_reason_is_told_once() -> None:
    def refused(number: int, table: str) -> CompactionRequest:
        why = f"Cannot compact sales.{table}: because it is a view, at /w/{table}"
        facts = RequestFacts(location=local_location(f"/w/{table}"))
        return dataclasses.replace(
            DONE, id=number, ref=DONE.ref._replace(table=table), state=State.REFUSED, error_message=why, facts=facts
        )

    tables = ["orders", "raw", "items"]
    rows = [refused(number, tables[number % 3]) for number in range(90, 0, -1)]
    assert show_text(rows, Generation.HIVE4, NOW, of=90).splitlines() == [
        "90 requests: 90 refused",
        "",
        "Id  State    Type   Since  Took  Place",
        "90  refused  major    2 h   2 s  sales.orders",
        "      the same 29 times before in 2 h: 87, 84, 81, 78, 75, 72, and 23 more",
        "89  refused  major    2 h   2 s  sales.items",
        "      the same 29 times before in 2 h: 86, 83, 80, 77, 74, 71, and 23 more",
        "88  refused  major    2 h   2 s  sales.raw",
        "      the same 29 times before in 2 h: 85, 82, 79, 76, 73, 70, and 23 more",
        "      these 3: Cannot compact …: because it is a view, at …",
    ]
    assert len(show_document(rows)) == 90, "JSON has all"


def test_two_places_of_one_name_are_told_apart_by_where_they_lie() -> None:
    one, other = (
        dataclasses.replace(WAITING, id=number, facts=RequestFacts(location=local_location(f"/lake{number}/t")))
        for number in (1, 2)
    )
    lines = show_text([other, one], Generation.HIVE4, NOW, of=2).splitlines()
    assert [line.rpartition("  ")[2] for line in lines[-2:]] == ["/lake2/t", "/lake1/t"]


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
    tried = CompactionRequest(id=3, ref=TableRef("d", "t"), type=CompactionType.MINOR, state=State.ATTEMPTED)
    assert "\tattempted\t" in hive_text([tried], Generation.HIVE3)
    assert "\tdid not initiate\t" in hive_text([tried], Generation.HIVE4)
    assert show_document([tried])[0]["state"] == "did not initiate"
    assert show_document([tried], Generation.HIVE3)[0]["state"] == "attempted"


@pytest.mark.parametrize(("start", "end", "duration"), [(None, 5, None), (5, None, None), (5, 5, 0), (0, 7, 7)])
def test_a_duration_needs_both_ends(start: int | None, end: int | None, duration: int | None) -> None:
    request = CompactionRequest(
        id=3, ref=TableRef("d", "t"), type=CompactionType.MINOR, start_ms=start, end_ms=end, state=State.FAILED
    )
    assert show_document([request])[0]["duration_ms"] == duration


def test_the_document_has_the_same_facts_and_is_json() -> None:
    waiting, done = json.loads(json.dumps(show_document([WAITING, DONE])))
    shown = hive_text([DONE], Generation.HIVE4).split("\n")[1].split("\t")
    assert [" --- " if done[key] is None else " ".join(str(done[key]).split()) for key in list(done)[:-1]] == shown
    assert (done["duration_ms"], done["error_message"], done["location"]) == (2500, "first\nsecond\tthird", None)
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


RUN = "0123456789abcdef"
HOSTS = ["node", "node-1.example.org", "0123456789ab", "0123456789ab-x", "x-0123456789ab", "acidlib-1", "1-acidlib"]


@pytest.mark.parametrize("host", HOSTS)
def test_of_our_own_ids_the_host_is_told_whatever_it_is(host: str) -> None:
    services = Services(host=host, worker_id=f"acidlib-{host}-{RUN}", **dict.fromkeys(REST))
    assert worker_of(services.worker_id) == (host, f"acidlib-{RUN}")
    assert initiator_of(services.initiator_id) == (host, f"acidlib-{RUN}")
    # Hive's own SHOW COMPACTIONS splits both at the last hyphen
    assert services.worker_id.rpartition("-")[2] == services.initiator_id.rpartition("-")[2] == RUN
    assert initiator_of(f"{host}-manual") == (host, "manual")
