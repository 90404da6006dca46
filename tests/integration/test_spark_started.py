"""A program without a session: large work starts one, runs at the same time share it, and the last one ends it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from judges import merge
from pyspark import SparkContext
from servers.java import SMALL

import acidlib
from acidlib.execute.spark import SparkRunner
from acidlib.execute.task import Task
from integration.harness import SMALL_CONF, TASKS_PATH, Jobs, fixture, set_in_jvm
from integration.test_programs import at_once

pytestmark = pytest.mark.spark
CONF = {**SMALL_CONF, "spark.master": "local[2]"}


@pytest.fixture(autouse=True)
def small_spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What spark-submit or an environment says about Spark."""
    words = " ".join(f"--conf '{name}={text}'" for name, text in CONF.items())
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{words} pyspark-shell")
    monkeypatch.setenv("SPARK_LAUNCHER_OPTS", " ".join(SMALL))
    monkeypatch.setenv("PYTHONPATH", TASKS_PATH)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    set_in_jvm(CONF)
    yield
    set_in_jvm({})


def test_runs_at_the_same_time_share_a_context_and_the_last_one_stops_it() -> None:
    assert SparkContext._active_spark_context is None
    handler = signal.getsignal(signal.SIGINT)
    first, second = SparkRunner(name="one", conf=dict(CONF)), SparkRunner(name="two", conf=dict(CONF))
    with second:
        with first:
            first.start()
            second.start()
            assert first.application == second.application
        ((answer,),) = second.run_batches([[Task(str.isalpha, 0)]], group="goes on after the first one's end")
        assert answer is False
        context = SparkContext._active_spark_context
        assert context is not None
        assert context.applicationId == second.application.id
    assert SparkContext._active_spark_context is None
    assert signal.getsignal(signal.SIGINT) is handler
    assert "PYSPARK_PYTHON" not in os.environ


def test_threads_start_one_session_for_large_work(jobs: Jobs, tmp_path: Path) -> None:
    places = [fixture("hive3/b_part", tmp_path / f"w{number}" / "db.db" / "part") for number in range(2)]
    rows = [{path.name: merge.read(path) for path in place.iterdir()} for place in places]
    tables = [
        acidlib.directory(place, all_committed=True, queue=jobs.queue_url, settings={"acidlib.in.process.bytes": "1"})
        for place in places
    ]
    results = at_once(*(lambda table=table: table.compact("major", progress=False) for table in tables))
    assert [result.ok for result in results] == [True, True]
    assert all(result.to_dict()["application_id"].startswith("local-") for result in results)
    assert [{path.name: merge.read(path, strict=True) for path in place.iterdir()} for place in places] == rows
    assert SparkContext._active_spark_context is None
