"""A Thrift client of a real metastore, for the calls that tests make beside the library."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import thriftpy2
from thriftpy2.rpc import make_client

TYPES: Any = thriftpy2.load(str(Path(__file__).with_name("metastore.thrift")), "tests_metastore_thrift")
_INSERT_ONLY_TABLES = 2
"""The client capability without which the metastore refuses to show such a table."""


def metastore_client(uri: str) -> Any:
    """Connect to a metastore of Hive 3.1 or 4.0 that asks for no login."""
    parts = urlsplit(uri)
    return make_client(TYPES.Metastore, parts.hostname, parts.port, timeout=120_000)


def stored_table(client: Any, database: str, name: str) -> Any:
    """Return a table as the metastore has it, also an insert-only one."""
    capabilities = TYPES.ClientCapabilities(values=[_INSERT_ONLY_TABLES])
    request = TYPES.GetTableRequest(dbName=database, tblName=name, capabilities=capabilities)
    return client.get_table_req(request).table


def rename_table(uri: str, database: str, name: str, to: str) -> None:
    """Rename a table; the metastore moves its directory."""
    client = metastore_client(uri)
    table = stored_table(client, database, name)
    table.tableName = to
    client.alter_table(database, name, table)
    client.close()


def drop_partition(uri: str, database: str, name: str, *values: str) -> None:
    """Drop a partition with its files."""
    client = metastore_client(uri)
    assert client.drop_partition(database, name, list(values), True)
    client.close()
