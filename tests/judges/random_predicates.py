"""Random predicates in SQL, each with a plain evaluation in Python that knows nothing of how acidlib does it.

They are such that Hive and Spark evaluate alike; those on which they differ are in `conformance/test_conditions.py`.

Columns have a kind, as Hive writes it, and sample values, near which the literals lie. Values are Python's: bool, int,
float, Decimal, str, date, datetime (of an "instant" with a zone); a date or timestamp beyond these its microseconds.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

Row = Mapping[str, Any]
Truth = bool | None
Literal = tuple[str, Any]
"""Its text in SQL, and its value."""

INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
ONLY_NULLS = "other"
"""The kind of a column that has only null tests."""

_EPOCH = datetime(1970, 1, 1)
_CHAR_LENGTH = 3
_LINE_ENDS = frozenset("\n\r\x85\u2028\u2029")
"""What Hive 3.1 takes for no character where a pattern is more than a text and a % before or after it."""
_UNLIKE = frozenset("\U0001f600")
"""What Hive and Spark do not find by such a pattern."""

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A predicate's text, and its value for a row."""

    text: str
    value: Callable[[Row], Truth]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A column: its kind and some values that are not null, maybe none."""

    kind: str
    samples: Sequence[Any]


def wanted(rng: random.Random, columns: Mapping[str, Sampled], depth: int = 3) -> Wanted:
    """A random predicate on some of the columns."""
    form = rng.random()
    if depth == 0 or form < 0.4:
        return _leaf(rng, columns)
    if form < 0.55:
        part = wanted(rng, columns, depth - 1)
        word = rng.choice(("NOT ", "not ", "! " if part.text.startswith("(") else "NOT "))
        return Wanted(text=f"{word}({part.text})", value=lambda row: _not(part.value(row)))
    parts = [wanted(rng, columns, depth - 1) for _ in range(rng.choice((2, 2, 3)))]
    if form < 0.78:
        return Wanted(
            text=rng.choice((" AND ", " and ")).join(f"({part.text})" for part in parts),
            value=lambda row: _all([part.value(row) for part in parts]),
        )
    return Wanted(
        text=rng.choice((" OR ", " or ")).join(f"({part.text})" for part in parts),
        value=lambda row: _not(_all([_not(part.value(row)) for part in parts])),
    )


def _not(value: Truth) -> Truth:
    return None if value is None else not value


def _all(values: list[Truth]) -> Truth:
    if False in values:
        return False
    return None if None in values else True


def _leaf(rng: random.Random, columns: Mapping[str, Sampled]) -> Wanted:
    name = rng.choice(list(columns))
    kind = columns[name].kind
    shown = rng.choice((name, name.upper(), f"`{name}`"))
    if rng.random() < 0.03:
        value = rng.choice((True, False, None))
        return Wanted(text="NULL" if value is None else str(value).lower(), value=lambda row: value)
    if kind == ONLY_NULLS or rng.random() < 0.12:
        negated = rng.random() < 0.5
        return Wanted(
            text=f"{shown} IS {'NOT ' if negated else ''}NULL", value=lambda row: (row[name] is None) != negated
        )
    if kind == "boolean" and rng.random() < 0.4:
        return _truth(rng, name, shown)
    if kind in ("string", "char") and rng.random() < 0.35:
        return _like(rng, name, shown, columns[name])
    literal = lambda: _literal(rng, columns[name])  # noqa: E731 - one of several forms
    form = rng.random()
    if form < 0.55:
        return _comparison(rng, name, shown, kind, literal())
    negated = rng.random() < 0.4
    word = "NOT " if negated else ""
    if form < 0.75:
        is_whole = kind in INTEGERS  # texts beside them are read in different ways
        low, high = (_listed_alike(columns[name], _literal(rng, columns[name], in_list=is_whole)) for _ in range(2))
        return _between(name, f"{shown} {word}BETWEEN", kind, low, high, negated=negated)
    values = _list(rng, columns[name])
    return _in(name, f"{shown} {word}IN", kind, values, negated=negated)


def _truth(rng: random.Random, name: str, shown: str) -> Wanted:
    if rng.random() < 0.4:
        return Wanted(text=shown, value=lambda row: row[name])
    truth, negated = rng.random() < 0.5, rng.random() < 0.5
    text = f"{shown} IS {'NOT ' if negated else ''}{str(truth).upper()}"
    return Wanted(text=text, value=lambda row: (row[name] is truth) != negated)


def _comparison(rng: random.Random, name: str, shown: str, kind: str, literal: Literal) -> Wanted:
    text, value = literal
    if rng.random() < 0.12:
        literal_text = rng.choice((text, "NULL"))
        null_safe = literal_text == "NULL"
        return Wanted(
            text=f"{shown} <=> {literal_text}",
            value=lambda row: (
                row[name] is None if null_safe else row[name] is not None and rank(kind, row[name]) == rank(kind, value)
            ),
        )
    operator = rng.choice(list(_COMPARISONS))
    turned = rng.random() < 0.2
    left, right, sign = (text, shown, _TURNED.get(operator, operator)) if turned else (shown, text, operator)
    return Wanted(text=f"{left} {sign} {right}", value=lambda row: _compared(operator, kind, row[name], value))


def _compared(operator: str, kind: str, value: Any, literal: Any) -> Truth:
    if value is None or literal is None:
        return None
    return _COMPARISONS[operator](rank(kind, value), rank(kind, literal))


def _between(name: str, begin: str, kind: str, low: Literal, high: Literal, *, negated: bool) -> Wanted:
    def value(row: Row) -> Truth:
        within = _all([_compared(">=", kind, row[name], low[1]), _compared("<=", kind, row[name], high[1])])
        return _not(within) if negated else within

    return Wanted(text=f"{begin} {low[0]} AND {high[0]}", value=value)


def _list(rng: random.Random, column: Sampled) -> list[Literal]:
    """Literals that readers may compare as one type: texts alone, and no FLOAT or DOUBLE beside whole numbers."""
    literals = [_listed_alike(column, _literal(rng, column, in_list=True)) for _ in range(rng.randint(1, 4))]
    if column.kind in INTEGERS:
        literals.append(("0", 0))  # one has to be a value of the column
    if column.kind in ("float", "double"):
        literals = [("1", 1.0) if value == 0 else (text, value) for text, value in literals]
    if rng.random() < 0.15:
        literals.insert(rng.randrange(len(literals) + 1), ("NULL", None))
    return literals


def _listed_alike(column: Sampled, literal: Literal) -> Literal:
    """A literal that readers compare alike in lists and BETWEEN: of a CHAR without blanks at its end."""
    if column.kind != "char":
        return literal
    value = literal[1].rstrip(" ")
    return _quoted(value), value


def _in(name: str, begin: str, kind: str, literals: list[Literal], *, negated: bool) -> Wanted:
    def value(row: Row) -> Truth:
        equal = [_compared("=", kind, row[name], literal) for _, literal in literals]
        member = True if True in equal else None if None in equal else False
        return _not(member) if negated else member

    return Wanted(text=f"{begin} ({', '.join(text for text, _ in literals)})", value=value)


def _like(rng: random.Random, name: str, shown: str, column: Sampled) -> Wanted:
    sample = str(rng.choice(column.samples)) if column.samples else "a"
    if column.kind == "char":
        pattern = sample[: rng.randint(0, 4)].replace("\\", "").rstrip(" ")
        signs: list[str | None] = [*pattern, None]
    else:
        signs = [sign for sign in sample[: rng.choice((3, 8, 50))] if sign != "\\"]
        for _ in range(rng.randint(0, 3)):
            place = rng.randint(0, len(signs))
            signs[place : place + rng.randint(0, 4)] = [rng.choice((None, "one"))]
    has_other_signs = any(set(map(str, signs)) & _UNLIKE or set(str(text)) & _LINE_ENDS for text in column.samples)
    if has_other_signs and (None in signs[1:-1] or "one" in signs):
        signs = [*(sign for sign in signs if sign not in (None, "one")), None]
    negated = rng.random() < 0.3
    sql = "".join(
        "%" if sign is None else "_" if sign == "one" else f"\\{sign}" if sign in "%_" else sign for sign in signs
    )
    text = sql.replace("'", "\\'")

    def value(row: Row) -> Truth:
        if row[name] is None:
            return None
        stored = row[name].rstrip(" ") if column.kind == "char" else row[name]
        return matches(stored, signs) != negated

    return Wanted(text=f"{shown} {'NOT ' if negated else ''}LIKE '{text}'", value=value)


def columns_of(types: Mapping[str, str], rows: Sequence[Row]) -> tuple[dict[str, Sampled], list[Row]]:
    """Columns of Hive's types with their rows, whose values are those of `values` in canonical form."""
    kinds = {name: _kind(text) for name, text in types.items()}
    plain = [{name: _plain(row[name], kind) for name, kind in kinds.items()} for row in rows]
    return {
        name: Sampled(kind=kind, samples=[row[name] for row in plain if _is_sample(row[name], kind)])
        for name, kind in kinds.items()
    }, plain


def _kind(text: str) -> str:
    name = text.partition("(")[0]
    known = (*INTEGERS, "boolean", "float", "double", "string", "char", "date", "timestamp")
    return text if name == "decimal" else "string" if name == "varchar" else name if name in known else ONLY_NULLS


def _plain(value: Any, kind: str) -> Any:
    if value is None or kind == ONLY_NULLS or isinstance(value, bool | int):
        return value
    letter, rest = value[0], value[2:]
    if letter == "f":
        return struct.unpack(">d", bytes.fromhex(rest))[0]
    if letter == "n":
        return Decimal(rest)
    if letter == "s":
        return rest
    seconds, nanos = map(int, rest.split(":")) if letter == "t" else (int(rest) * 86_400, 0)
    micros = seconds * 1_000_000 + nanos // 1000
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return micros
    return moment if letter == "t" else moment.date()


def _is_sample(value: Any, kind: str) -> bool:
    return value is not None and (isinstance(value, date) or kind not in ("date", "timestamp"))


def matches(text: str, signs: Sequence[str | None]) -> bool:
    """Whether a text is the signs, of which None stands for any text and "one" for any sign."""
    reached = {0}
    for sign in signs:
        if sign is None:
            reached = set(range(min(reached), len(text) + 1)) if reached else set()
        else:
            reached = {at + 1 for at in reached if at < len(text) and sign in ("one", text[at])}
    return len(text) in reached


def rank(kind: str, value: Any) -> Any:
    """What values of a kind, and literals beside them, compare by."""
    if isinstance(value, bool) or (isinstance(value, int) and kind in ("date", "timestamp")):
        return int(value)
    if isinstance(value, float) and not math.isfinite(value):
        return (3, 0) if math.isnan(value) else (2, 0) if value > 0 else (0, 0)
    if isinstance(value, (int, float, Decimal)):
        return 1, Fraction(value)
    if isinstance(value, str):
        return (value.rstrip(" ") if kind == "char" else value).encode()
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    return (moment - _EPOCH.replace(tzinfo=moment.tzinfo)) // timedelta(microseconds=1)


def _literal(rng: random.Random, column: Sampled, *, in_list: bool = False) -> Literal:
    kind = column.kind
    sample = rng.choice(column.samples) if column.samples and rng.random() < 0.8 else None
    if kind == "boolean":
        value = rng.random() < 0.5
        return str(value).upper(), value
    if kind in INTEGERS:
        return _integer(rng, INTEGERS[kind], sample, in_list=in_list)
    if kind in ("float", "double"):
        return _real(rng, sample, single=kind == "float")
    if kind.startswith("decimal"):
        return _decimal(rng, kind, sample)
    if kind in ("string", "char"):
        text = _text(rng, sample)
        if kind == "char" and len(text.rstrip(" ")) > _CHAR_LENGTH:
            text = text[:_CHAR_LENGTH]
        return _quoted(text), text
    if kind == "date":
        return _date(rng, sample, in_list=in_list)
    return _timestamp(rng, sample, with_zone=kind == "instant", in_list=in_list)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _integer(rng: random.Random, bits: int, sample: int | None, *, in_list: bool) -> Literal:
    limit = 2 ** (bits - 1)
    value = rng.choice((0, 1, -limit, limit - 1, limit, -limit - 1)) if sample is None else sample
    value = max(-(2**63), min(value + rng.choice((0, 0, 1, -1)), 2**63 - 1))
    form = rng.random()
    if form < 0.15 and abs(value) < 2**62:
        number = Decimal(value) + rng.choice((Decimal("0.5"), Decimal("-0.25"), Decimal(0)))
        return f"{number:f}" if "." in f"{number:f}" else f"{number:f}.0", number
    if in_list:
        return str(value), value
    if form < 0.25 and -limit <= value < limit:
        return f"'{value}'", value
    if form < 0.35 and -limit <= value < limit:
        return f"CAST({value} AS {rng.choice(('BIGINT', f'DECIMAL({max(19, len(str(abs(value))))},0)'))})", value
    if form < 0.45 and abs(value) < 2**50:
        return f"{value}.5e0", float(f"{value}.5")
    return str(value), value


def _real(rng: random.Random, sample: float | None, *, single: bool) -> Literal:
    value = rng.choice((0.0, -0.0, 1.0, math.nan, math.inf, -math.inf, 1e30)) if sample is None else sample
    name = "FLOAT" if single else "DOUBLE"
    if not math.isfinite(value):
        text = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return f"CAST('{text}' AS {name})", value
    value = value + rng.choice((0, 0, 0.25, -1))
    if single:
        try:
            (value,) = struct.unpack("<f", struct.pack("<f", value))
        except OverflowError:
            value = 1.0
        return f"CAST({value!r} AS FLOAT)", value
    text = repr(value)
    if "e" not in text and rng.random() < 0.3:
        return f"{text}e0", value
    return text, value


def _decimal(rng: random.Random, kind: str, sample: Decimal | None) -> Literal:
    precision, scale = (int(part) for part in kind[8:-1].split(","))
    value = Decimal(rng.choice((0, 1, -1, 10 ** max(0, min(precision - scale - 1, 30))))) if sample is None else sample
    step = rng.choice((0, 0, 1, -1))
    text = f"{value:f}"
    if step and precision < 30:
        text = f"{value + step * Decimal(1).scaleb(-scale - rng.choice((0, 1))):f}"
    return text, Decimal(text)


def _text(rng: random.Random, sample: str | None) -> str:
    text = rng.choice(("", "a", "é", "b'c", "x\\y", "\U0001f600", "漢")) if sample is None else sample
    form = rng.random()
    if form < 0.2:
        return text[: rng.randint(0, len(text))]
    if form < 0.35:
        return text + rng.choice((" ", "a", "z", "\U0001f600"))
    return text


def _date(rng: random.Random, sample: date | None, *, in_list: bool) -> Literal:
    value = sample or date(rng.randint(1600, 2100), rng.randint(1, 12), rng.randint(1, 28))
    if date(1000, 1, 2) < value < date(9999, 12, 30):
        value += timedelta(days=rng.choice((0, 0, 1, -1)))
    form = rng.random()
    if form < 0.3 and not in_list:
        return f"'{value.isoformat()}'", value
    if form < 0.5:
        moment = datetime(value.year, value.month, value.day)
        return f"TIMESTAMP '{moment.isoformat(' ')}'", moment
    text = f"'{value.isoformat()}'"
    return rng.choice((f"DATE {text}", f"CAST({text} AS DATE)")), value


def _timestamp(rng: random.Random, sample: datetime | None, *, with_zone: bool, in_list: bool) -> Literal:
    value = sample or datetime(rng.randint(1600, 2100), rng.randint(1, 12), 1, tzinfo=UTC if with_zone else None)
    if 1000 < value.year < 9999:
        value += rng.choice((timedelta(0), timedelta(0), timedelta(microseconds=1), timedelta(days=-1)))
    if not with_zone:
        if rng.random() < 0.2:
            day = value.date()
            return f"DATE '{day.isoformat()}'", datetime(day.year, day.month, day.day)
        text = f"'{value.isoformat(' ')}'"
        return text if rng.random() < 0.3 and not in_list else f"TIMESTAMP {text}", value
    offset = rng.choice(("Z", "+00:00", "+01:00", "-08:00"))
    hours = 0 if offset == "Z" else int(offset[:3])
    try:
        local = value.replace(tzinfo=None) + timedelta(hours=hours)
    except OverflowError:
        offset, local = "Z", value.replace(tzinfo=None)
    return f"TIMESTAMP '{local.isoformat(' ')}{offset}'", value
