"""The status of all tables as JSON; ages are seconds."""

from __future__ import annotations

from typing import Any

from acidlib.model.generation import Generation
from acidlib.model.requests import State
from acidlib.planning.health import Figures, Finding, InState, Level, PlaceFigures, Status, Transaction, Waits
from acidlib.report.results import EXIT_DONE, EXIT_HAS_ERRORS, EXIT_HAS_WARNINGS


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
        "database": one.database,
        "table": one.table,
        "partition": one.partition,
        "location": one.location,
        "reason": one.reason,
        "setting": one.setting,
    }


def figures_document(one: Figures, generation: Generation) -> dict[str, Any]:
    """An entry of `tables`, and `totals`, where database and table are null."""
    return {
        "database": one.database,
        "table": one.table,
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
        "database": one.database,
        "table": one.table,
        "partition": one.partition,
        "kind": one.kind,
        "id": one.id,
        "user": one.user,
        "host": one.host,
        "age": one.age,
    }


def _in_state(state: str, one: InState) -> dict[str, Any]:
    return {"state": state, "count": one.count, "oldest_age": one.oldest, "oldest_place": one.name}


def _place(one: PlaceFigures) -> dict[str, Any]:
    return {
        "database": one.database,
        "table": one.table,
        "partition": one.partition,
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
