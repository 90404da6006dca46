"""Hypothesis strategies: ORC schemas, rows of raw values, and histories of transactions."""

from __future__ import annotations

import struct
from typing import Any

import pyorc
from hypothesis import strategies as st
from pyorc import TypeKind

from judges.random_orc import LEAVES
from judges.tables import Layout, Transaction

_KEYS = ["int", "bigint", "string", "date", "timestamp", "decimal(20,3)", "boolean", "tinyint"]
_UNIONS = ["uniontype<int,string>", "uniontype<bigint,string,boolean,double>", "uniontype<array<int>,binary>"]
_BITS = {TypeKind.BYTE: 8, TypeKind.SHORT: 16, TypeKind.INT: 32, TypeKind.LONG: 64}
_FIRST, _LAST = -62135596800, 253402300799  # seconds of the years 0001 to 9999
_TEXT = st.characters(codec="utf-8", max_codepoint=0xD7FF) | st.sampled_from("ab é漢 ")


def scalar_types() -> st.SearchStrategy[str]:
    return st.sampled_from(LEAVES)


def types(*, unions: bool = False) -> st.SearchStrategy[str]:
    """ORC types as text, nested up to some depth. Unions only on request: pyorc writes them wrongly beside nulls."""
    leaves = st.sampled_from((*LEAVES, *(_UNIONS if unions else [])))
    return st.recursive(leaves, _nest, max_leaves=5)


def _nest(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    lists = children.map(lambda t: f"array<{t}>")
    maps = st.builds(lambda k, v: f"map<{k},{v}>", st.sampled_from(_KEYS), children)
    return lists | maps | st.lists(children, min_size=1, max_size=3).map(_struct)


def _struct(fields: list[str]) -> str:
    return "struct<" + ",".join(f"f{i}:{t}" for i, t in enumerate(fields)) + ">"


def schemas(*, nested: bool = True, max_columns: int = 4) -> st.SearchStrategy[str]:
    """The columns of a table: ``struct<f0:…,f1:…>``."""
    return st.lists(types() if nested else scalar_types(), min_size=1, max_size=max_columns).map(_struct)


def values(kind: Any, *, nulls: bool = True) -> st.SearchStrategy[Any]:
    """Raw values of a pyorc type, as ``tables.orc_bytes`` takes them."""
    found = _values(kind)
    return st.none() | found if nulls else found


def rows(columns: str) -> st.SearchStrategy[Any]:
    """Whole rows of a table: never null themselves."""
    return values(pyorc.TypeDescription.from_string(columns), nulls=False)


def _values(kind: Any) -> st.SearchStrategy[Any]:
    k = kind.kind
    if k in _BITS:
        return _integers(_BITS[k])
    if k is TypeKind.FLOAT:
        return st.floats(width=32).map(_canonical_nan)
    if k is TypeKind.DOUBLE:
        return st.floats().map(_canonical_nan)
    if k is TypeKind.DECIMAL:
        return _decimals(kind.precision, kind.scale)
    if k in (TypeKind.CHAR, TypeKind.VARCHAR):
        text = st.text(_TEXT, max_size=kind.max_length)
        return text.map(lambda t: t.ljust(kind.max_length)) if k is TypeKind.CHAR else text
    if k is TypeKind.LIST:
        return st.lists(values(kind.type), max_size=3)
    if k is TypeKind.MAP:
        return st.dictionaries(values(kind.key, nulls=False), values(kind.value), max_size=3)
    if k is TypeKind.STRUCT:
        return st.tuples(*(values(field) for field in kind.fields.values()))
    if k is TypeKind.UNION:
        return st.one_of(*(values(child, nulls=False) for child in kind.cont_types))
    return _simple(k)


def _simple(k: TypeKind) -> st.SearchStrategy[Any]:
    found: dict[TypeKind, st.SearchStrategy[Any]] = {
        TypeKind.BOOLEAN: st.booleans(),
        TypeKind.STRING: st.text(_TEXT, max_size=12) | st.sampled_from(["", "a", "abc"]),
        TypeKind.BINARY: st.binary(max_size=12),
        TypeKind.DATE: st.integers(-719162, 2932896) | st.sampled_from([0, 18000]),
        TypeKind.TIMESTAMP: _timestamps(),
        TypeKind.TIMESTAMP_INSTANT: _timestamps(),
    }
    return found[k]


def _integers(bits: int) -> st.SearchStrategy[int]:
    limit = 1 << (bits - 1)
    return st.integers(-limit, limit - 1) | st.integers(-3, 3) | st.sampled_from([-limit, limit - 1])


def _canonical_nan(value: float) -> float:
    """One NaN: the bits of others are not kept by every conversion between float and double."""
    (nan,) = struct.unpack(">d", bytes.fromhex("7ff8000000000000"))
    return float(nan) if value != value else value


def _timestamps() -> st.SearchStrategy[tuple[int, int]]:
    """Without the second before 1970: ORC cannot tell -0.5 s from +0.5 s."""
    nanos = st.sampled_from([0, 1, 999_999, 1_000_000, 123_456_789, 500_000_000, 999_999_999, 1_000])
    pairs = st.tuples(st.integers(_FIRST, _LAST) | st.sampled_from([0, 1, 1420070400, 1577836800]), nanos)
    return pairs.filter(lambda pair: pair[0] != -1)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[str]:
    limit = 10**precision - 1
    numbers = st.integers(-limit, limit) | st.integers(-2, 2) | st.sampled_from([limit, -limit])
    return numbers.map(lambda n: _decimal_text(n, scale))


def _decimal_text(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return ("-" if unscaled < 0 else "") + whole + ("." + fraction if scale else "")


def histories(columns: str, *, max_transactions: int = 5) -> st.SearchStrategy[list[Transaction]]:
    """Batches of inserts, updates and deletes; some transactions aborted."""
    places = st.integers(0, 30)
    row = rows(columns)
    one = st.builds(
        Transaction,
        inserts=st.lists(row, max_size=6).map(tuple),
        updates=st.lists(st.tuples(places, row), max_size=2).map(tuple),
        deletes=st.lists(places, max_size=3).map(tuple),
        aborted=st.sampled_from([False, False, False, True]),
    )
    return st.lists(one, min_size=1, max_size=max_transactions)


def layouts() -> st.SearchStrategy[Layout]:
    """Small stripes and row groups, all compressions; dictionaries or not."""
    return st.builds(
        Layout,
        compression=st.sampled_from(["none", "zlib", "snappy", "lz4", "zstd"]),
        stripe_size=st.sampled_from([1, 64 << 20]),
        stride=st.sampled_from([2, 3, 10_000]),
        batch=st.sampled_from([2, 5, 1024]),
        dictionary=st.sampled_from([0.0, 1.0]),
    )
