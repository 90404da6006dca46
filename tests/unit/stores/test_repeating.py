"""Requests whose answers are lost: what is tried again, and what is known in the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from acidlib.errors import UnknownOutcomeError
from acidlib.stores import repeating
from acidlib.stores.repeating import Failure, changed, repeated


class ServerError(Exception):
    """What a client raises."""

    def __init__(self, known: Failure) -> None:
        super().__init__(known.name)
        self.known = known


REFUSED, BUSY, AWAY, LOST = (ServerError(known) for known in Failure)


def known(error: Exception) -> Failure | None:
    return error.known if isinstance(error, ServerError) else None


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds: list[float] = []
    monkeypatch.setattr(repeating.time, "sleep", seconds.append)
    return seconds


class Server:
    """Answers requests one after the other; the numbers of lost answers that it is told are noted."""

    def __init__(self, *answers: Exception | str) -> None:
        self.answers = list(answers)
        self.told: list[int] = []
        self.away: list[Exception] = []

    def ask(self) -> str:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def change(self, lost: int) -> str:
        self.told.append(lost)
        return self.ask()

    def changed(
        self, was_done: Callable[[], bool] | None = None, *, tries: int = 4, is_patient: bool = False
    ) -> str | None:
        return changed(
            self.change,
            was_done,
            failure=known,
            tries=tries,
            is_patient=is_patient,
            away=self.away.append,
            unknown=lambda error: UnknownOutcomeError(f"Cannot tell: {error}"),
        )


@pytest.mark.parametrize("answers", [("yes",), (LOST, "yes"), (BUSY, BUSY, "yes"), (LOST, BUSY, LOST, "yes")])
def test_a_question_is_asked_again(answers: tuple[Exception | str, ...], pauses: list[float]) -> None:
    assert repeated(Server(*answers).ask, failure=known, tries=4) == "yes"
    assert len(pauses) == len(answers) - 1
    assert all(seconds >= 1 for seconds, error in zip(pauses, answers, strict=False) if error is BUSY)


@pytest.mark.parametrize("error", [REFUSED, AWAY, ValueError("a bug")])
def test_a_question_is_not_asked_again_after(error: Exception) -> None:
    server = Server(error, "yes")
    with pytest.raises(type(error)) as raised:
        repeated(server.ask, failure=known, tries=4)
    assert raised.value is error
    assert server.answers == ["yes"]


def test_a_question_is_given_up() -> None:
    server = Server(LOST, BUSY, LOST, "yes")
    with pytest.raises(ServerError, match="LOST"):
        repeated(server.ask, failure=known, tries=4, losses=1)
    assert server.answers == ["yes"]
    server = Server(BUSY, BUSY, BUSY, "yes")
    with pytest.raises(ServerError, match="BUSY"):
        repeated(server.ask, failure=known, tries=3)
    assert server.answers == ["yes"]


def test_a_change_is_told_what_was_lost() -> None:
    server = Server(LOST, BUSY, LOST, "done")
    assert server.changed(lambda: pytest.fail("it was answered")) == "done"
    assert server.told == [0, 1, 1, 2]
    assert not server.away


def test_what_a_repeated_change_is_refused_may_have_been_done() -> None:
    assert Server(LOST, REFUSED).changed(lambda: True) is None
    with pytest.raises(ServerError, match="REFUSED"):
        Server(LOST, REFUSED).changed(lambda: False)
    with pytest.raises(ServerError, match="REFUSED"):
        Server(LOST, REFUSED).changed(None)  # it may be made twice
    with pytest.raises(ServerError, match="REFUSED"):
        Server(BUSY, REFUSED).changed(lambda: pytest.fail("nothing was lost"))


def test_the_outcome_of_a_change_is_unknown() -> None:
    server = Server(LOST, LOST, LOST, LOST, "late")
    with pytest.raises(UnknownOutcomeError, match="Cannot tell: LOST"):
        server.changed(lambda: pytest.fail("no answer came"))
    assert not server.away
    server = Server(LOST, LOST, LOST, LOST, "late")
    with pytest.raises(ServerError, match="LOST"):
        server.changed(None)
    assert not server.away

    def lost_too() -> bool:
        raise LOST

    with pytest.raises(UnknownOutcomeError):
        Server(LOST, REFUSED).changed(lost_too)

    def fails() -> bool:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        Server(LOST, REFUSED).changed(fails)


def test_a_server_that_is_away_is_waited_for_after_a_loss_alone() -> None:
    server = Server(AWAY, "late")
    with pytest.raises(ServerError, match="AWAY"):
        server.changed(lambda: pytest.fail("nothing was lost"))
    assert (server.away, server.answers) == ([AWAY], ["late"])
    server = Server(LOST, AWAY, AWAY, "done")
    assert server.changed(lambda: True) == "done"
    assert not server.away
    server = Server(LOST, AWAY, "late")
    with pytest.raises(UnknownOutcomeError):
        server.changed(lambda: True, is_patient=True)
    assert (server.away, server.answers) == ([AWAY], ["late"])


def test_a_bug_is_no_answer() -> None:
    with pytest.raises(ValueError, match="a bug"):
        Server(LOST, ValueError("a bug")).changed(lambda: pytest.fail("nobody knows"))
