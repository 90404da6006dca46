"""Pages of jobs' documents as data, which `html.py` draws: figures, charts and tables of entries summed one by one."""

from __future__ import annotations

import enum
import re
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Generic, NamedTuple, TypeVar

from acidlib.arguments import AS_JSON
from acidlib.model.results import (
    CleaningResult,
    CleaningsDocument,
    CleaningTotals,
    CompactionResult,
    CompactionsDocument,
    CompactionTotals,
    DecisionsDocument,
    ErrorDescription,
    Head,
    InitiatorResult,
    Outcome,
    RunHead,
    Texts,
)
from acidlib.model.status import Level, PlaceFigures, StatusDocument, TableFigures, Transaction
from acidlib.report.text import aged, by_state, holders_of, threshold_of
from acidlib.wording import age_words, duration_words, human_bytes, plural, without_ends


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
    """A text with a smaller detail below it, and a bar of the length `share` (of a whole, or of the largest figure)."""

    text: str
    detail: str = ""
    share: float | None = None
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTable:
    """A table, or a chart of bars; without rows a page leaves it out.

    figures  the columns that are aligned to the right
    text     an explanation above the rows
    rest     a sentence about rows that are not shown
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    figures: frozenset[str]
    text: str = ""
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure with its label, a detail, and the parts that it consists of."""

    label: str
    value: str = ""
    detail: str = ""
    parts: Sequence[Cell] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPage:
    """Everything on a page beside the facts, settings and notes of its document."""

    head: Head
    headline: str
    tone: Tone
    lead: str
    outcome: Figure | None = None
    attention: Sequence[PageTable] = ()
    figures: Sequence[Figure] = ()
    charts: Sequence[PageTable] = ()
    tables: Sequence[PageTable] = ()
    notes: Texts = ()


_MAX_SHOWN, _MAX_REASONS, _MAX_TABLES = 20, 10, 30
_MIN_TO_COUNT = 21
"""Fewest places for a chart; the tables have each of fewer ones."""
_UNKNOWN = "-"
_NUMBERS = re.compile(r"\d[\d,._]*")

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class _Column(Generic[T_contra]):
    """A column of a table of values, with functions that return texts, details and colours.

    bar    the figure that bars show as a share of the largest
    scale  the figures among which to look for the largest; only that of the bar if empty
    """

    title: str
    text: Callable[[T_contra], str]
    detail: Callable[[T_contra], str | None] = lambda _: ""
    tone: Callable[[T_contra], Tone] = lambda _: Tone.PLAIN
    bar: Callable[[T_contra], float | None] | None = None
    scale: Sequence[Callable[[T_contra], float | None]] = ()
    is_figure: bool = False

    def cells(self, values: Sequence[T_contra]) -> list[Cell]:
        """Return the cells of values, in their order."""
        scale = self.scale or ([] if self.bar is None else [self.bar])
        largest = max((figure(value) or 0 for value in values for figure in scale), default=0)
        return [
            Cell(self.text(value), self.detail(value) or "", self._share(value, largest), self.tone(value))
            for value in values
        ]

    def _share(self, value: T_contra, largest: float) -> float | None:
        figure = None if self.bar is None else self.bar(value)
        return None if figure is None or not largest else figure / largest


def _number(
    title: str,
    figure: Callable[[T], Any],
    words: Callable[[Any], str] = "{:,}".format,
    tone: Tone = Tone.PLAIN,
    scale: Sequence[Callable[[T], float | None]] = (),
) -> _Column[T]:
    """Return a column of figures, with bars if it has a tone."""

    def text(value: T) -> str:
        known = figure(value)
        return _UNKNOWN if known is None else words(known)

    bar = None if tone is Tone.PLAIN else figure
    return _Column(title, text, tone=lambda _: tone, bar=bar, scale=scale, is_figure=True)


def _table(
    title: str,
    entries: Sequence[T],
    *columns: _Column[T],
    of: int | None = None,
    noun: str = "place",
    text: str = "",
) -> PageTable:
    """Return a table of entries, the first of so many (`of`; None = of all)."""
    rest = 0 if of is None else of - len(entries)
    return PageTable(
        title=title,
        columns=tuple(column.title for column in columns),
        rows=list(zip(*(column.cells(entries) for column in columns), strict=True)),
        figures=frozenset(column.title for column in columns if column.is_figure),
        text=text,
        rest=f"and {plural(rest, f'more {noun}')}; {AS_JSON} tells of each" if rest else "",
    )


class Largest(Generic[T]):
    """The largest few of the values that are added, of equal ones the earlier first, and the number of all."""

    def __init__(self) -> None:
        self._kept: list[tuple[float, T]] = []
        self.count = 0

    def add(self, size: float, value: T) -> None:
        """Add a value of this size."""
        self.count += 1
        insort(self._kept, (size, value), key=lambda kept: -kept[0])
        del self._kept[_MAX_SHOWN:]

    @property
    def values(self) -> list[T]:
        """The largest values, the largest first."""
        return [value for _, value in self._kept]

    def table(self, title: str, *columns: _Column[T], text: str = "") -> PageTable:
        """Return a table of the largest values."""
        return _table(title, self.values, *columns, of=self.count, text=text)


@dataclass(slots=True)
class _Reason:
    """A reason with the first place that had it, the number of its places, and an amount."""

    text: str
    place: str
    count: int = 0
    amount: float = 0


class _Reasons:
    """Reasons with their number of entries: reasons that differ only in the place, or in numbers, are counted as one.

    by_number  reasons with different numbers are counted apart, as it matters which transaction is in the way
    """

    def __init__(self, *, by_number: bool = False) -> None:
        self._by_number = by_number
        self._kinds: dict[str, _Reason] = {}

    def add(self, reason: str, place: PlaceRow, *, amount: float = 0) -> None:
        """Add the reason of a place; `amount` is summed, in bytes for example."""
        for known in (place.location, str(place.ref)):
            reason = reason.replace(known, "the place") if known else reason
        key = reason if self._by_number else _NUMBERS.sub("0", reason)
        kind = self._kinds.setdefault(key, _Reason(reason, str(place.ref)))
        kind.count += 1
        kind.amount += amount

    def table(
        self, title: str, *, counted: str = "Places", amount: str = "", text: str = "", tone: Tone = Tone.QUIET
    ) -> PageTable:
        """Return a table of the most frequent reasons, or (if `amount` is named) those of the largest amount."""
        kinds = sorted(self._kinds.values(), key=lambda kind: (-(kind.amount if amount else kind.count), kind.text))
        counts: _Column[_Reason] = _number(counted, lambda kind: kind.count, tone=tone)
        amounts = [counts]
        if amount:
            amounts = [_number(amount, lambda kind: kind.amount, _size, tone), replace(counts, bar=None)]
        reason: _Column[_Reason] = _Column(
            "Reason", lambda kind: kind.text, lambda kind: "for example " * (kind.count > 1) + kind.place
        )
        return _table(title, kinds[:_MAX_REASONS], reason, *amounts, of=len(kinds), noun="reason", text=text)


def _parts(words: Callable[[float], str], *parts: tuple[str, float, Tone]) -> list[Cell]:
    """Return the parts of a whole that are above zero, by labels, amounts and colours."""
    whole = sum(amount for _, amount, _ in parts if amount > 0)
    return [Cell(words(amount), label, amount / whole, tone) for label, amount, tone in parts if amount > 0]


def _outcome(label: str, counts: Mapping[str, int], states: Mapping[str, tuple[Tone, str]]) -> Figure | None:
    """Return the number of places in each state, which have a colour and a word; None without any place."""
    parts = _parts("{:,}".format, *((word, counts[state], tone) for state, (tone, word) in states.items()))
    return Figure(label, parts=parts) if parts else None


def _with_counts(text: str, counts: Mapping[str, int]) -> str:
    """Return a headline, with the number of other places in each state."""
    return ", ".join(part for part in (text, by_state(counts)) if part)


class _Bars(NamedTuple):
    """The bars of one label of a chart: a figure of each series, by its name."""

    label: str
    figures: dict[str, float]


def _bars(title: str, text: str, labels: str, tones: Mapping[str, Tone], rows: Sequence[_Bars]) -> PageTable:
    """Return a chart of bars of some series, which have colours, with the labels in a column of this title."""

    def figure(name: str) -> Callable[[_Bars], float]:
        return lambda row: row.figures[name]

    scale = [figure(name) for name in tones]
    series = (_number(name, figure(name), "{:,.10g}".format, tone, scale) for name, tone in tones.items())
    return _table(title, rows, _Column(labels, lambda row: row.label), *series, text=text)


def _histogram(
    title: str, text: str, column: str, steps: Mapping[int, str], *series: tuple[str, Counter[int], Tone]
) -> PageTable:
    """Return a chart of the number of values from each step to the next.

    steps   labels by their least value; those at the ends without any value are left out
    series  names, the number of each value, and colours; those without any value are left out
    """
    tones = {name: tone for name, values, tone in series if values}
    least = list(steps)
    rows = [_Bars(label, dict.fromkeys(tones, 0.0)) for label in steps.values()]
    for name, values, _ in series:
        for value, count in values.items():
            rows[bisect_right(least, value) - 1].figures[name] += count
    used = [number for number, row in enumerate(rows) if any(row.figures.values())]
    return _bars(title, text, column, tones, rows[used[0] : used[-1] + 1])


def _deltas_chart(*series: tuple[str, Counter[int], Tone]) -> PageTable:
    steps = {0: "0", 1: "1"} | {2**n: f"{2**n} to {2 ** (n + 1) - 1}" for n in range(1, 8)} | {256: "256 or more"}
    text = "A reader merges all deltas of a place each time it reads it."
    return _histogram("Deltas per place", text, "Deltas of a place", steps, *series)


def _size(size: float | None) -> str:
    return _UNKNOWN if size is None else human_bytes(int(size))


def _precise(seconds: float) -> str:
    """Return a duration in words, below ten seconds with tenths."""
    return f"{seconds:.1f}".removesuffix(".0") + " s" if seconds < 10 else duration_words(seconds)


def _when(head: RunHead) -> str:
    """Return start and end of the run in UTC, and its duration."""
    start, end = head.start_ms, head.end_ms
    first, last = (datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") for ms in (start, end))
    return f"{first} to {last.removeprefix(first[:11])} UTC, {_precise(max(0.0, (end - start) / 1000))}"


PlaceRow = CompactionResult | InitiatorResult | CleaningResult | PlaceFigures
_PLACE: _Column[PlaceRow] = _Column("Place", lambda place: str(place.ref), lambda place: place.location)
_WHY: _Column[CompactionResult | InitiatorResult | CleaningResult] = _Column("Why", lambda place: place.reason)


_LEFT = ("already compact", "refused", "skipped")
_TOO_MANY_TO_READ = 5
"""Most failures that are listed alone; above more of them stand the reasons that they have in common."""
_SLICES = 12
_SHORT_RUN = 60
"""Seconds below which a run has no chart of the places under way."""
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
_COMPACTION_STATES = {
    "planned": (Tone.FIRST, "to compact"),
    "ready for cleaning": (Tone.GOOD, "compacted"),
    "succeeded": (Tone.GOOD, "compacted, nothing to clean"),
    "already compact": (Tone.QUIET, "already compact"),
    "refused": (Tone.QUIET, "refused"),
    "failed": (Tone.BAD, "failed"),
    "conflict": (Tone.BAD, "in conflict"),
    "skipped": (Tone.QUIET, "skipped"),
}


class CompactionsSummary:
    """Sums over the entries of a minor or major compaction."""

    def __init__(self) -> None:
        self._bad, self._slow, self._heavy = (Largest[CompactionResult]() for _ in range(3))
        self._why_bad, self._left, self._done, self._actions, self._notes = (_Reasons() for _ in range(5))
        self._before: Counter[int] = Counter()
        self._after: Counter[int] = Counter()
        self._took: Counter[int] = Counter()
        self._spans: list[tuple[float, float]] = []
        """The start of each compaction, without that of Spark (epoch seconds), and its duration."""
        self._sums: Counter[str] = Counter()

    def add(self, entry: CompactionResult) -> None:
        """Add a compaction."""
        state, seconds, sums = entry.state, entry.seconds, self._sums
        place = replace(entry, inputs=(), notes=(), files=None)  # which may be long
        if state.is_bad or entry.unverified:
            self._bad.add(state is Outcome.FAILED, place)
            sums["held"] += state is Outcome.REFUSED  # in quarantine for a result that was not verified
            self._why_bad.add(entry.reason, entry)
        else:
            (self._left if state in _LEFT else self._done).add(entry.reason, entry)
        if entry.files is not None:
            self._heavy.add((entry.bytes_copied or 0) + (entry.bytes_rewritten or 0), place)
            for action in (action for file in entry.files for action in file.actions):
                is_partly_left = action.verb == "rewrite" and (action.deleted or action.aborted)
                why = "rows of it were deleted or rolled back" if is_partly_left else action.reason
                self._actions.add(f"{action.done}: {why}", entry, amount=action.bytes)
            self._before[entry.deltas_before or 0] += 1
            self._after[entry.deltas_after or 0] += 1
            if entry.bytes_out is not None:
                sums["bytes_in"] += entry.bytes_in or 0
                sums["bytes_out"] += entry.bytes_out
        if verification := entry.verification:
            sums["verified"] += 1
            sums["verified rows"] += verification.rows or 0
            sums["verified buckets"] += len(verification.buckets)
            sums["buckets"] += verification.of_buckets
        if seconds is not None and state not in _LEFT:
            self._slow.add(seconds, place)
            self._took[int(seconds)] += 1
            sums["ms"] += round(seconds * 1000)
            sums["task_ms"] += round((entry.rewrite_seconds or 0) * 1000)
            if entry.end_ms is not None:
                self._spans.append((entry.end_ms / 1000 - seconds, seconds))
        for note in entry.notes:
            self._notes.add(note, entry)

    def page(self, head: RunHead, document: CompactionsDocument) -> ReportPage:
        """Return the page of a document whose entries were added."""
        states = {outcome.value: count for outcome, count in document.totals.states.items()}
        verified = 0 < states["ready for cleaning"] + states["succeeded"] == self._sums["verified"]
        has_conflicts = any(place.state is Outcome.CONFLICT for place in self._bad.values)
        in_common = self._why_bad if self._bad.count > _TOO_MANY_TO_READ else _Reasons()
        slow = "From the claim of a place to its publication; inside the tasks is the sum of tasks side by side."
        heaviest = self._heavy if self._heavy.count > self._slow.count else Largest[CompactionResult]()
        return ReportPage(
            head=head,
            notes=document.notes,
            headline=self._headline(document.totals.compactions, states),
            tone=Tone.BAD if self._bad.count else Tone.GOOD,
            lead=_when(head) + ("; all that was compacted is verified" if verified else ""),
            outcome=_outcome("Places by outcome", states, _COMPACTION_STATES),
            attention=[
                in_common.table("Why they failed", tone=Tone.BAD),
                self._bad.table(
                    "Places that failed or where another was at work" if has_conflicts else "Places that failed",
                    _PLACE,
                    _Column("State", lambda place: place.state, tone=lambda place: _COMPACTION_STATES[place.state][0]),
                    _WHY,
                    text="A conflict is another run or writer at the same place: the next run tries again."
                    if has_conflicts
                    else "",
                ),
            ],
            figures=[*self._figures(head, document.totals)],
            charts=[*self._charts(head)],
            tables=[
                self._slow.table("Slowest places", *_COMPACTED, text=slow),
                heaviest.table("Places of most bytes", *_COMPACTED),
                self._actions.table("Why bytes were copied or rewritten", counted="Actions", amount="Bytes"),
                self._done.table("Why places were compacted", tone=Tone.GOOD),
                self._left.table("Why places were left as they were"),
                self._notes.table("Notes on the inputs"),
            ],
        )

    def _headline(self, places: int, states: Mapping[str, int]) -> str:
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
        others = {"failed": states["failed"], "in conflict": states["conflict"]}
        return _with_counts(text, others | {"held for a result that was not verified": held})

    def _figures(self, head: RunHead, totals: CompactionTotals) -> Iterator[Figure]:
        sums = self._sums
        is_dry = bool(totals.states[Outcome.PLANNED])
        before, after = (sum(deltas * count for deltas, count in of.items()) for of in (self._before, self._after))
        if before or after:
            detail = f"at {plural(self._before.total(), 'place')}{', as is expected' if is_dry else ''}"
            yield Figure("Deltas to merge for a reader", f"{before:,} → {after:,}", detail)
        copied, rewritten = totals.bytes_copied, totals.bytes_rewritten
        if copied or rewritten:
            parts = _parts(
                _size,
                ("to copy as they are" if is_dry else "copied as they are", copied, Tone.FIRST),
                ("to rewrite" if is_dry else "rewritten", rewritten, Tone.SECOND),
            )
            label = "Bytes to copy or rewrite" if is_dry else "Bytes copied or rewritten"
            yield Figure(label, _size(copied + rewritten), parts=parts)
        if sums["bytes_in"]:
            won = sums["bytes_in"] - sums["bytes_out"]
            label = "Space won once cleaned" if won >= 0 else "More space needed"
            yield Figure(label, _size(abs(won)), f"{_size(sums['bytes_in'])} became {_size(sums['bytes_out'])}")
        if totals.rows_in:
            gone = totals.rows_deleted + totals.rows_aborted
            detail = f"{gone:,} of {totals.rows_in:,} were deleted or rolled back"
            yield Figure("Rows kept", f"{totals.rows_out:,}", detail)
        if sums["verified"]:
            rows = plural(sums["verified rows"], "row") if sums["verified rows"] else "what was compared"
            detail = f"{rows} in {sums['verified buckets']:,} of {plural(sums['buckets'], 'bucket')} read as before"
            yield Figure("Verified by a second reader", plural(sums["verified"], "place"), detail)
        if self._spans:
            began, ended = head.start_ms / 1000, head.end_ms / 1000
            first = min(start for start, _ in self._spans)
            last = max(start + seconds for start, seconds in self._spans)
            parts = _parts(
                _precise,
                ("until the first place was begun", first - began, Tone.QUIET),
                ("while places were under way", last - first, Tone.FIRST),
                ("after the last place", ended - last, Tone.SECOND),
            )
            yield Figure("Time of the run", _precise(ended - began), parts=parts)
        inside, all_of_it = sums["task_ms"] / 1000, sums["ms"] / 1000
        if inside < all_of_it:
            parts = _parts(
                _precise,
                ("inside tasks", inside, Tone.FIRST),
                ("for claims, listings, Spark, free slots, publication", all_of_it - inside, Tone.QUIET),
            )
            yield Figure("Time of all places, side by side", _precise(all_of_it), parts=parts)

    def _charts(self, head: RunHead) -> Iterator[PageTable]:
        if self._before.total() >= _MIN_TO_COUNT:
            before, after = ("Places before", self._before, Tone.SECOND), ("Places after", self._after, Tone.FIRST)
            yield _deltas_chart(before, after)
        if self._took.total() >= _MIN_TO_COUNT:
            text = "From the claim of a place to its publication."
            yield _histogram("Time per place", text, "Time of a place", _SECONDS, ("Places", self._took, Tone.FIRST))
            began, ended = head.start_ms / 1000, head.end_ms / 1000
            if ended - began >= _SHORT_RUN:
                yield self._under_way(began, (ended - began) / _SLICES)

    def _under_way(self, began: float, width: float) -> PageTable:
        """Return a chart of the places under way at a time, on average in each slice of the run."""
        column, busy = "Time since the start", [0.0] * _SLICES
        for start, seconds in self._spans:
            low, high = start - began, start - began + seconds
            for number in range(max(0, int(low / width)), min(_SLICES, int(high / width) + 1)):
                busy[number] += max(0.0, min(high, (number + 1) * width) - max(low, number * width)) / width
        ends = [_precise(number * width) for number in range(_SLICES + 1)]
        rows = [
            _Bars(f"{ends[number]} to {ends[number + 1]}", {"Places": round(share, 1)})
            for number, share in enumerate(busy)
        ]
        text = "On average, in each twelfth of the run."
        return _bars("Places under way at a time", text, column, {"Places": Tone.FIRST}, rows)


def _deltas(entry: CompactionResult) -> str:
    before, after = entry.deltas_before, entry.deltas_after
    return _UNKNOWN if before is None else f"{before:,} → {'?' if after is None else f'{after:,}'}"


_COMPACTED: tuple[_Column[CompactionResult], ...] = (
    _Column(
        "Place",
        lambda place: str(place.ref),
        lambda place: f"{place.state}: " * place.state.is_bad + place.location,
        lambda place: _COMPACTION_STATES[place.state][0],
    ),
    _number("Time", lambda place: place.seconds, _precise, Tone.FIRST),
    _number("Inside the tasks", lambda place: place.rewrite_seconds, _precise),
    _Column("Deltas", _deltas, is_figure=True),
    _number("Read", lambda place: place.bytes_in, _size),
    _number("Copied", lambda place: place.bytes_copied, _size),
    _number("Rewritten", lambda place: place.bytes_rewritten, _size),
)


_DECISION_STATES = {
    "major": (Tone.FIRST, "major"),
    "minor": (Tone.SECOND, "minor"),
    "left alone": (Tone.QUIET, "left alone"),
    "refused": (Tone.WARNING, "refused"),
    "held back": (Tone.WARNING, "held back"),
    "failed": (Tone.BAD, "failed"),
}


class InitiatorSummary:
    """Sums over the entries of an initiator."""

    def __init__(self) -> None:
        self._bad, self._refused, self._due = (Largest[InitiatorResult]() for _ in range(3))
        self._left, self._thresholds = _Reasons(), _Reasons()
        self._counts: Counter[str] = Counter()
        self._deltas_due: Counter[int] = Counter()
        self._deltas_left: Counter[int] = Counter()
        self._sums: Counter[str] = Counter()

    def add(self, entry: InitiatorResult) -> None:
        """Add a decision."""
        outcome, deltas = entry.outcome, entry.deltas
        self._counts[entry.type or "" if outcome is Outcome.DUE else outcome.value] += 1
        if outcome is Outcome.FAILED:
            self._bad.add(0, entry)
            return
        if deltas is not None:
            (self._deltas_due if outcome is Outcome.DUE else self._deltas_left)[deltas] += 1
        self._sums["base_bytes"] += entry.base_bytes or 0
        self._sums["delta_bytes"] += entry.delta_bytes or 0
        self._sums["deltas"] += entry.deltas or 0
        if outcome is Outcome.DUE:
            self._due.add(deltas or 0, entry)
            self._thresholds.add(entry.threshold_key or entry.reason, entry)
        elif outcome is Outcome.LEFT_ALONE:
            self._left.add(entry.reason, entry)
        else:
            self._refused.add(outcome is Outcome.HELD_BACK, entry)

    def page(self, head: RunHead, document: DecisionsDocument) -> ReportPage:
        """Return the page of a document whose entries were added."""
        counts, totals, sums = self._counts, document.totals, self._sums
        headline = f"{counts['major'] + counts['minor']:,} of {plural(totals.looked_at, 'place')} to compact"
        if not totals.looked_at:
            headline = "No table was found"
        elif totals.queued:
            headline += f", {plural(totals.queued, 'request')} queued"
        figures, charts = [], []
        if sums["base_bytes"] or sums["delta_bytes"]:
            figures = [
                Figure("Deltas", f"{sums['deltas']:,}", "that readers merge, at all places"),
                Figure("Bytes in deltas", _size(sums["delta_bytes"])),
                Figure("Bytes in bases", _size(sums["base_bytes"])),
            ]
        if self._deltas_due.total() + self._deltas_left.total() >= _MIN_TO_COUNT:
            due = ("Places to compact", self._deltas_due, Tone.FIRST)
            charts = [_deltas_chart(due, ("Places left alone", self._deltas_left, Tone.QUIET))]
        return ReportPage(
            head=head,
            notes=document.notes,
            headline=_with_counts(headline, {state: counts[state] for state in ("refused", "held back", "failed")}),
            tone=Tone.BAD if totals.failed else Tone.GOOD,
            lead=_when(head),
            outcome=_outcome("Places by decision", counts, _DECISION_STATES),
            attention=[
                self._bad.table("Places that could not be looked at or queued", _PLACE, _WHY),
                self._refused.table("Places that cannot be compacted as they are, or failed too often", _PLACE, _WHY),
            ],
            figures=figures,
            charts=charts,
            tables=[
                self._due.table(
                    "Places to compact, those of most deltas first",
                    _PLACE,
                    _Column(
                        "Decision",
                        lambda place: place.type or "",
                        lambda place: "" if place.queued is None else f"request {place.queued}",
                    ),
                    _number("Deltas", lambda place: place.deltas, tone=Tone.FIRST),
                    _number("In deltas", lambda place: place.delta_bytes, _size),
                    _number("In the base", lambda place: place.base_bytes, _size),
                    _number("Ratio", lambda place: place.ratio, "{:.2f}".format),
                    _Column("Why", lambda place: place.reason, threshold_of),
                ),
                self._thresholds.table("What decided", tone=Tone.FIRST),
                self._left.table("Why places were left alone"),
            ],
        )


_CLEANING_STATES = {
    "succeeded": (Tone.GOOD, "cleaned"),
    "planned": (Tone.FIRST, "to clean"),
    "ready for cleaning": (Tone.WARNING, "wait"),
    "failed": (Tone.BAD, "failed"),
    "conflict": (Tone.BAD, "conflict"),
}


class _Paths(NamedTuple):
    """A cleaning without its paths, with their number and bytes."""

    place: CleaningResult
    paths: int
    bytes: int


_CLEANED: _Column[_Paths] = _Column(
    "Place", lambda cleaned: str(cleaned.place.ref), lambda cleaned: cleaned.place.location
)


class CleanerSummary:
    """Sums over the entries of a cleaner."""

    def __init__(self) -> None:
        self._bad = Largest[CleaningResult]()
        self._waiting, self._freed = Largest[_Paths](), Largest[_Paths]()
        self._why, self._blocked = _Reasons(), _Reasons(by_number=True)
        self._states: Counter[str] = Counter()
        self._paths: Counter[str] = Counter()

    def add(self, entry: CleaningResult) -> None:
        """Add a cleaning."""
        state, removed, waiting = entry.state, entry.removed, entry.waiting
        place, size = replace(entry, removed=(), waiting=()), entry.bytes_removed + entry.bytes_moved
        self._states[state.value] += 1
        if state.is_bad:
            self._bad.add(state is Outcome.FAILED, place)
        elif waiting or state is Outcome.READY_FOR_CLEANING:
            self._waiting.add(len(waiting), _Paths(place, len(waiting), size))
        reasons = [path.reason for path in waiting]
        if state is Outcome.READY_FOR_CLEANING and not waiting:
            reasons = [entry.reason]
        for reason in reasons:
            self._blocked.add(without_ends(reason), entry)
        for path in removed:
            self._why.add(path.reason, entry, amount=path.bytes)
            self._paths["removed" if path.moved_to is None else "moved"] += 1
        if removed:
            self._freed.add(size, _Paths(place, len(removed), size))

    def page(self, head: RunHead, document: CleaningsDocument) -> ReportPage:
        """Return the page of a document whose entries were added."""
        states, totals = self._states, document.totals
        waits = "Obsolete paths that have to stay for now, by the reason."
        return ReportPage(
            head=head,
            notes=document.notes,
            headline=self._headline(totals),
            tone=Tone.BAD if states["failed"] or states["conflict"] else Tone.GOOD,
            lead=_when(head),
            outcome=_outcome("Places by outcome", states, _CLEANING_STATES),
            attention=[
                self._bad.table("Places that could not be cleaned", _PLACE, _WHY),
                self._blocked.table("Reasons to wait", counted="Times", text=waits, tone=Tone.WARNING),
            ],
            figures=[*self._figures(totals)] if totals.requests else (),
            tables=[
                self._waiting.table(
                    "Places where something waits",
                    _CLEANED,
                    _Column("Why", lambda cleaned: cleaned.place.reason),
                    _number("Paths that stay", lambda cleaned: cleaned.paths),
                ),
                self._why.table("Why paths were removed", counted="Paths", amount="Bytes", tone=Tone.GOOD),
                self._freed.table(
                    "Places where most was removed",
                    _CLEANED,
                    _number("Bytes", lambda cleaned: cleaned.bytes, _size, Tone.GOOD),
                    _number("Paths", lambda cleaned: cleaned.paths),
                    _Column("How it ended", lambda cleaned: cleaned.place.reason),
                ),
            ],
        )

    def _headline(self, totals: CleaningTotals) -> str:
        states = self._states
        if not totals.requests:
            return "Nothing to clean"
        if states["planned"]:
            text = f"{_size(totals.bytes_removed)} would go at {plural(states['planned'], 'place')}"
        else:
            text = f"{states['succeeded']:,} of {plural(totals.requests, 'place')} cleaned"
            text += f", {_size(totals.bytes_removed)} freed" if totals.bytes_removed else ""
        waiting = states["ready for cleaning"]
        others = {"failed": states["failed"], "in conflict": states["conflict"]}
        return _with_counts(text, {"waits" if waiting == 1 else "wait": waiting} | others)

    def _figures(self, totals: CleaningTotals) -> Iterator[Figure]:
        yield Figure(
            "Space that would be won" if self._states["planned"] else "Space won",
            _size(totals.bytes_removed),
            f"{plural(self._paths['removed'], 'directory', 'directories')} and files",
        )
        if self._paths["moved"]:
            detail = f"{plural(self._paths['moved'], 'path')}; takes space until the trash is emptied"
            yield Figure("Moved to the trash", _size(totals.bytes_moved), detail)
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


def status_page(head: RunHead, document: StatusDocument) -> ReportPage:
    """Return the page of a status."""
    totals, findings, tables = document.totals, document.findings, document.tables
    holders = holders_of(document.blockers)
    levels = Counter(finding.level for finding in findings)
    wrong = " and ".join(plural(levels[level], level) for level in (Level.ERROR, Level.WARNING) if levels[level])
    failed = next(state.count for state in totals.requests if state.state == "failed")
    kinds = Counter(finding.trouble for finding in findings).most_common()
    return ReportPage(
        head=head,
        notes=document.notes,
        headline=f"{wrong or 'Nothing is wrong'} in {plural(len(tables), 'table')}"
        + (f", {plural(failed, 'request')} failed" if failed else ""),
        tone=_LEVEL_TONES[document.level],
        lead=_when(head),
        attention=[
            _table(
                "Findings",
                findings[:_MAX_SHOWN],
                _Column(
                    "What",
                    lambda finding: finding.trouble,
                    lambda finding: finding.level,
                    lambda finding: _LEVEL_TONES[finding.level],
                ),
                _Column("Where", lambda finding: str(finding.ref) or "all tables", lambda finding: finding.location),
                _Column(
                    "Why",
                    lambda finding: finding.reason,
                    lambda finding: "" if finding.setting is None else f"the limit is {finding.setting}",
                ),
                of=len(findings),
                noun="finding",
                text=", ".join(f"{count:,} {kind}" for kind, count in kinds),
            ),
            _table(
                "Open transactions and locks in the way of cleaning",
                holders[:_MAX_SHOWN],
                _Column(
                    "In the way",
                    lambda holder: f"{holder.first.kind} {holder.first.id}",
                    lambda holder: f"{holder.first.user} at {holder.first.host}",
                ),
                _number("Since", lambda holder: holder.first.age, age_words),
                _number("Cleanings that wait", lambda holder: holder.cleanings, tone=Tone.WARNING),
                _Column(
                    "For example",
                    lambda holder: str(holder.first.ref),
                    lambda holder: f"request {holder.first.request_id}",
                ),
                of=len(holders),
                noun="holder",
            ),
        ],
        figures=[*_status_figures(document)],
        tables=[
            _worst("Places of most deltas", totals.most_deltas, "Deltas", lambda place: place.deltas, "{:,}".format),
            _worst(
                "Places of the worst ratio", totals.worst_ratio, "Deltas to base", lambda place: place.ratio, _ratio
            ),
            _worst(
                "Places with most to clean", totals.most_obsolete, "Bytes", lambda place: place.obsolete_bytes, _size
            ),
            _table(
                "Tables, the worst first",
                tables[:_MAX_TABLES],
                _Column("Table", lambda table: f"{table.database}.{table.table}"),
                _Column(
                    "Level",
                    lambda table: table.level,
                    lambda table: plural(table.findings, "finding") if table.findings else "",
                    lambda table: _LEVEL_TONES[table.level],
                ),
                _Column("Requests", _requests),
                _number("Most deltas", lambda table: next((place.deltas for place in table.most_deltas), None)),
                _number("Worst ratio", lambda table: next((place.ratio for place in table.worst_ratio), None), _ratio),
                _number("To clean", lambda table: table.obsolete_bytes, _size, Tone.WARNING),
                _number("Aborted write ids", lambda table: table.aborted_write_ids),
                of=len(tables),
                noun="table",
            ),
        ],
    )


def _status_figures(document: StatusDocument) -> Iterator[Figure]:
    totals, txns, worst = document.totals, document.transactions, document.totals.most_deltas
    if totals.looked_at is not None:
        yield Figure("Places looked at", f"{totals.looked_at:,}", f"of {totals.places or 0:,}")
        if worst:
            yield Figure("Most deltas", f"{worst[0].deltas:,}", str(worst[0].ref))
        yield Figure("Waits for cleaning", _size(totals.obsolete_bytes))
    if txns is not None:
        yield Figure("Open transactions", f"{txns.open:,}", _oldest(txns.oldest_open))
        yield Figure("Aborted transactions", f"{txns.aborted:,}", _oldest(txns.oldest_aborted))
    if totals.failed_in_a_row > 1:
        failed, place = totals.failed_in_a_row, totals.failed_place or ""
        yield Figure("Failures in a row", f"{failed:,}", place)
    states = totals.requests
    parts = _parts(
        "{:,}".format,
        *(
            (
                state.state + aged(", the oldest for", state.oldest_age),
                state.count,
                _REQUEST_TONES.get(state.state, Tone.PLAIN),
            )
            for state in states
        ),
    )
    if parts:
        yield Figure("Requests by state", f"{sum(state.count for state in states):,}", parts=parts)


def _oldest(txn: Transaction | None) -> str:
    if txn is None:
        return ""
    return f"the oldest: {txn.id} of {txn.user} at {txn.host}{aged(', for', txn.age)}"


def _requests(table: TableFigures) -> str:
    return ", ".join(f"{state.count:,} {state.state}" for state in table.requests if state.count) or "none"


def _worst(
    title: str,
    places: Sequence[PlaceFigures],
    figure: str,
    value: Callable[[PlaceFigures], float | None],
    words: Callable[[Any], str],
) -> PageTable:
    """Return a table of the worst places by one figure."""
    return _table(title, places, _PLACE, _number(figure, value, words, Tone.FIRST))


def _ratio(value: float) -> str:
    return f"{value:.2f}"


def error_page(head: Head, error: ErrorDescription) -> ReportPage:
    """Return the page of a job that ended with an error."""
    lead = f"{error.kind}: {error.message}"
    return ReportPage(head=head, headline="The run could not be done", tone=Tone.BAD, lead=lead)
