"""The pages of the root on the site, which is built from docs/: README.md, as index.md, and its neighbours."""

from __future__ import annotations

import re
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


def on_files(files: Files, config: Any) -> Files:
    """Add the files of the root to those of docs/."""
    for name, on_site in NAMES.items():
        files.append(File.generated(config, on_site, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links between docs/ and the root lead to where the files are on the site."""
    markdown = re.sub(r"\]\((?:docs/|\.\./)", "](", markdown)
    return markdown.replace("](README.md", "](index.md")
