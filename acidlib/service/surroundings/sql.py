"""Requests in a SQL queue: taking and queueing them, what dead runs left, and the hold on the place of one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial

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
from acidlib.model.listing import Listing
from acidlib.model.location import Location
from acidlib.model.requests import NO_FACTS, CompactionRequest, CompactionType, RequestFacts, State
from acidlib.model.snapshots import ALL_COMMITTED, ValidTxnList
from acidlib.model.tables import TableRef
from acidlib.planning.results import quarantining_request, shows_unverified
from acidlib.points import Point, reach
from acidlib.processes import has_ended, process_identity
from acidlib.queue.rules import Retention
from acidlib.queue.sql import SqlQueue
from acidlib.report.results import Outcome
from acidlib.service.attempts import COUNTED, Attempts, awaited_marks
from acidlib.service.backend import Backend, CompactionHold, Decided, Hold, finish_publications
from acidlib.service.clean import Cleaning
from acidlib.service.places import Target
from acidlib.service.services import WORKER_PREFIX, Services
from acidlib.stores.store import STALE_SECONDS
from acidlib.wording import plural, utc_words


class SqlBackend(Backend):
    """Requests in a SQL queue, of which some are `ours`: others may be of other metastores."""

    knows_readers = True
    """A metastore tells which queries may read a place."""

    def __init__(self, services: Services, queue: SqlQueue) -> None:
        super().__init__(services)
        self.queue = queue
        self.queued_here: set[int] = set()
        """The requests that this run has queued for itself, which are withdrawn when it gives up."""

    @abstractmethod
    def ours(self, row: CompactionRequest) -> bool:
        """Return whether a request is of these surroundings."""

    @abstractmethod
    def rows_at(self, target: Target) -> Sequence[CompactionRequest]:
        """Return the rows of the queue and its history that concern a place."""

    @abstractmethod
    def whereabouts(self, row: CompactionRequest) -> Location:
        """Return where the place of a request lies; RefusedError where it is gone."""

    @abstractmethod
    def request_for(self, target: Target, kind: CompactionType, *, initiator: str) -> CompactionRequest:
        """Return a request for a place."""

    def exclusive(self, ref: TableRef) -> AbstractContextManager[object]:
        """Keep readers away from a table or partition, as far as anything can."""
        del ref
        return nullcontext()

    def finish(self, target: Target) -> None:
        """Finish the publications of dead runs, as they would have been published."""
        finish_publications(self.services, target.location, partial(self.exclusive, target.ref))

    def recover(self, is_wanted: Callable[[CompactionRequest], bool] = lambda _: True) -> list[str]:
        """Give back requests whose worker timed out (Hive Worker revocation), and of those wanted what dead runs have.

        First is made whole what one of two renames may have made visible.
        """
        timeout = self.services.settings.integer("hive.compactor.worker.timeout")
        revoked = self.queue.revoke_timed_out(self.services.now_ms(), timeout)
        were = plural(revoked, "request was", "requests were")
        notes = [f"{were} given back, as the worker timed out"] if revoked else []
        for row in self.queue.in_states(State.WORKING):
            if row.worker_id is None or not (self.ours(row) and is_wanted(row) and self._is_dead(row)):
                continue
            try:
                with suppress(CorruptError, RefusedError):  # the run that takes the request reports it
                    finish_publications(self.services, self.whereabouts(row), partial(self.exclusive, row.ref))
                self.queue.give_back(row.id, row.worker_id)
            except (ConflictError, RetryError):
                continue  # it has ended meanwhile, or is left to another run
            notes.append(f"request {row.id} for {row.ref} was given back: its run is dead")
        return notes

    def _is_dead(self, row: CompactionRequest) -> bool:
        """Return whether the run that took a request is dead, as far as its process and its claim on the place tell.

        Dead is one whose process is known to have ended, or whose claim on the place is stale, or that took the request
        longer ago than a claim may be silent and holds none: a worker tells the queue how a request ended before it
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
            return False  # what cannot be looked at from here proves nothing
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
        """Queue a request for a named place, and return it: it is ours now, and ends with this run.

        One of its kind that waits already is taken over. ConflictError for any other one in the way.
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
        # what is stated now is newer than what the waiting request was made with
        queue.change(answer.id, worker, facts=request.facts)
        return replace(claimed, facts=claimed.facts.updated(request.facts))

    def attempts(self, targets: Sequence[Target]) -> Attempts:
        """Return what our requests and their history say, whichever queue it is."""
        if self.queue.schema_version is None:
            rows = self.queue.rows_at((target.location for target in targets), states=COUNTED)
        else:  # its rows have no locations
            rows = self.queue.in_states(*COUNTED)
        return Attempts(filter(self.ours, rows), self.services.settings)

    def backoff_reason(self, target: Target, kind: CompactionType, *, dry_run: bool) -> str | None:
        """Ask the queue's rule about failed attempts."""
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
        """Look through the rows about the place."""
        return quarantining_request(self.rows_at(target), listing.top_directories())

    @abstractmethod
    def decided_request(self, decided: Decided) -> CompactionRequest:
        """Return the request for what the initiator decided."""

    def enqueue(self, decided: Sequence[Decided]) -> list[int | AcidError]:
        """Queue all in one transaction, or each by itself where one is refused."""
        try:
            requests = [self.decided_request(one) for one in decided]
            answers = self.queue.enqueue_all(requests, now_ms=self.services.now_ms())
        except RefusedError as error:  # it is about one of them
            return [error] if len(decided) == 1 else [self.enqueue([one])[0] for one in decided]
        except AcidError as error:
            return [error] * len(decided)
        return [answer.id if answer.accepted else not_accepted(answer.reason) for answer in answers]

    def find_own(self, request_id: int) -> CompactionRequest:
        """Return the request of an id; MissingError where there is none, RefusedError where it is not one of ours."""
        row = self.queue.find(request_id)
        if row is None:
            raise MissingError(
                f"Cannot undo request {request_id}: there is no such request in {self.queue.shown}; see acidlib show, "
                "or name the queue with --queue-url"
            )
        if not self.ours(row):
            of = f"the metastore {row.facts.metastore}" if row.facts.metastore else "a directory alone"
            raise RefusedError(
                f"Cannot undo the compaction of {row.ref}: request {request_id} is of {of}: name that with "
                "--metastore-uri (or none)"
            )
        return row

    @abstractmethod
    def undo_target(self, request: CompactionRequest) -> Target:
        """Return the place of a request, understood as of now; RefusedError where it is another than was compacted."""

    @abstractmethod
    def undo_hold(self, request: CompactionRequest) -> Hold:
        """Return the hold under which a compaction is undone, which is not begun yet."""

    @abstractmethod
    def require_no_reader(self, request: CompactionRequest, target: Target) -> None:
        """Raise ConflictError while a query reads there, as far as that can be known, or a compactor is about to work.

        RefusedError where the result is known not to be the one that was published.
        """

    def purge_history(self) -> None:
        """Delete from the history what the settings do not keep."""
        self.queue.purge_history(history_retention(self.services.settings), self.services.now_ms())


def with_figures(request: CompactionRequest, decided: Decided) -> CompactionRequest:
    """Return a request with what the initiator saw, which the tables of our own queue have room for."""
    mark = decided.place.write_ids.for_compactor().high_water_mark
    return replace(request, highest_write_id=mark, facts=request.facts.updated(decided.figures))


def is_known_dead(request: CompactionRequest) -> bool:
    """Return whether the run that made a request for itself ran on this machine, and has ended."""
    return has_ended(request.facts.process or "")


def not_accepted(reason: str | None) -> ConflictError:
    """Return why a request is not queued."""
    return ConflictError(reason or "it is already queued")


def in_the_way(name: str, reason: str | None) -> ConflictError:
    """Return the error for what is named while another request for it is in the queue."""
    return ConflictError(
        f"Cannot compact {name}: {reason or 'it is already queued'}; acidlib show has it: a run that drains the queue "
        "does it, and acidlib cancel withdraws it while it waits"
    )


def taken_by_another(name: str, number: int) -> ConflictError:
    """Return the error for a request that another worker had first."""
    return ConflictError(
        f"Cannot compact {name}: another worker has taken request {number}, and does it; see acidlib show"
    )


def history_retention(settings: Settings) -> Retention:
    """Return how much of the history is kept, by Hive's settings `metastore.compactor.history.retention.*`."""
    return Retention(
        succeeded=settings.integer("metastore.compactor.history.retention.succeeded"),
        failed=settings.integer("metastore.compactor.history.retention.failed"),
        did_not_initiate=settings.integer("metastore.compactor.history.retention.did.not.initiate"),
        refused=settings.integer("metastore.compactor.history.retention.refused"),
        timeout_ms=settings.integer("metastore.compactor.history.retention.timeout"),
        failed_threshold=settings.integer("metastore.compactor.initiator.failed.compacts.threshold"),
    )


class SqlHold(CompactionHold):
    """The place of a request in a SQL queue. A request that this run does not work on is only read."""

    def __init__(self, backend: SqlBackend, request: CompactionRequest, target: Target) -> None:
        super().__init__(backend.services, request, target)
        self._backend = backend
        self._queue = backend.queue
        self._mark: int | None = None
        self._inputs: str | None = None
        self._noted_unverified = bool(request.facts.unverified)
        self._releases = False

    def assert_mine(self) -> None:
        """Ask for the claim, and for a request that this run works on."""
        super().assert_mine()
        if self.request.state is State.WORKING:
            self._queue.assert_owned(self.request.id, self._services.worker_id)

    def quarantining_request(self, listing: Listing) -> CompactionRequest | None:
        """Read the rows about the place as they are now: a run that verified it held it until its end was noted."""
        found = self._backend.quarantining_request(self.target, listing)
        self._releases = found is not None and shows_unverified(found)
        return found

    def will_verify(self, directories: tuple[str, ...]) -> None:
        """Note it in the request, where later runs look for it until the result is said to be verified."""
        self._noted_unverified = True
        facts = replace(self._identity(), unverified=directories, inputs=self._inputs)
        self._queue.change(self.request.id, self._services.worker_id, facts=facts)

    def start(self, high_water_mark: int, inputs: str | None = None) -> None:
        """Remember both: the queue is told of them with the result, for they do not count before there is one."""
        self._mark, self._inputs = high_water_mark, inputs

    def awaited_marks(self) -> tuple[int, ...]:
        """Ask the queue; none where the place is released, for that is done by the cleaning of a newer request."""
        return () if self._releases else awaited_marks(self._backend.rows_at(self.target))

    def only_clean(self, high_water_mark: int) -> None:
        """Make it a request to clean only.

        Obsolete may be what a run made so that died before it could tell the queue. What covers it counts as published
        now, for it is not known when it was.
        """
        self.start(high_water_mark)
        self._mark_compacted(())

    def transactions_now(self) -> ValidTxnList:
        """No transaction has to do with what lies there."""
        return ALL_COMMITTED

    def published(self, directories: tuple[str, ...]) -> None:
        """Make the request ready for cleaning, with what the cleaner needs."""
        try:
            self._mark_compacted(directories)
        except AcidError as error:
            raise UnknownOutcomeError(
                f"Cannot note that {self.target.ref} is compacted: {error}; its results are visible "
                "and right, and stay; clean it with a new compaction"
            ) from error

    def _mark_compacted(self, directories: tuple[str, ...]) -> None:
        now_ms = self._services.now_ms()
        facts = replace(self._facts(directories), outputs=directories, published_ms=now_ms, inputs=self._inputs)
        if self._noted_unverified:
            facts = replace(facts, unverified=())
        self._queue.mark_compacted(
            self.request.id, self._services.worker_id, now_ms, highest_write_id=self._mark, facts=facts
        )
        reach(Point.MARKED)

    def _identity(self) -> RequestFacts:
        """Return what tells the place from another one of its name, also before anything is published there."""
        return NO_FACTS

    @abstractmethod
    def _facts(self, directories: tuple[str, ...]) -> RequestFacts:
        """Return what else the cleaner has to know of this publication."""

    def end(self, outcome: Outcome, reason: str, *, named: bool, noted: RequestFacts) -> str | None:
        """Put refused and failed requests into the history, conflicts back into the queue unless they were named.

        So does what was left to another run. A request for a place that is compact already leaves nothing that a status
        would count.
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
