"""The scheduler: many workflows under way at a time, in threads of the driver and tasks of Spark.

A workflow is a coroutine. A step of it, up to where it awaits `run_tasks(...)`, runs in a thread of the driver. The
tasks of all workflows wait together; whenever the runner has room they are started, small ones in batches, and a
workflow goes on as soon as its own tasks have ended. So a slow workflow delays no other. Everything but the steps of
workflows and the running of tasks happens in the caller's thread. With a runner without slots these do, too: then
workflows run one after the other.

The loop is none of asyncio, on purpose. In a notebook asyncio's own runs in the caller's thread, and it refuses a
second one there. An interrupt in the middle of its loop loses a callback, and what awaits that waits forever. And it
cannot tell that all that could go on has gone on: then tasks are put into batches, or handed out.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing, nullcontext
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
from acidlib.execute.answers import value_or_raise
from acidlib.execute.in_threads import THREADS, in_threads
from acidlib.execute.stopping import STOPPING
from acidlib.execute.task import Runner, Task
from acidlib.planning.units import BATCH_TASKS, SMALL_BYTES, groups_of_like_length, task_batches
from acidlib.waiting import STOP_SECONDS, Piece, Threads, in_time

Value = TypeVar("Value")
AnyResult = TypeVar("AnyResult", covariant=True)

Subtask = Coroutine["tuple[Task | Subtask, ...]", Any, Any]
"""A coroutine over tasks that follow from one another, such as the parts of a large file. It returns a task's value."""
Work = Task | Subtask
Steps = Coroutine[tuple[Work, ...], Any, AnyResult]
"""The coroutine of a workflow: a step ends by awaiting `run_tasks(...)`, and the last one returns the result."""


@coroutine
def run_tasks(*work: Work) -> Generator[tuple[Work, ...], list[Any], list[Any]]:
    """Run tasks and subtasks, all to their ends; return their values in order, or raise the first error among them."""
    return [value_or_raise(answer) for answer in (yield work)] if work else []


@dataclass(frozen=True, slots=True)
class HandedOut:
    """Tasks that the caller of the scheduler runs: it sends their values or errors, in their order."""

    tasks: tuple[Task, ...]


class Workflow(Protocol[AnyResult]):
    """Work in several steps, with tasks in between."""

    @property
    def name(self) -> str:
        """For people."""

    def run(self) -> Steps[AnyResult]:
        """Return the coroutine. Closed before its end, it gives back its claims and requests."""

    def give_back(self) -> None:
        """Leave the work to another run; called instead of the first step."""

    def hung(self, error: HangingError) -> AnyResult:
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


class Scheduler(Generic[AnyResult]):
    """Runs workflows on a runner.

    limit          how many are under way at a time, by the number of slots that the runner has then
    name           the name of a job, by its first workflow and its steps
    threads        the driver's threads, by the number of slots
    while_starting is entered as long as the runner starts
    on_start       is called once tasks can be run, before the first of them is
    on_result      gets each result, as it comes
    while_waiting  is called each second in which nothing happens
    seconds        `step_seconds`: a workflow with a step that waits for an answer so long is left, and such a task has
                   a HangingError
    hands_out      tells the tasks that `run` yields, once
    """

    def __init__(
        self,
        runner: Runner,
        *,
        limit: Callable[[int], int],
        name: Callable[[str], str],
        threads: Callable[[int], DriverThreads] | None = None,
        while_starting: Callable[[], AbstractContextManager[None]] = nullcontext,
        on_start: Callable[[], None] = lambda: None,
        on_result: Callable[[AnyResult], None],
        while_waiting: Callable[[], None] = lambda: None,
        seconds: float = inf,
        hands_out: Callable[[Task], bool] = lambda _: False,
    ) -> None:
        self._runner = runner
        self._limit = limit
        self._name = name
        self._threads_for = threads or partial(_driver_threads, seconds=seconds)
        self._while_starting = while_starting
        self._on_start = on_start
        self._on_result = on_result
        self._while_waiting = while_waiting
        self._seconds = seconds
        self._hands_out = hands_out
        self._under_way: set[_Execution] = set()
        self._results: deque[AnyResult] = deque()
        self._numbers = count()
        self._queue = _TaskQueue()
        self._to_hand_out: list[_QueuedTask] = []
        self._steps_waiting = self._batches_running = 0
        self._is_started = False
        self.given_back = 0
        """Workflows that were given back when the run was given up."""

    @property
    def in_flight(self) -> int:
        """How many workflows are under way."""
        return len(self._under_way)

    def run(self, workflows: Iterator[Workflow[AnyResult]]) -> Generator[HandedOut, Sequence[Any], None]:
        """Carry workflows out. The next one is drawn when there is room: a budget can end them.

        Where only tasks to hand out are left to do, it yields these once, and goes on with what it is sent.

        An AcidError of `workflows` is raised after those before it have ended. An interrupt, and any other error that
        is no result, gives back all that is under way, once steps that were begun have ended; see `given_back`. What
        has ended meanwhile has its result.
        """
        error, more = None, True
        with closing(self._threads_for(self._runner.slots)) as self._threads:
            try:
                while more or self._under_way or self._results:
                    try:
                        while more and self._has_room():
                            more = self._begin_next(workflows)
                    except AcidError as raised:
                        error, more = raised, False
                    self._start_tasks()
                    self._report()
                    if self._to_hand_out and not (more or self._steps_waiting or self._batches_running or self._queue):
                        yield from self._hand_out()
                    elif self._under_way:
                        self._threads.next_ended(self._while_waiting)
            except BaseException:
                self._threads.give_up(self._runner.cancel)
                self._give_back_all()
                self._report()
                raise
        if error is not None:
            raise error

    def _report(self) -> None:
        while self._results:
            self._on_result(self._results.popleft())

    # --- workflows ----------------------------------------------------------------------------------------------------

    def _has_room(self) -> bool:
        """Return whether another workflow may begin: none is long before its first step, nor delays those of others."""
        return self._steps_waiting < _STEPS_AHEAD * THREADS and len(self._under_way) < self._limit(self._runner.slots)

    def _begin_next(self, workflows: Iterator[Workflow[AnyResult]]) -> bool:
        """Begin the next workflow; return False if there is none."""
        with STOPPING.shielded():  # an interrupt finds it either under way or not drawn
            workflow = next(workflows, None)
            if workflow is None:
                return False
            execution = _Execution(workflow)
            self._under_way.add(execution)
        self._go_on(execution)
        return True

    def _go_on(self, execution: _Execution, answers: Sequence[Any] | None = None) -> None:
        """Have a thread take the next step of a workflow."""
        self._steps_waiting += 1
        self._threads.step(partial(execution.step, answers), execution.piece, partial(self._stepped, execution))

    def _stepped(self, execution: _Execution, step: Future[None]) -> None:
        self._steps_waiting -= 1
        if execution.piece.given_up is None:
            step.result()  # an error is that of the run
        if not self._collect(execution):
            self._await_all(execution.work, execution, partial(self._go_on, execution))

    def _collect(self, execution: _Execution) -> bool:
        """Take the result of a workflow that has ended, or hangs; return whether there is one."""
        given_up = execution.piece.given_up
        if given_up is None and not execution.has_ended:
            return False
        self._under_way.discard(execution)
        self._results.append(execution.result if given_up is None else execution.workflow.hung(given_up))
        return True

    def _give_back_all(self) -> None:
        """Give back the workflows that are under way; those that have ended meanwhile, or hang, have a result."""
        pending = [execution for execution in tuple(self._under_way) if not self._collect(execution)]
        answers = in_threads(_Execution.give_back, pending, seconds=min(self._seconds, STOP_SECONDS))
        for execution, answer in zip(pending, answers, strict=True):
            if isinstance(answer, HangingError):
                self._results.append(execution.workflow.hung(answer))
            else:
                self.given_back += 1
        self._under_way.clear()

    # --- what they await ----------------------------------------------------------------------------------------------

    def _await_all(
        self, work: Sequence[Work], execution: _Execution, then: Callable[[Sequence[Any]], None], *, later: bool = False
    ) -> None:
        """Queue tasks and begin subtasks; `then` gets the values or errors of all, in order, once they have ended.

        later  they are of a subtask that has run tasks before
        """
        answers: dict[int, Any] = {}

        def answered(place: int, answer: Any) -> None:
            answers[place] = answer
            if len(answers) == len(work):
                then([answers[place] for place in range(len(work))])

        for place, entry in enumerate(work):
            if isinstance(entry, Task):
                queued = _QueuedTask(entry, execution, later, partial(answered, place), next(self._numbers))
                (self._to_hand_out if self._hands_out(entry) else self._queue).append(queued)
            else:
                self._go_on_with_subtask(entry, execution, partial(answered, place))

    def _go_on_with_subtask(
        self, subtask: Subtask, execution: _Execution, then: Callable[[Any], None], answers: Any = None
    ) -> None:
        """Take the next step of a subtask, here and now: it only returns further tasks. Its value is for `then`."""
        try:
            work = subtask.send(answers)
        except StopIteration as end:
            then(end.value)
        except Exception as error:
            then(known_error(error, f"compact {execution.workflow.name}"))
        else:
            go_on = partial(self._go_on_with_subtask, subtask, execution, then)
            self._await_all(work, execution, go_on, later=answers is not None)

    def _hand_out(self) -> Generator[HandedOut, Sequence[Any], None]:
        """Yield the tasks to hand out, and take their values or errors; all further ones run here."""
        handed, self._to_hand_out = self._to_hand_out, []
        self._hands_out = lambda _: False
        answers = yield HandedOut(tuple(queued.task for queued in handed))
        for queued, answer in zip(handed, answers, strict=True):
            queued.then(answer)

    def _start_tasks(self) -> None:
        """Start waiting tasks, as far as the runner has room."""
        slots = self._runner.slots
        free = _OVERLAP * slots - self._batches_running if slots else _ALONE
        if not self._queue or free <= 0:
            return
        if not self._is_started:
            with self._while_starting():
                self._runner.start()
            self._on_start()
            self._is_started = True
        chosen = self._queue.take(free)
        most = max(_MIN_OF_A_JOB, _OVERLAP * slots * 2 // MAX_JOBS)
        for numbers in groups_of_like_length([sum(queued.task.length for queued in batch) for batch in chosen], most):
            job = [chosen[number] for number in numbers]
            names = list(dict.fromkeys(queued.execution.workflow.name for batch in job for queued in batch))
            steps = dict.fromkeys(queued.task.step for batch in job for queued in batch)
            group = self._name(f"{names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: {', '.join(steps)}")
            tasks = [[_in_time(queued.task, self._seconds) for queued in batch] for batch in job]
            self._batches_running += len(job)
            self._threads.job(partial(self._runner.run_batches, tasks, group=group), partial(self._job_ended, job))

    def _job_ended(self, job: Sequence[Sequence[_QueuedTask]], ended: Future[list[list[Any]]]) -> None:
        self._batches_running -= len(job)
        for batch, answers in zip(job, ended.result(), strict=True):
            for queued, answer in zip(batch, answers, strict=True):
                queued.then(answer)


def _in_time(task: Task, seconds: float) -> Task:
    return task if seconds == inf else replace(task, work=partial(in_time, task.work, seconds))


class _Execution:
    """The coroutine of a workflow, and where it stands: what it awaits, or its result."""

    def __init__(self, workflow: Workflow[Any]) -> None:
        self.workflow, self.steps, self.piece = workflow, workflow.run(), Piece()
        self.work: tuple[Work, ...] = ()
        self.has_ended = False
        self.result: Any = None

    def step(self, answers: Sequence[Any] | None) -> None:
        """Run the coroutine until it awaits further work, or to its end."""
        try:
            self.work = self.steps.send(answers)
            if self.piece.given_up is not None:  # the call has been answered after all
                self.give_back()
        except StopIteration as end:
            self.result, self.has_ended = end.value, True

    def give_back(self) -> None:
        """End it where it stands."""
        if getcoroutinestate(self.steps) == CORO_CREATED:
            self.workflow.give_back()
        for steps in (self.steps, *(work for work in self.work if not isinstance(work, Task))):
            steps.close()


@dataclass(frozen=True, slots=True)
class _QueuedTask:
    """A waiting task of a workflow.

    later   it is of a subtask that has run tasks before
    then    gets its value or error
    number  in the order of arrival
    """

    task: Task
    execution: _Execution
    later: bool
    then: Callable[[Any], None]
    number: int


class _TaskQueue:
    """The waiting tasks: small ones by turns; of large ones first those that end a subtask, then the longest.

    So a long task is not the last to begin, when it would be alone on the executors.
    """

    def __init__(self) -> None:
        self._small: deque[_QueuedTask] = deque()
        self._large: list[tuple[bool, int, int, _QueuedTask]] = []

    def __bool__(self) -> bool:
        return bool(self._small or self._large)

    def append(self, queued: _QueuedTask) -> None:
        """Add a task."""
        if queued.task.length < SMALL_BYTES:
            self._small.append(queued)
        else:
            heappush(self._large, (not queued.later, -queued.task.length, queued.number, queued))

    def take(self, free: int) -> list[list[_QueuedTask]]:
        """Take the tasks to start now on so many free slots; those of a list share one."""
        large = [heappop(self._large) for _ in range(min(free, len(self._large)))]
        small = [self._small.popleft() for _ in range(min(free * BATCH_TASKS, len(self._small)))]
        tasks = sorted([*small, *(entry[-1] for entry in large)], key=lambda queued: queued.number)
        chosen = task_batches([queued.task.length for queued in tasks], free)
        started = {tasks[number].number for batch in chosen for number in batch}
        self._small.extendleft(queued for queued in reversed(small) if queued.number not in started)
        for entry in large:
            if entry[-1].number not in started:
                heappush(self._large, entry)
        return [[tasks[number] for number in batch] for batch in chosen]


class DriverThreads:
    """The threads of the driver, and what they have ended and the caller's thread does not know yet.

    Steps run in the threads of one pool, jobs in those of another, which has as many as were needed at a time.

    seconds  `step_seconds`: a step that waits for an answer so long is left
    """

    def __init__(self, seconds: float) -> None:
        self._steps, self._jobs = Threads(THREADS, "acidlib-place"), Threads(MAX_JOBS, "acidlib-job")
        self._seconds = seconds
        self._ended: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._looked = time.monotonic()

    def step(self, step: Callable[[], Value], piece: Piece, then: Callable[[Future[Value]], None]) -> None:
        """Do a step of a piece of work in the driver, and have `next_ended` call `then` when it has ended, or hangs."""
        self._start(self._steps, step, piece, then)

    def job(self, job: Callable[[], Value], then: Callable[[Future[Value]], None]) -> None:
        """Run a job on the executors, for which a thread waits; `then` as for `step`."""
        self._start(self._jobs, job, Piece(), then)

    def _start(
        self, pool: Threads, call: Callable[[], Value], piece: Piece, then: Callable[[Future[Value]], None]
    ) -> None:
        def ended(future: Future[Value]) -> None:
            if not future.cancelled():
                self._ended.put(partial(then, future))

        with STOPPING.shielded():
            pool.start(call, piece).add_done_callback(ended)

    def next_ended(self, while_waiting: Callable[[], None]) -> None:
        """Wait until something ends, calling `while_waiting` each second; then call `then` of all that has ended."""
        while True:
            if time.monotonic() - self._looked >= _WAITING_SECONDS:
                with STOPPING.shielded():
                    self._steps.give_up_hanging(self._seconds)
                self._looked = time.monotonic()
            try:
                then = self._ended.get(timeout=_WAITING_SECONDS)
                break
            except Empty:
                while_waiting()
        then()
        while not self._ended.empty():
            self._ended.get()()

    def give_up(self, cancel: Callable[[], None]) -> None:
        """Begin nothing more, and wait for steps and jobs that were begun; `cancel` ends running jobs.

        A step that hangs is not waited for, nor a job that does not end.
        """
        for pool in (self._jobs, self._steps):
            pool.shutdown(wait=False, cancel_futures=True)
        self._jobs.stop(self._seconds, _JOB_SECONDS, cancel)
        self._steps.stop(min(self._seconds, STOP_SECONDS), self._seconds, cancel)

    def close(self) -> None:
        """End the threads, once nothing runs in them."""
        for pool in (self._jobs, self._steps):
            pool.shutdown()


class _CallersThread(DriverThreads):
    """Runs steps and jobs one after the other, in the caller's thread when it waits for them."""

    def _start(
        self, pool: Threads, call: Callable[[], Value], piece: Piece, then: Callable[[Future[Value]], None]
    ) -> None:
        del pool, piece  # nothing is waited for in another thread

        def run() -> None:
            future: Future[Value] = Future()
            future.set_result(call())
            then(future)

        self._ended.put(run)


def _driver_threads(slots: int, seconds: float) -> DriverThreads:
    return DriverThreads(seconds) if slots else _CallersThread(seconds)
