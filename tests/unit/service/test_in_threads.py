"""Items are worked on by as many threads as it takes, and an item that hangs is an error of its own."""

from __future__ import annotations

import hashlib
import threading
import time

import pytest

from acidlib.errors import ConflictError, HangingError
from acidlib.service import in_threads as module
from acidlib.service.in_threads import THREADS, Learned, as_done, in_threads, next_number, portions_done
from acidlib.waiting import asking


@pytest.mark.parametrize(
    ("threads", "computed", "ready", "then"),
    [
        pytest.param(16, 0.1, 0.1, 16, id="all wait"),
        pytest.param(16, 0.8, 0.8, 16, id="some wait, and the processor has enough to do"),
        pytest.param(16, 1.3, 1.3, 8, id="they wake each other"),
        pytest.param(3, 1.3, 1.2, 1, id="three"),
        pytest.param(1, 1.3, 0.8, 1, id="one computes, and the caller"),
        pytest.param(1, 0.8, 0.8, 1, id="one has enough to do"),
        pytest.param(1, 0.5, 0.5, 2, id="one waits"),
        pytest.param(1, 0.5, 0.9, 1, id="one waits for a processor"),
        pytest.param(8, 0.6, 3.0, 16, id="those that wait, on a busy machine"),
        pytest.param(12, 0.0, 0.0, 16, id="no more than there are"),
    ],
)
def test_how_many_are_worth_it(threads: int, computed: float, ready: float, then: int) -> None:
    assert next_number(threads, computed, ready) == then


def wait(_: int) -> int:
    time.sleep(0.02)
    return threading.get_ident()


def test_those_that_wait_work_together() -> None:
    learned = Learned()
    list(portions_done(wait, range(600), seconds=60, learned=learned))
    assert learned.threads > 2


def test_other_threads_of_the_process_do_not_count() -> None:
    end, learned = threading.Event(), Learned()

    def digest() -> None:
        data = bytes(1 << 20)
        while not end.is_set():
            hashlib.sha256(data)  # beside the others, as Spark's client or a library of a notebook

    others = [threading.Thread(target=digest) for _ in range(3)]
    for thread in others:
        thread.start()
    list(portions_done(wait, range(600), seconds=60, learned=learned))
    end.set()
    for thread in others:
        thread.join()
    assert learned.threads > 2


def test_answers_and_errors_are_in_order() -> None:
    def work(item: int) -> int:
        if item == 3:
            raise ConflictError("Cannot take 3: it is another's")
        time.sleep(0.001 * (10 - item))
        return item

    told: list[int] = []
    answers = in_threads(work, range(10), seconds=60, on_progress=told.append)
    assert isinstance(answers.pop(3), ConflictError)
    assert answers == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert told == list(range(1, 11))
    assert in_threads(work, (), seconds=60) == []


def test_an_answer_is_there_while_others_are_still_worked_on() -> None:
    going_on = threading.Event()
    answers = as_done(lambda item: item or going_on.wait(60), range(2), seconds=60)
    assert next(answers) == (1, 1)
    going_on.set()
    assert next(answers) == (0, True)


@pytest.fixture
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HANGING_LOOK_SECONDS", 0.05)


@pytest.mark.usefixtures("looking_often")
def test_an_item_that_hangs_is_an_error_and_keeps_no_other_from_its_turn() -> None:
    answer = threading.Event()

    def work(item: int) -> int:
        if item in (0, 7):
            with asking("list", f"/t{item}"):
                answer.wait(60)
        return item

    answers = in_threads(work, range(20), seconds=0.3)
    hanging = {number: str(error) for number, error in enumerate(answers) if isinstance(error, HangingError)}
    assert sorted(hanging) == [0, 7]
    assert "/t7" in hanging[7]
    assert [answer for number, answer in enumerate(answers) if number not in hanging] == [*range(1, 7), *range(8, 20)]
    answer.set()


@pytest.mark.usefixtures("looking_often")
def test_a_thread_that_was_left_behind_does_nothing_more() -> None:
    answer, done, left = threading.Event(), list[int](), list[threading.Thread]()

    def work(item: int) -> None:
        if not item:
            left.append(threading.current_thread())
            with asking("list", "/t"):
                answer.wait(60)
        done.append(item)

    answers = as_done(work, range(2), seconds=0.1)
    assert {number: type(answer) for number, answer in answers} == {0: HangingError, 1: type(None)}
    answer.set()
    left[0].join(60)
    assert done == [1, 0]


def test_after_an_interrupt_no_item_is_begun() -> None:
    begun: list[int] = []
    going_on = threading.Event()

    def work(item: int) -> int:
        begun.append(item)
        if item:
            going_on.wait(60)
        return item

    results = as_done(work, range(100), seconds=60, on_interrupt=going_on.set)
    assert next(results) == (0, 0)
    results.close()
    assert len(begun) <= 1 + THREADS
    assert len(begun) < 100
