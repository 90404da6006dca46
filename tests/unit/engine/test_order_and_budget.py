"""Order, budgets and names: which compactions a run starts."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

import pytest

from acidlib.engine.selection import Budget, Looked, Order, Spending, Unlisted, ordered
from acidlib.engine.target import Target, request_of, target_of
from acidlib.errors import RefusedError
from acidlib.model.generation import Generation
from acidlib.model.listing import ListedFile, Listing
from acidlib.model.request_facts import split_properties
from acidlib.model.requests import CompactionRequest, CompactionType
from acidlib.model.writeids import ValidWriteIdList
from acidlib.planning.stated_write_ids import StatedWriteIds


def looked(name: str, *, deltas: int = 0, size: int = 0, modified: float = 0.0) -> Looked:
    target = Target(database="d", table=name, partition=None, location=f"/{name}")
    return Unlisted(target=target, deltas=deltas, delta_bytes=size, bytes=size, modified=modified)


A = looked("a", deltas=1, size=30, modified=9.0)
B = looked("b", deltas=5, size=20, modified=5.0)
C = looked("c", deltas=5, size=90, modified=1.0)


@pytest.mark.parametrize(
    ("order", "expected"),
    [(Order.DELTAS, [B, C, A]), (Order.BYTES, [C, A, B]), (Order.AGE, [C, B, A]), (Order.NAME, [A, B, C])],
)
def test_order(order: Order, expected: list[Looked]) -> None:
    assert ordered([C, A, B], order) == expected
    assert ordered([B, C, A], order) == expected


@pytest.mark.parametrize(
    ("budget", "started", "told"),
    [
        (Budget(), [A, B, C], None),
        (Budget(partitions=2), [A, B], "--max-partitions 2 is reached"),
        (Budget(partitions=3), [A, B, C], None),
        (Budget(bytes=50), [A, B], "--max-bytes 50 is reached"),
        (Budget(bytes=49), [A], "--max-bytes 49 is reached"),
        (Budget(bytes=1), [A], "--max-bytes 1 is reached"),
        (Budget(deadline=99.0), [], "the time budget is spent"),
        (Budget(deadline=101.0), [A, B, C], None),
    ],
)
def test_budget(budget: Budget, started: list[Looked], told: str | None) -> None:
    spending = Spending(budget, lambda: 100.0)
    assert list(takewhile(spending.lets_start, [A, B, C])) == started
    assert spending.stopped == told


def test_a_deadline_that_passes_on_the_way() -> None:
    now = [100.0]
    spending = Spending(Budget(deadline=105.0), lambda: now[0])
    started = []
    for one in takewhile(spending.lets_start, [A, B, C]):
        started.append(one)
        now[0] += 4
    assert started == [A, B]


def test_a_request_says_all_that_a_worker_needs() -> None:
    stated = StatedWriteIds(single=ValidWriteIdList.parse("d.a:7:5:5:3"))
    target = Target(database="d", table="a", partition="p=1", location="/a/p=1")
    files = (ListedFile(path="delta_0000001_0000001/bucket_00000", length=1, modified=1.0),)
    understood = replace(
        target,
        understanding=replace(
            target.understanding,
            write_ids=stated,
            generation=Generation.HIVE4,
            table_kind="full",
            visibility_txn=12,
        ),
    )
    place = understood.listed(Listing(location="/a/p=1", files=files))
    request = request_of(place, CompactionType.MINOR, initiator="host-1")
    assert target_of(request) == understood
    assert (request.database, request.table, request.partition) == ("d", "a", "p=1")


@pytest.mark.parametrize("missing", ["location", "acidlib.write.ids"])
def test_a_request_of_somebody_else_is_refused(missing: str) -> None:
    properties = {"location": "/a", "acidlib.write.ids": "d.a:1:2::"}
    del properties[missing]
    request = CompactionRequest(
        id=4,
        database="d",
        table="a",
        partition=None,
        type=CompactionType.MAJOR,
        facts=split_properties(properties)[0],
    )
    with pytest.raises(RefusedError, match=r"request 4 does not say where it lies"):
        target_of(request)
