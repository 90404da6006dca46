"""`Store` in a bucket, and whether the bucket keeps the conditions that publication rests on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from acidlib.errors import AcidError, ConflictError, RefusedError
from acidlib.model.location import Location
from acidlib.stores.removing import Trash
from acidlib.stores.renaming.publishing import STAGING_PREFIX, RolledForward
from acidlib.stores.s3.claiming import CLAIM_OBJECT, S3Claim, claim, holder
from acidlib.stores.s3.client import Bucket, BucketOptions, ChangedError, create_object, replace_object
from acidlib.stores.s3.files import S3FileSystem, remove_keys
from acidlib.stores.s3.publishing import (
    Attempt,
    S3Stage,
    abort,
    complete,
    create_stage,
    remove_staging,
    revoke_others,
    roll_forward,
    start_small,
    unfinished_publications,
)
from acidlib.stores.store import Holder

# --- probe ------------------------------------------------------------------------------------------------------------
# Whether a store keeps the conditions that publication rests on. Some that speak S3 ignore them and answer 200.

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


# --- store ------------------------------------------------------------------------------------------------------------
# `Store` in a bucket: claims, stages and publications of this package, by locations.

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
        """Tries them, also where a run has done so before; see `acidlib.stores.s3.store`."""
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
