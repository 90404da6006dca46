"""A fork's tables: names with a transaction as Hive 4 gives them, read as Hive 3.1 reads, by its ORC 1.5 itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from compaction import MAJOR, bucket_files, compact_directory
from judges import merge
from judges.hive_reader import hive_reader

from acidlib.acid.names import Generation
from conformance.checks import statistics_problems
from conformance.hive_tables import HiveTable, hive_tables

TABLES = [table for table in hive_tables() if table.generation == 4 and table.visibility_txn is not None]
READ_BY_3 = Generation.HIVE3
# days of before 1582, which Hive 4 writes as no ORC 1.5 reads them; rows beyond an open write id, which stay in a delta
NOT_OF_A_FORK = {"hive4/all_types", "hive4/open_txn"}
READ = [table for table in TABLES if str(table) not in NOT_OF_A_FORK]


def compacted(table: HiveTable, location: Path) -> tuple[str, ...]:
    """The directories of a major with the names of Hive 4, for readers of Hive 3.1."""
    table.copy(location)
    made = compact_directory(location, MAJOR, table.write_ids, 4, table.visibility_txn, reader=READ_BY_3)
    return made.directories


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_names_are_hive_4s_and_statistics_those_that_orc_1_5_believes(table: HiveTable, tmp_path: Path) -> None:
    before = merge.read(table.copy(tmp_path / "before"), table.write_ids, generation=4)
    names = compacted(table, tmp_path / "table")
    assert names
    assert all(name.endswith(f"_v{table.visibility_txn}") for name in names)
    assert merge.read(tmp_path / "table", table.write_ids, generation=4, strict=True) == before
    for path in bucket_files(tmp_path / "table", names):
        assert statistics_problems(path, 3, copied=True) == []


@pytest.mark.live
@pytest.mark.pairs
@pytest.mark.parametrize("vectorized", [False, True], ids=["rows", "batches"])
@pytest.mark.parametrize("table", READ, ids=str)
def test_hive_3s_reader_reads_what_was_made_for_it(table: HiveTable, vectorized: bool, tmp_path: Path) -> None:
    """Its own reader takes no name with a transaction: the base is renamed, and nothing else is left."""
    columns = {name: str(kind) for name, kind in merge.table_type(table.copy(tmp_path / "before")).fields.items()}
    (name,) = compacted(table, tmp_path / "table")
    base = tmp_path / "alone" / name.partition("_v")[0]
    shutil.copytree(tmp_path / "table" / name, base)
    (base / "_metadata_acid").write_text(json.dumps({"thisFileVersion": "0", "dataFormat": "compacted"}))
    before = hive_reader(4).rows(tmp_path / "before", columns, write_ids=table.write_ids, vectorized=vectorized)
    after = hive_reader(3).rows(base.parent, columns, write_ids=table.write_ids, vectorized=vectorized)
    assert sorted(after, key=repr) == sorted(before, key=repr)
