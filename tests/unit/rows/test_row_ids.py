"""Row keys: order, search and matching, against tuples in sets."""

from __future__ import annotations

import random

import numpy as np
import pytest
from orc_memory import longs

from acidlib.model.units import RowKey
from acidlib.rows.row_ids import Keys, event_order, gather

LOW, HIGH = -(2**63), 2**63 - 1


def keys(*found: RowKey) -> Keys:
    return Keys(*(longs(*(key[part] for key in found)) for part in range(3)))


def tuples(found: Keys) -> list[RowKey]:
    return [found.key(index) for index in range(len(found))]


def random_keys(generator: random.Random, count: int) -> list[RowKey]:
    ids = [LOW, -1, 0, 1, 2, 3, HIGH]
    found = {(generator.choice(ids), generator.choice(ids), generator.choice(ids)) for _ in range(count)}
    return sorted(found)


def test_keys_are_read_by_index_from_both_ends() -> None:
    found = keys((1, 2, 3), (4, 5, 6))
    assert (len(found), found.key(0), found.key(-1)) == (2, (1, 2, 3), (4, 5, 6))
    assert len(Keys.empty()) == 0


def test_a_selection_is_by_mask_index_or_slice() -> None:
    found = keys((1, 0, 0), (2, 0, 0), (3, 0, 0))
    assert tuples(found.select(np.array([True, False, True]))) == [(1, 0, 0), (3, 0, 0)]
    assert tuples(found.select(longs(2, 0))) == [(3, 0, 0), (1, 0, 0)]
    assert tuples(found.select(slice(1, 2))) == [(2, 0, 0)]


@pytest.mark.parametrize(
    ("found", "ascends"),
    [
        ([], True),
        ([(1, 1, 1)], True),
        ([(1, 1, 1), (1, 1, 2), (1, 2, 0), (2, 0, 0)], True),
        ([(LOW, 0, 0), (HIGH, 0, 0)], True),
        ([(1, 1, 1), (1, 1, 1)], False),
        ([(1, 2, 1), (1, 1, 2)], False),
        ([(2, 0, 0), (1, 9, 9)], False),
        ([(HIGH, 0, 0), (LOW, 0, 0)], False),
    ],
)
def test_keys_ascend_only_strictly(found: list[RowKey], ascends: bool) -> None:
    assert keys(*found).ascending() is ascends


def test_matches_are_those_of_a_set_whichever_side_is_longer() -> None:
    generator = random.Random(1)
    for _ in range(200):
        rows = random_keys(generator, generator.choice([0, 1, 5, 200]))
        sought = random_keys(generator, generator.choice([0, 1, 5, 200]))
        found = keys(*rows).matches(keys(*sought))
        assert found.tolist() == [key in set(sought) for key in rows]


def test_between_is_inclusive_at_both_ends() -> None:
    generator = random.Random(2)
    for _ in range(200):
        found = random_keys(generator, 30)
        low, high = sorted([generator.choice([*found, (0, 0, 0)]), generator.choice([*found, (3, HIGH, HIGH)])])
        inside = tuples(keys(*found).between(low, high))
        # nothing within is left out; a bound that has no successor may let more in
        assert set(inside) >= {key for key in found if low <= key <= high}
        assert all(key >= low for key in inside)
        if high[2] < HIGH:
            assert all(key <= high for key in inside)
    assert len(keys((1, 1, 1)).between((2, 0, 0), (1, 0, 0))) == 0


def test_synthetic_keys_count_on_from_a_row() -> None:
    assert tuples(Keys.sequence(5, 536870912, 7, 3)) == [(5, 536870912, 7), (5, 536870912, 8), (5, 536870912, 9)]
    assert len(Keys.sequence(0, 0, 0, 0)) == 0


@pytest.mark.parametrize("files", [1, 2, 3, 7, 40])
def test_events_of_any_number_of_files_are_ordered_by_key_then_from_the_latest(files: int) -> None:
    generator = random.Random(files)
    parts = [
        sorted(
            [(*key, generator.randrange(3)) for key in random_keys(generator, generator.randrange(30))],
            key=lambda event: (*event[:3], -event[3]),
        )
        for _ in range(files)
    ]
    events = [event for part in parts for event in part]
    for found in (events, generator.sample(events, len(events))):
        order = event_order(keys(*(event[:3] for event in found)), longs(*(event[3] for event in found)))
        wanted = sorted(range(len(found)), key=lambda i: (*found[i][:3], -found[i][3]))
        assert order.tolist() == wanted
        assert gather(longs(*(event[2] for event in found)), order).tolist() == [found[i][2] for i in wanted]
