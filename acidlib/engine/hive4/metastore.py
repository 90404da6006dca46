"""One run's metastore of Hive 4, and the pools of its queue."""

from __future__ import annotations

from dataclasses import dataclass

from acidlib.engine.services import WORKER_PREFIX
from acidlib.metastore.heartbeat import Heartbeater
from acidlib.metastore.hms import Hms
from acidlib.model.requests import CompactionRequest
from acidlib.processes import process_identity
from acidlib.queue.parameters import MetastoreParameters

POOL = "hive.compactor.worker.pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hive4Metastore:
    """One run's metastore, with its heartbeats.

    pool         the pool whose requests are taken; None = the default one
    into_pool    the pool that new requests are put into, whatever the tables say; None = as they say
    min_history  whether the server counts readers by write id, so that we have to register
    parameters   of tables and partitions, in the database that was named; None where none was
    """

    hms: Hms
    beats: Heartbeater
    pool: str | None = None
    into_pool: str | None = None
    min_history: bool = False
    parameters: MetastoreParameters | None = None


def private_pool(unique: str) -> str:
    """A pool that only this run takes from; it tells which process that is."""
    return f"{WORKER_PREFIX}{process_identity()}-{unique}"


def process_of_pool(pool: str | None) -> str:
    """The process that a private pool belongs to; empty for any other pool."""
    own = (pool or "").partition(WORKER_PREFIX)
    return own[2].rpartition("-")[0] if not own[0] else ""


def pool_of(row: CompactionRequest) -> str | None:
    """The pool of a shown request: Hive shows `default` for none."""
    return None if row.pool in (None, "", "default") else row.pool
