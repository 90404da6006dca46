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
import resource
import stat
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from acidlib.errors import RefusedError, ReplacedError
from acidlib.location import Location, local_location
from acidlib.processes import boot_identity
from acidlib.stores.filesystem import require_below

_PATH = os.O_PATH | os.O_CLOEXEC
_DIRECTORY = _PATH | os.O_DIRECTORY
_RESOLVE = 0x02 | 0x04 | 0x08
"""RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS and RESOLVE_BENEATH."""
_OPENAT2 = 437
"""The number of the call, the same on every kind of processor (Linux, include/uapi/asm-generic/unistd.h)."""


class _OpenHow(ctypes.Structure):
    """The argument of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_SIZE_OF_HOW = ctypes.sizeof(_OpenHow)
_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_OpenHow), ctypes.c_size_t)


class LocalTree:
    """A place on local disks. It opens its directory once, when it is first used, and then keeps that descriptor.

    path      of the place, absolute and normal
    root      the trusted part of the path: the place itself, or a directory above it
    identity  of the directory, see `identity_of`; empty until it is known, at the latest once it is open

    Threads may share it. All work is done in the directory that was opened, wherever it is now; `status` of the place
    itself looks whether its path still names that directory, and raises ReplacedError where it does not.
    """

    __slots__ = ("__weakref__", "_handle", "_lies_in_trusted", "_lock", "_owners", "identity", "path", "root")

    def __init__(self, location: Location) -> None:
        self.path = location.path
        self.root = location.root or location.path
        self.identity = location.identity
        # then each component is trusted but the last one
        self._lies_in_trusted = self.path == self.root or self.path.rpartition("/")[0] == self.root.rstrip("/")
        self._handle: _Descriptor | None = None
        self._lock = threading.Lock()
        self._owners = {os.geteuid()}

    def __reduce__(self) -> tuple[type[LocalTree], tuple[Location]]:
        return LocalTree, (local_location(self.path, root=self.root, identity=self.identity),)

    @property
    def handle(self) -> int:
        """The descriptor of the place, good as long as this object is; an OSError where it cannot be opened."""
        if (known := self._handle) is not None:
            return known.number
        opened = _Descriptor(self._open(self.path, _DIRECTORY))
        self._require_same(status := os.fstat(opened.number))
        with self._lock:
            if self._handle is None:  # else another thread was faster
                self._handle, self.identity = opened, identity_of(status)
            return self._handle.number

    def may_be(self, identity: str) -> bool:
        """Tell whether this is the place of an identity, and take that for its own if none is known of it yet."""
        with self._lock:
            self.identity = self.identity or identity
        return not identity or is_same(self.identity, identity)

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        """Open a file or directory and return its descriptor; a pipe is opened without waiting for its other end.

        OSError as of open(2): ELOOP at a symbolic link.
        """
        if path == self.path:
            return _open_below(self.handle, ".", flags)
        return self._open(path, flags | os.O_NONBLOCK, mode)

    def status(self, path: str) -> os.stat_result:
        """Return the status of a file, directory or symbolic link; OSError as of lstat(2)."""
        if path == self.path and self._lies_in_trusted:
            status = os.lstat(path)  # follows links above it only
        else:
            with self.parent(path) as (parent, name):
                status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if path == self.path and stat.S_ISDIR(status.st_mode):
            self._require_same(status)
        return status

    def parent(self, path: str) -> NameInDirectory:
        """Return the directory in which a path lies, and the path's name there."""
        above, relative, is_new = self._above(path)
        directory, _, name = relative.rpartition("/")
        if not directory:
            return NameInDirectory(above, name, keep=not is_new)
        try:
            return NameInDirectory(_open_below(above, directory, _DIRECTORY), name, keep=False)
        finally:
            if is_new:
                os.close(above)

    @staticmethod
    def beside(path: str, directory: int) -> NameInDirectory:
        """Return what `parent` does of a path in a directory that is open already."""
        above, _, name = path.rpartition("/")
        require_below(above, name)
        return NameInDirectory(directory, name, keep=True)

    def is_ours(self, status: os.stat_result) -> bool:
        """Tell whether a file belongs to this process's user, or to the one whom its new files belong to there."""
        return status.st_uid in self._owners

    def made(self, status: os.stat_result) -> None:
        """Note the status of a file that this process has just made and not closed since.

        A mount may give files to another user than their maker. A status by name would be no proof, as others may have
        exchanged it.
        """
        self._owners.add(status.st_uid)

    def _open(self, path: str, flags: int, mode: int = 0) -> int:
        above, relative, is_new = self._above(path)
        try:
            return _open_below(above, relative, flags, mode)
        finally:
            if is_new:
                os.close(above)

    def _above(self, path: str) -> tuple[int, str, bool]:
        """Return a descriptor to begin at, the path relative to it, and whether it is new, for the caller to close.

        RefusedError for a path of another place.
        """
        if (relative := _below(path, self.path)) is not None:
            return self.handle, relative, False
        if (relative := _below(path, self.root)) is not None:
            return _open_trusted(self.root), relative, True
        if f"{self.root}/".startswith(f"{path.rstrip('/')}/"):  # the root, or a directory above it
            directory, _, name = path.rpartition("/")
            return _open_trusted(directory or "/"), name or ".", True
        raise RefusedError(f"Cannot touch {path}: it does not lie below {self.root}")

    def _require_same(self, status: os.stat_result) -> None:
        """Raise ReplacedError unless a status is that of the directory that this place is known to be."""
        if self.identity and not is_same(self.identity, identity_of(status)):
            raise ReplacedError(
                f"Cannot go on in {self.path}: another directory has that name now than when the place was looked at "
                "before"
            )


class _Descriptor:
    """A descriptor that is closed when nothing holds this object any more.

    A place has no `__del__` of its own: while one runs, a weak reference still gives the object out, and another thread
    would work in a directory that is closed, or in whatever has got its number since.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


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
                _allow_descriptors(len(self._trees))
                tree = self._trees[key] = LocalTree(location)
            return tree


def _allow_descriptors(places: int) -> None:
    """Let this process open as many files as the system allows it, once many places are in use at a time.

    A program may often open 1,024 files only, for the sake of old ones that could not count further (select(2)).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 4 * places > soft and soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def identity_of(status: os.stat_result) -> str:
    """Return a text that tells a directory from every other one that has its path at another time."""
    return f"{boot_identity()}:{status.st_dev}:{status.st_ino}"


def is_same(identity: str, other: str) -> bool:
    """Tell whether two identities are those of the same directory.

    The numbers of devices are given anew by each machine, and when it starts: between two of them inodes alone count.
    """
    start, device, inode = identity.split(":")
    other_start, other_device, other_inode = other.split(":")
    return inode == other_inode and (device == other_device or start != other_start)


def _below(path: str, directory: str) -> str | None:
    """Return a path relative to a directory above it; None where it does not lie below, RefusedError at `..`."""
    length = len(directory) + (directory[-1] != "/")
    if len(path) <= length or not path.startswith(directory) or path[length - 1] != "/":
        return None
    relative = path[length:].rstrip("/")
    require_below(directory, relative)
    return relative


def _open_trusted(path: str) -> int:
    """Open a directory by a path that the operator or a metastore named, and return its descriptor."""
    return os.open(path, _PATH | os.O_DIRECTORY)


def _open_below(above: int, relative: str, flags: int, mode: int = 0) -> int:
    """Open a relative path, at which no component is a symbolic link; return the descriptor."""
    flags |= os.O_CLOEXEC
    if not _knows_openat2():
        return _open_stepwise(above, relative, flags, mode)
    opened = _openat2(above, relative, flags, mode if flags & os.O_CREAT else 0)
    if opened < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), relative)
    return opened


def _openat2(above: int, relative: str, flags: int, mode: int) -> int:
    opened: int = _syscall(_OPENAT2, above, os.fsencode(relative), _how(flags, mode), _SIZE_OF_HOW)
    return opened


@cache
def _how(flags: int, mode: int) -> Any:
    """Return the address of the argument for these flags."""
    # a link at the end is an error, too; the call takes no flag that it would ignore
    ignored = os.O_NOFOLLOW | (os.O_NONBLOCK if flags & os.O_PATH else 0)
    return ctypes.byref(_OpenHow(flags & ~ignored, mode, _RESOLVE))


@cache
def _knows_openat2() -> bool:
    with closing(os.open("/", _PATH | os.O_DIRECTORY)) as root:
        opened = _openat2(root, ".", _PATH | os.O_DIRECTORY, 0)
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
            handle, above = _open_step(handle, part, _DIRECTORY, 0), handle
            os.close(above)
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


class NameInDirectory:
    """For a block, a descriptor of a directory and a name in it.

    keep  the descriptor is that of the place, and stays open
    """

    __slots__ = ("_directory", "_keep", "_name")

    def __init__(self, directory: int, name: str, *, keep: bool) -> None:
        self._directory, self._name, self._keep = directory, name, keep

    def __enter__(self) -> tuple[int, str]:
        return self._directory, self._name

    def __exit__(self, *_: object) -> None:
        if not self._keep:
            os.close(self._directory)
