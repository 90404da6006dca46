"""The queue of compaction requests in a SQL database, with Hive's states and guarded transitions, and its purge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    case,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)

from acidlib.errors import ConflictError, RefusedError
from acidlib.model.requests import NO_FACTS, CompactionRequest, CompactionType, RequestFacts, State
from acidlib.queue.reader import QueueReader
from acidlib.queue.rows import RequestTable, Unreadable
from acidlib.queue.rules import Retention, duplicate_reason, gives_way, rows_to_purge
from acidlib.queue.statements import (
    CHUNK,
    change_ended,
    change_one,
    complete,
    in_line,
    in_state,
    move,
    not_ours,
    of_entity,
    owned,
    whose,
)
from acidlib.queue.tables import SCHEDULER, Service, lock_mutex, make_mutex, new_ids

# --- purging ----------------------------------------------------------------------------------------------------------
# Which history rows have to be looked at before some are purged: the database tells, for there may be very many.

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


# --- sql --------------------------------------------------------------------------------------------------------------
# The queue of compaction requests in a SQL database, with Hive's states and guarded transitions.
#
# Source: Hive CompactionTxnHandler and TxnHandler.compact, statement by statement; with the tests of ownership that
# Hive leaves to the caller: a worker may end only what is still its own. Times are epoch milliseconds, given as
# arguments; but in a metastore's database its own clock counts instead, for Hive compares with it.

_SERVICE_WAIT_SECONDS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """The answer to a request: its id, or that of the request it duplicates, and why it was not accepted.

    `taken` is the request where a worker has it from the beginning on.
    """

    id: int
    accepted: bool
    state: State
    reason: str | None = None
    taken: CompactionRequest | None = None


class SqlQueue(QueueReader):
    """A queue at a SQLAlchemy URL, usable by many processes at once: SQLite, PostgreSQL, MySQL or MariaDB.

    It works on tables of our own, created on first use, or on those of a metastore of Hive 3.1 when the database is
    one; there nothing is ever created or altered, and Hive's own services may work beside it. What a metastore's tables
    cannot hold is said in `rows`. A refused request stands there under Hive 4's letter, which Hive 3.1 shows as `c`,
    does not count as a failure and never purges; `purge_history` does.

    Every method raises `RetryError` when the database fails, `RefusedError` when values do not fit into it,
    `CorruptError` for a row that cannot be read and is asked for by its id, and, if it writes, `UnknownOutcomeError`
    when the connection is lost while committing. Opening raises `RefusedError` for a URL that makes no sense or needs a
    driver that is not installed, and for a metastore that is not one of Hive 3.1.
    """

    def enqueue(self, request: CompactionRequest, *, now_ms: int, worker_id: str | None = None) -> Enqueued:
        """Adds a request in state initiated under a new id, unless one for the same place makes it needless.

        With a `worker_id` it is that worker's at once. A waiting one that `gives_way` is ended as refused.

        Its `highest_write_id`, if given, is the current high-water mark: a request that is ready for cleaning with the
        same one refuses it. The location, if both state one, is part of what "the same place" means.
        """
        (answer,) = self.enqueue_all([request], now_ms=now_ms, worker_id=worker_id)
        return answer

    def enqueue_all(
        self, requests: Sequence[CompactionRequest], *, now_ms: int, worker_id: str | None = None
    ) -> list[Enqueued]:
        """As `enqueue`, each of several in turn, in one transaction."""
        tables = self._tables
        wanted = [self._named(request) for request in requests]

        def work(connection: Connection) -> list[Enqueued]:
            lock_mutex(connection, tables, SCHEDULER)
            with new_ids(connection, tables) as ids:
                return [self._enqueued(connection, one, ids, now_ms, worker_id) for one in wanted]

        make_mutex(self._database, tables, SCHEDULER)
        return self._database.write("add to", work)

    def claim_id(self, request_id: int, worker_id: str, now_ms: int) -> CompactionRequest | None:
        """Takes one request for a worker; None when it no longer waits (somebody else was faster).

        In a metastore the worker's id must not begin with the name of a host of Hive's: when a metastore or HiveServer2
        starts there, it gives back all that such workers have.
        """
        queue = self._tables.queue

        def work(connection: Connection) -> CompactionRequest | None:
            values = {
                "CQ_STATE": State.WORKING.value,
                "CQ_WORKER_ID": worker_id,
                "CQ_START": self._now_ms(connection, now_ms),
            }
            if connection.execute(in_line(queue).update, {**values, **whose(request_id)}).rowcount != 1:
                return None
            taken = connection.execute(owned(queue, by_worker=True).select, whose(request_id, worker_id=worker_id))
            return queue.request(taken.one())

        return self._database.write("claim from", work)

    def set_run_as(self, request_id: int, worker_id: str, user: str) -> None:
        """Records the user that the worker compacts as."""
        self._change(request_id, worker_id, run_as=user)

    def set_facts(self, request_id: int, worker_id: str | None, facts: RequestFacts) -> None:
        """Adds or replaces facts of a request that the worker owns; without one, of one ready for cleaning."""
        self._change(request_id, worker_id, facts=facts)

    def mark_compacted(
        self,
        request_id: int,
        worker_id: str,
        now_ms: int,
        *,
        highest_write_id: int | None = None,
        facts: RequestFacts = NO_FACTS,
    ) -> None:
        """The result is visible: ready for cleaning since `now_ms`, with what the cleaner needs in `facts`.

        highest_write_id  the high-water mark that everything about this request goes by from now on

        Raises `ConflictError` unless the request is still being worked on by this worker.
        """
        self._change(
            request_id,
            worker_id,
            facts=facts,
            state=State.READY_FOR_CLEANING,
            worker_id=None,
            commit_ms=now_ms,
            highest_write_id=highest_write_id,
        )

    def give_back(self, request_id: int, worker_id: str) -> None:
        """The worker did not carry it out and another may: initiated again."""
        self._change(request_id, worker_id, state=State.INITIATED, worker_id=None, start_ms=None)

    def withdraw(self, request_id: int, worker_id: str) -> None:
        """Forget a request that a worker has queued for itself and not carried out: nobody else has asked for it."""
        rows, named = owned(self._tables.queue, by_worker=True), whose(request_id, worker_id=worker_id)

        def work(connection: Connection) -> None:
            if not connection.execute(rows.delete, named).rowcount:
                raise not_ours(request_id)

        self._database.write("write to", work)

    def mark_failed(
        self,
        request_id: int,
        reason: str,
        now_ms: int,
        *,
        worker_id: str | None,
        facts: RequestFacts = NO_FACTS,
    ) -> None:
        """Moves a request to the history as failed, with more facts: by its worker, with None by the cleaner."""
        self._complete(request_id, State.FAILED, now_ms, reason=reason, worker_id=worker_id, facts=facts)

    def mark_refused(
        self,
        request_id: int,
        reason: str,
        now_ms: int,
        *,
        worker_id: str | None,
        facts: RequestFacts = NO_FACTS,
    ) -> None:
        """Moves a request to the history as refused; see `mark_failed`."""
        self._complete(request_id, State.REFUSED, now_ms, reason=reason, worker_id=worker_id, facts=facts)

    def mark_needless(self, request_id: int, now_ms: int, *, worker_id: str) -> None:
        """End a request of a worker that found nothing to do: of a queue of our own nothing is left of it.

        A metastore's history shows it as succeeded, as where its own worker has nothing to do (`CompactorMR.run` of
        Hive 3.1); but none of its notes of writes is forgotten, for nothing was merged. Raises `ConflictError` unless
        the request is still being worked on by this worker.
        """
        tables = self._tables
        rows, named = owned(tables.queue, by_worker=True), whose(request_id, worker_id=worker_id)

        def work(connection: Connection) -> None:
            if tables.metastore is None:
                ended = connection.execute(rows.delete, named).rowcount > 0
            else:
                now = self._now_ms(connection, now_ms)
                ended = bool(move(connection, tables, rows, named, State.SUCCEEDED, reason=None, now_ms=now))
            if not ended:
                raise not_ours(request_id)

        self._database.write("write to", work)

    def abort(self, request_ids: Sequence[int], reason: str, now_ms: int) -> frozenset[int]:
        """Move requests to the history as aborted, those of them that nobody works on yet, whose ids it returns.

        A metastore shows the state of such a row by Hive 4's letter, `x`, which Hive 3.1 does not count as a failure.
        """
        tables = self._tables
        rows, named = in_line(tables.queue), whose(*request_ids)

        def work(connection: Connection) -> frozenset[int]:
            now = self._now_ms(connection, now_ms)
            moved = move(connection, tables, rows, named, State.ABORTED, reason=reason, now_ms=now)
            return frozenset(request.id for request in moved)

        return self._database.write("write to", work)

    def mark_undone(self, request_id: int, reason: str, now_ms: int, *, facts: RequestFacts) -> None:
        """Ends a request whose result was taken back as failed, with more facts: nobody cleans after it.

        It is ready for cleaning, or has succeeded or failed before. Raises `ConflictError` where it has not.
        """
        tables = self._tables

        def work(connection: Connection) -> None:
            now = self._now_ms(connection, now_ms)
            if complete(
                connection, tables, [request_id], None, State.FAILED, reason=reason, now_ms=now, facts=facts
            ):  # fmt: skip
                return
            change_ended(connection, tables.history, request_id, State.FAILED, reason=reason, facts=facts)

        self._database.write("write to", work)

    def mark_cleaned(self, request_id: int, now_ms: int, *, up_to: int | None = None) -> None:
        """Moves a request that was ready for cleaning to the history as succeeded.

        A metastore then forgets the writes up to a write id (`cleaned.forget_writes`), that of the row unless it is
        given: what aborted transactions wrote there must be covered or gone. A metastore's row cannot say 0.
        """
        self._complete(request_id, State.SUCCEEDED, now_ms, reason=None, worker_id=None, up_to=up_to)

    def mark_all_cleaned(self, request_ids: Sequence[int], now_ms: int) -> list[ConflictError | None]:
        """As `mark_cleaned`, of some hundreds at most in one transaction; the error of each that was not ready."""
        moved = self._moved(request_ids, State.SUCCEEDED, now_ms, reason=None, worker_id=None)
        return [None if request_id in moved else not_ours(request_id) for request_id in request_ids]

    def record_not_initiated(self, request: CompactionRequest, reason: str, now_ms: int) -> int:
        """Writes a history row for a compaction that never was queued (Hive: mark failed with id 0); returns its id."""
        tables = self._tables
        wanted = self._named(request)

        def work(connection: Connection) -> int:
            lock_mutex(connection, tables, SCHEDULER)
            now = self._now_ms(connection, now_ms)
            with new_ids(connection, tables) as ids:
                row = replace(
                    wanted,
                    id=next(ids),
                    state=State.ATTEMPTED,
                    error_message=reason,
                    start_ms=now,
                    end_ms=now,
                    enqueue_ms=now,
                )
            connection.execute(insert(tables.history.table), tables.history.values(row))
            return row.id

        make_mutex(self._database, tables, SCHEDULER)
        return self._database.write("write to", work)

    def set_cleaner_note(self, request_id: int, reason: str | None, retry_retention_ms: int) -> None:
        """Notes why a request could not be cleaned yet and how much longer the cleaner waits before the next try."""
        self._change(request_id, None, error_message=reason, retry_retention_ms=retry_retention_ms)

    def revoke_timed_out(self, now_ms: int, timeout_ms: int) -> int:
        """Gives back every request whose worker started before `now_ms - timeout_ms`; returns how many."""
        queue = self._tables.queue

        def work(connection: Connection) -> int:
            latest = self._now_ms(connection, now_ms) - timeout_ms
            guard = and_(in_state(queue, State.WORKING), queue.column("START") < latest)
            values = {"CQ_STATE": State.INITIATED.value, "CQ_WORKER_ID": None, "CQ_START": None}
            return connection.execute(update(queue.table).where(guard).values(values)).rowcount

        return self._database.write("write to", work)

    def purge_history(self, retention: Retention, now_ms: int) -> int:
        """Deletes the history rows that `rows_to_purge` names; returns how many.

        In a metastore the numbers alone count, as in Hive 3.1, whose own service may do the same at the same time.
        """
        history = self._tables.history
        of_hive = self._tables.metastore is not None

        def work(connection: Connection) -> int:
            kept = replace(retention, timeout_ms=None) if of_hive else retention
            rows = self._requests(connection, history, of_those_with_too_many(history, kept, now_ms))
            ids = rows_to_purge(rows, kept, now_ms, by_location=not of_hive)
            for start in range(0, len(ids), CHUNK):
                chosen = history.column("ID").in_(ids[start : start + CHUNK])
                connection.execute(delete(history.table).where(chosen))
            return len(ids)

        return self._database.write("purge the history of", work)

    def alone(self, service: Service) -> AbstractContextManager[None]:
        """Keeps Hive's own service of this name, and ours on other hosts, waiting until it is left.

        Raises `ConflictError` when another one is at work. In tables of our own there is none to keep waiting: there
        nothing is locked.
        """
        tables = self._tables
        if tables.metastore is None:
            return nullcontext()
        make_mutex(self._database, tables, service.value)
        return self._database.holding(
            f"run the {service.value} on",
            lambda connection: lock_mutex(connection, tables, service.value),
            wait_seconds=_SERVICE_WAIT_SECONDS,
        )

    def _named(self, request: CompactionRequest) -> CompactionRequest:
        """The request under the names that Hive stores: it compares them as they are.

        Raises RefusedError for a kind that Hive 3.1 has no letter for: with one its metastore cannot list requests.
        """
        if self._tables.metastore is None:
            return request
        if request.type not in (CompactionType.MINOR, CompactionType.MAJOR):
            kind = request.type.label
            raise RefusedError(f"Cannot queue a compaction of {request.ref}: because Hive 3.1 has no {kind} one")
        ref = request.ref
        return replace(request, ref=ref._replace(database=ref.database.lower(), table=ref.table.lower()))

    def _enqueued(
        self,
        connection: Connection,
        wanted: CompactionRequest,
        ids: Iterator[int],
        now_ms: int,
        worker_id: str | None,
    ) -> Enqueued:
        tables = self._tables
        rows = connection.execute(tables.queue.select().where(of_entity(connection, tables.queue, wanted))).all()
        unread = [one for one in map(tables.queue.unreadable, rows) if one is not None] if tables.queue.of_hive else []
        not_understood = {one.id for one in unread}
        others = [
            tables.queue.request(row) for row in rows if row._mapping[tables.queue.column("ID")] not in not_understood
        ]
        refusal = self._duplicate(wanted, others, unread)
        if refusal is not None:
            return refusal
        self._end_what_gives_way(connection, wanted, others, now_ms)
        new = replace(
            wanted,
            id=next(ids),
            state=State.INITIATED if worker_id is None else State.WORKING,
            enqueue_ms=now_ms,
            highest_write_id=None,
            worker_id=worker_id,
            start_ms=None if worker_id is None else self._now_ms(connection, now_ms),
        )
        connection.execute(insert(tables.queue.table), tables.queue.values(new))
        return Enqueued(id=new.id, accepted=True, state=new.state, taken=None if worker_id is None else new)

    @staticmethod
    def _duplicate(
        request: CompactionRequest, others: Sequence[CompactionRequest], unread: Sequence[Unreadable]
    ) -> Enqueued | None:
        """The answer to a request that is needless; a row that is not understood counts by its state, as in Hive."""
        waiting = sorted((row for row in others if not gives_way(row, request)), key=lambda other: other.id)
        duplicate = duplicate_reason(request, waiting)
        if duplicate is not None:
            state = next(other.state for other in waiting if other.id == duplicate[0])
            return Enqueued(id=duplicate[0], accepted=False, state=state, reason=duplicate[1])
        for other in unread:
            if other.state in (State.INITIATED, State.WORKING):
                reason = f"Compaction is already scheduled with state='{other.state.label}' and id={other.id}"
                return Enqueued(id=other.id, accepted=False, state=other.state, reason=f"{reason}; {other.reason}")
        return None

    def _end_what_gives_way(
        self, connection: Connection, request: CompactionRequest, others: Sequence[CompactionRequest], now_ms: int
    ) -> None:
        tables = self._tables
        for row in others:
            if gives_way(row, request):
                reason = f"its run has ended, and a {request.type.label} compaction was asked for since"
                now = self._now_ms(connection, now_ms)
                rows, named = in_line(tables.queue), whose(row.id)
                if not move(connection, tables, rows, named, State.REFUSED, reason=reason, now_ms=now):
                    raise not_ours(row.id)

    def _change(self, request_id: int, owner: str | None, *, facts: RequestFacts = NO_FACTS, **fields: object) -> None:
        queue = self._tables.queue
        self._database.write(
            "write to", lambda connection: change_one(connection, queue, request_id, owner, facts=facts, **fields)
        )

    def _complete(
        self,
        request_id: int,
        state: State,
        now_ms: int,
        *,
        reason: str | None,
        worker_id: str | None,
        up_to: int | None = None,
        facts: RequestFacts = NO_FACTS,
    ) -> None:
        """The queue row must be where the caller believes it to be."""
        moved = self._moved([request_id], state, now_ms, reason=reason, worker_id=worker_id, up_to=up_to, facts=facts)
        if not moved:
            raise not_ours(request_id)

    def _moved(
        self,
        request_ids: Sequence[int],
        state: State,
        now_ms: int,
        *,
        reason: str | None,
        worker_id: str | None,
        up_to: int | None = None,
        facts: RequestFacts = NO_FACTS,
    ) -> frozenset[int]:
        """Queue rows to history rows in one transaction: of those that are where the caller believes them to be."""
        tables = self._tables

        def work(connection: Connection) -> frozenset[int]:
            now = self._now_ms(connection, now_ms)
            return complete(
                connection, tables, request_ids, worker_id, state, reason=reason, now_ms=now, up_to=up_to, facts=facts
            )

        return self._database.write("write to", work)
