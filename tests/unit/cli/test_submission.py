"""How a job is started: with which words, in which environment, and what Spark is told."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from acidlib.cli.launch import Installation, Submission, submission
from acidlib.service.spark_driver import SUBMIT_ARGS, SparkOptions

INSTALLED = Installation(
    python=Path("/env/bin/python"),
    spark_home=Path("/spark"),
    has_spark_env=False,
    log4j=Path("/conf/log4j2.properties"),
    checkout=None,
)
CHECKOUT = replace(INSTALLED, checkout=Path("/src"))
ARCHIVE = "--archives /tmp/a.tar.gz#environment"
LOG = ("--driver-java-options", "-Dlog4j2.configurationFile=file:/conf/log4j2.properties")
LOCAL = (LOG[0], f"{LOG[1]} -XX:TieredStopAtLevel=1")


def submitted(line: str, here: Installation = INSTALLED, **environment: str) -> Submission:
    return submission(SparkOptions(tuple(line.split())), ["job.py", "--x"], here, environment)


def of_spark(found: Submission) -> list[str]:
    """The words for the JVM that the driver starts."""
    return shlex.split(found.environment[SUBMIT_ARGS])


def test_a_driver_here_is_python_and_is_told_how_to_start_spark() -> None:
    found = submitted("--master local[2]", HOME="/h")
    assert found.command == ("/env/bin/python", "job.py", "--x")
    assert of_spark(found) == [*LOCAL, "--master", "local[2]", "pyspark-shell"]
    assert {name: text for name, text in found.environment.items() if name != SUBMIT_ARGS} == {
        "HOME": "/h",
        "SPARK_HOME": "/spark",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": "/env/bin/python",
    }


def test_a_driver_elsewhere_is_started_by_spark() -> None:
    words = ("--master", "yarn", "--deploy-mode", "cluster")
    found = submitted(" ".join(words))
    assert found.command == ("/spark/bin/spark-submit", *words, "job.py", "--x")
    assert SUBMIT_ARGS not in found.environment


def test_what_is_stated_is_not_changed() -> None:
    stated = {"SPARK_HOME": "/s", "SPARK_LOCAL_IP": "::1", "PYSPARK_PYTHON": "p", "PYSPARK_DRIVER_PYTHON": "d"}
    for line in ("", "--master yarn", f"--master yarn {ARCHIVE}"):
        found = submitted(line, **stated)
        assert found.environment == {**stated, SUBMIT_ARGS: found.environment[SUBMIT_ARGS]}
        assert of_spark(found) == [*(LOG if line else LOCAL), *line.split(), "pyspark-shell"]
        assert found.command == ("d", "job.py", "--x")
    by_property = submitted("--conf spark.pyspark.driver.python=/p", **stated)
    assert by_property.command[0] == "/p", "as in spark-submit"


def test_variables_of_spark_env_are_those_of_the_driver_too(tmp_path: Path) -> None:
    """As where spark-submit starts it: HADOOP_CONF_DIR stands there on many clusters."""
    script = tmp_path / "bin" / "load-spark-env.sh"
    script.parent.mkdir()
    script.write_text("echo loaded\nexport HADOOP_CONF_DIR='of spark'\n")
    shows = "import os, sys; print(os.environ['HADOOP_CONF_DIR'], sys.argv[1:])"
    here = replace(INSTALLED, python=Path(sys.executable), spark_home=tmp_path, has_spark_env=True)
    found = submission(SparkOptions(()), ["-c", shows, "a b"], here, dict(os.environ) | {"SPARK_HOME": str(tmp_path)})
    ran = subprocess.run(found.command, env=found.environment, check=True, capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("of spark ['a b']\n", "loaded\n")


@pytest.mark.parametrize(
    ("line", "address"),
    [("", "127.0.0.1"), ("--master local[2]", "127.0.0.1"), ("--master spark://one:7077", ""), ("--master yarn", "")],
)
def test_the_driver_can_be_reached_from_a_cluster(line: str, address: str) -> None:
    """An address that only its own machine has is for executors that are there, too."""
    assert submitted(line, SPARK_LOCAL_IP="").environment["SPARK_LOCAL_IP"] == address


def test_a_driver_elsewhere_is_told_nothing_of_this_machine() -> None:
    found = submitted(f"--master yarn --deploy-mode cluster {ARCHIVE}")
    assert not any("/env/" in word or "/conf/" in word for word in (*found.command, *found.environment.values()))
    assert "spark.pyspark.python=./environment/bin/python" in found.command


def test_executors_have_the_python_of_the_archive_and_the_driver_its_own() -> None:
    found = submitted(f"--master yarn {ARCHIVE}")
    assert "spark.pyspark.python=./environment/bin/python" in of_spark(found)
    assert found.environment["PYSPARK_PYTHON"] == "./environment/bin/python", "a driver here looks at nothing else"
    assert found.command[0] == "/env/bin/python"
    named = submitted(f"--master yarn {ARCHIVE} --conf spark.pyspark.python=/p", PYSPARK_PYTHON="/other")
    assert of_spark(named).count("--conf") == 1
    assert named.environment["PYSPARK_PYTHON"] == "/p", "as in spark-submit"
    here = submitted(ARCHIVE)
    assert "--conf" not in of_spark(here), "on this machine it is not unpacked where Python is started"
    assert here.environment["PYSPARK_PYTHON"] == "/env/bin/python"


@pytest.mark.parametrize(
    ("line", "before", "after"),
    [
        ("--master yarn", "", "/src"),
        ("", "/other:/src", "/src:/other"),
        (f"--master yarn {ARCHIVE}", "/src:/other", "/other"),
        ("--master yarn --archives x.zip", "/src", ""),
        ("--conf spark.yarn.dist.archives=x.zip", "/src", ""),
    ],
)
def test_a_checkout_stands_first_but_never_before_an_archive(line: str, before: str, after: str) -> None:
    assert submitted(line, CHECKOUT, PYTHONPATH=before).environment.get("PYTHONPATH", "") == after
    assert submitted(line, INSTALLED, PYTHONPATH=before).environment["PYTHONPATH"] == before


def test_a_driver_is_started_in_the_queue_of_yarn_that_settings_name() -> None:
    words = SparkOptions(("--master", "yarn", "--deploy-mode", "cluster"))
    assert "--queue" not in submission(words, ["job.py"], INSTALLED, {}).command
    command = submission(words, ["job.py"], INSTALLED, {}, queue="nightly").command
    assert command[command.index("--queue") + 1] == "nightly"
    assert command.index("--queue") < command.index("job.py")
