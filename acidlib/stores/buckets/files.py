"""A bucket as a file system to read and to remove from, the data files of its tables, and files that are being made.

A prefix that ends in a slash is a directory as long as an object lies below it. An empty object whose key ends in a
slash is a stand-in for an empty directory: it is no file. Directories have no time of modification: it is 0.

Each request costs about as much as reading a megabyte: so an object is read with few of them.

A task returns an upload to the driver as a value. For a run that dies before, an upload list beside the staging marker
names the uploads to abort, where these do not lie in the staging directory: not every store lists uploads, and they
cost money until they are aborted. An upload list may also name uploads that were completed.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from cachetools import LRUCache

from acidlib.datafiles import SinkFile, SourceFile
from acidlib.errors import AcidError, ConflictError, CorruptError, DefectError, RefusedError
from acidlib.memory import DEFAULT_MEMORY, Memory
from acidlib.model.uploads import StagedUpload
from acidlib.stores.buckets.bucket import Bucket, ChangedError, StoredObject
from acidlib.stores.filesystem import MAX_DEPTH, TOO_DEEP, Entry, FileSystem, Pace, require_few, safe_parts
from acidlib.stores.reading import END_BYTES, MAX_BYTES_AHEAD, AheadSource
from acidlib.stores.store import STAGING_MARKER, STAGING_PREFIX, TaskFiles, require_inside


class BucketFileSystem(FileSystem):
    """The objects of one bucket, by whole URIs. It holds no connection and may be pickled."""

    __slots__ = ("_bucket",)

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def exists(self, path: str) -> bool:
        return self.is_directory(path) or self._file(path) is not None  # most paths that are looked for are directories

    def is_directory(self, path: str) -> bool:
        key = self._bucket.key(path)
        if not key:
            return True
        return any(page.objects for page in self._bucket.pages(path, _below(key), at_most=1))

    def entry(self, path: str, *, missing: type[AcidError] = CorruptError) -> Entry:
        name, file = path.rstrip("/").rpartition("/")[2], self._file(path)
        if file is not None:
            return _entry(name, file)
        if self.is_directory(path):
            return _directory(name)
        raise missing(f"Cannot look at {path}: there is no such object, and none below it")

    def names_changed(self, path: str, *, missing: type[AcidError] = CorruptError) -> float:
        """Return 0: a bucket keeps no times of directories."""
        del path, missing
        return 0.0

    def owner(self, path: str) -> str | None:
        """Return None: the owner of an object is an account."""
        del path
        return None

    def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
        prefix = _below(self._bucket.key(path))
        entries: list[Entry] = []
        is_there = not prefix
        for page in self._bucket.pages(path, prefix, delimiter="/"):
            entries += [_directory(_relative(below, prefix)) for below in page.prefixes]
            for item in page.objects:
                is_there = True
                if name := _relative(item.key, prefix):
                    entries.append(_entry(name, item))
            require_few(path, len(entries))
        if not (is_there or entries):
            raise missing(f"Cannot list {path}: there is no object below it")
        return tuple(sorted(entries, key=lambda entry: entry.path))

    def list_tree(self, path: str, *, enter_hidden: bool, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
        prefix = _below(self._bucket.key(path))
        directories: set[str] = set()
        entries: list[Entry] = []
        number = 0
        for number, item in enumerate(self._objects(path, prefix), 1):
            # those below hidden directories count, too: they have to be listed
            require_few(path, number + len(directories))
            relative = item.key.removeprefix(prefix)
            *parents, name = relative.split("/")
            above, is_entered = "", True
            for parent in parents:
                above = f"{above}/{parent}" if above else parent
                directories.add(above)
                if not enter_hidden and parent.startswith(("_", ".")):
                    is_entered = False
                    break
            if is_entered and len(parents) > MAX_DEPTH:
                raise RefusedError(f"Cannot list {path}: {TOO_DEEP}")
            if is_entered and "" in parents:
                raise RefusedError(
                    f"Cannot list {path}: {relative!r} has a directory without a name, which no reader finds"
                )
            if name and is_entered:  # without a name it is the stand-in for an empty directory
                entries.append(_entry(relative, item))
        if prefix and not number:
            raise missing(f"Cannot list {path}: there is no object below it")
        entries += map(_directory, directories)
        return tuple(sorted(entries, key=lambda entry: entry.path))

    def tree_at_once(self, path: str) -> tuple[Entry, ...] | None:
        try:
            return self.list_tree(path, enter_hidden=True, missing=ConflictError)
        except ConflictError:
            return None

    def read(self, path: str, *, missing: type[AcidError] = CorruptError) -> bytes:
        return self._bucket.read(path, missing=missing)

    def remove_tree(
        self,
        root: str,
        relative: str,
        *,
        identity: str = "",  # noqa: ARG002 - there is none
        pace: Pace | None = None,
    ) -> None:
        """Remove all objects below this name, else that of this name, some at a time: readers may see a part of it go.

        RefusedError for a staging directory: its uploads would stay, or a recorded publication would end half visible.
        """
        safe_parts(root, relative)
        path = f"{root}/{relative}"
        objects = {item.key: item.version for item in self._objects(path, _below(self._bucket.key(path)))}
        if not objects and (file := self._file(path)) is not None:
            objects[file.key] = file.version
        if not objects:
            raise ConflictError(f"Cannot remove {path}: there is no such object, and none below it")
        if any(key.rpartition("/")[2] == STAGING_MARKER for key in objects):
            raise RefusedError(f"Cannot remove {path}: a run has staged files there, whose uploads have to end first")
        self._bucket.remove(path, objects, pace=pace)

    def _file(self, path: str) -> StoredObject | None:
        return self._bucket.look(path) if self._bucket.key(path) else None

    def _objects(self, path: str, prefix: str) -> Iterator[StoredObject]:
        for page in self._bucket.pages(path, prefix):
            yield from page.objects


def _below(key: str) -> str:
    return f"{key}/" if key else ""


def _relative(key: str, prefix: str) -> str:
    return key.removeprefix(prefix).removesuffix("/")


def _directory(path: str) -> Entry:
    return Entry(path=path, is_directory=True, length=0, modified=0.0)


def _entry(path: str, item: StoredObject) -> Entry:
    return Entry(path=path, is_directory=False, length=item.length, modified=item.modified)


MAX_KEPT_BYTES = 64 << 20
"""Bytes that the sources of one task keep together."""


class Windows(LRUCache["tuple[BucketSource, int]", bytes]):
    """Ranges that were fetched of objects, for all sources of a task, by source and start."""

    def __init__(self) -> None:
        super().__init__(MAX_KEPT_BYTES, getsizeof=len)
        self._ends: defaultdict[BucketSource, dict[int, int]] = defaultdict(dict)

    def find(self, source: BucketSource, offset: int, size: int) -> bytes | None:
        """Return a range of an object, if a window holds all of it."""
        for start, end in self._ends.get(source, {}).items():
            if start <= offset and offset + size <= end:
                return self[source, start][offset - start : offset - start + size]
        return None

    def keep(self, source: BucketSource, start: int, window: bytes) -> None:
        """Keep a window; those that were longest unused go above `MAX_KEPT_BYTES`."""
        self[source, start] = window
        self._ends[source][start] = start + len(window)

    def popitem(self) -> tuple[tuple[BucketSource, int], bytes]:
        """Drop the window that was longest unused, and return it: called by the cache for room."""
        (source, start), window = super().popitem()
        del self._ends[source][start]
        return (source, start), window

    def forget(self, source: BucketSource) -> None:
        """Drop all windows of a source."""
        for start in self._ends.pop(source, {}):
            del self[source, start]


class BucketSource(AheadSource):
    """An object of a known logical length. All reads are of the version that the first request saw."""

    def __init__(self, bucket: Bucket, path: str, length: int, windows: Windows, memory: Memory) -> None:
        super().__init__(path, length, memory, most_ahead=MAX_BYTES_AHEAD, end_bytes=END_BYTES)
        self.bucket = bucket
        self._windows = windows
        self._version: str | None = None
        self._total = 0

    @property
    def version(self) -> str:
        """The version of the object; one request before the first read."""
        if self._version is None:
            stored = self.bucket.look(self.name)
            if stored is None:
                raise CorruptError(f"Cannot read {self.name}: there is no such object")
            self._saw(stored.version, stored.length)
        assert self._version is not None
        return self._version

    @property
    def total(self) -> int:
        """The length of the whole object, which is more than its logical length where it is still being written."""
        assert self.version
        return self._total

    def close(self) -> None:
        """Drop the windows of the object. Ranges that a sink has to copy yet can be read all the same."""
        self._windows.forget(self)

    def _found(self, offset: int, size: int) -> bytes | None:
        return self._windows.find(self, offset, size)

    def _keep(self, start: int, window: bytes) -> None:
        self._windows.keep(self, start, window)

    def _fetched(self, offset: int, size: int) -> bytes:
        try:
            answer = self.bucket.read_range(self.name, offset, size, self._version)
        except ChangedError as error:
            raise CorruptError(f"Cannot read {self.name}: another object took its place while it was read") from error
        if answer is None:
            raise CorruptError(
                f"Cannot read {self.name}: it has less than {offset + 1} bytes and was listed with {self.length}"
            )
        self._saw(answer.version, answer.total)
        if len(answer.data) != size:
            raise CorruptError(f"Cannot read {self.name}: it has fewer bytes than it says")
        return answer.data

    def _saw(self, version: str, total: int) -> None:
        self._require_length(total)
        if self._version is None:
            self._version, self._total = version, total


def upload_small(bucket: Bucket, planned: StagedUpload, data: bytes, hidden: str) -> StagedUpload:
    """Return a small file as an upload that is ready to be completed: everything that becomes visible has to be one.

    A paused run that goes on cannot complete an upload twice; but it could write an object again that a cleaner has
    removed. `hidden` is as for `Bucket.begin`.
    """
    upload = bucket.begin(planned, hidden)
    try:
        upload.send(data)
        return upload.finish()
    except BaseException:
        upload.stop()
        with suppress(AcidError):
            bucket.abort(upload.begun)  # no upload list names it yet
        raise


UPLOAD_LIST_PREFIX = f"{STAGING_MARKER}.upload."
_IN_STAGING = re.compile(rf"(.+/{STAGING_PREFIX}[^/]+)/.+", re.DOTALL)


def upload_list_path(staging: str, upload: StagedUpload) -> str:
    """Return a hidden path for one upload of a task: of the list that names it, or of what it consists of."""
    name = f"{upload.origin}/{upload.directory}/{upload.file}".replace("/", ".")
    return f"{staging}/{UPLOAD_LIST_PREFIX}{name}"


def write_upload_list(bucket: Bucket, path: str, uploads: Iterable[StagedUpload]) -> None:
    """Write keys and ids of uploads, for whichever run removes the staging directory; where that needs to know them."""
    if not bucket.is_listed:
        bucket.put(path, json.dumps([[upload.key, upload.upload_id] for upload in uploads]).encode())


IN_MEMORY = 32 << 20
"""Bytes written to a file that are kept in memory until it is proved; more go to a temporary file."""

_READ_AT_ONCE = 8 << 20


@dataclass(frozen=True, slots=True)
class _Segment:
    """A range of a file that is being made: where it begins, and where its bytes are.

    `source` is the object that they were copied from; None for written bytes, which are in the spool.
    """

    start: int
    size: int
    source: BucketSource | None
    offset: int


class BucketSink:
    """A file that is being made as an upload, and its contents so far.

    Closing completes nothing if it is to be published: the driver completes `upload`.
    """

    def __init__(self, bucket: Bucket, path: str, planned: StagedUpload | None, staging: str) -> None:
        """Begin the `planned` upload; without one, that of a hidden object at the path."""
        self.name = path
        self.position = 0
        self.upload: StagedUpload | None = None
        self._bucket = bucket
        self._is_planned = planned is not None
        self._segments: list[_Segment] = []
        self._spool: IO[bytes] = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 it lasts as long as the sink
        upload = planned or StagedUpload(key=bucket.key(path), origin="")
        self._upload_list = upload_list_path(staging, upload)
        self._filling = bucket.begin(upload, self._upload_list)
        self._is_completed = False
        try:
            write_upload_list(bucket, self._upload_list, [self._filling.begun])
        except BaseException:
            self.abort()
            raise

    def write(self, data: Any) -> None:
        """Append all bytes of a buffer."""
        view = memoryview(data).cast("B")
        offset = self._spool.seek(0, 2)
        self._spool.write(view)
        self._append(None, offset, len(view))
        self._filling.send(view)

    def copy(self, source: Any, offset: int, size: int) -> None:
        """Append a range of another file; the store copies it where it can."""
        if not isinstance(source, BucketSource) or source.bucket.options != self._bucket.options:
            for start in range(offset, offset + size, _READ_AT_ONCE):
                self.write(source.read(start, min(_READ_AT_ONCE, offset + size - start)))
            return
        require_inside(source.name, source.length, offset, size)
        self._append(source, offset, size)
        self._filling.copy(source, offset, size)

    def close(self, *, durable: bool = True) -> None:
        """Send the rest. A file that is not to be published is completed and becomes an object."""
        del durable  # an upload always is
        if self.upload is not None or self._is_completed:
            return
        upload = self._filling.finish()
        if upload.length != self.position:
            raise DefectError(f"Cannot write {self.name}: {upload.length} of {self.position} bytes were sent")
        if self._is_planned:
            self.upload = upload
            return
        self._bucket.complete_hidden(upload)
        self._is_completed = True

    def abort(self) -> None:
        """Drop the upload, or the object; where that fails it goes with the staging directory."""
        self._filling.stop()
        self.upload = None
        with suppress(AcidError):
            if self._is_completed:
                self._bucket.remove(self.name, {self._filling.begun.key: ""})
            else:
                self._bucket.abort(self._filling.begun)
        if not self._bucket.is_listed:
            with suppress(AcidError):
                self._bucket.remove(self._upload_list, {self._bucket.key(self._upload_list): ""})
        self._spool.close()

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes that were appended, before any reader can see them."""
        require_inside(self.name, self.position, offset, size)
        data = bytearray()
        number = bisect_right(self._segments, offset, key=lambda segment: segment.start) - 1
        while len(data) < size:
            segment = self._segments[number]
            inside = offset + len(data) - segment.start
            count = min(size - len(data), segment.size - inside)
            if segment.source is not None:
                data += segment.source.read(segment.offset + inside, count)
            else:
                self._spool.seek(segment.offset + inside)
                data += self._spool.read(count)
            number += 1
        return bytes(data)

    def _append(self, source: BucketSource | None, offset: int, size: int) -> None:
        last = self._segments[-1] if self._segments else None
        if last is not None and last.source is source and last.offset + last.size == offset:
            self._segments[-1] = _Segment(last.start, last.size + size, source, last.offset)
        elif size:
            self._segments.append(_Segment(self.position, size, source, offset))
        self.position += size


class _OwnSource:
    """A file of this task that no reader can see yet, read back."""

    def __init__(self, sink: BucketSink, length: int, memory: Memory) -> None:
        if length > sink.position:
            raise CorruptError(f"Cannot read {sink.name}: it has {sink.position} bytes, not {length}")
        self.name = sink.name
        self.length = length
        self.memory = memory
        self._sink = sink

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes at `offset`; CorruptError when they are not all inside the logical length."""
        require_inside(self.name, self.length, offset, size)
        return self._sink.read(offset, size)

    def close(self) -> None:
        """Do nothing: it holds nothing."""


class BucketDataFiles(TaskFiles):
    """The data files of a bucket, for one task. It may be pickled: open files stay behind."""

    def __init__(self, bucket: Bucket, memory: Memory = DEFAULT_MEMORY) -> None:
        super().__init__(memory)
        self._bucket = bucket
        self._windows = Windows()
        self._planned: dict[str, StagedUpload] = {}
        self._sinks: dict[str, BucketSink] = {}

    def __reduce__(self) -> tuple[type[BucketDataFiles], tuple[Bucket, Memory]]:
        return BucketDataFiles, (self._bucket, self.memory)

    def open(self, path: str, length: int) -> SourceFile:
        """Open an input of `length` logical bytes, or a file that this task has made.

        CorruptError, when it is first read, if it is missing or shorter.
        """
        if path in self._sinks:
            return _OwnSource(self._sinks[path], length, self.memory)
        return BucketSource(self._bucket, path, length, self._windows, self.memory)

    def output_path(self, staging: str, directory: str, file: str, attempt: str) -> str:
        """Return a path by which this task creates and reads the file; there is no object of that name."""
        path = super().output_path(staging, directory, file, attempt)
        location, _, name = staging.rpartition("/")
        self._planned[path] = StagedUpload(
            key=self._bucket.key(f"{location}/{directory}/{file}"),
            origin=f"{name.removeprefix(STAGING_PREFIX)}/{attempt}",
        )
        return path

    def create(self, path: str) -> SinkFile:
        """Create the file of an `output_path`, or else a hidden object in a staging directory.

        RefusedError for any other path: files become visible by publication alone.
        """
        if (in_staging := _IN_STAGING.fullmatch(path)) is None:
            raise RefusedError(f"Cannot write {path}: readers would see it at once")
        planned = self._planned.get(path)
        sink = BucketSink(self._bucket, path, planned, in_staging[1])
        if planned is not None:
            self._sinks[path] = sink
        return sink

    def upload(self, path: str) -> StagedUpload:
        """Return the upload of the file that this task has made at an `output_path`."""
        sink = self._sinks.get(path)
        if sink is None or sink.upload is None:
            raise DefectError(f"Cannot publish {path}: this task has not made it")
        return sink.upload
