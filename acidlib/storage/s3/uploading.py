"""Filling an upload: bytes that are sent, and ranges of other objects that the store copies by itself.

A part has at least 5 MiB but for the last, at most 5 GiB, and there are at most 10,000 (Amazon S3, "multipart upload
limits"). So a range that is too small for a part of its own goes through this process, together with what lies beside
it; and so that the parts suffice for any file, they grow with their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from acidlib.errors import CorruptError, RefusedError, RetryError
from acidlib.storage.s3.attempts import MARK, Part
from acidlib.storage.s3.client import Bucket
from acidlib.storage.s3.errors import ChangedError
from acidlib.storage.s3.reading import S3Source

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
