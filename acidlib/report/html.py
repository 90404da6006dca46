"""Drawing of a page as one HTML file, by a template.

The file is complete: a browser makes no request for it, and no script runs in it.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from acidlib.errors import RefusedError, RetryError
from acidlib.report.page import Page
from acidlib.report.text import one_line

_HERE = Path(__file__).resolve().parent
_SEPARATORS = re.compile(r"(?<=[^ /][/.=,_])(?=[^/ ])")


def require_libraries() -> None:
    """Raise RefusedError where the library that draws a page is not installed."""
    if find_spec("jinja2") is None:
        raise RefusedError("Cannot write a report: jinja2 is not installed; pip install 'acidlib[report]' adds it.")


def require_writable(path: Path, *, what: str) -> None:
    """Raise RefusedError where no file can be made or replaced at a path, as far as this can be known beforehand."""
    folder = path.parent
    try:
        if not folder.is_dir():
            reason = f"{folder} is no directory"
        elif not os.access(folder, os.W_OK | os.X_OK):
            reason = f"nothing may be written to {folder}"
        elif path.exists() and not path.is_file():
            reason = "it exists and is no file"
        else:
            return
    except OSError as error:
        reason = error.strerror or str(error)
    raise RefusedError(f"Cannot write {what} to {path}: {reason}")


def html_of(page: Page) -> str:
    """Return a page as one HTML document."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    def printable(value: Any) -> Any:
        """Return text without characters that turn the direction of a line or cannot be written; HTML stays."""
        return value if hasattr(value, "__html__") or not isinstance(value, str) else one_line(value)

    def breakable(text: str) -> Markup:
        """Return a name or path that may be broken into lines behind its separators."""
        return Markup("<wbr>").join(escape(part) for part in _SEPARATORS.split(one_line(text)) if part)

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=printable,
    )
    environment.filters["breakable"] = breakable
    environment.globals["style"] = Markup((_HERE / "page.css").read_text(encoding="utf-8"))  # noqa: S704 - a file of ours
    return environment.get_template("page.html.j2").render(page=page, document=page.document)


def write_page(html: str, path: Path, *, unique: str) -> None:
    """Write a page as a whole, or raise RetryError; then an earlier file at the path is still there.

    unique  part of the name of the temporary file
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
        raise RetryError(f"Cannot write the report to {path}: {error.strerror or error}") from error
