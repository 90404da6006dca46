"""Fetching near ranges of a data file in one large read, and a file object for Arrow's Parquet reader.

A column of ORC is several streams, each of which is read by itself. As the columns are known, the ranges of their
streams are fetched first: a store sees a few large reads, and only of bytes that are needed.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from acidlib.datafiles import DataFiles, SinkFile, SourceFile, kept_range
from acidlib.errors import AcidError, CorruptError, OverMemoryError, RefusedError
from acidlib.memory import TASK_MEMORY
from acidlib.model.units import MEBIBYTE

GAP_BYTES = 128 << 10
"""Ranges with fewer bytes between them are fetched with one read."""

MAX_FETCHED_BYTES = 8 * MEBIBYTE
"""Bytes of one read, at most; a range may be longer."""

_SMALL = 64 << 10

ByteRange = tuple[int, int]
"""Offset and length in bytes."""


def joined_ranges(
    ranges: Iterable[ByteRange], *, gap: int = GAP_BYTES, most: int = MAX_FETCHED_BYTES
) -> list[ByteRange]:
    """Return the reads that fetch some ranges: near ones together, up to so many bytes."""
    reads: list[ByteRange] = []
    for offset, length in sorted(ranges):
        if reads:
            start, size = reads[-1]
            end = max(start + size, offset + length)
            if offset <= start + size + gap and end - start <= most:
                reads[-1] = start, end - start
                continue
        if length:
            reads.append((offset, length))
    return reads


class FetchedSource:
    """A source file that keeps ranges that were fetched ahead, and small reads such as footers, until `forget`."""

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        self.name = source.name
        self.length = source.length
        self.memory = source.memory
        self._end: tuple[int, bytes] | None = None
        self._kept: list[tuple[int, bytes]] = []

    def fetch(self, ranges: Iterable[ByteRange]) -> None:
        """Read ranges that will be asked for, joined to large reads."""
        for offset, size in joined_ranges(ranges):
            if self._kept_range(offset, size) is None:
                self._kept.append((offset, self._source.read(offset, size)))

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes at `offset`, from what is kept if it holds them."""
        data = self._kept_range(offset, size)
        if data is None:
            data = self._source.read(offset, size)
            if offset + size == self.length:
                self._end = offset, data  # the tail
            elif size <= _SMALL:
                self._kept.append((offset, data))
        return data

    def _kept_range(self, offset: int, size: int) -> bytes | None:
        return kept_range((*self._kept, *((self._end,) if self._end else ())), offset, size)

    def forget(self) -> None:
        """Drop what is kept, but for the end of the file."""
        self._kept.clear()

    def close(self) -> None:
        """Close the file, and drop everything."""
        self.forget()
        self._end = None
        self._source.close()


class FetchedFiles:
    """Data files that are opened as `FetchedSource`."""

    def __init__(self, data: DataFiles) -> None:
        self._data = data

    def open(self, path: str, length: int) -> FetchedSource:
        """Open a file of `length` logical bytes; CorruptError when it is missing or shorter."""
        return FetchedSource(self._data.open(path, length))

    def create(self, path: str) -> SinkFile:
        """Create a file, as the data files beneath do."""
        return self._data.create(path)


class ArrowStream(io.RawIOBase):
    """A source as the seekable stream that Arrow reads, which ends at its logical length."""

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        self._at = 0
        self._error: AcidError | None = None

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position in bytes."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position, and return it."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.length}[whence]
        self._at = start + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return the bytes from the position on, fewer at the end of the file."""
        rest = max(self._source.length - self._at, 0)
        size = rest if size < 0 else min(size, rest)
        try:
            data = self._source.read(self._at, size) if size else b""
        except AcidError as error:
            self._error = error  # Arrow passes on its text alone
            raise
        self._at += size
        return data

    @contextmanager
    def raising_acid_errors(self, where: str) -> Iterator[None]:
        """Raise the store's own error; or, for a part of the file, CorruptError if it is damaged.

        RefusedError for what Arrow cannot hold, or gets no memory for.
        """
        try:
            yield
        except MemoryError as error:
            raise OverMemoryError(
                f"Cannot read {where}: it takes more memory than there is, or than a task may take, and {TASK_MEMORY} "
                f"is {self._source.memory.limit:,}: {error}"
            ) from None
        except (pa.ArrowNotImplementedError, pa.ArrowCapacityError) as error:
            raise RefusedError(f"Cannot read {where}: {error}") from None
        except (pa.ArrowException, OSError) as error:
            if self._error is not None:
                raise self._error from None
            raise CorruptError(f"Cannot read {where}: {error}") from None


def arrow_file(stream: ArrowStream) -> pa.PythonFile:
    """Return a stream as a file of Arrow."""
    return pa.PythonFile(stream, mode="r")
