"""Finding tables and partitions by their directories alone, where there is no metastore to ask.

A location is a table only if it, or a partition below it, holds an ACID directory: original files alone do not prove
that a table is transactional. A `k=v` directory is a partition level only if its parent holds no files and no ACID
directories. Skipped directories are returned with the reason.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from itertools import takewhile
from typing import Protocol, TypeVar

from acidlib.acid.names import is_acid_directory_name, is_hidden
from acidlib.arguments import LOCATION, TABLE, WAREHOUSE, said
from acidlib.errors import AcidError, MissingError, RefusedError, RetryError, known_error
from acidlib.location import Location
from acidlib.model.tables import PartitionName, TableRef, is_partition_directory
from acidlib.stores.filesystem import MAX_DEPTH, TOO_DEEP, FileSystem, require_few

Value = TypeVar("Value")

DEFAULT_DATABASE = "default"
_DATABASE_SUFFIX = ".db"
LOST_AND_FOUND = "lost+found"
"""What file systems make at their root, for root alone; a table of that name is one as long as it can be read."""
_SOFT_DELETE_SUFFIX = re.compile(r"(.+)\.v[0-9]+")
_LINK = "it is a symbolic link"
_NOT_PROVEN = "it holds original files only, which do not prove that the table is transactional"
_PART = "it is a part of a table, not a table"
_NOTHING = "neither it nor a partition below it holds a base_, delta_ or delete_delta_ directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocation:
    """A table proven to be ACID; names are lower case, as Hive's identity is.

    partitions  names and locations in path order; without a name for a table without partitions
    """

    ref: TableRef
    location: Location
    partitions: tuple[tuple[PartitionName | None, Location], ...]


Skipped = dict[Location, str | AcidError]
"""Directories that hold no table of Hive's, with the reasons, or that cannot be read, with the errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """The entries of a directory that readers see, by kind."""

    has_acid: bool
    has_files: bool
    levels: tuple[str, ...]  # names of k=v directories, if this directory is a partition level's parent
    others: tuple[str, ...]
    unusable: tuple[tuple[str, str], ...]  # names that are links, pipes or not UTF-8, with the reasons

    @property
    def is_empty(self) -> bool:
        """Readers see nothing in it."""
        return not (self.has_acid or self.has_files or self.levels or self.others or self.unusable)


class Each(Protocol):
    """Looks at directories, perhaps at many together, and returns the value or error of each."""

    def __call__(self, look: Callable[[Location], Value], places: Sequence[Location], /) -> Sequence[Value | AcidError]:
        """Call `look` for each directory."""


def one_by_one(look: Callable[[Location], Value], places: Sequence[Location]) -> Sequence[Value | AcidError]:
    """Look at one directory after the other, in the caller's thread."""

    def answer(place: Location) -> Value | AcidError:
        try:
            return look(place)
        except Exception as error:
            return known_error(error, f"list {place}")

    return [*map(answer, places)]


def discover_warehouse(
    fs: FileSystem, root: Location, *, each: Each = one_by_one
) -> tuple[tuple[TableLocation, ...], Skipped]:
    """Return the tables of `<root>/<database>.db/<table>` and `<root>/<table>` (of the database `default`).

    A directory that cannot be listed is skipped with its error, so that it does not hide the others; one that is gone
    by now is passed over with a reason, and so is `LOST_AND_FOUND`. Raises `RefusedError` when the root itself is not a
    directory, or is a table.
    """
    discovery = _Discovery(fs, each)
    skipped = discovery.skipped
    (top,) = discovery.subdirectories([root]).values()
    if isinstance(top, AcidError):
        raise top
    parts = [path for path in top if is_acid_directory_name(path.name) or is_partition_directory(path.name)]
    skipped |= dict.fromkeys(parts, _PART)
    databases = [path for path in top if path not in skipped and path.name.lower().endswith(_DATABASE_SUFFIX)]
    below = discovery.subdirectories(databases)
    skipped |= {path: _unless_gone(error) for path, error in below.items() if isinstance(error, AcidError)}
    candidates: list[Location] = []
    for path in top:
        inside = below.get(path, [path])
        if path not in skipped and not isinstance(inside, AcidError):
            candidates += inside
    tables: list[TableLocation] = []
    for path, content in zip(candidates, discovery.look(candidates), strict=True):
        try:
            if isinstance(content, AcidError):
                raise content
            tables.append(discovery.table(path, content))
        except _NoTable as reason:
            skipped[path] = said(str(reason))
        except Exception as error:
            failure = known_error(error, f"read {path}")
            is_roots = path.name == LOST_AND_FOUND and isinstance(failure, RetryError)
            skipped[path] = f"it is the file system's own: {failure.reason}" if is_roots else _unless_gone(failure)
    part = next((location for location, reason in skipped.items() if reason == _PART), None)
    if part is not None and not tables:
        raise RefusedError(f"Cannot look for tables in {root}: {part}: {_PART}; {LOCATION} names a table")
    return tuple(tables), skipped


def discover_location(
    fs: FileSystem,
    location: Location,
    *,
    may_be_empty: bool = False,
    is_stated: bool = False,
    each: Each = one_by_one,
) -> TableLocation:
    """Return one table, or one partition of a table, at a location that the caller names.

    A location with ACID directories is one place to compact: a partition if its path ends in `k=v` directories (whose
    parent holds neither files nor ACID directories), else a table without partitions. Otherwise the `k=v` directories
    below are its partitions. The last component of the path before the partition is the table's name; the component
    before is its database, if it ends in `.db`, else that is `default`. Raises `RefusedError` when it is no ACID table,
    and `MissingError` when it is missing or empty.

    may_be_empty  it and its partitions may be empty: the caller knows that it is a table, and a cleaner may have
                  removed all its files
    is_stated     it and its partitions may hold original files alone: the caller states that it is a transactional
                  table, as one is that was made transactional and has not been written to since
    """

    def named(location: Location) -> _Content:
        return _content(fs, location, missing=RefusedError if fs.exists(str(location)) else MissingError)

    discovery = _Discovery(fs, each, may_be_empty=may_be_empty, is_stated=is_stated)
    (content,) = each(named, [location])
    if isinstance(content, AcidError):
        raise content
    is_place = content.has_acid or (may_be_empty and content.is_empty)
    if not is_place and not (is_stated and content.has_files and not is_acid_directory_name(location.name)):
        if content.is_empty:
            raise MissingError(f"Cannot read {location}: it is empty")
        try:
            if content.levels:
                return discovery.partitioned(location, content)
            raise _NoTable(_NOT_PROVEN if content.has_files else discovery.tables_below(location, content) or _NOTHING)
        except _NoTable as reason:
            raise RefusedError(f"Cannot read {location}: {reason}") from None
    values: list[str] = []
    table = location
    while not table.parent.is_root and is_partition_directory(table.name):
        (parent,) = discovery.look([table.parent])
        # a parent that may not be listed says nothing against the partition's name
        if isinstance(parent, _Content) and not parent.levels:
            break
        values.insert(0, table.name)
        table = table.parent
    name = PartitionName.parse("/".join(values)) if values else None
    return TableLocation(ref=_named(table), location=table, partitions=((name, location),))


def _unless_gone(error: AcidError) -> str | AcidError:
    """Return an error, or the reason where a directory that was there is not any more: it was dropped."""
    return error.words if isinstance(error, MissingError) else error


class _NoTable(Exception):  # noqa: N818 - the reason why a directory is no table, for its caller
    """A directory is no table; the text is the reason."""


@dataclass(frozen=True, slots=True)
class _Discovery:
    """One look for tables, and the directories that it has skipped; see `discover_location`."""

    fs: FileSystem
    each: Each
    _: KW_ONLY
    may_be_empty: bool = False
    is_stated: bool = False
    skipped: Skipped = field(default_factory=dict)

    def look(self, places: Sequence[Location]) -> Sequence[_Content | AcidError]:
        """Return the contents of directories."""
        return self.each(partial(_content, self.fs), places)

    def subdirectories(self, paths: Sequence[Location]) -> dict[Location, list[Location] | AcidError]:
        """Return the directories in each path, or why they are not known; skip links."""
        inside: dict[Location, list[Location] | AcidError] = {}
        for path, content in zip(paths, self.look(paths), strict=True):
            if isinstance(content, AcidError):
                inside[path] = content
                continue
            self._skip_unusable(path, content)
            inside[path] = [path.child(name) for name in sorted((*content.levels, *content.others))]
        return inside

    def _skip_unusable(self, path: Location, content: _Content) -> None:
        self.skipped.update((path.child(name), reason) for name, reason in content.unusable)

    def tables_below(self, location: Location, content: _Content) -> str | None:
        """Return that a directory holds tables, or databases, and what to name instead; None for any other one."""
        databases = [name for name in content.others if name.lower().endswith(_DATABASE_SUFFIX)]
        if databases:
            return (
                f"it is a directory of databases, such as {databases[0]}; name a table, or use {WAREHOUSE} and {TABLE}"
            )
        for name in content.others:
            (below,) = self.look([location.child(name)])
            if isinstance(below, _Content) and (below.has_acid or below.levels):
                return f"it is a directory of tables, such as {name}; name one of them, or use {WAREHOUSE} and {TABLE}"
        return None

    def table(self, path: Location, content: _Content) -> TableLocation:
        """Return the table at a path, or raise why there is none."""
        if content.has_acid:
            return TableLocation(ref=_named(path), location=path, partitions=((None, path),))
        if content.levels:
            return self.partitioned(path, content)
        raise _NoTable(_NOT_PROVEN if content.has_files else _NOTHING)

    def partitioned(self, path: Location, content: _Content) -> TableLocation:
        """Return a partitioned table, or raise why the directory is none."""
        leaves: list[tuple[tuple[str, ...], _Content | AcidError]] = []
        self._walk_levels(path, (), content, leaves)
        known = [(values, leaf) for values, leaf in leaves if isinstance(leaf, _Content)]
        errors = {values: leaf for values, leaf in leaves if isinstance(leaf, AcidError)}
        filled = [values for values, leaf in known if not leaf.is_empty]
        is_proven = any(leaf.has_acid or (self.is_stated and leaf.has_files) for _, leaf in known)
        if not is_proven and (filled or not self.may_be_empty or errors):
            raise next(iter(errors.values()), _NoTable(_NOTHING))
        keys = {_keys(values) for values in filled or (values for values, _ in known)}
        if len(keys) > 1:
            shown = " and ".join(sorted("/".join(key) for key in keys))
            raise _NoTable(f"its partitions have different keys: {shown}")
        partitions = []
        for values, _ in leaves:
            here = path.child("/".join(values))
            if _keys(values) in keys:
                partitions.append((PartitionName.parse("/".join(values)), here))
            elif values in errors:
                raise errors[values]  # partitions may lie below it
            else:
                self.skipped[here] = "it is empty"
        return TableLocation(ref=_named(path), location=path, partitions=tuple(partitions))

    def _walk_levels(
        self,
        root: Location,
        values: tuple[str, ...],
        content: _Content,
        leaves: list[tuple[tuple[str, ...], _Content | AcidError]],
    ) -> None:
        """Gather the partitions. One that cannot be listed, or has just gone, is reported where it is listed again.

        RefusedError for more directories than a place may have: the other tables would wait for them.
        """
        here = root.child("/".join(values)) if values else root
        self._skip_unusable(here, content)
        if not content.levels:
            leaves.append((values, content))
            return
        if len(values) == MAX_DEPTH:
            leaves.append((values, RefusedError(f"Cannot list {here}: {TOO_DEEP}")))
            return
        require_few(str(root), len(leaves) + len(content.levels))
        for name in content.others:
            self.skipped[here.child(name)] = "it lies beside partitions and is none itself"
        below = self.look([here.child(name) for name in content.levels])
        for name, leaf in zip(content.levels, below, strict=True):
            if isinstance(leaf, AcidError):
                leaves.append(((*values, name), leaf))
            else:
                self._walk_levels(root, (*values, name), leaf, leaves)


def _keys(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the partition keys of a path, in lower case."""
    return tuple(key.lower() for key, _ in PartitionName.parse("/".join(values)).pairs)


def _content(fs: FileSystem, path: Location, *, missing: type[AcidError] = MissingError) -> _Content:
    entries = [entry for entry in fs.list_directory(str(path), missing=missing) if not is_hidden(entry.name)]
    directories = [entry.name for entry in entries if entry.is_directory and not entry.problem]
    has_acid = any(is_acid_directory_name(name) for name in directories)
    has_files = any(not (entry.is_directory or entry.is_symlink or entry.problem) for entry in entries)
    levels = () if has_acid or has_files else tuple(filter(is_partition_directory, directories))
    return _Content(
        has_acid=has_acid,
        has_files=has_files,
        levels=levels,
        others=tuple(name for name in directories if name not in levels),
        unusable=tuple((entry.name, entry.problem or _LINK) for entry in entries if entry.problem or entry.is_symlink),
    )


def table_above(warehouse: Location, path: Location) -> Location:
    """Return the directory of a table, right below a warehouse or a database in it, that a path is or lies below."""
    parts = path.path[len(warehouse.path.rstrip("/")) + 1 :].split("/")
    is_in_database = parts[0].lower().endswith(_DATABASE_SUFFIX)
    return warehouse.child("/".join(parts[: 1 + is_in_database]))


def database_at(path: Location) -> str | None:
    """Return the name of the database whose directory a path names; None for any other path."""
    name = path.name.lower()
    return (name.removesuffix(_DATABASE_SUFFIX) or DEFAULT_DATABASE) if name.endswith(_DATABASE_SUFFIX) else None


def named_at(path: Location) -> TableRef:
    """Return the names of the table or partition at a path, by the path alone."""
    values = list(takewhile(is_partition_directory, reversed(path.path.split("/"))))[::-1]
    for _ in values:
        path = path.parent
    return _named(path)._replace(partition="/".join(values) or None)


def _named(path: Location) -> TableRef:
    name = path.name
    soft = _SOFT_DELETE_SUFFIX.fullmatch(name)
    return TableRef(database_at(path.parent) or DEFAULT_DATABASE, (soft.group(1) if soft else name).lower())
