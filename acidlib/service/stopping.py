"""The effect of signals on a run: the first one stops it in order, a later one ends it at once.

In order means by `KeyboardInterrupt` in the main thread, whichever signal it was: publications that have begun are
finished, and all other places are given back.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, the signal of schedulers, and a terminal that closes."""
_NOTICE_SECONDS = 1.0
_SAME_SECONDS = 0.5
"""Within them a second signal is the same request: `timeout` and shells signal a process and its group."""


class Stopping:
    """The stopping of a run: the signal, and whether it waits for the end of a shield."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._shields = 0
        self._is_waiting = False
        self.by: signal.Signals | None = None

    @contextmanager
    def by_signals(self, write: Callable[[str], None], end: Callable[[int], None]) -> Iterator[None]:
        """Let signals stop the body of the `with`. Ignored signals stay ignored, as below `nohup`.

        write  writes a line about a signal
        end    ends the process at once, with an exit status

        Both are called in a thread of their own: the main thread learns of a signal only when a call that it waits for
        returns, such as one of a database.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self.by, self._is_waiting = None, False
        noticed = threading.Event()

        def handle(number: int, frame: FrameType | None) -> None:
            del frame
            if self.by is not None:
                return
            self.by = signal.Signals(number)
            noticed.wait(_NOTICE_SECONDS)
            # Spark's JVM may get the signal, too, and py4j logs a traceback for every thread that waits for its answer
            logging.disable()
            if self._shields:
                self._is_waiting = True
            else:
                raise KeyboardInterrupt

        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        watcher = threading.Thread(target=self._watch, args=(reader, noticed, write, end), name="acidlib-signals")
        watcher.daemon = True
        watcher.start()
        awake = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        before = {number: signal.getsignal(number) for number in SIGNALS}
        try:
            for number, handler in before.items():
                if handler is not signal.SIG_IGN:
                    signal.signal(number, handle)
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(awake)
            os.close(writer)
            watcher.join()
            os.close(reader)
            logging.disable(logging.NOTSET)

    def _watch(
        self, reader: int, noticed: threading.Event, write: Callable[[str], None], end: Callable[[int], None]
    ) -> None:
        """Write a line about the first signal, and end the process at a later one; return when the pipe is closed."""
        first_at: float | None = None
        while data := os.read(reader, 1):
            if data[0] not in SIGNALS:
                continue
            name = signal.Signals(data[0]).name
            if first_at is None:
                first_at = self._clock()
                write(f"stopping by {name}: publications under way are finished, all other places are given back")
                noticed.set()
            elif self._clock() - first_at >= _SAME_SECONDS:
                write(f"ended at once by another {name}: the next run gives back the places that were under way")
                end(exit_status(data[0]))

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Delay the stop until the body of the `with` has ended, also by an error; in the main thread."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
            self.look()

    def look(self) -> None:
        """Raise KeyboardInterrupt if a signal waits, also below a shield."""
        if self._is_waiting:
            self._is_waiting = False
            raise KeyboardInterrupt


STOPPING = Stopping()
"""The one of this process, as signals reach all of it."""


@contextmanager
def told_when_stopped(words: Callable[[], str]) -> Iterator[None]:
    """Give the interrupt that stops the body of the `with` these words about its outcome."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(words()) from None


def exit_status(number: int) -> int:
    """Return the exit status of a run that a signal has stopped, as shells have it."""
    return 128 + number


def write_line(line: str) -> None:
    """Write a line to standard error past all buffers: another thread may be in the middle of a line."""
    with suppress(OSError):
        os.write(2, f"{line}\n".encode(errors="replace"))
