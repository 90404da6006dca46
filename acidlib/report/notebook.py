"""The progress of a run in a notebook: one line with a bar, and a line for each problem."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from html import escape
from typing import Any

from acidlib.report.progress import ERROR, NOTE, WARNING, Step
from acidlib.report.text import one_line
from acidlib.wording import duration_words

_REFRESH_SECONDS = 0.2
_LINES = 20
"""Lines about problems that are shown; the result has them all."""
_SHOWN = (NOTE, WARNING, ERROR)
_BAR = "all: revert !important; vertical-align: middle !important"
"""The style of a bar, which that of a notebook does not change."""

Display = Callable[..., Any]
"""IPython's `display`, which returns a handle to what it shows."""


def notebook_display() -> Display | None:
    """Return `display` of the notebook whose kernel this process is; None elsewhere, also in IPython's terminal."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if not hasattr(shell, "kernel"):
        return None
    from IPython.display import display  # there is no IPython elsewhere

    shown: Display = display
    return shown


class NotebookBar:
    """A callback for the steps of one verb: they change what it has displayed first.

    display  IPython's function
    clock    seconds since any origin, for durations
    """

    def __init__(self, display: Display, clock: Callable[[], float] = time.monotonic) -> None:
        self._display = display
        self._clock = clock
        self._handle: Any = None
        self._title = ""
        self._began = self._drawn = clock()
        self._lines: list[str] = []
        self._more = 0

    def __call__(self, step: Step) -> None:
        """Show a step, unless another one was shown a moment ago and it is not the last of its piece."""
        now = self._clock()
        if step.title != self._title:
            self._title, self._began = step.title, now
        elif step.note is not None:
            if step.level not in _SHOWN:
                return  # the figures have it
            self._add_line(step)
        elif step.done < step.total and now - self._drawn < _REFRESH_SECONDS:
            return
        self._drawn = now
        figures = [f"{step.done:,} of {step.total:,}", step.detail, duration_words(now - self._began)]
        text = ", ".join(figure for figure in figures if figure) if step.title else ""
        plain = f"{one_line(step.title)}: {text}" if step.title else "\n".join(self._lines)
        shown = {"text/plain": plain, "text/html": self._html(step, text)}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def _add_line(self, step: Step) -> None:
        if len(self._lines) == _LINES:
            self._more += 1
            return
        about = "" if step.place is None else f"{step.place}: "
        self._lines.append(one_line(f"{step.level}: {about}{step.note}"))

    def _html(self, step: Step, text: str) -> str:
        bar = f'<progress value="{step.done}" max="{max(step.total, 1)}" style="{_BAR}"></progress>'
        above = f"{escape(one_line(step.title))} {bar} {escape(one_line(text))}" if step.title else ""
        lines = [*self._lines, f"and {self._more:,} more"] if self._more else self._lines
        return f"<div>{above}{''.join(f'<div>{escape(line)}</div>' for line in lines)}</div>"
