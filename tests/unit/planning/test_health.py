"""The status: of a thousand places with a finding of each kind planted, each is named, and nothing else is."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from rich.cells import cell_len

from acidlib.acid.names import Generation
from acidlib.config.settings import Layer, default_settings
from acidlib.location import local_location
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts, State
from acidlib.model.status import CleaningBlocker, Finding, FindingKind, Level, PlaceFigures, Transaction
from acidlib.model.tables import TableRef
from acidlib.planning.health import (
    KnownTransaction,
    Limit,
    ListedFigures,
    StatusSnapshot,
    count_in_a_row,
    status_document,
)
from acidlib.planning.inputs import refused_message
from acidlib.report.text import status_text
from acidlib.status.look import limits_of

NOW = 1_800_000_000_000
HOUR, DAY = 3_600, 86_400
LIMITS = limits_of(default_settings().with_layer(Layer.TOML, {"acidlib.status.obsolete.bytes.threshold": "1g"})[0])
FIGURES = PlaceFigures(
    database="db", table="t", partition=None, location="/w/t", deltas=3, base_bytes=100, delta_bytes=5, ratio=0.05
)
HEALTHY = ListedFigures(figures=FIGURES)
NAMES = {field.name for field in fields(PlaceFigures)}


def request(number: int, name: str, state: State, **more: Any) -> CompactionRequest:
    """A request for `db.<name>` that has been in its state for a minute, unless more is said."""
    facts: dict[str, Any] = {
        "worker_id": "w-1" if state is State.WORKING else None,
        "enqueue_ms": NOW - 60_000,
        "start_ms": NOW - 60_000,
        "commit_ms": NOW - 60_000,
        "type": CompactionType.MAJOR,
    }
    return CompactionRequest(id=number, ref=TableRef("db", name), state=state, **facts | more)


def since(seconds: float) -> int:
    return NOW - int(seconds * 1000)


REQUESTS: dict[FindingKind, tuple[CompactionRequest, ...]] = {
    FindingKind.INITIATED_LONG: (request(1, "initiated", State.INITIATED, enqueue_ms=since(2 * HOUR)),),
    FindingKind.WORKING_LONG: (request(2, "working", State.WORKING, start_ms=since(25 * HOUR)),),
    FindingKind.WORKER_GONE: (request(3, "gone", State.WORKING),),
    FindingKind.WORKER_UNKNOWN: (request(4, "nobody", State.WORKING, worker_id=None),),
    FindingKind.READY_LONG: (request(5, "ready", State.READY_FOR_CLEANING, commit_ms=since(25 * HOUR)),),
    FindingKind.CLEANING_RETRIED: (request(6, "retried", State.READY_FOR_CLEANING, retry_retention_ms=1),),
    FindingKind.NOT_COMMITTED: (request(7, "uncommitted", State.READY_FOR_CLEANING, txn_id=9, commit_ms=None),),
    FindingKind.FAILED: (request(8, "failed", State.FAILED, error_message="no space"),),
    FindingKind.HELD_BACK: (request(9, "held", State.FAILED), request(10, "held", State.FAILED)),
    FindingKind.UNVERIFIED: (request(21, "unverified", State.FAILED, facts=RequestFacts(differs=True)),),
    FindingKind.NOT_INITIATED: (request(11, "attempted", State.ATTEMPTED),),
    FindingKind.REFUSED: (request(12, "refused", State.REFUSED), request(13, "refused", State.REFUSED)),
    FindingKind.NOT_UNDERSTOOD: (
        request(15, "unclear", State.INITIATED, facts=RequestFacts(problems={"deltas": "its deltas are 'x'"})),
    ),
    FindingKind.OTHERS_WORK: (request(16, "aborts", State.INITIATED, type=CompactionType.ABORT_TXN_CLEANUP),),
    FindingKind.AGE_UNKNOWN: (request(17, "ageless", State.INITIATED, enqueue_ms=None),),
    FindingKind.FROM_THE_FUTURE: (request(18, "future", State.INITIATED, enqueue_ms=since(-HOUR)),),
    FindingKind.TWICE: (request(19, "twice", State.INITIATED), request(20, "twice", State.INITIATED)),
}
PLACES: dict[FindingKind, dict[str, Any]] = {
    FindingKind.MANY_DELTAS: {"deltas": 201},
    FindingKind.MANY_OBSOLETE: {"obsolete": 201},
    FindingKind.MANY_SMALL: {"small_deltas": 201},
    FindingKind.HEAVY_DELTAS: {"ratio": 1.5},
    FindingKind.MUCH_TO_CLEAN: {"obsolete_bytes": 2 << 30},
    FindingKind.ABORTED_ON_DISK: {"aborted": 1, "idle": 25.0 * HOUR},
    FindingKind.DUE: {"due": "11 delta directories are more than 10", "idle": 2.0 * HOUR},
    FindingKind.NOT_COMPACTABLE: {"due": "11 delta directories are more than 10", "refused": "its columns disagree"},
    FindingKind.SWITCHED_OFF: {"due": "11 delta directories are more than 10", "switched_off": "NO_AUTO_COMPACTION"},
    FindingKind.CLEANING_FORBIDDEN: {"obsolete": 1, "cleaning_forbidden": "NO_CLEANUP is set on the table"},
    **{
        kind: {"problem": (kind, "Cannot list it: so")}
        for kind in (
            FindingKind.MISSING,
            FindingKind.NOT_READABLE,
            FindingKind.DAMAGED,
            FindingKind.NOT_JUDGED,
            FindingKind.CHANGING,
        )
    },
    FindingKind.UNFINISHED: {"unfinished": 1, "staging": ("_tmp_1",)},
    FindingKind.CLAIM_LEFT: {"claim_left_by": "acidlib-host-run"},
    FindingKind.STAGING_LEFT: {"staging": ("_tmp_1.revoked",)},
    FindingKind.REMOVAL_LEFT: {"removed": ("_acidlib_removed.1.base_1",)},
    FindingKind.NOT_OBEYED: {"not_obeyed": "_acidlib_claim belongs to another user"},
}


def transaction(number: int, age: float, *, is_open: bool = True, silent: float = 1.0) -> KnownTransaction:
    shown = Transaction(id=number, user="ann", host="h1", age=age)
    return KnownTransaction(shown=shown, is_open=is_open, silent=silent)


def kinds(seen: StatusSnapshot) -> list[FindingKind]:
    return [one.trouble for one in status_document(seen, LIMITS).findings]


def blocker(kind: str, name: str) -> CleaningBlocker:
    return CleaningBlocker(
        request_id=1, database="db", table=name, partition=None, kind=kind, id=5, user="bob", host="h2", age=2.0 * DAY
    )


def planted() -> StatusSnapshot:
    """A thousand places; each finding about a place is at one of its own."""
    healthy = [
        ListedFigures(figures=replace(FIGURES, partition=f"p={number}", location=f"/w/t/p={number}"))
        for number in range(1000)
    ]
    for number, (kind, facts) in enumerate(PLACES.items()):
        shown = {name: value for name, value in facts.items() if name in NAMES}
        figures = replace(healthy[40 * number].figures, table=kind.name.lower(), partition=None, **shown)
        others = {name: value for name, value in facts.items() if name not in NAMES}
        healthy[40 * number] = ListedFigures(figures=figures, **others)
    succeeded = tuple(request(1000 + number, f"good_{number}", State.SUCCEEDED) for number in range(200))
    return StatusSnapshot(
        now_ms=NOW,
        requests=(*(row for rows in REQUESTS.values() for row in rows), *succeeded),
        hosts=("h1", "h2"),
        versions=("4.0.0", "4.0.1"),
        gone=frozenset({3}),
        transactions=(
            transaction(1, 25 * HOUR),
            transaction(2, HOUR, silent=2 * HOUR),
            transaction(3, 25 * HOUR, is_open=False),
        ),
        txn_timeout=300,
        blockers=(blocker("transaction", "waits_for_txn"), blocker("lock", "waits_for_lock")),
        aborted={TableRef("db", "many"): 1501},
        uncleaned="Hive's own cleaner is off",
        places=tuple(healthy),
        known_places=1000,
        findings=(
            Finding(level=Level.WARNING, trouble=FindingKind.ANOTHER_METASTORE, reason="request 30 is for another"),
        ),
    )


@pytest.mark.parametrize(
    ("count", "hours", "is_found"), [(1000, 12, False), (1001, 1, True), (1, 13, True), (0, 0, False)]
)
def test_rolled_back_transactions_wait_by_the_rules_of_the_cleaner(count: int, hours: int, is_found: bool) -> None:
    txns = tuple(transaction(number, hours * HOUR, is_open=False) for number in range(count))
    seen = StatusSnapshot(
        now_ms=NOW,
        transactions=txns,
        aborted={TableRef("db", "t"): count, TableRef("db", "u"): 0},
        uncleaned="no URL is given",
    )
    found = [one for one in status_document(seen, LIMITS).findings if one.trouble is FindingKind.ABORTED_LEFT]
    assert bool(found) == is_found
    assert FindingKind.ABORTED_LEFT not in kinds(replace(seen, uncleaned=None))
    if is_found:
        noun = "transaction waits" if count == 1 else "transactions wait"
        ids = "1 write id" if count == 1 else f"{count:,} write ids"
        age = "1 h" if hours == 1 else "13 h"
        assert found[0].reason == (
            f"{count:,} rolled back {noun} to be cleaned after, with {ids} in 1 table, the oldest begun {age} ago: "
            "no URL is given"
        )
        key = "hive.compactor.abortedtxn.threshold" if count > 1 else "hive.compactor.aborted.txn.time.threshold"
        assert found[0].setting == key


def test_each_kind_of_finding_is_named_where_it_was_planted() -> None:
    status = status_document(planted(), LIMITS)
    found = [(one.trouble, one.table) for one in status.findings]
    assert sorted({kind.name for kind, _ in found}) == sorted(FindingKind.__members__)
    about = {kind: rows[0].ref.table for kind, rows in REQUESTS.items()}
    about |= {kind: kind.name.lower() for kind in PLACES}
    about |= {FindingKind.ABORTED_IN_TABLE: "many"}
    about |= {FindingKind.BLOCKED_BY_TXN: "waits_for_txn", FindingKind.BLOCKED_BY_LOCK: "waits_for_lock"}
    assert sorted(found, key=str) == sorted(((kind, about.get(kind)) for kind in FindingKind), key=str)
    text = status_text(status)
    flat = " ".join(text.split())
    for one in status.findings:
        about = "" if one.table is None else f"{one.ref}: "
        assert f" {one.level} {about}{one.trouble}: {one.reason}" in flat
    assert text.startswith("ERROR: ")
    assert "In the way transaction 5 of bob at h2, there since 2 d: of cleaning db.waits_for_txn lock 5 of bob " in flat
    assert [place.deltas for place in status.totals.most_deltas] == [201, 3, 3, 3, 3]
    assert max(map(cell_len, text.splitlines())) <= 80


def test_a_snapshot_without_trouble_is_ok() -> None:
    seen = StatusSnapshot(now_ms=NOW, requests=(request(1, "t", State.WORKING),), places=(HEALTHY,), known_places=1)
    status = status_document(seen, LIMITS)
    assert (status.findings, status.totals.level) == ((), Level.OK)
    assert status_text(status).startswith("OK: nothing is wrong in 1 table\n")


@pytest.mark.parametrize(
    ("state", "key", "seconds", "level"),
    [
        (State.INITIATED, "enqueue_ms", HOUR, Level.OK),
        (State.INITIATED, "enqueue_ms", HOUR + 1, Level.WARNING),
        (State.INITIATED, "enqueue_ms", 12 * HOUR + 1, Level.ERROR),
        (State.WORKING, "start_ms", 12 * HOUR + 1, Level.WARNING),
        (State.WORKING, "start_ms", 24 * HOUR + 1, Level.ERROR),
        (State.READY_FOR_CLEANING, "commit_ms", 24 * HOUR, Level.OK),
        (State.READY_FOR_CLEANING, "commit_ms", 24 * HOUR + 1, Level.WARNING),
    ],
)
def test_requests_are_judged_by_their_age(state: State, key: str, seconds: float, level: Level) -> None:
    seen = StatusSnapshot(now_ms=NOW, requests=(request(1, "t", state, **{key: since(seconds)}),))
    status = status_document(seen, LIMITS)
    assert status.totals.level is level
    assert dict(zip(State, status.totals.requests, strict=True))[state].oldest_age == seconds
    keys = [one.setting for one in status.findings]
    assert all(key is not None and key.startswith(("metastore.", "hive.", "acidlib.")) for key in keys)


@pytest.mark.parametrize(
    ("is_open", "hours", "level"),
    [(True, 24, Level.OK), (True, 25, Level.WARNING), (True, 73, Level.ERROR), (False, 25, Level.WARNING),
     (False, 49, Level.ERROR)],
)  # fmt: skip
def test_transactions_are_judged_by_their_age(is_open: bool, hours: int, level: Level) -> None:
    seen = StatusSnapshot(now_ms=NOW, transactions=(transaction(7, hours * HOUR, is_open=is_open),))
    status = status_document(seen, LIMITS)
    assert status.totals.level is level
    assert all("transaction 7 of ann at h1" in one.reason for one in status.findings)


@pytest.mark.parametrize(
    ("newest_first", "state", "hive3", "hive4"),
    [
        ("ffs", State.FAILED, 2, 2),
        ("fsf", State.FAILED, 1, 1),
        ("sff", State.FAILED, 0, 0),
        ("rff", State.FAILED, 0, 0),
        ("wff", State.FAILED, 2, 2),
        ("aff", State.FAILED, 2, 2),
        ("cff", State.FAILED, 0, 2),
        ("icc", State.REFUSED, 2, 2),
        ("acc", State.REFUSED, 0, 0),
        ("xcxc", State.REFUSED, 2, 2),
        ("xff", State.FAILED, 0, 2),
    ],
)
def test_what_ended_alike_in_a_row(newest_first: str, state: State, hive3: int, hive4: int) -> None:
    rows = [request(10 - number, "t", State.parse(letter)) for number, letter in enumerate(newest_first)]
    counts = [count_in_a_row(rows, state, generation) for generation in (Generation.HIVE3, Generation.HIVE4)]
    assert counts == [hive3, hive4]


def test_a_place_stays_held_back_when_the_initiator_has_passed_it_over() -> None:
    """The request that it notes as not initiated does not end the failures for its own rule."""
    rows = (request(1, "t", State.FAILED), request(2, "t", State.FAILED, error_message="no space"))
    passed_over = request(3, "t", State.ATTEMPTED, error_message="not initiated since the last failed")
    findings = status_document(StatusSnapshot(now_ms=NOW, requests=(*rows, passed_over)), LIMITS).findings
    (finding,) = findings
    assert (finding.trouble, finding.level) == (FindingKind.HELD_BACK, Level.ERROR)
    assert "no space" in finding.reason


@pytest.mark.parametrize("bad", [1, 2])
def test_one_failure_is_no_share_of_many(bad: int) -> None:
    ends = [State.FAILED] * bad + [State.SUCCEEDED] * 3
    rows = tuple(request(number, f"t{number}", state) for number, state in enumerate(ends, 1))
    found = kinds(StatusSnapshot(now_ms=NOW, requests=rows))
    assert sorted(found) == sorted([FindingKind.FAILED] * bad + [FindingKind.FAILURE_RATIO] * (bad > 1))


@pytest.mark.parametrize("calls", Generation)
@pytest.mark.parametrize(
    ("newest_first", "found"),
    [
        ("xx", []),
        ("xs", []),
        ("xf", [FindingKind.FAILED]),
        ("xa", [FindingKind.NOT_INITIATED]),
        ("xccc", [FindingKind.REFUSED]),
    ],
)
def test_what_somebody_withdrew_is_no_trouble_and_hides_none(
    newest_first: str, found: list[FindingKind], calls: Generation
) -> None:
    rows = tuple(request(10 - number, "t", State.parse(letter)) for number, letter in enumerate(newest_first))
    assert kinds(StatusSnapshot(now_ms=NOW, requests=rows, calls=calls)) == found


@pytest.mark.parametrize("states", ["cc", "ccc", "cff"])
def test_a_place_that_was_compact_already_ends_every_row(states: str) -> None:
    """As Hive 4's worker says it, in the words of its refusal, with ours behind them."""
    rows = [request(10 - number, "t", State.parse(letter)) for number, letter in enumerate(states)]
    words = refused_message("there is nothing to merge: a base and no delta")
    rows[0] = replace(rows[0], error_message=words)
    assert [count_in_a_row(rows, state, Generation.HIVE4) for state in (State.REFUSED, State.FAILED)] == [0, 0]
    assert kinds(StatusSnapshot(now_ms=NOW, requests=tuple(rows))) == []
    after = request(11, "t", State.REFUSED, error_message="its bucket cannot be told")
    assert count_in_a_row([after, *rows], State.REFUSED, Generation.HIVE4) == 1


def test_a_place_that_is_being_written_may_still_be_queued() -> None:
    place = replace(HEALTHY, due="11 delta directories are more than 10", idle=60.0)
    assert kinds(StatusSnapshot(now_ms=NOW, places=(place,), known_places=1)) == []


def test_a_limit_of_zero_is_never_passed() -> None:
    limit = Limit("", "w", "e")
    assert limit.passed({}, 10**12) is None
    found = [limit.passed({"w": 1, "e": 5}, figure) for figure in (1, 2, 5, 6)]
    assert found == [None, (Level.WARNING, "w"), (Level.WARNING, "w"), (Level.ERROR, "e")]


def test_where_no_queue_tells_it_an_unknown_age_is_no_trouble() -> None:
    seen = StatusSnapshot(
        now_ms=NOW, requests=(request(1, "t", State.INITIATED, enqueue_ms=None),), calls=Generation.HIVE3
    )
    assert kinds(seen) == []
    assert kinds(replace(seen, calls=Generation.HIVE4)) == [FindingKind.AGE_UNKNOWN]


def test_the_failures_of_two_queues_are_no_row() -> None:
    rows = [request(number, "t", State.FAILED) for number in (1, 2)]
    ours = replace(rows[1], facts=RequestFacts(metastore="thrift://h:9083"))
    assert status_document(StatusSnapshot(now_ms=NOW, requests=tuple(rows)), LIMITS).totals.failed_in_a_row == 2
    assert status_document(StatusSnapshot(now_ms=NOW, requests=(rows[0], ours)), LIMITS).totals.failed_in_a_row == 1


def test_places_are_told_apart_by_where_they_lie_without_a_metastore() -> None:
    rows = [
        request(number, "t", State.INITIATED, facts=RequestFacts(location=local_location(f"/w{number}/t")))
        for number in (1, 2)
    ]
    seen = StatusSnapshot(now_ms=NOW, requests=tuple(rows))
    assert kinds(seen) == [FindingKind.TWICE]
    assert kinds(replace(seen, by_location=True)) == []


def test_a_table_of_which_only_the_look_itself_found_something_is_counted() -> None:
    finding = Finding(
        level=Level.WARNING, trouble=FindingKind.NOT_COMPACTABLE, reason="it is sorted", database="db", table="t"
    )
    status = status_document(StatusSnapshot(now_ms=NOW, places=(), known_places=0, findings=(finding,)), LIMITS)
    assert [(table.database, table.table, table.level) for table in status.tables] == [("db", "t", Level.WARNING)]
    assert status_text(status).startswith("WARNING: 1 warning in 1 table")
