"""Thresholds, request states and the text form of maps and lists."""

import pytest

from acidlib.errors import RefusedError
from acidlib.model.generation import Generation
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.stringable import format_map, parse_map
from acidlib.planning.decide import ABORTED_TXN_KEY, DELTA_NUM_KEY, DELTA_PCT_KEY
from acidlib.settings import Layer, default_settings

ABORTED_TXN_TIME_KEY = "hive.compactor.aborted.txn.time.threshold"


def test_later_sources_win() -> None:
    values, _ = default_settings().with_layer(Layer.HIVE_SITE, {DELTA_NUM_KEY: "5", DELTA_PCT_KEY: "0.5", "other": "x"})
    values, warnings = values.with_layer(
        Layer.TABLE, {f"compactorthreshold.{DELTA_NUM_KEY}": "6", f"compactorthreshold.{ABORTED_TXN_KEY}": "7"}
    )
    found = values.thresholds()
    assert {key: (one.value, one.source) for key, one in found.items()} == {
        DELTA_NUM_KEY: (6, "table property"),
        DELTA_PCT_KEY: (0.5, "hive-site.xml"),
        ABORTED_TXN_KEY: (1000, "default"),
    }
    assert all(one.key == key for key, one in found.items())
    assert len(warnings) == 1
    values, _ = values.with_layer(Layer.COMMAND_LINE, {DELTA_NUM_KEY: "8"})
    assert values.thresholds()[DELTA_NUM_KEY].source == "--set"


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        *(("12h", 43_200_000), ("2", 7_200_000), ("90s", 90_000), ("-1", -3_600_000), ("5 ms", 5)),
        ("90m", 5_400_000),
    ],
)
def test_times(text: str, ms: int) -> None:
    settings, _ = default_settings().with_layer(Layer.COMMAND_LINE, {ABORTED_TXN_TIME_KEY: text})
    assert settings.integer(ABORTED_TXN_TIME_KEY) == ms


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (DELTA_NUM_KEY, "ten"),
        (DELTA_NUM_KEY, "1.5"),
        (DELTA_PCT_KEY, "nan"),
        (DELTA_PCT_KEY, "10%"),
        (ABORTED_TXN_TIME_KEY, "1 moon"),
    ],
)
def test_values_that_do_not_parse(key: str, value: str) -> None:
    with pytest.raises(RefusedError, match=f"{key}={value} from hive-site.xml"):
        default_settings().with_layer(Layer.HIVE_SITE, {key: value})


def test_letters_of_kinds_and_states() -> None:
    assert {kind.value: kind.label for kind in CompactionType} == {
        "i": "MINOR",
        "a": "MAJOR",
        "r": "REBALANCE",
        "c": "ABORT_TXN_CLEANUP",
    }
    assert {state.value: state.label for state in State} == {
        "i": "initiated",
        "w": "working",
        "r": "ready for cleaning",
        "f": "failed",
        "s": "succeeded",
        "a": "did not initiate",
        "c": "refused",
        "x": "aborted",
    }
    assert State.ATTEMPTED.label_of(Generation.HIVE3) == "attempted"
    assert State.ATTEMPTED.label_of(Generation.HIVE4) == "did not initiate"
    assert State.parse("attempted") is State.parse("did not initiate") is State.parse("a")
    assert CompactionType.parse("Major") is CompactionType.parse("a") is CompactionType.MAJOR


def test_unknown_kinds_and_states() -> None:
    with pytest.raises(RefusedError, match="no such type"):
        CompactionType.parse("rebalanced")
    with pytest.raises(RefusedError, match="no such state"):
        State.parse("done")


def test_request() -> None:
    request = CompactionRequest(
        id=1, database="d", table="t", partition="p=1", type=CompactionType.MAJOR, properties=(("k", "v"),)
    )
    assert request.full_name == "d.t.p=1"
    assert request.entity == ("d", "t", "p=1")


def test_stringable_map_as_in_hives_test() -> None:
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
def test_stringable_texts_that_do_not_parse(text: str) -> None:
    with pytest.raises(RefusedError, match="Cannot read"):
        parse_map(text)
