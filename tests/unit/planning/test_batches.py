"""Which tasks share a place of the executors, and which a job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acidlib.model.units import MEBIBYTE
from acidlib.planning.units import BATCH_BYTES, BATCH_TASKS, SMALL_BYTES, alike, batches

LARGE = SMALL_BYTES


@pytest.mark.parametrize(
    ("lengths", "free", "wanted"),
    [
        ([], 4, []),
        ([1, 1, 1], 0, []),
        ([1], 4, [[0]]),
        ([1, 1, 1], 4, [[0], [1], [2]]),
        # dealt out from the largest on, so that no place gets all that are large
        ([1, 5, 2, 4, 3, 6], 2, [[5, 3, 2], [1, 4, 0]]),
        # a large one has a place of its own, and takes none from those that wait longer
        ([LARGE, 1, LARGE, 1], 2, [[0], [1, 3]]),
        ([1, LARGE, LARGE], 1, [[0]]),
        ([LARGE, LARGE, LARGE], 2, [[0], [1]]),
        ([LARGE, LARGE, 1], 2, [[0], [1]]),
    ],
)
def test_batches(lengths: list[int], free: int, wanted: list[list[int]]) -> None:
    assert batches(lengths, free) == wanted


@given(st.lists(st.integers(0, 20 * MEBIBYTE), max_size=300), st.integers(1, 9))
def test_whatever_waits(lengths: list[int], free: int) -> None:
    found = batches(lengths, free)
    numbers = [number for batch in found for number in batch]
    assert len(numbers) == len(set(numbers))
    assert len(found) <= free
    assert not lengths or found, "something is always begun"
    for batch in found:
        assert len(batch) <= BATCH_TASKS
        assert len(batch) == 1 or sum(lengths[number] for number in batch) <= BATCH_BYTES
    assert not numbers or 0 in numbers, "what waits longest is begun first"


@pytest.mark.parametrize(
    ("lengths", "wanted"),
    [
        ([], []),
        ([1, 7, 3], [[1, 2, 0]]),
        ([LARGE, 4 * LARGE, 3 * LARGE], [[1, 2, 0]]),
        ([5 * LARGE, LARGE, 1], [[0], [1], [2]]),
        ([LARGE, 1, 1], [[0], [1, 2]]),
    ],
)
def test_those_of_a_job_take_about_as_long_as_each_other(lengths: list[int], wanted: list[list[int]]) -> None:
    assert list(alike(lengths, 10)) == wanted


def test_a_job_has_so_many_at_most() -> None:
    assert list(alike([1, 7, 3, 9, 5], 2)) == [[3, 1], [4, 2], [0]]
