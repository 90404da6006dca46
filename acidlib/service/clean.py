"""The cleaner: removes what compactions made obsolete once no reader can need it, and lists orphans."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from acidlib.admission import THREADS
from acidlib.errors import AcidError, BusyError, ConflictError, RefusedError, RetryError
from acidlib.model.listing import Listing
from acidlib.model.location import LOCAL, Location
from acidlib.model.requests import CompactionRequest
from acidlib.model.tables import TableRef
from acidlib.planning.clean import CleanPlan, remaining_obsolete
from acidlib.planning.results import quarantine_reason, quarantining_request, shows_unverified
from acidlib.points import Point, reach
from acidlib.report.results import CleaningResult, Outcome, RemovedPath
from acidlib.service.backend import Backend, Hold, finish_claimed
from acidlib.service.places import Target
from acidlib.service.removals import (
    NotOursError,
    Pace,
    ended_by,
    found_unclaimed,
    litter_of,
    remove_litter,
    remove_named,
    would_go,
)
from acidlib.service.rolled_back import RolledBack
from acidlib.service.selection import CleanerOptions, Selection
from acidlib.service.services import Services, as_done, value_or_raise
from acidlib.stores.listing import list_location
from acidlib.stores.removing import find_orphans, may_be_litter
from acidlib.stores.store import CLAIM, STAGING_PREFIX, original_staging_name
from acidlib.wording import age_words, plural

Found = TypeVar("Found")
Place = TypeVar("Place")
Result = TypeVar("Result")

_LOOKS_TOGETHER = 16
_FILES_TOGETHER = 4096
DEFAULT_ORPHAN_SECONDS = 3 * 86_400.0


class ReplacedError(RefusedError):
    """A request whose result is not at its place any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRequest:
    """A request, its place, which is claimed (but for a dry run), and what was listed there since."""

    request: CompactionRequest
    target: Target
    listing: Listing

    @property
    def mark(self) -> int:
        """The high-water mark that the request recorded; raises RefusedError without one."""
        mark = self.request.highest_write_id
        if mark is None:
            number = self.request.id
            raise RefusedError(f"Cannot clean {self.request.ref}: request {number} has no high-water mark")
        return mark


class Cleaning(ABC):
    """What one run of the cleaner works on: requests, the proof that no reader needs anything, and where requests end.

    must_exist  a metastore says that each place exists: one that is missing or empty is an error
    together    places that a thread has claimed at a time, so that the queue is asked once about all of them
    further     the cleaning after rolled back transactions, of which no request says so
    notes       about what is named and does not exist
    """

    must_exist = True
    together = 1
    further: RolledBack | None = None
    notes: Sequence[str] = ()

    def __init__(self, services: Services, options: CleanerOptions) -> None:
        self.services = services
        self.options = options

    @abstractmethod
    def recover(self) -> list[str]:
        """Finish and give back what dead runs left; return a note about each kind."""

    @abstractmethod
    def ready(self) -> list[CompactionRequest]:
        """Return the requests that are ready and selected, no later result of a place before an earlier one."""

    @abstractmethod
    def not_ready_reason(self, request: CompactionRequest) -> str | None:
        """Return why a request cannot be cleaned yet, or not by us, as far as that is known without a look there."""

    @abstractmethod
    def place(self, request: CompactionRequest, *, anew: bool = False) -> tuple[CompactionRequest, Target | None]:
        """Return the request as the queue has it now, for its table may have been renamed, and its place, understood as
        the cleaning has to; None when the table or partition does not exist any more.

        anew  it was not found where it was said to be
        NotOursError where it is left to Hive's own cleaner, ConflictError when another cleaner has ended the request.
        """

    @abstractmethod
    def hold(self, request: CompactionRequest, target: Target) -> Hold:
        """Return the hold of the place of a request, which is not begun yet."""

    def known(self, about: Sequence[ListedRequest]) -> list[Sequence[CompactionRequest] | AcidError]:
        """Return what the queue and its history know of each of these places, as far as `plan` needs it."""
        return [() for _ in about]

    @abstractmethod
    def plan(self, looked: ListedRequest, known: Sequence[CompactionRequest]) -> CleanPlan:
        """Return what may go now, and what has to wait. What a later run has to know of this look at the place is noted
        in the queue, except in a dry run.

        ReplacedError when what the request published is not there any more.
        """

    def require_unmoved(self, request: CompactionRequest, target: Target) -> None:
        """Raise ConflictError when the table is another one than was looked at, or lies elsewhere.

        This is asked right before something is removed or called cleaned.
        """
        del request, target  # without a metastore a directory is what it is

    def require_alone(self, request: CompactionRequest, target: Target) -> None:
        """Raise ConflictError where another compactor or cleaner is at work, which the claim does not keep out.

        This is asked right before something is removed.
        """
        del request, target  # all of this engine's runs go by the claim

    @abstractmethod
    def cleaned(self, done: Sequence[ListedRequest]) -> list[str | AcidError | None]:
        """End these requests, for nothing obsolete is left in their listings; or return why one has to stay."""

    @abstractmethod
    def end_dropped(self, request: CompactionRequest) -> None:
        """End a request whose place or result does not exist any more; what was aborted is not forgotten."""

    def note_failure(self, request: CompactionRequest, error: AcidError) -> None:
        """Have a failed cleaning tried again later, or give the request up, where that can be noted."""
        del request, error

    def known_places(self) -> list[CompactionRequest]:
        """Return a request for each place that is known, to look for what dead runs left there."""
        return []

    def why_nothing(self) -> list[str]:
        """Return notes about the location that the run is about, where no request of it awaits cleaning."""
        return []


def each_alone(work: Callable[[ListedRequest], Found], items: Sequence[ListedRequest]) -> list[Found | AcidError]:
    """Return what became of each, where several cannot be asked for together; an error becomes a value."""
    found: list[Found | AcidError] = []
    for item in items:
        try:
            found.append(work(item))
        except AcidError as error:
            found.append(error)
    return found


def run_cleaner(cleaning: Cleaning, tell: Callable[[CleaningResult], None]) -> None:
    """Clean every request that is ready for it; then after rolled back transactions, where that is due; then, wherever
    else a place is known, what dead runs left there.

    What is obsolete is computed for the recorded high-water mark, never for a newer guess; after the removal the place
    is listed again, and only with nothing left is the request cleaned. Many places are cleaned at a time, the requests
    of one place in their order; `tell` gets each result as it comes.
    """
    services, options, further = cleaning.services, cleaning.options, cleaning.further
    if not options.dry_run:
        for line in cleaning.recover():
            services.progress.note(line)
    pace = Pace(services)
    due = [] if further is None else further.due()

    def told(result: CleaningResult) -> None:
        # where no place is named, what another run has is that run's, and waits here for the next
        is_named = options.selection.location is not None or options.selection.tables
        tell(replace(result, state=Outcome.READY_FOR_CLEANING) if result.is_busy and not is_named else result)

    by_place: dict[object, list[CompactionRequest]] = {}
    for request in cleaning.ready():
        by_place.setdefault(request.facts.location or request.ref, []).append(request)
    names: dict[str, set[str]] = {}
    conflicts: list[tuple[CompactionRequest, CleaningResult]] = []

    def clean(places: Sequence[Sequence[CompactionRequest]]) -> list[list[tuple[CompactionRequest, CleaningResult]]]:
        found: list[list[tuple[CompactionRequest, CleaningResult]]] = [[] for _ in places]
        for turn in range(max(map(len, places))):
            some = [(place, requests[turn]) for place, requests in enumerate(places) if turn < len(requests)]
            results = _clean_together(cleaning, [request for _, request in some], pace)
            for (place, request), result in zip(some, results, strict=True):
                found[place].append((request, result))
        return found

    for cleaned in _at_places(services, "cleaning", clean, list(by_place.values()), pace, together=cleaning.together):
        for request, result in cleaned:
            names.setdefault(result.location, set()).add(str(result.ref))
            if result.state == Outcome.CONFLICT and not result.removed:
                conflicts.append((request, result))
            else:
                told(result)
    for request, result in sorted(conflicts, key=lambda one: one[0].id):
        # another one of this run may have been in its way: two names, which only a metastore knows, may be of one place
        again = len(names[result.location]) > 1
        told(_clean_together(cleaning, [request], pace)[0] if again else result)
    if further is not None:
        what = "cleaning after rolled back transactions at"
        for results in _at_places(
            services, what, lambda tables: [[further.clean(one, pace) for one in table] for table in tables], due, pace
        ):
            for result in results:
                told(result)
    known: list[CompactionRequest] = []
    try:
        if further is not None:
            further.end_retries()
        known = cleaning.known_places()
    except AcidError as error:
        if not (names or due):
            raise
        # what was cleaned is reported all the same
        reason = f"Cannot go on: {error}; the next run does what is left"
        tell(CleaningResult(id=None, ref=TableRef("", ""), location="", state=Outcome.FAILED, reason=reason))
    others: dict[str, tuple[CompactionRequest, Location]] = {}
    for request in known:
        place = request.facts.location
        if place is not None and str(place) not in names:
            others.setdefault(str(place), (request, place))
    for left in _at_places(
        services,
        "looking for litter at",
        lambda places: [_remove_leftovers(cleaning, *known, pace=pace) for known in places],
        list(others.values()),
        pace,
        together=_LOOKS_TOGETHER,
    ):
        if left is not None:
            tell(left)


def _at_places(
    services: Services,
    what: str,
    work: Callable[[Sequence[Place]], Sequence[Result]],
    places: Sequence[Place],
    pace: Pace,
    *,
    together: int = 1,
) -> Iterator[Result]:
    """Yield what came of each place, as it comes; `work` is given so many at a time."""
    if not places:
        return
    services.progress.start(f"{what} {plural(len(places), 'place')}", len(places))
    size = min(together, -(-len(places) // THREADS))
    portions = [places[start : start + size] for start in range(0, len(places), size)]
    done = 0
    try:
        for _, portion in as_done(work, portions, on_interrupt=pace.stop):
            for result in value_or_raise(portion):
                done += 1
                services.progress.advance(done)
                yield result
    finally:
        services.progress.finish()


_Steps = Generator[ListedRequest, Any, CleaningResult]
"""The cleaning of one request; it stops where several can ask the queue together, and is sent the answer: what is
known of the place, then what came of the end of the request.
"""


def _clean_together(cleaning: Cleaning, requests: Sequence[CompactionRequest], pace: Pace) -> list[CleaningResult]:
    """Return the results of requests of several places, of each whatever goes wrong with it or with another.

    No further place is begun with while those that are under way have many files: their listings are kept.
    """
    jobs = [_RequestCleaning(cleaning, request, pace).steps() for request in requests]
    results: dict[int, CleaningResult] = {}
    asking: dict[int, ListedRequest] = {}

    def go_on(number: int, answer: Any) -> None:
        try:
            job = jobs[number]
            asking[number] = job.throw(answer) if isinstance(answer, AcidError) else job.send(answer)
        except StopIteration as end:
            results[number] = end.value

    with ExitStack() as stack:
        for job in jobs:
            stack.callback(job.close)
        for number in range(len(jobs)):
            go_on(number, None)
            listed = sum(len(about.listing.files) for about in asking.values())
            if listed < _FILES_TOGETHER and number + 1 < len(jobs):
                continue
            for ask in (cleaning.known, cleaning.cleaned):
                asked = dict(asking)
                asking.clear()
                if asked:
                    for waiting, answer in zip(asked, ask([*asked.values()]), strict=True):
                        go_on(waiting, answer)
    return [results[number] for number in range(len(jobs))]


class _RequestCleaning:
    """The cleaning of one request; `result` is what is known so far, also what went before something failed."""

    def __init__(self, cleaning: Cleaning, request: CompactionRequest, pace: Pace) -> None:
        self._services = cleaning.services
        self._cleaning = cleaning
        self._options = cleaning.options
        self._request = request
        self._pace = pace
        self._result = _nothing_yet(request)

    def steps(self) -> _Steps:
        """Return the result of the request, whatever goes wrong with it."""
        try:
            try:
                return (yield from self._clean())
            except ReplacedError as error:
                return self._dropped(str(error))
        except AcidError as error:
            result = ended_by(error, self._result)
            if result.state is Outcome.FAILED and not self._options.dry_run:
                try:
                    self._cleaning.note_failure(self._request, error)
                except AcidError as another:  # one that cannot be noted must not keep the others from being cleaned
                    return replace(result, reason=f"{error}; then: {another}")
            return result

    def _clean(self) -> _Steps:
        cleaning, services, dry_run = self._cleaning, self._services, self._options.dry_run
        not_ready = cleaning.not_ready_reason(self._request)
        if not dry_run and not_ready is not None:
            return replace(self._result, state=Outcome.READY_FOR_CLEANING, reason=not_ready)
        request, target = cleaning.place(self._request)
        is_there = self._is_there(request, target)
        if target is not None and not is_there:
            request, target = cleaning.place(request, anew=True)
            is_there = self._is_there(request, target)
        if target is None or not is_there:
            if not_ready is not None:
                return replace(_nothing_yet(request), state=Outcome.PLANNED, reason=not_ready)
            return self._gone(target)
        location, store, trash = target.location, services.store(target.location), None
        if self._options.trash:
            try:
                trash = store.trash_place(location)
            except RefusedError as error:  # nothing can be moved there: the request waits
                raise NotOursError(str(error)) from error
        if dry_run:
            return (yield from self._would_clean(request, target, not_ready, trash))
        self._pace.assert_not_stopped()
        with cleaning.hold(request, target) as held:
            reach(Point.CLEANING_CLAIMED)
            listing = list_location(services.fs(location), location, without_unfinished=True, missing=ConflictError)
            if any(path.startswith(STAGING_PREFIX) for path in listing.directories):
                finish_claimed(store, location, held.exclusive)
                listing = list_location(services.fs(location), location, missing=ConflictError)
            if cleaning.must_exist and not listing.files and not listing.top_directories():
                raise _missing(target, "it is empty")
            looked = ListedRequest(request=request, target=target, listing=listing)
            plan = yield from self._plan(looked)
            reach(Point.CLEANING_PLANNED)
            removed: tuple[RemovedPath, ...] = ()
            problems: tuple[str, ...] = ()
            if plan.remove:
                cleaning.require_unmoved(request, target)
                cleaning.require_alone(request, target)
                removed, problems = remove_named(
                    services,
                    held.claim,
                    plan.remove,
                    trash=trash is not None,
                    pace=self._pace,
                    known=frozenset(listing.files),
                )
                reach(Point.REMOVED_ALL)
            self._result = replace(self._result, removed=removed, blocked=_waiting(plan))
            if any(map(may_be_litter, (*listing.directories, *(file.path for file in listing.files)))):
                litter, unremoved = remove_litter(services, held.claim, self._pace)
                problems += unremoved
                self._result = replace(self._result, removed=removed + litter)
            reach(Point.LITTER_REMOVED)
            if problems:
                raise RetryError("; ".join(problems))
            listing = list_location(services.fs(location), location, missing=ConflictError)
            left = remaining_obsolete(
                listing, looked.mark, target.write_ids(listing), generation=target.generation(listing)
            )
        if left:
            waiting = next(iter(plan.blocked.values()), f"{left[0]} is still there")
            return replace(self._result, reason=f"{len(left)} obsolete left: {waiting}")
        if not plan.remove:
            cleaning.require_unmoved(request, target)
        stays = yield replace(looked, listing=listing)
        if stays is not None:
            return replace(self._result, reason=stays)
        reach(Point.CLEANED)
        reason = "nothing obsolete is left"
        if plan.kept:
            kept = plural(len(plan.kept), "covered directory stays for its", "covered directories stay for their")
            reason = f"nothing is left that the cleaner may remove; {kept} owner to remove"
        return replace(self._result, state=Outcome.SUCCEEDED, reason=reason)

    def _is_there(self, request: CompactionRequest, target: Target | None) -> bool:
        """Return whether there is anything at the place of a request, which its result tells from now on."""
        if target is None:
            return False
        location = target.location
        self._result = replace(_nothing_yet(request), location=str(location), state=Outcome.READY_FOR_CLEANING)
        return self._services.fs(location).exists(str(location))

    def _plan(self, looked: ListedRequest) -> Generator[ListedRequest, Any, CleanPlan]:
        """Plan; NotOursError, with which a request waits, while what a result was made of may be needed again."""
        known = yield looked
        held = quarantining_request(known, looked.listing.top_directories())
        if held is not None and shows_unverified(held):
            raise NotOursError(f"Cannot clean {looked.target.ref}: {quarantine_reason(held)}")
        return self._cleaning.plan(looked, known)

    def _would_clean(
        self, request: CompactionRequest, target: Target, not_ready: str | None, trash: str | None
    ) -> _Steps:
        """Return what a run would remove now, or move to a `trash`, or what it waits for."""
        services, location = self._services, target.location
        planned = replace(self._result, state=Outcome.PLANNED)
        if services.store(location).unfinished(location):
            return replace(planned, reason="a publication there is unfinished; the run finishes it first")
        listing = list_location(services.fs(location), location, missing=ConflictError)
        plan = yield from self._plan(ListedRequest(request=request, target=target, listing=listing))
        if not_ready is not None:
            later = tuple(f"{path}: {not_ready}" for path in plan.remove)
            return replace(planned, reason=not_ready, blocked=later + _waiting(plan))
        removed, stays = would_go(services, location, plan.remove, listing)
        what = "to remove" if trash is None else f"to move to {trash}"
        reason = f"{len(removed)} {what}, {len(stays) + len(plan.blocked)} wait"
        gone = (*removed, *litter_of(services, location).values())
        return replace(planned, reason=reason, removed=gone, blocked=stays + _waiting(plan))

    def _gone(self, target: Target | None) -> CleaningResult:
        if target is None:
            return self._dropped("the table or partition does not exist any more")
        if self._cleaning.must_exist:
            raise _missing(target, "it is not there")
        if not self._services.fs(target.location).exists(str(target.location.parent)):
            raise _missing(target, "neither it nor the directory above it is there")
        return self._dropped("the location does not exist any more")

    def _dropped(self, reason: str) -> CleaningResult:
        """End the request: there is nothing to clean, and will not be."""
        if not self._options.dry_run:
            self._cleaning.end_dropped(self._request)
        state = Outcome.PLANNED if self._options.dry_run else Outcome.SUCCEEDED
        return replace(_nothing_yet(self._request), state=state, reason=reason)


def _missing(target: Target, what: str) -> RetryError:
    is_local = target.location.kind == LOCAL
    may_be = "a mount may be missing" if is_local else "what is configured may lead to another store than it did"
    return RetryError(f"Cannot clean {target.location}: {what}; {may_be}")


def _waiting(plan: CleanPlan) -> tuple[str, ...]:
    return tuple(f"{path}: {reason}" for path, reason in (*plan.blocked.items(), *plan.kept.items()))


def _nothing_yet(request: CompactionRequest) -> CleaningResult:
    location = str(request.facts.location or "")
    return CleaningResult(id=request.id, ref=request.ref, location=location, state=Outcome.FAILED, reason="")


def _of_place(ref: TableRef, location: Location) -> CleaningResult:
    """Return the result of the cleaning of a place without a request, as far as nothing goes wrong."""
    return CleaningResult(id=None, ref=ref, location=str(location), state=Outcome.SUCCEEDED, reason="")


def _remove_leftovers(
    cleaning: Cleaning, request: CompactionRequest, place: Location, *, pace: Pace
) -> CleaningResult | None:
    """Finish or remove what dead runs left where no request awaits cleaning; None where there is nothing."""
    services, result = cleaning.services, _of_place(request.ref, place)
    try:
        fs, store = services.fs(place), services.store(place)
        if not fs.is_directory(str(place)):
            return None
        names = [entry.name for entry in fs.list_directory(str(place), missing=ConflictError)]
        if CLAIM not in names and not any(map(may_be_litter, names)):
            return None
        unfinished, litter = store.unfinished(place), litter_of(services, place)
        if not unfinished and not litter:
            return None
        reason = f"{len(unfinished)} unfinished publications of dead runs" if unfinished else "litter of dead runs"
        result = replace(result, reason=reason)
        if cleaning.options.dry_run:
            return replace(result, state=Outcome.PLANNED, removed=tuple(litter.values()))
        with cleaning.hold(request, Target(ref=request.ref, location=place)) as held:
            finish_claimed(store, place, held.exclusive)
            return _with_removed(result, *remove_litter(services, held.claim, pace))
    except BusyError:
        return None  # what lies there may be of the run that is at work
    except AcidError as error:
        return ended_by(error, result)


def _with_removed(
    result: CleaningResult, removed: tuple[RemovedPath, ...], problems: tuple[str, ...]
) -> CleaningResult:
    result = replace(result, removed=removed)
    return replace(result, state=Outcome.FAILED, reason="; ".join(problems)) if problems else result


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
    """Look at everything selected for what belongs to no table; return notes about what was passed over.

    idle_seconds  nothing in an orphan was modified for so long
    remove        remove them; else they are only listed
    trash         move them aside instead
    tell          gets a result for each place that has orphans
    """
    selected = backend.select(selection, automatic=False)
    targets = selected.targets
    if targets:
        services.progress.start(f"looking for orphans at {plural(len(targets), 'place')}", len(targets))

    def orphans_at(target: Target, own_token: str | None = None) -> dict[str, RemovedPath]:
        find = partial(find_orphans, idle_seconds=idle_seconds, txns=target.interpretation.txns)
        return {
            orphan.name: RemovedPath(
                path=original_staging_name(orphan.name),
                bytes=orphan.bytes,
                reason=f"{orphan.reason}; unchanged for {age_words(orphan.idle_seconds)}",
            )
            for orphan in found_unclaimed(services, target.location, find, own_token)
        }

    for number, (place, done) in enumerate(as_done(orphans_at, targets), start=1):
        services.progress.advance(number)
        target = targets[place]
        result = _of_place(target.ref, target.location)
        try:
            orphans = value_or_raise(done)
            if not orphans:
                continue
            if remove:
                with services.claim(target.location) as claim:
                    # once more: what was an orphan may have been taken up meanwhile
                    orphans = orphans_at(target, claim.token)
                    wanted = {name: orphan.reason for name, orphan in orphans.items()}
                    gone = remove_named(services, claim, wanted, trash=trash, pace=Pace(services))
                tell(_with_removed(replace(result, reason=plural(len(orphans), "orphan")), *gone))
                continue
            where = services.store(target.location).trash_place(target.location) if trash else None
            reason = plural(len(orphans), "orphan") + (f", to move to {where}" if where is not None else "")
            tell(replace(result, state=Outcome.PLANNED, reason=reason, removed=tuple(orphans.values())))
        except AcidError as error:
            tell(ended_by(error, result))
    services.progress.finish()
    return [*selected.notes, *(f"{one.target.ref}: {one.reason}" for one in selected.passed_over)]
