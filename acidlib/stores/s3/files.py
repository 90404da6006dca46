"""A bucket as a file system to read and to remove from; nothing is written here.

A prefix that ends in a slash is a directory as long as anything lies below it. An empty object whose key ends in a
slash is what S3A makes for an empty directory: it is no file. Directories have no time of modification: it is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError
from acidlib.stores.filesystem import Entry, TreeEntry, safe_parts
from acidlib.stores.renaming.publishing import STAGING_MARKER
from acidlib.stores.s3.client import Bucket, seconds
from acidlib.wording import plural

_AT_ONCE = 1000


class S3FileSystem:
    """The objects of one bucket, by paths `s3a://bucket/key`. It holds no connection and may be pickled."""

    __slots__ = ("_bucket",)

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def exists(self, path: str) -> bool:
        return self._file(path, _name(path)) is not None or self.is_directory(path)

    def is_directory(self, path: str) -> bool:
        key = self._bucket.key(path)
        with self._bucket.raising("look at", path):
            found = self._bucket.client.list_objects_v2(Bucket=self._bucket.name, Prefix=_below(key), MaxKeys=1)
        return bool(found.get("Contents")) or not key

    def entry(self, path: str, *, missing: type[AcidError] = CorruptError) -> Entry:
        name = _name(path)
        found = self._file(path, name)
        if found is not None:
            return found
        if self.is_directory(path):
            return _directory(name)
        raise missing(f"Cannot look at {path}: because there is no such object, and none below it")

    def names_changed(self, path: str, *, missing: type[AcidError] = CorruptError) -> float:
        """0: nothing tells."""
        del path, missing
        return 0.0

    def owner(self, path: str) -> str | None:
        """Nobody: the owner of an object is an account."""
        del path
        return None

    def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
        prefix = _below(self._bucket.key(path))
        found: list[Entry] = []
        is_there = not prefix
        for page in self._pages(path, prefix, delimiter="/"):
            found += [_directory(_relative(item["Prefix"], prefix)) for item in page.get("CommonPrefixes", [])]
            for item in page.get("Contents", []):
                is_there = True
                if name := _relative(item["Key"], prefix):
                    found.append(_as_entry(name, item))
        if not (is_there or found):
            raise missing(f"Cannot list {path}: because there is no object below it")
        return tuple(sorted(found, key=lambda entry: entry.name))

    def list_tree(
        self, path: str, *, enter_hidden: bool, missing: type[AcidError] = CorruptError
    ) -> tuple[TreeEntry, ...]:
        prefix = _below(self._bucket.key(path))
        tree = _Tree(enter_hidden=enter_hidden)
        is_there = not prefix
        for item in self._objects(path, prefix):
            is_there = True
            tree.add(item["Key"].removeprefix(prefix), item)
        if not is_there:
            raise missing(f"Cannot list {path}: because there is no object below it")
        return tree.entries()

    def read(self, path: str, *, missing: type[AcidError] = CorruptError) -> bytes:
        with self._bucket.raising("read", path, missing=missing):
            return self._bucket.get(path)[1]

    def remove_tree(self, root: str, relative: str) -> None:
        """Removes the object of this name and all below it, a thousand at a time: others may see a part of it go.

        RefusedError for what a run has staged: its uploads would stay, or what it has decided to publish, half visible.
        """
        safe_parts(root, relative)
        path = f"{root}/{relative}"
        key = self._bucket.key(path)
        keys = [item["Key"] for item in self._objects(path, _below(key))]
        if self._file(path, key) is not None:
            keys.append(key)
        if not keys:
            raise ConflictError(f"Cannot remove {path}: because there is no such object, and none below it")
        if any(found.rpartition("/")[2] == STAGING_MARKER for found in keys):
            raise RefusedError(
                f"Cannot remove {path}: because a run has staged something there, which has an end of its own"
            )
        remove_keys(self._bucket, path, keys)

    def _file(self, path: str, name: str) -> Entry | None:
        found = self._bucket.head(path) if self._bucket.key(path) else None
        if found is None:
            return None
        return Entry(
            name=name,
            is_directory=False,
            is_symlink=False,
            length=found["ContentLength"],
            modified=seconds(found["LastModified"]),
        )

    def _objects(self, path: str, prefix: str) -> Iterator[Any]:
        for page in self._pages(path, prefix):
            yield from page.get("Contents", [])  # the last page may have none

    def _pages(self, path: str, prefix: str, delimiter: str = "") -> Iterator[Any]:
        arguments: dict[str, Any] = {"Bucket": self._bucket.name, "Prefix": prefix}
        if delimiter:
            arguments["Delimiter"] = delimiter
        while True:
            with self._bucket.raising("list", path):
                page = self._bucket.client.list_objects_v2(**arguments)
            yield page
            if not page.get("IsTruncated"):
                return
            arguments["ContinuationToken"] = page["NextContinuationToken"]


class _Tree:
    """The entries of a directory, from keys relative to it in any order."""

    def __init__(self, *, enter_hidden: bool) -> None:
        self._enter_hidden = enter_hidden
        self._directories: set[str] = set()
        self._files: list[TreeEntry] = []

    def add(self, relative: str, item: Any) -> None:
        """Note an object and the directories that it lies in, as far as they are entered.

        A slash at its end tells that it is no file.
        """
        *parents, name = relative.split("/")
        above = ""
        for parent in parents:
            above = f"{above}/{parent}" if above else parent
            self._directories.add(above)
            if not self._enter_hidden and parent.startswith(("_", ".")):
                return
        if name:
            self._files.append(
                TreeEntry(
                    path=relative, is_directory=False, length=item["Size"], modified=seconds(item["LastModified"])
                )
            )

    def entries(self) -> tuple[TreeEntry, ...]:
        """All of them, sorted by path."""
        found = [TreeEntry(path=path, is_directory=True, length=0, modified=0.0) for path in self._directories]
        return tuple(sorted(found + self._files, key=lambda entry: entry.path))


def remove_keys(bucket: Bucket, path: str, keys: Iterable[str]) -> None:
    """Removes objects; RetryError names the first that could not be, and how many. `path` is what they are part of."""
    waiting = list(keys)
    failed: list[str] = []
    for start in range(0, len(waiting), _AT_ONCE):
        named: Any = [{"Key": key} for key in waiting[start : start + _AT_ONCE]]
        with bucket.raising("remove", path):
            answer = bucket.client.delete_objects(Bucket=bucket.name, Delete={"Objects": named, "Quiet": True})
        failed += [
            f"{error.get('Key')} ({error.get('Code')}: {error.get('Message', '')})"
            for error in answer.get("Errors", [])
        ]
    if failed:
        raise RetryError(
            f"Cannot remove {path}: because the store kept {len(failed)} of {plural(len(waiting), 'object')}, first "
            f"{failed[0]}"
        )


def _below(key: str) -> str:
    return f"{key}/" if key else ""


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _relative(key: str, prefix: str) -> str:
    return key.removeprefix(prefix).removesuffix("/")


def _directory(name: str) -> Entry:
    return Entry(name=name, is_directory=True, is_symlink=False, length=0, modified=0.0)


def _as_entry(name: str, item: Any) -> Entry:
    return Entry(
        name=name,
        is_directory=False,
        is_symlink=False,
        length=item["Size"],
        modified=seconds(item["LastModified"]),
    )
