"""One run's metastore of Hive 3.1 and its queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from acidlib.engine.services import Services
from acidlib.metastore.compactor_locks import CompactorLock, publication_lock
from acidlib.metastore.heartbeat import Heartbeater
from acidlib.metastore.hms import Hms
from acidlib.model.requests import CompactionRequest, State
from acidlib.queue.parameters import MetastoreParameters
from acidlib.queue.sql import SqlQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class Hive3Metastore:
    """One run's metastore and queue.

    own_queue  the queue is ours, not the metastore's
    name       of the metastore, for requests in our queue
    parameters  of tables and partitions, in the database that was named for the queue; None where none was
    """

    hms: Hms
    beats: Heartbeater
    queue: SqlQueue
    own_queue: bool
    name: str
    parameters: MetastoreParameters | None = None

    def ours(self, row: CompactionRequest) -> bool:
        """Whether a request is of this metastore: in its own queue each is, in ours those that carry its name."""
        return not self.own_queue or row.facts.metastore == self.name

    def of_entity(self, request: CompactionRequest) -> list[CompactionRequest]:
        """All requests of this metastore about a table and partition."""
        return [row for row in self.queue.of_entity(request) if self.ours(row)]

    def passed_over(self) -> list[str]:
        """Notes about requests of other metastores in our queue; of this one too, if other URIs named it then."""
        if not self.own_queue:
            return []
        rows = self.queue.in_states(State.INITIATED, State.WORKING, State.READY_FOR_CLEANING)
        left = Counter(row.facts.metastore for row in rows if row.facts.metastore is not None and not self.ours(row))
        return [
            f"left alone in this queue: requests of the metastore {name} ({count}); this run's is {self.name}"
            for name, count in sorted(left.items())
        ]


def lock_timeout(services: Services) -> float:
    """Seconds to wait for an exclusive lock."""
    return services.settings.integer("acidlib.lock.timeout") / 1000


@contextmanager
def alone_with(
    services: Services, metastore: Hive3Metastore, database: str, table: str, partition: str | None
) -> Iterator[CompactorLock]:
    """Under an exclusive lock on a place; ConflictError when it is not granted in time."""
    with publication_lock(
        metastore.hms,
        metastore.beats,
        database=database,
        table=table,
        partition=partition,
        exclusive=True,
        timeout_seconds=lock_timeout(services),
        agent=services.worker_id,
    ) as lock:
        yield lock
