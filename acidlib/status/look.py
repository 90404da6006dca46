"""One look at all tables: limits, listings of places, and what the queue and the metastore tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from acidlib.config.settings import Settings
from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError
from acidlib.metastore.transactions import OpenTxn, ShownRequest
from acidlib.model.location import Location
from acidlib.model.names import Generation
from acidlib.model.requests import CompactionRequest, State
from acidlib.model.tables import PartitionName, TableRef, matches
from acidlib.planning.health import Finding, Lake, Level, Limit, Limits, PlaceFigures, Transaction, Trouble, Waits
from acidlib.planning.initiate import (
    ABORTED_TXN_KEY,
    ABORTED_TXN_TIME_KEY,
    ABORTS_BY_CLEANER,
    Decision,
    decide,
    switched_off,
    wrong_kind,
)
from acidlib.planning.stated_write_ids import StatedWriteIds
from acidlib.report.show import initiator_of
from acidlib.service.attempts import COUNTED, Attempts
from acidlib.service.environment import Environment
from acidlib.service.initiate import refused_now
from acidlib.service.leftovers import is_known_dead
from acidlib.service.open import Queued, metastore_database, open_queued, txn_timeout_seconds
from acidlib.service.places import (
    Interpretation,
    ListedPlace,
    ListingOutcome,
    PassedOver,
    Selection,
    Target,
    Unlisted,
    look_in_portions,
    target_of,
)
from acidlib.service.services import Services, in_threads
from acidlib.service.surroundings.alone import select_targets
from acidlib.service.surroundings.catalog import Catalog
from acidlib.service.surroundings.hive4_cleaning import CLEANER_ON
from acidlib.status.blockers import Blocker, blockers_among
from acidlib.stores.removing import OUT_OF_SIGHT
from acidlib.stores.renaming.publishing import STAGING_PREFIX

# --- health limits ----------------------------------------------------------------------------------------------------
# The limits of the status, out of the settings.


def limits_of(settings: Settings, *, silent_seconds: float | None = None) -> Limits:
    """The limits that are set; `silent_seconds` is the timeout of transactions, where a metastore tells it."""

    def times(warning: str | None = None, error: str | None = None) -> Limit:
        return _limit(settings, warning, error, scale=1000)

    def numbers(warning: str | None = None, error: str | None = None) -> Limit:
        return _limit(settings, warning, error, scale=1)

    return Limits(
        initiated=times(
            "metastore.compactor.oldest.initiated.compaction.time.threshold.warning",
            "metastore.compactor.oldest.initiated.compaction.time.threshold.error",
        ),
        working=times("acidlib.status.working.threshold", "hive.compactor.worker.timeout"),
        uncleaned=times("metastore.compactor.oldest.uncleaned.compaction.time.threshold"),
        open_txn=times(
            "metastore.compactor.oldest.open.txn.threshold.warning",
            "metastore.compactor.oldest.open.txn.threshold.error",
        ),
        aborted_txn=times(
            "metastore.compactor.oldest.uncleaned.aborted.txn.time.threshold.warning",
            "metastore.compactor.oldest.uncleaned.aborted.txn.time.threshold.error",
        ),
        rolled_back=(
            numbers(ABORTED_TXN_KEY),
            times(ABORTED_TXN_TIME_KEY),
        ),
        failure_ratio=numbers("metastore.compactor.failed.compaction.ratio.threshold"),
        failed_in_a_row=numbers(None, "metastore.compactor.initiator.failed.compacts.threshold"),
        refused_in_a_row=numbers("acidlib.status.refused.threshold"),
        table_aborted=numbers("metastore.acidmetrics.table.aborted.txns.threshold"),
        tables_aborted=numbers(None, "metastore.compactor.tables.with.aborted.txn.threshold"),
        deltas=numbers("hive.compactor.active.delta.dir.threshold"),
        obsolete=numbers("hive.compactor.obsolete.delta.dir.threshold"),
        small=numbers("hive.compactor.small.delta.dir.threshold"),
        ratio=numbers("acidlib.status.delta.ratio.threshold"),
        obsolete_bytes=numbers("acidlib.status.obsolete.bytes.threshold"),
        small_share=float(settings.setting("metastore.deltametrics.delta.pct.threshold").value),
        silent_seconds=silent_seconds,
    )


def _limit(settings: Settings, warning: str | None, error: str | None, *, scale: float) -> Limit:
    def value(key: str | None) -> float:
        return 0 if key is None else float(settings.setting(key).value) / scale

    return Limit(warning=value(warning), error=value(error), warning_key=warning, error_key=error)


# --- health places ----------------------------------------------------------------------------------------------------
# What a listing of a place shows of how it is doing: figures as values, and what stands in the way of them.


def figures_of(
    services: Services,
    attempts: Attempts,
    looked: ListingOutcome,
    *,
    small_share: float,
    is_queued: bool,
    is_worked_on: bool,
) -> PlaceFigures:
    """Return the figures of one place.

    attempts      what the queue and its history know
    is_queued     a request for it waits or is worked on; `is_worked_on` only that, by Hive or by us
    """
    if isinstance(looked, Unlisted):
        return _without(services, looked)
    target, sizes = looked.target, _sizes(looked)
    base = sum(sizes.get(path, 0) for path in looked.state.originals)
    if looked.state.base is not None:
        base += sizes.get(looked.state.base.path, 0)
    deltas = [sizes.get(delta.path, 0) for delta in looked.state.deltas]
    obsolete = looked.obsolete
    is_alive, left_by, unfinished = _claim(services, looked)
    is_alone = not is_alive and not is_worked_on
    facts = target.facts
    decision = None if is_queued else _decided(services, looked)
    due = refused = None
    if decision is not None and decision.kind is not None:
        due = decision.reason
        refusal = refused_now(services, attempts, looked, decision.kind)
        if refusal is None:
            refused = attempts.refusal(looked, decision.kind)
        elif refusal.already_compact:
            due = None  # what is obsolete awaits cleaning
        else:
            refused = refusal.reason
    return PlaceFigures(
        ref=target.ref,
        location=str(target.location),
        deltas=len(deltas),
        small_deltas=sum(size < small_share * base for size in deltas),
        base_bytes=base,
        delta_bytes=sum(deltas),
        ratio=sum(deltas) / base if base else None,
        obsolete=len(obsolete),
        obsolete_bytes=sum(obsolete.values()),
        aborted=len(looked.state.aborted),
        idle=services.clock() - looked.modified if looked.modified else None,
        due=due,
        refused=refused,
        switched_off=None
        if facts is None
        else switched_off(facts.table.properties, facts.database.properties, looked.generation),
        cleaning_forbidden=target.cleaning_forbidden(),
        unfinished=unfinished if not is_alive else 0,
        claim_left_by=left_by,
        staging=_named(looked, STAGING_PREFIX) if is_alone else (),
        removed=_named(looked, OUT_OF_SIGHT) if is_alone else (),
    )


def _without(services: Services, looked: Unlisted) -> PlaceFigures:
    target, error = looked.target, looked.error
    if isinstance(error, CorruptError):
        trouble = Trouble.DAMAGED if _exists(services, target) else Trouble.MISSING
    elif isinstance(error, ConflictError):
        trouble = Trouble.CHANGING
    else:
        trouble = Trouble.NOT_JUDGED if isinstance(error, RefusedError) else Trouble.NOT_READABLE
    return PlaceFigures(
        ref=target.ref,
        location=str(target.location),
        problem=(trouble, str(error)),
    )


def _exists(services: Services, target: Target) -> bool:
    try:
        return services.fs(target.location).exists(str(target.location))
    except AcidError:
        return True


def _sizes(place: ListedPlace) -> dict[str, int]:
    """Bytes of each directory and of each file at the top."""
    sizes: dict[str, int] = {}
    for file in place.listing.files:
        for name in {file.path, file.path.partition("/")[0]}:
            sizes[name] = sizes.get(name, 0) + file.length
    return sizes


def _decided(services: Services, place: ListedPlace) -> Decision:
    """Return what the initiator would decide, were the place not switched off."""
    return decide(
        place.state,
        place.listing,
        place.target.settings(services.settings).thresholds(),
        generation=place.generation,
        properties={},
        insert_only=place.target.is_insert_only,
    )


def _claim(services: Services, place: ListedPlace) -> tuple[bool, str | None, int]:
    """Whether somebody alive holds the place; whose claim was left there; how many publications are unfinished."""
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


def _named(place: ListedPlace, prefix: str) -> tuple[str, ...]:
    return tuple(sorted(name for name in place.listing.directories if "/" not in name and name.startswith(prefix)))


# --- health -----------------------------------------------------------------------------------------------------------
# One look at all tables: what the queue, the metastore and a bounded number of listings tell, as a value.
#
# The queue and the transactions are read in a number of calls that does not grow with the places; tables and partitions
# are asked for only where places are to be listed. Nothing is changed anywhere.

_QUEUED = (State.INITIATED, State.WORKING, State.READY_FOR_CLEANING)
_AT_WORK = (State.INITIATED, State.WORKING)
_ALL = Interpretation(write_ids=StatedWriteIds(everything=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What one look saw, by which limits it is to be judged, and notes."""

    lake: Lake
    limits: Limits
    generation: Generation
    notes: tuple[str, ...] = ()


def look(
    where: Environment, services: Services, selection: Selection, interpretation: Interpretation, *, most_places: int
) -> Inspection:
    """Look at everything that is selected; list at most so many places, those that the queue knows first.

    interpretation  how directories are to be read where no metastore says it; nothing stated: all is committed
    """
    now_ms = services.now_ms()
    services.progress.start("reading the queue", 1)
    with open_queued(where) as queued:
        services.progress.advance(1)
        services.progress.finish()
        requests = tuple(row for row in queued.requests if _wants(selection, row, alone=queued.hms is None))
        txns = None if queued.hms is None else queued.hms.open_txns_info()
        silent = None if queued.hms is None else txn_timeout_seconds(queued.hms)
        waits = _waits(queued, requests, txns or (), now_ms)
        limits = limits_of(services.settings, silent_seconds=silent)
        uncleaned = _uncleaned(where, services, queued)
        found = list(_found(queued))
        targets: list[Target] = []
        notes: list[str] = []
        if most_places:
            targets, notes, refused = _targets(services, queued, selection, interpretation, requests)
            found += refused
    chosen = _those_of_requests_first(targets, requests)[:most_places]
    return Inspection(
        lake=Lake(
            now_ms=now_ms,
            requests=requests,
            hosts=_hosts(requests),
            versions=_versions(requests),
            gone=frozenset(row.id for row in requests if row.state is State.WORKING and is_known_dead(row)),
            transactions=None if txns is None else tuple(_transaction(one, now_ms) for one in txns),
            waits=waits,
            aborted=_aborted(targets),
            uncleaned=uncleaned,
            places=tuple(_listed(services, chosen, requests, limits)) if most_places else None,
            known_places=len(targets) if most_places else None,
            found=tuple(found),
            by_location=queued.hms is None,
            tells_queued=queued.generation is Generation.HIVE4,
        ),
        limits=limits,
        generation=queued.generation,
        notes=tuple(notes),
    )


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


def _targets(
    services: Services,
    queued: Queued,
    selection: Selection,
    interpretation: Interpretation,
    requests: Iterable[CompactionRequest],
) -> tuple[list[Target], list[str], list[Finding]]:
    """The places that are selected; without a metastore those below a directory and those that the queue knows.

    With them notes, and a finding for each ACID table or partition of which no compaction can be made.
    """
    asked = {row.ref for row in requests}
    if queued.hms is not None:
        selected = Catalog(services, queued.hms).select(selection, automatic=False, known=asked)
        notes = [note for note in selected.notes if not note.startswith("table ")]
        refused = [_refused(one) for one in selected.passed_over if _is_acid(services, one)]
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
        notes += selection.absent(asked, "no request of this queue")
    for row in requests:
        try:
            target = target_of(row)
        except AcidError:
            continue  # a finding of its own tells what is not understood
        read = Interpretation(
            write_ids=stated.write_ids,
            generation=target.interpretation.generation,
            table_kind=target.interpretation.table_kind,
            columns=target.interpretation.columns,
        )
        place = Target(
            ref=row.ref,
            location=target.location,
            interpretation=read,
        )
        known.setdefault(target.location, place)
    return list(known.values()), notes, []


def _is_acid(services: Services, one: PassedOver) -> bool:
    enabled = services.settings.flag("hive.compactor.compact.insert.only")
    facts = one.target.facts
    return one.is_refused and facts is not None and wrong_kind(facts.table, insert_only_enabled=enabled) is None


def _refused(one: PassedOver) -> Finding:
    return Finding(
        level=Level.WARNING,
        trouble=Trouble.NOT_COMPACTABLE,
        reason=one.reason,
        ref=one.target.ref,
    )


def _those_of_requests_first(targets: Sequence[Target], requests: Iterable[CompactionRequest]) -> list[Target]:
    known = {row.ref for row in requests if row.state is not State.SUCCEEDED}
    return sorted(targets, key=lambda one: (one.ref not in known, str(one.ref)))


def _listed(
    services: Services, targets: Sequence[Target], requests: Iterable[CompactionRequest], limits: Limits
) -> Iterable[PlaceFigures]:
    states: dict[TableRef, set[State]] = {}
    for row in requests:
        states.setdefault(row.ref, set()).add(row.state)
    attempts = Attempts((row for row in requests if row.state in COUNTED), services.settings)

    def figures(one: ListingOutcome) -> PlaceFigures | None:
        target = one.target
        known = states.get(target.ref, set())
        found = figures_of(
            services,
            attempts,
            one,
            small_share=limits.small_share,
            is_queued=not known.isdisjoint(_AT_WORK),
            is_worked_on=State.WORKING in known,
        )
        is_missing = found.problem is not None and found.problem[0] is Trouble.MISSING
        if is_missing and target.facts is None and known.isdisjoint(_QUEUED):
            return None  # only the history knows it: it was dropped
        return found

    for looked, _ in look_in_portions(services, targets, None):
        for done in in_threads(figures, looked, on_progress=lambda _: None):  # of what is due files are looked into
            one = done.get()
            if one is not None:
                yield one


def _waits(
    queued: Queued, requests: Sequence[CompactionRequest], txns: Iterable[OpenTxn], now_ms: int
) -> tuple[Waits, ...] | None:
    if queued.hms is None:
        return None
    waiting = [row for row in requests if row.state is State.READY_FOR_CLEANING]
    if not waiting:
        return ()
    by_id = {row.id: row for row in waiting}
    return tuple(_wait(one, by_id[one.request_id]) for one in blockers_among(queued.hms, waiting, txns, now_ms))


def _wait(one: Blocker, row: CompactionRequest) -> Waits:
    return Waits(
        request_id=one.request_id,
        ref=row.ref,
        kind=one.kind,
        id=one.id,
        user=one.user,
        host=one.host,
        age=_seconds(one.age_ms),
    )


def _transaction(one: OpenTxn, now_ms: int) -> Transaction:
    return Transaction(
        id=one.id,
        is_open=one.state == "open",
        user=one.user,
        host=one.host,
        age=None if one.started_ms is None else _seconds(now_ms - one.started_ms),
        silent=None if one.heartbeat_ms is None else _seconds(now_ms - one.heartbeat_ms),
    )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _uncleaned(where: Environment, services: Services, queued: Queued) -> str | None:
    """Why no cleaner sees to rolled back transactions; None where one does, where none is on, or the initiator does."""
    hms = queued.hms
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


def _aborted(targets: Iterable[Target]) -> dict[TableRef, int]:
    """How many write ids of each table are aborted, as the metastore told with its places."""
    found = {}
    for one in targets:
        stated = one.interpretation.write_ids
        if one.facts is not None and stated is not None and stated.single is not None:
            found[one.ref.whole_table] = len(stated.single.aborted_ids)
    return found


def _hosts(requests: Iterable[CompactionRequest]) -> tuple[str, ...]:
    """The hosts whose initiators queued what waits now; what people asked for does not count."""
    rows = (initiator_of(row.initiator_id) for row in requests if row.state in _QUEUED)
    return tuple(host for host, name in rows if host is not None and name != "manual")


def _versions(requests: Iterable[CompactionRequest]) -> tuple[str, ...]:
    """The versions of Hive's workers that work now; this engine's own says nothing of them."""
    rows = (row for row in requests if isinstance(row, ShownRequest) and row.state is State.WORKING)
    return tuple(row.worker_version for row in rows if row.worker_version)


def _found(queued: Queued) -> Iterable[Finding]:
    for reason in queued.unreadable:
        yield Finding(level=Level.WARNING, trouble=Trouble.NOT_UNDERSTOOD, reason=f"{reason}: that is not known here")
    for row in queued.elsewhere:
        if row.state in _QUEUED:
            yield Finding(
                level=Level.WARNING,
                trouble=Trouble.ANOTHER_METASTORE,
                reason=f"request {row.id} is for the metastore {row.facts.metastore}; no run at this one sees to it",
                ref=row.ref,
            )
