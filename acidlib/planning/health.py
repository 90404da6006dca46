"""The status of all tables: figures and limits, the rules that find what is wrong, and the summary."""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.tables import TableRef
from acidlib.planning.inputs import was_compact
from acidlib.planning.verification import holding, why_held
from acidlib.wording import age_words, plural

# --- health -----------------------------------------------------------------------------------------------------------
# What is looked at to tell how the tables are doing, what may be wrong with them, and the limits from which on it is.
#
# Source of the figures and of the limits: Hive 4 `AcidMetricService` and `AcidMetricLogger` (the metrics of its
# metastore, and the settings by which it warns of them), and the alerts that Cloudera documents for the same metrics
# (Cloudera Management Console, built-in alerts: OldestInitiatedCompactionPassedThreshold and so on).


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
    ref: TableRef | None = None
    location: str | None = None
    setting: str | None = None


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

    ref: TableRef
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningBlocker:
    """What a request that is ready for cleaning waits for: a `transaction` or a `lock`, whose, and for how long."""

    request_id: int
    ref: TableRef
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
    aborted       how many write ids of each table are aborted
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
    waits: tuple[CleaningBlocker, ...] | None = None
    aborted: Mapping[TableRef, int] = field(default_factory=dict)
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

    ref: TableRef | None = None
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
    waits: tuple[CleaningBlocker, ...] | None = None


# --- health rules -----------------------------------------------------------------------------------------------------
# What is wrong, by rules over figures: each gives findings, with the reason in one line.
#
# An age that is not known never counts as long. Every limit is strict: more than it.

CLOCK_SECONDS = 300.0
"""By so much the clocks of two machines may differ without anybody having to know."""
_ENDED_BADLY = (State.FAILED, State.ATTEMPTED)
_DONE = (State.SUCCEEDED, State.READY_FOR_CLEANING)


def age_of(request: CompactionRequest, now_ms: int) -> float | None:
    """For how many seconds a request has been in its state; None where that is not known.

    Source: Hive 4 `AcidMetricService`: since it was queued, begun, or committed.
    """
    since = {
        State.INITIATED: request.enqueue_ms,
        State.WORKING: request.start_ms,
        State.READY_FOR_CLEANING: request.commit_ms or request.end_ms or request.start_ms,
    }.get(request.state, request.end_ms)
    return None if since is None else (now_ms - since) / 1000


def about_requests(
    requests: Iterable[CompactionRequest],
    limits: Limits,
    now_ms: int,
    *,
    gone: frozenset[int] = frozenset(),
    tells_queued: bool = True,
) -> Iterator[Finding]:
    """About the requests of the queue, each for itself. `gone` are those whose run is known to have ended.

    tells_queued  it is known of all when they were queued
    """
    for one in requests:
        what = f"request {one.id} ({one.type.label.lower()})"
        if one.facts.problems:
            yield _of(one, Level.ERROR, Trouble.NOT_UNDERSTOOD, f"{what} {'; '.join(one.facts.problems.values())}")
        age = age_of(one, now_ms)
        match one.state:
            case State.INITIATED:
                yield from _long(one, Trouble.INITIATED_LONG, limits.initiated, age, f"{what} waits to be begun since")
            case State.WORKING:
                yield from _long(one, Trouble.WORKING_LONG, limits.working, age, f"{what} is worked on since")
                yield from _about_worker(one, what, gone=one.id in gone)
            case State.READY_FOR_CLEANING:
                yield from _long(one, Trouble.READY_LONG, limits.uncleaned, age, f"{what} awaits cleaning since")
                tells_commit = one.type is not CompactionType.REBALANCE
                if one.txn_id is not None and one.commit_ms is None and tells_commit:
                    reason = f"{what} is ready for cleaning, and its transaction {one.txn_id} has not committed"
                    yield _of(one, Level.WARNING, Trouble.NOT_COMMITTED, reason)
                if one.retry_retention_ms or one.error_message:
                    why = f": {one.error_message}" if one.error_message else ""
                    yield _of(one, Level.WARNING, Trouble.CLEANING_RETRIED, f"{what} could not be cleaned{why}")
            case _:
                continue
        if one.type is CompactionType.ABORT_TXN_CLEANUP:
            reason = f"{what} is {one.state.label}, and is left to Hive's own compactor"
            yield _of(one, Level.WARNING, Trouble.OTHERS_WORK, reason)
        if age is None and (tells_queued or one.state is not State.INITIATED):
            yield _of(one, Level.WARNING, Trouble.AGE_UNKNOWN, f"{what} is {one.state.label}, nobody knows since when")
        elif age is not None and age < -CLOCK_SECONDS:
            reason = f"{what} is {one.state.label} since {age_words(-age)} from now: the clocks of two machines differ"
            yield _of(one, Level.WARNING, Trouble.FROM_THE_FUTURE, reason)


def _about_worker(one: CompactionRequest, what: str, *, gone: bool) -> Iterator[Finding]:
    if not one.worker_id:
        yield _of(one, Level.WARNING, Trouble.WORKER_UNKNOWN, f"{what} is worked on by nobody who is known")
    elif gone:
        reason = f"{what} was worked on by {one.worker_id}, which has ended; the next run gives it back"
        yield _of(one, Level.WARNING, Trouble.WORKER_GONE, reason)


def _long(one: CompactionRequest, trouble: Trouble, limit: Limit, age: float | None, what: str) -> Iterator[Finding]:
    if age is None or (level := limit.level(age)) is Level.OK:
        return
    reason = f"{what} {age_words(age)}, more than {age_words(limit.passed(level))}"
    yield _of(one, level, trouble, reason, limit.key(level))


def in_a_row(history: Sequence[CompactionRequest], *states: State) -> int:
    """Return how many of the newest of one place that have ended did so in these states, one after the other.

    Those that still wait or are worked on do not count; a refusal says nothing of a failure, nor the other way round.
    A place that was found to be compact already was well then, whatever was before.
    """
    counted = 0
    for one in sorted(history, key=lambda row: row.id, reverse=True):
        if was_compact(one):
            break
        if one.state in states:
            counted += 1
        elif one.state in (*_DONE, *_ENDED_BADLY, State.REFUSED, State.ABORTED):
            break
    return counted


def about_history(history: Sequence[CompactionRequest], limits: Limits) -> Iterator[Finding]:
    """About all requests of one place: how the last ones ended, and whether two of them wait."""
    newest = sorted(history, key=lambda row: row.id, reverse=True)
    held = holding(row for row in newest if row.state is not State.WORKING)  # that may be verified just now
    if held is not None:
        yield _of(held, Level.ERROR, Trouble.UNVERIFIED, why_held(held))
    failed = 0 if held is not None else in_a_row(newest, State.FAILED)
    last = next((row for row in newest if row.state not in (State.INITIATED, State.WORKING)), None)
    if last is not None and failed:
        limit = limits.failed_in_a_row
        why = f": {last.error_message}" if last.error_message else ""
        if 0 < limit.error <= failed:
            reason = f"the last {failed} compactions failed, so it is no longer queued automatically{why}"
            yield _of(last, Level.ERROR, Trouble.HELD_BACK, reason, limit.error_key)
        else:
            yield _of(last, Level.WARNING, Trouble.FAILED, f"request {last.id} failed{why}")
    elif last is not None and last.state is State.ATTEMPTED:
        why = f": {last.error_message}" if last.error_message else ""
        yield _of(last, Level.WARNING, Trouble.NOT_INITIATED, f"request {last.id} was not initiated{why}")
    elif last is not None and last.state is State.ABORTED:
        yield _of(last, Level.WARNING, Trouble.ABORTED_BY_HAND, f"request {last.id} was aborted by hand")
    refused, limit = in_a_row(newest, State.REFUSED), limits.refused_in_a_row
    if last is not None and 0 < limit.warning <= refused:
        why = f": {last.error_message}" if last.error_message else ""
        reason = f"the last {plural(refused, 'request was', 'requests were')} refused{why}"
        yield _of(last, Level.WARNING, Trouble.REFUSED, reason, limit.warning_key)
    waiting = [row for row in newest if row.state in (State.INITIATED, State.WORKING)]
    if len(waiting) > 1:
        ids = ", ".join(str(row.id) for row in reversed(waiting))
        yield _of(waiting[0], Level.WARNING, Trouble.TWICE, f"requests {ids} are for the same place")


def about_failures(last_states: Iterable[State], limits: Limits) -> Iterator[Finding]:
    """About how the last compaction of each place ended (Hive 4 `AcidMetricService` counts it so, too)."""
    known = [state for state in last_states if state in (*_ENDED_BADLY, State.SUCCEEDED)]
    bad = sum(state in _ENDED_BADLY for state in known)
    if known and (level := limits.failure_ratio.level(bad / len(known))) is not Level.OK:
        limit = limits.failure_ratio
        reason = (
            f"at {bad:,} of {plural(len(known), 'place')} the last compaction failed or was not initiated, "
            f"{bad / len(known):.1%}, more than {limit.passed(level):.1%}"
        )
        yield Finding(level=level, trouble=Trouble.FAILURE_RATIO, reason=reason, setting=limit.key(level))


def about_hosts(initiators: Iterable[str], versions: Iterable[str]) -> Iterator[Finding]:
    """About who queues and who works: Cloudera warns of more than one host that initiates, and of several versions."""
    for trouble, found, what in (
        (Trouble.SEVERAL_INITIATORS, sorted(set(initiators)), "hosts queue compactions"),
        (Trouble.SEVERAL_VERSIONS, sorted(set(versions)), "versions work on the queue"),
    ):
        if len(found) > 1:
            reason = f"{len(found)} {what}: {', '.join(found)}"
            yield Finding(level=Level.WARNING, trouble=trouble, reason=reason)


def about_transactions(txns: Iterable[Transaction], limits: Limits) -> Iterator[Finding]:
    """About each open or aborted transaction that is too old, and each open one whose owner is silent."""
    for one in txns:
        limit, trouble = (
            (limits.open_txn, Trouble.OPEN_LONG) if one.is_open else (limits.aborted_txn, Trouble.ABORTED_LONG)
        )
        whose = f"of {one.user} at {one.host}"
        level = Level.OK if one.age is None else limit.level(one.age)
        if one.age is not None and level is not Level.OK:
            kind = "open" if one.is_open else "aborted and remembered"
            reason = f"transaction {one.id} {whose} is {kind} since {age_words(one.age)}, more than "
            reason += age_words(limit.passed(level))
            yield Finding(level=level, trouble=trouble, reason=reason, setting=limit.key(level))
        elif one.is_open and limits.silent_seconds and (one.silent or 0) > 2 * limits.silent_seconds:
            silence = age_words(one.silent or 0)
            reason = f"transaction {one.id} {whose} is open, and gave no sign of life since {silence}"
            yield Finding(level=Level.WARNING, trouble=Trouble.OPEN_SILENT, reason=reason)


def about_rolled_back(
    txns: Iterable[Transaction], aborted: Mapping[TableRef, int], uncleaned: str | None, limits: Limits
) -> Iterator[Finding]:
    """About what waits for a cleaner that does not come, by the limits from which on one would."""
    left = [] if uncleaned is None else [one for one in txns if not one.is_open]
    oldest = max((one.age or 0 for one in left), default=0)
    number, time = limits.rolled_back
    passed = next((limit for limit, value in ((number, len(left)), (time, oldest)) if limit.level(value)), None)
    if passed is None:
        return
    tables = [count for count in aborted.values() if count]
    wrote = f", with {plural(sum(tables), 'write id')} in {plural(len(tables), 'table')}" if tables else ""
    reason = (
        f"{plural(len(left), 'rolled back transaction waits', 'rolled back transactions wait')} to be cleaned after"
        f"{wrote}, the oldest begun {age_words(oldest)} ago: {uncleaned}"
    )
    yield Finding(level=Level.WARNING, trouble=Trouble.ABORTED_LEFT, reason=reason, setting=passed.warning_key)


def about_aborted(aborted: Mapping[TableRef, int], limits: Limits) -> Iterator[Finding]:
    """About the number of aborted write ids of each table."""
    many = 0
    for ref, count in sorted(aborted.items()):
        if (level := limits.table_aborted.level(count)) is not Level.OK:
            many += 1
            reason = f"{count:,} of its write ids are aborted, more than {limits.table_aborted.warning:,.0f}"
            yield Finding(
                level=level,
                trouble=Trouble.ABORTED_IN_TABLE,
                reason=reason,
                ref=ref,
                setting=limits.table_aborted.key(level),
            )
    limit = limits.tables_aborted
    if 0 < limit.error <= many:
        have = plural(many, "table has", "tables have")
        reason = f"{have} more than {limits.table_aborted.warning:,.0f} aborted write ids"
        yield Finding(level=Level.ERROR, trouble=Trouble.ABORTED_IN_TABLES, reason=reason, setting=limit.error_key)


def about_blockers(waits: Iterable[CleaningBlocker], limits: Limits) -> Iterator[Finding]:
    """About what keeps requests from being cleaned, where it is as old as a request that waits too long."""
    limit = limits.uncleaned
    for one in waits:
        if one.age is not None and (level := limit.level(one.age)) is not Level.OK:
            reason = f"request {one.request_id} waits for {one.kind} {one.id} of {one.user} at {one.host}, there since "
            trouble = Trouble.BLOCKED_BY_LOCK if one.kind == "lock" else Trouble.BLOCKED_BY_TXN
            yield Finding(
                level=level,
                trouble=trouble,
                reason=reason + age_words(one.age),
                ref=one.ref,
                setting=limit.key(level),
            )


def about_place(place: PlaceFigures, limits: Limits) -> Iterator[Finding]:
    """About what a listing shows of one place."""
    if place.problem is not None:
        trouble, reason = place.problem
        level = Level.WARNING if trouble in (Trouble.CHANGING, Trouble.NOT_JUDGED) else Level.ERROR
        yield _at(place, level, trouble, reason)
    for trouble, limit, value, what in (
        (Trouble.MANY_DELTAS, limits.deltas, place.deltas, "deltas are to be merged by every reader"),
        (Trouble.MANY_OBSOLETE, limits.obsolete, place.obsolete, "directories are obsolete"),
        (Trouble.MANY_SMALL, limits.small, place.small_deltas, "deltas are small"),
        (Trouble.MUCH_TO_CLEAN, limits.obsolete_bytes, place.obsolete_bytes, "bytes wait for cleaning"),
    ):
        if (level := limit.level(value)) is not Level.OK:
            reason = f"{value:,} {what}, more than {limit.passed(level):,.0f}"
            yield _at(place, level, trouble, reason, limit.key(level))
    if place.ratio is not None and (level := limits.ratio.level(place.ratio)) is not Level.OK:
        limit = limits.ratio
        reason = f"its deltas have {place.ratio:,.1f} times the bytes of its base, more than {limit.passed(level):g}"
        yield _at(place, level, Trouble.HEAVY_DELTAS, reason, limit.key(level))
    if place.aborted and limits.uncleaned.level(place.idle or 0) is not Level.OK:
        held = plural(place.aborted, "directory holds", "directories hold")
        reason = f"{held} nothing but rows of aborted transactions"
        yield _at(place, Level.WARNING, Trouble.ABORTED_ON_DISK, reason)
    if place.due and place.switched_off:
        yield _at(place, Level.WARNING, Trouble.SWITCHED_OFF, f"{place.switched_off}, and {place.due}")
    elif place.due and place.refused:
        yield _at(place, Level.WARNING, Trouble.NOT_COMPACTABLE, f"{place.refused}; it is due, as {place.due}")
    elif place.due and limits.initiated.level(place.idle or 0) is not Level.OK:
        # what is being written now may well be queued by the next initiator
        yield _at(place, Level.WARNING, Trouble.DUE, f"no request for it waits, and {place.due}")
    if place.obsolete and place.cleaning_forbidden:
        reason = f"{place.cleaning_forbidden}, and {plural(place.obsolete, 'directory is', 'directories are')} obsolete"
        yield _at(place, Level.WARNING, Trouble.CLEANING_FORBIDDEN, reason)
    yield from _left_behind(place)


def _left_behind(place: PlaceFigures) -> Iterator[Finding]:
    """What dead runs left: the next run at the place, or the next cleaner, sees to it."""
    if place.unfinished:
        reason = "a publication there was begun and not finished; the next run at the place finishes it"
        yield _at(place, Level.ERROR, Trouble.UNFINISHED, reason)
    elif place.staging:
        reason = f"{place.staging[0]} is staged there by a run that does not hold the place any more"
        yield _at(place, Level.WARNING, Trouble.STAGING_LEFT, reason)
    if place.claim_left_by is not None:
        reason = f"it is claimed by {place.claim_left_by}, which has ended or gives no sign of life"
        yield _at(place, Level.WARNING, Trouble.CLAIM_LEFT, reason)
    if place.removed:
        reason = f"{place.removed[0]} was taken out of sight by a cleaner that has ended; the next one removes it"
        yield _at(place, Level.WARNING, Trouble.REMOVAL_LEFT, reason)


def _of(one: CompactionRequest, level: Level, trouble: Trouble, reason: str, setting: str | None = None) -> Finding:
    return Finding(
        level=level,
        trouble=trouble,
        reason=reason,
        ref=one.ref,
        location=None if one.facts.location is None else str(one.facts.location),
        setting=setting,
    )


def _at(place: PlaceFigures, level: Level, trouble: Trouble, reason: str, setting: str | None = None) -> Finding:
    return Finding(
        level=level,
        trouble=trouble,
        reason=reason,
        ref=place.ref,
        location=place.location,
        setting=setting,
    )


# --- health summary ---------------------------------------------------------------------------------------------------
# The status of all tables out of what one look saw: every rule is asked, and the figures are summed.

Item = TypeVar("Item")
_WORST = 5
_QUEUED = (State.INITIATED, State.WORKING, State.READY_FOR_CLEANING)


def status_of(lake: Lake, limits: Limits) -> Status:
    """Every finding, worst first, then by name; figures of all and of each table, the worst table first."""
    histories = list(_histories(lake))
    findings = sorted(_findings(lake, limits, histories), key=_order)
    tables = sorted(_tables(lake, histories, findings), key=lambda one: (-one.level, -one.findings, one.ref))
    txns = lake.transactions
    opened = [one for one in txns or () if one.is_open]
    aborted = [one for one in txns or () if not one.is_open]
    totals = _figures(lake, histories, findings, lake.requests, lake.places)
    return Status(
        findings=tuple(findings),
        totals=replace(
            totals,
            places=lake.known_places,
            blockers=len(lake.waits or ()),
            aborted_write_ids=sum(lake.aborted.values()) if _knows_write_ids(lake) else None,
        ),
        tables=tuple(tables),
        oldest_open=max(opened, key=lambda one: one.age or 0, default=None),
        oldest_aborted=max(aborted, key=lambda one: one.age or 0, default=None),
        open_count=None if txns is None else len(opened),
        aborted_count=None if txns is None else len(aborted),
        waits=lake.waits,
    )


def _findings(lake: Lake, limits: Limits, histories: Sequence[Sequence[CompactionRequest]]) -> Iterator[Finding]:
    yield from lake.found
    yield from about_requests(lake.requests, limits, lake.now_ms, gone=lake.gone, tells_queued=lake.tells_queued)
    for history in histories:
        yield from about_history(history, limits)
    yield from about_failures((rows[0].state for rows in histories), limits)
    yield from about_hosts(lake.hosts, lake.versions)
    yield from about_transactions(lake.transactions or (), limits)
    yield from about_rolled_back(lake.transactions or (), lake.aborted, lake.uncleaned, limits)
    yield from about_aborted(lake.aborted, limits)
    yield from about_blockers(lake.waits or (), limits)
    for place in lake.places or ():
        yield from about_place(place, limits)


def _histories(lake: Lake) -> Iterable[list[CompactionRequest]]:
    """The requests of each place, newest first; ids of two queues say nothing of each other."""
    found: dict[object, list[CompactionRequest]] = {}
    for row in sorted(lake.requests, key=lambda row: row.id, reverse=True):
        place = (row.facts.location, row.ref) if lake.by_location else (row.facts.metastore, row.ref)
        found.setdefault(place, []).append(row)
    return found.values()


def _tables(
    lake: Lake, histories: Sequence[Sequence[CompactionRequest]], findings: Sequence[Finding]
) -> Iterator[Figures]:
    requests = _by_table(lake.requests, lambda row: row.ref)
    of_history = _by_table(histories, lambda rows: rows[0].ref)
    places = _by_table(lake.places or (), lambda place: place.ref)
    wrong = _by_table(findings, lambda one: one.ref)
    waits = _by_table(lake.waits or (), lambda one: one.ref)
    for table in sorted({*requests, *places, *(name for name, count in lake.aborted.items() if count)}):
        figures = _figures(
            lake,
            of_history.get(table, []),
            wrong.get(table, []),
            requests.get(table, []),
            None if lake.places is None else places.get(table, []),
        )
        aborted = lake.aborted.get(table, 0) if _knows_write_ids(lake) else None
        blockers = len(waits.get(table, ()))
        yield replace(figures, ref=table, aborted_write_ids=aborted, blockers=blockers)


def _knows_write_ids(lake: Lake) -> bool:
    """Whether tables were asked for, and a metastore that remembers what was aborted."""
    return lake.transactions is not None and lake.places is not None


def _figures(
    lake: Lake,
    histories: Sequence[Sequence[CompactionRequest]],
    findings: Sequence[Finding],
    requests: Sequence[CompactionRequest],
    places: Sequence[PlaceFigures] | None,
) -> Figures:
    failed, failed_name = _longest(histories, State.FAILED)
    refused, refused_name = _longest(histories, State.REFUSED)
    looked = None if places is None else [place for place in places if place.problem is None]
    return Figures(
        level=max((one.level for one in findings), default=Level.OK),
        findings=len(findings),
        requests={state: _in_state(requests, state, lake.now_ms) for state in State},
        failed=failed,
        failed_name=failed_name,
        refused=refused,
        refused_name=refused_name,
        looked_at=None if places is None else len(places),
        most_deltas=_worst(looked, lambda place: place.deltas),
        worst_ratio=_worst(looked, lambda place: place.ratio or 0),
        most_obsolete=_worst(looked, lambda place: place.obsolete_bytes),
        obsolete_bytes=sum(place.obsolete_bytes for place in looked) if looked else None,
    )


def _worst(places: Iterable[PlaceFigures] | None, figure: Callable[[PlaceFigures], float]) -> tuple[PlaceFigures, ...]:
    """The first few by a figure, of those that have any of it."""
    return tuple(heapq.nlargest(_WORST, (place for place in places or () if figure(place)), key=figure))


def _in_state(requests: Iterable[CompactionRequest], state: State, now_ms: int) -> InState:
    rows = [row for row in requests if row.state is state]
    ages = [(age, str(row.ref)) for row in rows if (age := age_of(row, now_ms)) is not None]
    oldest, name = max(ages) if ages and state in _QUEUED else (None, None)
    return InState(count=len(rows), oldest=oldest, name=name)


def _longest(histories: Iterable[Sequence[CompactionRequest]], state: State) -> tuple[int, str | None]:
    rows = [(in_a_row(history, state), str(history[0].ref)) for history in histories]
    longest, name = max(rows, default=(0, None))
    return longest, name if longest else None


def _by_table(items: Iterable[Item], about: Callable[[Item], TableRef | None]) -> dict[TableRef, list[Item]]:
    found: dict[TableRef, list[Item]] = {}
    for item in items:
        ref = about(item)
        if ref is not None:
            found.setdefault(ref.whole_table, []).append(item)
    return found


def _order(one: Finding) -> tuple[int, str, str]:
    return -one.level, "" if one.ref is None else str(one.ref), one.trouble.value
