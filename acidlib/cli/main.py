"""The command `acidlib`, and ./spark-submit.sh: command lines are checked here, before anything is started for them.

acidlib [options of spark-submit] COMMAND [options of the command]
./spark-submit.sh [options of spark-submit] FILE [options of the job]

Options before the command are Spark's, options behind it are the command's. Modules that a job needs are imported where
a job is checked, so that help is shown at once.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from acidlib.cli.help import HELP_OPTIONS, HelpedCommand
from acidlib.cli.launch import (
    JOBS,
    PLACE_SHOWN,
    Job,
    begin,
    driver_has_variables,
    job_named,
    log_file,
    run_logged,
    start_driver,
    tell_starting,
    without_passwords,
)
from acidlib.config.files import CHECKOUT, METASTORE_DB_VARIABLE, QUEUE_VARIABLE
from acidlib.errors import AcidError, RefusedError, UsageError
from acidlib.execute.spark_options import (
    DEPLOY_MODE,
    KEYTAB,
    OPTIONS,
    PRINCIPAL,
    SHELL,
    SUBMIT_ARGS,
    SparkOptions,
    spark_options,
    split_words,
)
from acidlib.masking import MASK, masked
from acidlib.version import __version__
from acidlib.wording import alike

ENTRY = Path(__file__).resolve().parent / "entry" / "acidlib_job.py"
"""The file that runs as the driver: under Python on this machine, under spark-submit elsewhere."""
_HELP = ("-h", "--help")
_OURS = (*_HELP, "--version")
"""Options that stand before a command and are not spark-submit's."""
_AGAIN = "from acidlib.cli.main import main; main()"
"""The program of the child process whose output goes to the file of --log-file."""
_LIKE_A_COMMAND = 0.6
"""The likeness of a wrong command to a right one: there are few of them."""


def main() -> None:
    """Run the command line of this process; exit status 1 if Spark cannot be started."""
    begin()
    try:
        words, path = log_file(sys.argv[1:])
        if path is not None:
            sys.exit(run_logged([sys.executable, "-P", "-c", _AGAIN, *words], path))
        group.main(words, prog_name=group.name)
    except AcidError as error:
        _exit_with(error)


class Commands(HelpedCommand, click.Group):
    """The jobs of `JOBS`. A job is loaded when its command is used."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the options of Spark for the command, as `ctx.obj`."""
        ours = next((position for position, word in enumerate(args) if word in _OURS), len(args))
        spark, rest = split_words(args[:ours])
        ctx.obj = spark
        if not ctx.resilient_parsing:
            _require_sparks_options(SparkOptions(spark))
        return super().parse_args(ctx, [*rest, *args[ours:]])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of a name; `show` with a PLACE, wherever that stands, is a job of its own."""
        if args[0] == "show" and _names_a_place(args[1:]):
            args = [PLACE_SHOWN, *args[1:]]
        if job_named(args[0]) is None and not ctx.resilient_parsing and not args[0].startswith("-"):
            close = alike(args[0].replace("_", "-"), self.list_commands(ctx), likeness=_LIKE_A_COMMAND)
            meant = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise click.UsageError(f"No such command {args[0]!r}.{meant}", ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        del ctx
        return [job.name for job in JOBS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command that starts a job; for a shell's completion the job itself, which knows its options."""
        job = job_named(cmd_name)
        if job is None:
            return None
        return job.load() if ctx.resilient_parsing else _Started(job)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the options of spark-submit as well, and of each name the first word."""
        sparks = [CompletionItem(option) for option in OPTIONS if incomplete and option.startswith(incomplete)]
        ours = (item for item in super().shell_complete(ctx, incomplete) if item.value != PLACE_SHOWN)
        return [*ours, *sparks]

    def panels(self, ctx: click.Context) -> list[Any]:
        """Return a panel for each group of commands, and one for the options."""
        from rich_click import RichCommandPanel

        groups = dict.fromkeys(job.group for job in JOBS)
        commands = [
            RichCommandPanel(group, commands=[job.name for job in JOBS if job.group == group]) for group in groups
        ]
        return [*commands, *super().panels(ctx)]

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show that options of spark-submit come first."""
        formatter.write_usage(ctx.command_path, "[OPTIONS OF SPARK-SUBMIT] COMMAND [OPTIONS]")


class _Started(click.Command):
    """The command of the group that starts a job, and leaves the words behind it to the job."""

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
        """Start the job with the words behind it; `click.UsageError` for an option of Spark's among them."""
        sparks = {*OPTIONS} - {"--help", "--version"}
        for option in (word.partition("=")[0] for word in ctx.args if word.startswith("--")):
            if option in sparks and not any(option in param.opts for param in self._job.load().params):
                raise click.UsageError(
                    f"{option} stands before the command, as in: acidlib {option} ... {self._job.name}", ctx
                )
        run_job(self._job, spark=ctx.obj, words=ctx.args, name=ctx.command_path)
        ctx.exit()

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the whole summary."""
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
    """Compact Hive ACID tables."""


def run_job(job: Job, *, spark: Sequence[str], words: Sequence[str], name: str) -> None:
    """Start a job; its help needs no Spark."""
    if not job.spark and any(option not in (PRINCIPAL, KEYTAB) for option, _ in SparkOptions(tuple(spark)).options):
        unused = " ".join(word if masked(word) == word else MASK for word in spark)
        raise click.UsageError(f"{job.name} needs no Spark: {unused} means nothing before it")
    # the driver of such a job stays on this machine, whatever spark-defaults.conf says
    options = spark_options([*spark, *([DEPLOY_MODE, "client"] if job.stays else [])], os.environ)
    if not set(_HELP) & set(words):
        tell_starting("Spark" if options.driver_is_placed else job.name)
    if not job.spark:
        os.environ[SUBMIT_ARGS] = shlex.join([*options.words, SHELL])  # for --principal and --keytab
        job.load().main(args=list(words), prog_name=name)  # ends the process
    _check_words(job, name, words, options)
    if not options.driver_is_placed:  # it has the variables of this process
        words, variables = without_passwords(words)
        if METASTORE_DB_VARIABLE in variables:
            os.environ.pop(QUEUE_VARIABLE, None)
        os.environ.update(variables)
    start_driver(options, [str(ENTRY), job.name, *words])


def main_of_file(words: list[str]) -> None:
    """Run a file as the driver of Spark; exit status 1 if that is not possible, 2 if the command line is wrong."""
    begin()
    options, behind = split_words(words)
    try:
        if not behind and set(_HELP) & set(options):
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
            _check_file(Path(rest[0]), rest[1:], spark)
        start_driver(spark, rest)
    except AcidError as error:
        _exit_with(error)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except click.ClickException as error:
        from acidlib.report.text import one_line

        error.message = one_line(error.message)  # type: ignore[misc]  # click has no other way
        error.show()
        sys.exit(error.exit_code)


def _names_a_place(words: Sequence[str]) -> bool:
    """Return whether the words behind `show` have one that is neither an option of it nor the value of one."""
    job = job_named("show")
    assert job is not None
    show = job.load()
    ctx = click.Context(
        show, resilient_parsing=True, ignore_unknown_options=True, allow_extra_args=True, **show.context_settings
    )
    return any(not word.startswith("-") for word in show.make_parser(ctx).parse_args(list(words))[1])


def _exit_with(error: AcidError) -> NoReturn:
    """Print the error on one line, and end the process with its exit status."""
    from acidlib.report.text import one_line
    from acidlib.report.values import EXIT_NOT_DONE

    click.echo(f"error: {one_line(str(error))}", err=True)
    sys.exit(click.UsageError.exit_code if isinstance(error, UsageError) else EXIT_NOT_DONE)


def _check_file(file: Path, words: Sequence[str], spark: SparkOptions) -> None:
    """Raise the error that a job would raise for its words. Words of another file are for that file to check."""
    names = {job.module.replace("_", "-"): job.module for job in JOBS if job.file}
    if ":/" not in str(file) and not file.exists():
        close = alike(file.stem.replace("_", "-"), names, likeness=_LIKE_A_COMMAND)
        meant = [f"jobs/{names[name]}.py" for name in close] or [f"jobs/{module}.py" for module in names.values()]
        raise click.UsageError(f"Cannot run {file}: there is no such file. Did you mean {' or '.join(meant)}?")
    if CHECKOUT is not None and file.resolve().parent == CHECKOUT / "jobs" and file.stem in names.values():
        job = next(job for job in JOBS if job.module == file.stem)
        _check_words(job, file.name, words, spark)


def _require_sparks_options(spark: SparkOptions) -> None:
    """Raise `click.UsageError` for an option that is a job's, or a misspelling of one of spark-submit's.

    Any other unknown option is left to spark-submit, of which a later version may have it.
    """
    for option in spark.unknown:
        if close := alike(option, OPTIONS):
            raise click.UsageError(f"spark-submit has no option {option!r}. Did you mean {' or '.join(close)}?")
        owner = next((job for job in JOBS if any(option in param.opts for param in job.load().params)), None)
        if owner is not None:
            raise click.UsageError(f"{option} stands behind the command, as in: acidlib {owner.name} {option} ...")


def _check_words(job: Job, name: str, words: Sequence[str], spark: SparkOptions) -> None:
    """End the process as the job would, if its words are wrong or ask for help.

    Words are checked without their surroundings if the driver will have other variables, such as `HIVE_CONF_DIR`, than
    this process. Raises `RefusedError` for a driver whose queue would be a file on a machine that Spark chooses.
    """
    from acidlib.cli.command import JobCommand
    from acidlib.runs.environment import QUEUE_IN_A_FILE
    from acidlib.runs.machine import Machine

    command = job.load()
    if not isinstance(command, JobCommand):
        return
    machine = None
    if driver_has_variables(os.environ) and not spark.driver_is_placed:
        machine = Machine(spark_options=lambda: spark, is_placed=lambda: False)
    options = command.check(name, words, machine)
    # without a metastore the queue is in a file; with one, the driver finds out whether it needs a file
    has_no_metastore = options.get("location") or options.get("warehouse") or options.get("metastore_uri") == "none"
    if spark.driver_is_placed and has_no_metastore and not options.get("queue_url"):
        error = RefusedError(QUEUE_IN_A_FILE)
        if options.get("output") == "json":
            command.print_error_document(error.kind, str(error))
        raise error
