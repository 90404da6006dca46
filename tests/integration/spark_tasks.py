"""What tests run on Spark's workers in place of the unit task; each leaves marks beside the staging directory.

It imports little: each worker that is made anew imports it, and there are many where tests kill them.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import TaskContext

from acidlib.errors import RetryError
from acidlib.execute.tasks import AnyUnit, run_unit_task
from acidlib.model.units import UnitResult
from acidlib.points import Point
from acidlib.rewrite import bucket
from acidlib.stores.stores import Stores
from acidlib.waiting import asking


def _beside(staging: str | None, name: str) -> Path:
    assert staging is not None
    return Path(staging).parent / name


@contextmanager
def in_the_middle(act: Callable[[], None]) -> Iterator[None]:
    """Do something after the first stripe of a file, of which more are to come."""
    reach = bucket.reach

    def passed(point: Point) -> None:
        if point is Point.WRITTEN:
            bucket.reach = reach
            act()
        reach(point)

    bucket.reach = passed
    try:
        yield
    finally:
        bucket.reach = reach


def killed_once(made: AnyUnit, staging: str | None, stores: Stores, attempt: str) -> UnitResult:
    """The worker process dies at the first try, after it has written its file."""
    mark = _beside(staging, "_killed_once")
    if not mark.exists():
        mark.touch()
        run_unit_task(made, staging, stores, attempt)
        os.kill(os.getpid(), 9)
    return run_unit_task(made, staging, stores, attempt)


def always_killed(made: AnyUnit, staging: str | None, stores: Stores, attempt: str) -> UnitResult:
    """The worker process dies whenever it tries."""
    os.kill(os.getpid(), 9)
    return run_unit_task(made, staging, stores, attempt)


def some_killed(made: AnyUnit, staging: str | None, stores: Stores, attempt: str) -> UnitResult:
    """The worker process dies whenever it tries to do one of the partitions."""
    if "dt=2024-01-02" in str(staging):
        os.kill(os.getpid(), 9)
    return run_unit_task(made, staging, stores, attempt)


def some_hang(made: AnyUnit, staging: str | None, stores: Stores, attempt: str) -> UnitResult:
    """At one of the partitions a file system does not answer: a named pipe that nothing writes to."""
    if staging is not None and "dt=2024-01-01" in staging:
        pipe = next(path / "pipe" for path in Path(staging).parents if (path / "pipe").exists())
        with asking("read", str(pipe)):
            os.close(os.open(pipe, os.O_RDONLY))
    return run_unit_task(made, staging, stores, attempt)


def done_twice(made: AnyUnit, staging: str | None, stores: Stores, attempt: str) -> UnitResult:
    """A second attempt does the same, as under speculation, and one that is not finished has left its half."""
    run_unit_task(made, staging, stores, f"{attempt}-other")
    assert staging is not None
    (Path(staging) / "_attempts" / f"{made.directory}.{made.file_name}.half").write_bytes(b"ORC")
    return run_unit_task(made, staging, stores, attempt)


def described(made: AnyUnit, staging: str | None, stores: Stores, attempt: str) -> UnitResult:
    """Notes what Spark calls the job it belongs to, and in which pool it is."""
    context = TaskContext.get()
    assert context is not None
    keys = ("spark.job.description", "spark.jobGroup.id", "spark.scheduler.pool")
    names = [context.getLocalProperty(key) or "" for key in keys]
    _beside(staging, "_described").write_text("\n".join(names))
    return run_unit_task(made, staging, stores, attempt)


def never_done(made: AnyUnit, staging: str | None, stores: Stores, attempt: str) -> UnitResult:
    """Says that it is in the middle of its file, and does not end."""

    def stay() -> None:
        _beside(staging, "_begun").touch()
        time.sleep(300)

    with in_the_middle(stay):
        return run_unit_task(made, staging, stores, attempt)


# --- of their own, without a unit -------------------------------------------------------------------------------------


def fatal(item: int, attempt: str) -> int:
    """The worker process dies of odd numbers."""
    if item % 2:
        os.kill(os.getpid(), 9)
    return item


def broken(item: int, attempt: str) -> str:
    """Says which item it was, and by which attempt; with some it fails."""
    if item == 3:
        raise RetryError(f"Cannot do {item}: the test says so")
    if item == 4:
        raise IndexError(item)
    return f"{item * 2} {attempt}"


def what_was_loaded(attempt: str) -> tuple[bool, bool]:
    """Whether the worker process knew all before it was made, and whether garbage collections pass over that."""
    return "acidlib.rewrite.warm" in sys.modules, gc.get_freeze_count() > 0
