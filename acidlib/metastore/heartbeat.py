"""Heartbeats: one thread that keeps the transactions and locks of a run alive, and says when one of them is lost.

The metastore aborts a transaction, and drops a lock without one, that had no heartbeat for its timeout (Hive
`AcidHouseKeeperService`). A heartbeat that arrives while it looks for dead ones may come too late, hence an interval of
at most half of the timeout. `Lease.assert_alive` is to be asked right before anything becomes visible.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count

from acidlib.errors import AcidError, ConflictError, DefectError, RefusedError, RetryError
from acidlib.metastore.hms import Hms
from acidlib.metastore.options import ConnectionOptions

RETRIES_PER_TIMEOUT = 30
LONGEST_RETRY_SECONDS = 5.0
CALLS_PER_TIMEOUT = 8

Clock = Callable[[], float]


class Lease:
    """One transaction or lock that is ours for a timeout after each heartbeat. Once lost, it stays lost."""

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
        """Made by `Heartbeater.register`. Transaction and lock were alive at `since`, a time of `clock`."""
        self.name = name
        self.timeout_seconds = timeout_seconds
        self.txn_id = txn_id
        self.lock_id = lock_id
        """Heartbeats are for this lock, too; that of a transaction is set once it is granted."""
        self._clock = clock
        self._mutex = threading.Lock()
        self._extended_at = since
        self._lost: tuple[type[AcidError], str] | None = None
        self._last_failure = ""
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether no more heartbeats are sent for it, because it was stopped or lost."""
        with self._mutex:
            return self._stopped or self._lost is not None

    def assert_alive(self) -> None:
        """Raise ConflictError, from then on always, when the metastore has said that transaction or lock do not exist.

        Raises RetryError when no heartbeat has reached the metastore for longer than its timeout: then they may not
        exist any more either. For a lock without transaction that is final too, because another compactor may by then
        have taken its place; a transaction is asked again, because its commit is what decides.
        """
        with self._mutex:
            if self._lost is not None:
                kind, text = self._lost
                raise kind(text)
            silent = self._clock() - self._extended_at
            if silent > self.timeout_seconds:
                raise RetryError(self._silence(silent))

    def stop(self) -> None:
        """Send no further heartbeats; to be called after commit, abort or unlock have returned. May be called again."""
        with self._mutex:
            self._stopped = True

    def extend(self, sent_at: float) -> None:
        """Note that a heartbeat that was sent at this moment has arrived."""
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
        """Note that a heartbeat failed, which says nothing about transaction and lock."""
        with self._mutex:
            self._last_failure = f" ({reason_of(error)})"

    def mark_lost(self, kind: type[AcidError], reason: str) -> None:
        """Note that transaction or lock do not exist any more. The first such error counts, and none after `stop`."""
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
    """Sends the heartbeats of all that is registered, from one daemon thread over one connection of its own.

    Use it as a context manager. Thread and connection are made when first needed. The heartbeat that is due for longest
    is sent first. One that fails goes behind all others that are due, so that one which hangs for as long as a call may
    does not keep the others waiting for more than that.
    """

    def __init__(
        self,
        connect: Callable[[], Hms],
        *,
        interval_seconds: float,
        timeout_seconds: float,
        clock: Clock,
    ) -> None:
        """`timeout_seconds` is the metastore's for transactions, `clock` gives seconds that never go back.

        connect  opens a connection whose calls end by themselves and soon, and are not repeated: see
                 `heartbeat_options`

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
        self._retry = min(interval_seconds, timeout_seconds / RETRIES_PER_TIMEOUT, LONGEST_RETRY_SECONDS)
        self._connection: Hms | None = None
        self._mutex = threading.Lock()
        self._order = count()
        self._due: list[tuple[float, int, Lease]] = []  # a heap; the one that is being sent stays on its top
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._ended: str | None = None

    def register(self, *, txn_id: int | None, lock_id: int | None, name: str, since: float | None = None) -> Lease:
        """Keep a transaction, a lock, or a transaction with its lock alive; `name` is what messages call it.

        `since` is the time of `clock` before the metastore was asked for it: opening and locking count as heartbeats
        (Hive `TxnHandler.openTxns`, `lock`), so the first one follows an interval later. Raises DefectError after
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
            heappush(self._due, (since + self._interval, next(self._order), lease))
            self._have_thread()
        self._wake.set()
        return lease

    def _have_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="acidlib-heartbeat", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        """Send heartbeats until the end, when all leases are lost."""
        kind: type[AcidError] = RetryError
        try:
            while True:
                self._wake.clear()
                if self._ended is not None:
                    return
                wait = self.send_due()
                if wait != 0:
                    self._wake.wait(wait)
        except BaseException as error:
            kind = DefectError
            with self._mutex:
                self._ended = f"its heartbeats ended by an unexpected {type(error).__name__}: {error}"
        finally:
            self._disconnect()
            with self._mutex:
                lost, self._due = self._due, []
            for _, _, lease in lost:
                lease.mark_lost(kind, self._ended or "")

    def send_due(self) -> float | None:
        """Send the heartbeat that is due and return 0; else return the seconds until one is, None without any lease."""
        with self._mutex:
            while self._due and self._due[0][2].stopped:
                heappop(self._due)
            if not self._due:
                return None
            due, _, lease = self._due[0]
            wait = due - self.clock()
        if wait > 0:
            return wait
        self._send(lease)
        return 0.0

    def _send(self, lease: Lease) -> None:
        """A lease is lost when the metastore says that its transaction or lock does not exist; all else is retried."""
        try:
            if self._connection is None:
                self._connection = self._connect()
        except Exception as error:  # whatever is wrong in there must not end the heartbeats of everything else
            with self._mutex:  # no heartbeat is sent before the next attempt to make a connection
                now = self.clock()
                for due, _, waiting in self._due:
                    if due <= now:
                        waiting.note_failure(error)
                self._due = [(max(due, now + self._retry), order, one) for due, order, one in self._due]
                heapify(self._due)
            return
        sent_at = self.clock()
        try:
            self._connection.heartbeat(txn_id=lease.txn_id, lock_id=lease.lock_id)
        except ConflictError as error:
            lease.mark_lost(ConflictError, f"the metastore has given it up: {reason_of(error)}")
        except Exception as error:  # as above
            lease.note_failure(error)
            self._disconnect()
            self._postpone(lease, self.clock() + self._retry)
        else:
            lease.extend(sent_at)
            self._postpone(lease, sent_at + self._interval)

    def _postpone(self, lease: Lease, due: float) -> None:
        with self._mutex:
            heapreplace(self._due, (due, next(self._order), lease))

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it is given up anyway
                connection.close()

    def close(self) -> None:
        """End the thread and its connection. What is still registered counts as lost from now on."""
        with self._mutex:
            self._ended = self._ended or "its heartbeats were ended"
        self._wake.set()
        if self._thread is not None:
            self._thread.join(self.timeout_seconds)

    def __enter__(self) -> Heartbeater:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def heartbeat_options(options: ConnectionOptions, timeout_seconds: float) -> ConnectionOptions:
    """Return the options for the heartbeats' connection to a metastore with this timeout: calls end soon and only once.

    While one call hangs no other heartbeat is sent, and repeating is done by `Heartbeater`.
    """
    longest = timeout_seconds / CALLS_PER_TIMEOUT
    return replace(
        options,
        attempts=1,
        timeout_seconds=min(options.timeout_seconds, longest),
        connect_timeout_seconds=min(options.connect_timeout_seconds, longest),
    )
