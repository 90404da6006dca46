"""The services of a run, handed in once by the job, so that nothing below reads a clock or the environment.

Beside them tasks on a runner, and work whose error is a value.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol, TypeVar

from acidlib.config.settings import Settings
from acidlib.errors import AcidError, RetryError, UnknownOutcomeError, known_error
from acidlib.location import Location
from acidlib.memory import Memory, barred
from acidlib.report.progress import WARNING, Progress
from acidlib.stores.filesystem import FileSystem
from acidlib.stores.store import Claim, Store
from acidlib.stores.stores import Stores

Item = TypeVar("Item")
Value = TypeVar("Value")

WORKER_PREFIX = "acidlib-"
"""Every worker id, and every private pool, of this engine begins with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services of one run.

    host       of the driver, for names
    worker_id  unique to the run: `acidlib-<host>-<run>`, signed by its process; no host name is a prefix of it
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
    progress: Progress

    def fs(self, location: Location) -> FileSystem:
        """Return the file system of a place, to read and remove there."""
        return self.stores.fs(location)

    def store(self, location: Location) -> Store:
        """Return the store of a place, to publish there."""
        return self.stores.store(location)

    def claim_and_revoke(self, location: Location) -> Claim:
        """Return this run's claim on a place, as a context manager; ConflictError while another run works there.

        Stages of earlier runs there are revoked: none of these runs can publish any more.
        """
        store = self.store(location)
        claim = store.claim(location, owner=self.worker_id, token=self.unique(), now=self.clock())
        try:
            store.revoke_others(location)
        except BaseException:
            claim.release()
            raise
        return claim

    def warn(self, lines: Iterable[str]) -> None:
        """Show events that an operator has to know of, also where only problems are mailed."""
        for line in lines:
            self.progress.note(line, level=WARNING)

    @property
    def initiator_id(self) -> str:
        """The initiator of requests that are queued automatically: `<host>-acidlib-<run>`."""
        return f"{self.host}-acidlib-{self.worker_id.rpartition('-')[2].partition('.')[0]}"

    def now_ms(self) -> int:
        """Return the time in epoch milliseconds."""
        return int(self.clock() * 1000)


@dataclass(frozen=True, slots=True)
class Task:
    """A function that is sent to another process. It is called with a text that is unique to each attempt.

    length  its input bytes, by which tasks are scheduled
    step    its kind of work, for people
    where   the file or place that it reads or makes, for people
    memory  its process is held to the barrier of this, as it reads files with libraries that know no limit
    """

    work: Callable[[str], Any]
    length: int
    step: str = "task"
    where: str = ""
    memory: Memory | None = None

    def attempt(self, unique: str) -> Any | AcidError:
        """Return its value or its error; in a process that does nothing else meanwhile."""
        return attempt(self._barred, unique)

    def _barred(self, unique: str) -> Any:
        if self.memory is None:
            return self.work(unique)
        with barred(self.memory, self.where or self.step):
            return self.work(unique)

    def named_in(self, group: str) -> str:
        """Return what errors call it: by its file or place if it has one, else the work that it is part of."""
        return f"{self.where} ({self.step})" if self.where else group


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The application of Spark that ran the tasks, and the URL of its pages; None = none, or unknown."""

    id: str | None = None
    tracking_url: str | None = None


class Runner(Protocol):
    """Runs tasks. Several threads may use it at once."""

    @property
    def application(self) -> Application:
        """The application that has run the tasks so far; also once it has ended."""

    @property
    def slots(self) -> int:
        """The number of tasks that run at the same time, as known now; 0 if the caller's thread runs them."""

    def start(self) -> None:
        """Start whatever tasks need; RetryError if it does not start."""

    def run(self, batches: Sequence[Sequence[Task]], *, group: str) -> list[list[Any]]:
        """Return the value or the error (an AcidError) of each task, in order. A task run twice counts once.

        batches  the tasks of each are run one after the other, at the same place
        group    shown as the name of the work
        """

    def cancel(self) -> None:
        """End running tasks, so that they fail soon."""


def attempt(work: Callable[[Item], Value], item: Item, cannot: str = "finish a task") -> Value | AcidError:
    """Return the value of `work`, or its error of whatever class as a value, so that one item never ends others.

    cannot  what could not be done where the error is none of ours
    """
    try:
        return work(item)
    except Exception as error:
        return known_error(error, cannot)


def answers_of(
    ask: Callable[[Sequence[Item]], Sequence[Value | AcidError]], items: Sequence[Item]
) -> list[Value | AcidError]:
    """Return what `ask` answers about items together; where an error may concern one of them, about each by itself.

    An error that passes (of a server, say) concerns all of them, and nothing is asked again.
    """
    answers = attempt(ask, items)
    if not isinstance(answers, AcidError):
        return [*answers]
    if len(items) == 1 or isinstance(answers, RetryError | UnknownOutcomeError):
        return [answers] * len(items)
    return [answer for item in items for answer in answers_of(ask, [item])]


def returned_by(steps: Generator[Any, Any, Value]) -> Value:
    """Return what a generator returns, all of which is done here."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: Value = end.value
            return value


def value_or_raise(answer: Value | AcidError) -> Value:
    """Return the value of an `attempt`, or raise its error."""
    if isinstance(answer, AcidError):
        raise answer
    return answer


STEP_TIMEOUT = "acidlib.step.timeout"


def step_seconds(settings: Settings) -> float:
    """Return how long a run waits for one answer of a file system."""
    return settings.integer(STEP_TIMEOUT) / 1000 or inf
