"""Staging: where results are written before anybody can see them.

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

from acidlib.errors import AcidError, ConflictError
from acidlib.model.location import Location
from acidlib.storage.filesystem import FileSystem, RenameFileSystem
from acidlib.storage.renames import renamed

STAGING_PREFIX = "_tmp_"
STAGING_MARKER = "_acidlib_staging"
ATTEMPTS = "_attempts"
PUBLISH_RECORD = "publish.json"
REVOKED = ".revoked"


def create_staging(fs: RenameFileSystem, location: Location, *, unique: str, owner: str, now: float) -> str:
    """Creates `_tmp_<unique>` with its marker and the directory for attempts; returns its path.

    Raises `ConflictError` when that name exists. It is made durable when it is published from; before that, what a loss
    of power leaves of it is litter.
    """
    path = f"{location}/{STAGING_PREFIX}{unique}"
    fs.make_directory(path)
    fs.create(f"{path}/{STAGING_MARKER}", json.dumps({"owner": owner, "start": now}).encode(), durable=False)
    fs.make_directory(f"{path}/{ATTEMPTS}")
    fs.inherit(path, str(location))
    return path


def add_output_directory(fs: RenameFileSystem, staging: str, name: str) -> str:
    """Creates the staged directory that is to be published as `name`; returns its path."""
    path = f"{staging}/{name}"
    fs.make_directory(path)
    return path


def attempt_path(staging: str, directory: str, file: str, attempt: str) -> str:
    """The path for one attempt at `directory`/`file`; `attempt` must be unique to the task attempt."""
    return f"{staging}/{ATTEMPTS}/{directory}.{file}.{attempt}"


class AttemptFiles:
    """How a task names the attempts that `accept_attempt` moves: by their paths."""

    __slots__ = ()

    def output_path(self, staging: str, directory: str, file: str, attempt: str) -> str:
        """See `attempt_path`."""
        return attempt_path(staging, directory, file, attempt)

    def written(self, path: str) -> str:
        """Its path."""
        return path


def accept_attempt(fs: RenameFileSystem, staging: str, attempt: str, directory: str, file: str) -> str:
    """Moves the one attempt that counts to its place in the staged directory; returns the path.

    A second attempt for the same file raises `ConflictError`: duplicates are dropped by the caller, never merged.
    Publishing makes it durable.
    """
    target = f"{staging}/{directory}/{file}"
    if not renamed(fs, attempt, target, durable=False):
        raise ConflictError(f"Cannot accept {attempt}: because {target} already exists, or another run has revoked it")
    return target


def remove_staging(fs: FileSystem, location: Location, staging: str) -> str | None:
    """Removes a staging directory; returns None, or why something of it is left (it is hidden and harmless)."""
    try:
        fs.remove_tree(str(location), staging.removeprefix(f"{location}/"))
    except AcidError as error:
        return str(error)
    return None


def revoke(fs: RenameFileSystem, staging: str) -> str:
    """Takes a staging directory from whoever made it; returns where it lies now."""
    if staging.endswith(REVOKED):
        return staging
    if not renamed(fs, staging, staging + REVOKED):
        raise ConflictError(f"Cannot revoke {staging}: because it is gone, or {staging}{REVOKED} already exists")
    return staging + REVOKED


def made_as(name: str) -> str:
    """The name that a staging directory had when it was made, whether or not it was revoked since."""
    return name.removesuffix(REVOKED)


def revoke_others(fs: RenameFileSystem, location: Location) -> None:
    """Takes away what earlier runs of this engine staged in a partition.

    The caller has claimed the partition and has staged nothing yet. Never what has the record of a publication, which
    is to be finished first.
    """
    for entry in fs.list_directory(str(location), missing=ConflictError):
        if entry.is_symlink or not entry.is_directory or not entry.name.startswith(STAGING_PREFIX):
            continue
        path = f"{location}/{entry.name}"
        if entry.name.endswith(REVOKED) or not fs.exists(f"{path}/{STAGING_MARKER}"):
            continue
        if not fs.exists(f"{path}/{PUBLISH_RECORD}"):
            revoke(fs, path)
