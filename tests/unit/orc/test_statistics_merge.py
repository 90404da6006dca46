"""Merging column statistics, and fitting those of copied stripes to their readers."""

from __future__ import annotations

import math
from typing import Any

import pytest

from acidlib.model.names import Generation
from acidlib.orc.proto import ColumnStatistics, Kind
from acidlib.orc.statistics import copied_statistics, merge_statistics
from unit.orc.messages import HIVE3, HIVE4, INTS, node_of, stats


def merge(kind: Kind, *parts: Any, generation: Generation = HIVE4) -> Any:
    return merge_statistics(parts, node_of(kind), generation=generation)


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
        assert merge_statistics([good, good], node, generation=generation).HasField(typed[0])
        for parts in ([good, bad], [bad, good]):
            merged = merge_statistics(parts, node, generation=generation)
            assert [field.name for field, _ in merged.ListFields()] == ["number_of_values", "has_null"]


def test_merge_of_integer_sums() -> None:
    big = stats(1, int_statistics={"minimum": 1, "maximum": 2, "sum": 2**63 - 1})
    assert not merge(Kind.LONG, big, big).int_statistics.HasField("sum")
    without = stats(1, int_statistics={"minimum": -1, "maximum": 0})
    assert merge(Kind.LONG, big, without) == stats(2, int_statistics={"minimum": -1, "maximum": 2})


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


def test_merge_of_timestamps() -> None:
    java3 = stats(timestamp_statistics={"minimum_utc": 5, "maximum_utc": 10})
    java4 = stats(timestamp_statistics={"minimum_utc": 5, "minimum_nanos": 8, "maximum_utc": 10, "maximum_nanos": 8})
    wanted = {"minimum_utc": 5, "maximum_utc": 10}
    assert merge(Kind.TIMESTAMP, java3, java4) == stats(2, timestamp_statistics=wanted)
    both = {"minimum_utc": 5, "minimum_nanos": 8, "maximum_utc": 10, "maximum_nanos": 8}
    assert merge(Kind.TIMESTAMP, java4, java4) == stats(2, timestamp_statistics=both)
    rounded = {"minimum_utc": 5, "maximum_utc": 11}
    assert merge(Kind.TIMESTAMP, java3, java4, generation=HIVE3) == stats(2, timestamp_statistics=rounded)
    assert merge(Kind.TIMESTAMP, java3, java3, generation=HIVE3) == stats(2, timestamp_statistics=wanted)


# --- copying ---


def copy(kind: Kind, found: Any, generation: Generation) -> Any:
    return copied_statistics(found, node_of(kind), generation=generation)


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
