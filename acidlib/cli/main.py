"""The command `acidlib`: acidlib [options of spark-submit] COMMAND [options of the command]"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from acidlib import __version__
from acidlib.cli.command import HELP_OPTIONS, JobCommand, Machine
from acidlib.cli.jobs.table import JOBS, Job, job_named
from acidlib.cli.launch import installation, is_what_a_job_finds, queue_of_yarn, start, submission
from acidlib.cli.logged import log_file, run_logged
from acidlib.cli.streams import tell_starting, while_loading
from acidlib.errors import AcidError, RefusedError, UsageError
from acidlib.metastore.options import KerberosLogin
from acidlib.report.results import EXIT_NOT_DONE
from acidlib.report.text import one_line
from acidlib.service.environment import QUEUE_IN_A_FILE
from acidlib.service.spark_options import DEPLOY_MODE, OPTIONS, SUBMIT_ARGS, SparkOptions, spark_options, split_words

# --- words ------------------------------------------------------------------------------------------------------------
# What is wrong with the words of a command line, told before anything is started for them.

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


# --- command ----------------------------------------------------------------------------------------------------------
# What stands before the command is Spark's, what stands behind it is the command's.

ENTRY = Path(__file__).resolve().parent / "entry" / "acidlib_job.py"
"""What is run as the driver, by Python here or by spark-submit elsewhere."""
_USAGE = "[OPTIONS OF SPARK-SUBMIT] COMMAND [OPTIONS]"
_OURS = (*ASKING, "--version")
"""Before a command these are not handed to spark-submit."""
_AGAIN = "from acidlib.cli.main import main; main()"
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
