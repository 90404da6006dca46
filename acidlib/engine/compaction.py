"""The compaction jobs: what is named on the command line, or what waits in the queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Generic

from acidlib.engine.attempts import Attempts
from acidlib.engine.backend import Backend, Taken, Waiting
from acidlib.engine.compact_place import Job
from acidlib.engine.selection import (
    Budget,
    Looked,
    Order,
    PassedOver,
    Place,
    Selection,
    Spending,
    Unlisted,
    look_at,
    ordered,
)
from acidlib.engine.services import Services
from acidlib.engine.target import ListedPlace, Target
from acidlib.engine.worker import Worker
from acidlib.errors import AcidError, ConflictError, MissingError, RefusedError, RetryError
from acidlib.model.location import NOWHERE, Location
from acidlib.model.request_facts import RequestFacts
from acidlib.model.requests import CompactionRequest, CompactionType
from acidlib.model.units import RewriteSettings
from acidlib.planning.enough import refused_message
from acidlib.report.results import CompactionResult, Outcome

Entity = tuple[str, str, str | None]

LISTED_AHEAD = 256
"""Places of the queue that are listed at a time, where it is known which come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRun:
    """What one run of minor_compact or major_compact is asked to do."""

    kind: CompactionType
    selection: Selection
    order: Order = Order.DELTAS
    budget: Budget = field(default_factory=Budget)
    dry_run: bool = False
    rewrite: RewriteSettings = field(default_factory=RewriteSettings)

    @property
    def named(self) -> bool:
        """Whether a table or location is named; else the queue is drained."""
        return self.selection.location is not None or bool(self.selection.tables)


def run_compaction(
    services: Services, backend: Backend, run: CompactionRun
) -> tuple[list[CompactionResult], list[str]]:
    """Carry a run out; results in the order in which they ended, and notes about what was left or passed over."""
    worker = Worker(services, backend, settings=run.rewrite)
    spending = Spending(run.budget, services.clock)
    notes: list[str] = []
    early: list[CompactionResult] = []
    if not run.dry_run:
        notes += backend.recover()
    if run.named:
        jobs = _named_jobs(services, backend, run, spending, early, notes)
    elif backend.in_order:
        notes += backend.cautions()
        jobs = _jobs_in_order(services, backend, run, spending, early)
    else:
        jobs = _chosen_jobs(services, backend, run, spending, early)
    results: list[CompactionResult] = []
    try:
        results.extend(worker.compact(jobs))
    except AcidError as error:
        if not results:
            raise
        # what was done is reported all the same
        nowhere = Target(database="", table="", partition=None, location=NOWHERE)
        early.append(ended(nowhere, run.kind, RetryError(f"Cannot go on: because {error}")))
    finally:
        services.progress.finish()
    if spending.stopped is not None:
        notes.append(f"stopped: {spending.stopped}; the rest stays as it is")
    if not run.dry_run:
        backend.purge_history()
    return early + results, notes


def _named_jobs(
    services: Services,
    backend: Backend,
    run: CompactionRun,
    spending: Spending,
    early: list[CompactionResult],
    notes: list[str],
) -> Iterator[Job]:
    selected = backend.select(run.selection, automatic=False)
    notes += selected.notes
    looked, passed_over = look_at(services, selected.targets, run.selection.idle_seconds)
    early += [skipped(one, run.kind) for one in (*selected.passed_over, *passed_over)]
    early += [ended(one.target, run.kind, one.error) for one in looked if isinstance(one, Unlisted)]
    wanted = [one for one in looked if isinstance(one, ListedPlace)]
    found = _in_turn(backend.attempts([one.target for one in wanted]), wanted, run, lambda _: False)
    todo = []
    for turn in found:
        if turn.done is None or not turn.looked.leaves_nothing:
            todo.append(turn)
        else:
            early.append(ended(turn.looked.target, run.kind, RefusedError(refused_message(turn.done))))
    notes += _left(found)
    _begin(services, run, len(todo))
    for turn in _within(spending, todo):
        place = turn.looked
        if run.dry_run:
            yield Job(target=place.target, kind=run.kind, taken=None, named=True, listed=place)
            continue
        try:
            taken = backend.submit(place, run.kind)
            yield Job(target=taken.target, kind=run.kind, taken=taken, named=True, listed=place)
        except AcidError as error:
            early.append(ended(place.target, run.kind, error))
            if turn.done is None:
                spending.unspent(place.bytes)


def _begin(services: Services, run: CompactionRun, places: int) -> None:
    """Show how far the run is from now on; without a budget, so many places are to be done."""
    if places:
        most = places if run.budget.partitions is None else min(places, run.budget.partitions)
        services.progress.start(f"{'planning' if run.dry_run else 'compacting'} {most} places", most)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn(Generic[Place]):
    """A place in the order in which it is begun.

    done   why there is nothing to merge, where there is not: it costs no budget and goes first
    tried  the request that was not carried out before for what the place still is: it goes last, the oldest first
    """

    looked: Place
    done: str | None = None
    tried: CompactionRequest | None = None

    @property
    def key(self) -> tuple[bool, bool, int]:
        later = self.tried is not None or isinstance(self.looked, Unlisted) or self.looked.is_claimed
        return self.done is None, later, 0 if self.tried is None else self.tried.id


def _in_turn(
    attempts: Attempts, looked: Sequence[Place], run: CompactionRun, is_automatic: Callable[[Target], bool]
) -> list[_Turn[Place]]:
    """The order of a run: repeated, it gets further each time whatever its budget; what always fails comes last."""
    found: list[_Turn[Place]] = []
    for one in ordered(looked, run.order):
        done = tried = None
        if isinstance(one, ListedPlace):
            done = one.nothing_to_merge(run.kind, automatic=is_automatic(one.target))
            tried = None if done else attempts.last(one, run.kind)
        found.append(_Turn(looked=one, done=done, tried=tried))
    return sorted(found, key=lambda one: one.key)


def _within(spending: Spending, turns: Iterable[_Turn[Place]]) -> Iterator[_Turn[Place]]:
    """As many places as the budget lets start; those with nothing to merge cost none."""
    return takewhile(lambda turn: spending.lets_start(turn.looked.bytes, is_free=turn.done is not None), turns)


def _left(found: Sequence[_Turn[ListedPlace]]) -> list[str]:
    """A note when, of many places, none is left that was not done or tried before."""
    tried = sum(one.tried is not None for one in found)
    if len(found) < 2 or any(one.done is None and one.tried is None for one in found):
        return []
    but = f" but {tried} that could not be done before, and have not changed since" if tried else ""
    return [f"nothing is left to do of {len(found)} places{but}"]


def _chosen_jobs(
    services: Services, backend: Backend, run: CompactionRun, spending: Spending, early: list[CompactionResult]
) -> Iterator[Job]:
    """What waits in the queue, in the order that was asked for. Not all of it is listed before the first is begun."""
    found = _understood(backend, backend.waiting(run.kind), run, early)
    by_place = {_place(one.target): one for one in found}
    attempts = backend.attempts([one.target for one in found])

    def is_automatic(target: Target) -> bool:
        return by_place[_place(target)].request.facts.reason is not None

    def turns() -> Iterator[_Turn[Looked]]:
        tried = []
        for number, some in enumerate(_in_portions(found, run.order)):
            if number and not spending.lets_look_on():
                return
            targets = [one.target for one in some]
            looked, passed_over = look_at(services, targets, run.selection.idle_seconds, shown=number == 0)
            if number == 0:
                _begin(services, run, len(found) - len(passed_over))
            early.extend(skipped(one, run.kind) for one in passed_over)
            for turn in _in_turn(attempts, looked, run, is_automatic):
                if turn.tried is None:
                    yield turn
                else:
                    tried.append(turn)
        yield from sorted(tried, key=lambda one: one.key)

    for turn in _within(spending, turns()):
        waiting = by_place[_place(turn.looked.target)]
        listed = turn.looked if isinstance(turn.looked, ListedPlace) else None
        if run.dry_run:
            yield replace(_job(run.kind, waiting.target, None, waiting.request), listed=listed)
        elif (taken := backend.take(waiting)) is not None:
            yield replace(_job(run.kind, taken.target, taken, taken.request), listed=listed)


def _in_portions(found: Sequence[Waiting], order: Order) -> list[list[Waiting]]:
    """What is listed together, the most urgent first, as far as the initiator's figures tell; else all of it."""
    figures = [_noted(one.request.facts, order) for one in found]
    if None in figures:
        return [list(found)]
    ranked = sorted(zip(figures, found, strict=True), key=lambda one: (-(one[0] or 0), one[1].target.name))
    return [[one for _, one in ranked[start : start + LISTED_AHEAD]] for start in range(0, len(ranked), LISTED_AHEAD)]


def _noted(facts: RequestFacts, order: Order) -> int | None:
    """What the initiator noted of a place that an order goes by; None where it noted nothing of that kind."""
    return {Order.DELTAS: facts.deltas, Order.BYTES: facts.bytes, Order.NAME: 0}.get(order)


def _jobs_in_order(
    services: Services, backend: Backend, run: CompactionRun, spending: Spending, early: list[CompactionResult]
) -> Iterator[Job]:
    """What waits in a queue that hands requests out by their order, of whatever kind, until none of ours waits.

    A request that was given back in this run stands at the end again: whoever meets it has seen the whole queue.
    """
    met: set[Entity] = set()
    while fresh := _not_met(backend.waiting(run.kind), met):
        found = _understood(backend, fresh, run, early) if run.dry_run else fresh
        _begin(services, run, len(met) + len(found))
        for one, input_bytes in zip(found, _measured(services, found, run), strict=True):
            if not spending.lets_start(input_bytes):
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


def _measured(services: Services, found: Sequence[Waiting], run: CompactionRun) -> list[int]:
    """Input bytes. Listings cost time and only a budget of bytes needs them; what cannot be listed costs no budget."""
    if run.budget.bytes is None:
        return [0] * len(found)
    looked, _ = look_at(services, [one.target for one in found if one.error is None], None)
    by_place = {_place(one.target): one.bytes for one in looked}
    return [by_place.get(_place(one.target), 0) for one in found]


def _understood(
    backend: Backend, waiting: Sequence[Waiting], run: CompactionRun, early: list[CompactionResult]
) -> list[Waiting]:
    found = []
    for one in waiting:
        if one.error is None:
            found.append(one)
            continue
        early.append(ended(one.target, one.request.type, one.error))
        if not run.dry_run:
            backend.refuse(one, str(one.error))
    return found


def _job(kind: CompactionType, target: Target, taken: Taken | None, request: CompactionRequest) -> Job:
    return Job(target=target, kind=kind, taken=taken, named=False, why=request.facts.reason)


def _place(target: Target) -> tuple[str, str, str | None, Location]:
    return target.database, target.table, target.partition, target.location


def skipped(place: PassedOver, kind: CompactionType) -> CompactionResult:
    """The result for a place that was named and is passed over."""
    return replace(ended(place.target, kind, RefusedError(place.reason)), state=Outcome.SKIPPED)


def ended(target: Target, kind: CompactionType, error: AcidError) -> CompactionResult:
    """The result of a compaction that did not begin."""
    state = Outcome.FAILED
    if isinstance(error, ConflictError):
        state = Outcome.CONFLICT
    elif isinstance(error, RefusedError) and not isinstance(error, MissingError):  # somebody said that it is there
        state = Outcome.REFUSED
    return CompactionResult(
        id=None,
        database=target.database,
        table=target.table,
        location=str(target.location),
        partition=target.partition,
        type=kind.label.lower(),
        state=state,
        reason=str(error),
    )
