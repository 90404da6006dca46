"""Publication by renames: for file systems that rename a directory atomically, onto a name that must not exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from acidlib.errors import ConflictError
from acidlib.model.location import Location
from acidlib.stores.filesystem import RenameFileSystem, safe_parts
from acidlib.stores.held import Claim
from acidlib.stores.removing import OUT_OF_SIGHT, TRASH, Trash, TrashDirectory
from acidlib.stores.renaming.claims import claim, read_claim
from acidlib.stores.renaming.publishing import (
    PUBLISH_RECORD,
    Published,
    RolledForward,
    StagedDirectory,
    StagedFile,
    accept_attempt,
    add_output_directory,
    create_staging,
    publish,
    publish_hidden,
    remove_staging,
    revoke_others,
    roll_forward,
    take_back_published,
    unfinished_publications,
)
from acidlib.stores.store import Attempt, Holder


class RenameStore:
    """`Store` of a file system with atomic renames."""

    shows_at_once = True

    def __init__(self, fs: RenameFileSystem) -> None:
        self._fs = fs

    def claim(self, location: Location, *, owner: str, token: str, now: float) -> Claim:
        del now  # the file system has a clock
        return claim(self._fs, location, owner=owner, token=token)

    def holder(self, location: Location, *, now: float) -> Holder | None:
        found = read_claim(self._fs, location)
        return None if found is None else Holder(owner=found.owner, token=found.token, is_stale=found.is_stale(now))

    def revoke_others(self, location: Location) -> None:
        revoke_others(self._fs, location)

    def stage(self, location: Location, *, unique: str, owner: str, now: float) -> RenameStage:
        return RenameStage(self._fs, location, create_staging(self._fs, location, unique=unique, owner=owner, now=now))

    def trash(self, location: Location, name: str) -> Trash:
        trash = TrashDirectory(fs=self._fs, location=location, name=name)
        trash.make()
        return trash

    def take_out_of_sight(self, location: Location, relative: str, unique: str) -> str:
        parts = safe_parts(str(location), relative)
        hidden = f"{OUT_OF_SIGHT}{unique}.{parts[-1]}"
        source, target, is_top = "/".join((str(location), *parts)), f"{location}/{hidden}", len(parts) == 1
        self._fs.rename_noreplace(source, target, missing=ConflictError, durable=not is_top)
        return hidden

    def make_durable(self, location: Location) -> None:
        self._fs.sync(str(location))

    def trash_place(self, location: Location) -> str:
        return f"{location}/{TRASH}"

    def take_back(
        self,
        location: Location,
        directories: tuple[str, ...],
        *,
        aside: str,
        inputs: tuple[str, ...],
        unique: str,
        owner: str,
        now: float,
        last_check: Callable[[], None],
    ) -> None:
        staging = create_staging(self._fs, location, unique=unique, owner=owner, now=now)
        take_back_published(
            self._fs, location, directories, staging=staging, aside=aside, inputs=inputs, last_check=last_check
        )

    def require_taking_back(self, location: Location) -> None:
        pass

    def remove(self, location: Location, relative: str) -> None:
        self._fs.remove_tree(str(location), relative)

    def unfinished(self, location: Location) -> tuple[str, ...]:
        return unfinished_publications(self._fs, location)

    def roll_forward(self, location: Location, *, visible_only: bool = False) -> tuple[RolledForward, ...]:
        return roll_forward(self._fs, location, visible_only=visible_only)


class RenameStage:
    """`Stage` in a directory of its own."""

    is_readable = True

    def __init__(self, fs: RenameFileSystem, location: Location, path: str) -> None:
        self._fs = fs
        self._location = location
        self.path = path

    def accept(self, directory: str, attempts: Sequence[Attempt]) -> StagedDirectory:
        add_output_directory(self._fs, self.path, directory)
        for one in attempts:
            accept_attempt(self._fs, self.path, one.written, directory, one.name)
        return StagedDirectory(
            name=directory, files=tuple(StagedFile(name=one.name, length=one.length) for one in attempts)
        )

    def publish(
        self, directories: tuple[StagedDirectory, ...], *, inputs: tuple[str, ...], last_check: Callable[[], None]
    ) -> Published:
        return publish(self._fs, self._location, self.path, directories, inputs=inputs, last_check=last_check)

    def publish_hidden(self, directories: tuple[StagedDirectory, ...], *, last_check: Callable[[], None]) -> Published:
        return publish_hidden(self._fs, self._location, self.path, directories, last_check=last_check)

    def discard(self) -> str | None:
        if not self._fs.exists(self.path) or self._fs.exists(f"{self.path}/{PUBLISH_RECORD}"):
            return None
        return remove_staging(self._fs, self._location, self.path)
