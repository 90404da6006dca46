"""Many pieces of work under way at a time, each at its own pace, in threads of the driver and tasks of Spark.

A piece is a coroutine. It goes on in a thread of the driver until it awaits `ran(...)`. The tasks of all pieces wait
together; whenever the runner has room they are started, small ones in batches, and a piece goes on as soon as its own
are done. So what takes long delays nothing but itself. Everything but the steps of the pieces and the running of tasks
happens in the caller's thread, and with a runner that has no slots these do, too: then one piece is done after the
other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from inspect import CORO_CREATED, getcoroutinestate
from itertools import count
from queue import Empty, SimpleQueue
from types import coroutine
from typing import Any, Generic, Protocol, TypeVar

from acidlib.admission import THREADS
from acidlib.errors import AcidError
from acidlib.planning.units import BATCH_TASKS, SMALL_BYTES, batches, groups_of_like_length
from acidlib.service.services import Runner, Task, started_threads, value_or_raise
from acidlib.service.stopping import STOPPING

Found = TypeVar("Found")
Result = TypeVar("Result", covariant=True)

MOST_JOBS = 1024
"""Jobs at a time: the more there are, the fewer tasks are in each, and the sooner their answers are there."""
_OVERLAP = 2
"""Batches that are started for each slot: the next one is there when one has ended."""
_FEWEST_OF_A_JOB = 16
"""Batches that a job may have on few slots; on many, what all threads for jobs together need to have all started."""
_ALONE = 64
"""Batches that are started at a time where they run one after the other."""
_STEPS_AHEAD = 2
"""Steps that wait for each thread of the driver before no more pieces are begun."""
_CANCEL_SECONDS = 0.2
_WAITING_SECONDS = 1.0

Subtask = Coroutine["tuple[Task | Subtask, ...]", Any, Any]
"""Tasks that follow from one another, such as the parts of a large file; it ends with the value of the whole."""
Asked = Task | Subtask
Steps = Coroutine[tuple[Asked, ...], Any, Result]
"""The steps of a piece of work: it awaits `ran(...)`, and ends with its result."""


@coroutine
def ran(*asked: Asked) -> Generator[tuple[Asked, ...], list[Any], list[Any]]:
    """Have tasks and subtasks run, all to their ends; return their values in order, or raise the first one's error."""
    return [value_or_raise(answer) for answer in (yield asked)] if asked else []


class Piece(Protocol[Result]):
    """What is to be done."""

    @property
    def name(self) -> str:
        """For people."""

    def steps(self) -> Steps[Result]:
        """Return its steps. Closed before their end, they give back what they have taken."""

    def give_back(self) -> None:
        """Leave it to another run: it is not begun."""


class Flow(Generic[Result]):
    """Carries pieces out on a runner.

    limit    how many are under way at a time, by the number of slots that the runner has then
    name     what a job is called, by its first piece and what is done
    threads  where it is done, by the number of slots
    started  is called once tasks can be run, before the first of them is
    """

    def __init__(
        self,
        runner: Runner,
        *,
        limit: Callable[[int], int],
        name: Callable[[str], str],
        threads: Callable[[int], AbstractContextManager[Threads]] | None = None,
        started: Callable[[], None] = lambda: None,
    ) -> None:
        self._runner = runner
        self._limit = limit
        self._name = name
        self._threads_for = threads or _threads
        self._started = started
        self._waiting = _TaskQueue()
        self._steps_waiting = self._batches_running = 0
        self._under_way: set[_Running] = set()
        self._ended: deque[Result] = deque()
        self._is_started = False
        self.given_back = 0
        """Pieces that were given back when the run was given up."""

    @property
    def in_flight(self) -> int:
        """How many pieces are under way."""
        return len(self._under_way)

    def run(
        self, pieces: Iterator[Piece[Result]], *, while_waiting: Callable[[], None] = lambda: None
    ) -> Generator[Result, None, None]:
        """Yield the results, as they come. `pieces` is drawn from as there is room: a budget can stop it.

        What an AcidError of `pieces` comes after is done before that is raised. An interrupt, or any other error that
        is no result, gives back all that is under way, once steps that were begun have ended: see `late_results` and
        `given_back`. `while_waiting` is called each second in which nothing happens.
        """
        error: AcidError | None = None
        with self._threads_for(self._runner.slots) as threads:
            self._threads = threads
            try:
                more = True
                while more or self._under_way or self._ended:
                    # none is taken long before its first step, nor keeps others from theirs
                    while more and self._steps_waiting < _STEPS_AHEAD * THREADS and self._has_room():
                        begun = None
                        try:
                            with STOPPING.shielded():  # what was taken is known here, or was not taken
                                piece = next(pieces, None)
                                if piece is not None:
                                    begun = _Running(piece.steps(), piece)
                                    self._under_way.add(begun)
                        except AcidError as raised:
                            error = raised
                        if begun is None:
                            more = False
                        else:
                            self._go_on(begun)
                    self._start_tasks()
                    yield from self.late_results()
                    if self._under_way:
                        threads.next_ended(while_waiting)
            except BaseException:
                threads.give_up(self._runner.cancel)
                self._give_up()
                raise
        if error is not None:
            raise error

    def late_results(self) -> Iterator[Result]:
        """Yield what has ended and was not told yet, also when the run was given up meanwhile."""
        while self._ended:
            yield self._ended.popleft()

    def _has_room(self) -> bool:
        return len(self._under_way) < self._limit(self._runner.slots)

    def _go_on(self, one: _Running) -> None:
        """Take the next step: of a piece in a thread; of a subtask, which only says what follows, at once."""
        if one.parent is not None:
            one.step()
            self._stepped(one)
        else:
            self._steps_waiting += 1
            self._threads.step(one.step, lambda _: self._stepped(one))

    def _stepped(self, one: _Running) -> None:
        if one.parent is None:
            self._steps_waiting -= 1
        if one.has_ended:
            if one.parent is not None:
                self._answer(one.parent, one.place, one.result)
            else:
                self._under_way.discard(one)
                self._ended.append(one.result)
            return
        one.answers, one.missing = [None] * len(one.asked), len(one.asked)
        for place, asked in enumerate(one.asked):
            if isinstance(asked, Task):
                self._waiting.add(asked, one, place)
            else:
                self._go_on(_Running(asked, one.piece, parent=one, place=place))

    def _answer(self, one: _Running, place: int, answer: Any) -> None:
        one.answers[place] = answer
        one.missing -= 1
        if not one.missing:
            self._go_on(one)

    def _start_tasks(self) -> None:
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
        for numbers in groups_of_like_length([sum(one.task.length for one in batch) for batch in chosen], most):
            job = [chosen[number] for number in numbers]
            names = list(dict.fromkeys(one.owner.piece.name for batch in job for one in batch))
            steps = dict.fromkeys(one.task.step for batch in job for one in batch)
            group = self._name(f"{names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: {', '.join(steps)}")
            self._batches_running += len(job)
            tasks = [[one.task for one in batch] for batch in job]
            self._threads.job(partial(self._runner.run, tasks, group=group), partial(self._job_ended, job))

    def _job_ended(self, job: Sequence[Sequence[_Waiting]], found: list[list[Any]]) -> None:
        self._batches_running -= len(job)
        for batch, answers in zip(job, found, strict=True):
            for one, answer in zip(batch, answers, strict=True):
                self._answer(one.owner, one.place, answer)

    def _give_up(self) -> None:
        """Give back what is under way; of what has ended meanwhile there is a result."""
        for one in self._under_way:
            if one.has_ended:
                self._ended.append(one.result)
                continue
            self.given_back += 1
            if getcoroutinestate(one.steps) == CORO_CREATED:
                one.piece.give_back()
            for steps in (one.steps, *(asked for asked in one.asked if not isinstance(asked, Task))):
                steps.close()
        self._under_way.clear()


class _Running:
    """The steps of a piece, or of a subtask of its `parent`, begun or about to be."""

    def __init__(self, steps: Steps[Any], piece: Piece[Any], parent: _Running | None = None, place: int = 0) -> None:
        self.steps, self.piece, self.parent, self.place = steps, piece, parent, place
        self.asked: tuple[Asked, ...] = ()
        self.answers: Any = None
        self.missing = 0
        self.has_ended = False
        self.result: Any = None
        self.is_later = False
        """A subtask of which tasks were done before."""

    def step(self) -> None:
        """Go on to what is asked for next, or to the end."""
        self.is_later = self.parent is not None and self.answers is not None
        try:
            self.asked = self.steps.send(self.answers)
        except StopIteration as end:
            self.result, self.has_ended = end.value, True
        except AcidError as error:
            if self.parent is None:
                raise
            self.result, self.has_ended = error, True


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A task that waits, where its answer belongs, and its number in the order in which tasks were asked for."""

    task: Task
    owner: _Running
    place: int
    number: int


class _TaskQueue:
    """The tasks that wait. Small ones go by turns; of large ones first what ends a subtask, then what takes longest.

    What takes long is not begun last then, when it would be alone on the executors.
    """

    def __init__(self) -> None:
        self._numbers = count()
        self._small: deque[_Waiting] = deque()
        self._large: list[tuple[bool, int, int, _Waiting]] = []

    def __bool__(self) -> bool:
        return bool(self._small or self._large)

    def add(self, task: Task, owner: _Running, place: int) -> None:
        """Let a task wait."""
        one = _Waiting(task, owner, place, next(self._numbers))
        if task.length < SMALL_BYTES:
            self._small.append(one)
        else:
            heappush(self._large, (not owner.is_later, -task.length, one.number, one))

    def taken(self, free: int) -> list[list[_Waiting]]:
        """Take those to start now on so many free places; each list shares one."""
        large = [heappop(self._large) for _ in range(min(free, len(self._large)))]
        small = [self._small.popleft() for _ in range(min(free * BATCH_TASKS, len(self._small)))]
        found = sorted([*small, *(entry[-1] for entry in large)], key=lambda one: one.number)
        chosen = batches([one.task.length for one in found], free)
        started = {found[number].number for batch in chosen for number in batch}
        self._small.extendleft(one for one in reversed(small) if one.number not in started)
        for entry in large:
            if entry[-1].number not in started:
                heappush(self._large, entry)
        return [[found[number] for number in batch] for batch in chosen]


class Threads:
    """Where steps and jobs are done; what is to follow one is called where `next_ended` is, once that has ended.

    Steps are done in some threads, and jobs in others, of which there are as many as were needed at a time. Those
    `starter` starts, which has one thread: see `started_threads`.
    """

    def __init__(self, steps: ThreadPoolExecutor, jobs: ThreadPoolExecutor, starter: ThreadPoolExecutor) -> None:
        self._steps, self._jobs, self._starter = steps, jobs, starter
        self._events: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._futures: set[Future[Any]] = set()  # each leaves it in the thread that ends it

    def step(self, work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        """Do something in the driver."""
        self._submit(self._steps, work, then)

    def job(self, work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        """Run something on the executors, which the driver waits for."""

        def started(future: Future[None]) -> None:
            if not future.cancelled() and future.exception():
                self._events.put(future.result)

        self._starter.submit(self._submit, self._jobs, work, then).add_done_callback(started)

    def _submit(self, pool: ThreadPoolExecutor, work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        def ended(future: Future[Found]) -> None:
            self._futures.discard(future)
            if not future.cancelled():
                self._events.put(lambda: then(future.result()))

        future = pool.submit(work)
        self._futures.add(future)
        future.add_done_callback(ended)

    def next_ended(self, while_waiting: Callable[[], None]) -> None:
        """Wait for something to end, with a call each second meanwhile, and call what follows all that has."""
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
        """Begin nothing more, and wait for what was begun; `cancel` ends jobs that run."""
        self._starter.shutdown(wait=True, cancel_futures=True)
        for pool in (self._steps, self._jobs):
            pool.shutdown(wait=False, cancel_futures=True)
        while running := {one for one in tuple(self._futures) if not one.done()}:
            cancel()
            wait(running, timeout=_CANCEL_SECONDS)
        for pool in (self._steps, self._jobs):
            pool.shutdown(wait=True)


class _AtOnce(Threads):
    """Does one thing after the other, in the caller's thread."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()

    def step(self, work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        self._waiting.append((work, then))

    job = step

    def next_ended(self, while_waiting: Callable[[], None]) -> None:
        del while_waiting  # nothing is waited for
        work, then = self._waiting.popleft()
        then(work())

    def give_up(self, cancel: Callable[[], None]) -> None:
        """Nothing runs."""


@contextmanager
def _threads(slots: int) -> Iterator[Threads]:
    """Have threads of the driver as long as a flow runs; without slots all is done in the caller's."""
    if not slots:
        yield _AtOnce()
        return
    with (
        started_threads(THREADS, "acidlib-place") as steps,
        ThreadPoolExecutor(MOST_JOBS, "acidlib-job") as jobs,
        started_threads(1, "acidlib-starter") as starter,
    ):
        yield Threads(steps, jobs, starter)
