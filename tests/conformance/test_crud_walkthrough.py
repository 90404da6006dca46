"""Three inserts, an update, a delete, a major compaction: exactly the files and rows of Hive 3.1.3."""

from __future__ import annotations

import json
from pathlib import Path

from compaction import MAJOR, compact_directory
from judges import merge
from judges import orc_tail as o

from acidlib.model.generation import Generation
from conformance.hive_tables import hive_table

TABLE = hive_table("hive3/a_crud")
BUCKET = 536870912


def files_below(location: Path) -> list[str]:
    return sorted(path.relative_to(location).as_posix() for path in location.rglob("*") if path.is_file())


def test_the_statements_are_those_of_the_walk_through() -> None:
    statements = [line.split()[0].lower() for line in (TABLE.folder / "ddl.sql").read_text().splitlines() if line]
    assert [word for word in statements if word in ("update", "delete")] == ["update", "delete"]
    assert files_below(TABLE.before) == [
        "delete_delta_0000003_0000003_0000/_orc_acid_version",
        "delete_delta_0000003_0000003_0000/bucket_00000",
        "delete_delta_0000004_0000004_0000/_orc_acid_version",
        "delete_delta_0000004_0000004_0000/bucket_00000",
        "delta_0000001_0000001_0000/_orc_acid_version",
        "delta_0000001_0000001_0000/bucket_00000",
        "delta_0000002_0000002_0000/_orc_acid_version",
        "delta_0000002_0000002_0000/bucket_00000",
        "delta_0000003_0000003_0000/_orc_acid_version",
        "delta_0000003_0000003_0000/bucket_00000",
    ]


def test_a_major_compaction_gives_the_files_and_rows_of_hive(tmp_path: Path) -> None:
    ours = TABLE.copy(tmp_path / "ours")
    hives = TABLE.copy(tmp_path / "hives", "after_major")
    result = compact_directory(ours, MAJOR, "default.a_crud:4:9223372036854775807::", Generation.HIVE3)
    assert result.directories == ("base_0000004",)
    assert files_below(ours) == files_below(hives)
    base = Path("base_0000004")
    assert (ours / base / "_orc_acid_version").read_bytes() == b"2"
    marker = json.loads((ours / base / "_metadata_acid").read_text())
    assert marker == json.loads((hives / base / "_metadata_acid").read_text())
    assert marker == {"thisFileVersion": "0", "dataFormat": "compacted"}
    rows = merge.raw_rows(ours / base / "bucket_00000")
    assert rows == merge.raw_rows(hives / base / "bucket_00000")
    assert [row[:5] for row in rows] == [
        (0, 1, BUCKET, 0, 1),
        (0, 2, BUCKET, 0, 2),
        (0, 2, BUCKET, 1, 2),
        (0, 3, BUCKET, 0, 3),
    ]
    assert o.read_orc(ours / base / "bucket_00000").user == {
        "hive.acid.version": b"2",
        "hive.acid.stats": b"4,0,0",
        "hive.acid.key.index": b"3,536870912,0;",
    }


def test_the_row_ids_are_those_that_hive_shows(tmp_path: Path) -> None:
    location = TABLE.copy(tmp_path / "table")
    compact_directory(location, MAJOR, generation=Generation.HIVE3)
    lines = (TABLE.folder / "row_ids_after_major.tsv").read_text().splitlines()[1:]
    expected = sorted((*map(int, line.split("\t")[:3]), line.split("\t")[3]) for line in lines)
    [file] = (path.relative_to(location).as_posix() for path in location.glob("base_*/bucket_*"))
    assert [(*row[:3], file) for row in merge.read(location, strict=True)] == expected
