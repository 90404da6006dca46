"""What dead runs left behind: requests that nobody works on any more, and publications that stopped half-way."""

from __future__ import annotations

from collections.abc import Callable

from acidlib.engine.services import Services
from acidlib.errors import AcidError, ConflictError
from acidlib.model.requests import CompactionRequest, State
from acidlib.queue.rules import LOCATION
from acidlib.queue.sql import SqlQueue
from acidlib.storage.claims import STALE_SECONDS, is_claimed
from acidlib.storage.publishing import RolledForward, roll_forward, unfinished_publications


def give_back_abandoned(services: Services, queue: SqlQueue) -> list[str]:
    """Give back requests whose worker timed out (Hive Worker revocation) or is dead; a note about each kind.

    Dead is a worker that took its request longer ago than a claim may be silent and that holds no live claim on the
    place: a worker tells the queue how a request ended before it releases the claim.
    """
    timeout = services.settings.integer("hive.compactor.worker.timeout")
    revoked = queue.revoke_timed_out(services.now_ms(), timeout)
    notes = [f"{revoked} requests of workers that timed out were given back"] if revoked else []
    return notes + give_back_dead(queue, lambda request: _is_abandoned(services, request))


def give_back_dead(queue: SqlQueue, is_dead: Callable[[CompactionRequest], bool]) -> list[str]:
    """Give back the requests that are being worked on by runs that are dead; a note about each."""
    notes = []
    for request in queue.show():
        if request.state is State.WORKING and request.worker_id is not None and is_dead(request):
            try:
                queue.give_back(request.id, request.worker_id)
            except ConflictError:
                continue  # it has ended meanwhile
            notes.append(f"request {request.id} for {request.full_name} was given back: its run is dead")
    return notes


def _is_abandoned(services: Services, request: CompactionRequest) -> bool:
    location = request.property(LOCATION)
    if request.start_ms is None or services.now_ms() - request.start_ms <= STALE_SECONDS * 1000 or location is None:
        return False
    try:
        there = services.fs.is_directory(location)
        return there and not is_claimed(services.fs, location, services.clock())
    except AcidError:
        return False  # what cannot be looked at from here proves nothing


def finish_publications(services: Services, location: str) -> tuple[RolledForward, ...]:
    """Finish the publications of dead runs at a place, under a claim of our own. ConflictError while another works."""
    if not unfinished_publications(services.fs, location):
        return ()
    with services.claim(location):
        return roll_forward(services.fs, location)
