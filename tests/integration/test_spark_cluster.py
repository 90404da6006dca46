"""Runs on a real cluster of Spark, of which parts die while tasks write: what is published is exact, and all of it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyorc
import pytest
from hdfs_tables import downloaded, uploaded
from installed import build, environment, outside, packed
from judges import merge
from long_runs import LONG, amount, in_a_long_run
from servers.hdfs import Hdfs
from servers.java import SMALL
from servers.spark import SparkCluster

from acidlib.execute import spark
from acidlib.execute.spark import SparkRunner
from acidlib.execute.task import Task
from acidlib.runs import plan as units
from acidlib.stores.store import ATTEMPTS
from integration import cluster_tasks
from integration.conftest import started
from integration.harness import (
    SMALL_SPARK,
    TASKS_PATH,
    Jobs,
    added,
    at_time,
    fixture,
    left_at_publication,
    names,
    spark_context,
    submit,
    tree,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.live]
NAMED = ("--all-committed", "--location")
ROW = "struct<id:int,v:string>"
ACID = f"struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,row:{ROW}>"
TRIES = 2
"""So often a task is tried."""
DELTAS, ROWS, VALUE_BYTES = 4, 40, 8000
BASE = "base_0000009"
DAYS = 86_400
SECONDS = 300.0
"""How long anything is waited for."""
EXECUTORS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": " ".join(SMALL),
    "spark.executorEnv.PYTHONPATH": TASKS_PATH,
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.0",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "100ms",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table, and its rows."""

    place: Path
    rows: list[Any]

    def copy(self, target: Path) -> Path:
        return Path(shutil.copytree(self.place, target))


def bucket_file(path: Path, rows: Any, *, deletes: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file, pyorc.Writer(file, ACID, stripe_size=1, batch_size=ROWS) as writer:
        writer.writerows(rows)
        writer.set_user_metadata(**{"hive.acid.stats": f"{0 if deletes else 1},0,{deletes}".encode()})


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Two buckets of four stripes, none so small that it would be joined with another; two of them lose a row."""
    place = tmp_path_factory.mktemp("table") / "t"
    chance = random.Random(7)
    for bucket in range(2):
        coded, name = 1 << 29 | bucket << 16, f"bucket_{bucket:05d}"
        for write_id in range(1, DELTAS + 1):
            rows = [(n, chance.randbytes(VALUE_BYTES).hex()) for n in range(ROWS)]
            bucket_file(
                place / f"delta_{write_id:07d}_{write_id:07d}_0000" / name,
                [(0, write_id, coded, n, write_id, row) for n, row in enumerate(rows)],
            )
        events = [(2, write_id, coded, 3, 9, None) for write_id in (1, 3)]
        bucket_file(place / "delete_delta_0000009_0000009_0000" / name, events, deletes=len(events))
    return Table(place=place, rows=merge.read(place))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with started(lambda: SparkCluster(tmp_path_factory.mktemp("spark"), workers=2).__enter__()) as found:
        yield found


# --- runs of spark-submit: before the tests below, whose context keeps both cores to itself ---------------------------


@pytest.fixture
def spark_conf(tmp_path: Path) -> str:
    """A directory of settings of Spark for small executors."""
    place = tmp_path / "conf"
    place.mkdir()
    (place / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in EXECUTORS.items()))
    return str(place)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The command of an installation, and the archive that it makes of itself."""
    place = tmp_path_factory.mktemp("installed")
    environment(place / "environment", build(place)[1], compiled=True)
    command = place / "environment" / "bin" / "acidlib"
    return command, packed(command, place / "packed.tar.gz")


def test_partitions_on_hdfs_by_an_archive(
    tmp_path: Path, cluster: SparkCluster, spark_conf: str, hdfs: Hdfs, archive: tuple[Path, Path]
) -> None:
    """Executors see no installation and share no directory with the driver, which alone knows Hadoop's configuration.

    What they run is in the archive: it was built anew, and the checkout is not on their path.
    """
    part = fixture("hive4/part_table", tmp_path / "before/part")
    rows = {place.relative_to(part): merge.read(place, generation=4) for place in part.glob("*/*")}
    table, applications = uploaded(hdfs, part, "part"), cluster.applications()
    command, packed_environment = archive
    no_path = ("--conf", "spark.executorEnv.PYTHONPATH=")
    words = (
        command,
        "--master",
        cluster.url,
        *no_path,
        "--archives",
        f"{packed_environment}#environment",
        "major-compact",
    )
    variables = {"SPARK_CONF_DIR": spark_conf, "SPARK_LOCAL_IP": "127.0.0.1", "HADOOP_CONF_DIR": str(hdfs.conf_dir)}
    process = subprocess.run(
        [*words, *NAMED, str(table), "--output", "json"],
        env=outside(ACIDLIB_HOME=str(tmp_path / "home"), **variables, **SMALL_SPARK),
        check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    out, err = process.stdout, process.stderr
    assert process.returncode == 0, err
    assert [entry["state"] for entry in json.loads(out)["compactions"]] == ["ready for cleaning"] * 3
    assert "Traceback" not in err
    (application,) = cluster.applications() - applications
    (unpacked, *_) = cluster.files(application, "environment/lib/python*/site-packages/acidlib/execute/tasks.py")
    assert list(unpacked.parent.glob("__pycache__/tasks.*.pyc")), "it was loaded from there"
    assert "compiling" not in err
    seen = downloaded(hdfs, table, tmp_path / "after/part")
    for place, before in rows.items():
        assert merge.read(seen / place, generation=4, strict=True) == before
        assert hidden(seen / place) == []


def test_the_driver_is_killed_while_executors_write(
    jobs: Jobs, tmp_path: Path, cluster: SparkCluster, spark_conf: str, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, home = table.copy(tmp_path / "t"), tmp_path / "home"
    before = tree(place)
    job = Path(__file__).with_name("endless_job.py")
    words = ("--master", cluster.url, job, *NAMED, place)
    process = submit(*words, home=home, SPARK_CONF_DIR=spark_conf, SPARK_LOCAL_IP="127.0.0.1")
    try:
        wait_for(lambda: len(writing(place)) == 2 or process.poll() is not None)
        assert process.poll() is None, process.communicate()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    # a signal is only sent: the driver is the process of another that has ended
    wait_for(lambda: not (running_in(process.pid) or cluster.on_executors()))
    litter = added(before, tree(place)) - {"_begun"}
    (place / "_begun").unlink()
    assert sorted(name[:5] for name in litter) == ["_acid", "_tmp_"]
    assert merge.read(place) == table.rows
    jobs = Jobs(queue_url=f"sqlite:///{home / 'queue.db'}")
    assert jobs.shown()[1]["state"] == "working"
    jobs.good("major_compact")
    assert jobs.shown()[1]["state"] == "ready for cleaning"
    jobs.good("cleaner", "--retention", "0s")
    assert [name[:5] for name in hidden(place)] == ["_tmp_"], "it is not a day old"
    at_time(monkeypatch, 2 * DAYS)
    jobs.good("cleaner", "--location", place)
    assert names(place) == [BASE]
    assert merge.read(place, strict=True) == table.rows


@in_a_long_run
def test_the_driver_is_stopped_while_executors_write(
    tmp_path: Path, cluster: SparkCluster, spark_conf: str, table: Table
) -> None:
    """By a signal to its group, as a scheduler sends it: nothing is left when it has returned."""
    place, home = table.copy(tmp_path / "t"), tmp_path / "home"
    before = tree(place)
    job = Path(__file__).with_name("endless_job.py")
    words = ("--master", cluster.url, job, *NAMED, place)
    process = submit(*words, home=home, SPARK_CONF_DIR=spark_conf, SPARK_LOCAL_IP="127.0.0.1")
    try:
        wait_for(lambda: len(writing(place)) == 2 or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        os.killpg(process.pid, signal.SIGTERM)
        _, err = process.communicate(timeout=SECONDS)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 143, err
    assert "interrupted by SIGTERM: of 1 place 1 stopped" in err
    (place / "_begun").unlink()
    assert added(before, tree(place)) == set()
    assert Jobs(queue_url=f"sqlite:///{home / 'queue.db'}").shown() == {}
    wait_for(lambda: cluster.on_executors() == [])
    assert merge.read(place) == table.rows


# --- one context, in which a task may fail once --------------------------------------------------------------------


@pytest.fixture(scope="module")
def runner(cluster: SparkCluster) -> Iterator[SparkRunner]:
    conf = {**EXECUTORS, **SPECULATION, "spark.master": cluster.url, "spark.task.maxFailures": str(TRIES)}
    with spark_context(conf) as found:
        found.run_batches([[Task(work=str, length=0)]], group="the first")  # starts the context
        yield found


@pytest.fixture
def place(table: Table, tmp_path: Path, cluster: SparkCluster, runner: SparkRunner) -> Path:
    """A copy of the table; both executors are there."""
    wait_for(lambda: len(cluster.executors()) == 2)
    return table.copy(tmp_path / "t")


def test_a_worker_is_killed_in_the_middle_of_a_file(
    spark_jobs: Jobs, table: Table, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(place)
    monkeypatch.setattr(units, "run_unit_task", cluster_tasks.worker_killed)
    left = left_at_publication(monkeypatch)
    (entry,) = spark_jobs.good("major_compact", *NAMED, place).compactions
    halves = [len(data) for data in left.values() if not is_whole(data)]
    assert max(halves) > VALUE_BYTES * ROWS // 2, "it had written a stripe"
    assert entry["rows_out"] == len(table.rows)
    assert_published(place, before, table)


# a whole bucket loses its worker above
@pytest.mark.parametrize("part_bytes", amount(["300k"], long=["0", "300k"]))
def test_an_executor_is_killed_in_the_middle_of_a_file(
    spark_jobs: Jobs, cluster: SparkCluster, table: Table, place: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: str
) -> None:
    before, executors = tree(place), set(cluster.executors())
    for name in ("run_unit_task", "run_part_task"):
        monkeypatch.setattr(units, name, cluster_tasks.executor_killed_once)
    left = left_at_publication(monkeypatch)
    spark_jobs.good("major_compact", *NAMED, place, "--set", f"acidlib.part.bytes={part_bytes}")
    assert len(executors - set(cluster.executors())) == 1
    parts = [name for name in left if ".part" in name]
    assert any(not is_whole(data) for data in left.values())
    assert parts == [] if part_bytes == "0" else len(parts) > 4, "two for each file, and one of them twice"
    assert_published(place, before, table)


def test_a_worker_that_outlives_its_executor_changes_nothing(
    spark_jobs: Jobs, table: Table, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on writing when its file has long been made by another, and published."""
    before = tree(place)
    monkeypatch.setattr(units, "run_unit_task", cluster_tasks.outlived)
    spark_jobs.good("major_compact", *NAMED, place)
    assert_published(place, before, table)
    published_tree = tree(place)
    (place.parent / "go on").touch()
    told = place.parent / "outlived"
    wait_for(told.exists)
    assert tree(place) == published_tree
    assert [line.startswith("Cannot ") for line in told.read_text().splitlines()] == [True, True], told.read_text()


def test_executors_are_killed_until_spark_gives_up(
    spark_jobs: Jobs, cluster: SparkCluster, table: Table, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(place)
    with monkeypatch.context() as patch:
        patch.setattr(units, "run_unit_task", cluster_tasks.executor_killed)
        if not LONG:  # each try costs two executors, and that it is tried in halves needs no cluster
            patch.setattr(spark, "_MAX_GIVEN_UP", 0)
        ran = spark_jobs("major_compact", *NAMED, place, text=True)
    assert ran.status == 1
    assert "Spark gave it up: SparkException: Job aborted" in " ".join(ran.out.split())
    assert "Traceback" not in ran.err
    assert_given_up(place, cluster)
    assert added(before, tree(place)) == set()
    (request,) = spark_jobs.shown().values()
    assert request["state"] == "failed"
    assert "exited with code 137" in request["error_message"]
    assert "\n" not in request["error_message"]
    spark_jobs.good("major_compact", *NAMED, place)
    assert_published(place, before, table)


def test_a_speculative_attempt_is_first(
    spark_jobs: Jobs, table: Table, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(place)
    monkeypatch.setattr(units, "run_unit_task", cluster_tasks.slow_at_first)
    left = left_at_publication(monkeypatch)
    spark_jobs.good("major_compact", *NAMED, place)
    assert [is_whole(data) for name, data in left.items() if cluster_tasks.SLOW in name] == [False]
    assert_published(place, before, table)
    slow = int((place.parent / "slow").read_text())
    wait_for(lambda: not Path(f"/proc/{slow}").exists())
    assert_published(place, before, table)


def test_two_attempts_at_one_file_are_finished(
    spark_jobs: Jobs, table: Table, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(place)
    monkeypatch.setattr(units, "run_unit_task", cluster_tasks.finished_twice)
    left = left_at_publication(monkeypatch)
    (entry,) = spark_jobs.good("major_compact", *NAMED, place).compactions
    attempts = {(place.parent / f"whole {number}").read_text() for number in (0, 1)}
    assert len(attempts) == 2
    (other,) = [name for name, data in left.items() if is_whole(data) and cluster_tasks.SLOW in name]
    assert other.endswith(tuple(attempts))
    assert (entry["rows_out"], len(entry["files"])) == (len(table.rows), 2)
    assert_published(place, before, table)


# --- pictures ---------------------------------------------------------------------------------------------------------


def assert_published(place: Path, before: dict[str, tuple], table: Table) -> None:
    """Nothing but the result was added, and a strict reader sees the rows that were there."""
    assert added(before, tree(place)) == {BASE}
    assert names(place / BASE) == ["_metadata_acid", "_orc_acid_version", "bucket_00000", "bucket_00001"]
    assert merge.read(place, strict=True) == table.rows


def assert_given_up(place: Path, cluster: SparkCluster) -> None:
    """Each job ended when one of its tasks had lost two executors, not before and not later."""
    killed = cluster_tasks.killed(place)
    tries = Counter((stage, partition) for stage, partition, _ in killed)
    most = {stage: max(tries[one] for one in tries if one[0] == stage) for stage, _ in tries}
    assert list(most.values()) == [TRIES] * (3 if LONG else 1), "of both files, and then of each"
    pids = [pid for _, _, pid in killed]
    assert len(set(pids)) == len(pids)
    assert set(pids).isdisjoint(cluster.executors())


def is_whole(attempt: bytes) -> bool:
    """Whether the end of an ORC file was written."""
    return attempt[-4:-1] == b"ORC"  # before the length of the postscript


def running_in(group: int) -> list[str]:
    """The processes of a group that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ends meanwhile
            state, _, number, *_ = path.read_text(errors="replace").rpartition(")")[2].split()
            if int(number) == group and state not in "ZX":
                found.append(path.parent.name)
    return found


def hidden(place: Path) -> list[str]:
    return [name for name in names(place) if name[0] in "_."]


def writing(place: Path) -> list[Path]:
    """The files of which a stripe is written."""
    return [path for path in place.glob(f"_tmp_*/{ATTEMPTS}/*") if path.stat().st_size > VALUE_BYTES * ROWS // 2]


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < end, f"not within {SECONDS:.0f} s"
        time.sleep(0.05)
