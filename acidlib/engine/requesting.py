"""Queueing and claiming in a SQL queue, and its rule of failed attempts."""

from __future__ import annotations

from dataclasses import replace

from acidlib.engine.backend import Taken, Waiting
from acidlib.engine.services import Services
from acidlib.errors import ConflictError
from acidlib.model.request_facts import RequestFacts
from acidlib.model.requests import CompactionRequest, State
from acidlib.processes import process_identity
from acidlib.queue.sql import SqlQueue


def accepted_id(services: Services, queue: SqlQueue, request: CompactionRequest) -> int:
    """Queue a request; ConflictError with the queue's reason when it is not accepted."""
    answer = queue.enqueue(request, now_ms=services.now_ms())
    if not answer.accepted:
        raise ConflictError(answer.reason or "it is already queued")
    return answer.id


def failed_attempts(services: Services, queue: SqlQueue, request: CompactionRequest, *, dry_run: bool) -> str | None:
    """Why a place whose last compactions failed is left alone; unless it is a dry run, the history says so too."""
    reason = queue.failed_attempts(
        request,
        threshold=services.settings.integer("metastore.compactor.initiator.failed.compacts.threshold"),
        retry_ms=services.settings.integer("metastore.compactor.initiator.failed.retry.time"),
        now_ms=services.now_ms(),
    )
    if reason is not None and not dry_run:
        queue.record_not_initiated(request, reason, services.now_ms())
    return reason


def take_waiting(services: Services, queue: SqlQueue, waiting: Waiting) -> Taken | None:
    """Claim a request by its id; None when another worker has it."""
    claimed = queue.claim_id(waiting.request.id, services.worker_id, services.now_ms())
    return None if claimed is None else Taken(request=claimed, target=waiting.target)


def refuse_waiting(services: Services, queue: SqlQueue, waiting: Waiting, reason: str) -> None:
    """To the history as refused, unless another worker has it."""
    if queue.claim_id(waiting.request.id, services.worker_id, services.now_ms()):
        queue.mark_refused(waiting.request.id, reason, services.now_ms(), worker_id=services.worker_id)


def queue_and_claim(services: Services, queue: SqlQueue, request: CompactionRequest) -> CompactionRequest:
    """A request for this place that is now ours, and ends with this run; ConflictError while another is in the way."""
    request = replace(request, facts=request.facts.updated(RequestFacts(process=process_identity())))
    answer = queue.enqueue(request, now_ms=services.now_ms(), worker_id=services.worker_id)
    if answer.taken is not None:
        return answer.taken
    waiting = queue.find(answer.id) if answer.state is State.INITIATED else None
    if waiting is None or waiting.type is not request.type:
        raise ConflictError(f"Cannot compact {request.full_name}: because {answer.reason}")
    claimed = queue.claim_id(answer.id, services.worker_id, services.now_ms())
    if claimed is None:
        raise ConflictError(f"Cannot compact {request.full_name}: because another worker has taken request {answer.id}")
    # what is stated now is newer than what the waiting request was made with
    queue.set_facts(answer.id, services.worker_id, request.facts)
    return claimed
