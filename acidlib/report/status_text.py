"""The status of all tables for people, on 80 columns: what is wrong comes first, then the figures, then the tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from acidlib.model.generation import Generation
from acidlib.model.requests import State
from acidlib.planning.health import Figures, Finding, InState, Level, Status, Transaction
from acidlib.planning.health_rules import words
from acidlib.report.text import NARROW, fitted, human_bytes, plural, wrapped

_LABEL = 14
_SHOWN_OF_A_KIND = 5
_TABLES_SHOWN = 20
_TITLES = ("Table", "Level", "Init", "Work", "Ready", "Failed", "Deltas", "Ratio", "To clean", "Aborted")


def status_text(status: Status, generation: Generation) -> str:
    """All of it; of findings of one kind the first few, and how many others there are."""
    lines = [
        _summary(status),
        "",
        *_requests(status.totals, generation),
        *_transactions(status),
        *_places(status.totals),
    ]
    if status.findings:
        lines += ["", *_findings(status.findings)]
    if status.tables:
        lines += ["", *_tables(status.tables)]
    return "\n".join(lines)


def _summary(status: Status) -> str:
    counts = {level: sum(one.level is level for one in status.findings) for level in (Level.ERROR, Level.WARNING)}
    wrong = ", ".join(plural(count, level.label) for level, count in counts.items() if count)
    level = status.totals.level.label.upper()
    return f"{level}: {wrong or 'nothing is wrong'} in {plural(len(status.tables), 'table')}"


def _requests(totals: Figures, generation: Generation) -> Iterator[str]:
    label = "Requests"
    for state in (State.INITIATED, State.WORKING, State.READY_FOR_CLEANING):
        one = totals.requests[state]
        yield from _fact(label, f"{one.count:,} {state.label_of(generation)}{_oldest(one)}")
        label = ""
    ended = (State.FAILED, State.REFUSED, State.ATTEMPTED, State.SUCCEEDED)
    counts = ", ".join(f"{totals.requests[state].count:,} {state.label_of(generation)}" for state in ended)
    yield from _fact("", f"in the history: {counts}")
    for count, name, what in (
        (totals.failed, totals.failed_name, "failed"),
        (totals.refused, totals.refused_name, "were refused"),
    ):
        if count > 1:
            yield from _fact("", f"the last {count} {what} at {name}")
    if totals.blockers:
        yield from _fact("", f"{plural(totals.blockers, 'transaction or lock', 'transactions and locks')} in the way")


def _oldest(one: InState) -> str:
    return "" if one.oldest is None else f", the oldest since {words(one.oldest)}: {one.name}"


def _transactions(status: Status) -> Iterator[str]:
    if status.open_count is None:
        return
    yield from _fact("Transactions", f"{status.open_count:,} open{_holder(status.oldest_open)}")
    yield from _fact("", f"{status.aborted_count:,} aborted{_holder(status.oldest_aborted)}")
    if status.totals.aborted_write_ids is not None:
        yield from _fact("", f"{plural(status.totals.aborted_write_ids, 'aborted write id')}")


def _holder(one: Transaction | None) -> str:
    if one is None:
        return ""
    since = "" if one.age is None else f" since {words(one.age)}"
    return f", the oldest {one.id}{since}: {one.user} at {one.host}"


def _places(totals: Figures) -> Iterator[str]:
    if totals.looked_at is None:
        yield from _fact("Places", "none was looked at")
        return
    yield from _fact("Places", f"{totals.looked_at:,} of {totals.places or 0:,} were looked at")
    if totals.most_deltas is not None and totals.most_deltas.deltas:
        yield from _fact("", f"most deltas: {totals.most_deltas.deltas:,} at {totals.most_deltas.name}")
    if totals.worst_ratio is not None and totals.worst_ratio.ratio:
        worst = totals.worst_ratio
        yield from _fact("", f"worst ratio of deltas to base: {worst.ratio:,.2f} at {worst.name}")
    if totals.obsolete_bytes and totals.most_obsolete is not None:
        most = f"most at {totals.most_obsolete.name}: {human_bytes(totals.most_obsolete.obsolete_bytes)}"
        yield from _fact("", f"{human_bytes(totals.obsolete_bytes)} wait for cleaning, {most}")


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    """Grouped by kind, the worst kinds first; the line of each says what it is about."""
    kinds = sorted(findings, key=lambda one: (-one.level, one.trouble.value))
    for (level, trouble), group in groupby(kinds, key=lambda one: (one.level, one.trouble)):
        some = list(group)
        shown = some if len(some) <= _SHOWN_OF_A_KIND + 1 else some[:_SHOWN_OF_A_KIND]
        for one in shown:
            about = "" if one.name is None else f"{one.name}: "
            where = "" if one.location is None or one.location in one.reason else f" ({one.location})"
            line = f"{level.label:<8}{about}{trouble.value}: {one.reason}{where}"
            yield from wrapped(line, "", " " * 8, width=NARROW)
        if len(shown) < len(some):
            yield f"{'':<8}and {len(some) - len(shown):,} more: {trouble.value}"


def _tables(tables: Sequence[Figures]) -> Iterator[str]:
    rows = [_TITLES, *(_row(one) for one in tables[:_TABLES_SHOWN])]
    yield from fitted(rows, right=range(2, len(_TITLES)))
    if len(tables) > _TABLES_SHOWN:
        yield f"and {plural(len(tables) - _TABLES_SHOWN, 'more table')}; --output json tells of each"


def _row(one: Figures) -> tuple[str, ...]:
    deltas, ratio = one.most_deltas, one.worst_ratio
    return (
        f"{one.database}.{one.table}",
        one.level.label,
        *(str(one.requests[state].count) for state in (State.INITIATED, State.WORKING, State.READY_FOR_CLEANING)),
        str(one.failed),
        "-" if deltas is None else str(deltas.deltas),
        "-" if ratio is None or ratio.ratio is None else f"{ratio.ratio:.1f}",
        "-" if one.obsolete_bytes is None else human_bytes(one.obsolete_bytes),
        "-" if one.aborted_write_ids is None else str(one.aborted_write_ids),
    )


def _fact(label: str, text: str) -> list[str]:
    return wrapped(f"{label:<{_LABEL}}{text}", "", " " * _LABEL, width=NARROW)
