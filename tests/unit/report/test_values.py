"""Results as values: frozen, small, and pictures in a notebook that leave its page alone."""

from __future__ import annotations

import pickle
import re
import sys
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from acidlib.errors import RefusedError
from acidlib.report.answers import Cancellations, Checks, Undo
from acidlib.report.html import scoped
from acidlib.report.run import RunResult
from acidlib.report.values import Entries, EntryPacker, packed_text

from .documents import DONE, FAILED, RESULTS, told
from .test_page import Elements


def packed(*names: str) -> Entries:
    packer = EntryPacker()
    for name in names:
        packer.add({"name": name, "list": [1, None, 0.5]})
    return packer.entries()


def test_entries_are_a_sequence() -> None:
    entries = packed("a", "\udcff\u20ac\n", "c")
    assert [entry["name"] for entry in entries] == ["a", "\udcff\u20ac\n", "c"]
    assert (len(entries), entries[0]["name"], entries[-1]["name"]) == (3, "a", "c")
    assert [entry["name"] for entry in entries[1:]] == ["\udcff\u20ac\n", "c"]
    assert entries[1]["list"] == [1, None, 0.5]
    for index in (3, -4):
        with pytest.raises(IndexError, match=rf"^entry {index} of 3$"):
            entries[index]
    assert list(packed()) == []
    assert repr(packed("a")) == "<1 entry>"


def test_ten_thousand_places_take_little_memory() -> None:
    packer = EntryPacker()
    for number in range(10_000):
        packer.add(replace(DONE, ref=DONE.ref._replace(partition=f"ds={number}")).document())
    entries = packer.entries()
    assert len(entries) == 10_000
    assert len(entries.compressed) < 2_000_000
    assert sum(len(packed_text(entry)) for entry in entries) > 10 * len(entries.compressed)


@pytest.mark.parametrize("job", RESULTS)
def test_a_result_is_a_frozen_value(job: str) -> None:
    result = told(job, RESULTS[job])
    assert pickle.loads(pickle.dumps(result)) == result
    assert hash(result) == hash(told(job, RESULTS[job]))
    with pytest.raises(FrozenInstanceError):
        result.notes = ()  # type: ignore[misc]
    result.entries[0]["reason"] = "changed"  # type: ignore[index]
    result.to_dict()["totals"].clear()
    assert result == told(job, RESULTS[job])
    assert result.to_dict()["totals"] == result.totals != {}
    assert result.entries[0]["reason"] != "changed"


@pytest.mark.parametrize("job", RESULTS)
def test_its_entries_are_a_table_of_arrow(job: str) -> None:
    result = told(job, RESULTS[job])
    table = result.to_arrow()
    assert table.to_pylist() == list(result.entries)
    assert table.schema.names == list(result.entries[0])
    nothing = told(job, []).to_arrow()
    assert (nothing.num_rows, nothing.schema) == (0, table.schema)


def test_it_says_in_a_line_what_it_is() -> None:
    assert repr(told("major_compact", [DONE])) == "<Compactions: 1 entry, ok>"
    assert repr(told("major_compact", [DONE, FAILED])) == "<Compactions: 2 entries, not ok>"


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
    assert "@page { margin: 1mm; }" in text
    assert not re.search(r"(^|[{}\s])(body|:root)\b", text)
    assert re.search(r"\.acidlib-report[^,{]* h1, \.acidlib-report[^,{]* \.x > p *\{", text)


def test_without_its_library_a_notebook_shows_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = told("major_compact", [DONE])
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert result._repr_html_().startswith("<pre>1 compaction" if len(result.entries) > 1 else "<pre>sales.")
    with pytest.raises(RefusedError, match="jinja2 is not installed"):
        result.write_report(tmp_path / "run.html")


def test_a_report_is_written_where_there_is_one(tmp_path: Path) -> None:
    result: RunResult = told("major_compact", [DONE])
    result.write_report(tmp_path / "run.html")
    assert (tmp_path / "run.html").read_text().startswith("<!DOCTYPE html>")
    checks = Checks(packed=packed_text({"checks": [], "totals": {"checks": 0, "wrong": 0}}))
    with pytest.raises(RefusedError, match=r"^Cannot write a report to .*none.html: Checks has none$"):
        checks.write_report(tmp_path / "none.html")
    assert not (tmp_path / "none.html").exists()


@pytest.mark.parametrize(
    ("states", "status"), [(["cancelled", "planned"], 0), (["refused"], 1), (["missing", "cancelled"], 3)]
)
def test_a_cancellation_is_ok_where_all_are_withdrawn(states: list[str], status: int) -> None:
    entry = {"id": 1, "database": None, "table": None, "partition": None, "type": None, "reason": "r"}
    result = Cancellations(packed=packed_text({"cancellations": [entry | {"state": state} for state in states]}))
    assert (result.exit_status, result.ok) == (status, status == 0)
    assert result._repr_html_() == f"<pre>{result}</pre>"


@pytest.mark.parametrize(("state", "is_ok"), [("undone", True), ("already undone", True), ("conflict", False)])
def test_an_undo_is_ok_unless_the_result_stays(state: str, is_ok: bool) -> None:
    undo = Undo(packed=packed_text({"undo": {"state": state}}))
    assert (undo.ok, undo.state, len(undo.entries)) == (is_ok, state, 1)
