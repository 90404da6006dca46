"""Whether a store keeps the conditions that publication rests on. Some that speak S3 ignore them and answer 200."""

from __future__ import annotations

from contextlib import suppress

from acidlib.errors import AcidError, ConflictError, RefusedError
from acidlib.storage.s3.attempts import Attempt
from acidlib.storage.s3.claiming import CLAIM_OBJECT
from acidlib.storage.s3.client import Bucket
from acidlib.storage.s3.completing import abort, complete, start_small
from acidlib.storage.s3.conditional import create_object, replace_object
from acidlib.storage.s3.errors import ChangedError
from acidlib.storage.s3.files import remove_keys

_SUFFIX = ".probe.tmp"
"""With the name of a claim before it, what a killed probe leaves is litter."""


def require_conditions(bucket: Bucket, location: str, *, unique: str) -> None:
    """Tries each condition with a hidden object at `location`, and removes it; about a dozen requests.

    RefusedError names the bucket and the first condition that it ignores.
    """
    path = f"{location}/{CLAIM_OBJECT}.{unique}{_SUFFIX}"
    try:
        first = _expect_made(bucket, path)
        second = replace_object(bucket, path, first, b"second")
        _expect_changed(bucket, path, first, f"it replaces an object that has changed ({second} is not {first})")
        _expect_uploads(bucket, path)
    finally:
        with suppress(AcidError):
            remove_keys(bucket, path, [bucket.key(path), bucket.key(path) + ".upload"])


def _expect_made(bucket: Bucket, path: str) -> str:
    first = create_object(bucket, path, b"first")
    with suppress(ChangedError):
        create_object(bucket, path, b"another")
        raise _refused(bucket, "it makes an object that is there already (If-None-Match)")
    return first


def _expect_changed(bucket: Bucket, path: str, stale: str, why: str) -> None:
    with suppress(ChangedError):
        replace_object(bucket, path, stale, b"third")
        raise _refused(bucket, f"{why}, against If-Match")


def _expect_uploads(bucket: Bucket, path: str) -> None:
    taken = _upload(bucket, path)
    try:
        complete(bucket, taken)
    except ConflictError:
        abort(bucket, taken.key, taken.upload)
    else:
        raise _refused(bucket, "it completes an upload over an object that is there (If-None-Match)")
    aborted = _upload(bucket, f"{path}.upload")
    abort(bucket, aborted.key, aborted.upload)
    if complete(bucket, aborted):
        raise _refused(bucket, "it completes an upload that was aborted")


def _upload(bucket: Bucket, path: str) -> Attempt:
    named = Attempt(directory="", file="", key=bucket.key(path), upload="", length=5, mark=path, parts=())
    return start_small(bucket, named, b"probe")


def _refused(bucket: Bucket, why: str) -> RefusedError:
    return RefusedError(
        f"Cannot publish to the bucket {bucket.options.shown}: because {why}, so that of two runs both would win"
    )
