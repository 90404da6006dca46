"""What dead runs of this engine left in a Hive 3.1 metastore and its queue."""

from __future__ import annotations

from acidlib.engine.catalog import Catalog, Entity
from acidlib.engine.hive3.metastore import Hive3Metastore, alone_with
from acidlib.engine.leftovers import (
    finish_publications,
    give_back_dead,
    give_back_timed_out,
    is_dead_at,
    is_known_dead,
    took_long,
)
from acidlib.engine.services import WORKER_PREFIX, Services
from acidlib.errors import AcidError, RefusedError
from acidlib.metastore.compactor_locks import release_dead_locks
from acidlib.model.location import Location
from acidlib.model.requests import CompactionRequest


def recover(services: Services, metastore: Hive3Metastore, catalog: Catalog) -> list[str]:
    """Requests of dead runs go back to the queue, and locks of theirs go; notes about what was done.

    Before a lock that keeps readers away goes, what it keeps them from is made whole.
    """

    def is_dead(row: CompactionRequest) -> bool:
        return metastore.ours(row) and _is_dead(services, metastore, catalog, row)

    notes = give_back_timed_out(services, metastore.queue)
    notes += give_back_dead(
        metastore.queue,
        is_dead,
        finish=lambda row: finish_alone(services, metastore, row.entity, catalog.whereabouts(row).location),
    )
    dead = release_dead_locks(metastore.hms, timeout_seconds=metastore.beats.timeout_seconds, agent=services.worker_id)
    return notes + [f"lock {lock.lock_id} of a dead run ({lock.agent}) was dropped" for lock in dead]


def finish_alone(services: Services, metastore: Hive3Metastore, entity: Entity, location: Location) -> None:
    """Finish the publications of dead runs at a place: those that nobody sees yet under an exclusive lock."""
    finish_publications(services, location, lambda: alone_with(services, metastore, *entity))


def _is_dead(services: Services, metastore: Hive3Metastore, catalog: Catalog, row: CompactionRequest) -> bool:
    if not (row.worker_id or "").startswith(WORKER_PREFIX):
        return False
    if is_known_dead(row):
        return True
    now_ms = metastore.queue.now_ms(services.now_ms())
    try:
        return is_dead_at(services, catalog.whereabouts(row).location, row, now_ms=now_ms)
    except RefusedError:
        # the table is gone: whoever takes the request says so
        return took_long(row, now_ms)
    except AcidError:
        return False
