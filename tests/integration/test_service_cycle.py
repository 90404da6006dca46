"""The services as cron runs them: initiator, both workers, cleaner, and what the queue shows in between."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from claim_directories import lay_claim
from judges import merge
from runners import LocalRunner

from acidlib.execute.task import Task
from acidlib.model.requests import CompactionRequest, CompactionType
from acidlib.model.tables import TableRef
from acidlib.runs import initiate as initiator
from integration.harness import Jobs, at_time, fixture, names, tree, use_runner, visible, within

LISTS = (
    "db.f_abort:7:9223372036854775807::2,3,6\n"
    "# the rest has no exceptions\n"
    "db.b_part:6:9223372036854775807::\n"
    "db.crud:4:9223372036854775807::\n"
    "\n"
    "other.crud4:3:9223372036854775807::\n"
)
THRESHOLDS = ("--set", "hive.compactor.delta.num.threshold=2")
DAY = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Warehouse:
    """Four tables of two generations; the places that hold rows, with the write ids that hold for each."""

    root: Path
    lists: Path
    places: dict[str, tuple[Path, str, int]]

    def rows(self) -> dict[str, list[merge.Row]]:
        return {
            name: merge.read(place, write_ids, generation=generation, strict=True)
            for name, (place, write_ids, generation) in self.places.items()
        }

    def __getitem__(self, name: str) -> Path:
        return self.places[name][0]


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    root = tmp_path / "warehouse"
    db = root / "db.db"
    aborts = "db.f_abort:7:9223372036854775807::2,3,6"
    part = fixture("hive3/b_part", db / "b_part")
    places = {
        "db.crud": (fixture("hive3/a_crud", db / "crud"), "", 3),
        "db.f_abort": (fixture("hive3/f_abort", db / "f_abort"), aborts, 3),
        "other.crud4": (fixture("hive4/crud_table", root / "other.db" / "crud4"), "", 4),
    }
    places |= {f"db.b_part.{p.name}": (p, "", 3) for p in sorted(part.iterdir())}
    fixture("hive3/h_mm_textfile", db / "insert_only")
    (db / "plain").mkdir()
    (db / "plain" / "000000_0").write_bytes(b"ORC")
    lists = tmp_path / "lists.txt"
    lists.write_text(LISTS)
    return Warehouse(root=root, lists=lists, places=places)


def initiate(jobs: Jobs, warehouse: Warehouse, *more: str | Path):
    return jobs(
        "initiator", "--warehouse", warehouse.root, "--write-ids-file", warehouse.lists,
        "--exclude", "db.insert_only", *THRESHOLDS, *more,
    )  # fmt: skip


def test_initiator_without_a_statement_about_write_ids_is_wrong_usage(jobs: Jobs, warehouse: Warehouse) -> None:
    ran = jobs("initiator", "--warehouse", warehouse.root)
    assert ran.status == 2
    assert "what is committed cannot be known from files" in ran.err
    assert ran.error["kind"] == "usage"


def test_initiator_decides_and_a_dry_run_queues_nothing(jobs: Jobs, warehouse: Warehouse) -> None:
    before = tree(warehouse.root)
    ran = initiate(jobs, warehouse, "--dry-run")
    assert ran.status == 0
    decisions = {entry["table"] + (entry["partition"] or ""): entry for entry in ran.document["decisions"]}
    assert set(decisions) == {"crud", "f_abort", "crud4", *(f"b_partdt=2024-01-0{i}" for i in (1, 2, 3))}
    assert {entry["type"] for entry in decisions.values()} == {"major"}  # no base: more deltas than the threshold
    assert decisions["crud"]["threshold"] == 2
    assert decisions["crud"]["threshold_key"] == "hive.compactor.delta.num.threshold"
    assert all(entry["queued"] is None for entry in decisions.values())
    assert any("plain is skipped: it holds original files only" in note for note in ran.document["notes"])
    assert jobs.shown() == {}
    assert tree(warehouse.root) == before


def test_below_the_threshold_nothing_is_queued(jobs: Jobs, warehouse: Warehouse) -> None:
    ran = initiate(jobs, warehouse, "--set", "hive.compactor.delta.num.threshold=100")
    assert ran.status == 0
    assert ran.document["totals"]["queued"] == 0
    assert all(entry["type"] is None and entry["reason"] for entry in ran.document["decisions"])
    assert jobs.shown() == {}


class NoSpark(LocalRunner):
    """A session that nothing may use."""

    @property
    def slots(self) -> int:
        raise AssertionError("Spark was started to learn how many tasks it runs")

    def run_batches(self, batches: Sequence[Sequence[Task]], *, group: str) -> list[list[Any]]:
        raise AssertionError(f"Spark was started for {group}")


def test_who_only_looks_or_removes_starts_no_spark(
    jobs: Jobs, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    crud = warehouse["db.crud"]
    made = jobs.good("major_compact", "--location", crud, "--all-committed").compactions[0]["output_directories"]
    use_runner(monkeypatch, NoSpark(str))
    assert initiate(jobs, warehouse).document["totals"]["queued"] == 5
    assert len(jobs.shown()) == 6
    jobs.good("cleaner", "--retention", "0s", "--dry-run")
    jobs.good("cleaner", "--retention", "0s")
    assert visible(crud) == sorted(made)
    jobs.good("cleaner", "--orphans", "--location", crud)
    assert "Spark was started" in jobs("major_compact").out, "who does start it is found"


def test_a_place_is_queued_once(jobs: Jobs, warehouse: Warehouse) -> None:
    assert initiate(jobs, warehouse).document["totals"]["queued"] == 6
    again = initiate(jobs, warehouse)
    assert again.status == 0
    assert again.document["totals"]["queued"] == 0
    assert all("already scheduled with state='initiated'" in entry["reason"] for entry in again.document["decisions"])
    assert len(jobs.shown()) == 6


def test_a_table_without_a_line_fails_and_the_others_are_queued(jobs: Jobs, warehouse: Warehouse) -> None:
    warehouse.lists.write_text(LISTS.replace("db.crud:4:9223372036854775807::\n", ""))
    ran = initiate(jobs, warehouse)
    assert ran.status == 3
    failed = [entry for entry in ran.document["decisions"] if entry["failed"]]
    assert [entry["table"] for entry in failed] == ["crud"]
    assert "nothing says which of its transactions are committed" in failed[0]["reason"]
    assert ran.document["totals"]["queued"] == 5


def test_a_base_above_what_is_committed_makes_no_run_fail(jobs: Jobs, warehouse: Warehouse) -> None:
    for path in warehouse["db.crud"].iterdir():
        shutil.rmtree(path)
    (warehouse["db.crud"] / "base_0000009").mkdir()
    (warehouse["db.crud"] / "base_0000009" / "bucket_00000").write_bytes(b"")
    ran = initiate(jobs, warehouse)
    assert ran.status == 0
    (refused,) = [entry for entry in ran.document["decisions"] if entry["outcome"] == "refused"]
    assert (refused["table"], refused["failed"]) == ("crud", False)
    assert "may use none of its bases" in refused["reason"]
    totals = ran.document["totals"]
    assert (totals["queued"], totals["refused"], totals["failed"]) == (5, 1, 0)


@pytest.mark.parametrize("gone", ["the place", "with the directory above it, as a mount"])
def test_a_place_that_goes_between_selecting_and_listing(
    jobs: Jobs, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    """It was dropped, and nothing failed; but what is not there because a mount is missing is no dropped table."""
    place = warehouse["db.crud"]
    listing = initiator.list_in_portions

    def look(*asked):
        shutil.rmtree(place if gone == "the place" else place.parent)
        return listing(*asked)

    monkeypatch.setattr(initiator, "list_in_portions", look)
    ran = initiate(jobs, warehouse, "--exclude", "db.b_part", "--exclude", "db.f_abort", "--exclude", "other.*")
    (entry,) = ran.document["decisions"]
    if gone == "the place":
        assert (ran.status, entry["failed"], entry["reason"]) == (0, False, "it was dropped meanwhile")
    else:
        assert (ran.status, entry["failed"]) == (3, True)
        assert str(place) in entry["reason"]


def test_a_place_whose_last_attempts_failed_is_left_alone(jobs: Jobs, warehouse: Warehouse) -> None:
    damaged = warehouse["db.crud"] / "delta_0000001_0000001_0000" / "bucket_00000"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:300])
    only = ("--exclude", "db.b_part", "--exclude", "db.f_abort", "--exclude", "other.*")
    for _ in range(2):
        assert initiate(jobs, warehouse, *only).document["totals"]["queued"] == 1
        drained = jobs("major_compact")
        assert drained.status == 3
        assert drained.states == ["failed"]
    damaged.write_bytes(whole)
    ran = initiate(jobs, warehouse, *only)
    assert ran.document["totals"]["queued"] == 0
    (entry,) = ran.document["decisions"]
    assert entry["reason"] == "Compaction is not initiated since last 2 consecutive compaction attempts failed"
    assert [row["state"] for row in jobs.shown().values()] == ["did not initiate", "failed", "failed"]
    dry = initiate(jobs, warehouse, *only, "--dry-run")
    assert dry.document["decisions"][0]["reason"] == entry["reason"]
    assert len(jobs.shown()) == 3
    assert initiate(jobs, warehouse, *only, "--force").document["totals"]["queued"] == 1
    assert jobs.good("major_compact").states == ["ready for cleaning"]


@pytest.mark.parametrize("version", ["3", "4"])
def test_a_place_whose_last_attempts_failed_is_tried_again_after_a_while(
    jobs: Jobs, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    place = warehouse["db.crud"]
    (place / "delta_0000001_0000001_0000" / "bucket_00000").write_bytes(b"ORC, or so it says")
    asked = ("initiator", "--location", place, "--all-committed", "--hive-version", version, *THRESHOLDS)
    for _ in range(2):
        assert jobs.good(*asked).document["totals"]["queued"] == 1
        assert jobs("major_compact").states == ["failed"]
    for days, queued in ((0, 0), (6.9, 0), (7.1, 1)):
        with monkeypatch.context() as patch:
            at_time(patch, days * DAY)
            assert jobs.good(*asked).document["totals"]["queued"] == queued, days


def test_a_named_compaction_is_not_held_back_by_failures(jobs: Jobs, warehouse: Warehouse) -> None:
    place = warehouse["db.crud"]
    damaged = place / "delta_0000001_0000001_0000" / "bucket_00000"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:300])
    for _ in range(3):
        assert jobs("major_compact", "--location", place, "--all-committed").status == 1
    damaged.write_bytes(whole)
    assert jobs.good("major_compact", "--location", place, "--all-committed").states == ["ready for cleaning"]


def test_from_the_scan_to_the_cleaning(jobs: Jobs, warehouse: Warehouse) -> None:
    rows = warehouse.rows()
    assert all(rows.values())
    initiate(jobs, warehouse)
    assert {row["state"] for row in jobs.shown().values()} == {"initiated"}

    assert jobs.good("minor_compact").compactions == []  # none was queued
    ran = jobs.good("major_compact")
    assert ran.states == ["ready for cleaning"] * 6
    assert ran.document["totals"]["states"]["ready for cleaning"] == 6
    assert warehouse.rows() == rows
    shown = jobs.shown()
    assert {row["state"] for row in shown.values()} == {"ready for cleaning"}
    assert {row["highest_write_id"] for row in shown.values()} == {3, 4, 6, 7}
    assert all(row["commit_ms"] and row["type"] == "MAJOR" and row["worker"] is None for row in shown.values())

    with_results = tree(warehouse.root)
    waits = jobs.good("cleaner")
    assert {entry["state"] for entry in waits.document["cleanings"]} == {"ready for cleaning"}
    for entry in waits.document["cleanings"]:
        until = datetime.fromtimestamp(shown[entry["id"]]["commit_ms"] / 1000 + DAY, UTC)
        words = f"the retention of 1 d has not passed (until {until:%Y-%m-%d %H:%M:%S} UTC)"
        assert words in entry["reason"]
        assert all(text.endswith(f": {words}") for text in entry["blocked"])
    assert tree(warehouse.root, times=False) == {k: (*v[:2], 0) for k, v in with_results.items()}
    assert {row["state"] for row in jobs.shown().values()} == {"ready for cleaning"}

    planned = jobs.good("cleaner", "--retention", "0s", "--dry-run")
    assert {row["state"] for row in jobs.shown().values()} == {"ready for cleaning"}
    done = jobs.good("cleaner", "--retention", "0s")
    assert warehouse.rows() == rows

    def removals(ran):
        return {(e["location"], r["path"], r["bytes"]) for e in ran.document["cleanings"] for r in e["removed"]}

    assert removals(planned) == removals(done)
    gone = {name for name in with_results if name not in tree(warehouse.root)}
    assert {str(warehouse.root / name) for name in gone if not name.endswith(("bucket_00000", "_version"))} >= {
        f"{location}/{path}" for location, path, _ in removals(done)
    }
    for name, (place, _, _) in warehouse.places.items():
        assert len(visible(place)) == 1, name
        assert visible(place)[0].startswith("base_")
        assert names(place) == visible(place), "no claim, no staging is left"
    assert {row["state"] for row in jobs.shown().values()} == {"succeeded"}
    assert jobs.good("cleaner", "--retention", "0s").document["cleanings"] == []


def test_minor_is_queued_beside_a_base_and_drained_by_its_own_job(jobs: Jobs, warehouse: Warehouse) -> None:
    place = warehouse["db.crud"]
    rows = warehouse.rows()
    jobs.good("major_compact", "--location", place, "--write-ids", "db.crud:2:9223372036854775807::")
    jobs.good("cleaner", "--location", place, "--retention", "0s")
    assert visible(place) == [
        "base_0000002", "delete_delta_0000003_0000003_0000", "delete_delta_0000004_0000004_0000",
        "delta_0000003_0000003_0000",
    ]  # fmt: skip
    ran = initiate(jobs, warehouse, "--exclude", "db.[bf]*", "--exclude", "other.*",
                   "--set", "hive.compactor.delta.pct.threshold=100")  # fmt: skip
    assert [entry["type"] for entry in ran.document["decisions"]] == ["minor"]
    assert jobs.good("major_compact").compactions == []
    (entry,) = jobs.good("minor_compact").compactions
    assert entry["type"] == "major"
    assert re.search("two renames, and a base of .* (bytes|KiB) is no larger than 256 MiB$", entry["reason"])
    assert warehouse.rows() == rows


def test_text_of_every_service_names_each_place(jobs: Jobs, warehouse: Warehouse) -> None:
    scan = jobs(
        "initiator", "--warehouse", warehouse.root, "--write-ids-file", warehouse.lists, "--exclude",
        "db.insert_only", *THRESHOLDS, text=True,
    )  # fmt: skip
    drained = jobs("major_compact", text=True)
    cleaned = jobs("cleaner", "--retention", "0s", text=True)
    shown = jobs("show_compactions", text=True)
    for ran in (scan, drained, cleaned):
        assert ran.status == 0
        for place in warehouse.places:
            assert place in ran.out
    assert shown.out.startswith("6 requests: 6 succeeded\n")
    assert shown.out.count("  succeeded ") == 6


def test_what_was_queued_is_compacted_with_the_write_ids_it_was_queued_with(jobs: Jobs, warehouse: Warehouse) -> None:
    """A worker never guesses anew: what was open when the request was made stays out."""
    place = warehouse["db.crud"]
    jobs.good("initiator", "--location", place, "--write-ids", "crud:4:3:3,4:",
              "--set", "hive.compactor.delta.num.threshold=1")  # fmt: skip
    (entry,) = jobs.good("major_compact").compactions
    assert entry["output_directories"] == ["base_0000002"]
    assert entry["write_ids"]["high_water_mark"] == 2


def test_trash_moves_aside_what_is_obsolete(jobs: Jobs, warehouse: Warehouse) -> None:
    place = warehouse["db.crud"]
    before = tree(place, times=False)
    rows = warehouse.rows()
    jobs.good("major_compact", "--location", place, "--all-committed")
    (planned,) = jobs.good("cleaner", "--retention", "0s", "--trash", "--dry-run").document["cleanings"]
    assert planned["reason"] == f"5 to move to {place}/_acidlib_trash, 0 wait"
    (entry,) = jobs.good("cleaner", "--retention", "0s", "--trash").document["cleanings"]
    assert visible(place) == ["base_0000004"]
    (moved,) = (place / "_acidlib_trash").iterdir()
    assert sorted(item["moved_to"] for item in entry["removed"]) == sorted(map(str, moved.iterdir()))
    assert (entry["bytes_removed"], entry["bytes_moved"]) == (0, sum(item["bytes"] for item in entry["removed"]))
    assert tree(moved, times=False) == before
    assert warehouse.rows() == rows


def litter(place: Path, name: str, age: float, *, marked: bool = True) -> Path:
    folder = place / name
    (folder / "_attempts").mkdir(parents=True)
    file = folder / "_attempts" / "base_0000004.bucket_00000.7"
    file.write_bytes(b"x" * 10)
    if marked:
        (folder / "_acidlib_staging").write_text("{}")
    for path in (*sorted(folder.rglob("*"), reverse=True), folder):
        os.utime(path, (time.time() - age,) * 2)
    return folder


def test_litter_of_dead_runs_goes_after_a_day(jobs: Jobs, warehouse: Warehouse) -> None:
    place = warehouse["db.crud"]
    jobs.good("major_compact", "--location", place, "--all-committed")
    old, young = litter(place, "_tmp_old", DAY + 60), litter(place, "_tmp_young", DAY - 600)
    foreign = litter(place, "_tmp_foreign", 10 * DAY, marked=False)
    planned = jobs.good("cleaner", "--dry-run", "--retention", "0s").document["cleanings"][0]
    done = jobs.good("cleaner", "--retention", "0s").document["cleanings"][0]
    assert not old.exists()
    assert young.with_name("_tmp_young.revoked").exists()
    assert foreign.exists()
    assert [item["path"] for item in planned["removed"]] == [item["path"] for item in done["removed"]]
    assert "_tmp_old" in [item["path"] for item in done["removed"]]


def test_litter_goes_where_no_request_waits_any_more(jobs: Jobs, warehouse: Warehouse) -> None:
    place = warehouse["db.crud"]
    jobs.good("major_compact", "--location", place, "--all-committed")
    jobs.good("cleaner", "--retention", "0s")
    old = litter(place, "_tmp_old", DAY + 60)
    planned = jobs.good("cleaner", "--dry-run").document["cleanings"]
    done = jobs.good("cleaner").document["cleanings"]
    assert not old.exists()
    assert [item["path"] for entry in done for item in entry["removed"]] == ["_tmp_old"]
    assert [item["path"] for entry in planned for item in entry["removed"]] == ["_tmp_old"]
    assert jobs.good("cleaner").document["cleanings"] == []


def test_a_location_that_was_dropped_is_cleaned(jobs: Jobs, warehouse: Warehouse) -> None:
    place = warehouse["db.crud"]
    jobs.good("major_compact", "--location", place, "--all-committed")
    shutil.rmtree(place)
    (planned,) = jobs.good("cleaner", "--dry-run").document["cleanings"]
    assert planned["state"] == "planned"
    (done,) = jobs.good("cleaner").document["cleanings"]
    assert done["state"] == "succeeded"
    assert "does not exist" in done["reason"]
    assert not place.exists()
    assert jobs.shown()[1]["state"] == "succeeded"


@pytest.mark.parametrize("named", ["table", "partition", "partitions", "one of them"])
def test_where_all_was_rolled_back_and_cleaned_there_is_nothing_to_do(jobs: Jobs, tmp_path: Path, named: str) -> None:
    root = tmp_path / "w" / "t"
    places = [root] if named == "table" else [root / "p=1", root / "p=2"]
    for place in places:
        fixture("hive4/crud_table", place)
        for delete_delta in place.glob("delete_delta_*"):
            shutil.rmtree(delete_delta)
    aborted = ("--write-ids", "default.t:9:9223372036854775807::1,2,3,4,5,6,7,8,9", "--table-kind", "full")
    asked = ("--location", places[0] if named == "partition" else root, *aborted)
    if named == "one of them":
        asked = (*asked, "--partition", "p=1")
    assert set(jobs.good("major_compact", *asked).states) == {"ready for cleaning"}
    jobs.good("cleaner", "--retention", "0s")
    assert visible(places[0]) == []
    for more in ((), ("--dry-run",)):
        ran = jobs.good("major_compact", *asked, *more)
        assert set(ran.states) == {"already compact"}
        assert all("there is nothing to merge" in entry["reason"] for entry in ran.compactions)
    totals = jobs.good("initiator", *asked).document["totals"]
    assert totals == {"looked_at": len(ran.states), "queued": 0, "refused": 0, "held_back": 0, "failed": 0}


def test_a_named_location_that_is_empty_and_not_known_is_an_error(jobs: Jobs, tmp_path: Path) -> None:
    """A mount may be missing."""
    (tmp_path / "t" / "p=1").mkdir(parents=True)
    no_table, empty = ("refused", "neither it nor a partition below it holds"), ("missing", "it is empty")
    for place, (kind, told) in ((tmp_path / "t", no_table), (tmp_path / "t" / "p=1", empty)):
        ran = jobs("major_compact", "--location", place, "--all-committed")
        assert (ran.status, ran.error["kind"]) == (1, kind)
        assert told in ran.err


def test_a_queued_location_that_was_dropped_is_refused(jobs: Jobs, warehouse: Warehouse) -> None:
    """Not failed: that would hold back a partition of this name which is made anew."""
    place = warehouse["db.crud"]
    initiate(jobs, warehouse, "--exclude", "db.b_part", "--exclude", "db.f_abort", "--exclude", "other.*")
    shutil.rmtree(place)
    (entry,) = jobs.good("major_compact").compactions
    assert entry["state"] == "refused"
    assert "does not exist any more" in entry["reason"]
    assert not place.exists()
    assert [row["state"] for row in jobs.shown().values()] == ["refused"]


def test_a_queued_location_below_a_missing_mount_fails(jobs: Jobs, warehouse: Warehouse) -> None:
    initiate(jobs, warehouse, "--exclude", "db.b_part", "--exclude", "db.f_abort", "--exclude", "other.*")
    warehouse["db.crud"].parent.rename(warehouse.root / "elsewhere")
    ran = jobs("major_compact")
    assert ran.status == 3
    assert ran.states == ["failed"]


def test_a_newer_publication_makes_an_older_request_wait(jobs: Jobs, warehouse: Warehouse) -> None:
    """Whoever listed the place before the newest result may still be reading what the older one made obsolete."""
    place = warehouse["db.crud"]
    rows = warehouse.rows()
    jobs.good("major_compact", "--location", place, "--write-ids", "db.crud:2:9223372036854775807::")
    jobs.good("major_compact", "--location", place, "--all-committed")
    assert visible(place)[:2] == ["base_0000002", "base_0000004"]
    kept = visible(place)
    cleaned = jobs.good("cleaner", "--retention", "1h").document["cleanings"]
    assert [entry["state"] for entry in cleaned] == ["ready for cleaning"] * 2
    assert visible(place) == kept
    cleaned = jobs.good("cleaner", "--retention", "0s").document["cleanings"]
    assert [entry["state"] for entry in cleaned] == ["succeeded"] * 2
    assert visible(place) == ["base_0000004"]
    assert warehouse.rows() == rows


def test_the_cleaner_leaves_what_somebody_works_on(jobs: Jobs, warehouse: Warehouse) -> None:
    place = warehouse["db.crud"]
    jobs.good("major_compact", "--location", place, "--all-committed")
    lay_claim(place)
    before = within(place)
    (entry,) = jobs.good("cleaner", "--retention", "0s").document["cleanings"]
    assert (entry["state"], entry["removed"]) == ("ready for cleaning", [])
    assert within(place) == before
    assert jobs.shown()[1]["state"] == "ready for cleaning"


def test_a_request_that_says_nothing_of_its_location_is_refused_and_does_not_come_back(jobs: Jobs) -> None:
    with jobs.queue() as queue:
        queue.enqueue(CompactionRequest(id=0, ref=TableRef("db", "t"), type=CompactionType.MAJOR), now_ms=1)
    ran = jobs("major_compact")
    assert ran.status == 0
    assert ran.states == ["refused"]
    assert jobs.shown()[1]["state"] == "refused"
    assert jobs.good("major_compact").compactions == []
