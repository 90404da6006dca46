"""Orphans: listed first, removed only when that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from acidlib.engine.backend import Backend
from acidlib.engine.removals import Pace, is_claimed, remove_named
from acidlib.engine.runner import as_done
from acidlib.engine.selection import Selection
from acidlib.engine.services import Services
from acidlib.engine.target import Target
from acidlib.errors import AcidError, ConflictError
from acidlib.report.decisions import CleaningResult, RemovedPath
from acidlib.storage.litter import Orphan, find_orphans
from acidlib.storage.staging import made_as
from acidlib.wording import age_words, plural

DEFAULT_ORPHAN_SECONDS = 3 * 86_400.0


def run_orphans(
    services: Services,
    backend: Backend,
    selection: Selection,
    *,
    idle_seconds: float,
    remove: bool,
    trash: bool,
    tell: Callable[[CleaningResult], None],
) -> list[str]:
    """Look at everything selected; returns notes about what was passed over.

    idle_seconds  nothing in an orphan was modified for so long
    remove        remove them; else they are only listed
    trash         move them aside instead
    tell          gets a result for each place that has orphans
    """
    selected = backend.select(selection, automatic=False)
    targets = selected.targets
    if targets:
        services.progress.start(f"looking for orphans at {plural(len(targets), 'place')}", len(targets))
    looks = as_done(lambda target: _orphans_at(services, target, idle_seconds), targets)
    for number, (place, done) in enumerate(looks, start=1):
        services.progress.advance(number)
        target = targets[place]
        try:
            orphans = done.get()
            if orphans:
                tell(
                    _removed(services, target, idle_seconds, trash=trash)
                    if remove
                    else _planned(services, target, orphans, trash=trash)
                )
        except ConflictError as error:
            tell(_result(target, "conflict", str(error)))
        except AcidError as error:
            tell(_result(target, "failed", str(error)))
    services.progress.finish()
    return [*selected.notes, *(f"{one.target.name}: {one.reason}" for one in selected.passed_over)]


def _planned(services: Services, target: Target, orphans: Sequence[Orphan], *, trash: bool) -> CleaningResult:
    where = f", to move to {services.store(target.location).trash_place(target.location)}" if trash else ""
    return replace(_result(target, "planned", _count(len(orphans)) + where), removed=tuple(map(_path, orphans)))


def _removed(services: Services, target: Target, idle_seconds: float, *, trash: bool) -> CleaningResult:
    """Remove them under a claim, after another look: what was an orphan may have been taken up meanwhile."""
    with services.claim(target.location) as held:
        orphans = _orphans_at(services, target, idle_seconds, own_token=held.token)
        wanted = {orphan.path: _path(orphan).reason for orphan in orphans}
        removed, problems = remove_named(services, held, wanted, trash=trash, pace=Pace(services))
    result = replace(_result(target, "succeeded", _count(len(orphans))), removed=removed)
    return replace(result, state="failed", reason="; ".join(problems)) if problems else result


def _orphans_at(
    services: Services, target: Target, idle_seconds: float, *, own_token: str | None = None
) -> tuple[Orphan, ...]:
    """Nothing is an orphan while another run is at work there, or what a run has begun to publish."""
    if is_claimed(services, target.location, own_token):
        return ()
    unfinished = services.store(target.location).unfinished(target.location)
    found = find_orphans(
        services.fs(target.location),
        target.location,
        now=services.clock(),
        idle_seconds=idle_seconds,
        txns=target.interpretation.txns,
    )
    return tuple(orphan for orphan in found if f"{target.location}/{orphan.path}" not in unfinished)


def _count(count: int) -> str:
    return plural(count, "orphan")


def _path(orphan: Orphan) -> RemovedPath:
    reason = f"{orphan.reason}; unchanged for {age_words(orphan.idle_seconds)}"
    return RemovedPath(path=made_as(orphan.path), bytes=orphan.bytes, reason=reason)


def _result(target: Target, state: str, reason: str) -> CleaningResult:
    return CleaningResult(
        id=None,
        database=target.database,
        table=target.table,
        partition=target.partition,
        location=str(target.location),
        state=state,
        reason=reason,
    )
