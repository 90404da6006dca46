"""The queue in tables of our own, in SQLite: two processes at once, a broken database, tables that lack a column."""

import multiprocessing
import re
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from claiming import claim_next
from located import at
from queue_behaviour import MAJOR, QueueBehaviour, request, states
from sqlalchemy import Engine, event

from acidlib.errors import CorruptError, RefusedError, RetryError
from acidlib.model.requests import State
from acidlib.queue.sql import SqlQueue


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state/acidlib/queue.db"


@pytest.fixture
def queue(path: Path) -> SqlQueue:
    return SqlQueue(f"sqlite:///{path}")


class TestOnSqlite(QueueBehaviour):
    """Everything that holds for any database."""


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


def _plans(path: Path, work: Callable[[], object]) -> set[str]:
    """How SQLite finds rows about a table or partition."""
    asked: list[tuple[str, Any]] = []

    def note(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:
        if statement.startswith("SELECT") and any(name in statement for name in ('_ENTITY" =', '_TABLE" =')):
            asked.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    work()
    event.remove(Engine, "before_cursor_execute", note)
    with sqlite3.connect(path) as connection:
        found = {row[-1] for one in asked for row in connection.execute(f"explain query plan {one[0]}", one[1])}
    connection.close()
    assert found
    return found


def test_the_rows_of_a_partition_are_found_by_an_index(queue: SqlQueue, path: Path) -> None:
    """Not by the table's alone, which may have many of them."""
    for work in (lambda: queue.enqueue(request(partition="p=1"), now_ms=1), lambda: queue.of_entity(request())):
        assert all(re.search(r"USING INDEX .*\(C[QC]_ENTITY=\?\)", plan) for plan in _plans(path, work))


def test_requests_are_found_by_their_place(queue: SqlQueue) -> None:
    """The request 1, which is queued for /w/t, and when it has failed."""
    queue.enqueue(request(), now_ms=1)
    here = at("/w/t")

    def found() -> list[list[int]]:
        rows = (queue.rows_at([here]), queue.rows_at([here], states=(State.INITIATED, State.FAILED)))
        return [[row.id for row in some] for some in (*rows, queue.newest_of_places())]

    assert found() == [[1]] * 3
    assert queue.claim_id(1, "w", 1) is not None
    queue.end(1, State.FAILED, 1, worker_id="w", reason="x")
    assert found() == [[1]] * 3
    assert queue.failed_attempts(request(), threshold=1, retry_ms=0, now_ms=9) is not None
    assert queue.failed_attempts(request(location="/elsewhere"), threshold=1, retry_ms=0, now_ms=9) is None


@pytest.mark.parametrize("column", ["CQ_PLACE", "CQ_ENTITY", "CQ_WORKER_ID"])
def test_tables_without_a_column_are_refused(queue: SqlQueue, path: Path, column: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"alter table COMPACTION_QUEUE rename column {column} to CQ_OTHER")
    connection.close()
    with pytest.raises(RefusedError, match=f"its table COMPACTION_QUEUE has no column {column}, and no table VERSION"):
        SqlQueue(f"sqlite:///{path}")


def test_a_metastores_own_database_is_not_taken_for_ours(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as connection:
        connection.execute("create table COMPACTION_QUEUE (CQ_ID bigint primary key)")
    connection.close()
    with pytest.raises(RefusedError, match="no column CQ_DATABASE"):
        SqlQueue(f"sqlite:///{path}")
