"""Files as the ORC and Parquet code sees them: small interfaces, so that it knows of no file system."""

from __future__ import annotations

from typing import Any, Protocol


class ByteSource(Protocol):
    """A file that can be read at any place. `length` is its logical length in bytes, which may be below its size."""

    @property
    def name(self) -> str:
        """The path, for messages."""

    @property
    def length(self) -> int:
        """Logical length in bytes."""

    def read(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes at `offset`; CorruptError when the file ends before them."""


class ByteSink(Protocol):
    """A file that is written from its start to its end."""

    @property
    def name(self) -> str:
        """The path, for messages."""

    @property
    def position(self) -> int:
        """Bytes written so far."""

    def write(self, data: Any) -> None:
        """Append the bytes of a buffer; RetryError when they cannot be written."""

    def copy(self, source: ByteSource, offset: int, size: int) -> None:
        """Append a range of another file as it is."""


class SourceFile(ByteSource, Protocol):
    """A source that has to be closed."""

    def close(self) -> None:
        """Release what the open file holds."""


class SinkFile(ByteSink, Protocol):
    """A sink that has to be closed; only then are its bytes durable."""

    def close(self, *, durable: bool = True) -> None:
        """Make everything durable, unless it is not needed after a loss of power; RetryError when that fails."""

    def abort(self) -> None:
        """Drop the file, closed or not; never raises."""


class DataFiles(Protocol):
    """Opens the data files of a table by path."""

    def open(self, path: str, length: int) -> SourceFile:
        """A file of `length` logical bytes; CorruptError when it is missing or shorter."""

    def create(self, path: str) -> SinkFile:
        """A new file, which must not exist, in a directory that must."""
