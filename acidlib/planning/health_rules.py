"""What is wrong, by rules over figures: each gives findings, with the reason in one line.

An age that is not known never counts as long. Every limit is strict: more than it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.planning.enough import was_compact
from acidlib.planning.health import Finding, Level, Limit, Limits, PlaceFigures, Transaction, Trouble, Waits
from acidlib.planning.verification import holding, why_held
from acidlib.wording import age_words, plural

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
    txns: Iterable[Transaction], aborted: Mapping[tuple[str, str], int], uncleaned: str | None, limits: Limits
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


def about_aborted(aborted: Mapping[tuple[str, str], int], limits: Limits) -> Iterator[Finding]:
    """About the number of aborted write ids of each table (database, table)."""
    many = 0
    for (database, table), count in sorted(aborted.items()):
        if (level := limits.table_aborted.level(count)) is not Level.OK:
            many += 1
            reason = f"{count:,} of its write ids are aborted, more than {limits.table_aborted.warning:,.0f}"
            yield Finding(
                level=level,
                trouble=Trouble.ABORTED_IN_TABLE,
                reason=reason,
                database=database,
                table=table,
                setting=limits.table_aborted.key(level),
            )
    limit = limits.tables_aborted
    if 0 < limit.error <= many:
        have = plural(many, "table has", "tables have")
        reason = f"{have} more than {limits.table_aborted.warning:,.0f} aborted write ids"
        yield Finding(level=Level.ERROR, trouble=Trouble.ABORTED_IN_TABLES, reason=reason, setting=limit.error_key)


def about_blockers(waits: Iterable[Waits], limits: Limits) -> Iterator[Finding]:
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
                database=one.database,
                table=one.table,
                partition=one.partition,
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
        database=one.database,
        table=one.table,
        partition=one.partition,
        location=None if one.facts.location is None else str(one.facts.location),
        setting=setting,
    )


def _at(place: PlaceFigures, level: Level, trouble: Trouble, reason: str, setting: str | None = None) -> Finding:
    return Finding(
        level=level,
        trouble=trouble,
        reason=reason,
        database=place.database,
        table=place.table,
        partition=place.partition,
        location=place.location,
        setting=setting,
    )
