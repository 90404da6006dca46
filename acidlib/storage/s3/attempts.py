"""One attempt at a file that is to be published: an upload that was filled and not completed.

Nobody sees such an upload, not even in a listing, and it may be completed from any process that knows its parts. A
task tells the driver of it by a value. Where nobody does, because a run died, a note beside the staging marker says
which upload is to be aborted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from acidlib.errors import CorruptError
from acidlib.storage.staging import STAGING_MARKER, STAGING_PREFIX

OUTPUTS = "_outputs"
NOTE_PREFIX = f"{STAGING_MARKER}.upload."
MARK = "acidlib"
"""The metadata of an object that tells whose it is."""

_OUTPUT = re.compile(
    rf"(?P<staging>(?P<location>.+)/{STAGING_PREFIX}(?P<unique>[^/]+))/{OUTPUTS}"
    r"/(?P<attempt>[^/]+)/(?P<directory>[^/]+)/(?P<file>[^/]+)",
    re.DOTALL,
)

_STAGED = re.compile(rf"(?P<staging>.+/{STAGING_PREFIX}[^/]+)/(?P<name>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of an upload; `checksums` as the store gave them, by their names in its interface."""

    number: int
    version: str
    size: int
    checksums: tuple[tuple[str, str], ...] = ()

    def as_completed(self) -> Any:
        """As the request that completes an upload names it."""
        return {"PartNumber": self.number, "ETag": self.version, **dict(self.checksums)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An upload that was filled. `key` is the final one, `mark` what its object's metadata will say."""

    directory: str
    file: str
    key: str
    upload: str
    length: int
    mark: str
    parts: tuple[Part, ...]

    @staticmethod
    def of_text(text: str) -> Attempt:
        """Back from `text`; CorruptError when it is none."""
        try:
            document = json.loads(text)
        except ValueError as error:
            raise CorruptError("Cannot read what a task has made: because it is not JSON") from error
        return Attempt.of_document(document, where="what a task has made")

    @property
    def text(self) -> str:
        """As a task hands it to the driver."""
        return json.dumps(self.document())

    def document(self) -> dict[str, Any]:
        """As a value of JSON."""
        return {
            "directory": self.directory,
            "file": self.file,
            "key": self.key,
            "upload": self.upload,
            "length": self.length,
            "mark": self.mark,
            "parts": [[part.number, part.version, part.size, dict(part.checksums)] for part in self.parts],
        }

    @staticmethod
    def of_document(document: Mapping[str, Any], *, where: str) -> Attempt:
        """Back from JSON; CorruptError naming `where` it was read when it is not one."""
        try:
            return Attempt(
                directory=str(document["directory"]),
                file=str(document["file"]),
                key=str(document["key"]),
                upload=str(document["upload"]),
                length=int(document["length"]),
                mark=str(document["mark"]),
                parts=tuple(
                    Part(number=int(number), version=str(version), size=int(size), checksums=tuple(checksums.items()))
                    for number, version, size, checksums in document["parts"]
                ),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptError(f"Cannot read {where}: because it does not describe an upload") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPath:
    """What the path of an attempt says: where it is staged, and what it is to become."""

    staging: str
    location: str
    unique: str
    attempt: str
    directory: str
    file: str

    @property
    def final(self) -> str:
        """The path that readers will see."""
        return f"{self.location}/{self.directory}/{self.file}"

    @property
    def mark(self) -> str:
        """What the object's metadata will say."""
        return f"{self.unique}/{self.attempt}"


def output_path(staging: str, directory: str, file: str, attempt: str) -> str:
    """The path of one attempt at `directory`/`file`, which is no object; `attempt` is unique to the task attempt."""
    return f"{staging}/{OUTPUTS}/{attempt}/{directory}/{file}"


def note_path(path: str) -> str | None:
    """Where the upload of a file in or for a staging directory is noted; None for any other path."""
    found = _STAGED.fullmatch(path)
    return None if found is None else f"{found['staging']}/{NOTE_PREFIX}{found['name'].replace('/', '.')}"


def parse_output_path(path: str) -> OutputPath | None:
    """What the path of an attempt says; None when it is not one."""
    found = _OUTPUT.fullmatch(path)
    return None if found is None else OutputPath(**found.groupdict())
