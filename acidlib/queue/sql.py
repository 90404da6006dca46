"""The queue of compaction requests in a SQL database, with Hive's states and guarded transitions.

Source: Hive CompactionTxnHandler and TxnHandler.compact, statement by statement; with the tests of ownership that Hive
leaves to the caller: a worker may end only what is still its own. Times are epoch milliseconds, given as arguments.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, Update, and_, delete, insert, select, update

from acidlib.errors import ConflictError
from acidlib.model.generation import Generation
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.queue.database import Database
from acidlib.queue.rows import columns_of, from_row, history_values, properties_text, queue_values
from acidlib.queue.rules import Retention, duplicate_reason, failed_attempts_reason, rows_to_purge, same_entity
from acidlib.queue.schema import AUX_TABLE, COMPACTION_QUEUE, COMPLETED_COMPACTIONS, METADATA, NEXT_COMPACTION_QUEUE_ID

_queue = COMPACTION_QUEUE.c
_history_columns = COMPLETED_COMPACTIONS.c
_SCHEDULER = "CompactionScheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """The answer to a request: its id, or that of the request it duplicates, and why it was not accepted."""

    id: int
    accepted: bool
    state: State
    reason: str | None = None


class SqlQueue:
    """A queue at a SQLAlchemy URL; its tables are created on first use. Usable by many processes at once.

    Every method raises `RetryError` when the database fails, and `CorruptError` for a row that cannot be read; opening
    raises `RefusedError` for a URL that makes no sense or needs a driver that is not installed.
    """

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        self._database.prepare(METADATA)

    def close(self) -> None:
        """Closes the connections."""
        self._database.close()

    def __enter__(self) -> "SqlQueue":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def enqueue(self, request: CompactionRequest, *, now_ms: int) -> Enqueued:
        """Adds a request in state initiated under a new id, unless one for the same place makes it needless.

        Its `highest_write_id`, if given, is the current high-water mark: a request that is ready for cleaning with the
        same one refuses it. The location property, if both name one, is part of what "the same place" means.
        """
        with self._database.transaction("add to") as connection:
            _lock(connection, _SCHEDULER)
            rows = connection.execute(
                _select(COMPACTION_QUEUE).where(_is_entity(COMPACTION_QUEUE, "CQ", request)).order_by(_queue["CQ_ID"])
            )
            waiting = [from_row(row, COMPACTION_QUEUE) for row in rows]
            duplicate = duplicate_reason(request, waiting)
            if duplicate is not None:
                state = next(other.state for other in waiting if other.id == duplicate[0])
                return Enqueued(id=duplicate[0], accepted=False, state=state, reason=duplicate[1])
            new = replace(
                request,
                id=_next_id(connection),
                state=State.INITIATED,
                enqueue_ms=now_ms,
                highest_write_id=None,
                worker_id=None,
                start_ms=None,
            )
            connection.execute(insert(COMPACTION_QUEUE).values(**queue_values(new)))
            return Enqueued(id=new.id, accepted=True, state=State.INITIATED)

    def claim_next(
        self, kind: CompactionType, worker_id: str, now_ms: int, *, skip: Collection[int] = ()
    ) -> CompactionRequest | None:
        """Takes the oldest waiting request of a kind whose id is not in `skip`; None when there is none."""
        for request in self.waiting(kind):
            if request.id not in skip:
                claimed = self.claim_id(request.id, worker_id, now_ms)
                if claimed is not None:
                    return claimed
        return None

    def waiting(self, kind: CompactionType | None = None) -> tuple[CompactionRequest, ...]:
        """The requests in state initiated, oldest first, to choose from; `claim_id` then takes one."""
        wanted = _in_state(State.INITIATED)
        if kind is not None:
            wanted = and_(wanted, _queue["CQ_TYPE"] == kind.value)
        return self._queued(wanted)

    def claim_id(self, request_id: int, worker_id: str, now_ms: int) -> CompactionRequest | None:
        """Takes one request for a worker; None when it no longer waits (somebody else was faster)."""
        values = {"CQ_STATE": State.WORKING.value, "CQ_WORKER_ID": worker_id, "CQ_START": now_ms}
        guard = and_(_has_id(request_id), _in_state(State.INITIATED))
        with self._database.transaction("claim from") as connection:
            if connection.execute(update(COMPACTION_QUEUE).where(guard).values(**values)).rowcount != 1:
                return None
            return _one(connection, request_id)

    def set_highest_write_id(self, request_id: int, worker_id: str, highest_write_id: int) -> None:
        """Records the high-water mark that everything about this request goes by from now on."""
        self._change(request_id, worker_id, {"CQ_HIGHEST_WRITE_ID": highest_write_id})

    def set_properties(self, request_id: int, worker_id: str | None, properties: Mapping[str, str]) -> None:
        """Adds or replaces properties of a request that the worker owns; without one, of one ready for cleaning."""
        with self._database.transaction("write to") as connection:
            self._merge_properties(connection, request_id, worker_id, properties)

    def mark_compacted(
        self, request_id: int, worker_id: str, now_ms: int, *, properties: Mapping[str, str] | None = None
    ) -> None:
        """The result is visible: ready for cleaning since `now_ms`, with what the cleaner needs in `properties`.

        Raises `ConflictError` unless the request is still being worked on by this worker.
        """
        values = {"CQ_STATE": State.READY_FOR_CLEANING.value, "CQ_WORKER_ID": None, "CQ_COMMIT_TIME": now_ms}
        with self._database.transaction("write to") as connection:
            self._merge_properties(connection, request_id, worker_id, properties or {})
            _require_one(connection.execute(_update_owned(request_id, worker_id, values)).rowcount, request_id)

    def give_back(self, request_id: int, worker_id: str) -> None:
        """The worker did not carry it out and another may: initiated again."""
        self._change(request_id, worker_id, {"CQ_STATE": State.INITIATED.value, "CQ_WORKER_ID": None, "CQ_START": None})

    def mark_failed(self, request_id: int, reason: str, now_ms: int, *, worker_id: str | None) -> None:
        """Moves a request to the history as failed: by its worker, or with None by the cleaner."""
        self._complete(request_id, State.FAILED, now_ms, reason=reason, worker_id=worker_id)

    def mark_refused(self, request_id: int, reason: str, now_ms: int, *, worker_id: str | None) -> None:
        """Moves a request to the history as refused: by its worker, or with None by the cleaner."""
        self._complete(request_id, State.REFUSED, now_ms, reason=reason, worker_id=worker_id)

    def mark_cleaned(self, request_id: int, now_ms: int) -> None:
        """Moves a request that was ready for cleaning to the history as succeeded."""
        self._complete(request_id, State.SUCCEEDED, now_ms, reason=None, worker_id=None)

    def record_not_initiated(self, request: CompactionRequest, reason: str, now_ms: int) -> int:
        """Writes a history row for a compaction that never was queued (Hive: mark failed with id 0); returns its id."""
        with self._database.transaction("write to") as connection:
            _lock(connection, _SCHEDULER)
            row = replace(
                request,
                id=_next_id(connection),
                state=State.ATTEMPTED,
                error_message=reason,
                start_ms=now_ms,
                end_ms=now_ms,
                enqueue_ms=now_ms,
            )
            connection.execute(insert(COMPLETED_COMPACTIONS).values(**history_values(row)))
            return row.id

    def ready_for_cleaning(self) -> tuple[CompactionRequest, ...]:
        """What awaits the cleaner, in an order in which no later result of a place comes before an earlier one."""
        found = self._queued(_in_state(State.READY_FOR_CLEANING))
        return tuple(sorted(found, key=lambda row: (row.highest_write_id or 0, row.id)))

    def set_cleaner_start(self, request_id: int, start_ms: int | None) -> None:
        """Notes when cleaning of a request began; None clears it."""
        guard = and_(_has_id(request_id), _in_state(State.READY_FOR_CLEANING))
        statement = update(COMPACTION_QUEUE).where(guard).values(CQ_CLEANER_START=start_ms)
        with self._database.transaction("write to") as connection:
            _require_one(connection.execute(statement).rowcount, request_id)

    def set_cleaner_note(self, request_id: int, reason: str | None, retry_retention_ms: int) -> None:
        """Notes why a request could not be cleaned yet and how much longer the cleaner waits before the next try."""
        guard = and_(_has_id(request_id), _in_state(State.READY_FOR_CLEANING))
        values = {"CQ_ERROR_MESSAGE": reason, "CQ_RETRY_RETENTION": retry_retention_ms, "CQ_CLEANER_START": None}
        with self._database.transaction("write to") as connection:
            _require_one(
                connection.execute(update(COMPACTION_QUEUE).where(guard).values(**values)).rowcount, request_id
            )

    def revoke_timed_out(self, now_ms: int, timeout_ms: int) -> int:
        """Gives back every request whose worker started before `now_ms - timeout_ms`; returns how many."""
        guard = and_(_in_state(State.WORKING), _queue["CQ_START"] < now_ms - timeout_ms)
        values = {"CQ_STATE": State.INITIATED.value, "CQ_WORKER_ID": None, "CQ_START": None}
        with self._database.transaction("write to") as connection:
            return connection.execute(update(COMPACTION_QUEUE).where(guard).values(**values)).rowcount

    def find(self, request_id: int) -> CompactionRequest | None:
        """The request with this id, in the queue or in the history."""
        return next((row for row in self.show() if row.id == request_id), None)

    def show(self) -> tuple[CompactionRequest, ...]:
        """All rows of the queue and the history, newest first, read at one moment."""
        with self._database.reading("read") as connection:
            queued = [from_row(row, COMPACTION_QUEUE) for row in connection.execute(_select(COMPACTION_QUEUE))]
            done = _history(connection)
        return tuple(sorted((*queued, *done), key=lambda row: row.id, reverse=True))

    def failed_attempts(
        self,
        request: CompactionRequest,
        *,
        threshold: int,
        retry_ms: int,
        now_ms: int,
        generation: Generation,
    ) -> str | None:
        """Why a place is not compacted automatically after failures; see `failed_attempts_reason`."""
        with self._database.reading("read") as connection:
            rows = _history(connection, _is_entity(COMPLETED_COMPACTIONS, "CC", request))
        history = [row for row in rows if same_entity(row, request)]
        return failed_attempts_reason(
            history, threshold=threshold, retry_ms=retry_ms, now_ms=now_ms, generation=generation
        )

    def purge_history(self, retention: Retention, now_ms: int) -> int:
        """Deletes the history rows that `rows_to_purge` names; returns how many."""
        with self._database.transaction("purge the history of") as connection:
            ids = rows_to_purge(_history(connection), retention, now_ms)
            for start in range(0, len(ids), 500):  # databases bound the number of parameters
                connection.execute(
                    delete(COMPLETED_COMPACTIONS).where(_history_columns["CC_ID"].in_(ids[start : start + 500]))
                )
        return len(ids)

    def _queued(self, wanted: ColumnElement[bool]) -> tuple[CompactionRequest, ...]:
        with self._database.reading("read") as connection:
            rows = connection.execute(_select(COMPACTION_QUEUE).where(wanted).order_by(_queue["CQ_ID"]))
            return tuple(from_row(row, COMPACTION_QUEUE) for row in rows)

    def _change(self, request_id: int, worker_id: str, values: Mapping[str, object]) -> None:
        with self._database.transaction("write to") as connection:
            _require_one(connection.execute(_update_owned(request_id, worker_id, values)).rowcount, request_id)

    def _merge_properties(
        self, connection: Connection, request_id: int, worker_id: str | None, properties: Mapping[str, str]
    ) -> None:
        request = _one(connection, request_id)
        state = State.READY_FOR_CLEANING if worker_id is None else State.WORKING
        if request is None or request.state is not state or request.worker_id != worker_id:
            raise _not_ours(request_id)
        text = properties_text(tuple({**dict(request.properties), **properties}.items()))
        changed = connection.execute(_update_owned(request_id, worker_id, {"CQ_TBLPROPERTIES": text})).rowcount
        _require_one(changed, request_id)

    def _complete(
        self, request_id: int, state: State, now_ms: int, *, reason: str | None, worker_id: str | None
    ) -> None:
        """Queue row to history row in one transaction; the queue row must be where the caller believes it to be."""
        guard = _owned(request_id, worker_id)
        with self._database.transaction("write to") as connection:
            row = connection.execute(_select(COMPACTION_QUEUE).where(guard)).one_or_none()
            if row is None:
                raise _not_ours(request_id)
            request = from_row(row, COMPACTION_QUEUE)
            done = replace(request, state=state, end_ms=now_ms, error_message=reason)
            connection.execute(insert(COMPLETED_COMPACTIONS).values(**history_values(done)))
            _require_one(connection.execute(delete(COMPACTION_QUEUE).where(guard)).rowcount, request_id)


def _select(table: Table) -> Select[Any]:
    return select(*(table.c[name] for name in columns_of(table)))


def _is_entity(table: Table, prefix: str, request: CompactionRequest) -> ColumnElement[bool]:
    partition = table.c[f"{prefix}_PARTITION"]
    return and_(
        table.c[f"{prefix}_DATABASE"] == request.database,
        table.c[f"{prefix}_TABLE"] == request.table,
        partition.is_(None) if request.partition is None else partition == request.partition,
    )


def _has_id(request_id: int) -> ColumnElement[bool]:
    return _queue["CQ_ID"] == request_id


def _in_state(state: State) -> ColumnElement[bool]:
    return _queue["CQ_STATE"] == state.value


def _owned(request_id: int, worker_id: str | None) -> ColumnElement[bool]:
    """A worker's request that is being worked on, or, without a worker, one that is ready for cleaning."""
    if worker_id is None:
        return and_(_has_id(request_id), _in_state(State.READY_FOR_CLEANING))
    return and_(_has_id(request_id), _in_state(State.WORKING), _queue["CQ_WORKER_ID"] == worker_id)


def _update_owned(request_id: int, worker_id: str | None, values: Mapping[str, object]) -> Update:
    return update(COMPACTION_QUEUE).where(_owned(request_id, worker_id)).values(**values)


def _one(connection: Connection, request_id: int) -> CompactionRequest | None:
    row = connection.execute(_select(COMPACTION_QUEUE).where(_has_id(request_id))).one_or_none()
    return None if row is None else from_row(row, COMPACTION_QUEUE)


def _history(connection: Connection, wanted: ColumnElement[bool] | None = None) -> list[CompactionRequest]:
    statement = _select(COMPLETED_COMPACTIONS)
    if wanted is not None:
        statement = statement.where(wanted)
    return [from_row(row, COMPLETED_COMPACTIONS) for row in connection.execute(statement)]


def _require_one(count: int, request_id: int) -> None:
    if count != 1:
        raise _not_ours(request_id)


def _not_ours(request_id: int) -> ConflictError:
    return ConflictError(
        f"Cannot change compaction request {request_id}: because it is gone, in another state or another worker's"
    )


def _lock(connection: Connection, name: str) -> None:
    """Takes Hive's mutex row of this name until the transaction ends; SQLite has locked the whole database already."""
    wanted = select(AUX_TABLE.c["MT_KEY1"]).where(AUX_TABLE.c["MT_KEY1"] == name).with_for_update()
    if connection.execute(wanted).first() is None:
        connection.execute(insert(AUX_TABLE).values(MT_KEY1=name, MT_KEY2=0))
        connection.execute(wanted)


def _next_id(connection: Connection) -> int:
    """Allocates an id as Hive does: read under a lock, plus one. The caller holds the scheduler's mutex."""
    row = connection.execute(select(NEXT_COMPACTION_QUEUE_ID.c.NCQ_NEXT).with_for_update()).one_or_none()
    if row is None:
        connection.execute(insert(NEXT_COMPACTION_QUEUE_ID).values(NCQ_NEXT=2))
        return 1
    connection.execute(update(NEXT_COMPACTION_QUEUE_ID).values(NCQ_NEXT=row[0] + 1))
    return int(row[0])
