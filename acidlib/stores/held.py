"""Claims that this process holds, and the threads that renew them."""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from types import TracebackType
from typing import Protocol, Self

from acidlib.errors import AcidError, ConflictError
from acidlib.model.location import Location

# --- beats ------------------------------------------------------------------------------------------------------------
# Signs of life of all that a process holds: from few threads, and from more only while stores do not answer.
#
# A run may hold a thousand places. One that waits for a store in vain must not keep the others from being renewed: so
# nothing that is due waits longer than `PATIENCE_SECONDS` for threads that are stuck before there are more of them,
# twice as many each time.

FEW = 4
"""Threads that are at work at a time while stores answer."""
PATIENCE_SECONDS = 2.0


class Beating(Protocol):
    """Something that gives signs of life."""

    def beat(self) -> bool:
        """Give one, however long it takes; False when no more are wanted."""


class Beats:
    """Threads that give the signs of life of what was added, until it is removed. They end when nothing is left."""

    def __init__(
        self, *, few: int = FEW, patience_seconds: float = PATIENCE_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` gives seconds that never go back."""
        self._few = few
        self._patience = patience_seconds
        self._clock = clock
        self._start_anew()

    def add(self, one: Beating, every_seconds: float) -> None:
        """The first sign of life comes after `every_seconds`, and then one after each."""
        with self._changed:
            self._every[one] = every_seconds
            self._put(one)
            self._have_a_watcher()
            self._changed.notify_all()

    def remove(self, one: Beating) -> None:
        """No further signs of life; one that is being given goes on to its end. Nothing for what is not there."""
        with self._changed:
            self._every.pop(one, None)
            if not self._every:
                self._due.clear()
                self._changed.notify_all()

    def _start_anew(self) -> None:
        """Without threads and without what was added; also in a forked child, which has neither."""
        self._changed = threading.Condition()
        self._every: dict[Beating, float] = {}
        self._due: list[tuple[float, int, Beating]] = []  # a heap, without those that are being given
        self._order = count()
        self._threads = 0
        self._busy = 0

    def _put(self, one: Beating) -> None:
        heappush(self._due, (self._clock() + self._every[one], next(self._order), one))

    def _have_a_watcher(self) -> None:
        """As long as anything will be due, one thread waits for it."""
        if self._due and self._threads == self._busy:
            threading.Thread(target=self._work, name="acidlib-claims", daemon=True).start()
            self._threads += 1

    def _work(self) -> None:
        with self._changed:
            while (one := self._next()) is not None:
                self._busy += 1
                with suppress(RuntimeError):  # no more threads are to be had: then those that there are have to do
                    self._have_a_watcher()
                goes_on = self._beaten(one)
                self._busy -= 1
                if goes_on and one in self._every:
                    self._put(one)
                self._changed.notify_all()
            self._threads -= 1

    def _next(self) -> Beating | None:
        """What is due, once it is; None when this thread is not needed any more."""
        while self._due:
            due, _, one = self._due[0]
            late = self._clock() - due
            if one not in self._every:
                heappop(self._due)
            elif late >= 0 and self._busy < self._few << min(int(late / self._patience), 16):
                heappop(self._due)
                return one
            elif self._threads - self._busy > 1:
                return None  # another one watches
            else:
                self._changed.wait(-late if late < 0 else self._patience - late % self._patience)
        return None

    def _beaten(self, one: Beating) -> bool:
        """Lets one give its sign of life, while others may go on."""
        self._changed.release()
        try:
            return one.beat()
        except Exception:  # whatever is wrong with one must not end the others, and it is tried again
            return True
        finally:
            self._changed.acquire()


BEATS = Beats()
"""Those of this process."""
os.register_at_fork(after_in_child=BEATS._start_anew)


# --- held -------------------------------------------------------------------------------------------------------------
# A claim that this process holds, whatever its store: renewed until it is released.

BEAT_SECONDS = 30.0


class Claim(ABC):
    """Use it as a context manager. Call `assert_mine` right before anything becomes visible or is deleted."""

    def __init__(self, location: Location, token: str, beat_seconds: float) -> None:
        """Begins to renew: what `renew` needs has to be there.

        location  the place that is claimed
        token     what tells this claim from all others
        """
        self.location = location
        self.token = token
        self._lock = threading.Lock()
        self._lost: str | None = None
        BEATS.add(self, beat_seconds)

    @abstractmethod
    def renew(self) -> bool:
        """Tell the store that the owner lives; False if the claim is no longer ours. One thread at a time calls it."""

    @abstractmethod
    def give_up(self) -> None:
        """Tell the store that nobody holds the claim any more, unless it is another's."""

    def assert_mine(self) -> None:
        """Renews the claim; raises `ConflictError` if somebody else has taken it over or it is gone."""
        with self._lock:
            if self._lost is None and not self.renew():
                self._lost = "somebody else has taken it over or removed it"
            if self._lost is not None:
                raise ConflictError(
                    f"Cannot go on in {self.location}: our claim on it is lost, {self._lost}; call again"
                )

    def release(self) -> None:
        """Stops renewing and gives the claim up, unless it is no longer ours. May be called again."""
        BEATS.remove(self)
        with self._lock:  # a renewal that is under way ends before
            if self._lost is None:
                self._lost = "it was released"
                self.give_up()

    def __enter__(self) -> Self:
        """The claim itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Releases it."""
        try:
            self.release()
        except AcidError:
            if error is None:
                raise  # else the first error is the one to report; the claim goes stale by itself

    def beat(self) -> bool:
        """Renews it; False once it is lost or released."""
        try:
            self.assert_mine()
        except ConflictError:
            return False
        except AcidError:
            pass  # it may be out of reach for a while: the next renewal, or assert_mine, will show it
        return True
