"""Taking requests from a queue as a worker that does whatever comes next."""

from __future__ import annotations

from acidlib.model.requests import CompactionRequest, CompactionType
from acidlib.queue.sql import SqlQueue


def claim_next(queue: SqlQueue, kind: CompactionType, worker_id: str, now_ms: int) -> CompactionRequest | None:
    """The oldest waiting request of a kind that nobody else takes meanwhile; None when there is none."""
    claimed = (queue.claim_id(request.id, worker_id, now_ms) for request in queue.waiting(kind))
    return next((request for request in claimed if request is not None), None)
