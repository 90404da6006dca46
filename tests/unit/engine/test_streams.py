"""Starting: a terminal sees a word at once, a file none."""

from __future__ import annotations

import os
from typing import Any

import pytest

from acidlib.engine.streams import tell_starting


@pytest.mark.parametrize(("is_terminal", "told"), [(True, "starting Spark …\n"), (False, "")])
def test_the_first_word(monkeypatch: Any, capsys: Any, is_terminal: bool, told: str) -> None:
    monkeypatch.setattr(os, "isatty", lambda _: is_terminal)
    tell_starting("Spark")
    assert capsys.readouterr() == ("", told)
