"""Staged directories of a compaction that is to be published."""

from pathlib import Path

from acidlib.stores.filesystem import RenameFileSystem
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.renaming.publishing import (
    PublicationRecord,
    StagedDirectory,
    StagedFile,
    accept_attempt,
    add_output_directory,
    attempt_path,
    create_staging,
    write_record,
)

FS: RenameFileSystem = LocalFileSystem()
DELTA = "delta_0000001_0000004"
DELETES = "delete_delta_0000001_0000004"
INPUTS = ("delta_0000001_0000001_0000", "delta_0000004_0000004_0000")


def fine() -> None:
    """A last check that finds nothing wrong."""


def stage(location: Path, *names: str, unique: str = "run") -> tuple[str, tuple[StagedDirectory, ...]]:
    for name in INPUTS:
        (location / name).mkdir(exist_ok=True)
    staging = create_staging(FS, str(location), unique=unique, owner="test", now=1.0)
    staged = []
    for name in names:
        add_output_directory(FS, staging, name)
        attempt = attempt_path(staging, name, "bucket_00000", "3.0")
        Path(attempt).write_bytes(name.encode())
        accept_attempt(FS, staging, attempt, name, "bucket_00000")
        staged.append(StagedDirectory(name=name, files=(StagedFile(name="bucket_00000", length=len(name)),)))
    return staging, tuple(staged)


def visible(location: Path) -> set[str]:
    return {path.name for path in location.iterdir() if path.name not in INPUTS}


def recorded(location: Path, *, renamed: tuple[str, ...] = ()) -> str:
    staging, staged = stage(location, DELTA, DELETES)
    write_record(FS, f"{staging}/publish.json", PublicationRecord(directories=staged, inputs=INPUTS))
    for name in renamed:
        (Path(staging) / name).rename(location / name)
    return staging
