"""Listings and small files of what only Hadoop can open, as a `FileSystem` that removes nothing."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any, NoReturn

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from acidlib.errors import AcidError, CorruptError, RefusedError
from acidlib.storage.filesystem import Entry, TreeEntry
from acidlib.storage.jvm.hadoop import Hadoop, InHadoop
from acidlib.storage.tree import walk_tree
from acidlib.storage.unanswered import Unanswered

_Packed = tuple[int, bytes]
_SIZE = struct.Struct(">i")
_DIRECTORY, _SYMLINK = 1, 3
_BEFORE_PATH = re.compile(r"^[^/]*:(//[^/]*)?")


class JvmFileSystem:
    """What Hadoop lists, by whole URIs. It may be pickled, but only the driver can ask.

    A listing takes a few calls of the JVM, however many names it holds.
    """

    __slots__ = ("_hadoop", "_unanswered")

    def __init__(self, hadoop: Hadoop, unanswered: Unanswered | None = None) -> None:
        """Starts nothing."""
        self._hadoop = hadoop
        self._unanswered = unanswered

    def exists(self, path: str) -> bool:
        return self._found(path) is not None

    def is_directory(self, path: str) -> bool:
        found = self._found(path)
        return found is not None and _entry(found).is_directory

    def entry(self, path: str, *, missing: type[AcidError] = CorruptError) -> Entry:
        return _entry(self._status("look at", path, missing))

    def names_changed(self, path: str, *, missing: type[AcidError] = CorruptError) -> float:
        """0: what the time of a directory means differs between these stores."""
        del path, missing
        return 0.0

    def owner(self, path: str) -> str | None:
        return self._status("look at", path, CorruptError).owner or None

    def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
        found = self._statuses("list", path, _listed, missing)
        if [_path(one.path) for one in found] == [_path(path)]:  # what it tells of a file
            raise missing(f"Cannot list {path}: because it is not a directory")
        return tuple(sorted(map(_entry, found), key=lambda entry: entry.name))

    def list_tree(
        self, path: str, *, enter_hidden: bool, missing: type[AcidError] = CorruptError
    ) -> tuple[TreeEntry, ...]:
        return walk_tree(self, path, enter_hidden=enter_hidden, missing=missing)

    def read(self, path: str, *, missing: type[AcidError] = CorruptError) -> bytes:
        if _entry(self._status("read", path, missing)).is_directory:
            raise missing(f"Cannot read {path}: because it is a directory")

        def contents(here: InHadoop) -> bytes:
            stream = here.files.open(here.path)
            try:
                return bytes(here.jvm.org.apache.hadoop.io.IOUtils.readFullyToByteArray(stream))
            finally:
                stream.close()

        return self._hadoop.ask(path, "read", contents, missing=missing, unanswered=self._unanswered)

    def remove_tree(self, root: str, relative: str) -> NoReturn:
        """`RefusedError`: nothing is changed that way."""
        raise RefusedError(f"Cannot remove {root}/{relative}: because through Hadoop files are only looked at")

    def _found(self, path: str) -> Any:
        try:
            return self._status("look at", path, _AbsentError)
        except _AbsentError:
            return None

    def _status(self, action: str, path: str, missing: type[AcidError]) -> Any:
        def packed(here: InHadoop) -> _Packed:
            array = _new_array(here.jvm, 1)
            here.jvm.java.lang.reflect.Array.set(array, 0, here.files.getFileStatus(here.path))
            return 1, _packed(here.jvm, array)

        (found,) = self._statuses(action, path, packed, missing)
        return found

    def _statuses(
        self, action: str, path: str, packed: Callable[[InHadoop], _Packed], missing: type[AcidError]
    ) -> list[Any]:
        number, data = self._hadoop.ask(path, action, packed, missing=missing, unanswered=self._unanswered)
        found, offset = [], 0
        for _ in range(number):  # what is behind the last is room in Java's buffer
            (size,) = _SIZE.unpack_from(data, offset)
            offset += _SIZE.size + size
            found.append(_FileStatus.FromString(data[offset - size : offset]))
        return found


class _AbsentError(AcidError):
    """There is nothing, and that is an answer."""

    kind = "missing"


def _listed(here: InHadoop) -> _Packed:
    found = here.files.listStatus(here.path)
    number = len(found)
    array = _new_array(here.jvm, number)
    here.jvm.java.lang.System.arraycopy(found, 0, array, 0, number)
    return number, _packed(here.jvm, array)


def _new_array(jvm: Any, length: int) -> Any:
    """One of the very type that `_packed` needs: py4j hands over no array of a subtype."""
    kind = jvm.java.lang.Class.forName("org.apache.hadoop.io.Writable")
    return jvm.java.lang.reflect.Array.newInstance(kind, length)


def _packed(jvm: Any, statuses: Any) -> bytes:
    """All fields of all statuses in one answer, as Hadoop writes them: the length of a message, and the message."""
    return bytes(jvm.org.apache.hadoop.io.WritableUtils.toByteArray(statuses))


def _message_of_status() -> Any:
    """What is read of Hadoop's `FileStatusProto` (FSProtos.proto)."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="acidlib/status.proto", package="acidlib.jvm", syntax="proto2")
    message = file.message_type.add(name="FileStatus")
    for name, number, kind in (
        ("kind", 1, kinds.TYPE_INT32),
        ("path", 2, kinds.TYPE_STRING),
        ("length", 3, kinds.TYPE_UINT64),
        ("owner", 5, kinds.TYPE_STRING),
        ("modified_ms", 7, kinds.TYPE_UINT64),
    ):
        message.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("acidlib.jvm.FileStatus"))


_FileStatus = _message_of_status()


def _path(uri: str) -> str:
    """A path without what stands before it; Hadoop writes `file:` with slashes or without."""
    return _BEFORE_PATH.sub("", uri).rstrip("/")


def _entry(status: Any) -> Entry:
    is_directory = status.kind == _DIRECTORY
    return Entry(
        name=_path(status.path).rpartition("/")[2],
        is_directory=is_directory,
        is_symlink=status.kind == _SYMLINK,
        length=0 if is_directory else status.length,
        modified=status.modified_ms / 1000,
    )
