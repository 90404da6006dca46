"""Delegation tokens as tasks take them up."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from acidlib.stores.hadoop import FILE_VARIABLE, HandedTokens


class Obtained:
    """Gives other tokens each time."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, authorities: tuple[str, ...]) -> bytes:
        self.asked.append(authorities)
        return f"tokens {len(self.asked)}".encode()


def test_each_task_brings_what_the_driver_has_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILE_VARIABLE, "/given/by/yarn")
    obtained = Obtained()
    driver = HandedTokens(obtained)
    pickle.dumps(driver)
    assert obtained.asked == []  # nobody has asked for a place where tokens are needed
    driver.use("nn:8020")
    driver.use("nn:8020")
    assert os.environ[FILE_VARIABLE] == "/given/by/yarn"
    sent = [pickle.dumps(driver) for _ in range(4)]
    assert obtained.asked == [("nn:8020",)] * 4
    for number, task in enumerate(sent, 1):
        there = pickle.loads(task)
        assert f"tokens {number}" not in repr(there)
        for _ in range(2):
            there.use("nn:8020")
            assert Path(os.environ[FILE_VARIABLE]).read_bytes() == b"tokens %d" % number
    # one that was about to be read a moment ago is still there, older ones are not
    left = [str(path.resolve()) for path in Path("/proc/self/fd").iterdir()]
    assert sum("acidlib-tokens" in path for path in left) == 2


def test_without_tokens_it_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILE_VARIABLE, "/given/by/yarn")
    there = pickle.loads(pickle.dumps(HandedTokens()))
    there.use("nn:8020")
    assert os.environ[FILE_VARIABLE] == "/given/by/yarn"
