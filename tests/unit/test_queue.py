"""The queue: Hive's transitions, ownership, duplicates, history; two processes at once; a broken database."""

import multiprocessing
import re
import sqlite3
import time
from dataclasses import replace
from pathlib import Path

import pytest
from claiming import claim_next

from acidlib.errors import ConflictError, CorruptError, RefusedError, RetryError
from acidlib.model.generation import Generation
from acidlib.model.request_facts import RequestFacts
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.writeids import ValidWriteIdList
from acidlib.queue.rules import DAY_MS, Retention, failed_attempts_reason, rows_to_purge
from acidlib.queue.sql import SqlQueue

MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR
WRITE_IDS = ValidWriteIdList.parse("db.t:9:9223372036854775807::")


def request(
    table: str = "t",
    *,
    partition: str | None = None,
    kind: CompactionType = MAJOR,
    location: str | None = "/w/t",
    highest_write_id: int | None = None,
) -> CompactionRequest:
    facts = RequestFacts() if location is None else RequestFacts(location=location, write_ids=WRITE_IDS)
    return CompactionRequest(
        id=0,
        database="db",
        table=table,
        partition=partition,
        type=kind,
        facts=facts,
        highest_write_id=highest_write_id,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state/acidlib/queue.db"


@pytest.fixture
def queue(path: Path) -> SqlQueue:
    return SqlQueue(f"sqlite:///{path}")


def states(queue: SqlQueue) -> list[tuple[int, str]]:
    return [(row.id, row.state.value) for row in queue.show()]


def test_the_tables_are_those_of_the_metastore(queue: SqlQueue, path: Path) -> None:
    queue.enqueue(request(partition="ds=a/h=1"), now_ms=5)
    with sqlite3.connect(path) as connection:
        (row,) = connection.execute(
            "select CQ_ID, CQ_DATABASE, CQ_TABLE, CQ_PARTITION, CQ_STATE, CQ_TYPE, CQ_TBLPROPERTIES "
            "from COMPACTION_QUEUE"
        )
        assert row == (
            1,
            "db",
            "t",
            "ds=a/h=1",
            "i",
            "a",
            "2:8:location4:/w/t17:acidlib.write.ids28:db.t:9:9223372036854775807::",
        )
        assert connection.execute("select NCQ_NEXT from NEXT_COMPACTION_QUEUE_ID").fetchall() == [(2,)]
        assert connection.execute("select MT_KEY1, MT_KEY2 from AUX_TABLE").fetchall() == [("CompactionScheduler", 0)]
    connection.close()


def test_a_request_from_enqueueing_to_its_history(queue: SqlQueue) -> None:
    assert queue.enqueue(request(), now_ms=10).id == 1
    claimed = claim_next(queue, MAJOR, "w-1", 20)
    assert claimed is not None
    assert (claimed.state, claimed.worker_id, claimed.start_ms) == (State.WORKING, "w-1", 20)
    queue.set_highest_write_id(1, "w-1", 9)
    queue.set_facts(1, "w-1", RequestFacts(reason="r"))
    queue.mark_compacted(1, "w-1", 30, facts=RequestFacts(outputs=("base_0000009",), reason="s"))
    (ready,) = queue.ready_for_cleaning()
    assert (ready.worker_id, ready.highest_write_id, ready.commit_ms) == (None, 9, 30)
    assert ready.facts == RequestFacts(location="/w/t", write_ids=WRITE_IDS, reason="s", outputs=("base_0000009",))
    queue.set_cleaner_note(1, "a reader is open", 300)
    assert queue.ready_for_cleaning()[0].retry_retention_ms == 300
    queue.mark_cleaned(1, 50)
    assert queue.ready_for_cleaning() == ()
    (done,) = queue.show()
    assert (done.state, done.start_ms, done.end_ms, done.enqueue_ms) == (State.SUCCEEDED, 20, 50, 10)
    assert (done.facts, done.properties, done.error_message) == (ready.facts, (), None)
    assert queue.find(1) == done
    assert queue.find(2) is None


def test_requests_are_claimed_in_order_and_by_kind(queue: SqlQueue) -> None:
    for table, kind in (("a", MINOR), ("b", MAJOR), ("c", MINOR)):
        queue.enqueue(request(table, kind=kind), now_ms=1)
    assert [row.table for row in queue.waiting()] == ["a", "b", "c"]
    assert [row.table for row in queue.waiting(MINOR)] == ["a", "c"]
    first = claim_next(queue, MINOR, "w", 2)
    assert first is not None
    assert first.table == "a"
    assert queue.claim_id(1, "v", 3) is None
    second = queue.claim_id(3, "v", 3)
    assert second is not None
    assert (second.table, second.worker_id) == ("c", "v")
    assert claim_next(queue, MINOR, "w", 4) is None


@pytest.mark.parametrize("working", [False, True])
def test_a_second_request_for_the_same_place_is_not_accepted(queue: SqlQueue, working: bool) -> None:
    queue.enqueue(request(), now_ms=1)
    if working:
        claim_next(queue, MAJOR, "w", 2)
    answer = queue.enqueue(request(kind=MINOR), now_ms=3)
    label = "working" if working else "initiated"
    assert (answer.accepted, answer.id, answer.state.label) == (False, 1, label)
    assert answer.reason == f"Compaction is already scheduled with state='{label}' and id=1"
    assert not queue.enqueue(request(location=None), now_ms=3).accepted
    assert queue.enqueue(request(partition="p=1"), now_ms=3).accepted
    assert queue.enqueue(request("u"), now_ms=3).accepted
    assert queue.enqueue(request(location="/elsewhere/t"), now_ms=3).accepted
    assert len(queue.show()) == 4


def test_what_is_ready_for_cleaning_refuses_only_when_nothing_is_new(queue: SqlQueue) -> None:
    queue.enqueue(request(), now_ms=1)
    claim_next(queue, MAJOR, "w", 2)
    queue.set_highest_write_id(1, "w", 22)
    queue.mark_compacted(1, "w", 3)
    refused = queue.enqueue(request(highest_write_id=22), now_ms=4)
    assert (refused.accepted, refused.state) == (False, State.READY_FOR_CLEANING)
    assert refused.reason == "Compaction is already scheduled with state='ready for cleaning' and id=1"
    accepted = queue.enqueue(request(highest_write_id=23), now_ms=4)
    assert accepted.accepted
    assert queue.waiting()[0].highest_write_id is None  # it is recorded when the request is claimed


def test_a_worker_ends_only_what_is_its_own(queue: SqlQueue) -> None:
    queue.enqueue(request(), now_ms=1)
    claim_next(queue, MAJOR, "w", 2)
    for call in (
        lambda: queue.mark_compacted(1, "other", 3),
        lambda: queue.set_highest_write_id(1, "other", 3),
        lambda: queue.set_facts(1, "other", RequestFacts(reason="b")),
        lambda: queue.give_back(1, "other"),
        lambda: queue.mark_failed(1, "reason", 3, worker_id="other"),
        lambda: queue.mark_refused(1, "reason", 3, worker_id="other"),
        lambda: queue.mark_failed(1, "reason", 3, worker_id=None),
        lambda: queue.mark_cleaned(1, 3),
        lambda: queue.mark_compacted(2, "w", 3),
    ):
        with pytest.raises(ConflictError, match=r"Cannot change compaction request [12]: because"):
            call()
    assert queue.show() == (queue.find(1),)
    assert states(queue) == [(1, "w")]


def test_failing_twice_is_a_conflict(queue: SqlQueue) -> None:
    queue.enqueue(request(), now_ms=1)
    claim_next(queue, MAJOR, "w", 2)
    queue.mark_failed(1, "Cannot read x: because y", 3, worker_id="w")
    with pytest.raises(ConflictError):
        queue.mark_failed(1, "again", 4, worker_id="w")
    (row,) = queue.show()
    assert (row.state, row.error_message, row.end_ms, row.worker_id) == (
        State.FAILED,
        "Cannot read x: because y",
        3,
        "w",
    )


def test_given_back_it_waits_again(queue: SqlQueue) -> None:
    queue.enqueue(request(), now_ms=1)
    claim_next(queue, MAJOR, "w", 2)
    queue.give_back(1, "w")
    (row,) = queue.waiting()
    assert (row.worker_id, row.start_ms) == (None, None)


def test_refused_and_not_initiated(queue: SqlQueue) -> None:
    queue.enqueue(request(), now_ms=1)
    claim_next(queue, MAJOR, "w", 2)
    queue.mark_refused(1, "None of the thresholds met", 3, worker_id="w")
    assert queue.record_not_initiated(request("u", kind=MINOR), "2 attempts failed", 4) == 2
    newest, oldest = queue.show()
    assert (oldest.state.label, oldest.error_message) == ("refused", "None of the thresholds met")
    assert (newest.state.label, newest.start_ms, newest.error_message) == ("did not initiate", 4, "2 attempts failed")


HOSTILE = [
    "x'; DROP TABLE COMPACTION_QUEUE; --",
    'x"; DELETE FROM "COMPACTION_QUEUE" WHERE "a"="a',
    "x') OR ('1'='1",
    "b\\'b\\",
    "`t`;",
    "%",
    "%s %(a)s {a} $1",
    ":cq_id ?",
    "a_c",
    "abc",
    "line\nbreak\ttab",
    "\x1b[2J\u202eünï",
]


def test_names_and_texts_are_never_statements(queue: SqlQueue) -> None:
    assert queue.enqueue(request("bystander"), now_ms=1).accepted
    for name in HOSTILE:
        wanted = replace(request(name, partition=f"p={name}"), database=name, properties=((name, name),))
        number = queue.enqueue(wanted, now_ms=1).id
        again = queue.enqueue(wanted, now_ms=1)
        assert (again.id, again.accepted) == (number, False)
        assert [row.id for row in queue.waiting() if row.entity == wanted.entity] == [number]
        assert queue.claim_id(number, name, 2) is not None
        with pytest.raises(ConflictError):
            queue.mark_compacted(number, f"{name}'", 3)
        queue.set_run_as(number, name, name)
        queue.set_facts(number, name, RequestFacts(reason=name))
        queue.mark_compacted(number, name, 3)
        queue.set_cleaner_note(number, name, 5)
        queue.mark_failed(number, name, 4, worker_id=None)
        row = queue.find(number)
        assert row is not None
        assert (row.entity, row.run_as, row.facts.reason, row.error_message) == (wanted.entity, name, name, name)
        assert row.properties == ((name, name),)
        limits = {"threshold": 1, "retry_ms": 0, "now_ms": 9}
        assert queue.failed_attempts(wanted, **limits) is not None
        assert queue.failed_attempts(replace(wanted, table=f"{name}x"), **limits) is None
    assert [state for _, state in states(queue)] == ["f"] * len(HOSTILE) + ["i"]


def test_a_name_with_a_zero_is_kept_or_refused(queue: SqlQueue) -> None:
    try:
        number = queue.enqueue(request("a\0b"), now_ms=1).id
    except RefusedError:
        assert queue.show() == ()
        return
    row = queue.find(number)
    assert row is not None
    assert row.table == "a\0b"


def test_only_workers_over_their_time_are_revoked(queue: SqlQueue) -> None:
    for table, start in (("a", 1000), ("b", 2000), ("c", 1999)):
        queue.enqueue(request(table), now_ms=1)
        claim_next(queue, MAJOR, f"w-{table}", start)
    assert queue.revoke_timed_out(12_000, 10_000) == 2
    assert states(queue) == [(3, "i"), (2, "w"), (1, "i")]
    with pytest.raises(ConflictError):
        queue.mark_compacted(1, "w-a", 12_001)


def test_ready_rows_come_by_their_mark(queue: SqlQueue) -> None:
    for number, mark in enumerate((30, 10, 20), start=1):
        queue.enqueue(request(f"t{number}"), now_ms=1)
        queue.claim_id(number, "w", 2)
        queue.set_highest_write_id(number, "w", mark)
        queue.mark_compacted(number, "w", 3)
    assert [row.id for row in queue.ready_for_cleaning()] == [2, 3, 1]


def test_a_queue_is_asked_by_place_entity_and_state(queue: SqlQueue) -> None:
    wanted = [
        request("a", partition="p=1", location="/w/a/p=1"),
        request("b", location="/w/a/p=1"),
        request("a", partition="p=10", location="/w/a/p=10"),
        request("a", partition="P=1", location="/w/a/P=1"),
        request("a", location="/w/a_b%"),
        request("c", location=None),
        request("a", location="/w/a"),
    ]
    for number, one in enumerate(wanted, start=1):
        assert queue.enqueue(one, now_ms=1).id == number
    for number, end in ((1, "failed"), (2, "ready"), (5, "cleaned")):
        assert queue.claim_id(number, "w", 2) is not None
        if end == "failed":
            queue.mark_failed(number, "x", 3, worker_id="w")
            continue
        queue.mark_compacted(number, "w", 3)
        if end == "cleaned":
            queue.mark_cleaned(number, 4)

    def ids(rows: tuple[CompactionRequest, ...]) -> list[int]:
        return [row.id for row in rows]

    assert ids(queue.at_location("/w/a/p=1")) == [2, 1]
    assert ids(queue.at_location("/w/a_b%")) == [5]
    assert ids(queue.at_location("/w/axb%")) == ids(queue.at_location("/w")) == []
    assert ids(queue.below_location("/w/a")) == [7, 4, 3, 2, 1]
    assert ids(queue.below_location("/w/a_b%")) == [5]
    assert ids(queue.below_location("/w")) == [7, 5, 4, 3, 2, 1]
    assert [ids(queue.of_entity(one)) for one in wanted] == [[1], [2], [3], [4], [7, 5], [6], [7, 5]]
    assert ids(queue.in_states(State.FAILED, State.READY_FOR_CLEANING)) == [2, 1]
    assert ids(queue.in_states(State.INITIATED)) == [7, 6, 4, 3]
    assert queue.in_states() == ()


def finished(
    number: int, state: State, *, kind: CompactionType = MAJOR, end_ms: int = 0, table: str = "t"
) -> CompactionRequest:
    return CompactionRequest(
        id=number, database="db", table=table, type=kind, state=state, end_ms=end_ms, enqueue_ms=end_ms
    )


@pytest.mark.parametrize(
    ("letters", "generation", "enqueued", "blocked"),
    [  # newest last
        ("ff", Generation.HIVE3, 0, True),
        ("ff", Generation.HIVE4, 100, True),
        ("f", Generation.HIVE3, 0, False),
        ("", Generation.HIVE3, 0, False),
        ("sf", Generation.HIVE4, 100, False),
        ("ffs", Generation.HIVE3, 0, False),
        ("sff", Generation.HIVE3, 0, True),
        ("ffa", Generation.HIVE3, 0, True),
        ("ffc", Generation.HIVE3, 0, False),
        ("ffc", Generation.HIVE4, 100, True),
        ("ff", Generation.HIVE4, 99, False),
        ("ff", Generation.HIVE3, 99, True),
    ],
)
def test_the_failed_attempt_rule(letters: str, generation: Generation, enqueued: int, blocked: bool) -> None:
    history = [finished(number, State(letter), end_ms=enqueued) for number, letter in enumerate(letters, start=1)]
    reason = failed_attempts_reason(history, threshold=2, retry_ms=900, now_ms=1000, generation=generation)
    expected = "Compaction is not initiated since last 2 consecutive compaction attempts failed"
    assert reason == (expected if blocked else None)


def test_a_retry_time_of_zero_never_tries_again() -> None:
    history = [finished(1, State.FAILED), finished(2, State.FAILED)]
    assert failed_attempts_reason(history, threshold=2, retry_ms=0, now_ms=10**15, generation=Generation.HIVE4)


def test_failed_attempts_count_per_place(queue: SqlQueue) -> None:
    for number, partition in enumerate(("p=1", "p=1", "p=2"), start=1):
        queue.enqueue(request(partition=partition), now_ms=number)
        claim_next(queue, MAJOR, "w", number)
        queue.mark_failed(number, "x", number, worker_id="w")

    def blocked(one: CompactionRequest) -> bool:
        reason = queue.failed_attempts(one, threshold=2, retry_ms=DAY_MS, now_ms=9)
        return reason is not None

    assert blocked(request(partition="p=1"))
    assert not blocked(request(partition="p=2"))
    assert not blocked(request())
    assert not blocked(request(partition="p=1", location="/elsewhere"))


def test_the_history_keeps_hives_numbers_per_entity() -> None:
    rows = [finished(number, State(letter)) for number, letter in enumerate("sssssfffffaaaacccccxx", start=1)]
    rows.append(finished(100, State.SUCCEEDED, table="u"))
    assert rows_to_purge(rows, Retention(), 0) == (1, 2, 6, 7, 11, 12, 15, 16)
    raised = rows_to_purge(rows, Retention(failed=1, failed_threshold=4), 0)
    assert [number for number in raised if 6 <= number <= 10] == [6]


def test_old_failures_go_once_a_newer_success_replaces_them() -> None:
    day = DAY_MS
    rows = [
        finished(1, State.FAILED, kind=MAJOR, end_ms=0),
        finished(2, State.REFUSED, kind=MINOR, end_ms=0),
        finished(3, State.ATTEMPTED, kind=MINOR, end_ms=2 * day),
        finished(4, State.SUCCEEDED, kind=MINOR, end_ms=day),
        finished(5, State.FAILED, kind=MINOR, end_ms=0),
    ]
    assert rows_to_purge(rows, Retention(), 8 * day) == (2,)
    rows.append(finished(6, State.SUCCEEDED, kind=MAJOR, end_ms=8 * day))
    assert rows_to_purge(rows, Retention(), 8 * day) == (1, 2, 5)
    assert rows_to_purge(rows, Retention(), 7 * day) == ()


def test_purging_deletes_what_the_rule_names(queue: SqlQueue) -> None:
    for number in range(1, 6):
        queue.enqueue(request(), now_ms=number)
        claim_next(queue, MAJOR, "w", number)
        queue.mark_failed(number, "x", number, worker_id="w")
    queue.enqueue(request(), now_ms=9)
    assert queue.purge_history(Retention(), 10) == 2
    assert states(queue) == [(6, "i"), (5, "f"), (4, "f"), (3, "f")]


def _drain(url: str, worker: str, go: float) -> list[int]:
    taken = []
    with SqlQueue(url) as queue:
        while time.time() < go:
            pass
        while (claimed := claim_next(queue, MAJOR, worker, 1)) is not None:
            taken.append(claimed.id)
            queue.mark_compacted(claimed.id, worker, 2)
    return taken


def test_two_processes_never_take_the_same_request(queue: SqlQueue, path: Path) -> None:
    for number in range(40):
        queue.enqueue(request(f"t{number}"), now_ms=1)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(abs, [0, 0], chunksize=1)  # both processes are up
        go = time.time() + 0.7
        parts = pool.starmap(_drain, [(f"sqlite:///{path}", f"w-{index}", go) for index in range(2)], chunksize=1)
    assert sorted(parts[0] + parts[1]) == list(range(1, 41))
    assert len(queue.ready_for_cleaning()) == 40


def _open_and_enqueue(url: str, table: str, go: float) -> tuple[int, bool]:
    while time.time() < go:
        pass
    with SqlQueue(url) as queue:
        answer = queue.enqueue(request(table), now_ms=1)
    return answer.id, answer.accepted


def test_two_processes_may_open_a_new_queue_at_once(path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(abs, [0, 0], chunksize=1)
        go = time.time() + 0.7
        same = pool.starmap(_open_and_enqueue, [(f"sqlite:///{path}", "t", go)] * 2, chunksize=1)
        other = pool.starmap(_open_and_enqueue, [(f"sqlite:///{path}", name, 0.0) for name in "ab"], chunksize=1)
    assert sorted(same) == [(1, False), (1, True)]
    assert sorted(other) == [(2, True), (3, True)]


def test_an_in_memory_queue_for_one_process() -> None:
    with SqlQueue("sqlite://") as queue:
        queue.enqueue(request(), now_ms=1)
        assert states(queue) == [(1, "i")]


def test_a_damaged_database_is_one_line(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is not a database" * 100)
    with pytest.raises(RetryError, match="because the database said: file is not a database") as caught:
        SqlQueue(f"sqlite:///{path}")
    assert "\n" not in str(caught.value)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RetryError, match="its folder cannot be made"):
        SqlQueue(f"sqlite:///{tmp_path}/file/queue.db")


@pytest.mark.parametrize(
    ("url", "kind", "text"),
    [
        ("no-url-secret", RefusedError, "not of the form"),
        ("nothing://u:secret@h/d", RefusedError, "nothing"),
        ("oracle+oracledb://u:secret@h/d", RefusedError, "not installed"),
    ],
)
def test_urls_that_make_no_sense(url: str, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        SqlQueue(url)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_row_that_cannot_be_read_is_an_error(queue: SqlQueue, path: Path) -> None:
    queue.enqueue(request(), now_ms=1)
    with sqlite3.connect(path) as connection:
        connection.execute("update COMPACTION_QUEUE set CQ_TBLPROPERTIES = '9:oops'")
    connection.close()
    with pytest.raises(CorruptError, match="request 1 of COMPACTION_QUEUE"):
        queue.show()


def _plan(path: Path) -> str:
    """How SQLite finds the rows of an entity in the history."""
    with sqlite3.connect(path) as connection:
        asked = "select * from COMPLETED_COMPACTIONS where CC_DATABASE = 'db' and CC_TABLE = 't'"
        (row,) = connection.execute(f"explain query plan {asked}")
    connection.close()
    return str(row[-1])


def test_the_rows_of_a_table_are_found_by_an_index(queue: SqlQueue, path: Path) -> None:
    assert "USING INDEX" in _plan(path)


def test_a_queue_that_was_made_without_an_index_goes_on_without(queue: SqlQueue, path: Path) -> None:
    with sqlite3.connect(path) as connection:
        for name in ("COMPACTION_QUEUE", "COMPLETED_COMPACTIONS"):
            ((text,),) = connection.execute("select sql from sqlite_master where name = ?", (name,))
            older = re.sub(r",\s*UNIQUE \([^)]*\)", "", text)
            assert older != text
            connection.execute(f"drop table {name}")
            connection.execute(older)
    connection.close()
    with SqlQueue(f"sqlite:///{path}") as again:
        assert again.enqueue(request(), now_ms=1).accepted
        assert [row.id for row in again.of_entity(request())] == [1]
    assert "USING INDEX" not in _plan(path)


def test_a_metastores_own_database_is_not_taken_for_ours(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as connection:
        connection.execute("create table COMPACTION_QUEUE (CQ_ID bigint primary key)")
    connection.close()
    with pytest.raises(RefusedError, match="no column CQ_DATABASE"):
        SqlQueue(f"sqlite:///{path}")
