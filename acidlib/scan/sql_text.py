"""The text of a predicate, parsed by sqlglot, as a condition.

sqlglot accepts more than a condition can say. So every node has to be of a kind that is known here, with no argument
beyond those that are used: nothing in a text is passed over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, time
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from acidlib.errors import UsageError
from acidlib.scan.conditions import ColumnOf, Columns, Condition, Constant, IsNull, Not, Operator, all_of, any_of
from acidlib.scan.literals import (
    DIGITS,
    MAX_DIGITS,
    NULL,
    Literal,
    LiteralKind,
    UnsupportedError,
    among_decimals,
    between,
    compared,
    day_of,
    listed,
    matched,
    moment_of,
    nearest_float,
    same_or_both_null,
    type_name,
)
from acidlib.wording import did_you_mean

Node: TypeAlias = Any
"""A node of a parsed text; the name of its class differs between the releases of sqlglot."""

_COMPARISONS: dict[type[Node], Operator] = {
    exp.EQ: Operator.EQUAL,
    exp.LT: Operator.LESS,
    exp.LTE: Operator.AT_MOST,
    exp.GT: Operator.GREATER,
    exp.GTE: Operator.AT_LEAST,
}
_TURNED = {
    Operator.LESS: Operator.GREATER,
    Operator.AT_MOST: Operator.AT_LEAST,
    Operator.GREATER: Operator.LESS,
    Operator.AT_LEAST: Operator.AT_MOST,
}
"""The operator after its sides have changed places."""

_SIDES = frozenset({"this", "expression"})
_REALS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""The texts that Hive and Spark cast to these numbers."""

_UNKNOWN_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\[^\\'\"%_ntr]", re.DOTALL)
"""Escapes in texts that the releases of sqlglot read in different ways, such as those by numbers."""

_FUNCTIONS = frozenset(
    {
        *("current_catalog", "current_database", "current_date", "current_schema", "current_time"),
        *("current_timestamp", "current_user", "localtimestamp", "session_user", "user"),
    }
)
"""Functions of Spark that are called without parentheses: the releases of sqlglot take some of them for columns."""

_DAY = re.compile(r"([0-9]{4}) - ([0-9]{1,2}) - ([0-9]{1,2})", re.ASCII)
"""A date without quotes, as its node is written."""
_MAX_SHOWN = 20
_MAX_SHOWN_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A part that the whole is a conjunction of; `condition` is None, with the reason, where it is not supported."""

    condition: Condition | None
    columns: frozenset[str]
    reason: str = ""


def conjuncts(text: str, columns: Columns, *, dialect: str) -> list[Conjunct]:
    """Parse a text and return the parts between its outermost ANDs.

    Raises UsageError for a text that does not parse, for a name that is no column, and for a date without quotes.
    """
    escape = _UNKNOWN_ESCAPE.search(text)
    if escape:
        raise unusable(text, f"the escape {escape[0][-2:]} is not supported")
    try:
        trees = Dialect.get_or_raise(dialect).parse_into(exp.Condition, text)
        if len(trees) != 1 or trees[0] is None:
            raise unusable(text, f"it has {sum(tree is not None for tree in trees)} conditions instead of one")
        return [_conjunct(node, text, columns) for node in _flat(trees[0], exp.And)]
    except SqlglotError as error:
        raise unusable(text, _place(error)) from None
    except RecursionError:
        raise unusable(text, "it is nested too deeply") from None


def _place(error: SqlglotError) -> str:
    """Return where a text cannot be parsed, in words."""
    for place in getattr(error, "errors", []):
        if place.get("line") and place.get("highlight"):
            return f"it cannot be parsed at {place['highlight']!r} in line {place['line']}, column {place['col']}"
    return "it cannot be parsed: a quote or comment has no end"


def _conjunct(node: Node, text: str, columns: Columns) -> Conjunct:
    parser = _Parser(text, columns)
    parser.check_names(node)
    try:
        condition = parser.condition(node)
    except _UnquotedDayError as error:
        raise unusable(text, str(error)) from None
    except UnsupportedError as error:
        return Conjunct(None, frozenset(), str(error))
    return Conjunct(condition, frozenset(parser.named))


class _UnquotedDayError(UnsupportedError):
    """A date has no quotes: a mistake also where another one evaluates the condition, which may select no row."""


class _Parser:
    """Makes conditions of nodes, and notes the columns that they name."""

    def __init__(self, text: str, columns: Columns) -> None:
        self._text = text
        self._columns = columns
        self.named: set[str] = set()
        self._forms: dict[type[Node], Callable[[Node], Condition]] = {
            exp.Not: self._not,
            exp.And: self._and,
            exp.Or: self._or,
            exp.Boolean: self._constant,
            exp.Null: self._constant,
            exp.Column: self._truth,
            exp.NEQ: self._other,
            exp.NullSafeEQ: self._same,
            exp.NullSafeNEQ: self._not_same,
            exp.Is: self._is,
            exp.In: self._in,
            exp.Between: self._between,
            exp.Like: self._like,
            **dict.fromkeys(_COMPARISONS, self._comparison),
        }

    def check_names(self, node: Node) -> None:
        """Raise UsageError for a name that is no column, except below functions, which are not understood anyway."""
        for part in _own_parts(node):
            is_name = isinstance(part, exp.Column) and not part.table and isinstance(part.this, exp.Identifier)
            if is_name and (part.this.quoted or part.name.lower() not in _FUNCTIONS):
                self._column_named(part.name)

    def condition(self, node: Node) -> Condition:
        """Return the condition of a node. Raises UnsupportedError with the part and the reason."""
        node = _inner(node)
        form = self._forms.get(type(node))
        if form is None:
            raise _unknown(node)
        try:
            return form(node)
        except UnsupportedError as error:
            shown = _sql(node)
            reason = str(error)
            raise type(error)(reason if reason.startswith("in ") else f"in {shown}: {reason}") from None

    def _not(self, node: exp.Not) -> Condition:
        _assert_only(node, "this")
        return Not(self.condition(node.this))

    def _truth(self, node: exp.Column) -> Condition:
        column = self._column(node)
        if not pa.types.is_boolean(column.type):
            raise UnsupportedError(f"column {column.name} is {type_name(column)}, and a condition is BOOLEAN")
        return compared(column, Operator.EQUAL, Literal(LiteralKind.BOOLEAN, True))

    def _and(self, node: exp.And) -> Condition:
        return all_of([self.condition(part) for part in _flat(node, exp.And)])

    def _or(self, node: exp.Or) -> Condition:
        return any_of([self.condition(part) for part in _flat(node, exp.Or)])

    def _constant(self, node: exp.Boolean | exp.Null) -> Condition:
        return Constant(literal_of(node).value)

    def _comparison(self, node: exp.Binary) -> Condition:
        column, literal, is_turned = self._sides(node)
        operator = _COMPARISONS[type(node)]
        return compared(column, _TURNED.get(operator, operator) if is_turned else operator, literal)

    def _other(self, node: exp.NEQ) -> Condition:
        column, literal, _ = self._sides(node)
        return Not(compared(column, Operator.EQUAL, literal))

    def _same(self, node: exp.Binary) -> Condition:
        column, literal, _ = self._sides(node)
        return same_or_both_null(column, literal)

    def _not_same(self, node: exp.Binary) -> Condition:
        return Not(self._same(node))

    def _sides(self, node: exp.Binary) -> tuple[ColumnOf, Literal, bool]:
        """Return column and literal of a comparison, and whether the literal comes first."""
        _assert_only(node, *_SIDES)
        left, right = _inner(node.this), _inner(node.expression)
        is_turned = isinstance(right, exp.Column) and not isinstance(left, exp.Column)
        if is_turned:
            left, right = right, left
        return self._column(left), literal_of(right), is_turned

    def _is(self, node: exp.Is) -> Condition:
        _assert_only(node, *_SIDES)
        column, word = self._column(_inner(node.this)), node.expression
        if isinstance(word, exp.Null):
            return IsNull(column)
        if not isinstance(word, exp.Boolean):
            raise _unknown(node)
        return same_or_both_null(column, Literal(LiteralKind.BOOLEAN, bool(word.this)))

    def _in(self, node: exp.In) -> Condition:
        _assert_only(node, "this", "expressions", "negate")
        if not node.expressions:
            raise UnsupportedError("the list is empty")
        literals = [literal_of(_inner(part)) for part in node.expressions]
        return _negated(node, listed(self._column(_inner(node.this)), literals))

    def _between(self, node: exp.Between) -> Condition:
        _assert_only(node, "this", "low", "high", "negate")
        column = self._column(_inner(node.this))
        low, high = (literal_of(_inner(node.args[name])) for name in ("low", "high"))
        return _negated(node, between(column, low, high))

    def _like(self, node: exp.Like) -> Condition:
        _assert_only(node, *_SIDES, "negate")
        return _negated(node, matched(self._column(_inner(node.this)), literal_of(_inner(node.expression))))

    def _column(self, node: Node) -> ColumnOf:
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            raise UnsupportedError(f"{_sql(node)} is no column")
        if set(_stated(node)) != {"this"}:
            raise UnsupportedError(
                f"{_sql(node)}: a column is named without its table, and fields of structs are not supported"
            )
        column = self._column_named(node.name)
        self.named.add(column.name)
        return column

    def _column_named(self, name: str) -> ColumnOf:
        column = self._columns.get(name.lower())
        if column is None:
            names = sorted(self._columns)
            more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
            raise unusable(
                self._text,
                f"there is no column {name}; the columns are {', '.join(names[:_MAX_SHOWN])}{more}"
                f"{did_you_mean(name.lower(), names)}",
            )
        return column


def literal_of(node: Node) -> Literal:
    """Return the literal of a node, casts and signs carried out. Raises UnsupportedError for anything else."""
    node = _inner(node)
    if isinstance(node, exp.Null):
        return NULL
    if isinstance(node, exp.Boolean):
        return Literal(LiteralKind.BOOLEAN, bool(node.this))
    if isinstance(node, exp.Literal):
        return Literal(LiteralKind.TEXT, node.this) if node.is_string else _number(node.this)
    if isinstance(node, exp.Neg):
        _assert_only(node, "this")
        literal = literal_of(node.this)
        value = literal.value
        if isinstance(value, bool) or not isinstance(value, (int, Decimal, float)):
            raise UnsupportedError(f"{_sql(node)} is no number")
        # the minus of a Decimal rounds it to the digits of the current context
        return replace(literal, value=value.copy_negate() if isinstance(value, Decimal) else -value)
    if type(node) in (exp.Cast, exp.TryCast):
        if set(_stated(node)) - {"this", "to", "safe"}:
            raise _unknown(node)
        return _cast(node)
    if day := _DAY.fullmatch(_sql(node)):
        raise _UnquotedDayError(f"{_sql(node)} is a subtraction; a date has quotes: '{'-'.join(day.groups())}'")
    raise UnsupportedError(f"{_sql(node)} is no literal")


def _number(text: str) -> Literal:
    if "e" in text.lower():
        value = float(text)
        if not math.isfinite(value):
            raise UnsupportedError(f"{text} is too large for a DOUBLE")
        return Literal(LiteralKind.DOUBLE, value)
    number = Decimal(text)
    if len(number.as_tuple().digits) > MAX_DIGITS or -int(number.as_tuple().exponent) > MAX_DIGITS:
        raise UnsupportedError(f"{text} has more than {MAX_DIGITS} digits")
    return Literal(LiteralKind.DECIMAL, number) if "." in text else Literal(LiteralKind.INTEGER, int(number))


_INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_PLAIN_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)


def _cast(node: Node) -> Literal:
    """Return a cast literal. Readers agree on casts that lose nothing, and on those of numbers to FLOAT and DOUBLE."""
    literal, to = literal_of(node.this), node.args["to"]
    name = str(getattr(to.this, "value", to.this)).upper()
    if set(_stated(to)) - {"this", "nested", *(["expressions"] if name == "DECIMAL" else [])}:
        raise _unknown(node)
    if literal.kind is LiteralKind.NULL:
        return literal
    result = _cast_text(literal, name) if literal.kind is LiteralKind.TEXT else _cast_value(literal, name)
    if result is not None and name == "DECIMAL":
        result = _fitting_decimal(result, to)
    if result is None:
        raise UnsupportedError(f"readers disagree on {_sql(node)}, or it is not supported: write the value itself")
    return result


def _cast_text(literal: Literal, name: str) -> Literal | None:
    text = literal.value
    if name == "DATE" and (day := day_of(text)):
        return Literal(LiteralKind.DATE, day)
    if name == "TIMESTAMP" and (moment := moment_of(text)):
        return Literal(LiteralKind.TIMESTAMP if moment.tzinfo is None else LiteralKind.INSTANT, moment)
    if name in ("FLOAT", "DOUBLE") and text in _REALS:
        return Literal(LiteralKind[name], _REALS[text])
    return _cast_value(_number(text), name) if _PLAIN_NUMBER.fullmatch(text) else None


def _cast_value(literal: Literal, name: str) -> Literal | None:
    kind, value = literal.kind, literal.value
    if kind in (LiteralKind.INTEGER, LiteralKind.DECIMAL, LiteralKind.FLOAT, LiteralKind.DOUBLE):
        if name == "DOUBLE":
            return Literal(LiteralKind.DOUBLE, float(value))
        if name == "FLOAT":
            rounded = nearest_float(value)
            return None if math.isinf(rounded) and not math.isinf(value) else Literal(LiteralKind.FLOAT, rounded)
        if kind in (LiteralKind.FLOAT, LiteralKind.DOUBLE):
            return None
        if name == "DECIMAL":
            return Literal(LiteralKind.DECIMAL, Decimal(value))
        bits = _INTEGER_BITS.get(name, 0)
        fits = bits and value == int(value) and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)
        return Literal(LiteralKind.INTEGER, int(value), whole=DIGITS[bits]) if fits else None
    if kind is LiteralKind.DATE and name == "TIMESTAMP":
        return Literal(LiteralKind.TIMESTAMP, datetime.combine(value, time.min))
    is_same = (kind, name) in ((LiteralKind.DATE, "DATE"), (LiteralKind.TIMESTAMP, "TIMESTAMP"))
    return literal if is_same or (kind is LiteralKind.BOOLEAN and name == "BOOLEAN") else None


def _fitting_decimal(literal: Literal, to: Node) -> Literal | None:
    """Return a decimal that fits the type to which it is cast, or None."""
    numbers = [str(part.this) for part in to.expressions]
    if len(numbers) > 2 or not all(re.fullmatch("[0-9]{1,2}", number, re.ASCII) for number in numbers):
        return None
    precision, scale = (*map(int, numbers), *(10, 0)[len(numbers) :])  # a DECIMAL alone has ten digits
    if not 1 <= precision <= MAX_DIGITS or scale > precision:
        return None
    place = among_decimals(pa.decimal128(precision, scale), literal.value)
    return Literal(LiteralKind.DECIMAL, place.value, whole=precision - scale) if place.is_exact else None


def unusable(text: str, reason: str) -> UsageError:
    """Return the error for a predicate that cannot be used."""
    shown = text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}…"
    return UsageError(f"Cannot filter rows by {shown!r}: {reason}")


def _flat(node: Node, kind: type[Node]) -> Iterator[Node]:
    """Yield the operands of a chain of ANDs or ORs from left to right, parentheses removed."""
    waiting = [node]
    while waiting:
        part = _inner(waiting.pop())
        if type(part) is kind:
            _assert_only(part, *_SIDES)
            waiting += [part.expression, part.this]
        else:
            yield part


_TRANSPARENT = (
    *(exp.Paren, exp.Not, exp.Neg, exp.And, exp.Or, exp.Is, exp.In, exp.Between, exp.Like),
    *(*_COMPARISONS, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ),
)
"""The nodes below which a name is one of a column of the table."""


def _own_parts(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        if type(part) in _TRANSPARENT:
            waiting += list(part.iter_expressions())


def _inner(node: Node) -> Node:
    """Return a node without the parentheses around it."""
    while isinstance(node, exp.Paren):
        _assert_only(node, "this")
        node = node.this
    return node


def _stated(node: Node) -> list[str]:
    """Return the names of the arguments that a node has."""
    return [name for name, value in node.args.items() if value not in (None, False, [])]


def _assert_only(node: Node, *names: str) -> None:
    """Raise UnsupportedError for a node with an argument that is not used, such as SYMMETRIC of BETWEEN."""
    if set(_stated(node)) - set(names):
        raise _unknown(node)


def _negated(node: Node, condition: Condition) -> Condition:
    """Return the condition, or its contrary for the `NOT` of NOT IN, NOT BETWEEN and NOT LIKE."""
    return Not(condition) if node.args.get("negate") else condition


def _unknown(node: Node) -> UnsupportedError:
    return UnsupportedError(f"in {_sql(node)}: this is not supported")


def _sql(node: Node) -> str:
    return str(node.sql(dialect="hive"))
