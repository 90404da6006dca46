"""Who may still read what a compaction made obsolete, where readers register what they read."""

from __future__ import annotations

import pytest

from acidlib.model.tables import TableRef
from acidlib.planning.clean import COMMIT_MS, OpenReader, readers_of, still_reading

TABLE, OTHER = TableRef("lake", "t"), TableRef("lake", "other")
MARK, NEXT, COMMIT = 5, 20, 1_000_000_000
LATER = COMMIT + COMMIT_MS + 1


def waits(*opened: OpenReader) -> str | None:
    return still_reading(TABLE, readers_of(TABLE, opened), mark=MARK, next_txn_id=NEXT, commit_ms=COMMIT)


@pytest.mark.parametrize(
    ("reader", "words"),
    [
        # of this table, opened before the commit: by any write id, for a snapshot without the result may be complete
        (OpenReader(txn_id=10, started_ms=1, tables={TABLE: 3}), "transaction 10 is open since before its commit"),
        (OpenReader(txn_id=10, started_ms=1, tables={TABLE: 6}), "reads the table from write id 6"),
        (OpenReader(txn_id=NEXT, started_ms=1, tables={TABLE: 99}), "transaction 20 is open since before its commit"),
        # a snapshot, and nothing registered yet: it may be of any table
        (OpenReader(txn_id=10, started_ms=1), "registered nothing"),
        # opened about when it committed: the commit may not have been seen yet
        (OpenReader(txn_id=21, started_ms=COMMIT + COMMIT_MS, tables={TABLE: 6}), "transaction 21 may be older"),
        (OpenReader(txn_id=21, started_ms=COMMIT + 1), "transaction 21 may be older than its commit"),
        (OpenReader(txn_id=21, started_ms=None, tables={TABLE: 6}), "transaction 21 may be older"),
        # clocks say after, ids say before
        (OpenReader(txn_id=NEXT, started_ms=LATER, tables={TABLE: 6}), "transaction 20 is open since before"),
        # by Hive's own rule
        (OpenReader(txn_id=21, started_ms=LATER, tables={TABLE: MARK}), "from write id 5"),
    ],
)
def test_who_may_read_the_inputs_is_waited_for(reader: OpenReader, words: str) -> None:
    assert words in (waits(reader) or "nobody")


@pytest.mark.parametrize(
    "reader",
    [
        OpenReader(txn_id=10, started_ms=1, tables={OTHER: 1}),
        OpenReader(txn_id=10, started_ms=1, tables={TableRef("other", "t"): 1}),
        OpenReader(txn_id=21, started_ms=COMMIT + 1, tables={OTHER: 1}),
        OpenReader(txn_id=21, started_ms=LATER, tables={TABLE: MARK + 1}),
        OpenReader(txn_id=21, started_ms=LATER),
    ],
)
def test_who_reads_another_table_or_a_newer_snapshot_is_not(reader: OpenReader) -> None:
    assert waits(reader) is None


def test_one_of_many_is_enough_and_the_oldest_is_named() -> None:
    free = [OpenReader(txn_id=txn, started_ms=1, tables={OTHER: 1}) for txn in range(1, 9)]
    both = OpenReader(txn_id=12, started_ms=1, tables={OTHER: 1, TABLE: 6})
    assert waits() is None
    assert waits(*free) is None
    assert "transaction 9 " in (waits(both, OpenReader(txn_id=9, started_ms=1), *free) or "")
    assert "transaction 12 " in (waits(*free, both) or "")
