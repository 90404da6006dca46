"""File systems behind one small interface.

All access to a table's files goes through `FileSystem`, which every store has. Publication and claims by renames need
more of it, `RenameFileSystem`: renames that are atomic and fail on an existing target, files that are created whole and
by one of several creators only, a removal of directories that spares one that is no longer empty, and synced data that
survive a loss of power. To a store without these, results must be published in another way, or not at all.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import re
import stat
import time
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from acidlib.acid.names import METADATA_ACID_FILE
from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError
from acidlib.waiting import asking

MAX_CONTROL_FILE_BYTES = 8 << 20
"""Bytes of the largest control file: a record, a claim, a marker, or the side file of a stream."""

MAX_DEPTH = 64
"""Directories below one another in a place. Hive makes a few."""

MAX_ENTRIES = 1_000_000
"""Files and directories in a place. A listing takes up to two kilobytes of memory for each."""

TOO_DEEP = f"more than {MAX_DEPTH} directories lie below one another there, which no table has"
NO_REGULAR_FILE = "it is not a regular file"


class Entry(NamedTuple):
    """A file, directory or symbolic link, as a listing or a look at it shows it.

    path      relative to the listed directory, with forward slashes
    is_ours   the user of this process owns it; true of everything in a store without owners
    problem   why it can be no part of a table: it is a pipe, say, or its name is not UTF-8; empty for what can
    length    in bytes
    modified  in seconds since the epoch

    A tuple, as there may be hundreds of thousands, and a frozen dataclass takes several times as long to make.
    """

    path: str
    is_directory: bool
    length: int
    modified: float
    is_symlink: bool = False
    is_ours: bool = True
    problem: str = ""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


Pace = Callable[[int], None]
"""Waits until so many files more may be removed."""


class FileSystem(Protocol):
    """Reading and removing, on any store; paths are absolute local ones, or whole URIs.

    Every failure is an `AcidError`: no space, no permission and input/output errors are `RetryError`; a path that is
    missing is `missing` where the method takes it (default `CorruptError`); an existing target is `ConflictError`;
    a symbolic link where none may be followed is `RefusedError`.
    """

    def exists(self, path: str) -> bool:
        """Tell whether a file, directory or symbolic link has this name; a dangling link does."""

    def is_directory(self, path: str) -> bool:
        """Tell whether the path is a directory itself, not a symbolic link to one."""

    def entry(self, path: str, *, missing: type[AcidError] = CorruptError) -> Entry:
        """Return the kind, length and time of a path; a symbolic link is not followed."""

    def identity(
        self,
        path: str,  # noqa: ARG002 - for a store in which links lead from place to place
        *,
        missing: type[AcidError] = CorruptError,  # noqa: ARG002
    ) -> str:
        """Return a text that tells a directory from another one of that name; empty where the store has none."""
        return ""

    def names_changed(self, path: str, *, missing: type[AcidError] = CorruptError) -> float:
        """Return the time at which a name in a directory last came or went, in seconds since the epoch.

        0 where the store does not keep that; then it is not asked, and a missing directory raises nothing.
        """

    def names_renamed(self, path: str, *, missing: type[AcidError] = CorruptError) -> float:
        """Return the time of the last rename in a directory; 0 where the store does not keep that."""
        return self.names_changed(path, missing=missing)

    def owner(self, path: str) -> str | None:
        """Return the name of the user who owns the path; None when the file system does not know it."""

    def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
        """Return the entries of one directory, sorted by name; `RefusedError` for more than `MAX_ENTRIES`."""

    def list_tree(self, path: str, *, enter_hidden: bool, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
        """Return everything below a directory, sorted by path.

        Without `enter_hidden`, hidden directories below the root (a leading `_` or `.`) are named but not entered and
        hidden symbolic links and pipes are left out, but for `_metadata_acid`: overlooked it would make a compacted
        base an overwrite. Any other one is refused, and so are more than `MAX_DEPTH` directories below one another and
        more than `MAX_ENTRIES` names. A directory that vanishes meanwhile raises `ConflictError`.
        """

    def tree_at_once(self, path: str) -> tuple[Entry, ...] | None:  # noqa: ARG002 - for a store without links
        """Return everything below a directory where one listing tells that it is one, and no link; else None."""
        return None

    def read(self, path: str, *, missing: type[AcidError] = CorruptError) -> bytes:
        """Return the whole contents of a control file; `CorruptError` unless it is a regular and a small one."""

    def remove_tree(self, root: str, relative: str, *, identity: str = "", pace: Pace | None = None) -> None:
        """Remove a file or directory below `root` with all it holds; symbolic links are never followed.

        pace  is called before each removal of files, with their number; it waits, or raises an error that ends it

        With an `identity` it must be the one that has been measured, else `ConflictError`. `relative` must stay below
        `root` and pass through no symbolic link, else `RefusedError`. A path that is already gone raises
        `ConflictError`. A loss of power may bring some of it back.
        """


class RenameFileSystem(FileSystem):
    """A file system that publication and claims by renames can rest on; failures are those of `FileSystem`.

    Every change in a directory (a name that comes, goes or changes) moves its time of modification, by one clock for
    all who use the file system; where `names_renamed` is 0, `show_life` moves that of a file.
    """

    __slots__ = ()

    def names_changed(self, path: str, *, missing: type[AcidError] = CorruptError) -> float:
        return self.entry(path, missing=missing).modified

    def list_tree(self, path: str, *, enter_hidden: bool, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
        entries: list[Entry] = []
        waiting = [""]
        while waiting:
            prefix = waiting.pop()
            absent = ConflictError if prefix else missing
            for entry in self.list_directory(f"{path}/{prefix}".rstrip("/") or "/", missing=absent):
                hidden = not enter_hidden and entry.path.startswith(("_", ".")) and entry.path != METADATA_ACID_FILE
                if entry.is_symlink:
                    if hidden:
                        continue
                    raise RefusedError(
                        f"Cannot list {path}: {prefix}{entry.path} is a symbolic link, and its target is not part "
                        "of the table; have a metastore name the target, or remove the link"
                    )
                if entry.problem:
                    if hidden:
                        continue
                    raise RefusedError(f"Cannot list {path}/{prefix}{entry.path!r}: {entry.problem}")
                below, is_directory = prefix + entry.path, entry.is_directory
                entries.append(entry if not prefix else entry._replace(path=below))
                if is_directory and not hidden:
                    if below.count("/") >= MAX_DEPTH:
                        raise RefusedError(f"Cannot list {path}: {TOO_DEEP}")
                    waiting.append(f"{below}/")
            require_few(path, len(entries))
        return tuple(sorted(entries, key=lambda entry: entry.path))

    def remove_files(self, path: str, pace: Pace) -> None:
        """Remove the files of a directory and of all below it, each at a pace; directories stay.

        Of what is no directory nothing is removed.
        """
        if not self.is_directory(path):
            return
        for entry in self.list_tree(path, enter_hidden=True, missing=ConflictError):
            if not entry.is_directory:
                pace(1)
                self.remove_file(f"{path}/{entry.path}", missing=ConflictError)

    @abstractmethod
    def create(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Create a file whole and exclusively: an existing one raises `ConflictError` and stays.

        Durably, unless its directory is synced later on, or it need not outlast a loss of power.
        """

    @abstractmethod
    def make_directory(self, path: str) -> None:
        """Create one directory; an existing name raises `ConflictError`, a missing parent `CorruptError`."""

    def show_life(self, path: str) -> None:
        """Move the time of a file where a rename beside it moves none; ConflictError without one."""

    @abstractmethod
    def inherit(self, path: str, like: str, *, owner: bool = True) -> None:
        """Give a file or directory, and all below it, the owner, group and mode of the directory `like`.

        As far as this process is allowed to and the file system supports it; files do not become executable. Without
        `owner` they stay this user's. Only files and directories of this user are changed.
        """

    @abstractmethod
    def sync(self, path: str) -> None:
        """Make the contents of a file, or the names in a directory, durable."""

    @abstractmethod
    def sync_tree(self, path: str) -> None:
        """Make everything below a directory, and the directory itself, durable."""

    @abstractmethod
    def rename_noreplace(
        self, source: str, target: str, *, missing: type[AcidError] = CorruptError, durable: bool = True
    ) -> None:
        """Rename a file or directory atomically and durably; an existing target raises `ConflictError`.

        Without `durable` a loss of power may undo it, until the directories of both names are synced. An empty
        directory that is made as the target in this very moment may be replaced; nothing else ever is. On a remote
        store the rename may have happened although `RetryError` is raised; never when `ConflictError` is.
        """

    @abstractmethod
    def remove_file(self, path: str, *, missing: type[AcidError] = CorruptError) -> None:
        """Remove one file or symbolic link; never a directory that holds something."""

    @abstractmethod
    def remove_empty_directory(self, path: str) -> bool:
        """Remove a directory only if it is empty, atomically; return whether it went. False if it is missing, too."""


def try_to_rename(
    fs: RenameFileSystem, source: str, target: str, *, proof: str | None = None, durable: bool = True
) -> bool:
    """Rename where an answer may be lost; return False when the source is gone, or the target exists.

    After an error it counts as done if the source is gone and `proof` is there, by default the target: so no other run
    may make that. Then a durable rename is made durable once more.
    """
    try:
        fs.rename_noreplace(source, target, missing=ConflictError, durable=durable)
    except AcidError as error:
        if not fs.exists(source) and fs.exists(proof or target):
            if durable:
                fs.sync(target.rpartition("/")[0])
            return True
        if isinstance(error, ConflictError):
            return False
        raise
    return True


_NOT_BELOW = re.compile(r"(?:\A|/)\.{0,2}(?:/|\Z)|\0")
"""In a path: a part that is empty, `.` or `..`; or a character that ends a path."""


def require_below(root: str, relative: str) -> None:
    """Raise RefusedError for a relative path that does not lie strictly below `root`, or is not normal."""
    # nearly all are told by the cheap half
    may_not_be = not relative or relative[0] in "./" or relative[-1] == "/" or "/." in relative or "//" in relative
    if (may_not_be or "\0" in relative) and _NOT_BELOW.search(relative):
        raise RefusedError(f"Cannot touch {relative!r}: it does not name a path below {root}")


def safe_parts(root: str, relative: str) -> tuple[str, ...]:
    """Return the components of a path that must lie strictly below `root`; anything else raises `RefusedError`."""
    require_below(root, relative)
    return tuple(relative.split("/"))


def require_small(path: str, size: int) -> None:
    """Raise CorruptError for a control file of more bytes than one can have."""
    if size > MAX_CONTROL_FILE_BYTES:
        raise CorruptError(
            f"Cannot read {path}: it has more than {MAX_CONTROL_FILE_BYTES} bytes, the most that such a file can have"
        )


def require_few(path: str, count: int) -> None:
    """Raise RefusedError for more files and directories than are listed; to call before there are many more."""
    if count > MAX_ENTRIES:
        raise RefusedError(
            f"Cannot list {path}: more than {MAX_ENTRIES:,} files and directories lie there, the most that are listed"
        )


def require_measured(path: str, measured: str, now: str) -> None:
    """Raise ConflictError unless a path to remove has the identity that was measured, if one was."""
    if measured and measured != now:
        raise ConflictError(
            f"Cannot remove {path}: another file or directory has taken its name since it was looked at"
        )


def beside(path: str) -> str:
    """Return a hidden name in the same directory that no other run has."""
    directory, _, name = path.rpartition("/")
    hidden = name if name.startswith(("_", ".")) else f"_{name}"
    return f"{directory}/{hidden}.{uuid.uuid4().hex}.tmp"


_ABSENT = {
    errno.ENOENT: "there is no such file or directory",
    errno.ENOTDIR: "it is not a directory",
    errno.EISDIR: "it is a directory",
}
_FAILURES: dict[int, tuple[type[AcidError], str]] = {
    **dict.fromkeys((errno.EEXIST, errno.ENOTEMPTY), (ConflictError, "it already exists")),
    **dict.fromkeys(
        (errno.ENOSPC, errno.EDQUOT), (RetryError, "no space is left on the device, or the quota is used up")
    ),
    errno.ELOOP: (RefusedError, "it is, or passes through, a symbolic link"),
    errno.EROFS: (RetryError, "the file system is read-only"),
}
"""Errors of the operating system, by their numbers."""
_RIGHTS = {"r": "read", "w": "write", "x": "enter"}
_MODES = {"r": os.R_OK, "w": os.W_OK, "x": os.X_OK}


def as_acid_error(
    error: OSError, action: str, path: str, *, target: str = "", missing: type[AcidError] = CorruptError
) -> AcidError:
    """Return the error to raise for a failed `action` ("write", "list") on `path`, or of `path` to `target`.

    Missing paths become `missing`, existing targets `ConflictError`, symbolic links and impossible names
    `RefusedError`, everything that may pass (space, permission, input/output) `RetryError`.
    """
    cannot = f"Cannot {action} {path}" + (f" to {target}" if target else "")
    code = error.errno
    if code in _ABSENT:
        return missing(f"{cannot}: {_ABSENT[code]}")
    if code in _FAILURES:
        kind, why = _FAILURES[code]
        return kind(f"{cannot}: {why}")
    if code in (errno.ENAMETOOLONG, errno.EILSEQ):
        return RefusedError(f"{cannot}: the file system does not take that name ({os.strerror(code)})")
    if code in (errno.EACCES, errno.EPERM):
        refusal = f"the operating system said to user {_name_of_user(os.geteuid())}: {os.strerror(code)}"
        return permission_missing(cannot, _missing_right(action, path, target) or refusal)
    return RetryError(f"{cannot}: the operating system said: {error.strerror or error}")


def permission_missing(cannot: str, why: str) -> AcidError:
    """Return the error for a denied action ("Cannot list /t"); `why` names the user, the right and the path."""
    return RetryError(f"{cannot}: the permission is missing: {why}")


def needs(user: str, rights: str, path: str, *, mode: str, owner: str) -> str:
    """Return that a user needs rights (of "rwx") on a path of this mode ("drwxr-x---") and owner ("etl:hive")."""
    words = " and ".join(_RIGHTS[right] for right in rights)
    return f"user {user} needs the right to {words} ({rights}) on {path}, which is {mode} of {owner}"


def _missing_right(action: str, path: str, target: str) -> str | None:
    """Return the right that the user of this process lacks, and on which path, as far as can be seen afterwards."""
    with suppress(OSError):
        for needed, rights in _needed_rights(action, path, target):
            lacking = "".join(right for right in rights if not os.access(needed, _MODES[right], effective_ids=True))
            if lacking:
                status = os.lstat(needed)
                try:
                    group = grp.getgrgid(status.st_gid).gr_name
                except KeyError:
                    group = str(status.st_gid)
                owner = f"{_name_of_user(status.st_uid)}:{group}"
                user, mode = _name_of_user(os.geteuid()), stat.filemode(status.st_mode)
                return needs(user, lacking, needed, mode=mode, owner=owner)
    return None


def _needed_rights(action: str, path: str, target: str) -> Iterator[tuple[str, str]]:
    """Yield the paths that an action goes through, or changes, from the outermost on, with the rights that it takes."""
    paths = [Path(text) for text in (path, target) if text]
    for changed in paths:
        yield from ((str(directory), "x") for directory in reversed(changed.parents))
    if action.startswith(("read", "list")):
        yield path, "rx" if paths[0].is_dir() else "r"
        return
    if action in ("write", "create", "rename", "remove"):
        yield from ((str(changed.parent), "wx") for changed in paths)
    if action == "write" and paths[0].is_file():
        yield path, "w"
    if action == "remove" and paths[0].is_dir():
        yield path, "rwx"


def _name_of_user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


class raising_acid_errors(asking):  # noqa: N801 - used as a function, as `asking` is
    """Guard of a block that asks a file system; an `OSError` in it is raised as the error `as_acid_error` names."""

    __slots__ = ("_missing",)

    def __init__(self, action: str, path: str, *, missing: type[AcidError] = CorruptError) -> None:
        self._action, self._path, self._missing = action, path, missing

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if isinstance(error, OSError):
                raise as_acid_error(error, self._action, self._path, missing=self._missing) from error
        finally:
            super().__exit__(kind, error, trace)


UNREACHABLE_SECONDS = 60.0
"""The time for which a run sends a server nothing after a wait in vain: waits that are as long take half of a run."""


class UnreachableServers:
    """The servers that one run has waited for in vain; threads share it.

    A run waits for each of them once, and not at every place that lies there: later requests fail at once, with the
    reason of the first. Pickled it knows of none: a task waits for itself.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is in seconds, from any beginning."""
        self._clock = clock
        self._noted: dict[str, tuple[float, str]] = {}

    def __reduce__(self) -> tuple[type[UnreachableServers], tuple[()]]:
        return UnreachableServers, ()

    def note(self, server: str, reason: str) -> None:
        """Note that a server has just been waited for in vain; what is known already is not renewed."""
        if self.reason(server) is None:
            self._noted[server] = self._clock() + UNREACHABLE_SECONDS, reason

    def reason(self, server: str) -> str | None:
        """Return why a server must not be asked now; None when it may be."""
        until, reason = self._noted.get(server, (0.0, ""))
        return reason if reason and self._clock() < until else None
