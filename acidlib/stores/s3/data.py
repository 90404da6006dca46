"""Data files in a bucket: reading at any place with few requests, and filling uploads."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from acidlib.datafiles import SinkFile, SourceFile
from acidlib.errors import AcidError, CorruptError, DefectError, RefusedError, RetryError
from acidlib.stores.s3.client import Bucket, ChangedError
from acidlib.stores.s3.publishing import (
    MARK,
    Attempt,
    OutputPath,
    Part,
    note_path,
    output_path,
    parse_output_path,
    write_note,
)

# --- reading ----------------------------------------------------------------------------------------------------------
# Reading an object at any place, with few requests: each costs about as much as a megabyte.

END_BYTES = 256 << 10
"""What is fetched of the end of an object at once: footers lie there, and they are read from the last one forward."""

FIRST_AHEAD, MOST_AHEAD = 64 << 10, 4 << 20
"""What is fetched by a small read; it doubles while reads go on where the last one ended."""

MOST_KEPT = 64 << 20
"""Bytes that the sources of one task keep together."""

_NEAR = 64 << 10


class Windows:
    """Ranges of objects that were fetched, of all sources of a task; those not used for longest go first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._bytes = 0

    def find(self, path: str, offset: int, size: int, starts: list[int]) -> bytes | None:
        """A range of an object, if one window that starts at one of `starts` has it; starts that are gone leave."""
        for start in list(starts):
            window = self._kept.get((path, start))
            if window is None:
                starts.remove(start)
            elif start <= offset and offset + size <= start + len(window):
                self._kept.move_to_end((path, start))
                return window[offset - start : offset - start + size]
        return None

    def keep(self, path: str, start: int, window: bytes) -> None:
        """Keep a window; others may go."""
        self.drop(path, start)
        self._kept[path, start] = window
        self._bytes += len(window)
        while self._bytes > MOST_KEPT and len(self._kept) > 1:
            self.drop(*next(iter(self._kept)))

    def drop(self, path: str, start: int) -> None:
        """Forget a window."""
        self._bytes -= len(self._kept.pop((path, start), b""))


class S3Source:
    """An object of a known logical length. All that is read of it is of the version that the first request saw."""

    def __init__(self, bucket: Bucket, path: str, length: int, windows: Windows, version: str | None = None) -> None:
        self.name = path
        self.length = length
        self.bucket = bucket
        self.key = bucket.key(path)
        self._windows = windows
        self._version = version
        self._starts: list[int] = []
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
        """Exactly `size` bytes at `offset`; CorruptError when they are not all inside the logical length."""
        self.check_range(offset, size)
        if not size:
            return b""
        found = self._windows.find(self.name, offset, size, self._starts)
        if found is None:
            found = self._fetch(offset, size)
        self._end = offset + size
        return found

    def check_range(self, offset: int, size: int) -> None:
        """CorruptError when a range is not inside the logical length."""
        if offset < 0 or size < 0 or offset + size > self.length:
            raise CorruptError(f"Cannot read {self.name}: because bytes {offset} to {offset + size} are outside it")

    def close(self) -> None:
        """Forget what was kept of it."""
        for start in self._starts:
            self._windows.drop(self.name, start)
        self._starts.clear()

    def _fetch(self, offset: int, size: int) -> bytes:
        if size >= MOST_AHEAD:
            return self._get(offset, size)
        goes_on = 0 <= offset - self._end <= _NEAR
        self._ahead = min(MOST_AHEAD, 2 * self._ahead) if goes_on else FIRST_AHEAD
        start, end = offset, min(self.length, offset + max(size, self._ahead))
        if offset >= self.length - END_BYTES:
            start, end = max(0, self.length - END_BYTES), self.length
        window = self._get(start, end - start)
        self._windows.keep(self.name, start, window)
        if start not in self._starts:
            self._starts.append(start)
        return window[offset - start : offset - start + size]

    def _get(self, offset: int, size: int) -> bytes:
        """A range by one request."""
        condition: Any = {} if self._version is None else {"IfMatch": self._version}
        try:
            with self.bucket.raising("read", self.name):
                answer, data = self.bucket.get(self.name, Range=f"bytes={offset}-{offset + size - 1}", **condition)
        except ChangedError as error:
            raise self._replaced() from error
        except RetryError as error:
            if "InvalidRange" in str(error):
                raise CorruptError(
                    f"Cannot read {self.name}: because it has less than {offset + 1} bytes and was listed with "
                    f"{self.length}"
                ) from error
            raise
        self._check_size(int(answer["ContentRange"].rpartition("/")[2]))
        if self._version is None:
            self._version = answer["ETag"]
        if len(data) != size:
            raise CorruptError(f"Cannot read {self.name}: because it has fewer bytes than it says")
        return data

    def _check_size(self, size: int) -> None:
        if size < self.length:
            raise CorruptError(
                f"Cannot read {self.name}: because it has {size} bytes and was listed with {self.length}"
            )

    def _replaced(self) -> CorruptError:
        return CorruptError(f"Cannot read {self.name}: because another object took its place while it was read")


# --- uploading --------------------------------------------------------------------------------------------------------
# Filling an upload: bytes that are sent, and ranges of other objects that the store copies by itself.
#
# A part has at least 5 MiB but for the last, at most 5 GiB, and there are at most 10,000 (Amazon S3, "multipart upload
# limits"). So a range that is too small for a part of its own goes through this process, together with what lies beside
# it; and so that the parts suffice for any file, they grow with their number.

MIB = 1 << 20
LEAST_PART, SENT_PART, COPIED_PART, MOST_PARTS = 5 * MIB, 8 * MIB, 1024 * MIB, 10_000
GROWING = 1000
"""Parts after which they have twice the size."""

_AT_ONCE = 4


@dataclass(slots=True)
class _Range:
    """A range of another object that is to be copied."""

    source: S3Source
    offset: int
    size: int


class Upload:
    """One upload: `send` and `copy` in order, then `finish`. Parts travel in threads of its own."""

    def __init__(self, bucket: Bucket, path: str, mark: str) -> None:
        self.bucket = bucket
        self.path = path
        self.key = bucket.key(path)
        with bucket.raising("write", path):
            answer = bucket.client.create_multipart_upload(
                Bucket=bucket.name, Key=self.key, Metadata={MARK: mark}, **bucket.created
            )
        self.id = answer["UploadId"]
        self._checksum = str(answer.get("ChecksumAlgorithm", ""))
        self._waiting = bytearray()
        self._range: _Range | None = None
        self._parts: list[Future[Part]] = []
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="acidlib-upload")

    def send(self, data: Any) -> None:
        """Append bytes."""
        self._settle_range()
        self._waiting += data
        self._send_full()

    def copy(self, source: S3Source, offset: int, size: int) -> None:
        """Append a range of another object of this bucket."""
        if not size:
            return
        found = self._range
        if found is not None and found.source is source and found.offset + found.size == offset:
            found.size += size
            return
        self._settle_range()
        self._range = _Range(source, offset, size)

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
        """Copy the range that waits: by the store, where it is large enough for that, else through here."""
        found, self._range = self._range, None
        if found is None:
            return
        if self._continues_waiting(found):
            found = _Range(found.source, 0, found.offset + found.size)
            self._waiting.clear()
        carried = max(0, self._least - len(self._waiting)) if self._waiting else 0
        if found.size - carried < self._least:
            self._carry(found, found.size)
            return
        self._carry(found, carried)
        if self._waiting:
            self._send_part(bytes(self._waiting))
            self._waiting.clear()
        for offset, size in _pieces(found.offset + carried, found.size - carried):
            self._copy_part(found.source, offset, size)

    def _continues_waiting(self, found: _Range) -> bool:
        """Whether what was written is how the source begins, up to the range: the magic bytes of a file's format.

        Without this, a file of copied ranges would begin with a part of the least size that goes through here twice.
        """
        size = len(self._waiting)
        if self._parts or not 0 < size < 16 or found.offset != size or size + found.size < self._least:
            return False
        return found.source.read(0, size) == self._waiting

    def _carry(self, found: _Range, size: int) -> None:
        done = 0
        while done < size:
            count = min(self._full, size - done)
            self._waiting += found.source.read(found.offset + done, count)
            done += count
            self._send_full()

    def _send_part(self, data: bytes) -> None:
        number = self._next_number()
        self._parts.append(self._threads.submit(self._put, number, data))
        self._wait_for_one()

    def _copy_part(self, source: S3Source, offset: int, size: int) -> None:
        number = self._next_number()
        self._parts.append(self._threads.submit(self._copied, number, source, source.version, offset, size))

    def _next_number(self) -> int:
        if len(self._parts) >= MOST_PARTS:
            raise RefusedError(f"Cannot write {self.path}: because it would take more than {MOST_PARTS} parts")
        return len(self._parts) + 1

    def _wait_for_one(self) -> None:
        """Not more parts than travel at once are held in memory; what went wrong with one is raised here."""
        if len(self._parts) > _AT_ONCE:
            self._parts[-_AT_ONCE - 1].result()

    def _put(self, number: int, data: bytes) -> Part:
        arguments: dict[str, Any] = {"ChecksumAlgorithm": self._checksum} if self._checksum else {}
        with self.bucket.raising("write", self.path, missing=RetryError):
            answer = self.bucket.client.upload_part(
                Bucket=self.bucket.name, Key=self.key, UploadId=self.id, PartNumber=number, Body=data, **arguments
            )
        return Part(number=number, version=answer["ETag"], size=len(data), checksums=self._checksums(answer))

    def _copied(self, number: int, source: S3Source, version: str, offset: int, size: int) -> Part:
        try:
            with self.bucket.raising("copy from", source.name):
                answer = self.bucket.client.upload_part_copy(
                    Bucket=self.bucket.name,
                    Key=self.key,
                    UploadId=self.id,
                    PartNumber=number,
                    CopySource={"Bucket": source.bucket.name, "Key": source.key},
                    CopySourceRange=f"bytes={offset}-{offset + size - 1}",
                    CopySourceIfMatch=version,
                )
        except ChangedError as error:
            raise CorruptError(
                f"Cannot copy from {source.name}: because another object took its place while it was read"
            ) from error
        found = answer["CopyPartResult"]
        return Part(number=number, version=found["ETag"], size=size, checksums=self._checksums(found))

    def _checksums(self, answer: Any) -> tuple[tuple[str, str], ...]:
        """What has to be named again at the completion: checksums of the kind that the store wanted at the start."""
        if not self._checksum:
            return ()
        return tuple(
            (name, text)
            for name, text in sorted(answer.items())
            if name.startswith("Checksum") and name != "ChecksumType"
        )


def _pieces(offset: int, size: int) -> Iterator[tuple[int, int]]:
    """A range in as few pieces as may be copied by one request each, all of about the same size."""
    count = -(-size // COPIED_PART)
    for number in range(count):
        start, end = size * number // count, size * (number + 1) // count
        yield offset + start, end - start


# --- data -------------------------------------------------------------------------------------------------------------
# The data files of tables in a bucket: what the ORC code sees of it.

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

    def __init__(self, bucket: Bucket, path: str, output: OutputPath | None, note: str) -> None:
        self.name = path
        self.position = 0
        self.attempt: Attempt | None = None
        self._bucket = bucket
        self._output = output
        self._segments: list[_Segment] = []
        self._spool: IO[bytes] = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 it lasts as long as the sink
        self._upload = Upload(bucket, path if output is None else output.final, "" if output is None else output.mark)
        self._completed = False
        self._note = note
        self._take_note()

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
        source.check_range(offset, size)
        self._append(source, offset, size)
        self._upload.copy(source, offset, size)

    def close(self, *, durable: bool = True) -> None:
        """Send all that is left. A file that is not to be published is completed, and then an object."""
        del durable  # what an upload holds is durable
        if self.attempt is not None or self._completed:
            return
        parts = self._upload.finish()
        if (total := sum(part.size for part in parts)) != self.position:
            raise DefectError(f"Cannot write {self.name}: because {total} of {self.position} bytes were sent")
        if self._output is not None:
            self.attempt = Attempt(
                directory=self._output.directory,
                file=self._output.file,
                key=self._upload.key,
                upload=self._upload.id,
                length=self.position,
                mark=self._output.mark,
                parts=parts,
            )
            return
        with self._bucket.raising("write", self.name):
            self._bucket.client.complete_multipart_upload(
                Bucket=self._bucket.name,
                Key=self._upload.key,
                UploadId=self._upload.id,
                MultipartUpload={"Parts": [part.as_completed() for part in parts]},
            )
        self._completed = True

    def abort(self) -> None:
        """Drop the upload, or the object; where that fails it goes with the staging directory."""
        self._upload.abandon()
        self.attempt = None
        client = self._bucket.client
        named: Any = {"Bucket": self._bucket.name, "Key": self._upload.key}
        with suppress(AcidError), self._bucket.raising("abort", self.name):
            if self._completed:
                client.delete_object(**named)
            else:
                client.abort_multipart_upload(UploadId=self._upload.id, **named)
        with suppress(AcidError), self._bucket.raising("remove", self._note):
            client.delete_object(Bucket=self._bucket.name, Key=self._bucket.key(self._note))
        self._spool.close()

    def read(self, offset: int, size: int) -> bytes:
        """What it holds, before anybody else can see it."""
        if offset < 0 or size < 0 or offset + size > self.position:
            raise CorruptError(f"Cannot read {self.name}: because bytes {offset} to {offset + size} are outside it")
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

    def _take_note(self) -> None:
        """Whoever removes what a dead run left has to find the upload: it costs money, and no listing shows it."""
        try:
            write_note(self._bucket, self._note, [(self._upload.key, self._upload.id)])
        except BaseException:
            self.abort()
            raise


class _OwnSource:
    """A file of ours that nobody else can see yet, read back."""

    def __init__(self, sink: S3Sink, length: int) -> None:
        if length > sink.position:
            raise CorruptError(f"Cannot read {sink.name}: because it has {sink.position} bytes, not {length}")
        self.name = sink.name
        self.length = length
        self._sink = sink

    def read(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes at `offset`; CorruptError when they are not all inside the logical length."""
        if offset + size > self.length:
            raise CorruptError(f"Cannot read {self.name}: because bytes {offset} to {offset + size} are outside it")
        return self._sink.read(offset, size)

    def close(self) -> None:
        """Nothing is held."""


class S3DataFiles:
    """Opens and creates data files of a bucket, for one task. It may be pickled: what is open stays behind."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._windows = Windows()
        self._sinks: dict[str, S3Sink] = {}

    def __reduce__(self) -> tuple[type[S3DataFiles], tuple[Bucket]]:
        return S3DataFiles, (self._bucket,)

    def open(self, path: str, length: int) -> SourceFile:
        """An input of `length` logical bytes, or an attempt of this task; CorruptError, when it is first read, if it
        is missing or shorter."""
        if path in self._sinks:
            return _OwnSource(self._sinks[path], length)
        return S3Source(self._bucket, path, length, self._windows)

    def create(self, path: str) -> SinkFile:
        """A new file: the attempt of an `output_path`, or else a hidden object of a run that is at work.

        RefusedError for any other path: what readers see comes by publication alone.
        """
        output, note = parse_output_path(path), note_path(path)
        if note is None:
            raise RefusedError(f"Cannot write {path}: because readers would see it at once")
        sink = S3Sink(self._bucket, path, output, note)
        if output is not None:
            self._sinks[path] = sink
        return sink

    def output_path(self, staging: str, directory: str, file: str, attempt: str) -> str:
        """See `attempts.output_path`."""
        return output_path(staging, directory, file, attempt)

    def written(self, path: str) -> str:
        """The upload of the file that was made at this path."""
        return self.attempt(path).text

    def attempt(self, path: str) -> Attempt:
        """What the driver has to know to publish the file that was made at this path."""
        sink = self._sinks.get(path)
        if sink is None or sink.attempt is None:
            raise DefectError(f"Cannot publish {path}: because this task has not made it")
        return sink.attempt
