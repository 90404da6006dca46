"""Transactions, locks and heartbeats of a compaction on real metastores: who gets what, who lets go, who is told."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import pytest
import sqlalchemy
from servers.fleet import Servers
from servers.metastore import Metastore

from acidlib.errors import ConflictError, RetryError
from acidlib.metastore import compactor_locks
from acidlib.metastore.compaction_transaction import begin_compaction
from acidlib.metastore.compactor_locks import lock_place, publication_lock, release_dead_locks
from acidlib.metastore.heartbeat import Heartbeater, heartbeat_options
from acidlib.metastore.hms import Hms, connect
from acidlib.metastore.options import ConnectionOptions
from acidlib.metastore.values import HeldLock, LockComponent, LockState, LockType, TxnType
from acidlib.model.generation import Generation
from integration.conftest import started

pytestmark = pytest.mark.live

SHORT = 4
"""Seconds of the transaction timeout of metastores that are waited for."""

LONG = 300


def connected(metastore: Metastore, user: str = "etl", host: str = "host1") -> Hms:
    return connect([metastore.uri], ConnectionOptions(timeout_seconds=60), user=user, host=host)


@contextmanager
def beating(metastore: Metastore, timeout_seconds: float = LONG) -> Iterator[Heartbeater]:
    """Heartbeats that come often enough for tests to see one."""
    options = heartbeat_options(ConnectionOptions(), timeout_seconds)
    with Heartbeater(
        lambda: connect([metastore.uri], options, user="etl", host="host1"),
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
    with beating(metastore) as found:
        yield found


@pytest.fixture
def others(metastore: Metastore) -> Iterator[Hms]:
    """Somebody else's connection."""
    with connected(metastore, "anna", "laptop") as found:
        yield found


def until(condition: Callable[[], object], seconds: float = 60) -> float:
    """Waits for a condition; how long it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds
        time.sleep(0.05)
    return time.monotonic() - began


def lock_of(hms: Hms, type: LockType, table: str, partition: str | None = None) -> tuple[int, LockState]:
    component = LockComponent(type=type, database="default", table=table, partition=partition)
    return hms.lock([component], txn_id=None, agent="hive_query")


# --- places -----------------------------------------------------------------------------------------------------------


def test_two_holds_exclude_each_other(metastore: Metastore, hms: Hms, others: Hms, beats: Heartbeater) -> None:
    with beating(metastore) as theirs:
        with lock_place(hms, beats, database="db", table="t", partition="p=1", agent="acidlib-1") as held:
            with pytest.raises(
                ConflictError, match=rf"held by lock {held.lock_id} \(EXCLUSIVE by etl on host1, acidlib-1 [\w.:]+\)$"
            ):
                lock_place(others, theirs, database="db", table="t", partition="p=1", agent="acidlib-2")
            assert [lock.lock_id for lock in hms.show_locks("acidlib.places")] == [held.lock_id]
            lock_place(others, theirs, database="db", table="t", partition="p=2", agent="acidlib-2").release()
            held.assert_alive()
        with lock_place(others, theirs, database="db", table="t", partition="p=1", agent="acidlib-2"):
            pass
    assert hms.show_locks("acidlib.places") == ()


def test_every_name_can_be_held(hms: Hms, beats: Heartbeater) -> None:
    """Hive 3.1 stores 128 characters of a table and 767 of a partition, and everything in lower case."""
    places = [
        ("d" * 128, "t" * 128, None),
        ("d" * 128, "t" * 127 + "u", None),
        ("db", "tä", None),
        ("db", "t", "p=A"),
        ("db", "t", "p=a"),
        ("db", "t", "p=ä"),
        ("db", "t", "p=a%3Ab/q=__HIVE_DEFAULT_PARTITION__"),
        ("db", "t", "p=" + "x" * 765),
        ("db", "t", "p=" + "X" * 765),
        ("db", "t", "p=" + "x" * 900),
    ]
    held = [
        lock_place(hms, beats, database=database, table=table, partition=partition, agent="a" * 500)
        for database, table, partition in places
    ]
    assert len({lock.lock_id for lock in held}) == len(places)
    for database, table, partition in places:
        with pytest.raises(ConflictError):
            lock_place(hms, beats, database=database, table=table, partition=partition, agent="b")
    for lock in held:
        lock.release()
    assert hms.show_locks("acidlib.places") == ()


# --- the lock of a publication ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", [None, "p=1"])
def test_an_exclusive_lock_waits_until_the_reader_has_gone(
    hms: Hms, others: Hms, beats: Heartbeater, partition: str | None
) -> None:
    txn_id = others.open_txn(TxnType.DEFAULT, "hive_query")
    component = LockComponent(type=LockType.SHARED_READ, database="default", table="r", transactional=True)
    assert others.lock([component], txn_id=txn_id, agent="hive_query")[1] is LockState.ACQUIRED
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        time.sleep(0.01)
        if len(slept) == 3:
            behind, state = lock_of(others, LockType.SHARED_READ, "r", partition)
            assert state is LockState.WAITING  # whoever comes now waits behind us
            others.unlock(behind)
            others.commit_txn(txn_id, TxnType.DEFAULT)

    with publication_lock(
        hms,
        beats,
        database="default",
        table="r",
        partition=partition,
        exclusive=True,
        agent="acidlib-1",
        sleep=sleep,
    ) as held:
        assert len(slept) == 3
        held.assert_alive()
        reader, state = lock_of(others, LockType.SHARED_READ, "r", partition)
        assert state is LockState.WAITING
        others.unlock(reader)
    assert hms.show_locks("default", "r") == ()


def test_an_exclusive_lock_that_is_not_granted_leaves_nothing(hms: Hms, others: Hms, beats: Heartbeater) -> None:
    reader, _ = lock_of(others, LockType.SHARED_READ, "w", "p=B")
    with (
        pytest.raises(
            ConflictError,
            match=r"because its EXCLUSIVE lock was not granted within 0\.5 s: held by lock \d+ "
            r"\(SHARED_READ by anna on laptop, hive_query\)$",
        ),
        publication_lock(
            hms,
            beats,
            database="default",
            table="w",
            partition="p=B",
            exclusive=True,
            agent="acidlib-1",
            timeout_seconds=0.5,
        ),
    ):
        pytest.fail("granted")
    assert [lock.lock_id for lock in hms.show_locks("default", "w")] == [reader]
    with publication_lock(
        hms, beats, database="default", table="w", partition="p=B", exclusive=False, agent="acidlib-1"
    ):
        assert len({lock.lock_id for lock in hms.show_locks("default", "w")}) == 2
    others.unlock(reader)
    assert hms.show_locks("default", "w") == ()


def test_an_interrupted_wait_leaves_nothing(hms: Hms, others: Hms, beats: Heartbeater) -> None:
    reader, _ = lock_of(others, LockType.SHARED_READ, "i")

    def sleep(seconds: float) -> None:
        raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        publication_lock(
            hms,
            beats,
            database="default",
            table="i",
            partition=None,
            exclusive=True,
            agent="acidlib-1",
            sleep=sleep,
        ),
    ):
        pytest.fail("granted")
    assert [lock.lock_id for lock in hms.show_locks("default", "i")] == [reader]
    others.unlock(reader)


# --- the transaction --------------------------------------------------------------------------------------------------


@pytest.fixture
def hive4(hive4_metastore: Metastore) -> Iterator[Hms]:
    with connected(hive4_metastore) as found:
        yield found


@pytest.fixture
def beats4(hive4_metastore: Metastore) -> Iterator[Heartbeater]:
    with beating(hive4_metastore) as found:
        yield found


@pytest.mark.parametrize("partition", [None, "p=A%3Ab"])
def test_a_compaction_commits(
    hive4: Hms, beats4: Heartbeater, hive4_metastore: Metastore, partition: str | None
) -> None:
    with begin_compaction(
        hive4, beats4, database="default", table="c", partition=partition, agent="acidlib-1"
    ) as transaction:
        (lock,) = hive4.show_locks("default", "c")
        assert (lock.lock_id, lock.txn_id, lock.type) == (
            transaction.lock_id,
            transaction.txn_id,
            LockType.SHARED_READ,
        )
        assert not hive4.open_txns().txns.is_txn_valid(transaction.txn_id)
        transaction.assert_alive()
        transaction.commit()
        transaction.commit()
    assert hive4.open_txns().txns.is_txn_valid(transaction.txn_id)
    assert hive4.show_locks("default", "c") == ()
    # nothing that makes the initiator look at the table
    engine = sqlalchemy.create_engine(hive4_metastore.database_url)
    with engine.connect() as connection:
        for table in ("TXN_COMPONENTS", "COMPLETED_TXN_COMPONENTS", "WRITE_SET"):
            count = sqlalchemy.select(sqlalchemy.func.count()).select_from(sqlalchemy.table(table))
            assert connection.execute(count).scalar() == 0
    engine.dispose()


def test_leaving_a_compaction_aborts(hive4: Hms, beats4: Heartbeater) -> None:
    with begin_compaction(
        hive4, beats4, database="default", table="c", partition=None, agent="acidlib-1"
    ) as transaction:
        pass
    assert not hive4.open_txns().txns.is_txn_valid(transaction.txn_id)
    assert hive4.show_locks("default", "c") == ()


def test_a_lock_that_is_not_granted_names_its_holder(hive4: Hms, beats4: Heartbeater) -> None:
    held, _ = lock_of(hive4, LockType.EXCLUSIVE, "x")
    before = hive4.open_txns().high_water_mark
    with pytest.raises(
        ConflictError,
        match=rf"^Cannot compact default\.x\.p=1: because its lock was not granted: held by lock {held} \(EXCLUSIVE by",
    ):
        begin_compaction(hive4, beats4, database="default", table="x", partition="p=1", agent="acidlib-1")
    assert [lock.lock_id for lock in hive4.show_locks("default", "x")] == [held]
    assert hive4.open_txns().min_open > before
    hive4.unlock(held)


def test_an_abort_under_us_is_told(hive4: Hms, beats4: Heartbeater, hive4_metastore: Metastore) -> None:
    transaction = begin_compaction(hive4, beats4, database="default", table="c", partition=None, agent="acidlib-1")
    transaction.assert_alive()
    with connected(hive4_metastore, "anna", "laptop") as anna:
        anna.abort_txn(transaction.txn_id, TxnType.COMPACTION)

    def told() -> bool:
        try:
            transaction.assert_alive()
        except ConflictError as error:
            return "already aborted" in str(error)
        return False

    until(told)
    with pytest.raises(ConflictError, match="already aborted"):
        transaction.commit()


def unreachable() -> Hms:
    raise RetryError("Cannot reach the metastore: because the cable is out")


def test_a_commit_after_an_abort_under_us_is_a_conflict(hive4: Hms) -> None:
    """Before any heartbeat tells."""
    with Heartbeater(unreachable, interval_seconds=100, timeout_seconds=LONG, clock=time.monotonic) as beats:
        transaction = begin_compaction(hive4, beats, database="default", table="c", partition=None, agent="acidlib-1")
        hive4.abort_txn(transaction.txn_id, TxnType.COMPACTION)
        with pytest.raises(
            ConflictError, match=r"^Cannot commit transaction \d+ for default\.c: because it was aborted"
        ):
            transaction.commit()


def last_txn_beat(hms: Hms, txn_id: int) -> int:
    """When a transaction was last beaten, by the database's clock; its opening counts too."""
    (found,) = [txn for txn in hms.open_txns_info() if txn.id == txn_id]
    assert found.heartbeat_ms is not None
    return found.heartbeat_ms


# --- timeouts, deaths and restarts ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def short3(servers: Servers) -> Iterator[Metastore]:
    """Hive 3.1 looks after dead locks by itself where its initiator is on."""
    with started(
        lambda: servers.metastore(Generation.HIVE3, txn_timeout_seconds=SHORT, initiator_on=True, cleaner_on=True)
    ) as metastore:
        yield metastore


@pytest.fixture(scope="module")
def short4(servers: Servers) -> Iterator[Metastore]:
    with started(lambda: servers.metastore(Generation.HIVE4, txn_timeout_seconds=SHORT)) as metastore:
        yield metastore


@pytest.fixture(scope="module")
def careless3(servers: Servers) -> Iterator[Metastore]:
    """Nobody looks after dead locks here, as in any metastore of Hive 3.1 whose initiator is off."""
    tasks = {"metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask"}
    with started(lambda: servers.metastore(Generation.HIVE3, txn_timeout_seconds=SHORT, properties=tasks)) as metastore:
        yield metastore


@pytest.fixture(params=["short3", "short4"])
def short(request: pytest.FixtureRequest) -> Metastore:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Metastore)
    return found


def hold_and_wait(uri: str, ready: Connection) -> None:
    """A compactor that holds a place and an exclusive lock on a table, and never lets go."""
    options = heartbeat_options(ConnectionOptions(), SHORT)
    hms = connect([uri], ConnectionOptions(), user="killed", host="host9")
    with Heartbeater(
        lambda: connect([uri], options, user="killed", host="host9"),
        interval_seconds=SHORT / 4,
        timeout_seconds=SHORT,
        clock=time.monotonic,
    ) as beats:
        held = lock_place(hms, beats, database="db", table="t", partition="p=1", agent="acidlib-killed")
        with publication_lock(
            hms, beats, database="default", table="t", partition="p=1", exclusive=True, agent="acidlib-killed"
        ):
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
        os.kill(pid, signal.SIGKILL)
        assert held_by(hms, "killed") == 2
        took = until(lambda: held_by(hms, "killed") == 0)
        assert took > SHORT / 2
        with beating(short, SHORT) as beats:
            lock_place(hms, beats, database="db", table="t", partition="p=1", agent="acidlib-2").release()


def test_where_nobody_looks_after_dead_locks_we_do(careless3: Metastore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of another machine, of which only time tells that they are dead."""
    monkeypatch.setattr(compactor_locks, "has_ended", lambda process: False)
    with connected(careless3) as hms, beating(careless3, SHORT) as beats, another_compactor(careless3) as pid:
        assert release_dead_locks(hms, timeout_seconds=SHORT, agent="acidlib-2") == ()
        os.kill(pid, signal.SIGKILL)

        told = set()

        def held() -> bool:
            try:
                lock_place(hms, beats, database="db", table="t", partition="p=1", agent="acidlib-2").release()
            except ConflictError as error:
                told.add(str(error))
                return False
            return True

        assert until(held) > SHORT
        assert [text for text in told if "EXCLUSIVE by killed on host9, acidlib-killed" not in text] == []
        assert held_by(hms, "killed") == 1  # the table's; the server itself would keep it for ever
        swept: list[HeldLock] = []
        until(lambda: swept.extend(release_dead_locks(hms, timeout_seconds=SHORT, agent="acidlib-2")) or swept)
        assert [(lock.database, lock.table, lock.user) for lock in swept] == [("default", "t", "killed")]
        assert hms.show_locks() == ()


def test_locks_of_a_process_that_ended_here_go_at_once(careless3: Metastore) -> None:
    with connected(careless3) as hms, beating(careless3, SHORT) as beats, another_compactor(careless3) as pid:
        assert release_dead_locks(hms, timeout_seconds=SHORT, agent="acidlib-2") == ()
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # a signal is only sent
        lock_place(hms, beats, database="db", table="t", partition="p=1", agent="acidlib-2").release()
        (swept,) = release_dead_locks(hms, timeout_seconds=SHORT, agent="acidlib-2")
        assert (swept.database, swept.table, swept.user) == ("default", "t", "killed")
        assert hms.show_locks() == ()


def test_a_transaction_without_heartbeats_is_aborted(short4: Metastore) -> None:
    """And whoever holds it knows, by silence, no later than the server."""

    with (
        connected(short4) as hms,
        Heartbeater(unreachable, interval_seconds=1, timeout_seconds=SHORT, clock=time.monotonic) as beats,
    ):
        transaction = begin_compaction(hms, beats, database="default", table="c", partition=None, agent="acidlib-1")
        began = time.monotonic()
        until(lambda: hms.open_txns().txns.is_txn_aborted(transaction.txn_id))
        assert time.monotonic() - began > SHORT / 2
        with pytest.raises(RetryError, match="the cable is out"):
            transaction.assert_alive()
        with pytest.raises(ConflictError, match="aborted"):
            transaction.commit()


def last_beat(hms: Hms, lock_id: int) -> int:
    """When a lock was last beaten, by the database's clock."""
    return max(lock.heartbeat_ms or 0 for lock in hms.show_locks() if lock.lock_id == lock_id)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_beats_go_on_after_a_restart_of_the_metastore(
    metastore: Metastore, hms: Hms, beats: Heartbeater, end: str
) -> None:
    held = lock_place(hms, beats, database="db", table="t", partition="p=7", agent="acidlib-1")
    until(lambda: last_beat(hms, held.lock_id))
    try:
        if end == "kill":
            metastore.kill()
        else:
            metastore.stop()
        held.assert_alive()
    finally:
        metastore.start()
    before = last_beat(hms, held.lock_id)
    until(lambda: last_beat(hms, held.lock_id) > before)
    held.assert_alive()
    held.release()
    assert hms.show_locks("acidlib.places") == ()


def test_a_compaction_survives_a_restart_of_the_metastore(
    hive4: Hms, beats4: Heartbeater, hive4_metastore: Metastore
) -> None:
    transaction = begin_compaction(hive4, beats4, database="default", table="c", partition=None, agent="acidlib-1")
    hive4_metastore.restart()
    before = last_txn_beat(hive4, transaction.txn_id)
    until(lambda: last_txn_beat(hive4, transaction.txn_id) > before)
    transaction.commit()
    assert hive4.open_txns().txns.is_txn_valid(transaction.txn_id)
