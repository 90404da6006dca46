"""What services do with a SQL queue by the settings of a run: queue, claim, count failures, try again, forget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from acidlib.engine.backend import Decided, Taken, Waiting
from acidlib.engine.services import Services
from acidlib.engine.target import Target
from acidlib.errors import AcidError, ConflictError, RefusedError
from acidlib.model.request_facts import RequestFacts
from acidlib.model.requests import CompactionRequest, State
from acidlib.processes import process_identity
from acidlib.queue.rules import Retention
from acidlib.queue.sql import SqlQueue
from acidlib.settings import Settings
from acidlib.wording import utc_words


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
        raise in_the_way(request.full_name, answer.reason)
    claimed = queue.claim_id(answer.id, services.worker_id, services.now_ms())
    if claimed is None:
        raise taken_by_another(request.full_name, answer.id)
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
