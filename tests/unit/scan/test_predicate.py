"""Predicates: the rows that texts select, those that are refused, and what bounds leave out."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from acidlib.errors import DefectError, UsageError
from acidlib.scan.predicate import HIVE_TYPE, Bounds, parse_predicate, pushed

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
        ("big <= 9223372036854775807", "big", [2**63 - 1, None], [2**63 - 1]),
        ("n < 9223372036854775807", "n", [2**31 - 1, None], [2**31 - 1]),
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
        ("d in (0.5, 1)", "d", [0.5, -0.0], [0.5]),
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
        ("c in ('ab')", "c", ["ab   ", "b"], ["ab   "]),
        ("c between 'ab' and 'b'", "c", ["ab   ", "b", "c"], ["ab   ", "b"]),
        ("c like 'ab%'", "c", ["ab   ", "b"], ["ab   "]),
        ("bin is null", "bin", [b"a", None], [None]),
        ("items is not null", "items", [[1], None], [[1]]),
        ("ds = '2026-01-03'", "ds", [date(2026, 1, 3), date(2026, 1, 4)], [date(2026, 1, 3)]),
        ("ds > date '2026-01-03'", "ds", [date(2026, 1, 3), date(2026, 1, 4)], [date(2026, 1, 4)]),
        ("date = date '2026-01-03'", "date", [date(2026, 1, 3), None], [date(2026, 1, 3)]),
        (
            "ds > cast('2026-01-03 00:00:00' as timestamp)",
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


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize(
    ("text", "is_true"),
    [
        ("n = 3", lambda n: n == 3),
        ("n <> 3", lambda n: n != 3),
        ("n < 3", lambda n: n < 3),
        ("n <= 3", lambda n: n <= 3),
        ("n > 3", lambda n: n > 3),
        ("n >= 3", lambda n: n >= 3),
        ("n < 2.5", lambda n: n < 2.5),
        ("n in (1, 3, 5)", lambda n: n in (1, 3, 5)),
        ("n between 2 and 3", lambda n: 2 <= n <= 3),
        ("n < 2 or n > 3", lambda n: n < 2 or n > 3),
    ],
)
def test_bounds_exclude_all_that_they_can(text: str, is_true: Any, negated: bool) -> None:
    predicate = parse_predicate(f"not ({text})" if negated else text, SCHEMA)
    for low in range(1, 6):
        for high in range(low, 6):
            expected = any(is_true(n) != negated for n in range(low, high + 1))
            assert predicate.may_match({"n": Bounds(low=low, high=high)}) is expected, (low, high)
        assert predicate.may_match({"n": Bounds(low=low)}) is any(is_true(n) != negated for n in range(low, 10))
        assert predicate.may_match({"n": Bounds(high=low)}) is any(is_true(n) != negated for n in range(-5, low + 1))
    assert predicate.may_match({"n": Bounds()})
    assert not predicate.may_match({"n": Bounds(all_null=True)})


@pytest.mark.parametrize(
    ("text", "bounds", "expected"),
    [
        ("n is null", Bounds(low=1, has_nulls=False), False),
        ("n is null", Bounds(low=1), True),
        ("n is null", Bounds(all_null=True), True),
        ("n is not null", Bounds(all_null=True), False),
        ("n is not null", Bounds(), True),
        ("not (n is not null)", Bounds(has_nulls=False), False),
        ("n <=> 1", Bounds(all_null=True), False),
        ("n <> 300 and tiny = 300", Bounds(), False),
        ("tiny <> 300", Bounds(all_null=True), False),
        ("d > 5", Bounds(low=0.0, high=1.0), False),
        ("d > 5", Bounds(low=0.0, high=NAN), True),
        ("d = cast('NaN' as double)", Bounds(low=0.0, high=INF), False),
        ("d = cast('NaN' as double)", Bounds(low=0.0, high=NAN), True),
        ("d <> cast('NaN' as double)", Bounds(low=NAN, high=NAN), False),
        ("d = 0", Bounds(low=-0.0, high=-0.0), True),
        ("s like 'b%'", Bounds(low="a", high="bz"), True),
        ("s like 'b%'", Bounds(low="bb", high="c"), True),
        ("s like 'b%'", Bounds(low="c", high="d"), False),
        ("s like 'b%'", Bounds(low="a", high="az"), False),
        ("s like 'b%'", Bounds(low="a", high="b"), True),
        ("s not like 'b%'", Bounds(low="b", high="bz"), False),
        ("s not like 'b%'", Bounds(low="b", high="c"), True),
        ("s not like 'b_'", Bounds(low="b", high="bz"), True),
        ("s not like '%'", Bounds(), False),
        (r"s like 'b\%x'", Bounds(low="b%x", high="b%x"), True),
        (r"s like 'b\%x'", Bounds(low="bax", high="bax"), False),
        # stored as 'ab', a tab and blanks: the value 'ab' is not below the bound as it is stored
        ("c = 'ab'", Bounds(low="ab\t  ", high="b    "), True),
        ("c = 'ab\t'", Bounds(low="a    ", high="ab   "), True),
        ("c > 'ab'", Bounds(low="a    ", high="aa   "), False),
        ("c < 'ab'", Bounds(low="ab   ", high="b    "), False),
        ("c <> 'ab'", Bounds(low="ab   ", high="ab   "), False),
        ("flag", Bounds(low=False, high=False), False),
        ("not flag", Bounds(low=True, high=True), False),
    ],
)
def test_bounds(text: str, bounds: Bounds, expected: bool) -> None:
    predicate = parse_predicate(text, SCHEMA)
    (name,) = predicate.columns - {"tiny"} or {"tiny"}
    assert predicate.may_match({name: bounds}) is expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("n = ", "cannot be parsed at '=' in line 1, column 3"),
        ("n = 1 x", "cannot be parsed at 'x' in line 1, column 7"),
        ("n = 'x", "a quote or comment has no end"),
        ("", "it has 0 conditions instead of one"),
        ("n = 1; n = 2", "it has 2 conditions instead of one"),
        ("show tables", "cannot be parsed at 'tables'"),
        ("n = 1 order by n", "cannot be parsed at 'order by'"),
        ("(" * 3000 + "flag" + ")" * 3000, "nested too deeply"),
        ("not " * 3000 + "flag", "nested too deeply"),
        ("missing = 1", "there is no column missing; the columns are a b, a`b, big, bin,"),
        ("n = 1 or missing = 1", "there is no column missing"),
        ("flags = 1", r"; did you mean flag\?$"),
        ("ds >= 2024-01-05", "2024 - 01 - 05 is a subtraction; a date has quotes: '2024-01-05'"),
        ("t.n = 1", "in t.n = 1: t.n: a column is named without its table"),
        ("db.t.n = 1", "a column is named without its table"),
        ("n", "column n is INT, and a condition is BOOLEAN"),
        ("n = 1 and n", "column n is INT, and a condition is BOOLEAN"),
        ("n = big", "big is no literal"),
        ("n + 1 = 2", "is no column"),
        ("1 = 1", "1 is no column"),
        ("abs(n) = 1", "is no column"),
        ("n = abs(1)", "is no literal"),
        ("ds = current_date", "is no literal"),
        ("cast(n as string) = '1'", "is no column"),
        ("n in (select 1)", "is not supported"),
        ("n in ()", "the list is empty"),
        ("n in (1, '2')", "readers disagree on a list of texts and other values"),
        ("big in (9007199254740993, 1e0)", "readers round whole numbers beside a FLOAT or DOUBLE"),
        ("n between symmetric 1 and 2", "symmetric|this is not supported"),
        ("s rlike 'x'", "s RLIKE 'x': this is not supported"),
        ("s ilike 'x'", "this is not supported"),
        ("s like 'x' escape '!'", "this is not supported"),
        ("s like any ('x')", "is no literal"),
        ("s like n", "n is no literal"),
        ("s like 1", "the pattern of LIKE is a whole number"),
        ("n like '1'", "LIKE is for texts, and column n is INT"),
        (r"s like 'a\\b'", "readers disagree on a backslash"),
        ("c like '%b'", "use LIKE 'beginning%'"),
        ("c like 'b %'", "use LIKE 'beginning%'"),
        ("s = 1", "column s is STRING and 1 is a whole number: write '1'"),
        ("s = date '2026-01-03'", "column s is STRING and 2026-01-03 is a date"),
        ("s = 'a' 'b'", "is no literal"),
        (r"s = '\u00e9'", r"the escape \\u is not supported"),
        ("s = cast('abc' as varchar(2))", "readers disagree on"),
        ("flag = 1", "column flag is BOOLEAN and 1 is a whole number"),
        ("flag = 'true'", "column flag is BOOLEAN and 'true' is a text"),
        ("n is true", "column n is INT and True is a truth value"),
        ("n = '02'", "write a number without quotes"),
        ("n = '3000000000'", "write a number without quotes"),
        ("n = true", "column n is INT and True is a truth value"),
        ("n = date '2026-01-03'", "column n is INT and 2026-01-03 is a date"),
        ("big = 1e16", "readers round"),
        (
            "big < 9223372036854775808",
            "9223372036854775808 is beyond BIGINT, and readers disagree on nulls of column big",
        ),
        ("tiny > -9223372036854775808.5", "is beyond BIGINT"),
        ("n = cast(1.5 as int)", "readers disagree on"),
        ("tiny = cast(300 as tinyint)", "readers disagree on"),
        ("f = 0.1", r"cannot hold 0.1, .*: write CAST\(0.1 AS FLOAT\)"),
        ("d = '0.1'", "write a number without quotes"),
        ("d = 1e400", "too large for a DOUBLE"),
        ("m = '1.5'", "write a number without quotes and exponent"),
        ("m = 1e0", "write a number without quotes and exponent"),
        ("m = cast(1.55 as decimal(5,1))", "readers disagree on"),
        (f"m = {'9' * 39}", "more than 38 digits"),
        ("ds = '2026-1-3'", "write DATE 'yyyy-mm-dd'"),
        ("ds = '2026-02-30'", "write DATE 'yyyy-mm-dd'"),
        ("ds = 20260103", "write DATE 'yyyy-mm-dd'"),
        ("ds < timestamp '2026-01-03 12:00:00'", "write DATE 'yyyy-mm-dd'"),
        ("ts = '2026-01-03T00:00:00'", "without zone"),
        ("ts = '2026-01-03 00:00:00Z'", "without zone"),
        ("ts = timestamp '2026-01-03 00:00:00.1234567'", "readers disagree on"),
        ("ts = 5", "column ts is TIMESTAMP and 5 is a whole number"),
        ("ts in ('2026-01-03')", "write TIMESTAMP '2026-01-03'"),
        ("tz = '2026-01-03 00:00:00'", "with its zone"),
        ("tz = timestamp '2026-01-03 00:00:00 Europe/Berlin'", "readers disagree on"),
        ("d in (-0.0, 1)", "readers disagree on 0 and -0.0 in a list, for column d: write = 0"),
        ("n in (1, -0e0)", "readers disagree on 0 and -0.0 in a list, for column n: write = 0"),
        ("n in (1.5, 3000000000)", "readers disagree on nulls of column n, which can have no value of the list"),
        ("m in (0.00000000000000000000000000000000000001)", "together more than 38"),
        ("m = 0.00000000000000000000000000000000000001", "3 digits before the point and 38 after it"),
        ("n < 0.00000000000000000000000000000000000001", "10 digits before the point and 38 after it"),
        ("n between null and 5", "readers disagree on BETWEEN with NULL"),
        ("c in ('ab ')", "readers disagree on blanks at the end of 'ab ' and column c, a CHAR"),
        ("c between 'a' and 'ab '", "readers disagree on blanks at the end of 'ab '"),
        ("c = 'abcdef'", "readers disagree on texts that are longer than column c, a CHAR"),
        ("c in ('abcdef')", "readers disagree on texts in a list that are longer than column c"),
        ("s like 'x_\U0001f600'", r"readers disagree on characters beyond U\+FFFF in a pattern of LIKE"),
        ("n in (1e0, date '2026-01-03')", "column n is INT and 2026-01-03 is a date"),
        ("bin = 'a'", r"column bin is BINARY: only IS \[NOT\] NULL"),
        ("items = 1", r"only IS \[NOT\] NULL"),
        ("items[0] = 1", "is no column"),
        ("n = ?", "is no literal"),
    ],
)
def test_refused(text: str, part: str) -> None:
    with pytest.raises(UsageError, match=part) as error:
        parse_predicate(text, SCHEMA)
    assert str(error.value).startswith("Cannot filter rows by ")
    assert "\n" not in str(error.value)


def test_a_long_text_is_shown_in_part() -> None:
    with pytest.raises(UsageError) as error:
        parse_predicate(" or ".join(f"missing = {n}" for n in range(10_000)), SCHEMA)
    assert len(str(error.value)) < 700


def test_thousands_of_alternatives() -> None:
    predicate = parse_predicate(" or ".join(f"n = {n}" for n in range(0, 10_000, 2)), SCHEMA)
    batch = pa.record_batch({"N": pa.array([1, 2, 9998, 10_000], pa.int32())})
    assert predicate.mask(batch).to_pylist() == [False, True, True, False]


def test_a_predicate_is_a_value() -> None:
    predicate = parse_predicate("n in (1, 2) and (s like 'a%' or not flag)", SCHEMA)
    assert predicate.text == "n in (1, 2) and (s like 'a%' or not flag)"
    assert predicate.columns == {"n", "s", "flag"}
    assert pickle.loads(pickle.dumps(predicate)) == predicate


def test_columns_of_a_batch_are_cast_and_have_to_be_there() -> None:
    predicate = parse_predicate("s = 'a'", SCHEMA)
    batch = pa.record_batch({"S": pa.array(["a", "b", None]).dictionary_encode()})
    assert predicate.mask(batch).to_pylist() == [True, False, None]
    with pytest.raises(DefectError, match="column s of the predicate was not read"):
        predicate.mask(pa.record_batch({"n": pa.array([1])}))


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("n = 1 and abs(n) = 2", {"n"}),
        ("n = 1 and (tiny = 1 or abs(n) = 2)", {"n"}),
        ("s = 1 and (n = 2 and tiny = 3)", {"n", "tiny"}),
        ("abs(n) = 1", None),
        ("not (n = 1 and abs(n) = 2)", None),
        ("exists(items, x -> x > 1) and n = 1", {"n"}),
        ("abs(missing) = 1", None),
        (r"n = 1 and s = 'a\nb'", None),
        ('n = 1 and s = "a"', None),
        ("f > 0.1 and n = 1", {"n"}),
        ("n = 1 and t.x = 2", {"n"}),
        ("n = 1 and s = user", {"n"}),
        ("n = 1 and ts < localtimestamp", {"n"}),
        ("n = 1 and n in (select missing from t)", {"n"}),
    ],
)
def test_pushed(text: str, columns: set[str] | None) -> None:
    predicate = pushed(text, SCHEMA)
    assert (None if predicate is None else predicate.columns) == columns


@pytest.mark.parametrize("text", ["n = 1 and missing = 2", "n = 1 and s = `user`", "abs(n) = 1 and not missing", "n ="])
def test_pushed_refuses(text: str) -> None:
    with pytest.raises(UsageError):
        pushed(text, SCHEMA)


def test_a_date_without_quotes_is_a_mistake_for_spark_too() -> None:
    """Spark compares a text with the number 1993, and selects no row or fails with its own words."""
    schema = pa.schema([("dt", pa.string())])
    with pytest.raises(UsageError, match="2024 - 02 - 29 is a subtraction; a date has quotes: '2024-02-29'"):
        pushed("dt > 'a' and dt = 2024-02-29", schema)
