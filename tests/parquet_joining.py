"""Joining Parquet files in tests: by the library as its callers use it, and files with one deliberate change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from acidlib.parquet import shapes
from acidlib.parquet.footer import Footer, read_footer
from acidlib.parquet.join import Joined, check_joined, join_files
from acidlib.parquet.thrift_compact import Struct, decode, encode
from acidlib.stores.renaming.local import LocalDataFiles

DATA = LocalDataFiles()


def footer_of(path: Path) -> Footer:
    with closing(DATA.open(str(path), path.stat().st_size)) as source:
        return read_footer(source)


def join(target: Path, paths: Sequence[Path], *, check: bool = True) -> Joined:
    """Join files into a new one and prove it."""
    footers = [footer_of(path) for path in paths]
    sink = DATA.create(str(target))
    try:
        joined = join_files(sink, footers, DATA)
    except BaseException:
        sink.abort()
        raise
    sink.close()
    if check:
        prove(target, paths)
    return joined


def prove(target: Path, paths: Sequence[Path]) -> Footer:
    with closing(DATA.open(str(target), target.stat().st_size)) as source:
        return check_joined(source, [footer_of(path) for path in paths])


def metadata_bytes(data: bytes) -> bytes:
    """The FileMetaData of a file."""
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


def with_metadata(data: bytes, metadata: bytes) -> bytes:
    """The file with other FileMetaData."""
    body = data[: -8 - int.from_bytes(data[-8:-4], "little")]
    return body + metadata + len(metadata).to_bytes(4, "little") + b"PAR1"


def edit(path: Path, change: Callable[[Any], None], target: Path | None = None) -> Path:
    """The file with its decoded FileMetaData changed in place."""
    data = path.read_bytes()
    struct: Struct = decode(metadata_bytes(data), shapes.FILE).struct
    change(struct)
    target = target or path
    target.write_bytes(with_metadata(data, encode(struct, shapes.FILE)))
    return target


def columns(struct: Any) -> list[Any]:
    """All ColumnChunk structs of a FileMetaData."""
    return [column for group in struct[4] for column in group[1]]
