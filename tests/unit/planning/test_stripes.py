"""Which stripes are copied and which are rewritten, alone or joined, by one task or several."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from acidlib.model.units import RewriteSettings, StripeAction, StripeFacts
from acidlib.planning.units import MOST_JOINED_ROWS, must_rewrite, plan_stripes, shares

SETTINGS = RewriteSettings(stripe_bytes=1000, copy_bytes=100)
LARGE, SMALL = 500, 50


def stripe(number: int, length: int = LARGE, **changes: Any) -> StripeFacts:
    values: dict[str, Any] = {
        "file": 0,
        "number": number,
        "rows": 10,
        "length": length,
        "deleted": 0,
        "aborted": 0,
        "timezone": "UTC",
        "no_copy": None,
    }
    return StripeFacts(**{**values, **changes})


def shape(actions: tuple[StripeAction, ...]) -> list[tuple[str, list[int]]]:
    return [("copy" if a.copy else "rewrite", [s.number for s in a.stripes]) for a in actions]


def planned(*stripes: StripeFacts) -> list[tuple[str, list[int]]]:
    return shape(plan_stripes(stripes, SETTINGS))


def test_nothing_is_planned_for_nothing() -> None:
    assert plan_stripes([], SETTINGS) == ()


def test_large_unchanged_stripes_are_copied_one_by_one() -> None:
    actions = plan_stripes([stripe(0), stripe(1, 100)], SETTINGS)
    assert shape(actions) == [("copy", [0]), ("copy", [1])]
    assert {action.reason for action in actions} == {"unchanged"}


def test_each_reason_to_rewrite_is_told() -> None:
    def why(**changes: Any) -> str:
        (action,) = plan_stripes([stripe(0, **changes)], SETTINGS)
        assert not action.copy
        return action.reason

    assert why(deleted=3) == "rows to leave out: 3 deleted"
    assert why(aborted=1) == "row to leave out: 1 aborted"
    assert why(deleted=2, aborted=1) == "rows to leave out: 2 deleted, 1 aborted"
    assert why(no_copy="no row index") == "no row index (1 of 1 stripe)"
    assert why(deleted=10) == "no row of it is left"
    assert why(deleted=9, aborted=1) == "no row of it is left"


def test_must_rewrite_knows_rows_before_properties() -> None:
    assert must_rewrite(stripe(0)) is None
    assert must_rewrite(stripe(0, no_copy="file version 0.11")) == "file version 0.11"
    assert must_rewrite(stripe(0, no_copy="file version 0.11", deleted=1)) == "row to leave out: 1 deleted"


def test_small_neighbours_are_joined_and_a_lone_small_one_is_copied() -> None:
    assert planned(stripe(0, SMALL), stripe(1, SMALL)) == [("rewrite", [0, 1])]
    (action,) = plan_stripes([stripe(0, SMALL)], SETTINGS)
    assert (action.copy, action.reason) == (True, "unchanged, and no small neighbour to join with")
    assert planned(stripe(0, SMALL), stripe(1), stripe(2, SMALL)) == [("copy", [0]), ("copy", [1]), ("copy", [2])]


def test_a_small_stripe_joins_one_that_has_to_be_rewritten() -> None:
    actions = plan_stripes([stripe(0, deleted=1), stripe(1, SMALL), stripe(2, no_copy="no row index")], SETTINGS)
    assert shape(actions) == [("rewrite", [0, 1]), ("rewrite", [2])]
    assert actions[0].reason == "row to leave out: 1 deleted; small (1 of 2 stripes)"


def test_a_joined_stripe_is_not_larger_than_the_tables() -> None:
    assert planned(*(stripe(n, 400, deleted=1) for n in range(5))) == [
        ("rewrite", [0, 1]),
        ("rewrite", [2, 3]),
        ("rewrite", [4]),
    ]
    assert planned(stripe(0, 5000, deleted=1)) == [("rewrite", [0])]


def test_stripes_of_two_time_zones_are_not_joined() -> None:
    zones = [stripe(n, SMALL, timezone=zone) for n, zone in enumerate(["UTC", "UTC", "Asia/Tokyo", "UTC"])]
    assert planned(*zones) == [("rewrite", [0, 1]), ("copy", [2]), ("copy", [3])]


def test_an_emptied_stripe_keeps_its_place_and_parts_no_group() -> None:
    gone = {"deleted": 10}
    assert planned(stripe(0, deleted=1), stripe(1, **gone), stripe(2)) == [
        ("rewrite", [0]),
        ("rewrite", [1]),
        ("copy", [2]),
    ]
    assert planned(stripe(0, SMALL), stripe(1, **gone), stripe(2, SMALL)) == [("rewrite", [0, 2]), ("rewrite", [1])]


def test_any_plan_has_every_stripe_once_and_kept_rows_in_order() -> None:
    generator = random.Random(5)
    for _ in range(500):
        stripes = [
            stripe(
                number % 3,
                generator.choice([10, 99, 100, 600, 2000]),
                file=number // 3,
                deleted=generator.choice([0, 0, 1, 10]),
                timezone=generator.choice(["UTC", "UTC", "Asia/Tokyo"]),
                no_copy=generator.choice([None, None, "no row index"]),
            )
            for number in range(generator.randrange(12))
        ]
        actions = plan_stripes(stripes, SETTINGS)
        members = [member for action in actions for member in action.stripes]
        assert sorted(members, key=stripes.index) == stripes
        assert [member for member in members if member.kept] == [member for member in stripes if member.kept]
        firsts = [stripes.index(action.stripes[0]) for action in actions]
        assert firsts == sorted(firsts)
        for action in actions:
            assert not action.copy or (len(action.stripes) == 1 and must_rewrite(action.stripes[0]) is None)
            assert len({member.timezone for member in action.stripes}) == 1
            assert len(action.stripes) == 1 or action.length <= SETTINGS.stripe_bytes
            assert action.reason


def test_a_joined_stripe_has_not_too_many_rows() -> None:
    """Rows of few values are next to no bytes, and each still takes memory."""
    most = MOST_JOINED_ROWS
    half = stripe(0, SMALL, rows=most // 2), stripe(1, SMALL, rows=most // 2)
    assert planned(*half) == [("rewrite", [0, 1])]
    assert planned(*half, stripe(2, SMALL, rows=1), stripe(3, SMALL)) == [("rewrite", [0, 1]), ("rewrite", [2, 3])]
    assert planned(stripe(0, SMALL, rows=most + 1, deleted=1), stripe(1, SMALL, deleted=1)) == [
        ("rewrite", [0]),
        ("rewrite", [1]),
    ]


def test_sizes_are_counted_from_where_a_group_begins() -> None:
    parts = [stripe(n, 400, no_copy="other") for n in range(5)]
    assert planned(*parts) == [("rewrite", [0, 1]), ("rewrite", [2, 3]), ("rewrite", [4])]
    between = [parts[0], stripe(1), *parts[2:]]
    assert planned(*between) == [("rewrite", [0]), ("copy", [1]), ("rewrite", [2, 3]), ("rewrite", [4])]


# --- how the rewriting is shared out among tasks ----------------------------------------------------------------------


def action(length: int, *, copy: bool = False) -> StripeAction:
    fact = StripeFacts(
        file=0, number=0, rows=1, length=length, deleted=0, aborted=0, timezone="UTC", no_copy=None
    )  # fmt: skip
    return StripeAction(copy=copy, stripes=(fact,), reason="")


def test_little_is_left_to_one_task() -> None:
    assert shares([action(100), action(99)], 100) == ()
    assert shares([action(10_000)], 100) == ()
    assert shares([action(10_000, copy=True), action(150)], 100) == ()
    assert shares([action(1000), action(1000)], 0) == ()


def test_the_largest_are_dealt_first() -> None:
    lengths = [10, 90, 20, 80, 50, 50]
    found = shares([action(length) for length in lengths], 100)
    assert sorted(sum(lengths[number] for number in part) for part in found) == [100, 100, 100]


@given(st.lists(st.tuples(st.integers(1, 1000), st.booleans())), st.integers(1, 2000))
def test_every_rewriting_action_is_in_one_part(made: list[tuple[int, bool]], part_bytes: int) -> None:
    actions = [action(length, copy=copy) for length, copy in made]
    found = shares(actions, part_bytes)
    numbers = [number for part in found for number in part]
    wanted = [number for number, (_, copy) in enumerate(made) if not copy]
    assert not found or sorted(numbers) == wanted
    assert all(part == tuple(sorted(part)) and part for part in found)
    if found:
        loads = [sum(made[number][0] for number in part) for part in found]
        assert max(loads) - min(loads) <= max(made[number][0] for number in wanted)
