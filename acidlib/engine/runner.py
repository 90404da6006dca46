"""How units of work are run: one small interface, with Spark or this process behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from acidlib.errors import AcidError, DefectError

Item = TypeVar("Item")
Value = TypeVar("Value")

Work = Callable[[Item, str], Value]
"""What is done with one item; the text is unique to this attempt at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[Value]):
    """What became of one item: its value, or the error that kept it from having one."""

    outcome: Value | AcidError

    @property
    def error(self) -> AcidError | None:
        """The error; None where there is a value."""
        return self.outcome if isinstance(self.outcome, AcidError) else None

    def get(self) -> Value:
        """The value; raises the error."""
        if isinstance(self.outcome, AcidError):
            raise self.outcome
        return self.outcome


class Runner(Protocol):
    """Runs a function over items."""

    def run(
        self,
        work: Callable[[Any, str], Value],
        items: Sequence[Any],
        *,
        group: str,
        on_progress: Callable[[int], None],
    ) -> list[Done[Value]]:
        """What became of each item, in order. An item run twice counts once.

        group        shown as the name of the work
        on_progress  called now and then with the number of items done
        """


def attempt(work: Callable[[Any, str], Value], item: Any, unique: str) -> Done[Value]:
    """Run one item; an error becomes a value, so that one item never takes others with it."""
    try:
        return Done(outcome=work(item, unique))
    except AcidError as error:
        return Done(outcome=error)
    except Exception as error:
        fault = f"Cannot finish a task: because of an unexpected {type(error).__name__}: {error}"
        return Done(outcome=DefectError(fault))


THREADS = 16
"""How many places are listed at a time: it is the file system's answers that are waited for."""


def in_threads(
    look: Callable[[Item], Value], items: Sequence[Item], *, on_progress: Callable[[int], None]
) -> list[Done[Value]]:
    """What became of each item, in order: for looks at file systems, which need no executor.

    An interrupt does not wait for what has not begun.
    """
    if not items:
        return []
    with ThreadPoolExecutor(min(THREADS, len(items)), thread_name_prefix="acidlib-look") as pool:
        try:
            running = [pool.submit(attempt, lambda item, _: look(item), item, "") for item in items]
            for done, _ in enumerate(as_completed(running), start=1):
                on_progress(done)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [one.result() for one in running]


class LocalRunner:
    """Runs items one after the other in this process: for a library's caller, for tests and benches."""

    def __init__(self, unique: Callable[[], str]) -> None:
        self._unique = unique

    def run(
        self,
        work: Callable[[Any, str], Value],
        items: Sequence[Any],
        *,
        group: str,
        on_progress: Callable[[int], None],
    ) -> list[Done[Value]]:
        """See Runner."""
        del group
        done = []
        for item in items:
            done.append(attempt(work, item, self._unique()))
            on_progress(len(done))
        return done
