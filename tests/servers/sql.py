"""SQL through HiveServer2, with exact values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from impala._thrift_gen.TCLIService.ttypes import TTypeId
from impala.dbapi import connect
from impala.error import Error

Row = tuple[Any, ...]

# impyla does not know the timestamp with local time zone, and would fail on its number; it comes as text too
TTypeId._VALUES_TO_NAMES.setdefault(22, "TIMESTAMP_TYPE")


class SqlError(Exception):
    """A statement failed; the message holds the statement and what HiveServer2 said."""


class Session:
    """One session: what ``set`` and ``use`` change lasts for its later statements."""

    def __init__(self, cursor: Any) -> None:
        """Takes an open cursor of impyla."""
        self._cursor = cursor
        self.columns: tuple[str, ...] = ()
        """The names of the columns of the last result."""

    def run(self, statement: str) -> list[Row]:
        """Runs one statement to its end; its rows, or none. Raises SqlError.

        Whole numbers, floating point numbers, truth values and text come as themselves, decimals as Decimal with their
        scale, binary as bytes, dates and timestamps as Hive's text (nanoseconds and years before 1 stay whole), arrays,
        maps and structs as Hive's JSON text. Text that is not UTF-8 comes as bytes.
        """
        try:
            self._cursor.execute(statement)
            description = self._cursor.description
            rows: Sequence[Row] = self._cursor.fetchall() if description else []
        except Error as error:
            raise SqlError(f"{statement}\n  {error}") from None
        self.columns = tuple(column[0] for column in description or ())
        kinds = [column[1] for column in description or ()]
        return [tuple(_exact(kind, value) for kind, value in zip(kinds, row, strict=True)) for row in rows]


class Hive:
    """Statements for a HiveServer2 on this machine."""

    def __init__(self, port: int, *, timeout_seconds: float = 300) -> None:
        """Connects when it is used; ``timeout_seconds`` bounds every single answer of the server."""
        self._port = port
        self._timeout = timeout_seconds

    def run(self, *statements: str) -> list[Row]:
        """Runs statements in a new session; the rows of the last one. Raises SqlError."""
        rows: list[Row] = []
        with self.session() as session:
            for statement in statements:
                rows = session.run(statement)
        return rows

    @contextmanager
    def session(self, settings: Mapping[str, str] | None = None) -> Iterator[Session]:
        """A session with Hive's settings. Two of them may be open at a time."""
        connection = connect(host="127.0.0.1", port=self._port, auth_mechanism="NOSASL", timeout=self._timeout)
        try:
            # not converted: impyla would cut timestamps to microseconds
            cursor = connection.cursor(configuration=dict(settings or {}), convert_types=False)
            try:
                yield Session(cursor)
            finally:
                cursor.close()
        finally:
            connection.close()


def _exact(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind == "DECIMAL":
        return Decimal(value)
    if kind != "BINARY" and isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value
