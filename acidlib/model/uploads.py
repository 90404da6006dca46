"""Multipart uploads to a bucket: what a task tells the driver of a file that it has uploaded and not completed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from acidlib.errors import CorruptError


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of an upload; `checksums` as the store gave them, by their names in its interface."""

    number: int
    version: str
    size: int
    checksums: tuple[tuple[str, str], ...] = ()

    def as_completed(self) -> Any:
        """Return it as the request that completes an upload names it."""
        return {"PartNumber": self.number, "ETag": self.version, **dict(self.checksums)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedUpload:
    """An upload that holds all of a file, or is about to be begun.

    key        of the object that it becomes when it is completed
    origin     the run and the attempt that made it; metadata of the object, which tell it from any other
    upload_id  as the store gave it; empty before it is begun
    length     of the file in bytes
    """

    key: str
    origin: str
    upload_id: str = ""
    length: int = 0
    parts: tuple[Part, ...] = ()

    @property
    def directory(self) -> str:
        """The name of the directory of the object."""
        return self.key.split("/")[-2]

    @property
    def file(self) -> str:
        """The name of the object in its directory."""
        return self.key.rpartition("/")[2]

    @property
    def named(self) -> dict[str, Any]:
        """The arguments that name it in requests to its bucket."""
        return {"Key": self.key, "UploadId": self.upload_id}

    def document(self) -> dict[str, Any]:
        """Return it as a JSON value."""
        return {
            "key": self.key,
            "upload": self.upload_id,
            "length": self.length,
            "origin": self.origin,
            "parts": [[part.number, part.version, part.size, dict(part.checksums)] for part in self.parts],
        }

    @staticmethod
    def of_document(document: Mapping[str, Any], *, where: str) -> StagedUpload:
        """Return the upload that a JSON value describes; CorruptError naming `where` it was read if it is none."""
        try:
            return StagedUpload(
                key=str(document["key"]),
                upload_id=str(document["upload"]),
                length=int(document["length"]),
                origin=str(document["origin"]),
                parts=tuple(
                    Part(number=int(number), version=str(version), size=int(size), checksums=tuple(checksums.items()))
                    for number, version, size, checksums in document["parts"]
                ),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptError(f"Cannot read {where}: it does not describe an upload") from error
