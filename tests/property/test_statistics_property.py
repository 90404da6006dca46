"""Column statistics of random columns against values folded in plain Python, and merging against whole columns."""

from __future__ import annotations

import itertools
import math
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from acidlib.acid.names import Generation
from acidlib.orc.columns import Column, Dictionary, canonical
from acidlib.orc.proto import ColumnStatistics, Kind
from acidlib.orc.schema import TypeNode
from acidlib.orc.statistics import copied_statistics, group_statistics, merge_statistics

LONGS = st.integers(-(2**63), 2**63 - 1)
INTEGERS = st.one_of(st.integers(-5, 5), LONGS, st.sampled_from([-(2**63), 2**63 - 1, 2**32, -(2**32)]))
BITS = st.one_of(
    st.floats(allow_nan=False).map(lambda v: struct.unpack("<Q", struct.pack("<d", v))[0]),
    st.sampled_from([0, 1 << 63, 0x7FF8 << 48, 0xFFF0 << 48, 0x7FF0 << 48, 0x3FF0 << 48]),
)
FLOAT_BITS = st.one_of(st.integers(0, 0xFF7FFFFF).filter(lambda b: b & 0x7F800000 != 0x7F800000), st.just(0x7FC00000))
WORDS = st.one_of(
    st.text("abä", max_size=12).map(str.encode),
    st.text(max_size=4).map(str.encode),
    st.binary(max_size=10),
    st.sampled_from([b"prefix-prefix-1", b"prefix-prefix-2", b"prefix-prefix-", b"x" * 1024, b"x" * 1025]),
)
UNSCALED = st.one_of(
    st.integers(-1200, 1200), LONGS, st.integers(-(2**66), 2**66), st.integers(-(10**38) + 1, 10**38 - 1)
)
DECIMALS = st.tuples(UNSCALED, st.integers(0, 38))
INSTANTS = st.tuples(
    st.one_of(st.integers(-1_420_070_403, -1_420_070_397), st.integers(-(10**11), 10**11)),
    st.one_of(st.integers(0, 999_999_999), st.sampled_from([0, 500_000_000, 999_999, 1_000_000, 120_000, 999_999_999])),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kind of column: its values, the column that holds them, and what their statistics are."""

    kind: Kind
    values: st.SearchStrategy[Any]
    build: Callable[[list[Any]], dict[str, Any]]
    expect: Callable[[list[Any], int], dict[str, Any] | None]
    field: str


def longs(values: list[int]) -> dict[str, Any]:
    return {"values": np.array(values, np.int64)}


def integers(values: list[int], generation: int) -> dict[str, Any] | None:
    wanted = {"minimum": min(values), "maximum": max(values)}
    if -(2**63) <= sum(values) < 2**63:
        wanted["sum"] = sum(values)
    return wanted


def signed(values: list[int], generation: int) -> dict[str, Any] | None:
    return integers([v - 256 if v > 127 else v for v in values], generation)


def dates(values: list[int], generation: int) -> dict[str, Any] | None:
    known = min(values) >= -(2**31) and max(values) < 2**31
    return {"minimum": min(values), "maximum": max(values)} if known else None


def reals(values: list[float]) -> dict[str, Any] | None:
    if any(math.isnan(value) for value in values):
        return None
    wanted = {"minimum": min(values) or -0.0, "maximum": max(values) or 0.0}
    total = 0.0
    for value in values:
        total += value
    if math.isfinite(total):
        wanted["sum"] = total
    return wanted


def doubles(values: list[int], generation: int) -> dict[str, Any] | None:
    return reals([struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in values])


def floats(values: list[int], generation: int) -> dict[str, Any] | None:
    return reals([struct.unpack("<f", struct.pack("<I", bits))[0] for bits in values])


def direct(values: list[bytes]) -> dict[str, Any]:
    data = np.frombuffer(b"".join(values), np.uint8)
    return {"lengths": np.array([len(value) for value in values], np.int64), "data": data}


def in_dictionary(values: list[bytes]) -> dict[str, Any]:
    entries = list(dict.fromkeys(values))
    if len(values) % 2:
        entries.sort()
    offsets = np.array([0, *itertools.accumulate(map(len, entries))], np.int64)
    dictionary = Dictionary(offsets=offsets, data=np.frombuffer(b"".join(entries), np.uint8))
    return {**longs([entries.index(value) for value in values]), "dictionary": dictionary}


def texts(values: list[bytes], generation: int) -> dict[str, Any] | None:
    low, high = min(values), max(values)
    for bound in (low, high):
        odd = "�" in bound.decode(errors="replace") or any(c >= "\ue000" for c in bound.decode(errors="replace"))
        if len(bound) > 1024 or odd:
            return None
    return {"minimum": low, "maximum": high, "sum": sum(map(len, values))}


def decimal_column(values: list[tuple[int, int]]) -> dict[str, Any]:
    low = np.array([v & (2**64 - 1) for v, _ in values], np.uint64).view(np.int64)
    fits = all(-(2**63) <= v < 2**63 for v, _ in values)
    high = None if fits else np.array([v >> 64 for v, _ in values], np.int64)
    return {"values": low, "high": high, "secondary": np.array([s for _, s in values], np.int64)}


def plain(number: Fraction) -> str | None:
    digits = next(d for d in range(200) if (number * 10**d).denominator == 1)
    unscaled = abs(int(number * 10**digits))
    if digits > 38 or unscaled >= 10**38:
        return None
    sign = "-" if number < 0 else ""
    fraction = f".{unscaled % 10**digits:0{digits}}" if digits else ""
    return f"{sign}{unscaled // 10**digits}{fraction}"


def exact(values: list[tuple[int, int]], generation: int) -> dict[str, Any] | None:
    numbers = [Fraction(unscaled, 10**scale) for unscaled, scale in values]
    wanted = {"minimum": plain(min(numbers)), "maximum": plain(max(numbers)), "sum": plain(sum(numbers, Fraction()))}
    if wanted["minimum"] is None or wanted["maximum"] is None:
        return None
    return {name: text for name, text in wanted.items() if text is not None}


def stored(nanos: int) -> int:
    """As ORC's TimestampTreeWriter.formatNanos: two or more trailing zeros are cut and counted."""
    zeros = len(str(nanos)) - len(str(nanos).rstrip("0")) if nanos else 0
    return nanos << 3 if zeros < 2 else nanos // 10**zeros << 3 | (zeros - 1)


def timestamp_column(values: list[tuple[int, int]]) -> dict[str, Any]:
    return {**longs([s for s, _ in values]), "secondary": np.array([stored(n) for _, n in values], np.int64)}


def instants(values: list[tuple[int, int]], generation: int) -> dict[str, Any] | None:
    read = []
    for seconds, nanos in values:
        since_1970 = seconds + 1_420_070_400
        if since_1970 < 0 and nanos > 999_999:  # the C++ reader's form of the rule
            since_1970 -= 1
        read.append(since_1970 * 10**9 + nanos)
    low, high = min(read), max(read)
    if generation == 3:
        return {"minimum_utc": low // 10**6, "maximum_utc": -(-high // 10**6)}
    wanted = {"minimum_utc": low // 10**6, "maximum_utc": high // 10**6}
    if low % 10**6:
        wanted["minimum_nanos"] = low % 10**6 + 1
    if high % 10**6 != 999_999:
        wanted["maximum_nanos"] = high % 10**6 + 1
    return wanted


def patterns(dtype: type) -> Callable[[list[int]], dict[str, Any]]:
    return lambda values: {"values": np.array(values, dtype)}


BYTES = patterns(np.uint8)
CASES = {
    "byte": Case(kind=Kind.BYTE, values=st.integers(0, 255), build=BYTES, expect=signed, field="int_statistics"),
    "long": Case(kind=Kind.LONG, values=INTEGERS, build=longs, expect=integers, field="int_statistics"),
    "date": Case(kind=Kind.DATE, values=INTEGERS, build=longs, expect=dates, field="date_statistics"),
    "float": Case(
        kind=Kind.FLOAT, values=FLOAT_BITS, build=patterns(np.uint32), expect=floats, field="double_statistics"
    ),
    "double": Case(kind=Kind.DOUBLE, values=BITS, build=patterns(np.uint64), expect=doubles, field="double_statistics"),
    "direct": Case(kind=Kind.STRING, values=WORDS, build=direct, expect=texts, field="string_statistics"),
    "dictionary": Case(kind=Kind.CHAR, values=WORDS, build=in_dictionary, expect=texts, field="string_statistics"),
    "decimal": Case(kind=Kind.DECIMAL, values=DECIMALS, build=decimal_column, expect=exact, field="decimal_statistics"),
    "timestamp": Case(
        kind=Kind.TIMESTAMP, values=INSTANTS, build=timestamp_column, expect=instants, field="timestamp_statistics"
    ),
}


def message(values: int, slots: int, field: str, typed: dict[str, Any] | None) -> Any:
    made = ColumnStatistics(number_of_values=values, has_null=values < slots)
    if typed is not None:
        for name, value in typed.items():
            setattr(getattr(made, field), name, value)
    return made


@st.composite
def columns(draw: st.DrawFn, case: Case) -> tuple[Column, list[Any], list[int]]:
    """A column with nulls, its slots as a list (None for null), and slot bounds from 0 to the end."""
    slots = draw(st.lists(st.one_of(case.values, case.values, st.none()), max_size=30))
    cuts = draw(st.lists(st.integers(0, len(slots)), max_size=4))
    present = np.array([slot is not None for slot in slots], bool)
    column = Column(kind=case.kind, slots=len(slots), **case.build([slot for slot in slots if slot is not None]))
    if not present.all() or draw(st.booleans()):
        column.present = present
    return column, slots, sorted([0, len(slots), *cuts])


def value_bounds(slots: list[Any], bounds: list[int]) -> Any:
    return np.array([sum(slot is not None for slot in slots[:bound]) for bound in bounds], np.int64)


def computed(column: Column, slots: list[Any], bounds: list[int], generation: int) -> list[Any]:
    node = TypeNode(column=1, kind=column.kind)
    at = np.array(bounds, np.int64)
    return group_statistics(
        canonical(column), node, at, value_bounds(slots, bounds), reader=Generation(generation), timezone="UTC"
    )


@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("name", CASES)
def test_groups_have_the_statistics_of_their_values(name: str, generation: int) -> None:
    case = CASES[name]

    @settings(max_examples=100)
    @given(columns(case))
    def check(drawn: tuple[Column, list[Any], list[int]]) -> None:
        column, slots, bounds = drawn
        groups = computed(column, slots, bounds, generation)
        assert len(groups) == len(bounds) - 1
        for got, (first, last) in zip(groups, itertools.pairwise(bounds), strict=True):
            values = [slot for slot in slots[first:last] if slot is not None]
            typed = case.expect(values, generation) if values else None
            assert got == message(len(values), last - first, case.field, typed)

    check()


@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("name", CASES)
def test_merged_groups_are_the_statistics_of_the_whole(name: str, generation: int) -> None:
    """Equal but for sums: one may have overflowed in a group only, and floating ones depend on the order."""
    case = CASES[name]

    @settings(max_examples=60)
    @given(columns(case))
    def check(drawn: tuple[Column, list[Any], list[int]]) -> None:
        column, slots, bounds = drawn
        groups = computed(column, slots, bounds, generation)
        (whole,) = computed(column, slots, [0, len(slots)], generation)
        node = TypeNode(column=1, kind=case.kind)
        merged = merge_statistics(groups, node, reader=Generation(generation))
        assert copied_statistics(merged, node, reader=Generation(generation)) == merged
        if all(group.HasField(case.field) or not group.number_of_values for group in groups):
            sums = getattr(merged, case.field), getattr(whole, case.field)
            if case.field in ("double_statistics", "int_statistics", "decimal_statistics"):
                for side in sums:
                    if not all(typed.HasField("sum") for typed in sums) or case.field == "double_statistics":
                        side.ClearField("sum")
            assert merged == whole
        else:
            assert not merged.HasField(case.field)
            assert (merged.number_of_values, merged.has_null) == (whole.number_of_values, whole.has_null)

    check()


@settings(max_examples=100)
@given(st.lists(WORDS, min_size=1, max_size=20), st.randoms(use_true_random=False))
@example([b"", b"\x00", b"\x00\x00"], random.Random(0))
def test_order_of_values_and_form_of_strings_do_not_matter(words: list[bytes], pick: Any) -> None:
    shuffled = list(words)
    pick.shuffle(shuffled)
    forms = [
        Column(kind=Kind.STRING, slots=len(words), **build(values))
        for build in (direct, in_dictionary)
        for values in (words, shuffled)
    ]
    bounds = [0, len(words)]
    first, *others = [computed(column, words, bounds, 4) for column in forms]
    assert all(other == first for other in others)


@settings(max_examples=60)
@given(st.lists(st.booleans(), max_size=20), st.lists(st.integers(0, 20), max_size=3))
def test_booleans(values: list[bool], cuts: list[int]) -> None:
    bounds = sorted([0, len(values), *(min(cut, len(values)) for cut in cuts)])
    column = Column(kind=Kind.BOOLEAN, slots=len(values), values=np.array(values, np.uint8))
    groups = computed(column, values, bounds, 4)
    assert [g.bucket_statistics.count[0] for g in groups] == [sum(values[a:b]) for a, b in itertools.pairwise(bounds)]
    merged = merge_statistics(groups, TypeNode(column=1, kind=Kind.BOOLEAN), reader=Generation.HIVE3)
    assert list(merged.bucket_statistics.count) == [sum(values)]


def test_an_oracle_that_is_wrong_by_one_is_caught() -> None:
    case = CASES["long"]
    wrong = replace(case, expect=lambda values, generation: {"minimum": min(values) + 1, "maximum": max(values)})
    (got,) = computed(Column(kind=Kind.LONG, slots=1, **longs([7])), [7], [0, 1], 4)
    assert got != message(1, 1, case.field, wrong.expect([7], 4))
    assert got == message(1, 1, case.field, case.expect([7], 4))
