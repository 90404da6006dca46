"""What all parts of a run work with, handed in once by the job: so nothing below reads a clock or the environment.

Beside it how work is done elsewhere: tasks by a runner, and what mostly waits by threads of the driver. In both an
error is a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Barrier, Event
from typing import Any, Protocol, TypeVar

from acidlib.admission import OF_THIS_PROCESS, THREADS, AdaptiveLimit
from acidlib.config.settings import Settings
from acidlib.errors import AcidError, DefectError
from acidlib.model.location import Location
from acidlib.report.progress import TerminalProgress
from acidlib.service.stopping import STOPPING
from acidlib.stores.filesystem import FileSystem
from acidlib.stores.store import Claim, Store
from acidlib.stores.stores import Stores

Item = TypeVar("Item")
Value = TypeVar("Value")

WORKER_PREFIX = "acidlib-"
"""Every worker id, and every private pool, of this engine begins with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What all parts of one run work with.

    host       of the driver, for names
    worker_id  unique to the run: `acidlib-<host>-<run>`; no host name is a prefix of it
    clock      epoch seconds
    pause      waits for so many seconds
    unique     a new text at each call
    """

    stores: Stores
    runner: Runner
    settings: Settings
    host: str
    worker_id: str
    clock: Callable[[], float]
    pause: Callable[[float], None]
    unique: Callable[[], str]
    progress: TerminalProgress

    def fs(self, location: Location) -> FileSystem:
        """Return what reads and removes at a place."""
        return self.stores.fs(location)

    def store(self, location: Location) -> Store:
        """Return what publishes at a place."""
        return self.stores.store(location)

    def claim(self, location: Location) -> Claim:
        """Return a claim of this run on a place, as a context manager; ConflictError while another works there.

        What earlier runs staged there is taken from them: none of them can publish any more.
        """
        store = self.store(location)
        held = store.claim(location, owner=self.worker_id, token=self.unique(), now=self.clock())
        try:
            store.revoke_others(location)
        except BaseException:
            held.release()
            raise
        return held

    @property
    def initiator_id(self) -> str:
        """Who queues what is decided automatically: `<host>-acidlib-<run>`."""
        return f"{self.host}-acidlib-{self.worker_id.rpartition('-')[2]}"

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        return int(self.clock() * 1000)


@dataclass(frozen=True, slots=True)
class Task:
    """A function that is given a text unique to each attempt, and its input bytes. It is sent to another process.

    step  what it does, for people
    """

    work: Callable[[str], Any]
    length: int
    step: str = "task"


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """Which application of Spark ran the tasks, and where it can be looked at; None for none, or none that is known."""

    id: str | None = None
    tracking_url: str | None = None


class Runner(Protocol):
    """Runs tasks. May be used by several threads at once."""

    @property
    def application(self) -> Application:
        """Where the tasks were run, so far; also once it has ended."""

    @property
    def slots(self) -> int:
        """How many tasks run at the same time, as far as that is known now; 0 where the caller's thread runs them."""

    def start(self) -> None:
        """Have the place where tasks run, and what they are run with. RetryError where it cannot be had."""

    def run(self, batches: Sequence[Sequence[Task]], *, group: str) -> list[list[Any]]:
        """Return the value or the error (an AcidError) of each task, in order. A task run twice counts once.

        batches  the tasks of each are run one after the other, at the same place
        group    shown as the name of the work
        """

    def cancel(self) -> None:
        """End what is being run: it fails, and soon."""


def attempt(work: Callable[[Item], Value], item: Item) -> Value | AcidError:
    """Do one piece of work; an error becomes a value, so that it never takes others with it."""
    try:
        return work(item)
    except AcidError as error:
        return error
    except Exception as error:
        return DefectError(f"Cannot finish a task: unexpected {type(error).__name__}: {error}")


def value_or_raise(answer: Value | AcidError) -> Value:
    """Return what an attempt came to, or raise the error that it ended by."""
    if isinstance(answer, AcidError):
        raise answer
    return answer


@contextmanager
def started_threads(number: int, name: str) -> Iterator[ThreadPoolExecutor]:
    """Start a pool of threads, which are waited for at the end.

    An interrupt that comes while a thread is started is raised before the pool knows it, so it would not be waited for.
    """
    with ThreadPoolExecutor(number, thread_name_prefix=name) as pool:
        all_there = Barrier(number)
        try:
            for one in [pool.submit(all_there.wait) for _ in range(number)]:
                one.result()
        except BaseException:
            all_there.abort()
            raise
        yield pool


def as_done(
    work: Callable[[Item], Value],
    items: Sequence[Item],
    *,
    on_interrupt: Callable[[], None] = lambda: None,
    admission: AdaptiveLimit = OF_THIS_PROCESS,
) -> Iterator[tuple[int, Value | AcidError]]:
    """Yield which item is done and what it came to, as they come: for work that waits more than it computes.

    An interrupt does not wait for what has not begun; `on_interrupt` may shorten what has.
    """
    if not items:
        return
    interrupted = Event()

    def admitted(item: Item) -> Value:
        with admission:
            if interrupted.is_set():
                raise CancelledError
            return work(item)

    with started_threads(min(THREADS, len(items)), "acidlib-look") as pool:
        try:
            numbers = {pool.submit(attempt, admitted, item): number for number, item in enumerate(items)}
            for one in as_completed(list(numbers)):
                STOPPING.look()
                yield numbers.pop(one), one.result()
        except BaseException:
            interrupted.set()
            on_interrupt()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def in_threads(
    work: Callable[[Item], Value], items: Sequence[Item], *, on_progress: Callable[[int], None] = lambda _: None
) -> list[Value | AcidError]:
    """Return what each item came to, in order; see `as_done`."""
    found: dict[int, Value | AcidError] = {}
    for number, done in as_done(work, items):
        found[number] = done
        on_progress(len(found))
    return [found[number] for number in range(len(items))]
