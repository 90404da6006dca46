"""A Python program that compacts a table in its process, for tests that interrupt it.

Arguments: the table, the URL of the queue, and the file that says that a task is at work.
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
from acidlib.execute.task_processes import TaskProcesses
from acidlib.execute.tasks import run_unit_task
from acidlib.runs import plan

TASK_SECONDS = 300.0
"""How long a task takes that an interrupt ends."""


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


def end_later(
    told: Path, processes: TaskProcesses, cancel: Callable[[TaskProcesses], None] = TaskProcesses.cancel
) -> None:
    """End tasks once all interrupts have come."""
    while not told.exists():
        time.sleep(0.05)
    cancel(processes)


def main() -> None:
    """Compact with a slow task, which is interrupted; then do it again."""
    location, queue, begun = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell ignores for what it runs in the background
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    table = acidlib.directory(location, all_committed=True, queue=queue)
    from integration import program  # this file as a module, which processes of tasks find

    plan.run_unit_task = partial(program.slow, begun, TASK_SECONDS)
    told = Path(f"{begun} and interrupted")
    TaskProcesses.cancel = lambda processes: end_later(told, processes)  # type: ignore[method-assign]
    print(interrupted(lambda: table.compact("major", progress=False)), flush=True)
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    plan.run_unit_task = run_unit_task
    print("left:", sorted(path.name for path in Path(location).iterdir() if path.name[0] in "_."), flush=True)
    try:
        done = table.compact("major", progress=False)
        print("then:", [entry["state"] for entry in done.entries], flush=True)
    except AcidError as error:
        print("then:", error, flush=True)


if __name__ == "__main__":
    main()
