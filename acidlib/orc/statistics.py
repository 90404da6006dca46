"""Column statistics: what they may say to which readers, and how those of row groups are computed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acidlib.orc.columns import STRING_KINDS, TIMESTAMP_KINDS, Column, Dictionary, Longs
from acidlib.orc.kernels import group_stats
from acidlib.orc.kernels.jit import Bytes, kernel_array, kernel_bytes, kernel_longs
from acidlib.orc.proto import ColumnStatistics, Kind
from acidlib.orc.schema import TypeNode
from acidlib.orc.tail import MAX_SLOTS, Tail

# --- statistics rules -------------------------------------------------------------------------------------------------
# What column statistics may say to which readers: the rules that computed, merged and copied statistics share.
#
# Readers skip rows by statistics, so a statistic that is not certain is left out, and always the whole typed message:
# Java ORC 1.5 takes a message without minimum for a column of nulls and skips live rows (RecordReaderImpl.getMin,
# evaluatePredicateRange).

UTC_NAMES = frozenset({"UTC", "GMT", "Etc/UTC", "Etc/GMT"})
MAX_STRING_BOUND = 1024
"""Longest minimum or maximum that Java writes (StringStatisticsImpl.MAX_BYTES_RECORDED)."""

MAX_DECIMAL_DIGITS = 38
DEFAULT_MIN_NANOS = 0
DEFAULT_MAX_NANOS = 999_999
"""What an absent maximum_nanos means: any part of the millisecond (TimestampStatisticsImpl)."""

INT64 = range(-(2**63), 2**63)

TYPED_FIELD = {
    Kind.BOOLEAN: "bucket_statistics",
    Kind.BYTE: "int_statistics",
    Kind.SHORT: "int_statistics",
    Kind.INT: "int_statistics",
    Kind.LONG: "int_statistics",
    Kind.FLOAT: "double_statistics",
    Kind.DOUBLE: "double_statistics",
    Kind.STRING: "string_statistics",
    Kind.VARCHAR: "string_statistics",
    Kind.CHAR: "string_statistics",
    Kind.BINARY: "binary_statistics",
    Kind.DECIMAL: "decimal_statistics",
    Kind.DATE: "date_statistics",
    Kind.TIMESTAMP: "timestamp_statistics",
    Kind.TIMESTAMP_INSTANT: "timestamp_statistics",
}
"""The typed message of each kind. LIST, MAP, STRUCT and UNION have counts only."""

ALL_TYPED = (*sorted(set(TYPED_FIELD.values())), "collection_statistics")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsRules:
    """For whom statistics are written.

    generation       3: readers are Hive 3 (Java ORC 1.5), which know neither nanosecond fields nor string bounds;
                     4: Hive 4
    writer_timezone  zone of the stripe's timestamps, as in its footer
    """

    generation: int
    writer_timezone: str

    def __post_init__(self) -> None:
        if self.generation not in (3, 4):
            raise ValueError(f"generation must be 3 or 4, not {self.generation}")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Instant:
    """A point in UTC: milliseconds since 1970, and the nanoseconds (0 to 999,999) after them."""

    millis: int
    nanos: int


def set_counts(message: Any, values: int, *, has_null: bool) -> None:
    """Write the two counts every message has."""
    message.number_of_values = values
    message.has_null = has_null


def set_integers(typed: Any, minimum: int, maximum: int, total: int | None) -> None:
    """Fill IntegerStatistics. A total that does not fit 64 bits, or None, is left out (Java marks it as overflow)."""
    typed.minimum = minimum
    typed.maximum = maximum
    if total is not None and total in INT64:
        typed.sum = total


def set_doubles(typed: Any, minimum: float, maximum: float, total: float | None) -> None:
    """Fill DoubleStatistics. A zero becomes -0.0 as minimum and 0.0 as maximum; a total that is not finite is left out.

    Java compares with Double.compareTo, to which -0.0 is less than 0.0, while SQL and the writers hold them equal:
    with both bounds widened no reader skips either zero.
    """
    typed.minimum = -0.0 if minimum == 0 else minimum
    typed.maximum = 0.0 if maximum == 0 else maximum
    if total is not None and math.isfinite(total):
        typed.sum = total


def set_timestamps(typed: Any, least: Instant, most: Instant, rules: StatisticsRules) -> None:
    """Fill TimestampStatistics with UTC bounds.

    Generation 4 keeps nanoseconds as Java's TimestampStatisticsImpl does: value + 1, its defaults left out. Java ORC
    1.5 reads milliseconds only and compares a literal with the maximum cut to them, so for generation 3 a maximum with
    digits below becomes the next millisecond.
    """
    typed.minimum_utc = least.millis
    if rules.generation == 3:
        typed.maximum_utc = min(most.millis + (1 if most.nanos else 0), INT64[-1])  # no literal is above that
        return
    typed.maximum_utc = most.millis
    if least.nanos != DEFAULT_MIN_NANOS:
        typed.minimum_nanos = least.nanos + 1
    if most.nanos != DEFAULT_MAX_NANOS:
        typed.maximum_nanos = most.nanos + 1


def compares_alike(bound: bytes) -> bool:
    """Whether Java orders this bound against every literal as its bytes order.

    Java compares search literals with bounds as UTF-16 strings (RecordReaderImpl.getBaseObjectForComparison). That
    differs from the order of bytes where a character from U+E000 on meets one beyond U+FFFF, and where bytes are no
    UTF-8 and are replaced; a bound with such characters makes readers skip rows that match.
    """
    try:
        text = bound.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return not text or max(text) < "\ue000"


def decimal_text(unscaled: int, scale: int) -> str | None:
    """The number unscaled / 10**scale as Java's HiveDecimal.toString has it, or None beyond 38 digits.

    Plain notation without trailing zeros after the point; "0" for zero.
    """
    if unscaled == 0:
        return "0"
    digits = str(abs(unscaled))
    if scale > 0:
        kept = digits.rstrip("0")
        trimmed = min(len(digits) - len(kept), scale)
        digits = digits[: len(digits) - trimmed]
        scale -= trimmed
    else:
        digits += "0" * -scale
        scale = 0
    if len(digits) > MAX_DECIMAL_DIGITS or scale > MAX_DECIMAL_DIGITS:
        return None
    if scale:
        digits = digits.rjust(scale + 1, "0")
        digits = f"{digits[:-scale]}.{digits[-scale:]}"
    return f"-{digits}" if unscaled < 0 else digits


def parse_decimal(text: str) -> tuple[int, int] | None:
    """Unscaled value and scale (not below 0) of a decimal statistic, or None when it is no number Java would hold."""
    try:
        sign, digits, exponent = Decimal(text).as_tuple()
    except (InvalidOperation, TypeError):  # text that is no UTF-8 comes as bytes
        return None
    if not isinstance(exponent, int) or abs(exponent) > 2 * MAX_DECIMAL_DIGITS or len(digits) > 3 * MAX_DECIMAL_DIGITS:
        return None
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    return (unscaled * 10**exponent, 0) if exponent > 0 else (unscaled, -exponent)


# --- statistics -------------------------------------------------------------------------------------------------------
# Column statistics: computed for row groups, and the questions asked of those found in files.
#
# Source: ORC specification, "Column Statistics"; what may be left out and why is in statistics_rules.

_INT32 = range(-(2**31), 2**31)


def group_statistics(
    column: Column, node: TypeNode, slot_bounds: Longs, value_bounds: Longs, *, rules: StatisticsRules
) -> list[Any]:
    """One ColumnStatistics message per row group, for this column alone and not for its children.

    slot_bounds   int64, G + 1 ascending slot numbers where groups begin and the last one ends, nulls counted
    value_bounds  the same among the present values

    number_of_values and has_null are always there. The typed message is there when the group has values and all of it
    is known; BOOLEAN and BINARY, which have no bounds, have it always. Raises ValueError for bounds or arrays that do
    not fit each other.
    """
    slot_bounds, value_bounds = kernel_longs(slot_bounds), kernel_longs(value_bounds)
    _check_bounds("slot", slot_bounds, column.slots)
    _check_bounds("value", value_bounds, column.count)
    if len(slot_bounds) != len(value_bounds):
        raise ValueError(f"{len(slot_bounds)} slot bounds and {len(value_bounds)} value bounds are not of one length")
    values = np.diff(value_bounds).tolist()
    slots = np.diff(slot_bounds).tolist()
    messages = [ColumnStatistics() for _ in values]
    for message, present, of in zip(messages, values, slots, strict=True):
        if present > of:
            raise ValueError(f"a group of {of} slots cannot have {present} values")
        set_counts(message, present, has_null=present < of)
    _set_typed(messages, column, node, value_bounds, rules)
    return messages


def statistics_are_true(footer_stride: int, root_stats: Any, rows: int) -> bool:
    """Whether the statistics of a file or stripe may be believed.

    Hive 3.1's minor compaction writes stride 0 and statistics that are there and false: no values, no bounds. So the
    stride must be above 0 and the root column's number of values be the number of rows.
    """
    return footer_stride > 0 and root_stats.HasField("number_of_values") and root_stats.number_of_values == rows


def stripe_statistics_are_true(tail: Tail, number: int) -> bool:
    """Whether those of one stripe of a file are there and may be believed.

    More values than a stripe can have are damage, and would not fit the counts of a whole file.
    """
    found = tail.stripe_statistics[number] if tail.stripe_statistics else ()
    if any(column.number_of_values > MAX_SLOTS for column in found):
        return False
    return bool(found) and statistics_are_true(tail.stride, found[0], tail.stripes[number].rows)


def integer_range(stats: Any) -> tuple[int, int] | None:
    """Minimum and maximum of an integer column's statistics, or None unless both are there."""
    typed = stats.int_statistics
    if not stats.number_of_values or not typed.HasField("minimum") or not typed.HasField("maximum"):
        return None
    return typed.minimum, typed.maximum


def _check_bounds(name: str, bounds: Longs, limit: int) -> None:
    if not len(bounds) or bounds[0] < 0 or bounds[-1] > limit or bool(np.any(np.diff(bounds) < 0)):
        raise ValueError(f"{name} bounds must be one or more and ascend within 0..{limit}")


def _set_typed(messages: list[Any], column: Column, node: TypeNode, bounds: Longs, rules: StatisticsRules) -> None:
    kind = column.kind
    if kind is Kind.BOOLEAN:
        _booleans(messages, column, bounds)
    elif kind in (Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG):
        _integers(messages, column, bounds)
    elif kind is Kind.DATE:
        _dates(messages, column, bounds)
    elif kind in (Kind.FLOAT, Kind.DOUBLE):
        _doubles(messages, column, bounds)
    elif kind in STRING_KINDS:
        _strings(messages, column, bounds)
    elif kind is Kind.BINARY:
        for message, total in zip(messages, _sums(_lengths(column), bounds), strict=True):
            message.binary_statistics.sum = total
    elif kind is Kind.DECIMAL:
        _decimals(messages, column, node, bounds)
    elif kind in TIMESTAMP_KINDS:
        _timestamps(messages, column, bounds, rules)


def _with_values(messages: list[Any]) -> Iterator[tuple[int, Any]]:
    return ((g, message) for g, message in enumerate(messages) if message.number_of_values)


def _array(column: Column, name: str) -> NDArray[Any]:
    array: NDArray[Any] = getattr(column, name)
    if len(array) != column.count:
        raise ValueError(f"{column.kind.name} column of {column.count} values has {len(array)} in {name}")
    return array


def _booleans(messages: list[Any], column: Column, bounds: Longs) -> None:
    counts = group_stats.true_counts(kernel_bytes(_array(column, "values")), bounds)
    for message, true in zip(messages, counts.tolist(), strict=True):
        message.bucket_statistics.count.append(true)


def _integers(messages: list[Any], column: Column, bounds: Longs) -> None:
    values = _array(column, "values")
    if column.kind is Kind.BYTE:
        values = np.ascontiguousarray(values, np.uint8).view(np.int8)
    least, most, low, high = group_stats.integer_groups(kernel_longs(values), bounds)
    for g, message in _with_values(messages):
        set_integers(message.int_statistics, int(least[g]), int(most[g]), (int(high[g]) << 32) + int(low[g]))


def _dates(messages: list[Any], column: Column, bounds: Longs) -> None:
    least, most, _, _ = group_stats.integer_groups(kernel_longs(_array(column, "values")), bounds)
    for g, message in _with_values(messages):
        if int(least[g]) in _INT32 and int(most[g]) in _INT32:
            message.date_statistics.minimum = int(least[g])
            message.date_statistics.maximum = int(most[g])


def _doubles(messages: list[Any], column: Column, bounds: Longs) -> None:
    patterns = _array(column, "values")
    if column.kind is Kind.FLOAT:
        with np.errstate(invalid="ignore"):  # widening a signalling NaN
            values = np.ascontiguousarray(patterns, np.uint32).view(np.float32).astype(np.float64)
    else:
        values = kernel_array(patterns, np.dtype(np.uint64)).view(np.float64)
    least, most, total = group_stats.double_groups(values, bounds)
    for g, message in _with_values(messages):
        if not np.isnan(least[g]):
            set_doubles(message.double_statistics, float(least[g]), float(most[g]), float(total[g]))


def _lengths(column: Column) -> Longs:
    lengths = kernel_longs(_array(column, "lengths"))
    if len(lengths) and int(lengths.min()) < 0:
        raise ValueError(f"{column.kind.name} column has a negative length")
    return lengths


def _offsets(lengths: NDArray[Any]) -> Longs:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _sums(amounts: NDArray[Any], bounds: Longs) -> list[int]:
    sums: list[int] = np.diff(_offsets(amounts)[bounds]).tolist()
    return sums


def _strings(messages: list[Any], column: Column, bounds: Longs) -> None:
    if column.dictionary is not None:
        data, found = _dictionary_groups(column, column.dictionary, bounds)
    else:
        lengths = _lengths(column)
        data = kernel_bytes(column.data)
        # each length is checked first, so that their sum does not overflow
        if len(lengths) and max(int(lengths.max()), int(lengths.sum())) > len(data):
            raise ValueError(f"string bounds go beyond the {len(data)} bytes there are")
        found = group_stats.string_groups(lengths, data, bounds)
    places = found.tolist()
    for g, message in _with_values(messages):
        low, low_length, high, high_length, total = places[g]
        if max(low_length, high_length) > MAX_STRING_BOUND:
            continue
        minimum, maximum = data[low : low + low_length].tobytes(), data[high : high + high_length].tobytes()
        if compares_alike(minimum) and compares_alike(maximum):
            message.string_statistics.minimum = minimum
            message.string_statistics.maximum = maximum
            message.string_statistics.sum = total


def _dictionary_groups(column: Column, dictionary: Dictionary, bounds: Longs) -> tuple[Bytes, NDArray[np.int64]]:
    """The bytes of a dictionary, and what string_groups finds for its entries."""
    offsets, data = kernel_longs(dictionary.offsets), kernel_bytes(dictionary.data)
    entries = kernel_longs(_array(column, "values"))
    _check_bounds("string", offsets, len(data))
    if len(entries) and (int(entries.min()) < 0 or int(entries.max()) >= len(offsets) - 1):
        raise ValueError(f"{column.kind.name} column has an entry number outside its dictionary")
    if group_stats.is_sorted(offsets, data):
        least, most, _, _ = group_stats.integer_groups(entries, bounds)
    else:
        least, most = group_stats.entry_groups(entries, offsets, data, bounds)
    if not len(entries):
        return data, np.zeros((len(bounds) - 1, 5), np.int64)
    lengths = np.diff(offsets)
    sums = group_stats.chosen_sums(lengths, entries, bounds)
    return data, np.stack((offsets[least], lengths[least], offsets[most], lengths[most], sums), axis=1)


def _decimals(messages: list[Any], column: Column, node: TypeNode, bounds: Longs) -> None:
    values, scales = kernel_longs(_array(column, "values")), kernel_longs(_array(column, "secondary"))
    if column.high is None:
        found, counts = group_stats.decimal_groups(values, scales, bounds)
    else:
        high = kernel_longs(_array(column, "high"))
        found, counts = group_stats.wide_decimal_groups(values, high, scales, bounds)
    # readers round a value of more digits to the column's scale, so the stored one bounds nothing
    most_digits = node.scale if node.precision else group_stats.SCALES
    for g, message in _with_values(messages):
        used = np.flatnonzero(counts[g]).tolist()
        if counts[g, 0] < 0 or used[-1] > most_digits:
            continue
        cells = [(scale, *_decimal_cell(found[g, scale].tolist())) for scale in used]
        _set_decimals(message, cells, used[-1])


def _decimal_cell(cell: list[int]) -> tuple[int, int, int]:
    """Minimum, maximum and sum of the values of one scale, from a kernel's cell."""
    if len(cell) == 4:
        return cell[0], cell[1], (cell[3] << 32) + cell[2]
    word = 2**64 - 1
    total = sum(part << (32 * i) for i, part in enumerate(cell[4:]))
    return (cell[1] << 64) + (cell[0] & word), (cell[3] << 64) + (cell[2] & word), total


def _set_decimals(message: Any, cells: list[tuple[int, int, int, int]], scale: int) -> None:
    least = decimal_text(min(low * 10 ** (scale - s) for s, low, _, _ in cells), scale)
    most = decimal_text(max(high * 10 ** (scale - s) for s, _, high, _ in cells), scale)
    if least is None or most is None:
        return
    total = decimal_text(sum(part * 10 ** (scale - s) for s, _, _, part in cells), scale)
    message.decimal_statistics.minimum = least
    message.decimal_statistics.maximum = most
    if total is not None:
        message.decimal_statistics.sum = total


def _timestamps(messages: list[Any], column: Column, bounds: Longs, rules: StatisticsRules) -> None:
    seconds, nanos = kernel_longs(_array(column, "values")), kernel_longs(_array(column, "secondary"))
    if column.kind is Kind.TIMESTAMP and rules.writer_timezone not in UTC_NAMES:
        return
    found = group_stats.timestamp_groups(seconds, nanos, bounds).tolist()
    for g, message in _with_values(messages):
        low, low_nanos, high, high_nanos, unknown = found[g]
        if not unknown:
            least = Instant(millis=low, nanos=low_nanos)
            most = Instant(millis=high, nanos=high_nanos)
            set_timestamps(message.timestamp_statistics, least, most, rules)
