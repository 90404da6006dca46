"""What the pages tell, that they are whole and harmless HTML, and that each is written as a whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from click.testing import Result as Ran

from acidlib.cli import command
from acidlib.cli.jobs import status
from acidlib.errors import RefusedError, RetryError
from acidlib.model.results import CompactionResult, ErrorDescription, Head, Outcome, Verification, Waiting
from acidlib.report.html import html_of, require_libraries, require_writable, write_page
from acidlib.report.page import Cell, Figure, Largest, ReportPage, error_page
from acidlib.report.values import Result
from acidlib.wording import retention_words

from . import documents
from .documents import CLEANED, DONE, FAILED, HEAD, NOTES, REFUSED, RESULTS, SHOWN, UNFILED, UNIT, WAITS, told

_VOID = {"meta", "link", "wbr"}


class Elements(HTMLParser):
    """Which elements and attributes a page has, and its text; AssertionError where an element does not end."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self._words: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    @property
    def text(self) -> str:
        return " ".join("".join(self._words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in _VOID:
            self.open.append(tag)
            self._words.append(" ")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self._words.append(data)


def page_of(result: Result) -> ReportPage:
    page = result.page()
    assert page is not None
    return page


def drawn(result: Result) -> Elements:
    return Elements(html_of(page_of(result)))


@pytest.mark.parametrize("job", SHOWN)
def test_nothing_is_fetched_nothing_runs_and_tables_have_heads(job: str) -> None:
    page = drawn(SHOWN[job]())
    assert not {"script", "iframe", "object", "img", "base", "form"} & set(page.found)
    asks = {"src", "href", "srcset", "action", "data", "poster", "xlink:href", "background"}
    assert [found for found in page.attributes if found[1] in asks] == [("link", "href", "data:,")]
    assert not [found for found in page.attributes if found[1].startswith("on")]
    (policy,) = (value for tag, name, value in page.attributes if value.startswith("default-src"))
    assert policy.startswith("default-src 'none'")
    html = html_of(page_of(SHOWN[job]()))
    assert "url(" not in html
    assert "@import" not in html
    assert page.found["h1"] == 1
    ids = {value for _, name, value in page.attributes if name == "id"}
    named = [value for _, name, value in page.attributes if name == "aria-labelledby"]
    assert set(named) <= ids
    assert sum(name == "scope" for _, name, _ in page.attributes) == page.found["th"]


def outline(page: ReportPage) -> str:
    """All that stands on a page, with colours; bars in hundredths."""

    def cell(one: Cell) -> str:
        share = "" if one.share is None else f" {100 * one.share:.0f}%"
        return f"{one.text}{' (' + one.detail + ')' if one.detail else ''} [{one.tone.value}{share}]"

    def figure(one: Figure) -> list[str]:
        return [f"{one.label}: {one.value} {one.detail}".rstrip(), *(f"  {cell(part)}" for part in one.parts)]

    lines = [f"{page.headline} [{page.tone.value}]", page.lead, *(figure(page.outcome) if page.outcome else [])]
    for one in page.figures:
        lines += figure(one)
    for name, tables in (("attention", page.attention), ("chart", page.charts), ("table", page.tables)):
        for table in (table for table in tables if table.rows):
            lines += ["", f"{name}: {table.title}. {table.text}".rstrip()]
            lines.append(" | ".join(f">{title}" if title in table.figures else title for title in table.columns))
            lines += [" | ".join(map(cell, row)) for row in table.rows]
            lines += [table.rest] if table.rest else []
    return "\n".join(lines)


def places(count: int, like: CompactionResult = DONE, **fields: Callable[[int], Any]) -> list[CompactionResult]:
    """So many results, each of a partition of its own."""
    return [
        replace(like, partition=f"ds={n}", **{name: make(n) for name, make in fields.items()})  # type: ignore[arg-type] # fields of different types by name
        for n in range(count)
    ]


VERIFIED = replace(
    DONE, verification=Verification(share=1.0, buckets=(0, 1), of_buckets=2, rows=966, events=0, seconds=1.0)
)
PLANNED = replace(UNFILED, state=Outcome.PLANNED).with_work((UNIT,), None)
CONFLICT = replace(FAILED, partition="ds=1", state=Outcome.CONFLICT)
COMPACT = replace(REFUSED, state=Outcome.ALREADY_COMPACT)
WAITS_LONG = replace(
    WAITS,
    partition="ds=1",
    waiting=(
        *(
            Waiting("d_1", "transaction 812 is open"),
            Waiting("d_2", "transaction 812 is open"),
            Waiting("d_3", "transaction 900 is open"),
        ),
        Waiting("d_4", retention_words(86_400, 86_400)),
    ),
)
WAITS_LESS = replace(WAITS, waiting=(Waiting("d_1", retention_words(86_400, 2 * 86_400)),))
COVERED = replace(CLEANED.removed[0], reason="covered by base_10")
TAKING = [0.5] * 12 + [3.0] * 8 + [45.0]
PAGES: dict[str, tuple[str, list[Any]]] = {
    **{f"page_{job}": (job, results) for job, results in RESULTS.items()},
    "page_of_many": (
        "major_compact",
        [
            *places(3000, seconds=lambda n: n / 100, end_ms=lambda n: HEAD.start_ms + 20 * n),
            *places(60, FAILED, reason=lambda n: f"block {n} is damaged"),
        ],
    ),
    "page_with_charts": (
        "major_compact",
        places(
            21,
            seconds=lambda n: TAKING[n],
            end_ms=lambda n: DONE.start_ms + round(1000 * TAKING[n]),
            deltas_before=lambda n: n,
        ),
    ),
    "page_without_charts": ("major_compact", places(20)),
    "page_verified": ("major_compact", [VERIFIED, REFUSED]),
    "page_partly_verified": ("major_compact", [VERIFIED, DONE]),
    "page_planned": ("major_compact", [PLANNED, REFUSED]),
    "page_conflict": ("major_compact", [CONFLICT, DONE, FAILED]),
    "page_held": ("major_compact", [replace(REFUSED, unverified=True), COMPACT]),
    "page_of_nothing": ("major_compact", []),
    "page_refused": ("major_compact", [REFUSED, COMPACT]),
    "page_compact": ("major_compact", [COMPACT, COMPACT]),
    "page_initiator_charts": ("initiator", [documents.DUE] * 10 + [documents.LEFT] * 11),
    "page_cleaner_waits": (
        "cleaner",
        [WAITS_LONG, WAITS_LESS, replace(CLEANED, removed=(CLEANED.removed[0], COVERED))],
    ),
    "page_cleaner_planned": ("cleaner", [replace(CLEANED, state=Outcome.PLANNED)]),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_it_was(name: str) -> None:
    assert outline(page_of(told(*PAGES[name]))) == text(name)


def text(name: str) -> str:
    return (Path(__file__).parent / "texts" / f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n")


def test_the_page_of_a_status_is_as_it_was() -> None:
    status = documents.status_of_tables()
    totals = status.document.totals
    totals = replace(totals, requests=tuple(replace(state, count=2) for state in totals.requests))
    status = replace(status, document=replace(status.document, totals=totals))
    assert outline(page_of(status)) == text("page_status")


def test_a_short_run_does_not_chart_how_many_places_were_under_way() -> None:
    result = told("major_compact", places(21))
    assert len([*page_of(result).charts]) == 3
    short = replace(result, head=replace(result.head, end_ms=result.head.start_ms + 59_000))
    assert len([*page_of(short).charts]) == 2


@pytest.mark.parametrize("job", [*SHOWN, "charts"])
def test_all_of_a_page_is_drawn_with_notes_settings_and_what_the_run_was(job: str) -> None:
    result = told(*PAGES["page_with_charts"]) if job == "charts" else SHOWN[job]()
    page, html = page_of(result), drawn(result).text
    figures = [*page.figures, *([page.outcome] if page.outcome and page.outcome.value else [])]
    tables = [table for table in (*page.attention, *page.charts, *page.tables) if table.rows]
    cells = [cell for row in (row for table in tables for row in table.rows) for cell in row]
    cells += [part for figure in (*page.figures, page.outcome) if figure for part in figure.parts]
    facts = [page.headline, page.lead, *("acidlib.retention", "--set", "app-17", "1.2", "acidlib-h-1"), *NOTES]
    facts += [text for one in figures for text in (one.label, one.value, one.detail)]
    facts += [text for one in tables for text in (one.title, one.text, one.rest, *one.columns)]
    facts += [text for one in cells for text in (one.text, one.detail)]
    assert [fact for fact in facts if fact not in html] == []


def test_names_and_reasons_are_text() -> None:
    evil = '"><script>alert(1)</script><img src=x onerror=y>'
    bad = replace(FAILED, table=evil, location=f"/w/{evil}", reason=f"it is {evil}\x1b[2J\u202e\udcff")
    page = drawn(told("major_compact", [bad, replace(DONE, table=evil, reason=evil)]))
    assert not {"script", "img"} & set(page.found)
    assert f"sales.{evil}.ds=8" in page.text
    assert f"it is {evil}\\x1b[2J\\u202e\\udcff" in page.text


def test_a_run_that_could_not_be_done_says_why() -> None:
    error = ErrorDescription(kind="retry", message="the metastore is <away>\udcff")
    text = Elements(html_of(error_page(Head(job="cleaner", version="1"), error))).text
    assert "The run could not be done" in text
    assert "retry: the metastore is <away>\\udcff" in text


def test_the_largest_are_kept_in_order_and_the_first_of_equal_ones() -> None:
    found: Largest[int] = Largest()
    for name in range(40):
        found.add(name % 4, name)
    assert found.values == [*range(3, 40, 4), *range(2, 40, 4)]
    assert found.count == 40


ALONE = ("--places", "0", "--metastore-uri", "none", "--queue-url", "sqlite://")


def show(*words: str | Path) -> Ran:
    return CliRunner().invoke(status, [*map(str, words), *ALONE])


def full(_: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_page_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    write_page("old", path, unique="1")
    write_page("new ü", path, unique="1")
    assert path.read_text(encoding="utf-8") == "new ü"
    assert list(tmp_path.iterdir()) == [path]


def test_on_a_full_disk_the_page_before_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.html"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RetryError, match=r"^Cannot write the report to .*run\.html: No space left on device$"):
        write_page("new", path, unique="1")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_where_nothing_can_be_written_is_told_before(tmp_path: Path) -> None:
    require_writable(tmp_path / "run.html", what="the report")
    (tmp_path / "pipe").mkdir()
    for name, why in (("none/run.html", "is no directory"), ("pipe", "is no file"), ("a" * 300, "File name too long")):
        with pytest.raises(RefusedError, match=rf"^Cannot write the report to .*{name}: .*{why}"):
            require_writable(tmp_path / name, what="the report")


def test_without_its_library_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(RefusedError, match=r"jinja2 is not installed; pip install 'acidlib\[report\]'"):
        require_libraries()
    ran = show("--report", tmp_path / "run.html", "--output", "json")
    assert ran.exit_code == 1
    assert json.loads(ran.stdout)["error"]["kind"] == "refused"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("output", ["json", "text"])
def test_a_job_prints_its_result_and_draws_it(tmp_path: Path, output: str) -> None:
    path = tmp_path / "run.html"
    ran = show("--output", output, "--report", path)
    assert ran.exit_code == 0
    assert ran.stdout.startswith('{\n  "job": "status"' if output == "json" else "OK: nothing is wrong")
    assert "<h1>Nothing is wrong in 0 tables</h1>" in path.read_text()


@pytest.mark.parametrize("output", ["json", "text"])
def test_what_cannot_be_written_costs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    whole = show("--output", output).stdout
    monkeypatch.setattr(os, "fsync", full)
    ran = show("--output", output, "--report", tmp_path / "run.html", "--metrics-file", tmp_path / "a.prom")
    assert ran.exit_code == 1
    if output == "json":
        assert json.loads(ran.stdout).keys() == json.loads(whole).keys()
    else:
        assert ran.stdout == whole
    (line,) = (line for line in ran.stderr.splitlines() if "Cannot write" in line)
    assert line.endswith("run.html: No space left on device; what was done is done")
    assert (tmp_path / "a.prom").is_file()


def test_what_nobody_reads_on_standard_output_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(pieces: object) -> None:
        raise command._UnwrittenError("Cannot write the result to standard output")

    monkeypatch.setattr(command, "print_pieces", closed)
    ran = show("--report", tmp_path / "run.html", "--metrics-file", tmp_path / "a.prom")
    assert ran.exit_code == 1
    assert "Cannot write the result to standard output" in ran.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"run.html", "a.prom"}


def test_a_run_that_could_not_be_done_draws_why(tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    path.write_text("the run before")
    ran = CliRunner().invoke(
        status, ["--report", str(path), "--metastore-uri", "none", "--queue-url", "sqlite:////dev/null/q.db"]
    )
    assert ran.exit_code == 1
    assert "<h1>The run could not be done</h1>" in path.read_text()
