"""The options of the jobs: each decorator adds some and passes on what they mean."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from acidlib.cli.command import Machine, are_only_judged, stores_of
from acidlib.errors import RefusedError
from acidlib.model.location import Location
from acidlib.model.names import Generation
from acidlib.model.tables import check_pattern
from acidlib.orc.schema import row_type_of_columns
from acidlib.planning.stated_write_ids import StatedWriteIds, stated_write_ids
from acidlib.report.page import require_libraries, require_writable
from acidlib.report.progress import LogFormat
from acidlib.service.environment import Environment, read_environment, stated_uris
from acidlib.service.places import Budget, Interpretation, Order, Selection
from acidlib.stores.filesystem import as_acid_error
from acidlib.wording import parse_duration, parse_size

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


def _not_here(context: click.Context, option: click.Parameter, value: str | None) -> None:
    """What starts Spark has already done it, or nobody has."""
    del context, option
    if value is not None:
        raise click.UsageError(
            "--log-file is for acidlib and ./spark-submit.sh, for it takes what Spark writes as well; of plain "
            "spark-submit redirect the output"
        )


def common_options(function: _Command) -> _Command:
    """--metastore-uri, --queue-url, --set, --output, --log-format, --log-file, --debug; passes `environment`.

    Stands above all other options.
    """

    @click.option(
        "--metastore-uri",
        metavar="URI,…",
        help="thrift://host:9083 or zookeeper://host:2181/node, several for failover; default: hive-site.xml; none.",
    )
    @click.option("--queue-url", envvar="ACIDLIB_QUEUE_URL", help="Database of the queue; default: a SQLite file.")
    @click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="A setting by Hive's name.")
    @click.option(
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="What goes to standard output.",
    )
    @click.option(
        "--log-format",
        type=click.Choice(["auto", *(form.value for form in LogFormat)]),
        default="auto",
        show_default=True,
        envvar="ACIDLIB_LOG_FORMAT",
        help="Lines on standard error: words; full, with time, level, run and place; json. auto: words on a terminal.",
    )
    @click.option(
        "--log-file",
        metavar="FILE",
        expose_value=False,
        callback=_not_here,
        help="All output is appended there; standard error has only problems, a line for each.",
    )
    @click.option("--debug", is_flag=True, help="Show the traceback of an error.")
    @functools.wraps(function)
    def wrapped(
        *,
        metastore_uri: str | None,
        queue_url: str | None,
        assignments: tuple[str, ...],
        output: str,
        log_format: str,
        debug: bool,
        **options: Any,
    ) -> Any:
        del debug, log_format  # JobCommand and `log_lines` have them
        with _usage():
            metastore = stated_uris(metastore_uri)
        machine = Machine.current()
        found = read_environment(
            metastore=metastore,
            queue_url=queue_url,
            assignments=assignments,
            output=output,
            is_placed=machine.placed(),
            jvm=machine.jvm,
            spark_hadoop=machine.hadoop,
            login=machine.login(),
        )
        return function(environment=found, **options)

    return wrapped


def selection_options(*, everything: bool) -> Callable[[_Command], _Command]:
    """The options that say which tables, and how to read them; passes `selection` and `interpretation`.

    everything  all tables are meant if none is named
    """

    def decorate(function: _Command) -> _Command:
        @click.option("--warehouse", metavar="URI", help="A directory of databases and tables, without a metastore.")
        @click.option("--location", metavar="URI", help="One table or one partition, without a metastore.")
        @click.option("--table", "tables", multiple=True, metavar="DB.NAME", help="Only these; globs; repeatable.")
        @click.option("--exclude", multiple=True, metavar="DB.NAME", help="Not these; globs; repeatable.")
        @click.option("--partition", "partitions", multiple=True, metavar="K=GLOB", help="Only these; repeatable.")
        @click.option("--idle", type=Duration(), help="Only what has not changed for so long, e.g. 1d.")
        @if_exists_option
        @write_ids_options
        @click.option(
            "--hive-version",
            type=click.Choice(["auto", "3", "4"]),
            default="auto",
            show_default=True,
            help="Whose names and rules hold.",
        )
        @click.option("--table-kind", type=click.Choice(["full", "insert-only"]), help="Where files cannot prove it.")
        @click.option(
            "--columns", metavar="'NAME TYPE, …'", help="The table's columns, where its files disagree in them."
        )
        @click.option("--visibility-txn", type=click.IntRange(min=1), help="A committed transaction for the names.")
        @functools.wraps(function)
        def wrapped(*, environment: Environment, **options: Any) -> Any:
            if options["location"] is not None or options["warehouse"] is not None:
                if environment.names_metastore:
                    raise click.UsageError("--metastore-uri excludes --location and --warehouse")
                environment = environment.without_metastore()
            options["selection"] = _selection(environment, options, everything=everything)
            options["interpretation"] = _interpretation(
                options, options["selection"], has_metastore=bool(environment.metastore)
            )
            return function(environment=environment, **options)

        return wrapped

    return decorate


def place_argument(function: _Command) -> _Command:
    """PLACE, another way to say --location, or --table with --partition. Has to stand above `selection_options`."""

    @click.argument("place", required=False)
    @functools.wraps(function)
    def wrapped(*, place: str | None, **options: Any) -> Any:
        if place is not None:
            if options["location"] is not None or options["warehouse"] is not None or options["tables"]:
                raise click.UsageError(f"{place} names a place already: --location, --warehouse and --table cannot")
            if place.startswith(("/", ".")) or ":/" in place:
                options["location"] = place
            else:
                table, _, partition = place.partition("/")
                options["tables"] = (table,)
                if partition:
                    options["partitions"] = (partition, *options["partitions"])
        return function(**options)

    return wrapped


def write_ids_options(function: _Command) -> _Command:
    """--write-ids, --write-ids-file, --all-committed: what is committed in directories; see `stated_of`."""
    for option in (
        click.option("--all-committed", is_flag=True, help="Nobody writes, nothing is open, nothing was aborted."),
        click.option(
            "--write-ids-file", type=click.Path(path_type=Path, readable=False), help="The same, a line per table."
        ),
        click.option("--write-ids", metavar="TEXT", help="Which write ids are committed, in Hive's format."),
    ):
        function = option(function)
    return function


def yes_option(function: _Command) -> _Command:
    """--yes; notes it in `interpretation`. Has to stand below `selection_options`."""

    @click.option("--yes", is_flag=True, help="--all-committed is so of each table, where several are meant.")
    @functools.wraps(function)
    def wrapped(*, yes: bool, interpretation: Interpretation, **options: Any) -> Any:
        if yes:
            stated = interpretation.write_ids
            if stated is None or not stated.everything:
                raise click.UsageError("--yes goes with --all-committed: it says that of each of several tables")
            interpretation = replace(interpretation, write_ids=replace(stated, of_each=True))
        return function(interpretation=interpretation, **options)

    return wrapped


def if_exists_option(function: _Command) -> _Command:
    """--if-exists; passes `if_exists`."""
    words = (
        "Nothing to do, instead of an error, where a named table or location, or any such partition, does not exist."
    )
    return click.option("--if-exists", is_flag=True, help=words)(function)


def located(environment: Environment, uri: str | None) -> Location | None:
    """The location that was given as an option; UsageError of click for one that cannot be opened."""
    if uri is None:
        return None
    with _usage():
        stores = stores_of(environment)
        return stores.named(uri) if are_only_judged() else stores.locate(uri)


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


def _selection(environment: Environment, options: dict[str, Any], *, everything: bool) -> Selection:
    location, root = options.pop("location"), options.pop("warehouse")
    tables, exclude, partitions = options.pop("tables"), options.pop("exclude"), options.pop("partitions")
    checked_filters(tables, exclude, partitions)
    if location is not None and root is not None:
        raise click.UsageError("--location and --warehouse exclude each other")
    if location is not None and (tables or exclude):
        given = "--table" if tables else "--exclude"
        raise click.UsageError(f"--location names the table already: {given} goes with --warehouse or a metastore")
    if not environment.metastore:
        if root is None and tables:
            raise click.UsageError("--table needs --metastore-uri, or --warehouse, the directory of its database")
        if everything and location is None and root is None:
            raise click.UsageError("give --metastore-uri, --warehouse or --location")
    if not everything and location is None and root is None and not tables and (partitions or exclude):
        given = "--partition" if partitions else "--exclude"
        raise click.UsageError(f"{given} needs --table: the queue is drained as it is")
    return Selection(
        location=located(environment, location),
        warehouse=located(environment, root),
        tables=tables,
        exclude=exclude,
        partitions=partitions,
        idle_seconds=options.pop("idle"),
        if_exists=options.pop("if_exists"),
    )


_STATED = ("write_ids", "write_ids_file", "all_committed", "table_kind", "columns", "visibility_txn")


def _interpretation(options: dict[str, Any], selection: Selection, *, has_metastore: bool) -> Interpretation:
    given = [f"--{name.replace('_', '-')}" for name in _STATED if options[name] not in (None, False)]
    version = options.pop("hive_version")
    given += ["--hive-version"] if version != "auto" else []
    if given and has_metastore:
        raise _metastore_knows(given[0])
    stated = stated_of(options, selection, has_metastore=has_metastore)
    names_something = selection.location is not None or selection.warehouse is not None
    if stated is None and names_something:
        raise click.UsageError(
            "what is committed cannot be known from files: give --write-ids, --write-ids-file or --all-committed"
        )
    if given and not names_something:
        raise click.UsageError(f"{given[0]} goes with --location or --warehouse: what is queued was stated before")
    return Interpretation(
        write_ids=stated,
        generation=None if version == "auto" else Generation(int(version)),
        table_kind=options.pop("table_kind"),
        columns=_row_type(options.pop("columns"), selection),
        visibility_txn=options.pop("visibility_txn"),
    )


def stated_of(options: dict[str, Any], selection: Selection, *, has_metastore: bool) -> StatedWriteIds | None:
    """Take the options of `write_ids_options` out of all of them; return what they state, None where they do not."""
    given = [name for name in _STATED[:3] if options[name] not in (None, False)]
    if given and has_metastore:
        raise _metastore_knows(f"--{given[0].replace('_', '-')}")
    stated = _stated(options.pop("write_ids"), options.pop("write_ids_file"), everything=options.pop("all_committed"))
    if stated is not None and stated.single is not None and selection.location is None:
        raise click.UsageError(
            "--write-ids is for one table: give --location, or --write-ids-file with a line per table"
        )
    return stated


def _metastore_knows(option: str) -> click.UsageError:
    return click.UsageError(f"{option} is for directories: here the metastore knows")


def _row_type(columns: str | None, selection: Selection) -> str | None:
    """The type of a row by --columns."""
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
    """--pool; sets it in `environment`. Has to stand below `common_options`."""

    @click.option("--pool", metavar="NAME", help="Requests of this pool of a Hive 4 metastore; default: the setting.")
    @functools.wraps(function)
    def wrapped(*, environment: Environment, pool: str | None, **options: Any) -> Any:
        if pool is not None and not environment.metastore:
            raise click.UsageError("--pool needs a metastore")
        if pool is not None and not pool.strip():
            raise click.UsageError("--pool names no pool")
        return function(environment=replace(environment, pool=pool), **options)

    return wrapped


def report_option(function: _Command) -> _Command:
    """--report; sets it in `environment`. Has to stand below `common_options`.

    What would keep the page from being written is refused here, as far as it can be told before the work.
    """

    @click.option(
        "--report",
        metavar="FILE",
        type=click.Path(path_type=Path, readable=False),
        help="Also draw the result as a page for a browser (pip install 'acidlib[report]').",
    )
    @functools.wraps(function)
    def wrapped(*, environment: Environment, report: Path | None, **options: Any) -> Any:
        if report is not None:
            require_libraries()
            require_writable(report)
        return function(environment=replace(environment, report=report), **options)

    return wrapped


def budget_options(function: _Command) -> _Command:
    """--order, --max-partitions, --max-bytes, --time-budget; passes `order` and `budget`."""

    @click.option(
        "--order",
        type=click.Choice([order.value for order in Order]),
        default="deltas",
        show_default=True,
        help="What goes first.",
    )
    @click.option("--max-partitions", type=click.IntRange(min=0), help="Start no more than these.")
    @click.option("--max-bytes", type=Size(), help="Start no more input bytes than these, e.g. 100g.")
    @click.option("--time-budget", type=Duration(), help="Start nothing after this time, e.g. 2h.")
    @functools.wraps(function)
    def wrapped(
        *, order: str, max_partitions: int | None, max_bytes: int | None, time_budget: float | None, **options: Any
    ) -> Any:
        deadline = None if time_budget is None else Machine.current().clock() + time_budget
        budget = Budget(partitions=max_partitions, bytes=max_bytes, deadline=deadline)
        return function(order=Order(order), budget=budget, **options)

    return wrapped


@contextmanager
def _usage() -> Iterator[None]:
    """What is refused here is wrong usage."""
    try:
        yield
    except RefusedError as error:
        raise click.UsageError(str(error)) from None


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise as_acid_error(error, "read the write-id lists", str(path), missing=RefusedError) from error
    except UnicodeDecodeError as error:
        raise RefusedError(f"Cannot read the write-id lists {path}: because {error}") from error
