"""Which jobs there are: one table for the command `acidlib`, the files in jobs/ of a checkout, and the documents.

A job is added by a module here whose `main` is its command, a line in `JOBS`, and a file of a few lines in jobs/,
unless it is for the command alone.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from acidlib.installed import CHECKOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job, of which nothing is loaded yet.

    name     as the command `acidlib` has it
    module   below `acidlib.cli.jobs`
    summary  one line about it
    spark    options of spark-submit mean something to it
    stays    its driver is on this machine, whatever --deploy-mode says
    file     a file in jobs/ with the name of the module runs it, too
    """

    name: str
    module: str
    summary: str
    spark: bool = True
    stays: bool = False
    file: bool = True

    def load(self) -> click.Command:
        """Its command."""
        found: click.Command = importlib.import_module(f"acidlib.cli.jobs.{self.module}").main
        return found


JOBS: Sequence[Job] = (
    Job(name="major-compact", module="major_compact", summary="Merge base and deltas of tables into a new base."),
    Job(name="minor-compact", module="minor_compact", summary="Merge deltas of tables into one."),
    Job(name="initiator", module="initiator", summary="Look at all tables and queue what is over Hive's thresholds."),
    Job(name="cleaner", module="cleaner", summary="Remove what compactions made obsolete."),
    Job(name="undo", module="undo", summary="Take the result of a compaction back.", stays=True),
    Job(name="cancel", module="cancel", summary="Withdraw requests that wait in the queue.", spark=False),
    Job(name="show", module="show_compactions", summary="Show the queue and its history.", spark=False),
    Job(
        name="show-place",
        module="show_place",
        summary="Show what is in a table, and what readers read of it.",
        stays=True,
    ),
    Job(name="doctor", module="doctor", summary="Look whether jobs can work here.", stays=True, file=False),
    Job(name="status", module="status", summary="Show how all tables are doing, and what is wrong.", stays=True),
    Job(name="warm", module="warm", summary="Compile the kernels, once for an installation.", spark=False, file=False),
    Job(name="pack", module="pack", summary="Make one archive for --archives.", spark=False, file=False),
    Job(name="quickstart", module="quickstart", summary="Show each step on a copy of two tables that Hive wrote."),
)


def job_named(name: str) -> Job | None:
    """The job of a name."""
    return next((job for job in JOBS if job.name == name), None)


def job_in(path: Path) -> Job | None:
    """Return the job that a file runs; None where it is none of a checkout's jobs/."""
    if CHECKOUT is None or path.resolve().parent != CHECKOUT / "jobs":
        return None
    return next((job for job in JOBS if job.file and job.module == path.stem), None)
