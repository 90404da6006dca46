"""A Python program that compacts a table, for tests that interrupt it: in its own process, or on a session it has.

Arguments: `process` or `session`, the table, the URL of the queue, and the file that says that a task is at work.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import acidlib
from acidlib.errors import AcidError
from acidlib.service import plan
from acidlib.service.tasks import run_unit_task

IN_PROCESS_SECONDS, ON_SPARK_SECONDS = 1.0, 120.0
"""How long a task takes: a thread goes on to the end of its task, a task of Spark is ended."""


def slow(begun: str, seconds: float, *arguments: Any) -> Any:
    """Rewrite, but say so first, and take long."""
    Path(begun).touch()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.05)
    return run_unit_task(*arguments)


def interrupted(compact: Callable[[], object]) -> str:
    """Return what the interrupt says that stops a compaction."""
    try:
        compact()
    except KeyboardInterrupt as stop:
        return f"interrupted: {stop}"
    return "to its end"


def main() -> None:
    """Compact with a slow task, which is interrupted; then do it again."""
    way, location, queue, begun = sys.argv[1:]
    session = None
    if way == "session":
        from pyspark.sql import SparkSession

        session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        session.sparkContext.setJobGroup("theirs", "a job of theirs")
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    table = acidlib.directory(location, all_committed=True, queue=queue)
    seconds = IN_PROCESS_SECONDS if session is None else ON_SPARK_SECONDS
    plan.run_unit_task = partial(slow, begun, seconds)
    print(interrupted(lambda: table.compact("major", spark=session, progress=False)), flush=True)
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    plan.run_unit_task = run_unit_task
    print("left:", sorted(path.name for path in Path(location).iterdir() if path.name[0] in "_."), flush=True)
    try:
        done = table.compact("major", spark=session, progress=False)
        print("then:", [entry["state"] for entry in done.entries], flush=True)
    except AcidError as error:
        print("then:", error, flush=True)
    if session is not None:
        context = session.sparkContext
        print(
            "group:",
            context.getLocalProperty("spark.jobGroup.id"),
            "rows:",
            context.parallelize(range(5)).count(),
            flush=True,
        )


if __name__ == "__main__":
    main()
