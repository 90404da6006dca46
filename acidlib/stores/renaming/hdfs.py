"""HDFS: data files, and the file system and store to which tables are published by renames.

Each change is one call to the name node, and its answer may be lost though the change was made: the name node died, a
switch was restarted. So such a call is repeated, and the state that the name node then reports is compared with the
state before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from hdfs_native import TrashNotEnabledError

from acidlib.datafiles import SourceFile
from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.location import Location
from acidlib.memory import DEFAULT_MEMORY, Memory
from acidlib.stores.filesystem import (
    MAX_ENTRIES,
    Entry,
    Pace,
    RenameFileSystem,
    UnreachableServers,
    beside,
    require_few,
    require_small,
    safe_parts,
)
from acidlib.stores.reading import AheadSource
from acidlib.stores.renaming.hdfs_client import (
    FINAL,
    Answer,
    NameNode,
    NotAskedError,
    hdfs_acid_error,
    is_of_data,
    is_taken,
    java_class,
    raising_hdfs_errors,
    refuse_unfinished,
    says,
    was_not_sent,
)
from acidlib.stores.renaming.store import RenameStore
from acidlib.stores.repeating import Failure, changed, repeated
from acidlib.stores.store import TaskFiles, copy_through
from acidlib.waiting import asking

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader, FileStatus
    from hdfs_native._internal import RawFileWriter


class HdfsSource(AheadSource):
    """A file of a known logical length. It holds the places of its blocks, and no connection."""

    __slots__ = ("_modified", "_node", "_path", "_reader")

    def __init__(self, node: NameNode, path: str, length: int, memory: Memory) -> None:
        super().__init__(path, length, memory)
        self._node = node
        self._path = node.inside(path)
        self._modified: int | None = None
        self._open()

    def _fetched(self, offset: int, size: int) -> bytes:
        try:
            with asking("read", self.name):
                data = self._reader.read_range(offset, size)
        except (OSError, RuntimeError):
            # its blocks may lie elsewhere by now: a data node was lost, or they were balanced
            self._open()
            with raising_hdfs_errors("read", self.name):
                data = self._reader.read_range(offset, size)
        self._require_size(data, offset, size)
        return data

    def _open(self) -> None:
        def look() -> tuple[FileStatus, FileReader]:
            client = self._node.client
            return client.get_file_info(self._path), client.read(self._path)

        with raising_hdfs_errors("read", self.name):
            status, self._reader = self._node.ask(look)
        if self._modified not in (None, status.modification_time):
            raise CorruptError(f"Cannot read {self.name}: another file took its place while it was read")
        self._require_length(status.length)
        refuse_unfinished(self.name, self.length, len(self._reader))
        self._modified = status.modification_time


class HdfsSink:
    """A new file, written from start to end.

    After a failure it cannot be closed any more: hdfs-native would then call a file finished that lacks bytes.
    """

    __slots__ = ("_client", "_file", "_path", "name", "position")

    def __init__(self, node: NameNode, path: str) -> None:
        self.name = path
        self.position = 0
        self._path = node.inside(path)
        with raising_hdfs_errors("write", path, missing=ConflictError):
            self._client = node.client
            # not the class around it, which finishes the file when it is collected as garbage
            self._file: RawFileWriter | None = self._client.inner.create(self._path, node.write_options())

    def write(self, data: Any) -> None:
        """Append all bytes of a buffer."""
        # hdfs-native takes bytes as a whole, and any other buffer byte by byte
        piece = data if isinstance(data, bytes) else bytes(memoryview(data).cast("B"))
        file = self._open_file()
        try:
            with raising_hdfs_errors("write", self.name, missing=ConflictError):
                file.write(piece)
        except BaseException:
            self._file = None
            raise
        self.position += len(piece)

    def copy(self, source: SourceFile, offset: int, size: int) -> None:
        """Append a range of another file, through this process: HDFS copies nothing by itself."""
        copy_through(self, source, offset, size)

    def close(self, *, durable: bool = True) -> None:  # noqa: ARG002 - there is no other way
        """Send the rest, wait until all data nodes of the last block have it, and finish the file.

        `durable` changes nothing: HDFS has no other way.
        """
        file, self._file = self._open_file(), None
        with raising_hdfs_errors("write", self.name, missing=ConflictError):
            file.close()

    def abort(self) -> None:
        """Remove the file; where that fails it goes with the staging directory."""
        self._file = None
        with suppress(OSError, RuntimeError), asking("remove", self.name):
            self._client.delete(self._path, recursive=False)

    def _open_file(self) -> RawFileWriter:
        if self._file is None:
            raise ValueError(f"{self.name} is closed, or could not be written")
        return self._file


class HdfsDataFiles(TaskFiles):
    """The data files of one name node or name service, for one task. It may be pickled."""

    __slots__ = ("_node",)

    def __init__(self, authority: str, configuration: Mapping[str, str], memory: Memory = DEFAULT_MEMORY) -> None:
        """Arguments are those of `HdfsFileSystem`. Opens no connection."""
        super().__init__(memory)
        self._node = NameNode.of(authority, configuration)

    def open(self, path: str, length: int) -> HdfsSource:
        """Open an input of `length` logical bytes; CorruptError when it is missing or shorter."""
        return HdfsSource(self._node, path, length, self.memory)

    def create(self, path: str) -> HdfsSink:
        """Create a file in a directory that is there: an attempt that outlived its run must not bring staging back."""
        return HdfsSink(self._node, path)


_TRIES = 8
"""Tries of one call, ever further apart: a name node that starts again may take connections and drop them."""
_USERS: dict[tuple[NameNode, str], str] = {}
"""The owner of what this process has made at a place: the name node alone knows whom a login is taken for.

While it has made nothing there it changes nothing either, as every change at a place begins with a claim. Whoever
writes to the place may exchange what is made before its owner is asked for: so what is learned there holds there only.
"""
_MODE_BITS = 0o1777
"""The bits of a mode that HDFS has; older name nodes report others beside them."""


class HdfsFileSystem(RenameFileSystem):
    """Files of one name node or name service, by URI. It holds configuration only, and may be shared and pickled.

    Symbolic links do not exist unless an administrator enabled them for all of HDFS; the name node then names the
    path that holds a link, which is refused, but hdfs-native cannot tell the link itself from an empty file.
    """

    __slots__ = ("_node", "_place", "_unreachable")

    def __init__(
        self,
        authority: str,
        configuration: Mapping[str, str],
        unreachable: UnreachableServers | None = None,
        *,
        place: str = "/",
    ) -> None:
        """Open no connection.

        authority  host and port of the name node, or its name service
        place      the path below which it is used
        """
        self._unreachable = unreachable
        self._place = place
        self._node = NameNode.of(authority, configuration)

    def exists(self, path: str) -> bool:
        with raising_hdfs_errors("look at", path):
            return self._status_or_none(path) is not None

    def is_directory(self, path: str) -> bool:
        with raising_hdfs_errors("look at", path):
            status = self._status_or_none(path)
            return status is not None and status.isdir

    def entry(self, path: str, *, missing: type[AcidError] = CorruptError) -> Entry:
        return self._entry(self._status(path, "look at", missing))

    def owner(self, path: str) -> str | None:
        return self._status(path, "look at", CorruptError).owner or None

    def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
        return tuple(self._entry(status) for status in self._statuses(path, missing))

    def read(self, path: str, *, missing: type[AcidError] = CorruptError) -> bytes:
        """Return the whole contents; a file that is still being written is refused where its length shows that.

        hdfs-native reads finished blocks only. A file of which nothing was flushed yet looks empty.
        """
        status = self._status(path, "read", missing)
        with raising_hdfs_errors("read", path, missing=missing):
            reader = self._ask(lambda: self._client.read(self._node.inside(path)))
            refuse_unfinished(path, status.length, len(reader))
            require_small(path, len(reader))
            return _answered(lambda: reader.read_range(0, len(reader)))

    def create(self, path: str, data: bytes, *, durable: bool = True) -> None:
        del durable  # as `sync`
        written: list[str] = []  # a new name for each try, as an answer may be lost

        def write(_: int) -> None:
            written.append(beside(path))
            try:
                file = self._client.inner.create(self._node.inside(written[-1]), self._node.write_options())
                try:
                    file.write(data)
                    file.close()
                except (OSError, RuntimeError) as error:
                    if not is_of_data(error):
                        raise
                    # hdfs-native gives up where the first data node that it is given is dead; the next try gets others
                    raise OSError(f"writing to data nodes failed: {says(error)}") from error
            except BaseException:
                self._remove_quietly(written[-1])
                raise

        with raising_hdfs_errors("write", path):
            self._change(path, write)
            try:
                self._rename_own(written[-1], path)
            except BaseException:
                self._remove_quietly(written[-1])
                raise

    def make_directory(self, path: str) -> None:
        """Rename a directory of our own to the name: to make an existing one is no error for a name node."""
        temporary = beside(path)
        mode = self._node.mode(is_directory=True)
        try:
            with raising_hdfs_errors("create", path):
                self._change(
                    temporary, lambda _: self._client.mkdirs(self._node.inside(temporary), mode, create_parent=False)
                )
                self._rename_own(temporary, path)
        except BaseException:
            self._remove_quietly(temporary)
            raise

    def inherit(self, path: str, like: str, *, owner: bool = True) -> None:
        """Give owner, group and mode; of access control lists, HDFS itself gives the default entries from above."""
        wanted = self._status(like, "change the rights of", CorruptError)
        for status in (*self._below(path), self._status(path, "change the rights of", CorruptError)):
            if self._entry(status).is_ours:
                self._inherit(status, wanted, owner=owner)

    def sync(self, path: str) -> None:
        """Do nothing: HDFS has no call for it."""

    def sync_tree(self, path: str) -> None:
        """Do nothing, as `sync`."""

    def rename_noreplace(
        self, source: str, target: str, *, missing: type[AcidError] = CorruptError, durable: bool = True
    ) -> None:
        """Rename; nothing is ever replaced, not even an empty directory.

        When an answer was lost and the repeated call finds no source any more, it counts as done if the target is of
        the kind, length and owner that the source had, modified in the same millisecond. A rename keeps all of these.
        """
        del durable  # as `sync`
        try:
            with asking("rename", source):
                self._rename(source, target)
        except (OSError, RuntimeError) as error:
            if is_taken(error):
                raise ConflictError(f"Cannot rename {source} to {target}: {target} already exists") from error
            raise hdfs_acid_error(error, "rename", f"{source} to {target}", missing=missing) from error

    def remove_file(self, path: str, *, missing: type[AcidError] = CorruptError) -> None:
        """Remove one file; never a directory that is not empty. A removal whose answer was lost counts."""
        with raising_hdfs_errors("remove", path, missing=missing):
            if not self._delete(path, recursive=False):
                raise FileNotFoundError(path)

    def remove_empty_directory(self, path: str) -> bool:
        try:
            with asking("remove", path):
                return self._delete(path, recursive=False)
        except (OSError, RuntimeError) as error:
            if java_class(error) == "PathIsNotEmptyDirectoryException":
                return False
            raise hdfs_acid_error(error, "remove", path) from error

    def remove_tree(self, root: str, relative: str, *, identity: str = "", pace: Pace | None = None) -> None:
        """Remove a directory by one call, or at a pace file by file."""
        del identity  # it has none: no link leads from one place to another
        path = "/".join((root, *safe_parts(root, relative)))
        if pace is not None:
            self.remove_files(path, pace)
        with raising_hdfs_errors("remove", path, missing=ConflictError):
            if not self._delete(path, recursive=True):
                raise FileNotFoundError(path)

    def keeps_trash(self, path: str) -> bool:
        """Tell whether the name node keeps a trash for its users and empties it: fs.trash.interval is not 0 there.

        There is no call that tells it; but moving a missing path fails in another way where there is a trash.
        """
        with raising_hdfs_errors("look for the trash of", path):
            try:
                self._ask(lambda: self._client.trash(self._node.inside(beside(f"{path}/trash"))))
            except TrashNotEnabledError:
                return False
            except FileNotFoundError:
                pass
            return True

    def move_to_trash(self, path: str) -> str:
        """Move a file or directory to the trash of this user, by Hadoop's rule; return the URI that it has there.

        That is `.Trash/Current/<path>` in the home directory; where that is taken the name gets the time. To move a
        directory takes the rights that removing it does.

        RefusedError for a path in the trash, UnknownOutcomeError where it is gone and no answer named its new path.
        """
        move = f"{path} to the trash"
        try:
            with asking("move", path):
                moved = self._client.trash(self._node.inside(path))
        except TrashNotEnabledError as error:
            raise RetryError(f"Cannot move {move}: the name node keeps none any more") from error
        except OSError as error:
            # the client asks again, and after a move whose answer was lost the path is missing
            if was_not_sent(error) or self.exists(path):
                raise hdfs_acid_error(error, "move", move, missing=ConflictError) from error
            raise UnknownOutcomeError(
                f"Cannot tell the outcome of moving {path} to the trash: it is gone, and the name node did not confirm "
                f"it ({says(error)})"
            ) from error
        except RuntimeError as error:
            raise hdfs_acid_error(error, "move", move, missing=ConflictError) from error
        if moved is None:
            raise RefusedError(f"Cannot move {move}: it is there")
        return self._node.outside(moved)

    @property
    def _client(self) -> Client:
        reason = None if self._unreachable is None else self._unreachable.reason(self._node.uri)
        if reason is not None:
            raise NotAskedError(reason)
        return self._node.client

    def _status_or_none(self, path: str) -> FileStatus | None:
        try:
            return self._ask(lambda: self._client.get_file_info(self._node.inside(path)))
        except FileNotFoundError:
            return None

    def _status(self, path: str, action: str, missing: type[AcidError]) -> FileStatus:
        with raising_hdfs_errors(action, path, missing=missing):
            return self._ask(lambda: self._client.get_file_info(self._node.inside(path)))

    def _statuses(self, path: str, missing: type[AcidError]) -> list[FileStatus]:
        inside = self._node.inside(path)
        with raising_hdfs_errors("list", path, missing=missing):
            statuses = self._ask(lambda: list(islice(self._client.list_status(inside), MAX_ENTRIES + 1)))
        require_few(path, len(statuses))
        if [status.path for status in statuses] == [inside]:  # its answer for a file
            raise missing(f"Cannot list {path}: it is not a directory")
        return sorted(statuses, key=_name)

    def _below(self, path: str) -> Iterable[FileStatus]:
        """Yield the status of all below a directory, as far as a place goes: others may make more meanwhile."""
        waiting, names = [path], 0
        while waiting:
            statuses = self._statuses(waiting.pop(), CorruptError)
            names += len(statuses)
            require_few(path, names)
            for status in statuses:
                yield status
                if status.isdir:
                    waiting.append(self._node.outside(status.path))

    def _entry(self, status: FileStatus) -> Entry:
        user = _USERS.get((self._node, self._place))
        return Entry(
            path=_name(status),
            is_directory=status.isdir,
            is_ours=user is None or status.owner == user,
            length=0 if status.isdir else status.length,
            modified=status.modification_time / 1000,
        )

    def _inherit(self, status: FileStatus, wanted: FileStatus, *, owner: bool) -> None:
        path = self._node.outside(status.path)
        mode = wanted.permission & (_MODE_BITS if status.isdir else 0o666)
        with raising_hdfs_errors("change the rights of", path):
            if owner and status.owner != wanted.owner:  # only the superuser gives files away
                self._if_allowed(path, lambda: self._client.set_owner(status.path, owner=wanted.owner))
            if status.group != wanted.group:  # others may set a group of their own
                self._if_allowed(path, lambda: self._client.set_owner(status.path, group=wanted.group))
            if status.permission & _MODE_BITS != mode:
                self._if_allowed(path, lambda: self._client.set_permission(status.path, mode))

    def _if_allowed(self, path: str, call: Callable[[], None]) -> None:
        try:
            self._change(path, lambda _: call())
        except RuntimeError as error:
            if java_class(error) != "AccessControlException":
                raise

    def _rename_own(self, source: str, target: str) -> None:
        """Rename a file or directory that this process has just made; ConflictError if it is not that any more.

        Its owner is noted the first time. Others may exchange a name at any moment, so all at a place have to have one
        owner.
        """
        owner = self._rename(source, target).owner
        if owner != _USERS.setdefault((self._node, self._place), owner):
            raise ConflictError(f"Cannot use {target}: {owner} has put something else there while it was made")

    def _rename(self, source: str, target: str) -> FileStatus:
        """Rename, and return the status from before."""
        before = self._ask(lambda: self._client.get_file_info(self._node.inside(source)))

        def was_done() -> bool:
            if self._status_or_none(source) is not None:
                return False
            after = self._status_or_none(target)
            return after is not None and _identity(after) == _identity(before)

        self._change(
            source,
            lambda _: self._client.rename(self._node.inside(source), self._node.inside(target)),
            was_done=was_done,
        )
        return before

    def _delete(self, path: str, *, recursive: bool) -> bool:
        """Delete a path; return whether it was there, as it was if it is gone after a lost answer."""
        return bool(
            self._change(
                path,
                lambda lost: self._client.delete(self._node.inside(path), recursive) or lost > 0,
                was_done=lambda: False,
            )
        )

    def _remove_quietly(self, path: str) -> None:
        with suppress(OSError, RuntimeError), asking("remove", path):
            self._client.delete(self._node.inside(path), recursive=False)  # if this fails, the name is hidden

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        """Return the answer of the name node to a question; note a name node that was waited for in vain."""
        try:
            return _answered(lambda: self._node.ask(question))
        except OSError as error:
            if _failure(error) is not Failure.REFUSED:
                self._note_unreachable(error)
            raise

    def _change(
        self, path: str, change: Callable[[int], Answer], *, was_done: Callable[[], bool] | None = None
    ) -> Answer | None:
        """Make a change, as `repeating.changed` does."""
        return changed(
            change,
            was_done,
            failure=_failure,
            tries=_TRIES,
            is_patient=True,  # its client has asked for about a minute
            away=self._note_unreachable,
            unknown=lambda error: _unknown(path, error),
        )

    def _note_unreachable(self, error: Exception) -> None:
        if self._unreachable is not None:
            self._unreachable.note(self._node.uri, str(error))


def _failure(error: Exception) -> Failure | None:
    if java_class(error) == "RetriableException":  # a name node that has just started asks for another try
        return Failure.BUSY
    if isinstance(error, FINAL):
        return Failure.REFUSED
    if isinstance(error, OSError):
        return Failure.AWAY if was_not_sent(error) else Failure.LOST
    return None


def _answered(question: Callable[[], Answer]) -> Answer:
    """Return the answer to a question, asked twice where the first answer was lost."""
    return repeated(question, failure=_failure, tries=_TRIES, losses=1)


def _unknown(path: str, error: BaseException) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"Cannot tell the outcome of a change of {path}: the name node was lost after the request ({says(error)})"
    )


def _identity(status: FileStatus) -> tuple[bool, int, int, str]:
    return status.isdir, status.length, status.modification_time, status.owner


def _name(status: FileStatus) -> str:
    return status.path.rpartition("/")[2]


class HdfsStore(RenameStore):
    """`Store` of one name node or name service, with the trash that its name node keeps for each user."""

    fs: HdfsFileSystem

    def trash(self, location: Location, name: str) -> Callable[[str], str]:
        """Use the user's trash where the name node keeps one, so that it is emptied; else a directory in the place."""
        if not self.fs.keeps_trash(str(location)):
            return super().trash(location, name)
        return lambda path: self.fs.move_to_trash("/".join((str(location), *safe_parts(str(location), path))))

    def trash_place(self, location: Location) -> str:
        """Return it in words: only the name node knows the home directory."""
        if self.fs.keeps_trash(str(location)):
            return f"the trash of this user on hdfs://{location.authority}"
        return super().trash_place(location)
