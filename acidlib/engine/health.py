"""One look at all tables: what the queue, the metastore and a bounded number of listings tell, as a value.

The queue and the transactions are read in a number of calls that does not grow with the places; tables and partitions
are asked for only where places are to be listed. Nothing is changed anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from acidlib.engine.alone.selecting import select_targets
from acidlib.engine.attempts import COUNTED, Attempts
from acidlib.engine.blockers import Blocker, blockers_among
from acidlib.engine.catalog import Catalog
from acidlib.engine.environment import Environment
from acidlib.engine.health_limits import limits_of
from acidlib.engine.health_places import figures_of
from acidlib.engine.hive4.cleaning import CLEANER_ON
from acidlib.engine.hive4.rolled_back import BY_CLEANER
from acidlib.engine.leftovers import is_known_dead
from acidlib.engine.open import TXN_TIMEOUT, Queued, open_queued
from acidlib.engine.runner import in_threads
from acidlib.engine.selection import ListingOutcome, PassedOver, Selection, look_in_portions
from acidlib.engine.services import Services
from acidlib.engine.target import Interpretation, Target, target_of
from acidlib.errors import AcidError
from acidlib.metastore.values import OpenTxn, ShownRequest
from acidlib.model.generation import Generation
from acidlib.model.location import Location
from acidlib.model.partitions import PartitionName, matches
from acidlib.model.requests import CompactionRequest, State
from acidlib.planning.eligible import wrong_kind
from acidlib.planning.health import Finding, Lake, Level, Limits, PlaceFigures, Transaction, Trouble, Waits
from acidlib.planning.stated_write_ids import StatedWriteIds
from acidlib.report.show import initiator_of
from acidlib.settings import parse_duration

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
        silent = None if queued.hms is None else parse_duration(queued.hms.config_value(TXN_TIMEOUT, "300s")) / 1000
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
    if not selection.wants_table(row.database, row.table):
        return False
    if not selection.partitions:
        return True
    return row.partition is not None and matches(PartitionName.parse(row.partition), selection.partitions)


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
    asked = {row.entity for row in requests}
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
        notes += selection.absent([(database, table) for database, table, _ in asked], "no request of this queue")
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
            database=row.database,
            table=row.table,
            partition=row.partition,
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
        database=one.target.database,
        table=one.target.table,
        partition=one.target.partition,
    )


def _those_of_requests_first(targets: Sequence[Target], requests: Iterable[CompactionRequest]) -> list[Target]:
    known = {row.entity for row in requests if row.state is not State.SUCCEEDED}
    return sorted(targets, key=lambda one: ((one.database, one.table, one.partition) not in known, one.name))


def _listed(
    services: Services, targets: Sequence[Target], requests: Iterable[CompactionRequest], limits: Limits
) -> Iterable[PlaceFigures]:
    states: dict[tuple[str, str, str | None], set[State]] = {}
    for row in requests:
        states.setdefault(row.entity, set()).add(row.state)
    attempts = Attempts((row for row in requests if row.state in COUNTED), services.settings)

    def figures(one: ListingOutcome) -> PlaceFigures | None:
        target = one.target
        known = states.get((target.database, target.table, target.partition), set())
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
        database=row.database,
        table=row.table,
        partition=row.partition,
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
    if hms is None or hms.generation is not Generation.HIVE4 or not services.settings.flag(BY_CLEANER):
        return None
    if hms.config_value(CLEANER_ON, "unknown").strip().lower() != "false":
        return None
    off = "Hive's own cleaner is off, and thrift does not tell this one where they wrote"
    notes = where.noted_writes()
    if notes is None:
        return f"{off}; give it --queue-url of the metastore's database"
    try:
        if notes.are_shown():
            return None
    except AcidError as error:
        return f"{off}: {error}"
    finally:
        notes.close()
    return f"{off}; {notes.shown} is no metastore's database, or shows its user no table TXN_COMPONENTS"


def _aborted(targets: Iterable[Target]) -> dict[tuple[str, str], int]:
    """How many write ids of each table are aborted, as the metastore told with its places."""
    found = {}
    for one in targets:
        stated = one.interpretation.write_ids
        if one.facts is not None and stated is not None and stated.single is not None:
            found[one.database, one.table] = len(stated.single.aborted_ids)
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
                database=row.database,
                table=row.table,
                partition=row.partition,
            )
