"""Publishing: staged directories become visible under names that must not exist, whole or not at all.

One directory is one atomic rename. Two (a minor compaction with inserts and deletes, where no visibility suffix hides
them) are renamed under a durable record, `publish.json` in the staging directory, which any later run finishes.

Neither order of the two renames is right for a reader between them, because a wide directory makes every narrower one
of either kind obsolete (Hive AcidUtils.getAcidState). The insert half goes first: then, for that moment, rows that were
deleted or replaced come back, while with the delete half first every row above the base would be missing. Rows too many
are the smaller harm: no live row is hidden from a reader, and the second rename ends it.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from acidlib.errors import AcidError, ConflictError, CorruptError, UnknownOutcomeError
from acidlib.model.generation import Generation
from acidlib.model.location import Location
from acidlib.model.names import METADATA_ACID_FILE, ORC_ACID_VERSION_FILE, BaseDir, DeltaDir, parse_directory
from acidlib.points import Point, passing
from acidlib.storage.filesystem import FileSystem, RenameFileSystem
from acidlib.storage.records import PublicationRecord, StagedDirectory, StagedFile, write_record
from acidlib.storage.staging import PUBLISH_RECORD, REVOKED, remove_staging

_ORC_ACID_VERSION = b"2"
_METADATA_ACID = b'{"thisFileVersion":"0","dataFormat":"compacted"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What was published. `kind` is "one rename", "two renames" or "commit"; `leftover` says why staging could not be
    removed."""

    directories: tuple[str, ...]
    kind: str
    leftover: str | None = None


def publish(
    fs: RenameFileSystem,
    location: Location,
    staging: str,
    directories: tuple[StagedDirectory, ...],
    *,
    inputs: tuple[str, ...],
    last_check: Callable[[], None],
) -> Published:
    """Makes staged directories visible in `location`, durably.

    Each must hold exactly the files it names, at their lengths (else `CorruptError`); `_orc_acid_version` is added, and
    `_metadata_acid` to a base without visibility suffix, as Hive's compactor marks it. `inputs` are the relative paths
    of what was compacted. `last_check` runs after everything is on disk and before the first rename: it raises when the
    claim is lost or the partition has changed. An existing target raises `ConflictError` and changes nothing. When the
    second of two renames fails, the first is taken back; where that fails too, `UnknownOutcomeError` says that the next
    run finishes it.
    """
    if not 1 <= len(directories) <= 2:
        raise ValueError(f"one or two directories are published together, not {len(directories)}")
    ordered = tuple(sorted(directories, key=publication_order))
    sealed = tuple(_seal(fs, location, staging, directory) for directory in ordered)
    fs.sync(staging)
    passing(Point.SEALED)
    refuse_existing(fs, location, sealed)
    last_check()
    passing(Point.CHECKED)
    names = tuple(directory.name for directory in sealed)
    if len(sealed) == 1:
        _rename_one(fs, location, staging, names[0])
        passing(Point.FIRST_RENAMED)
        return Published(directories=names, kind="one rename", leftover=remove_staging(fs, location, staging))
    write_record(fs, f"{staging}/{PUBLISH_RECORD}", PublicationRecord(directories=sealed, inputs=inputs))
    fs.sync(str(location))
    passing(Point.RECORDED)
    _rename_both(fs, location, staging, names)
    passing(Point.SECOND_RENAMED)
    return Published(directories=names, kind="two renames", leftover=remove_recorded_staging(fs, location, staging))


def publish_hidden(
    fs: RenameFileSystem,
    location: Location,
    staging: str,
    directories: tuple[StagedDirectory, ...],
    *,
    last_check: Callable[[], None],
) -> Published:
    """Gives staged directories their names with the suffix of a transaction that is open: its commit shows them all.

    Otherwise as `publish`. Until the commit no reader takes them, so a failure between two renames needs no record:
    those that have been renamed are taken back.
    """
    ordered = tuple(sorted(directories, key=publication_order))
    for directory in ordered:
        parsed = parse_directory(directory.name, Generation.HIVE4)
        if parsed is None or parsed.visibility_txn == 0:
            raise ValueError(f"{directory.name!r} has no visibility suffix")
    sealed = tuple(_seal(fs, location, staging, directory) for directory in ordered)
    fs.sync(staging)
    passing(Point.SEALED)
    refuse_existing(fs, location, sealed)
    last_check()
    passing(Point.CHECKED)
    done: list[str] = []
    try:
        for directory in sealed:
            _rename_one(fs, location, staging, directory.name)
            done.append(directory.name)
            passing(Point.FIRST_RENAMED if len(done) == 1 else Point.SECOND_RENAMED)
    except AcidError:
        take_back(fs, location, tuple(done))
        raise
    names = tuple(directory.name for directory in sealed)
    return Published(directories=names, kind="commit", leftover=remove_staging(fs, location, staging))


def take_back(fs: FileSystem, location: Location, names: tuple[str, ...]) -> None:
    """Removes directories whose transaction never commits. What cannot be removed the cleaner finds to be aborted."""
    for name in names:
        with suppress(AcidError):
            fs.remove_tree(str(location), name)


def publication_order(directory: StagedDirectory) -> tuple[bool, str]:
    parsed = parse_directory(directory.name, Generation.HIVE4)
    if parsed is None:
        raise ValueError(f"{directory.name!r} is not the name of an ACID directory")
    return isinstance(parsed, DeltaDir) and parsed.is_delete, directory.name


def _seal(fs: RenameFileSystem, location: Location, staging: str, directory: StagedDirectory) -> StagedDirectory:
    """Adds the marker files, and makes the directory the table's own and durable; returns it with all its files."""
    path = f"{staging}/{directory.name}"
    verify_directory(fs, path, directory)
    markers = [(ORC_ACID_VERSION_FILE, _ORC_ACID_VERSION)]
    parsed = parse_directory(directory.name, Generation.HIVE4)
    if isinstance(parsed, BaseDir) and parsed.visibility_txn == 0:
        markers.append((METADATA_ACID_FILE, _METADATA_ACID))
    for name, data in markers:
        fs.create(f"{path}/{name}", data, durable=False)
    fs.inherit(path, str(location))
    fs.sync_tree(path)
    added = tuple(StagedFile(name=name, length=len(data)) for name, data in markers)
    return StagedDirectory(name=directory.name, files=directory.files + added)


def verify_directory(fs: FileSystem, path: str, directory: StagedDirectory) -> None:
    found = {entry.path: -1 if entry.is_directory else entry.length for entry in fs.list_tree(path, enter_hidden=True)}
    expected = {file.name: file.length for file in directory.files}
    if found != expected:
        wrong = min(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
        raise CorruptError(
            f"Cannot publish {path}: because {wrong} has {_length(found.get(wrong))}, "
            f"but {_length(expected.get(wrong))} was written"
        )


def _length(length: int | None) -> str:
    if length is None:
        return "no file"
    return "a directory" if length < 0 else f"a length of {length} bytes"


def refuse_existing(fs: FileSystem, location: Location, directories: tuple[StagedDirectory, ...]) -> None:
    for directory in directories:
        if fs.exists(f"{location}/{directory.name}"):
            raise ConflictError(f"Cannot publish {location}/{directory.name}: because it already exists")


def _rename_one(fs: RenameFileSystem, location: Location, staging: str, name: str) -> None:
    try:
        fs.rename_noreplace(f"{staging}/{name}", f"{location}/{name}", missing=ConflictError)
    except ConflictError:
        raise  # nothing was renamed: the name is taken, or our staging was taken from us
    except AcidError as error:
        if _is_there(fs, f"{staging}/{name}", otherwise=partial(_unknown_one, location, name, error)):
            raise
        if _was_renamed(fs, location, staging, name, error):
            return
        raise UnknownOutcomeError(
            f"Cannot tell whether {location}/{name} would survive a loss of power: because after its rename: {error}"
        ) from error


def _is_there(fs: FileSystem, path: str, *, otherwise: Callable[[], AcidError]) -> bool:
    """Whether something is there after a rename failed; what `otherwise` makes is raised when nobody can look."""
    try:
        return fs.exists(path)
    except AcidError as error:
        raise otherwise() from error


def _was_renamed(fs: RenameFileSystem, location: Location, staging: str, name: str, error: AcidError) -> bool:
    """Whether only the answer of a rename was lost, and it is durable.

    It was ours if our staging directory still has its name: who takes it from us takes it with all that is in it.
    """
    if isinstance(error, ConflictError):
        return False
    try:
        if fs.exists(f"{staging}/{name}") or not fs.is_directory(staging) or not fs.exists(f"{location}/{name}"):
            return False
        fs.sync(str(location))
    except AcidError:
        return False
    return True


def _rename_both(fs: RenameFileSystem, location: Location, staging: str, names: tuple[str, ...]) -> None:
    first, second = names
    try:
        _rename_first(fs, location, staging, names)
        passing(Point.FIRST_RENAMED)
        try:
            fs.rename_noreplace(f"{staging}/{second}", f"{location}/{second}", missing=ConflictError)
        except AcidError as error:
            if not _was_renamed(fs, location, staging, second, error):
                _undo_first_rename(fs, location, staging, names, error)
                raise
    except KeyboardInterrupt:
        # no half may stay visible: readers are kept away for this moment only
        with suppress(AcidError):
            if not fs.exists(f"{staging}/{first}") and fs.exists(f"{staging}/{second}"):
                fs.rename_noreplace(f"{staging}/{second}", f"{location}/{second}")
        raise


def _rename_first(fs: RenameFileSystem, location: Location, staging: str, names: tuple[str, ...]) -> None:
    try:
        fs.rename_noreplace(f"{staging}/{names[0]}", f"{location}/{names[0]}", missing=ConflictError)
    except AcidError as error:
        unknown = partial(_unknown, location, names, error)
        if _is_there(fs, f"{staging}/{names[0]}", otherwise=unknown):
            try:
                _remove_record(fs, staging)
            except AcidError as another:
                raise unknown() from another  # it may be there still
            raise
        if isinstance(error, ConflictError):
            raise  # another run has taken it over
        if _was_renamed(fs, location, staging, names[0], error):
            return
        raise unknown() from error


def _undo_first_rename(
    fs: RenameFileSystem, location: Location, staging: str, names: tuple[str, ...], cause: AcidError
) -> None:
    """Undoes the first rename: no half may stay visible until a later run comes, if that can be helped."""
    unknown = partial(_unknown, location, names, cause)
    visible = _is_there(fs, f"{location}/{names[1]}", otherwise=unknown)
    if visible and not _is_there(fs, f"{staging}/{names[1]}", otherwise=unknown):
        if isinstance(cause, ConflictError):
            raise cause  # another run has finished it
        raise unknown() from cause  # it was renamed, and only then something failed
    removed = False
    try:
        removed = not fs.is_directory(staging)  # by somebody, with the other half
        if removed:
            fs.rename_noreplace(f"{location}/{names[0]}", staging + REVOKED, missing=ConflictError)
            if fs.exists(f"{location}/{names[1]}"):  # since the look at it, another run has finished all
                fs.rename_noreplace(staging + REVOKED, f"{location}/{names[0]}")
        else:
            fs.rename_noreplace(f"{location}/{names[0]}", f"{staging}/{names[0]}")
            _remove_record(fs, staging)
    except AcidError as error:
        if removed and isinstance(error, ConflictError):
            raise cause from error  # another run is about to finish it
        raise _unknown(location, names, error) from cause


def _unknown_one(location: Location, name: str, error: AcidError) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"Cannot tell whether {location}/{name} is published: because its rename failed ({error}); the next run "
        "on this partition goes by what it finds"
    )


def _unknown(location: Location, names: tuple[str, ...], error: AcidError) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"Cannot tell whether {' and '.join(names)} are both published in {location}: because a rename failed "
        f"({error}); the next run on this partition finishes it"
    )


def remove_recorded_staging(fs: RenameFileSystem, location: Location, staging: str) -> str | None:
    """Removes the record before the rest, so that what a crash leaves is litter and nothing to finish."""
    try:
        _remove_record(fs, staging)
    except AcidError as error:
        return str(error)
    passing(Point.UNRECORDED)
    return remove_staging(fs, location, staging)


def _remove_record(fs: RenameFileSystem, staging: str) -> None:
    fs.remove_tree(staging, PUBLISH_RECORD)
    fs.sync(staging)
