"""Apache Derby as the database of a Hive 4 metastore: by its network server, with Derby's own driver in Spark's JVM.

There is no Python driver for it. This is as much of the DB API, over JDBC, and of a dialect for SQLAlchemy as is needed
to read a metastore's tables and to delete rows of them.
"""

# ruff: noqa: ARG002 - SQLAlchemy defines the parameters of a dialect's methods

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
    """The driver is not available."""


class DatabaseError(Error):
    """Any other error."""


def connect(*, jvm: Callable[[], Any], url: str, user: str | None, password: str | None) -> JdbcConnection:
    """Return a connection by Derby's driver; `jvm` returns py4j's view of the JVM that loads it."""
    view = jvm()
    properties = view.java.util.Properties()
    for name, value in (("user", user), ("password", password)):
        if value is not None:
            properties.setProperty(name, value)
    try:
        # DriverManager does not look into the jars that Spark was given
        loader = view.java.lang.Thread.currentThread().getContextClassLoader()
        driver = loader.loadClass(DRIVER).newInstance()
    except Exception as error:  # py4j's, which is not imported here
        raise InterfaceError(
            f"Spark's JVM has no {DRIVER}; add --driver-class-path derbyclient-RELEASE.jar, of the server's release"
        ) from error
    opened = _java(lambda: driver.connect(url, properties))
    _java(lambda: opened.setAutoCommit(False))
    _java(lambda: opened.setTransactionIsolation(_READ_COMMITTED))
    return JdbcConnection(view, opened)


def _java(call: Callable[[], Any]) -> Any:
    """Return the result of a call into Java; DatabaseError with the message of an exception of Java's."""
    try:
        return call()
    except Exception as error:
        thrown = getattr(error, "java_exception", None)
        if thrown is None:
            raise
        failure = DatabaseError(str(thrown.getMessage()))
        failure.sqlstate = thrown.getSQLState() if hasattr(thrown, "getSQLState") else None
        raise failure from None


class JdbcConnection:
    """A connection of the DB API."""

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
        _java(self.java.commit)

    def rollback(self) -> None:
        """Undo the transaction."""
        _java(self.java.rollback)

    def close(self) -> None:
        """Close the connection; roll back an open transaction."""
        _java(self.java.rollback)  # Derby closes none in the middle of a transaction
        _java(self.java.close)


class JdbcCursor:
    """A cursor of the DB API: it fetches all rows of a statement at once."""

    def __init__(self, java: Any) -> None:
        self._java = java
        self._rows: list[tuple[Any, ...]] = []
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = -1

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Run a statement with parameters that are texts and numbers."""
        prepared = _java(lambda: self._java.prepareStatement(statement))
        try:
            for number, value in enumerate(parameters, 1):
                put = prepared.setLong if isinstance(value, int) else prepared.setString
                _java(partial(put, number, value))
            self.description, self._rows = None, []
            if not _java(prepared.execute):
                self.rowcount = prepared.getUpdateCount()
                return
            results = prepared.getResultSet()
            meta = results.getMetaData()
            count = meta.getColumnCount()
            names = [meta.getColumnLabel(number) for number in range(1, count + 1)]
            self.description = [(name, None, None, None, None, None, None) for name in names]
            while _java(results.next):
                self._rows.append(tuple(results.getObject(number) for number in range(1, count + 1)))
            self.rowcount = len(self._rows)
        finally:
            prepared.close()

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row; None after the last."""
        return self._rows.pop(0) if self._rows else None

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all remaining rows."""
        rows, self._rows = self._rows, []
        return rows

    def close(self) -> None:
        """Forget the rows."""
        self._rows = []


class _Compiler(SQLCompiler):
    """The clauses that Derby spells in its own way."""

    def limit_clause(self, select: Select[Any], **more: Any) -> str:
        """Return the clause that bounds the number of rows."""
        limit = select._limit_clause
        return "" if limit is None else f" FETCH FIRST {self.process(limit.render_literal_execute(), **more)} ROWS ONLY"


class DerbyDialect(DefaultDialect):
    """The dialect of Derby for SQLAlchemy. Hive's names are in upper case, and are quoted."""

    name = "derby"
    driver = "jdbc"
    statement_compiler = _Compiler
    supports_statement_cache = True
    supports_sane_multi_rowcount = False
    default_paramstyle = "qmark"

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Return this module, which has the DB API of a driver."""
        import acidlib.queue.derby as module

        return module

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of `connect` for a URL."""
        jdbc = f"jdbc:derby://{url.host or 'localhost'}:{url.port or _PORT}/{url.database}"
        return [], {"url": jdbc, "user": url.username, "password": url.password}

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Return whether a connection answers."""
        cursor = dbapi_connection.cursor()
        cursor.execute("VALUES 1")
        return True

    def initialize(self, connection: Connected) -> None:
        """Ask the server nothing about itself."""
        self.server_version_info = None

    def get_table_names(self, connection: Connected, schema: str | None = None, **more: Any) -> list[str]:
        """Return the tables of the user's schema."""
        names = "SELECT t.TABLENAME FROM SYS.SYSTABLES t JOIN SYS.SYSSCHEMAS s ON s.SCHEMAID = t.SCHEMAID "
        rows = connection.execute(text(names + "WHERE t.TABLETYPE = 'T' AND s.SCHEMANAME = CURRENT SCHEMA"))
        return [str(name) for (name,) in rows]

    def get_columns(
        self, connection: Connected, table_name: str, schema: str | None = None, **more: Any
    ) -> list[ReflectedColumn]:
        """Return a table's columns by name; their types are not read."""
        names = (
            "SELECT c.COLUMNNAME FROM SYS.SYSCOLUMNS c JOIN SYS.SYSTABLES t ON t.TABLEID = c.REFERENCEID "
            "JOIN SYS.SYSSCHEMAS s ON s.SCHEMAID = t.SCHEMAID "
            "WHERE s.SCHEMANAME = CURRENT SCHEMA AND t.TABLENAME = :name"
        )
        rows = connection.execute(text(names), {"name": table_name})
        return [{"name": str(name), "type": String(), "nullable": True, "default": None} for (name,) in rows]


registry.register(DerbyDialect.name, __name__, DerbyDialect.__name__)
