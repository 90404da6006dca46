"""Cleanings that failed, in a SQL queue: when they are tried again, and when they are given up."""

from __future__ import annotations

from acidlib.engine.services import Services
from acidlib.errors import AcidError
from acidlib.model.requests import CompactionRequest
from acidlib.queue.sql import SqlQueue


def retry_wait(services: Services, request: CompactionRequest) -> str | None:
    """Why a cleaning that failed is not tried again yet (Hive: 2^n times the retention, from the commit on)."""
    if not request.retry_retention_ms or request.commit_ms is None:
        return None
    due = request.commit_ms + request.retry_retention_ms
    return None if services.now_ms() >= due else f"the last try failed ({request.error_message}); waiting for the next"


def note_failure(services: Services, queue: SqlQueue, request: CompactionRequest, error: AcidError) -> None:
    """Note a failed cleaning for a later try, or give the request up after so many."""
    base = services.settings.integer("metastore.compactor.cleaner.retry.retention.time")
    most = services.settings.integer("hive.compactor.cleaner.retry.maxattempts")
    before = request.retry_retention_ms
    attempts = 0 if not before or not base else (before // base).bit_length()
    if attempts >= most:
        queue.mark_failed(request.id, str(error), services.now_ms(), worker_id=None)
    else:
        queue.set_cleaner_note(request.id, str(error), base << attempts)
