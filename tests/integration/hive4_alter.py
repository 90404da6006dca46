"""Changes of tables by clients that take no locks, as some do that speak to a metastore directly."""

from __future__ import annotations

import io
from typing import Any
from urllib.parse import urlsplit

import thriftpy2
from thriftpy2.rpc import make_client

_IDL = """
exception MetaException { 1: string message }
exception InvalidOperationException { 1: string message }
exception NoSuchObjectException { 1: string message }
struct FieldSchema { 1: string name, 2: string type, 3: string comment }
struct SerDeInfo { 1: string name, 2: string serializationLib, 3: map<string,string> parameters }
struct Order { 1: string col, 2: i32 order }
struct StorageDescriptor { 1: list<FieldSchema> cols, 2: string location, 3: string inputFormat,
  4: string outputFormat, 5: bool compressed, 6: i32 numBuckets, 7: SerDeInfo serdeInfo, 8: list<string> bucketCols,
  9: list<Order> sortCols, 10: map<string,string> parameters }
struct Table { 1: string tableName, 2: string dbName, 3: string owner, 4: i32 createTime, 5: i32 lastAccessTime,
  6: i32 retention, 7: StorageDescriptor sd, 8: list<FieldSchema> partitionKeys, 9: map<string,string> parameters,
  10: string viewOriginalText, 11: string viewExpandedText, 12: string tableType, 17: string catName }
struct ClientCapabilities { 1: list<i32> values }
struct GetTableRequest { 1: string dbName, 2: string tblName, 3: ClientCapabilities capabilities }
struct GetTableResult { 1: Table table }
struct AlterTableRequest { 1: string catName, 2: string dbName, 3: string tableName, 4: Table table }
service Alter {
  GetTableResult get_table_req(1: GetTableRequest req) throws (1: MetaException o1, 2: NoSuchObjectException o2)
  void alter_table(1: string dbname, 2: string name, 3: Table table)
    throws (1: InvalidOperationException o1, 2: MetaException o2)
  bool drop_partition(1: string db, 2: string name, 3: list<string> values, 4: bool deleteData)
    throws (1: NoSuchObjectException o1, 2: MetaException o2)
}
"""
_TYPES: Any = thriftpy2.load_fp(io.StringIO(_IDL), "hive4_alter_thrift")
_INSERT_ONLY_TABLES = 2


def _client(uri: str) -> Any:
    parts = urlsplit(uri)
    return make_client(_TYPES.Alter, parts.hostname, parts.port, timeout=60_000)


def rename_table(uri: str, database: str, name: str, to: str) -> None:
    """Renames a table; the metastore moves its directory."""
    client = _client(uri)
    capabilities = _TYPES.ClientCapabilities(values=[_INSERT_ONLY_TABLES])
    request = _TYPES.GetTableRequest(dbName=database, tblName=name, capabilities=capabilities)
    table = client.get_table_req(request).table
    table.tableName = to
    client.alter_table(database, name, table)
    client.close()


def drop_partition(uri: str, database: str, name: str, *values: str) -> None:
    """Drops a partition with its files."""
    client = _client(uri)
    assert client.drop_partition(database, name, list(values), True)
    client.close()
