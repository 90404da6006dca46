"""Types of columns, and the values of a file as its table has them: which column is which, and values of changed types.

Types are as files of ORC and metastores of Hive write them: `struct<a:int,b:decimal(10,2)>`. The rules are those of
`docs/types.md`, written a second time: a row that is read by both has to come out the same.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from acidlib.errors import CorruptError
from acidlib.model.names import Generation
from acidlib.model.units import ColumnMatching

Values = Callable[[Any], Any]
"""Makes the value of a table of the value of a file; None stays None."""

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_TEXTS = ("string", "varchar", "char")
_REALS = {"float": 24, "double": 53}
"""Bits of the numbers."""

_INFINITE, _MOST_WHOLE = float("inf"), 2.0**62
_CALENDARS_AGREE, _DAYS_BEFORE_1970 = -141_427, 719_163
_MONTHS_FROM_MARCH = tuple(
    zip((3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 2), (0, 31, 61, 92, 122, 153, 184, 214, 245, 275, 306, 337), strict=True)
)
_UNNAMED = re.compile(r"_col\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnType:
    """A type: its kind in lower case, the numbers in brackets, the types in it, and for a struct their names."""

    kind: str
    numbers: tuple[int, ...] = ()
    inner: tuple[ColumnType, ...] = ()
    names: tuple[str, ...] = ()


EMPTY_ROW = ColumnType(kind="struct")


def parse_type(text: str) -> ColumnType:
    """Return the type that a text describes; CorruptError where it is none. Names may stand in backticks."""
    parser = _Parser(text)
    found = parser.type()
    parser.expect_end()
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def type(self) -> ColumnType:
        start = self._at
        while self._at < len(self._text) and (self._text[self._at].isalnum() or self._text[self._at] in "_ "):
            self._at += 1
        kind = self._text[start : self._at].strip().lower()
        if not kind:
            raise self._wrong()
        numbers: tuple[int, ...] = ()
        if self._take("("):
            end = self._text.find(")", self._at)
            if end < 0:
                raise self._wrong()
            numbers = tuple(int(number) for number in self._text[self._at : end].split(","))
            self._at = end + 1
        if not self._take("<"):
            return ColumnType(kind=kind, numbers=numbers)
        inner: list[ColumnType] = []
        names: list[str] = []
        while not self._take(">"):
            if inner and not self._take(","):
                raise self._wrong()
            if kind == "struct":
                names.append(self._name())
            inner.append(self.type())
        return ColumnType(kind=kind, inner=tuple(inner), names=tuple(names))

    def expect_end(self) -> None:
        if self._text[self._at :].strip():
            raise self._wrong()

    def _name(self) -> str:
        if self._take("`"):
            name = ""
            while True:
                end = self._text.find("`", self._at)
                if end < 0:
                    raise self._wrong()
                name += self._text[self._at : end]
                self._at = end + 1
                if not self._take("`"):  # two of them stand for one
                    break
                name += "`"
        else:
            end = self._text.find(":", self._at)
            if end < 0:
                raise self._wrong()
            name = self._text[self._at : end]
            self._at = end
        if not self._take(":"):
            raise self._wrong()
        return name

    def _take(self, sign: str) -> bool:
        if self._text.startswith(sign, self._at):
            self._at += 1
            return True
        return False

    def _wrong(self) -> CorruptError:
        return CorruptError(f"Cannot verify: because the type {self._text!r} is not understood at {self._at}")


def row_reader(file: ColumnType, table: ColumnType, matching: ColumnMatching, generation: Generation) -> Values | None:
    """Return what makes rows of a table of those of a file; None where they are the same.

    Raises CorruptError where the table's Hive cannot.
    """
    by_position = matching.by_position or all(_UNNAMED.fullmatch(name) for name in file.names)
    return _struct(file, table, generation, case_sensitive=matching.case_sensitive, by_position=by_position)


def _struct(
    file: ColumnType, table: ColumnType, generation: Generation, *, case_sensitive: bool, by_position: bool = False
) -> Values | None:
    places: dict[str, int] = {}
    for place, name in enumerate(file.names):
        places.setdefault(name if case_sensitive else name.lower(), place)
    taken: list[tuple[int | None, Values | None]] = []
    for place, (name, kind) in enumerate(zip(table.names, table.inner, strict=True)):
        if by_position:
            source = place if place < len(file.inner) else None
        else:
            source = places.get(name if case_sensitive else name.lower())
        change = None
        if source is not None:
            change = _value(file.inner[source], kind, generation, case_sensitive=case_sensitive)
        taken.append((source, change))
    if [source for source, _ in taken] == list(range(len(file.inner))) and all(change is None for _, change in taken):
        return None

    def row(values: Any) -> Any:
        return tuple(
            None
            if source is None or values[source] is None
            else values[source]
            if change is None
            else change(values[source])
            for source, change in taken
        )

    return row


def _value(file: ColumnType, table: ColumnType, generation: Generation, *, case_sensitive: bool) -> Values | None:
    def below(number: int) -> Values | None:
        return _value(file.inner[number], table.inner[number], generation, case_sensitive=case_sensitive)

    if file.kind == table.kind:
        match table.kind:
            case "struct":
                return _struct(file, table, generation, case_sensitive=case_sensitive)
            case "array":
                item = below(0)
                return None if item is None else lambda values: [_given(item, one) for one in values]
            case "map":
                key, value = below(0), below(1)
                if key is None and value is None:
                    return None
                return lambda pairs: {_given(key, one): _given(value, other) for one, other in pairs.items()}
            case "uniontype":
                if len(file.inner) == len(table.inner) and all(below(i) is None for i in range(len(file.inner))):
                    return None
                raise _no_way(file, table)
            case "decimal":
                return _rescaled(_scale(file), _scale(table))
            case "char" if file.numbers != table.numbers:
                return _padded(table)
        return None
    return _converted(file, table, generation)


def _given(change: Values | None, value: Any) -> Any:
    return value if change is None or value is None else change(value)


def _converted(file: ColumnType, table: ColumnType, generation: Generation) -> Values | None:
    old, new = file.kind, table.kind
    if old == "boolean":
        if new in _INTEGERS:
            return int
        if new in ("float", "double"):
            return float
        if new == "decimal":
            return lambda value: _decimal(int(value), table)
        if new in _TEXTS:
            pad = _padded(table)
            return lambda value: pad("TRUE" if value else "FALSE")
    if old in _INTEGERS:
        if new in _INTEGERS:
            return None
        if new in ("float", "double"):
            return float
        if new == "decimal":
            return lambda value: _decimal(value, table)
        if new in _TEXTS:
            pad = _padded(table)
            return lambda value: pad(str(value))
    if old in _REALS and new in (*_TEXTS, "double"):
        bits = _REALS["double" if generation is Generation.HIVE4 else old]
        if new == "double":
            return None if bits == _REALS["double"] else lambda value: float(_real_text(value, bits))
        pad = _padded(table)
        return lambda value: pad(_real_text(value, bits))
    if old in ("date", "decimal") and new in _TEXTS:
        text = _date_text if old == "date" else _trimmed
        pad = _padded(table)
        return lambda value: pad(text(value))
    if old == "varchar" and new in ("string", "varchar"):
        return None
    if old == "char" and new in _TEXTS:
        return _padded(table)
    raise _no_way(file, table)


def _scale(kind: ColumnType) -> int:
    return kind.numbers[1] if len(kind.numbers) > 1 else 0


def _rescaled(old: int, new: int) -> Values | None:
    """Return what adds digits to a decimal, a text with all digits of its scale."""
    if old == new:
        return None
    point = "." if old == 0 else ""
    return lambda text: text + point + "0" * (new - old)


def _decimal(value: int, table: ColumnType) -> str:
    return f"{value}.{'0' * _scale(table)}" if _scale(table) else str(value)


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _date_text(day: int) -> str:
    """Return a day as Hive writes it in files of its usual calendar, which is another one before 1582-10-15."""
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
    if 2.0**bits <= size < _MOST_WHOLE:
        # as many digits as the power of two that the last bit of a whole number stands for
        whole = int(size)
        unsure = whole.bit_length() - bits - 2
        unit = 10 ** (len(str(1 << unsure)) - 1) if unsure > 1 else 1
        shown = str((whole + unit // 2) // unit * unit)
    elif bits == _REALS["double"]:
        shown = repr(size)
    else:
        shown = next(text for text in (f"{size:.{n}g}" for n in range(1, 10)) if _single(float(text)) == size)
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


def _single(value: float) -> float:
    """Return the number of 24 bits that is nearest."""
    try:
        (found,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        return _INFINITE
    return float(found)


def _padded(table: ColumnType) -> Callable[[str], str]:
    """Return what takes the padding of a CHAR off, and gives one its own."""
    length = table.numbers[0] if table.kind == "char" else 0
    return lambda text: text.rstrip(" ").ljust(length)


def _no_way(file: ColumnType, table: ColumnType) -> CorruptError:
    return CorruptError(f"Cannot verify: no {file.kind} is read as {table.kind}.")
