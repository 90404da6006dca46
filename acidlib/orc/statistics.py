"""Column statistics: computed for row groups, merged, copied, and checked in input files.

Readers skip rows by statistics, so an uncertain statistic is left out, and always the whole typed message: Java ORC 1.5
takes a message without minimum for a column of nulls and skips live rows (RecordReaderImpl.getMin,
evaluatePredicateRange). Merged parts may come from files of any writer (Java, C++, Trino): a value that one of them
leaves out is unknown for the whole. Readers are those of one generation of Hive: Hive 3's (Java ORC 1.5) know neither
nanosecond fields nor string bounds. Source: ORC specification, "Column Statistics".
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from acidlib.acid.names import Reader
from acidlib.orc.columns import INTEGER_KINDS, NO_VALUES, STRING_KINDS, TIMESTAMP_KINDS, Column, Longs, offsets_of
from acidlib.orc.kernels import group_stats
from acidlib.orc.proto import ColumnStatistics, Kind
from acidlib.orc.reader import MAX_SLOTS, Tail
from acidlib.orc.schema import TypeNode

_MAX_STRING_BOUND = 1024
"""Longest minimum or maximum that Java writes (StringStatisticsImpl.MAX_BYTES_RECORDED)."""

_MAX_DECIMAL_DIGITS = 38
_MIN_NANOS, _MAX_NANOS = 0, 999_999
"""Nanoseconds below the millisecond that absent fields mean: any part of it (TimestampStatisticsImpl)."""

_NANOS = "minimum_nanos", "maximum_nanos"
_WORD = 2**64 - 1
_INT32, _INT64 = range(-(2**31), 2**31), range(-(2**63), 2**63)

_TYPED_FIELD = {
    Kind.BOOLEAN: "bucket_statistics",
    **dict.fromkeys((Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG), "int_statistics"),
    **dict.fromkeys((Kind.FLOAT, Kind.DOUBLE), "double_statistics"),
    **dict.fromkeys(STRING_KINDS, "string_statistics"),
    Kind.BINARY: "binary_statistics",
    Kind.DECIMAL: "decimal_statistics",
    Kind.DATE: "date_statistics",
    **dict.fromkeys(TIMESTAMP_KINDS, "timestamp_statistics"),
}
"""The typed message of each kind. LIST, MAP, STRUCT and UNION have counts only."""

_ALL_TYPED = (*sorted(set(_TYPED_FIELD.values())), "collection_statistics")

_Instant: TypeAlias = tuple[int, int]
"""A point in UTC: milliseconds since 1970, and the nanoseconds (0 to 999,999) after them."""

_Decimal: TypeAlias = tuple[int, int]
"""The number unscaled / 10**scale, as unscaled and scale (not below 0)."""


def stripe_statistics_are_true(tail: Tail, number: int) -> bool:
    """Return whether a stripe of a file has statistics that may be believed.

    Hive 3.1's minor compaction writes stride 0 and false statistics: no values, no bounds. So the stride must be above
    0 and the root column's number of values must be the number of rows. More values than a stripe can have are damage,
    and would not fit the counts of a whole file.
    """
    columns = tail.stripe_statistics[number] if tail.stripe_statistics else ()
    if not columns or tail.stride == 0 or any(column.number_of_values > MAX_SLOTS for column in columns):
        return False
    return bool(columns[0].HasField("number_of_values") and columns[0].number_of_values == tail.stripes[number].rows)


_VALUE_BYTES = {
    **dict.fromkeys((Kind.BOOLEAN, Kind.UNION), 1),
    **dict.fromkeys(TIMESTAMP_KINDS, 16),
    Kind.DECIMAL: 24,
    Kind.STRUCT: 0,
}
"""Of `Column` for a value of a kind, without its text or elements; 8 for other kinds."""


def decoded_size(node: TypeNode, statistics: Sequence[Any], slots: int) -> int:
    """Return about how many bytes a stripe's column takes with all below it once it is decoded, by true statistics.

    Texts are counted at each value, as a dictionary may not keep them; nulls of what is nested are not counted.
    """
    width = 1 + _VALUE_BYTES.get(node.kind, 8)
    is_text = node.kind in STRING_KINDS
    if not (is_text or node.children or node.kind is Kind.BINARY):
        return slots * width
    stats = statistics[node.column]
    size = slots * width
    if is_text:
        size += max(0, stats.string_statistics.sum)
    elif node.kind is Kind.BINARY:
        size += max(0, stats.binary_statistics.sum)
    for child in node.children:
        size += decoded_size(child, statistics, int(statistics[child.column].number_of_values))
    return size


def integer_range(stats: Any) -> tuple[int, int] | None:
    """Return minimum and maximum of an integer column's statistics, or None unless it has both."""
    typed = stats.int_statistics
    return (typed.minimum, typed.maximum) if stats.number_of_values and _has_bounds(typed) else None


def group_statistics(
    column: Column, node: TypeNode, slot_bounds: Longs, bounds: Longs, *, reader: Reader, timezone: str
) -> list[Any]:
    """Return a ColumnStatistics message for each row group, of this column alone and not of its children.

    column       strings in dictionary form as `canonical` returns them
    slot_bounds  int64, G + 1 ascending slot numbers: the start of each group and the end of the last, nulls counted
    bounds       the same among the present values
    timezone     the writer's, canonical

    Every message has number_of_values and has_null. It has the typed message when the group has values and all of that
    is known; for BOOLEAN and BINARY, which have no bounds, always.
    """
    messages = [
        ColumnStatistics(number_of_values=values, has_null=values < slots)
        for values, slots in zip(np.diff(bounds).tolist(), np.diff(slot_bounds).tolist(), strict=True)
    ]
    kind = column.kind
    if kind is Kind.BOOLEAN:
        for message, (first, end) in zip(messages, pairwise(bounds.tolist()), strict=True):
            message.bucket_statistics.count.append(int(np.count_nonzero(column.values[first:end])))
    elif kind is Kind.BINARY:
        for message, total in zip(messages, np.diff(offsets_of(column.lengths)[bounds]).tolist(), strict=True):
            message.binary_statistics.sum = total
    elif kind is Kind.BYTE or kind in INTEGER_KINDS:
        values = column.values.view(np.int8).astype(np.int64) if kind is Kind.BYTE else column.values
        for message, (least, most, low, high) in _filled(messages, group_stats.integer_groups(values, bounds)):
            if kind is not Kind.DATE:
                _set_integers(message.int_statistics, least, most, (high << 32) + low)
            elif least in _INT32 and most in _INT32:
                message.date_statistics.minimum, message.date_statistics.maximum = least, most
    elif kind in (Kind.FLOAT, Kind.DOUBLE):
        with np.errstate(invalid="ignore"):  # widening a signalling NaN
            reals = column.values.view(np.float32 if kind is Kind.FLOAT else np.float64).astype(np.float64, copy=False)
        for message, (least, most, total) in _filled(messages, group_stats.double_groups(reals, bounds)):
            if not math.isnan(least):
                _set_doubles(message.double_statistics, least, most, total)
    elif kind in STRING_KINDS:
        _strings(messages, column, bounds)
    elif kind is Kind.DECIMAL:
        _decimals(messages, column, node, bounds)
    elif kind in TIMESTAMP_KINDS and (kind is Kind.TIMESTAMP_INSTANT or timezone == "UTC"):
        table = group_stats.timestamp_groups(column.values, column.secondary, bounds)
        for message, (low, low_nanos, high, high_nanos, unknown) in _filled(messages, table):
            if not unknown:
                _set_timestamps(message.timestamp_statistics, (low, low_nanos), (high, high_nanos), reader)
    return messages


def _filled(messages: list[Any], table: NDArray[Any]) -> Iterator[tuple[Any, Any]]:
    """Return the messages of groups that have values, each with its row of a table."""
    return ((message, row) for message, row in zip(messages, table.tolist(), strict=True) if message.number_of_values)


def _strings(messages: list[Any], column: Column, bounds: Longs) -> None:
    if column.dictionary is None:
        data = column.data
        table = group_stats.string_groups(column.lengths, data, bounds)
    else:
        # the order of entries is that of their bytes
        offsets, data = column.dictionary.offsets, column.dictionary.data
        least, most = group_stats.integer_groups(column.values, bounds)[:, :2].T
        lengths = np.append(np.diff(offsets), 0)  # an entry 0 for groups without values, where there may be none
        sums = [lengths[column.values[first:end]].sum() for first, end in pairwise(bounds.tolist())]
        table = np.stack((offsets[least], lengths[least], offsets[most], lengths[most], sums), axis=1)
    for message, (low, low_length, high, high_length, total) in _filled(messages, table):
        if max(low_length, high_length) > _MAX_STRING_BOUND:
            continue
        minimum, maximum = data[low : low + low_length].tobytes(), data[high : high + high_length].tobytes()
        if _compares_alike(minimum) and _compares_alike(maximum):
            typed = message.string_statistics
            typed.minimum, typed.maximum, typed.sum = minimum, maximum, total


def _compares_alike(bound: bytes) -> bool:
    """Return whether Java compares this bound with every literal in the order of their bytes.

    Java compares search literals with bounds as UTF-16 strings (RecordReaderImpl.getBaseObjectForComparison). That
    differs from the order of bytes where a character from U+E000 to U+FFFF meets one beyond, and where bytes are not
    UTF-8 and are replaced; a bound with such characters makes readers skip rows that match.
    """
    try:
        text = bound.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return not text or max(text) < "\ue000"


def _decimals(messages: list[Any], column: Column, node: TypeNode, bounds: Longs) -> None:
    high = NO_VALUES if column.high is None else column.high
    tables, counts = group_stats.decimal_groups(column.values, high, column.secondary, bounds)
    # readers round a value of more digits to the column's scale, so the stored value is no bound
    most_digits = node.scale if node.precision else group_stats.SCALES
    for message, table, count in zip(messages, tables, counts, strict=True):
        scales = np.flatnonzero(count).tolist()
        if not scales or count[0] < 0 or scales[-1] > most_digits:
            continue
        lows, highs, sums = [], [], []
        for scale in scales:
            low, low_top, high_bottom, high_top, *parts = table[scale].tolist()
            lows.append(((low_top << 64) + (low & _WORD), scale))
            highs.append(((high_top << 64) + (high_bottom & _WORD), scale))
            sums.append((sum(part << (32 * place) for place, part in enumerate(parts)), scale))
        _set_decimals(message.decimal_statistics, lows, highs, sums)


def merge_statistics(parts: Sequence[Any], node: TypeNode, *, reader: Reader) -> Any:
    """Return statistics of a stripe from its row groups', or of a file from its stripes'.

    A part without has_null may have nulls, as Java reads it. If any part with values lacks the typed message or a bound
    in it, the whole has no typed message. Sums that overflow are left out. Sizes on disk and numbers of children are
    not carried over.

    Timestamps: for Hive 4 absent nanoseconds mean 0 and 999,999 as in Java. For Hive 3 a maximum without nanoseconds
    stays unchanged: the engine's own are rounded up already.
    """
    nulls = any(not part.HasField("has_null") or part.has_null for part in parts)
    merged = ColumnStatistics(number_of_values=sum(part.number_of_values for part in parts), has_null=nulls)
    name = _TYPED_FIELD.get(node.kind)
    if name is None or any(not part.HasField("number_of_values") for part in parts):
        return merged
    filled = [part for part in parts if part.number_of_values]
    if not filled:
        # counts and sums of 0, but no message whose bounds would be missing
        if node.kind is Kind.BOOLEAN:
            merged.bucket_statistics.count.append(0)
        elif node.kind is Kind.BINARY:
            merged.binary_statistics.sum = 0
    elif all(part.HasField(name) for part in filled):
        _merge_typed(getattr(merged, name), name, [getattr(part, name) for part in filled], reader)
    return merged


def _merge_typed(merged: Any, name: str, typed: list[Any], reader: Reader) -> None:
    if name == "bucket_statistics":
        if all(part.count for part in typed) and (count := sum(part.count[0] for part in typed)) in _INT64:
            merged.count.append(count)
        return
    if name == "timestamp_statistics":
        if all(part.HasField("minimum_utc") and part.HasField("maximum_utc") for part in typed):
            instants = [_instants(part, reader) for part in typed]
            least, most = min(low for low, _ in instants), max(high for _, high in instants)
            _set_timestamps(merged, least, most, reader)
        return
    if name == "string_statistics":
        _merge_strings(merged, typed, reader)
        return
    has_sum = name != "date_statistics" and all(part.HasField("sum") for part in typed)
    if name == "binary_statistics":
        if has_sum and (total := sum(part.sum for part in typed)) in _INT64:
            merged.sum = total
        return
    if not all(map(_has_bounds, typed)):
        return
    if name == "decimal_statistics":
        lows, highs, sums = (
            [parse_decimal(getattr(part, of)) for part in typed] for of in ("minimum", "maximum", "sum")
        )
        _set_decimals(merged, lows, highs, sums if has_sum else [])
        return
    low, high = min(part.minimum for part in typed), max(part.maximum for part in typed)
    if name == "date_statistics":
        merged.minimum, merged.maximum = low, high
    elif name == "int_statistics":
        _set_integers(merged, low, high, sum(part.sum for part in typed) if has_sum else None)
    elif not any(map(_has_nan, typed)):
        # sum() depends on Python's version
        added = functools.reduce(operator.add, [part.sum for part in typed]) if has_sum else None
        _set_doubles(merged, low, high, added)


def _merge_strings(merged: Any, typed: list[Any], reader: Reader) -> None:
    lowers = [(bound, not part.HasField("minimum")) for part in typed if (bound := _lower(part)) is not None]
    uppers = [(bound, part.HasField("maximum")) for part in typed if (bound := _upper(part)) is not None]
    if min(len(lowers), len(uppers)) < len(typed) or (reader == 3 and not all(map(_has_bounds, typed))):
        return
    low, low_is_cut = min(lowers)  # of equal bounds an exact one, for readers take a cut bound as exclusive
    high, high_is_exact = max(uppers)
    if max(len(low), len(high)) > _MAX_STRING_BOUND:
        return
    setattr(merged, "lower_bound" if low_is_cut else "minimum", low)
    setattr(merged, "maximum" if high_is_exact else "upper_bound", high)
    total = sum(part.sum for part in typed)
    if all(part.HasField("sum") for part in typed) and total in _INT64:
        merged.sum = total


def copied_statistics(stats: Any, node: TypeNode, *, reader: Reader) -> Any:
    """Return a copied stripe's own statistics, less those that would mislead the target's readers.

    Dropped is a typed message of another kind; and, where there are values, a message without both bounds, with NaN,
    with decimals that are no numbers, with timestamps in local time only, and for Hive 3 with cut string bounds. For
    Hive 3 a timestamp maximum with nanoseconds is rounded up and the nanosecond fields go; a maximum without them
    stays, like the row index inside the stripe. All other fields stay the same.
    """
    copied = ColumnStatistics()
    copied.CopyFrom(stats)
    typed_name = _TYPED_FIELD.get(node.kind, "collection_statistics")
    for name in _ALL_TYPED:
        if name != typed_name:
            copied.ClearField(name)
    typed = getattr(copied, typed_name)
    if not copied.HasField(typed_name) or typed_name == "collection_statistics":
        return copied
    if not _is_usable(copied, typed_name, reader):
        copied.ClearField(typed_name)
    elif typed_name == "timestamp_statistics" and reader == 3 and any(map(typed.HasField, _NANOS)):
        least, most = _instants(typed, reader)
        typed.Clear()
        _set_timestamps(typed, least, most, reader)
    return copied


def _is_usable(stats: Any, name: str, reader: Reader) -> bool:
    typed = getattr(stats, name)
    if name == "bucket_statistics":  # Java ORC 1.5 fails on a message without the count, values or not
        return len(typed.count) > 0
    if not stats.number_of_values or name == "binary_statistics":
        return True
    if name == "string_statistics":
        return _has_bounds(typed) or (reader == 4 and _lower(typed) is not None and _upper(typed) is not None)
    if name == "timestamp_statistics":
        return bool(typed.HasField("minimum_utc") and typed.HasField("maximum_utc"))
    if not _has_bounds(typed):
        return False
    if name == "double_statistics":
        return not _has_nan(typed)
    if name == "decimal_statistics":
        return parse_decimal(typed.minimum) is not None and parse_decimal(typed.maximum) is not None
    return True


def _has_bounds(typed: Any) -> bool:
    return bool(typed.HasField("minimum") and typed.HasField("maximum"))


def _has_nan(typed: Any) -> bool:
    return any(map(math.isnan, (typed.minimum, typed.maximum, typed.sum)))


def _lower(typed: Any) -> bytes | None:
    name = "minimum" if typed.HasField("minimum") else "lower_bound"
    return getattr(typed, name) if typed.HasField(name) else None


def _upper(typed: Any) -> bytes | None:
    name = "maximum" if typed.HasField("maximum") else "upper_bound"
    return getattr(typed, name) if typed.HasField(name) else None


def _instants(typed: Any, reader: Reader) -> tuple[_Instant, _Instant]:
    low, high = _MIN_NANOS, _MAX_NANOS
    if 1 <= typed.minimum_nanos <= 1_000_000:
        low = typed.minimum_nanos - 1
    if 1 <= typed.maximum_nanos <= 1_000_000:
        high = typed.maximum_nanos - 1
    elif reader == 3 and not typed.HasField("maximum_nanos"):
        high = 0
    return (typed.minimum_utc, low), (typed.maximum_utc, high)


def _set_integers(typed: Any, minimum: int, maximum: int, total: int | None) -> None:
    """Fill IntegerStatistics. A total that does not fit 64 bits, or None, is left out (Java marks it as overflow)."""
    typed.minimum = minimum
    typed.maximum = maximum
    if total is not None and total in _INT64:
        typed.sum = total


def _set_doubles(typed: Any, minimum: float, maximum: float, total: float | None) -> None:
    """Fill DoubleStatistics. A zero becomes -0.0 as minimum and 0.0 as maximum; a total that is not finite is left out.

    Java compares with Double.compareTo, to which -0.0 is less than 0.0, while SQL and the writers hold them equal:
    with both bounds widened no reader skips either zero.
    """
    typed.minimum = -0.0 if minimum == 0 else minimum
    typed.maximum = 0.0 if maximum == 0 else maximum
    if total is not None and math.isfinite(total):
        typed.sum = total


def _set_timestamps(typed: Any, least: _Instant, most: _Instant, reader: Reader) -> None:
    """Fill TimestampStatistics with UTC bounds.

    Generation 4 keeps nanoseconds as Java's TimestampStatisticsImpl does: value + 1, its defaults left out. Java ORC
    1.5 reads milliseconds only and compares a literal with the maximum cut to them, so for Hive 3 a maximum with
    digits below becomes the next millisecond.
    """
    typed.minimum_utc, low_nanos = least
    millis, high_nanos = most
    if reader == 3:
        typed.maximum_utc = min(millis + (1 if high_nanos else 0), _INT64[-1])  # no literal is above that
        return
    typed.maximum_utc = millis
    if low_nanos != _MIN_NANOS:
        typed.minimum_nanos = low_nanos + 1
    if high_nanos != _MAX_NANOS:
        typed.maximum_nanos = high_nanos + 1


def _set_decimals(
    typed: Any, lows: Sequence[_Decimal | None], highs: Sequence[_Decimal | None], sums: Sequence[_Decimal | None]
) -> None:
    """Fill DecimalStatistics, unless a bound is unknown; without `sums`, or where one is unknown, with no sum."""
    least, most, total = _decimal_of(lows, min), _decimal_of(highs, max), _decimal_of(sums, sum)
    if least is not None and most is not None:
        typed.minimum, typed.maximum = least, most
        if total is not None:
            typed.sum = total


def _decimal_of(numbers: Sequence[_Decimal | None], choose: Callable[[list[int]], int]) -> str | None:
    """Return minimum, maximum or sum of numbers, exactly; None when one is unknown or the result has over 38 digits."""
    known = [number for number in numbers if number is not None]
    if not known or len(known) < len(numbers):
        return None
    scale = max(scale for _, scale in known)
    return decimal_text(choose([unscaled * 10 ** (scale - own) for unscaled, own in known]), scale)


def decimal_text(unscaled: int, scale: int) -> str | None:
    """Return the number unscaled / 10**scale as Java's HiveDecimal.toString has it, or None beyond 38 digits.

    Plain notation without trailing zeros after the point; "0" for zero.
    """
    if unscaled == 0:
        return "0"
    digits = str(abs(unscaled))
    trimmed = min(len(digits) - len(digits.rstrip("0")), scale)
    digits = digits[: len(digits) - trimmed]
    scale -= trimmed
    if len(digits) > _MAX_DECIMAL_DIGITS or scale > _MAX_DECIMAL_DIGITS:
        return None
    if scale:
        digits = digits.rjust(scale + 1, "0")
        digits = f"{digits[:-scale]}.{digits[-scale:]}"
    return f"-{digits}" if unscaled < 0 else digits


def parse_decimal(text: str) -> _Decimal | None:
    """Return a decimal statistic as unscaled value and scale, or None when it is no number Java would hold."""
    try:
        sign, digits, exponent = Decimal(text).as_tuple()
    except (InvalidOperation, TypeError):  # text that is no UTF-8 comes as bytes
        return None
    if (
        not isinstance(exponent, int)
        or abs(exponent) > 2 * _MAX_DECIMAL_DIGITS
        or len(digits) > 3 * _MAX_DECIMAL_DIGITS
    ):
        return None
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    return (unscaled * 10**exponent, 0) if exponent > 0 else (unscaled, -exponent)
