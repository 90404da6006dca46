"""Names by which this engine and what it works on are known to a metastore."""

from __future__ import annotations

from acidlib.engine.services import Services
from acidlib.engine.target import Target
from acidlib.errors import RefusedError
from acidlib.model.requests import CompactionRequest
from acidlib.processes import process_identity

WORKER_PREFIX = "acidlib-"
"""Every worker id, and every private pool, of this engine begins with it."""


def private_pool(unique: str) -> str:
    """A pool that only this run takes from; it tells which process that is."""
    return f"{WORKER_PREFIX}{process_identity()}-{unique}"


def process_of_pool(pool: str | None) -> str:
    """The process that a private pool belongs to; empty for any other pool."""
    own = (pool or "").partition(WORKER_PREFIX)
    return own[2].rpartition("-")[0] if not own[0] else ""


def nowhere(request: CompactionRequest) -> Target:
    """A target of which only the names are known yet."""
    return Target(database=request.database, table=request.table, partition=request.partition, location="")


def run_as_user(services: Services, target: Target) -> str:
    """Whom a compaction runs as (Hive `Initiator.resolveUserToRunAs`); Hive's own cleaner fails on a row without.

    `metastore.compactor.run.as.user`, else the owner of the table's directory, else the table's owner.
    """
    given = services.settings.text("metastore.compactor.run.as.user")
    owner = given or services.fs.owner(target.location)
    if not owner and target.facts is not None:
        owner = target.facts.table.owner
    if not owner:
        raise RefusedError(f"Cannot compact {target.name}: because nobody owns {target.location}")
    return owner
