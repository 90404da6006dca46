"""The parameters of tables and partitions in the database of a metastore, of which single ones are changed.

No call of a metastore changes one parameter of a partition: each takes all of them, and what another has written since
they were read is lost. Source: Hive's metastore schema (DBS, TBLS, PARTITIONS, TABLE_PARAMS, PARTITION_PARAMS).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import BigInteger, Column, Connection, Integer, MetaData, String, Table, Text, insert, select, update
from sqlalchemy.exc import IntegrityError

from acidlib.errors import ConflictError
from acidlib.queue.database import Database, equals
from acidlib.queue.tables import find_table

_METADATA = MetaData()
_DATABASES = Table("DBS", _METADATA, Column("DB_ID", BigInteger), Column("NAME", String), Column("CTLG_NAME", String))
_TABLES = Table(
    "TBLS",
    _METADATA,
    Column("TBL_ID", BigInteger),
    Column("DB_ID", BigInteger),
    Column("TBL_NAME", String),
    Column("CREATE_TIME", Integer),
)
_PARTITIONS = Table(
    "PARTITIONS",
    _METADATA,
    Column("PART_ID", BigInteger),
    Column("TBL_ID", BigInteger),
    Column("PART_NAME", String),
    Column("CREATE_TIME", Integer),
)
_OF_TABLES, _OF_PARTITIONS = (
    Table(name, _METADATA, Column(key, BigInteger), Column("PARAM_KEY", String), Column("PARAM_VALUE", Text))
    for name, key in (("TABLE_PARAMS", "TBL_ID"), ("PARTITION_PARAMS", "PART_ID"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A table, or a partition of one, by its names; `created`, in epoch seconds, tells it from another of its name."""

    catalog: str
    database: str
    table: str
    partition: str | None
    created: int

    @property
    def name(self) -> str:
        """database.table, or database.table.partition."""
        return ".".join(part for part in (self.database, self.table, self.partition) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Schema:
    """The tables as this database names them."""

    databases: Table
    tables: Table
    partitions: Table
    of_tables: Table
    of_partitions: Table


class MetastoreParameters:
    """The parameters in one database."""

    def __init__(self, url: str) -> None:
        """Connects when it is used. Raises UsageError and RefusedError as `Database` does."""
        self._database = Database(url)
        self._schema: _Schema | None = None
        self._looked = False

    @property
    def shown(self) -> str:
        """The URL without secrets."""
        return self._database.shown

    def close(self) -> None:
        """Closes all connections."""
        self._database.close()

    def is_of_metastore(self) -> bool:
        """Return whether a metastore has its tables here; RetryError when the database does not answer."""
        if not self._looked:  # once: what a database is of does not change
            with self._database.reading("look for tables in") as connection:
                found = [find_table(connection, self.shown, one) for one in _METADATA.sorted_tables]
            named = {table.name.upper(): table for table in found if table is not None}
            if len(named) == len(found):
                self._schema = _Schema(
                    databases=named["DBS"],
                    tables=named["TBLS"],
                    partitions=named["PARTITIONS"],
                    of_tables=named["TABLE_PARAMS"],
                    of_partitions=named["PARTITION_PARAMS"],
                )
            self._looked = True
        return self._schema is not None

    def read(self, owner: Owner) -> dict[str, str] | None:
        """Return all parameters; None where there is no such table or partition, or no table of a metastore."""
        if not self.is_of_metastore():
            return None
        with self._database.reading("read statistics in") as connection:
            found = self._find(connection, owner)
            if found is None:
                return None
            table, number = found
            rows = connection.execute(
                select(table.c["PARAM_KEY"], table.c["PARAM_VALUE"]).where(table.columns[0] == number)
            ).all()
        return {key: value for key, value in rows if value is not None}

    def change(self, owner: Owner, before: Mapping[str, str], changes: Mapping[str, str]) -> None:
        """Give parameters new values, each from the one that it had `before`, in one transaction.

        All others stay as they are, whoever writes them meanwhile. ConflictError where one of these has changed.
        """

        def work(connection: Connection) -> None:
            found = self._find(connection, owner)
            if found is None:
                raise ConflictError(f"Cannot change statistics of {owner.name}: it was dropped meanwhile.")
            table, number = found
            of, key, value = table.columns[0], table.c["PARAM_KEY"], table.c["PARAM_VALUE"]
            for name, new in sorted(changes.items()):
                if name not in before:
                    _add(connection, table, {of.key: number, key.key: name, value.key: new})
                    continue
                same = (of == number, equals(connection, key, name), value == before[name])
                if connection.execute(update(table).where(*same).values({value.key: new})).rowcount != 1:
                    raise _changed(name)

        def _add(connection: Connection, table: Table, row: Mapping[str, object]) -> None:
            try:
                connection.execute(insert(table).values(row))
            except IntegrityError:
                raise _changed(str(row["PARAM_KEY"])) from None

        def _changed(name: str) -> ConflictError:
            return ConflictError(f"Cannot change statistics of {owner.name}: another has changed {name} meanwhile.")

        self._database.write("change statistics in", work)

    def _find(self, connection: Connection, owner: Owner) -> tuple[Table, int] | None:
        """The table of the parameters of a table or partition, and its number in there."""
        schema = self._schema
        if schema is None:
            return None
        databases, tables, partitions = schema.databases, schema.tables, schema.partitions
        row = connection.execute(
            select(tables.c["TBL_ID"], tables.c["CREATE_TIME"])
            .join(databases, databases.c["DB_ID"] == tables.c["DB_ID"])
            .where(
                equals(connection, databases.c["CTLG_NAME"], owner.catalog),
                equals(connection, databases.c["NAME"], owner.database),
                equals(connection, tables.c["TBL_NAME"], owner.table),
            )
        ).one_or_none()
        parameters = schema.of_tables
        if row is not None and owner.partition is not None:
            parameters = schema.of_partitions
            row = connection.execute(
                select(partitions.c["PART_ID"], partitions.c["CREATE_TIME"]).where(
                    partitions.c["TBL_ID"] == row[0],
                    equals(connection, partitions.c["PART_NAME"], owner.partition),
                )
            ).one_or_none()
        return None if row is None or row[1] != owner.created else (parameters, row[0])
