"""The columns that Hive's own statements gave a table, in the form in which a metastore tells them."""

from __future__ import annotations

import re
from pathlib import Path

from acidlib.model.tables import MetastoreTable, Storage, TableColumn, TableRef, row_type

_ADD = r"alter table {} add columns \("
_CHANGE = r"alter table {} change column (\w+) (\w+) ([^;]+);"


def table_of(folder: Path) -> MetastoreTable:
    """The table of a fixture, its columns as the statements of `ddl.sql` left them."""
    text, name = (folder / "ddl.sql").read_text(), folder.name
    (create,) = re.finditer(rf"create table {name}\(", text, re.IGNORECASE)
    columns = _columns(text, create.end())
    changes = [*re.finditer(_ADD.format(name), text), *re.finditer(_CHANGE.format(name), text)]
    for change in sorted(changes, key=re.Match.start):
        if not change.re.groups:
            columns += _columns(text, change.end())
            continue
        old, new, kind = change.groups()
        columns = [TableColumn(name=new, type=kind) if column.name == old else column for column in columns]
    storage = Storage(location=str(folder), columns=tuple(columns))
    return MetastoreTable(ref=TableRef("default", name), kind="MANAGED_TABLE", owner=None, created=0, storage=storage)


def row_type_of(folder: Path) -> str:
    """The row struct of a fixture's table."""
    return row_type(table_of(folder))


def _columns(text: str, start: int) -> list[TableColumn]:
    """The `name type` pairs from `start` to the bracket that closes the list."""
    depth, begin, found = 0, start, []
    for at in range(start, len(text)):
        ends = depth == 0 and text[at] in ",)"
        if ends:
            name, _, kind = text[begin:at].strip().partition(" ")
            found.append(TableColumn(name=name, type=kind.strip()))
            begin = at + 1
        if ends and text[at] == ")":
            return found
        depth += (text[at] in "<(") - (text[at] in ">)")
    raise AssertionError(f"no end of the columns in {text[start:]!r}")
