"""The page of the status of all tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from acidlib.report.page.parts import (
    UNKNOWN,
    Cell,
    Entry,
    Figure,
    Listing,
    Page,
    Segment,
    Tone,
    facts,
    name_of,
    remarks,
    rest_text,
    settings,
    shares,
    size_text,
    when,
)
from acidlib.wording import age_words, plural

_MOST_FINDINGS, _MOST_TABLES, _MOST_BLOCKERS = 20, 30, 20
_TONES = {"ok": Tone.GOOD, "warning": Tone.WARNING, "error": Tone.BAD}
_STATES = {
    "initiated": Tone.FIRST,
    "working": Tone.SECOND,
    "ready for cleaning": Tone.WARNING,
    "failed": Tone.BAD,
    "succeeded": Tone.GOOD,
    "refused": Tone.QUIET,
}


class StatusFold:
    """Takes the entries of `tables`, the worst of which come first."""

    def __init__(self) -> None:
        self._tables: list[Entry] = []
        self._count = 0

    def add(self, entry: Entry) -> None:
        """One more table."""
        self._count += 1
        if len(self._tables) < _MOST_TABLES:
            self._tables.append(entry)

    def page(self, head: Entry) -> Page:
        """The page; `head` is the document without its entries."""
        counts = Counter(one["level"] for one in head["findings"])
        wrong = " and ".join(plural(counts[level], level) for level in ("error", "warning") if counts[level])
        headline = f"{wrong or 'Nothing is wrong'} in {plural(self._count, 'table')}"
        failed = next(one["count"] for one in head["totals"]["requests"] if one["state"] == "failed")
        if failed:
            headline += f", {plural(failed, 'request')} failed"
        blockers = head["blockers"] or ()
        waits = _blockers(blockers)
        found = (*_worst_places(head["totals"]), self._listing())
        return Page(
            job=head["job"],
            headline=headline,
            tone=_TONES[head["level"]],
            lead=when(head),
            remarks=remarks(head),
            attention=(*_findings(head["findings"]), *(() if waits is None else (waits,))),
            figures=(*_figures(head), *_requests(head["totals"])),
            listings=tuple(listing for listing in found if listing is not None),
            facts=facts(head),
            settings=settings(head),
        )

    def _listing(self) -> Listing | None:
        if not self._tables:
            return None
        columns = ("Table", "Level", "Requests", "Most deltas", "Worst ratio", "To clean", "Aborted write ids")
        rows = []
        dirt = shares(one["obsolete_bytes"] for one in self._tables)
        for one, share in zip(self._tables, dirt, strict=True):
            waiting = [f"{entry['count']:,} {entry['state']}" for entry in one["requests"] if entry["count"]]
            deltas, ratio = one["most_deltas"], one["worst_ratio"]
            rows.append(
                (
                    Cell(text=f"{one['database']}.{one['table']}"),
                    Cell(text=one["level"], detail=_count(one["findings"], "finding"), tone=_TONES[one["level"]]),
                    Cell(text=", ".join(waiting) or "none"),
                    Cell(text=f"{deltas[0]['deltas']:,}" if deltas else UNKNOWN),
                    Cell(text=f"{ratio[0]['ratio']:.2f}" if ratio else UNKNOWN),
                    Cell(text=size_text(one["obsolete_bytes"]), share=share, tone=Tone.WARNING),
                    Cell(text=UNKNOWN if one["aborted_write_ids"] is None else f"{one['aborted_write_ids']:,}"),
                )
            )
        return Listing(
            title="Tables, the worst first",
            columns=columns,
            rows=tuple(rows),
            figures=frozenset(columns[3:]),
            rest=rest_text(self._count - len(rows), "table"),
        )


def _count(number: int, noun: str) -> str:
    return plural(number, noun) if number else ""


def _findings(findings: Sequence[Entry]) -> tuple[Listing, ...]:
    if not findings:
        return ()
    rows = tuple(
        (
            Cell(text=one["trouble"], detail=one["level"], tone=_TONES[one["level"]]),
            Cell(text=name_of(one) or "all tables", detail=one["location"] or ""),
            Cell(text=one["reason"], detail="" if one["setting"] is None else f"the limit is {one['setting']}"),
        )
        for one in findings[:_MOST_FINDINGS]
    )
    kinds = Counter(one["trouble"] for one in findings)
    text = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
    rest = rest_text(len(findings) - len(rows), "finding")
    return (Listing(title="Findings", columns=("What", "Where", "Why"), rows=rows, text=text, rest=rest),)


def _figures(head: Entry) -> tuple[Figure, ...]:
    totals, found = head["totals"], []
    if totals["looked_at"] is not None:
        found.append(
            Figure(label="Places looked at", value=f"{totals['looked_at']:,}", detail=f"of {totals['places'] or 0:,}")
        )
        worst = totals["most_deltas"]
        if worst:
            found.append(Figure(label="Most deltas", value=f"{worst[0]['deltas']:,}", detail=name_of(worst[0])))
        found.append(Figure(label="Waits for cleaning", value=size_text(totals["obsolete_bytes"])))
    txns = head["transactions"]
    if txns is not None:
        oldest = txns["oldest_open"]
        found.append(Figure(label="Open transactions", value=f"{txns['open']:,}", detail=_holder(oldest)))
        found.append(
            Figure(label="Aborted transactions", value=f"{txns['aborted']:,}", detail=_holder(txns["oldest_aborted"]))
        )
    if totals["failed_in_a_row"] > 1:
        found.append(
            Figure(
                label="Failures in a row", value=f"{totals['failed_in_a_row']:,}", detail=totals["failed_place"] or ""
            )
        )
    return tuple(found)


def _holder(one: Entry | None) -> str:
    if one is None:
        return ""
    since = "" if one["age"] is None else f", for {age_words(one['age'])}"
    return f"the oldest: {one['id']} of {one['user']} at {one['host']}{since}"


def _requests(totals: Entry) -> tuple[Figure, ...]:
    segments = tuple(
        Segment(
            label=_state(one),
            value=f"{one['count']:,}",
            amount=one["count"],
            tone=_STATES.get(one["state"], Tone.PLAIN),
        )
        for one in totals["requests"]
        if one["count"]
    )
    count = f"{sum(one['count'] for one in totals['requests']):,}"
    return (Figure(label="Requests by state", value=count, parts=segments),) if segments else ()


def _state(one: Entry) -> str:
    return (
        one["state"] if one["oldest_age"] is None else f"{one['state']}, the oldest for {age_words(one['oldest_age'])}"
    )


def _blockers(blockers: Sequence[Entry]) -> Listing | None:
    """Who is in the way of how many cleanings, those of most first."""
    by_holder: dict[tuple[str, int], list[Entry]] = {}
    for one in blockers:
        by_holder.setdefault((one["kind"], one["id"]), []).append(one)
    groups = sorted(by_holder.values(), key=lambda group: -len(group))
    if not groups:
        return None
    rows = []
    for group, share in zip(groups[:_MOST_BLOCKERS], shares(len(group) for group in groups), strict=False):
        one = group[0]
        rows.append(
            (
                Cell(text=f"{one['kind']} {one['id']}", detail=f"{one['user']} at {one['host']}"),
                Cell(text=UNKNOWN if one["age"] is None else age_words(one["age"])),
                Cell(text=f"{len(group):,}", share=share, tone=Tone.WARNING),
                Cell(text=name_of(one), detail=f"request {one['request_id']}"),
            )
        )
    return Listing(
        title="What waits for whom",
        columns=("In the way", "Since", "Cleanings that wait", "For example"),
        rows=tuple(rows),
        figures=frozenset({"Since", "Cleanings that wait"}),
        text="Open transactions and locks that keep requests from being cleaned.",
        rest=rest_text(len(groups) - len(rows), "holder"),
    )


def _worst_places(totals: Entry) -> list[Listing]:
    kinds = (
        ("Places of most deltas", "most_deltas", "deltas", "Deltas", lambda value: f"{value:,}"),
        ("Places of the worst ratio", "worst_ratio", "ratio", "Deltas to base", lambda value: f"{value:.2f}"),
        ("Places with most to clean", "most_obsolete", "obsolete_bytes", "Bytes", size_text),
    )
    found = []
    for title, key, figure, column, text in kinds:
        places = totals[key]
        if places:
            bars = shares(place[figure] for place in places)
            rows = tuple(
                (
                    Cell(text=name_of(one), detail=one["location"]),
                    Cell(text=text(one[figure]), share=bar, tone=Tone.FIRST),
                )
                for one, bar in zip(places, bars, strict=True)
            )
            found.append(Listing(title=title, columns=("Place", column), rows=rows, figures=frozenset({column})))
    return found
