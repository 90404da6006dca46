"""Undoing one compaction: its result leaves readers' sight, and they read its inputs again.

Every check is made under a claim of the place, as for a compaction. Without a metastore only the operator can know that
no query reads the result, and has to state it.
"""

from __future__ import annotations

from dataclasses import replace

from acidlib.acid.listing import Listing
from acidlib.arguments import DRY_RUN, NOBODY_READS
from acidlib.errors import (
    AcidError,
    ConflictError,
    MissingError,
    RefusedError,
    RetryError,
    UnknownOutcomeError,
    UsageError,
)
from acidlib.execute.services import Services
from acidlib.model.requests import CompactionRequest, RequestFacts, State
from acidlib.model.results import Outcome, UndoResult, outcome_of
from acidlib.places.place import Place
from acidlib.planning.results import UndoPlan, undo_plan
from acidlib.points import Point, reach
from acidlib.ports.holds import finish_claimed, held
from acidlib.ports.undoing import Undoing
from acidlib.stores.listing import list_location
from acidlib.stores.store import UNDONE

_PUBLISHED = (State.READY_FOR_CLEANING, State.SUCCEEDED, State.FAILED)


def undo_compaction(
    services: Services, undoing: Undoing, request_id: int, *, user: str, dry_run: bool, nobody_reads: bool = False
) -> UndoResult:
    """Undo the compaction of a request, or say what that would do; MissingError where there is no such request.

    user          named in the history as the operator
    nobody_reads  the operator states that no query reads the place, where no metastore tells it
    """
    request = undoing.requests.find_own(request_id)
    result = _result(request)
    try:
        if request.facts.undone is not None:
            reason, aside = request.error_message or "it was undone before", request.facts.undone
            return replace(result, state=Outcome.WAS_UNDONE, reason=reason, result=_outputs(request), moved_to=aside)
        if request.state is State.WORKING:
            raise ConflictError(
                f"Cannot undo the compaction of {request.ref}: request {request.id} is working; call again when it is "
                "done"
            )
        if request.state not in _PUBLISHED:
            raise _refused(request, f"request {request.id} is {request.state.label}: there is no result")
        if not _outputs(request):
            raise _refused(request, f"request {request.id} published nothing")
        if dry_run:
            return _would_undo(services, undoing, request)
        if not (undoing.knows_readers or nobody_reads):
            raise UsageError(
                f"Cannot undo the compaction of {request.ref}: files do not tell whether a query reads it; give "
                f"{NOBODY_READS}, or {DRY_RUN}"
            )
        return _undo(services, undoing, request, user)
    except (MissingError, UsageError):
        raise
    except AcidError as error:
        return replace(result, state=outcome_of(error), reason=error.words)


def _would_undo(services: Services, undoing: Undoing, request: CompactionRequest) -> UndoResult:
    place = undoing.place(request)
    location, store = place.location, services.store(place.location)
    store.require_taking_back(location)
    planned = replace(_result(request, place), state=Outcome.PLANNED)
    if _is_moved_aside(services, request, place):
        return replace(planned, reason="it is undone; the run notes that", moved_to=_aside(request))
    if store.unfinished(location):
        return replace(planned, reason="a publication there is unfinished; the run finishes it first")
    undoing.require_no_reader(request, place)
    plan = _plan(services, undoing, request, place)
    return _with_plan(planned, request, plan, "nothing was made of the result, and all of its inputs are there")


def _undo(services: Services, undoing: Undoing, request: CompactionRequest, user: str) -> UndoResult:
    with held(undoing.hold(request)) as hold:
        place, store = hold.place, services.store(hold.place.location)
        location = place.location
        store.require_taking_back(location)
        for line in finish_claimed(store, location, hold.exclusive):
            services.progress.note(line, place=str(place.ref))
        now = undoing.requests.find_own(request.id)
        result = replace(_result(now, place), state=Outcome.UNDONE)
        if now.facts.undone is not None or now.state not in _PUBLISHED:
            raise ConflictError(f"Cannot undo the compaction of {place.ref}: request {now.id} has changed; call again")
        reason = f"undone by {user} on {services.host}: {', '.join(_outputs(now))} moved to {_aside(now)}"
        if now.state is State.FAILED and now.error_message:
            reason = f"{reason}; before that: {now.error_message}"
        if _is_moved_aside(services, now, place):
            # a run did that and died before it told the queue
            _note(services, undoing, now, reason)
            return replace(result, reason=reason, result=_outputs(now), moved_to=_aside(now))
        undoing.require_no_reader(now, place)
        with hold.exclusive():
            plan = _plan(services, undoing, now, place)
            stage = store.stage(location, unique=services.unique(), owner=services.worker_id, now=services.clock())
            inputs = (*plan.read, *plan.originals)
            stage.take_back(plan.result, aside=_aside(now), inputs=inputs, last_check=hold.assert_mine)
        _note(services, undoing, now, reason)
        return _with_plan(result, now, plan, reason)


def _note(services: Services, undoing: Undoing, request: CompactionRequest, reason: str) -> None:
    try:
        facts = RequestFacts(undone=_aside(request))
        undoing.requests.queue.mark_undone(request.id, reason, services.now_ms(), facts=facts)
    except UnknownOutcomeError:
        raise
    except AcidError as error:
        raise RetryError(
            f"Cannot note that the compaction of {request.ref} is undone: {error}; it is, and stays so; "
            "the same call notes it"
        ) from error
    reach(Point.UNDONE)


def _plan(services: Services, undoing: Undoing, request: CompactionRequest, place: Place) -> UndoPlan:
    """Return the directories to move; RefusedError where the result has to stay."""
    request.require_understood("undo the compaction of", "inputs", "outputs", "write_ids", "generation")
    listing: Listing = list_location(services.fs(place.location), place.location, missing=RefusedError)
    published = request.facts.published_ms
    for other in undoing.requests.scope.rows_at(place):
        other_published = other.facts.published_ms
        is_later = other.id > request.id  # where the queue does not know when they published
        if other_published is not None and published is not None:
            is_later = (other_published, other.id) > (published, request.id)
        if is_later and other.facts.undone is None and set(_outputs(other)) & set(_outputs(request)):
            raise _refused(request, f"request {other.id} has published {_outputs(other)[0]} since")
    plan = undo_plan(
        listing,
        _outputs(request),
        place.write_ids(listing),
        digest=request.facts.inputs or "",  # every request that published something has one
        names=place.names(listing),
    )
    if isinstance(plan, str):
        raise _refused(request, plan)
    return plan


def _refused(request: CompactionRequest, reason: str) -> RefusedError:
    return RefusedError(f"Cannot undo the compaction of {request.ref}: {reason}")


def _outputs(request: CompactionRequest) -> tuple[str, ...]:
    return request.facts.outputs or ()


def _aside(request: CompactionRequest) -> str:
    """Return the directory for the result: another queue may have a request of this id, but not of this millisecond."""
    return f"{UNDONE}{request.id}.{request.facts.published_ms or 0}"


def _is_moved_aside(services: Services, request: CompactionRequest, place: Place) -> bool:
    return services.fs(place.location).is_directory(f"{place.location}/{_aside(request)}")


def _with_plan(result: UndoResult, request: CompactionRequest, plan: UndoPlan, reason: str) -> UndoResult:
    return replace(
        result,
        reason=reason,
        result=plan.result,
        moved_to=_aside(request),
        inputs=plan.read,
        originals=plan.originals,
    )


def _result(request: CompactionRequest, place: Place | None = None) -> UndoResult:
    return UndoResult(
        id=request.id,
        **request.ref._asdict(),
        location=str((request.facts.location or "") if place is None else place.location),
        type=request.type.label.lower(),
        state=Outcome.FAILED,
        reason="",
    )
