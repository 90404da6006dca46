"""A data file as Arrow reads it."""

from __future__ import annotations

import io

import pyarrow as pa

from acidlib.datafiles import SourceFile


class _Stream(io.RawIOBase):
    """A source file as a seekable stream, which ends at its logical length."""

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
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.length}[whence]
        self._at = start + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        rest = max(self._source.length - self._at, 0)
        size = rest if size < 0 else min(size, rest)
        data = self._source.read(self._at, size) if size else b""
        self._at += size
        return data


def arrow_file(source: SourceFile) -> pa.PythonFile:
    """Return a source as a file that Arrow's readers read, from the calling thread or others."""
    return pa.PythonFile(_Stream(source), mode="r")
