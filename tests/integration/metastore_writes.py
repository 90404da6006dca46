"""Databases, tables and partitions made in a real metastore over thrift, for tests of the client that reads them.

The interface below is that of both generations, as far as these tests write; the library itself never does.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import thriftpy2
from sqlalchemy import Connection, create_engine, inspect, text
from thriftpy2.rpc import make_client

_IDL = """
exception MetaException { 1: string message }
exception AlreadyExistsException { 1: string message }
exception InvalidObjectException { 1: string message }
exception NoSuchObjectException { 1: string message }
exception InvalidOperationException { 1: string message }
struct Database { 1: string name, 2: string description, 3: string locationUri, 4: map<string,string> parameters,
  8: string catalogName }
struct Catalog { 1: string name, 2: string description, 3: string locationUri }
struct CreateCatalogRequest { 1: Catalog catalog }
struct DropCatalogRequest { 1: string name }
struct FieldSchema { 1: string name, 2: string type, 3: string comment }
struct SerDeInfo { 1: string name, 2: string serializationLib, 3: map<string,string> parameters }
struct Order { 1: string col, 2: i32 order }
struct StorageDescriptor { 1: list<FieldSchema> cols, 2: string location, 3: string inputFormat,
  4: string outputFormat, 5: bool compressed, 6: i32 numBuckets, 7: SerDeInfo serdeInfo, 8: list<string> bucketCols,
  9: list<Order> sortCols, 10: map<string,string> parameters }
struct Table { 1: string tableName, 2: string dbName, 3: string owner, 4: i32 createTime, 5: i32 lastAccessTime,
  6: i32 retention, 7: StorageDescriptor sd, 8: list<FieldSchema> partitionKeys, 9: map<string,string> parameters,
  10: string viewOriginalText, 11: string viewExpandedText, 12: string tableType, 17: string catName }
struct Partition { 1: list<string> values, 2: string dbName, 3: string tableName, 4: i32 createTime,
  5: i32 lastAccessTime, 6: StorageDescriptor sd, 7: map<string,string> parameters, 9: string catName }
struct CreateTableRequest { 1: Table table, 9: list<string> processorCapabilities, 10: string processorIdentifier }
service Writes {
  void create_catalog(1: CreateCatalogRequest r)
    throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3)
  void drop_catalog(1: DropCatalogRequest r)
    throws (1: NoSuchObjectException o1, 2: InvalidOperationException o2, 3: MetaException o3)
  void create_database(1: Database d)
    throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3)
  void drop_database(1: string name, 2: bool deleteData, 3: bool cascade)
    throws (1: NoSuchObjectException o1, 2: InvalidOperationException o2, 3: MetaException o3)
  void create_table(1: Table t) throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2,
    3: MetaException o3, 4: NoSuchObjectException o4)
  void create_table_req(1: CreateTableRequest r) throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2,
    3: MetaException o3, 4: NoSuchObjectException o4)
  void drop_table(1: string db, 2: string name, 3: bool deleteData)
    throws (1: NoSuchObjectException o1, 2: MetaException o2)
  i32 add_partitions(1: list<Partition> p)
    throws (1: InvalidObjectException o1, 2: AlreadyExistsException o2, 3: MetaException o3)
}
"""
_TYPES: Any = thriftpy2.load_fp(io.StringIO(_IDL), "metastore_writes_thrift")
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
        parts = urlsplit(uri)
        self._client = make_client(_TYPES.Writes, parts.hostname, parts.port, timeout=120_000)
        self._generation = generation

    def close(self) -> None:
        """Ends the connection."""
        self._client.close()

    def new_catalog(self, name: str, location: str) -> None:
        """Makes a catalog; Hive makes its database `default`."""
        catalog = _TYPES.Catalog(name=name, locationUri=location)
        self._client.create_catalog(_TYPES.CreateCatalogRequest(catalog=catalog))

    def drop_catalog(self, name: str) -> None:
        """Drops a catalog without other databases than `default`."""
        self._client.drop_catalog(_TYPES.DropCatalogRequest(name=name))

    def database(self, name: str, properties: Mapping[str, str] | None = None) -> None:
        """Makes a database."""
        self._client.create_database(
            _TYPES.Database(name=name, parameters=dict(properties or {}), catalogName=self._catalog)
        )

    def drop_database(self, name: str) -> None:
        """Drops a database with all that is in it."""
        self._client.drop_database(self._named(name), True, True)

    def table(self, database: str, name: str, new: NewTable | None = None) -> None:
        """Makes a table."""
        new = new or NewTable()
        view = new.kind == "VIRTUAL_VIEW"
        table = _TYPES.Table(
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
                _TYPES.CreateTableRequest(
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
                _TYPES.Partition(
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
    return [_TYPES.FieldSchema(name=name, type=kind) for name, kind in columns]


def _storage(new: NewTable, location: str | None) -> Any:
    return _TYPES.StorageDescriptor(
        cols=_fields(new.columns), location=location, inputFormat=f"{ORC}InputFormat",
        outputFormat=f"{ORC}OutputFormat", compressed=False, numBuckets=new.buckets,
        serdeInfo=_TYPES.SerDeInfo(serializationLib=f"{ORC}Serde", parameters={}),
        bucketCols=list(new.bucket_columns), sortCols=[_TYPES.Order(col=col, order=1) for col in new.sort_columns],
        parameters={},
    )  # fmt: skip
