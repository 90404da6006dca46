"""The locks of a compaction without a transaction: who gets them, who waits, and what the dead leave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from fake_locks import Client, Failure, LockServer

from acidlib.errors import BusyError, ConflictError, DefectError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.metastore.heartbeat import Lease
from acidlib.metastore.holding import release_dead_locks
from acidlib.metastore.transactions import HeldLock, LockState, LockType
from unit.metastore.compactors import AWAY, LOST, TIMEOUT, Clock, Process, lock


@pytest.fixture
def server() -> LockServer:
    return LockServer()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def processes(server: LockServer) -> Iterator[tuple[Process, Process]]:
    one, two = Process(server), Process(server, "ops", "host2", "acidlib-2")
    with one.beats, two.beats:
        yield one, two


@pytest.fixture
def process(processes: tuple[Process, Process]) -> Process:
    return processes[0]


@pytest.fixture
def reader(server: LockServer) -> int:
    """The lock of somebody's query on the whole table."""
    return lock(server, LockType.SHARED_READ)


def set_heartbeat(server: LockServer, lock_id: int, milliseconds_ago: float) -> None:
    """As if this was the last heartbeat of a lock."""
    found = server.locks[lock_id]
    server.locks[lock_id] = replace(found, heartbeat_ms=server.now_ms - int(milliseconds_ago))


@contextmanager
def dead_process(server: LockServer) -> Iterator[Process]:
    """A process whose heartbeats end now; its locks stay."""
    process = Process(server, "dead", "gone", "acidlib-dead")
    with process.beats:
        yield process


# --- places -----------------------------------------------------------------------------------------------------------


def test_a_place_is_held_by_one(server: LockServer, processes: tuple[Process, Process]) -> None:
    one, two = processes
    with one.hold() as held:
        held.assert_alive()
        (found,) = server.locks.values()
        assert (found.type, found.database, found.table, found.partition, found.txn_id) == (
            LockType.EXCLUSIVE,
            "acidlib.places",
            "db.t",
            "p=1",
            None,
        )
        with pytest.raises(
            BusyError,
            match=r"^Cannot compact db\.t\.p=1: another compactor works on it: held by lock 1 "
            r"\(EXCLUSIVE by etl on host1, acidlib-1 [\w.:]+\); try again when that run has ended",
        ):
            two.hold()
        assert list(server.locks) == [held.lock_id]
        held.assert_alive()
        for elsewhere in ("p=2", "p=10"):
            two.hold(partition=elsewhere).release()
        two.hold(table="t2").release()
        two.hold(database="db2").release()
    assert not server.locks
    with two.hold():
        pass
    with pytest.raises(ConflictError, match=r"Cannot go on with the place db\.t\.p=1: because it was released"):
        held.assert_alive()
    held.release()


def test_a_whole_table_and_its_partition_exclude_each_other(processes: tuple[Process, Process]) -> None:
    one, two = processes
    with one.hold(partition=None), pytest.raises(ConflictError):
        two.hold()


def test_a_lost_place_is_told(server: LockServer, process: Process) -> None:
    held = process.hold()
    server.locks.clear()
    since = process.beats.now - 100
    beat = process.beats.register(txn_id=None, lock_id=held.lock_id, name="the same lock", since=since)
    wait_until_lost(beat)
    with pytest.raises(ConflictError, match=r"No such lock lockid:1"):
        beat.assert_alive()


def wait_until_lost(beat: Lease) -> None:
    import time

    end = time.monotonic() + 20
    while not beat.stopped:
        assert time.monotonic() < end
        time.sleep(0.002)


def test_the_lock_of_a_dead_compactor_is_dropped(server: LockServer, process: Process) -> None:
    with dead_process(server) as dead:
        left = dead.hold().lock_id
    server.now_ms += 10_000_000
    set_heartbeat(server, left, 2 * TIMEOUT * 1000)
    with pytest.raises(ConflictError, match="dead on gone"):
        process.hold()
    set_heartbeat(server, left, 2 * TIMEOUT * 1000 + 1)
    with process.hold() as held:
        assert list(server.locks) == [held.lock_id]


def test_a_place_is_not_given_to_two_who_find_the_same_dead_holder(
    server: LockServer, processes: tuple[Process, Process]
) -> None:
    one, two = processes
    with dead_process(server) as dead:
        left = dead.hold().lock_id
    server.now_ms += 10_000_000
    set_heartbeat(server, left, 3 * TIMEOUT * 1000)
    met = []

    class Meeting(Client):
        """Between asking and looking, the other process is there too."""

        def show_locks(
            self, database: str | None = None, table: str | None = None, partition: str | None = None
        ) -> tuple[HeldLock, ...]:
            found = super().show_locks(database, table, partition)
            if not met:
                met.append("")
                with pytest.raises(ConflictError, match=r"held by lock 2 \(EXCLUSIVE by etl"):
                    two.hold()
            return found

    one.client.__class__ = Meeting
    with one.hold() as held:
        assert held.lock_id == 2
        assert list(server.locks) == [2]
    assert met


def test_a_holder_that_leaves_while_we_look_is_no_conflict(
    server: LockServer, processes: tuple[Process, Process]
) -> None:
    one, two = processes
    other = two.hold()

    class Late(Client):
        def show_locks(
            self, database: str | None = None, table: str | None = None, partition: str | None = None
        ) -> tuple[HeldLock, ...]:
            other.release()
            return super().show_locks(database, table, partition)

    one.client.__class__ = Late
    with one.hold() as held:
        held.assert_alive()
        assert list(server.locks) == [held.lock_id]


def test_an_error_of_the_heartbeats_leaves_no_lock(server: LockServer, process: Process) -> None:
    process.beats.close()
    with pytest.raises(DefectError):
        process.hold()
    assert not server.locks


# --- the lock of a publication ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("partition", [None, "p=1"])
def test_a_publication_locks_the_table_itself(
    server: LockServer, process: Process, exclusive: bool, partition: str | None
) -> None:
    with process.publish(exclusive=exclusive, partition=partition) as held:
        held.assert_alive()
        (found,) = server.locks.values()
        assert (found.database, found.table, found.partition, found.txn_id) == ("db", "t", partition, None)
        assert found.type is (LockType.EXCLUSIVE if exclusive else LockType.SHARED_READ)
        assert found.state is LockState.ACQUIRED
    assert not server.locks
    assert "check_lock" not in server.calls


def test_shared_publications_do_not_meet_readers(process: Process, clock: Clock, reader: int) -> None:
    with process.publish(clock, exclusive=False):
        assert clock.now == 0


def test_an_exclusive_publication_waits_for_the_reader(
    server: LockServer, process: Process, clock: Clock, reader: int
) -> None:
    def leave() -> None:
        if clock.now > 10:
            server.locks.pop(reader, None)

    clock.on_sleep = leave
    with process.publish(clock) as held:
        assert 10 < clock.now <= 11
        assert list(server.locks) == [held.lock_id]


def test_a_publication_waits_so_long_and_no_longer(
    server: LockServer, process: Process, clock: Clock, reader: int
) -> None:
    with (
        pytest.raises(
            ConflictError,
            match=r"^Cannot publish db\.t\.p=1: its EXCLUSIVE lock was not granted within 30 s: held by lock 1 "
            r"\(SHARED_READ by anna on laptop, hive_2026_q\); call again when it is released$",
        ),
        process.publish(clock),
    ):
        pytest.fail("granted")
    assert clock.now == pytest.approx(30)
    assert list(server.locks) == [reader]


def test_a_shared_publication_waits_for_a_drop(server: LockServer, process: Process, clock: Clock) -> None:
    drop = lock(server, LockType.EXCLUSIVE)
    clock.on_sleep = lambda: None if clock.now < 3 else server.locks.pop(drop, None) and None
    with process.publish(clock, exclusive=False):
        assert clock.now >= 3


@pytest.mark.parametrize("where", ["sleep", "check_lock", "show_locks"])
def test_an_interruption_leaves_no_waiting_lock(
    server: LockServer, process: Process, clock: Clock, reader: int, where: str
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    if where == "sleep":
        clock.on_sleep = interrupt
    else:
        server.errors[where].append(Failure(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt), process.publish(clock):
        pytest.fail("granted")
    assert list(server.locks) == [reader]


@pytest.mark.parametrize("error", [AWAY, ConflictError("Cannot check: because No such lock")])
def test_an_error_while_waiting_leaves_no_lock(
    server: LockServer, process: Process, clock: Clock, reader: int, error: Exception
) -> None:
    server.errors["check_lock"].append(Failure(error))
    with pytest.raises(type(error)), process.publish(clock):
        pytest.fail("granted")
    assert list(server.locks) == [reader]


@pytest.mark.parametrize("error", [LOST, AWAY, KeyboardInterrupt()])
def test_a_lock_whose_answer_was_lost_is_withdrawn(
    server: LockServer, processes: tuple[Process, Process], error: BaseException
) -> None:
    one, two = processes
    two.agent = one.agent  # even then it is another lock
    with one.publish(partition="p=2") as other, two.hold() as place:
        server.errors["lock"].append(Failure(error, after=True))
        with pytest.raises(type(error)), one.publish():
            pytest.fail("granted")
        assert sorted(server.locks) == [other.lock_id, place.lock_id]


def test_a_withdrawal_that_fails_does_not_hide_the_error(server: LockServer, process: Process) -> None:
    server.errors["lock"].append(Failure(LOST, after=True))
    server.errors["show_locks"].append(Failure(AWAY))
    with pytest.raises(UnknownOutcomeError, match="the answer was lost"):
        process.hold()


def test_a_lock_that_was_refused_is_not_looked_for(server: LockServer, process: Process) -> None:
    server.errors["lock"].append(Failure(RefusedError("Cannot lock db.t: because it makes no sense")))
    with pytest.raises(RefusedError):
        process.hold()
    assert server.calls == ["lock"]


@pytest.mark.parametrize("error", [ValueError("the body"), KeyboardInterrupt()])
def test_the_lock_goes_with_the_body(server: LockServer, process: Process, error: BaseException) -> None:
    with pytest.raises(type(error)), process.publish():
        raise error
    assert not server.locks


def test_a_release_that_fails_is_told_unless_something_worse_is(server: LockServer, process: Process) -> None:
    server.errors["unlock"].append(Failure(AWAY))
    with (
        pytest.raises(
            RetryError,
            match=r"^Cannot release the EXCLUSIVE lock on db\.t\.p=1: because it is away; .* by itself after 300 s",
        ),
        process.publish(),
    ):
        pass
    server.locks.clear()
    server.errors["unlock"].append(Failure(AWAY))
    with pytest.raises(ValueError, match="the body"), process.publish():
        raise ValueError("the body")
    server.locks.clear()
    held = process.hold()
    server.errors["unlock"].append(Failure(AWAY))
    with pytest.raises(RetryError):
        held.release()
    assert held._lease.stopped  # or it would be held for as long as we live
    held.release()
    assert not server.locks


def test_a_dead_compactor_does_not_lock_a_table_for_ever(server: LockServer, process: Process, clock: Clock) -> None:
    with dead_process(server) as dead:
        publication = dead.publish()
        left = publication.__enter__().lock_id
    server.now_ms += 10_000_000
    set_heartbeat(server, left, 3 * TIMEOUT * 1000)
    with process.publish(clock, exclusive=False) as held:
        assert clock.now == 0
        assert list(server.locks) == [held.lock_id]


def test_old_locks_of_others_are_not_ours_to_judge(server: LockServer, process: Process, reader: int) -> None:
    server.now_ms += 10_000_000
    set_heartbeat(server, reader, 3 * TIMEOUT * 1000)
    with pytest.raises(ConflictError), process.publish():
        pytest.fail("granted")
    assert list(server.locks) == [reader]


def test_locks_of_dead_compactors_are_swept(
    server: LockServer, processes: tuple[Process, Process], reader: int
) -> None:
    one, two = processes
    with dead_process(server) as dead:
        left = [dead.hold().lock_id, dead.hold(table="x").lock_id]
    server.now_ms += 10_000_000
    with one.begin("p=3") as transaction, two.hold(table="y") as alive:
        for lock_id in [*left, reader]:
            set_heartbeat(server, lock_id, 3 * TIMEOUT * 1000)
        set_heartbeat(server, alive.lock_id, TIMEOUT * 1000)
        swept = release_dead_locks(one.hms, timeout_seconds=TIMEOUT, agent="acidlib-1")
        assert [found.lock_id for found in swept] == left
        assert sorted(server.locks) == sorted([reader, transaction.lock_id, alive.lock_id])
