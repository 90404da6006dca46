"""Which history rows have to be looked at before some are purged: the database tells, for there may be very many."""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, case, func, literal_column, or_, select, tuple_

from acidlib.model.requests import State
from acidlib.queue.rows import RequestTable
from acidlib.queue.rules import Retention

_UNHAPPY = (State.ATTEMPTED, State.FAILED, State.REFUSED, State.ABORTED)


def of_those_with_too_many(history: RequestTable, retention: Retention, now_ms: int) -> ColumnElement[bool]:
    """The rows about each table and partition of which `rows_to_purge` may name one, and perhaps of some others."""
    identity, state = history.column("ID"), history.column("STATE")
    # a null is equal to nothing; and what is grouped by has to read like what is selected
    partition = func.coalesce(history.column("PARTITION"), literal_column("''"))
    place = (history.column("DATABASE"), history.column("TABLE"), partition)
    quotas = ((one, retention.quota(one)) for one in (State.SUCCEEDED, *_UNHAPPY))
    too_many = [func.sum(case((state == one.value, 1), else_=0)) > quota for one, quota in quotas if quota is not None]
    if retention.timeout_ms is not None:
        is_old = and_(state.in_([one.value for one in _UNHAPPY]), history.column("END") < now_ms - retention.timeout_ms)
        newest_success = func.max(case((state == State.SUCCEEDED.value, identity)))
        too_many.append(newest_success > func.min(case((is_old, identity))))
    return tuple_(*place).in_(select(*place).group_by(*place).having(or_(*too_many)))
