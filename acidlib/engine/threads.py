"""Who does what a flow decides: threads of the driver, or the flow's own thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from acidlib.admission import THREADS
from acidlib.engine.runner import started_threads

Found = TypeVar("Found")

MOST_JOBS = 1024
"""Jobs at a time: the more there are, the fewer tasks are in each, and the sooner their answers are there."""
_CANCEL_SECONDS = 0.2
_WAITING_SECONDS = 1.0


class Threads(Protocol):
    """Does steps and jobs. What is to follow one is called where `next_ended` is, once that has ended."""

    def step(self, work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        """Something to do in the driver."""

    def job(self, work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        """Something to run on the executors, which the driver waits for."""

    def next_ended(self, while_waiting: Callable[[], None]) -> None:
        """Wait for something to end, with a call each second meanwhile, and call what follows all that has."""

    def give_up(self, cancel: Callable[[], None]) -> None:
        """Begin nothing more, and wait for what was begun; `cancel` ends jobs that run."""


ThreadsForARun = Callable[[], AbstractContextManager[Threads]]


class _AtOnce:
    """Does everything at once, in the caller's thread."""

    def __init__(self) -> None:
        self._events: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def step(self, work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        """See Threads."""
        found = work()
        self._events.put(lambda: then(found))

    job = step

    def next_ended(self, while_waiting: Callable[[], None]) -> None:
        """See Threads."""
        del while_waiting  # nobody waits
        self._events.get()()

    def give_up(self, cancel: Callable[[], None]) -> None:
        """See Threads."""


class _InThreads:
    """Does steps in some threads, and jobs in others, of which there are as many as were needed at a time.

    Those `starter` starts, which has one thread: see `started_threads`.
    """

    def __init__(self, steps: ThreadPoolExecutor, jobs: ThreadPoolExecutor, starter: ThreadPoolExecutor) -> None:
        self._steps, self._jobs, self._starter = steps, jobs, starter
        self._events: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._futures: set[Future[Any]] = set()  # each leaves it in the thread that ends it

    def step(self, work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        """See Threads."""
        self._submit(self._steps, work, then)

    def job(self, work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        """See Threads."""

        def started(future: Future[None]) -> None:
            if not future.cancelled() and future.exception():
                self._events.put(future.result)

        self._starter.submit(self._submit, self._jobs, work, then).add_done_callback(started)

    def next_ended(self, while_waiting: Callable[[], None]) -> None:
        """See Threads."""
        while True:
            try:
                then = self._events.get(timeout=_WAITING_SECONDS)
                break
            except Empty:
                while_waiting()
        then()
        while not self._events.empty():
            self._events.get()()

    def give_up(self, cancel: Callable[[], None]) -> None:
        """See Threads."""
        self._starter.shutdown(wait=True, cancel_futures=True)
        for pool in (self._steps, self._jobs):
            pool.shutdown(wait=False, cancel_futures=True)
        while running := {one for one in tuple(self._futures) if not one.done()}:
            cancel()
            wait(running, timeout=_CANCEL_SECONDS)
        for pool in (self._steps, self._jobs):
            pool.shutdown(wait=True)

    def _submit(self, pool: ThreadPoolExecutor, work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        def ended(future: Future[Found]) -> None:
            self._futures.discard(future)
            if not future.cancelled():
                self._events.put(lambda: then(future.result()))

        future = pool.submit(work)
        self._futures.add(future)
        future.add_done_callback(ended)


@contextmanager
def at_once() -> Iterator[Threads]:
    """The caller's own."""
    yield _AtOnce()


@contextmanager
def in_threads_of_the_driver() -> Iterator[Threads]:
    """Threads, as long as the flow runs."""
    with (
        started_threads(THREADS, "acidlib-place") as steps,
        ThreadPoolExecutor(MOST_JOBS, "acidlib-job") as jobs,
        started_threads(1, "acidlib-starter") as starter,
    ):
        yield _InThreads(steps, jobs, starter)
