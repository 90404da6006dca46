"""A row of a metastore's queue that another tool wrote and that is not understood is there: no command denies it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hive_queue_behaviour import IMITATION, Hive

from acidlib.errors import ConflictError, CorruptError
from acidlib.execute.services import Services
from acidlib.model.requests import CompactionRequest, CompactionType
from acidlib.model.results import Outcome
from acidlib.model.tables import TableRef
from acidlib.ports.directories import DirectoryUndoing
from acidlib.ports.sql import SqlRequests
from acidlib.queue.sql import SqlQueue
from acidlib.runs import cancel as service
from acidlib.runs.cancel import cancel_requests
from acidlib.runs.undo import undo_compaction


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[SqlQueue]:
    """Request 7 is of an unknown type, request 8 waits."""
    hive = Hive(f"sqlite:///{tmp_path}/queue.db")
    hive.run(*IMITATION)
    hive.queued(7, TABLE="odd", TYPE="q")
    hive.queued(8)
    with SqlQueue(hive.url) as opened:
        yield opened


def test_undo_says_what_is_wrong_with_it(services: Services, queue: SqlQueue) -> None:
    with pytest.raises(CorruptError, match=r"Cannot read request 7 of .*: its row is not understood"):
        undo_compaction(services, DirectoryUndoing(services, queue), 7, user="u", dry_run=True)


def test_cancel_says_so_and_withdraws_the_others(queue: SqlQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "open_queue", lambda _: queue)
    where: Any = SimpleNamespace(metastore=(), user="u", host="h", metastore_name="m")
    odd, other = cancel_requests(where, [7, 8], now_ms=1, dry_run=False)
    assert (odd.state, other.state) == (Outcome.REFUSED, Outcome.CANCELLED)
    assert "its row is not understood" in odd.reason


def test_it_is_in_the_way_of_a_compaction_of_its_table(services: Services, queue: SqlQueue) -> None:
    request = CompactionRequest(id=0, ref=TableRef("db", "odd"), type=CompactionType.MAJOR)
    scope: Any = SimpleNamespace(named_request=lambda *_: request)
    listed: Any = None
    with pytest.raises(ConflictError, match=r"Cannot compact db\.odd: .*its row is not understood"):
        SqlRequests(services, queue, scope).submit(listed, request.type)
