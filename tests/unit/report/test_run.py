"""The document of a run is the same whether it is gathered result by result or made of all at once."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acidlib.model.results import CompactionResult
from acidlib.report.run import Compactions, RunReport
from acidlib.report.text import json_text
from acidlib.report.values import plain

from .documents import DONE, HEAD


def gathered(results: list[CompactionResult], notes: list[str]) -> Compactions:
    report = RunReport(Compactions)
    for one in results:
        report.add(one)
    return report.result(HEAD, notes)


def whole(result: Compactions, results: list[CompactionResult], notes: list[str]) -> str:
    rest = {"totals": plain(result.totals), "notes": notes}
    return json_text({**plain(HEAD), "compactions": [plain(one) for one in results], **rest})


@given(
    results=st.lists(st.builds(lambda text, rows: replace(DONE, reason=text, rows_out=rows), st.text(), st.integers())),
    notes=st.lists(st.text(), max_size=2),
)
def test_it_is_the_same_as_a_whole(results: list[CompactionResult], notes: list[str]) -> None:
    result = gathered(results, notes)
    assert "".join(result.json_pieces()) == whole(result, results, notes) == json_text(result.to_dict())
    assert result.totals.rows_out == sum(one.rows_out or 0 for one in results)


@pytest.mark.parametrize("text", ["\u00e4\u20ac\U0001f600", '\n  "compactions": []', "\x1b[31m", "\udcff"])
def test_characters_of_every_length_come_through_in_pieces(text: str) -> None:
    random = Random(5)
    results = [replace(DONE, reason=f"{text}{random.getrandbits(256):x}") for _ in range(400)]
    result = gathered(results, [text])
    pieces = list(result.json_pieces())
    assert len(pieces) > 5, "it is not one piece, or nothing is shown of its seams"
    assert "".join(pieces) == whole(result, results, [text])
