"""How a driver is started: its command line and environment, and what this machine has for it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from acidlib.errors import RefusedError
from acidlib.installed import CHECKOUT, conf_file
from acidlib.service.spark_options import (
    DRIVER_PYTHON,
    ENVIRONMENT,
    PYTHON,
    QUEUE,
    SHELL,
    SUBMIT_ARGS,
    SparkOptions,
    spark_home,
)

# --- submission -------------------------------------------------------------------------------------------------------
# What is decided when a job is started: the command line and its environment.
#
# A driver on this machine is a Python process that starts Spark's JVM itself, as its child and when there are tasks: so
# words are understood before that, and signals reach Python, which ends the JVM when it needs it no more. One whose
# machine Spark chooses is started by spark-submit.

_EXECUTORS, _DRIVER, _PATH, _ADDRESS = "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "SPARK_LOCAL_IP"
_WITH_SPARK_ENV = ("/bin/bash", "-c", '. "$0" >&2; exec "$@"')
"""What stands before a command that is to have the variables of `spark-env.sh`, as all that Spark's scripts start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What a job is started with.

    python         the interpreter of this environment
    spark_home     of the Spark to use
    has_spark_env  a file spark-env.sh has variables for what runs on it
    log4j          the file that says what Spark itself writes; None leaves that to Spark
    checkout       where the package lies if nothing installed it there; None for an installed one
    """

    python: Path
    spark_home: Path
    has_spark_env: bool
    log4j: Path | None
    checkout: Path | None


@dataclass(frozen=True, slots=True)
class Submission:
    """A command line, and all variables of its environment."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


def submission(
    spark: SparkOptions, words: Sequence[str], here: Installation, environment: Mapping[str, str], *, queue: str = ""
) -> Submission:
    """Return how a job is started.

    words        the file with the job, and what stands behind that
    environment  of the caller; what it says of Spark and Python wins
    queue        of YARN, for a driver that it starts and for which nobody names one; empty: that of YARN's choice
    """
    stated = dict(environment)
    java: list[str] = []
    if here.log4j is not None and not spark.driver_is_placed:
        java.append(f"-Dlog4j2.configurationFile=file:{here.log4j}")
    if spark.is_local:
        # this JVM starts workers and passes bytes on: to optimise its code takes longer than to run it as it is
        java.append("-XX:TieredStopAtLevel=1")
        # nobody on another machine has to find this driver
        stated[_ADDRESS] = stated.get(_ADDRESS) or "127.0.0.1"
    options = ["--driver-java-options", " ".join(java)] if java else []
    if not stated.get("SPARK_HOME"):
        stated["SPARK_HOME"] = str(here.spark_home)
    driver = spark.property(DRIVER_PYTHON) or stated.get(_DRIVER) or str(here.python)
    executors = spark.property(PYTHON) or stated.get(_EXECUTORS)
    if not executors and spark.has_environment and not spark.is_local:
        executors = f"./{ENVIRONMENT}/bin/python"
        # by a property as well: variables do not reach a driver on Kubernetes
        options += ["--conf", f"{PYTHON}={executors}"]
    if not (spark.driver_is_placed and spark.has_environment):
        # by a variable, which is all that PySpark looks at in a driver that it has not started
        stated[_EXECUTORS] = executors or str(here.python)
    if queue:
        options += [QUEUE, queue]
    if here.checkout is not None:
        stated = _with_path(stated, str(here.checkout), first=not spark.archives)
    options += spark.words
    if spark.driver_is_placed:
        return Submission((str(Path(stated["SPARK_HOME"], "bin", "spark-submit")), *options, *words), stated)
    stated[SUBMIT_ARGS] = shlex.join([*options, SHELL])
    command = (driver, *words)
    if here.has_spark_env:
        command = (*_WITH_SPARK_ENV, str(Path(stated["SPARK_HOME"], "bin", "load-spark-env.sh")), *command)
    return Submission(command, stated)


def _with_path(environment: Mapping[str, str], checkout: str, *, first: bool) -> dict[str, str]:
    """The checkout stands first in PYTHONPATH, or not at all: YARN's executors see it before what is in an archive."""
    others = [part for part in environment.get(_PATH, "").split(os.pathsep) if part and part != checkout]
    parts = [checkout, *others] if first else others
    rest = {name: value for name, value in environment.items() if name != _PATH}
    return rest | ({_PATH: os.pathsep.join(parts)} if parts else {})


# --- here -------------------------------------------------------------------------------------------------------------
# What this machine has to start Spark with, and handing a job over to it.

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
    from acidlib.service.environment import read_settings  # much is loaded with it

    return read_settings(assignments(words), is_placed=False).text("hive.compactor.job.queue")


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
