"""What dead runs of this engine left in a Hive 3.1 metastore and its queue."""

from __future__ import annotations

from collections.abc import Callable

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
from acidlib.errors import AcidError, ConflictError, RefusedError, RetryError
from acidlib.metastore.compactor_locks import release_dead_locks
from acidlib.metastore.lock_rules import PLACES
from acidlib.metastore.values import HeldLock, LockType
from acidlib.model.location import Location
from acidlib.model.requests import CompactionRequest, CompactionType


def recover(
    services: Services,
    metastore: Hive3Metastore,
    catalog: Catalog,
    is_wanted: Callable[[CompactionRequest], bool] = lambda _: True,
) -> list[str]:
    """Give requests of dead runs back to the queue, those that are wanted, and drop locks of theirs; notes about it.

    Before a lock that keeps readers away goes, what it keeps them from is made whole.
    """

    def is_dead(row: CompactionRequest) -> bool:
        return metastore.ours(row) and is_wanted(row) and _is_dead(services, metastore, catalog, row)

    notes = give_back_timed_out(services, metastore.queue)
    notes += give_back_dead(
        metastore.queue,
        is_dead,
        finish=lambda row: finish_alone(services, metastore, row.entity, catalog.whereabouts(row).location),
    )
    dead = release_dead_locks(
        metastore.hms,
        timeout_seconds=metastore.beats.timeout_seconds,
        agent=services.worker_id,
        may_go=lambda lock: _is_mended(services, metastore, catalog, lock),
    )
    return notes + [f"lock {lock.lock_id} of a dead run ({lock.agent}) was dropped" for lock in dead]


def _is_mended(services: Services, metastore: Hive3Metastore, catalog: Catalog, lock: HeldLock) -> bool:
    """What a dead run was about to make visible, or to take back, under an exclusive lock on a place is whole now.

    No request that is being worked on tells where an undo died.
    """
    if lock.type is not LockType.EXCLUSIVE or lock.database == PLACES or lock.table is None:
        return True
    about = CompactionRequest(
        id=0, database=lock.database, table=lock.table, partition=lock.partition, type=CompactionType.MAJOR
    )
    try:
        finish_alone(services, metastore, about.entity, catalog.whereabouts(about).location)
    except (ConflictError, RetryError):
        return False  # another run is there, or nobody can look: the metastore drops the lock in time
    except AcidError:
        return True  # the table is gone, or whoever compacts it says what is wrong
    return True


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
