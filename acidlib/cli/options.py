"""The options that several jobs share, and how their values become the lake of a verb."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any

import click

from acidlib.api.arguments import DirectoryOptions
from acidlib.api.connect import environment_of
from acidlib.api.lake import Lake
from acidlib.cli.command import CommandLine, Output, current_machine, flag
from acidlib.config.files import METASTORE_DB_VARIABLE, QUEUE_VARIABLE
from acidlib.report.html import require_libraries, require_writable
from acidlib.report.progress import LogFormat
from acidlib.runs.environment import Environment
from acidlib.wording import parse_duration, parse_size

_Command = Callable[..., Any]


def duration(text: str) -> float:
    """Return the seconds of 1d, 12h, 30s: a type of options."""
    try:
        seconds = parse_duration(text) / 1000
    except ValueError:
        seconds = -1.0
    if seconds < 0:
        raise click.BadParameter(f"{text!r} is not a duration such as 30s, 12h or 1d")
    return seconds


def request_number(text: str) -> int:
    """Return the number of a request: a type of arguments."""
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise click.BadParameter(f"{text!r} is not the number of a request; acidlib show has them")
    return int(text)


def size(text: str) -> int:
    """Return the bytes of 256m, 1g: a type of options."""
    try:
        return parse_size(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a size such as 1024, 256m or 1g") from None


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
    """Add the options of every job that works with tables or requests, and pass `environment` and `output`.

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
        "--metastore-db",
        metavar="URL",
        help="Database of the metastore, in SQLAlchemy's form: the queue of Hive 3.1, and facts for cleaning and "
        f"statistics; default: the variable {METASTORE_DB_VARIABLE}.",
    )
    @click.option(
        "--queue-url",
        metavar="URL",
        envvar=QUEUE_VARIABLE,
        help="Database of our own queue, in SQLAlchemy's form (a metastore's is still taken as --metastore-db); "
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
    @flag("--debug", help="Show the traceback of an error.")
    @wraps(function)
    def wrapped(
        *,
        metastore_uri: str | None,
        metastore_db: str | None,
        queue_url: str | None,
        assignments: tuple[str, ...],
        output: str,
        log_format: str,
        debug: bool,
        report: Path | None = None,
        **options: Any,
    ) -> Any:
        del debug, log_format  # JobCommand and `log_lines` have them
        environment = environment_of(
            current_machine(),
            metastore=metastore_uri,
            metastore_db=metastore_db,
            queue_url=queue_url,
            assignments=assignments,
        )
        if report is not None:
            require_libraries()
            require_writable(report, what="the report")
        return function(environment=environment, output=Output(json=output == "json", report=report), **options)

    return wrapped


TABLE = click.option(
    "--table", "tables", multiple=True, metavar="DB.NAME", help="Only these tables; globs; repeatable."
)
"""The option of all jobs that look at several tables."""
_FILTERS = (
    flag("--if-exists", help="Succeed without work if a named table, location or partition does not exist."),
    click.option(
        "--partition", "partitions", multiple=True, metavar="K=GLOB", help="Only these partitions; globs; repeatable."
    ),
    click.option("--exclude", multiple=True, metavar="DB.NAME", help="Not these tables; globs; repeatable."),
    TABLE,
)
_DIRECTORIES = (
    flag("--all-committed", help="State that no writer is at work, no transaction is open and none was rolled back."),
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
    """Add the options that name tables, partitions and directories, and state committed write ids."""
    for option in _DIRECTORIES:
        function = option(function)
    return filter_options(function)


DETAILS = flag("--details", help="Show a block for each of many places instead of a line below a shared reason.")
"""An option of the jobs whose text has a line for each of many places."""
PLACE = click.argument("place", required=False)
YES = flag("--yes", help="Confirm that --all-committed holds for each of several tables.")
POOL = click.option(
    "--pool", metavar="NAME", help="Take requests of this pool (Hive 4); default: hive.compactor.worker.pool."
)
"""With PLACE and YES: options that some jobs add, and that `selection_options` handles."""


def place_of(place: str | None, filters: dict[str, Any], *, has_metastore: bool) -> dict[str, Any]:
    """Return the options of a job with those that PLACE stands for: --location, or --table and --partition."""
    if place is None:
        return filters
    is_location = place.startswith(("/", ".")) or ":/" in place or ("/" in place and Path(place).is_dir())
    if filters["location"] is not None or filters["tables"] or (is_location and filters["warehouse"] is not None):
        raise click.UsageError(f"{place} names a place already: --location, --warehouse and --table cannot")
    if is_location:
        return filters | {"location": place}
    table, _, partition = place.partition("/")
    if "." not in table and "*" not in table:
        listed = "; acidlib show lists the requests" if table.isdecimal() else ""
        raise click.UsageError(f"{place!r} is no place: give DB.NAME, DB.NAME/K=V or a location{listed}")
    if not has_metastore and filters["warehouse"] is None:
        raise click.UsageError(
            f"Cannot look for {place}: there is no metastore; give --metastore-uri, or --warehouse, the directory of "
            "its database"
        )
    partitions = (*((partition,) if partition else ()), *filters["partitions"])
    return filters | {"tables": (table,), "partitions": partitions}


def selection_options(function: _Command) -> _Command:
    """Add the options that select tables and say how to read them, and pass `lake` in place of those about reading."""

    @place_options
    @click.option("--idle", type=duration, help="Only partitions unchanged for so long, e.g. 1d.")
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
    @click.option("--columns", metavar="'NAME TYPE, …'", help="Columns of the table, when its files differ in them.")
    @click.option(
        "--visibility-txn",
        metavar="N",
        type=click.IntRange(min=1),
        help="Committed transaction id used in result names (Hive 4).",
    )
    @wraps(function)
    def wrapped(
        *,
        environment: Environment,
        hive_version: str,
        yes: bool = False,
        pool: str | None = None,
        place: str | None = None,
        **options: Any,
    ) -> Any:
        options = place_of(place, options, has_metastore=bool(environment.metastore))
        version = None if hive_version == "auto" else int(hive_version)
        directories = directories_of(options, of_each=yes, hive_version=version)
        lake = Lake(environment, directories=directories, pool=pool, caller=CommandLine())
        return function(lake=lake, **options)

    return wrapped


def directories_of(options: dict[str, Any], **more: Any) -> DirectoryOptions:
    """Take the options that are fields of `DirectoryOptions` out of the others, and return what they state."""
    stated = [item.name for item in fields(DirectoryOptions) if item.name in options]
    return DirectoryOptions(**{name: options.pop(name) for name in stated}, **more)
