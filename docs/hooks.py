"""The site as it differs from docs/: the pages of the root are on it, and diagrams are pictures.

A diagram is Mermaid's, which GitHub draws. The site has what docs/pictures.py drew of it, so that a browser draws it
without a network and without a script. Its file is named by the text of the diagram: a changed one has no picture, and
the build fails.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
NAMES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "LICENSE": "LICENSE",
}


DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


def picture_of(diagram: str) -> str:
    """Return the name of the picture of a diagram in docs/pictures/."""
    return f"diagram-{hashlib.sha256(diagram.encode()).hexdigest()[:12]}.svg"


def diagrams() -> Iterator[str]:
    """Yield the text of each diagram in docs/."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        yield from DIAGRAM.findall(page.read_text(encoding="utf-8"))


def on_files(files: Files, config: Any) -> Files:
    """Add the files of the root to those of docs/."""
    for name, on_site in NAMES.items():
        files.append(File.generated(config, on_site, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put pictures in the place of diagrams, and let links between docs/ and the root lead to the files on the site."""
    markdown = DIAGRAM.sub(lambda diagram: f"![Diagram](pictures/{picture_of(diagram[1])})", markdown)
    markdown = re.sub(r"\]\((?:docs/|\.\./)", "](", markdown)
    return markdown.replace("](README.md", "](index.md")
