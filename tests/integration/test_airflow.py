"""The DAGs of docs/airflow, run by Airflow itself; in a long run, for it takes minutes to install."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from judges import merge
from long_runs import LONG
from servers.fleet import Servers
from servers.hdfs import Hdfs

from integration.conftest import started
from integration.harness import ROOT, SMALL_SPARK, fixture, visible
from integration.test_yarn import SETTINGS

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not LONG, reason="Airflow is installed in a long run only")]
AIRFLOW = ROOT / ".servers" / "airflow-spark"
WANTED = ("apache-airflow>=3,<4", "apache-airflow-providers-standard", "apache-airflow-providers-apache-spark")
DAGS = ROOT / "docs" / "airflow"


@pytest.fixture(scope="module")
def airflow() -> Path:
    """Its command, in an environment of its own."""
    if not (AIRFLOW / "bin" / "airflow").is_file():
        subprocess.run([sys.executable, "-m", "venv", AIRFLOW], check=True)
        subprocess.run([AIRFLOW / "bin" / "pip", "install", "--quiet", "--no-compile", *WANTED], check=True)
    return AIRFLOW / "bin" / "airflow"


def run(airflow: Path, tmp_path: Path, *words: str, **more: str) -> str:
    """What Airflow prints; all tasks have to succeed, and none is tried again."""
    home = tmp_path / "airflow"
    (home / "dags").mkdir(parents=True)
    for dag in DAGS.glob("*.py"):
        text = dag.read_text()
        assert '"retries": 1' in text
        (home / "dags" / dag.name).write_text(text.replace('"retries": 1', '"retries": 0'))
    command = tmp_path / "acidlib"
    main = "from acidlib.cli.main import main; main()"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -P -c "{main}" "$@"\n')
    command.chmod(0o755)
    (tmp_path / "conf").mkdir()
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "PYTHON", "PYSPARK"))}
    environment = kept | SMALL_SPARK | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "ACIDLIB": str(command),
        "ACIDLIB_HOME": str(tmp_path),
        "HIVE_CONF_DIR": str(tmp_path / "conf"),
        **more,
    }  # fmt: skip
    subprocess.run([airflow, "db", "migrate"], env=environment, check=True, capture_output=True)
    ran = subprocess.run([airflow, "dags", "test", *words], env=environment, capture_output=True, text=True)
    told = ran.stdout + ran.stderr
    assert ran.returncode == 0, told[-3000:]
    assert "state=success" in told, told[-3000:]
    return told


def test_the_service(airflow: Path, tmp_path: Path) -> None:
    table = fixture("hive3/b_part", tmp_path / "warehouse" / "default.db" / "part")
    rows = {place.name: merge.read(place) for place in table.iterdir()}
    tables = f"--warehouse {tmp_path / 'warehouse'} --all-committed --set hive.compactor.delta.num.threshold=1"
    told = run(airflow, tmp_path, "acidlib_service", ACIDLIB_TABLES=tables)
    assert told.count("Command exited with return code 0") == 5
    assert {place.name: merge.read(place) for place in table.iterdir()} == rows
    assert all(any(name.startswith("base_") for name in visible(place)) for place in table.iterdir())


@pytest.mark.parametrize(("day", "is_there"), [("2026-01-02", True), ("2026-02-01", False)])
def test_a_backfill(airflow: Path, tmp_path: Path, day: str, is_there: bool) -> None:
    table = fixture("hive3/b_part", tmp_path / "default.db" / "part")
    for place in table.iterdir():
        place.rename(place.with_name(place.name.replace("dt=2024", "ds=2026")))
    before = shutil.copytree(table, tmp_path / "before")
    told = run(airflow, tmp_path, "acidlib_backfill", day, ACIDLIB_BACKFILL=f"--location {table} --all-committed")
    assert told.count("Command exited with return code 0") == 1
    compacted = {place.name for place in table.iterdir() if visible(place) != visible(before / place.name)}
    assert compacted == ({f"ds={day}"} if is_there else set())


def test_a_spark_connection(airflow: Path, tmp_path: Path) -> None:
    """All that the document names: the connection, and a spark-submit on the PATH of Airflow's workers."""
    told = by_a_connection(airflow, tmp_path, "local[2]")
    assert "local[2]" in told


def test_a_spark_connection_to_yarn(airflow: Path, tmp_path: Path, servers: Servers, hdfs: Hdfs) -> None:
    """In client mode; the nodes have the installation and the table at the same paths."""
    conf = tmp_path / "spark"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in SETTINGS.items()))
    with started(lambda: servers.yarn(hdfs)) as yarn:
        by_a_connection(
            airflow, tmp_path, "yarn", SPARK_CONF_DIR=str(conf),
            HADOOP_CONF_DIR=str(yarn.conf_dir), YARN_CONF_DIR=str(yarn.conf_dir),
        )  # fmt: skip
        (application,) = yarn.applications()
    assert application.final_state == "SUCCEEDED"


def by_a_connection(airflow: Path, tmp_path: Path, master: str, **more: str) -> str:
    """One day of a table is compacted by the DAG of a Spark connection; what Airflow prints."""
    table = fixture("hive3/b_part", tmp_path / "default.db" / "part")
    for place in table.iterdir():
        place.rename(place.with_name(place.name.replace("dt=2024", "ds=2026")))
    before = shutil.copytree(table, tmp_path / "before")
    rows = {place.name: merge.read(place) for place in table.iterdir()}
    told = run(
        airflow,
        tmp_path,
        *("acidlib_spark_submit", "2026-01-02"),
        AIRFLOW_CONN_SPARK_DEFAULT=json.dumps({"conn_type": "spark", "host": master}),
        PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        ACIDLIB_PYTHON=sys.executable,
        ACIDLIB_PACKAGES=str(ROOT),
        PYTHONPATH=str(ROOT),
        ACIDLIB_BACKFILL=f"--location {table.as_uri()} --all-committed",
        **more,
    )
    compacted = {place.name for place in table.iterdir() if visible(place) != visible(before / place.name)}
    assert compacted == {"ds=2026-01-02"}
    assert {place.name: merge.read(place) for place in table.iterdir()} == rows
    return told
