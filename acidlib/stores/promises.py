"""What publication relies on, promise by promise, each with a trial on the user's own storage.

A store names its promises (`Store.promises`), and tries them by the calls by which it publishes. `stores.probe` tries
all of them for `acidlib probe`; the quick ones are tried by `acidlib doctor`, and where a store may break them also
before the first claim.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import TypeVar

from acidlib.errors import ConflictError, CorruptError, RefusedError

Raced = TypeVar("Raced")

RACERS, ROUNDS, FEW_ROUNDS = 6, 10, 3
"""Threads that race for one name, and how often; with calls that write bytes less often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One promise of a store, and its trial.

    name      unique among the promises of a store. A trial that asks for more gets another one: the probe of before
              does not cover it
    sentence  what the store promises
    trial     tries it at a path that nothing has, in a folder of its own, and returns what was seen.
              BrokenPromiseError where the promise is broken
    is_quick  it takes a few requests
    is_shown  a trial that ends well shows the promise, and not only a part of it
    """

    name: str
    sentence: str
    trial: Callable[[str], str]
    is_quick: bool = False
    is_shown: bool = True


class BrokenPromiseError(RefusedError):
    """A store did what it promises never to do: the message is what was seen."""


def race(calls: Sequence[Callable[[], Raced]]) -> list[Raced | ConflictError | CorruptError]:
    """Make several calls in the same moment; return what each returned, or the conflict or lack that it met."""
    start = Barrier(len(calls))

    def run(call: Callable[[], Raced]) -> Raced | ConflictError | CorruptError:
        start.wait()
        try:
            return call()
        except (ConflictError, CorruptError) as error:
            return error

    with ThreadPoolExecutor(len(calls), thread_name_prefix="acidlib-probe") as threads:
        try:
            return list(threads.map(run, calls))
        except BaseException:
            start.abort()  # after Ctrl-C not all have begun, and those that have would wait for the others for ever
            raise


def winner(calls: Sequence[Callable[[], object]], what: str) -> int:
    """Make several calls in the same moment of which one has to succeed; return its number.

    BrokenPromiseError where none or several do: "3 of 6 `what`".
    """
    won = [number for number, end in enumerate(race(calls)) if not isinstance(end, Exception)]
    if len(won) != 1:
        raise BrokenPromiseError(f"{len(won)} of {len(calls)} {what}")
    return won[0]


def require_conflict(call: Callable[[], object], what: str) -> None:
    """Make a call that has to end by ConflictError; BrokenPromiseError with `what` was done where it succeeds."""
    try:
        call()
    except ConflictError:
        return
    raise BrokenPromiseError(what)


def require(is_kept: object, what: str) -> None:
    """Raise BrokenPromiseError with `what` was seen unless a promise is kept."""
    if not is_kept:
        raise BrokenPromiseError(what)


def races(rounds: int = ROUNDS) -> str:
    """Return what was seen where all races ended well."""
    return f"{rounds} races of {RACERS}: one winner each"
