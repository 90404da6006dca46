"""`Store` in a bucket: claims, stages and publications of this package, by locations."""

from __future__ import annotations

from collections.abc import Callable

from acidlib.errors import RefusedError
from acidlib.model.location import Location
from acidlib.storage.removing import Trash
from acidlib.storage.s3.claiming import S3Claim, claim, holder
from acidlib.storage.s3.client import Bucket
from acidlib.storage.s3.files import S3FileSystem
from acidlib.storage.s3.options import BucketOptions
from acidlib.storage.s3.probe import require_conditions
from acidlib.storage.s3.publishing import S3Stage, create_stage, remove_staging
from acidlib.storage.s3.unfinished import revoke_others, roll_forward, unfinished_publications
from acidlib.storage.staging import STAGING_PREFIX
from acidlib.storage.store import Holder
from acidlib.storage.unfinished import RolledForward

_PROBED: set[BucketOptions] = set()
"""Buckets that keep the conditions, as this process has seen."""


class S3Store:
    """Publication in one bucket, by multipart uploads. It may be pickled."""

    shows_at_once = False

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def claim(self, location: Location, *, owner: str, token: str, now: float) -> S3Claim:
        """RefusedError in a bucket that ignores what publication rests on, too."""
        if self._bucket.options not in _PROBED:
            require_conditions(self._bucket, str(location), unique=token)
            _PROBED.add(self._bucket.options)
        return claim(self._bucket, location, owner=owner, token=token, now=now)

    def require_conditions(self, location: Location, *, unique: str) -> None:
        """Tries them, also where a run has done so before; see `acidlib.storage.s3.probe`."""
        require_conditions(self._bucket, str(location), unique=unique)

    def holder(self, location: Location, *, now: float) -> Holder | None:
        del now  # the bucket has a clock
        found = holder(self._bucket, location)
        return None if found is None else Holder(owner=found.owner, token=found.token, is_stale=found.is_stale())

    def revoke_others(self, location: Location) -> None:
        revoke_others(self._bucket, location)

    def stage(self, location: Location, *, unique: str, owner: str, now: float) -> S3Stage:
        return create_stage(self._bucket, location, unique=unique, owner=owner, now=now)

    def trash(self, location: Location, name: str) -> Trash:
        del name
        raise _no_trash(location)

    def trash_place(self, location: Location) -> str:
        raise _no_trash(location)

    def take_out_of_sight(self, location: Location, relative: str, unique: str) -> None:
        """Nothing can be renamed in a bucket."""
        del location, relative, unique

    def make_durable(self, location: Location) -> None:
        """It is as soon as the store has answered."""

    def take_back(
        self,
        location: Location,
        directories: tuple[str, ...],
        *,
        aside: str,
        inputs: tuple[str, ...],
        unique: str,
        owner: str,
        now: float,
        last_check: Callable[[], None],
    ) -> None:
        """Never: see `require_taking_back`."""
        del directories, aside, inputs, unique, owner, now, last_check
        self.require_taking_back(location)

    def require_taking_back(self, location: Location) -> None:
        """Objects go one by one: a reader would take what is left of a result for all of it, and lose rows."""
        raise RefusedError(
            f"Cannot take a result back in {location}: because nothing can be renamed in a bucket: its objects would "
            "go one by one, and what is left of a base still hides what it was made of"
        )

    def remove(self, location: Location, relative: str) -> None:
        """Of what a run has staged the uploads, too."""
        if relative.startswith(STAGING_PREFIX) and "/" not in relative:
            remove_staging(self._bucket, f"{location}/{relative}")
            if not S3FileSystem(self._bucket).exists(f"{location}/{relative}"):
                return
        S3FileSystem(self._bucket).remove_tree(str(location), relative)

    def unfinished(self, location: Location) -> tuple[str, ...]:
        return unfinished_publications(self._bucket, location)

    def roll_forward(self, location: Location, *, visible_only: bool = False) -> tuple[RolledForward, ...]:
        return roll_forward(self._bucket, location, visible_only=visible_only)


def _no_trash(location: Location) -> RefusedError:
    return RefusedError(
        f"Cannot move aside in {location}: because nothing can be moved in a bucket; without --trash it is removed, "
        "and a bucket with versions keeps it"
    )
