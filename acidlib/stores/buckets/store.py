"""Publication in a bucket: files are uploads, and completing these, after a record that says so, publishes them.

The claim on a place is one small object that is only ever replaced, and never removed: not every store has a removal
under a condition. Its content says when it is released. The time for which its owner has been silent is the difference
of two times of the store, so no clock of any machine counts.

The marker of a run's staging directory is one object too, and its content, the staging record, decides between runs. It
is in state `staging` until its run records the publication, or another run revokes it. Both replace the version that
they have read, so only one of them happens: a run that was paused after its last check cannot record any more once it
was revoked, and any run finishes a recorded publication. A state never goes back.

An upload is completed once, aborted once, and never both: the store decides. Where its answers leave that open, the
object does not: its metadata tell which run made it. The first upload is completed alone: while it is neither completed
nor aborted nothing of the publication is visible, so a run that aborts it first has discarded all.

Several files of a base whose name hides them from no reader (Hive 3.1) become visible one after the other. There the
first is a `_metadata_acid` of a kind that no reader knows: each fails at this base instead of reading half of it (Hive
AcidUtils.MetaDataFile), until the file is replaced by the right one at the end. Nothing keeps readers away from several
files of deltas: these are refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import Enum, StrEnum
from typing import Any

import msgspec

from acidlib.acid.names import ANY_NAMES, METADATA_ACID_FILE, DeltaDir, parse_directory
from acidlib.arguments import VISIBILITY_TXN
from acidlib.errors import (
    WHEN_FREE,
    AcidError,
    BusyError,
    ConflictError,
    CorruptError,
    RefusedError,
    RetryError,
    UnknownOutcomeError,
)
from acidlib.location import Location
from acidlib.model.uploads import StagedUpload
from acidlib.planning.unfinished import unexplained
from acidlib.points import Point, reach
from acidlib.processes import has_ended, process_identity
from acidlib.stores.buckets.files import (
    ORIGIN,
    UPLOAD_LIST_PREFIX,
    S3FileSystem,
    abort,
    complete,
    is_open,
    is_visible,
    remove_keys,
    upload_list_path,
    upload_small,
    write_upload_list,
)
from acidlib.stores.buckets.trials import bucket_promises
from acidlib.stores.control_files import parse_document
from acidlib.stores.filesystem import MAX_CONTROL_FILE_BYTES, FileSystem, Pace
from acidlib.stores.listing import UNFINISHED_FORMAT
from acidlib.stores.probe import require_promises
from acidlib.stores.promises import Promise
from acidlib.stores.s3.client import (
    Bucket,
    BucketOptions,
    ChangedError,
    SmallObject,
    create_object,
    read_object,
    replace_object,
)
from acidlib.stores.store import (
    CLAIM,
    METADATA_ACID,
    STAGING_MARKER,
    STAGING_PREFIX,
    STALE_SECONDS,
    Claim,
    ClaimOwner,
    PublicationRecord,
    Published,
    Stage,
    StagedDirectory,
    StagedFile,
    Store,
    covering_at,
    discard_reason,
    marker_files,
    missing_input,
    refuse_existing,
    require_suffixes,
    rolled_forward,
    utc_time,
)


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


class S3Claim(Claim):
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
                own = {f"{_place_key(staging)}{name}" for name in publication.names}
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


def _place_key(staging: str) -> str:
    """Return how the key of everything begins that lies in the place of a staging directory, given by its URI."""
    return staging.partition("://")[2].partition("/")[2].rpartition("/")[0] + "/"


def read_staging_record(bucket: Bucket, staging: str) -> StagingRecord | None:
    """Return the record of a staging directory; None without a marker. CorruptError when it cannot be understood."""
    marker = read_object(bucket, f"{staging}/{STAGING_MARKER}")
    return None if marker is None else StagingRecord.decode(staging, marker.data, marker.version)


MAX_STAGES, MAX_RECORD_BYTES, MAX_UPLOADS = 1000, 2 * MAX_CONTROL_FILE_BYTES, 20_000
"""Staging directories at a place, bytes of their records, and uploads that these name together.

Dead runs leave a few, and a record as large as one can be names fewer uploads.
"""
_MAX_LISTED = 16
"""Uploads in an upload list: one of a task, or the marker files of two directories."""


def staging_records(bucket: Bucket, location: Location) -> Iterator[StagingRecord]:
    """Yield the records of all staging directories at a place, in the order of names, one after the other.

    RefusedError for more than dead runs leave: each user who may write there can make any number of any size, and each
    upload that they name costs requests.
    """
    entries = S3FileSystem(bucket).list_directory(str(location), missing=ConflictError)
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


_DRIVERS_LIST = f"{UPLOAD_LIST_PREFIX}driver"


class S3Stage(Stage):
    """The uploads of a run for a place, until they are published or discarded."""

    is_readable = False  # an upload cannot be read before it is completed

    def __init__(self, bucket: Bucket, location: Location, record: StagingRecord) -> None:
        self.path = record.staging
        self._bucket = bucket
        self._location = location
        self._record = record
        self._accepted: dict[tuple[str, str], StagedUpload] = {}
        self._published: tuple[StagedUpload, ...] | None = None
        self._is_removed = False

    def accept(self, directory: str, files: Sequence[StagedFile]) -> StagedDirectory:
        """Take these as the files of a directory. A second one of the same name is a ConflictError."""
        prefix = self._bucket.key(f"{self._location}/{directory}")
        lengths = {}
        for file in files:
            upload = file.upload
            if (
                upload is None
                or upload.key != f"{prefix}/{upload.file}"
                or not upload.origin.startswith(f"{self._record.unique}/")
            ):
                raise ValueError(f"{file.path} was not made for {self.path} and {directory}")
            if (directory, upload.file) in self._accepted:
                raise ConflictError(f"Cannot accept {upload.key}: there is another attempt at it")
            self._accepted[directory, upload.file] = upload
            lengths[upload.file] = upload.length
        return StagedDirectory(name=directory, files=lengths)

    def publish(
        self, directories: Sequence[StagedDirectory], *, inputs: tuple[str, ...], last_check: Callable[[], None]
    ) -> Published:
        """Make one directory visible whose name hides it from no reader; see `Stage.publish`.

        `CorruptError` for files that were not accepted. RefusedError where readers would see a half: for two
        directories, or a delta of several files.
        """
        if len(directories) != 1:
            raise RefusedError(
                f"Cannot publish {' and '.join(item.name for item in directories)} in {self._location}: in a "
                "bucket several directories cannot become visible at once; a major compaction makes one"
            )
        (directory,) = directories
        parsed = parse_directory(directory.name, ANY_NAMES)
        if parsed is None:
            raise ValueError(f"{directory.name!r} is not the name of an ACID directory")
        several = (
            f"Cannot publish {directory.name} in {self._location}: in a bucket its {len(directory.files)} "
            "files cannot become visible at once"
        )
        if parsed.visibility_txn and len(directory.files) > 1:
            # Hive 4 asks such a base for no marker (AcidUtils.isCompactedBase), so nothing keeps readers from it
            raise RefusedError(
                f"{several}, and a name with a transaction hides them from no reader; leave {VISIBILITY_TXN} out"
            )
        if isinstance(parsed, DeltaDir) and len(directory.files) > 1:
            raise RefusedError(f"{several}; a major compaction makes a base, at which readers wait")
        return self._publish(directories, inputs, last_check, hidden=False)

    def publish_hidden(self, directories: Sequence[StagedDirectory], *, last_check: Callable[[], None]) -> Published:
        require_suffixes(directories)
        return self._publish(directories, (), last_check, hidden=True)

    def _publish(
        self,
        directories: Sequence[StagedDirectory],
        inputs: tuple[str, ...],
        last_check: Callable[[], None],
        *,
        hidden: bool,
    ) -> Published:
        bucket = self._bucket
        refuse_existing(S3FileSystem(bucket), self._location, directories)
        publication = self._sealed(directories, inputs, hidden=hidden)
        reach(Point.SEALED)
        try:
            last_check()
            reach(Point.CHECKED)
            self._record = change_state(bucket, self._record, StagingState.RECORDED, publication)
        except ChangedError as error:
            raise ConflictError(
                f"Cannot publish in {self._location}: another run has revoked this one's staging directory"
            ) from error
        # after any other error the state may still become `recorded`, until `discard` decides
        reach(Point.RECORDED)
        try:
            complete_all(bucket, publication)
        except AcidError as error:
            self._end_failed(publication, error)
            raise
        reach(Point.SECOND_RENAMED)
        self._published = publication.uploads
        self.discard()  # the caller calls it again, and reports its failure
        reach(Point.UNRECORDED)
        return Published(directories=publication.names, kind="commit" if hidden else "completed uploads")

    def _sealed(
        self, directories: Sequence[StagedDirectory], inputs: tuple[str, ...], *, hidden: bool
    ) -> UploadPublication:
        """Return all that is to be completed, in order, with the marker files that every directory gets."""
        accepted = [self._accepted_uploads(directory) for directory in directories]
        begun: list[StagedUpload] = []
        uploads: list[StagedUpload] = []
        opened_last = False
        try:
            for directory, files in zip(directories, accepted, strict=True):
                contents = marker_files(directory.name)
                if METADATA_ACID_FILE in contents and len(files) > 1:
                    opened_last = True
                    unfinished = {"thisFileVersion": "0", "dataFormat": UNFINISHED_FORMAT, "run": self._record.unique}
                    contents[METADATA_ACID_FILE] = json.dumps(unfinished).encode()
                markers = {}
                for file, data in contents.items():
                    key = self._bucket.key(f"{self._location}/{directory.name}/{file}")
                    planned = StagedUpload(key=key, origin=f"{self._record.unique}/{file}")
                    markers[file] = upload_small(self._bucket, planned, data)
                    begun.append(markers[file])
                first = [markers.pop(METADATA_ACID_FILE)] if opened_last else []
                uploads += [*first, *files, *markers.values()]
            write_upload_list(self._bucket, f"{self.path}/{_DRIVERS_LIST}", begun)
        except BaseException:
            for upload in begun:  # no upload list names them yet
                with suppress(AcidError):
                    abort(self._bucket, upload)
            raise
        return UploadPublication(
            directories=tuple(directories),
            inputs=inputs,
            uploads=tuple(uploads),
            hidden=hidden,
            opened_last=opened_last,
        )

    def _accepted_uploads(self, directory: StagedDirectory) -> list[StagedUpload]:
        """Return the accepted uploads of a directory, after the store has confirmed that each is still there.

        Lifecycle rules of buckets, and committers of other engines, abort uploads of other programs.
        """
        uploads = []
        for file, length in directory.files.items():
            upload = self._accepted.get((directory.name, file))
            if upload is None or upload.length != length:
                raise CorruptError(
                    f"Cannot publish {self._location}/{directory.name}/{file}: no attempt of {length} bytes "
                    "was accepted for it"
                )
            if not is_open(self._bucket, upload):
                raise RetryError(
                    f"Cannot publish {self._bucket.path(upload.key)}: another program has aborted its upload; "
                    "look for rules and committers that abort uploads in this bucket"
                )
            uploads.append(upload)
        return uploads

    def _end_failed(self, publication: UploadPublication, error: AcidError) -> None:
        """Take back what can be taken back of a publication whose completion failed.

        Only a ConflictError says that it can never be completed. After any other error the record stays, and the
        next run finishes the publication or raises that error again.

        UnknownOutcomeError where only the next run can tell; CorruptError where only a person can.
        """
        bucket, where = self._bucket, f"{' and '.join(publication.names)} in {self._location}"
        if publication.hidden:  # its transaction never commits: the next run and the cleaner remove the rest
            with suppress(AcidError):
                withdraw(bucket, publication.uploads)
                remove_staging(bucket, self.path, is_settled=True)
            return
        if not isinstance(error, ConflictError):
            advice = "finishes it" if isinstance(error, RetryError) else "finishes it, or fails until that is repaired"
            raise UnknownOutcomeError(
                f"Cannot tell whether {where} is published as a whole: a request failed ({error}); the next run there "
                f"{advice}"
            ) from error
        if any(is_visible(bucket, upload) for upload in publication.uploads):
            # never taken back from here: while we were paused another run could have published the same names
            raise UnknownOutcomeError(
                f"Cannot tell whether {where} can be published as a whole: {error}; the next run there finishes it or "
                "takes it back"
            ) from error
        withdraw_or_refuse(bucket, S3FileSystem(bucket), self._location, publication, error)
        with suppress(AcidError):
            remove_staging(bucket, self.path, is_settled=True)

    def discard(self) -> str | None:
        """Drop the stage, unless it has to be finished; return None, or why a part of it is left.

        The record is revoked first, so that not even a request of ours that is still on its way can record anything.
        """
        bucket = self._bucket
        try:
            if self._is_removed:
                return None
            if self._published is not None:
                remove_staging(bucket, self.path, self._published, is_settled=True)
                self._is_removed = True
                return None
            record = read_staging_record(bucket, self.path)
            if record is not None and record.state is StagingState.RECORDED:
                return None
            if record is not None and record.state is StagingState.STAGING:
                change_state(bucket, record, StagingState.REVOKED)
            for upload in self._accepted.values():
                abort(bucket, upload)
            remove_staging(bucket, self.path)
        except AcidError as error:
            return str(error)
        return None


THREADS = 16


def complete_all(bucket: Bucket, publication: UploadPublication) -> None:
    """Complete a recorded publication. Whichever run does it, and how often, the result is the same.

    ConflictError when a part of it can never become visible: it was aborted, or removed since.
    """

    def gone(upload: StagedUpload) -> ConflictError:
        return ConflictError(
            f"Cannot publish {bucket.path(upload.key)}: its upload was aborted, or its object was removed"
        )

    first, *others = publication.uploads
    if not complete(bucket, first):
        raise gone(first)
    reach(Point.FIRST_RENAMED)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="acidlib-publish") as threads:
        completions = [threads.submit(complete, bucket, upload) for upload in others]
    completed = [completion.result() for completion in completions]  # all were tried before the first error is raised
    for upload, is_there in zip(others, completed, strict=True):
        if not is_there:
            raise gone(upload)
    if not publication.opened_last:
        return
    # readers see a base once all of its files are there
    path = bucket.path(first.key)
    metadata_acid = read_object(bucket, path)
    if metadata_acid is not None and metadata_acid.data == METADATA_ACID:
        return
    if metadata_acid is None or metadata_acid.metadata.get(ORIGIN) != first.origin:
        raise ConflictError(f"Cannot publish {path}: another program has removed or changed it")
    replace_object(bucket, path, metadata_acid.version, METADATA_ACID, {ORIGIN: first.origin})


def withdraw_or_refuse(
    bucket: Bucket, fs: FileSystem, location: Location, publication: UploadPublication, why: ConflictError
) -> None:
    """Withdraw a recorded publication that can never be completed.

    CorruptError, and nothing is changed, when some of it is visible and an input of it is gone: then only a person
    knows which directories hold its rows.
    """
    missing = missing_input(fs, location, publication)
    if missing is not None and any(is_visible(bucket, upload) for upload in publication.uploads):
        names = " and ".join(publication.names)
        raise CorruptError(
            f"Cannot finish the publication of {names} in {location}: some of its files are gone and so is "
            f"{missing}, one of its inputs ({why}). Look whether another base or delta holds these rows; then remove "
            f"{names} and the staging directory of the run, and run again"
        ) from why
    withdraw(bucket, publication.uploads)


def withdraw(bucket: Bucket, uploads: Sequence[StagedUpload]) -> None:
    """Abort uploads, and then remove the objects that some of them became: nothing stays or becomes visible.

    In this order, as a paused publisher may go on completing: an object that it makes meanwhile is removed, too. The
    upload that was completed first goes last, as it keeps readers from the others, or holds all that they read.
    """
    for upload in uploads:
        abort(bucket, upload)
    for some in (uploads[1:], uploads[:1]):
        if keys := [upload.key for upload in some if is_visible(bucket, upload)]:
            remove_keys(bucket, bucket.path(keys[0].rpartition("/")[0]), keys)


def remove_staging(
    bucket: Bucket, staging: str, published: Sequence[StagedUpload] = (), *, is_settled: bool = False
) -> None:
    """Remove a staging directory, and abort the uploads that its upload lists name, but for the published ones.

    The marker goes last: without one, the rest would not be known for ours. RefusedError while it holds the record of a
    publication that every reader is to see, unless the caller has settled that.
    """
    record = None if is_settled else read_staging_record(bucket, staging)
    if record is not None and record.publication is not None and not record.publication.hidden:
        raise RefusedError(f"Cannot remove {staging}: it holds a publication that is to be finished")
    try:
        tree = S3FileSystem(bucket).list_tree(staging, enter_hidden=True, missing=ConflictError)
    except ConflictError:
        return
    completed = {upload_list_path(staging, upload) for upload in published}
    if published:
        completed.add(f"{staging}/{_DRIVERS_LIST}")
    names = [entry.path for entry in tree if not entry.is_directory]
    for name in names:
        if name.startswith(UPLOAD_LIST_PREFIX) and f"{staging}/{name}" not in completed:
            upload_list = read_object(bucket, f"{staging}/{name}")
            # the store's own rules end the uploads of a damaged list, and of one that no run writes
            with suppress(CorruptError, ValueError, TypeError):
                listed = [] if upload_list is None else parse_document(upload_list.data, name)
                for key, upload_id in listed if len(listed) <= _MAX_LISTED else ():
                    if str(key).startswith(_place_key(staging)):
                        abort(bucket, StagedUpload(key=str(key), origin="", upload_id=str(upload_id)))
    prefix, marker = bucket.key(staging), bucket.key(f"{staging}/{STAGING_MARKER}")
    remove_keys(bucket, staging, [key for name in names if (key := f"{prefix}/{name}") != marker])
    remove_keys(bucket, staging, [marker])


PROBED: set[BucketOptions] = set()
"""Buckets in which this process has seen that the conditions of publication are kept."""


class UploadState(Enum):
    """The state of an upload of a recorded publication."""

    OPEN = "it can be completed"
    VISIBLE = "its object is there"
    GONE = "neither"


class S3Store(Store):
    """Publication in one bucket, by multipart uploads. It may be pickled."""

    shows_at_once = False

    def __init__(self, bucket: Bucket, *, stale_seconds: float = STALE_SECONDS) -> None:
        """`stale_seconds` is the time for which the owner of a claim may be silent."""
        self.fs = S3FileSystem(bucket)
        self._bucket = bucket
        self._stale_seconds = stale_seconds

    def claim(self, location: Location, *, owner: str, token: str, now: float) -> S3Claim:
        """Claim a place.

        `RefusedError` in a bucket that ignores conditions of publication, and for a location that is an object;
        `CorruptError` without one.
        """
        if not self.fs.is_directory(str(location)):
            if self.fs.exists(str(location)):
                raise RefusedError(f"Cannot claim {location}: it is an object")
            raise CorruptError(f"Cannot claim {location}: there is no object below it")
        if self._bucket.options not in PROBED:
            require_promises(self, location, unique=token)
            PROBED.add(self._bucket.options)
        path = f"{location}/{CLAIM}"
        claim = read_object(self._bucket, path)
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
        return S3Claim(self._bucket, location, record, version)

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
        return bucket_promises(self._bucket)

    def overwrite(self, path: str, data: bytes) -> None:
        with self._bucket.raising("write", path):
            self._bucket.client.put_object(
                Bucket=self._bucket.name, Key=self._bucket.key(path), Body=data, **self._bucket.creation_arguments
            )

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
                    abort(self._bucket, upload)
                change_state(self._bucket, record, StagingState.REVOKED)
            except ChangedError as error:
                current = read_staging_record(self._bucket, record.staging)
                if current is None or current.state is StagingState.REVOKED:
                    continue  # its run has ended it itself
                raise ConflictError(
                    f"Cannot work in {location}: the run that staged {record.staging} has just recorded its publication"
                ) from error

    def stage(self, location: Location, *, unique: str, owner: str, now: float) -> S3Stage:
        """Begin to stage under a name that no other run has; ConflictError when one has it."""
        record = StagingRecord(staging=f"{location}/{STAGING_PREFIX}{unique}", unique=unique, owner=owner, start=now)
        record = replace(record, version=create_object(self._bucket, record.path, record.encode()))
        return S3Stage(self._bucket, location, record)

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

        Raises `CorruptError` where only a person can decide: an upload is gone and so are inputs.
        """
        lines = []
        for staging, publication in self._unfinished(location):
            if visible_only and not any(is_visible(self._bucket, upload) for upload in publication.uploads):
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
        # in this order: an upload that is completed between the two questions is VISIBLE
        states = [
            UploadState.OPEN
            if is_open(bucket, upload)
            else UploadState.VISIBLE
            if is_visible(bucket, upload)
            else UploadState.GONE
            for upload in publication.uploads
        ]
        if all(state is UploadState.VISIBLE for state in states):
            opened = read_object(bucket, bucket.path(first.key)) if publication.opened_last else None
            if not publication.opened_last or (opened is not None and opened.data == METADATA_ACID):
                return "was published", None
        if states[0] is UploadState.OPEN:
            reason = discard_reason(self.fs, location, publication)
            if reason is not None:
                abort(bucket, first)
                if not is_visible(bucket, first):  # else its run was faster, and its inputs were there then
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
                    abort(bucket, upload)
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
