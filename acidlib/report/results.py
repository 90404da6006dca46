"""The result of each compaction, the fields of the JSON document, and their totals. Unknown is None, never absent."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass
from typing import Any

from acidlib.model.units import UnitResult


class Outcome(enum.Enum):
    """The `state` of a result."""

    PLANNED = "planned"
    READY_FOR_CLEANING = "ready for cleaning"
    SUCCEEDED = "succeeded"
    ALREADY_COMPACT = "already compact"
    REFUSED = "refused"
    FAILED = "failed"
    CONFLICT = "conflict"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a second reader compared once the result was there, and what it cost.

    share        of the buckets that was asked for; `buckets` were looked at, of so many
    before, now  the directories that were read on either side
    rows, events  that were compared: rows that are visible, or of a minor those of its deltas, and its delete events
    seconds      inside the tasks
    """

    share: float
    before: tuple[str, ...] = ()
    now: tuple[str, ...] = ()
    buckets: tuple[int, ...] = ()
    of_buckets: int = 0
    rows: int = 0
    events: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """What the metastore was told of a place's files once the result was there.

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
    database: str
    table: str
    location: str
    partition: str | None
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

    @property
    def is_bad(self) -> bool:
        """Whether it failed, or another was at work there."""
        return self.state in (Outcome.FAILED, Outcome.CONFLICT)

    @property
    def bytes_out(self) -> int | None:
        """Bytes of the files that were made; None where none was meant to be."""
        if self.units is None or self.state is Outcome.PLANNED:
            return None
        return sum(unit.length for unit in self.units if unit.path is not None)

    @property
    def name(self) -> str:
        """database.table, or database.table.partition."""
        parts = (self.database, self.table, self.partition)
        return ".".join(part for part in parts if part)

    @property
    def notes(self) -> tuple[str, ...]:
        """What people should know of how inputs were read, each once."""
        return tuple(dict.fromkeys(note for unit in self.units or () for note in unit.notes))

    @property
    def verification_ratio(self) -> float | None:
        """How many times the seconds of the rewriting the verification took; None where that is not known."""
        rewriting = self.total("seconds")
        return None if self.verification is None or not rewriting else self.verification.seconds / rewriting

    def total(self, figure: str) -> Any:
        """The sum of one figure of the units; None when nothing was planned or done, or a unit does not know it."""
        if self.units is None:
            return None
        figures = [getattr(unit, figure) for unit in self.units]
        return None if None in figures else sum(figures)


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


def result_document(result: CompactionResult) -> dict[str, Any]:
    """An entry of `compactions` in the JSON document."""
    return {
        "id": result.id,
        "database": result.database,
        "table": result.table,
        "location": result.location,
        "partition": result.partition,
        "type": result.type,
        "state": result.state.value,
        "reason": result.reason,
        "publication": result.publication,
        "write_ids": {
            "min": result.min_write_id,
            "max": result.max_write_id,
            "high_water_mark": result.high_water_mark,
        },
        "inputs": list(result.inputs),
        "empty_files": list(result.empty_files),
        "notes": list(result.notes),
        "output_directories": list(result.output_directories),
        "deltas_before": result.deltas_before,
        "deltas_after": result.deltas_after,
        "bytes_in": result.bytes_in,
        "bytes_out": result.bytes_out,
        **{figure: result.total(figure) for figure in FIGURES},
        "start_ms": result.start_ms,
        "seconds": _rounded(result.seconds),
        "rewrite_seconds": _rounded(result.total("seconds")),
        "verification": _verification_document(result),
        "unverified": result.unverified,
        "statistics": _statistics_document(result),
        "files": None if result.units is None else [_unit_document(unit) for unit in result.units],
    }


def _verification_document(result: CompactionResult) -> dict[str, Any] | None:
    found = result.verification
    if found is None:
        return None
    return {
        "share": found.share,
        "buckets": list(found.buckets),
        "of_buckets": found.of_buckets,
        "rows": found.rows,
        "events": found.events,
        "before": list(found.before),
        "now": list(found.now),
        "seconds": _rounded(found.seconds),
        "ratio": _rounded(result.verification_ratio),
    }


def _statistics_document(result: CompactionResult) -> dict[str, Any] | None:
    found = result.statistics
    if found is None:
        return None
    return {
        "written": list(found.written),
        "reason": found.reason,
        "files": found.files,
        "bytes": found.bytes,
        "rows": found.rows,
    }


def _unit_document(unit: UnitResult) -> dict[str, Any]:
    return {
        "directory": unit.directory,
        "file_name": unit.file_name,
        "bucket": unit.bucket,
        "bytes": unit.length if unit.path is not None else None,
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


class CompactionTotals:
    """Sums over the results of a run, and how many ended in which state."""

    def __init__(self) -> None:
        self.states: Counter[Outcome] = Counter()
        self.figures: Counter[str] = Counter()
        self.is_counted = False
        self._unverified = False

    def add(self, result: CompactionResult) -> None:
        """Count one more result."""
        self.states[result.state] += 1
        self.is_counted = self.is_counted or result.units is not None
        self._unverified = self._unverified or result.unverified
        for figure in FIGURES:
            self.figures[figure] += result.total(figure) or 0

    @property
    def compactions(self) -> int:
        """How many results there are."""
        return self.states.total()

    @property
    def bad(self) -> int:
        """How many of them failed or conflict."""
        return self.states[Outcome.FAILED] + self.states[Outcome.CONFLICT]

    def document(self) -> dict[str, Any]:
        """`totals` in the JSON document."""
        states = {outcome.value: self.states[outcome] for outcome in Outcome}
        return {"compactions": self.compactions, "states": states, **{name: self.figures[name] for name in FIGURES}}

    def exit_status(self, *, named: bool) -> int:
        """Return 0 where all is done, already compact, refused or skipped; 1 when the only named table failed or
        conflicts; 3 when some of several did, or a verification did not end well.
        """
        if self._unverified:
            return EXIT_SOME_FAILED
        if not self.bad:
            return EXIT_DONE
        return EXIT_NOT_DONE if named and self.compactions == 1 else EXIT_SOME_FAILED


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
