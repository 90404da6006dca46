"""One item's fate is a value, whatever it is."""

from __future__ import annotations

import itertools
from functools import partial
from threading import Event

import pytest

from acidlib.admission import THREADS, AdaptiveLimit
from acidlib.errors import ConflictError, DefectError
from acidlib.service.services import as_done, attempt, value_or_raise


def work(item: int, unique: str) -> str:
    if item < 0:
        raise ConflictError(f"Cannot take {item}: it is negative")
    return f"{100 // item}:{unique}"


def test_attempt() -> None:
    assert attempt(partial(work, 5), "u") == "20:u"
    assert isinstance(attempt(partial(work, -1), "u"), ConflictError)
    with pytest.raises(ConflictError, match="-1"):
        value_or_raise(attempt(partial(work, -1), "u"))
    fault = attempt(partial(work, 0), "u")
    assert isinstance(fault, DefectError)
    assert "unexpected ZeroDivisionError" in str(fault)


def test_an_interrupt_is_no_value() -> None:
    def interrupted(unique: str) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt(interrupted, "u")


def test_after_an_interrupt_those_that_wait_to_be_let_in_do_nothing() -> None:
    clock, spent = itertools.count(), itertools.count(0, 10)
    admission = AdaptiveLimit(clock=lambda: next(clock), processor=lambda _: next(spent))
    for _ in range(4):  # ten seconds of processor in each second: they compute
        with admission:
            pass
    begun: list[int] = []
    going_on = Event()

    def work(item: int) -> int:
        begun.append(item)
        if len(begun) > 1:
            going_on.wait(60)
        return item

    results = as_done(work, range(THREADS), seconds=60, on_interrupt=going_on.set, admission=admission)
    next(results)
    results.close()
    assert len(begun) <= 2
