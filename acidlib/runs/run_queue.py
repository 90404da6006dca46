"""The options of a compaction run, and its places in their order: the selected ones, or those of waiting requests."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, takewhile

from acidlib.arguments import MAX_BYTES, MAX_PARTITIONS, METASTORE_URI
from acidlib.errors import AcidError, RefusedError, UsageError, known_error
from acidlib.execute.answers import answer_of, value_or_raise
from acidlib.execute.in_threads import in_threads
from acidlib.execute.services import Services, step_seconds
from acidlib.location import Location
from acidlib.model.requests import CompactionRequest, CompactionType
from acidlib.model.results import CompactionResult, Outcome, outcome_of
from acidlib.model.tables import TableRef
from acidlib.model.units import RewriteSettings
from acidlib.places.listing import (
    PORTION,
    ListingOutcome,
    RollbackSigns,
    Unlisted,
    list_in_portions,
    list_places,
)
from acidlib.places.place import ListedPlace, Place
from acidlib.places.selection import PassedOver, Selection
from acidlib.ports.backend import Backend, WaitingRequest, nowhere
from acidlib.wording import plural, size_words


class Order(enum.Enum):
    """Which places go first: those with most deltas, most delta bytes, the longest untouched, or by name."""

    DELTAS = "deltas"
    BYTES = "bytes"
    AGE = "age"
    NAME = "name"


_URGENCY: dict[Order, Callable[[ListedPlace], float]] = {
    Order.DELTAS: lambda listed: listed.deltas,
    Order.BYTES: lambda listed: listed.delta_bytes,
    Order.AGE: lambda listed: -listed.modified,
    Order.NAME: lambda _: 0,
}


def urgency(order: Order, listed: ListingOutcome) -> float:
    """Return a figure that is the larger the more urgent a place is."""
    return 0 if isinstance(listed, Unlisted) else _URGENCY[order](listed)


def ordered(listed_places: Iterable[ListingOutcome], order: Order) -> list[ListingOutcome]:
    """Return the most urgent place first; equal ones by name, so that the same input gives the same order."""
    return sorted(listed_places, key=lambda listed: (-urgency(order, listed), str(listed.place.ref)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRun:
    """The options of one run of minor_compact or major_compact.

    max_partitions  start no more places than these; None = no limit, as for the next two
    max_bytes       start no more input bytes than these
    deadline        start nothing after it, in epoch seconds
    release_held    compact at quarantined places, too: the operator says that their files are right
    buckets         the number of buckets of a rebalance; None = as many as there are
    """

    kind: CompactionType
    selection: Selection
    order: Order = Order.DELTAS
    max_partitions: int | None = None
    max_bytes: int | None = None
    deadline: float | None = None
    dry_run: bool = False
    rewrite: RewriteSettings = field(default_factory=RewriteSettings)
    release_held: bool = False
    buckets: int | None = None

    @property
    def is_named(self) -> bool:
        """Whether a table or location is named; else the run drains the queue."""
        return self.selection.location is not None or bool(self.selection.tables)


class Budget:
    """Counts started places against the limits of a run; `stopped` is the limit that ended it, or None."""

    def __init__(self, run: CompactionRun, clock: Callable[[], float]) -> None:
        self._run = run
        self._clock = clock
        self._partitions = 0
        self._bytes = 0
        self.free = 0
        """The places that were admitted and not counted."""
        self.stopped: str | None = None

    def admit(self, input_bytes: int, *, is_free: bool = False) -> bool:
        """Return whether a place may start, and count it then; a free one is not counted, and only time can stop it."""
        self.stopped = self._late_reason() if is_free else self._limit_reason(input_bytes)
        if self.stopped is None and is_free:
            self.free += 1
        elif self.stopped is None:
            self._partitions += 1
            self._bytes += input_bytes
        return self.stopped is None

    def refund(self, input_bytes: int) -> None:
        """Take back the count of a place that was admitted and did not start."""
        self._partitions -= 1
        self._bytes -= input_bytes

    def is_left(self) -> bool:
        """Return whether any place could still be admitted, so that listing more of them is of use."""
        self.stopped = self._limit_reason(0)
        return self.stopped is None

    def _limit_reason(self, input_bytes: int) -> str | None:
        run = self._run
        if run.max_partitions is not None and self._partitions >= run.max_partitions:
            return f"{MAX_PARTITIONS} {run.max_partitions} is reached"
        if run.max_bytes is not None and self._partitions and self._bytes + input_bytes > run.max_bytes:
            return f"{MAX_BYTES} {size_words(run.max_bytes)} is reached"
        return self._late_reason()

    def _late_reason(self) -> str | None:
        is_late = self._run.deadline is not None and self._clock() >= self._run.deadline
        return "the time budget is spent" if is_late else None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedCompaction:
    """One compaction to carry out or, in a dry run, to plan.

    request  ours; in a dry run one that waits, or for a selected place one that was never queued (its id is 0)
    listed   the place as this run has listed it; None = not listed yet
    is_free  whether it costs no budget, as there is nothing to merge
    """

    request: CompactionRequest
    place: Place
    listed: ListedPlace | None = None
    is_free: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A place when it is its turn.

    compact  the reason if there is nothing to merge: it goes first and costs no budget
    tried    the last request that was not carried out at the place as it still is: it goes last, the oldest first
    """

    listed: ListingOutcome
    compact: str | None = None
    tried: CompactionRequest | None = None


LISTINGS_KEPT = 4096
"""Listings that are kept. More places than these are listed twice where an order needs figures of all of them."""

_PlaceKey = tuple[TableRef, Location]


class RunQueue:
    """The places of a run in their order: repeated runs get further each time, whatever their budget.

    A place that always fails comes last. Where the first places are known, or the order goes by names, places are
    listed in portions while others are compacted, and no further portion is listed once the budget is spent.

    on_result  gets the result of each place that ends without a compaction
    on_listed  gets the number of places when the first of them can begin
    """

    def __init__(
        self,
        services: Services,
        backend: Backend,
        run: CompactionRun,
        *,
        on_result: Callable[[CompactionResult], None],
        on_listed: Callable[[int], None],
    ) -> None:
        self._services = services
        self._backend = backend
        self._run = run
        self._on_result = on_result
        self._on_listed = on_listed
        self._budget = Budget(run, services.clock)
        self._places = self._fresh = self._tried = 0
        self._left = self._unseen = 0
        """The places that have not had their turn, and those of them that nobody has looked at."""
        self.notes: list[str] = []

    @property
    def left(self) -> int:
        """The places that a limit has left to another run."""
        return 0 if self._budget.stopped is None else self._left

    @property
    def rest(self) -> str:
        """What is left to do, as a sentence; empty if the run has done all that it found."""
        parts, stopped = [], self._budget.stopped
        if self._run.is_named and self._places > 1 and not self._fresh and not self._unseen:
            done = f"nothing is left to do of {self._places:,} places"
            if self._tried:  # they are tried again, and may have been done
                done = f"nothing new was to be done of {self._places:,} places; {self._tried:,} of them could not be "
                done += "done before, and had not changed since"
            parts.append(done)
        if stopped is not None:
            parts.append(f"stopped: {stopped}")
            if free := self._budget.free:
                words = plural(free, "place with nothing to merge is", "places with nothing to merge are")
                parts.append(f"{words} not counted")
            parts.append(f"{plural(self._left, 'place is', 'places are')} left")
            if self._run.is_named and self._unseen:
                of_them = "" if self._unseen == self._left else f"{self._unseen:,} of them "
                parts[-1] += f", {of_them}not looked at"
        return "; ".join(parts)

    def compactions(self) -> Iterator[QueuedCompaction]:
        """Return the compactions to carry out; each request is taken when its turn comes."""
        if self._run.is_named:
            return self._compactions_of_selection()
        if self._backend.queue.in_order:
            self.notes += self._backend.queue.warnings()
            return self._compactions_in_queue_order()
        return self._compactions_of_queue()

    # --- selected places ----------------------------------------------------------------------------------------------

    def _compactions_of_selection(self) -> Iterator[QueuedCompaction]:
        run, backend = self._run, self._backend
        if run.kind is CompactionType.REBALANCE and not backend.fence.can_rebalance:
            raise UsageError(
                "Cannot rebalance: only a metastore of Hive 4 has a lock that keeps out statements that change rows; "
                f"name one by {METASTORE_URI}"
            )
        selected = backend.tables.select(run.selection, automatic=False)
        self.notes += selected.notes
        signs = RollbackSigns(self._services, run.selection, selected.places)
        self.notes += signs.require_list_per_table(dry_run=run.dry_run)
        for passed in selected.passed_over:
            outcome = Outcome.SKIPPED if passed.error is None else outcome_of(passed.error)
            self._report(outcome, passed.place, passed.reason)
        for candidate in self._candidates(selected.places, signs, {}):
            listed = candidate.listed
            if isinstance(listed, Unlisted):
                self._report(outcome_of(listed.error), listed.place, listed.error.words)
                continue
            has_obsolete = listed.state.obsolete or listed.state.aborted or listed.holds_staging
            if candidate.compact is not None and not has_obsolete:
                self._report(Outcome.ALREADY_COMPACT, listed.place, candidate.compact)
                continue
            if not self._budget.admit(listed.bytes, is_free=candidate.compact is not None):
                break
            if run.dry_run:
                request = CompactionRequest(id=0, ref=listed.place.ref, type=run.kind, bucket_count=run.buckets)
            else:
                submitted = self._submit(listed)
                if isinstance(submitted, AcidError):
                    error = submitted
                    if candidate.compact is None:
                        self._budget.refund(listed.bytes)
                    elif isinstance(error, RefusedError):
                        # Hive 4 takes no second request for the write ids of the last one until that is cleaned
                        self._report(Outcome.ALREADY_COMPACT, listed.place, candidate.compact)
                        continue
                    self._report(outcome_of(error), listed.place, error.words)
                    continue
                request = submitted
            is_free = candidate.compact is not None
            yield QueuedCompaction(request=request, place=listed.place, listed=listed, is_free=is_free)
        signs.finish()

    def _submit(self, listed: ListedPlace) -> CompactionRequest | AcidError:
        """Queue a request for a place and take it, or return the error."""
        submit = partial(self._backend.queue.submit, kind=self._run.kind, buckets=self._run.buckets)
        if not listed.holds_staging:
            return answer_of(submit, listed, f"queue a compaction of {listed.place.ref}")
        # a publication there may be finished first
        return in_threads(submit, [listed], seconds=step_seconds(self._services.settings))[0]

    def _report(self, outcome: Outcome, place: Place, reason: str) -> None:
        self._on_result(unstarted_result(outcome, place, self._run.kind, reason))

    # --- waiting requests ---------------------------------------------------------------------------------------------

    def _compactions_of_queue(self) -> Iterator[QueuedCompaction]:
        """Yield the waiting requests of a queue that lets a run choose, in the run's order."""
        run, backend = self._run, self._backend
        requests = self._with_known_place(backend.queue.waiting(run.kind))
        places, no_signs = [place for _, place in requests], RollbackSigns(self._services, run.selection, ())
        waiting = {_key(place): request for request, place in requests}
        as_queued = {_key(place): place for place in places}
        for candidate in self._candidates(places, no_signs, waiting):
            outcome = candidate.listed
            if not self._budget.admit(outcome.bytes, is_free=candidate.compact is not None):
                return
            key = _key(outcome.place)
            request = waiting[key] if run.dry_run else backend.queue.take(waiting[key])
            if request is not None:
                listed, is_free = outcome if isinstance(outcome, ListedPlace) else None, candidate.compact is not None
                yield QueuedCompaction(request=request, place=as_queued[key], listed=listed, is_free=is_free)

    def _compactions_in_queue_order(self) -> Iterator[QueuedCompaction]:
        """Yield the requests of a queue that hands them out in its own order, until none waits that this run may take.

        They may be of either kind. A request that was given back in this run stands at the end again: on meeting it the
        run has seen the whole queue.
        """
        run, backend = self._run, self._backend
        met: set[TableRef] = set()
        while fresh := list(takewhile(lambda waiting: waiting[0].ref not in met, backend.queue.waiting(run.kind))):
            if run.dry_run:
                fresh = [*self._with_known_place(fresh)]
            self._on_listed(len(met) + len(fresh))
            self._left = len(fresh)
            for (request, place), listed in zip(fresh, self._listed_for_budget(fresh), strict=True):
                compact = None
                if isinstance(listed, ListedPlace):
                    is_automatic = request.facts.reason is not None
                    with suppress(Exception):  # its compaction reports it
                        compact = listed.compact_reason(request.type, automatic=is_automatic)
                if not self._budget.admit(0 if listed is None else listed.bytes, is_free=compact is not None):
                    return
                taken = request if run.dry_run else backend.queue.take(request)
                if taken is None:
                    return
                met.add(taken.ref)
                if taken.id != request.id or isinstance(place, AcidError):
                    place = nowhere(taken)
                yield QueuedCompaction(request=taken, place=place, is_free=compact is not None)
                self._left -= 1
            if run.dry_run:
                return

    def _with_known_place(self, waiting: Iterable[WaitingRequest]) -> list[tuple[CompactionRequest, Place]]:
        """Return the requests whose place is known; end the others, and report them."""
        known = []
        for request, place in waiting:
            try:
                request.require_understood("compact")
                known.append((request, value_or_raise(place)))
            except Exception as raised:
                error = known_error(raised, f"compact {request.ref}")
                result = unstarted_result(outcome_of(error), nowhere(request), request.type, error.words)
                self._on_result(replace(result, id=None if self._run.dry_run else request.id))
                if not self._run.dry_run:
                    self._backend.queue.refuse(request, error.words)
        return known

    def _listed_for_budget(self, waiting: Sequence[WaitingRequest]) -> Iterator[ListingOutcome | None]:
        """Yield the listed place of each request, or None where no limit needs the listing or the place is unknown."""
        if self._run.max_bytes is None and self._run.max_partitions is None:
            yield from [None] * len(waiting)
            return
        for start in range(0, len(waiting), PORTION):
            portion = [place for _, place in waiting[start : start + PORTION]]
            listed_places, _ = list_places(
                self._services, [place for place in portion if isinstance(place, Place)], None
            )
            by_key = {_key(listed.place): listed for listed in listed_places}
            yield from (by_key.get(_key(place)) if isinstance(place, Place) else None for place in portion)

    # --- the order ----------------------------------------------------------------------------------------------------

    def _candidates(
        self, places: Sequence[Place], signs: RollbackSigns, waiting: Mapping[_PlaceKey, CompactionRequest]
    ) -> Iterator[Candidate]:
        """Yield the places in their order.

        waiting  the request of each place; empty for selected places
        """
        attempts, kind = self._backend.queue.attempts(places), self._run.kind
        self._left = self._unseen = len(places)

        def look(listed: ListingOutcome) -> Candidate:
            compact = tried = None
            if isinstance(listed, ListedPlace):
                request = waiting.get(_key(listed.place))
                is_automatic = request is not None and request.facts.reason is not None
                compact = listed.compact_reason(kind, automatic=is_automatic)
                tried = None if compact else attempts.last(listed, kind)
            return Candidate(listed=listed, compact=compact, tried=tried)

        last: list[Candidate] = []
        for number, portion in enumerate(self._portions(places, signs, waiting)):
            if number == 0:
                self._on_listed(len(places))
            candidates = []
            for listed in ordered(portion, self._run.order):
                candidate = answer_of(look, listed, f"look at {listed.place.ref}")
                if isinstance(candidate, AcidError):
                    candidate = Candidate(listed=Unlisted(place=listed.place, error=candidate))
                if isinstance(candidate.listed, ListedPlace):
                    self._places += 1
                    self._tried += candidate.tried is not None
                    self._fresh += candidate.compact is None and candidate.tried is None
                candidates.append(candidate)
            candidates.sort(key=_turn)
            last += [candidate for candidate in candidates if candidate.tried is not None]
            yield from self._by_turns(candidate for candidate in candidates if candidate.tried is None)
        yield from self._by_turns(sorted(last, key=_turn))

    def _by_turns(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        """Yield candidates, each of which has had its turn once the next one is asked for."""
        for candidate in candidates:
            yield candidate
            self._left -= 1

    def _portions(
        self, places: Sequence[Place], signs: RollbackSigns, waiting: Mapping[_PlaceKey, CompactionRequest]
    ) -> Iterator[list[ListingOutcome]]:
        """Yield the places that are listed together, the most urgent portion first."""
        order, idle_seconds = self._run.order, self._run.selection.idle_seconds

        def kept(portion: tuple[list[ListingOutcome], list[PassedOver]]) -> list[ListingOutcome]:
            listed_places, passed_over = portion
            self._unseen = max(0, self._unseen - len(listed_places) - len(passed_over))  # they may be listed twice
            self._left -= len(passed_over)
            signs.add(listed_places)
            for passed in passed_over:
                self._report(Outcome.SKIPPED, passed.place, passed.reason)
            return listed_places

        ranked: list[tuple[float, Place]] = []
        if order is Order.NAME:
            ranked = [(0, place) for place in places]
        elif order in (Order.DELTAS, Order.BYTES) and waiting:  # by the figures that the initiator noted
            facts = [waiting[_key(place)].facts for place in places]
            figures = [fact.deltas if order is Order.DELTAS else fact.bytes for fact in facts]
            ranked = [(figure, place) for figure, place in zip(figures, places, strict=True) if figure is not None]
        if len(ranked) < len(places):
            listings = map(kept, list_in_portions(self._services, places, idle_seconds))
            if len(places) <= LISTINGS_KEPT:
                yield list(chain.from_iterable(listings))
                return
            # only the figures of these listings are kept
            by_key = {_key(place): place for place in places}
            ranked = [
                (urgency(order, listed), by_key[_key(listed.place)])
                for listed_places in listings
                for listed in listed_places
            ]
        ranked.sort(key=lambda entry: (-entry[0], str(entry[1].ref)))
        for start in range(0, len(ranked), PORTION):
            if start and not self._budget.is_left():
                return
            portion = [place for _, place in ranked[start : start + PORTION]]
            yield kept(list_places(self._services, portion, idle_seconds))


def _key(place: Place) -> _PlaceKey:
    return place.ref, place.location


def _turn(candidate: Candidate) -> tuple[bool, bool, int]:
    """Return the sorting key of candidates that are listed together."""
    tried, listed = candidate.tried, candidate.listed
    later = tried is not None or isinstance(listed, Unlisted) or listed.is_claimed
    return candidate.compact is None, later, 0 if tried is None else tried.id


def unstarted_result(state: Outcome, place: Place, kind: CompactionType, reason: str) -> CompactionResult:
    """Return the result of a compaction that did not begin."""
    return CompactionResult(
        **place.ref._asdict(),
        location=str(place.location),
        type=kind.label.lower(),
        state=state,
        reason=reason,
    )
