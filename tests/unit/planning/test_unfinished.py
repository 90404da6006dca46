"""What makes a recorded publication obsolete."""

from __future__ import annotations

import pytest

from acidlib.planning.unfinished import covering

PAIR = ("delta_0000003_0000005", "delete_delta_0000003_0000005")
INPUTS = ("delta_0000003_0000003_0000", "delta_0000005_0000005_0000")


@pytest.mark.parametrize(
    ("recorded", "there", "base", "delta"),
    [
        (PAIR, (), None, None),
        (PAIR, (*PAIR, *INPUTS), None, None),
        (PAIR, ("base_0000005",), "base_0000005", None),
        (PAIR, ("base_0000004", "base_0000007", "base_0000009"), "base_0000007", None),
        # whether its transaction was committed is not known
        (PAIR, ("base_0000007_v0000012",), None, None),
        (PAIR, ("delta_0000003_0000006",), None, "delta_0000003_0000006"),
        (PAIR, ("delete_delta_0000001_0000005",), None, "delete_delta_0000001_0000005"),
        (PAIR, ("delta_0000004_0000009", "delta_0000001_0000004", "000000_0", "_tmp_x"), None, None),
        # it was made of the half that is visible, whatever became of it
        (PAIR, ("delta_0000001_0000009_v0000012",), None, "delta_0000001_0000009_v0000012"),
        (PAIR, ("base_0000005", "delta_0000001_0000009"), "base_0000005", "delta_0000001_0000009"),
        (("base_0000005",), ("base_0000005_v0000009", "delta_0000001_0000009"), None, None),
        (("base_0000005",), ("base_0000006",), "base_0000006", None),
        (("base_0000005_v0000009",), ("base_0000005",), None, None),
        # an input of the same range covers nothing
        (("delta_0000003_0000003",), ("delta_0000003_0000003_0000",), None, None),
        (("no name of Hive",), ("base_0000009",), None, None),
    ],
)
def test_covering(recorded: tuple[str, ...], there: tuple[str, ...], base: str | None, delta: str | None) -> None:
    assert covering(there, recorded, INPUTS) == (base, delta)


def test_a_base_with_a_suffix_counts_where_its_commit_was_seen() -> None:
    assert covering(("base_0000007_v0000012",), PAIR, INPUTS, uncommitted=True) == ("base_0000007_v0000012", None)
