"""The cleaner: removes what a recorded compaction made obsolete, once nobody can be reading it any more.

What is obsolete is computed for the recorded high-water mark, never for a newer guess; after the removal the place is
listed again, and only with nothing left is the request cleaned. Who says that nobody reads it differs, see `Cleaning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

from acidlib.engine.leftovers import finish_claimed
from acidlib.engine.removals import litter_at, remove_litter, remove_named, would_go
from acidlib.engine.selection import Selection
from acidlib.engine.services import Services
from acidlib.engine.target import Target
from acidlib.errors import AcidError, ConflictError, RefusedError, RetryError
from acidlib.model.listing import Listing
from acidlib.model.requests import CompactionRequest
from acidlib.planning.clean import CleanPlan
from acidlib.points import Point, passing
from acidlib.report.decisions import CleaningResult, RemovedPath
from acidlib.storage.listing import list_location
from acidlib.storage.litter import find_litter
from acidlib.storage.unfinished import unfinished_publications


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningAsked:
    """What is asked of the cleaner.

    retention_seconds  how long to leave what was made obsolete; None = as settings say
    location           only there or below (without a metastore)
    selection          only these tables and partitions (with a metastore)
    force              also where Hive's own cleaner is on
    """

    retention_seconds: float | None = None
    location: str | None = None
    selection: Selection = field(default_factory=Selection)
    force: bool = False


class Cleaning(Protocol):
    """Which requests are to be cleaned, and what says that nobody reads what they made obsolete."""

    def recover(self) -> list[str]:
        """Finish and give back what dead runs left; a note about each kind."""

    def ready(self) -> list[CompactionRequest]:
        """The requests that are ready for cleaning and selected, no later result of a place before an earlier one."""

    def waits(self, request: CompactionRequest) -> str | None:
        """Why a request cannot be cleaned yet, or not by us, as far as that is known without a look at its place."""

    def again(self, request: CompactionRequest) -> CompactionRequest | None:
        """The same request as the queue has it now, for its table may have been renamed; None when it is gone."""

    @property
    def place_is_known(self) -> bool:
        """Whether somebody else says that the place exists: then one that is missing or empty is an error."""

    def target(self, request: CompactionRequest) -> Target | None:
        """The place, understood as the cleaning has to; None when the table or partition does not exist any more.

        NotOursError where it is left to Hive's own cleaner.
        """

    def finishing(self, request: CompactionRequest) -> AbstractContextManager[None]:
        """Around the completion of a publication that an earlier run began there."""

    def plan(self, request: CompactionRequest, target: Target, listing: Listing) -> CleanPlan:
        """What may go now, and what has to wait."""

    def remember(self, request: CompactionRequest, plan: CleanPlan) -> None:
        """Keep what a later run has to know of this one's look."""

    def check(self, request: CompactionRequest, target: Target) -> None:
        """Right before something is removed: raises ConflictError when another works there."""

    def left(self, request: CompactionRequest, target: Target, listing: Listing) -> Sequence[str]:
        """What a listing made after the removal still shows of what had to go."""

    def keeps(self, request: CompactionRequest, target: Target, listing: Listing) -> str | None:
        """Why a request must stay although nothing obsolete is left; None when it may be called cleaned."""

    def cleaned(self, request: CompactionRequest) -> None:
        """Nothing is left: to the history."""

    def gone(self, request: CompactionRequest) -> None:
        """Its place or result does not exist any more: to the history, without forgetting what was rolled back."""

    def failed(self, request: CompactionRequest, error: AcidError) -> None:
        """The cleaning failed: note it, or give the request up."""

    def places(self) -> list[tuple[CompactionRequest, str]]:
        """All places that are known, with a request that names each, to look for what dead runs left there."""


def run_cleaner(services: Services, cleaning: Cleaning, *, dry_run: bool, trash: bool) -> list[CleaningResult]:
    """Clean every request that is ready for it; then, wherever else a place is known, what dead runs left there."""
    if not dry_run:
        for line in cleaning.recover():
            services.progress.note(line)
    results = [_guarded(services, cleaning, one, dry_run=dry_run, trash=trash) for one in cleaning.ready()]
    seen = {result.location for result in results}
    for request, place in cleaning.places():
        if place in seen:
            continue
        seen.add(place)
        left = _leftovers(services, cleaning, request, place, dry_run=dry_run)
        results += [left] if left is not None else []
    return results


def _leftovers(
    services: Services, cleaning: Cleaning, request: CompactionRequest, place: str, *, dry_run: bool
) -> CleaningResult | None:
    """Finish or remove what dead runs left where no request awaits cleaning; None where there is nothing."""
    result = replace(_result(request, "planned", ""), id=None, location=place)
    try:
        if not services.fs.is_directory(place):
            return None
        unfinished = unfinished_publications(services.fs, place)
        if not unfinished and not find_litter(services.fs, place, now=services.clock()):
            return None
        told = f"{len(unfinished)} unfinished publications of dead runs" if unfinished else "litter of dead runs"
        if dry_run:
            return replace(result, reason=told, removed=litter_at(services, place))
        with services.claim(place) as held:
            finish_claimed(services.fs, place, lambda: cleaning.finishing(request))
            removed, problems = remove_litter(services, held)
        if problems:
            return replace(result, state="failed", reason="; ".join(problems), removed=removed)
        return replace(result, state="succeeded", reason=told, removed=removed)
    except ConflictError as error:
        return replace(result, state="conflict", reason=str(error))
    except AcidError as error:
        return replace(result, state="failed", reason=str(error))


@dataclass(slots=True)
class _Course:
    """What is told of a request so far: also what went before something failed."""

    result: CleaningResult


def _guarded(
    services: Services, cleaning: Cleaning, request: CompactionRequest, *, dry_run: bool, trash: bool
) -> CleaningResult:
    course = _Course(_result(request, "", ""))
    try:
        return _clean(services, cleaning, request, course, dry_run=dry_run, trash=trash)
    except ConflictError as error:
        return replace(course.result, state="conflict", reason=str(error))
    except NotOursError as error:
        return replace(course.result, state="ready for cleaning", reason=str(error))
    except ReplacedError as error:
        return _ended_without(cleaning, request, str(error), dry_run=dry_run)
    except AcidError as error:
        reason = str(error)
        if not dry_run:
            try:
                cleaning.failed(request, error)
            except AcidError as another:  # one request that cannot be noted must not keep the others from being cleaned
                reason = f"{reason}; then: {another}"
        return replace(course.result, state="failed", reason=reason)


def _clean(
    services: Services,
    cleaning: Cleaning,
    request: CompactionRequest,
    course: _Course,
    *,
    dry_run: bool,
    trash: bool,
) -> CleaningResult:
    fs = services.fs
    waits = cleaning.waits(request)
    if not dry_run and waits is not None:
        return _result(request, "ready for cleaning", waits)
    target = cleaning.target(request)
    if target is None:
        now = cleaning.again(request)
        if now is None:
            raise ConflictError(f"Cannot clean {request.full_name}: because another cleaner has ended the request")
        if now.entity != request.entity:
            return _clean(services, cleaning, now, course, dry_run=dry_run, trash=trash)
    if target is None or not fs.exists(target.location):
        if waits is not None:
            return _result(request, "planned", waits)
        return _gone(services, cleaning, request, target, dry_run=dry_run)
    result = course.result = replace(_result(request, "ready for cleaning", ""), location=target.location)
    if dry_run:
        if unfinished_publications(fs, target.location):
            return replace(
                result, state="planned", reason="a publication there is unfinished; the run finishes it first"
            )
        listing = list_location(fs, target.location, missing=ConflictError)
        plan = cleaning.plan(request, target, listing)
        if waits is None:
            return _planned(services, result, plan, listing)
        later = tuple(f"{removal.path}: {waits}" for removal in plan.remove)
        return replace(result, state="planned", reason=waits, blocked=later + _waiting(plan))
    with services.claim(target.location) as held:
        passing(Point.CLEANING_CLAIMED)
        finish_claimed(fs, target.location, lambda: cleaning.finishing(request))
        listing = list_location(fs, target.location, missing=ConflictError)
        if cleaning.place_is_known and not listing.files and not listing.top_directories():
            raise _missing(target, "it is empty")
        plan = cleaning.plan(request, target, listing)
        cleaning.remember(request, plan)
        passing(Point.CLEANING_PLANNED)
        removed: tuple[RemovedPath, ...] = ()
        problems: tuple[str, ...] = ()
        if plan.remove:
            cleaning.check(request, target)
            wanted = {removal.path: removal.reason for removal in plan.remove}
            removed, problems = remove_named(services, held, wanted, trash=trash, known=frozenset(listing.files))
            passing(Point.REMOVED_ALL)
        result = course.result = replace(result, removed=removed, blocked=_waiting(plan))
        litter, unremoved = remove_litter(services, held)
        passing(Point.LITTER_REMOVED)
        result = course.result = replace(result, removed=removed + litter)
        if problems or unremoved:
            raise RetryError("; ".join(problems + unremoved))
        listing = list_location(fs, target.location, missing=ConflictError)
        left = cleaning.left(request, target, listing)
        keeps = None if left else cleaning.keeps(request, target, listing)
    if left:
        waiting = plan.blocked[0].reason if plan.blocked else f"{left[0]} is still there"
        return replace(result, reason=f"{len(left)} obsolete left: {waiting}")
    if keeps is not None:
        return replace(result, reason=keeps)
    cleaning.cleaned(request)
    passing(Point.CLEANED)
    return replace(result, state="succeeded", reason="nothing obsolete is left")


class NotOursError(RefusedError):
    """A request that somebody else has to clean; not a failure."""


class ReplacedError(RefusedError):
    """A request whose result is not at its place any more."""


def _planned(services: Services, result: CleaningResult, plan: CleanPlan, listing: Listing) -> CleaningResult:
    removed, stays = would_go(services, result.location, plan.remove, listing)
    told = f"{len(removed)} to remove, {len(stays) + len(plan.blocked)} wait"
    gone = removed + litter_at(services, result.location)
    return replace(result, state="planned", reason=told, removed=gone, blocked=stays + _waiting(plan))


def _waiting(plan: CleanPlan) -> tuple[str, ...]:
    return tuple(f"{blocked.path}: {blocked.reason}" for blocked in (*plan.blocked, *plan.kept))


def _gone(
    services: Services, cleaning: Cleaning, request: CompactionRequest, target: Target | None, *, dry_run: bool
) -> CleaningResult:
    if target is not None and cleaning.place_is_known:
        raise _missing(target, "it is not there")
    if target is not None and not services.fs.exists(target.location.rpartition("/")[0]):
        raise _missing(target, "neither it nor the directory above it is there")
    what = "table or partition" if target is None else "location"
    return _ended_without(cleaning, request, f"the {what} does not exist any more", dry_run=dry_run)


def _ended_without(cleaning: Cleaning, request: CompactionRequest, reason: str, *, dry_run: bool) -> CleaningResult:
    """There is nothing to clean, and will not be."""
    if not dry_run:
        cleaning.gone(request)
    return _result(request, "planned" if dry_run else "succeeded", reason)


def _missing(target: Target, what: str) -> RetryError:
    return RetryError(f"Cannot clean {target.location}: because {what}; a mount may be missing")


def _result(request: CompactionRequest, state: str, reason: str) -> CleaningResult:
    return CleaningResult(
        id=request.id,
        database=request.database,
        table=request.table,
        partition=request.partition,
        location=request.facts.location or "",
        state=state,
        reason=reason,
    )


def recorded_mark(request: CompactionRequest) -> int:
    """The high-water mark that a request recorded; RefusedError without one."""
    if request.highest_write_id is None:
        raise RefusedError(f"Cannot clean {request.full_name}: because request {request.id} has no high-water mark")
    return request.highest_write_id
