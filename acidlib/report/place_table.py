"""The places of a run of many as a table: one line for each, below the reason that it shares with others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from rich.cells import cell_len

from acidlib.arguments import AS_JSON, DETAILS, Word, option, said
from acidlib.model.results import CleaningResult, CompactionResult, Outcome
from acidlib.report.text import READ_BETWEEN, WIDTH, aligned, one_line, shared_reason, shortened, wrapped
from acidlib.wording import human_bytes, retention_end

_ROWS_SHOWN = 100
_REASONS_SHOWN = 3
PLANNED = ("Place", "Inputs", "To copy", "To rewrite")
WOULD_GO, GONE = ("Place", "Would go", "Bytes", "Waiting"), ("Place", "Gone", "Bytes", "Waiting")
"""Heads of tables; what is gone was removed or moved to a trash."""
_DETAILS = f"{DETAILS} tells more of each place"


class First:
    """The first few items of each kind, and the number of the others; all items without a kind (None)."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: Counter[str | None] = Counter()
        self._kept: list[tuple[str | None, int, Any]] = []

    def add(self, kind: str | None, item: Callable[[], Any]) -> None:
        """Add an item, which is made only if it may be shown."""
        self._counts[kind] += 1
        number = self._counts[kind]
        if kind is None or number <= self._most + 1:
            self._kept.append((kind, number, item()))

    def items(self) -> list[Any]:
        """Return the shown items in their order, those without a kind first. A single item is never left out."""
        shown = [
            (kind, item)
            for kind, number, item in self._kept
            if kind is None or number <= self._most or self._counts[kind] == number
        ]
        return [item for kind, item in sorted(shown, key=lambda pair: pair[0] is not None)]

    def others(self, word: Word = option) -> list[str]:
        """Return a line for each kind with items that are not shown."""
        more = [(kind, count - self._most) for kind, count in self._counts.items() if kind is not None]
        line = said(f"{AS_JSON} tells of each", word)
        return [f"and {rest:,} more {kind}; {line}" for kind, rest in more if rest > 1]


class Row(NamedTuple):
    """A place with its figures, and what it shares with others: the outcome, and the reason.

    shared  the reason without names of the place
    until   the time before which a retention lets nothing of it go, in words; None where something else decides
    """

    name: str
    figures: tuple[str, ...]
    state: Outcome
    reason: str
    shared: str
    until: str | None = None


def planned_row(entry: CompactionResult) -> Row:
    """Return the row of a compaction that would run, or would not."""
    figures: tuple[str, ...] = ()
    if entry.files is not None:
        sizes = human_bytes(entry.bytes_copied or 0), human_bytes(entry.bytes_rewritten or 0)
        figures = f"{len(entry.inputs):,}", *sizes
    between = (f"{entry.publication}: {READ_BETWEEN}",) if entry.publication == "two renames" else ()
    reason = "; ".join((entry.reason, *between, *entry.notes))
    return Row(str(entry.ref), figures, entry.state, reason, shared_reason(reason, entry.ref, entry.location))


def cleaning_row(entry: CleaningResult) -> Row:
    """Return the row of a cleaning, without the numbers in its reason, which the figures say."""
    removed, waiting = len(entry.removed), len(entry.waiting)
    figures: tuple[str, ...] = ()
    if removed or waiting:
        figures = f"{removed:,}", human_bytes(sum(path.bytes for path in entry.removed)), f"{waiting:,}"
    reasons = tuple(dict.fromkeys(blocked.reason for blocked in entry.waiting))
    is_counted = bool(figures) and entry.state is Outcome.PLANNED and entry.id is not None
    if not is_counted and not any(reason in entry.reason for reason in reasons):
        reasons = (entry.reason,)
    ends = {reason: retention_end(reason) for reason in reasons}
    until = None if removed else min((end[1] if end else "" for end in ends.values()), default="") or None
    words = dict.fromkeys(end[0] if end else reason for reason, end in ends.items())
    reason = "; ".join(shortened([*words], _REASONS_SHOWN))
    return Row(str(entry.ref), figures, entry.state, reason, shared_reason(reason, entry.ref, entry.location), until)


@dataclass(slots=True)
class AlikePlaces:
    """Places with the same outcome for the same reason; `names` are the first of them."""

    state: Outcome
    reason: str
    count: int = 0
    names: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return outcome and reason, and a line for each place."""
        lines = wrapped(f"{self.count:,} {self.state}: {self.reason}", "", "    ")
        rest = self.count - len(self.names)
        return "\n".join([*lines, *map("  {}".format, self.names), *([f"  and {rest:,} more"] if rest else [])])


def grouped(rows: Iterable[Row]) -> Mapping[tuple[Outcome, str], AlikePlaces]:
    """Return the rows that share outcome and reason in groups."""
    groups: dict[tuple[Outcome, str], AlikePlaces] = {}
    for row in rows:
        group = groups.setdefault((row.state, row.shared), AlikePlaces(row.state, row.shared))
        group.count += 1
        if group.count <= _ROWS_SHOWN:
            group.names.append(one_line(row.name))
    return groups


def place_paragraphs(summary: str, head: Sequence[str], rows: Iterable[Row], word: Word = option) -> Iterator[str]:
    """Yield the table of rows below the outcomes and reasons that they share, bad ones first, and then the summary.

    Where nothing is due at any place, it is said once.
    """
    end = "\n".join(wrapped(summary, "", "    "))
    shown = First(_ROWS_SHOWN)
    counts: Counter[tuple[Outcome, str]] = Counter()
    until: dict[tuple[Outcome, str], str | None] = {}
    for row in rows:
        shared = row.state, row.shared
        first = until.setdefault(shared, row.until)
        until[shared] = None if first is None or row.until is None else min(first, row.until)
        counts[shared] += 1
        shown.add(None if row.state.is_bad else row.state, partial(Row, *row))
    if all(until.values()):
        for (_, reason), due in until.items():
            yield "\n".join(wrapped(f"Nothing is due before {due}: {reason}", "", "    "))
        yield said(_DETAILS, word)
        yield end
        return
    groups: dict[tuple[Outcome, str], list[Row]] = {}
    for row in shown.items():
        groups.setdefault((row.state, row.shared), []).append(row)

    def heading(shared: tuple[Outcome, str], first: Row) -> str:
        due, reason = until[shared], first.reason if counts[shared] == 1 else first.shared
        text = f"{counts[shared]:,} {': '.join(filter(None, (first.state, reason)))}"
        return text if due is None else f"{text}; nothing is due before {due}"

    yield from _table(head, {heading(shared, rows[0]): rows for shared, rows in groups.items()})
    yield from shown.others(word)
    yield said(_DETAILS, word)
    yield end


def _table(head: Sequence[str], groups: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """Yield the head, and for each heading the rows below it.

    A name that leaves no room for figures stands on a line of its own.
    """
    rows = [row for group in groups.values() for row in group]
    blank = ("",) * (len(head) - 1)
    top, *figures = aligned([head[1:], *(row.figures or blank for row in rows)], right=range(len(blank)))
    names = [f"  {one_line(row.name)}" for row in rows]
    room = WIDTH - 2 - cell_len(top)
    width = max(filter(lambda size: size <= room, map(cell_len, [head[0], *names])))
    lines = iter(zip(names, figures, strict=True))
    if any(row.figures for row in rows):
        yield f"{head[0]:<{width}}  {top}"
    for heading, group in groups.items():
        paragraph = wrapped(heading, "", "    ")
        for name, shown in (next(lines) for _ in group):
            gap = width - cell_len(name)
            if not shown or gap >= 0:
                paragraph.append(f"{name}{' ' * gap}  {shown}".rstrip())
            else:
                paragraph += [name, f"{'':<{width}}  {shown}"]
        yield "\n".join(paragraph)
