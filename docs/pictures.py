"""Makes the pictures in docs/pictures/: .venv/bin/python docs/pictures.py [diagrams], which needs Chromium and npm.

They show real runs over the tables of the quickstart: help.svg and run.svg a terminal, report.png the page of --report,
notebook.png the compaction in from_python.ipynb. diagram-*.svg are the diagrams of the pages as Mermaid draws them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from hooks import diagrams, picture_of
from markdown import markdown
from nbclient import NotebookClient
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from rich.console import Console
from rich.text import Text

from acidlib.cli.quickstart import DATA

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from servers.browser import draw

PICTURES = Path(__file__).resolve().parent / "pictures"
ACIDLIB = str(Path(sys.executable).with_name("acidlib"))
WRITE_IDS = "default.sales:7:9223372036854775807::2,3,6"
"""The write ids of f_abort in the quickstart's data: 7 of them, of which 3 were rolled back."""
QUIET = ("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
QUIET = (*QUIET, "--disable-component-update", "--disable-sync", "--hide-scrollbars")


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
        screenshot(home / "report.html", PICTURES / "report.png", home)
        page = home / "notebook.html"
        page.write_text(notebook_page(PICTURES.parent / "from_python.ipynb", "## A compaction"), encoding="utf-8")
        screenshot(page, PICTURES / "notebook.png", home)


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


CELLS = """
body { margin: 1.2rem 1.5rem; font: 14px/1.5 system-ui, "Segoe UI", "Liberation Sans", sans-serif; color: #111; }
.cell { display: grid; grid-template-columns: 5.5rem minmax(0, 1fr); column-gap: .6rem; margin-bottom: .8rem; }
.prompt { text-align: right; font: 12px/1.9 "Liberation Mono", monospace; color: #616161; }
.code pre { margin: 0; padding: .5rem .7rem; background: #f5f5f5; border: 1px solid #e0e0e0; }
pre { font: 13px/1.4 "Liberation Mono", monospace; }
.stderr { background: #fdd; margin: 0; padding: .3rem .7rem; }
.output { border: 1px solid #e0e0e0; }
p { margin: 0 0 .5rem; } h2 { margin: 0 0 .4rem; }
"""
"""A style as of a notebook in a browser."""


def notebook_page(path: Path, heading: str) -> str:
    """Run a notebook, and return a page with its cells from a heading to the first picture."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    starts = (number for number, cell in enumerate(notebook.cells) if cell.source.startswith(heading))
    pieces, colours = [], HtmlFormatter()
    for cell in notebook.cells[next(starts) :]:
        prompt, output = "", ""
        if cell.cell_type == "markdown":
            inside = markdown(cell.source)
        else:
            prompt = f"[{cell.execution_count}]:"
            inside = f'<div class="code">{highlight(cell.source, PythonLexer(), colours)}</div>'
            output = "".join(shown.get("data", {}).get("text/html", "") for shown in cell.outputs)
            written = "".join(shown.text for shown in cell.outputs if shown.output_type == "stream")
            inside += f'<pre class="stderr">{escape(written)}</pre>' if written else ""
            inside += f'<div class="output">{output}</div>' if output else ""
        pieces.append(f'<div class="cell"><div class="prompt">{prompt}</div><div>{inside}</div></div>')
        if output:
            break
    style = f"<style>{CELLS}{colours.get_style_defs('.highlight')}</style>"
    return f"<!doctype html><html><head><meta charset='utf-8'>{style}</head><body>{''.join(pieces)}</body></html>"


def screenshot(page: Path, picture: Path, folder: Path) -> None:
    """Draw the top of a page as Chromium shows it."""
    size = ("--window-size=1100,900", f"--user-data-dir={folder / 'chromium'}", f"--screenshot={picture}")
    command = ["chromium", "--headless", "--no-sandbox", *QUIET, *size, page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


if __name__ == "__main__":
    main()
