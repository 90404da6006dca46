"""The promises of Azure Data Lake Storage besides those of a file system with atomic renames, and their trials.

Its directories need not have times, so that promise is none of them: a claim has the times of its record.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from acidlib.errors import AcidError, ConflictError, CorruptError
from acidlib.stores.filesystem import RenameFileSystem
from acidlib.stores.promises import BrokenPromiseError, Promise, require, require_conflict
from acidlib.stores.renaming.abfs_client import CHANGED, AnswerError, Container
from acidlib.stores.renaming.trials import TIMES, renaming_promises

_STEP_SECONDS = 1.2
"""After which a change moves a time that is kept in whole seconds."""


def abfs_promises(fs: RenameFileSystem, container: Container) -> tuple[Promise, ...]:
    """Return what publication and claims rely on in a container."""

    def tried(trial: Callable[[RenameFileSystem, Container, str], str]) -> Callable[[str], str]:
        def at(place: str) -> str:
            fs.make_directory(place)
            with container.raising("try", place):
                return trial(fs, container, place)

        return at

    return (
        Promise(
            name="hierarchical namespace",
            sentence="The account has a hierarchical namespace: a path has an access control list.",
            trial=tried(_namespace),
            is_quick=True,
        ),
        *(promise for promise in renaming_promises(fs) if promise.name != TIMES),
        Promise(
            name="a renamed path tells its request",
            sentence="What was renamed names the transaction that did it, by which a lost answer is made up for.",
            trial=tried(_transactions),
            is_quick=True,
        ),
        Promise(
            name="conditions on versions are kept",
            sentence="A condition on the version of a file or directory is kept by renames and reads.",
            trial=tried(_versions),
            is_quick=True,
        ),
        Promise(
            name="a file is as last flushed",
            sentence="A file has the bytes of its last flush, all of them and no others.",
            trial=tried(_flushes),
        ),
        Promise(
            name="setting a property moves the time",
            sentence="A property that is set moves the time of its file, by which a claim is alive.",
            trial=tried(_sign_of_life),
        ),
    )


def _namespace(_: RenameFileSystem, container: Container, place: str) -> str:
    try:
        container.ask("HEAD", container.inside(place), {"action": "getAccessControl"})
    except AnswerError as error:
        if error.answer.status == 400:
            raise BrokenPromiseError("the account has no hierarchical namespace") from error
        raise
    return "the folder has an access control list"


def _transactions(fs: RenameFileSystem, container: Container, place: str) -> str:
    fs.make_directory(f"{place}/directory")
    fs.create(f"{place}/file", b"data", durable=False)
    for name in ("directory", "file"):
        transaction = str(uuid.uuid4())
        source, target = (container.inside(f"{place}/{path}") for path in (name, f"{name}.renamed"))
        container.rename(source, target, transaction=transaction)
        status = container.status(target)
        named = "" if status is None else status.transaction
        require(named == transaction, f"a {name} that was renamed names {named or 'no transaction'}, not its own")
    return "a file and a directory named theirs"


def _versions(fs: RenameFileSystem, container: Container, place: str) -> str:
    for name, make in (("directory", fs.make_directory), ("file", lambda path: fs.create(path, b"data"))):
        path = f"{place}/{name}"
        make(path)
        status = container.status(container.inside(path))
        require(status is not None and status.version, f"a {name} has no version")
        stale = '"0x0000000000000000"'

        def rename(path: str = path, stale: str = stale) -> None:
            with container.raising("rename", path, missing=CorruptError):
                container.rename(container.inside(path), container.inside(f"{path}.renamed"), version=stale)

        require_conflict(rename, f"a {name} of another version was renamed")
        require(fs.exists(path), f"a rename of a {name} was refused, and it is gone")
    status = container.status(container.inside(f"{place}/file"))
    version = "" if status is None else status.version
    fs.remove_file(f"{place}/file", missing=ConflictError)
    fs.create(f"{place}/file", b"others", durable=False)
    try:
        container.ask("GET", container.inside(f"{place}/file"), {}, {"If-Match": version})
    except AnswerError as error:
        if error.code in CHANGED or error.answer.status == 412:
            return "renames and reads of another version were refused"
        raise
    raise BrokenPromiseError("another file of the name was read in place of the one that was asked for")


def _flushes(fs: RenameFileSystem, container: Container, place: str) -> str:
    path = container.inside(f"{place}/file")
    container.make(path, is_directory=False)

    def require_length(length: int, when: str) -> None:
        listed = [entry.length for entry in fs.list_directory(place)]
        require(listed == [length], f"a file is listed with {listed} bytes {when}, not {length}")
        require(fs.entry(f"{place}/file").length == length, f"a file has not {length} bytes {when}")

    def send(position: int, data: bytes, **more: str) -> None:
        container.change("PATCH", path, {"action": "append", "position": str(position), **more}, {}, data)

    send(4, b"5678")
    send(0, b"1234")
    require_length(0, "before its first flush")
    container.change("PATCH", path, {"action": "flush", "position": "8"}, {})
    require_length(8, "after its first flush")
    send(8, b"9")
    require_length(8, "before its second flush")
    send(8, b"9", flush="true", close="true")
    require_length(9, "after its second flush")
    require(fs.read(f"{place}/file") == b"123456789", "a file has other bytes than were appended to it")
    return "9 bytes by three appends, one of them twice"


def _sign_of_life(fs: RenameFileSystem, _: Container, place: str) -> str:
    path = f"{place}/file"
    fs.create(path, b"data", durable=False)
    before = fs.entry(path).modified
    time.sleep(_STEP_SECONDS)
    try:
        fs.show_life(path)
    except AcidError as error:
        raise BrokenPromiseError(f"a property could not be set: {error}") from error
    require(fs.entry(path).modified > before, "a property was set, and the time of the file is as before")
    require(fs.read(path) == b"data", "a property was set, and the file has other bytes")
    return f"it moved within {_STEP_SECONDS:g} s"
