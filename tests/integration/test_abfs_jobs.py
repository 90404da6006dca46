"""Whole jobs on tables in Azure Data Lake Storage, on a stub of ours: what they leave is what they leave on a disk."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from abfs_tables import downloaded, names, uploaded
from crud_walk_through import BASE, TABLE, check_base, check_row_ids
from judges import merge
from judges.fixtures import Fixture
from servers.abfs import AbfsStub

from integration.harness import AROUND, Jobs, fixture, visible
from integration.store_jobs import NOW, each_table, leave_the_same_bytes


@pytest.fixture(autouse=True)
def configured(abfs: AbfsStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AROUND, "hadoop", abfs.properties())


@each_table(usual=slice(2, None, 8))
def test_the_same_bytes_as_on_a_local_disk(
    abfs: AbfsStub, abfs_container: str, jobs: Jobs, tmp_path: Path, table: Fixture, kind: str, steady_deflate: None
) -> None:
    upload = partial(uploaded, abfs, container=abfs_container)
    leave_the_same_bytes(jobs, tmp_path, table, kind, upload=upload, download=partial(downloaded, abfs))


def test_the_walk_through(abfs: AbfsStub, abfs_container: str, jobs: Jobs, tmp_path: Path) -> None:
    """From the scan to the cleaning: the files, rows and row ids of Hive; abfs and abfss name one place."""
    hives = TABLE.copy(tmp_path / "hives", "after_major")
    table = uploaded(abfs, TABLE.before, "crud", container=abfs_container)
    named = f"abfs{str(table).removeprefix('abfss')}"
    before = merge.read(TABLE.before, strict=True)

    def copied() -> Path:
        copy = downloaded(abfs, table, tmp_path / "copy")
        assert merge.read(copy, strict=True) == before
        return copy

    warehouse = ("--warehouse", named.rpartition("/")[0], "--all-committed")
    scanned = jobs.good("initiator", *warehouse, "--set", "hive.compactor.delta.num.threshold=1")
    [decided] = scanned.document["decisions"]
    assert decided["type"] == "major"
    [compacted] = jobs.good("major_compact").compactions
    assert compacted["location"] == str(table)
    check_row_ids(copied())
    [cleaned] = jobs.good("cleaner", "--location", named, *NOW).document["cleanings"]
    assert cleaned["state"] == "succeeded", cleaned
    assert visible(copied()) == [BASE]
    check_base(copied(), hives)
    assert names(abfs, table) == [BASE]


def test_what_a_place_costs(abfs: AbfsStub, abfs_container: str, jobs: Jobs, tmp_path: Path) -> None:
    """Requests for a place of five directories with one file each: a bucket of S3 takes 13, 74 and 46."""
    table = uploaded(abfs, fixture("hive3/a_crud", tmp_path / "t"), "crud", container=abfs_container)
    place = ("--location", str(table))
    for most, words in (
        (17, ("major_compact", *place, "--all-committed", "--dry-run")),
        (99, ("major_compact", *place, "--all-committed")),
        (67, ("cleaner", *place, *NOW)),
    ):
        abfs.counts.clear()
        jobs.good(*words)
        assert sum(abfs.counts.values()) <= most, abfs.counts
