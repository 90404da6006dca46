"""Conditions on a row's columns: what they can be within bounds, and what they are for each row of a batch.

Logic is SQL's, of true, false and null. Values are compared as Hive and Spark do: texts by their UTF-8 bytes, CHAR
without the blanks at its end, -0.0 equal to 0.0, and NaN equal to itself and above all other numbers (Spark SQL, "NaN
Semantics"; of Hive the comparison of single rows).
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from acidlib.errors import DefectError, RefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The knowledge of a column in a partition, file or stripe.

    low, high  inclusive, as Python values of the column's Arrow type; None = unknown. NaN is the greatest: a column
               with another `high` holds no NaN
    has_nulls  it may hold a null
    all_null   it holds nothing else
    """

    low: Any | None = None
    high: Any | None = None
    has_nulls: bool = True
    all_null: bool = False


UNKNOWN = Bounds()


class Outcomes(NamedTuple):
    """Whether a condition may be true, and false, for some row within bounds; where it is neither it is null."""

    true: bool
    false: bool


@dataclass(frozen=True, slots=True)
class ColumnOf:
    """A column that a condition names.

    name        in lower case
    is_char     Hive's type is CHAR
    characters  of a CHAR or VARCHAR at most; None for other types, and where Hive's type is not known
    """

    name: str
    type: pa.DataType
    is_char: bool = False
    characters: int | None = None

    @property
    def has_nan(self) -> bool:
        """Whether its values may be NaN."""
        return bool(pa.types.is_floating(self.type))


Columns = Mapping[str, ColumnOf]
"""Columns by their lower-case names."""

HIVE_TYPE = b"hive_type"
"""The name of a field's metadata in Arrow's schema that has the text of Hive's type, as b"char(5)"."""


def columns_of(schema: pa.Schema) -> dict[str, ColumnOf]:
    """Return the columns of a schema; a CHAR and VARCHAR is known by `HIVE_TYPE`."""
    columns = {}
    for field in schema:
        limited = _LIMITED.fullmatch((field.metadata or {}).get(HIVE_TYPE, b"").lower())
        columns[field.name.lower()] = ColumnOf(
            field.name.lower(),
            field.type,
            is_char=limited is not None and limited[1] == b"char",
            characters=None if limited is None else int(limited[2]),
        )
    return columns


_LIMITED = re.compile(rb"(char|varchar)\(([0-9]+)\)")


class Rows:
    """The columns of a batch in the form in which conditions compare them, each prepared once."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.count: int = batch.num_rows
        self._batch = batch
        self._places = {name.lower(): place for place, name in enumerate(batch.schema.names)}
        self._prepared: dict[ColumnOf, pa.Array] = {}

    def values(self, column: ColumnOf) -> pa.Array:
        """Return a column as its stated type, a CHAR without blanks at its end."""
        if column not in self._prepared:
            values = self.stored(column)
            if values.type != column.type:
                values = values.cast(column.type)
            self._prepared[column] = pc.utf8_rtrim(values, " ") if column.is_char else values
        return self._prepared[column]

    def stored(self, column: ColumnOf) -> pa.Array:
        """Return a column as it is in the batch; DefectError when it is not there."""
        if column.name not in self._places:
            raise DefectError(f"Cannot filter rows: column {column.name} of the predicate was not read")
        return self._batch.column(self._places[column.name])

    def constant(self, *, value: bool | None) -> pa.BooleanArray:
        """Return the same value for every row."""
        return pa.repeat(pa.scalar(value, pa.bool_()), self.count)


class Condition(Protocol):
    """A frozen value that can be pickled."""

    def outcomes(self, bounds: Mapping[str, Bounds]) -> Outcomes:
        """Return all values that it can have within bounds, and maybe more."""
        ...

    def mask(self, rows: Rows) -> pa.BooleanArray:
        """Return its value for each row."""
        ...


class Operator(Enum):
    """A comparison of a column with a value."""

    EQUAL = "="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="


@dataclass(frozen=True, slots=True)
class Constant:
    """The same for every row."""

    value: bool | None

    def outcomes(self, bounds: Mapping[str, Bounds]) -> Outcomes:  # noqa: ARG002 - the same for all conditions
        """Return its value."""
        return Outcomes(true=self.value is True, false=self.value is False)

    def mask(self, rows: Rows) -> pa.BooleanArray:
        """Return its value for each row."""
        return rows.constant(value=self.value)


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column is null."""

    column: ColumnOf

    def outcomes(self, bounds: Mapping[str, Bounds]) -> Outcomes:
        """Return what the bounds say of nulls."""
        known = bounds.get(self.column.name, UNKNOWN)
        return Outcomes(true=known.has_nulls or known.all_null, false=not known.all_null)

    def mask(self, rows: Rows) -> pa.BooleanArray:
        """Return where the column is null."""
        return pc.is_null(rows.stored(self.column))


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column compared with a value of its domain, which has the column's Python type."""

    column: ColumnOf
    operator: Operator
    value: Any

    def outcomes(self, bounds: Mapping[str, Bounds]) -> Outcomes:
        """Return what is possible between the column's bounds."""
        known = bounds.get(self.column.name, UNKNOWN)
        if known.all_null:
            return Outcomes(true=False, false=False)
        low, high = ordered_bounds(self.column, known)
        value = sort_key(self.column, self.value)
        below = low is None or low < value  # some row may be below the value
        above = high is None or high > value
        at = (low is None or low <= value) and (high is None or high >= value)
        is_true, is_false = {
            Operator.EQUAL: (at, below or above),
            Operator.LESS: (below, at or above),
            Operator.AT_MOST: (below or at, above),
            Operator.GREATER: (above, below or at),
            Operator.AT_LEAST: (above or at, below),
        }[self.operator]
        return Outcomes(true=is_true, false=is_false)

    def mask(self, rows: Rows) -> pa.BooleanArray:
        """Return the comparison for each row; null where the column is."""
        values = rows.values(self.column)
        if not self.column.has_nan:
            return _COMPARE[self.operator](values, pa.scalar(self.value, self.column.type))
        # to Arrow every comparison with NaN is false
        is_nan = pc.is_nan(values)
        if math.isnan(self.value):
            if self.operator is Operator.LESS:
                return pc.invert(is_nan)
            if self.operator in (Operator.EQUAL, Operator.AT_LEAST):
                return is_nan
            return _where_valid(values, rows.constant(value=self.operator is Operator.AT_MOST))
        # a FLOAT is widened, for the value may be none
        compared = _COMPARE[self.operator](values, pa.scalar(self.value, pa.float64()))
        above = self.operator in (Operator.GREATER, Operator.AT_LEAST)
        return pc.or_(compared, is_nan) if above else compared


def _where_valid(values: pa.Array, mask: pa.BooleanArray) -> pa.BooleanArray:
    """Return a mask that is null where the values are."""
    return pc.if_else(pc.is_valid(values), mask, pa.scalar(None, pa.bool_()))


_COMPARE: dict[Operator, Callable[[pa.Array, pa.Scalar], pa.BooleanArray]] = {
    Operator.EQUAL: pc.equal,
    Operator.LESS: pc.less,
    Operator.AT_MOST: pc.less_equal,
    Operator.GREATER: pc.greater,
    Operator.AT_LEAST: pc.greater_equal,
}


@dataclass(frozen=True, slots=True)
class IsIn:
    """A column has one of some values, which ascend; there is at least one, and none of them is NaN or -0.0."""

    column: ColumnOf
    values: tuple[Any, ...]

    def outcomes(self, bounds: Mapping[str, Bounds]) -> Outcomes:
        """Return whether a value lies between the column's bounds."""
        known = bounds.get(self.column.name, UNKNOWN)
        if known.all_null:
            return Outcomes(true=False, false=False)
        low, high = ordered_bounds(self.column, known)
        first = 0 if low is None else bisect_left(self.values, low, key=lambda value: sort_key(self.column, value))
        is_true = first < len(self.values) and (high is None or sort_key(self.column, self.values[first]) <= high)
        return Outcomes(true=is_true, false=not is_true or low is None or low != high)

    def mask(self, rows: Rows) -> pa.BooleanArray:
        """Return the membership of each row; null where the column is."""
        values = rows.values(self.column)
        kind = pa.float64() if self.column.has_nan else self.column.type
        searched = list(self.values)
        if self.column.has_nan:
            values = values.cast(kind)
            searched += [-0.0] if 0.0 in searched else []  # Arrow looks up bits
        return _where_valid(values, pc.is_in(values, value_set=pa.array(searched, kind)))


@dataclass(frozen=True, slots=True)
class Like:
    """A text matches a pattern of SQL: % for any characters, _ for one, a backslash before one of them for itself.

    Hive 3.1 takes no end of a line for a character, except in patterns that are one text after or before a %.
    """

    column: ColumnOf
    pattern: str

    def outcomes(self, bounds: Mapping[str, Bounds]) -> Outcomes:
        """Return what the pattern's beginning says between the column's bounds."""
        known = bounds.get(self.column.name, UNKNOWN)
        if known.all_null:
            return Outcomes(true=False, false=False)
        low, high = ordered_bounds(self.column, known)
        if low is not None and low == high and not (self._is_complex and _LINE_END.search(low)):
            is_true = self._expression().fullmatch(low) is not None
            return Outcomes(true=is_true, false=not is_true)
        prefix, rest = split_pattern(self.pattern)
        is_true = (low is None or low[: len(prefix)] <= prefix) and (high is None or high >= prefix)
        begin_alike = all(bound is not None and bound.startswith(prefix) for bound in (low, high))
        whole = rest == "%" and (not prefix or begin_alike)
        return Outcomes(true=is_true, false=not whole)

    def mask(self, rows: Rows) -> pa.BooleanArray:
        """Return the match of each row; null where the column is. Raises RefusedError where readers disagree."""
        values = rows.values(self.column)
        if self._is_complex and pc.any(pc.match_substring_regex(values, _LINE_END.pattern)).as_py():
            raise RefusedError(
                f"Cannot filter rows by {self.column.name} LIKE {self.pattern!r}: a text has an end of a line, which "
                "Hive 3.1 takes for no character: use patterns such as 'beginning%', '%end' and '%part%'"
            )
        return pc.match_like(values, self.pattern)

    @property
    def _is_complex(self) -> bool:
        return is_complex_pattern(self.pattern)

    def _expression(self) -> re.Pattern[str]:
        signs = {"%": ".*", "_": "."}
        parts = re.findall(r"\\[%_]|.", self.pattern, re.DOTALL)
        text = "".join(signs.get(part) or re.escape(part[-1]) for part in parts)
        return re.compile(text, re.DOTALL)


@dataclass(frozen=True, slots=True)
class Not:
    """The contrary."""

    part: Condition

    def outcomes(self, bounds: Mapping[str, Bounds]) -> Outcomes:
        """Return the part's outcomes, true and false exchanged."""
        true, false = self.part.outcomes(bounds)
        return Outcomes(true=false, false=true)

    def mask(self, rows: Rows) -> pa.BooleanArray:
        """Return the contrary for each row."""
        return pc.invert(self.part.mask(rows))


@dataclass(frozen=True, slots=True)
class And:
    """All of some parts; there is at least one."""

    parts: tuple[Condition, ...]

    def outcomes(self, bounds: Mapping[str, Bounds]) -> Outcomes:
        """Return what is possible when the parts are independent of each other."""
        parts = [part.outcomes(bounds) for part in self.parts]
        return Outcomes(true=all(part.true for part in parts), false=any(part.false for part in parts))

    def mask(self, rows: Rows) -> pa.BooleanArray:
        """Return the conjunction for each row."""
        return reduce(pc.and_kleene, (part.mask(rows) for part in self.parts))


@dataclass(frozen=True, slots=True)
class Or:
    """Any of some parts; there is at least one."""

    parts: tuple[Condition, ...]

    def outcomes(self, bounds: Mapping[str, Bounds]) -> Outcomes:
        """Return what is possible when the parts are independent of each other."""
        parts = [part.outcomes(bounds) for part in self.parts]
        return Outcomes(true=any(part.true for part in parts), false=all(part.false for part in parts))

    def mask(self, rows: Rows) -> pa.BooleanArray:
        """Return the disjunction for each row."""
        return reduce(pc.or_kleene, (part.mask(rows) for part in self.parts))


def selects_alike(
    condition: Condition, first: Mapping[str, Bounds], other: Condition, second: Mapping[str, Bounds]
) -> bool:
    """Return whether two conditions of the same form select the same rows, each within bounds of single values.

    Whether they are true depends only on the parts that are true, or below a NOT false: there null is like false.
    """
    return _alike(condition, first, other, second, is_negated=False)


def _alike(
    condition: Condition,
    first: Mapping[str, Bounds],
    other: Condition,
    second: Mapping[str, Bounds],
    *,
    is_negated: bool,
) -> bool:
    if isinstance(condition, Not) and isinstance(other, Not):
        return _alike(condition.part, first, other.part, second, is_negated=not is_negated)
    if isinstance(condition, (And, Or)) and isinstance(other, (And, Or)):
        pairs = zip(condition.parts, other.parts, strict=True)
        return all(_alike(part, first, like, second, is_negated=is_negated) for part, like in pairs)
    before, after = condition.outcomes(first), other.outcomes(second)
    return before.false == after.false if is_negated else before.true == after.true


def as_texts(condition: Condition, text_of: Mapping[str, Callable[[Any], str]]) -> Condition:
    """Return a condition that compares some columns, by their lower-case names, as texts, but integers only by `=`.

    The bounds of their texts are those of the names that `text_column` returns.
    """
    if isinstance(condition, Not):
        return Not(as_texts(condition.part, text_of))
    if isinstance(condition, (And, Or)):
        return type(condition)(tuple(as_texts(part, text_of) for part in condition.parts))
    if not isinstance(condition, (IsNull, Comparison, IsIn, Like)) or condition.column.name not in text_of:
        return condition
    column, text = text_column(condition.column.name), text_of[condition.column.name]
    if isinstance(condition, IsNull):
        return IsNull(column)
    if isinstance(condition, Like):
        return Like(column, condition.pattern)
    if isinstance(condition, IsIn):
        return IsIn(column, tuple(sorted(map(text, condition.values))))
    if pa.types.is_integer(condition.column.type) and condition.operator is not Operator.EQUAL:
        return condition
    return Comparison(column, condition.operator, text(condition.value))


def text_column(name: str) -> ColumnOf:
    """Return the column of the texts of a column."""
    return ColumnOf(f"text of {name}", pa.string())


def for_values(column: ColumnOf, *, value: bool) -> Condition:
    """Return the condition that has this value for every row, but null where the column is."""
    if value:
        return Or((Not(IsNull(column)), Constant(None)))
    return And((IsNull(column), Constant(None)))


def all_of(parts: Sequence[Condition]) -> Condition:
    """Return the conjunction of one or more parts."""
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def any_of(parts: Sequence[Condition]) -> Condition:
    """Return the disjunction of one or more parts."""
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def is_one_of(column: ColumnOf, values: Sequence[Any]) -> Condition:
    """Return the condition that a column has one of some values of its domain; of no values it is false."""
    is_nan = [value for value in values if isinstance(value, float) and math.isnan(value)]
    numbers = sorted({value + 0.0 if column.has_nan else value for value in values if value == value})
    parts: list[Condition] = [IsIn(column, tuple(numbers))] if numbers else []
    if is_nan:
        parts.append(Comparison(column, Operator.EQUAL, math.nan))
    return any_of(parts) if parts else for_values(column, value=False)


def ordered_bounds(column: ColumnOf, known: Bounds) -> tuple[Any, Any]:
    """Return the bounds of a column by which its values compare.

    A CHAR compares without the blanks at its end. A value without them may lie above its lower bound without them only
    if that bound has no sign below the blank; it never lies above its upper bound with them.
    """
    low, high = known.low, known.high
    if column.is_char and low is not None:
        if low == high:
            low = high = low.rstrip(" ")
        else:
            low = low.rstrip(" ") if min(low, default=" ") >= " " else None
    return sort_key(column, low), sort_key(column, high)


def sort_key(column: ColumnOf, value: Any) -> Any:
    """Return what a value of a column sorts by, NaN as the greatest; None for None."""
    if value is None or not column.has_nan:
        return value
    return (1, 0.0) if math.isnan(value) else (0, value)


_LINE_END = re.compile("[\n\r\u0085\u2028\u2029]")
_PLAIN_PATTERN = re.compile(r"%?(?:\\[%_]|[^%_])*%?", re.DOTALL)


def is_complex_pattern(pattern: str) -> bool:
    """Return whether a pattern of LIKE is more than one text with a % before or after it, or both."""
    return _PLAIN_PATTERN.fullmatch(pattern) is None


_WILDCARD = re.compile(r"((?:\\[%_]|[^%_])*)(.*)", re.DOTALL)


def split_pattern(pattern: str) -> tuple[str, str]:
    """Return the text with which all texts begin that match a pattern of LIKE, and the pattern from there on."""
    parts = _WILDCARD.fullmatch(pattern)
    assert parts is not None
    return re.sub(r"\\([%_])", r"\1", parts[1]), parts[2]
