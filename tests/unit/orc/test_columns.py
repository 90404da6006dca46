"""Columns filtered, joined and reordered in the encoded domain, as pyorc reads them back; dictionaries as Java's."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from judges import tables, values
from orc_memory import file_options, longs, octets, root_column, tree, written

from acidlib.errors import OverMemoryError
from acidlib.memory import DEFAULT_MEMORY, Memory, Room
from acidlib.orc.columns import (
    KEY_THRESHOLD,
    Column,
    Dictionary,
    as_direct,
    canonical,
    concat_columns,
    filter_column,
    reorder_column,
)
from acidlib.orc.proto import Kind
from acidlib.orc.reader import null_column

ROOM = Room(DEFAULT_MEMORY)
WIDE = str(1 << 100)
CASES: dict[str, list[Any]] = {
    "boolean": [True, None, False, False, True, None],
    "tinyint": [1, -128, None, 127, 0, 0],
    "smallint": [1, None, -32768, 32767, 5, 5],
    "bigint": [None, -(2**63), 2**63 - 1, 0, None, 1],
    "float": [0.5, None, -0.0, float("inf"), 1.0, None],
    "double": [float("nan"), -0.0, None, 1e300, 0.1, None],
    "string": ["a", None, "", "äöü", "b" * 40, "a"],
    "char(3)": ["a  ", None, "abc", "   ", "b  ", "a  "],
    "binary": [b"\x00", None, b"", b"\xff" * 9, b"a", b"b"],
    "date": [0, None, -141427, 2932896, 1, 2],
    "timestamp": [(0, 1), None, (-1, 999_999_999), (253402300799, 0), (5, 0), (6, 7)],
    "decimal(38,5)": ["1.5", None, f"-{WIDE}", WIDE, "0", "2"],
    "decimal(10,2)": ["1.5", None, "-3", "99.99", "0", "2"],
    "array<int>": [[1, 2], None, [], [None, 3], [4], [5, 6, 7]],
    "map<string,array<int>>": [{"a": [1]}, None, {}, {"b": None, "c": [2, None]}, {"d": []}, {"e": [3]}],
    "struct<x:int,y:struct<z:string>>": [(1, ("a",)), None, (None, None), (2, (None,)), (3, ("b",)), (4, ("c",))],
    "array<struct<x:map<int,string>>>": [[({1: "a"},)], None, [None, ({},)], [], [(None,)], [({2: None, 3: "b"},)]],
    "uniontype<int,array<string>>": [1, ["a", "b"], 2, [], ["c"], 3],
}


def column_of(kind: str, rows: list[Any], dictionary: float = 0.0) -> Column:
    layout = tables.Layout(dictionary=dictionary)
    return root_column(tables.orc_bytes(f"struct<a:{kind}>", [(row,) for row in rows], layout))


def read(column: Column, kind: str) -> list[Any]:
    data = written([column], file_options(tree(f"struct<a:{kind}>")))
    return list(values.canonical_rows(data))


def wanted(kind: str, rows: list[Any]) -> list[Any]:
    data = tables.orc_bytes(f"struct<a:{kind}>", [(row,) for row in rows])
    return list(values.canonical_rows(data))


def strings(words: list[bytes], entries: list[int] | None) -> Column:
    data = octets(b"".join(words))
    lengths = longs(*(len(word) for word in words))
    if entries is None:
        return Column(kind=Kind.STRING, slots=len(words), lengths=lengths, data=data)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return Column(
        kind=Kind.STRING, slots=len(entries), values=longs(*entries), dictionary=Dictionary(offsets=offsets, data=data)
    )


@pytest.mark.parametrize("dictionary", [0.0, 1.0], ids=["direct", "dictionary"])
@pytest.mark.parametrize("kind", CASES)
def test_filtering_a_column_is_filtering_its_rows(kind: str, dictionary: float) -> None:
    rows = CASES[kind]
    generator = random.Random(kind)
    masks = [[generator.random() < 0.5 for _ in rows] for _ in range(4)]
    for keep in [[True] * len(rows), [False] * len(rows), *masks]:
        column = filter_column(column_of(kind, rows, dictionary), np.array(keep))
        assert column.slots == sum(keep)
        kept = [row for row, stays in zip(rows, keep, strict=True) if stays]
        assert read(column, kind) == wanted(kind, kept)


@pytest.mark.parametrize("dictionary", [0.0, 1.0], ids=["direct", "dictionary"])
@pytest.mark.parametrize("kind", CASES)
def test_reordering_a_column_is_reordering_its_rows(kind: str, dictionary: float) -> None:
    rows = CASES[kind]
    column = column_of(kind, rows, dictionary)
    for order in ([5, 0, 3, 4, 1, 2], [2, 1], []):
        found = reorder_column(column, np.array(order, dtype=np.int64))
        assert found.slots == len(order)
        assert read(found, kind) == wanted(kind, [rows[number] for number in order])


@pytest.mark.parametrize("kind", CASES)
def test_joining_columns_is_joining_their_rows(kind: str) -> None:
    rows = CASES[kind]
    parts = [rows[:3], rows[3:], rows[:1]]
    columns = [column_of(kind, part, dictionary) for part, dictionary in zip(parts, (1.0, 1.0, 0.0), strict=True)]
    nothing = null_column(tree(f"struct<a:{kind}>"), 0)
    joined = concat_columns([nothing, columns[0], nothing, *columns[1:]], ROOM)
    assert joined.slots == 7
    assert read(joined, kind) == wanted(kind, [row for part in parts for row in part])


@pytest.mark.parametrize("kind", [kind for kind in CASES if "union" not in kind])
def test_columns_of_nulls_join_with_any_other(kind: str) -> None:
    rows = CASES[kind]
    nothing = null_column(tree(f"struct<a:{kind}>").children[0], 2)
    there = column_of(kind, rows).children[0]
    for parts, expected in (
        ([nothing, there], [None, None, *rows]),
        ([there, nothing], [*rows, None, None]),
        ([nothing, nothing], [None] * 4),
    ):
        child = concat_columns(parts, ROOM)
        root = Column(kind=Kind.STRUCT, slots=child.slots, children=(child,))
        assert read(root, kind) == wanted(kind, expected)


def test_nulls_of_a_union_take_no_place_among_its_values() -> None:
    numbers = Column(kind=Kind.INT, slots=2, values=longs(7, 8))
    texts = Column(kind=Kind.STRING, slots=1, lengths=longs(1), data=octets(b"x"))
    union = Column(
        kind=Kind.UNION,
        slots=5,
        present=np.array([True, False, True, False, True]),
        values=octets(b"\x00\x01\x00"),
        children=(numbers, texts),
    )
    kept = filter_column(union, np.array([False, True, True, True, True]))
    assert (kept.slots, kept.count) == (4, 2)
    assert kept.values.tolist() == [1, 0]
    assert [child.slots for child in kept.children] == [1, 1]
    root = Column(kind=Kind.STRUCT, slots=4, children=(kept,))
    assert read(root, "uniontype<int,string>") == [(None,), (("u", 1, "s:x"),), (None,), (("u", 0, 8),)]


def test_dictionaries_join_as_one_and_a_direct_part_makes_all_direct() -> None:
    both = concat_columns([strings([b"b", b"a"], [0, 1]), strings([b"a", b"cc"], [1, 1, 0])], ROOM)
    assert both.dictionary is not None
    assert both.dictionary.entries == 4
    direct = as_direct(both)
    assert (direct.dictionary, direct.slots) == (None, 5)
    assert (bytes(direct.data), direct.lengths.tolist()) == (b"bacccca", [1, 1, 2, 2, 1])
    mixed = concat_columns([both, strings([b"zz"], None)], ROOM)
    assert mixed.dictionary is None
    assert bytes(mixed.data) == b"baccccazz"
    concat_columns([both, strings([b"zz"], None)], Room(Memory(7)))
    with pytest.raises(OverMemoryError, match="at least 7 bytes"):
        concat_columns([both, strings([b"zz"], None)], Room(Memory(6)))


def words_of(dictionary: Dictionary) -> list[bytes]:
    bounds = dictionary.offsets.tolist()
    return [bytes(dictionary.data)[a:b] for a, b in pairwise(bounds)]


def values_of(found: Column) -> list[bytes]:
    if found.dictionary is not None:
        words = words_of(found.dictionary)
        return [words[entry] for entry in found.values.tolist()]
    ends = np.cumsum(found.lengths).tolist()
    return [bytes(found.data)[end - size : end] for end, size in zip(ends, found.lengths.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("words", "entries"),
    [
        ([b"b", b"a"], [0, 1, 0, 1, 0]),
        ([b"a", b"b", b"a", b"b"], [0, 1, 2, 3, 3, 2, 1, 0]),
        ([b"x", b"unused", b"a"], [0, 2, 0, 2, 0]),
        ([b"", b"\x00", b"a", b"a\x00", b"\x00\x00"], [4, 3, 2, 1, 0] * 2),
        ([b"\x80", b"\x7f", b"\xff", "é".encode()], [0, 1, 2, 3] * 2),
        ([b"prefix-z", b"prefix-a", b"prefix-", b"prefix-aa"], [0, 1, 2, 3] * 2),
        ([b"a" * 300 + b"2", b"a" * 300 + b"1"], [0, 1] * 2),
        ([b"prefix-a", b"prefix-z", b"prefix-m", b"unused"], [0, 1, 2] * 2),
        ([b"prefix-\x7f", b"prefix-\x80", b"prefix-", b"prefix-\x7f"], [0, 1, 2, 3] * 2),
    ],
)
def test_entries_are_used_distinct_and_ascending_and_values_the_same(words: list[bytes], entries: list[int]) -> None:
    assert_canonical(words, entries)


def assert_canonical(words: list[bytes], entries: list[int]) -> None:
    found = canonical(strings(words, entries))
    assert found.dictionary is not None
    assert words_of(found.dictionary) == sorted({words[entry] for entry in entries})
    assert values_of(found) == [words[entry] for entry in entries]


def test_random_dictionaries_agree_with_pythons_sorting() -> None:
    generator = random.Random(3)
    for _ in range(60):
        start = b"the same start" * generator.randrange(2)
        words = [start + bytes(generator.choices(b"\x00a\xff", k=generator.randrange(10))) for _ in range(40)]
        entries = [generator.randrange(generator.choice([1, 40])) for _ in range(100)]
        assert_canonical(words, entries)


def test_above_the_threshold_of_distinct_strings_the_column_becomes_direct() -> None:
    assert KEY_THRESHOLD == 0.8
    words = [b"a", b"b", b"c", b"d", b"e"]
    kept = canonical(strings(words, [0, 1, 2, 3, 3]))  # 4 of 5 are not above 0.8
    assert kept.dictionary is not None
    direct = canonical(strings(words, [0, 1, 2, 3, 4]))
    assert direct.dictionary is None
    assert values_of(direct) == words


def test_nulls_keep_their_slots() -> None:
    given = strings([b"b", b"a"], [0, 1, 0])
    given.slots, given.present = 5, np.array([True, False, True, False, True])
    for found in (canonical(given), canonical(strings([b"b", b"a"], []))):
        assert values_of(found) == ([b"b", b"a", b"b"] if found.slots else [])
    assert canonical(given).present is given.present
    assert (canonical(given).slots, canonical(given).count) == (5, 3)
