"""Types of columns, and the values of a file as its table has them: columns matched, values of changed types converted.

Types are written as in ORC files and Hive's metastores: `struct<a:int,b:decimal(10,2)>`. The rules are those of
`docs/types.md`, implemented a second time: a row must be the same by both implementations.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from ctypes import c_float
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any

from acidlib.acid.names import Generation, Reader
from acidlib.errors import CorruptError
from acidlib.model.units import ColumnMatching

Values = Callable[[Any], Any]
"""Converts a value of a file to the value of its table; None stays None."""

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_TEXTS = ("string", "varchar", "char")
_REALS = {"float": 24, "double": 53}
"""Bits of the numbers."""

_INFINITE, _MAX_WHOLE = float("inf"), 2.0**62
_CALENDARS_AGREE, _DAYS_BEFORE_1970 = -141_427, 719_163
_MONTHS_FROM_MARCH = tuple(
    zip((3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 2), (0, 31, 61, 92, 122, 153, 184, 214, 245, 275, 306, 337), strict=True)
)
_UNNAMED = re.compile(r"_col\d+")
_KIND = re.compile(r" *\w[\w ]*")
_NUMBERS = re.compile(r"\(([^)]*)\)")
_NAME = re.compile(r"`((?:[^`]|``)*)`:|([^:]*):")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnType:
    """A type: its kind in lower case, the numbers in brackets, the inner types, and for a struct their names."""

    kind: str
    numbers: tuple[int, ...] = ()
    inner: tuple[ColumnType, ...] = ()
    names: tuple[str, ...] = ()


EMPTY_ROW = ColumnType(kind="struct")


def parse_type(text: str) -> ColumnType:
    """Return the type of a text, in which names may be in backticks. Raises CorruptError for another text."""
    parsed, end = _type(text, 0)
    if text[end:].strip():
        raise _not_understood(text, end)
    return parsed


def _type(text: str, at: int) -> tuple[ColumnType, int]:
    """Return the type that begins at an index of the text, and the index of its end."""
    word = _KIND.match(text, at)
    if word is None:
        raise _not_understood(text, at)
    kind, at = word[0].strip().lower(), word.end()
    numbers: tuple[int, ...] = ()
    if brackets := _NUMBERS.match(text, at):
        numbers, at = tuple(int(number) for number in brackets[1].split(",")), brackets.end()
    if not text.startswith("<", at):
        return ColumnType(kind=kind, numbers=numbers), at
    inner: list[ColumnType] = []
    names: list[str] = []
    at += 1
    while not text.startswith(">", at):
        if inner:
            if not text.startswith(",", at):
                raise _not_understood(text, at)
            at += 1
        if kind == "struct":
            name = _NAME.match(text, at)
            if name is None:
                raise _not_understood(text, at)
            names.append(name[2] if name[1] is None else name[1].replace("``", "`"))
            at = name.end()
        parsed, at = _type(text, at)
        inner.append(parsed)
    return ColumnType(kind=kind, inner=tuple(inner), names=tuple(names)), at + 1


def _not_understood(text: str, at: int) -> CorruptError:
    return CorruptError(f"Cannot verify: the type {text!r} is not understood at {at}")


def row_reader(file: ColumnType, table: ColumnType, matching: ColumnMatching, reader: Reader) -> Values | None:
    """Return the conversion of a file's rows to rows of its table, or None where they are the same.

    Raises CorruptError for types that the table's Hive cannot convert.
    """
    if matching.by_position or all(_UNNAMED.fullmatch(name) for name in file.names):
        # columns get the table's names, and columns beyond those a name that no column has
        file = replace(file, names=(*table.names, *[""] * len(file.inner))[: len(file.inner)])
    return _struct(file, table, reader, str if matching.case_sensitive else str.lower)


def _struct(file: ColumnType, table: ColumnType, reader: Reader, same: Callable[[str], str]) -> Values | None:
    places: dict[str, int] = {}
    for place, name in enumerate(file.names):
        places.setdefault(same(name), place)
    taken: list[tuple[int | None, Values | None]] = []
    for name, kind in zip(table.names, table.inner, strict=True):
        source = places.get(same(name))
        taken.append((source, None if source is None else _value(file.inner[source], kind, reader, same)))
    if taken == [(place, None) for place in range(len(file.inner))]:
        return None
    return lambda values: tuple(
        None if source is None else _changed(change, values[source]) for source, change in taken
    )


def _value(file: ColumnType, table: ColumnType, reader: Reader, same: Callable[[str], str]) -> Values | None:
    def below(number: int) -> Values | None:
        return _value(file.inner[number], table.inner[number], reader, same)

    if file.kind == table.kind:
        match table.kind:
            case "struct":
                return _struct(file, table, reader, same)
            case "array":
                item = below(0)
                return None if item is None else lambda values: [_changed(item, value) for value in values]
            case "map":
                key, value = below(0), below(1)
                if key is None and value is None:
                    return None
                return lambda pairs: {_changed(key, name): _changed(value, entry) for name, entry in pairs.items()}
            case "uniontype":
                if len(file.inner) == len(table.inner) and all(below(i) is None for i in range(len(file.inner))):
                    return None
                raise _no_way(file, table)
            case "decimal":
                old, new = _scale(file), _scale(table)
                point = "." if old == 0 else ""
                # decimals are texts with all digits of their scale
                return None if old == new else lambda text: text + point + "0" * (new - old)
            case "char" if file.numbers != table.numbers:
                return _padded(table)
        return None
    return _converted(file, table, reader)


def _changed(change: Values | None, value: Any) -> Any:
    return value if change is None or value is None else change(value)


def _converted(file: ColumnType, table: ColumnType, reader: Reader) -> Values | None:
    old, new = file.kind, table.kind
    text: Callable[[Any], str] | None = None
    if old == "boolean" or old in _INTEGERS:
        if new in _INTEGERS:
            return int if old == "boolean" else None
        if new in _REALS:
            return float
        if new == "decimal":
            fraction = f".{'0' * _scale(table)}" if _scale(table) else ""
            return lambda value: f"{int(value)}{fraction}"
        text = (lambda value: "TRUE" if value else "FALSE") if old == "boolean" else str
    elif old in _REALS:
        bits = _REALS["double" if reader is Generation.HIVE4 else old]
        if new == "double":
            return None if bits == _REALS["double"] else lambda value: float(_real_text(value, bits))
        text = functools.partial(_real_text, bits=bits)
    elif old == "varchar" and new in ("string", "varchar"):
        return None
    elif old == "date":
        text = _date_text
    elif old == "decimal":
        text = _trimmed
    elif old == "char":
        text = str
    if text is None or new not in _TEXTS:
        raise _no_way(file, table)
    pad = _padded(table)
    return lambda value: pad(text(value))


def _scale(kind: ColumnType) -> int:
    return kind.numbers[1] if len(kind.numbers) > 1 else 0


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _date_text(day: int) -> str:
    """Return a day as Hive writes it in files of its usual calendar, which is the Julian one before 1582-10-15."""
    if day >= _CALENDARS_AGREE:
        return date.fromordinal(day + _DAYS_BEFORE_1970).isoformat()
    # the Julian year has a leap day in every fourth; 0000-03-01 of it is day -719470
    era, rest = divmod(day + 719_470, 1461)
    of_era = min(rest // 365, 3)
    of_year = rest - 365 * of_era
    month, of_month = next(
        (number, of_year - start) for number, start in reversed(_MONTHS_FROM_MARCH) if of_year >= start
    )
    return f"{4 * era + of_era + (month < 3):04d}-{month:02d}-{of_month + 1:02d}"


def _real_text(value: float, bits: int) -> str:
    """Return a number of so many bits as Java 8 writes it (`Float.toString`, `Double.toString`)."""
    if value != value or value in (_INFINITE, -_INFINITE):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    size = abs(value)
    if 2.0**bits <= size < _MAX_WHOLE:
        # the digits of a whole number are those of the power of two of its last bit
        whole = int(size)
        unsure = whole.bit_length() - bits - 2
        unit = 10 ** (len(str(1 << unsure)) - 1) if unsure > 1 else 1
        shown = str((whole + unit // 2) // unit * unit)
    elif bits == _REALS["double"]:
        shown = repr(size)
    else:
        shown = next(text for text in (f"{size:.{n}g}" for n in range(1, 10)) if c_float(float(text)).value == size)
    _, digits, exponent = Decimal(shown).normalize().as_tuple()
    power = len(digits) - 1 + int(exponent) if size else 0
    sign = "-" if str(value).startswith("-") else ""
    text = "".join(map(str, digits))
    if not -3 <= power < 7:
        return f"{sign}{text[0]}.{text[1:] or '0'}E{power}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{text}"
    text = text.ljust(power + 1, "0")
    return f"{sign}{text[: power + 1]}.{text[power + 1 :] or '0'}"


def _padded(table: ColumnType) -> Callable[[str], str]:
    """Return the function that strips the padding of a text and pads it for the table's CHAR."""
    length = table.numbers[0] if table.kind == "char" else 0
    return lambda text: text.rstrip(" ").ljust(length)


def _no_way(file: ColumnType, table: ColumnType) -> CorruptError:
    return CorruptError(f"Cannot verify: no {file.kind} is read as {table.kind}.")
