"""Runs on YARN of an installation that its nodes do not have: all they get is the archive. In a long run only."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hdfs_tables import downloaded, uploaded
from installed import alone, build, outside, packed
from judges import merge
from long_runs import LONG
from servers.fleet import Servers
from servers.hdfs import Hdfs
from servers.java import SMALL
from servers.postgres import Postgres
from servers.spark import SPARK_HOME
from servers.yarn import Application, Yarn

from acidlib.arguments import said
from acidlib.cli.launch import IN_A_CONTAINER
from acidlib.execute.spark import other_queue
from acidlib.location import Location
from acidlib.runs.environment import QUEUE_IN_A_FILE
from integration.conftest import started
from integration.harness import ROOT, SMALL_SPARK, fixture

pytestmark = [
    *(pytest.mark.spark, pytest.mark.slow, pytest.mark.live),
    pytest.mark.skipif(not LONG, reason="an environment of its own is made and packed in a long run only"),
]
CLIENT, CLUSTER = (), ("--deploy-mode", "cluster")
PLAIN = (SPARK_HOME / "bin/spark-submit",)
PYTHON = ("--conf", "spark.pyspark.python=./environment/bin/python")
JOB_QUEUE = ("--set", "hive.compactor.job.queue=compaction")
SETTINGS = {
    "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",
    "spark.executor.instances": "2",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": " ".join(SMALL),
    "spark.driver.memory": "512m",
    "spark.yarn.am.memory": "512m",
    "spark.yarn.report.interval": "200ms",
    "spark.yarn.scheduler.initial-allocation.interval": "100ms",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How spark-submit ended."""

    status: int
    out: str
    err: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """YARN, and what somebody has who uses it."""

    yarn: Yarn
    command: Path
    archive: Path
    conf: Path
    known: set[str] = field(default_factory=set)

    @property
    def loaded(self) -> Path:
        """Below it executors keep each module that they load, compiled, by the path from which they loaded it."""
        return self.conf / "loaded"

    def run(self, mode: Sequence[str], *words: str | Path, program: Sequence[str | Path] = (), **more: str) -> Ran:
        """The command, or another program in its place, from a directory where nothing is."""
        line = [*(program or (self.command,)), "--master", "yarn", *mode, "--archives", f"{self.archive}#environment"]
        line += ["--conf", f"spark.executorEnv.PYTHONPYCACHEPREFIX={self.loaded}"]
        variables = {
            "SPARK_CONF_DIR": self.conf,
            "YARN_CONF_DIR": self.yarn.conf_dir,
            "HADOOP_CONF_DIR": self.yarn.conf_dir,
            "ACIDLIB_HOME": self.conf / "home",
        }
        environment = outside(**{key: str(value) for key, value in variables.items()}, **SMALL_SPARK, **more)
        done = subprocess.run(
            [*map(str, (*line, *words))],
            env=environment | {"SPARK_LOCAL_IP": "127.0.0.1"},
            cwd="/", check=False, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        return Ran(status=done.returncode, out=done.stdout, err=done.stderr)

    def new_applications(self) -> list[Application]:
        """What YARN says of those of which it was not asked before."""
        found = [one for one in self.yarn.applications() if one.id not in self.known]
        self.known.update(one.id for one in found)
        return found


@pytest.fixture(scope="module")
def site(servers: Servers, hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    place = tmp_path_factory.mktemp("site")
    (place / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in SETTINGS.items()))
    command = alone(place / "environment", build(place)[1], "pack", "postgresql")
    archive = packed(command, place / "packed.tar.gz")
    with started(lambda: servers.yarn(hdfs)) as yarn:
        yield Site(yarn=yarn, command=command, archive=archive, conf=place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of three partitions on HDFS, and the rows that were in them."""

    hdfs: Hdfs
    place: Location
    rows: dict[Path, list[Any]]

    def assert_compacted(self, entries: Sequence[dict[str, Any]], target: Path) -> None:
        """All of it has a base, and a reader that shares no code with the engine sees the same rows."""
        assert [entry["state"] for entry in entries] == ["ready for cleaning"] * len(self.rows)
        seen = downloaded(self.hdfs, self.place, target / "part")
        for place, before in self.rows.items():
            assert merge.read(seen / place, generation=4, strict=True) == before
            assert [path.name[:5] for path in (seen / place).iterdir() if path.name.startswith("base_")]


@pytest.fixture
def table(hdfs: Hdfs, tmp_path: Path) -> Table:
    part = fixture("hive4/part_table", tmp_path / "before/part")
    rows = {place.relative_to(part): merge.read(place, generation=4) for place in part.glob("*/*")}
    return Table(hdfs=hdfs, place=uploaded(hdfs, part, "part"), rows=rows)


def assert_of_the_archive(site: Site, application: str) -> None:
    """Every module of the engine that executors loaded lay in the directory of a container."""
    modules = {path.relative_to(site.loaded) for path in site.loaded.rglob("acidlib/**/*.pyc")}
    places = {str(path).lstrip("/") for path in site.yarn.containers(application)}
    used = {place for place in places for module in modules if str(module).startswith(f"{place}/environment/lib/")}
    assert used, modules
    assert all(any(str(module).startswith(place) for place in used) for module in modules), modules
    assert any(module.parent.name == "rewrite" for module in modules)
    for script in site.yarn.output(application, "launch_container.sh").values():
        assert str(ROOT) not in script.replace(str(SPARK_HOME), "")
    shutil.rmtree(site.loaded)


def test_client_mode(site: Site, table: Table, tmp_path: Path) -> None:
    words = ("major-compact", "--location", str(table.place), "--all-committed", *JOB_QUEUE, "--output", "json")
    ran = site.run(CLIENT, *words)
    assert ran.status == 0, ran.err
    document = json.loads(ran.out)
    (application,) = site.new_applications()
    assert (application.queue, application.final_state) == ("compaction", "SUCCEEDED")
    assert document["application_id"] == application.id
    assert application.id in document["tracking_url"]
    assert_of_the_archive(site, application.id)
    table.assert_compacted(document["compactions"], tmp_path / "after")


def test_cluster_mode(site: Site, table: Table, tmp_path: Path, postgres: Postgres) -> None:
    queue = postgres.database_url(postgres.new_database())
    words = ("major-compact", "--location", str(table.place), "--all-committed", *JOB_QUEUE, "--output", "json")
    ran = site.run(CLUSTER, *words, "--queue-url", queue)
    (application,) = site.new_applications()
    assert ran.status == 0, (ran.err, site.yarn.output(application.id, "stderr"))
    assert (application.queue, application.final_state) == ("compaction", "SUCCEEDED")
    (told,) = filter(None, site.yarn.output(application.id, "stdout").values())
    document = json.loads(told)
    assert document["application_id"] == application.id
    assert application.id in document["tracking_url"]
    assert_of_the_archive(site, application.id)
    table.assert_compacted(document["compactions"], tmp_path / "after")


def test_what_a_driver_that_yarn_starts_cannot_do_is_refused(site: Site, table: Table) -> None:
    """A queue in a file before it is started; a queue of YARN, of which plain spark-submit knew nothing, by it."""
    words = ("--location", str(table.place), "--all-committed")
    ran = site.run(CLUSTER, "major-compact", *words)
    assert (ran.status, ran.out) == (1, "")
    assert said(QUEUE_IN_A_FILE) in ran.err
    assert site.new_applications() == []
    words += ("--queue-url", "sqlite:////nowhere/queue.db", *JOB_QUEUE)
    ran = site.run((*CLUSTER, *PYTHON), ROOT / "jobs/major_compact.py", *words, program=PLAIN)
    (application,) = site.new_applications()
    assert (ran.status, application.final_state, application.queue) == (1, "FAILED", "default")
    (told,) = site.yarn.output(application.id, IN_A_CONTAINER).values()
    assert told.endswith(f": {other_queue('compaction')}\n")
