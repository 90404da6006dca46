"""What locks and transactions of a compaction do on any metastore: one suite for real ones and for `fake_locks`.

A module that runs it inherits the classes and has the fixtures: `hms` (of etl on host1) and `others` (of anna on
laptop) are connections to one metastore, `beats` and `theirs` heartbeats to it, which come often.
"""

from __future__ import annotations

import time
from itertools import count

import pytest
from waits import until

from acidlib.acid.names import Generation
from acidlib.errors import BusyError, ConflictError, RetryError
from acidlib.metastore.heartbeat import Heartbeater
from acidlib.metastore.hms import Hms
from acidlib.metastore.holding import begin_compaction, lock_place, publication_lock
from acidlib.metastore.reading import begin_read
from acidlib.metastore.transactions import LockComponent, LockState, LockType, TxnType
from acidlib.model.tables import TableRef

NO_LOCK = 999_999_999
TIMEOUT = 300.0
_numbers = count()


def lock_of(hms: Hms, type: LockType, table: str, partition: str | None = None) -> tuple[int, LockState]:
    component = LockComponent(type=type, database="default", table=table, partition=partition)
    return hms.lock([component], txn_id=None, agent="hive_query")


def unreachable() -> Hms:
    raise RetryError("Cannot reach the metastore: the cable is out")


@pytest.fixture
def table() -> str:
    """The name of a table that no other test locks; it does not exist, which locks do not mind."""
    return f"locked{next(_numbers)}"


class LocksAndTransactions:
    """The calls about locks, transactions and heartbeats."""

    def test_locks_without_a_transaction(self, hms: Hms, table: str) -> None:
        partition = "ds=Upper/hr=5"
        read = LockComponent(type=LockType.SHARED_READ, database="Default", table=table.upper(), partition=partition)
        write = LockComponent(type=LockType.EXCLUSIVE, database="default", table=table)
        reader, state = hms.lock([read], txn_id=None, agent="a reader")
        assert state is LockState.ACQUIRED
        writer, state = hms.lock([write], txn_id=None, agent="a writer")
        assert state is LockState.WAITING
        assert hms.check_lock(writer, txn_id=None) is LockState.WAITING

        held = {lock.lock_id: lock for lock in hms.show_locks("DEFAULT", table.upper())}
        assert sorted(held) == sorted((reader, writer))
        # in lower case on Hive 3.1
        kept = partition.lower() if hms.calls is Generation.HIVE3 else partition
        mine = held[reader]
        assert (mine.database, mine.table, mine.partition) == ("default", table, kept)
        assert (mine.state, mine.type, mine.txn_id) == (LockState.ACQUIRED, LockType.SHARED_READ, None)
        assert (mine.user, mine.host, mine.agent) == ("etl", "host1", "a reader")
        assert mine.heartbeat_ms is not None
        assert mine.acquired_ms is not None
        assert (held[writer].state, held[writer].acquired_ms) == (LockState.WAITING, None)
        assert [lock.lock_id for lock in hms.show_locks("default", table, partition)] == [reader]
        assert {lock.lock_id for lock in hms.show_locks()} >= {reader, writer}
        assert hms.show_locks("no_such_database") == ()

        hms.heartbeat(lock_id=reader)
        hms.unlock(reader)
        assert hms.check_lock(writer, txn_id=None) is LockState.ACQUIRED
        second, state = hms.lock([read], txn_id=None, agent="a late reader")
        assert state is LockState.WAITING
        hms.unlock(second)
        hms.unlock(writer)
        hms.unlock(writer)
        hms.unlock(NO_LOCK)
        assert hms.show_locks("default", table) == ()
        with pytest.raises(ConflictError, match=rf"^Cannot check lock {writer}: No such lock"):
            hms.check_lock(writer, txn_id=None)

    def test_a_lock_of_a_transaction_ends_with_it(self, hms: Hms, table: str) -> None:
        txn_id = hms.open_txn(TxnType.COMPACTION, "contract test")
        read = LockComponent(type=LockType.SHARED_READ, database="default", table=table, transactional=True)
        lock_id, state = hms.lock([read], txn_id=txn_id, agent="contract test")
        assert state is LockState.ACQUIRED
        (held,) = hms.show_locks("default", table)
        assert (held.lock_id, held.txn_id, held.heartbeat_ms) == (lock_id, txn_id, None)
        with pytest.raises(ConflictError, match=rf"^Cannot unlock {lock_id}: "):
            hms.unlock(lock_id)
        assert hms.check_lock(lock_id, txn_id=txn_id) is LockState.ACQUIRED
        hms.commit_txn(txn_id, TxnType.COMPACTION)
        assert hms.show_locks("default", table) == ()
        with pytest.raises(ConflictError):
            hms.lock([read], txn_id=txn_id, agent="contract test")

    def test_an_aborted_transaction_gets_no_lock_though_nobody_asks_before(self, hms: Hms, table: str) -> None:
        txn_id = hms.open_txn(TxnType.COMPACTION, "contract test")
        hms.abort_txn(txn_id, TxnType.COMPACTION)
        read = LockComponent(type=LockType.SHARED_READ, database="default", table=table, transactional=True)
        with pytest.raises(ConflictError):
            hms.lock([read], txn_id=txn_id, agent="contract test", may_have_committed=False)
        assert hms.show_locks("default", table) == ()

    def test_zero_wait(self, hms: Hms, table: str) -> None:
        writer, _ = lock_of(hms, LockType.EXCLUSIVE, table)
        txn_id = hms.open_txn(TxnType.DEFAULT, "contract test")
        read = LockComponent(type=LockType.SHARED_READ, database="default", table=table, transactional=True)
        _, state = hms.lock([read], txn_id=txn_id, agent="contract test", zero_wait=True)
        hms.unlock(writer)
        assert state is (LockState.WAITING if hms.calls is Generation.HIVE3 else LockState.NOT_ACQUIRED)
        hms.abort_txn(txn_id, TxnType.DEFAULT)

    def test_the_end_of_a_transaction(self, hms: Hms) -> None:
        committed, aborted = (hms.open_txn(TxnType.DEFAULT, "contract test") for _ in range(2))
        hms.commit_txn(committed, TxnType.DEFAULT)
        hms.abort_txn(aborted, TxnType.DEFAULT)
        hms.abort_txn(aborted, TxnType.DEFAULT)
        with pytest.raises(ConflictError, match=rf"^Cannot commit transaction {aborted}: .*aborted"):
            hms.commit_txn(aborted, TxnType.DEFAULT)
        with pytest.raises(ConflictError, match=rf"^Cannot abort transaction {committed}: "):
            hms.abort_txn(committed, TxnType.DEFAULT)
        if hms.calls is Generation.HIVE4:
            hms.commit_txn(committed, TxnType.DEFAULT)
        else:
            # forgotten as soon as it is over
            with pytest.raises(ConflictError, match="No such transaction"):
                hms.commit_txn(committed, TxnType.DEFAULT)
        for end in (hms.commit_txn, hms.abort_txn):
            with pytest.raises(ConflictError, match="No such transaction"):
                end(10**12, TxnType.DEFAULT)

    def test_heartbeats(self, hms: Hms, table: str) -> None:
        alive, aborted, committed = (hms.open_txn(TxnType.DEFAULT, "contract test") for _ in range(3))
        hms.abort_txn(aborted, TxnType.DEFAULT)
        hms.commit_txn(committed, TxnType.DEFAULT)
        hms.heartbeat(txn_id=alive)
        for txn_id in (aborted, committed, 10**12):
            with pytest.raises(ConflictError, match=rf"^Cannot keep transaction {txn_id} alive: "):
                hms.heartbeat(txn_id=txn_id)
        with pytest.raises(ConflictError, match=rf"^Cannot keep lock {NO_LOCK} alive: No such lock"):
            hms.heartbeat(lock_id=NO_LOCK)
        read = LockComponent(type=LockType.SHARED_READ, database="default", table=table, transactional=True)
        lock_id, _ = hms.lock([read], txn_id=alive, agent="contract test")
        hms.heartbeat(txn_id=alive, lock_id=lock_id)
        hms.abort_txn(alive, TxnType.DEFAULT)
        with pytest.raises(ConflictError):
            hms.heartbeat(txn_id=alive, lock_id=lock_id)

    def test_heartbeats_of_a_range(self, hms: Hms) -> None:
        alive, aborted, committed, last = (hms.open_txn(TxnType.DEFAULT, "contract test") for _ in range(4))
        hms.abort_txn(aborted, TxnType.DEFAULT)
        hms.commit_txn(committed, TxnType.DEFAULT)
        lost = hms.heartbeat_range(alive, last)
        assert {aborted, committed} <= set(lost)
        assert not {alive, last} & set(lost)
        assert set(hms.heartbeat_range(10**12, 10**12 + 1)) == {10**12, 10**12 + 1}
        for txn_id in (alive, last):
            hms.abort_txn(txn_id, TxnType.DEFAULT)


class CompactorLocks:
    """The locks without a transaction that a compaction holds on Hive 3.1."""

    def test_two_compactors_exclude_each_other(
        self, hms: Hms, others: Hms, beats: Heartbeater, theirs: Heartbeater
    ) -> None:
        with lock_place(hms, beats, ref=TableRef("db", "t", "p=1"), agent="acidlib-1") as held:
            with pytest.raises(
                BusyError,
                match=r"^Cannot compact db\.t\.p=1: another compactor works on it: "
                rf"held by lock {held.lock_id} \(EXCLUSIVE by etl on host1, acidlib-1 [\w.:]+\); try again",
            ):
                lock_place(others, theirs, ref=TableRef("db", "t", "p=1"), agent="acidlib-2")
            (lock,) = hms.show_locks("acidlib.places")
            assert (lock.lock_id, lock.table, lock.partition) == (held.lock_id, "db.t", "p=1")
            assert (lock.type, lock.txn_id) == (LockType.EXCLUSIVE, None)
            for elsewhere in (("db", "t", "p=2"), ("db", "t", "p=10"), ("db", "t2", "p=1"), ("db2", "t", "p=1")):
                lock_place(others, theirs, ref=TableRef(*elsewhere), agent="acidlib-2").release()
            held.assert_alive()
        with lock_place(others, theirs, ref=TableRef("db", "t", "p=1"), agent="acidlib-2"):
            pass
        with pytest.raises(ConflictError, match=r"Cannot go on with the place db\.t\.p=1: it was released"):
            held.assert_alive()
        held.release()
        assert hms.show_locks("acidlib.places") == ()

    def test_places_of_every_name_can_be_locked(self, hms: Hms, beats: Heartbeater) -> None:
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
            lock_place(hms, beats, ref=TableRef(database, table, partition), agent="a" * 500)
            for database, table, partition in places
        ]
        assert len({lock.lock_id for lock in held}) == len(places)
        for database, table, partition in places:
            with pytest.raises(ConflictError):
                lock_place(hms, beats, ref=TableRef(database, table, partition), agent="b")
        for lock in held:
            lock.release()
        assert hms.show_locks("acidlib.places") == ()

    @pytest.mark.parametrize("partition", [None, "p=1"])
    def test_an_exclusive_lock_waits_until_the_reader_has_finished(
        self, hms: Hms, others: Hms, beats: Heartbeater, table: str, partition: str | None
    ) -> None:
        txn_id = others.open_txn(TxnType.DEFAULT, "hive_query")
        component = LockComponent(type=LockType.SHARED_READ, database="default", table=table, transactional=True)
        assert others.lock([component], txn_id=txn_id, agent="hive_query")[1] is LockState.ACQUIRED
        slept = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            time.sleep(0.01)
            if len(slept) == 3:
                behind, state = lock_of(others, LockType.SHARED_READ, table, partition)
                assert state is LockState.WAITING  # whoever comes now waits behind us
                others.unlock(behind)
                others.commit_txn(txn_id, TxnType.DEFAULT)

        with publication_lock(
            hms, beats, ref=TableRef("default", table, partition), exclusive=True, agent="acidlib-1", sleep=sleep
        ) as held:
            assert len(slept) == 3
            held.assert_alive()
            reader, state = lock_of(others, LockType.SHARED_READ, table, partition)
            assert state is LockState.WAITING
            others.unlock(reader)
        assert hms.show_locks("default", table) == ()

    def test_an_exclusive_lock_that_is_not_granted_leaves_nothing(
        self, hms: Hms, others: Hms, beats: Heartbeater, table: str
    ) -> None:
        reader, _ = lock_of(others, LockType.SHARED_READ, table, "p=B")
        with (
            pytest.raises(
                ConflictError,
                match=rf"^Cannot publish default\.{table}\.p=B: its EXCLUSIVE lock was not granted within 0\.5 s: "
                r"held by lock \d+ \(SHARED_READ by anna on laptop, hive_query\); call again when it is released$",
            ),
            publication_lock(
                hms,
                beats,
                ref=TableRef("default", table, "p=B"),
                exclusive=True,
                agent="acidlib-1",
                timeout_seconds=0.5,
            ),
        ):
            pytest.fail("granted")
        assert [lock.lock_id for lock in hms.show_locks("default", table)] == [reader]
        with publication_lock(hms, beats, ref=TableRef("default", table, "p=B"), exclusive=False, agent="acidlib-1"):
            assert len({lock.lock_id for lock in hms.show_locks("default", table)}) == 2
        others.unlock(reader)
        assert hms.show_locks("default", table) == ()

    def test_an_interrupted_wait_leaves_nothing(self, hms: Hms, others: Hms, beats: Heartbeater, table: str) -> None:
        reader, _ = lock_of(others, LockType.SHARED_READ, table)

        def sleep(seconds: float) -> None:
            raise KeyboardInterrupt

        with (
            pytest.raises(KeyboardInterrupt),
            publication_lock(
                hms, beats, ref=TableRef("default", table), exclusive=True, agent="acidlib-1", sleep=sleep
            ),
        ):
            pytest.fail("granted")
        assert [lock.lock_id for lock in hms.show_locks("default", table)] == [reader]
        others.unlock(reader)


class CompactionTransactions:
    """The transaction of a compaction on Hive 4."""

    @pytest.mark.parametrize("partition", [None, "p=A%3Ab"])
    def test_a_compaction_commits(self, hms: Hms, beats: Heartbeater, table: str, partition: str | None) -> None:
        with begin_compaction(hms, beats, ref=TableRef("default", table, partition), agent="acidlib-1") as transaction:
            (lock,) = hms.show_locks("default", table)
            assert (lock.lock_id, lock.txn_id) == (transaction.lock_id, transaction.txn_id)
            assert (lock.type, lock.agent) == (LockType.SHARED_READ, "acidlib-1")
            assert not hms.open_txns().is_txn_valid(transaction.txn_id)
            transaction.assert_alive()
            transaction.commit()
            transaction.commit()
        assert hms.open_txns().is_txn_valid(transaction.txn_id)
        assert hms.show_locks("default", table) == ()

    def test_leaving_a_compaction_aborts(self, hms: Hms, beats: Heartbeater, table: str) -> None:
        with begin_compaction(hms, beats, ref=TableRef("default", table), agent="acidlib-1") as transaction:
            pass
        assert not hms.open_txns().is_txn_valid(transaction.txn_id)
        assert hms.show_locks("default", table) == ()

    def test_a_lock_that_is_not_granted_names_its_holder(self, hms: Hms, beats: Heartbeater, table: str) -> None:
        held, _ = lock_of(hms, LockType.EXCLUSIVE, table)
        before = hms.open_txns().high_water_mark
        with pytest.raises(
            ConflictError,
            match=rf"^Cannot compact default\.{table}\.p=1: its lock was not granted: held by lock {held} "
            r"\(EXCLUSIVE by",
        ):
            begin_compaction(hms, beats, ref=TableRef("default", table, "p=1"), agent="acidlib-1")
        assert [lock.lock_id for lock in hms.show_locks("default", table)] == [held]
        assert hms.open_txns().min_open > before
        hms.unlock(held)

    def test_an_abort_by_others_is_noticed(self, hms: Hms, others: Hms, beats: Heartbeater, table: str) -> None:
        transaction = begin_compaction(hms, beats, ref=TableRef("default", table), agent="acidlib-1")
        transaction.assert_alive()
        others.abort_txn(transaction.txn_id, TxnType.COMPACTION)

        def noticed() -> bool:
            try:
                transaction.assert_alive()
            except ConflictError as error:
                return "already aborted" in str(error)
            return False

        until(noticed)
        with pytest.raises(ConflictError, match="already aborted"):
            transaction.commit()

    def test_a_commit_after_an_abort_by_others_is_a_conflict(self, hms: Hms, table: str) -> None:
        """Before any heartbeat notices it."""
        with Heartbeater(unreachable, interval_seconds=100, timeout_seconds=TIMEOUT, clock=time.monotonic) as beats:
            transaction = begin_compaction(hms, beats, ref=TableRef("default", table), agent="acidlib-1")
            hms.abort_txn(transaction.txn_id, TxnType.COMPACTION)
            with pytest.raises(
                ConflictError, match=rf"^Cannot commit transaction \d+ for default\.{table}: it was aborted"
            ):
                transaction.commit()


def ends(hms: Hms, txn_id: int) -> bool:
    """Whether a transaction is neither open nor aborted."""
    txns = hms.open_txns()
    return txns.high_water_mark >= txn_id and txns.is_txn_valid(txn_id)


class Reads:
    """The transaction of a read with its locks."""

    def test_a_read_holds_its_locks_until_its_end(self, hms: Hms, beats: Heartbeater, table: str) -> None:
        places = [TableRef("default", table, f"p={number}") for number in range(3)]
        with begin_read(hms, beats, table=places[0], agent="acidlib-1") as read:
            read.lock(places[:2])
            read.lock(places[2:])
            read.assert_alive()
            held = hms.show_locks("default", table)
            assert sorted(str(lock.partition) for lock in held) == ["p=0", "p=1", "p=2"]
            assert {(lock.type, lock.state, lock.txn_id, lock.agent) for lock in held} == {
                (LockType.SHARED_READ, LockState.ACQUIRED, read.txn_id, "read by acidlib-1")
            }
            assert not hms.open_txns().is_txn_valid(read.txn_id)
        assert ends(hms, read.txn_id)
        assert hms.show_locks("default", table) == ()
        read.end()
        with pytest.raises(ConflictError, match=rf"^Cannot go on with the read of default\.{table}\.p=0: it has ended"):
            read.assert_alive()

    def test_every_later_commit_sees_a_higher_transaction(self, hms: Hms, beats: Heartbeater, table: str) -> None:
        """As Hive 4's cleaner counts a reader only then; see `reading._pass_watermark`."""
        with begin_read(hms, beats, table=TableRef("default", table), agent="acidlib-1") as read:
            if hms.calls is Generation.HIVE4:
                assert hms.open_txns().high_water_mark > read.txn_id
            assert hms.open_txns().min_open <= read.txn_id

    def test_a_lock_that_is_not_granted_ends_the_read(
        self, hms: Hms, others: Hms, beats: Heartbeater, table: str
    ) -> None:
        dropping, _ = lock_of(others, LockType.EXCLUSIVE, table, "p=1")
        with begin_read(hms, beats, table=TableRef("default", table), agent="acidlib-1") as free:
            free.lock([TableRef("default", table, "p=2")], timeout_seconds=0)
        with (
            pytest.raises(
                ConflictError,
                match=rf"^Cannot read default\.{table}\.p=0 and 1 more partitions: no shared lock was granted "
                rf"within 0\.3 s: held by lock {dropping} \(EXCLUSIVE by anna on laptop, hive_query\); "
                "call again when it is released$",
            ),
            begin_read(hms, beats, table=TableRef("default", table), agent="acidlib-1") as read,
        ):
            read.lock([TableRef("default", table, f"p={number}") for number in range(2)], timeout_seconds=0.3)
        assert ends(hms, read.txn_id)
        assert [lock.lock_id for lock in hms.show_locks("default", table)] == [dropping]
        others.unlock(dropping)

    def test_a_lock_is_waited_for(self, hms: Hms, others: Hms, beats: Heartbeater, table: str) -> None:
        dropping, _ = lock_of(others, LockType.EXCLUSIVE, table)
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 3:
                others.unlock(dropping)

        with begin_read(hms, beats, table=TableRef("default", table), agent="acidlib-1") as read:
            read.lock([TableRef("default", table)], sleep=sleep)
            assert len(slept) == 3
            (held,) = hms.show_locks("default", table)
            assert (held.txn_id, held.state) == (read.txn_id, LockState.ACQUIRED)

    def test_a_publication_waits_for_a_read_as_for_a_query(
        self, hms: Hms, others: Hms, beats: Heartbeater, theirs: Heartbeater, table: str
    ) -> None:
        """It is no `BusyError`, which says that another run compacts the place."""
        ref = TableRef("default", table, "p=1")
        with begin_read(others, theirs, table=ref, agent="acidlib-2") as read:
            read.lock([ref])
            with publication_lock(hms, beats, ref=ref, exclusive=False, agent="acidlib-1"):
                pass
            with (
                pytest.raises(ConflictError, match="SHARED_READ by anna on laptop, transaction") as refused,
                publication_lock(hms, beats, ref=ref, exclusive=True, agent="acidlib-1", timeout_seconds=0.3),
            ):
                pytest.fail("granted")
            assert type(refused.value) is ConflictError
            read.assert_alive()
        with publication_lock(hms, beats, ref=ref, exclusive=True, agent="acidlib-1", timeout_seconds=0.3):
            pass

    def test_an_abort_by_others_is_a_conflict(self, hms: Hms, others: Hms, beats: Heartbeater, table: str) -> None:
        with begin_read(hms, beats, table=TableRef("default", table), agent="acidlib-1") as read:
            read.lock([TableRef("default", table)])
            others.abort_txn(read.txn_id, TxnType.READ_ONLY)

            def noticed() -> bool:
                try:
                    read.assert_alive()
                except ConflictError as error:
                    return str(error).startswith(
                        f"Cannot go on with the read of default.{table}: the metastore has given it up"
                    )
                return False

            until(noticed)

    def test_silence_is_a_conflict_too(self, hms: Hms, table: str) -> None:
        now = [1.0]
        with Heartbeater(unreachable, interval_seconds=100, timeout_seconds=TIMEOUT, clock=lambda: now[0]) as beats:
            read = begin_read(hms, beats, table=TableRef("default", table), agent="acidlib-1")
            now[0] += TIMEOUT
            read.assert_alive()
            now[0] += 1
            with pytest.raises(ConflictError, match="no heartbeat has reached the metastore for 301 s"):
                read.assert_alive()
            read.end()
