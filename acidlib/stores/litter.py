"""What dead runs, ours and Hive's, left at a table or partition and nobody will ever read.

Litter is what a run of this engine must have left; every cleaning removes it. Orphans are looked for on request: they
are staging directories of anybody, and results whose transaction was aborted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from acidlib.errors import AcidError, ConflictError
from acidlib.model.location import Location
from acidlib.model.names import Generation, parse_directory
from acidlib.model.snapshots import ValidTxnList
from acidlib.stores.filesystem import Entry, FileSystem
from acidlib.stores.removing import OUT_OF_SIGHT, TRASH
from acidlib.stores.renaming.claims import CLAIM_DIRECTORY, read_claim
from acidlib.stores.renaming.publishing import PUBLISH_RECORD, STAGING_MARKER, STAGING_PREFIX, UNDONE

LITTER_SECONDS = 86_400.0
"""How long nothing must have been modified in what is called litter."""

HIVE_STAGING_PREFIX = ".hive-staging"
"""What Hive's queries write to before their results have a name (`hive.exec.stagingdir`)."""

_UNFINISHED_TRASH = re.compile(re.escape(TRASH) + r"\.[0-9a-f]{32}\.tmp")

_NAMED_SO = (OUT_OF_SIGHT, UNDONE, f"{CLAIM_DIRECTORY}.", STAGING_PREFIX, f"{TRASH}.")

_FOREIGN = ("staging of a compaction", "staging of a query")
TAKEN_BACK = "the result of a compaction that was undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Litter:
    """Something that a dead run left in a partition; `idle_seconds` since anything in it was modified."""

    name: str
    bytes: int
    idle_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """One directory that nobody will ever read; `idle_seconds` since anything in it was modified."""

    path: str
    bytes: int
    idle_seconds: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contents:
    """What lies in a directory: the paths below it, their bytes, and when any of it was modified last."""

    names: frozenset[str]
    bytes: int
    modified: float


def may_be_litter(name: str) -> bool:
    """Whether `find_litter` looks at what has this name in a partition; the claim's own name apart."""
    return name.startswith(_NAMED_SO)


def find_litter(
    fs: FileSystem,
    location: Location,
    *,
    now: float,
) -> tuple[Litter, ...]:
    """Staging directories and unfinished claims of dead runs in a partition that may be removed, and undone results.

    Only what carries our marker or the name of a claim, or is empty, and in which nothing was modified for
    `LITTER_SECONDS` (a result that was undone: since then); and what a cleaner took out of sight, at once. Never one
    with the record of a publication that is to be finished. The caller has made sure that nobody else holds a live
    claim on the partition.
    """
    found = (_as_litter(fs, location, entry, now) for entry in fs.list_directory(str(location), missing=ConflictError))
    return tuple(
        litter
        for litter in found
        if litter is not None and (litter.idle_seconds > LITTER_SECONDS or litter.name.startswith(OUT_OF_SIGHT))
    )


def _as_litter(fs: FileSystem, location: Location, entry: Entry, now: float) -> Litter | None:
    if entry.is_symlink:
        return None
    if entry.name.startswith(OUT_OF_SIGHT):
        found = _contents(fs, location, entry) if entry.is_directory else None
        size, modified = (entry.length, entry.modified) if found is None else (found.bytes, found.modified)
        return Litter(name=entry.name, bytes=size, idle_seconds=now - modified)
    if entry.name == CLAIM_DIRECTORY or entry.name.startswith(f"{CLAIM_DIRECTORY}."):
        return _claim_as_litter(fs, location, entry, now)
    if entry.is_directory and _UNFINISHED_TRASH.fullmatch(entry.name):
        return _unfinished_trash(fs, location, entry, now)
    if not entry.is_directory or not entry.name.startswith((STAGING_PREFIX, UNDONE)):
        return None
    found = _contents(fs, location, entry)
    if found is None:
        return None
    if entry.name.startswith(UNDONE):
        return Litter(name=entry.name, bytes=found.bytes, idle_seconds=now - found.modified)
    if STAGING_MARKER not in found.names and not all(name.startswith(f"{STAGING_MARKER}.") for name in found.names):
        return None  # not ours: a run that died before its marker was whole leaves at most the marker's first half
    return Litter(name=entry.name, bytes=found.bytes, idle_seconds=now - found.modified)


def _unfinished_trash(fs: FileSystem, location: Location, entry: Entry, now: float) -> Litter | None:
    """What is left of making the trash where that takes a rename: nothing was ever moved into it."""
    found = _contents(fs, location, entry)
    return None if found is None or found.names else Litter(name=entry.name, bytes=0, idle_seconds=now - found.modified)


def _claim_as_litter(fs: FileSystem, location: Location, entry: Entry, now: float) -> Litter | None:
    """What a run leaves that dies while it claims, and while it releases: then nobody holds the claim any more."""
    if not entry.is_directory:
        return None
    if entry.name == CLAIM_DIRECTORY and read_claim(fs, location) is not None:
        return None
    found = _contents(fs, location, entry)
    if found is None:
        return None
    return Litter(name=entry.name, bytes=found.bytes, idle_seconds=now - found.modified)


def find_orphans(
    fs: FileSystem,
    location: Location,
    *,
    now: float,
    idle_seconds: float,
    txns: ValidTxnList,
) -> tuple[Orphan, ...]:
    """The orphans in a table or partition in which nothing was modified for `idle_seconds`; in the order of names.

    Staging is recognised by its name: `_tmp_…` is what compactors write to, Hive's and this one, `.hive-staging…` what
    Hive's queries do. A result is an orphan when the transaction of its `_vT` is known to be aborted, or when it was
    undone. Staging with the record of a publication, which the next run finishes, is none. The caller has made sure
    that no other run holds a live claim on the place. Raises ConflictError when the place is gone.
    """
    found = []
    for entry in fs.list_directory(str(location), missing=ConflictError):
        if not entry.is_directory or entry.is_symlink:
            continue
        what = _what(entry.name, txns)
        orphan = None if what is None else _measured(fs, location, entry, what, now)
        if orphan is not None and orphan.idle_seconds > _patience(orphan, idle_seconds):
            found.append(orphan)
    return tuple(found)


def _what(name: str, txns: ValidTxnList) -> str | None:
    if name.startswith(STAGING_PREFIX):
        return _FOREIGN[0]
    if name.startswith(HIVE_STAGING_PREFIX):
        return _FOREIGN[1]
    if name.startswith(UNDONE):
        return TAKEN_BACK
    parsed = parse_directory(name, Generation.HIVE4)
    if parsed is not None and parsed.visibility_txn and txns.is_txn_aborted(parsed.visibility_txn):
        return f"the result of transaction {parsed.visibility_txn}, which was aborted"
    return None


def _patience(orphan: Orphan, idle_seconds: float) -> float:
    """Only Hive knows whether its query or compactor still lives: its staging is left for a day at least."""
    return max(idle_seconds, LITTER_SECONDS) if orphan.reason in _FOREIGN else idle_seconds


def _measured(fs: FileSystem, location: Location, entry: Entry, what: str, now: float) -> Orphan | None:
    found = _contents(fs, location, entry)
    if found is None:
        return None
    if STAGING_MARKER in found.names and what != TAKEN_BACK:
        what = "staging of a dead run of this engine"
    return Orphan(path=entry.name, bytes=found.bytes, idle_seconds=now - found.modified, reason=what)


def _contents(fs: FileSystem, location: Location, entry: Entry) -> _Contents | None:
    """What a directory that nobody may need any more holds.

    None when it must not be touched: somebody is at work in it, it cannot be read, or it holds the record of a
    publication, which the next run finishes.
    """
    try:
        tree = fs.list_tree(f"{location}/{entry.name}", enter_hidden=True, missing=ConflictError)
    except AcidError:
        return None
    names = frozenset(item.path for item in tree)
    if PUBLISH_RECORD in names and not entry.name.startswith(UNDONE):  # nobody finishes that one
        return None
    return _Contents(
        names=names,
        bytes=sum(item.length for item in tree),
        modified=max([entry.modified, *(item.modified for item in tree)]),
    )
