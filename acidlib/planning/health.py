"""The status of all tables: what one look saw, the limits, the rules that find what is wrong, and the summary.

Source of the figures and of the limits: Hive 4 `AcidMetricService` and `AcidMetricLogger` (the metrics of its
metastore, and the settings by which it warns of them), and the alerts that Cloudera documents for the same metrics
(Cloudera Management Console, built-in alerts: OldestInitiatedCompactionPassedThreshold and so on).
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.tables import TableRef
from acidlib.planning.initiate import ABORTED_TXN_KEY, ABORTED_TXN_TIME_KEY
from acidlib.planning.inputs import was_compact
from acidlib.planning.results import quarantine_reason, quarantining_request
from acidlib.wording import age_words, plural


class Level(enum.IntEnum):
    """How bad it is; the worst one counts."""

    OK = 0
    WARNING = 1
    ERROR = 2

    @property
    def label(self) -> str:
        """`ok`, `warning` or `error`."""
        return self.name.lower()


class FindingKind(enum.Enum):
    """A kind of finding; the value is its name in the JSON document and in metrics. It never changes."""

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


class FigureUnit(enum.Enum):
    """The unit of a figure and of its limit."""

    NUMBER = "number"
    RATIO = "ratio"
    SHARE = "share"
    SECONDS = "seconds"

    def words(self, value: float) -> str:
        """Return a figure as a sentence has it."""
        match self:
            case FigureUnit.SECONDS:
                return age_words(value)
            case FigureUnit.SHARE:
                return f"{value:.1%}"
            case FigureUnit.RATIO:
                return f"{value:,.1f}".removesuffix(".0")
        return f"{value:,.0f}"


Limits = Mapping[str, float]
"""The values of the settings in `LIMITS`, by key, durations in seconds; one that is missing is no limit."""


@dataclass(frozen=True, slots=True)
class Limit:
    """From where on a figure is a warning, and from where on an error: more than what the settings say; 0 is never.

    message         what a finding says, of `{what}`, the `{figure}` and the `{limit}` that it passed
    warning, error  keys of the settings; None where there is no such level
    at_least        the limit itself counts as passed
    """

    message: str
    warning: str | None
    error: str | None = None
    unit: FigureUnit = FigureUnit.NUMBER
    at_least: bool = False

    def passed(self, limits: Limits, figure: float) -> tuple[Level, str] | None:
        """Return how bad a figure is, and by which setting; None where it passes no limit."""
        for level, key in ((Level.ERROR, self.error), (Level.WARNING, self.warning)):
            limit = limits.get(key or "", 0)
            if key is not None and limit > 0 and (figure > limit or (self.at_least and figure == limit)):
                return level, key
        return None


_UNCLEANED = "metastore.compactor.oldest.uncleaned.compaction.time.threshold"

LIMITS = {
    FindingKind.INITIATED_LONG: Limit(
        "{what} waits to be begun since {figure}, more than {limit}",
        "metastore.compactor.oldest.initiated.compaction.time.threshold.warning",
        "metastore.compactor.oldest.initiated.compaction.time.threshold.error",
        FigureUnit.SECONDS,
    ),
    FindingKind.WORKING_LONG: Limit(
        "{what} is worked on since {figure}, more than {limit}",
        "acidlib.status.working.threshold",
        "hive.compactor.worker.timeout",
        FigureUnit.SECONDS,
    ),
    FindingKind.READY_LONG: Limit(
        "{what} awaits cleaning since {figure}, more than {limit}", _UNCLEANED, None, FigureUnit.SECONDS
    ),
    FindingKind.HELD_BACK: Limit(
        "the last {figure} compactions failed, so it is no longer queued automatically{what}",
        None,
        "metastore.compactor.initiator.failed.compacts.threshold",
        at_least=True,
    ),
    FindingKind.REFUSED: Limit("{what}", "acidlib.status.refused.threshold", at_least=True),
    FindingKind.FAILURE_RATIO: Limit(
        "at {what} the last compaction failed or was not initiated, {figure}, more than {limit}",
        "metastore.compactor.failed.compaction.ratio.threshold",
        None,
        FigureUnit.SHARE,
    ),
    FindingKind.OPEN_LONG: Limit(
        "{what} is open since {figure}, more than {limit}",
        "metastore.compactor.oldest.open.txn.threshold.warning",
        "metastore.compactor.oldest.open.txn.threshold.error",
        FigureUnit.SECONDS,
    ),
    FindingKind.ABORTED_LONG: Limit(
        "{what} is aborted and remembered since {figure}, more than {limit}",
        "metastore.compactor.oldest.uncleaned.aborted.txn.time.threshold.warning",
        "metastore.compactor.oldest.uncleaned.aborted.txn.time.threshold.error",
        FigureUnit.SECONDS,
    ),
    FindingKind.ABORTED_LEFT: Limit("{what}", ABORTED_TXN_KEY),
    FindingKind.ABORTED_IN_TABLE: Limit(
        "{figure} of its write ids are aborted, more than {limit}", "metastore.acidmetrics.table.aborted.txns.threshold"
    ),
    FindingKind.ABORTED_IN_TABLES: Limit(
        "{what}", None, "metastore.compactor.tables.with.aborted.txn.threshold", at_least=True
    ),
    FindingKind.BLOCKED_BY_TXN: Limit("{what}, there since {figure}", _UNCLEANED, None, FigureUnit.SECONDS),
    FindingKind.BLOCKED_BY_LOCK: Limit("{what}, there since {figure}", _UNCLEANED, None, FigureUnit.SECONDS),
    FindingKind.MANY_DELTAS: Limit(
        "{figure} deltas are to be merged by every reader, more than {limit}",
        "hive.compactor.active.delta.dir.threshold",
    ),
    FindingKind.MANY_OBSOLETE: Limit(
        "{figure} directories are obsolete, more than {limit}", "hive.compactor.obsolete.delta.dir.threshold"
    ),
    FindingKind.MANY_SMALL: Limit(
        "{figure} deltas are small, more than {limit}", "hive.compactor.small.delta.dir.threshold"
    ),
    FindingKind.MUCH_TO_CLEAN: Limit(
        "{figure} bytes wait for cleaning, more than {limit}", "acidlib.status.obsolete.bytes.threshold"
    ),
    FindingKind.HEAVY_DELTAS: Limit(
        "its deltas have {figure} times the bytes of its base, more than {limit}",
        "acidlib.status.delta.ratio.threshold",
        None,
        FigureUnit.RATIO,
    ),
}
"""The limit that makes a finding of a kind."""
OLDEST_ROLLED_BACK = Limit("{what}", ABORTED_TXN_TIME_KEY, None, FigureUnit.SECONDS)
"""The other limit of `FindingKind.ABORTED_LEFT`."""

CLOCK_SECONDS = 300.0
"""Seconds by which the clocks of two machines may differ without a finding."""
_WORST = 5
_QUEUED = (State.INITIATED, State.WORKING, State.READY_FOR_CLEANING)
_ENDED_BADLY = (State.FAILED, State.ATTEMPTED)
_DONE = (State.SUCCEEDED, State.READY_FOR_CLEANING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong: how bad it is, what it is about (nothing: everything), and one line that says all.

    setting  which limit was passed; None where no setting says so
    """

    level: Level
    kind: FindingKind
    reason: str
    ref: TableRef | None = None
    location: str | None = None
    setting: str | None = None


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
    problem: tuple[FindingKind, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSnapshot:
    """Everything that one look saw, at `now_ms`.

    requests      of the queue and the history
    hosts         that queued requests, `versions` of who worked on them, where a metastore tells them
    gone          the requests that are worked on by a run that is known to have ended
    transactions  open and aborted, `blockers` what they keep from being cleaned; both None without a metastore
    txn_timeout   seconds without a sign of life after which the metastore ends a transaction; None where not known
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
    txn_timeout: float | None = None
    blockers: tuple[CleaningBlocker, ...] | None = None
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
class TableFigures:
    """Figures of one table; without `ref` of all tables.

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
    """State of all tables: what is wrong, worst first, figures, the oldest transactions, and what blocks cleaning."""

    findings: tuple[Finding, ...]
    totals: TableFigures
    tables: tuple[TableFigures, ...]
    oldest_open: Transaction | None = None
    oldest_aborted: Transaction | None = None
    open_count: int | None = None
    aborted_count: int | None = None
    blockers: tuple[CleaningBlocker, ...] | None = None


def status_of(seen: StatusSnapshot, limits: Limits) -> Status:
    """Return every finding, worst first, then by name; figures of all and of each table, the worst table first."""
    # the requests of each place, newest first; ids of two queues say nothing of each other
    by_place: dict[object, list[CompactionRequest]] = {}
    for row in sorted(seen.requests, key=lambda row: row.id, reverse=True):
        place = (row.facts.location, row.ref) if seen.by_location else (row.facts.metastore, row.ref)
        by_place.setdefault(place, []).append(row)
    histories = list(by_place.values())
    found = [*seen.found, *_about_requests(seen, limits)]
    for history in histories:
        found += _about_history(history, limits)
    found += _about_failures_and_hosts(seen, histories, limits)
    found += _about_transactions(seen, limits)
    for listed in seen.places or ():
        found += _about_place(listed, limits)
    findings = sorted(found, key=lambda one: (-one.level, "" if one.ref is None else str(one.ref), one.kind.value))
    txns = seen.transactions
    opened = [one for one in txns or () if one.is_open]
    aborted = [one for one in txns or () if not one.is_open]
    return Status(
        findings=tuple(findings),
        totals=replace(
            _figures(seen, histories, findings, seen.requests, seen.places),
            places=seen.known_places,
            blockers=len(seen.blockers or ()),
            aborted_write_ids=sum(seen.aborted.values()) if _knows_write_ids(seen) else None,
        ),
        tables=tuple(sorted(_tables(seen, histories, findings), key=lambda one: (-one.level, -one.findings, one.ref))),
        oldest_open=max(opened, key=lambda one: one.age or 0, default=None),
        oldest_aborted=max(aborted, key=lambda one: one.age or 0, default=None),
        open_count=None if txns is None else len(opened),
        aborted_count=None if txns is None else len(aborted),
        blockers=seen.blockers,
    )


Place = tuple[TableRef | None, str | None]
"""Names and location of what a finding is about; both None: of everything."""
_EVERYTHING: Place = (None, None)


def _finding(
    kind: FindingKind,
    reason: str,
    where: Place = _EVERYTHING,
    level: Level = Level.WARNING,
    setting: str | None = None,
) -> Finding:
    return Finding(level=level, kind=kind, reason=reason, ref=where[0], location=where[1], setting=setting)


def _over(
    limits: Limits, kind: FindingKind, figure: float | None, where: Place = _EVERYTHING, what: str = ""
) -> Iterator[Finding]:
    """Yield the finding of a figure that passes its limit; one that is not known passes none."""
    limit = LIMITS[kind]
    passed = None if figure is None else limit.passed(limits, figure)
    if figure is not None and passed is not None:
        level, key = passed
        words = {"what": what, "figure": limit.unit.words(figure), "limit": limit.unit.words(limits[key])}
        yield _finding(kind, limit.message.format(**words), where, level, key)


def _where(request: CompactionRequest) -> Place:
    location = request.facts.location
    return request.ref, None if location is None else str(location)


def age_of(request: CompactionRequest, now_ms: int) -> float | None:
    """Return for how many seconds a request has been in its state; None where that is not known.

    Source: Hive 4 `AcidMetricService`: since it was queued, begun, or committed.
    """
    since = {
        State.INITIATED: request.enqueue_ms,
        State.WORKING: request.start_ms,
        State.READY_FOR_CLEANING: request.commit_ms or request.end_ms or request.start_ms,
    }.get(request.state, request.end_ms)
    return None if since is None else (now_ms - since) / 1000


def _about_requests(seen: StatusSnapshot, limits: Limits) -> Iterator[Finding]:
    """Yield findings about the requests of the queue, each for itself. An age that is not known is never long."""
    for one in seen.requests:
        where, age = _where(one), age_of(one, seen.now_ms)
        what = f"request {one.id} ({one.type.label.lower()})"
        if one.facts.problems:
            reason = f"{what} {'; '.join(one.facts.problems.values())}"
            yield _finding(FindingKind.NOT_UNDERSTOOD, reason, where, Level.ERROR)
        match one.state:
            case State.INITIATED:
                yield from _over(limits, FindingKind.INITIATED_LONG, age, where, what)
            case State.WORKING:
                yield from _over(limits, FindingKind.WORKING_LONG, age, where, what)
                if not one.worker_id:
                    yield _finding(FindingKind.WORKER_UNKNOWN, f"{what} is worked on by nobody who is known", where)
                elif one.id in seen.gone:
                    reason = f"{what} was worked on by {one.worker_id}, which has ended; the next run gives it back"
                    yield _finding(FindingKind.WORKER_GONE, reason, where)
            case State.READY_FOR_CLEANING:
                yield from _over(limits, FindingKind.READY_LONG, age, where, what)
                tells_commit = one.type is not CompactionType.REBALANCE
                if one.txn_id is not None and one.commit_ms is None and tells_commit:
                    reason = f"{what} is ready for cleaning, and its transaction {one.txn_id} has not committed"
                    yield _finding(FindingKind.NOT_COMMITTED, reason, where)
                if one.retry_retention_ms or one.error_message:
                    yield _finding(FindingKind.CLEANING_RETRIED, f"{what} could not be cleaned{_why(one)}", where)
            case _:
                continue
        is_in_state = f"{what} is {one.state.label}"
        if one.type is CompactionType.ABORT_TXN_CLEANUP:
            yield _finding(FindingKind.OTHERS_WORK, f"{is_in_state}, and is left to Hive's own compactor", where)
        if age is None and (seen.tells_queued or one.state is not State.INITIATED):
            yield _finding(FindingKind.AGE_UNKNOWN, f"{is_in_state}, nobody knows since when", where)
        elif age is not None and age < -CLOCK_SECONDS:
            reason = f"{is_in_state} since {age_words(-age)} from now: the clocks of two machines differ"
            yield _finding(FindingKind.FROM_THE_FUTURE, reason, where)


def _why(request: CompactionRequest) -> str:
    return f": {request.error_message}" if request.error_message else ""


def _about_history(newest: Sequence[CompactionRequest], limits: Limits) -> Iterator[Finding]:
    """Yield findings about all requests of one place, newest first: how the last ones ended, and whether two wait."""
    held = quarantining_request(
        row for row in newest if row.state is not State.WORKING
    )  # that may be verified just now
    if held is not None:
        yield _finding(FindingKind.UNVERIFIED, quarantine_reason(held), _where(held), Level.ERROR)
    waiting = [row for row in newest if row.state in (State.INITIATED, State.WORKING)]
    if len(waiting) > 1:
        ids = ", ".join(str(row.id) for row in reversed(waiting))
        yield _finding(FindingKind.TWICE, f"requests {ids} are for the same place", _where(waiting[0]))
    last = next((row for row in newest if row.state not in (State.INITIATED, State.WORKING)), None)
    if last is None:
        return
    where, why = _where(last), _why(last)
    failed = 0 if held is not None else count_in_a_row(newest, State.FAILED)
    if failed:
        held_back = list(_over(limits, FindingKind.HELD_BACK, failed, where, why))
        yield from held_back or [_finding(FindingKind.FAILED, f"request {last.id} failed{why}", where)]
    elif last.state is State.ATTEMPTED:
        yield _finding(FindingKind.NOT_INITIATED, f"request {last.id} was not initiated{why}", where)
    elif last.state is State.ABORTED:
        yield _finding(FindingKind.ABORTED_BY_HAND, f"request {last.id} was aborted by hand", where)
    refused = count_in_a_row(newest, State.REFUSED)
    what = f"the last {plural(refused, 'request was', 'requests were')} refused{why}"
    yield from _over(limits, FindingKind.REFUSED, refused, where, what)


def count_in_a_row(newest: Sequence[CompactionRequest], state: State) -> int:
    """Return how many requests of one place, given newest first, have ended last in this state, one after the other.

    Those that still wait or are worked on do not count; a refusal says nothing of a failure, nor the other way round.
    A place that was found to be compact already was well then, whatever was before.
    """
    counted = 0
    for one in newest:
        if was_compact(one):
            break
        if one.state is state:
            counted += 1
        elif one.state in (*_DONE, *_ENDED_BADLY, State.REFUSED, State.ABORTED):
            break
    return counted


def _about_failures_and_hosts(
    seen: StatusSnapshot, histories: Sequence[Sequence[CompactionRequest]], limits: Limits
) -> Iterator[Finding]:
    """Yield findings about how the last compaction of each place ended, and about which machines queue and work.

    Hive 4 `AcidMetricService` counts failures so, too; Cloudera warns of more than one host that initiates, and of
    several versions.
    """
    ended = [rows[0].state for rows in histories if rows[0].state in (*_ENDED_BADLY, State.SUCCEEDED)]
    if ended:
        bad = sum(state in _ENDED_BADLY for state in ended)
        what = f"{bad:,} of {plural(len(ended), 'place')}"
        yield from _over(limits, FindingKind.FAILURE_RATIO, bad / len(ended), what=what)
    for kind, found, what in (
        (FindingKind.SEVERAL_INITIATORS, sorted(set(seen.hosts)), "hosts queue compactions"),
        (FindingKind.SEVERAL_VERSIONS, sorted(set(seen.versions)), "versions work on the queue"),
    ):
        if len(found) > 1:
            yield _finding(kind, f"{len(found)} {what}: {', '.join(found)}")


def _about_transactions(seen: StatusSnapshot, limits: Limits) -> Iterator[Finding]:
    """Yield findings about transactions that are too old, that no cleaner sees to, or that keep requests waiting."""
    for one in seen.transactions or ():
        what = f"transaction {one.id} of {one.user} at {one.host}"
        kind = FindingKind.OPEN_LONG if one.is_open else FindingKind.ABORTED_LONG
        too_old = list(_over(limits, kind, one.age, what=what))
        yield from too_old
        silence = one.silent or 0
        if one.is_open and not too_old and seen.txn_timeout and silence > 2 * seen.txn_timeout:
            reason = f"{what} is open, and gave no sign of life since {age_words(silence)}"
            yield _finding(FindingKind.OPEN_SILENT, reason)

    rolled_back = [one for one in seen.transactions or () if not one.is_open]
    oldest = max((one.age or 0 for one in rolled_back), default=0)
    passed = LIMITS[FindingKind.ABORTED_LEFT].passed(limits, len(rolled_back))
    passed = passed or OLDEST_ROLLED_BACK.passed(limits, oldest)
    if seen.uncleaned is not None and passed is not None:
        tables = [count for count in seen.aborted.values() if count]
        wrote = f", with {plural(sum(tables), 'write id')} in {plural(len(tables), 'table')}" if tables else ""
        wait = plural(len(rolled_back), "rolled back transaction waits", "rolled back transactions wait")
        reason = f"{wait} to be cleaned after{wrote}, the oldest begun {age_words(oldest)} ago: {seen.uncleaned}"
        yield _finding(FindingKind.ABORTED_LEFT, reason, setting=passed[1])

    counts = sorted(seen.aborted.items())
    many = [one for ref, n in counts for one in _over(limits, FindingKind.ABORTED_IN_TABLE, n, (ref, None))]
    yield from many
    if many:
        most = FigureUnit.NUMBER.words(limits[many[0].setting or ""])
        what = f"{plural(len(many), 'table has', 'tables have')} more than {most} aborted write ids"
        yield from _over(limits, FindingKind.ABORTED_IN_TABLES, len(many), what=what)

    for blocker in seen.blockers or ():
        kind = FindingKind.BLOCKED_BY_LOCK if blocker.kind == "lock" else FindingKind.BLOCKED_BY_TXN
        what = f"{blocker.kind} {blocker.id} of {blocker.user} at {blocker.host}"
        what = f"request {blocker.request_id} waits for {what}"
        yield from _over(limits, kind, blocker.age, (blocker.ref, None), what)


def _about_place(place: PlaceFigures, limits: Limits) -> Iterator[Finding]:
    """Yield findings about what a listing shows of one place, and what dead runs left there."""
    where, idle = (place.ref, place.location), place.idle or 0
    if place.problem is not None:
        kind, reason = place.problem
        level = Level.WARNING if kind in (FindingKind.CHANGING, FindingKind.NOT_JUDGED) else Level.ERROR
        yield _finding(kind, reason, where, level)
    for kind, figure in (
        (FindingKind.MANY_DELTAS, place.deltas),
        (FindingKind.MANY_OBSOLETE, place.obsolete),
        (FindingKind.MANY_SMALL, place.small_deltas),
        (FindingKind.MUCH_TO_CLEAN, place.obsolete_bytes),
        (FindingKind.HEAVY_DELTAS, place.ratio),
    ):
        yield from _over(limits, kind, figure, where)
    # a cleaning that waits for so long, and an initiator that has not queued it for so long, are late here, too
    if place.aborted and LIMITS[FindingKind.READY_LONG].passed(limits, idle):
        held = plural(place.aborted, "directory holds", "directories hold")
        yield _finding(FindingKind.ABORTED_ON_DISK, f"{held} nothing but rows of aborted transactions", where)
    if place.due and place.switched_off:
        yield _finding(FindingKind.SWITCHED_OFF, f"{place.switched_off}, and {place.due}", where)
    elif place.due and place.refused:
        yield _finding(FindingKind.NOT_COMPACTABLE, f"{place.refused}; it is due, as {place.due}", where)
    elif place.due and LIMITS[FindingKind.INITIATED_LONG].passed(limits, idle):
        yield _finding(FindingKind.DUE, f"no request for it waits, and {place.due}", where)
    if place.obsolete and place.cleaning_forbidden:
        reason = f"{place.cleaning_forbidden}, and {plural(place.obsolete, 'directory is', 'directories are')} obsolete"
        yield _finding(FindingKind.CLEANING_FORBIDDEN, reason, where)
    if place.unfinished:
        reason = "a publication there was begun and not finished; the next run at the place finishes it"
        yield _finding(FindingKind.UNFINISHED, reason, where, Level.ERROR)
    elif place.staging:
        reason = f"{place.staging[0]} is staged there by a run that does not hold the place any more"
        yield _finding(FindingKind.STAGING_LEFT, reason, where)
    if place.claim_left_by is not None:
        reason = f"it is claimed by {place.claim_left_by}, which has ended or gives no sign of life"
        yield _finding(FindingKind.CLAIM_LEFT, reason, where)
    if place.removed:
        reason = f"{place.removed[0]} was taken out of sight by a cleaner that has ended; the next one removes it"
        yield _finding(FindingKind.REMOVAL_LEFT, reason, where)


def _tables(
    seen: StatusSnapshot, histories: Sequence[Sequence[CompactionRequest]], findings: Sequence[Finding]
) -> Iterator[TableFigures]:
    requests = _by_table(seen.requests, lambda row: row.ref)
    of_history = _by_table(histories, lambda rows: rows[0].ref)
    places = _by_table(seen.places or (), lambda place: place.ref)
    wrong = _by_table(findings, lambda one: one.ref)
    blockers = _by_table(seen.blockers or (), lambda one: one.ref)
    for table in sorted({*requests, *places, *wrong, *(ref for ref, count in seen.aborted.items() if count)}):
        figures = _figures(
            seen,
            of_history.get(table, []),
            wrong.get(table, []),
            requests.get(table, []),
            None if seen.places is None else places.get(table, []),
        )
        aborted = seen.aborted.get(table, 0) if _knows_write_ids(seen) else None
        yield replace(figures, ref=table, aborted_write_ids=aborted, blockers=len(blockers.get(table, ())))


Item = TypeVar("Item")


def _by_table(items: Iterable[Item], about: Callable[[Item], TableRef | None]) -> dict[TableRef, list[Item]]:
    found: dict[TableRef, list[Item]] = {}
    for item in items:
        ref = about(item)
        if ref is not None:
            found.setdefault(ref.whole_table, []).append(item)
    return found


def _knows_write_ids(seen: StatusSnapshot) -> bool:
    """Return whether tables were asked for, and a metastore that remembers what was aborted."""
    return seen.transactions is not None and seen.places is not None


def _figures(
    seen: StatusSnapshot,
    histories: Sequence[Sequence[CompactionRequest]],
    findings: Sequence[Finding],
    requests: Sequence[CompactionRequest],
    places: Sequence[PlaceFigures] | None,
) -> TableFigures:
    failed, failed_name = _longest(histories, State.FAILED)
    refused, refused_name = _longest(histories, State.REFUSED)
    looked = None if places is None else [place for place in places if place.problem is None]
    by_state = {}
    for state in State:
        rows = [row for row in requests if row.state is state]
        ages = [(age, str(row.ref)) for row in rows if (age := age_of(row, seen.now_ms)) is not None]
        oldest, name = max(ages) if ages and state in _QUEUED else (None, None)
        by_state[state] = InState(count=len(rows), oldest=oldest, name=name)
    return TableFigures(
        level=max((one.level for one in findings), default=Level.OK),
        findings=len(findings),
        requests=by_state,
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


def _longest(histories: Iterable[Sequence[CompactionRequest]], state: State) -> tuple[int, str | None]:
    rows = [(count_in_a_row(history, state), str(history[0].ref)) for history in histories]
    longest, name = max(rows, default=(0, None))
    return longest, name if longest else None


def _worst(places: Iterable[PlaceFigures] | None, figure: Callable[[PlaceFigures], float]) -> tuple[PlaceFigures, ...]:
    """Return the first few by a figure, of those that have any of it."""
    return tuple(heapq.nlargest(_WORST, (place for place in places or () if figure(place)), key=figure))
