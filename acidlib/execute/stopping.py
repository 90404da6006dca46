"""The effect of signals on a run: the first one stops it in order, a later one ends the process of a command at once.

In order means by `KeyboardInterrupt` in the main thread, whichever signal it was: publications that have begun are
finished, and all other places are left as they were. Signals interrupt the main thread alone, so only a run there is
stopped: in other threads of a program runs go on to their ends, and nothing here concerns them.
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
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, the signal of schedulers, and a terminal that closes."""
_STOPPING_BY = "stopping by {}: publications under way are finished, all other places are left as they were"
_NOTICE_SECONDS = 1.0
_SAME_SECONDS = 0.5
"""Within them a second signal is the same request: `timeout` and shells signal a process and its group."""

LEFT = "what was done stays, everything else is as it was"
"""What an interrupt says that no run has explained."""

Handler = Callable[[int, FrameType | None], Any]


class Stopping:
    """The stopping of the run in the main thread: the signal, and what is done about it at the end of a shield."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._handles_signals = False
        self._shields = 0
        self._waiting: Callable[[], None] | None = None
        self.by: signal.Signals | None = None

    @contextmanager
    def by_signals(self, write: Callable[[str], None], end: Callable[[int], None]) -> Iterator[None]:
        """Let signals stop the body of the `with`. Ignored signals stay ignored, as below `nohup`.

        write  writes a line about a signal
        end    ends the process at once, with an exit status

        Both are called in a thread of their own: the main thread learns of a signal only when a call that it waits for
        returns, such as one of a database.
        """
        if not _is_main_thread():
            yield
            return
        self.by, self._waiting = None, None
        noticed = threading.Event()

        def handle(number: int, frame: FrameType | None) -> None:
            del frame
            if self.by is not None:
                return
            self.by = signal.Signals(number)
            noticed.wait(_NOTICE_SECONDS)
            # Spark's JVM may get the signal, too, and py4j logs a traceback for every thread that waits for its answer
            logging.disable()
            self._after_shields(_interrupt)

        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        watcher = threading.Thread(target=self._watch, args=(reader, noticed, write, end), name="acidlib-signals")
        watcher.daemon = True
        watcher.start()
        awake = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        before = {number: signal.getsignal(number) for number in SIGNALS}
        self._handles_signals = True
        try:
            for number, handler in before.items():
                if handler is not signal.SIG_IGN:
                    signal.signal(number, handle)
            yield
        finally:
            self._handles_signals = False
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
                write(_STOPPING_BY.format(name))
                noticed.set()
            elif self._clock() - first_at >= _SAME_SECONDS:
                write(f"ended at once by another {name}: the next run gives back the places that were under way")
                end(exit_status(data[0]))

    @contextmanager
    def in_program(self, write: Callable[[str], None]) -> Iterator[None]:
        """Have the handlers of a Python program wait for the end of a shield in the body of the `with`.

        They are those of SIGINT, which by default raises KeyboardInterrupt as in a notebook, of SIGTERM and of SIGHUP;
        signals that Python does not handle do what they did. Once a handler has raised, later signals change nothing,
        so that all places are given back. Does nothing in other threads, and within a command.

        write  writes a line about a signal that stops the run
        """
        if not _is_main_thread() or self._handles_signals:
            yield
            return
        handlers: dict[int, Handler] = {
            number: handler for number in SIGNALS if callable(handler := signal.getsignal(number))
        }
        is_stopped = False

        def handle(number: int, frame: FrameType | None) -> None:
            if not is_stopped and self._waiting is None:
                self._after_shields(lambda: act(number, frame))

        def act(number: int, frame: FrameType | None) -> None:
            nonlocal is_stopped
            try:
                if _only_interrupts(handlers[number]):
                    raise KeyboardInterrupt
                handlers[number](number, frame)
            except BaseException:
                is_stopped, self.by = True, signal.Signals(number)
                with suppress(Exception):  # the stream may be in the middle of a line
                    write(_STOPPING_BY.format(self.by.name))
                raise

        self._handles_signals = True
        try:
            for number in handlers:
                signal.signal(number, handle)
            yield
        finally:
            self._handles_signals = False
            for number, handler in handlers.items():
                if signal.getsignal(number) is handle:  # the body may have set another one
                    signal.signal(number, handler)
            self.by = None

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Delay the stop until the body of the `with` has ended, also by an error; see `look`."""
        if not _is_main_thread():
            yield
            return
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
            self.look()

    def look(self) -> None:
        """Stop if a signal waits, also below a shield, by KeyboardInterrupt or as a program handles it.

        In other threads than the main one nothing is delayed, and nothing is stopped.
        """
        if self._waiting is not None and _is_main_thread():
            stop, self._waiting = self._waiting, None
            stop()

    def _after_shields(self, stop: Callable[[], None]) -> None:
        if self._shields:
            self._waiting = stop
        else:
            stop()


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _interrupt() -> None:
    raise KeyboardInterrupt


def _only_interrupts(handler: Handler) -> bool:
    """Return whether a handler of SIGINT raises KeyboardInterrupt: Python's own one, and that of a SparkContext.

    The latter ends all jobs of the program before, of which the run ends only its own.
    """
    return handler is signal.default_int_handler or getattr(handler, "__module__", "").startswith("pyspark.")


STOPPING = Stopping()
"""The one of this process, which has one main thread."""


@contextmanager
def explain_interrupt(words: Callable[[], str]) -> Iterator[None]:
    """Give the interrupt that stops the body of the `with` these words about its outcome."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(words()) from None


def exit_status(number: int) -> int:
    """Return the exit status of a run that a signal has stopped, as shells have it."""
    return 128 + number
