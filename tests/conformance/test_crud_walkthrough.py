"""Three inserts, an update, a delete, a major compaction: exactly the files and rows of Hive 3.1.3.

On HDFS and in a bucket jobs go the same way: `test_the_walk_through` in tests/integration/test_hdfs_jobs.py.
"""

from __future__ import annotations

from pathlib import Path

from compaction import MAJOR, compact_directory
from crud_walk_through import BASE, TABLE, check_base, check_row_ids, files_below

from acidlib.acid.names import Generation


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
    assert result.directories == (BASE,)
    assert files_below(ours) == files_below(hives)
    check_base(ours, hives)


def test_the_row_ids_are_those_that_hive_shows(tmp_path: Path) -> None:
    location = TABLE.copy(tmp_path / "table")
    compact_directory(location, MAJOR, generation=Generation.HIVE3)
    check_row_ids(location)
