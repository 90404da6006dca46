"""A file system that does not answer at one place: the run goes on with the others, and a signal ends it all the same.

What hangs is the opening of a named pipe that nothing writes to: no signal and no time ends it.
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from claim_directories import age_claim
from judges import merge
from runners import ThreadRunner

from acidlib.documents import ROOT
from acidlib.execute.in_process import InProcessRunner
from acidlib.stores.store import CLAIM
from acidlib.waiting import asking
from integration import spark_tasks
from integration.harness import Jobs, fixture, names, use_runner, visible
from integration.test_one_place import BAD, CLEANER, GOOD, INITIATOR, NAMED, ORPHANS, RUN

BRIEF = ("--set", "acidlib.step.timeout=1s")
CASES = [
    (INITIATOR, "places.listing:list_location"),
    (INITIATOR, "runs.initiate:refused_now"),
    (NAMED, "places.listing:list_location"),
    (NAMED, "runs.compact:list_location"),
    (NAMED, "runs.compact:choose_inputs"),
    (CLEANER, "runs.clean:list_location"),
    (ORPHANS, "runs.orphans:find_unclaimed"),
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return fixture("hive3/b_part", tmp_path / "wh" / "db.db" / "b_part")


class Pipe:
    """A named pipe; threads that open it wait until the end of the test."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self.waiting: list[threading.Thread] = []

    def open(self) -> None:
        self.waiting.append(threading.current_thread())
        os.close(os.open(self.path, os.O_RDONLY))

    def answer(self) -> None:
        """Let all go on, and wait for their ends."""
        while any(thread.is_alive() for thread in self.waiting):
            end = os.open(self.path, os.O_RDWR)
            time.sleep(0.01)
            os.close(end)


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    found = Pipe(tmp_path / "pipe")
    yield found
    found.answer()


def hang_at(monkeypatch: pytest.MonkeyPatch, name: str, pipe: Pipe) -> None:
    """Have a function of the engine wait at the place for an answer that does not come."""
    module, _, function = name.partition(":")
    owner: Any = importlib.import_module(f"acidlib.{module}")
    real = getattr(owner, function)

    def hanging(*arguments: Any, **more: Any) -> Any:
        if BAD in repr(arguments):
            with asking("list", f"/…/{BAD}"):
                pipe.open()
        return real(*arguments, **more)

    monkeypatch.setattr(owner, function, hanging)


@pytest.mark.parametrize(("case", "name"), [pytest.param(*case, id=f"{case[0][2]} {case[1]}") for case in CASES])
def test_the_others_are_done(
    jobs: Jobs,
    table: Path,
    monkeypatch: pytest.MonkeyPatch,
    pipe: Pipe,
    case: tuple[Callable[[Jobs, Path], None], tuple[str, ...], str, str],
    name: str,
) -> None:
    before, (job, *words), entries, well = case
    rows = merge.read(table / BAD, strict=False)
    before(jobs, table)
    use_runner(monkeypatch, ThreadRunner())
    hang_at(monkeypatch, name, pipe)
    if job != "cleaner" or "--orphans" in words:
        words += ["--location", str(table), *(() if job == "cleaner" else RUN)]
    ran = jobs(job, *words, *BRIEF)
    found = {entry["partition"]: entry for entry in ran.document[entries]}
    assert ran.status == 3, ran
    state = "outcome" if job == "initiator" else "state"
    assert found[GOOD][state] == well
    assert found[BAD][state] == "failed"
    assert found[BAD]["reason"].startswith(f"Cannot list /…/{BAD}: there has been no answer for")
    assert "acidlib.step.timeout" in found[BAD]["reason"]
    before_answer = visible(table / BAD)
    is_claimed = CLAIM in names(table / BAD)
    assert is_claimed == (
        name in ("runs.compact:list_location", "runs.compact:choose_inputs", "runs.clean:list_location")
    )
    pipe.answer()
    assert visible(table / BAD) == before_answer, "a run that was left changes nothing any more"
    assert merge.read(table / BAD, strict=False) == rows


def others_are_done_where_a_task_hangs(jobs: Jobs, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the processes of a runner: the place of that task has failed, its claim is left, its rows are as before."""
    before, rows = visible(table / BAD), merge.read(table / BAD, strict=False)
    monkeypatch.setattr("acidlib.runs.plan.run_unit_task", spark_tasks.some_hang)
    ran = jobs("major_compact", "--location", table, *RUN, *BRIEF)
    assert ran.status == 3, ran
    found = {entry["partition"]: entry for entry in ran.compactions}
    assert {name: entry["state"] for name, entry in found.items()} == {
        BAD: "failed", GOOD: "ready for cleaning", "dt=2024-01-03": "ready for cleaning",
    }  # fmt: skip
    pipe = table.parents[2] / "pipe"
    assert found[BAD]["reason"].startswith(f"Cannot read {pipe}: there has been no answer for ")
    assert CLAIM in names(table / BAD), "it goes stale"
    end = os.open(pipe, os.O_RDWR)
    time.sleep(0.5)
    os.close(end)
    assert (visible(table / BAD), merge.read(table / BAD, strict=False)) == (before, rows)
    monkeypatch.undo()
    age_claim(table / BAD, 3600)
    assert jobs.good("major_compact", "--location", table, *RUN).states.count("ready for cleaning") == 1
    assert merge.read(table / BAD, strict=True) == rows


def test_where_a_task_hangs_the_others_are_done(
    jobs: Jobs, table: Path, monkeypatch: pytest.MonkeyPatch, pipe: Pipe
) -> None:
    del pipe  # it is there
    with InProcessRunner(no_spark, most_bytes=1 << 40, processes=2) as runner, monkeypatch.context() as patch:
        use_runner(patch, runner)
        others_are_done_where_a_task_hangs(jobs, table, patch)


def no_spark() -> Any:
    raise AssertionError("the input is small")


def test_of_tables_the_others_are_found(jobs: Jobs, table: Path, monkeypatch: pytest.MonkeyPatch, pipe: Pipe) -> None:
    fixture("hive3/a_crud", table.parent / "a_crud")
    monkeypatch.setattr("integration.test_hanging.BAD", "b_part")
    hang_at(monkeypatch, "stores.discover:_content", pipe)
    ran = jobs("initiator", "--warehouse", table.parent.parent, *RUN, "--yes", *BRIEF)
    assert ran.status == 3
    told = {entry["table"]: entry for entry in ran.document["decisions"]}
    assert told.keys() == {"a_crud", "b_part"}
    assert told["b_part"]["outcome"] == "failed"
    assert "there has been no answer for" in told["b_part"]["reason"]


STUCK = """
import os, sys
import acidlib.places.listing as listing
from acidlib.cli.jobs import initiator

real = listing.list_location
def waiting(fs, location, **more):
    if "dt=2024-01-01" in str(location):
        print("waits", file=sys.stderr, flush=True)
        os.open(sys.argv[1], os.O_RDONLY)
    return real(fs, location, **more)
listing.list_location = waiting
initiator.main(sys.argv[2:])
"""


def test_a_signal_ends_a_run_whatever_its_threads_wait_for(table: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    words = ["--location", str(table), *RUN, "--queue-url", f"sqlite:///{tmp_path / 'q.db'}", *BRIEF]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "ACIDLIB_HOME": str(tmp_path / "home")}
    with subprocess.Popen(
        [sys.executable, "-c", STUCK, str(tmp_path / "pipe"), *words],
        stderr=subprocess.PIPE, text=True, env=environment,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            if line == "waits\n":
                break
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(120) == 143
        finally:
            process.kill()
