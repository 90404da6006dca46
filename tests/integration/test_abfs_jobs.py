"""Whole jobs on tables in Azure Data Lake Storage, on a stub of ours: what they leave is what they leave on a disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from abfs_tables import downloaded, names, uploaded
from crud_walk_through import BASE, TABLE, check_base, check_row_ids
from judges import merge
from judges.fixtures import Fixture, fixtures
from long_runs import amount
from servers.abfs import AbfsStub

from integration.harness import AROUND, Jobs, Ran, fixture, tree, visible

NOW = ("--retention", "0s")
KINDS = ("minor", "major")


@pytest.fixture(autouse=True)
def configured(abfs: AbfsStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AROUND, "hadoop", abfs.properties())


def each_table() -> pytest.MarkDecorator:
    tables = [*fixtures(), *fixtures(insert_only=True)]
    pairs = [(table, KINDS[number % 2]) for number, table in enumerate(tables)]
    # in a usual run some of them: a store knows names and bytes, and not what is in them
    pairs = amount([*pairs[2::8], *pairs[-1:]], long=pairs)
    return pytest.mark.parametrize(("table", "kind"), pairs, ids=[f"{table.name}-{kind}" for table, kind in pairs])


def asked(table: Fixture) -> tuple[str, ...]:
    said = ("--write-ids", table.write_ids) if table.write_ids else ("--all-committed",)
    txn = ("--visibility-txn", "9000001") if table.generation == 4 else ()
    kind = ("--table-kind", "insert-only") if table.insert_only else ()
    return *said, *kind, *txn, "--hive-version", str(table.generation), "--order", "name"


def alike(ran: Ran, place: str) -> object:
    """The results without what differs between two runs, and with the table's own location left out."""
    text = json.dumps(ran.compactions).replace(place, "")
    varying = ("start_ms", "end_ms", "seconds", "rewrite_seconds", "verification", "id")
    return json.loads(text, object_hook=lambda found: {k: v for k, v in found.items() if k not in varying})


def contents(root: Path) -> dict[str, str]:
    return {name: facts[0] for name, facts in tree(root).items() if name != "."}


@each_table()
def test_the_same_bytes_as_on_a_local_disk(
    abfs: AbfsStub, abfs_container: str, jobs: Jobs, tmp_path: Path, table: Fixture, kind: str, steady_deflate: None
) -> None:
    local = fixture(table.name, tmp_path / "local" / table.folder.name)
    remote = uploaded(abfs, local, local.name, container=abfs_container)
    here = jobs(f"{kind}_compact", "--location", local, *asked(table))
    there = jobs(f"{kind}_compact", "--location", str(remote), *asked(table), "--verify")
    assert there.status == here.status, there
    assert all(one["verification"] for one in there.compactions if one["output_directories"])
    assert alike(there, str(remote)) == alike(here, str(local))
    copy = tmp_path / "copy/t"
    assert contents(downloaded(abfs, remote, copy)) == contents(local)
    for place in (local, remote):
        jobs.good("cleaner", "--location", str(place), *NOW)
    assert contents(downloaded(abfs, remote, copy)) == contents(local)


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
