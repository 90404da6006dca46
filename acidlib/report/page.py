"""Pages of jobs' documents for a browser: entries are summed one by one, and what they come to is drawn by a template.

A page needs nothing beside itself: no request is made for it, and no script runs in it.
"""

from __future__ import annotations

import enum
import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acidlib.errors import RefusedError, RetryError
from acidlib.report.text import Entry, holders_of, name_of, one_line
from acidlib.wording import age_words, duration_words, human_bytes, plural

if TYPE_CHECKING:
    from jinja2 import Template


class Tone(enum.Enum):
    """The meaning of a colour; the names are those of the style sheet."""

    PLAIN = "plain"
    FIRST = "first"
    SECOND = "second"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class Cell:
    """A text, a smaller one that belongs to it, and a bar: its share of a whole, or of the largest of its kind."""

    text: str
    detail: str = ""
    share: float | None = None
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A table. Columns named in `figures` are aligned to the right; `rest` says what of it is not shown."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    figures: frozenset[str]
    text: str = ""
    rest: str = ""

    @property
    def is_narrow(self) -> bool:
        """Room for another one beside it."""
        return len(self.columns) == 2 and self.columns[-1] in self.figures


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure, what it is, what else there is to say of it, and the parts that it consists of."""

    label: str
    value: str = ""
    detail: str = ""
    parts: Sequence[Cell] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Everything that stands on a page beside the facts, settings and notes that its document has."""

    document: Entry
    headline: str
    tone: Tone
    lead: str
    outcome: Figure | None = None
    attention: Sequence[Listing] = ()
    figures: Sequence[Figure] = ()
    charts: Sequence[Listing] = ()
    listings: Sequence[Listing] = ()


_MOST_SHOWN, _MOST_REASONS = 20, 10
_FEWEST_TO_COUNT = 21
"""Of fewer places a chart says nothing: the tables have each of them."""
_UNKNOWN = "-"
_NUMBERS = re.compile(r"\d[\d,._]*")
_UNTIL = re.compile(r" \(until [^)]*\)")
"""Until when something waits is another time at each place."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a listing of entries. What it takes of an entry is a field, or a function of it.

    bar  the field that bars compare with the largest
    """

    title: str
    text: str | Callable[[Entry], str]
    detail: str | Callable[[Entry], str] = lambda _: ""
    tone: Tone | Callable[[Entry], Tone] = Tone.PLAIN
    bar: str | None = None
    is_figure: bool = False

    def cells(self, entries: Sequence[Entry]) -> list[Cell]:
        """Return the cells of entries, in their order."""
        sizes = [None if self.bar is None else one[self.bar] for one in entries]
        largest = max((size for size in sizes if size), default=0)
        return [
            Cell(
                self.text(one) if callable(self.text) else one[self.text],
                self.detail(one) if callable(self.detail) else one[self.detail] or "",
                None if size is None or not largest else size / largest,
                self.tone(one) if callable(self.tone) else self.tone,
            )
            for one, size in zip(entries, sizes, strict=True)
        ]


def _number(title: str, field: str, words: Callable[[Any], str] = "{:,}".format, tone: Tone = Tone.PLAIN) -> _Column:
    """Return a column of the figures of a field; one with a tone has bars."""
    bar = None if tone is Tone.PLAIN else field
    text = partial(_known, field=field, words=words)
    return _Column(title, text, tone=tone, bar=bar, is_figure=True)


def _known(entry: Entry, field: str, words: Callable[[Any], str]) -> str:
    return _UNKNOWN if entry[field] is None else words(entry[field])


def _listing(
    title: str, entries: Sequence[Entry], *columns: _Column, of: int, noun: str = "place", text: str = ""
) -> list[Listing]:
    """Return a table of those entries that are shown of so many; none without any."""
    if not entries:
        return []
    rest = of - len(entries)
    return [
        Listing(
            title=title,
            columns=tuple(column.title for column in columns),
            rows=list(zip(*(column.cells(entries) for column in columns), strict=True)),
            figures=frozenset(column.title for column in columns if column.is_figure),
            text=text,
            rest=f"and {plural(rest, f'more {noun}')}; --output json tells of each" if rest else "",
        )
    ]


class Largest:
    """The largest few of the entries that are added, of equal ones the earlier first, and how many there are."""

    def __init__(self, most: int = _MOST_SHOWN) -> None:
        self._most = most
        self._kept: list[tuple[float, Entry]] = []
        self.count = 0

    def add(self, size: float, entry: Entry) -> None:
        """Add one."""
        self.count += 1
        self._kept.append((size, entry))
        if len(self._kept) > 2 * self._most:
            self._sort()

    def _sort(self) -> None:
        self._kept = sorted(self._kept, key=lambda one: one[0], reverse=True)[: self._most]

    @property
    def entries(self) -> list[Entry]:
        """Those that are kept, the largest first."""
        self._sort()
        return [entry for _, entry in self._kept]

    def listing(self, title: str, *columns: _Column, text: str = "") -> list[Listing]:
        """Return a table of them; none without any."""
        return _listing(title, self.entries, *columns, of=self.count, text=text)


class _Reasons:
    """Reasons for which things were as they were: those that differ in the place alone are one.

    by_number  those that differ in numbers are not: it matters which transaction one waits for
    """

    def __init__(self, *, by_number: bool = False) -> None:
        self._by_number = by_number
        self._kinds: dict[str, dict[str, Any]] = {}

    def add(self, reason: str, entry: Entry, *, amount: float = 0) -> None:
        """Add one of a place; `amount` is what it is about, in bytes for example."""
        for known in (entry["location"], name_of(entry)):
            reason = reason.replace(known, "the place") if known else reason
        key = reason if self._by_number else _NUMBERS.sub("0", reason)
        kind = self._kinds.setdefault(key, {"reason": reason, "place": name_of(entry), "count": 0, "amount": 0})
        kind["count"] += 1
        kind["amount"] += amount

    def listing(
        self, title: str, *, what: str = "Places", amount: str = "", text: str = "", tone: Tone = Tone.QUIET
    ) -> list[Listing]:
        """Return a table of the most frequent ones, or those of the largest amount where that is named."""
        size = "amount" if amount else "count"
        kinds = sorted(self._kinds.values(), key=lambda one: (-one[size], one["reason"]))
        counts = _number(what, "count", tone=tone)
        amounts = (_number(amount, "amount", _size, tone), replace(counts, bar=None)) if amount else (counts,)
        reason = _Column("Reason", "reason", _example)
        return _listing(title, kinds[:_MOST_REASONS], reason, *amounts, of=len(kinds), noun="reason", text=text)


def _example(kind: Entry) -> str:
    return f"for example {kind['place']}" if kind["count"] > 1 else str(kind["place"])


def _parts(parts: Iterable[tuple[str, str, float, Tone]]) -> list[Cell]:
    """Return the parts of a whole that are not nothing, of their labels, values, amounts and colours."""
    some = [one for one in parts if one[2] > 0]
    whole = sum(amount for _, _, amount, _ in some)
    return [Cell(value, label, amount / whole, tone) for label, value, amount, tone in some]


def _outcome(
    label: str, counts: Mapping[str, int], tones: Mapping[str, Tone], words: Mapping[str, str] | None = None
) -> Figure | None:
    """Return how many places ended in which state, in the order of the colours; None without any."""
    named = {state: (words or {}).get(state, state) for state in tones}
    parts = _parts((named[state], f"{counts[state]:,}", counts[state], tone) for state, tone in tones.items())
    return Figure(label, parts=parts) if parts else None


def _bars(
    title: str, text: str, what: str, series: Sequence[tuple[str, Tone]], rows: Sequence[tuple[str, Sequence[float]]]
) -> Listing:
    """Return a chart: each row has a label and a figure of each series; bars are through the largest of all."""
    largest = max(max(figures) for _, figures in rows) or 1
    tones = [tone for _, tone in series]
    return Listing(
        title=title,
        columns=(what, *(name for name, _ in series)),
        rows=[
            (
                Cell(label),
                *(
                    Cell(f"{figure:,.10g}", "", figure / largest, tone)
                    for figure, tone in zip(figures, tones, strict=True)
                ),
            )
            for label, figures in rows
        ],
        figures=frozenset(name for name, _ in series),
        text=text,
    )


def _histogram(
    title: str, text: str, what: str, steps: Mapping[int, str], *series: tuple[str, Counter[int], Tone]
) -> Listing:
    """Return a chart of how many values lie from each step to the next, without series and steps at the ends that have
    none. `steps` has labels by the least value; series are names, how many there are of each value, and colours.
    """
    series = tuple(one for one in series if one[1])
    least = list(steps)
    counts = [[0.0] * len(steps) for _ in series]
    for spread, (_, values, _) in zip(counts, series, strict=True):
        for value, count in values.items():
            spread[bisect_right(least, value) - 1] += count
    used = [number for number in range(len(steps)) if any(spread[number] for spread in counts)]
    rows = [(label, [spread[number] for spread in counts]) for number, label in enumerate(steps.values())]
    return _bars(title, text, what, [(name, tone) for name, _, tone in series], rows[used[0] : used[-1] + 1])


def _deltas_chart(*series: tuple[str, Counter[int], Tone]) -> Listing:
    steps = {0: "0", 1: "1"} | {2**n: f"{2**n} to {2 ** (n + 1) - 1}" for n in range(1, 8)} | {256: "256 or more"}
    text = "A reader merges all deltas of a place each time it reads it."
    return _histogram("Deltas per place", text, "Deltas of a place", steps, *series)


def _short(entry: Entry) -> Entry:
    """Return an entry without what it lists, which may be long."""
    return {name: value for name, value in entry.items() if not isinstance(value, list | dict)}


def _size(size: float | None) -> str:
    return _UNKNOWN if size is None else human_bytes(int(size))


def _precise(seconds: float) -> str:
    """Return a duration, with a tenth of a second where that matters."""
    return f"{seconds:.1f}".removesuffix(".0") + " s" if seconds < 10 else duration_words(seconds)


def _when(document: Entry) -> str:
    """Return when the run was, in UTC, and how long it took."""
    start, end = document["start_ms"], document["end_ms"]
    first, last = (datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") for ms in (start, end))
    return f"{first} to {last.removeprefix(first[:11])} UTC, {_precise(max(0.0, (end - start) / 1000))}"


_PLACE, _WHY = _Column("Place", name_of, "location"), _Column("Why", "reason")


_LEFT = ("already compact", "refused", "skipped")
_TOO_MANY_TO_READ = 5
"""Of more failures than these what they have in common is named first."""
_SLICES = 12
_SHORT_RUN = 60
"""Seconds; what a shorter run had under way at a time says nothing."""
_SECONDS = {
    0: "under 1 s",
    1: "1 to 2 s",
    2: "2 to 5 s",
    5: "5 to 10 s",
    10: "10 to 30 s",
    30: "30 to 60 s",
    60: "1 to 5 min",
    300: "5 to 15 min",
    900: "15 to 60 min",
    3600: "an hour or more",
}
_COMPACTION_TONES = {
    "planned": Tone.FIRST,
    "ready for cleaning": Tone.GOOD,
    "succeeded": Tone.GOOD,
    "already compact": Tone.QUIET,
    "refused": Tone.QUIET,
    "failed": Tone.BAD,
    "conflict": Tone.WARNING,
    "skipped": Tone.QUIET,
}


class CompactionsSummary:
    """Sums over the entries of a minor or major compaction."""

    entries = "compactions"

    def __init__(self) -> None:
        self._bad, self._slow, self._heavy = Largest(), Largest(), Largest()
        self._why_bad, self._left, self._done, self._actions, self._notes = (_Reasons() for _ in range(5))
        self._before: Counter[int] = Counter()
        self._after: Counter[int] = Counter()
        self._took: Counter[int] = Counter()
        self._spans: list[tuple[float, float]] = []
        self._sums: Counter[str] = Counter()

    def add(self, entry: Entry) -> None:
        """Add one compaction."""
        state, seconds, sums, place = entry["state"], entry["seconds"], self._sums, _short(entry)
        if state in ("failed", "conflict") or entry["unverified"]:
            self._bad.add(state == "failed", place)
            sums["held"] += state == "refused"
            self._why_bad.add(entry["reason"], entry)
        else:
            (self._left if state in _LEFT else self._done).add(entry["reason"], entry)
        if entry["files"] is not None:
            self._heavy.add((entry["bytes_copied"] or 0) + (entry["bytes_rewritten"] or 0), place)
            for action in (action for file in entry["files"] for action in file["actions"]):
                verb = "copied" if action["action"] == "copy" else "rewritten"
                dropped = action["deleted"] or action["aborted"]
                why = "rows of it were deleted or rolled back" if dropped else action["reason"]
                self._actions.add(f"{verb}: {why}", entry, amount=action["bytes"])
            self._before[entry["deltas_before"] or 0] += 1
            self._after[entry["deltas_after"] or 0] += 1
            if entry["bytes_out"] is not None:
                sums["bytes_in"] += entry["bytes_in"] or 0
                sums["bytes_out"] += entry["bytes_out"]
        if verification := entry["verification"]:
            sums["verified"] += 1
            sums["verified rows"] += verification["rows"] or 0
            sums["verified buckets"] += len(verification["buckets"])
            sums["buckets"] += verification["of_buckets"]
        if seconds is not None and state not in _LEFT:
            self._slow.add(seconds, place)
            self._took[int(seconds)] += 1
            sums["ms"] += round(seconds * 1000)
            sums["task_ms"] += round((entry["rewrite_seconds"] or 0) * 1000)
            if entry["start_ms"] is not None:
                self._spans.append((entry["start_ms"] / 1000, seconds))
        for note in entry["notes"]:
            self._notes.add(note, entry)

    def page(self, document: Entry) -> Page:
        """Return the page of a document, whose entries were added."""
        states = document["totals"]["states"]
        verified = 0 < states["ready for cleaning"] + states["succeeded"] == self._sums["verified"]
        words = {
            "planned": "to compact",
            "ready for cleaning": "compacted",
            "succeeded": "compacted, nothing to clean",
            "conflict": "in conflict",
        }
        slow = "From the claim of a place to its publication; inside the tasks is the sum of tasks side by side."
        heavy = self._heavy.listing("Places of most bytes", *_COMPACTED)
        return Page(
            document=document,
            headline=self._headline(document["totals"]["compactions"], states),
            tone=Tone.BAD if self._bad.count else Tone.GOOD,
            lead=_when(document) + ("; all that was compacted is verified" if verified else ""),
            outcome=_outcome("Places by outcome", states, _COMPACTION_TONES, words),
            attention=self._attention(),
            figures=[*self._figures(document["totals"], is_dry=bool(states["planned"])), *self._times(document)],
            charts=self._charts(document),
            listings=[
                *self._slow.listing("Slowest places", *_COMPACTED, text=slow),
                *(heavy if self._heavy.count > self._slow.count else ()),
                *self._actions.listing("Why bytes were copied or rewritten", what="Actions", amount="Bytes"),
                *self._done.listing("Why places were compacted", tone=Tone.GOOD),
                *self._left.listing("Why places were left as they were"),
                *self._notes.listing("What is to be known of the inputs"),
            ],
        )

    def _headline(self, places: int, states: Entry) -> str:
        done, held = states["ready for cleaning"] + states["succeeded"], self._sums["held"]
        if not places:
            return "Nothing to compact"
        if states["planned"]:
            text = f"{states['planned']:,} of {plural(places, 'place')} would be compacted"
        elif done or held or states["failed"] or states["conflict"]:
            text = f"{done:,} of {plural(places, 'place')} compacted"
        elif states["already compact"] == places:
            return f"{plural(places, 'place is', 'places are')} already compact"
        else:
            return f"Nothing was compacted at {plural(places, 'place')}"
        text += f", {states['failed']:,} failed" if states["failed"] else ""
        text += f", {states['conflict']:,} in conflict" if states["conflict"] else ""
        return text + (f", {held:,} held for a result that was not verified" if held else "")

    def _attention(self) -> list[Listing]:
        has_conflicts = any(one["state"] == "conflict" for one in self._bad.entries)
        return [
            *(self._why_bad.listing("Why they failed", tone=Tone.BAD) if self._bad.count > _TOO_MANY_TO_READ else ()),
            *self._bad.listing(
                "Places that failed or where another was at work" if has_conflicts else "Places that failed",
                _PLACE,
                _Column("State", "state", tone=lambda one: _COMPACTION_TONES[one["state"]]),
                _WHY,
                text="A conflict is another run or writer at the same place: the next run tries again."
                if has_conflicts
                else "",
            ),
        ]

    def _figures(self, totals: Entry, *, is_dry: bool) -> Iterator[Figure]:
        sums = self._sums
        before, after = (sum(deltas * count for deltas, count in of.items()) for of in (self._before, self._after))
        if before or after:
            worked = plural(self._before.total(), "place")
            yield Figure(
                "Deltas to merge for a reader",
                f"{before:,} → {after:,}",
                f"at {worked}{', as is expected' if is_dry else ''}",
            )
        copied, rewritten = totals["bytes_copied"], totals["bytes_rewritten"]
        if copied or rewritten:
            yield Figure(
                "Bytes to copy or rewrite" if is_dry else "Bytes copied or rewritten",
                _size(copied + rewritten),
                parts=_parts(
                    (
                        ("to copy as they are" if is_dry else "copied as they are", _size(copied), copied, Tone.FIRST),
                        ("to rewrite" if is_dry else "rewritten", _size(rewritten), rewritten, Tone.SECOND),
                    )
                ),
            )
        if sums["bytes_in"]:
            won = sums["bytes_in"] - sums["bytes_out"]
            yield Figure(
                "Space won once cleaned" if won >= 0 else "More space needed",
                _size(abs(won)),
                f"{_size(sums['bytes_in'])} became {_size(sums['bytes_out'])}",
            )
        if totals["rows_in"]:
            gone = totals["rows_deleted"] + totals["rows_aborted"]
            yield Figure(
                "Rows kept",
                f"{totals['rows_out']:,}",
                f"{gone:,} of {totals['rows_in']:,} were deleted or rolled back",
            )
        if sums["verified"]:
            rows = plural(sums["verified rows"], "row") if sums["verified rows"] else "what was compared"
            buckets = f"{sums['verified buckets']:,} of {plural(sums['buckets'], 'bucket')}"
            yield Figure(
                "Verified by a second reader",
                plural(sums["verified"], "place"),
                f"{rows} in {buckets} read as before",
            )

    def _times(self, document: Entry) -> Iterator[Figure]:
        def figure(label: str, seconds: float, *parts: tuple[str, float, Tone]) -> Figure:
            shown = _parts((what, _precise(part), part, tone) for what, part, tone in parts)
            return Figure(label, _precise(seconds), parts=shown)

        if self._spans:
            began, ended = document["start_ms"] / 1000, document["end_ms"] / 1000
            first = min(start for start, _ in self._spans)
            last = max(start + seconds for start, seconds in self._spans)
            yield figure(
                "Time of the run",
                ended - began,
                ("until the first place was begun", first - began, Tone.QUIET),
                ("while places were under way", last - first, Tone.FIRST),
                ("after the last place", ended - last, Tone.SECOND),
            )
        inside, all_of_it = self._sums["task_ms"] / 1000, self._sums["ms"] / 1000
        if inside < all_of_it:
            yield figure(
                "Time of all places, side by side",
                all_of_it,
                ("inside tasks", inside, Tone.FIRST),
                ("for claims, listings, Spark, free slots, publication", all_of_it - inside, Tone.QUIET),
            )

    def _charts(self, document: Entry) -> list[Listing]:
        charts = []
        if self._before.total() >= _FEWEST_TO_COUNT:
            before, after = ("Places before", self._before, Tone.SECOND), ("Places after", self._after, Tone.FIRST)
            charts.append(_deltas_chart(before, after))
        if self._took.total() >= _FEWEST_TO_COUNT:
            text = "From the claim of a place to its publication."
            places = ("Places", self._took, Tone.FIRST)
            charts.append(_histogram("Time per place", text, "Time of a place", _SECONDS, places))
            began, ended = document["start_ms"] / 1000, document["end_ms"] / 1000
            if ended - began >= _SHORT_RUN:
                charts.append(self._under_way(began, (ended - began) / _SLICES))
        return charts

    def _under_way(self, began: float, width: float) -> Listing:
        """Return how many places were worked on at a time, in each slice of the run."""
        busy = [0.0] * _SLICES
        for start, seconds in self._spans:
            low, high = start - began, start - began + seconds
            for number in range(max(0, int(low / width)), min(_SLICES, int(high / width) + 1)):
                busy[number] += max(0.0, min(high, (number + 1) * width) - max(low, number * width)) / width
        ends = [_precise(number * width) for number in range(_SLICES + 1)]
        return _bars(
            "Places under way at a time",
            "On average, in each twelfth of the run.",
            "Time since the start",
            [("Places", Tone.FIRST)],
            [(f"{ends[number]} to {ends[number + 1]}", [round(busy[number], 1)]) for number in range(_SLICES)],
        )


def _deltas(entry: Entry) -> str:
    before, after = entry["deltas_before"], entry["deltas_after"]
    return _UNKNOWN if before is None else f"{before:,} → {'?' if after is None else f'{after:,}'}"


_COMPACTED = (
    _Column(
        "Place",
        name_of,
        lambda one: f"{one['state']}: " * (one["state"] in ("failed", "conflict")) + one["location"],
        lambda one: _COMPACTION_TONES[one["state"]],
    ),
    _number("Time", "seconds", _precise, Tone.FIRST),
    _number("Inside the tasks", "rewrite_seconds", _precise),
    _Column("Deltas", _deltas, is_figure=True),
    _number("Read", "bytes_in", _size),
    _number("Copied", "bytes_copied", _size),
    _number("Rewritten", "bytes_rewritten", _size),
)


class InitiatorSummary:
    """Sums over the entries of an initiator."""

    entries = "decisions"

    def __init__(self) -> None:
        self._bad, self._refused, self._due = Largest(), Largest(), Largest()
        self._left, self._thresholds = _Reasons(), _Reasons()
        self._counts: Counter[str] = Counter()
        self._deltas_due: Counter[int] = Counter()
        self._deltas_left: Counter[int] = Counter()
        self._sums: Counter[str] = Counter()

    def add(self, entry: Entry) -> None:
        """Add one decision."""
        outcome, deltas = entry["outcome"], entry["deltas"]
        self._counts[entry["type"] if outcome == "due" else outcome] += 1
        if outcome == "failed":
            self._bad.add(0, entry)
            return
        if deltas is not None:
            (self._deltas_due if outcome == "due" else self._deltas_left)[deltas] += 1
        for name in ("base_bytes", "delta_bytes", "deltas"):
            self._sums[name] += entry[name] or 0
        if outcome == "due":
            self._due.add(deltas or 0, entry)
            self._thresholds.add(entry["threshold_key"] or entry["reason"], entry)
        elif outcome == "left alone":
            self._left.add(entry["reason"], entry)
        else:
            self._refused.add(outcome == "held back", entry)

    def page(self, document: Entry) -> Page:
        """Return the page of a document, whose entries were added."""
        counts, totals, sums = self._counts, document["totals"], self._sums
        headline = f"{counts['major'] + counts['minor']:,} of {plural(totals['looked_at'], 'place')} to compact"
        if not totals["looked_at"]:
            headline = "No table was found"
        elif totals["queued"]:
            headline += f", {plural(totals['queued'], 'request')} queued"
        for name, words in (("refused", "refused"), ("held_back", "held back"), ("failed", "failed")):
            headline += f", {totals[name]:,} {words}" if totals[name] else ""
        tones = {
            "major": Tone.FIRST,
            "minor": Tone.SECOND,
            "left alone": Tone.QUIET,
            "refused": Tone.WARNING,
            "held back": Tone.WARNING,
            "failed": Tone.BAD,
        }
        figures, charts = [], []
        if sums["base_bytes"] or sums["delta_bytes"]:
            figures = [
                Figure("Deltas", f"{sums['deltas']:,}", "that readers merge, at all places"),
                Figure("Bytes in deltas", _size(sums["delta_bytes"])),
                Figure("Bytes in bases", _size(sums["base_bytes"])),
            ]
        if self._deltas_due.total() + self._deltas_left.total() >= _FEWEST_TO_COUNT:
            due = ("Places to compact", self._deltas_due, Tone.FIRST)
            charts = [_deltas_chart(due, ("Places left alone", self._deltas_left, Tone.QUIET))]
        return Page(
            document=document,
            headline=headline,
            tone=Tone.BAD if totals["failed"] else Tone.GOOD,
            lead=_when(document),
            outcome=_outcome("Places by decision", counts, tones),
            attention=[
                *self._bad.listing("Places that could not be looked at or queued", _PLACE, _WHY),
                *self._refused.listing(
                    "Places that cannot be compacted as they are, or failed too often", _PLACE, _WHY
                ),
            ],
            figures=figures,
            charts=charts,
            listings=[
                *self._due.listing(
                    "Places to compact, those of most deltas first",
                    _PLACE,
                    _Column(
                        "Decision",
                        "type",
                        lambda one: "" if one["queued"] is None else f"request {one['queued']}",
                    ),
                    _number("Deltas", "deltas", tone=Tone.FIRST),
                    _number("In deltas", "delta_bytes", _size),
                    _number("In the base", "base_bytes", _size),
                    _number("Ratio", "ratio", "{:.2f}".format),
                    _Column("Why", "reason", _threshold),
                ),
                *self._thresholds.listing("What decided", tone=Tone.FIRST),
                *self._left.listing("Why places were left alone"),
            ],
        )


def _threshold(entry: Entry) -> str:
    if entry["threshold_key"] is None or entry["threshold"] is None:
        return ""
    source = f", {entry['threshold_source']}" if entry["threshold_source"] else ""
    return f"{entry['threshold_key']} = {entry['threshold']:g}{source}"


class CleanerSummary:
    """Sums over the entries of a cleaner."""

    entries = "cleanings"

    def __init__(self) -> None:
        self._bad, self._waiting, self._freed = Largest(), Largest(), Largest()
        self._why, self._blocked = _Reasons(), _Reasons(by_number=True)
        self._states: Counter[str] = Counter()
        self._paths: Counter[str] = Counter()

    def add(self, entry: Entry) -> None:
        """Add one cleaning."""
        state, removed, blocked = entry["state"], entry["removed"], entry["blocked"]
        place = {**_short(entry), "bytes": entry["bytes_removed"] + entry["bytes_moved"]}
        self._states[state] += 1
        if state in ("failed", "conflict"):
            self._bad.add(state == "failed", place)
        elif blocked or state == "ready for cleaning":
            self._waiting.add(len(blocked), {**place, "paths": len(blocked)})
        # each says first what has to wait, then why
        waits = [why or path for path, _, why in (text.partition(": ") for text in blocked)]
        if state == "ready for cleaning" and not blocked:
            waits = [entry["reason"]]
        for why in waits:
            self._blocked.add(_UNTIL.sub("", why), entry)
        for one in removed:
            self._why.add(one["reason"], entry, amount=one["bytes"])
            self._paths["removed" if one["moved_to"] is None else "moved"] += 1
        if removed:
            self._freed.add(place["bytes"], {**place, "paths": len(removed)})

    def page(self, document: Entry) -> Page:
        """Return the page of a document, whose entries were added."""
        states, totals = self._states, document["totals"]
        tones = {
            "succeeded": Tone.GOOD,
            "planned": Tone.FIRST,
            "ready for cleaning": Tone.WARNING,
            "failed": Tone.BAD,
            "conflict": Tone.BAD,
        }
        words = {"succeeded": "cleaned", "planned": "to clean", "ready for cleaning": "wait"}
        waits = "What is obsolete and has to stay for now, by what it waits for."
        return Page(
            document=document,
            headline=self._headline(totals),
            tone=Tone.BAD if states["failed"] or states["conflict"] else Tone.GOOD,
            lead=_when(document),
            outcome=_outcome("Places by outcome", states, tones, words),
            attention=[
                *self._bad.listing("Places that could not be cleaned", _PLACE, _WHY),
                *self._blocked.listing("What waits for whom", what="Times", text=waits, tone=Tone.WARNING),
            ],
            figures=[*self._figures(totals)] if totals["requests"] else (),
            listings=[
                *self._waiting.listing(
                    "Places where something waits", _PLACE, _WHY, _number("Paths that stay", "paths")
                ),
                *self._why.listing("What went, and why", what="Paths", amount="Bytes", tone=Tone.GOOD),
                *self._freed.listing(
                    "Places where most went",
                    _PLACE,
                    _number("Bytes", "bytes", _size, Tone.GOOD),
                    _number("Paths", "paths"),
                    _Column("How it ended", "reason"),
                ),
            ],
        )

    def _headline(self, totals: Entry) -> str:
        states = self._states
        if not totals["requests"]:
            return "Nothing to clean"
        if states["planned"]:
            text = f"{_size(totals['bytes_removed'])} would go at {plural(states['planned'], 'place')}"
        else:
            text = f"{states['succeeded']:,} of {plural(totals['requests'], 'place')} cleaned"
            text += f", {_size(totals['bytes_removed'])} freed" if totals["bytes_removed"] else ""
        for state, one, many in (
            ("ready for cleaning", "waits", "wait"),
            ("failed", "failed", "failed"),
            ("conflict", "in conflict", "in conflict"),
        ):
            text += f", {plural(states[state], one, many)}" if states[state] else ""
        return text

    def _figures(self, totals: Entry) -> Iterator[Figure]:
        yield Figure(
            "Space that would be won" if self._states["planned"] else "Space won",
            _size(totals["bytes_removed"]),
            f"{plural(self._paths['removed'], 'directory', 'directories')} and files",
        )
        if self._paths["moved"]:
            detail = f"{plural(self._paths['moved'], 'path')}; takes space until the trash is emptied"
            yield Figure("Moved to the trash", _size(totals["bytes_moved"]), detail)
        if self._waiting.count:
            yield Figure("Places where something waits", f"{self._waiting.count:,}")


_LEVEL_TONES = {"ok": Tone.GOOD, "warning": Tone.WARNING, "error": Tone.BAD}
_REQUEST_TONES = {
    "initiated": Tone.FIRST,
    "working": Tone.SECOND,
    "ready for cleaning": Tone.WARNING,
    "failed": Tone.BAD,
    "succeeded": Tone.GOOD,
    "refused": Tone.QUIET,
}


class StatusSummary:
    """The tables of a status, the worst of which come first."""

    entries = "tables"

    def __init__(self) -> None:
        self._tables = Largest(30)

    def add(self, entry: Entry) -> None:
        """Add one table."""
        self._tables.add(0, entry)

    def page(self, document: Entry) -> Page:
        """Return the page of a document, whose tables were added."""
        totals, findings = document["totals"], document["findings"]
        levels = Counter(one["level"] for one in findings)
        wrong = " and ".join(plural(levels[level], level) for level in ("error", "warning") if levels[level])
        headline = f"{wrong or 'Nothing is wrong'} in {plural(self._tables.count, 'table')}"
        failed = next(one["count"] for one in totals["requests"] if one["state"] == "failed")
        kinds = Counter(one["trouble"] for one in findings).most_common()
        return Page(
            document=document,
            headline=headline + (f", {plural(failed, 'request')} failed" if failed else ""),
            tone=_LEVEL_TONES[document["level"]],
            lead=_when(document),
            attention=[
                *_listing(
                    "Findings",
                    findings[:_MOST_SHOWN],
                    _Column("What", "trouble", "level", lambda one: _LEVEL_TONES[one["level"]]),
                    _Column("Where", lambda one: name_of(one) or "all tables", "location"),
                    _Column(
                        "Why",
                        "reason",
                        lambda one: "" if one["setting"] is None else f"the limit is {one['setting']}",
                    ),
                    of=len(findings),
                    noun="finding",
                    text=", ".join(f"{count:,} {kind}" for kind, count in kinds),
                ),
                *_blockers(holders_of(document["blockers"])),
            ],
            figures=[*_status_figures(document)],
            listings=[*_worst_places(totals), *_tables(self._tables)],
        )


def _blockers(holders: Sequence[Entry]) -> list[Listing]:
    return _listing(
        "What waits for whom",
        holders[:_MOST_SHOWN],
        _Column("In the way", lambda one: f"{one['kind']} {one['id']}", lambda one: f"{one['user']} at {one['host']}"),
        _number("Since", "age", age_words),
        _number("Cleanings that wait", "cleanings", tone=Tone.WARNING),
        _Column("For example", name_of, lambda one: f"request {one['request_id']}"),
        of=len(holders),
        noun="holder",
        text="Open transactions and locks that keep requests from being cleaned.",
    )


def _status_figures(document: Entry) -> Iterator[Figure]:
    totals, txns, worst = document["totals"], document["transactions"], document["totals"]["most_deltas"]
    if totals["looked_at"] is not None:
        yield Figure("Places looked at", f"{totals['looked_at']:,}", f"of {totals['places'] or 0:,}")
        if worst:
            yield Figure("Most deltas", f"{worst[0]['deltas']:,}", name_of(worst[0]))
        yield Figure("Waits for cleaning", _size(totals["obsolete_bytes"]))
    if txns is not None:
        yield Figure("Open transactions", f"{txns['open']:,}", _holder(txns["oldest_open"]))
        yield Figure("Aborted transactions", f"{txns['aborted']:,}", _holder(txns["oldest_aborted"]))
    if totals["failed_in_a_row"] > 1:
        failed, place = totals["failed_in_a_row"], totals["failed_place"] or ""
        yield Figure("Failures in a row", f"{failed:,}", place)
    states = totals["requests"]
    if parts := _parts(
        (_state(one), f"{one['count']:,}", one["count"], _REQUEST_TONES.get(one["state"], Tone.PLAIN)) for one in states
    ):
        yield Figure("Requests by state", f"{sum(one['count'] for one in states):,}", parts=parts)


def _state(one: Entry) -> str:
    since = "" if one["oldest_age"] is None else f", the oldest for {age_words(one['oldest_age'])}"
    return f"{one['state']}{since}"


def _holder(one: Entry | None) -> str:
    if one is None:
        return ""
    since = "" if one["age"] is None else f", for {age_words(one['age'])}"
    return f"the oldest: {one['id']} of {one['user']} at {one['host']}{since}"


def _worst_places(totals: Entry) -> Iterator[Listing]:
    for title, most, column in (
        ("Places of most deltas", "most_deltas", _number("Deltas", "deltas", tone=Tone.FIRST)),
        ("Places of the worst ratio", "worst_ratio", _number("Deltas to base", "ratio", "{:.2f}".format, Tone.FIRST)),
        ("Places with most to clean", "most_obsolete", _number("Bytes", "obsolete_bytes", _size, Tone.FIRST)),
    ):
        yield from _listing(title, totals[most], _PLACE, column, of=len(totals[most]))


def _tables(tables: Largest) -> list[Listing]:
    def requests(one: Entry) -> str:
        return ", ".join(f"{some['count']:,} {some['state']}" for some in one["requests"] if some["count"]) or "none"

    def worst(most: str, figure: str, words: str) -> Callable[[Entry], str]:
        return lambda one: words.format(one[most][0][figure]) if one[most] else _UNKNOWN

    return _listing(
        "Tables, the worst first",
        tables.entries,
        _Column("Table", lambda one: f"{one['database']}.{one['table']}"),
        _Column(
            "Level",
            "level",
            lambda one: plural(one["findings"], "finding") if one["findings"] else "",
            lambda one: _LEVEL_TONES[one["level"]],
        ),
        _Column("Requests", requests),
        _Column("Most deltas", worst("most_deltas", "deltas", "{:,}"), is_figure=True),
        _Column("Worst ratio", worst("worst_ratio", "ratio", "{:.2f}"), is_figure=True),
        _number("To clean", "obsolete_bytes", _size, Tone.WARNING),
        _number("Aborted write ids", "aborted_write_ids"),
        of=tables.count,
        noun="table",
    )


Summary = CompactionsSummary | InitiatorSummary | CleanerSummary | StatusSummary
_SUMMARIES: Mapping[str, type[Summary]] = {
    "major_compact": CompactionsSummary,
    "minor_compact": CompactionsSummary,
    "initiator": InitiatorSummary,
    "cleaner": CleanerSummary,
    "status": StatusSummary,
}


def page_of(document: Entry) -> Page:
    """Return the page of a whole document. RefusedError for one of a job that has none."""
    if "error" in document:
        error = document["error"]
        lead = f"{error['kind']}: {error['message']}"
        return Page(document=document, headline="The run could not be done", tone=Tone.BAD, lead=lead)
    summary = summary_of(document["job"])
    for entry in document[summary.entries]:
        summary.add(entry)
    return summary.page(document)


def summary_of(job: str | None) -> Summary:
    """Return what makes a page of the entries of a job's document. RefusedError for a job that has none."""
    make = _SUMMARIES.get(job or "")
    if make is None:
        raise RefusedError(f"Cannot draw a report: because {job} has none")
    return make()


_HERE = Path(__file__).resolve().parent
_SEPARATORS = re.compile(r"(?<=[^ /][/.=,_])(?=[^/ ])")


def require_libraries() -> None:
    """Raise RefusedError where the library that draws a page is not installed."""
    if find_spec("jinja2") is None:
        raise RefusedError("Cannot write a report: jinja2 is not installed; pip install 'acidlib[report]' adds it.")


def require_writable(path: Path, *, what: str) -> None:
    """Raise RefusedError where no file can be made or replaced at a path, as far as that can be told before."""
    folder = path.parent
    try:
        if not folder.is_dir():
            reason = f"{folder} is no directory"
        elif not os.access(folder, os.W_OK | os.X_OK):
            reason = f"nothing may be written to {folder}"
        elif path.exists() and not path.is_file():
            reason = "it is there and is no file"
        else:
            return
    except OSError as error:
        reason = error.strerror or str(error)
    raise RefusedError(f"Cannot write {what} to {path}: because {reason}")


def html_of(page: Page) -> str:
    """Return a page as one HTML document. RefusedError where the library that draws it is not installed."""
    require_libraries()
    return _template().render(page=page, document=page.document)


@cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    def printable(value: Any) -> Any:
        """Return nothing that turns the direction of a line or cannot be written; what is marked as HTML stays."""
        return value if hasattr(value, "__html__") or not isinstance(value, str) else one_line(value)

    def breakable(text: str) -> Markup:
        """Return a name or path that may go on in another line behind one of its separators."""
        return Markup("<wbr>").join(escape(part) for part in _SEPARATORS.split(one_line(text)) if part)

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=printable,
    )
    environment.filters["breakable"] = breakable
    environment.globals["style"] = Markup((_HERE / "page.css").read_text(encoding="utf-8"))  # noqa: S704 - a file of ours
    return environment.get_template("page.html.j2")


def write_page(html: str, path: Path, *, unique: str) -> None:
    """Write a page as a whole or not at all. RetryError where it cannot be written; then what was there is still there.

    unique  belongs to the name of the temporary file
    """
    temporary = path.with_name(f".{path.name}.{unique}.tmp")
    try:
        try:
            with temporary.open("x", encoding="utf-8") as file:
                file.write(html)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise RetryError(f"Cannot write the report to {path}: because {error.strerror or error}") from error
