"""Results that a second reader compares with what was there before: what it sees, and what is held because of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance.hive_tables import HiveTable, hive_tables_by_kind
from judges.fixtures import Fixture, fixtures

from acidlib.model.requests import CompactionType
from integration.harness import Jobs, fixture

NOW = ("--retention", "0s")


@pytest.mark.parametrize(("table", "kind"), hive_tables_by_kind(), ids=str)
def test_tables_that_hive_wrote(table: HiveTable, kind: CompactionType, jobs: Jobs, tmp_path: Path) -> None:
    location = table.copy(tmp_path / table.name)
    said = ("--write-ids", table.write_ids) if table.write_ids else ("--all-committed",)
    asked = ("--location", location, *said, "--hive-version", str(table.generation), "--table-kind", "full")
    (entry,) = jobs.good(f"{kind.label.lower()}_compact", *asked, "--verify", "--minor-as-major-bytes", "0").compactions
    assert entry["state"] == "ready for cleaning", entry
    compared = entry["verification"]
    assert compared["rows"] == entry["rows_in"] - entry["rows_deleted"] - entry["rows_aborted"]
    assert compared["events"] == (entry["events_out"])
    assert compared["buckets"] and len(compared["buckets"]) == compared["of_buckets"]


@pytest.mark.parametrize("table", fixtures(insert_only=True), ids=lambda table: table.name)
def test_insert_only_tables_that_hive_wrote(table: Fixture, jobs: Jobs, tmp_path: Path) -> None:
    location = fixture(table.name, tmp_path / table.folder.name)
    said = ("--write-ids", table.write_ids) if table.write_ids else ("--all-committed",)
    asked = ("--location", location, "--table-kind", "insert-only", *said, "--hive-version", str(table.generation))
    for entry in jobs.good("major_compact", *asked, "--verify").compactions:
        assert entry["state"] == "ready for cleaning", entry
        assert entry["verification"]["rows"] > 0
