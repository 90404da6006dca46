"""The compaction jobs: what is named on the command line, or what waits in the queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from acidlib.engine.attempts import Attempts, fingerprint
from acidlib.engine.backend import Backend, Taken, Waiting
from acidlib.engine.selection import Budget, Looked, Order, Selection, Spending, look_at, ordered
from acidlib.engine.services import Services
from acidlib.engine.target import Target
from acidlib.engine.worker import Job, Worker
from acidlib.errors import AcidError, ConflictError, RefusedError, RetryError
from acidlib.model.requests import CompactionRequest, CompactionType
from acidlib.model.units import RewriteSettings
from acidlib.planning.enough import refused_message
from acidlib.report.results import CompactionResult, Outcome

Entity = tuple[str, str, str | None]


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
        # what was done is told all the same
        nowhere = Target(database="", table="", partition=None, location="")
        early.append(ended(nowhere, run.kind, RetryError(f"Cannot go on: because {error}")))
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
    selected, more = backend.select(run.selection, automatic=False)
    notes += more
    early += [skipped(one.target, run.kind, one.skipped) for one in selected if one.skipped is not None]
    looked = look_at(services, [one.target for one in selected if one.skipped is None], run.selection)
    early += [skipped(one.target, run.kind, one.skipped) for one in looked if one.skipped is not None]
    early += [ended(one.target, run.kind, one.error) for one in looked if one.error is not None]
    wanted = [one for one in looked if one.error is None and one.skipped is None]
    found = _in_turn(backend.attempts(), wanted, run, lambda _: False)
    for one in found:
        if one.done is not None and one.looked.leaves_nothing:
            early.append(ended(one.looked.target, run.kind, RefusedError(refused_message(one.done))))
    notes += _left(found)
    todo = [one for one in found if one.done is None or not one.looked.leaves_nothing]
    for turn in _within(spending, todo):
        place = turn.looked
        assert place.listing is not None
        if run.dry_run:
            yield Job(target=place.target, kind=run.kind, taken=None, named=True)
            continue
        files = fingerprint(place.target, place.listing, services.settings)
        try:
            taken = backend.submit(place.target, run.kind, place.listing)
            yield Job(target=taken.target, kind=run.kind, taken=taken, named=True, files=files)
        except AcidError as error:
            early.append(ended(place.target, run.kind, error))
            if turn.done is None:
                spending.unspent(place)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """A place in the order in which it is begun.

    done   why there is nothing to merge, where there is not: it costs no budget and goes first
    tried  the request that was not carried out before for what the place still is: it goes last, the oldest first
    """

    looked: Looked
    done: str | None
    tried: CompactionRequest | None

    @property
    def key(self) -> tuple[bool, bool, int]:
        later = self.tried is not None or self.looked.is_claimed or self.looked.error is not None
        return self.done is None, later, 0 if self.tried is None else self.tried.id


def _in_turn(
    attempts: Attempts, looked: Sequence[Looked], run: CompactionRun, is_automatic: Callable[[Looked], bool]
) -> list[_Turn]:
    """So that a run that is repeated gets further each time, whatever its budget: what always fails blocks no other."""
    found = []
    for one in ordered(looked, run.order):
        done = one.nothing_to_merge(run.kind, automatic=is_automatic(one))
        tried = None if done or one.listing is None else attempts.last(one.target, run.kind, one.listing)
        found.append(_Turn(looked=one, done=done, tried=tried))
    return sorted(found, key=lambda one: one.key)


def _within(spending: Spending, turns: Iterable[_Turn]) -> Iterator[_Turn]:
    """As many places as the budget lets start; those with nothing to merge cost none."""
    return takewhile(lambda turn: spending.lets_start(turn.looked, is_free=turn.done is not None), turns)


def _left(found: Sequence[_Turn]) -> list[str]:
    """Of many places, when none is left that was not done or tried before."""
    tried = sum(one.tried is not None for one in found)
    if len(found) < 2 or any(one.done is None and one.tried is None for one in found):
        return []
    but = f" but {tried} that could not be done before, and have not changed since" if tried else ""
    return [f"nothing is left to do of {len(found)} places{but}"]


def _chosen_jobs(
    services: Services, backend: Backend, run: CompactionRun, spending: Spending, early: list[CompactionResult]
) -> Iterator[Job]:
    """What waits in the queue, in the order that was asked for."""
    found = _understood(backend, backend.waiting(run.kind), run, early)
    by_place = {_place(one.target): one for one in found}
    looked = look_at(services, [one.target for one in found], run.selection)
    early += [skipped(one.target, run.kind, one.skipped) for one in looked if one.skipped is not None]
    wanted = [one for one in looked if one.skipped is None]

    def is_automatic(one: Looked) -> bool:
        return by_place[_place(one.target)].request.facts.reason is not None

    for turn in _within(spending, _in_turn(backend.attempts(), wanted, run, is_automatic)):
        one = turn.looked
        waiting = by_place[_place(one.target)]
        if run.dry_run:
            yield _job(run.kind, waiting.target, None, waiting.request)
            continue
        files = None if one.listing is None else fingerprint(one.target, one.listing, services.settings)
        if (taken := backend.take(waiting)) is not None:
            yield replace(_job(run.kind, taken.target, taken, taken.request), files=files)


def _jobs_in_order(
    services: Services, backend: Backend, run: CompactionRun, spending: Spending, early: list[CompactionResult]
) -> Iterator[Job]:
    """What waits in a queue that hands requests out by their order, of whatever kind, until none of ours waits.

    A request that was given back in this run stands at the end again: whoever meets it has seen the whole queue.
    """
    met: set[Entity] = set()
    while fresh := _not_met(backend.waiting(run.kind), met):
        found = _understood(backend, fresh, run, early) if run.dry_run else fresh
        for one, looked in zip(found, _measured(services, found, run), strict=True):
            if not spending.lets_start(looked):
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


def _measured(services: Services, found: Sequence[Waiting], run: CompactionRun) -> list[Looked]:
    """Listings cost time and only a budget of bytes needs them; what cannot be listed costs no budget."""
    if run.budget.bytes is None:
        return [Looked(target=one.target, listing=None) for one in found]
    understood = [one.target for one in found if one.error is None]
    looked = {
        _place(one.target): one for one in look_at(services, understood, replace(run.selection, idle_seconds=None))
    }
    return [looked.get(_place(one.target)) or Looked(target=one.target, listing=None) for one in found]


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


def _place(target: Target) -> tuple[str, str, str | None, str]:
    return target.database, target.table, target.partition, target.location


def skipped(target: Target, kind: CompactionType, reason: str | None) -> CompactionResult:
    """The result for a place that was named and is passed over."""
    return replace(ended(target, kind, RefusedError(reason or "")), state=Outcome.SKIPPED)


def ended(target: Target, kind: CompactionType, error: AcidError) -> CompactionResult:
    """The result of a compaction that did not begin."""
    state = Outcome.FAILED
    if isinstance(error, ConflictError):
        state = Outcome.CONFLICT
    elif isinstance(error, RefusedError):
        state = Outcome.REFUSED
    return CompactionResult(
        id=None,
        database=target.database,
        table=target.table,
        location=target.location,
        partition=target.partition,
        type=kind.label.lower(),
        state=state,
        reason=str(error),
    )
