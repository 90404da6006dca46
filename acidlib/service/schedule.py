"""Many pieces of work under way at a time, each at its own pace, in threads of the driver and tasks of Spark."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from acidlib.admission import THREADS
from acidlib.errors import AcidError
from acidlib.planning.batches import BATCH_TASKS, SMALL_BYTES, alike, batches
from acidlib.service.plan import Errand
from acidlib.service.services import Done, Runner, Task, started_threads
from acidlib.service.stopping import STOPPING

# --- threads ----------------------------------------------------------------------------------------------------------
# Who does what a flow decides: threads of the driver, or the flow's own thread.

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


# --- flow -------------------------------------------------------------------------------------------------------------
# Many pieces of work under way at a time, each at its own pace: nothing waits for what has nothing to do with it.
#
# A piece goes on in a thread of the driver until it needs tasks. Those of all pieces wait together; whenever the runner
# has room they are started, small ones in batches, and a piece goes on as soon as its own are done. So what takes long
# delays nothing but itself. Everything but the steps of the pieces and the running of tasks happens in the caller's
# thread, and with a runner that has no slots these do, too: then one piece is done after the other.

Result = TypeVar("Result", covariant=True)

_OVERLAP = 2
"""Batches that are started for each slot: the next one is there when one has ended."""
_FEWEST_OF_A_JOB = 16
"""Batches that a job may have on few slots; on many, what all threads for jobs together need to have all started."""
_ALONE = 64
"""Batches that are started at a time where they run one after the other."""
_STEPS_AHEAD = 2
"""Steps that wait for each thread of the driver before no more pieces are begun."""

Steps = Generator[tuple[Errand, ...], list[Done[Any]], Result]
"""A piece of work: asks for errands, is answered by what became of each, and ends with its result."""


class Piece(Protocol[Result]):
    """What is to be done."""

    @property
    def name(self) -> str:
        """For people."""

    def steps(self) -> Steps[Result]:
        """Its steps. Closed before their end, they give back what they have taken."""

    def give_back(self) -> None:
        """It is not begun: another may do it."""


class _PieceUnderWay(Generic[Result]):
    """A piece whose steps were begun, or are about to be."""

    def __init__(self, piece: Piece[Result]) -> None:
        self.piece = piece
        self.answers: list[Done[Any] | None] = []
        self.result: Result | None = None
        self.ended = False
        self._steps: Steps[Result] | None = None

    def step(self, answers: list[Done[Any]] | None) -> tuple[Errand, ...]:
        """Go on to the next errands, or to the end."""
        try:
            while True:
                if self._steps is None:
                    self._steps = self.piece.steps()
                    asked = next(self._steps)
                else:
                    asked = self._steps.send([] if answers is None else answers)
                if asked:
                    return asked
                answers = []
        except StopIteration as end:
            self.result, self.ended = end.value, True
            return ()

    def give_up(self) -> None:
        """Give back what is not done; nothing else happens to what has ended."""
        if self._steps is None:
            self.piece.give_back()
        else:
            self._steps.close()


@dataclass(slots=True)
class _ErrandUnderWay:
    """An errand of a piece, whose tasks wait or run."""

    owner: _PieceUnderWay[Any]
    place: int
    errand: Errand
    answers: list[Done[Any] | None]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A task that waits, and where its answer belongs.

    number  in the order in which tasks were asked for
    later   whether other tasks of its errand were done before
    """

    task: Task
    errand: _ErrandUnderWay
    place: int
    number: int
    later: bool


class _Line:
    """The tasks that wait. Small ones go by turns; of large ones first what ends an errand, then what takes longest.

    What takes long is not begun last then, when it would be alone on the executors.
    """

    def __init__(self) -> None:
        self._small: deque[_Waiting] = deque()
        self._large: list[tuple[bool, int, int, _Waiting]] = []

    def __bool__(self) -> bool:
        return bool(self._small or self._large)

    def add(self, one: _Waiting) -> None:
        """A task begins to wait."""
        if one.task.length < SMALL_BYTES:
            self._small.append(one)
        else:
            heappush(self._large, (not one.later, -one.task.length, one.number, one))

    def taken(self, free: int) -> list[list[_Waiting]]:
        """Those to start now on so many free places; each list shares one."""
        large = [heappop(self._large)[-1] for _ in range(min(free, len(self._large)))]
        small = [self._small.popleft() for _ in range(min(free * BATCH_TASKS, len(self._small)))]
        found = sorted(small + large, key=lambda one: one.number)
        chosen = batches([one.task.length for one in found], free)
        started = {found[number].number for batch in chosen for number in batch}
        self._small.extendleft(one for one in reversed(small) if one.number not in started)
        for one in large:
            if one.number not in started:
                self.add(one)
        return [[found[number] for number in batch] for batch in chosen]


class Flow(Generic[Result]):
    """Carries pieces out on a runner.

    limit    how many are under way at a time, by the number of slots that the runner has then
    name     what a job is called, by its first piece and what is done
    threads  where it is done; by default in some of the driver, with a runner without slots in the caller's
    started  is called once tasks can be run, before the first of them is
    """

    def __init__(
        self,
        runner: Runner,
        *,
        limit: Callable[[int], int],
        name: Callable[[str], str],
        threads: ThreadsForARun | None = None,
        started: Callable[[], None] = lambda: None,
    ) -> None:
        self._runner = runner
        self._started = started
        self._limit = limit
        self._name = name
        self._threads = threads
        self._waiting = _Line()
        self._asked = count()
        self._steps_waiting = 0
        self._batches_running = 0
        self._under_way: set[_PieceUnderWay[Result]] = set()
        self._ended: deque[Result] = deque()
        self._is_started = False
        self.given_back = 0

    @property
    def in_flight(self) -> int:
        """How many pieces are under way."""
        return len(self._under_way)

    def run(
        self, pieces: Iterator[Piece[Result]], *, while_waiting: Callable[[], None] = lambda: None
    ) -> Generator[Result, None, None]:
        """The results, as they come. `pieces` is drawn from as there is room: a budget can stop it.

        What an AcidError of `pieces` comes after is done before that is raised. An interrupt, or any other error that
        is no result, gives back all that is under way, once steps that were begun have ended: see `late_results` and
        `given_back`. `while_waiting` is called each second in which nothing happens.
        """
        error: AcidError | None = None
        default = in_threads_of_the_driver if self._runner.slots else at_once
        with (self._threads or default)() as threads:
            try:
                more = True
                while True:
                    while more and self._has_room():
                        one = None
                        try:
                            with STOPPING.shielded():  # what was taken is known here, or was not taken
                                piece = next(pieces, None)
                                if piece is not None:
                                    one = _PieceUnderWay(piece)
                                    self._under_way.add(one)
                        except AcidError as raised:
                            error = raised
                        if one is None:
                            more = False
                        else:
                            self._go_on(threads, one, None)
                    self._start_tasks(threads)
                    while self._ended:
                        yield self._ended.popleft()
                    if not self._under_way:
                        if more:
                            continue
                        break
                    threads.next_ended(while_waiting)
            except BaseException:
                threads.give_up(self._runner.cancel)
                self._give_up()
                raise
        if error is not None:
            raise error

    def _has_room(self) -> bool:
        """Whether another piece may begin. None is taken long before its first step, nor keeps others from theirs."""
        return self._steps_waiting < _STEPS_AHEAD * THREADS and len(self._under_way) < self._limit(self._runner.slots)

    def late_results(self) -> Iterator[Result]:
        """What has ended, and was not told before the run was given up."""
        while self._ended:
            yield self._ended.popleft()

    def _give_up(self) -> None:
        """Give back what is under way; of what has ended meanwhile there is a result."""
        for one in self._under_way:
            if not one.ended:
                self.given_back += 1
                one.give_up()
            elif one.result is not None:
                self._ended.append(one.result)
        self._under_way.clear()

    def _go_on(self, threads: Threads, one: _PieceUnderWay[Result], answers: list[Done[Any]] | None) -> None:
        """Let a piece take its next step."""
        self._steps_waiting += 1
        threads.step(lambda: one.step(answers), lambda asked: self._stepped(threads, one, asked))

    def _stepped(self, threads: Threads, one: _PieceUnderWay[Result], asked: tuple[Errand, ...]) -> None:
        self._steps_waiting -= 1
        if one.ended:
            self._under_way.discard(one)
            if one.result is not None:
                self._ended.append(one.result)
            return
        one.answers = [None] * len(asked)
        for place, errand in enumerate(asked):
            self._ask(threads, _ErrandUnderWay(owner=one, place=place, errand=errand, answers=[]), None)

    def _ask(self, threads: Threads, running: _ErrandUnderWay, answers: list[Done[Any]] | None) -> None:
        """Let an errand ask for its next tasks, or end."""
        try:
            tasks = next(running.errand) if answers is None else running.errand.send(answers)
        except StopIteration as end:
            one = running.owner
            one.answers[running.place] = end.value
            if None not in one.answers:
                self._go_on(threads, one, [answer for answer in one.answers if answer is not None])
            return
        running.answers = [None] * len(tasks)
        for place, task in enumerate(tasks):
            self._waiting.add(_Waiting(task, running, place, next(self._asked), later=answers is not None))

    def _start_tasks(self, threads: Threads) -> None:
        """Start what waits, as far as the runner has room."""
        slots = self._runner.slots
        free = _OVERLAP * slots - self._batches_running if slots else _ALONE
        if not self._waiting or free <= 0:
            return
        if not self._is_started:
            self._runner.start()
            self._started()
            self._is_started = True
        chosen = self._waiting.taken(free)
        most = max(_FEWEST_OF_A_JOB, _OVERLAP * slots * 2 // MOST_JOBS)
        for job in alike([sum(one.task.length for one in batch) for batch in chosen], most):
            self._start_job(threads, [chosen[number] for number in job])

    def _start_job(self, threads: Threads, job: Sequence[Sequence[_Waiting]]) -> None:
        names = list(dict.fromkeys(one.errand.owner.piece.name for batch in job for one in batch))
        steps = dict.fromkeys(one.task.step for batch in job for one in batch)
        group = self._name(f"{names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: {', '.join(steps)}")
        self._batches_running += len(job)
        threads.job(
            lambda: self._runner.run([[one.task for one in batch] for batch in job], group=group),
            lambda found: self._answered(threads, job, found),
        )

    def _answered(self, threads: Threads, job: Sequence[Sequence[_Waiting]], found: list[list[Done[Any]]]) -> None:
        self._batches_running -= len(job)
        for batch, answers in zip(job, found, strict=True):
            for one, answer in zip(batch, answers, strict=True):
                one.errand.answers[one.place] = answer
                if None not in one.errand.answers:
                    self._ask(threads, one.errand, [done for done in one.errand.answers if done is not None])
