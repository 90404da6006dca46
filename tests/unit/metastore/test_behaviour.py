"""The fake of locks and transactions behaves as real metastores do, in integration/test_metastore_behaviour.py."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest
from fake_locks import Client, LockServer
from metastore_behaviour import TIMEOUT, CompactionTransactions, CompactorLocks, LocksAndTransactions, Reads, table

from acidlib.acid.names import Generation
from acidlib.metastore.heartbeat import Heartbeater
from acidlib.metastore.hms import Hms

__all__ = ["table"]


@pytest.fixture(params=[Generation.HIVE3, Generation.HIVE4], ids=str)
def server(request: pytest.FixtureRequest) -> LockServer:
    return LockServer(generation=request.param)


@pytest.fixture
def hms(server: LockServer) -> Hms:
    return cast(Hms, Client(server))


@pytest.fixture
def others(server: LockServer) -> Hms:
    return cast(Hms, Client(server, "anna", "laptop"))


@contextmanager
def heartbeats(server: LockServer) -> Iterator[Heartbeater]:
    with Heartbeater(
        lambda: Client(server), interval_seconds=0.05, timeout_seconds=TIMEOUT, clock=time.monotonic
    ) as found:
        yield found


@pytest.fixture
def beats(server: LockServer) -> Iterator[Heartbeater]:
    with heartbeats(server) as found:
        yield found


@pytest.fixture
def theirs(server: LockServer) -> Iterator[Heartbeater]:
    with heartbeats(server) as found:
        yield found


class TestLocksAndTransactions(LocksAndTransactions):
    pass


class TestCompactorLocks(CompactorLocks):
    pass


class TestReads(Reads):
    pass


@pytest.mark.parametrize("server", [Generation.HIVE4], indirect=True, ids=str)
class TestCompactionTransactions(CompactionTransactions):
    pass
