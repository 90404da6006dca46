"""Comparisons of a column with a literal, for columns of each type, as conditions on rows.

A comparison means the same in Hive and in Spark, or is refused with a hint at how to write it so that it does. The
sources: Hive's `TypeCheckProcFactory` (it turns a literal into the column's type) and `FunctionRegistry`
(`getCommonClassForComparison`); Spark's `TypeCoercion` (it widens both sides to a common type).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from acidlib.scan.conditions import (
    ColumnOf,
    Comparison,
    Condition,
    Constant,
    IsNull,
    Like,
    Not,
    Operator,
    all_of,
    any_of,
    for_values,
    is_complex_pattern,
    is_one_of,
    split_pattern,
)


class UnsupportedError(Exception):
    """The reason for which a part of a predicate is not evaluated here."""


class LiteralKind(Enum):
    """The type of a literal, as Spark's parser sees it; integers of any width are of one kind."""

    NULL = "NULL"
    BOOLEAN = "a truth value"
    INTEGER = "a whole number"
    DECIMAL = "a decimal number"
    FLOAT = "a FLOAT"
    DOUBLE = "a DOUBLE"
    TEXT = "a text"
    DATE = "a date"
    TIMESTAMP = "a time without zone"
    INSTANT = "a time with zone"


@dataclass(frozen=True, slots=True)
class Literal:
    """A value as int, Decimal, float, str, date, datetime (of an INSTANT in UTC), bool or None.

    whole  the digits before the point of the type to which a number was cast; 0 without a cast
    """

    kind: LiteralKind
    value: Any
    whole: int = 0


NULL = Literal(LiteralKind.NULL, None)
MAX_DIGITS = 38
"""Of a DECIMAL."""

_INTEGER = re.compile(r"-?[0-9]+", re.ASCII)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?: ([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6}))?)?"
    r"(Z| ?UTC|[+-][0-9]{2}:[0-9]{2})?",
    re.ASCII,
)
_MIN_BIGINT, _MAX_BIGINT = -(2**63), 2**63 - 1
_EXACT_IN_FLOAT, _EXACT_IN_DOUBLE = 2**24, 2**53
"""The numbers up to which every whole number is a FLOAT, a DOUBLE."""


def day_of(text: str) -> date | None:
    """Return the date that is written as yyyy-mm-dd, the form that all readers understand; None for another text."""
    try:
        return date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None


def moment_of(text: str) -> datetime | None:
    """Return the time that is written as yyyy-mm-dd[ hh:mm:ss[.f]], with six digits after the point at most.

    With a zone (Z, UTC or an offset as +01:00) in UTC, otherwise naive; None for another text.
    """
    parts = _MOMENT.fullmatch(text)
    if parts is None:
        return None
    day, clock, fraction, zone = parts.groups()
    offset = "" if zone is None else "+00:00" if zone.endswith(("Z", "UTC")) else zone
    try:
        moment = datetime.fromisoformat(f"{day} {clock or '00:00:00'}.{(fraction or '').ljust(6, '0')}{offset}")
        return moment.astimezone(UTC) if zone else moment
    except (ValueError, OverflowError):
        return None


class LiteralFloor(NamedTuple):
    """The place of a literal among the values of a column: the greatest value that is not above it.

    value     None: all values are above it
    is_exact  the literal is that value
    """

    value: Any
    is_exact: bool = True


def compared(column: ColumnOf, operator: Operator, literal: Literal) -> Condition:
    """Return the condition of a comparison. Raises UnsupportedError where readers disagree on it, or do not compare."""
    _assert_comparable(column)
    if literal.kind is LiteralKind.NULL:
        return Constant(None)
    floor = floor_of(column, literal)
    if column.is_char and column.characters is not None and len(floor.value) > column.characters:
        raise UnsupportedError(f"readers disagree on texts that are longer than column {column.name}, a CHAR")
    if _has_digits(column) and literal.kind is LiteralKind.DECIMAL and _scale(literal) > _digits_of(column.type)[1]:
        _assert_one_type(column, [literal])
    return compared_at(column, operator, floor)


def compared_at(column: ColumnOf, operator: Operator, floor: LiteralFloor) -> Condition:
    """Return the condition of a comparison with a literal at this place."""
    if floor.is_exact:
        return Comparison(column, operator, floor.value)
    if operator is Operator.EQUAL:
        return for_values(column, value=False)
    below = operator in (Operator.LESS, Operator.AT_MOST)
    if floor.value is None:
        return for_values(column, value=not below)
    return Comparison(column, Operator.AT_MOST if below else Operator.GREATER, floor.value)


def same_or_both_null(column: ColumnOf, literal: Literal) -> Condition:
    """Return the condition of `column <=> literal`, which is never null; raises as `compared`."""
    if literal.kind is LiteralKind.NULL:
        return IsNull(column)
    return all_of((Not(IsNull(column)), compared(column, Operator.EQUAL, literal)))


def between(column: ColumnOf, low: Literal, high: Literal) -> Condition:
    """Return the condition of `column BETWEEN low AND high`; raises as `compared`."""
    for literal in (low, high):
        if literal.kind is LiteralKind.NULL:
            raise UnsupportedError("readers disagree on BETWEEN with NULL")
        _assert_padded_alike(column, literal)
    if pa.types.is_integer(column.type) and LiteralKind.TEXT in (low.kind, high.kind):
        raise UnsupportedError(
            "readers disagree on texts in BETWEEN beside whole numbers: write numbers without quotes"
        )
    return all_of((compared(column, Operator.AT_LEAST, low), compared(column, Operator.AT_MOST, high)))


def _assert_padded_alike(column: ColumnOf, literal: Literal) -> None:
    if column.is_char and literal.kind is LiteralKind.TEXT and literal.value.endswith(" "):
        raise UnsupportedError(
            f"readers disagree on blanks at the end of {literal.value!r} and column {column.name}, a CHAR: leave it out"
        )


def _has_digits(column: ColumnOf) -> bool:
    return bool(pa.types.is_integer(column.type) or pa.types.is_decimal(column.type))


def _assert_one_type(column: ColumnOf, literals: Sequence[Literal]) -> None:
    """Raise UnsupportedError where a column and numbers have no common type of so many digits: readers round them.

    Source: Hive `HiveDecimalUtils`, `FunctionRegistry.getCommonClassForComparison`; Spark `DecimalPrecision`.
    """
    whole, scale = _digits_of(column.type)
    for literal in literals:
        if literal.kind in (LiteralKind.DECIMAL, LiteralKind.INTEGER):
            whole = max(whole, literal.whole or whole_digits(literal.value))
            scale = max(scale, _scale(literal))
    if whole + scale > MAX_DIGITS:
        raise UnsupportedError(
            f"readers round, as column {column.name} and the numbers have {whole} digits before the point and {scale} "
            f"after it, together more than {MAX_DIGITS}"
        )


def _scale(literal: Literal) -> int:
    return max(0, -int(Decimal(literal.value).as_tuple().exponent))


def _digits_of(kind: pa.DataType) -> tuple[int, int]:
    """Return the digits of a DECIMAL or integer type before and after the point."""
    return (kind.precision - kind.scale, kind.scale) if pa.types.is_decimal(kind) else (DIGITS[kind.bit_width], 0)


DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""Of integer types by their bits, at most; of a BIGINT Spark takes one more than Hive."""


def whole_digits(value: int | Decimal) -> int:
    """Return the digits before the point of a literal's type: of a whole number those of INT, BIGINT or DECIMAL."""
    if isinstance(value, int):
        bits = next((bits for bits in (32, 64) if value.bit_length() < bits), None)
        return DIGITS[bits] if bits else len(str(abs(value)))
    return max(0, value.adjusted() + 1)


def listed(column: ColumnOf, literals: Sequence[Literal]) -> Condition:
    """Return the condition of `column IN (literals)`; raises as `compared`, and where readers widen the list.

    Spark compares all values of a list as the type that is common to them and the column.
    """
    _assert_comparable(column)
    kinds = {literal.kind for literal in literals} - {LiteralKind.NULL}
    present = [literal for literal in literals if literal.kind is not LiteralKind.NULL]
    if LiteralKind.TEXT in kinds and len(kinds) > 1:
        raise UnsupportedError("readers disagree on a list of texts and other values: write them alike")
    if LiteralKind.TEXT in kinds and pa.types.is_timestamp(column.type):
        for literal in present:
            moment = moment_of(literal.value)
            if moment is not None and literal.value != timestamp_text(moment):
                raise UnsupportedError(
                    f"readers disagree on {literal.value!r} in a list: write TIMESTAMP {literal.value!r}"
                )
    for literal in present:
        _assert_padded_alike(column, literal)
        if (
            column.characters is not None
            and literal.kind is LiteralKind.TEXT
            and len(literal.value) > column.characters
        ):
            raise UnsupportedError(f"readers disagree on texts in a list that are longer than column {column.name}")
    places = [floor_of(column, literal) for literal in present]
    has_minus_zero = pa.types.is_floating(column.type) or kinds & _EXACT_LIMITS.keys()
    if has_minus_zero and any(literal.value == 0 for literal in present):
        raise UnsupportedError(f"readers disagree on 0 and -0.0 in a list, for column {column.name}: write = 0")
    if pa.types.is_integer(column.type):
        least = min((limit for kind, limit in _EXACT_LIMITS.items() if kind in kinds), default=None)
        if least and any(abs(literal.value) >= least for literal in present):
            raise UnsupportedError("readers round whole numbers beside a FLOAT or DOUBLE in a list: write decimals")
        if present and not any(floor.is_exact for floor in places):
            raise UnsupportedError(
                f"readers disagree on nulls of column {column.name}, which can have no value of the list"
            )
    if _has_digits(column):
        _assert_one_type(column, present)
    condition = is_one_of(column, [floor.value for floor in places if floor.is_exact])
    return any_of((condition, Constant(None))) if len(present) < len(literals) else condition


_EXACT_LIMITS = {LiteralKind.FLOAT: _EXACT_IN_FLOAT, LiteralKind.DOUBLE: _EXACT_IN_DOUBLE}


def timestamp_text(moment: datetime) -> str:
    """Return the text that a TIMESTAMP has in Hive and Spark: without zeros at the end of the fraction."""
    text = moment.isoformat(" ")
    return text.rstrip("0").rstrip(".") if "." in text else text


def matched(column: ColumnOf, pattern: Literal) -> Condition:
    """Return the condition of `column LIKE pattern`; raises as `compared`."""
    if not pa.types.is_string(column.type):
        raise UnsupportedError(f"LIKE is for texts, and column {column.name} is {type_name(column)}")
    if pattern.kind is LiteralKind.NULL:
        return Constant(None)
    if pattern.kind is not LiteralKind.TEXT:
        raise UnsupportedError(f"the pattern of LIKE is {pattern.kind.value}: write it in quotes")
    if re.search(r"\\(?![%_])", re.sub(r"\\[%_]", "", pattern.value)):
        raise UnsupportedError("readers disagree on a backslash before another sign than % and _ in a pattern of LIKE")
    if max(pattern.value, default="") > "\uffff" and is_complex_pattern(pattern.value):
        raise UnsupportedError(
            "readers disagree on characters beyond U+FFFF in a pattern of LIKE: use 'beginning%', '%end' or '%part%'"
        )
    prefix, rest = split_pattern(pattern.value)
    if column.is_char and (rest != "%" or prefix.endswith(" ")):
        raise UnsupportedError(
            f"readers disagree on the blanks at the end of column {column.name}, a CHAR: use LIKE 'beginning%'"
        )
    return Like(column, pattern.value)


def floor_of(column: ColumnOf, literal: Literal) -> LiteralFloor:
    """Return the place of a literal that is not NULL among a column's values; raises as `compared`."""
    kind, value, types = column.type, literal.value, pa.types
    if types.is_boolean(kind) and literal.kind is LiteralKind.BOOLEAN:
        return LiteralFloor(value)
    if types.is_integer(kind):
        return _among_integers(column, literal)
    if types.is_floating(kind):
        return _among_floats(column, literal)
    if types.is_decimal(kind) and literal.kind in (LiteralKind.INTEGER, LiteralKind.DECIMAL):
        return among_decimals(kind, Decimal(value))
    if types.is_string(kind) and literal.kind is LiteralKind.TEXT:
        return LiteralFloor(value.rstrip(" ") if column.is_char else value)
    if types.is_date(kind):
        return _among_dates(column, literal)
    if types.is_timestamp(kind):
        return _among_timestamps(column, literal)
    hint = ""
    if types.is_string(kind) and literal.kind in (LiteralKind.INTEGER, LiteralKind.DECIMAL):
        hint = f": write '{value}'"
    if types.is_decimal(kind) and literal.kind in (LiteralKind.TEXT, LiteralKind.FLOAT, LiteralKind.DOUBLE):
        hint = ": write a number without quotes and exponent"
    raise _different(column, literal, hint)


def _among_integers(column: ColumnOf, literal: Literal) -> LiteralFloor:
    value = literal.value
    if literal.kind is LiteralKind.TEXT:
        least, most = signed_range(column.type)
        if not _INTEGER.fullmatch(value) or str(int(value)) != value or not least <= int(value) <= most:
            raise _different(column, literal, ": write a number without quotes")
        return LiteralFloor(int(value))
    if literal.kind in _EXACT_LIMITS:
        if not abs(value) < _EXACT_LIMITS[literal.kind]:  # NaN is none
            raise _different(column, literal, ", and readers round: write a number without exponent")
    elif literal.kind not in (LiteralKind.INTEGER, LiteralKind.DECIMAL):
        raise _different(column, literal)
    elif not _MIN_BIGINT <= value <= _MAX_BIGINT:
        # Spark takes NULL for below or above it as well (DecimalPrecision.integralAndDecimalLiteral)
        raise UnsupportedError(f"{value} is beyond BIGINT, and readers disagree on nulls of column {column.name}")
    return among_integers(column.type, math.floor(value), is_whole=value == math.floor(value))


def among_integers(kind: pa.DataType, floor: int, *, is_whole: bool) -> LiteralFloor:
    """Return the place of a number among those of an integer type."""
    least, most = signed_range(kind)
    if floor < least:
        return LiteralFloor(None, is_exact=False)
    return LiteralFloor(most, is_exact=False) if floor > most else LiteralFloor(floor, is_exact=is_whole)


def signed_range(kind: pa.DataType) -> tuple[int, int]:
    """Return the least and the greatest number of a signed integer type."""
    bits = kind.bit_width - 1
    return -(2**bits), 2**bits - 1


def nearest_float(value: Decimal | int | float) -> float:
    """Return the FLOAT (32 bits) that is nearest to a number; an infinite one beyond the greatest."""
    with np.errstate(over="ignore"):
        near = np.float32(float(value))
        around = [near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf))]
    if not np.isfinite(around).all():
        return float(near)
    # a DOUBLE between may have been rounded itself
    with localcontext(Context(prec=400)):
        return min((float(number) for number in around), key=lambda number: abs(Decimal(number) - Decimal(value)))


def _among_floats(column: ColumnOf, literal: Literal) -> LiteralFloor:
    if literal.kind not in (LiteralKind.INTEGER, LiteralKind.DECIMAL, LiteralKind.FLOAT, LiteralKind.DOUBLE):
        hint = ": write a number without quotes" if literal.kind is LiteralKind.TEXT else ""
        raise _different(column, literal, hint)
    value = float(literal.value)
    if pa.types.is_float32(column.type) and value == value and Decimal(nearest_float(value)) != Decimal(literal.value):
        raise UnsupportedError(
            f"column {column.name} is FLOAT and cannot hold {literal.value}, which Hive rounds and Spark does not: "
            f"write CAST({literal.value} AS FLOAT)"
        )
    return LiteralFloor(value + 0.0)  # 0.0 for -0.0


def among_decimals(kind: pa.DataType, value: Decimal) -> LiteralFloor:
    """Return the place of a number among those of a decimal type."""
    with localcontext(Context(prec=4 * MAX_DIGITS)):
        step = Decimal(1).scaleb(-kind.scale)
        most = Decimal(10) ** (kind.precision - kind.scale) - step
        floor = value.quantize(step, rounding=ROUND_FLOOR)
        if floor < -most:
            return LiteralFloor(None, is_exact=False)
        return LiteralFloor(most, is_exact=False) if floor > most else LiteralFloor(floor, is_exact=floor == value)


def _among_dates(column: ColumnOf, literal: Literal) -> LiteralFloor:
    if literal.kind is LiteralKind.DATE:
        return LiteralFloor(literal.value)
    if literal.kind is LiteralKind.TIMESTAMP and literal.value.time() == time.min:
        return LiteralFloor(literal.value.date())
    # in Spark midnight is later on a day on which clocks are put forward then
    day = day_of(literal.value) if literal.kind is LiteralKind.TEXT else None
    if day is None:
        raise _different(column, literal, ": write DATE 'yyyy-mm-dd'")
    return LiteralFloor(day)


def _among_timestamps(column: ColumnOf, literal: Literal) -> LiteralFloor:
    has_zone = column.type.tz is not None
    moment = literal.value
    if literal.kind is LiteralKind.DATE:
        moment = datetime.combine(literal.value, time.min)
    elif literal.kind is LiteralKind.TEXT:
        moment = moment_of(literal.value)
    elif literal.kind not in (LiteralKind.TIMESTAMP, LiteralKind.INSTANT):
        raise _different(column, literal)
    if moment is None or (moment.tzinfo is not None) != has_zone:
        form = "with its zone, as 'yyyy-mm-dd hh:mm:ssZ'" if has_zone else "'yyyy-mm-dd hh:mm:ss.ffffff', without zone"
        raise _different(column, literal, f": write TIMESTAMP {form}")
    return LiteralFloor(moment)


def _assert_comparable(column: ColumnOf) -> None:
    types = pa.types
    kinds = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)
    if not any(is_kind(column.type) for is_kind in (*kinds, types.is_string, types.is_date, types.is_timestamp)):
        raise UnsupportedError(f"column {column.name} is {type_name(column)}: only IS [NOT] NULL is supported for it")


def type_name(column: ColumnOf) -> str:
    """Return a column's type for people, in the words of SQL."""
    types = pa.types
    if column.is_char:
        return "CHAR"
    if types.is_decimal(column.type):
        return f"DECIMAL({column.type.precision},{column.type.scale})"
    if types.is_timestamp(column.type):
        return "TIMESTAMP" if column.type.tz is None else "TIMESTAMP WITH LOCAL TIME ZONE"
    return _NAMES.get(column.type) or str(column.type)


_NAMES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
}


def _different(column: ColumnOf, literal: Literal, hint: str = "") -> UnsupportedError:
    shown = repr(literal.value) if literal.kind is LiteralKind.TEXT else str(literal.value)
    return UnsupportedError(f"column {column.name} is {type_name(column)} and {shown} is {literal.kind.value}{hint}")
