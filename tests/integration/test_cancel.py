"""Requests that wait are withdrawn, and of each that is named one answer says what became of it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts
from acidlib.model.tables import TableRef
from integration.harness import Jobs, Ran, fixture

ALL = ("--all-committed",)
LOW = ("--set", "hive.compactor.delta.num.threshold=1")


def answers(ran: Ran) -> dict[int, tuple[str, str]]:
    return {one["id"]: (one["state"], one["reason"]) for one in ran.document["cancellations"]}


@pytest.fixture
def waiting(jobs: Jobs, tmp_path: Path) -> Jobs:
    """Requests 1 to 3 for partitions that wait."""
    part = fixture("hive3/b_part", tmp_path / "db.db" / "part")
    jobs.good("initiator", "--location", part, *ALL, *LOW)
    assert [row["state"] for row in jobs.shown().values()] == ["initiated"] * 3
    return jobs


def test_what_waits_is_withdrawn_and_not_done(waiting: Jobs) -> None:
    planned = waiting.good("cancel", "2", "--dry-run")
    assert answers(planned)[2] == ("planned", "it waits, and would be withdrawn")
    ran = waiting.good("cancel", "2", "1", "2")
    assert [one["id"] for one in ran.document["cancellations"]] == [2, 1]
    assert {state for state, _ in answers(ran).values()} == {"cancelled"}
    shown = waiting.shown()
    assert [shown[number]["state"] for number in (1, 2, 3)] == ["aborted", "aborted", "initiated"]
    assert shown[2]["error_message"].startswith("cancelled by ")
    assert waiting.good("status").document["level"] == "ok", "a person wanted it"
    assert [entry["id"] for entry in waiting.good("major_compact").compactions] == [3]


def test_of_all_requests_those_are_shown_that_are_asked_for(waiting: Jobs) -> None:
    waiting.good("cancel", "2")

    def shown(*words: str) -> list[int]:
        return [row["id"] for row in waiting.good("show_compactions", *words).compactions]

    assert shown() == [3, 2, 1]
    assert shown("--state", "aborted") == [2]
    assert shown("--state", "aborted", "--state", "initiated", "--limit", "2") == [3, 2]
    assert (shown("--table", "DB.part"), shown("--table", "db.x*")) == ([3, 2, 1], [])
    assert waiting("show_compactions", "--table", "part").status == 2
    text = waiting("show_compactions", "--limit", "1", text=True).out
    assert text.startswith("1 request of 3: 1 initiated\n")


def test_what_does_not_wait_stays_and_the_answer_says_what_to_do(waiting: Jobs) -> None:
    with waiting.queue() as queue:
        queue.claim_id(1, "acidlib-node7-0123456789abcdef", round(time.time() * 1000))
    waiting.good("major_compact", "--max-partitions", "1", "--order", "name")
    ran = waiting("cancel", "1", "2", "3", "99")
    assert ran.status == 3
    told = answers(ran)
    assert {number: state for number, (state, _) in told.items()} == {
        1: "refused", 2: "refused", 3: "cancelled", 99: "missing",
    }  # fmt: skip
    assert "acidlib-node7-0123456789abcdef works on it: end that run" in told[1][1]
    assert "acidlib undo takes a result back" in told[2][1]
    assert told[99][1].startswith("there is no such request")
    assert ran.document["totals"] == {
        "cancellations": 4, "states": {"planned": 0, "cancelled": 1, "refused": 2, "missing": 1},
    }  # fmt: skip
    text = waiting("cancel", "3", text=True)
    assert (text.status, text.out) == (
        1,
        "request 3, major of db.part.dt=2024-01-03: refused, it has ended before, as\n    aborted\n",
    )
    assert waiting("cancel", text=True).status == 2


def test_a_request_of_a_metastore_is_left_to_it(jobs: Jobs) -> None:
    """In a queue of our own that several share."""
    facts = RequestFacts(metastore="thrift://other:9083")
    wanted = CompactionRequest(id=0, ref=TableRef("db", "t"), type=CompactionType.MAJOR, facts=facts)
    with jobs.queue() as queue:
        queue.enqueue(wanted, now_ms=1)
        queue.enqueue(replace(wanted, facts=RequestFacts(), ref=wanted.ref._replace(table="u")), now_ms=1)
    ran = jobs("cancel", "1", "2")
    told: dict[int, Any] = answers(ran)
    assert (ran.status, told[1][0], told[2][0]) == (3, "refused", "cancelled")
    assert "thrift://other:9083" in told[1][1]
