"""Places as runs find them: files, names that are taken, and staged directories that are to be published."""

from pathlib import Path

from acidlib.stores.filesystem import RenameFileSystem
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.renaming.store import RenameStore, write_record
from acidlib.stores.store import PublicationRecord, StagedDirectory, StagedFile, attempt_path

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
        staged.append(made.accept(name, [StagedFile(path=attempt, name="bucket_00000", length=len(name))]))
    return made.path, tuple(staged)


def visible(location: Path) -> set[str]:
    return {path.name for path in location.iterdir() if path.name not in INPUTS}


def recorded(location: Path, *, renamed: tuple[str, ...] = ()) -> str:
    staging, staged = stage(location, DELTA, DELETES)
    write_record(FS, f"{staging}/publish.json", PublicationRecord(directories=staged, inputs=INPUTS))
    for name in renamed:
        (Path(staging) / name).rename(location / name)
    return staging


def put(root: Path, *paths: str) -> None:
    for path in paths:
        target = root / path
        if path.endswith("/"):
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.encode())


def take(path: Path, how: str) -> None:
    """Let something have a name."""
    if how == "file":
        path.write_bytes(b"theirs")
    elif how.endswith("link"):
        path.symlink_to("_outside" if how == "link" else "_nowhere")
    else:
        path.mkdir()
        if how == "full directory":
            (path / "theirs").touch()


TAKEN = ["empty directory", "full directory", "file", "link", "dangling link"]
