"""The initiator: looks at all tables and queues what is over Hive's thresholds, with figures and reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from acidlib.errors import AcidError, BusyError, ConflictError, CorruptError, MissingError, RefusedError, UsageError
from acidlib.model.location import S3
from acidlib.model.names import Generation
from acidlib.model.requests import CompactionType, RequestFacts
from acidlib.planning.clean import aborted_present, marks_cover_cleaning
from acidlib.planning.initiate import ABORTS_BY_CLEANER, Decision, decide
from acidlib.planning.inputs import Refusal
from acidlib.planning.state import acid_state
from acidlib.points import Point, reach
from acidlib.report.results import InitiatorResult, Outcome
from acidlib.service.attempts import Attempts
from acidlib.service.backend import Backend, Decided
from acidlib.service.listing import ListingOutcome, RollbackSigns, Unlisted, list_in_portions
from acidlib.service.places import ListedPlace, Target
from acidlib.service.plan import prepare
from acidlib.service.selection import PassedOver, Selection
from acidlib.service.services import Services
from acidlib.stores.listing import list_location

_BATCH = 100
"""Requests that are queued in one transaction."""


def run_initiator(
    services: Services,
    backend: Backend,
    selection: Selection,
    *,
    dry_run: bool,
    force: bool,
    tell: Callable[[InitiatorResult], None],
) -> list[str]:
    """Look at everything selected and queue what needs compaction; a dry run queues nothing. Returns notes.

    What a worker would refuse is not queued, nor what one refused before and has not changed since. What no worker can
    read as it is, such as a table whose directory is gone, is refused as well: it makes no run fail.

    force  also past what the history says: that the last compactions failed, or were refused
    tell   gets the result of each place as it comes
    """
    notes = [] if dry_run else backend.recover()
    selected = backend.select(selection, automatic=True)
    signs = RollbackSigns(services, selection, selected.targets)
    if not dry_run:
        signs.require_list_per_table()
    attempts = backend.attempts(selected.targets)
    for one in selected.passed_over:
        tell(_left_alone(one))
    for looked, passed_over in list_in_portions(services, selected.targets, selection.idle_seconds):
        signs.add(looked)
        for one in passed_over:
            tell(_left_alone(one))
        for start in range(0, len(looked), _BATCH):
            judged = [
                _judged(services, backend, attempts, one, dry_run=dry_run, force=force)
                for one in looked[start : start + _BATCH]
            ]
            for result in _queued(services, backend, judged):
                tell(result)
    signs.finish()
    return [*notes, *selected.notes]


def _left_alone(one: PassedOver) -> InitiatorResult:
    return _result(one.target, reason=one.reason, outcome=Outcome.REFUSED if one.is_refused else Outcome.LEFT_ALONE)


def _judged(
    services: Services, backend: Backend, attempts: Attempts, place: ListingOutcome, *, dry_run: bool, force: bool
) -> tuple[InitiatorResult, Decided | None]:
    """Return the result of one place as far as it is known, and what is to be queued."""
    target = place.target
    try:
        if isinstance(place, Unlisted):
            raise place.error
        if place.holds_staging and services.store(target.location).unfinished(target.location):
            if dry_run:
                raise ConflictError(
                    f"Cannot judge {target.ref}: a publication there is unfinished; a run without --dry-run finishes it"
                )
            backend.finish(target)
            place = target.listed(list_location(services.fs(target.location), target.location, missing=ConflictError))
        decision = _decision_about(services, place)
        if decision.kind is None:
            return _result(target, decision, outcome=Outcome.LEFT_ALONE), None
        refusal = refused_now(services, attempts, place, decision.kind)
        if refusal is not None:
            outcome = Outcome.LEFT_ALONE if refusal.already_compact else Outcome.REFUSED
            return _result(target, decision, reason=refusal.reason, outcome=outcome), None
        if not force:
            if reason := attempts.refusal(place, decision.kind):
                return _result(target, decision, reason=reason, outcome=Outcome.REFUSED), None
            if reason := backend.backoff_reason(target, decision.kind, dry_run=dry_run):
                return _result(target, decision, reason=reason, outcome=Outcome.HELD_BACK), None
        due = _result(target, decision, outcome=Outcome.DUE)
        figures = RequestFacts(deltas=place.deltas, bytes=place.delta_bytes, reason=decision.reason)
        return due, None if dry_run else Decided(place=place, kind=decision.kind, figures=figures)
    except BusyError as error:
        return _result(target, reason=str(error), outcome=Outcome.LEFT_ALONE), None
    except AcidError as error:
        return _in_vain(services, backend, target, error), None


def _decision_about(services: Services, place: ListedPlace) -> Decision:
    """Return Hive's decision for a place. It counts empty files, which a compactor passes over (Hive Initiator)."""
    target, listing, generation, write_ids = place.target, place.listing, place.generation, place.write_ids
    state, facts, aborted = place.state, target.facts, 0
    if not all(file.length for file in listing.files):
        state = acid_state(listing, write_ids.for_compactor(), generation=generation, txns=target.interpretation.txns)
    # Hive 4 leaves aborted write ids to its cleaner by default
    if facts is not None and not (generation is Generation.HIVE4 and services.settings.flag(ABORTS_BY_CLEANER)):
        aborted = len(aborted_present(listing, write_ids, generation=generation))
    return decide(
        state,
        listing,
        target.settings(services.settings).thresholds(),
        generation=generation,
        properties=target.properties,
        database_properties=None if facts is None else facts.database.properties,
        aborted_txn_count=aborted,
        insert_only=target.is_insert_only,
    )


def refused_now(services: Services, attempts: Attempts, place: ListedPlace, kind: CompactionType) -> Refusal | None:
    """Return why a worker would refuse the place as it is, by the question that it asks; None when it would not."""
    limit = services.settings.integer("acidlib.minor.as.major.bytes")
    try:
        found = prepare(services.stores, place, kind, minor_as_major_bytes=limit, automatic=True)
    except RefusedError as error:
        return Refusal(reason=str(error))
    except AcidError:
        return None  # it may fail today and not tomorrow: a worker tries it, and the history counts
    if isinstance(found, Refusal) and found.cleaning_only:
        marks, mark = attempts.awaited_marks(place.target), place.state.high_water_mark
        is_awaited = marks_cover_cleaning(place.listing, mark, place.write_ids, marks, generation=place.generation)
        return found if is_awaited else None
    return found if isinstance(found, Refusal) else None


def _queued(
    services: Services, backend: Backend, judged: Sequence[tuple[InitiatorResult, Decided | None]]
) -> list[InitiatorResult]:
    """Queue what was decided; return the results, with their ids, or why they are not queued."""
    wanted = [decided for _, decided in judged if decided is not None]
    answers = iter(backend.enqueue(wanted) if wanted else [])
    if wanted:
        reach(Point.QUEUED)
    results = []
    for result, decided in judged:
        if decided is None:
            results.append(result)
            continue
        answer = next(answers)
        if isinstance(answer, ConflictError):
            results.append(replace(result, reason=str(answer), outcome=Outcome.LEFT_ALONE))
        elif isinstance(answer, AcidError):
            results.append(_in_vain(services, backend, decided.place.target, answer))
        else:
            results.append(replace(result, queued=answer))
    return results


def _in_vain(services: Services, backend: Backend, target: Target, error: AcidError) -> InitiatorResult:
    """Return the result of a place that could not be judged; nothing is wrong where it was dropped meanwhile."""
    outcome = Outcome.FAILED
    try:
        if backend.is_dropped(target):
            return _result(target, reason="it was dropped meanwhile", outcome=Outcome.LEFT_ALONE)
        if is_lasting(services, target, error):
            outcome = Outcome.REFUSED
    except AcidError:
        pass  # what went wrong first says more
    return _result(target, reason=str(error), outcome=outcome)


def is_lasting(services: Services, target: Target, error: AcidError) -> bool:
    """Return whether a place cannot be judged until its owner changes it, rather than for now.

    A directory that is gone while the one above its table is there was removed; without that one a mount may be
    missing, or what is configured may lead to another store. A bucket has no directories: what is gone was removed.
    """
    if not isinstance(error, CorruptError | RefusedError) or isinstance(error, UsageError | MissingError):
        return False  # of a bucket that is missing another store may be configured
    fs = services.fs(target.location)
    if target.location.kind == S3 or fs.exists(str(target.location)):
        return True
    table = target.location
    if target.facts is not None and target.facts.table.storage.location:
        stated = services.stores.locate(target.facts.table.storage.location)
        table = stated if stated.holds(table) else table
    return fs.exists(str(table.parent))


def _result(
    target: Target, decision: Decision | None = None, *, reason: str | None = None, outcome: Outcome
) -> InitiatorResult:
    """Return a result, whose reason is that of the decision unless another one counts."""
    result = InitiatorResult(
        ref=target.ref, location=str(target.location), type=None, queued=None, reason=reason or "", outcome=outcome
    )
    if decision is None:
        return result
    limit = decision.threshold
    return replace(
        result,
        type=None if decision.kind is None else decision.kind.label.lower(),
        reason=decision.reason if reason is None else reason,
        base_bytes=decision.base_bytes,
        delta_bytes=decision.delta_bytes,
        deltas=decision.delta_count,
        ratio=decision.ratio,
        threshold=None if limit is None else limit.value,
        threshold_key=None if limit is None else limit.key,
        threshold_source=None if limit is None else limit.source,
    )
