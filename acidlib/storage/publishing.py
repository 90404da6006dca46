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

from acidlib.errors import AcidError, ConflictError, CorruptError, UnknownOutcomeError
from acidlib.model.generation import Generation
from acidlib.model.names import METADATA_ACID_FILE, ORC_ACID_VERSION_FILE, BaseDir, DeltaDir, parse_directory
from acidlib.points import Point, passing
from acidlib.storage.filesystem import FileSystem
from acidlib.storage.records import PublicationRecord, StagedDirectory, StagedFile, read_record, write_record
from acidlib.storage.staging import PUBLISH_RECORD, REVOKED, STAGING_PREFIX, remove_staging, revoke

_ORC_ACID_VERSION = b"2"
_METADATA_ACID = b'{"thisFileVersion":"0","dataFormat":"compacted"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What was published. `kind` is "one rename", "two renames" or "commit"; `leftover` says why staging could not be
    removed."""

    directories: tuple[str, ...]
    kind: str
    leftover: str | None = None


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


def publish(
    fs: FileSystem,
    location: str,
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
    ordered = tuple(sorted(directories, key=_publication_order))
    sealed = tuple(_seal(fs, location, staging, directory) for directory in ordered)
    fs.sync(staging)
    passing(Point.SEALED)
    _refuse_existing(fs, location, sealed)
    last_check()
    passing(Point.CHECKED)
    names = tuple(directory.name for directory in sealed)
    if len(sealed) == 1:
        _rename_one(fs, location, staging, names[0])
        passing(Point.FIRST_RENAMED)
        return Published(directories=names, kind="one rename", leftover=remove_staging(fs, location, staging))
    write_record(fs, f"{staging}/{PUBLISH_RECORD}", PublicationRecord(directories=sealed, inputs=inputs))
    fs.sync(location)
    passing(Point.RECORDED)
    _rename_both(fs, location, staging, names)
    passing(Point.SECOND_RENAMED)
    return Published(directories=names, kind="two renames", leftover=_finish(fs, location, staging))


def publish_hidden(
    fs: FileSystem,
    location: str,
    staging: str,
    directories: tuple[StagedDirectory, ...],
    *,
    last_check: Callable[[], None],
) -> Published:
    """Gives staged directories their names with the suffix of a transaction that is open: its commit shows them all.

    Otherwise as `publish`. Until the commit no reader takes them, so a failure between two renames needs no record:
    those that have been renamed are taken back.
    """
    ordered = tuple(sorted(directories, key=_publication_order))
    for directory in ordered:
        parsed = parse_directory(directory.name, Generation.HIVE4)
        if parsed is None or parsed.visibility_txn == 0:
            raise ValueError(f"{directory.name!r} has no visibility suffix")
    sealed = tuple(_seal(fs, location, staging, directory) for directory in ordered)
    fs.sync(staging)
    passing(Point.SEALED)
    _refuse_existing(fs, location, sealed)
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


def take_back(fs: FileSystem, location: str, names: tuple[str, ...]) -> None:
    """Removes directories whose transaction never commits. What cannot be removed the cleaner finds to be aborted."""
    for name in names:
        with suppress(AcidError):
            fs.remove_tree(location, name)


def roll_forward(
    fs: FileSystem,
    location: str,
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


def unfinished_publications(fs: FileSystem, location: str) -> tuple[str, ...]:
    """The staging directories in `location` that hold a record of a publication which was not finished."""
    return tuple(
        f"{location}/{entry.name}"
        for entry in fs.list_directory(location, missing=ConflictError)
        if entry.is_directory
        and entry.name.startswith(STAGING_PREFIX)
        and fs.exists(f"{location}/{entry.name}/{PUBLISH_RECORD}")
    )


def _is_visible(fs: FileSystem, staging: str) -> bool:
    record = read_record(fs, f"{staging}/{PUBLISH_RECORD}")
    return not all(fs.exists(f"{staging}/{directory.name}") for directory in record.directories)


def _publication_order(directory: StagedDirectory) -> tuple[bool, str]:
    parsed = parse_directory(directory.name, Generation.HIVE4)
    if parsed is None:
        raise ValueError(f"{directory.name!r} is not the name of an ACID directory")
    return isinstance(parsed, DeltaDir) and parsed.is_delete, directory.name


def _seal(fs: FileSystem, location: str, staging: str, directory: StagedDirectory) -> StagedDirectory:
    """Adds the marker files, and makes the directory the table's own and durable; returns it with all its files."""
    path = f"{staging}/{directory.name}"
    _verify(fs, path, directory)
    markers = [(ORC_ACID_VERSION_FILE, _ORC_ACID_VERSION)]
    parsed = parse_directory(directory.name, Generation.HIVE4)
    if isinstance(parsed, BaseDir) and parsed.visibility_txn == 0:
        markers.append((METADATA_ACID_FILE, _METADATA_ACID))
    for name, data in markers:
        fs.create(f"{path}/{name}", data)
    fs.inherit(path, location)
    fs.sync_tree(path)
    added = tuple(StagedFile(name=name, length=len(data)) for name, data in markers)
    return StagedDirectory(name=directory.name, files=directory.files + added)


def _verify(fs: FileSystem, path: str, directory: StagedDirectory) -> None:
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


def _refuse_existing(fs: FileSystem, location: str, directories: tuple[StagedDirectory, ...]) -> None:
    for directory in directories:
        if fs.exists(f"{location}/{directory.name}"):
            raise ConflictError(f"Cannot publish {location}/{directory.name}: because it already exists")


def _rename_one(fs: FileSystem, location: str, staging: str, name: str) -> None:
    try:
        fs.rename_noreplace(f"{staging}/{name}", f"{location}/{name}", missing=ConflictError)
    except ConflictError:
        raise  # nothing was renamed: the name is taken, or our staging was taken from us
    except AcidError as error:
        if fs.exists(f"{staging}/{name}"):
            raise
        raise UnknownOutcomeError(
            f"Cannot tell whether {location}/{name} would survive a loss of power: because after its rename: {error}"
        ) from error


def _rename_both(fs: FileSystem, location: str, staging: str, names: tuple[str, ...]) -> None:
    first, second = names
    try:
        _rename_first(fs, location, staging, names)
        passing(Point.FIRST_RENAMED)
        try:
            fs.rename_noreplace(f"{staging}/{second}", f"{location}/{second}", missing=ConflictError)
        except AcidError as error:
            _undo_first_rename(fs, location, staging, names, error)
            raise
    except KeyboardInterrupt:
        # no half may stay visible: readers are kept away for this moment only
        with suppress(AcidError):
            if not fs.exists(f"{staging}/{first}") and fs.exists(f"{staging}/{second}"):
                fs.rename_noreplace(f"{staging}/{second}", f"{location}/{second}")
        raise


def _rename_first(fs: FileSystem, location: str, staging: str, names: tuple[str, ...]) -> None:
    try:
        fs.rename_noreplace(f"{staging}/{names[0]}", f"{location}/{names[0]}", missing=ConflictError)
    except AcidError as error:
        if fs.exists(f"{staging}/{names[0]}"):
            fs.remove_tree(staging, PUBLISH_RECORD)
            raise
        if isinstance(error, ConflictError):
            raise  # another run has taken it over
        raise _unknown(location, names, error) from error


def _undo_first_rename(fs: FileSystem, location: str, staging: str, names: tuple[str, ...], cause: AcidError) -> None:
    """Undoes the first rename: no half may stay visible until a later run comes, if that can be helped."""
    if fs.exists(f"{location}/{names[1]}") and not fs.exists(f"{staging}/{names[1]}"):
        if isinstance(cause, ConflictError):
            raise cause  # another run has finished it
        raise _unknown(location, names, cause) from cause  # it was renamed, and only then something failed
    removed = not fs.is_directory(staging)  # by somebody, with the other half
    try:
        if removed:
            fs.rename_noreplace(f"{location}/{names[0]}", staging + REVOKED, missing=ConflictError)
            if fs.exists(f"{location}/{names[1]}"):  # since the look at it, another run has finished all
                fs.rename_noreplace(staging + REVOKED, f"{location}/{names[0]}")
        else:
            fs.rename_noreplace(f"{location}/{names[0]}", f"{staging}/{names[0]}")
            fs.remove_tree(staging, PUBLISH_RECORD)
    except AcidError as error:
        if removed and isinstance(error, ConflictError):
            raise cause from error  # another run is about to finish it
        raise _unknown(location, names, error) from cause


def _unknown(location: str, names: tuple[str, ...], error: AcidError) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"Cannot tell whether {' and '.join(names)} are both published in {location}: because a rename failed "
        f"({error}); the next run on this partition finishes it"
    )


def _finish(fs: FileSystem, location: str, staging: str) -> str | None:
    """Removes the record before the rest, so that what a crash leaves is litter and nothing to finish."""
    try:
        fs.remove_tree(staging, PUBLISH_RECORD)
    except AcidError as error:
        return str(error)
    passing(Point.UNRECORDED)
    return remove_staging(fs, location, staging)


def _roll_one(fs: FileSystem, location: str, staging: str) -> RolledForward:
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
            _verify(fs, f"{staging}/{directory.name}", directory)
        _refuse_existing(fs, location, waiting)
        for directory in waiting:
            fs.rename_noreplace(f"{staging}/{directory.name}", f"{location}/{directory.name}")
    leftover = _finish(fs, location, staging)
    return RolledForward(staging=staging, directories=names, outcome=outcome, reason=reason, leftover=leftover)


def _reason_to_discard(fs: FileSystem, location: str, record: PublicationRecord) -> str | None:
    if (path := _missing_input(fs, location, record)) is not None:
        return f"its input {path} is gone, so something else stands for those rows"
    for directory in record.directories:
        if fs.exists(f"{location}/{directory.name}"):
            return f"{directory.name} already exists"
    wider = _wider_delta(fs, location, record)
    return None if wider is None else f"{wider} covers it"


def _wider_delta(fs: FileSystem, location: str, record: PublicationRecord) -> str | None:
    """A delta of either kind that makes what is recorded obsolete, and is neither an input of it nor a part."""
    own = {directory.name for directory in record.directories}
    names = [found for name in own if isinstance(found := parse_directory(name, Generation.HIVE4), DeltaDir)]
    if not names:
        return None
    low, high = min(name.min_write_id for name in names), max(name.max_write_id for name in names)
    for entry in fs.list_directory(location, missing=ConflictError):
        if not entry.is_directory or entry.name in own or entry.name in record.inputs:
            continue
        found = parse_directory(entry.name, Generation.HIVE4)
        if isinstance(found, DeltaDir) and found.min_write_id <= low and high <= found.max_write_id:
            return entry.name
    return None


def _missing_input(fs: FileSystem, location: str, record: PublicationRecord) -> str | None:
    return next((path for path in record.inputs if not fs.exists(f"{location}/{path}")), None)


def _require_not_merged(
    fs: FileSystem, location: str, staging: str, record: PublicationRecord, waiting: tuple[StagedDirectory, ...]
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


def _covering(fs: FileSystem, location: str, names: tuple[str, ...]) -> str | None:
    """The base that makes all of these obsolete, if there is one: no reader would see the other half any more."""
    deltas = [found for name in names if isinstance(found := parse_directory(name, Generation.HIVE4), DeltaDir)]
    if len(deltas) != len(names):
        return None
    highest = max(delta.max_write_id for delta in deltas)
    for entry in fs.list_directory(location, missing=ConflictError):
        found = parse_directory(entry.name, Generation.HIVE4) if entry.is_directory else None
        if isinstance(found, BaseDir) and found.write_id >= highest:
            return entry.name
    return None


def _removed_half(
    fs: FileSystem, location: str, record: PublicationRecord, waiting: tuple[StagedDirectory, ...]
) -> str | None:
    """The half that has left the staging directory and is not at its place either: somebody has removed it."""
    published = (directory.name for directory in record.directories if directory not in waiting)
    return next((name for name in published if not fs.is_directory(f"{location}/{name}")), None)


def _require_inputs(fs: FileSystem, location: str, staging: str, record: PublicationRecord, removed: str) -> None:
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
    fs: FileSystem, location: str, record: PublicationRecord, waiting: tuple[StagedDirectory, ...]
) -> None:
    """The half that has left the staging directory must still be what it was; the other half belongs to it."""
    for directory in record.directories:
        if directory not in waiting:
            _verify(fs, f"{location}/{directory.name}", directory)
