"""What a person sees who asks what is in a table, on tables that Hive wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from judges import merge

from integration.harness import Jobs, fixture, tree

ALL = ("--all-committed",)


def test_before_and_after_a_compaction(jobs: Jobs, tmp_path: Path) -> None:
    place = fixture("hive3/a_crud", tmp_path / "db.db" / "crud")
    before = tree(place)
    (shown,) = jobs.good("show_place", place, *ALL).document["places"]
    assert tree(place) == before
    assert (shown["database"], shown["table"], shown["hive_version"]) == ("db", "crud", 3)
    assert {part["reader"] for part in shown["parts"]} == {"read"}
    inserted = sum(part["rows"] for part in shown["parts"] if part["kind"] == "delta")
    deleted = sum(part["rows"] for part in shown["parts"] if part["kind"] == "delete delta")
    assert inserted - deleted == len(merge.read(place))
    jobs.good("major_compact", "--location", place, *ALL)
    (shown,) = jobs.good("show_place", "--location", place, *ALL).document["places"]
    (base,) = [part for part in shown["parts"] if part["reader"] == "read"]
    assert (base["kind"], base["rows"], base["last_write_id"]) == ("base", len(merge.read(place)), 4)
    replaced = [part for part in shown["parts"] if part["reader"] == "obsolete"]
    assert len(replaced) == 5
    assert {part["why"] for part in replaced} == {f"replaced by {base['path']}"}
    text = jobs("show_place", place, *ALL, text=True).out
    assert "a reader opens 1 file" in text
    assert "a cleaner may free" in text
    assert max(len(line) for line in text.splitlines() if str(place) not in line) <= 80


def test_partitions_open_and_rolled_back(jobs: Jobs, tmp_path: Path) -> None:
    fixture("hive3/b_part", tmp_path / "w" / "db.db" / "part")
    aborts = fixture("hive3/f_abort", tmp_path / "w" / "db.db" / "aborts")
    shown = jobs.good("show_place", tmp_path / "w" / "db.db" / "part", *ALL).document["places"]
    assert [place["partition"] for place in shown] == [f"dt=2024-01-0{day}" for day in (1, 2, 3)]
    ids = "db.aborts:7:4:4:2,3,6"
    (place,) = jobs.good("show_place", aborts, "--write-ids", ids, "--hive-version", "4").document["places"]
    readers = {(part["first_write_id"], part["reader"]) for part in place["parts"]}
    assert {(2, "aborted"), (4, "not read"), (5, "read")} <= readers
    assert (place["open_write_ids"], place["aborted_write_ids"], place["high_water_mark"]) == ([4], [2, 3, 6], 7)
    text = jobs("show_place", aborts, "--write-ids", ids, text=True).out
    assert "write ids up to 7; open: 4; rolled back: 2, 3, 6" in text


def test_what_is_damaged_is_named(jobs: Jobs, tmp_path: Path) -> None:
    place = fixture("hive3/a_crud", tmp_path / "db.db" / "crud")
    damaged = place / "delta_0000001_0000001_0000" / "bucket_00000"
    damaged.write_bytes(damaged.read_bytes()[:100])
    ran = jobs("show_place", place, *ALL)
    assert ran.status == 3
    (shown,) = ran.document["places"]
    assert ran.document["totals"] == {"places": 1, "damaged": 1}
    (part,) = [part for part in shown["parts"] if part["damage"]]
    assert (part["path"], part["rows"]) == (damaged.parent.name, None)
    assert str(damaged) in part["damage"]
    (place / "base_nonsense").mkdir()
    (shown,) = jobs("show_place", place, *ALL).document["places"]
    assert "base_nonsense" in shown["error"]


@pytest.mark.parametrize("name", ["h_mm_parquet", "h_mm_textfile"])
def test_insert_only_tables(jobs: Jobs, tmp_path: Path, name: str) -> None:
    place = fixture(f"hive3/{name}", tmp_path / "db.db" / "mm")
    (shown,) = jobs.good("show_place", place, *ALL, "--table-kind", "insert-only").document["places"]
    counted = [part["rows"] for part in shown["parts"]]
    assert all(rows is None if "text" in name else rows > 0 for rows in counted), counted


def test_a_place_is_named_once(jobs: Jobs, tmp_path: Path) -> None:
    ran = jobs("show_place", "/x", "--location", tmp_path, *ALL)
    assert ran.status == 2
    assert "/x names a place already" in ran.err
    ran = jobs("show_place", "db.t/ds=1")
    assert ran.status == 2
    assert "there is no metastore; give --metastore-uri" in ran.err
    ran = jobs("show_place", tmp_path / "absent", *ALL)
    assert ran.status == 1
    assert "absent" in ran.err
