"""One compaction, in order: claim the place, plan, have files made, publish them, end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial

from acidlib.acid.names import LONG_MAX
from acidlib.arguments import WITHOUT_DRY_RUN
from acidlib.errors import (
    AcidError,
    BusyError,
    ConflictError,
    HangingError,
    RefusedError,
    UnknownOutcomeError,
    UnverifiedError,
    known_error,
)
from acidlib.execute.services import Services
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts
from acidlib.model.results import CompactionResult, Outcome, outcome_of, rounded
from acidlib.model.units import UnitResult
from acidlib.places.attempts import fingerprint
from acidlib.places.place import ListedPlace, Place
from acidlib.planning.clean import marks_cover_cleaning
from acidlib.planning.inputs import (
    CompactionInputs,
    Publication,
    Refusal,
    needs_empty_write_id,
)
from acidlib.planning.last_check import publication_conflict_reason
from acidlib.planning.results import digest_of_inputs, shows_unverified
from acidlib.planning.units import part_bytes_on
from acidlib.points import Point, reach
from acidlib.ports.backend import Backend
from acidlib.ports.holds import CompactionHold, finish_claimed
from acidlib.report.progress import WARNING
from acidlib.runs.plan import (
    PlacePlan,
    choose_inputs,
    execute,
    facts_of,
    filled_directories,
    plan_compaction,
    planned,
    with_tails,
)
from acidlib.runs.run_queue import CompactionRun, QueuedCompaction, unstarted_result
from acidlib.runs.verify import Verifier, result_to_verify
from acidlib.stores.listing import list_location
from acidlib.stores.store import Published, Stage, StagedDirectory, StagedFile, remove_uncommitted
from acidlib.waiting import require_wanted

MAX_LOCK_TRIES = 3


class PlaceCompaction:
    """One compaction from its claim to its end, with all that is known of it wherever it ends.

    It is a workflow of the scheduler: it stops where tasks have to run. Any error ends this compaction and no other; an
    interrupt gives it back.

    ready    when the run could run tasks (epoch seconds); time before that is not the compaction's own
    on_plan  is told the plan before its tasks run
    """

    def __init__(
        self,
        queued: QueuedCompaction,
        run: CompactionRun,
        services: Services,
        backend: Backend,
        verifier: Verifier,
        *,
        ready: Callable[[], float],
        on_plan: Callable[[PlacePlan], None],
    ) -> None:
        self.queued = queued
        self.name = str(queued.place.ref)
        self._run = run
        self._services = services
        self._backend = backend
        self._verifier = verifier
        self._ready = ready
        self._on_plan = on_plan
        self._start = 0.0
        self._so_far = replace(
            unstarted_result(Outcome.FAILED, queued.place, queued.request.type, ""),
            id=None if run.dry_run else queued.request.id,
            deltas_before=None if queued.listed is None else queued.listed.deltas,
        )
        """The result as far as it is known, whose state, reason and time are those of the end."""
        self._may_be_visible = False
        self._initiators_reason = None if run.is_named else queued.request.facts.reason
        self._no_lock_granted = queued.request.facts.lock_tries >= MAX_LOCK_TRIES
        """An exclusive lock for two renames was refused often enough: a major of any base needs none."""

    def give_back(self) -> None:
        """Give the request back; called instead of `run`."""
        if not self._run.dry_run:
            with suppress(Exception):  # a later run finds that this one is dead
                self._backend.fence.hold(self.queued.request, self.queued.place).abandon()

    def hung(self, error: HangingError) -> CompactionResult:
        """Return the result where a step hangs; its request stays with this run until a later one finds that dead."""
        return self._ended(Outcome.FAILED, error.words)

    async def run(self) -> CompactionResult:
        """Carry the compaction out, or plan it. Closed before its end, it gives its request and its place back."""
        self._start = self._services.clock()
        if self._run.dry_run:
            try:
                return await self._compact(None, self._place_to_plan())
            except Exception as error:
                return self._failure(error, None)
        try:
            hold = self._backend.fence.hold(self.queued.request, self.queued.place)
        except Exception as error:  # the request stays with this run: a later one finds that it is dead
            return self._failure(error, None)
        listed = None
        try:
            try:
                reach(Point.TAKEN)
                listed = self._claimed_place(hold)
                result = await self._compact(hold, listed)
            except HangingError as error:  # of a task: nothing more is asked of that file system
                hold.leave_claim()
                result = self._ended(Outcome.FAILED, error.words)
            except Exception as error:
                result = self._failure(error, hold)
        except BaseException:
            with suppress(Exception):  # the queue knows how it ended, or a later run finds that this one is dead
                hold.abandon(may_be_visible=self._may_be_visible)
            raise
        else:
            return self._end(hold, result, listed)
        finally:
            try:
                hold.close()  # unless that is done
            except Exception as error:  # the claim goes stale by itself
                note = known_error(error, f"release the claim of {self.name}").words
                self._services.progress.note(note, place=self.name)

    async def _compact(self, hold: CompactionHold | None, listed: ListedPlace) -> CompactionResult:
        """Plan, have files made and verified, and publish them; or end where there is nothing to merge.

        Without a hold it ends with the plan, and with what tasks find out by reading row ids.
        """
        services, queued, verifier = self._services, self.queued, self._verifier
        verification, share = None, verifier.share
        self._so_far = replace(self._so_far, deltas_before=listed.deltas)
        queue = self._backend.queue
        quarantining = queue.quarantining_request(listed.place, listed.listing, anew=hold is not None)
        if quarantining is not None:
            if (reason := verifier.refusal_reason(quarantining, listed.place)) is not None:
                # an error, as the status has it
                return replace(self._ended(Outcome.REFUSED, reason), unverified=True)
            if hold is not None:
                verification, share = await verifier.lift_quarantine(hold, listed, quarantining)
                self._so_far = self._so_far.with_work(None, verification)
        limit = LONG_MAX if self._no_lock_granted else services.settings.integer("acidlib.minor.as.major.bytes")
        inputs = await with_tails(
            services.stores,
            listed.place.location,
            partial(
                choose_inputs,
                services.stores,
                listed,
                queued.request.type,
                minor_as_major_bytes=limit,
                automatic=self._initiators_reason is not None,
            ),
        )
        if isinstance(inputs, Refusal):
            return self._refused(hold, listed, inputs, quarantining)
        self._so_far = planned(self._so_far, inputs)
        if hold is not None:
            self._note_mark(hold, listed, inputs)
        part_bytes = part_bytes_on(services.runner.slots, self._run.rewrite.part_bytes)
        plan = plan_compaction(
            listed,
            inputs,
            await facts_of(services.stores, listed, inputs, checks=verifier.tasks()),
            replace(self._run.rewrite, part_bytes=part_bytes),
            services.settings,
            reason=self._reason(inputs),
            buckets=queued.request.bucket_count,
        )
        self._on_plan(plan)
        if hold is None:
            results = await execute(plan, None, services.stores)
            visible = filled_directories(inputs, results)
            return plan.done(self._ended(Outcome.PLANNED, plan.reason), results, None, visible=visible)
        with self._staging(hold.place) as stage:
            results = await execute(plan, stage.path, services.stores)
            directories = collect_results(stage, inputs, results)
            reach(Point.ACCEPTED)
            to_verify = result_to_verify(plan, directories, stage) if verifier.is_wanted else None
            is_compared_later = to_verify is not None and not stage.is_readable
            if to_verify is not None and not is_compared_later:
                verification = await verifier.compare_staged(hold, to_verify, share)
                self._so_far = self._so_far.with_work(None, verification)
                reach(Point.VERIFIED)
            published = self._publish(hold, plan, stage, directories, counts=not is_compared_later)
        names = published.directories
        self._so_far = plan.done(self._so_far, results, verification, visible=names, publication=published.kind)
        if to_verify is not None and is_compared_later:
            with self._removed_on_error(hold, plan, names):
                verification = await verifier.compare(to_verify, hold.request.id, share)
                self._so_far = self._so_far.with_work(results, verification)
                reach(Point.VERIFIED)
                hold.assert_mine()
                hold.published(names)
        result = self._ended(Outcome.READY_FOR_CLEANING, plan.reason)
        return replace(result, statistics=hold.update_statistics(names, result.rows_out))

    # --- claim and plan -----------------------------------------------------------------------------------------------

    def _claimed_place(self, hold: CompactionHold) -> ListedPlace:
        """Claim the place and list it, unless this run has listed it and it has not changed since.

        Whether it has changed is asked before the claim, which changes the place itself. There is no publication to
        finish then, as no staging was listed.
        """
        services, before = self._services, self.queued.listed
        if before is not None and (before.holds_staging or not _is_unchanged(services, before)):
            before = None
        if self.queued.request.type is CompactionType.REBALANCE:
            before = None  # rows that were deleted before the lock was granted have to be known, or they would be back
        hold.begin()
        place = hold.place
        self._so_far = replace(self._so_far, **place.ref._asdict(), location=str(place.location))
        reach(Point.CLAIMED)
        if before is not None:
            return before.as_held(place)
        store, location = services.store(place.location), place.location
        for line in finish_claimed(store, location, hold.exclusive):
            services.progress.note(line, place=str(place.ref))
        return place.listed(list_location(services.fs(location), location, missing=RefusedError))

    def _place_to_plan(self) -> ListedPlace:
        """Return the place of a dry run; RefusedError if the publication of a dead run is to be finished there."""
        services, place, listed = self._services, self.queued.place, self.queued.listed
        if listed is None:
            listed = place.listed(list_location(services.fs(place.location), place.location, missing=RefusedError))
        self._so_far = replace(self._so_far, deltas_before=listed.deltas)
        if listed.holds_staging and services.store(place.location).unfinished(place.location):
            raise RefusedError(
                f"Cannot plan a compaction of {place.ref}: a publication there is unfinished; "
                f"{WITHOUT_DRY_RUN} finishes it"
            )
        return listed

    def _note_mark(self, hold: CompactionHold, listed: ListedPlace, inputs: CompactionInputs) -> None:
        """Note the mark; ConflictError for a rebalance that needs a write id which is free."""
        if inputs.kind is CompactionType.REBALANCE and needs_empty_write_id(listed.state):
            raise ConflictError(
                f"Cannot rebalance {hold.place.ref}: {inputs.directories[0].path} has the highest write id "
                "that is not open, and nothing tells two bases of one number apart; call again when the transactions "
                "that write there have ended"
            )
        names = [output.name for output in inputs.outputs]
        hold.note_mark(inputs.high_water_mark, digest_of_inputs(listed.listing, listed.state, listed.write_ids, names))
        reach(Point.STARTED)

    def _refused(
        self,
        hold: CompactionHold | None,
        listed: ListedPlace,
        refusal: Refusal,
        quarantining: CompactionRequest | None,
    ) -> CompactionResult:
        """Return the end of a compaction that has nothing to merge, or must not.

        If something is obsolete that no waiting request cleans, it becomes a request to clean only (Hive Worker).

        quarantining  the request whose quarantine this run lifts; None where there is none
        """
        mark, reason = refusal.high_water_mark, refusal.reason
        if hold is not None and refusal.cleaning_only and mark is not None and 0 <= mark < LONG_MAX:
            # what a quarantine has kept is cleaned for a newer request
            lifts = quarantining is not None and shows_unverified(quarantining)
            marks = () if lifts else hold.awaited_marks()
            if not marks_cover_cleaning(listed.listing, mark, listed.write_ids, marks, names=listed.hive.names):
                hold.only_clean(mark)
                reason = f"{reason}; obsolete directories there are left to the cleaner"
                return self._ended(Outcome.READY_FOR_CLEANING, reason)
        return self._ended(Outcome.ALREADY_COMPACT if refusal.already_compact else Outcome.REFUSED, reason)

    # --- files --------------------------------------------------------------------------------------------------------

    @contextmanager
    def _staging(self, place: Place) -> Iterator[Stage]:
        """Have a stage. It stays if half of it may be visible: then it is needed to finish the publication.

        It stays where a task hangs, too. A failure to remove it undoes nothing that was published.
        """
        services, location = self._services, place.location
        stage = services.store(location).stage(
            location, unique=services.unique(), owner=services.worker_id, now=services.clock()
        )
        reach(Point.STAGED)
        hangs = False
        try:
            yield stage
        except HangingError:
            hangs = True
            raise
        finally:
            try:
                left = None if hangs else stage.discard()
            except Exception as error:
                left = known_error(error, f"remove {stage.path}").words
            if left is not None:
                note = f"{left}; a cleaning removes it when it is a day old"
                services.progress.note(note, level=WARNING, place=str(place.ref))

    # --- publication --------------------------------------------------------------------------------------------------

    def _publish(
        self,
        hold: CompactionHold,
        plan: PlacePlan,
        stage: Stage,
        directories: tuple[StagedDirectory, ...],
        *,
        counts: bool,
    ) -> Published:
        """Make a result visible; it counts as well, unless it is to be verified first, which is noted before.

        counts  nothing is left to verify; see the words of `acidlib.ports.holds`
        """
        inputs, listed = plan.inputs, plan.listed
        location = hold.place.location

        def last_check() -> None:
            """Raise ConflictError if the place is lost or has changed since it was planned, before any rename.

            What is lost only after this needs no check: the run that has the place then has revoked this stage when it
            claimed the place (`Services.claim_and_revoke`), and there is nothing to rename any more.
            """
            hold.assert_mine()
            now = list_location(self._services.fs(location), location, missing=ConflictError)
            require_wanted()
            reason = partial(publication_conflict_reason, now, inputs, listed.state, names=listed.hive.names)
            # outputs of aborted transactions do not count; these are asked for only if there is an output at all
            if reason() is not None and (conflict := reason(txns=hold.transactions_now())) is not None:
                raise ConflictError(f"Cannot publish {hold.place.ref}: {conflict}; nothing was published, call again")

        way = inputs.publication
        if way is Publication.FILE_BY_FILE and sum(len(directory.files) for directory in directories) == 1:
            way = Publication.AT_ONCE  # all rows come with one file: no reader has to be kept away
        names = tuple(directory.name for directory in directories)
        with nullcontext() if counts else self._verifier.around_publication(hold, names):
            self._may_be_visible = True
            with hold.publishing(way) as has_readers:
                if way is Publication.COMMIT:
                    published = stage.publish_hidden(directories, last_check=last_check)
                else:
                    read = tuple(directory.path for directory in inputs.directories if directory.path)
                    published = stage.publish(directories, inputs=read, last_check=last_check, has_readers=has_readers)
                reach(Point.PUBLISHED)
                if counts:
                    with self._removed_on_error(hold, plan, published.directories):
                        hold.published(published.directories)
        return published

    @contextmanager
    def _removed_on_error(self, hold: CompactionHold, plan: PlacePlan, directories: tuple[str, ...]) -> Iterator[None]:
        """Remove results of a transaction that can never commit after an error: no reader has seen them."""
        try:
            yield
        except UnknownOutcomeError:
            raise
        except AcidError:
            if plan.inputs.publication is Publication.COMMIT:
                location = hold.place.location
                remove_uncommitted(self._services.fs(location), location, directories)
            raise

    # --- the result, and the end --------------------------------------------------------------------------------------

    def _failure(self, error: Exception, hold: CompactionHold | None) -> CompactionResult:
        """Return the result of a compaction that ends by an error."""
        if isinstance(error, UnverifiedError):
            return replace(self._ended(outcome_of(error), error.words), unverified=True)
        error = known_error(error, f"compact {self._so_far.ref}")
        state, reason = outcome_of(error), error.words
        if isinstance(error, BusyError) and not self._run.is_named:
            state = Outcome.SKIPPED  # another run has it: only the operator who names a place wants to know
        if state is Outcome.FAILED and hold is not None and not isinstance(error, UnknownOutcomeError):
            try:
                hold.assert_claimed()
            except ConflictError as lost:  # another run has the place now, and its changes are the cause
                state, reason = Outcome.CONFLICT, f"{lost}; then: {reason}"
            except Exception:  # noqa: S110 - the first error is the one to report
                pass
        return self._ended(state, reason)

    def _reason(self, inputs: CompactionInputs) -> str:
        """Return why this kind of compaction is done."""
        changed = inputs.kind is not inputs.requested
        parts = [] if self._initiators_reason is None else [self._initiators_reason]
        if changed and self._no_lock_granted:
            parts.append(
                f"an exclusive lock for two renames was not granted {MAX_LOCK_TRIES} times, so it is done as a major"
            )
        elif changed or not parts:
            parts.append(inputs.reason)
        return "; ".join(parts)

    def _ended(self, state: Outcome, reason: str) -> CompactionResult:
        """Return the result of the compaction if it ends now."""
        so_far, now = self._so_far, self._services.clock()
        deltas_after = so_far.deltas_after
        if so_far.publication is None and not state.is_bad:  # nothing is merged
            deltas_after = so_far.deltas_before
        return replace(
            so_far,
            state=state,
            reason=reason,
            start_ms=int(self._start * 1000),
            end_ms=int(now * 1000),
            seconds=rounded(max(0.0, now - max(self._start, self._ready()))),
            deltas_after=deltas_after,
        )

    def _end(self, hold: CompactionHold, result: CompactionResult, listed: ListedPlace | None) -> CompactionResult:
        """Tell the queue how it ended, and give the place back. Nothing here can undo a publication."""
        state, files = result.state, None
        # a refusal before the place was listed is about the request, which may have been made for another table
        if state is not Outcome.REFUSED:
            listed = listed or self.queued.listed
        try:
            if listed is not None and state in (Outcome.REFUSED, Outcome.FAILED, Outcome.CONFLICT):
                files = fingerprint(listed, self._services.settings)
            facts = RequestFacts(
                files=files,
                conflict=files is not None and state is Outcome.CONFLICT,
                differs=state is Outcome.FAILED and result.unverified,
            )
            note = hold.end(state, result.reason, named=self._run.is_named, noted=facts)
            reach(Point.ENDED)
            if state is Outcome.ALREADY_COMPACT and not hold.keeps_needless:
                result = replace(result, id=None)
            if note is not None:
                result = replace(result, reason=f"{result.reason}; {note}")
            hold.close()
        except Exception as raised:
            error = known_error(raised, f"end the request for {result.ref}")
            self._services.progress.note(error.words, place=str(result.ref))
            if state is not Outcome.READY_FOR_CLEANING:
                return replace(result, reason=f"{result.reason}; then: {error}")
        return result


def collect_results(
    stage: Stage, inputs: CompactionInputs, results: Sequence[UnitResult]
) -> tuple[StagedDirectory, ...]:
    """Have the stage accept the files that count, for the directories of `filled_directories`."""
    staged = []
    for path in filled_directories(inputs, results):
        files = [
            StagedFile(path=result.path, name=result.file_name, length=result.length, upload=result.upload)
            for result in results
            if result.directory == path and result.path is not None
        ]
        staged.append(stage.accept(path, files))
    return tuple(staged)


def _is_unchanged(services: Services, listed: ListedPlace) -> bool:
    """Return whether no directory has come or gone since a place was listed, as far as its modification time tells.

    That saves a second listing; the last check before publication proves it.
    """
    if not listed.listing.modified:
        return False  # the store keeps no modification times of directories
    try:
        location = listed.place.location
        entry = services.fs(location).entry(str(location), missing=ConflictError)
    except AcidError:
        return False
    return entry.is_directory and entry.modified == listed.listing.modified
