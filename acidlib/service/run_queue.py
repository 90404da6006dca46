"""What a compaction run is asked for, and its places in their order: what is named, or waits in the queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, takewhile

from acidlib.errors import AcidError, RefusedError
from acidlib.model.location import Location
from acidlib.model.requests import CompactionRequest, CompactionType
from acidlib.model.tables import TableRef
from acidlib.model.units import RewriteSettings
from acidlib.report.results import CompactionResult, Outcome, outcome_of
from acidlib.service.backend import Backend, Waiting, nowhere
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
from acidlib.service.services import Services, value_of

LISTINGS_KEPT = 4096
"""Listings that are kept; of more places they are made twice where an order needs figures of all."""

_Place = tuple[TableRef, Location]
Tell = Callable[[CompactionResult], None]


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
        """True where a table or location is named; else the queue is drained."""
        return self.selection.location is not None or bool(self.selection.tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One compaction to carry out or, in a dry run, to plan.

    request  ours; in a dry run one that waits, or for what is named one that was never queued (its id is 0)
    listed   the place as the run has listed it before, where it has
    """

    request: CompactionRequest
    target: Target
    listed: ListedPlace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A place when it is its turn.

    done   why there is nothing to merge, where there is not: it costs no budget and goes first
    tried  the request that was not carried out before for what the place still is: it goes last, the oldest first
    """

    place: ListingOutcome
    done: str | None = None
    tried: CompactionRequest | None = None


class RunQueue:
    """The places of a run in their order: repeated, it gets further each time whatever its budget.

    What always fails comes last. Where it is known what comes first, or the order goes by names, places are listed in
    portions while others are compacted, and not at all once the budget is spent.

    tell   gets the result of each place that it is over with without a compaction
    begin  is called with the number of places when the listing of all is over
    """

    def __init__(
        self,
        services: Services,
        backend: Backend,
        run: CompactionRun,
        *,
        tell: Tell,
        begin: Callable[[int], None],
    ) -> None:
        self._services = services
        self._backend = backend
        self._run = run
        self._tell = tell
        self._begin = begin
        self._spending = Spending(run.budget, services.clock)
        self.notes: list[str] = []

    def jobs(self) -> Iterator[Job]:
        """Return the compactions to carry out; each request is taken when its turn comes."""
        if self._run.named:
            return self._named_jobs()
        if self._backend.in_order:
            self.notes += self._backend.queue_warnings()
            return self._jobs_in_order()
        return self._chosen_jobs()

    @property
    def stopped(self) -> str | None:
        """What ended the run before its last place, if anything did."""
        return self._spending.stopped

    def _over(self, outcome: Outcome, target: Target, reason: str) -> None:
        """Tell the result of a place that is over without a compaction."""
        self._tell(not_begun(outcome, target, self._run.kind, reason))

    def _named_jobs(self) -> Iterator[Job]:
        run, backend = self._run, self._backend
        if run.kind is CompactionType.REBALANCE and not backend.can_rebalance:
            raise RefusedError(
                "Cannot rebalance: only a metastore of Hive 4 locks out who changes rows meanwhile; name one by "
                "--metastore-uri"
            )
        selected = backend.select(run.selection, automatic=False)
        self.notes += selected.notes
        doubts = Doubts(self._services, run.selection, selected.targets)
        if not run.dry_run:
            doubts.require_vouched()
        for passed in selected.passed_over:
            self._over(Outcome.SKIPPED, passed.target, passed.reason)
        candidates = self._candidates(selected.targets, doubts, {})
        for one in self._within_budget(one for one in candidates if not self._finished_without_run(one)):
            place = one.place
            assert isinstance(place, ListedPlace)  # any other is finished
            if run.dry_run:
                request = CompactionRequest(id=0, ref=place.target.ref, type=run.kind, bucket_count=run.buckets)
            else:
                try:
                    request = backend.submit(place, run.kind, buckets=run.buckets)
                except AcidError as error:
                    if one.done is None:
                        self._spending.unspent(place.bytes)
                    elif isinstance(error, RefusedError):
                        # Hive 4 takes no second request for what it was compacted for, until that is cleaned
                        self._over(Outcome.ALREADY_COMPACT, place.target, one.done)
                        continue
                    self._over(outcome_of(error), place.target, str(error))
                    continue
            yield Job(request=request, target=place.target, listed=place)
        doubts.end()
        if self._places > 1 and not self._fresh:
            tried = f" but {self._tried} that could not be done before, and have not changed since"
            self.notes.append(f"nothing is left to do of {self._places:,} places{tried if self._tried else ''}")

    def _finished_without_run(self, one: Candidate) -> bool:
        """Tell of a named place that cannot be listed, or that holds nothing for a cleaner either."""
        place = one.place
        if isinstance(place, Unlisted):
            self._over(outcome_of(place.error), place.target, str(place.error))
        elif one.done is not None and not (place.state.obsolete or place.state.aborted or place.holds_staging):
            self._over(Outcome.ALREADY_COMPACT, place.target, one.done)
        else:
            return False
        return True

    def _chosen_jobs(self) -> Iterator[Job]:
        """Yield what waits in the queue, in the order that was asked for; not all is listed before the first begins."""
        run, backend = self._run, self._backend
        found = self._found(backend.waiting(run.kind))
        targets, nothing_stated = [target for _, target in found], Doubts(self._services, run.selection, ())
        waiting = {_place(target): request for request, target in found}
        as_queued = {_place(target): target for target in targets}
        for one in self._within_budget(self._candidates(targets, nothing_stated, waiting)):
            place = _place(one.place.target)
            request = waiting[place] if run.dry_run else backend.take(waiting[place])
            if request is not None:
                listed = one.place if isinstance(one.place, ListedPlace) else None
                yield Job(request=request, target=as_queued[place], listed=listed)

    def _jobs_in_order(self) -> Iterator[Job]:
        """Yield what waits in a queue that hands requests out in its own order, until none of ours waits.

        They may be of either kind. A request that was given back in this run stands at the end again: whoever meets it
        has seen the whole queue.
        """
        run, backend = self._run, self._backend
        met: set[TableRef] = set()
        while fresh := list(takewhile(lambda one: one[0].ref not in met, backend.waiting(run.kind))):
            if run.dry_run:
                fresh = [*self._found(fresh)]
            self._begin(len(met) + len(fresh))
            for (request, target), place in zip(fresh, self._measured(fresh), strict=True):
                done = None
                if isinstance(place, ListedPlace):
                    done = place.nothing_to_merge(request.type, automatic=request.facts.reason is not None)
                if not self._spending.lets_start(0 if place is None else place.bytes, is_free=done is not None):
                    return
                taken = request if run.dry_run else backend.take(request)
                if taken is None:
                    return
                met.add(taken.ref)
                if taken.id != request.id or isinstance(target, AcidError):
                    target = nowhere(taken)
                yield Job(request=taken, target=target)
            if run.dry_run:
                return

    def _measured(self, waiting: Sequence[Waiting]) -> Iterator[ListingOutcome | None]:
        """List the places of requests, some at a time; None without a budget, which alone needs the listing."""
        if self._run.budget.bytes is None and self._run.budget.partitions is None:
            yield from [None] * len(waiting)
            return
        for start in range(0, len(waiting), PORTION):
            some = [target for _, target in waiting[start : start + PORTION]]
            listed, _ = look_at(self._services, [target for target in some if isinstance(target, Target)], None)
            by_place = {_place(one.target): one for one in listed}
            yield from (by_place.get(_place(target)) if isinstance(target, Target) else None for target in some)

    def _found(self, waiting: Iterable[Waiting]) -> list[tuple[CompactionRequest, Target]]:
        """Return the requests whose place is known; tell of the others, and end them."""
        found = []
        for request, target in waiting:
            try:
                request.require_understood("compact")
                found.append((request, value_of(target)))
            except AcidError as error:
                self._tell(not_begun(outcome_of(error), nowhere(request), request.type, str(error)))
                if not self._run.dry_run:
                    self._backend.refuse(request, str(error))
        return found

    def _within_budget(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        """Yield as many as the budget lets start; those with nothing to merge cost none of it."""
        return takewhile(
            lambda one: self._spending.lets_start(one.place.bytes, is_free=one.done is not None), candidates
        )

    def _candidates(
        self, targets: Sequence[Target], doubts: Doubts, waiting: Mapping[_Place, CompactionRequest]
    ) -> Iterator[Candidate]:
        """Yield the places in their order.

        waiting  the request of each place; empty where places are named
        """
        attempts, kind = self._backend.attempts(targets), self._run.kind
        last: list[Candidate] = []
        self._places = self._fresh = self._tried = 0
        for number, portion in enumerate(self._portions(targets, doubts, waiting)):
            if number == 0:
                self._begin(len(targets))
            found = []
            for place in ordered(portion, self._run.order):
                done = tried = None
                if isinstance(place, ListedPlace):
                    request = waiting.get(_place(place.target))
                    is_automatic = request is not None and request.facts.reason is not None
                    done = place.nothing_to_merge(kind, automatic=is_automatic)
                    tried = None if done else attempts.last(place, kind)
                    self._places += 1
                    self._tried += tried is not None
                    self._fresh += done is None and tried is None
                found.append(Candidate(place=place, done=done, tried=tried))
            found.sort(key=_turn)
            last += [one for one in found if one.tried is not None]
            yield from (one for one in found if one.tried is None)
        yield from sorted(last, key=_turn)

    def _portions(
        self, targets: Sequence[Target], doubts: Doubts, waiting: Mapping[_Place, CompactionRequest]
    ) -> Iterator[list[ListingOutcome]]:
        """Yield what is listed together, the most urgent first."""
        order, idle_seconds = self._run.order, self._run.selection.idle_seconds

        def kept(listed: tuple[list[ListingOutcome], list[PassedOver]]) -> list[ListingOutcome]:
            found, passed_over = listed
            doubts.look(found)
            for one in passed_over:
                self._over(Outcome.SKIPPED, one.target, one.reason)
            return found

        ranked: list[tuple[float, Target]] = []
        if order is Order.NAME:
            ranked = [(0, target) for target in targets]
        elif order in (Order.DELTAS, Order.BYTES) and waiting:  # what the initiator has noted of each
            facts = [waiting[_place(target)].facts for target in targets]
            noted = [one.deltas if order is Order.DELTAS else one.bytes for one in facts]
            ranked = [(figure, target) for figure, target in zip(noted, targets, strict=True) if figure is not None]
        if len(ranked) < len(targets):
            looks = map(kept, look_in_portions(self._services, targets, idle_seconds))
            if len(targets) <= LISTINGS_KEPT:
                yield list(chain.from_iterable(looks))
                return
            # a look that is not kept tells the figures
            plain = {_place(target): target for target in targets}
            ranked = [(urgency(order, one), plain[_place(one.target)]) for found in looks for one in found]
        ranked.sort(key=lambda one: (-one[0], str(one[1].ref)))
        for start in range(0, len(ranked), PORTION):
            if start and not self._spending.lets_look_on():
                return
            yield kept(look_at(self._services, [target for _, target in ranked[start : start + PORTION]], idle_seconds))


def _place(target: Target) -> _Place:
    return target.ref, target.location


def _turn(one: Candidate) -> tuple[bool, bool, int]:
    """Order candidates that are listed together."""
    later = one.tried is not None or isinstance(one.place, Unlisted) or one.place.is_claimed
    return one.done is None, later, 0 if one.tried is None else one.tried.id


def not_begun(state: Outcome, target: Target, kind: CompactionType, reason: str) -> CompactionResult:
    """Return the result of a compaction that did not begin."""
    return CompactionResult(
        id=None,
        ref=target.ref,
        location=str(target.location),
        type=kind.label.lower(),
        state=state,
        reason=reason,
    )
