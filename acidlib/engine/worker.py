"""The worker: carries compactions out, many at a time. One partition's failure never stops the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from acidlib.engine.backend import Backend
from acidlib.engine.compact_place import Job, PlaceCompactor, Steps
from acidlib.engine.flow import Flow
from acidlib.engine.services import Services
from acidlib.model.units import RewriteSettings
from acidlib.report.results import CompactionResult

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
        self._services = services
        self._compactor = PlaceCompactor(services, backend, settings)

    def compact(self, jobs: Iterable[Job]) -> Iterator[CompactionResult]:
        """The results, as they come. `jobs` is drawn from as places end, so a budget can stop it."""
        services = self._services
        given = services.settings.integer(IN_FLIGHT)
        flow: Flow[CompactionResult] = Flow(
            services.runner,
            limit=lambda slots: given or places_in_flight(slots),
            name=lambda places: f"{services.host}-compactor-{places}",
        )
        for number, result in enumerate(flow.run(_Compaction(job, self._compactor) for job in jobs), start=1):
            services.progress.note(f"{result.name}: {result.state.value}, {result.reason}")
            services.progress.advance(number)
            yield result


def places_in_flight(slots: int) -> int:
    """How many places are under way at a time: enough to keep executors busy with small ones, as few as can be held.

    Many cores have one that runs and one that waits for each: most places are one task.

    slots  tasks that run at the same time; 0 where the driver runs them itself
    """
    if not slots:
        return 1
    return _FEWEST + max(min(_MANY, _FOR_EACH_SLOT * slots), _AT_LEAST * slots)
