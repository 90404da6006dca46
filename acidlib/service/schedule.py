"""The scheduler: many workflows under way at a time, in threads of the driver and tasks of Spark.

A workflow is a coroutine. It runs in a thread of the driver until it awaits `run_tasks(...)`. The tasks of all
workflows wait together; whenever the runner has room they are started, small ones in batches, and a workflow goes on as
soon as its own tasks have ended. So a slow workflow delays no other. Everything but the steps of workflows and the
running of tasks happens in the caller's thread. With a runner without slots these do, too: then workflows run one after
the other.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from inspect import CORO_CREATED, getcoroutinestate
from itertools import count
from math import inf
from queue import Empty, SimpleQueue
from types import coroutine
from typing import Any, Generic, Protocol, TypeVar

from acidlib.errors import AcidError, HangingError, known_error
from acidlib.planning.units import BATCH_TASKS, SMALL_BYTES, batches, groups_of_like_length
from acidlib.service.in_threads import THREADS, in_threads
from acidlib.service.services import Runner, Task, value_or_raise
from acidlib.service.stopping import STOPPING
from acidlib.waiting import STOP_SECONDS, Piece, Threads, in_time

Value = TypeVar("Value")
Result = TypeVar("Result", covariant=True)

Subtask = Coroutine["tuple[Task | Subtask, ...]", Any, Any]
"""A coroutine over tasks that follow from one another, such as the parts of a large file. It returns a task's value."""
Work = Task | Subtask
Steps = Coroutine[tuple[Work, ...], Any, Result]
"""The coroutine of a workflow: a step ends by awaiting `run_tasks(...)`, and the last one returns the result."""


@coroutine
def run_tasks(*work: Work) -> Generator[tuple[Work, ...], list[Any], list[Any]]:
    """Run tasks and subtasks, all to their ends; return their values in order, or raise the first error among them."""
    return [value_or_raise(answer) for answer in (yield work)] if work else []


@dataclass(frozen=True, slots=True)
class HandedOut:
    """Tasks that the caller of the scheduler runs: it sends their values or errors, in their order."""

    tasks: tuple[Task, ...]


class Workflow(Protocol[Result]):
    """Work in several steps, with tasks in between."""

    @property
    def name(self) -> str:
        """For people."""

    def run(self) -> Steps[Result]:
        """Return the coroutine. Closed before its end, it gives back its claims and requests."""

    def give_back(self) -> None:
        """Leave the work to another run; called instead of the first step."""

    def left(self, error: HangingError) -> Result:
        """Return the result where a step hangs: its thread was left behind, and nothing is given back."""


MAX_JOBS = 1024
"""Jobs at a time: the more there are, the fewer tasks each has, and the sooner their answers are there."""
_OVERLAP = 2
"""Batches that are started for each slot: the next one is there when one has ended."""
_MIN_OF_A_JOB = 16
"""Batches that a job may have on few slots; on many, as many as all job threads together need to start all batches."""
_ALONE = 64
"""Batches that are started at a time where they run one after the other."""
_STEPS_AHEAD = 2
"""Steps that may wait for each thread of the driver before another workflow is begun."""
_WAITING_SECONDS = 1.0
_JOB_SECONDS = 60.0
"""How long a run that is stopped waits for the ends of jobs that it has cancelled."""


class Scheduler(Generic[Result]):
    """Runs workflows on a runner.

    limit      how many are under way at a time, by the number of slots that the runner has then
    name       the name of a job, by its first workflow and its steps
    threads    the driver's threads, by the number of slots
    on_start   is called once tasks can be run, before the first of them is
    seconds    `step_seconds`: a workflow with a step that waits for an answer so long is left, and such a task has a
               HangingError
    hands_out  tells the tasks that `run` yields, once
    """

    def __init__(
        self,
        runner: Runner,
        *,
        limit: Callable[[int], int],
        name: Callable[[str], str],
        threads: Callable[[int], AbstractContextManager[DriverThreads]] | None = None,
        on_start: Callable[[], None] = lambda: None,
        seconds: float = inf,
        hands_out: Callable[[Task], bool] = lambda _: False,
    ) -> None:
        self._runner = runner
        self._hands_out = hands_out
        self._to_hand_out: list[_QueuedTask] = []
        self._limit = limit
        self._name = name
        self._threads_for = threads or partial(_driver_threads, seconds=seconds)
        self._on_start = on_start
        self._seconds = seconds
        self._queue = _TaskQueue()
        self._steps_waiting = self._batches_running = 0
        self._under_way: set[_Execution] = set()
        self._results: deque[Result] = deque()
        self._is_started = False
        self.given_back = 0
        """Workflows that were given back when the run was given up."""

    @property
    def in_flight(self) -> int:
        """How many workflows are under way."""
        return len(self._under_way)

    def run(
        self, workflows: Iterator[Workflow[Result]], *, while_waiting: Callable[[], None] = lambda: None
    ) -> Generator[Result | HandedOut, Sequence[Any] | None, None]:
        """Yield the results, as they come. The next workflow is drawn when there is room: a budget can end them.

        Where only tasks to hand out are left to do, it yields these once, and goes on with what it is sent.

        An AcidError of `workflows` is raised after those before it have ended. An interrupt, and any other error that
        is no result, gives back all that is under way, once steps that were begun have ended: see `late_results` and
        `given_back`. `while_waiting` is called each second in which nothing happens.
        """
        error: AcidError | None = None
        with self._threads_for(self._runner.slots) as threads:
            self._threads = threads
            try:
                more = True
                while more or self._under_way or self._results:
                    # none is drawn long before its first step, nor delays the steps of others
                    while (
                        more
                        and self._steps_waiting < _STEPS_AHEAD * THREADS
                        and len(self._under_way) < self._limit(self._runner.slots)
                    ):
                        begun = None
                        try:
                            with STOPPING.shielded():  # an interrupt finds it either under way or not drawn
                                workflow = next(workflows, None)
                                if workflow is not None:
                                    begun = _Execution(workflow.run(), workflow)
                                    self._under_way.add(begun)
                        except AcidError as raised:
                            error = raised
                        if begun is None:
                            more = False
                        else:
                            self._go_on(begun)
                    self._start_tasks()
                    yield from self.late_results()
                    if self._to_hand_out and not (more or self._steps_waiting or self._batches_running or self._queue):
                        handed, self._to_hand_out = self._to_hand_out, []
                        self._hands_out = lambda _: False
                        answers = yield HandedOut(tuple(queued.task for queued in handed))
                        for queued, answer in zip(handed, answers or (), strict=True):
                            self._answer(queued.owner, queued.place, answer)
                    elif self._under_way:
                        threads.next_ended(while_waiting)
            except BaseException:
                threads.give_up(self._runner.cancel)
                self._give_back_all(threads.seconds)
                raise
        if error is not None:
            raise error

    def late_results(self) -> Iterator[Result]:
        """Yield the results that were not yielded yet, also when the run was given up meanwhile."""
        while self._results:
            yield self._results.popleft()

    def _go_on(self, execution: _Execution) -> None:
        """Take the next step: of a workflow in a thread; of a subtask, which only returns further tasks, at once."""
        if execution.parent is not None:
            execution.step()
            self._stepped(execution)
        else:
            self._steps_waiting += 1
            self._threads.step(
                execution.step,
                lambda _: self._stepped(execution),
                piece=execution.piece,
                left=partial(self._left, execution),
            )

    def _left(self, execution: _Execution, error: HangingError) -> None:
        self._steps_waiting -= 1
        self._under_way.discard(execution)
        self._results.append(execution.workflow.left(error))

    def _stepped(self, execution: _Execution) -> None:
        if execution.parent is None:
            self._steps_waiting -= 1
        if execution.has_ended:
            if execution.parent is not None:
                self._answer(execution.parent, execution.place, execution.result)
            else:
                self._under_way.discard(execution)
                self._results.append(execution.result)
            return
        execution.answers, execution.missing = [None] * len(execution.work), len(execution.work)
        for place, work in enumerate(execution.work):
            if isinstance(work, Task) and self._hands_out(work):
                self._to_hand_out.append(_QueuedTask(work, execution, place, len(self._to_hand_out)))
            elif isinstance(work, Task):
                self._queue.add(work, execution, place)
            else:
                self._go_on(_Execution(work, execution.workflow, parent=execution, place=place))

    def _answer(self, execution: _Execution, place: int, answer: Any) -> None:
        execution.answers[place] = answer
        execution.missing -= 1
        if not execution.missing:
            self._go_on(execution)

    def _start_tasks(self) -> None:
        """Start waiting tasks, as far as the runner has room."""
        slots = self._runner.slots
        free = _OVERLAP * slots - self._batches_running if slots else _ALONE
        if not self._queue or free <= 0:
            return
        if not self._is_started:
            self._runner.start()
            self._on_start()
            self._is_started = True
        chosen = self._queue.take(free)
        most = max(_MIN_OF_A_JOB, _OVERLAP * slots * 2 // MAX_JOBS)
        for numbers in groups_of_like_length([sum(queued.task.length for queued in batch) for batch in chosen], most):
            job = [chosen[number] for number in numbers]
            names = list(dict.fromkeys(queued.owner.workflow.name for batch in job for queued in batch))
            steps = dict.fromkeys(queued.task.step for batch in job for queued in batch)
            group = self._name(f"{names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: {', '.join(steps)}")
            self._batches_running += len(job)
            tasks = [[_in_time(queued.task, self._seconds) for queued in batch] for batch in job]
            self._threads.job(partial(self._runner.run, tasks, group=group), partial(self._job_ended, job))

    def _job_ended(self, job: Sequence[Sequence[_QueuedTask]], answers_of_job: list[list[Any]]) -> None:
        self._batches_running -= len(job)
        for batch, answers in zip(job, answers_of_job, strict=True):
            for queued, answer in zip(batch, answers, strict=True):
                self._answer(queued.owner, queued.place, answer)

    def _give_back_all(self, seconds: float) -> None:
        """Give back the workflows that are under way; those that have ended meanwhile, or hang, have a result."""
        pending = []
        for execution in self._under_way:
            if execution.piece.given_up is not None:
                self._results.append(execution.workflow.left(execution.piece.given_up))
            elif execution.has_ended:
                self._results.append(execution.result)
            else:
                pending.append(execution)
        for execution, answer in zip(
            pending, in_threads(_Execution.give_back, pending, seconds=min(seconds, STOP_SECONDS)), strict=True
        ):
            if isinstance(answer, HangingError):
                self._results.append(execution.workflow.left(answer))
            else:
                self.given_back += 1
        self._under_way.clear()


def _in_time(task: Task, seconds: float) -> Task:
    return task if seconds == inf else replace(task, work=partial(in_time, task.work, seconds))


class _Execution:
    """The coroutine of a workflow, or of a subtask of its `parent`, and where it stands.

    place  of a subtask among the work that its parent awaits
    """

    def __init__(
        self, steps: Steps[Any], workflow: Workflow[Any], parent: _Execution | None = None, place: int = 0
    ) -> None:
        self.steps, self.workflow, self.parent, self.place = steps, workflow, parent, place
        self.work: tuple[Work, ...] = ()
        self.answers: Any = None
        self.missing = 0
        self.has_ended = False
        self.result: Any = None
        self.is_later = False
        """A subtask that has run tasks before."""
        self.piece = Piece()

    def give_back(self) -> None:
        """End it where it stands."""
        if getcoroutinestate(self.steps) == CORO_CREATED:
            self.workflow.give_back()
        for steps in (self.steps, *(work for work in self.work if not isinstance(work, Task))):
            steps.close()

    def step(self) -> None:
        """Run the coroutine until it awaits further work, or to its end."""
        self.is_later = self.parent is not None and self.answers is not None
        try:
            self.work = self.steps.send(self.answers)
            if self.piece.given_up is not None:  # the call has been answered after all
                self.give_back()
        except StopIteration as end:
            self.result, self.has_ended = end.value, True
        except Exception as error:
            if self.parent is None:
                raise
            self.result, self.has_ended = known_error(error, f"compact {self.workflow.name}"), True


@dataclass(frozen=True, slots=True)
class _QueuedTask:
    """A waiting task, the execution that awaits it and its place there, and its number in the order of arrival."""

    task: Task
    owner: _Execution
    place: int
    number: int


class _TaskQueue:
    """The waiting tasks: small ones by turns; of large ones first those that end a subtask, then the longest.

    So a long task is not the last to begin, when it would be alone on the executors.
    """

    def __init__(self) -> None:
        self._numbers = count()
        self._small: deque[_QueuedTask] = deque()
        self._large: list[tuple[bool, int, int, _QueuedTask]] = []

    def __bool__(self) -> bool:
        return bool(self._small or self._large)

    def add(self, task: Task, owner: _Execution, place: int) -> None:
        """Add a task."""
        queued = _QueuedTask(task, owner, place, next(self._numbers))
        if task.length < SMALL_BYTES:
            self._small.append(queued)
        else:
            heappush(self._large, (not owner.is_later, -task.length, queued.number, queued))

    def take(self, free: int) -> list[list[_QueuedTask]]:
        """Take the tasks to start now on so many free slots; those of a list share one."""
        large = [heappop(self._large) for _ in range(min(free, len(self._large)))]
        small = [self._small.popleft() for _ in range(min(free * BATCH_TASKS, len(self._small)))]
        tasks = sorted([*small, *(entry[-1] for entry in large)], key=lambda queued: queued.number)
        chosen = batches([queued.task.length for queued in tasks], free)
        started = {tasks[number].number for batch in chosen for number in batch}
        self._small.extendleft(queued for queued in reversed(small) if queued.number not in started)
        for entry in large:
            if entry[-1].number not in started:
                heappush(self._large, entry)
        return [[tasks[number] for number in batch] for batch in chosen]


class DriverThreads:
    """The threads of the driver, and what to call in the caller's thread when one has ended something.

    Steps run in the threads of one pool, jobs in those of another, which has as many as were needed at a time.

    seconds  `step_seconds`: a step that waits for an answer so long is left
    """

    def __init__(self, steps: Threads, jobs: Threads, seconds: float) -> None:
        self._steps, self._jobs, self.seconds = steps, jobs, seconds
        self._events: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._looked = time.monotonic()

    def step(
        self,
        step: Callable[[], Value],
        then: Callable[[Value], None],
        *,
        piece: Piece,
        left: Callable[[HangingError], None],
    ) -> None:
        """Do a step of a piece of work in the driver, and have `next_ended` call `then` with its value.

        If it hangs, `left` is called instead.
        """

        def ended(future: Future[Value]) -> None:
            if future.cancelled():
                return
            failure = future.exception()
            if isinstance(failure, HangingError) and piece.given_up is failure:
                self._events.put(partial(left, failure))
            else:
                self._events.put(lambda: then(future.result()))

        with STOPPING.shielded():
            self._steps.start(step, piece).add_done_callback(ended)

    def job(self, job: Callable[[], Value], then: Callable[[Value], None]) -> None:
        """Run a job on the executors, for which a thread waits; `then` as for `step`."""

        def ended(future: Future[Value]) -> None:
            if not future.cancelled():
                self._events.put(lambda: then(future.result()))

        with STOPPING.shielded():
            self._jobs.submit(job).add_done_callback(ended)

    def next_ended(self, while_waiting: Callable[[], None]) -> None:
        """Wait until something ends, calling `while_waiting` each second; then call `then` of all that has ended."""
        while True:
            if time.monotonic() - self._looked >= _WAITING_SECONDS:
                with STOPPING.shielded():
                    self._steps.give_up_hanging(self.seconds)
                self._looked = time.monotonic()
            try:
                then = self._events.get(timeout=_WAITING_SECONDS)
                break
            except Empty:
                while_waiting()
        then()
        while not self._events.empty():
            self._events.get()()

    def give_up(self, cancel: Callable[[], None]) -> None:
        """Begin nothing more, and wait for steps and jobs that were begun; `cancel` ends running jobs.

        A step that hangs is not waited for, nor a job that does not end.
        """
        for pool in (self._jobs, self._steps):
            pool.shutdown(wait=False, cancel_futures=True)
        self._jobs.stop(self.seconds, _JOB_SECONDS, cancel)
        self._steps.stop(min(self.seconds, STOP_SECONDS), self.seconds, cancel)


class _CallersThread(DriverThreads):
    """Runs steps and jobs one after the other, in the caller's thread."""

    def __init__(self, seconds: float) -> None:
        self._waiting: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self.seconds = seconds

    def step(
        self,
        step: Callable[[], Value],
        then: Callable[[Value], None],
        *,
        piece: Piece,
        left: Callable[[HangingError], None],
    ) -> None:
        del piece, left  # nothing is waited for in another thread
        self._waiting.append((step, then))

    def job(self, job: Callable[[], Value], then: Callable[[Value], None]) -> None:
        self._waiting.append((job, then))

    def next_ended(self, while_waiting: Callable[[], None]) -> None:
        del while_waiting  # nothing is waited for
        work, then = self._waiting.popleft()
        then(work())

    def give_up(self, cancel: Callable[[], None]) -> None:
        """Do nothing: nothing runs."""


@contextmanager
def _driver_threads(slots: int, seconds: float) -> Iterator[DriverThreads]:
    """Have the threads while a scheduler runs; without slots only the caller's."""
    if not slots:
        yield _CallersThread(seconds)
        return
    with Threads(THREADS, "acidlib-place") as steps, Threads(MAX_JOBS, "acidlib-job") as jobs:
        yield DriverThreads(steps, jobs, seconds)
