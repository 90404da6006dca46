"""Data files on HDFS, read at any place and written once: what the ORC code sees of the store."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from acidlib.errors import ConflictError, CorruptError, RetryError
from acidlib.orc.source import ByteSource
from acidlib.storage.hdfs.client import Configuration, answered, client, frozen, write_options
from acidlib.storage.hdfs.errors import raising_acid_errors, refuse_unfinished
from acidlib.storage.hdfs.names import NameSpace
from acidlib.storage.staging import AttemptFiles

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader, FileStatus
    from hdfs_native._internal import RawFileWriter

_PIECE = 4 << 20
"""Bytes that are read and written at a time; while one is written the next is read."""


class HdfsSource:
    """A file of a known logical length. It holds where its blocks are and no connection."""

    __slots__ = ("_configuration", "_modified", "_names", "_path", "_reader", "length", "name")

    def __init__(self, names: NameSpace, configuration: Configuration, path: str, length: int) -> None:
        self.name = path
        self.length = length
        self._names = names
        self._configuration = configuration
        self._path = names.inside(path)
        self._modified: int | None = None
        self._reader: FileReader | None = None
        self._open()

    def read(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes at `offset`; CorruptError when they are not all inside the logical length."""
        # hdfs-native panics beyond the end, which no handler of errors would see
        if offset < 0 or size < 0 or offset + size > self.length:
            raise CorruptError(f"Cannot read {self.name}: because bytes {offset} to {offset + size} are outside it")
        try:
            data = self._opened().read_range(offset, size)
        except (OSError, RuntimeError):
            # its blocks may lie elsewhere by now: a data node was lost, or they were balanced
            self._open()
            with raising_acid_errors("read", self.name):
                data = self._opened().read_range(offset, size)
        if len(data) != size:
            raise RetryError(f"Cannot read {self.name}: because {len(data)} of {size} bytes at {offset} came")
        return data

    def close(self) -> None:
        """Close for good; a second call does nothing."""
        self._reader = None

    def _looked_up(self) -> tuple[FileStatus, FileReader]:
        connected = client(self._names.authority, self._configuration)
        return connected.get_file_info(self._path), connected.read(self._path)

    def _opened(self) -> FileReader:
        if self._reader is None:
            raise ValueError(f"{self.name} is closed")
        return self._reader

    def _open(self) -> None:
        with raising_acid_errors("read", self.name):
            status, self._reader = answered(self._names.authority, self._configuration, self._looked_up)
        if self._modified not in (None, status.modification_time):
            raise CorruptError(f"Cannot read {self.name}: because another file took its place while it was read")
        if status.length < self.length:
            raise CorruptError(
                f"Cannot read {self.name}: because it has {status.length} bytes and was listed with {self.length}"
            )
        refuse_unfinished(self.name, self.length, len(self._reader))
        self._modified = status.modification_time


class HdfsSink:
    """A new file, written from start to end.

    After a failure it cannot be closed any more: hdfs-native would then call a file finished that lacks bytes.
    """

    __slots__ = ("_client", "_file", "_path", "name", "position")

    def __init__(self, names: NameSpace, configuration: Configuration, path: str) -> None:
        self.name = path
        self.position = 0
        self._path = names.inside(path)
        with raising_acid_errors("write", path, missing=ConflictError):
            self._client: Client = client(names.authority, configuration)
            # not the class around it, which finishes the file when it is collected as garbage
            self._file: RawFileWriter | None = self._client.inner.create(self._path, write_options(configuration))

    def write(self, data: Any) -> None:
        """Append all bytes of a buffer."""
        # hdfs-native takes bytes as they are, and any other buffer byte by byte
        piece = data if isinstance(data, bytes) else bytes(memoryview(data).cast("B"))
        file = self._opened()
        try:
            with raising_acid_errors("write", self.name, missing=ConflictError):
                file.write(piece)
        except BaseException:
            self._file = None
            raise
        self.position += len(piece)

    def copy(self, source: ByteSource, offset: int, size: int) -> None:
        """Append a range of another file, through this process: HDFS copies nothing by itself."""
        if size <= _PIECE:
            self.write(source.read(offset, size))
            return
        end = offset + size
        starts = range(offset, end, _PIECE)
        with ThreadPoolExecutor(1, "acidlib-read") as reading:
            coming = reading.submit(source.read, offset, _PIECE)
            for start in starts[1:]:
                data = coming.result()
                coming = reading.submit(source.read, start, min(_PIECE, end - start))
                self.write(data)
            self.write(coming.result())

    def close(self, *, durable: bool = True) -> None:  # noqa: ARG002 - there is no other way
        """Hand over what is left, wait until all data nodes of the last block have it, and finish the file.

        `durable` changes nothing: see what HDFS promises (`acidlib.storage.hdfs`).
        """
        file, self._file = self._opened(), None
        with raising_acid_errors("write", self.name, missing=ConflictError):
            file.close()

    def abort(self) -> None:
        """Remove the file; where that fails it goes with the staging directory."""
        self._file = None
        with suppress(OSError, RuntimeError):
            self._client.delete(self._path, recursive=False)

    def _opened(self) -> RawFileWriter:
        if self._file is None:
            raise ValueError(f"{self.name} is closed, or could not be written")
        return self._file


class HdfsDataFiles(AttemptFiles):
    """Opens and creates data files of one name node or name service, for one task. It may be pickled."""

    __slots__ = ("_configuration", "_names")

    def __init__(self, authority: str, configuration: Mapping[str, str]) -> None:
        """All as those of `HdfsFileSystem`. Opens no connection."""
        self._names = NameSpace(authority)
        self._configuration = frozen(configuration)

    def open(self, path: str, length: int) -> HdfsSource:
        """An input of `length` logical bytes; CorruptError when it is missing or shorter."""
        return HdfsSource(self._names, self._configuration, path, length)

    def create(self, path: str) -> HdfsSink:
        """A new file; its directory has to be there: an attempt that outlived its run must not bring staging back."""
        return HdfsSink(self._names, self._configuration, path)
