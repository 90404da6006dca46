"""ORC files as pyorc reads them, as near to their bytes as it lets: nothing here knows the engine's own ORC."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from acidlib.datafiles import DataFiles, SourceFile
from acidlib.errors import AcidError, CorruptError, RefusedError
from acidlib.model.location import Location
from acidlib.model.units import DataFile
from acidlib.verify.columns import EMPTY_ROW, ColumnType, parse_type

_EVENT = ("operation", "originaltransaction", "bucket", "rowid", "currenttransaction", "row")
_READ_AT_ONCE = 1 << 20


def require_reader() -> None:
    """RefusedError where pyorc is not installed."""
    try:
        import pyorc  # noqa: F401
    except ImportError as error:
        raise RefusedError(
            f"Cannot verify: because the second reader is missing ({error}); install acidlib[verify], or leave "
            "--verify out"
        ) from None


class SourceStream(io.RawIOBase):
    """A source as a stream: where it is, and how it is moved."""

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.length}[whence]
        self._at = base + offset
        return self._at


class _OrcStream(SourceStream):
    """As pyorc reads files: what it asks for in small pieces is read at once."""

    def __init__(self, source: SourceFile) -> None:
        super().__init__(source)
        self._start = 0
        self._kept = b""

    def read(self, size: int = -1) -> bytes:
        left = self._source.length - self._at
        size = left if size < 0 else min(size, left)
        if size <= 0:
            return b""
        if size >= _READ_AT_ONCE:
            data = self._source.read(self._at, size)
        else:
            if not self._start <= self._at <= self._at + size <= self._start + len(self._kept):
                self._start, self._kept = self._at, self._source.read(self._at, min(left, _READ_AT_ONCE))
            first = self._at - self._start
            data = self._kept[first : first + size]
        self._at += size
        return data


class _Timestamp:
    """Seconds and nanoseconds."""

    @staticmethod
    def from_orc(seconds: int, nanoseconds: int, timezone: Any) -> tuple[int, int]:
        del timezone
        return seconds, nanoseconds

    to_orc = None


class _Date:
    """Days."""

    from_orc = int
    to_orc = None


class _Decimal:
    """Text, with as many digits behind the point as the column has."""

    from_orc = str
    to_orc = None


@dataclass(frozen=True, slots=True)
class OrcRows:
    """A file that is open: `row` is what its rows have besides ids; with `has_ids` each is an event."""

    row: ColumnType
    has_ids: bool
    rows: Iterator[Any]


def opened(files: DataFiles, location: Location, file: DataFile, *, columns: tuple[str, ...] = ()) -> Iterator[OrcRows]:
    """A file, once, open until it is asked for another; nothing for one without bytes. CorruptError where pyorc fails.

    columns  of the root; all unless some are named
    """
    import pyorc
    from pyorc import TypeKind

    if file.length == 0:
        return
    path = f"{location}/{file.path}"
    converters: Any = {
        TypeKind.TIMESTAMP: _Timestamp,
        TypeKind.TIMESTAMP_INSTANT: _Timestamp,
        TypeKind.DATE: _Date,
        TypeKind.DECIMAL: _Decimal,
    }
    with closing(files.open(path, file.length)) as source:
        with _failures(path):
            reader: Any = pyorc.Reader(
                cast(BinaryIO, _OrcStream(source)),
                column_names=columns,
                struct_repr=pyorc.StructRepr.TUPLE,
                converters=converters,
            )
            root = parse_type(str(reader.schema))
        has_ids = tuple(name.lower() for name in root.names) == _EVENT
        yield OrcRows(row=root.inner[5] if has_ids else root, has_ids=has_ids, rows=_rows(reader, path))


def _rows(reader: Any, path: str) -> Iterator[Any]:
    with _failures(path):
        yield from reader


@contextmanager
def _failures(path: str) -> Iterator[None]:
    """What goes wrong in pyorc is about the file."""
    try:
        yield
    except AcidError:
        raise
    except Exception as error:
        raise CorruptError(
            f"Cannot verify {path}: because pyorc cannot read it: {type(error).__name__}: {error}"
        ) from error


def row_type(files: DataFiles, location: Location, file: DataFile) -> ColumnType:
    """The columns of a file's rows."""
    for one in opened(files, location, file):
        return one.row
    return EMPTY_ROW
