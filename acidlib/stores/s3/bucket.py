"""A bucket of S3: its objects, and files to publish as multipart uploads.

An upload is filled by bytes that are sent, and by ranges of other objects that the store copies by itself. A part has
at least 5 MiB but for the last, at most 5 GiB, and there are at most 10,000 (Amazon S3, "multipart upload limits"). So
a range that is too small for a part of its own goes through this process, together with the bytes beside it. Parts grow
with their number, so that 10,000 suffice for any file.

No listing shows an upload, and not every store lists uploads: only who knows its id can end one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from msgspec.structs import replace
from tenacity import retry, retry_if_exception_type
from urllib3.exceptions import HTTPError

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError
from acidlib.location import S3
from acidlib.model.uploads import Part, StagedUpload
from acidlib.stores.buckets.bucket import (
    CONFLICT_PAUSES,
    CONFLICT_TRIES,
    ORIGIN,
    Bucket,
    ChangedError,
    InBucket,
    ListedPage,
    ObjectRange,
    SmallObject,
    StoredObject,
    UndecidedError,
    Upload,
    UploadGoneError,
    UploadState,
    create_object,
    kept_error,
    replace_object,
)
from acidlib.stores.filesystem import Pace, UnreachableServers, require_small
from acidlib.stores.promises import Promise, require, require_conflict
from acidlib.stores.s3.client import (
    BROKEN_OFF,
    S3Options,
    client_of,
    code_of,
    is_missing,
    s3_acid_error,
    seconds,
    unanswered_reason,
    unreachable_error,
)

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_TRIES = 3
_SHORT = ("list", "look at")
"""Actions that take a server no time."""
_REMOVED_AT_ONCE = 1000


class S3Bucket(Bucket):
    """A bucket, and its multipart uploads; versions are ETags."""

    __slots__ = ("_options", "_unreachable")

    kind = S3
    absent, unchanged = "If-None-Match", "If-Match"
    is_listed = False

    def __init__(self, options: S3Options, unreachable: UnreachableServers | None = None) -> None:
        self._options = options
        self._unreachable = unreachable

    @property
    def options(self) -> S3Options:
        return self._options

    @property
    def client(self) -> S3Client:
        """The client of this process; threads share it."""
        return client_of(self.options, os.getpid())

    @contextmanager
    def raising(self, action: str, path: str, *, missing: type[AcidError] = CorruptError) -> Iterator[None]:
        """Guard a block; an error of boto3 in it becomes our own for a failed `action` on `path`.

        Fail at once for a server that this run has waited for in vain a moment ago.
        """
        where, server = self.options.shown, self.options.endpoint or f"the region {self.options.region}"
        reason = None if self._unreachable is None else self._unreachable.reason(server)
        if reason is not None:
            raise unreachable_error(f"Cannot {action} {path}:", where, reason)
        try:
            yield
        except (ClientError, BotoCoreError, HTTPError, OSError, RecursionError) as error:
            # an answer may take its time where a part is copied or an upload completed
            unanswered = unanswered_reason(error, is_short=action in _SHORT)
            if self._unreachable is not None and unanswered is not None:
                self._unreachable.note(server, unanswered)
            raise s3_acid_error(error, action, path, where=where, user=self.options.user, missing=missing) from error

    def look(self, path: str) -> StoredObject | None:
        """Return the object at a path; None without one.

        The answer has no body, so an error has no reason: a listing is requested then, whose error has one.
        """
        key = self.key(path)
        with self.raising("look at", path):
            try:
                head = self.client.head_object(Bucket=self.name, Key=key)
            except ClientError as error:
                if is_missing(error):
                    return None
                if code_of(error).isdecimal():  # a status alone, as the answer to a HEAD has no body
                    self.client.list_objects_v2(Bucket=self.name, Prefix=key, MaxKeys=1)
                raise
        origin = head.get("Metadata", {}).get(ORIGIN, "")
        return StoredObject(key, head["ContentLength"], seconds(head["LastModified"]), head.get("ETag", ""), origin)

    def pages(self, path: str, prefix: str, *, delimiter: str = "", at_most: int = 0) -> Iterator[ListedPage]:
        arguments: dict[str, Any] = {"Bucket": self.name, "Prefix": prefix}
        if delimiter:
            arguments["Delimiter"] = delimiter
        if at_most:
            arguments["MaxKeys"] = at_most
        while True:
            with self.raising("list", path):
                page = self.client.list_objects_v2(**arguments)
            yield ListedPage(
                tuple(
                    StoredObject(item["Key"], item["Size"], seconds(item["LastModified"]), item.get("ETag", ""))
                    for item in page.get("Contents", [])  # the last page may have none
                ),
                tuple(item["Prefix"] for item in page.get("CommonPrefixes", [])),
            )
            if at_most or not page.get("IsTruncated"):
                return
            arguments["ContinuationToken"] = page["NextContinuationToken"]

    def read(self, path: str, *, missing: type[AcidError] = CorruptError) -> bytes:
        with self.raising("read", path, missing=missing):
            return self._get(path)[1]

    def read_small(self, path: str, *, missing: type[AcidError] = CorruptError) -> SmallObject:
        with self.raising("read", path, missing=missing):
            answer, data = self._get(path)
        header = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
        if header is None:
            raise RetryError("Cannot tell the time of the store: its answers have no Date")
        return SmallObject(
            data=data,
            version=answer["ETag"],
            modified=seconds(answer["LastModified"]),
            now=parsedate_to_datetime(header).timestamp(),
            origin=answer.get("Metadata", {}).get(ORIGIN, ""),
        )

    def read_range(self, path: str, offset: int, size: int, version: str | None) -> ObjectRange | None:
        condition: Any = {} if version is None else {"IfMatch": version}
        try:
            with self.raising("read", path):
                answer, data = self._get(path, Range=f"bytes={offset}-{offset + size - 1}", **condition)
        except RetryError as error:
            if isinstance(error.__cause__, ClientError) and code_of(error.__cause__) == "InvalidRange":
                return None
            raise
        return ObjectRange(data, answer["ETag"], int(answer["ContentRange"].rpartition("/")[2]))

    def _get(self, path: str, **more: Any) -> tuple[Any, bytes]:
        """Return an answer and the bytes of an object, repeated when the connection breaks amid the bytes.

        boto3 itself repeats requests that fail before them. CorruptError for an object without a `Range` that is larger
        than a control file can be.
        """
        tries = 0
        while True:
            answer = self.client.get_object(Bucket=self.name, Key=self.key(path), **more)
            if "Range" not in more:
                require_small(path, answer["ContentLength"])
            try:
                return answer, answer["Body"].read()
            except BROKEN_OFF:
                tries += 1
                if tries == _TRIES:
                    raise

    def write(self, path: str, data: bytes, *, version: str | None, origin: str = "") -> str:
        condition: Any = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}
        if version is not None:
            condition["Metadata"] = {ORIGIN: origin} if origin else {}
        with self.raising("write", path, missing=ChangedError):
            return self.client.put_object(
                Bucket=self.name, Key=self.key(path), Body=data, **condition, **self.creation_arguments
            )["ETag"]

    def put(self, path: str, data: bytes) -> None:
        with self.raising("write", path):
            self.client.put_object(Bucket=self.name, Key=self.key(path), Body=data, **self.creation_arguments)

    def remove(self, path: str, objects: Mapping[str, str], *, pace: Pace | None = None) -> None:
        """Remove a thousand objects at a time, whatever their versions: not every store has conditions on removals."""
        waiting = list(objects)
        failed: list[str] = []
        for start in range(0, len(waiting), _REMOVED_AT_ONCE):
            named: Any = [{"Key": key} for key in waiting[start : start + _REMOVED_AT_ONCE]]
            if pace is not None:
                pace(len(named))
            with self.raising("remove", path):
                answer = self.client.delete_objects(Bucket=self.name, Delete={"Objects": named, "Quiet": True})
            failed += [
                f"{error.get('Key')} ({error.get('Code')}: {error.get('Message', '')})"
                for error in answer.get("Errors", [])
            ]
        if failed:
            raise kept_error(path, len(waiting), failed)

    @property
    def creation_arguments(self) -> dict[str, Any]:
        """Arguments of every request that makes an object."""
        return dict(self.options.creation)

    def begin(self, planned: StagedUpload, hidden: str) -> S3Upload:
        del hidden  # the store keeps parts where no listing shows them
        return S3Upload(self, planned)

    @retry(retry=retry_if_exception_type(UndecidedError), stop=CONFLICT_TRIES, wait=CONFLICT_PAUSES, reraise=True)
    def complete(self, upload: StagedUpload) -> bool:
        path = self.path(upload.key)
        try:
            self._complete(upload, IfNoneMatch="*")
        except Exception as error:
            there = self.look(path)
            if there is not None and there.origin == upload.origin:
                return True
            is_gone = isinstance(error, ClientError) and (
                is_missing(error) or (code_of(error) in _AMBIGUOUS and not self.is_open(upload))
            )
            if is_gone:
                return False
            try:
                with self.raising("publish", path):
                    raise
            except ChangedError:
                if there is not None:
                    raise ConflictError(f"Cannot publish {path}: it already exists") from error
                raise UndecidedError(
                    f"Cannot publish {path}: the store calls it a conflict, even after several attempts"
                ) from error
        return True

    def complete_hidden(self, upload: StagedUpload) -> None:
        with self.raising("write", self.path(upload.key)):
            self._complete(upload)

    def _complete(self, upload: StagedUpload, **condition: Any) -> None:
        parts: Any = {"Parts": [part.as_completed() for part in upload.parts]}
        self.client.complete_multipart_upload(Bucket=self.name, MultipartUpload=parts, **condition, **upload.named)

    def abort(self, upload: StagedUpload) -> None:
        with (
            suppress(UploadGoneError),
            self.raising("abort the upload of", self.path(upload.key), missing=UploadGoneError),
        ):
            self.client.abort_multipart_upload(Bucket=self.name, **upload.named)

    def is_open(self, upload: StagedUpload) -> bool:
        try:
            with self.raising("look at the upload of", self.path(upload.key), missing=UploadGoneError):
                pages = self.client.get_paginator("list_parts").paginate(Bucket=self.name, **upload.named)
                parts = [part for page in pages for part in page.get("Parts", [])]
        except UploadGoneError:
            return False
        stored = {part["PartNumber"]: (part["ETag"].strip('"'), part["Size"]) for part in parts}
        if stored != {part.number: (part.version.strip('"'), part.size) for part in upload.parts}:
            raise CorruptError(
                f"Cannot publish {self.path(upload.key)}: the parts of its upload are not those that were sent"
            )
        return True

    def state(self, upload: StagedUpload) -> UploadState:
        # in this order: an upload that is completed between the two questions is VISIBLE
        if self.is_open(upload):
            return UploadState.OPEN
        return UploadState.VISIBLE if self.is_visible(upload) else UploadState.GONE

    def promises(self) -> tuple[Promise, ...]:
        return (
            Promise(
                name="ranges are copied",
                sentence="Ranges are copied, and none of an object that has changed.",
                trial=self._try_copied_range,
            ),
        )

    def _try_copied_range(self, place: str) -> str:
        source = f"{place}/a"
        version = create_object(self, source, b"0123456789")
        planned = [StagedUpload(key=self.key(f"{place}/{name}"), origin="probe") for name in "bc"]
        uploads = [S3Upload(self, upload) for upload in planned]
        try:
            copied = uploads[0].copy_part(1, source, version, 2, 4)
            self.complete_hidden(replace(uploads[0].begun, parts=(copied,)))
            require(self.read(f"{place}/b") == b"2345", "a range was copied, and its bytes are others")
            replace_object(self, source, version, b"abcdefghij")
            require_conflict(
                partial(uploads[1].copy_part, 1, source, version, 2, 4), "it copies from an object that has changed"
            )
        finally:
            for upload in uploads:
                upload.stop()
                with suppress(AcidError):
                    self.abort(upload.begun)
        return "4 bytes copied; a stale version refused"


_AMBIGUOUS = frozenset({"InvalidPart", "InvalidRequest"})
"""Codes of a failed completion that stores also give for an upload that is gone."""

MIB = 1 << 20
MIN_PART_BYTES, SENT_PART_BYTES, COPIED_PART_BYTES, MAX_PARTS = 5 * MIB, 8 * MIB, 1024 * MIB, 10_000
GROWING = 1000
"""The number of parts after which their size doubles."""

_TRAVEL_AT_ONCE = 4


class S3Upload(Upload):
    """One upload that is being filled: `send` and `copy` in order, then `finish`. Threads of its own send the parts."""

    def __init__(self, bucket: S3Bucket, planned: StagedUpload) -> None:
        self.bucket = bucket
        self.path = bucket.path(planned.key)
        with bucket.raising("write", self.path):
            answer = bucket.client.create_multipart_upload(
                Bucket=bucket.name, Key=planned.key, Metadata={ORIGIN: planned.origin}, **bucket.creation_arguments
            )
        self.begun = replace(planned, upload_id=answer["UploadId"])
        self._checksum = str(answer.get("ChecksumAlgorithm", ""))
        self._waiting = bytearray()
        self._range: tuple[InBucket, int, int] | None = None  # the range to copy next: its offset and size
        self._parts: list[Future[Part]] = []
        self._threads = ThreadPoolExecutor(_TRAVEL_AT_ONCE, thread_name_prefix="acidlib-upload")

    def send(self, data: Any) -> None:
        """Append bytes."""
        self._settle_range()
        self._waiting += data
        self._send_full()

    def copy(self, source: InBucket, offset: int, size: int) -> None:
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

    def copy_part(self, number: int, path: str, version: str, offset: int, size: int) -> Part:
        """Have the store copy a range of a version of an object; ChangedError when it has another one."""
        try:
            with self.bucket.raising("copy from", path):
                answer = self.bucket.client.upload_part_copy(
                    **self.begun.named,
                    Bucket=self.bucket.name,
                    PartNumber=number,
                    CopySource={"Bucket": self.bucket.name, "Key": self.bucket.key(path)},
                    CopySourceRange=f"bytes={offset}-{offset + size - 1}",
                    CopySourceIfMatch=version,
                )
        except UploadGoneError as error:
            raise UploadGoneError(
                f"Cannot write {self.path}: its upload is gone: another program has aborted it"
            ) from error
        copied = answer["CopyPartResult"]
        return Part(number=number, version=copied["ETag"], size=size, checksums=self._checksums(copied))

    def _copy_part(self, number: int, source: InBucket, version: str, offset: int, size: int) -> Part:
        try:
            return self.copy_part(number, source.name, version, offset, size)
        except ChangedError as error:
            raise CorruptError(
                f"Cannot copy from {source.name}: another object took its place while it was read"
            ) from error

    def _checksums(self, answer: Any) -> dict[str, str]:
        """Return the checksums that the completion has to name again: those of the kind that the store asked for."""
        if not self._checksum:
            return {}
        return {name: text for name, text in answer.items() if name.startswith("Checksum") and name != "ChecksumType"}
