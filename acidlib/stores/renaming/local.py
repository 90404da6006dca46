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
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError
from acidlib.memory import DEFAULT_MEMORY, Memory
from acidlib.stores.filesystem import Entry, RenameFileSystem, as_acid_error, beside, raising_acid_errors, safe_parts
from acidlib.stores.store import TaskFiles, require_inside

_COPY_AT_MOST = 1 << 30

AT_ONCE = 64 * 1024
"""Bytes of the smallest read or write: each call of the system costs more than so many bytes do."""

MOST_OPEN = 32
"""Input files that are open at a time. A bucket may have thousands, and a process may often open only 1,024."""


class _OpenSources:
    """The sources that hold a descriptor, the one longest unused first; at most `MOST_OPEN` hold one at a time."""

    __slots__ = ("_sources",)

    def __init__(self) -> None:
        self._sources: OrderedDict[LocalSource, None] = OrderedDict()

    def add(self, source: LocalSource) -> None:
        """Put a source that uses its descriptor now last; release the first one if there are too many."""
        self._sources[source] = None
        self._sources.move_to_end(source)
        if len(self._sources) > MOST_OPEN:
            next(iter(self._sources)).release()

    def remove(self, source: LocalSource) -> None:
        """Drop a source that has no descriptor any more."""
        self._sources.pop(source, None)


class LocalSource:
    """An open local file of a known logical length. A file of at most `AT_ONCE` bytes is read as a whole.

    Of the sources that share `others` at most `MOST_OPEN` hold a descriptor; one that had to give it back opens the
    file again when it is read next, and it has to be the same file then.
    """

    __slots__ = ("_closed", "_descriptor", "_identity", "_others", "_whole", "length", "memory", "name")

    def __init__(
        self, path: str, length: int, others: _OpenSources | None = None, memory: Memory = DEFAULT_MEMORY
    ) -> None:
        self.name = path
        self.length = length
        self.memory = memory
        self._others = others if others is not None else _OpenSources()
        self._closed = False
        self._identity: tuple[int, int] | None = None
        self._descriptor = -1
        self._whole: bytes | None = None
        self._open()

    def _open(self) -> None:
        path, length = self.name, self.length
        with raising_acid_errors("read", path):
            # without blocking: a pipe would wait for its writer
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            status = os.fstat(self._descriptor)
        identity = status.st_dev, status.st_ino
        if not stat.S_ISREG(status.st_mode) or status.st_size < length or self._identity not in (None, identity):
            self.release()
            if self._identity not in (None, identity):
                raise CorruptError(f"Cannot read {path}: another file took its place while it was read")
            if not stat.S_ISREG(status.st_mode):
                raise RefusedError(f"Cannot read {path}: it is not a regular file")
            raise CorruptError(f"Cannot read {path}: it has {status.st_size} bytes and was listed with {length}")
        self._identity = identity
        self._others.add(self)

    @property
    def descriptor(self) -> int:
        """A descriptor for copies inside the kernel, good until another source is used."""
        if self._closed:
            raise ValueError(f"{self.name} is closed")
        if self._descriptor < 0:
            self._open()
        else:
            self._others.add(self)
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
            self._others.remove(self)
            os.close(descriptor)

    def close(self) -> None:
        """Close for good; a second call does nothing."""
        self._closed = True
        self.release()


class LocalSink:
    """A new local file, written from start to end; small pieces are gathered to `AT_ONCE` bytes."""

    __slots__ = ("_descriptor", "_waiting", "name", "position")

    def __init__(self, path: str) -> None:
        self.name = path
        self.position = 0
        self._waiting = bytearray()
        with raising_acid_errors("write", path, missing=ConflictError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(path, flags, 0o666)

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
            with suppress(OSError):
                os.close(descriptor)
        _unlink_quietly(self.name)


def _write_all(handle: int, view: memoryview) -> None:
    while view:
        view = view[os.write(handle, view) :]


class LocalDataFiles(TaskFiles):
    """Local data files, for one task. It may be pickled: open files stay behind."""

    __slots__ = ("_open",)

    def __init__(self, memory: Memory = DEFAULT_MEMORY) -> None:
        super().__init__(memory)
        self._open = _OpenSources()

    def __reduce__(self) -> tuple[type[LocalDataFiles], tuple[Memory]]:
        return LocalDataFiles, (self.memory,)

    def open(self, path: str, length: int) -> LocalSource:
        """Open an input of `length` logical bytes; CorruptError when it is missing or shorter."""
        return LocalSource(path, length, self._open, self.memory)

    def create(self, path: str) -> LocalSink:
        """Create a file in a directory that is there: an attempt that outlived its run must not bring staging back."""
        return LocalSink(path)


_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})
_KINDS = frozenset({stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK})
_NO_LINKS = _UNSUPPORTED | {errno.EPERM, errno.EMLINK}

_SYSTEM_CALL = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
if _SYSTEM_CALL is not None:
    _SYSTEM_CALL.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    _SYSTEM_CALL.restype = ctypes.c_int


class LocalFileSystem(RenameFileSystem):
    """Files of this machine, by absolute path. It holds no state and may be shared and pickled."""

    __slots__ = ()

    def exists(self, path: str) -> bool:
        with raising_acid_errors("look at", path):
            try:
                os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def is_directory(self, path: str) -> bool:
        with raising_acid_errors("look at", path):
            try:
                return stat.S_ISDIR(os.lstat(path).st_mode)
            except (FileNotFoundError, NotADirectoryError):
                return False

    def entry(self, path: str, *, missing: type[AcidError] = CorruptError) -> Entry:
        with raising_acid_errors("look at", path, missing=missing):
            directory, _, name = path.rpartition("/")
            return _entry(directory, name, os.lstat(path))

    def owner(self, path: str) -> str | None:
        """Return the owner's name on this machine; None for a number without a name, as Hive knows no such user."""
        with raising_acid_errors("look at", path):
            number = Path(path).stat().st_uid
        try:
            return pwd.getpwuid(number).pw_name
        except KeyError:
            return None

    def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
        entries = []
        with (
            raising_acid_errors("list", path, missing=missing),
            _opened(path, os.O_RDONLY | os.O_DIRECTORY) as handle,  # not a link that has taken its place since
            os.scandir(handle) as items,
        ):
            for item in items:
                try:
                    entries.append(_entry(path, item.name, item.stat(follow_symlinks=False)))
                except FileNotFoundError as error:  # removed since the directory was read
                    raise ConflictError(f"Cannot list {path}: {item.name} vanished while it was listed") from error
        return tuple(sorted(entries, key=attrgetter("path")))

    def read(self, path: str, *, missing: type[AcidError] = CorruptError) -> bytes:
        with raising_acid_errors("read", path, missing=missing), _opened(path, os.O_RDONLY) as handle:
            parts = []
            while part := os.read(handle, 1 << 20):
                parts.append(part)
            return b"".join(parts)

    def create(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary = beside(path)
        try:
            with raising_acid_errors("write", path):
                with _opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as handle:
                    _write_all(handle, memoryview(data))
                    if durable:
                        os.fsync(handle)
                code = _renameat2(temporary, path)
                if code in _UNSUPPORTED:
                    _link(temporary, path)
                    Path(temporary).unlink()
                elif code:
                    raise OSError(code, os.strerror(code))
        except BaseException:
            _unlink_quietly(temporary)
            raise
        if durable:
            self.sync(path.rpartition("/")[0])

    def make_directory(self, path: str) -> None:
        with raising_acid_errors("create", path):
            Path(path).mkdir()

    def inherit(self, path: str, like: str) -> None:
        with raising_acid_errors("change the rights of", path):
            model = Path(like).stat()
            for entry in self.list_tree(path, enter_hidden=True):
                _inherit(f"{path}/{entry.path}", model, is_directory=entry.is_directory)
            _inherit(path, model, is_directory=True)

    def sync(self, path: str) -> None:
        with raising_acid_errors("write", path), _opened(path, os.O_RDONLY) as handle:
            os.fsync(handle)

    def sync_tree(self, path: str) -> None:
        for entry in self.list_tree(path, enter_hidden=True):
            self.sync(f"{path}/{entry.path}")
        self.sync(path)

    def rename_noreplace(
        self, source: str, target: str, *, missing: type[AcidError] = CorruptError, durable: bool = True
    ) -> None:
        try:
            code = _renameat2(source, target)
            if code in _UNSUPPORTED:
                _rename_without_flag(source, target)
            elif code:
                raise OSError(code, os.strerror(code))
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                raise ConflictError(f"Cannot rename {source} to {target}: {target} already exists") from error
            raise as_acid_error(error, "rename", source, target=target, missing=missing) from error
        if durable:
            for parent in dict.fromkeys((str(Path(target).parent), str(Path(source).parent))):
                self.sync(parent)

    def remove_file(self, path: str, *, missing: type[AcidError] = CorruptError) -> None:
        with raising_acid_errors("remove", path, missing=missing):
            Path(path).unlink()

    def remove_empty_directory(self, path: str) -> bool:
        with raising_acid_errors("remove", path):
            try:
                Path(path).rmdir()
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                    raise
                return False
            return True

    def remove_tree(self, root: str, relative: str) -> None:
        parts = safe_parts(root, relative)
        with (
            raising_acid_errors("remove", f"{root}/{relative}", missing=ConflictError),
            _descended(root, parts[:-1]) as parent,
        ):
            status = os.stat(parts[-1], dir_fd=parent, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                raise RefusedError(f"Cannot remove {root}/{relative}: it is a symbolic link")
            if stat.S_ISDIR(status.st_mode):
                _remove_directory(parts[-1], parent)
            else:
                os.unlink(parts[-1], dir_fd=parent)


def _renameat2(source: str, target: str) -> int:
    """Rename without replacing anything; return 0, or an error's number: ENOSYS without this call."""
    if _SYSTEM_CALL is None:
        return errno.ENOSYS
    failed = _SYSTEM_CALL(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE)
    return ctypes.get_errno() if failed else 0


def _rename_without_flag(source: str, target: str) -> None:
    """Rename where the file system does not know the flag that keeps it from replacing anything.

    The name of a file is reserved by creating it. The name of a directory cannot be, since readers would see it empty;
    but a plain rename fails on a directory that is not empty. It can only replace an empty directory that came after
    the look at the target. No run makes one under the names that are published, and an empty claim is an orphan.
    """
    before = os.lstat(source)
    reserved = not stat.S_ISDIR(before.st_mode)
    if reserved:
        with _opened(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL):
            pass
    elif os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    try:
        Path(source).rename(target)
    except OSError as error:
        if not os.path.lexists(source) and _is_same_file(target, before):
            return  # the server has renamed it: its first answer was lost, and the request was repeated
        if reserved:
            _unlink_quietly(target)
        elif os.path.lexists(target):  # it was created meanwhile; for a file or a link the error is ENOTDIR
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
        raise


def _link(source: str, target: str) -> None:
    """Give a new file of ours a second name, which must not exist, and under which it is whole from the start."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        linked = os.lstat(source)
        if linked.st_nlink < 2 or not _is_same_file(target, linked):  # else as above: the target is our own link
            raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise RetryError(
            f"Cannot create {target}: the file system of {_mount(target)} can neither rename without replacing "
            f"an existing target nor make a hard link ({error.strerror}), and of two runs both would have made it"
        ) from error


def _is_same_file(path: str, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.lstat(path), status)
    except OSError:
        return False


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


def _entry(directory: str, name: str, status: os.stat_result) -> Entry:
    kind = stat.S_IFMT(status.st_mode)
    if kind not in _KINDS:
        raise RefusedError(f"Cannot list {directory}/{name}: it is neither a file nor a directory")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        path = os.fsencode(f"{directory}/{name}")
        raise RefusedError(f"Cannot list {path!r}: that name is not UTF-8") from error
    return Entry(
        path=name,
        is_directory=kind == stat.S_IFDIR,
        is_symlink=kind == stat.S_IFLNK,
        length=status.st_size if kind == stat.S_IFREG else 0,
        modified=status.st_mtime,
    )


class _opened:  # noqa: N801 - used as a function; a generator would take longer than the work in its block
    """Handle of a file or directory, by a path whose last component is no symbolic link."""

    __slots__ = ("_flags", "_handle", "_path")

    def __init__(self, path: str, flags: int) -> None:
        self._path, self._flags = path, flags | os.O_NOFOLLOW | os.O_CLOEXEC

    def __enter__(self) -> int:
        self._handle = os.open(self._path, self._flags, 0o666)
        return self._handle

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)


def _unlink_quietly(path: str) -> None:
    with suppress(OSError):  # the file is hidden, and the first error is the one to report
        Path(path).unlink(missing_ok=True)


@contextmanager
def _descended(root: str, parts: tuple[str, ...]) -> Iterator[int]:
    """Yield a handle on a directory below `root`, reached step by step without following any symbolic link."""
    handle = os.open(root, _DIRECTORY)
    try:
        for part in parts:
            try:
                following = os.open(part, _DIRECTORY, dir_fd=handle)
            except NotADirectoryError as error:  # Linux's answer for a symbolic link to a directory, too
                raise RefusedError(
                    f"Cannot touch {'/'.join((root, *parts))}: {part} is a symbolic link or not a directory"
                ) from error
            os.close(handle)
            handle = following
        yield handle
    finally:
        os.close(handle)


def _remove_directory(name: str, parent: int) -> None:
    """Remove without following any link, as shutil.rmtree does, which looks at each directory four times."""
    handle = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        with os.scandir(handle) as entries:
            children = [(item.name, item.is_dir(follow_symlinks=False)) for item in entries]
        for inner, is_directory in children:
            if is_directory:
                _remove_directory(inner, handle)
            else:
                os.unlink(inner, dir_fd=handle)
    finally:
        os.close(handle)
    os.rmdir(name, dir_fd=parent)


def _inherit(path: str, model: os.stat_result, *, is_directory: bool) -> None:
    mode = stat.S_IMODE(model.st_mode) & (0o7777 if is_directory else 0o666)
    with _opened(path, os.O_RDONLY) as handle:
        status = os.fstat(handle)
        if (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (model.st_uid, model.st_gid, mode):
            return
        for owner, group in ((model.st_uid, model.st_gid), (-1, model.st_gid)):
            with suppress(PermissionError):  # only root gives files away, others may set a group of their own
                os.fchown(handle, owner, group)
                break
        with suppress(PermissionError):
            os.fchmod(handle, mode)
