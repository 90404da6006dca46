"""Removing what a plan names, below one location, without ever following a symbolic link."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Protocol

from acidlib.errors import AcidError, ConflictError, RefusedError
from acidlib.model.listing import ListedFile, has_hidden_part
from acidlib.model.location import Location
from acidlib.points import Point, passing
from acidlib.stores.filesystem import FileSystem, RenameFileSystem, TreeEntry, safe_parts

TRASH = "_acidlib_trash"
OUT_OF_SIGHT = "_acidlib_removed."
"""Begins the names of what is about to be removed, which readers pass over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """One file or directory that is gone from its place: how many files and bytes it held.

    moved_to  where it lies now; None when it was deleted
    """

    path: str
    files: int
    bytes: int
    moved_to: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRemoved:
    """One path that could not be removed, or not wholly, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalReport:
    """The outcome for every path of the plan but those that were missing already."""

    removed: tuple[Removed, ...]
    failed: tuple[NotRemoved, ...]


class Trash(Protocol):
    """Where things are moved instead of being deleted."""

    def move(self, relative: str) -> str:
        """Move what lies at a path of the location; where it is then. ConflictError when it is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashDirectory:
    """Where things are moved instead of being deleted: `_acidlib_trash/<name>/` in a location, which readers pass over.

    `name` is unique, such as a time stamp.
    """

    fs: RenameFileSystem
    location: Location
    name: str

    @property
    def path(self) -> str:
        """The directory that things are moved to."""
        return f"{self.location}/{TRASH}/{self.name}"

    def make(self) -> None:
        """Make the directory, where it is not there; ConflictError where a link or a file has its name."""
        if len(safe_parts(str(self.location), self.name)) != 1:
            raise RefusedError(
                f"Cannot move files aside in {self.location}: because {self.name!r} is not a single name"
            )
        self._ensure(f"{self.location}/{TRASH}")
        self._ensure(self.path)

    def move(self, relative: str) -> str:
        """See `Trash`; ConflictError also where something like it is there."""
        *parents, last = safe_parts(str(self.location), relative)
        target = self.path
        for part in parents:
            target = f"{target}/{part}"
            self._ensure(target)
        target = f"{target}/{last}"
        self.fs.rename_noreplace(f"{self.location}/{relative}", target, missing=ConflictError)
        return target

    def _ensure(self, path: str) -> None:
        if not self.fs.is_directory(path):
            self.fs.make_directory(path)


def remove_paths(
    fs: FileSystem,
    location: Location,
    paths: tuple[str, ...],
    *,
    remove: Callable[[str], str | None],
    known: Collection[ListedFile] | None = None,
    before_each: Callable[[], None] | None = None,
    after_each: Callable[[Removed], None] | None = None,
) -> RemovalReport:
    """Removes files and directories, each given by its path relative to `location`.

    `remove` is called for each, to delete it, or to move it to the trash and say where it is then. A path that fails
    does not stop the others. A path that leads out of the location, or through a symbolic link, is refused and
    reported; nothing it leads to is touched. With `known` (the files of the listing that the plan was made from) so is
    one that holds a file which readers see and which is not among them: somebody writes there. `before_each` raises
    ConflictError when somebody else works there now: then nothing more is removed. `after_each` may pause, so that a
    file system is not flooded.
    """
    removed: list[Removed] = []
    failed: list[NotRemoved] = []
    for path in paths:
        if before_each is not None:
            _still_ours(before_each, len(removed))
        try:
            item = measure(fs, location, path, known)
            if item is None:
                continue
            item = replace(item, moved_to=remove(path))
            removed.append(item)
            passing(Point.REMOVED_ONE)
            if after_each is not None:
                after_each(item)
        except AcidError as error:
            failed.append(NotRemoved(path=path, reason=str(error)))
    return RemovalReport(removed=tuple(removed), failed=tuple(failed))


def _still_ours(check: Callable[[], None], removed: int) -> None:
    try:
        check()
    except ConflictError as error:
        raise ConflictError(f"{error}; {removed} were removed before") from error


def measure(fs: FileSystem, location: Location, relative: str, known: Collection[ListedFile] | None) -> Removed | None:
    """What removing a path would remove; None when it is missing. Raises what forbids it, as `remove_paths` says.

    That is RefusedError for a path that is, holds or passes through a symbolic link, ConflictError for an unknown file.
    """
    path = str(location)
    for part in safe_parts(str(location), relative):
        path = f"{path}/{part}"
        try:
            entry = fs.entry(path, missing=ConflictError)
        except ConflictError:
            return None
        if entry.is_symlink:
            raise RefusedError(f"Cannot remove {location}/{relative}: because {path} is a symbolic link")
    if not entry.is_directory:
        _require_known(location, ListedFile(path=relative, length=entry.length, modified=entry.modified), known)
        return Removed(path=relative, files=1, bytes=entry.length)
    tree = [item for item in fs.list_tree(path, enter_hidden=True, missing=ConflictError) if not item.is_directory]
    for item in tree:
        _require_known(location, _listed(relative, item), known)
    return Removed(path=relative, files=len(tree), bytes=sum(item.length for item in tree))


def _listed(directory: str, item: TreeEntry) -> ListedFile:
    return ListedFile(path=f"{directory}/{item.path}", length=item.length, modified=item.modified)


def _require_known(location: Location, file: ListedFile, known: Collection[ListedFile] | None) -> None:
    if known is not None and file not in known and not has_hidden_part(file.path):
        raise ConflictError(
            f"Cannot remove {location}/{file.path}: because it was written after the listing that called it obsolete"
        )
