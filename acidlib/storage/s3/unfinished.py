"""What other runs left at a place in a bucket: theirs is revoked, or, once it is recorded, finished or discarded."""

from __future__ import annotations

from acidlib.errors import ConflictError
from acidlib.model.generation import Generation
from acidlib.model.location import Location
from acidlib.model.names import BaseDir, DeltaDir, parse_directory
from acidlib.storage.s3.client import Bucket
from acidlib.storage.s3.completing import Fate, abort, fate, is_ours, take_back
from acidlib.storage.s3.errors import ChangedError
from acidlib.storage.s3.files import S3FileSystem
from acidlib.storage.s3.markers import Marker, Recorded, State, move_marker, read_marker
from acidlib.storage.s3.publishing import finish, give_up, is_open_to_readers, missing_input, remove_staging
from acidlib.storage.staging import STAGING_PREFIX
from acidlib.storage.unfinished import RolledForward


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
