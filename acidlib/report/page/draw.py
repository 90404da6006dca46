"""A page as HTML: the template lays it out.

The result needs nothing beside itself: no request is made for it, and no script runs in it.
"""

from __future__ import annotations

import os
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acidlib.errors import AcidError, RefusedError, RetryError
from acidlib.report.page.parts import Page
from acidlib.report.text import one_line

if TYPE_CHECKING:
    from jinja2 import Template

_HERE = Path(__file__).resolve().parent
_SEPARATORS = re.compile(r"(?<=[^ /][/.=,_])(?=[^/ ])")


def require_libraries() -> None:
    """RefusedError where what draws a page is not installed."""
    if find_spec("jinja2") is None:
        raise RefusedError("Cannot write a report: jinja2 is not installed; pip install 'acidlib[report]' adds it.")


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
    return _template().render(page=page, style=_style())


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


def drawing_error(error: Exception, path: Path) -> AcidError:
    """What is said of a page that could not be drawn or written, when all else is done."""
    text = str(error)
    if not isinstance(error, AcidError):
        text = f"Cannot write the report to {path}: because of an unexpected {type(error).__name__}: {error}"
    return RetryError(f"{text}; what was done is done")
