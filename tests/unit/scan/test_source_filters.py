"""Filters of PySpark's data sources as predicates."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import datasource

from acidlib.scan.predicate import HIVE_TYPE
from acidlib.scan.source_filters import predicate_of_filters

if not hasattr(datasource, "EqualTo"):
    pytest.skip("this PySpark hands no filters to data sources", allow_module_level=True)

SCHEMA = pa.schema(
    [
        pa.field("flag", pa.bool_()),
        pa.field("Tiny", pa.int8()),
        pa.field("d", pa.float64()),
        pa.field("m", pa.decimal128(5, 2)),
        pa.field("s", pa.string()),
        pa.field("c", pa.string(), metadata={HIVE_TYPE: b"char(5)"}),
        pa.field("day", pa.date32()),
        pa.field("ts", pa.timestamp("us")),
        pa.field("tz", pa.timestamp("us", "UTC")),
        pa.field("items", pa.list_(pa.int32())),
    ]
)
NOON = datetime(2026, 1, 3, 12)


def filter_of(name: str, *arguments: Any) -> Any:
    return getattr(datasource, name)(*arguments)


@pytest.mark.parametrize(
    ("source_filter", "values", "expected"),
    [
        (filter_of("EqualTo", ("flag",), True), [True, False, None], [True]),
        (filter_of("EqualTo", ("tiny",), 1), [1, 2, None], [1]),
        (filter_of("EqualTo", ("tiny",), 300), [1, 2, None], []),
        (filter_of("LessThan", ("tiny",), 300), [1, None], [1]),
        (filter_of("Not", filter_of("EqualTo", ("tiny",), 1)), [1, 2, None], [2]),
        (filter_of("EqualNullSafe", ("tiny",), None), [1, None], [None]),
        (filter_of("Not", filter_of("EqualNullSafe", ("tiny",), 1)), [1, 2, None], [2, None]),
        (filter_of("In", ("tiny",), (1, 3, 300)), [1, 2, 3, None], [1, 3]),
        (filter_of("IsNull", ("items",)), [[1], None], [None]),
        (filter_of("IsNotNull", ("c",)), ["a", None], ["a"]),
        (filter_of("GreaterThan", ("d",), 0.5), [0.5, 1.0, math.nan], [1.0, pytest.approx(math.nan, nan_ok=True)]),
        (
            filter_of("GreaterThanOrEqual", ("m",), Decimal("1.5")),
            [Decimal("1.49"), Decimal("1.50")],
            [Decimal("1.50")],
        ),
        (filter_of("LessThanOrEqual", ("s",), "b"), ["a", "b", "c"], ["a", "b"]),
        (filter_of("StringStartsWith", ("s",), "5%"), ["5%x", "50%"], ["5%x"]),
        (filter_of("StringEndsWith", ("s",), "_b"), ["a_b", "ab"], ["a_b"]),
        (filter_of("StringContains", ("s",), "b"), ["abc", "b", "c", None], ["abc", "b"]),
        (filter_of("EqualTo", ("day",), date(2026, 1, 3)), [date(2026, 1, 3), date(2026, 1, 4)], [date(2026, 1, 3)]),
        (
            filter_of("GreaterThan", ("ts",), NOON),
            [NOON, NOON + timedelta(microseconds=1)],
            [NOON + timedelta(microseconds=1)],
        ),
        (
            filter_of("EqualTo", ("tz",), NOON.replace(tzinfo=timezone(timedelta(hours=1)))),
            [datetime(2026, 1, 3, 11, tzinfo=UTC), NOON.replace(tzinfo=UTC)],
            [datetime(2026, 1, 3, 11, tzinfo=UTC)],
        ),
    ],
)
def test_rows(source_filter: Any, values: list[Any], expected: list[Any]) -> None:
    predicate, others = predicate_of_filters([source_filter], SCHEMA)
    assert others == []
    assert predicate is not None
    (name,) = predicate.columns
    field = next(field for field in SCHEMA if field.name.lower() == name)
    batch = pa.record_batch([pa.array(values, field.type)], pa.schema([field]))
    assert batch.filter(predicate.mask(batch)).column(0).to_pylist() == expected


@pytest.mark.parametrize(
    "source_filter",
    [
        filter_of("EqualTo", ("items", "x"), 1),
        filter_of("EqualTo", ("unknown",), 1),
        filter_of("EqualTo", ("c",), "a"),
        filter_of("StringStartsWith", ("c",), "a"),
        filter_of("StringStartsWith", ("s",), "a\\"),
        filter_of("StringStartsWith", ("tiny",), "a"),
        filter_of("EqualTo", ("tiny",), True),
        filter_of("EqualTo", ("tiny",), 1.5),
        filter_of("EqualTo", ("flag",), 1),
        filter_of("EqualTo", ("m",), Decimal("NaN")),
        filter_of("EqualTo", ("day",), NOON),
        filter_of("EqualTo", ("ts",), NOON.replace(tzinfo=UTC)),
        filter_of("EqualTo", ("tz",), NOON),
        filter_of("In", ("tiny",), (1, "a")),
        filter_of("In", ("tiny",), (1, None)),
        filter_of("Not", filter_of("EqualTo", ("c",), "a")),
        filter_of("EqualNullSafe", ("c",), "a"),
    ],
)
def test_what_is_not_understood_is_left_to_spark(source_filter: Any) -> None:
    known = filter_of("IsNull", ("s",))
    predicate, others = predicate_of_filters([source_filter, known], SCHEMA)
    assert others == [source_filter]
    assert predicate is not None
    assert predicate.columns == {"s"}
    assert predicate_of_filters([source_filter], SCHEMA) == (None, [source_filter])
