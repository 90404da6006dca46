"""Withdrawing requests that no worker has taken yet; each request that is named gets one answer.

Source of the rule: Hive 4 `AbortCompactionFunction`. A queue in SQL is changed in one statement that matches a request
only while it waits, so that no worker, ours or Hive's, can have taken it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from acidlib.acid.names import Generation
from acidlib.arguments import METASTORE_DB, SHOW, UNDO
from acidlib.errors import CorruptError
from acidlib.metastore.hms import Hms
from acidlib.model.requests import CompactionRequest, State
from acidlib.model.results import Cancellation, Outcome
from acidlib.ports.sql import surroundings_of
from acidlib.queue.sql import SqlQueue
from acidlib.runs.environment import Environment
from acidlib.runs.open import open_metastore, open_queue


def cancel_requests(where: Environment, ids: Sequence[int], *, now_ms: int, dry_run: bool) -> list[Cancellation]:
    """Withdraw requests, or say what that would do.

    Where a request of our queue and one of Hive 3.1's own queue have the same number, ours is withdrawn.
    """
    numbers = list(dict.fromkeys(ids))
    if not where.metastore:
        with open_queue(where) as queue:
            return _cancel_in_sql(where, queue, numbers, None, now_ms=now_ms, dry_run=dry_run)
    with open_metastore(where) as hms:
        if hms.calls is Generation.HIVE4:
            return _cancel_in_hive4(hms, numbers, dry_run=dry_run)
        with open_queue(where) as queue:
            return _cancel_in_sql(where, queue, numbers, hms, now_ms=now_ms, dry_run=dry_run)


def _cancel_in_sql(
    where: Environment, queue: SqlQueue, numbers: Sequence[int], hms: Hms | None, *, now_ms: int, dry_run: bool
) -> list[Cancellation]:
    is_ours = queue.schema_version is None
    of_hive = {row.id: row for row in hms.show_compactions()} if hms is not None and is_ours else {}
    metastore = where.metastore_name if hms is not None and is_ours else None

    def plan(number: int) -> Cancellation:
        try:
            row = queue.find(number)
        except CorruptError as error:
            return Cancellation(id=number, state=Outcome.REFUSED, reason=error.words)
        if row is not None and is_ours and row.facts.metastore != metastore:
            return _refused(row, f"it is {surroundings_of(row)}")
        if row is None and number in of_hive:
            reason = f"it is in the metastore's own queue, which no call changes: name its database with {METASTORE_DB}"
            return _refused(of_hive[number], reason)
        return _planned(number, row, can_undo=True)

    def withdraw(waiting: Sequence[int]) -> list[Cancellation]:
        aborted = queue.abort(waiting, f"cancelled by {where.user} on {where.host}", now_ms)
        # a request that a worker has taken in between is planned again, as it is now
        return [plan(number) for number in waiting if number not in aborted]

    return _withdrawn([plan(number) for number in numbers], withdraw, dry_run=dry_run)


def _cancel_in_hive4(hms: Hms, numbers: Sequence[int], *, dry_run: bool) -> list[Cancellation]:
    rows = {row.id: row for row in hms.show_compactions()}

    def withdraw(waiting: Sequence[int]) -> list[Cancellation]:
        answers = hms.abort_compactions(waiting)
        return [
            _refused(rows[number], f"the metastore says: {answers.get(number, 'nothing')}; see {SHOW}")
            for number in waiting
            if not answers.get(number, "").startswith("Success")
        ]

    plans = [_planned(number, rows.get(number), can_undo=False) for number in numbers]
    return _withdrawn(plans, withdraw, dry_run=dry_run)


def _withdrawn(
    plans: Sequence[Cancellation], withdraw: Callable[[Sequence[int]], Sequence[Cancellation]], *, dry_run: bool
) -> list[Cancellation]:
    """Return the answer for each request; `withdraw` returns those of requests that it could not withdraw."""
    waiting = [plan.id for plan in plans if plan.state is Outcome.PLANNED]
    if dry_run or not waiting:
        return [*plans]
    answers = {plan.id: plan for plan in plans if plan.state is not Outcome.PLANNED}
    answers |= {refusal.id: refusal for refusal in withdraw(waiting)}
    done = "it is withdrawn, and ends as aborted"
    return [answers.get(plan.id) or replace(plan, state=Outcome.CANCELLED, reason=done) for plan in plans]


def _planned(number: int, row: CompactionRequest | None, *, can_undo: bool) -> Cancellation:
    """Return whether a request can be withdrawn, and if not what to do."""
    if row is None:
        return Cancellation(id=number, state=Outcome.MISSING, reason=f"there is no such request; see {SHOW}")
    match row.state:
        case State.INITIATED:
            return replace(_refused(row, "it waits, and would be withdrawn"), state=Outcome.PLANNED)
        case State.WORKING:
            return _refused(row, f"{row.worker_id} works on it: end that run, which gives it back, and call again")
        case State.READY_FOR_CLEANING:
            advice = f": {UNDO} takes a result back" if can_undo else ""
            return _refused(row, f"it is done, and awaits the cleaner{advice}")
        case _:
            return _refused(row, f"it has ended before, as {row.state.label}")


def _refused(row: CompactionRequest, reason: str) -> Cancellation:
    kind = row.type.label.lower()
    return Cancellation(id=row.id, **row.ref._asdict(), type=kind, state=Outcome.REFUSED, reason=reason)
