"""The marker of a run's staging directory: one object, and how it changes decides between runs.

It says `staging` until its run records what it publishes, or another run revokes it. Both are done by replacing the
version that was read, so only one of them happens: a run that slept after its last check cannot record any more once
it was revoked, and what is recorded is finished by anybody. It never goes back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from acidlib.errors import CorruptError
from acidlib.storage.records import StagedDirectory, StagedFile
from acidlib.storage.s3.attempts import Attempt
from acidlib.storage.s3.client import Bucket
from acidlib.storage.s3.conditional import create_object, read_object, replace_object
from acidlib.storage.staging import STAGING_MARKER

_VERSION = 1


class State(StrEnum):
    """What a marker says of its run."""

    STAGING = "staging"
    RECORDED = "recorded"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A publication that is decided: what is to be completed, the first upload before all others.

    hidden  nobody sees it before a transaction commits, so that nobody has to finish it
    closed  `_metadata_acid`, which is the first upload, keeps readers away until all is there, and is replaced last
    """

    directories: tuple[StagedDirectory, ...]
    inputs: tuple[str, ...]
    uploads: tuple[Attempt, ...]
    hidden: bool
    closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The marker of a staging directory. `start` is in seconds since the epoch, for people."""

    path: str
    unique: str
    owner: str
    start: float
    state: State = State.STAGING
    recorded: Recorded | None = None
    version: str = ""

    @property
    def staging(self) -> str:
        """The staging directory."""
        return self.path.removesuffix(f"/{STAGING_MARKER}")


def marker_path(staging: str) -> str:
    """Where the marker of a staging directory is."""
    return f"{staging}/{STAGING_MARKER}"


def create_marker(bucket: Bucket, marker: Marker) -> Marker:
    """Makes a marker; ChangedError when there is one."""
    return replace(marker, version=create_object(bucket, marker.path, _encoded(marker)))


def read_marker(bucket: Bucket, staging: str) -> Marker | None:
    """The marker of a staging directory; None without one. CorruptError when it cannot be understood."""
    path = marker_path(staging)
    found = read_object(bucket, path)
    return None if found is None else _decoded(path, found.data, found.version)


def move_marker(bucket: Bucket, marker: Marker, state: State, recorded: Recorded | None = None) -> Marker:
    """The marker as it says something else from now on; ChangedError when another run was faster."""
    moved = replace(marker, state=state, recorded=recorded)
    return replace(moved, version=replace_object(bucket, marker.path, marker.version, _encoded(moved)))


def _encoded(marker: Marker) -> bytes:
    document: dict[str, Any] = {
        "version": _VERSION,
        "state": marker.state,
        "unique": marker.unique,
        "owner": marker.owner,
        "start": marker.start,
    }
    if (recorded := marker.recorded) is not None:
        document["publication"] = {
            "directories": [
                {"name": item.name, "files": [[file.name, file.length] for file in item.files]}
                for item in recorded.directories
            ],
            "inputs": list(recorded.inputs),
            "uploads": [attempt.document() for attempt in recorded.uploads],
            "hidden": recorded.hidden,
            "closed": recorded.closed,
        }
    return json.dumps(document, ensure_ascii=False, indent=1).encode()


def _decoded(path: str, data: bytes, version: str) -> Marker:
    try:
        document = json.loads(data)
        if document["version"] != _VERSION:
            raise ValueError("another version")
        state = State(document["state"])
        return Marker(
            path=path,
            unique=str(document["unique"]),
            owner=str(document["owner"]),
            start=float(document["start"]),
            state=state,
            recorded=_publication(path, document["publication"]) if state is State.RECORDED else None,
            version=version,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptError(
            f"Cannot read {path}: because it is not a marker that this version understands ({error})"
        ) from error


def _publication(path: str, document: Any) -> Recorded:
    return Recorded(
        directories=tuple(
            StagedDirectory(
                name=str(item["name"]),
                files=tuple(StagedFile(name=str(name), length=int(length)) for name, length in item["files"]),
            )
            for item in document["directories"]
        ),
        inputs=tuple(str(item) for item in document["inputs"]),
        uploads=tuple(Attempt.of_document(item, where=path) for item in document["uploads"]),
        hidden=bool(document["hidden"]),
        closed=bool(document["closed"]),
    )
