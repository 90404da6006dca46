"""Standard error of a driver: where its lines go, and that they stay there; a terminal sees a word at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from acidlib.cli.launch import IN_A_CONTAINER, tell_starting
from acidlib.documents import ROOT

DRIVER = """
import os, sys
from acidlib.cli.launch import restore_standard_error
restore_standard_error(os.environ)
print("result")
print("line", file=sys.stderr)
"""
# as the JVM above a driver does it: the streams of the driver are one, and it goes on to write
ABOVE = """
import os, subprocess, sys
os.write(2, b"before ")
ran = subprocess.run([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
os.write(1, ran.stdout)
os.write(2, b"and after, for long")
"""


@pytest.mark.parametrize(
    ("mode", "in_container", "stderr", "own"),
    [
        ("wb", True, "before and after, for long", "line\n"),
        ("ab", True, "before line\nand after, for long", None),
        ("ab", False, "before line\nand after, for long", None),
    ],
)
def test_a_line_is_not_written_over(
    tmp_path: Path, mode: str, in_container: bool, stderr: str, own: str | None
) -> None:
    environment = {"PYSPARK_GATEWAY_PORT": "1", "PYTHONPATH": str(ROOT)}
    if in_container:
        environment["LOG_DIRS"] = f"{tmp_path},/elsewhere"
    with (tmp_path / "stderr").open(mode) as file:
        ran = subprocess.run(
            [sys.executable, "-c", ABOVE, DRIVER], env=environment, stdout=subprocess.PIPE, stderr=file
        )
    assert ran.stdout == b"result\n"
    assert (tmp_path / "stderr").read_text() == stderr
    path = tmp_path / IN_A_CONTAINER
    assert (path.read_text() if path.exists() else None) == own


@pytest.mark.parametrize(("is_terminal", "told"), [(True, "starting Spark …\n"), (False, "")])
def test_the_first_word(monkeypatch: Any, capsys: Any, is_terminal: bool, told: str) -> None:
    monkeypatch.setattr(os, "isatty", lambda _: is_terminal)
    tell_starting("Spark")
    assert capsys.readouterr() == ("", told)
