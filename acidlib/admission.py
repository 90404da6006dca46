"""A limit of threads that work on a store at a time: high while they wait, low while they compute.

The threads of one Python process compute one at a time, and every call of the system hands that right to another
thread. A remote store keeps threads waiting, and sixteen do sixteen times the work of one. A local disk answers at
once: there sixteen do no more than one, and spend most of the processor time on waking each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, get_ident

from acidlib.waiting import Piece, current_piece

THREADS = 16
"""Threads that work at a time at most."""
_LOOK_SECONDS = 0.1
_WAITS, _COMPUTES = 0.7, 1.0


def next_limit(admitted: int, busy: float) -> int:
    """Return the limit from now on.

    busy  seconds of processor time per second that the `admitted` threads took
    """
    if busy > _COMPUTES:
        return max(1, admitted // 2)
    return min(THREADS, 2 * admitted) if busy < _WAITS else admitted


class AdaptiveLimit:
    """A limit of threads that work at a time; each piece of work enters and leaves it.

    At first it admits all. Ten times a second it is adapted, by a thread that leaves, or by one that waits to enter
    while all admitted ones hang. Other threads of the process, such as those of a notebook, do not count, nor do those
    that were left behind.
    """

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, processor: Callable[[int], float] = time.clock_gettime
    ) -> None:
        """`processor` returns the processor time of a thread, by the number of its clock."""
        self._clock, self._processor = clock, processor
        self._changed = Condition()
        self._admitted = THREADS
        self._inside: dict[int, _Admitted] = {}
        self._since, self._spent = clock(), 0.0

    def __enter__(self) -> None:
        with self._changed:
            while len(self._inside) >= self._admitted:
                self._changed.wait(_LOOK_SECONDS)
                self._adapt()
            number = time.pthread_getcpuclockid(get_ident())
            self._inside[get_ident()] = _Admitted(number, self._processor(number), current_piece())

    def __exit__(self, *_: object) -> None:
        with self._changed:
            if (left := self._inside.pop(get_ident(), None)) is not None:
                self._spent += self._processor(left.clock) - left.spent
            self._adapt()
            self._changed.notify()

    def _adapt(self) -> None:
        passed = (now := self._clock()) - self._since
        if passed < _LOOK_SECONDS:
            return
        for thread, admitted in list(self._inside.items()):
            if admitted.piece is not None and admitted.piece.given_up is not None:
                del self._inside[thread]
                continue
            spent = self._processor(admitted.clock)
            self._spent += spent - admitted.spent
            admitted.spent = spent
        before, self._admitted = self._admitted, next_limit(self._admitted, self._spent / passed)
        self._since, self._spent = now, 0.0
        if self._admitted > before:
            self._changed.notify_all()


@dataclass(slots=True)
class _Admitted:
    """An admitted thread: the number of its clock, its processor time when it was looked at last, and its work."""

    clock: int
    spent: float
    piece: Piece | None


OF_THIS_PROCESS = AdaptiveLimit()
"""The limit of this process, kept between pieces of work."""
