"""Questions that are given up: hdfs-native itself waits for the answer of a name node without an end.

A call that waits in Rust cannot be ended, only left behind, with the thread it waits in. So nothing that changes a
file system is called this way: it might be done long after it was given up.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

_Answer = TypeVar("_Answer")


class NoAnswerError(Exception):
    """A question was given up."""


def in_time(seconds: float, question: Callable[[], _Answer]) -> _Answer:
    """The answer to a question, which another thread asks; `NoAnswerError` when it takes longer."""
    asker: _Asker | None = getattr(_of_thread, "asker", None)
    if asker is None or asker.process != os.getpid():  # no thread is taken along through a fork
        asker = _of_thread.asker = _Asker()
    answers: SimpleQueue[tuple[_Answer | None, BaseException | None]] = SimpleQueue()

    def ask() -> None:
        try:
            answers.put((question(), None))
        except BaseException as error:
            answers.put((None, error))

    asker.questions.put(ask)
    try:
        answer, error = answers.get(timeout=seconds)
    except BaseException as given_up:
        _of_thread.asker = None  # it may wait for ever
        if isinstance(given_up, Empty):
            raise NoAnswerError(f"no answer within {seconds:g} s") from None
        raise
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]


class _Asker:
    """A thread that asks for another one, as long as that needs it: making one for each question would take longer."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.questions: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        threading.Thread(target=_ask_all, args=(self.questions,), name="acidlib-name-node", daemon=True).start()

    def __del__(self) -> None:
        self.questions.put(None)


def _ask_all(questions: SimpleQueue[Callable[[], None] | None]) -> None:
    while (ask := questions.get()) is not None:
        ask()
        del ask


_of_thread = threading.local()
