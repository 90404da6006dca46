"""The values of partition keys, which names of partitions hold as texts.

Source: Hive `VectorizedRowBatchCtx.getPartitionValues` and `MapOperator` (rows), `PartExprEvalUtils` (conditions): all
convert by `ObjectInspectorConverters`, and so by `PrimitiveObjectInspectorUtils`.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from acidlib.acid.names import Generation, Reader
from acidlib.errors import RefusedError
from acidlib.model.tables import DEFAULT_PARTITION, PartitionName
from acidlib.orc.columns import STRING_KINDS
from acidlib.orc.proto import Kind
from acidlib.orc.schema import TypeNode, parse_row_type
from acidlib.scan.arrays import arrow_type
from acidlib.scan.conditions import as_texts, selects_alike, text_column
from acidlib.scan.java_texts import DAY_MICROS, JAVA_BLANKS, java_day, java_decimal, java_moment, java_real
from acidlib.scan.literals import timestamp_text
from acidlib.scan.predicate import Predicate
from acidlib.scan.pruning import partition_bounds
from acidlib.scan.splits import Scan, Split
from acidlib.scan.time_zones import time_in_zone

_WHOLE = re.compile(r"[+-]?\d+")
_BITS = {Kind.BYTE: 8, Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
_FALSE = frozenset({"false", "off", "no", "0", ""})
_DECIMAL_BLANKS = {Generation.HIVE3: " ", Generation.HIVE4: " \t\v\f"}
_ISO = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(\.[0-9]{0,9})?)?", re.ASCII)
_WITH_ZONE = re.compile(
    r"([0-9]{4}|-[0-9]{4,9}|\+[0-9]{5,9})-([0-9]{2})-([0-9]{2})"
    r"(?: ([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?)?"
    r"(?: ?(Z|[A-Za-z]{2}.*|[+-].*))?",
    re.ASCII,
)
_ZONE = re.compile(r"Z|UTC|GMT|[+-](?:0[0-9]|1[0-7]):[0-5][0-9]|[A-Za-z_]+(?:/[A-Za-z0-9_+-]+)+", re.ASCII)
"""The zones that Hive 3.1 and Hive 4 understand alike."""
_CLOCK = re.compile(r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{0,9})?)?", re.ASCII)
_DAY_LENGTH = len("yyyy-mm-dd")
_NANO_DIGITS = 9
_EPOCH = datetime(1970, 1, 1)


def partition_value(text: str, hive_type: str, reader: Reader) -> Any:
    """Return the value of a partition key, of the Python type of the key's Arrow type.

    None for the partition of rows without a value (`__HIVE_DEFAULT_PARTITION__`), as Spark and Trino read it, and for a
    text that is no value of the type, as the Hive of this generation reads it.

    text       unescaped
    hive_type  of the key

    Raises RefusedError for a text whose value depends on more than the text, or is beyond the years 1 to 9999.
    """
    if text == DEFAULT_PARTITION:
        return None
    node = _key_type(hive_type)
    read = _READERS.get(node.kind)
    return text if read is None else read(text, node, reader)


def _key_type(hive_type: str) -> TypeNode:
    (node,) = parse_row_type(f"struct<key:{hive_type}>", where="a partition key").children
    return node


def _integer(text: str, node: TypeNode, _: Reader) -> int | None:
    """Return a whole number; one of an INT that is beyond a smaller type loses its upper bits, as in Java."""
    if not _WHOLE.fullmatch(text) or max(text) > "\uffff":
        return None
    value, bits = int(text), max(_BITS[node.kind], 32)
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        return None
    limit = 1 << _BITS[node.kind] - 1
    return (value + limit) % (2 * limit) - limit


def _float(text: str, _node: TypeNode, _: Reader) -> float | None:
    value = java_real(text, pa.float64())
    with np.errstate(over="ignore"):
        return None if value is None else float(np.float32(value))


def _decimal(text: str, node: TypeNode, reader: Reader) -> Decimal | None:
    return java_decimal(text, node, reader, blanks=_DECIMAL_BLANKS[reader])


def _date(text: str, _: TypeNode, reader: Reader) -> date | None:
    """Return a day: in Hive 3.1 of a text that begins with one, else of one that is a time."""
    plain = text.strip(JAVA_BLANKS)
    days = None if reader is Generation.HIVE4 else java_day(plain, reader)
    if days is None:
        micros = _micros(plain, reader)
        days = None if micros is None else micros // DAY_MICROS
    return None if days is None else _moment(days * DAY_MICROS).date()


def _timestamp(text: str, _: TypeNode, reader: Reader) -> datetime | None:
    micros = _micros(text.strip(JAVA_BLANKS), reader)
    return None if micros is None else _moment(micros)


def _micros(text: str, reader: Reader) -> int | None:
    """Return a time as microseconds since 1970, by `PrimitiveObjectInspectorUtils.getTimestampFromString`.

    A zone in the text changes nothing but the times that its clocks skip.
    """
    if reader is Generation.HIVE4 and len(text) != _DAY_LENGTH and _CLOCK.fullmatch(text):
        raise RefusedError(f"Hive 4 takes {text!r} for a time of the day on which it is read")
    shorter = _without_long_fraction(text, reader)
    micros = java_moment(shorter, reader)
    if micros is None and (iso := _ISO.fullmatch(shorter)):
        day, clock, seconds, fraction = iso.groups()
        plain = f"{day} {clock}:{seconds or '00'}{(fraction or '').rstrip('.')}"
        micros = java_moment(plain, Reader(Generation.HIVE4))
    if micros is None and (zoned := _on_clocks(shorter)) is not None and zoned[1]:
        micros = (time_in_zone(*zoned).replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)
    if micros is None and (days := java_day(text, reader)) is not None:
        micros = days * DAY_MICROS
    return micros


def _instant(text: str, _: TypeNode, reader: Reader) -> datetime | None:
    zoned = _on_clocks(_without_long_fraction(text.strip(JAVA_BLANKS), reader))
    if zoned is not None and not zoned[1]:
        raise RefusedError(f"{text!r} has no time zone, and Hive reads it in that of the session")
    return None if zoned is None else time_in_zone(*zoned).astimezone(UTC)


def _without_long_fraction(text: str, reader: Reader) -> str:
    """Return a text without what follows nine characters after its point, up to a zone (`trimNanoTimestamp`)."""
    point, first = text.find("."), text.find(" ")
    signs = " +" if reader is Generation.HIVE4 else " "
    ends = [text.find(sign, first + 1) for sign in signs] if first >= 0 else []
    end = next((end for end in ends if end >= 0), len(text))
    is_long = 0 <= point < end - _NANO_DIGITS
    return (text[: point + 1 + _NANO_DIGITS] + text[end:]).strip(JAVA_BLANKS) if is_long else text


def _on_clocks(text: str) -> tuple[datetime, str] | None:
    """Return the time on clocks and the zone, maybe "", of a text by `TimestampTZUtil.parse`; None for another text.

    A day beyond the end of its month is the last one, and 24:00:00 is midnight after it (`java.time`, SMART).

    Raises RefusedError for what may be a zone, and for years that are not between 1 and 9999.
    """
    parts = _WITH_ZONE.fullmatch(text)
    if parts is None:
        return None
    zone = parts[8] or ""
    if zone and not _ZONE.fullmatch(zone):
        raise RefusedError(f"readers disagree on the time zone in {text!r}")
    year, month, day, hour, minute, second = (int(part or 0) for part in parts.groups()[:6])
    if not 1 <= year <= 9999:
        raise RefusedError(f"the year of {text!r} is not between 1 and 9999")
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        return None
    micros = int((parts[7] or "").ljust(_NANO_DIGITS, "0")) // 1000
    is_midnight = (hour, minute, second, micros) == (24, 0, 0, 0)
    clamped = min(day, monthrange(year, month)[1])
    try:
        moment = datetime(year, month, clamped, 0 if is_midnight else hour, minute, second, micros)
        return moment + timedelta(days=is_midnight), zone
    except ValueError:
        return None
    except OverflowError:
        raise RefusedError(f"the year of {text!r} is not between 1 and 9999") from None


def _moment(micros: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise RefusedError("the year is not between 1 and 9999") from None


_READERS: dict[Kind, Callable[[str, TypeNode, Reader], Any]] = {
    **dict.fromkeys(_BITS, _integer),
    Kind.BOOLEAN: lambda text, *_: text.lower() not in _FALSE,
    Kind.FLOAT: _float,
    Kind.DOUBLE: lambda text, *_: java_real(text, pa.float64()),
    Kind.DECIMAL: _decimal,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMP_INSTANT: _instant,
    Kind.CHAR: lambda text, node, _: text[: node.maximum_length].rstrip(" "),
    Kind.VARCHAR: lambda text, node, _: text[: node.maximum_length],
    Kind.BINARY: lambda text, *_: text.encode(),
}


_COMPARED_AS_TEXTS: dict[Kind, Callable[[TypeNode], Callable[[Any], str]]] = {
    **dict.fromkeys(_BITS, lambda _: str),
    Kind.DATE: lambda _: date.isoformat,
    Kind.TIMESTAMP: lambda _: timestamp_text,
    Kind.CHAR: lambda node: lambda value: value.ljust(node.maximum_length),
    Kind.VARCHAR: lambda _: str,
}
"""The text of a value, by which Hive's metastore leaves partitions out; keys of other types Hive compares as values."""


def key_values(scan: Scan, partition: str, reader: Reader, names: Iterable[str]) -> dict[str, Any]:
    """Return the values of the partition keys with one of these lower-case names, by them.

    partition  its name, as `k=v/k2=v2`

    Raises RefusedError as `partition_value`, with the partition.
    """
    values = {}
    for name, text, hive_type in _keys(scan, partition, names):
        try:
            values[name] = partition_value(text, hive_type, reader)
        except RefusedError as error:
            raise RefusedError(
                f"Cannot read partition {partition} of {scan.table}: of {name}, a {hive_type.upper()}, {error}"
            ) from None
    return values


def _keys(scan: Scan, partition: str, names: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the lower-case name, the text and Hive's type of the keys with one of some names."""
    types = {key.name.lower(): key.type for key in scan.partition_keys}
    texts = {name.lower(): text for name, text in PartitionName.parse(partition).pairs}
    for name in sorted(types.keys() & frozenset(names)):
        yield name, texts[name], types[name]


def assert_compared_alike(scan: Scan, partition: str, values: Mapping[str, Any], predicate: Predicate) -> None:
    """Raise RefusedError where a predicate selects other rows by the values of a partition's keys than by their texts.

    Hive 4.0.1 compares now these, now those. In a partition without a value of a key it compares the name
    `__HIVE_DEFAULT_PARTITION__`, or what that is of the type, if the type is a text, BOOLEAN or BINARY.
    """
    compared: dict[str, Any] = dict(values)
    text_of: dict[str, Callable[[Any], str]] = {}
    for name, text, hive_type in _keys(scan, partition, values):
        node = _key_type(hive_type)
        if text == DEFAULT_PARTITION:
            if node.kind in (*STRING_KINDS, Kind.BOOLEAN, Kind.BINARY):
                read = _READERS.get(node.kind)
                compared[name] = text if read is None else read(text, node, Reader(Generation.HIVE4))
        elif node.kind in _COMPARED_AS_TEXTS:
            as_text = _COMPARED_AS_TEXTS[node.kind](node)
            if values[name] is None or as_text(values[name]) != text:
                text_of[name] = as_text
                compared[text_column(name).name] = text
    is_alike = selects_alike(
        predicate.condition,
        partition_bounds(values),
        as_texts(predicate.condition, text_of),
        partition_bounds(compared),
    )
    if not is_alike:
        raise RefusedError(
            f"Cannot read partition {partition} of {scan.table} by {predicate.text!r}: Hive compares the text of a key "
            "in some conditions, and its value in others: leave the partition out by patterns of partitions"
        )


def partition_scalars(scan: Scan, split: Split) -> dict[str, pa.Scalar]:
    """Return the values of a split's partition keys that the result or the condition has; raises as `key_values`."""
    if split.partition is None:
        return {}
    used = {*scan.columns, *(scan.predicate.columns if scan.predicate is not None else ())}
    types = {key.name.lower(): key.type for key in scan.partition_keys}
    return {
        name: pa.scalar(value, arrow_type(_key_type(types[name])))
        for name, value in key_values(scan, split.partition, split.reader, used).items()
    }


def constants(values: Mapping[str, pa.Scalar], names: Iterable[str], rows: int) -> dict[str, pa.Array]:
    """Return those of the values that have one of these names, as columns of so many rows."""
    chosen = {name: values[name] for name in names if name in values}
    return {
        name: pa.repeat(value, rows) if value.is_valid else pa.nulls(rows, value.type) for name, value in chosen.items()
    }
