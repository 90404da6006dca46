"""Threads for calls that may never return.

A call to a file system whose server is gone waits for as long as that is away, and nothing in the process can end it.
So work notes the call that it waits for. Piece whose call has not been answered for too long is given up: it counts as
failed, its claims are not renewed any more, and its thread is left behind. Threads are daemons: neither a run nor the
end of the process waits for one that was left. The processes of tasks do the same (`in_time`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from typing import Any, ParamSpec, TypeVar

from acidlib.errors import HangingError

Argument = TypeVar("Argument")
Value = TypeVar("Value")
Arguments = ParamSpec("Arguments")


class Piece:
    """Work on one place, by one thread at a time.

    asked     what it does at which path, and since when it waits for the answer (monotonic seconds); None = nothing
    given_up  why it was given up; None = it was not
    """

    __slots__ = ("asked", "given_up", "is_done")

    def __init__(self) -> None:
        self.asked: tuple[str, str, float] | None = None
        self.given_up: HangingError | None = None
        self.is_done = False


_OF_THREAD = threading.local()


def current_piece() -> Piece | None:
    """Return the piece of work that this thread does; None in other threads than those of `Threads`."""
    piece: Piece | None = getattr(_OF_THREAD, "piece", None)
    return piece


class asking:  # noqa: N801 - used as a function; a generator would take longer than the guarded call
    """A block in which a file system is asked; one within another is an answer to that one."""

    __slots__ = ("_action", "_before", "_path", "_piece")

    def __init__(self, action: str, path: str) -> None:
        self._action, self._path = action, path

    def __enter__(self) -> None:
        self._piece = piece = getattr(_OF_THREAD, "piece", None)  # `current_piece`, for half of its time
        if piece is not None:
            self._before = piece.asked
            piece.asked = self._action, self._path, time.monotonic()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        del kind, error, trace
        if self._piece is not None:
            before = self._before
            self._piece.asked = None if before is None else (*before[:2], time.monotonic())


def answered() -> None:
    """Note that one of the many calls of an `asking` block was answered."""
    piece = current_piece()
    if piece is not None and piece.asked is not None:
        piece.asked = (*piece.asked[:2], time.monotonic())


def require_wanted() -> None:
    """Raise the HangingError by which the work of this thread was given up: it must not change anything any more."""
    piece = current_piece()
    if piece is not None and piece.given_up is not None:
        raise piece.given_up


class Threads(Executor):
    """A pool of daemon threads, at most so many at a time besides those that were left behind.

    At the end of its `with` it waits for work that has begun, unless that was given up before.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Future[Any], Callable[[], Any], Piece]] = deque()
        self._running: dict[Future[Any], Piece] = {}
        self._threads = self._idle = 0
        self._is_ending = False

    def submit(
        self, fn: Callable[Arguments, Value], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Value]:
        """Call a function in a thread, as soon as one is free."""
        return self.start(lambda: fn(*args, **kwargs), Piece())

    def start(self, call: Callable[[], Value], piece: Piece) -> Future[Value]:
        """Do a step of a piece of work in a thread, as soon as one is free."""
        future: Future[Value] = Future()
        with self._changed:
            self._waiting.append((future, call, piece))
            is_new = self._idle < len(self._waiting) and self._threads < self._most
            self._threads += is_new
            self._changed.notify()
        if is_new:
            threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        return future

    def give_up_hanging(self, seconds: float, *, all_of_them: bool = False) -> None:
        """Give up work that has waited for an answer so long: its future has a HangingError.

        all_of_them  whatever work waits for
        """
        now, left = time.monotonic(), list[tuple[Future[Any], HangingError]]()
        with self._changed:
            for future, piece in list(self._running.items()):
                call = piece.asked
                if piece.is_done or not (all_of_them or (call is not None and now - call[2] >= seconds)):
                    continue
                doing = "go on" if call is None else f"{call[0]} {call[1]}"
                since = seconds if call is None else now - call[2]
                piece.given_up = HangingError(
                    f"Cannot {doing}: there has been no answer for {since:.0f} s (acidlib.step.timeout); its thread is "
                    "left behind, and a claim of it goes stale"
                )
                del self._running[future]
                self._threads -= 1
                left.append((future, piece.given_up))
            self._changed.notify_all()
        for future, error in left:
            future.set_exception(error)

    def stop(self, seconds: float, at_most: float, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Begin nothing more, and wait for work that has begun, `meanwhile` being called now and then.

        seconds  work is given up that waits for one answer so long
        at_most  and all work after this time
        """
        self.shutdown(wait=False, cancel_futures=True)
        end = time.monotonic() + at_most
        while self._running:
            meanwhile()
            with self._changed:
                self._changed.wait_for(lambda: not self._running, timeout=_LOOK_SECONDS)
            self.give_up_hanging(seconds, all_of_them=time.monotonic() >= end)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001 - of Executor
        """End the threads once nothing waits; see `Executor.shutdown`."""
        with self._changed:
            self._is_ending = True
            cancelled = [entry[0] for entry in self._waiting] if cancel_futures else []
            if cancel_futures:
                self._waiting.clear()
            self._changed.notify_all()
        for future in cancelled:
            future.cancel()
        if wait:
            with self._changed:
                self._changed.wait_for(lambda: not (self._waiting or self._running))

    def _serve(self) -> None:
        while self._do_next():
            pass

    def _do_next(self) -> bool:
        """Do what waits longest; return False when this thread is no longer needed, or was left behind."""
        with self._changed:
            while not self._waiting:
                if self._is_ending:
                    self._threads -= 1
                    return False
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            future, call, piece = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                return True
            piece.is_done = False
            self._running[future] = piece
        value, raised = None, None
        _OF_THREAD.piece = piece
        try:
            value = call()
        except BaseException as error:
            raised = error
        _OF_THREAD.piece = None
        with self._changed:
            if piece.given_up is not None:
                return False  # another thread has the place of this one
            piece.is_done = True
        if raised is None:
            future.set_result(value)
        else:
            future.set_exception(raised)
        with self._changed:
            del self._running[future]
            self._changed.notify_all()
        return True


def in_time(work: Callable[[Argument], Value], seconds: float, argument: Argument) -> Value:
    """Return the value of a task; HangingError where it waits for one answer of a file system so long.

    The task has a thread of its own, for which the caller's waits, so that a process answers for a task that hangs. If
    the answer comes after all, the task goes on to its end, which has no effect.
    """
    threads = Threads(1, "acidlib-task")
    future = threads.start(lambda: work(argument), Piece())
    threads.shutdown(wait=False)
    while wait([future], _LOOK_SECONDS).not_done:
        threads.give_up_hanging(seconds)
    return future.result()


_LOOK_SECONDS = 0.2
STOP_SECONDS = 20.0
"""How long a run that is stopped waits for one answer: schedulers kill it soon after."""
