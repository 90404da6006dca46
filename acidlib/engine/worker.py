"""The worker: carries compactions out, many at a time, and shows how far it is.

One partition's failure never stops the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from acidlib.engine.backend import Backend
from acidlib.engine.compact_place import Job, PlaceCompactor, Steps
from acidlib.engine.flow import Flow
from acidlib.engine.services import Progress, Services
from acidlib.model.units import RewriteSettings
from acidlib.report.results import CompactionResult, Outcome
from acidlib.report.text import human_bytes

IN_FLIGHT = "acidlib.places.in.flight"
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

    def __init__(self, services: Services, backend: Backend, *, settings: RewriteSettings) -> None:
        given = services.settings.integer(IN_FLIGHT)
        self._compactor = PlaceCompactor(services, backend, settings)
        self._flow: Flow[CompactionResult] = Flow(
            services.runner,
            limit=lambda slots: given or places_in_flight(slots),
            name=lambda places: f"{services.host}-compactor-{places}",
        )

    @property
    def in_flight(self) -> int:
        """How many places are under way."""
        return self._flow.in_flight

    def compact(
        self, jobs: Iterable[Job], *, while_waiting: Callable[[], None] = lambda: None
    ) -> Iterator[CompactionResult]:
        """The results, as they come. `jobs` is drawn from as places end, so a budget can stop it.

        while_waiting  is called now and then while nothing ends
        """
        return self._flow.run((_Compaction(job, self._compactor) for job in jobs), while_waiting=while_waiting)


def places_in_flight(slots: int) -> int:
    """How many places are under way at a time: enough to keep executors busy with small ones, as few as can be held.

    Many cores have one that runs and one that waits for each: most places are one task.

    slots  tasks that run at the same time; 0 where the driver runs them itself
    """
    if not slots:
        return 1
    return _FEWEST + max(min(_MANY, _FOR_EACH_SLOT * slots), _AT_LEAST * slots)


class RunProgress:
    """Shows the figures of a run as its results come.

    in_flight  how many places are under way
    """

    def __init__(self, progress: Progress, in_flight: Callable[[], int]) -> None:
        self._progress = progress
        self._in_flight = in_flight
        self._done = self._bad = self._bytes = 0

    def add(self, result: CompactionResult) -> None:
        """One more result."""
        self._done += 1
        self._bad += result.state in (Outcome.FAILED, Outcome.CONFLICT)
        self._bytes += (result.total("bytes_copied") or 0) + (result.total("bytes_rewritten") or 0)
        self._progress.note(f"{result.state.value}, {result.reason}", place=result.name)
        self.show()

    def show(self) -> None:
        """Show the figures as they are now."""
        parts = [f"{self._in_flight():,} in flight", f"{self._bad:,} failed" if self._bad else ""]
        parts.append(human_bytes(self._bytes) if self._bytes else "")
        self._progress.advance(self._done, detail=", ".join(part for part in parts if part))
