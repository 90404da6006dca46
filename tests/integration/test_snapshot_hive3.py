"""Snapshots by a real metastore of Hive 3.1.3: the rows that Hive 3.1.3 answered, before and after our jobs."""

from __future__ import annotations

import pytest
from conformance.test_snapshot_hive import hive_lines, keys, lines
from judges import arrow_rows

import acidlib
from integration.hive3_site import Site
from integration.hive3_tables import Laid, full_acid

pytestmark = pytest.mark.live
INSERT_ONLY = ("h_mm_orc", "h2_mm_part")


def check(site: Site, laid: Laid) -> None:
    """Rows, and where the table has them row ids, are Hive's; nothing stays locked or open."""
    before = {lock.lockid for lock in laid.client.locks()}, set(laid.client.transactions())
    table = acidlib.connect(site.uri).table(laid.full_name)
    fixture = laid.fixture
    assert lines(fixture, table.to_arrow()) == hive_lines(fixture), laid.full_name
    if not fixture.insert_only:
        found = table.to_arrow(row_ids=True)
        assert lines(fixture, found.drop_columns([arrow_rows.ROW_ID])) == hive_lines(fixture), laid.full_name
        assert keys(fixture, found) == fixture.hive_keys(), laid.full_name
    assert ({lock.lockid for lock in laid.client.locks()}, set(laid.client.transactions())) == before


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_before_and_after_our_compaction_and_cleaner(own: Site, kind: str) -> None:
    every = [own.lay(name) for name in full_acid()] + [own.lay_insert_only(name) for name in INSERT_ONLY]
    for laid in every:
        check(own, laid)
    ran = own("major_compact" if kind == "major" else "minor_compact", "--table", f"{own.database}.*")
    assert ran.status == 0, ran
    assert ran.states.count("ready for cleaning") >= len(every) - 2, ran.states
    for laid in every:
        check(own, laid)
    assert {entry["state"] for entry in own.clean()} <= {"succeeded", "ready for cleaning"}
    for laid in every:
        check(own, laid)
