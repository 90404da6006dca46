"""A task that waits for one answer of a file system for too long is answered for; one that is only long is not."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from acidlib.errors import ConflictError, HangingError
from acidlib.waiting import answered, asking, current_piece, in_time

SECONDS = 0.5


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[str]:
    """A named pipe that nothing writes to until the end of the test."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    yield str(path)
    end = os.open(path, os.O_RDWR)
    while any(thread.name == "acidlib-task" for thread in threading.enumerate()):
        time.sleep(0.01)
    os.close(end)


def opens(path: str) -> None:
    with asking("read", path):
        os.close(os.open(path, os.O_RDONLY))


def test_a_task_that_hangs_is_an_error_that_names_its_call(pipe: str) -> None:
    start = time.monotonic()
    with pytest.raises(HangingError, match=rf"^Cannot read {pipe}: there has been no answer for \d+ s \(acidlib\.step"):
        in_time(opens, SECONDS, pipe)
    assert time.monotonic() - start >= SECONDS


def test_a_task_may_compute_for_longer() -> None:
    def computes(_: str) -> int:
        with asking("read", "/t"):
            pass
        time.sleep(3 * SECONDS)
        return 7

    assert in_time(computes, SECONDS, "") == 7


def test_a_call_of_many_answers_may_take_longer() -> None:
    """Each answer is waited for anew."""

    def copies(_: str) -> list[tuple[str, str, float] | None]:
        piece, waits_for = current_piece(), list[tuple[str, str, float] | None]()
        assert piece is not None
        with asking("write", "/t"):
            for _ in range(3):
                waits_for.append(piece.asked)
                time.sleep(0.01)
                answered()
        return [*waits_for, piece.asked]

    *asked, then = in_time(copies, 3600, "")
    assert [one[:2] for one in asked if one] == [("write", "/t")] * 3
    assert min(b[2] - a[2] for a, b in pairwise(filter(None, asked))) >= 0.01
    assert then is None


def test_the_error_of_a_task_is_its_own() -> None:
    def fails(_: str) -> None:
        raise ConflictError("Cannot do it: no")

    with pytest.raises(ConflictError, match="Cannot do it: no"):
        in_time(fails, SECONDS, "")
    with pytest.raises(TimeoutError, match="of the task"):
        in_time(lambda _: (_ for _ in ()).throw(TimeoutError("of the task")), SECONDS, "")
