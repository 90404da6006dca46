"""In which order the places of a run go, and what a budget lets start."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from itertools import takewhile
from typing import Any

import pytest
from located import at
from unit.planning.listings import listing

from acidlib.arguments import said
from acidlib.model.requests import CompactionType
from acidlib.model.tables import TableRef
from acidlib.places.listing import ListingOutcome
from acidlib.places.place import Interpretation, Place
from acidlib.places.selection import Selection
from acidlib.planning.stated_write_ids import StatedWriteIds
from acidlib.runs.run_queue import Budget, CompactionRun, Order, ordered

ALL = Interpretation(write_ids=StatedWriteIds(everything=True))

# --- order ------------------------------------------------------------------------------------------------------------


def looked(name: str, deltas: int, size: int, modified: float) -> ListingOutcome:
    place = Place(ref=TableRef("d", name), location=at(f"/w/{name}"), interpretation=ALL)
    names = [f"delta_{number}_{number}" for number in range(1, deltas + 1)]
    return place.listed(listing(*names, sizes={names[0]: size - deltas + 1}, length=1, modified=modified))


FOUR = [
    looked("c", deltas=1, size=50, modified=30),
    looked("a", deltas=3, size=10, modified=20),
    looked("d", deltas=3, size=90, modified=10),
    looked("b", deltas=1, size=50, modified=30),
]


@pytest.mark.parametrize(
    ("order", "expected"), [(Order.DELTAS, "adbc"), (Order.BYTES, "dbca"), (Order.AGE, "dabc"), (Order.NAME, "abcd")]
)
def test_the_most_urgent_goes_first_and_equal_ones_by_name(order: Order, expected: str) -> None:
    for given in itertools.permutations(FOUR):
        assert "".join(one.place.ref.table for one in ordered(given, order)) == expected


# --- budgets ----------------------------------------------------------------------------------------------------------


def budget(clock: Callable[[], float] = lambda: 0.0, **limits: Any) -> Budget:
    return Budget(CompactionRun(kind=CompactionType.MAJOR, selection=Selection(), **limits), clock)


def started(budget: Budget, sizes: list[int]) -> tuple[int, str | None]:
    return len(list(takewhile(budget.admit, sizes))), budget.stopped and said(budget.stopped)


@pytest.mark.parametrize(
    ("limits", "sizes", "expected"),
    [
        ({}, [1, 2, 3], (3, None)),
        ({"max_partitions": 2}, [1, 2, 3], (2, "--max-partitions 2 is reached")),
        ({"max_partitions": 3}, [1, 2, 3], (3, None)),
        ({"max_partitions": 0}, [1], (0, "--max-partitions 0 is reached")),
        ({"max_bytes": 30}, [10, 20, 1], (2, "--max-bytes 30 bytes is reached")),
        ({"max_bytes": 30}, [10, 20], (2, None)),
        ({"max_bytes": 30}, [10, 21, 1], (1, "--max-bytes 30 bytes is reached")),
        # what is larger than the whole budget would never be compacted
        ({"max_bytes": 30}, [100, 1], (1, "--max-bytes 30 bytes is reached")),
        ({"deadline": 5.0}, [], (0, None)),
    ],
)
def test_a_budget_stops_before_what_goes_beyond_it(
    limits: dict[str, Any], sizes: list[int], expected: tuple[int, str | None]
) -> None:
    assert started(budget(**limits), sizes) == expected


def test_what_is_free_or_did_not_start_costs_nothing() -> None:
    spending = budget(max_partitions=2, max_bytes=30)
    assert spending.admit(100, is_free=True)
    assert spending.admit(20)
    spending.refund(20)
    assert [spending.admit(size) for size in (10, 10, 1)] == [True, True, False]
    assert said(spending.stopped or "") == "--max-partitions 2 is reached"


def test_free_places_wait_for_no_budget_but_time() -> None:
    spending = budget(lambda: 5.0, max_partitions=0, deadline=5.0)
    assert not spending.admit(1, is_free=True)
    assert spending.stopped == "the time budget is spent"


def test_after_the_deadline_nothing_starts() -> None:
    times = iter([1.0, 4.9, 5.0])
    assert started(budget(lambda: next(times), deadline=5.0), [1, 1, 1, 1]) == (2, "the time budget is spent")
