"""The one door by which tests read a directory with the snapshot reader."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

import acidlib


def read_arrow(
    location: Path,
    *,
    generation: int,
    write_ids: str = "",
    columns: str | None = None,
    insert_only: bool = False,
    chosen: Sequence[str] | None = None,
    where: str | None = None,
    row_ids: bool = False,
) -> pa.Table:
    """What ``to_arrow`` returns of a table or partition directory.

    ``columns`` is the struct of the table's columns; blank ``write_ids``: all are committed.
    """
    table = acidlib.directory(
        location,
        write_ids=write_ids or None,
        all_committed=not write_ids,
        table_kind="insert-only" if insert_only else "full",
        columns=None if columns is None else ", ".join(f"`{name}` {kind}" for name, kind in fields_of(columns)),
        hive_version=3 if generation == 3 else 4,
    )
    return table.to_arrow(columns=chosen, where=where, row_ids=row_ids)


def fields_of(struct: str) -> list[tuple[str, str]]:
    """Names and types at the top of the text ``struct<name:type,…>``."""
    found, depth, start = [], 0, len("struct<")
    for at in range(start, len(struct)):
        depth += (struct[at] in "<(") - (struct[at] in ">)")
        if (struct[at] == "," and depth == 0) or depth < 0:
            name, _, kind = struct[start:at].partition(":")
            found.append((name, kind))
            start = at + 1
    return found
