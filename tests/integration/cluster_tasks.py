"""What tests run on the executors of a cluster in place of the unit task; each leaves marks beside the table.

A table lies right below the directory of its test.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path

from pyspark import TaskContext
from servers.spark import is_executor

from acidlib.errors import AcidError
from acidlib.execute.tasks import AnyUnit, run_part_task, run_unit_task
from acidlib.model.units import UnitResult
from acidlib.points import KILL_AT, Point
from acidlib.rewrite.bucket import BucketPlan, PartResult
from acidlib.stores.stores import Stores
from integration.spark_tasks import in_the_middle

SLOW = "bucket_00000"
"""The file whose first attempt is slow."""
_PATIENCE_SECONDS = 120.0
_C = ctypes.CDLL(None)


def mark(staging: str | None, name: str) -> Path:
    """Where a mark of this name lies."""
    assert staging is not None
    return Path(staging).parents[1] / name


def put(path: Path, text: str = "") -> None:
    """A mark that is there with its text, or not at all."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.write_text(text)
    half.replace(path)


def patient(path: Path) -> None:
    """Waits for a mark, or for as long as no test takes."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.02)


def chosen(staging: str | None) -> bool:
    """Whether this attempt is the one to die. All others wait until it does, so that none is faster than it."""
    try:
        mark(staging, "chosen").touch(exist_ok=False)
    except FileExistsError:
        patient(mark(staging, "dying"))
        return False
    return True


def executor() -> int:
    """The process of the JVM that runs this task."""
    pid = os.getpid()
    while not is_executor(pid):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        assert pid > 1, "no executor above this process"
    return pid


def kill_executor() -> None:
    """Ends the JVM that runs this task, as an out-of-memory killer would."""
    os.kill(executor(), signal.SIGKILL)


def worker_killed(made: AnyUnit, staging: str | None, stores: Stores, attempt: str) -> UnitResult:
    """The Python process of the first attempt dies in the middle of its file."""
    if not chosen(staging):
        return run_unit_task(made, staging, stores, attempt)
    os.environ[KILL_AT] = Point.WRITTEN
    with in_the_middle(lambda: put(mark(staging, "dying"))):
        return run_unit_task(made, staging, stores, attempt)


def executor_killed_once(
    made: AnyUnit | BucketPlan, staging: str | None, stores: Stores, attempt: str
) -> UnitResult | PartResult:
    """The executor of the first attempt dies in the middle of its file, which may be a part of one."""
    if not chosen(staging):
        return _run(made, staging, stores, attempt)
    with in_the_middle(lambda: die(staging)):
        return _run(made, staging, stores, attempt)


def _run(made: AnyUnit | BucketPlan, staging: str | None, stores: Stores, attempt: str) -> UnitResult | PartResult:
    if isinstance(made, BucketPlan):
        assert staging is not None
        return run_part_task(made, staging, stores, attempt)
    return run_unit_task(made, staging, stores, attempt)


def executor_killed(made: AnyUnit, staging: str | None, stores: Stores, attempt: str) -> UnitResult:
    """The executor of every attempt dies in the middle of its file, and leaves its name; see `killed`."""
    context = TaskContext.get()
    assert context is not None
    number = f"{context.stageId()} {context.partitionId()} {context.attemptNumber()}"
    with in_the_middle(lambda: (put(mark(staging, f"killed {number}"), str(executor())), die(staging))):
        return run_unit_task(made, staging, stores, attempt)


def killed(place: Path) -> list[tuple[int, int, int]]:
    """The executors that died at a table: stage and partition of the task, and the process."""
    found = []
    for path in place.parent.glob("killed *"):
        stage, partition, _ = map(int, path.name.split()[1:])
        found.append((stage, partition, int(path.read_text())))
    return found


def die(staging: str | None) -> None:
    """Ends the executor; its Python processes are hung up by their daemon."""
    put(mark(staging, "dying"))
    kill_executor()
    time.sleep(_PATIENCE_SECONDS)


def outlived(made: AnyUnit, staging: str | None, stores: Stores, attempt: str) -> UnitResult:
    """As `executor_killed_once`, and its Python process goes on when it is told to, and tries once more."""
    if not chosen(staging):
        return run_unit_task(made, staging, stores, attempt)
    _C.signal(signal.SIGHUP, ctypes.c_void_p(int(signal.SIG_IGN)))  # Python's own call is for main threads

    def orphaned() -> None:
        put(mark(staging, "dying"))
        kill_executor()
        patient(mark(staging, "go on"))

    try:
        with in_the_middle(orphaned):
            told = str(run_unit_task(made, staging, stores, attempt))
    except AcidError as error:
        told = str(error)
    try:
        again = str(run_unit_task(made, staging, stores, f"{attempt}-again"))
    except AcidError as error:
        again = str(error)
    put(mark(staging, "outlived"), f"{told}\n{again}")
    os._exit(0)  # there is nobody to tell


def slow_at_first(made: AnyUnit, staging: str | None, stores: Stores, attempt: str) -> UnitResult:
    """The first attempt of one file stays in the middle of it; the next waits until it is there."""
    number = _number(made)
    if number != 0:
        if number is not None:
            patient(mark(staging, "slow"))
        return run_unit_task(made, staging, stores, attempt)

    def stay() -> None:
        put(mark(staging, "slow"), str(os.getpid()))
        time.sleep(_PATIENCE_SECONDS)

    with in_the_middle(stay):
        return run_unit_task(made, staging, stores, attempt)


def finished_twice(made: AnyUnit, staging: str | None, stores: Stores, attempt: str) -> UnitResult:
    """Each of the first two attempts of one file is whole before the other one returns."""
    result, number = run_unit_task(made, staging, stores, attempt), _number(made)
    if number is not None:
        put(mark(staging, f"whole {number}"), attempt)
        patient(mark(staging, f"whole {1 - number}"))
    return result


def _number(made: AnyUnit) -> int | None:
    """Which attempt this is at the file of which there are two; 0 is the first."""
    context = TaskContext.get()
    assert context is not None
    return context.attemptNumber() if made.file_name == SLOW else None
