"""A bucket as a file system to read and to remove from, and the data files of tables in it.

A prefix that ends in a slash is a directory as long as anything lies below it. An empty object whose key ends in a
slash is what S3A makes for an empty directory: it is no file. Directories have no time of modification: it is 0.

Each request costs about as much as reading a megabyte: so an object is read with few of them.

A file that is to be published is an upload that was filled and not completed. No reader sees it, not even in a listing,
and it may be completed from any process that knows its parts. A task tells the driver of it by a value. Where none
does, because a run died, a note beside the staging marker says which upload is to be aborted: no listing shows uploads
everywhere, and while they last they cost money. A note may tell of uploads that were completed.

An upload is filled by bytes that are sent, and by ranges of other objects that the store copies by itself. A part has
at least 5 MiB but for the last, at most 5 GiB, and there are at most 10,000 (Amazon S3, "multipart upload limits"). So
a range that is too small for a part of its own goes through this process, together with what lies beside it; and so
that the parts suffice for any file, they grow with their number.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from botocore.exceptions import ClientError

from acidlib.datafiles import SinkFile, SourceFile
from acidlib.errors import AcidError, ConflictError, CorruptError, DefectError, RefusedError, RetryError
from acidlib.stores.filesystem import Entry, TreeEntry, safe_parts
from acidlib.stores.s3.client import Bucket, ChangedError, UploadGoneError, code_of, seconds
from acidlib.stores.store import STAGING_MARKER, STAGING_PREFIX, TaskFiles, require_inside
from acidlib.wording import plural

_REMOVED_AT_ONCE = 1000


class S3FileSystem:
    """The objects of one bucket, by paths `s3a://bucket/key`. It holds no connection and may be pickled."""

    __slots__ = ("_bucket",)

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def exists(self, path: str) -> bool:
        return self._file(path) is not None or self.is_directory(path)

    def is_directory(self, path: str) -> bool:
        key = self._bucket.key(path)
        with self._bucket.raising("look at", path):
            found = self._bucket.client.list_objects_v2(Bucket=self._bucket.name, Prefix=_below(key), MaxKeys=1)
        return bool(found.get("Contents")) or not key

    def entry(self, path: str, *, missing: type[AcidError] = CorruptError) -> Entry:
        name, found = path.rstrip("/").rpartition("/")[2], self._file(path)
        if found is not None:
            return _entry(name, found["ContentLength"], found["LastModified"])
        if self.is_directory(path):
            return _directory(name)
        raise missing(f"Cannot look at {path}: there is no such object, and none below it")

    def names_changed(self, path: str, *, missing: type[AcidError] = CorruptError) -> float:
        """Return 0: nothing tells."""
        del path, missing
        return 0.0

    def owner(self, path: str) -> str | None:
        """Return None: the owner of an object is an account."""
        del path
        return None

    def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
        prefix = _below(self._bucket.key(path))
        found: list[Entry] = []
        is_there = not prefix
        for page in self._pages(path, prefix, delimiter="/"):
            found += [_directory(_relative(item["Prefix"], prefix)) for item in page.get("CommonPrefixes", [])]
            for item in page.get("Contents", []):
                is_there = True
                if name := _relative(item["Key"], prefix):
                    found.append(_entry(name, item["Size"], item["LastModified"]))
        if not (is_there or found):
            raise missing(f"Cannot list {path}: there is no object below it")
        return tuple(sorted(found, key=lambda entry: entry.name))

    def list_tree(
        self, path: str, *, enter_hidden: bool, missing: type[AcidError] = CorruptError
    ) -> tuple[TreeEntry, ...]:
        prefix = _below(self._bucket.key(path))
        directories: set[str] = set()
        found: list[TreeEntry] = []
        is_there = not prefix
        for item in self._objects(path, prefix):
            is_there = True
            relative = item["Key"].removeprefix(prefix)
            *parents, name = relative.split("/")
            above, is_entered = "", True
            for parent in parents:
                above = f"{above}/{parent}" if above else parent
                directories.add(above)
                if not enter_hidden and parent.startswith(("_", ".")):
                    is_entered = False
                    break
            if name and is_entered:  # a slash at the end tells that it is no file
                modified = seconds(item["LastModified"])
                found.append(TreeEntry(path=relative, is_directory=False, length=item["Size"], modified=modified))
        if not is_there:
            raise missing(f"Cannot list {path}: there is no object below it")
        found += [TreeEntry(path=path, is_directory=True, length=0, modified=0.0) for path in directories]
        return tuple(sorted(found, key=lambda entry: entry.path))

    def read(self, path: str, *, missing: type[AcidError] = CorruptError) -> bytes:
        with self._bucket.raising("read", path, missing=missing):
            return self._bucket.get(path)[1]

    def remove_tree(self, root: str, relative: str) -> None:
        """Remove the object of this name and all below it, a thousand at a time: others may see a part of it go.

        RefusedError for what a run has staged: its uploads would stay, or what it has decided to publish, half visible.
        """
        safe_parts(root, relative)
        path = f"{root}/{relative}"
        key = self._bucket.key(path)
        keys = [item["Key"] for item in self._objects(path, _below(key))]
        if self._file(path) is not None:
            keys.append(key)
        if not keys:
            raise ConflictError(f"Cannot remove {path}: there is no such object, and none below it")
        if any(found.rpartition("/")[2] == STAGING_MARKER for found in keys):
            raise RefusedError(f"Cannot remove {path}: a run has staged something there, which has an end of its own")
        remove_keys(self._bucket, path, keys)

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


def remove_keys(bucket: Bucket, path: str, keys: Iterable[str]) -> None:
    """Remove objects; RetryError names the first that could not be, and how many. `path` is what they are part of."""
    waiting = list(keys)
    failed: list[str] = []
    for start in range(0, len(waiting), _REMOVED_AT_ONCE):
        named: Any = [{"Key": key} for key in waiting[start : start + _REMOVED_AT_ONCE]]
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


def _directory(name: str) -> Entry:
    return Entry(name=name, is_directory=True, is_symlink=False, length=0, modified=0.0)


def _entry(name: str, length: int, modified: datetime) -> Entry:
    return Entry(name=name, is_directory=False, is_symlink=False, length=length, modified=seconds(modified))


END_BYTES = 256 << 10
"""What is fetched of the end of an object at once: footers lie there, and they are read from the last one forward."""

FIRST_AHEAD, MOST_AHEAD = 64 << 10, 4 << 20
"""What is fetched by a small read; it doubles while reads go on where the last one ended."""

MOST_KEPT = 64 << 20
"""Bytes that the sources of one task keep together."""

_NEAR = 64 << 10


class Windows:
    """Ranges that were fetched of objects, for all sources of a task; those not used for longest go first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[S3Source, int], bytes] = OrderedDict()
        self._starts: defaultdict[S3Source, list[int]] = defaultdict(list)
        self._bytes = 0

    def find(self, source: S3Source, offset: int, size: int) -> bytes | None:
        """Return a range of an object, if a window of it has that."""
        for start in self._starts.get(source, ()):
            window = self._kept[source, start]
            if start <= offset and offset + size <= start + len(window):
                self._kept.move_to_end((source, start))
                return window[offset - start : offset - start + size]
        return None

    def keep(self, source: S3Source, start: int, window: bytes) -> None:
        """Keep a window; others may go."""
        self._drop(source, start)
        self._kept[source, start] = window
        self._starts[source].append(start)
        self._bytes += len(window)
        while self._bytes > MOST_KEPT and len(self._kept) > 1:
            self._drop(*next(iter(self._kept)))

    def forget(self, source: S3Source) -> None:
        """Forget all windows of a source."""
        for start in self._starts.pop(source, ()):
            self._bytes -= len(self._kept.pop((source, start)))

    def _drop(self, source: S3Source, start: int) -> None:
        if (source, start) in self._kept:
            self._bytes -= len(self._kept.pop((source, start)))
            self._starts[source].remove(start)


class S3Source:
    """An object of a known logical length. All that is read of it is of the version that the first request saw."""

    def __init__(self, bucket: Bucket, path: str, length: int, windows: Windows, version: str | None = None) -> None:
        self.name = path
        self.length = length
        self.bucket = bucket
        self.key = bucket.key(path)
        self._windows = windows
        self._version = version
        self._ahead = FIRST_AHEAD
        self._end = -1

    @property
    def version(self) -> str:
        """The ETag of the object; one request if nothing was read of it yet."""
        if self._version is None:
            with self.bucket.raising("read", self.name):
                found = self.bucket.client.head_object(Bucket=self.bucket.name, Key=self.key)
            self._check_size(found["ContentLength"])
            self._version = found["ETag"]
        return self._version

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes at `offset`; CorruptError when they are not all inside the logical length."""
        require_inside(self.name, self.length, offset, size)
        if not size:
            return b""
        found = self._windows.find(self, offset, size)
        goes_on = 0 <= offset - self._end <= _NEAR
        self._end = offset + size
        if found is not None:
            return found
        if size >= MOST_AHEAD:
            return self._get(offset, size)
        self._ahead = min(MOST_AHEAD, 2 * self._ahead) if goes_on else FIRST_AHEAD
        start, end = offset, min(self.length, offset + max(size, self._ahead))
        if offset >= self.length - END_BYTES:
            start, end = max(0, self.length - END_BYTES), self.length
        window = self._get(start, end - start)
        self._windows.keep(self, start, window)
        return window[offset - start : offset - start + size]

    def close(self) -> None:
        """Forget what was kept of it."""
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


OUTPUTS = "_outputs"
NOTE_PREFIX = f"{STAGING_MARKER}.upload."
MARK = "acidlib"
"""The metadata of an object that tells whose it is."""

_OUTPUT = re.compile(
    rf"(?P<staging>(?P<location>.+)/{STAGING_PREFIX}(?P<unique>[^/]+))/{OUTPUTS}"
    r"/(?P<attempt>[^/]+)/(?P<directory>[^/]+)/(?P<file>[^/]+)",
    re.DOTALL,
)

_STAGED = re.compile(rf"(?P<staging>.+/{STAGING_PREFIX}[^/]+)/(?P<name>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of an upload; `checksums` as the store gave them, by their names in its interface."""

    number: int
    version: str
    size: int
    checksums: tuple[tuple[str, str], ...] = ()

    def as_completed(self) -> Any:
        """Return it as the request that completes an upload names it."""
        return {"PartNumber": self.number, "ETag": self.version, **dict(self.checksums)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedUpload:
    """An upload that was filled, or is to be. `key` is the final one, `mark` what its object's metadata will say."""

    key: str
    mark: str
    upload: str = ""
    length: int = 0
    parts: tuple[Part, ...] = ()

    @property
    def directory(self) -> str:
        """The name of the directory that the object will lie in."""
        return self.key.split("/")[-2]

    @property
    def file(self) -> str:
        """The name of the object in its directory."""
        return self.key.rpartition("/")[2]

    @property
    def named(self) -> dict[str, Any]:
        """As requests name it in its bucket."""
        return {"Key": self.key, "UploadId": self.upload}

    def document(self) -> dict[str, Any]:
        """Return it as a value of JSON."""
        return {
            "key": self.key,
            "upload": self.upload,
            "length": self.length,
            "mark": self.mark,
            "parts": [[part.number, part.version, part.size, dict(part.checksums)] for part in self.parts],
        }

    @staticmethod
    def of_document(document: Mapping[str, Any], *, where: str) -> StagedUpload:
        """Return the upload that JSON describes; CorruptError naming `where` it was read when it is none."""
        try:
            return StagedUpload(
                key=str(document["key"]),
                upload=str(document["upload"]),
                length=int(document["length"]),
                mark=str(document["mark"]),
                parts=tuple(
                    Part(number=int(number), version=str(version), size=int(size), checksums=tuple(checksums.items()))
                    for number, version, size, checksums in document["parts"]
                ),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptError(f"Cannot read {where}: it does not describe an upload") from error


def output_path(staging: str, directory: str, file: str, attempt: str) -> str:
    """Return the path of one attempt at `directory`/`file`, which is no object; `attempt` is unique to the attempt."""
    return f"{staging}/{OUTPUTS}/{attempt}/{directory}/{file}"


def note_path(path: str) -> str | None:
    """Return where the upload of a file in or for a staging directory is noted; None for any other path."""
    found = _STAGED.fullmatch(path)
    return None if found is None else f"{found['staging']}/{NOTE_PREFIX}{found['name'].replace('/', '.')}"


def planned_upload(bucket: Bucket, path: str) -> StagedUpload | None:
    """Return what the path of an attempt says of the upload that is to be filled; None when it is not such a path."""
    found = _OUTPUT.fullmatch(path)
    if found is None:
        return None
    return StagedUpload(
        key=bucket.key(f"{found['location']}/{found['directory']}/{found['file']}"),
        mark=f"{found['unique']}/{found['attempt']}",
    )


def write_note(bucket: Bucket, path: str, uploads: Iterable[StagedUpload]) -> None:
    """Note uploads by their keys and ids."""
    data = json.dumps([[one.key, one.upload] for one in uploads]).encode()
    with bucket.raising("write", path):
        bucket.client.put_object(Bucket=bucket.name, Key=bucket.key(path), Body=data, **bucket.created)


MIB = 1 << 20
LEAST_PART, SENT_PART, COPIED_PART, MOST_PARTS = 5 * MIB, 8 * MIB, 1024 * MIB, 10_000
GROWING = 1000
"""Parts after which they have twice the size."""

_TRAVEL_AT_ONCE = 4


class Upload:
    """One upload: `send` and `copy` in order, then `finish`. Parts travel in threads of its own."""

    def __init__(self, bucket: Bucket, planned: StagedUpload) -> None:
        self.bucket = bucket
        self.path = bucket.path(planned.key)
        with bucket.raising("write", self.path):
            answer = bucket.client.create_multipart_upload(
                Bucket=bucket.name, Key=planned.key, Metadata={MARK: planned.mark}, **bucket.created
            )
        self.begun = replace(planned, upload=answer["UploadId"])
        self._checksum = str(answer.get("ChecksumAlgorithm", ""))
        self._waiting = bytearray()
        self._range: tuple[S3Source, int, int] | None = None  # what is to be copied: where it begins, and its size
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

    def finish(self) -> tuple[Part, ...]:
        """Send what is left, wait for all parts, and return them; nothing is completed."""
        self._settle_range()
        if self._waiting or not self._parts:
            self._send_part(bytes(self._waiting))
            self._waiting.clear()
        try:
            return tuple(part.result() for part in self._parts)
        finally:
            self._threads.shutdown()

    def abandon(self) -> None:
        """Send nothing more and wait for what travels: a part that arrives after an abort would stay for ever."""
        self._threads.shutdown(cancel_futures=True)

    @property
    def _least(self) -> int:
        return LEAST_PART << (len(self._parts) // GROWING)

    @property
    def _full(self) -> int:
        return SENT_PART << (len(self._parts) // GROWING)

    def _send_full(self) -> None:
        while len(self._waiting) >= self._full:
            size = self._full
            self._send_part(bytes(self._waiting[:size]))
            del self._waiting[:size]

    def _settle_range(self) -> None:
        """Copy the range that waits, by the store but for what a part of the least size lacks before it.

        That goes through here, and so does a range that is too small for a part of its own. The rest goes in as few
        pieces as may be copied by one request each, all of about the same size.
        """
        found, self._range = self._range, None
        if found is None:
            return
        source, offset, size = found
        waiting = len(self._waiting)
        # what was written may be how the source begins, up to the range: the magic bytes of a file's format. Without
        # this, a file of copied ranges would begin with a part of the least size that goes through here twice
        is_start = not self._parts and 0 < waiting < 16 and offset == waiting and waiting + size >= self._least
        if is_start and source.read(0, waiting) == self._waiting:
            offset, size = 0, offset + size
            self._waiting.clear()
        carried = max(0, self._least - len(self._waiting)) if self._waiting else 0
        if size - carried < self._least:
            carried = size
        self._carry(source, offset, carried)
        offset, size = offset + carried, size - carried
        if size and self._waiting:
            self._send_part(bytes(self._waiting))
            self._waiting.clear()
        count = -(-size // COPIED_PART)
        for piece in range(count):
            start, end = size * piece // count, size * (piece + 1) // count
            number = self._next_number()
            self._parts.append(
                self._threads.submit(self._copied, number, source, source.version, offset + start, end - start)
            )

    def _carry(self, source: S3Source, offset: int, size: int) -> None:
        done = 0
        while done < size:
            count = min(self._full, size - done)
            self._waiting += source.read(offset + done, count)
            done += count
            self._send_full()

    def _send_part(self, data: bytes) -> None:
        number = self._next_number()
        self._parts.append(self._threads.submit(self._put, number, data))
        if len(self._parts) > _TRAVEL_AT_ONCE:  # not more than travel at once are held in memory
            self._parts[-_TRAVEL_AT_ONCE - 1].result()  # raises what went wrong with it

    def _next_number(self) -> int:
        if len(self._parts) >= MOST_PARTS:
            raise RefusedError(f"Cannot write {self.path}: it would take more than {MOST_PARTS} parts")
        return len(self._parts) + 1

    def _put(self, number: int, data: bytes) -> Part:
        arguments: dict[str, Any] = {"ChecksumAlgorithm": self._checksum} if self._checksum else {}
        with self.bucket.raising("write", self.path):
            answer = self.bucket.client.upload_part(
                Bucket=self.bucket.name, PartNumber=number, Body=data, **self.begun.named, **arguments
            )
        return Part(number=number, version=answer["ETag"], size=len(data), checksums=self._checksums(answer))

    def _copied(self, number: int, source: S3Source, version: str, offset: int, size: int) -> Part:
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
        found = answer["CopyPartResult"]
        return Part(number=number, version=found["ETag"], size=size, checksums=self._checksums(found))

    def _checksums(self, answer: Any) -> tuple[tuple[str, str], ...]:
        """Return what has to be named again at the completion: checksums of the kind that the store wanted first."""
        if not self._checksum:
            return ()
        return tuple(
            (name, text)
            for name, text in sorted(answer.items())
            if name.startswith("Checksum") and name != "ChecksumType"
        )


IN_MEMORY = 32 << 20
"""Bytes that were written of a file and are kept in memory until it is proved; more go to a temporary file."""

_READ_AT_ONCE = 8 << 20


@dataclass(frozen=True, slots=True)
class _Segment:
    """A range of a file that is being made: where it begins, and where its bytes are.

    `source` is the object that they were copied from; None for bytes that were written, which are spooled.
    """

    start: int
    size: int
    source: S3Source | None
    offset: int


class S3Sink:
    """A file that is being made as an upload, and what it holds so far.

    Closing it completes nothing when it is to be published: the driver does that. What has to be known for it is its
    `attempt` then.
    """

    def __init__(self, bucket: Bucket, path: str, planned: StagedUpload | None, note: str) -> None:
        """Make what is `planned`, else a hidden object at the path; `note` is where the upload is noted."""
        self.name = path
        self.position = 0
        self.attempt: StagedUpload | None = None
        self._bucket = bucket
        self._is_planned = planned is not None
        self._segments: list[_Segment] = []
        self._spool: IO[bytes] = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 it lasts as long as the sink
        self._upload = Upload(bucket, planned or StagedUpload(key=bucket.key(path), mark=""))
        self._completed = False
        self._note = note
        try:
            write_note(bucket, note, [self._upload.begun])
        except BaseException:
            self.abort()
            raise

    def write(self, data: Any) -> None:
        """Append all bytes of a buffer."""
        view = memoryview(data).cast("B")
        offset = self._spool.seek(0, 2)
        self._spool.write(view)
        self._append(None, offset, len(view))
        self._upload.send(view)

    def copy(self, source: Any, offset: int, size: int) -> None:
        """Append a range of another file; the store does it where it can."""
        if not isinstance(source, S3Source) or source.bucket.options != self._bucket.options:
            for start in range(offset, offset + size, _READ_AT_ONCE):
                self.write(source.read(start, min(_READ_AT_ONCE, offset + size - start)))
            return
        require_inside(source.name, source.length, offset, size)
        self._append(source, offset, size)
        self._upload.copy(source, offset, size)

    def close(self, *, durable: bool = True) -> None:
        """Send all that is left. A file that is not to be published is completed, and then an object."""
        del durable  # what an upload holds is durable
        if self.attempt is not None or self._completed:
            return
        parts = self._upload.finish()
        if (total := sum(part.size for part in parts)) != self.position:
            raise DefectError(f"Cannot write {self.name}: {total} of {self.position} bytes were sent")
        if self._is_planned:
            self.attempt = replace(self._upload.begun, length=self.position, parts=parts)
            return
        with self._bucket.raising("write", self.name):
            completed: Any = {"Parts": [part.as_completed() for part in parts]}
            self._bucket.client.complete_multipart_upload(
                Bucket=self._bucket.name, MultipartUpload=completed, **self._upload.begun.named
            )
        self._completed = True

    def abort(self) -> None:
        """Drop the upload, or the object; where that fails it goes with the staging directory."""
        self._upload.abandon()
        self.attempt = None
        client, name = self._bucket.client, self._bucket.name
        with suppress(AcidError), self._bucket.raising("abort", self.name):
            if self._completed:
                client.delete_object(Bucket=name, Key=self._upload.begun.key)
            else:
                client.abort_multipart_upload(Bucket=name, **self._upload.begun.named)
        with suppress(AcidError), self._bucket.raising("remove", self._note):
            client.delete_object(Bucket=name, Key=self._bucket.key(self._note))
        self._spool.close()

    def read(self, offset: int, size: int) -> bytes:
        """Return what it holds, before any reader can see it."""
        require_inside(self.name, self.position, offset, size)
        found = bytearray()
        number = bisect_right(self._segments, offset, key=lambda segment: segment.start) - 1
        while len(found) < size:
            segment = self._segments[number]
            inside = offset + len(found) - segment.start
            count = min(size - len(found), segment.size - inside)
            if segment.source is not None:
                found += segment.source.read(segment.offset + inside, count)
            else:
                self._spool.seek(segment.offset + inside)
                found += self._spool.read(count)
            number += 1
        return bytes(found)

    def _append(self, source: S3Source | None, offset: int, size: int) -> None:
        last = self._segments[-1] if self._segments else None
        if last is not None and last.source is source and last.offset + last.size == offset:
            self._segments[-1] = _Segment(last.start, last.size + size, source, last.offset)
        elif size:
            self._segments.append(_Segment(self.position, size, source, offset))
        self.position += size


class _OwnSource:
    """A file of ours that no reader can see yet, read back."""

    def __init__(self, sink: S3Sink, length: int) -> None:
        if length > sink.position:
            raise CorruptError(f"Cannot read {sink.name}: it has {sink.position} bytes, not {length}")
        self.name = sink.name
        self.length = length
        self._sink = sink

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes at `offset`; CorruptError when they are not all inside the logical length."""
        require_inside(self.name, self.length, offset, size)
        return self._sink.read(offset, size)

    def close(self) -> None:
        """Do nothing: nothing is held."""


class S3DataFiles(TaskFiles):
    """The data files of a bucket, for one task. It may be pickled: what is open stays behind."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._windows = Windows()
        self._sinks: dict[str, S3Sink] = {}

    def __reduce__(self) -> tuple[type[S3DataFiles], tuple[Bucket]]:
        return S3DataFiles, (self._bucket,)

    def open(self, path: str, length: int) -> SourceFile:
        """Open an input of `length` logical bytes, or an attempt of this task.

        CorruptError, when it is first read, if it is missing or shorter.
        """
        if path in self._sinks:
            return _OwnSource(self._sinks[path], length)
        return S3Source(self._bucket, path, length, self._windows)

    def create(self, path: str) -> SinkFile:
        """Create a file: the attempt of an `output_path`, or else a hidden object of a run that is at work.

        RefusedError for any other path: what readers see comes by publication alone.
        """
        note = note_path(path)
        if note is None:
            raise RefusedError(f"Cannot write {path}: readers would see it at once")
        planned = planned_upload(self._bucket, path)
        sink = S3Sink(self._bucket, path, planned, note)
        if planned is not None:
            self._sinks[path] = sink
        return sink

    def output_path(self, staging: str, directory: str, file: str, attempt: str) -> str:
        return output_path(staging, directory, file, attempt)

    def written(self, path: str) -> str:
        """Return the upload of the file that was made at this path."""
        return json.dumps(self.attempt(path).document())

    def attempt(self, path: str) -> StagedUpload:
        """Return what the driver has to know to publish the file that was made at this path."""
        sink = self._sinks.get(path)
        if sink is None or sink.attempt is None:
            raise DefectError(f"Cannot publish {path}: this task has not made it")
        return sink.attempt
