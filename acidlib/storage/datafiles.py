"""Local data files, read at any place and written once: what the ORC code sees of the file system."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from acidlib.errors import ConflictError, CorruptError, RefusedError
from acidlib.storage.oserrors import told_as_acid_error

_COPY_AT_MOST = 1 << 30


class LocalSource:
    """An open local file of a known logical length."""

    __slots__ = ("_descriptor", "length", "name")

    def __init__(self, path: str, length: int) -> None:
        self.name = path
        self.length = length
        with told_as_acid_error("read", path):
            # without blocking: a pipe would wait for its writer
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size < length:
            self.close()
            if not stat.S_ISREG(status.st_mode):
                raise RefusedError(f"Cannot read {path}: because it is not a regular file")
            raise CorruptError(
                f"Cannot read {path}: because it has {status.st_size} bytes and was listed with {length}"
            )

    @property
    def descriptor(self) -> int:
        """The open descriptor, for copies inside the kernel."""
        return self._descriptor

    def read(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes at `offset`; CorruptError when they are not all inside the logical length."""
        if offset < 0 or size < 0 or offset + size > self.length:
            raise CorruptError(f"Cannot read {self.name}: because bytes {offset} to {offset + size} are outside it")
        with told_as_acid_error("read", self.name):
            data = os.pread(self._descriptor, size, offset)
            while len(data) < size:
                more = os.pread(self._descriptor, size - len(data), offset + len(data))
                if not more:
                    raise CorruptError(f"Cannot read {self.name}: because it became shorter while it was read")
                data += more
        return data

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class LocalSink:
    """A new local file, written from start to end."""

    __slots__ = ("_descriptor", "name", "position")

    def __init__(self, path: str) -> None:
        self.name = path
        self.position = 0
        with told_as_acid_error("write", path, missing=ConflictError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(path, flags, 0o666)

    def write(self, data: Any) -> None:
        """Append all bytes of a buffer."""
        view = memoryview(data).cast("B")
        with told_as_acid_error("write", self.name):
            while view:
                written = os.write(self._descriptor, view)
                self.position += written
                view = view[written:]

    def copy(self, source: Any, offset: int, size: int) -> None:
        """Append a range of another local file, inside the kernel where it can do that."""
        if not isinstance(source, LocalSource):
            self.write(source.read(offset, size))
            return
        if offset < 0 or size < 0 or offset + size > source.length:
            raise CorruptError(
                f"Cannot copy from {source.name}: because bytes {offset} to {offset + size} are outside it"
            )
        with told_as_acid_error("write", self.name):
            while size:
                count = min(size, _COPY_AT_MOST)
                copied = _copy_range(source.descriptor, self._descriptor, count, offset)
                if copied == 0:
                    raise CorruptError(f"Cannot copy from {source.name}: because it became shorter while it was read")
                self.position += copied
                offset += copied
                size -= copied

    def close(self) -> None:
        """Make the bytes durable and close."""
        with told_as_acid_error("write", self.name):
            os.fsync(self._descriptor)
            # closed even where closing fails: the number may be another file's by then
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def abort(self) -> None:
        """Close, if it is open, and remove the file; what fails of that is left to whoever clears the directory."""
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


class LocalDataFiles:
    """Opens and creates local data files. It holds no state and may be pickled."""

    __slots__ = ()

    def open(self, path: str, length: int) -> LocalSource:
        """An input of `length` logical bytes; CorruptError when it is missing or shorter."""
        return LocalSource(path, length)

    def create(self, path: str) -> LocalSink:
        """A new file; its directory has to be there: an attempt that outlived its run must not bring staging back."""
        return LocalSink(path)
