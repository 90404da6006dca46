"""Results as values, and their fields in the JSON documents: compactions, decisions, cleanings, undoing, cancelling."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from acidlib.model.tables import TableRef
from acidlib.model.units import UnitResult
from acidlib.report.text import field, wrapped
from acidlib.wording import plural

# --- results ----------------------------------------------------------------------------------------------------------
# The result of each compaction, the fields of the JSON document, and their totals. Unknown is None, never absent.


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
        "database": result.ref.database,
        "table": result.ref.table,
        "location": result.location,
        "partition": result.ref.partition,
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


# --- decisions --------------------------------------------------------------------------------------------------------
# What the initiator decided about each place, and what the cleaner did at each: as values and JSON.


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
    outcome: Verdict

    @property
    def failed(self) -> bool:
        """Whether the place could not be looked at, or not be queued, for now."""
        return self.outcome is Verdict.FAILED

    def document(self) -> dict[str, Any]:
        """An entry of `decisions` in the JSON document."""
        fields = {name: getattr(self, name) for name in self.__slots__ if name != "ref"}
        return self.ref._asdict() | fields | {"outcome": self.outcome.value, "failed": self.failed}


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
    ref: TableRef
    location: str
    state: str
    reason: str
    removed: tuple[RemovedPath, ...] = ()
    blocked: tuple[str, ...] = ()
    is_busy: bool = False

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
            "database": self.ref.database,
            "table": self.ref.table,
            "partition": self.ref.partition,
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


# --- undo -------------------------------------------------------------------------------------------------------------
# What came of undoing a compaction: as a value, JSON and text.


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
    ref: TableRef
    location: str
    type: str
    state: UndoState
    reason: str
    result: tuple[str, ...] = ()
    moved_to: str | None = None
    inputs: tuple[str, ...] = ()
    originals: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """`undo` in the JSON document."""
        fields = {name: getattr(self, name) for name in self.__slots__ if name != "ref"}
        return {"id": self.id} | self.ref._asdict() | fields | {"state": self.state.value}

    def exit_status(self) -> int:
        """Whether it is, or was, done, or was refused; else the only place that is named failed or is held."""
        return EXIT_NOT_DONE if self.state in (UndoState.CONFLICT, UndoState.FAILED) else EXIT_DONE

    def text(self) -> str:
        """For people."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield from wrapped(f"{self.ref}: {self.state.value} ({self.type} compaction, request {self.id})", "", "    ")
        yield from field("reason", self.reason)
        yield from field("location", self.location)
        is_planned = self.state is UndoState.PLANNED
        if self.moved_to is not None and self.result:
            what = f"{', '.join(self.result)}, to {self.moved_to}"
            yield from field("would move" if is_planned else "moved", what)
        again = [*self.inputs, *([f"{len(self.originals)} original files"] if self.originals else [])]
        if again:
            yield from field("would read" if is_planned else "read again", ", ".join(again))


# --- cancel -----------------------------------------------------------------------------------------------------------
# What came of withdrawing requests: as values, JSON and text.


class CancelState(enum.Enum):
    """The `state` of a cancellation."""

    PLANNED = "planned"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """One request that was named, and whether it is withdrawn. Unknown is None."""

    id: int
    ref: TableRef | None = None
    type: str | None = None
    state: CancelState
    reason: str

    def document(self) -> dict[str, Any]:
        """An entry of `cancellations` in the JSON document."""
        names = dict.fromkeys(TableRef._fields) if self.ref is None else self.ref._asdict()
        return {"id": self.id} | names | {"type": self.type, "state": self.state.value, "reason": self.reason}

    def lines(self) -> list[str]:
        """For people."""
        about = f"request {self.id}" + (f", {self.type} of {self.ref}" if self.ref else "")
        return wrapped(f"{about}: {self.state.value}, {self.reason}", "", "    ")


def cancellations_text(found: Sequence[Cancellation]) -> str:
    """A line or more for each, in the order in which they were named."""
    return "\n".join(line for one in found for line in one.lines())


def cancellations_document(found: Sequence[Cancellation]) -> dict[str, Any]:
    """What the JSON document says of them."""
    states = {state.value: sum(one.state is state for one in found) for state in CancelState}
    return {
        "cancellations": [one.document() for one in found],
        "totals": {"cancellations": len(found), "states": states},
    }


def exit_status(found: Sequence[Cancellation]) -> int:
    """0 when all are withdrawn; else 1 where one is named, and 3 where several are."""
    if all(one.state in (CancelState.PLANNED, CancelState.CANCELLED) for one in found):
        return EXIT_DONE
    return EXIT_NOT_DONE if len(found) == 1 else EXIT_SOME_FAILED
