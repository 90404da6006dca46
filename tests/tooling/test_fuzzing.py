"""The seeds of fuzzing, and its children: whatever ends one of them is the failure of the seed that did."""

from __future__ import annotations

import os
import signal
import time
from itertools import count

import numpy as np
import pytest
from fuzzing import SECONDS, Phase, in_children, seeds


def work(seed: int, phase: Phase) -> str:
    phase("first", 300)
    if seed == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if seed == 4:
        raise ValueError("four")
    phase("second", 0.2 if seed == 5 else 300)
    if seed == 5:
        time.sleep(300)
    if seed == 6:
        np.empty(1 << 40, np.uint8)
    return f"did {seed}"


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_one_seed_fails_and_the_others_go_on(batch: int) -> None:
    found = list(in_children(iter(range(9)), work, batch=batch))
    assert [outcome.seed for outcome in found] == list(range(9))
    fine = [outcome.text for outcome in found if not outcome.died and not outcome.raised]
    assert fine == [f"did {seed}" for seed in (0, 1, 2, 7, 8)]
    assert [(o.seed, o.phase, o.text) for o in found if o.died] == [
        (3, "first", "the child ended with -9"),
        (5, "second", "the child ended with -14"),
    ]
    raised = [(outcome.seed, outcome.text) for outcome in found if outcome.raised]
    assert raised[0][0] == 4
    assert raised[0][1].startswith("ValueError at test_fuzzing.py:")
    assert raised[1][0] == 6
    assert "MemoryError" in raised[1][1]


def test_a_fixed_number_of_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SECONDS, raising=False)
    assert list(seeds(5)) == [0, 1, 2, 3, 4]


def test_random_seeds_for_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECONDS, "20")
    first, second, *random = seeds(2, clock=count().__next__)  # a second passes with each
    assert (first, second) == (0, 1)
    assert len(set(random)) == len(random) == 19
    assert min(random) >= 2
