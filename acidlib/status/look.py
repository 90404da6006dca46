"""The status of all tables : one look at the queue, the metastore and a bounded number of places.

The queue and the transactions are read in a number of calls that does not grow with the places; tables and partitions
are read only where places are to be listed. Nothing is changed anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from acidlib.acid.names import Generation
from acidlib.arguments import METASTORE_DB
from acidlib.config.settings import Settings
from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError
from acidlib.execute.in_threads import in_threads
from acidlib.execute.services import Services, step_seconds
from acidlib.location import Location
from acidlib.metastore.hms import Hms
from acidlib.metastore.transactions import OpenTxn
from acidlib.model.requests import CompactionRequest, State
from acidlib.model.status import CleaningBlocker, Finding, FindingKind, PlaceFigures, StatusDocument, Transaction
from acidlib.model.tables import TableRef
from acidlib.places.attempts import COUNTED, Attempts
from acidlib.places.listing import ListingOutcome, Unlisted, list_in_portions
from acidlib.places.place import Interpretation, ListedPlace, Place, requested_place, stated_reader
from acidlib.places.selection import Selection
from acidlib.planning.health import (
    LIMITS,
    OLDEST_ROLLED_BACK,
    FigureUnit,
    KnownTransaction,
    Limits,
    ListedFigures,
    StatusSnapshot,
    status_document,
)
from acidlib.planning.initiate import ABORTS_BY_CLEANER, decide, switched_off_reason, wrong_kind_reason
from acidlib.planning.stated_write_ids import StatedWriteIds
from acidlib.ports.catalog import Catalog
from acidlib.ports.directories import select_places
from acidlib.ports.hive3 import may_read
from acidlib.ports.hive4_cleaning import CLEANER_ON
from acidlib.ports.sql import is_known_dead
from acidlib.report.show import initiator_of
from acidlib.runs.environment import Environment
from acidlib.runs.initiate import refused_now
from acidlib.runs.open import Queued, metastore_database, open_queued, txn_timeout_seconds
from acidlib.stores.store import OUT_OF_SIGHT, STAGING_PREFIX

_QUEUED = (State.INITIATED, State.WORKING, State.READY_FOR_CLEANING)
_AT_WORK = (State.INITIATED, State.WORKING)
_ALL = Interpretation(write_ids=StatedWriteIds(everything=True))


def read_status(
    where: Environment, services: Services, selection: Selection, interpretation: Interpretation, *, most_places: int
) -> StatusDocument:
    """Return the status of all selected tables, with notes.

    interpretation  of directories where no metastore tells it; without stated write ids all count as committed
    most_places     no more places are listed; those that the queue knows come first
    """
    now_ms = services.now_ms()
    services.progress.start("reading the queue", 1)
    with open_queued(where) as queued:
        services.progress.advance(1)
        services.progress.finish()
        hms, txns, waits, txn_timeout = queued.hms, None, None, None
        requests = tuple(row for row in queued.requests if _is_selected(selection, row, alone=hms is None))
        if hms is not None:
            txns, txn_timeout = hms.open_txns_info(), txn_timeout_seconds(hms)
            waits = tuple(blockers(hms, requests, now_ms, txns))
        uncleaned = _uncleaned_reason(where, services, hms)
        findings = list(_findings_of_queue(queued))
        places: list[Place] = []
        notes: list[str] = []
        unread: list[Unlisted] = []
        if most_places:
            places, notes, refused, unread = _places(services, queued, selection, interpretation, requests)
            findings += refused
    working = [row for row in requests if row.state is State.WORKING]
    # a request of a person tells nothing of initiators, and this engine's own version nothing of Hive's workers
    queued_by = [initiator_of(row.initiator_id) for row in requests if row.state in _QUEUED]
    seen = StatusSnapshot(
        now_ms=now_ms,
        requests=requests,
        hosts=tuple(host for host, name in queued_by if host is not None and name != "manual"),
        versions=tuple(row.worker_version for row in working if row.worker_version),
        gone=frozenset(row.id for row in working if is_known_dead(row)),
        transactions=None if txns is None else tuple(_transaction(txn, now_ms) for txn in txns),
        txn_timeout=txn_timeout,
        blockers=waits,
        aborted={
            place.ref.whole_table: len(stated.single.aborted_ids)
            for place in places
            if place.facts is not None and (stated := place.interpretation.write_ids) is not None
            if stated.single is not None
        },
        uncleaned=uncleaned,
        places=tuple(_list(services, places, unread, requests, most_places)) if most_places else None,
        known_places=len(places) + len(unread) if most_places else None,
        findings=tuple(findings),
        by_location=hms is None,
        calls=queued.calls,
    )
    return replace(status_document(seen, limits_of(services.settings)), notes=tuple(notes))


def limits_of(settings: Settings) -> Limits:
    """Return the values of the settings that are limits, durations in seconds."""
    return {
        key: float(settings.setting(key).value) / (1000 if limit.unit is FigureUnit.SECONDS else 1)
        for limit in (*LIMITS.values(), OLDEST_ROLLED_BACK)
        for key in (limit.warning, limit.error)
        if key is not None
    }


def _is_selected(selection: Selection, row: CompactionRequest, *, alone: bool) -> bool:
    location, inside = row.facts.location, selection.location or selection.warehouse
    if alone and row.facts.metastore is not None:
        return False
    if inside is not None and (location is None or not inside.holds(location)):
        return False
    return selection.wants(row.ref)


def blockers(
    hms: Hms, requests: Iterable[CompactionRequest], now_ms: int, txns: Iterable[OpenTxn] | None = None
) -> list[CleaningBlocker]:
    """Return the transactions, and locks of Hive 3.1, that keep requests from being cleaned, the oldest request first.

    txns  open and aborted ones, where they are known; else the metastore is asked
    """
    waiting = sorted((row for row in requests if row.state is State.READY_FOR_CLEANING), key=lambda row: row.id)
    if not waiting:
        return []
    opened = [txn for txn in (hms.open_txns_info() if txns is None else txns) if txn.state == "open"]
    locks = hms.show_locks() if hms.calls is Generation.HIVE3 else ()
    blocking: list[CleaningBlocker] = []
    for row in waiting:
        newest = max(row.facts.evidence.values(), default=None)
        if hms.calls is Generation.HIVE4:
            noted = row.noted_commit
            last = row.next_txn_id if noted is None else noted[0]
            last = row.txn_id if last is None else last
        else:
            last = None if newest is None else newest.txn
        holders = [
            ("transaction", txn.id, txn.user, txn.host, txn.started_ms)
            for txn in opened
            if last is not None and txn.id <= last
        ]
        # without evidence, which Hive's own worker does not leave, every lock of now may be from before the result
        holders += [
            ("lock", lock.lock_id, lock.user, lock.host, lock.acquired_ms)
            for lock in locks
            if may_read(lock, row.ref) and (newest is None or lock.lock_id <= newest.lock)
        ]
        blocking += [
            CleaningBlocker(
                request_id=row.id,
                **row.ref._asdict(),
                kind=kind,
                id=number,
                user=user,
                host=host,
                age=_age(since_ms, now_ms),
            )
            for kind, number, user, host, since_ms in holders
        ]
    return blocking


def _transaction(txn: OpenTxn, now_ms: int) -> KnownTransaction:
    shown = Transaction(id=txn.id, user=txn.user, host=txn.host, age=_age(txn.started_ms, now_ms))
    return KnownTransaction(
        shown=shown,
        is_open=txn.state == "open",
        silent=_age(txn.heartbeat_ms, now_ms),
    )


def _age(since_ms: int | None, now_ms: int) -> float | None:
    return None if since_ms is None else (now_ms - since_ms) / 1000


def _uncleaned_reason(where: Environment, services: Services, hms: Hms | None) -> str | None:
    """Return why no cleaner cleans after rolled back transactions; None where one does, or the initiator does."""
    if hms is None or hms.calls is not Generation.HIVE4 or not services.settings.flag(ABORTS_BY_CLEANER):
        return None
    if hms.config_value(CLEANER_ON, "unknown").strip().lower() != "false":
        return None
    off = "Hive's own cleaner is off, and thrift does not tell this one where they wrote"
    with metastore_database(where) as database:
        if database is None:
            return f"{off}; give it {METASTORE_DB}"
        try:
            if database.shows_noted_writes():
                return None
        except AcidError as error:
            return f"{off}: {error}"
    return f"{off}; {database.shown} is no metastore's database, or shows its user no table TXN_COMPONENTS"


def _findings_of_queue(queued: Queued) -> Iterator[Finding]:
    """Yield findings about rows that are not understood, and about requests of other metastores."""
    for reason in queued.unreadable:
        yield Finding(trouble=FindingKind.NOT_UNDERSTOOD, reason=f"{reason}: that is not known here")
    for row in queued.elsewhere:
        if row.state in _QUEUED:
            reason = f"request {row.id} is for the metastore {row.facts.metastore}; no run at this one sees to it"
            yield Finding(trouble=FindingKind.ANOTHER_METASTORE, reason=reason, **row.ref._asdict())


def _places(
    services: Services,
    queued: Queued,
    selection: Selection,
    interpretation: Interpretation,
    requests: Iterable[CompactionRequest],
) -> tuple[list[Place], list[str], list[Finding], list[Unlisted]]:
    """Return the selected places, notes, and a finding for each ACID table or partition that cannot be compacted.

    Without a metastore the places are those below a directory, and those that the queue knows; last come tables and
    databases there that cannot be read.
    """
    in_queue = {row.ref for row in requests}
    if queued.hms is not None:
        selected = Catalog(services, queued.hms).select(selection, automatic=False, known=in_queue)
        notes = [note for note in selected.notes if not note.startswith("table ")]
        insert_only = services.settings.flag("hive.compactor.compact.insert.only")
        refused = [
            Finding(trouble=FindingKind.NOT_COMPACTABLE, reason=passed.reason, **passed.place.ref._asdict())
            for passed in selected.passed_over
            if passed.is_refused and (facts := passed.place.facts) is not None
            if wrong_kind_reason(facts.table, insert_only_enabled=insert_only) is None
        ]
        return list(selected.places), notes, refused, []
    notes, unread, stated = [], list[Unlisted](), interpretation
    if interpretation.write_ids is None:
        stated = _ALL
        notes.append("committed write ids are not stated: the figures of places take everything as committed")
    places: dict[Location, Place] = {}
    if selection.location is not None or selection.warehouse is not None:
        selected = select_places(services, selection, stated, may_be_empty=True, known=in_queue)
        places = {place.location: place for place in selected.places}
        notes = [*selected.notes, *notes]
        unread = [
            Unlisted(place=passed.place, error=passed.error)
            for passed in selected.passed_over
            if passed.error is not None
        ]
    else:
        there = [str(ref.whole_table) for ref in in_queue]
        notes += selection.missing_table_notes(in_queue, "no request of this queue", lambda _: there)
    for row in requests:
        try:
            place = requested_place(row, stated_reader(services.settings))
        except AcidError:
            continue  # another finding tells that it is not understood
        read = replace(place.interpretation, write_ids=stated.write_ids, visibility_txn=None)
        places.setdefault(place.location, replace(place, interpretation=read))
    return list(places.values()), notes, [], [place for place in unread if place.place.location not in places]


def _list(
    services: Services,
    places: Sequence[Place],
    unread: Iterable[Unlisted],
    requests: Iterable[CompactionRequest],
    most_places: int,
) -> Iterator[ListedFigures]:
    """List at most so many places, those of requests first, and yield their figures, then those that are not read."""
    states: dict[TableRef, set[State]] = {}
    for row in requests:
        states.setdefault(row.ref, set()).add(row.state)
    attempts = Attempts((row for row in requests if row.state in COUNTED), services.settings)

    def figures(outcome: ListingOutcome) -> ListedFigures | None:
        place = outcome.place
        of_requests = states.get(place.ref, set())
        if isinstance(outcome, ListedPlace):
            return _figures(services, attempts, outcome, of_requests)
        kind = _kind_of_problem(services, outcome)
        if kind is FindingKind.MISSING and place.facts is None and of_requests.isdisjoint(_QUEUED):
            return None  # only the history knows the place: it was dropped
        return _with_problem(outcome, kind)

    def order(place: Place) -> tuple[bool, str]:
        return states.get(place.ref, set()) <= {State.SUCCEEDED}, str(place.ref)

    for outcomes, _ in list_in_portions(services, sorted(places, key=order)[:most_places], None):
        # in threads, as files of places that are due are read
        answers = in_threads(figures, outcomes, seconds=step_seconds(services.settings))
        for outcome, place in zip(outcomes, answers, strict=True):
            if isinstance(place, AcidError):
                failed = Unlisted(place=outcome.place, error=place)
                yield _with_problem(failed, _kind_of_problem(services, failed))
            elif place is not None:
                yield place
    for unlisted in unread:
        yield _with_problem(unlisted, _kind_of_problem(services, unlisted))


def _with_problem(unlisted: Unlisted, kind: FindingKind) -> ListedFigures:
    place, problem = unlisted.place, (kind, str(unlisted.error))
    figures = PlaceFigures(**place.ref._asdict(), location=str(place.location))
    return ListedFigures(figures=figures, problem=problem)


def _kind_of_problem(services: Services, unlisted: Unlisted) -> FindingKind:
    location = unlisted.place.location
    if isinstance(unlisted.error, CorruptError):
        try:
            exists = services.fs(location).exists(str(location))
        except Exception:
            exists = True
        return FindingKind.DAMAGED if exists else FindingKind.MISSING
    if isinstance(unlisted.error, ConflictError):
        return FindingKind.CHANGING
    return FindingKind.NOT_JUDGED if isinstance(unlisted.error, RefusedError) else FindingKind.NOT_READABLE


def _figures(services: Services, attempts: Attempts, listed: ListedPlace, of_requests: set[State]) -> ListedFigures:
    """Return the figures of a listed place; `of_requests` are the states of its requests."""
    place, state, facts = listed.place, listed.state, listed.place.facts
    sizes: dict[str, int] = {}
    for file in listed.listing.files:
        for name in {file.path, file.path.partition("/")[0]}:
            sizes[name] = sizes.get(name, 0) + file.length
    base = sum(sizes.get(path, 0) for path in (*state.originals, *([state.base.path] if state.base else ())))
    deltas = [sizes.get(delta.path, 0) for delta in state.deltas]
    small = float(services.settings.setting("metastore.deltametrics.delta.pct.threshold").value)
    due = refused = None
    if of_requests.isdisjoint(_AT_WORK):
        # the decision of the initiator, were the place not switched off
        decision = decide(
            state,
            listed.listing,
            place.settings(services.settings).thresholds(),
            names=listed.hive.names,
            properties={},
            insert_only=place.is_insert_only,
        )
        if decision.kind is not None:
            due = decision.reason
            refusal = refused_now(services, attempts, listed, decision.kind)
            if refusal is None:
                refused = attempts.refusal(listed, decision.kind)
            elif refusal.already_compact:
                due = None  # obsolete directories await cleaning
            else:
                refused = refusal.reason
    is_alive, left_by, unfinished, not_obeyed = _claim(services, listed)
    left_behind: list[str] = []
    if not is_alive and State.WORKING not in of_requests:
        left_behind = sorted(path for path in listed.listing.directories if "/" not in path)
    switched_off = None
    if facts is not None:
        switched_off = switched_off_reason(facts.table.properties, facts.database.properties, listed.hive.names)
    figures = PlaceFigures(
        **place.ref._asdict(),
        location=str(place.location),
        deltas=len(deltas),
        small_deltas=sum(size < small * base for size in deltas),
        base_bytes=base,
        delta_bytes=sum(deltas),
        ratio=sum(deltas) / base if base else None,
        obsolete=len(listed.obsolete),
        obsolete_bytes=sum(listed.obsolete.values()),
    )
    return ListedFigures(
        figures=figures,
        aborted=len(state.aborted),
        idle=services.clock() - listed.modified if listed.modified else None,
        due=due,
        refused=refused,
        switched_off=switched_off,
        cleaning_forbidden=place.cleaning_forbidden(),
        unfinished=0 if is_alive else unfinished,
        claim_left_by=left_by,
        staging=tuple(name for name in left_behind if name.startswith(STAGING_PREFIX)),
        removed=tuple(name for name in left_behind if name.startswith(OUT_OF_SIGHT)),
        not_obeyed=not_obeyed,
    )


def _claim(services: Services, listed: ListedPlace) -> tuple[bool, str | None, int, str | None]:
    """Return if a live run holds the place, the owner of a stale claim, and the number of unfinished publications.

    Last, why a claim or staging directory there counts for nothing.
    """
    if not (listed.is_claimed or listed.holds_staging):
        return False, None, 0, None
    location = listed.place.location
    try:
        store = services.store(location)
        holder = store.holder(location, now=services.clock())
        unfinished = len(store.unfinished(location)) if listed.holds_staging else 0
        not_obeyed = store.not_obeyed_reason(location)
    except RefusedError as error:
        return True, None, 0, error.words  # a claim that no run leaves
    except AcidError:
        return True, None, 0, None  # a place that is out of reach from here proves nothing
    if holder is None:
        return False, None, unfinished, not_obeyed
    return not holder.is_stale, holder.owner if holder.is_stale else None, unfinished, not_obeyed
