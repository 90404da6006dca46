"""Which open transactions and locks keep which requests from being cleaned, whose they are, and since when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from acidlib.metastore.hms import Hms
from acidlib.metastore.transactions import HeldLock, OpenTxn
from acidlib.model.names import Generation
from acidlib.model.requests import CompactionRequest, Evidence, State
from acidlib.service.surroundings.hive3 import concerns


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """One transaction or lock that a request waits for; `kind` says which. `age_ms` is None if its start is unknown."""

    request_id: int
    name: str
    kind: str
    id: int
    user: str
    host: str
    age_ms: int | None

    def document(self) -> dict[str, Any]:
        """An entry of `blockers` in the JSON document."""
        return {field: getattr(self, field) for field in self.__slots__}


def blockers(hms: Hms, requests: Iterable[CompactionRequest], now_ms: int) -> list[Blocker]:
    """What each request that is ready for cleaning waits for, oldest first; nothing for those that could be cleaned."""
    waiting = [row for row in requests if row.state is State.READY_FOR_CLEANING]
    if not waiting:
        return []
    return blockers_among(hms, waiting, hms.open_txns_info(), now_ms)


def blockers_among(
    hms: Hms, waiting: Iterable[CompactionRequest], transactions: Iterable[OpenTxn], now_ms: int
) -> list[Blocker]:
    """The same for requests that are ready for cleaning and transactions that are known; of locks the metastore of
    Hive 3.1 is asked.
    """
    txns = [txn for txn in transactions if txn.state == "open"]
    locks = hms.show_locks() if hms.generation is Generation.HIVE3 else ()
    found = []
    for row in sorted(waiting, key=lambda row: row.id):
        found += [_of_txn(row, txn, now_ms) for txn in _txns(row, txns, hms.generation)]
        found += [_of_lock(row, lock, now_ms) for lock in _locks(row, locks)]
    return found


def _txns(row: CompactionRequest, txns: Sequence[OpenTxn], generation: Generation) -> list[OpenTxn]:
    if generation is Generation.HIVE4:
        noted = row.noted_commit
        limit = row.next_txn_id if noted is None else noted.next_txn_id
        limit = row.txn_id if limit is None else limit
    else:
        newest = _newest(row)
        limit = None if newest is None else newest.txn
    return [txn for txn in txns if limit is not None and txn.id <= limit]


def _locks(row: CompactionRequest, locks: Sequence[HeldLock]) -> list[HeldLock]:
    """Without evidence, which Hive's own worker does not leave, every lock there is now may be from before."""
    newest = _newest(row)
    return [lock for lock in locks if concerns(lock, row.ref) and (newest is None or lock.lock_id <= newest.lock)]


def _newest(row: CompactionRequest) -> Evidence | None:
    newest: Evidence | None = None
    for evidence in row.facts.evidence.values():
        newest = evidence.newer(newest)
    return newest


def _of_txn(row: CompactionRequest, txn: OpenTxn, now_ms: int) -> Blocker:
    age = None if txn.started_ms is None else now_ms - txn.started_ms
    return Blocker(
        request_id=row.id,
        name=str(row.ref),
        kind="transaction",
        id=txn.id,
        user=txn.user,
        host=txn.host,
        age_ms=age,
    )


def _of_lock(row: CompactionRequest, lock: HeldLock, now_ms: int) -> Blocker:
    age = None if lock.acquired_ms is None else now_ms - lock.acquired_ms
    return Blocker(
        request_id=row.id,
        name=str(row.ref),
        kind="lock",
        id=lock.lock_id,
        user=lock.user,
        host=lock.host,
        age_ms=age,
    )
