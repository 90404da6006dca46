"""The page of a minor or major compaction."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from acidlib.report.page.parts import (
    FEWEST_TO_COUNT,
    UNKNOWN,
    Cell,
    Entry,
    Figure,
    Largest,
    Listing,
    Page,
    Reasons,
    Segment,
    Tone,
    bars,
    deltas_chart,
    facts,
    histogram,
    name_of,
    precise,
    remarks,
    rest_text,
    settings,
    shares,
    size_text,
    when,
)
from acidlib.wording import plural

_MOST_BAD, _MOST_SHOWN, _MOST_REASONS = 20, 20, 10
_TOO_MANY_TO_READ = 5
"""Of more failures than these what they have in common is named first."""
_SLICES = 12
_SHORT_RUN = 60
"""Seconds; what a shorter run had under way at a time says nothing."""
_SECONDS = (0, 1, 2, 5, 10, 30, 60, 300, 900, 3600)
_SECONDS_LABELS = (
    *("under 1 s", "1 to 2 s", "2 to 5 s", "5 to 10 s", "10 to 30 s", "30 to 60 s"),
    *("1 to 5 min", "5 to 15 min", "15 to 60 min", "an hour or more"),
)
_TONES = {
    "planned": Tone.FIRST,
    "ready for cleaning": Tone.GOOD,
    "succeeded": Tone.GOOD,
    "already compact": Tone.QUIET,
    "refused": Tone.QUIET,
    "failed": Tone.BAD,
    "conflict": Tone.WARNING,
    "skipped": Tone.QUIET,
}
_LEFT = ("already compact", "refused", "skipped")
_LABELS = {
    "planned": "to compact",
    "ready for cleaning": "compacted",
    "succeeded": "compacted, nothing to clean",
    "conflict": "in conflict",
}


@dataclass(frozen=True, slots=True)
class _Place:
    """What a table tells of one place."""

    name: str
    location: str
    state: str
    reason: str
    seconds: float | None
    rewrite_seconds: float | None
    deltas: str
    bytes_in: int | None
    bytes_out: int | None
    copied: int | None
    rewritten: int | None


class CompactionsFold:
    """Takes the entries of `compactions`."""

    def __init__(self) -> None:
        self._bad: Largest[_Place] = Largest(_MOST_BAD)
        self._slow: Largest[_Place] = Largest(_MOST_SHOWN)
        self._heavy: Largest[_Place] = Largest(_MOST_SHOWN)
        self._left, self._done, self._actions = Reasons(), Reasons(), Reasons()
        self._why_bad, self._notes = Reasons(), Reasons()
        self._before: Counter[int] = Counter()
        self._after: Counter[int] = Counter()
        self._took: Counter[int] = Counter()
        self._spans: list[tuple[float, float]] = []
        self._sums: Counter[str] = Counter()

    def add(self, entry: Entry) -> None:
        """One more compaction."""
        state = entry["state"]
        place = _place(entry)
        seconds = entry["seconds"]
        if state in ("failed", "conflict") or entry["unverified"]:
            self._bad.add(state == "failed", place)
            self._sums["held"] += state == "refused"
            self._why_bad.add(entry["reason"], entry)
        elif state in _LEFT:
            self._left.add(entry["reason"], entry)
        else:
            self._done.add(entry["reason"], entry)
        if entry["files"] is not None:
            self._heavy.add((entry["bytes_copied"] or 0) + (entry["bytes_rewritten"] or 0), place)
            self._add_actions(entry)
            self._sums["before"] += entry["deltas_before"] or 0
            self._sums["after"] += entry["deltas_after"] or 0
            self._before[entry["deltas_before"] or 0] += 1
            self._after[entry["deltas_after"] or 0] += 1
            if entry["bytes_out"] is not None:
                self._sums["bytes_in"] += entry["bytes_in"] or 0
                self._sums["bytes_out"] += entry["bytes_out"]
        if verification := entry["verification"]:
            self._sums["verified"] += 1
            self._sums["verified rows"] += verification["rows"] or 0
            self._sums["verified buckets"] += len(verification["buckets"])
            self._sums["buckets"] += verification["of_buckets"]
        if seconds is not None and state not in _LEFT:
            self._slow.add(seconds, place)
            self._took[int(seconds)] += 1
            self._sums["ms"] += round(seconds * 1000)
            self._sums["task_ms"] += round((entry["rewrite_seconds"] or 0) * 1000)
            if entry["start_ms"] is not None:
                self._spans.append((entry["start_ms"] / 1000, seconds))
        for note in entry["notes"]:
            self._notes.add(note, entry)

    def _add_actions(self, entry: Entry) -> None:
        for file in entry["files"]:
            for action in file["actions"]:
                verb = "copied" if action["action"] == "copy" else "rewritten"
                dropped = action["deleted"] or action["aborted"]
                why = "rows of it were deleted or rolled back" if dropped else action["reason"]
                self._actions.add(f"{verb}: {why}", entry, amount=action["bytes"])

    def page(self, head: Entry) -> Page:
        """The page; `head` is the document without its entries."""
        totals, states = head["totals"], head["totals"]["states"]
        dry = bool(states["planned"])
        return Page(
            job=head["job"],
            headline=_headline(totals["compactions"], states, self._sums["held"]),
            tone=Tone.BAD if self._bad.count else Tone.GOOD,
            lead=when(head) + self._verified(states),
            outcome=_outcome(states),
            remarks=remarks(head),
            attention=self._attention(),
            figures=(*self._figures(head, dry=dry), *self._times(head)),
            charts=tuple(self._charts(head)),
            listings=tuple(self._listings()),
            facts=facts(head),
            settings=settings(head),
        )

    def _verified(self, states: dict[str, int]) -> str:
        done = states["ready for cleaning"] + states["succeeded"]
        return "; all that was compacted is verified" if 0 < done == self._sums["verified"] else ""

    def _attention(self) -> tuple[Listing, ...]:
        if not self._bad.count:
            return ()
        rows = tuple(
            (
                Cell(text=one.name, detail=one.location),
                Cell(text=one.state, tone=_TONES[one.state]),
                Cell(text=one.reason),
            )
            for one in self._bad.items
        )
        has_conflicts = any(one.state == "conflict" for one in self._bad.items)
        text = "A conflict is another run or writer at the same place: the next run tries again."
        common = None
        if self._bad.count > _TOO_MANY_TO_READ:
            common = self._why_bad.listing("Why they failed", _MOST_REASONS, tone=Tone.BAD)
        return (
            *(() if common is None else (common,)),
            Listing(
                title="Places that failed or where another was at work" if has_conflicts else "Places that failed",
                columns=("Place", "State", "Why"),
                rows=rows,
                text=text if has_conflicts else "",
                rest=rest_text(self._bad.rest),
            ),
        )

    def _figures(self, head: Entry, *, dry: bool) -> tuple[Figure, ...]:
        totals, sums = head["totals"], self._sums
        found = []
        if sums["before"] or sums["after"]:
            worked = self._before.total()
            found.append(
                Figure(
                    label="Deltas to merge for a reader",
                    value=f"{sums['before']:,} → {sums['after']:,}",
                    detail=f"at {plural(worked, 'place')}{', as is expected' if dry else ''}",
                )
            )
        copied, rewritten = totals["bytes_copied"], totals["bytes_rewritten"]
        if copied or rewritten:
            found.append(
                Figure(
                    label="Bytes to copy or rewrite" if dry else "Bytes copied or rewritten",
                    value=size_text(copied + rewritten),
                    parts=(
                        _bytes("to copy as they are" if dry else "copied as they are", copied, Tone.FIRST),
                        _bytes("to rewrite" if dry else "rewritten", rewritten, Tone.SECOND),
                    ),
                )
            )
        if sums["bytes_in"]:
            won = sums["bytes_in"] - sums["bytes_out"]
            found.append(
                Figure(
                    label="Space won once cleaned" if won >= 0 else "More space needed",
                    value=size_text(abs(won)),
                    detail=f"{size_text(sums['bytes_in'])} became {size_text(sums['bytes_out'])}",
                )
            )
        if totals["rows_in"]:
            gone = totals["rows_deleted"] + totals["rows_aborted"]
            found.append(
                Figure(
                    label="Rows kept",
                    value=f"{totals['rows_out']:,}",
                    detail=f"{gone:,} of {totals['rows_in']:,} were deleted or rolled back",
                )
            )
        if sums["verified"]:
            rows = plural(sums["verified rows"], "row") if sums["verified rows"] else "what was compared"
            buckets = f"{sums['verified buckets']:,} of {plural(sums['buckets'], 'bucket')}"
            found.append(
                Figure(
                    label="Verified by a second reader",
                    value=plural(sums["verified"], "place"),
                    detail=f"{rows} in {buckets} read as before",
                )
            )
        return tuple(found)

    def _times(self, head: Entry) -> list[Figure]:
        found = []
        if self._spans and head.get("start_ms") is not None:
            began, ended = head["start_ms"] / 1000, head["end_ms"] / 1000
            first = min(start for start, _ in self._spans)
            last = max(start + seconds for start, seconds in self._spans)
            found.append(
                Figure(
                    label="Time of the run",
                    value=precise(ended - began),
                    parts=(
                        _seconds("until the first place was begun", first - began, Tone.QUIET),
                        _seconds("while places were under way", last - first, Tone.FIRST),
                        _seconds("after the last place", ended - last, Tone.SECOND),
                    ),
                )
            )
        inside, all_of_it = self._sums["task_ms"] / 1000, self._sums["ms"] / 1000
        if inside < all_of_it:
            waiting = "for claims, listings, Spark, free slots, publication"
            found.append(
                Figure(
                    label="Time of all places, side by side",
                    value=precise(all_of_it),
                    parts=(
                        _seconds("inside tasks", inside, Tone.FIRST),
                        _seconds(waiting, all_of_it - inside, Tone.QUIET),
                    ),
                )
            )
        return found

    def _charts(self, head: Entry) -> list[Listing]:
        found = []
        if self._before.total() >= FEWEST_TO_COUNT:
            before, after = ("Places before", self._before, Tone.SECOND), ("Places after", self._after, Tone.FIRST)
            found.append(deltas_chart(before, after))
        if self._took.total() >= FEWEST_TO_COUNT:
            found.append(
                histogram(
                    title="Time per place",
                    text="From the claim of a place to its publication.",
                    what="Time of a place",
                    steps=_SECONDS,
                    labels=_SECONDS_LABELS,
                    series=[("Places", self._took, Tone.FIRST)],
                )
            )
            found += self._under_way(head)
        return found

    def _under_way(self, head: Entry) -> list[Listing]:
        """Return how many places were worked on at a time, in the course of a run that is not short."""
        if head.get("start_ms") is None:
            return []
        began, ended = head["start_ms"] / 1000, head["end_ms"] / 1000
        if ended - began < _SHORT_RUN:
            return []
        width = (ended - began) / _SLICES
        busy = [0.0] * _SLICES
        for start, seconds in self._spans:
            low, high = start - began, start - began + seconds
            for number in range(max(0, int(low / width)), min(_SLICES, int(high / width) + 1)):
                busy[number] += max(0.0, min(high, (number + 1) * width) - max(low, number * width)) / width
        ends = [precise(number * width) for number in range(_SLICES + 1)]
        return [
            bars(
                title="Places under way at a time",
                text="On average, in each twelfth of the run.",
                columns=("Time since the start", "Places"),
                tones=[Tone.FIRST],
                rows=[(f"{ends[number]} to {ends[number + 1]}", [round(busy[number], 1)]) for number in range(_SLICES)],
            )
        ]

    def _listings(self) -> list[Listing]:
        slow = "From the claim of a place to its publication; inside the tasks is the sum of tasks side by side."
        found = (
            _places("Slowest places", self._slow, text=slow),
            _places("Places of most bytes", self._heavy) if self._heavy.count > self._slow.count else None,
            self._actions.listing("Why bytes were copied or rewritten", _MOST_REASONS, what="Actions", amount="Bytes"),
            self._done.listing("Why places were compacted", _MOST_REASONS, tone=Tone.GOOD),
            self._left.listing("Why places were left as they were", _MOST_REASONS),
            self._notes.listing("What is to be known of the inputs", _MOST_REASONS),
        )
        return [listing for listing in found if listing is not None]


def _place(entry: Entry) -> _Place:
    before, after = entry["deltas_before"], entry["deltas_after"]
    return _Place(
        name=name_of(entry),
        location=entry["location"],
        state=entry["state"],
        reason=entry["reason"],
        seconds=entry["seconds"],
        rewrite_seconds=entry["rewrite_seconds"],
        deltas=UNKNOWN if before is None else f"{before:,} → {'?' if after is None else f'{after:,}'}",
        bytes_in=entry["bytes_in"],
        bytes_out=entry["bytes_out"],
        copied=entry["bytes_copied"],
        rewritten=entry["bytes_rewritten"],
    )


def _headline(places: int, states: dict[str, int], held: int) -> str:
    done, planned = states["ready for cleaning"] + states["succeeded"], states["planned"]
    if not places:
        return "Nothing to compact"
    if planned:
        text = f"{planned:,} of {plural(places, 'place')} would be compacted"
    elif done or held or states["failed"] or states["conflict"]:
        text = f"{done:,} of {plural(places, 'place')} compacted"
    elif states["already compact"] == places:
        return f"{plural(places, 'place is', 'places are')} already compact"
    else:
        return f"Nothing was compacted at {plural(places, 'place')}"
    for state, words in (("failed", "failed"), ("conflict", "in conflict")):
        text += f", {states[state]:,} {words}" if states[state] else ""
    text += f", {held:,} held for a result that was not verified" if held else ""
    return text


def _outcome(states: dict[str, int]) -> Figure | None:
    segments = tuple(
        Segment(label=_LABELS.get(state, state), value=f"{count:,}", amount=count, tone=_TONES[state])
        for state, count in states.items()
        if count
    )
    return Figure(label="Places by outcome", parts=segments) if segments else None


def _bytes(label: str, size: int, tone: Tone) -> Segment:
    return Segment(label=label, value=size_text(size), amount=size, tone=tone)


def _seconds(label: str, seconds: float, tone: Tone) -> Segment:
    return Segment(label=label, value=precise(max(0.0, seconds)), amount=max(0.0, seconds), tone=tone)


def _bad(one: _Place) -> str:
    return f"{one.state}: " if one.state in ("failed", "conflict") else ""


def _places(title: str, some: Largest[_Place], *, text: str = "") -> Listing | None:
    if not some.count:
        return None
    columns = ("Place", "Time", "Inside the tasks", "Deltas", "Read", "Copied", "Rewritten")
    rows = []
    for one, share in zip(some.items, shares(one.seconds for one in some.items), strict=True):
        rows.append(
            (
                Cell(text=one.name, detail=f"{_bad(one)}{one.location}", tone=_TONES[one.state]),
                Cell(text=UNKNOWN if one.seconds is None else precise(one.seconds), share=share, tone=Tone.FIRST),
                Cell(text=UNKNOWN if one.rewrite_seconds is None else precise(one.rewrite_seconds)),
                Cell(text=one.deltas),
                Cell(text=size_text(one.bytes_in)),
                Cell(text=size_text(one.copied)),
                Cell(text=size_text(one.rewritten)),
            )
        )
    return Listing(
        title=title,
        columns=columns,
        rows=tuple(rows),
        figures=frozenset(columns[1:]),
        text=text,
        rest=rest_text(some.rest),
    )
