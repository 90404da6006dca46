"""Reports as Chromium shows and prints them: narrow and wide, light and dark, without asking for anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from long_runs import LONG
from servers.browser import looked_at
from servers.errors import ServerError
from unit.report.documents import DONE, FAILED, SHOWN, told

from acidlib.report.html import html_of
from acidlib.report.values import Result

pytestmark = pytest.mark.skipif(not LONG, reason="only a long run opens a browser")
LONG_NAME = "anamewithoutanyplacetobreakit" * 5
EASY_TO_READ = 4.5
"""The contrast that WCAG 2.1 asks for (AA)."""


def many() -> Result:
    """A run of many places with hostile names."""
    done = [replace(DONE, partition=f"ds={n}", seconds=n / 7, deltas_before=n % 400) for n in range(1000)]
    bad = replace(
        FAILED,
        table=LONG_NAME,
        location=f"s3://bucket/{LONG_NAME}/{LONG_NAME}",
        reason=f"{LONG_NAME} is bad",
    )
    return told("major_compact", [*done, bad, replace(DONE, table=LONG_NAME, reason=LONG_NAME, seconds=900.0)])


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("pages")
    paths = []
    for name, result in {**SHOWN, "many": many}.items():
        paths.append(folder / f"{name}.html")
        page = result().page()
        assert page is not None
        paths[-1].write_text(html_of(page), encoding="utf-8")
    try:
        return looked_at(paths, folder)
    except ServerError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", [*SHOWN, "many"])
def test_a_report_is_seen_as_it_is_meant(seen: dict[str, Any], name: str) -> None:
    page = seen[name]
    assert len(page["looks"]) == 4
    for look in page["looks"]:
        assert (look["wide"], look["outside"]) == (look["width"], [])
        assert look["headline"] > 100
        assert look["contrast"] >= EASY_TO_READ
        # what is shown as blocks on a narrow screen is a table to a screen reader
        assert look["tables"] == page["looks"][-1]["tables"] >= 2
    assert len({look["paper"] for look in page["looks"]}) == 2
    assert [Path(url).name for url in page["asked"]] == [f"{name}.html"]
    assert page["said"] == []
    # on paper it is dark on white, whatever the screen had last
    assert page["print"]["paper"] == "rgb(255, 255, 255)"
    assert page["print"]["contrast"] >= EASY_TO_READ
    assert page["printed"] > 5000


def test_all_pages_are_light_and_dark_alike(seen: dict[str, Any]) -> None:
    papers = {(look["scheme"], look["paper"]) for page in seen.values() for look in page["looks"]}
    assert len(papers) == 2
