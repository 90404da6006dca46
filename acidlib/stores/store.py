"""What every store has besides a file system: claims, and results that become visible by the steps that are safe there.

A store that can rename a directory atomically publishes by that (`stores.renaming`); a bucket has its own way
(`stores.s3`). What only reads and removes works by `FileSystem` alone.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from acidlib.datafiles import DataFiles
from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError
from acidlib.model.location import Location
from acidlib.model.names import (
    METADATA_ACID_FILE,
    ORC_ACID_VERSION_FILE,
    BaseDir,
    Generation,
    has_visibility_suffix,
    parse_directory,
)
from acidlib.planning.publication import covering
from acidlib.renewal import RENEWER
from acidlib.stores.filesystem import FileSystem

CLAIM = "_acidlib_claim"
STAGING_PREFIX = "_tmp_"
STAGING_MARKER = "_acidlib_staging"
ATTEMPTS = "_attempts"
PUBLISH_RECORD = "publish.json"
REVOKED = ".revoked"
TRASH = "_acidlib_trash"
OUT_OF_SIGHT = "_acidlib_removed."
"""Begins the names of what is about to be removed."""
UNDONE = "_acidlib_undone."
"""Begins the names of what was taken back. Readers pass over all of these for their leading underscore."""
ORC_ACID_VERSION = b"2"
"""The content of `_orc_acid_version` in each result. Source: Hive `AcidUtils.OrcAcidVersion`."""
METADATA_ACID = b'{"thisFileVersion":"0","dataFormat":"compacted"}'
"""The content of `_metadata_acid` in a base. Source: Hive `AcidUtils.MetaDataFile`."""

BEAT_SECONDS = 30.0
STALE_SECONDS = 600.0


class Claim(ABC):
    """A claim that this process holds, renewed until it is released.

    Use it as a context manager. Call `assert_mine` right before anything becomes visible or is deleted.
    """

    beat_seconds = BEAT_SECONDS

    def __init__(self, location: Location, token: str) -> None:
        """Begin to renew: what `renew` needs has to be there.

        location  the place that is claimed
        token     what tells this claim from all others
        """
        self.location = location
        self.token = token
        self._lock = threading.Lock()
        self._lost: str | None = None
        RENEWER.add(self._beat, self.beat_seconds)

    @abstractmethod
    def renew(self) -> bool:
        """Tell the store that the owner lives; False if the claim is no longer ours. One thread at a time calls it."""

    @abstractmethod
    def give_up(self) -> None:
        """Tell the store that the claim is free, unless it is another run's."""

    def assert_mine(self) -> None:
        """Renew the claim; raise `ConflictError` if another run has taken it over or it is gone."""
        with self._lock:
            if self._lost is None and not self.renew():
                self._lost = "somebody else has taken it over or removed it"
            if self._lost is not None:
                raise ConflictError(
                    f"Cannot go on in {self.location}: our claim on it is lost, {self._lost}; call again"
                )

    def release(self) -> None:
        """Stop renewing and give the claim up, unless it is no longer ours. May be called again."""
        RENEWER.remove(self._beat)
        with self._lock:  # a renewal that is under way ends before
            if self._lost is None:
                self._lost = "it was released"
                self.give_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.release()
        except AcidError:
            if error is None:
                raise  # else the first error is the one to report; the claim goes stale by itself

    def _beat(self) -> bool:
        try:
            self.assert_mine()
        except ConflictError:
            return False
        except AcidError:
            pass  # it may be out of reach for a while: the next renewal, or assert_mine, will show it
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The owner of the claim on a place; `start` is in seconds since the epoch, `is_stale`: it counts as dead."""

    owner: str
    token: str
    start: float
    is_stale: bool


def instant(seconds: float) -> str:
    """Return seconds since the epoch as people read them."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{seconds} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A file as the one attempt of a task made it that counts.

    written  what `TaskFiles.written` said of it: where it lies, or what it takes to complete it
    name     of the file in its directory
    length   in bytes
    """

    written: str
    name: str
    length: int


class TaskFiles(DataFiles):
    """The data files of one task, and the files it makes for a stage. It may be pickled: what is open stays behind."""

    __slots__ = ()

    def output_path(self, staging: str, directory: str, file: str, attempt: str) -> str:
        """Return where to create one attempt at `directory`/`file`; `attempt` is unique to the task's attempt."""
        return attempt_path(staging, directory, file, attempt)

    def written(self, path: str) -> str:
        """Return what `Stage.accept` has to know of the attempt that this task has made at a path."""
        return path


def attempt_path(staging: str, directory: str, file: str, attempt: str) -> str:
    """Return the path of a file that a task makes below a staging directory, apart from other attempts at it."""
    return f"{staging}/{ATTEMPTS}/{directory}.{file}.{attempt}"


def require_inside(name: str, length: int, offset: int, size: int) -> None:
    """Raise CorruptError when a range is not all inside the logical length of a file."""
    if offset < 0 or size < 0 or offset + size > length:
        raise CorruptError(f"Cannot read {name}: bytes {offset} to {offset + size} are outside it")


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedDirectory:
    """A directory to publish under `name`, with the length in bytes of every file that must be in it, and no other."""

    name: str
    files: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationRecord:
    """Directories in the order in which they become visible, and the relative paths of what they were made from."""

    directories: tuple[StagedDirectory, ...]
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The outcome of a publication. What of the stage could not be removed `Stage.discard`, or the next run, tells.

    `kind` is "one rename", "two renames", "completed uploads", or "commit" where that shows it.
    """

    directories: tuple[str, ...]
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledForward:
    """The outcome for one publication that an earlier run recorded.

    `outcome` is "finished" (some of it was still to do), "was published" (only the staging directory was left) or
    "discarded" (it may no longer become visible; `reason` says why). `leftover` says why its staging directory could
    not be removed.
    """

    directories: tuple[str, ...]
    outcome: str
    reason: str | None = None
    leftover: str | None = None

    @property
    def note(self) -> str:
        """The line about it for people."""
        why = "" if self.reason is None else f": {self.reason}"
        left = "" if self.leftover is None else f"; {self.leftover}"
        return f"publication of {', '.join(self.directories)} {self.outcome}{why}{left}"


class Stage(ABC):
    """What one run has made for one place and no reader sees yet."""

    is_readable: bool
    """Files that were accepted can be read below `path`, as `directory/file`, before they are published."""

    path: str
    """The directory where tasks write; see `attempt_path`."""

    @abstractmethod
    def accept(self, directory: str, attempts: Sequence[Attempt]) -> StagedDirectory:
        """Take these files, and no others, as `directory`. ConflictError for one that has been accepted before."""

    @abstractmethod
    def publish(
        self, directories: Sequence[StagedDirectory], *, inputs: tuple[str, ...], last_check: Callable[[], None]
    ) -> Published:
        """Make one or two directories visible, durably: all of it or nothing, or what a later run finishes.

        inputs      relative paths of what they were made from
        last_check  called when all is ready: it raises when the claim is lost or the place has changed

        ConflictError where a name is taken or another run has revoked this one; nothing has changed then.
        UnknownOutcomeError where it cannot be said whether all is visible: the next run finishes it.
        """

    @abstractmethod
    def publish_hidden(self, directories: Sequence[StagedDirectory], *, last_check: Callable[[], None]) -> Published:
        """Publish under names with the suffix of an open transaction: its commit shows them all.

        Otherwise as `publish`. Until the commit no reader takes them; what fails half-way is removed.
        """

    def take_back(
        self, directories: tuple[str, ...], *, aside: str, inputs: tuple[str, ...], last_check: Callable[[], None]
    ) -> None:
        """Move directories that were published to `aside` beside them, in their order, durably: all or none.

        inputs      what they were made of, by relative paths, and readers read from then on
        last_check  called when all is ready: it raises when the claim is lost or the place has changed

        The stage is empty, and ends with it. ConflictError where one is gone, or another run has taken over. To be
        called where `Store.require_taking_back` raises nothing.
        """
        raise NotImplementedError

    @abstractmethod
    def discard(self) -> str | None:
        """Remove what is left, unless it is needed to finish a publication; return why something stays, if it does."""


_NO_TRASH = "nothing can be moved in a bucket; without --trash it is removed, and a bucket with versions keeps it"


class Store(ABC):
    """The steps of a compaction that change a place, in one store.

    What takes renames is refused, or left out, where a store has none: there an object that moves is copied.
    """

    fs: FileSystem
    """What reads and removes in this store."""

    shows_at_once: bool
    """A directory of several files becomes visible as a whole."""

    @abstractmethod
    def claim(self, location: Location, *, owner: str, token: str, now: float) -> Claim:
        """Claim a place for `owner`, a name for people, under a unique token; `now` is for people, too.

        ConflictError naming the holder while its claim is alive. How long it has been silent is told by the store's
        own clock. RefusedError for a location that is no directory, CorruptError without one.
        """

    @abstractmethod
    def holder(self, location: Location, *, now: float) -> Holder | None:
        """Return the holder of the claim on a place, alive or not; None without one."""

    @abstractmethod
    def revoke_others(self, location: Location) -> None:
        """Take from earlier runs what they have staged at a place that the caller has claimed: none can publish it.

        The caller has staged nothing yet. What has the record of a publication stays, as it is to be finished.
        """

    @abstractmethod
    def stage(self, location: Location, *, unique: str, owner: str, now: float) -> Stage:
        """Begin a stage at a place; `unique` is a text that no other run uses. ConflictError when one has it."""

    @abstractmethod
    def unfinished(self, location: Location) -> tuple[str, ...]:
        """Return the stages at a place whose publication was begun and not finished, by their paths."""

    @abstractmethod
    def roll_forward(self, location: Location, *, visible_only: bool = False) -> tuple[RolledForward, ...]:
        """Finish or discard them; with `visible_only` those of which readers see a part already.

        The caller must hold the claim. Running it again is harmless. `CorruptError` where a person has to decide.
        """

    @abstractmethod
    def remove(self, location: Location, relative: str) -> None:
        """Remove a file or directory of a place, by its relative path; of what a run has staged nothing stays behind.

        See `FileSystem.remove_tree`.
        """

    def trash(self, location: Location, name: str) -> Callable[[str], str]:  # noqa: ARG002 - for those who rename
        """Return what moves a relative path of a place to the trash instead of removing it, and says where it is then.

        RefusedError where nothing can be moved. The name is unique; ConflictError where a link or a file has the name
        of the trash, or what is to be moved is gone.
        """
        raise RefusedError(f"Cannot move aside in {location}: {_NO_TRASH}")

    def trash_place(self, location: Location) -> str:
        """Return where that is, in words; RefusedError as for `trash`. Makes nothing."""
        raise RefusedError(f"Cannot move aside in {location}: {_NO_TRASH}")

    def take_out_of_sight(self, location: Location, relative: str, unique: str) -> str | None:  # noqa: ARG002 - as above
        """Have readers pass over a file or directory of a place at once; return its relative path from then on.

        None, and nothing has changed, where nothing can be renamed. ConflictError when it is gone.
        """
        return None

    def make_durable(self, location: Location) -> None:  # noqa: B027 - where each answer of the store says that it is
        """Have what was taken out of sight or removed directly in a place stay so after a loss of power."""

    def require_taking_back(self, location: Location) -> None:
        """Raise RefusedError where nothing can be renamed, so that a stage takes nothing back."""
        raise RefusedError(
            f"Cannot take a result back in {location}: nothing can be renamed in a bucket: its objects would "
            "go one by one, and what is left of a base still hides what it was made of"
        )


def marker_files(directory: str) -> dict[str, bytes]:
    """Return the files that mark a result as Hive's compactor marks it, by their names, with their contents."""
    markers = {ORC_ACID_VERSION_FILE: ORC_ACID_VERSION}
    parsed = parse_directory(directory, Generation.HIVE4)
    if isinstance(parsed, BaseDir) and parsed.visibility_txn == 0:
        markers[METADATA_ACID_FILE] = METADATA_ACID
    return markers


def require_suffixes(directories: Iterable[StagedDirectory]) -> None:
    """Raise ValueError unless the names of all directories hide them until a transaction commits."""
    for directory in directories:
        if not has_visibility_suffix(directory.name):
            raise ValueError(f"{directory.name!r} has no visibility suffix")


def refuse_existing(fs: FileSystem, location: Location, directories: Iterable[StagedDirectory]) -> None:
    """Raise ConflictError when anything has the name of a directory that is to be published."""
    for directory in directories:
        if fs.exists(f"{location}/{directory.name}"):
            raise ConflictError(f"Cannot publish {location}/{directory.name}: it already exists")


def original_staging_name(name: str) -> str:
    """Return the name that a staging directory had when it was made, whether or not it was revoked since."""
    return name.removesuffix(REVOKED)


def missing_input(fs: FileSystem, location: Location, record: PublicationRecord) -> str | None:
    """Return the first input of a publication that is not there any more."""
    return next((path for path in record.inputs if not fs.exists(f"{location}/{path}")), None)


def covering_at(
    fs: FileSystem, location: Location, record: PublicationRecord, *, uncommitted: bool = False
) -> tuple[str | None, str | None]:
    """Return the base and the delta at a place that make a publication obsolete; see `covering`."""
    entries = fs.list_directory(str(location), missing=ConflictError)
    there = [entry.name for entry in entries if entry.is_directory]
    names = [directory.name for directory in record.directories]
    return covering(there, names, record.inputs, uncommitted=uncommitted)


def reason_to_discard(fs: FileSystem, location: Location, record: PublicationRecord) -> str | None:
    """Return why a publication of which nothing is visible must not be finished: its rows are in what is there."""
    if (path := missing_input(fs, location, record)) is not None:
        return f"its input {path} is gone, so something else stands for those rows"
    for directory in record.directories:
        if fs.exists(f"{location}/{directory.name}"):
            return f"{directory.name} already exists"
    cover = next(filter(None, covering_at(fs, location, record)), None)
    return None if cover is None else f"{cover} covers it"


def remove_uncommitted(fs: FileSystem, location: Location, names: Iterable[str]) -> None:
    """Remove directories whose transaction never commits. What cannot be removed the cleaner finds to be aborted."""
    for name in names:
        with suppress(AcidError):
            fs.remove_tree(str(location), name)
