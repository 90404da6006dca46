"""One compaction from its claim to its end: hold the place, list, plan, have its files made, prove, publish."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from acidlib.errors import (
    AcidError,
    BusyError,
    ConflictError,
    DefectError,
    MissingError,
    RefusedError,
    UnknownOutcomeError,
    UnverifiedError,
)
from acidlib.model.names import LONG_MAX, DeltaDir, parse_directory
from acidlib.model.requests import CompactionType
from acidlib.model.units import JoinUnit, RewriteSettings, Unit, UnitResult
from acidlib.planning.clean import is_reached
from acidlib.planning.inputs import CompactionInputs, Publication, Refusal, lacks_number, overlapping_outputs
from acidlib.planning.stripes import part_bytes_on
from acidlib.planning.undo import digest_of_inputs
from acidlib.points import Point, passing
from acidlib.report.progress import WARNING
from acidlib.report.results import CompactionResult, Outcome, Verification
from acidlib.rewrite.rebalance import RebalanceUnit
from acidlib.service.attempts import fingerprint, note_of
from acidlib.service.backend import Backend, HeldPlace, Hold, Taken
from acidlib.service.leftovers import finish_claimed
from acidlib.service.places import ListedPlace, Target
from acidlib.service.plan import (
    Errand,
    Prepared,
    collect_results,
    filled_directories,
    make_file,
    one_task,
    prepare,
    rebalanced,
)
from acidlib.service.schedule import Steps as FlowSteps
from acidlib.service.services import Done, Services, Task
from acidlib.service.tasks import Look, UnitTask, look_task
from acidlib.service.verify import Compacted, Verifier, made_by
from acidlib.stores.listing import list_location
from acidlib.stores.renaming.publishing import Published, StagedDirectory, take_back
from acidlib.stores.store import Stage

# --- so far -----------------------------------------------------------------------------------------------------------
# A compaction that is asked for, and what is known of it so far: all that its result tells, wherever it ends.

MAX_LOCK_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One compaction to carry out.

    taken   our request; None plans only (dry run)
    named   asked for by name in this run: after a conflict it is not left in the queue
    why     the initiator's reason, where there is one
    listed  the place as the run has listed it before, where it has
    wanted_buckets  into how many it is to be rebalanced, where that is planned only
    """

    target: Target
    kind: CompactionType
    taken: Taken | None
    named: bool
    why: str | None = None
    listed: ListedPlace | None = None
    wanted_buckets: int | None = None

    @property
    def buckets(self) -> int | None:
        """Into how many buckets a place is to be rebalanced, where that is stated."""
        return self.wanted_buckets if self.taken is None else self.taken.request.bucket_count

    @property
    def lock_tries(self) -> int:
        """How often an exclusive lock for two renames was not granted."""
        return self.taken.request.facts.lock_tries if self.taken is not None else 0


@dataclass(slots=True, kw_only=True)
class SoFar:
    """What is known of a compaction so far: all that its result tells when it ends here.

    ready  when the run could run tasks; until then a compaction has waited for that, not for its own work
    """

    job: Job
    clock: Callable[[], float]
    start: float
    ready: Callable[[], float]
    target: Target
    place: ListedPlace | None = None
    inputs: CompactionInputs | None = None
    units: tuple[UnitResult, ...] | None = None
    published: Published | None = None
    verification: Verification | None = None
    may_be_visible: bool = False

    def result(
        self,
        state: Outcome,
        reason: str,
        *,
        units: tuple[UnitResult, ...] | None = None,
        published: Published | None = None,
    ) -> CompactionResult:
        """The result of a compaction that ends like this, now."""
        target, inputs, listed = self.target, self.inputs, self.place or self.job.listed
        result = CompactionResult(
            id=None if self.job.taken is None else self.job.taken.request.id,
            ref=target.ref,
            location=str(target.location),
            type=self.job.kind.label.lower(),
            state=state,
            reason=reason,
            units=units,
            start_ms=int(self.start * 1000),
            seconds=max(0.0, self.clock() - max(self.start, self.ready())),
            deltas_before=None if listed is None else listed.deltas,
            verification=self.verification,
        )
        if inputs is None:
            return replace(result, deltas_after=None if result.is_bad else result.deltas_before)
        directories = () if units is None else filled_directories(inputs, units)
        visible = directories if published is None else published.directories
        return replace(
            result,
            type=inputs.kind.label.lower(),
            publication=str(inputs.publication.value) if published is None else published.kind,
            min_write_id=inputs.min_write_id,
            max_write_id=inputs.max_write_id,
            high_water_mark=inputs.high_water_mark,
            inputs=tuple(entry.path or "original files" for entry in inputs.directories),
            empty_files=inputs.empty_files,
            output_directories=visible,
            deltas_after=None if units is None or listed is None else deltas_after(listed, inputs, visible),
            bytes_in=sum(file.length for entry in inputs.directories for file in entry.files),
        )


def deltas_after(place: ListedPlace, inputs: CompactionInputs, results: Sequence[str]) -> int:
    """How many deltas a reader has to merge when results have taken the place of their inputs."""
    merged = {entry.path for entry in inputs.directories}
    left = sum(delta.path not in merged for delta in place.state.deltas)
    return left + sum(isinstance(parse_directory(name, place.generation), DeltaDir) for name in results)


def why_so(job: Job, inputs: CompactionInputs) -> str:
    """Why this was done, in this way."""
    changed = inputs.kind is not inputs.requested
    parts = [job.why] if job.why is not None else []
    if changed and job.lock_tries >= MAX_LOCK_TRIES:
        parts.append(
            f"an exclusive lock for two renames was not granted {MAX_LOCK_TRIES} times, so it is done as a major"
        )
    elif changed or not parts:
        parts.append(inputs.reason)
    return "; ".join(parts)


# --- compact place ----------------------------------------------------------------------------------------------------
# Written as one run of steps that stops where tasks have to run: `schedule` has many compactions under way. Whatever is
# raised in between ends this compaction and no other; an interrupt gives it back.

Steps = FlowSteps[CompactionResult]
Made = TypeVar("Made")
Part = Generator[tuple[Errand, ...], list[Done[Any]], Made]
"""Some of the steps, and what comes of them."""


class PlaceCompactor:
    """Compacts places with the services of one run."""

    def __init__(
        self,
        services: Services,
        backend: Backend,
        settings: RewriteSettings,
        *,
        release_held: bool = False,
    ) -> None:
        """`release_held`: what is at a place counts, though its verification failed; a person says so."""
        self._services = services
        self._backend = backend
        self._settings = settings
        self._verifier = Verifier(services, release_held=release_held)
        self._ready = 0.0

    def tasks_can_run(self) -> None:
        """The time of what is under way counts from now on."""
        self._ready = self._services.clock()

    def steps(self, job: Job) -> Steps:
        """Carry a job out, or plan it. Closed before its end, it gives its request and its place back."""
        clock = self._services.clock
        found = SoFar(job=job, clock=clock, start=clock(), ready=lambda: self._ready, target=job.target)
        if job.taken is None:
            return (yield from self._guarded(self._plan_alone(found), found, None))
        hold = self._backend.hold(job.taken)
        try:
            try:
                result = yield from self._guarded(self._carry_out(found, hold), found, hold)
            except BaseException:
                with suppress(AcidError):  # the queue knows how it ended, or it is found to be dead later
                    hold.abandon(may_be_visible=found.may_be_visible)
                raise
            return self._end(found, hold, result)
        finally:
            self._let_go(hold, job.target)

    def give_back(self, job: Job) -> None:
        """Another may carry out a job whose steps were not begun."""
        if job.taken is not None:
            with suppress(AcidError):  # it is found to be dead later
                self._backend.hold(job.taken).abandon()

    # --- the way of one compaction --------------------------------------------------------------------------------

    def _plan_alone(self, found: SoFar) -> Steps:
        services, target = self._services, found.target
        fs = services.fs(target.location)
        place = found.job.listed or target.listed(list_location(fs, target.location, missing=RefusedError))
        if place.holds_staging and services.store(target.location).unfinished(target.location):
            raise RefusedError(
                f"Cannot plan a compaction of {target.ref}: a publication there is unfinished; a run without "
                "--dry-run finishes it"
            )
        why_not = self._verifier.why_not(self._backend.unverified(place), place.target)
        if why_not is not None:
            return _at_held_place(found, why_not)
        plan = self._plan(found, place)
        if isinstance(plan, Refusal):
            return found.result(_outcome_of(plan), plan.reason)
        results = yield from self._made((yield from self._units(plan, found.job)), None)
        return found.result(Outcome.PLANNED, why_so(found.job, plan.inputs), units=results)

    def _carry_out(self, found: SoFar, hold: Hold) -> Steps:
        passing(Point.TAKEN)
        held, place = self._held(found, hold)
        found.place = place
        released = yield from self._verifier.released(held, place)
        if released.why_not is not None:
            return _at_held_place(found, released.why_not)
        found.verification = released.verification
        plan = self._plan(found, place)
        if isinstance(plan, Refusal):
            return self._nothing_to_merge(found, held, place, plan)
        if plan.inputs.kind is CompactionType.REBALANCE and lacks_number(place.state):
            raise ConflictError(
                f"Cannot rebalance {found.target.ref}: {plan.inputs.directories[0].path} has the highest write id "
                "that is not open, and nothing tells two bases of one number apart; call again when the transactions "
                "that write there have ended"
            )
        held.start(plan.inputs.high_water_mark, _digest(plan))
        passing(Point.STARTED)
        units = yield from self._units(plan, found.job)
        with self._staged(found.target) as stage:
            results = yield from self._made(units, stage.path)
            first = units[0] if units else None
            if isinstance(first, Unit) and not any(result.path for result in results):
                # readers that list files alone would go on reading what is replaced
                kept = yield from self._made((replace(first, keep_empty=True),), stage.path)
                results = (*kept, *results[1:])
            directories = collect_results(stage, plan.inputs, results)
            passing(Point.ACCEPTED)
            done = made_by(plan, units, directories, stage)
            if self._verifier.is_wanted and stage.is_readable:
                found.verification = yield from self._verified_unseen(held, plan, done, released.share)
            is_late = self._verifier.is_wanted and not stage.is_readable
            with self._verifier.around_publication(held, done.results) if is_late else nullcontext():
                found.may_be_visible = True
                published = self._publish(held, plan, stage, directories, marks=not is_late)
        if is_late:
            found.units, found.published = results, published
            yield from self._verified_seen(found, held, plan, done, released.share)
        result = found.result(
            Outcome.READY_FOR_CLEANING, why_so(found.job, plan.inputs), units=results, published=published
        )
        return replace(result, statistics=held.update_statistics(published.directories, result.total("rows_out")))

    def _verified_unseen(self, held: HeldPlace, plan: Prepared, done: Compacted, share: float) -> Part[Verification]:
        """Compare what is staged with what was there, before any reader sees it."""
        held.will_verify(())
        try:
            verification = yield from self._verifier.compared(done, held.request_id, share)
        except UnverifiedError:
            held.assert_mine(plan.inputs.high_water_mark)  # or another run has taken the stage away
            raise
        passing(Point.VERIFIED)
        return verification

    def _verified_seen(
        self, found: SoFar, held: HeldPlace, plan: Prepared, done: Compacted, share: float
    ) -> Part[None]:
        """Compare what is published with what was there, and only then let it count."""
        is_hidden = plan.inputs.publication is Publication.COMMIT
        try:
            found.verification = yield from self._verifier.compared(done, held.request_id, share)
            passing(Point.VERIFIED)
            held.assert_mine(plan.inputs.high_water_mark)
        except AcidError:
            if is_hidden:  # it never commits
                take_back(self._services.fs(held.target.location), held.target.location, done.results)
            raise
        self._mark(held, done.results, is_hidden=is_hidden)

    def _held(self, found: SoFar, hold: Hold) -> tuple[HeldPlace, ListedPlace]:
        """The place, which is ours from here on. What the run has listed before holds if it has not changed since."""
        services, before = self._services, found.job.listed
        if before is not None and (before.holds_staging or not _is_unchanged(services, before)):
            before = None
        if found.job.kind is CompactionType.REBALANCE:
            before = None  # what was deleted before the lock was had has to be known, or it would be back
        held = hold.begin()
        target = found.target = held.target
        passing(Point.CLAIMED)
        if before is not None:
            return held, before.held_as(target)
        store, location = services.store(target.location), target.location
        for record in finish_claimed(store, location, lambda: held.publishing(Publication.TWO_RENAMES)):
            what = f"publication of {', '.join(record.directories)} {record.outcome}"
            services.progress.note(what, place=str(target.ref))
        return held, target.listed(list_location(services.fs(location), location, missing=RefusedError))

    def _plan(self, found: SoFar, place: ListedPlace) -> Prepared | Refusal:
        services, job = self._services, found.job
        found.place = place
        limit = services.settings.integer("acidlib.minor.as.major.bytes")
        if job.lock_tries >= MAX_LOCK_TRIES:
            limit = LONG_MAX  # two renames failed for want of a lock often enough: a major of any base
        plan = prepare(
            services.stores,
            place,
            job.kind,
            minor_as_major_bytes=limit,
            automatic=job.why is not None,
        )
        if isinstance(plan, Prepared):
            found.inputs = plan.inputs
        return plan

    def _nothing_to_merge(
        self, found: SoFar, held: HeldPlace, place: ListedPlace, refusal: Refusal
    ) -> CompactionResult:
        """Make it a request to clean only (Hive Worker), if something is obsolete that no waiting request reaches."""
        mark = refusal.high_water_mark
        if (
            refusal.cleaning_only
            and mark is not None
            and 0 <= mark < LONG_MAX
            and not is_reached(place.listing, mark, place.write_ids, held.awaited_marks(), generation=place.generation)
        ):
            held.only_clean(mark)
            reason = f"{refusal.reason}; what is obsolete there is left to the cleaner"
            return found.result(Outcome.READY_FOR_CLEANING, reason)
        return found.result(_outcome_of(refusal), refusal.reason)

    def _units(
        self, plan: Prepared, job: Job
    ) -> Part[tuple[Unit, ...] | tuple[JoinUnit, ...] | tuple[RebalanceUnit, ...]]:
        """The files to make, once has been looked into what decides them."""
        stores, location = self._services.stores, plan.place.target.location
        looks = [Look(stores=stores, location=location, file=file, ways=ways) for file, ways in plan.files_to_read()]
        tasks = [Task(look_task, look, look.file.length, "look") for look in looks]
        answers = yield tuple(one_task(task) for task in (*tasks, *self._verifier.tasks()))
        for done in answers[len(looks) :]:
            done.get()
        values = {look.file.path: done.get() for look, done in zip(looks, answers[: len(looks)], strict=True)}
        part_bytes = part_bytes_on(self._services.runner.slots, self._settings.part_bytes)
        units = plan.units(values, replace(self._settings, part_bytes=part_bytes), self._services.settings)
        if plan.inputs.kind is not CompactionType.REBALANCE:
            return units
        before = tuple(unit for unit in units if isinstance(unit, Unit))
        # where no row is left, it is what a major makes of it
        return (yield from rebalanced(stores, plan, before, job.buckets)) or before

    def _made(
        self, units: tuple[Unit, ...] | tuple[JoinUnit, ...] | tuple[RebalanceUnit, ...], staging: str | None
    ) -> Part[tuple[UnitResult, ...]]:
        answers = yield tuple(
            make_file(UnitTask(unit=unit, staging=staging, stores=self._services.stores)) for unit in units
        )
        return tuple(done.get() for done in answers)

    @contextmanager
    def _staged(self, target: Target) -> Iterator[Stage]:
        """A stage. It stays where half of it may be visible: then it is needed to finish the publication.

        Nothing that fails in its removal undoes what was published.
        """
        services = self._services
        stage = services.store(target.location).stage(
            target.location, unique=services.unique(), owner=services.worker_id, now=services.clock()
        )
        passing(Point.STAGED)
        try:
            yield stage
        finally:
            try:
                left = stage.discard()
            except AcidError as error:
                left = str(error)
            if left is not None:
                note = f"{left}; a cleaning removes it when it is a day old"
                services.progress.note(note, level=WARNING, place=str(target.ref))

    def _publish(
        self, held: HeldPlace, plan: Prepared, stage: Stage, directories: tuple[StagedDirectory, ...], *, marks: bool
    ) -> Published:
        """Make the results visible; `marks`: they count from then on."""
        location, inputs = held.target.location, plan.inputs
        fs = self._services.fs(location)

        def last_check() -> None:
            held.assert_mine(inputs.high_water_mark)
            now = list_location(fs, location, missing=ConflictError)
            overlapping = partial(overlapping_outputs, now, inputs, plan.place.state, generation=plan.place.generation)
            reason = overlapping()
            if reason is not None:  # unless that is of a transaction that was aborted, which is not asked in vain
                reason = overlapping(txns=held.transactions_now())
            if reason is not None:
                raise ConflictError(f"Cannot publish {held.target.ref}: {reason}; nothing was published, call again")

        is_hidden = inputs.publication is Publication.COMMIT
        way = inputs.publication
        if way is Publication.FILE_BY_FILE and sum(len(directory.files) for directory in directories) == 1:
            way = Publication.ONE_RENAME  # the rows come with one file: there is nothing to keep readers from
        with held.publishing(way):
            if is_hidden:
                published = stage.publish_hidden(directories, last_check=last_check)
            else:
                read = tuple(entry.path for entry in inputs.directories if entry.path)
                published = stage.publish(directories, inputs=read, last_check=last_check)
            passing(Point.PUBLISHED)
            if marks:
                self._mark(held, published.directories, is_hidden=is_hidden)
        return published

    def _mark(self, held: HeldPlace, directories: tuple[str, ...], *, is_hidden: bool) -> None:
        """Let what is published count, and have what it replaces cleaned."""
        location = held.target.location
        try:
            held.published(directories)
        except UnknownOutcomeError:
            raise
        except AcidError:
            # a transaction that can never commit: nobody has seen these
            if is_hidden:
                take_back(self._services.fs(location), location, directories)
            raise

    # --- how it ends ----------------------------------------------------------------------------------------------

    def _guarded(self, steps: Steps, found: SoFar, hold: Hold | None) -> Steps:
        """What is raised on the way becomes the result."""
        try:
            return (yield from steps)
        except BusyError as error:
            # a run that drains the queue leaves to another what that one has; who names a place wants to know
            return found.result(Outcome.CONFLICT if found.job.named else Outcome.SKIPPED, str(error))
        except ConflictError as error:
            return found.result(Outcome.CONFLICT, str(error))
        except MissingError as error:
            return self._failed(found, hold, error)  # somebody said that it is there
        except RefusedError as error:
            return found.result(Outcome.REFUSED, str(error))
        except UnverifiedError as error:
            result = found.result(Outcome.FAILED, str(error), units=found.units, published=found.published)
            return replace(result, unverified=True)
        except UnknownOutcomeError as error:
            return found.result(Outcome.FAILED, str(error))
        except AcidError as error:
            return self._failed(found, hold, error)
        except Exception as error:
            # a fault of ours in one partition must not keep the others from being done
            fault = DefectError(
                f"Cannot compact {found.target.ref}: because of an unexpected {type(error).__name__}: {error}"
            )
            return found.result(Outcome.FAILED, str(fault))

    def _failed(self, found: SoFar, hold: Hold | None, error: AcidError) -> CompactionResult:
        """It failed; or somebody else has the place now, and what he changed there is why."""
        try:
            if hold is not None:
                hold.assert_held()
        except ConflictError as lost:
            return found.result(Outcome.CONFLICT, f"{lost}; then: {error}")
        except AcidError:
            pass  # the first error is the one to tell
        return found.result(Outcome.FAILED, str(error))

    def _end(self, found: SoFar, hold: Hold, result: CompactionResult) -> CompactionResult:
        """Tell the queue and give the place back. Nothing here can undo what was published."""
        try:
            note = hold.end(result.state, result.reason, named=found.job.named, note=self._note(found, result.state))
            passing(Point.ENDED)
            if note is not None:
                result = replace(result, reason=f"{result.reason}; {note}")
            hold.close()
        except AcidError as error:
            self._services.progress.note(str(error), place=str(result.ref))
            if result.state is not Outcome.READY_FOR_CLEANING:
                return replace(result, reason=f"{result.reason}; then: {error}")
        return result

    def _note(self, found: SoFar, state: Outcome) -> str | None:
        """What a compaction that was not carried out notes of the place.

        A refusal before the place was listed is about the request: it may have been made for another table.
        """
        place = found.place if state is Outcome.REFUSED else found.place or found.job.listed
        if place is None or state not in (Outcome.REFUSED, Outcome.FAILED, Outcome.CONFLICT):
            return None
        return note_of(fingerprint(place, self._services.settings), is_conflict=state is Outcome.CONFLICT)

    def _let_go(self, hold: Hold, target: Target) -> None:
        """Give the place back, as far as that was not done; it goes stale by itself, so no error of this one counts."""
        try:
            hold.close()
        except AcidError as error:
            self._services.progress.note(str(error), place=str(target.ref))


def _at_held_place(found: SoFar, why_not: str) -> CompactionResult:
    """Return the result at a place that is held: status calls that an error, so the run does not end as if all were
    well.
    """
    return replace(found.result(Outcome.REFUSED, why_not), unverified=True)


def _outcome_of(refusal: Refusal) -> Outcome:
    """Return how a compaction ends of which nothing was made."""
    return Outcome.ALREADY_COMPACT if refusal.already_compact else Outcome.REFUSED


def _is_unchanged(services: Services, place: ListedPlace) -> bool:
    """Whether no directory has come or gone since a place was listed, as far as the time of its own change tells.

    That saves listing it again; what it says is proven right before publishing.
    """
    if not place.listing.modified:
        return False  # the store keeps no times of directories
    try:
        location = place.target.location
        entry = services.fs(location).entry(str(location), missing=ConflictError)
    except AcidError:
        return False
    return entry.is_directory and entry.modified == place.listing.modified


def _digest(plan: Prepared) -> str:
    """Of what is read, noted with the result."""
    place, outputs = plan.place, [output.path for output in plan.inputs.outputs]
    return digest_of_inputs(place.listing, place.state, place.write_ids, outputs)
