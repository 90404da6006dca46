"""Publication in a bucket, of any kind: files are uploads, and completing these, after a record, publishes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from acidlib.errors import WHEN_FREE, BusyError, ConflictError, CorruptError, RefusedError
from acidlib.location import Location
from acidlib.planning.unfinished import unexplained
from acidlib.processes import has_ended, process_identity
from acidlib.stores.buckets.bucket import (
    Bucket,
    BucketOptions,
    ChangedError,
    SmallObject,
    UploadState,
    create_object,
    read_object,
    replace_object,
)
from acidlib.stores.buckets.claims import BucketClaim, ClaimObject
from acidlib.stores.buckets.files import BucketFileSystem
from acidlib.stores.buckets.record import (
    StagingRecord,
    StagingState,
    UploadPublication,
    change_state,
    read_staging_record,
    staging_records,
)
from acidlib.stores.buckets.stage import BucketStage, complete_all, remove_staging, withdraw, withdraw_or_refuse
from acidlib.stores.buckets.trials import bucket_promises
from acidlib.stores.filesystem import Pace
from acidlib.stores.probe import require_promises
from acidlib.stores.promises import Promise
from acidlib.stores.store import (
    CLAIM,
    METADATA_ACID,
    STAGING_PREFIX,
    STALE_SECONDS,
    ClaimOwner,
    Store,
    covering_at,
    discard_reason,
    rolled_forward,
    utc_time,
)

PROBED: set[BucketOptions] = set()
"""Buckets in which this process has seen that the conditions of publication are kept."""


class BucketStore(Store):
    """Publication in one bucket. It may be pickled."""

    shows_at_once = False

    def __init__(self, bucket: Bucket, *, stale_seconds: float = STALE_SECONDS) -> None:
        """`stale_seconds` is the time for which the owner of a claim may be silent."""
        self.fs = BucketFileSystem(bucket)
        self._bucket = bucket
        self._stale_seconds = stale_seconds

    def claim(self, location: Location, *, owner: str, token: str, now: float) -> BucketClaim:
        """Claim a place.

        `RefusedError` in a bucket that ignores conditions of publication, and for a location that is an object;
        `CorruptError` without one.
        """
        if self._bucket.options not in PROBED:
            self._require_directory(location)
            require_promises(self, location, unique=token)
            PROBED.add(self._bucket.options)
        path = f"{location}/{CLAIM}"
        claim = read_object(self._bucket, path)
        if claim is None:
            self._require_directory(location)
        holder = None if claim is None else self._holder(claim)
        if claim is not None and holder is not None and not holder.is_stale:
            raise BusyError(
                f"Cannot claim {location}: {holder.owner} has worked on it since {utc_time(holder.start)} (last sign "
                f"of life {claim.now - claim.modified:.0f} s ago); {WHEN_FREE}"
            )
        record = ClaimObject(owner=owner, token=token, start=now, renewals=0, process=process_identity())
        try:
            if claim is None:
                version = create_object(self._bucket, path, record.encode())
            else:
                version = replace_object(self._bucket, path, claim.version, record.encode())
        except ChangedError as error:
            raise BusyError(f"Cannot claim {location}: another run claimed it first; {WHEN_FREE}") from error
        return BucketClaim(self._bucket, location, record, version)

    def _require_directory(self, location: Location) -> None:
        if self.fs.is_directory(str(location)):
            return
        if self.fs.exists(str(location)):
            raise RefusedError(f"Cannot claim {location}: it is an object")
        raise CorruptError(f"Cannot claim {location}: there is no object below it")

    def holder(self, location: Location, *, now: float) -> ClaimOwner | None:
        del now  # the bucket has a clock
        claim = read_object(self._bucket, f"{location}/{CLAIM}")
        return None if claim is None else self._holder(claim)

    def _holder(self, claim: SmallObject) -> ClaimOwner | None:
        record = ClaimObject.decode(claim)
        if not record.token and record.released:
            return None
        is_stale = abs(claim.now - claim.modified) > self._stale_seconds or has_ended(record.process)
        return ClaimOwner(owner=record.owner, token=record.token, start=record.start, is_stale=is_stale)

    def promises(self) -> tuple[Promise, ...]:
        return (*bucket_promises(self._bucket), *self._bucket.promises())

    def overwrite(self, path: str, data: bytes) -> None:
        self._bucket.put(path, data)

    def revoke_others(self, location: Location) -> None:
        """Revoke the stages of earlier runs at a place: none of them can publish any more.

        ConflictError when a run records its publication in this moment: then look again. Uploads stay until their
        staging directory is removed: only the record decides. A publication that is hidden until a transaction commits
        is given up as far as it is not complete.
        """
        for record in staging_records(self._bucket, location):
            publication = record.publication
            if record.state is StagingState.REVOKED or (publication is not None and not publication.hidden):
                continue
            try:
                for upload in () if publication is None else publication.uploads:
                    self._bucket.abort(upload)
                change_state(self._bucket, record, StagingState.REVOKED)
            except ChangedError as error:
                current = read_staging_record(self._bucket, record.staging)
                if current is None or current.state is StagingState.REVOKED:
                    continue  # its run has ended it itself
                raise ConflictError(
                    f"Cannot work in {location}: the run that staged {record.staging} has just recorded its publication"
                ) from error

    def stage(self, location: Location, *, unique: str, owner: str, now: float) -> BucketStage:
        """Begin to stage under a name that no other run has; ConflictError when one has it."""
        record = StagingRecord(staging=f"{location}/{STAGING_PREFIX}{unique}", unique=unique, owner=owner, start=now)
        record = replace(record, version=create_object(self._bucket, record.path, record.encode()))
        return BucketStage(self._bucket, location, record)

    def unfinished(self, location: Location) -> tuple[str, ...]:
        return tuple(staging for staging, _ in self._unfinished(location))

    def _unfinished(self, location: Location) -> Iterator[tuple[str, UploadPublication]]:
        """Yield the publications that are recorded to become visible, with their staging directories."""
        for record in staging_records(self._bucket, location):
            if record.publication is not None and not record.publication.hidden:
                yield record.staging, record.publication

    def roll_forward(self, location: Location, *, visible_only: bool = False) -> tuple[str, ...]:
        """Finish every publication that any earlier run recorded at a place and did not complete.

        The run that recorded it may be paused, and go on at any moment: whatever it does then has been done, or cannot
        be done any more.

        * Some of it is visible: the rest is completed. Where an upload is gone, so that it cannot be, all is taken back
          while the inputs are there.
        * Nothing is: it is completed too; but discarded if an input is gone, the name is taken or a wider delta covers
          it: then its rows are in other directories.

        What is discarded stays so where the bucket keeps "aborts are final".

        Raises `CorruptError` where only a person can decide: an upload is gone and so are inputs.
        """
        lines = []
        for staging, publication in self._unfinished(location):
            if visible_only and not any(self._bucket.is_visible(upload) for upload in publication.uploads):
                continue
            # original files right below the place have no directory
            if (why := unexplained(publication.names, publication.inputs or ("",))) is not None:
                raise CorruptError(f"Cannot finish the publication in {staging}: {why}")
            outcome, reason = self._finish_or_discard(location, publication)
            remove_staging(self._bucket, staging, publication.uploads, is_settled=True)
            lines.append(rolled_forward(publication, outcome, reason))
        return tuple(lines)

    def _finish_or_discard(self, location: Location, publication: UploadPublication) -> tuple[str, str | None]:
        """Finish or discard a publication; return the outcome, and why it was discarded."""
        bucket, first = self._bucket, publication.uploads[0]
        states = [bucket.state(upload) for upload in publication.uploads]
        if all(state is UploadState.VISIBLE for state in states):
            opened = read_object(bucket, bucket.path(first.key)) if publication.opened_last else None
            if not publication.opened_last or (opened is not None and opened.data == METADATA_ACID):
                return "was published", None
        if states[0] is UploadState.OPEN:
            reason = discard_reason(self.fs, location, publication)
            if reason is not None:
                bucket.abort(first)
                if not bucket.is_visible(first):  # else its run was faster, and its inputs were there then
                    withdraw(bucket, publication.uploads)
                    return "discarded", reason
        elif states[0] is UploadState.GONE and UploadState.VISIBLE not in states:
            withdraw(bucket, publication.uploads)
            return "discarded", "its first file was given up before, or all of it was removed after it was published"
        try:
            complete_all(bucket, publication)
        except ConflictError as error:
            cover = next(filter(None, covering_at(self.fs, location, publication)), None)
            if cover is not None:
                for upload in publication.uploads:
                    bucket.abort(upload)
                return "discarded", f"{cover} covers it, and a part of it has been removed since"
            withdraw_or_refuse(bucket, self.fs, location, publication, error)
            return "discarded", f"it cannot be completed, and all its inputs are still there: {error}"
        return "finished", None

    def remove(
        self,
        location: Location,
        relative: str,
        *,
        identity: str = "",  # noqa: ARG002 - there is none
        pace: Pace | None = None,
    ) -> None:
        """Remove objects, and with a staging directory its uploads."""
        if relative.startswith(STAGING_PREFIX) and "/" not in relative:
            remove_staging(self._bucket, f"{location}/{relative}")
            if not self.fs.exists(f"{location}/{relative}"):
                return
        self.fs.remove_tree(str(location), relative, pace=pace)
