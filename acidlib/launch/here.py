"""What this machine has to start Spark with, and handing a job over to it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from acidlib.engine.spark_options import SparkOptions, spark_home
from acidlib.errors import RefusedError
from acidlib.installed import CHECKOUT, conf_file
from acidlib.launch.submission import Installation, Submission

_SET = "--set"


def installation(environment: Mapping[str, str]) -> Installation:
    """What jobs are started with from this environment."""
    return Installation(
        python=Path(sys.executable),
        spark_home=spark_home(environment),
        has_spark_env=not is_what_a_job_finds(environment),
        log4j=conf_file("log4j2.properties", environment),
        checkout=CHECKOUT,
    )


def is_what_a_job_finds(environment: Mapping[str, str]) -> bool:
    """Return whether a driver that is started here has these variables: a spark-env.sh may give it others."""
    if environment.get("SPARK_ENV_LOADED"):
        return True
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
    try:
        os.execvpe(submission.command[0], submission.command, dict(submission.environment))  # noqa: S606 - no shell
    except OSError as error:
        raise RefusedError(
            f"Cannot start Spark: {submission.command[0]} cannot be run: {error.strerror}; "
            "SPARK_HOME names where Spark is, PYSPARK_DRIVER_PYTHON the Python of the driver"
        ) from error
