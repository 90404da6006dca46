"""A directory of this machine and all below it, reached by descriptors: no component of a path below it follows a link.

Every user who may write to a table can exchange a directory of it with a symbolic link at any moment, so a path that
was looked at says nothing of the file that it names a moment later. Nothing else in this library opens a path of a
table on local disks.

The part of a path that the operator or a metastore names is trusted, links included: it ends at the `root`, which is
the table, or the warehouse in which tables were found. The kernel resolves the rest relative to a descriptor and fails
at a link (openat2 with RESOLVE_NO_SYMLINKS and RESOLVE_BENEATH, Linux 5.6); on an older kernel, or where a container
forbids the call, each component is opened by itself.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from acidlib.errors import RefusedError, ReplacedError
from acidlib.model.location import Location, local_location
from acidlib.processes import boot

_PATH = os.O_PATH | os.O_CLOEXEC
_DIRECTORY = _PATH | os.O_DIRECTORY
_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x02, 0x04, 0x08
_OPENAT2 = 437
"""The number of the call, the same on every kind of processor (Linux, include/uapi/asm-generic/unistd.h)."""


class _OpenHow(ctypes.Structure):
    """The argument of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long


class LocalTree:
    """A place on local disks. It opens its directory once, when it is first used, and then keeps that descriptor.

    path      of the place, absolute and normal
    root      the trusted part of the path: the place itself, or a directory above it
    identity  of the directory, see `identity_of`; empty where it is not known yet

    Threads may share it. All work is done in the directory that was opened, wherever it is now; `status` of the place
    itself looks whether its path still names that directory, and raises ReplacedError where it does not.
    """

    __slots__ = ("__weakref__", "_handle", "_lock", "_owners", "identity", "path", "root")

    def __init__(self, location: Location) -> None:
        self.path = location.path
        self.root = location.root or location.path
        self.identity = location.identity
        self._handle = -1
        self._lock = threading.Lock()
        self._owners = {os.geteuid()}

    def __reduce__(self) -> tuple[type[LocalTree], tuple[Location]]:
        return LocalTree, (local_location(self.path, root=self.root, identity=self.identity),)

    def __del__(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)

    @property
    def handle(self) -> int:
        """The descriptor of the place, good as long as this object is; an OSError where it cannot be opened."""
        with self._lock:
            if self._handle >= 0:
                return self._handle
        with self._above(self.path) as (above, relative):
            opened = _open_below(above, relative, _DIRECTORY)
        try:
            self._require_same(os.fstat(opened))
        except BaseException:
            os.close(opened)
            raise
        with self._lock:
            if self._handle < 0:
                self._handle = opened
                return opened
        os.close(opened)  # another thread was faster
        return self.handle

    def may_be(self, identity: str) -> bool:
        """Tell whether this is the place of an identity, and take that for its own if none is known of it yet."""
        with self._lock:
            if self._handle >= 0:
                known = identity_of(os.fstat(self._handle))
            else:
                known = self.identity = self.identity or identity
        return not identity or is_same(known, identity)

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        """Open a file or directory and return its descriptor; a pipe is opened without waiting for its other end.

        OSError as of open(2): ELOOP at a symbolic link.
        """
        if path == self.path:
            return _open_below(self.handle, ".", flags)
        with self._above(path) as (above, relative):
            return _open_below(above, relative, flags | os.O_NONBLOCK, mode)

    def status(self, path: str) -> os.stat_result:
        """Return the status of a file, directory or symbolic link; OSError as of lstat(2)."""
        with self.parent(path) as (parent, name):
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if path == self.path and stat.S_ISDIR(status.st_mode):
            self._require_same(status)
        return status

    @contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        """Yield a descriptor of the directory in which a path lies, and the path's name there."""
        with self._above(path) as (above, relative):
            directory, _, name = relative.rpartition("/")
            if not directory:
                yield above, name
                return
            with closing(_open_below(above, directory, _DIRECTORY)) as parent:
                yield parent, name

    def is_ours(self, status: os.stat_result) -> bool:
        """Tell whether a file belongs to this process's user, or to the one whom its new files belong to there."""
        return status.st_uid in self._owners

    def made(self, status: os.stat_result) -> None:
        """Note the status of a file that this process has just made and not closed since.

        A mount may give files to another user than their maker. A status by name would be no proof, as others may have
        exchanged it.
        """
        self._owners.add(status.st_uid)

    @contextmanager
    def _above(self, path: str) -> Iterator[tuple[int, str]]:
        """Yield a descriptor to begin at, and the path relative to it; RefusedError for a path of another place."""
        if (relative := _below(path, self.path)) is not None:
            yield self.handle, relative
        elif (relative := _below(path, self.root)) is not None:
            with closing(_open_trusted(self.root)) as root:
                yield root, relative
        elif f"{self.root}/".startswith(f"{path.rstrip('/')}/"):  # the root, or a directory above it
            directory, _, name = path.rpartition("/")
            with closing(_open_trusted(directory or "/")) as above:
                yield above, name or "."
        else:
            raise RefusedError(f"Cannot touch {path}: it does not lie below {self.root}")

    def _require_same(self, status: os.stat_result) -> None:
        """Raise ReplacedError unless a status is that of the directory that this place is known to be."""
        known = self.identity
        with self._lock:
            if self._handle >= 0:
                known = identity_of(os.fstat(self._handle))
        if known and not is_same(known, identity_of(status)):
            raise ReplacedError(
                f"Cannot go on in {self.path}: another directory has that name now than when the place was looked at "
                "before"
            )


class OpenTrees:
    """The places that are in use in this process: as long as one is held, all work there goes through one descriptor.

    Pickled it has none: another process opens its own.
    """

    def __init__(self) -> None:
        self._trees: weakref.WeakValueDictionary[tuple[str, str], LocalTree] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[OpenTrees], tuple[()]]:
        return OpenTrees, ()

    def of(self, location: Location) -> LocalTree:
        """Return the place at a location, opened or not."""
        key = location.path, location.root
        with self._lock:
            tree = self._trees.get(key)
            if tree is None or not tree.may_be(location.identity):
                tree = self._trees[key] = LocalTree(location)
            return tree


def identity_of(status: os.stat_result) -> str:
    """Return a text that tells a directory from every other one that has its path at another time."""
    return f"{boot()}:{status.st_dev}:{status.st_ino}"


def is_same(identity: str, other: str) -> bool:
    """Tell whether two identities are those of the same directory.

    The numbers of devices are given anew by each machine, and when it starts: between two of them inodes alone count.
    """
    start, device, inode = identity.split(":")
    other_start, other_device, other_inode = other.split(":")
    return inode == other_inode and (device == other_device or start != other_start)


def _below(path: str, directory: str) -> str | None:
    """Return a path relative to a directory above it; None where it does not lie below, RefusedError at `..`."""
    prefix = directory if directory.endswith("/") else f"{directory}/"
    if path == directory or not path.startswith(prefix):
        return None
    relative = path[len(prefix) :].rstrip("/")
    parts = relative.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise RefusedError(f"Cannot touch {path!r}: it does not name a path below {directory}")
    return relative


def _open_trusted(path: str) -> int:
    """Open a directory by a path that the operator or a metastore named, and return its descriptor."""
    return os.open(path, _PATH | os.O_DIRECTORY)


def _open_below(above: int, relative: str, flags: int, mode: int = 0) -> int:
    """Open a relative path, at which no component is a symbolic link; return the descriptor."""
    flags |= os.O_CLOEXEC
    if not _knows_openat2():
        return _open_stepwise(above, relative, flags, mode)
    resolve = _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS
    opened = _openat2(above, relative, flags, mode if flags & os.O_CREAT else 0, resolve)
    if opened < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), relative)
    return opened


def _openat2(above: int, relative: str, flags: int, mode: int, resolve: int) -> int:
    # a link at the end is an error, too; the call takes no flag that it would ignore
    ignored = os.O_NOFOLLOW | (os.O_NONBLOCK if flags & os.O_PATH else 0)
    how = _OpenHow(flags & ~ignored, mode, resolve)
    return int(
        _syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(above),
            ctypes.c_char_p(os.fsencode(relative)),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
    )


@cache
def _knows_openat2() -> bool:
    with closing(os.open("/", _PATH | os.O_DIRECTORY)) as root:
        opened = _openat2(root, ".", _PATH | os.O_DIRECTORY, 0, _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS)
    if opened >= 0:
        os.close(opened)
    return opened >= 0


def _open_stepwise(above: int, relative: str, flags: int, mode: int) -> int:
    *parts, name = relative.split("/")
    with _descended(above, parts) as parent:
        return _open_step(parent, name, flags, mode)


@contextmanager
def _descended(above: int, parts: list[str]) -> Iterator[int]:
    handle = os.dup(above)
    try:
        for part in parts:
            following = _open_step(handle, part, _DIRECTORY, 0)
            os.close(handle)
            handle = following
        yield handle
    finally:
        os.close(handle)


def _open_step(above: int, name: str, flags: int, mode: int) -> int:
    """Open a name in a directory; ELOOP at a symbolic link, where Linux may say ENOTDIR, or open the link itself."""
    try:
        opened = os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=above)
    except NotADirectoryError:
        if not stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
            raise
    else:
        if not (flags & os.O_PATH and stat.S_ISLNK(os.fstat(opened).st_mode)):
            return opened
        os.close(opened)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)


class closing:  # noqa: N801 - used as a function; a generator would take longer than the work in its block
    """A descriptor that is closed at the end of a block."""

    __slots__ = ("_handle",)

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __enter__(self) -> int:
        return self._handle

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)
