"""The queue in tables of our own, in SQLite: rows and indexes, a broken database, a missing column."""

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from queue_behaviour import QueueBehaviour, request, states
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


def test_an_in_memory_queue_for_one_process() -> None:
    with SqlQueue("sqlite://") as queue:
        queue.enqueue(request(), now_ms=1)
        assert states(queue) == [(1, "i")]


def test_a_damaged_database_is_one_line(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is not a database" * 100)
    with pytest.raises(RetryError, match="the database said: file is not a database") as caught:
        SqlQueue(f"sqlite:///{path}")
    assert "\n" not in str(caught.value)


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
    queue.enqueue_all([request(name) for name in "abc"], now_ms=1)
    with sqlite3.connect(path) as connection:
        connection.execute("update COMPACTION_QUEUE set CQ_TBLPROPERTIES = '9:oops'")
    connection.close()
    with pytest.raises(CorruptError, match="request 1 of COMPACTION_QUEUE") as caught:
        queue.show()
    with sqlite3.connect(path, timeout=0) as connection:  # the error keeps nothing locked
        connection.execute("update COMPACTION_QUEUE set CQ_TBLPROPERTIES = null")
    connection.close()
    assert [row.id for row in queue.show()] == [3, 2, 1], caught


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
    for work in (lambda: queue.enqueue(request(partition="p=1"), now_ms=1), lambda: queue.of_entity(request().ref)):
        assert all(re.search(r"USING INDEX .*\(C[QC]_ENTITY=\?\)", plan) for plan in _plans(path, work))


def test_each_place_is_known_by_its_newest_request(queue: SqlQueue) -> None:
    """In the history, as in the queue."""
    for _ in range(2):
        number = queue.enqueue(request(), now_ms=1).id
        assert queue.claim_id(number, "w", 1) is not None
        queue.end(number, State.FAILED, 1, worker_id="w")
    queue.enqueue(request(), now_ms=1)
    assert [row.id for row in queue.newest_of_places()] == [3, 2]


@pytest.mark.parametrize("column", ["CQ_PLACE", "CQ_ENTITY", "CQ_WORKER_ID"])
def test_tables_without_a_column_are_refused(queue: SqlQueue, path: Path, column: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"alter table COMPACTION_QUEUE rename column {column} to CQ_OTHER")
    connection.close()
    with pytest.raises(RefusedError, match=f"its table COMPACTION_QUEUE has no column {column}, and no table VERSION"):
        SqlQueue(f"sqlite:///{path}")
