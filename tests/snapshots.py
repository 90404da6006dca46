"""Snapshots of places on this machine's disks, read without a metastore and without Spark."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from judges.values import plain_decimal
from located import at
from pyorc import TypeKind

from acidlib.acid.names import Generation
from acidlib.acid.state import acid_state
from acidlib.acid.write_ids import ValidWriteIdList, all_committed
from acidlib.model.requests import CompactionType
from acidlib.model.units import ColumnMatching
from acidlib.planning.inputs import directories_read
from acidlib.runs.plan import with_logical_lengths
from acidlib.scan.splits import Scan, Split, place_splits
from acidlib.stores.listing import list_location
from acidlib.stores.stores import Stores


def splits_of(
    scan: Scan,
    path: Path,
    write_ids: str = "",
    *,
    generation: int = 3,
    partition: str | None = None,
    matching: ColumnMatching | None = None,
    split_bytes: int = 128 << 20,
) -> tuple[Split, ...]:
    """The splits of a table or partition for a reader's list of write ids; blank for everything."""
    location, stores, hive = at(path), Stores(), Generation(generation)
    ids = ValidWriteIdList.parse(write_ids) if write_ids else all_committed(None)
    listing = list_location(stores.fs(location), location)
    state = acid_state(listing, ids, names=hive, ignore_empty_files=True)
    directories = directories_read(state, listing, CompactionType.MAJOR, names=hive, insert_only=scan.insert_only)
    return place_splits(
        scan,
        with_logical_lengths(stores.fs(location), location, directories),
        location=location,
        partition=partition,
        write_ids=ids,
        reader=hive,
        matching=matching or ColumnMatching.of(hive),
        split_bytes=split_bytes,
    )


def schema_of(fields: Sequence[tuple[str, pa.DataType]], *, row_ids: bool = False) -> pa.Schema:
    """The schema of a result, with row ids if they are asked for."""
    ids = pa.struct([("writeid", pa.int64()), ("bucketid", pa.int32()), ("rowid", pa.int64())])
    return pa.schema([*([("row__id", ids)] if row_ids else []), *fields])


def arrow_type(kind: Any) -> pa.DataType:
    """The Arrow type of values of a pyorc type."""
    k = kind.kind
    if k is TypeKind.LIST:
        return pa.list_(arrow_type(kind.type))
    if k is TypeKind.MAP:
        return pa.map_(arrow_type(kind.key), arrow_type(kind.value))
    if k is TypeKind.STRUCT:
        return pa.struct([(name, arrow_type(field)) for name, field in kind.fields.items()])
    if k is TypeKind.DECIMAL:
        return pa.decimal128(kind.precision, kind.scale)
    return _ARROW[k]


_ARROW = {
    TypeKind.BOOLEAN: pa.bool_(),
    TypeKind.BYTE: pa.int8(),
    TypeKind.SHORT: pa.int16(),
    TypeKind.INT: pa.int32(),
    TypeKind.LONG: pa.int64(),
    TypeKind.FLOAT: pa.float32(),
    TypeKind.DOUBLE: pa.float64(),
    TypeKind.STRING: pa.string(),
    TypeKind.CHAR: pa.string(),
    TypeKind.VARCHAR: pa.string(),
    TypeKind.BINARY: pa.binary(),
    TypeKind.DATE: pa.date32(),
    TypeKind.TIMESTAMP: pa.timestamp("us"),
    TypeKind.TIMESTAMP_INSTANT: pa.timestamp("us", tz="UTC"),
}


def canonical(value: Any, kind: Any) -> Any:
    """A value of Arrow, as `to_pylist` gives it, in the form of `judges.values`."""
    k = kind.kind
    if value is None or isinstance(value, bool | int):
        return value
    if k is TypeKind.LIST:
        return tuple(canonical(item, kind.type) for item in value)
    if k is TypeKind.MAP:
        return tuple((canonical(key, kind.key), canonical(item, kind.value)) for key, item in value)
    if k is TypeKind.STRUCT:
        return tuple(canonical(value[name], field) for name, field in kind.fields.items())
    if k in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return "f:" + struct.pack(">d", value).hex()
    if k is TypeKind.DECIMAL:
        return "n:" + plain_decimal(f"{value:f}")
    if k is TypeKind.BINARY:
        return "b:" + value.hex()
    if k is TypeKind.DATE:
        return f"d:{(value - date(1970, 1, 1)).days}"
    if k in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT):
        since = value.replace(tzinfo=None) - datetime(1970, 1, 1)
        return f"t:{since.days * 86_400 + since.seconds}:{since.microseconds * 1000}"
    return "s:" + (value.ljust(kind.max_length) if k is TypeKind.CHAR else value)
