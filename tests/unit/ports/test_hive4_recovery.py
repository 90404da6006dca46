"""Requests of Hive 4 whose run or worker is gone: they end, and are queued again, but never those of one that lives."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from claim_directories import lay_claim
from fake_locks import Client, Failure, LockServer
from located import at
from unit.metastore.compactors import AWAY

from acidlib.errors import MissingError
from acidlib.execute.services import Services
from acidlib.metastore.transactions import LockComponent, LockType, TxnType
from acidlib.model.requests import CompactionRequest, CompactionType, Enqueued, State, bucket_note
from acidlib.model.tables import TableRef
from acidlib.ports.hive4_recovery import recover
from acidlib.processes import process_identity, signed
from acidlib.stores.store import STALE_SECONDS

NAME = "acidlib-node7-0123456789abcdef"
OURS, ELSEWHERE = signed(NAME), f"{NAME}.{'0' * 16}.1.1"
BOOT, NUMBER, START = process_identity().split(".")
ENDED_PROCESS = f"{BOOT}.{NUMBER}.{int(START) - 1}"
DEAD = f"{NAME}.{ENDED_PROCESS}"
PRIVATE = f"acidlib-{ENDED_PROCESS}-1"
NOW = 2_000_000_000
LONG_AGO, LATELY = (NOW - STALE_SECONDS - 1) * 1000, (NOW - STALE_SECONDS + 1) * 1000
A_DAY_AGO = (NOW - 86_401) * 1000


def row(worker: str | None, **more: Any) -> CompactionRequest:
    stated = {"state": State.WORKING, "start_ms": LATELY, "type": CompactionType.MAJOR, "initiator_id": "n-manual"}
    return CompactionRequest(id=7, ref=TableRef("d", "t", "p=1"), worker_id=worker, **stated | more)


class Metastore(Client):
    """Transactions and locks of a fake, with one request."""

    def __init__(self, request: CompactionRequest) -> None:
        super().__init__(LockServer())
        self.request: CompactionRequest | None = request
        self.ended: list[str | None] = []
        self.queued: list[CompactionRequest] = []
        self.withdrawn: list[int] = []

    def hold(self, agent: str) -> int:
        """The transaction of a run that works there, with its lock."""
        txn = self.open_txn(TxnType.COMPACTION, agent)
        part = LockComponent(type=LockType.SHARED_READ, database="d", table="t", partition="p=1", transactional=True)
        self.lock([part], txn_id=txn, agent=agent)
        return txn

    def find_compaction(self, number: int) -> CompactionRequest | None:
        return self.request

    def mark_refused(self, request: CompactionRequest) -> None:
        self.ended.append(request.error_message)

    def compact(self, request: CompactionRequest) -> Enqueued:
        self.queued.append(request)
        return Enqueued(id=8, accepted=True)

    def abort_compactions(self, numbers: Sequence[int]) -> None:
        self.withdrawn += numbers


def recovered(services: Services, hms: Metastore, place: Path | None = None) -> list[str]:
    def current_place(ref: TableRef) -> Any:
        if place is None:
            raise MissingError(f"Cannot find {ref}")
        return SimpleNamespace(location=at(place))

    given: Any = hms
    assert hms.request is not None
    return recover(services, given, [hms.request], given.open_txns(), current_place=current_place)


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_request_of_a_process_that_has_ended_is_queued_again_at_once(services: Services, is_noted: bool) -> None:
    """Its transaction ends with it, also one that is not noted yet: it would keep files from all cleaners."""
    hms = Metastore(row(DEAD, pool="spark", run_as="o", highest_write_id=5))
    txn = hms.hold(DEAD)
    assert hms.request is not None
    if is_noted:
        hms.request = replace(hms.request, txn_id=txn)
    (note,) = recovered(services, hms)
    assert note == "request 7 for d.t.p=1 was ended, and queued again as request 8: its run is dead"
    assert (hms.server.txns, hms.server.locks) == ({txn: "aborted"}, {})
    assert hms.ended == ["its run is dead (given back)"]
    (again,) = hms.queued
    assert (again.type, again.pool, again.run_as, again.state) == (CompactionType.MAJOR, "spark", "o", State.INITIATED)
    assert (again.highest_write_id, again.facts.reason) == (None, None)


def test_one_of_our_initiator_is_again_its_and_says_why(services: Services) -> None:
    hms = Metastore(row(DEAD, initiator_id="node7-acidlib-0123456789abcdef", pool="default"))
    recovered(services, hms)
    assert hms.queued[0].pool is None, "it is shown by a name, by which no worker without a pool would get it"
    assert hms.queued[0].facts.reason == "queued again for request 7: its run is dead"


def test_one_that_was_marked_as_compacted_and_whose_process_ended_before_it_committed(services: Services) -> None:
    hms = Metastore(row(None, state=State.READY_FOR_CLEANING))
    txn = hms.hold(DEAD)
    assert hms.request is not None
    hms.request = replace(hms.request, txn_id=txn)
    (note,) = recovered(services, hms)
    assert "queued again as request 8: its run is dead" in note
    assert hms.server.txns == {txn: "aborted"}
    # unless its last call was on its way
    late = Metastore(hms.request)
    late.hold(DEAD)
    snapshot, locks = late.open_txns(), dict(late.server.locks)
    late.commit_txn(txn, TxnType.COMPACTION)
    late.server.locks |= locks
    given: Any = late
    assert recover(services, given, [hms.request], snapshot, current_place=given) == []
    assert (late.ended, late.queued) == ([], [])


@pytest.mark.parametrize(
    ("request_", "holds"),
    [
        pytest.param(row(OURS), False, id="this process runs, and has not begun"),
        pytest.param(row(ELSEWHERE), False, id="elsewhere, and it has lately begun"),
        pytest.param(row(ELSEWHERE, start_ms=LONG_AGO, txn_id=1), True, id="elsewhere, and its transaction is open"),
        pytest.param(row(ELSEWHERE, start_ms=LONG_AGO), True, id="elsewhere, and its lock is there"),
        pytest.param(row("hive-node7-9", start_ms=LONG_AGO), False, id="of Hive's, within its timeout"),
        pytest.param(row(None, start_ms=None), False, id="nothing is known of it"),
        pytest.param(row(None, state=State.READY_FOR_CLEANING, txn_id=1), True, id="it is about to commit"),
        pytest.param(row(None, state=State.INITIATED, enqueue_ms=A_DAY_AGO), False, id="it waits for any run"),
        pytest.param(row(DEAD, state=State.FAILED), False, id="it has ended"),
    ],
)
def test_one_of_a_run_that_may_live_is_left_alone(services: Services, request_: CompactionRequest, holds: bool) -> None:
    hms = Metastore(request_)
    if holds:
        hms.hold(ELSEWHERE)
    assert recovered(services, hms) == []
    assert (hms.ended, hms.queued, set(hms.server.txns.values()) <= {"open"}) == ([], [], True)


def test_a_run_elsewhere_is_dead_when_its_transaction_or_its_claim_is(services: Services, tmp_path: Path) -> None:
    long_ago = int(time.time() - STALE_SECONDS - 1) * 1000
    hms = Metastore(row(ELSEWHERE, start_ms=long_ago, txn_id=1))
    hms.hold(ELSEWHERE)
    lay_claim(tmp_path, ELSEWHERE)
    ahead = replace(services, clock=lambda: time.time() + 2 * STALE_SECONDS)
    services = replace(services, clock=time.time)
    for clock in (services, ahead):  # a claim is as old as its file, whatever the clock here says
        assert recovered(clock, hms, tmp_path) == []
    lay_claim(tmp_path / "stale", ELSEWHERE, age=STALE_SECONDS + 60)
    lay_claim(tmp_path / "other", "acidlib-other", age=STALE_SECONDS + 60)
    assert recovered(services, hms, tmp_path / "other") == []
    assert "its run is dead" in recovered(services, hms, tmp_path / "stale")[0]
    assert hms.server.txns == {1: "aborted"}
    timed_out = Metastore(row(ELSEWHERE, start_ms=long_ago, txn_id=1))
    timed_out.server.txns[1] = "aborted"
    assert "its run is dead" in recovered(services, timed_out)[0]


@pytest.mark.parametrize("worker", ["hive-node7-9", ELSEWHERE])
def test_past_the_timeout_of_workers_whichever_it_is_loses_its_request(services: Services, worker: str) -> None:
    hms = Metastore(row(worker, start_ms=A_DAY_AGO, txn_id=1))
    hms.hold(worker)
    (note,) = recovered(services, hms)
    assert f"{worker} has held it for longer than hive.compactor.worker.timeout (86400 s)" in note
    assert (hms.server.txns, len(hms.queued)) == ({1: "aborted"}, 1)


def test_what_a_named_run_queued_for_itself_ends_with_it(services: Services) -> None:
    waits = Metastore(row(None, state=State.INITIATED, pool=PRIVATE))
    assert recovered(services, waits) == ["request 7 for d.t.p=1 was ended: its run is dead"]
    assert waits.withdrawn == [7]
    worked = Metastore(row(DEAD, pool=PRIVATE))
    assert recovered(services, worked) == ["request 7 for d.t.p=1 was ended: its run is dead"]
    assert (worked.ended, worked.queued) == (["its run is dead"], [])


@pytest.mark.parametrize("buckets", [None, 3])
def test_a_rebalance_is_queued_again_with_its_number_of_buckets(services: Services, buckets: int | None) -> None:
    hms = Metastore(row(DEAD, type=CompactionType.REBALANCE, hadoop_job_id=bucket_note(buckets)))
    recovered(services, hms)
    assert [again.bucket_count for again in hms.queued] == [buckets]


def test_a_rebalance_is_not_queued_again_with_another_number_of_buckets(services: Services) -> None:
    hms = Metastore(row(DEAD, type=CompactionType.REBALANCE))
    (note,) = recovered(services, hms)
    assert "has to be requested again, as no call tells its number of buckets" in note
    assert hms.queued == []


def test_one_that_has_gone_on_meanwhile_is_left_alone_and_an_error_ends_no_others(services: Services) -> None:
    hms = Metastore(row(DEAD))
    given: Any = hms
    hms.request = row("hive-node7-9")
    assert recover(services, given, [row(DEAD)], hms.open_txns(), current_place=given) == []
    hms.request = row(DEAD)
    hms.server.errors["show_locks"] = [Failure(AWAY)]
    rows = [row(DEAD), replace(row(DEAD), ref=TableRef("d", "u"))]
    first, second = recover(services, given, rows, hms.open_txns(), current_place=given)
    assert first.startswith("request 7 for d.t.p=1 could not be ended: ")
    assert second.startswith("request 7 for d.u was ended")
