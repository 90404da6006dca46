"""Staging and publishing in a bucket: files are made as uploads, and completing these is all that publication does.

What decides is one change of the marker, to `recorded` with all that is to be completed (see `markers`). From then on
anybody finishes it. The first upload is completed alone: while it is neither completed nor aborted nothing of the
publication is visible, so that whoever aborts it first has discarded the whole.

Several files of a base whose name hides them from nobody (Hive 3.1) become visible one after the other. There the
first is a `_metadata_acid` of a kind that no reader knows: each fails at this base instead of reading half of it (Hive
AcidUtils.MetaDataFile), until the file is replaced by the right one at the end. Nothing keeps readers away from several
files of deltas: these are refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.model.generation import Generation
from acidlib.model.location import Location
from acidlib.model.names import METADATA_ACID_FILE, ORC_ACID_VERSION_FILE, BaseDir, DeltaDir, parse_directory
from acidlib.points import Point, passing
from acidlib.storage.listing import UNFINISHED_FORMAT
from acidlib.storage.publishing import Published
from acidlib.storage.records import StagedDirectory, StagedFile
from acidlib.storage.s3.attempts import MARK, NOTE_PREFIX, Attempt, note_path, output_path
from acidlib.storage.s3.client import Bucket
from acidlib.storage.s3.completing import abort, complete, complete_all, has_its_parts, is_ours, start_small, take_back
from acidlib.storage.s3.conditional import read_object, replace_object
from acidlib.storage.s3.errors import ChangedError
from acidlib.storage.s3.files import S3FileSystem, remove_keys
from acidlib.storage.s3.markers import Marker, Recorded, State, create_marker, marker_path, move_marker, read_marker
from acidlib.storage.s3.notes import abort_noted, write_note
from acidlib.storage.staging import STAGING_PREFIX
from acidlib.storage.store import Attempt as AcceptedAttempt

_VERSION = b"2"
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
                marks = [small(directory.name, ORC_ACID_VERSION_FILE, _VERSION)]
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
