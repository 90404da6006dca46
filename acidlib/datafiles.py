"""Interfaces of data files, by which ORC and Parquet need to know no file system."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from acidlib.memory import Memory


class SourceFile(Protocol):
    """An open file that can be read at any place. `length` is its logical length in bytes, at most its size."""

    @property
    def name(self) -> str:
        """The path, for messages."""

    @property
    def length(self) -> int:
        """Logical length in bytes."""

    @property
    def memory(self) -> Memory:
        """What is decoded of it may take so much memory."""

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes at `offset`; CorruptError when the file ends before them."""

    def close(self) -> None:
        """Release descriptors and memory of the open file."""


class SinkFile(Protocol):
    """A file that is written from its start to its end. Its bytes are durable once it is closed."""

    @property
    def name(self) -> str:
        """The path, for messages."""

    @property
    def position(self) -> int:
        """Bytes written so far."""

    def write(self, data: Any) -> None:
        """Append the bytes of a buffer; RetryError when they cannot be written."""

    def copy(self, source: SourceFile, offset: int, size: int) -> None:
        """Append a range of another file as it is."""

    def close(self, *, durable: bool = True) -> None:
        """Close the file, and with `durable` make it outlast a loss of power; RetryError when that fails."""

    def abort(self) -> None:
        """Drop the file, closed or not; raise nothing."""


class DataFiles(Protocol):
    """The data files of a table, opened by path."""

    def open(self, path: str, length: int) -> SourceFile:
        """Open a file of `length` logical bytes; CorruptError when it is missing or shorter."""

    def create(self, path: str) -> SinkFile:
        """Create a file, which must not exist, in a directory that must."""


class RangeCopier:
    """Appends ranges of files to a sink; adjacent ranges are copied together."""

    def __init__(self, sink: SinkFile) -> None:
        self._sink = sink
        self._source: SourceFile | None = None
        self._start = self._end = 0

    def place(self, source: SourceFile, start: int, size: int) -> int:
        """Append a range, and return its position in the sink."""
        if source is not self._source or start != self._end:
            self.flush()
            self._source, self._start, self._end = source, start, start
        position = self._sink.position + self._end - self._start
        self._end += size
        return position

    def flush(self) -> None:
        """Copy the waiting range."""
        if self._source is not None and self._start < self._end:
            self._sink.copy(self._source, self._start, self._end - self._start)
        self._start = self._end


def kept_range(kept: Iterable[tuple[int, bytes]], offset: int, size: int) -> bytes | None:
    """Return the bytes of a range out of those that are kept of a file, each with its offset; None if none has all."""
    for start, data in kept:
        if start <= offset and offset + size <= start + len(data):
            return data[offset - start : offset - start + size]
    return None
