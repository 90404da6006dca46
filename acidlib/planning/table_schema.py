"""The columns that a compaction's result has, by what a metastore says of its table and partition."""

from __future__ import annotations

import re

from acidlib.errors import RefusedError
from acidlib.model.generation import Generation
from acidlib.model.tables import Partition, Table

_PLAIN = re.compile(r"\w+", re.ASCII)


def row_type(table: Table, partition: Partition | None, generation: Generation) -> str:
    """The row struct as Hive's text, `struct<name:type,...>`; names with odd characters are in backquotes.

    Hive 3.1 goes by the partition's own columns, Hive 4 by the table's for partitions too, so that columns added to the
    table alone appear (Hive `CompactorMR`: the storage descriptor of the partition, or of the table). Raises
    RefusedError when the metastore tells no columns.
    """
    owned = partition is not None and generation is Generation.HIVE3
    columns = partition.storage.columns if partition is not None and owned else table.storage.columns
    if not columns:
        whose = f"partition {', '.join(partition.values)}" if partition is not None and owned else "it"
        raise RefusedError(f"Cannot compact {table.full_name}: because the metastore tells no columns of {whose}")
    return f"struct<{','.join(f'{_quoted(column.name)}:{column.type}' for column in columns)}>"


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"
