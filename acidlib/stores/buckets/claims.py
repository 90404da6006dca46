"""The claim on a place: one small object that is only ever replaced.

It is never removed: not every store has a removal under a condition. Its content says when it is released. The time for
which its owner has been silent is the difference of two times of the store, so no clock of any machine counts.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

import msgspec

from acidlib.errors import CorruptError
from acidlib.location import Location
from acidlib.stores.buckets.bucket import Bucket, ChangedError, SmallObject, read_object, replace_object
from acidlib.stores.control_files import parse_document
from acidlib.stores.store import CLAIM, Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimObject:
    """The content of the object of a claim; without a token it is released.

    `start` is in seconds since the epoch. `renewals` counts, so that no two contents are ever the same.
    """

    owner: str
    token: str
    start: float
    renewals: int
    process: str = ""
    released: str = ""

    def encode(self) -> bytes:
        """Return the bytes of the object."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(claim: SmallObject) -> ClaimObject:
        """Return the record in an object; for a damaged one that of an unknown owner, which goes stale by itself."""
        try:
            return msgspec.convert(parse_document(claim.data, CLAIM), ClaimObject)
        except (CorruptError, msgspec.ValidationError):
            owner = "an unknown run (its claim is damaged)"
            return ClaimObject(owner=owner, token="", start=claim.modified, renewals=0)


class BucketClaim(Claim):
    """A claim that is an object, see above."""

    def __init__(self, bucket: Bucket, location: Location, record: ClaimObject, version: str) -> None:
        self._bucket = bucket
        self._path = f"{location}/{CLAIM}"
        self._record = record
        self._version = version
        super().__init__(location, record.token)

    def renew(self) -> bool:
        """Count one renewal more."""
        return self._replace(replace(self._record, renewals=self._record.renewals + 1))

    def give_up(self) -> None:
        """Replace the record by a released one."""
        self._replace(replace(self._record, token="", released=self._record.token, renewals=self._record.renewals + 1))

    def _replace(self, record: ClaimObject) -> bool:
        """Replace the record; return False when the claim is no longer ours.

        A request whose answer was lost may have replaced it, even after we gave up waiting: the claim is ours as long
        as it has our token.
        """
        for _ in range(2):
            try:
                self._version = replace_object(self._bucket, self._path, self._version, record.encode())
                self._record = record
                return True
            except ChangedError:
                claim = read_object(self._bucket, self._path)
                if claim is None or (current := ClaimObject.decode(claim)).token != self._record.token:
                    return False
                self._version = claim.version
                record = replace(record, renewals=max(record.renewals, current.renewals + 1))
        return False
