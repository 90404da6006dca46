"""The lines that a run writes to standard error, and the progress of its work; standard output is never touched.

Showing progress never stops the work: once the stream cannot be written to any more (a closed pipe, a full disk), all
further lines are dropped.
"""

from __future__ import annotations

import enum
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from threading import Event, RLock, Thread
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Column

from acidlib.arguments import Word, option, said
from acidlib.report.text import json_characters, one_line
from acidlib.standard_error import BARS
from acidlib.wording import brief, duration_words

INFO, NOTE, WARNING, ERROR = "info", "note", "warning", "error"
"""Levels of a line; a note is about the run as a whole, and repeated in its JSON document."""


class LogFormat(enum.Enum):
    """Forms of a line: words alone, with time, level, run and place before them, or a JSON object."""

    WORDS = "words"
    FULL = "full"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLines:
    """Form of the lines of one run of a job; `clock` gives epoch seconds."""

    format: LogFormat = LogFormat.WORDS
    job: str = ""
    run_id: str = ""
    clock: Callable[[], float] = lambda: 0.0

    def line(self, text: str, *, level: str = INFO, place: str | None = None) -> str:
        """Return one line without a line break; `place` is the name of a table or partition."""
        text = brief(one_line(text))
        if self.format is LogFormat.WORDS:
            about = "" if place is None else f"{one_line(place)}: "
            return f"{'' if level == INFO else f'{level}: '}{about}{text}"
        moment = datetime.fromtimestamp(self.clock(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self.format is LogFormat.FULL:
            about = "-" if place is None else one_line(place)
            return f"{moment} {level.upper():<7} {self.job} {self.run_id} {about}: {text}"
        fields = {
            "time": moment,
            "level": level,
            "job": self.job,
            "run_id": self.run_id,
            "place": place,
            "message": text,
        }
        return json_characters(json.dumps(fields, ensure_ascii=False))


_REFRESH_SECONDS, _LOG_SECONDS = 0.1, 30.0
_RATE_SECONDS = 1.0
"""Seconds before a rate is shown."""
_WAITING_SECONDS = 0.5
_ENOUGH = 10
"""The remaining time is shown once one in so many parts is done."""
_BAR, _FIGURES, _MIN_NAME_CHARACTERS = 24, 28, 16


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise the error: rich would redirect standard output and end the process."""
        raise


class Progress:
    """What shows the progress of a run; several threads may use it at once. This one shows nothing.

    What a line would say of a place is its reason in the result. Warnings go to a logger, each once.

    word  has lines name arguments in the words of the caller
    """

    def __init__(self, *, word: Word = option) -> None:
        self._word = word
        self._warned: set[tuple[str, str | None]] = set()

    def _was_said(self, line: str, level: str, place: str | None) -> bool:
        """Return whether a line is a warning that stays: the run has it once."""
        if level != WARNING:
            return False
        count = len(self._warned)
        self._warned.add((line, place))
        return len(self._warned) == count

    @contextmanager
    def waiting(self, words: str) -> Iterator[None]:
        """Show what the work waits for as long as the body takes."""
        del words
        yield

    def start(self, title: str, total: int) -> None:
        """Begin a piece of work with a number of parts, and end the one before."""

    def advance(self, done: int, *, detail: str = "") -> None:
        """Show the number of parts done since the start of the piece, with a `detail` in words."""

    def finish(self) -> None:
        """End the piece of work, if there is one, even if parts of it are not done."""

    def note(self, line: str, *, level: str = INFO, place: str | None = None) -> None:
        """Show one line about an event; `place` is the name of a table or partition."""
        if level == WARNING and not self._was_said(line, level, place):
            logging.getLogger("acidlib").warning("%s", LogLines().line(said(line, self._word), place=place))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An event of a run, for a callback.

    title        the piece of work, such as "compacting 20 places"
    done, total  its parts
    detail       figures in words
    note, level  a line about an event, and "info", "note", "warning" or "error"; None for an advance
    place        the table or partition that the line is about

    >>> steps: list[acidlib.Step] = []
    >>> table = acidlib.directory("warehouse/sales.db/orders", all_committed=True)
    >>> plan = table.plan("major", progress=steps.append)
    >>> steps[-1].title, steps[-1].done, steps[-1].total
    ('planning 1 place', 1, 1)
    """

    title: str = ""
    done: int = 0
    total: int = 0
    detail: str = ""
    note: str | None = None
    level: str = INFO
    place: str | None = None


class CalledProgress(Progress):
    """Gives each event to a callback, one after the other; how far a piece of work came, its last step says.

    An error of the callback is a warning, and its last call.
    """

    def __init__(self, callback: Callable[[Step], object], *, word: Word = option) -> None:
        super().__init__(word=word)
        self._callback: Callable[[Step], object] | None = callback
        self._step = Step()
        self._lock = RLock()

    def _report(self, step: Step) -> None:
        if self._callback is None:
            return
        try:
            self._callback(step)
        except Exception as error:  # the work goes on: what it has published stays published
            self._callback = None
            warnings.warn(f"Cannot report progress any more: {type(error).__name__}: {error}", stacklevel=4)

    def start(self, title: str, total: int) -> None:
        """Report the start of a piece of work."""
        with self._lock:
            self._step = Step(title=title, total=total)
            self._report(self._step)

    def advance(self, done: int, *, detail: str = "") -> None:
        """Report the parts done."""
        with self._lock:
            self._step = replace(self._step, done=done, detail=detail)
            self._report(self._step)

    def note(self, line: str, *, level: str = INFO, place: str | None = None) -> None:
        """Report a line."""
        with self._lock:
            if self._was_said(line, level, place):
                return
            self._report(replace(self._step, note=said(line, self._word), level=level, place=place))


class TerminalProgress(Progress):
    """Progress as a bar on a terminal; elsewhere as a plain line each half minute and at the end of a piece of work.

    stream  standard error when None
    clock   seconds since any origin, for durations
    lines   form of the lines; only for `LogFormat.WORDS` there is a bar
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        lines: LogLines = LogLines(),
        *,
        word: Word = option,
    ) -> None:
        super().__init__(word=word)
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._lines = lines
        self._lock = RLock()
        self._broken = False
        self._title: str | None = None
        self._total = self._done = 0
        self._detail = ""
        self._began = self._drawn = 0.0
        console = _Console(file=self._stream, highlight=False, markup=False, emoji=False)
        is_bare = lines.format is LogFormat.WORDS
        moves = is_bare and self._stream.isatty() and console.is_terminal and not console.is_dumb_terminal
        self._console = console if moves else None
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> TerminalProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the piece of work, so that a terminal is left without a bar."""
        self.finish()

    def start(self, title: str, total: int) -> None:
        """Begin a piece of work with a number of parts, and end the one before."""
        with self._lock:
            self.finish()
            self._title, self._total, self._done, self._detail = one_line(title), total, 0, ""
            self._began = self._drawn = self._clock()
            self._show(self._open_bar)

    def advance(self, done: int, *, detail: str = "") -> None:
        """Show the number of parts done since the start of the piece, with a `detail` in words."""
        with self._lock:
            if self._title is None:
                return
            self._done, self._detail = done, detail
            self._show(self._move)

    def finish(self) -> None:
        """End the piece of work, if there is one, even if parts of it are not done."""
        with self._lock:
            if self._title is None:
                return
            line = f"{self._title}: {self._done:,} of {self._total:,}, {self._clock() - self._began:.1f} s"
            self._title = None
            self._show(self._close_bar)
            self._show(lambda: self._write(self._lines.line(line)))

    @contextmanager
    def waiting(self, words: str) -> Iterator[None]:
        """Show what the work waits for, and for how long, as long as the body takes: nothing advances meanwhile."""
        ended, began = Event(), self._clock()

        def show() -> None:
            while not ended.wait(_WAITING_SECONDS):
                since = "" if self._console is None else f", {duration_words(self._clock() - began)}"
                self.advance(self._done, detail=f"{words}{since}")

        thread = Thread(target=show, name="acidlib-progress", daemon=True)
        try:
            thread.start()
            yield
        finally:
            ended.set()  # not waited for: a signal may have come while this thread had the lock
            if self._console is not None:
                self._drawn = -inf  # a note would draw the bar as it was
            self.advance(self._done)

    def note(self, line: str, *, level: str = INFO, place: str | None = None) -> None:
        """Write one line about an event, above the bar if there is one."""
        with self._lock:
            if self._was_said(line, level, place):
                return
            self._show(lambda: self._write(self._lines.line(said(line, self._word), level=level, place=place)))

    def _show(self, step: Callable[[], None]) -> None:
        if self._broken:
            return
        try:
            step()
        except (OSError, ValueError):  # ValueError: the stream is closed, or cannot encode the text
            self._broken = True
            with suppress(OSError, ValueError):
                self._close_bar()

    def _write(self, line: str) -> None:
        if self._console is not None:
            self._console.print(line, soft_wrap=True)
        else:
            self._stream.write(line + "\n")
        self._to_begin_of_line()

    def _to_begin_of_line(self) -> None:
        """Have lines of others begin where the bar does: behind it they would look like a part of it."""
        if self._bar is not None:
            self._stream.write("\r")
        self._stream.flush()

    def _open_bar(self) -> None:
        if self._console is None:
            return
        room = max(_MIN_NAME_CHARACTERS, self._console.width - _BAR - _FIGURES)
        name = TextColumn("{task.description}", markup=False, table_column=Column(max_width=room, no_wrap=True))
        figures = TextColumn("{task.fields[figures]}", markup=False, table_column=Column(no_wrap=True))
        columns = (name, BarColumn(bar_width=_BAR), MofNCompleteColumn(), TimeElapsedColumn(), figures)
        self._bar = Bar(
            *columns,
            console=self._console,
            transient=True,
            # drawn by advance() alone: an error of the stream stays in this thread
            auto_refresh=False,
            # else the output of a job, its JSON perhaps, would go to standard error
            redirect_stdout=False,
            redirect_stderr=False,
            get_time=self._clock,
        )
        self._task = self._bar.add_task(self._title or "", total=self._total, figures="")
        self._bar.start()
        BARS.add(self)
        self._to_begin_of_line()
        self._drawn = self._clock()

    def _move(self) -> None:
        now = self._clock()
        due = now - self._drawn >= (_LOG_SECONDS if self._console is None else _REFRESH_SECONDS)
        self._drawn = now if due else self._drawn
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done, figures=self._figures(), refresh=due)
            if due:
                self._to_begin_of_line()
        elif due and self._console is None:
            self._write(self._lines.line(f"{self._title}: {self._done:,} of {self._total:,}, {self._figures()}"))

    def _figures(self) -> str:
        """Return the detail, the rate, and the remaining or elapsed time, as far as they are known."""
        seconds = self._clock() - self._began
        parts = [self._detail] if self._detail else []
        if self._done and seconds >= _RATE_SECONDS:
            parts.append(f"{self._done / seconds:,.1f}/s")
            if self._total <= self._done * _ENOUGH < self._total * _ENOUGH:
                parts.append(f"{duration_words((self._total - self._done) * seconds / self._done)} left")
        return ", ".join([*parts, duration_words(seconds)]) if self._console is None else ", ".join(parts)

    def _close_bar(self) -> None:
        bar, self._bar, self._task = self._bar, None, None
        BARS.discard(self)
        if bar is not None:
            bar.stop()
