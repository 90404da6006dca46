"""The style of a fragment in a notebook: it changes nothing outside, and the notebook changes nothing inside."""

from __future__ import annotations

import re

from acidlib.report.html import _style, scoped

WITHIN = ".acidlib-report.acidlib-report.acidlib-report"


def test_rules_concern_the_inside_of_a_fragment_alone() -> None:
    style = "/* all */ :root { --a: 1; } @media (min-width: 48rem) { body { --b: 2; } th, .c > td { d: e; } }"
    assert " ".join(scoped(style).split()) == (
        f"{WITHIN} {{ --a: 1; }} @media (min-width: 48rem) {{{WITHIN} {{ --b: 2; }}"
        f"{WITHIN} th, {WITHIN} .c > td {{ d: e; }} }}"
    )


def test_every_rule_of_a_page_wins_over_those_of_a_notebook() -> None:
    """JupyterLab's rules for tables name two classes (`:not(.jp-RenderedMarkdown).jp-RenderedHTMLCommon td`)."""
    style = re.sub(r"@[^{};]*", "", scoped(_style()))
    selectors = [name.strip() for rule in re.findall(r"([^{}]+)\{", style) for name in rule.split(",")]
    assert len(selectors) > 50
    assert [name for name in selectors if name and not name.startswith(WITHIN)] == []
