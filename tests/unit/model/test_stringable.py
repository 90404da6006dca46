"""The text form of maps in the metastore's database."""

import pytest

from acidlib.errors import RefusedError
from acidlib.model.requests import format_map, parse_map


def test_a_map_as_in_hives_test() -> None:
    assert format_map({}) == "0:"
    assert parse_map("0:") == {}
    entries = {"akey": "aval", "bkey": None, "ckey": ""}
    assert format_map(entries) == "3:4:akey4:aval4:bkey-1:4:ckey0:"
    assert parse_map("3:4:akey4:aval4:bkey-1:4:ckey0:") == entries
    assert parse_map("1:-1:-1:") == {None: None}


def test_lengths_are_java_characters() -> None:
    assert format_map({"\U0001f600:": "é"}) == "1:3:\U0001f600:1:é"
    assert parse_map("1:3:\U0001f600:1:é") == {"\U0001f600:": "é"}
    assert parse_map("1:1:\u3a3a1:\u003a") == {"\u3a3a": ":"}


@pytest.mark.parametrize("text", ["", "x", "1", "-1:", "2:1:a1:b", "1:1:a2:b", "1:1:a1:bc", "1:-2:1:b", "9:"])
def test_texts_that_do_not_parse(text: str) -> None:
    with pytest.raises(RefusedError, match="Cannot read"):
        parse_map(text)
