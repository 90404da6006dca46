"""A bucket as a file system to read and to remove from, the data files of its tables, and the life of one upload.

A prefix that ends in a slash is a directory as long as an object lies below it. An empty object whose key ends in a
slash is S3A's stand-in for an empty directory: it is no file. Directories have no time of modification: it is 0.

Each request costs about as much as reading a megabyte: so an object is read with few of them.

A file to publish is an upload that holds all of its bytes and is not completed. No reader sees it, not even in a
listing, and any process that knows its parts may complete it. The task returns it to the driver as a value. For a run
that dies before, an upload list beside the staging marker names the uploads to abort: not every store lists uploads,
and they cost money until they are aborted. An upload list may also name uploads that were completed.

An upload is filled by bytes that are sent, and by ranges of other objects that the store copies by itself. A part has
at least 5 MiB but for the last, at most 5 GiB, and there are at most 10,000 (Amazon S3, "multipart upload limits"). So
a range that is too small for a part of its own goes through this process, together with the bytes beside it. Parts grow
with their number, so that 10,000 suffice for any file.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from botocore.exceptions import ClientError
from cachetools import LRUCache
from msgspec.structs import replace
from tenacity import retry, retry_if_exception_type

from acidlib.datafiles import SinkFile, SourceFile
from acidlib.errors import AcidError, ConflictError, CorruptError, DefectError, RefusedError, RetryError
from acidlib.memory import DEFAULT_MEMORY, Memory
from acidlib.model.uploads import Part, StagedUpload
from acidlib.stores.filesystem import MAX_DEPTH, TOO_DEEP, Entry, FileSystem, Pace, require_few, safe_parts
from acidlib.stores.s3.client import (
    CONFLICT_PAUSES,
    CONFLICT_TRIES,
    Bucket,
    ChangedError,
    UploadGoneError,
    code_of,
    is_missing,
    seconds,
)
from acidlib.stores.store import STAGING_MARKER, STAGING_PREFIX, TaskFiles, require_inside
from acidlib.wording import plural

_REMOVED_AT_ONCE = 1000


class S3FileSystem(FileSystem):
    """The objects of one bucket, by paths `s3a://bucket/key`. It holds no connection and may be pickled."""

    __slots__ = ("_bucket",)

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def exists(self, path: str) -> bool:
        return self._file(path) is not None or self.is_directory(path)

    def is_directory(self, path: str) -> bool:
        key = self._bucket.key(path)
        with self._bucket.raising("look at", path):
            page = self._bucket.client.list_objects_v2(Bucket=self._bucket.name, Prefix=_below(key), MaxKeys=1)
        return bool(page.get("Contents")) or not key

    def entry(self, path: str, *, missing: type[AcidError] = CorruptError) -> Entry:
        name, file = path.rstrip("/").rpartition("/")[2], self._file(path)
        if file is not None:
            return _entry(name, file["ContentLength"], file["LastModified"])
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
        for page in self._pages(path, prefix, delimiter="/"):
            entries += [_directory(_relative(item["Prefix"], prefix)) for item in page.get("CommonPrefixes", [])]
            for item in page.get("Contents", []):
                is_there = True
                if name := _relative(item["Key"], prefix):
                    entries.append(_entry(name, item["Size"], item["LastModified"]))
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
            relative = item["Key"].removeprefix(prefix)
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
                entries.append(_entry(relative, item["Size"], item["LastModified"]))
        if prefix and not number:
            raise missing(f"Cannot list {path}: there is no object below it")
        entries += map(_directory, directories)
        return tuple(sorted(entries, key=lambda entry: entry.path))

    def read(self, path: str, *, missing: type[AcidError] = CorruptError) -> bytes:
        with self._bucket.raising("read", path, missing=missing):
            return self._bucket.get(path)[1]

    def remove_tree(
        self,
        root: str,
        relative: str,
        *,
        identity: str = "",  # noqa: ARG002 - there is none
        pace: Pace | None = None,
    ) -> None:
        """Remove the object of this name and all below it, a thousand at a time: readers may see a part of it go.

        RefusedError for a staging directory: its uploads would stay, or a recorded publication would end half visible.
        """
        safe_parts(root, relative)
        path = f"{root}/{relative}"
        key = self._bucket.key(path)
        keys = [item["Key"] for item in self._objects(path, _below(key))]
        if self._file(path) is not None:
            keys.append(key)
        if not keys:
            raise ConflictError(f"Cannot remove {path}: there is no such object, and none below it")
        if any(key.rpartition("/")[2] == STAGING_MARKER for key in keys):
            raise RefusedError(f"Cannot remove {path}: a run has staged files there, whose uploads have to end first")
        remove_keys(self._bucket, path, keys, pace=pace)

    def _file(self, path: str) -> Any | None:
        return self._bucket.head(path) if self._bucket.key(path) else None

    def _objects(self, path: str, prefix: str) -> Iterator[Any]:
        for page in self._pages(path, prefix):
            yield from page.get("Contents", [])  # the last page may have none

    def _pages(self, path: str, prefix: str, delimiter: str = "") -> Iterator[Any]:
        arguments: dict[str, Any] = {"Bucket": self._bucket.name, "Prefix": prefix}
        if delimiter:
            arguments["Delimiter"] = delimiter
        while True:
            with self._bucket.raising("list", path):
                page = self._bucket.client.list_objects_v2(**arguments)
            yield page
            if not page.get("IsTruncated"):
                return
            arguments["ContinuationToken"] = page["NextContinuationToken"]


def remove_keys(bucket: Bucket, path: str, keys: Iterable[str], *, pace: Pace | None = None) -> None:
    """Remove objects below `path`; RetryError names the first that the store kept, and how many it kept."""
    waiting = list(keys)
    failed: list[str] = []
    for start in range(0, len(waiting), _REMOVED_AT_ONCE):
        named: Any = [{"Key": key} for key in waiting[start : start + _REMOVED_AT_ONCE]]
        if pace is not None:
            pace(len(named))
        with bucket.raising("remove", path):
            answer = bucket.client.delete_objects(Bucket=bucket.name, Delete={"Objects": named, "Quiet": True})
        failed += [
            f"{error.get('Key')} ({error.get('Code')}: {error.get('Message', '')})"
            for error in answer.get("Errors", [])
        ]
    if failed:
        raise RetryError(
            f"Cannot remove {path}: the store kept {len(failed)} of {plural(len(waiting), 'object')}, first {failed[0]}"
        )


def _below(key: str) -> str:
    return f"{key}/" if key else ""


def _relative(key: str, prefix: str) -> str:
    return key.removeprefix(prefix).removesuffix("/")


def _directory(path: str) -> Entry:
    return Entry(path=path, is_directory=True, length=0, modified=0.0)


def _entry(path: str, length: int, modified: datetime) -> Entry:
    return Entry(path=path, is_directory=False, length=length, modified=seconds(modified))


END_BYTES = 256 << 10
"""Bytes at the end of an object that are fetched together: footers lie there, the last one is read first."""

FIRST_AHEAD, MAX_BYTES_AHEAD = 64 << 10, 4 << 20
"""Bytes that a small read fetches; they double while each read begins near the end of the one before."""

MAX_KEPT_BYTES = 64 << 20
"""Bytes that the sources of one task keep together."""

_NEAR = 64 << 10


class Windows(LRUCache["tuple[S3Source, int]", bytes]):
    """Ranges that were fetched of objects, for all sources of a task, by source and start."""

    def __init__(self) -> None:
        super().__init__(MAX_KEPT_BYTES, getsizeof=len)
        self._ends: defaultdict[S3Source, dict[int, int]] = defaultdict(dict)

    def find(self, source: S3Source, offset: int, size: int) -> bytes | None:
        """Return a range of an object, if a window holds all of it."""
        for start, end in self._ends.get(source, {}).items():
            if start <= offset and offset + size <= end:
                return self[source, start][offset - start : offset - start + size]
        return None

    def keep(self, source: S3Source, start: int, window: bytes) -> None:
        """Keep a window; those that were longest unused go above `MAX_KEPT_BYTES`."""
        self[source, start] = window
        self._ends[source][start] = start + len(window)

    def popitem(self) -> tuple[tuple[S3Source, int], bytes]:
        """Drop the window that was longest unused, and return it: called by the cache for room."""
        (source, start), window = super().popitem()
        del self._ends[source][start]
        return (source, start), window

    def forget(self, source: S3Source) -> None:
        """Drop all windows of a source."""
        for start in self._ends.pop(source, {}):
            del self[source, start]


class S3Source:
    """An object of a known logical length. All reads are of the version that the first request saw."""

    def __init__(self, bucket: Bucket, path: str, length: int, windows: Windows, memory: Memory) -> None:
        self.name = path
        self.length = length
        self.memory = memory
        self.bucket = bucket
        self.key = bucket.key(path)
        self._windows = windows
        self._version: str | None = None
        self._ahead = FIRST_AHEAD
        self._end = -1

    @property
    def version(self) -> str:
        """The ETag of the object; one request before the first read."""
        if self._version is None:
            with self.bucket.raising("read", self.name):
                head = self.bucket.client.head_object(Bucket=self.bucket.name, Key=self.key)
            self._check_size(head["ContentLength"])
            self._version = head["ETag"]
        return self._version

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes at `offset`; CorruptError when they are not all inside the logical length."""
        require_inside(self.name, self.length, offset, size)
        if not size:
            return b""
        kept = self._windows.find(self, offset, size)
        goes_on = 0 <= offset - self._end <= _NEAR
        self._end = offset + size
        if kept is not None:
            return kept
        if size >= MAX_BYTES_AHEAD:
            return self._get(offset, size)
        self._ahead = min(MAX_BYTES_AHEAD, 2 * self._ahead) if goes_on else FIRST_AHEAD
        start, end = offset, min(self.length, offset + max(size, self._ahead))
        if offset >= self.length - END_BYTES:
            start, end = max(0, self.length - END_BYTES), self.length
        window = self._get(start, end - start)
        self._windows.keep(self, start, window)
        return window[offset - start : offset - start + size]

    def close(self) -> None:
        """Drop the windows of the object."""
        self._windows.forget(self)

    def _get(self, offset: int, size: int) -> bytes:
        """Return a range by one request."""
        condition: Any = {} if self._version is None else {"IfMatch": self._version}
        try:
            with self.bucket.raising("read", self.name):
                answer, data = self.bucket.get(self.name, Range=f"bytes={offset}-{offset + size - 1}", **condition)
        except ChangedError as error:
            raise CorruptError(f"Cannot read {self.name}: another object took its place while it was read") from error
        except RetryError as error:
            if isinstance(error.__cause__, ClientError) and code_of(error.__cause__) == "InvalidRange":
                raise CorruptError(
                    f"Cannot read {self.name}: it has less than {offset + 1} bytes and was listed with {self.length}"
                ) from error
            raise
        self._check_size(int(answer["ContentRange"].rpartition("/")[2]))
        if self._version is None:
            self._version = answer["ETag"]
        if len(data) != size:
            raise CorruptError(f"Cannot read {self.name}: it has fewer bytes than it says")
        return data

    def _check_size(self, size: int) -> None:
        if size < self.length:
            raise CorruptError(f"Cannot read {self.name}: it has {size} bytes and was listed with {self.length}")


ORIGIN = "acidlib"
"""The name of an object's metadata that holds `StagedUpload.origin`."""

MIB = 1 << 20
MIN_PART_BYTES, SENT_PART_BYTES, COPIED_PART_BYTES, MAX_PARTS = 5 * MIB, 8 * MIB, 1024 * MIB, 10_000
GROWING = 1000
"""The number of parts after which their size doubles."""

_TRAVEL_AT_ONCE = 4


class Upload:
    """One upload that is being filled: `send` and `copy` in order, then `finish`. Threads of its own send the parts."""

    def __init__(self, bucket: Bucket, planned: StagedUpload) -> None:
        self.bucket = bucket
        self.path = bucket.path(planned.key)
        with bucket.raising("write", self.path):
            answer = bucket.client.create_multipart_upload(
                Bucket=bucket.name, Key=planned.key, Metadata={ORIGIN: planned.origin}, **bucket.creation_arguments
            )
        self.begun = replace(planned, upload_id=answer["UploadId"])
        self._checksum = str(answer.get("ChecksumAlgorithm", ""))
        self._waiting = bytearray()
        self._range: tuple[S3Source, int, int] | None = None  # the range to copy next: its offset and size
        self._parts: list[Future[Part]] = []
        self._threads = ThreadPoolExecutor(_TRAVEL_AT_ONCE, thread_name_prefix="acidlib-upload")

    def send(self, data: Any) -> None:
        """Append bytes."""
        self._settle_range()
        self._waiting += data
        self._send_full()

    def copy(self, source: S3Source, offset: int, size: int) -> None:
        """Append a range of another object of this bucket."""
        if not size:
            return
        if self._range is not None:
            before, start, length = self._range
            if before is source and start + length == offset:
                self._range = source, start, length + size
                return
        self._settle_range()
        self._range = source, offset, size

    def finish(self) -> StagedUpload:
        """Send the rest, wait for all parts, and return the upload; it is not completed."""
        self._settle_range()
        if self._waiting or not self._parts:
            self._send_part(bytes(self._waiting))
            self._waiting.clear()
        try:
            parts = tuple(part.result() for part in self._parts)
        finally:
            self._threads.shutdown()
        return replace(self.begun, length=sum(part.size for part in parts), parts=parts)

    def stop(self) -> None:
        """Send no more parts, and wait for those on their way: one that arrives after an abort would stay for ever."""
        self._threads.shutdown(cancel_futures=True)

    @property
    def _least(self) -> int:
        return MIN_PART_BYTES << (len(self._parts) // GROWING)

    @property
    def _full(self) -> int:
        return SENT_PART_BYTES << (len(self._parts) // GROWING)

    def _send_full(self) -> None:
        while len(self._waiting) >= self._full:
            size = self._full
            self._send_part(bytes(self._waiting[:size]))
            del self._waiting[:size]

    def _settle_range(self) -> None:
        """Copy the waiting range.

        Its first bytes go through this process as far as the part before it is below the least size, and so does a
        range too small for a part of its own. The store copies the rest, in as few requests as its limit of bytes
        allows, all of about the same size.
        """
        if self._range is None:
            return
        (source, offset, size), self._range = self._range, None
        waiting = len(self._waiting)
        # the bytes written so far may be how the source begins, up to the range: the magic bytes of a file's format.
        # Without this, a file of copied ranges would begin with a part of the least size that goes through here twice
        is_start = not self._parts and 0 < waiting < 16 and offset == waiting and waiting + size >= self._least
        if is_start and source.read(0, waiting) == self._waiting:
            offset, size = 0, offset + size
            self._waiting.clear()
        carried = max(0, self._least - len(self._waiting)) if self._waiting else 0
        if size - carried < self._least:
            carried = size
        end = offset + carried
        while offset < end:
            count = min(self._full, end - offset)
            self._waiting += source.read(offset, count)
            offset += count
            self._send_full()
        size -= carried
        if size and self._waiting:
            self._send_part(bytes(self._waiting))
            self._waiting.clear()
        requests = -(-size // COPIED_PART_BYTES)
        for piece in range(requests):
            start, end = size * piece // requests, size * (piece + 1) // requests
            self._parts.append(
                self._threads.submit(
                    self._copy_part, self._next_number(), source, source.version, offset + start, end - start
                )
            )

    def _send_part(self, data: bytes) -> None:
        number = self._next_number()
        self._parts.append(self._threads.submit(self._put_part, number, data))
        if len(self._parts) > _TRAVEL_AT_ONCE:  # memory holds no more parts than are on their way
            self._parts[-_TRAVEL_AT_ONCE - 1].result()  # raises its error, if it failed

    def _next_number(self) -> int:
        if len(self._parts) >= MAX_PARTS:
            raise RefusedError(f"Cannot write {self.path}: it would take more than {MAX_PARTS} parts")
        return len(self._parts) + 1

    def _put_part(self, number: int, data: bytes) -> Part:
        arguments: dict[str, Any] = {"ChecksumAlgorithm": self._checksum} if self._checksum else {}
        with self.bucket.raising("write", self.path, missing=UploadGoneError):
            answer = self.bucket.client.upload_part(
                Bucket=self.bucket.name, PartNumber=number, Body=data, **self.begun.named, **arguments
            )
        return Part(number=number, version=answer["ETag"], size=len(data), checksums=self._checksums(answer))

    def _copy_part(self, number: int, source: S3Source, version: str, offset: int, size: int) -> Part:
        try:
            with self.bucket.raising("copy from", source.name):
                answer = self.bucket.client.upload_part_copy(
                    **self.begun.named,
                    Bucket=self.bucket.name,
                    PartNumber=number,
                    CopySource={"Bucket": source.bucket.name, "Key": source.key},
                    CopySourceRange=f"bytes={offset}-{offset + size - 1}",
                    CopySourceIfMatch=version,
                )
        except ChangedError as error:
            raise CorruptError(
                f"Cannot copy from {source.name}: another object took its place while it was read"
            ) from error
        except UploadGoneError as error:
            raise UploadGoneError(
                f"Cannot write {self.path}: its upload is gone: another program has aborted it"
            ) from error
        copied = answer["CopyPartResult"]
        return Part(number=number, version=copied["ETag"], size=size, checksums=self._checksums(copied))

    def _checksums(self, answer: Any) -> dict[str, str]:
        """Return the checksums that the completion has to name again: those of the kind that the store asked for."""
        if not self._checksum:
            return {}
        return {name: text for name, text in answer.items() if name.startswith("Checksum") and name != "ChecksumType"}


def upload_small(bucket: Bucket, planned: StagedUpload, data: bytes) -> StagedUpload:
    """Return a small file as an upload that is ready to be completed: everything that becomes visible has to be one.

    A paused run that goes on cannot complete an upload twice; but it could write an object again that a cleaner has
    removed.
    """
    upload = Upload(bucket, planned)
    try:
        upload.send(data)
        return upload.finish()
    except BaseException:
        upload.stop()
        with suppress(AcidError):
            abort(bucket, upload.begun)  # no upload list names it yet
        raise


_AMBIGUOUS = frozenset({"InvalidPart", "InvalidRequest"})
"""Codes of a failed completion that stores also give for an upload that is gone."""


class _UndecidedError(RetryError):
    """The store called a completion a conflict, and there is no object under its name: a later try may succeed."""


@retry(retry=retry_if_exception_type(_UndecidedError), stop=CONFLICT_TRIES, wait=CONFLICT_PAUSES, reraise=True)
def complete(bucket: Bucket, upload: StagedUpload) -> bool:
    """Make an upload an object; return whether the object is there now, whichever run completed the upload.

    False when both are gone: the upload was aborted, or the object removed since. ConflictError when another object has
    the name.
    """
    path = bucket.path(upload.key)
    parts: Any = [part.as_completed() for part in upload.parts]
    try:
        bucket.client.complete_multipart_upload(
            Bucket=bucket.name, MultipartUpload={"Parts": parts}, IfNoneMatch="*", **upload.named
        )
    except Exception as error:
        origin = _origin(bucket, upload.key)
        if origin == upload.origin:
            return True
        is_gone = isinstance(error, ClientError) and (
            is_missing(error) or (code_of(error) in _AMBIGUOUS and not is_open(bucket, upload))
        )
        if is_gone:
            return False
        try:
            with bucket.raising("publish", path):
                raise
        except ChangedError:
            if origin is not None:
                raise ConflictError(f"Cannot publish {path}: it already exists") from error
            raise _UndecidedError(
                f"Cannot publish {path}: the store calls it a conflict, even after several attempts"
            ) from error
    return True


def abort(bucket: Bucket, upload: StagedUpload) -> None:
    """Abort an upload. The answer decides nothing: it may have been completed, or be gone."""
    with (
        suppress(UploadGoneError),
        bucket.raising("abort the upload of", bucket.path(upload.key), missing=UploadGoneError),
    ):
        bucket.client.abort_multipart_upload(Bucket=bucket.name, **upload.named)


def is_open(bucket: Bucket, upload: StagedUpload) -> bool:
    """Tell whether an upload can be completed; CorruptError when its parts are not those that were sent."""
    try:
        with bucket.raising("look at the upload of", bucket.path(upload.key), missing=UploadGoneError):
            pages = bucket.client.get_paginator("list_parts").paginate(Bucket=bucket.name, **upload.named)
            parts = [part for page in pages for part in page.get("Parts", [])]
    except UploadGoneError:
        return False
    stored = {part["PartNumber"]: (part["ETag"].strip('"'), part["Size"]) for part in parts}
    if stored != {part.number: (part.version.strip('"'), part.size) for part in upload.parts}:
        raise CorruptError(
            f"Cannot publish {bucket.path(upload.key)}: the parts of its upload are not those that were sent"
        )
    return True


def is_visible(bucket: Bucket, upload: StagedUpload) -> bool:
    """Tell whether the object under the final name is the one that this upload became."""
    return _origin(bucket, upload.key) == upload.origin


def _origin(bucket: Bucket, key: str) -> str | None:
    """Return the origin of an object: empty for one of another program; None without an object."""
    head = bucket.head(bucket.path(key))
    return None if head is None else head["Metadata"].get(ORIGIN, "")


UPLOAD_LIST_PREFIX = f"{STAGING_MARKER}.upload."
_IN_STAGING = re.compile(rf"(.+/{STAGING_PREFIX}[^/]+)/.+", re.DOTALL)


def upload_list_path(staging: str, upload: StagedUpload) -> str:
    """Return the path of the upload list that names one upload of a task."""
    name = f"{upload.origin}/{upload.directory}/{upload.file}".replace("/", ".")
    return f"{staging}/{UPLOAD_LIST_PREFIX}{name}"


def write_upload_list(bucket: Bucket, path: str, uploads: Iterable[StagedUpload]) -> None:
    """Write keys and ids of uploads, for whichever run removes the staging directory."""
    data = json.dumps([[upload.key, upload.upload_id] for upload in uploads]).encode()
    with bucket.raising("write", path):
        bucket.client.put_object(Bucket=bucket.name, Key=bucket.key(path), Body=data, **bucket.creation_arguments)


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
    source: S3Source | None
    offset: int


class S3Sink:
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
        self._filling = Upload(bucket, planned or StagedUpload(key=bucket.key(path), origin=""))
        self._is_completed = False
        self._upload_list = upload_list_path(staging, self._filling.begun)
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
        if not isinstance(source, S3Source) or source.bucket.options != self._bucket.options:
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
        with self._bucket.raising("write", self.name):
            parts: Any = {"Parts": [part.as_completed() for part in upload.parts]}
            self._bucket.client.complete_multipart_upload(
                Bucket=self._bucket.name, MultipartUpload=parts, **upload.named
            )
        self._is_completed = True

    def abort(self) -> None:
        """Drop the upload, or the object; where that fails it goes with the staging directory."""
        self._filling.stop()
        self.upload = None
        client, name = self._bucket.client, self._bucket.name
        with suppress(AcidError), self._bucket.raising("abort", self.name):
            if self._is_completed:
                client.delete_object(Bucket=name, Key=self._filling.begun.key)
            else:
                client.abort_multipart_upload(Bucket=name, **self._filling.begun.named)
        with suppress(AcidError), self._bucket.raising("remove", self._upload_list):
            client.delete_object(Bucket=name, Key=self._bucket.key(self._upload_list))
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

    def _append(self, source: S3Source | None, offset: int, size: int) -> None:
        last = self._segments[-1] if self._segments else None
        if last is not None and last.source is source and last.offset + last.size == offset:
            self._segments[-1] = _Segment(last.start, last.size + size, source, last.offset)
        elif size:
            self._segments.append(_Segment(self.position, size, source, offset))
        self.position += size


class _OwnSource:
    """A file of this task that no reader can see yet, read back."""

    def __init__(self, sink: S3Sink, length: int, memory: Memory) -> None:
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


class S3DataFiles(TaskFiles):
    """The data files of a bucket, for one task. It may be pickled: open files stay behind."""

    def __init__(self, bucket: Bucket, memory: Memory = DEFAULT_MEMORY) -> None:
        super().__init__(memory)
        self._bucket = bucket
        self._windows = Windows()
        self._planned: dict[str, StagedUpload] = {}
        self._sinks: dict[str, S3Sink] = {}

    def __reduce__(self) -> tuple[type[S3DataFiles], tuple[Bucket, Memory]]:
        return S3DataFiles, (self._bucket, self.memory)

    def open(self, path: str, length: int) -> SourceFile:
        """Open an input of `length` logical bytes, or a file that this task has made.

        CorruptError, when it is first read, if it is missing or shorter.
        """
        if path in self._sinks:
            return _OwnSource(self._sinks[path], length, self.memory)
        return S3Source(self._bucket, path, length, self._windows, self.memory)

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
        sink = S3Sink(self._bucket, path, planned, in_staging[1])
        if planned is not None:
            self._sinks[path] = sink
        return sink

    def upload(self, path: str) -> StagedUpload:
        """Return the upload of the file that this task has made at an `output_path`."""
        sink = self._sinks.get(path)
        if sink is None or sink.upload is None:
            raise DefectError(f"Cannot publish {path}: this task has not made it")
        return sink.upload
