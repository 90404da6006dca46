"""Transactions, locks and requests of compactions as a metastore reports them; values without I/O.

Source of the names and numbers: Hive `hive_metastore.thrift`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from acidlib.model.requests import CompactionRequest, State
from acidlib.model.txnids import ValidTxnList


class LockState(enum.Enum):
    """The state of a request for a lock; the value is the number on the wire."""

    ACQUIRED = 1
    WAITING = 2
    ABORT = 3
    NOT_ACQUIRED = 4


class LockType(enum.Enum):
    """The strength of a lock; the value is the number on the wire. EXCL_WRITE exists in Hive 4 only."""

    SHARED_READ = 1
    SHARED_WRITE = 2
    EXCLUSIVE = 3
    EXCL_WRITE = 4


class TxnType(enum.Enum):
    """The kind of a transaction; the value is the number on the wire. Hive 3.1 has no kinds and ignores them."""

    DEFAULT = 0
    REPL_CREATED = 1
    READ_ONLY = 2
    COMPACTION = 3
    MATER_VIEW_REBUILD = 4
    SOFT_DELETE = 5
    REBALANCE_COMPACTION = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class LockComponent:
    """One thing to lock: a database, a table (with `table`) or a partition (with both, as `k=v/k2=v2`).

    With `transactional` the lock belongs to a transaction's read (operation SELECT), otherwise to none (NO_TXN). With
    `updates` it is its update (UPDATE): the server notes a change of the table's data when it commits, and whoever has
    read rows before, and asks for a lock to change them, reads them again. Only a rebalance is one.
    """

    type: LockType
    database: str
    table: str | None = None
    partition: str | None = None
    transactional: bool = False
    updates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLock:
    """One lock that is held or waited for. Times are epoch milliseconds of the server's database.

    `heartbeat_ms` is None for a lock that lives and dies with its transaction.
    """

    lock_id: int
    database: str
    table: str | None = None
    partition: str | None = None
    state: LockState
    type: LockType
    txn_id: int | None = None
    user: str
    host: str
    acquired_ms: int | None = None
    heartbeat_ms: int | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTxn:
    """One transaction that is open or aborted: `state` is `open` or `aborted`. Times are epoch milliseconds."""

    id: int
    state: str
    user: str
    host: str
    started_ms: int | None = None
    heartbeat_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTxns:
    """A snapshot of the transactions: which are open and which aborted, up to the highest id given out."""

    txns: ValidTxnList
    high_water_mark: int

    @property
    def min_open(self) -> int:
        """The lowest open id (aborted ones do not count); one more than the high-water mark when none is open."""
        return self.txns.opened[0][0] if self.txns.opened else self.high_water_mark + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The answer to a request for a compaction.

    Of a request that is refused as a duplicate, Hive 3.1 gives the id and the state of the one that is there already;
    Hive 4 gives the id -1, the state refused, and a `reason` that names the other one.
    """

    id: int
    accepted: bool
    state: State | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRequest(CompactionRequest):
    """A row of the queue or of the history with what only a metastore has of it; all of it is None on Hive 3.1."""

    worker_version: str | None = None
    initiator_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRequest:
    """A row of the queue or of the history of a type or state that this library does not know, in Hive's words.

    It counts as work on its table or partition unless `state` says otherwise.
    """

    id: int
    database: str
    table: str
    partition: str | None = None
    kind: str
    state: str

    @property
    def entity(self) -> tuple[str, str, str | None]:
        """What is compacted: database, table and partition name."""
        return self.database, self.table, self.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRequests:
    """All rows of the queue and of the history, newest first: those of known types and states, and the others."""

    requests: tuple[ShownRequest, ...]
    others: tuple[OtherRequest, ...] = ()
