"""The queue of compaction requests in a SQL database: its rows, Hive's states and guarded transitions, its purge.

Source: Hive `CompactionTxnHandler` and `TxnHandler.compact` of Hive 3.1, statement by statement; with the tests of
ownership that Hive leaves to the caller: a worker may end only a request that is still its own. Times are epoch
milliseconds, given as arguments; in a metastore's database the database's clock counts instead, since Hive compares
with it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import lru_cache, partial
from itertools import count
from typing import Any, Self

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.exc import IntegrityError

from acidlib.acid.names import OWN_QUEUE, Calls, Generation
from acidlib.arguments import SHOW
from acidlib.errors import ConflictError, CorruptError, RefusedError, RetryError
from acidlib.location import Location
from acidlib.model.requests import NO_FACTS, CompactionRequest, CompactionType, Enqueued, RequestFacts, State
from acidlib.model.tables import TableRef
from acidlib.queue.database import SqlDatabase, chunks
from acidlib.queue.rules import (
    Retention,
    already_scheduled,
    duplicate_of,
    failed_attempts_reason,
    is_superseded_by,
    rows_to_purge,
    same_entity,
)
from acidlib.queue.tables import ENTITY, PLACE, RequestTable, Unreadable, entity_key, open_tables, place_key

_SCHEDULER = "CompactionScheduler"
_SERVICE_WAIT_SECONDS = 1
_QUEUED = frozenset((State.INITIATED, State.WORKING, State.READY_FOR_CLEANING))
_UNSUCCESSFUL = (State.ATTEMPTED, State.FAILED, State.REFUSED, State.ABORTED)
# names of bound parameters
_IDS, _WORKER, _PLACE = "of_ids", "of_worker", "of_place"
_NO_WRITE = 0
"""A write id below all others."""

_Condition = Callable[[RequestTable], ColumnElement[bool]]


class Service(enum.Enum):
    """A service of which one instance works at a time, by the name of its mutex in Hive."""

    INITIATOR = "Initiator"
    CLEANER = "Cleaner"


class _StatementsById:
    """Statements about rows with ids as parameters, built once: building a statement costs more than running it."""

    def __init__(self, table: RequestTable, *conditions: ColumnElement[bool]) -> None:
        named = and_(table.column("ID").in_(bindparam(_IDS, expanding=True)), *conditions)
        self.select = table.select().where(named).with_for_update()
        self.ids = select(table.column("ID")).where(named)
        self.update = update(table.table).where(named)
        self.delete = delete(table.table).where(named)


class SqlQueue:
    """A queue at a SQLAlchemy URL, usable by many processes at once: SQLite, PostgreSQL, MySQL or MariaDB.

    It works on tables of our own, or on those of a Hive 3.1 metastore if the database is one; there Hive's own services
    may work at the same time. `tables` states what a metastore's tables cannot hold. A refused request has Hive 4's
    letter there, which Hive 3.1 shows as `c`, does not count as a failure and never purges; `purge_history` does. An
    unreadable row is an error in tables of our own. In a metastore's tables, to which others write too, it is left out
    of every answer, is never claimed or cleaned, and is listed by `unreadable`.

    Every method raises `RetryError` when the database fails, `RefusedError` when values do not fit into it,
    `CorruptError` for an unreadable row that is read or changed by its id, and, if it writes, `UnknownOutcomeError`
    when the connection is lost while committing. Opening raises `RefusedError` for an invalid URL, for one whose driver
    is not installed, and for a metastore that is not one of Hive 3.1.
    """

    def __init__(self, url: str, *, of_metastore: bool = False) -> None:
        """Open it; `of_metastore` as `open_tables` has it."""
        self._database = SqlDatabase(url)
        self.shown = self._database.shown
        self._tables = open_tables(self._database, of_metastore=of_metastore)
        self.schema_version = self._tables.version
        """The version of the metastore's schema that has the tables; None for tables of our own."""
        queue, history = self._queue, self._history = self._tables.queue, self._tables.history
        state = queue.column("STATE")
        self._initiated = _StatementsById(queue, state == State.INITIATED.value)
        self._working = _StatementsById(
            queue, state == State.WORKING.value, queue.column("WORKER_ID") == bindparam(_WORKER)
        )
        self._ready = _StatementsById(queue, state == State.READY_FOR_CLEANING.value)
        self._ended = _StatementsById(history, history.column("STATE").in_([State.SUCCEEDED.value, State.FAILED.value]))

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def now_ms(self, callers_ms: int) -> int:
        """Return the time with which this queue compares: that of a metastore's database, else the caller's."""
        with self._database.reading("read") as connection:
            return self._now_ms(connection, callers_ms)

    def _now_ms(self, connection: Connection, callers_ms: int) -> int:
        return callers_ms if self.schema_version is None else self._database.now_ms(connection)

    # reading

    def show(self) -> tuple[CompactionRequest, ...]:
        """Return all rows of the queue and the history, newest first, read at one moment."""
        return self._rows(lambda _: true())

    def find(self, request_id: int) -> CompactionRequest | None:
        """Return the request with this id, in the queue or in the history; CorruptError if its row cannot be read."""
        with self._database.reading("read", one_moment=True) as connection:
            for table in (self._queue, self._history):
                row = connection.execute(table.select().where(table.column("ID") == request_id)).one_or_none()
                if row is not None:
                    return table.request(row)
        return None

    def in_states(self, *states: State) -> tuple[CompactionRequest, ...]:
        """Return the rows of the queue and the history in one of these states, newest first, read at one moment."""
        tables = [self._queue] if _QUEUED.issuperset(states) else [self._queue, self._history]
        return self._rows(lambda table: _in_states(table, states), tables=tables)

    def waiting(self, kind: CompactionType | None = None) -> tuple[CompactionRequest, ...]:
        """Return the requests in state initiated, of one type if it is given, oldest first; `claim_id` takes one."""
        rows = self.in_states(State.INITIATED)
        return tuple(row for row in reversed(rows) if kind is None or row.type is kind)

    def ready_for_cleaning(self) -> tuple[CompactionRequest, ...]:
        """Return the requests to clean, ordered so that no later result of a place comes before an earlier one."""
        rows = self.in_states(State.READY_FOR_CLEANING)
        return tuple(sorted(rows, key=lambda row: (row.highest_write_id or 0, row.id)))

    def of_entity(self, ref: TableRef) -> tuple[CompactionRequest, ...]:
        """Return the rows of the queue and the history about a table or partition, newest first."""
        return self._rows(lambda table: self._of_entity(table, ref))

    def rows_at(self, locations: Iterable[Location], *, states: Sequence[State] = ()) -> tuple[CompactionRequest, ...]:
        """Return the rows of the queue and the history at locations, under any table name, newest first.

        states  only rows in one of these states; empty: in any

        A metastore's tables have no index by location: all their rows in these states are read.
        """
        wanted = frozenset(locations)
        if self.schema_version is not None:
            rows = self.in_states(*states) if states else self.show()
            return tuple(row for row in rows if row.facts.location in wanted)

        def at_places(keys: Sequence[str], table: RequestTable) -> ColumnElement[bool]:
            return and_(table.column(PLACE).in_(keys), _in_states(table, states) if states else true())

        keys = [place_key(location) for location in wanted]
        return self._rows(*(partial(at_places, portion) for portion in chunks(keys)))

    def rows_noting(self, location: Location, name: str) -> tuple[CompactionRequest, ...]:
        """Return `rows_at` a location if one of them has a property of this name, else nothing, at a lower cost.

        Some databases ignore the case of the name.
        """
        if self.schema_version is None:
            named = {_PLACE: place_key(location)}
            with self._database.reading("read") as connection:
                statements = (_noting(table, name=name) for table in (self._queue, self._history))
                if not any(connection.execute(statement, named).first() for statement in statements):
                    return ()
        return self.rows_at_place(location)

    def rows_at_place(self, location: Location) -> tuple[CompactionRequest, ...]:
        """Return `rows_at` a location; in our own tables by a query that is built once for all places."""
        if self.schema_version is not None:
            return self.rows_at([location])
        named = {_PLACE: place_key(location)}
        with self._database.reading("read", one_moment=True) as connection:
            read = [
                row
                for table in (self._queue, self._history)
                for row in _read(connection, table, _at_place(table), named)
            ]
        rows = (row for row in read if row.facts.location == location)
        return tuple(sorted(rows, key=lambda row: row.id, reverse=True))

    def newest_of_places(self) -> tuple[CompactionRequest, ...]:
        """Return at least the newest row of the queue and of the history for each name of each place."""

        def newest(table: RequestTable) -> ColumnElement[bool]:
            if table.of_hive:
                return true()
            number = table.column("ID")
            place = (table.column(end) for end in ("DATABASE", "TABLE", "PARTITION", PLACE))
            return number.in_(select(func.max(number)).group_by(*place))

        return self._rows(newest)

    def has_succeeded_below(self, location: Location) -> bool:
        """Return whether the history has a success at this location or below it."""
        history = self._history
        wanted = and_(_in_states(history, [State.SUCCEEDED]), _mentions(history, location.stored_text))
        with self._database.reading("read") as connection, connection.execute(history.select().where(wanted)) as rows:
            places = (history.request(row).facts.location for row in rows)
            return any(place is not None and location.holds(place) for place in places)

    def failed_attempts(self, request: CompactionRequest, *, threshold: int, retry_ms: int, now_ms: int) -> str | None:
        """Return why a place is not compacted automatically after failures; see `failed_attempts_reason`.

        In tables of our own the rule is Hive 4's, which tries again, for tables of either generation.
        In a metastore it is Hive 3.1's, which for a whole table counts the rows of its partitions too.
        """
        is_own = self.schema_version is None
        about = self._of_entity if is_own or request.ref.partition is not None else self._of_table
        with self._database.reading("read") as connection:
            rows = self._requests(connection, self._history, about(self._history, request.ref))
        if is_own:
            rows = [row for row in rows if same_entity(row, request)]
        return failed_attempts_reason(
            rows,
            threshold=threshold,
            retry_ms=retry_ms,
            now_ms=now_ms,
            calls=OWN_QUEUE if is_own else Calls(Generation.HIVE3),
        )

    def unreadable(self) -> tuple[Unreadable, ...]:
        """Return the rows of a metastore's tables that cannot be read as requests, newest first."""
        with self._database.reading("read", one_moment=True) as connection:
            rows = [
                table.read(row)
                for table in (self._queue, self._history)
                for row in connection.execute(table.select()).all()
            ]
        unreadable = (row for row in rows if isinstance(row, Unreadable))
        return tuple(sorted(unreadable, key=lambda row: row.id, reverse=True))

    def _rows(self, *wanted: _Condition, tables: Sequence[RequestTable] = ()) -> tuple[CompactionRequest, ...]:
        """Return the rows that meet one of the conditions, which exclude each other, newest first."""
        with self._database.reading("read", one_moment=True) as connection:
            rows = [
                row
                for table in tables or (self._queue, self._history)
                for condition in wanted
                for row in self._requests(connection, table, condition(table))
            ]
        return tuple(sorted(rows, key=lambda row: row.id, reverse=True))

    @staticmethod
    def _requests(connection: Connection, table: RequestTable, wanted: ColumnElement[bool]) -> list[CompactionRequest]:
        return _read(connection, table, table.select().where(wanted))

    def _of_table(self, table: RequestTable, ref: TableRef) -> ColumnElement[bool]:
        """Return the condition for rows about a table, whatever the partition."""
        equals = self._database.equals
        names = (table.column("DATABASE"), table.column("TABLE"))
        return and_(equals(names[0], ref.database), equals(names[1], ref.table))

    def _of_entity(self, table: RequestTable, ref: TableRef) -> ColumnElement[bool]:
        """Return the condition for rows about a table and partition; no partition matches only none."""
        if not table.of_hive:
            return table.column(ENTITY) == entity_key(ref)
        return and_(self._of_table(table, ref), self._database.equals(table.column("PARTITION"), ref.partition))

    # Hive's mutexes: rows (name, 0) of AUX_TABLE, inserted when first needed. Source: Hive 3.1 `MutexAPI.acquireLock`.

    def alone(self, service: Service) -> AbstractContextManager[None]:
        """Return a context that keeps Hive's own service of this name, and ours on other hosts, from running.

        Entering it raises `ConflictError` while another one runs. In tables of our own nothing is locked: no service of
        Hive uses them.
        """
        if self.schema_version is None:
            return nullcontext()
        self._make_mutex(service.value)
        return self._database.holding(
            f"run the {service.value} on",
            lambda connection: self._lock_mutex(connection, service.value),
            wait_seconds=_SERVICE_WAIT_SECONDS,
        )

    def _make_mutex(self, name: str) -> None:
        """Insert the row of a mutex if it is missing, in a transaction of its own: others see it before they wait."""
        with self._database.reading("lock") as connection:
            if connection.execute(self._mutex(name)).first() is not None:
                return

        def make(connection: Connection) -> None:
            # another process may be faster
            with suppress(IntegrityError), connection.begin_nested():
                connection.execute(insert(self._tables.mutex).values(MT_KEY1=name, MT_KEY2=0))

        self._database.write("lock", make)

    def _lock_mutex(self, connection: Connection, name: str) -> None:
        """Take a mutex until the transaction ends; SQLite has locked the whole database already."""
        if connection.execute(self._mutex(name).with_for_update()).first() is None:
            raise RetryError(f"Cannot lock the queue: the row {name} of {self._tables.mutex.name} is gone")

    def _mutex(self, name: str) -> Select[str]:
        keys = self._tables.mutex.c
        return select(keys["MT_KEY1"]).where(and_(keys["MT_KEY1"] == name, keys["MT_KEY2"] == 0))

    # from queueing to the result

    def enqueue(self, request: CompactionRequest, *, now_ms: int, worker_id: str | None = None) -> Enqueued:
        """Add a request in state initiated under a new id, unless it is a `duplicate_of` a queued one.

        With a `worker_id` that worker has claimed it at once. A waiting request that `is_superseded_by` it ends as
        refused. Its `highest_write_id`, if given, is the current high-water mark of the place.
        """
        (answer,) = self.enqueue_all([request], now_ms=now_ms, worker_id=worker_id)
        return answer

    def enqueue_all(
        self, requests: Sequence[CompactionRequest], *, now_ms: int, worker_id: str | None = None
    ) -> list[Enqueued]:
        """Do as `enqueue` with each request in turn, in one transaction."""
        wanted = [self._named_as_stored(request) for request in requests]

        def work(connection: Connection) -> list[Enqueued]:
            with self._new_ids(connection) as ids:
                return [self._enqueued(connection, request, ids, now_ms, worker_id) for request in wanted]

        self._make_mutex(_SCHEDULER)
        return self._database.write("add to", work)

    def record_not_initiated(self, request: CompactionRequest, reason: str, now_ms: int) -> int:
        """Write a history row for a compaction that never was queued (Hive: mark failed with id 0); return its id."""
        wanted = self._named_as_stored(request)

        def work(connection: Connection) -> int:
            with self._new_ids(connection) as ids:
                now = self._now_ms(connection, now_ms)
                row = replace(
                    wanted,
                    id=next(ids),
                    state=State.ATTEMPTED,
                    error_message=reason,
                    start_ms=now,
                    end_ms=now,
                    enqueue_ms=now,
                )
            connection.execute(insert(self._history.table), self._history.values(row))
            return row.id

        self._make_mutex(_SCHEDULER)
        return self._database.write("write to", work)

    def _named_as_stored(self, request: CompactionRequest) -> CompactionRequest:
        """Return the request under the names that Hive stores, in lower case: it compares them as they are.

        Raises RefusedError for a type without a letter in Hive 3.1, whose metastore could then not list its requests.
        """
        if self.schema_version is None:
            return request
        if request.type not in (CompactionType.MINOR, CompactionType.MAJOR):
            kind = request.type.label
            raise RefusedError(f"Cannot queue a compaction of {request.ref}: Hive 3.1 has no {kind} one")
        ref = request.ref
        return replace(request, ref=ref._replace(database=ref.database.lower(), table=ref.table.lower()))

    @contextmanager
    def _new_ids(self, connection: Connection) -> Iterator[Iterator[int]]:
        """Yield new ids, under the scheduler's mutex, and store at the end how many were taken.

        Source: Hive 3.1 `TxnHandler.generateCompactionQueueId`.
        """
        self._lock_mutex(connection, _SCHEDULER)
        next_id = self._tables.next_id
        row = connection.execute(select(next_id.c["NCQ_NEXT"]).with_for_update()).one_or_none()
        if row is None and self.schema_version is not None:
            raise CorruptError(f"Cannot number a request: the metastore's table {next_id.name} is empty")
        first = 1 if row is None else int(row[0])
        ids = count(first)
        yield ids
        following = next(ids)
        if following != first:
            change = insert(next_id) if row is None else update(next_id)
            connection.execute(change.values(NCQ_NEXT=following))

    def _enqueued(
        self,
        connection: Connection,
        wanted: CompactionRequest,
        ids: Iterator[int],
        now_ms: int,
        worker_id: str | None,
    ) -> Enqueued:
        queue = self._queue
        rows = connection.execute(queue.select().where(self._of_entity(queue, wanted.ref))).all()
        queued = [queue.read(row) for row in rows]
        others = sorted((row for row in queued if isinstance(row, CompactionRequest)), key=lambda row: row.id)
        superseded = [row for row in others if is_superseded_by(row, wanted)]
        duplicate = duplicate_of(wanted, [row for row in others if row not in superseded])
        if duplicate is not None:
            reason = already_scheduled(duplicate.id, duplicate.state)
            return Enqueued(id=duplicate.id, accepted=False, state=duplicate.state, reason=reason)
        for row in queued:  # an unreadable row counts by its state, as in Hive
            if isinstance(row, Unreadable) and row.state in (State.INITIATED, State.WORKING):
                reason = f"{already_scheduled(row.id, row.state)}; {row.reason}"
                return Enqueued(id=row.id, accepted=False, state=row.state, reason=reason)
        for waiting in superseded:
            reason = f"its run has ended, and a {wanted.type.label} compaction was requested since"
            now = self._now_ms(connection, now_ms)
            if not self._move(connection, self._initiated, {_IDS: [waiting.id]}, State.REFUSED, now, reason=reason):
                raise _not_owned(waiting.id)
        new = replace(
            wanted,
            id=next(ids),
            state=State.INITIATED if worker_id is None else State.WORKING,
            enqueue_ms=now_ms,  # the caller's time: a metastore has no column for it
            highest_write_id=None,
            worker_id=worker_id,
            start_ms=None if worker_id is None else self._now_ms(connection, now_ms),
        )
        connection.execute(insert(queue.table), queue.values(new))
        return Enqueued(id=new.id, accepted=True, state=new.state, working=None if worker_id is None else new)

    def claim_id(self, request_id: int, worker_id: str, now_ms: int) -> CompactionRequest | None:
        """Claim one request for a worker; None when it no longer waits (another worker was faster).

        In a metastore the worker's id must not begin with the name of a host that runs a metastore or HiveServer2: when
        one starts, it gives back the requests of all workers with ids that begin with its host name.
        """

        def work(connection: Connection) -> CompactionRequest | None:
            values = {
                "CQ_STATE": State.WORKING.value,
                "CQ_WORKER_ID": worker_id,
                "CQ_START": self._now_ms(connection, now_ms),
            }
            if connection.execute(self._initiated.update, {**values, _IDS: [request_id]}).rowcount != 1:
                return None
            rows, parameters = self._owned(request_id, worker_id)
            return self._queue.request(connection.execute(rows.select, parameters).one())

        return self._database.write("claim from", work)

    def _owned(self, request_id: int, worker_id: str | None) -> tuple[_StatementsById, dict[str, object]]:
        """Return the statements that act on a request only while its owner has it, and their parameters.

        worker_id  the worker that works on it; None = the cleaner, for which it is ready
        """
        if worker_id is None:
            return self._ready, {_IDS: [request_id]}
        return self._working, {_IDS: [request_id], _WORKER: worker_id}

    def assert_owned(self, request_id: int, worker_id: str) -> None:
        """Raise ConflictError unless this worker still works on the request."""
        rows, parameters = self._owned(request_id, worker_id)
        with self._database.reading("read") as connection:
            if connection.execute(rows.ids, parameters).first() is None:
                raise _not_owned(request_id)

    def change(self, request_id: int, owner: str | None, /, *, facts: RequestFacts = NO_FACTS, **fields: Any) -> None:
        """Set fields of a request, and add or replace facts. Raise ConflictError unless it is the owner's.

        owner  the worker that works on it; None = the cleaner, for which it is ready

        Values without a column in the table are dropped; the columns of other fields are not written.
        """
        rows, parameters = self._owned(request_id, owner)

        def work(connection: Connection) -> None:
            row = connection.execute(rows.select, parameters).one_or_none()
            if row is None:
                raise _not_owned(request_id)
            before = self._queue.request(row)
            changed = fields if facts == NO_FACTS else {**fields, "facts": before.facts.updated(facts)}
            values = self._queue.values(replace(before, **changed), *changed)
            if values and connection.execute(rows.update, {**values, **parameters}).rowcount != 1:
                raise _not_owned(request_id)

        self._database.write("write to", work)

    def mark_compacted(
        self,
        request_id: int,
        worker_id: str,
        now_ms: int,
        *,
        highest_write_id: int | None = None,
        facts: RequestFacts = NO_FACTS,
    ) -> None:
        """Note that the result is visible: the request is ready for cleaning since `now_ms`.

        highest_write_id  the high-water mark of the result, which its cleaning uses
        facts             what the cleaner needs to know

        Raises `ConflictError` unless this worker still works on the request.
        """
        self.change(
            request_id,
            worker_id,
            facts=facts,
            state=State.READY_FOR_CLEANING,
            worker_id=None,
            commit_ms=now_ms,
            highest_write_id=highest_write_id,
        )

    def give_back(self, request_id: int, worker_id: str) -> None:
        """Return a request that the worker has not carried out to state initiated: another worker may claim it."""
        self.change(request_id, worker_id, state=State.INITIATED, worker_id=None, start_ms=None)

    def revoke_timed_out(self, now_ms: int, timeout_ms: int) -> int:
        """Give back every request with a start before `now_ms - timeout_ms`; return how many."""
        queue = self._queue

        def work(connection: Connection) -> int:
            latest = self._now_ms(connection, now_ms) - timeout_ms
            guard = and_(_in_states(queue, [State.WORKING]), queue.column("START") < latest)
            values = {"CQ_STATE": State.INITIATED.value, "CQ_WORKER_ID": None, "CQ_START": None}
            return connection.execute(update(queue.table).where(guard).values(values)).rowcount

        return self._database.write("write to", work)

    # how requests end

    def withdraw(self, request_id: int, worker_id: str) -> None:
        """Delete a request that this worker alone has queued and not carried out."""
        rows, parameters = self._owned(request_id, worker_id)

        def work(connection: Connection) -> None:
            if not connection.execute(rows.delete, parameters).rowcount:
                raise _not_owned(request_id)

        self._database.write("write to", work)

    def mark_needless(self, request_id: int, now_ms: int, *, worker_id: str) -> None:
        """End a worker's request for which there was nothing to do; a queue of our own keeps nothing of it.

        A metastore's history shows it as succeeded, as when Hive 3.1's own worker has nothing to do
        (`CompactorMR.run`); but the metastore keeps all its notes of writes, since nothing was merged. Raises
        `ConflictError` unless this worker still works on the request.
        """
        if self.schema_version is None:
            self.withdraw(request_id, worker_id)
        else:
            self.end(request_id, State.SUCCEEDED, now_ms, worker_id=worker_id, up_to=_NO_WRITE)

    def end(
        self,
        request_id: int,
        state: State,
        now_ms: int,
        *,
        worker_id: str | None = None,
        reason: str | None = None,
        facts: RequestFacts = NO_FACTS,
        up_to: int | None = None,
    ) -> None:
        """Move a request to the history in a state, with more facts. Raise ConflictError unless it is its owner's.

        worker_id  the worker that works on it; None = the cleaner, for which it is ready
        up_to      the write id up to which a metastore forgets the writes of a success, by default the request's high-
                   water mark: anything that aborted transactions wrote up to it must be covered or removed. The default
                   cannot be 0, which a metastore stores for an unknown mark
        """
        rows, parameters = self._owned(request_id, worker_id)

        def work(connection: Connection) -> None:
            now = self._now_ms(connection, now_ms)
            if not self._move(connection, rows, parameters, state, now, reason=reason, facts=facts, up_to=up_to):
                raise _not_owned(request_id)

        self._database.write("write to", work)

    def mark_cleaned(self, request_ids: Sequence[int], now_ms: int) -> list[ConflictError | None]:
        """Move some hundreds of cleaned requests to the history as succeeded, in one transaction.

        Return for each id the error of a request that is not ready for cleaning, None for the others.
        """

        def work(connection: Connection) -> list[ConflictError | None]:
            now = self._now_ms(connection, now_ms)
            moved = self._move(connection, self._ready, {_IDS: request_ids}, State.SUCCEEDED, now)
            return [None if request_id in moved else _not_owned(request_id) for request_id in request_ids]

        return self._database.write("write to", work)

    def mark_undone(self, request_id: int, reason: str, now_ms: int, *, facts: RequestFacts) -> None:
        """Move a request to the history as failed after its result was undone, with more facts: it is not cleaned.

        Raises `ConflictError` unless it is ready for cleaning, or has succeeded or failed before.
        """
        history, parameters = self._history, {_IDS: [request_id]}

        def work(connection: Connection) -> None:
            now = self._now_ms(connection, now_ms)
            if self._move(connection, self._ready, parameters, State.FAILED, now, reason=reason, facts=facts):
                return
            row = connection.execute(self._ended.select, parameters).one_or_none()
            if row is None:
                raise _not_owned(request_id)
            before = history.request(row)
            changed = replace(before, state=State.FAILED, error_message=reason, facts=before.facts.updated(facts))
            values = history.values(changed, "state", "error_message", "facts")
            connection.execute(self._ended.update, {**values, **parameters})

        self._database.write("write to", work)

    def abort(self, request_ids: Sequence[int], reason: str, now_ms: int) -> frozenset[int]:
        """Move the requests that no worker has claimed yet to the history as aborted; return their ids.

        A metastore shows the state of such a row by Hive 4's letter, `x`, which Hive 3.1 does not count as a failure.
        """

        def work(connection: Connection) -> frozenset[int]:
            now = self._now_ms(connection, now_ms)
            return self._move(connection, self._initiated, {_IDS: request_ids}, State.ABORTED, now, reason=reason)

        return self._database.write("write to", work)

    def _move(
        self,
        connection: Connection,
        rows: _StatementsById,
        parameters: Mapping[str, object],
        state: State,
        now_ms: int,
        *,
        reason: str | None = None,
        facts: RequestFacts = NO_FACTS,
        up_to: int | None = None,
    ) -> frozenset[int]:
        """Move queue rows to the history, with facts added or replaced; return their ids.

        The order of the statements is Hive's.
        """
        queue, history = self._queue, self._history
        selected = connection.execute(rows.select, parameters).all()
        if not selected:
            return frozenset()
        requests = [queue.request(row) for row in selected]
        deleted = connection.execute(rows.delete, parameters).rowcount
        if deleted != len(requests):
            raise _not_owned(requests[0].id)
        ended = [
            replace(request, state=state, end_ms=now_ms, error_message=reason, facts=request.facts.updated(facts))
            for request in requests
        ]
        values = [{**history.values(new), **queue.meta_info(row)} for new, row in zip(ended, selected, strict=True)]
        connection.execute(insert(history.table), values)
        if state is State.SUCCEEDED:
            for request in requests:
                self._forget_writes(connection, request, request.highest_write_id if up_to is None else up_to)
        return frozenset(request.id for request in requests)

    def _forget_writes(self, connection: Connection, request: CompactionRequest, up_to: int | None) -> None:
        """Delete a metastore's notes of committed and of aborted writes up to a write id; None: all.

        Without these rows Hive's initiator sees nothing new, and Hive removes an aborted transaction without rows for
        good: so everything it wrote must be covered or removed by then. A request for a whole table is about all its
        partitions. All rows at the place of a chosen transaction are deleted.

        Source: Hive 3.1 `CompactionTxnHandler.markCleaned`.
        """
        if self._tables.written is None:
            return

        def at_place(table: Table, prefix: str) -> ColumnElement[bool]:
            named = zip(("DATABASE", "TABLE", "PARTITION"), request.ref, strict=True)
            equals = self._database.equals
            return and_(*(equals(table.c[f"{prefix}_{end}"], name) for end, name in named if name is not None))

        def until(table: Table, prefix: str) -> ColumnElement[bool]:
            return true() if up_to is None else table.c[f"{prefix}_WRITEID"] <= up_to

        txns, components, done = self._tables.written
        connection.execute(delete(done).where(at_place(done, "CTC"), until(done, "CTC")))
        statement = (
            select(txns.c["TXN_ID"])
            .distinct()
            .where(
                txns.c["TXN_ID"] == components.c["TC_TXNID"],
                txns.c["TXN_STATE"] == "a",
                at_place(components, "TC"),
                until(components, "TC"),
            )
        )
        aborted = sorted(connection.execute(statement).scalars())
        for portion in chunks(aborted):
            chosen = components.c["TC_TXNID"].in_(portion)
            connection.execute(delete(components).where(chosen, at_place(components, "TC")))

    def purge_history(self, retention: Retention, now_ms: int) -> int:
        """Delete the history rows that `rows_to_purge` names; return how many.

        In a metastore the numbers of rows alone count, as in Hive 3.1, whose own service may purge at the same time.
        """
        history, is_own = self._history, self.schema_version is None
        limits = retention if is_own else replace(retention, timeout_ms=None)

        def work(connection: Connection) -> int:
            rows = self._requests(connection, history, _places_over_quota(history, limits, now_ms))
            ids = rows_to_purge(rows, limits, now_ms, by_location=is_own)
            for portion in chunks(ids):
                connection.execute(delete(history.table).where(history.column("ID").in_(portion)))
            return len(ids)

        return self._database.write("purge the history of", work)


def _read(
    connection: Connection, table: RequestTable, query: Select[Any], named: Mapping[str, str] | None = None
) -> list[CompactionRequest]:
    rows = connection.execute(query, named).all()  # a cursor left open keeps SQLite locked
    return [request for row in rows if isinstance(request := table.read(row), CompactionRequest)]


def _in_states(table: RequestTable, states: Iterable[State]) -> ColumnElement[bool]:
    return table.column("STATE").in_([state.value for state in states])


def _mentions(table: RequestTable, text: str) -> ColumnElement[bool]:
    """Return the condition for a text anywhere in properties or facts; some databases ignore its case."""
    return table.column("TBLPROPERTIES").contains(text, autoescape=True)


@lru_cache(8)
def _noting(table: RequestTable, *, name: str) -> Select[Any]:
    """Return the query for the ids of a place's rows with a name in their properties; built once for all places."""
    return select(table.column("ID")).where(table.column(PLACE) == bindparam(_PLACE), _mentions(table, name))


@lru_cache(8)
def _at_place(table: RequestTable) -> Select[Any]:
    """Return the query for a place's rows."""
    return table.select().where(table.column(PLACE) == bindparam(_PLACE))


def _places_over_quota(history: RequestTable, retention: Retention, now_ms: int) -> ColumnElement[bool]:
    """Return the condition for all rows of tables and partitions of which `rows_to_purge` may name a row, or more.

    The database selects them, since the history may be very long.
    """
    number, state = history.column("ID"), history.column("STATE")
    # a null is equal to nothing; and databases want the grouping expressions spelled like the selected ones
    partition = func.coalesce(history.column("PARTITION"), literal_column("''"))
    place = (history.column("DATABASE"), history.column("TABLE"), partition)
    limits = [
        func.sum(case((state == ended.value, 1), else_=0)) > quota
        for ended in (State.SUCCEEDED, *_UNSUCCESSFUL)
        if (quota := retention.quota(ended)) is not None
    ]
    if retention.timeout_ms is not None:
        is_old = and_(_in_states(history, _UNSUCCESSFUL), history.column("END") < now_ms - retention.timeout_ms)
        newest_success = func.max(case((state == State.SUCCEEDED.value, number)))
        limits.append(newest_success > func.min(case((is_old, number))))
    return tuple_(*place).in_(select(*place).group_by(*place).having(or_(*limits)))


def _not_owned(request_id: int) -> ConflictError:
    return ConflictError(
        f"Cannot change compaction request {request_id}: it is gone, in another state or another worker's; see {SHOW}"
    )
