"""Whether a compaction of a kind has enough to work on.

Source: Hive 4 `Worker.isEnoughToCompact`. Hive 3.1 asks less of a full-ACID table: `CompactorMR.run` leaves alone only
what has neither deltas nor original files, so a major asked of it makes a base of a single delta, without its
aborted and deleted rows. (Its minor of a single delta replaces that directory; nothing here replaces one.) A minor over
a single write id is left out too: without statement ids in its names a reader no longer sees that one statement's
delete events came after another's rows, and rows deleted within that transaction reappear.
"""

from __future__ import annotations

from acidlib.model.generation import Generation
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.planning.state import AcidState

_REFUSED_MESSAGE = "None of the compaction thresholds met, compaction request is refused!"


def refused_message(reason: str) -> str:
    """Return the message of a request for a place that is compact already, as Hive 4's worker refuses it."""
    return f"{_REFUSED_MESSAGE} ({reason})"


def was_compact(request: CompactionRequest) -> bool:
    """Return True for a request that ended because its place was compact already, whichever worker had it.

    Hive 4 has no state for that: the words tell it from what could not be done.
    """
    return request.state is State.REFUSED and (request.error_message or "").startswith(_REFUSED_MESSAGE)


def not_enough(
    state: AcidState, kind: CompactionType, *, generation: Generation, insert_only: bool, automatic: bool
) -> str | None:
    """Why there is not enough to compact, or None when there is.

    automatic  an initiator asks for it; for any other request a single delta will do by the rules of Hive 3.1
    """
    if kind is CompactionType.MINOR:
        return _not_enough_for_minor(state)
    if kind is CompactionType.REBALANCE:
        is_empty = not (state.base or state.originals or state.deltas)
        return "there is nothing to rebalance: no base and no delta" if is_empty else None
    one_delta_will_do = generation is Generation.HIVE3 and not (insert_only or automatic)
    return None if one_delta_will_do and state.deltas else _not_enough_for_major(state)


def single_write_id(state: AcidState) -> int | None:
    """The write id, if all current deltas are of one and the same."""
    ids = {write_id for delta in state.deltas for write_id in (delta.name.min_write_id, delta.name.max_write_id)}
    return ids.pop() if len(ids) == 1 else None


def _not_enough_for_major(state: AcidState) -> str | None:
    if state.originals or len(state.deltas) + (state.base is not None) > 1:
        return None
    what = "a base and no delta" if state.base is not None else f"{len(state.deltas)} delta directories and no base"
    return f"there is nothing to merge: {what}"


def _not_enough_for_minor(state: AcidState) -> str | None:
    deletes = sum(delta.name.is_delete for delta in state.deltas)
    if len(state.deltas) <= 1:
        return f"there is nothing to merge: {len(state.deltas)} delta directories"
    if (write_id := single_write_id(state)) is not None:
        return (
            f"there is nothing to merge: all {len(state.deltas)} delta directories are of write id {write_id}, and a "
            "minor would lose their order"
        )
    if len(state.deltas) == 2 and deletes == 1:
        return "there is nothing to merge: one delta and one delete delta directory"
    return None
