"""How results become visible in one kind of store: the steps that are safe there, behind one interface.

A store that can rename a directory atomically publishes by that; another has its own way. What only reads and removes
works by `FileSystem` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from acidlib.datafiles import DataFiles
from acidlib.model.location import Location
from acidlib.stores.held import Claim
from acidlib.stores.removing import Trash
from acidlib.stores.renaming.publishing import Published, RolledForward, StagedDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A file as the one attempt of a task made it that counts.

    written  what `TaskFiles.written` said of it: where it lies, or what it takes to complete it
    name     of the file in its directory
    length   in bytes
    """

    written: str
    name: str
    length: int


class TaskFiles(DataFiles, Protocol):
    """The data files of one task, and the files it makes for a stage. It may be pickled: what is open stays behind."""

    def output_path(self, staging: str, directory: str, file: str, attempt: str) -> str:
        """Where to create one attempt at `directory`/`file`; `attempt` is unique to the attempt of the task."""

    def written(self, path: str) -> str:
        """What `Stage.accept` has to know of the attempt that this task has made at a path."""


class Stage(Protocol):
    """What one run has made for one place and nobody sees yet."""

    @property
    def path(self) -> str:
        """The directory of it, where tasks write; see `attempt_path`."""

    @property
    def is_readable(self) -> bool:
        """Whether files that were accepted can be read below `path`, as `directory/file`, before they are published."""

    def accept(self, directory: str, attempts: Sequence[Attempt]) -> StagedDirectory:
        """These files, and no others, are published as `directory`. ConflictError for one that has been accepted."""

    def publish(
        self, directories: tuple[StagedDirectory, ...], *, inputs: tuple[str, ...], last_check: Callable[[], None]
    ) -> Published:
        """Make one or two directories visible, durably: all of it or nothing, or what a later run finishes.

        inputs      relative paths of what they were made from
        last_check  called when all is ready: it raises when the claim is lost or the place has changed

        ConflictError where a name is taken or another run has revoked this one; nothing has changed then.
        UnknownOutcomeError where it cannot be said whether all is visible: the next run finishes it.
        """

    def publish_hidden(self, directories: tuple[StagedDirectory, ...], *, last_check: Callable[[], None]) -> Published:
        """As `publish`, under names with the suffix of an open transaction: its commit shows them all."""

    def discard(self) -> str | None:
        """Remove what is left, unless it is needed to finish a publication; why something stays, if it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds the claim on a place; `is_stale` says that the owner counts as dead."""

    owner: str
    token: str
    is_stale: bool


class Store(Protocol):
    """The steps of a compaction that change a place, in one store."""

    @property
    def shows_at_once(self) -> bool:
        """Whether a directory of several files becomes visible as a whole."""

    def claim(self, location: Location, *, owner: str, token: str, now: float) -> Claim:
        """The claim on a place for `owner`, a name for people, under a unique token; `now` is for people, too.

        ConflictError naming the holder while its claim is alive. How long it has been silent is told by the store's
        own clock.
        """

    def holder(self, location: Location, *, now: float) -> Holder | None:
        """Who holds the claim on a place, alive or not; None without one."""

    def revoke_others(self, location: Location) -> None:
        """Take from earlier runs what they have staged at a place that the caller has claimed: none can publish it."""

    def stage(self, location: Location, *, unique: str, owner: str, now: float) -> Stage:
        """Begin a stage at a place; `unique` is a text that no other run uses."""

    def trash(self, location: Location, name: str) -> Trash:
        """Where things of a place are moved instead of being removed; RefusedError where nothing can be moved.

        The name is unique; ConflictError where a link or a file has the name of the trash.
        """

    def take_out_of_sight(self, location: Location, relative: str, unique: str) -> str | None:
        """Have readers pass over a file or directory of a place at once; its relative path from then on, to remove.

        None, and nothing has changed, where nothing can be renamed. ConflictError when it is gone.
        """

    def make_durable(self, location: Location) -> None:
        """What was taken out of sight or removed directly in a place stays so after a loss of power from now on."""

    def trash_place(self, location: Location) -> str:
        """Where that is, in words; RefusedError as for `trash`. Makes nothing."""

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
        """Have readers pass over directories that were published, all at once as far as a later run can tell.

        They lie in the directory `aside` of the place from then on; otherwise as `take_back_published` of
        `renaming.publishing`. `unique`, `owner` and `now` are those of a stage. RefusedError where nothing can be
        renamed.
        """

    def require_taking_back(self, location: Location) -> None:
        """Raises RefusedError where `take_back` would."""

    def remove(self, location: Location, relative: str) -> None:
        """Remove a file or directory of a place, by its relative path; of what a run has staged nothing stays behind.

        See `FileSystem.remove_tree`.
        """

    def unfinished(self, location: Location) -> tuple[str, ...]:
        """The stages at a place whose publication was begun and not finished, by their paths."""

    def roll_forward(self, location: Location, *, visible_only: bool = False) -> tuple[RolledForward, ...]:
        """Finish or discard them; with `visible_only` those of which readers see a part already."""
