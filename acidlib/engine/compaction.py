"""The compaction jobs: what is named on the command line, or what waits in the queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from acidlib.engine.leftovers import finish_publications, give_back_abandoned
from acidlib.engine.selection import Budget, Looked, Order, Selection, Spending, look_at, ordered, select_targets
from acidlib.engine.services import Services
from acidlib.engine.target import REASON, Target, Understanding, request_of, target_of
from acidlib.engine.worker import Job, Worker
from acidlib.errors import AcidError, ConflictError, RefusedError
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.units import RewriteSettings
from acidlib.queue.rules import LOCATION, Retention
from acidlib.report.results import CompactionResult, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRun:
    """What one run of minor_compact or major_compact is asked to do."""

    kind: CompactionType
    selection: Selection
    understanding: Understanding
    order: Order = Order.DELTAS
    budget: Budget = field(default_factory=Budget)
    dry_run: bool = False
    minor_as_major_bytes: int = 256 << 20
    rewrite: RewriteSettings = field(default_factory=RewriteSettings)

    @property
    def named(self) -> bool:
        """Whether a table or location is named; else the queue is drained."""
        return self.selection.location is not None or bool(self.selection.tables)


def run_compaction(services: Services, run: CompactionRun) -> tuple[list[CompactionResult], list[str]]:
    """Carry a run out; results in the order in which they ended, and notes about what was left or passed over."""
    worker = Worker(services, minor_as_major_bytes=run.minor_as_major_bytes, settings=run.rewrite)
    spending = Spending(run.budget, services.clock)
    notes: list[str] = []
    early: list[CompactionResult] = []
    if not run.dry_run:
        notes += give_back_abandoned(services)
    if run.named:
        targets, more = select_targets(services, run.selection, run.understanding)
        notes += more
        looked = ordered(look_at(services, targets, run.selection), run.order)
        jobs = _named_jobs(services, run, spending.within(looked), early)
    else:
        requests = services.queue.waiting(run.kind)
        looked = ordered(_look_at_requests(services, requests, run, early), run.order)
        jobs = _queued_jobs(services, run, spending.within(looked), requests)
    results = list(worker.compact(jobs))
    if spending.stopped is not None:
        notes.append(f"stopped: {spending.stopped}; the rest stays as it is")
    if not run.dry_run:
        services.queue.purge_history(history_retention(services), services.now_ms())
    return early + results, notes


def _named_jobs(
    services: Services, run: CompactionRun, looked: Iterator[Looked], early: list[CompactionResult]
) -> Iterator[Job]:
    for one in looked:
        if one.listing is None or one.error is not None:
            assert one.error is not None
            early.append(ended(one.target, run.kind, one.error))
            continue
        if run.dry_run:
            yield Job(target=one.target, kind=run.kind, request_id=None, named=True)
            continue
        try:
            finish_publications(services, one.target.location)
            target = one.target.as_listed(one.listing)
            request = request_of(target, run.kind, one.listing, initiator=f"{services.host}-manual")
            yield Job(target=target, kind=run.kind, request_id=_enqueue_and_claim(services, request), named=True)
        except AcidError as error:
            early.append(ended(one.target, run.kind, error))


def _enqueue_and_claim(services: Services, request: CompactionRequest) -> int:
    """The id of a request for this target that is now ours."""
    answer = services.queue.enqueue(request, now_ms=services.now_ms())
    if not answer.accepted and answer.state is not State.INITIATED:
        raise ConflictError(f"Cannot compact {request.full_name}: because {answer.reason}")
    waiting = None if answer.accepted else services.queue.find(answer.id)
    if waiting is not None and waiting.type is not request.type:
        raise ConflictError(f"Cannot compact {request.full_name}: because {answer.reason}")
    claimed = services.queue.claim_id(answer.id, services.worker_id, services.now_ms())
    if claimed is None:
        raise ConflictError(f"Cannot compact {request.full_name}: because another worker has taken request {answer.id}")
    if waiting is not None:
        # what is stated now is newer than what the waiting request was made with
        services.queue.set_properties(answer.id, services.worker_id, dict(request.properties))
    return answer.id


def _look_at_requests(
    services: Services, requests: Sequence[CompactionRequest], run: CompactionRun, early: list[CompactionResult]
) -> list[Looked]:
    targets = []
    for request in requests:
        try:
            targets.append(target_of(request))
        except AcidError as error:
            target = Target(database=request.database, table=request.table, partition=request.partition, location="")
            early.append(ended(target, request.type, error))
            if not run.dry_run and services.queue.claim_id(request.id, services.worker_id, services.now_ms()):
                services.queue.mark_refused(request.id, str(error), services.now_ms(), worker_id=services.worker_id)
    return look_at(services, targets, run.selection) if targets else []


def _queued_jobs(
    services: Services, run: CompactionRun, looked: Iterator[Looked], requests: Sequence[CompactionRequest]
) -> Iterator[Job]:
    queued = {(request.entity, request.property(LOCATION)): request for request in requests}
    for one in looked:
        target = one.target
        request = queued[(target.database, target.table, target.partition), target.location]
        why = request.property(REASON)
        if run.dry_run:
            yield Job(target=target, kind=run.kind, request_id=None, named=False, why=why)
        elif services.queue.claim_id(request.id, services.worker_id, services.now_ms()) is not None:
            yield Job(target=target, kind=run.kind, request_id=request.id, named=False, why=why)


def ended(target: Target, kind: CompactionType, error: AcidError) -> CompactionResult:
    """The result of a compaction that did not begin."""
    state = Outcome.FAILED
    if isinstance(error, ConflictError):
        state = Outcome.CONFLICT
    elif isinstance(error, RefusedError):
        state = Outcome.REFUSED
    return CompactionResult(
        id=None,
        database=target.database,
        table=target.table,
        location=target.location,
        partition=target.partition,
        type=kind.label.lower(),
        state=state,
        reason=str(error),
    )


def history_retention(services: Services) -> Retention:
    """How much history is kept, by Hive's settings."""
    prefix = "metastore.compactor.history.retention"
    settings = services.settings
    return Retention(
        succeeded=settings.integer(f"{prefix}.succeeded"),
        failed=settings.integer(f"{prefix}.failed"),
        did_not_initiate=settings.integer(f"{prefix}.did.not.initiate"),
        refused=settings.integer(f"{prefix}.refused"),
        timeout_ms=settings.integer(f"{prefix}.timeout"),
        failed_threshold=settings.integer("metastore.compactor.initiator.failed.compacts.threshold"),
    )
