"""A cluster in virtual time under the scheduling code of a run: nothing sleeps, no thread is started, equal by seed.

The scheduler, its batches and its limit of places are the engine's. What is modelled is what they decide about: a
driver whose threads share one interpreter, whose store and metastore answer late, and executors with one queue.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

from acidlib.execute.answers import returned_by
from acidlib.execute.schedule import MAX_JOBS, THREADS, DriverThreads, Scheduler, run_tasks
from acidlib.execute.task import Task
from acidlib.model.units import MEBIBYTE
from acidlib.planning.units import MAX_PARTS, part_bytes_on
from acidlib.runs.compactions import places_in_flight
from acidlib.runs.plan import JOINING, PLANNING
from acidlib.waiting import Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds that things take, and bytes a second of a rewrite; `tests/bench/README.md` says where they come from.

    taking         the next place is taken from the queue, in the thread of the scheduler
    begin, end     CPU of the driver before a place's tasks, and after them
    calls          what a place waits for the store and the metastore in each of the two steps
    event          CPU of the scheduler for each thing that ended
    job, task      CPU of the driver for a job of Spark, and for each of its tasks
    sending        of Spark's driver for each task, one after the other
    batch, file    of an executor for a task of Spark, and for each file made in it
    straggling     how much longer a task takes, and how many of a thousand do
    """

    taking: float = 0.0005
    begin: float = 0.002
    end: float = 0.003
    calls: float = 0.05
    event: float = 0.00002
    job: float = 0.004
    task: float = 0.00015
    sending: float = 0.0005
    batch: float = 0.01
    file: float = 0.01
    rate: float = 80.0 * MEBIBYTE
    straggling: tuple[float, int] = (3.0, 10)
    part_bytes: int = 64 * MEBIBYTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a run, in virtual seconds.

    bound   what no scheduling beats: all work over all cores, or the place that takes longest, shared as it may be
    driver  how much of the time the driver's interpreter worked
    busy    seconds of that
    """

    places: int
    cores: int
    bytes: int
    seconds: float
    work: float
    longest: float
    driver: float
    busy: float
    most_under_way: int
    jobs: int

    @property
    def bound(self) -> float:
        return max(self.work / self.cores, self.longest)

    @property
    def ratio(self) -> float:
        return self.seconds / self.bound


def heavy_tailed(seed: int, places: int, mean: int, *, most: int, tail: float = 1.2) -> list[int]:
    """Sizes of places of about such a mean: most are small, and a few hold most of the bytes."""
    dice = random.Random(seed)
    found = [dice.paretovariate(tail) for _ in range(places)]
    for _ in range(3):  # what is cut off is made up for
        scale = mean * places / sum(found)
        found = [min(most, size * scale) for size in found]
    return [int(size) for size in found]


class _Machine:
    """The driver and the executors. `now` is where the thread of the scheduler is."""

    def __init__(self, cores: int, costs: Costs, seed: int) -> None:
        self.costs, self.now = costs, 0.0
        self.interpreter = self.busy = self.worked = 0.0
        self.slots = cores
        self.jobs = 0
        self._dice = random.Random(seed)
        self._free = [0.0] * cores
        self._sender = 0.0
        self._ahead: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()
        self._batches: Sequence[Sequence[Task]] = ()

    # --- time -----------------------------------------------------------------------------------------------------

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._ahead, (when, next(self._number), what))

    def next_thing(self) -> None:
        when, _, what = heapq.heappop(self._ahead)
        self.now = max(self.now, when)
        what()

    def compute(self, seconds: float, since: float) -> float:
        """When the driver's interpreter has done so much more, which is asked for then."""
        self.interpreter = max(self.interpreter, since) + seconds
        self.busy += seconds
        return self.interpreter

    def spend(self, seconds: float, *, waiting: float = 0.0) -> None:
        """The thread of the scheduler computes and waits; everything else goes on."""
        until = self.compute(seconds, self.now) + waiting
        while self._ahead and self._ahead[0][0] <= until:
            self.next_thing()
        self.now = max(self.now, until)

    # --- the executors: see acidlib.execute.task.Runner ---------------------------------------------------------

    def start(self) -> None:
        """It is here."""

    def run_batches(self, batches: Sequence[Sequence[Task]], *, group: str) -> list[list[Any]]:
        """The answers at once; `job_ends` says when they are there."""
        del group
        self._batches = batches
        return [[0 for _ in batch] for batch in batches]

    def cancel(self) -> None:
        raise AssertionError("nothing is given up here")

    def job_ends(self, since: float) -> float:
        """When the job that was just run has ended, which the driver's thread begins then."""
        costs, batches = self.costs, self._batches
        self.jobs += 1
        self._sender = max(self._sender, self.compute(costs.job + costs.task * len(batches), since))
        last = 0.0
        for batch in batches:
            self._sender += costs.sending
            seconds = costs.batch
            for task in batch:
                seconds += costs.file + task.length / costs.rate
            slower, of_thousand = costs.straggling
            self.worked += seconds
            if self._dice.randrange(1000) < of_thousand:
                seconds *= slower
            begun = max(heapq.heappop(self._free), self._sender)
            heapq.heappush(self._free, begun + seconds)
            last = max(last, begun + seconds)
        return last


class _Pool:
    """So many threads of the driver, and what waits for one."""

    def __init__(self, machine: _Machine, threads: int) -> None:
        self._machine, self._free = machine, threads
        self._waiting: deque[tuple[Callable[[float], float], Callable[[], None]]] = deque()

    def submit(self, work: Callable[[float], float], then: Callable[[], None]) -> None:
        self._waiting.append((work, then))
        self._go_on(self._machine.now)

    def _go_on(self, now: float) -> None:
        while self._free and self._waiting:
            work, then = self._waiting.popleft()
            self._free -= 1
            end = work(now)
            self._machine.at(end, lambda end=end, then=then: self._ended(end, then))  # type: ignore[misc]

    def _ended(self, now: float, then: Callable[[], None]) -> None:
        self._free += 1
        then()
        self._go_on(now)


class _VirtualThreads(DriverThreads):
    """See acidlib.execute.schedule.DriverThreads."""

    def __init__(self, machine: _Machine) -> None:
        self._machine = machine
        self._steps, self._jobs = _Pool(machine, THREADS), _Pool(machine, MAX_JOBS)
        self._ended: deque[Callable[[], None]] = deque()
        self.spent = 0.0
        """CPU of the step that is being taken."""

    def step(self, work: Callable[[], Any], _: Piece, then: Callable[[Future[Any]], None]) -> None:
        future: Future[Any] = Future()

        def take(now: float) -> float:
            future.set_result(work())
            return self._machine.compute(self.spent, now) + self._machine.costs.calls

        self._steps.submit(take, lambda: self._ended.append(partial(then, future)))

    def job(self, work: Callable[[], Any], then: Callable[[Future[Any]], None]) -> None:
        future: Future[Any] = Future()

        def run(now: float) -> float:
            future.set_result(work())
            return self._machine.job_ends(now)

        self._jobs.submit(run, lambda: self._ended.append(partial(then, future)))

    def next_ended(self, while_waiting: Callable[[], None]) -> None:
        while not self._ended:
            self._machine.next_thing()
        while self._ended:
            then = self._ended.popleft()
            self._machine.spend(self._machine.costs.event)
            then()

    def give_up(self, cancel: Callable[[], None]) -> None:
        cancel()

    def close(self) -> None:
        """There are none."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A place of one bucket: two steps in the driver, and in between the tasks of `file_task()`."""

    number: int
    length: int
    threads: _VirtualThreads
    costs: Costs
    cores: int

    @property
    def name(self) -> str:
        return f"p{self.number}"

    async def run(self) -> int:
        self.threads.spent = self.costs.begin
        await run_tasks(self._made())
        self.threads.spent = self.costs.end
        return self.number

    def give_back(self) -> None:
        raise AssertionError("nothing is given up here")

    async def _made(self) -> Any:
        parts = parts_of(self.length, self.costs, self.cores)
        if parts > 1:
            await run_tasks(_task(int(self.length * PLANNING)))
            await run_tasks(*(_task(self.length // parts) for _ in range(parts)))
        (done,) = await run_tasks(_task(int(self.length * JOINING) if parts > 1 else self.length))
        return done


def parts_of(length: int, costs: Costs, cores: int) -> int:
    """By how many tasks a bucket is rewritten."""
    part_bytes = part_bytes_on(cores, costs.part_bytes)
    return min(length // part_bytes, MAX_PARTS) if length >= 2 * part_bytes else 1


def _task(length: int) -> Task:
    return Task(str, length)


def longest(length: int, costs: Costs, cores: int) -> float:
    """Seconds of a bucket that has as many cores as may share it."""
    parts = min(parts_of(length, costs, cores), cores)
    shared = 1.0 if parts == 1 else PLANNING + 1 / parts + JOINING
    return shared * length / costs.rate + (1 if parts == 1 else 3) * (costs.batch + costs.file)


def simulate(sizes: Sequence[int], *, cores: int, costs: Costs | None = None, seed: int = 0) -> Outcome:
    """Compact places of such input bytes, in that order."""
    costs = costs or Costs()
    machine = _Machine(cores, costs, seed)
    threads = _VirtualThreads(machine)
    under_way = most = 0

    def workflows() -> Iterator[_Place]:
        nonlocal under_way, most
        for number, length in enumerate(sizes):
            machine.spend(0.0, waiting=costs.taking)
            under_way += 1
            most = max(most, under_way)
            yield _Place(number, length, threads, costs, cores)

    done = set()

    def ended(number: int) -> None:
        nonlocal under_way
        under_way -= 1
        done.add(number)

    scheduler: Scheduler[int] = Scheduler(
        machine, limit=places_in_flight, name=str, threads=lambda _: threads, on_result=ended
    )
    returned_by(scheduler.run(workflows()))
    assert len(done) == len(sizes)
    return Outcome(
        places=len(sizes),
        cores=cores,
        bytes=sum(sizes),
        seconds=machine.now,
        work=machine.worked,
        longest=max(longest(size, costs, cores) for size in sizes),
        driver=machine.busy / machine.now,
        busy=machine.busy,
        most_under_way=most,
        jobs=machine.jobs,
    )
