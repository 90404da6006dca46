"""The values of partition keys, which names of partitions hold as texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from acidlib.model.tables import DEFAULT_PARTITION, PartitionName
from acidlib.orc.proto import Kind
from acidlib.orc.schema import TypeNode, parse_row_type
from acidlib.scan.arrays import arrow_type
from acidlib.scan.splits import Scan, Split

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


def partition_scalars(scan: Scan, split: Split) -> dict[str, pa.Scalar]:
    """Return the values of the partition keys in a split, by their names."""
    if not scan.partition_keys:
        return {}
    texts = {name.lower(): text for name, text in PartitionName.parse(split.partition or "").pairs}
    types = parse_row_type(
        f"struct<{','.join(f'`{key.name}`:{key.type}' for key in scan.partition_keys)}>", where=scan.table
    )
    return {
        key.name: pa.scalar(partition_value(texts[key.name], key.type), arrow_type(node))
        for key, node in zip(scan.partition_keys, types.children, strict=True)
    }


def constants(values: Mapping[str, pa.Scalar], names: Iterable[str], rows: int) -> dict[str, pa.Array]:
    """Return those of the values that have one of these names, as columns of so many rows."""
    chosen = {name: values[name] for name in names if name in values}
    return {
        name: pa.repeat(value, rows) if value.is_valid else pa.nulls(rows, value.type) for name, value in chosen.items()
    }
