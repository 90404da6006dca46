"""What the command line does around every job: it handles signals, prints the result, and sets the exit status."""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from acidlib.api.caller import Caller, Shown
from acidlib.arguments import Word, option
from acidlib.cli.help import HELP_OPTIONS, HelpedCommand
from acidlib.config.settings import Settings
from acidlib.errors import AcidError, DefectError, RetryError, UsageError
from acidlib.execute.driver_jvm import OF_THIS_PROCESS
from acidlib.execute.stopping import LEFT, STOPPING, exit_status
from acidlib.model.results import ErrorDescription, ErrorDocument, Head
from acidlib.report.html import html_of, write_page
from acidlib.report.page import error_page
from acidlib.report.progress import ERROR, INFO, NOTE, LogFormat, LogLines, Progress, TerminalProgress
from acidlib.report.text import json_text, one_line
from acidlib.report.values import EXIT_NOT_DONE, Result, plain
from acidlib.runs.machine import Machine, Run
from acidlib.standard_error import write_line
from acidlib.version import __version__

_RUN = "acidlib.run"
_ONLY_CHECKING = "acidlib.only checking"


def current_machine() -> Machine:
    """Return the machine of the current command; a caller in this process may hand in another one as `obj`."""
    return click.get_current_context().find_object(Machine) or Machine()


def current_run() -> Run:
    """Return the run of the current command."""
    context = click.get_current_context()
    run: Run = context.meta.setdefault(_RUN, Run.of(context.command.name or "", current_machine()))
    return run


def log_lines() -> LogLines:
    """Return the log lines of the current command: in the form of --log-format, else by the kind of standard error."""
    context = click.get_current_context()
    form = context.params.get("log_format") or "auto"
    if form == "auto":
        form = LogFormat.WORDS.value if sys.stderr.isatty() else LogFormat.FULL.value
    return LogLines(
        format=LogFormat(form),
        job=context.command.name or "",
        run_id=current_run().worker_id(socket.gethostname()),
        clock=current_machine().clock,
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

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return what stands behind the name: no argument that the name of the command has already."""
        named = (ctx.info_name or "").split()
        return [piece for piece in super().collect_usage_pieces(ctx) if piece.strip("[]") not in named]

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
                print_traceback(error)
            raise click.UsageError(one_line(message), ctx) from None
        except KeyboardInterrupt as stop:
            by = STOPPING.by or signal.SIGINT
            kind, status = "interrupted", exit_status(by)
            message = f"interrupted by {by.name}: {str(stop) or LEFT}"
            with suppress(OSError):  # the terminal may be closed
                tell(message, level=ERROR)
        except Exception as error:
            kind, message = DefectError.kind, f"unexpected {type(error).__name__}: {' '.join(str(error).split())}"
            message += " (--debug shows where)"
            if isinstance(error, AcidError):
                kind, message = error.kind, str(error)
            if debug:
                print_traceback(error)
            else:
                tell(message, level=ERROR)
            if isinstance(error, _UnwrittenError):
                raise SystemExit(EXIT_NOT_DONE) from None
        if json:
            self.print_error_document(kind, message)
        report = ctx.params.get("report")
        if report is not None:
            with suppress(Exception):  # the error is reported already, and may be that of this very page
                page = error_page(self._head(), ErrorDescription(kind=kind, message=message))
                write_page(html_of(page), report, unique=uuid.uuid4().hex[:16])
        raise SystemExit(status)

    def print_error_document(self, kind: str, message: str) -> None:
        """Print the document that --output json puts on standard output after an error."""
        with suppress(OSError):  # the reader of a pipe has ended; the exit status tells as much
            document = ErrorDocument(error=ErrorDescription(kind=kind, message=message))
            click.echo(json_text(plain(self._head()) | plain(document)))

    def _head(self) -> Head:
        return Head(job=self.name or "", version=__version__)


flag = partial(click.option, is_flag=True)
"""An option without a value."""


def job_command(
    name: str, *, help: str, example: str, without_effect: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], JobCommand]:
    """Return a decorator that makes a function the command of a job.

    example         the words of a line that is worth trying, for the end of the help
    without_effect  options that it takes so that one set of them serves all jobs of a workflow; its help hides them
    """
    make = click.command(name, cls=JobCommand, help=help, epilog=f"Example:\n  acidlib {example}")

    def decorate(function: Callable[..., Any]) -> JobCommand:
        command = make(function)
        for parameter in command.params:
            if isinstance(parameter, click.Option) and parameter.opts[0] in without_effect:
                parameter.hidden = True
        return command

    return decorate


def print_traceback(error: Exception) -> None:
    """Print the traceback of an error on standard error, with secrets masked: those of others may hold some."""
    lines = "".join(traceback.format_exception(error)).rstrip("\n").split("\n")
    click.echo("\n".join(map(one_line, lines)), err=True)


class _Checked(Exception):  # noqa: N818 - it is no error
    """The end of a check: the command line is right."""


def end_of_check() -> None:
    """Return if the job is to do its work, and end here if its command line is only checked."""
    if is_only_checking():
        raise _Checked


def is_only_checking() -> bool:
    """Return whether the command line is only checked, and no work follows."""
    return _ONLY_CHECKING in click.get_current_context().meta


class CommandLine(Caller):
    """The command line as the caller of verbs: signals and messages are `JobCommand`'s.

    write_metrics  writes the metrics of a status, once it is printed; None without any
    """

    def __init__(self) -> None:
        super().__init__()
        self.write_metrics: Callable[[], None] | None = None

    @property
    def is_check(self) -> bool:
        """Whether the command line is only checked."""
        return is_only_checking()

    @property
    def machine(self) -> Machine:
        """The machine of the current command."""
        return current_machine()

    def machine_with(
        self, settings: Settings, progress: Progress, spark: Any = None, *, may_start_spark: bool = True
    ) -> Machine:
        """Return the machine of the current command, which starts Spark for tasks."""
        del settings, progress, spark, may_start_spark
        return current_machine()

    def new_run(self, job: str) -> Run:
        """Return the run of the current command."""
        del job
        return current_run()

    def word(self, of_lake: Word) -> Word:
        """Have texts name options."""
        del of_lake
        return option

    def progress(self, run: Run, shown: Shown = None, *, word: Word = option) -> Progress:
        """Return what shows the progress on standard error."""
        del run, shown
        return TerminalProgress(lines=log_lines(), word=word)

    def checked(self) -> None:
        """End here if the command line is only checked."""
        end_of_check()

    def write(self, to_file: Callable[[], None]) -> None:
        """Keep it for `finish`."""
        self.write_metrics = to_file

    @contextmanager
    def verb(self, of_lake: Word) -> Iterator[None]:
        """Carry out a verb, whose errors name options as they are."""
        del of_lake
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a command makes of its result: text or JSON on standard output, and a page in the file of --report."""

    json: bool = False
    report: Path | None = None


def finish(
    output: Output,
    result: Result,
    notes: Iterable[str] = (),
    *,
    pieces: Iterable[str] | None = None,
    metrics: Callable[[], None] | None = None,
) -> NoReturn:
    """Print the notes on standard error and the result on standard output, and end with its exit status.

    Then the page of --report and the metrics are written. Each is tried, also after another has failed; the failures
    are raised together.

    pieces   the text on standard output, if it is not that of the result
    metrics  writes the metrics
    """
    if not output.json:
        for note in notes:
            tell(note, level=NOTE)
    if result.nothing and log_lines().format is not LogFormat.WORDS:
        tell(result.nothing, level=INFO)  # in a log the same words on standard output have neither time nor job
    problems = []
    try:
        print_pieces(result.json_pieces() if output.json else pieces or result.text_pieces())
    except _UnwrittenError as error:
        problems.append(str(error))

    def write(name: str, to_file: Callable[[], None]) -> None:
        try:
            to_file()
        except Exception as error:  # a defect in a drawing must not hide the result of the run
            if click.get_current_context().params.get("debug"):
                print_traceback(error)
            text = str(error)
            if not isinstance(error, AcidError):
                text = f"Cannot write {name}: unexpected {type(error).__name__}: {error}"
            problems.append(f"{text}; what was done is done")

    report = output.report
    if report is not None:
        write(f"the report to {report}", lambda: result.write_report(report))
    if metrics is not None:
        write("the metrics", metrics)
    if problems:
        raise _UnwrittenError("; ".join(problems))
    raise SystemExit(result.exit_status)


def print_pieces(pieces: Iterable[str]) -> None:
    """Write the result to standard output. Raise `_UnwrittenError` if that is not possible.

    A reader that has read enough, such as `head`, closes the pipe: then the rest is not written, and nothing is wrong.
    """
    try:
        for piece in pieces:
            click.echo(piece, nl=False)
        click.echo()
    except (OSError, ValueError) as error:  # a full disk, a closed pipe, an encoding that lacks a character
        with suppress(OSError, ValueError):
            # else the flush at the end of the process fails, too
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _UnwrittenError(f"Cannot write the result to standard output: {reason}; what was done is done") from error


class _UnwrittenError(RetryError):
    """The result could not be written to standard output, or not to its page or metrics."""
