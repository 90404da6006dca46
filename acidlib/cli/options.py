"""The options that several jobs share, and how their values become a selection and an interpretation of tables."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from acidlib.cli.command import Machine, is_only_checking, stores_of
from acidlib.errors import RefusedError
from acidlib.model.location import Location
from acidlib.model.names import Generation
from acidlib.model.tables import pattern_globs
from acidlib.planning.stated_write_ids import StatedWriteIds, stated_write_ids
from acidlib.report.html import require_libraries, require_writable
from acidlib.report.progress import LogFormat
from acidlib.service.environment import Environment, read_environment, stated_uris
from acidlib.service.places import Interpretation
from acidlib.service.selection import Selection
from acidlib.stores.filesystem import as_acid_error
from acidlib.wording import parse_duration, parse_size

_Command = Callable[..., Any]


class Duration(click.ParamType[float]):
    """1d, 12h, 30s: seconds as a float."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
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
        """Return bytes."""
        try:
            return parse_size(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a size such as 1024, 256m or 1g", param, ctx)


def _refuse_log_file(context: click.Context, option: click.Parameter, value: str | None) -> None:
    """Refuse --log-file: the launcher removes it, so a job that sees it was started without the launcher."""
    del context, option
    if value is not None:
        raise click.UsageError(
            "--log-file works with acidlib and ./spark-submit.sh, which redirect Spark's output, too; with plain "
            "spark-submit redirect the output"
        )


REPORT = click.option(
    "--report",
    metavar="FILE",
    type=click.Path(path_type=Path, readable=False),
    help="Also draw the result as a page for a browser there. Needs acidlib[report].",
)
"""An option that some jobs add to the common ones; `common_options` handles it."""


def common_options(function: _Command) -> _Command:
    """Add the options of every job that works with tables or requests, and pass `environment`.

    It must be the outermost decorator. A page of --report that cannot be written is refused here, before the work, as
    far as that can be known.
    """

    @click.option(
        "--metastore-uri",
        metavar="URI,…",
        help="thrift://host:9083, zookeeper://host:2181/node, several separated by commas for failover, or the word "
        "none; default: that of hive-site.xml.",
    )
    @click.option(
        "--queue-url",
        metavar="URL",
        envvar="ACIDLIB_QUEUE_URL",
        help="Database of the queue, in SQLAlchemy's form (Hive 4: the metastore's, for cleaning and statistics); "
        "default: a SQLite file (Hive 4: the metastore's own queue).",
    )
    @click.option(
        "--set",
        "assignments",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set a setting by its name; repeatable.",
    )
    @click.option(
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Form of the result on standard output.",
    )
    @click.option(
        "--log-format",
        type=click.Choice(["auto", *(form.value for form in LogFormat)]),
        default="auto",
        show_default=True,
        envvar="ACIDLIB_LOG_FORMAT",
        help="Form of lines on standard error: words; full, which adds time, level, run and place; json. auto: words "
        "on a terminal, else full.",
    )
    @click.option(
        "--log-file",
        metavar="FILE",
        expose_value=False,
        callback=_refuse_log_file,
        help="Append all output to this file, and leave only problems on standard error, a line for each.",
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
        report: Path | None = None,
        **options: Any,
    ) -> Any:
        del debug, log_format  # JobCommand and `log_lines` have them
        with _refusals_as_usage():
            metastore = stated_uris(metastore_uri)
        machine = Machine.current()
        environment = read_environment(
            metastore=metastore,
            queue_url=queue_url,
            assignments=assignments,
            output=output,
            spark=machine.spark_options(),
            is_placed=machine.is_placed(),
            jvm=machine.jvm,
        )
        if report is not None:
            require_libraries()
            require_writable(report, what="the report")
        return function(environment=replace(environment, report=report), **options)

    return wrapped


TABLE = click.option(
    "--table", "tables", multiple=True, metavar="DB.NAME", help="Only these tables; globs; repeatable."
)
"""The option of all jobs that look at several tables."""
_FILTERS = (
    click.option(
        "--if-exists", is_flag=True, help="Succeed without work if a named table, location or partition does not exist."
    ),
    click.option(
        "--partition", "partitions", multiple=True, metavar="K=GLOB", help="Only these partitions; globs; repeatable."
    ),
    click.option("--exclude", multiple=True, metavar="DB.NAME", help="Not these tables; globs; repeatable."),
    TABLE,
)
_DIRECTORIES = (
    click.option(
        "--all-committed",
        is_flag=True,
        help="State that no writer is at work, no transaction is open and none was rolled back.",
    ),
    click.option(
        "--write-ids-file",
        metavar="FILE",
        type=click.Path(path_type=Path, readable=False),
        help="State which write ids are committed: a line per table.",
    ),
    click.option(
        "--write-ids", metavar="TEXT", help="State which write ids are committed, in Hive's format, for one table."
    ),
    click.option("--warehouse", metavar="URI", help="Directory of databases and tables."),
    click.option("--location", metavar="URI", help="Directory of one table or one partition."),
)


def filter_options(function: _Command) -> _Command:
    """Add the options that name tables and partitions."""
    for option in _FILTERS:
        function = option(function)
    return function


def place_options(function: _Command) -> _Command:
    """Add the options that name tables, partitions and directories, and state committed write ids: `stated_of`."""
    for option in _DIRECTORIES:
        function = option(function)
    return filter_options(function)


PLACE = click.argument("place", required=False)
YES = click.option("--yes", is_flag=True, help="Confirm that --all-committed holds for each of several tables.")
POOL = click.option(
    "--pool", metavar="NAME", help="Take requests of this pool (Hive 4); default: hive.compactor.worker.pool."
)
"""With PLACE and YES: options that some jobs add, and that `selection_options` handles.

PLACE is another way to give --location, or --table with --partition.
"""


def selection_options(*, everything: bool) -> Callable[[_Command], _Command]:
    """Add the options that select tables and say how to read them, and pass `selection` and `interpretation`.

    everything  whether the job is about all tables if none is named
    """

    def decorate(function: _Command) -> _Command:
        @place_options
        @click.option("--idle", type=Duration(), help="Only partitions unchanged for so long, e.g. 1d.")
        @click.option(
            "--hive-version",
            type=click.Choice(["auto", "3", "4"]),
            default="auto",
            show_default=True,
            help="Hive generation whose file names and rules apply.",
        )
        @click.option(
            "--table-kind",
            type=click.Choice(["full", "insert-only"]),
            help="Kind of table, when its files do not show it.",
        )
        @click.option(
            "--columns", metavar="'NAME TYPE, …'", help="Columns of the table, when its files differ in them."
        )
        @click.option(
            "--visibility-txn",
            metavar="N",
            type=click.IntRange(min=1),
            help="Committed transaction id used in result names (Hive 4).",
        )
        @functools.wraps(function)
        def wrapped(
            *,
            environment: Environment,
            location: str | None,
            tables: tuple[str, ...],
            partitions: tuple[str, ...],
            place: str | None = None,
            pool: str | None = None,
            **options: Any,
        ) -> Any:
            if place is not None:
                if location is not None or options["warehouse"] is not None or tables:
                    raise click.UsageError(f"{place} names a place already: --location, --warehouse and --table cannot")
                if place.startswith(("/", ".")) or ":/" in place:
                    location = place
                else:
                    table, _, partition = place.partition("/")
                    tables, partitions = (table,), (*((partition,) if partition else ()), *partitions)
            filters = {name: options.pop(name) for name in ("warehouse", "exclude", "idle", "if_exists")}
            environment, selection = selected(
                environment, location=location, tables=tables, partitions=partitions, **filters
            )
            _require_consistent(selection, everything=everything, has_metastore=bool(environment.metastore))
            stated = {name: options.pop(name) for name in _DIRECTORY_OPTIONS}
            interpretation = _interpretation(environment, selection, yes=options.pop("yes", False), **stated)
            if pool is not None and not environment.metastore:
                raise click.UsageError("--pool needs a metastore")
            if pool is not None and not pool.strip():
                raise click.UsageError("--pool names no pool")
            environment = replace(environment, pool=pool)
            return function(environment=environment, selection=selection, interpretation=interpretation, **options)

        return wrapped

    return decorate


def selected(
    environment: Environment,
    *,
    location: str | None,
    warehouse: str | None,
    tables: tuple[str, ...],
    exclude: tuple[str, ...],
    partitions: tuple[str, ...],
    if_exists: bool,
    idle: float | None = None,
) -> tuple[Environment, Selection]:
    """Return the selection, and the environment without a metastore if a location or a warehouse is given.

    Raises `click.UsageError` for options that exclude each other, or could never match anything.
    """
    if location is not None or warehouse is not None:
        if environment.names_metastore:
            raise click.UsageError("--metastore-uri excludes --location and --warehouse")
        if location is not None and warehouse is not None:
            raise click.UsageError("--location and --warehouse exclude each other")
        environment = replace(environment, metastore=())
    check_filters(tables, exclude, partitions)

    def located(uri: str | None) -> Location | None:
        if uri is None:
            return None
        with _refusals_as_usage():
            stores = stores_of(environment)
            return stores.named(uri) if is_only_checking() else stores.locate(uri)

    return environment, Selection(
        location=located(location),
        warehouse=located(warehouse),
        tables=tables,
        exclude=exclude,
        partitions=partitions,
        idle_seconds=idle,
        if_exists=if_exists,
    )


def check_filters(tables: Sequence[str], exclude: Sequence[str], partitions: Sequence[str]) -> None:
    """Raise `click.UsageError` for a value of --table, --exclude or --partition that could never match anything."""
    for option, names in (("--table", tables), ("--exclude", exclude)):
        for name in names:
            database, _, table = name.partition(".")
            # a star may match the dot as well
            if "*" not in name and not (database and table):
                raise click.UsageError(f"{option} {name} is not of the form DB.NAME")
    with _refusals_as_usage():
        for pattern in partitions:
            pattern_globs(pattern)


def _require_consistent(selection: Selection, *, everything: bool, has_metastore: bool) -> None:
    """Raise `click.UsageError` for a selection that names no tables, or has filters that would be ignored."""
    filters = "--table" if selection.tables else "--exclude" if selection.exclude else None
    if selection.location is not None and filters:
        raise click.UsageError(f"--location names the table already: {filters} goes with --warehouse or a metastore")
    if selection.location is not None or selection.warehouse is not None:
        return
    if not has_metastore and selection.tables:
        raise click.UsageError("--table needs --metastore-uri, or --warehouse, the directory of its database")
    if not has_metastore and everything:
        raise click.UsageError("give --metastore-uri, --warehouse or --location")
    if not everything and not selection.tables and (selection.partitions or selection.exclude):
        given = "--partition" if selection.partitions else "--exclude"
        raise click.UsageError(f"{given} needs --table: the queue is drained as it is")


_STATED_OPTIONS = ("write_ids", "write_ids_file", "all_committed")
_DIRECTORY_OPTIONS = (*_STATED_OPTIONS, "table_kind", "columns", "visibility_txn", "hive_version")


def _interpretation(environment: Environment, selection: Selection, *, yes: bool, **options: Any) -> Interpretation:
    """Return how to read directories by the options of `_DIRECTORY_OPTIONS`; `yes` confirms them for several tables."""
    version = None if options["hive_version"] == "auto" else Generation(int(options["hive_version"]))
    given = _first_directory_option(environment, options | {"hive_version": version})
    stated = stated_of(environment, selection, **{name: options[name] for name in _STATED_OPTIONS})
    names_something = selection.location is not None or selection.warehouse is not None
    if stated is None and names_something:
        raise click.UsageError(
            "what is committed cannot be known from files: give --write-ids, --write-ids-file or --all-committed"
        )
    if given is not None and not names_something:
        raise click.UsageError(f"{given} goes with --location or --warehouse: queued requests have their own")
    columns = options["columns"]
    if columns is not None:
        if selection.location is None and (len(selection.tables) != 1 or set("*?[") & set(selection.tables[0])):
            raise click.UsageError("--columns is for one table: give --location, or one --table")
        from acidlib.orc.schema import row_type_of_columns  # slow to import

        with _refusals_as_usage():
            columns = row_type_of_columns(columns, where="the table of --columns")
    if yes:
        if stated is None or not stated.everything:
            raise click.UsageError("--yes goes with --all-committed, and confirms it for several tables")
        stated = replace(stated, of_each=True)
    return Interpretation(
        write_ids=stated,
        generation=version,
        table_kind=options["table_kind"],
        columns=columns,
        visibility_txn=options["visibility_txn"],
    )


def _first_directory_option(environment: Environment, options: Mapping[str, Any]) -> str | None:
    """Return the name of the first of these options that has a value. Raises `click.UsageError` with a metastore."""
    names = (f"--{name.replace('_', '-')}" for name, value in options.items() if value not in (None, False))
    given = next(names, None)
    if given is not None and environment.metastore:
        raise click.UsageError(f"{given} is for directories without a metastore, which knows this itself")
    return given


def stated_of(
    environment: Environment,
    selection: Selection,
    *,
    write_ids: str | None,
    write_ids_file: Path | None,
    all_committed: bool,
) -> StatedWriteIds | None:
    """Return the write ids that the options of `place_options` state, None without these options.

    Raises `click.UsageError` for wrong options, `RefusedError` for wrong contents of the file.
    """
    options = {"write_ids": write_ids, "write_ids_file": write_ids_file, "all_committed": all_committed}
    _first_directory_option(environment, options)
    file_text = None
    if write_ids_file is not None:
        try:
            file_text = write_ids_file.read_text(encoding="utf-8")
        except OSError as error:
            raise as_acid_error(error, "read the write-id lists", str(write_ids_file), missing=RefusedError) from error
        except UnicodeDecodeError as error:
            raise RefusedError(f"Cannot read the write-id lists {write_ids_file}: {error}") from error
    try:
        stated = stated_write_ids(text=write_ids, file_text=file_text, everything=all_committed)
    except RefusedError as error:
        if write_ids_file is None or write_ids is not None or all_committed:
            raise click.UsageError(str(error)) from None
        raise RefusedError(f"Cannot use the write-id lists {write_ids_file}: {error}") from None
    if stated is not None and stated.single is not None and selection.location is None:
        raise click.UsageError(
            "--write-ids is for one table: give --location, or --write-ids-file with a line per table"
        )
    return stated


@contextmanager
def _refusals_as_usage() -> Iterator[None]:
    """Turn a `RefusedError` into a `click.UsageError`."""
    try:
        yield
    except RefusedError as error:
        raise click.UsageError(str(error)) from None
