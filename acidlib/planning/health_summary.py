"""The status of all tables out of what one look saw: every rule is asked, and the figures are summed."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from acidlib.model.requests import CompactionRequest, State
from acidlib.planning.health import Figures, Finding, InState, Lake, Level, Limits, PlaceFigures, Status
from acidlib.planning.health_rules import (
    about_aborted,
    about_blockers,
    about_failures,
    about_history,
    about_hosts,
    about_place,
    about_requests,
    about_rolled_back,
    about_transactions,
    age_of,
    in_a_row,
)

Item = TypeVar("Item")
Table = tuple[str, str]
_WORST = 5
_QUEUED = (State.INITIATED, State.WORKING, State.READY_FOR_CLEANING)


def status_of(lake: Lake, limits: Limits) -> Status:
    """Every finding, worst first, then by name; figures of all and of each table, the worst table first."""
    histories = list(_histories(lake))
    findings = sorted(_findings(lake, limits, histories), key=_order)
    tables = sorted(_tables(lake, histories, findings), key=lambda one: (-one.level, -one.findings, _name(one)))
    txns = lake.transactions
    opened = [one for one in txns or () if one.is_open]
    aborted = [one for one in txns or () if not one.is_open]
    totals = _figures(lake, histories, findings, lake.requests, lake.places)
    return Status(
        findings=tuple(findings),
        totals=replace(
            totals,
            places=lake.known_places,
            blockers=len(lake.waits or ()),
            aborted_write_ids=sum(lake.aborted.values()) if _knows_write_ids(lake) else None,
        ),
        tables=tuple(tables),
        oldest_open=max(opened, key=lambda one: one.age or 0, default=None),
        oldest_aborted=max(aborted, key=lambda one: one.age or 0, default=None),
        open_count=None if txns is None else len(opened),
        aborted_count=None if txns is None else len(aborted),
        waits=lake.waits,
    )


def _findings(lake: Lake, limits: Limits, histories: Sequence[Sequence[CompactionRequest]]) -> Iterator[Finding]:
    yield from lake.found
    yield from about_requests(lake.requests, limits, lake.now_ms, gone=lake.gone, tells_queued=lake.tells_queued)
    for history in histories:
        yield from about_history(history, limits)
    yield from about_failures((rows[0].state for rows in histories), limits)
    yield from about_hosts(lake.hosts, lake.versions)
    yield from about_transactions(lake.transactions or (), limits)
    yield from about_rolled_back(lake.transactions or (), lake.aborted, lake.uncleaned, limits)
    yield from about_aborted(lake.aborted, limits)
    yield from about_blockers(lake.waits or (), limits)
    for place in lake.places or ():
        yield from about_place(place, limits)


def _histories(lake: Lake) -> Iterable[list[CompactionRequest]]:
    """The requests of each place, newest first; ids of two queues say nothing of each other."""
    found: dict[object, list[CompactionRequest]] = {}
    for row in sorted(lake.requests, key=lambda row: row.id, reverse=True):
        place = (row.facts.location, row.entity) if lake.by_location else (row.facts.metastore, row.entity)
        found.setdefault(place, []).append(row)
    return found.values()


def _tables(
    lake: Lake, histories: Sequence[Sequence[CompactionRequest]], findings: Sequence[Finding]
) -> Iterator[Figures]:
    requests = _by_table(lake.requests, lambda row: (row.database, row.table))
    of_history = _by_table(histories, lambda rows: (rows[0].database, rows[0].table))
    places = _by_table(lake.places or (), lambda place: (place.database, place.table))
    wrong = _by_table(findings, lambda one: (one.database or "", one.table or ""))
    waits = _by_table(lake.waits or (), lambda one: (one.database, one.table))
    for table in sorted({*requests, *places, *(name for name, count in lake.aborted.items() if count)}):
        figures = _figures(
            lake,
            of_history.get(table, []),
            wrong.get(table, []),
            requests.get(table, []),
            None if lake.places is None else places.get(table, []),
        )
        aborted = lake.aborted.get(table, 0) if _knows_write_ids(lake) else None
        blockers = len(waits.get(table, ()))
        yield replace(figures, database=table[0], table=table[1], aborted_write_ids=aborted, blockers=blockers)


def _knows_write_ids(lake: Lake) -> bool:
    """Whether tables were asked for, and a metastore that remembers what was aborted."""
    return lake.transactions is not None and lake.places is not None


def _figures(
    lake: Lake,
    histories: Sequence[Sequence[CompactionRequest]],
    findings: Sequence[Finding],
    requests: Sequence[CompactionRequest],
    places: Sequence[PlaceFigures] | None,
) -> Figures:
    failed, failed_name = _longest(histories, State.FAILED)
    refused, refused_name = _longest(histories, State.REFUSED)
    looked = None if places is None else [place for place in places if place.problem is None]
    return Figures(
        level=max((one.level for one in findings), default=Level.OK),
        findings=len(findings),
        requests={state: _in_state(requests, state, lake.now_ms) for state in State},
        failed=failed,
        failed_name=failed_name,
        refused=refused,
        refused_name=refused_name,
        looked_at=None if places is None else len(places),
        most_deltas=_worst(looked, lambda place: place.deltas),
        worst_ratio=_worst(looked, lambda place: place.ratio or 0),
        most_obsolete=_worst(looked, lambda place: place.obsolete_bytes),
        obsolete_bytes=sum(place.obsolete_bytes for place in looked) if looked else None,
    )


def _worst(places: Iterable[PlaceFigures] | None, figure: Callable[[PlaceFigures], float]) -> tuple[PlaceFigures, ...]:
    """The first few by a figure, of those that have any of it."""
    return tuple(heapq.nlargest(_WORST, (place for place in places or () if figure(place)), key=figure))


def _in_state(requests: Iterable[CompactionRequest], state: State, now_ms: int) -> InState:
    rows = [row for row in requests if row.state is state]
    ages = [(age, row.full_name) for row in rows if (age := age_of(row, now_ms)) is not None]
    oldest, name = max(ages) if ages and state in _QUEUED else (None, None)
    return InState(count=len(rows), oldest=oldest, name=name)


def _longest(histories: Iterable[Sequence[CompactionRequest]], state: State) -> tuple[int, str | None]:
    rows = [(in_a_row(history, state), history[0].full_name) for history in histories]
    longest, name = max(rows, default=(0, None))
    return longest, name if longest else None


def _by_table(items: Iterable[Item], table: Callable[[Item], Table]) -> dict[Table, list[Item]]:
    found: dict[Table, list[Item]] = {}
    for item in items:
        found.setdefault(table(item), []).append(item)
    return found


def _order(one: Finding) -> tuple[int, str, str]:
    return -one.level, one.name or "", one.trouble.value


def _name(one: Figures) -> tuple[str, str]:
    return one.database or "", one.table or ""
