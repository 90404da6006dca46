"""What the pages tell, that they are whole and harmless HTML, and that each is written as a whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from acidlib.cli import command
from acidlib.cli.jobs import status
from acidlib.errors import RefusedError, RetryError
from acidlib.report.html import html_of, require_libraries, require_writable, write_page
from acidlib.report.page import Largest, Tone
from acidlib.report.results import CompactionResult, Outcome, Verification
from acidlib.wording import retention_words

from . import documents
from .documents import CLEANED, DOCUMENTS, DONE, FAILED, NOTES, REFUSED, RESULTS, document_of, page_of, told

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


def drawn(document: dict[str, Any]) -> Elements:
    return Elements(html_of(page_of(document)))


@pytest.mark.parametrize("job", DOCUMENTS)
def test_nothing_is_fetched_nothing_runs_and_tables_have_heads(job: str) -> None:
    page = drawn(DOCUMENTS[job]())
    assert not {"script", "iframe", "object", "img", "base", "form"} & set(page.found)
    asks = {"src", "href", "srcset", "action", "data", "poster", "xlink:href", "background"}
    assert [found for found in page.attributes if found[1] in asks] == [("link", "href", "data:,")]
    assert not [found for found in page.attributes if found[1].startswith("on")]
    (policy,) = (value for tag, name, value in page.attributes if value.startswith("default-src"))
    assert policy.startswith("default-src 'none'")
    html = html_of(page_of(DOCUMENTS[job]()))
    assert "url(" not in html
    assert "@import" not in html
    assert page.found["h1"] == 1
    ids = {value for _, name, value in page.attributes if name == "id"}
    named = [value for _, name, value in page.attributes if name == "aria-labelledby"]
    assert set(named) <= ids
    assert sum(name == "scope" for _, name, _ in page.attributes) == page.found["th"]


@pytest.mark.parametrize(
    ("job", "facts"),
    [
        (
            "major_compact",
            [
                "1 of 3 places compacted, 1 failed", "2025-12-23 14:26:40 to 14:28:10 UTC, 90 s", "sales.orders.ds=8",
                "/w/orders/ds=8", "the footer is damaged", "17 → 1", "5.0 MiB copied as they are", "3.0 MiB rewritten",
                "9.0 MiB became 7.0 MiB", "966", "34 of 1,000", "Time of the run 90 s",
                "10 s until the first place was begun",
                "8.5 s while places were under way", "72 s after the last place",
                "there is nothing to merge", "it was asked for", "copied: unchanged", "rows of it were deleted",
                "8.5 s", "6 s", "columns are matched by position", "acidlib.retention", "--set", "app-17", "1.2",
                "acidlib-h-1", *NOTES,
            ],
        ),
        (
            "initiator",
            [
                "1 of 4 places to compact, 1 request queued, 1 refused, 1 failed", "it cannot be listed",
                "Places that cannot be compacted as they are, or failed too often", "its columns disagree",
                "22 deltas are too many", "hive.compactor.delta.num.threshold = 10, hive-site.xml", "request 31",
                "it is below all thresholds", "0.15", "6.0 MiB", "40.0 MiB", *NOTES,
            ],
        ),
        (
            "cleaner",
            [
                "1 of 3 places cleaned, 11.0 MiB freed, 1 waits, 1 failed", "permission denied",
                "transaction 812 of etl at host9 is open", "1 obsolete left", "covered by base_9", "13.0 MiB",
                "Moved to the trash 2.0 MiB", *NOTES,
            ],
        ),
        (
            "status",
            [
                "in 1 table", "transaction 812", "etl at host9", "5.5 h", "311", "2.50", "23.0 MiB", "1 failed",
                "sales.orders.ds=7", *NOTES,
            ],
        ),
    ],
)  # fmt: skip
def test_what_the_document_knows_is_told(job: str, facts: list[str]) -> None:
    text = drawn(DOCUMENTS[job]()).text
    assert [fact for fact in facts if fact not in text] == []


@pytest.mark.parametrize("job", RESULTS)
def test_the_page_of_a_run_is_that_of_its_saved_document(job: str) -> None:
    assert html_of(told(job, RESULTS[job]).page(NOTES)) == html_of(page_of(DOCUMENTS[job]()))


def test_names_and_reasons_are_text() -> None:
    evil = '"><script>alert(1)</script><img src=x onerror=y>'
    bad = replace(
        FAILED, ref=FAILED.ref._replace(table=evil), location=f"/w/{evil}", reason=f"it is {evil}\x1b[2J\u202e\udcff"
    )
    page = drawn(document_of("major_compact", [bad, replace(DONE, ref=DONE.ref._replace(table=evil), reason=evil)]))
    assert not {"script", "img"} & set(page.found)
    assert f"sales.{evil}.ds=8" in page.text
    assert f"it is {evil}\\x1b[2J\\u202e\\udcff" in page.text


def test_of_very_many_places_the_worst_are_listed_and_all_are_summed() -> None:
    def places(state: Outcome, count: int) -> list[CompactionResult]:
        like = DONE if state is Outcome.READY_FOR_CLEANING else FAILED
        return [
            replace(like, state=state, ref=like.ref._replace(partition=f"ds={n}"), seconds=n / 100)
            for n in range(count)
        ]

    done, failed = places(Outcome.READY_FOR_CLEANING, 3000), places(Outcome.FAILED, 60)
    html = html_of(page_of(document_of("major_compact", [*done, *failed])))
    text = Elements(html).text
    assert len(html) < 150_000
    assert "3,000 of 3,060 places compacted, 60 failed" in text
    assert "51,000 → 3,000" in text
    assert "and 40 more places; --output json tells of each" in text
    assert "Why they failed" in text
    assert "and 3,040 more places; --output json tells of each" in text
    assert "sales.orders.ds=2999 /w" in text
    assert "sales.orders.ds=2900 /w" not in text


def test_charts_say_what_they_count_in_which_unit() -> None:
    """They are tables: of what, counts of what, and each count beside its bar."""
    taking = [0.5] * 12 + [3.0] * 8 + [45.0]
    some = [
        replace(DONE, ref=DONE.ref._replace(partition=f"ds={n}"), seconds=s, deltas_before=n)
        for n, s in enumerate(taking)
    ]
    deltas, time, busy = page_of(document_of("major_compact", some)).charts
    assert (deltas.columns, time.columns) == (
        ("Deltas of a place", "Places before", "Places after"),
        ("Time of a place", "Places"),
    )
    counts = [tuple(cell.text for cell in row) for row in deltas.rows]
    assert counts == [
        *(("0", "1", "0"), ("1", "1", "21"), ("2 to 3", "2", "0")),
        *(("4 to 7", "4", "0"), ("8 to 15", "8", "0"), ("16 to 31", "5", "0")),
    ]
    # none took so long or so short as what is left out at the ends
    counts = [tuple(cell.text for cell in row) for row in time.rows]
    assert counts == [
        *(("under 1 s", "12"), ("1 to 2 s", "0"), ("2 to 5 s", "8"), ("5 to 10 s", "0"), ("10 to 30 s", "0")),
        ("30 to 60 s", "1"),
    ]
    assert [row[1].share for row in time.rows] == [1, 0, 8 / 12, 0, 0, 1 / 12]
    assert busy.columns == ("Time since the start", "Places")
    assert [row[0].text for row in busy.rows][:2] == ["0 s to 7.5 s", "7.5 s to 15 s"]


def test_a_chart_that_would_say_nothing_is_not_drawn() -> None:
    """Of few places the tables have each; of a short run it says little how many were under way."""
    assert page_of(document_of("major_compact", [DONE] * 20)).charts == []
    head = document_of("major_compact", [DONE] * 21)
    assert len(page_of(head).charts) == 3
    assert len(page_of(head | {"end_ms": head["start_ms"] + 59_000}).charts) == 2
    assert page_of(document_of("initiator", [documents.DUE] * 10 + [documents.LEFT] * 10)).charts == []
    (deltas,) = page_of(document_of("initiator", [documents.DUE] * 21)).charts
    assert deltas.columns == ("Deltas of a place", "Places to compact")
    (deltas,) = page_of(document_of("initiator", [documents.DUE] * 10 + [documents.LEFT] * 11)).charts
    assert deltas.columns == ("Deltas of a place", "Places to compact", "Places left alone")


def test_a_page_says_that_a_run_was_verified() -> None:
    found = Verification(
        share=1.0, buckets=(0, 1), of_buckets=2, rows=966, events=0, before=("delta_1_1",), now=("base_9",), seconds=1.0
    )
    sure = replace(DONE, verification=found)
    text = drawn(document_of("major_compact", [sure, REFUSED])).text
    assert "90 s; all that was compacted is verified" in text
    assert "Verified by a second reader 1 place 966 rows in 2 of 2 buckets read as before" in text
    text = drawn(document_of("major_compact", [sure, replace(DONE, ref=DONE.ref._replace(partition="ds=8"))])).text
    assert "Verified by a second reader 1 place" in text
    assert "all that was compacted" not in text
    assert "erified" not in drawn(document_of("major_compact", [DONE])).text


def headline(*results: CompactionResult) -> tuple[str, Tone]:
    page = page_of(document_of("major_compact", results))
    return page.headline, page.tone


def test_the_headline_says_how_it_went() -> None:
    planned, conflict = replace(DONE, state=Outcome.PLANNED), replace(FAILED, state=Outcome.CONFLICT)
    assert headline() == ("Nothing to compact", Tone.GOOD)
    assert headline(DONE) == ("1 of 1 place compacted", Tone.GOOD)
    assert headline(REFUSED, REFUSED) == ("Nothing was compacted at 2 places", Tone.GOOD)
    compact = replace(REFUSED, state=Outcome.ALREADY_COMPACT)
    assert headline(compact, compact) == ("2 places are already compact", Tone.GOOD)
    assert headline(compact, REFUSED) == ("Nothing was compacted at 2 places", Tone.GOOD)
    held = replace(REFUSED, unverified=True)
    assert headline(held, compact) == (
        "0 of 2 places compacted, 1 held for a result that was not verified", Tone.BAD,
    )  # fmt: skip
    assert headline(planned, REFUSED) == ("1 of 2 places would be compacted", Tone.GOOD)
    assert headline(DONE, conflict) == ("1 of 2 places compacted, 1 in conflict", Tone.BAD)


def test_conflicts_need_attention_after_failures() -> None:
    conflict = replace(FAILED, ref=FAILED.ref._replace(partition="ds=1"), state=Outcome.CONFLICT)
    _, table = page_of(document_of("major_compact", [conflict, DONE, FAILED])).attention
    assert [row[1].text for row in table.rows] == ["failed", "conflict"]
    assert table.title == "Places that failed or where another was at work"
    assert not any(table.rows for table in page_of(document_of("major_compact", [DONE])).attention)


def test_each_whom_something_waits_for_is_named_with_how_often() -> None:
    blocked = ("d_1: transaction 812 is open", "d_2: transaction 812 is open", "d_3: transaction 900 is open")
    waiting = replace(documents.WAITS, blocked=blocked)
    covered = replace(CLEANED.removed[0], reason="covered by base_10")
    text = drawn(document_of("cleaner", [waiting, replace(CLEANED, removed=(CLEANED.removed[0], covered))])).text
    assert "transaction 812 is open for example sales.orders.ds=8 2" in text
    assert "transaction 900 is open sales.orders.ds=8 1" in text
    # what went is told by kind
    assert "covered by base_9 for example sales.orders.ds=7 22.0 MiB 2" in text
    assert "base_10" not in text


def test_until_when_something_waits_makes_no_reason_of_its_own() -> None:
    waits = [
        replace(
            documents.WAITS,
            ref=documents.WAITS.ref._replace(partition=f"ds={day}"),
            blocked=(f"d_1: {retention_words(86_400, day * 86_400)}",),
        )
        for day in (1, 2)
    ]
    text = drawn(document_of("cleaner", waits)).text
    assert "the retention of 1 d has not passed for example sales.orders.ds=1 2" in text


def test_requests_of_each_state_have_their_colour_and_what_failed_is_in_the_headline() -> None:
    head = documents.status_of_tables()
    for one in head["totals"]["requests"]:
        one["count"] = 2
    page = page_of(head)
    assert page.headline.endswith(" in 1 table, 2 requests failed")
    (requests,) = [figure for figure in page.figures if figure.label == "Requests by state"]
    assert {part.detail: part.tone for part in requests.parts} == {
        "initiated": Tone.FIRST,
        "working": Tone.SECOND,
        "ready for cleaning": Tone.WARNING,
        "failed": Tone.BAD,
        "succeeded": Tone.GOOD,
        "did not initiate": Tone.PLAIN,
        "refused": Tone.QUIET,
        "aborted": Tone.PLAIN,
    }


def test_a_dry_clean_says_what_would_go() -> None:
    text = drawn(document_of("cleaner", [replace(CLEANED, state=Outcome.PLANNED)])).text
    assert "11.0 MiB would go at 1 place" in text
    assert "Space that would be won" in text


def test_a_run_that_could_not_be_done_says_why() -> None:
    error = {"kind": "retry", "message": "the metastore is <away>\udcff"}
    text = drawn({"job": "cleaner", "version": "1", "run_id": None, "error": error}).text
    assert "The run could not be done" in text
    assert "retry: the metastore is <away>\\udcff" in text


def test_the_largest_are_kept_in_order_and_the_first_of_equal_ones() -> None:
    found = Largest()
    for name in range(40):
        found.add(name % 4, {"name": name})
    assert [one["name"] for one in found.entries] == [*range(3, 40, 4), *range(2, 40, 4)]
    assert found.count == 40


ALONE = ("--places", "0", "--metastore-uri", "none", "--queue-url", "sqlite://")


def show(*words: str | Path) -> Result:
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
    with pytest.raises(RetryError, match=r"^Cannot write the report to .*run\.html: because No space left on device$"):
        write_page("new", path, unique="1")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_where_nothing_can_be_written_is_told_before(tmp_path: Path) -> None:
    require_writable(tmp_path / "run.html", what="the report")
    (tmp_path / "pipe").mkdir()
    for name, why in (("none/run.html", "is no directory"), ("pipe", "is no file"), ("a" * 300, "File name too long")):
        with pytest.raises(RefusedError, match=rf"^Cannot write the report to .*{name}: because .*{why}"):
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
def test_a_page_that_cannot_be_written_costs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    whole = show("--output", output).stdout
    monkeypatch.setattr(os, "fsync", full)
    ran = show("--output", output, "--report", tmp_path / "run.html")
    assert ran.exit_code == 1
    if output == "json":
        assert json.loads(ran.stdout).keys() == json.loads(whole).keys()
    else:
        assert ran.stdout == whole
    (line,) = (line for line in ran.stderr.splitlines() if "Cannot write" in line)
    assert line.endswith("run.html: because No space left on device; what was done is done")


def test_what_nobody_reads_on_standard_output_is_drawn_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(pieces: object) -> None:
        raise command._UnwrittenError("Cannot write the result to standard output")

    monkeypatch.setattr(command, "print_pieces", closed)
    ran = show("--report", tmp_path / "run.html")
    assert ran.exit_code == 1
    assert "Cannot write the result to standard output" in ran.stderr
    assert (tmp_path / "run.html").is_file()


def test_a_run_that_could_not_be_done_draws_why(tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    path.write_text("the run before")
    ran = CliRunner().invoke(
        status, ["--report", str(path), "--metastore-uri", "none", "--queue-url", "sqlite:////dev/null/q.db"]
    )
    assert ran.exit_code == 1
    assert "<h1>The run could not be done</h1>" in path.read_text()
