"""Staging: where results are written before anybody can see them, and what dead runs leave behind.

A staging directory is `_tmp_<unique>` in the partition; every reader skips it for its leading underscore. Below it,
each output directory stands under its final name, and attempts of tasks under names of their own:

    _tmp_<unique>/_acidlib_staging            marks it as ours
    _tmp_<unique>/_attempts/<file>.<attempt>  written by tasks; retries and speculation never meet
    _tmp_<unique>/base_0000007/bucket_00000   accepted by the driver

Whoever claims the partition next takes staging of earlier runs away by renaming it, `_tmp_<unique>.revoked`, before it
looks at anything else. A run that is not dead but was paused, even between its last check and its rename, finds nothing
to rename when it wakes: no clock and no waiting time decides that, only the order of two renames.
"""

import json
from dataclasses import dataclass

from acidlib.errors import AcidError, ConflictError
from acidlib.storage.claims import CLAIM_FILE, is_claimed
from acidlib.storage.filesystem import Entry, FileSystem

STAGING_PREFIX = "_tmp_"
STAGING_MARKER = "_acidlib_staging"
ATTEMPTS = "_attempts"
PUBLISH_RECORD = "publish.json"
REVOKED = ".revoked"
LITTER_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What lies in a directory: the paths below it, their bytes, and when any of it was modified last."""

    names: frozenset[str]
    bytes: int
    modified: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Litter:
    """Something a dead run left in `location`; `idle_seconds` since the newest file in it was modified."""

    location: str
    name: str
    bytes: int
    idle_seconds: float


def create_staging(fs: FileSystem, location: str, *, unique: str, owner: str, now: float) -> str:
    """Creates `_tmp_<unique>` with its marker and the directory for attempts; returns its path.

    Raises `ConflictError` when that name exists.
    """
    path = f"{location}/{STAGING_PREFIX}{unique}"
    fs.make_directory(path)
    fs.create(f"{path}/{STAGING_MARKER}", json.dumps({"owner": owner, "start": now}).encode())
    fs.make_directory(f"{path}/{ATTEMPTS}")
    fs.inherit(path, location)
    return path


def add_output_directory(fs: FileSystem, staging: str, name: str) -> str:
    """Creates the staged directory that is to be published as `name`; returns its path."""
    path = f"{staging}/{name}"
    fs.make_directory(path)
    return path


def attempt_path(staging: str, directory: str, file: str, attempt: str) -> str:
    """The path for one attempt at `directory`/`file`; `attempt` must be unique to the task attempt."""
    return f"{staging}/{ATTEMPTS}/{directory}.{file}.{attempt}"


def accept_attempt(fs: FileSystem, staging: str, attempt: str, directory: str, file: str) -> str:
    """Moves the one attempt that counts to its place in the staged directory; returns the path.

    A second attempt for the same file raises `ConflictError`: duplicates are dropped by the caller, never merged.
    """
    target = f"{staging}/{directory}/{file}"
    fs.rename_noreplace(attempt, target)
    return target


def remove_staging(fs: FileSystem, location: str, staging: str) -> str | None:
    """Removes a staging directory; returns None, or why something of it is left (it is hidden and harmless)."""
    try:
        fs.remove_tree(location, staging.removeprefix(f"{location}/"))
    except AcidError as error:
        return str(error)
    return None


def revoke(fs: FileSystem, staging: str) -> str:
    """Takes a staging directory from whoever made it; returns where it lies now."""
    if staging.endswith(REVOKED):
        return staging
    fs.rename_noreplace(staging, staging + REVOKED, missing=ConflictError)
    return staging + REVOKED


def made_as(name: str) -> str:
    """The name that a staging directory had when it was made, whether or not it was revoked since."""
    return name.removesuffix(REVOKED)


def revoke_others(fs: FileSystem, location: str) -> None:
    """Takes away what earlier runs of this engine staged in a partition.

    The caller has claimed the partition and has staged nothing yet. Never what has the record of a publication, which
    is to be finished first.
    """
    for entry in fs.list_directory(location, missing=ConflictError):
        if entry.is_symlink or not entry.is_directory or not entry.name.startswith(STAGING_PREFIX):
            continue
        path = f"{location}/{entry.name}"
        if entry.name.endswith(REVOKED) or not fs.exists(f"{path}/{STAGING_MARKER}"):
            continue
        if not fs.exists(f"{path}/{PUBLISH_RECORD}"):
            revoke(fs, path)


def find_litter(
    fs: FileSystem,
    location: str,
    *,
    now: float,
    own_token: str | None = None,
    keep: tuple[str, ...] = (),
    idle_seconds: float = LITTER_SECONDS,
) -> tuple[Litter, ...]:
    """Staging directories and half-made claims of dead runs in a partition that may be removed.

    Only what carries our marker, or is empty, and in which nothing was modified for `idle_seconds` (a day). Never one
    with a publication record (that is finished first), never one named in `keep`, and nothing at all while somebody
    else holds a live claim on the partition; `own_token` is that of the caller's own claim.
    """
    if is_claimed(fs, location, now, own_token=own_token):
        return ()
    found = []
    for entry in fs.list_directory(location, missing=ConflictError):
        litter = None if entry.name in keep else _as_litter(fs, location, entry, now)
        if litter is not None and litter.idle_seconds > idle_seconds:
            found.append(litter)
    return tuple(found)


def _as_litter(fs: FileSystem, location: str, entry: Entry, now: float) -> Litter | None:
    if entry.is_symlink:
        return None
    if not entry.is_directory:
        unfinished = entry.name.startswith(f"{CLAIM_FILE}.") and entry.name.endswith(".tmp")
        return _litter(location, entry, entry.length, now - entry.modified) if unfinished else None
    if not entry.name.startswith(STAGING_PREFIX):
        return None
    found = contents(fs, location, entry)
    if found is None:
        return None
    if STAGING_MARKER not in found.names and not all(name.startswith(f"{STAGING_MARKER}.") for name in found.names):
        return None  # not ours: a run that died before its marker was whole leaves at most the marker's first half
    return _litter(location, entry, found.bytes, now - found.modified)


def contents(fs: FileSystem, location: str, entry: Entry) -> Contents | None:
    """What a directory that nobody may need any more holds.

    None when it must not be touched: somebody is at work in it, it cannot be read, or it holds the record of a
    publication, which the next run finishes.
    """
    try:
        tree = fs.list_tree(f"{location}/{entry.name}", enter_hidden=True, missing=ConflictError)
    except AcidError:
        return None
    names = frozenset(item.path for item in tree)
    if PUBLISH_RECORD in names:
        return None
    return Contents(
        names=names,
        bytes=sum(item.length for item in tree),
        modified=max([entry.modified, *(item.modified for item in tree)]),
    )


def _litter(location: str, entry: Entry, size: int, idle: float) -> Litter:
    return Litter(location=location, name=entry.name, bytes=size, idle_seconds=idle)
