"""The worker: carries compactions out, many at a time, and shows how far it is.

One partition's failure never stops the others.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

from acidlib.engine.backend import Backend
from acidlib.engine.compact_place import PlaceCompactor, Steps
from acidlib.engine.flow import Flow
from acidlib.engine.services import Progress, Services
from acidlib.engine.so_far import Job
from acidlib.model.units import RewriteSettings
from acidlib.report.log import ERROR, INFO, WARNING
from acidlib.report.results import CompactionResult, Outcome
from acidlib.wording import human_bytes, plural

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
        return self.job.target.name

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
        self._progress.note(f"{result.state.value}, {result.reason}", level=_level(result), place=result.name)
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
