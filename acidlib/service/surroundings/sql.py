"""Requests in a SQL queue: queueing and taking them, recovery after dead runs, holds of places, and cleaning."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial

from acidlib.acid.listing import Listing
from acidlib.acid.write_ids import ALL_COMMITTED, ValidTxnList
from acidlib.config.settings import Settings
from acidlib.errors import (
    AcidError,
    ConflictError,
    CorruptError,
    MissingError,
    RefusedError,
    RetryError,
    UnknownOutcomeError,
)
from acidlib.location import Location
from acidlib.model.requests import NO_FACTS, CompactionRequest, CompactionType, RequestFacts, State
from acidlib.model.results import Outcome
from acidlib.model.tables import TableRef
from acidlib.planning.results import quarantining_request, shows_unverified
from acidlib.points import Point, reach
from acidlib.processes import has_ended, process_identity, signer_has_ended
from acidlib.queue.rules import Retention
from acidlib.queue.sql import SqlQueue
from acidlib.service.attempts import COUNTED, Attempts, awaited_marks
from acidlib.service.backend import Backend, CompactionHold, Decided, Hold, finish_publications
from acidlib.service.clean import Cleaning
from acidlib.service.in_threads import in_threads
from acidlib.service.places import Target
from acidlib.service.services import WORKER_PREFIX, Services, answers_of, step_seconds
from acidlib.stores.store import STALE_SECONDS
from acidlib.wording import plural, utc_words


class SqlBackend(Backend):
    """Requests in a SQL queue; those of other metastores, which are not `ours`, are left alone."""

    knows_readers = True
    """A metastore tells which queries may read a place."""

    def __init__(self, services: Services, queue: SqlQueue) -> None:
        super().__init__(services)
        self.queue = queue
        self.queued_here: set[int] = set()
        """The requests that this run has queued for itself, which are withdrawn when it gives up."""

    @abstractmethod
    def ours(self, row: CompactionRequest) -> bool:
        """Return whether a request was made with these surroundings: the same metastore, or none."""

    @abstractmethod
    def rows_at(self, target: Target) -> Sequence[CompactionRequest]:
        """Return the rows of the queue and its history that concern a place."""

    @abstractmethod
    def whereabouts(self, row: CompactionRequest) -> Location:
        """Return the location of the place of a request; RefusedError where it is gone."""

    @abstractmethod
    def request_for(self, target: Target, kind: CompactionType, *, initiator: str) -> CompactionRequest:
        """Return a request for a place."""

    def exclusive(self, ref: TableRef) -> AbstractContextManager[object]:
        """Keep readers away from a table or partition, as far as anything can."""
        del ref
        return nullcontext()

    def finish(self, target: Target) -> None:
        """Finish the publications of dead runs, while readers are kept away as far as possible."""
        finish_publications(self.services, target.location, partial(self.exclusive, target.ref))

    def recover(self, is_wanted: Callable[[CompactionRequest], bool] = lambda _: True) -> list[str]:
        """Give back requests whose worker timed out (Hive Worker revocation), and wanted ones that a dead run took."""
        timeout = self.services.settings.integer("hive.compactor.worker.timeout")
        revoked = self.queue.revoke_timed_out(self.services.now_ms(), timeout)
        were = plural(revoked, "request was", "requests were")
        notes = [f"{were} given back, as the worker timed out"] if revoked else []
        rows = self.queue.in_states(State.WORKING)

        def given_back(row: CompactionRequest) -> bool:
            return self.ours(row) and is_wanted(row) and self._give_back_if_dead(row)

        for row, answer in zip(
            rows, in_threads(given_back, rows, seconds=step_seconds(self.services.settings)), strict=True
        ):
            if isinstance(answer, AcidError):
                notes.append(f"request {row.id} for {row.ref} could not be given back: {answer}")
            elif answer:
                notes.append(f"request {row.id} for {row.ref} was given back: its run is dead")
        self.services.warn(notes)
        return notes

    def _give_back_if_dead(self, row: CompactionRequest) -> bool:
        """Give the request of a dead run back, and return whether that was done.

        Its publication is finished before: one of its two renames may have been made. A claim that seems stale is taken
        for that: then it is so by the clock of the store, whatever the clock of this machine says.
        """
        if row.worker_id is None or not self._seems_dead(row):
            return False
        try:
            with suppress(CorruptError, RefusedError):  # the run that takes the request reports it
                finish_publications(
                    self.services,
                    self.whereabouts(row),
                    partial(self.exclusive, row.ref),
                    claims_always=not is_known_dead(row),
                )
            self.queue.give_back(row.id, row.worker_id)
        except (ConflictError, RetryError):
            return False  # it has ended meanwhile, or another run works there
        return True

    def _seems_dead(self, row: CompactionRequest) -> bool:
        """Return whether the run that took a request seems dead by its process, or by its claim and the clock here.

        It does if its process has ended on this machine, if its claim on the place is stale, or if it has no claim
        and took the request longer ago than a claim may be silent: for a worker ends the request in the queue before it
        releases the claim.
        """
        if not (row.worker_id or "").startswith(WORKER_PREFIX):
            return False
        if is_known_dead(row):
            return True
        if row.start_ms is None:
            return False
        took_long = self.queue.now_ms(self.services.now_ms()) - row.start_ms > STALE_SECONDS * 1000
        try:
            location = self.whereabouts(row)
        except RefusedError:
            return took_long  # the table is gone: the run that takes the request says so
        except AcidError:
            return False
        try:
            if not self.services.fs(location).is_directory(str(location)):
                return False
            holder = self.services.store(location).holder(location, now=self.services.clock())
        except AcidError:
            return False  # a place that is out of reach from here proves nothing
        is_stale = holder is None or holder.is_stale
        return is_stale and (took_long or (holder is not None and holder.owner == row.worker_id))

    def take(self, request: CompactionRequest) -> CompactionRequest | None:
        """Claim the request by its id; None when another worker has it."""
        return self.queue.claim_id(request.id, self.services.worker_id, self.services.now_ms())

    def refuse(self, request: CompactionRequest, reason: str) -> None:
        """End a request as refused, unless another worker has it."""
        worker, now_ms = self.services.worker_id, self.services.now_ms()
        if self.queue.claim_id(request.id, worker, now_ms):
            self.queue.end(request.id, State.REFUSED, now_ms, worker_id=worker, reason=reason)

    def queue_and_take(self, request: CompactionRequest) -> CompactionRequest:
        """Queue a request for a named place, take it, and return it: it ends with this run.

        A waiting request of the same kind is taken over. ConflictError where any other request is in the way.
        """
        queue, worker, now_ms = self.queue, self.services.worker_id, self.services.now_ms()
        request = replace(request, facts=request.facts.updated(RequestFacts(process=process_identity())))
        answer = queue.enqueue(request, now_ms=now_ms, worker_id=worker)
        if answer.working is not None:
            self.queued_here.add(answer.working.id)
            return answer.working
        waiting = None
        if answer.state is State.INITIATED:
            with suppress(CorruptError):  # a row that is not understood is in the way as well
                waiting = queue.find(answer.id)
        if waiting is None or waiting.type is not request.type:
            raise in_the_way(str(request.ref), answer.reason)
        claimed = queue.claim_id(answer.id, worker, now_ms)
        if claimed is None:
            raise taken_by_another(str(request.ref), answer.id)
        # the facts stated now are newer than those of the waiting request
        queue.change(answer.id, worker, facts=request.facts)
        return replace(claimed, facts=claimed.facts.updated(request.facts))

    def attempts(self, targets: Sequence[Target]) -> Attempts:
        """Read the queue and its history: at the places in a queue of our own, else everywhere."""
        if self.queue.schema_version is None:
            rows = self.queue.rows_at((target.location for target in targets), states=COUNTED)
        else:  # a metastore's rows have no locations
            rows = self.queue.in_states(*COUNTED)
        return Attempts(filter(self.ours, rows), self.services.settings)

    def backoff_reason(self, target: Target, kind: CompactionType, *, dry_run: bool) -> str | None:
        """Apply the queue's rule of failed attempts."""
        request, now_ms = self.request_for(target, kind, initiator=self.services.initiator_id), self.services.now_ms()
        settings = self.services.settings
        reason = self.queue.failed_attempts(
            request,
            threshold=settings.integer("metastore.compactor.initiator.failed.compacts.threshold"),
            retry_ms=settings.integer("metastore.compactor.initiator.failed.retry.time"),
            now_ms=now_ms,
        )
        if reason is not None and not dry_run:
            self.queue.record_not_initiated(request, reason, now_ms)
        return reason

    def quarantining_request(self, target: Target, listing: Listing) -> CompactionRequest | None:
        """Judge the rows about the place."""
        return quarantining_request(self.rows_at(target), listing.top_directories())

    @abstractmethod
    def decided_request(self, decided: Decided) -> CompactionRequest:
        """Return the request for a compaction that the initiator wants."""

    def enqueue(self, decided: Sequence[Decided]) -> list[int | AcidError]:
        """Queue all in one transaction, or each by itself where one is refused."""
        return answers_of(self._enqueue, decided)

    def _enqueue(self, decided: Sequence[Decided]) -> list[int | AcidError]:
        requests = [self.decided_request(decision) for decision in decided]
        answers = self.queue.enqueue_all(requests, now_ms=self.services.now_ms())
        return [answer.id if answer.accepted else ConflictError(answer.reason or ALREADY_QUEUED) for answer in answers]

    def find_own(self, request_id: int) -> CompactionRequest:
        """Return the request of an id; MissingError where there is none, RefusedError unless it is `ours`."""
        row = self.queue.find(request_id)
        if row is None:
            raise MissingError(
                f"Cannot undo request {request_id}: there is no such request in {self.queue.shown}; see acidlib show, "
                "or name the queue with --queue-url"
            )
        if not self.ours(row):
            raise RefusedError(
                f"Cannot undo the compaction of {row.ref}: request {request_id} is {surroundings_of(row)}"
            )
        return row

    @abstractmethod
    def undo_target(self, request: CompactionRequest) -> Target:
        """Return the place of a request, interpreted as of now; RefusedError unless it is the place compacted then."""

    @abstractmethod
    def undo_hold(self, request: CompactionRequest) -> Hold:
        """Return the hold for undoing a compaction, which is not begun yet."""

    @abstractmethod
    def require_no_reader(self, request: CompactionRequest, target: Target) -> None:
        """Raise ConflictError while a query is known to read there, or a compactor is about to work there.

        RefusedError where the result is known to be another than was published.
        """

    def purge_history(self) -> None:
        """Delete the rows of the history that the settings do not keep."""
        self.queue.purge_history(history_retention(self.services.settings), self.services.now_ms())


def with_figures(request: CompactionRequest, decided: Decided) -> CompactionRequest:
    """Return a request with the figures of the initiator, for which only the tables of our own queue have room."""
    mark = decided.place.write_ids.for_compactor().high_water_mark
    return replace(request, highest_write_id=mark, facts=request.facts.updated(decided.figures))


def is_known_dead(request: CompactionRequest) -> bool:
    """Return whether the run that made a request for itself, or took it, ran on this machine, and has ended."""
    return has_ended(request.facts.process or "") or signer_has_ended(request.worker_id or "")


def surroundings_of(row: CompactionRequest) -> str:
    """Return the surroundings of a request that is not `ours`, and how to name them."""
    owner = f"the metastore {row.facts.metastore}" if row.facts.metastore else "a directory alone"
    return f"of {owner}: name that with --metastore-uri (or none)"


ALREADY_QUEUED = "it is already queued"
"""The reason where a queue says no more of a request that it does not accept."""


def in_the_way(name: str, reason: str | None) -> ConflictError:
    """Return the error for a named place while another request for it is in the queue."""
    return ConflictError(
        f"Cannot compact {name}: {reason or ALREADY_QUEUED}; acidlib show has it: a run that drains the queue "
        "does it, and acidlib cancel withdraws it while it waits"
    )


def taken_by_another(name: str, number: int) -> ConflictError:
    """Return the error for a request that another worker had first."""
    return ConflictError(
        f"Cannot compact {name}: another worker has taken request {number}, and does it; see acidlib show"
    )


def history_retention(settings: Settings) -> Retention:
    """Return the limits of the history by Hive's settings `metastore.compactor.history.retention.*`."""
    return Retention(
        succeeded=settings.integer("metastore.compactor.history.retention.succeeded"),
        failed=settings.integer("metastore.compactor.history.retention.failed"),
        did_not_initiate=settings.integer("metastore.compactor.history.retention.did.not.initiate"),
        refused=settings.integer("metastore.compactor.history.retention.refused"),
        timeout_ms=settings.integer("metastore.compactor.history.retention.timeout"),
        failed_threshold=settings.integer("metastore.compactor.initiator.failed.compacts.threshold"),
    )


class SqlHold(CompactionHold):
    """The place of a request in a SQL queue; a request that this run has not taken is only read."""

    def __init__(self, backend: SqlBackend, request: CompactionRequest, target: Target) -> None:
        super().__init__(backend.services, request, target)
        self._backend = backend
        self._queue = backend.queue
        self._mark: int | None = None
        self._inputs: str | None = None
        self._noted_unverified = bool(request.facts.unverified)
        self._lifts_quarantine = False

    def assert_mine(self) -> None:
        """Check the claim, and that a request that this run works on is still its own."""
        super().assert_mine()
        if self.request.state is State.WORKING:
            self._queue.assert_owned(self.request.id, self._services.worker_id)

    def quarantining_request(self, listing: Listing) -> CompactionRequest | None:
        """Judge the rows as they are now, under the hold: a run that verifies a result holds its place to the end."""
        request = self._backend.quarantining_request(self.target, listing)
        self._lifts_quarantine = request is not None and shows_unverified(request)
        return request

    def will_verify(self, directories: tuple[str, ...]) -> None:
        """Note it in the request, where later runs look for it until the request notes that the result is verified."""
        self._noted_unverified = True
        facts = replace(self._identity_facts(), unverified=directories, inputs=self._inputs)
        self._queue.change(self.request.id, self._services.worker_id, facts=facts)

    def start(self, high_water_mark: int, inputs: str | None = None) -> None:
        """Remember both until the result is noted in the queue, for without a result they do not count."""
        self._mark, self._inputs = high_water_mark, inputs

    def awaited_marks(self) -> tuple[int, ...]:
        """Ask the queue; none where this run lifts a quarantine, which takes the cleaning of a newer request."""
        return () if self._lifts_quarantine else awaited_marks(self._backend.rows_at(self.target))

    def only_clean(self, high_water_mark: int) -> None:
        """Make it a request to clean only.

        The run that made the directories obsolete may have died before it could tell the queue. The covering ones count
        as published now, for the queue does not know when they were.
        """
        self.start(high_water_mark)
        self._mark_compacted(())

    def transactions_now(self) -> ValidTxnList:
        """Return a list in which everything has committed: transactions do not matter there."""
        return ALL_COMMITTED

    def published(self, directories: tuple[str, ...]) -> None:
        """Make the request ready for cleaning, with the facts that the cleaner needs."""
        try:
            self._mark_compacted(directories)
        except AcidError as error:
            raise UnknownOutcomeError(
                f"Cannot note that {self.target.ref} is compacted: {error}; its results are visible "
                "and right, and stay; clean it with a new compaction"
            ) from error

    def _mark_compacted(self, directories: tuple[str, ...]) -> None:
        now_ms = self._services.now_ms()
        facts = replace(
            self._publication_facts(directories), outputs=directories, published_ms=now_ms, inputs=self._inputs
        )
        if self._noted_unverified:
            facts = replace(facts, unverified=())
        self._queue.mark_compacted(
            self.request.id, self._services.worker_id, now_ms, highest_write_id=self._mark, facts=facts
        )
        reach(Point.MARKED)

    def _identity_facts(self) -> RequestFacts:
        """Return facts that tell the place from another one of its name, also before anything is published there."""
        return NO_FACTS

    @abstractmethod
    def _publication_facts(self, directories: tuple[str, ...]) -> RequestFacts:
        """Return the facts of this publication that the cleaner needs besides."""

    def end(self, outcome: Outcome, reason: str, *, named: bool, noted: RequestFacts) -> str | None:
        """Put refused and failed requests into the history; give a conflict back unless the place was named.

        A request that was left to another run is given back as well. One for a place that is compact already leaves
        nothing that a status would count.
        """
        number = self.request.id
        worker, now_ms = self._services.worker_id, self._services.now_ms()
        if outcome is Outcome.REFUSED or (outcome is Outcome.CONFLICT and named):
            self._queue.end(number, State.REFUSED, now_ms, worker_id=worker, reason=reason, facts=noted)
        elif outcome is Outcome.ALREADY_COMPACT:
            self._queue.mark_needless(number, now_ms, worker_id=worker)
        elif outcome is Outcome.FAILED:
            self._queue.end(number, State.FAILED, now_ms, worker_id=worker, reason=reason, facts=noted)
        elif outcome in (Outcome.CONFLICT, Outcome.SKIPPED):
            self.abandon()
        return None

    def abandon(self, *, may_be_visible: bool = False) -> None:
        """Give the request back to the queue, or withdraw it."""
        is_new = self.request.id in self._backend.queued_here
        end = self._queue.withdraw if is_new and not may_be_visible else self._queue.give_back
        end(self.request.id, self._services.worker_id)


class SqlCleaning(Cleaning):
    """The requests of a SQL queue that a run of the cleaner is about, and the retries of failed cleanings."""

    backend: SqlBackend

    @abstractmethod
    def is_wanted(self, request: CompactionRequest) -> bool:
        """Return whether a request is ours, and of a place that the cleaner was asked for."""

    def recover(self) -> list[str]:
        """Give back requests of dead runs."""
        return self.backend.recover(self.is_wanted)

    def ready(self) -> list[CompactionRequest]:
        """Return the requests that are ready, an earlier mark of a place before a later one."""
        return list(filter(self.is_wanted, self.backend.queue.ready_for_cleaning()))

    def not_ready_reason(self, request: CompactionRequest) -> str | None:
        """Try a cleaning that failed again after 2^n times the retention, counted from the commit, as in Hive."""
        if not request.retry_retention_ms or request.commit_ms is None:
            return None
        due_ms = request.commit_ms + request.retry_retention_ms
        if self.services.now_ms() >= due_ms:
            return None
        return f"the last try failed ({request.error_message}); the next is not made before {utc_words(due_ms / 1000)}"

    def note_failure(self, request: CompactionRequest, error: AcidError) -> None:
        """Note a failed cleaning for a later try, or give the request up after so many."""
        base = self.services.settings.integer("metastore.compactor.cleaner.retry.retention.time")
        most = self.services.settings.integer("hive.compactor.cleaner.retry.maxattempts")
        before = request.retry_retention_ms
        attempts = 0 if not before or not base else (before // base).bit_length()
        if attempts >= most:
            self.backend.queue.end(request.id, State.FAILED, self.services.now_ms(), reason=str(error))
        else:
            self.backend.queue.change(request.id, None, error_message=str(error), retry_retention_ms=base << attempts)

    def known_places(self) -> list[CompactionRequest]:
        """Return a request of each place in the queue and the history: wherever a compaction was asked for."""
        return list(filter(self.is_wanted, self.backend.queue.newest_of_places()))
