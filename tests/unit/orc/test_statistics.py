"""Column statistics against Java's own in real tables, and case by case; merged and copied."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from judges import fixtures, tables
from judges import orc_tail as o
from orc_memory import MemorySource, longs, octets, tail_of

from acidlib.acid.names import Generation
from acidlib.orc.columns import Column
from acidlib.orc.proto import ColumnStatistics, Kind
from acidlib.orc.reader import StripeReader
from acidlib.orc.schema import TypeNode
from acidlib.orc.statistics import (
    copied_statistics,
    group_statistics,
    integer_range,
    merge_statistics,
    parse_decimal,
    stripe_statistics_are_true,
)

HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4
INTS = {"minimum": 1, "maximum": 5, "sum": 6}


def node_of(kind: Kind, **more: Any) -> TypeNode:
    return TypeNode(column=1, kind=kind, **more)


def stats(values: int = 1, *, has_null: bool = False, **typed: dict[str, Any]) -> Any:
    message = ColumnStatistics(number_of_values=values, has_null=has_null)
    for name, fields in typed.items():
        getattr(message, name).SetInParent()
        for field, value in fields.items():
            if field == "count":
                getattr(message, name).count.extend(value)
            else:
                setattr(getattr(message, name), field, value)
    return message


def whole(column: Column, generation: Generation = HIVE4, timezone: str = "UTC", **more: Any) -> Any:
    """The statistics of a column as one row group."""
    slots, values = np.array([0, column.slots]), np.array([0, column.count])
    node = node_of(column.kind, **more)
    (message,) = group_statistics(column, node, slots, values, reader=generation, timezone=timezone)
    return message


def timestamps(*pairs: tuple[int, int], kind: Kind = Kind.TIMESTAMP) -> Column:
    seconds, nanos = zip(*pairs, strict=True)
    return Column(kind=kind, slots=len(pairs), values=longs(*seconds), secondary=longs(*nanos))


# --- real files: Java wrote their statistics ---


def true_files() -> list[Path]:
    found = [(path, tail_of(path.read_bytes())) for path in fixtures.orc_files()]
    return [
        path
        for path, tail in found
        if tail.stripes and all(stripe_statistics_are_true(tail, number) for number in range(len(tail.stripes)))
    ]


def pairs(column: Column, node: TypeNode) -> Iterator[tuple[Column, TypeNode]]:
    yield column, node
    for child, child_node in zip(column.children, node.children, strict=True):
        yield from pairs(child, child_node)


def as_ours(found: Any, node: TypeNode) -> Any:
    """Java's message with the deliberate differences made: no sizes, nothing without bounds, NaN, infinity, zeros."""
    message = ColumnStatistics()
    message.CopyFrom(found)
    message.ClearField("bytes_on_disk")
    message.ClearField("collection_statistics")
    if not message.number_of_values and node.kind not in (Kind.BOOLEAN, Kind.BINARY):
        return ColumnStatistics(number_of_values=0, has_null=message.has_null)
    typed = message.double_statistics
    if message.HasField("double_statistics"):
        if math.isnan(typed.sum):
            message.ClearField("double_statistics")
        else:
            typed.minimum = -0.0 if typed.minimum == 0 else typed.minimum
            typed.maximum = 0.0 if typed.maximum == 0 else typed.maximum
            if math.isinf(typed.sum):
                typed.ClearField("sum")
    return message


def without_maximum(message: Any) -> tuple[Any, int]:
    """The message less its timestamp maximum, and that maximum: Java ORC 1.5 cuts it and we round it up."""
    rest = ColumnStatistics()
    rest.CopyFrom(message)
    rest.timestamp_statistics.ClearField("maximum_utc")
    return rest, message.timestamp_statistics.maximum_utc


def same(got: Any, found: Any, node: TypeNode, generation: Generation) -> bool:
    wanted = as_ours(found, node)
    if generation == 4 or not wanted.HasField("timestamp_statistics"):
        return bool(got == wanted)
    (rest, maximum), (java_rest, java_maximum) = without_maximum(got), without_maximum(wanted)
    return rest == java_rest and maximum - java_maximum in (0, 1)


def test_every_stripe_of_the_real_tables_has_javas_statistics() -> None:
    checked = {3: 0, 4: 0}
    for path in true_files():
        tail = tail_of(path.read_bytes(), str(path))
        generation = HIVE3 if "hive3" in path.parts else HIVE4
        for number, stripe in enumerate(tail.stripes):
            reader = StripeReader(MemorySource(path.read_bytes(), str(path)), tail, number)
            for column, node in pairs(reader.column(tail.root, stripe.rows), tail.root):
                slots, values = np.array([0, column.slots]), np.array([0, column.count])
                (got,) = group_statistics(column, node, slots, values, reader=generation, timezone="UTC")
                assert same(got, tail.stripe_statistics[number][node.column], node, generation), (
                    path,
                    number,
                    str(node),
                )
                checked[generation] += 1
    assert checked[3] > 1000
    assert checked[4] > 1000


def test_merging_the_stripes_of_real_tables_gives_their_file_statistics() -> None:
    merged_stripes = 0
    for path in true_files():
        tail = tail_of(path.read_bytes(), str(path))
        generation = HIVE3 if "hive3" in path.parts else HIVE4
        for node in tail.root.walk():
            parts = [columns[node.column] for columns in tail.stripe_statistics]
            merged = merge_statistics(parts, node, reader=generation)
            assert same(merged, tail.file_statistics[node.column], node, generation), (path, str(node))
            merged_stripes += len(parts)
    assert merged_stripes > 2000


def test_copying_the_stripes_of_real_tables_drops_only_nan() -> None:
    dropped = 0
    for path in true_files():
        tail = tail_of(path.read_bytes(), str(path))
        generation = HIVE3 if "hive3" in path.parts else HIVE4
        for columns in tail.stripe_statistics:
            for found, node in zip(columns, tail.root.walk(), strict=True):
                copied = copied_statistics(found, node, reader=generation)
                if math.isnan(found.double_statistics.sum):
                    assert not copied.HasField("double_statistics")
                    dropped += 1
                else:
                    assert copied == found
    assert dropped > 0


def test_false_statistics_of_hive_3_minor_compactions_are_seen() -> None:
    path = fixtures.ROOT / "hive3/a_crud/after_minor/delta_0000001_0000004/bucket_00000"
    tail = tail_of(path.read_bytes(), str(path))
    assert tail.rows > 0
    assert not stripe_statistics_are_true(tail, 0)
    assert not stripe_statistics_are_true(replace(tail, stride=10_000), 0)


# --- case by case ---


def test_an_empty_group_has_no_bounds_and_no_typed_message() -> None:
    column = Column(kind=Kind.LONG, slots=3, present=np.zeros(3, bool), values=longs())
    bounds, none = longs(0, 3, 3), longs(0, 0, 0)
    nulls, nothing = group_statistics(column, node_of(Kind.LONG), bounds, none, reader=HIVE3, timezone="UTC")
    assert nulls == stats(0, has_null=True)
    assert nothing == stats(0)


def test_booleans_and_binaries_keep_their_message_without_values() -> None:
    column = Column(kind=Kind.BOOLEAN, slots=3, values=np.array([1, 0, 1], np.uint8))
    assert whole(column) == stats(3, bucket_statistics={"count": [2]})
    column = Column(kind=Kind.BOOLEAN, slots=0, values=np.array([], np.uint8))
    assert whole(column) == stats(0, bucket_statistics={"count": [0]})
    column = Column(kind=Kind.BINARY, slots=3, lengths=longs(3, 0, 1), data=octets(b"abc\xff"))
    assert whole(column) == stats(3, binary_statistics={"sum": 4})


def test_decimals_that_readers_would_round_are_unknown() -> None:
    column = Column(kind=Kind.DECIMAL, slots=2, values=longs(125, 35), secondary=longs(2, 1))
    assert whole(column, precision=10, scale=1) == stats(2)
    assert whole(column, precision=10, scale=2).decimal_statistics.maximum == "3.5"
    column.secondary = longs(-1, 39)
    assert whole(column) == stats(2)


@pytest.mark.parametrize("text", ["", "abc", "NaN", "Infinity", "1E+500"])
def test_what_is_no_decimal(text: str) -> None:
    assert parse_decimal(text) is None


def test_decimals_with_exponent_are_numbers() -> None:
    assert parse_decimal("1E-18") == (1, 18)
    assert parse_decimal("-2.5E+3") == (-2500, 0)


EPOCH = -1_420_070_400  # 1970-01-01, counted from 2015


@pytest.mark.parametrize(
    ("second", "stored_nanos", "millis", "nanos"),
    [
        (EPOCH, 0, 0, 0),
        (EPOCH + 1, 5 << 3 | 7, 1500, 0),  # 5 and 8 zeros
        (EPOCH + 1, 123_456_789 << 3, 1123, 456_789),
        (EPOCH - 1, 5 << 3 | 7, -1500, 0),  # Java wrote -1.5 s with its seconds cut to -1
        (EPOCH - 2, 0, -2000, 0),
        (EPOCH - 2, 100 << 3, -2000, 100),  # less than a millisecond: seconds were not cut
        (EPOCH - 2, 999_999 << 3, -2000, 999_999),
        (EPOCH - 2, 1_000_000 << 3, -2999, 0),
        (EPOCH, 5 << 3 | 7, 500, 0),  # what Java makes of -0.5 s, too
        (0, 0, 1_420_070_400_000, 0),
        (251_982_230_399, 999_999_999 << 3, 253_402_300_799_999, 999_999),
    ],
)
def test_timestamps_are_what_readers_see(second: int, stored_nanos: int, millis: int, nanos: int) -> None:
    wanted = {"minimum_utc": millis, "maximum_utc": millis}
    if nanos:
        wanted["minimum_nanos"] = nanos + 1
    if nanos != 999_999:
        wanted["maximum_nanos"] = nanos + 1
    assert whole(timestamps((second, stored_nanos)), HIVE4) == stats(timestamp_statistics=wanted)
    rounded = {"minimum_utc": millis, "maximum_utc": millis + bool(nanos)}
    assert whole(timestamps((second, stored_nanos)), HIVE3) == stats(timestamp_statistics=rounded)


@pytest.mark.parametrize(("second", "nanos"), [(0, 1_000_000_000 << 3), (0, -8), (0, 10 << 3 | 7), (2**60, 0)])
def test_timestamps_that_no_writer_makes_are_unknown(second: int, nanos: int) -> None:
    assert whole(timestamps((0, 0), (second, nanos))) == stats(2)


def test_timestamps_of_other_zones_are_unknown() -> None:
    for zone, known in {"UTC": True, "Europe/Berlin": False, "": False}.items():
        assert whole(timestamps((0, 0)), timezone=zone).HasField("timestamp_statistics") == known
        assert whole(timestamps((0, 0), kind=Kind.TIMESTAMP_INSTANT), timezone=zone).HasField("timestamp_statistics")


@pytest.mark.parametrize("kind", [Kind.LIST, Kind.MAP, Kind.STRUCT, Kind.UNION])
def test_nested_types_have_counts_only(kind: Kind) -> None:
    column = Column(kind=kind, slots=3, present=np.array([True, False, True]), lengths=longs(1, 0))
    assert whole(column) == stats(2, has_null=True)


@pytest.mark.parametrize(
    "change", ["none", "more values than a stripe has", "no columns", "no rows", "no count of rows", "no stride"]
)
def test_statistics_of_a_stripe_that_cannot_be_are_not_true(change: str) -> None:
    orc = o.read_orc(tables.orc_bytes("struct<l:array<int>>", [([1, 2],)], tables.Layout(compression="none")))
    columns = list(o.parse(orc.metadata[1][0])[1])
    if change == "more values than a stripe has":
        columns[2] = o.encode({**o.parse(columns[2]), 1: [2**31 + 1]})
    elif change == "no columns":
        columns = []
    elif change.startswith("no "):
        columns[0] = o.encode({**o.parse(columns[0]), 1: [0]}) if change == "no rows" else b""
    tail = tail_of(o.with_tail(orc, orc.footer, {1: [o.encode({1: columns})]}))
    tail = replace(tail, stride=0 if change == "no stride" else tail.stride)
    assert stripe_statistics_are_true(tail, 0) is (change == "none")


def test_integer_range() -> None:
    assert integer_range(stats(2, int_statistics=INTS)) == (1, 5)
    assert integer_range(stats(0, int_statistics={"sum": 0})) is None
    assert integer_range(stats(2, int_statistics={"minimum": 1})) is None
    assert integer_range(stats(2)) is None


def merge(kind: Kind, *parts: Any, generation: Generation = HIVE4) -> Any:
    return merge_statistics(parts, node_of(kind), reader=generation)


def test_merge_of_nothing() -> None:
    assert merge(Kind.LONG) == stats(0)
    assert merge(Kind.BOOLEAN) == stats(0, bucket_statistics={"count": [0]})
    assert merge(Kind.BINARY) == stats(0, binary_statistics={"sum": 0})


def test_merge_takes_an_absent_has_null_as_nulls() -> None:
    part = stats(2, int_statistics=INTS)
    part.ClearField("has_null")
    assert merge(Kind.INT, stats(2, int_statistics=INTS), part).has_null


def test_merge_ignores_what_parts_without_values_say() -> None:
    empty = stats(0, has_null=True, int_statistics={"sum": 0})
    assert merge(Kind.INT, empty, stats(2, int_statistics=INTS)) == stats(2, has_null=True, int_statistics=INTS)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (Kind.INT, stats(int_statistics=INTS), stats(int_statistics={"maximum": 5, "sum": 6})),
        (Kind.INT, stats(int_statistics=INTS), stats(int_statistics={"minimum": 5, "sum": 6})),
        (Kind.INT, stats(int_statistics=INTS), stats()),
        (Kind.INT, stats(int_statistics=INTS), ColumnStatistics(int_statistics={"minimum": 1, "maximum": 5})),
        (Kind.DATE, stats(date_statistics={"minimum": 1, "maximum": 2}), stats(date_statistics={"minimum": 1})),
        (
            Kind.DOUBLE,
            stats(double_statistics={"minimum": 1.0, "maximum": 2.0, "sum": 3.0}),
            stats(double_statistics={"minimum": 1.0, "maximum": 2.0, "sum": math.nan}),
        ),
        (
            Kind.STRING,
            stats(string_statistics={"minimum": b"a", "maximum": b"b", "sum": 2}),
            stats(string_statistics={"minimum": b"a", "sum": 2}),
        ),
        (Kind.BOOLEAN, stats(bucket_statistics={"count": [1]}), stats(bucket_statistics={"count": []})),
        (Kind.BINARY, stats(binary_statistics={"sum": 1}), stats(binary_statistics={})),
        (Kind.BINARY, stats(binary_statistics={"sum": 1}), stats(binary_statistics={"sum": 2**63 - 1})),
        (
            Kind.DECIMAL,
            stats(decimal_statistics={"minimum": "1", "maximum": "2", "sum": "3"}),
            stats(decimal_statistics={"minimum": "1", "maximum": "x", "sum": "3"}),
        ),
        (
            Kind.TIMESTAMP,
            stats(timestamp_statistics={"minimum_utc": 1, "maximum_utc": 2}),
            stats(timestamp_statistics={"minimum": 1, "maximum": 2}),
        ),
    ],
)
def test_merge_drops_the_message_when_a_part_does_not_know(kind: Kind, good: Any, bad: Any) -> None:
    node, typed = node_of(kind), [field.name for field, _ in good.ListFields() if field.message_type]
    for generation in (HIVE3, HIVE4):
        assert merge_statistics([good, good], node, reader=generation).HasField(typed[0])
        for parts in ([good, bad], [bad, good]):
            merged = merge_statistics(parts, node, reader=generation)
            assert [field.name for field, _ in merged.ListFields()] == ["number_of_values", "has_null"]


@pytest.mark.parametrize("generation", [HIVE3, HIVE4])
def test_numbers_of_damaged_parts_that_do_not_fit_are_left_out(generation: Generation) -> None:
    """Statistics of copied stripes are whatever the file says."""
    counts = stats(1, bucket_statistics={"count": [2**63]})
    assert merge(Kind.BOOLEAN, counts, counts, generation=generation) == stats(2)
    lengths = stats(1, string_statistics={"minimum": b"a", "maximum": b"b", "sum": -(2**63)})
    wanted = stats(2, string_statistics={"minimum": b"a", "maximum": b"b"})
    assert merge(Kind.STRING, lengths, lengths, generation=generation) == wanted
    assert merge(Kind.BINARY, *[stats(1, binary_statistics={"sum": -(2**63)})] * 2, generation=generation) == stats(2)
    last = stats(1, timestamp_statistics={"minimum_utc": 0, "maximum_utc": 2**63 - 1, "maximum_nanos": 5})
    found = merge(Kind.TIMESTAMP, last, generation=generation).timestamp_statistics
    assert found.maximum_utc == 2**63 - 1


def test_merge_drops_sizes_and_children() -> None:
    part = stats(3)
    part.bytes_on_disk = 100
    part.collection_statistics.total_children = 9
    assert merge(Kind.LIST, part, part) == stats(6)


def test_merge_of_string_bounds() -> None:
    exact = stats(1, string_statistics={"minimum": b"b", "maximum": b"d", "sum": 3})
    cut = stats(1, string_statistics={"lower_bound": b"a", "upper_bound": b"e", "sum": 4000})
    wide = {"lower_bound": b"a", "upper_bound": b"e", "sum": 4003}
    assert merge(Kind.STRING, exact, cut) == stats(2, string_statistics=wide)
    assert merge(Kind.STRING, exact, cut, generation=HIVE3) == stats(2)
    mixed = stats(1, string_statistics={"minimum": b"a", "upper_bound": b"d", "sum": 2000})
    wanted = {"minimum": b"a", "maximum": b"d", "sum": 2003}
    assert merge(Kind.STRING, mixed, exact) == merge(Kind.STRING, exact, mixed) == stats(2, string_statistics=wanted)
    tied = stats(1, string_statistics={"lower_bound": b"b", "maximum": b"c", "sum": 2000})
    wanted = {"minimum": b"b", "maximum": b"d", "sum": 2003}
    assert merge(Kind.STRING, tied, exact) == merge(Kind.STRING, exact, tied) == stats(2, string_statistics=wanted)


def test_merge_of_long_strings_leaves_nothing() -> None:
    long = stats(1, string_statistics={"minimum": b"a", "maximum": b"x" * 1025, "sum": 1026})
    assert merge(Kind.STRING, long, long) == stats(2)


def test_merge_of_decimals_as_numbers() -> None:
    first = stats(decimal_statistics={"minimum": "9", "maximum": "10.5", "sum": "19.5"})
    second = stats(decimal_statistics={"minimum": "-1E-18", "maximum": "9.75", "sum": "0.5"})
    wanted = {"minimum": "-0.000000000000000001", "maximum": "10.5", "sum": "20"}
    assert merge(Kind.DECIMAL, first, second) == stats(2, decimal_statistics=wanted)
    full = stats(decimal_statistics={"minimum": "1", "maximum": "9" * 38, "sum": "9" * 38})
    assert merge(Kind.DECIMAL, full, first) == stats(2, decimal_statistics={"minimum": "1", "maximum": "9" * 38})


# --- copying ---


def copy(kind: Kind, found: Any, generation: Generation) -> Any:
    return copied_statistics(found, node_of(kind), reader=generation)


def test_copies_fit_their_readers() -> None:
    nanos = stats(timestamp_statistics={"minimum_utc": 5, "minimum_nanos": 8, "maximum_utc": 10, "maximum_nanos": 8})
    assert copy(Kind.TIMESTAMP, nanos, HIVE4) == nanos
    assert copy(Kind.TIMESTAMP, nanos, HIVE3) == stats(timestamp_statistics={"minimum_utc": 5, "maximum_utc": 11})
    whole_millis = stats(timestamp_statistics={"minimum_utc": 5, "maximum_utc": 10, "maximum_nanos": 1})
    plain = stats(timestamp_statistics={"minimum_utc": 5, "maximum_utc": 10})
    assert copy(Kind.TIMESTAMP, whole_millis, HIVE3) == plain
    assert copy(Kind.TIMESTAMP, plain, HIVE3) == plain
    cut = stats(string_statistics={"minimum": b"a", "upper_bound": b"e", "sum": 4000})
    assert copy(Kind.STRING, cut, HIVE4) == cut
    assert copy(Kind.STRING, cut, HIVE3) == stats()


@pytest.mark.parametrize("generation", [HIVE3, HIVE4])
def test_copies_never_hold_half_a_range(generation: Generation) -> None:
    assert copy(Kind.INT, stats(int_statistics={"minimum": 1}), generation) == stats()
    assert copy(Kind.INT, stats(double_statistics={"minimum": 1.0, "maximum": 2.0}), generation) == stats()
    assert copy(Kind.DOUBLE, stats(double_statistics={"minimum": math.nan, "maximum": 2.0}), generation) == stats()
    assert copy(Kind.STRING, stats(string_statistics={"minimum": b"a"}), generation) == stats()
    assert copy(Kind.TIMESTAMP, stats(timestamp_statistics={"minimum": 1, "maximum": 2}), generation) == stats()
    assert copy(Kind.DECIMAL, stats(decimal_statistics={"minimum": "1", "maximum": ""}), generation) == stats()
    assert copy(Kind.BOOLEAN, stats(0, bucket_statistics={"count": []}), generation) == stats(0)
    assert copy(Kind.DATE, stats(date_statistics={"maximum": 3}), generation) == stats()


def test_copies_keep_the_rest() -> None:
    found = stats(0, has_null=True, int_statistics={"sum": 0})
    found.bytes_on_disk = 7
    assert copy(Kind.INT, found, HIVE3) == found
    lists = stats(3)
    lists.collection_statistics.total_children = 4
    assert copy(Kind.LIST, lists, HIVE3) == lists
