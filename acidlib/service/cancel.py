"""Withdrawing requests that no worker has yet; of each that is named, one answer.

Source of the rule: Hive 4 `AbortCompactionFunction`. A queue in SQL is changed in one statement that finds a request
only while it waits, so that no worker, ours or Hive's, can have taken it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from acidlib.metastore.hms import Hms
from acidlib.model.names import Generation
from acidlib.model.requests import CompactionRequest, State
from acidlib.queue.sql import SqlQueue
from acidlib.report.results import Cancellation, Outcome
from acidlib.service.environment import Environment
from acidlib.service.open import connect, open_queue


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
            return _refused(row, f"it is {whose}: name that with --metastore-uri (or none)")
        if row is None and number in elsewhere:
            why = "it is in the metastore's own queue, which no call changes: give --queue-url of its database"
            return _refused(elsewhere[number], why)
        return _can_be(number, row)

    def withdraw(wanted: Sequence[int]) -> list[Cancellation]:
        aborted = queue.abort(wanted, f"cancelled by {where.user} on {where.host}", now_ms)
        # what a worker has taken in between is told as it is now
        return [about(number) for number in wanted if number not in aborted]

    return _cancelled([about(number) for number in ids], withdraw, dry_run=dry_run)


def _at_hive4(hms: Hms, ids: Sequence[int], *, dry_run: bool) -> list[Cancellation]:
    rows = {row.id: row for row in hms.show_compactions()}

    def withdraw(wanted: Sequence[int]) -> list[Cancellation]:
        said = hms.abort_compactions(wanted)
        return [
            _refused(rows[number], f"the metastore says: {said.get(number, 'nothing')}; see acidlib show")
            for number in wanted
            if not said.get(number, "").startswith("Success")
        ]

    return _cancelled([_can_be(number, rows.get(number)) for number in ids], withdraw, dry_run=dry_run)


def _cancelled(
    planned: Sequence[Cancellation], withdraw: Callable[[Sequence[int]], Collection[Cancellation]], *, dry_run: bool
) -> list[Cancellation]:
    """Return what became of each; `withdraw` withdraws requests, and returns those that it could not."""
    wanted = [one.id for one in planned if one.state is Outcome.PLANNED]
    if dry_run or not wanted:
        return [*planned]
    left = {one.id: one for one in withdraw(wanted)}
    return [
        left.get(one.id) or replace(one, state=Outcome.CANCELLED, reason="it is withdrawn, and ends as aborted")
        if one.state is Outcome.PLANNED
        else one
        for one in planned
    ]


def _can_be(number: int, row: CompactionRequest | None) -> Cancellation:
    """Return whether a request can be withdrawn, and what to do where it cannot."""
    if row is None:
        return Cancellation(id=number, state=Outcome.MISSING, reason="there is no such request; see acidlib show")
    match row.state:
        case State.INITIATED:
            return replace(_refused(row, "it waits, and would be withdrawn"), state=Outcome.PLANNED)
        case State.WORKING:
            return _refused(row, f"{row.worker_id} works on it: end that run, which gives it back, and call again")
        case State.READY_FOR_CLEANING:
            return _refused(row, "it is done, and awaits the cleaner: acidlib undo takes a result back")
        case _:
            return _refused(row, f"it has ended before, as {row.state.label}")


def _refused(row: CompactionRequest, reason: str) -> Cancellation:
    kind = row.type.label.lower()
    return Cancellation(id=row.id, ref=row.ref, type=kind, state=Outcome.REFUSED, reason=reason)
