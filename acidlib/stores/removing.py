"""Removing the paths of a plan below one location, and finding files that dead runs, ours and Hive's, have left.

Nothing here ever follows a symbolic link. Litter was left by a dead run of this engine for certain; every cleaning
removes it. Orphans are looked for on request: they are staging directories of any compactor, and results whose
transaction was aborted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from acidlib.acid.listing import ListedFile, has_hidden_part
from acidlib.acid.names import ANY_NAMES, parse_directory
from acidlib.acid.write_ids import ValidTxnList
from acidlib.errors import AcidError, ConflictError, RefusedError
from acidlib.location import Location
from acidlib.points import Point, reach
from acidlib.stores.filesystem import Entry, FileSystem, Pace, safe_parts
from acidlib.stores.renaming.claims import read_claim
from acidlib.stores.store import (
    CLAIM,
    NEW,
    OUT_OF_SIGHT,
    PROBE,
    PUBLISH_RECORD,
    STAGING_MARKER,
    STAGING_PREFIX,
    TRASH,
    UNDONE,
    Claim,
    Store,
)

LITTER_SECONDS = 86_400.0
"""The time for which nothing must have been modified in litter."""

HIVE_STAGING_PREFIX = ".hive-staging"
"""Begins the names of directories that Hive's queries write to before they publish (`hive.exec.stagingdir`)."""

_UNFINISHED_TRASH = re.compile(re.escape(TRASH) + r"\.[0-9a-f]{32}\.tmp")
_LITTER_PREFIXES = (OUT_OF_SIGHT, NEW, UNDONE, f"{CLAIM}.", STAGING_PREFIX, f"{TRASH}.", f"{PROBE}.")
_FOREIGN = ("staging of a compaction", "staging of a query")
TAKEN_BACK = "the result of a compaction that was undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """A file or directory that is gone from its place, with the number of its files and their bytes.

    moved_to  its path now; None when it was deleted
    identity  what was measured, and nothing else that has its name now, may be removed; see `FileSystem.identity`
    """

    path: str
    files: int
    bytes: int
    moved_to: str | None = None
    identity: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalReport:
    """The outcome for every path of the plan but those that were missing already.

    failed  paths that could not be removed, or not wholly, with the reasons
    """

    removed: tuple[Removed, ...]
    failed: dict[str, str]


def remove_paths(
    store: Store,
    claim: Claim,
    paths: Iterable[str],
    *,
    known: Collection[ListedFile] | None = None,
    is_seen: bool = True,
    to_trash: Callable[[str], str] | None = None,
    pace: Pace | None = None,
    assert_going_on: Callable[[], None] = lambda: None,
) -> RemovalReport:
    """Remove files and directories, each given by its path relative to the claimed place.

    Where the store can, all paths leave readers' sight first: however long the removal takes, a reader that lists the
    place meanwhile finds no file that is gone when it opens it. Anything a crashed run leaves behind is removed as
    litter.

    known            the files of the listing that the plan was made from
    is_seen          whether readers see the paths until they are removed
    to_trash         moves a path aside instead, and returns where it lies then
    pace             as for `FileSystem.remove_tree`
    assert_going_on  raises ConflictError where the run has to stop

    A path that fails does not stop the others. A path that leads out of the place, or through a symbolic link, is
    refused and reported; its target is not touched. So is a path with a file that readers see and that is not `known`:
    another writer is at work there. Raises ConflictError when another run works there now: then nothing more is
    removed.
    """
    location = claim.location
    removed: list[Removed] = []
    failed: dict[str, str] = {}
    hidden: dict[str, str] = {}
    for path in paths:
        try:
            assert_going_on()
            claim.assert_mine()
        except ConflictError as error:
            raise ConflictError(f"{error}; {len(removed)} were removed before") from error
        try:
            item = measure(store.fs, location, path, known)
            if item is None:
                continue
            name = None
            if to_trash is not None:
                item = replace(item, moved_to=to_trash(path))
            elif is_seen:
                unique = f"{claim.token}-{len(hidden)}"
                name = store.hide(location, path, unique, identity=item.identity)
            if name is not None:
                hidden[path] = name
            elif to_trash is None:
                store.remove(location, path, identity=item.identity, pace=pace)
            removed.append(item)
            reach(Point.REMOVED_ONE)
        except AcidError as error:
            failed[path] = error.words
    if hidden:
        store.make_durable(location)  # once for all of them: until then each is there whole, in sight or not
    for item in removed:
        if item.path in hidden:
            assert_going_on()
            try:
                store.remove(location, hidden[item.path], identity=item.identity, pace=pace)
            except AcidError as error:
                failed[item.path] = error.words
            reach(Point.REMOVED_HIDDEN)
    if removed:
        store.make_durable(location)
    return RemovalReport(removed=tuple(item for item in removed if item.path not in failed), failed=failed)


def measure(fs: FileSystem, location: Location, relative: str, known: Collection[ListedFile] | None) -> Removed | None:
    """Return the files and bytes that removing a path would remove; None when it is missing.

    Raises RefusedError for a path that is, holds or passes through a symbolic link, ConflictError for an unknown file;
    see `remove_paths`.
    """
    path, identity = str(location), ""
    parts = safe_parts(path, relative)
    tree = fs.tree_at_once(f"{location}/{relative}")
    if tree is None:
        for part in parts:
            path = f"{path}/{part}"
            try:
                entry = fs.entry(path, missing=ConflictError)
            except ConflictError:
                return None
            if entry.is_symlink:
                raise RefusedError(f"Cannot remove {location}/{relative}: {path} is a symbolic link")
        if entry.is_directory:
            identity = fs.identity(path, missing=ConflictError)
            tree = fs.list_tree(path, enter_hidden=True, missing=ConflictError)
    if tree is None:
        files = [ListedFile(path=relative, length=entry.length, modified=entry.modified)]
    else:
        files = [
            ListedFile(path=f"{relative}/{item.path}", length=item.length, modified=item.modified)
            for item in tree
            if not item.is_directory
        ]
    for file in files:
        if known is not None and file not in known and not has_hidden_part(file.path):
            raise ConflictError(
                f"Cannot remove {location}/{file.path}: it was written after the listing that called it obsolete"
            )
    return Removed(path=relative, files=len(files), bytes=sum(file.length for file in files), identity=identity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Litter:
    """A file or directory that no reader will ever need; nothing in it was modified for `idle_seconds`."""

    name: str
    bytes: int
    idle_seconds: float
    reason: str


def may_be_litter(name: str) -> bool:
    """Tell whether `find_litter` looks at a file or directory of this name; the claim's own name apart."""
    return name.startswith(_LITTER_PREFIXES)


def find_litter(fs: FileSystem, location: Location, *, now: float) -> tuple[Litter, ...]:
    """Return staging directories and unfinished claims of dead runs in a place that may be removed, and undone results.

    They carry our marker or the name of a claim, or are empty, and were not modified for `LITTER_SECONDS` (a result
    that was undone: since then). Directories that a cleaner has hidden are litter at once. A staging directory with the
    record of a publication, which is to be finished, is none. The caller has made sure that no other run holds a live
    claim on the place.
    """
    litter = []
    for entry in fs.list_directory(str(location), missing=ConflictError):
        is_claim = entry.name == CLAIM and entry.is_directory
        if entry.is_symlink or not (is_claim or may_be_litter(entry.name)):
            continue
        if is_claim and read_claim(fs, location) is not None:
            continue  # without a holder, its run died while it claimed or released
        contents = _contents(fs, location, entry) if entry.is_directory else None
        is_hidden = entry.name.startswith(OUT_OF_SIGHT)
        if contents is None and (is_hidden or (entry.name.startswith(NEW) and not entry.is_directory)):
            contents = set(), entry.length, entry.modified
        if contents is None or not (is_hidden or is_claim or _is_litter(entry.name, contents[0])):
            continue
        reason = TAKEN_BACK if entry.name.startswith(UNDONE) else "left by a dead run"
        idle_seconds = now - contents[2]
        if is_hidden or idle_seconds > LITTER_SECONDS:
            litter.append(Litter(name=entry.name, bytes=contents[1], idle_seconds=idle_seconds, reason=reason))
    return tuple(litter)


def _is_litter(name: str, contents: set[str]) -> bool:
    if name.startswith(STAGING_PREFIX):
        # a run that died before its marker was whole leaves at most the marker's first half
        return STAGING_MARKER in contents or all(path.startswith(f"{STAGING_MARKER}.") for path in contents)
    if name.startswith(f"{TRASH}."):  # left by making the trash where that takes a rename; it was never used
        return _UNFINISHED_TRASH.fullmatch(name) is not None and not contents
    return True


def find_orphans(
    fs: FileSystem, location: Location, *, now: float, idle_seconds: float, txns: ValidTxnList
) -> tuple[Litter, ...]:
    """Return the orphans in a place in which nothing was modified for `idle_seconds`, in the order of names.

    Staging is recognised by its name: compactors, Hive's and this one, write to `_tmp_…`, Hive's queries to
    `.hive-staging…`. A result is an orphan when the transaction of its `_vT` is known to be aborted, or when it was
    undone. Staging with the record of a publication, which the next run finishes, is none. The caller has made sure
    that no other run holds a live claim on the place. Raises ConflictError when the place is gone.
    """
    orphans = []
    for entry in fs.list_directory(str(location), missing=ConflictError):
        reason = None if entry.is_symlink or not entry.is_directory else _orphan_reason(entry.name, txns)
        contents = None if reason is None else _contents(fs, location, entry)
        if reason is None or contents is None:
            continue
        if STAGING_MARKER in contents[0] and reason != TAKEN_BACK:
            reason = "staging of a dead run of this engine"
        # only Hive knows whether its query or compactor still lives: its staging is left for a day at least
        patience = max(idle_seconds, LITTER_SECONDS) if reason in _FOREIGN else idle_seconds
        if now - contents[2] > patience:
            orphans.append(Litter(name=entry.name, bytes=contents[1], idle_seconds=now - contents[2], reason=reason))
    return tuple(orphans)


def _orphan_reason(name: str, txns: ValidTxnList) -> str | None:
    if name.startswith(STAGING_PREFIX):
        return _FOREIGN[0]
    if name.startswith(HIVE_STAGING_PREFIX):
        return _FOREIGN[1]
    if name.startswith(UNDONE):
        return TAKEN_BACK
    parsed = parse_directory(name, ANY_NAMES)
    if parsed is not None and parsed.visibility_txn and txns.is_txn_aborted(parsed.visibility_txn):
        return f"the result of transaction {parsed.visibility_txn}, which was aborted"
    return None


def _contents(fs: FileSystem, location: Location, entry: Entry) -> tuple[set[str], int, float] | None:
    """Return the paths below a directory, their bytes, and the time of its last change in seconds since the epoch.

    None when it must not be touched: another run is at work in it, it cannot be read, or it holds the record of a
    publication, which the next run finishes.
    """
    try:
        tree = fs.list_tree(f"{location}/{entry.name}", enter_hidden=True, missing=ConflictError)
    except AcidError:
        return None
    names = {item.path for item in tree}
    if PUBLISH_RECORD in names and not entry.name.startswith(UNDONE):  # an undone result keeps its record
        return None
    return names, sum(item.length for item in tree), max([entry.modified, *(item.modified for item in tree)])
