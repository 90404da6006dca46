"""What a compaction has taken of its place is given back, however far it came, and its request ends by it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_locks import Client, Failure, LockServer
from located import at
from unit.metastore.compactors import AWAY, LOST, TIMEOUT, lock
from unit.ports.test_catalog import Metastore as Tables
from unit.ports.test_catalog import table

from acidlib.acid.names import Generation
from acidlib.acid.write_ids import ValidTxnList
from acidlib.errors import ConflictError, RetryError, UnknownOutcomeError, UnnotedResultError
from acidlib.execute.services import Services
from acidlib.metastore.heartbeat import Heartbeater
from acidlib.metastore.transactions import LockType
from acidlib.model.requests import NO_FACTS, CompactionRequest, CompactionType, State
from acidlib.model.results import Outcome
from acidlib.model.tables import TableRef
from acidlib.ports.backend import nowhere
from acidlib.ports.hive3 import Hive3Tables, hive3
from acidlib.ports.hive4 import hive4
from acidlib.ports.holds import CompactionHold
from acidlib.stores.store import CLAIM

WORKER = "acidlib-host-0123456789abcdef"
ROW = CompactionRequest(
    id=7, ref=TableRef("d", "t"), type=CompactionType.MAJOR, state=State.WORKING, worker_id=WORKER, run_as="o"
)


def lost(*_: object, **__: object) -> None:
    raise ConflictError("Cannot change request 7: another worker has it")


NOTHING: Any = SimpleNamespace(  # a queue of the metastore, in which the request is ours until its result is noted
    schema_version="3.1.0", assert_owned=lambda *_: None, mark_compacted=lost
)


class Metastore(Client):
    """Transactions and locks of one fake, a table of another, and the row of our request."""

    def __init__(self, server: LockServer, place: Path) -> None:
        super().__init__(server)
        self.row: CompactionRequest | None = ROW
        self.shown: tuple[CompactionRequest, ...] = ()
        self.ended: list[tuple[str, int | None]] = []
        self.reasons: list[str | None] = []
        self._tables = Tables(table(place), generation=server.generation)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)

    def open_txns(self, *, exclude_readers: bool = False) -> ValidTxnList:
        return super().open_txns()

    def show_compactions(self) -> tuple[CompactionRequest, ...]:
        return self.shown

    def show_compactions_of(self, ref: TableRef) -> tuple[CompactionRequest, ...]:
        return tuple(row for row in self.shown if row.ref == ref)

    def find_compaction(self, request_id: int) -> CompactionRequest | None:
        return self.row

    def update_compactor_state(self, request: CompactionRequest, txn_id: int) -> None:
        with self._call("update_compactor_state"):
            self.row = replace(ROW, highest_write_id=request.highest_write_id, txn_id=txn_id)

    def mark_compacted(self, request: CompactionRequest) -> None:
        with self._call("mark_compacted"):
            assert self.row is not None
            self.row = replace(self.row, state=State.READY_FOR_CLEANING)

    def mark_failed(self, request: CompactionRequest) -> None:
        self.ended.append(("failed", request.highest_write_id))

    def mark_refused(self, request: CompactionRequest) -> None:
        self.ended.append(("refused", request.highest_write_id))
        self.reasons.append(request.error_message)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "t"
    (place / "delta_0000001_0000001_0000").mkdir(parents=True)
    return place


@pytest.fixture(params=[Generation.HIVE3, Generation.HIVE4])
def server(request: pytest.FixtureRequest) -> LockServer:
    return LockServer(generation=request.param)


@pytest.fixture
def hms(server: LockServer, place: Path) -> Metastore:
    return Metastore(server, place)


@pytest.fixture
def hold(services: Services, hms: Metastore) -> Iterator[CompactionHold]:
    given: Any = hms
    beats = Heartbeater(lambda: hms, interval_seconds=100, timeout_seconds=TIMEOUT, clock=lambda: 0.0)
    with beats:
        if hms.calls is Generation.HIVE4:
            yield hive4(services, given, beats).fence.hold(ROW, nowhere(ROW))
        else:
            yield hive3(Hive3Tables(services, NOTHING, given, beats, name="m")).fence.hold(ROW, nowhere(ROW))


HIVE3 = pytest.mark.parametrize("server", [Generation.HIVE3], indirect=True)
HIVE4 = pytest.mark.parametrize("server", [Generation.HIVE4], indirect=True)


def test_all_that_was_taken_is_given_back_once(server: LockServer, hold: CompactionHold, place: Path) -> None:
    hold.begin()
    assert (str(hold.place.location), len(server.locks), (place / CLAIM).exists()) == (str(place), 1, True)
    hold.assert_claimed()
    for _ in range(2):
        hold.close()
        assert (server.locks, (place / CLAIM).exists()) == ({}, False)
    assert set(server.txns.values()) <= {"aborted"}


def test_with_the_place_claimed_by_another_the_lock_is_given_back(
    server: LockServer, hold: CompactionHold, services: Services, place: Path
) -> None:
    with replace(services, worker_id="another").claim_and_revoke(at(place)):
        with pytest.raises(ConflictError, match="another has worked on it"):
            hold.begin()
        assert len(server.locks) == 1
        hold.assert_claimed()  # nothing is claimed: nothing to ask
        hold.close()
        assert (server.locks, (place / CLAIM).exists()) == ({}, True)


def test_without_a_lock_nothing_is_claimed(server: LockServer, hold: CompactionHold, place: Path) -> None:
    server.errors["lock"] = [Failure(AWAY)]
    with pytest.raises(RetryError, match="it is away"):
        hold.begin()
    hold.close()
    assert (server.locks, (place / CLAIM).exists()) == ({}, False)


@HIVE3
def test_a_lock_that_could_not_be_given_back_is_given_back_by_the_next_attempt(
    server: LockServer, hold: CompactionHold, place: Path
) -> None:
    hold.begin()
    server.errors["unlock"] = [Failure(AWAY)]
    with pytest.raises(RetryError, match=r"Cannot release the place d\.t"):
        hold.close()
    assert (len(server.locks), (place / CLAIM).exists()) == (1, False)
    hold.close()
    assert server.locks == {}


@HIVE3
def test_a_result_that_only_the_queue_does_not_know_is_no_unknown_one(hold: CompactionHold) -> None:
    hold.begin()
    hold.note_mark(1)
    with pytest.raises(UnnotedResultError, match=r"d\.t is compacted: .* its results are visible and right, and stay"):
        hold.published(("base_0000001",))
    hold.close()


@HIVE4
def test_a_request_ends_as_far_as_its_beginning_came(
    server: LockServer, hold: CompactionHold, hms: Metastore, place: Path
) -> None:
    server.errors["update_compactor_state"] = [Failure(AWAY)]
    with pytest.raises(RetryError, match="it is away"):
        hold.begin()
    hold.assert_claimed()
    shutil.rmtree(place / CLAIM)
    with pytest.raises(ConflictError):
        hold.assert_claimed()
    assert hold.end(Outcome.FAILED, "it is away", named=False, noted=NO_FACTS) is None
    assert (hms.ended, server.txns) == ([("failed", 5)], {1: "aborted"})


@HIVE4
def test_a_refused_request_whose_transaction_was_not_opened_has_nothing_to_commit(
    server: LockServer, hold: CompactionHold, hms: Metastore
) -> None:
    lock(server, LockType.EXCLUSIVE, database="d")
    with pytest.raises(ConflictError, match="its lock was not granted"):
        hold.begin()
    assert hold.end(Outcome.REFUSED, "for a reason", named=True, noted=NO_FACTS) is None
    assert (hms.ended, server.txns) == ([("refused", None)], {1: "aborted"})


@HIVE4
def test_what_was_compact_already_is_refused_in_hives_words_and_nothing_is_aborted(
    server: LockServer, hold: CompactionHold, hms: Metastore
) -> None:
    hold.begin()
    assert hold.end(Outcome.ALREADY_COMPACT, "there is nothing to merge", named=True, noted=NO_FACTS) is None
    assert (hms.ended, server.txns) == ([("refused", 5)], {1: "committed"})
    assert hms.reasons == [
        "None of the compaction thresholds met, compaction request is refused! (there is nothing to merge)"
    ]


@HIVE4
def test_a_row_that_is_marked_and_whose_transaction_can_never_commit_has_failed(
    server: LockServer, hold: CompactionHold, hms: Metastore
) -> None:
    hold.begin()
    server.errors["mark_compacted"] = [Failure(AWAY, after=True)]
    with pytest.raises(RetryError, match="transaction 1 is aborted and nothing became visible"):
        hold.published(())
    hold.abandon()  # it may be ready for cleaning: another must not do it
    assert hms.ended == []
    assert hold.end(Outcome.FAILED, "away", named=False, noted=NO_FACTS) is None
    assert hms.ended == [("failed", 5)]


@HIVE4
def test_what_may_have_been_committed_is_neither_aborted_nor_ended(
    server: LockServer, hold: CompactionHold, hms: Metastore, place: Path
) -> None:
    hold.begin()
    server.errors["commit_txn"] = [Failure(LOST), Failure(LOST)]
    server.errors["abort_txn"] = [Failure(AWAY)]
    server.errors["open_txns"] = [Failure(AWAY)] * 3
    with pytest.raises(UnknownOutcomeError, match="Cannot tell whether transaction 1"):
        hold.published(())
    assert hold.end(Outcome.FAILED, "unknown", named=False, noted=NO_FACTS) is None
    hold.close()
    assert (hms.ended, server.txns, (place / CLAIM).exists()) == ([], {1: "open"}, False)


@HIVE4
def test_a_quarantine_of_another_run_is_seen_under_the_hold(hold: CompactionHold, hms: Metastore) -> None:
    """This run has read the queue before; the other run has failed its verification since then."""
    requests = hold._fence.requests  # type: ignore[attr-defined]
    listing: Any = None
    assert list(requests.rows_at(hold.place)) == []
    hold.begin()
    wrong = replace(ROW, id=6, state=State.FAILED, facts=replace(NO_FACTS, differs=True))
    hms.shown = (wrong, replace(wrong, id=7, ref=TableRef("s", "another")))
    assert list(requests.rows_at(hold.place)) == [], "outside of a hold the queue is read once"
    assert requests.quarantining_request(hold.place, listing, anew=True) == wrong


@HIVE4
def test_the_timeout_of_a_worker_counts_from_before_the_request_was_handed_out(
    services: Services, server: LockServer, hms: Metastore
) -> None:
    """However late its compaction begins: the server gives the request to another by its own start."""
    now, limit = [1000.0], services.settings.integer("hive.compactor.worker.timeout") / 1000

    def handed_out(*_: object) -> CompactionRequest:
        now[0] += 60  # the answer is late
        return ROW

    given: Any = hms
    hms.find_next_compaction = handed_out  # type: ignore[attr-defined]
    beats = Heartbeater(lambda: hms, interval_seconds=100, timeout_seconds=TIMEOUT, clock=lambda: 0.0)
    with beats:
        backend = hive4(replace(services, clock=lambda: now[0]), given, beats)
        assert backend.queue.take(ROW) is ROW
        now[0] += 0.5 * limit
        hold = backend.fence.hold(ROW, nowhere(ROW))
        hold.begin()
        now[0] = 1000 + 0.9 * limit - 1
        hold.assert_mine()
        now[0] += 2
        with pytest.raises(RetryError, match=r"it took more than 90 % of hive\.compactor\.worker\.timeout"):
            hold.assert_mine()
        hold.close()
