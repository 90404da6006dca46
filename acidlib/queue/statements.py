"""Conditions on rows of the queue, and changes of one row that are made only if it is what the caller believes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    Select,
    Update,
    and_,
    bindparam,
    delete,
    insert,
    or_,
    select,
    true,
    update,
)

from acidlib.errors import ConflictError
from acidlib.model.location import Location
from acidlib.model.request_facts import NO_FACTS, RequestFacts
from acidlib.model.requests import CompactionRequest, State
from acidlib.model.stringable import format_map
from acidlib.queue.cleaned import forget_writes
from acidlib.queue.dialects import equals
from acidlib.queue.rows import RequestTable, place_key
from acidlib.queue.schema import PLACE
from acidlib.queue.tables import QueueTables

_ID, _WORKER = "of_id", "of_worker"
_TABLES_KEPT = 8


def has_id(table: RequestTable, request_id: int) -> ColumnElement[bool]:
    """The row of this id."""
    return table.column("ID") == request_id


def in_state(table: RequestTable, state: State) -> ColumnElement[bool]:
    """The rows in this state."""
    return table.column("STATE") == state.value


@dataclass(frozen=True, slots=True)
class OneRow:
    """Statements about the one row that a condition names by parameters. Making them costs more than running them."""

    select: Select[Any]
    ids: Select[Any]
    update: Update
    delete: Delete

    @classmethod
    def of(cls, table: RequestTable, *conditions: ColumnElement[bool]) -> OneRow:
        """The statements; with `select` the row stays locked for the transaction, with `ids` it does not."""
        one = and_(table.column("ID") == bindparam(_ID), *conditions)
        return cls(
            select=table.select().where(one).with_for_update(),
            ids=select(table.column("ID")).where(one),
            update=update(table.table).where(one),
            delete=delete(table.table).where(one),
        )


@lru_cache(_TABLES_KEPT)
def owned(table: RequestTable, *, by_worker: bool) -> OneRow:
    """A worker's request that is being worked on, or else one that is ready for cleaning; see `whose`."""
    if by_worker:
        return OneRow.of(table, in_state(table, State.WORKING), table.column("WORKER_ID") == bindparam(_WORKER))
    return OneRow.of(table, in_state(table, State.READY_FOR_CLEANING))


@lru_cache(_TABLES_KEPT)
def in_line(table: RequestTable) -> OneRow:
    """A request that nobody works on yet; see `whose`."""
    return OneRow.of(table, in_state(table, State.INITIATED))


def whose(request_id: int, worker_id: str | None = None) -> dict[str, object]:
    """The parameters of `OneRow`."""
    return {_ID: request_id} if worker_id is None else {_ID: request_id, _WORKER: worker_id}


def of_table(connection: Connection, table: RequestTable, request: CompactionRequest) -> ColumnElement[bool]:
    """The rows about a request's table, whatever the partition."""
    return and_(
        equals(connection, table.column("DATABASE"), request.database),
        equals(connection, table.column("TABLE"), request.table),
    )


def of_entity(connection: Connection, table: RequestTable, request: CompactionRequest) -> ColumnElement[bool]:
    """The rows about a request's table and partition; none matches none alone."""
    partition = table.column("PARTITION")
    return and_(
        of_table(connection, table, request),
        partition.is_(None) if request.partition is None else equals(connection, partition, request.partition),
    )


def states_location(table: RequestTable, location: Location) -> ColumnElement[bool]:
    """The rows whose facts state this location; some databases find those of another case as well."""
    stored: dict[str | None, str | None] = dict([*RequestFacts(location=location).properties().items()])
    mentioned = mentions(table, format_map(stored).partition(":")[2])
    if not table.has(PLACE):
        return mentioned
    place = table.column(PLACE)
    return or_(place == place_key(location), and_(place.is_(None), mentioned))


def may_be_at(table: RequestTable, location: Location) -> ColumnElement[bool]:
    """The rows whose facts state this location, or none, and perhaps more; by an index, where there is one."""
    if not table.has(PLACE):
        return true()
    place = table.column(PLACE)
    return or_(place == place_key(location), place.is_(None))


def mentions(table: RequestTable, text: str) -> ColumnElement[bool]:
    """The rows with a text anywhere in properties or facts; some databases find it in another case as well."""
    return table.column("TBLPROPERTIES").contains(text, autoescape=True)


def change_one(
    connection: Connection,
    table: RequestTable,
    request_id: int,
    owner: str | None,
    /,
    *,
    facts: RequestFacts = NO_FACTS,
    **fields: Any,
) -> None:
    """Sets fields of a request that is `owned`, and adds or replaces facts. Raises ConflictError if it is not.

    What the table has no column for is not kept; the columns of other fields are not written.
    """
    one, parameters = owned(table, by_worker=owner is not None), whose(request_id, owner)
    row = connection.execute(one.select, parameters).one_or_none()
    if row is None:
        raise not_ours(request_id)
    before = table.request(row)
    if facts != NO_FACTS:
        fields["facts"] = before.facts.updated(facts)
    values = table.values(replace(before, **fields), *fields)
    if values:
        require_one(connection.execute(one.update, {**values, **parameters}).rowcount, request_id)


def complete(
    connection: Connection,
    tables: QueueTables,
    request_id: int,
    worker_id: str | None,
    state: State,
    *,
    reason: str | None,
    now_ms: int,
    up_to: int | None = None,
    facts: RequestFacts = NO_FACTS,
) -> None:
    """Queue row to history row, with facts added or replaced; the queue row must be `owned`.

    The order of the statements is Hive's. In a metastore a success also forgets the writes that are merged, up to a
    write id: the row's, or the one given.
    """
    one = owned(tables.queue, by_worker=worker_id is not None)
    request = move(
        connection, tables, one, whose(request_id, worker_id), state, reason=reason, now_ms=now_ms, facts=facts
    )
    if state is State.SUCCEEDED and tables.metastore is not None:
        forget_writes(connection, tables.metastore, request, request.highest_write_id if up_to is None else up_to)


def move(
    connection: Connection,
    tables: QueueTables,
    one: OneRow,
    parameters: dict[str, object],
    state: State,
    *,
    reason: str | None,
    now_ms: int,
    facts: RequestFacts = NO_FACTS,
) -> CompactionRequest:
    """Queue row to history row, if it is as `one` says, else ConflictError; returns it as it was in the queue."""
    queue, history = tables.queue, tables.history
    row = connection.execute(one.select, parameters).one_or_none()
    if row is None:
        raise not_ours(parameters[_ID])
    request = queue.request(row)
    require_one(connection.execute(one.delete, parameters).rowcount, request.id)
    done = replace(request, state=state, end_ms=now_ms, error_message=reason, facts=request.facts.updated(facts))
    connection.execute(insert(history.table), {**history.values(done), **queue.meta_info(row)})
    return request


def require_one(count: int, request_id: int) -> None:
    """Raises ConflictError unless one row was changed."""
    if count != 1:
        raise not_ours(request_id)


def not_ours(request_id: object) -> ConflictError:
    """The error for a row that is not what the caller believes."""
    return ConflictError(
        f"Cannot change compaction request {request_id}: because it is gone, in another state or another worker's"
    )
