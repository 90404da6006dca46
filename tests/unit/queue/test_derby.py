"""Derby by its driver in a mocked JVM: the statements, their results and errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, call

import pytest

from acidlib.errors import RetryError, UsageError
from acidlib.model.tables import TableRef
from acidlib.planning.clean import NotedWrite
from acidlib.queue.metastore_database import MetastoreDatabase
from acidlib.queue.sql import SqlQueue

URL = "derby://APP:secret@db:1528/memory:metastore"
TABLES = {
    "TXNS": ("TXN_ID", "TXN_STATE", "TXN_STARTED", "TXN_HOST"),
    "TXN_COMPONENTS": ("TC_TXNID", "TC_DATABASE", "TC_TABLE", "TC_PARTITION", "TC_OPERATION_TYPE", "TC_WRITEID"),
}


class JavaError(Exception):
    """What py4j raises for an exception of Java."""

    def __init__(self, message: str, state: str) -> None:
        super().__init__(f"An error occurred while calling o1\n{message}")
        self.java_exception = SimpleNamespace(getMessage=lambda: message, getSQLState=lambda: state)


class Java(MagicMock):
    """A JVM with Derby's driver; it answers statements by their tables."""


@pytest.fixture
def java() -> Java:
    found = Java()
    found.java.lang.System.currentTimeMillis.return_value = 77
    driver_of(found).connect.return_value.prepareStatement.side_effect = prepared
    return found


def driver_of(java: Java) -> MagicMock:
    loader = java.java.lang.Thread.currentThread.return_value.getContextClassLoader.return_value
    found = loader.loadClass.return_value.newInstance.return_value
    assert isinstance(found, MagicMock)
    return found


ASKED: list[tuple[str, list[Any]]] = []
"""Statements with their parameters, in order."""


def prepared(statement: str) -> SimpleNamespace:
    given: list[Any] = []
    ASKED.append((" ".join(statement.split()), given))

    def results() -> SimpleNamespace:
        rows = [(5, "d", "t", None, "i", 7, "a", 3)]
        if "FROM SYS.SYSTABLES" in statement:
            rows = [(name,) for name in TABLES]
        elif "FROM SYS.SYSCOLUMNS" in statement:
            rows = [(name,) for name in TABLES[given[0]]]
        at = iter(rows)
        row: list[Any] = []

        def following() -> bool:
            row[:] = next(at, ())
            return bool(row)

        meta = SimpleNamespace(getColumnCount=lambda: len(rows[0]), getColumnLabel=lambda number: f"C{number}")
        return SimpleNamespace(getMetaData=lambda: meta, next=following, getObject=lambda number: row[number - 1])

    return SimpleNamespace(
        setLong=lambda number, value: given.append(value),
        setString=lambda number, value: given.append(value),
        execute=lambda: not statement.startswith("DELETE"),
        getUpdateCount=lambda: 1,
        getResultSet=results,
        close=lambda: None,
    )


NOTE = NotedWrite(txn_id=5, ref=TableRef("d", "t"), write_id=7, compacts=False, is_open=False, started_ms=3)


def test_what_is_noted_is_read_and_forgotten(java: Java) -> None:
    database, driver = MetastoreDatabase(URL, lambda: java), driver_of(java)
    assert database.noted_writes() == ((NOTE,), 77)
    properties = java.java.util.Properties.return_value
    assert properties.setProperty.call_args_list == [call("user", "APP"), call("password", "secret")]
    driver.connect.assert_called_once_with("jdbc:derby://db:1528/memory:metastore", properties)
    connection = driver.connect.return_value
    connection.setAutoCommit.assert_called_once_with(False)
    connection.setTransactionIsolation.assert_called_once_with(2)
    assert database.shows_noted_writes()
    assert ASKED[-1][0].endswith("FETCH FIRST 1 ROWS ONLY")
    database.forget([NOTE])
    statement, given = ASKED[-1]
    assert statement.startswith('DELETE FROM "TXN_COMPONENTS" WHERE')
    assert given == [5, "a", "d", "t"]
    assert [name for name, _, _ in connection.method_calls[-2:]] == ["commit", "rollback"]


def test_what_derby_says_is_told_without_the_password(java: Java) -> None:
    lost = JavaError("A lock could not be obtained, says secret", "40XL1")
    driver_of(java).connect.return_value.prepareStatement.side_effect = lost
    with pytest.raises(RetryError, match=r"the database said: .*A lock could not be obtained, says \*\*\*") as caught:
        MetastoreDatabase(URL, lambda: java).noted_writes()
    assert "secret" not in str(caught.value)


def test_parameters_are_not_changed_where_they_cannot_be_compared() -> None:
    assert not MetastoreDatabase(URL, Java).has_parameters()


def test_without_its_driver_it_is_said_what_to_add() -> None:
    java = Java()
    java.java.lang.Thread.currentThread.return_value.getContextClassLoader.return_value = None
    with pytest.raises(RetryError, match=r"add --driver-class-path derbyclient-RELEASE\.jar"):
        MetastoreDatabase(URL, lambda: java).noted_writes()


def test_no_queue_lies_in_derby() -> None:
    with pytest.raises(UsageError, match="only SQLite, PostgreSQL, MySQL and MariaDB are supported"):
        SqlQueue(URL)
