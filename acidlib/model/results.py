"""Results of jobs at places, each with its entry in the JSON document. Unknown is None, never absent."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from acidlib.errors import AcidError, ConflictError, MissingError, RefusedError
from acidlib.model.tables import TableRef
from acidlib.model.units import UnitResult
from acidlib.wording import Reasoned

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
        """Whether something failed, or another run or writer was at work at the place."""
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
"""Outcomes at a place that the initiator judged: a REFUSED one cannot be compacted until its owner changes something, a
FAILED one may succeed the next time."""
CANCEL_OUTCOMES = (Outcome.PLANNED, Outcome.CANCELLED, Outcome.REFUSED, Outcome.MISSING)


def outcome_of(error: AcidError) -> Outcome:
    """Return the outcome at a place where an error was raised."""
    if isinstance(error, ConflictError):
        return Outcome.CONFLICT
    # a missing place was expected to exist
    is_refused = isinstance(error, RefusedError) and not isinstance(error, MissingError)
    return Outcome.REFUSED if is_refused else Outcome.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A comparison of a result with its inputs by a second reader, and its cost.

    share        of the buckets that was requested; `buckets` of `of_buckets` were compared
    before, now  the directories that were read on either side
    rows, events  compared rows (visible ones; for a minor compaction those of its deltas) and delete events
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
    """The update of a place's statistics in the metastore after a publication.

    written  the parameters that were changed; empty where all were right already
    reason   why nothing could be written, else None
    files, bytes, rows  of the place for readers; rows where the compaction counted all of them
    """

    written: tuple[str, ...] = ()
    reason: str | None = None
    files: int | None = None
    bytes: int | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult(Reasoned):
    """The outcome of a compaction at one table or partition.

    id           of the request in the queue; None when there is none (dry run)
    type         major or minor as carried out
    publication  "one rename", "two renames" or "commit"
    empty_files  paths below the location of input files of zero bytes, which count as empty
    units        results per file, of which the sums in the JSON are made
    start_ms     start in epoch milliseconds
    end_ms       end in epoch milliseconds
    seconds      from the claim to the publication, without the start of Spark
    deltas_before, deltas_after  deltas that a reader has to merge; after is the expected number in a dry run
    bytes_in     of all input files
    verification  the comparison; None where it was not requested, or found a difference (which is the `reason`)
    unverified   the result should be verified and is not, or the place is in quarantine for an earlier result
    statistics   the update in the metastore; None where there was to be none
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
    end_ms: int | None = None
    seconds: float | None = None
    deltas_before: int | None = None
    deltas_after: int | None = None
    bytes_in: int | None = None
    verification: Verification | None = None
    unverified: bool = False
    statistics: Statistics | None = None

    def total(self, figure: str) -> Any:
        """Return the sum of one figure of the units; None without units, or where it is unknown for one of them."""
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
        has_result = units is not None and self.state is not Outcome.PLANNED
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
            "bytes_out": sum(_bytes_of(unit) or 0 for unit in units or ()) if has_result else None,
            **{figure: self.total(figure) for figure in FIGURES},
            "start_ms": self.start_ms,
            "end_ms": self.end_ms,
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
class InitiatorResult(Reasoned):
    """The initiator's decision about one table or partition.

    type    of the compaction that the thresholds call for: "major" or "minor"; None for none
    queued  id of the new request; None without one
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
class RemovedPath(Reasoned):
    """One directory or file that was removed, or in a dry run would be.

    moved_to  its path in a trash; None when it was deleted
    """

    path: str
    bytes: int
    reason: str
    moved_to: str | None = None


class Waiting(NamedTuple):
    """A path, or a request, that waits for a later cleaning, and the reason."""

    subject: str
    reason: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningResult(Reasoned):
    """The outcome of a cleaning for one request, or of the litter of one place (id None).

    state   READY_FOR_CLEANING where the request waits, or something is left
    blocked the obsolete paths that stay for now, and other reasons to wait
    is_busy another run of this engine has the place
    """

    id: int | None
    ref: TableRef
    location: str
    state: Outcome
    reason: str
    removed: tuple[RemovedPath, ...] = ()
    blocked: tuple[Waiting, ...] = ()
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
            "blocked": list(map(str, self.blocked)),
            "waiting": [waiting._asdict() for waiting in self.blocked],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoResult(Reasoned):
    """The outcome of the undo of one compaction. Unknown is None or empty.

    id         of the request
    type       of the compaction, major or minor
    result     directories that are hidden from readers
    moved_to   the directory at the place to which they are moved
    inputs     directories that readers read in their place
    originals  original files that readers read beside these
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
class Cancellation(Reasoned):
    """The outcome of the cancellation of one named request. Unknown is None."""

    id: int
    ref: TableRef | None = None
    type: str | None = None
    state: Outcome
    reason: str


def cancellations_document(results: Sequence[Cancellation]) -> dict[str, Any]:
    """Return `cancellations` and `totals` of the JSON document."""
    states = Counter(result.state for result in results)
    return {
        "cancellations": [{"id": result.id} | fields_of(result) | {"state": result.state.value} for result in results],
        "totals": {
            "cancellations": len(results),
            "states": {state.value: states[state] for state in CANCEL_OUTCOMES},
        },
    }


def names_of(ref: TableRef | None) -> dict[str, str | None]:
    """Return the fields of a document for a table or partition, or for none."""
    return dict.fromkeys(TableRef._fields) if ref is None else ref._asdict()


def fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass with a `ref`, the names of the table or partition first."""
    return names_of(value.ref) | {name: getattr(value, name) for name in value.__slots__ if name != "ref"}
