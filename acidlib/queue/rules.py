"""Rules of the queue and its history as pure functions; rows are values and the time is an argument.

Source: Hive CompactionTxnHandler.checkFailedCompactions and purgeCompactionHistory, Initiator.checkFailedCompactions.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from acidlib.model.names import Generation
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.planning.results import is_unverified


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The number of history rows to keep per entity and state, and the milliseconds after which unhappy ones may go.

    `failed` is raised to `failed_threshold`, else the failed-attempt rule could never count that far. A `timeout_ms` of
    None lets nothing go by its age, as in Hive 3.1.
    """

    succeeded: int
    failed: int
    did_not_initiate: int
    refused: int
    timeout_ms: int | None
    failed_threshold: int

    def quota(self, state: State) -> int | None:
        """Return the number of rows to keep of a state; None keeps all."""
        quotas = {
            State.SUCCEEDED: self.succeeded,
            State.FAILED: max(self.failed, self.failed_threshold),
            State.ATTEMPTED: self.did_not_initiate,
            State.REFUSED: self.refused,
            State.ABORTED: self.refused,  # Hive 4 purges none of them
        }
        return quotas.get(state)


def same_entity(one: CompactionRequest, other: CompactionRequest) -> bool:
    """Return whether two requests are about the same place; a request that names no location means any."""
    if one.ref != other.ref:
        return False
    here, there = one.facts.location, other.facts.location
    return here is None or there is None or here == there


def duplicate_reason(
    request: CompactionRequest, waiting: Iterable[CompactionRequest]
) -> tuple[CompactionRequest, str] | None:
    """Return the queued request that makes a new one needless, and the text of the refusal; None without one.

    A request in `initiated` or `working` always does; one that is ready for cleaning does if it was made for the same
    high-water mark, since nothing has been written after it (Hive TxnHandler.compact).
    """
    for other in waiting:
        if not same_entity(request, other):
            continue
        nothing_new = request.highest_write_id is not None and request.highest_write_id == other.highest_write_id
        if other.state in (State.INITIATED, State.WORKING) or (other.state is State.READY_FOR_CLEANING and nothing_new):
            return other, already_scheduled(other.id, other.state)
    return None


def already_scheduled(request_id: int, state: State) -> str:
    """Return Hive's text of a refusal."""
    return f"Compaction is already scheduled with state='{state.label}' and id={request_id}"


def is_superseded_by(waiting: CompactionRequest, request: CompactionRequest) -> bool:
    """Return whether a waiting request ends for a new one of the other kind: the run that made it for itself has ended.

    A job that takes whatever waits may still do it; but where none runs, it would be in the way for ever.
    """
    return (
        waiting.state is State.INITIATED
        and waiting.facts.process is not None
        and waiting.type is not request.type
        and same_entity(waiting, request)
    )


def failed_attempts_reason(
    history: Iterable[CompactionRequest],
    *,
    threshold: int,
    retry_ms: int,
    now_ms: int,
    generation: Generation,
) -> str | None:
    """Return why an entity whose last compactions failed is not compacted automatically; None if it may be.

    `history` is of this entity alone, in any order. Blocked if the newest `threshold` rows that count all failed. Hive
    3.1 counts all but `attempted` rows; Hive 4 counts succeeded and failed ones, and tries again when the newest failed
    one was enqueued more than `retry_ms` ago (a `retry_ms` of 0 or less never does).
    """
    if generation == Generation.HIVE3:
        counting = [row for row in history if row.state is not State.ATTEMPTED]
    else:
        counting = [row for row in history if row.state in (State.SUCCEEDED, State.FAILED)]
    newest = sorted(counting, key=lambda row: row.id, reverse=True)[:threshold]
    if len(newest) < threshold or any(row.state is not State.FAILED for row in newest):
        return None
    last = newest[0].enqueue_ms
    if generation == Generation.HIVE4 and retry_ms > 0 and last is not None and last + retry_ms < now_ms:
        return None
    return f"Compaction is not initiated since last {threshold} consecutive compaction attempts failed"


def rows_to_purge(
    history: Iterable[CompactionRequest], retention: Retention, now_ms: int, *, by_location: bool = True
) -> tuple[int, ...]:
    """Return the ids of history rows that are over their entity's quota, or timed out and followed by a success.

    Timed out are attempted, failed and refused rows that ended before `now_ms - timeout_ms`; the newer success must be
    a major compaction, or a minor one for the row of a minor. With `by_location` two places of one name are counted
    apart; a metastore knows one. A row that a place is held for stays while no success is newer.
    """
    by_entity: dict[tuple[object, ...], list[CompactionRequest]] = {}
    for row in history:
        by_entity.setdefault((row.ref, row.facts.location if by_location else None), []).append(row)
    return tuple(sorted(row for rows in by_entity.values() for row in _to_purge_of_one(rows, retention, now_ms)))


def _to_purge_of_one(rows: list[CompactionRequest], retention: Retention, now_ms: int) -> list[int]:
    timeout_ms = retention.timeout_ms
    kept: dict[State, int] = {}
    major_succeeded = minor_succeeded = False
    purged = []
    for row in sorted(rows, key=lambda row: row.id, reverse=True):
        quota = retention.quota(row.state)
        replaced = major_succeeded or (row.type is CompactionType.MINOR and minor_succeeded)
        if row.state is State.SUCCEEDED:
            major_succeeded = major_succeeded or row.type is CompactionType.MAJOR
            minor_succeeded = minor_succeeded or row.type is CompactionType.MINOR
        if quota is None or (is_unverified(row) and not (major_succeeded or minor_succeeded)):
            continue  # a place is held for it
        old = row.end_ms is not None and timeout_ms is not None and row.end_ms < now_ms - timeout_ms
        if kept.get(row.state, 0) >= quota or (row.state is not State.SUCCEEDED and old and replaced):
            purged.append(row.id)
        else:
            kept[row.state] = kept.get(row.state, 0) + 1
    return purged
