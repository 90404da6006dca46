"""The command `acidlib`: acidlib [options of spark-submit] COMMAND [options of the command]

What stands before the command is Spark's, what stands behind it is the command's.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from acidlib import __version__
from acidlib.engine.command import HELP_OPTIONS
from acidlib.engine.spark_options import (
    DEPLOY_MODE,
    OPTIONS,
    SUBMIT_ARGS,
    SparkOptions,
    spark_options,
    split_words,
)
from acidlib.engine.streams import tell_starting, while_loading
from acidlib.errors import AcidError, UsageError
from acidlib.jobs.table import JOBS, Job, job_named
from acidlib.launch.here import installation, is_what_a_job_finds, queue_of_yarn, start
from acidlib.launch.logged import log_file, run_logged
from acidlib.launch.submission import submission
from acidlib.launch.words import ASKING, did_you_mean, require_right_words, require_sparks_options
from acidlib.report.results import EXIT_NOT_DONE
from acidlib.report.text import one_line

ENTRY = Path(__file__).resolve().parent / "entry" / "acidlib_job.py"
"""What is run as the driver, by Python here or by spark-submit elsewhere."""
_USAGE = "[OPTIONS OF SPARK-SUBMIT] COMMAND [OPTIONS]"
_OURS = (*ASKING, "--version")
"""Before a command these are not handed to spark-submit."""
_AGAIN = "from acidlib.launch.command import main; main()"
"""This command, in a process whose output goes to a file."""
_EXIT_USAGE = 2


class Commands(click.Group):
    """The jobs of the table. None is loaded before it is asked for."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what is Spark's for the command."""
        ours = next((position for position, word in enumerate(args) if word in _OURS), len(args))
        spark, rest = split_words(args[:ours])
        ctx.obj = spark
        if not ctx.resilient_parsing:
            require_sparks_options(SparkOptions(spark))
        return super().parse_args(ctx, [*rest, *args[ours:]])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """`show PLACE` is `show-place PLACE`."""
        if args[0] == "show" and len(args) > 1 and not args[1].startswith("-"):
            args = ["show-place", *args[1:]]
        if job_named(args[0]) is None and not ctx.resilient_parsing and not args[0].startswith("-"):
            names = self.list_commands(ctx)
            raise click.UsageError(f"No such command {args[0]!r}.{did_you_mean(args[0], names)}", ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        del ctx
        return [job.name for job in JOBS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """What runs a job, by its name; where words are completed, the job itself, which knows its options."""
        job = job_named(cmd_name)
        if job is None:
            return None
        return job.load() if ctx.resilient_parsing else _Started(job)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Also what stands before a command."""
        sparks = [CompletionItem(option) for option in OPTIONS if option.startswith(incomplete)]
        return [*super().shell_complete(ctx, incomplete), *(sparks if incomplete.startswith("-") else ())]

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Whose options stand where."""
        formatter.write_usage(ctx.command_path, _USAGE)


class _Started(click.Command):
    """A job as the group sees it: its words are its own."""

    def __init__(self, job: Job) -> None:
        super().__init__(
            job.name,
            help=job.summary,
            add_help_option=False,
            context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        )
        self._job = job

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave them as they are."""
        ctx.args = list(args)
        return ctx.args

    def invoke(self, ctx: click.Context) -> Any:
        """Start the job with them."""
        run(self._job, spark=ctx.obj, words=ctx.args, name=ctx.command_path)
        ctx.exit()

    def get_short_help_str(self, limit: int = 45) -> str:
        """The whole line of the table."""
        del limit
        return self._job.summary


def run(job: Job, *, spark: Sequence[str], words: Sequence[str], name: str) -> None:
    """Start a job; its help needs no Spark."""
    if not job.spark and not SparkOptions(tuple(spark)).is_login_alone:
        raise click.UsageError(f"{job.name} needs no Spark: {' '.join(spark)} means nothing before it")
    # what cannot be placed is a driver on this machine, whatever spark-defaults.conf says
    options = spark_options([*spark, *([DEPLOY_MODE, "client"] if job.stays else [])], os.environ)
    if not set(ASKING) & set(words):
        tell_starting("Spark" if options.driver_is_placed else job.name)
    if not job.spark:
        os.environ[SUBMIT_ARGS] = shlex.join(options.words)  # who logs in
        job.load().main(args=list(words), prog_name=name)  # which ends the process
    require_right_words(job, name, words, options, is_known=is_what_a_job_finds(os.environ))
    queue = queue_of_yarn(options, words)
    start(submission(options, [str(ENTRY), job.name, *words], installation(os.environ), os.environ, queue=queue))


@click.command(
    "acidlib",
    cls=Commands,
    context_settings=HELP_OPTIONS,
    help="Compaction of Hive ACID tables with Spark. What stands before COMMAND is for spark-submit, what stands "
    "behind it is for the command: acidlib --master yarn major-compact --time-budget 40m. COMMAND -h shows its "
    "options.",
)
@click.version_option(__version__, prog_name="acidlib", message="%(prog)s %(version)s")
def group() -> None:
    """All jobs."""


def main() -> None:
    """The command line of this process; exit status 1 where Spark cannot be started."""
    while_loading()
    try:
        words, path = log_file(sys.argv[1:])
        if path is not None:
            sys.exit(run_logged([sys.executable, "-P", "-c", _AGAIN, *words], path))
        group.main(words, prog_name=group.name)
    except AcidError as error:
        click.echo(f"error: {one_line(str(error))}", err=True)
        sys.exit(_EXIT_USAGE if isinstance(error, UsageError) else EXIT_NOT_DONE)
