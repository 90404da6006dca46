"""The values of partition keys, which names of partitions hold as texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

from acidlib.model.tables import DEFAULT_PARTITION
from acidlib.orc.proto import Kind
from acidlib.orc.schema import TypeNode, parse_row_type

_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_BITS = {Kind.BYTE: 8, Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
_FALSE = frozenset({"false", "off", "no", "0", ""})


def partition_value(text: str, hive_type: str) -> Any:
    """Return the value of a partition key, of the Python type of the key's Arrow type.

    None for the partition of rows without a value (`__HIVE_DEFAULT_PARTITION__`), as Spark and Trino read it, and for a
    text that is no value of the type, as Hive reads it.

    text       unescaped
    hive_type  of the key
    """
    if text == DEFAULT_PARTITION:
        return None
    (node,) = parse_row_type(f"struct<key:{hive_type}>", where="a partition key").children
    read = _READERS.get(node.kind)
    try:
        return text if read is None else read(text, node)
    except (ValueError, InvalidOperation, OverflowError):
        return None


def _integer(text: str, node: TypeNode) -> int | None:
    value, limit = int(text) if _WHOLE.fullmatch(text) else None, 1 << _BITS[node.kind] - 1
    return value if value is not None and -limit <= value < limit else None


def _decimal(text: str, node: TypeNode) -> Decimal | None:
    value = Decimal(text.strip()).quantize(Decimal(1).scaleb(-node.scale), ROUND_HALF_UP)
    return value if len(value.as_tuple().digits) <= node.precision else None


def _timestamp(text: str, node: TypeNode) -> datetime:
    value = datetime.fromisoformat(text.strip()).replace(tzinfo=None)
    return value.replace(tzinfo=UTC) if node.kind is Kind.TIMESTAMP_INSTANT else value


_READERS: dict[Kind, Callable[[str, TypeNode], Any]] = {
    **dict.fromkeys(_BITS, _integer),
    Kind.BOOLEAN: lambda text, _: text.lower() not in _FALSE,
    Kind.FLOAT: lambda text, _: float(text),
    Kind.DOUBLE: lambda text, _: float(text),
    Kind.DECIMAL: _decimal,
    Kind.DATE: lambda text, _: date.fromisoformat(text.strip()[:10]),
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMP_INSTANT: _timestamp,
    Kind.CHAR: lambda text, node: text[: node.maximum_length].rstrip(" "),
    Kind.VARCHAR: lambda text, node: text[: node.maximum_length],
    Kind.BINARY: lambda text, _: text.encode(),
}
