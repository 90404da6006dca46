"""Signs of life for all claims, locks and transactions of a process, by few threads.

A run may hold a thousand places: each claim is a renewal, and all heartbeats to a metastore are one. A renewal that
waits for a server in vain must not delay the others: when a due renewal has waited `PATIENCE_SECONDS` for busy threads,
twice as many may work, and so on.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from heapq import heapify, heappop, heappush
from itertools import count

FEW = 4
"""Threads that are at work at a time while servers answer."""
PATIENCE_SECONDS = 2.0

Renewal = Callable[[], bool]
"""Gives one sign of life, however long that takes; returns False when no more are needed."""


class LeaseRenewer:
    """Threads that call renewals until these are removed.

    Most claims are released long before they are due: neither that nor a claim that is due later than others wakes the
    thread that waits. So the last thread ends when the next renewal would have been due.
    """

    def __init__(
        self, *, few: int = FEW, patience_seconds: float = PATIENCE_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` returns seconds that never go back."""
        self._few = few
        self._patience = patience_seconds
        self._clock = clock
        self._start_anew()

    def add(self, renewal: Renewal, every_seconds: float) -> None:
        """Call a renewal after `every_seconds`, and then again and again."""
        with self._changed:
            self._every[renewal] = every_seconds
            self._put(renewal)
            self._ensure_watcher()
            if self._due[0][0] < self._wakes_at:
                self._changed.notify_all()

    def remove(self, renewal: Renewal) -> None:
        """Stop calling a renewal; a call under way goes on to its end. Does nothing for an unknown renewal."""
        with self._changed:
            self._every.pop(renewal, None)
            if len(self._due) > 2 * len(self._every):  # what is renewed no more is not held until it is due
                self._due[:] = [entry for entry in self._due if entry[2] in self._every]
                heapify(self._due)

    def _start_anew(self) -> None:
        """Forget threads and renewals; a forked child has neither."""
        self._changed = threading.Condition()
        self._every: dict[Renewal, float] = {}
        self._due: list[tuple[float, int, Renewal]] = []  # a heap, without those that are being called
        self._order = count()
        self._wakes_at = float("inf")
        self._threads = 0
        self._busy = 0

    def _put(self, renewal: Renewal) -> None:
        heappush(self._due, (self._clock() + self._every[renewal], next(self._order), renewal))

    def _ensure_watcher(self) -> None:
        """Start a thread that waits for the next due renewal, if there is one and no thread waits."""
        if self._due and self._threads == self._busy:
            threading.Thread(target=self._work, name="acidlib-renewal", daemon=True).start()
            self._threads += 1

    def _work(self) -> None:
        with self._changed:
            while (renewal := self._next()) is not None:
                self._busy += 1
                with suppress(RuntimeError):  # the system gives no more threads: the present ones have to do
                    self._ensure_watcher()
                goes_on = True
                self._changed.release()
                try:
                    goes_on = renewal()
                except Exception:  # noqa: S110 - a failed renewal is tried again, and must not end the others
                    pass
                finally:
                    self._changed.acquire()
                self._busy -= 1
                if goes_on and renewal in self._every:
                    self._put(renewal)
                self._changed.notify_all()
            self._threads -= 1

    def _next(self) -> Renewal | None:
        """Wait for the next due renewal, and return it; None when this thread is no longer needed."""
        while self._due:
            due, _, renewal = self._due[0]
            late = self._clock() - due
            if renewal not in self._every:
                heappop(self._due)
            elif late >= 0 and self._busy < self._few << min(int(late / self._patience), 16):
                heappop(self._due)
                return renewal
            elif self._threads - self._busy > 1:
                return None  # another thread waits
            else:
                seconds = -late if late < 0 else self._patience - late % self._patience
                self._wakes_at = self._clock() + seconds
                self._changed.wait(seconds)
        return None


RENEWER = LeaseRenewer()
"""The renewer of this process."""
os.register_at_fork(after_in_child=RENEWER._start_anew)
