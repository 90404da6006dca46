"""Requests that are repeated while their answers are lost.

A server may die after it has done what it was asked for, or a switch restart before the answer is through. So a request
is repeated; but what the repeated one is told, "there is no source" or "the name is taken", may be the work of the
first. Where that is so, the state is compared with what the change would have made of it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from acidlib.errors import UnknownOutcomeError

Answer = TypeVar("Answer")

_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS, _PATIENCE_SECONDS = 0.1, 8.0, 1.0


class Failure(Enum):
    """What is known of a request that failed."""

    REFUSED = "the server has answered it, and changed nothing"
    BUSY = "the server has turned it away for the moment"
    AWAY = "no server took it"
    LOST = "it may have been carried out, or will be"


def pause_before(number: int, *, is_busy: bool = False) -> None:
    """Wait before another try, the `number`th of them; a service that is busy is left alone for a second at least.

    Each wait is twice the one before, and up to half as long again: so runs that were turned away together do not come
    back together.
    """
    pause = min(_FIRST_PAUSE_SECONDS * 2.0 ** (number - 1), _MAX_PAUSE_SECONDS)
    time.sleep(max(pause, _PATIENCE_SECONDS if is_busy else 0.0) * (1 + random.random() / 2))  # noqa: S311 - no secret


def repeated(
    question: Callable[[], Answer],
    *,
    failure: Callable[[Exception], Failure | None],
    tries: int,
    losses: int | None = None,
) -> Answer:
    """Return the answer to a question, asked again while the server is busy and while answers are lost.

    failure  what is known after an error of the client; None for any other error
    losses   answers that may be lost; by default as many as there are tries
    """
    lost = 0
    for number in range(1, tries + 1):
        try:
            return question()
        except Exception as error:
            known = failure(error)
            lost += known is Failure.LOST
            if known not in (Failure.BUSY, Failure.LOST) or number == tries or lost > (losses or tries):
                raise
            pause_before(number, is_busy=known is Failure.BUSY)
    raise ValueError("a question is asked once at least")


def changed(
    change: Callable[[int], Answer],
    was_done: Callable[[], bool] | None = None,
    *,
    failure: Callable[[Exception], Failure | None],
    tries: int,
    is_patient: bool,
    away: Callable[[Exception], None],
    unknown: Callable[[Exception], UnknownOutcomeError],
) -> Answer | None:
    """Make a change by one request, repeated while its answers are lost; None when an earlier try had made it.

    change      sends the request; its argument is the number of answers that were lost before
    was_done    tells, when a repeated request was refused, whether an earlier one had made the change. With it
                `unknown` is raised when no answer comes in the end. Without it, for a change that may be made twice,
                the last error is
    failure     what is known after an error of the client; None for any other error
    is_patient  whether the client has waited long enough for a server that is away, also after a lost answer
    away        is told the error after which a server that is away is tried no more
    """
    lost = 0
    for number in range(1, tries + 1):
        try:
            return change(lost)
        except Exception as error:
            known = failure(error)
            if known is Failure.REFUSED and lost and was_done is not None and _is_done(was_done, failure, unknown):
                return None
            if known is None or known is Failure.REFUSED:
                raise
            lost += known is Failure.LOST
            if number == tries or (known is Failure.AWAY and (is_patient or not lost)):
                if known is Failure.AWAY:
                    away(error)
                if not lost or was_done is None:
                    raise
                raise unknown(error) from error
            pause_before(number, is_busy=known is Failure.BUSY)
    raise ValueError("a change is tried once at least")


def _is_done(
    was_done: Callable[[], bool],
    failure: Callable[[Exception], Failure | None],
    unknown: Callable[[Exception], UnknownOutcomeError],
) -> bool:
    try:
        return was_done()
    except Exception as error:
        if failure(error) is None:
            raise
        raise unknown(error) from error
