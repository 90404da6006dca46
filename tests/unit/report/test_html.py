"""The style of a fragment in a notebook: it changes nothing outside, and the notebook changes nothing inside."""

from __future__ import annotations

import re

from acidlib.report.html import _style, fragment_of, html_of, scoped

from .documents import SHOWN

WITHIN = ".acidlib-report"


def rules_of(style: str) -> str:
    """The rules of a fragment, without those that set all to what browsers have of their own."""
    return style.partition("@layer acidlib-rules {")[2].rstrip().removesuffix("}")


def test_rules_concern_the_inside_of_a_fragment_alone() -> None:
    style = (
        "/* all */ :root { --a: 1; } @page { margin: 1mm; }\n"
        "@media (min-width: 48rem) { body { --b: 2; padding: 1.5rem .25rem } th, .c > td { d: e; } }"
    )
    assert " ".join(rules_of(scoped(style)).split()) == (
        f"{WITHIN} {{ --a: 1 !important; }} @media (min-width: 48rem) {{{WITHIN} > .acidlib-body {{ --b: 2 !important;"
        f" padding: 24px 4px !important }}{WITHIN} th, {WITHIN} .c > td {{ d: e !important; }} }}"
    )


def test_each_rule_of_a_page_wins_over_all_of_a_notebook() -> None:
    """What is important in a layer does, whatever is named outside; the rules stand before what they set back."""
    style = scoped(_style())
    assert style.startswith("@layer acidlib-rules, acidlib-reset;\n")
    rules = re.sub(r"@[^{};]*", "", rules_of(style))
    selectors = [name.strip() for rule in re.findall(r"([^{}]+)\{", rules) for name in rule.split(",")]
    assert len(selectors) > 50
    assert [name for name in selectors if name and not name.startswith(WITHIN)] == []
    declarations = [text.strip() for body in re.findall(r"\{([^{}]+)\}", style) for text in body.split(";")]
    assert len(declarations) > 200
    assert [text for text in declarations if text and not text.endswith(" !important")] == []
    assert "rem" not in rules.replace("remarks", "")


def test_a_page_of_its_own_is_not_told_twice_what_it_is_like() -> None:
    page = SHOWN["major_compact"]().page()
    assert page is not None
    assert "important" not in html_of(page)
    assert re.findall(r'style="[^"]*[^"t]"', fragment_of(page)) == [], "what elements state is important, too"
