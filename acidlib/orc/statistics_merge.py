"""Merging the statistics of row groups and stripes, and fitting those of copied stripes to their readers.

Parts may come from files of any writer: Java, C++, Trino. What one of them leaves out is unknown for the whole.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from acidlib.orc.proto import ColumnStatistics, Kind
from acidlib.orc.schema import TypeNode
from acidlib.orc.statistics import (
    ALL_TYPED,
    DEFAULT_MAX_NANOS,
    DEFAULT_MIN_NANOS,
    INT64,
    MAX_STRING_BOUND,
    TYPED_FIELD,
    Instant,
    StatisticsRules,
    decimal_text,
    parse_decimal,
    set_counts,
    set_doubles,
    set_integers,
    set_timestamps,
)


def merge_statistics(parts: Sequence[Any], node: TypeNode, *, rules: StatisticsRules) -> Any:
    """Statistics of a stripe from its row groups', or of a file from its stripes'.

    A part without has_null may have nulls, as Java reads it. If any part with values lacks the typed message or a bound
    in it, the whole has no typed message. Sums that overflow are left out. Sizes on disk and numbers of children are
    not carried over.

    Timestamps: for generation 4 absent nanoseconds mean 0 and 999,999 as in Java. For generation 3 a maximum without
    nanoseconds stands as it is: those computed here are rounded up already.
    """
    merged = ColumnStatistics()
    nulls = any(not part.HasField("has_null") or part.has_null for part in parts)
    set_counts(merged, sum(part.number_of_values for part in parts), has_null=nulls)
    name = TYPED_FIELD.get(node.kind)
    if name is None or any(not part.HasField("number_of_values") for part in parts):
        return merged
    filled = [part for part in parts if part.number_of_values]
    if not filled:
        _set_empty(merged, node.kind)
    elif all(part.HasField(name) for part in filled):
        _merge_typed(merged, name, [getattr(part, name) for part in filled], rules)
    return merged


def copied_statistics(stats: Any, node: TypeNode, *, rules: StatisticsRules, source_is_trusted: bool = True) -> Any:
    """A copied stripe's own statistics as the target's readers may see them; otherwise field for field the same.

    Dropped: a typed message of another kind; where there are values, one without both bounds, with NaN, with decimals
    that are no numbers, with timestamps in local time only, and for generation 3 one with cut string bounds. For
    generation 3 a timestamp maximum with nanoseconds is rounded up and the nanosecond fields go; one without them
    stands as it is, like the row index inside the stripe.

    source_is_trusted  False drops the typed message and keeps the counts, which must be true
    """
    copied = ColumnStatistics()
    copied.CopyFrom(stats)
    wanted = TYPED_FIELD.get(node.kind, "collection_statistics")
    for name in ALL_TYPED:
        if name != wanted or not source_is_trusted:
            copied.ClearField(name)
    if not copied.HasField(wanted) or wanted == "collection_statistics":
        return copied
    if not _is_usable(copied, wanted, rules):
        copied.ClearField(wanted)
    elif wanted == "timestamp_statistics" and rules.generation == 3:
        _round_up(copied.timestamp_statistics, rules)
    return copied


def copied_columns(statistics: Sequence[Any], nodes: Iterable[TypeNode], *, rules: StatisticsRules) -> list[Any]:
    """`copied_statistics` of every column of a stripe; `nodes` are theirs."""
    return [copied_statistics(found, node, rules=rules) for found, node in zip(statistics, nodes, strict=True)]


def _is_usable(stats: Any, name: str, rules: StatisticsRules) -> bool:
    typed = getattr(stats, name)
    if name == "bucket_statistics":  # Java ORC 1.5 fails on a message without the count, values or not
        return len(typed.count) > 0
    if not stats.number_of_values or name == "binary_statistics":
        return True
    if name == "string_statistics":
        return _has_bounds(typed) or (rules.generation == 4 and _lower(typed) is not None and _upper(typed) is not None)
    if name == "timestamp_statistics":
        return bool(typed.HasField("minimum_utc") and typed.HasField("maximum_utc"))
    if not _has_bounds(typed):
        return False
    if name == "double_statistics":
        return not _has_nan(typed)
    if name == "decimal_statistics":
        return parse_decimal(typed.minimum) is not None and parse_decimal(typed.maximum) is not None
    return True


def _round_up(typed: Any, rules: StatisticsRules) -> None:
    if typed.HasField("minimum_nanos") or typed.HasField("maximum_nanos"):
        least, most = _instants(typed, rules)
        typed.Clear()
        set_timestamps(typed, least, most, rules)


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


def _instants(typed: Any, rules: StatisticsRules) -> tuple[Instant, Instant]:
    low, high = DEFAULT_MIN_NANOS, DEFAULT_MAX_NANOS
    if 1 <= typed.minimum_nanos <= 1_000_000:
        low = typed.minimum_nanos - 1
    if 1 <= typed.maximum_nanos <= 1_000_000:
        high = typed.maximum_nanos - 1
    elif rules.generation == 3 and not typed.HasField("maximum_nanos"):
        high = 0
    return Instant(millis=typed.minimum_utc, nanos=low), Instant(millis=typed.maximum_utc, nanos=high)


def _set_empty(merged: Any, kind: Kind) -> None:
    """What a column without values has: counts and sums of 0, but no message whose bounds would be missing."""
    if kind is Kind.BOOLEAN:
        merged.bucket_statistics.count.append(0)
    elif kind is Kind.BINARY:
        merged.binary_statistics.sum = 0


def _merge_booleans(merged: Any, typed: list[Any]) -> None:
    total = sum(part.count[0] for part in typed if part.count)
    if all(part.count for part in typed) and total in INT64:
        merged.bucket_statistics.count.append(total)


def _merge_integers(merged: Any, typed: list[Any]) -> None:
    if all(map(_has_bounds, typed)):
        total = sum(part.sum for part in typed) if all(part.HasField("sum") for part in typed) else None
        low, high = min(part.minimum for part in typed), max(part.maximum for part in typed)
        set_integers(merged.int_statistics, low, high, total)


def _merge_dates(merged: Any, typed: list[Any]) -> None:
    if all(map(_has_bounds, typed)):
        merged.date_statistics.minimum = min(part.minimum for part in typed)
        merged.date_statistics.maximum = max(part.maximum for part in typed)


def _merge_doubles(merged: Any, typed: list[Any]) -> None:
    if all(map(_has_bounds, typed)) and not any(map(_has_nan, typed)):
        total: float | None = None
        if all(part.HasField("sum") for part in typed):
            total = functools.reduce(operator.add, [part.sum for part in typed])  # sum() depends on Python's version
        low, high = min(part.minimum for part in typed), max(part.maximum for part in typed)
        set_doubles(merged.double_statistics, low, high, total)


def _merge_strings(merged: Any, typed: list[Any], rules: StatisticsRules) -> None:
    lowers = [(bound, not part.HasField("minimum")) for part in typed if (bound := _lower(part)) is not None]
    uppers = [(bound, part.HasField("maximum")) for part in typed if (bound := _upper(part)) is not None]
    if min(len(lowers), len(uppers)) < len(typed) or (rules.generation == 3 and not all(map(_has_bounds, typed))):
        return
    low, low_is_cut = min(lowers)  # of equal ones the value that exists, as a reader takes a cut bound for exclusive
    high, high_is_exact = max(uppers)
    if max(len(low), len(high)) > MAX_STRING_BOUND:
        return
    setattr(merged.string_statistics, "lower_bound" if low_is_cut else "minimum", low)
    setattr(merged.string_statistics, "maximum" if high_is_exact else "upper_bound", high)
    total = sum(part.sum for part in typed)
    if all(part.HasField("sum") for part in typed) and total in INT64:
        merged.string_statistics.sum = total


def _merge_binaries(merged: Any, typed: list[Any]) -> None:
    total = sum(part.sum for part in typed)
    if all(part.HasField("sum") for part in typed) and total in INT64:
        merged.binary_statistics.sum = total


def _merge_decimals(merged: Any, typed: list[Any]) -> None:
    if not all(map(_has_bounds, typed)):
        return
    low = _decimal_of([part.minimum for part in typed], min)
    high = _decimal_of([part.maximum for part in typed], max)
    if low is None or high is None:
        return
    merged.decimal_statistics.minimum = low
    merged.decimal_statistics.maximum = high
    if all(part.HasField("sum") for part in typed):
        total = _decimal_of([part.sum for part in typed], sum)
        if total is not None:
            merged.decimal_statistics.sum = total


def _decimal_of(texts: list[str], choose: Callable[[list[int]], int]) -> str | None:
    """Minimum, maximum or sum of numbers, exactly; None when one is no number or the result has over 38 digits."""
    numbers = [number for text in texts if (number := parse_decimal(text)) is not None]
    if len(numbers) < len(texts):
        return None
    scale = max(s for _, s in numbers)
    return decimal_text(choose([unscaled * 10 ** (scale - s) for unscaled, s in numbers]), scale)


def _merge_timestamps(merged: Any, typed: list[Any], rules: StatisticsRules) -> None:
    if not all(part.HasField("minimum_utc") and part.HasField("maximum_utc") for part in typed):
        return
    instants = [_instants(part, rules) for part in typed]
    least, most = min(low for low, _ in instants), max(high for _, high in instants)
    set_timestamps(merged.timestamp_statistics, least, most, rules)


_MERGERS: dict[str, Callable[[Any, list[Any]], None]] = {
    "bucket_statistics": _merge_booleans,
    "int_statistics": _merge_integers,
    "date_statistics": _merge_dates,
    "double_statistics": _merge_doubles,
    "binary_statistics": _merge_binaries,
    "decimal_statistics": _merge_decimals,
}


def _merge_typed(merged: Any, name: str, typed: list[Any], rules: StatisticsRules) -> None:
    if name == "string_statistics":
        _merge_strings(merged, typed, rules)
    elif name == "timestamp_statistics":
        _merge_timestamps(merged, typed, rules)
    else:
        _MERGERS[name](merged, typed)
