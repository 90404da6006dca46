"""Databases, tables and partitions made in a real metastore over Thrift, for tests of the client that reads them.

The library itself makes none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, create_engine, inspect, text

from integration.metastore_client import TYPES, metastore_client

_CAPABILITIES = [
    "HIVEFULLACIDREAD", "HIVEFULLACIDWRITE", "HIVEMANAGEDINSERTREAD", "HIVEMANAGEDINSERTWRITE",
    "HIVEMANAGESTATS", "HIVECACHEINVALIDATE", "HIVESQL", "EXTWRITE", "EXTREAD", "CONNECTORREAD", "CONNECTORWRITE",
]  # fmt: skip

_FIRST_CLONE = 10_000_000

ORC = "org.apache.hadoop.hive.ql.io.orc.Orc"
LONG_AGO = {"transient_lastDdlTime": "1700000000"}
"""When a table was changed last, as long as nothing else is said: nothing waits for a second to pass then."""
FULL_ACID = {"transactional": "true", "transactional_properties": "default"}
INSERT_ONLY = {"transactional": "true", "transactional_properties": "insert_only"}


@dataclass(frozen=True, kw_only=True)
class NewTable:
    """What a table is made of; the defaults are an unpartitioned full ACID table of one column."""

    columns: Sequence[tuple[str, str]] = (("a", "int"),)
    partition_keys: Sequence[tuple[str, str]] = ()
    properties: Mapping[str, str] = field(default_factory=lambda: dict(FULL_ACID))
    kind: str = "MANAGED_TABLE"
    buckets: int = -1
    bucket_columns: Sequence[str] = ()
    sort_columns: Sequence[str] = ()
    view_of: str | None = None


class Writes:
    """A connection that writes; `generation` 3 or 4 chooses between the calls that differ.

    Databases are those of `catalog`; None leaves it to the metastore.
    """

    def __init__(self, uri: str, generation: int, catalog: str | None = None) -> None:
        self._catalog = catalog
        self._client = metastore_client(uri)
        self._generation = generation

    def close(self) -> None:
        """Ends the connection."""
        self._client.close()

    def new_catalog(self, name: str, location: str) -> None:
        """Makes a catalog; Hive makes its database `default`."""
        catalog = TYPES.Catalog(name=name, locationUri=location)
        self._client.create_catalog(TYPES.CreateCatalogRequest(catalog=catalog))

    def drop_catalog(self, name: str) -> None:
        """Drops a catalog without other databases than `default`."""
        self._client.drop_catalog(TYPES.DropCatalogRequest(name=name))

    def database(self, name: str, properties: Mapping[str, str] | None = None) -> None:
        """Makes a database."""
        self._client.create_database(
            TYPES.Database(name=name, parameters=dict(properties or {}), catalogName=self._catalog)
        )

    def drop_database(self, name: str) -> None:
        """Drops a database with all that is in it."""
        self._client.drop_database(self._named(name), True, True)

    def table(self, database: str, name: str, new: NewTable | None = None) -> None:
        """Makes a table."""
        new = new or NewTable()
        view = new.kind == "VIRTUAL_VIEW"
        table = TYPES.Table(
            tableName=name, dbName=database, owner="tester", createTime=0, lastAccessTime=0, retention=0,
            sd=_storage(new, None), partitionKeys=_fields(new.partition_keys),
            parameters=LONG_AGO | dict(new.properties), tableType=new.kind,
            viewOriginalText=new.view_of, viewExpandedText=new.view_of if view else None,
            catName=self._catalog,
        )  # fmt: skip
        if self._generation == 3:
            self._client.create_table(table)
        else:
            self._client.create_table_req(
                TYPES.CreateTableRequest(
                    table=table, processorCapabilities=_CAPABILITIES, processorIdentifier="acidlib-tests"
                )
            )

    def drop_table(self, database: str, name: str) -> None:
        """Drops a table with its files."""
        self._client.drop_table(self._named(database), name, True)

    def _named(self, database: str) -> str:
        return database if self._catalog is None else f"@{self._catalog}#{database}"

    def partitions(
        self,
        database: str,
        name: str,
        values: Iterable[Sequence[str]],
        *,
        location: str | None,
        new: NewTable | None = None,
    ) -> None:
        """Adds partitions; each lies in a directory of its own, numbered from 0, under `location`.

        Without a location they lie where Hive puts them.
        """
        new = new or NewTable()
        self._client.add_partitions(
            [
                TYPES.Partition(
                    values=list(row), dbName=database, tableName=name, createTime=0, lastAccessTime=0,
                    sd=_storage(new, location and f"{location}/{number}"), parameters={"number": str(number)},
                    catName=self._catalog,
                )
                for number, row in enumerate(values)
            ]
        )  # fmt: skip


def clone_partition(database_url: str, table: str, template: str, copies: int) -> None:
    """Copies a partition `key=0` of a table as `key=1` to `key=copies`, in the metastore's PostgreSQL database itself.

    Adding thousands of them through the metastore takes minutes. `remove_clones` has to follow: their ids are not ones
    that the metastore gave out.
    """
    key = template.partition("=")[0]
    with _database(database_url) as connection:
        part, storage, serde = connection.execute(
            text(
                'select p."PART_ID", p."SD_ID", s."SERDE_ID" from "PARTITIONS" p '
                'join "TBLS" t on t."TBL_ID" = p."TBL_ID" join "SDS" s on s."SD_ID" = p."SD_ID" '
                'where t."TBL_NAME" = :table and p."PART_NAME" = :name'
            ),
            {"table": table, "name": template},
        ).one()
        number = f"{_FIRST_CLONE} + n"
        for name, own, changes in (
            # a metastore reads slowly where two of them share one
            ("SERDES", serde, {"SERDE_ID": number}),
            ("SDS", storage, {"SD_ID": number, "SERDE_ID": number, "LOCATION": "\"LOCATION\" || '-' || n"}),
            ("PARTITIONS", part, {"PART_ID": number, "SD_ID": number, "PART_NAME": f"'{key}=' || n"}),
            ("PARTITION_KEY_VALS", part, {"PART_ID": number, "PART_KEY_VAL": "n::text"}),
            ("PARTITION_PARAMS", part, {"PART_ID": number}),
        ):
            columns = [column["name"] for column in inspect(connection).get_columns(name)]
            targets = ", ".join(f'"{column}"' for column in columns)
            sources = ", ".join(changes.get(column, f'"{column}"') for column in columns)
            # every name is one of this file or of the database itself
            connection.execute(
                text(
                    f'insert into "{name}" ({targets}) select {sources} '  # noqa: S608
                    f'from "{name}", generate_series(1, :copies) n where "{next(iter(changes))}" = :own'
                ),
                {"copies": copies, "own": own},
            )


def remove_clones(database_url: str) -> None:
    """Takes away what `clone_partition` made."""
    with _database(database_url) as connection:
        for name, key in (
            ("PARTITION_PARAMS", "PART_ID"),
            ("PARTITION_KEY_VALS", "PART_ID"),
            ("PARTITIONS", "PART_ID"),
            ("SDS", "SD_ID"),
            ("SERDES", "SERDE_ID"),
        ):
            connection.execute(text(f'delete from "{name}" where "{key}" >= {_FIRST_CLONE}'))  # noqa: S608 - as above


@contextmanager
def _database(url: str) -> Iterator[Connection]:
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def _fields(columns: Sequence[tuple[str, str]]) -> list[Any]:
    return [TYPES.FieldSchema(name=name, type=kind) for name, kind in columns]


def _storage(new: NewTable, location: str | None) -> Any:
    return TYPES.StorageDescriptor(
        cols=_fields(new.columns), location=location, inputFormat=f"{ORC}InputFormat",
        outputFormat=f"{ORC}OutputFormat", compressed=False, numBuckets=new.buckets,
        serdeInfo=TYPES.SerDeInfo(serializationLib=f"{ORC}Serde", parameters={}),
        bucketCols=list(new.bucket_columns), sortCols=[TYPES.Order(col=col, order=1) for col in new.sort_columns],
        parameters={},
    )  # fmt: skip
