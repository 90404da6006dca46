"""The picture in a notebook as Chromium shows it below JupyterLab's own style sheet, and below that of its ancestor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from long_runs import LONG
from nbconvert import HTMLExporter
from servers.browser import boxes_of
from servers.errors import ServerError
from unit.report.documents import SHOWN

from acidlib.report.html import fragment_of, html_of

pytestmark = pytest.mark.skipif(not LONG, reason="only a long run opens a browser")
TEMPLATES = ("lab", "classic")
HOSTILE = """<style>
dt, dd, td, th, h1, h2, h3, ul, li, span, .acidlib-report.acidlib-report * { float: left; width: 20%; color: red; }
.acidlib-report * { font: 40px monospace !important; margin: 9px !important; }
div { text-align: right; letter-spacing: 3px; font-style: italic; line-height: 3; white-space: pre; }
html { font-size: 10px; }
</style>"""


def notebook_of(fragment: str, template: str, *, before: str = "") -> str:
    """A notebook with one output, as a template of nbconvert draws it."""
    data = {"text/html": f"{before}{fragment}", "text/plain": ""}
    shown = nbformat.v4.new_output("execute_result", data=data, execution_count=1)
    cell = nbformat.v4.new_code_cell("result", outputs=[shown], execution_count=1)
    text: str = HTMLExporter(template_name=template).from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))[0]
    return text


@pytest.mark.parametrize("job", SHOWN)
def test_a_notebook_changes_no_box_of_a_picture(job: str, tmp_path: Path) -> None:
    page = SHOWN[job]().page()
    assert page is not None
    alone = tmp_path / "alone.html"
    alone.write_text(html_of(page), encoding="utf-8")
    texts = {template: notebook_of(fragment_of(page), template) for template in TEMPLATES}
    texts["hostile"] = notebook_of(fragment_of(page), "lab", before=HOSTILE)
    notebooks = [tmp_path / f"{name}.html" for name in texts]
    for notebook, text in zip(notebooks, texts.values(), strict=True):
        notebook.write_text(text, encoding="utf-8")
    try:
        seen: dict[str, Any] = boxes_of(alone, notebooks, tmp_path)
    except ServerError as error:
        pytest.skip(str(error))
    for name, boxes in ((one, boxes) for one in texts for boxes in seen[one]):
        inside, by_itself = boxes["inside"]["elements"], boxes["alone"]["elements"]
        assert len(inside) > 50
        for (words, *box), (same, *other) in zip(inside, by_itself, strict=True):
            # the width of a notebook is no whole number
            assert (words, box[:4], box[4:]) == (same, pytest.approx(other[:4], abs=1), other[4:]), name
