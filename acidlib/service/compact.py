"""A compaction run, and each of its compactions from the claim to the end: list, plan, have files made, publish."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial

from acidlib.errors import (
    AcidError,
    BusyError,
    ConflictError,
    DefectError,
    RefusedError,
    UnknownOutcomeError,
    UnverifiedError,
)
from acidlib.model.location import NOWHERE
from acidlib.model.names import LONG_MAX, DeltaDir, parse_directory
from acidlib.model.requests import CompactionType, RequestFacts
from acidlib.model.tables import TableRef
from acidlib.model.units import Unit, UnitResult
from acidlib.planning.clean import marks_cover_cleaning
from acidlib.planning.inputs import Publication, Refusal, needs_empty_write_id, publication_conflict_reason
from acidlib.planning.results import digest_of_inputs
from acidlib.planning.units import part_bytes_on
from acidlib.points import Point, reach
from acidlib.report.progress import ERROR, INFO, WARNING
from acidlib.report.results import CompactionResult, Outcome, Verification, outcome_of
from acidlib.service.attempts import fingerprint
from acidlib.service.backend import Backend, CompactionHold, finish_claimed
from acidlib.service.places import ListedPlace, Target
from acidlib.service.plan import Prepared, collect_results, file_task, files_to_make, filled_directories, prepare
from acidlib.service.run_queue import CompactionRun, Job, RunQueue, unstarted_result
from acidlib.service.schedule import Scheduler, Steps, run_tasks
from acidlib.service.services import Services
from acidlib.service.tasks import AnyUnit
from acidlib.service.verify import Compacted, Verifier, made_by
from acidlib.stores.listing import list_location
from acidlib.stores.store import Published, Stage, StagedDirectory, remove_uncommitted
from acidlib.wording import human_bytes, plural

IN_FLIGHT = "acidlib.places.in.flight"
LATELY = 2.0
"""Seconds."""
_FEWEST, _AT_LEAST = 32, 2
"""Places under way beside those for slots, and those for each slot however many slots there are."""
_FOR_EACH_SLOT, _MANY = 4, 1000
"""Places for each slot as long as there are few, and from how many places on `_AT_LEAST` will do."""
MAX_LOCK_TRIES = 3


def run_compaction(
    services: Services, backend: Backend, run: CompactionRun, tell: Callable[[CompactionResult], None]
) -> list[str]:
    """Carry a run out, and return notes about what was left or passed over.

    tell  gets each result as it comes

    An interrupt is raised again once all is given back, and says what has become of how many places.
    """
    notes = [] if run.dry_run else backend.recover()
    under_way = _Run(services, run, tell)
    queue = RunQueue(services, backend, run, on_result=under_way.tell, on_listed=under_way.begin)
    verifier = Verifier(services, release_held=run.release_held)
    flow = under_way.flow
    places = (
        PlaceCompaction(job, run, services, backend, verifier, ready=lambda: under_way.ready) for job in queue.jobs()
    )
    try:
        with closing(flow.run(places, while_waiting=under_way.show)) as results:
            for result in results:
                under_way.compaction_ended(result)
    except (AcidError, KeyboardInterrupt) as stop:
        # what was done is reported all the same
        for result in flow.late_results():
            under_way.compaction_ended(result)
        what_became = under_way.what_became()
        if isinstance(stop, KeyboardInterrupt):
            raise KeyboardInterrupt(what_became) from None
        if not under_way.compactions:
            if flow.given_back:
                raise type(stop)(f"{stop}; {what_became}") from stop
            raise
        nowhere = Target(ref=TableRef("", ""), location=NOWHERE)
        tell(unstarted_result(Outcome.FAILED, nowhere, run.kind, f"Cannot go on: {stop}; {what_became}"))
    finally:
        services.progress.finish()
    notes += queue.notes
    if queue.stopped is not None:
        notes.append(f"stopped: {queue.stopped}; the rest stays as it is")
    if not run.dry_run:
        try:
            backend.purge_history()
        except AcidError as error:  # the next run does it: what this one did has to be told
            notes.append(str(error))
    return notes


class _Run:
    """A run that is under way: the flow of its compactions and its figures, which are shown as results come."""

    def __init__(self, services: Services, run: CompactionRun, tell: Callable[[CompactionResult], None]) -> None:
        given = services.settings.integer(IN_FLIGHT)
        self.flow: Scheduler[CompactionResult] = Scheduler(
            services.runner,
            limit=lambda slots: given or places_in_flight(slots, ended_lately=self._ended_lately()),
            name=lambda places: f"{services.host}-compactor-{places}",
            on_start=self._tasks_can_run,
        )
        self.ready = 0.0
        """When tasks could be run; until then a compaction has waited for that."""
        self.compactions = 0
        """How many have ended."""
        self._services = services
        self._run = run
        self._tell = tell
        self._ends: deque[float] = deque()
        self._ended: Counter[Outcome] = Counter()
        self._places = self._bytes = 0

    def _tasks_can_run(self) -> None:
        self.ready = self._services.clock()

    def begin(self, places: int) -> None:
        """Show that so many places are to be done, as far as that is known now."""
        if places:
            most = self._run.max_partitions
            self._places = places if most is None else min(places, most)
            what = "planning" if self._run.dry_run else "compacting"
            self._services.progress.start(f"{what} {plural(self._places, 'place')}", self._places)

    def compaction_ended(self, result: CompactionResult) -> None:
        """Tell the result of a compaction that was under way."""
        self.compactions += 1
        self._ends.append(self._services.clock())
        self.tell(result)

    def tell(self, result: CompactionResult) -> None:
        """Tell a result, and show it among the others."""
        self._ended[result.state] += 1
        self._bytes += (result.total("bytes_copied") or 0) + (result.total("bytes_rewritten") or 0)
        self._services.progress.note(
            f"{result.state.value}, {result.reason}", level=level_of(result), place=str(result.ref)
        )
        self.show()
        self._tell(result)

    def show(self) -> None:
        """Show the figures as they are now."""
        bad = self._ended[Outcome.FAILED] + self._ended[Outcome.CONFLICT]
        parts = [f"{self.flow.in_flight:,} in flight", f"{bad:,} failed" if bad else ""]
        parts.append(human_bytes(self._bytes) if self._bytes else "")
        self._services.progress.advance(self._ended.total(), detail=", ".join(part for part in parts if part))

    def what_became(self) -> str:
        """Return what has become of how many places of a run that was stopped."""
        given_back = self.flow.given_back
        not_begun = max(0, self._places - self._ended.total() - given_back)
        counts = [(state.value, count) for state, count in self._ended.items()]
        counts += [("given back", given_back), ("not begun", not_begun)]
        told = [f"{count:,} {what}" for what, count in counts if count]
        if not told:
            return "no place was begun"
        return f"of {plural(sum(count for _, count in counts), 'place')} {', '.join(told)}"

    def _ended_lately(self) -> int:
        now = self._services.clock()
        while self._ends and not 0 <= now - self._ends[0] <= LATELY:  # the clock may be set back
            self._ends.popleft()
        return len(self._ends)


def places_in_flight(slots: int, *, ended_lately: int = 0) -> int:
    """Return how many places are under way at a time: enough to keep executors busy with small ones, and no more.

    Many cores have one that runs and one that waits for each: most places are one task. Where places end quickly there
    are more, so that driver and executors have something to do while others are with the other; a place that takes long
    is not held for long before its turn.

    slots         tasks that run at the same time; 0 where the driver runs them itself
    ended_lately  places that have ended within the last `LATELY` seconds
    """
    if not slots:
        return 1
    return _FEWEST + max(min(_MANY, _FOR_EACH_SLOT * slots), _AT_LEAST * slots) + ended_lately


def level_of(result: CompactionResult) -> str:
    """Return the level of the line about a result; that a place is compact already is no trouble."""
    if result.state is Outcome.FAILED or result.unverified:
        return ERROR
    return WARNING if result.state in (Outcome.REFUSED, Outcome.CONFLICT) else INFO


class PlaceCompaction:
    """One compaction from its claim to its end, and all that is known of it wherever it ends.

    It stops where tasks have to run: `schedule` has many compactions under way. Whatever is raised in between ends this
    compaction and no other; an interrupt gives it back.

    ready  when the run could run tasks; until then a compaction has waited for that, not for its own work
    """

    def __init__(
        self,
        job: Job,
        run: CompactionRun,
        services: Services,
        backend: Backend,
        verifier: Verifier,
        *,
        ready: Callable[[], float],
    ) -> None:
        self.job = job
        self.name = str(job.target.ref)
        self._run = run
        self._services = services
        self._backend = backend
        self._verifier = verifier
        self._ready = ready
        self._start = 0.0
        self._target = job.target
        self._place: ListedPlace | None = None
        self._plan: Prepared | None = None
        self._units: tuple[UnitResult, ...] | None = None
        self._published: Published | None = None
        self._verification: Verification | None = None
        self._may_be_visible = False
        self._why = None if run.is_named else job.request.facts.reason
        """The initiator's reason, where it asks for this."""
        self._no_lock_granted = job.request.facts.lock_tries >= MAX_LOCK_TRIES
        """An exclusive lock for two renames was not to be had often enough: a major of any base needs none."""

    def give_back(self) -> None:
        """Let another carry out what was not begun."""
        if not self._run.dry_run:
            with suppress(AcidError):  # it is found to be dead later
                self._backend.hold(self.job.request, self._target).abandon()

    async def run(self) -> CompactionResult:
        """Carry the job out, or plan it. Closed before its end, it gives its request and its place back."""
        self._start = self._services.clock()
        if self._run.dry_run:
            return await self._to_its_end(self._plan_alone(), None)
        hold = self._backend.hold(self.job.request, self._target)
        try:
            result = await self._to_its_end(self._carry_out(hold), hold)
        except BaseException:
            with suppress(AcidError):  # the queue knows how it ended, or it is found to be dead later
                hold.abandon(may_be_visible=self._may_be_visible)
            raise
        else:
            return self._end(hold, result)
        finally:
            try:
                hold.close()  # as far as that was not done
            except AcidError as error:  # it goes stale by itself
                self._services.progress.note(str(error), place=self.name)

    async def _plan_alone(self) -> CompactionResult:
        services, target, place = self._services, self._target, self.job.listed
        if place is None:
            place = target.listed(list_location(services.fs(target.location), target.location, missing=RefusedError))
        self._place = place
        if place.holds_staging and services.store(target.location).unfinished(target.location):
            raise RefusedError(
                f"Cannot plan a compaction of {target.ref}: a publication there is unfinished; a run without "
                "--dry-run finishes it"
            )
        why_not = self._verifier.why_not(self._backend.quarantining_request(place.target, place.listing), place.target)
        if why_not is not None:
            return self._quarantined(why_not)
        plan = self._prepare(place)
        if isinstance(plan, Refusal):
            return self._nothing_to_merge(plan)
        self._units = await self._made(await self._files_to_make(plan), None)
        return self._result(Outcome.PLANNED, self._why_so(plan))

    async def _carry_out(self, hold: CompactionHold) -> CompactionResult:
        reach(Point.TAKEN)
        place = self._place = self._take_place(hold)
        why_not, self._verification, share = await self._verifier.released(hold, place)
        if why_not is not None:
            return self._quarantined(why_not)
        plan = self._prepare(place)
        if isinstance(plan, Refusal):
            return self._left_to_clean(hold, place, plan) or self._nothing_to_merge(plan)
        inputs = plan.inputs
        if inputs.kind is CompactionType.REBALANCE and needs_empty_write_id(place.state):
            raise ConflictError(
                f"Cannot rebalance {self._target.ref}: {inputs.directories[0].path} has the highest write id "
                "that is not open, and nothing tells two bases of one number apart; call again when the transactions "
                "that write there have ended"
            )
        hold.start(
            inputs.high_water_mark,
            digest_of_inputs(place.listing, place.state, place.write_ids, [output.name for output in inputs.outputs]),
        )
        reach(Point.STARTED)
        units = await self._files_to_make(plan)
        with self._staged() as stage:
            results = await self._made(units, stage.path)
            first = units[0] if units else None
            if isinstance(first, Unit) and not any(result.path for result in results):
                # readers that list files alone would go on reading what is replaced
                kept = await self._made((replace(first, keep_empty=True),), stage.path)
                results = (*kept, *results[1:])
            directories = collect_results(stage, inputs, results)
            reach(Point.ACCEPTED)
            done = made_by(plan, units, directories, stage) if self._verifier.is_wanted else None
            counts_at_once = done is None or stage.is_readable
            if done is not None and counts_at_once:
                hold.will_verify(())
                try:
                    self._verification = await self._verifier.compare(done, hold.request.id, share)
                except UnverifiedError:
                    hold.assert_mine()  # or another run has taken the stage away
                    raise
                reach(Point.VERIFIED)
            names = tuple(directory.name for directory in directories)
            with nullcontext() if counts_at_once else self._verifier.around_publication(hold, names):
                self._may_be_visible = True
                published = self._publish(hold, plan, stage, directories, counts_at_once=counts_at_once)
        self._units, self._published = results, published
        if done is not None and not counts_at_once:
            await self._verify_published(hold, plan, done, share)
        result = self._result(Outcome.READY_FOR_CLEANING, self._why_so(plan))
        return replace(result, statistics=hold.update_statistics(published.directories, result.total("rows_out")))

    def _take_place(self, hold: CompactionHold) -> ListedPlace:
        """Take the place. What the run has listed before holds if it has not changed since.

        Whether it has is asked before the claim, which changes the place itself; and there is nothing to finish then,
        for no staging was listed.
        """
        services, before = self._services, self.job.listed
        if before is not None and (before.holds_staging or not _is_unchanged(services, before)):
            before = None
        if self.job.request.type is CompactionType.REBALANCE:
            before = None  # what was deleted before the lock was had has to be known, or it would be back
        hold.begin()
        target = self._target = hold.target
        reach(Point.CLAIMED)
        if before is not None:
            return before.held_as(target)
        store, location = services.store(target.location), target.location
        for line in finish_claimed(store, location, hold.exclusive):
            services.progress.note(line, place=str(target.ref))
        return target.listed(list_location(services.fs(location), location, missing=RefusedError))

    def _prepare(self, place: ListedPlace) -> Prepared | Refusal:
        services = self._services
        limit = LONG_MAX if self._no_lock_granted else services.settings.integer("acidlib.minor.as.major.bytes")
        plan = prepare(
            services.stores,
            place,
            self.job.request.type,
            minor_as_major_bytes=limit,
            automatic=self._why is not None,
        )
        if isinstance(plan, Prepared):
            self._plan = plan
        return plan

    async def _files_to_make(self, plan: Prepared) -> tuple[AnyUnit, ...]:
        services, settings = self._services, self._run.rewrite
        return await files_to_make(
            services.stores,
            plan,
            replace(settings, part_bytes=part_bytes_on(services.runner.slots, settings.part_bytes)),
            services.settings,
            buckets=self.job.request.bucket_count,
            checks=self._verifier.tasks(),
        )

    async def _made(self, units: Sequence[AnyUnit], staging: str | None) -> tuple[UnitResult, ...]:
        return tuple(await run_tasks(*(file_task(unit, staging, self._services.stores) for unit in units)))

    @contextmanager
    def _staged(self) -> Iterator[Stage]:
        """Have a stage. It stays where half of it may be visible: then it is needed to finish the publication.

        Nothing that fails in its removal undoes what was published.
        """
        services, location = self._services, self._target.location
        stage = services.store(location).stage(
            location, unique=services.unique(), owner=services.worker_id, now=services.clock()
        )
        reach(Point.STAGED)
        try:
            yield stage
        finally:
            try:
                left = stage.discard()
            except AcidError as error:
                left = str(error)
            if left is not None:
                note = f"{left}; a cleaning removes it when it is a day old"
                services.progress.note(note, level=WARNING, place=str(self._target.ref))

    def _publish(
        self,
        hold: CompactionHold,
        plan: Prepared,
        stage: Stage,
        directories: tuple[StagedDirectory, ...],
        *,
        counts_at_once: bool,
    ) -> Published:
        """Make the results visible; unless `counts_at_once` they are verified before they count."""
        location, inputs = hold.target.location, plan.inputs
        fs = self._services.fs(location)

        def last_check() -> None:
            hold.assert_mine()
            now = list_location(fs, location, missing=ConflictError)
            found = partial(
                publication_conflict_reason, now, inputs, plan.place.state, generation=plan.place.generation
            )
            # outputs of aborted transactions do not count; which these are is asked where there is an output at all
            if found() is not None and (reason := found(txns=hold.transactions_now())) is not None:
                raise ConflictError(f"Cannot publish {hold.target.ref}: {reason}; nothing was published, call again")

        way = inputs.publication
        if way is Publication.FILE_BY_FILE and sum(len(directory.files) for directory in directories) == 1:
            way = Publication.ONE_RENAME  # the rows come with one file: there is nothing to keep readers from
        with hold.publishing(way):
            if inputs.publication is Publication.COMMIT:
                published = stage.publish_hidden(directories, last_check=last_check)
            else:
                read = tuple(entry.path for entry in inputs.directories if entry.path)
                published = stage.publish(directories, inputs=read, last_check=last_check)
            reach(Point.PUBLISHED)
            if counts_at_once:
                self._let_count(hold, plan, published.directories)
        return published

    def _let_count(self, hold: CompactionHold, plan: Prepared, directories: tuple[str, ...]) -> None:
        """Let what is published count, and have what it replaces cleaned."""
        try:
            hold.published(directories)
        except UnknownOutcomeError:
            raise
        except AcidError:
            self._remove_hidden(hold, plan, directories)
            raise

    async def _verify_published(self, hold: CompactionHold, plan: Prepared, done: Compacted, share: float) -> None:
        """Compare what is published with what was there, and only then let it count."""
        try:
            self._verification = await self._verifier.compare(done, hold.request.id, share)
            reach(Point.VERIFIED)
            hold.assert_mine()
        except AcidError:
            self._remove_hidden(hold, plan, done.results)
            raise
        self._let_count(hold, plan, done.results)

    def _remove_hidden(self, hold: CompactionHold, plan: Prepared, directories: tuple[str, ...]) -> None:
        """Remove results of a transaction that can never commit: no reader has seen them."""
        if plan.inputs.publication is Publication.COMMIT:
            remove_uncommitted(self._services.fs(hold.target.location), hold.target.location, directories)

    def _quarantined(self, why_not: str) -> CompactionResult:
        """Return the result at a place that is quarantined: the status calls that an error, and so does the run."""
        return replace(self._result(Outcome.REFUSED, why_not), unverified=True)

    def _nothing_to_merge(self, refusal: Refusal) -> CompactionResult:
        state = Outcome.ALREADY_COMPACT if refusal.already_compact else Outcome.REFUSED
        return self._result(state, refusal.reason)

    def _left_to_clean(self, hold: CompactionHold, place: ListedPlace, refusal: Refusal) -> CompactionResult | None:
        """Make it a request to clean only (Hive Worker), if something is obsolete that no waiting request reaches."""
        mark = refusal.high_water_mark
        if not refusal.cleaning_only or mark is None or not 0 <= mark < LONG_MAX:
            return None
        if marks_cover_cleaning(
            place.listing, mark, place.write_ids, hold.awaited_marks(), generation=place.generation
        ):
            return None
        hold.only_clean(mark)
        reason = f"{refusal.reason}; what is obsolete there is left to the cleaner"
        return self._result(Outcome.READY_FOR_CLEANING, reason)

    async def _to_its_end(self, steps: Steps[CompactionResult], hold: CompactionHold | None) -> CompactionResult:
        """Return the result of these steps, also where they end by an error."""
        try:
            return await steps
        except UnverifiedError as error:
            return replace(self._result(outcome_of(error), str(error)), unverified=True)
        except AcidError as error:
            state, reason = outcome_of(error), str(error)
            if isinstance(error, BusyError) and not self._run.is_named:
                # a run that drains the queue leaves to another what that one has; who names a place wants to know
                state = Outcome.SKIPPED
            if state is Outcome.FAILED and hold is not None and not isinstance(error, UnknownOutcomeError):
                try:
                    hold.assert_claimed()
                except ConflictError as lost:  # another run has the place now, and what it changed there is why
                    state, reason = Outcome.CONFLICT, f"{lost}; then: {reason}"
                except AcidError:
                    pass  # the first error is the one to tell
            return self._result(state, reason)
        except Exception as error:
            # a fault of ours in one partition must not keep the others from being done
            fault = f"Cannot compact {self._target.ref}: unexpected {type(error).__name__}: {error}"
            return self._result(Outcome.FAILED, str(DefectError(fault)))

    def _why_so(self, plan: Prepared) -> str:
        """Return why this was done, in this way."""
        inputs = plan.inputs
        changed = inputs.kind is not inputs.requested
        parts = [] if self._why is None else [self._why]
        if changed and self._no_lock_granted:
            parts.append(
                f"an exclusive lock for two renames was not granted {MAX_LOCK_TRIES} times, so it is done as a major"
            )
        elif changed or not parts:
            parts.append(inputs.reason)
        return "; ".join(parts)

    def _result(self, state: Outcome, reason: str) -> CompactionResult:
        """Return the result of a compaction that ends like this, now."""
        units, published, listed = self._units, self._published, self._place or self.job.listed
        result = replace(
            unstarted_result(state, self._target, self.job.request.type, reason),
            id=None if self._run.dry_run else self.job.request.id,
            units=units,
            start_ms=int(self._start * 1000),
            seconds=max(0.0, self._services.clock() - max(self._start, self._ready())),
            deltas_before=None if listed is None else listed.deltas,
            verification=self._verification,
        )
        if self._plan is None:
            return replace(result, deltas_after=None if result.state.is_bad else result.deltas_before)
        place, inputs = self._plan.place, self._plan.inputs
        directories = () if units is None else filled_directories(inputs, units)
        visible = directories if published is None else published.directories
        deltas_after = None
        if units is not None:
            # those that a reader has to merge when the results have taken the place of their inputs
            merged = {entry.path for entry in inputs.directories}
            deltas_after = sum(delta.path not in merged for delta in place.state.deltas)
            deltas_after += sum(isinstance(parse_directory(name, place.generation), DeltaDir) for name in visible)
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
            deltas_after=deltas_after,
            bytes_in=sum(file.length for entry in inputs.directories for file in entry.files),
        )

    def _end(self, hold: CompactionHold, result: CompactionResult) -> CompactionResult:
        """Tell the queue and give the place back. Nothing here can undo what was published."""
        try:
            note = hold.end(result.state, result.reason, named=self._run.is_named, noted=self._noted(result))
            reach(Point.ENDED)
            if note is not None:
                result = replace(result, reason=f"{result.reason}; {note}")
            hold.close()
        except AcidError as error:
            self._services.progress.note(str(error), place=str(result.ref))
            if result.state is not Outcome.READY_FOR_CLEANING:
                return replace(result, reason=f"{result.reason}; then: {error}")
        return result

    def _noted(self, result: CompactionResult) -> RequestFacts:
        """Return what a compaction that was not carried out notes of the place and of its result.

        A refusal before the place was listed is about the request: it may have been made for another table.
        """
        state, files = result.state, None
        place = self._place if state is Outcome.REFUSED else self._place or self.job.listed
        if place is not None and state in (Outcome.REFUSED, Outcome.FAILED, Outcome.CONFLICT):
            files = fingerprint(place, self._services.settings)
        return RequestFacts(
            files=files,
            conflict=files is not None and state is Outcome.CONFLICT,
            differs=state is Outcome.FAILED and result.unverified,
        )


def _is_unchanged(services: Services, place: ListedPlace) -> bool:
    """Return True if no directory has come or gone since a place was listed, as far as its time of change tells.

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
