"""A compaction is undone: readers read what it was made of, and nobody is confused by it later."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from judges import merge, tables

from acidlib.model.requests import State
from acidlib.points import Point
from integration.children import stopped_at
from integration.harness import Jobs, Ran, at_time, fixture, names, visible, within

ALL = ("--all-committed",)
PAIR = ("--minor-as-major-bytes", "0")
NOW = ("--retention", "0s")
DAY = 86_400
INSERT_ONLY = ("--table-kind", "insert-only")
RUNS = {
    "major": ("hive3/a_crud", "major_compact", ALL),
    "minor of a pair": ("hive3/a_crud", "minor_compact", (*ALL, *PAIR)),
    "major of original files": ("hive3/g_orig", "major_compact", ALL),
    "major over what was rolled back": ("hive3/f_abort", "major_compact", ("--write-ids", "db.t:7:4:4:2,3,6")),
    "minor of an insert-only table": ("hive3/h_mm_orc", "minor_compact", (*ALL, *INSERT_ONLY)),
    "major by the names of Hive 4": ("hive4/crud_table", "major_compact", ALL),
}


def undo(jobs: Jobs, *words: str, text: bool = False) -> Ran:
    return jobs("undo", "1", "--nobody-reads", *words, text=text)


def undone(ran: Ran) -> dict[str, Any]:
    assert ran.begun, ran
    return ran.document["undo"]


def refused(jobs: Jobs, place: Path) -> str:
    """Why it is refused, as a dry run says too; nothing has changed."""
    before, planned, ran = within(place), undone(jobs("undo", "1", "--dry-run")), undo(jobs)
    assert (ran.status, undone(ran)) == (1, planned)
    assert planned["state"] == "refused"
    assert within(place) == before
    return planned["reason"]


def read(place: Path) -> list[Any]:
    return list(merge.read(place, strict=False))


@pytest.fixture
def crud(jobs: Jobs, tmp_path: Path) -> Path:
    """A table that was compacted."""
    place = fixture("hive3/a_crud", tmp_path / "db.db" / "t")
    jobs.good("major_compact", "--location", place, *ALL)
    return place


# --- what is there afterwards -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", RUNS)
def test_readers_read_again_what_was_there_before(jobs: Jobs, tmp_path: Path, run: str) -> None:
    name, job, options = RUNS[run]
    place = fixture(name, tmp_path / "db.db" / "t")
    before, seen = within(place), visible(place)
    (compacted,) = jobs.good(job, "--location", place, *options).compactions
    result = compacted["output_directories"]
    assert set(visible(place)) == {*result, *seen}
    planned = undone(jobs("undo", "1", "--dry-run"))
    assert planned["state"] == "planned"
    assert (sorted(planned["result"]), planned["inputs"]) == (sorted(result), sorted(filter(None, planned["inputs"])))
    assert visible(place) == sorted([*result, *seen])
    done = undone(undo(jobs))
    assert {**planned, "state": "undone", "reason": done["reason"]} == done
    aside = done["moved_to"]
    assert {name: facts for name, facts in within(place).items() if name.split("/")[0] != aside} == before
    assert set(result) <= set(names(place / aside))
    again = undo(jobs)
    assert (again.status, undone(again)["state"]) == (0, "already undone")
    (row,) = jobs.shown().values()
    assert (row["state"], row["error_message"]) == ("undone", done["reason"])
    assert done["reason"].startswith("undone by ")


@pytest.mark.parametrize("kind", ["major", "minor"])
def test_rows_that_were_deleted_since_stay_deleted(jobs: Jobs, tmp_path: Path, kind: str) -> None:
    """Also those of original files, whose ids readers count: with and without the result they are the same."""
    place = fixture("hive3/g_orig", tmp_path / "db.db" / "t")
    jobs.good(f"{kind}_compact", "--location", place, *ALL, *PAIR)
    keys = [row[:3] for row in read(place)]
    ids = {key[0] for key in keys}
    assert 0 in ids
    some = [next(key for key in keys if key[0] == write_id) for write_id in sorted(ids)]
    with_result = read(place)
    gone = tables.delta_name(10000004, 10000004, delete=True)
    tables.write_dir(place, gone, "struct<id:int,value:string>", tables.deletes(10000004, some))
    rows = read(place)
    assert len(rows) == len(with_result) - len(some)
    assert undone(undo(jobs))["state"] == "undone"
    assert read(place) == rows
    again = jobs.good("major_compact", "--location", place, *ALL)
    assert again.states == ["ready for cleaning"]
    assert read(place) == rows
    jobs.good("cleaner", *NOW)
    assert read(place) == rows
    assert visible(place) == again.compactions[0]["output_directories"]


def test_what_comes_later_is_as_if_it_had_never_been(
    jobs: Jobs, crud: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is cleaned, the initiator may queue it, the result has the same name, the old one goes after a day."""
    rows = read(crud)
    aside = undone(undo(jobs))["moved_to"]
    before = visible(crud)
    assert jobs.good("cleaner", *NOW).document["cleanings"] == []
    assert jobs.good("cleaner", "--orphans", "--location", crud).document["cleanings"] == []
    assert visible(crud) == before
    words = ("--location", crud, *ALL, "--set", "hive.compactor.delta.num.threshold=1")
    (decided,) = jobs.good("initiator", *words).document["decisions"]
    assert decided["queued"] == 2
    (compacted,) = jobs.good(f"{decided['type']}_compact").compactions
    assert compacted["state"] == "ready for cleaning"
    assert undone(undo(jobs))["state"] == "already undone"
    assert set(compacted["output_directories"]) <= set(visible(crud))
    at_time(monkeypatch, DAY / 2)
    jobs.good("cleaner", *NOW)
    assert aside in names(crud)
    assert read(crud) == rows
    at_time(monkeypatch, 4 * DAY)
    (listed,) = jobs.good("cleaner", "--orphans", "--location", crud).document["cleanings"]
    assert [item["path"] for item in listed["removed"]] == [aside]
    (cleaned,) = jobs.good("cleaner", *NOW).document["cleanings"]
    assert [item["reason"].partition(",")[0] for item in cleaned["removed"]] == [
        "the result of a compaction that was undone"
    ]
    assert aside not in names(crud)
    assert read(crud) == rows
    assert [row["state"] for row in jobs.shown().values()] == ["succeeded", "undone"]


# --- when it is refused -----------------------------------------------------------------------------------------------


def test_not_once_the_inputs_were_cleaned_or_have_changed(jobs: Jobs, crud: Path) -> None:
    first = crud / "delta_0000001_0000001_0000"
    os.utime(first / "bucket_00000", (1, 1))
    assert "not all there as they were read" in refused(jobs, crud)
    shutil.rmtree(first)
    assert "not all there as they were read" in refused(jobs, crud)
    jobs.good("cleaner", *NOW)
    assert "nothing of what it was made of is there any more" in refused(jobs, crud)


def test_not_once_something_was_made_of_the_result(jobs: Jobs, crud: Path) -> None:
    events = tables.inserts(5, [(9, "nine")])
    tables.write_dir(crud, tables.delta_name(5, 5), "struct<a:int,b:string>", events)
    assert undone(jobs("undo", "1", "--dry-run"))["state"] == "planned"
    (base,) = crud.glob("base_*")
    shutil.copytree(base, crud / "base_0000005")
    assert "base_0000005 stands for rows of it" in refused(jobs, crud)


def test_not_another_result_of_the_same_name(jobs: Jobs, crud: Path) -> None:
    (version,) = crud.glob("base_*/_orc_acid_version")
    os.utime(version, (1, 1))
    assert "its result is not there any more" in refused(jobs, crud)


def test_not_what_published_nothing_or_is_not_known(jobs: Jobs, crud: Path) -> None:
    other = f"{jobs.queue_url}2"
    assert jobs("major_compact", "--location", crud, *ALL, queue_url=other).states == ["ready for cleaning"]
    only_cleans = undone(jobs("undo", "1", "--nobody-reads", queue_url=other))
    assert (only_cleans["state"], only_cleans["reason"][-18:]) == ("refused", " published nothing")
    for words in ((), ("--nobody-reads",), ("--dry-run",)):
        ran = jobs("undo", "9999", *words)
        assert (ran.status, ran.error["kind"]) == (1, "missing")
        assert "there is no such request in sqlite:" in ran.error["message"]
    assert undone(jobs("undo", "1", queue_url=other))["state"] == "refused", "whoever reads"
    asked = jobs("undo", "1")
    assert (asked.status, "give --nobody-reads" in asked.error["message"]) == (2, True)
    assert jobs("undo", "1", "--nobody-reads", "--metastore-uri", "thrift://nowhere:1").status == 2


# --- whatever happens in between --------------------------------------------------------------------------------------


def test_a_request_that_failed_after_its_result_was_published(jobs: Jobs, crud: Path) -> None:
    with jobs.queue() as queue:
        queue.end(1, State.FAILED, 1, reason="its rows are not those of its inputs")
    done = undone(undo(jobs))
    assert done["state"] == "undone"
    (row,) = jobs.shown().values()
    assert (row["state"], row["error_message"]) == ("undone", done["reason"])
    assert done["reason"].endswith("before that: its rows are not those of its inputs")


def test_beside_another_run(jobs: Jobs, crud: Path, tmp_path: Path) -> None:
    tables.write_dir(crud, tables.delta_name(5, 5), "struct<a:int,b:string>", tables.inserts(5, [(9, "nine")]))
    other = f"{jobs.queue_url}2"
    run = ("major_compact", "--location", crud, *ALL)
    with stopped_at(Point.CLAIMED, lambda: jobs(*run, queue_url=other), tmp_path / "answer"):
        ran = undo(jobs)
        assert (ran.status, undone(ran)["state"]) == (1, "conflict")
    text = undo(jobs, "--dry-run", text=True).out
    assert "would move" in text
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize("point", [Point.UNDO_RECORDED, Point.UNDO_MOVED, f"{Point.UNDO_MOVED}:2"])
def test_what_wakes_after_others_have_been_there(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    place = fixture("hive3/a_crud", tmp_path / "db.db" / "t")
    rows = read(place)
    jobs.good("minor_compact", "--location", place, *ALL, *PAIR)
    with stopped_at(point, lambda: undo(jobs), tmp_path / "answer") as zombie:
        at_time(monkeypatch, 3600)
        other = f"{jobs.queue_url}2"
        assert jobs("major_compact", "--location", place, *ALL, queue_url=other).states == ["ready for cleaning"]
        left = visible(place)
        zombie.wake()
        ran = zombie.ran()
    assert (ran.status, undone(ran)["state"]) == (1, "conflict")
    assert visible(place) == left
    assert read(place) == rows
