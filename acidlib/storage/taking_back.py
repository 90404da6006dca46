"""Taking back what was published: its directories leave readers' sight together, or stay.

It is a publication that runs backwards, with the same record, so that whoever claims the place after a run that died
in between finds a publication to finish and does: the result is there again, whole. Only with all of it in a staging
directory does one rename of that directory, to a name that nobody finishes and readers pass over, end it.

    _tmp_<unique>/publish.json                what is taken back, as a publication that is not finished
    _tmp_<unique>/base_0000007/               moved here, one directory after the other
    _acidlib_undone.<name>/base_0000007/      ... and with one rename done

A run that is not dead but was paused finds its staging directory renamed when it wakes, and nothing to rename into: as
in `staging`, no clock decides that.
"""

from __future__ import annotations

from collections.abc import Callable

from acidlib.errors import AcidError, ConflictError, CorruptError, UnknownOutcomeError
from acidlib.model.location import Location
from acidlib.points import Point, passing
from acidlib.storage.filesystem import FileSystem, RenameFileSystem
from acidlib.storage.publishing import publication_order, remove_recorded_staging
from acidlib.storage.records import PublicationRecord, StagedDirectory, StagedFile, write_record
from acidlib.storage.renames import renamed
from acidlib.storage.staging import PUBLISH_RECORD, remove_staging

UNDONE = "_acidlib_undone."
"""Begins the names of what was taken back."""


def take_back_published(
    fs: RenameFileSystem,
    location: Location,
    directories: tuple[str, ...],
    *,
    staging: str,
    aside: str,
    inputs: tuple[str, ...],
    last_check: Callable[[], None],
) -> None:
    """Moves directories of a place, in their order, to `aside` beside them, durably: all or none.

    staging     an empty staging directory of ours
    inputs      what they were made of, by relative paths, and readers read from then on
    last_check  called when all is ready: raises when the claim is lost or the place has changed

    ConflictError where one is gone, or another run has taken over. When a rename fails, what was moved is moved back;
    where that fails too, `UnknownOutcomeError` says that the next run does it.
    """
    try:
        record = tuple(sorted((_as_it_lies(fs, location, name) for name in directories), key=publication_order))
        last_check()
        write_record(fs, f"{staging}/{PUBLISH_RECORD}", PublicationRecord(directories=record, inputs=inputs))
        fs.sync(str(location))
    except BaseException:
        if not fs.exists(f"{staging}/{PUBLISH_RECORD}"):
            remove_staging(fs, location, staging)
        raise
    passing(Point.UNDO_RECORDED)
    try:
        for name in directories:
            if not renamed(fs, f"{location}/{name}", f"{staging}/{name}"):
                raise ConflictError(
                    f"Cannot take {location}/{name} back: because it is gone, or another run has taken over"
                )
            passing(Point.UNDO_MOVED)
        if not renamed(fs, staging, f"{location}/{aside}"):
            raise ConflictError(f"Cannot take back what is in {staging}: because another run has taken over")
    except (AcidError, KeyboardInterrupt) as error:
        if _is_done(fs, location, staging, aside, error):
            return
        _put_back(fs, location, record, staging, error)
        raise
    passing(Point.UNDO_ASIDE)


def _as_it_lies(fs: FileSystem, location: Location, name: str) -> StagedDirectory:
    """A directory with its files as they are, which need not be as they were published."""
    path = f"{location}/{name}"
    tree = fs.list_tree(path, enter_hidden=True, missing=ConflictError)
    for entry in tree:
        if entry.is_directory:
            raise CorruptError(f"Cannot take {path} back: because {entry.path} in it is a directory")
    return StagedDirectory(name=name, files=tuple(StagedFile(name=one.path, length=one.length) for one in tree))


def _is_done(fs: FileSystem, location: Location, staging: str, aside: str, error: BaseException) -> bool:
    """Whether the last rename was made, whatever came after it."""
    if not isinstance(error, AcidError):
        return False
    try:
        return not fs.exists(staging) and fs.is_directory(f"{location}/{aside}")
    except AcidError as another:
        raise _unknown(location, staging, error, another) from error


def _put_back(
    fs: RenameFileSystem,
    location: Location,
    record: tuple[StagedDirectory, ...],
    staging: str,
    error: BaseException,
) -> None:
    """As it was, in the order of a publication; another run that has taken the staging directory does it itself."""
    try:
        if not fs.is_directory(staging):
            return
        for directory in record:
            if fs.exists(f"{staging}/{directory.name}"):
                renamed(fs, f"{staging}/{directory.name}", f"{location}/{directory.name}")
        if not any(fs.exists(f"{staging}/{directory.name}") for directory in record):
            remove_recorded_staging(fs, location, staging)
    except AcidError as another:
        raise _unknown(location, staging, error, another) from error


def _unknown(location: Location, staging: str, error: BaseException, another: AcidError) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"Cannot tell what of {staging} is taken back: because {error}; then: {another}; the next run at {location} "
        "puts back what was moved, unless all of it was"
    )
