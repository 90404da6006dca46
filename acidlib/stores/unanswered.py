"""Servers that were waited for in vain: a run waits for each of them once, and not at every place that lies there."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 60.0
"""For how long after a wait in vain nothing is asked: a run never waits for more than about half of its time."""


class Unanswered:
    """What one run knows of servers that do not answer; threads share it.

    Whoever would ask one is told at once what the one who waited was told. Pickled it knows of none: a task waits for
    itself.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is in seconds, from any beginning."""
        self._clock = clock
        self._noted: dict[str, tuple[float, str]] = {}

    def __reduce__(self) -> tuple[type[Unanswered], tuple[()]]:
        return Unanswered, ()

    def note(self, server: str, reason: str) -> None:
        """A server has just been waited for in vain."""
        self._noted[server] = self._clock() + SECONDS, reason

    def reason(self, server: str) -> str | None:
        """Why a server is not to be asked now; None when it is."""
        until, reason = self._noted.get(server, (0.0, ""))
        return reason if reason and self._clock() < until else None
