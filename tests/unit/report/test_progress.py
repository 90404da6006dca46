"""Lines on standard error, and progress on a terminal, in a log and on streams that fail."""

import fcntl
import io
import json
import os
import re
import struct
import sys
import termios
import threading
import time
from collections.abc import Iterator
from typing import TextIO

import pytest

from acidlib.report.progress import ERROR, NOTE, WARNING, CalledProgress, LogFormat, LogLines, Step, TerminalProgress
from acidlib.standard_error import write_bytes, write_line


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal:
    """A pseudo terminal of 100 columns, and what was written to it."""

    def __init__(self) -> None:
        self._reading, self._writing = os.openpty()
        fcntl.ioctl(self._writing, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.stream: TextIO = os.fdopen(self._writing, "w", encoding="utf-8")

    def written(self) -> str:
        """All that was written since the last call."""
        self.stream.flush()
        os.set_blocking(self._reading, False)
        pieces = []
        try:
            while piece := os.read(self._reading, 65536):
                pieces.append(piece)
        except BlockingIOError:
            pass
        return b"".join(pieces).decode()

    def close(self) -> None:
        self.stream.close()
        os.close(self._reading)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    one = Terminal()
    yield one
    one.close()


def test_a_log_gets_one_plain_line_per_piece_and_the_notes_whatever_becomes_of_it() -> None:
    stream, clock = io.StringIO(), Clock()
    with pytest.raises(KeyError), TerminalProgress(stream, clock) as progress:  # noqa: PT012 - the error is inside
        progress.advance(1)
        progress.start("sales.orders: bucket files", 1200)
        progress.advance(600)
        clock.now += 2.5
        progress.note("a note\nof two lines")
        progress.advance(1200)
        assert stream.getvalue() == "a note of two lines\n"
        progress.finish()
        progress.finish()
        progress.advance(1)
        progress.start("one", 3)
        progress.start("two", 4)
        progress.advance(1)
        raise KeyError
    assert stream.getvalue().splitlines() == [
        "a note of two lines",
        "sales.orders: bucket files: 1,200 of 1,200, 2.5 s",
        "one: 0 of 3, 0.0 s",
        "two: 1 of 4, 0.0 s",
    ]


def test_a_log_gets_a_line_each_half_minute_with_the_rate_and_what_is_left() -> None:
    stream, clock = io.StringIO(), Clock()
    with TerminalProgress(stream, clock) as progress:
        progress.start("compacting 10000 places", 10_000)
        for _ in range(31):
            clock.now += 2
            progress.advance(int(clock.now - 100) * 20, detail="32 in flight, 3 failed, 1.0 GiB")
        assert stream.getvalue() == (
            "compacting 10000 places: 600 of 10,000, 32 in flight, 3 failed, 1.0 GiB, 20.0/s, 30 s\n"
            "compacting 10000 places: 1,200 of 10,000, 32 in flight, 3 failed, 1.0 GiB, 20.0/s, 7 min left, 60 s\n"
        )


def test_standard_error_is_where_it_goes(capsys: pytest.CaptureFixture[str]) -> None:
    with TerminalProgress() as progress:
        progress.start("one", 1)
        progress.advance(1)
        progress.note("noted")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("noted\none: 1 of 1, ")


def test_a_terminal_gets_a_bar_that_moves_and_goes(terminal: Terminal, capfd: pytest.CaptureFixture[str]) -> None:
    """No thread draws it, and standard output is not redirected meanwhile."""
    clock = Clock()
    with TerminalProgress(terminal.stream, clock) as progress:
        progress.start("[bold]orders[/bold]", 200)
        assert "acidlib-progress" not in {thread.name for thread in threading.enumerate()}
        assert "[bold]orders[/bold]" in terminal.written()
        print("a document", file=sys.stdout)
        clock.now += 10
        progress.advance(50, detail="3 in flight")
        drawn = terminal.written()
        assert " 50/200" in drawn
        assert "3 in flight, 5.0/s, 30 s left" in drawn
        progress.advance(51)
        assert terminal.written() == "", "drawn again before a tenth of a second has passed"
        progress.note("noted [red]so[/red]")
        assert "noted [red]so[/red]" in terminal.written()
        clock.now += 1
        progress.advance(200)
        assert "200/200" in terminal.written()
        progress.finish()
        last = terminal.written()
    assert last.endswith("[bold]orders[/bold]: 200 of 200, 11.0 s\r\n")
    assert "\x1b[?25h" in last, "the cursor is shown again"
    assert "\x1b[2K" in last.partition("\x1b[?25h")[2], "the bar is wiped out"
    assert capfd.readouterr().out == "a document\n"


def test_the_bar_says_what_it_waits_for_and_for_how_long(terminal: Terminal) -> None:
    clock = Clock()
    with TerminalProgress(terminal.stream, clock) as progress:
        progress.start("compacting 20 places", 20)
        with progress.waiting("starting Spark"):
            clock.now += 8
            drawn = until(terminal, "starting Spark, 8 s")
            assert " 0/20" in drawn
        clock.now += 1
        progress.advance(0)
        assert "starting" not in terminal.written().rpartition("\x1b[2K")[2]
        with pytest.raises(KeyError), progress.waiting("starting Spark"):
            raise KeyError
        for thread in threading.enumerate():
            if thread.name == "acidlib-progress":
                thread.join(120)
                assert not thread.is_alive()


def until(terminal: Terminal, words: str) -> str:
    written = ""
    while words not in written:
        time.sleep(0.05)
        written += terminal.written()
    return written


def test_a_log_says_what_a_run_waits_for_each_half_minute() -> None:
    stream, clock = io.StringIO(), Clock()
    with TerminalProgress(stream, clock) as progress:
        progress.start("compacting", 2)
        with progress.waiting("starting Spark"):
            clock.now += 31
            while "starting" not in stream.getvalue():
                time.sleep(0.05)
    assert stream.getvalue() == "compacting: 0 of 2, starting Spark, 31 s\ncompacting: 0 of 2, 31.0 s\n"


def shown(written: str) -> list[str]:
    """The lines of a terminal after all that was written: characters that overwrite others, and wiped lines."""
    screen, column = [""], 0
    for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+", written):
        if piece == "\r":
            column = 0
        elif piece == "\n":
            screen.append("")
            column = 0
        elif piece == "\x1b[2K":
            screen[-1] = ""
        elif piece == "\x1b[1A":
            screen.pop()
        elif not piece.startswith("\x1b"):
            screen[-1] = screen[-1][:column].ljust(column) + piece + screen[-1][column + len(piece) :]
            column += len(piece)
    return screen


def test_no_line_of_others_stands_behind_the_bar(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as those of a signal, of Spark's JVM, and of a library that warns."""
    clock = Clock()
    monkeypatch.setattr(os, "write", lambda _, data: terminal.stream.write(data.decode()))
    with TerminalProgress(terminal.stream, clock) as progress:
        progress.start("compacting", 20)
        write_line("stopping")
        clock.now += 1
        progress.advance(1)
        write_bytes(b"WARN Utils\n")
        progress.note("noted")
        terminal.stream.write(f"{'a library warns ' * 6}\n")
        clock.now += 1
        progress.advance(2)
        lines = shown(terminal.written())
        assert lines[:4] == ["stopping", "WARN Utils", "noted", "a library warns " * 6]
        assert lines[4].startswith("compacting ")
    write_line("ended")
    assert terminal.written().endswith("compacting: 2 of 20, 2.0 s\r\nended\r\n"), "nothing to wipe out"


def test_a_warning_that_stays_is_said_once_a_run_of_each_place() -> None:
    stream = io.StringIO()
    for progress in (TerminalProgress(stream, Clock()), TerminalProgress(stream, Clock())):
        for place in (None, None, "db.t", "db.t", "db.u"):
            progress.note("it is full", level=WARNING, place=place)
            progress.note("done", place=place)
    said = stream.getvalue().splitlines()
    assert said.count("done") == 4
    assert said.count("warning: it is full") == said.count("warning: db.t: it is full") == 2
    steps: list[Step] = []
    called = CalledProgress(steps.append)
    for _ in range(2):
        called.note("it is full", level=WARNING)
    assert len(steps) == 1


def test_a_long_name_keeps_to_one_line(terminal: Terminal) -> None:
    with TerminalProgress(terminal.stream, Clock()) as progress:
        progress.start("host-compactor-" + "x" * 200, 20_000)
        drawn = terminal.written()
    assert "\n" not in drawn
    assert "host-compactor-xxx" in drawn
    assert "    0/20000" in drawn
    assert "0:00:00" in drawn


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with TerminalProgress(terminal.stream, Clock()) as progress:
        progress.start("one", 1)
        progress.advance(1)
    assert terminal.written() == "one: 1 of 1, 0.0 s\r\n"


class Failing(io.StringIO):
    """A stream that takes some writes and then fails."""

    def __init__(self, error: Exception, writes: int, *, is_terminal: bool) -> None:
        super().__init__()
        self.error, self.writes, self.is_terminal = error, writes, is_terminal
        self.failed = 0

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> int:
        if self.writes == 0:
            self.failed += 1
            raise self.error
        self.writes -= 1
        return super().write(text)


@pytest.mark.parametrize("writes", [0, 1, 2, 3])
@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(28, "no space"), ValueError("closed file")], ids=repr)
def test_a_stream_that_fails_never_stops_the_work(
    error: Exception, is_terminal: bool, writes: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream, clock = Failing(error, writes, is_terminal=is_terminal), Clock()
    with TerminalProgress(stream, clock) as progress:
        for name in ("one", "two", "three", "four"):
            progress.start(name, 2)
            clock.now += 1
            progress.advance(1)
            progress.note("noted")
            progress.finish()
    assert stream.failed > 0
    os.write(1, b"still there\n")
    assert capfd.readouterr().out == "still there\n"


def test_after_a_failure_nothing_more_is_tried() -> None:
    stream = Failing(BrokenPipeError(), 1, is_terminal=False)
    with TerminalProgress(stream, Clock()) as progress:
        for _ in range(5):
            progress.note("noted")
    assert stream.failed == 1
    assert stream.getvalue() == "noted\n"


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


def test_a_callback_gets_each_step_and_an_error_of_it_ends_no_run() -> None:
    steps: list[Step] = []

    def note(step: Step) -> None:
        steps.append(step)
        if step.note:
            raise ValueError("it is full")

    progress = CalledProgress(note)
    progress.start("compacting", 4)
    progress.advance(2, detail="7 rows")
    with pytest.warns(UserWarning, match="^Cannot report progress any more: ValueError: it is full$"):
        progress.note("no space", level=ERROR, place="sales.visits")
    progress.advance(3)
    progress.finish()
    assert steps == [
        Step(title="compacting", total=4),
        Step(title="compacting", total=4, done=2, detail="7 rows"),
        Step(title="compacting", total=4, done=2, detail="7 rows", note="no space", level=ERROR, place="sales.visits"),
    ]
