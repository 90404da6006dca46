"""Skipping files and stripes in which no row matches a predicate, by partition keys and statistics in ORC's footers.

Statistics have no checksum, and writers differ. What is believed:

- nothing of a file without row index, or whose root column has another number of values than rows: minor compactions of
  Hive 3.1 write such statistics (`stripe_statistics_are_true`);
- a column has no nulls only if the count of its values and the flag say so, and only nulls if both say so;
- floating point bounds only beside a sum that is a number: Java's bounds pass over NaN, and over all values after one
  that comes first;
- bounds of texts only in characters whose order is the same in UTF-8 and in UTF-16, in which some writers compare; and
  above an upper bound that is not ASCII any other text that is not, for bytes that are no UTF-8 are shown as U+FFFD;
- bounds of timestamps in UTC only, and a day wider: zone rules of writers and readers differ by hours;
- bounds of dates and timestamps from 1582-10-15 on: before that files have two calendars;
- bounds of decimals rounded outward to the column's scale, as readers round values of more digits.

A column whose values are converted from another type has no bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, localcontext
from itertools import takewhile
from typing import Any

from acidlib.orc.alignment import Alignment
from acidlib.orc.columns import INTEGER_KINDS, STRING_KINDS, TIMESTAMP_KINDS
from acidlib.orc.proto import GREGORIAN_START_DAYS, Kind
from acidlib.orc.reader import Tail
from acidlib.orc.schema import TypeNode
from acidlib.orc.statistics import parse_decimal, stripe_statistics_are_true
from acidlib.scan.predicate import Bounds, Predicate

_UNKNOWN = Bounds()
_NULLS = Bounds(all_null=True)
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)
_DAY_MILLIS = 86_400_000
_WIDER = timedelta(days=1)
_MAX_DIGITS = 38


def partition_bounds(values: Mapping[str, Any]) -> dict[str, Bounds]:
    """Return the bounds of partition keys, by their lower-case names, of their values in one partition.

    A TIMESTAMP has them a day wider, for Spark compares it in the zone of the session.
    """
    return {name.lower(): _NULLS if value is None else _only(value) for name, value in values.items()}


def _only(value: Any) -> Bounds:
    if isinstance(value, datetime) and value.tzinfo is None:
        try:
            return Bounds(low=value - _WIDER, high=value + _WIDER, has_nulls=False)
        except OverflowError:
            return Bounds(has_nulls=False)
    return Bounds(low=value, high=value, has_nulls=False)


def file_may_match(
    predicate: Predicate, tail: Tail, columns: Mapping[str, Alignment], partition: Mapping[str, Bounds]
) -> bool:
    """Return False only if no row of a file matches.

    columns    the alignments of the table's columns with the file's, by lower-case name; a column of the predicate that
               is not among them or the partition keys may hold anything
    partition  as `partition_bounds` returns them
    """
    statistics = tail.file_statistics if _file_statistics_are_true(tail) else ()
    return predicate.may_match(_bounds(predicate, statistics, tail.rows, columns, partition))


def stripe_may_match(
    predicate: Predicate, tail: Tail, number: int, columns: Mapping[str, Alignment], partition: Mapping[str, Bounds]
) -> bool:
    """Return False only if no row of a stripe matches; arguments as of `file_may_match`."""
    statistics = tail.stripe_statistics[number] if stripe_statistics_are_true(tail, number) else ()
    return predicate.may_match(_bounds(predicate, statistics, tail.stripes[number].rows, columns, partition))


def _file_statistics_are_true(tail: Tail) -> bool:
    """Return whether a file's own statistics may be believed, as `stripe_statistics_are_true` does of a stripe's."""
    if not tail.file_statistics or tail.stride == 0:
        return False
    root = tail.file_statistics[0]
    return bool(root.HasField("number_of_values") and root.number_of_values == tail.rows)


def _bounds(
    predicate: Predicate,
    statistics: Sequence[Any],
    rows: int,
    columns: Mapping[str, Alignment],
    partition: Mapping[str, Bounds],
) -> dict[str, Bounds]:
    """Return what is known of the predicate's columns; `statistics` is empty where they are not believed."""
    known = {name: partition[name] for name in predicate.columns & partition.keys()}
    for name in predicate.columns & columns.keys() - partition.keys():
        source = columns[name].source
        if source is None:
            known[name] = _NULLS
        elif statistics and columns[name].converted is None:
            known[name] = column_bounds(statistics[source.column], source, rows)
    return known


def column_bounds(stats: Any, node: TypeNode, rows: int) -> Bounds:
    """Return what a ColumnStatistics message says of a column of so many rows, as far as it is believed.

    Values are those of the column's Arrow type, a CHAR as it is stored.
    """
    if not stats.HasField("number_of_values"):
        return _UNKNOWN
    is_flagged = stats.HasField("has_null") and stats.has_null
    is_cleared = stats.HasField("has_null") and not stats.has_null
    if stats.number_of_values == 0 and rows and is_flagged:
        return _NULLS
    bounds = Bounds(has_nulls=not (is_cleared and stats.number_of_values == rows))
    if stats.number_of_values == 0:
        return bounds
    low, high = _typed_bounds(stats, node)
    if low is not None and high is not None and low > high:
        return bounds
    overflows = node.kind is Kind.DECIMAL and any(_has_too_many_digits(node, bound) for bound in (low, high))
    return replace(bounds, low=low, high=high, has_nulls=bounds.has_nulls or overflows)


def _typed_bounds(stats: Any, node: TypeNode) -> tuple[Any, Any]:
    """Return the bounds of a column with values, None for those that are not believed."""
    kind = node.kind
    if kind is Kind.BOOLEAN:
        count = stats.bucket_statistics.count
        return (count[0] == stats.number_of_values, count[0] > 0) if count else (None, None)
    if kind is Kind.DATE:
        return _dates(*_stated(stats.date_statistics, "minimum", "maximum"))
    if kind is Kind.BYTE or kind in INTEGER_KINDS:
        return _stated(stats.int_statistics, "minimum", "maximum")
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        typed = stats.double_statistics
        if not typed.HasField("sum") or math.isnan(typed.sum):
            return None, None
        return _stated(typed, "minimum", "maximum")
    if kind in STRING_KINDS:
        return _texts(stats.string_statistics, node)
    if kind is Kind.DECIMAL and node.precision:
        return _decimals(*_stated(stats.decimal_statistics, "minimum", "maximum"), node.scale)
    if kind in TIMESTAMP_KINDS:
        low, high = _stated(stats.timestamp_statistics, "minimum_utc", "maximum_utc")
        return _timestamps(low, high, has_zone=kind is Kind.TIMESTAMP_INSTANT)
    return None, None


def _stated(typed: Any, low: str, high: str) -> tuple[Any, Any]:
    stated = [getattr(typed, name) if typed.HasField(name) else None for name in (low, high)]
    return stated[0], stated[1]


def _texts(typed: Any, node: TypeNode) -> tuple[str | None, str | None]:
    """Return the bounds of texts; writers that cut a long one say so by another field, whose value is a bound, too."""
    low, high = _stated(typed, "minimum", "maximum")
    shorter, longer = _stated(typed, "lower_bound", "upper_bound")
    bounds = [low if shorter is None else shorter, high if longer is None else longer]
    try:
        texts = [None if bound is None else bound.decode() for bound in bounds]
    except UnicodeDecodeError:
        return None, None
    if any(text and max(text) >= "\ue000" for text in texts):
        return None, None
    if texts[0] is not None and node.kind is not Kind.STRING:
        texts[0] = texts[0][: node.maximum_length]  # readers cut a longer value, which may then lie below
    if texts[1] is not None and not texts[1].isascii():
        # readers show bytes that are no UTF-8 as U+FFFD, and they may lie below this bound
        texts[1] = "".join(takewhile(str.isascii, texts[1])) + "\uffff"
    return texts[0], texts[1]


def _dates(low: int | None, high: int | None) -> tuple[date | None, date | None]:
    if low is None or low < GREGORIAN_START_DAYS:
        low = None
    if high is not None and high < GREGORIAN_START_DAYS:
        high = None
    return _date(low), _date(high)


def _date(days: int | None) -> date | None:
    ordinal = 0 if days is None else days + _EPOCH_ORDINAL
    return date.fromordinal(ordinal) if 1 <= ordinal <= date.max.toordinal() else None


def _timestamps(low: int | None, high: int | None, *, has_zone: bool) -> tuple[datetime | None, datetime | None]:
    start = (GREGORIAN_START_DAYS + 1) * _DAY_MILLIS
    bounds = [
        None if millis is None or millis < start else _datetime(millis, wider)
        for millis, wider in ((low, -_WIDER), (high, _WIDER))
    ]
    if has_zone:
        bounds = [None if bound is None else bound.replace(tzinfo=UTC) for bound in bounds]
    return bounds[0], bounds[1]


def _datetime(millis: int, wider: timedelta) -> datetime | None:
    try:
        return _EPOCH + timedelta(milliseconds=millis) + wider
    except OverflowError:
        return None


def _decimals(low: str | None, high: str | None, scale: int) -> tuple[Decimal | None, Decimal | None]:
    return _outward(low, scale, up=False), _outward(high, scale, up=True)


def _outward(text: str | None, scale: int, *, up: bool) -> Decimal | None:
    """Return a bound rounded to a scale, up or down; None for a text that is no number."""
    number = None if text is None else parse_decimal(text)
    if number is None:
        return None
    unscaled, own = number
    power = 10 ** abs(scale - own)
    if own <= scale:
        rounded = unscaled * power
    else:
        rounded = -(-unscaled // power) if up else unscaled // power
    with localcontext(Context(prec=8 * _MAX_DIGITS)):
        return Decimal(rounded).scaleb(-scale)


def _has_too_many_digits(node: TypeNode, bound: Decimal | None) -> bool:
    """Return whether a bound does not fit its column: readers have null for such a value."""
    return bound is None or abs(bound) >= Decimal(10) ** (node.precision - node.scale)
