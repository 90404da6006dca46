"""Which transactions may still read what a compaction of Hive 4 made obsolete, where readers register what they read.

With `metastore.txn.use.minhistorywriteid` (the default of Hive 4.2) a query notes, once it has its snapshot and its
locks, the lowest open write id of each transactional table that it reads, all of them at once; that is gone with its
transaction. Source: Hive 4 `DriverTxnHandler.recordValidWriteIds`, `DbTxnManager.addWriteIdsToMinHistory`,
`AddWriteIdsToMinHistoryCommand`. A transaction has one statement: START TRANSACTION is not supported.

Hive's own cleaner waits while a write id is registered that is not above the mark of the compaction
(`ReadyToCleanHandler`). That alone is not enough, and differs here on purpose:

* A query that read all that had committed registers a write id above the mark, and reads the inputs of the compaction
  all the same if its snapshot is older than the commit. So whoever registered for the table counts, by whatever id,
  unless its transaction is one from after the commit.
* Between its snapshot and its registration a query is not seen, nor is a reader that never registers. So a transaction
  that registered nothing counts for every table.
* `CQ_NEXT_TXN_ID` is the highest transaction that was seen when the compaction committed. Hive 4.2 takes no lock for
  that any more (`CommitTxnFunction`): a transaction with a higher id may have been opened, and may have taken its
  snapshot, before the commit ended. So one counts as from after it only if it was opened `COMMIT_MS` later, too, by the
  clock of the database, which gives both times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

TableName = tuple[str, str]
COMMIT_MS = 3_600_000
"""Longer than the commit of a compaction takes in the metastore's database: from the look at the highest transaction
until others see it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenReader:
    """An open transaction: when it was opened (epoch milliseconds of the database; None if that is not known) and the
    lowest open write id that it registered of each table (database and name in lower case).
    """

    txn_id: int
    started_ms: int | None = None
    tables: Mapping[TableName, int] = field(default_factory=dict)

    def may_read(self, table: TableName) -> bool:
        """Whether it reads this table, or nobody knows yet what it reads."""
        return not self.tables or table in self.tables

    def is_from_after(self, next_txn_id: int, commit_ms: int) -> bool:
        """Whether its snapshot is certainly newer than this commit."""
        return self.txn_id > next_txn_id and self.started_ms is not None and self.started_ms > commit_ms + COMMIT_MS


def readers_of(table: TableName, opened: Iterable[OpenReader]) -> tuple[OpenReader, ...]:
    """Those that may read a table, lowest id first."""
    return tuple(sorted((one for one in opened if one.may_read(table)), key=lambda one: one.txn_id))


def still_reading(
    table: TableName, readers: Sequence[OpenReader], *, mark: int, next_txn_id: int, commit_ms: int
) -> str | None:
    """What has to end before a compaction's inputs may go, in words; None without it. `readers`: see `readers_of`."""
    for reader in readers:
        lowest = reader.tables.get(table)
        if reader.is_from_after(next_txn_id, commit_ms) and (lowest is None or mark < lowest):
            continue
        what = "registered nothing that it reads" if lowest is None else f"reads the table from write id {lowest}"
        if reader.txn_id <= next_txn_id:
            return f"transaction {reader.txn_id} is open since before its commit and {what}"
        return f"transaction {reader.txn_id} may be older than its commit and {what}"
    return None
