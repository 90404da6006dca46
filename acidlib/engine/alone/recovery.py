"""What dead runs left in our own queue, where no metastore is concerned."""

from __future__ import annotations

from collections.abc import Callable

from acidlib.engine.leftovers import finish_publications, give_back_dead, give_back_timed_out, is_dead_at
from acidlib.engine.services import Services
from acidlib.model.requests import CompactionRequest
from acidlib.queue.sql import SqlQueue


def recover(
    services: Services, queue: SqlQueue, is_wanted: Callable[[CompactionRequest], bool] = lambda _: True
) -> list[str]:
    """Give requests of dead runs back to the queue, those that are wanted; notes about what was done.

    Requests for a metastore are left to the runs that can ask it for locks.
    """

    def is_dead(row: CompactionRequest) -> bool:
        location = row.facts.location
        if location is None or row.facts.metastore is not None or not is_wanted(row):
            return False
        return is_dead_at(services, location, row, now_ms=services.now_ms())

    def finish(row: CompactionRequest) -> None:
        if row.facts.location is not None:
            finish_publications(services, row.facts.location)

    return give_back_timed_out(services, queue) + give_back_dead(queue, is_dead, finish)
