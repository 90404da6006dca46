"""Names of our locks, who stands in whose way, and who is dead."""

from __future__ import annotations

import pytest

from acidlib.metastore.holding import (
    agent_text,
    blocking_locks,
    dead_locks,
    describe_holders,
    place_partition,
    place_table,
)
from acidlib.metastore.transactions import HeldLock, LockComponent, LockState, LockType
from acidlib.model.tables import TableRef

SHARED, WRITE, EXCLUSIVE = LockType.SHARED_READ, LockType.SHARED_WRITE, LockType.EXCLUSIVE


def held(
    lock_id: int,
    type: LockType = EXCLUSIVE,
    *,
    database: str = "db",
    table: str | None = "t",
    partition: str | None = None,
    txn_id: int | None = None,
    agent: str | None = "hive",
    heartbeat_ms: int | None = None,
) -> HeldLock:
    return HeldLock(
        lock_id=lock_id,
        database=database,
        table=table,
        partition=partition,
        type=type,
        state=LockState.ACQUIRED,
        txn_id=txn_id,
        user="anna",
        host="laptop",
        agent=agent,
        heartbeat_ms=heartbeat_ms,
    )


@pytest.mark.parametrize(
    ("agent", "expected"),
    [("acidlib-7", "acidlib-7 tok"), ("worker", "acidlib worker tok"), ("acidlib" + "x" * 200, None)],
)
def test_agents_fit_and_keep_their_token(agent: str, expected: str | None) -> None:
    text = agent_text(agent, "tok")
    assert expected in (None, text)
    assert text.startswith("acidlib")
    assert text.endswith(" tok")
    assert len(text) <= 128


def test_a_token_is_optional() -> None:
    assert agent_text("acidlib-7") == "acidlib-7"


def test_names_of_tables_are_themselves_as_long_as_they_fit() -> None:
    assert place_table(TableRef("db", "T1")) == place_table(TableRef("DB", "t1")) == "db.t1"
    longest = place_table(TableRef("d" * 63, "t" * 64))
    assert longest == "d" * 63 + "." + "t" * 64
    names = {
        place_table(TableRef("d" * 64, "t" * 64)),
        place_table(TableRef("d" * 64, "t" * 63 + "u")),
        place_table(TableRef("db", "tä")),
        "db.t_",
    }
    names |= {place_table(TableRef("db", "tö"))}
    assert len(names) == 5
    assert all(len(name) <= 128 and name.isascii() and name == name.lower() for name in names)


def test_names_of_partitions_differ_even_for_a_server_that_ignores_case() -> None:
    assert place_partition(None) is None
    assert place_partition("ds=2026-01-01/h=7") == "ds=2026-01-01/h=7"
    names = ["p=A", "p=a", "p=%C3", "p=%c3", "p=ä", "p=Ä", "p=" + "x" * 765, "p=" + "x" * 766, "P=" + "x" * 765]
    shown = [place_partition(name) or "" for name in names]
    assert len({one.lower() for one in shown}) == len(names)
    for one in shown:
        assert len(one) <= 767
        assert one.isascii()
        assert all("=" in level for level in one.split("/"))  # Hive 4 takes it apart


@pytest.mark.parametrize(
    ("wanted", "partition", "other", "expected"),
    [
        (EXCLUSIVE, None, held(1, SHARED), True),
        (EXCLUSIVE, "p=1", held(1, SHARED), True),
        (EXCLUSIVE, None, held(1, SHARED, partition="p=1"), True),
        (EXCLUSIVE, "p=1", held(1, SHARED, partition="p=1"), True),
        (EXCLUSIVE, "p=1", held(1, SHARED, partition="p=2"), False),
        (EXCLUSIVE, "p=1", held(1, WRITE), True),
        (EXCLUSIVE, "p=A%3Ab", held(1, SHARED, partition="p=a%3ab"), True),  # as Hive 3.1 tells it
        (EXCLUSIVE, "p=A%3Ab", held(1, SHARED, partition="p=A%253Ab"), True),  # as Hive 4 tells it
        (EXCLUSIVE, None, held(1, SHARED, table=None), False),
        (EXCLUSIVE, None, held(1, EXCLUSIVE, table=None), True),
        (EXCLUSIVE, None, held(1, table="t2"), False),
        (EXCLUSIVE, None, held(1, database="db2"), False),
        (EXCLUSIVE, None, held(9), False),  # itself
        (EXCLUSIVE, None, held(10), False),  # younger
        (SHARED, None, held(1, SHARED), False),
        (SHARED, None, held(1, WRITE), False),
        (SHARED, None, held(1), True),
        (SHARED, "p=1", held(1, partition="p=2"), False),
    ],
)
def test_who_stands_in_the_way(wanted: LockType, partition: str | None, other: HeldLock, expected: bool) -> None:
    found = blocking_locks(
        [other], LockComponent(type=wanted, database="DB", table="T", partition=partition), lock_id=9
    )
    assert bool(found) is expected


def test_a_lock_on_several_partitions_is_told_once() -> None:
    locks = [held(2, partition="p=1"), held(1), held(2, partition="p=2")]
    found = blocking_locks(locks, LockComponent(type=EXCLUSIVE, database="db", table="t"), lock_id=9)
    assert [lock.lock_id for lock in found] == [1, 2]


def test_a_lock_that_keeps_out_who_changes_rows_waits_for_them_and_for_no_reader() -> None:
    locks = [held(number, kind) for number, kind in enumerate(LockType, 1)]
    found = blocking_locks(locks, LockComponent(type=LockType.EXCL_WRITE, database="db", table="t"), lock_id=9)
    assert {lock.type for lock in found} == {LockType.SHARED_WRITE, LockType.EXCLUSIVE, LockType.EXCL_WRITE}


@pytest.mark.parametrize(
    ("lock", "expected"),
    [
        (held(1, agent="acidlib-1 x", heartbeat_ms=399_999), True),
        (held(1, agent="acidlib-1 x", heartbeat_ms=400_000), False),
        (held(1, agent="acidlib-1 x", heartbeat_ms=399_999, txn_id=0), True),
        (held(1, agent="acidlib-1 x", heartbeat_ms=399_999, txn_id=5), False),
        (held(1, agent="acidlib-1 x", heartbeat_ms=None), False),
        (held(1, agent="acidlib-1 x", heartbeat_ms=0), False),
        (held(1, agent="hive", heartbeat_ms=1), False),
        (held(1, agent=None, heartbeat_ms=1), False),
        (held(1, agent="acidlib-1 gone:x", heartbeat_ms=999_999), True),
        (held(1, agent="acidlib-1 gone:x", heartbeat_ms=999_999, txn_id=5), False),
        (held(1, agent="acidlib-1 here:x", heartbeat_ms=999_999), False),
        (held(1, agent="acidlib-1 here:x", heartbeat_ms=399_999), True),
        (held(1, agent="hive gone:x", heartbeat_ms=999_999), False),
        (held(1, agent="acidlib-1 gone", heartbeat_ms=999_999), False),
    ],
)
def test_who_is_dead(lock: HeldLock, expected: bool) -> None:
    found = dead_locks([lock], now_ms=1_000_000, timeout_seconds=300, has_ended=lambda process: process == "gone")
    assert bool(found) is expected


def test_the_process_of_a_lock_ends_its_agent_whatever_is_cut() -> None:
    text = agent_text("acidlib-" + "x" * 200, "gone:tok")
    assert len(text) == 128
    lock = held(1, agent=text, heartbeat_ms=1)
    assert dead_locks([lock], now_ms=1, timeout_seconds=300, has_ended=lambda process: process == "gone")


def test_holders_for_people() -> None:
    locks = [held(1, SHARED, txn_id=5), held(2, agent=None)]
    assert (
        describe_holders(locks)
        == "lock 1 (SHARED_READ by anna on laptop, transaction 5, hive), lock 2 (EXCLUSIVE by anna on laptop)"
    )
    seven = [held(one) for one in range(7)]
    assert describe_holders(seven).endswith("lock 4 (EXCLUSIVE by anna on laptop, hive), 2 more")
    assert describe_holders([]) == "a lock that is gone by now"
