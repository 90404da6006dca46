"""Undoes one compaction: its result leaves readers' sight, and they read again what it was made of.

Everything that decides is looked at under a claim of the place, as for a compaction. What nobody can tell without a
metastore, that nobody is reading the result, the caller has to state.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from acidlib.errors import (
    AcidError,
    ConflictError,
    MissingError,
    RefusedError,
    RetryError,
    UnknownOutcomeError,
    UsageError,
)
from acidlib.model.listing import Listing
from acidlib.model.requests import CompactionRequest, RequestFacts, State
from acidlib.planning.results import UndoPlan, undo_plan
from acidlib.points import Point, passing
from acidlib.report.results import UndoResult, UndoState
from acidlib.service.leftovers import finish_claimed
from acidlib.service.places import Target
from acidlib.service.services import Services
from acidlib.stores.listing import list_location
from acidlib.stores.store import UNDONE

_PUBLISHED = (State.READY_FOR_CLEANING, State.SUCCEEDED, State.FAILED)


class HeldForUndo(Protocol):
    """The place of a request, which no compactor or cleaner has meanwhile."""

    @property
    def target(self) -> Target:
        """What is held, understood as of then."""

    def without_readers(self) -> AbstractContextManager[None]:
        """Around the moments in which something becomes or stops being visible."""

    def assert_mine(self) -> None:
        """Right before anything changes: ConflictError unless all is still held, and the table is the same one."""


class Undoing(Protocol):
    """What differs between surroundings: where requests are, how a place is held, who reads."""

    def find(self, request_id: int) -> CompactionRequest:
        """The request of this id; MissingError where there is none, RefusedError where it is not one of these."""

    def require_stated(self) -> None:
        """Before anything is changed: UsageError unless the caller has stated what cannot be known here."""

    def target(self, request: CompactionRequest) -> Target:
        """Its place, understood as of now; RefusedError where it is not the one that was compacted any more."""

    def known(self, request: CompactionRequest, target: Target) -> Sequence[CompactionRequest]:
        """What the queue and its history know of the place."""

    def hold(self, request: CompactionRequest) -> AbstractContextManager[HeldForUndo]:
        """Hold the place. ConflictError while another works there."""

    def require_no_reader(self, request: CompactionRequest, target: Target) -> None:
        """ConflictError while somebody reads there, as far as that can be known, or a compactor is about to work there.

        RefusedError where the result is known not to be the one that was published.
        """

    def mark_undone(self, request: CompactionRequest, reason: str, facts: RequestFacts) -> None:
        """Have the queue know."""


def undo(services: Services, undoing: Undoing, request_id: int, *, user: str, dry_run: bool) -> UndoResult:
    """Undo the compaction of a request, or say what that would do; `user` is who is said to have done it.

    MissingError where there is no such request.
    """
    request = undoing.find(request_id)
    result = _result(request)
    try:
        if request.facts.undone is not None:
            reason = request.error_message or "it was undone before"
            return replace(
                result,
                state=UndoState.WAS_UNDONE,
                reason=reason,
                result=_outputs(request),
                moved_to=request.facts.undone,
            )
        _require_published(request)
        if dry_run:
            return _planned(services, undoing, request)
        undoing.require_stated()
        return _undone(services, undoing, request, user)
    except (MissingError, UsageError):
        raise
    except ConflictError as error:
        return replace(result, state=UndoState.CONFLICT, reason=str(error))
    except RefusedError as error:
        return replace(result, state=UndoState.REFUSED, reason=str(error))
    except AcidError as error:
        return replace(result, state=UndoState.FAILED, reason=str(error))


def _planned(services: Services, undoing: Undoing, request: CompactionRequest) -> UndoResult:
    target = undoing.target(request)
    location, store = target.location, services.store(target.location)
    store.require_taking_back(location)
    planned = replace(_result(request, target), state=UndoState.PLANNED)
    if _is_aside(services, request, target):
        return replace(planned, reason="it is undone; the run notes that", moved_to=_aside(request))
    if store.unfinished(location):
        return replace(planned, reason="a publication there is unfinished; the run finishes it first")
    undoing.require_no_reader(request, target)
    plan = _plan(services, undoing, request, target)
    return _with_plan(planned, request, plan, "nothing was made of the result, and all that it was made of is there")


def _undone(services: Services, undoing: Undoing, request: CompactionRequest, user: str) -> UndoResult:
    with undoing.hold(request) as held:
        target, store = held.target, services.store(held.target.location)
        location = target.location
        store.require_taking_back(location)
        for record in finish_claimed(store, location, held.without_readers):
            what = f"publication of {', '.join(record.directories)} {record.outcome}"
            services.progress.note(what, place=str(target.ref))
        now = undoing.find(request.id)
        result = replace(_result(now, target), state=UndoState.UNDONE)
        if now.facts.undone is not None or now.state not in _PUBLISHED:
            raise ConflictError(f"Cannot undo the compaction of {target.ref}: request {now.id} has changed; call again")
        reason = f"undone by {user} on {services.host}: {', '.join(_outputs(now))} moved to {_aside(now)}"
        if now.state is State.FAILED and now.error_message:
            reason = f"{reason}; before that: {now.error_message}"
        if _is_aside(services, now, target):
            # a run that died has done it, and the queue does not know
            _note(undoing, now, reason)
            return replace(result, reason=reason, result=_outputs(now), moved_to=_aside(now))
        undoing.require_no_reader(now, target)
        with held.without_readers():
            plan = _plan(services, undoing, now, target)
            store.take_back(
                location,
                plan.result,
                aside=_aside(now),
                inputs=plan.read,
                unique=services.unique(),
                owner=services.worker_id,
                now=services.clock(),
                last_check=held.assert_mine,
            )
        _note(undoing, now, reason)
        return _with_plan(result, now, plan, reason)


def _note(undoing: Undoing, request: CompactionRequest, reason: str) -> None:
    try:
        undoing.mark_undone(request, reason, RequestFacts(undone=_aside(request)))
    except UnknownOutcomeError:
        raise
    except AcidError as error:
        raise RetryError(
            f"Cannot note that the compaction of {request.ref} is undone: because {error}; it is, and stays so; "
            "the same call notes it"
        ) from error
    passing(Point.UNDONE)


def _plan(services: Services, undoing: Undoing, request: CompactionRequest, target: Target) -> UndoPlan:
    """What is moved; RefusedError where the result has to stay."""
    request.require_understood("undo the compaction of", "inputs", "outputs", "write_ids", "generation")
    listing: Listing = list_location(services.fs(target.location), target.location, missing=RefusedError)
    for other in undoing.known(request, target):
        same = other.facts.undone is None and set(_outputs(other)) & set(_outputs(request))
        if same and _is_later(other, request):
            raise _refused(request, f"request {other.id} has published {_outputs(other)[0]} since")
    plan = undo_plan(
        listing,
        _outputs(request),
        target.write_ids(listing),
        digest=request.facts.inputs or "",  # none but of what published nothing
        generation=target.generation(listing),
    )
    if isinstance(plan, str):
        raise _refused(request, plan)
    return plan


def _is_later(one: CompactionRequest, other: CompactionRequest) -> bool:
    """Whether one request published after another: as far as that was noted, else by their numbers."""
    there, here = one.facts.published_ms, other.facts.published_ms
    return one.id > other.id if there is None or here is None else (there, one.id) > (here, other.id)


def _require_published(request: CompactionRequest) -> None:
    if request.state is State.WORKING:
        raise ConflictError(
            f"Cannot undo the compaction of {request.ref}: request {request.id} is working; call again when it is done"
        )
    if request.state not in _PUBLISHED:
        raise _refused(request, f"request {request.id} is {request.state.label}: there is no result")
    if not _outputs(request):
        raise _refused(request, f"request {request.id} published nothing")


def _refused(request: CompactionRequest, reason: str) -> RefusedError:
    return RefusedError(f"Cannot undo the compaction of {request.ref}: because {reason}")


def _outputs(request: CompactionRequest) -> tuple[str, ...]:
    return request.facts.outputs or ()


def _aside(request: CompactionRequest) -> str:
    """Where the result goes: another queue may have a request of this id, but hardly one of the same millisecond."""
    return f"{UNDONE}{request.id}.{request.facts.published_ms or 0}"


def _is_aside(services: Services, request: CompactionRequest, target: Target) -> bool:
    return services.fs(target.location).is_directory(f"{target.location}/{_aside(request)}")


def _with_plan(result: UndoResult, request: CompactionRequest, plan: UndoPlan, reason: str) -> UndoResult:
    return replace(
        result,
        reason=reason,
        result=plan.result,
        moved_to=_aside(request),
        inputs=plan.read,
        originals=plan.originals,
    )


def _result(request: CompactionRequest, target: Target | None = None) -> UndoResult:
    return UndoResult(
        id=request.id,
        ref=request.ref,
        location=str((request.facts.location or "") if target is None else target.location),
        type=request.type.label.lower(),
        state=UndoState.FAILED,
        reason="",
    )
