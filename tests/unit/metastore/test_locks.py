"""Locks: what is sent to a metastore, and what is made of its answers."""

from __future__ import annotations

from typing import Any

import pytest
from fake_metastore import TYPES, FakeMetastore, connected, raises, recorded

from acidlib.errors import ConflictError, CorruptError, RefusedError
from acidlib.metastore.transactions import HeldLock, LockComponent, LockState, LockType

READ = LockComponent(type=LockType.SHARED_READ, database="D", table="T", partition="p=A")


def test_what_is_asked_for_when_locking(hive4: FakeMetastore) -> None:
    asked: list[Any] = []
    hive4.answers["lock"] = recorded(asked, TYPES.LockResponse(lockid=8, state=4))
    hive4.answers["heartbeat"] = recorded([], None)
    parts = [
        READ,
        LockComponent(type=LockType.EXCL_WRITE, database="D", table="T", transactional=True),
        LockComponent(type=LockType.EXCLUSIVE, database="D"),
    ]
    with connected(hive4) as found:
        assert found.lock(parts, txn_id=5, agent="agent", zero_wait=True) == (8, LockState.NOT_ACQUIRED)
        assert hive4.calls[-2:] == ["heartbeat", "lock"]
    (request,) = asked
    assert (request.txnid, request.user, request.hostname, request.agentInfo) == (5, "joe", "here", "agent")
    assert request.zeroWaitReadEnabled
    assert [
        (part.type, part.level, part.dbname, part.tablename, part.partitionname, part.operationType)
        for part in request.component
    ] == [(1, 3, "d", "t", "p=A", 6), (4, 2, "d", "t", None, 1), (3, 1, "d", None, None, 6)]
    assert [part.isTransactional for part in request.component] == [False, True, False]


def test_hive_4_is_not_asked_for_locks_of_a_transaction_that_is_over(hive4: FakeMetastore) -> None:
    hive4.answers["heartbeat"] = raises(TYPES.NoSuchTxnException(message="No such txn: 5"))
    with (
        connected(hive4) as found,
        pytest.raises(ConflictError, match=r"^Cannot lock d\.t\.p=A: because No such txn: 5$"),
    ):
        found.lock([READ], txn_id=5, agent="agent")
    assert "lock" not in hive4.calls


def test_what_hive_3_has_not_is_not_sent(hive3: FakeMetastore) -> None:
    asked: list[Any] = []
    hive3.answers["lock"] = recorded(asked, TYPES.LockResponse(lockid=8, state=1))
    hive3.answers["show_locks"] = recorded(asked, TYPES.ShowLocksResponse(locks=[]))
    with connected(hive3) as found:
        found.lock([READ], txn_id=None, agent="agent", zero_wait=True)
        # it keeps partitions of locks in lower case, and compares them as they are
        found.show_locks("D", "T", "p=A")
        with pytest.raises(RefusedError, match=r"^Cannot lock d\.t: because a Hive 3\.1 metastore has no EXCL_WRITE"):
            found.lock([LockComponent(type=LockType.EXCL_WRITE, database="D", table="T")], txn_id=None, agent="agent")
    assert asked[0].zeroWaitReadEnabled is None
    assert (asked[1].dbname, asked[1].tablename, asked[1].partname) == ("d", "t", "p=a")


def test_locks_that_are_shown(hive4: FakeMetastore) -> None:
    row = TYPES.ShowLocksResponseElement(
        lockid=1, dbname="d", state=2, type=3, txnid=0, lastheartbeat=0, acquiredat=0, user="u", hostname="h"
    )
    hive4.answers["show_locks"] = lambda request: TYPES.ShowLocksResponse(locks=[row])
    with connected(hive4) as found:
        assert found.show_locks() == (
            HeldLock(lock_id=1, database="d", state=LockState.WAITING, type=LockType.EXCLUSIVE, user="u", host="h"),
        )
        for name, number in (("state", 9), ("type", 9)):
            setattr(row, name, number)
            with pytest.raises(CorruptError, match=f"there is no lock {name} 9"):
                found.show_locks()
            setattr(row, name, 1)
        hive4.answers["show_locks"] = lambda request: TYPES.ShowLocksResponse()
        with pytest.raises(CorruptError, match="because field locks is missing"):
            found.show_locks()


def test_a_lock_that_is_gone_already_is_unlocked(hive4: FakeMetastore) -> None:
    hive4.answers["unlock"] = raises(TYPES.NoSuchLockException(message="No such lock"))
    with connected(hive4) as found:
        found.unlock(1)
