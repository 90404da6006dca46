"""Claims as other runs leave them, and time as the file system tells it to claims."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from acidlib.stores.filesystem import RenameFileSystem
from acidlib.stores.renaming.claims import ClaimRecord
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.store import CLAIM

ELSEWHERE = "elsewhere.1.1"
"""The identity of a process of another machine."""

CHANGES = (
    *("create", "make_directory", "inherit", "rename_noreplace"),
    *("remove_file", "remove_empty_directory", "remove_tree"),
)
"""The calls that change a file system."""


def lay_claim(location: Path, owner: str = "acidlib-other-host", *, age: float = 0.0, process: str = "") -> Path:
    """A claim under the token "theirs", whose owner gave its last sign of life `age` seconds ago; its directory."""
    path, token = location / CLAIM, "theirs"
    (path / f"7.{token}").mkdir(parents=True)
    beat = time.time() - age
    info = ClaimRecord(owner=owner, token=token, start=beat, beat=beat, process=process)
    (path / f"{token}.json").write_bytes(info.encode())
    os.utime(path, (beat, beat))
    return path


def age_claim(location: Path, seconds: float) -> None:
    """As if so many seconds had passed since the last sign of life of whoever holds a claim."""
    path = location / CLAIM
    before = path.stat().st_mtime
    os.utime(path, (before - seconds, before - seconds))


def owner_elsewhere(location: Path) -> None:
    """As if the holder of a claim had run on another machine."""
    (file,) = (location / CLAIM).glob("*.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"process": ELSEWHERE}))


def holder_of(location: Path) -> str:
    """The owner whom a claim names."""
    (generation,) = (path.name for path in (location / CLAIM).iterdir() if path.is_dir())
    token = generation.partition(".")[2]
    return str(json.loads((location / CLAIM / f"{token}.json").read_text())["owner"])


def claims_at_time(patch: Any, seconds: float) -> None:
    """Let the clock of a file system be so many seconds ahead, as far as claims can tell."""
    make, rename = LocalFileSystem.make_directory, LocalFileSystem.rename_noreplace

    def later(directory: Path) -> None:
        now = time.time() + seconds
        if directory.name == CLAIM or directory.name.startswith(f"{CLAIM}."):
            os.utime(directory, (now, now))

    def make_later(self: RenameFileSystem, path: str) -> None:
        make(self, path)
        later(Path(path))

    def rename_later(self: RenameFileSystem, source: str, target: str, **more: Any) -> None:
        rename(self, source, target, **more)
        for directory in (Path(target), Path(target).parent):
            later(directory)

    patch.setattr(LocalFileSystem, "make_directory", make_later)
    patch.setattr(LocalFileSystem, "rename_noreplace", rename_later)
