"""The arguments of verbs: what they name, how directories are read, and the refusal of what could not be meant.

Messages name arguments by `acidlib.arguments`; `DirectoryOptions.word` has them as a program writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from acidlib.acid.names import Generation, Names
from acidlib.arguments import (
    ALL_COMMITTED,
    COLUMNS,
    COMMITTED,
    EXCLUDE,
    HIVE_VERSION,
    LOCATION,
    METASTORE_URI,
    PARTITION,
    POOL,
    TABLE,
    TABLE_KIND,
    VISIBILITY_TXN,
    WAREHOUSE,
    WRITE_IDS,
    WRITE_IDS_FILE,
    YES,
    argument,
)
from acidlib.errors import RefusedError, UsageError
from acidlib.location import Location
from acidlib.model.tables import pattern_globs
from acidlib.places.place import FULL, INSERT_ONLY, Interpretation, stated_reader
from acidlib.places.selection import Selection, is_glob
from acidlib.planning.stated_write_ids import StatedWriteIds, stated_write_ids
from acidlib.runs.environment import Environment
from acidlib.runs.machine import Machine, stores_of
from acidlib.stores.filesystem import as_acid_error
from acidlib.wording import parse_duration, parse_size

TextOrTexts = str | Iterable[str]
"""One text, or several."""
Size = int | str
"""Bytes, or a text such as 256m or 1g."""
Duration = float | str | timedelta
"""Seconds, or a text such as 30s, 12h or 1d."""


def texts(value: TextOrTexts) -> tuple[str, ...]:
    """Return the texts, also of a single one."""
    return (value,) if isinstance(value, str) else tuple(value)


def seconds_of(value: Duration, *, name: str) -> float:
    """Return the seconds of a duration; UsageError for one that is none, or is negative."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    try:
        seconds = parse_duration(value) / 1000 if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if not seconds >= 0:
        raise UsageError(f"Cannot use {argument(name)} {value}: it is not a duration such as 30s, 12h or 1d")
    return seconds


def bytes_of(value: Size, *, name: str) -> int:
    """Return the bytes of a size; UsageError for one that is none, or is negative."""
    try:
        size = parse_size(value) if isinstance(value, str) else int(value)
    except (TypeError, ValueError):
        size = -1
    if size < 0:
        raise UsageError(f"Cannot use {argument(name)} {value}: it is not a size such as 1024, 256m or 1g")
    return size


def count_of(value: int, *, name: str, least: int, most: int | None = None) -> int:
    """Return a number; UsageError unless it is a whole one from `least` on, and not above `most`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        within = f"from {least} on" if most is None else f"from {least} to {most}"
        raise UsageError(f"Cannot use {argument(name)} {value}: it is not a whole number {within}")
    return value


def one_of(value: str, choices: Sequence[str], *, name: str) -> str:
    """Return a text; UsageError unless it is one of the choices."""
    if value not in choices:
        raise UsageError(f"Cannot use {argument(name)} {value}: it is none of {', '.join(choices)}")
    return value


_KEYWORDS = {
    "table": "tables",
    "partition": "partitions",
    "state": "states",
    "location": "acidlib.directory()",
    "warehouse": "acidlib.warehouse()",
    "no-metastore": "acidlib.warehouse() or acidlib.directory()",
    "rebalance": "the kind rebalance",
    "orphans": "orphans()",
    "metastore-uri": "metastore",
    "queue-url": "queue",
    "set": "settings",
    "yes": "of_each",
    "json": "to_dict()",
    "kind-of-one": "table_kind",
    "details": "text_pieces(details=True)",
    "keytab": "spark.kerberos.keytab",
    "principal": "spark.kerberos.principal",
    "verified": "a compaction with verify",
    "without-dry-run": "a run without dry_run",
    "cancel": "cancel()",
    "show": "queue()",
    "show-blockers": "queue(blockers=True)",
    "show-place": "files()",
    "undo": "undo()",
    "insert-only": "table_kind='insert-only'",
    "table-columns": "columns='name type, ...'",
}
"""What a program writes where that is not the name of the option."""
_OF_PLANS = {"dry-run": "plan()", "without-dry-run": "compact()"}
_OF_METASTORES = frozenset({"metastore-uri", "metastore-db", "pool"})
_OF_LAKES = _OF_METASTORES | {
    *("queue-url", "set", "write-ids", "write-ids-file", "all-committed", "yes", "table-kind", "insert-only"),
    *("columns", "table-columns", "hive-version", "visibility-txn"),
}
"""Arguments that a program gives where it makes the lake, not where it calls a verb."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryOptions:
    """The directories that are named in place of a metastore, and how they are read, as the caller states it.

    location        URI of one table or one partition
    warehouse       URI of a directory of databases and tables
    write_ids       the committed write ids of one table, in Hive's format
    write_ids_file  a file with a line per table
    all_committed   no writer is at work, no transaction is open and none was rolled back
    of_each         that holds for each of several tables
    table_kind      "full" or "insert-only"
    columns         `name type, ...` of the table
    hive_version    3 or 4; None = as the files show
    visibility_txn  a committed transaction, for the names of results (Hive 4)
    """

    location: str | None = None
    warehouse: str | None = None
    write_ids: str | None = None
    write_ids_file: str | Path | None = None
    all_committed: bool = False
    of_each: bool = False
    table_kind: str | None = None
    columns: str | None = None
    hive_version: int | None = None
    visibility_txn: int | None = None

    @property
    def maker(self) -> str:
        """The function that makes a lake of them, for messages."""
        if self.location is not None:
            return "acidlib.directory()"
        return "acidlib.connect()" if self.warehouse is None else "acidlib.warehouse()"

    def word(self, name: str, *, plans: bool = False) -> str:
        """Return an argument of texts as a program has it that calls a verb of a lake of them.

        plans  the dry run of the verb is plan()
        """
        if plans and name in _OF_PLANS:
            return _OF_PLANS[name]
        if name == "committed":
            given = "write_ids, write_ids_file" if self.location is not None else "write_ids_file"
            return f"{given} or all_committed of {self.maker}"
        word = _KEYWORDS.get(name) or name.replace("-", "_")
        if name in _OF_LAKES:
            return f"{word} of {'acidlib.connect()' if name in _OF_METASTORES else self.maker}"
        return word


def selected(
    environment: Environment,
    machine: Machine,
    directories: DirectoryOptions,
    *,
    tables: TextOrTexts = (),
    exclude: TextOrTexts = (),
    partitions: TextOrTexts = (),
    if_exists: bool = False,
    idle: Duration | None = None,
    is_check: bool = False,
) -> tuple[Environment, Selection]:
    """Return the selection, and the environment without a metastore if directories are named.

    is_check  no directory is looked at

    Raises UsageError for arguments that exclude each other, or could never match anything.
    """
    tables, exclude, partitions = texts(tables), texts(exclude), texts(partitions)
    if directories.location is not None or directories.warehouse is not None:
        if environment.names_metastore:
            raise UsageError(f"{METASTORE_URI} excludes {LOCATION} and {WAREHOUSE}")
        if directories.location is not None and directories.warehouse is not None:
            raise UsageError(f"{LOCATION} and {WAREHOUSE} exclude each other")
        environment = replace(environment, metastore=())
    check_filters(tables, exclude, partitions)

    def located(uri: str | None) -> Location | None:
        if uri is None:
            return None
        stores = stores_of(environment, machine, is_check=is_check)
        try:
            return stores.named(uri) if is_check else stores.locate(uri)
        except RefusedError as error:
            raise UsageError(error.words) from None

    return environment, Selection(
        location=located(directories.location),
        warehouse=located(directories.warehouse),
        tables=tables,
        exclude=exclude,
        partitions=partitions,
        idle_seconds=None if idle is None else seconds_of(idle, name="idle"),
        if_exists=if_exists,
    )


def check_filters(tables: Sequence[str], exclude: Sequence[str], partitions: Sequence[str]) -> None:
    """Raise UsageError for a table, exclusion or partition that could never match anything."""
    for option, names in ((TABLE, tables), (EXCLUDE, exclude)):
        for name in names:
            database, _, table = name.partition(".")
            # a star may match the dot as well
            if "*" not in name and not (database and table):
                raise UsageError(f"{option}: {name!r} is not of the form DB.NAME")
    for pattern in partitions:
        pattern_globs(pattern)


def require_consistent(selection: Selection, *, everything: bool, has_metastore: bool) -> None:
    """Raise UsageError for a selection that names no tables, or has filters that would be ignored.

    everything  whether the job is about all tables if none is named
    """
    filters = TABLE if selection.tables else EXCLUDE if selection.exclude else None
    if selection.location is not None and filters:
        raise UsageError(f"{LOCATION} names the table already: {filters} goes with {WAREHOUSE} or a metastore")
    if selection.location is not None or selection.warehouse is not None:
        return
    if not has_metastore and selection.tables:
        raise UsageError(f"{TABLE} needs {METASTORE_URI}, or {WAREHOUSE}, the directory of its database")
    if not has_metastore and everything:
        raise UsageError(f"give {METASTORE_URI}, {WAREHOUSE} or {LOCATION}")
    if not everything and not selection.tables and (selection.partitions or selection.exclude):
        given = PARTITION if selection.partitions else EXCLUDE
        raise UsageError(f"{given} needs {TABLE}: without a table all waiting requests are done")


def interpretation_of(environment: Environment, selection: Selection, directories: DirectoryOptions) -> Interpretation:
    """Return how directories are read."""
    version, columns = directories.hive_version, directories.columns
    given = _first_stated(
        environment,
        *_stated_options(directories),
        (TABLE_KIND, directories.table_kind),
        (COLUMNS, columns),
        (VISIBILITY_TXN, directories.visibility_txn),
        (HIVE_VERSION, version),
    )
    stated = stated_of(environment, selection, directories)
    names_something = selection.location is not None or selection.warehouse is not None
    if stated is None and names_something:
        raise UsageError(f"what is committed cannot be known from files: give {COMMITTED}")
    if given is not None and not names_something:
        raise UsageError(f"{given} goes with {LOCATION} or {WAREHOUSE}: queued requests have their own")
    if columns is not None:
        if selection.location is None and (len(selection.tables) != 1 or is_glob(selection.tables[0])):
            raise UsageError(f"{COLUMNS} is for one table: give {LOCATION}, or one {TABLE}")
        from acidlib.orc.schema import row_type_of_columns  # slow to import

        try:
            columns = row_type_of_columns(columns, where=f"the table of {COLUMNS}")
        except RefusedError as error:
            raise UsageError(error.words) from None
    if directories.of_each:
        if stated is None or not stated.everything:
            raise UsageError(f"{YES} goes with {ALL_COMMITTED}, and confirms it for several tables")
        stated = replace(stated, of_each=True)
    if directories.table_kind is not None:
        one_of(directories.table_kind, (FULL, INSERT_ONLY), name="table-kind")
    if directories.visibility_txn is not None:
        count_of(directories.visibility_txn, name="visibility-txn", least=1)
    if version is not None and version not in {generation.value for generation in Generation}:
        raise UsageError(f"Cannot use {HIVE_VERSION} {version}: it is neither 3 nor 4")
    return Interpretation(
        write_ids=stated,
        names=None if version is None else Names(Generation(version)),
        reader=stated_reader(environment.settings),
        table_kind=directories.table_kind,
        names_one=selection.location is not None,
        columns=columns,
        visibility_txn=directories.visibility_txn,
    )


def _stated_options(directories: DirectoryOptions) -> tuple[tuple[str, object], ...]:
    return (
        (WRITE_IDS, directories.write_ids),
        (WRITE_IDS_FILE, directories.write_ids_file),
        (ALL_COMMITTED, directories.all_committed),
    )


def _first_stated(environment: Environment, *arguments: tuple[str, object]) -> str | None:
    """Return the first of these arguments that has a value. Raises UsageError with a metastore."""
    given = next((name for name, value in arguments if value not in (None, False)), None)
    if given is not None and environment.metastore:
        raise UsageError(f"{given} is for directories without a metastore, which knows this itself")
    return given


def stated_of(environment: Environment, selection: Selection, directories: DirectoryOptions) -> StatedWriteIds | None:
    """Return the write ids that are stated; None without any.

    Raises `UsageError` for wrong arguments, also for a file that is not there or has wrong contents.
    """
    _first_stated(environment, *_stated_options(directories))
    write_ids, all_committed = directories.write_ids, directories.all_committed
    path = None if directories.write_ids_file is None else Path(directories.write_ids_file)
    file_text = None
    if path is not None:
        try:
            file_text = path.read_text(encoding="utf-8")
        except OSError as error:
            failure = as_acid_error(error, "read the write-id lists", str(path), missing=UsageError)
            raise UsageError(failure.words) if isinstance(failure, RefusedError) else failure from error
        except UnicodeDecodeError as error:
            raise UsageError(f"Cannot read the write-id lists {path}: {error}") from error
    try:
        stated = stated_write_ids(text=write_ids, file_text=file_text, everything=all_committed)
    except RefusedError as error:
        if path is None or write_ids is not None or all_committed:
            raise UsageError(error.words) from None
        raise UsageError(f"Cannot use the write-id lists {path}: {error}") from None
    if stated is not None and stated.single is not None and selection.location is None:
        raise UsageError(f"{WRITE_IDS} is for one table: give {LOCATION}, or {WRITE_IDS_FILE} with a line per table")
    return stated


def checked_pool(environment: Environment, pool: str | None) -> str | None:
    """Return the pool of requests (Hive 4); UsageError where there are none, or it has no name."""
    if pool is not None and not environment.metastore:
        raise UsageError(f"{POOL} needs a metastore")
    if pool is not None and not pool.strip():
        raise UsageError(f"{POOL} names no pool")
    return pool
