"""Azure Data Lake Storage with a hierarchical namespace: data files, and a file system and store that rename.

What differs from HDFS:

- The service makes all directories above a new path. So nothing is made where it belongs: a new file or directory is
  made under a name of its own directly in the place, `_acidlib_new.<unique>`, and renamed from there, which fails where
  the directory above is gone. An attempt that outlives its run so brings no revoked staging directory back. The place
  itself is looked for before something is made directly in it; one that is dropped in that very moment is there again,
  empty.
- A rename overwrites unless a condition forbids it, and Microsoft does not say that a directory's time moves when a
  name in it changes. So it is not asked for (`names_changed`), and the sign of life of a claim is the time of its
  record, which setting a property moves ("Path - Update": write operations update the last modified time).
- The version of what was just made, its ETag, is a condition of its first rename: no other writer can have exchanged
  it.
- A file has the bytes of its last flush, none before the first.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

from acidlib.datafiles import SourceFile
from acidlib.errors import AcidError, ConflictError, CorruptError, RetryError
from acidlib.memory import DEFAULT_MEMORY, Memory
from acidlib.stores.filesystem import Entry, Pace, RenameFileSystem, require_few, require_small, safe_parts
from acidlib.stores.http import LostAnswerError
from acidlib.stores.promises import Promise
from acidlib.stores.reading import END_BYTES, MAX_BYTES_AHEAD, AheadSource
from acidlib.stores.renaming.abfs_client import CHANGED, AnswerError, Container, PathStatus
from acidlib.stores.renaming.abfs_trials import abfs_promises
from acidlib.stores.renaming.store import RenameStore
from acidlib.stores.store import NEW, TaskFiles, copy_through
from acidlib.waiting import asking

_PIECE = 8 << 20
"""Bytes of one append, and of one read of a copy."""
_AT_ONCE = 4
"""Appends to one file that are under way."""
_LISTED = "5000"
"""Paths in one answer to a list, the most that the service gives."""
_MAX_EMPTY_PAGES = 1000
"""Answers to a list that have no paths, and name a next one."""


class AbfsSource(AheadSource):
    """A file of a known logical length. All reads are of the version that the first request saw."""

    __slots__ = ("_container", "_path", "_version")

    def __init__(self, container: Container, path: str, length: int, memory: Memory) -> None:
        super().__init__(path, length, memory, most_ahead=MAX_BYTES_AHEAD, end_bytes=END_BYTES)
        self._container = container
        self._path = container.inside(path)
        self._version = ""
        if length:
            self.read(length - 1, 1)
        else:
            _require_file(container, path)

    def _fetched(self, offset: int, size: int) -> bytes:
        headers = {"Range": f"bytes={offset}-{offset + size - 1}"}
        if self._version:
            headers["If-Match"] = self._version
        with self._container.raising("read", self.name):
            try:
                answer = self._container.ask("GET", self._path, {}, headers)
            except AnswerError as error:
                if error.code in CHANGED:
                    raise CorruptError(
                        f"Cannot read {self.name}: another file took its place while it was read"
                    ) from error
                if error.answer.status == 416:
                    self._require_length(_require_file(self._container, self.name).length)
                raise
            if answer.headers.get("x-ms-resource-type") == "directory":
                raise CorruptError(f"Cannot read {self.name}: it is a directory")
            self._require_length(int(answer.headers.get("content-range", "").rpartition("/")[2] or -1))
        self._version = answer.headers["etag"]
        self._require_size(answer.body, offset, size)
        return answer.body


def _require_file(container: Container, path: str) -> PathStatus:
    with container.raising("read", path):
        status = container.status(container.inside(path))
    if status is None:
        raise CorruptError(f"Cannot read {path}: there is no such file or directory")
    if status.is_directory:
        raise CorruptError(f"Cannot read {path}: it is a directory")
    return status


class AbfsSink:
    """A new file, written from start to end by appends at their positions, of which some are under way at once."""

    __slots__ = ("_container", "_is_open", "_parts", "_path", "_sent", "_threads", "_waiting", "name", "position")

    def __init__(self, container: Container, place: str, path: str) -> None:
        self.name = path
        self.position = 0
        self._container = container
        self._path = container.inside(path)
        self._waiting = bytearray()
        self._sent = 0
        self._parts: deque[Future[None]] = deque()
        self._threads: ThreadPoolExecutor | None = None
        with container.raising("write", path, missing=ConflictError):
            _make(container, place, self._path, is_directory=False)
        self._is_open = True

    def write(self, data: Any) -> None:
        """Append all bytes of a buffer."""
        self._require_open()
        view = memoryview(data).cast("B")
        self.position += len(view)
        self._waiting += view
        try:
            while len(self._waiting) >= _PIECE:
                self._send(bytes(self._waiting[:_PIECE]))
                del self._waiting[:_PIECE]
        except BaseException:
            self._is_open = False
            raise

    def copy(self, source: SourceFile, offset: int, size: int) -> None:
        """Append a range of another file, through this process: the service copies no ranges."""
        copy_through(self, source, offset, size, piece=_PIECE)

    def close(self, *, durable: bool = True) -> None:  # noqa: ARG002 - each answer says that it is
        """Send the rest, and make all of it the contents of the file."""
        self._require_open()
        self._is_open = False
        with self._container.raising("write", self.name, missing=ConflictError):
            if self._parts and self._waiting:
                self._send(bytes(self._waiting))
                self._waiting.clear()
            while self._parts:
                self._parts.popleft().result()
            self._stop()
            _finish(self._container, self._path, self.position, bytes(self._waiting))
            self._waiting.clear()

    def abort(self) -> None:
        """Remove the file; where that fails it goes with the staging directory."""
        self._is_open = False
        self._stop()
        with suppress(AnswerError, LostAnswerError, AcidError), asking("remove", self.name):
            self._container.delete(self._path, recursive=False)

    def _send(self, data: bytes) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="acidlib-append")
        with self._container.raising("write", self.name, missing=ConflictError):
            if len(self._parts) >= _AT_ONCE:  # memory holds no more than are under way
                self._parts.popleft().result()
        self._parts.append(self._threads.submit(_append, self._container, self._path, self._sent, data))
        self._sent += len(data)

    def _stop(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
            self._threads = None

    def _require_open(self) -> None:
        if not self._is_open:
            raise ValueError(f"{self.name} is closed, or could not be written")


def _append(container: Container, path: str, position: int, data: bytes) -> None:
    container.change("PATCH", path, {"action": "append", "position": str(position)}, {}, data)


def _finish(container: Container, path: str, length: int, rest: bytes = b"") -> str:
    """Append the rest of a file of so many bytes, and flush all; return its version. An empty file is there already.

    What is flushed twice, after a lost answer, is refused; then the length tells whether it was done.
    """
    if not length:
        return ""

    def was_done() -> bool:
        now = container.status(path)
        return now is not None and now.length == length

    query = {"action": "flush", "position": str(length), "close": "true"}
    if rest:
        query = {"action": "append", "position": str(length - len(rest)), "flush": "true", "close": "true"}
    answer = container.change("PATCH", path, query, {}, rest, was_done=was_done)
    return "" if answer is None else answer.headers.get("etag", "")


def _make(container: Container, place: str, path: str, *, is_directory: bool, data: bytes = b"") -> str:
    """Make a file or directory exclusively, whole, in a directory that is there; return its version where it is known.

    place  the path of the place in which it lies
    """
    own = f"{place}/{NEW}{uuid.uuid4().hex}".lstrip("/")
    if path.rpartition("/")[0] == place:
        container.require_there(place)
    version = container.make(own, is_directory=is_directory)
    try:
        if data:
            version = _finish(container, own, len(data), data)
        container.rename(own, path, version=version)
    except BaseException:
        with suppress(AnswerError, LostAnswerError, AcidError):
            container.delete(own, recursive=False)
        raise
    return version


class AbfsDataFiles(TaskFiles):
    """The data files of one container, for one task. It may be pickled."""

    __slots__ = ("_container", "_place")

    def __init__(self, container: Container, memory: Memory = DEFAULT_MEMORY, *, place: str = "") -> None:
        """Open no connection; `place` is the path below which they lie."""
        super().__init__(memory)
        self._container = container
        self._place = place.strip("/")

    def open(self, path: str, length: int) -> AbfsSource:
        """Open an input of `length` logical bytes; CorruptError when it is missing or shorter."""
        return AbfsSource(self._container, path, length, self.memory)

    def create(self, path: str) -> AbfsSink:
        """Create a file in a directory that is there: an attempt that outlived its run must not bring staging back."""
        return AbfsSink(self._container, self._place, path)


_USERS: dict[tuple[str, str], str] = {}
"""The owner of what this process has made at a place, by container and path: the service alone knows whose a login is.

While it has made nothing there it changes nothing either, as every change at a place begins with a claim.
"""


class AbfsFileSystem(RenameFileSystem):
    """Files of one container, by URI. It holds options only, and may be shared and pickled."""

    __slots__ = ("_container", "_place")

    def __init__(self, container: Container, *, place: str = "") -> None:
        """Open no connection; `place` is the path below which it is used."""
        self._container = container
        self._place = place.strip("/")

    def exists(self, path: str) -> bool:
        return self._found(path) is not None

    def is_directory(self, path: str) -> bool:
        status = self._found(path)
        return status is not None and status.is_directory

    def entry(self, path: str, *, missing: type[AcidError] = CorruptError) -> Entry:
        return self._entry(path.rstrip("/").rpartition("/")[2], self._status(path, missing))

    def names_changed(self, path: str, *, missing: type[AcidError] = CorruptError) -> float:
        """Return 0: the service does not say that it keeps such times."""
        del path, missing
        return 0.0

    def owner(self, path: str) -> str | None:
        return self._status(path, CorruptError).owner or None

    def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
        inside = self._container.inside(path)
        entries: list[Entry] = []
        try:
            for item in self._listed(path, inside):
                name = str(item["name"]).removeprefix(f"{inside}/" if inside else "")
                entries.append(self._entry(name, _listed_status(item)))
                require_few(path, len(entries))
        except _AbsentError as error:
            why = "there is no such file or directory" if self._found(path) is None else "it is not a directory"
            raise missing(f"Cannot list {path}: {why}") from error
        if not entries and inside and not self._status(path, missing).is_directory:
            raise missing(f"Cannot list {path}: it is not a directory")
        return tuple(sorted(entries, key=lambda entry: entry.path))

    def read(self, path: str, *, missing: type[AcidError] = CorruptError) -> bytes:
        self._container.require_namespace()
        with self._container.raising("read", path, missing=missing):
            status = self._container.status(self._container.inside(path))
            if status is None:
                raise missing(f"Cannot read {path}: there is no such file or directory")
            if status.is_directory:
                raise missing(f"Cannot read {path}: it is a directory")
            require_small(path, status.length)
            if not status.length:
                return b""
            answer = self._container.ask("GET", self._container.inside(path), {}, {"If-Match": status.version})
        if len(answer.body) != status.length:
            raise RetryError(f"Cannot read {path}: {len(answer.body)} of {status.length} bytes came")
        return answer.body

    def create(self, path: str, data: bytes, *, durable: bool = True) -> None:
        del durable  # as `sync`
        with self._container.raising("write", path):
            _make(self._container, self._place, self._container.inside(path), is_directory=False, data=data)

    def make_directory(self, path: str) -> None:
        """Make it under a name of its own, and rename it; so it is known by whom, as it cannot be exchanged before."""
        self._container.require_namespace()
        inside = self._container.inside(path)
        with self._container.raising("create", path):
            _make(self._container, self._place, inside, is_directory=True)
            self._note_user(inside)

    def inherit(self, path: str, like: str, *, owner: bool = True) -> None:
        """Give owner, group and mode, as far as this user may; what has an access control list of more entries has its
        rights from the default entries above.
        """
        wanted = self._status(like, CorruptError)
        inside = self._container.inside(path)
        items = [(inside, self._status(path, CorruptError))]
        waiting = [path]
        while waiting:
            above = waiting.pop()
            for item in self._listed(above, self._container.inside(above)):
                status = _listed_status(item)
                items.append((str(item["name"]), status))
                if status.is_directory:
                    waiting.append(f"{above}/{str(item['name']).rpartition('/')[2]}")
                require_few(path, len(items))
        for inside, status in items:
            if self._is_ours(status.owner):
                self._inherit(inside, status, wanted, owner=owner)

    def _inherit(self, path: str, status: PathStatus, wanted: PathStatus, *, owner: bool) -> None:
        mode = wanted.permissions if status.is_directory else re.sub("[xtT]", "-", wanted.permissions)
        has_more = "+" in status.permissions or "+" in wanted.permissions
        changes = [
            {"x-ms-permissions": mode} if mode and mode != status.permissions and not has_more else {},
            {"x-ms-group": wanted.group} if wanted.group not in ("", status.group) else {},
            {"x-ms-owner": wanted.owner}
            if owner and wanted.owner not in ("", status.owner)
            else {},  # only a superuser may
        ]
        for change in filter(None, changes):
            with self._container.raising("change the rights of", path):
                try:
                    self._container.change("PATCH", path, {"action": "setAccessControl"}, change)
                except AnswerError as error:
                    if error.answer.status != 403:
                        raise

    def sync(self, path: str) -> None:
        """Do nothing: an answer says that the change is durable."""

    def sync_tree(self, path: str) -> None:
        """Do nothing, as `sync`."""

    def show_life(self, path: str) -> None:
        beat = base64.b64encode(uuid.uuid4().hex.encode()).decode()
        with self._container.raising("renew", path, missing=ConflictError):
            self._container.change(
                "PATCH",
                self._container.inside(path),
                {"action": "setProperties"},
                {"x-ms-properties": f"acidlib={beat}"},
            )

    def rename_noreplace(
        self, source: str, target: str, *, missing: type[AcidError] = CorruptError, durable: bool = True
    ) -> None:
        """Rename; nothing is ever replaced, not even an empty directory."""
        del durable  # as `sync`
        container = self._container
        try:
            with container.raising("rename", f"{source} to {target}", missing=missing):
                container.rename(container.inside(source), container.inside(target))
        except ConflictError as error:
            if "already exists" in error.words:
                raise ConflictError(f"Cannot rename {source} to {target}: {target} already exists") from error
            raise

    def remove_file(self, path: str, *, missing: type[AcidError] = CorruptError) -> None:
        """Remove one file; never a directory that is not empty. A removal whose answer was lost counts."""
        with self._container.raising("remove", path, missing=missing):
            is_gone = self._container.delete(self._container.inside(path), recursive=False)
        if not is_gone:
            raise missing(f"Cannot remove {path}: there is no such file or directory")

    def remove_empty_directory(self, path: str) -> bool:
        with self._container.raising("remove", path):
            try:
                return self._container.delete(self._container.inside(path), recursive=False)
            except AnswerError as error:
                if error.code == "DirectoryNotEmpty":
                    return False
                raise

    def remove_tree(self, root: str, relative: str, *, identity: str = "", pace: Pace | None = None) -> None:
        """Remove a directory by one call, and those that go on with it, or at a pace file by file."""
        del identity  # it has none: no link leads from one place to another
        path = "/".join((root, *safe_parts(root, relative)))
        if pace is not None:
            self.remove_files(path, pace)
        with self._container.raising("remove", path, missing=ConflictError):
            is_gone = self._container.delete(self._container.inside(path), recursive=True)
        if not is_gone:
            raise ConflictError(f"Cannot remove {path}: there is no such file or directory")

    def _found(self, path: str) -> PathStatus | None:
        self._container.require_namespace()
        with self._container.raising("look at", path):
            return self._container.status(self._container.inside(path))

    def _status(self, path: str, missing: type[AcidError]) -> PathStatus:
        status = self._found(path)
        if status is None:
            raise missing(f"Cannot look at {path}: there is no such file or directory")
        return status

    def _entry(self, name: str, status: PathStatus) -> Entry:
        return Entry(
            path=name,
            is_directory=status.is_directory,
            length=0 if status.is_directory else status.length,
            modified=status.modified,
            is_ours=self._is_ours(status.owner),
        )

    def _listed(self, path: str, inside: str) -> Iterable[Mapping[str, Any]]:
        """Yield the entries of a directory as the service gives them, page by page; `_AbsentError` without one."""
        self._container.require_namespace()
        query = {"resource": "filesystem", "directory": inside, "recursive": "false", "maxResults": _LISTED}
        empty = 0
        while True:
            with self._container.raising("list", path, missing=_AbsentError):
                answer = self._container.ask("GET", "", query)
            try:
                paths = json.loads(answer.body)["paths"]
                yield from paths
            except (KeyError, TypeError, ValueError) as error:
                raise _strange(path, error) from error
            if not (token := answer.headers.get("x-ms-continuation", "")):
                return
            empty += not paths
            if empty > _MAX_EMPTY_PAGES or token == query.get("continuation"):
                raise RetryError(f"Cannot list {path}: the listing has no end")
            query["continuation"] = token

    def _is_ours(self, owner: str) -> bool:
        user = _USERS.get((self._container.shown, self._place))
        return user is None or owner == user

    def _note_user(self, path: str) -> None:
        """Note the owner of what this process has just made, the first time at a place."""
        key = self._container.shown, self._place
        if key not in _USERS and (status := self._container.status(path)) is not None:
            _USERS[key] = status.owner


def _listed_status(item: Mapping[str, Any]) -> PathStatus:
    """Return the status in an entry of a listing, where flags and numbers are texts."""
    try:
        return PathStatus(
            is_directory=str(item.get("isDirectory", "false")).lower() == "true",
            length=int(item.get("contentLength", 0)),
            modified=parsedate_to_datetime(item["lastModified"]).timestamp(),
            version=str(item.get("etag", "")),
            owner=str(item.get("owner", "")),
            group=str(item.get("group", "")),
            permissions=str(item.get("permissions", "")),
            transaction="",
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _strange(str(item), error) from error


def _strange(what: str, error: Exception) -> RetryError:
    return RetryError(f"Cannot list {what}: that is no answer of Azure Data Lake Storage ({error})")


class _AbsentError(AcidError):
    """There is no directory to list."""

    kind = "corrupt"


class AbfsStore(RenameStore):
    """`Store` of one container. No emulator has its service, so each account has to be proved by a probe."""

    fs: AbfsFileSystem
    demands_probe = True

    def promises(self) -> tuple[Promise, ...]:
        return abfs_promises(self.fs, self._container)

    def __init__(self, container: Container, *, place: str = "") -> None:
        super().__init__(AbfsFileSystem(container, place=place))
        self._container = container
