"""The surroundings of every job: the services it uses, its output, and its exit status after an error."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import click

from acidlib import __version__
from acidlib.cli.help import HELP_OPTIONS, HelpedCommand
from acidlib.config.settings import Layer
from acidlib.errors import AcidError, DefectError, RetryError, UsageError
from acidlib.metastore.kerberos import keep_logged_in
from acidlib.report.html import html_of, write_page
from acidlib.report.page import Page, error_page
from acidlib.report.progress import ERROR, NOTE, WARNING, LogFormat, LogLines, TerminalProgress
from acidlib.report.results import EXIT_NOT_DONE
from acidlib.report.run import RunReport
from acidlib.report.text import json_text
from acidlib.service.environment import Environment
from acidlib.service.services import WORKER_PREFIX, Application, Runner, Services
from acidlib.service.spark_driver import OF_THIS_PROCESS, SparkOptions
from acidlib.service.stopping import STOPPING, exit_status, write_line
from acidlib.stores.hadoop import DelegationTokens, Hadoop, HandedTokens, asks_for_kerberos
from acidlib.stores.stores import Stores

Report = TypeVar("Report", bound=RunReport)
_RUN = "acidlib.run"
_ONLY_CHECKING = "acidlib.only checking"


def _of_spark(name: str) -> Callable[..., Any]:
    """Return a function that calls the one of this name in `service.spark`, which is loaded when it is called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        from acidlib.service import spark

        return getattr(spark, name)(*args, **kwargs)

    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine that a job runs on. A caller in this process may hand in another one as `obj`.

    session        opens the session that runs tasks: by `name`, and `conf`, the settings of Spark
    spark_options  the options that the caller gave to Spark
    is_placed      whether Spark chose this machine for the driver
    jvm            py4j's view of the JVM of Spark, and the configuration of Hadoop in it
    clock          epoch seconds
    pause          waits for so many seconds
    """

    session: Callable[..., AbstractContextManager[Runner]] = field(default=_of_spark("SparkRunner"))
    spark_options: Callable[[], SparkOptions] = field(default=_of_spark("driver_spark_options"))
    is_placed: Callable[[], bool] = field(default=_of_spark("driver_is_placed"))
    jvm: Callable[[], tuple[Any, Any]] = field(default=_of_spark("hadoop_in_jvm"))
    clock: Callable[[], float] = time.time
    pause: Callable[[float], None] = time.sleep

    @classmethod
    def current(cls) -> Machine:
        """Return the machine of the current command."""
        return click.get_current_context().find_object(cls) or cls()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The run of a command: its unique id, and when it began (epoch seconds)."""

    id: str
    began: float

    @classmethod
    def current(cls) -> Run:
        """Return the run of the current command."""
        meta = click.get_current_context().meta
        run: Run = meta.setdefault(_RUN, cls(id=uuid.uuid4().hex[:16], began=Machine.current().clock()))
        return run

    def worker_id(self, host: str) -> str:
        """Return the id that the queue, the JSON document and the log lines show."""
        return f"{WORKER_PREFIX}{host}-{self.id}"


def log_lines() -> LogLines:
    """Return the log lines of the current command: in the form of --log-format, else by the kind of standard error."""
    context = click.get_current_context()
    form = context.params.get("log_format") or "auto"
    if form == "auto":
        form = LogFormat.WORDS.value if sys.stderr.isatty() else LogFormat.FULL.value
    return LogLines(
        format=LogFormat(form),
        job=context.command.name or "",
        run_id=Run.current().worker_id(socket.gethostname()),
        clock=Machine.current().clock,
    )


def tell(text: str, *, level: str) -> None:
    """Write a line about the run as a whole to standard error."""
    click.echo(log_lines().line(text, level=level), err=True)


class JobCommand(HelpedCommand):
    """A job, which reports an error in one line on the real standard error, with the documented exit status.

    With --output json the error is a document on standard output as well. The callback of a job checks its command
    line, calls `end_of_check`, and does the work; it imports below that call the modules that the work needs. So the
    process that starts Spark checks the command line first, by the same code: see `check`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"context_settings": HELP_OPTIONS} | kwargs)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the command line; print an error document for a wrong one that has --output json."""
        words = list(args)
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.ClickException as error:
            # --output may stand beside the wrong word
            ctx = click.Context(self, resilient_parsing=True, ignore_unknown_options=True, allow_extra_args=True)
            if self.make_parser(ctx).parse_args(words)[0].get("output") == "json":
                self.print_error_document(UsageError.kind, error.format_message())
            raise

    def check(self, name: str, words: Sequence[str], machine: Machine | None) -> dict[str, Any]:
        """Return the options of a right command line. For a wrong one, and for --help, end the process as a run would.

        machine  the surroundings that a run would have; None if they are not known here, then the command line is
                 checked without them
        """
        with self.make_context(name, list(words), obj=machine) as ctx:
            if machine is not None:
                ctx.meta[_ONLY_CHECKING] = True
                with suppress(_Checked):
                    self.invoke(ctx)
            return ctx.params

    def invoke(self, ctx: click.Context) -> Any:
        """Run the job, until it ends or a signal stops it."""
        lines = log_lines()

        def end_at_once(status: int) -> NoReturn:
            OF_THIS_PROCESS.kill()  # Spark's JVM
            os._exit(status)

        with STOPPING.by_signals(lambda text: write_line(lines.line(text, level=NOTE)), end_at_once):
            return self._run(ctx)

    def _run(self, ctx: click.Context) -> Any:
        debug, json = bool(ctx.params.get("debug")), ctx.params.get("output") == "json"
        status = EXIT_NOT_DONE
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, SystemExit, _Checked):
            raise
        except (click.ClickException, UsageError) as error:
            message = error.format_message() if isinstance(error, click.ClickException) else str(error)
            if json:
                self.print_error_document(UsageError.kind, message)
            if debug:
                traceback.print_exception(error)
            raise click.UsageError(message, ctx) from None
        except KeyboardInterrupt as stop:
            by = STOPPING.by or signal.SIGINT
            kind, status = "interrupted", exit_status(by)
            message = f"interrupted by {by.name}: {str(stop) or 'what was done stays, everything else is as it was'}"
            with suppress(OSError):  # the terminal may be closed
                tell(message, level=ERROR)
        except Exception as error:
            kind, message = DefectError.kind, f"unexpected {type(error).__name__}: {' '.join(str(error).split())}"
            message += " (--debug shows where)"
            if isinstance(error, AcidError):
                kind, message = error.kind, str(error)
            if debug:
                traceback.print_exception(error)
            else:
                tell(message, level=ERROR)
            if isinstance(error, _UnwrittenError):
                raise SystemExit(EXIT_NOT_DONE) from None
        if json:
            self.print_error_document(kind, message)
        report = ctx.params.get("report")
        if report is not None:
            with suppress(Exception):  # the error is reported already, and may be that of this very page
                page = error_page(self._error_document(kind, message))
                write_page(html_of(page), report, unique=uuid.uuid4().hex[:16])
        raise SystemExit(status)

    def print_error_document(self, kind: str, message: str) -> None:
        """Print the document that --output json puts on standard output after an error."""
        with suppress(OSError):  # the reader of a pipe has ended; the exit status tells as much
            click.echo(json_text(self._error_document(kind, message)))

    def _error_document(self, kind: str, message: str) -> dict[str, Any]:
        error = {"kind": kind, "message": message}
        return {"job": self.name, "version": __version__, "run_id": None, "error": error}


class _Checked(Exception):  # noqa: N818 - it is no error
    """The end of a check: the command line is right."""


def end_of_check() -> None:
    """Return if the job is to do its work, and end here if its command line is only checked."""
    if is_only_checking():
        raise _Checked


def is_only_checking() -> bool:
    """Return whether the command line is only checked, and no work follows."""
    return _ONLY_CHECKING in click.get_current_context().meta


_STORES = (
    *("fs.defaultFS", "fs.hdfs.impl", "fs.permissions.umask-mode", "fs.s3a.", "fs.viewfs.mounttable.", "dfs."),
    "hadoop.security.",
)
"""Prefixes of the properties that stores need; no others are sent to tasks."""


def stores_of(environment: Environment) -> Stores:
    """Return the stores of tables, with Hadoop's configuration and Spark's, which wins.

    While a command line is only checked, they open no connection, and no user is logged in.
    """
    machine = Machine.current()
    properties = {**environment.settings.hadoop, **machine.spark_options().hadoop}
    configuration = {name: text for name, text in properties.items() if name.startswith(_STORES)}
    if is_only_checking():
        return Stores(configuration=configuration)
    tokens = HandedTokens()
    if asks_for_kerberos(configuration):
        keep_logged_in(environment.login)
        tokens = HandedTokens(DelegationTokens(machine.jvm, machine.clock))
    return Stores(configuration=configuration, hadoop=Hadoop(machine.jvm), secrets=environment.secrets, tokens=tokens)


@contextmanager
def open_services(environment: Environment, *, job: str, about: str) -> Iterator[Services]:
    """Open all that a service needs for one run, such as Spark and a progress bar."""
    host, machine = environment.host, Machine.current()
    progress = TerminalProgress(lines=log_lines())
    for warning in environment.settings.warnings:
        progress.note(warning, level=WARNING)
    conf = {
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",  # between the pools of small files and of large ones
    }
    yarn_queue = environment.settings.text("hive.compactor.job.queue")
    if yarn_queue:
        conf["spark.yarn.queue"] = yarn_queue
    with machine.session(name=f"{host}-compactor-{about}" if about else f"{host}-{job}", conf=conf) as runner:
        yield Services(
            stores=stores_of(environment),
            runner=runner,
            settings=environment.settings,
            host=host,
            worker_id=Run.current().worker_id(host),
            clock=machine.clock,
            pause=machine.pause,
            unique=lambda: uuid.uuid4().hex[:16],
            progress=progress,
        )


def run_head(
    environment: Environment, run_id: str | None = None, application: Application | None = None
) -> dict[str, Any]:
    """Return the first fields of the JSON document of the run, which ends now."""
    application = application or Application()
    return {
        "job": click.get_current_context().command.name,
        "version": __version__,
        "run_id": run_id,
        "start_ms": int(Run.current().began * 1000),
        "end_ms": int(Machine.current().clock() * 1000),
        "application_id": application.id,
        "tracking_url": application.tracking_url,
        "settings": [
            {"name": name, "value": setting.text, "source": setting.layer.label}
            for name, setting in environment.settings.values.items()
            if setting.layer is not Layer.BUILT_IN
        ],
    }


def report_of(make: Callable[..., Report], environment: Environment, services: Services, **options: Any) -> Report:
    """Return the report that collects the results of a run, in the forms that --output and --report ask for."""
    return make(
        lambda: run_head(environment, services.worker_id, services.runner.application),
        as_json=environment.json,
        has_page=environment.report is not None,
        **options,
    )


def print_report(environment: Environment, report: RunReport, notes: Sequence[str]) -> None:
    """Print the notes on standard error, and the result on standard output."""
    if not environment.json:
        for note in notes:
            tell(note, level=NOTE)
    print_result(environment, report.pieces(notes), lambda: report.page(notes))


def print_result(
    environment: Environment,
    pieces: Iterable[str],
    page: Callable[[], Page],
    *,
    metrics: Callable[[], None] | None = None,
) -> None:
    """Print the result on standard output, then write the page of --report and the metrics.

    Each is tried, also after another has failed; the failures are raised together. `metrics` writes the metrics.
    """
    problems = []
    try:
        print_pieces(pieces)
    except _UnwrittenError as error:
        problems.append(str(error))

    def write(name: str, to_file: Callable[[], None]) -> None:
        try:
            to_file()
        except Exception as error:  # a defect in a drawing must not hide the result of the run
            if click.get_current_context().params.get("debug"):
                traceback.print_exception(error)
            text = str(error)
            if not isinstance(error, AcidError):
                text = f"Cannot write {name}: unexpected {type(error).__name__}: {error}"
            problems.append(f"{text}; what was done is done")

    report = environment.report
    if report is not None:
        write(f"the report to {report}", lambda: write_page(html_of(page()), report, unique=Run.current().id))
    if metrics is not None:
        write("the metrics", metrics)
    if problems:
        raise _UnwrittenError("; ".join(problems))


def print_pieces(pieces: Iterable[str]) -> None:
    """Write the result to standard output. Raise `_UnwrittenError` if that is not possible."""
    try:
        for piece in pieces:
            click.echo(piece, nl=False)
        click.echo()
    except (OSError, ValueError) as error:  # a closed pipe, a full disk, an encoding that lacks a character
        with suppress(OSError, ValueError):
            # else the flush at the end of the process fails, too
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _UnwrittenError(f"Cannot write the result to standard output: {reason}; what was done is done") from error


class _UnwrittenError(RetryError):
    """The result could not be written to standard output, or not to its page or metrics."""
