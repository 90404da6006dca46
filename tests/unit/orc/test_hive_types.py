"""Hive's texts of types: what they mean in ORC, and what is refused."""

from __future__ import annotations

import pytest
from judges import tables
from orc_memory import tail_of

from acidlib.errors import RefusedError
from acidlib.orc.schema import TypeNode, parse_row_type, row_type_of_columns


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
    message = rf"Cannot compact default\.t: because ORC cannot hold its column row\.b\.x\.1 of type {name}$"
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
    with pytest.raises(RefusedError, match=r"default\.t: because the type of its column row\S* is not understood from"):
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
    with pytest.raises(RefusedError, match="Cannot compact t: because the type of its column row"):
        row_type_of_columns(columns, where="t")


def test_a_column_is_stated_once() -> None:
    with pytest.raises(RefusedError, match="its column a is stated twice"):
        row_type_of_columns("a int, `A` string", where="t")
