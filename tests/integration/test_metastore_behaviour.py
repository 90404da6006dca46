"""Transactions, locks and heartbeats of a compaction on real metastores: as on the fake, and through deaths."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import pytest
import sqlalchemy
from long_runs import amount, in_a_long_run
from metastore_behaviour import (
    TIMEOUT,
    CompactionTransactions,
    CompactorLocks,
    LocksAndTransactions,
    Reads,
    table,
    unreachable,
    until,
)
from servers.fleet import Servers
from servers.metastore import Metastore

from acidlib.acid.names import Generation
from acidlib.errors import ConflictError, RetryError
from acidlib.metastore import holding
from acidlib.metastore.heartbeat import Heartbeater, heartbeat_options
from acidlib.metastore.hms import Hms, connect_hms
from acidlib.metastore.holding import begin_compaction, lock_place, publication_lock, release_dead_locks
from acidlib.metastore.options import ConnectionOptions
from acidlib.metastore.transactions import HeldLock
from acidlib.model.tables import TableRef
from integration.conftest import SHORT, started

__all__ = ["table"]

pytestmark = pytest.mark.live

HIVE4 = pytest.mark.parametrize("metastore", [Generation.HIVE4], indirect=True, ids=["hive4"])


def connected(metastore: Metastore, user: str = "etl", host: str = "host1") -> Hms:
    return connect_hms([metastore.uri], ConnectionOptions(timeout_seconds=60), user=user, host=host)


@contextmanager
def heartbeats(metastore: Metastore, timeout_seconds: float = TIMEOUT) -> Iterator[Heartbeater]:
    """Heartbeats that come often enough for tests to see one."""
    options = heartbeat_options(ConnectionOptions(), timeout_seconds)
    with Heartbeater(
        lambda: connect_hms([metastore.uri], options, user="etl", host="host1"),
        interval_seconds=min(0.2, timeout_seconds / 2),
        timeout_seconds=timeout_seconds,
        clock=time.monotonic,
    ) as beats:
        yield beats


@pytest.fixture(params=[Generation.HIVE3, Generation.HIVE4], ids=["hive3", "hive4"])
def metastore(request: pytest.FixtureRequest) -> Metastore:
    found = request.getfixturevalue(f"hive{request.param.value}_metastore")
    assert isinstance(found, Metastore)
    return found


@pytest.fixture
def hms(metastore: Metastore) -> Iterator[Hms]:
    with connected(metastore) as found:
        yield found


@pytest.fixture
def beats(metastore: Metastore) -> Iterator[Heartbeater]:
    with heartbeats(metastore) as found:
        yield found


@pytest.fixture
def theirs(metastore: Metastore) -> Iterator[Heartbeater]:
    with heartbeats(metastore) as found:
        yield found


@pytest.fixture
def others(metastore: Metastore) -> Iterator[Hms]:
    """Somebody else's connection."""
    with connected(metastore, "anna", "laptop") as found:
        yield found


class TestLocksAndTransactions(LocksAndTransactions):
    pass


class TestCompactorLocks(CompactorLocks):
    pass


class TestReads(Reads):
    pass


@HIVE4
class TestCompactionTransactions(CompactionTransactions):
    pass


@HIVE4
@pytest.mark.parametrize("partition", [None, "p=A%3Ab"])
def test_a_compaction_leaves_nothing_that_the_initiator_looks_at(
    metastore: Metastore, hms: Hms, beats: Heartbeater, table: str, partition: str | None
) -> None:
    with begin_compaction(hms, beats, ref=TableRef("default", table, partition), agent="acidlib-1") as transaction:
        transaction.commit()
    engine = sqlalchemy.create_engine(metastore.database_url)
    with engine.connect() as connection:
        for name, column in (
            ("TXN_COMPONENTS", "TC_TABLE"),
            ("COMPLETED_TXN_COMPONENTS", "CTC_TABLE"),
            ("WRITE_SET", "WS_TABLE"),
        ):
            rows = sqlalchemy.table(name, sqlalchemy.column(column))
            assert connection.execute(sqlalchemy.select(rows).where(rows.c[column] == table)).all() == []
    engine.dispose()


def last_txn_heartbeat(hms: Hms, txn_id: int) -> int:
    """When a transaction was last kept alive, by the database's clock; its opening counts too."""
    (found,) = [txn for txn in hms.open_txns_info() if txn.id == txn_id]
    assert found.heartbeat_ms is not None
    return found.heartbeat_ms


# --- timeouts, deaths and restarts ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def careless3(servers: Servers) -> Iterator[Metastore]:
    """Nobody looks after dead locks here, as in any metastore of Hive 3.1 whose initiator is off."""
    tasks = {"metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask"}
    with started(lambda: servers.metastore(Generation.HIVE3, txn_timeout_seconds=SHORT, properties=tasks)) as metastore:
        yield metastore


# a lock is one of both generations; a usual run has the other's metastore for transactions, too
@pytest.fixture(params=amount(["hasty_hive4"], long=["hasty_hive3", "hasty_hive4"]))
def short(request: pytest.FixtureRequest) -> Metastore:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Metastore)
    return found


def hold_and_wait(uri: str, ready: Connection) -> None:
    """A compactor that holds a place and an exclusive lock on a table, and never lets go."""
    options = heartbeat_options(ConnectionOptions(), SHORT)
    hms = connect_hms([uri], ConnectionOptions(), user="killed", host="host9")
    with Heartbeater(
        lambda: connect_hms([uri], options, user="killed", host="host9"),
        interval_seconds=SHORT / 4,
        timeout_seconds=SHORT,
        clock=time.monotonic,
    ) as beats:
        held = lock_place(hms, beats, ref=TableRef("db", "t", "p=1"), agent="acidlib-killed")
        with publication_lock(hms, beats, ref=TableRef("default", "t", "p=1"), exclusive=True, agent="acidlib-killed"):
            ready.send(held.lock_id)
            while True:
                held.assert_alive()
                time.sleep(0.1)


@contextmanager
def another_compactor(metastore: Metastore) -> Iterator[int]:
    """The process id of one that runs, holding its locks; it is killed at the end."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=hold_and_wait, args=(metastore.uri, there), daemon=True)
    process.start()
    try:
        assert here.poll(60)
        here.recv()
        assert process.pid is not None
        yield process.pid
    finally:
        process.kill()
        process.join()


def held_by(hms: Hms, user: str) -> int:
    return len({lock.lock_id for lock in hms.show_locks() if lock.user == user})


def test_locks_live_as_long_as_their_process_and_a_little_longer(short: Metastore) -> None:
    with connected(short) as hms, another_compactor(short) as pid:
        (first, _) = (lock.acquired_ms or 0 for lock in hms.show_locks() if lock.user == "killed")

        def old_enough() -> bool:
            now, _ = (lock.heartbeat_ms or 0 for lock in hms.show_locks() if lock.user == "killed")
            return now - first > 3 * SHORT * 1000

        until(old_enough)
        killed = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        until(lambda: held_by(hms, "killed") == 0)
        assert time.monotonic() - killed > SHORT / 2
        with heartbeats(short, SHORT) as beats:
            lock_place(hms, beats, ref=TableRef("db", "t", "p=1"), agent="acidlib-2").release()


def test_where_nobody_looks_after_dead_locks_we_do(careless3: Metastore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of another machine, of which only time tells that they are dead."""
    monkeypatch.setattr(holding, "has_ended", lambda process: False)
    with connected(careless3) as hms, heartbeats(careless3, SHORT) as beats, another_compactor(careless3) as pid:
        assert release_dead_locks(hms, timeout_seconds=SHORT, agent="acidlib-2") == ()
        killed, told = time.monotonic(), set()
        os.kill(pid, signal.SIGKILL)

        def held() -> bool:
            try:
                lock_place(hms, beats, ref=TableRef("db", "t", "p=1"), agent="acidlib-2").release()
            except ConflictError as error:
                told.add(str(error))
                return False
            return True

        until(held)
        assert time.monotonic() - killed > SHORT
        assert [text for text in told if "EXCLUSIVE by killed on host9, acidlib-killed" not in text] == []
        assert held_by(hms, "killed") == 1  # the table's; the server itself would keep it for ever
        swept: list[HeldLock] = []
        until(lambda: swept.extend(release_dead_locks(hms, timeout_seconds=SHORT, agent="acidlib-2")) or swept)
        assert [(lock.database, lock.table, lock.user) for lock in swept] == [("default", "t", "killed")]
        assert hms.show_locks() == ()


def test_locks_of_a_process_that_ended_here_go_at_once(careless3: Metastore) -> None:
    with connected(careless3) as hms, heartbeats(careless3, SHORT) as beats, another_compactor(careless3) as pid:
        assert release_dead_locks(hms, timeout_seconds=SHORT, agent="acidlib-2") == ()
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # a signal is only sent
        lock_place(hms, beats, ref=TableRef("db", "t", "p=1"), agent="acidlib-2").release()
        (swept,) = release_dead_locks(hms, timeout_seconds=SHORT, agent="acidlib-2")
        assert (swept.database, swept.table, swept.user) == ("default", "t", "killed")
        assert hms.show_locks() == ()


def test_a_transaction_without_heartbeats_is_aborted(hasty_hive4: Metastore) -> None:
    """And whoever holds it knows, by silence, no later than the server."""

    with (
        connected(hasty_hive4) as hms,
        Heartbeater(unreachable, interval_seconds=1, timeout_seconds=SHORT, clock=time.monotonic) as beats,
    ):
        began = time.monotonic()
        transaction = begin_compaction(hms, beats, ref=TableRef("default", "c"), agent="acidlib-1")
        until(lambda: hms.open_txns().is_txn_aborted(transaction.txn_id))
        assert time.monotonic() - began > SHORT / 2
        with pytest.raises(RetryError, match="the cable is out"):
            transaction.assert_alive()
        with pytest.raises(ConflictError, match="aborted"):
            transaction.commit()


def last_heartbeat(hms: Hms, lock_id: int) -> int:
    """When a lock was last kept alive, by the database's clock."""
    return max(lock.heartbeat_ms or 0 for lock in hms.show_locks() if lock.lock_id == lock_id)


@pytest.mark.parametrize(
    ("metastore", "end"),
    amount([(Generation.HIVE3, "kill")], long=[(Generation.HIVE3, "kill"), (Generation.HIVE4, "stop")]),
    indirect=["metastore"],
)
def test_heartbeats_go_on_after_a_restart_of_the_metastore(
    metastore: Metastore, hms: Hms, beats: Heartbeater, end: str
) -> None:
    held = lock_place(hms, beats, ref=TableRef("db", "t", "p=7"), agent="acidlib-1")
    until(lambda: last_heartbeat(hms, held.lock_id))
    try:
        if end == "kill":
            metastore.kill()
        else:
            metastore.stop()
        held.assert_alive()
    finally:
        metastore.start()
    before = last_heartbeat(hms, held.lock_id)
    until(lambda: last_heartbeat(hms, held.lock_id) > before)
    held.assert_alive()
    held.release()
    assert hms.show_locks("acidlib.places") == ()


@in_a_long_run  # the faults of Hive 4 restart it in the middle of a whole run
@HIVE4
def test_a_compaction_survives_a_restart_of_the_metastore(metastore: Metastore, hms: Hms, beats: Heartbeater) -> None:
    transaction = begin_compaction(hms, beats, ref=TableRef("default", "c"), agent="acidlib-1")
    metastore.kill()
    metastore.start()
    before = last_txn_heartbeat(hms, transaction.txn_id)
    until(lambda: last_txn_heartbeat(hms, transaction.txn_id) > before)
    transaction.commit()
    assert hms.open_txns().is_txn_valid(transaction.txn_id)
