"""The steps of a compaction that change a place, in any store: its claim, a stage for results, their publication.

A store that can rename a directory atomically publishes by that (`stores.renaming`); a bucket has its own way
(`stores.buckets`). A job that only reads and removes works by `FileSystem` alone.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from acidlib.acid.names import (
    ANY_NAMES,
    METADATA_ACID_FILE,
    ORC_ACID_VERSION_FILE,
    BaseDir,
    has_visibility_suffix,
    parse_directory,
)
from acidlib.arguments import TRASH as TRASH_ARGUMENT
from acidlib.datafiles import DataFiles, SinkFile, SourceFile
from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError
from acidlib.location import Location
from acidlib.memory import Memory
from acidlib.model.uploads import StagedUpload
from acidlib.planning.unfinished import covering
from acidlib.renewal import RENEWER
from acidlib.stores.filesystem import FileSystem, Pace, safe_parts
from acidlib.stores.promises import Promise
from acidlib.waiting import asking, current_piece

CLAIM = "_acidlib_claim"
STAGING_PREFIX = "_tmp_"
STAGING_MARKER = "_acidlib_staging"
ATTEMPTS = "_attempts"
PUBLISH_RECORD = "publish.json"
REVOKED = ".revoked"
TRASH = "_acidlib_trash"
PROBE = "_acidlib_probe"
OUT_OF_SIGHT = "_acidlib_removed."
"""Begins the names of files and directories that are about to be removed."""
NEW = "_acidlib_new."
"""Begins the names of files and directories that are not where they belong yet, in a store that has to make them so."""
UNDONE = "_acidlib_undone."
"""Begins the names of results that were taken back. Readers pass over all of these for their leading underscore."""
ORC_ACID_VERSION = b"2"
"""The content of `_orc_acid_version` in each result. Source: Hive `AcidUtils.OrcAcidVersion`."""
METADATA_ACID = b'{"thisFileVersion":"0","dataFormat":"compacted"}'
"""The content of `_metadata_acid` in a base. Source: Hive `AcidUtils.MetaDataFile`."""

BEAT_SECONDS = 30.0
STALE_SECONDS = 600.0
_LEFT = "a step there had no answer for too long"


class Claim(ABC):
    """A claim that this process holds, renewed until it is released.

    Use it as a context manager. Call `assert_mine` right before anything becomes visible or is deleted.
    """

    beat_seconds = BEAT_SECONDS

    def __init__(self, location: Location, token: str) -> None:
        """Begin to renew: the attributes that `renew` needs must be set before.

        location  the claimed place
        token     a text that tells this claim from all others
        """
        self.location = location
        self.token = token
        self._lock = threading.Lock()
        self._lost: str | None = None
        self._piece = current_piece()
        RENEWER.add(self._beat, self.beat_seconds)

    @abstractmethod
    def renew(self) -> bool:
        """Give the store a sign of life; return False if the claim is no longer ours. One thread at a time calls it."""

    @abstractmethod
    def give_up(self) -> None:
        """Free the claim in the store, unless another run holds it."""

    def assert_mine(self) -> None:
        """Renew the claim; raise `ConflictError` if another run has taken it over or it is gone."""
        with asking("renew the claim of", str(self.location)), self._lock:
            if self._piece is not None and self._piece.given_up is not None:
                self._lost = _LEFT
            if self._lost is None and not self.renew():
                self._lost = "another run has taken it over, or it was removed"
            if self._lost is not None:
                raise ConflictError(
                    f"Cannot go on in {self.location}: our claim on it is lost, {self._lost}; call again"
                )

    def leave(self) -> None:
        """Stop renewing, and ask nothing: the claim goes stale. It does not wait for a renewal that is under way."""
        RENEWER.remove(self._beat)
        self._lost = _LEFT

    def release(self) -> None:
        """Stop renewing and give the claim up, unless it is no longer ours. May be called again."""
        RENEWER.remove(self._beat)
        if self._lost is not None:
            return
        with asking("release the claim of", str(self.location)), self._lock:  # a renewal under way ends before
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
            pass  # the store may be out of reach for a while: the next renewal, or assert_mine, shows a lost claim
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimOwner:
    """The owner of the claim on a place; `start` is in seconds since the epoch, `is_stale`: it counts as dead."""

    owner: str
    token: str
    start: float
    is_stale: bool


def utc_time(seconds: float) -> str:
    """Return seconds since the epoch as a date and time in UTC."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{seconds} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A file that an attempt of a task has made for a staged directory, and that counts.

    path    of the file, as the task created it
    name    of the file in its directory
    length  in bytes
    upload  in a bucket, the upload that becomes the file
    """

    path: str
    name: str
    length: int
    upload: StagedUpload | None = None


class TaskFiles(DataFiles):
    """The data files of one task, and the files it makes for a stage. It may be pickled: open files stay behind.

    memory  that what is decoded of a file may take
    """

    __slots__ = ("memory",)

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def output_path(self, staging: str, directory: str, file: str, attempt: str) -> str:
        """Return where to create one attempt at `directory`/`file`; `attempt` is unique to the task's attempt."""
        return attempt_path(staging, directory, file, attempt)

    def upload(self, path: str) -> StagedUpload | None:  # noqa: ARG002 - for a bucket
        """Return the upload of a file that this task has made at an `output_path`; None where a file is there."""
        return None


def attempt_path(staging: str, directory: str, file: str, attempt: str) -> str:
    """Return the path of a file that a task makes below a staging directory, apart from other attempts at it."""
    return f"{staging}/{ATTEMPTS}/{directory}.{file}.{attempt}"


def require_inside(name: str, length: int, offset: int, size: int) -> None:
    """Raise CorruptError when a range is not all inside the logical length of a file."""
    if offset < 0 or size < 0 or offset + size > length:
        raise CorruptError(f"Cannot read {name}: bytes {offset} to {offset + size} are outside it")


PIECE_BYTES = 4 << 20
"""Bytes that are copied at a time where a file goes through this process."""


def copy_through(sink: SinkFile, source: SourceFile, offset: int, size: int, *, piece: int = PIECE_BYTES) -> None:
    """Append a range of another file to a sink by reads and writes; while a piece is written the next one is read."""
    if size <= piece:
        sink.write(source.read(offset, size))
        return
    end = offset + size
    starts = range(offset, end, piece)
    with ThreadPoolExecutor(1, "acidlib-read") as reading:
        coming = reading.submit(source.read, offset, piece)
        for start in starts[1:]:
            with asking("read", source.name):
                data = coming.result()
            coming = reading.submit(source.read, start, min(piece, end - start))
            sink.write(data)
        with asking("read", source.name):
            data = coming.result()
        sink.write(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedDirectory:
    """A directory to publish under `name`, with the length in bytes of every file that must be in it, and no other."""

    name: str
    files: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationRecord:
    """Directories in the order in which they become visible, and the relative paths of their inputs."""

    directories: tuple[StagedDirectory, ...]
    inputs: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the directories."""
        return tuple(directory.name for directory in self.directories)

    def require_safe(self, where: str) -> None:
        """Raise CorruptError, naming `where` it was read, unless it publishes directories of a place.

        RefusedError for an input that lies elsewhere.
        """
        if not self.directories:
            raise CorruptError(f"Cannot read {where}: it is not a publication record (it names no directory)")
        for name in self.names:
            if len(safe_parts(where, name)) != 1:
                raise CorruptError(f"Cannot read {where}: it publishes {name!r}")
        for path in self.inputs:
            safe_parts(where, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The outcome of a publication; `Stage.discard`, or the next run, reports a stage that could not be removed.

    `kind` is "one rename", "two renames", "completed uploads", or "commit" where that makes it visible.
    """

    directories: tuple[str, ...]
    kind: str


class Stage(ABC):
    """The files that one run has made for one place and no reader sees yet."""

    is_readable: bool
    """Accepted files can be read below `path`, as `directory/file`, before they are published."""

    path: str
    """The directory where tasks write; see `attempt_path`."""

    @abstractmethod
    def accept(self, directory: str, files: Sequence[StagedFile]) -> StagedDirectory:
        """Take these files, and no others, as `directory`. ConflictError for a second one of an accepted name."""

    @abstractmethod
    def publish(
        self,
        directories: Sequence[StagedDirectory],
        *,
        inputs: tuple[str, ...],
        last_check: Callable[[], None],
        has_readers: bool = True,
    ) -> Published:
        """Make one or two directories visible, durably: all of it or nothing, or a later run finishes it.

        inputs       relative paths of the files and directories that they were made from
        last_check   called when all is ready: it raises when the claim is lost or the place has changed
        has_readers  whether a reader may list the place meanwhile

        ConflictError where a name is taken or another run has revoked this one; nothing has changed then.
        UnknownOutcomeError where it cannot be said whether all is visible: the next run finishes it.
        """

    @abstractmethod
    def publish_hidden(self, directories: Sequence[StagedDirectory], *, last_check: Callable[[], None]) -> Published:
        """Publish under names with the suffix of an open transaction: its commit makes them all visible.

        Otherwise as `publish`. Until the commit no reader takes them; a publication that fails half-way is removed.
        """

    def take_back(
        self, directories: tuple[str, ...], *, aside: str, inputs: tuple[str, ...], last_check: Callable[[], None]
    ) -> None:
        """Move published directories to `aside` beside them, in their order, durably: all or none.

        inputs      relative paths of their inputs, which readers read from then on
        last_check  called when all is ready: it raises when the claim is lost or the place has changed

        The stage is empty, and ends with it. ConflictError where a directory is gone, or another run has taken over.
        To be called where `Store.require_taking_back` raises nothing.
        """
        raise NotImplementedError

    @abstractmethod
    def discard(self) -> str | None:
        """Remove the rest, unless it is needed to finish a publication; return why something stays, if it does."""


_NO_TRASH = (
    f"nothing can be moved in a bucket; without {TRASH_ARGUMENT} it is removed, and a bucket with versions keeps it"
)


class Store(ABC):
    """The steps of a compaction that change a place, in one store.

    Steps that need a rename are refused, or left out, where a store has none: there an object that moves is copied.
    """

    fs: FileSystem
    """Reads and removes in this store."""

    shows_at_once: bool
    """A directory of several files becomes visible as a whole."""

    demands_probe = False
    """Places are claimed only where a probe of this store has passed; see `stores.probe`."""

    @abstractmethod
    def claim(self, location: Location, *, owner: str, token: str, now: float) -> Claim:
        """Claim a place for `owner`, a name for people, under a unique token; `now` is for people, too.

        ConflictError naming the holder while its claim is alive; the store's own clock tells how long it has been
        silent. RefusedError for a location that is no directory, CorruptError without one.
        """

    @abstractmethod
    def promises(self) -> tuple[Promise, ...]:
        """Return what publication here relies on, with a trial of each."""

    def make_folder(self, path: str) -> None:  # noqa: B027 - in a bucket the objects below it do
        """Make the directory in which promises are tried; ConflictError where it exists."""

    @abstractmethod
    def overwrite(self, path: str, data: bytes) -> None:
        """Write a small file, in place of one of that name; no other run does so at the same time."""

    @abstractmethod
    def holder(self, location: Location, *, now: float) -> ClaimOwner | None:
        """Return the holder of the claim on a place, alive or not; None without one."""

    @abstractmethod
    def revoke_others(self, location: Location) -> None:
        """Revoke the stages of earlier runs at a place that the caller has claimed: none of them can publish any more.

        The caller has staged nothing yet. A stage with the record of a publication stays, for a run to finish it.
        """

    @abstractmethod
    def stage(self, location: Location, *, unique: str, owner: str, now: float) -> Stage:
        """Begin a stage at a place; `unique` is a text that no other run uses. ConflictError when one has it."""

    def not_obeyed_reason(self, location: Location) -> str | None:  # noqa: ARG002 - for stores with owners
        """Return why a claim or staging directory at a place, of another user, counts for nothing; None without one."""
        return None

    @abstractmethod
    def unfinished(self, location: Location) -> tuple[str, ...]:
        """Return the paths of stages at a place whose publication was begun and not finished."""

    @abstractmethod
    def roll_forward(self, location: Location, *, visible_only: bool = False) -> tuple[str, ...]:
        """Finish or discard them; with `visible_only` those of which readers see a part already.

        Return a line about each, see `rolled_forward`. The caller must hold the claim. Running it again is harmless.
        `CorruptError` where a person has to decide.
        """

    @abstractmethod
    def remove(self, location: Location, relative: str, *, identity: str = "", pace: Pace | None = None) -> None:
        """Remove a file or directory of a place, by its relative path, with the uploads of a staging directory.

        See `FileSystem.remove_tree`.
        """

    def trash(self, location: Location, name: str) -> Callable[[str], str]:  # noqa: ARG002 - for those who rename
        """Return a function that moves a relative path of a place to the trash, and returns where it lies then.

        RefusedError where nothing can be moved. The name is unique; ConflictError where a link or a file has the name
        of the trash, or the path is gone.
        """
        raise RefusedError(f"Cannot move aside in {location}: {_NO_TRASH}")

    def trash_place(self, location: Location) -> str:
        """Return where the trash is, in words; RefusedError as for `trash`. Makes nothing."""
        raise RefusedError(f"Cannot move aside in {location}: {_NO_TRASH}")

    def hide(
        self,
        location: Location,  # noqa: ARG002 - for those who rename, as all of them
        relative: str,  # noqa: ARG002
        unique: str,  # noqa: ARG002
        *,
        identity: str = "",  # noqa: ARG002
    ) -> str | None:
        """Hide a file or directory of a place from readers at once; return its relative path from then on.

        With an `identity` it must be the one that has been measured, else ConflictError, and it is in sight again.
        None, and nothing has changed, where nothing can be renamed. ConflictError when it is gone.
        """
        return None

    def make_durable(self, location: Location) -> None:  # noqa: B027 - where each answer of the store says that it is
        """Make hiding and removing directly in a place outlast a loss of power."""

    def require_taking_back(self, location: Location) -> None:
        """Raise RefusedError where nothing can be renamed, so that a stage takes nothing back."""
        raise RefusedError(
            f"Cannot take a result back in {location}: nothing can be renamed in a bucket: its objects would "
            "go one by one, and the rest of a base still hides its inputs"
        )


def rolled_forward(record: PublicationRecord, outcome: str, reason: str | None = None, left: str | None = None) -> str:
    """Return the line for people about a publication that an earlier run had recorded.

    outcome  "finished" (some of it was still to do), "was published" (only the staging directory was left) or
             "discarded" (it may no longer become visible)
    reason   why it was discarded
    left     why its staging directory could not be removed
    """
    why = "" if reason is None else f": {reason}"
    then = "" if left is None else f"; {left}"
    return f"publication of {', '.join(record.names)} {outcome}{why}{then}"


def marker_files(directory: str) -> dict[str, bytes]:
    """Return the marker files of a result, as Hive's compactor writes them, by their names, with their contents."""
    markers = {ORC_ACID_VERSION_FILE: ORC_ACID_VERSION}
    parsed = parse_directory(directory, ANY_NAMES)
    if isinstance(parsed, BaseDir) and parsed.visibility_txn == 0:
        markers[METADATA_ACID_FILE] = METADATA_ACID
    return markers


def require_suffixes(directories: Iterable[StagedDirectory]) -> None:
    """Raise ValueError unless the names of all directories hide them until a transaction commits."""
    for directory in directories:
        if not has_visibility_suffix(directory.name):
            raise ValueError(f"{directory.name!r} has no visibility suffix")


def refuse_existing(fs: FileSystem, location: Location, directories: Iterable[StagedDirectory]) -> None:
    """Raise ConflictError when a file or directory has the name of a directory to publish."""
    for directory in directories:
        if fs.exists(f"{location}/{directory.name}"):
            raise ConflictError(f"Cannot publish {location}/{directory.name}: it already exists")


def original_staging_name(name: str) -> str:
    """Return the name that a staging directory had when it was made, whether or not it was revoked since."""
    return name.removesuffix(REVOKED)


def missing_input(fs: FileSystem, location: Location, record: PublicationRecord) -> str | None:
    """Return the first input of a publication that is gone."""
    return next((path for path in record.inputs if not fs.exists(f"{location}/{path}")), None)


def covering_at(
    fs: FileSystem, location: Location, record: PublicationRecord, *, uncommitted: bool = False
) -> tuple[str | None, str | None]:
    """Return the base and the delta at a place that make a publication obsolete; see `covering`."""
    entries = fs.list_directory(str(location), missing=ConflictError)
    there = [entry.name for entry in entries if entry.is_directory]
    return covering(there, record.names, record.inputs, uncommitted=uncommitted)


def discard_reason(fs: FileSystem, location: Location, record: PublicationRecord) -> str | None:
    """Return why a publication must not be finished of which nothing is visible; None where it may be.

    With a reason, its rows are in other directories of the place.
    """
    if (path := missing_input(fs, location, record)) is not None:
        return f"its input {path} is gone, so other directories hold those rows"
    for name in record.names:
        if fs.exists(f"{location}/{name}"):
            return f"{name} already exists"
    cover = next(filter(None, covering_at(fs, location, record)), None)
    return None if cover is None else f"{cover} covers it"


def remove_uncommitted(fs: FileSystem, location: Location, names: Iterable[str]) -> None:
    """Remove directories whose transaction never commits. Where that fails, the cleaner finds them to be aborted."""
    for name in names:
        with suppress(AcidError):
            fs.remove_tree(str(location), name)
