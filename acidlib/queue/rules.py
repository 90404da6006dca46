"""Rules of the queue and its history as pure functions; rows are values and the time is an argument.

Source: Hive CompactionTxnHandler.checkFailedCompactions and purgeCompactionHistory, Initiator.checkFailedCompactions.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from acidlib.acid.names import Calls, Generation
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.planning.results import counts_as_attempt, is_unverified


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The limits of the history: rows kept per entity and state, and the age at which unsuccessful rows may go.

    `failed` is raised to `failed_threshold`; with fewer rows the failed-attempt rule could never count that far.
    `timeout_ms` is in milliseconds; None removes nothing by its age, as in Hive 3.1.
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


def same_entity(request: CompactionRequest, other: CompactionRequest) -> bool:
    """Return whether two requests are about the same place; a request without a location matches any location."""
    if request.ref != other.ref:
        return False
    here, there = request.facts.location, other.facts.location
    return here is None or there is None or here == there


def duplicate_of(request: CompactionRequest, queued: Iterable[CompactionRequest]) -> CompactionRequest | None:
    """Return the queued request that makes a new one needless; None if there is none.

    A request in `initiated` or `working` always does. One that is ready for cleaning does if its high-water mark is
    that of the new request, since nothing has been written after it (Hive TxnHandler.compact).
    """
    for other in queued:
        if not same_entity(request, other):
            continue
        nothing_new = request.highest_write_id is not None and request.highest_write_id == other.highest_write_id
        if other.state in (State.INITIATED, State.WORKING) or (other.state is State.READY_FOR_CLEANING and nothing_new):
            return other
    return None


def already_scheduled(request_id: int, state: State) -> str:
    """Return Hive's text for refusing a duplicate of this request."""
    return f"Compaction is already scheduled with state='{state.label}' and id={request_id}"


def is_superseded_by(waiting: CompactionRequest, request: CompactionRequest) -> bool:
    """Return whether a new request of the other type ends a waiting one that a run queued for itself and left.

    A job that takes any waiting request may still carry it out; where no such job runs it would block the place for
    ever.
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
    calls: Calls,
) -> str | None:
    """Return why an entity is not compacted automatically after failed compactions; None if it may be.

    `history` is of this entity alone, in any order. Blocked if the newest `threshold` rows that count
    (`counts_as_attempt`) all failed. Hive 4 tries again when the newest failed row was enqueued more than `retry_ms`
    ago (never with a `retry_ms` of 0 or less).
    """
    counting = [row for row in history if counts_as_attempt(row.state, calls)]
    newest = sorted(counting, key=lambda row: row.id, reverse=True)[:threshold]
    if len(newest) < threshold or any(row.state is not State.FAILED for row in newest):
        return None
    last = newest[0].enqueue_ms
    if calls == Generation.HIVE4 and retry_ms > 0 and last is not None and last + retry_ms < now_ms:
        return None
    return f"Compaction is not initiated since last {threshold} consecutive compaction attempts failed"


def rows_to_purge(
    history: Iterable[CompactionRequest], retention: Retention, now_ms: int, *, by_location: bool = True
) -> tuple[int, ...]:
    """Return the ids of history rows that are over their entity's quota, or timed out and followed by a success.

    Attempted, failed and refused rows time out when they ended before `now_ms - timeout_ms`; the newer success must be
    a major compaction, or a minor one for the row of a minor. With `by_location` two places of the same name count
    separately; a metastore has one place per name. A row that quarantines a place stays until a newer success.
    """
    kept: Counter[tuple[object, State]] = Counter()
    successes: set[tuple[object, CompactionType]] = set()
    purged = []
    for row in sorted(history, key=lambda row: row.id, reverse=True):
        entity = (row.ref, row.facts.location if by_location else None)
        if row.state is State.SUCCEEDED:
            successes.add((entity, row.type))
        after_major = (entity, CompactionType.MAJOR) in successes
        after_minor = (entity, CompactionType.MINOR) in successes
        quota = retention.quota(row.state)
        if quota is None or (is_unverified(row) and not (after_major or after_minor)):
            continue
        is_replaced = after_major or (row.type is CompactionType.MINOR and after_minor)
        is_old = (
            row.end_ms is not None and retention.timeout_ms is not None and row.end_ms < now_ms - retention.timeout_ms
        )
        if kept[entity, row.state] >= quota or (row.state is not State.SUCCEEDED and is_old and is_replaced):
            purged.append(row.id)
        else:
            kept[entity, row.state] += 1
    return tuple(sorted(purged))
