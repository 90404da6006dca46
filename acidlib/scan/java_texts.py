"""Parsing of numbers, dates and times as Hive's Java classes do it; None for a text that they take for no value.

Source: Java `Double.parseDouble`; Hive `FastHiveDecimalImpl.fastSetFromBytes`, `Date.valueOf`, `Timestamp.valueOf`.
"""

from __future__ import annotations

import math
import re
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext

import pyarrow as pa

from acidlib.acid.names import Generation, Reader
from acidlib.orc.schema import TypeNode

JAVA_BLANKS = "".join(map(chr, range(33)))
"""What Java's `String.trim` removes."""

DAY_MICROS = 86_400_000_000
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
_MAX_DIGITS = 38
"""Of a decimal before and after the point, while it is read."""

_REAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_NO_NUMBER = re.compile(r"[+-]?(?:NaN|Infinity)", re.ASCII)
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?", re.ASCII)
_DECIMAL = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?(?:[eE](?:\+|(-))?0*([0-9]*))?", re.ASCII)
_SIGNED = r"(?!-0+(?![0-9]))-?[0-9]"
"""The beginning of a number, which is no zero with a minus, in `java.time`."""
_DAY = re.compile(rf"({_SIGNED}{{1,10}})-({_SIGNED}{{1,2}})-({_SIGNED}{{1,2}})", re.ASCII)
_START_WITH_DAY = re.compile(rf"({_SIGNED}{{1,4}})-([0-9]{{1,2}})-([0-9]{{1,2}})(?![0-9])", re.ASCII)
_CLOCK = rf"({_SIGNED}{{1,2}}):({_SIGNED}{{1,2}}):({_SIGNED}{{1,2}})(?:\.([0-9]{{1,9}}))?"
_MOMENT = re.compile(f"{_DAY.pattern} {_CLOCK}", re.ASCII)


def java_real(text: str, kind: pa.DataType) -> float | None:
    """Return the number in a text, rounded once to float32 or float64."""
    plain = text.strip(JAVA_BLANKS)
    if _NO_NUMBER.fullmatch(plain):
        return math.nan if plain.endswith("NaN") else float(plain)
    number = (
        plain[:-1]
        if plain[-1:] in ("f", "F", "d", "D") and not plain[:3].lower().lstrip("+-").startswith("0x")
        else plain
    )
    if _REAL.fullmatch(number):
        try:
            return float(pa.scalar(number).cast(kind).as_py())
        except pa.ArrowInvalid:
            return float(number)  # larger than any number of the type, or as small as none
    hexadecimal = _HEXADECIMAL.fullmatch(plain)
    if hexadecimal is None:
        return None
    try:
        return float.fromhex(hexadecimal[1])
    except OverflowError:
        return -math.inf if plain.startswith("-") else math.inf


def java_decimal(text: str, node: TypeNode, reader: Reader, *, blanks: str = "") -> Decimal | None:
    """Return the decimal in a text, rounded to a type's scale; None also where it does not fit.

    It is rounded to 38 digits first, then to 38 after the point, as Hive does.

    blanks  characters that count for nothing at the beginning and end
    """
    started = text.lstrip(blanks)
    plain = started.rstrip(blanks)
    if plain != started:
        plain = re.sub(r"[eE][+-]?\Z", "", plain)  # an exponent of blanks is none
    parts = _DECIMAL.fullmatch(plain)
    if parts is None or not _REAL.fullmatch(plain):
        return None
    sign, whole, fraction, minus, exponent = (part or "" for part in parts.groups())
    is_whole = started.lstrip("+-")[0] != "."
    if reader is Generation.HIVE3 and not is_whole and started != f"{sign}.{fraction}":
        return None
    if len(whole) > _MAX_DIGITS or len(exponent) > 2:
        return None
    shift = int(f"{minus}{exponent or '0'}")
    with localcontext(Context(prec=1000, rounding=ROUND_HALF_UP)):
        value = Decimal(f"{sign}{whole}.{fraction}0").quantize(Decimal(1).scaleb(len(whole) - _MAX_DIGITS)).normalize()
        if not value or max(-int(value.as_tuple().exponent), 0) - shift >= 2 * _MAX_DIGITS:
            return Decimal(0).scaleb(-node.scale)
        if max(value.adjusted(), value.adjusted() + shift) >= _MAX_DIGITS:
            return None
        value = value.scaleb(shift).quantize(Decimal(1).scaleb(-_MAX_DIGITS))
        value = value.quantize(Decimal(1).scaleb(-node.scale))
    if not value:
        return value.copy_abs()
    return value if value.adjusted() < node.precision - node.scale else None


def java_day(text: str, reader: Reader) -> int | None:
    """Return the day in a text as days since 1970-01-01."""
    plain = text.strip(JAVA_BLANKS)
    if reader is Generation.HIVE4:
        match = _START_WITH_DAY.match(plain)  # whatever follows
    else:
        match = _DAY.fullmatch(plain.partition(" ")[0])
    return None if match is None else _days(*map(int, match.groups()), is_lenient=reader is Generation.HIVE3)


def java_moment(text: str, reader: Reader) -> int | None:
    """Return the time in a text, a day and a time of day with a blank between them, as microseconds since 1970."""
    match = _MOMENT.fullmatch(text.strip(JAVA_BLANKS))
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[part]) for part in range(1, 7))
    is_lenient = reader is Generation.HIVE3
    if not is_lenient and not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
        return None
    days = _days(year, month, day, is_lenient=is_lenient)
    micros = int((match[7] or "").ljust(9, "0")) // 1000
    seconds = hour * 3600 + minute * 60 + second
    return None if days is None else days * DAY_MICROS + seconds * 1_000_000 + micros


def _days(year: int, month: int, day: int, *, is_lenient: bool) -> int | None:
    """Return a day as days since 1970-01-01; Hive 3.1 counts on where a month or day is not in its range."""
    if is_lenient:
        year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    cycles, year = divmod(year - 1, _CYCLE_YEARS)
    try:
        first = date(year + 1, month, 1 if is_lenient else day)
    except ValueError:
        return None
    days = (first - date(1970, 1, 1)).days + cycles * _CYCLE_DAYS
    return days + day - 1 if is_lenient else days
