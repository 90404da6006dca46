"""Making uploads visible, and taking them back: what each object that a run makes can still become.

An upload is completed once, aborted once, and never both: the store decides. What its answers leave open is decided
by looking at the object, whose metadata tell whose it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Any

from botocore.exceptions import ClientError

from acidlib.errors import ConflictError, CorruptError, RetryError
from acidlib.storage.s3.attempts import MARK, Attempt, Part
from acidlib.storage.s3.client import Bucket
from acidlib.storage.s3.errors import ChangedError, code_of, is_missing
from acidlib.storage.s3.files import remove_keys

THREADS = 16
_TRIES = 4
_AMBIGUOUS = frozenset({"InvalidPart", "InvalidRequest"})


class Fate(Enum):
    """What has become of an upload."""

    OPEN = "it can be completed"
    VISIBLE = "its object is there"
    GONE = "neither"


class _GoneError(ConflictError):
    """There is no such upload."""


def start_small(bucket: Bucket, attempt: Attempt, data: bytes) -> Attempt:
    """A small file as an upload that is ready to be completed: everything that becomes visible has to be one.

    A sleeper that wakes cannot complete an upload twice; but it could put an object again that was cleaned away.
    """
    path = bucket.path(attempt.key)
    with bucket.raising("write", path):
        upload = bucket.client.create_multipart_upload(
            Bucket=bucket.name, Key=attempt.key, Metadata={MARK: attempt.mark}, **bucket.created
        )["UploadId"]
        part = bucket.client.upload_part(Bucket=bucket.name, Key=attempt.key, UploadId=upload, PartNumber=1, Body=data)
    return Attempt(
        directory=attempt.directory,
        file=attempt.file,
        key=attempt.key,
        upload=upload,
        length=len(data),
        mark=attempt.mark,
        parts=(Part(number=1, version=part["ETag"], size=len(data)),),
    )


def is_ours(bucket: Bucket, attempt: Attempt) -> bool:
    """Whether the object under the final name is the one that this attempt made."""
    return _mark(bucket, attempt.key) == attempt.mark


def fate(bucket: Bucket, attempt: Attempt) -> Fate:
    """What has become of an attempt. Looked at in this order: a completion between both looks shows as VISIBLE."""
    if has_its_parts(bucket, attempt):
        return Fate.OPEN
    return Fate.VISIBLE if is_ours(bucket, attempt) else Fate.GONE


def has_its_parts(bucket: Bucket, attempt: Attempt) -> bool:
    """Whether the upload is still there; CorruptError when its parts are not those that were sent."""
    found: dict[int, tuple[str, int]] = {}
    arguments: dict[str, Any] = {}
    try:
        while True:
            with bucket.raising("look at the upload of", bucket.path(attempt.key), missing=_GoneError):
                page = bucket.client.list_parts(
                    Bucket=bucket.name, Key=attempt.key, UploadId=attempt.upload, **arguments
                )
            found |= {part["PartNumber"]: (part["ETag"].strip('"'), part["Size"]) for part in page.get("Parts", [])}
            if not page.get("IsTruncated"):
                break
            arguments = {"PartNumberMarker": page["NextPartNumberMarker"]}
    except _GoneError:
        return False
    if found != {part.number: (part.version.strip('"'), part.size) for part in attempt.parts}:
        raise CorruptError(
            f"Cannot publish {bucket.path(attempt.key)}: because the parts of its upload are not those that were sent"
        )
    return True


def complete(bucket: Bucket, attempt: Attempt) -> bool:
    """Makes an upload an object; returns whether that is there now, whoever completed it.

    False when the upload is gone and its object is not there: it was aborted, or removed since. ConflictError when
    there is another object of that name.
    """
    path = bucket.path(attempt.key)
    parts: Any = [part.as_completed() for part in attempt.parts]
    tries = 0
    while True:
        try:
            bucket.client.complete_multipart_upload(
                Bucket=bucket.name,
                Key=attempt.key,
                UploadId=attempt.upload,
                MultipartUpload={"Parts": parts},
                IfNoneMatch="*",
            )
            return True
        except Exception as error:
            found = _mark(bucket, attempt.key)
            if found == attempt.mark:
                return True
            is_gone = isinstance(error, ClientError) and (
                is_missing(error) or (code_of(error) in _AMBIGUOUS and not has_its_parts(bucket, attempt))
            )
            if is_gone:
                return False
            try:
                with bucket.raising("publish", path):
                    raise
            except ChangedError:
                if found is not None:
                    raise ConflictError(f"Cannot publish {path}: because it already exists") from error
                tries += 1
                if tries == _TRIES:
                    raise RetryError(
                        f"Cannot publish {path}: because the store calls it a conflict {_TRIES} times"
                    ) from error


def complete_all(bucket: Bucket, attempts: Sequence[Attempt]) -> tuple[bool, ...]:
    """Completes uploads in threads, see `complete`; the first error is raised once all were tried."""
    if not attempts:
        return ()
    with ThreadPoolExecutor(min(THREADS, len(attempts)), thread_name_prefix="acidlib-publish") as threads:
        tried = [threads.submit(complete, bucket, attempt) for attempt in attempts]
    return tuple(one.result() for one in tried)


def abort(bucket: Bucket, key: str, upload: str) -> None:
    """Aborts an upload. The answer decides nothing: it may have been completed, or be gone."""
    path = bucket.path(key)
    try:
        with bucket.raising("abort the upload of", path, missing=_GoneError):
            bucket.client.abort_multipart_upload(Bucket=bucket.name, Key=key, UploadId=upload)
    except _GoneError:
        return


def take_back(bucket: Bucket, attempts: Iterable[Attempt]) -> None:
    """Nothing of these stays visible, or can become so: first all uploads are aborted, then objects of ours removed.

    In this order, as a publisher that sleeps may go on completing: what it completes meanwhile is removed, too. What
    was completed first goes last, as it keeps readers from the others, or is all that they read.
    """
    all_of_them = tuple(attempts)
    for attempt in all_of_them:
        abort(bucket, attempt.key, attempt.upload)
    for some in (all_of_them[1:], all_of_them[:1]):
        if ours := [attempt.key for attempt in some if is_ours(bucket, attempt)]:
            remove_keys(bucket, bucket.path(ours[0].rpartition("/")[0]), ours)


def _mark(bucket: Bucket, key: str) -> str | None:
    """Whose object it is: empty for one that is none of ours; None when there is none."""
    found = bucket.head(bucket.path(key))
    return None if found is None else found["Metadata"].get(MARK, "")
