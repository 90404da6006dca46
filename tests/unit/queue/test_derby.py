"""Derby by its driver in a JVM, which is played here: what is asked of it, and what becomes of what it says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

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


class Java:
    """A JVM with Derby's driver; it answers statements by what they begin with."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, dict[str, str]]] = []
        self.asked: list[tuple[str, list[Any]]] = []
        self.said: list[str] = []
        self.fails: JavaError | None = None
        self.java = SimpleNamespace(
            util=SimpleNamespace(Properties=Properties),
            lang=SimpleNamespace(
                Thread=SimpleNamespace(currentThread=lambda: SimpleNamespace(getContextClassLoader=lambda: self)),
                System=SimpleNamespace(currentTimeMillis=lambda: 77),
            ),
        )

    def loadClass(self, name: str) -> Any:
        assert name == "org.apache.derby.jdbc.ClientDriver"
        return SimpleNamespace(newInstance=lambda: SimpleNamespace(connect=self.connect))

    def connect(self, url: str, properties: Properties) -> Any:
        self.opened.append((url, properties.kept))

        def note(word: str) -> Any:
            return lambda *given: self.said.append(" ".join(map(str, (word, *given))))

        return SimpleNamespace(
            prepareStatement=self.prepare,
            setAutoCommit=note("autocommit"),
            setTransactionIsolation=note("isolation"),
            commit=note("commit"),
            rollback=note("rollback"),
            close=note("close"),
        )

    def prepare(self, statement: str) -> Any:
        given: list[Any] = []
        self.asked.append((" ".join(statement.split()), given))

        def execute() -> bool:
            if self.fails is not None and not statement.startswith("VALUES") and "SYS." not in statement:
                raise self.fails
            return not statement.startswith("DELETE")

        rows = self.rows(statement, given)
        return SimpleNamespace(
            setLong=lambda number, value: given.append(value),
            setString=lambda number, value: given.append(value),
            execute=execute,
            getUpdateCount=lambda: 1,
            getResultSet=lambda: Results(rows()),
            close=lambda: None,
        )

    def rows(self, statement: str, given: list[Any]) -> Any:
        def found() -> list[tuple[Any, ...]]:
            if "FROM SYS.SYSTABLES" in statement:
                return [(name,) for name in TABLES]
            if "FROM SYS.SYSCOLUMNS" in statement:
                return [(name,) for name in TABLES[given[0]]]
            if statement.startswith("VALUES"):
                return [(1,)]
            return [(5, "d", "t", None, "i", 7, "a", 3)]

        return found


class Properties:
    """java.util.Properties."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def setProperty(self, name: str, value: str) -> None:
        self.kept[name] = value


class Results:
    """A ResultSet with its metadata."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._rows, self._at = rows, -1

    def getMetaData(self) -> Results:
        return self

    def getColumnCount(self) -> int:
        return len(self._rows[0])

    def getColumnLabel(self, number: int) -> str:
        return f"C{number}"

    def next(self) -> bool:
        self._at += 1
        return self._at < len(self._rows)

    def getObject(self, number: int) -> Any:
        return self._rows[self._at][number - 1]


NOTE = NotedWrite(txn_id=5, ref=TableRef("d", "t"), write_id=7, compacts=False, is_open=False, started_ms=3)


def test_what_is_noted_is_read_and_forgotten() -> None:
    java = Java()
    database = MetastoreDatabase(URL, lambda: java)
    assert database.noted_writes() == ((NOTE,), 77)
    assert java.opened == [("jdbc:derby://db:1528/memory:metastore", {"user": "APP", "password": "secret"})]
    assert java.said[:2] == ["autocommit False", "isolation 2"]
    assert database.shows_noted_writes()
    assert java.asked[-1][0].endswith("FETCH FIRST 1 ROWS ONLY")
    database.forget([NOTE])
    statement, given = java.asked[-1]
    assert statement.startswith('DELETE FROM "TXN_COMPONENTS" WHERE')
    assert given == [5, "a", "d", "t"]
    assert java.said[-2:] == ["commit", "rollback"]


def test_what_derby_says_is_told_without_the_password() -> None:
    java = Java()
    java.fails = JavaError("A lock could not be obtained, says secret", "40XL1")
    with pytest.raises(RetryError, match=r"the database said: .*A lock could not be obtained, says \*\*\*") as caught:
        MetastoreDatabase(URL, lambda: java).noted_writes()
    assert "secret" not in str(caught.value)


def test_parameters_are_not_changed_where_they_cannot_be_compared() -> None:
    assert not MetastoreDatabase(URL, Java).has_parameters()


def test_without_its_driver_it_is_said_what_to_add() -> None:
    java = Java()
    java.java.lang.Thread = SimpleNamespace(currentThread=lambda: SimpleNamespace(getContextClassLoader=object))
    with pytest.raises(RetryError, match=r"add --driver-class-path derbyclient-RELEASE\.jar"):
        MetastoreDatabase(URL, lambda: java).noted_writes()


def test_no_queue_lies_in_derby() -> None:
    with pytest.raises(UsageError, match="only SQLite, PostgreSQL, MySQL and MariaDB are supported"):
        SqlQueue(URL)
