"""Local disks: data files, and the file system on which every promise of the commit protocol is kept by the kernel.

Renames go through renameat2 with RENAME_NOREPLACE, because a plain rename silently replaces an empty directory and any
file. Many mounts (NFS, most of FUSE) do not know that flag; each rename finds out by trying, and does without it where
it must (see `_rename_without_flag`).
"""

from __future__ import annotations

import ctypes
import errno
import os
import pwd
import re
import stat
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

from cachetools import LRUCache

from acidlib.acid.names import is_hidden
from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError
from acidlib.location import local_location
from acidlib.memory import DEFAULT_MEMORY, Memory
from acidlib.stores.filesystem import (
    MAX_CONTROL_FILE_BYTES,
    MAX_DEPTH,
    NO_REGULAR_FILE,
    TOO_DEEP,
    Entry,
    Pace,
    RenameFileSystem,
    as_acid_error,
    beside,
    raising_acid_errors,
    require_few,
    require_measured,
    require_small,
    safe_parts,
)
from acidlib.stores.renaming.tree import LocalTree, closing, identity_of
from acidlib.stores.store import TaskFiles, require_inside
from acidlib.waiting import answered, asking

THIS_MACHINE = LocalTree(local_location("/"))
"""All local files, where no path may pass through a link."""

_COPY_AT_MOST = 64 << 20
"""Bytes that the kernel copies by one call: on a slow mount a large copy would look like one that is not answered."""

AT_ONCE = 64 * 1024
"""Bytes of the smallest read or write: each call of the system costs more than so many bytes do."""

MAX_OPEN_FILES = 32
"""Input files that are open at a time. A bucket may have thousands, and a process may often open only 1,024."""


class _OpenSources(LRUCache["LocalSource", None]):
    """The sources that hold a descriptor, at most `MAX_OPEN_FILES`: for one more the longest unused is released."""

    def __init__(self) -> None:
        super().__init__(MAX_OPEN_FILES)

    def popitem(self) -> tuple[LocalSource, None]:
        """Release the source that was longest unused."""
        source, _ = super().popitem()
        source.release()
        return source, None


class LocalSource:
    """An open local file of a known logical length. A file of at most `AT_ONCE` bytes is read as a whole.

    Of the sources that share `others` at most `MAX_OPEN_FILES` hold a descriptor; one that had to give it back opens
    the file again when it is read next, and it has to be the same file then.
    """

    __slots__ = ("_closed", "_descriptor", "_identity", "_others", "_tree", "_whole", "length", "memory", "name")

    def __init__(self, tree: LocalTree, path: str, length: int, others: _OpenSources, memory: Memory) -> None:
        self.name = path
        self.length = length
        self.memory = memory
        self._tree = tree
        self._others = others
        self._closed = False
        self._identity: tuple[int, int] | None = None
        self._descriptor = -1
        self._whole: bytes | None = None
        self._open()

    def _open(self) -> None:
        path, length = self.name, self.length
        with raising_acid_errors("read", path):
            self._descriptor = self._tree.open(path, os.O_RDONLY)
            try:
                status = os.fstat(self._descriptor)
            except OSError:
                self.release()
                raise
        identity = status.st_dev, status.st_ino
        if not stat.S_ISREG(status.st_mode) or status.st_size < length or self._identity not in (None, identity):
            self.release()
            if self._identity not in (None, identity):
                raise CorruptError(f"Cannot read {path}: another file took its place while it was read")
            if not stat.S_ISREG(status.st_mode):
                raise RefusedError(f"Cannot read {path}: {NO_REGULAR_FILE}")
            raise CorruptError(f"Cannot read {path}: it has {status.st_size} bytes and was listed with {length}")
        self._identity = identity
        self._others[self] = None

    @property
    def descriptor(self) -> int:
        """A descriptor for copies inside the kernel, good until another source is used."""
        if self._closed:
            raise ValueError(f"{self.name} is closed")
        if self._descriptor < 0:
            self._open()
        else:
            self._others[self] = None
        return self._descriptor

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes at `offset`; CorruptError when they are not all inside the logical length."""
        require_inside(self.name, self.length, offset, size)
        if self.length > AT_ONCE:
            return self._read(offset, size)
        if self._whole is None:
            self._whole = self._read(0, self.length)
        return self._whole[offset : offset + size]

    def _read(self, offset: int, size: int) -> bytes:
        descriptor = self.descriptor
        with raising_acid_errors("read", self.name):
            data = os.pread(descriptor, size, offset)
            while len(data) < size:
                answered()
                more = os.pread(descriptor, size - len(data), offset + len(data))
                if not more:
                    raise CorruptError(f"Cannot read {self.name}: it became shorter while it was read")
                data += more
        return data

    def release(self) -> None:
        """Give back the descriptor until the next read, and the bytes that were read."""
        self._whole = None
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._others.pop(self, None)
            with asking("close", self.name):
                os.close(descriptor)

    def close(self) -> None:
        """Close for good; a second call does nothing."""
        self._closed = True
        self.release()


class LocalSink:
    """A new local file, written from start to end; small pieces are gathered to `AT_ONCE` bytes."""

    __slots__ = ("_descriptor", "_tree", "_waiting", "name", "position")

    def __init__(self, tree: LocalTree, path: str) -> None:
        self.name = path
        self.position = 0
        self._tree = tree
        self._waiting = bytearray()
        with raising_acid_errors("write", path, missing=ConflictError):
            self._descriptor = tree.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)

    def write(self, data: Any) -> None:
        """Append all bytes of a buffer."""
        view = memoryview(data).cast("B")
        self.position += len(view)
        if len(self._waiting) + len(view) <= AT_ONCE:
            self._waiting += view
            return
        self._write_waiting()
        with raising_acid_errors("write", self.name):
            _write_all(self._descriptor, view)

    def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, bytearray()
        with raising_acid_errors("write", self.name):
            _write_all(self._descriptor, memoryview(waiting))

    def copy(self, source: Any, offset: int, size: int) -> None:
        """Append a range of another local file, inside the kernel where it can do that."""
        if not isinstance(source, LocalSource):
            self.write(source.read(offset, size))
            return
        require_inside(source.name, source.length, offset, size)
        self._write_waiting()
        with raising_acid_errors("write", self.name):
            while size:
                count = min(size, _COPY_AT_MOST)
                try:
                    copied = os.copy_file_range(source.descriptor, self._descriptor, count, offset)
                except OSError:
                    # not between these two file systems: a plain copy raises any other error again
                    copied = os.write(self._descriptor, os.pread(source.descriptor, min(count, 1 << 22), offset))
                if copied == 0:
                    raise CorruptError(f"Cannot copy from {source.name}: it became shorter while it was read")
                answered()
                self.position += copied
                offset += copied
                size -= copied

    def close(self, *, durable: bool = True) -> None:
        """Close the file, and with `durable` sync it before."""
        self._write_waiting()
        with raising_acid_errors("write", self.name):
            if durable:
                os.fsync(self._descriptor)
            # closed even where closing fails: the number may be another file's by then
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def abort(self) -> None:
        """Close, if it is open, and remove the file; where that fails it goes with the staging directory."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with suppress(OSError), asking("close", self.name):
                os.close(descriptor)
        _unlink_quietly(self._tree, self.name)


def _write_all(handle: int, view: memoryview) -> None:
    while view:
        view = view[os.write(handle, view) :]
        answered()


class LocalDataFiles(TaskFiles):
    """Local data files of one place, for one task. It may be pickled: open files stay behind."""

    __slots__ = ("_open", "_tree")

    def __init__(self, tree: LocalTree = THIS_MACHINE, memory: Memory = DEFAULT_MEMORY) -> None:
        super().__init__(memory)
        self._tree = tree
        self._open = _OpenSources()

    def __reduce__(self) -> tuple[type[LocalDataFiles], tuple[LocalTree, Memory]]:
        return LocalDataFiles, (self._tree, self.memory)

    def open(self, path: str, length: int) -> LocalSource:
        """Open an input of `length` logical bytes; CorruptError when it is missing or shorter."""
        return LocalSource(self._tree, path, length, self._open, self.memory)

    def create(self, path: str) -> LocalSink:
        """Create a file in a directory that is there: an attempt that outlived its run must not bring staging back."""
        return LocalSink(self._tree, path)


_RENAME_NOREPLACE = 1
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})
_KINDS = frozenset({stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK})
_NO_LINKS = _UNSUPPORTED | {errno.EPERM, errno.EMLINK}

_SYSTEM_CALL = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
if _SYSTEM_CALL is not None:
    _SYSTEM_CALL.argtypes = (
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_uint,
    )
    _SYSTEM_CALL.restype = ctypes.c_int


class LocalFileSystem(RenameFileSystem):
    """Files of one place of this machine, by absolute path. Threads may share it, and it may be pickled."""

    __slots__ = ("_tree",)

    def __init__(self, tree: LocalTree = THIS_MACHINE) -> None:
        self._tree = tree

    def exists(self, path: str) -> bool:
        return self._status_or_none(path) is not None

    def is_directory(self, path: str) -> bool:
        status = self._status_or_none(path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def entry(self, path: str, *, missing: type[AcidError] = CorruptError) -> Entry:
        with raising_acid_errors("look at", path, missing=missing):
            entry = self._entry(path.rpartition("/")[2], self._tree.status(path))
            if entry.problem:
                raise RefusedError(f"Cannot look at {path}: {entry.problem}")
            return entry

    def identity(self, path: str, *, missing: type[AcidError] = CorruptError) -> str:
        with raising_acid_errors("look at", path, missing=missing):
            if path == self._tree.path and self._tree.handle >= 0:
                return self._tree.identity
            return identity_of(self._tree.status(path))

    def names_changed(self, path: str, *, missing: type[AcidError] = CorruptError) -> float:
        if path != self._tree.path:
            return super().names_changed(path, missing=missing)
        with raising_acid_errors("look at", path, missing=missing):
            return os.fstat(self._tree.handle).st_mtime

    def owner(self, path: str) -> str | None:
        """Return the owner's name on this machine; None for a number without a name, as Hive knows no such user."""
        with raising_acid_errors("look at", path):
            number = self._tree.status(path).st_uid
        try:
            return pwd.getpwuid(number).pw_name
        except KeyError:
            return None

    def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
        entries = []
        if path == self._tree.path:
            with raising_acid_errors("list", path, missing=missing):
                self._tree.status(path)  # a place that is not where it was is not listed
        with (
            raising_acid_errors("list", path, missing=missing),
            closing(self._tree.open(path, os.O_RDONLY | os.O_DIRECTORY)) as handle,
            os.scandir(handle) as items,
        ):
            for item in items:
                try:
                    entries.append(self._entry(item.name, item.stat(follow_symlinks=False)))
                except FileNotFoundError as error:  # removed since the directory was read
                    if is_hidden(item.name):
                        continue  # another run's claim or staging, which comes and goes beside what readers see
                    raise ConflictError(f"Cannot list {path}: {item.name} vanished while it was listed") from error
                require_few(path, len(entries))
        return tuple(sorted(entries, key=attrgetter("path")))

    def read(self, path: str, *, missing: type[AcidError] = CorruptError) -> bytes:
        with raising_acid_errors("read", path, missing=missing), closing(self._tree.open(path, os.O_RDONLY)) as handle:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                if stat.S_ISDIR(status.st_mode):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                raise CorruptError(f"Cannot read {path}: {NO_REGULAR_FILE}")
            require_small(path, status.st_size)
            parts, size = [], 0
            while part := os.read(handle, MAX_CONTROL_FILE_BYTES + 1 - size):
                parts.append(part)
                size += len(part)
                require_small(path, size)
            return b"".join(parts)

    def create(self, path: str, data: bytes, *, durable: bool = True) -> None:
        hidden = beside(path).rpartition("/")[2]
        with raising_acid_errors("write", path), self._tree.parent(path) as (parent, name):
            try:
                with closing(os.open(hidden, _NEW_FILE, 0o666, dir_fd=parent)) as handle:
                    self._tree.made(os.fstat(handle))
                    _write_all(handle, memoryview(data))
                    if durable:
                        os.fsync(handle)
                code = _renameat2(parent, hidden, parent, name)
                if code in _UNSUPPORTED:
                    _link(path, parent, hidden, name)
                    os.unlink(hidden, dir_fd=parent)
                elif code:
                    raise OSError(code, os.strerror(code))
            except BaseException:
                with suppress(OSError):  # it is hidden, and the first error is the one to report
                    os.unlink(hidden, dir_fd=parent)
                raise
        if durable:
            self.sync(path.rpartition("/")[0])

    def make_directory(self, path: str) -> None:
        with raising_acid_errors("create", path), self._tree.parent(path) as (parent, name):
            os.mkdir(name, dir_fd=parent)

    def inherit(self, path: str, like: str, *, owner: bool = True) -> None:
        with raising_acid_errors("change the rights of", path):
            with closing(self._tree.open(like, os.O_RDONLY)) as handle:
                model = os.fstat(handle)
            for below in (*(f"{path}/{entry.path}" for entry in self.list_tree(path, enter_hidden=True)), path):
                with closing(self._tree.open(below, os.O_RDONLY)) as handle:
                    self._inherit(handle, model, owner=owner)

    def sync(self, path: str) -> None:
        with raising_acid_errors("write", path), closing(self._tree.open(path, os.O_RDONLY)) as handle:
            os.fsync(handle)

    def sync_tree(self, path: str) -> None:
        for entry in self.list_tree(path, enter_hidden=True):
            self.sync(f"{path}/{entry.path}")
        self.sync(path)

    def rename_noreplace(
        self, source: str, target: str, *, missing: type[AcidError] = CorruptError, durable: bool = True
    ) -> None:
        tree, is_beside = self._tree, source.rpartition("/")[0] == target.rpartition("/")[0]
        try:
            with (
                asking("rename", source),
                tree.parent(source) as (of_source, name),
                tree.beside(target, of_source) if is_beside else tree.parent(target) as (of_target, new),
            ):
                code = _renameat2(of_source, name, of_target, new)
                if code in _UNSUPPORTED:
                    _rename_without_flag(of_source, name, of_target, new)
                elif code:
                    raise OSError(code, os.strerror(code))
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                raise ConflictError(f"Cannot rename {source} to {target}: {target} already exists") from error
            raise as_acid_error(error, "rename", source, target=target, missing=missing) from error
        if durable:
            for parent in dict.fromkeys((target.rpartition("/")[0], source.rpartition("/")[0])):
                self.sync(parent)

    def remove_file(self, path: str, *, missing: type[AcidError] = CorruptError) -> None:
        with raising_acid_errors("remove", path, missing=missing), self._tree.parent(path) as (parent, name):
            os.unlink(name, dir_fd=parent)

    def remove_empty_directory(self, path: str) -> bool:
        with raising_acid_errors("remove", path):
            try:
                with self._tree.parent(path) as (parent, name):
                    os.rmdir(name, dir_fd=parent)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                    raise
                return False
            return True

    def remove_tree(self, root: str, relative: str, *, identity: str = "", pace: Pace | None = None) -> None:
        path = "/".join((root, *safe_parts(root, relative)))
        with (
            raising_acid_errors("remove", path, missing=ConflictError),
            self._tree.parent(path) as (parent, name),
        ):
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                raise RefusedError(f"Cannot remove {path}: it is a symbolic link")
            if not stat.S_ISDIR(status.st_mode):
                require_measured(path, identity, identity_of(status))
                if pace is not None:
                    pace(1)
                os.unlink(name, dir_fd=parent)
                return
            with closing(os.open(name, _DIRECTORY, dir_fd=parent)) as handle:
                require_measured(path, identity, identity_of(os.fstat(handle)))
                _empty(path, handle, pace)
            os.rmdir(name, dir_fd=parent)

    def _status_or_none(self, path: str) -> os.stat_result | None:
        with raising_acid_errors("look at", path):
            try:
                return self._tree.status(path)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def _entry(self, name: str, status: os.stat_result) -> Entry:
        kind, problem = stat.S_IFMT(status.st_mode), ""
        if kind not in _KINDS:
            problem = "it is neither a file nor a directory"
        if not name.isascii():
            try:
                name.encode()
            except UnicodeEncodeError:
                problem = "that name is not UTF-8"
        return Entry(
            path=name,
            is_directory=kind == stat.S_IFDIR,
            is_symlink=kind == stat.S_IFLNK,
            is_ours=self._tree.is_ours(status),
            problem=problem,
            length=status.st_size if kind == stat.S_IFREG else 0,
            modified=status.st_mtime,
        )

    def _inherit(self, handle: int, model: os.stat_result, *, owner: bool) -> None:
        """Change the rights of an open file or directory that this user has made, and of nothing else.

        A file with a second name may be one of another place, to which the writer of this table has made a link.
        """
        status = os.fstat(handle)
        is_directory = stat.S_ISDIR(status.st_mode)
        if not self._tree.is_ours(status) or not (is_directory or status.st_nlink == 1):
            return
        uid = model.st_uid if owner else status.st_uid
        mode = stat.S_IMODE(model.st_mode) & (0o7777 if is_directory else 0o666)
        if (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (uid, model.st_gid, mode):
            return
        for user, group in ((uid, model.st_gid), (-1, model.st_gid)):
            with suppress(PermissionError):  # only root gives files away, others may set a group of their own
                os.fchown(handle, user, group)
                break
        with suppress(PermissionError):
            os.fchmod(handle, mode)


def _renameat2(of_source: int, source: str, of_target: int, target: str) -> int:
    """Rename without replacing anything; return 0, or an error's number: ENOSYS without this call."""
    if _SYSTEM_CALL is None:
        return errno.ENOSYS
    failed = _SYSTEM_CALL(of_source, os.fsencode(source), of_target, os.fsencode(target), _RENAME_NOREPLACE)
    return ctypes.get_errno() if failed else 0


def _rename_without_flag(of_source: int, source: str, of_target: int, target: str) -> None:
    """Rename where the file system does not know the flag that keeps it from replacing anything.

    The name of a file is reserved by creating it. The name of a directory cannot be, since readers would see it empty;
    but a plain rename fails on a directory that is not empty. It can only replace an empty directory that came after
    the look at the target. No run makes one under the names that are published, and an empty claim is an orphan.
    """
    before = os.stat(source, dir_fd=of_source, follow_symlinks=False)
    reserved = not stat.S_ISDIR(before.st_mode)
    if reserved:
        os.close(os.open(target, _NEW_FILE, 0o666, dir_fd=of_target))
    elif _status_of(of_target, target) is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    try:
        os.rename(source, target, src_dir_fd=of_source, dst_dir_fd=of_target)
    except OSError as error:
        after = _status_of(of_target, target)
        if _status_of(of_source, source) is None and after is not None and os.path.samestat(after, before):
            return  # the server has renamed it: its first answer was lost, and the request was repeated
        if reserved:
            with suppress(OSError):  # the first error is the one to report
                os.unlink(target, dir_fd=of_target)
        elif after is not None:  # it was created meanwhile; for a file or a link the error is ENOTDIR
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
        raise


def _link(path: str, directory: int, source: str, target: str) -> None:
    """Give a new file of ours a second name, which must not exist, and under which it is whole from the start."""
    try:
        os.link(source, target, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except FileExistsError:
        linked, there = os.stat(source, dir_fd=directory, follow_symlinks=False), _status_of(directory, target)
        # else as above: the target is our own link
        if linked.st_nlink < 2 or there is None or not os.path.samestat(there, linked):
            raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise RetryError(
            f"Cannot create {path}: the file system of {_mount(path)} can neither rename without replacing "
            f"an existing target nor make a hard link ({error.strerror}), and of two runs both would have made it"
        ) from error


def _status_of(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return None


def _mount(path: str) -> str:
    """Return the mount point that a path lies below and the kind of its file system, for people."""
    mount, kind = "/", "of a kind that is not known"
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            mounted, _, about = line.partition(" - ")
            point = re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), mounted.split()[4])
            if len(point) >= len(mount) and f"{path}/".startswith(f"{point.rstrip('/')}/"):
                mount, kind = point, about.split()[0]
    return f"{mount} ({kind})"


def _unlink_quietly(tree: LocalTree, path: str) -> None:
    with suppress(OSError, AcidError), asking("remove", path), tree.parent(path) as (parent, name):
        os.unlink(name, dir_fd=parent)  # it is hidden, and the first error is the one to report


def _empty(path: str, directory: int, pace: Pace | None) -> None:
    """Remove all that an open directory holds, without following any link; RefusedError where it is too deep.

    shutil.rmtree would look at each directory four times, and call itself for each level.
    """
    # the directories that are open, their names, and those yet to remove
    below: list[tuple[int, str, list[str]]] = [(directory, "", [])]
    try:
        while True:
            below[-1][2].extend(_remove_files(below[-1][0], pace))
            while not below[-1][2]:
                handle, name, _ = below.pop()
                if not below:
                    return
                os.close(handle)
                os.rmdir(name, dir_fd=below[-1][0])
            if len(below) > MAX_DEPTH:
                raise RefusedError(f"Cannot remove {path}: {TOO_DEEP}")
            name = below[-1][2].pop()
            below.append((os.open(name, _DIRECTORY, dir_fd=below[-1][0]), name, []))
    finally:
        for handle, _, _ in below[1:]:
            os.close(handle)


def _remove_files(directory: int, pace: Pace | None) -> list[str]:
    """Remove all files and links in an open directory; return the names of the directories in it."""
    with os.scandir(directory) as items:
        children = [(item.name, item.is_dir(follow_symlinks=False)) for item in items]
    for name, is_directory in children:
        if not is_directory:
            if pace is not None:
                pace(1)
            os.unlink(name, dir_fd=directory)
            answered()
    return [name for name, is_directory in children if is_directory]
