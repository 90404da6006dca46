"""What the initiator decided about each place, and what the cleaner did at each: as values and JSON."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass
from typing import Any

from acidlib.report.results import EXIT_DONE, EXIT_SOME_FAILED
from acidlib.wording import plural


class Verdict(enum.Enum):
    """What became of a place that the initiator looked at; the value is `outcome` in the JSON document.

    REFUSED is what no compaction can be made of until its owner changes it; FAILED what may go well the next time.
    """

    DUE = "due"
    LEFT_ALONE = "left alone"
    REFUSED = "refused"
    HELD_BACK = "held back"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitiatorResult:
    """One table or partition that was looked at.

    type    by the thresholds: "major", "minor", or None: nothing to do, or skipped
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
    outcome: Verdict

    @property
    def name(self) -> str:
        """database.table, or database.table.partition."""
        return ".".join(part for part in (self.database, self.table, self.partition) if part)

    @property
    def failed(self) -> bool:
        """Whether the place could not be looked at, or not be queued, for now."""
        return self.outcome is Verdict.FAILED

    def document(self) -> dict[str, Any]:
        """An entry of `decisions` in the JSON document."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return fields | {"outcome": self.outcome.value, "failed": self.failed}


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
    is_busy another run of this engine has the place
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
    is_busy: bool = False

    @property
    def name(self) -> str:
        """database.table, or database.table.partition."""
        return ".".join(part for part in (self.database, self.table, self.partition) if part)

    @property
    def is_bad(self) -> bool:
        """Whether it failed, or another was at work there."""
        return self.state in ("failed", "conflict")

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


class InitiatorTotals:
    """How many places the initiator looked at, and what came of them."""

    def __init__(self) -> None:
        self.looked_at = self.queued = 0
        self.outcomes: Counter[Verdict] = Counter()
        self.due: Counter[str] = Counter()

    def add(self, result: InitiatorResult) -> None:
        """Count one more place."""
        self.looked_at += 1
        self.queued += result.queued is not None
        self.outcomes[result.outcome] += 1
        if result.outcome is Verdict.DUE and result.type is not None:
            self.due[result.type] += 1

    def document(self) -> dict[str, Any]:
        """`totals` in the JSON document."""
        return {
            "looked_at": self.looked_at,
            "queued": self.queued,
            "refused": self.outcomes[Verdict.REFUSED],
            "held_back": self.outcomes[Verdict.HELD_BACK],
            "failed": self.outcomes[Verdict.FAILED],
        }

    def when_stopped(self) -> str:
        """Return what has become of how many places of a run that was stopped."""
        looked_at, queued = plural(self.looked_at, "place"), plural(self.queued, "request")
        return f"{looked_at} looked at, {queued} queued; the next run looks at the others"

    def notes(self) -> list[str]:
        """What a person has to see to, as no run does."""
        refused = self.outcomes[Verdict.REFUSED]
        if not refused:
            return []
        is_one = refused == 1
        what = f"{plural(refused, 'place')} cannot be compacted as {'it is' if is_one else 'they are'}"
        return [f"{what}: status has a finding{'' if is_one else ' for each'}"]

    def exit_status(self) -> int:
        """Whether anything failed that may go well the next time."""
        return EXIT_SOME_FAILED if self.outcomes[Verdict.FAILED] else EXIT_DONE


class CleaningTotals:
    """How many requests and places a cleaner saw to, and what was removed."""

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()
        self.paths_removed = self.bytes_removed = self.paths_moved = self.bytes_moved = 0

    def add(self, result: CleaningResult) -> None:
        """Count one more result."""
        self.states[result.state] += 1
        self.paths_removed += len(result.deleted)
        self.bytes_removed += result.bytes_removed
        self.paths_moved += len(result.moved)
        self.bytes_moved += result.bytes_moved

    def document(self) -> dict[str, Any]:
        """`totals` in the JSON document."""
        return {
            "requests": self.states.total(),
            "succeeded": self.states["succeeded"],
            "bytes_removed": self.bytes_removed,
            "bytes_moved": self.bytes_moved,
        }

    def when_stopped(self) -> str:
        """Return what has become of how many requests of a run that was stopped."""
        told = ", ".join(f"{count:,} {state}" for state, count in self.states.items()) or "none has ended"
        return f"of the requests {told}; what is not removed waits for the next run"

    def exit_status(self) -> int:
        """Whether nothing failed or conflicts."""
        return EXIT_SOME_FAILED if self.states["failed"] or self.states["conflict"] else EXIT_DONE
