"""The status of tables: findings and figures, as the JSON document has them. Ages are seconds, sizes bytes."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from acidlib.model.results import OfPlace, Texts, repr_of
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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Finding(OfPlace, Reasoned):
    """Something that is wrong at a table or place, or everywhere, as one sentence."""

    in_short = "{0.level}, {0.trouble}, {0.ref}"

    level: Level = Level.WARNING
    """`warning` or `error`."""
    trouble: FindingKind
    """One of those below."""
    database: str | None = None
    table: str | None = None
    partition: str | None = None
    location: str | None = None
    """The place."""
    reason: str
    """Why."""
    setting: str | None = None
    """The setting whose limit was passed, or null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFigures:
    """The requests in one state."""

    state: str
    """As Hive calls it."""
    count: int
    """How many requests."""
    oldest_age: float | None
    oldest_place: str | None
    """The oldest of them; null for states of the history."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlaceFigures(OfPlace):
    """Figures of one listed place."""

    in_short = "{0.ref}, {0.deltas} deltas"

    database: str
    table: str
    partition: str | None
    location: str
    """The place."""
    deltas: int = 0
    small_deltas: int = 0
    """The deltas that a reader merges, and the small ones among them."""
    base_bytes: int = 0
    delta_bytes: int = 0
    ratio: float | None = None
    """Bytes of base and deltas, and their ratio; null without a base."""
    obsolete: int = 0
    obsolete_bytes: int = 0
    """Directories and files that no reader needs, and their bytes."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableFigures:
    """Figures of one table, or of all of them."""

    database: str | None = None
    table: str | None = None
    """Null in `totals`."""
    level: Level = Level.OK
    findings: int = 0
    """The worst finding, and how many there are."""
    requests: tuple[StateFigures, ...] = ()
    """One entry for each state."""
    failed_in_a_row: int = 0
    failed_place: str | None = None
    refused_in_a_row: int = 0
    refused_place: str | None = None
    """The most failures and refusals in a row, and their place."""
    blockers: int = 0
    """How many entries of `blockers` there are."""
    aborted_write_ids: int | None = None
    """Aborted write ids that the metastore remembers, if it is known."""
    places: int | None = None
    looked_at: int | None = None
    """How many places are known (null for one table), and how many were listed."""
    most_deltas: tuple[PlaceFigures, ...] = ()
    worst_ratio: tuple[PlaceFigures, ...] = ()
    most_obsolete: tuple[PlaceFigures, ...] = ()
    """The five worst of the listed places."""
    obsolete_bytes: int | None = None
    """Bytes that wait for cleaning in the listed places."""

    def __repr__(self) -> str:
        name = "all tables" if self.table is None else f"{self.database}.{self.table}"
        return repr_of(self, f"{name}, {self.level}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One open or aborted transaction."""

    id: int
    user: str
    host: str
    """Those of the transaction or lock."""
    age: float | None
    """How old it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """The transactions of a metastore."""

    open: int
    aborted: int
    """How many."""
    oldest_open: Transaction | None
    oldest_aborted: Transaction | None
    """The oldest; null without one."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CleaningBlocker(OfPlace):
    """A transaction or a lock that keeps a request from being cleaned."""

    in_short = "{0.kind} {0.id} at {0.ref}"

    request_id: int
    database: str
    table: str
    partition: str | None
    """The request that waits, and its place."""
    kind: str
    """`transaction` or `lock`."""
    id: int
    user: str
    host: str
    """Those of the transaction or lock."""
    age: float | None
    """How old it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusDocument:
    """What `status` has after its head: the state of all tables."""

    level: Level
    """`ok`, `warning` or `error`: the worst of the findings."""
    findings: tuple[Finding, ...]
    """The problems, worst first, then by name."""
    totals: TableFigures
    """Figures of all tables."""
    tables: tuple[TableFigures, ...]
    """The same for each table, the worst first."""
    transactions: Transactions | None = None
    """Those of the metastore; null without one."""
    blockers: tuple[CleaningBlocker, ...] | None = None
    """The transactions and locks for which requests wait; null without a metastore."""
    notes: Texts = ()
    """A list of texts."""
