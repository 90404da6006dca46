"""A compaction run: its places flow through the scheduler, and their results are reported as they come."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import count
from sys import maxsize
from typing import Any

from acidlib.errors import AcidError, HangingError, known_error
from acidlib.execute.schedule import HandedOut, Scheduler
from acidlib.execute.services import Services, step_seconds
from acidlib.location import NOWHERE
from acidlib.model.results import CompactionResult, Outcome
from acidlib.model.tables import TableRef
from acidlib.places.place import Place
from acidlib.ports.backend import Backend
from acidlib.report.progress import ERROR, INFO, WARNING
from acidlib.runs.compact import PlaceCompaction
from acidlib.runs.plan import REWRITE, PlacePlan
from acidlib.runs.run_queue import CompactionRun, RunQueue, unstarted_result
from acidlib.runs.verify import Verifier
from acidlib.wording import human_bytes, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """What a run tells at its end beside the results of places.

    notes  about the run as a whole, and places that were passed over
    rest   what is left to do, as a sentence; see `RunQueue`
    left   the places that a limit has left to another run
    """

    notes: tuple[str, ...]
    rest: str
    left: int


def compactions(
    services: Services,
    backend: Backend,
    run: CompactionRun,
    on_result: Callable[[CompactionResult], None],
    *,
    hands_out: Callable[[PlacePlan], None] | None = None,
) -> Generator[HandedOut, Sequence[Any], RunEnd]:
    """Carry a run out, and return what there is to tell at its end.

    on_result  gets each result as it comes; in a dry run in the order in which the places would have their turns
    hands_out  yield the tasks that make files, of all places together, and go on with their values or errors; before,
               it is told the plan of each place

    An interrupt is raised again once everything is given back, with the number of places by their outcome.
    """
    notes = [] if run.dry_run else backend.recover()
    progress = _RunProgress(services, run, on_result, hands_out=hands_out is not None)
    scheduler = progress.scheduler
    queue = RunQueue(services, backend, run, on_result=progress.report, on_listed=progress.begin)
    verifier = Verifier(services, release_held=run.release_held)
    places = (
        progress.turn(
            PlaceCompaction(
                queued,
                run,
                services,
                backend,
                verifier,
                ready=lambda: progress.ready,
                on_plan=hands_out or (lambda _: None),
            )
        )
        for queued in queue.compactions()
    )
    try:
        yield from scheduler.run(places)
    except (AcidError, KeyboardInterrupt) as stop:
        summary = progress.summary()
        if isinstance(stop, KeyboardInterrupt):
            raise KeyboardInterrupt(summary) from None
        if not progress.compactions:
            if scheduler.given_back:
                raise type(stop)(f"{stop}; {summary}") from stop
            raise
        nowhere = Place(ref=TableRef("", ""), location=NOWHERE)
        progress.close()
        on_result(unstarted_result(Outcome.FAILED, nowhere, run.kind, f"Cannot go on: {stop}; {summary}"))
    finally:
        services.progress.finish()
    progress.close()
    notes += queue.notes
    if not run.dry_run:
        try:
            backend.queue.purge_history()
        except Exception as error:  # the next run purges it: the results of this one have to be reported
            notes.append(known_error(error, "purge the history").words)
    return RunEnd(notes=tuple(notes), rest=queue.rest, left=queue.left)


IN_FLIGHT = "acidlib.places.in.flight"
LATELY_SECONDS = 2.0
_MIN_PLACES, _AT_LEAST = 32, 2
"""Places under way beside those for slots, and those for each slot however many slots there are."""
_FOR_EACH_SLOT, _MANY = 4, 1000
"""Places for each slot as long as there are few, and the number of places from which on `_AT_LEAST` will do."""


def places_in_flight(slots: int, *, ended_lately: int = 0) -> int:
    """Return how many places are under way at a time: enough to keep executors busy with small ones, and no more.

    Many cores have one that runs and one that waits for each: most places are one task. Where places end quickly there
    are more, so that driver and executors are both busy; a place that takes long does not wait long for its turn.

    slots         tasks that run at the same time; 0 where the driver runs them itself
    ended_lately  places that have ended within the last `LATELY_SECONDS`
    """
    if not slots:
        return 1
    return _MIN_PLACES + max(min(_MANY, _FOR_EACH_SLOT * slots), _AT_LEAST * slots) + ended_lately


def level_of(result: CompactionResult) -> str:
    """Return the level of the line about a result.

    A place that is compact already is no trouble, and one that is refused ends no run with another status: no mail of
    cron each night is about it.
    """
    if result.state is Outcome.FAILED or result.unverified:
        return ERROR
    return WARNING if result.state is Outcome.CONFLICT else INFO


@dataclass(frozen=True, slots=True)
class _Ended:
    """The end of a compaction, and its place among the turns of the run."""

    turn: int
    is_free: bool
    result: CompactionResult


class _Turn:
    """A compaction as a workflow whose result tells the turn that it had."""

    def __init__(self, turn: int, compaction: PlaceCompaction) -> None:
        self.name = compaction.name
        self.give_back = compaction.give_back
        self._turn = turn
        self._compaction = compaction

    async def run(self) -> _Ended:
        """Carry the compaction out."""
        return self._ended(await self._compaction.run())

    def hung(self, error: HangingError) -> _Ended:
        """Return its result where a step hangs."""
        return self._ended(self._compaction.hung(error))

    def _ended(self, result: CompactionResult) -> _Ended:
        return _Ended(self._turn, self._compaction.queued.is_free, result)


class _RunProgress:
    """The scheduler of a run and its figures, which are shown as results come.

    A plan is told in the order of its turns: results that come early wait for those before them.
    """

    def __init__(
        self,
        services: Services,
        run: CompactionRun,
        on_result: Callable[[CompactionResult], None],
        *,
        hands_out: bool,
    ) -> None:
        # tasks are handed out of all places together
        stated = maxsize if hands_out else services.settings.integer(IN_FLIGHT)
        self.scheduler: Scheduler[_Ended] = Scheduler(
            services.runner,
            limit=lambda slots: stated or places_in_flight(slots, ended_lately=self._ended_lately()),
            name=lambda places: f"{services.host}-compactor-{places}",
            while_starting=lambda: services.progress.waiting("starting Spark"),
            on_start=self._tasks_can_run,
            on_result=self._compaction_ended,
            while_waiting=self.show,
            seconds=step_seconds(services.settings),
            hands_out=lambda task: hands_out and task.step == REWRITE,
        )
        self.ready = 0.0
        """When tasks could be run; time before that is no compaction's own."""
        self.compactions = 0
        """How many have ended."""
        self._services = services
        self._run = run
        self._on_result = on_result
        self._ends: deque[float] = deque()
        self._ended: Counter[Outcome] = Counter()
        self._places = self._bytes = 0
        self._counted = 0
        """How many of the places that `begin` has counted have ended."""
        self._turns = count()
        self._next = 0
        self._early: dict[int, CompactionResult] = {}

    def turn(self, compaction: PlaceCompaction) -> _Turn:
        """Return a compaction as the workflow of the next turn."""
        return _Turn(next(self._turns), compaction)

    def _tasks_can_run(self) -> None:
        self.ready = self._services.clock()

    def begin(self, places: int) -> None:
        """Show the number of places, as far as it is known now."""
        if places:
            most = self._run.max_partitions
            is_limited = most is not None and most < places
            self._places = most if most is not None and is_limited else places
            verb = "planning" if self._run.dry_run else "compacting"
            title = f"{verb}{' up to' * is_limited} {plural(self._places, 'place')}"
            self._services.progress.start(title, self._places)

    def _compaction_ended(self, ended: _Ended) -> None:
        self.compactions += 1
        self._ends.append(self._services.clock())
        self._report(ended.result, ended.turn, counts=not ended.is_free)

    def report(self, result: CompactionResult) -> None:
        """Report and count the result of a place that ends without a compaction; no limit counts it."""
        self._report(result, next(self._turns), counts=False)

    def close(self) -> None:
        """Report what still waits for a result that did not come."""
        for turn in sorted(self._early):
            self._on_result(self._early.pop(turn))

    def _report(self, result: CompactionResult, turn: int, *, counts: bool) -> None:
        self._ended[result.state] += 1
        self._counted += counts or self._run.max_partitions is None
        self._bytes += (result.bytes_copied or 0) + (result.bytes_rewritten or 0)
        self._services.progress.note(
            f"{result.state.value}, {result.reason}", level=level_of(result), place=str(result.ref)
        )
        self.show()
        if not self._run.dry_run:
            self._on_result(result)
            return
        self._early[turn] = result
        while (turned := self._early.pop(self._next, None)) is not None:
            self._on_result(turned)
            self._next += 1

    def show(self) -> None:
        """Show the figures as they are now."""
        bad = self._ended[Outcome.FAILED] + self._ended[Outcome.CONFLICT]
        in_flight = self.scheduler.in_flight
        parts = [f"{in_flight:,} in flight" if in_flight else "", f"{bad:,} failed" if bad else ""]
        parts.append(human_bytes(self._bytes) if self._bytes else "")
        self._services.progress.advance(self._counted, detail=", ".join(part for part in parts if part))

    def summary(self) -> str:
        """Return the number of places by their outcome, for a run that was stopped."""
        stopped = self.scheduler.given_back
        not_begun = max(0, self._places - self._counted - stopped)
        counts = [(state.value, count) for state, count in self._ended.items()]
        counts += [("stopped", stopped), ("not begun", not_begun)]
        parts = [f"{count:,} {outcome}" for outcome, count in counts if count]
        if not parts:
            return "no place was begun"
        return f"of {plural(sum(count for _, count in counts), 'place')} {', '.join(parts)}"

    def _ended_lately(self) -> int:
        now = self._services.clock()
        while self._ends and not 0 <= now - self._ends[0] <= LATELY_SECONDS:  # the clock may be set back
            self._ends.popleft()
        return len(self._ends)
