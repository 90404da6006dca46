"""Random ORC types and values from a seeded generator, in the form of ``values``: more of them than hypothesis draws.

Values of a column have a shape (constant, ascending, runs, outliers among small ones, ...), so that writers choose
every encoding that they have.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyorc
from pyorc import TypeKind

from judges.values import Timestamp

Sampler = Callable[[], Any]
"""Gives one value after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What values may be.

    modern      times of the last decades only, which all zones agree on
    small_sums  decimals of up to 18 digits add up to less than 10**18: beyond that Java's own sums are wrong
    """

    modern: bool = False
    small_sums: bool = False


ANY = Limits()

LEAVES = (
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "string",
    "char(5)",
    "varchar(9)",
    "binary",
    "date",
    "timestamp",
    "timestamp with local time zone",
    "decimal(5,2)",
    "decimal(18,0)",
    "decimal(18,18)",
    "decimal(38,10)",
)
_KEYS = ("int", "bigint", "string", "date", "decimal(20,3)", "smallint")
UNIONS = (
    "uniontype<int,string>",
    "uniontype<bigint,string,boolean,double>",
    "uniontype<array<int>,binary>",
    "uniontype<struct<a:int,b:string>,bigint>",
)
_BITS = {TypeKind.BYTE: 8, TypeKind.SHORT: 16, TypeKind.INT: 32, TypeKind.LONG: 64}
_TEXT = (TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR)
_FIRST, _LAST = -62_135_596_800, 253_402_300_799  # seconds of the years 0001 to 9999
_MODERN = (-600_000_000, 2_000_000_000)
_NANOS = (0, 0, 0, 1, 1000, 999_999, 1_000_000, 123_456_789, 120_000_000, 500_000_000, 999_999_999)
_LETTERS = "abcdefghij 0123456789éä漢"
_SPECIAL = (0.0, -0.0, 1.0, -1.5, float("inf"), float("-inf"), 1e300, 5e-324)


def columns(rng: random.Random, *, unions: bool, most: int = 5) -> str:
    """The columns of a table: ``struct<f0:…,f1:…>``. Unions only for Java: pyorc writes them wrongly beside nulls."""
    return _struct([_type(rng, 0, unions) for _ in range(rng.randint(1, most))])


def _struct(fields: list[str]) -> str:
    return "struct<" + ",".join(f"f{i}:{field}" for i, field in enumerate(fields)) + ">"


def _type(rng: random.Random, depth: int, unions: bool) -> str:
    if depth >= 3 or rng.random() < 0.72:
        return rng.choice(LEAVES + (UNIONS * 2 if unions else ()))
    form = rng.randrange(3)
    if form == 0:
        return f"array<{_type(rng, depth + 1, unions)}>"
    if form == 1:
        return f"map<{rng.choice(_KEYS)},{_type(rng, depth + 1, unions)}>"
    return _struct([_type(rng, depth + 1, unions) for _ in range(rng.randint(1, 3))])


def rows(rng: random.Random, schema: str, count: int, limits: Limits = ANY) -> list[tuple[Any, ...]]:
    """Rows of a struct, never null themselves."""
    kind = pyorc.TypeDescription.from_string(schema)
    fields = [_sampler(rng, field, limits, nulls=True) for field in kind.fields.values()]
    return [tuple(field() for field in fields) for _ in range(count)]


def _sampler(rng: random.Random, kind: Any, limits: Limits, *, nulls: bool) -> Sampler:
    found = _shaped(rng, _values(rng, kind, limits))
    share = rng.choice((0.0, 0.0, 0.1, 0.5, 0.95, 1.0)) if nulls else 0.0
    if not share:
        return found
    return lambda: None if rng.random() < share else found()


def _shaped(rng: random.Random, sample: Sampler) -> Sampler:
    """The same values as they come, or a constant, or runs, or picks from a few."""
    shape = rng.randrange(6)
    if shape == 0:
        constant = sample()
        return lambda: constant
    if shape == 1:
        few = [sample() for _ in range(rng.choice((2, 5, 40)))]
        return lambda: rng.choice(few)
    if shape == 2:
        return _runs(rng, sample)
    return sample


def _runs(rng: random.Random, sample: Sampler) -> Sampler:
    left, value = 0, None

    def after() -> Any:
        nonlocal left, value
        if not left:
            left, value = rng.choice((1, 2, 3, 9, 11, 140, 600)), sample()
        left -= 1
        return value

    return after


def _values(rng: random.Random, kind: Any, limits: Limits) -> Sampler:
    k = kind.kind
    if k in _BITS:
        return _integers(rng, _BITS[k])
    if k is TypeKind.BOOLEAN:
        return lambda: rng.random() < 0.5
    if k in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return _reals(rng, single=k is TypeKind.FLOAT)
    if k in _TEXT:
        return _texts(rng, kind)
    if k is TypeKind.BINARY:
        return lambda: "b:" + rng.randbytes(rng.choice((0, 1, 5, 30))).hex()
    if k is TypeKind.DATE:
        days = _integers(rng, 12 if limits.modern else 15)
        return lambda: f"d:{days() if rng.random() < 0.95 or limits.modern else rng.randint(-719_162, 2_932_896)}"
    if k in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT):
        return _instants(rng, limits.modern)
    if k is TypeKind.DECIMAL:
        return _decimals(rng, kind.precision, kind.scale, limits)
    return _nested(rng, kind, limits)


def _nested(rng: random.Random, kind: Any, limits: Limits) -> Sampler:
    k = kind.kind
    most = rng.choice((1, 3, 8))
    if k is TypeKind.LIST:
        item = _sampler(rng, kind.type, limits, nulls=True)
        return lambda: tuple(item() for _ in range(rng.randint(0, most)))
    if k is TypeKind.MAP:
        key = _sampler(rng, kind.key, limits, nulls=False)
        value = _sampler(rng, kind.value, limits, nulls=True)
        return lambda: tuple({key(): value() for _ in range(rng.randint(0, most))}.items())
    if k is TypeKind.STRUCT:
        fields = [_sampler(rng, field, limits, nulls=True) for field in kind.fields.values()]
        return lambda: tuple(field() for field in fields)
    # no null inside a union: pyorc shows it as a null union
    parts = [_sampler(rng, child, limits, nulls=False) for child in kind.cont_types]

    def union() -> Any:
        tag = rng.randrange(len(parts))
        return "u", tag, parts[tag]()

    return union


def _integers(rng: random.Random, bits: int) -> Sampler:
    limit = 1 << (bits - 1)
    width = rng.randint(1, bits)
    start, step = rng.randrange(-limit, limit), rng.choice((0, 1, 1, -1, 7, 100, rng.randrange(-1000, 1000)))

    def wrapped(value: int) -> int:
        return (value + limit) % (2 * limit) - limit

    def ascending() -> int:
        nonlocal start
        start = wrapped(start + step)
        return start

    def growing() -> int:
        nonlocal start
        start = wrapped(start + rng.randrange(1 << max(1, width // 3)))
        return start

    def small() -> int:
        return wrapped(rng.randrange(1 << width) - (1 << width >> 1))

    def outliers() -> int:
        return rng.randrange(-limit, limit) if rng.random() < 0.03 else wrapped(rng.randrange(16))

    def edges() -> int:
        return rng.choice((-limit, limit - 1, 0, -1, 1, rng.randrange(-limit, limit)))

    return rng.choice((ascending, growing, small, outliers, edges))


def _reals(rng: random.Random, *, single: bool) -> Sampler:
    odd = rng.choice((0.0, 0.05))

    def value() -> str:
        number = rng.choice(_SPECIAL) if rng.random() < odd else rng.choice((rng.random(), rng.randint(-9, 9) / 4))
        if single:
            (number,) = struct.unpack("<f", struct.pack("<f", number if abs(number) < 1e38 else 2.0**100))
        if rng.random() < odd / 5:
            return "f:7ff8000000000000"
        return "f:" + struct.pack(">d", number).hex()

    return value


def _texts(rng: random.Random, kind: Any) -> Sampler:
    limit = getattr(kind, "max_length", 0)
    most = limit or rng.choice((3, 12, 40))
    prefix = "" if limit else "x" * rng.choice((0, 0, 0, 1100))
    letters = _LETTERS + rng.choice(("", "", "", "\ue000\uffff", "😀"))

    def value() -> str:
        text = prefix + "".join(rng.choice(letters) for _ in range(rng.randint(0, most)))
        return "s:" + (text.ljust(limit) if kind.kind is TypeKind.CHAR else text)

    return value


def _instants(rng: random.Random, modern: bool) -> Sampler:
    fine = rng.random() < 0.7
    now = rng.randrange(*_MODERN)

    def value() -> str:
        nonlocal now
        now += rng.choice((0, 1, 60, 86_400))
        seconds = now
        if rng.random() < 0.2:
            seconds = rng.randrange(*_MODERN) if modern else rng.randint(_FIRST, _LAST)
        if seconds == -1:  # ORC cannot tell -0.5 s from +0.5 s
            seconds = 0
        return f"t:{seconds}:{rng.choice(_NANOS) if fine else 0}"

    return value


def _decimals(rng: random.Random, precision: int, scale: int, limits: Limits) -> Sampler:
    digits = rng.randint(1, min(precision, 12) if limits.small_sums and precision <= 18 else precision)
    step = rng.choice((0, 10**scale))

    def value() -> str:
        limit = 10**digits - 1
        unscaled = rng.choice((limit, -limit, 0)) if rng.random() < 0.03 else rng.randint(-limit, limit)
        if step and unscaled > step:
            unscaled -= unscaled % step
        return "n:" + plain(unscaled, scale)

    return value


def plain(unscaled: int, scale: int) -> str:
    """The shortest text of a decimal."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :].rstrip("0")
    return ("-" if unscaled < 0 else "") + whole + (f".{fraction}" if fraction else "")


def raw(value: Any, kind: Any) -> Any:
    """A value for pyorc's writer, from its form in ``values``. Unions are refused."""
    k = kind.kind
    if value is None:
        return None
    if k is TypeKind.LIST:
        return [raw(item, kind.type) for item in value]
    if k is TypeKind.MAP:
        return {raw(key, kind.key): raw(item, kind.value) for key, item in value}
    if k is TypeKind.STRUCT:
        return tuple(raw(item, field) for item, field in zip(value, kind.fields.values(), strict=True))
    if k is TypeKind.UNION:
        raise ValueError("pyorc cannot write every union")
    return _raw_leaf(value) if isinstance(value, str) else value


def _raw_leaf(text: str) -> Any:
    letter, rest = text[0], text[2:]
    if letter == "f":
        return struct.unpack(">d", bytes.fromhex(rest))[0]
    if letter == "b":
        return bytes.fromhex(rest)
    if letter == "d":
        return int(rest)
    if letter == "t":
        seconds, nanos = map(int, rest.split(":"))
        found: Timestamp = seconds, nanos
        return found
    return rest
