"""The initiator: looks at all tables and queues places over Hive's thresholds, with figures and reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from acidlib.acid.names import Generation
from acidlib.acid.state import acid_state
from acidlib.arguments import WITHOUT_DRY_RUN
from acidlib.errors import (
    AcidError,
    BusyError,
    ConflictError,
    CorruptError,
    MissingError,
    RefusedError,
    UsageError,
    known_error,
)
from acidlib.execute.answers import answer_of, value_or_raise
from acidlib.execute.in_threads import in_threads
from acidlib.execute.services import Services, step_seconds
from acidlib.model.requests import CompactionType, RequestFacts
from acidlib.model.results import InitiatorResult, Outcome
from acidlib.places.attempts import Attempts
from acidlib.places.listing import ListingOutcome, RollbackSigns, Unlisted, list_in_portions
from acidlib.places.place import ListedPlace, Place
from acidlib.places.selection import PassedOver, Selection
from acidlib.planning.clean import aborted_present, marks_cover_cleaning
from acidlib.planning.initiate import ABORTS_BY_CLEANER, Decision, decide
from acidlib.planning.inputs import Refusal
from acidlib.points import Point, reach
from acidlib.ports.backend import Backend, Decided
from acidlib.runs.plan import choose_inputs
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
    """Look at all selected places and queue those that need compaction; a dry run queues nothing. Return notes.

    A place is not queued where a worker would refuse it, or where one refused it before and it has not changed since.
    One that no worker can read, such as a table whose directory is gone, is refused as well: it makes no run fail.

    force  queue it also where the history says that the last compactions failed or were refused
    tell   gets the result of each place as it comes
    """
    notes = [] if dry_run else backend.recover()
    selected = backend.tables.select(selection, automatic=True)
    signs = RollbackSigns(services, selection, selected.places)
    notes += signs.require_list_per_table(dry_run=dry_run)
    attempts = backend.queue.attempts(selected.places)
    seconds = step_seconds(services.settings)
    judge = partial(_judge, services, backend, attempts, dry_run=dry_run, force=force)
    for passed in selected.passed_over:
        tell(_left_alone(passed))
    for listed_places, passed_over in list_in_portions(services, selected.places, selection.idle_seconds):
        signs.add(listed_places)
        for passed in passed_over:
            tell(_left_alone(passed))
        for start in range(0, len(listed_places), _BATCH):
            batch = listed_places[start : start + _BATCH]
            # most places are below their thresholds by their listing alone, and a thread for each would cost more
            looks = [_first_look(services, listed) for listed in batch]
            undecided = [look for look in looks if not isinstance(look, InitiatorResult)]
            answers = iter(in_threads(judge, undecided, seconds=seconds))
            judged = [
                (look, None) if isinstance(look, InitiatorResult) else _judged(look[0], next(answers)) for look in looks
            ]
            for result in _queue(services, backend, judged):
                tell(result)
    signs.finish()
    return [*notes, *selected.notes]


def _left_alone(passed: PassedOver) -> InitiatorResult:
    outcome = Outcome.REFUSED if passed.is_refused else Outcome.LEFT_ALONE
    if passed.error is not None:
        outcome = Outcome.FAILED
    return _result(passed.place, reason=passed.reason, outcome=outcome)


_Judged = tuple[InitiatorResult, Decided | None]
_Look = tuple[ListingOutcome, Decision | AcidError]


def _first_look(services: Services, listed: ListingOutcome) -> InitiatorResult | _Look:
    """Return the result of a place below its thresholds where nothing has to be finished; else the place and decision.

    Only its listing is looked at.
    """
    decision = answer_of(partial(_decision_about, services), listed, f"judge {listed.place.ref}")
    if isinstance(decision, Decision) and decision.kind is None:
        assert isinstance(listed, ListedPlace)  # else there is no decision
        if not listed.holds_staging:
            return _result(listed.place, decision, outcome=Outcome.LEFT_ALONE)
    return listed, decision


def _judged(listed: ListingOutcome, answer: _Judged | AcidError) -> _Judged:
    """Return the answer of `_judge` about a place, or its failure where that hangs."""
    if isinstance(answer, AcidError):
        return _result(listed.place, reason=answer.words, outcome=Outcome.FAILED), None
    return answer


def _judge(
    services: Services,
    backend: Backend,
    attempts: Attempts,
    look: _Look,
    *,
    dry_run: bool,
    force: bool,
) -> _Judged:
    """Return the result of one place as far as it is known, and the compaction to queue, if there is one.

    look  the place, and the decision about it by its listing
    """
    listed, decided = look
    place = listed.place
    try:
        decision = value_or_raise(decided)
        assert isinstance(listed, ListedPlace)  # else there is no decision
        if listed.holds_staging and services.store(place.location).unfinished(place.location):
            if dry_run:
                raise ConflictError(
                    f"Cannot judge {place.ref}: a publication there is unfinished; {WITHOUT_DRY_RUN} finishes it"
                )
            backend.fence.finish(place)
            listed = place.listed(list_location(services.fs(place.location), place.location, missing=ConflictError))
            decision = _decision_about(services, listed)
        if decision.kind is None:
            return _result(place, decision, outcome=Outcome.LEFT_ALONE), None
        refusal = refused_now(services, attempts, listed, decision.kind)
        if refusal is not None:
            outcome = Outcome.LEFT_ALONE if refusal.already_compact else Outcome.REFUSED
            return _result(place, decision, reason=refusal.reason, outcome=outcome), None
        if not force:
            if reason := attempts.refusal(listed, decision.kind):
                return _result(place, decision, reason=reason, outcome=Outcome.REFUSED), None
            if reason := backend.queue.backoff_reason(place, decision.kind, dry_run=dry_run):
                return _result(place, decision, reason=reason, outcome=Outcome.HELD_BACK), None
        result = _result(place, decision, outcome=Outcome.DUE)
        figures = RequestFacts(deltas=listed.deltas, bytes=listed.delta_bytes, reason=decision.reason)
        return result, None if dry_run else Decided(listed=listed, kind=decision.kind, figures=figures)
    except BusyError as error:
        return _result(place, reason=error.words, outcome=Outcome.LEFT_ALONE), None
    except Exception as error:
        return _after_error(services, backend, place, known_error(error, f"judge {place.ref}")), None


def _decision_about(services: Services, listed: ListingOutcome) -> Decision:
    """Return Hive's decision for a place; it counts empty files, which a compactor ignores (Hive Initiator).

    Raises the error of a place that could not be listed.
    """
    if isinstance(listed, Unlisted):
        raise listed.error
    place, listing, names, write_ids = listed.place, listed.listing, listed.hive.names, listed.write_ids
    state, facts, aborted = listed.state, place.facts, 0
    if not all(file.length for file in listing.files):
        state = acid_state(listing, write_ids.for_compactor(), names=names, txns=place.interpretation.txns)
    # Hive 4 leaves aborted write ids to its cleaner by default
    if facts is not None and not (names is Generation.HIVE4 and services.settings.flag(ABORTS_BY_CLEANER)):
        aborted = len(aborted_present(listing, write_ids, names=names))
    return decide(
        state,
        listing,
        place.settings(services.settings).thresholds(),
        names=names,
        properties=place.properties,
        database_properties=None if facts is None else facts.database.properties,
        aborted_txn_count=aborted,
        insert_only=place.is_insert_only,
    )


def refused_now(services: Services, attempts: Attempts, listed: ListedPlace, kind: CompactionType) -> Refusal | None:
    """Return the refusal of a worker for the place as it is, by the check that it makes; None without one."""
    limit = services.settings.integer("acidlib.minor.as.major.bytes")
    try:
        inputs = choose_inputs(services.stores, listed, kind, minor_as_major_bytes=limit, automatic=True)
    except RefusedError as error:
        return Refusal(reason=error.words)
    except AcidError:
        return None  # it may fail today and not tomorrow: a worker tries it, and the history counts
    if not isinstance(inputs, Refusal):
        return None
    if inputs.cleaning_only:
        marks, mark = attempts.awaited_marks(listed.place), listed.state.high_water_mark
        is_awaited = marks_cover_cleaning(listed.listing, mark, listed.write_ids, marks, names=listed.hive.names)
        return inputs if is_awaited else None
    return inputs


def _queue(services: Services, backend: Backend, judged: Sequence[_Judged]) -> list[InitiatorResult]:
    """Queue the compactions; return the results with the ids of their requests, or why they are not queued."""
    due = [decided for _, decided in judged if decided is not None]
    answers = iter(backend.queue.enqueue(due) if due else [])
    if due:
        reach(Point.QUEUED)
    results = []
    for result, decided in judged:
        if decided is None:
            results.append(result)
            continue
        answer = next(answers)
        if isinstance(answer, ConflictError):
            results.append(replace(result, reason=answer.words, outcome=Outcome.LEFT_ALONE))
        elif isinstance(answer, AcidError):
            results.append(_after_error(services, backend, decided.listed.place, answer))
        else:
            results.append(replace(result, queued=answer))
    return results


def _after_error(services: Services, backend: Backend, place: Place, error: AcidError) -> InitiatorResult:
    """Return the result of a place that an error keeps from being queued; if it was dropped meanwhile, all is well."""
    outcome = Outcome.FAILED
    try:
        if backend.tables.is_dropped(place):
            return _result(place, reason="it was dropped meanwhile", outcome=Outcome.LEFT_ALONE)
        if is_lasting(services, place, error):
            outcome = Outcome.REFUSED
    except Exception:  # noqa: S110 - the first error says more
        pass
    return _result(place, reason=error.words, outcome=outcome)


def is_lasting(services: Services, place: Place, error: AcidError) -> bool:
    """Return whether an error at a place lasts until its owner changes the place.

    A directory that is missing was removed if the one above its table exists; else a mount may be missing, or the
    configuration may lead to another store. A bucket has no directories: a place that is missing there was removed.
    """
    if not isinstance(error, CorruptError | RefusedError) or isinstance(error, UsageError | MissingError):
        return False  # another store may be configured if a bucket is missing
    fs = services.fs(place.location)
    if not place.location.kind.has_directories or fs.exists(str(place.location)):
        return True
    table = place.location
    if place.facts is not None and place.facts.table.storage.location:
        stated = services.stores.locate(place.facts.table.storage.location)
        table = stated if stated.holds(table) else table
    return fs.exists(str(table.parent))


def _result(
    place: Place, decision: Decision | None = None, *, reason: str | None = None, outcome: Outcome
) -> InitiatorResult:
    """Return a result; its reason is that of the decision unless another is given."""
    result = InitiatorResult(**place.ref._asdict(), location=str(place.location), reason=reason or "", outcome=outcome)
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
