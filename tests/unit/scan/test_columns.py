"""Types and values of columns: what Arrow has for them, and how partition keys and stored times are understood."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from acidlib.acid.names import Generation
from acidlib.errors import CorruptError, RefusedError
from acidlib.model.units import ColumnMatching
from acidlib.orc.columns import Column, Dictionary
from acidlib.orc.proto import Kind
from acidlib.orc.schema import TypeNode, parse_row_type
from acidlib.scan.arrays import arrow_array, readable_texts
from acidlib.scan.columns import arrow_type, file_columns
from acidlib.scan.partitions import partition_value
from acidlib.scan.times import StoredTimes

DEFAULT = "__HIVE_DEFAULT_PARTITION__"
MOST = (1 << 31) - 1


def node(text: str) -> TypeNode:
    (child,) = parse_row_type(f"struct<x:{text}>", where="t").children
    return child


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("tinyint", pa.int8()),
        ("decimal(38,18)", pa.decimal128(38, 18)),
        ("char(3)", pa.string()),
        ("timestamp", pa.timestamp("us")),
        ("timestamp with local time zone", pa.timestamp("us", "UTC")),
        ("map<string,array<date>>", pa.map_(pa.string(), pa.list_(pa.date32()))),
        ("struct<A:int>", pa.struct([("A", pa.int32())])),
    ],
)
def test_arrow_types(text: str, kind: pa.DataType) -> None:
    assert arrow_type(node(text)) == kind


def test_a_union_is_refused() -> None:
    with pytest.raises(RefusedError, match="Cannot read a column of type union<int>: Spark has no such type"):
        arrow_type(node("uniontype<int>"))


@pytest.mark.parametrize("generation", [Generation.HIVE3, Generation.HIVE4])
@pytest.mark.parametrize("hive_type", ["int", "string", "char(3)", "boolean", "date", "binary"])
def test_rows_without_a_partition_key_have_none(hive_type: str, generation: Generation) -> None:
    assert partition_value(DEFAULT, hive_type, generation) is None


@pytest.mark.parametrize(
    ("text", "hive_type", "value", "value_of_hive3"),
    [
        ("128", "tinyint", -128, -128),
        ("0.1", "float", 0.10000000149011612, 0.10000000149011612),
        ("12345678901234567890.0123456789", "decimal(38,10)", *[Decimal("12345678901234567890.0123456789")] * 2),
        ("1.5", "decimal(38,30)", Decimal("1.5"), Decimal("1.5")),
        ("2024-1-1", "date", date(2024, 1, 1), date(2024, 1, 1)),
        ("2024-02-30", "date", None, date(2024, 3, 1)),
        ("20240101", "timestamp", None, None),
        ("1d", "double", 1.0, 1.0),
        ("1_000", "double", None, None),
        (
            "2024-02-29 12:00:00 Europe/Berlin",
            "timestamp with local time zone",
            *[datetime(2024, 2, 29, 11, tzinfo=UTC)] * 2,
        ),
    ],
)
def test_partition_values(text: str, hive_type: str, value: Any, value_of_hive3: Any) -> None:
    # all others: tests/conformance/test_partition_keys.py
    assert partition_value(text, hive_type, Generation.HIVE4) == value
    assert partition_value(text, hive_type, Generation.HIVE3) == value_of_hive3


def test_texts_that_are_no_utf8_are_shown_as_hive_shows_them() -> None:
    array = pa.array([b"a\xffb", None, b"ok ", "é".encode()], pa.binary())
    assert readable_texts(array, Kind.STRING).to_pylist() == ["a\ufffdb", None, "ok ", "é"]
    assert readable_texts(array, Kind.CHAR).to_pylist() == ["a\ufffdb", None, "ok", "é"]


def stored(seconds: list[int], nanos: list[int]) -> Column:
    return Column(
        kind=Kind.TIMESTAMP,
        slots=len(seconds),
        values=np.array(seconds, dtype=np.int64),
        secondary=np.array(nanos, dtype=np.int64),
    )


def test_times_are_cut_towards_the_past() -> None:
    # 1 ns and 999 ms in the form of ORC, half a second before and after 1970
    column = stored([-1_420_070_400 - 2, -1_420_070_400], [1 << 3, (5 << 3) | 7])
    moments = StoredTimes("UTC", julian=False).microseconds(column, instant=False)
    assert moments.tolist() == [-2_000_000, 500_000]


def test_years_that_arrow_cannot_count_are_damage() -> None:
    with pytest.raises(CorruptError, match="a timestamp is outside of the years that any reader knows"):
        StoredTimes("UTC", julian=False).microseconds(stored([1 << 50], [0]), instant=False)


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(RefusedError, match="the time zone Mars/Phobos of its timestamps is not known"):
        StoredTimes("Mars/Phobos", julian=False).microseconds(stored([0], [0]), instant=False)


def test_days_of_the_julian_calendar_keep_year_month_and_day() -> None:
    times = StoredTimes.of("UTC", 0, Generation.HIVE4)
    assert times.days(np.array([-141_428, -141_427, 0])).tolist() == [-141_438, -141_427, 0]  # 1582-10-04, 1582-10-15
    assert StoredTimes.of("UTC", 0, Generation.HIVE3).days(np.array([-141_428])).tolist() == [-141_428]
    with pytest.raises(RefusedError, match="day -719165 is before 0001-01-01"):
        times.days(np.array([-719_165]))


def test_a_value_that_is_none_of_its_type_is_damage() -> None:
    column = Column(kind=Kind.SHORT, slots=2, values=np.array([1, 40_000], dtype=np.int64))
    with pytest.raises(CorruptError, match="its value 40000 is no short"):
        arrow_array(column, node("smallint"), StoredTimes("UTC", julian=False))


def words(entries: list[int], present: list[bool] | None = None) -> Column:
    """Texts of a dictionary of three entries: 2 GiB of zeros, of which no page is touched, `a` and `bcd`."""
    data = np.zeros(MOST + 4, dtype=np.uint8)
    data[MOST:] = np.frombuffer(b"abcd", dtype=np.uint8)
    return Column(
        kind=Kind.STRING,
        slots=len(present or entries),
        present=None if present is None else np.array(present),
        values=np.array(entries),
        dictionary=Dictionary(offsets=np.array([0, MOST, MOST + 1, MOST + 4]), data=data),
    )


def test_a_dictionary_may_be_larger_than_an_array_if_the_texts_of_the_rows_are_not() -> None:
    times = StoredTimes("UTC", julian=False)
    array = arrow_array(words([2, 1, 2], [True, False, True, True]), node("string"), times)
    array.validate(full=True)
    assert array.to_pylist() == ["bcd", None, "a", "bcd"]
    assert arrow_array(words([1]), node("char(3)"), times).to_pylist() == ["a"]
    with pytest.raises(RefusedError, match=f"^{MOST + 1} bytes of text in one stripe are more than an Arrow array"):
        arrow_array(words([0, 1]), node("string"), times)


@pytest.mark.parametrize(
    ("by_position", "case_sensitive", "columns"), [(True, True, {1, 0}), (False, False, {2, 0}), (False, True, set())]
)
def test_only_the_chosen_columns_need_be_readable(by_position: bool, case_sensitive: bool, columns: set[int]) -> None:
    table = parse_row_type("struct<a:int,b:int>", where="t")
    file = parse_row_type("struct<B:int,A:bigint,b:string>" if by_position else "struct<b:string,A:int>", where="f")
    chosen = file_columns(
        table,
        ["a"],
        file,
        reader=Generation.HIVE3,
        matching=ColumnMatching(by_position=by_position, case_sensitive=case_sensitive),
        where="f",
    )
    assert chosen.columns == columns
    with pytest.raises(RefusedError, match=r"Cannot read f: its column row\.b is (long|string) and the table's is int"):
        file_columns(
            table,
            ["b", "a"],
            file,
            reader=Generation.HIVE3,
            matching=ColumnMatching(by_position=by_position, case_sensitive=case_sensitive),
            where="f",
        )
