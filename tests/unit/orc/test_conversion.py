"""Values under another type, in the encoded domain: nulls, forms of strings, values that no type has."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from judges import tables
from orc_memory import stripe_reader, tree

from acidlib.errors import CorruptError, RefusedError
from acidlib.model.names import Generation
from acidlib.model.units import ColumnMatching
from acidlib.orc.alignment import align, convert
from acidlib.orc.columns import Column, Dictionary, as_direct


def converted(
    old: str, new: str, values: list[Any], *, dictionary: float = 0.0, generation: Generation = Generation.HIVE4
) -> Column:
    """The column a of a file, under another type."""
    data = tables.orc_bytes(f"struct<a:{old}>", [(v,) for v in values], tables.Layout(dictionary=dictionary))
    reader = stripe_reader(data)
    alignment = align(
        tree(f"struct<a:{new}>"),
        reader.tail.root,
        where="f",
        generation=generation,
        matching=ColumnMatching(by_position=False),
    )
    column = reader.aligned(alignment, len(values)).children[0]
    assert column.kind is alignment.children[0].target.kind
    assert column.slots == len(values)
    assert (column.present is None) == (None not in values)
    return column


def texts(column: Column) -> list[str | None]:
    direct = as_direct(column)
    ends = np.cumsum(direct.lengths).tolist()
    found = [direct.data[e - n : e].tobytes().decode() for e, n in zip(ends, direct.lengths.tolist(), strict=True)]
    if column.present is None:
        return list(found)
    rest = iter(found)
    return [next(rest) if there else None for there in column.present]


@pytest.mark.parametrize("new", ["string", "varchar(20)"])
def test_numbers_far_apart_are_direct(new: str) -> None:
    column = converted("bigint", new, [2**63 - 1, None, -(2**63), 0])
    assert column.dictionary is None
    assert texts(column) == ["9223372036854775807", None, "-9223372036854775808", "0"]


def test_a_few_numbers_are_a_dictionary() -> None:
    values = [(-1) ** i * (i % 3) for i in range(50)]
    column = converted("int", "string", [*values, None])
    assert column.dictionary is not None
    assert column.dictionary.entries == 5
    assert texts(column) == [*map(str, values), None]


@pytest.mark.parametrize("count", [4, 5])
def test_a_dictionary_is_for_fewer_entries_than_values(count: int) -> None:
    column = converted("int", "string", [10, 11, 12, 14, 14][:count])
    assert (column.dictionary is None) == (count == 4)
    assert texts(column) == ["10", "11", "12", "14", "14"][:count]


def test_a_char_of_numbers_is_padded() -> None:
    assert texts(converted("smallint", "char(7)", [-32768, None, 5])) == ["-32768 ", None, "5      "]
    assert texts(converted("tinyint", "char(4)", [-128, 127] * 200)) == ["-128", "127 "] * 200
    assert texts(converted("boolean", "char(6)", [True, None, False])) == ["TRUE  ", None, "FALSE "]


def test_booleans_have_capital_letters() -> None:
    assert texts(converted("boolean", "string", [True, False, None])) == ["TRUE", "FALSE", None]


@pytest.mark.parametrize("dictionary", [0.0, 1.0])
def test_a_char_loses_its_blanks_or_gets_more(dictionary: float) -> None:
    values = ["ab", "", "é", None, " x", "abcd"] * 3
    assert texts(converted("char(4)", "string", values, dictionary=dictionary)) == values
    assert texts(converted("char(4)", "varchar(9)", values, dictionary=dictionary)) == values
    padded = [None if value is None else value.ljust(6) for value in values]
    column = converted("char(4)", "char(6)", values, dictionary=dictionary)
    assert texts(column) == padded
    assert (column.dictionary is not None) == (dictionary > 0)


def test_integers_as_decimals_have_no_digits_behind_the_point() -> None:
    column = converted("bigint", "decimal(38,19)", [2**63 - 1, None, -(2**63)])
    assert (column.values.tolist(), column.secondary.tolist(), column.high) == ([2**63 - 1, -(2**63)], [0, 0], None)


def test_integers_as_reals() -> None:
    single = converted("smallint", "float", [-32768, 32767, 0]).values
    double = converted("int", "double", [-(2**31), 2**31 - 1, 0]).values
    assert single is not None
    assert double is not None
    assert single.view(np.float32).tolist() == [-32768.0, 32767.0, 0.0]
    assert double.view(np.float64).tolist() == [-2147483648.0, 2147483647.0, 0.0]
    assert (single.dtype, double.dtype) == (np.uint32, np.uint64)


def test_booleans_as_integers() -> None:
    for new, dtype in (("tinyint", np.uint8), ("smallint", np.int64), ("int", np.int64), ("bigint", np.int64)):
        values = converted("boolean", new, [True, None, False]).values
        assert (values.tolist(), values.dtype) == ([1, 0], dtype)


def test_all_null_and_no_rows() -> None:
    changes = (("int", "string"), ("char(3)", "string"), ("decimal(5,2)", "decimal(9,4)"), ("float", "double"))
    more = (("date", "string"), ("decimal(5,2)", "char(9)"), ("float", "string"), ("double", "string"))
    for (old, new), generation in product((*changes, *more), Generation):
        assert converted(old, new, [None, None], generation=generation).count == 0
    assert texts(converted("boolean", "string", [None])) == [None]


def test_decimals_stay_as_they_are_stored() -> None:
    column = converted("decimal(20,2)", "decimal(38,20)", ["1.5", None, "-" + "9" * 18 + ".99"])
    assert column.high is not None
    numbers = [
        (high << 64) + (low & (2**64 - 1))
        for high, low in zip(column.high.tolist(), column.values.tolist(), strict=True)
    ]
    scales = column.secondary.tolist()
    assert [number * 10 ** (20 - scale) for number, scale in zip(numbers, scales, strict=True)] == [
        15 * 10**19,
        -(10**20 - 1) * 10**18,
    ]


def test_dates_are_a_dictionary_of_texts() -> None:
    column = converted("date", "string", [0, None, 2_932_896, 0, -141_427, -141_428, -719_164])
    assert column.dictionary is not None
    assert column.dictionary.entries == 5
    expected = ["1970-01-01", None, "9999-12-31", "1970-01-01", "1582-10-15", "1582-10-04", "0001-01-01"]
    assert texts(column) == expected
    padded = texts(converted("date", "char(12)", [-1, None]))
    assert padded == ["1969-12-31  ", None]


def test_decimals_lose_the_zeros_at_their_end() -> None:
    values = ["1.50", None, "-0.01", "0", "100", "-99999999.99"]
    expected = ["1.5", None, "-0.01", "0", "100", "-99999999.99"]
    assert texts(converted("decimal(10,2)", "varchar(12)", values)) == expected
    assert texts(converted("decimal(38,20)", "string", ["123456789012345678." + "1" * 20])) == [
        "123456789012345678." + "1" * 20
    ]


def test_real_numbers_as_texts() -> None:
    values = [0.1, None, 1e7, -0.0, 74.72, float("inf")]
    assert texts(converted("double", "string", values)) == ["0.1", None, "1.0E7", "-0.0", "74.72", "Infinity"]
    assert texts(converted("double", "char(24)", [1.5])) == ["1.5".ljust(24)]
    floats = ["0.10000000149011612", None, "1.0E7", "-0.0", "74.72000122070312", "Infinity"]
    assert texts(converted("float", "string", values)) == floats
    by_text = converted("float", "varchar(15)", values, generation=Generation.HIVE3)
    assert texts(by_text) == ["0.1", None, "1.0E7", "-0.0", "74.72", "Infinity"]


def test_floats_as_doubles_are_those_of_the_tables_hive() -> None:
    values = [0.1, 74.72, 2.0**33, -1.5, float("nan"), 3.0]
    exact = converted("float", "double", values).values.view(np.float64).tolist()
    assert exact[:4] == [0.10000000149011612, 74.72000122070312, 8589934592.0, -1.5]
    by_text = converted("float", "double", values, generation=Generation.HIVE3).values
    # 2 ** 33 as Java 8 writes it
    assert by_text.view(np.float64).tolist()[:4] == [0.1, 74.72, 8589934600.0, -1.5]
    assert (int(by_text[4]), by_text.dtype) == (0x7FF8000000000000, np.uint64)


@pytest.mark.parametrize(
    ("old", "new", "value", "generation", "said"),
    [
        ("date", "string", -719_165, 4, "day -719165 is not from 0001-01-01 to 9999-12-31"),
        ("date", "string", 2_932_897, 3, "day 2932897 is not from 0001-01-01 to 9999-12-31"),
        ("double", "string", float("nan"), 4, "its value NaN is read as null"),
        ("float", "string", float("nan"), 3, "its value NaN is read as null"),
        (
            "double",
            "string",
            2.0**-44,
            4,
            "its value 5.684341886080802e-14 becomes another one in some versions of Java",
        ),
        ("double", "string", 2e23, 3, r"its value 2e\+23 becomes another one"),
        ("double", "string", 5e-324, 3, "its value 5e-324 becomes another one"),
        ("double", "string", 2.0**59, 4, r"its value 5.76460752303423\d+e\+17 becomes another one"),
        ("float", "double", 1e30, 3, "its value 1e\\+30 becomes another one"),
    ],
)
def test_values_that_readers_convert_each_in_their_own_way_are_refused(
    old: str, new: str, value: Any, generation: int, said: str
) -> None:
    expected = rf"Cannot convert stripe 0 of .*: its column row.a is {old} and the table's is {new}: {said}"
    with pytest.raises(RefusedError, match=expected):
        converted(old, new, [value, value], generation=Generation(generation))


def test_whole_numbers_of_more_bits_are_those_of_java_8_for_hive_3() -> None:
    assert texts(converted("double", "string", [2.0**59], generation=Generation.HIVE3)) == ["5.7646075230342349E17"]
    assert texts(converted("double", "string", [2.0**53, 2.0**54])) == ["9.007199254740992E15", "1.8014398509481984E16"]


def test_dates_before_1582_of_another_calendar_are_refused() -> None:
    source, target = (tree(f"struct<a:{text}>").children[0] for text in ("date", "string"))

    def converted_in(calendar: int, day: int) -> Column:
        column = Column(kind=source.kind, slots=1, values=np.array([day], dtype=np.int64))
        return convert(column, target, source, generation=Generation.HIVE4, calendar=calendar)

    assert texts(converted_in(2, -141_427)) == ["1582-10-15"]
    assert texts(converted_in(1, -141_428)) == ["1582-10-04"]
    with pytest.raises(RefusedError, match="day -141428 is before 1582-10-15"):
        converted_in(2, -141_428)


# --- values that no type has ------------------------------------------------------------------------------------------


def refused(old: str, new: str, **arrays: Any) -> str:
    source, target = (tree(f"struct<a:{text}>").children[0] for text in (old, new))
    with pytest.raises(CorruptError) as caught:
        convert(Column(kind=source.kind, slots=2, **arrays), target, source, generation=Generation.HIVE4, calendar=0)
    return str(caught.value)


@pytest.mark.parametrize("value", [32768, -32769])
def test_numbers_out_of_range_are_damage(value: int) -> None:
    values = np.array([0, value], dtype=np.int64)
    assert refused("smallint", "varchar(6)", values=values) == f"its value {value} is no short"


def test_a_char_that_is_too_long_is_damage() -> None:
    said = "a value of 4 characters is no char(3)"
    data = np.frombuffer(b"a b   abcd", dtype=np.uint8)
    assert refused("char(3)", "string", data=data, lengths=np.array([6, 4])) == said
    entries = Dictionary(offsets=np.array([0, 6, 10]), data=data)
    assert refused("char(3)", "char(9)", values=np.array([1, 0]), dictionary=entries) == said


def test_a_decimal_that_is_too_long_is_damage() -> None:
    scales = np.array([2, 1])
    values = np.array([99999, -10000])
    assert refused("decimal(5,2)", "decimal(9,3)", values=values, secondary=scales) == (
        "its value -10000 of scale 1 is no decimal(5,2)"
    )
    high = np.array([1, 0])
    assert refused("decimal(5,2)", "decimal(9,3)", values=values, high=high, secondary=scales) == (
        f"its value {2**64 + 99999} of scale 2 is no decimal(5,2)"
    )
