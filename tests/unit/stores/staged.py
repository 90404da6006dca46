"""Staged directories of a compaction that is to be published."""

from pathlib import Path

from acidlib.stores.filesystem import RenameFileSystem
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.renaming.store import RenameStore, write_record
from acidlib.stores.store import Attempt, PublicationRecord, StagedDirectory, attempt_path

FS: RenameFileSystem = LocalFileSystem()
DELTA = "delta_0000001_0000004"
DELETES = "delete_delta_0000001_0000004"
INPUTS = ("delta_0000001_0000001_0000", "delta_0000004_0000004_0000")


def fine() -> None:
    """A last check that finds nothing wrong."""


def stage(location: Path, *names: str, unique: str = "run") -> tuple[str, tuple[StagedDirectory, ...]]:
    for name in INPUTS:
        (location / name).mkdir(exist_ok=True)
    made = RenameStore(FS).stage(str(location), unique=unique, owner="test", now=1.0)
    staged = []
    for name in names:
        attempt = attempt_path(made.path, name, "bucket_00000", "3.0")
        Path(attempt).write_bytes(name.encode())
        staged.append(made.accept(name, [Attempt(written=attempt, name="bucket_00000", length=len(name))]))
    return made.path, tuple(staged)


def visible(location: Path) -> set[str]:
    return {path.name for path in location.iterdir() if path.name not in INPUTS}


def recorded(location: Path, *, renamed: tuple[str, ...] = ()) -> str:
    staging, staged = stage(location, DELTA, DELETES)
    write_record(FS, f"{staging}/publish.json", PublicationRecord(directories=staged, inputs=INPUTS))
    for name in renamed:
        (Path(staging) / name).rename(location / name)
    return staging
