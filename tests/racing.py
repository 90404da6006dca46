"""Work in several processes at the same moment."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Sequence
from typing import Any

from forking import fork

_SECONDS = 120


def race(works: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each of these returns, in forked processes that begin together. What one raises is raised here.

    None of them ends before all are done.
    """
    ready, go, end = os.pipe(), os.pipe(), os.pipe()
    started = []
    for work in works:
        answer = os.pipe()
        pid = fork()
        if pid == 0:
            _run(work, ready, go, answer, end)
        os.close(answer[1])
        started.append((pid, answer[0]))
    for _ in started:
        os.read(ready[0], 1)
    os.close(go[1])
    answers = []
    for _, handle in started:
        with os.fdopen(handle, "rb") as pipe:
            answers.append(pipe.read())
    os.close(end[1])
    for pid, _ in started:
        os.waitpid(pid, 0)
    for handle in (*ready, go[0], end[0]):
        os.close(handle)
    results = [pickle.loads(answer) for answer in answers]
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


_Pipe = tuple[int, int]


def _run(work: Callable[[], Any], ready: _Pipe, go: _Pipe, answer: _Pipe, end: _Pipe) -> None:
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_SECONDS)
        for pipe in (go, end):
            os.close(pipe[1])
        os.write(ready[1], b".")
        os.read(go[0], 1)
        try:
            result = work()
        except BaseException as error:
            result = AssertionError(f"{type(error).__name__}: {error}")
        with os.fdopen(answer[1], "wb") as told:
            pickle.dump(result, told)
        os.read(end[0], 1)
    finally:
        os._exit(0)
