"""Ozone: data files, and the file system to which tables are published by renames, in buckets with directories (FSO).

Ozone renames a directory atomically, but *into* a target that is a directory already, and says yes. A rename into the
parent directory under the same name is refused where that name is taken. So each rename is one of two:

| source and target                    | asked for           | if the name is taken                                   |
|--------------------------------------|---------------------|--------------------------------------------------------|
| `d/_tmp_x/base_1` to `d/base_1`: the | rename it into `d`  | refused by Ozone, always                               |
| target lies above, its name stays    |                     |                                                        |
| any other: names that one run alone  | look, rename, look  | refused by the first look; if another user makes a     |
| gives (`_tmp_x.revoked`, tickets)    |                     | directory after it, the source is taken out of it      |

What readers see, claims, new directories and records are all made by the first kind. (Into a parent that may be gone
the first kind would give the source its name: but `d` above the source is there as long as the source is.)

HttpFS makes missing parents of new files and directories. So it is asked first whether the parent is there. A task that
is paused in this very moment, while another run revokes its staging, leaves a hidden directory that no run looks at.

A directory's time of modification is that of the last rename in it; other changes do not move it.

Source: Ozone `OMKeyRenameRequestWithFSO`, `BasicRootedOzoneFileSystem`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from typing import Any, TypeVar

from acidlib.datafiles import SourceFile
from acidlib.errors import AcidError, ConflictError, CorruptError, RetryError, UnknownOutcomeError
from acidlib.location import Location
from acidlib.memory import DEFAULT_MEMORY, Memory
from acidlib.stores.filesystem import (
    MAX_CONTROL_FILE_BYTES,
    Entry,
    Pace,
    RenameFileSystem,
    UnreachableServers,
    beside,
    require_small,
    safe_parts,
)
from acidlib.stores.promises import BrokenPromiseError, Promise
from acidlib.stores.reading import FIRST_AHEAD, AheadSource
from acidlib.stores.renaming.ozone_client import (
    HttpFs,
    HttpFsError,
    HttpFsLostAnswerError,
    HttpFsNotAskedError,
    failure_of_httpfs,
    ozone_acid_error,
    raising_ozone_errors,
)
from acidlib.stores.renaming.ozone_trials import ozone_promises
from acidlib.stores.renaming.store import RenameStore
from acidlib.stores.repeating import changed, pause_before
from acidlib.stores.store import Claim, TaskFiles, copy_through
from acidlib.waiting import asking

Answer = TypeVar("Answer")

_CHUNK_BYTES = 4 << 20
"""Bytes of a file that are sent at a time."""
_TRIES = 8
"""Tries of one change, ever further apart: a gateway that starts again may take connections and drop them."""
_NOT_IN_A_DIRECTORY = "it is not, or lies not in, a directory"


class OzoneSource(AheadSource):
    """A file of a known logical length. It holds no connection.

    A small file is fetched whole when it is opened, by one request. Each read of a larger one names it by its path;
    what it was when it was opened it has to be after the read, too.
    """

    __slots__ = ("_identity", "_server")

    def __init__(self, server: HttpFs, path: str, length: int, memory: Memory) -> None:
        super().__init__(path, length, memory)
        self._server = server
        if 0 < length <= FIRST_AHEAD:
            with raising_ozone_errors("read", path):
                data = server.question(path, "OPEN", offset=0, length=length)
            self._require_length(len(data))
            self._require_size(data, 0, length)
            self._keep(0, data)
            return
        with raising_ozone_errors("read", path):
            status = server.status(path)
        if status["type"] != "FILE":
            raise CorruptError(f"Cannot read {path}: it is a directory")
        self._require_length(status["length"])
        self._identity = _identity(status)

    def _fetched(self, offset: int, size: int) -> bytes:
        with raising_ozone_errors("read", self.name):
            data = self._server.question(self.name, "OPEN", offset=offset, length=size)
            if _identity(self._server.status(self.name)) != self._identity:
                raise CorruptError(f"Cannot read {self.name}: another file took its place while it was read")
        self._require_size(data, offset, size)
        return data


class OzoneSink:
    """A new file, written from start to end, by one request.

    HttpFS finishes a file also when the request breaks off, so after a failure it cannot be closed any more.
    """

    __slots__ = ("_connection", "_server", "name", "position")

    def __init__(self, server: HttpFs, path: str) -> None:
        self.name = path
        self.position = 0
        self._server = server
        with raising_ozone_errors("write", path, missing=ConflictError):
            if _status_or_none(server, path) is not None:
                raise ConflictError(f"Cannot write {path}: it already exists")
            if server.status(path.rpartition("/")[0])["type"] != "DIRECTORY":
                raise ConflictError(f"Cannot write {path}: {_NOT_IN_A_DIRECTORY}")
            self._connection: HTTPConnection | None = server.upload(path)

    def write(self, data: Any) -> None:
        """Append all bytes of a buffer."""
        piece = memoryview(data).cast("B")
        connection = self._open_connection()
        try:
            with raising_ozone_errors("write", self.name, missing=ConflictError):
                _send_chunks(connection, piece)
        except BaseException:
            self._connection = None
            connection.close()
            raise
        self.position += len(piece)

    def copy(self, source: SourceFile, offset: int, size: int) -> None:
        """Append a range of another file, through this process: HttpFS copies nothing by itself."""
        copy_through(self, source, offset, size)

    def close(self, *, durable: bool = True) -> None:  # noqa: ARG002 - there is no other way
        """Send the end, and wait until Ozone has the file.

        After a lost answer it has it if there is a file with all bytes: Ozone shows none before it is finished.
        `durable` changes nothing: Ozone has no other way.
        """
        connection, self._connection = self._open_connection(), None
        with raising_ozone_errors("write", self.name, missing=ConflictError):
            try:
                _send(connection, b"0\r\n\r\n")
                self._server.answer_of(connection)
            except HttpFsLostAnswerError:
                if not self._is_whole():
                    raise

    def _is_whole(self) -> bool:
        """Tell whether Ozone has the file with all bytes, now or soon."""
        for number in range(1, _TRIES):
            status = _status_or_none(self._server, self.name)
            if status is not None:
                return bool(status["length"] == self.position)
            pause_before(number)
        return False

    def abort(self) -> None:
        """Remove the file; where that fails it goes with the staging directory."""
        connection, self._connection = self._connection, None
        with asking("remove", self.name):
            if connection is not None:  # HttpFS finishes it in any case: this way it is known when
                with suppress(OSError, HttpFsError):
                    _send(connection, b"0\r\n\r\n")
                    self._server.answer_of(connection)
            with suppress(OSError, HttpFsError):
                self._server.change("DELETE", self.name, "DELETE", recursive="false")

    def _open_connection(self) -> HTTPConnection:
        if self._connection is None:
            raise ValueError(f"{self.name} is closed, or could not be written")
        return self._connection


def _send_chunks(connection: HTTPConnection, piece: memoryview) -> None:
    for start in range(0, len(piece), _CHUNK_BYTES):
        chunk = piece[start : start + _CHUNK_BYTES]
        _send(connection, b"%x\r\n" % len(chunk))
        _send(connection, chunk)
        _send(connection, b"\r\n")


def _send(connection: HTTPConnection, data: bytes | memoryview) -> None:
    try:
        connection.send(data)
    except (OSError, HTTPException) as error:
        raise HttpFsLostAnswerError(str(error) or type(error).__name__) from error


class OzoneDataFiles(TaskFiles):
    """The data files of one Ozone service, for one task. It may be pickled."""

    __slots__ = ("_server",)

    def __init__(self, server: HttpFs, memory: Memory = DEFAULT_MEMORY) -> None:
        """Opens no connection."""
        super().__init__(memory)
        self._server = server

    def open(self, path: str, length: int) -> OzoneSource:
        """Open an input of `length` logical bytes; CorruptError when it is missing or shorter."""
        return OzoneSource(self._server, path, length, self.memory)

    def create(self, path: str) -> OzoneSink:
        """Create a file in a directory that is there: an attempt that outlived its run must not bring staging back."""
        return OzoneSink(self._server, path)


class OzoneFileSystem(RenameFileSystem):
    """Files of one Ozone service, by URI. It holds configuration only, and may be shared and pickled."""

    __slots__ = ("_server", "_unreachable")

    def __init__(self, server: HttpFs, unreachable: UnreachableServers | None = None) -> None:
        """Open no connection."""
        self._server = server
        self._unreachable = unreachable

    def exists(self, path: str) -> bool:
        with raising_ozone_errors("look at", path):
            return self._status_or_none(path) is not None

    def is_directory(self, path: str) -> bool:
        with raising_ozone_errors("look at", path):
            status = self._status_or_none(path)
            return status is not None and status["type"] == "DIRECTORY"

    def entry(self, path: str, *, missing: type[AcidError] = CorruptError) -> Entry:
        with raising_ozone_errors("look at", path, missing=missing):
            return self._entry(path.rpartition("/")[2], self._ask(lambda: self._server.status(path)))

    def names_changed(self, path: str, *, missing: type[AcidError] = CorruptError) -> float:
        """Return 0: only renames move the time of a directory."""
        del path, missing
        return 0.0

    def names_renamed(self, path: str, *, missing: type[AcidError] = CorruptError) -> float:
        return self.entry(path, missing=missing).modified

    def owner(self, path: str) -> str | None:
        with raising_ozone_errors("look at", path):
            return str(self._ask(lambda: self._server.status(path))["owner"]) or None

    def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
        with raising_ozone_errors("list", path, missing=missing):
            statuses = self._ask(lambda: self._server.statuses(path))
        if [status["pathSuffix"] for status in statuses] == [""]:  # its answer for a file
            raise missing(f"Cannot list {path}: it is not a directory")
        return tuple(
            sorted((self._entry(status["pathSuffix"], status) for status in statuses), key=lambda entry: entry.path)
        )

    def read(self, path: str, *, missing: type[AcidError] = CorruptError) -> bytes:
        with raising_ozone_errors("read", path, missing=missing):
            data = self._ask(lambda: self._server.question(path, "OPEN", length=MAX_CONTROL_FILE_BYTES + 1))
        require_small(path, len(data))
        return data

    def create(self, path: str, data: bytes, *, durable: bool = True) -> None:
        del durable  # as `sync`
        self._make(
            "write",
            path,
            # its name is this run's alone, so a repeated request may replace what an earlier one has left there
            lambda own: self._server.change("PUT", own, "CREATE", data, data="true", overwrite="true"),
        )

    def make_directory(self, path: str) -> None:
        self._make("create", path, lambda own: self._server.change("PUT", own, "MKDIRS"))

    def inherit(self, path: str, like: str, *, owner: bool = True) -> None:
        """Do nothing: rights are those of Ozone's access control lists, and default entries are inherited."""

    def sync(self, path: str) -> None:
        """Do nothing: Ozone has no call for it."""

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
        what = f"{source} to {target}"
        with raising_ozone_errors("rename", what, missing=missing):
            before = self._ask(lambda: self._server.status(source))
            if _stays_below(source, target):
                is_done = self._move(source, target.rpartition("/")[0], found_at=target, identity=_identity(before))
            else:
                is_done = self._status_or_none(target) is None and self._move_free(source, target, _identity(before))
            if is_done:
                return
            if self._status_or_none(source) is None:
                raise missing(f"Cannot rename {what}: there is no such file or directory")
            if not self.is_directory(target.rpartition("/")[0]):
                raise missing(f"Cannot rename {what}: {target.rpartition('/')[0]} is no directory")
            raise ConflictError(f"Cannot rename {what}: {target} already exists")  # or did, a moment ago

    def remove_file(self, path: str, *, missing: type[AcidError] = CorruptError) -> None:
        """Remove one file; never a directory that is not empty. A removal whose answer was lost counts."""
        with raising_ozone_errors("remove", path, missing=missing):
            if not self._delete(path, recursive=False):
                raise missing(f"Cannot remove {path}: there is no such file or directory")

    def remove_empty_directory(self, path: str) -> bool:
        try:
            with asking("remove", path):
                return self._delete(path, recursive=False)
        except (OSError, HttpFsError) as error:
            if isinstance(error, HttpFsError) and error.name == "PathIsNotEmptyDirectoryException":
                return False
            raise ozone_acid_error(error, "remove", path) from error

    def remove_tree(self, root: str, relative: str, *, identity: str = "", pace: Pace | None = None) -> None:
        """Remove a directory by one call, or at a pace file by file."""
        del identity  # it has none: no link leads from one place to another
        path = "/".join((root, *safe_parts(root, relative)))
        if pace is not None:
            self.remove_files(path, pace)
        with raising_ozone_errors("remove", path, missing=ConflictError):
            if not self._delete(path, recursive=True):
                raise ConflictError(f"Cannot remove {path}: there is no such file or directory")

    def bucket_of(self, path: str) -> str:
        """Return the URI of the bucket in which a path lies."""
        return self._server.uri + "/".join(self._server.inside(path).split("/", 3)[:3])

    def require_directories(self, path: str) -> str:
        """Raise BrokenPromiseError for a bucket without directories of its own, where a rename is one of each key.

        No request tells a bucket's layout. But a rename of a directory to below itself, which no layout does, is
        refused in another way (Ozone `BasicRootedOzoneFileSystem.rename`).
        """
        try:
            with asking("look at", path):
                below = f"{path}/{beside('/_acidlib_layout')[1:]}"
                self._change(path, lambda _: self._server.change("PUT", path, "RENAME", destination=self._to(below)))
        except HttpFsError as error:
            if error.name == "IllegalArgumentException" or "OBJECT_STORE" in error.message:
                raise BrokenPromiseError(
                    f"Cannot publish in {path}: its bucket has the layout LEGACY or OBJECT_STORE, which renames no "
                    "directory atomically; FILE_SYSTEM_OPTIMIZED is needed"
                ) from error
            raise ozone_acid_error(error, "look at", path) from error
        except OSError as error:
            raise ozone_acid_error(error, "look at", path) from error
        return "a directory was not renamed key by key"

    def _make(self, action: str, path: str, make: Callable[[str], object]) -> None:
        """Make something under its name in a hidden directory beside it, and rename it into its parent."""
        parent, _, name = path.rpartition("/")
        temporary = beside(path)
        own = f"{temporary}/{name}"
        with raising_ozone_errors(action, path):
            if self._ask(lambda: self._server.status(parent))["type"] != "DIRECTORY":
                raise CorruptError(f"Cannot {action} {path}: {_NOT_IN_A_DIRECTORY}")
            try:
                self._change(own, lambda _: make(own))
                if not self._move(own, parent, found_at=path, identity=None):
                    if self._status_or_none(own) is None:
                        raise RetryError(f"Cannot {action} {path}: what was made for it is gone")
                    raise ConflictError(f"Cannot {action} {path}: it already exists")
            finally:
                with suppress(OSError, HttpFsError, AcidError):  # the name is hidden
                    self._delete(temporary, recursive=True)

    def _move(self, source: str, directory: str, *, found_at: str, identity: tuple[object, ...] | None) -> bool:
        """Rename something into a directory, or to a free name; return whether it was done.

        After a lost answer it was if the source is gone, and what lies at `found_at` is what it was.
        """

        def was_done() -> bool:
            if self._status_or_none(source) is not None:
                return False
            after = self._status_or_none(found_at)
            return after is not None and identity in (None, _identity(after))

        destination = self._to(directory)

        def rename(lost: int) -> bool:
            return self._server.change("PUT", source, "RENAME", destination=destination) or (lost > 0 and was_done())

        return self._change(source, rename, was_done=was_done) is not False

    def _move_free(self, source: str, target: str, identity: tuple[object, ...]) -> bool:
        """Rename to a name that was free; return False where it is not any more, with the source in its old place."""
        is_done = self._move(source, target, found_at=target, identity=identity)
        nested = f"{target}/{source.rpartition('/')[2]}"
        inside = self._status_or_none(nested) if is_done or self._status_or_none(source) is None else None
        if inside is None or _identity(inside) != identity:
            return is_done
        above = source.rpartition("/")[0]
        if not self.is_directory(above) or not self._move(nested, above, found_at=source, identity=identity):
            raise UnknownOutcomeError(
                f"Cannot rename {source} to {target}: a directory was made there meanwhile, in which it lies now"
            )
        return False

    def _to(self, path: str) -> str:
        return self._server.target(path)

    def _entry(self, name: str, status: Mapping[str, Any]) -> Entry:
        is_directory = status["type"] == "DIRECTORY"
        return Entry(
            path=name,
            is_directory=is_directory,
            is_ours=status["owner"] == self._server.user,
            length=0 if is_directory else status["length"],
            modified=status["modificationTime"] / 1000,
        )

    def _status_or_none(self, path: str) -> dict[str, Any] | None:
        return self._ask(lambda: _status_or_none(self._server, path))

    def _delete(self, path: str, *, recursive: bool) -> bool:
        """Delete a path; return whether it was there, as it was if it is gone after a lost answer."""

        def delete(lost: int) -> bool:
            return self._server.change("DELETE", path, "DELETE", recursive=str(recursive).lower()) or lost > 0

        return bool(self._change(path, delete))

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        """Return the answer to a question; note gateways that were waited for in vain."""
        self._require_reachable()
        try:
            return question()
        except OSError as error:
            self._note_unreachable(error)
            raise

    def _change(
        self, path: str, change: Callable[[int], Answer], *, was_done: Callable[[], bool] | None = None
    ) -> Answer | None:
        """Make a change, as `repeating.changed` does."""
        self._require_reachable()
        return changed(
            change,
            was_done,
            failure=failure_of_httpfs,
            tries=_TRIES,
            is_patient=False,
            away=self._note_unreachable,
            unknown=lambda error: _unknown(path, error),
        )

    def _require_reachable(self) -> None:
        reason = None if self._unreachable is None else self._unreachable.reason(self._server.uri)
        if reason is not None:
            raise HttpFsNotAskedError(reason)

    def _note_unreachable(self, error: Exception) -> None:
        if self._unreachable is not None:
            self._unreachable.note(self._server.uri, str(error))


class OzoneStore(RenameStore):
    """`Store` of one Ozone service, which is tried for directories."""

    fs: OzoneFileSystem

    def claim(self, location: Location, *, owner: str, token: str, now: float) -> Claim:
        if (bucket := self.fs.bucket_of(str(location))) not in _WITH_DIRECTORIES:
            self.fs.require_directories(str(location))
            _WITH_DIRECTORIES.add(bucket)
        return super().claim(location, owner=owner, token=token, now=now)

    def promises(self) -> tuple[Promise, ...]:
        return ozone_promises(self.fs, self.fs.require_directories)


_WITH_DIRECTORIES: set[str] = set()
"""The buckets of which this process has seen that they have directories."""


def _stays_below(source: str, target: str) -> bool:
    """Tell whether a rename keeps the name, and leads to a directory above the source."""
    parent, _, name = target.rpartition("/")
    return source.rpartition("/")[2] == name and source.startswith(f"{parent}/")


def _status_or_none(server: HttpFs, path: str) -> dict[str, Any] | None:
    try:
        return server.status(path)
    except HttpFsError as error:
        if error.name == "FileNotFoundException":
            return None
        raise


def _identity(status: Mapping[str, Any]) -> tuple[object, ...]:
    return status["type"], status["length"], status["modificationTime"], status["owner"]


def _unknown(path: str, error: BaseException) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"Cannot tell the outcome of a change of {path}: HttpFS was lost after the request ({error})"
    )
