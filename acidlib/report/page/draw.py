"""A page as HTML: the template lays it out, pygal draws its charts.

The result needs nothing beside itself: no request is made for it, and no script runs in it.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from acidlib.errors import AcidError, RefusedError, RetryError
from acidlib.report.page.parts import Chart, Page
from acidlib.report.text import one_line

if TYPE_CHECKING:
    from jinja2 import Template

_HERE = Path(__file__).resolve().parent
_WIDTH, _HEIGHT, _FONT = 400, 230, 13
_MOST_LABELS = 10
_LEFT_OUT = frozenset({"style", "script", "defs", "title", "desc"})
"""What pygal adds for its own look: here the page's style sheet has that, and a text beside the chart says the rest."""
_TOOLTIPS = "tooltip-overlay"
_SEPARATORS = re.compile(r"(?<=[^ /][/.=,_])(?=[^/ ])")


def require_libraries() -> None:
    """RefusedError where what draws a page is not installed."""
    for name in ("jinja2", "pygal"):
        if find_spec(name) is None:
            raise RefusedError(
                f"Cannot write a report: because {name} is not installed; pip install 'acidlib[report]' adds it"
            )


def require_writable(path: Path) -> None:
    """RefusedError where no file can be made or replaced at a path, as far as that can be told before."""
    folder = path.parent
    if not folder.is_dir():
        reason = f"{folder} is no directory"
    elif path.exists() and not path.is_file():
        reason = "it is there and is no file"
    elif not os.access(folder, os.W_OK | os.X_OK):
        reason = f"nothing may be written to {folder}"
    else:
        return
    raise RefusedError(f"Cannot write the report to {path}: because {reason}")


def html_of(page: Page) -> str:
    """The page as one HTML document. RefusedError where the libraries for it are not installed."""
    require_libraries()
    charts = [(chart, _svg(chart, number)) for number, chart in enumerate(page.charts)]
    return _template().render(page=page, charts=charts, style=_style())


def write_page(html: str, path: Path, *, unique: str) -> None:
    """Write a page as a whole or not at all. RetryError where it cannot be written; then what was there is still there.

    unique  belongs to the name of the temporary file
    """
    temporary = path.with_name(f".{path.name}.{unique}.tmp")
    try:
        try:
            with temporary.open("x", encoding="utf-8") as file:
                file.write(html)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise RetryError(f"Cannot write the report to {path}: because {error.strerror or error}") from error


@cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    environment.filters["breakable"] = _breakable
    return environment.get_template("page.html.j2")


def _printable(value: Any) -> Any:
    """Nothing that turns the direction of a line or cannot be written; what is marked as HTML stays as it is."""
    return value if hasattr(value, "__html__") or not isinstance(value, str) else one_line(value)


def _breakable(text: str) -> Any:
    """A name or path that may go on in another line behind one of its separators."""
    from markupsafe import Markup, escape

    parts = _SEPARATORS.split(one_line(text))
    return Markup("<wbr>").join(escape(part) for part in parts if part)


def _style() -> Any:
    from markupsafe import Markup

    return Markup((_HERE / "page.css").read_text(encoding="utf-8"))  # noqa: S704 - a file of ours


@cache
def _pygal() -> Any:
    """pygal, without the finder that it adds for maps: Python warns of its kind whenever a module is imported."""
    import pygal
    import pygal.style

    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != pygal.__name__]
    return pygal


def _svg(chart: Chart, number: int) -> Any:
    """A chart as an element of SVG, whose colours are those of the page."""
    from markupsafe import Markup

    pygal = _pygal()
    style = pygal.style.Style(label_font_size=_FONT, major_label_font_size=_FONT, font_family="sans-serif")
    drawn = pygal.Bar(
        style=style,
        js=(),
        width=_WIDTH,
        height=_HEIGHT,
        show_legend=False,
        margin=6,
        spacing=8,
        max_scale=5,
        min_scale=2,
        include_x_axis=True,
        truncate_label=-1,
        value_formatter=lambda value: f"{value:,.10g}",
        # it is for a script of pygal's; without one of ours it is drawn at random
        uuid=str(number),
    )
    every = -(-len(chart.ticks) // _MOST_LABELS)
    # of many each some have one; numbered, for pygal takes labels that are alike for one and the same
    drawn.x_labels = ["" if number % every else tick for number, tick in enumerate(chart.ticks)]
    for series in chart.series:
        drawn.add(series.name, list(series.values))
    root = drawn.render_tree()
    _strip(root)
    root.attrib.pop("id", None)
    root.attrib |= {"class": "chart", "role": "img", "aria-label": one_line(f"{chart.title}. {chart.text}")}
    for place, series in enumerate(chart.series):
        for group in root.iter("g"):
            if group.get("class") == f"series serie-{place} color-{place}":
                group.set("class", f"series {series.tone.value}")
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704 - escaped by ElementTree


def _strip(parent: ElementTree.Element) -> None:
    for child in list(parent):
        is_comment = not isinstance(child.tag, str)
        if is_comment or child.tag in _LEFT_OUT or _TOOLTIPS in child.get("class", ""):
            parent.remove(child)
        else:
            _strip(child)


def drawing_error(error: Exception, path: Path) -> AcidError:
    """What is said of a page that could not be drawn or written, when all else is done."""
    text = str(error)
    if not isinstance(error, AcidError):
        text = f"Cannot write the report to {path}: because of an unexpected {type(error).__name__}: {error}"
    return RetryError(f"{text}; what was done is done")
