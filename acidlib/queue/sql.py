"""The queue of compaction requests in a SQL database: what it has, Hive's states and guarded transitions, its purge.

Source: Hive `CompactionTxnHandler` and `TxnHandler.compact` of Hive 3.1, statement by statement; with the tests of
ownership that Hive leaves to the caller: a worker may end only what is still its own. Times are epoch milliseconds,
given as arguments; but in a metastore's database its own clock counts instead, for Hive compares with it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import lru_cache
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

from acidlib.errors import ConflictError, CorruptError, RefusedError, RetryError
from acidlib.model.location import Location
from acidlib.model.names import Generation
from acidlib.model.requests import NO_FACTS, CompactionRequest, CompactionType, Enqueued, RequestFacts, State
from acidlib.queue.database import Database, chunks
from acidlib.queue.rules import (
    Retention,
    already_scheduled,
    duplicate_reason,
    failed_attempts_reason,
    is_superseded_by,
    rows_to_purge,
    same_entity,
)
from acidlib.queue.tables import ENTITY, PLACE, RequestTable, Unreadable, entity_key, open_tables, place_key

_SCHEDULER = "CompactionScheduler"
_SERVICE_WAIT_SECONDS = 1
_QUEUED = frozenset((State.INITIATED, State.WORKING, State.READY_FOR_CLEANING))
_UNHAPPY = (State.ATTEMPTED, State.FAILED, State.REFUSED, State.ABORTED)
_IDS, _WORKER, _PLACE = "of_ids", "of_worker", "of_place"
_NO_WRITE = 0
"""A write id below all others."""

_Condition = Callable[[RequestTable], ColumnElement[bool]]


class Service(enum.Enum):
    """A service that works alone, under the name of its mutex in Hive."""

    INITIATOR = "Initiator"
    CLEANER = "Cleaner"


class _StatementsById:
    """Statements about rows whose ids are parameters: making statements costs more than running them."""

    def __init__(self, table: RequestTable, *conditions: ColumnElement[bool]) -> None:
        named = and_(table.column("ID").in_(bindparam(_IDS, expanding=True)), *conditions)
        self.select = table.select().where(named).with_for_update()
        self.ids = select(table.column("ID")).where(named)
        self.update = update(table.table).where(named)
        self.delete = delete(table.table).where(named)


class SqlQueue:
    """A queue at a SQLAlchemy URL, usable by many processes at once: SQLite, PostgreSQL, MySQL or MariaDB.

    It works on tables of our own, or on those of a metastore of Hive 3.1 when the database is one; there Hive's own
    services may work beside it. What a metastore's tables cannot hold is said in `tables`. A refused request stands
    there under Hive 4's letter, which Hive 3.1 shows as `c`, does not count as a failure and never purges;
    `purge_history` does. A row that is not understood is an error in tables of our own. In a metastore's, which others
    write too, it is left out of every answer, is never taken or cleaned, and is listed by `unreadable`.

    Every method raises `RetryError` when the database fails, `RefusedError` when values do not fit into it,
    `CorruptError` for a row that cannot be read and is asked for by its id, and, if it writes, `UnknownOutcomeError`
    when the connection is lost while committing. Opening raises `RefusedError` for a URL that makes no sense or needs a
    driver that is not installed, and for a metastore that is not one of Hive 3.1.
    """

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        self.shown = self._database.shown
        self._tables = open_tables(self._database)
        self.schema_version = self._tables.version
        """The version of the metastore's schema this queue is part of; None for tables of our own."""
        queue, history = self._queue, self._history = self._tables.queue, self._tables.history
        state = queue.column("STATE")
        self._claimable = _StatementsById(queue, state == State.INITIATED.value)
        self._worked_on = _StatementsById(
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
        """Return the time that those of this queue compare with: a metastore's database tells it, else the caller."""
        with self._database.reading("read") as connection:
            return self._now_ms(connection, callers_ms)

    def _now_ms(self, connection: Connection, callers_ms: int) -> int:
        return callers_ms if self.schema_version is None else self._database.now_ms(connection)

    # what there is

    def show(self) -> tuple[CompactionRequest, ...]:
        """Return all rows of the queue and the history, newest first, read at one moment."""
        return self._rows(lambda _: true())

    def find(self, request_id: int) -> CompactionRequest | None:
        """Return the request with this id, in the queue or in the history."""
        return next(iter(self._rows(lambda table: table.column("ID") == request_id)), None)

    def in_states(self, *states: State) -> tuple[CompactionRequest, ...]:
        """Return the rows of the queue and the history in one of these states, newest first, read at one moment."""
        tables = [self._queue] if _QUEUED.issuperset(states) else [self._queue, self._history]
        return self._rows(lambda table: _in_states(table, states), tables)

    def waiting(self, kind: CompactionType | None = None) -> tuple[CompactionRequest, ...]:
        """Return the requests in state initiated, oldest first, to choose from; `claim_id` then takes one."""
        rows = self.in_states(State.INITIATED)
        return tuple(row for row in reversed(rows) if kind is None or row.type is kind)

    def ready_for_cleaning(self) -> tuple[CompactionRequest, ...]:
        """Return what awaits the cleaner, ordered so that no later result of a place comes before an earlier one."""
        found = self.in_states(State.READY_FOR_CLEANING)
        return tuple(sorted(found, key=lambda row: (row.highest_write_id or 0, row.id)))

    def of_entity(self, request: CompactionRequest) -> tuple[CompactionRequest, ...]:
        """Return the rows of the queue and the history about a request's table and partition, newest first."""
        return self._rows(lambda table: self._of_entity(table, request))

    def rows_at(self, locations: Iterable[Location], *, states: Sequence[State] = ()) -> tuple[CompactionRequest, ...]:
        """Return the rows of the queue and the history about places, whatever they name, newest first.

        states  only those in one of these states

        A metastore's tables have no index by location: all their rows in these states are looked at.
        """
        wanted = frozenset(locations)
        if self.schema_version is not None:
            rows = self.in_states(*states) if states else self.show()
            return tuple(row for row in rows if row.facts.location in wanted)
        keys = [place_key(location) for location in wanted]
        with self._database.reading("read", one_moment=True) as connection:
            return _newest_first(
                row
                for table in (self._queue, self._history)
                for some in chunks(keys)
                for row in self._requests(
                    connection,
                    table,
                    and_(table.column(PLACE).in_(some), _in_states(table, states) if states else true()),
                )
            )

    def rows_noting(self, location: Location, name: str) -> tuple[CompactionRequest, ...]:
        """Return what `rows_at` has of a place; nothing, at less cost, where no row there has a property of this name.

        Some databases find the name in another case, too.
        """
        if self.schema_version is None:
            named = {_PLACE: place_key(location)}
            with self._database.reading("read") as connection:
                statements = (_noting(table, name=name) for table in (self._queue, self._history))
                if not any(connection.execute(statement, named).first() for statement in statements):
                    return ()
        return self.rows_at([location])

    def newest_of_places(self) -> tuple[CompactionRequest, ...]:
        """Return the newest row of the queue and of the history about each place by each of its names, or more."""

        def newest(table: RequestTable) -> ColumnElement[bool]:
            if table.of_hive:
                return true()
            number = table.column("ID")
            place = (table.column(end) for end in ("DATABASE", "TABLE", "PARTITION", PLACE))
            return number.in_(select(func.max(number)).group_by(*place))

        return self._rows(newest)

    def has_succeeded_below(self, location: Location) -> bool:
        """Return whether the history knows a success at this location or below it."""
        history = self._history
        wanted = and_(_in_states(history, [State.SUCCEEDED]), _mentions(history, location.stored_text))
        with self._database.reading("read") as connection, connection.execute(history.select().where(wanted)) as rows:
            places = (history.request(row).facts.location for row in rows)
            return any(place is not None and location.holds(place) for place in places)

    def failed_attempts(self, request: CompactionRequest, *, threshold: int, retry_ms: int, now_ms: int) -> str | None:
        """Return why a place is not compacted automatically after failures; see `failed_attempts_reason`.

        In tables of our own the rule is Hive 4's, which tries again, whatever the generation of the table is.
        In a metastore it is Hive 3.1's, which for a whole table counts the rows of its partitions too.
        """
        is_own = self.schema_version is None
        about = self._of_entity if is_own or request.ref.partition is not None else self._of_table
        with self._database.reading("read") as connection:
            rows = self._requests(connection, self._history, about(self._history, request))
        if is_own:
            rows = [row for row in rows if same_entity(row, request)]
        return failed_attempts_reason(
            rows,
            threshold=threshold,
            retry_ms=retry_ms,
            now_ms=now_ms,
            generation=Generation.HIVE4 if is_own else Generation.HIVE3,
        )

    def unreadable(self) -> tuple[Unreadable, ...]:
        """Return the rows of a metastore's tables that are not understood, newest first."""
        with self._database.reading("read", one_moment=True) as connection:
            found = [
                table.read(row)
                for table in (self._queue, self._history)
                for row in connection.execute(table.select()).all()
            ]
        strange = (row for row in found if isinstance(row, Unreadable))
        return tuple(sorted(strange, key=lambda row: row.id, reverse=True))

    def _rows(self, wanted: _Condition, tables: Sequence[RequestTable] = ()) -> tuple[CompactionRequest, ...]:
        with self._database.reading("read", one_moment=True) as connection:
            return _newest_first(
                row
                for table in tables or (self._queue, self._history)
                for row in self._requests(connection, table, wanted(table))
            )

    @staticmethod
    def _requests(connection: Connection, table: RequestTable, wanted: ColumnElement[bool]) -> list[CompactionRequest]:
        rows = connection.execute(table.select().where(wanted)).all()  # a cursor left open keeps SQLite locked
        return [request for row in rows if isinstance(request := table.read(row), CompactionRequest)]

    def _of_table(self, table: RequestTable, request: CompactionRequest) -> ColumnElement[bool]:
        """Return the condition for rows about a request's table, whatever the partition."""
        equals = self._database.equals
        names = (table.column("DATABASE"), table.column("TABLE"))
        return and_(equals(names[0], request.ref.database), equals(names[1], request.ref.table))

    def _of_entity(self, table: RequestTable, request: CompactionRequest) -> ColumnElement[bool]:
        """Return the condition for rows about a request's table and partition; none matches none alone."""
        if not table.of_hive:
            return table.column(ENTITY) == entity_key(request)
        return and_(
            self._of_table(table, request), self._database.equals(table.column("PARTITION"), request.ref.partition)
        )

    # Hive's mutexes: rows (name, 0) of AUX_TABLE, made when first needed. Source: Hive 3.1 `MutexAPI.acquireLock`.

    def alone(self, service: Service) -> AbstractContextManager[None]:
        """Keep Hive's own service of this name, and ours on other hosts, waiting until it is left.

        Raises `ConflictError` when another one is at work. In tables of our own there is none to keep waiting: there
        nothing is locked.
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
        """Make the row of a mutex if it is missing, in a transaction of its own: others see it before they wait."""
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
        """Add a request in state initiated under a new id, unless one for the same place makes it needless.

        With a `worker_id` it is that worker's at once. A waiting one that `is_superseded_by` it is ended as refused.

        Its `highest_write_id`, if given, is the current high-water mark: a request that is ready for cleaning with the
        same one refuses it. The location, if both state one, is part of what "the same place" means.
        """
        (answer,) = self.enqueue_all([request], now_ms=now_ms, worker_id=worker_id)
        return answer

    def enqueue_all(
        self, requests: Sequence[CompactionRequest], *, now_ms: int, worker_id: str | None = None
    ) -> list[Enqueued]:
        """Do as `enqueue` with each of several in turn, in one transaction."""
        wanted = [self._named(request) for request in requests]

        def work(connection: Connection) -> list[Enqueued]:
            with self._new_ids(connection) as ids:
                return [self._enqueued(connection, one, ids, now_ms, worker_id) for one in wanted]

        self._make_mutex(_SCHEDULER)
        return self._database.write("add to", work)

    def record_not_initiated(self, request: CompactionRequest, reason: str, now_ms: int) -> int:
        """Write a history row for a compaction that never was queued (Hive: mark failed with id 0); return its id."""
        wanted = self._named(request)

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

    def _named(self, request: CompactionRequest) -> CompactionRequest:
        """Return the request under the names that Hive stores: it compares them as they are.

        Raises RefusedError for a kind that Hive 3.1 has no letter for: with one its metastore cannot list requests.
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
        """Give ids for what a transaction adds, allocated as Hive does: under the scheduler's mutex, counted up after.

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
        rows = connection.execute(queue.select().where(self._of_entity(queue, wanted))).all()
        found = [queue.read(row) for row in rows]
        others = sorted((row for row in found if isinstance(row, CompactionRequest)), key=lambda row: row.id)
        superseded = [row for row in others if is_superseded_by(row, wanted)]
        duplicate = duplicate_reason(wanted, [row for row in others if row not in superseded])
        if duplicate is not None:
            other, reason = duplicate
            return Enqueued(id=other.id, accepted=False, state=other.state, reason=reason)
        for row in found:  # what is not understood counts by its state, as in Hive
            if isinstance(row, Unreadable) and row.state in (State.INITIATED, State.WORKING):
                reason = f"{already_scheduled(row.id, row.state)}; {row.reason}"
                return Enqueued(id=row.id, accepted=False, state=row.state, reason=reason)
        for waiting in superseded:
            reason = f"its run has ended, and a {wanted.type.label} compaction was asked for since"
            now = self._now_ms(connection, now_ms)
            if not self._move(connection, self._claimable, {_IDS: [waiting.id]}, State.REFUSED, now, reason=reason):
                raise _not_ours(waiting.id)
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
        """Take one request for a worker; None when it no longer waits (another worker was faster).

        In a metastore the worker's id must not begin with the name of a host of Hive's: when a metastore or HiveServer2
        starts there, it gives back all that such workers have.
        """

        def work(connection: Connection) -> CompactionRequest | None:
            values = {
                "CQ_STATE": State.WORKING.value,
                "CQ_WORKER_ID": worker_id,
                "CQ_START": self._now_ms(connection, now_ms),
            }
            if connection.execute(self._claimable.update, {**values, _IDS: [request_id]}).rowcount != 1:
                return None
            rows, named = self._owned([request_id], worker_id)
            return self._queue.request(connection.execute(rows.select, named).one())

        return self._database.write("claim from", work)

    def _owned(self, ids: Sequence[int], worker_id: str | None) -> tuple[_StatementsById, dict[str, object]]:
        """Return the statements about what a worker works on (the cleaner: what is ready), and their parameters."""
        if worker_id is None:
            return self._ready, {_IDS: ids}
        return self._worked_on, {_IDS: ids, _WORKER: worker_id}

    def assert_owned(self, request_id: int, worker_id: str) -> None:
        """Raise ConflictError unless a worker's request is still being worked on by it."""
        rows, named = self._owned([request_id], worker_id)
        with self._database.reading("read") as connection:
            if connection.execute(rows.ids, named).first() is None:
                raise _not_ours(request_id)

    def change(self, request_id: int, owner: str | None, /, *, facts: RequestFacts = NO_FACTS, **fields: Any) -> None:
        """Set fields of a request, and add or replace facts. Raise ConflictError unless it is the owner's.

        owner  the worker that works on it; None = the cleaner, for which it is ready

        What the table has no column for is not kept; the columns of other fields are not written.
        """
        rows, named = self._owned([request_id], owner)

        def work(connection: Connection) -> None:
            row = connection.execute(rows.select, named).one_or_none()
            if row is None:
                raise _not_ours(request_id)
            before = self._queue.request(row)
            changed = fields if facts == NO_FACTS else {**fields, "facts": before.facts.updated(facts)}
            values = self._queue.values(replace(before, **changed), *changed)
            if values and connection.execute(rows.update, {**values, **named}).rowcount != 1:
                raise _not_ours(request_id)

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
        """Note that the result is visible: ready for cleaning since `now_ms`, with what the cleaner needs in `facts`.

        highest_write_id  the high-water mark that everything about this request goes by from now on

        Raises `ConflictError` unless the request is still being worked on by this worker.
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
        """Make a request initiated again: the worker did not carry it out and another may."""
        self.change(request_id, worker_id, state=State.INITIATED, worker_id=None, start_ms=None)

    def revoke_timed_out(self, now_ms: int, timeout_ms: int) -> int:
        """Give back every request whose worker started before `now_ms - timeout_ms`; return how many."""
        queue = self._queue

        def work(connection: Connection) -> int:
            latest = self._now_ms(connection, now_ms) - timeout_ms
            guard = and_(_in_states(queue, [State.WORKING]), queue.column("START") < latest)
            values = {"CQ_STATE": State.INITIATED.value, "CQ_WORKER_ID": None, "CQ_START": None}
            return connection.execute(update(queue.table).where(guard).values(values)).rowcount

        return self._database.write("write to", work)

    # how requests end

    def withdraw(self, request_id: int, worker_id: str) -> None:
        """Forget a request that a worker has queued for itself and not carried out: no other has asked for it."""
        rows, named = self._owned([request_id], worker_id)

        def work(connection: Connection) -> None:
            if not connection.execute(rows.delete, named).rowcount:
                raise _not_ours(request_id)

        self._database.write("write to", work)

    def mark_needless(self, request_id: int, now_ms: int, *, worker_id: str) -> None:
        """End a request of a worker that found nothing to do: of a queue of our own nothing is left of it.

        A metastore's history shows it as succeeded, as where its own worker has nothing to do (`CompactorMR.run` of
        Hive 3.1); but none of its notes of writes is forgotten, for nothing was merged. Raises `ConflictError` unless
        the request is still being worked on by this worker.
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

        worker_id  of the worker that works on it; None = the cleaner, for which it is ready
        up_to      the write id up to which a metastore forgets the writes of a success, that of the row unless it is
                   given: what aborted transactions wrote there must be covered or gone. A metastore's row cannot say 0
        """
        (error,) = self.end_all(
            [request_id], state, now_ms, worker_id=worker_id, reason=reason, facts=facts, up_to=up_to
        )
        if error is not None:
            raise error

    def end_all(
        self,
        request_ids: Sequence[int],
        state: State,
        now_ms: int,
        *,
        worker_id: str | None = None,
        reason: str | None = None,
        facts: RequestFacts = NO_FACTS,
        up_to: int | None = None,
    ) -> list[ConflictError | None]:
        """Do as `end` with some hundreds in one transaction; return the error for each that is not its owner's."""
        rows, named = self._owned(request_ids, worker_id)

        def work(connection: Connection) -> list[ConflictError | None]:
            now = self._now_ms(connection, now_ms)
            moved = self._move(connection, rows, named, state, now, reason=reason, facts=facts)
            if state is State.SUCCEEDED:
                for request in moved:
                    self._forget_writes(connection, request, request.highest_write_id if up_to is None else up_to)
            ids = {request.id for request in moved}
            return [None if request_id in ids else _not_ours(request_id) for request_id in request_ids]

        return self._database.write("write to", work)

    def mark_undone(self, request_id: int, reason: str, now_ms: int, *, facts: RequestFacts) -> None:
        """End a request whose result was taken back as failed, with more facts: no cleaner comes after it.

        It is ready for cleaning, or has succeeded or failed before. Raises `ConflictError` where it has not.
        """
        history, named = self._history, {_IDS: [request_id]}

        def work(connection: Connection) -> None:
            now = self._now_ms(connection, now_ms)
            if self._move(connection, self._ready, named, State.FAILED, now, reason=reason, facts=facts):
                return
            row = connection.execute(self._ended.select, named).one_or_none()
            if row is None:
                raise _not_ours(request_id)
            before = history.request(row)
            changed = replace(before, state=State.FAILED, error_message=reason, facts=before.facts.updated(facts))
            values = history.values(changed, "state", "error_message", "facts")
            connection.execute(self._ended.update, {**values, **named})

        self._database.write("write to", work)

    def abort(self, request_ids: Sequence[int], reason: str, now_ms: int) -> frozenset[int]:
        """Move requests to the history as aborted, those of them that no worker has taken yet, whose ids it returns.

        A metastore shows the state of such a row by Hive 4's letter, `x`, which Hive 3.1 does not count as a failure.
        """

        def work(connection: Connection) -> frozenset[int]:
            now, named = self._now_ms(connection, now_ms), {_IDS: request_ids}
            moved = self._move(connection, self._claimable, named, State.ABORTED, now, reason=reason)
            return frozenset(request.id for request in moved)

        return self._database.write("write to", work)

    def _move(
        self,
        connection: Connection,
        rows: _StatementsById,
        named: Mapping[str, object],
        state: State,
        now_ms: int,
        *,
        reason: str | None = None,
        facts: RequestFacts = NO_FACTS,
    ) -> list[CompactionRequest]:
        """Make queue rows history rows, with facts added or replaced; return them as they were in the queue.

        The order of the statements is Hive's.
        """
        queue, history = self._queue, self._history
        found = connection.execute(rows.select, named).all()
        if not found:
            return []
        requests = [queue.request(row) for row in found]
        deleted = connection.execute(rows.delete, named).rowcount
        if deleted != len(requests):
            raise _not_ours(requests[0].id)
        ended = [
            replace(request, state=state, end_ms=now_ms, error_message=reason, facts=request.facts.updated(facts))
            for request in requests
        ]
        values = [{**history.values(done), **queue.meta_info(row)} for done, row in zip(ended, found, strict=True)]
        connection.execute(insert(history.table), values)
        return requests

    def _forget_writes(self, connection: Connection, request: CompactionRequest, up_to: int | None) -> None:
        """Have a metastore forget its notes of committed and of aborted writes up to a write id; without one, all.

        Without these rows Hive's initiator sees nothing new, and an aborted transaction without rows is removed for
        good: so all that it wrote must be covered or gone by then. A request for a whole table is about all its
        partitions. Of a transaction that is chosen all rows of the place go.

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
        for some in chunks(aborted):
            chosen = components.c["TC_TXNID"].in_(some)
            connection.execute(delete(components).where(chosen, at_place(components, "TC")))

    def purge_history(self, retention: Retention, now_ms: int) -> int:
        """Delete the history rows that `rows_to_purge` names; return how many.

        In a metastore the numbers alone count, as in Hive 3.1, whose own service may do the same at the same time.
        """
        history, ours = self._history, self.schema_version is None
        kept = retention if ours else replace(retention, timeout_ms=None)

        def work(connection: Connection) -> int:
            rows = self._requests(connection, history, _places_over_quota(history, kept, now_ms))
            ids = rows_to_purge(rows, kept, now_ms, by_location=ours)
            for some in chunks(ids):
                connection.execute(delete(history.table).where(history.column("ID").in_(some)))
            return len(ids)

        return self._database.write("purge the history of", work)


def _newest_first(rows: Iterable[CompactionRequest]) -> tuple[CompactionRequest, ...]:
    return tuple(sorted(rows, key=lambda row: row.id, reverse=True))


def _in_states(table: RequestTable, states: Iterable[State]) -> ColumnElement[bool]:
    return table.column("STATE").in_([state.value for state in states])


def _mentions(table: RequestTable, text: str) -> ColumnElement[bool]:
    """Return the condition for a text anywhere in properties or facts; some databases find it in another case, too."""
    return table.column("TBLPROPERTIES").contains(text, autoescape=True)


@lru_cache(8)
def _noting(table: RequestTable, *, name: str) -> Select[Any]:
    """Select the ids of rows about a place whose properties mention a name: asked of every place, so made once."""
    return select(table.column("ID")).where(table.column(PLACE) == bindparam(_PLACE), _mentions(table, name))


def _places_over_quota(history: RequestTable, retention: Retention, now_ms: int) -> ColumnElement[bool]:
    """Return the condition for the rows of tables and partitions of which `rows_to_purge` may name one, or of more.

    The database tells them, for there may be very many.
    """
    number, state = history.column("ID"), history.column("STATE")
    # a null is equal to nothing; and what is grouped by has to read like what is selected
    partition = func.coalesce(history.column("PARTITION"), literal_column("''"))
    place = (history.column("DATABASE"), history.column("TABLE"), partition)
    quotas = ((one, retention.quota(one)) for one in (State.SUCCEEDED, *_UNHAPPY))
    too_many = [func.sum(case((state == one.value, 1), else_=0)) > quota for one, quota in quotas if quota is not None]
    if retention.timeout_ms is not None:
        is_old = and_(_in_states(history, _UNHAPPY), history.column("END") < now_ms - retention.timeout_ms)
        newest_success = func.max(case((state == State.SUCCEEDED.value, number)))
        too_many.append(newest_success > func.min(case((is_old, number))))
    return tuple_(*place).in_(select(*place).group_by(*place).having(or_(*too_many)))


def _not_ours(request_id: int) -> ConflictError:
    return ConflictError(
        f"Cannot change compaction request {request_id}: it is gone, in another state or another worker's; see acidlib "
        "show"
    )
