"""Many workflows under way at a time: a slow one delays no other, and an interrupt gives all back."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from runners import LocalRunner, ThreadRunner
from waits import until

from acidlib.errors import ConflictError, HangingError, RetryError
from acidlib.execute.answers import returned_by
from acidlib.execute.schedule import Scheduler, Workflow, run_tasks
from acidlib.execute.stopping import STOPPING
from acidlib.execute.task import Task
from acidlib.planning.units import SMALL_BYTES
from acidlib.waiting import asking

SECONDS = 120


@dataclass
class Doubled:
    """Asks for its number twice as large, and ends with it."""

    number: int
    work: Callable[[Any, str], Any] = lambda item, _: 2 * item
    length: int = 1
    before: Callable[[], object] = lambda: None
    log: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"p{self.number}"

    async def run(self) -> int:
        self.log.append(f"{self.name} begun")
        try:
            self.before()
            (done,) = await run_tasks(Task(partial(self.work, self.number), self.length))
            self.log.append(f"{self.name} ended")
            return done
        except GeneratorExit:
            self.log.append(f"{self.name} closed")
            raise

    def give_back(self) -> None:
        self.log.append(f"{self.name} given back")

    def hung(self, error: HangingError) -> int:
        self.log.append(str(error))
        return -1


class Run(Scheduler[Any]):
    """A run whose results are kept in the order in which they come; `then` is called once there are so many."""

    def __init__(
        self, runner: Any, limit: int = 4, number: int = 0, then: Callable[[], object] = lambda: None, **more: Any
    ) -> None:
        self.results: list[Any] = []
        self._number, self._then = number, then
        super().__init__(
            runner, limit=lambda slots: limit if slots else 1, name="doubling {}".format, on_result=self._add, **more
        )

    def _add(self, result: Any) -> None:
        self.results.append(result)
        if len(self.results) == self._number:
            self._then()

    def of(self, workflows: Iterable[Workflow[Any]]) -> list[Any]:
        returned_by(self.run(iter(workflows)))
        return self.results


def test_without_slots_one_is_done_after_the_other() -> None:
    log: list[str] = []
    assert Run(LocalRunner(str)).of(Doubled(number, log=log) for number in range(3)) == [0, 2, 4]
    assert log == [f"p{number} {what}" for number in range(3) for what in ("begun", "ended")]


@pytest.mark.parametrize("in_the_driver", [False, True])
def test_what_takes_long_delays_itself_alone(in_the_driver: bool) -> None:
    go = threading.Event()

    def slow(item: int, _: str) -> int:
        assert go.wait(SECONDS)
        return -1

    late = Doubled(0, before=lambda: go.wait(SECONDS)) if in_the_driver else Doubled(0, work=slow, length=SMALL_BYTES)
    results = Run(ThreadRunner(), number=39, then=go.set).of([late, *(Doubled(number) for number in range(1, 40))])
    assert sorted(results[:39]) == [2 * number for number in range(1, 40)]
    assert len(results) == 40


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_step_that_hangs_is_left(is_stopped: bool) -> None:
    """It has a result, the others are done, and a stop does not wait for it, whatever it waits for."""
    log: list[str] = []
    begun, answer = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        if is_stopped:
            answer.wait(SECONDS)
        else:
            with asking("list", "/t"):
                answer.wait(SECONDS)

    def others_have_ended() -> None:
        assert begun.wait(SECONDS)
        if is_stopped:
            interrupted()

    workflows = [Doubled(0, before=hang, log=log), *(Doubled(number) for number in range(1, 20))]
    run = Run(ThreadRunner(), number=19, then=others_have_ended, seconds=0.5)
    with pytest.raises(KeyboardInterrupt) if is_stopped else nullcontext():
        run.of(workflows)
    assert sorted(run.results) == [-1, *(2 * number for number in range(1, 20))]
    doing = "go on" if is_stopped else "list /t"
    assert log[1].startswith(f"Cannot {doing}: there has been no answer for")
    assert log[1:] == log[1:2]
    answer.set()
    for thread in threading.enumerate():
        if thread.name == "acidlib-place":
            thread.join(SECONDS)
    assert log[2:] == ["p0 closed"], "what was left is given back once it is answered"


def test_no_more_are_begun_than_may_be_under_way() -> None:
    log: list[str] = []

    def under_way() -> int:
        return sum(line.endswith("begun") for line in log) - sum(line.endswith("ended") for line in log)

    most: list[int] = []
    workflows = (Doubled(number, log=log, before=lambda: most.append(under_way())) for number in range(40))
    assert len(Run(ThreadRunner(), limit=3).of(workflows)) == 40
    assert 2 <= max(most) <= 3


def when(condition: Callable[[], object], then: Callable[[], object]) -> None:
    """Has a thread wait for a condition."""
    threading.Thread(target=lambda: (until(condition), then()), daemon=True).start()


def test_what_waits_together_runs_together() -> None:
    """While both slots are taken the others gather; then they share batches, and their job is called by the first."""
    go = threading.Event()

    def held(item: int, _: str) -> int:
        assert go.wait(SECONDS)
        return item

    runner, log = ThreadRunner(slots=1), list[str]()
    first = [Doubled(number, work=held, log=log) for number in range(2)]
    rest = [Doubled(number, log=log) for number in range(2, 32)]
    run = Run(runner, limit=32)
    when(lambda: len(log) == 32 and not run._steps_waiting, go.set)
    assert len(run.of([*first, *rest])) == 32
    assert max(len(batch) for _, batches in runner.jobs for batch in batches) >= 10
    assert len(runner.jobs) < 16
    assert any(group.startswith("doubling p") and " and " in group for group, _ in runner.jobs)


def test_of_large_tasks_those_that_end_a_subtask_go_first_and_then_the_longest() -> None:
    go, both_run = threading.Event(), threading.Barrier(4)

    def held(item: int, _: str) -> int:
        both_run.wait(SECONDS)
        assert go.wait(SECONDS)
        return item

    class Twice(Doubled):
        async def run(self) -> int:
            async def both() -> Any:
                await run_tasks(Task(partial(held, -1), SMALL_BYTES))
                (done,) = await run_tasks(Task(partial(self.work, self.number), SMALL_BYTES))
                return done

            (done,) = await run_tasks(both())
            return done

    runner = ThreadRunner(slots=1)
    waiting = [Doubled(number, length=number * SMALL_BYTES, before=lambda: both_run.wait(SECONDS)) for number in (3, 9)]
    run = Run(runner, limit=32)
    when(lambda: len(run._queue._large) == len(waiting), go.set)
    workflows = [Twice(1), Doubled(2, work=held, length=SMALL_BYTES), *waiting]
    assert len(run.of(workflows)) == 4
    order = [work.args[0] for _, batches in runner.jobs for batch in batches for work in batch]
    assert order[2:] in ([1, 9, 3], [9, 1, 3]), "two are started at a time, in one job or in two"


def test_a_subtask_may_ask_again_and_a_workflow_may_ask_for_nothing() -> None:
    async def twice(item: int) -> Any:
        (first,) = await run_tasks(Task(lambda _: item + 1, 1))
        left, right = await run_tasks(Task(lambda _: first, 1), Task(lambda _: -first, 1))
        return left, right

    class Asking(Doubled):
        async def run(self) -> Any:
            assert await run_tasks() == []
            return await run_tasks(twice(1), twice(5))

    for runner in (ThreadRunner(), LocalRunner(str)):
        assert Run(runner).of([Asking(0)]) == [[(2, -2), (6, -6)]]


@pytest.mark.parametrize("by_subtask", [False, True])
def test_an_error_of_a_task_is_raised_where_its_value_is_awaited(by_subtask: bool) -> None:
    """By then the other tasks that were asked for have ended, too."""
    done: list[int] = []

    def refused(item: int, _: str) -> int:
        done.append(item)
        if item == 1:
            raise ConflictError("Cannot double: the test says so")
        return item

    async def sub(item: int) -> Any:
        (found,) = await run_tasks(Task(partial(refused, item), 1))
        return found

    class Told(Doubled):
        async def run(self) -> Any:
            try:
                return await run_tasks(
                    *(sub(item) if by_subtask else Task(partial(refused, item), 1) for item in (1, 2))
                )
            except ConflictError as error:
                return str(error)

    assert Run(ThreadRunner()).of([Told(1)]) == ["Cannot double: the test says so"]
    assert sorted(done) == [1, 2]


@pytest.mark.parametrize("runner", [ThreadRunner(), LocalRunner(str)], ids=["threads", "alone"])
def test_what_was_begun_is_done_before_an_error_of_the_source(runner: Any) -> None:
    def source() -> Iterator[Doubled]:
        yield Doubled(1)
        yield Doubled(2)
        raise RetryError("Cannot go on: the test says so")

    run = Run(runner)
    with pytest.raises(RetryError, match="the test says so"):
        run.of(source())
    assert sorted(run.results) == [2, 4]


def interrupted(*_: object) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["a step", "a task", "the source", "the caller"])
def test_an_interrupt_gives_back_what_is_under_way(where: str) -> None:
    runner, log = ThreadRunner(), list[str]()

    running = threading.Event()

    def held(item: int, _: str) -> int:
        running.set()
        assert runner.cancelled.wait(SECONDS)
        return item

    def first_one_runs() -> None:
        assert running.wait(SECONDS)
        if where == "a step":
            interrupted()

    def source() -> Iterator[Workflow[int]]:
        yield Doubled(0, work=held, log=log)
        if where == "the source":
            interrupted()
        work = interrupted if where == "a task" else lambda item, _: item
        yield Doubled(1, before=first_one_runs, log=log, work=work)
        yield Doubled(2, work=held, log=log)

    with pytest.raises(KeyboardInterrupt):
        Run(runner, limit=2, number=1, then=interrupted).of(source())
    assert runner.cancelled.is_set() or where == "the source", "tasks run there"
    ended = {line.split()[0] for line in log if not line.endswith("begun")}
    assert ended >= {line.split()[0] for line in log if where != "a step" or not line.startswith("p1")}
    assert "p0 closed" in log or "p0 given back" in log
    assert "p0 ended" not in log


def test_what_was_taken_when_a_signal_came_is_given_back() -> None:
    log: list[str] = []

    def source() -> Iterator[Doubled]:
        log.append("p0 taken")
        os.kill(os.getpid(), signal.SIGTERM)
        yield Doubled(0, log=log)

    with STOPPING.by_signals(lambda _: None, lambda _: None), pytest.raises(KeyboardInterrupt):
        Run(ThreadRunner()).of(source())
    assert log == ["p0 taken", "p0 given back"]


def test_what_ends_while_the_run_is_given_up_has_its_result() -> None:
    """Such as a place that was being published."""
    runner, running = ThreadRunner(), threading.Event()

    class Published(Doubled):
        async def run(self) -> int:
            (done,) = await run_tasks(Task(partial(self.work, self.number), self.length))
            running.set()
            assert runner.cancelled.wait(SECONDS)
            return done

    def first_has_ended() -> None:
        assert running.wait(SECONDS)
        interrupted()

    late = Doubled(3, before=lambda: runner.cancelled.wait(SECONDS))
    run = Run(runner, number=1, then=first_has_ended)
    with pytest.raises(KeyboardInterrupt):
        run.of([Doubled(1), Published(2), late])
    assert (run.results, run.given_back, run.in_flight) == ([2, 4], 1, 0)


def test_a_machine_without_room_for_a_thread_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a job that never began."""
    start, log = threading.Thread.start, list[str]()

    def no_thread_for_jobs(thread: threading.Thread) -> None:
        if thread.name.startswith("acidlib-job"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", no_thread_for_jobs)
    seconds = iter(range(SECONDS))
    workflows = iter([Doubled(0, log=log)])

    def waited() -> None:
        next(seconds)

    with pytest.raises(RuntimeError, match="can't start new thread"):
        Run(ThreadRunner(), limit=2, while_waiting=waited).of(workflows)
    assert log == ["p0 begun", "p0 closed"]
