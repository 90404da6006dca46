"""The values of a file as its table has them: which column is which, and what becomes of a column of another type.

The rules are those of `docs/types.md`, written a second time: a row that is read by both has to come out the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from acidlib.errors import CorruptError
from acidlib.model.units import ColumnMatching
from acidlib.verify.types import ColumnType

Values = Callable[[Any], Any]
"""Makes the value of a table of the value of a file; None stays None."""

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_TEXTS = ("string", "varchar", "char")
_UNNAMED = re.compile(r"_col\d+")


def row_reader(file: ColumnType, table: ColumnType, matching: ColumnMatching) -> Values | None:
    """Makes rows of a table of those of a file; None where they are the same. CorruptError where Hive cannot."""
    by_position = matching.by_position or all(_UNNAMED.fullmatch(name) for name in file.names)
    return _struct(file, table, by_position=by_position, case_sensitive=matching.case_sensitive)


def _struct(file: ColumnType, table: ColumnType, *, by_position: bool, case_sensitive: bool) -> Values | None:
    places: dict[str, int] = {}
    for place, name in enumerate(file.names):
        places.setdefault(name if case_sensitive else name.lower(), place)
    taken: list[tuple[int | None, Values | None]] = []
    for place, (name, kind) in enumerate(zip(table.names, table.inner, strict=True)):
        if by_position:
            source = place if place < len(file.inner) else None
        else:
            source = places.get(name if case_sensitive else name.lower())
        taken.append((source, None if source is None else _value(file.inner[source], kind, case_sensitive)))
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


def _value(
    file: ColumnType,
    table: ColumnType,
    case_sensitive: bool,  # noqa: FBT001 - private, and passed on
) -> Values | None:
    if file.kind == table.kind:
        match table.kind:
            case "struct":
                return _struct(file, table, by_position=False, case_sensitive=case_sensitive)
            case "array":
                item = _value(file.inner[0], table.inner[0], case_sensitive)
                return None if item is None else lambda values: [_given(item, one) for one in values]
            case "map":
                key, value = (
                    _value(old, new, case_sensitive) for old, new in zip(file.inner, table.inner, strict=True)
                )
                if key is None and value is None:
                    return None
                return lambda pairs: {_given(key, one): _given(value, other) for one, other in pairs.items()}
            case "uniontype":
                if all(
                    _value(old, new, case_sensitive) is None for old, new in zip(file.inner, table.inner, strict=True)
                ):
                    return None
                raise _no_way(file, table)
            case "decimal":
                return _rescaled(_scale(file), _scale(table))
            case "char" if file.numbers != table.numbers:
                return _padded(table)
        return None
    return _converted(file, table)


def _given(change: Values | None, value: Any) -> Any:
    return value if change is None or value is None else change(value)


def _converted(file: ColumnType, table: ColumnType) -> Values | None:
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
    if old == "float" and new == "double":
        return None
    if old == "varchar" and new in ("string", "varchar"):
        return None
    if old == "char" and new in _TEXTS:
        return _padded(table)
    raise _no_way(file, table)


def _scale(kind: ColumnType) -> int:
    return kind.numbers[1] if len(kind.numbers) > 1 else 0


def _rescaled(old: int, new: int) -> Values | None:
    """Decimals are texts with all digits of their scale."""
    if old == new:
        return None
    point = "." if old == 0 else ""
    return lambda text: text + point + "0" * (new - old)


def _decimal(value: int, table: ColumnType) -> str:
    return f"{value}.{'0' * _scale(table)}" if _scale(table) else str(value)


def _padded(table: ColumnType) -> Callable[[str], str]:
    """What was a CHAR loses its padding; what is one gets its own."""
    length = table.numbers[0] if table.kind == "char" else 0
    return lambda text: text.rstrip(" ").ljust(length)


def _no_way(file: ColumnType, table: ColumnType) -> CorruptError:
    return CorruptError(f"Cannot verify: because no {file.kind} is read as {table.kind}")
