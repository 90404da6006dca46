"""What the initiator has queued at once: what is wrong with one request is said of that one alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acidlib.errors import ConflictError, RefusedError, RetryError
from acidlib.execute.services import Services
from acidlib.model.requests import CompactionRequest, CompactionType
from acidlib.model.tables import TableRef
from acidlib.ports.sql import SqlRequests
from acidlib.queue.sql import SqlQueue


class Names:
    """Decisions are names of tables, of which one cannot be requested."""

    @staticmethod
    def decided_request(decided: Any) -> CompactionRequest:
        if decided == "bad":
            raise RefusedError("Cannot compact db.bad: it has no owner")
        return CompactionRequest(id=0, ref=TableRef("db", decided), type=CompactionType.MAJOR)


def requests(services: Services, queue: SqlQueue) -> SqlRequests:
    names: Any = Names
    return SqlRequests(services, queue, names)


def test_each_has_its_own_answer(services: Services, tmp_path: Path) -> None:
    with SqlQueue(f"sqlite:///{tmp_path}/queue.db") as queue:
        tables: Any = ["a", "bad", "b", "a"]
        first, refused, second, again = requests(services, queue).enqueue(tables)
        assert (first, second) == (1, 2)
        assert isinstance(refused, RefusedError)
        assert isinstance(again, ConflictError)
        assert [row.ref.table for row in queue.waiting()] == ["a", "b"]


def test_what_is_wrong_with_the_queue_is_asked_once(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def away(self: SqlQueue, requests: list[CompactionRequest], **more: object) -> None:
        asked.append(len(requests))
        raise RetryError("Cannot add to the queue: the test says so")

    monkeypatch.setattr(SqlQueue, "enqueue_all", away)
    with SqlQueue(f"sqlite:///{tmp_path}/queue.db") as queue:
        tables: Any = ["a", "b", "c"]
        found = requests(services, queue).enqueue(tables)
    assert [type(one) for one in found] == [RetryError] * 3
    assert asked == [3]
