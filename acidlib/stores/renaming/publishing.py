"""Publication by renames: staging, the record of two renames, publishing, finishing what a dead run began, and
taking back.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from acidlib.errors import AcidError, ConflictError, CorruptError, UnknownOutcomeError
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
from acidlib.stores.filesystem import FileSystem, RenameFileSystem, safe_parts
from acidlib.stores.renaming.claims import renamed

# --- records ----------------------------------------------------------------------------------------------------------
# The record of a publication that takes two renames: enough for anybody to finish it.

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """One file directly in a staged directory; `length` in bytes."""

    name: str
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedDirectory:
    """A directory to publish under `name`, with every file that must be in it and no other."""

    name: str
    files: tuple[StagedFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationRecord:
    """Directories in the order in which they become visible, and the relative paths of what they were made from."""

    directories: tuple[StagedDirectory, ...]
    inputs: tuple[str, ...]


def write_record(fs: RenameFileSystem, path: str, record: PublicationRecord) -> None:
    """Writes the record whole and durably; an existing one raises `ConflictError`."""
    document = {
        "version": _VERSION,
        "directories": [
            {"name": item.name, "files": [{"name": file.name, "length": file.length} for file in item.files]}
            for item in record.directories
        ],
        "inputs": list(record.inputs),
    }
    fs.create(path, json.dumps(document, ensure_ascii=False, indent=1).encode())


def read_record(fs: FileSystem, path: str) -> PublicationRecord:
    """Reads a record back; raises `CorruptError` when it is damaged, or of a version that is not known."""
    try:
        document = json.loads(fs.read(path, missing=ConflictError))
        version = document["version"]
        record = PublicationRecord(
            directories=tuple(_directory(item) for item in document["directories"]),
            inputs=tuple(_text(item) for item in document["inputs"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptError(f"Cannot read {path}: because it is not a publication record") from error
    if version != _VERSION or not record.directories:
        raise CorruptError(f"Cannot read {path}: because this kind of publication record is not known")
    for directory in record.directories:
        if len(safe_parts(path, directory.name)) != 1:
            raise CorruptError(f"Cannot read {path}: because it publishes {directory.name!r}")
    for item in record.inputs:
        safe_parts(path, item)
    return record


def _directory(item: dict[str, object]) -> StagedDirectory:
    files = item["files"]
    if not isinstance(files, list):
        raise TypeError("files is not a list")
    return StagedDirectory(
        name=_text(item["name"]),
        files=tuple(StagedFile(name=_text(file["name"]), length=_number(file["length"])) for file in files),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a number")
    return value


# --- staging ----------------------------------------------------------------------------------------------------------
# Staging: where results are written before anybody can see them.
#
# A staging directory is `_tmp_<unique>` in the partition; every reader skips it for its leading underscore. Below it,
# each output directory stands under its final name, and attempts of tasks under names of their own:
#
#     _tmp_<unique>/_acidlib_staging            marks it as ours
#     _tmp_<unique>/_attempts/<file>.<attempt>  written by tasks; retries and speculation never meet
#     _tmp_<unique>/base_0000007/bucket_00000   accepted by the driver
#
# Whoever claims the partition next takes staging of earlier runs away by renaming it, `_tmp_<unique>.revoked`, before
# it looks at anything else. A run that is not dead but was paused, even between its last check and its rename, finds
# nothing to rename when it wakes: no clock and no waiting time decides that, only the order of two renames.

STAGING_PREFIX = "_tmp_"
STAGING_MARKER = "_acidlib_staging"
ATTEMPTS = "_attempts"
PUBLISH_RECORD = "publish.json"
REVOKED = ".revoked"


def create_staging(fs: RenameFileSystem, location: Location, *, unique: str, owner: str, now: float) -> str:
    """Creates `_tmp_<unique>` with its marker and the directory for attempts; returns its path.

    Raises `ConflictError` when that name exists. It is made durable when it is published from; before that, what a loss
    of power leaves of it is litter.
    """
    path = f"{location}/{STAGING_PREFIX}{unique}"
    fs.make_directory(path)
    fs.create(f"{path}/{STAGING_MARKER}", json.dumps({"owner": owner, "start": now}).encode(), durable=False)
    fs.make_directory(f"{path}/{ATTEMPTS}")
    fs.inherit(path, str(location))
    return path


def add_output_directory(fs: RenameFileSystem, staging: str, name: str) -> str:
    """Creates the staged directory that is to be published as `name`; returns its path."""
    path = f"{staging}/{name}"
    fs.make_directory(path)
    return path


def attempt_path(staging: str, directory: str, file: str, attempt: str) -> str:
    """The path for one attempt at `directory`/`file`; `attempt` must be unique to the task attempt."""
    return f"{staging}/{ATTEMPTS}/{directory}.{file}.{attempt}"


class AttemptFiles:
    """How a task names the attempts that `accept_attempt` moves: by their paths."""

    __slots__ = ()

    def output_path(self, staging: str, directory: str, file: str, attempt: str) -> str:
        """See `attempt_path`."""
        return attempt_path(staging, directory, file, attempt)

    def written(self, path: str) -> str:
        """Its path."""
        return path


def accept_attempt(fs: RenameFileSystem, staging: str, attempt: str, directory: str, file: str) -> str:
    """Moves the one attempt that counts to its place in the staged directory; returns the path.

    A second attempt for the same file raises `ConflictError`: duplicates are dropped by the caller, never merged.
    Publishing makes it durable.
    """
    target = f"{staging}/{directory}/{file}"
    if not renamed(fs, attempt, target, durable=False):
        raise ConflictError(f"Cannot accept {attempt}: because {target} already exists, or another run has revoked it")
    return target


def remove_staging(fs: FileSystem, location: Location, staging: str) -> str | None:
    """Removes a staging directory; returns None, or why something of it is left (it is hidden and harmless)."""
    try:
        fs.remove_tree(str(location), staging.removeprefix(f"{location}/"))
    except AcidError as error:
        return str(error)
    return None


def revoke(fs: RenameFileSystem, staging: str) -> str:
    """Takes a staging directory from whoever made it; returns where it lies now."""
    if staging.endswith(REVOKED):
        return staging
    if not renamed(fs, staging, staging + REVOKED):
        raise ConflictError(f"Cannot revoke {staging}: because it is gone, or {staging}{REVOKED} already exists")
    return staging + REVOKED


def made_as(name: str) -> str:
    """The name that a staging directory had when it was made, whether or not it was revoked since."""
    return name.removesuffix(REVOKED)


def revoke_others(fs: RenameFileSystem, location: Location) -> None:
    """Takes away what earlier runs of this engine staged in a partition.

    The caller has claimed the partition and has staged nothing yet. Never what has the record of a publication, which
    is to be finished first.
    """
    for entry in fs.list_directory(str(location), missing=ConflictError):
        if entry.is_symlink or not entry.is_directory or not entry.name.startswith(STAGING_PREFIX):
            continue
        path = f"{location}/{entry.name}"
        if entry.name.endswith(REVOKED) or not fs.exists(f"{path}/{STAGING_MARKER}"):
            continue
        if not fs.exists(f"{path}/{PUBLISH_RECORD}"):
            revoke(fs, path)


# --- publishing -------------------------------------------------------------------------------------------------------
# Publishing: staged directories become visible under names that must not exist, whole or not at all.
#
# One directory is one atomic rename. Two (a minor compaction with inserts and deletes, where no visibility suffix hides
# them) are renamed under a durable record, `publish.json` in the staging directory, which any later run finishes.
#
# Neither order of the two renames is right for a reader between them, because a wide directory makes every narrower one
# of either kind obsolete (Hive AcidUtils.getAcidState). The insert half goes first: then, for that moment, rows that
# were deleted or replaced come back, while with the delete half first every row above the base would be missing. Rows
# too many are the smaller harm: no live row is hidden from a reader, and the second rename ends it.

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


# --- unfinished -------------------------------------------------------------------------------------------------------
# Publications that an earlier run recorded and did not finish: the next run finishes or discards them.


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledForward:
    """One record of an earlier run that was dealt with.

    `outcome` is "finished" (some rename was still to do), "was published" (only the staging directory was left) or
    "discarded" (nothing had become visible and it may no longer be; `reason` says why).
    """

    staging: str
    directories: tuple[str, ...]
    outcome: str
    reason: str | None = None
    leftover: str | None = None


def roll_forward(
    fs: RenameFileSystem,
    location: Location,
    *,
    visible_only: bool = False,
) -> tuple[RolledForward, ...]:
    """Finishes every publication that any earlier run recorded in `location` and did not complete.

    The caller must hold the partition's claim. With `visible_only`, just those of which a reader can see one directory
    already. First the staging directory is taken from the run that recorded it, which may be paused, not dead, and go
    on between any two steps. What becomes of a publication:

    * One directory is visible: the other one is renamed too, after the lengths of its files were verified. It is
      discarded if a base covers both meanwhile, or if the visible one was removed and all inputs are still there.
    * None is visible: both are renamed. It is discarded if an input is gone, a name is taken or a wider delta covers
      it: then its rows are in what is there.

    Running it again is harmless. Raises `CorruptError` for a damaged record or staged file and, with what to do by
    hand, where the visible directory was removed and its inputs are gone or was merged without the other one;
    `ConflictError` when somebody else's directory has a name that is still to be published.
    """
    return tuple(
        _roll_one(fs, location, staging)
        for staging in unfinished_publications(fs, location)
        if not visible_only or _is_visible(fs, staging)
    )


def unfinished_publications(fs: FileSystem, location: Location) -> tuple[str, ...]:
    """The staging directories in `location` that hold a record of a publication which was not finished."""
    return tuple(
        f"{location}/{entry.name}"
        for entry in fs.list_directory(str(location), missing=ConflictError)
        if entry.is_directory
        and entry.name.startswith(STAGING_PREFIX)
        and fs.exists(f"{location}/{entry.name}/{PUBLISH_RECORD}")
    )


def _is_visible(fs: FileSystem, staging: str) -> bool:
    record = read_record(fs, f"{staging}/{PUBLISH_RECORD}")
    return not all(fs.exists(f"{staging}/{directory.name}") for directory in record.directories)


def _roll_one(fs: RenameFileSystem, location: Location, staging: str) -> RolledForward:
    staging = revoke(fs, staging)
    record = read_record(fs, f"{staging}/{PUBLISH_RECORD}")
    names = tuple(directory.name for directory in record.directories)
    waiting = tuple(item for item in record.directories if fs.exists(f"{staging}/{item.name}"))
    outcome, reason = "was published", None
    if len(waiting) == len(names):
        reason = _reason_to_discard(fs, location, record)
        outcome = "finished" if reason is None else "discarded"
    elif waiting and (covering := _covering(fs, location, names)) is not None:
        outcome, reason = "discarded", f"{covering} covers it: somebody else has compacted what was visible of it"
    elif waiting and (removed := _removed_half(fs, location, record, waiting)) is not None:
        _require_inputs(fs, location, staging, record, removed)
        outcome, reason = (
            "discarded",
            f"{removed} was removed after it was published, and all its inputs are still there",
        )
    elif waiting:
        outcome = "finished"
        _require_not_merged(fs, location, staging, record, waiting)
        _verify_published(fs, location, record, waiting)
    if outcome == "finished":
        for directory in waiting:
            verify_directory(fs, f"{staging}/{directory.name}", directory)
        refuse_existing(fs, location, waiting)
        for directory in waiting:
            if not renamed(fs, f"{staging}/{directory.name}", f"{location}/{directory.name}"):
                raise ConflictError(f"Cannot publish {location}/{directory.name}: because it already exists")
    leftover = remove_recorded_staging(fs, location, staging)
    return RolledForward(staging=staging, directories=names, outcome=outcome, reason=reason, leftover=leftover)


def _reason_to_discard(fs: FileSystem, location: Location, record: PublicationRecord) -> str | None:
    if (path := _missing_input(fs, location, record)) is not None:
        return f"its input {path} is gone, so something else stands for those rows"
    for directory in record.directories:
        if fs.exists(f"{location}/{directory.name}"):
            return f"{directory.name} already exists"
    wider = _wider_delta(fs, location, record)
    return None if wider is None else f"{wider} covers it"


def _wider_delta(fs: FileSystem, location: Location, record: PublicationRecord) -> str | None:
    """A delta of either kind that makes what is recorded obsolete, and is neither an input of it nor a part."""
    own = {directory.name for directory in record.directories}
    names = [found for name in own if isinstance(found := parse_directory(name, Generation.HIVE4), DeltaDir)]
    if not names:
        return None
    low, high = min(name.min_write_id for name in names), max(name.max_write_id for name in names)
    for entry in fs.list_directory(str(location), missing=ConflictError):
        if not entry.is_directory or entry.name in own or entry.name in record.inputs:
            continue
        found = parse_directory(entry.name, Generation.HIVE4)
        if isinstance(found, DeltaDir) and found.min_write_id <= low and high <= found.max_write_id:
            return entry.name
    return None


def _missing_input(fs: FileSystem, location: Location, record: PublicationRecord) -> str | None:
    return next((path for path in record.inputs if not fs.exists(f"{location}/{path}")), None)


def _require_not_merged(
    fs: FileSystem, location: Location, staging: str, record: PublicationRecord, waiting: tuple[StagedDirectory, ...]
) -> None:
    """Nobody has merged the visible half into a wider delta, which would hide the other half for ever.

    Such a result lacks what the other half holds: deleted rows are back in it, and only the record still shows that.
    """
    if (wider := _wider_delta(fs, location, record)) is None:
        return
    left = " and ".join(directory.name for directory in waiting)
    half = " and ".join(item.name for item in record.directories if item not in waiting)
    raise CorruptError(
        f"Cannot finish the publication in {staging}: because {wider} was made of {half} without {left}, so that rows "
        f"which are deleted there are back. While all directories that {wider} was made of are still there, remove it "
        f"and its twin and run again; else delete these rows again, and remove {staging}"
    )


def _covering(fs: FileSystem, location: Location, names: tuple[str, ...]) -> str | None:
    """The base that makes all of these obsolete, if there is one: no reader would see the other half any more."""
    deltas = [found for name in names if isinstance(found := parse_directory(name, Generation.HIVE4), DeltaDir)]
    if len(deltas) != len(names):
        return None
    highest = max(delta.max_write_id for delta in deltas)
    for entry in fs.list_directory(str(location), missing=ConflictError):
        found = parse_directory(entry.name, Generation.HIVE4) if entry.is_directory else None
        if isinstance(found, BaseDir) and found.write_id >= highest:
            return entry.name
    return None


def _removed_half(
    fs: FileSystem, location: Location, record: PublicationRecord, waiting: tuple[StagedDirectory, ...]
) -> str | None:
    """The half that has left the staging directory and is not at its place either: somebody has removed it."""
    published = (directory.name for directory in record.directories if directory not in waiting)
    return next((name for name in published if not fs.is_directory(f"{location}/{name}")), None)


def _require_inputs(fs: FileSystem, location: Location, staging: str, record: PublicationRecord, removed: str) -> None:
    """The inputs of a half that was removed still hold its rows; else only a person can know what does."""
    missing, wider = _missing_input(fs, location, record), _wider_delta(fs, location, record)
    if missing is None and wider is None:
        return
    why = f"{missing}, one of its inputs, is gone as well" if missing is not None else f"{wider} covers its inputs"
    raise CorruptError(
        f"Cannot finish the publication in {staging}: because {removed}, its other half, was removed, and {why}. Put "
        f"{location}/{removed} back and run again; or, if the rows in it are not missed, give the publication up by "
        f"removing {staging} with all it holds"
    )


def _verify_published(
    fs: FileSystem, location: Location, record: PublicationRecord, waiting: tuple[StagedDirectory, ...]
) -> None:
    """The half that has left the staging directory must still be what it was; the other half belongs to it."""
    for directory in record.directories:
        if directory not in waiting:
            verify_directory(fs, f"{location}/{directory.name}", directory)


# --- taking back ------------------------------------------------------------------------------------------------------
# Taking back what was published: its directories leave readers' sight together, or stay.
#
# It is a publication that runs backwards, with the same record, so that whoever claims the place after a run that died
# in between finds a publication to finish and does: the result is there again, whole. Only with all of it in a staging
# directory does one rename of that directory, to a name that nobody finishes and readers pass over, end it.
#
#     _tmp_<unique>/publish.json                what is taken back, as a publication that is not finished
#     _tmp_<unique>/base_0000007/               moved here, one directory after the other
#     _acidlib_undone.<name>/base_0000007/      ... and with one rename done
#
# A run that is not dead but was paused finds its staging directory renamed when it wakes, and nothing to rename into:
# as with staging, no clock decides that.

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
        raise _unknown_undo(location, staging, error, another) from error


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
        raise _unknown_undo(location, staging, error, another) from error


def _unknown_undo(location: Location, staging: str, error: BaseException, another: AcidError) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"Cannot tell what of {staging} is taken back: because {error}; then: {another}; the next run at {location} "
        "puts back what was moved, unless all of it was"
    )
