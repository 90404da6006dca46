"""What a listing of a place shows of how it is doing: figures as values, and what stands in the way of them."""

from __future__ import annotations

from acidlib.engine.attempts import Attempts
from acidlib.engine.initiator import refused_now
from acidlib.engine.selection import ListingOutcome, Unlisted
from acidlib.engine.services import Services
from acidlib.engine.target import ListedPlace, Target
from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError
from acidlib.planning.decide import Decision, decide, switched_off
from acidlib.planning.health import PlaceFigures, Trouble
from acidlib.storage.removing import OUT_OF_SIGHT
from acidlib.storage.staging import STAGING_PREFIX


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
        database=target.database,
        table=target.table,
        partition=target.partition,
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
        database=target.database,
        table=target.table,
        partition=target.partition,
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
