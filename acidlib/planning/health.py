"""The status of all tables: what a look at them saw, the findings that follow, and the figures of each table.

Source of the figures and of the limits: Hive 4 `AcidMetricService` and `AcidMetricLogger` (the metrics of its
metastore, and the settings by which it warns of them), and the alerts that Cloudera documents for the same metrics
(Cloudera Management Console, built-in alerts: OldestInitiatedCompactionPassedThreshold and so on).
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from acidlib.acid.names import OWN_QUEUE, Calls, Generation
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.status import (
    CleaningBlocker,
    Finding,
    FindingKind,
    Level,
    PlaceFigures,
    StateFigures,
    StatusDocument,
    TableFigures,
    Transaction,
    Transactions,
)
from acidlib.model.tables import TableRef
from acidlib.planning.initiate import ABORTED_TXN_KEY, ABORTED_TXN_TIME_KEY
from acidlib.planning.inputs import was_compact
from acidlib.planning.results import counts_as_attempt, quarantine_reason, quarantining_request
from acidlib.wording import age_words, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTransaction:
    """A transaction as a metastore tells it.

    silent  seconds since its last heartbeat; None if unknown
    """

    shown: Transaction
    is_open: bool
    silent: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFigures:
    """What is known of one listed place beside its figures.

    aborted          directories of nothing but aborted transactions, counted in `obsolete` as well
    idle             seconds since the newest file was written; None without a file
    due              why the initiator's thresholds call for a compaction; None if they do not
    refused          why a worker would refuse that compaction; None if it would not
    switched_off     why the place is not compacted automatically; None if it is
    cleaning_forbidden  why nothing may be removed; None if it may
    unfinished       number of publications that a run has begun and not finished
    claim_left_by    owner of a claim whose run counts as dead
    staging, removed  names of directories that dead runs may have left behind
    not_obeyed       why a claim or staging directory at the place counts for nothing
    problem          why the place could not be listed or judged, as a kind and a sentence
    """

    figures: PlaceFigures
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
    not_obeyed: str | None = None
    problem: tuple[FindingKind, str] | None = None

    @property
    def ref(self) -> TableRef:
        """The table or partition."""
        return self.figures.ref


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSnapshot:
    """Everything that one look saw, at `now_ms`.

    requests      the queue and its history
    hosts         hosts that queued requests; `versions` of the workers, where a metastore tells them
    gone          ids of requests whose run is known to have ended
    transactions  open and aborted ones, and `blockers`, those that keep requests from being cleaned; None without a
                  metastore
    txn_timeout   seconds without a heartbeat after which the metastore aborts a transaction; None if unknown
    aborted       number of aborted write ids by table
    uncleaned     why no cleaner sees to rolled back transactions; None where one does
    places        the listed ones of `known_places` places; both None where nothing was to be listed
    findings      findings of the look itself
    by_location   places are distinguished by their locations, not by their names
    calls         whose queue it is: HIVE3 for Hive 3.1's own queue, which has no time at which a request was queued
    """

    now_ms: int
    requests: tuple[CompactionRequest, ...] = ()
    versions: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    gone: frozenset[int] = frozenset()
    transactions: tuple[KnownTransaction, ...] | None = None
    txn_timeout: float | None = None
    blockers: tuple[CleaningBlocker, ...] | None = None
    aborted: Mapping[TableRef, int] = field(default_factory=dict)
    uncleaned: str | None = None
    places: tuple[ListedFigures, ...] | None = None
    known_places: int | None = None
    findings: tuple[Finding, ...] = ()
    by_location: bool = False
    calls: Calls = OWN_QUEUE


class FigureUnit(enum.Enum):
    """The unit of a figure and of its limit."""

    NUMBER = "number"
    RATIO = "ratio"
    SHARE = "share"
    SECONDS = "seconds"

    def words(self, value: float) -> str:
        """Return a figure as it stands in a sentence."""
        match self:
            case FigureUnit.SECONDS:
                return age_words(value)
            case FigureUnit.SHARE:
                return f"{value:.1%}"
            case FigureUnit.RATIO:
                return f"{value:,.1f}".removesuffix(".0")
        return f"{value:,.0f}"


Limits = Mapping[str, float]
"""Values of the settings in `LIMITS` by key, durations in seconds; 0, or a missing key, is no limit."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on a figure: a warning, or an error, where the figure is above the value of a setting.

    message         reason of the finding, with `{subject}`, the `{figure}` and the `{limit}` that it passes
    warning, error  keys of the settings; None where there is no such level
    at_least        a figure equal to the limit passes it, too
    of_place        the figure of a place; None for figures of something else
    """

    message: str
    warning: str | None
    error: str | None = None
    unit: FigureUnit = FigureUnit.NUMBER
    at_least: bool = False
    of_place: Callable[[PlaceFigures], float | None] | None = None

    def passed(self, limits: Limits, figure: float) -> tuple[Level, str] | None:
        """Return the level of a figure, and the key of the limit that it passes; None where it passes none."""
        for level, key in ((Level.ERROR, self.error), (Level.WARNING, self.warning)):
            limit = limits.get(key or "", 0)
            if key is not None and limit > 0 and (figure > limit or (self.at_least and figure == limit)):
                return level, key
        return None


_UNCLEANED = "metastore.compactor.oldest.uncleaned.compaction.time.threshold"

LIMITS = {
    FindingKind.INITIATED_LONG: Limit(
        "{subject} has been waiting for {figure} to be started, more than {limit}",
        "metastore.compactor.oldest.initiated.compaction.time.threshold.warning",
        "metastore.compactor.oldest.initiated.compaction.time.threshold.error",
        FigureUnit.SECONDS,
    ),
    FindingKind.WORKING_LONG: Limit(
        "{subject} has been running for {figure}, more than {limit}",
        "acidlib.status.working.threshold",
        "hive.compactor.worker.timeout",
        FigureUnit.SECONDS,
    ),
    FindingKind.READY_LONG: Limit(
        "{subject} has been waiting for {figure} to be cleaned, more than {limit}",
        _UNCLEANED,
        unit=FigureUnit.SECONDS,
    ),
    FindingKind.HELD_BACK: Limit(
        "the last {figure} compactions failed, so the place is no longer queued automatically{subject}",
        None,
        "metastore.compactor.initiator.failed.compacts.threshold",
        at_least=True,
    ),
    FindingKind.REFUSED: Limit("{subject}", "acidlib.status.refused.threshold", at_least=True),
    FindingKind.FAILURE_RATIO: Limit(
        "the last compaction of {subject} failed or was not initiated: {figure}, more than {limit}",
        "metastore.compactor.failed.compaction.ratio.threshold",
        unit=FigureUnit.SHARE,
    ),
    FindingKind.OPEN_LONG: Limit(
        "{subject} has been open for {figure}, more than {limit}",
        "metastore.compactor.oldest.open.txn.threshold.warning",
        "metastore.compactor.oldest.open.txn.threshold.error",
        FigureUnit.SECONDS,
    ),
    FindingKind.ABORTED_LONG: Limit(
        "{subject} was begun {figure} ago, more than {limit}, and the metastore still remembers it as aborted",
        "metastore.compactor.oldest.uncleaned.aborted.txn.time.threshold.warning",
        "metastore.compactor.oldest.uncleaned.aborted.txn.time.threshold.error",
        FigureUnit.SECONDS,
    ),
    FindingKind.ABORTED_LEFT: Limit("{subject}", ABORTED_TXN_KEY),
    FindingKind.ABORTED_IN_TABLE: Limit(
        "{figure} of its write ids are aborted, more than {limit}", "metastore.acidmetrics.table.aborted.txns.threshold"
    ),
    FindingKind.ABORTED_IN_TABLES: Limit(
        "{subject}", None, "metastore.compactor.tables.with.aborted.txn.threshold", at_least=True
    ),
    FindingKind.BLOCKED_BY_TXN: Limit("{subject}, {figure} old", _UNCLEANED, unit=FigureUnit.SECONDS),
    FindingKind.BLOCKED_BY_LOCK: Limit("{subject}, {figure} old", _UNCLEANED, unit=FigureUnit.SECONDS),
    FindingKind.MANY_DELTAS: Limit(
        "{figure} deltas have to be merged by readers, more than {limit}",
        "hive.compactor.active.delta.dir.threshold",
        of_place=lambda place: place.deltas,
    ),
    FindingKind.MANY_OBSOLETE: Limit(
        "{figure} directories are obsolete, more than {limit}",
        "hive.compactor.obsolete.delta.dir.threshold",
        of_place=lambda place: place.obsolete,
    ),
    FindingKind.MANY_SMALL: Limit(
        "{figure} deltas are small, more than {limit}",
        "hive.compactor.small.delta.dir.threshold",
        of_place=lambda place: place.small_deltas,
    ),
    FindingKind.MUCH_TO_CLEAN: Limit(
        "{figure} bytes wait for cleaning, more than {limit}",
        "acidlib.status.obsolete.bytes.threshold",
        of_place=lambda place: place.obsolete_bytes,
    ),
    FindingKind.HEAVY_DELTAS: Limit(
        "its deltas have {figure} times the bytes of its base, more than {limit}",
        "acidlib.status.delta.ratio.threshold",
        unit=FigureUnit.RATIO,
        of_place=lambda place: place.ratio,
    ),
}
"""The limit of each kind of finding that has one."""
OLDEST_ROLLED_BACK = Limit("{subject}", ABORTED_TXN_TIME_KEY, unit=FigureUnit.SECONDS)
"""The second limit of `FindingKind.ABORTED_LEFT`: the age of the oldest transaction."""

CLOCK_SECONDS = 300.0
"""Seconds by which the clocks of two machines may differ without a finding."""
_WORST = 5
_AGE_KINDS = {
    State.INITIATED: FindingKind.INITIATED_LONG,
    State.WORKING: FindingKind.WORKING_LONG,
    State.READY_FOR_CLEANING: FindingKind.READY_LONG,
}
"""The states of the queue, each with the finding of a request that stays in it for too long."""
_ENDED_BADLY = (State.FAILED, State.ATTEMPTED)
_DONE = (State.SUCCEEDED, State.READY_FOR_CLEANING)


def status_document(seen: StatusSnapshot, limits: Limits) -> StatusDocument:
    """Return every finding, worst first, then by name; figures of all and of each table, the worst table first."""
    findings = [*seen.findings]
    for request in seen.requests:
        findings += _about(request, _request_findings(request, seen, limits))
    histories = _histories(seen)
    for history in histories:
        findings += _history_findings(history, limits, seen.calls)
    findings += _queue_findings(seen, histories, limits)
    findings += _transaction_findings(seen, limits)
    for place in seen.places or ():
        judged = _place_findings(place, limits)
        names = place.ref._asdict()
        findings += (replace(finding, **names, location=place.figures.location) for finding in judged)
    findings.sort(key=lambda finding: (-finding.level.rank, str(finding.ref), finding.trouble))
    tables = sorted(
        _tables(seen, findings),
        key=lambda table: (-table.level.rank, -table.findings, table.database or "", table.table or ""),
    )
    txns = seen.transactions
    totals = _figures(seen, findings)
    return StatusDocument(
        level=totals.level,
        findings=tuple(findings),
        totals=totals,
        tables=tuple(tables),
        transactions=None if txns is None else _transactions(txns),
        blockers=seen.blockers,
    )


def _transactions(txns: Sequence[KnownTransaction]) -> Transactions:
    opened = [txn.shown for txn in txns if txn.is_open]
    aborted = [txn.shown for txn in txns if not txn.is_open]
    return Transactions(
        open=len(opened),
        aborted=len(aborted),
        oldest_open=max(opened, key=lambda txn: txn.age or 0, default=None),
        oldest_aborted=max(aborted, key=lambda txn: txn.age or 0, default=None),
    )


def _found(trouble: FindingKind, reason: str, level: Level = Level.WARNING, *, setting: str | None = None) -> Finding:
    return Finding(trouble=trouble, reason=reason, level=level, setting=setting)


def age_of(request: CompactionRequest, now_ms: int) -> float | None:
    """Return the seconds for which a request has been in its state; None if unknown.

    Source: Hive 4 `AcidMetricService`: since it was queued, started, or committed.
    """
    since = {
        State.INITIATED: request.enqueue_ms,
        State.WORKING: request.start_ms,
        State.READY_FOR_CLEANING: request.commit_ms or request.end_ms or request.start_ms,
    }.get(request.state, request.end_ms)
    return None if since is None else (now_ms - since) / 1000


def _about(request: CompactionRequest, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings with the names and the location of a request's place."""
    location = None if request.facts.location is None else str(request.facts.location)
    return (replace(finding, **request.ref._asdict(), location=location) for finding in findings)


def _above_limit(limits: Limits, kind: FindingKind, figure: float | None, subject: str = "") -> Iterator[Finding]:
    """Yield the finding of a figure that passes its limit; an unknown figure passes none."""
    limit = LIMITS[kind]
    passed = None if figure is None else limit.passed(limits, figure)
    if figure is not None and passed is not None:
        level, key = passed
        words = {"subject": subject, "figure": limit.unit.words(figure), "limit": limit.unit.words(limits[key])}
        yield _found(kind, limit.message.format(**words), level, setting=key)


def _request_findings(request: CompactionRequest, seen: StatusSnapshot, limits: Limits) -> Iterator[Finding]:
    """Yield findings about one request of the queue by itself. A request of unknown age is never too old."""
    state, age = request.state, age_of(request, seen.now_ms)
    subject = f"request {request.id} ({request.type.label.lower()})"
    if request.facts.problems:
        reason = f"{subject} {'; '.join(request.facts.problems.values())}"
        yield _found(FindingKind.NOT_UNDERSTOOD, reason, Level.ERROR)
    if state not in _AGE_KINDS:
        return
    yield from _above_limit(limits, _AGE_KINDS[state], age, subject)
    if state is State.WORKING and not request.worker_id:
        yield _found(FindingKind.WORKER_UNKNOWN, f"{subject} is working, and names no worker")
    elif state is State.WORKING and request.id in seen.gone:
        reason = f"the run of {subject}, {request.worker_id}, has ended; the next run gives the request back"
        yield _found(FindingKind.WORKER_GONE, reason)
    if state is State.READY_FOR_CLEANING:
        commit_is_noted = request.type is not CompactionType.REBALANCE
        if request.txn_id is not None and request.commit_ms is None and commit_is_noted:
            reason = f"{subject} is ready for cleaning, and its transaction {request.txn_id} has not committed"
            yield _found(FindingKind.NOT_COMMITTED, reason)
        if request.retry_retention_ms or request.error_message:
            yield _found(FindingKind.CLEANING_RETRIED, f"{subject} could not be cleaned{_error_of(request)}")
    is_in_state = f"{subject} is {state.label}"
    if request.type is CompactionType.ABORT_TXN_CLEANUP:
        yield _found(FindingKind.OTHERS_WORK, f"{is_in_state}, and is left to Hive's own compactor")
    if age is None and (seen.calls is Generation.HIVE4 or state is not State.INITIATED):
        yield _found(FindingKind.AGE_UNKNOWN, f"{is_in_state}, and it is unknown since when")
    elif age is not None and age < -CLOCK_SECONDS:
        reason = f"{is_in_state} since {age_words(-age)} from now: the clocks of two machines differ"
        yield _found(FindingKind.FROM_THE_FUTURE, reason)


def _error_of(request: CompactionRequest) -> str:
    return f": {request.error_message}" if request.error_message else ""


def _histories(seen: StatusSnapshot) -> list[list[CompactionRequest]]:
    """Return the requests of each place, newest first. Ids of two queues cannot be compared with each other.

    One that the operator has undone is no failure, though the queue keeps it as one.
    """
    by_place: dict[object, list[CompactionRequest]] = {}
    kept = (request for request in seen.requests if request.facts.undone is None)
    for request in sorted(kept, key=lambda request: request.id, reverse=True):
        place = request.facts.location if seen.by_location else request.facts.metastore
        by_place.setdefault((place, request.ref), []).append(request)
    return list(by_place.values())


def _history_findings(newest: Sequence[CompactionRequest], limits: Limits, calls: Calls) -> Iterator[Finding]:
    """Yield findings about all requests of one place, newest first: how the last ones ended, and whether two wait."""
    # a result may be under verification while its request is working
    quarantining = quarantining_request(row for row in newest if row.state is not State.WORKING)
    if quarantining is not None:
        reason = quarantine_reason(quarantining)
        yield from _about(quarantining, [_found(FindingKind.UNVERIFIED, reason, Level.ERROR)])
    waiting = [row for row in newest if row.state in (State.INITIATED, State.WORKING)]
    if len(waiting) > 1:
        ids = ", ".join(str(row.id) for row in reversed(waiting))
        yield from _about(waiting[0], [_found(FindingKind.TWICE, f"requests {ids} are for the same place")])
    # a withdrawn request says nothing about its place: Hive's CompactionMetricData leaves it out, too
    kept = [row for row in newest if row.state is not State.ABORTED]
    last = next((row for row in kept if row.state not in (State.INITIATED, State.WORKING)), None)
    if last is None:
        return
    error, ended = _error_of(last), list[Finding]()
    failed = 0 if quarantining is not None else count_in_a_row(newest, State.FAILED, calls)
    if failed:  # a request that was not initiated may have followed
        newest_failed = next(row for row in newest if row.state is State.FAILED)
        ended += _above_limit(limits, FindingKind.HELD_BACK, failed, _error_of(newest_failed))
    has_failed_last = quarantining is None and count_in_a_row(kept, State.FAILED, calls) > 0
    if not ended and has_failed_last and last.state is State.FAILED:
        ended.append(_found(FindingKind.FAILED, f"request {last.id} failed{error}"))
    elif not ended and last.state is State.ATTEMPTED:
        ended.append(_found(FindingKind.NOT_INITIATED, f"request {last.id} was not initiated{error}"))
    refused = count_in_a_row(newest, State.REFUSED, calls)
    subject = f"the last {plural(refused, 'request was', 'requests were')} refused{error}"
    ended += _above_limit(limits, FindingKind.REFUSED, refused, subject)
    yield from _about(last, ended)


def count_in_a_row(newest: Sequence[CompactionRequest], state: State, calls: Calls) -> int:
    """Return how many requests of one place, given newest first, have ended last in this state, one after the other.

    Requests that wait or are working do not count, nor does a withdrawn one in a row of refusals. A row of failures
    is ended by what ends it for the rule that holds a place back (`counts_as_attempt`), and by a compaction that
    has only to be cleaned up after. A row of refusals is ended by any other request that has ended. A place that
    was found to be compact already ends both.
    """
    counted = 0
    for request in newest:
        if was_compact(request):
            break
        counted += request.state is state
        if request.state in (State.INITIATED, State.WORKING) or request.state is state:
            continue
        if state is State.REFUSED and request.state is State.ABORTED:
            continue
        if request.state in _DONE or state is not State.FAILED or counts_as_attempt(request.state, calls):
            break
    return counted


def _queue_findings(
    seen: StatusSnapshot, histories: Sequence[Sequence[CompactionRequest]], limits: Limits
) -> Iterator[Finding]:
    """Yield findings about the whole queue: the share of places that failed last, and the hosts that queue and work.

    Hive 4 `AcidMetricService` counts failures in the same way, and warns of a single one as well, as it names no place.
    Cloudera warns of more than one host that initiates, and of several versions.
    """
    ended = [rows[0].state for rows in histories if rows[0].state in (*_ENDED_BADLY, State.SUCCEEDED)]
    bad = sum(state in _ENDED_BADLY for state in ended)
    if bad > 1:  # the finding of a place says as much of a single one
        subject = f"{bad:,} of {plural(len(ended), 'place')}"
        yield from _above_limit(limits, FindingKind.FAILURE_RATIO, bad / len(ended), subject)
    for kind, names, activity in (
        (FindingKind.SEVERAL_INITIATORS, sorted(set(seen.hosts)), "hosts queue compactions"),
        (FindingKind.SEVERAL_VERSIONS, sorted(set(seen.versions)), "versions work on the queue"),
    ):
        if len(names) > 1:
            yield _found(kind, f"{len(names)} {activity}: {', '.join(names)}")


def _transaction_findings(seen: StatusSnapshot, limits: Limits) -> Iterator[Finding]:
    """Yield findings about transactions that are too old, that no cleaner sees to, or that keep requests waiting."""
    for txn in seen.transactions or ():
        subject = f"transaction {txn.shown.id} of {txn.shown.user} at {txn.shown.host}"
        kind = FindingKind.OPEN_LONG if txn.is_open else FindingKind.ABORTED_LONG
        too_old = list(_above_limit(limits, kind, txn.shown.age, subject))
        yield from too_old
        silence = txn.silent or 0
        if txn.is_open and not too_old and seen.txn_timeout and silence > 2 * seen.txn_timeout:
            reason = f"{subject} is open, and has given no sign of life for {age_words(silence)}"
            yield _found(FindingKind.OPEN_SILENT, reason)

    rolled_back = [txn for txn in seen.transactions or () if not txn.is_open]
    oldest = max((txn.shown.age or 0 for txn in rolled_back), default=0)
    passed = LIMITS[FindingKind.ABORTED_LEFT].passed(limits, len(rolled_back))
    passed = passed or OLDEST_ROLLED_BACK.passed(limits, oldest)
    if seen.uncleaned is not None and passed is not None:
        tables = [count for count in seen.aborted.values() if count]
        wrote = f", with {plural(sum(tables), 'write id')} in {plural(len(tables), 'table')}" if tables else ""
        wait = plural(len(rolled_back), "rolled back transaction waits", "rolled back transactions wait")
        reason = f"{wait} to be cleaned after{wrote}, the oldest begun {age_words(oldest)} ago: {seen.uncleaned}"
        yield _found(FindingKind.ABORTED_LEFT, reason, setting=passed[1])

    many = [
        replace(finding, **ref._asdict())
        for ref, count in sorted(seen.aborted.items())
        for finding in _above_limit(limits, FindingKind.ABORTED_IN_TABLE, count)
    ]
    yield from many
    if many:
        most = FigureUnit.NUMBER.words(limits[many[0].setting or ""])
        subject = f"{plural(len(many), 'table has', 'tables have')} more than {most} aborted write ids"
        yield from _above_limit(limits, FindingKind.ABORTED_IN_TABLES, len(many), subject)

    for blocker in seen.blockers or ():
        kind = FindingKind.BLOCKED_BY_LOCK if blocker.kind == "lock" else FindingKind.BLOCKED_BY_TXN
        holder = f"{blocker.kind} {blocker.id} of {blocker.user} at {blocker.host}"
        subject = f"request {blocker.request_id} waits for {holder}"
        for finding in _above_limit(limits, kind, blocker.age, subject):
            yield replace(finding, **blocker.ref._asdict())


def _place_findings(place: ListedFigures, limits: Limits) -> Iterator[Finding]:
    """Yield findings about a listed place, and about leftovers of dead runs there."""
    if place.problem is not None:
        kind, reason = place.problem
        level = Level.WARNING if kind in (FindingKind.CHANGING, FindingKind.NOT_JUDGED) else Level.ERROR
        yield _found(kind, reason, level)
    for kind, limit in LIMITS.items():
        if limit.of_place is not None:
            yield from _above_limit(limits, kind, limit.of_place(place.figures))
    # a cleaning that waits for so long, and an initiator that has not queued it for so long, are late here, too
    idle = place.idle or 0
    if place.aborted and LIMITS[FindingKind.READY_LONG].passed(limits, idle):
        count = plural(place.aborted, "directory holds", "directories hold")
        yield _found(FindingKind.ABORTED_ON_DISK, f"{count} nothing but rows of aborted transactions")
    if place.due and place.switched_off:
        yield _found(FindingKind.SWITCHED_OFF, f"{place.switched_off}, and {place.due}")
    elif place.due and place.refused:
        yield _found(FindingKind.NOT_COMPACTABLE, f"{place.refused}; it is due, as {place.due}")
    elif place.due and LIMITS[FindingKind.INITIATED_LONG].passed(limits, idle):
        yield _found(FindingKind.DUE, f"no request for it waits, and {place.due}")
    if place.figures.obsolete and place.cleaning_forbidden:
        obsolete = plural(place.figures.obsolete, "directory is", "directories are")
        reason = f"{place.cleaning_forbidden}, and {obsolete} obsolete"
        yield _found(FindingKind.CLEANING_FORBIDDEN, reason)
    if place.unfinished:
        reason = "a publication has been begun and not finished; the next run at the place finishes it"
        yield _found(FindingKind.UNFINISHED, reason, Level.ERROR)
    elif place.staging:
        reason = f"{place.staging[0]} was staged by a run that no longer holds the place; the cleaner removes it"
        yield _found(FindingKind.STAGING_LEFT, reason)
    if place.claim_left_by is not None:
        reason = f"it is claimed by {place.claim_left_by}, which has ended or gives no sign of life"
        yield _found(FindingKind.CLAIM_LEFT, reason)
    if place.removed:
        reason = f"{place.removed[0]} was hidden from readers by a cleaner that has ended; the next one removes it"
        yield _found(FindingKind.REMOVAL_LEFT, reason)
    if place.not_obeyed is not None:
        yield _found(FindingKind.NOT_OBEYED, place.not_obeyed)


def _tables(seen: StatusSnapshot, findings: Sequence[Finding]) -> Iterator[TableFigures]:
    """Yield the figures of each table that has a request, place, finding or aborted write id."""

    def by_table(items: Iterable[Any]) -> dict[TableRef, list[Any]]:
        grouped: dict[TableRef, list[Any]] = {}
        for item in items:
            if item.ref.table:
                grouped.setdefault(item.ref.whole_table, []).append(item)
        return grouped

    requests, places = by_table(seen.requests), by_table(seen.places or ())
    wrong, blockers = by_table(findings), by_table(seen.blockers or ())
    for table in {*requests, *places, *wrong, *(ref for ref, count in seen.aborted.items() if count)}:
        part = replace(
            seen,
            requests=tuple(requests.get(table, ())),
            places=None if seen.places is None else tuple(places.get(table, ())),
            known_places=None,
            blockers=tuple(blockers.get(table, ())),
            aborted={table: seen.aborted.get(table, 0)},
        )
        yield replace(_figures(part, wrong.get(table, ())), database=table.database, table=table.table)


def _figures(seen: StatusSnapshot, findings: Sequence[Finding]) -> TableFigures:
    """Return the figures of everything in a snapshot, of which these are the findings."""
    requests = []
    for state in State:
        rows = [row for row in seen.requests if row.state is state]
        ages = [(age, str(row.ref)) for row in rows if (age := age_of(row, seen.now_ms)) is not None]
        age, place = max(ages) if ages and state in _AGE_KINDS else (None, None)
        label = state.label_of(seen.calls)
        requests.append(StateFigures(state=label, count=len(rows), oldest_age=age, oldest_place=place))
    histories = _histories(seen)

    def longest_row(state: State) -> tuple[int, str | None]:
        rows = [(count_in_a_row(history, state, seen.calls), str(history[0].ref)) for history in histories]
        longest, name = max(rows, default=(0, None))
        return longest, name if longest else None

    failed, failed_place = longest_row(State.FAILED)
    refused, refused_place = longest_row(State.REFUSED)
    listed = [place.figures for place in seen.places or () if place.problem is None]

    def largest(figure: Callable[[PlaceFigures], float]) -> tuple[PlaceFigures, ...]:
        return tuple(heapq.nlargest(_WORST, (place for place in listed if figure(place)), key=figure))

    knows_write_ids = seen.transactions is not None and seen.places is not None
    return TableFigures(
        level=max((finding.level for finding in findings), key=lambda level: level.rank, default=Level.OK),
        findings=len(findings),
        requests=tuple(requests),
        failed_in_a_row=failed,
        failed_place=failed_place,
        refused_in_a_row=refused,
        refused_place=refused_place,
        blockers=len(seen.blockers or ()),
        aborted_write_ids=sum(seen.aborted.values()) if knows_write_ids else None,
        places=seen.known_places,
        looked_at=None if seen.places is None else len(seen.places),
        most_deltas=largest(lambda place: place.deltas),
        worst_ratio=largest(lambda place: place.ratio or 0),
        most_obsolete=largest(lambda place: place.obsolete_bytes),
        obsolete_bytes=sum(place.obsolete_bytes for place in listed) if listed else None,
    )
