"""What is looked at to tell how the tables are doing, what may be wrong with them, and the limits from which on it is.

Source of the figures and of the limits: Hive 4 `AcidMetricService` and `AcidMetricLogger` (the metrics of its
metastore, and the settings by which it warns of them), and the alerts that Cloudera documents for the same metrics
(Cloudera Management Console, built-in alerts: OldestInitiatedCompactionPassedThreshold and so on).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from acidlib.model.requests import CompactionRequest, State


class Level(enum.IntEnum):
    """How bad it is; the worst one counts."""

    OK = 0
    WARNING = 1
    ERROR = 2

    @property
    def label(self) -> str:
        """`ok`, `warning` or `error`."""
        return self.name.lower()


class Trouble(enum.Enum):
    """A kind of trouble; the value is its name in the JSON document and in metrics. It never changes."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong: how bad it is, what it is about (nothing: everything), and one line that says all.

    setting  which limit was passed; None where no setting says so
    """

    level: Level
    trouble: Trouble
    reason: str
    database: str | None = None
    table: str | None = None
    partition: str | None = None
    location: str | None = None
    setting: str | None = None

    @property
    def name(self) -> str | None:
        """database.table, or database.table.partition; None where it is about all of them."""
        return ".".join(part for part in (self.database, self.table, self.partition) if part) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """From where on a figure is a warning, and from where on an error: more than that. 0 is never.

    Durations are seconds. The two keys are those of the settings.
    """

    warning: float = 0
    error: float = 0
    warning_key: str | None = None
    error_key: str | None = None

    def level(self, value: float) -> Level:
        """How bad a value is."""
        if self.error > 0 and value > self.error:
            return Level.ERROR
        return Level.WARNING if self.warning > 0 and value > self.warning else Level.OK

    def key(self, level: Level) -> str | None:
        """The setting by which a value is on a level."""
        return {Level.WARNING: self.warning_key, Level.ERROR: self.error_key}.get(level)

    def passed(self, level: Level) -> float:
        """What was passed then."""
        return self.error if level is Level.ERROR else self.warning


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """All limits; see the settings they come from.

    failed_in_a_row  failures after which a place is no longer queued automatically
    rolled_back      transactions that were rolled back, from when on a cleaner sees to them: how many, and how old
    table_aborted    aborted write ids of one table that are many
    small_share      of its base's bytes that a small delta has less than
    silent_seconds   without a sign of life of an open transaction, None where it is not known
    """

    initiated: Limit = field(default_factory=Limit)
    working: Limit = field(default_factory=Limit)
    uncleaned: Limit = field(default_factory=Limit)
    open_txn: Limit = field(default_factory=Limit)
    aborted_txn: Limit = field(default_factory=Limit)
    rolled_back: tuple[Limit, Limit] = field(default_factory=lambda: (Limit(), Limit()))
    failure_ratio: Limit = field(default_factory=Limit)
    failed_in_a_row: Limit = field(default_factory=Limit)
    refused_in_a_row: Limit = field(default_factory=Limit)
    table_aborted: Limit = field(default_factory=Limit)
    tables_aborted: Limit = field(default_factory=Limit)
    deltas: Limit = field(default_factory=Limit)
    obsolete: Limit = field(default_factory=Limit)
    small: Limit = field(default_factory=Limit)
    ratio: Limit = field(default_factory=Limit)
    obsolete_bytes: Limit = field(default_factory=Limit)
    small_share: float = 0.01
    silent_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One open or aborted transaction; ages are seconds, None where they are not known."""

    id: int
    is_open: bool
    user: str
    host: str
    age: float | None
    silent: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceFigures:
    """What one listing of a place shows.

    deltas           that a reader has to merge, and `small_deltas`, those of them that are small
    ratio            of delta bytes to base bytes; None without a base
    obsolete         directories and files that no reader needs any more, `obsolete_bytes` what is in them
    aborted          directories of nothing but aborted transactions, which are among the obsolete
    idle             seconds since the newest file there was written; None without one
    due              why it should be compacted, by the thresholds of the initiator; None where it should not
    refused          why a worker would refuse that, as the place is
    switched_off     why it is not compacted automatically
    cleaning_forbidden  why nothing may be removed there
    unfinished       publications that a run has begun and not finished
    claim_left_by    whose claim it is, where that run counts as dead
    staging, removed  names of what dead runs may have left
    problem          why it could not be looked at or judged: its kind, and a sentence
    """

    database: str
    table: str
    partition: str | None
    location: str
    deltas: int = 0
    small_deltas: int = 0
    base_bytes: int = 0
    delta_bytes: int = 0
    ratio: float | None = None
    obsolete: int = 0
    obsolete_bytes: int = 0
    aborted: int = 0
    idle: float | None = None
    due: str | None = None
    refused: str | None = None
    switched_off: str | None = None
    cleaning_forbidden: str | None = None
    unfinished: int = 0
    claim_left_by: str | None = None
    staging: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    problem: tuple[Trouble, str] | None = None

    @property
    def name(self) -> str:
        """database.table, or database.table.partition."""
        return ".".join(part for part in (self.database, self.table, self.partition) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """What a request that is ready for cleaning waits for: a `transaction` or a `lock`, whose, and for how long."""

    request_id: int
    database: str
    table: str
    partition: str | None
    kind: str
    id: int
    user: str
    host: str
    age: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """All that one look saw. `now_ms` is its time.

    requests      of the queue and the history
    hosts         that queued requests, `versions` of who worked on them, where a metastore tells them
    gone          the requests that are worked on by a run that is known to have ended
    transactions  open and aborted, `waits` what they keep from being cleaned; both None without a metastore
    aborted       how many write ids of each table (database, table) are aborted
    uncleaned     why no cleaner sees to transactions that were rolled back; None where one does
    places        that were listed, of so many `known_places`; both None where nothing was to be listed
    found         what the look itself found to be wrong
    by_location   places are distinguished by where they lie, not by their names
    tells_queued  requests say when they were queued; those of Hive 3.1's own queue do not
    """

    now_ms: int
    requests: tuple[CompactionRequest, ...] = ()
    versions: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    gone: frozenset[int] = frozenset()
    transactions: tuple[Transaction, ...] | None = None
    waits: tuple[Waits, ...] | None = None
    aborted: Mapping[tuple[str, str], int] = field(default_factory=dict)
    uncleaned: str | None = None
    places: tuple[PlaceFigures, ...] | None = None
    known_places: int | None = None
    found: tuple[Finding, ...] = ()
    by_location: bool = False
    tells_queued: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class InState:
    """The requests in one state: how many, and the age in seconds and the name of the oldest."""

    count: int = 0
    oldest: float | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of one table, or (without a name) of all.

    places, looked_at  how many there are and how many of them were listed; None where nothing was to be listed
    failed, refused    the longest row of failures and of refusals at one place, and which
    aborted_write_ids  that the metastore remembers; None without one
    most_deltas, worst_ratio, most_obsolete  the places with most of it, the worst first; none where nothing was listed
    obsolete_bytes     of all places that were listed
    """

    database: str | None = None
    table: str | None = None
    level: Level = Level.OK
    findings: int = 0
    requests: Mapping[State, InState] = field(default_factory=dict)
    failed: int = 0
    failed_name: str | None = None
    refused: int = 0
    refused_name: str | None = None
    blockers: int = 0
    aborted_write_ids: int | None = None
    places: int | None = None
    looked_at: int | None = None
    most_deltas: tuple[PlaceFigures, ...] = ()
    worst_ratio: tuple[PlaceFigures, ...] = ()
    most_obsolete: tuple[PlaceFigures, ...] = ()
    obsolete_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How all of it is doing: what is wrong, worst first, the figures of all and of each table, the oldest
    transactions, and what keeps requests from being cleaned.
    """

    findings: tuple[Finding, ...]
    totals: Figures
    tables: tuple[Figures, ...]
    oldest_open: Transaction | None = None
    oldest_aborted: Transaction | None = None
    open_count: int | None = None
    aborted_count: int | None = None
    waits: tuple[Waits, ...] | None = None
