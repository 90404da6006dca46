"""What a run writes of each of its places as it ends."""

from __future__ import annotations

import io
import json

import pytest

from acidlib.model.tables import TableRef
from acidlib.report.progress import ERROR, INFO, WARNING, LogFormat, LogLines, TerminalProgress
from acidlib.report.results import CompactionResult, Outcome
from acidlib.service.compact import RunProgress


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
    stream = io.StringIO()
    RunProgress(TerminalProgress(stream, lines=LogLines(format=LogFormat.JSON)), lambda: 0).add(result)
    line = json.loads(stream.getvalue())
    assert (line["level"], line["place"], line["message"].partition(", ")[2]) == (level, "d.t", "why")
