"""The options of a `load()` of the format "hive_acid", and the planned snapshot with which the driver answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from acidlib.arguments import names_command, option
from acidlib.errors import UsageError
from acidlib.scan.splits import Scan, Split
from acidlib.stores.stores import Stores
from acidlib.wording import closest

FORMAT = "hive_acid"

TableKind = Literal["full", "insert-only"]
_KINDS: dict[str | None, TableKind | None] = {None: None, "full": "full", "insert-only": "insert-only"}
_VERSIONS: dict[str | None, Literal[3, 4] | None] = {None: None, "3": 3, "4": 4}
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of one `load()`.

    table          DB.NAME in a metastore; else there is a location
    location       of a table or partition that is read without a metastore
    metastore      URIs; None = as hive-site.xml says
    settings       settings of the engine, of Hive and Hadoop
    columns        names; None = all
    where          a condition that rows fulfil
    partitions     patterns `k=glob`
    all_committed, write_ids, table_kind, table_columns, hive_version
                   state how a location is read, as in `acidlib.directory`
    """

    table: str | None = None
    location: str | None = None
    metastore: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    where: str | None = None
    row_ids: bool = False
    partitions: tuple[str, ...] = ()
    all_committed: bool = False
    write_ids: str | None = None
    table_kind: TableKind | None = None
    table_columns: str | None = None
    hive_version: Literal[3, 4] | None = None

    @property
    def name(self) -> str:
        """The table or location, for messages."""
        return self.table or self.location or ""


_OF_DIRECTORIES = {
    "allcommitted": "allCommitted",
    "writeids": "writeIds",
    "tablekind": "tableKind",
    "tablecolumns": "tableColumns",
    "hiveversion": "hiveVersion",
}
_KNOWN = {
    "metastore": "metastore",
    "columns": "columns",
    "where": "where",
    "rowids": "rowIds",
    "partitions": "partitions",
    "location": "location",
    **_OF_DIRECTORIES,
}
_WORDS = {
    "committed": "writeIds or allCommitted",
    "insert-only": "tableKind=insert-only",
    "kind-of-one": "tableKind",
    "table-columns": "tableColumns=name type, ...",
    "columns": "tableColumns",
    "table": "DB.NAME",
    "partition": "partitions",
    "metastore-uri": "the option metastore",
    "no-metastore": "location",
    "warehouse": "location",
    "principal": "spark.kerberos.principal",
    "keytab": "spark.kerberos.keytab",
}
"""What stands for arguments of messages where that is not their name among the options."""


def word(argument: str) -> str:
    """Return what stands for an argument of messages in the options of a `load()`; else its name in `acidlib`."""
    known = _WORDS.get(argument) or _KNOWN.get(argument.replace("-", ""))
    return known or (option(argument) if names_command(argument) else argument.replace("-", "_"))


def source_options(options: Mapping[str, str]) -> SourceOptions:
    """Return the meaning of the options of one `load()`; UsageError for one that is unknown or contradicts another."""
    given = {key.lower(): value for key, value in options.items()}
    path = given.pop("path", None)
    settings = {key: value for key, value in given.items() if "." in key}
    unknown = sorted(given.keys() - settings.keys() - _KNOWN.keys())
    if unknown:
        meant = closest(unknown[0], _KNOWN)
        hint = "" if meant is None else f"; did you mean {_KNOWN[meant]}?"
        raise UsageError(
            f"Cannot read with the option {unknown[0]}: {FORMAT} knows {', '.join(_KNOWN.values())}, and settings such "
            f"as hive.metastore.uris{hint}"
        )
    location, table = given.get("location"), None
    if path is not None and ("/" in path or location is not None):
        if location is not None:
            raise UsageError(f"Cannot load {path}: the option location names {location}")
        location = path
    elif path is not None:
        table = path
    if location is None and (table is None or table.count(".") != 1 or not all(table.split("."))):
        raise UsageError(f"Cannot load {table or 'nothing'}: name a table as DB.NAME, or a location")
    for key in ("metastore", *_OF_DIRECTORIES):
        if key in given and (key == "metastore") == (location is not None):
            what = "a table of a metastore" if location is None else "a location"
            raise UsageError(f"Cannot read {table or location} with the option {_KNOWN[key]}: it is not for {what}")
    kind, version = given.get("tablekind"), given.get("hiveversion")
    if kind not in _KINDS:
        raise UsageError(f"Cannot read with tableKind={kind}: it is full or insert-only")
    if version not in _VERSIONS:
        raise UsageError(f"Cannot read with hiveVersion={version}: it is 3 or 4")
    return SourceOptions(
        table=table,
        location=location,
        metastore=given.get("metastore"),
        settings=settings,
        columns=_listed(given.get("columns")),
        where=given.get("where"),
        row_ids=_boolean("rowIds", given.get("rowids")),
        partitions=_listed(given.get("partitions")) or (),
        all_committed=_boolean("allCommitted", given.get("allcommitted")),
        write_ids=given.get("writeids"),
        table_kind=_KINDS[kind],
        table_columns=given.get("tablecolumns"),
        hive_version=_VERSIONS[version],
    )


def _listed(text: str | None) -> tuple[str, ...] | None:
    """Return the parts between commas."""
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())


def _boolean(name: str, text: str | None) -> bool:
    if text is None or text.strip().lower() in _FALSE:
        return False
    if text.strip().lower() in _TRUE:
        return True
    raise UsageError(f"Cannot read with {name}={text}: it is true or false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The socket of a driver's thread, in a directory of its user alone, and the key of those who may ask."""

    path: str
    key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A snapshot as the processes of Spark need it: its splits in groups, one for each task."""

    scan: Scan
    stores: Stores
    groups: tuple[tuple[Split, ...], ...]
