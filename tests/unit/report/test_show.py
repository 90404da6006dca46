"""SHOW COMPACTIONS against the lines that Hive itself prints; texts for people are in test_text.py."""

import dataclasses

import pytest

from acidlib.acid.names import Generation
from acidlib.execute.services import Services
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts, State
from acidlib.model.tables import TableRef
from acidlib.processes import signed
from acidlib.report.show import hive_text, initiator_of, shown_request, worker_of
from acidlib.report.values import plain

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


def test_an_empty_queue_has_a_header_alone_and_hive_has_no_word_for_what_is_undone() -> None:
    assert hive_text([], Generation.HIVE3) == HIVE4_HEADER
    undone = dataclasses.replace(DONE, state=State.FAILED, facts=RequestFacts(undone="_aside"))
    assert "\tfailed\t" in hive_text([undone], Generation.HIVE4)
    assert shown_request(undone, Generation.HIVE4).state == "undone"


def test_the_name_of_a_state_is_the_generations() -> None:
    tried = CompactionRequest(id=3, ref=TableRef("d", "t"), type=CompactionType.MINOR, state=State.ATTEMPTED)
    assert "\tattempted\t" in hive_text([tried], Generation.HIVE3)
    assert "\tdid not initiate\t" in hive_text([tried], Generation.HIVE4)
    assert shown_request(tried, Generation.HIVE4).state == "did not initiate"
    assert shown_request(tried, Generation.HIVE3).state == "attempted"


@pytest.mark.parametrize(("start", "end", "duration"), [(None, 5, None), (5, None, None), (5, 5, 0), (0, 7, 7)])
def test_a_duration_needs_both_ends(start: int | None, end: int | None, duration: int | None) -> None:
    request = CompactionRequest(
        id=3, ref=TableRef("d", "t"), type=CompactionType.MINOR, start_ms=start, end_ms=end, state=State.FAILED
    )
    assert shown_request(request, Generation.HIVE4).duration_ms == duration


def test_the_document_has_the_same_facts_and_is_json() -> None:
    waiting, done = (plain(shown_request(request, Generation.HIVE4)) for request in (WAITING, DONE))
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
    services = Services(host=host, worker_id=signed(f"acidlib-{host}-{RUN}"), **dict.fromkeys(REST))
    assert worker_of(services.worker_id) == (host, f"acidlib-{RUN}")
    assert initiator_of(services.initiator_id) == (host, f"acidlib-{RUN}")
    # Hive's own SHOW COMPACTIONS splits both at the last hyphen
    assert services.worker_id.rpartition("-")[2] == signed(RUN)
    assert services.initiator_id.rpartition("-")[2] == RUN
    assert worker_of(f"acidlib-{host}-{RUN}") == (host, f"acidlib-{RUN}"), "of an earlier version, or of no Linux"
    assert initiator_of(f"{host}-manual") == (host, "manual")
