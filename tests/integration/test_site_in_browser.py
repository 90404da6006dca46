"""The site as Chromium shows it in a window of 1280 pixels, without a network: what is drawn, and what fits."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from long_runs import LONG
from servers.browser import site_looked_at
from servers.errors import ServerError

from acidlib.documents import ROOT

pytestmark = pytest.mark.skipif(not LONG, reason="only a long run opens a browser")
PAGES = {path.stem: path for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))}
PAGES["index"] = PAGES.pop("README")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    site, pictures = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("pictures")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=True)
    try:
        return site_looked_at([site / f"{name}.html" for name in PAGES], pictures)
    except ServerError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_fits_and_is_drawn_without_a_network(seen: dict[str, Any], name: str) -> None:
    page = seen[name]
    assert page["wide"] == 1280
    assert page["code"] == []
    assert [url for url in page["asked"] if not url.startswith(("file:", "data:"))] == []
    diagrams = re.findall("^```mermaid$", Path(PAGES[name]).read_text(), flags=re.MULTILINE)
    assert page["diagrams"] == 0
    assert len([picture for picture in page["pictures"] if picture["name"].startswith("diagram-")]) == len(diagrams)
    for picture in page["pictures"]:
        assert picture["drawn"], picture
        assert picture["shown"] > 300, picture
        assert picture["excess"] <= 0, picture
