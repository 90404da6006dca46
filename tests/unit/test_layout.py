"""No test is left out by where it lies, and no room knows what another is for."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

from acidlib import location

ROOT = Path(__file__).parents[2]
BY_ITSELF = "tests/advisories"
"""What is known on a day says nothing about a commit."""


def test_a_whole_run_has_every_test() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    folders = [ROOT / folder for folder in (*options["testpaths"], BY_ITSELF)]
    files = list((ROOT / "tests").rglob("test_*.py"))
    assert files
    assert [str(file) for file in files if not any(file.is_relative_to(folder) for folder in folders)] == []


ABOUT_STORES = ("stores/", "config/", "location.py", "documents.py", "masking.py")
"""Who knows kinds of stores: masking looks for secrets in any text."""


def test_no_other_room_asks_for_the_kind_of_a_store() -> None:
    kinds = {name for name, value in vars(location).items() if isinstance(value, location.StoreKind)}
    assert {"LOCAL", "S3"} <= kinds
    asked = []
    for module in (ROOT / "acidlib").rglob("*.py"):
        name = str(module.relative_to(ROOT / "acidlib"))
        if name.startswith(ABOUT_STORES):
            continue
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "acidlib.location":
                asked += [f"{name} imports {item.name}" for item in node.names if item.name in {*kinds, "KINDS"}]
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                scheme, colon, _ = node.value.partition(":")
                # "local" and "file" are words
                if scheme in {*location.KINDS} - {"file"} and (colon or scheme == node.value):
                    asked.append(f"{name} has {node.value!r}")
    assert asked == []
