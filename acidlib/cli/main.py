"""The command `acidlib`, and ./spark-submit.sh: words are judged here, before anything is started for them.

acidlib [options of spark-submit] COMMAND [options of the command]
./spark-submit.sh [options of spark-submit] FILE [options of the job]

What stands before the command is Spark's, what stands behind it is the command's.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from acidlib import __version__
from acidlib.cli.command import HELP_OPTIONS, JobCommand, Machine
from acidlib.cli.help import HelpedCommand
from acidlib.cli.launch import (
    JOBS,
    Job,
    begin,
    is_what_a_job_finds,
    job_named,
    log_file,
    run_logged,
    start_driver,
    tell_starting,
)
from acidlib.config.files import CHECKOUT
from acidlib.errors import AcidError, RefusedError, UsageError
from acidlib.report.results import EXIT_NOT_DONE
from acidlib.report.text import one_line
from acidlib.service.environment import QUEUE_IN_A_FILE
from acidlib.service.spark_driver import (
    DEPLOY_MODE,
    KEYTAB,
    OPTIONS,
    PRINCIPAL,
    SUBMIT_ARGS,
    SparkOptions,
    spark_options,
    split_words,
)

ENTRY = Path(__file__).resolve().parent / "entry" / "acidlib_job.py"
"""What is run as the driver, by Python here or by spark-submit elsewhere."""
_ASKING = ("-h", "--help")
_OURS = (*_ASKING, "--version")
"""Before a command these are not handed to spark-submit."""
_AGAIN = "from acidlib.cli.main import main; main()"
"""This command, in a process whose output goes to a file."""
_EXIT_USAGE = 2
_NEARLY = 0.8
"""So much alike (`difflib`) are an option and what was meant to be it."""


def main() -> None:
    """Run the command line of this process; exit status 1 where Spark cannot be started."""
    begin()
    try:
        words, path = log_file(sys.argv[1:])
        if path is not None:
            sys.exit(run_logged([sys.executable, "-P", "-c", _AGAIN, *words], path))
        group.main(words, prog_name=group.name)
    except AcidError as error:
        click.echo(f"error: {one_line(str(error))}", err=True)
        sys.exit(_EXIT_USAGE if isinstance(error, UsageError) else EXIT_NOT_DONE)


class Commands(HelpedCommand, click.Group):
    """The jobs of the table. None is loaded before it is asked for."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what is Spark's for the command."""
        ours = next((position for position, word in enumerate(args) if word in _OURS), len(args))
        spark, rest = split_words(args[:ours])
        ctx.obj = spark
        if not ctx.resilient_parsing:
            _require_sparks_options(SparkOptions(spark))
        return super().parse_args(ctx, [*rest, *args[ours:]])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of a name; `show PLACE` is `show-place PLACE`."""
        if args[0] == "show" and len(args) > 1 and not args[1].startswith("-"):
            args = ["show-place", *args[1:]]
        if job_named(args[0]) is None and not ctx.resilient_parsing and not args[0].startswith("-"):
            close = get_close_matches(args[0].replace("_", "-"), self.list_commands(ctx))
            meant = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise click.UsageError(f"No such command {args[0]!r}.{meant}", ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        del ctx
        return [job.name for job in JOBS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return what runs a job, by its name; where words are completed, the job itself, which knows its options."""
        job = job_named(cmd_name)
        if job is None:
            return None
        return job.load() if ctx.resilient_parsing else _Started(job)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete also what stands before a command."""
        sparks = [CompletionItem(option) for option in OPTIONS if option.startswith(incomplete)]
        return [*super().shell_complete(ctx, incomplete), *(sparks if incomplete.startswith("-") else ())]

    def panels(self, ctx: click.Context) -> list[Any]:
        """Return a panel for each group of commands, and one for the options."""
        from rich_click import RichCommandPanel

        groups = dict.fromkeys(job.group for job in JOBS)
        commands = [
            RichCommandPanel(group, commands=[job.name for job in JOBS if job.group == group]) for group in groups
        ]
        return [*commands, *super().panels(ctx)]

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show whose options stand where."""
        formatter.write_usage(ctx.command_path, "[OPTIONS OF SPARK-SUBMIT] COMMAND [OPTIONS]")


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
        """Leave the words as they are."""
        ctx.args = list(args)
        return ctx.args

    def invoke(self, ctx: click.Context) -> Any:
        """Start the job with them."""
        run(self._job, spark=ctx.obj, words=ctx.args, name=ctx.command_path)
        ctx.exit()

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the whole line of the table."""
        del limit
        return self._job.summary


@click.command(
    "acidlib",
    cls=Commands,
    context_settings=HELP_OPTIONS,
    help="Compact Hive ACID tables with Spark. Options before COMMAND are those of spark-submit, options behind it are "
    "the command's: acidlib COMMAND --help shows them.",
    epilog="""\
Examples:
  acidlib quickstart
  acidlib major-compact --table sales.orders --dry-run
  acidlib --master yarn major-compact --time-budget 40m

Completion in bash:
  eval "$(_ACIDLIB_COMPLETE=bash_source acidlib)"
""",
)
@click.version_option(__version__, prog_name="acidlib", message="%(prog)s %(version)s")
def group() -> None:
    """Hold all jobs."""


def run(job: Job, *, spark: Sequence[str], words: Sequence[str], name: str) -> None:
    """Start a job; its help needs no Spark."""
    if not job.spark and any(option not in (PRINCIPAL, KEYTAB) for option, _ in SparkOptions(tuple(spark)).given):
        raise click.UsageError(f"{job.name} needs no Spark: {' '.join(spark)} means nothing before it")
    # what cannot be placed is a driver on this machine, whatever spark-defaults.conf says
    options = spark_options([*spark, *([DEPLOY_MODE, "client"] if job.stays else [])], os.environ)
    if not set(_ASKING) & set(words):
        tell_starting("Spark" if options.driver_is_placed else job.name)
    if not job.spark:
        os.environ[SUBMIT_ARGS] = shlex.join(options.words)  # who logs in
        job.load().main(args=list(words), prog_name=name)  # which ends the process
    _require_right_words(job, name, words, options)
    start_driver(options, [str(ENTRY), job.name, *words])


def main_of_file(words: list[str]) -> None:
    """Run a file as the driver of Spark; exit status 1 where that is not possible, 2 where the words are wrong."""
    begin()
    options, behind = split_words(words)
    try:
        if not behind and set(_ASKING) & set(options):
            click.echo("Usage: ./spark-submit.sh [OPTIONS OF SPARK-SUBMIT] jobs/JOB.py [OPTIONS OF THE JOB]\n")
            click.echo("  jobs/JOB.py -h shows the options of a job.\n\nJobs:")
            for job in JOBS:
                if job.file:
                    click.echo(f"  {f'jobs/{job.module}.py':<26} {job.summary}")
            sys.exit(0)
        _require_sparks_options(SparkOptions(options))
        rest, path = log_file(behind)
        if path is not None:
            sys.exit(run_logged([sys.executable, "-P", "-m", "acidlib.cli", *options, *rest], path))
        spark = spark_options(options, os.environ)
        if rest:
            _judge_file(Path(rest[0]), rest[1:], spark)
        start_driver(spark, rest)
    except AcidError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(_EXIT_USAGE if isinstance(error, UsageError) else EXIT_NOT_DONE)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


def _judge_file(file: Path, words: Sequence[str], spark: SparkOptions) -> None:
    """Refuse what the job would refuse; what another file makes of its words it alone knows."""
    names = {job.module.replace("_", "-"): job.module for job in JOBS if job.file}
    if ":/" not in str(file) and not file.exists():
        close = get_close_matches(file.stem.replace("_", "-"), list(names))
        meant = [f"jobs/{names[name]}.py" for name in close] or [f"jobs/{module}.py" for module in names.values()]
        raise click.UsageError(f"Cannot run {file}: there is no such file. Did you mean {' or '.join(meant)}?")
    if CHECKOUT is not None and file.resolve().parent == CHECKOUT / "jobs" and file.stem in names.values():
        job = next(job for job in JOBS if job.module == file.stem)
        _require_right_words(job, file.name, words, spark)


def _require_sparks_options(spark: SparkOptions) -> None:
    """Raise UsageError of click for an option that spark-submit lacks, where it is a job's or looks like another.

    Any other is left to spark-submit: a later version may have it.
    """
    for option in spark.unknown:
        if close := get_close_matches(option, OPTIONS, cutoff=_NEARLY):
            raise click.UsageError(f"spark-submit has no option {option!r}. Did you mean {' or '.join(close)}?")
        having = next((job for job in JOBS if any(option in one.opts for one in job.load().params)), None)
        if having is not None:
            raise click.UsageError(f"{option} stands behind the command, as in: acidlib {having.name} {option} ...")


def _require_right_words(job: Job, name: str, words: Sequence[str], spark: SparkOptions) -> None:
    """End the process as the job would for words that are wrong, or ask for help.

    They are judged by themselves alone where the job reads other variables, such as `HIVE_CONF_DIR`, than stand here.
    Raises `RefusedError` for a driver whose queue would lie in a file of a machine that Spark chooses.
    """
    command = job.load()
    if not isinstance(command, JobCommand):
        return
    machine = None
    if is_what_a_job_finds(os.environ) and not spark.driver_is_placed:
        # of Spark what these options say, and Spark itself once it is asked
        machine = Machine(said=lambda: spark, placed=lambda: False)
    given = command.judge(name, words, machine)
    # without a metastore the queue is in a file; whether a metastore needs one, the driver finds out
    alone = given.get("location") or given.get("warehouse") or given.get("metastore_uri") == "none"
    if spark.driver_is_placed and alone and not given.get("queue_url"):
        error = RefusedError(QUEUE_IN_A_FILE)
        if given.get("output") == "json":
            command.print_error_document(error.kind, str(error))
        raise error
