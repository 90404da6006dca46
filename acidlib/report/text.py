"""Words, figures and layout of what people read: pure functions, no colours, no line break at an end."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from rich.cells import cell_len

Item = TypeVar("Item")

WIDTH = 80
"""The columns of a terminal that nobody has widened: lines fit there where words allow it."""
_PLACES_SHOWN = 20
_LABEL = 13
_BREAKS = re.compile(r"\s*[\r\n\t]\s*")


def one_line(text: str) -> str:
    """Text on one line that no terminal interprets and every UTF-8 stream can write.

    Line breaks and tabs become blanks; other unprintable characters, such as terminal escapes and the undecodable bytes
    of a path, are written as Python escapes.
    """
    line = _BREAKS.sub(" ", text.strip("\r\n\t"))
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in line)


def json_text(document: Mapping[str, Any]) -> str:
    """A JSON document for people and programs: text as it is, but without anything that a terminal interprets.

    JSON escapes the first 32 control characters only: not the others, nor marks that turn the direction of a line.
    """
    return "\n".join(map(json_characters, json.dumps(document, indent=2, ensure_ascii=False).split("\n")))


def json_characters(line: str) -> str:
    """A line of JSON in which everything that a terminal interprets is escaped."""
    return line if line.isprintable() else "".join(map(_json_character, line))


def aligned(rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> list[str]:
    """Lines of columns that are two blanks apart; those numbered in `right` are aligned to the right."""
    widths = [max(cell_len(cell) for cell in column) for column in zip(*rows, strict=True)]
    to_right = frozenset(right)
    lines = []
    for row in rows:
        gaps = [" " * (width - cell_len(cell)) for width, cell in zip(widths, row, strict=True)]
        cells = [
            gap + cell if i in to_right else cell + gap for i, (gap, cell) in enumerate(zip(gaps, row, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def fitted(rows: Sequence[Sequence[str]], *, right: Iterable[int] = (), indent: str = "") -> list[str]:
    """As `aligned`; where that takes more columns than there are, the first cell of each row stands on a line alone."""
    to_right = tuple(right)
    lines = [indent + line for line in aligned(rows, right=to_right)]
    if max(map(cell_len, lines), default=0) <= WIDTH:
        return lines
    others = aligned([row[1:] for row in rows], right=[i - 1 for i in to_right])
    pairs = zip(rows, others, strict=True)
    return [line for row, rest in pairs for line in (f"{indent}{row[0]}".rstrip(), f"{indent}  {rest}")]


def _json_character(char: str) -> str:
    return char if char.isprintable() else json.dumps(char)[1:-1]


def wrapped(text: str, indent: str = "", hanging: str | None = None) -> list[str]:
    """Lines of at most so many columns where words allow it; those after the first are indented by `hanging`."""
    return textwrap.wrap(
        one_line(text),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def field(label: str, text: str) -> list[str]:
    """The lines of a fact in the block of a place."""
    return wrapped(text, f"  {label:<{_LABEL}}", " " * (_LABEL + 2))


def shortened(items: Sequence[str], shown: int) -> list[str]:
    """All items, or the first of them and the number of the others, unless that is a single one."""
    if len(items) <= shown + 1:
        return list(items)
    return [*items[:shown], f"and {len(items) - shown:,} more"]


def by_state(counts: Mapping[str, int]) -> str:
    """`3 succeeded, 1 failed`."""
    return ", ".join(f"{count:,} {state}" for state, count in counts.items() if count)


def with_summary(summary: str, blocks: Sequence[str]) -> Iterator[str]:
    """Blocks with an empty line between them, and what they come to: before several, behind a single one."""
    parts = [summary, *blocks] if len(blocks) > 1 else [*blocks, summary]
    for number, part in enumerate(parts):
        yield f"\n\n{part}" if number else part


class First(Generic[Item]):
    """Of the items of each kind the first, and how many others there are; of no kind (None) all."""

    def __init__(self) -> None:
        self._counts: Counter[str | None] = Counter()
        self._kept: list[tuple[str | None, int, Item]] = []

    def add(self, kind: str | None, item: Callable[[], Item]) -> None:
        """One more; `item` makes it, if it may be shown."""
        self._counts[kind] += 1
        number = self._counts[kind]
        if kind is None or number <= _PLACES_SHOWN + 1:
            self._kept.append((kind, number, item()))

    def items(self) -> list[Item]:
        """Those that are shown, of no kind first, else in the order in which they came. One is never left out alone."""
        shown = [
            (kind, item)
            for kind, number, item in self._kept
            if kind is None or number <= _PLACES_SHOWN or self._counts[kind] == number
        ]
        return [item for kind, item in sorted(shown, key=lambda one: one[0] is not None)]

    def others(self) -> list[str]:
        """A line for each kind of which some are not shown."""
        more = [(kind, count - _PLACES_SHOWN) for kind, count in self._counts.items() if kind is not None]
        return [f"and {rest:,} more {kind}; --output json tells of each" for kind, rest in more if rest > 1]


def relative(path: str, location: str) -> str:
    """A path below a location."""
    return path.removeprefix(location.rstrip("/") + "/")
