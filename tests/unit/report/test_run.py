"""The document of a run is the same whether it is gathered result by result or made of all at once."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acidlib.report.run import Compactions, RunReport
from acidlib.report.text import json_text

HEAD = {"job": "a job", "version": "1", "run_id": "r"}
VALUES = st.none() | st.integers() | st.text() | st.lists(st.text(), max_size=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted(Compactions):
    """A result of any entries; its totals are their number."""

    @classmethod
    def count(cls, entry: Mapping[str, Any], figures: Counter[str]) -> None:
        del entry, figures

    @property
    def totals(self) -> dict[str, Any]:
        return {"number": self.sums.count}


def gathered(results: list[dict[str, Any]], notes: list[str]) -> list[str]:
    report = RunReport(Counted)
    for one in results:
        report.add(one)
    return list(report.result(HEAD, notes).json_pieces())


@given(
    results=st.lists(st.dictionaries(st.text(), VALUES, max_size=3).map(lambda one: one | {"state": "x"}), max_size=4),
    notes=st.lists(st.text(), max_size=2),
)
def test_it_is_the_same_as_a_whole(results: list[dict[str, Any]], notes: list[str]) -> None:
    whole = {**HEAD, "compactions": results, "totals": {"number": len(results)}, "notes": notes}
    assert "".join(gathered(results, notes)) == json_text(whole)


@pytest.mark.parametrize("text", ["\u00e4\u20ac\U0001f600", '\n  "compactions": []', "\x1b[31m", "\udcff"])
def test_characters_of_every_length_come_through_in_pieces(text: str) -> None:
    random = Random(5)
    results = [{"number": number, "state": "x", "text": f"{text}{random.getrandbits(256):x}"} for number in range(2000)]
    pieces = gathered(results, [text])
    assert len(pieces) > 5, "it is not one piece, or nothing is shown of its seams"
    whole = {**HEAD, "compactions": results, "totals": {"number": len(results)}, "notes": [text]}
    assert "".join(pieces) == json_text(whole)
