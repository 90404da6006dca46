"""The status without a metastore: what lies on disk and what the queue knows, each trouble where it is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from claim_directories import age_claim
from judges.tables import orc_bytes

from acidlib.location import local_location
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts
from acidlib.model.tables import TableRef
from acidlib.planning.health import FindingKind
from integration.harness import Jobs, Ran, at_time, fixture, within

ALL = "--all-committed"
DAY = 86_400


def requests(ran: Ran) -> dict[str, dict[str, Any]]:
    """The figures of all requests by their state."""
    return {one["state"]: one for one in ran.document["totals"]["requests"]}


def found(ran: Ran) -> set[tuple[str | None, str]]:
    """Which trouble there is, and at which table."""
    return {(one["table"], one["trouble"]) for one in ran.document["findings"]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("healthy", "obsolete", "damaged", "claimed", "staged", "removed", "gone", "many", "busy"):
        fixture("hive3/a_crud", tmp_path / "warehouse" / "db.db" / name)
    return tmp_path / "warehouse"


def test_what_lies_on_disk_and_waits_in_the_queue_is_found_where_it_is(
    jobs: Jobs, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = root / "db.db"
    low = ("--set", "hive.compactor.delta.num.threshold=1")
    jobs.good("major_compact", "--location", tables / "obsolete", ALL)
    jobs.good("initiator", "--location", tables / "gone", ALL, *low)
    (tables / "gone").rename(root.parent / "moved")
    (tables / "damaged" / "base_0000001").mkdir()
    (tables / "damaged" / "base_0000001" / "_metadata_acid").write_text("{")
    (tables / "claimed" / "_acidlib_claim").mkdir()
    (tables / "claimed" / "_acidlib_claim" / "1.token").mkdir()
    age_claim(tables / "claimed", 700)
    (tables / "staged" / "_tmp_1.revoked").mkdir()
    (tables / "removed" / "_acidlib_removed.1.base_1").mkdir()
    (tables / "busy" / "_tmp_1").mkdir()
    facts = RequestFacts(location=local_location(str(tables / "busy")))
    busy = CompactionRequest(id=0, ref=TableRef("db", "busy"), type=CompactionType.MAJOR, facts=facts)
    with jobs.queue() as queue:
        queue.enqueue(busy, now_ms=int(time.time() * 1000), worker_id="w")
    before = within(root)

    ran = jobs("status", "--warehouse", root)
    assert (ran.status, ran.document["level"]) == (5, "error")
    assert ran.document["notes"] == [
        "committed write ids are not stated: the figures of places take everything as committed"
    ]
    stated = jobs("status", "--warehouse", root, ALL)
    assert (stated.document["findings"], stated.document["notes"]) == (ran.document["findings"], [])
    for words, problem in (
        (("--warehouse", root, "--write-ids", "db.many:2:9223372036854775807::"), "--write-ids is for one table"),
        (("--metastore-uri", "thrift://nowhere:1", ALL), "--all-committed is for directories"),
    ):
        wrong = jobs("status", *words)
        assert (wrong.status, problem in wrong.error["message"]) == (2, True)
    assert found(ran) == {
        ("damaged", FindingKind.DAMAGED.value),
        ("claimed", FindingKind.CLAIM_LEFT.value),
        ("staged", FindingKind.STAGING_LEFT.value),
        ("removed", FindingKind.REMOVAL_LEFT.value),
        ("gone", FindingKind.MISSING.value),
    }
    totals: dict[str, Any] = ran.document["totals"]
    assert (totals["places"], totals["looked_at"]) == (9, 9)
    (most,) = totals["most_obsolete"]
    assert (most["table"], most["obsolete_bytes"]) == ("obsolete", totals["obsolete_bytes"])
    assert len(totals["most_deltas"]) == 5
    assert requests(ran)["ready for cleaning"]["count"] == 1
    assert ran.document["transactions"] is None
    (known,) = [one for one in jobs("status").document["findings"] if one["table"] == "gone"]
    assert (known["trouble"], known["location"]) == (FindingKind.MISSING.value, str(tables / "gone"))

    few = jobs("status", "--warehouse", root, "--places", "3")
    totals = few.document["totals"]
    assert (totals["places"], totals["looked_at"], totals["most_obsolete"][0]["table"]) == (9, 3, "obsolete")
    assert found(few) == {("gone", FindingKind.MISSING.value)}, "those with requests are looked at first"

    at_time(monkeypatch, 2 * DAY)
    later = jobs("status", "--places", "0", "--fail-on", "error")
    assert found(later) == {
        ("obsolete", FindingKind.READY_LONG.value),
        ("gone", FindingKind.INITIATED_LONG.value),
        ("busy", FindingKind.WORKING_LONG.value),
    }
    assert (later.status, later.document["totals"]["looked_at"]) == (5, None)
    assert round(requests(later)["initiated"]["oldest_age"] / DAY) == 2
    some = jobs("status", "--location", tables / "many", "--write-ids", "db.many:2:9223372036854775807::")
    (most,) = some.document["totals"]["most_deltas"]
    assert (most["deltas"], some.document["notes"]) == (2, []), "those of the two that are committed"
    due = jobs("status", "--location", tables / "many", *low)
    assert (due.status, found(due)) == (4, {("many", FindingKind.DUE.value)})
    assert jobs("status", "--location", tables / "many", *low, "--fail-on", "error").status == 0
    text = jobs("status", "--location", tables / "many", *low, text=True)
    assert text.out.startswith("WARNING: 1 warning in 1 table\n")
    assert max(map(len, text.out.splitlines())) <= max(80, len(str(tables / "many")) + 12)
    assert within(root) == before
    jobs.good("cleaner", "--location", tables / "obsolete", "--retention", "0s")
    (tables / "obsolete").rename(root.parent / "dropped")
    assert "obsolete" not in {table for table, _ in found(jobs("status"))}, "only the history knows it"


def test_what_a_worker_would_refuse_is_told_before_one_does(jobs: Jobs, tmp_path: Path) -> None:
    place = fixture("hive3/a_crud", tmp_path / "db.db" / "t")
    (file,) = (place / "delta_0000001_0000001_0000").glob("bucket_*")
    file.write_bytes(orc_bytes("struct<id:int,value:string>", [(1, "no event")]))
    low = ("--set", "hive.compactor.delta.num.threshold=1")
    (decision,) = jobs.good("initiator", "--location", place, ALL, *low).document["decisions"]
    assert (decision["outcome"], decision["type"], decision["queued"]) == ("refused", "major", None)
    ran = jobs("status", "--location", place, ALL, *low)
    (finding,) = ran.document["findings"]
    assert (ran.status, finding["trouble"]) == (4, FindingKind.NOT_COMPACTABLE.value)
    fact, _, _ = decision["reason"].partition(";")  # what to do about it depends on who names the table
    assert finding["reason"].startswith(fact)
    assert "has no ACID columns" in fact
