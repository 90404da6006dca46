"""Results as values: frozen, small, and pictures in a notebook that leave its page alone."""

from __future__ import annotations

import json
import pickle
import re
import sys
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from acidlib.errors import RefusedError
from acidlib.model.results import (
    Cancellation,
    CancellationsDocument,
    ChecksDocument,
    CompactionResult,
    Head,
    Outcome,
    ResultFile,
    UndoDocument,
    UndoResult,
)
from acidlib.report.answers import Cancellations, Checks, Undo
from acidlib.report.html import scoped
from acidlib.report.values import Packed, Packer, plain

from .documents import DONE, FAILED, HEAD, LEFT, PLACE, RESULTS, UNIT, WAITS, status_of_tables, told
from .test_page import Elements


def packed(*names: str) -> Packed[ResultFile]:
    packer = Packer(ResultFile)
    for name in names:
        packer.add(replace(FILE, file_name=name))
    return packer.packed()


FILE = ResultFile.of(UNIT)


def test_values_are_packed_as_a_sequence() -> None:
    names = ("a", "\udcff\u20ac\n", "c")
    values = packed(*names)
    assert list(values) == [replace(FILE, file_name=name) for name in names]
    assert (len(values), values[0].file_name, values[-1].file_name) == (3, "a", "c")
    assert [value.file_name for value in values[1:]] == [*names[1:]]
    assert list(values.entries) == [plain(value) for value in values]
    for index in (3, -4):
        with pytest.raises(IndexError, match=rf"^entry {index} of 3$"):
            values[index]
    assert list(packed()) == []
    assert repr(packed("a")) == "<1 entry>"


def test_ten_thousand_places_take_little_memory() -> None:
    packer = Packer(CompactionResult)
    for number in range(10_000):
        packer.add(replace(DONE, partition=f"ds={number}"))
    places = packer.packed()
    assert len(places) == 10_000
    assert len(places.compressed) < 2_000_000
    assert sum(len(json.dumps(entry)) for entry in places.entries) > 10 * len(places.compressed)


@pytest.mark.parametrize("job", RESULTS)
def test_places_are_the_values_that_were_added(job: str) -> None:
    assert list(told(job, RESULTS[job]).places) == RESULTS[job]


@pytest.mark.parametrize("job", RESULTS)
def test_a_result_is_a_frozen_value(job: str) -> None:
    result = told(job, RESULTS[job])
    assert pickle.loads(pickle.dumps(result)) == result
    assert hash(result) == hash(told(job, RESULTS[job]))
    with pytest.raises(FrozenInstanceError):
        result.dry_run = True  # type: ignore[misc]
    result.entries[0]["reason"] = "changed"  # type: ignore[index]
    result.to_dict()["totals"].clear()
    assert result == told(job, RESULTS[job])
    assert result.to_dict()["totals"] == plain(result.document.totals) != {}
    assert result.entries[0]["reason"] != "changed"


def test_it_says_in_a_line_what_it_is() -> None:
    assert repr(told("major_compact", [DONE])) == "<Compactions: 1 entry, ok>"
    assert repr(told("major_compact", [DONE, FAILED])) == "<Compactions: 2 entries, not ok>"


def test_what_has_many_fields_says_in_a_line_what_it_is() -> None:
    seen = status_of_tables().document
    shown = [DONE, LEFT, WAITS, replace(WAITS, database="", table="", partition=None), seen.totals, *seen.tables]
    assert list(map(repr, [*shown, *seen.findings[:1], *seen.totals.most_deltas, *(seen.blockers or ())])) == [
        "<CompactionResult: sales.orders.ds=7, major, ready for cleaning>",
        "<InitiatorResult: sales.orders.ds=7, left alone>",
        "<CleaningResult: sales.orders.ds=8, ready for cleaning>",
        "<CleaningResult: ready for cleaning>",
        "<TableFigures: all tables, warning>",
        "<TableFigures: sales.orders, warning>",
        "<Finding: warning, failed, sales.orders.ds=7>",
        "<PlaceFigures: sales.orders.ds=7, 311 deltas>",
        "<CleaningBlocker: transaction 812 at sales.orders.ds=7>",
    ]
    assert (
        repr(replace(DONE, partition="p=\x1b[2J"))
        == "<CompactionResult: sales.orders.p=\\x1b[2J, major, ready for cleaning>"
    )


@pytest.mark.parametrize("job", RESULTS)
def test_a_notebook_shows_the_report(job: str) -> None:
    html = told(job, RESULTS[job])._repr_html_()
    page = Elements(html)
    assert page.found["h1"] == 1
    assert not {"html", "head", "body", "script", "link", "iframe"} & set(page.found)
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids)) > 0
    assert all(name.startswith(told(job, []).to_dict()["run_id"]) for name in ids), "two results are in one notebook"
    style = re.search(r"<style>(.*?)</style>", html, flags=re.DOTALL)
    assert style is not None
    without_media = re.sub(r"@media[^{]*\{", "", style[1])
    selectors = re.findall(r"(?:^|(?<=[{}]))\s*([^{}@]+?)\s*\{", without_media)
    assert len(selectors) > 50
    assert [name for one in selectors for name in one.split(",") if ".acidlib-report" not in name] == []


def test_only_rules_inside_the_report_are_its_own() -> None:
    style = "body { a: b; } /* h1 { } */ h1, .x > p { c: d; }\n@media print { :root { e: f; } @page { margin: 1mm; } }"
    text = scoped(style)
    assert "/*" not in text
    assert "@page" not in text, "how a notebook is printed is its own"
    assert not re.search(r"(^|[{}\s])(body|:root)\b", text)
    assert re.search(r"\.acidlib-report[^,{]* h1, \.acidlib-report[^,{]* \.x > p *\{", text)


def test_without_its_library_a_notebook_shows_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = told("major_compact", [DONE])
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert result._repr_html_().startswith("<pre>1 compaction" if len(result.entries) > 1 else "<pre>sales.")
    with pytest.raises(RefusedError, match="jinja2 is not installed"):
        result.write_report(tmp_path / "run.html")


def test_a_report_is_written_where_there_is_one(tmp_path: Path) -> None:
    result = told("major_compact", [DONE])
    result.write_report(tmp_path / "run.html")
    assert (tmp_path / "run.html").read_text().startswith("<!DOCTYPE html>")
    checks = Checks(head=Head(job="doctor", version="1"), document=ChecksDocument.of([]))
    with pytest.raises(RefusedError, match=r"^Cannot write a report to .*none.html: Checks has none$"):
        checks.write_report(tmp_path / "none.html")
    assert not (tmp_path / "none.html").exists()


@pytest.mark.parametrize(
    ("states", "status"),
    [([Outcome.CANCELLED, Outcome.PLANNED], 0), ([Outcome.REFUSED], 1), ([Outcome.MISSING, Outcome.CANCELLED], 3)],
)
def test_a_cancellation_is_ok_where_all_are_withdrawn(states: list[Outcome], status: int) -> None:
    document = CancellationsDocument.of([Cancellation(id=1, state=state, reason="r") for state in states])
    result = Cancellations(head=HEAD, document=document)
    assert (result.exit_status, result.ok) == (status, status == 0)
    assert result._repr_html_() == f"<pre>{result}</pre>"


@pytest.mark.parametrize(
    ("state", "is_ok"), [(Outcome.UNDONE, True), (Outcome.WAS_UNDONE, True), (Outcome.CONFLICT, False)]
)
def test_an_undo_is_ok_unless_the_result_stays(state: Outcome, is_ok: bool) -> None:
    result = UndoResult(id=1, **PLACE, type="major", state=state, reason="r")
    undo = Undo(head=HEAD, document=UndoDocument(undo=result))
    assert (undo.ok, undo.state, len(undo.entries)) == (is_ok, state, 1)
