"""What is wrong with the words of a command line, told before anything is started for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from acidlib.engine.command import JobCommand, Machine
from acidlib.engine.placed import QUEUE_IN_A_FILE
from acidlib.engine.spark_options import OPTIONS, SparkOptions
from acidlib.errors import RefusedError
from acidlib.jobs.table import JOBS, Job
from acidlib.metastore.options import KerberosLogin

ASKING = ("-h", "--help")
"""Words that ask for help."""
_NEARLY = 0.8
"""So much alike (`difflib`) are an option and what was meant to be it."""


def require_sparks_options(spark: SparkOptions) -> None:
    """Raise UsageError of click for an option that spark-submit lacks, where it is a job's or looks like another.

    Any other is left to spark-submit: a later version may have it.
    """
    for option in spark.unknown:
        if close := get_close_matches(option, OPTIONS, cutoff=_NEARLY):
            raise click.UsageError(f"spark-submit has no option {option!r}. Did you mean {' or '.join(close)}?")
        having = next((job for job in JOBS if any(option in one.opts for one in job.load().params)), None)
        if having is not None:
            raise click.UsageError(f"{option} stands behind the command, as in: acidlib {having.name} {option} ...")


def machine_of(spark: SparkOptions) -> Machine:
    """Return what a job finds on this machine: of Spark what these options say, and Spark itself once it is asked."""
    return Machine(
        hadoop=lambda: spark.properties_below("spark.hadoop."),
        placed=lambda: False,
        login=lambda: KerberosLogin(principal=spark.principal or None, keytab=spark.keytab or None),
    )


def require_right_words(job: Job, name: str, words: Sequence[str], spark: SparkOptions, *, is_known: bool) -> None:
    """End the process as the job would for words that are wrong, or ask for help.

    is_known  what the job reads of its surroundings, such as `HIVE_CONF_DIR`, is what is read here

    Raises `RefusedError` for a driver whose queue would lie in a file of a machine that Spark chooses.
    """
    command = job.load()
    if not isinstance(command, JobCommand):
        return
    is_here = is_known and not spark.driver_is_placed
    given = command.judge(name, words, machine_of(spark) if is_here else None)
    if spark.driver_is_placed:
        _require_queue(command, given)


def _require_queue(command: JobCommand, given: Mapping[str, Any]) -> None:
    """Refuse here what the driver would refuse, on a machine where nobody reads it.

    Without a metastore that is a queue in a file. Whether a metastore needs one, the driver finds out.
    """
    alone = given.get("location") or given.get("warehouse") or given.get("metastore_uri") == "none"
    if alone and not given.get("queue_url"):
        error = RefusedError(QUEUE_IN_A_FILE)
        if given.get("output") == "json":
            command.print_error_document(error.kind, str(error))
        raise error


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return the end of a sentence about a name that is none: those that look like it."""
    close = get_close_matches(word.replace("_", "-"), list(names))
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


def missing_file(path: str) -> click.UsageError:
    """Return the error for a file of a job that is not there."""
    names = {job.module.replace("_", "-"): job.module for job in JOBS if job.file}
    close = get_close_matches(Path(path).stem.replace("_", "-"), list(names))
    meant = [f"jobs/{names[one]}.py" for one in close] or [f"jobs/{module}.py" for module in names.values()]
    return click.UsageError(f"Cannot run {path}: there is no such file. Did you mean {' or '.join(meant)}?")
