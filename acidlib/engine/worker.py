"""The worker: carries compactions out, wave by wave. The tasks of a wave run together, as few Spark jobs.

One partition's failure never stops the others. Only this driver-side code talks to the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from acidlib.engine.backend import Backend
from acidlib.engine.compact_place import Job, Looks, PlaceCompactor, Units
from acidlib.engine.runner import Done, Value
from acidlib.engine.services import Services
from acidlib.engine.tasks import look_task
from acidlib.engine.units import run_units
from acidlib.errors import AcidError
from acidlib.model.units import RewriteSettings
from acidlib.report.results import CompactionResult

WAVE = 32
"""Partitions that share Spark jobs: enough to keep executors busy, few enough that the first results come early."""


class _Ongoing:
    """A job of a wave: what it asks for, or how it ended."""

    def __init__(self, job: Job, compactor: PlaceCompactor) -> None:
        self.job = job
        self._compactor = compactor
        self._steps = compactor.steps(job)
        self._is_begun = False
        self.stands_at: Looks | Units | CompactionResult | None = None

    def begin(self) -> None:
        """Go on to the first question."""
        self._is_begun = True
        self._advance(lambda: next(self._steps))

    def answer(self, answers: list[Done[Any]]) -> None:
        """Go on to the next question, or the end."""
        self._advance(lambda: self._steps.send(answers))

    def give_up(self) -> None:
        """Give back what is not done; nothing else happens to what has ended."""
        if self._is_begun:
            self._steps.close()
        else:
            self._compactor.give_back(self.job)

    def _advance(self, step: Callable[[], Looks | Units]) -> None:
        try:
            self.stands_at = step()
        except StopIteration as end:
            self.stands_at = end.value


class Worker:
    """Carries out compactions with the services of one run."""

    def __init__(self, services: Services, backend: Backend, *, settings: RewriteSettings) -> None:
        self._services = services
        self._compactor = PlaceCompactor(services, backend, settings)

    def compact(self, jobs: Iterable[Job]) -> Iterator[CompactionResult]:
        """The results, as their waves end. `jobs` is drawn from lazily, so a budget can stop it."""
        source = iter(jobs)
        while True:
            wave, error = self._next_wave(source)
            if wave:
                yield from self._wave([_Ongoing(job, self._compactor) for job in wave])
            if error is not None:
                raise error
            if not wave:
                return

    def _next_wave(self, source: Iterator[Job]) -> tuple[list[Job], AcidError | None]:
        """The jobs of a wave, and what kept it from being larger: what has been taken is done before that is raised."""
        wave: list[Job] = []
        try:
            wave.extend(islice(source, WAVE))
        except AcidError as error:
            return wave, error
        except BaseException:
            for job in wave:
                self._compactor.give_back(job)
            raise
        return wave, None

    def _wave(self, wave: Sequence[_Ongoing]) -> Iterator[CompactionResult]:
        try:
            for one in wave:
                one.begin()
            self._look(wave)
            made = self._make(wave)
            for one in wave:
                if one in made:
                    one.answer(made[one])
                while isinstance(one.stands_at, Units):
                    one.answer(self._make([one])[one])
                if isinstance(one.stands_at, CompactionResult):
                    result = one.stands_at
                    self._services.progress.note(f"{result.name}: {result.state.value}, {result.reason}")
                    yield result
        except BaseException:
            for one in wave:
                one.give_up()
            raise

    def _look(self, wave: Sequence[_Ongoing]) -> None:
        """Answer all that ask what files hold, by one job."""
        asking = [(one, one.stands_at.tasks) for one in wave if isinstance(one.stands_at, Looks)]
        looks = [look for _, tasks in asking for look in tasks]
        found = iter(self._run(look_task, looks, [one for one, _ in asking], "looks into files"))
        for one, tasks in asking:
            one.answer(list(islice(found, len(tasks))))

    def _make(self, wave: Sequence[_Ongoing]) -> dict[_Ongoing, list[Done[Any]]]:
        """The answers for all that ask for files to be made, by as few jobs as their sizes allow."""
        asking = [(one, one.stands_at.tasks) for one in wave if isinstance(one.stands_at, Units)]
        names = [one for one, _ in asking]
        units = [unit for _, tasks in asking for unit in tasks]
        found = iter(run_units(lambda work, items, what: self._run(work, items, names, what), units))
        return {one: list(islice(found, len(tasks))) for one, tasks in asking}

    def _run(
        self, work: Callable[[Any, str], Value], items: Sequence[Any], wave: Sequence[_Ongoing], what: str
    ) -> list[Done[Value]]:
        """One Spark job for a wave, named after what it compacts."""
        if not items:
            return []
        progress = self._services.progress
        more = f" and {len(wave) - 1} more" if wave[1:] else ""
        name = f"{self._services.host}-compactor-{wave[0].job.target.name}{more}"
        progress.start(f"{name}: {what}", len(items))
        try:
            return self._services.runner.run(work, items, group=name, on_progress=progress.advance)
        except AcidError as error:
            return [Done(outcome=error)] * len(items)
        finally:
            progress.finish()
