"""Many places as a table: a line for each, a reason once, and what waits for a retention in one sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acidlib.model.results import CleaningResult, Outcome, RemovedPath, Waiting
from acidlib.report.text import WIDTH
from acidlib.wording import retention_words

from .documents import CLEANED, DONE, FAILED, MIB, REFUSED, UNCLEANED, WAITS, text_of, told

PLANNED = replace(DONE, id=None, state=Outcome.PLANNED, inputs=("base_1", "delta_2"))
DAY = 86_400.0
FIRST = 1_772_331_007.0
"""2026-03-01 02:10:07 UTC."""


def of_days(result: Any, *days: int) -> list[Any]:
    return [replace(result, partition=f"ds={day}") for day in days]


def retained(until: float, **more: Any) -> CleaningResult:
    why = retention_words(DAY, until)
    waiting = (Waiting("delta_1", why), Waiting("delta_2", why))
    return replace(WAITS, reason=f"2 obsolete left: {why}", waiting=waiting, **more)


def test_a_plan_of_many_places_has_a_line_for_each_and_a_shared_reason_once() -> None:
    alike = replace(REFUSED, state=Outcome.ALREADY_COMPACT)
    wide = replace(PLANNED, partition=f"ds={'x' * 50}", publication="two renames")
    text = text_of("major_compact", *of_days(PLANNED, 1, 2), *of_days(alike, 3, 4, 5), wide, FAILED, dry_run=True)
    assert (
        text
        == f"""\
Place                Inputs  To copy  To rewrite

1 failed: the footer is damaged
  sales.orders.ds=8

2 planned: it was asked for; columns are matched by position
  sales.orders.ds=1       2  5.0 MiB     3.0 MiB
  sales.orders.ds=2       2  5.0 MiB     3.0 MiB

3 already compact: there is nothing to merge
  sales.orders.ds=3
  sales.orders.ds=4
  sales.orders.ds=5

1 planned: it was asked for; two renames: the table must not be read or written
    between them; columns are matched by position
  sales.orders.ds={"x" * 50}
                          2  5.0 MiB     3.0 MiB

--details tells more of each place

Dry run, nothing was changed. 7 compactions: 3 planned, 3 already compact, 1
    failed; 3,000 rows in, 90 deleted, 12 aborted, 2,898 out; 15.0 MiB to copy,
    9.0 MiB to rewrite"""
    )


def test_a_cleaning_of_many_places_says_what_goes_and_what_waits() -> None:
    gone = replace(CLEANED, removed=CLEANED.removed[:1])
    read = replace(WAITS, reason=f"1 obsolete left: {WAITS.waiting[0].reason}")
    text = text_of("cleaner", *of_days(gone, 1, 2), read, UNCLEANED, retained(FIRST, partition="ds=6"))
    assert (
        text
        == """\
Place                Gone     Bytes  Waiting

1 failed: permission denied
  sales.orders.ds=9

2 succeeded: nothing obsolete is left
  sales.orders.ds=1     1  11.0 MiB        0
  sales.orders.ds=2     1  11.0 MiB        0

1 ready for cleaning: transaction 812 of etl at host9 is open
  sales.orders.ds=8     0   0 bytes        1

1 ready for cleaning: the retention of 1 d has not passed; nothing is due before
    2026-03-01 02:10:07 UTC
  sales.orders.ds=6     0   0 bytes        2

--details tells more of each place

5 places: 2 succeeded, 2 ready for cleaning, 1 failed; 2 paths, 22.0 MiB removed"""
    )


@pytest.mark.parametrize("is_planned", [False, True])
def test_places_that_all_wait_for_a_retention_are_one_sentence(is_planned: bool) -> None:
    later = [retained(FIRST + n, partition=f"ds={n}") for n in range(20)]
    if is_planned:
        later = [replace(one, state=Outcome.PLANNED, reason="0 to remove, 2 wait") for one in later]
    text = text_of("cleaner", *reversed(later), dry_run=is_planned)
    assert text.rsplit("\n\n", 1)[0] == (
        "Nothing is due before 2026-03-01 02:10:07 UTC: the retention of 1 d has not\n    passed\n\n"
        "--details tells more of each place"
    )


def test_what_a_transaction_keeps_is_not_said_to_be_due() -> None:
    mixed = replace(WAITS, waiting=(*retained(FIRST).waiting, *WAITS.waiting), reason="3 obsolete left: it is read")
    assert "due before" not in text_of("cleaner", *[mixed] * 4)
    parts = replace(retained(FIRST), removed=CLEANED.removed[:1], state=Outcome.PLANNED, reason="1 to remove, 2 wait")
    assert "due before" not in text_of("cleaner", *[parts] * 4, dry_run=True)


@pytest.mark.parametrize("count", [3, 4])
def test_few_places_have_blocks_and_many_where_they_are_asked_for(count: int) -> None:
    for job, result, dry_run in (("major_compact", PLANNED, True), ("cleaner", CLEANED, False)):
        run = told(job, [result] * count, dry_run=dry_run)
        assert ("  location  " in str(run)) == (count == 3)
        assert "".join(run.text_pieces(details=True)).count("  location  ") == count
    assert text_of("major_compact", *[DONE] * count).count("  location  ") == count, "what was done has all figures"


@pytest.mark.parametrize("count", [100, 101, 102, 2000])
def test_of_very_many_places_that_end_alike_the_first_are_told_and_of_failures_all(count: int) -> None:
    text = text_of("cleaner", *of_days(CLEANED, *range(count)), *of_days(UNCLEANED, *range(count)))
    shown, failed = (100 if count > 101 else count), text.partition("permission denied")[2].partition("\n\n")[0]
    assert failed.count("\n  sales.orders.ds=") == count
    assert text.count("\n  sales.orders.ds=") == shown + count
    assert (f"and {count - 100:,} more succeeded; --output json tells of each" in text) == (count > 101)
    assert f"{count:,} succeeded: nothing obsolete is left\n" in text


@given(
    names=st.lists(st.text(alphabet="abc日", max_size=90), min_size=4, max_size=12),
    size=st.integers(min_value=0, max_value=1 << 55),
    reason=st.text(),
)
def test_any_table_fits_a_terminal_where_names_do(names: list[str], size: int, reason: str) -> None:
    removed = (RemovedPath(path="/w/a", bytes=size, reason="x"),)
    text = text_of("cleaner", *[replace(CLEANED, table=name, removed=removed, reason=reason) for name in names])
    for line in text.splitlines():
        assert len(line) <= WIDTH or " " not in line.strip(), "only a name or a word that is longer may be"


def test_sizes_of_any_magnitude_leave_room_for_names() -> None:
    big = (RemovedPath(path="/w/a", bytes=900 * MIB << 20, reason="x"),) * 12_345
    text = text_of("cleaner", *of_days(replace(CLEANED, removed=big), *range(5)))
    assert "\n  sales.orders.ds=4  12,345  " in text
