"""What is read of a table: columns, a condition on rows, partitions. Decisions without files or servers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from acidlib.acid.names import Reader
from acidlib.errors import MissingError, RefusedError, UsageError
from acidlib.model.tables import (
    EXTERNAL_TABLE,
    VIRTUAL_VIEW,
    MetastoreTable,
    PartitionName,
    TableColumn,
    matches,
    pattern_globs,
)
from acidlib.orc.schema import TypeNode, hive_type, parse_row_type
from acidlib.scan.arrays import arrow_type
from acidlib.scan.partitions import assert_compared_alike, key_values
from acidlib.scan.predicate import HIVE_TYPE, parse_predicate, pushed
from acidlib.scan.pruning import partition_bounds
from acidlib.scan.splits import ROW_ID, Scan

ROW_ID_TYPE = pa.struct([("writeid", pa.int64()), ("bucketid", pa.int32()), ("rowid", pa.int64())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The part of a table that is read.

    columns     names in any case, in the order of the result; None = all, partition keys last, as Hive's `SELECT *`
    where       a condition on rows, in Hive's SQL
    row_ids     with a first column of row ids
    partitions  patterns `k=glob`, as of --partition; none = all partitions
    exact       rows for which the condition is not true are left out; else they may be in the result, and conjuncts
                that are not understood are no error: the caller tests all rows again, and gets the columns for that
                after those of the result
    """

    columns: tuple[str, ...] | None = None
    where: str | None = None
    row_ids: bool = False
    partitions: tuple[str, ...] = ()
    exact: bool = True


def unreadable_reason(table: MetastoreTable) -> str | None:
    """Return why a table is not read here, as a whole sentence; None when it is."""
    cannot = f"Cannot read {table.ref}:"
    if table.kind == VIRTUAL_VIEW:
        return f"{cannot} it is a view; read the tables below it"
    if table.kind == EXTERNAL_TABLE or table.properties.get("EXTERNAL", "").lower() == "true":
        return f"{cannot} it is an external table, which has no transactions; Spark's own readers read its files"
    if not table.is_transactional:
        return f"{cannot} it is not transactional; Spark's own readers read its files"
    return None


def scan_of(
    table: str,
    row_type: str,
    keys: Sequence[TableColumn],
    wanted: Wanted,
    *,
    insert_only: bool = False,
    input_format: str | None = None,
    serde: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> Scan:
    """Return what all splits of a read share.

    table     for messages
    row_type  the table's columns without partition keys, as Hive's text `struct<name:type,...>`

    Raises UsageError for a column that does not exist and for a condition that is not understood, RefusedError for a
    column whose type cannot be read, and for row ids of an insert-only table.
    """
    if wanted.row_ids and insert_only:
        raise RefusedError(f"Cannot read row ids of {table}: it is insert-only, and its rows have none")
    types = _types(parse_row_type(row_type, where=table))
    types |= {key.name.lower(): _key_type(table, key) for key in keys}
    columns = _chosen(table, list(types), wanted.columns)
    if not wanted.exact:
        columns += tuple(name for name in types if name not in columns and _is_mentioned(name, wanted.where))
    fields = [pa.field(name, _arrow_type(table, name, types[name])) for name in columns]
    if wanted.row_ids:
        fields.insert(0, pa.field(ROW_ID, ROW_ID_TYPE))
    predicate = None
    if wanted.where is not None and wanted.where.strip():
        parse = parse_predicate if wanted.exact else pushed
        predicate = parse(wanted.where, _whole_schema(types))
    return Scan(
        table=table,
        row_type=row_type,
        columns=columns,
        schema=pa.schema(fields),
        partition_keys=tuple(keys),
        row_ids=wanted.row_ids,
        predicate=predicate,
        exact=wanted.exact,
        insert_only=insert_only,
        input_format=input_format,
        serde=serde,
        properties=properties or {},
    )


def _types(row: TypeNode) -> dict[str, TypeNode]:
    return {name.lower(): child for name, child in zip(row.field_names, row.children, strict=True)}


def _key_type(table: str, key: TableColumn) -> TypeNode:
    (node,) = parse_row_type(f"struct<`{key.name}`:{key.type}>", where=table).children
    return node


def _chosen(table: str, known: Sequence[str], columns: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the names of the chosen columns as the table has them."""
    if columns is None:
        return tuple(known)
    chosen = tuple(name.lower() for name in columns)
    for given, name in zip(columns, chosen, strict=True):
        if name not in known:
            raise UsageError(f"Cannot read the column {given} of {table}: it has the columns {', '.join(known)}")
    repeated = [name for name in chosen if chosen.count(name) > 1]
    if repeated:
        raise UsageError(f"Cannot read the column {repeated[0]} of {table} twice")
    return chosen


def _is_mentioned(name: str, condition: str | None) -> bool:
    """Return whether a condition may name a column: whether the name is in it as a word, in any case."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", condition or "", re.IGNORECASE) is not None


def _arrow_type(table: str, name: str, node: TypeNode) -> pa.DataType:
    try:
        return arrow_type(node)
    except RefusedError as error:
        raise RefusedError(f"Cannot read the column {name} of {table}: {error.reason}") from None


def _whole_schema(types: Mapping[str, TypeNode]) -> pa.Schema:
    """Return all columns that a condition may name: those of types that can be read."""
    fields = []
    for name, node in types.items():
        try:
            fields.append(pa.field(name, arrow_type(node), metadata={HIVE_TYPE: hive_type(node).encode()}))
        except RefusedError:
            continue
    return pa.schema(fields)


def wanted_partitions(table: str, keys: Sequence[TableColumn], names: Iterable[str], wanted: Wanted) -> list[str]:
    """Return the names of the partitions that the patterns of `partitions` select.

    Raises MissingError if there are patterns and none matches, UsageError for a wrong pattern.
    """
    known = {key.name.lower() for key in keys}
    for pattern in wanted.partitions:
        for key, _ in pattern_globs(pattern):
            if key.strip().lower() not in known:
                shown = ", ".join(key.name for key in keys) or "none"
                raise UsageError(f"Cannot read {table}: {key!r} of {pattern!r} is no partition key ({shown})")
    if not wanted.partitions:
        return list(names)
    chosen = [name for name in names if matches(PartitionName.parse(name), wanted.partitions)]
    if not chosen:
        raise MissingError(f"Cannot find partitions of {table}: none matches {', '.join(wanted.partitions)}")
    return chosen


def may_match(scan: Scan, partition: str | None, reader: Reader) -> bool:
    """Return whether rows of a partition, `k=v/k2=v2`, may fulfil the condition, by the values of its keys.

    reader  of the texts of its keys

    Raises RefusedError where the text of a key that the condition names has no certain value or comparison.
    """
    if scan.predicate is None or partition is None:
        return True
    values = key_values(scan, partition, reader, scan.predicate.columns)
    if scan.exact:  # what Spark tests again, it compares as values
        assert_compared_alike(scan, partition, values, scan.predicate)
    return not values or bool(scan.predicate.may_match(partition_bounds(values)))
