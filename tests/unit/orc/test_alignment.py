"""Type trees of older files, lined up with a table's: what is copied, recoded, converted, refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from orc_memory import tree

from acidlib.errors import RefusedError
from acidlib.model.names import Generation
from acidlib.model.units import ColumnMatching
from acidlib.orc.alignment import Alignment, align, conversions, names_agree, names_note
from acidlib.orc.proto import Kind
from acidlib.orc.schema import TypeNode

HIVE3, HIVE4 = Generation


def aligned(target: str, source: str, generation: Generation = HIVE3) -> Alignment:
    return align(
        tree(target), tree(source), where="/t/old", generation=generation, matching=ColumnMatching.of(generation)
    )


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
@pytest.mark.parametrize(("source", "target"), pairs(COPIED))
def test_these_streams_may_be_copied(source: str, target: str, generation: Generation) -> None:
    found = of_columns(target, source, generation)
    assert found.copyable
    assert conversions(found) is None


@pytest.mark.parametrize("generation", Generation)
@pytest.mark.parametrize(("source", "target"), pairs(RECODED))
def test_these_streams_are_written_anew_with_the_same_values(source: str, target: str, generation: Generation) -> None:
    found = of_columns(target, source, generation)
    assert not found.copyable
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
    said = f"Cannot compact /t/old: because its column {column} is {old} and the table's is {new}, "
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
        align(target, source, where="f", generation=HIVE4, matching=ColumnMatching.of(HIVE4))


# --- by name and by position ------------------------------------------------------------------------------------------

BY_NAME, BY_POSITION = ColumnMatching(by_position=False), ColumnMatching(by_position=True)
WITHOUT_CASE = ColumnMatching(by_position=False, case_sensitive=False)


def sources(target: str, source: str, matching: ColumnMatching) -> list[int | None]:
    """The column of the file that fills each of the table's, below the row too; None: null."""
    found = align(tree(target), tree(source), where="f", generation=HIVE4, matching=matching)
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
    found = align(tree("struct<a:int>"), source, where="f", generation=HIVE3, matching=BY_NAME)
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


def test_an_added_column_has_to_be_written() -> None:
    assert not aligned("struct<a:int,b:string>", "struct<a:int>").copyable


def test_added_columns_have_no_source_down_to_their_leaves() -> None:
    found = aligned("struct<a:int,b:array<string>>", "struct<a:int>")
    assert found.children[0].source is not None
    added = found.children[1]
    assert (added.source, added.children[0].source) == (None, None)
    assert (added.target.kind, added.path, added.children[0].path) == (Kind.LIST, "row.b", "row.b.0")


def test_a_decimal_without_precision_stays_among_its_like() -> None:
    """Hive 0.11 wrote such; readers round its values, each of which has a scale of its own."""
    [plain] = tree("struct<a:decimal(12,2)>").children
    old = replace(plain, precision=0)
    assert align(old, old, where="/t/old", generation=HIVE3, matching=ColumnMatching.of(HIVE3)).copyable
    for target, source in ((plain, old), (old, plain)):
        with pytest.raises(RefusedError, match="decimal"):
            align(target, source, where="/t/old", generation=HIVE3, matching=ColumnMatching.of(HIVE3))
