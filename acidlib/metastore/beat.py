"""The heartbeat of one transaction or lock, as a fence that is asked before anything becomes visible."""

from __future__ import annotations

import threading
from collections.abc import Callable

from acidlib.errors import AcidError, RetryError

Clock = Callable[[], float]


class Beat:
    """The heartbeat of one transaction or lock, and a fence: once lost, it stays lost."""

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
        """Made by `Heartbeater.register`. What it is for was alive at `since`."""
        self.name = name
        self.timeout_seconds = timeout_seconds
        self._txn_id = txn_id
        self._lock_id = lock_id
        self._clock = clock
        self._guard = threading.Lock()
        self._alive_at = since
        self._lost: tuple[type[AcidError], str] | None = None
        self._trouble = ""
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether it is not beaten any more, because it was stopped or lost."""
        with self._guard:
            return self._stopped or self._lost is not None

    @property
    def ids(self) -> tuple[int | None, int | None]:
        """Transaction and lock."""
        with self._guard:
            return self._txn_id, self._lock_id

    def watch_lock(self, lock_id: int) -> None:
        """From now on this lock of the transaction is beaten and watched too."""
        with self._guard:
            self._lock_id = lock_id

    def assert_alive(self) -> None:
        """Raises ConflictError for ever when the metastore has told that transaction or lock are gone.

        Raises RetryError when no beat has reached the metastore for longer than its timeout: then it must be assumed
        that they are. For a lock without transaction that is final too, because another compactor may by then have
        taken its place; a transaction is asked again, because its commit is what decides.
        """
        with self._guard:
            if self._lost is not None:
                kind, text = self._lost
                raise kind(text)
            silent = self._clock() - self._alive_at
            if silent > self.timeout_seconds:
                raise RetryError(self._silence(silent))

    def stop(self) -> None:
        """No further beats; to be called after commit, abort or unlock have returned. May be called again."""
        with self._guard:
            self._stopped = True

    def beaten(self, sent_at: float) -> None:
        """A beat that was sent at this moment has arrived."""
        with self._guard:
            if self._stopped or self._lost is not None:
                return
            silent = sent_at - self._alive_at
            if self._txn_id is None and silent > self.timeout_seconds:
                self._lost = (RetryError, self._silence(silent))
                return
            self._alive_at = sent_at
            self._trouble = ""

    def missed(self, error: BaseException) -> None:
        """A beat failed, and nothing is known by it about transaction and lock."""
        with self._guard:
            self._trouble = f" ({reason_of(error)})"

    def lose(self, kind: type[AcidError], reason: str) -> None:
        """Transaction or lock are gone. The first such error counts, and none after the end."""
        with self._guard:
            if not self._stopped and self._lost is None:
                self._lost = (kind, f"Cannot go on with {self.name}: because {reason}")

    def _silence(self, seconds: float) -> str:
        return (
            f"Cannot go on with {self.name}: because no heartbeat has reached the metastore for {seconds:.0f} s, "
            f"longer than its timeout of {self.timeout_seconds:g} s{self._trouble}"
        )


def reason_of(error: BaseException) -> str:
    """What an error says after "because", for the message of another error."""
    text = str(error) if isinstance(error, AcidError) else f"{type(error).__name__}: {error}"
    return text.partition(": because ")[2] or text
