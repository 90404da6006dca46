"""Answers: a value, or an error that is a value as well, so that what fails at one place ends no other."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from acidlib.errors import AcidError, RetryError, UnknownOutcomeError, known_error

Item = TypeVar("Item")
Value = TypeVar("Value")


def answer_of(work: Callable[[Item], Value], item: Item, cannot: str = "finish a task") -> Value | AcidError:
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
    answers = answer_of(ask, items)
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
    """Return an answer that is a value, or raise it if it is an error."""
    if isinstance(answer, AcidError):
        raise answer
    return answer
