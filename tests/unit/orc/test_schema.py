"""Type trees: read from files of another writer, and written back."""

from __future__ import annotations

from typing import Any

import pyorc
import pytest
from judges import orc_tail, tables
from orc_memory import tail_of, tree

from acidlib.errors import CorruptError, RefusedError
from acidlib.orc.proto import Kind, Type
from acidlib.orc.schema import (
    ACID_FIELDS,
    ROW_COLUMN,
    TypeNode,
    acid_tree,
    format_types,
    is_acid,
    parse_types,
    renumber,
    row_struct,
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


def test_a_tree_reads_as_its_declaration() -> None:
    assert str(tree("struct<a:array<map<string,decimal(5,2)>>,b:varchar(7)>")) == (
        "struct<a:list<map<string,decimal(5,2)>>,b:varchar(7)>"
    )


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
    "too deep": (
        [Type(kind=int(Kind.LIST), subtypes=[number + 1]) for number in range(5000)] + [leaf()],
        "pre-order",
    ),
}


@pytest.mark.parametrize("name", NOT_TREES)
def test_what_is_no_tree_is_corrupt_and_names_the_file(name: str) -> None:
    messages, reason = NOT_TREES[name]
    with pytest.raises(CorruptError, match=reason) as caught:
        parse_types(messages, where="/t/bucket_00000")
    assert "/t/bucket_00000" in str(caught.value)


def test_a_kind_from_the_future_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"column 1 of /t/f: because type kind 19 is not known"):
        parse_types(types(struct(1), leaf(19)), where="/t/f")


@pytest.mark.parametrize("part", ["name", "key", "value"])
def test_names_that_are_not_utf_8_are_corrupt(part: str) -> None:
    message = struct(1, names=("name",))
    message.attributes.add(key="key", value="value")
    damaged = Type.FromString(message.SerializeToString().replace(part.encode(), b"\xff" * len(part)))
    with pytest.raises(CorruptError, match=r"f: because a name in type 0 is not UTF-8"):
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


def test_pyorc_agrees_on_the_types_written() -> None:
    node: TypeNode = tree(EVERY_TYPE)
    kinds = pyorc.TypeDescription.from_string(EVERY_TYPE).fields.values()
    assert [int(child.kind) for child in node.children] == [int(kind.kind) for kind in kinds]
