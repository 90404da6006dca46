"""No test is left out by where it lies."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
BY_ITSELF = "tests/advisories"
"""What is known on a day says nothing about a commit."""


def test_a_whole_run_has_every_test() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    folders = [ROOT / folder for folder in (*options["testpaths"], BY_ITSELF)]
    files = list((ROOT / "tests").rglob("test_*.py"))
    assert files
    assert [str(file) for file in files if not any(file.is_relative_to(folder) for folder in folders)] == []
