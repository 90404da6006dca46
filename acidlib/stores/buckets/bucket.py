"""What a bucket does, of any kind: objects under conditions, listings, ranges, and uploads that no reader sees.

Small objects are made only if absent, replaced only if unchanged. A request whose answer is lost is repeated, by the
client or here; the condition then fails because of our own first request. So after each failed condition the object is
read: if it holds the contents that we wrote, the request was carried out. So contents have to be unique to one request.

A file to publish is an upload that holds all of its bytes and is not completed. No reader sees it, and any process that
has it as a value may complete it. It is completed once, aborted once, and never both. Where answers leave that open,
the object does not: its metadata tell which run made it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol

from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential

from acidlib.datafiles import SourceFile
from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError
from acidlib.location import StoreKind
from acidlib.model.uploads import StagedUpload
from acidlib.stores.filesystem import Pace
from acidlib.stores.promises import Promise
from acidlib.wording import plural

ORIGIN = "acidlib"
"""The name of an object's metadata that holds `StagedUpload.origin`."""

_PATH = re.compile(r"([a-z0-9]+)://([^/]+)(?:/(.*))?", re.DOTALL)
CONFLICT_TRIES = stop_after_attempt(4)
CONFLICT_PAUSES = wait_exponential(multiplier=0.1)
"""Tries of a request that another one under way has stopped; the pauses between them are 0.1, 0.2 and 0.4 s."""


class ChangedError(ConflictError):
    """A condition of a request did not hold: the object has changed, or is there already."""


class UploadGoneError(RetryError):
    """An upload was aborted, or completed, by another program: a new one may succeed."""


class UnderWayError(ChangedError):
    """Another request for the object was under way: whether the condition holds is not known."""


class UndecidedError(RetryError):
    """The store called a completion a conflict, and there is no object under its name: a later try may succeed."""


class AbsentError(ConflictError):
    """There is no such object."""


class StoredObject(NamedTuple):
    """An object as listings and looks at it show it. A tuple, as there may be hundreds of thousands.

    modified  seconds since the epoch by the store's clock, whole ones
    version   tells it from another object of its key, as far as the store can
    origin    of the upload that it was; empty for an object of another program, None where a listing does not tell
    """

    key: str
    length: int
    modified: float
    version: str
    origin: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallObject:
    """A small object as it was read; see `StoredObject`.

    now  the time of the read, by the clock of `modified`
    """

    data: bytes
    version: str
    modified: float
    now: float
    origin: str


class ListedPage(NamedTuple):
    """One page of a listing: objects, and with a delimiter the prefixes up to it."""

    objects: tuple[StoredObject, ...]
    prefixes: tuple[str, ...] = ()


class ObjectRange(NamedTuple):
    """Bytes of an object, its version, and the length of the whole."""

    data: bytes
    version: str
    total: int


class UploadState(Enum):
    """The state of an upload of a recorded publication."""

    OPEN = "it can be completed"
    VISIBLE = "its object is there"
    GONE = "neither"


class InBucket(SourceFile, Protocol):
    """An object that is open for reading. `version` is that of all reads."""

    @property
    def version(self) -> str:
        """The version of the object; one request before the first read."""

    @property
    def total(self) -> int:
        """The length of the whole object."""


class Upload(ABC):
    """One upload that is being filled: `send` and `copy` in order, then `finish`."""

    begun: StagedUpload
    """The upload as it was begun."""

    @abstractmethod
    def send(self, data: Any) -> None:
        """Append bytes."""

    @abstractmethod
    def copy(self, source: InBucket, offset: int, size: int) -> None:
        """Append a range of another object of this bucket."""

    @abstractmethod
    def finish(self) -> StagedUpload:
        """Send the rest, wait until the store has all, and return the upload; it is not completed."""

    @abstractmethod
    def stop(self) -> None:
        """Send no more, and wait for what is on its way: what arrives after an abort would stay for ever."""


class BucketOptions(Protocol):
    """How one bucket is reached. Hashable; its secrets are never printed."""

    @property
    def bucket(self) -> str:
        """The name of the bucket."""

    @property
    def shown(self) -> str:
        """The bucket and where it is reached, for messages."""


class Bucket(ABC):
    """The connection to one bucket. It may be pickled and forked: each process makes a client of its own.

    Paths are whole URIs, keys the names of objects in the bucket. A missing object is `missing` where a method takes
    it, a missing bucket MissingError; wrong keys, missing rights, networks and busy servers are RetryError.
    """

    __slots__ = ()

    kind: StoreKind
    """Of the bucket's store."""

    absent: str
    unchanged: str
    """The names of the conditions that there is no object, and that it has not changed."""

    is_listed: bool
    """What an upload consists of lies in its staging directory, so that it ends with that; else a list names it."""

    @property
    @abstractmethod
    def options(self) -> BucketOptions:
        """How it is reached."""

    @property
    def name(self) -> str:
        """The bucket's name."""
        return self.options.bucket

    def key(self, path: str) -> str:
        """Return the key of a path, without a slash at its end; empty for the bucket. RefusedError in another one."""
        parsed = _PATH.fullmatch(path)
        if parsed is None or parsed[1] not in self.kind.schemes or parsed[2] != self.name:
            raise RefusedError(f"Cannot use {path}: it does not lie in the bucket {self.name}")
        return (parsed[3] or "").strip("/")

    def path(self, key: str) -> str:
        """Return the path of a key."""
        return f"{self.kind.schemes[0]}://{self.name}/{key}"

    @abstractmethod
    def look(self, path: str) -> StoredObject | None:
        """Return the object at a path, with its origin; None without one."""

    @abstractmethod
    def pages(self, path: str, prefix: str, *, delimiter: str = "", at_most: int = 0) -> Iterator[ListedPage]:
        """Yield the objects whose keys have a prefix, in the order of keys; with `at_most` the first ones alone.

        path  is named where it fails
        """

    @abstractmethod
    def read(self, path: str, *, missing: type[AcidError] = CorruptError) -> bytes:
        """Return the contents of a small object; CorruptError for a large one."""

    @abstractmethod
    def read_small(self, path: str, *, missing: type[AcidError] = CorruptError) -> SmallObject:
        """Return a small object with its version and times; CorruptError for a large one."""

    @abstractmethod
    def read_range(self, path: str, offset: int, size: int, version: str | None) -> ObjectRange | None:
        """Return a range, as far as the object goes; None where it begins behind its end.

        ChangedError unless the object has the version, if one is given.
        """

    @abstractmethod
    def write(self, path: str, data: bytes, *, version: str | None, origin: str = "") -> str:
        """Make an object, or replace one of a version; return its version. ChangedError when the condition fails."""

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """Make or replace an object, whatever there is."""

    @abstractmethod
    def remove(self, path: str, objects: Mapping[str, str], *, pace: Pace | None = None) -> None:
        """Remove objects below `path`, given by their keys with their versions, or empty texts for any.

        RetryError names the first that the store kept, and how many it kept. A missing one is no error.
        """

    @abstractmethod
    def begin(self, planned: StagedUpload, hidden: str) -> Upload:
        """Begin an upload. `hidden` is a path that no reader sees and no other upload has, for what it consists of."""

    @abstractmethod
    def complete(self, upload: StagedUpload) -> bool:
        """Make an upload an object; return whether the object is there now, whichever run completed the upload.

        False when both are gone: the upload was aborted, or the object removed since. ConflictError when another object
        has the name.
        """

    @abstractmethod
    def complete_hidden(self, upload: StagedUpload) -> None:
        """Make an upload to a hidden path an object, for its own task."""

    @abstractmethod
    def abort(self, upload: StagedUpload) -> None:
        """Abort an upload. The answer decides nothing: it may have been completed, or be gone."""

    @abstractmethod
    def is_open(self, upload: StagedUpload) -> bool:
        """Tell whether an upload can be completed; CorruptError when it does not consist of what was sent."""

    def is_visible(self, upload: StagedUpload) -> bool:
        """Tell whether the object under the final name is the one that this upload became."""
        stored = self.look(self.path(upload.key))
        return stored is not None and stored.origin == upload.origin

    @abstractmethod
    def state(self, upload: StagedUpload) -> UploadState:
        """Return the state of an upload. One that is completed meanwhile is VISIBLE."""

    def promises(self) -> tuple[Promise, ...]:
        """Return what a kind of bucket promises beyond what all of them do."""
        return ()


def read_object(bucket: Bucket, path: str) -> SmallObject | None:
    """Return the object at a path; None when there is none."""
    try:
        return bucket.read_small(path, missing=AbsentError)
    except AbsentError:
        return None


def create_object(bucket: Bucket, path: str, data: bytes) -> str:
    """Make an object whose contents are unique, and return its version; ChangedError when there is another one."""
    return _write(bucket, path, data, None)


def replace_object(bucket: Bucket, path: str, version: str, data: bytes, origin: str = "") -> str:
    """Replace an object of this version by unique contents; ChangedError when it has changed or is gone."""
    return _write(bucket, path, data, version, origin)


@retry(retry=retry_if_exception_type(UnderWayError), stop=CONFLICT_TRIES, wait=CONFLICT_PAUSES, reraise=True)
def _write(bucket: Bucket, path: str, data: bytes, version: str | None, origin: str = "") -> str:
    """Make a conditional request; return the object's version, or raise why it was not carried out.

    While another request is under way the condition is not looked at, so the request is sent again a few times (AWS,
    "conditional writes": 409 ConditionalRequestConflict).
    """
    try:
        return bucket.write(path, data, version=version, origin=origin)
    except (ChangedError, RetryError):
        current = read_object(bucket, path)
        if current is not None and current.data == data:
            return current.version
        raise


def kept_error(path: str, count: int, kept: Iterable[str]) -> RetryError:
    """Return the error for objects that a store did not remove, given in words."""
    first, *more = kept
    return RetryError(
        f"Cannot remove {path}: the store kept {len(more) + 1} of {plural(count, 'object')}, first {first}"
    )
