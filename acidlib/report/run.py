"""What a run tells at its end, gathered entry by entry while it goes on, in little memory however many there are.

The entries of its JSON document are the source: totals, text and page are made of them.
"""

from __future__ import annotations

import codecs
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

from acidlib.report.page import CleanerSummary, CompactionsSummary, InitiatorSummary, Page, Summary
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

Item = TypeVar("Item")
_PLACES_SHOWN = 20


class RunReport(ABC):
    """The document of a run, and the text or page that is made of it.

    Each kind of job counts entries for its totals and its exit status, and says what of an entry is text.
    """

    summary: ClassVar[type[Summary]]
    """What a page is made by."""

    def __init__(self, about: Callable[[], dict[str, Any]], *, as_json: bool = False, has_page: bool = False) -> None:
        """Gather a document; `about` gives the fields before the entries when all is done."""
        self._about = cache(about)
        self._as_json = as_json
        self._has_page = has_page
        self._page = self.summary()
        self._compressor = zlib.compressobj(level=1)
        self._kept: list[bytes] = []
        self._is_empty = True

    @abstractmethod
    def totals(self) -> dict[str, Any]:
        """Return `totals` of the JSON document."""

    @abstractmethod
    def _count(self, entry: Entry) -> None:
        """Count one more entry."""

    @abstractmethod
    def _show(self, entry: Entry) -> None:
        """Keep what of an entry is text."""

    @abstractmethod
    def _text(self) -> Iterator[str]:
        """Return the text for people, piece by piece."""

    def add(self, entry: Entry) -> None:
        """Add one more entry."""
        self._count(entry)
        if self._has_page:
            self._page.add(entry)
        if not self._as_json:
            self._show(entry)
            return
        text = json_text({"entries": [entry]})
        start, end = text.index("\n    {"), text.rindex("\n  ]")
        separator = "" if self._is_empty else ","
        self._is_empty = False
        self._keep(self._compressor.compress(f"{separator}{text[start:end]}".encode()))

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._kept.append(piece)

    def pieces(self, notes: Sequence[str]) -> Iterator[str]:
        """Return what is written to standard output, piece by piece, without a line break at the end. Ask once."""
        return self._json(notes) if self._as_json else self._text()

    def _json(self, notes: Sequence[str]) -> Iterator[str]:
        """Return the document, as `json_text` writes one."""
        entries = self.summary.entries
        whole = json_text({**self._about(), entries: [], "totals": self.totals(), "notes": list(notes)})
        if self._is_empty:
            yield whole
            return
        before, empty, after = whole.partition(f'\n  "{entries}": []')
        yield before + empty.removesuffix("]")
        self._keep(self._compressor.flush())
        decompressor, decoder = zlib.decompressobj(), codecs.getincrementaldecoder("utf-8")()
        for piece in self._kept:
            yield decoder.decode(decompressor.decompress(piece))
        yield "\n  ]" + after

    def page(self, notes: Sequence[str]) -> Page:
        """Return the page, if one was asked for at first."""
        return self._page.page({**self._about(), "totals": self.totals(), "notes": list(notes)})


class CompactionsReport(RunReport):
    """The report of a minor or major compaction: a block for each place.

    A dry run also lists per bucket file which stripes would be copied and rewritten, how many bytes, and why.
    Of many places that ended alike the first have a block and the others are counted; each that failed has one.
    """

    summary = CompactionsSummary

    def __init__(self, about: Callable[[], dict[str, Any]], *, dry_run: bool, **forms: bool) -> None:
        super().__init__(about, **forms)
        self._dry_run = dry_run
        self._blocks: First[str] = First()
        self._states: Counter[str] = Counter()
        self._figures: Counter[str] = Counter()
        self._has_figures = self._has_unverified = False

    def _count(self, entry: Entry) -> None:
        self._states[entry["state"]] += 1
        self._has_figures = self._has_figures or entry["files"] is not None
        self._has_unverified = self._has_unverified or entry["unverified"]
        for figure in FIGURES:
            self._figures[figure] += entry[figure] or 0

    def totals(self) -> dict[str, Any]:
        states = {outcome.value: self._states[outcome.value] for outcome in COMPACTION_OUTCOMES}
        return {"compactions": self._states.total(), "states": states} | {name: self._figures[name] for name in FIGURES}

    def _show(self, entry: Entry) -> None:
        is_bad = entry["state"] in ("failed", "conflict") or entry["unverified"]
        self._blocks.add(
            None if is_bad else entry["state"], lambda: "\n".join(compaction_lines(entry, dry_run=self._dry_run))
        )

    def _text(self) -> Iterator[str]:
        totals = self.totals()
        if not totals["compactions"]:
            yield "Nothing to compact."
            return
        text = f"{plural(totals['compactions'], 'compaction')}: {by_state(totals['states'])}"
        if self._has_figures:
            copied, rewritten = ("to copy", "to rewrite") if self._dry_run else ("copied", "rewritten")
            text += (
                f"; {plural(totals['rows_in'], 'row')} in, {totals['rows_deleted']:,} deleted,"
                f" {totals['rows_aborted']:,} aborted, {totals['rows_out']:,} out;"
                f" {human_bytes(totals['bytes_copied'])} {copied},"
                f" {human_bytes(totals['bytes_rewritten'])} {rewritten}"
            )
        yield from _with_summary(f"Dry run, nothing was changed. {text}" if self._dry_run else text, self._blocks)

    def exit_status(self, *, is_named: bool) -> int:
        """Return 0 where all is done, already compact, refused or skipped; 1 when the only named table failed or
        conflicts; 3 when some of several did, or a verification did not end well.
        """
        if self._has_unverified:
            return EXIT_SOME_FAILED
        if not self._states["failed"] + self._states["conflict"]:
            return EXIT_DONE
        return EXIT_NOT_DONE if is_named and self._states.total() == 1 else EXIT_SOME_FAILED


class InitiatorReport(RunReport):
    """The report of an initiator: a table of the places that were looked at, with reason and threshold below each.

    Of many places that are decided alike the first are listed and the others counted; each that failed is listed.
    """

    summary = InitiatorSummary

    def __init__(self, about: Callable[[], dict[str, Any]], **forms: bool) -> None:
        super().__init__(about, **forms)
        self._entries: First[Entry] = First()
        self._outcomes: Counter[str] = Counter()
        self._due: Counter[str] = Counter()
        self._queued = 0

    def _count(self, entry: Entry) -> None:
        self._queued += entry["queued"] is not None
        self._outcomes[entry["outcome"]] += 1
        if entry["outcome"] == "due":
            self._due[entry["type"]] += 1

    def totals(self) -> dict[str, Any]:
        return {
            "looked_at": self._outcomes.total(),
            "queued": self._queued,
            "refused": self._outcomes["refused"],
            "held_back": self._outcomes["held back"],
            "failed": self._outcomes["failed"],
        }

    def _show(self, entry: Entry) -> None:
        outcome = entry["outcome"]
        kind = f"for a {entry['type']} compaction" if outcome == "due" else outcome
        self._entries.add(None if outcome == "failed" else kind, lambda: entry)

    def _text(self) -> Iterator[str]:
        if not self._outcomes:
            yield "Nothing to look at: no table was found."
            return
        due = by_state(dict(sorted(self._due.items()))) or "none to compact"
        others = [one.value for one in DECISION_OUTCOMES if one is Outcome.LEFT_ALONE or self._outcomes[one.value]]
        counts = [f"{self._outcomes[one]:,} {one}" for one in others if one != "due"]
        looked_at, queued = plural(self._outcomes.total(), "place"), plural(self._queued, "request")
        summary = f"{looked_at} looked at: {', '.join([due, *counts])}; {queued} queued"
        yield "\n".join([*wrapped(summary), "", *decision_lines(self._entries.items()), *self._entries.others()])

    def when_stopped(self) -> str:
        """Return what has become of how many places of a run that was stopped."""
        looked_at, queued = plural(self._outcomes.total(), "place"), plural(self._queued, "request")
        return f"{looked_at} looked at, {queued} queued; the next run looks at the others"

    def notes(self) -> list[str]:
        """Return what a person has to see to, as no run does."""
        refused = self._outcomes["refused"]
        if not refused:
            return []
        is_one = refused == 1
        what = f"{plural(refused, 'place')} cannot be compacted as {'it is' if is_one else 'they are'}"
        return [f"{what}: status has a finding{'' if is_one else ' for each'}"]

    def exit_status(self) -> int:
        """Return 3 where anything failed that may go well the next time, else 0."""
        return EXIT_SOME_FAILED if self._outcomes["failed"] else EXIT_DONE


class CleanerReport(RunReport):
    """The report of a cleaner: a block per request, or per partition with litter: what went, what stays, and why.

    Of many that ended alike the first have a block and the others are counted; each that failed has one.
    """

    summary = CleanerSummary

    def __init__(self, about: Callable[[], dict[str, Any]], *, dry_run: bool, **forms: bool) -> None:
        super().__init__(about, **forms)
        self._dry_run = dry_run
        self._blocks: First[str] = First()
        self._states: Counter[str] = Counter()
        self._sums: Counter[str] = Counter()

    def _count(self, entry: Entry) -> None:
        self._states[entry["state"]] += 1
        for name in ("bytes_removed", "bytes_moved"):
            self._sums[name] += entry[name]
        for one in entry["removed"]:
            self._sums["paths_removed" if one["moved_to"] is None else "paths_moved"] += 1

    def totals(self) -> dict[str, Any]:
        return {
            "requests": self._states.total(),
            "succeeded": self._states["succeeded"],
            "bytes_removed": self._sums["bytes_removed"],
            "bytes_moved": self._sums["bytes_moved"],
        }

    def _show(self, entry: Entry) -> None:
        self._blocks.add(
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
        yield from _with_summary(text, self._blocks)

    @property
    def is_empty(self) -> bool:
        """True where there was nothing to clean."""
        return not self._states

    def when_stopped(self) -> str:
        """Return what has become of how many requests of a run that was stopped."""
        told = by_state(self._states) or "none has ended"
        return f"of the requests {told}; what is not removed waits for the next run"

    def exit_status(self) -> int:
        """Return 3 where anything failed or conflicts, else 0."""
        return EXIT_SOME_FAILED if self._states["failed"] or self._states["conflict"] else EXIT_DONE


def _with_summary(summary: str, blocks: First[str]) -> Iterator[str]:
    """Yield blocks with an empty line between them, and their summary: before several, behind a single one."""
    parts, text = [*blocks.items(), *blocks.others()], "\n".join(wrapped(summary, "", "    "))
    for number, part in enumerate([text, *parts] if len(parts) > 1 else [*parts, text]):
        yield f"\n\n{part}" if number else part


class First(Generic[Item]):
    """The first few items of each kind, and the number of others; of no kind (None) all."""

    def __init__(self) -> None:
        self._counts: Counter[str | None] = Counter()
        self._kept: list[tuple[str | None, int, Item]] = []

    def add(self, kind: str | None, item: Callable[[], Item]) -> None:
        """Add one more; `item` makes it, if it may be shown."""
        self._counts[kind] += 1
        number = self._counts[kind]
        if kind is None or number <= _PLACES_SHOWN + 1:
            self._kept.append((kind, number, item()))

    def items(self) -> list[Item]:
        """Return those that are shown, of no kind first, else as they came. One is never left out alone."""
        shown = [
            (kind, item)
            for kind, number, item in self._kept
            if kind is None or number <= _PLACES_SHOWN or self._counts[kind] == number
        ]
        return [item for kind, item in sorted(shown, key=lambda one: one[0] is not None)]

    def others(self) -> list[str]:
        """Return a line for each kind of which some are not shown."""
        more = [(kind, count - _PLACES_SHOWN) for kind, count in self._counts.items() if kind is not None]
        return [f"and {rest:,} more {kind}; --output json tells of each" for kind, rest in more if rest > 1]
