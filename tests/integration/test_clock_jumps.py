"""The clock of the machine is set while jobs run: nothing is lost, doubled or stuck."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from claim_directories import ELSEWHERE, holder_of, lay_claim
from judges import merge

from acidlib.places import removals
from acidlib.runs import plan as units
from acidlib.stores.renaming.store import RenameStage
from integration.harness import AROUND, Jobs, fixture, names, visible

HOUR, DAY = 3600, 86_400
RUN = ("--all-committed",)


class Wall:
    """A clock that tests set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        monkeypatch.setattr(AROUND, "clock", lambda: time.time() + self.ahead)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    return Wall(monkeypatch)


def before(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, action: Callable[[], None]) -> None:
    real = getattr(module, name)

    def wrapped(*arguments: Any, **more: Any) -> Any:
        action()
        return real(*arguments, **more)

    monkeypatch.setattr(module, name, wrapped)


@pytest.mark.pairs
@pytest.mark.parametrize("jump", [-DAY, -HOUR, HOUR, 3 * DAY])
@pytest.mark.parametrize("when", ["run_unit_task", "publish"])
def test_while_it_compacts(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wall: Wall, when: str, jump: float
) -> None:
    place = fixture("hive3/a_crud", tmp_path / "t")
    rows = merge.read(place)

    def jumps() -> None:
        wall.ahead = jump

    with monkeypatch.context() as patch:
        before(patch, units if when == "run_unit_task" else RenameStage, when, jumps)
        (entry,) = jobs.good("major_compact", "--location", place, *RUN).compactions
    assert entry["state"] == "ready for cleaning"
    assert merge.read(place, strict=True) == rows
    wall.ahead = 0  # and it is set right again
    jobs.good("initiator", "--location", place, *RUN)
    assert merge.read(place, strict=True) == rows
    wall.ahead = 8 * DAY
    jobs.good("cleaner")
    assert visible(place) == ["base_0000004"]
    assert merge.read(place, strict=True) == rows
    assert [name for name in names(place) if name.startswith(("_tmp", "_acidlib"))] == []
    assert {row["state"] for row in jobs.shown().values()} == {"succeeded"}


@pytest.mark.parametrize("jump", [-DAY, -HOUR, HOUR, 3 * DAY])
def test_while_it_cleans(jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wall: Wall, jump: float) -> None:
    place = fixture("hive3/a_crud", tmp_path / "t")
    rows = merge.read(place)
    jobs.good("major_compact", "--location", place, *RUN)

    def jumps() -> None:
        wall.ahead = jump

    with monkeypatch.context() as patch:
        before(patch, removals, "remove_paths", jumps)
        jobs.good("cleaner", "--retention", "0s")
    assert visible(place) == ["base_0000004"]
    assert merge.read(place, strict=True) == rows
    assert {row["state"] for row in jobs.shown().values()} == {"succeeded"}


def test_a_claim_of_a_clock_that_was_ahead_ends_when_it_is_set_right(jobs: Jobs, tmp_path: Path, wall: Wall) -> None:
    """Its owner was killed on another machine."""
    place = fixture("hive3/a_crud", tmp_path / "t")
    lay_claim(place, age=-3 * DAY, process=ELSEWHERE)
    assert jobs.good("major_compact", "--location", place, *RUN).states == ["ready for cleaning"]


def test_a_live_run_keeps_its_request_however_far_this_clock_is_ahead(jobs: Jobs, tmp_path: Path, wall: Wall) -> None:
    """Whether its claim is stale is for the clock of the file system to say."""
    place, other = fixture("hive3/a_crud", tmp_path / "t"), "acidlib-other-host"
    jobs.good("initiator", "--location", place, *RUN, "--set", "hive.compactor.delta.num.threshold=1")
    with jobs.queue() as queue:
        queue.claim_id(1, other, round(time.time() * 1000))
    claim = lay_claim(place, other, process=ELSEWHERE)
    wall.ahead = HOUR
    assert jobs.good("major_compact").states == []
    assert jobs.shown()[1]["state"] == "working"
    assert holder_of(place) == other
    wall.ahead = 0
    now = time.time()
    os.utime(claim, (now - HOUR, now - HOUR))
    assert jobs.good("major_compact").states == ["ready for cleaning"]
