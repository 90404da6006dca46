"""Work on many items in threads of the driver: many while they wait for a file system, one while it computes.

The threads of one Python process compute one at a time, and every call of the system hands that right to another
thread. A remote store keeps threads waiting, and sixteen do sixteen times the work of one. A local disk answers at
once: there sixteen do no more than one, and spend most of the processor time on waking each other. So work begins with
one thread, and gets more as long as more of them do more. The caller's own thread never works on an item, since it has
to go on where one hangs.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from threading import Lock, get_native_id
from typing import Generic, TypeVar

from acidlib.errors import AcidError
from acidlib.execute.answers import answer_of
from acidlib.execute.stopping import STOPPING
from acidlib.processes import processor_seconds
from acidlib.waiting import STOP_SECONDS, Piece, Threads

Item = TypeVar("Item")
Value = TypeVar("Value")

THREADS = 16
"""Threads that work at a time at most."""
_WAITS, _PAYS = 0.7, 1.25
_MIN_ANSWERS = 4
"""So many answers tell how fast threads are."""
_LOOK_SECONDS, _TELL_SECONDS, _HANGING_LOOK_SECONDS = 0.05, 0.25, 1.0
"""How often threads are looked at, their answers told, and those looked for that hang. Whoever is told many answers at
a time does what is to be done for each of them, such as a change in a queue, for all of them together.
"""
_MIN_SECONDS, _MAX_SECONDS, _REST_SECONDS = 0.05, 0.5, 2.0
"""How long a number of threads is tried, at least and at most, and how long the best one is kept until the next try."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What a number of threads did for a while.

    rate   answers a second; None = too few to tell
    waits  the threads and their caller left the interpreter and the processor free for others
    """

    threads: int
    rate: float | None
    waits: bool


def next_number(now: Tried, before: Tried | None) -> tuple[int, bool]:
    """Return how many threads shall work from now on, and whether they are the best for a while.

    More are tried where threads wait, and kept only if they do more: on a busy machine those that wait for each other
    look as if they waited for a store. Where more do no more, fewer may do as much.

    before  what another number did right before; None = after a while with the best one
    """
    if now.rate is None:
        return (min(THREADS, 2 * now.threads) if now.waits else now.threads), False
    if before is None or before.rate is None:
        tries_more = now.waits and now.threads < THREADS
        return (2 * now.threads, False) if tries_more else (max(1, now.threads // 2), now.threads == 1)
    if now.threads > before.threads:
        if now.rate >= _PAYS * before.rate:
            return (2 * now.threads, False) if now.waits and now.threads < THREADS else (now.threads, True)
        return max(1, before.threads // 2), before.threads == 1
    if now.rate * _PAYS < before.rate:
        return min(THREADS, 2 * now.threads), True
    return max(1, now.threads // 2), now.threads == 1


@dataclass(slots=True)
class Learned:
    """The number of threads that was the best last: the next items most likely lie in the same store."""

    threads: int = 1


_OF_THIS_PROCESS = Learned()


def as_done(
    work: Callable[[Item], Value],
    items: Sequence[Item],
    *,
    seconds: float,
    on_interrupt: Callable[[], None] = lambda: None,
) -> Iterator[tuple[int, Value | AcidError]]:
    """Yield the number of each item with its value or error, soon after it is known; see `portions_done`."""
    with closing(portions_done(work, items, seconds=seconds, on_interrupt=on_interrupt)) as portions:
        for portion in portions:
            yield from portion


def portions_done(
    work: Callable[[Item], Value],
    items: Sequence[Item],
    *,
    seconds: float,
    on_interrupt: Callable[[], None] = lambda: None,
    learned: Learned = _OF_THIS_PROCESS,
) -> Generator[Sequence[tuple[int, Value | AcidError]], None, None]:
    """Yield the numbers of items with their values or errors, as many as are known: soon, then a few times a second.

    seconds  `step_seconds`: an item that waits for an answer so long has a HangingError

    An interrupt begins no further item; `on_interrupt` may shorten those that were begun.
    """
    if not items:
        return
    with Threads(THREADS, "acidlib-look") as pool:
        crew = _Crew(work, items, pool)
        try:
            looked, yielded, rests_until = time.monotonic(), 0.0, 0.0
            before: Tried | None = None
            crew.resize(learned.threads)
            while crew.unanswered:
                crew.wait(_LOOK_SECONDS)
                STOPPING.look()
                number, now = crew.size, time.monotonic()
                if (now - yielded >= _TELL_SECONDS or crew.is_idle) and (portion := crew.answers()):
                    yield portion
                    yielded = now
                if crew.left and now >= rests_until and (tried := crew.tried()) is not None:
                    number, is_best = next_number(tried, before)
                    before = None if is_best else tried
                    if is_best:
                        learned.threads, rests_until = number, now + _REST_SECONDS
                crew.resize(number)  # also in place of threads that were left behind
                if now - looked >= _HANGING_LOOK_SECONDS:
                    if portion := crew.give_up_hanging(seconds):
                        yield portion
                    looked = now
        except BaseException:
            crew.begin_no_more()
            on_interrupt()
            pool.stop(min(seconds, STOP_SECONDS), seconds)
            raise


def in_threads(
    work: Callable[[Item], Value],
    items: Sequence[Item],
    *,
    seconds: float,
    on_progress: Callable[[int], None] = lambda _: None,
) -> list[Value | AcidError]:
    """Return the value or error of each item, in order; see `as_done`."""
    answers: dict[int, Value | AcidError] = {}
    for number, answer in as_done(work, items, seconds=seconds):
        answers[number] = answer
        on_progress(len(answers))
    return [answers[number] for number in range(len(items))]


@dataclass(slots=True, eq=False)
class _Worker:
    """A thread that takes one item after the other.

    id           the system's, of the thread; None = it has not begun
    ran, waited  its `processor_seconds` when it was looked at last
    number       of the item that it works on
    """

    piece: Piece
    id: int | None = None
    ran: float = 0.0
    waited: float = 0.0
    number: int | None = None


class _Crew(Generic[Item, Value]):
    """The threads that share items out among themselves, and the answers that the caller has not had yet.

    No answer wakes the caller, who looks for them a few times a second, and is woken when there are no more.
    """

    def __init__(self, work: Callable[[Item], Value], items: Sequence[Item], pool: Threads) -> None:
        self._work, self._pool = work, pool
        self.left = deque(enumerate(items))
        self.unanswered = len(items)
        self.size = 0
        self._workers: dict[Future[None], _Worker] = {}
        self._working = 0
        self._answers: deque[tuple[int, Value | AcidError]] = deque()
        self._changing = Lock()  # so that no worker goes on to another item while it is given up
        self._since, self._answered, self._answered_before = time.monotonic(), 0, 0
        me = get_native_id()
        self._caller = _Worker(Piece(), me, *processor_seconds(me))

    def resize(self, size: int) -> None:
        """Work with so many threads from now on, as far as there are items for them."""
        self.size = size
        with STOPPING.shielded(), self._changing:
            for _ in range(min(size - self._working, len(self.left))):
                worker = _Worker(Piece())
                self._working += 1
                self._workers[self._pool.start(partial(self._serve, worker), worker.piece)] = worker

    def begin_no_more(self) -> None:
        """Leave the items that are not begun."""
        with self._changing:
            self.left.clear()

    def wait(self, seconds: float) -> None:
        """Wait until all threads have ended, or so many seconds."""
        wait(self._workers, seconds)

    @property
    def is_idle(self) -> bool:
        """Whether no thread is at work."""
        return all(future.done() for future in self._workers)

    def answers(self) -> list[tuple[int, Value | AcidError]]:
        """Return the answers that there are by now."""
        for future in [future for future in self._workers if future.done()]:
            del self._workers[future]
            future.result()
        portion = [self._answers.popleft() for _ in range(len(self._answers))]
        self.unanswered -= len(portion)
        return portion

    def tried(self) -> Tried | None:
        """Return what the threads did since there are so many; None where it is too early to tell."""
        passed, answered = time.monotonic() - self._since, self._answered - self._answered_before
        if passed < _MIN_SECONDS or (answered < _MIN_ANSWERS and passed < _MAX_SECONDS):
            return None
        computed = ready = 0.0
        for worker in (self._caller, *self._workers.values()):
            if worker.id is not None:
                ran, waited = processor_seconds(worker.id)
                computed += max(0.0, ran - worker.ran)
                if worker is not self._caller:
                    ready += max(0.0, ran - worker.ran + waited - worker.waited)
                worker.ran, worker.waited = ran, waited
        # on a busy machine a thread that computes gets little of a processor: it is ready all the same
        waits = computed < _WAITS * passed and ready < _WAITS * passed * self.size
        self._since, self._answered_before = time.monotonic(), self._answered
        return Tried(self.size, answered / passed if answered >= _MIN_ANSWERS else None, waits)

    def give_up_hanging(self, seconds: float) -> list[tuple[int, Value | AcidError]]:
        """Leave threads behind that have waited for an answer so long, and return the errors of their items."""
        with STOPPING.shielded(), self._changing:
            self._pool.give_up_hanging(seconds)
            hanging = [future for future, worker in self._workers.items() if worker.piece.given_up is not None]
            self._working -= len(hanging)
        self.unanswered -= len(hanging)
        errors = list[tuple[int, Value | AcidError]]()
        for worker in map(self._workers.pop, hanging):
            assert worker.piece.given_up is not None
            assert worker.number is not None  # it has asked for something
            errors.append((worker.number, worker.piece.given_up))
        return errors

    def _serve(self, worker: _Worker) -> None:
        """Work on one item after the other until none is left, or other threads are enough."""
        me = get_native_id()
        worker.ran, worker.waited = processor_seconds(me)  # the pool may have used this thread before
        worker.id = me
        while True:
            with self._changing:
                if not self.left or self._working > self.size:
                    self._working -= 1
                    return
                worker.number, item = self.left.popleft()
            answer = answer_of(self._work, item)
            with self._changing:
                if worker.piece.given_up is not None:
                    return
                self._answers.append((worker.number, answer))
                self._answered += 1
