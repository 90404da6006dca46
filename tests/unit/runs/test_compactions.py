"""How many places are under way in a run, and what it writes of each as it ends."""

from __future__ import annotations

import pytest

from acidlib.model.results import CompactionResult, Outcome
from acidlib.report.progress import ERROR, INFO, WARNING
from acidlib.runs.compactions import level_of, places_in_flight


@pytest.mark.parametrize(
    ("slots", "ended_lately", "wanted"),
    [(0, 0, 1), (0, 50, 1), (2, 0, 40), (2, 50, 90), (100, 0, 432), (400, 0, 1032), (4000, 0, 8032)],
)
def test_each_core_has_places_and_more_where_they_end_quickly(slots: int, ended_lately: int, wanted: int) -> None:
    assert places_in_flight(slots, ended_lately=ended_lately) == wanted


@pytest.mark.parametrize(
    ("state", "level"),
    [
        (Outcome.READY_FOR_CLEANING, INFO),
        (Outcome.SKIPPED, INFO),
        (Outcome.ALREADY_COMPACT, INFO),
        (Outcome.CONFLICT, WARNING),
        (Outcome.REFUSED, INFO),
        (Outcome.FAILED, ERROR),
    ],
)
def test_a_place_that_somebody_should_look_at_stands_out(state: Outcome, level: str) -> None:
    result = CompactionResult(
        database="d", table="t", partition=None, location="/t", type="major", state=state, reason="why"
    )
    assert level_of(result) == level
