"""The command line that all jobs share: options, surroundings, output, and exit statuses."""

from __future__ import annotations

import functools
import getpass
import os
import signal
import socket
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from acidlib import __version__
from acidlib.engine.open import Surroundings
from acidlib.engine.selection import Budget, Order, Selection
from acidlib.engine.services import Services
from acidlib.engine.spark import SparkSession
from acidlib.engine.target import Understanding
from acidlib.errors import AcidError, DefectError, RefusedError, RetryError, UsageError
from acidlib.metastore.options import parse_endpoints, uris_from_settings
from acidlib.model.generation import Generation
from acidlib.model.partitions import check_pattern
from acidlib.orc.hive_types import row_type_of_columns
from acidlib.planning.stated_write_ids import StatedWriteIds, stated_write_ids
from acidlib.report.progress import TerminalProgress
from acidlib.report.results import EXIT_NOT_DONE
from acidlib.report.text import json_text, one_line
from acidlib.settings import Layer, Settings, load_settings, parse_duration, parse_size, site_values
from acidlib.storage.oserrors import as_acid_error
from acidlib.storage.uris import open_filesystem

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf" / "acidlib.toml"

_Command = Callable[..., Any]


class Duration(click.ParamType[float]):
    """1d, 12h, 30s: seconds as a float."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        try:
            seconds = parse_duration(str(value)) / 1000
        except ValueError:
            seconds = -1.0
        if seconds < 0:
            self.fail(f"{value!r} is not a duration such as 30s, 12h or 1d", param, ctx)
        return seconds


class Size(click.ParamType[int]):
    """256m, 1g: bytes as an int."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes."""
        try:
            return parse_size(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a size such as 1024, 256m or 1g", param, ctx)


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """The options that every job has.

    queue_url  as given; None = the default one
    metastore  URIs of the metastore to work with; empty: without one
    names_metastore  it was given on the command line
    site       what hive-site.xml and metastore-site.xml say, as text
    pool       see `Surroundings`
    """

    queue_url: str | None
    output: str
    settings: Settings
    warnings: tuple[str, ...]
    metastore: tuple[str, ...] = ()
    names_metastore: bool = False
    site: Mapping[str, str] = field(default_factory=dict)
    pool: str | None = None

    @property
    def json(self) -> bool:
        """Whether standard output is to be one JSON document."""
        return self.output == "json"

    @property
    def surroundings(self) -> Surroundings:
        """Where requests and tables are."""
        return Surroundings(
            queue_url=self.queue_url,
            default_queue_url=_default_queue_url(),
            metastore=self.metastore,
            site=self.site,
            user=getpass.getuser(),
            host=socket.gethostname(),
            pool=self.pool,
        )

    def setting(self, key: str, value: str) -> Common:
        """The same with a setting that an option of its own stands for; RefusedError for a value that is none."""
        return replace(self, settings=self.settings.with_layer(Layer.COMMAND_LINE, {key: value})[0])

    def without_metastore(self) -> Common:
        """The same, for directories alone."""
        return replace(self, metastore=())


class JobCommand(click.Command):
    """A job: what goes wrong in it is told in one line, on the real standard error, with the documented exit status.

    With --output json it is a document on standard output as well. `name` is the job's.
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Understand the words of the command line."""
        words = list(args)
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.ClickException as error:
            if self._wants_json(words):
                self._tell_document(UsageError.kind, error.format_message())
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run what the options ask for."""
        debug, json = bool(ctx.params.get("debug")), ctx.params.get("output") == "json"
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, SystemExit):
            raise
        except (click.ClickException, UsageError) as error:
            message = error.format_message() if isinstance(error, click.ClickException) else str(error)
            if json:
                self._tell_document(UsageError.kind, message)
            if debug:
                traceback.print_exception(error)
            raise click.UsageError(message, ctx) from None
        except KeyboardInterrupt:
            kind = "interrupted"
            message = "interrupted; what was published stays, everything else was left as it was"
            click.echo(f"error: {message}", err=True)
        except Exception as error:
            kind, message = _told(error)
            if debug:
                traceback.print_exception(error)
            else:
                click.echo(f"error: {one_line(message)}", err=True)
            if isinstance(error, _UnwrittenError):
                raise SystemExit(EXIT_NOT_DONE) from None
        if json:
            self._tell_document(kind, message)
        raise SystemExit(EXIT_NOT_DONE)

    def _wants_json(self, words: list[str]) -> bool:
        """Whether words that are wrong somewhere say --output json, as far as they are understood."""
        ctx = click.Context(self, resilient_parsing=True, ignore_unknown_options=True, allow_extra_args=True)
        return self.make_parser(ctx).parse_args(words)[0].get("output") == "json"

    def _tell_document(self, kind: str, message: str) -> None:
        error = {"kind": kind, "message": message}
        with suppress(OSError):  # whoever would read it has gone; the status tells as much
            click.echo(json_text({"job": self.name, "version": __version__, "run_id": None, "error": error}))


def common_options(function: _Command) -> _Command:
    """--metastore-uri, --queue-url, --set, --output, --debug; passes `common`. Has to stand above the other options."""

    @click.option(
        "--metastore-uri",
        metavar="URI,…",
        help="thrift://host:9083, several for failover; default: hive-site.xml; none.",
    )
    @click.option("--queue-url", envvar="ACIDLIB_QUEUE_URL", help="Database of the queue; default: a SQLite file.")
    @click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="A setting by Hive's name.")
    @click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
    @click.option("--debug", is_flag=True, help="Show the traceback of an error.")
    @functools.wraps(function)
    def wrapped(
        *,
        metastore_uri: str | None,
        queue_url: str | None,
        assignments: tuple[str, ...],
        output: str,
        debug: bool,
        **options: Any,
    ) -> Any:
        del debug  # JobCommand has it
        conf_dir = _path_of("HIVE_CONF_DIR")
        settings, warnings = load_settings(
            conf_dir=conf_dir, toml=CONF if CONF.exists() else None, assignments=assignments
        )
        site = {} if conf_dir is None else site_values(conf_dir)
        common = Common(
            queue_url=queue_url,
            output=output,
            settings=settings,
            warnings=warnings,
            metastore=metastore_uris(metastore_uri, site),
            names_metastore=metastore_uri is not None and not _is_none(metastore_uri),
            site=site,
        )
        return function(common=common, **options)

    return wrapped


def selection_options(*, everything: bool) -> Callable[[_Command], _Command]:
    """Where and what; passes `selection` and `understanding`. `everything`: all tables are meant if none is named."""

    def decorate(function: _Command) -> _Command:
        @click.option("--warehouse", metavar="URI", help="A directory of databases and tables, without a metastore.")
        @click.option("--location", metavar="URI", help="One table or one partition, without a metastore.")
        @click.option("--table", "tables", multiple=True, metavar="DB.NAME", help="Only these; globs; repeatable.")
        @click.option("--exclude", multiple=True, metavar="DB.NAME", help="Not these; globs; repeatable.")
        @click.option("--partition", "partitions", multiple=True, metavar="K=GLOB", help="Only these; repeatable.")
        @click.option("--idle", type=Duration(), help="Only what has not changed for so long, e.g. 1d.")
        @if_exists_option
        @click.option("--write-ids", metavar="TEXT", help="Which write ids are committed, in Hive's format.")
        @click.option(
            "--write-ids-file", type=click.Path(path_type=Path, readable=False), help="The same, a line per table."
        )
        @click.option("--all-committed", is_flag=True, help="Nobody writes, nothing is open, nothing was aborted.")
        @click.option("--hive-version", type=click.Choice(["auto", "3", "4"]), default="auto", show_default=True)
        @click.option("--table-kind", type=click.Choice(["full", "insert-only"]), help="Where files cannot prove it.")
        @click.option(
            "--columns", metavar="'NAME TYPE, …'", help="The table's columns, where its files disagree in them."
        )
        @click.option("--visibility-txn", type=click.IntRange(min=1), help="A committed transaction for the names.")
        @functools.wraps(function)
        def wrapped(*, common: Common, **options: Any) -> Any:
            if options["location"] is not None or options["warehouse"] is not None:
                if common.names_metastore:
                    raise click.UsageError("--metastore-uri excludes --location and --warehouse")
                common = common.without_metastore()
            options["selection"] = _selection(options, has_metastore=bool(common.metastore), everything=everything)
            options["understanding"] = _understanding(
                options, options["selection"], has_metastore=bool(common.metastore)
            )
            return function(common=common, **options)

        return wrapped

    return decorate


def if_exists_option(function: _Command) -> _Command:
    """--if-exists; passes `if_exists`."""
    told = "Nothing to do, instead of an error, where a named table or location, or any such partition, does not exist."
    return click.option("--if-exists", is_flag=True, help=told)(function)


def metastore_uris(option: str | None, site: Mapping[str, str]) -> tuple[str, ...]:
    """The URIs of the option, else of hive-site.xml (either of Hive's names); `none` stands for no metastore."""
    if option is None:
        return uris_from_settings(site)
    if _is_none(option):
        return ()
    with _usage():
        parse_endpoints([option])
    return uris_from_settings({"hive.metastore.uris": option})


def _is_none(metastore_uri: str) -> bool:
    return metastore_uri.strip().lower() == "none"


def path_of(uri: str | None) -> str | None:
    """The path of a location that was given as an option; UsageError of click for one that cannot be opened."""
    with _usage():
        return None if uri is None else open_filesystem(uri)[1]


def checked_filters(tables: Sequence[str], exclude: Sequence[str], partitions: Sequence[str]) -> None:
    """Refuse texts of --table, --exclude and --partition that could never match anything."""
    for option, names in (("--table", tables), ("--exclude", exclude)):
        for name in names:
            database, _, table = name.partition(".")
            # a star may stand for the dot as well
            if "*" not in name and not (database and table):
                raise click.UsageError(f"{option} {name} is not of the form DB.NAME")
    with _usage():
        for pattern in partitions:
            check_pattern(pattern)


def _selection(options: dict[str, Any], *, has_metastore: bool, everything: bool) -> Selection:
    location, root = options.pop("location"), options.pop("warehouse")
    tables, exclude, partitions = options.pop("tables"), options.pop("exclude"), options.pop("partitions")
    checked_filters(tables, exclude, partitions)
    if location is not None and root is not None:
        raise click.UsageError("--location and --warehouse exclude each other")
    if location is not None and (tables or exclude):
        given = "--table" if tables else "--exclude"
        raise click.UsageError(f"--location names the table already: {given} goes with --warehouse or a metastore")
    if not has_metastore:
        if root is None and tables:
            raise click.UsageError("--table needs --metastore-uri, or --warehouse, the directory of its database")
        if everything and location is None and root is None:
            raise click.UsageError("give --metastore-uri, --warehouse or --location")
    if not everything and location is None and root is None and not tables and (partitions or exclude):
        given = "--partition" if partitions else "--exclude"
        raise click.UsageError(f"{given} needs --table: the queue is drained as it is")
    return Selection(
        location=path_of(location),
        warehouse=path_of(root),
        tables=tables,
        exclude=exclude,
        partitions=partitions,
        idle_seconds=options.pop("idle"),
        if_exists=options.pop("if_exists"),
    )


_STATED = ("write_ids", "write_ids_file", "all_committed", "table_kind", "columns", "visibility_txn")


def _understanding(options: dict[str, Any], selection: Selection, *, has_metastore: bool) -> Understanding:
    given = [f"--{name.replace('_', '-')}" for name in _STATED if options[name] not in (None, False)]
    version = options.pop("hive_version")
    given += ["--hive-version"] if version != "auto" else []
    if given and has_metastore:
        raise click.UsageError(f"{given[0]} is for directories: here the metastore knows")
    stated = _stated(options.pop("write_ids"), options.pop("write_ids_file"), everything=options.pop("all_committed"))
    names_something = selection.location is not None or selection.warehouse is not None
    if stated is None and names_something:
        raise click.UsageError(
            "what is committed cannot be known from files: give --write-ids, --write-ids-file or --all-committed"
        )
    if stated is not None and stated.single is not None and selection.location is None:
        raise click.UsageError(
            "--write-ids is for one table: give --location, or --write-ids-file with a line per table"
        )
    if given and not names_something:
        raise click.UsageError(f"{given[0]} goes with --location or --warehouse: what is queued was stated before")
    if given and not names_something:
        raise click.UsageError(f"{given[0]} goes with --location or --warehouse: what is queued has its own")
    return Understanding(
        write_ids=stated,
        generation=None if version == "auto" else Generation(int(version)),
        table_kind=options.pop("table_kind"),
        columns=_row_type(options.pop("columns"), selection),
        visibility_txn=options.pop("visibility_txn"),
    )


def _row_type(columns: str | None, selection: Selection) -> str | None:
    """The row's type of --columns."""
    if columns is None:
        return None
    if selection.location is None and (len(selection.tables) != 1 or set("*?[") & set(selection.tables[0])):
        raise click.UsageError("--columns is for one table: give --location, or one --table")
    with _usage():
        return row_type_of_columns(columns, where="the table of --columns")


def _stated(text: str | None, file: Path | None, *, everything: bool) -> StatedWriteIds | None:
    """What the three options state. Only what a file says is no matter of usage."""
    file_text = None if file is None else _read_text(file)
    if file is None or text is not None or everything:
        with _usage():
            return stated_write_ids(text=text, file_text=file_text, everything=everything)
    try:
        return stated_write_ids(text=None, file_text=file_text, everything=False)
    except RefusedError as error:
        raise RefusedError(f"Cannot use the write-id lists {file}: because one cannot be taken: {error}") from None


def pool_option(function: _Command) -> _Command:
    """--pool; sets it in `common`. Has to stand below `common_options`."""

    @click.option("--pool", metavar="NAME", help="Requests of this pool of a Hive 4 metastore; default: the setting.")
    @functools.wraps(function)
    def wrapped(*, common: Common, pool: str | None, **options: Any) -> Any:
        if pool is not None and not common.metastore:
            raise click.UsageError("--pool needs a metastore")
        if pool is not None and not pool.strip():
            raise click.UsageError("--pool names no pool")
        return function(common=replace(common, pool=pool), **options)

    return wrapped


def budget_options(function: _Command) -> _Command:
    """--order, --max-partitions, --max-bytes, --time-budget; passes `order` and `budget`."""

    @click.option("--order", type=click.Choice([order.value for order in Order]), default="deltas", show_default=True)
    @click.option("--max-partitions", type=click.IntRange(min=0), help="Start no more than these.")
    @click.option("--max-bytes", type=Size(), help="Start no more input bytes than these, e.g. 100g.")
    @click.option("--time-budget", type=Duration(), help="Start nothing after this time, e.g. 2h.")
    @functools.wraps(function)
    def wrapped(
        *, order: str, max_partitions: int | None, max_bytes: int | None, time_budget: float | None, **options: Any
    ) -> Any:
        deadline = None if time_budget is None else time.time() + time_budget
        budget = Budget(partitions=max_partitions, bytes=max_bytes, deadline=deadline)
        return function(order=Order(order), budget=budget, **options)

    return wrapped


@contextmanager
def services(common: Common, *, job: str, about: str) -> Iterator[Services]:
    """Everything a service works with, for the length of one run: Spark and a progress bar."""
    host = socket.gethostname()
    run_id = uuid.uuid4().hex[:16]
    progress = TerminalProgress()
    for warning in common.warnings:
        progress.note(f"warning: {warning}")
    fs, _ = open_filesystem("/")
    conf = {"spark.ui.showConsoleProgress": "false", "spark.executorEnv.PYTHONPATH": str(ROOT)}
    yarn_queue = common.settings.text("hive.compactor.job.queue")
    if yarn_queue:
        conf["spark.yarn.queue"] = yarn_queue
    with (
        _terminable(),
        SparkSession(name=f"{host}-compactor-{about}" if about else f"{host}-{job}", conf=conf) as runner,
    ):
        yield Services(
            fs=fs,
            runner=runner,
            settings=common.settings,
            host=host,
            worker_id=f"acidlib-{host}-{run_id}",
            clock=time.time,
            pause=time.sleep,
            unique=lambda: uuid.uuid4().hex[:16],
            progress=progress,
        )


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the run as an interrupt does: claims are released, staging is removed."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def print_result(common: Common, *, text: Callable[[], str], document: Callable[[], dict[str, Any]]) -> None:
    """The result on standard output, in the form that was asked for, and nothing else there."""
    told = json_text(document()) if common.json else text()
    try:
        click.echo(told)
    except (OSError, ValueError) as error:  # a closed pipe, a full disk, an encoding that lacks a character
        with suppress(OSError, ValueError):
            # or it fails again when the process ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _UnwrittenError(
            f"Cannot write the result to standard output: because {reason}; what was done is done"
        ) from error


class _UnwrittenError(RetryError):
    """Standard output does not take the result."""


def print_notes(common: Common, notes: Sequence[str]) -> None:
    """Notes for people, on standard error."""
    if not common.json:
        for note in notes:
            click.echo(f"note: {one_line(note)}", err=True)


def _told(error: Exception) -> tuple[str, str]:
    """The kind of an error, and its message."""
    if isinstance(error, AcidError):
        return error.kind, str(error)
    return DefectError.kind, f"unexpected {type(error).__name__}: {' '.join(str(error).split())} (--debug shows where)"


@contextmanager
def _usage() -> Iterator[None]:
    """What is refused here is wrong usage."""
    try:
        yield
    except RefusedError as error:
        raise click.UsageError(str(error)) from None


def _default_queue_url() -> str:
    home = _path_of("ACIDLIB_HOME") or Path.home() / ".local" / "state" / "acidlib"
    return f"sqlite:///{home / 'queue.db'}"


def _path_of(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value).expanduser().absolute() if value else None


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise as_acid_error(error, "read the write-id lists", str(path), missing=RefusedError) from error
    except UnicodeDecodeError as error:
        raise RefusedError(f"Cannot read the write-id lists {path}: because {error}") from error
