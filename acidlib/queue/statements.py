"""Conditions on rows of the queue, guarded changes of one row, and what a metastore forgets once a request is
cleaned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    Select,
    Table,
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
from acidlib.model.requests import NO_FACTS, CompactionRequest, RequestFacts, State, format_map
from acidlib.queue.database import equals
from acidlib.queue.rows import RequestTable, entity_key, place_key
from acidlib.queue.schema import ENTITY, PLACE
from acidlib.queue.tables import MetastoreTables, QueueTables

# --- cleaned ----------------------------------------------------------------------------------------------------------
# What a metastore of Hive 3.1 forgets once a request is cleaned: notes of writes that its compaction has merged.
#
# Source: Hive `CompactionTxnHandler.markCleaned` of Hive 3.1. Without these rows the Initiator sees nothing new, and an
# aborted transaction without rows is removed for good: so all that it wrote must be covered or gone by then.

CHUNK = 500
"""Values of one IN list; databases bound the number of parameters."""


def forget_writes(
    connection: Connection, tables: MetastoreTables, request: CompactionRequest, up_to: int | None
) -> None:
    """Removes the notes of committed and of aborted writes up to a write id; without one, all.

    A request for a whole table is about all its partitions. Of a transaction that is chosen all rows of the place go.
    """
    done = tables.completed_txn_components
    connection.execute(delete(done).where(_place(connection, done, "CTC", request), *_until(done, "CTC", up_to)))
    aborted = _aborted(connection, tables, request, up_to)
    components = tables.txn_components
    for start in range(0, len(aborted), CHUNK):
        chosen = components.c["TC_TXNID"].in_(aborted[start : start + CHUNK])
        connection.execute(delete(components).where(chosen, _place(connection, components, "TC", request)))


def _aborted(
    connection: Connection, tables: MetastoreTables, request: CompactionRequest, up_to: int | None
) -> list[int]:
    """The aborted transactions that wrote at the place."""
    components = tables.txn_components
    statement = (
        select(tables.txns.c["TXN_ID"])
        .distinct()
        .where(
            tables.txns.c["TXN_ID"] == components.c["TC_TXNID"],
            tables.txns.c["TXN_STATE"] == "a",
            _place(connection, components, "TC", request),
            *_until(components, "TC", up_to),
        )
    )
    return sorted(connection.execute(statement).scalars())


def _place(connection: Connection, table: Table, prefix: str, request: CompactionRequest) -> ColumnElement[bool]:
    named = [("DATABASE", request.ref.database), ("TABLE", request.ref.table)]
    if request.ref.partition is not None:
        named.append(("PARTITION", request.ref.partition))
    return and_(*(equals(connection, table.c[f"{prefix}_{end}"], value) for end, value in named))


def _until(table: Table, prefix: str, up_to: int | None) -> list[ColumnElement[bool]]:
    return [] if up_to is None else [table.c[f"{prefix}_WRITEID"] <= up_to]


# --- statements -------------------------------------------------------------------------------------------------------
# Conditions on rows of the queue, and changes of one row that are made only if it is what the caller believes.

_IDS, _WORKER, _PLACE = "of_ids", "of_worker", "of_place"
_TABLES_KEPT = 8


def has_id(table: RequestTable, request_id: int) -> ColumnElement[bool]:
    """The row of this id."""
    return table.column("ID") == request_id


def in_state(table: RequestTable, state: State) -> ColumnElement[bool]:
    """The rows in this state."""
    return table.column("STATE") == state.value


@dataclass(frozen=True, slots=True)
class NamedRows:
    """Statements about rows that a condition names by parameters. Making them costs more than running them."""

    select: Select[Any]
    ids: Select[Any]
    update: Update
    delete: Delete

    @classmethod
    def of(cls, table: RequestTable, *conditions: ColumnElement[bool]) -> NamedRows:
        """The statements; with `select` the rows stay locked for the transaction, with `ids` they do not."""
        named = and_(table.column("ID").in_(bindparam(_IDS, expanding=True)), *conditions)
        return cls(
            select=table.select().where(named).with_for_update(),
            ids=select(table.column("ID")).where(named),
            update=update(table.table).where(named),
            delete=delete(table.table).where(named),
        )


@lru_cache(_TABLES_KEPT)
def owned(table: RequestTable, *, by_worker: bool) -> NamedRows:
    """A worker's requests that are being worked on, or else those that are ready for cleaning; see `whose`."""
    if by_worker:
        return NamedRows.of(table, in_state(table, State.WORKING), table.column("WORKER_ID") == bindparam(_WORKER))
    return NamedRows.of(table, in_state(table, State.READY_FOR_CLEANING))


@lru_cache(_TABLES_KEPT)
def in_line(table: RequestTable) -> NamedRows:
    """Requests that nobody works on yet; see `whose`."""
    return NamedRows.of(table, in_state(table, State.INITIATED))


@lru_cache(_TABLES_KEPT)
def noting_at_a_place(table: RequestTable, name: str) -> Select[Any]:
    """The ids of rows about a place, whose properties mention a name; see `about_place`."""
    return select(table.column("ID")).where(table.column(PLACE) == bindparam(_PLACE), mentions(table, name))


def about_place(location: Location) -> dict[str, object]:
    """The parameters of `noting_at_a_place`."""
    return {_PLACE: place_key(location)}


def whose(*request_ids: int, worker_id: str | None = None) -> dict[str, object]:
    """The parameters of `NamedRows`."""
    return {_IDS: request_ids} if worker_id is None else {_IDS: request_ids, _WORKER: worker_id}


def of_table(connection: Connection, table: RequestTable, request: CompactionRequest) -> ColumnElement[bool]:
    """The rows about a request's table, whatever the partition."""
    return and_(
        equals(connection, table.column("DATABASE"), request.ref.database),
        equals(connection, table.column("TABLE"), request.ref.table),
    )


def of_entity(connection: Connection, table: RequestTable, request: CompactionRequest) -> ColumnElement[bool]:
    """The rows about a request's table and partition; none matches none alone."""
    if table.has(ENTITY):
        return table.column(ENTITY) == entity_key(request)
    partition = table.column("PARTITION")
    return and_(
        of_table(connection, table, request),
        partition.is_(None) if request.ref.partition is None else equals(connection, partition, request.ref.partition),
    )


def state_location(table: RequestTable, locations: Mapping[Location, str]) -> ColumnElement[bool]:
    """The rows whose facts state one of these locations, given with their texts as `stored_location` makes them.

    Without an index some databases find those of another case as well.
    """
    if not table.has(PLACE):
        return or_(*(mentions(table, text) for text in locations.values()))
    return table.column(PLACE).in_([place_key(location) for location in locations])


def stored_location(location: Location) -> str:
    """How a location stands in the text of properties."""
    stored: dict[str | None, str | None] = dict([*RequestFacts(location=location).properties().items()])
    return format_map(stored).partition(":")[2]


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
    rows, parameters = owned(table, by_worker=owner is not None), whose(request_id, worker_id=owner)
    row = connection.execute(rows.select, parameters).one_or_none()
    if row is None:
        raise not_ours(request_id)
    before = table.request(row)
    if facts != NO_FACTS:
        fields["facts"] = before.facts.updated(facts)
    values = table.values(replace(before, **fields), *fields)
    if values and connection.execute(rows.update, {**values, **parameters}).rowcount != 1:
        raise not_ours(request_id)


def change_ended(
    connection: Connection,
    history: RequestTable,
    request_id: int,
    state: State,
    *,
    reason: str,
    facts: RequestFacts,
) -> None:
    """Gives a row of the history that has succeeded or failed another state and reason, and adds or replaces facts.

    Raises ConflictError where there is none.
    """
    ended = history.column("STATE").in_([State.SUCCEEDED.value, State.FAILED.value])
    rows, parameters = NamedRows.of(history, ended), whose(request_id)
    row = connection.execute(rows.select, parameters).one_or_none()
    if row is None:
        raise not_ours(request_id)
    before = history.request(row)
    changed = replace(before, state=state, error_message=reason, facts=before.facts.updated(facts))
    values = history.values(changed, "state", "error_message", "facts")
    connection.execute(rows.update, {**values, **parameters})


def complete(
    connection: Connection,
    tables: QueueTables,
    request_ids: Sequence[int],
    worker_id: str | None,
    state: State,
    *,
    reason: str | None,
    now_ms: int,
    up_to: int | None = None,
    facts: RequestFacts = NO_FACTS,
) -> frozenset[int]:
    """Queue rows to history rows, with facts added or replaced: those of them that are `owned`, whose ids it returns.

    The order of the statements is Hive's. In a metastore a success also forgets the writes that are merged, up to a
    write id: the row's, or the one given.
    """
    rows = owned(tables.queue, by_worker=worker_id is not None)
    named = whose(*request_ids, worker_id=worker_id)
    moved = move(connection, tables, rows, named, state, reason=reason, now_ms=now_ms, facts=facts)
    if state is State.SUCCEEDED and tables.metastore is not None:
        for request in moved:
            forget_writes(connection, tables.metastore, request, request.highest_write_id if up_to is None else up_to)
    return frozenset(request.id for request in moved)


def move(
    connection: Connection,
    tables: QueueTables,
    rows: NamedRows,
    named: dict[str, object],
    state: State,
    *,
    reason: str | None,
    now_ms: int,
    facts: RequestFacts = NO_FACTS,
) -> list[CompactionRequest]:
    """Queue rows to history rows, those of them that are as `rows` says; returns them as they were in the queue."""
    queue, history = tables.queue, tables.history
    found = connection.execute(rows.select, named).all()
    if not found:
        return []
    requests = [queue.request(row) for row in found]
    deleted = connection.execute(rows.delete, named).rowcount
    if deleted != len(requests):
        raise not_ours(requests[0].id)
    ended = [
        replace(request, state=state, end_ms=now_ms, error_message=reason, facts=request.facts.updated(facts))
        for request in requests
    ]
    values = [{**history.values(done), **queue.meta_info(row)} for done, row in zip(ended, found, strict=True)]
    connection.execute(insert(history.table), values)
    return requests


def not_ours(request_id: int) -> ConflictError:
    """The error for a row that is not what the caller believes."""
    return ConflictError(
        f"Cannot change compaction request {request_id}: it is gone, in another state or another worker's; see acidlib "
        "show"
    )
