"""Verbs in the process of a Python program: Ctrl-C, and several threads at once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from judges import merge, tables
from long_runs import amount

import acidlib
from acidlib.runs import plan
from integration import spark_tasks
from integration.harness import TASKS_PATH, Jobs, fixture, names, visible

PROGRAM = Path(__file__).with_name("program.py")


def interrupted(table: Path, queue_url: str, *, times: int) -> list[str]:
    """What a program says that gets SIGINT while a task is at work, as by Ctrl-C in a notebook."""
    begun = table.parent / "begun"
    variables = os.environ | {"PYTHONPATH": TASKS_PATH}
    process = subprocess.Popen(
        [sys.executable, PROGRAM, str(table), queue_url, str(begun)],
        env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not begun.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    Path(f"{begun} and interrupted").touch()
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out.splitlines()


@pytest.mark.parametrize("times", amount([3], long=[1, 3]))
def test_an_interrupt_gives_everything_back_and_the_program_goes_on(jobs: Jobs, tmp_path: Path, times: int) -> None:
    table = fixture("hive3/a_crud", tmp_path / "db.db" / "crud")
    rows = merge.read(table)
    lines = interrupted(table, jobs.queue_url, times=times)
    assert lines == [
        "interrupted: of 1 place 1 stopped",
        "left: []",
        "then: ['ready for cleaning']",
    ]
    assert [row["state"] for row in jobs.shown().values()] == ["ready for cleaning"], "the request was withdrawn"
    assert merge.read(table, strict=True) == rows
    assert names(table / "base_0000004") == ["_metadata_acid", "_orc_acid_version", "bucket_00000"]


@pytest.fixture
def queue_url(jobs: Jobs) -> str:
    return jobs.queue_url


def at_once(*works: Callable[[], acidlib.Compactions]) -> list[acidlib.Compactions]:
    """The results of verbs that threads call at the same time."""
    all_there = threading.Barrier(len(works), timeout=300)

    def work(call: Callable[[], acidlib.Compactions]) -> acidlib.Compactions:
        all_there.wait()
        return call()

    with ThreadPoolExecutor(len(works)) as pool:
        return [future.result(120) for future in [pool.submit(work, call) for call in works]]


def test_threads_of_a_program_compact_at_the_same_time(queue_url: str, tmp_path: Path) -> None:
    places = [fixture("hive3/b_part", tmp_path / f"w{number}" / "db.db" / "part") for number in range(3)]
    rows = [{path.name: merge.read(path) for path in place.iterdir()} for place in places]
    handler = signal.getsignal(signal.SIGINT)
    tables = [acidlib.directory(place, all_committed=True, queue=queue_url) for place in places]
    results = at_once(*(lambda table=table: table.compact("major", progress=False) for table in tables))
    assert [result.ok for result in results] == [True] * 3
    assert all(result.to_dict()["application_id"] is None for result in results), "small ones start no Spark"
    assert len({result.to_dict()["run_id"] for result in results}) == 3
    assert [{path.name: merge.read(path, strict=True) for path in place.iterdir()} for place in places] == rows
    assert signal.getsignal(signal.SIGINT) is handler


def test_of_threads_at_the_same_place_one_compacts_it(queue_url: str, tmp_path: Path) -> None:
    place = fixture("hive3/a_crud", tmp_path / "db.db" / "crud")
    rows = merge.read(place)
    table = acidlib.directory(place, all_committed=True, queue=queue_url)
    results = at_once(*[lambda: table.compact("major", progress=False)] * 4)
    states = sorted(entry["state"] for result in results for entry in result.entries)
    assert states.count("ready for cleaning") == 1
    assert set(states) <= {"ready for cleaning", "conflict", "already compact"}
    assert merge.read(place, strict=True) == rows
    assert [name for name in visible(place) if name.startswith("base_")] == ["base_0000004"]


def test_a_task_that_ends_its_process_is_the_error_of_its_place_alone(
    queue_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = fixture("hive3/b_part", tmp_path / "db.db" / "part")
    rows = {path.name: merge.read(path) for path in part.iterdir()}
    table = acidlib.directory(part, all_committed=True, queue=queue_url)
    monkeypatch.setattr(plan, "run_unit_task", spark_tasks.some_killed)
    result = table.compact("major", progress=False)
    bad = "dt=2024-01-02"
    states = {entry["partition"]: entry["state"] for entry in result.entries}
    assert states == {name: "failed" if name == bad else "ready for cleaning" for name in rows}
    (reason,) = (entry["reason"] for entry in result.entries if entry["partition"] == bad)
    file = rf"{part}/{bad}/base_\d+/bucket_00000"
    assert re.match(rf"Cannot finish {file} \(rewrite\): its process was ended by SIGKILL; perhaps memory ", reason)
    assert {path.name: merge.read(path, strict=True) for path in part.iterdir()} == rows
    assert list(part.glob("*/_*")) == []


def test_a_second_reader_that_takes_too_much_memory_is_the_error_of_its_place(queue_url: str, tmp_path: Path) -> None:
    """A stripe that is copied is decoded by the second reader alone, which knows no limit."""
    location = tmp_path / "db.db" / "t"
    layout = tables.Layout(batch=64, block=1 << 18)
    for write_id, text in ((1, "x" * 320_000), (2, "y")):
        rows = tables.inserts(write_id, [(text,)] * 1000)
        tables.write_dir(location, tables.delta_name(write_id, write_id), "struct<s:string>", rows, layout)
    before = names(location)
    settings = {"acidlib.task.memory": "16m"}
    table = acidlib.directory(location, all_committed=True, queue=queue_url, settings=settings)
    result = table.compact("major", verify="all", progress=False)
    assert not result.ok
    [entry] = result.entries
    died = f"Cannot finish bucket 0 of {location} (verify): its process was ended by SIGSEGV; perhaps it took more"
    assert died in entry["reason"]
    assert "acidlib.task.memory is 16,777,216" in entry["reason"]
    assert names(location) == before, "nothing was published"
