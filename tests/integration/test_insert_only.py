"""Insert-only tables without a metastore: compacted, cleaned, and read by readers of their formats."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyorc
import pytest
from judges import bloom
from judges import orc_tail as o
from judges.fixtures import Fixture, fixtures
from judges.plain_rows import insert_only_files, insert_only_rows
from pyorc import CompressionKind

from integration.harness import Jobs, fixture, tree, visible

TABLES = fixtures(insert_only=True)
NOW = ("--retention", "0s")


def places_of(location: Path) -> list[Path]:
    """The table, or its partitions."""
    return sorted(location.glob("*=*")) or [location]


@pytest.mark.pairs
@pytest.mark.parametrize("generation", ["own", "3"])
@pytest.mark.parametrize("kind", ["major", "minor"])
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_tables_that_hive_wrote(jobs: Jobs, tmp_path: Path, table: Fixture, kind: str, generation: str) -> None:
    location = fixture(table.name, tmp_path / table.folder.name)
    said = ("--write-ids", table.write_ids) if table.write_ids else ("--all-committed",)
    names = table.generation if generation == "own" else 3
    asked = ("--location", location, "--table-kind", "insert-only", *said, "--hive-version", str(names))
    before = [insert_only_rows(place, table.write_ids, generation=names) for place in places_of(location)]
    assert sum(sum(rows.values()) for rows in before) == sum(table.hive_rows().values())
    ran = jobs.good(f"{kind}_compact", *asked)
    assert set(ran.states) == {"ready for cleaning"}
    results = [Path(entry["location"]) / name for entry in ran.compactions for name in entry["output_directories"]]
    joined = "textfile" not in table.name
    assert all(len(list(path.glob("[!_]*"))) == 1 for path in results if joined)
    after = [insert_only_rows(place, table.write_ids, generation=names) for place in places_of(location)]
    assert after == before
    jobs.good("cleaner", *asked[:2], *NOW)
    for entry in ran.compactions:
        if entry["output_directories"]:  # else one delta alone, over a base
            left = set(visible(Path(entry["location"])))
            assert set(entry["output_directories"]) == {name for name in left if kind == "major" or "base" not in name}
    after = [insert_only_rows(place, table.write_ids, generation=names) for place in places_of(location)]
    assert after == before


@pytest.mark.parametrize("table", [table for table in TABLES if table.layers], ids=lambda table: table.name)
def test_hives_own_results_have_the_same_rows(table: Fixture, tmp_path: Path) -> None:
    for layer in table.layers:
        laid = table.lay(tmp_path / layer, layer)
        plain = table.lay(tmp_path / f"{layer}-before")
        for place, other in zip(places_of(laid), places_of(plain), strict=True):
            rows = insert_only_rows(other, table.write_ids, generation=table.generation)
            assert insert_only_rows(place, table.write_ids, generation=table.generation) == rows


def test_a_dry_run_tells_how_files_are_joined_and_changes_nothing(jobs: Jobs, tmp_path: Path) -> None:
    location = fixture("hive3/h_mm_orc", tmp_path / "t")
    before = tree(location)
    asked = ("--location", location, "--table-kind", "insert-only", "--all-committed")
    (entry,) = jobs.good("major_compact", *asked, "--dry-run").compactions
    assert entry["state"] == "planned"
    (file,) = entry["files"]
    assert (file["file_name"], file["rows_out"]) == ("000000_0", 6)
    assert jobs("major_compact", *asked, "--dry-run", text=True).out.count("000000_0") > 1
    assert tree(location) == before


def orc(path: Path, rows: list, schema: str = "struct<id:int,v:string>", **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file, pyorc.Writer(file, schema, **options) as writer:
        writer.writerows(rows)
    return path


def compact(jobs: Jobs, location: Path, *more: str) -> dict:
    before = insert_only_rows(location)
    asked = ("--location", location, "--table-kind", "insert-only", "--all-committed", *more)
    (entry,) = jobs.good("major_compact", *asked).compactions
    assert entry["state"] == "ready for cleaning", entry["reason"]
    assert insert_only_rows(location) == before
    (result,) = entry["output_directories"]
    files = insert_only_files(location)
    assert {path.parent.name for path in files} <= {result}
    assert sorted(path.name for path in files) == sorted(file["file_name"] for file in entry["files"])
    return {file["file_name"]: file for file in entry["files"]}


def test_only_files_of_the_same_columns_become_one(jobs: Jobs, tmp_path: Path) -> None:
    """Readers of such files go by the names of columns."""
    place = tmp_path / "t"
    orc(place / "delta_0000001_0000001_0000" / "000000_0", [(1, "a"), (2, None)])
    orc(place / "delta_0000002_0000002_0000" / "000000_0", [(3, "c", 1)], "struct<id:int,v:string,w:int>")
    orc(place / "delta_0000003_0000003_0000" / "000000_0", [(4, "d")])
    orc(place / "delta_0000004_0000004_0000" / "000000_0", [(5, "e")], "struct<id:int,renamed:string>")
    files = compact(jobs, place)
    rows = {name: file["rows_out"] for name, file in files.items()}
    assert rows == {"000000_0": 3, "000000_0_copy_1": 1, "000000_0_copy_2": 1}


def test_bucket_numbers_stay(jobs: Jobs, tmp_path: Path) -> None:
    place = tmp_path / "t"
    for write_id in (1, 2, 3):
        for bucket in (0, 2):
            directory = place / f"delta_{write_id:07d}_{write_id:07d}_0000"
            orc(directory / f"{bucket:06d}_0", [(write_id, f"b{bucket}")])
    files = compact(jobs, place)
    assert sorted(files) == ["000000_0", "000002_0"]
    for path in insert_only_files(place):
        with path.open("rb") as file:
            assert {row[1] for row in pyorc.Reader(file)} == {f"b{int(path.name[:6])}"}


def test_large_stripes_are_copied_and_small_ones_joined(jobs: Jobs, tmp_path: Path) -> None:
    place = tmp_path / "t"
    rows = [(i, f"{i * 7919 % 1_000_003:x}" * 3) for i in range(60_000)]
    kept = {"compression": CompressionKind.ZLIB, "row_index_stride": 10_000}
    orc(place / "base_0000001" / "000000_0", rows, **kept)
    for number in range(2, 12):
        orc(place / f"delta_{number:07d}_{number:07d}_0000" / "000000_0", rows[number * 10 : number * 10 + 7], **kept)
    files = compact(jobs, place)
    (file,) = files.values()
    actions = [(action["action"], action["stripes"]) for action in file["actions"]]
    assert actions[0] == ("copy", 1)
    assert sum(stripes for action, stripes in actions if action == "rewrite") == 10


def test_all_stripes_have_the_bloom_filters_of_one(jobs: Jobs, tmp_path: Path) -> None:
    rows = [(n, f"{n * 7919:x}") for n in range(3000)]
    for number, bloom_columns in ((1, ()), (2, (1, 2)), (3, (2,))):
        place = tmp_path / "t" / f"delta_{number:07d}_{number:07d}_0000" / "000000_0"
        orc(place, rows, bloom_filter_columns=bloom_columns)
    compact(jobs, tmp_path / "t")
    [path] = (tmp_path / "t" / "base_0000003").glob("0*")
    found = o.read_orc(path)
    assert [bloom.columns(stripe) for stripe in found.stripes] == [[1, 2]] * len(found.stripes)
    for column, values in ((1, [row[0] for row in rows]), (2, [f"s:{row[1]}" for row in rows])):
        for stripe in found.stripes:
            [(functions, bits)] = bloom.filters(found, stripe, column)
            kind = found.types[column].kind
            hashes = [h for value in values for h in bloom.hashes(value, kind)]
            assert bits == bloom.filter_bits(hashes, 8 * len(bits), functions)


def test_originals_and_the_branches_of_a_union_are_gathered(jobs: Jobs, tmp_path: Path) -> None:
    place = tmp_path / "t"
    orc(place / "000000_0", [(1, "a")])
    orc(place / "000000_0_copy_1", [(2, "b")])
    orc(place / "HIVE_UNION_SUBDIR_1" / "000000_0", [(3, "c")])
    orc(place / "delta_0000001_0000001_0000" / "HIVE_UNION_SUBDIR_1" / "000000_0", [(4, "d")])
    orc(place / "delta_0000001_0000001_0000" / "HIVE_UNION_SUBDIR_2" / "000000_0", [(5, "e")])
    files = compact(jobs, place)
    assert {name: file["rows_out"] for name, file in files.items()} == {"000000_0": 5}


def test_directories_of_list_bucketing_are_refused(jobs: Jobs, tmp_path: Path) -> None:
    place = tmp_path / "t"
    orc(place / "delta_0000001_0000001_0000" / "v=a" / "000000_0", [(4, "a")])
    orc(place / "delta_0000002_0000002_0000" / "000000_0", [(4, "a")])
    asked = ("--location", place, "--table-kind", "insert-only", "--all-committed")
    (entry,) = jobs("major_compact", *asked).compactions
    assert (entry["state"], "list bucketing" in entry["reason"]) == ("refused", True)


def test_other_formats_are_gathered_as_they_are(jobs: Jobs, tmp_path: Path) -> None:
    """Nothing tells without a metastore that a file is text without a header."""
    place = tmp_path / "t"
    contents = {1: b"1\x01a\n", 2: b"2\x01b", 3: b"Obj\x01and so on"}
    for number, data in contents.items():
        directory = place / f"delta_{number:07d}_{number:07d}_0000"
        directory.mkdir(parents=True)
        (directory / ("data.avro" if number == 3 else "000000_0")).write_bytes(data)
    files = compact(jobs, place)
    assert sorted(files) == ["000000_0", "000000_0_copy_1", "000000_0_copy_2.avro"]
    assert sorted(path.read_bytes() for path in insert_only_files(place)) == sorted(contents.values())
    assert {file["rows_out"] for file in files.values()} == {None}


def test_a_damaged_file_is_an_error(jobs: Jobs, tmp_path: Path) -> None:
    place = tmp_path / "t"
    orc(place / "delta_0000001_0000001_0000" / "000000_0", [(1, "a")])
    cut = orc(place / "delta_0000002_0000002_0000" / "000000_0", [(2, "b")])
    cut.write_bytes(cut.read_bytes()[:-10])
    before = tree(place, times=False)
    asked = ("--location", place, "--table-kind", "insert-only", "--all-committed")
    ran = jobs("major_compact", *asked)
    assert (ran.status, ran.states) == (1, ["failed"])
    assert "delta_0000002_0000002_0000/000000_0" in ran.compactions[0]["reason"]
    assert tree(place, times=False) == before


def test_full_acid_tables_are_not_taken_for_insert_only_ones(jobs: Jobs, tmp_path: Path) -> None:
    place = fixture("hive3/a_crud", tmp_path / "t")
    for path in place.glob("delete_*"):
        path.rename(tmp_path / path.name)
    asked = ("--location", place, "--table-kind", "insert-only", "--all-committed")
    (entry,) = jobs("major_compact", *asked).compactions
    assert (entry["state"], "ACID columns" in entry["reason"]) == ("refused", True)
    whole = fixture("hive3/a_crud", tmp_path / "whole")
    (entry,) = jobs("major_compact", "--location", whole, *asked[2:]).compactions
    assert (entry["state"], "never has a delete delta" in entry["reason"]) == ("failed", True)


def test_what_was_rolled_back_is_left_out(jobs: Jobs, tmp_path: Path) -> None:
    place = tmp_path / "t"
    for number in (1, 2, 3):
        orc(place / f"delta_{number:07d}_{number:07d}_0000" / "000000_0", [(number, "x")])
    (place / "delta_0000002_0000002_0000" / "000000_0").write_bytes(b"its writer died")
    said = ("--write-ids", "default.t:3:9223372036854775807::2")
    asked = ("--location", place, "--table-kind", "insert-only", *said)
    (entry,) = jobs.good("major_compact", *asked).compactions
    assert entry["rows_out"] == 2
    assert sum(insert_only_rows(place, said[1]).values()) == 2


def test_parquet_of_different_writers(jobs: Jobs, tmp_path: Path) -> None:
    place = tmp_path / "t"
    for number in (1, 2, 3):
        directory = place / f"delta_{number:07d}_{number:07d}_0000"
        directory.mkdir(parents=True)
        values = pa.table({"id": pa.array([number], pa.int32())}).replace_schema_metadata({"k": str(number // 2)})
        pq.write_table(values, directory / "000000_0")
    files = compact(jobs, place)
    assert len(files) >= 2


def test_text_keeps_its_lines_apart(tmp_path: Path) -> None:
    from acidlib.model.units import DataFile
    from acidlib.rewrite.join import join_text
    from acidlib.rows.files import InputFiles
    from acidlib.stores.renaming.local import LocalDataFiles

    parts = [b"a\nb\n", b"c", b"", b"\n", b"d\r", b"\ne"]
    for suffix, pack in (("", bytes), (".gz", gzip.compress)):
        files = []
        for number, part in enumerate(parts):
            path = tmp_path / f"{number}{suffix}"
            path.write_bytes(pack(part))
            files.append(DataFile(path=path.name, directory="", length=path.stat().st_size, bucket=0))
        sink = LocalDataFiles().create(str(tmp_path / f"all{suffix}"))
        join_text(tuple(files), InputFiles(str(tmp_path), LocalDataFiles()), sink)
        sink.close()
        data = (tmp_path / f"all{suffix}").read_bytes()
        text = gzip.decompress(data) if suffix else data
        assert text == b"a\nb\nc\n\nd\r\n\ne\n"
