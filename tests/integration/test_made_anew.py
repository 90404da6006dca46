"""A table that was dropped and made anew at the same place, while a request for the old one waited."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from judges import merge

from integration.harness import Jobs, at_time, fixture, tree, visible

DAY = 86_400
LOW = ("--set", "hive.compactor.delta.num.threshold=1")


def made_anew(name: str, place: Path) -> list[object]:
    """Written now, by files of the same names and lengths; its rows."""
    shutil.rmtree(place)
    fixture(name, place)
    now = time.time()
    for path in place.rglob("*"):
        os.utime(path, (now, now))
    return list(merge.read(place, generation=4 if name.startswith("hive4") else 3, strict=False))


@pytest.mark.parametrize("name", ["hive3/a_crud", "hive4/crud_table"])
def test_what_was_queued_for_the_old_table_is_refused(jobs: Jobs, tmp_path: Path, name: str) -> None:
    """In the old one write id 2 was aborted."""
    place = fixture(name, tmp_path / "db.db" / "t")
    jobs.good("initiator", "--location", place, "--write-ids", "t:4:9223372036854775807::2", *LOW)
    rows = made_anew(name, place)
    before = tree(place)
    for job in ("major_compact", "minor_compact"):
        for entry in jobs.good(job).compactions:
            assert entry["state"] == "refused"
            assert "re-created" in entry["reason"]
    assert {row["state"] for row in jobs.shown().values()} == {"refused"}
    assert [key for key, facts in before.items() if tree(place).get(key) != facts and facts[0] != "directory"] == []
    jobs.good("initiator", "--location", place, "--all-committed", *LOW)
    assert jobs.good("major_compact").states + jobs.good("minor_compact").states == ["ready for cleaning"]
    assert merge.read(place, generation=4 if name.startswith("hive4") else 3, strict=False) == rows


def test_what_is_named_is_done_for_the_new_table_though_a_request_for_the_old_one_waits(
    jobs: Jobs, tmp_path: Path
) -> None:
    """The waiting request is taken over, with all that is stated now in place of what it was made with."""
    place = fixture("hive3/a_crud", tmp_path / "db.db" / "t")
    jobs.good("initiator", "--location", place, "--write-ids", "t:4:9223372036854775807::2", *LOW)
    ((waiting,), rows) = jobs.shown().values(), made_anew("hive3/a_crud", place)
    ran = jobs.good(f"{waiting['type'].lower()}_compact", "--location", place, "--all-committed")
    assert (ran.states, ran.compactions[0]["id"]) == (["ready for cleaning"], waiting["id"])
    assert merge.read(place, strict=False) == rows


def test_nothing_of_it_is_cleaned_for_the_old_table(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the old list calls aborted is committed in the new table."""
    place = fixture("hive4/crud_table", tmp_path / "db.db" / "t")
    jobs.good("major_compact", "--location", place, "--write-ids", "null:4:9223372036854775807::3")
    rows = made_anew("hive4/crud_table", place)
    seen = visible(place)
    at_time(monkeypatch, 2 * DAY)
    (planned,) = jobs.good("cleaner", "--dry-run").document["cleanings"]
    (cleaned,) = jobs.good("cleaner").document["cleanings"]
    for entry in (planned, cleaned):
        assert entry["removed"] == []
        assert "re-created" in entry["reason"]
    assert visible(place) == seen
    assert merge.read(place, generation=4) == rows
    assert [row["state"] for row in jobs.shown().values()] == ["succeeded"]


def test_an_overwrite_of_the_new_table_is_not_taken_for_the_old_result(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the name of the old result, and has not committed."""
    place = fixture("hive3/a_crud", tmp_path / "db.db" / "t")
    jobs.good("major_compact", "--location", place, "--all-committed")
    rows = made_anew("hive3/a_crud", place)
    shutil.copytree(place / "delta_0000002_0000002_0000", place / "base_0000004")
    at_time(monkeypatch, 2 * DAY)
    jobs.good("cleaner")
    shutil.rmtree(place / "base_0000004")
    assert merge.read(place) == rows


def test_retention_counts_from_when_the_file_system_saw_it(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the host that compacted was two days behind."""
    place = fixture("hive3/a_crud", tmp_path / "t")
    with monkeypatch.context() as patch:
        at_time(patch, -2 * DAY)
        jobs.good("major_compact", "--location", place, "--all-committed")
    before = visible(place)
    (waits,) = jobs.good("cleaner").document["cleanings"]
    assert waits["state"] == "ready for cleaning"
    assert visible(place) == before
    at_time(monkeypatch, 2 * DAY)
    jobs.good("cleaner")
    assert visible(place) == ["base_0000004"]
