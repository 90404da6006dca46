"""Local data files, read at any place and written once: what the ORC code sees of the file system."""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any

from acidlib.errors import ConflictError, CorruptError, RefusedError
from acidlib.storage.filesystem import raising_acid_errors
from acidlib.storage.staging import AttemptFiles

_COPY_AT_MOST = 1 << 30

AT_ONCE = 64 * 1024
"""Bytes that are read or written at once where less is asked for: each call costs more than so many bytes do."""

MOST_OPEN = 32
"""Input files that are open at a time. A bucket may have thousands, above what a process may open (often 1024)."""


class _OpenSources:
    """The sources that hold a descriptor, the one longest unused first; at most `MOST_OPEN` hold one at a time."""

    __slots__ = ("_sources",)

    def __init__(self) -> None:
        self._sources: OrderedDict[LocalSource, None] = OrderedDict()

    def used(self, source: LocalSource) -> None:
        """Note that a source has a descriptor and needs it now; another one may have to give its own back."""
        self._sources[source] = None
        self._sources.move_to_end(source)
        if len(self._sources) > MOST_OPEN:
            next(iter(self._sources)).release()

    def released(self, source: LocalSource) -> None:
        """Note that a source has no descriptor any more."""
        self._sources.pop(source, None)


class LocalSource:
    """An open local file of a known logical length. One of at most `AT_ONCE` bytes is read as a whole.

    Of those that share `others` only so many hold a descriptor; one that had to give it back opens the file again when
    it is read next, and it has to be the same file then.
    """

    __slots__ = ("_closed", "_descriptor", "_identity", "_others", "_whole", "length", "name")

    def __init__(self, path: str, length: int, others: _OpenSources | None = None) -> None:
        self.name = path
        self.length = length
        self._others = others if others is not None else _OpenSources()
        self._closed = False
        self._identity: tuple[int, int] | None = None
        self._descriptor = -1
        self._whole: bytes | None = None
        self._open()

    def _open(self) -> None:
        path, length = self.name, self.length
        with raising_acid_errors("read", path):
            # without blocking: a pipe would wait for its writer
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            status = os.fstat(self._descriptor)
        found = status.st_dev, status.st_ino
        if not stat.S_ISREG(status.st_mode) or status.st_size < length or self._identity not in (None, found):
            self.release()
            if self._identity not in (None, found):
                raise CorruptError(f"Cannot read {path}: because another file took its place while it was read")
            if not stat.S_ISREG(status.st_mode):
                raise RefusedError(f"Cannot read {path}: because it is not a regular file")
            raise CorruptError(
                f"Cannot read {path}: because it has {status.st_size} bytes and was listed with {length}"
            )
        self._identity = found
        self._others.used(self)

    @property
    def descriptor(self) -> int:
        """A descriptor for copies inside the kernel, good until another source is used."""
        if self._closed:
            raise ValueError(f"{self.name} is closed")
        if self._descriptor < 0:
            self._open()
        else:
            self._others.used(self)
        return self._descriptor

    def read(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes at `offset`; CorruptError when they are not all inside the logical length."""
        if offset < 0 or size < 0 or offset + size > self.length:
            raise CorruptError(f"Cannot read {self.name}: because bytes {offset} to {offset + size} are outside it")
        if self.length > AT_ONCE:
            return self._read(offset, size)
        if self._whole is None:
            self._whole = self._read(0, self.length)
        return self._whole[offset : offset + size]

    def _read(self, offset: int, size: int) -> bytes:
        descriptor = self.descriptor
        with raising_acid_errors("read", self.name):
            data = os.pread(descriptor, size, offset)
            while len(data) < size:
                more = os.pread(descriptor, size - len(data), offset + len(data))
                if not more:
                    raise CorruptError(f"Cannot read {self.name}: because it became shorter while it was read")
                data += more
        return data

    def release(self) -> None:
        """Give the descriptor back until the next read, and what was read."""
        self._whole = None
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._others.released(self)
            os.close(descriptor)

    def close(self) -> None:
        """Close for good; a second call does nothing."""
        self._closed = True
        self.release()


class LocalSink:
    """A new local file, written from start to end, of what is small `AT_ONCE` bytes at a time."""

    __slots__ = ("_descriptor", "_waiting", "name", "position")

    def __init__(self, path: str) -> None:
        self.name = path
        self.position = 0
        self._waiting = bytearray()
        with raising_acid_errors("write", path, missing=ConflictError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(path, flags, 0o666)

    def write(self, data: Any) -> None:
        """Append all bytes of a buffer."""
        view = memoryview(data).cast("B")
        self.position += len(view)
        if len(self._waiting) + len(view) <= AT_ONCE:
            self._waiting += view
            return
        self._write_waiting()
        self._write(view)

    def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, bytearray()
        self._write(memoryview(waiting))

    def _write(self, view: memoryview) -> None:
        with raising_acid_errors("write", self.name):
            while view:
                view = view[os.write(self._descriptor, view) :]

    def copy(self, source: Any, offset: int, size: int) -> None:
        """Append a range of another local file, inside the kernel where it can do that."""
        if not isinstance(source, LocalSource):
            self.write(source.read(offset, size))
            return
        if offset < 0 or size < 0 or offset + size > source.length:
            raise CorruptError(
                f"Cannot copy from {source.name}: because bytes {offset} to {offset + size} are outside it"
            )
        self._write_waiting()
        with raising_acid_errors("write", self.name):
            while size:
                count = min(size, _COPY_AT_MOST)
                copied = _copy_range(source.descriptor, self._descriptor, count, offset)
                if copied == 0:
                    raise CorruptError(f"Cannot copy from {source.name}: because it became shorter while it was read")
                self.position += copied
                offset += copied
                size -= copied

    def close(self, *, durable: bool = True) -> None:
        """Make the bytes durable, if that is wanted, and close."""
        self._write_waiting()
        with raising_acid_errors("write", self.name):
            if durable:
                os.fsync(self._descriptor)
            # closed even where closing fails: the number may be another file's by then
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def abort(self) -> None:
        """Close, if it is open, and remove the file; where that fails it goes with the staging directory."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with suppress(OSError):
                os.close(descriptor)
        with suppress(OSError):
            Path(self.name).unlink(missing_ok=True)


def _copy_range(source: int, target: int, count: int, offset: int) -> int:
    try:
        return os.copy_file_range(source, target, count, offset)
    except OSError:
        # not between these two file systems: a plain copy raises again whatever is really wrong
        data = os.pread(source, min(count, 1 << 22), offset)
        return os.write(target, data)


class LocalDataFiles(AttemptFiles):
    """Opens and creates local data files, for one task. It may be pickled: what is open stays behind."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open = _OpenSources()

    def __reduce__(self) -> tuple[type[LocalDataFiles], tuple[()]]:
        return LocalDataFiles, ()

    def open(self, path: str, length: int) -> LocalSource:
        """An input of `length` logical bytes; CorruptError when it is missing or shorter."""
        return LocalSource(path, length, self._open)

    def create(self, path: str) -> LocalSink:
        """A new file; its directory has to be there: an attempt that outlived its run must not bring staging back."""
        return LocalSink(path)
