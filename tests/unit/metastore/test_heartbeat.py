"""Heartbeats: their order and pauses by a clock the test sets, the fence, and an end that is never silent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from waits import until

from acidlib.errors import AcidError, ConflictError, DefectError, RefusedError, RetryError
from acidlib.metastore.heartbeat import Heartbeater, Lease, reason_of

TIMEOUT, INTERVAL = 300.0, 100.0
RETRY = 5.0


class Clock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Connection:
    """A connection that records heartbeats; a call takes `seconds` and calls `answer`."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock
        self.beats: list[int | None] = []
        self.ranges: list[tuple[int, int]] = []
        self.seconds: Callable[[int | None], float] = lambda _: 0.0
        self.answer: Callable[[int | None], None] = lambda _: None
        self.opened = 0
        self.closed = 0
        self.no_connection: AcidError | None = None
        self.sent = threading.Event()

    def __call__(self) -> Connection:
        if self.no_connection is not None:
            raise self.no_connection
        self.opened += 1
        return self

    def heartbeat(self, *, txn_id: int | None = None, lock_id: int | None = None) -> None:
        one = txn_id if txn_id is not None else lock_id
        self.beats.append(one)
        self.sent.set()
        if self.clock is not None:
            self.clock.now += self.seconds(one)
        self.answer(one)

    def heartbeat_range(self, first: int, last: int) -> dict[int, str]:
        self.ranges.append((first, last))
        lost: dict[int, str] = {}
        seconds, self.seconds = self.seconds, lambda _: 0.0
        if self.clock is not None:
            self.clock.now += max(map(seconds, range(first, last + 1)))
        try:
            for one in range(first, last + 1):
                try:
                    self.heartbeat(txn_id=one)
                except ConflictError as error:
                    lost[one] = reason_of(error)
        finally:
            self.seconds = seconds
        return lost

    def close(self) -> None:
        self.closed += 1


class Stepped(Heartbeater):
    """A heartbeater that no thread calls."""

    def _renew(self) -> None:
        pass


class Bench:
    """A heartbeater whose rounds the test runs."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.connection = Connection(self.clock)
        self.schedule = Stepped(self.connection, interval_seconds=INTERVAL, timeout_seconds=TIMEOUT, clock=self.clock)

    def add(self, txn_id: int | None = None, lock_id: int | None = None, *, due: bool = True) -> Lease:
        since = self.clock.now - INTERVAL * due
        beat = self.schedule.register(txn_id=txn_id, lock_id=lock_id, name=f"transaction {txn_id}", since=since)
        beat.extend(self.clock.now)
        return beat

    def run(self, seconds: float) -> None:
        """All rounds of so many seconds, as the thread would."""
        end = self.clock.now + seconds
        while True:
            wait = self.schedule.send_due()
            if wait is None or self.clock.now + wait > end:
                self.clock.now = max(end, self.clock.now)
                return
            self.clock.now += wait


def failing(error: Exception, *ids: int) -> Callable[[int | None], None]:
    def answer(one: int | None) -> None:
        if not ids or one in ids:
            raise error

    return answer


def test_a_beat_comes_every_interval_since_it_was_known_to_be_alive() -> None:
    bench = Bench()
    beat = bench.add(7, due=False)
    bench.run(99)
    assert bench.connection.beats == []
    bench.run(1)
    assert bench.connection.beats == [7]
    bench.run(99)
    assert bench.connection.beats == [7]
    bench.run(1)
    assert bench.connection.beats == [7, 7]
    bench.run(1000)
    assert len(bench.connection.beats) == 12
    assert bench.connection.opened == 1
    beat.assert_alive()


def test_a_stopped_beat_is_not_sent_and_nothing_else_needs_the_thread() -> None:
    bench = Bench()
    beat = bench.add(7)
    bench.run(0)
    beat.stop()
    beat.stop()
    bench.run(1000)
    assert bench.connection.beats == [7]
    assert bench.schedule.send_due() is None


def test_what_the_metastore_gave_up_stays_lost_and_is_not_beaten_any_more() -> None:
    bench = Bench()
    lost, kept = bench.add(1), bench.add(2)
    bench.connection.answer = failing(ConflictError("Cannot beat: Transaction txnid:1 already aborted"), 1)
    bench.run(0)
    with pytest.raises(ConflictError, match=r"Cannot go on with transaction 1: .* given it up: Transaction txnid:1"):
        lost.assert_alive()
    bench.connection.answer = lambda _: None
    bench.run(250)
    with pytest.raises(ConflictError, match="already aborted"):
        lost.assert_alive()
    assert bench.connection.beats == [1, 2, 2, 2]
    kept.assert_alive()
    assert bench.connection.opened == 1  # the answer was understood: the connection is as good as before


def test_an_error_that_comes_after_the_end_is_none() -> None:
    bench = Bench()
    beat = bench.add(1)

    def commit_meanwhile(_: int | None) -> None:
        beat.stop()
        raise ConflictError("Cannot beat: No such transaction")

    bench.connection.answer = commit_meanwhile
    bench.run(0)
    beat.assert_alive()


@pytest.mark.parametrize("error", [RetryError("Cannot reach x: it is away"), ValueError("a bug"), OSError("x")])
def test_failures_are_tried_again_soon_over_a_new_connection(error: Exception) -> None:
    bench = Bench()
    beat = bench.add(7)
    bench.connection.answer = failing(error)
    bench.run(TIMEOUT)
    beat.assert_alive()
    assert len(bench.connection.beats) == TIMEOUT / RETRY + 1
    assert bench.connection.opened == bench.connection.closed == len(bench.connection.beats)
    bench.clock.now += 1
    with pytest.raises(RetryError, match=r"no heartbeat has reached the metastore for 301 s, longer than .* 300 s \("):
        beat.assert_alive()


def test_a_transaction_that_was_silent_too_long_is_asked_again() -> None:
    bench = Bench()
    beat = bench.add(7)
    bench.connection.answer = failing(RetryError("Cannot beat: the server is away"))
    bench.run(TIMEOUT + 1)
    with pytest.raises(RetryError, match="the server is away"):
        beat.assert_alive()
    bench.connection.answer = lambda _: None
    bench.run(10)
    beat.assert_alive()


def test_a_lock_alone_that_was_silent_too_long_is_lost_for_good() -> None:
    """Another compactor may have taken its place, and it must not be surprised by us coming back."""
    bench = Bench()
    beat = bench.add(lock_id=7)
    bench.run(0)
    bench.connection.answer = failing(RetryError("Cannot beat: the server is away"))
    bench.run(TIMEOUT + 1)
    bench.connection.answer = lambda _: None
    bench.run(INTERVAL * 3)
    with pytest.raises(RetryError, match=r"no heartbeat has reached the metastore for 30\d s"):
        beat.assert_alive()
    assert bench.schedule.send_due() is None


def test_time_counts_from_before_a_beat_is_sent() -> None:
    bench = Bench()
    beat = bench.add(7)
    bench.connection.seconds = lambda _: 250.0
    bench.run(0)
    bench.clock.now += 50
    beat.assert_alive()
    bench.clock.now += 1
    with pytest.raises(RetryError):
        beat.assert_alive()


def test_without_a_connection_one_attempt_serves_all() -> None:
    bench = Bench()
    beats = [bench.add(one) for one in range(200)]
    bench.connection.no_connection = RetryError("Cannot reach thrift://a:9083: it is away")
    attempts = 0
    while (wait := bench.schedule.send_due()) == 0:
        attempts += 1
    assert (attempts, wait) == (1, RETRY)
    bench.connection.no_connection = None
    bench.run(RETRY)
    assert sorted(bench.connection.beats) == list(range(200))
    assert bench.connection.opened == 1
    for beat in beats:
        beat.assert_alive()


def test_a_beat_that_hangs_starves_nobody() -> None:
    """For an hour one heartbeat of 500 takes an eighth of the timeout and fails, the others 0.1 s: they stay alive."""
    bench = Bench()
    beats = [bench.add(one) for one in range(500)]
    hanging = beats[0]
    bench.connection.seconds = lambda one: TIMEOUT / 8 if one == 0 else 0.1
    bench.connection.answer = failing(RetryError("Cannot beat: there was no answer"), 0)
    end = bench.clock.now + 3600
    while bench.clock.now < end:
        for _ in range(100):
            bench.clock.now += bench.schedule.send_due() or 0.0
        for beat in beats[1:]:
            beat.assert_alive()
    with pytest.raises(RetryError, match="there was no answer"):
        hanging.assert_alive()


def test_a_range_of_transactions_gets_one_heartbeat_and_never_that_of_another() -> None:
    """A dead transaction of another would be kept open by it, which keeps files from all cleaners."""
    bench = Bench()
    for one in (*range(100, 120), *range(121, 125), *range(126, 134)):
        bench.add(one)
    lock = bench.add(lock_id=7)
    bench.run(0)
    assert sorted(bench.connection.ranges) == [(100, 119), (126, 133)]
    assert sorted(bench.connection.beats) == sorted([7, *range(100, 120), *range(121, 125), *range(126, 134)])
    bench.run(INTERVAL)
    assert len(bench.connection.ranges) == 4
    lock.assert_alive()


def test_a_range_goes_over_transactions_of_its_own_that_have_ended() -> None:
    """Places end in any order; for what has ended a heartbeat does nothing."""
    bench = Bench()
    leases = [bench.add(one) for one in range(1, 200)]
    for number, lease in enumerate(leases):
        if number % 3 or 80 < number < 95:
            lease.stop()
    for _ in range(3):
        bench.run(INTERVAL)
        assert bench.connection.ranges[-2:] == [(1, 79), (97, 199)]
        assert len(bench.connection.ranges) == len(bench.connection.beats) // (79 + 103) * 2
    for lease in leases[::3]:
        lease.assert_alive()


def test_of_many_transactions_there_are_few_calls() -> None:
    bench = Bench()
    leases = [bench.add(one) for one in range(1, 10_001)]
    bench.run(0)
    assert (len(bench.connection.ranges), bench.connection.ranges[-1]) == (10, (9000, 9999))
    assert bench.connection.beats == [*range(1, 10_001)]
    for lease in leases[:5000]:
        lease.stop()
    bench.run(INTERVAL)
    assert len(bench.connection.ranges) == 15
    assert bench.connection.beats[10_000:] == [*range(5001, 10_001)]


def test_one_of_a_range_that_is_lost_and_one_that_fails_cost_no_other() -> None:
    bench = Bench()
    leases = [bench.add(one) for one in range(20)]
    bench.connection.answer = failing(ConflictError("Cannot beat: No such transaction"), 3)
    bench.run(0)
    with pytest.raises(ConflictError, match=r"Cannot go on with transaction 3: .* given it up: No such transaction"):
        leases[3].assert_alive()
    bench.connection.answer = failing(RetryError("Cannot beat: its row is locked"), 12)
    bench.run(TIMEOUT + INTERVAL)
    for lease in (*leases[:3], *leases[4:12], *leases[13:]):
        lease.assert_alive()
    with pytest.raises(RetryError, match="its row is locked"):
        leases[12].assert_alive()
    # those about which nothing is wrong go together again
    assert bench.connection.ranges[-1] == (0, 11)


def test_a_lease_registered_while_a_heartbeat_is_sent_is_kept_alive_though_it_is_due_earlier() -> None:
    """Its transaction took longer to open than an interval; the lease whose heartbeat is being sent is not on top."""
    bench = Bench()
    bench.add(1)
    late: list[Lease] = []

    def register_another(_: int | None) -> None:
        if not late:
            since = bench.clock.now - 2 * INTERVAL
            late.append(bench.schedule.register(txn_id=2, lock_id=None, name="transaction 2", since=since))

    bench.connection.answer = register_another
    bench.run(2 * INTERVAL)
    assert bench.connection.beats == [1, 2, 1, 2, 1, 2]
    late[0].assert_alive()


@pytest.mark.parametrize("interval", [0, -1, 150.1, 300])
def test_an_interval_above_half_of_the_timeout_is_refused(interval: float) -> None:
    with pytest.raises(RefusedError, match="at most half of the metastore's transaction timeout, 300 s"):
        Heartbeater(Connection(), interval_seconds=interval, timeout_seconds=300, clock=Clock())


# --- renewed by this process ------------------------------------------------------------------------------------------


@pytest.fixture
def connection() -> Connection:
    return Connection()


@pytest.fixture
def beats(connection: Connection) -> Iterator[Heartbeater]:
    with Heartbeater(connection, interval_seconds=0.02, timeout_seconds=3000, clock=time.monotonic) as heartbeater:
        yield heartbeater


def raises(beat: Lease, kind: type[AcidError]) -> bool:
    try:
        beat.assert_alive()
    except kind:
        return True
    return False


def test_one_connection_when_needed_and_the_threads_of_all_renewals(beats: Heartbeater, connection: Connection) -> None:
    before = {thread.name for thread in threading.enumerate()}
    assert connection.opened == 0
    registered = [beats.register(txn_id=one, lock_id=None, name="x") for one in range(50)]
    until(lambda: len(connection.beats) > 200)
    assert set(connection.beats) == set(range(50))
    assert {thread.name for thread in threading.enumerate()} <= before | {"acidlib-renewal"}
    assert connection.opened == 1
    for beat in registered:
        beat.assert_alive()


def test_what_is_registered_late_is_beaten_soon(connection: Connection) -> None:
    with Heartbeater(connection, interval_seconds=15, timeout_seconds=30, clock=time.monotonic) as beats:
        beats.register(txn_id=1, lock_id=None, name="x", since=beats.clock() - 15)
        until(lambda: connection.beats == [1])
        beats.register(txn_id=3, lock_id=None, name="z")
        beats.register(txn_id=2, lock_id=None, name="y", since=beats.clock() - 15)
        until(lambda: connection.beats == [1, 2])


def test_after_its_last_lease_a_heartbeater_goes_on_with_the_next(connection: Connection) -> None:
    with Heartbeater(connection, interval_seconds=0.02, timeout_seconds=3000, clock=time.monotonic) as beats:
        first = beats.register(txn_id=1, lock_id=None, name="x")
        until(lambda: connection.beats != [])
        first.stop()
        until(lambda: not beats._is_renewed)
        beats.register(txn_id=2, lock_id=None, name="y")
        until(lambda: 2 in connection.beats)


def test_the_end_closes_the_connection_and_fences_what_is_left(connection: Connection) -> None:
    beats = Heartbeater(connection, interval_seconds=15, timeout_seconds=30, clock=time.monotonic)
    beat = beats.register(txn_id=1, lock_id=None, name="transaction 1", since=beats.clock() - 15)
    until(lambda: connection.beats == [1])
    beats.close()  # waits for no heartbeat that is due later
    beats.close()
    assert connection.closed == 1
    with pytest.raises(RetryError, match="Cannot go on with transaction 1: its heartbeats were ended"):
        beat.assert_alive()
    with pytest.raises(DefectError):
        beats.register(txn_id=2, lock_id=None, name="transaction 2")


def test_an_unexpected_end_is_told_at_once(connection: Connection) -> None:
    def die(_: int | None) -> None:
        raise SystemExit("out of here")

    with Heartbeater(connection, interval_seconds=15, timeout_seconds=30, clock=time.monotonic) as beats:
        connection.answer = die
        beat = beats.register(txn_id=1, lock_id=None, name="transaction 1", since=beats.clock() - 15)
        until(lambda: raises(beat, DefectError))
        with pytest.raises(DefectError, match="its heartbeats ended by an unexpected SystemExit: out of here"):
            beat.assert_alive()
        with pytest.raises(DefectError, match="out of here"):
            beats.register(txn_id=2, lock_id=None, name="transaction 2")


def test_reasons_of_errors() -> None:
    assert reason_of(RetryError("Cannot x: y: z")) == "y: z"
    assert reason_of(RetryError("something")) == "something"
    assert reason_of(ValueError("v")) == "ValueError: v"
