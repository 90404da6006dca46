"""Where a place is: its text, its store, and what lies below it."""

from __future__ import annotations

import pytest

from acidlib.location import NOWHERE, local_location, parse_location


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("/w/t", "/w/t"),
        ("file:///w/t", "/w/t"),
        ("hdfs://ns/w//t/", "hdfs://ns/w/t"),
        ("HDFS://nn:8020/w/t=%3A/?x#", "hdfs://nn:8020/w/t=%3A/?x#"),
        ("s3a://bucket/w/t/", "s3a://bucket/w/t"),
        ("s3://bucket/w/t", "s3://bucket/w/t"),
        ("s3n://bucket", "s3n://bucket"),
    ],
)
def test_it_is_printed_as_it_was_given(uri: str, text: str) -> None:
    assert str(parse_location(uri)) == text
    assert parse_location(text) == parse_location(uri)


def test_schemes_of_one_store_are_one() -> None:
    one, other = parse_location("s3://b/t"), parse_location("s3a://b/t")
    assert one == other
    assert hash(one) == hash(other)
    assert one.stored_text == other.stored_text == "s3a://b/t"
    assert parse_location("hdfs://b/t") != one != local_location("/t")


def test_what_lies_below() -> None:
    for root in ("/w", "hdfs://ns/w", "s3://b/w"):
        table = parse_location(f"{root}/t")
        assert str(table.child("p=1/q=2")) == f"{root}/t/p=1/q=2"
        assert (table.name, str(table.parent)) == ("t", root)
        assert table.holds(table)
        assert table.holds(table.child("p=1"))
        assert not table.holds(table.parent)
        assert not table.holds(parse_location(f"{root}/t2"))
    assert not parse_location("hdfs://ns/w").holds(parse_location("hdfs://other/w/t"))
    assert not local_location("/w").holds(parse_location("hdfs://ns/w/t"))
    assert parse_location("s3a://b/w").holds(parse_location("s3://b/w/t"))


@pytest.mark.parametrize(("uri", "root"), [("/a", "/"), ("hdfs://ns/a", "hdfs://ns"), ("s3://b/a", "s3://b")])
def test_roots(uri: str, root: str) -> None:
    above = parse_location(uri).parent
    assert (str(above), above.is_root, above.name) == (root, True, "")
    assert above.parent == above
    assert above.holds(parse_location(uri))
    assert above.child("a") == parse_location(uri)


def test_nowhere_is_an_empty_text() -> None:
    assert str(NOWHERE) == ""
