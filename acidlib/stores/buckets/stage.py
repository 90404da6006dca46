"""The uploads of a run for a place, and their publication: completing them, after a record that says so.

The first upload is completed alone: while it is neither completed nor aborted nothing of the publication is visible, so
a run that aborts it first has discarded all.

Several files of a base whose name hides them from no reader (Hive 3.1) become visible one after the other. There the
first is a `_metadata_acid` of a kind that no reader knows: each fails at this base instead of reading half of it (Hive
AcidUtils.MetaDataFile), until the file is replaced by the right one, some seconds after the last of the others. Nothing
keeps readers away from several files of deltas: these are refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from acidlib.acid.names import ANY_NAMES, METADATA_ACID_FILE, DeltaDir, parse_directory
from acidlib.arguments import VISIBILITY_TXN
from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.location import Location
from acidlib.model.uploads import StagedUpload
from acidlib.points import Point, reach
from acidlib.stores.buckets.bucket import Bucket, ChangedError, read_object, replace_object
from acidlib.stores.buckets.files import (
    UPLOAD_LIST_PREFIX,
    BucketFileSystem,
    upload_list_path,
    upload_small,
    write_upload_list,
)
from acidlib.stores.buckets.record import (
    MAX_LISTED,
    StagingRecord,
    StagingState,
    UploadPublication,
    change_state,
    key_of_place,
    read_staging_record,
)
from acidlib.stores.control_files import parse_document
from acidlib.stores.filesystem import FileSystem
from acidlib.stores.listing import UNFINISHED_FORMAT
from acidlib.stores.store import (
    METADATA_ACID,
    STAGING_MARKER,
    Published,
    Stage,
    StagedDirectory,
    StagedFile,
    marker_files,
    missing_input,
    refuse_existing,
    require_suffixes,
)

_DRIVERS_LIST = f"{UPLOAD_LIST_PREFIX}driver"


class BucketStage(Stage):
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
        self,
        directories: Sequence[StagedDirectory],
        *,
        inputs: tuple[str, ...],
        last_check: Callable[[], None],
        has_readers: bool = True,
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
        return self._publish(directories, inputs, last_check, hidden=False, has_readers=has_readers)

    def publish_hidden(self, directories: Sequence[StagedDirectory], *, last_check: Callable[[], None]) -> Published:
        require_suffixes(directories)
        return self._publish(directories, (), last_check, hidden=True, has_readers=False)

    def _publish(
        self,
        directories: Sequence[StagedDirectory],
        inputs: tuple[str, ...],
        last_check: Callable[[], None],
        *,
        hidden: bool,
        has_readers: bool,
    ) -> Published:
        bucket = self._bucket
        refuse_existing(BucketFileSystem(bucket), self._location, directories)
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
            complete_all(bucket, publication, has_readers=has_readers)
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
                    apart = upload_list_path(self.path, planned)
                    markers[file] = upload_small(self._bucket, planned, data, apart)
                    begun.append(markers[file])
                first = [markers.pop(METADATA_ACID_FILE)] if opened_last else []
                uploads += [*first, *files, *markers.values()]
            write_upload_list(self._bucket, f"{self.path}/{_DRIVERS_LIST}", begun)
        except BaseException:
            for upload in begun:  # no upload list names them yet
                with suppress(AcidError):
                    self._bucket.abort(upload)
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
            if not self._bucket.is_open(upload):
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
        if any(bucket.is_visible(upload) for upload in publication.uploads):
            # never taken back from here: while we were paused another run could have published the same names
            raise UnknownOutcomeError(
                f"Cannot tell whether {where} can be published as a whole: {error}; the next run there finishes it or "
                "takes it back"
            ) from error
        withdraw_or_refuse(bucket, BucketFileSystem(bucket), self._location, publication, error)
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
                bucket.abort(upload)
            remove_staging(bucket, self.path)
        except AcidError as error:
            return error.words
        return None


THREADS = 16
READERS_SECONDS = 5.0
"""For so long a base stays closed after its last file is there.

Hive 4 and Trino list all files of a place first and read `_metadata_acid` afterwards: one that has listed the base
without this file, and reads later than that, would read half of it (Hive `AcidUtils.isCompactedBase`, Trino
`AcidTables.getAcidState`).
"""


def complete_all(bucket: Bucket, publication: UploadPublication, *, has_readers: bool = True) -> None:
    """Complete a recorded publication. Whichever run does it, and how often, the result is the same.

    has_readers  whether a reader may list the place meanwhile

    ConflictError when a part of it can never become visible: it was aborted, or removed since.
    """

    def gone(upload: StagedUpload) -> ConflictError:
        return ConflictError(
            f"Cannot publish {bucket.path(upload.key)}: its upload was aborted, or its object was removed"
        )

    first, *others = publication.uploads
    if not bucket.complete(first):
        raise gone(first)
    reach(Point.FIRST_RENAMED)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="acidlib-publish") as threads:
        completions = [threads.submit(bucket.complete, upload) for upload in others]
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
    if metadata_acid is None or metadata_acid.origin != first.origin:
        raise ConflictError(f"Cannot publish {path}: another program has removed or changed it")
    if has_readers:
        time.sleep(READERS_SECONDS)
    replace_object(bucket, path, metadata_acid.version, METADATA_ACID, first.origin)


def withdraw_or_refuse(
    bucket: Bucket, fs: FileSystem, location: Location, publication: UploadPublication, why: ConflictError
) -> None:
    """Withdraw a recorded publication that can never be completed.

    CorruptError, and nothing is changed, when some of it is visible and an input of it is gone: then only a person
    knows which directories hold its rows.
    """
    missing = missing_input(fs, location, publication)
    if missing is not None and any(bucket.is_visible(upload) for upload in publication.uploads):
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
        bucket.abort(upload)
    for some in (uploads[1:], uploads[:1]):
        if keys := [upload.key for upload in some if bucket.is_visible(upload)]:
            bucket.remove(bucket.path(keys[0].rpartition("/")[0]), dict.fromkeys(keys, ""))


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
        tree = BucketFileSystem(bucket).list_tree(staging, enter_hidden=True, missing=ConflictError)
    except ConflictError:
        return
    completed = {upload_list_path(staging, upload) for upload in published}
    if published:
        completed.add(f"{staging}/{_DRIVERS_LIST}")
    names = [entry.path for entry in tree if not entry.is_directory]
    for name in names:
        is_list = name.startswith(UPLOAD_LIST_PREFIX) and not bucket.is_listed
        if is_list and f"{staging}/{name}" not in completed:
            upload_list = read_object(bucket, f"{staging}/{name}")
            # the store's own rules end the uploads of a damaged list, and of one that no run writes
            with suppress(CorruptError, ValueError, TypeError):
                listed = [] if upload_list is None else parse_document(upload_list.data, name)
                for key, upload_id in listed if len(listed) <= MAX_LISTED else ():
                    if str(key).startswith(key_of_place(staging)):
                        bucket.abort(StagedUpload(key=str(key), origin="", upload_id=str(upload_id)))
    prefix, marker = bucket.key(staging), bucket.key(f"{staging}/{STAGING_MARKER}")
    bucket.remove(staging, {key: "" for name in names if (key := f"{prefix}/{name}") != marker})
    bucket.remove(staging, {marker: ""})
