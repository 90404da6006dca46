"""The result of each compaction, the fields of the JSON document, and their totals. Unknown is None, never absent."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from acidlib.model.units import UnitResult


class Outcome(enum.Enum):
    """The `state` of a result."""

    PLANNED = "planned"
    READY_FOR_CLEANING = "ready for cleaning"
    SUCCEEDED = "succeeded"
    REFUSED = "refused"
    FAILED = "failed"
    CONFLICT = "conflict"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """One partition or table, and what was done with it.

    id           of the request in the queue; None when there is none (dry run)
    type         major or minor as carried out
    publication  "one rename", "two renames" or "commit"
    empty_files  paths below the location of files of zero bytes among the inputs, which count as empty
    units        per bucket file what was or would be done; the sums of the JSON come from them
    seconds      from claim to published
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
    seconds: float | None = None

    @property
    def name(self) -> str:
        """database.table, or database.table.partition."""
        parts = (self.database, self.table, self.partition)
        return ".".join(part for part in parts if part)

    @property
    def notes(self) -> tuple[str, ...]:
        """What people should know of how inputs were read, each once."""
        return tuple(dict.fromkeys(note for unit in self.units or () for note in unit.notes))

    def total(self, figure: str) -> Any:
        """The sum of one figure of the units; None when nothing was planned or done, or a unit does not know it."""
        if self.units is None:
            return None
        figures = [getattr(unit, figure) for unit in self.units]
        return None if None in figures else sum(figures)


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
        **{figure: result.total(figure) for figure in FIGURES},
        "seconds": _rounded(result.seconds),
        "rewrite_seconds": _rounded(result.total("seconds")),
        "files": None if result.units is None else [_unit_document(unit) for unit in result.units],
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


def totals(results: Sequence[CompactionResult]) -> dict[str, Any]:
    """Sums over all results, and how many ended in which state."""
    states = {outcome.value: sum(result.state is outcome for result in results) for outcome in Outcome}
    figures = {figure: _sum(result.total(figure) for result in results) for figure in FIGURES}
    return {"compactions": len(results), "states": states, **figures}


def _sum(values: Iterable[int | None]) -> int:
    return sum(value for value in values if value is not None)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


EXIT_DONE, EXIT_NOT_DONE, EXIT_SOME_FAILED = 0, 1, 3
"""2 is what a wrong command line ends with (click)."""


def exit_status(results: Sequence[CompactionResult], *, named: bool) -> int:
    """0 done, refused or skipped; 1 when the only named table failed or conflicts; 3 when some failed or conflicted."""
    bad = [result for result in results if result.state in (Outcome.FAILED, Outcome.CONFLICT)]
    if not bad:
        return EXIT_DONE
    return EXIT_NOT_DONE if named and len(results) == 1 else EXIT_SOME_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """All of one run of a compaction job."""

    job: str
    version: str
    run_id: str
    results: tuple[CompactionResult, ...]
    notes: tuple[str, ...] = field(default=())

    def document(self) -> dict[str, Any]:
        """The whole JSON document."""
        return {
            "job": self.job,
            "version": self.version,
            "run_id": self.run_id,
            "compactions": [result_document(result) for result in self.results],
            "totals": totals(self.results),
            "notes": list(self.notes),
        }
