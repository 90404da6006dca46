"""Joining Parquet files in tests: by the library as its callers use it, and files with one deliberate change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acidlib.parquet.footer import FILE, Footer, read_footer
from acidlib.parquet.join import check_joined, join_files
from acidlib.parquet.thrift_compact import Struct, decode, encode
from acidlib.stores.renaming.local import LocalDataFiles

DATA = LocalDataFiles()


@dataclass(frozen=True)
class Joined:
    """A result: its rows and row groups, the sizes of what was copied of its inputs, and why indexes were not."""

    rows: int
    row_groups: int
    copies: tuple[int, ...]
    left_out: tuple[str, ...] = ()

    @property
    def bytes_copied(self) -> int:
        return sum(self.copies)


class CountingSink:
    """A new file, and the sizes of what is copied into it."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self.copies: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sink, name)

    def copy(self, source: Any, offset: int, size: int) -> None:
        self.copies.append(size)
        self._sink.copy(source, offset, size)


def footer_of(path: Path) -> Footer:
    with closing(DATA.open(str(path), path.stat().st_size)) as source:
        return read_footer(source)


def join(target: Path, paths: Sequence[Path]) -> Joined:
    """Join files into a new one and prove it."""
    footers = [footer_of(path) for path in paths]
    sink = DATA.create(str(target))
    counting = CountingSink(sink)
    try:
        carried = join_files(counting, footers, DATA)
    except BaseException:
        sink.abort()
        raise
    sink.close()
    found = _prove(target, carried)
    return Joined(
        rows=found.rows,
        row_groups=len(found.row_groups),
        copies=tuple(counting.copies),
        left_out=tuple(footer.left_out for footer in carried if footer.left_out),
    )


def prove(target: Path, paths: Sequence[Path]) -> Footer:
    return _prove(target, [footer_of(path) for path in paths])


def _prove(target: Path, footers: Sequence[Footer]) -> Footer:
    with closing(DATA.open(str(target), target.stat().st_size)) as source:
        return check_joined(source, footers)


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
    struct: Struct = decode(metadata_bytes(data), FILE)[0]
    change(struct)
    target = target or path
    target.write_bytes(with_metadata(data, encode(struct, FILE)))
    return target


def columns(struct: Any) -> list[Any]:
    """All ColumnChunk structs of a FileMetaData."""
    return [column for group in struct[4] for column in group[1]]
