"""The database behind a queue: its URL and password, transactions and failures, and the differences between kinds."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    and_,
    cast,
    create_engine,
    event,
    extract,
    func,
    select,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry
from tenacity import Retrying, retry_if_exception, stop_after_attempt

from acidlib.errors import ConflictError, RefusedError, RetryError, UnknownOutcomeError, UsageError
from acidlib.masking import MASK, is_secret

PASSWORD = "acidlib.queue.password"  # noqa: S105 - the name under which it is kept
HIVES_PASSWORD = "javax.jdo.option.ConnectionPassword"  # noqa: S105 - the same
HIVES_USER = "javax.jdo.option.ConnectionUserName"

SQLITE, POSTGRESQL = "sqlite", "postgresql"
MYSQL = ("mysql", "mariadb")
SUPPORTED = (SQLITE, POSTGRESQL, *MYSQL)

_CHUNK = 500
"""Values of one IN list; databases bound the number of parameters."""

# PostgreSQL: serialization failure and deadlock; MySQL: deadlock
_DEADLOCKS = frozenset({"40001", "40P01", 1213})
# PostgreSQL: lock not available; MySQL: lock wait timeout
_BUSY = frozenset({"55P03", 1205})
DENIED = frozenset({"42501", 1142, 1143})
"""The codes of errors for a missing right. PostgreSQL: insufficient privilege; MySQL: a command on a table or column
that this user may not run.
"""

_CONNECT_SECONDS = 10
_BUSY_SECONDS = 60.0
_REOPENED_SECONDS = 1
"""How long a connection to a file of SQLite is used: opening one costs more than a read, but another file may take its
name.
"""
_READING = "acidlib_reading"
_DEADLOCK_ATTEMPTS = 10

T = TypeVar("T")


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield values in portions that fit into an IN list."""
    return (values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK))


def with_password(url: str, site: Mapping[str, str], stored: Callable[[str], str | None]) -> str:
    """Return the URL, with a password added if it names a user without one.

    site    the properties of hive-site.xml
    stored  returns the password of a name in Hadoop's credential providers, None if they have none

    The password under our own name (`PASSWORD`) comes first, then Hive's own, for Hive's own user alone. Without either
    the URL stays as it is: a database may trust this machine. An invalid URL is returned for `SqlDatabase` to refuse.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return url
    if not parsed.username or parsed.password is not None or "password" in parsed.query:
        return url
    password = stored(PASSWORD)
    if password is None and parsed.username == site.get(HIVES_USER, "").strip():
        password = stored(HIVES_PASSWORD)
    return url if password is None else parsed.set(password=password).render_as_string(hide_password=False)


class SqlDatabase:
    """A queue's database by URL; writing transactions are exclusive on SQLite and short everywhere.

    The messages of its errors have one line and no secrets.
    """

    def __init__(self, url: str) -> None:
        try:
            parsed = make_url(url)
        except (ArgumentError, ValueError):
            scheme = url.partition("://")[0] if "://" in url else "a text without ://"
            raise UsageError(
                f"Cannot open the queue: its URL ({scheme} …) is not of the form dialect://place, "
                "such as sqlite:////var/lib/acidlib/queue.db"
            ) from None
        if "@" in (parsed.host or ""):
            raise UsageError(
                f"Cannot open the queue: its URL ({parsed.drivername} …) has more than one @; in a password it is "
                "written as %40"
            )
        # a parameter may be a password, too
        self.shown = parsed.set(query={}).render_as_string(hide_password=True)
        given = [parsed.password, *(value for name, value in parsed.query.items() if is_secret(name))]
        values = [str(value) for value in given if value]
        self._secrets = [text for value in values for text in (value, quote(value), quote_plus(value))]
        self._engine = self._open(parsed)
        # SQLite lets one connection write and has the others poll: threads of this process wait in turn instead
        self._writing: AbstractContextManager[object] = threading.Lock() if self.dialect == SQLITE else nullcontext()

    def _open(self, url: URL) -> Engine:
        kind = url.get_backend_name()
        options: dict[str, Any]
        if kind == SQLITE:
            options = {"connect_args": {"timeout": _BUSY_SECONDS}}
            if url.database not in (None, "", ":memory:"):
                options |= {"pool_recycle": _REOPENED_SECONDS, "max_overflow": -1}
                if not str(url.database).startswith("file:"):  # SQLite's own URI
                    self._make_file(Path(str(url.database)))
        else:
            arguments: dict[str, object] = {"connect_timeout": _CONNECT_SECONDS}
            if kind in MYSQL:  # else it truncates and replaces values that do not fit
                arguments["init_command"] = "SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')"
            arguments = {name: value for name, value in arguments.items() if name not in url.query}
            options = {"pool_pre_ping": True, "isolation_level": "READ COMMITTED", "connect_args": arguments}
        try:
            engine = create_engine(url, **options)
        except NoSuchModuleError as error:
            raise UsageError(f"Cannot open the queue {self.shown}: {self._one_line(error)}") from None
        except ImportError as error:
            raise RefusedError(
                f"Cannot open the queue {self.shown}: its database driver is not installed ({error.name}); pip install "
                "'acidlib[postgresql]' or 'acidlib[mysql]' installs it"
            ) from None
        if engine.dialect.name not in SUPPORTED:
            raise UsageError(
                f"Cannot open the queue {self.shown}: only SQLite, PostgreSQL, MySQL and MariaDB are supported"
            )
        if kind == SQLITE:
            _take_write_lock_at_begin(engine)
        return engine

    def _make_file(self, file: Path) -> None:
        """Create an SQLite file with its folder, for this user alone; SQLite gives its journal the rights of the file.

        RetryError with a reason, which SQLite would not give; RefusedError for a file that every user can write, by
        its own rights or those of its folder: a run does what the queue says.
        """
        folder, reason = file.parent, None
        failed = "its folder cannot be created"
        try:
            for missing in [above for above in (folder, *folder.parents) if not above.exists()][::-1]:
                missing.mkdir(mode=stat.S_IRWXU, exist_ok=True)
            failed = f"{file} cannot be accessed"
            if file.is_dir():
                reason = f"{file} is a directory"
            elif file.exists():
                self._require_trusted(file.resolve())
            elif not os.access(folder, os.W_OK | os.X_OK):
                reason = f"there is no such file, and this user may not create one in {folder} (Permission denied)"
            else:
                with suppress(FileExistsError):  # another run has made it
                    os.close(os.open(file, os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR))
        except OSError as error:
            reason = f"{failed} ({error.strerror})"
        if reason is not None:
            raise RetryError(f"Cannot open the queue {self.shown}: {reason}")

    def _require_trusted(self, file: Path) -> None:
        """Raise `RefusedError` for a file that every user can write, or could have put there."""
        folder, status = file.parent.stat(), file.stat()
        is_shared = bool(folder.st_mode & stat.S_IWOTH)
        if status.st_mode & stat.S_IWOTH or (is_shared and not folder.st_mode & stat.S_ISVTX):
            where = f"write {file}" if status.st_mode & stat.S_IWOTH else f"replace {file}, by the rights of its folder"
            remedy = f"chmod o-w {file if status.st_mode & stat.S_IWOTH else file.parent}"
            raise RefusedError(f"Cannot open the queue {self.shown}: every user may {where}; {remedy} ends that")
        if is_shared and status.st_uid not in (0, os.geteuid()):
            raise RefusedError(
                f"Cannot open the queue {self.shown}: {file} is another user's, in a folder where every user may make "
                "files; a folder of a group may be shared"
            )

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @property
    def dialect(self) -> str:
        """The kind of database, one of `SUPPORTED`."""
        return self._engine.dialect.name

    def now_ms(self, connection: Connection) -> int:
        """Return the database's clock in epoch milliseconds, in any time zone; MySQL's has whole seconds, as in Hive.

        Source: Hive `TxnHandler.getDbTime`.
        """
        now: ColumnElement[int]
        if self.dialect == POSTGRESQL:
            now = cast(func.floor(extract("epoch", func.clock_timestamp()) * 1000), BigInteger)
        elif self.dialect in MYSQL:
            now = func.unix_timestamp() * 1000
        else:
            # days since the epoch's Julian day
            now = cast((func.julianday("now") - 2440587.5) * 86_400_000, BigInteger)
        return int(connection.execute(select(now)).scalar_one())

    def equals(self, column: ColumnElement[str], value: str | None) -> ColumnElement[bool]:
        """Return the condition that each character is equal; None is equal to null alone.

        By itself MySQL ignores case and blanks at the end in a metastore's tables.
        """
        if value is None:
            return column.is_(None)
        if self.dialect not in MYSQL:
            return column == value
        exact = cast(cast(column, mysql.CHAR(charset="utf8mb4")), mysql.BINARY()) == value.encode()
        return and_(column == value, exact)  # the first can use an index

    @contextmanager
    def reading(self, action: str, *, one_moment: bool = False) -> Iterator[Connection]:
        """Open one transaction that only reads: it neither waits for writers nor needs the right to write.

        With `one_moment` all its statements see the state at the first of them.
        """
        options: dict[str, object] = {_READING: True}
        if one_moment and self.dialect != SQLITE:
            options["isolation_level"] = "REPEATABLE READ"
        with (
            self._translated(action),
            self._engine.connect().execution_options(**options) as connection,
            connection.begin(),
        ):
            yield connection

    def write(self, action: str, work: Callable[[Connection], T]) -> T:
        """Return the result of `work`, run in one transaction: committed at its end, rolled back by any exception.

        It runs again after a deadlock. Errors of the database or its driver become `RetryError`, "Cannot `action` the
        queue …"; `RefusedError` where the values do not fit; `UnknownOutcomeError` when the connection was lost while
        committing.
        """

        def once() -> T:
            with self._engine.connect() as connection:
                with connection.begin() as transaction:
                    result = work(connection)
                    try:
                        transaction.commit()
                    except DBAPIError as error:
                        if error.connection_invalidated:
                            raise UnknownOutcomeError(
                                f"Cannot tell the outcome of an attempt to {action} the queue {self.shown}: the "
                                f"connection was lost while committing: {self._one_line(error)}"
                            ) from None
                        raise
                return result

        with self._translated(action), self._writing:
            return _RETRYING(once)

    @contextmanager
    def holding(self, action: str, lock: Callable[[Connection], object], *, wait_seconds: int) -> Iterator[None]:
        """Keep the rows locked that `lock` selects for update, in a connection of its own, until the context ends.

        Raises `ConflictError` when another process holds them for longer than `wait_seconds`. If the connection is lost
        meanwhile, the lock is lost without notice.
        """
        with self._translated(action):
            connection = self._engine.connect()
        try:
            with self._translated(action):
                connection.begin()
                connection.detach()  # the settings below must not come back to the pool
                try:
                    if self.dialect == POSTGRESQL:
                        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {wait_seconds * 1000}")
                    elif self.dialect in MYSQL:
                        connection.exec_driver_sql(f"SET SESSION innodb_lock_wait_timeout = {wait_seconds}")
                    lock(connection)
                except DBAPIError as error:
                    if not is_among(_BUSY, error):
                        raise
                    reason = f"another process does (its lock was not released within {wait_seconds} s)"
                    raise ConflictError(f"Cannot {action} the queue {self.shown}: {reason}") from None
            yield
        finally:
            with suppress(SQLAlchemyError):  # a lost connection holds no lock any more
                connection.close()

    @contextmanager
    def _translated(self, action: str) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            first = _first_error(error)
            kind = RefusedError if isinstance(first, DataError) else RetryError
            raise kind(
                f"Cannot {action} the queue {self.shown}: the database said: {self._one_line(first)}"
            ) from None  # the driver's own error may hold the password

    def _one_line(self, error: SQLAlchemyError) -> str:
        cause = getattr(error, "orig", None) or error
        arguments: tuple[object, ...] = getattr(cause, "args", ())
        # PyMySQL gives a number and a text
        text = str(arguments[1]) if len(arguments) == 2 and isinstance(arguments[0], int) else str(cause)
        lines = text.strip().splitlines()
        line = lines[0] if lines else type(cause).__name__
        for secret in self._secrets:
            line = line.replace(secret, MASK)
        return line


def _first_error(error: SQLAlchemyError) -> SQLAlchemyError:
    """Return the error before the rollback that raised this one: on a full disk SQLite has dropped the savepoint."""
    before = getattr(error.__cause__ or error, "__context__", None)
    return _first_error(before) if isinstance(before, SQLAlchemyError) else error


def is_among(codes: frozenset[object], error: DBAPIError) -> bool:
    """Return whether an error has one of these codes: SQLSTATEs, where its driver reports one, or MySQL's own."""
    reported = {getattr(error.orig, "sqlstate", None), *getattr(error.orig, "args", ())[:1]}  # PyMySQL puts it first
    return not codes.isdisjoint(reported)


_RETRYING = Retrying(
    retry=retry_if_exception(lambda error: isinstance(error, DBAPIError) and is_among(_DEADLOCKS, error)),
    stop=stop_after_attempt(_DEADLOCK_ATTEMPTS),
    reraise=True,
)


def _take_write_lock_at_begin(engine: Engine) -> None:
    """Have SQLite's transactions take the write lock at their start: a read that turns into a write could fail."""

    @event.listens_for(engine, "connect")
    def disable_implicit_transactions(connection: sqlite3.Connection, record: ConnectionPoolEntry) -> None:  # noqa: ARG001 # the listener's signature is given
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        reading = connection.get_execution_options().get(_READING, False)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")
