"""Compactors on the fake of locks and transactions, whose time a test sets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import cast

from fake_locks import Client, LockServer

from acidlib.errors import RetryError, UnknownOutcomeError
from acidlib.metastore.heartbeat import Heartbeater
from acidlib.metastore.hms import Hms
from acidlib.metastore.holding import (
    CompactionTransaction,
    CompactorLock,
    begin_compaction,
    lock_place,
    publication_lock,
)
from acidlib.metastore.transactions import LockComponent, LockState, LockType
from acidlib.model.tables import TableRef

TIMEOUT = 300.0
AWAY = RetryError("Cannot reach thrift://a:9083: it is away")
LOST = UnknownOutcomeError("Cannot lock: the answer was lost")


class Clock:
    """Time that passes only during a sleep; `on_sleep` is called after each sleep."""

    def __init__(self) -> None:
        self.now = 0.0
        self.on_sleep: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        self.on_sleep()


class Process:
    """A compactor with its heartbeats; `now` is its clock."""

    def __init__(self, server: LockServer, user: str = "etl", host: str = "host1", agent: str = "acidlib-1") -> None:
        self.server = server
        self.client = Client(server, user, host)
        self.hms = cast(Hms, self.client)
        self.agent = agent
        self.now = 0.0
        self.beats = Heartbeater(
            lambda: Client(server), interval_seconds=100, timeout_seconds=TIMEOUT, clock=lambda: self.now
        )

    def hold(self, database: str = "db", table: str = "t", partition: str | None = "p=1") -> CompactorLock:
        return lock_place(self.hms, self.beats, ref=TableRef(database, table, partition), agent=self.agent)

    def publish(
        self,
        clock: Clock | None = None,
        *,
        exclusive: bool = True,
        partition: str | None = "p=1",
        timeout_seconds: float = 30.0,
    ) -> AbstractContextManager[CompactorLock]:
        clock = clock or Clock()
        return publication_lock(
            self.hms,
            self.beats,
            ref=TableRef("db", "t", partition),
            exclusive=exclusive,
            agent=self.agent,
            timeout_seconds=timeout_seconds,
            clock=clock,
            sleep=clock.sleep,
        )

    def begin(self, partition: str | None = "p=1") -> CompactionTransaction:
        return begin_compaction(self.hms, self.beats, ref=TableRef("db", "t", partition), agent=self.agent)


def lock(
    server: LockServer, type: LockType, *, database: str = "db", table: str = "t", partition: str | None = None
) -> int:
    component = LockComponent(type=type, database=database, table=table, partition=partition)
    lock_id, state = Client(server, "anna", "laptop").lock([component], txn_id=None, agent="hive_2026_q")
    assert state is LockState.ACQUIRED
    return lock_id
