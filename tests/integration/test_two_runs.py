"""Two runs at once: one compacts, the other says conflict, and nothing is doubled."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from claim_directories import holder_of, lay_claim
from judges import merge

from acidlib.stores.renaming.store import RenameStage
from integration.children import Child, forked
from integration.harness import Jobs, Ran, fixture, names, visible, within


@pytest.fixture
def crud(tmp_path: Path) -> Path:
    return fixture("hive3/a_crud", tmp_path / "db.db" / "crud")


def wait_for(path: Path, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.01)


class Held:
    """A run in a child process that waits right before it publishes, until it is let go."""

    def __init__(self, jobs: Jobs, folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> None:
        self.there, self.go, self.output = folder / "there", folder / "go", folder / "out.json"
        publish = RenameStage.publish

        def held(*args, **more):
            self.there.touch()
            wait_for(self.go)
            return publish(*args, **more)

        def run() -> None:
            monkeypatch.setattr(RenameStage, "publish", held)
            ran = jobs(*arguments)
            self.output.write_text(ran.out)
            os._exit(ran.status)

        self._thread = threading.Thread(target=lambda: setattr(self, "status", forked(run)))
        self._thread.start()
        wait_for(self.there)

    def let_go(self) -> tuple[int, list[str]]:
        self.go.touch()
        self._thread.join()
        return self.status, [entry["state"] for entry in json.loads(self.output.read_text())["compactions"]]


@pytest.mark.parametrize("other_queue", [False, True], ids=["one queue", "two queues"])
@pytest.mark.parametrize("kind", ["major_compact", "minor_compact"])
def test_the_second_run_conflicts(
    jobs: Jobs, crud: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other_queue: bool, kind: str
) -> None:
    rows = merge.read(crud)
    named = ("--location", crud, "--all-committed")
    first = Held(jobs, tmp_path, monkeypatch, "major_compact", *named)
    before = within(crud)
    second_queue = f"sqlite:///{tmp_path / 'other.db'}" if other_queue else jobs.queue_url
    second = jobs(kind, *named, queue_url=second_queue)
    assert (second.status, second.states) == (1, ["conflict"])
    reason = second.compactions[0]["reason"]
    assert ("has worked on it since" if other_queue else "already scheduled with state='working'") in reason
    assert within(crud) == before
    assert first.let_go() == (0, ["ready for cleaning"])
    assert merge.read(crud, strict=True) == rows
    assert [name for name in visible(crud) if name.startswith("base")] == ["base_0000004"]
    assert not [name for name in names(crud) if name.startswith("_")]
    again = jobs(kind, *named, queue_url=second_queue)
    # a queue that knows of no cleaning to come takes one up for what is obsolete, and compacts nothing
    assert (again.status, again.states) == (0, ["ready for cleaning" if other_queue else "already compact"])
    assert again.compactions[0]["output_directories"] == []
    assert [name for name in visible(crud) if name.startswith("base")] == ["base_0000004"]


def test_a_dry_run_beside_a_run_still_plans(
    jobs: Jobs, crud: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = ("major_compact", "--location", crud, "--all-committed")
    first = Held(jobs, tmp_path, monkeypatch, *named)
    before = within(crud)
    assert jobs.good(*named, "--dry-run").states == ["planned"]
    assert within(crud) == before
    assert first.let_go()[0] == 0


def test_of_several_partitions_only_the_held_one_conflicts(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = fixture("hive3/b_part", tmp_path / "db.db" / "part")
    first = Held(
        jobs, tmp_path, monkeypatch, "major_compact", "--location", part, "--all-committed", "--partition", "dt=*-02"
    )
    second = jobs("major_compact", "--location", part, "--all-committed", "--order", "name")
    assert second.status == 3
    assert dict(zip((e["partition"] for e in second.compactions), second.states, strict=True)) == {
        "dt=2024-01-01": "ready for cleaning", "dt=2024-01-02": "conflict", "dt=2024-01-03": "ready for cleaning",
    }  # fmt: skip
    assert first.let_go() == (0, ["ready for cleaning"])


def test_what_two_workers_drain_is_done_once(jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = fixture("hive3/b_part", tmp_path / "db.db" / "part")
    jobs.good("initiator", "--location", part, "--all-committed", "--set", "hive.compactor.delta.num.threshold=1")
    first = Held(jobs, tmp_path, monkeypatch, "major_compact", "--max-partitions", "2")
    second = jobs.good("major_compact")
    assert second.states == ["ready for cleaning"] * 2
    assert first.let_go() == (0, ["ready for cleaning"])
    assert [row["state"] for row in jobs.shown().values()] == ["ready for cleaning"] * 3


def test_a_request_whose_partition_is_held_stays_queued(
    jobs: Jobs, crud: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.good("initiator", "--location", crud, "--all-committed", "--set", "hive.compactor.delta.num.threshold=1")
    held = Jobs(queue_url=f"sqlite:///{tmp_path / 'other.db'}")
    first = Held(held, tmp_path, monkeypatch, "major_compact", "--location", crud, "--all-committed")
    drained = jobs("major_compact")
    assert (drained.status, drained.states) == (0, ["skipped"])
    assert "has worked on it since" in drained.told
    assert "try again when that run has ended" in drained.told
    assert "WARNING" not in drained.err, "cron would mail it"
    assert jobs.shown()[1]["state"] == "initiated"
    assert first.let_go()[0] == 0


def test_a_cleaner_leaves_to_another_run_what_that_one_has(jobs: Jobs, crud: Path) -> None:
    jobs.good("major_compact", "--location", crud, "--all-committed")
    lay_claim(crud, age=300)
    before = within(crud)
    now = ("cleaner", "--retention", "0s")
    ran = jobs.good(*now)
    (entry,) = ran.document["cleanings"]
    assert (entry["state"], "has worked on it since" in entry["reason"]) == ("ready for cleaning", True)
    assert "ERROR" not in ran.err, "cron would mail it"
    named = jobs(*now, "--location", crud)
    assert (named.status, named.document["cleanings"][0]["state"]) == (3, "conflict")
    assert within(crud) == before


def test_started_at_the_same_moment(jobs: Jobs, crud: Path, tmp_path: Path) -> None:
    """Whatever the order in which they meet: the rows stay, there is one result, nobody fails otherwise."""
    rows = merge.read(crud)

    def run(number: int) -> Ran:
        queue = f"sqlite:///{tmp_path / f'q{number % 2}.db'}"
        return jobs("major_compact", "--location", crud, "--all-committed", queue_url=queue)

    children = [Child(partial(run, number), tmp_path / f"answer{number}") for number in range(4)]
    together = [child.ran() for child in children]
    entries = [ran.compactions[0] for ran in together]
    # the first of the other queue may find the cleaning to do, and nothing else
    assert sum(bool(entry["output_directories"]) for entry in entries) == 1
    assert {entry["state"] for entry in entries} <= {"ready for cleaning", "already compact", "conflict", "refused"}
    assert {ran.status for ran in together} <= {0, 1}
    assert merge.read(crud, strict=True) == rows
    assert [name for name in visible(crud) if name.startswith("base")] == ["base_0000004"]
    assert not [name for name in names(crud) if name.startswith("_")]


def test_initiators_and_cleaners_started_at_the_same_moment(jobs: Jobs, crud: Path, tmp_path: Path) -> None:
    """Of one queue: a place is queued once, and cleaned once."""
    rows = merge.read(crud)
    low = ("--set", "hive.compactor.delta.num.threshold=1")

    def together(*words: str | Path) -> list[Ran]:
        children = [Child(lambda: jobs(*map(str, words)), tmp_path / f"answer{number}") for number in range(3)]
        return [child.ran() for child in children]

    scans = together("initiator", "--location", crud, "--all-committed", *low)
    assert sum(ran.document["totals"]["queued"] for ran in scans) == 1
    assert [row["state"] for row in jobs.shown().values()] == ["initiated"]
    ends = [state for kind in ("minor", "major") for ran in together(f"{kind}_compact") for state in ran.states]
    assert ends == ["ready for cleaning"]
    cleanings = [entry for ran in together("cleaner", "--retention", "0s") for entry in ran.document["cleanings"]]
    assert {entry["state"] for entry in cleanings} <= {"succeeded", "conflict", "ready for cleaning"}
    removed = [item["path"] for entry in cleanings for item in entry["removed"]]
    assert len(removed) == len(set(removed)) > 0
    assert [row["state"] for row in jobs.shown().values()] == ["succeeded"]
    assert merge.read(crud, strict=True) == rows


def test_a_live_claim_of_another_run_is_respected(jobs: Jobs, crud: Path) -> None:
    lay_claim(crud, age=300)
    before = within(crud)
    ran = jobs("major_compact", "--location", crud, "--all-committed")
    assert (ran.status, ran.states) == (1, ["conflict"])
    assert "acidlib-other-host has worked on it since" in ran.compactions[0]["reason"]
    assert within(crud) == before


def test_a_stale_claim_is_taken_over(jobs: Jobs, crud: Path) -> None:
    lay_claim(crud, age=700)
    assert jobs.good("major_compact", "--location", crud, "--all-committed").states == ["ready for cleaning"]
    assert "_acidlib_claim" not in names(crud)


def test_a_claim_that_is_lost_on_the_way_stops_the_publication(
    jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = RenameStage.publish

    def overtaken(*args, **more):
        shutil.rmtree(crud / "_acidlib_claim")
        lay_claim(crud)
        return publish(*args, **more)

    monkeypatch.setattr(RenameStage, "publish", overtaken)
    before = visible(crud)
    ran = jobs("major_compact", "--location", crud, "--all-committed")
    assert (ran.status, ran.states) == (1, ["conflict"])
    assert visible(crud) == before
    assert holder_of(crud) == "acidlib-other-host"


@pytest.mark.parametrize("appears", ["base_0000003", "base_0000004", "base_0000009", "delta_0000002_0000003"])
def test_a_directory_that_appears_meanwhile_is_a_conflict(
    jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch, appears: str
) -> None:
    """Another compactor that knows nothing of our claims has published something that overlaps."""
    publish = RenameStage.publish

    def overtaken(*args, **more):
        (crud / appears).mkdir()
        (crud / appears / "bucket_00000").write_bytes(b"")
        return publish(*args, **more)

    monkeypatch.setattr(RenameStage, "publish", overtaken)
    before = visible(crud)
    ran = jobs("major_compact", "--location", crud, "--all-committed")
    assert (ran.status, ran.states) == (1, ["conflict"])
    assert visible(crud) == sorted([*before, appears])
    assert not [name for name in names(crud) if name.startswith("_")]


def test_a_new_delta_that_appears_meanwhile_is_none(jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish = RenameStage.publish

    def written(*args, **more):
        (crud / "delta_0000005_0000005_0000").mkdir()
        (crud / "delta_0000005_0000005_0000" / "bucket_00000").write_bytes(b"")
        return publish(*args, **more)

    monkeypatch.setattr(RenameStage, "publish", written)
    assert jobs.good("major_compact", "--location", crud, "--all-committed").states == ["ready for cleaning"]
