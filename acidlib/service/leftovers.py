"""What dead runs left behind: requests that nobody works on any more, and publications that stopped half-way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError
from acidlib.model.location import Location
from acidlib.model.requests import CompactionRequest, State
from acidlib.processes import has_ended
from acidlib.queue.sql import SqlQueue
from acidlib.service.services import Services
from acidlib.stores.store import STALE_SECONDS, RolledForward, Store
from acidlib.wording import plural


def give_back_timed_out(services: Services, queue: SqlQueue) -> list[str]:
    """Give back requests whose worker timed out (Hive Worker revocation); a note if there were any."""
    timeout = services.settings.integer("hive.compactor.worker.timeout")
    revoked = queue.revoke_timed_out(services.now_ms(), timeout)
    return [f"{plural(revoked, 'request was', 'requests were')} given back, as the worker timed out"] if revoked else []


def give_back_dead(
    queue: SqlQueue, is_dead: Callable[[CompactionRequest], bool], finish: Callable[[CompactionRequest], object]
) -> list[str]:
    """Give back the requests that are being worked on by runs that are dead; a note about each.

    `finish` comes first: it makes whole what one of two renames may have made visible.
    """
    notes = []
    for request in queue.in_states(State.WORKING):
        if request.worker_id is not None and is_dead(request):
            try:
                with suppress(CorruptError, RefusedError):  # whoever takes the request reports it
                    finish(request)
                queue.give_back(request.id, request.worker_id)
            except (ConflictError, RetryError):
                continue  # it has ended meanwhile, or is left to another run
            notes.append(f"request {request.id} for {request.ref} was given back: its run is dead")
    return notes


def is_dead_at(services: Services, location: Location, request: CompactionRequest, *, now_ms: int) -> bool:
    """Whether the run that took a request is dead, as far as the place tells; `now_ms` by the clock of the queue.

    Dead is one whose process is known to have ended, or whose claim on the place is stale, or that took the request
    longer ago than a claim may be silent and holds none: a worker tells the queue how a request ended before it
    releases the claim.
    """
    if is_known_dead(request):
        return True
    if request.start_ms is None:
        return False
    try:
        if not services.fs(location).is_directory(str(location)):
            return False
        holder = services.store(location).holder(location, now=services.clock())
    except AcidError:
        return False  # what cannot be looked at from here proves nothing
    is_stale = holder is None or holder.is_stale
    return is_stale and (took_long(request, now_ms) or (holder is not None and holder.owner == request.worker_id))


def is_known_dead(request: CompactionRequest) -> bool:
    """Whether the run that made a request for itself ran on this machine, and has ended."""
    return has_ended(request.facts.process or "")


def took_long(request: CompactionRequest, now_ms: int) -> bool:
    """Whether a request was taken longer ago than a claim may be silent."""
    return request.start_ms is not None and now_ms - request.start_ms > STALE_SECONDS * 1000


def finish_publications(
    services: Services, location: Location, alone: Callable[[], AbstractContextManager[object]] = nullcontext
) -> tuple[RolledForward, ...]:
    """Finish the publications of dead runs at a place, under a claim of our own. ConflictError while another works.

    `alone` keeps readers away, see `finish_claimed`.
    """
    store = services.store(location)
    if not store.unfinished(location):
        return ()
    with services.claim(location):
        return finish_claimed(store, location, alone)


def finish_claimed(
    store: Store, location: Location, alone: Callable[[], AbstractContextManager[object]]
) -> tuple[RolledForward, ...]:
    """Finish the publications of dead runs at a claimed place.

    First those of which one of two directories is visible already: while we waited for readers to go, new ones would
    see that half. Then those of which nothing is visible, while `alone` keeps readers away; ConflictError where it
    cannot.
    """
    if not store.unfinished(location):
        return ()  # the common case, for one listing
    finished = store.roll_forward(location, visible_only=True)
    if store.unfinished(location):
        with alone():
            finished += store.roll_forward(location)
    return finished
