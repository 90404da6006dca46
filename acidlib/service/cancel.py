"""Withdraws requests that nobody works on yet; of each that is named, one answer.

Source of the rule: Hive 4 `AbortCompactionFunction`. A queue in SQL is changed in one statement that finds a request
only while it waits, so that no worker, ours or Hive's, can have taken it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from acidlib.metastore.hms import Hms
from acidlib.model.names import Generation
from acidlib.model.requests import CompactionRequest, State
from acidlib.queue.sql import SqlQueue
from acidlib.report.results import Cancellation, Outcome
from acidlib.service.environment import Environment
from acidlib.service.open import connect, open_queue

_SUCCESS = "Success"
"""How the answer of a metastore begins for what it has withdrawn."""


def cancel(where: Environment, ids: Sequence[int], *, now_ms: int, dry_run: bool) -> list[Cancellation]:
    """Withdraw requests, or say what that would do.

    A number may be one of ours and one of Hive 3.1's own queue: then it is ours that is meant.
    """
    numbers = list(dict.fromkeys(ids))
    if not where.metastore:
        with open_queue(where) as queue:
            return _in_sql(where, queue, numbers, None, now_ms=now_ms, dry_run=dry_run)
    with connect(where) as hms:
        if hms.generation is Generation.HIVE4:
            return _at_hive4(hms, numbers, dry_run=dry_run)
        with open_queue(where) as queue:
            return _in_sql(where, queue, numbers, hms, now_ms=now_ms, dry_run=dry_run)


def _in_sql(
    where: Environment, queue: SqlQueue, ids: Sequence[int], hms: Hms | None, *, now_ms: int, dry_run: bool
) -> list[Cancellation]:
    is_ours = queue.schema_version is None
    elsewhere = {row.id: row for row in hms.show_compactions()} if hms is not None and is_ours else {}
    name = where.metastore_name if hms is not None and is_ours else None

    def about(number: int) -> Cancellation:
        row = queue.find(number)
        if row is not None and is_ours and row.facts.metastore != name:
            whose = f"of the metastore {row.facts.metastore}" if row.facts.metastore else "of a directory alone"
            return _answer(row, Outcome.REFUSED, f"it is {whose}: name that with --metastore-uri (or none)")
        if row is None and number in elsewhere:
            why = "it is in the metastore's own queue, which no call changes: give --queue-url of its database"
            return _answer(elsewhere[number], Outcome.REFUSED, why)
        return _missing(number) if row is None else _answer(row, *_can_be(row))

    found = {number: about(number) for number in ids}
    wanted = [number for number, one in found.items() if one.state is Outcome.PLANNED]
    if dry_run or not wanted:
        return list(found.values())
    aborted = queue.abort(wanted, f"cancelled by {where.user} on {where.host}", now_ms)
    # what a worker has taken in between is told as it is now
    return [_done(one) if number in aborted else about(number) for number, one in found.items()]


def _at_hive4(hms: Hms, ids: Sequence[int], *, dry_run: bool) -> list[Cancellation]:
    rows = {row.id: row for row in hms.show_compactions()}
    found = {number: _answer(rows[number], *_can_be(rows[number])) if number in rows else _missing(number)
             for number in ids}  # fmt: skip
    wanted = [number for number, one in found.items() if one.state is Outcome.PLANNED]
    if dry_run or not wanted:
        return list(found.values())
    told = hms.abort_compactions(wanted)
    for number in wanted:
        says = told.get(number, "nothing")
        why = f"the metastore says: {says}; see acidlib show"
        is_done = says.startswith(_SUCCESS)
        found[number] = _done(found[number]) if is_done else _answer(rows[number], Outcome.REFUSED, why)
    return list(found.values())


def _can_be(row: CompactionRequest) -> tuple[Outcome, str]:
    """Return whether a request can be withdrawn, and what to do where it cannot."""
    match row.state:
        case State.INITIATED:
            return Outcome.PLANNED, "it waits, and would be withdrawn"
        case State.WORKING:
            return (
                Outcome.REFUSED,
                f"{row.worker_id} works on it: end that run, which gives it back, and call again",
            )
        case State.READY_FOR_CLEANING:
            return Outcome.REFUSED, "it is done, and awaits the cleaner: acidlib undo takes a result back"
        case _:
            return Outcome.REFUSED, f"it has ended before, as {row.state.label}"


def _done(planned: Cancellation) -> Cancellation:
    return replace(planned, state=Outcome.CANCELLED, reason="it is withdrawn, and ends as aborted")


def _answer(row: CompactionRequest, state: Outcome, reason: str) -> Cancellation:
    return Cancellation(
        id=row.id,
        ref=row.ref,
        type=row.type.label.lower(),
        state=state,
        reason=reason,
    )


def _missing(number: int) -> Cancellation:
    return Cancellation(id=number, state=Outcome.MISSING, reason="there is no such request; see acidlib show")
