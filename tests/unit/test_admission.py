from __future__ import annotations

import hashlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from acidlib.admission import THREADS, AdaptiveLimit, next_limit
from acidlib.errors import HangingError
from acidlib.waiting import Threads, asking


@pytest.mark.parametrize(
    ("admitted", "busy", "then"),
    [
        pytest.param(16, 0.1, 16, id="all wait"),
        pytest.param(16, 0.9, 16, id="some wait, and the processor has enough to do"),
        pytest.param(16, 1.3, 8, id="they wake each other"),
        pytest.param(3, 1.3, 1, id="three"),
        pytest.param(1, 1.3, 1, id="one computes, and others beside the work"),
        pytest.param(1, 0.9, 1, id="one has enough to do"),
        pytest.param(1, 0.5, 2, id="one waits"),
        pytest.param(12, 0.0, 16, id="no more than there are"),
    ],
)
def test_how_many_are_worth_it(admitted: int, busy: float, then: int) -> None:
    assert next_limit(admitted, busy) == then


class Machine:
    """Time that passes when it is told to, with so many seconds of processor in each."""

    def __init__(self) -> None:
        self.now = self.spent = 0.0
        self.admission = AdaptiveLimit(clock=lambda: self.now, processor=lambda _: self.spent)

    def work(self, pieces: int, *, busy: float) -> None:
        for _ in range(pieces):
            with self.admission:
                self.now += 0.11
                self.spent += 0.11 * busy

    def together(self) -> int:
        """How many are let in at a time, while no time passes."""
        inside, end = threading.Semaphore(0), threading.Event()

        def enter() -> None:
            with self.admission:
                inside.release()
                end.wait(60)

        with ThreadPoolExecutor(THREADS) as pool:
            for _ in range(THREADS):
                pool.submit(enter)
            count = 0
            while inside.acquire(timeout=0.3):
                count += 1
            end.set()
        return count


def test_those_that_compute_work_one_at_a_time_and_those_that_wait_together() -> None:
    machine = Machine()
    assert machine.together() == THREADS
    machine.work(2, busy=1.3)
    assert machine.together() == THREADS // 4
    machine.work(10, busy=1.3)
    assert machine.together() == 1
    machine.work(10, busy=0.85)
    assert machine.together() == 1
    machine.work(10, busy=0.2)
    assert machine.together() == THREADS


def test_one_that_hangs_does_not_keep_the_others_out() -> None:
    machine = Machine()
    machine.work(10, busy=1.3)
    with machine.admission:  # and does not come back
        done = threading.Event()

        def work() -> None:
            with machine.admission:
                done.set()

        other = threading.Thread(target=work)
        other.start()
        assert not done.wait(0.3)
        machine.now += 0.5
        assert done.wait(60)
        other.join()


def test_a_piece_that_fails_lets_the_next_in() -> None:
    machine = Machine()
    machine.work(10, busy=1.3)
    with pytest.raises(OSError, match="broken"), machine.admission:
        raise OSError("broken")
    machine.work(1, busy=1.3)


def test_other_threads_of_the_process_do_not_count() -> None:
    admission, end = AdaptiveLimit(), threading.Event()

    def compute() -> None:
        data = bytes(1 << 20)
        while not end.is_set():
            hashlib.sha256(data)  # beside the others, as Spark's client or a library of a notebook

    others = [threading.Thread(target=compute) for _ in range(3)]
    for thread in others:
        thread.start()
    for _ in range(4):
        with admission:
            time.sleep(0.11)
    end.set()
    for thread in others:
        thread.join()
    assert admission._admitted == THREADS


def test_a_thread_that_was_left_takes_no_room() -> None:
    machine, answer = Machine(), threading.Event()
    machine.work(10, busy=1.3)

    def hang() -> None:
        with machine.admission, asking("list", "/t"):
            answer.wait(60)

    with Threads(1, "one") as pool:
        left = pool.submit(hang)
        while not pool._running or not next(iter(pool._running.values())).asked:
            time.sleep(0.01)
        pool.give_up_hanging(0)
        assert isinstance(left.exception(), HangingError)
    assert len(machine.admission._inside) == 1
    machine.now += 0.5
    machine.work(1, busy=1.3)
    assert not machine.admission._inside
    answer.set()
