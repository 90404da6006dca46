"""What spark-submit is called with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from acidlib.launch.spark_options import SparkOptions
from acidlib.launch.submission import Installation, Submission, submission

INSTALLED = Installation(
    python=Path("/env/bin/python"), spark_home=Path("/spark"), log4j=Path("/conf/log4j2.properties"), checkout=None
)
CHECKOUT = replace(INSTALLED, checkout=Path("/src"))
ARCHIVE = "--archives /tmp/a.tar.gz#environment"
LOG = ("--driver-java-options", "-Dlog4j2.configurationFile=file:/conf/log4j2.properties")
LOCAL = (LOG[0], f"{LOG[1]} -XX:TieredStopAtLevel=1")


def submitted(line: str, here: Installation = INSTALLED, **environment: str) -> Submission:
    return submission(SparkOptions(tuple(line.split())), ["job.py", "--x"], here, environment)


def test_the_words_stand_in_their_order() -> None:
    found = submitted("--master local[2]", HOME="/h")
    assert found.command == ("/spark/bin/spark-submit", *LOCAL, "--master", "local[2]", "job.py", "--x")
    assert found.environment == {
        "HOME": "/h",
        "SPARK_HOME": "/spark",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": "/env/bin/python",
        "PYSPARK_DRIVER_PYTHON": "/env/bin/python",
    }


def test_what_is_stated_is_not_changed() -> None:
    stated = {"SPARK_HOME": "/s", "SPARK_LOCAL_IP": "::1", "PYSPARK_PYTHON": "p", "PYSPARK_DRIVER_PYTHON": "d"}
    for line in ("", "--master yarn", f"--master yarn {ARCHIVE}"):
        found = submitted(line, **stated)
        assert found.environment == stated
        assert found.command == ("/s/bin/spark-submit", *(LOG if line else LOCAL), *line.split(), "job.py", "--x")


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
    assert "spark.pyspark.python=./environment/bin/python" in found.command
    assert "spark.pyspark.driver.python=/env/bin/python" in found.command
    assert "PYSPARK_PYTHON" not in found.environment
    assert submitted(f"--master yarn {ARCHIVE} --conf spark.pyspark.python=/p").command.count("--conf") == 1
    assert "--conf" not in submitted(ARCHIVE).command, "on this machine it is not unpacked where Python is started"


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
