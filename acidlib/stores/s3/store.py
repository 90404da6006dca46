"""Publication in a bucket: files are made as uploads, and completing these, once a marker says so, is all of it.

The claim on a place is one small object that is only ever replaced, and never removed. Released, it says so: a removal
under a condition is not to be had everywhere. How long its owner has been silent is the difference of two times of the
store, so no clock of any machine counts.

A run's staging directory has a marker, one object, and how it changes decides between runs. It says `staging` until its
run records what it publishes, or another run revokes it. Both are done by replacing the version that was read, so only
one of them happens: a run that slept after its last check cannot record any more once it was revoked, and what is
recorded is finished by any run. It never goes back.

An upload is completed once, aborted once, and never both: the store decides. What its answers leave open is decided by
looking at the object, whose metadata tell whose it is. The first upload is completed alone: while it is neither
completed nor aborted nothing of the publication is visible, so that the run that aborts it first has discarded all.

Several files of a base whose name hides them from no reader (Hive 3.1) become visible one after the other. There the
first is a `_metadata_acid` of a kind that no reader knows: each fails at this base instead of reading half of it (Hive
AcidUtils.MetaDataFile), until the file is replaced by the right one at the end. Nothing keeps readers away from several
files of deltas: these are refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import Enum, StrEnum
from typing import Any

from botocore.exceptions import ClientError
from tenacity import retry, retry_if_exception_type

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
from acidlib.model.location import Location
from acidlib.model.names import METADATA_ACID_FILE, DeltaDir, Generation, parse_directory
from acidlib.points import Point, reach
from acidlib.processes import has_ended, process_identity
from acidlib.stores.filesystem import FileSystem
from acidlib.stores.listing import UNFINISHED_FORMAT
from acidlib.stores.s3.client import (
    CONFLICT_PAUSES,
    CONFLICT_TRIES,
    Bucket,
    BucketOptions,
    ChangedError,
    SmallObject,
    UploadGoneError,
    code_of,
    create_object,
    is_missing,
    read_object,
    replace_object,
)
from acidlib.stores.s3.files import (
    MARK,
    NOTE_PREFIX,
    S3FileSystem,
    StagedUpload,
    Upload,
    note_path,
    output_path,
    remove_keys,
    write_note,
)
from acidlib.stores.store import (
    CLAIM,
    METADATA_ACID,
    STAGING_MARKER,
    STAGING_PREFIX,
    STALE_SECONDS,
    Attempt,
    Claim,
    Holder,
    PublicationRecord,
    Published,
    RolledForward,
    Stage,
    StagedDirectory,
    Store,
    covering_at,
    instant,
    marker_files,
    missing_input,
    reason_to_discard,
    refuse_existing,
    require_suffixes,
)

THREADS = 16
PROBED: set[BucketOptions] = set()
"""Buckets that keep the conditions that publication rests on, as this process has seen."""

_VERSION = 1
_PROBE_SUFFIX = ".probe.tmp"
"""With the name of a claim before it, what a killed probe leaves is litter."""
_DRIVERS_NOTE = f"{NOTE_PREFIX}driver"
_AMBIGUOUS = frozenset({"InvalidPart", "InvalidRequest"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRecord:
    """The contents of the object of a claim; without a token it is released.

    `start` is in seconds since the epoch. No two contents are ever the same, for what `renewals` counts.
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
    def decode(found: SmallObject) -> ClaimRecord:
        """Return what an object says; of a damaged one that its owner is not known, so that it goes stale by itself."""
        try:
            document = json.loads(found.data)
            return ClaimRecord(
                owner=str(document["owner"]),
                token=str(document["token"]),
                start=float(document["start"]),
                renewals=int(document["renewals"]),
                process=str(document["process"]),
                released=str(document["released"]),
            )
        except (ValueError, KeyError, TypeError):
            owner = "an unknown run (its claim is damaged)"
            return ClaimRecord(owner=owner, token="", start=found.modified, renewals=0)


class S3Claim(Claim):
    """A claim that is an object, see above."""

    def __init__(self, bucket: Bucket, location: Location, record: ClaimRecord, version: str) -> None:
        self._bucket = bucket
        self._path = f"{location}/{CLAIM}"
        self._record = record
        self._version = version
        super().__init__(location, record.token)

    def renew(self) -> bool:
        """Count one renewal more."""
        return self._say(replace(self._record, renewals=self._record.renewals + 1))

    def give_up(self) -> None:
        """Say that it is released."""
        self._say(replace(self._record, token="", released=self._record.token, renewals=self._record.renewals + 1))

    def _say(self, record: ClaimRecord) -> bool:
        """Have the object say something else; return False when it is no longer ours.

        A request whose answer was lost may have changed it, even after we gave up waiting: it is ours as long as it
        has our token.
        """
        for _ in range(2):
            try:
                self._version = replace_object(self._bucket, self._path, self._version, record.encode())
                self._record = record
                return True
            except ChangedError:
                found = read_object(self._bucket, self._path)
                said = None if found is None else ClaimRecord.decode(found)
                if found is None or said is None or said.token != self._record.token:
                    return False
                self._version = found.version
                record = replace(record, renewals=max(record.renewals, said.renewals + 1))
        return False


class State(StrEnum):
    """What a marker says of its run."""

    STAGING = "staging"
    RECORDED = "recorded"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded(PublicationRecord):
    """A publication that is decided: what is to be completed, the first upload before all others.

    hidden       no reader sees it before a transaction commits, so that no other run has to finish it
    opened_last  `_metadata_acid`, the first upload, keeps readers away until all is there, and is replaced last
    """

    uploads: tuple[StagedUpload, ...]
    hidden: bool
    opened_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The marker of a staging directory. `start` is in seconds since the epoch, for people."""

    staging: str
    unique: str
    owner: str
    start: float
    state: State = State.STAGING
    recorded: Recorded | None = None
    version: str = ""

    @property
    def path(self) -> str:
        """Where the marker is."""
        return f"{self.staging}/{STAGING_MARKER}"


def read_marker(bucket: Bucket, staging: str) -> Marker | None:
    """Return the marker of a staging directory; None without one. CorruptError when it cannot be understood."""
    found = read_object(bucket, f"{staging}/{STAGING_MARKER}")
    return None if found is None else _decoded(staging, found.data, found.version)


def markers_of(bucket: Bucket, location: Location) -> tuple[Marker, ...]:
    """Return the markers of all runs that have staged something at a place, in the order of names."""
    found = (
        read_marker(bucket, f"{location}/{entry.name}")
        for entry in S3FileSystem(bucket).list_directory(str(location), missing=ConflictError)
        if entry.is_directory and entry.name.startswith(STAGING_PREFIX)
    )
    return tuple(marker for marker in found if marker is not None)


def move_marker(bucket: Bucket, marker: Marker, state: State, recorded: Recorded | None = None) -> Marker:
    """Have a marker say something else, and return it; ChangedError when another run was faster."""
    moved = replace(marker, state=state, recorded=recorded)
    return replace(moved, version=replace_object(bucket, marker.path, marker.version, _encoded(moved)))


def _encoded(marker: Marker) -> bytes:
    document: dict[str, Any] = {
        "version": _VERSION,
        "state": marker.state,
        "unique": marker.unique,
        "owner": marker.owner,
        "start": marker.start,
    }
    if (recorded := marker.recorded) is not None:
        document["publication"] = {
            "directories": [{"name": item.name, "files": list(item.files.items())} for item in recorded.directories],
            "inputs": list(recorded.inputs),
            "uploads": [one.document() for one in recorded.uploads],
            "hidden": recorded.hidden,
            "closed": recorded.opened_last,
        }
    return json.dumps(document, ensure_ascii=False, indent=1).encode()


def _decoded(staging: str, data: bytes, version: str) -> Marker:
    path = f"{staging}/{STAGING_MARKER}"
    try:
        document = json.loads(data)
        if document["version"] != _VERSION:
            raise ValueError("another version")
        state, recorded = State(document["state"]), None
        if state is State.RECORDED:
            said = document["publication"]
            recorded = Recorded(
                directories=tuple(
                    StagedDirectory(
                        name=str(item["name"]), files={str(name): int(length) for name, length in item["files"]}
                    )
                    for item in said["directories"]
                ),
                inputs=tuple(str(item) for item in said["inputs"]),
                uploads=tuple(StagedUpload.of_document(item, where=path) for item in said["uploads"]),
                hidden=bool(said["hidden"]),
                opened_last=bool(said["closed"]),
            )
        return Marker(
            staging=staging,
            unique=str(document["unique"]),
            owner=str(document["owner"]),
            start=float(document["start"]),
            state=state,
            recorded=recorded,
            version=version,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptError(f"Cannot read {path}: it is not a marker that this version understands ({error})") from error


class S3Stage(Stage):
    """What a run stages at a place, until it is published or discarded."""

    is_readable = False  # of an upload nothing can be read before it is completed

    def __init__(self, bucket: Bucket, location: Location, marker: Marker) -> None:
        self.path = marker.staging
        self._bucket = bucket
        self._location = location
        self._marker = marker
        self._accepted: dict[tuple[str, str], StagedUpload] = {}
        self._left: tuple[StagedUpload, ...] | None = None  # once published: what is noted in the staging directory

    def accept(self, directory: str, attempts: Sequence[Attempt]) -> StagedDirectory:
        """Take the attempts that count as the files of a directory. A second one for a file is a ConflictError."""
        prefix = self._bucket.key(f"{self._location}/{directory}")
        files = {}
        for one in attempts:
            try:
                document = json.loads(one.written)
            except ValueError as error:
                raise CorruptError("Cannot read what a task has made: it is not JSON") from error
            upload = StagedUpload.of_document(document, where="what a task has made")
            if upload.key != f"{prefix}/{upload.file}" or upload.mark.partition("/")[0] != self._marker.unique:
                raise ValueError(f"{upload.key} was not made for {self.path} and {directory}")
            if (directory, upload.file) in self._accepted:
                raise ConflictError(f"Cannot accept {upload.key}: there is another attempt at it")
            self._accepted[directory, upload.file] = upload
            files[upload.file] = upload.length
        return StagedDirectory(name=directory, files=files)

    def publish(
        self, directories: Sequence[StagedDirectory], *, inputs: tuple[str, ...], last_check: Callable[[], None]
    ) -> Published:
        """Make one directory visible whose name hides it from no reader.

        Its files have to be those that were accepted (else `CorruptError`); `_orc_acid_version` is added, and
        `_metadata_acid` to a base. `inputs` are the relative paths of what was compacted. `last_check` runs right
        before the publication is recorded: it raises when the claim is lost or the place has changed. RefusedError for
        what readers would see half of: two directories, or a delta of several files. ConflictError when the name is
        taken, or another run has revoked this one; then nothing is changed. UnknownOutcomeError when the next run has
        to finish it.
        """
        if len(directories) != 1:
            raise RefusedError(
                f"Cannot publish {' and '.join(item.name for item in directories)} in {self._location}: in a "
                "bucket several directories cannot become visible at once; a major compaction makes one"
            )
        (directory,) = directories
        parsed = parse_directory(directory.name, Generation.HIVE4)
        if parsed is None:
            raise ValueError(f"{directory.name!r} is not the name of an ACID directory")
        several = (
            f"Cannot publish {directory.name} in {self._location}: in a bucket its {len(directory.files)} "
            "files cannot become visible at once"
        )
        if parsed.visibility_txn and len(directory.files) > 1:
            # Hive 4 asks such a base for no marker (AcidUtils.isCompactedBase), so nothing keeps readers from it
            raise RefusedError(
                f"{several}, and a name with a transaction hides them from nobody; leave --visibility-txn out"
            )
        if isinstance(parsed, DeltaDir) and len(directory.files) > 1:
            raise RefusedError(f"{several}; a major compaction makes a base, at which readers wait")
        return self._published(directories, inputs, last_check, hidden=False)

    def publish_hidden(self, directories: Sequence[StagedDirectory], *, last_check: Callable[[], None]) -> Published:
        require_suffixes(directories)
        return self._published(directories, (), last_check, hidden=True)

    def discard(self) -> str | None:
        """Drop all that is staged, unless it has to be finished; return None, or why something of it is left.

        The marker first says that this run is revoked, so that not even a request of ours that is still on its way can
        record anything.
        """
        try:
            if self._left is not None:
                if self._left:
                    remove_staging(self._bucket, self.path, self._left, is_settled=True)
                return None
            found = read_marker(self._bucket, self.path)
            if found is not None and found.state is State.RECORDED:
                return None
            if found is not None and found.state is State.STAGING:
                move_marker(self._bucket, found, State.REVOKED)
            for upload in self._accepted.values():
                abort(self._bucket, upload.key, upload.upload)
            remove_staging(self._bucket, self.path)
        except AcidError as error:
            return str(error)
        return None

    def _published(
        self,
        directories: Sequence[StagedDirectory],
        inputs: tuple[str, ...],
        last_check: Callable[[], None],
        *,
        hidden: bool,
    ) -> Published:
        fs, names = S3FileSystem(self._bucket), tuple(item.name for item in directories)
        refuse_existing(fs, self._location, directories)
        accepted = [self._uploads_of(directory) for directory in directories]
        recorded = self._sealed(directories, accepted, inputs, hidden=hidden)
        reach(Point.SEALED)
        try:
            last_check()
            reach(Point.CHECKED)
            self._marker = move_marker(self._bucket, self._marker, State.RECORDED, recorded)
        except ChangedError as error:
            raise ConflictError(
                f"Cannot publish in {self._location}: another run has taken over what was staged"
            ) from error
        # after any other error the marker may still come to say that it is recorded, until `discard` decides
        reach(Point.RECORDED)
        try:
            complete_all(self._bucket, recorded)
        except (ConflictError, RetryError) as error:
            if hidden:  # its transaction never commits: the next run and the cleaner remove whatever is left
                with suppress(AcidError):
                    withdraw(self._bucket, recorded.uploads)
                    remove_staging(self._bucket, self.path, is_settled=True)
                raise
            where = f"{' and '.join(names)} in {self._location}"
            if isinstance(error, RetryError):
                raise UnknownOutcomeError(
                    f"Cannot tell whether {where} is published as a whole: a request failed ({error}); the next run "
                    "there finishes it"
                ) from error
            if any(is_ours(self._bucket, upload) for upload in recorded.uploads):
                # never taken back from here: if we slept, another run could have published the same names since
                raise UnknownOutcomeError(
                    f"Cannot tell whether {where} can be published as a whole: {error}; the next run there finishes it "
                    "or takes it back"
                ) from error
            withdraw_or_refuse(self._bucket, fs, self._location, recorded, error)
            with suppress(AcidError):
                remove_staging(self._bucket, self.path, is_settled=True)
            raise
        reach(Point.SECOND_RENAMED)
        self._left = recorded.uploads
        with suppress(AcidError):  # `discard` tries again, and tells
            remove_staging(self._bucket, self.path, recorded.uploads, is_settled=True)
            self._left = ()
        reach(Point.UNRECORDED)
        return Published(directories=names, kind="commit" if hidden else "completed uploads")

    def _uploads_of(self, directory: StagedDirectory) -> list[StagedUpload]:
        """Return what was accepted of a directory: that every upload is there is asked right now.

        Lifecycle rules of buckets, and committers of other engines, abort uploads of others.
        """
        found = []
        for file, length in directory.files.items():
            upload = self._accepted.get((directory.name, file))
            if upload is None or upload.length != length:
                raise CorruptError(
                    f"Cannot publish {self._location}/{directory.name}/{file}: no attempt of {length} bytes "
                    "was accepted for it"
                )
            if not has_its_parts(self._bucket, upload):
                raise RetryError(
                    f"Cannot publish {self._bucket.path(upload.key)}: somebody else has aborted its upload; "
                    "look for rules and committers that abort uploads in this bucket"
                )
            found.append(upload)
        return found

    def _sealed(
        self,
        directories: Sequence[StagedDirectory],
        accepted: Iterable[list[StagedUpload]],
        inputs: tuple[str, ...],
        *,
        hidden: bool,
    ) -> Recorded:
        """Return all that is to be completed, in order, with the markers that every directory gets."""
        made: list[StagedUpload] = []
        uploads: list[StagedUpload] = []
        sealed: list[StagedDirectory] = []
        opened_last = False
        try:
            for directory, files in zip(directories, accepted, strict=True):
                markers = marker_files(directory.name)
                if METADATA_ACID_FILE in markers and len(files) > 1:
                    opened_last = True
                    unfinished = {"thisFileVersion": "0", "dataFormat": UNFINISHED_FORMAT, "run": self._marker.unique}
                    markers[METADATA_ACID_FILE] = json.dumps(unfinished).encode()
                marked = {}
                for file, data in markers.items():
                    key, mark = self._bucket.key(f"{self._location}/{directory.name}/{file}"), self._marker.unique
                    planned = StagedUpload(key=key, mark=f"{mark}/{file}")
                    marked[file] = start_small(self._bucket, planned, data)
                    made.append(marked[file])
                first = [marked.pop(METADATA_ACID_FILE)] if opened_last else []
                uploads += [*first, *files, *marked.values()]
                lengths = {file: len(data) for file, data in markers.items()}
                sealed.append(replace(directory, files={**directory.files, **lengths}))
            write_note(self._bucket, f"{self.path}/{_DRIVERS_NOTE}", made)
        except BaseException:
            for upload in made:  # they are noted nowhere
                with suppress(AcidError):
                    abort(self._bucket, upload.key, upload.upload)
            raise
        return Recorded(
            directories=tuple(sealed), inputs=inputs, uploads=tuple(uploads), hidden=hidden, opened_last=opened_last
        )


class S3Store(Store):
    """Publication in one bucket, by multipart uploads. It may be pickled."""

    shows_at_once = False

    def __init__(self, bucket: Bucket, *, stale_seconds: float = STALE_SECONDS) -> None:
        """`stale_seconds` is for how long the owner of a claim may be silent."""
        self.fs = S3FileSystem(bucket)
        self._bucket = bucket
        self._stale_seconds = stale_seconds

    def claim(self, location: Location, *, owner: str, token: str, now: float) -> S3Claim:
        """Claim a place.

        `RefusedError` in a bucket that ignores what publication rests on, and for a location that is an object;
        `CorruptError` without one.
        """
        if not self.fs.is_directory(str(location)):
            if self.fs.exists(str(location)):
                raise RefusedError(f"Cannot claim {location}: it is an object")
            raise CorruptError(f"Cannot claim {location}: there is no object below it")
        if self._bucket.options not in PROBED:
            self.require_conditions(location, unique=token)
            PROBED.add(self._bucket.options)
        path = f"{location}/{CLAIM}"
        found = read_object(self._bucket, path)
        holder = None if found is None else self._holder(found)
        if found is not None and holder is not None and not holder.is_stale:
            raise BusyError(
                f"Cannot claim {location}: {holder.owner} has worked on it since {instant(holder.start)} (last sign of "
                f"life {found.now - found.modified:.0f} s ago); {WHEN_FREE}"
            )
        record = ClaimRecord(owner=owner, token=token, start=now, renewals=0, process=process_identity())
        try:
            if found is None:
                version = create_object(self._bucket, path, record.encode())
            else:
                version = replace_object(self._bucket, path, found.version, record.encode())
        except ChangedError as error:
            raise BusyError(f"Cannot claim {location}: another run claimed it first; {WHEN_FREE}") from error
        return S3Claim(self._bucket, location, record, version)

    def holder(self, location: Location, *, now: float) -> Holder | None:
        del now  # the bucket has a clock
        found = read_object(self._bucket, f"{location}/{CLAIM}")
        return None if found is None else self._holder(found)

    def _holder(self, found: SmallObject) -> Holder | None:
        record = ClaimRecord.decode(found)
        if not record.token and record.released:
            return None
        is_stale = abs(found.now - found.modified) > self._stale_seconds or has_ended(record.process)
        return Holder(owner=record.owner, token=record.token, start=record.start, is_stale=is_stale)

    def require_conditions(self, location: Location, *, unique: str) -> None:
        """Try each condition that publication rests on with a hidden object, and remove it; about a dozen requests.

        Some servers that speak S3 ignore them and answer 200. RefusedError names the bucket and the first condition
        that it ignores.
        """
        bucket, path = self._bucket, f"{location}/{CLAIM}.{unique}{_PROBE_SUFFIX}"

        def refused(why: str) -> RefusedError:
            return RefusedError(
                f"Cannot publish to the bucket {bucket.options.shown}: {why}, so that of two runs both would win"
            )

        def upload(path: str) -> StagedUpload:
            return start_small(bucket, StagedUpload(key=bucket.key(path), mark=path), b"probe")

        try:
            first = create_object(bucket, path, b"first")
            with suppress(ChangedError):
                create_object(bucket, path, b"another")
                raise refused("it makes an object that is there already (If-None-Match)")
            second = replace_object(bucket, path, first, b"second")
            with suppress(ChangedError):
                replace_object(bucket, path, first, b"third")
                raise refused(f"it replaces an object that has changed ({second} is not {first}), against If-Match")
            taken = upload(path)
            try:
                complete(bucket, taken)
            except ConflictError:
                abort(bucket, taken.key, taken.upload)
            else:
                raise refused("it completes an upload over an object that is there (If-None-Match)")
            aborted = upload(f"{path}.upload")
            abort(bucket, aborted.key, aborted.upload)
            if complete(bucket, aborted):
                raise refused("it completes an upload that was aborted")
        finally:
            with suppress(AcidError):
                remove_keys(bucket, path, [bucket.key(path), f"{bucket.key(path)}.upload"])

    def revoke_others(self, location: Location) -> None:
        """Take from earlier runs what they staged at a place: none of them can publish any more.

        ConflictError when a run has recorded something in this moment: then look again. Uploads stay until their
        staging directory is removed: only the marker decides. What is hidden until a transaction commits is given up as
        far as it is not there.
        """
        for marker in markers_of(self._bucket, location):
            if marker.state is State.REVOKED or (marker.recorded is not None and not marker.recorded.hidden):
                continue
            try:
                for upload in () if marker.recorded is None else marker.recorded.uploads:
                    abort(self._bucket, upload.key, upload.upload)
                move_marker(self._bucket, marker, State.REVOKED)
            except ChangedError as error:
                found = read_marker(self._bucket, marker.staging)
                if found is None or found.state is State.REVOKED:
                    continue  # its run has come to its own end
                raise ConflictError(
                    f"Cannot work in {location}: the run that staged {marker.staging} has just recorded what "
                    "it publishes"
                ) from error

    def stage(self, location: Location, *, unique: str, owner: str, now: float) -> S3Stage:
        """Begin to stage under a name that no other run has; ConflictError when one has it."""
        marker = Marker(staging=f"{location}/{STAGING_PREFIX}{unique}", unique=unique, owner=owner, start=now)
        marker = replace(marker, version=create_object(self._bucket, marker.path, _encoded(marker)))
        return S3Stage(self._bucket, location, marker)

    def unfinished(self, location: Location) -> tuple[str, ...]:
        return tuple(marker.staging for marker, _ in self._recorded(location))

    def roll_forward(self, location: Location, *, visible_only: bool = False) -> tuple[RolledForward, ...]:
        """Finish every publication that any earlier run recorded at a place and did not complete.

        The run that recorded it may be asleep, and go on at any moment: whatever it does then has been done, or can be
        done no more.

        * Something is visible: the rest is completed. Where that cannot be, as an upload is gone, all is taken back
          while the inputs are there.
        * Nothing is: it is completed too; but discarded if an input is gone, the name is taken or a wider delta covers
          it: then its rows are in what is there.

        Raises `CorruptError` where only a person can decide: an upload is gone and so are inputs.
        """
        done = []
        for marker, recorded in self._recorded(location):
            if visible_only and not any(is_ours(self._bucket, upload) for upload in recorded.uploads):
                continue
            outcome, reason = self._end(location, recorded)
            remove_staging(self._bucket, marker.staging, recorded.uploads, is_settled=True)
            names = tuple(directory.name for directory in recorded.directories)
            done.append(RolledForward(directories=names, outcome=outcome, reason=reason))
        return tuple(done)

    def _recorded(self, location: Location) -> list[tuple[Marker, Recorded]]:
        """Return the publications that are recorded to become visible, and not finished."""
        return [
            (marker, marker.recorded)
            for marker in markers_of(self._bucket, location)
            if marker.recorded is not None and not marker.recorded.hidden
        ]

    def _end(self, location: Location, recorded: Recorded) -> tuple[str, str | None]:
        """Finish or discard a publication; return the outcome, and why it was discarded."""
        bucket, first = self._bucket, recorded.uploads[0]
        # looked at in this order, for a completion in between shows as VISIBLE
        fates = [
            Fate.OPEN if has_its_parts(bucket, one) else Fate.VISIBLE if is_ours(bucket, one) else Fate.GONE
            for one in recorded.uploads
        ]
        if all(one is Fate.VISIBLE for one in fates):
            found = read_object(bucket, bucket.path(first.key)) if recorded.opened_last else None
            if not recorded.opened_last or (found is not None and found.data == METADATA_ACID):
                return "was published", None
        if fates[0] is Fate.OPEN:
            reason = reason_to_discard(self.fs, location, recorded)
            if reason is not None:
                abort(bucket, first.key, first.upload)
                if not is_ours(bucket, first):  # else its run was faster, and its inputs were there then
                    withdraw(bucket, recorded.uploads)
                    return "discarded", reason
        elif fates[0] is Fate.GONE and Fate.VISIBLE not in fates:
            withdraw(bucket, recorded.uploads)
            return "discarded", "its first file was given up before, or all of it was removed after it was published"
        try:
            complete_all(bucket, recorded)
        except ConflictError as error:
            cover = next(filter(None, covering_at(self.fs, location, recorded)), None)
            if cover is not None:
                for upload in recorded.uploads:
                    abort(bucket, upload.key, upload.upload)
                return "discarded", f"{cover} covers it, and a part of it has been removed since"
            withdraw_or_refuse(bucket, self.fs, location, recorded, error)
            return "discarded", f"it cannot be completed, and all its inputs are still there: {error}"
        return "finished", None

    def remove(self, location: Location, relative: str) -> None:
        """Remove objects; of what a run has staged the uploads, too."""
        if relative.startswith(STAGING_PREFIX) and "/" not in relative:
            remove_staging(self._bucket, f"{location}/{relative}")
            if not self.fs.exists(f"{location}/{relative}"):
                return
        self.fs.remove_tree(str(location), relative)


def start_small(bucket: Bucket, planned: StagedUpload, data: bytes) -> StagedUpload:
    """Return a small file as an upload that is ready to be completed: everything that becomes visible has to be one.

    A sleeper that wakes cannot complete an upload twice; but it could put an object again that was cleaned away.
    """
    upload = Upload(bucket, planned)
    try:
        upload.send(data)
        parts = upload.finish()
    except BaseException:
        upload.abandon()
        with suppress(AcidError):
            abort(bucket, planned.key, upload.begun.upload)  # it is noted nowhere yet
        raise
    return replace(upload.begun, length=len(data), parts=parts)


def complete_all(bucket: Bucket, recorded: Recorded) -> None:
    """Complete all that is recorded. Whichever run does it, and how often, the result is the same.

    ConflictError when something of it can never become visible: it was aborted, or removed since.
    """

    def gone(upload: StagedUpload) -> ConflictError:
        return ConflictError(
            f"Cannot publish {bucket.path(upload.key)}: its upload was aborted, or what it became was removed"
        )

    first, *others = recorded.uploads
    if not complete(bucket, first):
        raise gone(first)
    reach(Point.FIRST_RENAMED)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="acidlib-publish") as threads:
        tried = [threads.submit(complete, bucket, upload) for upload in others]
    completed = [one.result() for one in tried]  # the first error is raised once all were tried
    for upload, is_there in zip(others, completed, strict=True):
        if not is_there:
            raise gone(upload)
    if not recorded.opened_last:
        return
    # readers see a base once all of its files are there
    path = bucket.path(first.key)
    found = read_object(bucket, path)
    if found is not None and found.data == METADATA_ACID:
        return
    if found is None or found.metadata.get(MARK) != first.mark:
        raise ConflictError(f"Cannot publish {path}: somebody else has removed or changed it")
    replace_object(bucket, path, found.version, METADATA_ACID, {MARK: first.mark})


class _UndecidedError(RetryError):
    """The store called a completion a conflict, and there is no object under its name: a later try may succeed."""


@retry(retry=retry_if_exception_type(_UndecidedError), stop=CONFLICT_TRIES, wait=CONFLICT_PAUSES, reraise=True)
def complete(bucket: Bucket, upload: StagedUpload) -> bool:
    """Make an upload an object; return whether that is there now, whichever run completed it.

    False when the upload is gone and its object is not there: it was aborted, or removed since. ConflictError when
    there is another object of that name.
    """
    path = bucket.path(upload.key)
    parts: Any = [part.as_completed() for part in upload.parts]
    try:
        bucket.client.complete_multipart_upload(
            Bucket=bucket.name, MultipartUpload={"Parts": parts}, IfNoneMatch="*", **upload.named
        )
    except Exception as error:
        found = _mark(bucket, upload.key)
        if found == upload.mark:
            return True
        is_gone = isinstance(error, ClientError) and (
            is_missing(error) or (code_of(error) in _AMBIGUOUS and not has_its_parts(bucket, upload))
        )
        if is_gone:
            return False
        try:
            with bucket.raising("publish", path):
                raise
        except ChangedError:
            if found is not None:
                raise ConflictError(f"Cannot publish {path}: it already exists") from error
            raise _UndecidedError(
                f"Cannot publish {path}: the store calls it a conflict, even after several attempts"
            ) from error
    return True


def abort(bucket: Bucket, key: str, upload: str) -> None:
    """Abort an upload. The answer decides nothing: it may have been completed, or be gone."""
    with suppress(UploadGoneError), bucket.raising("abort the upload of", bucket.path(key), missing=UploadGoneError):
        bucket.client.abort_multipart_upload(Bucket=bucket.name, Key=key, UploadId=upload)


def withdraw_or_refuse(
    bucket: Bucket, fs: FileSystem, location: Location, recorded: Recorded, why: ConflictError
) -> None:
    """Withdraw what was recorded and can never be completed.

    CorruptError, and nothing is changed, when some of it is visible and an input of it is gone: then only a person
    knows what holds its rows.
    """
    missing = missing_input(fs, location, recorded)
    if missing is not None and any(is_ours(bucket, upload) for upload in recorded.uploads):
        names = " and ".join(directory.name for directory in recorded.directories)
        raise CorruptError(
            f"Cannot finish the publication of {names} in {location}: some of its files are gone and so is "
            f"{missing}, one of its inputs ({why}). Look whether another base or delta holds these rows; then remove "
            f"{names} and what the run staged, and run again"
        ) from why
    withdraw(bucket, recorded.uploads)


def withdraw(bucket: Bucket, uploads: Sequence[StagedUpload]) -> None:
    """Have nothing of these stay visible, or become so: first all uploads are aborted, then objects of ours removed.

    In this order, as a publisher that sleeps may go on completing: what it completes meanwhile is removed, too. What
    was completed first goes last, as it keeps readers from the others, or is all that they read.
    """
    for upload in uploads:
        abort(bucket, upload.key, upload.upload)
    for some in (uploads[1:], uploads[:1]):
        if ours := [upload.key for upload in some if is_ours(bucket, upload)]:
            remove_keys(bucket, bucket.path(ours[0].rpartition("/")[0]), ours)


class Fate(Enum):
    """What has become of an upload."""

    OPEN = "it can be completed"
    VISIBLE = "its object is there"
    GONE = "neither"


def has_its_parts(bucket: Bucket, upload: StagedUpload) -> bool:
    """Tell whether an upload is still there; CorruptError when its parts are not those that were sent."""
    try:
        with bucket.raising("look at the upload of", bucket.path(upload.key), missing=UploadGoneError):
            pages = bucket.client.get_paginator("list_parts").paginate(Bucket=bucket.name, **upload.named)
            parts = [part for page in pages for part in page.get("Parts", [])]
    except UploadGoneError:
        return False
    found = {part["PartNumber"]: (part["ETag"].strip('"'), part["Size"]) for part in parts}
    if found != {part.number: (part.version.strip('"'), part.size) for part in upload.parts}:
        raise CorruptError(
            f"Cannot publish {bucket.path(upload.key)}: the parts of its upload are not those that were sent"
        )
    return True


def is_ours(bucket: Bucket, upload: StagedUpload) -> bool:
    """Tell whether the object under the final name is the one that this upload made."""
    return _mark(bucket, upload.key) == upload.mark


def _mark(bucket: Bucket, key: str) -> str | None:
    """Return whose object it is: empty for one that is none of ours; None when there is none."""
    found = bucket.head(bucket.path(key))
    return None if found is None else found["Metadata"].get(MARK, "")


def remove_staging(
    bucket: Bucket, staging: str, published: Sequence[StagedUpload] = (), *, is_settled: bool = False
) -> None:
    """Remove a staging directory, and abort the uploads that are noted there.

    The marker goes last: without one, the rest would not be known for ours. RefusedError while something is recorded
    that every reader is to see, unless the caller has settled that.
    """
    marker = None if is_settled else read_marker(bucket, staging)
    if marker is not None and marker.recorded is not None and not marker.recorded.hidden:
        raise RefusedError(f"Cannot remove {staging}: it holds a publication that is to be finished")
    try:
        tree = S3FileSystem(bucket).list_tree(staging, enter_hidden=True, missing=ConflictError)
    except ConflictError:
        return
    done: set[str | None] = {f"{staging}/{_DRIVERS_NOTE}"} if published else set()
    done |= {
        note_path(output_path(staging, upload.directory, upload.file, upload.mark.partition("/")[2]))
        for upload in published
    }
    names = [entry.path for entry in tree if not entry.is_directory]
    for name in names:
        if name.startswith(NOTE_PREFIX) and f"{staging}/{name}" not in done:
            note = read_object(bucket, f"{staging}/{name}")
            # what is not known any more the store's own rules end
            with suppress(ValueError, TypeError):
                for upload_key, upload in () if note is None else json.loads(note.data):
                    abort(bucket, str(upload_key), str(upload))
    key, last = bucket.key(staging), bucket.key(f"{staging}/{STAGING_MARKER}")
    remove_keys(bucket, staging, [found for name in names if (found := f"{key}/{name}") != last])
    remove_keys(bucket, staging, [last])
