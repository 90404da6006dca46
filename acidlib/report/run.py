"""The report of a run: document, text and page, gathered entry by entry in little memory, however many there are.

The entries of the JSON document are the source: totals, text and page are made of them.
"""

from __future__ import annotations

import gzip
import io
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any, ClassVar

from acidlib.report.page import CleanerSummary, CompactionsSummary, InitiatorSummary, Page
from acidlib.report.results import (
    COMPACTION_OUTCOMES,
    DECISION_OUTCOMES,
    EXIT_DONE,
    EXIT_NOT_DONE,
    EXIT_SOME_FAILED,
    FIGURES,
    Outcome,
)
from acidlib.report.text import Entry, by_state, cleaning_lines, compaction_lines, decision_lines, json_text, wrapped
from acidlib.wording import human_bytes, plural

_PLACES_SHOWN = 20
_PIECE = 1 << 15
"""Characters of a document that are read and written at once."""


class First:
    """The first few items of each kind, and the number of the others; all items without a kind (None)."""

    def __init__(self) -> None:
        self._counts: Counter[str | None] = Counter()
        self._kept: list[tuple[str | None, int, Any]] = []

    def add(self, kind: str | None, item: Callable[[], Any]) -> None:
        """Add an item, which is made only if it may be shown."""
        self._counts[kind] += 1
        number = self._counts[kind]
        if kind is None or number <= _PLACES_SHOWN + 1:
            self._kept.append((kind, number, item()))

    def items(self) -> list[Any]:
        """Return the shown items in their order, those without a kind first. A single item is never left out."""
        shown = [
            (kind, item)
            for kind, number, item in self._kept
            if kind is None or number <= _PLACES_SHOWN or self._counts[kind] == number
        ]
        return [item for kind, item in sorted(shown, key=lambda pair: pair[0] is not None)]

    def others(self) -> list[str]:
        """Return a line for each kind with items that are not shown."""
        more = [(kind, count - _PLACES_SHOWN) for kind, count in self._counts.items() if kind is not None]
        return [f"and {rest:,} more {kind}; --output json tells of each" for kind, rest in more if rest > 1]


class RunReport(ABC):
    """The JSON document of a run, and the text or page that is made of it.

    Each kind of job sums entries for its totals and its exit status, and keeps the text of an entry.
    """

    summary: ClassVar[type[CompactionsSummary | InitiatorSummary | CleanerSummary]]
    """The sums over entries of which a page is made."""
    ended: ClassVar[str] = "state"
    """The field of an entry with its outcome."""

    def __init__(
        self,
        about: Callable[[], dict[str, Any]],
        *,
        dry_run: bool = False,
        as_json: bool = False,
        has_page: bool = False,
    ) -> None:
        """Gather a document; `about` gives the fields before the entries when all is done."""
        self._about = cache(about)
        self._dry_run = dry_run
        self._as_json = as_json
        self._has_page = has_page
        self._page = self.summary()
        self._states: Counter[str] = Counter()
        self._sums: Counter[str] = Counter()
        self._shown = First()
        self._packed = io.BytesIO()
        self._packing = gzip.open(self._packed, "wt", compresslevel=1, encoding="utf-8", newline="")  # noqa: SIM115 - open to the end of the run

    @abstractmethod
    def totals(self) -> dict[str, Any]:
        """Return `totals` of the JSON document."""

    @abstractmethod
    def _count(self, entry: Entry) -> None:
        """Add an entry to the sums."""

    @abstractmethod
    def _show(self, entry: Entry) -> None:
        """Keep the text of an entry."""

    @abstractmethod
    def _text(self) -> Iterator[str]:
        """Yield the text for people, piece by piece."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return not self._states

    def add(self, entry: Entry) -> None:
        """Add an entry."""
        if self._as_json:
            text = json_text({"entries": [entry]})
            start, end = text.index("\n    {"), text.rindex("\n  ]")
            self._packing.write(("" if self.is_empty else ",") + text[start:end])
        else:
            self._show(entry)
        if self._has_page:
            self._page.add(entry)
        self._states[entry[self.ended]] += 1
        self._count(entry)

    def pieces(self, notes: Sequence[str]) -> Iterator[str]:
        """Yield the standard output, piece by piece, without a line break at the end. May be called once."""
        if not self._as_json:
            yield from self._text()
            return
        # as `json_text` writes a document
        entries = self.summary.entries
        whole = json_text({**self._about(), entries: [], "totals": self.totals(), "notes": list(notes)})
        before, empty, after = whole.partition(f'\n  "{entries}": []')
        if self.is_empty:
            yield whole
            return
        yield before + empty.removesuffix("]")
        self._packing.close()
        self._packed.seek(0)
        with gzip.open(self._packed, "rt", encoding="utf-8", newline="") as packed:
            yield from iter(partial(packed.read, _PIECE), "")
        yield "\n  ]" + after

    def page(self, notes: Sequence[str]) -> Page:
        """Return the page of a report that was made with `has_page`."""
        return self._page.page({**self._about(), "totals": self.totals(), "notes": list(notes)})

    def exit_status(self) -> int:
        """Return 3 where an entry failed and may succeed the next time, or is in conflict; else 0."""
        return EXIT_SOME_FAILED if self._states["failed"] or self._states["conflict"] else EXIT_DONE


class CompactionsReport(RunReport):
    """The report of a minor or major compaction: a block for each place.

    A dry run also lists per bucket file which stripes would be copied and rewritten, how many bytes, and why. Of many
    places with the same outcome only the first have a block, and the others are counted; each failed place has one.
    """

    summary = CompactionsSummary

    def _count(self, entry: Entry) -> None:
        self._sums["with files"] += entry["files"] is not None
        self._sums["unverified"] += entry["unverified"]
        for figure in FIGURES:
            self._sums[figure] += entry[figure] or 0

    def totals(self) -> dict[str, Any]:
        states = {outcome.value: self._states[outcome.value] for outcome in COMPACTION_OUTCOMES}
        return {"compactions": self._states.total(), "states": states} | {name: self._sums[name] for name in FIGURES}

    def _show(self, entry: Entry) -> None:
        is_bad = entry["state"] in ("failed", "conflict") or entry["unverified"]
        self._shown.add(
            None if is_bad else entry["state"], lambda: "\n".join(compaction_lines(entry, dry_run=self._dry_run))
        )

    def _text(self) -> Iterator[str]:
        totals = self.totals()
        if not totals["compactions"]:
            yield "Nothing to compact."
            return
        text = f"{plural(totals['compactions'], 'compaction')}: {by_state(totals['states'])}"
        if self._sums["with files"]:
            copied, rewritten = ("to copy", "to rewrite") if self._dry_run else ("copied", "rewritten")
            text += (
                f"; {plural(totals['rows_in'], 'row')} in, {totals['rows_deleted']:,} deleted,"
                f" {totals['rows_aborted']:,} aborted, {totals['rows_out']:,} out;"
                f" {human_bytes(totals['bytes_copied'])} {copied},"
                f" {human_bytes(totals['bytes_rewritten'])} {rewritten}"
            )
        yield from _with_summary(f"Dry run, nothing was changed. {text}" if self._dry_run else text, self._shown)

    def exit_status(self, *, is_named: bool = False) -> int:
        """Return 0 where every place is done, already compact, refused or skipped; 1 when the only named table failed
        or is in conflict; 3 when some of several did, or a result is unverified.
        """
        if self._sums["unverified"]:
            return EXIT_SOME_FAILED
        status = super().exit_status()
        return EXIT_NOT_DONE if status != EXIT_DONE and is_named and self._states.total() == 1 else status


class InitiatorReport(RunReport):
    """The report of an initiator: a table of the places that it judged, with reason and threshold below each.

    Of many places with the same decision only the first are listed, and the others counted; each failed one is listed.
    """

    summary = InitiatorSummary
    ended = "outcome"

    def _count(self, entry: Entry) -> None:
        self._sums["queued"] += entry["queued"] is not None
        if entry["outcome"] == "due":
            self._sums[entry["type"]] += 1

    def totals(self) -> dict[str, Any]:
        return {
            "looked_at": self._states.total(),
            "queued": self._sums["queued"],
            "refused": self._states["refused"],
            "held_back": self._states["held back"],
            "failed": self._states["failed"],
        }

    def _show(self, entry: Entry) -> None:
        outcome = entry["outcome"]
        kind = f"for a {entry['type']} compaction" if outcome == "due" else outcome
        self._shown.add(None if outcome == "failed" else kind, lambda: entry)

    def _text(self) -> Iterator[str]:
        if self.is_empty:
            yield "Nothing to look at: no table was found."
            return
        due = by_state({kind: self._sums[kind] for kind in ("major", "minor")}) or "none to compact"
        counts = [
            f"{self._states[outcome.value]:,} {outcome.value}"
            for outcome in DECISION_OUTCOMES
            if outcome is Outcome.LEFT_ALONE or (outcome is not Outcome.DUE and self._states[outcome.value])
        ]
        looked_at, queued = plural(self._states.total(), "place"), plural(self._sums["queued"], "request")
        summary = f"{looked_at} looked at: {', '.join([due, *counts])}; {queued} queued"
        yield "\n".join([*wrapped(summary), "", *decision_lines(self._shown.items()), *self._shown.others()])

    def when_stopped(self) -> str:
        """Return the figures of a run that was stopped, as a sentence."""
        looked_at, queued = plural(self._states.total(), "place"), plural(self._sums["queued"], "request")
        return f"{looked_at} looked at, {queued} queued; the next run looks at the others"

    def notes(self) -> list[str]:
        """Return notes about places that only a person can help."""
        refused = self._states["refused"]
        if not refused:
            return []
        they_are, each = ("it is", "") if refused == 1 else ("they are", " for each")
        return [f"{plural(refused, 'place')} cannot be compacted as {they_are}: status has a finding{each}"]


class CleanerReport(RunReport):
    """The report of a cleaner: a block per request, or per partition with litter, with the paths that went and stay.

    Of many with the same outcome only the first have a block, and the others are counted; each failed one has a block.
    """

    summary = CleanerSummary

    def _count(self, entry: Entry) -> None:
        for name in ("bytes_removed", "bytes_moved"):
            self._sums[name] += entry[name]
        for path in entry["removed"]:
            self._sums["paths_removed" if path["moved_to"] is None else "paths_moved"] += 1

    def totals(self) -> dict[str, Any]:
        return {
            "requests": self._states.total(),
            "succeeded": self._states["succeeded"],
            "bytes_removed": self._sums["bytes_removed"],
            "bytes_moved": self._sums["bytes_moved"],
        }

    def _show(self, entry: Entry) -> None:
        self._shown.add(
            None if entry["state"] in ("failed", "conflict") else entry["state"],
            lambda: "\n".join(cleaning_lines(entry, dry_run=self._dry_run)),
        )

    def _text(self) -> Iterator[str]:
        if self.is_empty:
            yield "Nothing to clean."
            return
        sums = self._sums
        paths, size = plural(sums["paths_removed"], "path"), human_bytes(sums["bytes_removed"])
        text = f"{plural(self._states.total(), 'place')}: {by_state(self._states)}; {paths}, {size}"
        text = f"Dry run, nothing was changed. {text} would go" if self._dry_run else f"{text} removed"
        if sums["paths_moved"]:
            moved, size = plural(sums["paths_moved"], "path"), human_bytes(sums["bytes_moved"])
            text += f"; {moved}, {size} moved to the trash"
        yield from _with_summary(text, self._shown)

    def when_stopped(self) -> str:
        """Return the outcomes of the requests of a run that was stopped, as a sentence."""
        return f"of the requests {by_state(self._states) or 'none has ended'}; the next run goes on with the others"


def _with_summary(summary: str, blocks: First) -> Iterator[str]:
    """Yield blocks with an empty line between them, and their summary, which follows a single block."""
    parts, text = [*blocks.items(), *blocks.others()], "\n".join(wrapped(summary, "", "    "))
    for number, part in enumerate([text, *parts] if len(parts) > 1 else [*parts, text]):
        yield f"\n\n{part}" if number else part
