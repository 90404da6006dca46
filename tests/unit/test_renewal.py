"""Signs of life from few threads: nothing that hangs keeps the others from theirs."""

from __future__ import annotations

import os
import threading
import weakref

from waits import until

from acidlib.renewal import RENEWER, LeaseRenewer

OFTEN = 0.005
MANY = 200


class Held:
    """Counts its signs of life; one of them may hang, or fail."""

    def __init__(self, *, hangs_until: threading.Event | None = None, error: Exception | None = None) -> None:
        self.beats = 0
        self.wanted = True
        self._hangs_until = hangs_until
        self._error = error

    def beat(self) -> bool:
        self.beats += 1
        if self._hangs_until is not None:
            self._hangs_until.wait(60)
        if self._error is not None:
            raise self._error
        return self.wanted


class Threads:
    """Threads that renew claims and have been started since; threads of other tests of this process do not count."""

    def __init__(self) -> None:
        self._before = self._now()

    def __call__(self) -> int:
        return len(self._now() - self._before)

    @staticmethod
    def _now() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "acidlib-renewal"}


def test_few_threads_serve_many_and_end_with_them() -> None:
    threads, held, most = Threads(), [Held() for _ in range(MANY)], 0
    beats = LeaseRenewer(few=2, patience_seconds=3600)  # a machine that pauses is no renewal that hangs
    for one in held:
        beats.add(one.beat, OFTEN)
    while min(one.beats for one in held) < 3:
        most = max(most, threads())
    assert most <= 3  # one of them watches
    for one in held:
        beats.remove(one.beat)
    until(lambda: threads() == 0)
    gone = held[0].beats
    beats.add(held[1].beat, OFTEN)
    before = held[1].beats
    until(lambda: held[1].beats > before + 3)
    assert held[0].beats == gone
    beats.remove(held[1].beat)


def test_what_hangs_keeps_no_other_waiting() -> None:
    answers = threading.Event()
    threads, beats, hung = (
        Threads(),
        LeaseRenewer(few=2, patience_seconds=0.01),
        [Held(hangs_until=answers) for _ in range(40)],
    )
    well = [Held() for _ in range(5)]
    for one in (*hung, *well):
        beats.add(one.beat, OFTEN)
    until(lambda: min(one.beats for one in well) > 5)
    assert {one.beats for one in hung} == {1}
    answers.set()
    until(lambda: min(one.beats for one in hung) > 1)
    for one in (*hung, *well):
        beats.remove(one.beat)
    until(lambda: threads() == 0)


def test_what_is_lost_is_asked_no_more_and_what_fails_is() -> None:
    threads, beats, lost, failing = Threads(), LeaseRenewer(), Held(), Held(error=ValueError("a bug"))
    lost.wanted = False
    beats.add(lost.beat, OFTEN)
    beats.add(failing.beat, OFTEN)
    until(lambda: failing.beats > 3)
    assert lost.beats == 1
    beats.remove(lost.beat)
    beats.remove(lost.beat)
    beats.remove(failing.beat)
    until(lambda: threads() == 0)


def test_none_before_its_time() -> None:
    now = [100.0]
    beats, late, soon = LeaseRenewer(clock=lambda: now[0]), Held(), Held()
    beats.add(late.beat, 3600)
    now[0] += 3599
    beats.add(soon.beat, 0)
    until(lambda: soon.beats > 3)
    assert late.beats == 0
    now[0] += 1
    until(lambda: late.beats == 1)
    beats.remove(late.beat)
    beats.remove(soon.beat)


def test_a_forked_child_has_threads_of_its_own() -> None:
    parents = Held()
    RENEWER.add(parents.beat, 3600)
    pid = os.fork()
    if pid == 0:
        try:
            mine = Held()
            RENEWER.add(mine.beat, OFTEN)
            until(lambda: mine.beats > 2)
            RENEWER.remove(mine.beat)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    RENEWER.remove(parents.beat)


def test_claims_one_after_the_other_have_one_thread() -> None:
    threads, beats, soon = Threads(), LeaseRenewer(), Held()
    for _ in range(10):
        held = Held()
        beats.add(held.beat, 3600)
        assert threads() == 1
        beats.remove(held.beat)
    beats.add(soon.beat, OFTEN)  # wakes the thread, which would wait for an hour
    until(lambda: soon.beats > 0)
    beats.remove(soon.beat)
    until(lambda: threads() == 0)


def test_what_was_released_is_not_kept_until_it_would_be_due() -> None:
    threads, beats, long = Threads(), LeaseRenewer(), Held()
    beats.add(long.beat, OFTEN)
    released = [Held() for _ in range(10)]
    gone = [weakref.ref(held) for held in released]
    for held in released:
        beats.add(held.beat, 3600)
    for held in released:
        beats.remove(held.beat)
    del held, released
    until(lambda: sum(held() is not None for held in gone) <= 2)
    before = long.beats
    until(lambda: long.beats > before + 3)
    beats.remove(long.beat)
    until(lambda: threads() == 0)
