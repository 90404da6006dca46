"""Compaction requests: letters and names of their kinds and states."""

import pytest

from acidlib.errors import RefusedError
from acidlib.model.generation import Generation
from acidlib.model.requests import CompactionRequest, CompactionType, State


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
