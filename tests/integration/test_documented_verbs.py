"""The examples in the docstrings of what is public, and in docs/python.md, over copies of tables that Hive wrote."""

from __future__ import annotations

import ast
import doctest
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import acidlib
from acidlib.api import compaction, connect, lake
from acidlib.documents import ROOT
from acidlib.report import progress, values
from integration.harness import SMALL_SPARK, fixture, set_in_jvm

NAMES = {"acidlib": acidlib}


def examples() -> Iterator[doctest.DocTest]:
    """All docstrings of public modules that have examples."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in (compaction, connect, lake, progress, values):
        yield from finder.find(module, extraglobs=NAMES)


EXAMPLES = {test.name: test for test in examples()}


@pytest.fixture(autouse=True)
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A warehouse in the working directory, and a queue of its own."""
    fixture("hive3/a_crud", tmp_path / "warehouse" / "sales.db" / "orders")
    fixture("hive3/b_part", tmp_path / "warehouse" / "sales.db" / "visits")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACIDLIB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    for name, options in SMALL_SPARK.items():
        monkeypatch.setenv(name, options)
    set_in_jvm({})
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


PAGE = ROOT / "docs" / "python.md"


def test_the_page_is_right() -> None:
    """Its sessions are one, from top to bottom."""
    sessions = "\n".join(re.findall(r"^```pycon\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL))
    run(doctest.DocTestParser().get_doctest(sessions, {}, "python.md", str(PAGE), 0))


def test_recipes_call_what_there_is() -> None:
    """Programs that need Dask or a metastore are compiled; their verbs and keywords are those of the interface."""
    text = PAGE.read_text() + (ROOT / "README.md").read_text()
    recipes = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert sum("compact" in recipe for recipe in recipes) == 2
    keywords: set[str] = set()
    for recipe in recipes:
        for node in ast.walk(ast.parse(recipe)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "acidlib":
                assert node.attr in acidlib.__all__
            verbs = ("plan", "compact", "compaction")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in verbs:
                keywords |= {str(keyword.arg) for keyword in node.keywords}
                assert [ast.literal_eval(argument) for argument in node.args] == ["major"]
    assert keywords >= {"partitions", "max_bytes", "spark"}
    assert keywords <= acidlib.CompactionOptions.__annotations__.keys()
