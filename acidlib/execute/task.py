"""A task: work that another process does, on Spark's executors or beside a program; and what runs tasks.

The functions that tasks call are in `execute.tasks`, and beside those who need them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from acidlib.errors import AcidError
from acidlib.execute.answers import answer_of
from acidlib.memory import Memory, memory_limited


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

    def answer(self, unique: str) -> Any | AcidError:
        """Return its value or its error; in a process that does nothing else meanwhile."""
        return answer_of(self._barred, unique)

    def _barred(self, unique: str) -> Any:
        if self.memory is None:
            return self.work(unique)
        with memory_limited(self.memory, self.where or self.step):
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

    def run_batches(self, batches: Sequence[Sequence[Task]], *, group: str) -> list[list[Any]]:
        """Return the value or the error (an AcidError) of each task, in order. A task run twice counts once.

        batches  the tasks of each are run one after the other, at the same place
        group    shown as the name of the work
        """

    def cancel(self) -> None:
        """End running tasks, so that they fail soon."""
