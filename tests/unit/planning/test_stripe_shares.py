"""How the rewriting of a bucket is shared out among tasks."""

from hypothesis import given
from hypothesis import strategies as st

from acidlib.model.units import StripeAction, StripeFacts
from acidlib.planning.stripes import shares


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
