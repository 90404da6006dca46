"""Small objects that change hands by conditions: made only if absent, replaced only if unchanged.

A request whose answer is lost is repeated, by boto3 or here; the condition then fails because of our own first
request. So whenever one fails the object is looked at: what holds the contents that we wrote is ours, for which
contents have to be unique to one writing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from acidlib.errors import ConflictError, RetryError
from acidlib.storage.s3.client import Bucket
from acidlib.storage.s3.errors import ChangedError, UnderWayError

_TRIES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallObject:
    """A small object as it was read.

    version   its ETag
    modified  seconds since the epoch by the store's clock, whole ones
    now       the same clock when it was read
    """

    data: bytes
    version: str
    modified: float
    now: float
    metadata: dict[str, str]


def read_object(bucket: Bucket, path: str) -> SmallObject | None:
    """The object at a path; None when there is none."""
    try:
        with bucket.raising("read", path, missing=_AbsentError):
            answer, data = bucket.get(path)
    except _AbsentError:
        return None
    return SmallObject(
        data=data,
        version=answer["ETag"],
        modified=seconds(answer["LastModified"]),
        now=_date(answer),
        metadata=answer.get("Metadata", {}),
    )


def create_object(bucket: Bucket, path: str, data: bytes) -> str:
    """Makes an object whose contents are unique, and returns its version; ChangedError when there is another one."""
    return _put(bucket, path, data, {"IfNoneMatch": "*"})


def replace_object(bucket: Bucket, path: str, version: str, data: bytes, metadata: dict[str, str] | None = None) -> str:
    """Replaces an object of this version by unique contents; ChangedError when it has changed or is gone."""
    return _put(bucket, path, data, {"IfMatch": version, "Metadata": metadata or {}})


def seconds(modified: datetime) -> float:
    """A time of the store in whole seconds since the epoch: listings are finer than other answers in some stores."""
    return float(int(modified.timestamp()))


def _put(bucket: Bucket, path: str, data: bytes, condition: dict[str, Any]) -> str:
    def put() -> str:
        with bucket.raising("write", path, missing=ChangedError):
            answer = bucket.client.put_object(
                Bucket=bucket.name, Key=bucket.key(path), Body=data, **condition, **bucket.created
            )
        return answer["ETag"]

    return _settled(bucket, path, data, put)


def _settled(bucket: Bucket, path: str, data: bytes, put: Callable[[], str]) -> str:
    """What came of a conditional request: its version, or why it was not carried out.

    An answer that another request was under way says nothing, so it is sent again a few times (AWS, "conditional
    writes": 409 ConditionalRequestConflict).
    """
    tries = 0
    while True:
        try:
            return put()
        except (ChangedError, RetryError) as error:
            found = read_object(bucket, path)
            if found is not None and found.data == data:
                return found.version
            tries += 1
            if not isinstance(error, UnderWayError) or tries == _TRIES:
                raise error


def _date(answer: Any) -> float:
    header = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    if header is None:
        raise RetryError("Cannot tell the time of the store: because its answers have no Date")
    return parsedate_to_datetime(header).timestamp()


class _AbsentError(ConflictError):
    """There is no such object."""
