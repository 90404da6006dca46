"""Publication by renames: for file systems that rename a directory atomically, onto a name that must not exist.

Results are written where no reader looks. A staging directory is `_tmp_<unique>` in the place; every reader skips it
for its leading underscore. Below it, each output directory stands under its final name, and attempts of tasks under
names of their own:

    _tmp_<unique>/_acidlib_staging            marks it as ours
    _tmp_<unique>/_attempts/<file>.<attempt>  written by tasks; retries and speculation never meet
    _tmp_<unique>/base_0000007/bucket_00000   accepted by the driver
    _tmp_<unique>/publish.json                the record of a publication that takes two renames

The run that claims the place next takes staging of earlier ones away by renaming it, `_tmp_<unique>.revoked`, before
it looks at anything else. A run that is not dead but was paused, even between its last check and its rename, finds
nothing to rename when it wakes: no clock and no waiting time decides that, only the order of two renames.

Staged directories become visible under names that must not exist, whole or not at all. One directory is one atomic
rename. Two (a minor compaction with inserts and deletes, where no visibility suffix hides them) are renamed under a
durable record, which any later run finishes. Neither order of the two renames is right for a reader between them,
because a wide directory makes every narrower one of either kind obsolete (Hive AcidUtils.getAcidState). The insert half
goes first: then, for that moment, rows that were deleted or replaced come back, while with the delete half first every
row above the base would be missing. Rows too many are the smaller harm: no live row is hidden from a reader, and the
second rename ends it.

Taking back is a publication that runs backwards, with the same record, so that the next run after one that died in
between finds a publication to finish and does: the result is there again, whole. Only with all of it in a staging
directory does one rename of that directory, to a name that no run finishes and readers pass over, end it:

    _tmp_<unique>/publish.json                what is taken back, as a publication that is not finished
    _tmp_<unique>/base_0000007/               moved here, one directory after the other
    _acidlib_undone.<name>/base_0000007/      ... and with one rename done
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, UnknownOutcomeError
from acidlib.model.location import Location
from acidlib.model.names import DeltaDir, Generation, parse_directory
from acidlib.points import Point, reach
from acidlib.stores.filesystem import FileSystem, RenameFileSystem, safe_parts
from acidlib.stores.renaming.claims import claim, read_claim, renamed
from acidlib.stores.store import (
    ATTEMPTS,
    OUT_OF_SIGHT,
    PUBLISH_RECORD,
    REVOKED,
    STAGING_MARKER,
    STAGING_PREFIX,
    TRASH,
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
    marker_files,
    missing_input,
    reason_to_discard,
    refuse_existing,
    remove_uncommitted,
    require_suffixes,
)

_VERSION = 1


class RenameStage(Stage):
    """`Stage` in a directory of its own."""

    is_readable = True

    def __init__(self, fs: RenameFileSystem, location: Location, path: str) -> None:
        self._fs = fs
        self._location = location
        self.path = path

    def accept(self, directory: str, attempts: Sequence[Attempt]) -> StagedDirectory:
        """Move the attempts that count to their places in the staged directory; publishing makes them durable.

        A second attempt for the same file raises `ConflictError`: duplicates are dropped by the caller, never merged.
        """
        self._fs.make_directory(f"{self.path}/{directory}")
        for one in attempts:
            target = f"{self.path}/{directory}/{one.name}"
            if not renamed(self._fs, one.written, target, durable=False):
                raise ConflictError(
                    f"Cannot accept {one.written}: {target} already exists, or another run has revoked it"
                )
        return StagedDirectory(name=directory, files={one.name: one.length for one in attempts})

    def publish(
        self, directories: Sequence[StagedDirectory], *, inputs: tuple[str, ...], last_check: Callable[[], None]
    ) -> Published:
        """Make staged directories visible, durably, with the files that mark them; see `Stage.publish`.

        Each must hold exactly the files it names, at their lengths, else `CorruptError`. `last_check` runs after
        everything is on disk and before the first rename.
        """
        sealed = self._sealed(directories, last_check)
        names = tuple(directory.name for directory in sealed)
        if len(sealed) == 1:
            self._rename(names[0])
            reach(Point.FIRST_RENAMED)
            try_to_remove_staging(self._fs, self._location, self.path)
            return Published(directories=names, kind="one rename")
        write_record(self._fs, f"{self.path}/{PUBLISH_RECORD}", PublicationRecord(directories=sealed, inputs=inputs))
        self._fs.sync(str(self._location))
        reach(Point.RECORDED)
        self._rename_both(names)
        reach(Point.SECOND_RENAMED)
        _remove_recorded_staging(self._fs, self._location, self.path)
        return Published(directories=names, kind="two renames")

    def publish_hidden(self, directories: Sequence[StagedDirectory], *, last_check: Callable[[], None]) -> Published:
        """Publish as `publish` does; but a failure between two renames needs no record: what was renamed is removed."""
        require_suffixes(directories)
        names = tuple(directory.name for directory in self._sealed(directories, last_check))
        done: list[str] = []
        try:
            for name in names:
                self._rename(name)
                done.append(name)
                reach(Point.FIRST_RENAMED if len(done) == 1 else Point.SECOND_RENAMED)
        except AcidError:
            remove_uncommitted(self._fs, self._location, done)
            raise
        try_to_remove_staging(self._fs, self._location, self.path)
        return Published(directories=names, kind="commit")

    def discard(self) -> str | None:
        if not self._fs.exists(self.path) or self._fs.exists(f"{self.path}/{PUBLISH_RECORD}"):
            return None
        return try_to_remove_staging(self._fs, self._location, self.path)

    def _sealed(
        self, directories: Sequence[StagedDirectory], last_check: Callable[[], None]
    ) -> tuple[StagedDirectory, ...]:
        """Return the directories in order, with their marker files, once all is on disk and checked."""
        sealed = []
        for directory in sorted(directories, key=_publication_order):
            path = f"{self.path}/{directory.name}"
            _verify_directory(self._fs, path, directory)
            markers = marker_files(directory.name)
            for name, data in markers.items():
                self._fs.create(f"{path}/{name}", data, durable=False)
            self._fs.inherit(path, str(self._location))
            self._fs.sync_tree(path)
            lengths = {name: len(data) for name, data in markers.items()}
            sealed.append(replace(directory, files={**directory.files, **lengths}))
        self._fs.sync(self.path)
        reach(Point.SEALED)
        refuse_existing(self._fs, self._location, sealed)
        last_check()
        reach(Point.CHECKED)
        return tuple(sealed)

    def _rename(self, name: str) -> None:
        """Rename a staged directory to its place; UnknownOutcomeError where it cannot be said whether that was done."""
        try:
            self._move(name)
        except AcidError as error:
            is_published = self._is_published(name, error)
            if is_published is None:
                raise UnknownOutcomeError(
                    f"Cannot tell whether {self._location}/{name} is published, and would survive a loss of power: "
                    f"its rename failed ({error}); the next run on this partition goes by what it finds"
                ) from error
            if not is_published:
                raise

    def _move(self, name: str) -> None:
        self._fs.rename_noreplace(f"{self.path}/{name}", f"{self._location}/{name}", missing=ConflictError)

    def _is_published(self, name: str, error: AcidError) -> bool | None:
        """Tell whether a rename that ended by an error was done, and is durable; None where that cannot be said.

        | the error is  | what was staged is | target, our stage | then                                               |
        |---------------|--------------------|-------------------|----------------------------------------------------|
        | ConflictError | there              |                   | no: the name is taken                              |
        | ConflictError | gone               |                   | no: our stage was taken away (or this mount had an |
        |               |                    |                   | answer lost and asked again: a record has to stay) |
        | any other     | there              |                   | no                                                 |
        | any other     | gone               | both there        | yes: only the answer was lost                      |
        | any other     | gone               | one is gone       | not known: another run has a hand in it            |
        | any other     | not to be seen     |                   | not known                                          |

        A run that takes our stage from us renames it, with all that is in it: so a rename out of a stage that still
        has its name was ours.
        """
        if isinstance(error, ConflictError):
            return False
        with suppress(AcidError):
            if self._fs.exists(f"{self.path}/{name}"):
                return False
            if self._fs.is_directory(self.path) and self._fs.exists(f"{self._location}/{name}"):
                self._fs.sync(str(self._location))
                return True
        return None

    def _rename_both(self, names: tuple[str, ...]) -> None:
        """Rename two directories under their record.

        | what fails         | and then                                | readers see   | what is raised                |
        |--------------------|-----------------------------------------|---------------|-------------------------------|
        | the first rename   | the record is removed                   | nothing       | the error                     |
        |                    | what was staged is gone: it stays       | all, at last  | the error, a conflict         |
        |                    | the record cannot be removed            | nothing       | unknown: the next run goes on |
        | the second rename  | the first is undone, the record removed | nothing       | the error                     |
        |                    | another run has our stage, and finishes | all, at last  | the error, a conflict         |
        |                    | the first cannot be undone              | the first     | unknown: the next run goes on |
        | only an answer     | what was renamed is looked at           | all           | nothing                       |
        |                    | nothing can be looked at                | all, or less  | unknown: the next run goes on |
        """
        first, second = names
        try:
            try:
                self._move(first)
            except AcidError as error:
                is_published = self._is_published(first, error)
                if is_published is None:
                    raise self._unknown(names, error) from error
                if not is_published:
                    try:
                        if self._fs.exists(f"{self.path}/{first}"):
                            _remove_record(self._fs, self.path)
                    except AcidError as another:
                        raise self._unknown(names, error) from another
                    raise
            reach(Point.FIRST_RENAMED)
            try:
                self._move(second)
            except AcidError as error:
                if not self._is_published(second, error):
                    self._take_first_back(names, error)
                    raise
        except KeyboardInterrupt:
            # no half may stay visible: readers are kept away for this moment only
            with suppress(AcidError):
                if not self._fs.exists(f"{self.path}/{first}") and self._fs.exists(f"{self.path}/{second}"):
                    self._move(second)
            raise

    def _take_first_back(self, names: tuple[str, ...], cause: AcidError) -> None:
        """Undo the first rename unless another run sees to it: no half may stay visible until a later run comes."""
        fs, first, second = self._fs, f"{self._location}/{names[0]}", f"{self._location}/{names[1]}"
        stage_is_gone = False
        try:
            if fs.exists(second) and not fs.exists(f"{self.path}/{names[1]}"):
                if isinstance(cause, ConflictError):
                    return  # another run has finished it
                raise cause  # it was renamed, and only then something failed
            stage_is_gone = not fs.is_directory(self.path)
            if stage_is_gone:
                # the other half went with it. Under this name a run that has taken our stage has it, and then it is
                # about to finish; else the half is hidden there
                fs.rename_noreplace(first, self.path + REVOKED, missing=ConflictError)
                if fs.exists(second):  # since the look at it, another run has finished all
                    fs.rename_noreplace(self.path + REVOKED, first)
            else:
                fs.rename_noreplace(first, f"{self.path}/{names[0]}")
                _remove_record(fs, self.path)
        except AcidError as error:
            if not (stage_is_gone and isinstance(error, ConflictError)):
                raise self._unknown(names, error) from cause

    def _unknown(self, names: tuple[str, ...], error: AcidError) -> UnknownOutcomeError:
        return UnknownOutcomeError(
            f"Cannot tell whether {' and '.join(names)} are both published in {self._location}: a rename "
            f"failed ({error}); the next run on this partition finishes it"
        )

    def take_back(
        self, directories: tuple[str, ...], *, aside: str, inputs: tuple[str, ...], last_check: Callable[[], None]
    ) -> None:
        """Move directories of a place to `aside`.

        When a rename fails, what was moved is moved back; where that fails too, `UnknownOutcomeError` says that the
        next run does it.
        """
        fs, location, staging = self._fs, self._location, self.path
        try:
            as_they_lie = []  # which need not be as they were published
            for name in directories:
                tree = fs.list_tree(f"{location}/{name}", enter_hidden=True, missing=ConflictError)
                if (inner := next((entry.path for entry in tree if entry.is_directory), None)) is not None:
                    raise CorruptError(f"Cannot take {location}/{name} back: {inner} in it is a directory")
                as_they_lie.append(StagedDirectory(name=name, files={entry.path: entry.length for entry in tree}))
            recorded = tuple(sorted(as_they_lie, key=_publication_order))
            last_check()
            write_record(fs, f"{staging}/{PUBLISH_RECORD}", PublicationRecord(directories=recorded, inputs=inputs))
            fs.sync(str(location))
        except BaseException:
            with suppress(AcidError):  # the first error is the one to report
                if not fs.exists(f"{staging}/{PUBLISH_RECORD}"):
                    try_to_remove_staging(fs, location, staging)
            raise
        reach(Point.UNDO_RECORDED)
        try:
            for name in directories:
                if not renamed(fs, f"{location}/{name}", f"{staging}/{name}"):
                    raise ConflictError(
                        f"Cannot take {location}/{name} back: it is gone, or another run has taken over"
                    )
                reach(Point.UNDO_MOVED)
            if not renamed(fs, staging, f"{location}/{aside}"):
                raise ConflictError(f"Cannot take back what is in {staging}: another run has taken over")
        except (AcidError, KeyboardInterrupt) as error:
            try:
                is_done = not fs.exists(staging) and fs.is_directory(f"{location}/{aside}")
                if isinstance(error, AcidError) and is_done:
                    return  # the last rename was made, whatever came after it
                self._put_back(recorded)
            except AcidError as another:
                raise UnknownOutcomeError(
                    f"Cannot tell what of {staging} is taken back: {error}; then: {another}; the next run at "
                    f"{location} puts back what was moved, unless all of it was"
                ) from error
            raise
        reach(Point.UNDO_ASIDE)

    def _put_back(self, recorded: tuple[StagedDirectory, ...]) -> None:
        """Move all back in the order of a publication; another run that has taken the staging directory does so."""
        fs, staging = self._fs, self.path
        if not fs.is_directory(staging):
            return
        for directory in recorded:
            if fs.exists(f"{staging}/{directory.name}"):
                renamed(fs, f"{staging}/{directory.name}", f"{self._location}/{directory.name}")
        if not any(fs.exists(f"{staging}/{directory.name}") for directory in recorded):
            _remove_recorded_staging(fs, self._location, staging)


class RenameStore(Store):
    """`Store` of a file system with atomic renames."""

    fs: RenameFileSystem
    shows_at_once = True

    def __init__(self, fs: RenameFileSystem) -> None:
        self.fs = fs

    def claim(self, location: Location, *, owner: str, token: str, now: float) -> Claim:
        del now  # the file system has a clock
        return claim(self.fs, location, owner=owner, token=token)

    def holder(self, location: Location, *, now: float) -> Holder | None:
        found = read_claim(self.fs, location)
        if found is None:
            return None
        return Holder(owner=found.owner, token=found.token, start=found.start, is_stale=found.is_stale(now))

    def revoke_others(self, location: Location) -> None:
        for path in self._staging(location):
            is_ours = not path.endswith(REVOKED) and self.fs.exists(f"{path}/{STAGING_MARKER}")
            if is_ours and not self.fs.exists(f"{path}/{PUBLISH_RECORD}"):
                revoke(self.fs, path)

    def _staging(self, location: Location) -> Iterator[str]:
        for entry in self.fs.list_directory(str(location), missing=ConflictError):
            if entry.is_directory and entry.name.startswith(STAGING_PREFIX):
                yield f"{location}/{entry.name}"

    def stage(self, location: Location, *, unique: str, owner: str, now: float) -> RenameStage:
        """Create `_tmp_<unique>` with its marker and the directory for attempts; `ConflictError` when that name exists.

        It is made durable when it is published from; before that, what a loss of power leaves of it is litter.
        """
        path = f"{location}/{STAGING_PREFIX}{unique}"
        self.fs.make_directory(path)
        self.fs.create(f"{path}/{STAGING_MARKER}", json.dumps({"owner": owner, "start": now}).encode(), durable=False)
        self.fs.make_directory(f"{path}/{ATTEMPTS}")
        self.fs.inherit(path, str(location))
        return RenameStage(self.fs, location, path)

    def unfinished(self, location: Location) -> tuple[str, ...]:
        return tuple(path for path in self._staging(location) if self.fs.exists(f"{path}/{PUBLISH_RECORD}"))

    def roll_forward(self, location: Location, *, visible_only: bool = False) -> tuple[RolledForward, ...]:
        """Finish every publication that any earlier run recorded in `location` and did not complete.

        First the staging directory is taken from the run that recorded it, which may be paused, not dead, and go on
        between any two steps. What becomes of a publication:

        * One directory is visible: the other one is renamed too, after the lengths of its files were verified. It is
          discarded if the visible one is no longer whole and a base covers both, or if it was removed and all inputs
          are still there.
        * None is visible: both are renamed. It is discarded if an input is gone, a name is taken or a wider delta
          covers it: then its rows are in what is there.

        Raises `CorruptError` for a damaged record or staged file and, with what to do by hand, where the visible
        directory was removed and its inputs are gone or was merged without the other one; `ConflictError` when another
        run's directory has a name that is still to be published.
        """
        done = []
        for staging in self.unfinished(location):
            if visible_only:
                record = read_record(self.fs, staging)
                if self._waiting(staging, record) == record.directories:
                    continue
            done.append(self._roll_one(location, revoke(self.fs, staging)))
        return tuple(done)

    def _waiting(self, staging: str, record: PublicationRecord) -> tuple[StagedDirectory, ...]:
        """Return the recorded directories that have not left the staging directory."""
        return tuple(item for item in record.directories if self.fs.exists(f"{staging}/{item.name}"))

    def _roll_one(self, location: Location, staging: str) -> RolledForward:
        fs, record = self.fs, read_record(self.fs, staging)
        waiting = self._waiting(staging, record)
        reason = self._discard_reason(location, staging, record, waiting) if waiting else None
        if reason is None:
            for directory in waiting:
                _verify_directory(fs, f"{staging}/{directory.name}", directory)
            refuse_existing(fs, location, waiting)
            for directory in waiting:
                if not renamed(fs, f"{staging}/{directory.name}", f"{location}/{directory.name}"):
                    raise ConflictError(f"Cannot publish {location}/{directory.name}: it already exists")
        return RolledForward(
            directories=tuple(directory.name for directory in record.directories),
            outcome="discarded" if reason is not None else "finished" if waiting else "was published",
            reason=reason,
            leftover=_remove_recorded_staging(fs, location, staging),
        )

    def _discard_reason(
        self, location: Location, staging: str, record: PublicationRecord, waiting: tuple[StagedDirectory, ...]
    ) -> str | None:
        """Return why what waits must not be published any more; None where it is to be.

        A base above the visible half is no reason while that is whole: the base may be of a transaction that aborts,
        and below a good one it harms no reader that the other half comes, too. What is not whole any more a cleaner
        has removed, which had seen that the base's transaction was committed. Raises CorruptError where only a person
        knows what holds the rows.
        """
        fs = self.fs
        published = tuple(item for item in record.directories if item not in waiting)
        if not published:
            return reason_to_discard(fs, location, record)
        damage = None  # what has left staging must still be what it was: the rest belongs to it
        try:
            for directory in published:
                _verify_directory(fs, f"{location}/{directory.name}", directory)
        except CorruptError as error:
            damage = error
        base, delta = covering_at(fs, location, record, uncommitted=damage is not None)
        if base is not None:
            return None if damage is None else f"{base} covers it: somebody else has compacted what was visible of it"
        removed = next((item.name for item in published if not fs.is_directory(f"{location}/{item.name}")), None)
        if removed is not None:
            missing = missing_input(fs, location, record)
            if missing is None and delta is None:
                return f"{removed} was removed after it was published, and all its inputs are still there"
            why = f"{delta} covers its inputs" if missing is None else f"{missing}, one of its inputs, is gone as well"
            raise CorruptError(
                f"Cannot finish the publication in {staging}: {removed}, its other half, was removed, and "
                f"{why}. Put {location}/{removed} back and run again; or, if the rows in it are not missed, give the "
                f"publication up by removing {staging} with all it holds"
            )
        if delta is not None:  # which would hide the other half for ever; only the record still shows what it lacks
            left = " and ".join(directory.name for directory in waiting)
            half = " and ".join(directory.name for directory in published)
            raise CorruptError(
                f"Cannot finish the publication in {staging}: {delta} was made of {half} without {left}, so "
                f"that rows which are deleted there are back. While all directories that {delta} was made of are still "
                f"there, remove it and its twin and run again; else delete these rows again, and remove {staging}"
            )
        if damage is not None:
            raise damage
        return None

    def trash(self, location: Location, name: str) -> Callable[[str], str]:
        """Make `_acidlib_trash/<name>/` in the place, which readers pass over; return what moves there."""
        if len(safe_parts(str(location), name)) != 1:
            raise RefusedError(f"Cannot move files aside in {location}: {name!r} is not a single name")

        def ensure(path: str) -> None:
            if not self.fs.is_directory(path):
                self.fs.make_directory(path)

        ensure(f"{location}/{TRASH}")
        ensure(f"{location}/{TRASH}/{name}")

        def move(relative: str) -> str:
            *parents, last = safe_parts(str(location), relative)
            target = f"{location}/{TRASH}/{name}"
            for part in parents:
                target = f"{target}/{part}"
                ensure(target)
            self.fs.rename_noreplace(f"{location}/{relative}", f"{target}/{last}", missing=ConflictError)
            return f"{target}/{last}"

        return move

    def trash_place(self, location: Location) -> str:
        return f"{location}/{TRASH}"

    def take_out_of_sight(self, location: Location, relative: str, unique: str) -> str:
        parts = safe_parts(str(location), relative)
        hidden = f"{OUT_OF_SIGHT}{unique}.{parts[-1]}"
        source, target, is_top = "/".join((str(location), *parts)), f"{location}/{hidden}", len(parts) == 1
        self.fs.rename_noreplace(source, target, missing=ConflictError, durable=not is_top)
        return hidden

    def make_durable(self, location: Location) -> None:
        self.fs.sync(str(location))

    def remove(self, location: Location, relative: str) -> None:
        self.fs.remove_tree(str(location), relative)

    def require_taking_back(self, location: Location) -> None:
        """Do nothing: it is done by renames."""


def revoke(fs: RenameFileSystem, staging: str) -> str:
    """Take a staging directory from the run that made it; return where it lies now."""
    if staging.endswith(REVOKED):
        return staging
    if not renamed(fs, staging, staging + REVOKED):
        raise ConflictError(f"Cannot revoke {staging}: it is gone, or {staging}{REVOKED} already exists")
    return staging + REVOKED


def try_to_remove_staging(fs: FileSystem, location: Location, staging: str) -> str | None:
    """Remove a staging directory; return None, or why something of it is left (it is hidden and harmless)."""
    try:
        fs.remove_tree(str(location), staging.removeprefix(f"{location}/"))
    except AcidError as error:
        return str(error)
    return None


def _remove_recorded_staging(fs: RenameFileSystem, location: Location, staging: str) -> str | None:
    """Remove the record before the rest, so that what a crash leaves is litter and nothing to finish."""
    try:
        _remove_record(fs, staging)
    except AcidError as error:
        return str(error)
    reach(Point.UNRECORDED)
    return try_to_remove_staging(fs, location, staging)


def _remove_record(fs: RenameFileSystem, staging: str) -> None:
    fs.remove_tree(staging, PUBLISH_RECORD)
    fs.sync(staging)


def write_record(fs: RenameFileSystem, path: str, record: PublicationRecord) -> None:
    """Write a record whole and durably; an existing one raises `ConflictError`."""
    document = {
        "version": _VERSION,
        "directories": [
            {"name": item.name, "files": [{"name": name, "length": length} for name, length in item.files.items()]}
            for item in record.directories
        ],
        "inputs": list(record.inputs),
    }
    fs.create(path, json.dumps(document, ensure_ascii=False, indent=1).encode())


def read_record(fs: FileSystem, staging: str) -> PublicationRecord:
    """Read a record back; `CorruptError` when it is damaged, or of a version that is not known."""
    path = f"{staging}/{PUBLISH_RECORD}"
    try:
        document = json.loads(fs.read(path, missing=ConflictError))
        version = document["version"]
        directories = [
            (item["name"], {file["name"]: file["length"] for file in item["files"]}) for item in document["directories"]
        ]
        inputs = tuple(document["inputs"])
        texts = [*inputs, *(text for name, files in directories for text in (name, *files))]
        lengths = [length for _, files in directories for length in files.values()]
        if any(type(text) is not str for text in texts) or any(type(length) is not int for length in lengths):
            raise TypeError("a name is no text, or a length no number")
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptError(f"Cannot read {path}: it is not a publication record") from error
    if version != _VERSION or not directories:
        raise CorruptError(f"Cannot read {path}: this kind of publication record is not known")
    for name, _ in directories:
        if len(safe_parts(path, name)) != 1:
            raise CorruptError(f"Cannot read {path}: it publishes {name!r}")
    for item in inputs:
        safe_parts(path, item)
    return PublicationRecord(
        directories=tuple(StagedDirectory(name=name, files=files) for name, files in directories), inputs=inputs
    )


def _publication_order(directory: StagedDirectory) -> tuple[bool, str]:
    parsed = parse_directory(directory.name, Generation.HIVE4)
    if parsed is None:
        raise ValueError(f"{directory.name!r} is not the name of an ACID directory")
    return isinstance(parsed, DeltaDir) and parsed.is_delete, directory.name


def _verify_directory(fs: FileSystem, path: str, directory: StagedDirectory) -> None:
    found = {entry.path: -1 if entry.is_directory else entry.length for entry in fs.list_tree(path, enter_hidden=True)}
    if found == directory.files:
        return

    def length(of: int | None) -> str:
        if of is None:
            return "no file"
        return "a directory" if of < 0 else f"a length of {of} bytes"

    expected = directory.files
    wrong = min(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
    raise CorruptError(
        f"Cannot publish {path}: {wrong} has {length(found.get(wrong))}, but {length(expected.get(wrong))} was written"
    )
