"""A limit of threads that work on a store at a time: high while they wait, low while they compute.

The threads of one Python process compute one at a time, and every call of the system hands that right to another
thread. A remote store keeps threads waiting, and sixteen do sixteen times the work of one. A local disk answers at
once: there sixteen do no more than one, and spend most of the processor time on waking each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Condition

THREADS = 16
"""Threads that work at a time at most."""
_LOOK_SECONDS = 0.1
_WAITS, _COMPUTES = 0.7, 1.0


def next_limit(admitted: int, busy: float) -> int:
    """Return the limit from now on.

    busy  seconds of processor time per second that the process took, while `admitted` threads worked
    """
    if busy > _COMPUTES:
        return max(1, admitted // 2)
    return min(THREADS, 2 * admitted) if busy < _WAITS else admitted


class AdaptiveLimit:
    """A limit of threads that work at a time; each piece of work enters and leaves it.

    At first it admits all. Ten times a second it is adapted, by a thread that leaves, or by one that waits to enter
    while all admitted ones hang.
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
                self._adapt()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._inside -= 1
            self._adapt()
            self._changed.notify()

    def _adapt(self) -> None:
        passed = (now := self._clock()) - self._since
        if passed < _LOOK_SECONDS:
            return
        spent = self._processor()
        before, self._admitted = self._admitted, next_limit(self._admitted, (spent - self._spent) / passed)
        self._since, self._spent = now, spent
        if self._admitted > before:
            self._changed.notify_all()


OF_THIS_PROCESS = AdaptiveLimit()
"""The limit of this process, kept between pieces of work: it is adapted to the processor time of the whole process."""
