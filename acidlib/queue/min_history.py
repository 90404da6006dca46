"""What readers have registered in the database of a Hive 4 metastore: its table MIN_HISTORY_WRITE_ID, read only.

Thrift writes it (`add_write_ids_to_min_history`) and does not show it. The right to select from that table is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Column, MetaData, String, Table, select

from acidlib.queue.database import SQLITE, Database
from acidlib.queue.tables import find_table

_TABLE = Table(
    "MIN_HISTORY_WRITE_ID",
    MetaData(),
    Column("MH_TXNID", BigInteger),
    Column("MH_DATABASE", String(128)),
    Column("MH_TABLE", String(256)),
    Column("MH_WRITEID", BigInteger),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The lowest open write id that a transaction sees of a table; names are in lower case."""

    txn_id: int
    database: str
    table: str
    write_id: int


class MinHistory:
    """The registrations in one database."""

    def __init__(self, url: str, jvm: Callable[[], Any] | None = None) -> None:
        """Connects when it is used. `jvm`, and what is raised, are as `Database` has them."""
        self._database = Database(url, jvm)

    @property
    def shown(self) -> str:
        """The URL without secrets."""
        return self._database.shown

    def close(self) -> None:
        """Closes all connections."""
        self._database.close()

    def read(self) -> tuple[Registration, ...] | None:
        """All registrations; None where the database has no such table. RetryError when it does not answer."""
        if self._database.dialect == SQLITE:
            return None  # no metastore has its tables in SQLite
        with self._database.reading("look for readers in") as connection:
            table = find_table(connection, self.shown, _TABLE)
            if table is None:
                return None
            keys = (table.c["MH_TXNID"], table.c["MH_DATABASE"], table.c["MH_TABLE"], table.c["MH_WRITEID"])
            rows = connection.execute(select(*keys)).all()
        return tuple(
            Registration(txn_id=txn, database=database.lower(), table=name.lower(), write_id=write_id)
            for txn, database, name, write_id in rows
        )
