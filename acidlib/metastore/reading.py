"""The transaction of a read with its shared locks: it keeps cleaners away from every file that the snapshot shows.

The order, which differs from Hive's own readers (`Driver`, `DbTxnManager`) in that the snapshot comes last:

1. the transaction is opened, and on Hive 4 a second one for a moment: see `_pass_watermark`;
2. where readers register the tables that they read, it registers;
3. the locks are granted; only now the caller asks which transactions and write ids are committed, and then lists.

So a compaction whose result the snapshot does not show has become visible after 3, and whatever waits for the
transactions and locks of that moment waits for this read: this engine's cleaners, and those of Hive. Hive 3.1's
`Cleaner` waits for locks on exactly the table, or exactly the partition, that was compacted. Hive 4's waits for the
lowest open transaction. One exception is Hive's own: the cleaner of Hive 4 that follows rolled back transactions waits
for transactions that write the table alone (`AbortedTxnCleaner`).

A compaction whose result the snapshot does show is no danger: its inputs are obsolete for the snapshot, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from acidlib.acid.names import Generation
from acidlib.errors import AcidError, ConflictError, RetryError, UnknownOutcomeError
from acidlib.metastore.heartbeat import Heartbeater, Lease
from acidlib.metastore.hms import Hms
from acidlib.metastore.holding import (
    AGENT_WIDTH,
    begun_transaction,
    end_lease,
    wait_until_granted,
)
from acidlib.metastore.transactions import LockComponent, LockType, TxnType
from acidlib.model.tables import TableRef

LOCKS_PER_REQUEST = 1000
"""Partitions that one request locks: a metastore looks for conflicts of all of them in one statement."""

_REGISTERED_WRITE_ID = 1
"""The lowest write id that a read registers. A lower one than it needs: a compaction between the read of the write ids
and their registration would not be noticed by the cleaner."""


def begin_read(
    hms: Hms, heartbeater: Heartbeater, *, table: TableRef, agent: str, registers: bool = False
) -> ReadTransaction:
    """Open the transaction of a read, and keep it alive.

    agent      shown with its locks
    registers  the server counts readers by write id (`metastore.txn.use.minhistorywriteid` of Hive 4)
    """
    # the agents of compactors begin otherwise: one that waits for a reader waits for a query
    text = f"read by {agent}"[:AGENT_WIDTH]
    is_hive4 = hms.calls is Generation.HIVE4
    kind = TxnType.READ_ONLY if is_hive4 else TxnType.DEFAULT
    with begun_transaction(hms, heartbeater, kind, text, name=lambda _: f"the read of {table}") as (txn_id, lease):
        if is_hive4:
            _pass_watermark(hms, text)
        if registers:
            hms.add_write_ids_to_min_history(txn_id, {str(table.whole_table): _REGISTERED_WRITE_ID})
    return ReadTransaction(hms, lease, txn_id=txn_id, kind=kind, agent=text)


def _pass_watermark(hms: Hms, agent: str) -> None:
    """Open a later transaction for a moment, so that every later commit of a compaction sees a higher id than ours.

    Hive 4's cleaner removes what a compaction replaced once no transaction is open *below* the highest that existed
    when the compaction committed (`CompactionTxnHandler.findReadyToClean`): a reader that is this highest one, opened
    while the compaction ran, does not count.
    """
    later = hms.open_txn(TxnType.READ_ONLY, agent)
    hms.commit_txn(later, TxnType.READ_ONLY)


class ReadTransaction:
    """An open transaction with shared locks. As a context manager it ends with them."""

    def __init__(self, hms: Hms, lease: Lease, *, txn_id: int, kind: TxnType, agent: str) -> None:
        """Use `begin_read`."""
        self.txn_id = txn_id
        self._hms = hms
        self._lease = lease
        self._kind = kind
        self._agent = agent
        self._ended = False

    def lock(
        self,
        places: Sequence[TableRef],
        *,
        timeout_seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take a shared lock on each place, a table or a partition of it; wait up to `timeout_seconds` for all.

        Such a lock waits behind exclusive ones alone: of a drop, of some changes of the table, and of INSERT OVERWRITE.
        Raises ConflictError naming the holders when it is not granted in time. The transaction stays open: end it.
        """
        deadline = clock() + timeout_seconds
        for start in range(0, len(places), LOCKS_PER_REQUEST):
            wanted = [_shared(ref) for ref in places[start : start + LOCKS_PER_REQUEST]]
            lock_id, state = self._hms.lock(wanted, txn_id=self.txn_id, agent=self._agent, may_have_committed=False)
            wait_until_granted(
                self._hms,
                wanted,
                lock_id,
                state,
                txn_id=self.txn_id,
                refused=f"Cannot read {_named(wanted)}: no shared lock was granted within {timeout_seconds:g} s",
                deadline=deadline,
                clock=clock,
                sleep=sleep,
            )

    def assert_alive(self) -> None:
        """Raise ConflictError after the end, and if transaction and locks are lost, or may be by now.

        They may be once no heartbeat has reached the metastore for longer than its timeout: see `Lease.assert_alive`.
        """
        if self._ended:
            raise ConflictError(f"Cannot go on with {self._lease.name}: it has ended")
        try:
            self._lease.assert_alive()
        except AcidError as error:
            raise ConflictError(error.words) from error

    def end(self) -> None:
        """End the transaction, and the locks with it; may be called again.

        Raises RetryError when the call fails (the metastore aborts by itself after its timeout), but not while another
        error is being handled.
        """
        if not self._ended:
            # whether or not it is known to have ended, its heartbeats have
            self._ended = True
            end_lease(self._lease, self._commit, "end", "ends")

    def _commit(self) -> None:
        """Commit, once more where the outcome is unknown: it wrote nothing, so that this changes nothing either."""
        try:
            self._hms.commit_txn(self.txn_id, self._kind)
        except (RetryError, UnknownOutcomeError):
            self._hms.commit_txn(self.txn_id, self._kind)

    def __enter__(self) -> ReadTransaction:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def _shared(ref: TableRef) -> LockComponent:
    return LockComponent(
        type=LockType.SHARED_READ,
        database=ref.database,
        table=ref.table,
        partition=ref.partition,
        transactional=True,
    )


def _named(wanted: Sequence[LockComponent]) -> str:
    first = wanted[0]
    name = str(TableRef(first.database, first.table or "", first.partition))
    return name if len(wanted) == 1 else f"{name} and {len(wanted) - 1} more partitions"
