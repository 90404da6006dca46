"""The compaction jobs: what is named on the command line, or what waits in the queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import takewhile

from acidlib.engine.backend import Backend, Taken, Waiting
from acidlib.engine.selection import (
    PORTION,
    Budget,
    Doubts,
    ListingOutcome,
    Order,
    PassedOver,
    Selection,
    Spending,
    Unlisted,
    look_at,
)
from acidlib.engine.services import Services
from acidlib.engine.so_far import Job
from acidlib.engine.target import ListedPlace, Target
from acidlib.engine.turns import Asked, Turn, Turns
from acidlib.engine.worker import RunProgress, Worker
from acidlib.errors import AcidError, ConflictError, MissingError, RefusedError, RetryError
from acidlib.model.location import NOWHERE, Location
from acidlib.model.requests import CompactionRequest, CompactionType
from acidlib.model.units import RewriteSettings
from acidlib.report.results import CompactionResult, Outcome

Entity = tuple[str, str, str | None]
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
        nowhere = Target(database="", table="", partition=None, location=NOWHERE)
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
    met: set[Entity] = set()
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
            met.add(taken.request.entity)
            yield _job(taken.request.type, taken.target, taken, taken.request)
        if run.dry_run:
            return


def _not_met(waiting: Sequence[Waiting], met: set[Entity]) -> list[Waiting]:
    return list(takewhile(lambda one: one.request.entity not in met, waiting))


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
    return target.database, target.table, target.partition, target.location


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
        database=target.database,
        table=target.table,
        location=str(target.location),
        partition=target.partition,
        type=kind.label.lower(),
        state=state,
        reason=reason,
    )
