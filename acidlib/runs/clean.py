"""The cleaner: removes everything that a compaction made obsolete, once no reader can need it.

Of each request that is ready: claim its place, list it, plan, prove that no reader is left, remove, list again. Only
with nothing obsolete left does the request end. Afterwards the run cleans after rolled back transactions, and wherever
else a place is known it removes what dead runs left there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from acidlib.errors import AcidError, BusyError, ConflictError, RefusedError, ReplacedError, RetryError, known_error
from acidlib.execute.answers import answers_of
from acidlib.execute.in_threads import portions_done
from acidlib.execute.services import step_seconds
from acidlib.execute.stopping import STOPPING
from acidlib.location import Location
from acidlib.model.requests import CompactionRequest
from acidlib.model.results import CleaningResult, Outcome, Waiting
from acidlib.model.tables import TableRef
from acidlib.places.place import Place
from acidlib.places.removals import (
    DeleteRateLimiter,
    NotOursError,
    Removal,
    ended_by,
    if_busy,
    litter_of,
    remove_litter,
    remove_named,
    result_of_removal,
    would_remove,
)
from acidlib.planning.clean import CleanPlan, DueCleaning, remaining_obsolete
from acidlib.planning.results import quarantine_reason, quarantining_request, shows_unverified
from acidlib.points import Point, reach
from acidlib.ports.cleaning import Cleaning, CleaningForbiddenError, ListedRequest, NothingToCleanError, result_of_due
from acidlib.ports.holds import finish_claimed, held
from acidlib.stores.listing import list_location
from acidlib.stores.removing import may_be_litter
from acidlib.stores.store import CLAIM, STAGING_PREFIX
from acidlib.wording import plural

AnyPlace = TypeVar("AnyPlace")
AnyResult = TypeVar("AnyResult")


def run_cleaner(cleaning: Cleaning, tell: Callable[[CleaningResult], None]) -> None:
    """Clean every request that is ready, then after rolled back transactions, then after dead runs.

    `tell` gets each result as it comes. Obsolete is computed for the high-water mark that the request recorded, never
    for a newer one.
    """
    services, options, rolled_back = cleaning.services, cleaning.options, cleaning.rolled_back
    if not options.dry_run:
        for line in cleaning.recover():
            services.progress.note(line)
    limiter = DeleteRateLimiter(services)
    due = [] if rolled_back is None else rolled_back.due()
    is_named = options.selection.location is not None or bool(options.selection.tables)
    locations: set[str] = set()

    def clean_table(table: Sequence[DueCleaning]) -> list[CleaningResult]:
        assert rolled_back is not None
        return [rolled_back.clean(place, limiter) for place in table]

    def table_failed(table: Sequence[DueCleaning], error: AcidError) -> list[CleaningResult]:
        return [ended_by(error, result_of_due(place)) for place in table]

    def leftovers_failed(place: tuple[Location, CompactionRequest], error: AcidError) -> CleaningResult:
        return replace(ended_by(error, _nothing_yet(place[1])), id=None)

    doing = "cleaning after rolled back transactions at"
    of_tables = chain.from_iterable(_at_places(cleaning, doing, clean_table, table_failed, due, limiter))
    for result in chain(_clean_requests(cleaning, limiter), chain.from_iterable(of_tables)):
        locations.add(result.location)
        # where no place is named, one that another run has claimed waits for the next run
        tell(if_busy(result, Outcome.CONFLICT if is_named else Outcome.READY_FOR_CLEANING))
    try:
        if rolled_back is not None:
            rolled_back.end_retries()
        known = cleaning.known_places()
    except AcidError as error:
        if not locations:
            raise
        # the results above are reported all the same
        reason = f"Cannot go on: {error}; the next run does the rest"
        nowhere = TableRef("", "")._asdict()
        tell(CleaningResult(id=None, **nowhere, location="", state=Outcome.FAILED, reason=reason))
        return
    others: dict[Location, CompactionRequest] = {}
    for request in known:
        location = request.facts.location
        if location is not None and str(location) not in locations:
            others.setdefault(location, request)
    for portion in _at_places(
        cleaning,
        "looking for litter at",
        lambda place: _clean_leftovers(cleaning, place[1], place[0], limiter),
        leftovers_failed,
        list(others.items()),
        limiter,
    ):
        for leftovers in portion:
            if leftovers is not None:
                tell(leftovers)


def _clean_requests(cleaning: Cleaning, limiter: DeleteRateLimiter) -> Iterator[CleaningResult]:
    """Yield the result of each request that is ready: many places at a time, the requests of one place in order."""
    by_place: dict[object, list[CompactionRequest]] = {}
    for request in cleaning.ready():
        by_place.setdefault(request.facts.location or request.ref, []).append(request)

    def clean(requests: Sequence[CompactionRequest]) -> list[_RequestCleaning]:
        jobs = [_RequestCleaning(cleaning, request, limiter) for request in requests]
        for job in jobs:
            job.clean()
            if not cleaning.ends_many:
                _end([job], cleaning)
        return jobs

    def failed(requests: Sequence[CompactionRequest], error: AcidError) -> list[_RequestCleaning]:
        jobs = [_RequestCleaning(cleaning, request, limiter) for request in requests]
        for job in jobs:
            job.result = ended_by(error, job.result)
        return jobs

    def cleaned(places: Sequence[Sequence[CompactionRequest]]) -> Iterator[_RequestCleaning]:
        for portion in _at_places(cleaning, "cleaning", clean, failed, places, limiter):
            jobs = list(chain.from_iterable(portion))
            _end(jobs, cleaning)
            yield from jobs

    names: dict[str, set[TableRef]] = {}
    conflicts: list[_RequestCleaning] = []
    for job in cleaned(list(by_place.values())):
        names.setdefault(job.result.location, set()).add(job.result.ref)
        if job.result.state in (Outcome.CONFLICT, Outcome.BUSY) and not job.result.removed:
            conflicts.append(job)
        else:
            yield job.result
    again = []
    for job in sorted(conflicts, key=lambda job: job.request.id):
        # two names, which only a metastore knows, may be of one location: then this run was in its own way
        if len(names[job.result.location]) > 1:
            again.append([job.request])
        else:
            yield job.result
    for requests in again:  # one after the other
        yield from (job.result for job in cleaned([requests]))


def _end(jobs: Sequence[_RequestCleaning], cleaning: Cleaning) -> None:
    """End the requests that are cleaned and still there, together."""
    due = [(job, job.cleaned) for job in jobs if job.cleaned is not None]
    if due:
        with STOPPING.shielded():
            answers = answers_of(cleaning.end_cleaned, [cleaned for _, cleaned in due])
            for (job, _), answer in zip(due, answers, strict=True):
                job.ended(answer)


def _at_places(
    cleaning: Cleaning,
    doing: str,
    work: Callable[[AnyPlace], AnyResult],
    failed: Callable[[AnyPlace, AcidError], AnyResult],
    places: Sequence[AnyPlace],
    limiter: DeleteRateLimiter,
) -> Iterator[list[AnyResult]]:
    """Yield the results of places, a portion of them as they come.

    failed  returns the result of a place where `work` hangs, or cannot be done
    """
    if not places:
        return
    progress = cleaning.services.progress
    progress.start(f"{doing} {plural(len(places), 'place')}", len(places))
    ended = 0
    try:
        seconds = step_seconds(cleaning.services.settings)
        with closing(portions_done(work, places, seconds=seconds, on_interrupt=limiter.stop)) as portions:
            for portion in portions:
                ended += len(portion)
                progress.advance(ended)
                yield [
                    failed(places[number], answer) if isinstance(answer, AcidError) else answer
                    for number, answer in portion
                ]
    finally:
        progress.finish()


class _RequestCleaning:
    """The cleaning of one request.

    result   as far as it is known, also after a failure
    cleaned  set once nothing obsolete is left: the request has to be ended
    """

    def __init__(self, cleaning: Cleaning, request: CompactionRequest, limiter: DeleteRateLimiter) -> None:
        self._services = cleaning.services
        self._cleaning = cleaning
        self._options = cleaning.options
        self._limiter = limiter
        self.request = request
        self.result = _nothing_yet(request)
        self.cleaned: ListedRequest | None = None

    def ended(self, answer: str | AcidError | None) -> None:
        """Take up what came of the end: None, why the request stays, or an error."""
        self.cleaned = None
        if answer is None:
            reach(Point.CLEANED)
        elif isinstance(answer, AcidError):
            self.result = self._failed(answer)
        else:
            self.result = replace(self.result, state=Outcome.READY_FOR_CLEANING, reason=answer)

    def clean(self) -> None:
        """Clean the place; errors are results."""
        self.result = self._outcome()

    def _outcome(self) -> CleaningResult:
        dry_run = self._options.dry_run
        try:
            try:
                return self._clean()
            except CleaningForbiddenError as error:
                if dry_run or not self._cleaning.end_forbidden(self.request, error.words):
                    raise
                return replace(self.result, state=Outcome.REFUSED, reason=error.words)
            except NothingToCleanError as error:
                if not dry_run:
                    self._cleaning.end_dropped(self.request)
                state = Outcome.PLANNED if dry_run else Outcome.SUCCEEDED
                return replace(_nothing_yet(self.request), state=state, reason=error.words)
        except Exception as raised:
            return self._failed(known_error(raised, f"clean {self.request.ref}"))

    def _failed(self, failure: AcidError) -> CleaningResult:
        result = ended_by(failure, self.result)
        if result.state is Outcome.FAILED and not self._options.dry_run:
            try:
                self._cleaning.note_failure(self.request, failure)
            except Exception as another:  # a failure that cannot be noted does not stop the other requests
                then = known_error(another, f"note that {self.request.ref} was not cleaned")
                return replace(result, reason=f"{failure}; then: {then}")
        return result

    def _clean(self) -> CleaningResult:
        dry_run, not_ready = self._options.dry_run, self._cleaning.not_ready_reason(self.request)
        if not dry_run and not_ready is not None:
            return replace(self.result, state=Outcome.READY_FOR_CLEANING, reason=not_ready)
        request, place, is_there = self._look_up()
        if place is None or not is_there:
            if not_ready is not None:
                return replace(_nothing_yet(request), state=Outcome.PLANNED, reason=not_ready)
            raise self._missing(place)
        trash = None
        if self._options.trash:
            try:
                trash = self._services.store(place.location).trash_place(place.location)
            except RefusedError as error:  # nothing can be moved there: the request waits
                raise NotOursError(error.words) from error
        if dry_run:
            return self._would_clean(request, place, not_ready, trash)
        self._limiter.assert_not_stopped()
        return self._clean_place(request, place)

    def _look_up(self) -> tuple[CompactionRequest, Place | None, bool]:
        """Return the request as it is now, its place, and whether that exists; a missing place is asked for anew."""
        request = self.request
        for anew in (False, True):
            request, place = self._cleaning.place(request, anew=anew)
            if place is None:
                break
            location = place.location
            self.result = replace(_nothing_yet(request), location=str(location), state=Outcome.READY_FOR_CLEANING)
            try:
                if self._services.fs(location).exists(str(location)):
                    return request, place, True
            except ReplacedError as error:
                raise NothingToCleanError("the table was restored or re-created: another directory is there") from error
        return request, place, False

    def _clean_place(self, request: CompactionRequest, place: Place) -> CleaningResult:
        """Claim, list, plan, remove, list again, and end the request if nothing obsolete is left."""
        cleaning, services, location = self._cleaning, self._services, place.location
        with held(cleaning.hold(request, place)) as hold:
            reach(Point.CLEANING_CLAIMED)
            listing = list_location(services.fs(location), location, without_unfinished=True, missing=ConflictError)
            if any(path.startswith(STAGING_PREFIX) for path in listing.directories):
                finish_claimed(services.store(location), location, hold.exclusive)
                listing = list_location(services.fs(location), location, missing=ConflictError)
            if cleaning.must_exist and not listing.files and not listing.top_directories():
                raise _may_be_missing(place, "it is empty")
            listed = ListedRequest(request=request, place=place, listing=listing)
            plan = self._plan(listed)
            reach(Point.CLEANING_PLANNED)
            removal: Removal = (), ()
            if plan.remove:
                cleaning.require_unmoved(request, place)
                cleaning.require_alone(request, place)
                removal = remove_named(
                    services,
                    hold.claim,
                    plan.remove,
                    trash=self._options.trash,
                    limiter=self._limiter,
                    known=frozenset(listing.files),
                )
                reach(Point.REMOVED_ALL)
            removed, problems = removal
            self.result = replace(self.result, removed=removed, waiting=_waiting(plan))
            if any(map(may_be_litter, (*listing.directories, *(file.path for file in listing.files)))):
                litter, of_litter = remove_litter(services, hold.claim, self._limiter)
                problems += of_litter
                self.result = replace(self.result, removed=removed + litter)
            reach(Point.LITTER_REMOVED)
            if problems:
                raise RetryError("; ".join(map(str, problems)))
            listing = list_location(services.fs(location), location, missing=ConflictError)
            left = remaining_obsolete(listing, listed.mark, place.write_ids(listing), names=place.names(listing))
        if left:
            waiting = next(iter(plan.blocked.values()), f"{left[0]} is still there")
            return replace(self.result, reason=f"{len(left)} obsolete left: {waiting}")
        if not plan.remove:
            cleaning.require_unmoved(request, place)
        self.cleaned = replace(listed, listing=listing)
        reason = "nothing obsolete is left"
        if plan.kept:
            kept = plural(len(plan.kept), "covered directory stays for its", "covered directories stay for their")
            reason = f"nothing is left that the cleaner may remove; {kept} owner to remove"
        return replace(self.result, state=Outcome.SUCCEEDED, reason=reason)

    def _missing(self, place: Place | None) -> AcidError:
        """Return the error for a place at which nothing lies."""
        if place is None:
            return NothingToCleanError("the table or partition does not exist any more")
        if self._cleaning.must_exist:
            return _may_be_missing(place, "it is not there")
        if not self._services.fs(place.location).exists(str(place.location.parent)):
            return _may_be_missing(place, "neither it nor the directory above it is there")
        return NothingToCleanError("the location does not exist any more")

    def _plan(self, listed: ListedRequest) -> CleanPlan:
        """Plan; NotOursError, with which a request waits, while a quarantine keeps the inputs of a result."""
        requests = self._cleaning.requests_at(listed.place)
        quarantining = quarantining_request(requests, listed.listing.top_directories())
        if quarantining is not None and shows_unverified(quarantining):
            raise NotOursError(f"Cannot clean {listed.place.ref}: {quarantine_reason(quarantining)}")
        return self._cleaning.plan(listed, requests)

    def _would_clean(
        self, request: CompactionRequest, place: Place, not_ready: str | None, trash: str | None
    ) -> CleaningResult:
        """Return the result of a dry run: the paths that would be removed now, or moved to a `trash`, or that wait."""
        services, location = self._services, place.location
        planned = replace(self.result, state=Outcome.PLANNED)
        if services.store(location).unfinished(location):
            return replace(planned, reason="a publication there is unfinished; the run finishes it first")
        listing = list_location(services.fs(location), location, missing=ConflictError)
        plan = self._plan(ListedRequest(request=request, place=place, listing=listing))
        if not_ready is not None:
            later = tuple(Waiting(path, not_ready) for path in plan.remove)
            return replace(planned, reason=not_ready, waiting=later + _waiting(plan))
        removed, problems = would_remove(services, location, plan.remove, listing)
        verb = "to remove" if trash is None else f"to move to {trash}"
        reason = f"{len(removed)} {verb}, {len(problems) + len(plan.blocked)} wait"
        removed += tuple(litter_of(services, location).values())
        return replace(planned, reason=reason, removed=removed, waiting=problems + _waiting(plan))


def _nothing_yet(request: CompactionRequest) -> CleaningResult:
    location = str(request.facts.location or "")
    return CleaningResult(id=request.id, **request.ref._asdict(), location=location, state=Outcome.FAILED, reason="")


def _may_be_missing(place: Place, fact: str) -> RetryError:
    is_mounted = place.location.kind.may_be_absent
    may_be = "a mount may be missing" if is_mounted else "the configuration may lead to another store than before"
    return RetryError(f"Cannot clean {place.location}: {fact}; {may_be}")


def _waiting(plan: CleanPlan) -> tuple[Waiting, ...]:
    return tuple(Waiting(path, reason) for path, reason in (*plan.blocked.items(), *plan.kept.items()))


def _clean_leftovers(
    cleaning: Cleaning, request: CompactionRequest, location: Location, limiter: DeleteRateLimiter
) -> CleaningResult | None:
    """Finish or remove what dead runs left where no request awaits cleaning; None where they left nothing."""
    services = cleaning.services
    result = replace(_nothing_yet(request), id=None, location=str(location), state=Outcome.SUCCEEDED)
    try:
        fs, store = services.fs(location), services.store(location)
        if not fs.is_directory(str(location)):
            return None
        names = [entry.name for entry in fs.list_directory(str(location), missing=ConflictError)]
        if CLAIM not in names and not any(map(may_be_litter, names)):
            return None
        unfinished, litter = store.unfinished(location), litter_of(services, location)
        if not unfinished and not litter:
            return None
        reason = f"{len(unfinished)} unfinished publications of dead runs" if unfinished else "litter of dead runs"
        result = replace(result, reason=reason)
        if cleaning.options.dry_run:
            return replace(result, state=Outcome.PLANNED, removed=tuple(litter.values()))
        with held(cleaning.hold(request, Place(ref=request.ref, location=location))) as hold:
            finish_claimed(store, location, hold.exclusive)
            return result_of_removal(result, remove_litter(services, hold.claim, limiter))
    except BusyError:
        return None  # it may belong to the run that is at work there
    except Exception as error:
        return ended_by(known_error(error, f"clean {request.ref}"), result)
