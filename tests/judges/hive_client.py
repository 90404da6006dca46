"""Rows of an Arrow table as a Python client of HiveServer2 returns them (``servers.sql``), each value as its ``repr``.

Both sides lose what ``arrow_rows`` says: times have microseconds, and CHAR has no padding.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyorc
from pyorc import TypeKind

from judges import arrow_rows, hive_text

_FINER = re.compile(r"(\d\d:\d\d:\d\d\.\d{6})\d+")
_STYLE = hive_text.Style(null="NULL", true="true", false="false", hybrid=False)
_NESTED = (TypeKind.LIST, TypeKind.MAP, TypeKind.STRUCT)


def snapshot_rows(found: pa.Table, types: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The rows, sorted; ROW__ID, if it is there, as Hive's JSON. ``types`` are Hive's for the columns by name."""
    kinds = [_kind(types[name]) for name in found.column_names if name != arrow_rows.ROW_ID]
    has_ids = found.column_names[:1] == [arrow_rows.ROW_ID]
    rows = []
    for row in arrow_rows.table_rows(found):
        ids = [_row_id(row[0])] if has_ids else []
        values = row[has_ids:]
        rows.append((*ids, *(repr(_value(v, k)) for v, k in zip(values, kinds, strict=True))))
    return sorted(rows)


def _row_id(key: Sequence[int]) -> str:
    return json.dumps(dict(zip(arrow_rows.KEY, key, strict=True)), separators=(",", ":"))


def hive_rows(found: Sequence[tuple[Any, ...]], types: Sequence[str], *, row_ids: bool) -> list[tuple[str, ...]]:
    """What ``Session.run`` returned for these types, with the same losses, sorted."""
    kinds = [_kind(kind) for kind in types]
    return sorted(
        (*map(str, row[:row_ids]), *(repr(_coarse(v, k)) for v, k in zip(row[row_ids:], kinds, strict=True)))
        for row in found
    )


def coarse_texts(rows: Sequence[tuple[str, ...]], types: Sequence[str], *, row_ids: bool) -> list[tuple[str, ...]]:
    """The same of rows whose values are their ``repr`` already."""
    kinds = [_kind(kind) for kind in types]
    found = []
    for row in rows:
        texts = [
            re.sub(r" +(['\"])$", r"\1", text) if k.kind is TypeKind.CHAR else _cut(text)
            for text, k in zip(row[row_ids:], kinds, strict=True)
        ]
        found.append((*row[:row_ids], *texts))
    return sorted(found)


def _kind(text: str) -> Any:
    return pyorc.TypeDescription.from_string(text)


def _cut(text: str) -> str:
    return _FINER.sub(lambda digits: digits[1].rstrip("0").rstrip("."), text)


def _coarse(value: Any, kind: Any) -> Any:
    if not isinstance(value, str):
        return value
    return value.rstrip(" ") if kind.kind is TypeKind.CHAR else _cut(value)


def _value(value: Any, kind: Any) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    k = kind.kind
    if k in _NESTED:
        return hive_text.render(value, kind, _STYLE, nested=True)
    if k in (TypeKind.FLOAT, TypeKind.DOUBLE):
        (number,) = struct.unpack(">d", bytes.fromhex(value[2:]))
        # HiveServer2 sends the text of a FLOAT as a number
        return float(str(np.float32(number))) if k is TypeKind.FLOAT else number
    if k is TypeKind.DECIMAL:
        return Decimal(hive_text.render(value, kind, _STYLE))
    if k is TypeKind.BINARY:
        return bytes.fromhex(value[2:])
    text = hive_text.render(value, kind, _STYLE)
    return text.rstrip(" ") if k is TypeKind.CHAR else text
