"""A compaction run: its places flow through the scheduler, and their results are reported as they come."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from sys import maxsize
from typing import Any

from acidlib.errors import AcidError, known_error
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


def compactions(
    services: Services,
    backend: Backend,
    run: CompactionRun,
    on_result: Callable[[CompactionResult], None],
    *,
    hands_out: Callable[[PlacePlan], None] | None = None,
) -> Generator[HandedOut, Sequence[Any], list[str]]:
    """Carry a run out, and return notes about places that were left or passed over.

    on_result  gets each result as it comes
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
        PlaceCompaction(
            queued,
            run,
            services,
            backend,
            verifier,
            ready=lambda: progress.ready,
            on_plan=hands_out or (lambda _: None),
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
        on_result(unstarted_result(Outcome.FAILED, nowhere, run.kind, f"Cannot go on: {stop}; {summary}"))
    finally:
        services.progress.finish()
    notes += queue.notes
    if queue.stopped is not None:
        free = plural(queue.not_counted, "place with nothing to merge is", "places with nothing to merge are")
        besides = f"; {free} not counted" if queue.not_counted else ""
        notes.append(f"stopped: {queue.stopped}{besides}; the rest stays as it is")
    if not run.dry_run:
        try:
            backend.queue.purge_history()
        except Exception as error:  # the next run purges it: the results of this one have to be reported
            notes.append(str(known_error(error, "purge the history")))
    return notes


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
    """Return the level of the line about a result; a place that is compact already is no trouble."""
    if result.state is Outcome.FAILED or result.unverified:
        return ERROR
    return WARNING if result.state in (Outcome.REFUSED, Outcome.CONFLICT) else INFO


class _RunProgress:
    """The scheduler of a run and its figures, which are shown as results come."""

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
        self.scheduler: Scheduler[CompactionResult] = Scheduler(
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

    def _tasks_can_run(self) -> None:
        self.ready = self._services.clock()

    def begin(self, places: int) -> None:
        """Show the number of places, as far as it is known now."""
        if places:
            most = self._run.max_partitions
            self._places = places if most is None else min(places, most)
            verb = "planning" if self._run.dry_run else "compacting"
            self._services.progress.start(f"{verb} {plural(self._places, 'place')}", self._places)

    def _compaction_ended(self, result: CompactionResult) -> None:
        self.compactions += 1
        self._ends.append(self._services.clock())
        self.report(result)

    def report(self, result: CompactionResult) -> None:
        """Report a result, and count it."""
        self._ended[result.state] += 1
        self._bytes += (result.bytes_copied or 0) + (result.bytes_rewritten or 0)
        self._services.progress.note(
            f"{result.state.value}, {result.reason}", level=level_of(result), place=str(result.ref)
        )
        self.show()
        self._on_result(result)

    def show(self) -> None:
        """Show the figures as they are now."""
        bad = self._ended[Outcome.FAILED] + self._ended[Outcome.CONFLICT]
        parts = [f"{self.scheduler.in_flight:,} in flight", f"{bad:,} failed" if bad else ""]
        parts.append(human_bytes(self._bytes) if self._bytes else "")
        self._services.progress.advance(self._ended_of_total, detail=", ".join(part for part in parts if part))

    def summary(self) -> str:
        """Return the number of places by their outcome, for a run that was stopped."""
        given_back = self.scheduler.given_back
        not_begun = max(0, self._places - self._ended_of_total - given_back)
        counts = [(state.value, count) for state, count in self._ended.items()]
        counts += [("given back", given_back), ("not begun", not_begun)]
        parts = [f"{count:,} {outcome}" for outcome, count in counts if count]
        if not parts:
            return "no place was begun"
        return f"of {plural(sum(count for _, count in counts), 'place')} {', '.join(parts)}"

    @property
    def _ended_of_total(self) -> int:
        """How many of the places that `begin` has counted have ended: a limit counts none that is compact already."""
        is_limited = self._run.max_partitions is not None
        return self._ended.total() - (self._ended[Outcome.ALREADY_COMPACT] if is_limited else 0)

    def _ended_lately(self) -> int:
        now = self._services.clock()
        while self._ends and not 0 <= now - self._ends[0] <= LATELY_SECONDS:  # the clock may be set back
            self._ends.popleft()
        return len(self._ends)
