"""What the initiator decided about each place, and what the cleaner did at each: as values and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class InitiatorResult:
    """One table or partition that was looked at.

    type    "major", "minor", or None: nothing to do, or skipped
    queued  id of the new request; None when none was made
    """

    database: str
    table: str
    partition: str | None
    location: str
    type: str | None
    queued: int | None
    reason: str
    base_bytes: int | None = None
    delta_bytes: int | None = None
    deltas: int | None = None
    ratio: float | None = None
    threshold: float | None = None
    threshold_key: str | None = None
    threshold_source: str | None = None
    failed: bool = False

    @property
    def name(self) -> str:
        """database.table, or database.table.partition."""
        return ".".join(part for part in (self.database, self.table, self.partition) if part)

    def document(self) -> dict[str, Any]:
        """An entry of `decisions` in the JSON document."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedPath:
    """One directory or file that was removed, or in a dry run would be.

    moved_to  where it lies now, in a trash; None when it was deleted
    """

    path: str
    bytes: int
    reason: str
    moved_to: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningResult:
    """One request of the queue, or the litter of one partition (id None).

    state   "succeeded", "ready for cleaning" (waits, or something is left), "failed", "conflict" or "planned"
    blocked why something obsolete stays for now
    """

    id: int | None
    database: str
    table: str
    partition: str | None
    location: str
    state: str
    reason: str
    removed: tuple[RemovedPath, ...] = ()
    blocked: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """database.table, or database.table.partition."""
        return ".".join(part for part in (self.database, self.table, self.partition) if part)

    @property
    def deleted(self) -> tuple[RemovedPath, ...]:
        """What was removed, or would be, without what went to a trash."""
        return tuple(item for item in self.removed if item.moved_to is None)

    @property
    def moved(self) -> tuple[RemovedPath, ...]:
        """What went to a trash, where it takes as much space as before."""
        return tuple(item for item in self.removed if item.moved_to is not None)

    @property
    def bytes_removed(self) -> int:
        """Bytes of what was deleted."""
        return sum(item.bytes for item in self.deleted)

    @property
    def bytes_moved(self) -> int:
        """Bytes of what went to a trash."""
        return sum(item.bytes for item in self.moved)

    def document(self) -> dict[str, Any]:
        """An entry of `cleanings` in the JSON document."""
        return {
            "id": self.id,
            "database": self.database,
            "table": self.table,
            "partition": self.partition,
            "location": self.location,
            "state": self.state,
            "reason": self.reason,
            "bytes_removed": self.bytes_removed,
            "bytes_moved": self.bytes_moved,
            "removed": [{name: getattr(item, name) for name in item.__slots__} for item in self.removed],
            "blocked": list(self.blocked),
        }


def decisions_document(
    results: Sequence[InitiatorResult], *, version: str, run_id: str, notes: Sequence[str]
) -> dict[str, Any]:
    """The whole JSON document of an initiator run."""
    return {
        "job": "initiator",
        "version": version,
        "run_id": run_id,
        "decisions": [result.document() for result in results],
        "totals": {
            "looked_at": len(results),
            "queued": sum(result.queued is not None for result in results),
            "failed": sum(result.failed for result in results),
        },
        "notes": list(notes),
    }


def cleanings_document(
    results: Sequence[CleaningResult], *, version: str, run_id: str, notes: Sequence[str]
) -> dict[str, Any]:
    """The whole JSON document of a cleaner run."""
    return {
        "job": "cleaner",
        "version": version,
        "run_id": run_id,
        "cleanings": [result.document() for result in results],
        "totals": {
            "requests": len(results),
            "succeeded": sum(result.state == "succeeded" for result in results),
            "bytes_removed": sum(result.bytes_removed for result in results),
            "bytes_moved": sum(result.bytes_moved for result in results),
        },
        "notes": list(notes),
    }
