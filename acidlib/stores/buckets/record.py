"""The staging record, the content of the marker of a run's staging directory: it decides between runs.

It is in state `staging` until its run records the publication, or another run revokes it. Both replace the version that
they have read, so only one of them happens: a run that was paused after its last check cannot record any more once it
was revoked, and any run finishes a recorded publication. A state never goes back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import msgspec

from acidlib.errors import ConflictError, CorruptError, RefusedError
from acidlib.location import Location
from acidlib.model.uploads import StagedUpload
from acidlib.stores.buckets.bucket import Bucket, read_object, replace_object
from acidlib.stores.buckets.files import BucketFileSystem
from acidlib.stores.control_files import parse_document
from acidlib.stores.filesystem import MAX_CONTROL_FILE_BYTES
from acidlib.stores.store import STAGING_MARKER, STAGING_PREFIX, PublicationRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadPublication(PublicationRecord):
    """A recorded publication: the uploads to complete, the first one before all others.

    hidden       no reader sees it before a transaction commits, so that no other run has to finish it
    opened_last  `_metadata_acid`, the first upload, keeps readers away until all is there, and is replaced last
    """

    uploads: tuple[StagedUpload, ...]
    hidden: bool
    opened_last: bool


class StagingState(StrEnum):
    """The state of a staging directory."""

    STAGING = "staging"
    RECORDED = "recorded"
    REVOKED = "revoked"


_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingRecord:
    """The content of the marker of a staging directory. `start` is in seconds since the epoch, for people."""

    staging: str
    unique: str
    owner: str
    start: float
    state: StagingState = StagingState.STAGING
    publication: UploadPublication | None = None
    version: str = ""

    @property
    def path(self) -> str:
        """The path of the marker."""
        return f"{self.staging}/{STAGING_MARKER}"

    def encode(self) -> bytes:
        """Return the bytes of the marker."""
        document: dict[str, Any] = {
            "version": _VERSION,
            "state": self.state,
            "unique": self.unique,
            "owner": self.owner,
            "start": self.start,
        }
        if self.publication is not None:
            document["publication"] = msgspec.to_builtins(self.publication)
        return json.dumps(document, ensure_ascii=False, indent=1).encode()

    @staticmethod
    def decode(staging: str, data: bytes, version: str) -> StagingRecord:
        """Return the record in a marker, an object of this version; CorruptError when it cannot be understood."""
        path = f"{staging}/{STAGING_MARKER}"
        try:
            document = parse_document(data, path)
            if document["version"] != _VERSION:
                raise ValueError("another version")
            record = msgspec.convert(document | {"staging": staging, "version": version}, StagingRecord)
            publication = record.publication
            if (publication is None) is (record.state is StagingState.RECORDED):
                raise ValueError("a publication belongs to the state recorded, and to no other")
            if publication is not None:
                publication.require_safe(path)
                own = {f"{key_of_place(staging)}{name}" for name in publication.names}
                if not publication.uploads:
                    raise ValueError("it completes no upload")
                for upload in publication.uploads:
                    if upload.key.rpartition("/")[0] not in own:
                        raise ValueError(f"it completes an upload to {upload.key}, which it does not publish")
            return record
        except (CorruptError, ValueError, KeyError, TypeError) as error:
            raise CorruptError(
                f"Cannot read {path}: it is not a staging record that this version understands ({error})"
            ) from error


def key_of_place(staging: str) -> str:
    """Return how the key of everything begins that lies in the place of a staging directory, given by its URI."""
    place = staging.partition("://")[2].partition("/")[2].rpartition("/")[0]
    return f"{place}/" if place else ""  # the place is the bucket


def read_staging_record(bucket: Bucket, staging: str) -> StagingRecord | None:
    """Return the record of a staging directory; None without a marker. CorruptError when it cannot be understood."""
    marker = read_object(bucket, f"{staging}/{STAGING_MARKER}")
    return None if marker is None else StagingRecord.decode(staging, marker.data, marker.version)


MAX_STAGES, MAX_RECORD_BYTES, MAX_UPLOADS = 1000, 2 * MAX_CONTROL_FILE_BYTES, 20_000
"""Staging directories at a place, bytes of their records, and uploads that these name together.

Dead runs leave a few, and a record as large as one can be names fewer uploads.
"""
MAX_LISTED = 16
"""Uploads in an upload list: one of a task, or the marker files of two directories."""


def staging_records(bucket: Bucket, location: Location) -> Iterator[StagingRecord]:
    """Yield the records of all staging directories at a place, in the order of names, one after the other.

    RefusedError for more than dead runs leave: each user who may write there can make any number of any size, and each
    upload that they name costs requests.
    """
    entries = BucketFileSystem(bucket).list_directory(str(location), missing=ConflictError)
    staging = [entry.name for entry in entries if entry.is_directory and entry.name.startswith(STAGING_PREFIX)]
    too_many = RefusedError(
        f"Cannot look at the runs in {location}: more staging directories ({STAGING_PREFIX}...) lie there than dead "
        "runs leave, or they name more uploads; remove those that no run has made"
    )
    if len(staging) > MAX_STAGES:
        raise too_many
    size = uploads = 0
    for name in staging:
        marker = read_object(bucket, f"{location}/{name}/{STAGING_MARKER}")
        if marker is None:
            continue
        record = StagingRecord.decode(f"{location}/{name}", marker.data, marker.version)
        size += len(marker.data)
        uploads += 0 if record.publication is None else len(record.publication.uploads)
        if size > MAX_RECORD_BYTES or uploads > MAX_UPLOADS:
            raise too_many
        yield record


def change_state(
    bucket: Bucket, record: StagingRecord, state: StagingState, publication: UploadPublication | None = None
) -> StagingRecord:
    """Replace a staging record by one in another state, and return that; ChangedError when another run was faster."""
    changed = replace(record, state=state, publication=publication)
    return replace(changed, version=replace_object(bucket, record.path, record.version, changed.encode()))
