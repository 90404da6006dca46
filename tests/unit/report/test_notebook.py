"""Progress in a notebook is one line that changes, with the problems below it."""

from __future__ import annotations

import itertools
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from acidlib.report.notebook import NotebookBar, notebook_display
from acidlib.report.progress import ERROR, INFO, WARNING, CalledProgress


class Shown:
    """In place of IPython: what is displayed, and what becomes of it."""

    def __init__(self) -> None:
        self.displays = 0
        self.forms: list[dict[str, str]] = []

    def __call__(self, forms: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        self.displays += 1
        self.forms.append(forms)
        return SimpleNamespace(update=lambda forms, raw: self.forms.append(forms))

    @property
    def texts(self) -> list[str]:
        return [forms["text/plain"] for forms in self.forms]


def test_one_display_changes_with_the_work() -> None:
    shown, times = Shown(), itertools.chain((0.0, 0.0, 0.1, 1.0, 1.05), itertools.repeat(1.1))
    progress = CalledProgress(NotebookBar(shown, clock=lambda: next(times)))
    progress.start("compacting 3 places", 3)
    progress.advance(1, detail="too early")
    progress.advance(2, detail="1 in flight")
    progress.note("ready for cleaning, as requested", level=INFO, place="a.b")
    progress.advance(3)
    assert shown.displays == 1
    assert shown.texts == [
        "compacting 3 places: 0 of 3, 0 s",
        "compacting 3 places: 2 of 3, 1 in flight, 1 s",
        "compacting 3 places: 3 of 3, 1 s",
    ]
    assert '<progress value="3" max="3"' in shown.forms[-1]["text/html"]


def test_problems_stay_below_and_are_text() -> None:
    shown = Shown()
    progress = CalledProgress(NotebookBar(shown, clock=lambda: 0.0))
    progress.start("compacting", 30)
    for number in range(22):
        progress.note(f"failed, <b>{number}</b>", level=ERROR, place="a.b")
    progress.start("cleaning", 0)
    html = shown.forms[-1]["text/html"]
    assert html.count("<div>error: a.b: failed, &lt;b&gt;") == 20
    assert "<div>and 2 more</div>" in html
    assert "<b>" not in html
    assert shown.texts[-1] == "cleaning: 0 of 0, 0 s"


def test_a_problem_before_all_work_is_shown_without_a_bar() -> None:
    shown = Shown()
    CalledProgress(NotebookBar(shown)).note("acidlib.x is unknown", level=WARNING)
    assert shown.forms == [
        {
            "text/plain": "warning: acidlib.x is unknown",
            "text/html": "<div><div>warning: acidlib.x is unknown</div></div>",
        }
    ]


@pytest.mark.parametrize(("shell", "is_one"), [(None, False), (object(), False), (SimpleNamespace(kernel=1), True)])
def test_only_a_kernel_has_a_display(monkeypatch: pytest.MonkeyPatch, shell: object, is_one: bool) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=print))  # type: ignore[arg-type]
    assert notebook_display() is (print if is_one else None)
