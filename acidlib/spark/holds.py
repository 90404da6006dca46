"""Snapshots that stay open until what reads them is garbage-collected: one thread looks, and releases their locks."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

LOOK_SECONDS = 2.0
"""The pause between two looks at what is held."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldSnapshot:
    """A snapshot that is held until `is_over` is true; then `release` is called once, in a thread of its own.

    is_over  quick, and called every few seconds; its errors count as true: a JVM that does not answer reads no more
    """

    is_over: Callable[[], bool]
    release: Callable[[], None]


class Holds:
    """The snapshots that this process holds. They are released at the end of the interpreter at the latest."""

    def __init__(self, pause: Callable[[threading.Event], object] = lambda event: event.wait(LOOK_SECONDS)) -> None:
        self._pause = pause
        self._held: set[HeldSnapshot] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, hold: HeldSnapshot) -> None:
        """Hold a snapshot."""
        with self._lock:
            self._held.add(hold)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="acidlib-holds", daemon=True)
                self._thread.start()

    def __len__(self) -> int:
        with self._lock:
            return len(self._held)

    def look(self) -> None:
        """Release what is over."""
        with self._lock:
            held = tuple(self._held)
        for hold in held:
            if _is_over(hold):
                self.release(hold)

    def release(self, hold: HeldSnapshot) -> None:
        """Release a snapshot now, unless that has been done."""
        with self._lock:
            if hold not in self._held:
                return
            self._held.remove(hold)
        with suppress(Exception):  # without heartbeats the metastore ends the lock after its timeout
            hold.release()

    def release_all(self) -> None:
        """Release everything, as at the end of the interpreter."""
        with self._lock:
            held = tuple(self._held)
        for hold in held:
            self.release(hold)

    def _watch(self) -> None:
        """Look again and again, until nothing is held."""
        event = threading.Event()
        while True:
            self._pause(event)
            self.look()
            with self._lock:
                if not self._held:
                    self._thread = None
                    return


def _is_over(hold: HeldSnapshot) -> bool:
    try:
        return hold.is_over()
    except Exception:
        return True


OF_THIS_PROCESS = Holds()
atexit.register(OF_THIS_PROCESS.release_all)
