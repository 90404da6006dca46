"""What this machine has to start Spark with, and handing a job over to it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from acidlib.engine.streams import tell_starting
from acidlib.errors import RefusedError, RetryError
from acidlib.installed import CHECKOUT, conf_file
from acidlib.launch.spark_options import PROPERTIES_FILE, SparkOptions, read_properties
from acidlib.launch.submission import Installation, Submission

_SET = "--set"


def installation(environment: Mapping[str, str]) -> Installation:
    """What jobs are started with from this environment."""
    return Installation(
        python=Path(sys.executable),
        spark_home=spark_home(environment),
        log4j=conf_file("log4j2.properties", environment),
        checkout=CHECKOUT,
    )


def spark_home(environment: Mapping[str, str]) -> Path:
    """`SPARK_HOME`, or the Spark that pip installed. RefusedError where there is neither."""
    if named := environment.get("SPARK_HOME"):
        return Path(named)
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise RefusedError(
            f"Cannot start Spark: because {sys.executable} has no pyspark, and SPARK_HOME names no other Spark"
        )
    return Path(found.origin).parent


def spark_options(words: Sequence[str], environment: Mapping[str, str]) -> SparkOptions:
    """What is said to Spark in these words, and in the file of properties that spark-submit reads with them."""
    given = SparkOptions(tuple(words))
    conf_dir = environment.get("SPARK_CONF_DIR") or str(spark_home(environment) / "conf")
    named = given.option(PROPERTIES_FILE)
    path = Path(named) if named else Path(conf_dir, "spark-defaults.conf")
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        text = ""  # spark-submit says so, where one was named
    except OSError as error:
        raise RetryError(f"Cannot read {path}: because the operating system said: {error.strerror}") from error
    return SparkOptions(tuple(words), read_properties(text))


def is_what_a_job_finds(environment: Mapping[str, str]) -> bool:
    """Return whether a driver that is started here has these variables: a spark-env.sh may give it others."""
    conf_dir = environment.get("SPARK_CONF_DIR") or str(spark_home(environment) / "conf")
    try:
        lines = Path(conf_dir, "spark-env.sh").read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return not any(line.strip() and not line.lstrip().startswith("#") for line in lines)


def queue_of_yarn(spark: SparkOptions, words: Sequence[str]) -> str:
    """What `hive.compactor.job.queue` says to a run whose driver cannot choose its queue any more; else empty.

    words  of the job. Raises `RefusedError` where its settings cannot be read.
    """
    if not spark.leaves_queue_to_yarn:
        return ""
    from acidlib.engine.environment import read_settings  # much is loaded with it

    return read_settings(assignments(words))[0].text("hive.compactor.job.queue")


def assignments(words: Sequence[str]) -> list[str]:
    """The texts of `--set` among the words of a job."""
    behind = [following for word, following in pairwise([*words, ""]) if word == _SET]
    behind += [word.partition("=")[2] for word in words if word.startswith(f"{_SET}=")]
    return [text for text in behind if text]


def start(submission: Submission) -> NoReturn:
    """Become that process. RefusedError where there is none to become."""
    if not os.isatty(2):
        # the job writes to our standard error beside the JVM: through a pipe neither overwrites the other in a file
        # in a session of its own, so that a signal to all of us does not end it before the last line
        copier = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=2, start_new_session=True)  # noqa: S607 - any cat
        assert copier.stdin is not None
        os.dup2(copier.stdin.fileno(), 2)
    tell_starting("Spark")
    try:
        os.execve(submission.command[0], submission.command, dict(submission.environment))  # noqa: S606 - no shell
    except OSError as error:
        raise RefusedError(
            f"Cannot start Spark: because {submission.command[0]} cannot be run: {error.strerror}; "
            "SPARK_HOME names where Spark is"
        ) from error
