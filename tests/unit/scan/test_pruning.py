"""Bounds by statistics of ORC: which are believed, and what they exclude."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from acidlib.acid.names import Generation
from acidlib.model.units import ColumnMatching
from acidlib.orc.alignment import align
from acidlib.orc.proto import ColumnStatistics, Compression, Kind
from acidlib.orc.reader import Stripe, Tail
from acidlib.orc.schema import TypeNode, parse_row_type
from acidlib.scan.predicate import Bounds, parse_predicate
from acidlib.scan.pruning import column_bounds, file_may_match, partition_bounds, stripe_may_match

ROWS = 10


def stats(values: int = ROWS, *, has_null: bool | None = False, **typed: dict[str, Any]) -> Any:
    message = ColumnStatistics(number_of_values=values)
    if has_null is not None:
        message.has_null = has_null
    for name, fields in typed.items():
        part = getattr(message, name)
        part.SetInParent()
        for field, value in fields.items():
            if field == "count":
                part.count.extend(value)
            else:
                setattr(part, field, value)
    return message


def node(text: str) -> TypeNode:
    return parse_row_type(f"struct<a:{text}>", where="t").children[0]


NULLS = {"has_nulls": False}


@pytest.mark.parametrize(
    ("kind", "message", "expected"),
    [
        ("int", stats(int_statistics={"minimum": -1, "maximum": 5}), Bounds(low=-1, high=5, **NULLS)),
        ("int", stats(9, has_null=True, int_statistics={"minimum": -1, "maximum": 5}), Bounds(low=-1, high=5)),
        ("int", stats(9, int_statistics={"minimum": -1, "maximum": 5}), Bounds(low=-1, high=5)),
        ("int", stats(has_null=None, int_statistics={"minimum": -1, "maximum": 5}), Bounds(low=-1, high=5)),
        ("int", stats(has_null=True, int_statistics={"minimum": -1, "maximum": 5}), Bounds(low=-1, high=5)),
        ("int", stats(int_statistics={"minimum": 6, "maximum": 5}), Bounds(**NULLS)),
        ("int", stats(int_statistics={"minimum": 6}), Bounds(low=6, **NULLS)),
        ("int", stats(), Bounds(**NULLS)),
        ("int", stats(0, has_null=True), Bounds(all_null=True)),
        ("int", stats(0, has_null=False), Bounds()),
        ("int", stats(0, has_null=None), Bounds()),
        ("int", ColumnStatistics(has_null=True), Bounds()),
        ("tinyint", stats(int_statistics={"minimum": 1, "maximum": 2}), Bounds(low=1, high=2, **NULLS)),
        ("boolean", stats(bucket_statistics={"count": [0]}), Bounds(low=False, high=False, **NULLS)),
        ("boolean", stats(bucket_statistics={"count": [10]}), Bounds(low=True, high=True, **NULLS)),
        ("boolean", stats(bucket_statistics={"count": [3]}), Bounds(low=False, high=True, **NULLS)),
        ("boolean", stats(bucket_statistics={}), Bounds(**NULLS)),
        (
            "double",
            stats(double_statistics={"minimum": 0.5, "maximum": 2.0, "sum": 9.0}),
            Bounds(low=0.5, high=2.0, **NULLS),
        ),
        ("double", stats(double_statistics={"minimum": 0.5, "maximum": 2.0, "sum": math.nan}), Bounds(**NULLS)),
        ("double", stats(double_statistics={"minimum": 0.5, "maximum": 2.0}), Bounds(**NULLS)),
        ("string", stats(string_statistics={"minimum": b"a", "maximum": b"b"}), Bounds(low="a", high="b", **NULLS)),
        (
            "string",
            stats(string_statistics={"lower_bound": b"a", "upper_bound": b"b"}),
            Bounds(low="a", high="b", **NULLS),
        ),
        ("string", stats(string_statistics={"minimum": b"a", "maximum": b"\xff"}), Bounds(**NULLS)),
        (
            "string",
            stats(string_statistics={"minimum": "aé".encode(), "maximum": "bé".encode()}),
            Bounds(low="aé", high="b\uffff", **NULLS),
        ),
        ("string", stats(string_statistics={"minimum": b"a", "maximum": "\ue000".encode()}), Bounds(**NULLS)),
        ("string", stats(string_statistics={"minimum": "\U0001f600".encode(), "maximum": b"b"}), Bounds(**NULLS)),
        (
            "varchar(2)",
            stats(string_statistics={"minimum": b"abc", "maximum": b"bcd"}),
            Bounds(low="ab", high="bcd", **NULLS),
        ),
        (
            "char(3)",
            stats(string_statistics={"minimum": b"a  ", "maximum": b"b  "}),
            Bounds(low="a  ", high="b  ", **NULLS),
        ),
        (
            "decimal(5,2)",
            stats(decimal_statistics={"minimum": "-1.005", "maximum": "1.001"}),
            Bounds(low=Decimal("-1.01"), high=Decimal("1.01"), **NULLS),
        ),
        (
            "decimal(5,2)",
            stats(decimal_statistics={"minimum": "1", "maximum": "999.999"}),
            Bounds(low=Decimal(1), high=Decimal(1000)),
        ),
        ("decimal(5,2)", stats(decimal_statistics={"minimum": "x", "maximum": "1"}), Bounds(high=Decimal(1))),
        (
            "date",
            stats(date_statistics={"minimum": 0, "maximum": 1}),
            Bounds(low=date(1970, 1, 1), high=date(1970, 1, 2), **NULLS),
        ),
        ("date", stats(date_statistics={"minimum": -141_428, "maximum": 1}), Bounds(high=date(1970, 1, 2), **NULLS)),
        ("date", stats(date_statistics={"minimum": -141_430, "maximum": -141_429}), Bounds(**NULLS)),
        ("date", stats(date_statistics={"minimum": 0, "maximum": 2**31 - 1}), Bounds(low=date(1970, 1, 1), **NULLS)),
        (
            "timestamp",
            stats(timestamp_statistics={"minimum_utc": 0, "maximum_utc": 1}),
            Bounds(low=datetime(1969, 12, 31), high=datetime(1970, 1, 2, 0, 0, 0, 1000), **NULLS),
        ),
        ("timestamp", stats(timestamp_statistics={"minimum": 0, "maximum": 1}), Bounds(**NULLS)),
        ("timestamp", stats(timestamp_statistics={"minimum_utc": -(2**62), "maximum_utc": 2**62}), Bounds(**NULLS)),
        (
            "timestamp with local time zone",
            stats(timestamp_statistics={"minimum_utc": 0, "maximum_utc": 0}),
            Bounds(low=datetime(1969, 12, 31, tzinfo=UTC), high=datetime(1970, 1, 2, tzinfo=UTC), **NULLS),
        ),
        ("binary", stats(binary_statistics={"sum": 9}), Bounds(**NULLS)),
        ("array<int>", stats(9, has_null=True), Bounds()),
        ("struct<x:int>", stats(0, has_null=True), Bounds(all_null=True)),
    ],
)
def test_bounds_of_statistics(kind: str, message: Any, expected: Bounds) -> None:
    bounds = column_bounds(message, node(kind), ROWS)
    assert bounds == expected
    assert [type(bound) for bound in (bounds.low, bounds.high)] == [type(b) for b in (expected.low, expected.high)]


def tail(columns: str, *statistics: Any, stride: int = 10_000, root: Any = None) -> Tail:
    messages = (root or stats(), *statistics)
    return Tail(
        name="f",
        length=1,
        root=parse_row_type(columns, where="t"),
        columns=1 + len(statistics),
        stripes=(Stripe(offset=3, index_length=0, data_length=0, footer_length=0, rows=ROWS),),
        rows=ROWS,
        compression=Compression.NONE,
        block_size=0,
        stride=stride,
        version=(0, 12),
        writer=0,
        writer_version=6,
        calendar=0,
        user_metadata={},
        file_statistics=messages,
        stripe_statistics=(messages,),
        memory_size=0,
    )


def may_match(text: str, file: Tail, table: str = "struct<a:bigint>", **partition: Any) -> bool:
    row = parse_row_type(table, where="t")
    parts = align(
        row, file.root, where="f", reader=Generation.HIVE3, matching=ColumnMatching(by_position=False)
    ).children
    columns = dict(zip(row.field_names, parts, strict=True))
    types = {Kind.LONG: pa.int64(), Kind.STRING: pa.string()}
    schema = pa.schema([(name, types[part.target.kind]) for name, part in columns.items()] + [("ds", pa.date32())])
    predicate = parse_predicate(text, schema)
    bounds = partition_bounds(partition)
    results = {file_may_match(predicate, file, columns, bounds), stripe_may_match(predicate, file, 0, columns, bounds)}
    assert len(results) == 1
    return results.pop()


FROM_1_TO_5 = stats(int_statistics={"minimum": 1, "maximum": 5})


def test_statistics_exclude_a_stripe_and_a_file() -> None:
    file = tail("struct<a:bigint>", FROM_1_TO_5)
    assert may_match("a = 5", file)
    assert not may_match("a = 6", file)
    assert not may_match("not (a < 6)", file)
    assert not may_match("a is null", file)


def test_a_wider_integer_keeps_its_bounds() -> None:
    assert not may_match("a = 6", tail("struct<a:int>", FROM_1_TO_5))
    assert not may_match("a = 6", tail("struct<a:tinyint>", FROM_1_TO_5))


def test_a_converted_column_has_no_bounds() -> None:
    assert may_match("a = '9'", tail("struct<a:bigint>", FROM_1_TO_5), "struct<a:string>")


def test_a_column_that_the_file_lacks_is_null() -> None:
    file = tail("struct<a:bigint>", FROM_1_TO_5)
    assert not may_match("b = 1", file, "struct<a:bigint,b:bigint>")
    assert may_match("b is null", file, "struct<a:bigint,b:bigint>")


def test_partition_keys_have_one_value() -> None:
    file = tail("struct<a:bigint>", FROM_1_TO_5)
    assert may_match("ds = '2026-01-03'", file, ds=date(2026, 1, 3))
    assert not may_match("ds = '2026-01-03'", file, ds=date(2026, 1, 4))
    assert not may_match("ds is null or a > 5", file, ds=date(2026, 1, 4))
    assert not may_match("ds = '2026-01-03'", file, ds=None)
    assert may_match("ds is null", file, ds=None)


def test_timestamps_of_partitions_are_a_day_wider_and_instants_are_not() -> None:
    moment = datetime(2026, 1, 3)
    wider = Bounds(low=datetime(2026, 1, 2), high=datetime(2026, 1, 4), **NULLS)
    assert partition_bounds({"A": moment}) == {"a": wider}
    assert partition_bounds({"a": datetime.max}) == {"a": Bounds(**NULLS)}
    instant = moment.replace(tzinfo=UTC)
    assert partition_bounds({"a": instant}) == {"a": Bounds(low=instant, high=instant, **NULLS)}


@pytest.mark.parametrize(
    "file",
    [
        tail("struct<a:bigint>", FROM_1_TO_5, stride=0),
        tail("struct<a:bigint>", stats(0, has_null=True), root=stats(0)),
        tail("struct<a:bigint>", FROM_1_TO_5, root=ColumnStatistics()),
        replace(tail("struct<a:bigint>", FROM_1_TO_5), file_statistics=(), stripe_statistics=()),
    ],
    ids=["no row index", "no values, as a minor of Hive 3.1 writes it", "no count", "no statistics"],
)
def test_false_statistics_exclude_nothing(file: Tail) -> None:
    assert may_match("a = 6", file)
    assert not may_match("ds = '2026-01-03' and a = 6", file, ds=None)
