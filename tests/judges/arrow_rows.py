"""Rows of an Arrow table in the form of ``values``, to compare with what Hive's readers and the naive one find.

Two losses are agreed on: Arrow's timestamps have microseconds, and whether CHAR is padded is the reader's affair.
``alike`` takes both out of canonical rows of any reader.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyorc
from pyorc import TypeKind

from judges.merge import Row
from judges.values import plain_decimal

ROW_ID = "row__id"
KEY = ("writeid", "bucketid", "rowid")
_INSTANTS = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)


def table_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows in canonical form, in the table's order; its columns as they come."""
    columns = [column_values(column) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def keyed_rows(table: pa.Table) -> list[Row]:
    """(write id, bucket property, row id, values) of a table whose first column is ROW__ID, sorted."""
    assert table.column_names[0] == ROW_ID, table.column_names
    assert [field.name for field in table.schema.field(0).type] == list(KEY), table.schema.field(0)
    found = [(*row[0], row[1:]) for row in table_rows(table)]
    return sorted(found, key=lambda row: (row[:3], repr(row[3])))


def column_values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column in canonical form."""
    return [value for chunk in column.chunks for value in _values(chunk)]


def _values(array: pa.Array) -> list[Any]:
    kind = array.type
    if pa.types.is_struct(kind):
        fields = [_values(array.field(place)) for place in range(kind.num_fields)]
        whole = list(zip(*fields, strict=True)) if fields else [()] * len(array)
        return [row if valid else None for row, valid in zip(whole, _validity(array), strict=True)]
    if pa.types.is_map(kind):
        keys, items = _values(array.keys), _values(array.items)
        return _cut(array, list(zip(keys, items, strict=True)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _cut(array, _values(array.values))
    return [None if value is None else _leaf(value, kind) for value in _plain(array)]


def _validity(array: pa.Array) -> list[bool]:
    return list(array.is_valid().to_pylist())


def _cut(array: pa.Array, whole: list[Any]) -> list[Any]:
    at = array.offsets.to_pylist()
    parts = zip(at, at[1:], _validity(array), strict=False)
    return [tuple(whole[start:end]) if valid else None for start, end, valid in parts]


def _plain(array: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(array.type):
        assert array.type.unit == "us", array.type
        return list(array.cast(pa.int64()).to_pylist())
    if pa.types.is_date32(array.type):
        return list(array.cast(pa.int32()).to_pylist())
    return list(array.to_pylist())


def _leaf(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_timestamp(kind):
        seconds, micros = divmod(value, 1_000_000)
        return f"t:{seconds}:{micros * 1000}"
    if pa.types.is_date32(kind):
        return f"d:{value}"
    if pa.types.is_decimal(kind):
        return "n:" + plain_decimal(f"{value:f}")
    if pa.types.is_floating(kind):
        return "f:" + struct.pack(">d", value).hex()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "b:" + value.hex()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "s:" + value
    assert pa.types.is_boolean(kind) or pa.types.is_signed_integer(kind), kind
    return value


def alike(rows: Sequence[Row], columns: str) -> list[Row]:
    """Rows of any reader without what readers may differ in; ``columns`` is their struct as text."""
    kinds = list(pyorc.TypeDescription.from_string(columns).fields.values())
    found = [(*key, tuple(_alike(v, k) for v, k in zip(row, kinds, strict=True))) for *key, row in rows]
    return sorted(found, key=lambda row: (row[:3], repr(row[3])))


def _alike(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    k = kind.kind
    if k is TypeKind.LIST:
        return tuple(_alike(item, kind.type) for item in value)
    if k is TypeKind.MAP:
        return tuple((_alike(key, kind.key), _alike(item, kind.value)) for key, item in value)
    if k is TypeKind.STRUCT:
        return tuple(_alike(item, field) for item, field in zip(value, kind.fields.values(), strict=True))
    if k in _INSTANTS:
        seconds, nanos = (int(part) for part in value[2:].split(":"))
        return f"t:{seconds}:{nanos // 1000 * 1000}"
    if k is TypeKind.CHAR:
        return value.rstrip(" ")
    return "f:7ff8000000000000" if _is_nan(value, k) else value


def _is_nan(value: Any, kind: TypeKind) -> bool:
    if kind not in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return False
    (number,) = struct.unpack(">d", bytes.fromhex(value[2:]))
    return bool(number != number)
