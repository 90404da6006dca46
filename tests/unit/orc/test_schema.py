"""Type trees: read from files of another writer, written back, and made of Hive's texts of types."""

from __future__ import annotations

from typing import Any

import pytest
from judges import orc_tail, tables
from orc_memory import tail_of, tree

from acidlib.errors import CorruptError, RefusedError
from acidlib.orc.proto import Kind, Type
from acidlib.orc.schema import (
    ACID_FIELDS,
    MAX_COLUMNS,
    ROW_COLUMN,
    TypeNode,
    acid_tree,
    format_types,
    hive_type,
    is_acid,
    parse_row_type,
    parse_types,
    renumber,
    row_struct,
    row_type_of_columns,
)

EVERY_TYPE = (
    "struct<a:boolean,b:tinyint,c:smallint,d:int,e:bigint,f:float,g:double,h:string,i:binary,j:timestamp,"
    "k:array<struct<x:int,y:map<string,decimal(38,10)>>>,l:uniontype<int,array<string>>,m:date,n:varchar(7),o:char(3),"
    "p:timestamp with local time zone,q:struct<>>"
)


def types(*messages: Any) -> list[Any]:
    return list(messages)


def struct(*children: int, names: tuple[str, ...] | None = None) -> Any:
    fields = names if names is not None else tuple(f"c{child}" for child in children)
    return Type(kind=int(Kind.STRUCT), subtypes=children, field_names=fields)


def leaf(kind: int = Kind.INT) -> Any:
    return Type(kind=int(kind))


def test_a_tree_is_numbered_in_pre_order_as_another_parser_sees_it() -> None:
    data = tables.orc_bytes(EVERY_TYPE, [])
    root = tail_of(data).root
    seen = orc_tail.read_orc(data).types
    assert [node.column for node in root.walk()] == list(range(len(seen)))
    assert root.columns == len(seen)
    for node, other in zip(root.walk(), seen, strict=True):
        assert (int(node.kind), tuple(child.column for child in node.children)) == (other.kind, other.children)
        assert node.field_names == other.names
        assert (node.maximum_length, node.precision, node.scale) == (other.max_length, other.precision, other.scale)


def test_formatting_a_tree_gives_the_same_tree_with_its_attributes() -> None:
    messages = types(
        struct(1, 2, 3), leaf(), Type(kind=int(Kind.CHAR), maximum_length=3), Type(kind=int(Kind.DECIMAL), precision=9)
    )
    messages[1].attributes.add(key="iceberg.id", value="7")
    root = parse_types(messages, where="f")
    assert root.children[0].attributes == (("iceberg.id", "7"),)
    assert parse_types(format_types(root), where="f") == root
    nested = tree(EVERY_TYPE)
    assert parse_types(format_types(nested), where="f") == nested


NOT_TREES = {
    "no types": ([], "no types"),
    "a child twice": (types(struct(1, 1), leaf()), "pre-order"),
    "a child of its own": (types(struct(0)), "pre-order"),
    "not in pre-order": (types(struct(2, 1), leaf(), leaf()), "pre-order"),
    "a child that is not there": (types(struct(1)), "pre-order"),
    "a type that belongs to none": (types(struct(1), leaf(), leaf()), "1 types belong to no other type"),
    "a list of nothing": (types(leaf(Kind.LIST)), "wrong children"),
    "a map without values": (types(Type(kind=int(Kind.MAP), subtypes=[1]), leaf()), "wrong children"),
    "more fields than names": (types(struct(1, names=()), leaf()), "wrong children"),
    "an int with a child": (types(Type(kind=int(Kind.INT), subtypes=[1]), leaf()), "wrong children"),
}


@pytest.mark.parametrize("name", NOT_TREES)
def test_what_is_no_tree_is_corrupt_and_names_the_file(name: str) -> None:
    messages, reason = NOT_TREES[name]
    with pytest.raises(CorruptError, match=reason) as caught:
        parse_types(messages, where="/t/bucket_00000")
    assert "/t/bucket_00000" in str(caught.value)


def test_a_tree_is_neither_too_deep_nor_too_wide() -> None:
    deep = [Type(kind=int(Kind.LIST), subtypes=[number + 1]) for number in range(10_000)]
    with pytest.raises(RefusedError, match="/t/bucket_00000: its types are nested deeper than"):
        parse_types([*deep, leaf()], where="/t/bucket_00000")
    with pytest.raises(RefusedError, match="/t/bucket_00000: it has 100,001 columns, more than 100,000"):
        parse_types([leaf()] * (MAX_COLUMNS + 1), where="/t/bucket_00000")


def test_a_kind_from_the_future_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"column 1 of /t/f: type kind 19 is not known"):
        parse_types(types(struct(1), leaf(19)), where="/t/f")


@pytest.mark.parametrize("part", ["name", "key", "value"])
def test_names_that_are_not_utf_8_are_corrupt(part: str) -> None:
    message = struct(1, names=("name",))
    message.attributes.add(key="key", value="value")
    damaged = Type.FromString(message.SerializeToString().replace(part.encode(), b"\xff" * len(part)))
    with pytest.raises(CorruptError, match=r"f: a name in type 0 is not UTF-8"):
        parse_types(types(damaged, leaf()), where="f")


# --- the ACID columns -------------------------------------------------------------------------------------------------


def test_acid_files_are_known_by_names_without_case_and_kinds() -> None:
    standard = tables.acid_schema("struct<a:int>")
    assert is_acid(tree(standard))
    assert is_acid(tree(standard.lower()))
    assert not is_acid(tree(standard.replace("rowId", "row_id")))
    assert not is_acid(tree(standard.replace("bucket:int", "bucket:bigint")))
    assert not is_acid(tree(standard.replace(",row:struct<a:int>", "")))
    assert not is_acid(tree("struct<a:int>"))


def test_the_acid_tree_is_spelt_as_hive_spells_it_whatever_the_input() -> None:
    row = row_struct(tree(tables.acid_schema("struct<A:int,b:array<string>>").replace("originalT", "originalt")))
    rebuilt = acid_tree(row)
    assert rebuilt == tree(tables.acid_schema("struct<A:int,b:array<string>>"))
    assert rebuilt.field_names == ACID_FIELDS
    assert rebuilt.children[5].column == ROW_COLUMN


def test_an_original_file_is_its_own_row_and_moves_by_six_columns() -> None:
    root = tree("struct<a:int,b:map<int,string>>")
    assert row_struct(root) is root
    moved = renumber(root, 6)
    assert [node.column for node in moved.walk()] == [node.column + 6 for node in root.walk()]
    assert str(moved) == str(root)


def parse(text: str) -> TypeNode:
    return parse_row_type(text, where="default.t")


def column(text: str) -> TypeNode:
    return parse(f"struct<c:{text}>").children[0]


def test_a_row_is_the_tree_that_another_parser_makes_of_it() -> None:
    text = (
        "struct<a:boolean,b:tinyint,c:smallint,d:int,e:bigint,f:float,g:double,h:string,i:binary,j:timestamp,k:date,"
        "l:timestamp with local time zone,m:char(255),n:varchar(65535),o:decimal(38,38),"
        "p:array<map<int,array<string>>>,q:uniontype<int,struct<x:string,y:uniontype<date>>>,r:struct<>,s:map<string,struct<z:decimal(1,0)>>,t:int>"
    )
    assert parse(text) == tail_of(tables.orc_bytes(text, [])).root


def test_the_text_of_a_tree_is_read_as_that_tree() -> None:
    text = EVERY_TYPE.replace("struct<a:boolean", "struct<`a b`:boolean,`c``d`:struct<`e,f`:int>,a:boolean")
    assert hive_type(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "precision", "scale"),
    [("decimal", 10, 0), ("decimal(5)", 5, 0), ("decimal(38)", 38, 0), ("decimal( 9 , 2 )", 9, 2)],
)
def test_decimals_have_hives_defaults(text: str, precision: int, scale: int) -> None:
    assert (column(text).precision, column(text).scale) == (precision, scale)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("timestamp with local time zone('US/Pacific')", "timestamp_instant"),
        ("timestamp  with local time zone", "timestamp_instant"),
        ("Timestamp", "timestamp"),
        ("BIGINT", "long"),
        (" array < int > ", "list<int>"),
        ("map<string , Decimal(4,2)>", "map<string,decimal(4,2)>"),
        ("struct< a : int , b : varchar( 3 ) >", "struct<a:int,b:varchar(3)>"),
    ],
)
def test_blanks_cases_and_zones_do_not_count(text: str, plain: str) -> None:
    assert str(column(text)) == plain


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("struct<a b:int,a.b:int,$x:int>", ("a b", "a.b", "$x")),
        ("struct<é:int,漢字:int,1:int,_:int>", ("é", "漢字", "1", "_")),
        ("struct<A:int,a:int>", ("A", "a")),
        ("struct<a-b:int,@c#d/e&f*g%h:int>", ("a-b", "@c#d/e&f*g%h")),
        ("struct<`a:b,c<d>`:int,`(`:int>", ("a:b,c<d>", "(")),
        ("struct<`a``b`:int,````:int,` `:int>", ("a`b", "`", " ")),
        ("struct<struct:struct<int:int>,array:array<int>>", ("struct", "array")),
    ],
)
def test_names_may_be_odd(text: str, names: tuple[str, ...]) -> None:
    assert parse(text).field_names == names


@pytest.mark.parametrize("name", ["void", "interval_year_month", "interval_day_time", "unknown"])
def test_what_orc_cannot_hold_is_refused_with_its_column(name: str) -> None:
    message = rf"Cannot read default\.t: ORC cannot hold its column row\.b\.x\.1 of type {name}$"
    with pytest.raises(RefusedError, match=message):
        parse(f"struct<a:int,b:struct<w:int,x:map<int,{name}>>>")


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "integer", "numeric(4,2)", "json", "list<int>", "timestamp with time zone", "int int", "struct"),
        *("decimal(0)", "decimal(39)", "decimal(10,11)", "decimal(5,-1)", "decimal()", "decimal(1,1,1)", "decimal(1"),
        *("decimal(٣)", "char", "char(0)", "char(256)", "char(1,1)", "varchar", "varchar(65536)", "varchar(x)"),
        *(
            "array",
            "array<>",
            "array<int,int>",
            "array<int",
            "array<int>>",
            "array(int)",
            "map<int>",
            "map<int:string>",
        ),
        *("map<int,int,int>", "uniontype<>", "uniontype<int,>", "struct<a:int,>", "struct<a>", "struct<:int>"),
        *("struct<a:int;b:int>", "struct<a:int b:int>", "struct<a,b:int>", "struct<``:int>", "struct<`a:int>"),
        *("struct<a:b:int>", "struct<a(b:int>", "struct<a:int,b:>", "int,c:int>,x:struct<y:int"),
        "array<" * 201 + "int" + ">" * 201,
    ],
)
def test_what_is_no_type_is_refused_with_its_column(text: str) -> None:
    with pytest.raises(RefusedError, match=r"default\.t: the type of its column row\S* is not understood from"):
        parse(f"struct<c:{text}>")


@pytest.mark.parametrize("text", ["int", "array<struct<a:int>>", "struct<a:int>,", "struct<a:int>int", "a:int"])
def test_only_a_struct_is_a_row(text: str) -> None:
    with pytest.raises(RefusedError, match="its column row is not understood"):
        parse(text)


def test_a_long_text_is_shown_in_part() -> None:
    with pytest.raises(RefusedError, match=r"row\.c is not understood from 'x{60}…' on$"):
        column("x" * 61)


# --- columns as DDL states them ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("a int", "struct<a:int>"),
        ("`a b` map<string , int>,c\tdecimal(10, 2)", "struct<`a b`:map<string , int>,c:decimal(10, 2)>"),
        (
            "\n  `id` int COMMENT 'the, \\'id\\'',\n  `at` timestamp with local time zone comment ''",
            "struct<`id`:int,`at`:timestamp with local time zone>",
        ),
        ("s struct<x:int,y:array<date>>, A string", "struct<s:struct<x:int,y:array<date>>,A:string>"),
    ],
)
def test_columns_become_the_text_of_a_row(columns: str, expected: str) -> None:
    found = row_type_of_columns(columns, where="t")
    assert found == expected
    parse(found)


@pytest.mark.parametrize(
    "columns", ["", "a", "a int,", "a int b int", "a:int", "a int, b text", "struct<a:int>", ", a int"]
)
def test_what_states_no_columns_is_refused(columns: str) -> None:
    with pytest.raises(RefusedError, match="Cannot read t: the type of its column row"):
        row_type_of_columns(columns, where="t")


def test_a_column_is_stated_once() -> None:
    with pytest.raises(RefusedError, match="its column a is stated twice"):
        row_type_of_columns("a int, `A` string", where="t")
