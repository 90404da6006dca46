"""What a query of an insert-only table sees: the rows of the files in the directories that its write-id list allows."""

from __future__ import annotations

import bz2
import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyorc

from judges.acid_dirs import all_files, directory_state

Row = tuple[Any, ...]


def insert_only_files(location: Path, write_ids: str = "", *, generation: int = 3) -> list[Path]:
    """The files that are read, in order."""
    state = directory_state(location, write_ids, generation=generation)
    directories = ([state.base] if state.base else []) + list(state.deltas)
    assert not any(directory.delete for directory in directories)
    return [*state.originals, *(path for directory in directories for path in all_files(directory.path))]


def insert_only_rows(location: Path, write_ids: str = "", *, generation: int = 3) -> Counter[Row]:
    """Every row, as its format's own reader gives it."""
    found: Counter[Row] = Counter()
    for path in insert_only_files(location, write_ids, generation=generation):
        found.update(rows_of(path))
    return found


def rows_of(path: Path) -> list[Row]:
    """The rows of one file."""
    start = path.read_bytes()[:4]
    if start[:3] == b"ORC":
        with path.open("rb") as file:
            return [(repr(row),) for row in pyorc.Reader(file)]
    if start == b"PAR1":
        return [(repr(row),) for row in pq.read_table(path, coerce_int96_timestamp_unit="us").to_pylist()]
    return [(line,) for line in lines_of(path)]


def lines_of(path: Path) -> list[bytes]:
    """The lines of a text file as Hadoop's LineReader finds them; streams of a compressed one follow one another."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    elif path.suffix == ".bz2":
        data = bz2.decompress(data)
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines
