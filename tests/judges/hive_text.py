"""Canonical values as Hive's clients print them, to compare with the ``rows*.tsv`` of the fixtures."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyorc import TypeKind

_GREGORIAN = -141427  # the day number of 1582-10-15


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a client prints: the Hive command line (``HIVE3``), or a Python client over thrift (``HIVE4``).

    ``hybrid``: Hive 4.0.1 stores days before 1582-10-15 in the Julian calendar (its footers say so), Hive 3.1.3 stores
    all in the proleptic Gregorian one.
    """

    null: str
    true: str
    false: str
    hybrid: bool
    brackets: bool = False
    python_numbers: bool = False
    micros: bool = False


HIVE3 = Style(null="NULL", true="true", false="false", hybrid=False)
HIVE4 = Style(null=r"\N", true="True", false="False", hybrid=True, python_numbers=True, micros=True)
HIVE4_EXACT = Style(null=r"\N", true="True", false="False", hybrid=True, brackets=True)


def civil(days: int, *, hybrid: bool) -> str:
    """``YYYY-MM-DD`` of a day number; ``hybrid``: Julian before 1582-10-15, as Java's GregorianCalendar."""
    year, month, day = _from_julian(days) if hybrid and days < _GREGORIAN else _from_gregorian(days)
    return f"{year:04d}-{month:02d}-{day:02d}"


def _from_julian(days: int) -> tuple[int, int, int]:
    c = days + 2440588 + 32082
    d = (4 * c + 3) // 1461
    e = c - 1461 * d // 4
    m = (5 * e + 2) // 153
    return d - 4800 + m // 10, m + 3 - 12 * (m // 10), e - (153 * m + 2) // 5 + 1


def _from_gregorian(days: int) -> tuple[int, int, int]:
    days += 719468
    era, rest = divmod(days, 146097)
    year = (rest - rest // 1460 + rest // 36524 - rest // 146096) // 365
    rest -= 365 * year + year // 4 - year // 100
    month = (5 * rest + 2) // 153
    day = rest - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return year + era * 400 + (1 if month <= 2 else 0), month, day


def _timestamp(text: str, style: Style) -> str:
    seconds, nanos = (int(part) for part in text[2:].split(":"))
    days, rest = divmod(seconds, 86400)
    digits = f"{nanos:09d}".rstrip("0")
    if style.micros:
        digits = f"{nanos // 1000:06d}" if nanos else ""
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{civil(days, hybrid=style.hybrid)} {clock}" + (f".{digits}" if digits else "")


def _decimal(text: str, scale: int, style: Style, *, nested: bool) -> str:
    whole, _, fraction = text[2:].partition(".")
    padded = whole + ("." + fraction.ljust(scale, "0") if scale else "")
    if nested:
        return text[2:]
    return str(Decimal(padded)) if style.python_numbers else padded


def _double(text: str, style: Style) -> str:
    (value,) = struct.unpack(">d", bytes.fromhex(text[2:]))
    if value != value:
        return "nan" if style.python_numbers else "NaN"
    if value in (float("inf"), float("-inf")):
        name = "inf" if style.python_numbers else "Infinity"
        return name if value > 0 else "-" + name
    return repr(value)


def render(value: Any, kind: Any, style: Style, *, nested: bool = False) -> str:
    """One canonical value of a pyorc type, as text."""
    k = kind.kind
    if value is None:
        return "null" if nested else style.null
    if k is TypeKind.LIST:
        return "[" + ",".join(render(v, kind.type, style, nested=True) for v in value) + "]"
    if k is TypeKind.MAP:
        texts = ((render(a, kind.key, style, nested=True), render(b, kind.value, style, nested=True)) for a, b in value)
        return "{" + ",".join(f"{a}:{b}" for a, b in texts) + "}"
    if k is TypeKind.STRUCT:
        fields = zip(kind.fields.items(), value, strict=True)
        return "{" + ",".join(f'"{name}":{render(v, t, style, nested=True)}' for (name, t), v in fields) + "}"
    text = _scalar(value, kind, style, nested=nested)
    quoted = nested and k in (TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR, TypeKind.TIMESTAMP, TypeKind.DATE)
    return f'"{text}"' if quoted else text


def _scalar(value: Any, kind: Any, style: Style, *, nested: bool) -> str:
    k = kind.kind
    if k is TypeKind.BOOLEAN:
        return style.true if value else style.false
    if k in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return _double(value, style)
    if k is TypeKind.DECIMAL:
        return _decimal(value, kind.scale, style, nested=nested)
    if k is TypeKind.DATE:
        return civil(int(value[2:]), hybrid=style.hybrid)
    if k is TypeKind.TIMESTAMP:
        return _timestamp(value, style)
    if k is TypeKind.BINARY:
        return str(value[2:]).upper()
    if k in (TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR):
        text = str(value[2:])
        if style.brackets and not nested:
            return f"[{text.rstrip(' ') if k is TypeKind.CHAR else text}]"
        return text
    return str(value)
