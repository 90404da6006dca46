"""Compaction requests out of a metastore's answers, and into its calls.

Source of the numbers: Hive `CompactionType`; of the letters and words, `TxnStore`.
"""

from __future__ import annotations

from typing import Any

from acidlib.errors import RefusedError
from acidlib.metastore.idl import missing_field
from acidlib.metastore.values import OtherRequest, ShownRequest
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.stringable import format_map, parse_map

KINDS = {"MINOR": 1, "MAJOR": 2, "REBALANCE": 3, "ABORT_TXN_CLEANUP": 4, "SMART_OPTIMIZE": 5}
_NAMES = {number: name for name, number in KINDS.items()}


def shown_request(row: Any, call: str) -> ShownRequest | OtherRequest:
    """A row of SHOW COMPACTIONS. A time of 0 and Hive 3.1's job id `None` stand for what is not known."""
    if row.id is None:
        raise missing_field(call, "compacts.id")
    kind, state = _kind(row.type), state_or_none(row.state)
    if kind is None or state is None:
        return OtherRequest(
            id=row.id,
            database=row.dbname.lower(),
            table=row.tablename.lower(),
            partition=row.partitionname,
            kind=_kind_name(row.type),
            state=row.state,
        )
    return ShownRequest(
        id=row.id,
        database=row.dbname.lower(),
        table=row.tablename.lower(),
        partition=row.partitionname,
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
        error_message=row.errorMessage,
        hadoop_job_id=None if row.hadoopJobId in (None, "None") else row.hadoopJobId,
        initiator_id=row.initiatorId,
        pool=row.poolName,
        next_txn_id=row.nextTxnId or None,
        txn_id=row.txnId or None,
        worker_version=row.workerVersion,
        initiator_version=row.initiatorVersion,
    )


def claimed_request(info: Any, worker_id: str, call: str) -> ShownRequest | OtherRequest:
    """A request that the server handed out to a worker. Raises CorruptError or RefusedError when it cannot be read.

    Hive 4.0 tells its id, names, type, properties and pool, but not who asked for it to be run as whom, nor its times.
    """
    kind = _kind(info.type)
    if kind is None:
        return OtherRequest(
            id=info.id,
            database=info.dbname,
            table=info.tablename,
            partition=info.partitionname,
            kind=_kind_name(info.type),
            state="working",
        )
    return ShownRequest(
        id=info.id,
        database=info.dbname,
        table=info.tablename,
        partition=info.partitionname,
        type=kind,
        state=State.WORKING,
        properties=_properties(info.properties, call),
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


def info_of(request: CompactionRequest, types: Any) -> Any:
    """The structure by which the server is told of a request."""
    return types.CompactionInfoStruct(
        id=request.id,
        dbname=request.database,
        tablename=request.table,
        partitionname=request.partition,
        type=KINDS[request.type.name],
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


def state_or_none(text: str) -> State | None:
    """The state of a letter or a word; None for one that is not known."""
    try:
        return State.parse(text)
    except RefusedError:
        return None


def _kind(number: int) -> CompactionType | None:
    return CompactionType.__members__.get(_kind_name(number))


def _kind_name(number: int) -> str:
    return _NAMES.get(number, f"number {number}")


def _properties(text: str | None, call: str) -> tuple[tuple[str, str], ...]:
    if not text:
        return ()
    pairs = parse_map(text)
    if any(key is None or value is None for key, value in pairs.items()):
        raise missing_field(call, "ci.properties")
    return tuple((str(key), str(value)) for key, value in pairs.items())
