"""The status of all tables: one look at the queue, the metastore and a bounded number of places, as JSON tells it.

The queue and the transactions are read in a number of calls that does not grow with the places; tables and partitions
are asked for only where places are to be listed. Nothing is changed anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from acidlib.config.settings import Settings
from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError
from acidlib.metastore.hms import Hms
from acidlib.metastore.transactions import OpenTxn
from acidlib.model.location import Location
from acidlib.model.names import Generation
from acidlib.model.requests import CompactionRequest, State
from acidlib.model.tables import PartitionName, TableRef, matches
from acidlib.planning.health import (
    LIMITS,
    OLDEST_ROLLED_BACK,
    CleaningBlocker,
    FigureUnit,
    Finding,
    FindingKind,
    Level,
    Limits,
    PlaceFigures,
    Status,
    StatusSnapshot,
    TableFigures,
    Transaction,
    status_of,
)
from acidlib.planning.initiate import (
    ABORTS_BY_CLEANER,
    decide,
    switched_off_reason,
    wrong_kind_reason,
)
from acidlib.planning.stated_write_ids import StatedWriteIds
from acidlib.report.results import fields_of, names_of
from acidlib.report.show import initiator_of
from acidlib.service.attempts import COUNTED, Attempts
from acidlib.service.environment import Environment
from acidlib.service.initiate import refused_now
from acidlib.service.listing import ListingOutcome, Unlisted, list_in_portions
from acidlib.service.open import Queued, metastore_database, open_queued, txn_timeout_seconds
from acidlib.service.places import Interpretation, ListedPlace, Target, target_of
from acidlib.service.selection import Selection
from acidlib.service.services import Services, in_threads, value_or_raise
from acidlib.service.surroundings.alone import select_targets
from acidlib.service.surroundings.catalog import Catalog
from acidlib.service.surroundings.hive3 import concerns
from acidlib.service.surroundings.hive4_cleaning import CLEANER_ON
from acidlib.service.surroundings.sql import is_known_dead
from acidlib.stores.store import OUT_OF_SIGHT, STAGING_PREFIX

_QUEUED = (State.INITIATED, State.WORKING, State.READY_FOR_CLEANING)
_AT_WORK = (State.INITIATED, State.WORKING)
_ALL = Interpretation(write_ids=StatedWriteIds(everything=True))


def look(
    where: Environment, services: Services, selection: Selection, interpretation: Interpretation, *, most_places: int
) -> dict[str, Any]:
    """Return what the JSON document tells of everything that is selected, with notes.

    interpretation  how directories are to be read where no metastore says it; nothing stated: all is committed
    most_places     no more are listed than these, those that the queue knows first
    """
    now_ms = services.now_ms()
    services.progress.start("reading the queue", 1)
    with open_queued(where) as queued:
        services.progress.advance(1)
        services.progress.finish()
        hms, txns, waits, silent = queued.hms, None, None, None
        requests = tuple(row for row in queued.requests if _wants(selection, row, alone=hms is None))
        if hms is not None:
            txns, silent = hms.open_txns_info(), txn_timeout_seconds(hms)
            waits = tuple(blockers(hms, requests, now_ms, txns))
        uncleaned = _uncleaned(where, services, hms)
        found = list(_found(queued))
        targets: list[Target] = []
        notes: list[str] = []
        if most_places:
            targets, notes, refused = _targets(services, queued, selection, interpretation, requests)
            found += refused
    working = [row for row in requests if row.state is State.WORKING]
    # what people asked for tells nothing of initiators, and this engine's own version nothing of Hive's workers
    queued_by = [initiator_of(row.initiator_id) for row in requests if row.state in _QUEUED]
    seen = StatusSnapshot(
        now_ms=now_ms,
        requests=requests,
        hosts=tuple(host for host, name in queued_by if host is not None and name != "manual"),
        versions=tuple(row.worker_version for row in working if row.worker_version),
        gone=frozenset(row.id for row in working if is_known_dead(row)),
        transactions=None if txns is None else tuple(_transaction(one, now_ms) for one in txns),
        txn_timeout=silent,
        blockers=waits,
        aborted={
            one.ref.whole_table: len(stated.single.aborted_ids)
            for one in targets
            if one.facts is not None and (stated := one.interpretation.write_ids) is not None
            if stated.single is not None
        },
        uncleaned=uncleaned,
        places=tuple(_listed(services, targets, requests, most_places)) if most_places else None,
        known_places=len(targets) if most_places else None,
        findings=tuple(found),
        by_location=hms is None,
        tells_queued=queued.generation is Generation.HIVE4,
    )
    return status_document(status_of(seen, limits_of(services.settings)), queued.generation) | {"notes": notes}


def _wants(selection: Selection, row: CompactionRequest, *, alone: bool) -> bool:
    location = row.facts.location
    if alone and row.facts.metastore is not None:
        return False
    inside = selection.location or selection.warehouse
    if inside is not None and (location is None or not inside.holds(location)):
        return False
    if not selection.wants_table(row.ref):
        return False
    if not selection.partitions:
        return True
    return row.ref.partition is not None and matches(PartitionName.parse(row.ref.partition), selection.partitions)


def _found(queued: Queued) -> Iterator[Finding]:
    """Yield what the queue itself says is wrong."""
    for reason in queued.unreadable:
        yield Finding(level=Level.WARNING, kind=FindingKind.NOT_UNDERSTOOD, reason=f"{reason}: that is not known here")
    for row in queued.elsewhere:
        if row.state in _QUEUED:
            reason = f"request {row.id} is for the metastore {row.facts.metastore}; no run at this one sees to it"
            yield Finding(level=Level.WARNING, kind=FindingKind.ANOTHER_METASTORE, reason=reason, ref=row.ref)


def _transaction(one: OpenTxn, now_ms: int) -> Transaction:
    def age(since_ms: int | None) -> float | None:
        return None if since_ms is None else (now_ms - since_ms) / 1000

    return Transaction(
        id=one.id,
        is_open=one.state == "open",
        user=one.user,
        host=one.host,
        age=age(one.started_ms),
        silent=age(one.heartbeat_ms),
    )


def blockers(
    hms: Hms, requests: Iterable[CompactionRequest], now_ms: int, txns: Iterable[OpenTxn] | None = None
) -> list[CleaningBlocker]:
    """Return what each request that is ready for cleaning waits for, oldest first: transactions, and locks of Hive 3.1.

    txns  open and aborted ones, where they are known; else the metastore is asked
    """
    waiting = sorted((row for row in requests if row.state is State.READY_FOR_CLEANING), key=lambda row: row.id)
    if not waiting:
        return []
    opened = [one for one in (hms.open_txns_info() if txns is None else txns) if one.state == "open"]
    locks = hms.show_locks() if hms.generation is Generation.HIVE3 else ()
    found: list[CleaningBlocker] = []
    for row in waiting:
        newest = max(row.facts.evidence.values(), default=None)
        if hms.generation is Generation.HIVE4:
            noted = row.noted_commit
            last = row.next_txn_id if noted is None else noted[0]
            last = row.txn_id if last is None else last
        else:
            last = None if newest is None else newest.txn
        holders = [
            ("transaction", one.id, one.user, one.host, one.started_ms)
            for one in opened
            if last is not None and one.id <= last
        ]
        # without evidence, which Hive's own worker does not leave, every lock there is now may be from before
        holders += [
            ("lock", one.lock_id, one.user, one.host, one.acquired_ms)
            for one in locks
            if concerns(one, row.ref) and (newest is None or one.lock_id <= newest.lock)
        ]
        found += [
            CleaningBlocker(
                request_id=row.id,
                ref=row.ref,
                kind=kind,
                id=number,
                user=user,
                host=host,
                age=None if since_ms is None else (now_ms - since_ms) / 1000,
            )
            for kind, number, user, host, since_ms in holders
        ]
    return found


def _uncleaned(where: Environment, services: Services, hms: Hms | None) -> str | None:
    """Return why no cleaner sees to rolled back transactions; None where one does, or the initiator does."""
    if hms is None or hms.generation is not Generation.HIVE4 or not services.settings.flag(ABORTS_BY_CLEANER):
        return None
    if hms.config_value(CLEANER_ON, "unknown").strip().lower() != "false":
        return None
    off = "Hive's own cleaner is off, and thrift does not tell this one where they wrote"
    with metastore_database(where) as database:
        if database is None:
            return f"{off}; give it --queue-url of the metastore's database"
        try:
            if database.shows_noted_writes():
                return None
        except AcidError as error:
            return f"{off}: {error}"
    return f"{off}; {database.shown} is no metastore's database, or shows its user no table TXN_COMPONENTS"


def _targets(
    services: Services,
    queued: Queued,
    selection: Selection,
    interpretation: Interpretation,
    requests: Iterable[CompactionRequest],
) -> tuple[list[Target], list[str], list[Finding]]:
    """Return the places that are selected; without a metastore those below a directory and those that the queue knows.

    With them notes, and a finding for each ACID table or partition of which no compaction can be made.
    """
    asked = {row.ref for row in requests}
    if queued.hms is not None:
        selected = Catalog(services, queued.hms).select(selection, automatic=False, known=asked)
        notes = [note for note in selected.notes if not note.startswith("table ")]
        insert_only = services.settings.flag("hive.compactor.compact.insert.only")
        refused = [
            Finding(level=Level.WARNING, kind=FindingKind.NOT_COMPACTABLE, reason=one.reason, ref=one.target.ref)
            for one in selected.passed_over
            if one.is_refused and (facts := one.target.facts) is not None
            if wrong_kind_reason(facts.table, insert_only_enabled=insert_only) is None
        ]
        return list(selected.targets), notes, refused
    stated = interpretation if interpretation.write_ids is not None else _ALL
    notes = (
        ["what is committed is not stated: figures of places take everything as committed"] if stated is _ALL else []
    )
    known: dict[Location, Target] = {}
    if selection.location is not None or selection.warehouse is not None:
        found = select_targets(services, selection, stated, may_be_empty=True, known=asked)
        known = {target.location: target for target in found.targets}
        notes = [*found.notes, *notes]
    else:
        notes += selection.missing_table_notes(asked, "no request of this queue")
    for row in requests:
        try:
            target = target_of(row)
        except AcidError:
            continue  # a finding of its own tells what is not understood
        read = replace(target.interpretation, write_ids=stated.write_ids, visibility_txn=None)
        known.setdefault(target.location, replace(target, interpretation=read))
    return list(known.values()), notes, []


def _listed(
    services: Services,
    targets: Sequence[Target],
    requests: Iterable[CompactionRequest],
    most_places: int,
) -> Iterator[PlaceFigures]:
    """Yield the figures of so many places, those of requests first."""
    states: dict[TableRef, set[State]] = {}
    for row in requests:
        states.setdefault(row.ref, set()).add(row.state)
    attempts = Attempts((row for row in requests if row.state in COUNTED), services.settings)

    def figures(one: ListingOutcome) -> PlaceFigures | None:
        known = states.get(one.target.ref, set())
        if isinstance(one, ListedPlace):
            return _figures(services, attempts, one, known)
        trouble = _trouble(services, one)
        if trouble is FindingKind.MISSING and one.target.facts is None and known.isdisjoint(_QUEUED):
            return None  # only the history knows it: it was dropped
        problem = (trouble, str(one.error))
        return PlaceFigures(ref=one.target.ref, location=str(one.target.location), problem=problem)

    def order(one: Target) -> tuple[bool, str]:
        return states.get(one.ref, set()) <= {State.SUCCEEDED}, str(one.ref)

    for looked, _ in list_in_portions(services, sorted(targets, key=order)[:most_places], None):
        for done in in_threads(figures, looked):  # of what is due files are looked into
            one = value_or_raise(done)
            if one is not None:
                yield one


def _trouble(services: Services, looked: Unlisted) -> FindingKind:
    """Return what keeps a place from being listed."""
    location = looked.target.location
    if isinstance(looked.error, CorruptError):
        try:
            exists = services.fs(location).exists(str(location))
        except AcidError:
            exists = True
        return FindingKind.DAMAGED if exists else FindingKind.MISSING
    if isinstance(looked.error, ConflictError):
        return FindingKind.CHANGING
    return FindingKind.NOT_JUDGED if isinstance(looked.error, RefusedError) else FindingKind.NOT_READABLE


def _figures(services: Services, attempts: Attempts, place: ListedPlace, known: set[State]) -> PlaceFigures:
    """Return the figures of a place; `known` are the states of its requests, in the queue and the history."""
    target, state, facts = place.target, place.state, place.target.facts
    sizes: dict[str, int] = {}
    for file in place.listing.files:
        for name in {file.path, file.path.partition("/")[0]}:
            sizes[name] = sizes.get(name, 0) + file.length
    base = sum(sizes.get(path, 0) for path in (*state.originals, *([state.base.path] if state.base else ())))
    deltas = [sizes.get(delta.path, 0) for delta in state.deltas]
    small = float(services.settings.setting("metastore.deltametrics.delta.pct.threshold").value)
    due = refused = None
    if known.isdisjoint(_AT_WORK):
        # what the initiator would decide, were the place not switched off
        decision = decide(
            state,
            place.listing,
            target.settings(services.settings).thresholds(),
            generation=place.generation,
            properties={},
            insert_only=target.is_insert_only,
        )
        if decision.kind is not None:
            due = decision.reason
            refusal = refused_now(services, attempts, place, decision.kind)
            if refusal is None:
                refused = attempts.refusal(place, decision.kind)
            elif refusal.already_compact:
                due = None  # what is obsolete awaits cleaning
            else:
                refused = refusal.reason
    is_alive, left_by, unfinished = _claim(services, place)
    left = (
        [] if is_alive or State.WORKING in known else sorted(one for one in place.listing.directories if "/" not in one)
    )
    off = (
        None
        if facts is None
        else switched_off_reason(facts.table.properties, facts.database.properties, place.generation)
    )
    return PlaceFigures(
        ref=target.ref,
        location=str(target.location),
        deltas=len(deltas),
        small_deltas=sum(size < small * base for size in deltas),
        base_bytes=base,
        delta_bytes=sum(deltas),
        ratio=sum(deltas) / base if base else None,
        obsolete=len(place.obsolete),
        obsolete_bytes=sum(place.obsolete.values()),
        aborted=len(state.aborted),
        idle=services.clock() - place.modified if place.modified else None,
        due=due,
        refused=refused,
        switched_off=off,
        cleaning_forbidden=target.cleaning_forbidden(),
        unfinished=0 if is_alive else unfinished,
        claim_left_by=left_by,
        staging=tuple(name for name in left if name.startswith(STAGING_PREFIX)),
        removed=tuple(name for name in left if name.startswith(OUT_OF_SIGHT)),
    )


def _claim(services: Services, place: ListedPlace) -> tuple[bool, str | None, int]:
    """Return if a live run holds the place, whose claim was left there, and how many publications are unfinished."""
    if not (place.is_claimed or place.holds_staging):
        return False, None, 0
    location = place.target.location
    try:
        store = services.store(location)
        holder = store.holder(location, now=services.clock())
        unfinished = len(store.unfinished(location)) if place.holds_staging else 0
    except AcidError:
        return True, None, 0  # what cannot be looked at from here proves nothing
    if holder is None:
        return False, None, unfinished
    return not holder.is_stale, holder.owner if holder.is_stale else None, unfinished


def status_document(status: Status, generation: Generation) -> dict[str, Any]:
    """Return what the JSON document tells of a status; ages are seconds."""

    def transaction(one: Transaction | None) -> dict[str, Any] | None:
        return None if one is None else {"id": one.id, "user": one.user, "host": one.host, "age": one.age}

    txns = {
        "open": status.open_count,
        "aborted": status.aborted_count,
        "oldest_open": transaction(status.oldest_open),
        "oldest_aborted": transaction(status.oldest_aborted),
    }
    return {
        "level": status.totals.level.label,
        "findings": [
            {
                "level": one.level.label,
                "trouble": one.kind.value,
                **names_of(one.ref),
                "location": one.location,
                "reason": one.reason,
                "setting": one.setting,
            }
            for one in status.findings
        ],
        "totals": _figures_document(status.totals, generation),
        "tables": [_figures_document(one, generation) for one in status.tables],
        "transactions": None if status.open_count is None else txns,
        "blockers": None
        if status.blockers is None
        else [{"request_id": one.request_id} | fields_of(one) for one in status.blockers],
    }


def _figures_document(one: TableFigures, generation: Generation) -> dict[str, Any]:
    """Return an entry of `tables`, or `totals`, where database and table are null."""
    names = names_of(one.ref)
    states = {state.label_of(generation): one.requests[state] for state in State}
    return {
        "database": names["database"],
        "table": names["table"],
        "level": one.level.label,
        "findings": one.findings,
        "requests": [
            {"state": label, "count": some.count, "oldest_age": some.oldest, "oldest_place": some.name}
            for label, some in states.items()
        ],
        "failed_in_a_row": one.failed,
        "failed_place": one.failed_name,
        "refused_in_a_row": one.refused,
        "refused_place": one.refused_name,
        "blockers": one.blockers,
        "aborted_write_ids": one.aborted_write_ids,
        "places": one.places,
        "looked_at": one.looked_at,
        "most_deltas": [_place_document(place) for place in one.most_deltas],
        "worst_ratio": [_place_document(place) for place in one.worst_ratio],
        "most_obsolete": [_place_document(place) for place in one.most_obsolete],
        "obsolete_bytes": one.obsolete_bytes,
    }


def _place_document(one: PlaceFigures) -> dict[str, Any]:
    shown = ("location", "deltas", "small_deltas", "base_bytes", "delta_bytes", "ratio", "obsolete", "obsolete_bytes")
    return names_of(one.ref) | {name: getattr(one, name) for name in shown}


def limits_of(settings: Settings) -> Limits:
    """Return the values of the settings that are limits, durations in seconds."""
    return {
        key: float(settings.setting(key).value) / (1000 if limit.unit is FigureUnit.SECONDS else 1)
        for limit in (*LIMITS.values(), OLDEST_ROLLED_BACK)
        for key in (limit.warning, limit.error)
        if key is not None
    }
