"""Databases, tables and partitions as a metastore describes them, and the names of partitions.

Source of the names of parameters: Hive `hive_metastoreConstants` and `AcidUtils`. Source of the escaping of partition
names, as in paths: Hive `FileUtils.escapePathName`, `unescapePathName` and `makePartName`. Characters outside ASCII
stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from acidlib.errors import CorruptError, RefusedError, UsageError

_PLAIN = re.compile(r"\w+", re.ASCII)

EXTERNAL_TABLE, MANAGED_TABLE = "EXTERNAL_TABLE", "MANAGED_TABLE"
VIRTUAL_VIEW = "VIRTUAL_VIEW"
"""A view without rows of its own. A materialized view has rows, which Hive compacts like those of a table."""


class TableRef(NamedTuple):
    """Names of a table, or of one partition of it; `str` joins them with dots, as Hive's messages do.

    partition  as `k=v/k2=v2`, escaped as in paths; None for a table
    """

    database: str
    table: str
    partition: str | None = None

    def __str__(self) -> str:
        return ".".join(part for part in self if part)

    @property
    def whole_table(self) -> TableRef:
        """Names of the table itself, without a partition."""
        return TableRef(self.database, self.table)

    @property
    def as_stored(self) -> TableRef:
        """Names as metastores store them: database and table in lower case, a partition as it is."""
        return TableRef(self.database.lower(), self.table.lower(), self.partition)


ORC_INPUT_FORMAT = "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """One column; `type` is Hive's text, such as `struct<a:int,b:decimal(10,2)>`."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A storage descriptor: location (a URI, "" for a view) and format of rows; `serde_properties` are the SerDe's."""

    location: str
    columns: tuple[TableColumn, ...]
    input_format: str | None = None
    serde: str | None = None
    serde_properties: Mapping[str, str] = field(default_factory=dict)
    bucket_columns: tuple[str, ...] = ()
    buckets: int = -1
    sort_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """One database with its properties."""

    name: str
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreTable:
    """A table; `created` (epoch seconds) and `id` (Hive 4) distinguish tables of one name; `kind` is Hive's type."""

    ref: TableRef
    kind: str
    owner: str | None
    created: int
    storage: Storage
    id: int | None = None
    partition_keys: tuple[TableColumn, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_transactional(self) -> bool:
        """Whether `transactional` is true (Hive `AcidUtils.isTransactionalTable`)."""
        return self.properties.get("transactional", "").lower() == "true"

    @property
    def is_insert_only(self) -> bool:
        """Whether `transactional_properties` is `insert_only` (Hive `AcidUtils.isInsertOnlyTable`)."""
        return self.is_transactional and self.properties.get("transactional_properties", "").lower() == "insert_only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition of a table: the unescaped values of the table's partition keys, in their order."""

    values: tuple[str, ...]
    storage: Storage
    created: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)


def row_type(table: MetastoreTable) -> str:
    """Return the columns that a compaction's result has, as Hive's text `struct<name:type,...>`.

    Names with odd characters are in backquotes. The columns are the table's for partitions too, whatever columns a
    partition has of its own: readers of ACID tables take the table's in both generations (Hive
    `Utilities.addTableSchemaToConf`: `schema.evolution.columns`). Hive 3.1's own compactor takes the partition's, and
    loses the values of columns that only the table has. Raises RefusedError when the metastore has no columns.
    """
    columns = table.storage.columns
    if not columns:
        raise RefusedError(f"Cannot read {table.ref}: the metastore tells no columns of it")
    return f"struct<{','.join(f'{_quoted(column.name)}:{column.type}' for column in columns)}>"


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"

_ESCAPED = frozenset(chr(code) for code in range(0x20)) | frozenset("\x7f\"#%'*/:=?\\{[]^")
_HEX = frozenset("0123456789abcdefABCDEF")
_NEXT_KEY = re.compile(r"[,/](?=[^,/=]+=)")


def escape_path_name(value: str | None) -> str:
    """Return a partition key or value as it is written in a path; null and empty give `__HIVE_DEFAULT_PARTITION__`."""
    if not value:
        return DEFAULT_PARTITION
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in value)


def unescape_path_name(text: str) -> str:
    """Return the value behind a path component; a `%` that two hexadecimal digits do not follow stays as it is."""
    parts = text.split("%")
    result = [parts[0]]
    for part in parts[1:]:
        if len(part) >= 2 and part[0] in _HEX and part[1] in _HEX:
            result.append(chr(int(part[:2], 16)) + part[2:])
        else:
            result.append("%" + part)
    return "".join(result)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionName:
    """The keys and unescaped values of one partition, outermost first.

    The value of the default partition is the text `__HIVE_DEFAULT_PARTITION__`, as in Hive.
    """

    pairs: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> PartitionName:
        """Return the name of `k1=v1/k2=v2` with escaped parts; raises CorruptError when a part is not `key=value`."""
        pairs = []
        for part in text.split("/"):
            key, equals, value = part.partition("=")
            if not key or not equals:
                raise CorruptError(f"Cannot read the partition name {text!r}: {part!r} is not of the form key=value")
            pairs.append((unescape_path_name(key), unescape_path_name(value) or DEFAULT_PARTITION))
        return cls(pairs=tuple(pairs))

    @property
    def path(self) -> str:
        """`k1=v1/k2=v2` with Hive's escaping. A directory made by others may escape more; its own path stays valid."""
        return "/".join(f"{escape_path_name(key)}={escape_path_name(value)}" for key, value in self.pairs)


def is_partition_directory(name: str) -> bool:
    """Return whether a directory's name has the form `key=value` of a partition level."""
    key, equals, _ = name.partition("=")
    return bool(key) and bool(equals)


def matches(partition: PartitionName, patterns: Sequence[str]) -> bool:
    """Return whether a partition matches one of the patterns; without a pattern every partition does.

    A pattern is `k=glob`, several keys joined by `,` or `/`: each named key must match, keys that are not named match
    anything. Keys are compared without case, values unescaped and with case, as by `fnmatch.fnmatchcase`. A comma or a
    slash that no `key=` follows belongs to the value. Every pattern is checked, wrong ones raise even if another one
    matches: UsageError for a pattern that is not `key=glob`, or has a key that the table does not have.
    """
    values = {key.lower(): value for key, value in partition.pairs}
    known = ", ".join(values) or "none"
    is_match = not patterns
    for pattern in patterns:
        globs = pattern_globs(pattern)
        for key, _ in globs:
            if key.strip().lower() not in values:
                raise UsageError(f"Cannot use the partition pattern {pattern!r}: {key!r} is no partition key ({known})")
        is_match = is_match or all(fnmatchcase(values[key.strip().lower()], glob) for key, glob in globs)
    return is_match


def pattern_globs(pattern: str) -> list[tuple[str, str]]:
    """Return the keys of a pattern, each with its glob; UsageError unless the text is a pattern, see `matches`."""
    globs = []
    for part in _NEXT_KEY.split(pattern):
        key, equals, glob = part.partition("=")
        if not key.strip() or not equals:
            raise UsageError(f"Cannot use the partition pattern {pattern!r}: {part!r} is not of the form key=glob")
        globs.append((key, glob))
    return globs
