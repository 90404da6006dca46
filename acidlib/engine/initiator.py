"""The initiator: looks at all tables and queues what is over Hive's thresholds, with figures and reason."""

from __future__ import annotations

from dataclasses import replace

from acidlib.engine.leftovers import finish_publications, give_back_abandoned
from acidlib.engine.selection import Looked, Selection, look_at, select_targets
from acidlib.engine.services import Services
from acidlib.engine.target import BYTES, DELTAS, REASON, Target, Understanding, request_of
from acidlib.errors import AcidError, ConflictError
from acidlib.model.generation import Generation
from acidlib.model.requests import CompactionRequest
from acidlib.planning.decide import Decision, decide
from acidlib.planning.state import acid_state
from acidlib.report.decisions import InitiatorResult
from acidlib.storage.listing import list_location
from acidlib.storage.publishing import unfinished_publications


def run_initiator(
    services: Services, selection: Selection, understanding: Understanding, *, dry_run: bool, force: bool
) -> tuple[list[InitiatorResult], list[str]]:
    """Look at everything selected and queue what needs compaction; a dry run queues nothing.

    force: also past the rule that a place whose last compactions failed is left alone.
    """
    notes: list[str] = []
    if not dry_run:
        notes += give_back_abandoned(services)
    targets, more = select_targets(services, selection, understanding)
    looked = look_at(services, targets, selection)
    return [_initiate(services, one, dry_run=dry_run, force=force) for one in looked], notes + more


def _initiate(services: Services, one: Looked, *, dry_run: bool, force: bool) -> InitiatorResult:
    try:
        if one.error is not None:
            raise one.error
        return _decided(services, one, dry_run=dry_run, force=force)
    except AcidError as error:
        return replace(_result(one.target, None, None), reason=str(error), failed=True)


def _decided(services: Services, one: Looked, *, dry_run: bool, force: bool) -> InitiatorResult:
    assert one.listing is not None
    target, listing = one.target, one.listing
    if unfinished_publications(services.fs, target.location):
        if dry_run:
            raise ConflictError(f"Cannot judge {target.name}: because a publication there is unfinished")
        finish_publications(services, target.location)
        listing = list_location(services.fs, target.location, missing=ConflictError)
    generation = target.generation(listing)
    write_ids = target.write_ids(listing).for_compactor()
    state = acid_state(listing, write_ids, generation=generation)
    decision = decide(state, listing, services.settings.thresholds(), generation=generation, properties={})
    if decision.kind is None:
        return _result(target, decision, None)
    request = request_of(target, decision.kind, listing, initiator=f"{services.host}-{services.worker_id}")
    request = replace(
        request,
        highest_write_id=state.high_water_mark,
        properties=(*request.properties, (DELTAS, str(one.deltas)), (BYTES, str(one.bytes)), (REASON, decision.reason)),
    )
    reason = None if force else _blocked(services, request, generation, dry_run=dry_run)
    if reason is not None:
        return replace(_result(target, decision, None), reason=reason)
    if dry_run:
        return _result(target, decision, None)
    answer = services.queue.enqueue(request, now_ms=services.now_ms())
    if not answer.accepted:
        return replace(_result(target, decision, None), reason=answer.reason or "it is already queued")
    return _result(target, decision, answer.id)


def _blocked(services: Services, request: CompactionRequest, generation: Generation, *, dry_run: bool) -> str | None:
    prefix = "metastore.compactor.initiator.failed"
    reason = services.queue.failed_attempts(
        request,
        threshold=services.settings.integer(f"{prefix}.compacts.threshold"),
        retry_ms=services.settings.integer(f"{prefix}.retry.time"),
        now_ms=services.now_ms(),
        generation=generation,
    )
    if reason is not None and not dry_run:
        services.queue.record_not_initiated(request, reason, services.now_ms())
    return reason


def _result(target: Target, decision: Decision | None, queued: int | None) -> InitiatorResult:
    kind = None if decision is None or decision.kind is None else decision.kind.label.lower()
    return InitiatorResult(
        database=target.database,
        table=target.table,
        partition=target.partition,
        location=target.location,
        type=kind,
        queued=queued,
        reason="" if decision is None else decision.reason,
        base_bytes=None if decision is None else decision.base_bytes,
        delta_bytes=None if decision is None else decision.delta_bytes,
        deltas=None if decision is None else decision.delta_count,
        ratio=None if decision is None else decision.ratio,
        threshold=None if decision is None else decision.threshold,
        threshold_key=None if decision is None else decision.threshold_key,
        threshold_source=None if decision is None else decision.threshold_source,
    )
