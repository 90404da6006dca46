"""Lines on standard error: bare words, or each with its time, level, run and place."""

from __future__ import annotations

import io
import json

import pytest

from acidlib.report.log import ERROR, NOTE, WARNING, LogFormat, LogLines
from acidlib.report.progress import TerminalProgress

PLACE = "db.t.p=1"


def lines(form: LogFormat) -> LogLines:
    return LogLines(format=form, job="cleaner", run_id="acidlib-h-1", clock=lambda: 1_700_000_000.5)


@pytest.mark.parametrize(
    ("level", "place", "words", "full"),
    [
        ("info", None, "done", "INFO    cleaner acidlib-h-1 -: done"),
        ("info", PLACE, "db.t.p=1: done", "INFO    cleaner acidlib-h-1 db.t.p=1: done"),
        (WARNING, PLACE, "warning: db.t.p=1: done", "WARNING cleaner acidlib-h-1 db.t.p=1: done"),
        (NOTE, None, "note: done", "NOTE    cleaner acidlib-h-1 -: done"),
        (ERROR, None, "error: done", "ERROR   cleaner acidlib-h-1 -: done"),
    ],
)
def test_what_a_line_carries(level: str, place: str | None, words: str, full: str) -> None:
    assert lines(LogFormat.WORDS).line("done", level=level, place=place) == words
    assert lines(LogFormat.FULL).line("done", level=level, place=place) == f"2023-11-14T22:13:20.500Z {full}"
    assert json.loads(lines(LogFormat.JSON).line("done", level=level, place=place)) == {
        "time": "2023-11-14T22:13:20.500Z", "level": level, "job": "cleaner", "run_id": "acidlib-h-1", "place": place,
        "message": "done",
    }  # fmt: skip


@pytest.mark.parametrize("form", LogFormat)
def test_a_line_is_one_line_and_no_command_of_a_terminal(form: LogFormat) -> None:
    line = lines(form).line("a\nb\x1b[2J\u202e", place="t\x9b\n")
    assert line.isprintable()


def test_progress_is_written_in_the_same_form() -> None:
    stream = io.StringIO()
    with TerminalProgress(stream, lambda: 0.0, lines(LogFormat.JSON)) as progress:
        progress.start("listing", 2)
        progress.note("gone", level=WARNING, place=PLACE)
        progress.advance(2)
    first, last = map(json.loads, stream.getvalue().splitlines())
    assert (first["level"], first["place"], first["message"]) == ("warning", PLACE, "gone")
    assert (last["level"], last["place"], last["message"]) == ("info", None, "listing: 2 of 2, 0.0 s")
