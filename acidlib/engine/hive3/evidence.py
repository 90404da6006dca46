"""When something became visible, told by what exists in the metastore: the proof by which Hive 3.1's cleaning goes.

Hive 3.1 has no watermark in its queue. What proves that nobody reads a replaced directory any more is that every
transaction and every lock that existed once its replacement was visible has ended. Hive 3.1's `Cleaner` remembers locks
in memory; transactions are added here because a query takes its snapshot before its locks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from acidlib.engine.target import Target
from acidlib.errors import CorruptError
from acidlib.metastore.values import HeldLock, OpenTxns


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The highest transaction and lock ids that existed at a moment after a publication; `ms` is that moment."""

    txn: int
    lock: int
    ms: int

    @classmethod
    def of(cls, txns: OpenTxns, locks: Iterable[HeldLock], now_ms: int) -> Evidence:
        """What exists now. Ids of both kinds only grow, so whatever exists has at most these."""
        return cls(txn=txns.high_water_mark, lock=max((lock.lock_id for lock in locks), default=0), ms=now_ms)

    def blocker(self, txns: OpenTxns, locks: Iterable[HeldLock], *, now_ms: int, retention_ms: int) -> str | None:
        """What still stands in the way, or None. `locks` are those that concern the place."""
        if txns.min_open <= self.txn:
            return f"transaction {txns.min_open} is open since before it (up to {self.txn} have to end)"
        old = sorted(lock.lock_id for lock in locks if lock.lock_id <= self.lock)
        if old:
            return f"lock {old[0]} is held since before it"
        if now_ms < self.ms + retention_ms:
            return f"the retention of {retention_ms / 1000:g} s has not passed"
        return None

    def newer(self, other: Evidence | None) -> Evidence:
        """The later of two; ids tell, for the clocks of two hosts may differ."""
        return self if other is None or (self.txn, self.lock, self.ms) >= (other.txn, other.lock, other.ms) else other


def format_evidence(evidence: Mapping[str, Evidence]) -> str:
    """As the text of a request's property: per directory."""
    return json.dumps({name: [one.txn, one.lock, one.ms] for name, one in evidence.items()}, separators=(",", ":"))


def parse_evidence(text: str | None) -> dict[str, Evidence]:
    """The evidence in a request's property; raises CorruptError when it does not parse."""
    if not text:
        return {}
    try:
        found = json.loads(text)
        return {
            str(name): Evidence(txn=int(txn), lock=int(lock), ms=int(ms)) for name, (txn, lock, ms) in found.items()
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptError(f"Cannot read what a request noted of its publication, {text!r}: because {error}") from None


def table_id(target: Target) -> str:
    """What tells a table from another one of its name, and its place from an earlier one."""
    assert target.facts is not None
    return f"{target.facts.table.created} {target.location}"


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
