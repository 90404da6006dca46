"""One item's fate is a value, whatever it is."""

from __future__ import annotations

from functools import partial

import pytest

from acidlib.errors import ConflictError, DefectError
from acidlib.execute.answers import answer_of, value_or_raise


def work(item: int, unique: str) -> str:
    if item < 0:
        raise ConflictError(f"Cannot take {item}: it is negative")
    return f"{100 // item}:{unique}"


def test_attempt() -> None:
    assert answer_of(partial(work, 5), "u") == "20:u"
    assert isinstance(answer_of(partial(work, -1), "u"), ConflictError)
    with pytest.raises(ConflictError, match="-1"):
        value_or_raise(answer_of(partial(work, -1), "u"))
    fault = answer_of(partial(work, 0), "u")
    assert isinstance(fault, DefectError)
    assert "unexpected ZeroDivisionError" in str(fault)


def test_an_interrupt_is_no_value() -> None:
    def interrupted(unique: str) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        answer_of(interrupted, "u")
