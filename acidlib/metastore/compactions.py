"""The calls about compactions: the queue and the history, and the calls of a worker (Hive 4).

Source of the numbers: Hive `CompactionType`; of the letters and words, `TxnStore`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from acidlib.arguments import NO_METASTORE
from acidlib.errors import RefusedError
from acidlib.metastore.connection import MetastoreClient, missing_field, required
from acidlib.model.requests import (
    CompactionRequest,
    CompactionType,
    Enqueued,
    RequestFacts,
    State,
    facts_in_message,
    format_map,
    parse_map,
    split_properties,
)
from acidlib.model.tables import TableRef

_TYPE_NUMBERS = {"MINOR": 1, "MAJOR": 2, "REBALANCE": 3, "ABORT_TXN_CLEANUP": 4, "SMART_OPTIMIZE": 5}
_TYPE_NAMES = {number: name for name, number in _TYPE_NUMBERS.items()}
_SHOW = "show_compact"
OF_A_COMPACTOR = (
    *("find_next_compact2", "update_compactor_state", "mark_compacted", "mark_failed", "mark_refused", "mark_cleaned"),
    *("abort_Compactions", "get_open_txns_req", "get_partitions_by_names_req"),
)
MAY_WORK = f"{NO_METASTORE} may work, which compacts directories"
"""What is left to do with a metastore that is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRequest:
    """A row of the queue or history with a type or state that is unknown to this library, in Hive's words.

    It counts as work on its table or partition unless `state` is one of an ended request.
    """

    id: int
    ref: TableRef
    kind: str
    state: str


class CompactionCalls(MetastoreClient):
    """Compactions. `compact`, `find_next_compaction`, `mark_*` and `abort_compactions` are never repeated once sent."""

    def require_compactor_calls(self) -> None:
        """Raise RefusedError where a fork has some of the calls of Hive 4, and lacks others that a compactor needs."""
        lacking = [call for call in OF_A_COMPACTOR if self.lacks(call)] if self.may_be_fork else []
        if lacking:
            raise RefusedError(
                f"Cannot compact or clean: {self.shown_version} mixes the calls of Hive 3.1 and 4 in a way that is not "
                f"known: it lacks {', '.join(lacking)}; {MAY_WORK}"
            )

    def compact(self, request: CompactionRequest) -> Enqueued:
        """Queue a request for a table or partition, unless there is one already: see `Enqueued`.

        Of `request` the names, the type, the properties, `run_as` and an initiator's reason are sent, to Hive 4 also
        `initiator_id`, `initiator_version`, `pool`, and of a rebalance `bucket_count` and `order_by`.
        Raises UnknownOutcomeError when the answer is lost: look at the queue.
        """
        message = self._types.CompactionRequest(
            dbname=request.ref.database.lower(),
            tablename=request.ref.table.lower(),
            partitionname=request.ref.partition,
            type=_TYPE_NUMBERS[request.type.name],
            runas=request.run_as,
            properties=dict(request.properties) | _sent_facts(request.facts).properties() or None,
        )
        if self._is_hive4:
            message.initiatorId = request.initiator_id
            message.initiatorVersion = request.initiator_version
            message.poolName = request.pool
            message.numberOfBuckets = request.bucket_count
            message.orderByClause = request.order_by
        answer = self.call(f"request a compaction of {request.ref}", "compact2", message)
        return Enqueued(
            id=answer.id, accepted=answer.accepted, state=_state_or_none(answer.state), reason=answer.errormessage
        )

    def show_compactions(self) -> tuple[CompactionRequest, ...]:
        """Return the queue and the history, newest first, without rows of unknown types and states."""
        return self.show_all_compactions()[0]

    def show_compactions_of(self, ref: TableRef) -> tuple[CompactionRequest, ...]:
        """Return the rows of `show_compactions` about one table or partition; Hive 4 sends no others."""
        message = self._types.ShowCompactRequest()
        if self._is_hive4:
            message.dbName, message.tbName, message.partName = ref.as_stored
        rows = self._shown(f"read the compactions of {ref}", message)
        return tuple(row for row in rows if isinstance(row, CompactionRequest) and row.ref == ref.as_stored)

    def show_all_compactions(self) -> tuple[tuple[CompactionRequest, ...], tuple[OtherRequest, ...]]:
        """Return the queue and the history, newest first: the requests, and the rows of unknown types and states."""
        rows = self._shown("read the compactions", self._types.ShowCompactRequest())
        return (
            tuple(row for row in rows if isinstance(row, CompactionRequest)),
            tuple(row for row in rows if isinstance(row, OtherRequest)),
        )

    def _shown(self, action: str, message: Any) -> list[CompactionRequest | OtherRequest]:
        answer = self.call(action, _SHOW, message)
        return sorted((_shown_request(row) for row in answer.compacts), key=lambda row: row.id, reverse=True)

    def find_compaction(self, request_id: int) -> CompactionRequest | None:
        """Return a row of the queue or history; None if it does not exist, or has an unknown type or state."""
        message = self._types.ShowCompactRequest(id=request_id) if self._is_hive4 else self._types.ShowCompactRequest()
        answer = self.call(f"read the compaction {request_id}", _SHOW, message)
        rows = (_shown_request(row) for row in answer.compacts if row.id == request_id)
        return next((row for row in rows if isinstance(row, CompactionRequest)), None)

    def find_next_compaction(self, worker_id: str, worker_version: str, pool: str | None) -> CompactionRequest | None:
        """Claim the oldest request of a pool, or of no pool, for a worker; None when nothing waits (Hive 4 only).

        A request of an unknown type is refused in the queue, with the reason, and the next one claimed. Raises
        UnknownOutcomeError when the answer is lost: a request may then be in state working for this worker, until the
        server takes it back after `hive.compactor.worker.timeout`.
        """
        call = "find_next_compact2"
        message = self._types.FindNextCompactRequest(workerId=worker_id, workerVersion=worker_version, poolName=pool)
        while True:
            info = self.call("take a compaction from the queue", call, message).ci
            if info is None:
                return None
            kind = _type_or_none(info.type)
            if kind is not None:
                return _claimed_request(info, kind, worker_id, call)
            info.errorMessage = f"compactions of type {_type_name(info.type)} are not supported by this worker"
            self.call(f"refuse compaction {info.id}", "mark_refused", info)

    def update_compactor_state(self, request: CompactionRequest, txn_id: int) -> None:
        """Store the transaction, the user and the highest write id of a compaction (Hive 4 only)."""
        action = f"note transaction {txn_id} for compaction {request.id} of {request.ref}"
        self.call(action, "update_compactor_state", _compaction_info(request, self._types), txn_id)

    def set_job_id(self, request: CompactionRequest, job_id: str) -> None:
        """Store a text of at most 32 characters with a request in any state (Hive 4 only).

        SHOW COMPACTIONS shows it as the id of a Hadoop job.
        """
        action = f"note {job_id} for compaction {request.id} of {request.ref}"
        self.call(action, "set_hadoop_jobid", job_id, request.id)

    def mark_compacted(self, request: CompactionRequest) -> None:
        """Move a request from working to ready for cleaning (Hive 4 only); the server does not check the worker."""
        self._mark("mark_compacted", "compacted", request)

    def mark_failed(self, request: CompactionRequest) -> None:
        """Move a request to the history as failed, with its `error_message` (Hive 4 only)."""
        self._mark("mark_failed", "failed", request)

    def mark_not_initiated(self, request: CompactionRequest) -> None:
        """Write a failed compaction that was never queued into the history (Hive 4 only).

        Source: Hive 4 `CompactionTxnHandler.markFailed`, for which the id 0 means that.
        """
        action = f"note that no compaction of {request.ref} was initiated"
        self.call(action, "mark_failed", _compaction_info(replace(request, id=0), self._types))

    def mark_refused(self, request: CompactionRequest) -> None:
        """Move a request to the history as refused, with its `error_message` (Hive 4 only)."""
        self._mark("mark_refused", "refused", request)

    def mark_cleaned(self, request: CompactionRequest) -> None:
        """Move a request to the history as succeeded, and have the server forget its transactions (Hive 4 only).

        It forgets all aborted write ids up to `highest_write_id`, whether or not their files have been deleted.
        """
        self._mark("mark_cleaned", "cleaned", request)

    def abort_compactions(self, ids: Sequence[int]) -> dict[int, str]:
        """Abort requests that wait in the queue, and return the server's text for each id (Hive 4 only)."""
        if not ids:
            return {}
        message = self._types.AbortCompactionRequest(compactionIds=list(ids))
        answer = self.call(f"abort the compactions {', '.join(map(str, ids))}", "abort_Compactions", message)
        return {
            number: ": ".join(part for part in (row.status, row.message) if part)
            for number, row in answer.abortedcompacts.items()
        }

    def _mark(self, call: str, word: str, request: CompactionRequest) -> None:
        action = f"mark compaction {request.id} of {request.ref} as {word}"
        if request.id <= 0:
            # the server would write a new row into the history
            raise RefusedError(f"Cannot {action}: it has no id of the queue")
        self.call(action, call, _compaction_info(request, self._types))


def _sent_facts(facts: RequestFacts) -> RequestFacts:
    """Return the facts that are sent as properties of a request, under names that Hive does not read.

    They are an initiator's reason for queueing it, and no others: in the property `location` Hive's cleaner expects the
    location of a dropped table.
    """
    return RequestFacts(reason=facts.reason, deltas=facts.deltas, bytes=facts.bytes)


def _shown_request(row: Any) -> CompactionRequest | OtherRequest:
    """Return a row of SHOW COMPACTIONS. A time of 0 and Hive 3.1's job id `None` mean unknown values."""
    required(row.id, _SHOW, "compacts.id")
    kind, state = _type_or_none(row.type), _state_or_none(row.state)
    if kind is None or state is None:
        return OtherRequest(
            id=row.id,
            ref=TableRef(row.dbname.lower(), row.tablename.lower(), row.partitionname),
            kind=_type_name(row.type),
            state=row.state,
        )
    return CompactionRequest(
        id=row.id,
        ref=TableRef(row.dbname.lower(), row.tablename.lower(), row.partitionname),
        type=kind,
        state=state,
        worker_id=row.workerid,
        start_ms=row.start or None,
        end_ms=row.endTime or None,
        enqueue_ms=row.enqueueTime or None,
        commit_ms=row.commitTime or None,
        cleaner_start_ms=row.cleanerStart or None,
        highest_write_id=(row.hightestWriteId or row.hightestTxnId) or None,
        run_as=row.runAs,
        facts=facts_in_message(row.errorMessage)[1],
        error_message=row.errorMessage,
        hadoop_job_id=None if row.hadoopJobId in (None, "None") else row.hadoopJobId,
        initiator_id=row.initiatorId,
        pool=row.poolName,
        next_txn_id=row.nextTxnId or None,
        txn_id=row.txnId or None,
        worker_version=row.workerVersion,
        initiator_version=row.initiatorVersion,
    )


def _claimed_request(info: Any, kind: CompactionType, worker_id: str, call: str) -> CompactionRequest:
    """Return a request that the server handed out to a worker. CorruptError or RefusedError when it cannot be read.

    Hive 4.0 sends its id, names, type, properties and pool, but neither the user it is to run as nor its times.
    """
    pairs = parse_map(info.properties) if info.properties else {}
    properties = {key: value for key, value in pairs.items() if key is not None and value is not None}
    if len(properties) < len(pairs):
        raise missing_field(call, "ci.properties")
    facts = _sent_facts(split_properties(properties)[0])
    own = facts.properties()
    return CompactionRequest(
        id=info.id,
        ref=TableRef(info.dbname, info.tablename, info.partitionname),
        type=kind,
        state=State.WORKING,
        properties=tuple((name, value) for name, value in properties.items() if name not in own),
        facts=facts,
        worker_id=info.workerId or worker_id,
        start_ms=info.start or None,
        enqueue_ms=info.enqueueTime or None,
        highest_write_id=info.highestWriteId or None,
        run_as=info.runas,
        error_message=info.errorMessage,
        pool=info.poolname,
        retry_retention_ms=info.retryRetention or 0,
        bucket_count=info.numberOfBuckets or None,
        order_by=info.orderByClause,
    )


def _compaction_info(request: CompactionRequest, types: Any) -> Any:
    """Return a request as a structure of the interface."""
    return types.CompactionInfoStruct(
        id=request.id,
        dbname=request.ref.database,
        tablename=request.ref.table,
        partitionname=request.ref.partition,
        type=_TYPE_NUMBERS[request.type.name],
        runas=request.run_as,
        properties=format_map(dict(request.properties)) if request.properties else None,
        state=request.state.value,
        workerId=request.worker_id,
        start=request.start_ms,
        highestWriteId=request.highest_write_id,
        errorMessage=request.error_message,
        enqueueTime=request.enqueue_ms,
        retryRetention=request.retry_retention_ms or None,
        poolname=request.pool,
    )


def _state_or_none(text: str) -> State | None:
    """Return the state of a letter or word; None for an unknown one."""
    try:
        return State.parse(text)
    except RefusedError:
        return None


def _type_or_none(number: int) -> CompactionType | None:
    return CompactionType.__members__.get(_type_name(number))


def _type_name(number: int) -> str:
    return _TYPE_NAMES.get(number, f"number {number}")
