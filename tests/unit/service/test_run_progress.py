"""What a run writes of each of its places as it ends."""

from __future__ import annotations

import pytest

from acidlib.model.tables import TableRef
from acidlib.report.progress import ERROR, INFO, WARNING
from acidlib.report.results import CompactionResult, Outcome
from acidlib.service.compact import level_of


@pytest.mark.parametrize(
    ("state", "reason", "level"),
    [
        (Outcome.READY_FOR_CLEANING, "why", INFO),
        (Outcome.SUCCEEDED, "why", INFO),
        (Outcome.SKIPPED, "why", INFO),
        (Outcome.FAILED, "why", ERROR),
        (Outcome.CONFLICT, "why", WARNING),
        (Outcome.REFUSED, "why", WARNING),
        (Outcome.ALREADY_COMPACT, "why", INFO),
    ],
)
def test_a_place_that_somebody_should_look_at_stands_out(state: Outcome, reason: str, level: str) -> None:
    result = CompactionResult(id=1, ref=TableRef("d", "t"), location="/t", type="major", state=state, reason=reason)
    assert level_of(result) == level
