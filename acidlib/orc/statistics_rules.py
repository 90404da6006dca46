"""What column statistics may say to which readers: the rules that computed, merged and copied statistics share.

Readers skip rows by statistics, so a statistic that is not certain is left out, and always the whole typed message:
Java ORC 1.5 takes a message without minimum for a column of nulls and skips live rows (RecordReaderImpl.getMin,
evaluatePredicateRange).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from acidlib.orc.proto import Kind

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
