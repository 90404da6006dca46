"""What the database of a Hive 4 metastore notes of writes that are open or were rolled back, and thrift does not tell.

One table is written, TXN_COMPONENTS: notes of rolled back transactions are removed from it, as Hive's own cleaner does
(`MarkCleanedFunction`). TXNS, TXN_TO_WRITE_ID, NEXT_WRITE_ID and the names of partitions (DBS, TBLS, PARTITIONS) are
read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Column, ColumnElement, Connection, MetaData, String, Table, and_, delete, select
from sqlalchemy.exc import DBAPIError

from acidlib.errors import RefusedError
from acidlib.planning.rolled_back import Entity, NotedWrite
from acidlib.queue.database import SQLITE, Database, database_now_ms, equals, is_denied
from acidlib.queue.statements import CHUNK
from acidlib.queue.tables import find_table

T = TypeVar("T")

_OPEN, _ROLLED_BACK = "o", "a"
_COMPACTS = "c"
_LOOK = "look for rolled back transactions in"

_METADATA = MetaData()
_TXNS = Table(
    "TXNS",
    _METADATA,
    Column("TXN_ID", BigInteger),
    Column("TXN_STATE", String(1)),
    Column("TXN_STARTED", BigInteger),
    Column("TXN_HOST", String(128)),
)
_TXN_COMPONENTS = Table(
    "TXN_COMPONENTS",
    _METADATA,
    Column("TC_TXNID", BigInteger),
    Column("TC_DATABASE", String(128)),
    Column("TC_TABLE", String(256)),
    Column("TC_PARTITION", String(767)),
    Column("TC_OPERATION_TYPE", String(1)),
    Column("TC_WRITEID", BigInteger),
)
_TXN_TO_WRITE_ID = Table(
    "TXN_TO_WRITE_ID",
    _METADATA,
    Column("T2W_TXNID", BigInteger),
    Column("T2W_DATABASE", String(128)),
    Column("T2W_TABLE", String(256)),
    Column("T2W_WRITEID", BigInteger),
)
_NEXT_WRITE_ID = Table(
    "NEXT_WRITE_ID", _METADATA, Column("NWI_DATABASE", String(128)), Column("NWI_TABLE", String(256))
)
_DBS = Table("DBS", _METADATA, Column("DB_ID", BigInteger), Column("NAME", String(128)))
_TBLS = Table(
    "TBLS", _METADATA, Column("TBL_ID", BigInteger), Column("DB_ID", BigInteger), Column("TBL_NAME", String(256))
)
_PARTITIONS = Table("PARTITIONS", _METADATA, Column("TBL_ID", BigInteger), Column("PART_NAME", String(767)))


class NotedWrites:
    """The notes in one database."""

    def __init__(self, url: str, jvm: Callable[[], Any] | None = None) -> None:
        """Connects when it is used. `jvm`, and what is raised, are as `Database` has them."""
        self._database = Database(url, jvm)
        self._tables: dict[str, Table] = {}

    @property
    def shown(self) -> str:
        """The URL without secrets."""
        return self._database.shown

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def read(self) -> tuple[tuple[NotedWrite, ...], int] | None:
        """Return all notes with the time of the database; None where it is no metastore's, or shows none to its user.

        Write ids are as they are noted. RefusedError where the user may not read them, RetryError without an answer.
        """
        return self._if_shown(lambda connection: (tuple(self._notes(connection)), database_now_ms(connection)))

    def are_shown(self) -> bool:
        """Return whether `read` would return anything; it raises what that does."""

        def look(connection: Connection) -> list[int]:
            first = select(self._table(connection, _TXN_COMPONENTS).c["TC_TXNID"]).limit(1)
            return list(connection.execute(first).scalars())

        return self._if_shown(look) is not None

    def of_table(self, database: str, table: str) -> tuple[NotedWrite, ...]:
        """Return what is noted of a table.

        The write ids of these are those that readers are told: a table that was made anew gives out the same ones, and
        of a transaction from before none is its.
        """
        with self._database.reading(_LOOK) as connection:
            notes = list(self._notes(connection, (database, table)))
            # after them: of one that is rolled back in between it has the write id, and no note
            write_ids = {txn: write_id for write_id, txn in self._rolled_back(connection, database, table)}
            return tuple(replace(note, write_id=write_ids.get(note.txn_id)) for note in notes)

    def rolled_back(self, database: str, table: str) -> tuple[tuple[int, int], ...]:
        """Return the write ids of a table that were rolled back, in order, each with its transaction."""
        with self._database.reading(_LOOK) as connection:
            return tuple(sorted(self._rolled_back(connection, database, table)))

    def has_table(self, database: str, table: str) -> bool:
        """Return whether the metastore gives out write ids of a table of this name, whoever may see it over thrift."""
        with self._database.reading(_LOOK) as connection:
            given = self._table(connection, _NEXT_WRITE_ID)
            statement = select(given.c["NWI_TABLE"]).where(
                equals(connection, given.c["NWI_DATABASE"], database), equals(connection, given.c["NWI_TABLE"], table)
            )
            return bool(connection.execute(statement).all())

    def has_partition(self, database: str, table: str, name: str) -> bool:
        """Return whether any catalog has a partition of this name, whoever may see it over thrift."""
        with self._database.reading(_LOOK) as connection:
            databases, tables = self._table(connection, _DBS), self._table(connection, _TBLS)
            partitions = self._table(connection, _PARTITIONS)
            statement = (
                select(partitions.c["PART_NAME"])
                .join(tables, tables.c["TBL_ID"] == partitions.c["TBL_ID"])
                .join(databases, databases.c["DB_ID"] == tables.c["DB_ID"])
                .where(
                    databases.c["NAME"] == database,
                    tables.c["TBL_NAME"] == table,
                    partitions.c["PART_NAME"] == name,
                )
            )
            return bool(connection.execute(statement).all())

    def shows(self, txn_id: int, host: str) -> bool:
        """Return whether the database shows a transaction that was opened from this host."""
        with self._database.reading(_LOOK) as connection:
            txns = self._table(connection, _TXNS)
            found = select(txns.c["TXN_HOST"]).where(txns.c["TXN_ID"] == txn_id)
            return host in connection.execute(found).scalars().all()

    def forget(self, notes: Sequence[NotedWrite]) -> None:
        """Remove all that is noted of these transactions at their places, if they are rolled back still."""

        def work(connection: Connection) -> None:
            components, txns = self._table(connection, _TXN_COMPONENTS), self._table(connection, _TXNS)
            for entity in sorted({note.entity for note in notes}, key=str):
                ids = sorted({note.txn_id for note in notes if note.entity == entity})
                for start in range(0, len(ids), CHUNK):
                    chosen = txns.c["TXN_ID"].in_(ids[start : start + CHUNK])
                    rolled_back = select(txns.c["TXN_ID"]).where(chosen, txns.c["TXN_STATE"] == _ROLLED_BACK)
                    connection.execute(
                        delete(components).where(
                            components.c["TC_TXNID"].in_(rolled_back), _at(connection, components, entity)
                        )
                    )

        self._database.write("forget rolled back transactions in", work)

    def _if_shown(self, work: Callable[[Connection], T]) -> T | None:
        """Return what is read of the notes; None where there are none to be seen."""
        if self._database.dialect == SQLITE:
            return None  # no metastore has its tables in SQLite
        with self._database.reading(_LOOK) as connection:
            if any(find_table(connection, self.shown, template) is None for template in (_TXNS, _TXN_COMPONENTS)):
                return None
            try:
                return work(connection)
            except DBAPIError as error:
                if not is_denied(error):
                    raise
                raise RefusedError(
                    f"Cannot clean after rolled back transactions: the user of {self.shown} may not read where they "
                    "wrote; grant what docs/hive4.md lists"
                ) from None

    def _table(self, connection: Connection, template: Table) -> Table:
        """Return a table, found once; RefusedError where the database shows none to its user."""
        if template.name not in self._tables:
            found = find_table(connection, self.shown, template)
            if found is None:
                raise RefusedError(
                    f"Cannot look for rolled back transactions in {self.shown}: it shows its user no table "
                    f"{template.name}; grant what docs/hive4.md lists"
                )
            self._tables[template.name] = found
        return self._tables[template.name]

    def _rolled_back(self, connection: Connection, database: str, table: str) -> list[tuple[int, int]]:
        txns, ids = self._table(connection, _TXNS), self._table(connection, _TXN_TO_WRITE_ID)
        statement = (
            select(ids.c["T2W_WRITEID"], ids.c["T2W_TXNID"])
            .join(txns, txns.c["TXN_ID"] == ids.c["T2W_TXNID"])
            .where(
                txns.c["TXN_STATE"] == _ROLLED_BACK,
                equals(connection, ids.c["T2W_DATABASE"], database),
                equals(connection, ids.c["T2W_TABLE"], table),
            )
        )
        return [(write_id, txn) for write_id, txn in connection.execute(statement)]

    def _notes(self, connection: Connection, of: tuple[str, str] | None = None) -> Iterator[NotedWrite]:
        txns, components = self._table(connection, _TXNS), self._table(connection, _TXN_COMPONENTS)
        statement = (
            select(
                components.c["TC_TXNID"],
                components.c["TC_DATABASE"],
                components.c["TC_TABLE"],
                components.c["TC_PARTITION"],
                components.c["TC_OPERATION_TYPE"],
                components.c["TC_WRITEID"],
                txns.c["TXN_STATE"],
                txns.c["TXN_STARTED"],
            )
            .join(txns, txns.c["TXN_ID"] == components.c["TC_TXNID"])
            .where(txns.c["TXN_STATE"].in_([_OPEN, _ROLLED_BACK]))
        )
        if of is not None:
            database, table = of
            statement = statement.where(
                equals(connection, components.c["TC_DATABASE"], database),
                equals(connection, components.c["TC_TABLE"], table),
            )
        for txn, database, table, partition, operation, write_id, state, started in connection.execute(statement):
            yield NotedWrite(
                txn_id=txn,
                database=database,
                table=table,
                partition=partition,
                write_id=write_id,
                compacts=operation == _COMPACTS,
                is_open=state == _OPEN,
                started_ms=started,
            )


def _at(connection: Connection, components: Table, entity: Entity) -> ColumnElement[bool]:
    database, table, partition = entity
    column = components.c["TC_PARTITION"]
    return and_(
        equals(connection, components.c["TC_DATABASE"], database),
        equals(connection, components.c["TC_TABLE"], table),
        column.is_(None) if partition is None else equals(connection, column, partition),
    )
