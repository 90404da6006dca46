"""Predicates: the rows that texts select, those that are refused, and what bounds leave out."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from acidlib.scan.predicate import HIVE_TYPE, Bounds, parse_predicate

NAN, INF = math.nan, math.inf
NINES = "99999999999999999999.9999999999"
SCHEMA = pa.schema(
    [
        pa.field("flag", pa.bool_()),
        pa.field("tiny", pa.int8()),
        pa.field("n", pa.int32()),
        pa.field("big", pa.int64()),
        pa.field("f", pa.float32()),
        pa.field("d", pa.float64()),
        pa.field("m", pa.decimal128(5, 2)),
        pa.field("wide", pa.decimal128(30, 10)),
        pa.field("s", pa.string()),
        pa.field("c", pa.string(), metadata={HIVE_TYPE: b"char(5)"}),
        pa.field("bin", pa.binary()),
        pa.field("ds", pa.date32()),
        pa.field("ts", pa.timestamp("us")),
        pa.field("tz", pa.timestamp("us", "UTC")),
        pa.field("items", pa.list_(pa.int32())),
        pa.field("A b", pa.int32()),
        pa.field("a`b", pa.int32()),
        pa.field("date", pa.date32()),
    ]
)


def selected(text: str, column: str, values: list[Any]) -> list[Any]:
    """The values of a column that a text selects, each checked against bounds that hold it alone."""
    field = SCHEMA.field(column)
    batch = pa.record_batch([pa.array(values, field.type)], pa.schema([field]))
    predicate = parse_predicate(text, SCHEMA)
    mask = predicate.mask(batch)
    assert mask.type == pa.bool_()
    assert len(mask) == len(values)
    for value, is_selected in zip(batch.column(0).to_pylist(), mask.to_pylist(), strict=True):
        alone = Bounds(low=value, high=value, has_nulls=value is None, all_null=value is None)
        if not pa.types.is_nested(field.type):
            assert predicate.may_match({column.lower(): alone}) is (is_selected is True), value
        assert predicate.may_match({}) or not is_selected
    return batch.filter(mask).column(0).to_pylist()


@pytest.mark.parametrize(
    ("text", "column", "values", "expected"),
    [
        ("flag", "flag", [True, False, None], [True]),
        ("not flag", "flag", [True, False, None], [False]),
        ("flag is not true", "flag", [True, False, None], [False, None]),
        ("flag is false", "flag", [True, False, None], [False]),
        ("flag < true", "flag", [True, False, None], [False]),
        ("flag = null", "flag", [True, False, None], []),
        ("flag <=> null", "flag", [True, False, None], [None]),
        ("not (flag <=> true)", "flag", [True, False, None], [False, None]),
        ("n == 1", "n", [1, 2, None], [1]),
        ("n != 1", "n", [1, 2, None], [2]),
        ("N <> 1 or n is null", "n", [1, 2, None], [2, None]),
        ("not n in (1, null)", "n", [1, 2, None], []),
        ("n in (1, null)", "n", [1, 2, None], [1]),
        ("n not in (1, 3)", "n", [1, 2, 3, None], [2]),
        ("2 > n", "n", [1, 2, 3], [1]),
        ("2 <= n", "n", [1, 2, 3], [2, 3]),
        ("n between 2 and 3", "n", [1, 2, 3, 4, None], [2, 3]),
        ("n not between 2 and 3", "n", [1, 2, 3, 4, None], [1, 4]),
        ("n = '2'", "n", [1, 2], [2]),
        ("n = - - 1", "n", [1, -1], [1]),
        ("n = 1.5", "n", [1, 2, None], []),
        ("n <> 1.5", "n", [1, 2, None], [1, 2]),
        ("n < 1.5", "n", [1, 2], [1]),
        ("n >= 1.5", "n", [1, 2], [2]),
        ("n > -1.5", "n", [-1, -2], [-1]),
        ("n <= 1e0", "n", [1, 2], [1]),
        ("tiny < 300", "tiny", [127, -128, None], [127, -128]),
        ("tiny > 300", "tiny", [127, -128, None], []),
        ("tiny = 300 or tiny is null", "tiny", [127, None], [None]),
        ("tiny > -300", "tiny", [127, -128, None], [127, -128]),
        ("not tiny <= -300", "tiny", [127, -128, None], [127, -128]),
        ("tiny in (300, 1)", "tiny", [1, 44], [1]),
        ("big = 9007199254740993", "big", [9007199254740993, 9007199254740992], [9007199254740993]),
        ("big < 99999999999999999999", "big", [2**63 - 1], [2**63 - 1]),
        ("f = 0.5", "f", [0.5, 0.25], [0.5]),
        ("f = cast(0.1 as float)", "f", [0.1, 0.2], [pytest.approx(0.1)]),
        ("d = 0.1", "d", [0.1, 0.2], [0.1]),
        ("d > 5", "d", [4.0, 6.0, NAN, INF, None], [6.0, pytest.approx(NAN, nan_ok=True), INF]),
        ("d < 5", "d", [4.0, 6.0, NAN, -INF, None], [4.0, -INF]),
        ("d <> 5", "d", [5.0, NAN], [pytest.approx(NAN, nan_ok=True)]),
        ("d = cast('NaN' as double)", "d", [5.0, NAN, None], [pytest.approx(NAN, nan_ok=True)]),
        ("d < cast('NaN' as double)", "d", [5.0, NAN, INF, None], [5.0, INF]),
        ("d <= cast('NaN' as double)", "d", [5.0, NAN, None], [5.0, pytest.approx(NAN, nan_ok=True)]),
        ("d > cast('NaN' as double)", "d", [5.0, NAN, None], []),
        ("d in (1, cast('NaN' as double))", "d", [1.0, NAN, 2.0], [1.0, pytest.approx(NAN, nan_ok=True)]),
        ("d = 0", "d", [0.0, -0.0], [0.0, -0.0]),
        ("d in (-0.0, 1)", "d", [0.0, -0.0], [0.0, -0.0]),
        ("d >= 0", "d", [-0.0], [-0.0]),
        ("m = 1.5", "m", ["1.50", "1.51"], [Decimal("1.50")]),
        ("m = 1.505", "m", ["1.50", "1.51"], []),
        ("m < 1.505", "m", ["1.50", "1.51"], [Decimal("1.50")]),
        ("m > -1000000", "m", ["-999.99", None], [Decimal("-999.99")]),
        ("m > 1000000", "m", ["999.99", None], []),
        (f"wide = -{NINES}", "wide", [Decimal(f"-{NINES}"), Decimal(NINES), None], [Decimal(f"-{NINES}")]),
        ("s > 'b'", "s", ["a", "b", "c", "é", "\uffff", "\U0001f600", None], ["c", "é", "\uffff", "\U0001f600"]),
        ("s < '\U0001f600'", "s", ["\uffff", "\U0001f600"], ["\uffff"]),
        ("s = 'it\\'s'", "s", ["it's"], ["it's"]),
        ('s = "x"', "s", ["x", "y"], ["x"]),
        ("s = 'a '", "s", ["a ", "a"], ["a "]),
        ("s in ('a', 'b')", "s", ["a", "b", "c", None], ["a", "b"]),
        ("s like 'a%'", "s", ["a", "ab", "b", "a\nb", None], ["a", "ab", "a\nb"]),
        ("s not like 'a%'", "s", ["a", "ab", "b", None], ["b"]),
        ("s like '_b'", "s", ["ab", "éb", "\U0001f600b", "b"], ["ab", "éb", "\U0001f600b"]),
        ("s like 'a.b'", "s", ["a.b", "axb"], ["a.b"]),
        ("s like '%(%'", "s", ["a(", "a"], ["a("]),
        (r"s like '10\%'", "s", ["10%", "100"], ["10%"]),
        (r"s like 'a\_%'", "s", ["a_b", "ab"], ["a_b"]),
        ("s like ''", "s", ["", "a"], [""]),
        ("c = 'ab'", "c", ["ab   ", "ab", "abc  ", None], ["ab   ", "ab"]),
        ("c = 'ab   '", "c", ["ab   ", "ab"], ["ab   ", "ab"]),
        ("c > 'ab'", "c", ["ab   ", "abc  "], ["abc  "]),
        ("c in ('ab ')", "c", ["ab   ", "b"], ["ab   "]),
        ("c like 'ab%'", "c", ["ab   ", "b"], ["ab   "]),
        ("bin is null", "bin", [b"a", None], [None]),
        ("items is not null", "items", [[1], None], [[1]]),
        ("ds = '2026-01-03'", "ds", [date(2026, 1, 3), date(2026, 1, 4)], [date(2026, 1, 3)]),
        ("ds > date '2026-01-03'", "ds", [date(2026, 1, 3), date(2026, 1, 4)], [date(2026, 1, 4)]),
        ("date = date '2026-01-03'", "date", [date(2026, 1, 3), None], [date(2026, 1, 3)]),
        (
            "ds >= cast('2026-01-03 00:00:01' as timestamp)",
            "ds",
            [date(2026, 1, 3), date(2026, 1, 4)],
            [date(2026, 1, 4)],
        ),
        ("ts >= '2026-01-03'", "ts", [datetime(2026, 1, 3), datetime(2026, 1, 2, 23)], [datetime(2026, 1, 3)]),
        ("ts = timestamp '2026-01-03 01:02:03.5'", "ts", [datetime(2026, 1, 3, 1, 2, 3, 500_000)], [...]),
        ("ts in ('2026-01-03 01:02:03.5')", "ts", [datetime(2026, 1, 3, 1, 2, 3, 500_000)], [...]),
        ("ts < date '2026-01-03'", "ts", [datetime(2026, 1, 3), datetime(2026, 1, 2, 23)], [datetime(2026, 1, 2, 23)]),
        (
            "tz = timestamp '2026-01-03 01:00:00+01:00'",
            "tz",
            [datetime(2026, 1, 3, tzinfo=UTC), datetime(2026, 1, 3, 1, tzinfo=UTC)],
            [datetime(2026, 1, 3, tzinfo=UTC)],
        ),
        ("`a B` = 1", "A b", [1, 2], [1]),
        ("`a``b` = 1", "a`b", [1, 2], [1]),
        ("true", "n", [1, None], [1, None]),
        ("false or null", "n", [1, None], []),
        ("n = 1 -- a comment", "n", [1, 2], [1]),
    ],
)
def test_rows(text: str, column: str, values: list[Any], expected: list[Any]) -> None:
    if column == "m":
        values = [None if value is None else Decimal(value) for value in values]
    assert selected(text, column, values) == (values if expected == [...] else expected)
