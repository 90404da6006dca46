"""The runner of a Python program: its Spark session, or processes of its own, and a session started for large work."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from sys import maxsize
from threading import Lock
from types import TracebackType
from typing import Any, Self

from acidlib.config.settings import Settings
from acidlib.errors import AcidError
from acidlib.execute.task import Application, Runner, Task
from acidlib.execute.task_processes import TaskProcesses
from acidlib.planning.units import spark_needed_reason

IN_PROCESS_BYTES = "acidlib.in.process.bytes"
MAX_PROCESSES = 4
"""Each has the memory of a task, on the machine of a program that works beside them."""


def open_runner(
    *,
    name: str,
    conf: Mapping[str, str],
    session: Any = None,
    settings: Settings,
    may_start_spark: bool = True,
    on_start: Callable[[str], None] = lambda _: None,
) -> AbstractContextManager[Runner]:
    """Return the runner of one run in a Python program, as a context manager.

    name, conf  of the Spark application that a large run starts
    session     a SparkSession or SparkContext of the program, which is as it was afterwards; None = it has none
    settings    of the run: they say how much of it this machine works on before it starts Spark
    may_start_spark  it may do so: all large tasks of a run are its own
    on_start    gets a line with the reason when the run starts Spark

    Raises RefusedError for a session that cannot run tasks, and where its executors have no or another acidlib: before
    any work, when the runner is made or entered; UsageError for a value that is no session.
    """
    if session is not None:
        from acidlib.execute.spark import SessionRunner

        return SessionRunner(session)

    def start_spark() -> AbstractContextManager[Runner]:
        from acidlib.execute.spark import SparkRunner

        return SparkRunner(name=name, conf=dict(conf))

    most_bytes = settings.integer(IN_PROCESS_BYTES) if may_start_spark else maxsize
    return InProcessRunner(start_spark, most_bytes=most_bytes, processes=usable_processes(), on_start=on_start)


def usable_processes() -> int:
    """Return the number of processes for tasks: one for each processor that this one may use, up to a few."""
    return min(MAX_PROCESSES, len(os.sched_getaffinity(0)))


class InProcessRunner:
    """Runs tasks in processes of this one, until the run has more input than `most_bytes`; from then on, on Spark.

    No task runs in the process of the program itself, which a fault in a library that tasks use, or the lack of memory,
    would end.

    start_spark  makes the runner on Spark
    processes    tasks that run at the same time here
    on_start     gets a line with the reason when Spark is started
    """

    def __init__(
        self,
        start_spark: Callable[[], AbstractContextManager[Runner]],
        *,
        most_bytes: int,
        processes: int,
        on_start: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._start_spark = start_spark
        self._most_bytes = most_bytes
        self._number = processes
        self._on_start = on_start
        self._stack = ExitStack()
        self._processes = self._stack.enter_context(TaskProcesses(processes))
        self._lock = Lock()
        self._bytes = 0
        self._spark: Runner | None = None
        self._unstarted: AcidError | None = None

    @property
    def application(self) -> Application:
        """The application of Spark, if the run has started one."""
        return Application() if self._spark is None else self._spark.application

    @property
    def slots(self) -> int:
        """The processes, or once Spark is started the cores of its executors."""
        return self._number if self._spark is None else self._spark.slots

    def start(self) -> None:
        """Do nothing: processes, or Spark, are started by the first tasks that need them."""

    def run_batches(self, batches: Sequence[Sequence[Task]], *, group: str) -> list[list[Any]]:
        """Run all tasks; see Runner. Raises RetryError if Spark is needed and does not start."""
        spark = self._spark_for(sum(task.length for batch in batches for task in batch))
        if spark is not None:
            return spark.run_batches(batches, group=group)
        return self._processes.run_batches(batches, group=group)

    def cancel(self) -> None:
        """Begin no further task, and end those that run, here and on Spark."""
        self._processes.cancel()
        if self._spark is not None:
            self._spark.cancel()

    def _spark_for(self, more: int) -> Runner | None:
        """Return the runner on Spark for tasks with so much input, started if need be; None = they run here."""
        with self._lock:
            if self._unstarted is not None:
                raise self._unstarted
            if self._spark is None:
                reason = spark_needed_reason(self._bytes, more, most=self._most_bytes)
                self._bytes += more
                if reason is None:
                    return None
                self._on_start(f"starting Spark: {reason}")
                try:
                    spark = self._stack.enter_context(self._start_spark())
                    spark.start()
                except AcidError as error:
                    self._unstarted = error
                    raise
                self._spark = spark
            return self._spark

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
