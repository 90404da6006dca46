"""What the kinds of databases have each in its own way: the clock, exact equality, waiting for a row, their errors."""

from sqlalchemy import BigInteger, ColumnElement, Connection, and_, cast, extract, func, select
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError

from acidlib.queue.derby import DerbyDialect

SQLITE, POSTGRESQL, DERBY = "sqlite", "postgresql", "derby"
MYSQL = ("mysql", "mariadb")
SUPPORTED = (SQLITE, POSTGRESQL, *MYSQL)

CONNECT_SECONDS = 10
BUSY_SECONDS = 60.0

# PostgreSQL: serialization failure and deadlock; MySQL: deadlock
_DEADLOCKS = frozenset({"40001", "40P01", 1213})
# PostgreSQL: lock not available; MySQL: lock wait timeout
_BUSY = frozenset({"55P03", 1205})
# PostgreSQL: insufficient privilege; MySQL: a command on a table, or a column of it, that this user may not use
_DENIED = frozenset({"42501", 1142, 1143})


def connect_arguments(dialect: str, query: frozenset[str]) -> dict[str, object]:
    """Arguments of the driver, beside those that the URL's `query` names.

    MySQL is set to refuse what it would otherwise cut off or replace.
    """
    if dialect == SQLITE:
        return {"timeout": BUSY_SECONDS}
    arguments: dict[str, object] = {"connect_timeout": CONNECT_SECONDS}
    if dialect in MYSQL:
        arguments["init_command"] = "SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')"
    return {name: value for name, value in arguments.items() if name not in query}


def database_now_ms(connection: Connection) -> int:
    """The database's clock, epoch milliseconds. MySQL's is in whole seconds, as in Hive; no time zone has a part in it.

    Source: Hive `TxnHandler.getDbTime`.
    """
    dialect = connection.dialect.name
    if isinstance(connection.dialect, DerbyDialect):
        return connection.dialect.now_ms(connection)
    now: ColumnElement[int]
    if dialect == POSTGRESQL:
        now = cast(func.floor(extract("epoch", func.clock_timestamp()) * 1000), BigInteger)
    elif dialect in MYSQL:
        now = func.unix_timestamp() * 1000
    else:
        # days since the epoch's Julian day
        now = cast((func.julianday("now") - 2440587.5) * 86_400_000, BigInteger)
    return int(connection.execute(select(now)).scalar_one())


def equals(connection: Connection, column: ColumnElement[str], value: str) -> ColumnElement[bool]:
    """Equality of every character; a metastore's tables in MySQL ignore case and blanks at the end."""
    if connection.dialect.name not in MYSQL:
        return column == value
    exact = cast(cast(column, mysql.CHAR(charset="utf8mb4")), mysql.BINARY()) == value.encode()
    return and_(column == value, exact)  # the first can use an index


def wait_for_locks(connection: Connection, seconds: int) -> None:
    """Bounds how long the next statements of this connection wait for rows that others have locked.

    On MySQL it is the session's: the connection must not be used for anything else later.
    """
    if connection.dialect.name == POSTGRESQL:
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {seconds * 1000}")
    elif connection.dialect.name in MYSQL:
        connection.exec_driver_sql(f"SET SESSION innodb_lock_wait_timeout = {seconds}")


def is_deadlock(error: DBAPIError) -> bool:
    """Whether the transaction was chosen to give way to others: all of it is undone and may be done anew."""
    return not _DEADLOCKS.isdisjoint(_codes(error))


def is_busy(error: DBAPIError) -> bool:
    """Whether a row was locked by somebody else for longer than `wait_for_locks` allows."""
    return not _BUSY.isdisjoint(_codes(error))


def is_denied(error: DBAPIError) -> bool:
    """Return whether the user lacks a right."""
    return not _DENIED.isdisjoint(_codes(error))


def _codes(error: DBAPIError) -> tuple[object, ...]:
    """The standard's code of an error, where the driver gives it, and MySQL's own, which PyMySQL puts first."""
    return getattr(error.orig, "sqlstate", None), *getattr(error.orig, "args", ())[:1]
