"""How much of a place is verified, and for which request it is held."""

from __future__ import annotations

from typing import Any

import pytest

from acidlib.errors import RefusedError
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts, State
from acidlib.model.tables import TableRef
from acidlib.planning.results import chosen_buckets, holding, share_of


def row(
    number: int, state: State, *, made: tuple[str, ...] | None = None, differs: bool = False, **more: Any
) -> CompactionRequest:
    facts = RequestFacts(unverified=made, differs=differs)
    kind = CompactionType.MAJOR
    return CompactionRequest(id=number, ref=TableRef("db", "t"), type=kind, state=state, facts=facts, **more)


@pytest.mark.parametrize(
    ("text", "share"), [("", None), ("none", None), ("all", 1.0), ("sample=0.1", 0.1), ("0.5", 0.5), ("sample=1", 1.0)]
)
def test_shares(text: str, share: float | None) -> None:
    assert share_of(text) == share


@pytest.mark.parametrize("text", ["sample=0", "sample=1.1", "sample=nan", "-1", "some"])
def test_no_shares(text: str) -> None:
    with pytest.raises(RefusedError):
        share_of(text)


def test_a_request_looks_at_the_same_buckets_and_another_at_others() -> None:
    buckets = range(1000)
    first = chosen_buckets(buckets, 0.1, place="/w/t", request=1)
    assert first == chosen_buckets(reversed(buckets), 0.1, place="/w/t", request=1)
    assert 60 < len(first) < 140
    assert first != chosen_buckets(buckets, 0.1, place="/w/t", request=2)
    assert first != chosen_buckets(buckets, 0.1, place="/w/u", request=1)
    assert chosen_buckets(buckets, 1.0, place="/w/t", request=1) == tuple(buckets)
    assert len(chosen_buckets(buckets, 1e-9, place="/w/t", request=1)) == 1
    assert chosen_buckets((), 1.0, place="/w/t", request=1) == ()


@pytest.mark.parametrize(
    ("rows", "held"),
    [
        ((), None),
        ((row(1, State.FAILED, error_message="no space"),), None),
        ((row(1, State.FAILED, differs=True),), 1),
        ((row(1, State.FAILED, made=("base_1",)),), 1),
        ((row(1, State.INITIATED, made=("base_1",)),), 1),
        ((row(1, State.REFUSED, made=("base_1",)),), 1),
        ((row(1, State.FAILED, made=("base_0",), differs=True),), None),  # taken away
        ((row(1, State.FAILED, made=()),), None),
        ((row(2, State.FAILED, made=("base_1",)), row(1, State.READY_FOR_CLEANING)), 2),
        ((row(2, State.FAILED, made=("base_1",)), row(3, State.READY_FOR_CLEANING)), None),  # released
        ((row(2, State.FAILED, made=("base_1",)), row(3, State.SUCCEEDED)), None),
        ((row(2, State.FAILED, made=("base_1",)), row(3, State.REFUSED), row(4, State.WORKING)), 2),
    ],
)
def test_for_whom_a_place_is_held(rows: tuple[CompactionRequest, ...], held: int | None) -> None:
    found = holding(rows, {"base_1", "delta_1_1"})
    assert (None if found is None else found.id) == held


def test_what_is_not_understood_holds() -> None:
    facts = RequestFacts(problems={"unverified": "its acidlib.unverified is odd"})
    one = CompactionRequest(id=1, ref=TableRef("db", "t"), type=CompactionType.MAJOR, state=State.FAILED, facts=facts)
    assert holding([one], {"base_1"}) is one
