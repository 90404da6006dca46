"""Items are worked on by as many threads as it takes, and an item that hangs is an error of its own."""

from __future__ import annotations

import hashlib
import threading
import time

import pytest

from acidlib.errors import ConflictError, HangingError
from acidlib.execute import in_threads as module
from acidlib.execute.in_threads import THREADS, Learned, Tried, as_done, in_threads, next_number, portions_done
from acidlib.waiting import asking


@pytest.mark.parametrize(
    ("now", "before", "then"),
    [
        pytest.param(Tried(1, 50, True), None, (2, False), id="one waits: two are tried"),
        pytest.param(Tried(2, 100, True), Tried(1, 50, True), (4, False), id="two do twice as much"),
        pytest.param(Tried(16, 800, True), Tried(8, 400, True), (16, True), id="no more than there are"),
        pytest.param(Tried(8, 400, False), Tried(4, 200, True), (8, True), id="the processor has enough to do"),
        pytest.param(Tried(2, 1000, True), Tried(1, 1000, True), (1, True), id="two do no more than one"),
        pytest.param(Tried(8, 1000, True), Tried(4, 1000, True), (2, False), id="then fewer may do as much"),
        pytest.param(Tried(2, 1000, True), Tried(8, 1000, True), (1, False), id="two do"),
        pytest.param(Tried(1, 1000, True), Tried(2, 1000, True), (1, True), id="one does"),
        pytest.param(Tried(2, 500, True), Tried(8, 1000, True), (4, True), id="two do not"),
        pytest.param(Tried(1, 1000, False), None, (1, True), id="one computes"),
        pytest.param(Tried(16, 900, True), None, (8, False), id="after a while with all, fewer are tried"),
        pytest.param(Tried(8, 450, True), Tried(16, 900, True), (16, True), id="which do less"),
        pytest.param(Tried(2, None, True), Tried(1, None, True), (4, False), id="answers take long"),
        pytest.param(Tried(2, None, False), None, (2, False), id="and are computed"),
    ],
)
def test_how_many_are_worth_it(now: Tried, before: Tried | None, then: tuple[int, bool]) -> None:
    assert next_number(now, before) == then


def many_are_learned() -> bool:
    """Whether more than two threads are found to be the best for items that wait.

    A machine that pauses while it is measured is measured again.
    """

    def wait(_: int) -> None:
        time.sleep(0.02)

    learned = Learned()
    for _ in range(10):
        list(portions_done(wait, range(600), seconds=600, learned=learned))
        if learned.threads > 2:
            return True
    return False


def test_those_that_wait_work_together() -> None:
    assert many_are_learned()


def test_other_threads_of_the_process_do_not_count() -> None:
    end = threading.Event()

    def digest() -> None:
        data = bytes(1 << 20)
        while not end.is_set():
            hashlib.sha256(data)  # beside the others, as Spark's client or a library of a notebook

    others = [threading.Thread(target=digest) for _ in range(3)]
    for thread in others:
        thread.start()
    found = many_are_learned()
    end.set()
    for thread in others:
        thread.join()
    assert found


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
