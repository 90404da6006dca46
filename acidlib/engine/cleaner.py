"""The cleaner: removes what a recorded compaction made obsolete, once nobody can be reading it any more.

What is obsolete is computed for the recorded high-water mark with the recorded write-id list, never for a newer guess;
after the removal the place is listed again, and only with nothing left is the request cleaned.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from acidlib.engine.services import Services
from acidlib.engine.target import OUTPUTS, PUBLISHED_MS, Target, target_of
from acidlib.errors import AcidError, ConflictError, RefusedError, RetryError
from acidlib.model.requests import CompactionRequest
from acidlib.planning.clean import CleanPlan, cleanable, left_over
from acidlib.queue.rules import LOCATION
from acidlib.report.decisions import CleaningResult, RemovedPath
from acidlib.storage.listing import list_location
from acidlib.storage.publishing import roll_forward, unfinished_publications
from acidlib.storage.removing import remove_paths
from acidlib.storage.staging import find_litter

FIRST_SEEN = "acidlib.first.seen"


def run_cleaner(
    services: Services,
    *,
    retention_seconds: float,
    location: str | None,
    dry_run: bool,
    trash: bool,
) -> list[CleaningResult]:
    """Clean every request that is ready for it, oldest result of a place first; with `location` only those there.

    Then, wherever else the queue or its history knows a place, what dead runs left there.
    """
    results = []
    for request in services.queue.ready_for_cleaning():
        if location is not None and not _is_at(request, location):
            continue
        results.append(_guarded(services, request, retention_seconds=retention_seconds, dry_run=dry_run, trash=trash))
    places = {result.location for result in results}
    for request in services.queue.show():
        if request.property(LOCATION) in places or (location is not None and not _is_at(request, location)):
            continue
        places.add(request.property(LOCATION) or "")
        left = _leftovers(services, request, dry_run=dry_run)
        results += [left] if left is not None else []
    return results


def _leftovers(services: Services, request: CompactionRequest, *, dry_run: bool) -> CleaningResult | None:
    """Finish or remove what dead runs left where no request awaits cleaning; None where there is nothing."""
    place, result = request.property(LOCATION), replace(_result(request, "planned", ""), id=None)
    if place is None or not services.fs.is_directory(place):
        return None
    try:
        unfinished = unfinished_publications(services.fs, place)
        if not unfinished and not find_litter(services.fs, place, now=services.clock()):
            return None
        told = f"{len(unfinished)} unfinished publications of dead runs" if unfinished else "litter of dead runs"
        if dry_run:
            return replace(result, reason=told, removed=_litter(services, place))
        with services.claim(place) as held:
            roll_forward(services.fs, place)
            removed = _remove_litter(services, place, token=held.info.token)
        return replace(result, state="succeeded", reason=told, removed=removed)
    except ConflictError as error:
        return replace(result, state="conflict", reason=str(error))
    except AcidError as error:
        return replace(result, state="failed", reason=str(error))


def _is_at(request: CompactionRequest, location: str) -> bool:
    place = request.property(LOCATION) or ""
    return place == location or place.startswith(f"{location}/")


def _guarded(
    services: Services, request: CompactionRequest, *, retention_seconds: float, dry_run: bool, trash: bool
) -> CleaningResult:
    try:
        return _clean(services, request, retention_seconds=retention_seconds, dry_run=dry_run, trash=trash)
    except ConflictError as error:
        return _result(request, "conflict", str(error))
    except AcidError as error:
        return _result(request, "failed", str(error)) if dry_run else _failed(services, request, error)


def _clean(
    services: Services, request: CompactionRequest, *, retention_seconds: float, dry_run: bool, trash: bool
) -> CleaningResult:
    target = target_of(request)
    if not services.fs.exists(target.location):
        return _gone(services, request, target, dry_run=dry_run)
    if not dry_run and (waits := _retry_wait(services, request)) is not None:
        return _result(request, "ready for cleaning", waits)
    if dry_run:
        if unfinished_publications(services.fs, target.location):
            return _result(request, "planned", "a publication there is unfinished; the run finishes it first")
        plan = _plan(services, request, target, retention_seconds)
        return _planned(request, plan, _litter(services, target.location))
    with services.claim(target.location) as held:
        roll_forward(services.fs, target.location)
        plan = _plan(services, request, target, retention_seconds)
        _remember_first_seen(services, request, plan)
        removed: tuple[RemovedPath, ...] = ()
        problems: tuple[str, ...] = ()
        if plan.remove:
            held.assert_mine()
            removed, problems = _remove(services, target, plan, trash=trash)
        litter = _remove_litter(services, target.location, token=held.info.token)
        left = _left(services, request, target)
    result = replace(
        _result(request, "ready for cleaning", ""),
        removed=removed + litter,
        blocked=_waiting(plan),
    )
    return _concluded(services, request, result, left, problems)


def _concluded(
    services: Services, request: CompactionRequest, result: CleaningResult, left: Sequence[str], problems: Sequence[str]
) -> CleaningResult:
    if problems:
        raise PartlyRemovedError(result, "; ".join(problems))
    if left:
        waiting = result.blocked[0].partition(": ")[2] if result.blocked else f"{left[0]} is still there"
        return replace(result, reason=f"{len(left)} obsolete left: {waiting}")
    services.queue.mark_cleaned(request.id, services.now_ms())
    return replace(result, state="succeeded", reason="nothing obsolete is left")


class PartlyRemovedError(RetryError):
    """A removal that went only part of the way."""

    def __init__(self, result: CleaningResult, reason: str) -> None:
        super().__init__(reason)
        self.result = result


def _plan(services: Services, request: CompactionRequest, target: Target, retention_seconds: float) -> CleanPlan:
    listing = list_location(services.fs, target.location, missing=ConflictError)
    newest, published = _publications(services, request)
    if request.highest_write_id is None:
        raise RefusedError(f"Cannot clean {target.name}: because request {request.id} has no high-water mark")
    return cleanable(
        listing,
        request.highest_write_id,
        target.write_ids(listing),
        generation=target.generation(listing),
        now=services.clock(),
        retention_seconds=retention_seconds,
        newest_publication=newest,
        published_at=published,
    )


def _publications(services: Services, request: CompactionRequest) -> tuple[float | None, dict[str, float]]:
    """When the newest publication at this place was, and when each directory was published or first seen."""
    published: dict[str, float] = {}
    newest: float | None = None
    for other in services.queue.show():
        # by place alone: another run may have called it by another name
        if other.property(LOCATION) != request.property(LOCATION):
            continue
        published.update(json.loads(other.property(FIRST_SEEN) or "{}"))
        at = other.property(PUBLISHED_MS)
        if at is not None:
            seconds = int(at) / 1000
            newest = seconds if newest is None else max(newest, seconds)
            published.update((name, seconds) for name in (other.property(OUTPUTS) or "").split(",") if name)
    return newest, published


def _remember_first_seen(services: Services, request: CompactionRequest, plan: CleanPlan) -> None:
    if plan.first_seen:
        seen = json.loads(request.property(FIRST_SEEN) or "{}")
        seen.update((path, services.clock()) for path in plan.first_seen)
        services.queue.set_properties(request.id, None, {FIRST_SEEN: json.dumps(seen)})


def _remove(
    services: Services, target: Target, plan: CleanPlan, *, trash: bool
) -> tuple[tuple[RemovedPath, ...], tuple[str, ...]]:
    wanted = {removal.path: removal for removal in plan.remove}
    bin_name = f"{int(services.clock())}-{services.unique()}" if trash else None
    report = remove_paths(services.fs, target.location, tuple(wanted), trash=bin_name)
    removed = tuple(
        RemovedPath(path=item.path, bytes=item.bytes, reason=wanted[item.path].reason) for item in report.removed
    )
    return removed, tuple(f"{item.path}: {item.reason}" for item in report.failed)


def _remove_litter(services: Services, location: str, *, token: str) -> tuple[RemovedPath, ...]:
    found = _litter(services, location, token=token)
    for litter in found:
        services.fs.remove_tree(location, litter.path)
    return found


def _litter(services: Services, location: str, *, token: str | None = None) -> tuple[RemovedPath, ...]:
    return tuple(
        RemovedPath(
            path=litter.name,
            bytes=litter.bytes,
            reason=f"left by a dead run {litter.idle_seconds / 3600:.0f} hours ago",
        )
        for litter in find_litter(services.fs, location, now=services.clock(), own_token=token)
    )


def _left(services: Services, request: CompactionRequest, target: Target) -> tuple[str, ...]:
    listing = list_location(services.fs, target.location, missing=ConflictError)
    assert request.highest_write_id is not None
    return left_over(
        listing, request.highest_write_id, target.write_ids(listing), generation=target.generation(listing)
    )


def _planned(request: CompactionRequest, plan: CleanPlan, litter: tuple[RemovedPath, ...]) -> CleaningResult:
    removed = tuple(RemovedPath(path=item.path, bytes=item.length, reason=item.reason) for item in plan.remove)
    return replace(
        _result(request, "planned", f"{len(plan.remove)} to remove, {len(plan.blocked)} wait"),
        removed=removed + litter,
        blocked=_waiting(plan),
    )


def _waiting(plan: CleanPlan) -> tuple[str, ...]:
    return tuple(f"{blocked.path}: {blocked.reason}" for blocked in plan.blocked)


def _gone(services: Services, request: CompactionRequest, target: Target, *, dry_run: bool) -> CleaningResult:
    if not services.fs.exists(target.location.rpartition("/")[0]):
        raise RetryError(
            f"Cannot clean {target.location}: because neither it nor the directory above it is there; "
            "a mount may be missing"
        )
    if not dry_run:
        services.queue.mark_cleaned(request.id, services.now_ms())
    return _result(request, "planned" if dry_run else "succeeded", "the location does not exist any more")


def _retry_wait(services: Services, request: CompactionRequest) -> str | None:
    """Why a cleaning that failed is not tried again yet (Hive: 2^n times the retention, from the commit on)."""
    if not request.retry_retention_ms or request.commit_ms is None:
        return None
    due = request.commit_ms + request.retry_retention_ms
    return None if services.now_ms() >= due else f"the last try failed ({request.error_message}); waiting for the next"


def _failed(services: Services, request: CompactionRequest, error: AcidError) -> CleaningResult:
    base = services.settings.integer("metastore.compactor.cleaner.retry.retention.time")
    most = services.settings.integer("hive.compactor.cleaner.retry.maxattempts")
    before = request.retry_retention_ms
    attempts = 0 if not before or not base else (before // base).bit_length()
    result = error.result if isinstance(error, PartlyRemovedError) else _result(request, "failed", "")
    if attempts >= most:
        services.queue.mark_failed(request.id, str(error), services.now_ms(), worker_id=None)
    else:
        services.queue.set_cleaner_note(request.id, str(error), base << attempts)
    return replace(result, state="failed", reason=str(error))


def _result(request: CompactionRequest, state: str, reason: str) -> CleaningResult:
    return CleaningResult(
        id=request.id,
        database=request.database,
        table=request.table,
        partition=request.partition,
        location=request.property(LOCATION) or "",
        state=state,
        reason=reason,
    )
