"""Compaction requests: their kinds, their states and what the queue and the history know of each.

Source of the letters and names: Hive `TxnStore` and `CompactionType`, columns of COMPACTION_QUEUE and
COMPLETED_COMPACTIONS. Beware: minor is `i` and major is `a`, easily taken for the states initiated and attempted.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from acidlib.errors import RefusedError
from acidlib.model.generation import Generation
from acidlib.model.request_facts import NO_FACTS, RequestFacts


class CompactionType(enum.Enum):
    """The kind of a compaction; the value is the letter in the queue's tables. All but the last are done here."""

    MINOR = "i"
    MAJOR = "a"
    REBALANCE = "r"
    ABORT_TXN_CLEANUP = "c"

    @property
    def label(self) -> str:
        """`MINOR` or `MAJOR`, as SHOW COMPACTIONS prints it."""
        return self.name

    @property
    def makes_base(self) -> bool:
        """Whether it reads all rows and makes a base of them."""
        return self in (CompactionType.MAJOR, CompactionType.REBALANCE)

    @classmethod
    def parse(cls, text: str) -> CompactionType:
        """The kind of a letter or a label in any case; raises RefusedError for anything else."""
        for kind in cls:
            if text == kind.value or text.upper() == kind.name:
                return kind
        raise RefusedError(f"Cannot handle a compaction of type {text!r}: because there is no such type")


class State(enum.Enum):
    """The state of a request; the value is the letter in the queue's tables."""

    INITIATED = "i"
    WORKING = "w"
    READY_FOR_CLEANING = "r"
    FAILED = "f"
    SUCCEEDED = "s"
    ATTEMPTED = "a"
    REFUSED = "c"
    ABORTED = "x"

    @property
    def label(self) -> str:
        """The name SHOW COMPACTIONS prints (for `a`, the name of Hive 4; see `label_of`)."""
        return _LABELS[self]

    def label_of(self, generation: Generation) -> str:
        """The name that Hive of a generation prints: `a` was `attempted` in Hive 3.1."""
        if self is State.ATTEMPTED and generation == Generation.HIVE3:
            return "attempted"
        return _LABELS[self]

    @classmethod
    def parse(cls, text: str) -> State:
        """The state of a letter or a shown name; raises RefusedError for anything else."""
        for state in cls:
            if text == state.value or text == _LABELS[state] or (text == "attempted" and state is State.ATTEMPTED):
                return state
        raise RefusedError(f"Cannot handle a compaction in state {text!r}: because there is no such state")


_LABELS = {
    State.INITIATED: "initiated",
    State.WORKING: "working",
    State.READY_FOR_CLEANING: "ready for cleaning",
    State.FAILED: "failed",
    State.SUCCEEDED: "succeeded",
    State.ATTEMPTED: "did not initiate",
    State.REFUSED: "refused",
    State.ABORTED: "aborted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitNote:
    """What stands for the commit of a rebalance, of which Hive 4 notes nothing itself: no earlier than it was.

    It is kept as the id of the request's job, which holds 32 characters and is of no use otherwise. `next_txn_id` is
    not below any transaction that was open then.
    """

    next_txn_id: int
    commit_ms: int

    @property
    def text(self) -> str:
        """As it is kept."""
        return f"acid:{self.next_txn_id}:{self.commit_ms}"

    @classmethod
    def parse(cls, text: str | None) -> CommitNote | None:
        """None for any other text."""
        found = _COMMIT_NOTE.fullmatch(text or "")
        return None if found is None else cls(next_txn_id=int(found[1]), commit_ms=int(found[2]))


_COMMIT_NOTE = re.compile(r"acid:(\d+):(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRequest:
    """One row of the queue or of the history. Times are epoch milliseconds; unknown is None.

    `properties` are key and value pairs in their order, as whoever asked for the compaction gave them; `facts` are what
    this library notes. `highest_write_id` is the high-water mark of the compaction, recorded with its result at the
    latest; the cleaner computes what is obsolete for it and nothing newer. `txn_id` is the transaction of the
    compaction, `next_txn_id` the highest id that existed when it committed (both Hive 4). `bucket_count` and `order_by`
    are of a rebalance, where they are stated: a metastore tells them of a request that it hands out, and of no other.
    """

    id: int
    database: str
    table: str
    partition: str | None = None
    type: CompactionType
    state: State = State.INITIATED
    properties: tuple[tuple[str, str], ...] = ()
    facts: RequestFacts = NO_FACTS
    worker_id: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    enqueue_ms: int | None = None
    commit_ms: int | None = None
    cleaner_start_ms: int | None = None
    highest_write_id: int | None = None
    run_as: str | None = None
    error_message: str | None = None
    hadoop_job_id: str | None = None
    initiator_id: str | None = None
    pool: str | None = None
    retry_retention_ms: int = 0
    txn_id: int | None = None
    next_txn_id: int | None = None
    bucket_count: int | None = None
    order_by: str | None = None

    @property
    def noted_commit(self) -> CommitNote | None:
        """What a cleaner noted of the commit of a rebalance, where one did."""
        return CommitNote.parse(self.hadoop_job_id) if self.type is CompactionType.REBALANCE else None

    @property
    def entity(self) -> tuple[str, str, str | None]:
        """What is compacted: database, table and partition name."""
        return self.database, self.table, self.partition

    @property
    def full_name(self) -> str:
        """`database.table` or `database.table.partition`, as Hive's messages have it."""
        return ".".join(part for part in self.entity if part is not None)

    def require_understood(self, action: str, *facts: str) -> None:
        """Raises RefusedError, "Cannot `action` ...", where one of these facts (of all, unless some are named) is
        stored and not understood.
        """
        problems = [why for name, why in self.facts.problems.items() if name in facts or not facts]
        if problems:
            listed = "; ".join(problems)
            raise RefusedError(
                f"Cannot {action} {self.full_name}: request {self.id} is not understood, as one of a newer version may "
                f"be: {listed}"
            )
