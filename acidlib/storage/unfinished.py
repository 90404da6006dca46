"""Publications that an earlier run recorded and did not finish: the next run finishes or discards them."""

from __future__ import annotations

from dataclasses import dataclass

from acidlib.errors import ConflictError, CorruptError
from acidlib.model.generation import Generation
from acidlib.model.location import Location
from acidlib.model.names import BaseDir, DeltaDir, parse_directory
from acidlib.storage.filesystem import FileSystem, RenameFileSystem
from acidlib.storage.publishing import refuse_existing, remove_recorded_staging, verify_directory
from acidlib.storage.records import PublicationRecord, StagedDirectory, read_record
from acidlib.storage.renames import renamed
from acidlib.storage.staging import PUBLISH_RECORD, STAGING_PREFIX, revoke


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
