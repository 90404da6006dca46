"""What came of undoing a compaction: as a value, JSON and text."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from acidlib.report.results import EXIT_DONE, EXIT_NOT_DONE
from acidlib.report.text import field, wrapped


class UndoState(enum.Enum):
    """The `state` of an undo."""

    PLANNED = "planned"
    UNDONE = "undone"
    WAS_UNDONE = "already undone"
    REFUSED = "refused"
    CONFLICT = "conflict"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoResult:
    """One compaction, and whether it was or would be undone. Unknown is None or empty.

    id         of the request
    type       of the compaction, major or minor
    result     the directories that readers do not see any more
    moved_to   the directory of the place in which they lie now, or would lie
    inputs     the directories that readers read in their place
    originals  the original files that they read beside these
    """

    id: int
    database: str
    table: str
    partition: str | None
    location: str
    type: str
    state: UndoState
    reason: str
    result: tuple[str, ...] = ()
    moved_to: str | None = None
    inputs: tuple[str, ...] = ()
    originals: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """database.table, or database.table.partition."""
        return ".".join(part for part in (self.database, self.table, self.partition) if part)

    def document(self) -> dict[str, Any]:
        """`undo` in the JSON document."""
        return asdict(self) | {"state": self.state.value}

    def exit_status(self) -> int:
        """Whether it is, or was, done, or was refused; else the only place that is named failed or is held."""
        return EXIT_NOT_DONE if self.state in (UndoState.CONFLICT, UndoState.FAILED) else EXIT_DONE

    def text(self) -> str:
        """For people."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield from wrapped(f"{self.name}: {self.state.value} ({self.type} compaction, request {self.id})", "", "    ")
        yield from field("reason", self.reason)
        yield from field("location", self.location)
        is_planned = self.state is UndoState.PLANNED
        if self.moved_to is not None and self.result:
            what = f"{', '.join(self.result)}, to {self.moved_to}"
            yield from field("would move" if is_planned else "moved", what)
        again = [*self.inputs, *([f"{len(self.originals)} original files"] if self.originals else [])]
        if again:
            yield from field("would read" if is_planned else "read again", ", ".join(again))
