"""The data files of tables in a bucket: what the ORC code sees of it."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from acidlib.errors import AcidError, CorruptError, DefectError, RefusedError
from acidlib.orc.source import SinkFile, SourceFile
from acidlib.storage.s3.attempts import Attempt, OutputPath, note_path, output_path, parse_output_path
from acidlib.storage.s3.client import Bucket
from acidlib.storage.s3.notes import write_note
from acidlib.storage.s3.reading import S3Source, Windows
from acidlib.storage.s3.uploading import Upload

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
