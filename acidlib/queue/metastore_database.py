"""The database of a metastore, in SQL, for facts that its thrift calls do not show or cannot change.

Readers   MIN_HISTORY_WRITE_ID (Hive 4): thrift writes it (`add_write_ids_to_min_history`) and does not show it.
Writes    TXNS, TXN_COMPONENTS, TXN_TO_WRITE_ID, NEXT_WRITE_ID (Hive 4): which are open or were rolled back. Notes of
          rolled back transactions are removed from TXN_COMPONENTS, as Hive's own cleaner does (`MarkCleanedFunction`).
Parameters of tables and partitions (TABLE_PARAMS, PARTITION_PARAMS), of which single ones are changed: a thrift call
          that changes one sends all of them, and overwrites changes that others have made since they were read.

The user needs rights to the tables of the methods that are called, no others. Source: Hive's metastore schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    String,
    Table,
    Text,
    and_,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError

from acidlib.errors import ConflictError, RefusedError
from acidlib.model.tables import TableRef
from acidlib.planning.clean import NotedWrite
from acidlib.queue.database import DENIED, SQLITE, SqlDatabase, chunks, is_among
from acidlib.queue.tables import TXN_COMPONENTS, TXNS, ReflectedTables, metastore_table

_OPEN, _ROLLED_BACK = "o", "a"
_COMPACTS = "c"
_ACTION = "look for rolled back transactions in"


_MIN_HISTORY = metastore_table(
    "MIN_HISTORY_WRITE_ID", MH_TXNID=BigInteger, MH_DATABASE=String, MH_TABLE=String, MH_WRITEID=BigInteger
)
_TXN_TO_WRITE_ID = metastore_table(
    "TXN_TO_WRITE_ID", T2W_TXNID=BigInteger, T2W_DATABASE=String, T2W_TABLE=String, T2W_WRITEID=BigInteger
)
_NEXT_WRITE_ID = metastore_table("NEXT_WRITE_ID", NWI_DATABASE=String, NWI_TABLE=String)
_DBS = metastore_table("DBS", DB_ID=BigInteger, NAME=String, CTLG_NAME=String)
_TBLS = metastore_table("TBLS", TBL_ID=BigInteger, DB_ID=BigInteger, TBL_NAME=String, CREATE_TIME=Integer)
_PARTITIONS = metastore_table(
    "PARTITIONS", PART_ID=BigInteger, TBL_ID=BigInteger, PART_NAME=String, CREATE_TIME=Integer
)
_TABLE_PARAMS = metastore_table("TABLE_PARAMS", TBL_ID=BigInteger, PARAM_KEY=String, PARAM_VALUE=Text)
_PARTITION_PARAMS = metastore_table("PARTITION_PARAMS", PART_ID=BigInteger, PARAM_KEY=String, PARAM_VALUE=Text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A table or partition, by its names; `created`, in epoch seconds, distinguishes it from later ones of its name."""

    catalog: str
    ref: TableRef
    created: int


class MetastoreDatabase:
    """A database that may be a metastore's; the first method that reads it connects."""

    def __init__(self, url: str) -> None:
        """Take the parameters of `SqlDatabase`, and raise its errors."""
        self._database = SqlDatabase(url)
        self.shown = self._database.shown
        self._reflected: dict[str, Table | None] = {}

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def _find(self, connection: Connection, template: Table) -> Table | None:
        """Return a table, which is reflected once; None if the database does not show it to its user."""
        if template.name not in self._reflected:
            tables = ReflectedTables(connection, self.shown)
            self._reflected[template.name] = tables.table(template) if tables.has(template) else None
        return self._reflected[template.name]

    def registrations(self) -> dict[int, dict[TableRef, int]] | None:
        """Return by transaction the lowest open write id that it sees of each table, by names in lower case.

        None where the database has no such notes. RetryError when it does not answer.
        """
        if self._database.dialect == SQLITE:
            return None  # no metastore has its tables in SQLite
        with self._database.reading("look for readers in") as connection:
            table = self._find(connection, _MIN_HISTORY)
            if table is None:
                return None
            keys = (table.c["MH_TXNID"], table.c["MH_DATABASE"], table.c["MH_TABLE"], table.c["MH_WRITEID"])
            rows = connection.execute(select(*keys)).all()
        lowest: dict[int, dict[TableRef, int]] = {}
        for txn, database, name, write_id in rows:
            tables, key = lowest.setdefault(txn, {}), TableRef(database, name).as_stored
            tables[key] = min(write_id, tables.get(key, write_id))
        return lowest

    def noted_writes(self) -> tuple[tuple[NotedWrite, ...], int] | None:
        """Return all notes, with their stored write ids, and the database's time in epoch milliseconds.

        None where it is no metastore's, or does not show them to its user. RefusedError where the user may not read
        them, RetryError without an answer.
        """
        with self._reading_notes() as connection:
            return None if connection is None else (tuple(self._notes(connection)), self._database.now_ms(connection))

    def shows_noted_writes(self) -> bool:
        """Return whether `noted_writes` would not return None; raise its errors."""
        with self._reading_notes() as connection:
            if connection is not None:
                (components,) = self._tables(connection, TXN_COMPONENTS)
                connection.execute(select(components.c["TC_TXNID"]).limit(1)).all()
            return connection is not None

    @contextmanager
    def _reading_notes(self) -> Iterator[Connection | None]:
        """Open a transaction to read notes; None where this is no metastore's database, or does not show them."""
        if self._database.dialect == SQLITE:
            yield None  # no metastore has its tables in SQLite
            return
        with self._database.reading(_ACTION) as connection:
            is_shown = all(self._find(connection, template) is not None for template in (TXNS, TXN_COMPONENTS))
            try:
                yield connection if is_shown else None
            except DBAPIError as error:
                if not is_among(DENIED, error):
                    raise
                raise RefusedError(
                    f"Cannot clean after rolled back transactions: the user of {self.shown} may not read where they "
                    "wrote; grant what docs/hive4.md lists"
                ) from None

    def _tables(self, connection: Connection, *templates: Table) -> Iterator[Table]:
        """Yield tables; raise RefusedError for one that the database does not show to its user."""
        for template in templates:
            table = self._find(connection, template)
            if table is None:
                raise RefusedError(
                    f"Cannot look for rolled back transactions in {self.shown}: it shows its user no table "
                    f"{template.name}; grant what docs/hive4.md lists"
                )
            yield table

    def _notes(self, connection: Connection, ref: TableRef | None = None) -> Iterator[NotedWrite]:
        txns, components = self._tables(connection, TXNS, TXN_COMPONENTS)
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
        if ref is not None:
            statement = statement.where(self._is_about(components, "TC", ref))
        for txn, database, table, partition, operation, write_id, state, started in connection.execute(statement):
            yield NotedWrite(
                txn_id=txn,
                ref=TableRef(database, table, partition),
                write_id=write_id,
                compacts=operation == _COMPACTS,
                is_open=state == _OPEN,
                started_ms=started,
            )

    def _is_about(self, rows: Table, prefix: str, ref: TableRef) -> ColumnElement[bool]:
        """Return the condition for rows about a table and any of its partitions."""
        equals = self._database.equals
        return and_(equals(rows.c[f"{prefix}_DATABASE"], ref.database), equals(rows.c[f"{prefix}_TABLE"], ref.table))

    def noted_writes_of(self, ref: TableRef) -> tuple[NotedWrite, ...]:
        """Return the notes about a table, with the write ids that its readers get.

        A table that was created anew gives out the same write ids again: a transaction from before has None.
        """
        with self._database.reading(_ACTION) as connection:
            notes = list(self._notes(connection, ref))
            # read second: a transaction that is rolled back in between then has a write id and no note
            write_ids = {txn: write_id for write_id, txn in self._rolled_back(connection, ref)}
            return tuple(replace(note, write_id=write_ids.get(note.txn_id)) for note in notes)

    def rolled_back(self, ref: TableRef) -> tuple[tuple[int, int], ...]:
        """Return the rolled back write ids of a table, in order, each with its transaction."""
        with self._database.reading(_ACTION) as connection:
            return tuple(sorted(self._rolled_back(connection, ref)))

    def _rolled_back(self, connection: Connection, ref: TableRef) -> list[tuple[int, int]]:
        txns, ids = self._tables(connection, TXNS, _TXN_TO_WRITE_ID)
        statement = (
            select(ids.c["T2W_WRITEID"], ids.c["T2W_TXNID"])
            .join(txns, txns.c["TXN_ID"] == ids.c["T2W_TXNID"])
            .where(txns.c["TXN_STATE"] == _ROLLED_BACK, self._is_about(ids, "T2W", ref))
        )
        return [(write_id, txn) for write_id, txn in connection.execute(statement)]

    def has_table(self, ref: TableRef) -> bool:
        """Return whether a table of this name has write ids, even if thrift does not show the table to this user."""
        with self._database.reading(_ACTION) as connection:
            (next_ids,) = self._tables(connection, _NEXT_WRITE_ID)
            statement = select(next_ids.c["NWI_TABLE"]).where(self._is_about(next_ids, "NWI", ref))
            return bool(connection.execute(statement).all())

    def has_partition(self, ref: TableRef) -> bool:
        """Return whether any catalog has a partition of this name, even if thrift does not show it to this user."""
        with self._database.reading(_ACTION) as connection:
            databases, tables, partitions = self._tables(connection, _DBS, _TBLS, _PARTITIONS)
            statement = (
                select(partitions.c["PART_NAME"])
                .join(tables, tables.c["TBL_ID"] == partitions.c["TBL_ID"])
                .join(databases, databases.c["DB_ID"] == tables.c["DB_ID"])
                .where(
                    databases.c["NAME"] == ref.database,
                    tables.c["TBL_NAME"] == ref.table,
                    partitions.c["PART_NAME"] == ref.partition,
                )
            )
            return bool(connection.execute(statement).all())

    def shows(self, txn_id: int, host: str) -> bool:
        """Return whether the database shows a transaction that was opened from this host."""
        with self._database.reading(_ACTION) as connection:
            (txns,) = self._tables(connection, TXNS)
            statement = select(txns.c["TXN_HOST"]).where(txns.c["TXN_ID"] == txn_id)
            return host in connection.execute(statement).scalars().all()

    def forget(self, notes: Sequence[NotedWrite]) -> None:
        """Delete all notes of these transactions at their places, as far as they are still rolled back."""

        def work(connection: Connection) -> None:
            components, txns = self._tables(connection, TXN_COMPONENTS, TXNS)
            for ref in sorted({note.ref for note in notes}, key=str):
                ids = sorted({note.txn_id for note in notes if note.ref == ref})
                at_place = and_(
                    self._is_about(components, "TC", ref),
                    self._database.equals(components.c["TC_PARTITION"], ref.partition),
                )
                for portion in chunks(ids):
                    chosen = txns.c["TXN_ID"].in_(portion)
                    rolled_back = select(txns.c["TXN_ID"]).where(chosen, txns.c["TXN_STATE"] == _ROLLED_BACK)
                    connection.execute(delete(components).where(components.c["TC_TXNID"].in_(rolled_back), at_place))

        self._database.write("forget rolled back transactions in", work)

    def has_parameters(self) -> bool:
        """Return whether this database has a metastore's parameters; RetryError without an answer."""
        templates = (_DBS, _TBLS, _PARTITIONS, _TABLE_PARAMS, _PARTITION_PARAMS)
        with self._database.reading("look for tables in") as connection:
            return all(self._find(connection, template) is not None for template in templates)

    def parameters(self, owner: Owner) -> dict[str, str] | None:
        """Return all parameters; None without such a table or partition. The database `has_parameters`."""
        with self._database.reading("read statistics in") as connection:
            rows_of_owner = self._parameters_of(connection, owner)
            if rows_of_owner is None:
                return None
            table, number = rows_of_owner
            rows = connection.execute(
                select(table.c["PARAM_KEY"], table.c["PARAM_VALUE"]).where(table.columns[0] == number)
            ).all()
        return {key: value for key, value in rows if value is not None}

    def change_parameters(self, owner: Owner, before: Mapping[str, str], changes: Mapping[str, str]) -> None:
        """Change parameters in one transaction, if each still has its value of `before`.

        All other parameters stay as they are, also if others write them meanwhile. ConflictError where one of `changes`
        has another value by now.
        """

        def changed(name: str) -> ConflictError:
            return ConflictError(
                f"Cannot change statistics of {owner.ref}: another writer has changed {name} meanwhile"
            )

        def work(connection: Connection) -> None:
            rows_of_owner = self._parameters_of(connection, owner)
            if rows_of_owner is None:
                raise ConflictError(f"Cannot change statistics of {owner.ref}: it was dropped meanwhile")
            table, number = rows_of_owner
            owner_id, key, value = table.columns[0], table.c["PARAM_KEY"], table.c["PARAM_VALUE"]
            for name, new in sorted(changes.items()):
                if name not in before:
                    try:
                        connection.execute(insert(table).values({owner_id.key: number, key.key: name, value.key: new}))
                    except IntegrityError:
                        raise changed(name) from None
                    continue
                is_unchanged = (owner_id == number, self._database.equals(key, name), value == before[name])
                if connection.execute(update(table).where(*is_unchanged).values({value.key: new})).rowcount != 1:
                    raise changed(name)

        self._database.write("change statistics in", work)

    def _parameters_of(self, connection: Connection, owner: Owner) -> tuple[Table, int] | None:
        """Return the table with the parameters of a table or partition, and the owner's number in its first column."""
        databases, tables = self._tables(connection, _DBS, _TBLS)
        row = connection.execute(
            select(tables.c["TBL_ID"], tables.c["CREATE_TIME"])
            .join(databases, databases.c["DB_ID"] == tables.c["DB_ID"])
            .where(
                self._database.equals(databases.c["CTLG_NAME"], owner.catalog),
                self._database.equals(databases.c["NAME"], owner.ref.database),
                self._database.equals(tables.c["TBL_NAME"], owner.ref.table),
            )
        ).one_or_none()
        (parameters,) = self._tables(connection, _TABLE_PARAMS)
        if row is not None and owner.ref.partition is not None:
            parameters, partitions = self._tables(connection, _PARTITION_PARAMS, _PARTITIONS)
            row = connection.execute(
                select(partitions.c["PART_ID"], partitions.c["CREATE_TIME"]).where(
                    partitions.c["TBL_ID"] == row[0],
                    self._database.equals(partitions.c["PART_NAME"], owner.ref.partition),
                )
            ).one_or_none()
        if row is None or row[1] != owner.created:
            return None
        return parameters, row[0]
