"""Verbs on a Spark session that the program has: it is as it was afterwards, whatever happened; and without one."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from judges import merge
from pyspark import SparkContext
from pyspark.sql import SparkSession

import acidlib
from acidlib.errors import RefusedError
from acidlib.execute import spark
from acidlib.runs import plan
from integration import spark_tasks
from integration.harness import Jobs, added, fixture, session_of_a_program, tree
from integration.program import slow
from integration.test_programs import at_once

pytestmark = pytest.mark.spark
THEIRS = {
    "spark.app.name": "theirs",
    "spark.default.parallelism": "7",
    "spark.hadoop.fs.trash.interval": "17",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.shuffle.partitions": "3",
}
SLOW_SECONDS = 120.0
"""How long a task takes that an interrupt ends."""


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    """A session with settings and views of its own."""
    with session_of_a_program(THEIRS) as made:
        made.range(3).createOrReplaceTempView("their_view")
        yield made


@pytest.fixture(autouse=True)
def as_it_was(session: SparkSession) -> Iterator[None]:
    """After each test the session is as it was before, and so is the program beside it."""
    context = session.sparkContext
    context.setLocalProperty("spark.scheduler.pool", "their-pool")
    context.setJobGroup("their-group", "their description", interruptOnCancel=True)
    context.addJobTag("their-tag")
    before = state_of(session)
    assert before["local properties"]["spark.scheduler.pool"] == "their-pool"
    yield
    after = state_of(session)
    assert {name: value for name, value in after.items() if value != before[name]} == {}
    assert session.sql("SELECT count(*) FROM their_view").first()[0] == 3


def state_of(session: SparkSession) -> dict[str, Any]:
    """All that a program can see of its session and of this process."""
    context = session.sparkContext
    scala, jvm = context._jsc.sc(), context._jvm
    properties = scala.getLocalProperties()
    writer = jvm.java.io.StringWriter()
    context._jsc.hadoopConfiguration().writeXml(writer)
    return {
        "conf": sorted(context.getConf().getAll()),
        "SQL conf": sorted(map(tuple, session.sql("SET").collect())),
        "Hadoop": writer.toString(),
        "local properties": {
            name: properties.getProperty(name)
            for name in properties.stringPropertyNames()
            if not name.startswith(("callSite", "spark.sql.execution"))
        },
        "log level": jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString(),
        "active jobs": context.statusTracker().getActiveJobsIds(),
        "views": sorted(table.name for table in session.catalog.listTables()),
        "kept RDDs": context._jsc.getPersistentRDDs().size(),
        "stopped": scala.isStopped(),
        "active context": SparkContext._active_spark_context is context,
        "accumulators": context._accumulatorServer.handle_error.__func__,  # type: ignore[union-attr]
        "Python": (context.pythonExec, dict(context.environment), list(context._python_includes)),
        "handlers": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)],
        "variables": {name: text for name, text in os.environ.items() if name != "PYTEST_CURRENT_TEST"},
        "path": list(sys.path),
        "logging": (logging.root.manager.disable, logging.root.level, list(logging.root.handlers)),
    }


def table_of(place: Path, jobs: Jobs, **settings: str) -> acidlib.Table:
    return acidlib.directory(place, all_committed=True, queue=jobs.queue_url, settings=settings)


def test_its_executors_do_the_work(session: SparkSession, jobs: Jobs, tmp_path: Path) -> None:
    part = fixture("hive3/b_part", tmp_path / "db.db" / "part")
    rows = {path.name: merge.read(path) for path in part.iterdir()}
    tracker = session.sparkContext.statusTracker()
    theirs = tracker.getJobIdsForGroup("their-group")
    result = table_of(part, jobs).compact("major", spark=session, progress=False)
    assert result.ok
    assert result.to_dict()["application_id"] == session.sparkContext.applicationId
    assert {path.name: merge.read(path, strict=True) for path in part.iterdir()} == rows
    assert tracker.getJobIdsForGroup("their-group") == theirs, "its jobs have a group of their own"


def test_jobs_are_in_the_pool_of_the_caller(
    session: SparkSession, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crud = fixture("hive3/a_crud", tmp_path / "db.db" / "crud")
    monkeypatch.setattr(plan, "run_unit_task", spark_tasks.described)
    assert table_of(crud, jobs).compact("major", spark=session.sparkContext, progress=False).ok
    description, group, pool = (crud / "_described").read_text().splitlines()
    assert description.endswith("-compactor-db.crud: rewrite")
    assert group.startswith(description)
    assert pool == "their-pool"


def test_stores_are_opened_as_the_session_has_them(session: SparkSession) -> None:
    stated = spark.session_options(session).hadoop
    assert stated["fs.trash.interval"] == "17"
    assert all(name.startswith("fs.s3a.") for name in stated.keys() - {"fs.trash.interval"}), "Spark 4.0's own"
    _, hadoop = spark.hadoop_in_session(session)
    assert hadoop.get("fs.trash.interval") == "17"
    hadoop.set("fs.trash.interval", "18")
    assert session.sparkContext._jsc.hadoopConfiguration().get("fs.trash.interval") == "17", "it is a copy"


def test_threads_share_a_session(session: SparkSession, jobs: Jobs, tmp_path: Path) -> None:
    places = [fixture("hive3/b_part", tmp_path / f"w{number}" / "db.db" / "part") for number in range(2)]
    rows = [{path.name: merge.read(path) for path in place.iterdir()} for place in places]
    tables = [table_of(place, jobs) for place in places]
    results = at_once(*(lambda table=table: table.compact("major", spark=session, progress=False) for table in tables))
    assert [result.ok for result in results] == [True, True]
    assert [{path.name: merge.read(path, strict=True) for path in place.iterdir()} for place in places] == rows


def test_after_a_failure_it_is_as_it_was_too(
    session: SparkSession, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crud = fixture("hive3/a_crud", tmp_path / "db.db" / "crud")
    before = tree(crud)
    monkeypatch.setattr(plan, "run_unit_task", spark_tasks.always_killed)
    result = table_of(crud, jobs).compact("major", spark=session, progress=False)
    assert (result.ok, [entry["state"] for entry in result.entries]) == (False, ["failed"])
    assert "Spark gave it up" in result.entries[0]["reason"]
    assert added(before, tree(crud)) == set()


def test_executors_without_the_package_are_refused_before_any_work(
    session: SparkSession, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run another Python than the driver, as without an archive on a cluster."""
    bare = Path(sys.base_prefix, "bin", "python3")
    crud = fixture("hive3/a_crud", tmp_path / "db.db" / "crud")
    before = tree(crud)
    with monkeypatch.context() as patch:
        patch.setattr(spark, "_LOOKED_AT", set())
        patch.setattr(session.sparkContext, "pythonExec", str(bare))
        with pytest.raises(RefusedError) as error:
            table_of(crud, jobs).compact("major", spark=session, progress=False)
    assert str(error.value).startswith("Cannot use this session: Python on its executors has no module ")
    assert "\n" not in str(error.value)
    assert tree(crud) == before
    assert jobs.shown() == {}


def test_a_run_never_takes_a_session_that_it_was_not_given(session: SparkSession, jobs: Jobs, tmp_path: Path) -> None:
    crud = fixture("hive3/a_crud", tmp_path / "db.db" / "crud")
    table = table_of(crud, jobs, **{"acidlib.in.process.bytes": "0"})
    before = tree(crud)
    with pytest.raises(
        RefusedError, match="Cannot start Spark: this program has a session already, of the application"
    ):
        table.compact("major", progress=False)
    assert added(before, tree(crud)) == set()
    assert table.compact("major", spark=session, progress=False).ok


def test_an_interrupt_ends_the_jobs_of_the_run_alone(
    session: SparkSession, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crud, begun = fixture("hive3/a_crud", tmp_path / "db.db" / "crud"), tmp_path / "begun"
    rows, table = merge.read(crud), table_of(crud, jobs)

    def interrupt() -> None:
        while not begun.exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch, ThreadPoolExecutor(1) as pool:
        patch.setattr(plan, "run_unit_task", partial(slow, str(begun), SLOW_SECONDS))
        pressed = pool.submit(interrupt)
        with pytest.raises(KeyboardInterrupt, match=r"^of 1 place 1 stopped$"):
            table.compact("major", spark=session, progress=False)
        pressed.result(SLOW_SECONDS)
    assert [path.name for path in crud.iterdir() if path.name[0] in "_."] == []
    assert table.compact("major", spark=session, progress=False).states == {"ready for cleaning": 1}
    assert session.sparkContext.parallelize(range(5)).count() == 5
    assert merge.read(crud, strict=True) == rows
