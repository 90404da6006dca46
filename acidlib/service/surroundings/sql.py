"""Requests in a SQL queue: queueing, counting failures, and the hold on one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from acidlib.config.settings import Settings
from acidlib.errors import AcidError, ConflictError, RefusedError, UnknownOutcomeError
from acidlib.model.listing import Listing
from acidlib.model.location import Location
from acidlib.model.requests import NO_FACTS, UNVERIFIED, CompactionRequest, RequestFacts, State
from acidlib.model.snapshots import ALL_COMMITTED, ValidTxnList
from acidlib.planning.inputs import Publication
from acidlib.planning.results import holding, shows
from acidlib.points import Point, passing
from acidlib.processes import process_identity
from acidlib.queue.rules import Retention
from acidlib.queue.sql import SqlQueue
from acidlib.report.results import Outcome, Statistics
from acidlib.service.attempts import awaited_marks
from acidlib.service.backend import Decided, Taken, Waiting
from acidlib.service.places import Target
from acidlib.service.services import Services
from acidlib.stores.store import Claim
from acidlib.wording import utc_words

# --- queueing ---------------------------------------------------------------------------------------------------------
# What services do with a SQL queue by the settings of a run: queue, claim, count failures, try again, forget.


def queue_all(
    services: Services,
    queue: SqlQueue,
    decided: Sequence[Decided],
    as_request: Callable[[Decided], CompactionRequest],
) -> list[int | AcidError]:
    """Queue what was decided: the id of each, or why it is not queued, such as the queue's reason."""

    def queued(some: Sequence[Decided]) -> list[int | AcidError]:
        try:
            answers = queue.enqueue_all([as_request(one) for one in some], now_ms=services.now_ms())
        except RefusedError as error:  # it is about one of them
            return [error] if len(some) == 1 else [queued([one])[0] for one in some]
        except AcidError as error:
            return [error] * len(some)
        return [answer.id if answer.accepted else not_accepted(answer.reason) for answer in answers]

    return queued(decided)


def not_accepted(reason: str | None) -> ConflictError:
    """Why a request is not queued."""
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


def failed_attempts(services: Services, queue: SqlQueue, request: CompactionRequest, *, dry_run: bool) -> str | None:
    """Why a place whose last compactions failed is left alone; unless it is a dry run, the history says so too."""
    reason = queue.failed_attempts(
        request,
        threshold=services.settings.integer("metastore.compactor.initiator.failed.compacts.threshold"),
        retry_ms=services.settings.integer("metastore.compactor.initiator.failed.retry.time"),
        now_ms=services.now_ms(),
    )
    if reason is not None and not dry_run:
        queue.record_not_initiated(request, reason, services.now_ms())
    return reason


def take_waiting(services: Services, queue: SqlQueue, waiting: Waiting) -> Taken | None:
    """Claim a request by its id; None when another worker has it."""
    claimed = queue.claim_id(waiting.request.id, services.worker_id, services.now_ms())
    return None if claimed is None else Taken(request=claimed, target=waiting.target)


def refuse_waiting(services: Services, queue: SqlQueue, waiting: Waiting, reason: str) -> None:
    """End a request as refused, unless another worker has it."""
    if queue.claim_id(waiting.request.id, services.worker_id, services.now_ms()):
        queue.mark_refused(waiting.request.id, reason, services.now_ms(), worker_id=services.worker_id)


def queue_and_claim(services: Services, queue: SqlQueue, request: CompactionRequest, target: Target) -> Taken:
    """Return a request for this place that is now ours and ends with this run; ConflictError for one in the way."""
    request = replace(request, facts=request.facts.updated(RequestFacts(process=process_identity())))
    answer = queue.enqueue(request, now_ms=services.now_ms(), worker_id=services.worker_id)
    if answer.taken is not None:
        return Taken(request=answer.taken, target=target, is_new=True)
    waiting = queue.find(answer.id) if answer.state is State.INITIATED else None
    if waiting is None or waiting.type is not request.type:
        raise in_the_way(str(request.ref), answer.reason)
    claimed = queue.claim_id(answer.id, services.worker_id, services.now_ms())
    if claimed is None:
        raise taken_by_another(str(request.ref), answer.id)
    # what is stated now is newer than what the waiting request was made with
    queue.set_facts(answer.id, services.worker_id, request.facts)
    return Taken(request=replace(claimed, facts=claimed.facts.updated(request.facts)), target=target)


def purge_history(services: Services, queue: SqlQueue) -> None:
    """Delete from the history what the settings do not keep."""
    queue.purge_history(history_retention(services.settings), services.now_ms())


def history_retention(settings: Settings) -> Retention:
    """How much of the history is kept, by Hive's settings `metastore.compactor.history.retention.*`."""
    return Retention(
        succeeded=settings.integer("metastore.compactor.history.retention.succeeded"),
        failed=settings.integer("metastore.compactor.history.retention.failed"),
        did_not_initiate=settings.integer("metastore.compactor.history.retention.did.not.initiate"),
        refused=settings.integer("metastore.compactor.history.retention.refused"),
        timeout_ms=settings.integer("metastore.compactor.history.retention.timeout"),
        failed_threshold=settings.integer("metastore.compactor.initiator.failed.compacts.threshold"),
    )


class SqlReadyRequests:
    """The requests of a SQL queue that a run of the cleaner is about, and what becomes of a cleaning that failed."""

    def __init__(
        self,
        services: Services,
        queue: SqlQueue,
        is_wanted: Callable[[CompactionRequest], bool],
        *,
        recover: Callable[[], list[str]],
    ) -> None:
        self._services = services
        self._queue = queue
        self._is_wanted = is_wanted
        self._recover = recover

    def recover(self) -> list[str]:
        """Requests of dead runs go back to the queue."""
        return self._recover()

    def ready(self) -> list[CompactionRequest]:
        """The requests that are ready, an earlier mark of a place before a later one."""
        return [request for request in self._queue.ready_for_cleaning() if self._is_wanted(request)]

    def waits(self, request: CompactionRequest) -> str | None:
        """A cleaning that failed is tried again after 2^n times the retention, counted from the commit, as in Hive."""
        if not request.retry_retention_ms or request.commit_ms is None:
            return None
        due_ms = request.commit_ms + request.retry_retention_ms
        if self._services.now_ms() >= due_ms:
            return None
        return f"the last try failed ({request.error_message}); the next is not made before {utc_words(due_ms / 1000)}"

    def note_failure(self, request: CompactionRequest, error: AcidError) -> None:
        """Note a failed cleaning for a later try, or give the request up after so many."""
        base = self._services.settings.integer("metastore.compactor.cleaner.retry.retention.time")
        most = self._services.settings.integer("hive.compactor.cleaner.retry.maxattempts")
        before = request.retry_retention_ms
        attempts = 0 if not before or not base else (before // base).bit_length()
        if attempts >= most:
            self._queue.mark_failed(request.id, str(error), self._services.now_ms(), worker_id=None)
        else:
            self._queue.set_cleaner_note(request.id, str(error), base << attempts)

    def known_places(self) -> list[CompactionRequest]:
        """A request of each place in the queue and the history: wherever a compaction was asked for."""
        return [request for request in self._queue.newest_of_places() if self._is_wanted(request)]


# --- sql hold ---------------------------------------------------------------------------------------------------------
# One request in a SQL queue, and the claim on its place.


class SqlHold:
    """A request in a SQL queue that is ours; what else it takes of its place is for each kind to say."""

    def __init__(self, services: Services, queue: SqlQueue, taken: Taken) -> None:
        self._services = services
        self._queue = queue
        self._taken = taken
        self._claim: Claim | None = None

    def _claimed(self, location: Location) -> Claim:
        """The claim on a place, which `close` gives back."""
        self._claim = self._services.claim(location)
        return self._claim

    def assert_held(self) -> None:
        """The claim is ours, as far as there is one."""
        if self._claim is not None:
            self._claim.assert_mine()

    def end(self, outcome: Outcome, reason: str, *, named: bool, note: str | None) -> str | None:
        """Refused and failed requests go to the history, conflicts back to the queue unless they were named.

        So does what was left to another run. A request for a place that is compact already leaves nothing that a status
        would count.
        """
        number = self._taken.request.id
        worker, now_ms = self._services.worker_id, self._services.now_ms()
        noted = RequestFacts(files=note)
        if outcome is Outcome.REFUSED or (outcome is Outcome.CONFLICT and named):
            self._queue.mark_refused(number, reason, now_ms, worker_id=worker, facts=noted)
        elif outcome is Outcome.ALREADY_COMPACT:
            self._queue.mark_needless(number, now_ms, worker_id=worker)
        elif outcome is Outcome.FAILED:
            self._queue.mark_failed(number, reason, now_ms, worker_id=worker, facts=noted)
        elif outcome in (Outcome.CONFLICT, Outcome.SKIPPED):
            self.abandon()
        return None

    def abandon(self, *, may_be_visible: bool = False) -> None:
        """Give the request back to the queue, or withdraw it; see Hold."""
        end = self._queue.withdraw if self._taken.is_new and not may_be_visible else self._queue.give_back
        end(self._taken.request.id, self._services.worker_id)

    def close(self) -> None:
        """Release the claim."""
        if self._claim is not None:
            self._claim.release()


class SqlHeldPlace:
    """The place of a request in a SQL queue, which is claimed."""

    def __init__(
        self, services: Services, queue: SqlQueue, request: CompactionRequest, target: Target, claim: Claim
    ) -> None:
        self._services = services
        self._queue = queue
        self._request = request
        self._claim = claim
        self._mark: int | None = None
        self._inputs: str | None = None
        self._noted_unverified = bool(request.facts.unverified)
        self._releases = False
        self.target = target

    @property
    def request_id(self) -> int:
        """Of our request."""
        return self._request.id

    def unverified(self, listing: Listing) -> CompactionRequest | None:
        """By the rows about the place, as they are now: a run that verified it held it until its end was noted."""
        found = holding(self._rows_here(noting=UNVERIFIED), listing.top_directories())
        self._releases = found is not None and shows(found)
        return found

    def will_verify(self, directories: tuple[str, ...]) -> None:
        """Note it in the request, where later runs look for it until the result is said to be verified."""
        self._noted_unverified = True
        facts = replace(self._identity(), unverified=directories, inputs=self._inputs)
        self._queue.set_facts(self._request.id, self._services.worker_id, facts)

    def start(self, high_water_mark: int, inputs: str | None = None) -> None:
        """Remember both: the queue is told of them with the result, for nobody asks before there is one."""
        self._mark, self._inputs = high_water_mark, inputs

    def awaited_marks(self) -> tuple[int, ...]:
        """By the rows about the place; none where it is released, for that is done by the cleaning of a newer one."""
        return () if self._releases else awaited_marks(self._rows_here())

    def only_clean(self, high_water_mark: int) -> None:
        """Make it a request to clean only.

        Obsolete may be what a run made so that died before it could tell the queue. What covers it counts as published
        now, for it is not known when it was.
        """
        self.start(high_water_mark)
        self._mark_compacted(())

    def _rows_here(self, noting: str | None = None) -> Sequence[CompactionRequest]:
        """Return the rows of the queue and its history about this place; with `noting` none if none notes that."""
        return self._queue.rows_at([self.target.location], noting=noting)

    def publishing(self, publication: Publication) -> AbstractContextManager[None]:
        """Nothing else has to be had: nobody else writes or reads, as the caller stated."""
        del publication
        return nullcontext()

    def assert_mine(self, high_water_mark: int) -> None:
        """The claim and the request are still ours."""
        del high_water_mark
        self._claim.assert_mine()
        self._queue.assert_owned(self._request.id, self._services.worker_id)

    def transactions_now(self) -> ValidTxnList:
        """None has to do with what lies there."""
        return ALL_COMMITTED

    def published(self, directories: tuple[str, ...]) -> None:
        """Ready for cleaning, with what the cleaner needs."""
        try:
            self._mark_compacted(directories)
        except AcidError as error:
            raise UnknownOutcomeError(
                f"Cannot note that {self.target.ref} is compacted: because {error}; its results are visible "
                "and right, and stay; clean it with a new compaction"
            ) from error

    def update_statistics(self, directories: tuple[str, ...], rows: int | None) -> Statistics | None:
        """Nothing: without a metastore there are none."""
        del directories, rows
        return None

    def _mark_compacted(self, directories: tuple[str, ...]) -> None:
        now_ms = self._services.now_ms()
        facts = replace(self._facts(directories), outputs=directories, published_ms=now_ms, inputs=self._inputs)
        if self._noted_unverified:
            facts = replace(facts, unverified=())
        self._queue.mark_compacted(
            self._request.id, self._services.worker_id, now_ms, highest_write_id=self._mark, facts=facts
        )
        passing(Point.MARKED)

    def _identity(self) -> RequestFacts:
        """What tells the place from another one of its name, also before anything is published there."""
        return NO_FACTS

    def _facts(self, directories: tuple[str, ...]) -> RequestFacts:
        """What else the cleaner has to know of this publication."""
        del directories
        return NO_FACTS
