"""The JSON documents in which jobs report their results, and the entries of these.

A field is defined here once, with its type; the sentence below it is about all fields since the sentence before. JSON,
the columns of Arrow's tables and docs/json.md are made of these definitions. Sizes are bytes, times seconds unless a
name ends in `_ms`. Unknown is None, never absent.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, overload

from msgspec import UNSET, UnsetType

from acidlib.errors import AcidError, ConflictError, MissingError, RefusedError
from acidlib.model.tables import TableRef
from acidlib.model.units import PlannedAction, UnitResult
from acidlib.wording import Reasoned

Texts = tuple[str, ...]


class Outcome(enum.StrEnum):
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
    BUSY = "busy"
    """Another run of this engine has the place: before it is known whether that is a conflict, or the place waits."""

    @property
    def is_bad(self) -> bool:
        """Whether something failed, or another run or writer was at work at the place."""
        return self in (Outcome.FAILED, Outcome.CONFLICT)


COMPACTION_OUTCOMES = {
    Outcome.PLANNED: "A dry run would do it.",
    Outcome.READY_FOR_CLEANING: "Done; the cleaner has to remove the obsolete files.",
    Outcome.SUCCEEDED: "Done; nothing has to be cleaned.",
    Outcome.ALREADY_COMPACT: "There is nothing to merge, such as a base without deltas.",
    Outcome.REFUSED: "It makes no sense or is not supported.",
    Outcome.FAILED: "It could not be done.",
    Outcome.CONFLICT: "Another run or writer was at work there.",
    Outcome.SKIPPED: "Left alone, by `--idle` for example, or because another run of this engine has the request.",
}
"""Outcomes of compactions, with their meaning."""
DECISION_OUTCOMES = (Outcome.DUE, Outcome.LEFT_ALONE, Outcome.REFUSED, Outcome.HELD_BACK, Outcome.FAILED)
"""Outcomes at a place that the initiator judged: a REFUSED one cannot be compacted until its owner changes something, a
FAILED one may succeed the next time."""
CANCEL_OUTCOMES = dict.fromkeys((Outcome.PLANNED, Outcome.CANCELLED, Outcome.REFUSED, Outcome.MISSING), "As `state`.")
"""Outcomes of cancellations, with their meaning."""


def outcome_of(error: AcidError) -> Outcome:
    """Return the outcome at a place where an error was raised."""
    if isinstance(error, ConflictError):
        return Outcome.CONFLICT
    # a missing place was expected to exist
    is_refused = isinstance(error, RefusedError) and not isinstance(error, MissingError)
    return Outcome.REFUSED if is_refused else Outcome.FAILED


def repr_of(value: object, text: str) -> str:
    """Return the repr of a value that a person reads: its type and a text, in which no name commands a terminal."""
    return f"<{type(value).__name__}: {text if text.isprintable() else repr(text)[1:-1]}>"


class OfPlace:
    """A value with the names of a table or partition, None where it is about none.

    in_short  what its `repr` has of its many fields, as a format
    """

    __slots__ = ()
    database: str | None
    table: str | None
    partition: str | None
    in_short: ClassVar[str]

    def __repr__(self) -> str:
        return repr_of(self, self.in_short.format(self).strip(", "))

    @property
    def ref(self) -> TableRef:
        """The table or partition; its names are empty where the value is about none."""
        return TableRef(self.database or "", self.table or "", self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteIdRange:
    """Write ids of a compaction."""

    min: int | None = None
    max: int | None = None
    """The lowest and highest write id of the deltas among the inputs."""
    high_water_mark: int | None = None
    """The highest write id that the compaction considered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A comparison of a result with its inputs by a second reader, and its cost."""

    share: float
    buckets: tuple[int, ...] = ()
    of_buckets: int = 0
    """The share of the buckets that was asked for, the compared buckets, and the number of all."""
    rows: int = 0
    events: int = 0
    """Compared rows and delete events."""
    before: Texts = ()
    now: Texts = ()
    """The directories that were read on either side."""
    seconds: float = 0.0
    ratio: float | None = None
    """The time inside the tasks, summed, and how many times `rewrite_seconds` that is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The update of a place's statistics in the metastore after a publication."""

    written: Texts = ()
    """Names of the parameters that were changed; none where all were right."""
    reason: str | None = None
    """Why [they could not be written](operations.md#statistics), or null."""
    files: int | None = None
    bytes: int | None = None
    rows: int | None = None
    """What readers find there; `rows` only if the compaction counted all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    """A file of a compaction's result, or the one that is planned."""

    directory: str
    file_name: str
    """Where the file is in the place."""
    bucket: int
    """The number of its bucket."""
    bytes: int | None
    """Its size; null where no file was written."""
    rows_out: int | None
    events_out: int
    """How many rows and delete events it holds."""
    empty_files: Texts
    """Inputs of zero bytes, or of rolled back transactions and not readable."""
    actions: tuple[PlannedAction, ...]
    """How the stripes of the inputs are treated."""

    @staticmethod
    def of(unit: UnitResult) -> ResultFile:
        """Return the file of a unit."""
        return ResultFile(
            directory=unit.directory,
            file_name=unit.file_name,
            bucket=unit.bucket,
            bytes=None if unit.path is None else unit.length,
            rows_out=unit.rows_out,
            events_out=unit.events_out,
            empty_files=unit.empty_files,
            actions=unit.actions,
        )


FIGURES = (
    *("rows_in", "rows_deleted", "rows_aborted", "rows_out"),
    *("events_in", "events_aborted", "duplicate_events", "events_out"),
    *("bytes_copied", "bytes_rewritten", "stripes_copied", "stripes_rewritten"),
)
"""Figures of a compaction that are sums over its files, and in totals over compactions."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CompactionResult(OfPlace, Reasoned):
    """The outcome of a compaction at one table or partition."""

    in_short = "{0.ref}, {0.type}, {0.state}"

    id: int | None = None
    """The id of the request; null without one."""
    database: str
    table: str
    location: str
    partition: str | None
    """The place."""
    type: str
    """`major`, `minor` or `rebalance`, as it was run."""
    state: Outcome
    """`planned`, `ready for cleaning`, `succeeded`, `already compact`, `refused`, `failed`, `conflict` or `skipped`."""
    reason: str
    """Why."""
    publication: str | None = None
    """`one rename`, `two renames` or `commit`; on S3 `completed uploads`, or planned `file by file`."""
    write_ids: WriteIdRange = WriteIdRange()
    """The write ids of the inputs."""
    inputs: Texts = ()
    """Names of directories."""
    empty_files: Texts = ()
    """Inputs of zero bytes."""
    notes: Texts = ()
    """A list of texts."""
    output_directories: Texts = ()
    """Names of directories; empty if there was only something to remove."""
    deltas_before: int | None = None
    deltas_after: int | None = None
    """The number of deltas that a reader has to merge; null after a failure."""
    bytes_in: int | None = None
    bytes_out: int | None = None
    """Bytes of the inputs, and of the results."""
    rows_in: int | None = None
    rows_deleted: int | None = None
    rows_aborted: int | None = None
    rows_out: int | None = None
    """Rows read, left out as deleted and as rolled back, and kept; null in formats whose rows are not counted."""
    events_in: int | None = None
    events_aborted: int | None = None
    duplicate_events: int | None = None
    events_out: int | None = None
    """The same for delete events."""
    bytes_copied: int | None = None
    bytes_rewritten: int | None = None
    stripes_copied: int | None = None
    stripes_rewritten: int | None = None
    """Of the inputs' stripes."""
    start_ms: int | None = None
    end_ms: int | None = None
    """When it was begun and ended."""
    seconds: float | None = None
    """From the claim to the end, without the start of Spark."""
    rewrite_seconds: float | None = None
    """The time inside the tasks, summed."""
    verification: Verification | None = None
    """The comparison by `--verify`; null without one, or if `reason` names a difference."""
    unverified: bool = False
    """Whether this result, or an earlier one, could not be verified: the place is in quarantine."""
    statistics: Statistics | None = None
    """The update in the metastore; null if none was due."""
    files: tuple[ResultFile, ...] | None = None
    """One entry per file of the result, done or planned."""

    def with_work(self, units: Sequence[UnitResult] | None, verification: Verification | None) -> CompactionResult:
        """Return the result with the files of units and sums over them, and with what a second reader found."""
        seconds = None if units is None else sum(unit.seconds for unit in units)
        if verification is not None:
            ratio = verification.seconds / seconds if seconds else None
            verification = replace(verification, seconds=rounded(verification.seconds), ratio=rounded(ratio))
        if units is None:
            return replace(self, verification=verification)
        figures: dict[str, Any] = {name: _sum(getattr(unit, name) for unit in units) for name in FIGURES}
        files = tuple(map(ResultFile.of, units))
        is_planned = self.state is Outcome.PLANNED
        return replace(
            self,
            **figures,
            notes=tuple(dict.fromkeys(note for unit in units for note in unit.notes)),
            bytes_out=None if is_planned else sum(file.bytes or 0 for file in files),
            rewrite_seconds=rounded(seconds),
            verification=verification,
            files=files,
        )


def _sum(figures: Iterable[int | None]) -> int | None:
    """Return a sum; None where a figure is unknown."""
    known = list(figures)
    return None if None in known else sum(figure or 0 for figure in known)


@overload
def rounded(seconds: float) -> float: ...
@overload
def rounded(seconds: float | None) -> float | None: ...
def rounded(seconds: float | None) -> float | None:
    """Return seconds, or a ratio of them, as documents have it: to thousandths."""
    return None if seconds is None else round(seconds, 3)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class InitiatorResult(OfPlace, Reasoned):
    """The initiator's decision about one table or partition."""

    in_short = "{0.ref}, {0.outcome}"

    database: str
    table: str
    partition: str | None
    location: str
    """The place."""
    type: str | None = None
    """`major` or `minor`; null if there is nothing to do."""
    queued: int | None = None
    """The id of the new request, or null."""
    reason: str
    """Why."""
    base_bytes: int | None = None
    delta_bytes: int | None = None
    deltas: int | None = None
    """Bytes in base and deltas, and the number of deltas."""
    ratio: float | None = None
    """The ratio of delta bytes to base bytes."""
    threshold: float | None = None
    threshold_key: str | None = None
    threshold_source: str | None = None
    """The threshold that decided, the setting it is, and where it comes from."""
    outcome: Outcome
    """`due`, `left alone`, `refused` (its owner has to change something), `held back` (in back-off after failures) or
    `failed` (the next run may succeed).
    """
    failed: bool = field(init=False)
    """Whether `outcome` is `failed`."""

    def __post_init__(self) -> None:
        Reasoned.__post_init__(self)
        object.__setattr__(self, "failed", self.outcome is Outcome.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedPath(Reasoned):
    """One directory or file that was removed, or in a dry run would be."""

    path: str
    bytes: int
    """A directory or file, and its size."""
    reason: str
    """Why."""
    moved_to: str | None = None
    """With `--trash` the new path; else null."""


@dataclass(frozen=True, slots=True, order=True)
class Waiting:
    """A path, or a request, that waits for a later cleaning, and the reason."""

    subject: str
    """A path below the location, or a request."""
    reason: str
    """Why."""

    def __str__(self) -> str:
        return f"{self.subject}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CleaningResult(OfPlace, Reasoned):
    """The outcome of a cleaning for one request, or of the litter of one place."""

    in_short = "{0.ref}, {0.state}"

    id: int | None = None
    """The id of the request; null without one."""
    database: str
    table: str
    partition: str | None
    location: str
    """The place."""
    state: Outcome
    """`succeeded`, `ready for cleaning` (it waits, or something is left), `refused` (Hive 4: `NO_CLEANUP` is set),
    `failed` (without a place: the run could not go on), `conflict` or `planned`.
    """
    reason: str = ""
    """Why."""
    bytes_removed: int = field(init=False)
    bytes_moved: int = field(init=False)
    """Bytes that were removed, or would be, and those that were moved to a trash."""
    removed: tuple[RemovedPath, ...] = ()
    """What was removed, or would be."""
    blocked: Texts = field(init=False)
    """What stays, and why, as texts."""
    waiting: tuple[Waiting, ...] = ()
    """The same as objects."""

    def __post_init__(self) -> None:
        Reasoned.__post_init__(self)
        moved = sum(path.bytes for path in self.removed if path.moved_to is not None)
        object.__setattr__(self, "bytes_removed", sum(path.bytes for path in self.removed) - moved)
        object.__setattr__(self, "bytes_moved", moved)
        object.__setattr__(self, "blocked", tuple(map(str, self.waiting)))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class UndoResult(OfPlace, Reasoned):
    """The outcome of the undo of one compaction."""

    in_short = "{0.ref}, {0.state}"

    id: int
    """The id of the request; null without one."""
    database: str
    table: str
    partition: str | None
    location: str
    """The place."""
    type: str
    """`major` or `minor`."""
    state: Outcome
    """`undone`, `already undone`, `planned`, `refused`, `conflict` or `failed`."""
    reason: str
    """Why."""
    result: Texts = ()
    """Names of the directories that are moved."""
    moved_to: str | None = None
    """The directory that they are moved into, or null."""
    inputs: Texts = ()
    originals: Texts = ()
    """The directories, and the original files, that readers read instead."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cancellation(OfPlace, Reasoned):
    """The outcome of the cancellation of one named request."""

    in_short = "request {0.id}, {0.state}"

    id: int
    """The id of the request; null without one."""
    database: str | None = None
    table: str | None = None
    partition: str | None = None
    """The place."""
    type: str | None = None
    """The kind of the request."""
    state: Outcome
    """`cancelled`, `planned` in a dry run, `refused` (it does not wait) or `missing` (there is no such request)."""
    reason: str
    """Why."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ShownRequest(OfPlace):
    """A request as Hive's SHOW COMPACTIONS has it, and where its place lies."""

    in_short = "request {0.id} at {0.ref}, {0.type}, {0.state}"

    id: int
    """The id of the request; null without one."""
    database: str
    table: str
    partition: str | None
    """The place."""
    type: str
    state: str
    """As Hive writes them; `undone` for a compaction whose result was taken back."""
    worker_host: str | None
    worker: str | None
    """The worker; one of ours begins with `acidlib-`."""
    enqueue_ms: int | None
    start_ms: int | None
    duration_ms: int | None
    hadoop_job_id: str | None
    error_message: str | None
    initiator_host: str | None
    initiator: str | None
    pool: str | None
    txn_id: int | None
    next_txn_id: int | None
    commit_ms: int | None
    highest_write_id: int | None
    """As in Hive."""
    location: str | None
    """Where the place lies; null where the queue does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBlocker:
    """A transaction or lock that keeps a request of the queue from being cleaned."""

    request_id: int
    name: str
    """The request that waits, and its place."""
    kind: str
    """`transaction` or `lock`."""
    id: int
    user: str
    host: str
    """Those of the transaction or lock."""
    age_ms: int | None
    """How old it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPart:
    """A directory of a place, or a file that lies in none, as readers see it."""

    path: str
    """Below the place."""
    kind: str
    """`base`, `delta`, `delete delta`, `original file`, `other directory`, `hidden directory` or `hidden file`."""
    first_write_id: int | None
    last_write_id: int | None
    """The write ids in its name."""
    reader: str
    """`read`, `obsolete`, `aborted`, `not read` or `hidden`."""
    why: str
    """Why."""
    files: int
    """How many files readers take for data."""
    bytes: int
    """Bytes of all files; 0 for hidden directories, which are not listed."""
    rows: int | None
    """Rows of its files, also deleted and rolled back ones; of a delete delta its events."""
    damage: str | None
    """Why a file cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ShownPlace(OfPlace):
    """A table or partition as its readers see it; of one that cannot be shown the location and the error."""

    in_short = "{0.ref} at {0.location}"

    database: str
    table: str
    partition: str | None
    location: str
    """The place."""
    hive_version: int | None = None
    """3 or 4: the Hive whose rules hold."""
    high_water_mark: int | None = None
    """The highest write id that a reader knows; null where all are stated as committed."""
    open_write_ids: tuple[int, ...] = ()
    aborted_write_ids: tuple[int, ...] = ()
    """Write ids below it whose transactions still run, and that were rolled back."""
    error: str | None
    """Why the place cannot be read or shown, or null."""
    parts: tuple[ShownPart, ...] = ()
    """One entry per directory, and per file outside of them."""


class CheckState(enum.StrEnum):
    """The result of a check, with which its line begins."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of a doctor."""

    name: str
    """What was checked."""
    state: CheckState
    """`ok`, `note`, `wrong` or `unchecked`."""
    found: str
    """How it is, or why it was not checked."""
    advice: str = ""
    """What to do about it, or an empty text."""


class PromiseState(enum.StrEnum):
    """The end of the trial of a promise."""

    HOLDS = "holds"
    BROKEN = "BROKEN"
    FAILED = "failed"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedPromise:
    """A promise of a store, after its trial."""

    name: str
    sentence: str
    """A promise of the store, by a short name and in words."""
    state: PromiseState
    """`holds`; `BROKEN`; `failed`: the trial could not be done; `not tried`: no trial can show it."""
    seen: str
    """What was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseTotals:
    """Counts of promises."""

    promises: int
    holds: int
    broken: int
    failed: int
    not_tried: int
    """How many there are, and how many of each state."""


# --- documents --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The beginning of every document."""

    job: str
    version: str
    """The name of the job, and the version of this program."""
    run_id: str | None = None
    """The id of this run in log lines and in the queue. Null after an error, and for `cancel`, `show_compactions`,
    `show_place`, `doctor` and `probe`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedSetting:
    """A setting that is not at its default."""

    name: str
    value: str
    """Its name, and its value; durations are in milliseconds."""
    source: str
    """`hive-site.xml`, `metastore-site.xml`, `acidlib.toml` or `--set`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHead(Head):
    """The beginning of the document of a run, which `show_place`, `doctor` and `probe` have not."""

    start_ms: int
    end_ms: int
    """When it was begun and ended."""
    application_id: str | None = None
    tracking_url: str | None = None
    """The id and the page of Spark's application; null if Spark had nothing to do."""
    settings: tuple[StatedSetting, ...] = ()
    """The settings that are not at their defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTotals:
    """Sums over compactions."""

    compactions: int
    """How many entries there are."""
    states: Annotated[dict[Outcome, int], COMPACTION_OUTCOMES] = field(hash=False)
    """How many of them are in each state."""
    left: int
    """The places that a limit, such as `--max-bytes`, has left to another run."""
    rows_in: int
    rows_deleted: int
    rows_aborted: int
    rows_out: int
    events_in: int
    events_aborted: int
    duplicate_events: int
    events_out: int
    bytes_copied: int
    bytes_rewritten: int
    stripes_copied: int
    stripes_rewritten: int
    """Sums of what is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionTotals:
    """Counts of an initiator."""

    looked_at: int
    """How many places."""
    queued: int
    """How many new requests."""
    refused: int
    held_back: int
    failed: int
    """How many places with this `outcome`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningTotals:
    """Sums over cleanings."""

    requests: int
    """How many entries there are."""
    succeeded: int
    """How many of them have succeeded."""
    bytes_removed: int
    bytes_moved: int
    """Their sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceTotals:
    """Counts of places that are shown."""

    places: int
    """How many entries there are."""
    damaged: int
    """How many of them cannot be read in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellationTotals:
    """Counts of cancellations."""

    cancellations: int
    """How many entries there are."""
    states: Annotated[dict[Outcome, int], CANCEL_OUTCOMES] = field(hash=False)
    """How many of them are in each state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTotals:
    """The count of requests that are shown."""

    compactions: int
    """How many entries there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTotals:
    """Counts of checks."""

    checks: int
    """How many entries there are."""
    wrong: int
    """How many are `wrong`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionsDocument:
    """What `major_compact` and `minor_compact` have after their head."""

    compactions: Sequence[CompactionResult]
    """One entry per partition or table."""
    totals: CompactionTotals
    """Counts and sums over the entries."""
    notes: Texts
    """A list of texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionsDocument:
    """What `initiator` has after its head."""

    decisions: Sequence[InitiatorResult]
    """One entry per partition or table that was looked at."""
    totals: DecisionTotals
    """Counts and sums over the entries."""
    notes: Texts
    """A list of texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningsDocument:
    """What `cleaner` has after its head."""

    cleanings: Sequence[CleaningResult]
    """One entry per request, per place with litter or orphans, and with Hive 4 per place that is cleaned after rolled
    back transactions.
    """
    totals: CleaningTotals
    """Counts and sums over the entries."""
    notes: Texts
    """A list of texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacesDocument:
    """What `show_place` has after its head."""

    places: tuple[ShownPlace, ...]
    """One entry per partition or table."""
    totals: PlaceTotals
    """Counts and sums over the entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoDocument:
    """What `undo` has after its head."""

    undo: UndoResult
    """The one entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellationsDocument:
    """What `cancel` has after its head."""

    cancellations: tuple[Cancellation, ...]
    """One entry per request that was named, in that order."""
    totals: CancellationTotals
    """Counts and sums over the entries."""

    @staticmethod
    def of(results: Sequence[Cancellation]) -> CancellationsDocument:
        """Return the document of cancellations."""
        counts = Counter(result.state for result in results)
        states = {state: counts[state] for state in CANCEL_OUTCOMES}
        totals = CancellationTotals(cancellations=len(results), states=states)
        return CancellationsDocument(cancellations=tuple(results), totals=totals)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsDocument:
    """What `show_compactions` has after its head."""

    compactions: tuple[ShownRequest, ...]
    """One entry per request, newest first, with the columns of Hive's `SHOW COMPACTIONS`."""
    blockers: tuple[ShownBlocker, ...] | UnsetType = UNSET
    """The transactions and locks that keep requests from being cleaned; only with `--blockers`."""
    totals: RequestTotals
    """Counts and sums over the entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksDocument:
    """What `doctor` has after its head."""

    checks: tuple[Check, ...]
    """One entry per check."""
    totals: CheckTotals
    """Counts and sums over the entries."""

    @staticmethod
    def of(checks: Sequence[Check]) -> ChecksDocument:
        """Return the document of checks."""
        totals = CheckTotals(checks=len(checks), wrong=sum(check.state is CheckState.WRONG for check in checks))
        return ChecksDocument(checks=tuple(checks), totals=totals)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeDocument:
    """What `probe` has after its head."""

    location: str
    """Where the promises were tried."""
    kind: str
    authority: str
    """The kind of store, and the host, name service, bucket or account that the URI names."""
    time_ms: int
    """When the probe began."""
    passed: bool
    """Whether no promise is `BROKEN` and no trial `failed`."""
    promises: tuple[TriedPromise, ...]
    """One entry per promise of the store."""
    totals: PromiseTotals
    """Counts and sums over the entries."""

    @staticmethod
    def of(
        promises: Sequence[TriedPromise], *, location: str, kind: str, authority: str, time_ms: int
    ) -> ProbeDocument:
        """Return the document of a probe."""
        counts = Counter(promise.state for promise in promises)
        totals = PromiseTotals(
            promises=len(promises),
            holds=counts[PromiseState.HOLDS],
            broken=counts[PromiseState.BROKEN],
            failed=counts[PromiseState.FAILED],
            not_tried=counts[PromiseState.NOT_TRIED],
        )
        return ProbeDocument(
            location=location,
            kind=kind,
            authority=authority,
            time_ms=time_ms,
            passed=not (totals.broken or totals.failed),
            promises=tuple(promises),
            totals=totals,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDescription:
    """The error of a run that could not be done."""

    kind: str
    """One of those below."""
    message: str
    """A text for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDocument:
    """What follows the head when the run could not be done."""

    error: ErrorDescription
    """The error."""
