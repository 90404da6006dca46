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
from acidlib.report.page import ReportPage
from acidlib.report.text import one_line

_HERE = Path(__file__).resolve().parent
_SEPARATORS = re.compile(r"(?<=[^ /][/.=,_])(?=[^/ ])")


def has_libraries() -> bool:
    """Return whether the library that draws a page is installed."""
    return find_spec("jinja2") is not None


def require_libraries() -> None:
    """Raise RefusedError where the library that draws a page is not installed."""
    if not has_libraries():
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


def html_of(page: ReportPage) -> str:
    """Return a page as one HTML document."""
    return _drawn(page, "page.html.j2", style=_style())


def fragment_of(page: ReportPage) -> str:
    """Return a page as a part of another document, such as a notebook: neither changes the style of the other.

    Ids in it begin with the id of the run, as a notebook shows several.
    """
    return _drawn(page, "fragment.html.j2", style=scoped(_style()), important=_IMPORTANT)


_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_PAGE = re.compile(r"@page[^{]*\{[^{}]*\}")
"""How the whole document is printed, which is not a fragment's to say."""
_RULE = re.compile(r"(?<![^{}])(?P<selectors>[^{};@]+)\{(?P<body>[^{}]*)\}")
_DECLARATION = re.compile(r"[^{};]*:[^{};]*[^{};\s]")
_REM = re.compile(r"(?P<number>[0-9]*\.?[0-9]+)rem\b")
_PIXELS = 16
"""Of 1rem, whatever the other document has its own texts in."""
_FRAGMENT = ".acidlib-report"
_WHOLE = {"html": _FRAGMENT, ":root": _FRAGMENT, "body": f"{_FRAGMENT} > .acidlib-body"}
"""Selectors of elements that only a document of its own has, and what stands for them in a fragment."""
_IMPORTANT = " !important"
_RULES, _RESET = "acidlib-rules", "acidlib-reset"
# What is important in a layer wins over everything outside, however many classes that names, and what is in the first
# layer over the second. There everything is what browsers have of their own, or from which the other document's fonts,
# colours and spaces would be inherited.
_LAYERS = f"""\
@layer {_RULES}, {_RESET};
@layer {_RESET} {{
{_FRAGMENT} {{ all: initial{_IMPORTANT}; display: block{_IMPORTANT}; }}
{_FRAGMENT} *, {_FRAGMENT} *::before, {_FRAGMENT} *::after {{ all: revert{_IMPORTANT}; }}
}}
@layer {_RULES} {{
"""


def scoped(style: str) -> str:
    """Return a style sheet whose rules concern the inside of a fragment alone, and that no other one changes there."""

    def important(match: re.Match[str]) -> str:
        return _REM.sub(lambda size: f"{_PIXELS * float(size['number']):g}px", match[0]) + _IMPORTANT

    def within(match: re.Match[str]) -> str:
        selectors = (selector.strip() for selector in match["selectors"].split(","))
        scoped = (_WHOLE.get(name, f"{_FRAGMENT} {name}") for name in selectors)
        return f"{', '.join(scoped)} {{{_DECLARATION.sub(important, match['body'])}}}"

    return f"{_LAYERS}{_RULE.sub(within, _PAGE.sub('', _COMMENT.sub('', style)))}}}"


def _style() -> str:
    return (_HERE / "page.css").read_text(encoding="utf-8")


def _drawn(page: ReportPage, template: str, *, style: str, important: str = "") -> str:
    """Return a page by a template of this folder; `important` ends the declarations of its own elements."""
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
    environment.globals["style"] = Markup(style)  # noqa: S704 - a file of ours
    environment.globals["important"] = important
    return environment.get_template(template).render(page=page, head=page.head)


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
