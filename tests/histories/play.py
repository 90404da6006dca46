"""Playing a history from its seed: random steps, each judged."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest
from integration.harness import Jobs
from judges import merge

from histories.history import History
from histories.judge import Judge
from histories.maintenance import Maintenance, on_own_time

STEPS = {
    "transaction": 30,
    "begin": 6,
    "statement": 14,
    "end": 8,
    "load": 3,
    "overwrite": 3,
    "open stream": 4,
    "stream": 12,
    "close stream": 2,
    "open reader": 8,
    "close reader": 3,
    "add column": 2,
    "drop": 3,
    "pass time": 12,
    "compact": 22,
    "initiate": 5,
    "drain": 8,
    "clean": 10,
}
CRASH = 0.25


class FailedError(AssertionError):
    """A history that went wrong: its seed, and all that happened, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """How many steps were judged, and what was done how often."""

    steps: int
    did: Counter[str]


def play(seed: int, folder: Path, *, steps: int, reads_snapshots: bool = False) -> Played:
    """The history of a seed, read by the snapshot reader, too, if so asked. Raises FailedError."""
    shutil.rmtree(folder, ignore_errors=True)
    history = History(seed, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "rows_of", lru_cache(maxsize=2000)(merge.rows_of))
        patch.setenv("ACIDLIB_HOME", str(folder / "home"))
        patch.delenv("HIVE_CONF_DIR", raising=False)
        patch.delenv("ACIDLIB_QUEUE_URL", raising=False)
        on_own_time(patch, lambda: history.clock)
        judge = Judge(history, reads_snapshots=reads_snapshots)
        player = _Player(history, judge, Jobs(queue_url=f"sqlite:///{folder / 'queue.db'}"))
        done = 0
        try:
            for done in range(1, steps + 1):  # noqa: B007 - told below
                player.step()
            player.finish()
        except Exception as error:
            told = "\n".join(history.words)
            raise FailedError(f"seed {seed}, step {done}: {type(error).__name__}: {error}\n{told}") from error
    shutil.rmtree(folder)
    return Played(steps=steps, did=player.did)


class _Player:
    def __init__(self, history: History, judge: Judge, jobs: Jobs) -> None:
        history.root.mkdir(parents=True, exist_ok=True)
        self._history = history
        self._judge = judge
        self._jobs = Maintenance(history, jobs)
        self._names, self._weights = zip(*STEPS.items(), strict=True)

    @property
    def did(self) -> Counter[str]:
        return self._jobs.did + Counter({"late": self._judge.late, "snapshots": self._judge.snapshots})

    def step(self) -> None:
        (name,) = self._history.rng.choices(self._names, self._weights)
        self._do(name)
        self._judge.check()

    def finish(self) -> None:
        self._jobs.settle()
        self._judge.check()

    def _do(self, name: str) -> None:
        history, jobs, rng = self._history, self._jobs, self._history.rng
        if name in ("compact", "initiate", "drain", "clean"):
            getattr(jobs, name)(crash=rng.random() < CRASH)
        elif name == "transaction":
            self._transaction()
        elif name == "begin" and len(history.writers) < 2:
            history.begin()
        elif name == "statement" and history.writers:
            history.statement(rng.choice(history.writers))
        elif name == "end" and history.writers:
            history.end(rng.choice(history.writers), abort=rng.random() < 0.3)
        elif name == "load":
            writer = history.begin()
            history.load(writer)
            history.end(writer, abort=rng.random() < 0.15)
        elif name == "overwrite":
            history.overwrite(rng.choice(history.places))
        elif name == "open stream" and len(history.streams) < 2:
            history.open_stream()
        elif name == "stream" and history.streams:
            history.stream_on(rng.choice(history.streams))
        elif name == "close stream" and history.streams:
            history.close_stream(rng.choice(history.streams))
        elif name == "open reader" and len(history.readers) < 3:
            self._judge.pin(history.open_reader())
        elif name == "close reader" and history.readers:
            history.close(rng.choice(history.readers))
        elif name == "add column":
            history.add_column()
        elif name == "drop":
            history.drop(rng.choice(history.places))
        elif name == "pass time":
            history.pass_time(rng.choice([600, 3600, 6 * 3600, 13 * 3600, 26 * 3600]))

    def _transaction(self) -> None:
        """One that begins, does everything and ends in one step; now and then of several statements."""
        history, rng = self._history, self._history.rng
        writer = history.begin()
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            (history.load if rng.random() < 0.1 else history.statement)(writer)
        history.end(writer, abort=rng.random() < 0.15)
