"""File systems by URI behind one small interface, with what each of them promises.

Everything that touches a table's files goes through `FileSystem`. What the commit protocol needs of a file system is
said in `Promises`: a rename that is atomic and fails on an existing target, and a file that is created whole or not
at all. A file system that cannot promise them must be published to in another way, or not at all.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from acidlib.errors import AcidError, CorruptError, RefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """What a file system guarantees to the commit protocol."""

    atomic_rename_noreplace: bool  # files and directories; fails when the target exists, even an empty directory
    exclusive_create: bool  # of two creators of one name exactly one succeeds, and readers see whole contents only
    compare_and_swap: bool  # a small file is replaced or removed only while it still has the expected contents
    durable: bool  # what was synced survives a loss of power


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name in a directory. `length` is in bytes, `modified` in seconds since the epoch."""

    name: str
    is_directory: bool
    is_symlink: bool
    length: int
    modified: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEntry:
    """One file or directory below a root. `path` is relative to the root, with forward slashes."""

    path: str
    is_directory: bool
    length: int
    modified: float


class FileSystem(Protocol):
    """The operations of one file system; paths are absolute within it, with forward slashes.

    Every failure is an `AcidError`: no space, no permission and input/output errors are `RetryError`; a path that is
    missing is `missing` where the method takes it (default `CorruptError`); an existing target is `ConflictError`;
    a symbolic link where none may be followed is `RefusedError`.
    """

    @property
    def promises(self) -> Promises:
        """What this file system guarantees."""

    def uri(self, path: str) -> str:
        """The URI by which another process opens the same path."""

    def exists(self, path: str) -> bool:
        """Whether anything has this name; a dangling symbolic link does."""

    def is_directory(self, path: str) -> bool:
        """Whether the path is a directory itself, not a symbolic link to one."""

    def entry(self, path: str, *, missing: type[AcidError] = CorruptError) -> Entry:
        """What the path is; a symbolic link is not followed."""

    def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
        """The entries of one directory, sorted by name."""

    def list_tree(
        self, path: str, *, enter_hidden: bool, missing: type[AcidError] = CorruptError
    ) -> tuple[TreeEntry, ...]:
        """Everything below a directory, sorted by path.

        Without `enter_hidden`, hidden directories below the root (a leading `_` or `.`) are named but not entered and
        hidden symbolic links are left out. Any other symbolic link is refused. A directory that vanishes meanwhile
        raises `ConflictError`.
        """

    def read(self, path: str, *, missing: type[AcidError] = CorruptError) -> bytes:
        """The whole contents of a file."""

    def read_range(self, path: str, offset: int, length: int, *, missing: type[AcidError] = CorruptError) -> bytes:
        """Exactly `length` bytes at `offset`; a file that ends earlier raises `CorruptError`."""

    def create(self, path: str, data: bytes) -> None:
        """Creates a file whole, durable and exclusively: an existing one raises `ConflictError` and stays."""

    def replace_if(self, path: str, expected: bytes, data: bytes) -> bool:
        """Replaces a small file only while its contents are `expected`; returns whether it did."""

    def remove_if(self, path: str, expected: bytes) -> bool:
        """Removes a small file only while its contents are `expected`; returns whether it did."""

    def make_directory(self, path: str) -> None:
        """Creates one directory; an existing name raises `ConflictError`, a missing parent `CorruptError`."""

    def sync(self, path: str) -> None:
        """Makes the contents of a file, or the names in a directory, durable."""

    def sync_tree(self, path: str) -> None:
        """Makes everything below a directory, and the directory itself, durable."""

    def rename_noreplace(self, source: str, target: str, *, missing: type[AcidError] = CorruptError) -> None:
        """Renames a file or directory atomically and durably; an existing target raises `ConflictError`."""

    def remove_tree(self, root: str, relative: str) -> None:
        """Removes a file or directory below `root` with all it holds; symbolic links are never followed.

        `relative` must stay below `root` and pass through no symbolic link, else `RefusedError`. What is already
        missing raises `ConflictError`.
        """


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_MISSING_CLIENT = {
    "hdfs": "HDFS",
    "webhdfs": "HDFS",
    "s3": "Amazon S3",
    "s3a": "Amazon S3",
    "s3n": "Amazon S3",
    "gs": "Google Cloud Storage",
    "abfs": "Azure Data Lake Storage",
    "abfss": "Azure Data Lake Storage",
    "wasb": "Azure Blob Storage",
    "wasbs": "Azure Blob Storage",
}


def local_path(uri: str) -> str:
    """The absolute local path of a bare path or a `file:` URI.

    As in Hadoop's Path, nothing is percent-decoded: the `%3A` of an escaped partition directory stays as it is, and a
    `?` or `#` is part of the name. `file:/a`, `file:///a` and `file://localhost/a` mean the same. Symbolic links in
    the location itself are resolved here, once, so that everything below it can refuse them. Raises `RefusedError`
    for another scheme, another host, or an empty path.
    """
    match = _SCHEME.match(uri)
    rest = uri
    if match is not None:
        scheme = match.group(1).lower()
        if scheme != "file":
            kind = _MISSING_CLIENT.get(scheme)
            missing = f"a client for {kind} is not built yet" if kind else f"the scheme {scheme!r} is not known"
            raise RefusedError(f"Cannot open {uri}: because {missing}; only local paths and file: URIs are supported")
        rest = uri[match.end() :]
        if rest.startswith("//"):
            host, slash, tail = rest[2:].partition("/")
            if host not in ("", "localhost"):
                raise RefusedError(f"Cannot open {uri}: because a file: URI names this machine only, not {host!r}")
            rest = slash + tail
        if not rest.startswith("/"):
            raise RefusedError(f"Cannot open {uri}: because a file: URI needs an absolute path")
    if not rest or "\0" in rest:
        raise RefusedError(f"Cannot open {uri!r}: because it names no path")
    return os.path.realpath(Path(rest).expanduser() if match is None else rest)


def safe_parts(root: str, relative: str) -> tuple[str, ...]:
    """The components of a path that must lie strictly below `root`; anything else raises `RefusedError`."""
    parts = tuple(relative.split("/"))
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise RefusedError(f"Cannot touch {relative!r}: because it does not name something below {root}")
    return parts


def open_filesystem(uri: str) -> tuple[FileSystem, str]:
    """The file system of a URI and the absolute path in it; a bare path is local, see `local_path`.

    Raises `RefusedError` naming what is missing when the scheme is not supported.
    """
    from acidlib.storage.local import LocalFileSystem  # the implementations import this module

    return LocalFileSystem(), local_path(uri)
