"""Rules of the queue: failures in a row, and how much of the history is kept."""

from dataclasses import replace

import pytest

from acidlib.acid.names import Generation
from acidlib.config.settings import default_settings
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts, State
from acidlib.model.tables import TableRef
from acidlib.ports.sql import history_retention
from acidlib.queue.rules import failed_attempts_reason, rows_to_purge

MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR
DAY_MS = 86_400_000
KEPT = history_retention(default_settings())


def finished(
    number: int, state: State, *, kind: CompactionType = MAJOR, end_ms: int = 0, table: str = "t"
) -> CompactionRequest:
    return CompactionRequest(
        id=number, ref=TableRef("db", table), type=kind, state=state, end_ms=end_ms, enqueue_ms=end_ms
    )


HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4


@pytest.mark.parametrize(
    ("letters", "generation", "enqueued", "retry_ms", "blocked"),
    [  # newest last
        ("ff", HIVE3, 0, 900, True),
        ("ff", HIVE4, 100, 900, True),
        ("f", HIVE3, 0, 900, False),
        ("", HIVE3, 0, 900, False),
        ("sf", HIVE4, 100, 900, False),
        ("ffs", HIVE3, 0, 900, False),
        ("sff", HIVE3, 0, 900, True),
        ("ffa", HIVE3, 0, 900, True),
        ("ffc", HIVE3, 0, 900, False),
        ("ffc", HIVE4, 100, 900, True),
        ("ff", HIVE4, 99, 900, False),
        ("ff", HIVE4, 99, 0, True),  # it is never tried again
        ("ff", HIVE3, 99, 900, True),
    ],
)
def test_the_failed_attempt_rule(
    letters: str, generation: Generation, enqueued: int, retry_ms: int, blocked: bool
) -> None:
    history = [finished(number, State(letter), end_ms=enqueued) for number, letter in enumerate(letters, start=1)]
    reason = failed_attempts_reason(history, threshold=2, retry_ms=retry_ms, now_ms=1000, calls=generation)
    expected = "Compaction is not initiated since last 2 consecutive compaction attempts failed"
    assert reason == (expected if blocked else None)


def test_the_history_keeps_hives_numbers_per_entity() -> None:
    rows = [finished(number, State(letter)) for number, letter in enumerate("sssssfffffaaaacccccxx", start=1)]
    rows.append(finished(100, State.SUCCEEDED, table="u"))
    assert rows_to_purge(rows, KEPT, 0) == (1, 2, 6, 7, 11, 12, 15, 16)
    raised = rows_to_purge(rows, replace(KEPT, failed=1, failed_threshold=4), 0)
    assert [number for number in raised if 6 <= number <= 10] == [6]


def test_old_failures_go_once_a_newer_success_replaces_them() -> None:
    day = DAY_MS
    rows = [
        finished(1, State.FAILED, kind=MAJOR, end_ms=0),
        finished(2, State.REFUSED, kind=MINOR, end_ms=0),
        finished(3, State.ATTEMPTED, kind=MINOR, end_ms=2 * day),
        finished(4, State.SUCCEEDED, kind=MINOR, end_ms=day),
        finished(5, State.FAILED, kind=MINOR, end_ms=0),
    ]
    assert rows_to_purge(rows, KEPT, 8 * day) == (2,)
    rows.append(finished(6, State.SUCCEEDED, kind=MAJOR, end_ms=8 * day))
    assert rows_to_purge(rows, KEPT, 8 * day) == (1, 2, 5)
    assert rows_to_purge(rows, KEPT, 7 * day) == ()


def test_what_a_place_is_held_for_is_kept_until_a_success_is_newer() -> None:
    held = replace(finished(1, State.FAILED), facts=RequestFacts(differs=True))
    rows = [held, *(finished(number, State.FAILED) for number in range(2, 6))]
    assert rows_to_purge(rows, KEPT, 0) == (2,)
    assert rows_to_purge([*rows, finished(6, State.SUCCEEDED)], KEPT, 0) == (1, 2)
