"""Type trees of older files, lined up with a table's: what is copied, recoded, converted, refused; values converted."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from judges import tables
from orc_memory import stripe_reader, tree

from acidlib.acid.names import Generation
from acidlib.errors import CorruptError, RefusedError
from acidlib.model.units import ColumnMatching
from acidlib.orc.alignment import Alignment, align, conversions, convert, names_agree, names_note
from acidlib.orc.columns import Column, Dictionary, as_direct
from acidlib.orc.proto import Kind
from acidlib.orc.schema import TypeNode

HIVE3, HIVE4 = Generation


def aligned(target: str, source: str, generation: Generation = HIVE3) -> Alignment:
    return align(tree(target), tree(source), where="/t/old", reader=generation, matching=ColumnMatching.of(generation))


def of_columns(target: str, source: str, generation: Generation = HIVE3) -> Alignment:
    return aligned(f"struct<a:{target}>", f"struct<a:{source}>", generation)


COPIED = {
    "int": ("int", "int"),
    "array<string>": ("array<string>",),
    "smallint": ("int", "bigint"),
    "bigint": ("bigint",),
    "varchar(8)": ("varchar(8)", "varchar(9)", "string"),
    "decimal(10,2)": ("decimal(10,2)", "decimal(12,2)", "decimal(38,2)"),
    "array<int>": ("array<bigint>",),
    "char(3)": ("char(3)",),
}
RECODED = {"tinyint": ("smallint", "bigint"), "map<string,tinyint>": ("map<string,int>",)}
CONVERTED = {
    "boolean": (
        *("tinyint", "smallint", "int", "bigint", "float", "double", "decimal(1,0)", "decimal(38,37)"),
        *("string", "varchar(5)", "char(5)"),
    ),
    "tinyint": ("float", "double", "decimal(3,0)", "decimal(9,6)", "string", "varchar(4)", "char(4)"),
    "smallint": ("float", "double", "decimal(5,0)", "decimal(38,33)", "string", "varchar(6)", "char(6)"),
    "int": ("double", "decimal(10,0)", "decimal(12,2)", "string", "varchar(11)", "char(11)"),
    "bigint": ("decimal(19,0)", "decimal(38,19)", "string", "varchar(20)", "char(20)"),
    "decimal(10,2)": (
        *("decimal(11,3)", "decimal(38,30)", "decimal(38,3)"),
        *("string", "varchar(12)", "varchar(40)", "char(12)", "char(40)"),
    ),
    "decimal(3,3)": ("varchar(6)", "char(6)"),
    "decimal(38,0)": ("varchar(39)", "char(39)"),
    "float": ("double", "string", "varchar(24)", "char(24)"),
    "double": ("string", "varchar(24)", "char(24)", "char(255)"),
    "date": ("string", "varchar(10)", "char(10)", "char(20)"),
    "char(7)": ("string", "varchar(7)", "varchar(8)", "char(8)", "char(255)"),
}
EVERY_OTHER = ("binary", "timestamp", "timestamp with local time zone", "date", "array<int>", "struct<x:int>")
REFUSED = {
    "boolean": (*EVERY_OTHER, "decimal(2,2)", "varchar(4)", "char(4)"),
    "tinyint": (*EVERY_OTHER, "boolean", "decimal(2,0)", "decimal(9,7)", "varchar(3)", "char(3)"),
    "smallint": (*EVERY_OTHER, "boolean", "tinyint", "decimal(4,0)", "decimal(6,2)", "varchar(5)", "char(5)"),
    "int": (*EVERY_OTHER, "boolean", "smallint", "float", "decimal(9,0)", "decimal(11,2)", "varchar(10)", "char(10)"),
    "bigint": (*EVERY_OTHER, "boolean", "int", "float", "double", "decimal(18,0)", "decimal(38,20)", "varchar(19)"),
    "float": (*EVERY_OTHER, "boolean", "bigint", "decimal(38,10)", "varchar(14)", "char(14)"),
    "double": (*EVERY_OTHER, "boolean", "bigint", "float", "decimal(38,10)", "varchar(23)", "char(23)"),
    "decimal(10,2)": (
        *EVERY_OTHER,
        *("boolean", "bigint", "float", "double", "varchar(11)", "char(11)"),
        *("decimal(9,2)", "decimal(10,3)", "decimal(12,1)", "decimal(38,31)"),
    ),
    "string": (*EVERY_OTHER, "boolean", "int", "double", "decimal(38,0)", "varchar(65535)", "char(255)"),
    "varchar(8)": (*EVERY_OTHER, "boolean", "int", "double", "decimal(38,0)", "varchar(7)", "char(8)", "char(9)"),
    "char(7)": (*EVERY_OTHER, "boolean", "int", "double", "decimal(38,0)", "varchar(6)", "char(6)"),
    "binary": ("string", "varchar(9)", "char(9)", "boolean", "int"),
    "timestamp": ("timestamp with local time zone", "date", "string", "varchar(40)", "bigint", "double", "boolean"),
    "timestamp with local time zone": ("timestamp", "date", "string", "varchar(60)", "bigint"),
    "date": ("timestamp", "varchar(9)", "char(9)", "int"),
    "struct<x:int>": ("array<int>", "string"),
    "struct<x:int,y:int>": ("map<int,int>", "uniontype<int,int>"),
    "uniontype<int>": ("uniontype<int,string>", "array<int>"),
    "array<string>": ("array<int>", "string"),
}


def pairs(table: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(source, target) for source, targets in table.items() for target in targets]


@pytest.mark.parametrize("generation", Generation)
@pytest.mark.parametrize(("source", "target"), [*pairs(COPIED), *pairs(RECODED)])
def test_values_stay_where_streams_are_copied_and_where_they_are_written_anew(
    source: str, target: str, generation: Generation
) -> None:
    found = of_columns(target, source, generation)
    assert found.copyable is (source in COPIED)
    assert conversions(found) is None


@pytest.mark.parametrize("generation", Generation)
@pytest.mark.parametrize(("source", "target"), pairs(CONVERTED))
def test_these_values_are_converted(source: str, target: str, generation: Generation) -> None:
    found = of_columns(target, source, generation)
    assert not found.copyable
    assert [part.path for part in found.walk() if part.converted] == ["row.a"]
    assert conversions(found) == f"a from {tree(f'struct<a:{source}>').children[0]} to {found.children[0].target}"


@pytest.mark.parametrize(("source", "target"), pairs(REFUSED))
def test_what_could_change_values_is_refused_with_file_column_and_types(source: str, target: str) -> None:
    old, new = (tree(f"struct<a:{text}>").children[0] for text in (source, target))
    with pytest.raises(RefusedError) as caught:
        of_columns(target, source)
    column = "row.a.0" if source == "array<string>" and target == "array<int>" else "row.a"
    if column == "row.a.0":
        old, new = old.children[0], new.children[0]
    said = f"Cannot compact /t/old: its column {column} is {old} and the table's is {new}, "
    assert str(caught.value).startswith(said)
    with pytest.raises(RefusedError, match="no lossless conversion is known"):
        of_columns(target, source, HIVE4)


def test_the_text_of_a_float_is_longer_for_hive_4() -> None:
    assert of_columns("varchar(15)", "float", HIVE3).children[0].converted is HIVE3
    with pytest.raises(RefusedError, match="no lossless conversion is known"):
        of_columns("varchar(15)", "float", HIVE4)


def claiming(node: TypeNode, **claims: int) -> TypeNode:
    return replace(node, children=(replace(node.children[0], **claims),))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (tree("struct<a:int>"), claiming(tree("struct<a:char(255)>"), maximum_length=256)),
        (tree("struct<a:char(9)>"), claiming(tree("struct<a:char(255)>"), maximum_length=1 << 31)),
        (
            claiming(tree("struct<a:decimal(38,2)>"), precision=39),
            claiming(tree("struct<a:decimal(38,3)>"), precision=40),
        ),
        (claiming(tree("struct<a:decimal(5,2)>"), precision=0), tree("struct<a:decimal(38,3)>")),
        (claiming(tree("struct<a:decimal(5,2)>"), scale=6), tree("struct<a:decimal(38,7)>")),
    ],
    ids=str,
)
def test_types_that_hive_does_not_have_are_refused(source: TypeNode, target: TypeNode) -> None:
    with pytest.raises(RefusedError, match="no lossless conversion is known"):
        align(target, source, where="f", reader=HIVE4, matching=ColumnMatching.of(HIVE4))


# --- by name and by position ------------------------------------------------------------------------------------------

BY_NAME, BY_POSITION = ColumnMatching(by_position=False), ColumnMatching(by_position=True)
WITHOUT_CASE = ColumnMatching(by_position=False, case_sensitive=False)


def sources(target: str, source: str, matching: ColumnMatching) -> list[int | None]:
    """The column of the file that fills each of the table's, below the row too; None: null."""
    found = align(tree(target), tree(source), where="f", reader=HIVE4, matching=matching)
    return [None if part.source is None else part.source.column for part in found.walk()][1:]


@pytest.mark.parametrize(
    ("target", "source", "by_name", "by_position"),
    [
        ("a:int,b:int", "a:int,b:int", [1, 2], [1, 2]),
        ("a:int,b:int", "b:int,a:int", [2, 1], [1, 2]),
        ("a:int,b:int", "x:int,y:int", [None, None], [1, 2]),
        ("a:int,b:int,c:int", "a:int,c:int", [1, None, 2], [1, 2, None]),
        ("a:int,c:int", "a:int,b:int,c:int", [1, 3], [1, 2]),
        ("a:int", "a:int,b:int", [1], [1]),
        ("a:int,b:int", "a:int", [1, None], [1, None]),
        ("a:int,b:int", "A:int,b:int", [None, 2], [1, 2]),
        ("a:int,b:int", "_col0:int,_col1:int", [1, 2], [1, 2]),
        ("a:int,b:int", "_col1:int,_col0:int,_col9:int", [1, 2], [1, 2]),
        ("a:int,b:int", "_col0:int,b:int", [None, 2], [1, 2]),
        ("a:int,b:int", "_COL0:int,b:int", [None, 2], [1, 2]),
        ("a:int,_col1:int", "_col1:int,a:int", [2, 1], [1, 2]),
        ("s:struct<x:int,y:int>", "s:struct<y:int,x:int>", [1, 3, 2], [1, 3, 2]),
        ("s:struct<x:int>", "s:struct<>", [1, None], [1, None]),
        ("s:struct<x:int,y:int>", "s:struct<x:int,z:int>", [1, 2, None], [1, 2, None]),
        ("s:struct<x:int>", "t:struct<X:int>", [None, None], [1, None]),
        ("s:array<struct<x:int>>", "s:array<struct<w:int,x:int>>", [1, 2, 4], [1, 2, 4]),
        ("s:map<int,struct<x:int>>", "s:map<int,struct<_col0:int>>", [1, 2, 3, None], [1, 2, 3, None]),
        ("u:uniontype<int,struct<x:int>>", "u:uniontype<int,struct<y:int,x:int>>", [1, 2, 3, 5], [1, 2, 3, 5]),
    ],
)
def test_columns_go_by_name_or_by_position_and_fields_by_name(
    target: str, source: str, by_name: list[int | None], by_position: list[int | None]
) -> None:
    assert sources(f"struct<{target}>", f"struct<{source}>", BY_NAME) == by_name
    assert sources(f"struct<{target}>", f"struct<{source}>", BY_POSITION) == by_position


def test_of_two_columns_with_one_name_the_last_is_read() -> None:
    source = replace(tree("struct<a:int,b:int>"), field_names=("a", "a"))
    found = align(tree("struct<a:int>"), source, where="f", reader=HIVE3, matching=BY_NAME)
    assert found.children[0].source == source.children[1]


def test_a_site_can_leave_case_out_of_account() -> None:
    assert sources("struct<a:int,s:struct<x:int>>", "struct<S:struct<X:int>,A:int>", WITHOUT_CASE) == [3, 1, 2]


def test_hive_3_goes_by_name_and_hive_4_by_position() -> None:
    found = [aligned("struct<a:int>", "struct<z:int>", generation).children[0].source for generation in Generation]
    assert [one is None for one in found] == [True, False]
    assert [ColumnMatching.of(generation) for generation in Generation] == [BY_NAME, BY_POSITION]


def test_columns_that_are_compared_by_name_have_to_be_of_types_that_are_understood() -> None:
    with pytest.raises(RefusedError, match=r"its column row\.a is string and the table's is int"):
        aligned("struct<a:int,b:string>", "struct<b:string,a:string>")
    assert aligned("struct<a:int,b:string>", "struct<b:string,c:int>").children[0].source is None


@pytest.mark.parametrize(
    ("source", "copyable"),
    [
        ("a:int,b:struct<x:int,y:int>", True),
        ("b:struct<x:int,y:int>,a:int", False),
        ("a:int,b:struct<x:int,y:int>,c:int", False),
        ("a:int,b:struct<y:int,x:int>", False),
        ("a:int,b:struct<x:int,y:int,z:int>", False),
        ("a:int,b:struct<x:int>", False),
    ],
)
def test_only_all_columns_in_order_are_copied_as_they_are(source: str, copyable: bool) -> None:
    assert aligned("struct<a:int,b:struct<x:int,y:int>>", f"struct<{source}>").copyable is copyable


# --- notes about names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "agrees"),
    [
        ("a:int,b:struct<x:int,y:int>", True),
        ("a:string", True),
        ("a:int,b:struct<x:int>", True),
        ("a:int,b:struct<x:int,y:int>,c:int", False),
        ("A:int", False),
        ("a:int,b:struct<y:int>", False),
        ("b:struct<x:int,y:int>,a:int", False),
    ],
)
def test_names_agree_where_the_files_are_the_first_of_the_tables(source: str, agrees: bool) -> None:
    target, found = tree("struct<a:int,b:struct<x:int,y:int>>"), tree(f"struct<{source}>")
    assert names_agree(target, found) is agrees
    assert (names_note(target, found, BY_NAME) is None) is agrees
    assert (names_note(target, found, BY_POSITION) is None) is agrees


def test_notes_say_how_a_file_is_read() -> None:
    table, other = tree("struct<a:int,b:int>"), tree("struct<b:int,a:int>")
    assert names_note(table, other, BY_NAME) == (
        "files with the columns (b, a) are read by name as (a, b); readers that go by position, such as Hive 4 and "
        "Trino, may have seen other values in them before"
    )
    assert names_note(table, other, BY_POSITION) == (
        "files with the columns (b, a) are read by position as (a, b); readers that go by name, such as Hive 3.1, may "
        "have seen other values in them before"
    )
    assert names_note(table, tree("struct<_col0:int>"), BY_NAME) == (
        "files with the columns (_col0), which are no names, are read by position as (a, b)"
    )
    below = names_note(tree("struct<s:struct<x:int>>"), tree("struct<s:struct<y:int>>"), BY_NAME)
    assert below is not None
    assert below.startswith(
        "files with the columns struct<s:struct<y:int>> are read by name as struct<s:struct<x:int>>;"
    )


def test_conversions_below_are_named_by_their_paths() -> None:
    source = "struct<a:array<int>,m:map<tinyint,struct<x:char(2),y:int>>,u:uniontype<int,boolean>>"
    target = "struct<a:array<string>,m:map<string,struct<x:string,y:int>>,u:uniontype<int,string>>"
    found = aligned(target, source)
    assert [part.path for part in found.walk() if part.converted] == ["row.a.0", "row.m.0", "row.m.1.x", "row.u.1"]
    assert [part.copyable for part in found.children] == [False] * 3
    assert conversions(found) == "a.0 from int to string, m.0 from byte to string, m.1.x from char(2) to string, 1 more"


def test_added_columns_have_to_be_written_and_have_no_source_down_to_their_leaves() -> None:
    found = aligned("struct<a:int,b:array<string>>", "struct<a:int>")
    assert not found.copyable
    assert found.children[0].source is not None
    added = found.children[1]
    assert (added.source, added.children[0].source) == (None, None)
    assert (added.target.kind, added.path, added.children[0].path) == (Kind.LIST, "row.b", "row.b.0")


def test_a_decimal_without_precision_stays_among_its_like() -> None:
    """Hive 0.11 wrote such; readers round its values, each of which has a scale of its own."""
    [plain] = tree("struct<a:decimal(12,2)>").children
    old = replace(plain, precision=0, scale=0)
    assert align(old, old, where="/t/old", reader=HIVE3, matching=ColumnMatching.of(HIVE3)).copyable
    found = align(plain, old, where="/t/old", reader=HIVE3, matching=ColumnMatching.of(HIVE3))
    assert (found.copyable, found.converted) == (False, HIVE3)
    with pytest.raises(RefusedError, match="decimal"):
        align(old, plain, where="/t/old", reader=HIVE3, matching=ColumnMatching.of(HIVE3))


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
        reader=generation,
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


def test_all_null_and_no_rows() -> None:
    changes = (("int", "string"), ("char(3)", "string"), ("decimal(5,2)", "decimal(9,4)"), ("float", "double"))
    more = (("date", "string"), ("decimal(5,2)", "char(9)"), ("float", "string"), ("double", "string"))
    for (old, new), generation in product((*changes, *more), Generation):
        assert converted(old, new, [None, None], generation=generation).count == 0
    assert texts(converted("boolean", "string", [None])) == [None]


def test_dates_are_a_dictionary_of_texts() -> None:
    column = converted("date", "string", [0, None, 2_932_896, 0, -141_427, -141_428, -719_164])
    assert column.dictionary is not None
    assert column.dictionary.entries == 5
    expected = ["1970-01-01", None, "9999-12-31", "1970-01-01", "1582-10-15", "1582-10-04", "0001-01-01"]
    assert texts(column) == expected
    padded = texts(converted("date", "char(12)", [-1, None]))
    assert padded == ["1969-12-31  ", None]


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
            "its value 5.684341886080802e-14 is converted differently by different versions of Java",
        ),
        ("double", "string", 2e23, 3, r"its value 2e\+23 is converted differently"),
        ("double", "string", 5e-324, 3, "its value 5e-324 is converted differently"),
        ("double", "string", 2.0**59, 4, r"its value 5.76460752303423\d+e\+17 is converted differently"),
        ("float", "double", 1e30, 3, "its value 1e\\+30 is converted differently"),
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
        return convert(column, target, source, reader=Generation.HIVE4, calendar=calendar)

    assert texts(converted_in(2, -141_427)) == ["1582-10-15"]
    assert texts(converted_in(1, -141_428)) == ["1582-10-04"]
    with pytest.raises(RefusedError, match="day -141428 is before 1582-10-15"):
        converted_in(2, -141_428)


# --- values that no type has ------------------------------------------------------------------------------------------


def refused(old: str, new: str, **arrays: Any) -> str:
    source, target = (tree(f"struct<a:{text}>").children[0] for text in (old, new))
    with pytest.raises(CorruptError) as caught:
        convert(Column(kind=source.kind, slots=2, **arrays), target, source, reader=Generation.HIVE4, calendar=0)
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
