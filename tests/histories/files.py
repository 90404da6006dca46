"""The directories that writers of both generations leave, of a table whose columns grow: `a` and `s`, then more."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges import tables
from judges.merge import bucket_property, writer_of

from histories.model import Key

Rows = dict[Key, tuple[Any, ...]]
GARBAGE = b"a streaming writer was about to write more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """How this table's writers name and fill files.

    attempt    of the task, behind the names of bucket files (Hive 4's direct insert)
    scattered  delete events lie in whatever bucket file (unbucketed tables of Hive 3.1)
    """

    attempt: str
    scattered: bool


def columns(count: int) -> str:
    """The type of rows with so many columns."""
    return f"struct<a:int,s:string{''.join(f',c{number}:int' for number in range(2, count))}>"


def events(rows: Rows, width: int) -> list[tables.Event]:
    """The insert events of rows, padded with nulls."""
    return [
        (tables.INSERT, *key, key[0], values + (None,) * (width - len(values))) for key, values in sorted(rows.items())
    ]


def write_rows(place: Path, name: str, rows: Rows, width: int, names: Names, *, raw: bool = False) -> None:
    """A delta, or an insert overwrite's base, with these rows; `raw`: as LOAD DATA leaves files, without row ids."""
    if not raw:
        tables.write_dir(place, name, columns(width), events(rows, width), tables.Layout(attempt=names.attempt))
        return
    (place / name).mkdir(parents=True)
    for number, values in by_writer(rows).items():
        padded = [row + (None,) * (width - len(row)) for row in values]
        (place / name / f"{number:06d}_0").write_bytes(tables.orc_bytes(columns(width), padded))


def by_writer(rows: Rows) -> dict[int, list[tuple[Any, ...]]]:
    """The values of rows by bucket, in the order of their row ids."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for key, values in sorted(rows.items()):
        found.setdefault(writer_of(key[1]), []).append(values)
    return found


def write_deletes(place: Path, name: str, write_id: int, keys: Sequence[Key], width: int, names: Names) -> None:
    """A delete delta with the events of one statement."""
    found = sorted(tables.deletes(write_id, keys), key=tables.event_key)
    layout = tables.Layout(attempt=names.attempt)
    if not names.scattered:
        tables.write_dir(place, name, columns(width), found, layout)
        return
    directory = place / name
    directory.mkdir(parents=True)
    (directory / "_orc_acid_version").write_bytes(b"2")
    (directory / "bucket_00000").write_bytes(tables.acid_bytes(columns(width), found, layout))


def write_originals(place: Path, files: Sequence[tuple[str, Sequence[tuple[Any, ...]]]], width: int) -> Rows:
    """Files from before the table became transactional, in path order; their rows by the keys that they have now."""
    place.mkdir(parents=True, exist_ok=True)
    counts: dict[int, int] = {}
    rows: Rows = {}
    for name, values in files:
        writer = int(name.partition("_")[0])
        (place / name).write_bytes(tables.orc_bytes(columns(width), values))
        for row in values:
            rows[0, bucket_property(writer, 0), counts.setdefault(writer, 0)] = row
            counts[writer] += 1
    return rows


def write_stream(directory: Path, rows: Rows, width: int, *, appending: bool) -> None:
    """The delta of a batch of write ids; while it is written, a side file says how much of each file is whole."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    (directory / "_orc_acid_version").write_bytes(b"2")
    for number in sorted({writer_of(key[1]) for key in rows}):
        part = {key: values for key, values in rows.items() if writer_of(key[1]) == number}
        data = tables.acid_bytes(columns(width), events(part, width))
        path = directory / f"bucket_{number:05d}"
        path.write_bytes(data + GARBAGE if appending else data)
        if appending:
            path.with_name(f"{path.name}_flush_length").write_bytes(struct.pack(">qq", 0, len(data)))
