"""What is decided when a job is handed to spark-submit: the command line and its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from acidlib.launch.spark_options import DRIVER_PYTHON, ENVIRONMENT, PYTHON, QUEUE, SparkOptions

_EXECUTORS, _DRIVER, _PATH, _ADDRESS = "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "SPARK_LOCAL_IP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What a job is started with.

    python      the interpreter of this environment
    spark_home  of the Spark to use
    log4j       the file that says what Spark itself writes; None leaves that to Spark
    checkout    where the package lies if nothing installed it there; None for an installed one
    """

    python: Path
    spark_home: Path
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
    """How spark-submit is called.

    words        the file that it runs, and what stands behind that
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
    if spark.has_environment and not (spark.is_local or stated.get(_EXECUTORS) or spark.property(PYTHON)):
        # by properties, for variables do not reach a driver on Kubernetes
        options += ["--conf", f"{PYTHON}=./{ENVIRONMENT}/bin/python"]
        if not (spark.driver_is_placed or spark.property(DRIVER_PYTHON)):
            options += ["--conf", f"{DRIVER_PYTHON}={stated.get(_DRIVER) or here.python}"]
    else:
        stated[_EXECUTORS] = stated.get(_EXECUTORS) or str(here.python)
        if not spark.driver_is_placed:
            stated[_DRIVER] = stated.get(_DRIVER) or str(here.python)
    if queue:
        options += [QUEUE, queue]
    if here.checkout is not None:
        stated = _with_path(stated, str(here.checkout), first=not spark.archives)
    program = str(Path(stated["SPARK_HOME"], "bin", "spark-submit"))
    return Submission((program, *options, *spark.words, *words), stated)


def _with_path(environment: Mapping[str, str], checkout: str, *, first: bool) -> dict[str, str]:
    """The checkout stands first in PYTHONPATH, or not at all: YARN's executors see it before what is in an archive."""
    others = [part for part in environment.get(_PATH, "").split(os.pathsep) if part and part != checkout]
    parts = [checkout, *others] if first else others
    rest = {name: value for name, value in environment.items() if name != _PATH}
    return rest | ({_PATH: os.pathsep.join(parts)} if parts else {})
