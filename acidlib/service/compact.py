"""A compaction run: what is named or waits in the queue, in which order, and how many places at a time."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Protocol

from acidlib.errors import AcidError, ConflictError, MissingError, RefusedError, RetryError
from acidlib.model.location import NOWHERE, Location
from acidlib.model.requests import CompactionRequest, CompactionType
from acidlib.model.tables import TableRef
from acidlib.model.units import RewriteSettings
from acidlib.report.progress import ERROR, INFO, WARNING
from acidlib.report.results import CompactionResult, Outcome
from acidlib.service.attempts import Attempts
from acidlib.service.backend import Backend, Taken, Waiting
from acidlib.service.compact_place import Job, PlaceCompactor, Steps
from acidlib.service.places import (
    PORTION,
    Budget,
    Doubts,
    ListedPlace,
    ListingOutcome,
    Order,
    PassedOver,
    Selection,
    Spending,
    Target,
    Unlisted,
    look_at,
    look_in_portions,
    ordered,
    urgency,
)
from acidlib.service.schedule import Flow
from acidlib.service.services import Progress, Services
from acidlib.wording import human_bytes, plural

# --- turns ------------------------------------------------------------------------------------------------------------
# In which order the places of a run are begun, and how many of them: no more is listed and kept than that takes.

LISTINGS_KEPT = 4096
"""Listings that are kept; of more places they are made twice where an order needs figures of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A place when it is its turn.

    done   why there is nothing to merge, where there is not: it costs no budget and goes first
    tried  the request that was not carried out before for what the place still is: it goes last, the oldest first
    """

    looked: ListingOutcome
    done: str | None = None
    tried: CompactionRequest | None = None

    @property
    def key(self) -> tuple[bool, bool, int]:
        """Orders the turns of places that are listed together."""
        later = self.tried is not None or isinstance(self.looked, Unlisted) or self.looked.is_claimed
        return self.done is None, later, 0 if self.tried is None else self.tried.id


class Asked(Protocol):
    """What a run is asked for: places by name, or requests of a queue."""

    def noted(self, target: Target) -> int | None:
        """A figure of a place that the order goes by, the largest first; None where nobody has noted one."""

    def is_automatic(self, target: Target) -> bool:
        """Whether an initiator asked for a place, not a person."""

    def settles(self, turn: Turn) -> bool:
        """Whether it is over with a turn now: then it costs no budget."""

    def pass_over(self, one: PassedOver) -> None:
        """A place is left alone."""


class Turns:
    """The places of a run in their order: repeated, it gets further each time whatever its budget.

    What always fails comes last. Where it is known what comes first, or the order goes by names, places are listed in
    portions while others are compacted, and not at all once the budget is spent.

    idle_seconds  a place that has changed within them is passed over
    doubts        look at what is listed
    """

    def __init__(
        self,
        services: Services,
        attempts: Attempts,
        targets: Sequence[Target],
        asked: Asked,
        spending: Spending,
        *,
        kind: CompactionType,
        order: Order,
        idle_seconds: float | None,
        doubts: Doubts,
    ) -> None:
        self._services = services
        self._doubts = doubts
        self._attempts = attempts
        self._targets = targets
        self._asked = asked
        self._spending = spending
        self._kind = kind
        self._order = order
        self._idle_seconds = idle_seconds
        self._places = self._fresh = self._tried = 0

    def within_the_budget(self, begin: Callable[[], None]) -> Iterator[Turn]:
        """As many turns as it lets start; `begin` is called before the first, when the listing of all is over.

        Those with nothing to merge cost none of it.
        """
        return takewhile(
            lambda turn: self._spending.lets_start(turn.looked.bytes, is_free=turn.done is not None),
            self._all(begin),
        )

    def left(self) -> list[str]:
        """Return a note when, of many places, none was left that had not been done or tried before."""
        self._doubts.end()
        if self._places < 2 or self._fresh:
            return []
        tried = f" but {self._tried} that could not be done before, and have not changed since" if self._tried else ""
        return [f"nothing is left to do of {self._places:,} places{tried}"]

    def _all(self, begin: Callable[[], None]) -> Iterator[Turn]:
        last: list[Turn] = []
        for number, looked in enumerate(self._portions()):
            if number == 0:
                begin()
            for turn in self._in_turn(looked):
                if self._asked.settles(turn):
                    continue
                if turn.tried is not None:
                    last.append(turn)
                else:
                    yield turn
        yield from sorted(last, key=lambda turn: turn.key)

    def _portions(self) -> Iterator[list[ListingOutcome]]:
        """What is listed together, the most urgent first."""
        targets = self._targets
        figures = [0 if self._order is Order.NAME else self._asked.noted(target) for target in targets]
        known = [figure for figure in figures if figure is not None]
        if len(known) < len(targets):
            if len(targets) <= LISTINGS_KEPT:
                looked = []
                for found, passed_over in look_in_portions(self._services, targets, self._idle_seconds):
                    self._doubts.look(found)
                    looked += found
                    self._pass_over(passed_over)
                yield looked
                return
            ranked = self._by_first_look()
        else:
            ranked = sorted(zip(known, targets, strict=True), key=lambda one: (-one[0], str(one[1].ref)))
        for start in range(0, len(ranked), PORTION):
            if start and not self._spending.lets_look_on():
                return
            some = [target for _, target in ranked[start : start + PORTION]]
            found, passed_over = look_at(self._services, some, self._idle_seconds)
            self._doubts.look(found)
            self._pass_over(passed_over)
            yield found

    def _by_first_look(self) -> list[tuple[float, Target]]:
        """The places in their order, of which a look that is not kept tells the figures."""
        figures: list[tuple[float, Target]] = []
        plain = {(str(target.ref), target.location): target for target in self._targets}
        for found, passed_over in look_in_portions(self._services, self._targets, self._idle_seconds):
            self._doubts.look(found)
            figures += [(urgency(self._order, one), plain[str(one.target.ref), one.target.location]) for one in found]
            self._pass_over(passed_over)
        return sorted(figures, key=lambda one: (-one[0], str(one[1].ref)))

    def _in_turn(self, looked: Sequence[ListingOutcome]) -> list[Turn]:
        found = [self._turn(one) for one in ordered(looked, self._order)]
        return sorted(found, key=lambda turn: turn.key)

    def _turn(self, one: ListingOutcome) -> Turn:
        done = tried = None
        if isinstance(one, ListedPlace):
            done = one.nothing_to_merge(self._kind, automatic=self._asked.is_automatic(one.target))
            tried = None if done else self._attempts.last(one, self._kind)
            self._places += 1
            self._tried += tried is not None
            self._fresh += done is None and tried is None
        return Turn(looked=one, done=done, tried=tried)

    def _pass_over(self, some: Sequence[PassedOver]) -> None:
        for one in some:
            self._asked.pass_over(one)


# --- worker -----------------------------------------------------------------------------------------------------------
# The worker: carries compactions out, many at a time, and shows how far it is.
#
# One partition's failure never stops the others.

IN_FLIGHT = "acidlib.places.in.flight"
LATELY = 2.0
"""Seconds."""
_FEWEST, _FOR_EACH_SLOT, _MANY, _AT_LEAST = 32, 4, 1000, 2


@dataclass(frozen=True, slots=True)
class _Compaction:
    """A job, as a piece of the flow."""

    job: Job
    compactor: PlaceCompactor

    @property
    def name(self) -> str:
        return str(self.job.target.ref)

    def steps(self) -> Steps:
        return self.compactor.steps(self.job)

    def give_back(self) -> None:
        self.compactor.give_back(self.job)


class Worker:
    """Carries out compactions with the services of one run."""

    def __init__(
        self, services: Services, backend: Backend, *, settings: RewriteSettings, release_held: bool = False
    ) -> None:
        given = services.settings.integer(IN_FLIGHT)
        self._compactor = PlaceCompactor(services, backend, settings, release_held=release_held)
        self._ended_lately = EndedLately(services.clock)
        self._flow: Flow[CompactionResult] = Flow(
            services.runner,
            limit=lambda slots: given or places_in_flight(slots, ended_lately=self._ended_lately.count()),
            name=lambda places: f"{services.host}-compactor-{places}",
            started=self._compactor.tasks_can_run,
        )

    @property
    def in_flight(self) -> int:
        """How many places are under way."""
        return self._flow.in_flight

    @property
    def given_back(self) -> int:
        """How many places the run has given back, when it was given up."""
        return self._flow.given_back

    def late_results(self) -> Iterator[CompactionResult]:
        """What has ended while the run was given up."""
        return self._flow.late_results()

    def compact(
        self, jobs: Iterable[Job], *, while_waiting: Callable[[], None] = lambda: None
    ) -> Generator[CompactionResult, None, None]:
        """Yield the results, as they come. `jobs` is drawn from as places end, so a budget can stop it.

        Closed before its end, or ended by an error, it gives back what is under way.

        while_waiting  is called now and then while nothing ends
        """
        pieces = (_Compaction(job, self._compactor) for job in jobs)
        with closing(self._flow.run(pieces, while_waiting=while_waiting)) as results:
            for result in results:
                self._ended_lately.add()
                yield result


def places_in_flight(slots: int, *, ended_lately: int = 0) -> int:
    """How many places are under way at a time: enough to keep executors busy with small ones, as few as can be held.

    Many cores have one that runs and one that waits for each: most places are one task. Where places end quickly there
    are more, so that driver and executors have something to do while others are with the other; a place that takes long
    is not held for long before its turn.

    slots         tasks that run at the same time; 0 where the driver runs them itself
    ended_lately  places that have ended within the last `LATELY` seconds
    """
    if not slots:
        return 1
    return _FEWEST + max(min(_MANY, _FOR_EACH_SLOT * slots), _AT_LEAST * slots) + ended_lately


class EndedLately:
    """Places that have ended within the last `LATELY` seconds, by a clock in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ends: deque[float] = deque()

    def add(self) -> None:
        """One more has."""
        self._ends.append(self._clock())

    def count(self) -> int:
        """How many have."""
        now = self._clock()
        while self._ends and not 0 <= now - self._ends[0] <= LATELY:  # the clock may be set back
            self._ends.popleft()
        return len(self._ends)


def _level(result: CompactionResult) -> str:
    """Return how much a result asks for the operator's eye; that a place is compact already is no trouble."""
    if result.state is Outcome.FAILED or result.unverified:
        return ERROR
    return WARNING if result.state in (Outcome.REFUSED, Outcome.CONFLICT) else INFO


class RunProgress:
    """Shows the figures of a run as its results come.

    in_flight  how many places are under way
    """

    def __init__(self, progress: Progress, in_flight: Callable[[], int]) -> None:
        self._progress = progress
        self._in_flight = in_flight
        self._ended: Counter[Outcome] = Counter()
        self._places = self._bytes = 0

    def begin(self, what: str, places: int) -> None:
        """So many places are to be done, as far as that is known now."""
        self._places = places
        self._progress.start(f"{what} {plural(places, 'place')}", places)

    def add(self, result: CompactionResult) -> None:
        """One more result."""
        self._ended[result.state] += 1
        self._bytes += (result.total("bytes_copied") or 0) + (result.total("bytes_rewritten") or 0)
        self._progress.note(f"{result.state.value}, {result.reason}", level=_level(result), place=str(result.ref))
        self.show()

    def show(self) -> None:
        """Show the figures as they are now."""
        bad = self._ended[Outcome.FAILED] + self._ended[Outcome.CONFLICT]
        parts = [f"{self._in_flight():,} in flight", f"{bad:,} failed" if bad else ""]
        parts.append(human_bytes(self._bytes) if self._bytes else "")
        self._progress.advance(self._ended.total(), detail=", ".join(part for part in parts if part))

    def when_stopped(self, given_back: int) -> str:
        """Return what has become of how many places of a run that was stopped."""
        not_begun = max(0, self._places - self._ended.total() - given_back)
        counts = [(state.value, count) for state, count in self._ended.items()]
        counts += [("given back", given_back), ("not begun", not_begun)]
        told = [f"{count:,} {what}" for what, count in counts if count]
        return (
            f"of {plural(sum(count for _, count in counts), 'place')} {', '.join(told)}"
            if told
            else "no place was begun"
        )


# --- compaction -------------------------------------------------------------------------------------------------------
# The compaction jobs: what is named on the command line, or what waits in the queue.

_Place = tuple[str, str, str | None, Location]
Tell = Callable[[CompactionResult], None]
Begin = Callable[[int], None]
"""Shows how far the run is from now on; without a budget, so many places are to be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRun:
    """What one run of minor_compact or major_compact is asked to do.

    release_held  go on where a verification failed: what is there counts
    buckets       into how many what is named is rebalanced, where that is stated
    """

    kind: CompactionType
    selection: Selection
    order: Order = Order.DELTAS
    budget: Budget = field(default_factory=Budget)
    dry_run: bool = False
    rewrite: RewriteSettings = field(default_factory=RewriteSettings)
    release_held: bool = False
    buckets: int | None = None

    @property
    def named(self) -> bool:
        """Whether a table or location is named; else the queue is drained."""
        return self.selection.location is not None or bool(self.selection.tables)


def run_compaction(services: Services, backend: Backend, run: CompactionRun, tell: Tell) -> list[str]:
    """Carry a run out, and return notes about what was left or passed over.

    tell  gets each result as it comes

    An interrupt is raised again once all is given back, and says what has become of how many places.
    """
    worker = Worker(services, backend, settings=run.rewrite, release_held=run.release_held)
    spending = Spending(run.budget, services.clock)
    progress = RunProgress(services.progress, lambda: worker.in_flight)
    notes: list[str] = []
    ended_here = 0

    def begin(places: int) -> None:
        if places:
            most = places if run.budget.partitions is None else min(places, run.budget.partitions)
            progress.begin("planning" if run.dry_run else "compacting", most)

    def show_and_record(result: CompactionResult) -> None:
        progress.add(result)
        tell(result)

    if not run.dry_run:
        notes += backend.recover()
    if run.named:
        jobs = _named_jobs(services, backend, run, spending, show_and_record, notes, begin)
    elif backend.in_order:
        notes += backend.cautions()
        jobs = _jobs_in_order(services, backend, run, spending, show_and_record, begin)
    else:
        jobs = _chosen_jobs(services, backend, run, spending, show_and_record, begin)
    try:
        with closing(worker.compact(jobs, while_waiting=progress.show)) as results:
            for result in results:
                ended_here += 1
                show_and_record(result)
    except (AcidError, KeyboardInterrupt) as stop:
        # what was done is reported all the same
        for result in worker.late_results():
            ended_here += 1
            show_and_record(result)
        what_became = progress.when_stopped(worker.given_back)
        if isinstance(stop, KeyboardInterrupt):
            raise KeyboardInterrupt(what_became) from None
        if not ended_here:
            if worker.given_back:
                raise type(stop)(f"{stop}; {what_became}") from stop
            raise
        nowhere = Target(ref=TableRef("", ""), location=NOWHERE)
        tell(ended(nowhere, run.kind, RetryError(f"Cannot go on: {stop}; {what_became}")))
    finally:
        services.progress.finish()
    if spending.stopped is not None:
        notes.append(f"stopped: {spending.stopped}; the rest stays as it is")
    if not run.dry_run:
        backend.purge_history()
    return notes


def _turns(
    services: Services,
    backend: Backend,
    run: CompactionRun,
    targets: Sequence[Target],
    asked: Asked,
    spending: Spending,
    doubts: Doubts,
) -> Turns:
    return Turns(
        services,
        backend.attempts(targets),
        targets,
        asked,
        spending,
        kind=run.kind,
        order=run.order,
        idle_seconds=run.selection.idle_seconds,
        doubts=doubts,
    )


@dataclass(frozen=True, slots=True)
class _Named:
    """Places that are named on the command line."""

    run: CompactionRun
    tell: Tell

    def noted(self, target: Target) -> None:
        """Nobody has looked at them."""
        del target

    def is_automatic(self, target: Target) -> bool:
        """A person asks."""
        del target
        return False

    def settles(self, turn: Turn) -> bool:
        """What cannot be listed, and what holds nothing for a cleaner either."""
        place = turn.looked
        if isinstance(place, Unlisted):
            self.tell(ended(place.target, self.run.kind, place.error))
        elif turn.done is not None and place.leaves_nothing:
            self.tell(_ended_as(Outcome.ALREADY_COMPACT, place.target, self.run.kind, turn.done))
        else:
            return False
        return True

    def pass_over(self, one: PassedOver) -> None:
        """Somebody named it."""
        self.tell(skipped(one, self.run.kind))


def _named_jobs(
    services: Services,
    backend: Backend,
    run: CompactionRun,
    spending: Spending,
    tell: Tell,
    notes: list[str],
    begin: Begin,
) -> Iterator[Job]:
    if run.kind is CompactionType.REBALANCE and not backend.can_rebalance:
        raise RefusedError(
            "Cannot rebalance: only a metastore of Hive 4 locks out who changes rows meanwhile; name one by "
            "--metastore-uri"
        )
    selected = backend.select(run.selection, automatic=False)
    notes += selected.notes
    doubts = Doubts(services, run.selection, selected.targets)
    if not run.dry_run:
        doubts.require_vouched()
    named = _Named(run, tell)
    for one in selected.passed_over:
        named.pass_over(one)
    turns = _turns(services, backend, run, selected.targets, named, spending, doubts)
    for turn in turns.within_the_budget(lambda: begin(len(selected.targets))):
        place = turn.looked
        if isinstance(place, Unlisted):
            continue  # settled
        if run.dry_run:
            yield Job(
                target=place.target,
                kind=run.kind,
                taken=None,
                named=True,
                listed=place,
                wanted_buckets=run.buckets,
            )
            continue
        try:
            taken = backend.submit(place, run.kind, buckets=run.buckets)
        except AcidError as error:
            if turn.done is None:
                spending.unspent(place.bytes)
            elif isinstance(error, RefusedError):
                # Hive 4 takes no second request for what it was compacted for, until that is cleaned
                tell(_ended_as(Outcome.ALREADY_COMPACT, place.target, run.kind, turn.done))
                continue
            tell(ended(place.target, run.kind, error))
        else:
            yield Job(target=taken.target, kind=run.kind, taken=taken, named=True, listed=place)
    notes += turns.left()


@dataclass(frozen=True, slots=True)
class _Queued:
    """Requests that wait in a queue, by their places."""

    run: CompactionRun
    tell: Tell
    waiting: Mapping[_Place, Waiting]

    def at(self, target: Target) -> Waiting:
        """The request for a place."""
        return self.waiting[_place(target)]

    def noted(self, target: Target) -> int | None:
        """What the initiator noted of it."""
        facts = self.at(target).request.facts
        return {Order.DELTAS: facts.deltas, Order.BYTES: facts.bytes}.get(self.run.order)

    def is_automatic(self, target: Target) -> bool:
        """An initiator gives a reason."""
        return self.at(target).request.facts.reason is not None

    def settles(self, turn: Turn) -> bool:
        """Every request is ended by a worker."""
        del turn
        return False

    def pass_over(self, one: PassedOver) -> None:
        """It stays in the queue."""
        self.tell(skipped(one, self.run.kind))


def _chosen_jobs(
    services: Services, backend: Backend, run: CompactionRun, spending: Spending, tell: Tell, begin: Begin
) -> Iterator[Job]:
    """What waits in the queue, in the order that was asked for. Not all of it is listed before the first is begun."""
    found = _understood(backend, backend.waiting(run.kind), run, tell)
    nothing_stated = Doubts(services, run.selection, ())
    queued = _Queued(run, tell, {_place(one.target): one for one in found})
    turns = _turns(services, backend, run, [one.target for one in found], queued, spending, nothing_stated)
    for turn in turns.within_the_budget(lambda: begin(len(found))):
        waiting = queued.at(turn.looked.target)
        listed = turn.looked if isinstance(turn.looked, ListedPlace) else None
        if run.dry_run:
            yield replace(_job(run.kind, waiting.target, None, waiting.request), listed=listed)
        elif (taken := backend.take(waiting)) is not None:
            yield replace(_job(run.kind, taken.target, taken, taken.request), listed=listed)


def _jobs_in_order(
    services: Services, backend: Backend, run: CompactionRun, spending: Spending, tell: Tell, begin: Begin
) -> Iterator[Job]:
    """What waits in a queue that hands requests out by their order, of whatever kind, until none of ours waits.

    A request that was given back in this run stands at the end again: whoever meets it has seen the whole queue.
    """
    met: set[TableRef] = set()
    while fresh := _not_met(backend.waiting(run.kind), met):
        found = _understood(backend, fresh, run, tell) if run.dry_run else fresh
        begin(len(met) + len(found))
        for one, looked in zip(found, _measured(services, found, run), strict=True):
            done = None
            if isinstance(looked, ListedPlace):
                done = looked.nothing_to_merge(one.request.type, automatic=one.request.facts.reason is not None)
            if not spending.lets_start(0 if looked is None else looked.bytes, is_free=done is not None):
                return
            if run.dry_run:
                yield _job(one.request.type, one.target, None, one.request)
                continue
            taken = backend.take(one)
            if taken is None:
                return
            met.add(taken.request.ref)
            yield _job(taken.request.type, taken.target, taken, taken.request)
        if run.dry_run:
            return


def _not_met(waiting: Sequence[Waiting], met: set[TableRef]) -> list[Waiting]:
    return list(takewhile(lambda one: one.request.ref not in met, waiting))


def _measured(services: Services, found: Sequence[Waiting], run: CompactionRun) -> Iterator[ListingOutcome | None]:
    """List the places of requests, some at a time; None without a listing, which costs time and only a budget needs."""
    if run.budget.bytes is None and run.budget.partitions is None:
        yield from [None] * len(found)
        return
    for start in range(0, len(found), PORTION):
        some = found[start : start + PORTION]
        looked, _ = look_at(services, [one.target for one in some if one.error is None], None)
        by_place = {_place(one.target): one for one in looked}
        yield from (by_place.get(_place(one.target)) for one in some)


def _understood(backend: Backend, waiting: Sequence[Waiting], run: CompactionRun, tell: Tell) -> list[Waiting]:
    found = []
    for one in waiting:
        if one.error is None:
            found.append(one)
            continue
        tell(ended(one.target, one.request.type, one.error))
        if not run.dry_run:
            backend.refuse(one, str(one.error))
    return found


def _job(kind: CompactionType, target: Target, taken: Taken | None, request: CompactionRequest) -> Job:
    return Job(target=target, kind=kind, taken=taken, named=False, why=request.facts.reason)


def _place(target: Target) -> _Place:
    return target.ref.database, target.ref.table, target.ref.partition, target.location


def skipped(place: PassedOver, kind: CompactionType) -> CompactionResult:
    """The result for a place that was named and is passed over."""
    return _ended_as(Outcome.SKIPPED, place.target, kind, place.reason)


def ended(target: Target, kind: CompactionType, error: AcidError) -> CompactionResult:
    """The result of a compaction that did not begin."""
    state = Outcome.FAILED
    if isinstance(error, ConflictError):
        state = Outcome.CONFLICT
    elif isinstance(error, RefusedError) and not isinstance(error, MissingError):  # somebody said that it is there
        state = Outcome.REFUSED
    return _ended_as(state, target, kind, str(error))


def _ended_as(state: Outcome, target: Target, kind: CompactionType, reason: str) -> CompactionResult:
    return CompactionResult(
        id=None,
        ref=target.ref,
        location=str(target.location),
        type=kind.label.lower(),
        state=state,
        reason=reason,
    )
