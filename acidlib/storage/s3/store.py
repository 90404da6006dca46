"""How places in a bucket are claimed, staged and published: the parts of this package under one roof."""

from __future__ import annotations

from acidlib.errors import AcidError
from acidlib.storage.claims import BEAT_SECONDS, STALE_SECONDS
from acidlib.storage.s3.claiming import Holder, S3Claim, claim, holder
from acidlib.storage.s3.client import Bucket
from acidlib.storage.s3.data import S3DataFiles
from acidlib.storage.s3.files import S3FileSystem
from acidlib.storage.s3.markers import State, read_marker
from acidlib.storage.s3.probe import require_conditions
from acidlib.storage.s3.publishing import S3Stage, create_stage, remove_staging
from acidlib.storage.s3.unfinished import revoke_others, roll_forward, unfinished_publications
from acidlib.storage.unfinished import RolledForward


class S3Store:
    """Publication in one bucket, by multipart uploads. Locations are paths `s3a://bucket/key`. It may be pickled."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    @property
    def files(self) -> S3FileSystem:
        """What lies in it."""
        return S3FileSystem(self._bucket)

    def data(self) -> S3DataFiles:
        """Its data files, for one task."""
        return S3DataFiles(self._bucket)

    def require_conditions(self, location: str, *, unique: str) -> None:
        """RefusedError when the bucket ignores what publication rests on. To be called once a run and bucket."""
        require_conditions(self._bucket, location, unique=unique)

    def claim(
        self,
        location: str,
        *,
        owner: str,
        token: str,
        now: float,
        beat_seconds: float = BEAT_SECONDS,
        stale_seconds: float = STALE_SECONDS,
    ) -> S3Claim:
        """See `claiming.claim`."""
        return claim(
            self._bucket,
            location,
            owner=owner,
            token=token,
            now=now,
            beat_seconds=beat_seconds,
            stale_seconds=stale_seconds,
        )

    def holder(self, location: str) -> Holder | None:
        """Who holds the claim on a place; None when nobody does."""
        return holder(self._bucket, location)

    def revoke_others(self, location: str) -> None:
        """See `unfinished.revoke_others`."""
        revoke_others(self._bucket, location)

    def unfinished(self, location: str) -> tuple[str, ...]:
        """The staging directories of what was recorded to become visible, and not finished."""
        return unfinished_publications(self._bucket, location)

    def roll_forward(self, location: str, *, visible_only: bool = False) -> tuple[RolledForward, ...]:
        """See `unfinished.roll_forward`."""
        return roll_forward(self._bucket, location, visible_only=visible_only)

    def stage(self, location: str, *, unique: str, owner: str, now: float) -> S3Stage:
        """Begins to stage at a place under a name that no other run has; ConflictError when one has it."""
        return create_stage(self._bucket, location, unique=unique, owner=owner, now=now)

    def remove_staging(self, staging: str) -> str | None:
        """Removes what a dead run staged, and aborts its uploads; None, or why something of it is left.

        Never what is recorded to become visible.
        """
        try:
            marker = read_marker(self._bucket, staging)
            if marker is not None and marker.state is State.RECORDED:
                return f"{staging} holds a publication that is to be finished"
            remove_staging(self._bucket, staging)
        except AcidError as error:
            return str(error)
        return None
