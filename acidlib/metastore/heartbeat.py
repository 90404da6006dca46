"""Heartbeats: they keep the transactions and locks of a run alive, and show when one of them is lost.

The metastore aborts a transaction, and drops a lock without a transaction, after its timeout without a heartbeat (Hive
`AcidHouseKeeperService`). A heartbeat that arrives while it looks for dead ones may come too late, hence an interval of
at most half of the timeout. Call `Lease.assert_alive` right before anything becomes visible.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import count

from acidlib.errors import AcidError, ConflictError, DefectError, RefusedError, RetryError
from acidlib.metastore.hms import Hms
from acidlib.metastore.options import ConnectionOptions
from acidlib.renewal import RENEWER, LeaseRenewer

RETRIES_PER_TIMEOUT = 30
MAX_RETRY_SECONDS = 5.0
CALLS_PER_TIMEOUT = 8
MIN_TOGETHER, MAX_TOGETHER = 8, 1000
"""Transactions that get one heartbeat together: a range in which none is another's, between two multiples."""
_ENDED_BETWEEN = 8
"""Ended transactions of ours that may lie between two of a range; for them the server does nothing, but looks."""
_ENDED_KEPT = 20_000

Clock = Callable[[], float]


class Lease:
    """A transaction or lock that is ours for a timeout after each heartbeat. Once lost, it stays lost."""

    def __init__(
        self,
        *,
        name: str,
        txn_id: int | None,
        lock_id: int | None,
        since: float,
        timeout_seconds: float,
        clock: Clock,
    ) -> None:
        """Use `Heartbeater.register`. Transaction and lock were alive at `since`, a time of `clock`."""
        self.name = name
        self.timeout_seconds = timeout_seconds
        self.txn_id = txn_id
        self.lock_id = lock_id
        """The lock in the heartbeats; the lock of a transaction is set once it is granted."""
        self.is_alone = False
        """Whether it gets heartbeats of its own, after one of a range has failed: another may be the cause."""
        self._clock = clock
        self._mutex = threading.Lock()
        self._extended_at = since
        self._lost: tuple[type[AcidError], str] | None = None
        self._last_failure = ""
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether no more heartbeats are sent, because the lease was stopped or lost."""
        with self._mutex:
            return self._stopped or self._lost is not None

    def assert_alive(self) -> None:
        """Raise ConflictError if the metastore has reported the loss, RetryError if the lease may have been lost.

        It may have been lost once no heartbeat has reached the metastore for longer than its timeout. For a lock
        without a transaction that is final, since another compactor may have locked the place by then; the heartbeats
        of a transaction go on, since its commit decides.
        """
        with self._mutex:
            if self._lost is not None:
                kind, text = self._lost
                raise kind(text)
            silent = self._clock() - self._extended_at
            if silent > self.timeout_seconds:
                raise RetryError(self._silence(silent))

    def stop(self) -> None:
        """Send no further heartbeats; to be called after commit, abort or unlock has returned. May be called again."""
        with self._mutex:
            self._stopped = True

    def extend(self, sent_at: float) -> None:
        """Note that the heartbeat sent at this time has arrived."""
        with self._mutex:
            if self._stopped or self._lost is not None:
                return
            silent = sent_at - self._extended_at
            if self.txn_id is None and silent > self.timeout_seconds:
                self._lost = (RetryError, self._silence(silent))
                return
            self._extended_at = sent_at
            self._last_failure = ""

    def note_failure(self, error: BaseException) -> None:
        """Note that a heartbeat failed, which does not mean that the lease is lost."""
        with self._mutex:
            self._last_failure = f" ({reason_of(error)})"

    def mark_lost(self, kind: type[AcidError], reason: str) -> None:
        """Note that the lease is lost. The first error counts, and none after `stop`."""
        with self._mutex:
            if not self._stopped and self._lost is None:
                self._lost = (kind, f"Cannot go on with {self.name}: {reason}")

    def _silence(self, seconds: float) -> str:
        return (
            f"Cannot go on with {self.name}: no heartbeat has reached the metastore for {seconds:.0f} s, "
            f"longer than its timeout of {self.timeout_seconds:g} s{self._last_failure}"
        )


def reason_of(error: BaseException) -> str:
    """Return the reason of an error, for the message of another error."""
    return error.reason if isinstance(error, AcidError) else f"{type(error).__name__}: {error}"


class Heartbeater:
    """Sends the heartbeats of all leases over one connection of its own, as one of the renewals of this process.

    Use it as a context manager. The connection is made when first needed. The heartbeat that has been due for
    longest is sent first. A failed one is tried again after all others that are due, so that a heartbeat which hangs
    delays the others by the limit of one call at most. Transactions whose ids are a range get one heartbeat together:
    the lock of a transaction lives with it (Hive `TxnHandler`), and needs none.
    """

    def __init__(
        self,
        connect: Callable[[], Hms],
        *,
        interval_seconds: float,
        timeout_seconds: float,
        clock: Clock,
        renewer: LeaseRenewer = RENEWER,
    ) -> None:
        """Send nothing yet.

        connect          opens a connection with `heartbeat_options`, whose calls end soon and are not repeated
        timeout_seconds  the metastore's timeout of transactions
        clock            returns seconds that never go back

        Raises RefusedError when the interval is more than half of the timeout.
        """
        if not 0 < interval_seconds <= timeout_seconds / 2:
            raise RefusedError(
                f"Cannot send a heartbeat every {interval_seconds:g} s: the interval has to be at most half of "
                f"the metastore's transaction timeout, {timeout_seconds:g} s"
            )
        self.timeout_seconds = timeout_seconds
        self._connect = connect
        self.clock = clock
        self._interval = interval_seconds
        self._retry = min(interval_seconds, timeout_seconds / RETRIES_PER_TIMEOUT, MAX_RETRY_SECONDS)
        self._connection: Hms | None = None
        self._mutex = threading.Lock()
        self._order = count()
        self._due: list[tuple[float, int, Lease]] = []  # a heap, also of entries that were replaced
        self._entry: dict[Lease, int] = {}
        """The number of the entry of each lease that counts."""
        self._by_txn: dict[int, Lease] = {}
        self._ended_txns: set[int] = set()
        """Transactions of ours that have ended; those below all others are forgotten at times."""
        self._forget_at = _ENDED_KEPT
        self._renewer = renewer
        self._is_renewed = False
        self._beating = threading.Lock()
        self._ended: str | None = None

    def register(self, *, txn_id: int | None, lock_id: int | None, name: str, since: float | None = None) -> Lease:
        """Keep a transaction, a lock, or a transaction with its lock alive; `name` is its name in messages.

        `since` is the time of `clock` before the call that opened or locked (default: now), which counts as a heartbeat
        (Hive `TxnHandler.openTxns`, `lock`): the first heartbeat follows an interval later. Raises DefectError after
        `close`.
        """
        since = self.clock() if since is None else since
        lease = Lease(
            name=name,
            txn_id=txn_id,
            lock_id=lock_id,
            since=since,
            timeout_seconds=self.timeout_seconds,
            clock=self.clock,
        )
        with self._mutex:
            if self._ended is not None:
                raise DefectError(f"Cannot keep {name} alive: {self._ended}")
            self._put(lease, since + self._interval)
            if txn_id is not None:
                self._by_txn[txn_id] = lease
            if not self._is_renewed:
                self._is_renewed = True
                self._renew()
        return lease

    def _renew(self) -> None:
        self._renewer.add(self._beat_all, self._retry)

    def _beat_all(self) -> bool:
        """Send all heartbeats that are due, and return whether there will be more."""
        with self._beating:
            try:
                while self._ended is None and self.send_due() == 0:
                    pass
            except BaseException as error:
                self._end(DefectError, f"its heartbeats ended by an unexpected {type(error).__name__}: {error}")
            with self._mutex:
                self._is_renewed = bool(self._entry)
                return self._is_renewed

    def _end(self, kind: type[AcidError], reason: str) -> None:
        """Send no more heartbeats: all leases are lost."""
        with self._mutex:
            self._ended = self._ended or reason
            lost, self._due, self._entry, self._by_txn = [*self._entry], [], {}, {}
        for lease in lost:
            lease.mark_lost(kind, self._ended)
        self._disconnect()

    def send_due(self) -> float | None:
        """Send a due heartbeat and return 0; else return the seconds until the next is due, None without any lease."""
        with self._mutex:
            while self._due and not self._is_next(*self._due[0][1:]):
                heappop(self._due)
            if not self._due:
                return None
            due, _, lease = self._due[0]
            wait = due - self.clock()
        if wait > 0:
            return wait
        self._send(lease)
        return 0.0

    def _put(self, lease: Lease, due: float) -> None:
        """Have a lease sent at this time and at no other, under the mutex."""
        number = self._entry[lease] = next(self._order)
        heappush(self._due, (due, number, lease))

    def _is_next(self, number: int, lease: Lease) -> bool:
        """Return whether an entry counts, and forget the lease if that has ended; under the mutex."""
        if self._entry.get(lease) != number:
            return False
        if lease.stopped:
            self._forget(lease)
            return False
        return True

    def _forget(self, lease: Lease) -> None:
        self._entry.pop(lease, None)
        if lease.txn_id is None or self._by_txn.get(lease.txn_id) is not lease:
            return
        del self._by_txn[lease.txn_id]
        self._ended_txns.add(lease.txn_id)
        if len(self._ended_txns) > self._forget_at:
            lowest = min(self._by_txn, default=lease.txn_id)
            self._ended_txns = {txn_id for txn_id in self._ended_txns if txn_id > lowest}
            self._forget_at = max(_ENDED_KEPT, 2 * len(self._ended_txns))

    def _together(self, lease: Lease) -> list[Lease]:
        """Return the leases that get their heartbeat together with this one, in the order of their transactions."""
        if lease.txn_id is None or lease.is_alone:
            return [lease]
        leases, start = deque([lease]), lease.txn_id - lease.txn_id % MAX_TOGETHER
        with self._mutex:
            for step, add, end in ((-1, leases.appendleft, start - 1), (1, leases.append, start + MAX_TOGETHER)):
                ended = 0
                for txn_id in range(lease.txn_id + step, end, step):
                    other = self._by_txn.get(txn_id)
                    if other is not None and not (other.stopped or other.is_alone):
                        add(other)
                        ended = 0
                    elif (txn_id in self._ended_txns or (other is not None and other.stopped)) and (
                        ended < _ENDED_BETWEEN
                    ):
                        ended += 1
                    else:
                        break
        return [*leases] if len(leases) >= MIN_TOGETHER else [lease]

    def _send(self, lease: Lease) -> None:
        """Send a heartbeat. The lease is lost if its transaction or lock does not exist; after other errors, retry."""
        try:
            if self._connection is None:
                self._connection = self._connect()
        except Exception as error:  # no error may end the heartbeats of the other leases
            with self._mutex:  # no heartbeat is sent before the next attempt to connect
                now = self.clock()
                waiting = [entry for entry in self._due if self._is_next(*entry[1:])]
                for due, _, other in waiting:
                    if due <= now:
                        other.note_failure(error)
                self._due = [(max(due, now + self._retry), number, other) for due, number, other in waiting]
                heapify(self._due)
            return
        leases = self._together(lease)
        sent_at = self.clock()
        try:
            lost = self._beat(self._connection, leases)
        except Exception as error:  # as above
            for other in leases:
                other.note_failure(error)
                other.is_alone = len(leases) > 1 or other.is_alone
            self._disconnect()
            self._postpone(leases, self.clock() + self._retry)
            return
        for other in leases:
            if other in lost:
                other.mark_lost(ConflictError, f"the metastore has given it up: {lost[other]}")
            else:
                other.extend(sent_at)
                other.is_alone = False
        self._postpone(leases, sent_at + self._interval)

    def _beat(self, connection: Hms, leases: list[Lease]) -> dict[Lease, str]:
        """Send one heartbeat for leases, and return those that are lost, each with the reason."""
        first, last = leases[0], leases[-1]
        if first.txn_id is not None and last.txn_id is not None and first is not last:
            ended = connection.heartbeat_range(first.txn_id, last.txn_id)
            return {lease: ended[lease.txn_id] for lease in leases if lease.txn_id in ended}
        try:
            connection.heartbeat(txn_id=first.txn_id, lock_id=first.lock_id)
        except ConflictError as error:
            return {first: reason_of(error)}
        return {}

    def _postpone(self, leases: list[Lease], due: float) -> None:
        with self._mutex:
            for lease in leases:
                if lease.stopped:
                    self._forget(lease)
                elif lease in self._entry:
                    self._put(lease, due)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it is not used any more
                connection.close()

    def close(self) -> None:
        """End the heartbeats and their connection. Leases that are still registered are lost."""
        with self._mutex:
            self._ended = self._ended or "its heartbeats were ended"
        self._renewer.remove(self._beat_all)
        if self._beating.acquire(timeout=self.timeout_seconds):  # a call may be under way
            self._beating.release()
        self._end(RetryError, self._ended)

    def __enter__(self) -> Heartbeater:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def heartbeat_options(options: ConnectionOptions, timeout_seconds: float) -> ConnectionOptions:
    """Return the options of the heartbeats' connection to a metastore with this timeout: short calls, not repeated.

    While a call hangs no other heartbeat is sent, and `Heartbeater` itself repeats.
    """
    longest = timeout_seconds / CALLS_PER_TIMEOUT
    return replace(
        options,
        attempts=1,
        timeout_seconds=min(options.timeout_seconds, longest),
        connect_timeout_seconds=min(options.connect_timeout_seconds, longest),
    )
