"""Runners that stand for Spark: one in the caller's thread, and one in threads, as executors work beside the driver."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from acidlib.execute.answers import answer_of
from acidlib.execute.task import Application, Task


class LocalRunner:
    """Runs tasks one after the other in the caller's thread; `unique` gives each attempt its text."""

    application = Application()
    slots = 0

    def __init__(self, unique: Callable[[], str]) -> None:
        self._unique = unique

    def start(self) -> None:
        """It is here."""

    def run_batches(self, batches: Sequence[Sequence[Task]], *, group: str) -> list[list[Any]]:
        del group
        return [[answer_of(task.work, self._unique()) for task in batch] for batch in batches]

    def cancel(self) -> None:
        """Nothing runs but what the caller waits for."""


class ThreadRunner:
    """Runs each batch in a thread, and notes which tasks shared one: many places are under way at a time."""

    application = Application()

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots
        self.jobs: list[tuple[str, list[list[Any]]]] = []
        self.cancelled = threading.Event()

    def start(self) -> None:
        """It is here."""

    def run_batches(self, batches: Sequence[Sequence[Task]], *, group: str) -> list[list[Any]]:
        self.jobs.append((group, [[task.work for task in batch] for batch in batches]))
        with ThreadPoolExecutor(max(1, len(batches))) as pool:
            return list(pool.map(_run, batches))

    def cancel(self) -> None:
        self.cancelled.set()


def _run(batch: Sequence[Task]) -> list[Any]:
    return [answer_of(task.work, uuid.uuid4().hex) for task in batch]
