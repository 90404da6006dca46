"""The status of tables: findings and figures, as the JSON document has them. Ages are seconds, sizes bytes."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated

from acidlib.model.results import OfPlace, Texts
from acidlib.wording import Reasoned


class Level(enum.StrEnum):
    """The gravity of a finding; that of a table is the worst of its findings."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """0, 1 or 2: the higher, the worse."""
        return list(Level).index(self)


class FindingKind(enum.StrEnum):
    """A kind of finding; the value is its name in the JSON document and in metrics, and never changes."""

    INITIATED_LONG = "initiated for long"
    WORKING_LONG = "working for long"
    WORKER_GONE = "worker gone"
    WORKER_UNKNOWN = "worker unknown"
    READY_LONG = "ready for cleaning for long"
    CLEANING_RETRIED = "cleaning failed"
    NOT_COMMITTED = "never committed"
    FAILED = "failed"
    UNVERIFIED = "result not verified"
    HELD_BACK = "failed in a row"
    NOT_INITIATED = "not initiated"
    REFUSED = "refused in a row"
    ABORTED_BY_HAND = "aborted"
    FAILURE_RATIO = "many failures"
    NOT_UNDERSTOOD = "not understood"
    OTHERS_WORK = "not done here"
    AGE_UNKNOWN = "age unknown"
    FROM_THE_FUTURE = "clocks differ"
    TWICE = "queued twice"
    SEVERAL_INITIATORS = "several initiators"
    SEVERAL_VERSIONS = "several versions"
    ANOTHER_METASTORE = "of another metastore"
    OPEN_LONG = "open transaction"
    OPEN_SILENT = "silent transaction"
    ABORTED_LONG = "aborted transaction"
    ABORTED_LEFT = "rolled back and not cleaned"
    ABORTED_IN_TABLE = "many aborted"
    ABORTED_IN_TABLES = "tables with many aborted"
    BLOCKED_BY_TXN = "blocked by a transaction"
    BLOCKED_BY_LOCK = "blocked by a lock"
    MANY_DELTAS = "many deltas"
    MANY_OBSOLETE = "many obsolete"
    MANY_SMALL = "many small deltas"
    HEAVY_DELTAS = "heavy deltas"
    MUCH_TO_CLEAN = "much to clean"
    ABORTED_ON_DISK = "aborted on disk"
    DUE = "due and not queued"
    NOT_COMPACTABLE = "cannot be compacted"
    SWITCHED_OFF = "switched off"
    CLEANING_FORBIDDEN = "cleaning forbidden"
    MISSING = "missing"
    NOT_READABLE = "not readable"
    DAMAGED = "damaged"
    NOT_JUDGED = "not judged"
    CHANGING = "changing"
    UNFINISHED = "unfinished publication"
    CLAIM_LEFT = "claim left behind"
    STAGING_LEFT = "staging left behind"
    REMOVAL_LEFT = "removal left behind"
    NOT_OBEYED = "not obeyed"


_FINDING = "The place of the finding; all null if it is about no table."


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(OfPlace, Reasoned):
    """Something that is wrong at a table or place, or everywhere, as one sentence."""

    level: Annotated[Level, "`warning` or `error`."] = Level.WARNING
    trouble: Annotated[FindingKind, "One of those below."]
    database: Annotated[str | None, _FINDING] = None
    table: Annotated[str | None, _FINDING] = None
    partition: Annotated[str | None, _FINDING] = None
    location: Annotated[str | None, _FINDING] = None
    reason: Annotated[str, "One line."]
    setting: Annotated[str | None, "The limit that was passed; null where no setting says so."] = None


_OLDEST = "The oldest that is initiated, working or ready for cleaning; null for states of the history."
_DELTAS = "The deltas that a reader merges, and the small ones among them."
_BYTES = "Bytes of the base and of the deltas, and these through those; null without a base."
_OBSOLETE = "Directories and files that no reader needs any more, and their bytes."
_FINDINGS = "The worst finding, and how many there are."
_FAILED = "The longest row of failures at one place, and which."
_PLACES = "How many places are known (null for one table), and how many of them were listed."


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFigures:
    """The requests in one state."""

    state: Annotated[str, "As Hive of the metastore's generation calls it."]
    count: Annotated[int, "How many requests."]
    oldest_age: Annotated[float | None, _OLDEST]
    oldest_place: Annotated[str | None, _OLDEST]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceFigures(OfPlace):
    """Figures of one listed place."""

    database: Annotated[str, "The place."]
    table: Annotated[str, "The place."]
    partition: Annotated[str | None, "The place."]
    location: Annotated[str, "The place."]
    deltas: Annotated[int, _DELTAS] = 0
    small_deltas: Annotated[int, _DELTAS] = 0
    base_bytes: Annotated[int, _BYTES] = 0
    delta_bytes: Annotated[int, _BYTES] = 0
    ratio: Annotated[float | None, _BYTES] = None
    obsolete: Annotated[int, _OBSOLETE] = 0
    obsolete_bytes: Annotated[int, _OBSOLETE] = 0


Worst = Annotated[tuple[PlaceFigures, ...], "The five places with most of it among those that were listed."]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFigures:
    """Figures of one table, or of all of them."""

    database: Annotated[str | None, "Null in `totals`."] = None
    table: Annotated[str | None, "Null in `totals`."] = None
    level: Annotated[Level, _FINDINGS] = Level.OK
    findings: Annotated[int, _FINDINGS] = 0
    requests: Annotated[tuple[StateFigures, ...], "One entry for each state."] = ()
    failed_in_a_row: Annotated[int, _FAILED] = 0
    failed_place: Annotated[str | None, _FAILED] = None
    refused_in_a_row: Annotated[int, "The same for refusals."] = 0
    refused_place: Annotated[str | None, "The same for refusals."] = None
    blockers: Annotated[int, "How many entries of `blockers` there are."] = 0
    aborted_write_ids: Annotated[
        int | None,
        "Aborted write ids that the metastore remembers; null without a metastore, and if no place was listed.",
    ] = None
    places: Annotated[int | None, _PLACES] = None
    looked_at: Annotated[int | None, _PLACES] = None
    most_deltas: Worst = ()
    worst_ratio: Worst = ()
    most_obsolete: Worst = ()
    obsolete_bytes: Annotated[int | None, "Bytes that wait for cleaning there."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One open or aborted transaction."""

    id: Annotated[int, "Id, user and host of the transaction."]
    user: Annotated[str, "Id, user and host of the transaction."]
    host: Annotated[str, "Id, user and host of the transaction."]
    age: Annotated[float | None, "Since it was begun."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """The transactions of a metastore."""

    open: Annotated[int, "How many."]
    aborted: Annotated[int, "How many."]
    oldest_open: Annotated[Transaction | None, "The oldest; null without one."]
    oldest_aborted: Annotated[Transaction | None, "The oldest; null without one."]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningBlocker(OfPlace):
    """A transaction or a lock that keeps a request from being cleaned."""

    request_id: Annotated[int, "The request, and its place."]
    database: Annotated[str, "The request, and its place."]
    table: Annotated[str, "The request, and its place."]
    partition: Annotated[str | None, "The request, and its place."]
    kind: Annotated[str, "`transaction` or `lock`."]
    id: Annotated[int, "Id, user, host and age of the transaction or lock."]
    user: Annotated[str, "Id, user, host and age of the transaction or lock."]
    host: Annotated[str, "Id, user, host and age of the transaction or lock."]
    age: Annotated[float | None, "Id, user, host and age of the transaction or lock."]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusDocument:
    """What `status` has after its head: the state of all tables."""

    level: Annotated[Level, "`ok`, `warning` or `error`: the worst of the findings."]
    findings: Annotated[tuple[Finding, ...], "The problems, worst first, then by name."]
    totals: Annotated[TableFigures, "Figures of all."]
    tables: Annotated[tuple[TableFigures, ...], "The same for each table, the worst first."]
    transactions: Annotated[Transactions | None, "Open and aborted ones; null without a metastore."] = None
    blockers: Annotated[
        tuple[CleaningBlocker, ...] | None,
        "The transactions and locks that keep requests from being cleaned; null without a metastore.",
    ] = None
    notes: Annotated[Texts, "A list of texts."] = ()
