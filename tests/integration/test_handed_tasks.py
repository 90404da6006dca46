"""A compaction whose tasks the program runs itself: in any pool, committed as a whole, or given back."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from operator import attrgetter
from pathlib import Path
from traceback import extract_tb
from typing import Any

import dask
import pytest
from claim_directories import holder_of
from judges import merge

import acidlib
from acidlib import CompactionTask, TaskResult
from acidlib.planning import units
from integration.harness import fixture, names, results_alike, tree, visible, within

Pool = Callable[[Sequence[CompactionTask]], Iterable[TaskResult]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACIDLIB_HOME", str(tmp_path / "home"))
    for variable in ("HIVE_CONF_DIR", "ACIDLIB_QUEUE_URL"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return fixture("hive3/c_bucket", tmp_path / "db.db" / "t")


def table(place: Path, **settings: str) -> acidlib.Table:
    return acidlib.directory(place, all_committed=True, settings=settings, queue=f"sqlite:///{place.parent}/queue.db")


def rows(place: Path) -> Any:
    return merge.read(place, strict=True)


def here(tasks: Sequence[CompactionTask]) -> list[TaskResult]:
    return [task.run() for task in tasks]


def in_processes(tasks: Sequence[CompactionTask]) -> list[TaskResult]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(CompactionTask.run, tasks))


def by_dask(tasks: Sequence[CompactionTask]) -> list[TaskResult]:
    delayed = [dask.delayed(CompactionTask.run)(task) for task in tasks]
    return list(dask.compute(*delayed, scheduler="processes", num_workers=2))


def twice_and_in_another_order(tasks: Sequence[CompactionTask]) -> list[TaskResult]:
    return [*here(tasks), *here(tasks)][::-1]


def alike(entry: dict[str, Any]) -> dict[str, Any]:
    files = [{**file, "actions": [{**action, "file": ""} for action in file["actions"]]} for file in entry["files"]]
    return {**results_alike({**entry, "files": files}), "location": ""}


@pytest.mark.pairs
@pytest.mark.parametrize("pool", [here, in_processes, by_dask, twice_and_in_another_order])
@pytest.mark.parametrize("kind", ["major", "minor"])
def test_the_result_is_that_of_a_compaction(place: Path, tmp_path: Path, kind: Any, pool: Pool) -> None:
    other = fixture("hive3/c_bucket", tmp_path / "other" / "db.db" / "t")
    before, options = rows(place), {"minor_as_major_bytes": 0}
    (expected,) = table(other).compact(kind, **options).entries
    with table(place).compaction(kind, **options) as job:
        assert len(job.plan.tasks) > 1
        assert f"\n{len(job.plan.tasks)} tasks, " in str(job.plan)
        assert repr(job.plan) == f"<CompactionPlan: 1 place, {len(job.plan.tasks)} tasks>"
        (planned,) = job.plan.places
        result = job.commit(pool(pickle.loads(pickle.dumps(job.plan)).tasks))
    (entry,), (done,) = result.entries, result.places
    said = attrgetter("ref", "type", "reason", "inputs", "output_directories", "publication", "write_ids", "bytes_in")
    assert said(planned) == said(done)
    assert (result.ok, visible(place)) == (True, visible(other))
    assert alike(entry) == alike(expected)
    assert rows(place) == before
    assert [name for name in names(place) if name.startswith("_")] == []


def test_a_large_bucket_is_shared_by_tasks(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parts are tasks of the plan, and the commit joins them."""
    before = rows(place)
    with table(place).compaction("major") as job:
        whole = len(job.plan.tasks)
    monkeypatch.setattr(units, "PART_BYTES_OF_A_SLOT", 1)
    with table(place, **{"acidlib.part.bytes": "1"}).compaction("major") as job:
        assert len(job.plan.tasks) > whole
        assert job.commit(in_processes(job.plan.tasks)).ok
    assert rows(place) == before


def test_what_is_not_committed_is_given_back(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    before, lake = tree(place, times=False), table(place)
    job = lake.compaction("major")
    name = f"<CompactionJob: major of {place}, "
    assert repr(job) == f"{name}not entered>"
    with job:
        holder_of(place)
        here(job.plan.tasks)
        assert repr(job) == f"{name}{len(job.plan.tasks)} tasks, not committed>"
    assert repr(job) == f"{name}{len(job.plan.tasks)} tasks, given back>"
    assert caplog.messages == [
        f"major of {place}: the job ended without commit(): nothing is published, and its tables and partitions are "
        "given back"
    ]
    caplog.clear()
    assert tree(place, times=False) == before
    with pytest.raises(ZeroDivisionError), lake.compaction("major"):
        raise ZeroDivisionError
    with pytest.raises(KeyboardInterrupt), lake.compaction("major"):
        raise KeyboardInterrupt
    assert tree(place, times=False) == before
    assert caplog.messages == []  # an error says it
    assert lake.compact("major").ok


def test_a_commit_is_of_all_tasks_of_its_own_plan(place: Path) -> None:
    lake = table(place)
    with lake.compaction("major") as job:
        others = here(job.plan.tasks)
    with lake.compaction("major") as job:
        results = here(job.plan.tasks)
        for wrong, told in (
            (others, "it is no result of a task of this job"),
            (results[1:], f"1 task of the plan has no result: {job.plan.tasks[0].where}"),
            ([], f"{len(results)} tasks of the plan have no result: {job.plan.tasks[0].where}"),
            ([None], "it is no result of a task of this job"),
        ):
            there = within(place)
            with pytest.raises(acidlib.UsageError, match=told):
                job.commit(wrong)  # type: ignore[arg-type] # a mistake
            assert within(place) == there
        with ThreadPoolExecutor(1) as pool, pytest.raises(acidlib.UsageError, match="in another thread"):
            pool.submit(job.commit, results).result()
        assert job.commit(results).ok
        assert repr(job).endswith(", committed>")
        with pytest.raises(acidlib.UsageError, match="Cannot commit a job twice") as raised:
            job.commit(results)
        assert len(extract_tb(raised.value.__traceback__)) == 2  # the line of the program, and that of the verb
        with pytest.raises(acidlib.UsageError, match="Cannot enter a job twice"):
            job.__enter__()
    with pytest.raises(acidlib.UsageError, match="before its job is entered"):
        _ = lake.compaction("major").plan


def test_where_there_is_nothing_to_do_there_are_no_tasks(place: Path) -> None:
    lake = table(place)
    assert lake.compact("major").ok
    with lake.compaction("major") as job:
        assert job.plan.tasks == ()
        assert repr(job).endswith(", nothing to do>")
        assert job.commit([]).states == {"already compact": 1}


def test_a_task_that_fails_is_the_failure_of_its_partition_alone(tmp_path: Path) -> None:
    root = fixture("hive3/b_part", tmp_path / "db.db" / "t")
    places = sorted(root.iterdir())
    before = [rows(place) for place in places]
    with table(root).compaction("major", order="name") as job:
        file = next(places[0].glob("delta_0000001*/bucket_*"))
        data, _ = file.read_bytes(), file.write_bytes(b"x" * file.stat().st_size)
        result = job.commit(here(job.plan.tasks))
    file.write_bytes(data)
    assert not result.ok
    (failed,) = [entry for entry in result.entries if entry["state"] == "failed"]
    assert result.states == {"failed": 1, "ready for cleaning": 2}
    assert str(file) in failed["reason"]
    assert [rows(place) for place in places] == before


def test_a_place_that_changes_meanwhile_is_a_conflict(place: Path) -> None:
    with table(place).compaction("major") as job:
        results = here(job.plan.tasks)
        delta = next(place.glob("delta_*"))
        delta.rename(place / f"_{delta.name}")
        (entry,) = job.commit(results).entries
    assert entry["state"] == "conflict"
    (place / f"_{delta.name}").rename(delta)
    assert not [name for name in names(place) if name.startswith("base_")]
