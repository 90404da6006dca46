"""The examples in the docstrings of what is public, and in docs/python.md, over copies of tables that Hive wrote."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import acidlib
from acidlib.api import connect, lake
from acidlib.report import progress, values
from integration.harness import fixture

NAMES = {"acidlib": acidlib}


def examples() -> Iterator[doctest.DocTest]:
    """All docstrings of public modules that have examples."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in (connect, lake, progress, values):
        yield from finder.find(module, extraglobs=NAMES)


EXAMPLES = {test.name: test for test in examples()}


@pytest.fixture(autouse=True)
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A warehouse in the working directory, and a queue of its own."""
    fixture("hive3/a_crud", tmp_path / "warehouse" / "sales.db" / "orders")
    fixture("hive3/b_part", tmp_path / "warehouse" / "sales.db" / "visits")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACIDLIB_HOME", str(tmp_path / "home"))
    for variable in ("HIVE_CONF_DIR", "HADOOP_CONF_DIR", "ACIDLIB_CONF_DIR", "ACIDLIB_QUEUE_URL"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "warehouse"


def run(test: doctest.DocTest) -> None:
    report: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert not failed, "".join(report)


def marked(name: str) -> Any:
    """An example as a parameter: the doctor starts Spark."""
    return pytest.param(name, marks=[pytest.mark.spark, pytest.mark.slow] if name.endswith(".doctor") else [])


@pytest.mark.parametrize("name", [marked(name) for name in EXAMPLES])
def test_the_example_is_right(name: str) -> None:
    run(EXAMPLES[name])
