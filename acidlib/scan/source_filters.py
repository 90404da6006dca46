"""The filters that Spark hands to a Python data source (`pyspark.sql.datasource.Filter`), as one predicate.

Spark has made the types of both sides alike before, so a filter says what its comparison means. Filters are known by
the names of their classes: this room does not import pyspark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from acidlib.scan.conditions import (
    ColumnOf,
    Columns,
    Condition,
    IsNull,
    Like,
    Not,
    Operator,
    all_of,
    columns_of,
    is_one_of,
)
from acidlib.scan.literals import Place, among_decimals, among_integers, compared_at
from acidlib.scan.predicate import Predicate

_OPERATORS = {
    "EqualTo": Operator.EQUAL,
    "GreaterThan": Operator.GREATER,
    "GreaterThanOrEqual": Operator.AT_LEAST,
    "LessThan": Operator.LESS,
    "LessThanOrEqual": Operator.AT_MOST,
}
_PATTERNS = {"StringStartsWith": "{}%", "StringEndsWith": "%{}", "StringContains": "%{}%"}


def predicate_of_filters(filters: Iterable[Any], schema: pa.Schema) -> tuple[Predicate | None, list[Any]]:
    """Return the conjunction of the filters that are understood, None for none of them, and the others.

    A row is selected by the predicate exactly if Spark selects it by those filters. CHAR columns have only null tests:
    Spark takes them for texts, and compares the blanks at their ends.
    """
    columns = columns_of(schema)
    conditions: list[Condition] = []
    texts: list[str] = []
    named: set[str] = set()
    others: list[Any] = []
    for source_filter in filters:
        part = _part(source_filter, columns)
        if part is None:
            others.append(source_filter)
            continue
        column, condition = part
        conditions.append(condition)
        texts.append(repr(source_filter))
        named.add(column.name)
    if not conditions:
        return None, others
    return Predicate(text=" and ".join(texts), columns=frozenset(named), condition=all_of(conditions)), others


def _part(source_filter: Any, columns: Columns) -> tuple[ColumnOf, Condition] | None:
    """Return the column and the condition of a filter, or None."""
    name = type(source_filter).__name__
    if name == "Not":
        part = _part(source_filter.child, columns)
        return part and (part[0], Not(part[1]))
    path: tuple[str, ...] = getattr(source_filter, "attribute", ())
    column = columns.get(path[0].lower()) if len(path) == 1 else None
    condition = None if column is None else _condition(name, column, getattr(source_filter, "value", None))
    return None if column is None or condition is None else (column, condition)


def _condition(name: str, column: ColumnOf, value: Any) -> Condition | None:
    if name in ("IsNull", "IsNotNull"):
        return IsNull(column) if name == "IsNull" else Not(IsNull(column))
    if column.is_char:
        return None
    if name in _PATTERNS:
        return _like(column, _PATTERNS[name], value)
    if name == "In":
        places = [_place(column, item) for item in value]
        known = [place for place in places if place is not None]
        if len(known) < len(places):
            return None
        return is_one_of(column, [place.value for place in known if place.is_exact])
    if name == "EqualNullSafe":
        if value is None:
            return IsNull(column)
        equal = _condition("EqualTo", column, value)
        return equal and all_of((Not(IsNull(column)), equal))
    place = _place(column, value)
    return None if place is None or name not in _OPERATORS else compared_at(column, _OPERATORS[name], place)


def _like(column: ColumnOf, form: str, value: Any) -> Condition | None:
    # a backslash in LIKE is for % and _ alone
    if not pa.types.is_string(column.type) or not isinstance(value, str) or "\\" in value:
        return None
    return Like(column, form.format(re.sub("[%_]", r"\\\g<0>", value)))


def _place(column: ColumnOf, value: Any) -> Place | None:
    """Return the place of a value among those of a column, or None for a value of another type."""
    kind, types = column.type, pa.types
    if isinstance(value, bool):
        return Place(value) if types.is_boolean(kind) else None
    if types.is_integer(kind) and isinstance(value, int):
        return among_integers(kind, value, is_whole=True)
    if types.is_floating(kind) and isinstance(value, (int, float)):
        return Place(value + 0.0)  # 0.0 for -0.0
    if types.is_decimal(kind) and isinstance(value, (int, Decimal)) and Decimal(value).is_finite():
        return among_decimals(kind, Decimal(value))
    if types.is_string(kind) and isinstance(value, str):
        return Place(value)
    if types.is_date(kind) and isinstance(value, date) and not isinstance(value, datetime):
        return Place(value)
    if types.is_timestamp(kind) and isinstance(value, datetime) and (value.tzinfo is None) == (kind.tz is None):
        return Place(value if value.tzinfo is None else value.astimezone(UTC))
    return None
