"""What surrounds every job: the services it works with, its output, and its exit status when it cannot be done."""

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
from acidlib.cli.help import HelpedCommand
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
HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}
_RUN = "acidlib.run"
_ONLY_JUDGED = "acidlib.only judged"


def _of_spark(name: str) -> Callable[..., Any]:
    """Return a function that calls one of `service.spark`, which is loaded then: to look at words needs no Spark."""

    def call(*given: Any, **named: Any) -> Any:
        from acidlib.service import spark

        return getattr(spark, name)(*given, **named)

    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What jobs take from the machine they run on. A caller in this process may give another one as `obj`.

    session  makes what tasks run on, for the length of a run: by `name`, and `conf`, the settings of Spark
    said     what is said to Spark
    placed   tells that Spark chose it for the driver
    jvm      py4j's view of the JVM of Spark, and the configuration of Hadoop in it
    clock    epoch seconds
    pause    waits for so many seconds
    """

    session: Callable[..., AbstractContextManager[Runner]] = field(default=_of_spark("SparkRunner"))
    said: Callable[[], SparkOptions] = field(default=_of_spark("said_to_spark"))
    placed: Callable[[], bool] = field(default=_of_spark("driver_is_placed"))
    jvm: Callable[[], tuple[Any, Any]] = field(default=_of_spark("hadoop_in_jvm"))
    clock: Callable[[], float] = time.time
    pause: Callable[[float], None] = time.sleep

    @classmethod
    def current(cls) -> Machine:
        """Return the one of the command that runs."""
        return click.get_current_context().find_object(cls) or cls()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The run of the command: its id, unique, and when it began (epoch seconds)."""

    id: str
    began: float

    @classmethod
    def current(cls) -> Run:
        """Return the one of the command that runs."""
        meta = click.get_current_context().meta
        found: Run = meta.setdefault(_RUN, cls(id=uuid.uuid4().hex[:16], began=Machine.current().clock()))
        return found

    def worker_id(self, host: str) -> str:
        """Return the id as the queue, the document and the log lines have it."""
        return f"{WORKER_PREFIX}{host}-{self.id}"


def log_lines() -> LogLines:
    """Return how lines of the command that runs are written: by --log-format, else by what standard error is."""
    context = click.get_current_context()
    given = context.params.get("log_format") or "auto"
    if given == "auto":
        given = LogFormat.WORDS.value if sys.stderr.isatty() else LogFormat.FULL.value
    return LogLines(
        format=LogFormat(given),
        job=context.command.name or "",
        run_id=Run.current().worker_id(socket.gethostname()),
        clock=Machine.current().clock,
    )


def tell(text: str, *, level: str) -> None:
    """Write a line to standard error, about the run as a whole."""
    click.echo(log_lines().line(text, level=level), err=True)


class JobCommand(HelpedCommand):
    """A job: what goes wrong is reported in one line, on the real standard error, with the documented exit status.

    With --output json it is a document on standard output as well. `name` is the job's. Its callback looks at the
    words, calls `words_are_right`, and carries them out; what it loads for that it loads below that line. So whatever
    starts Spark has the words judged before, by the same lines: see `judge`.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **{"context_settings": HELP_OPTIONS} | named)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Understand the words of the command line."""
        words = list(args)
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.ClickException as error:
            # the words are understood as far as they can be
            ctx = click.Context(self, resilient_parsing=True, ignore_unknown_options=True, allow_extra_args=True)
            if self.make_parser(ctx).parse_args(words)[0].get("output") == "json":
                self.print_error_document(UsageError.kind, error.format_message())
            raise

    def judge(self, name: str, words: Sequence[str], machine: Machine | None) -> dict[str, Any]:
        """Return the options of words that are right. For others, and for a call for help, it ends as a run would.

        machine  what a run would find around it, as far as words need it; None, where that is not known here: then
                 the words are judged by themselves alone
        """
        with self.make_context(name, list(words), obj=machine) as ctx:
            if machine is not None:
                ctx.meta[_ONLY_JUDGED] = True
                with suppress(_Judged):
                    self.invoke(ctx)
            return ctx.params

    def invoke(self, ctx: click.Context) -> Any:
        """Run what the options ask for, until that is done or a signal stops it."""
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
        except (click.exceptions.Exit, SystemExit, _Judged):
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
            with suppress(OSError):  # the terminal may have gone
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
            with suppress(Exception):  # what went wrong has been reported, and may be just this
                page = error_page(self._error_document(kind, message))
                write_page(html_of(page), report, unique=uuid.uuid4().hex[:16])
        raise SystemExit(status)

    def print_error_document(self, kind: str, message: str) -> None:
        """Print what stands on standard output with --output json when the job could not be done."""
        with suppress(OSError):  # whoever would read it has gone; the status tells as much
            click.echo(json_text(self._error_document(kind, message)))

    def _error_document(self, kind: str, message: str) -> dict[str, Any]:
        error = {"kind": kind, "message": message}
        return {"job": self.name, "version": __version__, "run_id": None, "error": error}


class _Judged(Exception):  # noqa: N818 - it is no error
    """The end of a judgement: the words are right."""


def words_are_right() -> None:
    """End here where words are only judged: what a job does below this line needs more than them."""
    if are_only_judged():
        raise _Judged


def are_only_judged() -> bool:
    """Return whether the words of the command line are judged, and not carried out."""
    return _ONLY_JUDGED in click.get_current_context().meta


_STORES = (
    *("fs.defaultFS", "fs.hdfs.impl", "fs.permissions.umask-mode", "fs.s3a.", "fs.viewfs.mounttable.", "dfs."),
    "hadoop.security.",
)
"""How the properties begin that stores go by; no others travel to tasks."""


def stores_of(environment: Environment) -> Stores:
    """Return what opens the stores of tables, by Hadoop's configuration and Spark's, which wins.

    Where words are only judged it opens none, and logs in no user.
    """
    machine = Machine.current()
    stated = {**environment.settings.hadoop, **machine.said().hadoop}
    configuration = {name: text for name, text in stated.items() if name.startswith(_STORES)}
    if are_only_judged():
        return Stores(configuration=configuration)
    tokens = HandedTokens()
    if asks_for_kerberos(configuration):
        keep_logged_in(environment.login)
        tokens = HandedTokens(DelegationTokens(machine.jvm, machine.clock))
    return Stores(configuration=configuration, hadoop=Hadoop(machine.jvm), secrets=environment.secrets, tokens=tokens)


@contextmanager
def services(environment: Environment, *, job: str, about: str) -> Iterator[Services]:
    """Make everything a service works with, for the length of one run: Spark and a progress bar."""
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
    """Return what the JSON document says first of the run, which ends now."""
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


def report_of(make: Callable[..., Report], environment: Environment, found: Services, **how: Any) -> Report:
    """Return what gathers the results of a run, in the forms that were asked for."""
    return make(
        lambda: run_head(environment, found.worker_id, found.runner.application),
        as_json=environment.json,
        has_page=environment.report is not None,
        **how,
    )


def print_report(environment: Environment, report: RunReport, notes: Sequence[str]) -> None:
    """Print notes for people on standard error, and the result on standard output."""
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
    """Print the result on standard output, then as a page and as metrics where asked for; none prevents another.

    metrics  writes them
    """
    problems = []
    try:
        print_pieces(pieces)
    except _UnwrittenError as error:
        problems.append(str(error))

    def write(what: str, to_file: Callable[[], None]) -> None:
        try:
            to_file()
        except Exception as error:  # a fault of ours in a drawing must not hide what the run has done
            if click.get_current_context().params.get("debug"):
                traceback.print_exception(error)
            text = str(error)
            if not isinstance(error, AcidError):
                text = f"Cannot write {what}: unexpected {type(error).__name__}: {error}"
            problems.append(f"{text}; what was done is done")

    report = environment.report
    if report is not None:
        write(f"the report to {report}", lambda: write_page(html_of(page()), report, unique=Run.current().id))
    if metrics is not None:
        write("the metrics", metrics)
    if problems:
        raise _UnwrittenError("; ".join(problems))


def print_pieces(pieces: Iterable[str]) -> None:
    """Write the result to standard output, and nothing else there."""
    try:
        for piece in pieces:
            click.echo(piece, nl=False)
        click.echo()
    except (OSError, ValueError) as error:  # a closed pipe, a full disk, an encoding that lacks a character
        with suppress(OSError, ValueError):
            # or it fails again when the process ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _UnwrittenError(f"Cannot write the result to standard output: {reason}; what was done is done") from error


class _UnwrittenError(RetryError):
    """Standard output does not take the result, or no page or metrics can be written of it."""
