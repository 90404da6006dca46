"""The claim on a place in a bucket: one small object that is only ever replaced, and never removed.

Released, it says so: a removal under a condition is not to be had everywhere. How long its owner has been silent is the
difference of two times of the store, so no clock of any machine counts.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from acidlib.errors import WHEN_FREE, BusyError, CorruptError, RefusedError
from acidlib.model.location import Location
from acidlib.processes import has_ended, process_identity
from acidlib.stores.held import BEAT_SECONDS, Claim
from acidlib.stores.renaming.claims import STALE_SECONDS
from acidlib.stores.s3.client import Bucket, ChangedError, SmallObject, create_object, read_object, replace_object
from acidlib.stores.s3.files import S3FileSystem

CLAIM_OBJECT = "_acidlib_claim"


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What the object of a claim says; without a token it is released.

    `start` is in seconds since the epoch. No two contents are ever the same, for what `renewals`
    counts.
    """

    owner: str
    token: str
    start: float
    renewals: int
    process: str = ""
    released: str = ""

    def encode(self) -> bytes:
        """The contents of the object."""
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a claim. `idle_seconds` since the last renewal, by the store's clock."""

    owner: str
    token: str
    start: float
    idle_seconds: float
    process: str

    def is_stale(self, stale_seconds: float = STALE_SECONDS) -> bool:
        """Whether the owner counts as dead."""
        return abs(self.idle_seconds) > stale_seconds or has_ended(self.process)


class S3Claim(Claim):
    """A claim that is an object, see above."""

    def __init__(self, bucket: Bucket, location: Location, words: Words, version: str, beat_seconds: float) -> None:
        self._bucket = bucket
        self._path = f"{location}/{CLAIM_OBJECT}"
        self._words = words
        self._version = version
        super().__init__(location, words.token, beat_seconds)

    def renew(self) -> bool:
        """Count one renewal more."""
        return self._say(replace(self._words, renewals=self._words.renewals + 1))

    def give_up(self) -> None:
        """Say that it is released."""
        self._say(replace(self._words, token="", released=self._words.token, renewals=self._words.renewals + 1))

    def _say(self, words: Words) -> bool:
        """Have the object say something else; False when it is no longer ours.

        A request whose answer was lost may have changed it, even after we gave up waiting: it is ours as long as it
        has our token.
        """
        for _ in range(2):
            try:
                self._version = replace_object(self._bucket, self._path, self._version, words.encode())
                self._words = words
                return True
            except ChangedError:
                found = read_object(self._bucket, self._path)
                said = None if found is None else _decode(found)
                if found is None or said is None or said.token != self._words.token:
                    return False
                self._version = found.version
                words = replace(words, renewals=max(words.renewals, said.renewals + 1))
        return False


def holder(bucket: Bucket, location: Location) -> Holder | None:
    """Who holds the claim on a place, alive or not; None when nobody does."""
    found = read_object(bucket, f"{location}/{CLAIM_OBJECT}")
    return None if found is None else _holder(found)


def claim(
    bucket: Bucket,
    location: Location,
    *,
    owner: str,
    token: str,
    now: float,
    beat_seconds: float = BEAT_SECONDS,
    stale_seconds: float = STALE_SECONDS,
) -> S3Claim:
    """Claims a place for `owner` (a name for people) under the unique `token`; `now` is for people, too.

    Raises `ConflictError` naming the holder while its claim is alive, or when another taker was faster; `RefusedError`
    for a location that is an object; `CorruptError` without one.
    """
    _require_place(bucket, location)
    path = f"{location}/{CLAIM_OBJECT}"
    words = Words(owner=owner, token=token, start=now, renewals=0, process=process_identity())
    found = read_object(bucket, path)
    held = None if found is None else _holder(found)
    if held is not None and not held.is_stale(stale_seconds):
        raise BusyError(
            f"Cannot claim {location}: {held.owner} has worked on it since {_instant(held.start)} (last sign of life "
            f"{held.idle_seconds:.0f} s ago); {WHEN_FREE}"
        )
    try:
        if found is None:
            version = create_object(bucket, path, words.encode())
        else:
            version = replace_object(bucket, path, found.version, words.encode())
    except ChangedError as error:
        raise BusyError(f"Cannot claim {location}: another run claimed it first; {WHEN_FREE}") from error
    return S3Claim(bucket, location, words, version, beat_seconds)


def _require_place(bucket: Bucket, location: Location) -> None:
    fs = S3FileSystem(bucket)
    if fs.is_directory(str(location)):
        return
    if fs.exists(str(location)):
        raise RefusedError(f"Cannot claim {location}: because it is an object")
    raise CorruptError(f"Cannot claim {location}: because there is no object below it")


def _holder(found: SmallObject) -> Holder | None:
    words = _decode(found)
    if not words.token and words.released:
        return None
    return Holder(
        owner=words.owner,
        token=words.token,
        start=words.start,
        idle_seconds=found.now - found.modified,
        process=words.process,
    )


def _decode(found: SmallObject) -> Words:
    try:
        document = json.loads(found.data)
        return Words(
            owner=str(document["owner"]),
            token=str(document["token"]),
            start=float(document["start"]),
            renewals=int(document["renewals"]),
            process=str(document["process"]),
            released=str(document["released"]),
        )
    except (ValueError, KeyError, TypeError):  # damaged: it goes stale by itself
        return Words(owner="an unknown run (its claim is damaged)", token="", start=found.modified, renewals=0)


def _instant(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{seconds} s"
