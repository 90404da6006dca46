"""Databases, tables and partitions out of a metastore's answers.

The answers of both Thrift libraries have the same member names, so one set of functions reads both.
"""

from __future__ import annotations

from typing import Any

from acidlib.metastore.idl import need
from acidlib.model.tables import MANAGED_TABLE, Database, Partition, Storage, Table, TableColumn


def read_database(answer: Any, call: str) -> Database:
    """A database. Raises CorruptError when a field is missing, as all functions here do."""
    return Database(
        name=need(answer.name, call, "name").lower(), properties=dict(need(answer.parameters, call, "parameters"))
    )


def read_table(answer: Any, call: str) -> Table:
    """A table or a view."""
    kind = need(answer.tableType, call, "tableType")
    number = getattr(answer, "id", None)
    return Table(
        database=need(answer.dbName, call, "dbName").lower(),
        name=need(answer.tableName, call, "tableName").lower(),
        kind=kind,
        owner=answer.owner,
        created=need(answer.createTime, call, "createTime"),
        # a managed table always has a place of its own; views and tables of other systems need not
        storage=_storage(need(answer.sd, call, "sd"), call, has_location=kind == MANAGED_TABLE),
        id=number if number is not None and number > 0 else None,
        partition_keys=_columns(need(answer.partitionKeys, call, "partitionKeys"), call, "partitionKeys"),
        properties=dict(need(answer.parameters, call, "parameters")),
    )


def read_partition(answer: Any, call: str) -> Partition:
    """A partition."""
    return Partition(
        values=tuple(need(answer.values, call, "values")),
        storage=_storage(need(answer.sd, call, "sd"), call, has_location=True),
        created=need(answer.createTime, call, "createTime"),
        properties=dict(need(answer.parameters, call, "parameters")),
    )


def _storage(answer: Any, call: str, *, has_location: bool) -> Storage:
    location = need(answer.location, call, "sd.location") if has_location else answer.location or ""
    sort_columns = need(answer.sortCols, call, "sd.sortCols")
    return Storage(
        location=location,
        columns=_columns(need(answer.cols, call, "sd.cols"), call, "sd.cols"),
        input_format=answer.inputFormat,
        serde=need(answer.serdeInfo, call, "sd.serdeInfo").serializationLib,
        bucket_columns=tuple(need(answer.bucketCols, call, "sd.bucketCols")),
        buckets=need(answer.numBuckets, call, "sd.numBuckets"),
        sort_columns=tuple(need(order.col, call, "sd.sortCols.col") for order in sort_columns),
    )


def _columns(answer: Any, call: str, path: str) -> tuple[TableColumn, ...]:
    return tuple(
        TableColumn(name=need(column.name, call, f"{path}.name"), type=need(column.type, call, f"{path}.type"))
        for column in answer
    )
