"""The notebook of the documents runs as it is, and a kernel whose button is pressed gives everything back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from judges import merge
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

from integration.harness import ROOT, SMALL_SPARK, Jobs, fixture

NOTEBOOKS = sorted((ROOT / "docs").glob("*.ipynb"))
SECONDS = 600


@pytest.fixture(autouse=True)
def nothing_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What kernels keep for a user is kept in the directory of the test."""
    for variable in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "ACIDLIB_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    monkeypatch.delenv("JUPYTER_PATH", raising=False)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    for name, options in SMALL_SPARK.items():
        monkeypatch.setenv(name, options)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells
    assert [cell.source for cell in cells if cell.outputs or cell.execution_count is not None] == []


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_as_it_is(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own assertions hold, and results are shown as pictures."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)
    # a kernel below a test does not catch what processes write, such as the JVM of Spark about its end
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    NotebookClient(notebook, timeout=SECONDS, kernel_name="python3").execute(env=environment)
    shown = {cell.source.splitlines()[-1]: _html_of(cell) for cell in notebook.cells if cell.cell_type == "code"}
    assert "3 of 3 places would be compacted" in shown["plan"]
    assert "3 of 3 places compacted" in shown["result"]
    assert shown["plan"].startswith('<div class="acidlib-report">')
    pictures = [cell for cell in notebook.cells if cell.source.endswith(("\nresult", "plan"))]
    assert [output for cell in pictures for output in cell.outputs if "name" in output] == [], "progress is a bar"
    assert list(tmp_path.glob("acidlib-notebook-*")) == [], "it has removed its tables"


def _html_of(cell: Any) -> str:
    results = [output for output in cell.outputs if output.output_type == "execute_result"]
    return "".join(output.get("data", {}).get("text/html", "") for output in results).lstrip()


@pytest.fixture
def kernel(nothing_at_home: None) -> Iterator[tuple[Any, Any]]:
    """The manager of a kernel as notebooks have it, and a client of it."""
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.slow
def test_the_button_that_interrupts_a_kernel(kernel: tuple[Any, Any], jobs: Jobs, tmp_path: Path) -> None:
    manager, client = kernel
    table = fixture("hive3/a_crud", tmp_path / "db.db" / "crud")
    rows, begun = merge.read(table), tmp_path / "begun"

    def reply_to(source: str, **expressions: str) -> dict[str, Any]:
        number = client.execute(source, user_expressions=expressions)
        while True:
            reply = client.get_shell_msg(timeout=SECONDS)
            if reply["parent_header"].get("msg_id") == number:
                return dict(reply["content"])

    prepared = reply_to(
        f"import signal, sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'tests')!r}]\n"
        "from functools import partial\n"
        "import acidlib\n"
        "from acidlib.runs import plan\n"
        "from integration.program import slow\n"
        "whole, plan.run_unit_task = plan.run_unit_task, partial(slow, "
        f"{str(begun)!r}, {SECONDS})\n"
        f"table = acidlib.directory({str(table)!r}, all_committed=True, queue={jobs.queue_url!r})\n"
    )
    assert prepared["status"] == "ok", prepared
    number = client.execute("table.compact('major')")
    end = time.monotonic() + SECONDS
    while not begun.exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    manager.interrupt_kernel()
    while (reply := client.get_shell_msg(timeout=SECONDS))["parent_header"].get("msg_id") != number:
        pass
    assert (reply["content"]["ename"], reply["content"]["evalue"]) == (
        "KeyboardInterrupt", "of 1 place 1 stopped",
    )  # fmt: skip
    assert [path.name for path in table.iterdir() if path.name[0] in "_."] == []
    again = reply_to("plan.run_unit_task = whole; done = table.compact('major')", ok="done.ok")
    assert again["user_expressions"]["ok"]["data"]["text/plain"] == "True", again
    assert merge.read(table, strict=True) == rows
    assert [row["state"] for row in jobs.shown().values()] == ["ready for cleaning"]
