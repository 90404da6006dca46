"""A runner that works in threads, as executors do beside the driver: many places are under way at a time."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from acidlib.service.services import Application, Done, Task, attempt


class ThreadRunner:
    """Runs each batch in a thread, and notes which tasks shared one."""

    application = Application()

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots
        self.jobs: list[tuple[str, list[list[Any]]]] = []
        self.cancelled = threading.Event()

    def start(self) -> None:
        """It is here."""

    def run(self, batches: Sequence[Sequence[Task]], *, group: str) -> list[list[Done[Any]]]:
        self.jobs.append((group, [[task.work for task in batch] for batch in batches]))
        with ThreadPoolExecutor(max(1, len(batches))) as pool:
            return list(pool.map(_run, batches))

    def cancel(self) -> None:
        self.cancelled.set()


def _run(batch: Sequence[Task]) -> list[Done[Any]]:
    return [attempt(task.work, uuid.uuid4().hex) for task in batch]
