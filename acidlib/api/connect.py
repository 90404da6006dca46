"""Where tables are: in a metastore, in a warehouse of directories, or in one directory. Nothing is opened here."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from acidlib.api.arguments import DirectoryOptions
from acidlib.api.caller import Caller
from acidlib.api.lake import Lake, Table
from acidlib.api.verb import verb
from acidlib.arguments import Word
from acidlib.config.files import QUEUE_VARIABLE
from acidlib.errors import RefusedError, UsageError
from acidlib.report.answers import Probe
from acidlib.runs.environment import Environment, read_environment, stated_uris
from acidlib.runs.machine import Machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from acidlib.runs.snapshot import Snapshot
    from acidlib.spark.source_options import SourceOptions


@verb()
def connect(
    metastore: str | None = None,
    *,
    settings: Mapping[str, str] | None = None,
    metastore_db: str | None = None,
    queue: str | None = None,
    pool: str | None = None,
    caller: Caller | None = None,
) -> Lake:
    """Return the tables of a metastore; nothing is opened yet.

    metastore     thrift://host:9083 or zookeeper://host:2181/node, several separated by commas for failover, or
                  "none"; None = that of hive-site.xml in the folder that HIVE_CONF_DIR names
    settings      texts by the names of settings (docs/options.md), which win over all files
    metastore_db  URL of the metastore's database: it has the queue of Hive 3.1, and facts for cleaning and statistics;
                  None = as ACIDLIB_METASTORE_DB says
    queue         URL of the database of our own queue; None = as ACIDLIB_QUEUE_URL says, else a SQLite file (Hive 4:
                  the metastore's own queue)
    pool          take and queue requests of this pool (Hive 4); None = as settings say
    caller        the surroundings of the calls; None = this program

    Raises UsageError for a URI or setting that is none, RefusedError and CorruptError for files of settings. A name in
    them that has no effect is a warning of Python.

    >>> acidlib.connect("thrift://host1:9083,thrift://host2:9083", settings={"acidlib.verify": "sample=0.1"})
    <Lake: thrift://host1:9083, thrift://host2:9083>
    >>> acidlib.connect("none").queue().entries
    []
    """
    caller = caller or Caller()
    with caller.verb(DirectoryOptions().word):
        environment = _environment(caller, metastore, settings, queue, metastore_db)
        return Lake(environment, pool=pool, caller=caller)


@verb()
def warehouse(
    location: str | Path,
    *,
    write_ids_file: str | Path | None = None,
    all_committed: bool = False,
    of_each: bool = False,
    table_kind: Literal["full", "insert-only"] | None = None,
    columns: str | None = None,
    hive_version: Literal[3, 4] | None = None,
    visibility_txn: int | None = None,
    settings: Mapping[str, str] | None = None,
    queue: str | None = None,
    caller: Caller | None = None,
) -> Lake:
    """Return the tables in a directory of databases and tables, without a metastore; nothing is opened yet.

    location        URI of the directory
    write_ids_file  a file that states which write ids are committed, with a line per table
    all_committed   state that no writer is at work, no transaction is open and none was rolled back
    of_each         confirm that for each of several tables

    The other arguments are those of `directory`.

    >>> lake = acidlib.warehouse("warehouse", all_committed=True, of_each=True)
    >>> lake.table("sales.visits").plan("major", partitions="dt=*-02").states
    {'planned': 1}
    """
    caller = caller or Caller()
    directories = DirectoryOptions(
        warehouse=str(location),
        write_ids_file=write_ids_file,
        all_committed=all_committed,
        of_each=of_each,
        table_kind=table_kind,
        columns=columns,
        hive_version=hive_version,
        visibility_txn=visibility_txn,
    )
    with caller.verb(directories.word):
        return Lake(_environment(caller, "none", settings, queue), directories=directories, caller=caller)


@verb()
def directory(
    location: str | Path,
    *,
    write_ids: str | None = None,
    write_ids_file: str | Path | None = None,
    all_committed: bool = False,
    table_kind: Literal["full", "insert-only"] | None = None,
    columns: str | None = None,
    hive_version: Literal[3, 4] | None = None,
    visibility_txn: int | None = None,
    settings: Mapping[str, str] | None = None,
    queue: str | None = None,
    caller: Caller | None = None,
) -> Table:
    """Return the table, or partition, in a directory, without a metastore; nothing is opened yet.

    location        URI of the directory
    write_ids       state which write ids are committed, in Hive's format
    write_ids_file  the same in a file with a line per table
    all_committed   state that no writer is at work, no transaction is open and none was rolled back
    table_kind      "full" or "insert-only", when its files do not show it
    columns         `name type, ...` of the table, when its files differ in them
    hive_version    the generation whose file names and rules apply; None = as the files show
    visibility_txn  a committed transaction for the names of results (Hive 4)

    The other arguments are those of `connect`. What is committed has to be stated before a verb reads the files.

    >>> table = acidlib.directory("warehouse/sales.db/orders", all_committed=True)
    >>> table.plan("minor").ok
    True
    >>> acidlib.directory("warehouse/sales.db/orders").plan("minor")
    Traceback (most recent call last):
    acidlib.errors.UsageError: what is committed cannot be known from files: ...
    """
    caller = caller or Caller()
    directories = DirectoryOptions(
        location=str(location),
        write_ids=write_ids,
        write_ids_file=write_ids_file,
        all_committed=all_committed,
        table_kind=table_kind,
        columns=columns,
        hive_version=hive_version,
        visibility_txn=visibility_txn,
    )
    with caller.verb(directories.word):
        return Table(Lake(_environment(caller, "none", settings, queue), directories=directories, caller=caller))


@verb()
def probe(uri: str | Path, *, settings: Mapping[str, str] | None = None, caller: Caller | None = None) -> Probe:
    """Try all that a store has to promise below a directory; see `Lake.probe`.

    >>> acidlib.probe("warehouse").ok
    True
    """
    caller = caller or Caller()
    with caller.verb(DirectoryOptions().word):
        return Lake(_environment(caller, "none", settings, None), caller=caller).probe(uri)


def _environment(
    caller: Caller,
    metastore: str | None,
    settings: Mapping[str, str] | None,
    queue: str | None,
    metastore_db: str | None = None,
) -> Environment:
    """Return the environment of a program, after warnings about its settings; UsageError for an invalid URI."""
    environment = environment_of(
        caller.machine,
        metastore=metastore,
        metastore_db=metastore_db,
        queue_url=queue or os.environ.get(QUEUE_VARIABLE),
        assignments=tuple(f"{name}={text}" for name, text in (settings or {}).items()),
    )
    for text in environment.settings.warnings:
        warnings.warn(text, stacklevel=4)  # at the line of the program
    return replace(environment, settings=replace(environment.settings, warnings=()))  # its runs do not repeat them


def environment_of(
    machine: Machine,
    *,
    metastore: str | None,
    metastore_db: str | None,
    queue_url: str | None,
    assignments: Iterable[str],
) -> Environment:
    """Return the environment of verbs; UsageError for an invalid URI, and as `read_environment`.

    metastore    as `connect` has it
    assignments  `name=text` of settings
    """
    try:
        uris = stated_uris(metastore)
    except RefusedError as error:
        raise UsageError(error.words) from None
    return read_environment(
        metastore=uris,
        metastore_db=metastore_db,
        queue_url=queue_url,
        assignments=tuple(assignments),
        spark=machine.spark_options(),
        is_placed=machine.is_placed(),
        jvm=machine.jvm,
    )


def register(spark: SparkSession) -> None:
    """Give a session the format "hive_acid", so that `spark.read` reads a snapshot for each `load()`; PySpark 4.

    `load("db.table")` reads a table of a metastore, `load("/warehouse/db/table")` a directory without one. The options
    are metastore, columns (names with commas between them), where, rowIds, partitions; for a directory allCommitted,
    writeIds, tableKind, tableColumns, hiveVersion; and settings by their names, such as hive.metastore.uris. They mean
    what the arguments of `connect`, `directory` and `Table.snapshot` mean.

    Raises RefusedError for PySpark 3, and for a session that cannot run tasks or whose executors do not have this
    package.
    """
    from acidlib.spark.source import register_format as register_source

    register_source(spark, partial(_opened, spark))


class _Loading(Caller):
    """A `load()` in Spark, whose texts name options of the format."""

    def word(self, of_lake: Word) -> Word:
        """Have texts name options of the format."""
        from acidlib.spark import source_options

        del of_lake
        return source_options.word


def _opened(spark: SparkSession, options: SourceOptions) -> Snapshot:
    """Open the snapshot of a `load()` in a session."""
    caller = _Loading(Caller().machine_of(spark))
    if options.location is not None:
        table = directory(
            options.location,
            write_ids=options.write_ids,
            all_committed=options.all_committed,
            table_kind=options.table_kind,
            columns=options.table_columns,
            hive_version=options.hive_version,
            settings=options.settings,
            caller=caller,
        )
    else:
        assert options.table is not None
        table = connect(options.metastore, settings=options.settings, caller=caller).table(options.table)
    return table.snapshot(
        columns=options.columns, where=options.where, row_ids=options.row_ids, partitions=options.partitions
    )
