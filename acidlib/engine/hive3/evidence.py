"""What existed in the metastore when something became visible: the proof by which cleaning with Hive 3.1 goes.

Hive 3.1 has no watermark in its queue. What proves that nobody reads a replaced directory any more is that every
transaction and every lock that existed once its replacement was visible has ended. Hive 3.1's `Cleaner` remembers locks
in memory; transactions are added here because a query takes its snapshot before its locks.
"""

from __future__ import annotations

from collections.abc import Iterable

from acidlib.engine.target import Target
from acidlib.metastore.values import HeldLock, OpenTxns
from acidlib.model.request_facts import Evidence
from acidlib.wording import retention_words


def evidence_now(txns: OpenTxns, locks: Iterable[HeldLock], now_ms: int) -> Evidence:
    """What exists now. Ids of both kinds only grow, so whatever exists has at most these."""
    return Evidence(txn=txns.high_water_mark, lock=max((lock.lock_id for lock in locks), default=0), ms=now_ms)


def still_to_end(
    evidence: Evidence, txns: OpenTxns, locks: Iterable[HeldLock], *, now_ms: int, retention_ms: int
) -> str | None:
    """What existed then and has not ended, or the retention since; None without it. `locks`: of the place."""
    if txns.min_open <= evidence.txn:
        return f"transaction {txns.min_open} is open since before it (up to {evidence.txn} have to end)"
    old = sorted(lock.lock_id for lock in locks if lock.lock_id <= evidence.lock)
    if old:
        return f"lock {old[0]} is held since before it"
    if now_ms < evidence.ms + retention_ms:
        return retention_words(retention_ms / 1000, (evidence.ms + retention_ms) / 1000)
    return None


def table_id(target: Target) -> str:
    """What tells a table from another one of its name, and its place from an earlier one."""
    created, _ = target.table_identity
    return f"{created} {target.location}"


def concerns(lock: HeldLock, database: str, table: str, partition: str | None) -> bool:
    """Whether a lock may be of somebody who reads a place: on it, on its table, on its database, or on a partition of
    the table where the place is the whole table.
    """
    if lock.database.lower() != database:
        return False
    if lock.table is None:
        return True
    if lock.table.lower() != table:
        return False
    return lock.partition is None or partition is None or lock.partition.lower() == partition.lower()
