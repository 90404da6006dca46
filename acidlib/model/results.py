"""Results of jobs: the entries of the JSON documents, and what stands around them.

A field is defined here once, with its type and the sentence that docs/json.md has of it. JSON, the columns of Arrow's
tables and that page are made of these definitions. Sizes are bytes, times seconds unless a name ends in `_ms`. Unknown
is None, never absent.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, overload

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
    Outcome.PLANNED: "In a dry run: it would be done.",
    Outcome.READY_FOR_CLEANING: "Done; the cleaner has to remove the obsolete files now.",
    Outcome.SUCCEEDED: "Done, and there is nothing to clean.",
    Outcome.ALREADY_COMPACT: "There is nothing to merge: a base and no delta, for example. Nothing is wrong.",
    Outcome.REFUSED: "It makes no sense or is not supported.",
    Outcome.FAILED: "It could not be done.",
    Outcome.CONFLICT: "Another run or writer was there.",
    Outcome.SKIPPED: "Left alone, by `--idle` for example; of a queue that is drained also what another run of this "
    "engine has.",
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


class OfPlace:
    """A value with the names of a table or partition, None where it is about none."""

    __slots__ = ()
    database: str | None
    table: str | None
    partition: str | None

    @property
    def ref(self) -> TableRef:
        """The table or partition; its names are empty where the value is about none."""
        return TableRef(self.database or "", self.table or "", self.partition)


_PLACE = "The place."
_PLACE_OR_TABLE = "The place; `partition` is null for a table without partitions."
_COUNT = "How many entries there are."
_RANGE = "The lowest and highest write id of the deltas among the inputs."
_SHARE = "The share of the buckets that was asked for, the buckets that were compared, and the number of all."
_COMPARED = (
    "Rows and delete events that are the same as before: of a major the visible rows, of a minor those of its deltas."
)
_SIDES = "The directories that were read on either side."
_COST = "Inside the tasks, summed; how many times `rewrite_seconds` that is."
_SIZES = "The files, bytes and rows that readers find there; `rows` only if the compaction counted all of them."
_FILE = "Where the file is in the place."
_HELD = "How many rows and delete events it holds."
_DELTAS = "The number of deltas that a reader has to merge; in a dry run the expected number. `null` after a failure."
_BYTES = "Bytes of the inputs, and of the results."
_ROWS = "Rows read, left out as deleted, left out as rolled back, kept. `null` where rows of a format are not counted."
_EVENTS = "The same for delete events."
_STRIPES = "Bytes and numbers of the inputs' stripes that were copied and rewritten."
_BEGUN_AND_ENDED = "When it was begun and ended."
_FOUND = "Bytes in the base and in the deltas, and how many deltas there are."
_THRESHOLD = "The threshold that decided, the setting it is, and where it comes from."
_CLEANED = "The place; empty, with `failed`, if the run could not go on after it had cleaned others."
_WORKER = "The worker; a worker of ours is called `acidlib-` and its run."
_QUEUED_AND_BEGUN = "When it was queued and begun."
_INITIATOR = "The host and program that queued it."
_TRANSACTION = "The compaction's transaction, the highest transaction at its commit, and the time of the commit."
_NOT_COMMITTED = "Below it, of transactions that still run and that were rolled back."
_SPARK = "The id of Spark's application, and the page that shows it; null if Spark had nothing to do."


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteIdRange:
    """Write ids of a compaction."""

    min: Annotated[int | None, _RANGE] = None
    max: Annotated[int | None, _RANGE] = None
    high_water_mark: Annotated[int | None, "The highest write id that the compaction considered."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A comparison of a result with its inputs by a second reader, and its cost."""

    share: Annotated[float, _SHARE]
    buckets: Annotated[tuple[int, ...], _SHARE] = ()
    of_buckets: Annotated[int, _SHARE] = 0
    rows: Annotated[int, _COMPARED] = 0
    events: Annotated[int, _COMPARED] = 0
    before: Annotated[Texts, _SIDES] = ()
    now: Annotated[Texts, _SIDES] = ()
    seconds: Annotated[float, _COST] = 0.0
    ratio: Annotated[float | None, _COST] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The update of a place's statistics in the metastore after a publication."""

    written: Annotated[Texts, "Names of the parameters that were changed; none where all were right."] = ()
    reason: Annotated[
        str | None,
        "Why nothing was written, where [that could not be](operations.md#statistics); else null. The compaction has "
        "succeeded all the same.",
    ] = None
    files: Annotated[int | None, _SIZES] = None
    bytes: Annotated[int | None, _SIZES] = None
    rows: Annotated[int | None, _SIZES] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    """A file of a compaction's result, or the one that is planned."""

    directory: Annotated[str, _FILE]
    file_name: Annotated[str, _FILE]
    bucket: Annotated[int, "The number of its bucket."]
    bytes: Annotated[int | None, "Its size; null where no file was written."]
    rows_out: Annotated[int | None, _HELD]
    events_out: Annotated[int, _HELD]
    empty_files: Annotated[
        Texts, "Inputs that count as empty: of zero bytes, or of rolled back transactions and not readable."
    ]
    actions: Annotated[tuple[PlannedAction, ...], "The treatment, done or planned, of the stripes of the inputs."]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult(OfPlace, Reasoned):
    """The outcome of a compaction at one table or partition."""

    id: Annotated[
        int | None,
        "The id of the request in the queue; null without a request: in a dry run, and for places that were compact "
        "already.",
    ] = None
    database: Annotated[str, _PLACE_OR_TABLE]
    table: Annotated[str, _PLACE_OR_TABLE]
    location: Annotated[str, _PLACE_OR_TABLE]
    partition: Annotated[str | None, _PLACE_OR_TABLE]
    type: Annotated[str, "The kind that was run: `major`, `minor` or `rebalance`."]
    state: Annotated[
        Outcome,
        "`planned`, `ready for cleaning`, `succeeded`, `already compact`, `refused`, `failed`, `conflict` or "
        "`skipped`.",
    ]
    reason: Annotated[str, "The reason for doing it, for doing it in this way, or for not doing it."]
    publication: Annotated[
        str | None,
        "`one rename`, `two renames` or `commit`; on S3 `completed uploads`, or planned `file by file`.",
    ] = None
    write_ids: Annotated[WriteIdRange, "The write ids of the inputs."] = WriteIdRange()
    inputs: Annotated[Texts, "Names of directories."] = ()
    empty_files: Annotated[Texts, "Inputs of zero bytes; they count as empty, as in Hive."] = ()
    notes: Annotated[Texts, "Facts about the reading of inputs, such as columns of other names."] = ()
    output_directories: Annotated[
        Texts,
        "Names of directories. None, and ready for cleaning: there was nothing to merge, but something obsolete to "
        "remove.",
    ] = ()
    deltas_before: Annotated[int | None, _DELTAS] = None
    deltas_after: Annotated[int | None, _DELTAS] = None
    bytes_in: Annotated[int | None, _BYTES] = None
    bytes_out: Annotated[int | None, _BYTES] = None
    rows_in: Annotated[int | None, _ROWS] = None
    rows_deleted: Annotated[int | None, _ROWS] = None
    rows_aborted: Annotated[int | None, _ROWS] = None
    rows_out: Annotated[int | None, _ROWS] = None
    events_in: Annotated[int | None, _EVENTS] = None
    events_aborted: Annotated[int | None, _EVENTS] = None
    duplicate_events: Annotated[int | None, _EVENTS] = None
    events_out: Annotated[int | None, _EVENTS] = None
    bytes_copied: Annotated[int | None, _STRIPES] = None
    bytes_rewritten: Annotated[int | None, _STRIPES] = None
    stripes_copied: Annotated[int | None, _STRIPES] = None
    stripes_rewritten: Annotated[int | None, _STRIPES] = None
    start_ms: Annotated[int | None, _BEGUN_AND_ENDED] = None
    end_ms: Annotated[int | None, _BEGUN_AND_ENDED] = None
    seconds: Annotated[
        float | None,
        "From claim to published and verified, without the start of Spark and of its first Python worker.",
    ] = None
    rewrite_seconds: Annotated[float | None, "Inside the tasks, summed."] = None
    verification: Annotated[
        Verification | None, "The comparison by `--verify`; null without one, or if `reason` names the difference."
    ] = None
    unverified: Annotated[
        bool,
        "Whether the result could not be verified, or its place is in quarantine because an earlier one could not: the "
        "exit status is 3.",
    ] = False
    statistics: Annotated[
        Statistics | None,
        "The statistics that the metastore got after the compaction; null in a dry run, without a metastore, without a "
        "compaction, and with `hive.compactor.gather.stats=false`.",
    ] = None
    files: Annotated[tuple[ResultFile, ...] | None, "The steps, done or planned, for each file of the result."] = None

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


@dataclass(frozen=True, slots=True, kw_only=True)
class InitiatorResult(OfPlace, Reasoned):
    """The initiator's decision about one table or partition."""

    database: Annotated[str, _PLACE]
    table: Annotated[str, _PLACE]
    partition: Annotated[str | None, _PLACE]
    location: Annotated[str, _PLACE]
    type: Annotated[str | None, "By the thresholds `major` or `minor`; null: nothing to do."] = None
    queued: Annotated[int | None, "The id of the new request; null where none was made."] = None
    reason: Annotated[str, "Why."]
    base_bytes: Annotated[int | None, _FOUND] = None
    delta_bytes: Annotated[int | None, _FOUND] = None
    deltas: Annotated[int | None, _FOUND] = None
    ratio: Annotated[float | None, "The ratio of delta bytes to base bytes."] = None
    threshold: Annotated[float | None, _THRESHOLD] = None
    threshold_key: Annotated[str | None, _THRESHOLD] = None
    threshold_source: Annotated[str | None, _THRESHOLD] = None
    outcome: Annotated[
        Outcome,
        "`due` (it is queued, unless this is a dry run), `left alone`, `refused` (no compaction can be made of it "
        "until its owner changes it: a worker would refuse it, or its directory is gone), `held back` (the last "
        "compactions failed) or `failed` (the next run may do better).",
    ]
    failed: Annotated[bool, "Whether `outcome` is `failed`."] = field(init=False)

    def __post_init__(self) -> None:
        Reasoned.__post_init__(self)
        object.__setattr__(self, "failed", self.outcome is Outcome.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedPath(Reasoned):
    """One directory or file that was removed, or in a dry run would be."""

    path: Annotated[str, "A directory or file, and its size."]
    bytes: Annotated[int, "A directory or file, and its size."]
    reason: Annotated[str, "Why it may go."]
    moved_to: Annotated[str | None, "With `--trash`, the new path; else null."] = None


@dataclass(frozen=True, slots=True, order=True)
class Waiting:
    """A path, or a request, that waits for a later cleaning, and the reason."""

    subject: Annotated[str, "A path below the location, or a request."]
    reason: Annotated[str, "The reason for waiting."]

    def __str__(self) -> str:
        return f"{self.subject}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningResult(OfPlace, Reasoned):
    """The outcome of a cleaning for one request, or of the litter of one place."""

    id: Annotated[int | None, "The id of the request; null for litter, and for files of rolled back transactions."]
    database: Annotated[str, _CLEANED]
    table: Annotated[str, _CLEANED]
    partition: Annotated[str | None, _CLEANED]
    location: Annotated[str, _CLEANED]
    state: Annotated[
        Outcome,
        "`succeeded`, `ready for cleaning` (it waits, or something is left), `refused` (with Hive 4: `NO_CLEANUP` is "
        "set, and the request has ended), `failed`, `conflict` or `planned`.",
    ]
    reason: Annotated[str, "Why."]
    bytes_removed: Annotated[int, "The bytes that were or would be removed, without those moved to a trash."] = field(
        init=False
    )
    bytes_moved: Annotated[int, "The bytes that were moved to a trash, where they take space until it is emptied."] = (
        field(init=False)
    )
    removed: Annotated[tuple[RemovedPath, ...], "The paths that were or would be removed."] = ()
    blocked: Annotated[
        Texts,
        "A list of texts: what stays, and why: what it waits for and until when, where that is known, or that only its "
        "owner may remove it.",
    ] = field(init=False)
    waiting: Annotated[tuple[Waiting, ...], "The same as a list of objects."] = ()

    def __post_init__(self) -> None:
        Reasoned.__post_init__(self)
        moved = sum(path.bytes for path in self.removed if path.moved_to is not None)
        object.__setattr__(self, "bytes_removed", sum(path.bytes for path in self.removed) - moved)
        object.__setattr__(self, "bytes_moved", moved)
        object.__setattr__(self, "blocked", tuple(map(str, self.waiting)))


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoResult(OfPlace, Reasoned):
    """The outcome of the undo of one compaction."""

    id: Annotated[int, "The id of the request."]
    database: Annotated[str, _PLACE]
    table: Annotated[str, _PLACE]
    partition: Annotated[str | None, _PLACE]
    location: Annotated[str, _PLACE]
    type: Annotated[str, "The kind of the compaction: `major` or `minor`."]
    state: Annotated[Outcome, "`undone`, `already undone`, `planned`, `refused`, `conflict` or `failed`."]
    reason: Annotated[str, "Why, and by whom."]
    result: Annotated[Texts, "Names of the directories that were or would be moved."] = ()
    moved_to: Annotated[
        str | None, "The directory of the place in which they are then; null where nothing is moved."
    ] = None
    inputs: Annotated[Texts, "Names of the directories that readers read in their place."] = ()
    originals: Annotated[Texts, "Paths of the original files that they read beside these."] = ()


_OF_REQUEST = "The place and kind of the request; null if there is no such request."


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation(OfPlace, Reasoned):
    """The outcome of the cancellation of one named request."""

    id: Annotated[int, "The id of the request."]
    database: Annotated[str | None, _OF_REQUEST] = None
    table: Annotated[str | None, _OF_REQUEST] = None
    partition: Annotated[str | None, _OF_REQUEST] = None
    type: Annotated[str | None, _OF_REQUEST] = None
    state: Annotated[
        Outcome, "`cancelled`; `planned` in a dry run; `refused`: it does not wait; `missing`: there is none."
    ]
    reason: Annotated[str, "Why, and what to do."]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRequest(OfPlace):
    """A request as Hive's SHOW COMPACTIONS has it, and where its place lies."""

    id: Annotated[int, "The id of the request."]
    database: Annotated[str, _PLACE]
    table: Annotated[str, _PLACE]
    partition: Annotated[str | None, _PLACE]
    type: Annotated[str, "`MAJOR`, `MINOR` or another type of Hive's, as Hive writes it."]
    state: Annotated[
        str, "As Hive of the metastore's generation calls it; `undone` for a compaction whose result was taken back."
    ]
    worker_host: Annotated[str | None, _WORKER]
    worker: Annotated[str | None, _WORKER]
    enqueue_ms: Annotated[int | None, _QUEUED_AND_BEGUN]
    start_ms: Annotated[int | None, _QUEUED_AND_BEGUN]
    duration_ms: Annotated[int | None, "From its start to its end."]
    hadoop_job_id: Annotated[str | None, "The job of Hive's own compactor."]
    error_message: Annotated[str | None, "Why it failed, was refused or was not initiated."]
    initiator_host: Annotated[str | None, _INITIATOR]
    initiator: Annotated[str | None, _INITIATOR]
    pool: Annotated[str | None, "The pool of Hive 4."]
    txn_id: Annotated[int | None, _TRANSACTION]
    next_txn_id: Annotated[int | None, _TRANSACTION]
    commit_ms: Annotated[int | None, _TRANSACTION]
    highest_write_id: Annotated[int | None, "Up to which write id it looked."]
    location: Annotated[str | None, "Where the place lies, as far as the queue knows; else null."]


_HOLDER = "Id, user and host of the transaction or lock."


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBlocker:
    """A transaction or lock that keeps a request of the queue from being cleaned."""

    request_id: Annotated[int, "The request, and its place."]
    name: Annotated[str, "The request, and its place."]
    kind: Annotated[str, "`transaction` or `lock`."]
    id: Annotated[int, _HOLDER]
    user: Annotated[str, _HOLDER]
    host: Annotated[str, _HOLDER]
    age_ms: Annotated[int | None, "How old it is."]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPart:
    """A directory of a place, or a file that lies in none, as readers see it."""

    path: Annotated[str, "In the place."]
    kind: Annotated[
        str,
        "`base`, `delta`, `delete delta`, `original file`, `other directory`, `hidden directory` or `hidden file`.",
    ]
    first_write_id: Annotated[int | None, "By its name."]
    last_write_id: Annotated[int | None, "By its name."]
    reader: Annotated[str, "`read`, `obsolete`, `aborted`, `not read` or `hidden`."]
    why: Annotated[str, "The reason."]
    files: Annotated[int, "The files that readers take for data."]
    bytes: Annotated[int, "Bytes of all files; 0 for hidden directories, which are not listed."]
    rows: Annotated[
        int | None,
        "Rows of its files, deleted and rolled back ones included; in a delete delta the number of events. Null if the "
        "format does not tell.",
    ]
    damage: Annotated[str | None, "Why a file cannot be read."]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPlace(OfPlace):
    """A table or partition as its readers see it; of one that cannot be shown the location and the error."""

    database: Annotated[str, _PLACE]
    table: Annotated[str, _PLACE]
    partition: Annotated[str | None, _PLACE]
    location: Annotated[str, _PLACE]
    hive_version: Annotated[int | None, "3 or 4: whose rules hold."] = None
    high_water_mark: Annotated[
        int | None, "The last write id that a reader knows of; null where all are committed, as was stated."
    ] = None
    open_write_ids: Annotated[tuple[int, ...], _NOT_COMMITTED] = ()
    aborted_write_ids: Annotated[tuple[int, ...], _NOT_COMMITTED] = ()
    error: Annotated[str | None, "Why a reader cannot read the place, or why it cannot be shown."]
    parts: Annotated[
        tuple[ShownPart, ...],
        "One entry per directory, and per file that lies in none. What is read comes first.",
    ] = ()


class CheckState(enum.StrEnum):
    """The result of a check, with which its line begins."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of a doctor."""

    name: Annotated[str, "The thing that was checked."]
    state: Annotated[CheckState, "`ok`, `note` (it works, and something should be known), `wrong`, or `unchecked`."]
    found: Annotated[str, "How it is, or why it was not looked at."]
    advice: Annotated[str, "What to do about it; empty if there is nothing to do."] = ""


# --- documents --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The beginning of every document."""

    job: Annotated[str, "The name of the job."]
    version: Annotated[str, "The version of this program."]
    run_id: Annotated[
        str | None,
        "The id of this run, in the [log lines](operations.md#what-a-run-prints); its name in the queue begins with "
        "it; null for `cancel`, `show_compactions`, `show_place` and `doctor`, which do no work of their own, and "
        "after an error.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedSetting:
    """A setting that is not at its default."""

    name: Annotated[str, "By Hive's name where it has one; durations in milliseconds."]
    value: Annotated[str, "By Hive's name where it has one; durations in milliseconds."]
    source: Annotated[str, "`hive-site.xml`, `metastore-site.xml`, `acidlib.toml` or `--set`."]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHead(Head):
    """The beginning of the document of a run, which neither `show_place` nor `doctor` is."""

    start_ms: Annotated[int, "When the run began and ended."]
    end_ms: Annotated[int, "When the run began and ended."]
    application_id: Annotated[str | None, _SPARK] = None
    tracking_url: Annotated[str | None, _SPARK] = None
    settings: Annotated[tuple[StatedSetting, ...], "The settings that are not at their defaults."] = ()


Counts = Annotated[dict[Outcome, int], "How many of them are in each state."]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTotals:
    """Sums over compactions."""

    compactions: Annotated[int, _COUNT]
    states: Annotated[Counts, COMPACTION_OUTCOMES] = field(hash=False)
    rows_in: Annotated[int, "Sums, without those that are not known."]
    rows_deleted: Annotated[int, "Sums, without those that are not known."]
    rows_aborted: Annotated[int, "Sums, without those that are not known."]
    rows_out: Annotated[int, "Sums, without those that are not known."]
    events_in: Annotated[int, "Sums."]
    events_aborted: Annotated[int, "Sums."]
    duplicate_events: Annotated[int, "Sums."]
    events_out: Annotated[int, "Sums."]
    bytes_copied: Annotated[int, "Sums."]
    bytes_rewritten: Annotated[int, "Sums."]
    stripes_copied: Annotated[int, "Sums."]
    stripes_rewritten: Annotated[int, "Sums."]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionTotals:
    """Counts of an initiator."""

    looked_at: Annotated[int, "Places."]
    queued: Annotated[int, "New requests."]
    refused: Annotated[int, "Places with this `outcome`."]
    held_back: Annotated[int, "Places with this `outcome`."]
    failed: Annotated[int, "Places with this `outcome`."]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningTotals:
    """Sums over cleanings."""

    requests: Annotated[int, "Entries."]
    succeeded: Annotated[int, "Entries in that state."]
    bytes_removed: Annotated[int, "Their sums."]
    bytes_moved: Annotated[int, "Their sums."]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceTotals:
    """Counts of places that are shown."""

    places: Annotated[int, "Entries."]
    damaged: Annotated[int, "Entries of which not all can be read."]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellationTotals:
    """Counts of cancellations."""

    cancellations: Annotated[int, _COUNT]
    states: Annotated[Counts, CANCEL_OUTCOMES] = field(hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTotals:
    """The count of requests that are shown."""

    compactions: Annotated[int, _COUNT]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTotals:
    """Counts of checks."""

    checks: Annotated[int, _COUNT]
    wrong: Annotated[int, "How many are `wrong`."]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionsDocument:
    """What `major_compact` and `minor_compact` have after their head."""

    compactions: Annotated[Sequence[CompactionResult], "One entry per partition or table."]
    totals: Annotated[CompactionTotals, "Sums over all of them."]
    notes: Annotated[Texts, "A list of texts."]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionsDocument:
    """What `initiator` has after its head."""

    decisions: Annotated[Sequence[InitiatorResult], "One entry per partition or table that was looked at."]
    totals: Annotated[DecisionTotals, "Counts."]
    notes: Annotated[Texts, "A list of texts."]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningsDocument:
    """What `cleaner` has after its head."""

    cleanings: Annotated[
        Sequence[CleaningResult],
        "One entry per request, per place with litter or orphans, or (Hive 4) per place where rolled back transactions "
        "are cleaned after.",
    ]
    totals: Annotated[CleaningTotals, "Sums."]
    notes: Annotated[Texts, "A list of texts."]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacesDocument:
    """What `show_place` has after its head."""

    places: Annotated[tuple[ShownPlace, ...], "One entry per partition or table."]
    totals: Annotated[PlaceTotals, "Counts."]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoDocument:
    """What `undo` has after its head."""

    undo: Annotated[UndoResult, "The result."]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellationsDocument:
    """What `cancel` has after its head."""

    cancellations: Annotated[tuple[Cancellation, ...], "An entry for each request that was named, in that order."]
    totals: Annotated[CancellationTotals, "How many."]

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

    compactions: Annotated[tuple[ShownRequest, ...], "One entry per request, newest first."]
    blockers: Annotated[
        tuple[ShownBlocker, ...] | UnsetType, "With `--blockers` only: what keeps requests from being cleaned."
    ] = UNSET
    totals: Annotated[RequestTotals, "A count."]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksDocument:
    """What `doctor` has after its head."""

    checks: Annotated[tuple[Check, ...], "One entry per line."]
    totals: Annotated[CheckTotals, "Counts."]

    @staticmethod
    def of(checks: Sequence[Check]) -> ChecksDocument:
        """Return the document of checks."""
        totals = CheckTotals(checks=len(checks), wrong=sum(check.state is CheckState.WRONG for check in checks))
        return ChecksDocument(checks=tuple(checks), totals=totals)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDescription:
    """The error of a run that could not be done."""

    kind: Annotated[str, "One of those below."]
    message: Annotated[str, "A text for people."]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDocument:
    """What follows the head when the run could not be done."""

    error: Annotated[ErrorDescription, "The error."]
