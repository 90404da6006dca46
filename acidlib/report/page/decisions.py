"""The pages of the initiator and of the cleaner."""

from __future__ import annotations

import re
from collections import Counter

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
    deltas_chart,
    facts,
    name_of,
    remarks,
    rest_text,
    settings,
    shares,
    size_text,
    when,
)
from acidlib.wording import plural

_MOST_BAD, _MOST_SHOWN, _MOST_REASONS = 20, 20, 10
_UNTIL = re.compile(r" \(until [^)]*\)")
"""Until when something waits is another time at each place."""
_Row = tuple[str, str, str]
"""Name, location and reason of a place."""


class InitiatorFold:
    """Takes the entries of `decisions`."""

    def __init__(self) -> None:
        self._bad: Largest[_Row] = Largest(_MOST_BAD)
        self._refused: Largest[_Row] = Largest(_MOST_BAD)
        self._due: Largest[Entry] = Largest(_MOST_SHOWN)
        self._left, self._thresholds = Reasons(), Reasons()
        self._counts: Counter[str] = Counter()
        self._deltas: dict[bool, Counter[int]] = {True: Counter(), False: Counter()}
        self._sums: Counter[str] = Counter()

    def add(self, entry: Entry) -> None:
        """One more decision."""
        outcome = entry["outcome"]
        is_due = outcome == "due"
        self._counts[entry["type"] if is_due else outcome] += 1
        if outcome == "failed":
            self._bad.add(0, _row(entry))
            return
        self._counts["queued"] += entry["queued"] is not None
        if entry["deltas"] is not None:
            self._deltas[is_due][entry["deltas"]] += 1
        for name in ("base_bytes", "delta_bytes", "deltas"):
            self._sums[name] += entry[name] or 0
        if is_due:
            self._due.add(entry["deltas"] or 0, entry)
            key = entry["threshold_key"]
            self._thresholds.add(entry["reason"] if key is None else key, entry)
        elif outcome == "left alone":
            self._left.add(entry["reason"], entry)
        else:
            self._refused.add(outcome == "held back", _row(entry))

    def page(self, head: Entry) -> Page:
        """The page; `head` is the document without its entries."""
        counts, totals = self._counts, head["totals"]
        due = counts["major"] + counts["minor"]
        headline = f"{due:,} of {plural(totals['looked_at'], 'place')} to compact"
        if not totals["looked_at"]:
            headline = "No table was found"
        elif totals["queued"]:
            headline += f", {plural(totals['queued'], 'request')} queued"
        for name, words in (("refused", "refused"), ("held_back", "held back"), ("failed", "failed")):
            if totals[name]:
                headline += f", {totals[name]:,} {words}"
        tones = {
            "major": Tone.FIRST,
            "minor": Tone.SECOND,
            "left alone": Tone.QUIET,
            "refused": Tone.WARNING,
            "held back": Tone.WARNING,
            "failed": Tone.BAD,
        }
        segments = tuple(
            Segment(label=kind, value=f"{counts[kind]:,}", amount=counts[kind], tone=tone)
            for kind, tone in tones.items()
            if counts[kind]
        )
        return Page(
            job=head["job"],
            headline=headline,
            tone=Tone.BAD if totals["failed"] else Tone.GOOD,
            lead=when(head),
            outcome=Figure(label="Places by decision", parts=segments) if segments else None,
            remarks=remarks(head),
            attention=(
                *_failed(self._bad, "Places that could not be looked at or queued"),
                *_failed(self._refused, "Places that cannot be compacted as they are, or failed too often"),
            ),
            figures=self._figures(),
            charts=self._charts(),
            listings=tuple(self._listings()),
            facts=facts(head),
            settings=settings(head),
        )

    def _figures(self) -> tuple[Figure, ...]:
        sums = self._sums
        if not (sums["base_bytes"] or sums["delta_bytes"]):
            return ()
        return (
            Figure(label="Deltas", value=f"{sums['deltas']:,}", detail="that readers merge, at all places"),
            Figure(label="Bytes in deltas", value=size_text(sums["delta_bytes"])),
            Figure(label="Bytes in bases", value=size_text(sums["base_bytes"])),
        )

    def _charts(self) -> tuple[Listing, ...]:
        if sum(counts.total() for counts in self._deltas.values()) < FEWEST_TO_COUNT:
            return ()
        due = ("Places to compact", self._deltas[True], Tone.FIRST)
        left = ("Places left alone", self._deltas[False], Tone.QUIET)
        return (deltas_chart(due, left),)

    def _listings(self) -> list[Listing]:
        found = (
            _due(self._due),
            self._thresholds.listing("What decided", _MOST_REASONS, tone=Tone.FIRST),
            self._left.listing("Why places were left alone", _MOST_REASONS),
        )
        return [listing for listing in found if listing is not None]


class CleanerFold:
    """Takes the entries of `cleanings`."""

    def __init__(self) -> None:
        self._bad: Largest[_Row] = Largest(_MOST_BAD)
        self._waiting: Largest[tuple[str, str, str, int]] = Largest(_MOST_SHOWN)
        self._freed: Largest[tuple[Entry, int, int]] = Largest(_MOST_SHOWN)
        self._why, self._blocked = Reasons(), Reasons(by_number=True)
        self._states: Counter[str] = Counter()
        self._paths: Counter[str] = Counter()

    def add(self, entry: Entry) -> None:
        """One more cleaning."""
        state, removed = entry["state"], entry["removed"]
        self._states[state] += 1
        if state in ("failed", "conflict"):
            self._bad.add(state == "failed", _row(entry))
        elif entry["blocked"] or state == "ready for cleaning":
            self._waiting.add(len(entry["blocked"]), (*_row(entry), len(entry["blocked"])))
        for text in entry["blocked"]:
            # each says first what has to wait, then why
            path, _, reason = text.partition(": ")
            self._blocked.add(_UNTIL.sub("", reason or path), entry)
        if state == "ready for cleaning" and not entry["blocked"]:
            self._blocked.add(_UNTIL.sub("", entry["reason"]), entry)
        for one in removed:
            self._why.add(one["reason"], entry, amount=one["bytes"])
            self._paths["removed" if one["moved_to"] is None else "moved"] += 1
        if removed:
            bytes_gone = entry["bytes_removed"] + entry["bytes_moved"]
            self._freed.add(bytes_gone, ({**entry, "removed": (), "blocked": ()}, bytes_gone, len(removed)))

    def page(self, head: Entry) -> Page:
        """The page; `head` is the document without its entries."""
        states, totals = self._states, head["totals"]
        return Page(
            job=head["job"],
            headline=self._headline(totals),
            tone=Tone.BAD if states["failed"] or states["conflict"] else Tone.GOOD,
            lead=when(head),
            outcome=self._outcome(),
            remarks=remarks(head),
            attention=(*_failed(self._bad, "Places that could not be cleaned"), *self._blockers()),
            figures=self._figures(totals),
            listings=tuple(self._listings()),
            facts=facts(head),
            settings=settings(head),
        )

    def _headline(self, totals: Entry) -> str:
        states = self._states
        if not totals["requests"]:
            return "Nothing to clean"
        if states["planned"]:
            text = f"{size_text(totals['bytes_removed'])} would go at {plural(states['planned'], 'place')}"
        else:
            text = f"{states['succeeded']:,} of {plural(totals['requests'], 'place')} cleaned"
            text += f", {size_text(totals['bytes_removed'])} freed" if totals["bytes_removed"] else ""
        for state, words in (("ready for cleaning", "wait"), ("failed", "failed"), ("conflict", "in conflict")):
            if states[state]:
                text += f", {states[state]:,} {'waits' if (words, states[state]) == ('wait', 1) else words}"
        return text

    def _outcome(self) -> Figure | None:
        tones = {
            "succeeded": Tone.GOOD,
            "planned": Tone.FIRST,
            "ready for cleaning": Tone.WARNING,
            "failed": Tone.BAD,
            "conflict": Tone.BAD,
        }
        labels = {"succeeded": "cleaned", "planned": "to clean", "ready for cleaning": "wait"}
        segments = tuple(
            Segment(
                label=labels.get(state, state), value=f"{self._states[state]:,}", amount=self._states[state], tone=tone
            )
            for state, tone in tones.items()
            if self._states[state]
        )
        return Figure(label="Places by outcome", parts=segments) if segments else None

    def _figures(self, totals: Entry) -> tuple[Figure, ...]:
        is_dry = bool(self._states["planned"])
        found = [
            Figure(
                label="Space that would be won" if is_dry else "Space won",
                value=size_text(totals["bytes_removed"]),
                detail=f"{plural(self._paths['removed'], 'directory', 'directories')} and files",
            )
        ]
        if self._paths["moved"]:
            detail = f"{plural(self._paths['moved'], 'path')}; takes space until the trash is emptied"
            found.append(Figure(label="Moved to the trash", value=size_text(totals["bytes_moved"]), detail=detail))
        if self._waiting.count:
            found.append(Figure(label="Places where something waits", value=f"{self._waiting.count:,}"))
        return tuple(found) if totals["requests"] else ()

    def _blockers(self) -> tuple[Listing, ...]:
        waits = "What is obsolete and has to stay for now, by what it waits for."
        found = self._blocked.listing("What waits for whom", _MOST_REASONS, what="Times", text=waits, tone=Tone.WARNING)
        return () if found is None else (found,)

    def _listings(self) -> list[Listing]:
        found = (
            _waiting(self._waiting),
            self._why.listing("What went, and why", _MOST_REASONS, what="Paths", amount="Bytes", tone=Tone.GOOD),
            _freed(self._freed),
        )
        return [listing for listing in found if listing is not None]


def _row(entry: Entry) -> _Row:
    return name_of(entry), entry["location"], entry["reason"]


def _failed(bad: Largest[_Row], title: str) -> tuple[Listing, ...]:
    if not bad.count:
        return ()
    rows = tuple((Cell(text=name, detail=location), Cell(text=reason)) for name, location, reason in bad.items)
    return (Listing(title=title, columns=("Place", "Why"), rows=rows, rest=rest_text(bad.rest)),)


def _due(due: Largest[Entry]) -> Listing | None:
    if not due.count:
        return None
    columns = ("Place", "Decision", "Deltas", "In deltas", "In the base", "Ratio", "Why")
    rows = []
    for entry, share in zip(due.items, shares(entry["deltas"] for entry in due.items), strict=True):
        queued = "" if entry["queued"] is None else f"request {entry['queued']}"
        rows.append(
            (
                Cell(text=name_of(entry), detail=entry["location"]),
                Cell(text=entry["type"], detail=queued),
                Cell(text=UNKNOWN if entry["deltas"] is None else f"{entry['deltas']:,}", share=share, tone=Tone.FIRST),
                Cell(text=size_text(entry["delta_bytes"])),
                Cell(text=size_text(entry["base_bytes"])),
                Cell(text=UNKNOWN if entry["ratio"] is None else f"{entry['ratio']:.2f}"),
                Cell(text=entry["reason"], detail=_threshold(entry)),
            )
        )
    return Listing(
        title="Places to compact, those of most deltas first",
        columns=columns,
        rows=tuple(rows),
        figures=frozenset(columns[2:6]),
        rest=rest_text(due.rest),
    )


def _threshold(entry: Entry) -> str:
    if entry["threshold_key"] is None or entry["threshold"] is None:
        return ""
    source = f", {entry['threshold_source']}" if entry["threshold_source"] else ""
    return f"{entry['threshold_key']} = {entry['threshold']:g}{source}"


def _waiting(waiting: Largest[tuple[str, str, str, int]]) -> Listing | None:
    if not waiting.count:
        return None
    rows = tuple(
        (Cell(text=name, detail=location), Cell(text=reason), Cell(text=f"{paths:,}"))
        for name, location, reason, paths in waiting.items
    )
    columns = ("Place", "Why", "Paths that stay")
    rest = rest_text(waiting.rest)
    return Listing(
        title="Places where something waits", columns=columns, rows=rows, figures=frozenset(columns[2:]), rest=rest
    )


def _freed(freed: Largest[tuple[Entry, int, int]]) -> Listing | None:
    if not freed.count:
        return None
    rows = []
    for (entry, size, paths), share in zip(freed.items, shares(size for _, size, _ in freed.items), strict=True):
        rows.append(
            (
                Cell(text=name_of(entry), detail=entry["location"]),
                Cell(text=size_text(size), share=share, tone=Tone.GOOD),
                Cell(text=f"{paths:,}"),
                Cell(text=entry["reason"]),
            )
        )
    columns = ("Place", "Bytes", "Paths", "How it ended")
    return Listing(
        title="Places where most went",
        columns=columns,
        rows=tuple(rows),
        figures=frozenset(columns[1:3]),
        rest=rest_text(freed.rest),
    )
