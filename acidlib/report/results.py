"""Results of jobs as values, each with its entry in the JSON document. Unknown is None, never absent."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from acidlib.errors import AcidError, ConflictError, MissingError, RefusedError
from acidlib.model.tables import TableRef
from acidlib.model.units import UnitResult

EXIT_DONE, EXIT_NOT_DONE, EXIT_SOME_FAILED = 0, 1, 3
EXIT_HAS_WARNINGS, EXIT_HAS_ERRORS = 4, 5
"""2 is what a wrong command line ends with (click); the last two are of the status alone."""


FIGURES = (
    "rows_in",
    "rows_deleted",
    "rows_aborted",
    "rows_out",
    "events_in",
    "events_aborted",
    "duplicate_events",
    "events_out",
    "bytes_copied",
    "bytes_rewritten",
    "stripes_copied",
    "stripes_rewritten",
)
"""Figures of a compaction: sums over its files."""


class Outcome(enum.Enum):
    """The end of a job at one place or for one request: the `state` of a result, or `outcome` of a decision."""

    PLANNED = "planned"
    READY_FOR_CLEANING = "ready for cleaning"
    SUCCEEDED = "succeeded"
    ALREADY_COMPACT = "already compact"
    REFUSED = "refused"
    FAILED = "failed"
    CONFLICT = "conflict"
    SKIPPED = "skipped"
    DUE = "due"
    LEFT_ALONE = "left alone"
    HELD_BACK = "held back"
    UNDONE = "undone"
    WAS_UNDONE = "already undone"
    CANCELLED = "cancelled"
    MISSING = "missing"

    @property
    def is_bad(self) -> bool:
        """True where something failed, or another was at work there."""
        return self in (Outcome.FAILED, Outcome.CONFLICT)


COMPACTION_OUTCOMES = (
    Outcome.PLANNED,
    Outcome.READY_FOR_CLEANING,
    Outcome.SUCCEEDED,
    Outcome.ALREADY_COMPACT,
    Outcome.REFUSED,
    Outcome.FAILED,
    Outcome.CONFLICT,
    Outcome.SKIPPED,
)
DECISION_OUTCOMES = (Outcome.DUE, Outcome.LEFT_ALONE, Outcome.REFUSED, Outcome.HELD_BACK, Outcome.FAILED)
"""Of a place that the initiator looked at: REFUSED is what no compaction can be made of until its owner changes it,
FAILED what may go well the next time."""
CANCEL_OUTCOMES = (Outcome.PLANNED, Outcome.CANCELLED, Outcome.REFUSED, Outcome.MISSING)


def outcome_of(error: AcidError) -> Outcome:
    """Return how a job ends at a place where an error was raised."""
    if isinstance(error, ConflictError):
        return Outcome.CONFLICT
    # what is missing was said to be there
    is_refused = isinstance(error, RefusedError) and not isinstance(error, MissingError)
    return Outcome.REFUSED if is_refused else Outcome.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A comparison by a second reader once the result was there, and its cost.

    share        of the buckets that was asked for; `buckets` were looked at, of so many
    before, now  the directories that were read on either side
    rows, events  that were compared: rows that are visible, or of a minor those of its deltas, and its delete events
    seconds      inside the tasks
    """

    share: float
    buckets: tuple[int, ...] = ()
    of_buckets: int = 0
    rows: int = 0
    events: int = 0
    before: tuple[str, ...] = ()
    now: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Figures of a place's files that the metastore was told once the result was there.

    written  the parameters that were changed; none of them where all were right already
    reason   why nothing was written, where that could not be
    files, bytes, rows  that readers find there; rows where the compaction counted all of them
    """

    written: tuple[str, ...] = ()
    reason: str | None = None
    files: int | None = None
    bytes: int | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """One partition or table, and what was done with it.

    id           of the request in the queue; None when there is none (dry run)
    type         major or minor as carried out
    publication  "one rename", "two renames" or "commit"
    empty_files  paths below the location of files of zero bytes among the inputs, which count as empty
    units        per bucket file what was or would be done; the sums of the JSON come from them
    start_ms     when it was begun, in epoch milliseconds
    seconds      from claim to published
    deltas_before, deltas_after  that a reader has to merge; after is what a dry run expects
    bytes_in     of all files of the inputs
    verification  what was compared; None where that was not asked for, or found a difference, which `reason` tells
    unverified   it was to be verified, and is not; or its place is held because an earlier result was not
    statistics   what the metastore was told of the place; None where it was not to be told
    """

    id: int | None
    ref: TableRef
    location: str
    type: str
    state: Outcome
    reason: str
    publication: str | None = None
    min_write_id: int | None = None
    max_write_id: int | None = None
    high_water_mark: int | None = None
    inputs: tuple[str, ...] = ()
    empty_files: tuple[str, ...] = ()
    output_directories: tuple[str, ...] = ()
    units: tuple[UnitResult, ...] | None = None
    start_ms: int | None = None
    seconds: float | None = None
    deltas_before: int | None = None
    deltas_after: int | None = None
    bytes_in: int | None = None
    verification: Verification | None = None
    unverified: bool = False
    statistics: Statistics | None = None

    def total(self, figure: str) -> Any:
        """Return the sum of one figure of the units; None without units, or where one of them does not know it."""
        figures = [None] if self.units is None else [getattr(unit, figure) for unit in self.units]
        return None if None in figures else sum(figures)

    def document(self) -> dict[str, Any]:
        """Return an entry of `compactions`."""
        rewriting, units = self.total("seconds"), self.units
        verification = None
        if self.verification is not None:
            ratio = self.verification.seconds / rewriting if rewriting else None
            times = {"seconds": _rounded(self.verification.seconds), "ratio": _rounded(ratio)}
            verification = asdict(self.verification) | times
        was_made = units is not None and self.state is not Outcome.PLANNED
        return {
            "id": self.id,
            "database": self.ref.database,
            "table": self.ref.table,
            "location": self.location,
            "partition": self.ref.partition,
            "type": self.type,
            "state": self.state.value,
            "reason": self.reason,
            "publication": self.publication,
            "write_ids": {
                "min": self.min_write_id,
                "max": self.max_write_id,
                "high_water_mark": self.high_water_mark,
            },
            "inputs": list(self.inputs),
            "empty_files": list(self.empty_files),
            "notes": list(dict.fromkeys(note for unit in units or () for note in unit.notes)),
            "output_directories": list(self.output_directories),
            "deltas_before": self.deltas_before,
            "deltas_after": self.deltas_after,
            "bytes_in": self.bytes_in,
            "bytes_out": sum(_bytes_of(unit) or 0 for unit in units or ()) if was_made else None,
            **{figure: self.total(figure) for figure in FIGURES},
            "start_ms": self.start_ms,
            "seconds": _rounded(self.seconds),
            "rewrite_seconds": _rounded(rewriting),
            "verification": verification,
            "unverified": self.unverified,
            "statistics": None if self.statistics is None else asdict(self.statistics),
            "files": None if units is None else [_unit_document(unit) for unit in units],
        }


def _unit_document(unit: UnitResult) -> dict[str, Any]:
    return {
        "directory": unit.directory,
        "file_name": unit.file_name,
        "bucket": unit.bucket,
        "bytes": _bytes_of(unit),
        "rows_out": unit.rows_out,
        "events_out": unit.events_out,
        "empty_files": list(unit.empty_files),
        "actions": [
            {
                "file": action.path,
                "first_stripe": action.first_stripe,
                "stripes": action.stripes,
                "action": "copy" if action.copy else "rewrite",
                "bytes": action.bytes,
                "rows": action.rows,
                "deleted": action.deleted,
                "aborted": action.aborted,
                "reason": action.reason,
            }
            for action in unit.actions
        ],
    }


def _bytes_of(unit: UnitResult) -> int | None:
    return None if unit.path is None else unit.length


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class InitiatorResult:
    """One table or partition that was looked at.

    type    by the thresholds: "major", "minor", or None: nothing to do, or skipped
    queued  id of the new request; None when none was made
    """

    ref: TableRef
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
    outcome: Outcome

    def document(self) -> dict[str, Any]:
        """Return an entry of `decisions`."""
        return fields_of(self) | {"outcome": self.outcome.value, "failed": self.outcome is Outcome.FAILED}


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

    state   READY_FOR_CLEANING where the request waits, or something is left
    blocked why something obsolete stays for now
    is_busy another run of this engine has the place
    """

    id: int | None
    ref: TableRef
    location: str
    state: Outcome
    reason: str
    removed: tuple[RemovedPath, ...] = ()
    blocked: tuple[str, ...] = ()
    is_busy: bool = False

    def document(self) -> dict[str, Any]:
        """Return an entry of `cleanings`."""
        return {
            "id": self.id,
            **self.ref._asdict(),
            "location": self.location,
            "state": self.state.value,
            "reason": self.reason,
            "bytes_removed": sum(item.bytes for item in self.removed if item.moved_to is None),
            "bytes_moved": sum(item.bytes for item in self.removed if item.moved_to is not None),
            "removed": [asdict(item) for item in self.removed],
            "blocked": list(self.blocked),
        }


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
    ref: TableRef
    location: str
    type: str
    state: Outcome
    reason: str
    result: tuple[str, ...] = ()
    moved_to: str | None = None
    inputs: tuple[str, ...] = ()
    originals: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return `undo`."""
        return {"id": self.id} | fields_of(self) | {"state": self.state.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """One request that was named, and whether it is withdrawn. Unknown is None."""

    id: int
    ref: TableRef | None = None
    type: str | None = None
    state: Outcome
    reason: str


def cancellations_document(found: Sequence[Cancellation]) -> dict[str, Any]:
    """Return what the JSON document says of withdrawn requests."""
    states = {state.value: sum(one.state is state for one in found) for state in CANCEL_OUTCOMES}
    return {
        "cancellations": [{"id": one.id} | fields_of(one) | {"state": one.state.value} for one in found],
        "totals": {"cancellations": len(found), "states": states},
    }


def names_of(ref: TableRef | None) -> dict[str, str | None]:
    """Return the fields of a document for a table or partition, or for none."""
    return dict.fromkeys(TableRef._fields) if ref is None else ref._asdict()


def fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of a value that is about a table or partition by name, those of its `ref` first."""
    return names_of(value.ref) | {name: getattr(value, name) for name in value.__slots__ if name != "ref"}
