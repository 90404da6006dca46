"""What dead runs of this engine left in a Hive 4 metastore's queue, and results that can never be committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from acidlib.engine.hive4.metastore import process_of_pool
from acidlib.engine.services import WORKER_PREFIX, Services
from acidlib.errors import AcidError
from acidlib.metastore.hms import Hms
from acidlib.metastore.values import ShownRequest, TxnType
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.txnids import ValidTxnList
from acidlib.processes import has_ended
from acidlib.storage.claims import STALE_SECONDS


def recover(
    services: Services,
    hms: Hms,
    shown: Callable[[Sequence[ShownRequest]], None] = lambda _: None,
    is_wanted: Callable[[CompactionRequest], bool] = lambda _: True,
) -> list[str]:
    """End what dead runs of this engine left in the queue, and any result whose transaction was aborted.

    `shown` gets all requests, as the metastore shows them now; those that are not wanted stay as they are.

    Hive's own initiator gives back what timed out, but only after `hive.compactor.worker.timeout`, and where it runs.
    """
    notes = []
    snapshot = hms.open_txns()
    rows = hms.show_compactions()
    shown(rows)
    for row in rows:
        problem = _dead(services, row, snapshot.txns) if is_wanted(row) else None
        if problem is None:
            continue
        try:
            if row.state is State.INITIATED:
                hms.abort_compactions([row.id])
            else:
                if row.state is State.WORKING and row.txn_id is not None:
                    with suppress(AcidError):  # it ends by itself, but later, and keeps cleaners waiting until then
                        rebalances = row.type is CompactionType.REBALANCE
                        kind = TxnType.REBALANCE_COMPACTION if rebalances else TxnType.COMPACTION
                        hms.abort_txn(row.txn_id, kind)
                hms.mark_failed(replace(row, error_message=problem))
        except AcidError as error:
            notes.append(f"request {row.id} for {row.full_name} could not be ended: {error}")
            continue
        notes.append(f"request {row.id} for {row.full_name} was ended: {problem}")
    return notes


def _dead(services: Services, row: ShownRequest, txns: ValidTxnList) -> str | None:
    """Why a row can never be finished by whoever began it; None for rows that are alive or not known to be dead."""
    if row.state is State.READY_FOR_CLEANING:
        lost = row.txn_id is not None and row.next_txn_id is None and txns.is_txn_aborted(row.txn_id)
        return f"its transaction {row.txn_id} was aborted after it was marked as compacted" if lost else None
    if row.state in (State.INITIATED, State.WORKING) and has_ended(process_of_pool(row.pool)):
        return "its run is dead"
    since = row.start_ms if row.state is State.WORKING else row.enqueue_ms
    # a worker tells its transaction soon after it took a request
    if since is None or services.now_ms() - since < STALE_SECONDS * 1000:
        return None
    if row.state is State.INITIATED:
        return "its run is dead" if (row.pool or "").startswith(WORKER_PREFIX) else None
    if row.state is not State.WORKING or not (row.worker_id or "").startswith(WORKER_PREFIX):
        return None
    if row.txn_id is not None and row.txn_id > txns.high_water_mark:
        return None
    alive = row.txn_id is not None and not txns.is_txn_aborted(row.txn_id) and not txns.is_txn_valid(row.txn_id)
    return None if alive else "its run is dead"
