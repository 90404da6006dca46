"""Apache Derby as the database of a Hive 4 metastore: by its network server, with Derby's own driver in Spark's JVM.

No driver of Python speaks to it. This is as much of the DB API, over JDBC, and as much of a dialect of SQLAlchemy as is
needed to read a metastore's tables and to remove rows of them.
"""

# ruff: noqa: ARG002 - SQLAlchemy gives what a dialect may want to know

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

from sqlalchemy import Connection as Connected
from sqlalchemy import String, text
from sqlalchemy.dialects import registry
from sqlalchemy.engine import URL
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.interfaces import ReflectedColumn
from sqlalchemy.sql import Select
from sqlalchemy.sql.compiler import SQLCompiler

DRIVER = "org.apache.derby.jdbc.ClientDriver"
_PORT = 1527
_READ_COMMITTED = 2  # java.sql.Connection.TRANSACTION_READ_COMMITTED

apilevel, threadsafety, paramstyle = "2.0", 1, "qmark"


class Error(Exception):
    """An error of Derby or its driver; `sqlstate` is the standard's code."""

    sqlstate: str | None = None


class InterfaceError(Error):
    """The driver could not be had."""


class DatabaseError(Error):
    """Any other error."""


def connect(*, jvm: Callable[[], Any], url: str, user: str | None, password: str | None) -> JdbcConnection:
    """Return a connection of the driver in the JVM, which `jvm` gives py4j's view of."""
    view = jvm()
    properties = view.java.util.Properties()
    for name, value in (("user", user), ("password", password)):
        if value is not None:
            properties.setProperty(name, value)
    try:
        # what Spark was given is not where DriverManager looks
        loader = view.java.lang.Thread.currentThread().getContextClassLoader()
        driver = loader.loadClass(DRIVER).newInstance()
    except Exception as error:  # py4j's, of which this room knows nothing
        raise InterfaceError(
            f"Spark's JVM has no {DRIVER}; add --driver-class-path derbyclient-RELEASE.jar, of the server's release"
        ) from error
    opened = _said(lambda: driver.connect(url, properties))
    _said(lambda: opened.setAutoCommit(False))
    _said(lambda: opened.setTransactionIsolation(_READ_COMMITTED))
    return JdbcConnection(view, opened)


def _said(call: Callable[[], Any]) -> Any:
    """Return what a call into Java gives; DatabaseError with what Java's exception says."""
    try:
        return call()
    except Exception as error:
        java = getattr(error, "java_exception", None)
        if java is None:
            raise
        found = DatabaseError(str(java.getMessage()))
        found.sqlstate = java.getSQLState() if hasattr(java, "getSQLState") else None
        raise found from None


class JdbcConnection:
    """A connection, as the DB API has it."""

    def __init__(self, view: Any, java: Any) -> None:
        self._view = view
        self.java = java

    def now_ms(self) -> int:
        """Return the time of the JVM's machine, epoch milliseconds."""
        return int(self._view.java.lang.System.currentTimeMillis())

    def cursor(self) -> JdbcCursor:
        """Return a new cursor."""
        return JdbcCursor(self.java)

    def commit(self) -> None:
        """Commit the transaction."""
        _said(self.java.commit)

    def rollback(self) -> None:
        """Undo the transaction."""
        _said(self.java.rollback)

    def close(self) -> None:
        """Close it; what is not committed is undone."""
        _said(self.java.rollback)  # Derby closes none in the middle of a transaction
        _said(self.java.close)


class JdbcCursor:
    """A cursor, as the DB API has it: the rows of a statement are fetched at once."""

    def __init__(self, java: Any) -> None:
        self._java = java
        self._rows: list[tuple[Any, ...]] = []
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = -1

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Run a statement with its parameters, which are texts and numbers."""
        prepared = _said(lambda: self._java.prepareStatement(statement))
        try:
            for number, value in enumerate(parameters, 1):
                put = prepared.setLong if isinstance(value, int) else prepared.setString
                _said(partial(put, number, value))
            self.description, self._rows = None, []
            if not _said(prepared.execute):
                self.rowcount = prepared.getUpdateCount()
                return
            results = prepared.getResultSet()
            meta = results.getMetaData()
            count = meta.getColumnCount()
            names = [meta.getColumnLabel(number) for number in range(1, count + 1)]
            self.description = [(name, None, None, None, None, None, None) for name in names]
            while _said(results.next):
                self._rows.append(tuple(results.getObject(number) for number in range(1, count + 1)))
            self.rowcount = len(self._rows)
        finally:
            prepared.close()

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row; None after the last."""
        return self._rows.pop(0) if self._rows else None

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows that are left."""
        found, self._rows = self._rows, []
        return found

    def close(self) -> None:
        """Forget the rows."""
        self._rows = []


class _Compiler(SQLCompiler):
    """Derby's own words."""

    def limit_clause(self, select: Select[Any], **more: Any) -> str:
        """Return the clause that bounds the number of rows."""
        limit = select._limit_clause
        return "" if limit is None else f" FETCH FIRST {self.process(limit.render_literal_execute(), **more)} ROWS ONLY"


class DerbyDialect(DefaultDialect):
    """The dialect of Derby for SQLAlchemy. Names in upper case are quoted, as Hive has them."""

    name = "derby"
    driver = "jdbc"
    statement_compiler = _Compiler
    supports_statement_cache = True
    supports_sane_multi_rowcount = False
    default_paramstyle = "qmark"

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Return what stands in for a driver: this module."""
        import acidlib.queue.derby as module

        return module

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """Return what `connect` is given of a URL."""
        found = f"jdbc:derby://{url.host or 'localhost'}:{url.port or _PORT}/{url.database}"
        return [], {"url": found, "user": url.username, "password": url.password}

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Return whether a connection answers."""
        cursor = dbapi_connection.cursor()
        cursor.execute("VALUES 1")
        return True

    def initialize(self, connection: Connected) -> None:
        """Ask nothing."""
        self.server_version_info = None

    def now_ms(self, connection: Connected) -> int:
        """Return the time of this machine: that of Derby has no time zone."""
        held: Any = connection.connection.dbapi_connection
        return int(held.now_ms())

    def get_table_names(self, connection: Connected, schema: str | None = None, **more: Any) -> list[str]:
        """Return the tables of the user's schema."""
        names = "SELECT t.TABLENAME FROM SYS.SYSTABLES t JOIN SYS.SYSSCHEMAS s ON s.SCHEMAID = t.SCHEMAID "
        found = connection.execute(text(names + "WHERE t.TABLETYPE = 'T' AND s.SCHEMANAME = CURRENT SCHEMA"))
        return [str(name) for (name,) in found]

    def get_columns(
        self, connection: Connected, table_name: str, schema: str | None = None, **more: Any
    ) -> list[ReflectedColumn]:
        """Return the names of a table's columns; of their types nothing is known."""
        names = (
            "SELECT c.COLUMNNAME FROM SYS.SYSCOLUMNS c JOIN SYS.SYSTABLES t ON t.TABLEID = c.REFERENCEID "
            "JOIN SYS.SYSSCHEMAS s ON s.SCHEMAID = t.SCHEMAID "
            "WHERE s.SCHEMANAME = CURRENT SCHEMA AND t.TABLENAME = :name"
        )
        found = connection.execute(text(names), {"name": table_name})
        return [{"name": str(name), "type": String(), "nullable": True, "default": None} for (name,) in found]


registry.register(DerbyDialect.name, __name__, DerbyDialect.__name__)
