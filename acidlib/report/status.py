"""The status of all tables as JSON and as text for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from acidlib.model.names import Generation
from acidlib.model.requests import State
from acidlib.model.tables import TableRef
from acidlib.planning.health import Figures, Finding, InState, Level, PlaceFigures, Status, Transaction, Waits
from acidlib.report.results import EXIT_DONE, EXIT_HAS_ERRORS, EXIT_HAS_WARNINGS
from acidlib.report.text import fitted, wrapped
from acidlib.wording import age_words, human_bytes, plural

# --- status -----------------------------------------------------------------------------------------------------------
# The status of all tables as JSON; ages are seconds.


def exit_status(level: Level, fail_on: Level | None) -> int:
    """By the worst finding, where it is at least as bad as `fail_on`; None: never."""
    if fail_on is None or level is Level.OK or level < fail_on:
        return EXIT_DONE
    return EXIT_HAS_ERRORS if level is Level.ERROR else EXIT_HAS_WARNINGS


def status_document(status: Status, generation: Generation) -> dict[str, Any]:
    """The fields of the JSON document that are the status's own."""
    return {
        "level": status.totals.level.label,
        "findings": [finding_document(one) for one in status.findings],
        "totals": figures_document(status.totals, generation),
        "tables": [figures_document(one, generation) for one in status.tables],
        "transactions": None
        if status.open_count is None
        else {
            "open": status.open_count,
            "aborted": status.aborted_count,
            "oldest_open": _transaction(status.oldest_open),
            "oldest_aborted": _transaction(status.oldest_aborted),
        },
        "blockers": None if status.waits is None else [waits_document(one) for one in status.waits],
    }


def finding_document(one: Finding) -> dict[str, Any]:
    """An entry of `findings`."""
    return {
        "level": one.level.label,
        "trouble": one.trouble.value,
        **_names(one.ref),
        "location": one.location,
        "reason": one.reason,
        "setting": one.setting,
    }


def figures_document(one: Figures, generation: Generation) -> dict[str, Any]:
    """An entry of `tables`, and `totals`, where database and table are null."""
    return {
        "database": one.ref and one.ref.database,
        "table": one.ref and one.ref.table,
        "level": one.level.label,
        "findings": one.findings,
        "requests": [_in_state(state.label_of(generation), one.requests[state]) for state in State],
        "failed_in_a_row": one.failed,
        "failed_place": one.failed_name,
        "refused_in_a_row": one.refused,
        "refused_place": one.refused_name,
        "blockers": one.blockers,
        "aborted_write_ids": one.aborted_write_ids,
        "places": one.places,
        "looked_at": one.looked_at,
        "most_deltas": [_place(place) for place in one.most_deltas],
        "worst_ratio": [_place(place) for place in one.worst_ratio],
        "most_obsolete": [_place(place) for place in one.most_obsolete],
        "obsolete_bytes": one.obsolete_bytes,
    }


def waits_document(one: Waits) -> dict[str, Any]:
    """An entry of `blockers`."""
    return {
        "request_id": one.request_id,
        **_names(one.ref),
        "kind": one.kind,
        "id": one.id,
        "user": one.user,
        "host": one.host,
        "age": one.age,
    }


def _names(ref: TableRef | None) -> dict[str, str | None]:
    return dict.fromkeys(TableRef._fields) if ref is None else ref._asdict()


def _in_state(state: str, one: InState) -> dict[str, Any]:
    return {"state": state, "count": one.count, "oldest_age": one.oldest, "oldest_place": one.name}


def _place(one: PlaceFigures) -> dict[str, Any]:
    return {
        **_names(one.ref),
        "location": one.location,
        "deltas": one.deltas,
        "small_deltas": one.small_deltas,
        "base_bytes": one.base_bytes,
        "delta_bytes": one.delta_bytes,
        "ratio": one.ratio,
        "obsolete": one.obsolete,
        "obsolete_bytes": one.obsolete_bytes,
    }


def _transaction(one: Transaction | None) -> dict[str, Any] | None:
    return None if one is None else {"id": one.id, "user": one.user, "host": one.host, "age": one.age}


# --- status text ------------------------------------------------------------------------------------------------------
# The status of all tables for people, on 80 columns: what is wrong comes first, then the figures, then the tables.

_LABEL = 14
_SHOWN_OF_A_KIND = 5
_TABLES_SHOWN = 20
_PLACES_SHOWN = 3
_TITLES = ("Table", "Level", "Init", "Work", "Ready", "Failed", "Deltas", "Ratio", "To clean", "Aborted")


def status_text(status: Status, generation: Generation) -> str:
    """All of it; of findings of one kind the first few, and how many others there are."""
    lines = [
        _summary(status),
        "",
        *_requests(status.totals, generation),
        *_transactions(status),
        *_blockers(status.waits or ()),
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


def _oldest(one: InState) -> str:
    return "" if one.oldest is None else f", the oldest since {age_words(one.oldest)}: {one.name}"


def _transactions(status: Status) -> Iterator[str]:
    if status.open_count is None:
        return
    yield from _fact("Transactions", f"{status.open_count:,} open{_holder(status.oldest_open)}")
    yield from _fact("", f"{status.aborted_count:,} aborted{_holder(status.oldest_aborted)}")
    if status.totals.aborted_write_ids is not None:
        yield from _fact("", f"{plural(status.totals.aborted_write_ids, 'aborted write id')}")


def _blockers(waits: Iterable[Waits]) -> Iterator[str]:
    """Who is in the way of how many cleanings, those of most first."""
    by_holder: dict[tuple[str, int], list[Waits]] = {}
    for one in waits:
        by_holder.setdefault((one.kind, one.id), []).append(one)
    most_first = sorted(by_holder.values(), key=lambda group: (-len(group), group[0].id))
    for number, group in enumerate(most_first[:_SHOWN_OF_A_KIND]):
        one = group[0]
        since = "" if one.age is None else f", there since {age_words(one.age)}"
        others = f" and {len(group) - 1:,} more" if len(group) > 1 else ""
        who = f"{one.kind} {one.id} of {one.user} at {one.host}{since}"
        yield from _fact("In the way" if number == 0 else "", f"{who}: of cleaning {one.ref}{others}")
    if len(most_first) > _SHOWN_OF_A_KIND:
        yield from _fact("", f"and {len(most_first) - _SHOWN_OF_A_KIND:,} more; --output json tells of each")


def _holder(one: Transaction | None) -> str:
    if one is None:
        return ""
    since = "" if one.age is None else f" since {age_words(one.age)}"
    return f", the oldest {one.id}{since}: {one.user} at {one.host}"


def _places(totals: Figures) -> Iterator[str]:
    if totals.looked_at is None:
        yield from _fact("Places", "none was looked at")
        return
    yield from _fact("Places", f"{totals.looked_at:,} of {totals.places or 0:,} were looked at")
    worst: tuple[tuple[str, Sequence[PlaceFigures], Callable[[PlaceFigures], str]], ...] = (
        ("most deltas", totals.most_deltas, lambda place: f"{place.deltas:,}"),
        ("worst ratio of deltas to base", totals.worst_ratio, lambda place: f"{place.ratio:,.2f}"),
        ("most that waits for cleaning", totals.most_obsolete, lambda place: human_bytes(place.obsolete_bytes)),
    )
    for what, places, figure in worst:
        for number, place in enumerate(places[:_PLACES_SHOWN]):
            yield from _fact("", f"{what if number == 0 else 'then'}: {figure(place)} at {place.ref}")
    if totals.obsolete_bytes:
        yield from _fact("", f"{human_bytes(totals.obsolete_bytes)} wait for cleaning in all")


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    """Grouped by kind, the worst kinds first; the line of each says what it is about."""
    kinds = sorted(findings, key=lambda one: (-one.level, one.trouble.value))
    for (level, trouble), group in groupby(kinds, key=lambda one: (one.level, one.trouble)):
        some = list(group)
        shown = some if len(some) <= _SHOWN_OF_A_KIND + 1 else some[:_SHOWN_OF_A_KIND]
        for one in shown:
            about = "" if one.ref is None else f"{one.ref}: "
            where = "" if one.location is None or one.location in one.reason else f" ({one.location})"
            line = f"{level.label:<8}{about}{trouble.value}: {one.reason}{where}"
            yield from wrapped(line, "", " " * 8)
        if len(shown) < len(some):
            yield f"{'':<8}and {len(some) - len(shown):,} more: {trouble.value}"


def _tables(tables: Sequence[Figures]) -> Iterator[str]:
    rows = [_TITLES, *(_row(one) for one in tables[:_TABLES_SHOWN])]
    yield from fitted(rows, right=range(2, len(_TITLES)))
    if len(tables) > _TABLES_SHOWN:
        yield f"and {plural(len(tables) - _TABLES_SHOWN, 'more table')}; --output json tells of each"


def _row(one: Figures) -> tuple[str, ...]:
    was_listed = one.obsolete_bytes is not None
    deltas = one.most_deltas[0].deltas if one.most_deltas else 0
    ratio = one.worst_ratio[0].ratio if one.worst_ratio else 0
    return (
        str(one.ref),
        one.level.label,
        *(str(one.requests[state].count) for state in (State.INITIATED, State.WORKING, State.READY_FOR_CLEANING)),
        str(one.failed),
        str(deltas) if was_listed else "-",
        f"{ratio:.1f}" if was_listed else "-",
        "-" if one.obsolete_bytes is None else human_bytes(one.obsolete_bytes),
        "-" if one.aborted_write_ids is None else str(one.aborted_write_ids),
    )


def _fact(label: str, text: str) -> list[str]:
    return wrapped(f"{label:<{_LABEL}}{text}", "", " " * _LABEL)
