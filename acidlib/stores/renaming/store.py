"""Publication by renames: for file systems that rename a directory atomically, onto a name that must not exist.

Results are written where no reader looks. A staging directory is `_tmp_<unique>` in the place; every reader skips it
for its leading underscore. Below it, each output directory stands under its final name, and attempts of tasks under
names of their own:

    _tmp_<unique>/_acidlib_staging            the marker that tells it from Hive's staging
    _tmp_<unique>/_attempts/<file>.<attempt>  written by tasks; retries and speculation never meet
    _tmp_<unique>/base_0000007/bucket_00000   accepted by the driver
    _tmp_<unique>/publish.json                the record of a publication that takes two renames

The next run that claims the place revokes the staging directories of earlier ones by renaming them,
`_tmp_<unique>.revoked`, before it looks at anything else. A run that was paused, even between its last check and its
rename, finds nothing to rename when it goes on: no clock and no waiting time decides that, only the order of two
renames.

Staged directories become visible under names that must not exist, whole or not at all. One directory is one atomic
rename. Two (a minor compaction with inserts and deletes, where no visibility suffix hides them) are renamed under a
durable record, which any later run finishes. Neither order of the two renames is right for a reader between them,
because a wide directory makes every narrower one of either kind obsolete (Hive AcidUtils.getAcidState). The insert half
goes first: then, for that moment, rows that were deleted or replaced come back, while with the delete half first every
row above the base would be missing. Rows too many are the smaller harm: no live row is hidden from a reader, and the
second rename ends it.

Taking back is a publication that runs backwards, with the same record. If its run dies in between, the next run finds a
publication to finish, and publishes the result again, whole. Only when all of it lies in the staging directory does one
rename of that directory, to a name that no run finishes and readers pass over, end it:

    _tmp_<unique>/publish.json                the directories that are taken back, as an unfinished publication
    _tmp_<unique>/base_0000007/               moved here, one directory after the other
    _acidlib_undone.<name>/base_0000007/      ... and with one rename done
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import msgspec

from acidlib.acid.names import ANY_NAMES, DeltaDir, parse_directory
from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, UnknownOutcomeError
from acidlib.location import Location
from acidlib.planning.unfinished import unexplained
from acidlib.points import Point, reach
from acidlib.stores.control_files import read_document
from acidlib.stores.filesystem import (
    FileSystem,
    Pace,
    RenameFileSystem,
    require_measured,
    require_small,
    safe_parts,
    try_to_rename,
)
from acidlib.stores.promises import Promise
from acidlib.stores.renaming.claims import claim, read_claim
from acidlib.stores.renaming.trials import renaming_promises
from acidlib.stores.store import (
    ATTEMPTS,
    CLAIM,
    OUT_OF_SIGHT,
    PUBLISH_RECORD,
    REVOKED,
    STAGING_MARKER,
    STAGING_PREFIX,
    TRASH,
    Claim,
    ClaimOwner,
    PublicationRecord,
    Published,
    Stage,
    StagedDirectory,
    StagedFile,
    Store,
    covering_at,
    discard_reason,
    marker_files,
    missing_input,
    refuse_existing,
    remove_uncommitted,
    require_suffixes,
    rolled_forward,
)

_VERSION = 1


class RenameStage(Stage):
    """`Stage` in a directory of its own."""

    is_readable = True

    def __init__(self, fs: RenameFileSystem, location: Location, path: str) -> None:
        self._fs = fs
        self._location = location
        self.path = path

    def accept(self, directory: str, files: Sequence[StagedFile]) -> StagedDirectory:
        """Move files to their places in the staged directory; publishing makes them durable.

        A second one of the same name raises `ConflictError`: duplicates are dropped by the caller, never merged.
        """
        self._fs.make_directory(f"{self.path}/{directory}")
        for file in files:
            target = f"{self.path}/{directory}/{file.name}"
            if not try_to_rename(self._fs, file.path, target, durable=False):
                raise ConflictError(
                    f"Cannot accept {file.path}: {target} already exists, or another run has revoked it"
                )
        return StagedDirectory(name=directory, files={file.name: file.length for file in files})

    def publish(
        self,
        directories: Sequence[StagedDirectory],
        *,
        inputs: tuple[str, ...],
        last_check: Callable[[], None],
        has_readers: bool = True,  # noqa: ARG002 - a rename shows them all of a directory
    ) -> Published:
        """Make staged directories visible, durably, with their marker files; see `Stage.publish`.

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
        """Publish as `publish` does; but between two renames no record is needed: a failure removes the first."""
        require_suffixes(directories)
        names = tuple(directory.name for directory in self._sealed(directories, last_check))
        renamed_names: list[str] = []
        try:
            for name in names:
                self._rename(name)
                renamed_names.append(name)
                reach(Point.FIRST_RENAMED if len(renamed_names) == 1 else Point.SECOND_RENAMED)
        except AcidError:
            remove_uncommitted(self._fs, self._location, renamed_names)
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
        """Publish a staged directory by its rename; UnknownOutcomeError where its outcome cannot be found out."""
        try:
            self._move(name)
        except AcidError as error:
            is_published = self._is_published(name, error)
            if is_published is None:
                raise UnknownOutcomeError(
                    f"Cannot tell whether {self._location}/{name} is published, and would survive a loss of power: "
                    f"its rename failed ({error}); the next run on this partition looks whether it is there"
                ) from error
            if not is_published:
                raise

    def _move(self, name: str) -> None:
        self._fs.rename_noreplace(f"{self.path}/{name}", f"{self._location}/{name}", missing=ConflictError)

    def _is_published(self, name: str, error: AcidError) -> bool | None:
        """Tell whether a rename that ended by an error was done, and is durable; None where that cannot be found out.

        | the error is  | the source is  | target, our stage | then                                                   |
        |---------------|----------------|-------------------|--------------------------------------------------------|
        | ConflictError | there          |                   | no: the name is taken                                  |
        | ConflictError | gone           |                   | no: our stage was revoked (or this mount lost an       |
        |               |                |                   | answer and asked again: a record has to stay)          |
        | any other     | there          |                   | no                                                     |
        | any other     | gone           | both there        | yes: only the answer was lost                          |
        | any other     | gone           | one is gone       | not known: another run is at work there                |
        | any other     | out of reach   |                   | not known                                              |

        A run that revokes our stage renames it, with all it holds: so a rename out of a stage that still has its name
        was ours.
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

        | failure            | and then                                | readers see   | raised                        |
        |--------------------|-----------------------------------------|---------------|-------------------------------|
        | the first rename   | the record is removed                   | nothing       | the error                     |
        |                    | its source is gone: the record stays    | all, at last  | the error, a conflict         |
        |                    | the record cannot be removed            | nothing       | unknown: the next run goes on |
        | the second rename  | the first is undone, the record removed | nothing       | the error                     |
        |                    | another run has our stage, and finishes | all, at last  | the error, a conflict         |
        |                    | the first cannot be undone              | the first     | unknown: the next run goes on |
        | only an answer     | the renamed directories are looked at   | all           | nothing                       |
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
                    self._undo_first(names, error)
                    raise
        except KeyboardInterrupt:
            # no half may stay visible: readers are kept away for this moment only
            with suppress(AcidError):
                if not self._fs.exists(f"{self.path}/{first}") and self._fs.exists(f"{self.path}/{second}"):
                    self._move(second)
            raise

    def _undo_first(self, names: tuple[str, ...], cause: AcidError) -> None:
        """Undo the first rename after the second one failed: no half may stay visible until a later run comes.

        | the second half is | our stage is | then                                                                    |
        |--------------------|--------------|-------------------------------------------------------------------------|
        | published          |              | after a conflict nothing: another run has finished it; else not known   |
        | not published      | there        | the first goes back into it, and the record is removed                  |
        | not published      | gone         | the first is hidden under the name of our revoked stage. A run that has |
        |                    |              | revoked it has that name already, and is about to finish                |
        """
        fs, first, second = self._fs, f"{self._location}/{names[0]}", f"{self._location}/{names[1]}"
        try:
            if fs.exists(second) and not fs.exists(f"{self.path}/{names[1]}"):
                if not isinstance(cause, ConflictError):
                    raise self._unknown(names, cause) from cause
            elif fs.is_directory(self.path):
                fs.rename_noreplace(first, f"{self.path}/{names[0]}")
                _remove_record(fs, self.path)
            else:
                with suppress(ConflictError):
                    fs.rename_noreplace(first, self.path + REVOKED, missing=ConflictError)
                    if fs.exists(second):  # since the look at it, another run has finished all
                        fs.rename_noreplace(self.path + REVOKED, first)
        except UnknownOutcomeError:
            raise
        except AcidError as error:
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

        When a rename fails, the moved directories are moved back; where that fails too, `UnknownOutcomeError` says that
        the next run does it.
        """
        fs, location, staging = self._fs, self._location, self.path
        try:
            present = []  # their files today, which need not be those that were published
            for name in directories:
                tree = fs.list_tree(f"{location}/{name}", enter_hidden=True, missing=ConflictError)
                if (inner := next((entry.path for entry in tree if entry.is_directory), None)) is not None:
                    raise CorruptError(f"Cannot take {location}/{name} back: {inner} in it is a directory")
                present.append(StagedDirectory(name=name, files={entry.path: entry.length for entry in tree}))
            recorded = tuple(sorted(present, key=_publication_order))
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
                if not try_to_rename(fs, f"{location}/{name}", f"{staging}/{name}"):
                    raise ConflictError(
                        f"Cannot take {location}/{name} back: it is gone, or another run has taken over"
                    )
                reach(Point.UNDO_MOVED)
            if not try_to_rename(fs, staging, f"{location}/{aside}"):
                raise ConflictError(f"Cannot take back the directories in {staging}: another run has taken over")
        except (AcidError, KeyboardInterrupt) as error:
            try:
                is_aside = not fs.exists(staging) and fs.is_directory(f"{location}/{aside}")
                if isinstance(error, AcidError) and is_aside:
                    return  # the last rename was made, whatever failed after it
                self._put_back(recorded)
            except AcidError as another:
                raise UnknownOutcomeError(
                    f"Cannot tell which directories of {staging} are taken back: {error}; then: {another}; the next "
                    f"run at {location} puts back those that were moved, unless all were"
                ) from error
            raise
        reach(Point.UNDO_ASIDE)

    def _put_back(self, recorded: tuple[StagedDirectory, ...]) -> None:
        """Move all back in the order of a publication, unless another run has revoked the stage and does so."""
        fs, staging = self._fs, self.path
        if not fs.is_directory(staging):
            return
        for directory in recorded:
            if fs.exists(f"{staging}/{directory.name}"):
                try_to_rename(fs, f"{staging}/{directory.name}", f"{self._location}/{directory.name}")
        if not any(fs.exists(f"{staging}/{directory.name}") for directory in recorded):
            _remove_recorded_staging(fs, self._location, staging)


class RenameStore(Store):
    """`Store` of a file system with atomic renames."""

    fs: RenameFileSystem
    shows_at_once = True

    def __init__(self, fs: RenameFileSystem) -> None:
        self.fs = fs

    def promises(self) -> tuple[Promise, ...]:
        return renaming_promises(self.fs)

    def make_folder(self, path: str) -> None:
        self.fs.make_directory(path)

    def overwrite(self, path: str, data: bytes) -> None:
        with suppress(ConflictError):
            self.fs.remove_file(path, missing=ConflictError)
        self.fs.create(path, data)

    def claim(self, location: Location, *, owner: str, token: str, now: float) -> Claim:
        del now  # the file system has a clock
        return claim(self.fs, location, owner=owner, token=token)

    def holder(self, location: Location, *, now: float) -> ClaimOwner | None:
        record = read_claim(self.fs, location)
        if record is None:
            return None
        return ClaimOwner(owner=record.owner, token=record.token, start=record.start, is_stale=record.is_stale(now))

    def revoke_others(self, location: Location) -> None:
        for path in self._staging(location):
            has_marker = not path.endswith(REVOKED) and self.fs.exists(f"{path}/{STAGING_MARKER}")
            if has_marker and not self._has_record(path):
                revoke(self.fs, path)

    def _staging(self, location: Location) -> Iterator[str]:
        """Yield the staging directories that this user's runs have made; what others have made counts for nothing."""
        for entry in self.fs.list_directory(str(location), missing=ConflictError):
            if entry.is_directory and entry.is_ours and entry.name.startswith(STAGING_PREFIX):
                yield f"{location}/{entry.name}"

    def not_obeyed_reason(self, location: Location) -> str | None:
        for entry in self.fs.list_directory(str(location), missing=ConflictError):
            path = f"{location}/{entry.name}"
            is_meant_for_us = entry.name == CLAIM or (
                entry.name.startswith(STAGING_PREFIX)  # as Hive's compactor names its own, without these files
                and any(self.fs.exists(f"{path}/{name}") for name in (STAGING_MARKER, PUBLISH_RECORD))
            )
            if is_meant_for_us and not entry.is_ours:
                return f"{entry.name} belongs to another user: it is left alone, and keeps the name if it is a claim"
        return None

    def _has_record(self, staging: str) -> bool:
        try:
            return self.fs.entry(f"{staging}/{PUBLISH_RECORD}", missing=ConflictError).is_ours
        except ConflictError:
            return False

    def stage(self, location: Location, *, unique: str, owner: str, now: float) -> RenameStage:
        """Create `_tmp_<unique>` with its marker and the directory for attempts; `ConflictError` when that name exists.

        Publishing makes it durable; before that, a loss of power leaves only litter of it.
        """
        path = f"{location}/{STAGING_PREFIX}{unique}"
        self.fs.make_directory(path)
        self.fs.create(f"{path}/{STAGING_MARKER}", json.dumps({"owner": owner, "start": now}).encode(), durable=False)
        self.fs.make_directory(f"{path}/{ATTEMPTS}")
        self.fs.inherit(path, str(location), owner=False)  # executors may be of the table's group
        return RenameStage(self.fs, location, path)

    def unfinished(self, location: Location) -> tuple[str, ...]:
        return tuple(path for path in self._staging(location) if self._has_record(path))

    def roll_forward(self, location: Location, *, visible_only: bool = False) -> tuple[str, ...]:
        """Finish every publication that any earlier run recorded in `location` and did not complete.

        First the staging directory is taken from the run that recorded it, which may be paused, not dead, and go on
        between any two steps. Then:

        * One directory is visible: the other one is renamed too, after the lengths of its files were verified. It is
          discarded if the visible one is no longer whole and a base covers both, or if it was removed and all inputs
          are still there.
        * None is visible: both are renamed. It is discarded if an input is gone, a name is taken or a wider delta
          covers it: then its rows are in other directories.

        Raises `CorruptError` for a damaged record or staged file and, with what to do by hand, where the visible
        directory was removed and its inputs are gone or was merged without the other one; `ConflictError` when another
        run's directory has a name that is still to be published.
        """
        fs, lines = self.fs, []
        for staging in self.unfinished(location):
            if visible_only:
                record = read_record(fs, staging)
                if self._waiting(staging, record) == record.directories:
                    continue
            revoked = revoke(fs, staging)
            record = read_record(fs, revoked)
            if (reason := unexplained(record.names, record.inputs)) is not None:
                raise CorruptError(f"Cannot finish the publication in {revoked}: {reason}")
            waiting = self._waiting(revoked, record)
            reason = self._discard_reason(location, revoked, record, waiting) if waiting else None
            if reason is None:
                for directory in waiting:
                    _verify_directory(fs, f"{revoked}/{directory.name}", directory)
                refuse_existing(fs, location, waiting)
                for directory in waiting:
                    if not try_to_rename(fs, f"{revoked}/{directory.name}", f"{location}/{directory.name}"):
                        raise ConflictError(f"Cannot publish {location}/{directory.name}: it already exists")
            outcome = "discarded" if reason is not None else "finished" if waiting else "was published"
            left = _remove_recorded_staging(fs, location, revoked)
            lines.append(rolled_forward(record, outcome, reason, left))
        return tuple(lines)

    def _waiting(self, staging: str, record: PublicationRecord) -> tuple[StagedDirectory, ...]:
        """Return the recorded directories that have not left the staging directory."""
        return tuple(item for item in record.directories if self.fs.exists(f"{staging}/{item.name}"))

    def _discard_reason(
        self, location: Location, staging: str, record: PublicationRecord, waiting: tuple[StagedDirectory, ...]
    ) -> str | None:
        """Return why the waiting directories must not be published any more; None where they must be.

        A base above the visible half is no reason while that half is whole: the base may be of a transaction that
        aborts, and below a good one it harms no reader that the other half comes, too. If that half is no longer whole,
        a cleaner has removed files of it, which had seen that the base's transaction was committed. Raises CorruptError
        where only a person knows which directories hold the rows.
        """
        fs = self.fs
        published = tuple(item for item in record.directories if item not in waiting)
        if not published:
            return discard_reason(fs, location, record)
        damage = None  # the visible half must be as it was published: the waiting one belongs to it
        try:
            for directory in published:
                _verify_directory(fs, f"{location}/{directory.name}", directory)
        except CorruptError as error:
            damage = error
        base, delta = covering_at(fs, location, record, uncommitted=damage is not None)
        if base is not None:
            return None if damage is None else f"{base} covers it: another compactor has merged its visible half"
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
        if delta is not None:  # it would hide the other half for ever, and only the record shows that it lacks it
            hidden_half = " and ".join(directory.name for directory in waiting)
            visible_half = " and ".join(directory.name for directory in published)
            raise CorruptError(
                f"Cannot finish the publication in {staging}: {delta} was made of {visible_half} without "
                f"{hidden_half}, so that rows which are deleted there are back. While all directories that {delta} "
                f"was made of are still there, remove it and its twin and run again; else delete these rows again, "
                f"and remove {staging}"
            )
        if damage is not None:
            raise damage
        return None

    def trash(self, location: Location, name: str) -> Callable[[str], str]:
        """Make `_acidlib_trash/<name>/` in the place, which readers pass over; return a function that moves there."""
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

    def hide(self, location: Location, relative: str, unique: str, *, identity: str = "") -> str:
        parts = safe_parts(str(location), relative)
        hidden = f"{OUT_OF_SIGHT}{unique}.{parts[-1]}"
        source, target, is_top = "/".join((str(location), *parts)), f"{location}/{hidden}", len(parts) == 1
        self.fs.rename_noreplace(source, target, missing=ConflictError, durable=not is_top)
        if identity:
            try:
                require_measured(source, identity, self.fs.identity(target))
            except ConflictError:
                self.fs.rename_noreplace(target, source, missing=ConflictError, durable=not is_top)
                raise
        return hidden

    def make_durable(self, location: Location) -> None:
        self.fs.sync(str(location))

    def remove(self, location: Location, relative: str, *, identity: str = "", pace: Pace | None = None) -> None:
        self.fs.remove_tree(str(location), relative, identity=identity, pace=pace)

    def require_taking_back(self, location: Location) -> None:
        """Do nothing: renames take a result back."""


def revoke(fs: RenameFileSystem, staging: str) -> str:
    """Take a staging directory from the run that made it, by a rename; return its path from then on."""
    if staging.endswith(REVOKED):
        return staging
    if not try_to_rename(fs, staging, staging + REVOKED):
        raise ConflictError(f"Cannot revoke {staging}: it is gone, or {staging}{REVOKED} already exists")
    return staging + REVOKED


def try_to_remove_staging(fs: FileSystem, location: Location, staging: str) -> str | None:
    """Remove a staging directory; return None, or why a part of it is left, which is hidden and harmless."""
    try:
        fs.remove_tree(str(location), staging.removeprefix(f"{location}/"))
    except AcidError as error:
        return error.words
    return None


def _remove_recorded_staging(fs: RenameFileSystem, location: Location, staging: str) -> str | None:
    """Remove the record before the rest, so that a crash leaves litter and no publication to finish."""
    try:
        _remove_record(fs, staging)
    except AcidError as error:
        return error.words
    reach(Point.UNRECORDED)
    return try_to_remove_staging(fs, location, staging)


def _remove_record(fs: RenameFileSystem, staging: str) -> None:
    fs.remove_tree(staging, PUBLISH_RECORD)
    fs.sync(staging)


def write_record(fs: RenameFileSystem, path: str, record: PublicationRecord) -> None:
    """Write a record whole and durably; an existing one raises `ConflictError`, one that no run could read another."""
    document = {"version": _VERSION, **msgspec.to_builtins(record)}
    data = json.dumps(document, ensure_ascii=False, indent=1).encode()
    require_small(path, len(data))
    fs.create(path, data)


def read_record(fs: FileSystem, staging: str) -> PublicationRecord:
    """Read a record back; `CorruptError` when it is damaged, or of an unknown version."""
    path = f"{staging}/{PUBLISH_RECORD}"
    document = read_document(fs, path, missing=ConflictError)
    try:
        if (version := document["version"]) != _VERSION:
            raise CorruptError(f"Cannot read {path}: version {version} of publication records is not known")
        record = msgspec.convert(document, PublicationRecord)
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise CorruptError(f"Cannot read {path}: it is not a publication record ({error})") from error
    record.require_safe(path)
    return record


def _publication_order(directory: StagedDirectory) -> tuple[bool, str]:
    parsed = parse_directory(directory.name, ANY_NAMES)
    if parsed is None:
        raise ValueError(f"{directory.name!r} is not the name of an ACID directory")
    return isinstance(parsed, DeltaDir) and parsed.is_delete, directory.name


def _verify_directory(fs: FileSystem, path: str, directory: StagedDirectory) -> None:
    """Raise CorruptError unless a directory holds exactly the files that it names, at their lengths."""
    lengths = {
        entry.path: -1 if entry.is_directory else entry.length for entry in fs.list_tree(path, enter_hidden=True)
    }
    if lengths == directory.files:
        return

    def shown(length: int | None) -> str:
        if length is None:
            return "no file"
        return "a directory" if length < 0 else f"a length of {length} bytes"

    expected = directory.files
    wrong = min(name for name in lengths.keys() | expected.keys() if lengths.get(name) != expected.get(name))
    raise CorruptError(
        f"Cannot publish {path}: {wrong} has {shown(lengths.get(wrong))}, but {shown(expected.get(wrong))} was written"
    )
