"""Locks and transactions of a compaction: their names, holders and waiters, and the locks of dead runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from fake_locks import Client, Failure, LockServer

from acidlib.errors import ConflictError, DefectError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.metastore.holding import (
    agent_text,
    blocking_locks,
    dead_locks,
    describe_holders,
    place_partition,
    place_table,
    release_dead_locks,
)
from acidlib.metastore.transactions import HeldLock, LockComponent, LockState, LockType
from acidlib.model.tables import TableRef
from unit.metastore.compactors import AWAY, LOST, TIMEOUT, Clock, Process, lock

SHARED, WRITE, EXCLUSIVE = LockType.SHARED_READ, LockType.SHARED_WRITE, LockType.EXCLUSIVE


def held(
    lock_id: int,
    type: LockType = EXCLUSIVE,
    *,
    database: str = "db",
    table: str | None = "t",
    partition: str | None = None,
    txn_id: int | None = None,
    agent: str = "hive",
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
        (held(1, agent="", heartbeat_ms=1), False),
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
    locks = [held(1, SHARED, txn_id=5), held(2, agent="")]
    assert (
        describe_holders(locks)
        == "lock 1 (SHARED_READ by anna on laptop, transaction 5, hive), lock 2 (EXCLUSIVE by anna on laptop)"
    )
    seven = [held(one) for one in range(7)]
    assert describe_holders(seven).endswith("lock 4 (EXCLUSIVE by anna on laptop, hive), 2 more")
    assert describe_holders([]) == "a lock that is gone by now"


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
    """The lock of a query on the whole table."""
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

        def show_locks(self, *given: str | None) -> tuple[HeldLock, ...]:
            found = super().show_locks(*given)
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
        def show_locks(self, *given: str | None) -> tuple[HeldLock, ...]:
            other.release()
            return super().show_locks(*given)

    one.client.__class__ = Late
    with one.hold() as held:
        held.assert_alive()
        assert list(server.locks) == [held.lock_id]


def test_an_error_of_the_heartbeats_leaves_no_lock(server: LockServer, process: Process) -> None:
    process.beats.close()
    with pytest.raises(DefectError):
        process.hold()
    assert not server.locks


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("sleep", KeyboardInterrupt()),
        ("check_lock", KeyboardInterrupt()),
        ("show_locks", KeyboardInterrupt()),
        ("check_lock", AWAY),
        ("check_lock", ConflictError("Cannot check: No such lock")),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_an_error_while_waiting_leaves_no_lock(
    server: LockServer, process: Process, clock: Clock, reader: int, where: str, error: BaseException
) -> None:
    def fail() -> None:
        raise error

    if where == "sleep":
        clock.on_sleep = fail
    else:
        server.errors[where].append(Failure(error))
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
    server.errors["lock"].append(Failure(RefusedError("Cannot lock db.t: it makes no sense")))
    with pytest.raises(RefusedError):
        process.hold()
    assert server.calls == ["lock"]


def test_a_release_that_fails_is_told_unless_something_worse_is(server: LockServer, process: Process) -> None:
    server.errors["unlock"].append(Failure(AWAY))
    with (
        pytest.raises(
            RetryError, match=r"^Cannot release the EXCLUSIVE lock on db\.t\.p=1: it is away; .* by itself after 300 s"
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


def test_an_ended_compaction_is_not_ended_again(server: LockServer, process: Process) -> None:
    with process.begin() as transaction:
        transaction.commit()
        transaction.commit()
        transaction.abort()
    assert [call for call in server.calls if call in ("commit_txn", "abort_txn")] == ["commit_txn"]
    with pytest.raises(ConflictError, match=r"transaction 1 for db\.t\.p=1: it has ended"):
        transaction.assert_alive()


def test_nobody_can_be_named(server: LockServer, process: Process) -> None:
    lock(server, LockType.EXCLUSIVE)
    server.errors["show_locks"].append(Failure(AWAY))
    with pytest.raises(ConflictError, match="not granted: its holder is not known, it is away"):
        process.begin()


@pytest.mark.parametrize("error", [AWAY, LOST, KeyboardInterrupt()])
def test_an_error_of_the_lock_aborts(server: LockServer, process: Process, error: BaseException) -> None:
    server.errors["lock"].append(Failure(error, after=True))
    with pytest.raises(type(error)):
        process.begin()
    assert server.txns == {1: "aborted"}
    assert not server.locks


def test_an_abort_that_fails_does_not_hide_the_error(server: LockServer, process: Process) -> None:
    server.errors["lock"].append(Failure(LOST))
    server.errors["abort_txn"].append(Failure(AWAY))
    with pytest.raises(UnknownOutcomeError, match="the answer was lost"):
        process.begin()


def test_ended_heartbeats_leave_no_transaction(server: LockServer, process: Process) -> None:
    process.beats.close()
    with pytest.raises(DefectError):
        process.begin()
    assert server.txns == {1: "aborted"}


def test_the_heart_beats_until_the_commit_has_returned(server: LockServer, process: Process) -> None:
    transaction = process.begin()
    beat = transaction._lease
    seen = []

    class Watching(Client):
        def commit_txn(self, *arguments: object) -> None:
            seen.append(beat.stopped)
            Client.commit_txn(self, *arguments)  # type: ignore[arg-type] # as they came

        def abort_txn(self, *arguments: object) -> None:
            seen.append(beat.stopped)
            Client.abort_txn(self, *arguments)  # type: ignore[arg-type] # as they came

    process.client.__class__ = Watching
    transaction.commit()
    assert beat.stopped
    transaction = process.begin()
    beat = transaction._lease
    transaction.abort()
    assert beat.stopped
    assert seen == [False, False]


def test_what_the_heartbeat_knows_is_not_asked_again(server: LockServer, process: Process) -> None:
    """The row of an aborted transaction without any work goes soon: "no such transaction" would say nothing then."""
    transaction = process.begin()
    transaction._lease.mark_lost(ConflictError, "the metastore has given it up: already aborted")
    server.txns.clear()
    with pytest.raises(ConflictError, match="already aborted"):
        transaction.commit()
    assert "commit_txn" not in server.calls


def test_silence_does_not_keep_from_the_commit(process: Process) -> None:
    transaction = process.begin()
    process.now += TIMEOUT + 1
    with pytest.raises(RetryError):
        transaction.assert_alive()
    transaction.commit()


@pytest.mark.parametrize("after", [True, False])
def test_a_commit_whose_answer_was_lost_is_repeated(server: LockServer, process: Process, after: bool) -> None:
    transaction = process.begin()
    server.errors["commit_txn"].append(Failure(LOST, after=after))
    transaction.commit()
    assert server.txns == {1: "committed"}


def test_an_unknown_outcome_is_told_and_can_be_cleared_up(server: LockServer, process: Process) -> None:
    transaction = process.begin()
    server.errors["commit_txn"] += [Failure(LOST), Failure(AWAY)]
    with pytest.raises(
        UnknownOutcomeError, match=r"^Cannot tell whether transaction 1 for db\.t\.p=1 was committed: it is away$"
    ):
        transaction.commit()
    assert not transaction._lease.stopped
    transaction.commit()
    assert server.txns == {1: "committed"}


def test_a_committed_transaction_that_is_forgotten_is_no_aborted_one(server: LockServer, process: Process) -> None:
    transaction = process.begin()
    server.errors["commit_txn"] += [Failure(LOST), Failure(ConflictError("Cannot commit: No such transaction"))]
    server.errors["open_txns"] += [Failure(AWAY)]
    with pytest.raises(UnknownOutcomeError, match="No such transaction"):
        transaction.commit()


def test_aborting_settles_an_unknown_outcome(server: LockServer, process: Process) -> None:
    transaction = process.begin()
    server.errors["commit_txn"] += [Failure(LOST, after=True), Failure(AWAY)]
    with pytest.raises(UnknownOutcomeError):
        transaction.commit()
    transaction.abort()
    assert server.txns == {1: "committed"}
    assert transaction._lease.stopped


def test_an_abort_that_fails_is_told_once_and_can_be_repeated(server: LockServer, process: Process) -> None:
    transaction = process.begin()
    server.errors["abort_txn"].append(Failure(AWAY))
    with pytest.raises(
        RetryError, match=r"^Cannot abort transaction 1 .*: it is away; .* after 300 s without a heartbeat$"
    ):
        transaction.abort()
    assert transaction._lease.stopped
    with pytest.raises(ConflictError, match="has ended"):
        transaction.commit()
    transaction.abort()
    transaction.abort()
    assert server.txns == {1: "aborted"}
    assert server.calls.count("abort_txn") == 2


def test_an_abort_while_an_error_is_handled_says_nothing(server: LockServer, process: Process) -> None:
    transaction = process.begin()
    server.errors["abort_txn"].append(Failure(AWAY))
    try:
        raise ValueError("the first")
    except ValueError:
        transaction.abort()
