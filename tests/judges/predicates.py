"""Random conditions on a row, in Hive's SQL, and what each means: evaluated naively, in three-valued logic.

Only the words of a text and its meaning are here; nothing parses. Values are those of ``values`` in canonical form.
On these conditions Hive and Spark agree: others are in ``conformance/test_conditions.py``.
"""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from judges.hive_text import civil

Row = Mapping[str, Any]
Truth = bool | None
INTEGERS = ("tinyint", "smallint", "int", "bigint")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LINE_END = re.compile("[\n\r\u0085\u2028\u2029]")
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896


class UndecidedError(Exception):
    """A comparison with NaN: engines differ, so the row may be there or not."""


@dataclass(frozen=True, slots=True)
class Condition:
    """``text`` in Hive's SQL, and what it is for a row (by the names of its columns in lower case)."""

    text: str
    truth: Callable[[Row], Truth]

    def selects(self, row: Row) -> bool | None:
        """Whether the row is selected; None where engines may differ."""
        try:
            return self.truth(row) is True
        except UndecidedError:
            return None


def comparable(value: Any, kind: str) -> Any:
    """What a column's value is compared as. Raises UndecidedError for NaN."""
    if value is None or isinstance(value, bool | int):
        return value
    letter, rest = value[0], value[2:]
    if letter == "f":
        (number,) = struct.unpack(">d", bytes.fromhex(rest))
        if number != number:
            raise UndecidedError
        return number
    if letter == "n":
        return Decimal(rest)
    if letter == "d":
        return int(rest)
    if letter == "t":
        seconds, nanos = map(int, rest.split(":"))
        return seconds * 1_000_000 + nanos // 1000
    assert letter == "s", value
    return rest.rstrip(" ") if kind.startswith("char") else rest


def literal(value: Any, kind: str) -> str:
    """A value of a column as it is written in SQL."""
    if kind == "boolean":
        return "true" if value else "false"
    if kind in INTEGERS:
        return str(value)
    if kind in ("float", "double"):
        return repr(value).replace("e+", "E").replace("e", "E")
    if kind.startswith("decimal"):
        return f"{value:f}"
    if kind == "date":
        return f"date '{civil(value, hybrid=False)}'"
    if kind == "timestamp":
        return f"timestamp '{_moment(value)}'"
    return quoted(value)


def quoted(text: str) -> str:
    """A text in Hive's quotes, with its escapes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _moment(micros: int) -> str:
    days, rest = divmod(micros, 86_400_000_000)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{civil(days, hybrid=False)} {clock}" + (f".{fraction:06d}" if fraction else "")


def is_comparable(kind: str) -> bool:
    """Whether conditions of this module may compare values of a type."""
    plain = (*INTEGERS, "boolean", "float", "double", "string", "date", "timestamp")
    return kind in plain or kind.startswith(("decimal", "char", "varchar"))


def condition(rng: random.Random, types: Mapping[str, str], rows: Sequence[Row], *, depth: int = 2) -> Condition:
    """A condition on columns of these types; most values in it are some that the rows have."""
    shape = rng.random()
    if depth and shape < 0.25:
        parts = [condition(rng, types, rows, depth=depth - 1) for _ in range(rng.randint(2, 3))]
        word = rng.choice(("and", "or", "AND"))
        text = f" {word} ".join(f"({part.text})" for part in parts)
        return Condition(text, _all_of(parts) if word.lower() == "and" else _any_of(parts))
    if depth and shape < 0.35:
        inner = condition(rng, types, rows, depth=depth - 1)
        return Condition(f"not ({inner.text})", lambda row: _not(inner.truth(row)))
    name = rng.choice(list(types))
    return _of_column(rng, name, types[name], rows)


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _all_of(parts: Sequence[Condition]) -> Callable[[Row], Truth]:
    def truth(row: Row) -> Truth:
        found = [part.truth(row) for part in parts]
        return False if False in found else None if None in found else True

    return truth


def _any_of(parts: Sequence[Condition]) -> Callable[[Row], Truth]:
    def truth(row: Row) -> Truth:
        found = [part.truth(row) for part in parts]
        return True if True in found else None if None in found else False

    return truth


def _of_column(rng: random.Random, name: str, kind: str, rows: Sequence[Row]) -> Condition:
    key = name.lower()
    spelt = f"`{name}`" if not re.fullmatch(r"\w+", name) or rng.random() < 0.1 else name
    spelt = spelt.upper() if rng.random() < 0.1 else spelt
    shape = rng.random()
    if shape < 0.15 or not is_comparable(kind):
        if rng.random() < 0.5:
            return Condition(f"{spelt} is null", lambda row: row[key] is None)
        return Condition(f"{spelt} IS NOT NULL", lambda row: row[key] is not None)

    def value(row: Row) -> Any:
        return comparable(row[key], kind)

    pick = _picker(rng, key, kind, rows)
    if kind == "boolean" and shape < 0.5:
        return Condition(spelt, value)
    if shape < 0.3:
        given = [pick() for _ in range(rng.randint(1, 4))]
        if kind in ("float", "double"):
            given = [one or 1.5 for one in given]  # 0 and -0.0
        if kind in INTEGERS:
            given.append(0)  # one has to be a value of the column
        return _in(rng, spelt, kind, value, given)
    if shape < 0.42:
        low, high = pick(), pick()
        if rng.random() < 0.8 and high < low:
            low, high = high, low
        return _between(rng, spelt, kind, value, low, high)
    if shape < 0.55 and kind.startswith(("string", "varchar")):
        has_ends = any(_LINE_END.search(row[key] or "") for row in rows)
        return _like(rng, spelt, value, str(pick()), is_plain=has_ends)
    return _compared(rng, spelt, kind, value, pick())


def _compared(rng: random.Random, spelt: str, kind: str, value: Callable[[Row], Any], given: Any) -> Condition:
    text = literal(given, kind)
    if kind == "date" and rng.random() < 0.3:
        text = text.removeprefix("date ")
    if rng.random() < 0.1:
        return Condition(f"{spelt} <=> {text}", lambda row: value(row) is not None and bool(value(row) == given))
    if kind in INTEGERS and rng.random() < 0.15 and given < (1 << 63) - 1:  # more is refused
        given, text = given + Decimal("0.5"), f"{given}.5" if given >= 0 else f"{given + Decimal('0.5')}"
    word = rng.choice(list(_OPERATORS))
    compare = _OPERATORS[word]

    def truth(row: Row) -> Truth:
        found = value(row)
        return None if found is None else compare(found, given)

    if rng.random() < 0.15:
        return Condition(f"{text} {_MIRRORED.get(word, word)} {spelt}", truth)
    return Condition(f"{spelt} {word} {text}", truth)


def _in(rng: random.Random, spelt: str, kind: str, value: Callable[[Row], Any], given: Sequence[Any]) -> Condition:
    texts = [literal(one, kind) for one in given]
    has_null = rng.random() < 0.1
    listed = ", ".join([*texts, "null"] if has_null else texts)

    def truth(row: Row) -> Truth:
        found = value(row)
        return None if found is None else True if found in given else None if has_null else False

    if rng.random() < 0.3:
        return Condition(f"{spelt} not in ({listed})", lambda row: _not(truth(row)))
    return Condition(f"{spelt} in ({listed})", truth)


def _between(rng: random.Random, spelt: str, kind: str, value: Callable[[Row], Any], low: Any, high: Any) -> Condition:
    def truth(row: Row) -> Truth:
        found = value(row)
        return None if found is None else bool(low <= found <= high)

    both = f"between {literal(low, kind)} and {literal(high, kind)}"
    if rng.random() < 0.3:
        return Condition(f"{spelt} not {both}", lambda row: _not(truth(row)))
    return Condition(f"{spelt} {both}", truth)


def _like(rng: random.Random, spelt: str, value: Callable[[Row], Any], given: str, *, is_plain: bool) -> Condition:
    plain = re.sub(r"[%_\\']", "", given)[:20]
    cut = plain[: rng.randint(0, len(plain))]
    complex_pattern = plain if is_plain or cut[:1] > "\uffff" else f"{cut[:1]}_%"
    pattern = rng.choice((f"{cut}%", f"%{cut[-2:]}", f"%{cut[:2]}%", complex_pattern, plain))
    wanted = re.compile("".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern), re.DOTALL)

    def truth(row: Row) -> Truth:
        found = value(row)
        return None if found is None else wanted.fullmatch(found) is not None

    return Condition(f"{spelt} like {quoted(pattern)}", truth)


def _picker(rng: random.Random, key: str, kind: str, rows: Sequence[Row]) -> Callable[[], Any]:
    """Values of the column, or some near to them, that can be written as literals."""
    known = []
    for row in rows:
        try:
            found = comparable(row[key], kind)
        except UndecidedError:
            continue
        if found is not None and _has_literal(found, kind):
            known.append(found)

    def pick() -> Any:
        if not known or rng.random() < 0.1:
            return _other(rng, kind)
        found = rng.choice(known)
        if rng.random() < 0.3:
            near = _near(rng, found, kind)
            return near if _has_literal(near, kind) else found
        return found

    return pick


def _has_literal(value: Any, kind: str) -> bool:
    if kind == "float":  # what is no short binary fraction, engines compare in different precisions
        return abs(value) < 1e6 and value * 4 == int(value * 4)
    if kind == "double":
        return abs(value) < 1e15 and (value == 0 or abs(value) > 1e-3)
    if kind == "date":
        return _FIRST_DAY <= value <= _LAST_DAY
    if kind == "timestamp":
        return _FIRST_DAY <= value // 86_400_000_000 <= _LAST_DAY
    if kind in INTEGERS:
        return -(2**63) < value < 2**63
    if kind.startswith("decimal"):
        precision, scale = map(int, kind[len("decimal(") : -1].split(","))
        return bool(abs(value) < 10 ** (precision - scale))
    return True


def _near(rng: random.Random, value: Any, kind: str) -> Any:
    if kind == "boolean":
        return not value
    if kind in (*INTEGERS, "date", "timestamp"):
        return value + rng.choice((-1, 1, 100))
    if kind in ("float", "double"):
        return value + rng.choice((-0.25, 1.0))
    if kind.startswith("decimal"):
        return value + rng.choice((-1, 1))
    return _short(rng.choice((value[:-1], value + "a", value.upper())), kind)


def _short(text: str, kind: str) -> str:
    """As much of a text as a CHAR or VARCHAR can hold."""
    if not kind.startswith(("char", "varchar")):
        return text
    text = text[: int(kind.partition("(")[2].rstrip(")"))]
    return text.rstrip(" ") if kind.startswith("char") else text


def _other(rng: random.Random, kind: str) -> Any:
    if kind == "boolean":
        return True
    if kind in INTEGERS or kind in ("date", "timestamp"):
        return rng.choice((0, 1, -1, 100, 10_000))
    if kind in ("float", "double"):
        return rng.choice((0.0, 1.5, -2.25))
    if kind.startswith("decimal"):
        return Decimal(0)
    return _short(rng.choice(("", "a", "m", "é", "it's", "back\\slash")), kind)
