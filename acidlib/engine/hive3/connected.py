"""One run's metastore of Hive 3.1 and its queue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from acidlib.metastore.heartbeat import Heartbeater
from acidlib.metastore.hms import Hms
from acidlib.metastore.holds import publication_lock
from acidlib.queue.sql import SqlQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected3:
    """One run's metastore and queue.

    own_queue     the queue is ours, not the metastore's
    name          of the metastore, for requests in our queue
    lock_timeout  seconds to wait for an exclusive lock
    """

    hms: Hms
    beats: Heartbeater
    queue: SqlQueue
    own_queue: bool
    name: str
    lock_timeout: float


@contextmanager
def alone_with(
    connected: Connected3, database: str, table: str, partition: str | None, *, agent: str
) -> Iterator[None]:
    """Under an exclusive lock on a place; ConflictError when it is not granted in time."""
    with publication_lock(
        connected.hms,
        connected.beats,
        database=database,
        table=table,
        partition=partition,
        exclusive=True,
        timeout_seconds=connected.lock_timeout,
        agent=agent,
    ):
        yield
