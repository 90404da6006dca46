"""How much of the history is kept."""

from __future__ import annotations

from acidlib.queue.rules import Retention
from acidlib.settings import Settings


def history_retention(settings: Settings) -> Retention:
    """Hive's settings `metastore.compactor.history.retention.*`."""
    prefix = "metastore.compactor.history.retention"
    return Retention(
        succeeded=settings.integer(f"{prefix}.succeeded"),
        failed=settings.integer(f"{prefix}.failed"),
        did_not_initiate=settings.integer(f"{prefix}.did.not.initiate"),
        refused=settings.integer(f"{prefix}.refused"),
        timeout_ms=settings.integer(f"{prefix}.timeout"),
        failed_threshold=settings.integer("metastore.compactor.initiator.failed.compacts.threshold"),
    )
