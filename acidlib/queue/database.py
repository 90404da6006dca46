"""The database behind a queue: opening it, its transactions, and its failures told in one line without secrets."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, MetaData, create_engine, event, inspect
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from acidlib.errors import RefusedError, RetryError

BUSY_SECONDS = 60.0
_READING = "acidlib_reading"


class Database:
    """A queue's database by URL; every transaction that writes is exclusive on SQLite and short everywhere."""

    def __init__(self, url: str) -> None:
        parsed = _parse(url)
        self.shown = parsed.render_as_string(hide_password=True)
        self._password = str(parsed.password) if parsed.password is not None else None
        self._engine = self._open(parsed)

    def close(self) -> None:
        """Closes all connections."""
        self._engine.dispose()

    @property
    def engine(self) -> Engine:
        """The engine, for reading its dialect and creating tables."""
        return self._engine

    @contextmanager
    def transaction(self, action: str) -> Iterator[Connection]:
        """One transaction: committed at the end, rolled back by any exception.

        What the database or its driver raises becomes `RetryError`: "Cannot `action` the queue …".
        """
        with self._told(action), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def reading(self, action: str) -> Iterator[Connection]:
        """One transaction that only reads: it neither waits for writers nor needs the right to write."""
        with (
            self._told(action),
            self._engine.connect().execution_options(**{_READING: True}) as connection,
            connection.begin(),
        ):
            yield connection

    def prepare(self, metadata: MetaData) -> None:
        """Creates the tables that are missing; raises `RefusedError` when one exists without a column of ours."""
        with self.reading("open") as connection:
            missing = _missing_tables(connection, metadata, self.shown)
        if missing:
            with self.transaction("create") as connection:
                metadata.create_all(connection)

    def _make_folder(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RetryError(
                f"Cannot open the queue {self.shown}: because its folder cannot be made ({error.strerror})"
            ) from error

    def _open(self, url: URL) -> Engine:
        sqlite = url.get_backend_name() == "sqlite"
        if sqlite and url.database and url.database != ":memory:":
            self._make_folder(Path(url.database).parent)
        try:
            if not sqlite:
                return create_engine(url, pool_pre_ping=True, isolation_level="READ COMMITTED")
            in_memory = url.database in (None, "", ":memory:")
            timeout = {"timeout": BUSY_SECONDS}
            engine = create_engine(url, connect_args=timeout, **({} if in_memory else {"poolclass": NullPool}))
        except NoSuchModuleError as error:
            raise RefusedError(f"Cannot open the queue {self.shown}: because {self._one_line(error)}") from None
        except ImportError as error:
            raise RefusedError(
                f"Cannot open the queue {self.shown}: because its database driver is not installed ({error.name})"
            ) from None
        _take_over_transactions(engine)
        return engine

    @contextmanager
    def _told(self, action: str) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise RetryError(
                f"Cannot {action} the queue {self.shown}: because the database said: {self._one_line(error)}"
            ) from None  # the driver's own error may hold the password

    def _one_line(self, error: SQLAlchemyError) -> str:
        cause = getattr(error, "orig", None) or error
        lines = str(cause).strip().splitlines()
        text = lines[0] if lines else type(cause).__name__
        return text.replace(self._password, "***") if self._password else text


def _parse(url: str) -> URL:
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        scheme = url.partition("://")[0] if "://" in url else "a text without ://"
        raise RefusedError(
            f"Cannot open the queue: because its URL ({scheme} …) is not of the form dialect://place, "
            "such as sqlite:////var/lib/acidlib/queue.db"
        ) from None


def _take_over_transactions(engine: Engine) -> None:
    """Every SQLite transaction takes the write lock at its start: a read that becomes a write can then never fail."""

    @event.listens_for(engine, "connect")
    def leave_transactions_to_us(connection: sqlite3.Connection, record: ConnectionPoolEntry) -> None:  # noqa: ARG001 # the listener's signature is given
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        reading = connection.get_execution_options().get(_READING, False)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def _missing_tables(connection: Connection, metadata: MetaData, shown: str) -> list[str]:
    inspector = inspect(connection)
    existing = set(inspector.get_table_names())
    for table in metadata.sorted_tables:
        if table.name not in existing:
            continue
        columns = {column["name"] for column in inspector.get_columns(table.name)}
        lacking = [column.name for column in table.columns if column.name not in columns]
        if lacking:
            raise RefusedError(
                f"Cannot use the queue {shown}: because its table {table.name} has no column {lacking[0]}; "
                "a metastore's own database is not supported yet"
            )
    return [table.name for table in metadata.sorted_tables if table.name not in existing]
