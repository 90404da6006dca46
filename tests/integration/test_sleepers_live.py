"""Runs that sleep at a point while a real metastore takes them for dead, or is itself killed and started again."""

from __future__ import annotations

from pathlib import Path

import pytest
from long_runs import amount, in_a_long_run

from acidlib.metastore.transactions import TxnType
from acidlib.points import Point
from integration.children import stopped_at
from integration.harness import at_time, visible
from integration.hive3_site import METASTORES, NOW, OWN, Site, forget_claim
from integration.hive4_jobs import LATER_SECONDS, Service, clean_up, settle
from integration.hive4_model import Lake

pytestmark = pytest.mark.live
TWO_RENAMES = ("--minor-as-major-bytes", "0")


POINTS = (Point.WRITTEN, Point.CHECKED, Point.RECORDED, Point.FIRST_RENAMED, Point.PUBLISHED)
# before the publication there is no call of a queue
OF_THE_QUEUE = amount((Point.CHECKED, Point.PUBLISHED), long=POINTS)


@pytest.mark.parametrize(
    ("both", "point"),
    [*((METASTORES, point) for point in POINTS), *((OWN, point) for point in OF_THE_QUEUE)],
    indirect=["both"],
)
def test_hive_3_who_wakes_without_locks_changes_nothing(both: Site, tmp_path: Path, point: Point) -> None:
    """Of two renames; the metastore has dropped the sleeper's locks, and another run has compacted and cleaned."""
    laid = both.lay()
    run = ("minor_compact", "--table", laid.full_name, *TWO_RENAMES)
    with stopped_at(point, lambda: both(*run), tmp_path / "answer") as sleeper:
        assert both(*run).states == ["conflict"]
        for lock in both.client.locks():
            both.client.unlock(lock.lockid)
        forget_claim(laid)
        laid.insert((100, "a", "b"))
        done = both(*run)
        assert done.states in (["ready for cleaning"], ["refused"]), done
        rows = laid.read()
        both.clean()
        both.clean()
        assert laid.read() == rows
        seen = visible(laid.location)
        sleeper.wake()
        ran = sleeper.ran()
    assert laid.read() == rows
    assert visible(laid.location) == seen
    if point not in (Point.PUBLISHED, Point.FIRST_RENAMED):
        assert ran.states == ["conflict"], ran.compactions
    for job in ("major_compact", "minor_compact"):
        both.good(job)
        both.clean()
    assert laid.read() == rows
    assert not {"working", "initiated"} & set(both.states())
    assert both.client.locks() == []


# a call of each kind that comes next: of the compaction, of its end, of the cleaner
@pytest.mark.parametrize(
    "point", amount([Point.CLEANING_PLANNED], long=[Point.CLAIMED, Point.FIRST_RENAMED, Point.CLEANING_PLANNED])
)
def test_hive_3_a_metastore_that_is_started_again_meanwhile(hives: Site, tmp_path: Path, point: Point) -> None:
    laid = hives.lay()
    run = ["minor_compact", "--table", laid.full_name, *TWO_RENAMES]
    if point is Point.CLEANING_PLANNED:
        hives.good(*run)
        run = ["cleaner", *NOW]
    with stopped_at(point, lambda: hives(*run), tmp_path / "answer") as sleeper:
        hives.metastore.kill()
        hives.metastore.start()
        sleeper.wake()
        ran = sleeper.ran()
    hives.client.reconnect()
    assert ran.status == 0, ran
    assert laid.read() == laid.as_hive_read_it()
    hives.clean()
    assert visible(laid.location) == ["delete_delta_0000001_0000004", "delta_0000001_0000004"]
    assert laid.read() == laid.as_hive_read_it()
    assert hives.states() == ["succeeded"]
    assert hives.client.locks() == []


POINTS = (Point.TAKEN, Point.CHECKED, Point.FIRST_RENAMED, Point.COMMITTED)
FURTHER_POINTS = (Point.WRITTEN, Point.PUBLISHED, Point.MARKED)


@pytest.mark.parametrize("point", amount(POINTS, long=POINTS + FURTHER_POINTS))
def test_hive_4_who_wakes_without_a_transaction_changes_nothing(
    lake: Lake, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: Point
) -> None:
    """The metastore has aborted it, and another run has compacted and cleaned."""
    made = lake.table("asleep")
    lake.request(made)
    with stopped_at(point, lambda: service("major_compact"), tmp_path / "answer") as sleeper:
        for txn in lake.hms.open_txns_info():
            if txn.state == "open":
                lake.hms.abort_txn(txn.id, TxnType.COMPACTION)
        at_time(monkeypatch, LATER_SECONDS)
        service.good("major_compact")
        assert set(service.compact(made).states) <= {"ready for cleaning", "already compact", "refused"}
        lake.check(made)
        clean_up(lake, service, made)
        seen = made.place.directories()
        sleeper.wake()
        ran = sleeper.ran()
    lake.check(made)
    assert made.place.directories() == seen
    assert ran.states == (["ready for cleaning"] if point is Point.COMMITTED else ["conflict"]), ran.compactions
    settle(lake, service, made, monkeypatch)


# a call of each kind that comes next; the faults of Hive 4 are a restart in the middle, and connections that break
@in_a_long_run
@pytest.mark.parametrize("point", [Point.CLAIMED, Point.PUBLISHED, Point.MARKED, Point.CLEANING_PLANNED])
def test_hive_4_a_metastore_that_is_started_again_meanwhile(
    lake: Lake, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: Point
) -> None:
    made = lake.table("again")
    lake.request(made)
    run = ["major_compact"]
    if point is Point.CLEANING_PLANNED:
        service.good(*run)
        run = ["cleaner", *NOW]
    with stopped_at(point, lambda: service(*run), tmp_path / "answer") as sleeper:
        lake.metastore.kill()
        lake.metastore.start()
        sleeper.wake()
        ran = sleeper.ran()
    lake.reconnect()
    assert ran.status == 0, ran
    assert lake.states(made) == ["succeeded" if point is Point.CLEANING_PLANNED else "ready for cleaning"]
    settle(lake, service, made, monkeypatch)
