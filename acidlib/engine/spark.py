"""Running units as Spark tasks. The only module that imports pyspark."""

from __future__ import annotations

import os
import re
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, TypeVar

from pyspark import SparkConf, SparkContext, TaskContext
from pyspark.util import InheritableThread

from acidlib.engine.runner import Done, attempt
from acidlib.errors import RetryError

Value = TypeVar("Value")

_POLL_SECONDS = 0.2
_MOST_TASKS = 10_000
_LONGEST_MESSAGE = 300
_MOST_GIVEN_UP = 24
_PACKAGES = re.compile(r"^:?\s*(?:\w+\.)+(?=\w+: )")
"""What stands before the name of an exception of Java's."""
_GATEWAY = "PYSPARK_GATEWAY_PORT"
"""Set for the driver by spark-submit."""
_HADOOP = "spark.hadoop."


class SparkRunner:
    """Runs each item as one task; results come back as values.

    Retries and speculation are harmless: an attempt writes under a name of its own, and Spark hands over one result
    per task. `context` is asked for when there is something to run.
    """

    def __init__(self, context: Callable[[], SparkContext]) -> None:
        self._context = context

    def run(
        self,
        work: Callable[[Any, str], Value],
        items: Sequence[Any],
        *,
        group: str,
        on_progress: Callable[[int], None],
    ) -> list[Done[Value]]:
        """See Runner. What Spark gives up is done again in halves, until an item that it gives up is alone in its job.

        So one bucket that no worker survives takes no other with it. Where nothing goes any more, each of a few tries
        fails, and with them what is left.
        """
        tries = [_MOST_GIVEN_UP]

        def halved(some: Sequence[Any], before: int) -> list[Done[Value]]:
            try:
                return self._one_job(work, some, group, lambda done: on_progress(before + done))
            except RetryError as error:
                tries[0] -= 1
                if len(some) == 1 or tries[0] <= 0:
                    return [Done(outcome=error)] * len(some)
            middle = len(some) // 2
            return halved(some[:middle], before) + halved(some[middle:], before + middle)

        return halved(items, 0)

    def _one_job(
        self, work: Callable[[Any, str], Value], items: Sequence[Any], group: str, on_progress: Callable[[int], None]
    ) -> list[Done[Value]]:
        """All items as one job. RetryError when Spark gives it up."""
        if not items:
            return []
        group_id = f"{group} {uuid.uuid4().hex[:8]}"
        found: list[Done[Value]] = []
        failure: list[Exception] = []
        context = self._context()

        def job() -> None:
            context.setJobGroup(group_id, group, interruptOnCancel=True)
            context.setLocalProperty("callSite.short", group)
            try:
                slices = min(len(items), _MOST_TASKS)
                found.extend(context.parallelize(items, slices).mapPartitions(_attempts(work)).collect())
            except Exception as error:  # raised in the caller's thread below
                failure.append(error)

        thread = InheritableThread(target=job, name="acidlib-job", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_POLL_SECONDS)
                on_progress(_tasks_done(context, group_id))
        except BaseException:
            context.cancelJobGroup(group_id)
            raise
        if failure:
            raise RetryError(
                f"Cannot finish {group}: because Spark gave it up: {_first_line(failure[0])}"
            ) from failure[0]
        on_progress(len(items))
        return found


def _tasks_done(context: SparkContext, group_id: str) -> int:
    tracker = context.statusTracker()
    done = 0
    for job in tracker.getJobIdsForGroup(group_id):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            stage_info = tracker.getStageInfo(stage)
            done += stage_info.numCompletedTasks if stage_info is not None else 0
    return done


def _attempts(work: Callable[[Any, str], Value]) -> Callable[[Iterable[Any]], Iterator[Done[Value]]]:
    def run(items: Iterable[Any]) -> Iterator[Done[Value]]:
        context = TaskContext.get()
        number = context.taskAttemptId() if context is not None else 0
        for item in items:
            yield attempt(work, item, f"{number}-{uuid.uuid4().hex[:8]}")

    return run


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.strip().startswith("at ")]
    named = [line for line in lines if "Error: " in line or "Exception: " in line]
    return _PACKAGES.sub("", (named or lines or [type(error).__name__])[-1])[:_LONGEST_MESSAGE]


def hadoop_properties() -> dict[str, str]:
    """What the configuration of Spark says of Hadoop (`spark.hadoop.*`), without the prefix; starts no context."""
    if _GATEWAY in os.environ:
        SparkContext._ensure_initialized()
    given = SparkConf().getAll()
    return {key.removeprefix(_HADOOP): value for key, value in given if key.startswith(_HADOOP)}


class SparkSession:
    """A Spark context for one run of a job, started when something has to run on it.

    So what cannot be done is refused before that. Options and defaults of spark-submit win over `conf`.
    """

    def __init__(self, *, name: str, conf: dict[str, str]) -> None:
        submitted = _GATEWAY in os.environ
        if submitted:
            SparkContext._ensure_initialized()  # or the configuration knows nothing of spark-submit's
        self._conf = SparkConf().setAppName(name)
        for key, value in conf.items():
            if not submitted or not self._conf.contains(key):
                self._conf.set(key, value)
        self._context: SparkContext | None = None
        self._lock = threading.Lock()

    def _started(self) -> SparkContext:
        with self._lock:
            if self._context is not None:
                return self._context
            if str(self._conf.get("spark.master", "local[*]")).startswith("local"):
                # workers on this machine need this environment, and Spark would look for any python3
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            self._context = SparkContext.getOrCreate(self._conf)
            self._context.setLogLevel("ERROR")
            return self._context

    def __enter__(self) -> SparkRunner:
        return SparkRunner(self._started)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._context is not None:
            self._context.stop()
