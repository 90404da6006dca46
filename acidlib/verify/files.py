"""Files as the second reader reads them: ORC by pyorc, Parquet by pyarrow, text by lines, anything else by its bytes.

Values are as close to the bytes of a file as its library allows. Nothing here uses the engine's own ORC and Parquet.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, BinaryIO, cast

from acidlib.arguments import VERIFY
from acidlib.datafiles import DataFiles, SourceFile
from acidlib.errors import AcidError, CorruptError, RefusedError
from acidlib.location import Location
from acidlib.model.units import DataFile
from acidlib.verify.columns import EMPTY_ROW, ColumnType, parse_type

_EVENT = ("operation", "originaltransaction", "bucket", "rowid", "currenttransaction", "row")
_READ_AT_ONCE = 1 << 20


def require_reader() -> None:
    """Raise RefusedError where pyorc is not installed."""
    try:
        import pyorc  # noqa: F401
    except ImportError as error:
        raise RefusedError(
            f"Cannot verify: the second reader is missing ({error}); install acidlib[verify], or leave {VERIFY} out"
        ) from None


class _SourceStream(io.RawIOBase):
    """A source as a stream for libraries, which read it through a buffer: small pieces are read at once."""

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.length}[whence]
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        size: int = max(0, min(len(buffer), self._source.length - self._at))
        if size:
            buffer[:size] = self._source.read(self._at, size)
        self._at += size
        return size


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
    """An open file: `row` is the type of its rows without their ids; with `has_ids` each of `rows` is an event."""

    row: ColumnType
    has_ids: bool
    rows: Iterator[Any]


@contextmanager
def open_orc(
    files: DataFiles, location: Location, file: DataFile, *, columns: tuple[str, ...] = ()
) -> Iterator[OrcRows]:
    """Open an ORC file; a file without bytes has no rows. Raises CorruptError where pyorc fails.

    columns  of the root; all unless some are named
    """
    import pyorc
    from pyorc import TypeKind

    if file.length == 0:
        yield OrcRows(row=EMPTY_ROW, has_ids=False, rows=iter(()))
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
                cast(BinaryIO, io.BufferedReader(_SourceStream(source), _READ_AT_ONCE)),
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
    """Raise any error of pyorc but the lack of memory as a CorruptError of the file."""
    try:
        yield
    except (AcidError, MemoryError):
        raise
    except Exception as error:
        raise CorruptError(f"Cannot verify {path}: pyorc cannot read it: {type(error).__name__}: {error}") from error


def file_row_type(files: DataFiles, location: Location, file: DataFile) -> ColumnType:
    """Return the type of a file's rows."""
    with open_orc(files, location, file) as orc:
        return orc.row


def _chunks(files: DataFiles, location: Location, file: DataFile) -> Iterator[bytes]:
    with closing(files.open(f"{location}/{file.path}", file.length)) as source:
        for at in range(0, file.length, _READ_AT_ONCE):
            yield source.read(at, min(_READ_AT_ONCE, file.length - at))


def digest(files: DataFiles, location: Location, file: DataFile) -> bytes:
    """Return a hash of the bytes of a file."""
    state = blake2b(digest_size=16)
    for chunk in _chunks(files, location, file):
        state.update(chunk)
    return state.digest()


def lines(files: DataFiles, location: Location, file: DataFile) -> Iterator[bytes]:
    """Yield the lines of a text file, without their ends."""
    rest = b""
    for chunk in _chunks(files, location, file):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    if rest:
        yield rest


def parquet_rows(files: DataFiles, location: Location, file: DataFile) -> Iterator[Any]:
    """Yield the rows of a Parquet file. Raises CorruptError where pyarrow fails."""
    import pyarrow as pa
    from pyarrow import parquet

    path = f"{location}/{file.path}"
    with closing(files.open(path, file.length)) as source:
        try:
            opened_file = parquet.ParquetFile(io.BufferedReader(_SourceStream(source), _READ_AT_ONCE))
            for batch in opened_file.iter_batches(batch_size=4096):
                # times and dates as numbers, for Python's types have no nanoseconds and no year 10000; decimals as text
                kinds = [_raw_type(pa, column.type) for column in batch.columns]
                pairs = zip(batch.columns, kinds, strict=True)
                columns = [(column if column.type == kind else column.cast(kind)).to_pylist() for column, kind in pairs]
                yield from zip(*columns, strict=True) if columns else [()] * batch.num_rows
        except MemoryError:
            raise
        except pa.ArrowException as error:
            raise CorruptError(f"Cannot verify {path}: pyarrow cannot read it: {error}") from error


def _raw_type(pa: Any, kind: Any) -> Any:
    types = pa.types
    if types.is_timestamp(kind) or types.is_time64(kind) or types.is_date64(kind) or types.is_duration(kind):
        return pa.int64()
    if types.is_date32(kind) or types.is_time32(kind):
        return pa.int32()
    if types.is_decimal(kind):
        return pa.string()
    if types.is_list(kind):
        return pa.list_(_raw_type(pa, kind.value_type))
    if types.is_map(kind):
        return pa.map_(_raw_type(pa, kind.key_type), _raw_type(pa, kind.item_type))
    if types.is_struct(kind):
        return pa.struct([field.with_type(_raw_type(pa, field.type)) for field in kind])
    return kind
