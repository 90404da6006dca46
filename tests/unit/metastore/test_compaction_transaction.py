"""The transaction of a compaction: its lock, its heartbeats, and the outcomes of its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from fake_locks import Client, Failure, LockServer

from acidlib.errors import ConflictError, DefectError, RetryError, UnknownOutcomeError
from acidlib.metastore.transactions import LockType
from acidlib.model.names import Generation
from unit.metastore.compactors import AWAY, LOST, TIMEOUT, Process, lock


@pytest.fixture
def server() -> LockServer:
    return LockServer()


@pytest.fixture
def process(server: LockServer) -> Iterator[Process]:
    process = Process(server)
    with process.beats:
        yield process


def test_a_compaction_has_a_transaction_and_a_shared_lock(server: LockServer, process: Process) -> None:
    with process.begin() as transaction:
        transaction.assert_alive()
        (found,) = server.locks.values()
        assert (found.type, found.txn_id, found.lock_id) == (
            LockType.SHARED_READ,
            transaction.txn_id,
            transaction.lock_id,
        )
        assert found.agent == "acidlib-1"
        assert transaction._lease.ids == (transaction.txn_id, transaction.lock_id)
        assert server.txns == {1: "open"}
        transaction.commit()
        assert server.txns == {1: "committed"}
        transaction.commit()
        transaction.abort()
    assert server.calls.count("commit_txn") == 1
    assert "abort_txn" not in server.calls
    with pytest.raises(ConflictError, match=r"transaction 1 for db\.t\.p=1: because it has ended"):
        transaction.assert_alive()


def test_leaving_without_a_commit_aborts(server: LockServer, process: Process) -> None:
    with process.begin():
        pass
    with pytest.raises(ValueError, match="the body"), process.begin():
        raise ValueError("the body")
    with pytest.raises(KeyboardInterrupt), process.begin():
        raise KeyboardInterrupt
    assert server.txns == {1: "aborted", 2: "aborted", 3: "aborted"}


@pytest.mark.parametrize("generation", [Generation.HIVE4, Generation.HIVE3])
def test_a_lock_that_is_not_granted_at_once_ends_it(
    server: LockServer, process: Process, generation: Generation
) -> None:
    """Hive 4 answers that it is not acquired, Hive 3.1 that it waits."""
    server.generation = generation
    drop = lock(server, LockType.EXCLUSIVE)
    with pytest.raises(
        ConflictError,
        match=r"^Cannot compact db\.t\.p=1: its lock was not granted: held by lock 1 "
        r"\(EXCLUSIVE by anna on laptop, hive_2026_q\); call again when it is released$",
    ):
        process.begin()
    assert server.txns == {1: "aborted"}
    assert list(server.locks) == [drop]


def test_nobody_can_be_named(server: LockServer, process: Process) -> None:
    lock(server, LockType.EXCLUSIVE)
    server.errors["show_locks"].append(Failure(AWAY))
    with pytest.raises(ConflictError, match="not granted: by whom it is held is not known, it is away"):
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


def test_an_abort_by_others_is_told_by_the_fence_and_by_the_commit(server: LockServer, process: Process) -> None:
    transaction = process.begin()
    server.abort(1)
    with pytest.raises(
        ConflictError, match=r"^Cannot commit transaction 1 for db\.t\.p=1: because it was aborted: .*already aborted"
    ):
        transaction.commit()
    assert transaction._lease.stopped
    transaction.abort()
    assert "abort_txn" not in server.calls
    with pytest.raises(ConflictError, match="has ended"):
        transaction.commit()


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
        UnknownOutcomeError,
        match=r"^Cannot tell whether transaction 1 for db\.t\.p=1 was committed: because it is away$",
    ):
        transaction.commit()
    assert not transaction._lease.stopped
    transaction.commit()
    assert server.txns == {1: "committed"}


def test_a_committed_transaction_that_is_forgotten_is_no_aborted_one(server: LockServer, process: Process) -> None:
    transaction = process.begin()
    server.errors["commit_txn"] += [Failure(LOST), Failure(ConflictError("Cannot commit: because No such transaction"))]
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
    with pytest.raises(RetryError, match=r"^Cannot abort transaction 1 .*: because it is away; .* after 300 s$"):
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


def test_nothing_is_aborted_twice(server: LockServer, process: Process) -> None:
    with nullcontext(process.begin()) as transaction:
        transaction.abort()
        transaction.abort()
    assert server.calls.count("abort_txn") == 1
