"""Runs a file as the driver of Spark: python -m acidlib.cli [spark-submit options] FILE [options of the job]"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from acidlib.cli.jobs.table import JOBS, job_in
from acidlib.cli.launch import installation, is_what_a_job_finds, queue_of_yarn, start, submission
from acidlib.cli.logged import log_file, run_logged
from acidlib.cli.main import ASKING, missing_file, require_right_words, require_sparks_options
from acidlib.errors import AcidError, UsageError
from acidlib.service.spark_options import SparkOptions, spark_options, split_words


def main(words: list[str]) -> None:
    """Hand it over; exit status 1 where that is not possible, 2 where the words are wrong."""
    options, behind = split_words(words)
    try:
        if not behind and set(ASKING) & set(options):
            click.echo(_help())
            sys.exit(0)
        require_sparks_options(SparkOptions(options))
        rest, path = log_file(behind)
        if path is not None:
            sys.exit(run_logged([sys.executable, "-P", "-m", "acidlib.cli", *options, *rest], path))
        spark = spark_options(options, os.environ)
        if rest:
            _judge(rest[0], rest[1:], spark)
        queue = queue_of_yarn(spark, rest[1:])
        start(submission(spark, rest, installation(os.environ), os.environ, queue=queue))
    except AcidError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


def _judge(file: str, words: list[str], spark: SparkOptions) -> None:
    """Refuse what the job would refuse; what another file makes of its words it alone knows."""
    if "://" not in file and not Path(file).exists():
        raise missing_file(file)
    job = job_in(Path(file))
    if job is not None:
        require_right_words(job, Path(file).name, words, spark, is_known=is_what_a_job_finds(os.environ))


def _help() -> str:
    lines = [
        "Usage: ./spark-submit.sh [OPTIONS OF SPARK-SUBMIT] jobs/JOB.py [OPTIONS OF THE JOB]",
        "",
        "  jobs/JOB.py -h shows the options of a job.",
        "",
        "Jobs:",
        *(f"  {f'jobs/{job.module}.py':<26} {job.summary}" for job in JOBS if job.file),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
