"""The record of a publication that takes two renames: enough for anybody to finish it."""

import json
from dataclasses import dataclass

from acidlib.errors import ConflictError, CorruptError
from acidlib.storage.filesystem import FileSystem, RenameFileSystem, safe_parts

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """One file directly in a staged directory; `length` in bytes."""

    name: str
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedDirectory:
    """A directory to publish under `name`, with every file that must be in it and no other."""

    name: str
    files: tuple[StagedFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationRecord:
    """Directories in the order in which they become visible, and the relative paths of what they were made from."""

    directories: tuple[StagedDirectory, ...]
    inputs: tuple[str, ...]


def write_record(fs: RenameFileSystem, path: str, record: PublicationRecord) -> None:
    """Writes the record whole and durably; an existing one raises `ConflictError`."""
    document = {
        "version": _VERSION,
        "directories": [
            {"name": item.name, "files": [{"name": file.name, "length": file.length} for file in item.files]}
            for item in record.directories
        ],
        "inputs": list(record.inputs),
    }
    fs.create(path, json.dumps(document, ensure_ascii=False, indent=1).encode())


def read_record(fs: FileSystem, path: str) -> PublicationRecord:
    """Reads a record back; raises `CorruptError` when it is damaged, or of a version that is not known."""
    try:
        document = json.loads(fs.read(path, missing=ConflictError))
        version = document["version"]
        record = PublicationRecord(
            directories=tuple(_directory(item) for item in document["directories"]),
            inputs=tuple(_text(item) for item in document["inputs"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptError(f"Cannot read {path}: because it is not a publication record") from error
    if version != _VERSION or not record.directories:
        raise CorruptError(f"Cannot read {path}: because this kind of publication record is not known")
    for directory in record.directories:
        if len(safe_parts(path, directory.name)) != 1:
            raise CorruptError(f"Cannot read {path}: because it publishes {directory.name!r}")
    for item in record.inputs:
        safe_parts(path, item)
    return record


def _directory(item: dict[str, object]) -> StagedDirectory:
    files = item["files"]
    if not isinstance(files, list):
        raise TypeError("files is not a list")
    return StagedDirectory(
        name=_text(item["name"]),
        files=tuple(StagedFile(name=_text(file["name"]), length=_number(file["length"])) for file in files),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a number")
    return value
