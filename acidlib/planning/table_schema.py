"""The columns that a compaction's result has, by what is known of its table."""

from __future__ import annotations

import re

from acidlib.errors import RefusedError
from acidlib.model.tables import Table

_PLAIN = re.compile(r"\w+", re.ASCII)


def row_type(table: Table) -> str:
    """The row struct as Hive's text, `struct<name:type,...>`; names with odd characters are in backquotes.

    They are the table's for partitions too, whatever columns a partition has of its own: readers of ACID tables take
    the table's in both generations (Hive `Utilities.addTableSchemaToConf`: `schema.evolution.columns`). Hive 3.1's own
    compactor goes by the partition's, and loses what was written to columns that only the table has. Raises
    RefusedError when the metastore tells no columns.
    """
    columns = table.storage.columns
    if not columns:
        raise RefusedError(f"Cannot compact {table.full_name}: because the metastore tells no columns of it")
    return f"struct<{','.join(f'{_quoted(column.name)}:{column.type}' for column in columns)}>"


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"
