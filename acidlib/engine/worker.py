"""The worker: carries compactions out, wave by wave, and publishes each partition on its own.

Claim, list, plan, run, prove, publish; one partition's failure never stops the others. Only this driver-side code talks
to the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from acidlib.engine.attempts import fingerprint, note_of
from acidlib.engine.backend import Backend, Hold, Taken
from acidlib.engine.leftovers import finish_claimed
from acidlib.engine.prepare import Prepared, prepare
from acidlib.engine.runner import Done, Value
from acidlib.engine.services import Services
from acidlib.engine.target import LOCK_TRIES, Target
from acidlib.engine.tasks import UnitTask, look_task
from acidlib.engine.units import run_units
from acidlib.errors import AcidError, ConflictError, DefectError, RefusedError, UnknownOutcomeError
from acidlib.model.names import LONG_MAX
from acidlib.model.requests import CompactionType
from acidlib.model.units import JoinUnit, RewriteSettings, Unit, UnitResult
from acidlib.planning.inputs import Publication as PlannedPublication
from acidlib.planning.inputs import Refusal
from acidlib.planning.overlap import overlapping_outputs
from acidlib.points import Point, passing
from acidlib.report.results import CompactionResult, Outcome
from acidlib.storage.listing import list_location
from acidlib.storage.publishing import Published, publish, publish_hidden, take_back
from acidlib.storage.records import StagedDirectory, StagedFile
from acidlib.storage.staging import PUBLISH_RECORD, accept_attempt, add_output_directory, create_staging, remove_staging
from acidlib.storage.unfinished import unfinished_publications

MAX_LOCK_TRIES = 3
WAVE = 32
"""Partitions that share Spark jobs: enough to keep executors busy, few enough that the first results come early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One compaction to carry out.

    taken  our request; None plans only (dry run)
    named  asked for by name in this run: after a conflict it is not left in the queue
    why    the initiator's reason, where there is one
    files  the fingerprint of the place, where it was looked at before
    """

    target: Target
    kind: CompactionType
    taken: Taken | None
    named: bool
    why: str | None = None
    files: str | None = None


@dataclass(slots=True, kw_only=True)
class _Running:
    """One compaction on its way through a wave; `files` is the fingerprint of what the compaction itself has listed."""

    job: Job
    target: Target
    start: float
    hold: Hold | None = None
    prepared: Prepared | None = None
    staging: str | None = None
    units: tuple[Unit, ...] | tuple[JoinUnit, ...] = ()
    done: list[Done[UnitResult]] = field(default_factory=list)
    result: CompactionResult | None = None
    closed: bool = False
    files: str | None = None


class Worker:
    """Carries out compactions with the services of one run."""

    def __init__(self, services: Services, backend: Backend, *, settings: RewriteSettings) -> None:
        self._services = services
        self._backend = backend
        self._settings = settings

    def compact(self, jobs: Iterable[Job]) -> Iterator[CompactionResult]:
        """The results, as their waves end. `jobs` is drawn from lazily, so a budget can stop it."""
        source = iter(jobs)
        while True:
            wave, error = self._next_wave(source)
            if wave:
                yield from self._wave(wave)
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
            now = self._services.clock()
            self._abandon([_Running(job=job, target=job.target, start=now) for job in wave])
            raise
        return wave, None

    def _wave(self, jobs: Sequence[Job]) -> Iterator[CompactionResult]:
        running = [_Running(job=job, target=job.target, start=self._services.clock()) for job in jobs]
        with ExitStack() as stack:
            try:
                for one in running:
                    self._guarded(one, self._begin, one, stack)
                self._plan_units([one for one in running if one.result is None])
                self._run_units([one for one in running if one.result is None])
                for one in running:
                    if one.result is None:
                        self._guarded(one, self._finish, one)
                    self._close(one)
                    assert one.result is not None
                    self._services.progress.note(f"{one.result.name}: {one.result.state.value}, {one.result.reason}")
                    yield one.result
            except BaseException:
                self._abandon([one for one in running if not one.closed])
                raise

    # --- steps ----------------------------------------------------------------------------------------------------

    def _begin(self, one: _Running, stack: ExitStack) -> None:
        services, target = self._services, one.target
        if one.job.taken is not None:
            one.hold = self._backend.hold(one.job.taken)
            stack.callback(self._let_go, one)
            passing(Point.TAKEN)
            one.target = target = one.hold.begin()
            passing(Point.CLAIMED)
            hold = one.hold
            for record in finish_claimed(
                services.fs, target.location, lambda: hold.publishing(PlannedPublication.TWO_RENAMES)
            ):
                services.progress.note(
                    f"{target.name}: publication of {', '.join(record.directories)} {record.outcome}"
                )
        elif unfinished_publications(services.fs, target.location):
            raise RefusedError(
                f"Cannot plan a compaction of {target.name}: because a publication there is unfinished; a run that is "
                "no dry run finishes it"
            )
        listing = list_location(services.fs, target.location, missing=RefusedError)
        one.files = fingerprint(target, listing, services.settings)
        limit, automatic = self._limit(one.job), one.job.why is not None
        found = prepare(services.fs, target, listing, one.job.kind, minor_as_major_bytes=limit, automatic=automatic)
        if isinstance(found, Refusal):
            if found.cleaning_only:
                one.files = None  # it is not for the files alone that there is nothing to do
            one.result = self._left_to_the_cleaner(one, found) or self._result(one, Outcome.REFUSED, found.reason)
            return
        one.prepared = found
        if one.hold is not None:
            one.hold.start(found.inputs.high_water_mark)
            passing(Point.STARTED)

    def _limit(self, job: Job) -> int:
        """Up to which base a mixed minor is a major: any, when two renames failed for want of a lock often enough."""
        if _lock_tries(job) >= MAX_LOCK_TRIES:
            return LONG_MAX
        return self._services.settings.integer("acidlib.minor.as.major.bytes")

    def _left_to_the_cleaner(self, one: _Running, refusal: Refusal) -> CompactionResult | None:
        """Nothing to merge, but something obsolete: a request to clean only (Hive Worker), unless one waits already."""
        mark = refusal.high_water_mark
        if one.hold is None or not refusal.cleaning_only or mark is None or not 0 <= mark < LONG_MAX:
            return None
        if not one.hold.only_clean(mark):
            return None
        return self._result(
            one, Outcome.READY_FOR_CLEANING, f"{refusal.reason}; what is obsolete there is left to the cleaner"
        )

    def _plan_units(self, running: list[_Running]) -> None:
        """Look into files for all partitions of the wave in one job, where that decides what the units are."""
        looks = [(one, look) for one in running if one.prepared for look in one.prepared.looks()]
        found = self._run(look_task, [look for _, look in looks], running, "looks into files")
        told: dict[int, dict[str, Done[Any]]] = {}
        for (one, look), done in zip(looks, found, strict=True):
            told.setdefault(id(one), {})[look.file.path] = done
        for one in running:
            self._guarded(one, self._plan, one, told.get(id(one), {}))

    def _plan(self, one: _Running, found: Mapping[str, Done[Any]]) -> None:
        assert one.prepared is not None
        one.units = one.prepared.units(
            {path: done.get() for path, done in found.items()}, self._settings, self._services.settings
        )

    def _run_units(self, running: list[_Running]) -> None:
        for one in running:
            if one.hold is not None:
                self._guarded(one, self._stage, one)
        running = [one for one in running if one.result is None]
        units = [(one, UnitTask(work=unit, staging=one.staging)) for one in running for unit in one.units]
        found = run_units(
            lambda work, items, what: self._run(work, items, running, what), [staged for _, staged in units]
        )
        for (one, _), done in zip(units, found, strict=True):
            one.done.append(done)

    def _stage(self, one: _Running) -> None:
        services = self._services
        one.staging = create_staging(
            services.fs,
            one.target.location,
            unique=services.unique(),
            owner=services.worker_id,
            now=services.clock(),
        )
        passing(Point.STAGED)

    def _finish(self, one: _Running) -> None:
        assert one.prepared is not None
        units = tuple(done.get() for done in one.done)
        if one.hold is None:
            one.result = self._result(one, Outcome.PLANNED, self._why(one), units=units)
            return
        if not any(unit.path for unit in units):
            units = self._with_a_file(one, units)
        published = self._publish(one, one.hold, one.prepared, units)
        one.result = self._result(one, Outcome.READY_FOR_CLEANING, self._why(one), units=units, published=published)

    def _with_a_file(self, one: _Running, units: tuple[UnitResult, ...]) -> tuple[UnitResult, ...]:
        """The results with an empty bucket file: readers that list files alone would go on reading what is replaced."""
        first = next((unit for unit in one.units if isinstance(unit, Unit)), None)
        if first is None:
            return units
        staged = UnitTask(work=replace(first, keep_empty=True), staging=one.staging)
        (done,) = run_units(lambda work, items, what: self._run(work, items, [one], what), [staged])
        return (done.get(), *units[1:])

    def _publish(self, one: _Running, hold: Hold, prepared: Prepared, units: tuple[UnitResult, ...]) -> Published:
        services, location = self._services, one.target.location
        assert one.staging is not None
        directories = self._collect(one.staging, prepared, units)
        passing(Point.ACCEPTED)

        def last_check() -> None:
            txns = hold.assert_mine(prepared.inputs.high_water_mark)
            now = list_location(services.fs, location, missing=ConflictError)
            reason = overlapping_outputs(
                now, prepared.inputs, prepared.state, generation=prepared.generation, txns=txns
            )
            if reason is not None:
                raise ConflictError(f"Cannot publish {one.target.name}: because {reason}")

        inputs = tuple(entry.path for entry in prepared.inputs.directories if entry.path)
        with hold.publishing(prepared.inputs.publication):
            if prepared.inputs.publication is PlannedPublication.COMMIT:
                published = publish_hidden(services.fs, location, one.staging, directories, last_check=last_check)
            else:
                published = publish(
                    services.fs, location, one.staging, directories, inputs=inputs, last_check=last_check
                )
            if published.leftover is None:
                one.staging = None
            passing(Point.PUBLISHED)
            try:
                hold.published(published.directories)
            except UnknownOutcomeError:
                raise
            except AcidError:
                # a transaction that can never commit: nobody has seen these
                if prepared.inputs.publication is PlannedPublication.COMMIT:
                    take_back(services.fs, location, published.directories)
                raise
        return published

    def _collect(self, staging: str, prepared: Prepared, units: tuple[UnitResult, ...]) -> tuple[StagedDirectory, ...]:
        """Move the attempts that count to their places. An empty twin is not published, but one directory always is."""
        fs = self._services.fs
        outputs = [output.path for output in prepared.inputs.outputs]
        filled = [path for path in outputs if any(unit.has_content for unit in units if unit.directory == path)]
        staged = []
        for path in filled or outputs[:1]:
            add_output_directory(fs, staging, path)
            files = []
            for unit in units:
                if unit.directory == path and unit.path is not None:
                    accept_attempt(fs, staging, unit.path, path, unit.file_name)
                    files.append(StagedFile(name=unit.file_name, length=unit.length))
            staged.append(StagedDirectory(name=path, files=tuple(files)))
        return tuple(staged)

    @staticmethod
    def _why(one: _Running) -> str:
        """Why this was done, in this way."""
        assert one.prepared is not None
        inputs = one.prepared.inputs
        changed = inputs.kind is not inputs.requested
        parts = [one.job.why] if one.job.why is not None else []
        if changed and _lock_tries(one.job) >= MAX_LOCK_TRIES:
            told = f"an exclusive lock for two renames was not granted {MAX_LOCK_TRIES} times, so it is done as a major"
            return "; ".join([*parts, told])
        return "; ".join(parts + ([inputs.reason] if changed or not parts else []))

    # --- endings --------------------------------------------------------------------------------------------------

    def _guarded(self, one: _Running, step: Callable[..., object], *given: Any) -> None:
        """Run a step; what it raises ends this compaction and no other."""
        try:
            step(*given)
        except ConflictError as error:
            one.result = self._result(one, Outcome.CONFLICT, str(error))
        except RefusedError as error:
            one.result = self._result(one, Outcome.REFUSED, str(error))
        except UnknownOutcomeError as error:
            one.result = self._result(one, Outcome.FAILED, str(error))
        except AcidError as error:
            one.result = self._failed(one, error)
        except Exception as error:
            # a fault of ours in one partition must not keep the others from being done
            told = DefectError(
                f"Cannot compact {one.target.name}: because of an unexpected {type(error).__name__}: {error}"
            )
            one.result = self._result(one, Outcome.FAILED, str(told))

    def _failed(self, one: _Running, error: AcidError) -> CompactionResult:
        """It failed; or somebody else has the place now, and what he changed there is why."""
        try:
            if one.hold is not None:
                one.hold.assert_held()
        except ConflictError as lost:
            return self._result(one, Outcome.CONFLICT, f"{lost}; then: {error}")
        except AcidError:
            pass  # the first error is the one to tell
        return self._result(one, Outcome.FAILED, str(error))

    def _close(self, one: _Running) -> None:
        """Tell the queue, remove staging, give the partition back. Nothing here can undo what was published."""
        result = one.result
        assert result is not None
        one.closed = True
        try:
            try:
                note = None
                if one.hold is not None:
                    note = one.hold.end(result.state, result.reason, named=one.job.named, note=self._note(one))
                passing(Point.ENDED)
                if note is not None:
                    one.result = replace(result, reason=f"{result.reason}; {note}")
            finally:
                self._remove_staging(one)
                if one.hold is not None:
                    one.hold.close()
        except AcidError as error:
            self._services.progress.note(f"{result.name}: {error}")
            if result.state is not Outcome.READY_FOR_CLEANING:
                one.result = replace(result, reason=f"{result.reason}; then: {error}")

    @staticmethod
    def _note(one: _Running) -> str | None:
        """What a compaction that was not carried out notes of the place.

        A refusal before the place was listed is about the request: it may have been made for another table.
        """
        assert one.result is not None
        state = one.result.state
        files = one.files if state is Outcome.REFUSED else one.files or one.job.files
        if files is None or state not in (Outcome.REFUSED, Outcome.FAILED, Outcome.CONFLICT):
            return None
        return note_of(files, is_conflict=state is Outcome.CONFLICT)

    def _let_go(self, one: _Running) -> None:
        """Give the place back, as far as that was not done; it goes stale by itself, so no error of this one counts."""
        assert one.hold is not None
        try:
            one.hold.close()
        except AcidError as error:
            self._services.progress.note(f"{one.target.name}: {error}")

    def _remove_staging(self, one: _Running) -> None:
        """Remove what was staged, unless half of it may be visible: then it is needed to finish the publication."""
        fs, staging = self._services.fs, one.staging
        if staging is not None and not fs.exists(f"{staging}/{PUBLISH_RECORD}"):
            remove_staging(fs, one.target.location, staging)

    def _abandon(self, running: Sequence[_Running]) -> None:
        """The run is interrupted: what it has begun goes back to the queue. The places are given back by their stack.

        A request of the wave that was not begun yet has no hold, but is ours all the same.
        """
        for one in running:
            try:
                self._remove_staging(one)
                hold = one.hold
                if hold is None and one.job.taken is not None:
                    hold = self._backend.hold(one.job.taken)
                if hold is not None:
                    hold.abandon()
            except AcidError:
                continue  # already told to the queue, or it is found to be dead later

    def _result(
        self,
        one: _Running,
        state: Outcome,
        reason: str,
        *,
        units: tuple[UnitResult, ...] | None = None,
        published: Published | None = None,
    ) -> CompactionResult:
        target, prepared = one.target, one.prepared
        inputs = None if prepared is None else prepared.inputs
        return CompactionResult(
            id=None if one.job.taken is None else one.job.taken.request.id,
            database=target.database,
            table=target.table,
            location=target.location,
            partition=target.partition,
            type=(one.job.kind if inputs is None else inputs.kind).label.lower(),
            state=state,
            reason=reason,
            publication=_publication(inputs, published),
            min_write_id=None if inputs is None else inputs.min_write_id,
            max_write_id=None if inputs is None else inputs.max_write_id,
            high_water_mark=None if inputs is None else inputs.high_water_mark,
            inputs=() if inputs is None else tuple(entry.path or "original files" for entry in inputs.directories),
            empty_files=() if inputs is None else inputs.empty_files,
            output_directories=_outputs(inputs, units, published),
            units=units,
            seconds=self._services.clock() - one.start,
        )

    def _run(
        self, work: Callable[[Any, str], Value], items: Sequence[Any], running: Sequence[_Running], what: str
    ) -> list[Done[Value]]:
        """One Spark job for a wave, named after what it compacts."""
        progress = self._services.progress
        if not items:
            return []
        names = [one.target.name for one in running]
        name = f"{self._services.host}-compactor-{names[0]}" + (f" and {len(names) - 1} more" if names[1:] else "")
        progress.start(f"{name}: {what}", len(items))
        try:
            return self._services.runner.run(work, items, group=name, on_progress=progress.advance)
        except AcidError as error:
            return [Done(error=error)] * len(items)
        finally:
            progress.finish()


def _lock_tries(job: Job) -> int:
    return int(job.taken.request.property(LOCK_TRIES) or 0) if job.taken is not None else 0


def _publication(inputs: object, published: Published | None) -> str | None:
    if published is not None:
        return published.kind
    planned = getattr(inputs, "publication", None)
    return None if planned is None else str(planned.value)


def _outputs(inputs: object, units: tuple[UnitResult, ...] | None, published: Published | None) -> tuple[str, ...]:
    if published is not None:
        return published.directories
    if inputs is None or units is None:
        return ()
    planned = [output.path for output in getattr(inputs, "outputs", ())]
    filled = [path for path in planned if any(unit.has_content for unit in units if unit.directory == path)]
    return tuple(filled or planned[:1])
