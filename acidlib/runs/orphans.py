"""Orphans: staging directories of any compactor, and results of aborted transactions, that belong to no table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from acidlib.errors import AcidError
from acidlib.execute.in_threads import as_done
from acidlib.execute.services import Services, step_seconds
from acidlib.model.results import CleaningResult, Outcome, RemovedPath
from acidlib.places.place import Place
from acidlib.places.removals import (
    DeleteRateLimiter,
    ended_by,
    find_unclaimed,
    if_busy,
    remove_named,
    result_of_removal,
)
from acidlib.places.selection import Selection
from acidlib.ports.backend import Backend
from acidlib.stores.removing import find_orphans
from acidlib.stores.store import original_staging_name
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
    """List or remove the orphans of all places that are selected; return notes about places that were passed over.

    idle_seconds  nothing in an orphan was modified for so long
    remove        remove them; else they are only listed
    trash         move them aside instead
    tell          gets a result for each place that has orphans
    """
    selected = backend.tables.select(selection, automatic=False)
    places = selected.places
    if places:
        services.progress.start(f"looking for orphans at {plural(len(places), 'place')}", len(places))

    def orphans_at(place: Place, own_token: str | None = None) -> dict[str, RemovedPath]:
        find = partial(find_orphans, idle_seconds=idle_seconds, txns=place.interpretation.txns)
        return {
            orphan.name: RemovedPath(
                path=original_staging_name(orphan.name),
                bytes=orphan.bytes,
                reason=f"{orphan.reason}; unchanged for {age_words(orphan.idle_seconds)}",
            )
            for orphan in find_unclaimed(services, place.location, find, own_token)
        }

    limiter = DeleteRateLimiter(services)

    def work(place: Place) -> CleaningResult | None:
        location = place.location
        result = CleaningResult(**place.ref._asdict(), location=str(location), state=Outcome.SUCCEEDED)
        orphans = orphans_at(place)
        if not orphans:
            return None
        if remove:
            with services.claim_and_revoke(location) as claim:
                # look again under the claim: a run may have taken up an orphan meanwhile
                orphans = orphans_at(place, claim.token)
                reasons = {name: orphan.reason for name, orphan in orphans.items()}
                removal = remove_named(services, claim, reasons, trash=trash, limiter=limiter)
            return result_of_removal(replace(result, reason=plural(len(orphans), "orphan")), removal)
        moved_to = f", to move to {services.store(location).trash_place(location)}" if trash else ""
        reason = plural(len(orphans), "orphan") + moved_to
        return replace(result, state=Outcome.PLANNED, reason=reason, removed=tuple(orphans.values()))

    seconds = step_seconds(services.settings)
    for number, (index, answer) in enumerate(
        as_done(work, places, seconds=seconds, on_interrupt=limiter.stop), start=1
    ):
        services.progress.advance(number)
        place = places[index]
        if isinstance(answer, AcidError):
            failed = CleaningResult(**place.ref._asdict(), location=str(place.location), state=Outcome.FAILED)
            tell(if_busy(ended_by(answer, failed), Outcome.CONFLICT))
        elif answer is not None:
            tell(answer)
    services.progress.finish()
    for passed in selected.passed_over:
        if passed.error is not None:
            unread = CleaningResult(
                **passed.place.ref._asdict(), location=str(passed.place.location), state=Outcome.FAILED
            )
            tell(ended_by(passed.error, unread))
    left = (f"{passed.place.ref}: {passed.reason}" for passed in selected.passed_over if passed.error is None)
    return [*selected.notes, *left]
