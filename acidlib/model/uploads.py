"""Multipart uploads to a bucket: what a task tells the driver of a file that it has uploaded and not completed."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Part(Struct, frozen=True, kw_only=True, array_like=True):
    """One part of an upload; `checksums` as the store gave them, by their names in its interface."""

    number: int
    version: str
    size: int
    checksums: dict[str, str] = {}

    def as_completed(self) -> Any:
        """Return it as the request that completes an upload names it."""
        return {"PartNumber": self.number, "ETag": self.version, **self.checksums}


class StagedUpload(Struct, frozen=True, kw_only=True, rename={"upload_id": "upload"}):
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
