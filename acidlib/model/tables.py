"""Databases, tables and partitions as a metastore describes them.

Source of the names of parameters: Hive `hive_metastoreConstants` and `AcidUtils`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from acidlib.errors import RefusedError

_PLAIN = re.compile(r"\w+", re.ASCII)

EXTERNAL_TABLE, MANAGED_TABLE = "EXTERNAL_TABLE", "MANAGED_TABLE"
VIRTUAL_VIEW = "VIRTUAL_VIEW"
"""A view without rows of its own. A materialized one has rows, and Hive compacts them as those of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """One column; `type` is Hive's text, such as `struct<a:int,b:decimal(10,2)>`."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Where rows lie and how they are stored: a storage descriptor. `location` is a URI, "" for a view."""

    location: str
    columns: tuple[TableColumn, ...]
    input_format: str | None = None
    serde: str | None = None
    bucket_columns: tuple[str, ...] = ()
    buckets: int = -1
    sort_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """One database with its properties."""

    name: str
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table. Names are in lower case; `created` is in epoch seconds, with `id` (Hive 4) what distinguishes two
    tables of one name; `kind` is Hive's table type."""

    database: str
    name: str
    kind: str
    owner: str | None
    created: int
    storage: Storage
    id: int | None = None
    partition_keys: tuple[TableColumn, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.name}"

    @property
    def is_transactional(self) -> bool:
        """Whether `transactional` is true (Hive `AcidUtils.isTransactionalTable`)."""
        return (self.property("transactional") or "").lower() == "true"

    @property
    def is_insert_only(self) -> bool:
        """Whether `transactional_properties` is `insert_only` (Hive `AcidUtils.isInsertOnlyTable`)."""
        return self.is_transactional and (self.property("transactional_properties") or "").lower() == "insert_only"

    def property(self, key: str) -> str | None:
        """A table property; None without it."""
        return self.properties.get(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition of a table: the unescaped values of the table's partition keys, in their order."""

    values: tuple[str, ...]
    storage: Storage
    created: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)


def row_type(table: Table) -> str:
    """The columns that a compaction's result has, as Hive's text `struct<name:type,...>`.

    Names with odd characters are in backquotes. The columns are the table's for partitions too, whatever columns a
    partition has of its own: readers of ACID tables take the table's in both generations (Hive
    `Utilities.addTableSchemaToConf`: `schema.evolution.columns`). Hive 3.1's own compactor goes by the partition's, and
    loses what was written to columns that only the table has. Raises RefusedError when the metastore has no columns.
    """
    columns = table.storage.columns
    if not columns:
        raise RefusedError(f"Cannot compact {table.full_name}: because the metastore tells no columns of it")
    return f"struct<{','.join(f'{_quoted(column.name)}:{column.type}' for column in columns)}>"


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"
