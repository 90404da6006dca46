"""Publication in a bucket: files are made as uploads, and completing these, once one marker says so, is all that it
does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Any

from botocore.exceptions import ClientError

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.model.location import Location
from acidlib.model.names import (
    METADATA_ACID_FILE,
    ORC_ACID_VERSION_FILE,
    BaseDir,
    DeltaDir,
    Generation,
    parse_directory,
)
from acidlib.points import Point, passing
from acidlib.stores.listing import UNFINISHED_FORMAT
from acidlib.stores.renaming.publishing import (
    STAGING_MARKER,
    STAGING_PREFIX,
    Published,
    RolledForward,
    StagedDirectory,
    StagedFile,
)
from acidlib.stores.s3.client import (
    Bucket,
    ChangedError,
    code_of,
    create_object,
    is_missing,
    read_object,
    replace_object,
)
from acidlib.stores.s3.files import S3FileSystem, remove_keys
from acidlib.stores.store import Attempt as AcceptedAttempt

# --- notes ------------------------------------------------------------------------------------------------------------
# Notes of uploads, beside the staging marker: no listing shows them everywhere, and while they last they cost money.
#
# Whoever removes what a dead run has staged aborts what is noted there. A note may tell of uploads that were completed.


def write_note(bucket: Bucket, path: str, uploads: Sequence[tuple[str, str]]) -> None:
    """Notes uploads by their keys and ids."""
    data = json.dumps([list(upload) for upload in uploads]).encode()
    with bucket.raising("write", path):
        bucket.client.put_object(Bucket=bucket.name, Key=bucket.key(path), Body=data, **bucket.created)


def abort_noted(bucket: Bucket, path: str) -> None:
    """Aborts the uploads of a note, if it can be read."""
    found = read_object(bucket, path)
    if found is None:
        return
    try:
        uploads = [(str(key), str(upload)) for key, upload in json.loads(found.data)]
    except (ValueError, TypeError):
        return  # the store's own rules end what is not known any more
    for key, upload in uploads:
        abort(bucket, key, upload)


# --- markers ----------------------------------------------------------------------------------------------------------
# The marker of a run's staging directory: one object, and how it changes decides between runs.
#
# It says `staging` until its run records what it publishes, or another run revokes it. Both are done by replacing the
# version that was read, so only one of them happens: a run that slept after its last check cannot record any more once
# it was revoked, and what is recorded is finished by anybody. It never goes back.

_VERSION = 1


class State(StrEnum):
    """What a marker says of its run."""

    STAGING = "staging"
    RECORDED = "recorded"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A publication that is decided: what is to be completed, the first upload before all others.

    hidden  nobody sees it before a transaction commits, so that nobody has to finish it
    closed  `_metadata_acid`, which is the first upload, keeps readers away until all is there, and is replaced last
    """

    directories: tuple[StagedDirectory, ...]
    inputs: tuple[str, ...]
    uploads: tuple[Attempt, ...]
    hidden: bool
    closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The marker of a staging directory. `start` is in seconds since the epoch, for people."""

    path: str
    unique: str
    owner: str
    start: float
    state: State = State.STAGING
    recorded: Recorded | None = None
    version: str = ""

    @property
    def staging(self) -> str:
        """The staging directory."""
        return self.path.removesuffix(f"/{STAGING_MARKER}")


def marker_path(staging: str) -> str:
    """Where the marker of a staging directory is."""
    return f"{staging}/{STAGING_MARKER}"


def create_marker(bucket: Bucket, marker: Marker) -> Marker:
    """Makes a marker; ChangedError when there is one."""
    return replace(marker, version=create_object(bucket, marker.path, _encoded(marker)))


def read_marker(bucket: Bucket, staging: str) -> Marker | None:
    """The marker of a staging directory; None without one. CorruptError when it cannot be understood."""
    path = marker_path(staging)
    found = read_object(bucket, path)
    return None if found is None else _decoded(path, found.data, found.version)


def move_marker(bucket: Bucket, marker: Marker, state: State, recorded: Recorded | None = None) -> Marker:
    """The marker as it says something else from now on; ChangedError when another run was faster."""
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
            "directories": [
                {"name": item.name, "files": [[file.name, file.length] for file in item.files]}
                for item in recorded.directories
            ],
            "inputs": list(recorded.inputs),
            "uploads": [attempt.document() for attempt in recorded.uploads],
            "hidden": recorded.hidden,
            "closed": recorded.closed,
        }
    return json.dumps(document, ensure_ascii=False, indent=1).encode()


def _decoded(path: str, data: bytes, version: str) -> Marker:
    try:
        document = json.loads(data)
        if document["version"] != _VERSION:
            raise ValueError("another version")
        state = State(document["state"])
        return Marker(
            path=path,
            unique=str(document["unique"]),
            owner=str(document["owner"]),
            start=float(document["start"]),
            state=state,
            recorded=_publication(path, document["publication"]) if state is State.RECORDED else None,
            version=version,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptError(
            f"Cannot read {path}: because it is not a marker that this version understands ({error})"
        ) from error


def _publication(path: str, document: Any) -> Recorded:
    return Recorded(
        directories=tuple(
            StagedDirectory(
                name=str(item["name"]),
                files=tuple(StagedFile(name=str(name), length=int(length)) for name, length in item["files"]),
            )
            for item in document["directories"]
        ),
        inputs=tuple(str(item) for item in document["inputs"]),
        uploads=tuple(Attempt.of_document(item, where=path) for item in document["uploads"]),
        hidden=bool(document["hidden"]),
        closed=bool(document["closed"]),
    )


# --- attempts ---------------------------------------------------------------------------------------------------------
# One attempt at a file that is to be published: an upload that was filled and not completed.
#
# Nobody sees such an upload, not even in a listing, and it may be completed from any process that knows its parts. A
# task tells the driver of it by a value. Where nobody does, because a run died, a note beside the staging marker says
# which upload is to be aborted.

OUTPUTS = "_outputs"
NOTE_PREFIX = f"{STAGING_MARKER}.upload."
MARK = "acidlib"
"""The metadata of an object that tells whose it is."""

_OUTPUT = re.compile(
    rf"(?P<staging>(?P<location>.+)/{STAGING_PREFIX}(?P<unique>[^/]+))/{OUTPUTS}"
    r"/(?P<attempt>[^/]+)/(?P<directory>[^/]+)/(?P<file>[^/]+)",
    re.DOTALL,
)

_STAGED = re.compile(rf"(?P<staging>.+/{STAGING_PREFIX}[^/]+)/(?P<name>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of an upload; `checksums` as the store gave them, by their names in its interface."""

    number: int
    version: str
    size: int
    checksums: tuple[tuple[str, str], ...] = ()

    def as_completed(self) -> Any:
        """As the request that completes an upload names it."""
        return {"PartNumber": self.number, "ETag": self.version, **dict(self.checksums)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An upload that was filled. `key` is the final one, `mark` what its object's metadata will say."""

    directory: str
    file: str
    key: str
    upload: str
    length: int
    mark: str
    parts: tuple[Part, ...]

    @staticmethod
    def of_text(text: str) -> Attempt:
        """Back from `text`; CorruptError when it is none."""
        try:
            document = json.loads(text)
        except ValueError as error:
            raise CorruptError("Cannot read what a task has made: because it is not JSON") from error
        return Attempt.of_document(document, where="what a task has made")

    @property
    def text(self) -> str:
        """As a task hands it to the driver."""
        return json.dumps(self.document())

    def document(self) -> dict[str, Any]:
        """As a value of JSON."""
        return {
            "directory": self.directory,
            "file": self.file,
            "key": self.key,
            "upload": self.upload,
            "length": self.length,
            "mark": self.mark,
            "parts": [[part.number, part.version, part.size, dict(part.checksums)] for part in self.parts],
        }

    @staticmethod
    def of_document(document: Mapping[str, Any], *, where: str) -> Attempt:
        """Back from JSON; CorruptError naming `where` it was read when it is not one."""
        try:
            return Attempt(
                directory=str(document["directory"]),
                file=str(document["file"]),
                key=str(document["key"]),
                upload=str(document["upload"]),
                length=int(document["length"]),
                mark=str(document["mark"]),
                parts=tuple(
                    Part(number=int(number), version=str(version), size=int(size), checksums=tuple(checksums.items()))
                    for number, version, size, checksums in document["parts"]
                ),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptError(f"Cannot read {where}: because it does not describe an upload") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPath:
    """What the path of an attempt says: where it is staged, and what it is to become."""

    staging: str
    location: str
    unique: str
    attempt: str
    directory: str
    file: str

    @property
    def final(self) -> str:
        """The path that readers will see."""
        return f"{self.location}/{self.directory}/{self.file}"

    @property
    def mark(self) -> str:
        """What the object's metadata will say."""
        return f"{self.unique}/{self.attempt}"


def output_path(staging: str, directory: str, file: str, attempt: str) -> str:
    """The path of one attempt at `directory`/`file`, which is no object; `attempt` is unique to the task attempt."""
    return f"{staging}/{OUTPUTS}/{attempt}/{directory}/{file}"


def note_path(path: str) -> str | None:
    """Where the upload of a file in or for a staging directory is noted; None for any other path."""
    found = _STAGED.fullmatch(path)
    return None if found is None else f"{found['staging']}/{NOTE_PREFIX}{found['name'].replace('/', '.')}"


def parse_output_path(path: str) -> OutputPath | None:
    """What the path of an attempt says; None when it is not one."""
    found = _OUTPUT.fullmatch(path)
    return None if found is None else OutputPath(**found.groupdict())


# --- completing -------------------------------------------------------------------------------------------------------
# Making uploads visible, and taking them back: what each object that a run makes can still become.
#
# An upload is completed once, aborted once, and never both: the store decides. What its answers leave open is decided
# by looking at the object, whose metadata tell whose it is.

THREADS = 16
_TRIES = 4
_AMBIGUOUS = frozenset({"InvalidPart", "InvalidRequest"})


class Fate(Enum):
    """What has become of an upload."""

    OPEN = "it can be completed"
    VISIBLE = "its object is there"
    GONE = "neither"


class _GoneError(ConflictError):
    """There is no such upload."""


def start_small(bucket: Bucket, attempt: Attempt, data: bytes) -> Attempt:
    """A small file as an upload that is ready to be completed: everything that becomes visible has to be one.

    A sleeper that wakes cannot complete an upload twice; but it could put an object again that was cleaned away.
    """
    path = bucket.path(attempt.key)
    with bucket.raising("write", path):
        upload = bucket.client.create_multipart_upload(
            Bucket=bucket.name, Key=attempt.key, Metadata={MARK: attempt.mark}, **bucket.created
        )["UploadId"]
        part = bucket.client.upload_part(Bucket=bucket.name, Key=attempt.key, UploadId=upload, PartNumber=1, Body=data)
    return Attempt(
        directory=attempt.directory,
        file=attempt.file,
        key=attempt.key,
        upload=upload,
        length=len(data),
        mark=attempt.mark,
        parts=(Part(number=1, version=part["ETag"], size=len(data)),),
    )


def is_ours(bucket: Bucket, attempt: Attempt) -> bool:
    """Whether the object under the final name is the one that this attempt made."""
    return _mark(bucket, attempt.key) == attempt.mark


def fate(bucket: Bucket, attempt: Attempt) -> Fate:
    """What has become of an attempt. Looked at in this order: a completion between both looks shows as VISIBLE."""
    if has_its_parts(bucket, attempt):
        return Fate.OPEN
    return Fate.VISIBLE if is_ours(bucket, attempt) else Fate.GONE


def has_its_parts(bucket: Bucket, attempt: Attempt) -> bool:
    """Whether the upload is still there; CorruptError when its parts are not those that were sent."""
    found: dict[int, tuple[str, int]] = {}
    arguments: dict[str, Any] = {}
    try:
        while True:
            with bucket.raising("look at the upload of", bucket.path(attempt.key), missing=_GoneError):
                page = bucket.client.list_parts(
                    Bucket=bucket.name, Key=attempt.key, UploadId=attempt.upload, **arguments
                )
            found |= {part["PartNumber"]: (part["ETag"].strip('"'), part["Size"]) for part in page.get("Parts", [])}
            if not page.get("IsTruncated"):
                break
            arguments = {"PartNumberMarker": page["NextPartNumberMarker"]}
    except _GoneError:
        return False
    if found != {part.number: (part.version.strip('"'), part.size) for part in attempt.parts}:
        raise CorruptError(
            f"Cannot publish {bucket.path(attempt.key)}: because the parts of its upload are not those that were sent"
        )
    return True


def complete(bucket: Bucket, attempt: Attempt) -> bool:
    """Makes an upload an object; returns whether that is there now, whoever completed it.

    False when the upload is gone and its object is not there: it was aborted, or removed since. ConflictError when
    there is another object of that name.
    """
    path = bucket.path(attempt.key)
    parts: Any = [part.as_completed() for part in attempt.parts]
    tries = 0
    while True:
        try:
            bucket.client.complete_multipart_upload(
                Bucket=bucket.name,
                Key=attempt.key,
                UploadId=attempt.upload,
                MultipartUpload={"Parts": parts},
                IfNoneMatch="*",
            )
            return True
        except Exception as error:
            found = _mark(bucket, attempt.key)
            if found == attempt.mark:
                return True
            is_gone = isinstance(error, ClientError) and (
                is_missing(error) or (code_of(error) in _AMBIGUOUS and not has_its_parts(bucket, attempt))
            )
            if is_gone:
                return False
            try:
                with bucket.raising("publish", path):
                    raise
            except ChangedError:
                if found is not None:
                    raise ConflictError(f"Cannot publish {path}: because it already exists") from error
                tries += 1
                if tries == _TRIES:
                    raise RetryError(
                        f"Cannot publish {path}: because the store calls it a conflict {_TRIES} times"
                    ) from error


def complete_all(bucket: Bucket, attempts: Sequence[Attempt]) -> tuple[bool, ...]:
    """Completes uploads in threads, see `complete`; the first error is raised once all were tried."""
    if not attempts:
        return ()
    with ThreadPoolExecutor(min(THREADS, len(attempts)), thread_name_prefix="acidlib-publish") as threads:
        tried = [threads.submit(complete, bucket, attempt) for attempt in attempts]
    return tuple(one.result() for one in tried)


def abort(bucket: Bucket, key: str, upload: str) -> None:
    """Aborts an upload. The answer decides nothing: it may have been completed, or be gone."""
    path = bucket.path(key)
    try:
        with bucket.raising("abort the upload of", path, missing=_GoneError):
            bucket.client.abort_multipart_upload(Bucket=bucket.name, Key=key, UploadId=upload)
    except _GoneError:
        return


def take_back(bucket: Bucket, attempts: Iterable[Attempt]) -> None:
    """Nothing of these stays visible, or can become so: first all uploads are aborted, then objects of ours removed.

    In this order, as a publisher that sleeps may go on completing: what it completes meanwhile is removed, too. What
    was completed first goes last, as it keeps readers from the others, or is all that they read.
    """
    all_of_them = tuple(attempts)
    for attempt in all_of_them:
        abort(bucket, attempt.key, attempt.upload)
    for some in (all_of_them[1:], all_of_them[:1]):
        if ours := [attempt.key for attempt in some if is_ours(bucket, attempt)]:
            remove_keys(bucket, bucket.path(ours[0].rpartition("/")[0]), ours)


def _mark(bucket: Bucket, key: str) -> str | None:
    """Whose object it is: empty for one that is none of ours; None when there is none."""
    found = bucket.head(bucket.path(key))
    return None if found is None else found["Metadata"].get(MARK, "")


# --- publishing -------------------------------------------------------------------------------------------------------
# Staging and publishing in a bucket: files are made as uploads, and completing these is all that publication does.
#
# What decides is one change of the marker, to `recorded` with all that is to be completed (see above). From then on
# anybody finishes it. The first upload is completed alone: while it is neither completed nor aborted nothing of the
# publication is visible, so that whoever aborts it first has discarded the whole.
#
# Several files of a base whose name hides them from nobody (Hive 3.1) become visible one after the other. There the
# first is a `_metadata_acid` of a kind that no reader knows: each fails at this base instead of reading half of it
# (Hive AcidUtils.MetaDataFile), until the file is replaced by the right one at the end. Nothing keeps readers away from
# several files of deltas: these are refused.

_RECORD_VERSION = b"2"
_DRIVERS_NOTE = f"{NOTE_PREFIX}driver"
_COMPACTED = b'{"thisFileVersion":"0","dataFormat":"compacted"}'


class S3Stage:
    """What a run stages at a place, until it is published or discarded."""

    is_readable = False  # of an upload nothing can be read before it is completed

    def __init__(self, bucket: Bucket, location: Location, marker: Marker) -> None:
        self._bucket = bucket
        self._location = location
        self._marker = marker
        self._accepted: dict[tuple[str, str], Attempt] = {}
        self._shown: tuple[Attempt, ...] = ()
        self._ended = False

    @property
    def path(self) -> str:
        """The staging directory."""
        return self._marker.staging

    def output_path(self, directory: str, file: str, attempt: str) -> str:
        """Where a task makes one attempt at `directory`/`file`; `attempt` is unique to the task attempt."""
        return output_path(self.path, directory, file, attempt)

    def accept(self, directory: str, attempts: Sequence[AcceptedAttempt]) -> StagedDirectory:
        """Takes the attempts that count as the files of a directory. A second one for a file is a ConflictError."""
        prefix = self._bucket.key(f"{self._location}/{directory}")
        uploads = [Attempt.of_text(one.written) for one in attempts]
        for attempt in uploads:
            if attempt.key != f"{prefix}/{attempt.file}" or attempt.mark.partition("/")[0] != self._marker.unique:
                raise ValueError(f"{attempt.key} was not made for {self.path} and {directory}")
            if (directory, attempt.file) in self._accepted:
                raise ConflictError(f"Cannot accept {attempt.key}: because there is another attempt at it")
            self._accepted[directory, attempt.file] = attempt
        files = tuple(StagedFile(name=attempt.file, length=attempt.length) for attempt in uploads)
        return StagedDirectory(name=directory, files=files)

    def publish(
        self, directories: Sequence[StagedDirectory], *, inputs: tuple[str, ...], last_check: Callable[[], None]
    ) -> Published:
        """Makes one directory visible whose name hides it from nobody.

        Its files have to be those that were accepted (else `CorruptError`); `_orc_acid_version` is added, and
        `_metadata_acid` to a base. `inputs` are the relative paths of what was compacted. `last_check` runs right
        before the publication is recorded: it raises when the claim is lost or the place has changed. RefusedError for
        what readers would see half of: two directories, or a delta of several files. ConflictError when the name is
        taken, or another run has revoked this one; then nothing is changed. UnknownOutcomeError when the next run has
        to finish it.
        """
        if len(directories) != 1:
            raise RefusedError(
                f"Cannot publish {' and '.join(item.name for item in directories)} in {self._location}: because in a "
                "bucket several directories cannot become visible at once; a major compaction makes one"
            )
        (directory,) = directories
        parsed = parse_directory(directory.name, Generation.HIVE4)
        if parsed is None:
            raise ValueError(f"{directory.name!r} is not the name of an ACID directory")
        if parsed.visibility_txn and len(directory.files) > 1:
            # Hive 4 asks such a base for no marker (AcidUtils.isCompactedBase), so nothing keeps readers from it
            raise RefusedError(
                f"Cannot publish {directory.name} in {self._location}: because in a bucket its {len(directory.files)} "
                "files cannot become visible at once, and a name with a transaction hides them from nobody; leave "
                "--visibility-txn out"
            )
        if isinstance(parsed, DeltaDir) and len(directory.files) > 1:
            raise RefusedError(
                f"Cannot publish {directory.name} in {self._location}: because in a bucket its {len(directory.files)} "
                "files cannot become visible at once; a major compaction makes a base, at which readers wait"
            )
        return self._published(directories, inputs, last_check, hidden=False)

    def publish_hidden(self, directories: Sequence[StagedDirectory], *, last_check: Callable[[], None]) -> Published:
        """Makes directories with the suffix of a transaction that is open: its commit shows them all.

        Otherwise as `publish`. Until the commit no reader takes them; what fails half-way is taken back.
        """
        for directory in directories:
            parsed = parse_directory(directory.name, Generation.HIVE4)
            if parsed is None or parsed.visibility_txn == 0:
                raise ValueError(f"{directory.name!r} has no visibility suffix")
        return self._published(directories, (), last_check, hidden=True)

    def discard(self) -> str | None:
        """Drops all that is staged, unless it has to be finished; returns None, or why something of it is left.

        The marker first says that this run is revoked, so that not even a request of ours that is still on its way can
        record anything.
        """
        if self._ended:
            return None
        try:
            if self._shown:
                remove_staging(self._bucket, self.path, self._shown, is_settled=True)
                return None
            found = read_marker(self._bucket, self.path)
            if found is not None and found.state is State.RECORDED:
                return None
            if found is not None and found.state is State.STAGING:
                move_marker(self._bucket, found, State.REVOKED)
            for attempt in self._accepted.values():
                abort(self._bucket, attempt.key, attempt.upload)
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
        refuse_existing(self._bucket, self._location, [item.name for item in directories])
        files = self._files(directories)
        recorded = self._sealed(directories, files, inputs, hidden=hidden)
        passing(Point.SEALED)
        try:
            last_check()
            passing(Point.CHECKED)
            self._marker = move_marker(self._bucket, self._marker, State.RECORDED, recorded)
        except ChangedError as error:
            self._drop_small(recorded.uploads)
            raise ConflictError(
                f"Cannot publish in {self._location}: because another run has taken over what was staged"
            ) from error
        except ConflictError:
            self._drop_small(recorded.uploads)
            raise
        # after any other error the marker may still come to say that it is recorded, until `discard` decides
        passing(Point.RECORDED)
        names = tuple(item.name for item in directories)
        try:
            finish(self._bucket, recorded)
        except ConflictError as error:
            if any(is_ours(self._bucket, attempt) for attempt in recorded.uploads):
                # never taken back from here: if we slept, another run could have published the same names since
                raise UnknownOutcomeError(
                    f"Cannot tell whether {' and '.join(names)} in {self._location} can be published as a whole: "
                    f"because {error}; the next run there finishes it or takes it back"
                ) from error
            give_up(self._bucket, self._location, recorded, error)
            with suppress(AcidError):
                remove_staging(self._bucket, self.path, is_settled=True)
            raise
        except RetryError as error:
            raise UnknownOutcomeError(
                f"Cannot tell whether {' and '.join(names)} in {self._location} is published as a whole: because a "
                f"request failed ({error}); the next run there finishes it"
            ) from error
        passing(Point.SECOND_RENAMED)
        self._accepted.clear()
        self._shown = recorded.uploads
        leftover = None
        try:
            remove_staging(self._bucket, self.path, recorded.uploads, is_settled=True)
            self._ended = True
        except AcidError as error:
            leftover = str(error)
        passing(Point.UNRECORDED)
        return Published(directories=names, kind="commit" if hidden else "completed uploads", leftover=leftover)

    def _files(self, directories: Sequence[StagedDirectory]) -> dict[str, list[Attempt]]:
        """What was accepted of each directory: that every upload is there is asked right now.

        Lifecycle rules of buckets, and committers of other engines, abort uploads of others.
        """
        found: dict[str, list[Attempt]] = {}
        for directory in directories:
            found[directory.name] = [self._file(directory.name, file) for file in directory.files]
            for attempt in found[directory.name]:
                if not has_its_parts(self._bucket, attempt):
                    raise RetryError(
                        f"Cannot publish {self._bucket.path(attempt.key)}: because somebody else has aborted its "
                        "upload; look for rules and committers that abort uploads in this bucket"
                    )
        return found

    def _sealed(
        self,
        directories: Sequence[StagedDirectory],
        accepted: Mapping[str, list[Attempt]],
        inputs: tuple[str, ...],
        *,
        hidden: bool,
    ) -> Recorded:
        """All that is to be completed, in order, with the markers that every directory gets."""
        made: list[Attempt] = []
        uploads: list[Attempt] = []
        sealed: list[StagedDirectory] = []
        closed = False

        def small(directory: str, file: str, data: bytes) -> Attempt:
            made.append(self._small(directory, file, data))
            return made[-1]

        try:
            for directory in directories:
                files = accepted[directory.name]
                marks = [small(directory.name, ORC_ACID_VERSION_FILE, _RECORD_VERSION)]
                parsed = parse_directory(directory.name, Generation.HIVE4)
                if not isinstance(parsed, BaseDir) or parsed.visibility_txn:
                    uploads += [*files, *marks]
                elif len(files) == 1:
                    marks.append(small(directory.name, METADATA_ACID_FILE, _COMPACTED))
                    uploads += [*files, *marks]
                else:
                    closed = True
                    marks.append(small(directory.name, METADATA_ACID_FILE, _closed(self._marker.unique)))
                    uploads += [marks[1], *files, marks[0]]
                added = tuple(StagedFile(name=attempt.file, length=attempt.length) for attempt in marks)
                sealed.append(StagedDirectory(name=directory.name, files=directory.files + added))
            write_note(
                self._bucket, f"{self.path}/{_DRIVERS_NOTE}", [(attempt.key, attempt.upload) for attempt in made]
            )
        except AcidError:
            self._drop_small(made)
            raise
        return Recorded(directories=tuple(sealed), inputs=inputs, uploads=tuple(uploads), hidden=hidden, closed=closed)

    def _file(self, directory: str, file: StagedFile) -> Attempt:
        attempt = self._accepted.get((directory, file.name))
        if attempt is None or attempt.length != file.length:
            raise CorruptError(
                f"Cannot publish {self._location}/{directory}/{file.name}: because no attempt of {file.length} bytes "
                "was accepted for it"
            )
        return attempt

    def _small(self, directory: str, file: str, data: bytes) -> Attempt:
        return start_small(
            self._bucket,
            Attempt(
                directory=directory,
                file=file,
                key=self._bucket.key(f"{self._location}/{directory}/{file}"),
                upload="",
                length=len(data),
                mark=f"{self._marker.unique}/{file}",
                parts=(),
            ),
            data,
        )

    def _drop_small(self, uploads: Sequence[Attempt]) -> None:
        """The uploads that were made here and are noted nowhere."""
        for attempt in uploads:
            if (attempt.directory, attempt.file) not in self._accepted:
                with suppress(AcidError):
                    abort(self._bucket, attempt.key, attempt.upload)


def create_stage(bucket: Bucket, location: Location, *, unique: str, owner: str, now: float) -> S3Stage:
    """Begins to stage at a place under a name that no other run has; ConflictError when one has it."""
    marker = Marker(path=marker_path(f"{location}/{STAGING_PREFIX}{unique}"), unique=unique, owner=owner, start=now)
    return S3Stage(bucket, location, create_marker(bucket, marker))


def finish(bucket: Bucket, recorded: Recorded) -> None:
    """Completes all that is recorded. Whoever does it, and how often, the result is the same.

    ConflictError when something of it can never become visible: it was aborted, or removed since.
    """
    first, *others = recorded.uploads
    if not complete(bucket, first):
        raise _gone(bucket, first)
    passing(Point.FIRST_RENAMED)
    for attempt, is_there in zip(others, complete_all(bucket, others), strict=True):
        if not is_there:
            raise _gone(bucket, attempt)
    if recorded.closed:
        open_to_readers(bucket, first)


def open_to_readers(bucket: Bucket, closed: Attempt) -> None:
    """Lets readers see a base, all of whose files are there; see the top of this module."""
    path = bucket.path(closed.key)
    found = read_object(bucket, path)
    if found is not None and found.data == _COMPACTED:
        return
    if found is None or found.metadata.get(MARK) != closed.mark:
        raise ConflictError(f"Cannot publish {path}: because somebody else has removed or changed it")
    replace_object(bucket, path, found.version, _COMPACTED, {MARK: closed.mark})


def is_open_to_readers(bucket: Bucket, closed: Attempt) -> bool:
    """Whether that was done."""
    found = read_object(bucket, bucket.path(closed.key))
    return found is not None and found.data == _COMPACTED


def give_up(bucket: Bucket, location: Location, recorded: Recorded, why: ConflictError) -> None:
    """Takes back what was recorded and can never be completed.

    CorruptError, and nothing is changed, when some of it is visible and an input of it is gone: then nobody but a
    person knows what holds its rows.
    """
    missing = missing_input(bucket, location, recorded)
    if missing is not None and any(is_ours(bucket, attempt) for attempt in recorded.uploads):
        names = " and ".join(directory.name for directory in recorded.directories)
        raise CorruptError(
            f"Cannot finish the publication of {names} in {location}: because some of its files are gone and so is "
            f"{missing}, one of its inputs ({why}). Look whether another base or delta holds these rows; then remove "
            f"{names} and what the run staged, and run again"
        ) from why
    take_back(bucket, recorded.uploads)


def missing_input(bucket: Bucket, location: Location, recorded: Recorded) -> str | None:
    """The first input that is not there any more."""
    fs = S3FileSystem(bucket)
    return next((path for path in recorded.inputs if not fs.exists(f"{location}/{path}")), None)


def refuse_existing(bucket: Bucket, location: Location, names: Sequence[str]) -> None:
    """ConflictError when anything lies below one of these names."""
    for name in names:
        if S3FileSystem(bucket).exists(f"{location}/{name}"):
            raise ConflictError(f"Cannot publish {location}/{name}: because it already exists")


def remove_staging(
    bucket: Bucket, staging: str, published: Sequence[Attempt] = (), *, is_settled: bool = False
) -> None:
    """Removes a staging directory, and aborts the uploads that are noted there.

    The marker goes last: without one, nobody would take the rest for ours. RefusedError while something is recorded
    that everybody is to see, unless the caller has settled that.
    """
    marker = None if is_settled else read_marker(bucket, staging)
    if marker is not None and marker.recorded is not None and not marker.recorded.hidden:
        raise RefusedError(f"Cannot remove {staging}: because it holds a publication that is to be finished")
    key = bucket.key(staging)
    try:
        tree = S3FileSystem(bucket).list_tree(staging, enter_hidden=True, missing=ConflictError)
    except ConflictError:
        return
    done: set[str | None] = {f"{staging}/{_DRIVERS_NOTE}"} if published else set()
    done |= {
        note_path(output_path(staging, attempt.directory, attempt.file, attempt.mark.partition("/")[2]))
        for attempt in published
    }
    names = [entry.path for entry in tree if not entry.is_directory]
    for name in names:
        if name.startswith(NOTE_PREFIX) and f"{staging}/{name}" not in done:
            abort_noted(bucket, f"{staging}/{name}")
    last = bucket.key(marker_path(staging))
    keys = [found for name in names if (found := f"{key}/{name}") != last]
    remove_keys(bucket, staging, keys)
    remove_keys(bucket, staging, [last])


def _closed(unique: str) -> bytes:
    return json.dumps({"thisFileVersion": "0", "dataFormat": UNFINISHED_FORMAT, "run": unique}).encode()


def _gone(bucket: Bucket, attempt: Attempt) -> ConflictError:
    return ConflictError(
        f"Cannot publish {bucket.path(attempt.key)}: because its upload was aborted, or what it became was removed"
    )


# --- unfinished -------------------------------------------------------------------------------------------------------
# What other runs left at a place in a bucket: theirs is revoked, or, once it is recorded, finished or discarded.


def markers_of(bucket: Bucket, location: Location) -> tuple[Marker, ...]:
    """The markers of all runs that have staged something at a place, in the order of names."""
    found = (
        read_marker(bucket, f"{location}/{entry.name}")
        for entry in S3FileSystem(bucket).list_directory(str(location), missing=ConflictError)
        if entry.is_directory and entry.name.startswith(STAGING_PREFIX)
    )
    return tuple(marker for marker in found if marker is not None)


def unfinished_publications(bucket: Bucket, location: Location) -> tuple[str, ...]:
    """The staging directories of what was recorded to become visible, and not finished."""
    return tuple(marker.staging for marker, _ in _recorded(bucket, location))


def revoke_others(bucket: Bucket, location: Location) -> None:
    """Takes from earlier runs what they staged at a place: none of them can publish any more.

    The caller has claimed the place and has staged nothing yet. Never what is recorded, which is to be finished next;
    ConflictError when a run has recorded something in this moment: then look again. Uploads stay until their staging
    directory is removed: only the marker decides. What is hidden until a transaction commits is given up as far as it
    is not there.
    """
    for marker in markers_of(bucket, location):
        if marker.state is State.REVOKED:
            continue
        if marker.recorded is not None and not marker.recorded.hidden:
            continue
        try:
            if marker.recorded is not None:
                for attempt in marker.recorded.uploads:
                    abort(bucket, attempt.key, attempt.upload)
            move_marker(bucket, marker, State.REVOKED)
        except ChangedError as error:
            if read_marker(bucket, marker.staging) is not None:
                raise _recorded_since(location, marker) from error
            # its run has come to its own end


def roll_forward(bucket: Bucket, location: Location, *, visible_only: bool = False) -> tuple[RolledForward, ...]:
    """Finishes every publication that any earlier run recorded at a place and did not complete.

    The caller must hold the claim. The run that recorded it may be asleep, and go on at any moment: whatever it does
    then has been done, or can be done no more. With `visible_only`, just those of which a reader can see something.

    * Something is visible: the rest is completed. Where that cannot be, as an upload is gone, all is taken back while
      the inputs are there.
    * Nothing is: it is completed too; but discarded if an input is gone, the name is taken or a wider delta covers it:
      then its rows are in what is there.

    Running it again is harmless. Raises `CorruptError` where nobody but a person can decide: an upload is gone and so
    are inputs.
    """
    return tuple(
        _roll_one(bucket, location, marker, recorded)
        for marker, recorded in _recorded(bucket, location)
        if not visible_only or any(is_ours(bucket, attempt) for attempt in recorded.uploads)
    )


def _recorded(bucket: Bucket, location: Location) -> tuple[tuple[Marker, Recorded], ...]:
    return tuple(
        (marker, marker.recorded)
        for marker in markers_of(bucket, location)
        if marker.recorded is not None and not marker.recorded.hidden
    )


def _roll_one(bucket: Bucket, location: Location, marker: Marker, recorded: Recorded) -> RolledForward:
    outcome, reason = _settle(bucket, location, recorded)
    remove_staging(bucket, marker.staging, recorded.uploads, is_settled=True)
    names = tuple(directory.name for directory in recorded.directories)
    return RolledForward(staging=marker.staging, directories=names, outcome=outcome, reason=reason)


def _settle(bucket: Bucket, location: Location, recorded: Recorded) -> tuple[str, str | None]:
    first = recorded.uploads[0]
    fates = [fate(bucket, attempt) for attempt in recorded.uploads]
    if all(one is Fate.VISIBLE for one in fates) and (not recorded.closed or is_open_to_readers(bucket, first)):
        return "was published", None
    if fates[0] is Fate.OPEN:
        reason = _reason_to_discard(bucket, location, recorded)
        if reason is not None:
            abort(bucket, first.key, first.upload)
            if not is_ours(bucket, first):  # else its run was faster, and its inputs were there then
                take_back(bucket, recorded.uploads)
                return "discarded", reason
    elif fates[0] is Fate.GONE and Fate.VISIBLE not in fates:
        take_back(bucket, recorded.uploads)
        return "discarded", "its first file was given up before, or all of it was removed after it was published"
    try:
        finish(bucket, recorded)
    except ConflictError as error:
        if (wider := _wider(bucket, location, recorded)) is not None:
            for attempt in recorded.uploads:
                abort(bucket, attempt.key, attempt.upload)
            return "discarded", f"{wider} covers it, and a part of it has been removed since"
        give_up(bucket, location, recorded, error)
        return "discarded", f"it cannot be completed, and all its inputs are still there: {error}"
    return "finished", None


def _reason_to_discard(bucket: Bucket, location: Location, recorded: Recorded) -> str | None:
    if (path := missing_input(bucket, location, recorded)) is not None:
        return f"its input {path} is gone, so something else stands for those rows"
    for directory in recorded.directories:
        if S3FileSystem(bucket).exists(f"{location}/{directory.name}"):
            return f"{directory.name} already exists"
    wider = _wider(bucket, location, recorded)
    return None if wider is None else f"{wider} covers it"


def _wider(bucket: Bucket, location: Location, recorded: Recorded) -> str | None:
    """A directory that makes the recorded one obsolete and is no input of it."""
    (directory,) = recorded.directories
    own = parse_directory(directory.name, Generation.HIVE4)
    high = own.write_id if isinstance(own, BaseDir) else own.max_write_id if isinstance(own, DeltaDir) else None
    if high is None:
        return None
    for entry in S3FileSystem(bucket).list_directory(str(location), missing=ConflictError):
        if not entry.is_directory or entry.name == directory.name or entry.name in recorded.inputs:
            continue
        found = parse_directory(entry.name, Generation.HIVE4)
        if isinstance(found, BaseDir):
            above = found.write_id > high or (found.write_id == high and isinstance(own, DeltaDir))
            if above and found.visibility_txn == 0:
                return entry.name
        elif (
            isinstance(found, DeltaDir)
            and isinstance(own, DeltaDir)
            and found.min_write_id <= own.min_write_id
            and high <= found.max_write_id
        ):
            return entry.name
    return None


def _recorded_since(location: Location, marker: Marker) -> ConflictError:
    return ConflictError(
        f"Cannot work in {location}: because the run that staged {marker.staging} has just recorded what it publishes"
    )
