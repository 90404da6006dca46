"""Where the tasks of a Python program run: in processes of its own, until they are too large for these."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Any

import pytest
from process_tasks import where
from runners import ThreadRunner

from acidlib.config.settings import Layer, default_settings
from acidlib.errors import AcidError, RetryError, UsageError
from acidlib.execute.in_process import MAX_PROCESSES, InProcessRunner, open_runner, usable_processes
from acidlib.execute.task import Application, Task


class Spark(ThreadRunner):
    """Stands for a runner on Spark, and counts its starts and ends."""

    application = Application(id="app", tracking_url="http://app")

    def __init__(self, error: AcidError | None = None) -> None:
        super().__init__(slots=50)
        self.error = error
        self.starts = self.ends = 0

    def start(self) -> None:
        self.starts += 1
        if self.error is not None:
            raise self.error

    @contextmanager
    def opened(self) -> Any:
        yield self
        self.ends += 1


def test_small_work_is_done_here_and_all_after_a_large_one_on_spark() -> None:
    spark, lines = Spark(), []
    with InProcessRunner(spark.opened, most_bytes=100, processes=3, on_start=lines.append) as runner:
        runner.start()
        assert (runner.slots, runner.application, spark.starts) == (3, Application(), 0)
        answers = runner.run_batches([[Task(where, 40)], [Task(where, 0), Task(where, 60)]], group="small")
        assert [len(batch) for batch in answers] == [1, 2]
        assert os.getpid() not in {pid for batch in answers for pid, _, _ in batch}
        assert (spark.starts, lines) == (0, [])
        (((pid, _, _),),) = runner.run_batches([[Task(where, 1)]], group="large")
        assert pid == os.getpid(), "the stand-in for Spark has threads"
        assert lines == ["starting Spark: its tasks have 101 bytes of input so far, more than 100 bytes"]
        runner.run_batches([[Task(where, 0)]], group="small again")
        assert [group for group, _ in spark.jobs] == ["large", "small again"]
        assert (runner.slots, runner.application, spark.starts, spark.ends) == (50, spark.application, 1, 0)
        runner.cancel()
        assert spark.cancelled.is_set()
    assert spark.ends == 1


def test_with_a_limit_of_nothing_all_is_done_on_spark() -> None:
    spark = Spark()
    with InProcessRunner(spark.opened, most_bytes=0, processes=1) as runner:
        runner.run_batches([[Task(where, 0)]], group="small")
    assert (spark.starts, spark.ends) == (1, 1)


def test_a_spark_that_does_not_start_is_started_once() -> None:
    spark = Spark(RetryError("Cannot start Spark: no Java"))
    with InProcessRunner(spark.opened, most_bytes=1, processes=1) as runner:
        for _ in range(2):
            with pytest.raises(RetryError, match="no Java"):
                runner.run_batches([[Task(where, 2)]], group="large")
    assert (spark.starts, spark.ends) == (1, 1)


def test_without_a_session_the_setting_is_the_limit() -> None:
    settings, _ = default_settings().with_layer(Layer.COMMAND_LINE, {"acidlib.in.process.bytes": "3k"})
    with open_runner(name="n", conf={}, settings=settings) as runner:
        assert isinstance(runner, InProcessRunner)
        assert runner._most_bytes == 3 << 10
        assert 1 <= runner.slots == usable_processes() <= MAX_PROCESSES


def test_what_is_no_session_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Cannot use spark='local': it is no SparkSession and no SparkContext"):
        open_runner(name="n", conf={}, session="local", settings=default_settings())
