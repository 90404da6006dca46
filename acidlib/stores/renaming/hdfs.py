"""HDFS: data files, and the file system and store to which tables are published by renames."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from hdfs_native import Client, FileStatus, TrashNotEnabledError

from acidlib.datafiles import SourceFile
from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.model.location import Location
from acidlib.stores.filesystem import Entry, TreeEntry, safe_parts, walk_tree
from acidlib.stores.removing import Trash
from acidlib.stores.renaming.hdfs_client import (
    FINAL,
    Configuration,
    NameSpace,
    NotAskedError,
    answered,
    as_acid_error,
    client,
    frozen,
    is_of_data,
    is_taken,
    is_to_be_repeated,
    java_class,
    new_mode,
    raising_acid_errors,
    refuse_unfinished,
    says,
    was_not_sent,
    write_options,
)
from acidlib.stores.renaming.publishing import AttemptFiles
from acidlib.stores.renaming.store import RenameStore
from acidlib.stores.unanswered import Unanswered

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader, FileStatus
    from hdfs_native._internal import RawFileWriter


# --- files ------------------------------------------------------------------------------------------------------------
# Data files on HDFS, read at any place and written once: what the ORC code sees of the store.

_PIECE = 4 << 20
"""Bytes that are read and written at a time; while one is written the next is read."""


class HdfsSource:
    """A file of a known logical length. It holds where its blocks are and no connection."""

    __slots__ = ("_configuration", "_modified", "_names", "_path", "_reader", "length", "name")

    def __init__(self, names: NameSpace, configuration: Configuration, path: str, length: int) -> None:
        self.name = path
        self.length = length
        self._names = names
        self._configuration = configuration
        self._path = names.inside(path)
        self._modified: int | None = None
        self._reader: FileReader | None = None
        self._open()

    def read(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes at `offset`; CorruptError when they are not all inside the logical length."""
        # hdfs-native panics beyond the end, which no handler of errors would see
        if offset < 0 or size < 0 or offset + size > self.length:
            raise CorruptError(f"Cannot read {self.name}: because bytes {offset} to {offset + size} are outside it")
        try:
            data = self._opened().read_range(offset, size)
        except (OSError, RuntimeError):
            # its blocks may lie elsewhere by now: a data node was lost, or they were balanced
            self._open()
            with raising_acid_errors("read", self.name):
                data = self._opened().read_range(offset, size)
        if len(data) != size:
            raise RetryError(f"Cannot read {self.name}: because {len(data)} of {size} bytes at {offset} came")
        return data

    def close(self) -> None:
        """Close for good; a second call does nothing."""
        self._reader = None

    def _looked_up(self) -> tuple[FileStatus, FileReader]:
        connected = client(self._names.authority, self._configuration)
        return connected.get_file_info(self._path), connected.read(self._path)

    def _opened(self) -> FileReader:
        if self._reader is None:
            raise ValueError(f"{self.name} is closed")
        return self._reader

    def _open(self) -> None:
        with raising_acid_errors("read", self.name):
            status, self._reader = answered(self._names.authority, self._configuration, self._looked_up)
        if self._modified not in (None, status.modification_time):
            raise CorruptError(f"Cannot read {self.name}: because another file took its place while it was read")
        if status.length < self.length:
            raise CorruptError(
                f"Cannot read {self.name}: because it has {status.length} bytes and was listed with {self.length}"
            )
        refuse_unfinished(self.name, self.length, len(self._reader))
        self._modified = status.modification_time


class HdfsSink:
    """A new file, written from start to end.

    After a failure it cannot be closed any more: hdfs-native would then call a file finished that lacks bytes.
    """

    __slots__ = ("_client", "_file", "_path", "name", "position")

    def __init__(self, names: NameSpace, configuration: Configuration, path: str) -> None:
        self.name = path
        self.position = 0
        self._path = names.inside(path)
        with raising_acid_errors("write", path, missing=ConflictError):
            self._client: Client = client(names.authority, configuration)
            # not the class around it, which finishes the file when it is collected as garbage
            self._file: RawFileWriter | None = self._client.inner.create(self._path, write_options(configuration))

    def write(self, data: Any) -> None:
        """Append all bytes of a buffer."""
        # hdfs-native takes bytes as they are, and any other buffer byte by byte
        piece = data if isinstance(data, bytes) else bytes(memoryview(data).cast("B"))
        file = self._opened()
        try:
            with raising_acid_errors("write", self.name, missing=ConflictError):
                file.write(piece)
        except BaseException:
            self._file = None
            raise
        self.position += len(piece)

    def copy(self, source: SourceFile, offset: int, size: int) -> None:
        """Append a range of another file, through this process: HDFS copies nothing by itself."""
        if size <= _PIECE:
            self.write(source.read(offset, size))
            return
        end = offset + size
        starts = range(offset, end, _PIECE)
        with ThreadPoolExecutor(1, "acidlib-read") as reading:
            coming = reading.submit(source.read, offset, _PIECE)
            for start in starts[1:]:
                data = coming.result()
                coming = reading.submit(source.read, start, min(_PIECE, end - start))
                self.write(data)
            self.write(coming.result())

    def close(self, *, durable: bool = True) -> None:  # noqa: ARG002 - there is no other way
        """Hand over what is left, wait until all data nodes of the last block have it, and finish the file.

        `durable` changes nothing: see what HDFS promises (`acidlib.stores.hdfs`).
        """
        file, self._file = self._opened(), None
        with raising_acid_errors("write", self.name, missing=ConflictError):
            file.close()

    def abort(self) -> None:
        """Remove the file; where that fails it goes with the staging directory."""
        self._file = None
        with suppress(OSError, RuntimeError):
            self._client.delete(self._path, recursive=False)

    def _opened(self) -> RawFileWriter:
        if self._file is None:
            raise ValueError(f"{self.name} is closed, or could not be written")
        return self._file


class HdfsDataFiles(AttemptFiles):
    """Opens and creates data files of one name node or name service, for one task. It may be pickled."""

    __slots__ = ("_configuration", "_names")

    def __init__(self, authority: str, configuration: Mapping[str, str]) -> None:
        """All as those of `HdfsFileSystem`. Opens no connection."""
        self._names = NameSpace(authority)
        self._configuration = frozen(configuration)

    def open(self, path: str, length: int) -> HdfsSource:
        """An input of `length` logical bytes; CorruptError when it is missing or shorter."""
        return HdfsSource(self._names, self._configuration, path, length)

    def create(self, path: str) -> HdfsSink:
        """A new file; its directory has to be there: an attempt that outlived its run must not bring staging back."""
        return HdfsSink(self._names, self._configuration, path)


# --- filesystem -------------------------------------------------------------------------------------------------------
# HDFS as a `FileSystem` to which tables are published by renames.
#
# Each change is one call to the name node, and its answer may be lost though it was done: the name node died, a switch
# was restarted. So such a call is repeated, and what the name node then says is held against what there was before.

_Answer = TypeVar("_Answer")
_TRIES = 8
"""Of one call. A name node that starts again may take connections and drop them, so they are ever further apart."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
"""Seconds between two tries; each is twice the one before."""
_MODE_BITS = 0o1777
"""Those of a mode that HDFS has; older name nodes report others beside them."""


class HdfsFileSystem:
    """Files of one name node or name service, by URI. It holds configuration only, and may be shared and pickled.

    Symbolic links do not exist unless an administrator enabled them for all of HDFS; the name node then names the
    path that holds one, which is refused, but hdfs-native cannot tell the link itself from an empty file.
    """

    __slots__ = ("_configuration", "_names", "_unanswered")

    def __init__(self, authority: str, configuration: Mapping[str, str], unanswered: Unanswered | None = None) -> None:
        """`authority`: host and port of the name node, or its name service. Opens no connection."""
        self._unanswered = unanswered
        self._names = NameSpace(authority)
        self._configuration: Configuration = frozen(configuration)

    def exists(self, path: str) -> bool:
        with raising_acid_errors("look at", path):
            return self._found(path) is not None

    def is_directory(self, path: str) -> bool:
        with raising_acid_errors("look at", path):
            status = self._found(path)
            return status is not None and status.isdir

    def entry(self, path: str, *, missing: type[AcidError] = CorruptError) -> Entry:
        return _entry(self._status(path, "look at", missing))

    def names_changed(self, path: str, *, missing: type[AcidError] = CorruptError) -> float:
        return self.entry(path, missing=missing).modified

    def owner(self, path: str) -> str | None:
        return self._status(path, "look at", CorruptError).owner or None

    def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
        return tuple(_entry(status) for status in self._statuses(path, missing))

    def list_tree(
        self, path: str, *, enter_hidden: bool, missing: type[AcidError] = CorruptError
    ) -> tuple[TreeEntry, ...]:
        return walk_tree(self, path, enter_hidden=enter_hidden, missing=missing)

    def read(self, path: str, *, missing: type[AcidError] = CorruptError) -> bytes:
        """As everywhere; a file that is still being written is refused where its length tells.

        hdfs-native reads only what is in finished blocks. A file of which nothing was flushed yet looks empty.
        """
        status = self._status(path, "read", missing)
        with raising_acid_errors("read", path, missing=missing):
            reader = self._asked(lambda: self._client.read(self._cut(path)))
            refuse_unfinished(path, status.length, len(reader))
            return _asked_twice(lambda: reader.read_range(0, len(reader)))

    def create(self, path: str, data: bytes, *, durable: bool = True) -> None:
        del durable  # as `sync`
        temporary = self._written_beside(path, data)
        try:
            with raising_acid_errors("write", path):
                self._rename(temporary, path)
        except BaseException:
            self._remove_quietly(temporary)
            raise

    def make_directory(self, path: str) -> None:
        """As everywhere: a directory of our own is renamed, as a name node makes one that exists without a word."""
        temporary = _beside(path)
        mode = new_mode(dict(self._configuration), is_directory=True)
        try:
            with raising_acid_errors("create", path):
                self._changed(temporary, lambda: self._client.mkdirs(self._cut(temporary), mode, create_parent=False))
                self._rename(temporary, path)
        except BaseException:
            self._remove_quietly(temporary)
            raise

    def inherit(self, path: str, like: str) -> None:
        """As everywhere; of access control lists, HDFS itself gives the default entries of the directory above."""
        wanted = self._status(like, "change the rights of", CorruptError)
        for status in (*self._below(path), self._status(path, "change the rights of", CorruptError)):
            self._inherit(status, wanted)

    def sync(self, path: str) -> None:
        """Nothing: see what HDFS promises (`acidlib.stores.hdfs`)."""

    def sync_tree(self, path: str) -> None:
        """Nothing, as `sync`."""

    def rename_noreplace(
        self, source: str, target: str, *, missing: type[AcidError] = CorruptError, durable: bool = True
    ) -> None:
        """As everywhere; nothing is ever replaced, not even an empty directory.

        When an answer was lost and the repeated call finds no source any more, it counts as done if what the target
        names is what the source was: of the same kind, length and owner, modified in the same millisecond. A rename
        keeps all of these.
        """
        del durable  # as `sync`
        try:
            self._rename(source, target)
        except (OSError, RuntimeError) as error:
            if is_taken(error):
                raise ConflictError(f"Cannot rename {source} to {target}: because {target} already exists") from error
            raise as_acid_error(error, "rename", f"{source} to {target}", missing=missing) from error

    def remove_file(self, path: str, *, missing: type[AcidError] = CorruptError) -> None:
        """Removes one file; never a directory that holds something. One that a lost answer removed is removed."""
        with raising_acid_errors("remove", path, missing=missing):
            if not self._deleted(path, recursive=False):
                raise FileNotFoundError(path)

    def remove_empty_directory(self, path: str) -> bool:
        """Removes a directory only if it is empty, atomically; whether it did. False of one that is missing, too."""
        try:
            return self._deleted(path, recursive=False)
        except (OSError, RuntimeError) as error:
            if java_class(error) == "PathIsNotEmptyDirectoryException":
                return False
            raise as_acid_error(error, "remove", path) from error

    def remove_tree(self, root: str, relative: str) -> None:
        path = "/".join((root, *safe_parts(root, relative)))
        with raising_acid_errors("remove", path, missing=ConflictError):
            if not self._deleted(path, recursive=True):
                raise FileNotFoundError(path)

    def keeps_trash(self, path: str) -> bool:
        """Whether the name node keeps a trash for its users and empties it: fs.trash.interval is not 0 there.

        There is no call that tells it; but what is not there can only be looked for where there is a trash.
        """
        with raising_acid_errors("look for the trash of", path):
            try:
                self._asked(lambda: self._client.trash(self._cut(_beside(f"{path}/trash"))))
            except TrashNotEnabledError:
                return False
            except FileNotFoundError:
                pass
            return True

    def move_to_trash(self, path: str) -> str:
        """Moves a file or directory to the trash of this user, by Hadoop's rule; the URI that it has there.

        That is `.Trash/Current/<path>` in the home directory; where that is taken the name gets the time. To move a
        directory takes the rights that removing it does.

        RefusedError for what is in the trash, UnknownOutcomeError where it is gone and nobody said where to.
        """
        move = f"{path} to the trash"
        try:
            moved = self._client.trash(self._cut(path))
        except TrashNotEnabledError as error:
            raise RetryError(f"Cannot move {move}: because the name node keeps none any more") from error
        except OSError as error:
            # the client asks again, and what was moved by a call whose answer was lost is missing then
            if was_not_sent(error) or self.exists(path):
                raise as_acid_error(error, "move", move, missing=ConflictError) from error
            raise UnknownOutcomeError(
                f"Cannot tell what became of {path}: because it is gone, and the name node did not say that it is in "
                f"the trash ({says(error)})"
            ) from error
        except RuntimeError as error:
            raise as_acid_error(error, "move", move, missing=ConflictError) from error
        if moved is None:
            raise RefusedError(f"Cannot move {move}: because it is there")
        return self._names.outside(moved)

    @property
    def _client(self) -> Client:
        reason = None if self._unanswered is None else self._unanswered.reason(self._server)
        if reason is not None:
            raise _ToldError(reason)
        return client(self._names.authority, self._configuration)

    @property
    def _server(self) -> str:
        return self._names.uri

    def _cut(self, path: str) -> str:
        """The path as the name node has it."""
        return self._names.inside(path)

    def _found(self, path: str) -> FileStatus | None:
        try:
            return self._asked(lambda: self._client.get_file_info(self._cut(path)))
        except FileNotFoundError:
            return None

    def _status(self, path: str, action: str, missing: type[AcidError]) -> FileStatus:
        with raising_acid_errors(action, path, missing=missing):
            return self._asked(lambda: self._client.get_file_info(self._cut(path)))

    def _statuses(self, path: str, missing: type[AcidError]) -> list[FileStatus]:
        inside = self._cut(path)
        with raising_acid_errors("list", path, missing=missing):
            found = self._asked(lambda: list(self._client.list_status(inside)))
        if [status.path for status in found] == [inside]:  # what it tells of a file
            raise missing(f"Cannot list {path}: because it is not a directory")
        return sorted(found, key=_name)

    def _below(self, path: str) -> Iterable[FileStatus]:
        for status in self._statuses(path, CorruptError):
            yield status
            if status.isdir:
                yield from self._below(self._names.outside(status.path))

    def _inherit(self, status: FileStatus, wanted: FileStatus) -> None:
        path = self._names.outside(status.path)
        mode = wanted.permission & (_MODE_BITS if status.isdir else 0o666)
        with raising_acid_errors("change the rights of", path):
            if status.owner != wanted.owner:  # only the superuser gives files away
                self._if_allowed(path, lambda: self._client.set_owner(status.path, owner=wanted.owner))
            if status.group != wanted.group:  # others may set a group of their own
                self._if_allowed(path, lambda: self._client.set_owner(status.path, group=wanted.group))
            if status.permission & _MODE_BITS != mode:
                self._if_allowed(path, lambda: self._client.set_permission(status.path, mode))

    def _if_allowed(self, path: str, call: Callable[[], None]) -> None:
        try:
            self._changed(path, call)
        except RuntimeError as error:
            if java_class(error) != "AccessControlException":
                raise

    def _rename(self, source: str, target: str) -> None:
        before = self._asked(lambda: self._client.get_file_info(self._cut(source)))

        def was_done() -> bool:
            if self._found(source) is not None:
                return False
            after = self._found(target)
            return after is not None and _identity(after) == _identity(before)

        self._changed(source, lambda: self._client.rename(self._cut(source), self._cut(target)), was_done=was_done)

    def _deleted(self, path: str, *, recursive: bool) -> bool:
        """Whether anything was there; what is gone after a lost answer, was."""
        lost = False

        def delete() -> bool:
            nonlocal lost
            try:
                return self._client.delete(self._cut(path), recursive) or lost
            except OSError as error:
                lost = lost or not (isinstance(error, FINAL) or was_not_sent(error))
                raise

        return bool(self._changed(path, delete, was_done=lambda: False))

    def _written_beside(self, path: str, data: bytes) -> str:
        """Writes a hidden file in the same directory; under each name only once, as an answer may be lost."""
        written: list[str] = []

        def write() -> None:
            written.append(_beside(path))
            try:
                file = self._client.inner.create(self._cut(written[-1]), write_options(self._configuration))
                _write_all(file, data)
            except BaseException:
                self._remove_quietly(written[-1])
                raise

        with raising_acid_errors("write", path):
            self._changed(path, write)
        return written[-1]

    def _remove_quietly(self, path: str) -> None:
        with suppress(OSError, RuntimeError):
            self._client.delete(self._cut(path), recursive=False)  # what is left is hidden

    def _asked(self, question: Callable[[], _Answer]) -> _Answer:
        """The answer of the name node to a question; where none comes, it is noted that it was waited for in vain."""
        try:
            return _asked_twice(lambda: answered(self._names.authority, self._configuration, question))
        except FINAL:
            raise
        except OSError as error:
            self._waited(error)
            raise

    def _changed(
        self, path: str, change: Callable[[], _Answer], *, was_done: Callable[[], bool] | None = None
    ) -> _Answer | None:
        """See `_changed_once`."""

        def noted() -> _Answer:
            try:
                return change()
            except FINAL:
                raise
            except OSError as error:
                if was_not_sent(error):
                    self._waited(error)
                raise

        return _changed_once(path, noted, was_done=was_done)

    def _waited(self, error: OSError) -> None:
        if self._unanswered is not None and not isinstance(error, _ToldError):
            self._unanswered.note(self._server, str(error))


class _ToldError(NotAskedError):
    """What the run knew already."""


def _asked_twice(question: Callable[[], _Answer]) -> _Answer:
    """The answer to a question, asked twice where the first answer was lost."""
    try:
        return _patiently(question)
    except FINAL:
        raise
    except OSError as error:
        if was_not_sent(error):
            raise
        return _patiently(question)


def _write_all(file: RawFileWriter, data: bytes) -> None:
    """Writes and closes; where a data node failed, raises an error after which all is tried again."""
    try:
        file.write(data)
        file.close()
    except (OSError, RuntimeError) as error:
        if is_of_data(error):
            # hdfs-native gives up where the first data node that it is given is dead; the next time it gets others
            raise OSError(f"writing to data nodes failed: {says(error)}") from error
        raise


def _changed_once(
    path: str, change: Callable[[], _Answer], *, was_done: Callable[[], bool] | None = None
) -> _Answer | None:
    """Makes a change once, asking for it repeatedly while answers are lost.

    `was_done` tells, when a repeated call failed, whether an earlier one had done it. With it, `UnknownOutcomeError`
    is raised when no answer comes in the end; without it, a change that may be made twice, the last `OSError`.
    """
    lost: list[OSError] = []
    for number in range(_TRIES):
        if number:
            time.sleep(_pause(number))
        try:
            return _patiently(change)
        except FINAL:
            if not lost or was_done is None or not _looked(path, was_done):
                raise
            return None
        except OSError as error:
            if was_not_sent(error) and not lost:
                raise
            lost.append(error)
            if was_not_sent(error):  # the client has waited long enough
                break
    if was_done is None:
        raise lost[-1]
    raise _unknown(path, lost[-1]) from lost[-1]


def _patiently(call: Callable[[], _Answer]) -> _Answer:
    """The answer to a call; a name node that has just started may say that it did nothing and is to be asked again."""
    number = 1
    while True:
        try:
            return call()
        except RuntimeError as error:
            if not is_to_be_repeated(error) or number == _TRIES:
                raise
        time.sleep(_pause(number))
        number += 1


def _pause(tries: int) -> float:
    return float(min(_FIRST_PAUSE * 2 ** (tries - 1), _LONGEST_PAUSE))


def _looked(path: str, was_done: Callable[[], bool]) -> bool:
    try:
        return was_done()
    except (OSError, RuntimeError) as error:
        raise _unknown(path, error) from error


def _unknown(path: str, error: BaseException) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"Cannot tell what became of {path}: because the name node was lost after it was asked to change it "
        f"({says(error)})"
    )


def _identity(status: FileStatus) -> tuple[bool, int, int, str]:
    return status.isdir, status.length, status.modification_time, status.owner


def _name(status: FileStatus) -> str:
    return status.path.rpartition("/")[2]


def _entry(status: FileStatus) -> Entry:
    return Entry(
        name=_name(status),
        is_directory=status.isdir,
        is_symlink=False,
        length=0 if status.isdir else status.length,
        modified=status.modification_time / 1000,
    )


def _beside(path: str) -> str:
    """A hidden name in the same directory that nobody else has."""
    directory, _, name = path.rpartition("/")
    prefix = "" if name.startswith(("_", ".")) else "_"
    return f"{directory}/{prefix}{name}.{uuid.uuid4().hex}.tmp"


# --- store ------------------------------------------------------------------------------------------------------------
# HDFS as a `Store`: publication by renames, and the trash that its name node keeps for each user.


class HdfsStore(RenameStore):
    """`Store` of one name node or name service."""

    def __init__(self, fs: HdfsFileSystem) -> None:
        super().__init__(fs)
        self._hdfs = fs

    def trash(self, location: Location, name: str) -> Trash:
        """The user's where the name node keeps one, so that it is emptied; else a directory in the place."""
        if self._hdfs.keeps_trash(str(location)):
            return UsersTrash(fs=self._hdfs, location=location)
        return super().trash(location, name)

    def trash_place(self, location: Location) -> str:
        """In words: where the home directory is, the name node alone knows."""
        if self._hdfs.keeps_trash(str(location)):
            return f"the trash of this user on hdfs://{location.authority}"
        return super().trash_place(location)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsersTrash:
    """`Trash` in the home directory of the user who asks for it, from where the name node removes it in time."""

    fs: HdfsFileSystem
    location: Location

    def move(self, relative: str) -> str:
        """See `HdfsFileSystem.move_to_trash`."""
        return self.fs.move_to_trash("/".join((str(self.location), *safe_parts(str(self.location), relative))))
