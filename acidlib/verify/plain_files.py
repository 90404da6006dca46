"""Files of insert-only tables, which may be of any format: rows of ORC and Parquet, lines of text, else bytes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from acidlib.datafiles import DataFiles
from acidlib.errors import CorruptError
from acidlib.model.location import Location
from acidlib.model.units import DataFile, JoinWay
from acidlib.verify.bucket import Sum, Tally
from acidlib.verify.orc_files import SourceStream, opened

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainView:
    """Files of one bucket number of an insert-only place, each with the way in which it is or was joined."""

    location: Location
    bucket: int
    files: tuple[tuple[DataFile, JoinWay], ...]

    @property
    def length(self) -> int:
        """Bytes to read."""
        return sum(file.length for file, _ in self.files)


def tally_of_plain(view: PlainView, files: DataFiles, clock: Callable[[], float]) -> Tally:
    """Rows, lines or whole files, and a sum over them. CorruptError for what cannot be read."""
    start = clock()
    total = Sum()
    for file, way in view.files:
        if file.aborted or not file.length:
            continue
        match way:
            case JoinWay.STRIPES:
                for one in opened(files, view.location, file):
                    total.add_all(one.rows)
            case JoinWay.ROW_GROUPS:
                total.add_all(_parquet_rows(files, view.location, file))
            case JoinWay.LINES:
                total.add_all(_lines(files, view.location, file))
            case JoinWay.WHOLE:
                total.add_all([_digest(files, view.location, file)])
    return Tally(rows=total.count, row_sum=total.sum, seconds=clock() - start)


def _chunks(files: DataFiles, location: Location, file: DataFile) -> Iterator[bytes]:
    with closing(files.open(f"{location}/{file.path}", file.length)) as source:
        for at in range(0, file.length, _CHUNK):
            yield source.read(at, min(_CHUNK, file.length - at))


def _digest(files: DataFiles, location: Location, file: DataFile) -> bytes:
    found = blake2b(digest_size=16)
    for chunk in _chunks(files, location, file):
        found.update(chunk)
    return found.digest()


def _lines(files: DataFiles, location: Location, file: DataFile) -> Iterator[bytes]:
    rest = b""
    for chunk in _chunks(files, location, file):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    if rest:
        yield rest


def _parquet_rows(files: DataFiles, location: Location, file: DataFile) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import parquet

    path = f"{location}/{file.path}"
    with closing(files.open(path, file.length)) as source:
        try:
            opened_file = parquet.ParquetFile(io.BufferedReader(_ArrowStream(source), _CHUNK))
            for batch in opened_file.iter_batches(batch_size=4096):
                columns = [_raw(pa, column).to_pylist() for column in batch.columns]
                yield from zip(*columns, strict=True) if columns else [()] * batch.num_rows
        except pa.ArrowException as error:
            raise CorruptError(f"Cannot verify {path}: because pyarrow cannot read it: {error}") from error


class _ArrowStream(SourceStream):
    """As pyarrow reads files."""

    def readinto(self, buffer: Any) -> int:
        size: int = max(0, min(len(buffer), self._source.length - self._at))
        if size:
            buffer[:size] = self._source.read(self._at, size)
        self._at += size
        return size


def _raw(pa: Any, column: Any) -> Any:
    """Times and dates as numbers, for Python's own have no nanoseconds and no year 10000; decimals as text."""
    kind = _raw_type(pa, column.type)
    return column if kind == column.type else column.cast(kind)


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
