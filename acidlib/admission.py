"""How many threads are let to work at a time on what mostly waits: all where it does, few where it computes.

The threads of one Python process compute one at a time, and every call of the system hands that right to another. A
remote store keeps them waiting, and sixteen do sixteen times as much as one. A local disk answers at once: there
sixteen do no more than one, and spend most of the processor on waking each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Condition

THREADS = 16
"""How many work at a time at most: it is the answers of stores that are waited for."""
_LOOK_SECONDS = 0.1
_WAITS, _COMPUTES = 0.7, 1.0


def next_limit(admitted: int, busy: float) -> int:
    """Return how many work at a time from now on.

    busy  seconds of processor that the process took per second, while so many of its threads worked
    """
    if busy > _COMPUTES:
        return max(1, admitted // 2)
    return min(THREADS, 2 * admitted) if busy < _WAITS else admitted


class AdaptiveLimit:
    """A limit of threads that work at a time, as many as are worth it; it is entered around each piece of work.

    All are let in at first. Whether that was too many is looked at ten times a second, also while all that were let
    in hang, by those that wait for them.
    """

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, processor: Callable[[], float] = time.process_time
    ) -> None:
        self._clock, self._processor = clock, processor
        self._changed = Condition()
        self._admitted, self._inside = THREADS, 0
        self._since, self._spent = clock(), processor()

    def __enter__(self) -> None:
        with self._changed:
            while self._inside >= self._admitted:
                self._changed.wait(_LOOK_SECONDS)
                self._look()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._inside -= 1
            self._look()
            self._changed.notify()

    def _look(self) -> None:
        passed = (now := self._clock()) - self._since
        if passed < _LOOK_SECONDS:
            return
        spent = self._processor()
        before, self._admitted = self._admitted, next_limit(self._admitted, (spent - self._spent) / passed)
        self._since, self._spent = now, spent
        if self._admitted > before:
            self._changed.notify_all()


OF_THIS_PROCESS = AdaptiveLimit()
"""What was learned stays known between pieces of work: the processor time that it goes by is that of the process."""
