"""A run that has many places under way at a time: what is wrong with one of them, or with the run, costs no other."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
from runners import ThreadRunner

from acidlib.errors import RetryError
from acidlib.execute.spark import SparkEndedError
from acidlib.execute.stopping import STOPPING
from acidlib.points import Point
from acidlib.ports.sql import SqlRequests
from acidlib.runs.compact import PlaceCompaction
from acidlib.stores.renaming.store import RenameStage
from integration.children import Child, killed_at, without_rights
from integration.harness import AROUND, Jobs, at_time, names, use_runner, visible
from integration.test_backfill import OVER, Places, another_at_work, ended

pytestmark = pytest.mark.usefixtures("threads")


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    use_runner(monkeypatch, ThreadRunner())


def test_the_bad_ones_are_told_and_the_rest_is_done(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = Places(tmp_path / "db.db" / "t", 200)
    damaged, claimed, dropped, closed = (set(places.names[first : first + 5]) for first in (3, 53, 103, 153))
    places.damage(*damaged)
    for name in closed:
        (places.root / name).chmod(0)
    begun = PlaceCompaction.run

    def steps(compaction):
        place = compaction.queued.place
        if place.ref.partition in dropped:
            shutil.rmtree(str(place.location))  # after it was listed
        return begun(compaction)

    monkeypatch.setattr(PlaceCompaction, "run", steps)
    others = [another_at_work(places.root / name) for name in claimed]
    # loads what another user may not be allowed to read of the interpreter's files
    jobs.good("major_compact", "--location", tmp_path / "db.db" / "one", "--all-committed")
    ran = without_rights(tmp_path, lambda: jobs("major_compact", *places.asked, "--order", "name"))
    for one in others:
        one.release()
    told = [entry["partition"] for entry in ran.compactions]
    assert (ran.status, sorted(told)) == (3, sorted(places.names))
    assert ended(ran, "failed") == damaged | closed
    assert ended(ran, "conflict") == claimed
    assert ended(ran, "refused") == dropped
    for entry in ran.compactions:
        assert entry["reason"].splitlines() == [entry["reason"]]
        assert ("the permission is missing" in entry["reason"]) == (entry["partition"] in closed), entry
    places.names = [name for name in places.names if name not in dropped]
    assert ended(ran, "ready for cleaning") == places.compacted() == set(places.names) - damaged - claimed - closed
    places.check()


def test_a_run_that_is_terminated_gives_all_back(jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = Places(tmp_path / "db.db" / "t", 24)
    jobs.good("initiator", *places.asked, *OVER)
    publish, number = RenameStage.publish, itertools.count()

    def until_the_signal(*given, **named):
        while next(number) and STOPPING.by is None:
            time.sleep(0.01)
        return publish(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(RenameStage, "publish", until_the_signal)
        child = Child(lambda: jobs("major_compact"), tmp_path / "answer")
    while not places.compacted():
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGTERM)
    ran = child.ran()
    assert (ran.status, json.loads(ran.out)["error"]["kind"]) == (128 + signal.SIGTERM, "interrupted")
    done = places.compacted()
    assert 0 < len(done) < 24
    for name in places.names:
        assert not [entry for entry in names(places.root / name) if entry.startswith("_")], name
    states = [row["state"] for row in jobs.shown().values()]
    assert sorted(states) == ["initiated"] * (24 - len(done)) + ["ready for cleaning"] * len(done)
    assert jobs.good("major_compact").states == ["ready for cleaning"] * (24 - len(done))
    places.check()


def test_the_time_of_a_place_is_its_own(jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of the start of Spark and of its first Python worker."""
    places = Places(tmp_path / "db.db" / "t", 3)
    late = 0.0

    class Slow(ThreadRunner):
        def start(self) -> None:
            nonlocal late
            late += 100.0

    monkeypatch.setattr(AROUND, "clock", lambda: time.time() + late)
    use_runner(monkeypatch, Slow())
    ran = jobs.good("major_compact", *places.asked)
    assert late == 100
    assert all(0 < entry["seconds"] < 50 for entry in ran.compactions)


@pytest.mark.parametrize("first", [1, 9])
def test_when_spark_has_ended_no_place_fails_for_it(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """As when its JVM was killed for want of memory: what is under way is given back, the rest is not begun."""
    places = Places(tmp_path / "db.db" / "t", 24)
    jobs.good("initiator", *places.asked, *OVER)

    class Ending(ThreadRunner):
        def run_batches(self, batches, *, group):
            if len(self.jobs) + 1 >= first:
                raise SparkEndedError(f"Cannot run {group}: Spark has ended")
            return super().run_batches(batches, group=group)

    with monkeypatch.context() as patch:
        use_runner(patch, Ending())
        ran = jobs("major_compact", "--set", "acidlib.places.in.flight=2")
    done = places.compacted()
    if done:
        assert (ran.status, set(ran.states)) == (3, {"ready for cleaning", "failed"})
        (entry,) = [entry for entry in ran.compactions if entry["state"] == "failed"]
        assert (entry["table"], entry["reason"][:13]) == ("", "Cannot go on:")
        told = entry["reason"]
    else:
        assert (ran.status, ran.error["kind"]) == (1, "retry")
        told = ran.error["message"]
    given_back = 24 - len(done) - int(re.search(r"(\d+) not begun", told)[1])
    assert f"{given_back} stopped" in told
    assert first == 1 or done
    states = sorted(row["state"] for row in jobs.shown().values())
    assert states == ["initiated"] * (24 - len(done)) + ["ready for cleaning"] * len(done)
    assert not [entry for name in places.names for entry in names(places.root / name) if entry.startswith("_")]
    places.check()


@pytest.mark.parametrize("ends", [False, True])
def test_a_history_that_cannot_be_purged_hides_no_result(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, ends: bool
) -> None:
    """Neither of a run that did all, nor of one that could not go on."""
    places = Places(tmp_path / "db.db" / "t", 3)
    why = "Cannot purge the history of the queue: the database is gone"

    def purge(requests: SqlRequests) -> None:
        raise RetryError(why)

    class Ending(ThreadRunner):
        def run_batches(self, batches, *, group):
            if ends and "p=01" in group:
                raise SparkEndedError(f"Cannot run {group}: Spark has ended")
            return super().run_batches(batches, group=group)

    monkeypatch.setattr(SqlRequests, "purge_history", purge)
    use_runner(monkeypatch, Ending())
    ran = jobs("major_compact", *places.asked, "--order", "name", "--set", "acidlib.places.in.flight=1")
    assert ran.status == (3 if ends else 0)
    assert ran.states == (["ready for cleaning", "failed"] if ends else ["ready for cleaning"] * 3)
    assert ran.document["notes"] == [why]


@pytest.mark.parametrize("point", [f"{Point.CLAIMED}:5", f"{Point.WRITTEN}:7", f"{Point.PUBLISHED}:3"])
def test_a_run_that_is_killed_costs_nothing(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    places = Places(tmp_path / "db.db" / "t", 12)
    assert killed_at(point, lambda: jobs("major_compact", *places.asked))
    places.check()
    at_time(monkeypatch, 3600)
    jobs("major_compact", *places.asked)
    assert places.compacted() == set(places.names)
    places.check()
    at_time(monkeypatch, 7200)
    jobs.good("cleaner", "--retention", "0s")
    assert {tuple(visible(places.root / name)) for name in places.names} == {("base_0000004",)}
    places.check()


def test_a_cleaner_that_is_terminated_leaves_the_rest(jobs: Jobs, tmp_path: Path) -> None:
    places = Places(tmp_path / "db.db" / "t", 24)
    jobs.good("major_compact", *places.asked)
    everything = {name: visible(places.root / name) for name in places.names}
    child = Child(
        lambda: jobs("cleaner", "--retention", "0s", "--set", "acidlib.cleaner.files.per.second=1"),
        tmp_path / "answer",
    )

    def untouched() -> int:
        return sum(visible(places.root / name) == everything[name] for name in places.names)

    while untouched() == 24:
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGTERM)
    ran = child.ran()
    assert (ran.status, json.loads(ran.out)["error"]["kind"]) == (128 + signal.SIGTERM, "interrupted")
    assert "; the next run goes on with the others" in json.loads(ran.out)["error"]["message"]
    assert untouched() > 0
    left = {entry for name in places.names for entry in names(places.root / name) if entry.startswith("_")}
    assert {entry for entry in left if not entry.startswith("_acidlib_removed.")} == set()
    places.check()
    jobs.good("cleaner", "--retention", "0s")
    assert {entry for name in places.names for entry in names(places.root / name)} == {"base_0000004"}
    assert {tuple(visible(places.root / name)) for name in places.names} == {("base_0000004",)}
    places.check()
