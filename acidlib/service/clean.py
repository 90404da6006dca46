"""The cleaner: removes what compactions made obsolete once no reader can need it, and lists orphans."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from acidlib.admission import THREADS
from acidlib.errors import AcidError, BusyError, ConflictError, RefusedError, RetryError
from acidlib.model.location import LOCAL, Location
from acidlib.model.requests import CompactionRequest
from acidlib.planning.clean import CleanPlan, DueCleaning, left_over
from acidlib.planning.results import holding, shows, why_held
from acidlib.points import Point, passing
from acidlib.report.results import CleaningResult, RemovedPath
from acidlib.service.backend import (
    Backend,
    CleanerOptions,
    Cleaning,
    Further,
    ListedRequest,
    NotOursError,
    ReplacedError,
    recorded_mark,
)
from acidlib.service.leftovers import finish_claimed
from acidlib.service.places import Selection, Target
from acidlib.service.removals import Pace, is_claimed, litter_at, litter_of, remove_litter, remove_named, would_go
from acidlib.service.services import Services, as_done
from acidlib.stores.listing import list_location
from acidlib.stores.removing import Litter, find_orphans, may_be_litter
from acidlib.stores.renaming.store import original_staging_name
from acidlib.stores.store import CLAIM, STAGING_PREFIX, Store
from acidlib.wording import age_words, plural

# --- cleaner ----------------------------------------------------------------------------------------------------------
# The cleaner: removes what a recorded compaction made obsolete, once nobody can be reading it any more.
#
# What is obsolete is computed for the recorded high-water mark, never for a newer guess; after the removal the place is
# listed again, and only with nothing left is the request cleaned. What proves that nobody reads it differs, see
# `cleaning`.

Place = TypeVar("Place")
Result = TypeVar("Result")

_LOOKS_TOGETHER = 16
_FILES_TOGETHER = 4096


def run_cleaner(
    services: Services, cleaning: Cleaning, options: CleanerOptions, tell: Callable[[CleaningResult], None]
) -> None:
    """Clean every request that is ready for it; then after rolled back transactions, where that is due; then, wherever
    else a place is known, what dead runs left there.

    Many places are cleaned at a time, the requests of one place in their order; `tell` gets each result as it
    comes.
    """
    if not options.dry_run:
        for line in cleaning.requests.recover():
            services.progress.note(line)
    pace = Pace(services)
    due = [] if cleaning.further is None else cleaning.further.due()

    def told(result: CleaningResult) -> None:
        # where no place is named, what another run has is that run's, and waits here for the next
        tell(replace(result, state="ready for cleaning") if result.is_busy and not options.names_places else result)

    by_place: dict[object, list[CompactionRequest]] = {}
    for request in cleaning.requests.ready():
        by_place.setdefault(request.facts.location or request.ref, []).append(request)
    names: dict[str, set[str]] = {}
    conflicts: list[tuple[CompactionRequest, CleaningResult]] = []

    def clean(places: Sequence[Sequence[CompactionRequest]]) -> list[list[tuple[CompactionRequest, CleaningResult]]]:
        found: list[list[tuple[CompactionRequest, CleaningResult]]] = [[] for _ in places]
        for turn in range(max(map(len, places))):
            some = [(place, requests[turn]) for place, requests in enumerate(places) if turn < len(requests)]
            results = _clean_together(services, cleaning, [request for _, request in some], options, pace)
            for (place, request), result in zip(some, results, strict=True):
                found[place].append((request, result))
        return found

    for cleaned in _at_places(services, "cleaning", clean, list(by_place.values()), pace, together=cleaning.together):
        for request, result in cleaned:
            names.setdefault(result.location, set()).add(str(result.ref))
            if result.state == "conflict" and not result.removed:
                conflicts.append((request, result))
            else:
                told(result)
    for request, result in sorted(conflicts, key=lambda one: one[0].id):
        # another one of this run may have been in its way: two names, which only a metastore knows, may be of one place
        again = len(names[result.location]) > 1
        told(_clean_together(services, cleaning, [request], options, pace)[0] if again else result)
    if cleaning.further is not None:
        for result in _after_rolled_back(services, cleaning.further, due, pace):
            told(result)
    others: dict[str, tuple[CompactionRequest, Location]] = {}
    for request in cleaning.known_places():
        place = request.facts.location
        if place is not None and str(place) not in names:
            others.setdefault(str(place), (request, place))

    def tidy(places: Sequence[tuple[CompactionRequest, Location]]) -> list[CleaningResult | None]:
        return [_leftovers(services, cleaning, *known, pace=pace, dry_run=options.dry_run) for known in places]

    for left in _at_places(
        services, "looking for litter at", tidy, list(others.values()), pace, together=_LOOKS_TOGETHER
    ):
        if left is not None:
            tell(left)


def _after_rolled_back(
    services: Services, further: Further, due: Sequence[Sequence[DueCleaning]], pace: Pace
) -> Iterator[CleaningResult]:
    """Clean what is due, many tables at a time."""

    def clean(tables: Sequence[Sequence[DueCleaning]]) -> list[list[CleaningResult]]:
        return [[further.clean(one, pace) for one in places] for places in tables]

    for results in _at_places(services, "cleaning after rolled back transactions at", clean, due, pace, together=1):
        yield from results
    further.end_retries()


def _at_places(
    services: Services,
    what: str,
    work: Callable[[Sequence[Place]], Sequence[Result]],
    places: Sequence[Place],
    pace: Pace,
    *,
    together: int,
) -> Iterator[Result]:
    """What came of each place, as it comes; `work` is given so many at a time."""
    if not places:
        return
    services.progress.start(f"{what} {plural(len(places), 'place')}", len(places))
    size = min(together, -(-len(places) // THREADS))
    portions = [places[start : start + size] for start in range(0, len(places), size)]
    done = 0
    try:
        for _, portion in as_done(work, portions, on_interrupt=pace.stop):
            for result in portion.get():
                done += 1
                services.progress.advance(done)
                yield result
    finally:
        services.progress.finish()


def _leftovers(
    services: Services, cleaning: Cleaning, request: CompactionRequest, place: Location, *, pace: Pace, dry_run: bool
) -> CleaningResult | None:
    """Finish or remove what dead runs left where no request awaits cleaning; None where there is nothing."""
    result = replace(_result(request, "planned", ""), id=None, location=str(place))
    try:
        fs, store = services.fs(place), services.store(place)
        if not fs.is_directory(str(place)):
            return None
        names = [entry.name for entry in fs.list_directory(str(place), missing=ConflictError)]
        if CLAIM not in names and not any(map(may_be_litter, names)):
            return None
        unfinished = store.unfinished(place)
        if not unfinished and not litter_of(services, place):
            return None
        reason = f"{len(unfinished)} unfinished publications of dead runs" if unfinished else "litter of dead runs"
        if dry_run:
            return replace(result, reason=reason, removed=litter_at(services, place))
        with services.claim(place) as held:
            finish_claimed(store, place, lambda: cleaning.without_readers(request))
            removed, problems = remove_litter(services, held, pace)
        if problems:
            return replace(result, state="failed", reason="; ".join(problems), removed=removed)
        return replace(result, state="succeeded", reason=reason, removed=removed)
    except BusyError:
        return None  # what lies there may be of the run that is at work
    except ConflictError as error:
        return replace(result, state="conflict", reason=str(error))
    except AcidError as error:
        return replace(result, state="failed", reason=str(error))


@dataclass(slots=True)
class _ResultSoFar:
    """What is known of the result of a request so far: also what was removed before something failed."""

    result: CleaningResult


@dataclass(frozen=True, slots=True)
class _Known:
    """Asks what is known of a place; see `Proof.known`."""

    about: ListedRequest


@dataclass(frozen=True, slots=True)
class _Cleaned:
    """Asks to end a request; see `History.cleaned`."""

    done: ListedRequest


_Job = Generator[_Known | _Cleaned, Any, CleaningResult]
"""The cleaning of one request; it stops where several can ask the queue together, and is sent the answer."""


def _clean_together(
    services: Services,
    cleaning: Cleaning,
    requests: Sequence[CompactionRequest],
    options: CleanerOptions,
    pace: Pace,
) -> list[CleaningResult]:
    """The results of requests of several places, of each whatever goes wrong with it or with another.

    No further place is begun with while those that are under way have many files: their listings are kept.
    """
    jobs = [_guarded(services, cleaning, request, options, pace) for request in requests]
    results: dict[int, CleaningResult] = {}
    asked: dict[int, _Known | _Cleaned] = {}

    def go_on(number: int, answer: Any) -> None:
        job = jobs[number]
        try:
            asked[number] = job.throw(answer) if isinstance(answer, AcidError) else job.send(answer)
        except StopIteration as end:
            results[number] = end.value

    with ExitStack() as stack:
        for job in jobs:
            stack.callback(job.close)
        for number in range(len(jobs)):
            go_on(number, None)
            listed = sum(len(one.about.listing.files) for one in asked.values() if isinstance(one, _Known))
            if listed < _FILES_TOGETHER and number + 1 < len(jobs):
                continue
            while asked:
                answers = _answers(cleaning, asked)
                asked.clear()
                for waiting, answer in answers.items():
                    go_on(waiting, answer)
    return [results[number] for number in range(len(jobs))]


def _answers(cleaning: Cleaning, asked: Mapping[int, _Known | _Cleaned]) -> dict[int, Any]:
    """What was asked, of all places together; what is wrong with one is its own answer."""
    known = {number: one.about for number, one in asked.items() if isinstance(one, _Known)}
    done = {number: one.done for number, one in asked.items() if isinstance(one, _Cleaned)}
    answers: dict[int, Any] = {}
    if known:
        answers.update(zip(known, cleaning.proof.known(list(known.values())), strict=True))
    if done:
        answers.update(zip(done, cleaning.history.cleaned(list(done.values())), strict=True))
    return answers


def _guarded(
    services: Services, cleaning: Cleaning, request: CompactionRequest, options: CleanerOptions, pace: Pace
) -> _Job:
    """The result of a request, whatever goes wrong with it."""
    so_far = _ResultSoFar(_result(request, "", ""))
    try:
        return (yield from _clean(services, cleaning, request, so_far, options, pace))
    except ConflictError as error:
        return replace(so_far.result, state="conflict", reason=str(error), is_busy=isinstance(error, BusyError))
    except NotOursError as error:
        return replace(so_far.result, state="ready for cleaning", reason=str(error))
    except ReplacedError as error:
        return _dropped(cleaning, request, str(error), dry_run=options.dry_run)
    except AcidError as error:
        reason = str(error)
        if not options.dry_run and cleaning.note_failure is not None:
            try:
                cleaning.note_failure(request, error)
            except AcidError as another:  # one request that cannot be noted must not keep the others from being cleaned
                reason = f"{reason}; then: {another}"
        return replace(so_far.result, state="failed", reason=reason)


def _clean(
    services: Services,
    cleaning: Cleaning,
    request: CompactionRequest,
    so_far: _ResultSoFar,
    options: CleanerOptions,
    pace: Pace,
) -> _Job:
    waits = cleaning.requests.waits(request)
    if not options.dry_run and waits is not None:
        return _result(request, "ready for cleaning", waits)
    request, target = cleaning.proof.place(request)
    is_there = _is_there(services, request, target, so_far)
    if target is not None and not is_there:
        request, target = cleaning.proof.place(request, anew=True)
        is_there = _is_there(services, request, target, so_far)
    if target is None or not is_there:
        if waits is not None:
            return _result(request, "planned", waits)
        return _gone(services, cleaning, request, target, dry_run=options.dry_run)
    fs, store = services.fs(target.location), services.store(target.location)
    trash = _trash_place(store, target.location) if options.trash else None
    if options.dry_run:
        return (yield from _would_clean(services, cleaning, request, target, so_far.result, waits, trash=trash))
    pace.assert_not_stopped()
    with services.claim(target.location) as held:
        passing(Point.CLEANING_CLAIMED)
        listing = list_location(fs, target.location, without_unfinished=True, missing=ConflictError)
        if any(path.startswith(STAGING_PREFIX) for path in listing.directories):
            finish_claimed(store, target.location, lambda: cleaning.without_readers(request))
            listing = list_location(fs, target.location, missing=ConflictError)
        if cleaning.must_exist and not listing.files and not listing.top_directories():
            raise _missing(target, "it is empty")
        looked = ListedRequest(request=request, target=target, listing=listing)
        known_rows = yield _Known(looked)
        _require_verified(looked, known_rows)
        plan = cleaning.proof.plan(looked, known_rows)
        passing(Point.CLEANING_PLANNED)
        removed: tuple[RemovedPath, ...] = ()
        problems: tuple[str, ...] = ()
        if plan.remove:
            cleaning.unmoved(request, target)
            if cleaning.check is not None:
                cleaning.check(request, target)
            wanted = {removal.path: removal.reason for removal in plan.remove}
            known = frozenset(listing.files)
            removed, problems = remove_named(services, held, wanted, trash=options.trash, pace=pace, known=known)
            passing(Point.REMOVED_ALL)
        so_far.result = replace(so_far.result, removed=removed, blocked=_waiting(plan))
        if any(map(may_be_litter, (*listing.directories, *(file.path for file in listing.files)))):
            litter, unremoved = remove_litter(services, held, pace)
            removed, problems = removed + litter, problems + unremoved
        passing(Point.LITTER_REMOVED)
        result = so_far.result = replace(so_far.result, removed=removed)
        if problems:
            raise RetryError("; ".join(problems))
        listing = list_location(fs, target.location, missing=ConflictError)
        mark, write_ids = recorded_mark(request), target.write_ids(listing)
        left = left_over(listing, mark, write_ids, generation=target.generation(listing))
    if left:
        waiting = plan.blocked[0].reason if plan.blocked else f"{left[0]} is still there"
        return replace(result, reason=f"{len(left)} obsolete left: {waiting}")
    if not plan.remove:
        cleaning.unmoved(request, target)
    stays = yield _Cleaned(replace(looked, listing=listing))
    if stays is not None:
        return replace(result, reason=stays)
    passing(Point.CLEANED)
    return replace(result, state="succeeded", reason=_nothing_left(plan))


def _nothing_left(plan: CleanPlan) -> str:
    if not plan.kept:
        return "nothing obsolete is left"
    stays = plural(len(plan.kept), "covered directory stays for its", "covered directories stay for their")
    return f"nothing is left that the cleaner may remove; {stays} owner to remove"


def _require_verified(looked: ListedRequest, known: Sequence[CompactionRequest]) -> None:
    """Raise NotOursError, with which a request waits, while what a result was made of may be needed again."""
    held = holding(known, looked.listing.top_directories())
    if held is not None and shows(held):
        raise NotOursError(f"Cannot clean {looked.target.ref}: {why_held(held)}")


def _is_there(services: Services, request: CompactionRequest, target: Target | None, so_far: _ResultSoFar) -> bool:
    """Whether there is anything at the place of a request, which its result tells from now on."""
    if target is None:
        return False
    so_far.result = replace(_result(request, "ready for cleaning", ""), location=str(target.location))
    return services.fs(target.location).exists(str(target.location))


def _would_clean(
    services: Services,
    cleaning: Cleaning,
    request: CompactionRequest,
    target: Target,
    result: CleaningResult,
    waits: str | None,
    *,
    trash: str | None,
) -> _Job:
    """What a run would remove now, or move to a `trash`, or what it waits for."""
    if services.store(target.location).unfinished(target.location):
        return replace(result, state="planned", reason="a publication there is unfinished; the run finishes it first")
    listing = list_location(services.fs(target.location), target.location, missing=ConflictError)
    looked = ListedRequest(request=request, target=target, listing=listing)
    known = yield _Known(looked)
    _require_verified(looked, known)
    plan = cleaning.proof.plan(looked, known)
    if waits is not None:
        later = tuple(f"{removal.path}: {waits}" for removal in plan.remove)
        return replace(result, state="planned", reason=waits, blocked=later + _waiting(plan))
    removed, stays = would_go(services, target.location, plan.remove, listing)
    what = "to remove" if trash is None else f"to move to {trash}"
    reason = f"{len(removed)} {what}, {len(stays) + len(plan.blocked)} wait"
    gone = removed + litter_at(services, target.location)
    return replace(result, state="planned", reason=reason, removed=gone, blocked=stays + _waiting(plan))


def _trash_place(store: Store, location: Location) -> str:
    """Where things would be moved, in words; NotOursError, with which the request waits, where nothing can be."""
    try:
        return store.trash_place(location)
    except RefusedError as error:
        raise NotOursError(str(error)) from error


def _waiting(plan: CleanPlan) -> tuple[str, ...]:
    return tuple(f"{blocked.path}: {blocked.reason}" for blocked in (*plan.blocked, *plan.kept))


def _gone(
    services: Services, cleaning: Cleaning, request: CompactionRequest, target: Target | None, *, dry_run: bool
) -> CleaningResult:
    if target is not None and cleaning.must_exist:
        raise _missing(target, "it is not there")
    if target is not None and not services.fs(target.location).exists(str(target.location.parent)):
        raise _missing(target, "neither it nor the directory above it is there")
    what = "table or partition" if target is None else "location"
    return _dropped(cleaning, request, f"the {what} does not exist any more", dry_run=dry_run)


def _dropped(cleaning: Cleaning, request: CompactionRequest, reason: str, *, dry_run: bool) -> CleaningResult:
    """There is nothing to clean, and will not be."""
    if not dry_run:
        cleaning.history.dropped(request)
    return _result(request, "planned" if dry_run else "succeeded", reason)


def _missing(target: Target, what: str) -> RetryError:
    is_local = target.location.kind == LOCAL
    may_be = "a mount may be missing" if is_local else "what is configured may lead to another store than it did"
    return RetryError(f"Cannot clean {target.location}: because {what}; {may_be}")


def _result(request: CompactionRequest, state: str, reason: str) -> CleaningResult:
    return CleaningResult(
        id=request.id,
        ref=request.ref,
        location=str(request.facts.location or ""),
        state=state,
        reason=reason,
    )


# --- orphans ----------------------------------------------------------------------------------------------------------
# Orphans: listed first, removed only when that is asked for.

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
            tell(_orphan_result(target, "conflict", str(error)))
        except AcidError as error:
            tell(_orphan_result(target, "failed", str(error)))
    services.progress.finish()
    return [*selected.notes, *(f"{one.target.ref}: {one.reason}" for one in selected.passed_over)]


def _planned(services: Services, target: Target, orphans: Sequence[Litter], *, trash: bool) -> CleaningResult:
    where = f", to move to {services.store(target.location).trash_place(target.location)}" if trash else ""
    return replace(_orphan_result(target, "planned", _count(len(orphans)) + where), removed=tuple(map(_path, orphans)))


def _removed(services: Services, target: Target, idle_seconds: float, *, trash: bool) -> CleaningResult:
    """Remove them under a claim, after another look: what was an orphan may have been taken up meanwhile."""
    with services.claim(target.location) as held:
        orphans = _orphans_at(services, target, idle_seconds, own_token=held.token)
        wanted = {orphan.name: _path(orphan).reason for orphan in orphans}
        removed, problems = remove_named(services, held, wanted, trash=trash, pace=Pace(services))
    result = replace(_orphan_result(target, "succeeded", _count(len(orphans))), removed=removed)
    return replace(result, state="failed", reason="; ".join(problems)) if problems else result


def _orphans_at(
    services: Services, target: Target, idle_seconds: float, *, own_token: str | None = None
) -> tuple[Litter, ...]:
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
    return tuple(orphan for orphan in found if f"{target.location}/{orphan.name}" not in unfinished)


def _count(count: int) -> str:
    return plural(count, "orphan")


def _path(orphan: Litter) -> RemovedPath:
    reason = f"{orphan.reason}; unchanged for {age_words(orphan.idle_seconds)}"
    return RemovedPath(path=original_staging_name(orphan.name), bytes=orphan.bytes, reason=reason)


def _orphan_result(target: Target, state: str, reason: str) -> CleaningResult:
    return CleaningResult(
        id=None,
        ref=target.ref,
        location=str(target.location),
        state=state,
        reason=reason,
    )
