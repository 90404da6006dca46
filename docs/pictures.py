"""Makes the pictures in docs/pictures/: .venv/bin/python docs/pictures.py [diagrams], which needs npm.

They show real runs over the tables of the quickstart: help.svg and run.svg a terminal, report.png the page of --report,
notebook.png the compaction in from_python.ipynb as JupyterLab shows it, by nbconvert. diagram-*.svg are the diagrams of
the pages as Mermaid draws them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from hooks import diagrams, picture_of
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from rich.console import Console
from rich.text import Text

from acidlib.cli.quickstart import DATA

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from servers.browser import draw, screenshot

PICTURES = Path(__file__).resolve().parent / "pictures"
ACIDLIB = str(Path(sys.executable).with_name("acidlib"))
WRITE_IDS = "default.sales:7:9223372036854775807::2,3,6"
"""The write ids of f_abort in the quickstart's data: 7 of them, of which 3 were rolled back."""


def main() -> None:
    """Make all pictures anew, or the diagrams alone."""
    PICTURES.mkdir(exist_ok=True)
    draw_diagrams()
    if sys.argv[1:] == ["diagrams"]:
        return
    with TemporaryDirectory() as folder:
        home = Path(folder)
        os.environ["ACIDLIB_HOME"] = str(home)  # the queue of the runs below
        table = home / "sales"
        shutil.copytree(DATA / "f_abort" / "table", table)
        terminal("help", 80, home, "acidlib --help")
        terminal(
            "run",
            100,
            home,
            f"acidlib major-compact --location sales --write-ids '{WRITE_IDS}'",
            f"acidlib show ./sales --write-ids '{WRITE_IDS}'",
            "acidlib cleaner --location sales --retention 0s",
        )
        warehouse = home / "warehouse"
        for day in range(1, 25):
            source = DATA / "b_part" / "table" / f"dt=2024-01-{1 + day % 3:02d}"
            shutil.copytree(source, warehouse / "sales.db" / "orders" / f"dt=2024-01-{day:02d}")
        words = f"major-compact --warehouse {warehouse} --table sales.* --all-committed --report {home}/report.html"
        subprocess.run([ACIDLIB, *words.split()], check=True, capture_output=True)
        screenshot(home / "report.html", PICTURES / "report.png")
        page = home / "notebook.html"
        page.write_text(notebook_page(PICTURES.parent / "from_python.ipynb", "## A compaction"), encoding="utf-8")
        screenshot(page, PICTURES / "notebook.png")


def terminal(name: str, columns: int, folder: Path, *commands: str) -> None:
    """Draw a terminal of so many columns, after these commands in a folder."""
    environment = os.environ | {"COLUMNS": str(columns), "PATH": f"{Path(ACIDLIB).parent}:{os.environ['PATH']}"}
    console = Console(record=True, width=columns, file=open(os.devnull, "w"), force_terminal=True)  # noqa: PTH123, SIM115
    for command in commands:
        console.print(Text(f"$ {command}", style="bold green"))
        ran = subprocess.run(
            ["/bin/sh", "-c", command], cwd=folder, env=environment, check=True, capture_output=True, text=True
        )
        console.print(Text(ran.stdout.replace(f"{folder}/", "/data/")))
    svg = console.export_svg(title="acidlib", font_aspect_ratio=0.61)
    # the font of rich's template comes from a server; every system has one of its own
    svg = "\n".join(line for line in svg.splitlines() if "url(" not in line or "clip-path" in line)
    (PICTURES / f"{name}.svg").write_text(svg, encoding="utf-8")


def draw_diagrams() -> None:
    """Draw the diagrams of the pages, and remove the pictures of those that are gone."""
    for picture in PICTURES.glob("diagram-*.svg"):
        picture.unlink()
    draw({Path(picture_of(text)).stem: text for text in diagrams()}, PICTURES)


def notebook_page(path: Path, heading: str) -> str:
    """Run a notebook, and return its cells from a heading to the first picture, as JupyterLab shows them."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    first = next(number for number, cell in enumerate(notebook.cells) if cell.source.startswith(heading))
    last = next(number for number, cell in enumerate(notebook.cells) if number > first and has_picture(cell))
    notebook.cells = notebook.cells[first : last + 1]
    text: str = HTMLExporter(template_name="lab").from_notebook_node(notebook)[0]
    return text


def has_picture(cell: nbformat.NotebookNode) -> bool:
    """Return whether an output of a cell is the picture of a result."""
    return any(shown.output_type == "execute_result" and "text/html" in shown.data for shown in cell.get("outputs", ()))


if __name__ == "__main__":
    main()
