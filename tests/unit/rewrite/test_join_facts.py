"""Which Parquet files of an insert-only table become one: no more than one file may hold, and none that differ."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from located import at
from parquet_joining import footer_of

from acidlib.acid.names import BaseDir, DeltaDir, Generation
from acidlib.model.requests import CompactionType
from acidlib.model.units import DataFile, JoinWay, RewriteSettings
from acidlib.planning.inputs import CompactionInputs, InputDirectory, Publication, Role
from acidlib.planning.units import join_units
from acidlib.rewrite.join import join_facts
from acidlib.rows.files import InputFiles
from acidlib.stores.renaming.local import LocalDataFiles


def joined(table: Path, names: str) -> list[str]:
    """The names of the files that become one, for each of them, in order."""
    files = tuple(DataFile(path=name, directory="", length=(table / name).stat().st_size, bucket=0) for name in names)
    place = InputFiles(at(table), LocalDataFiles())
    facts = {file.path: join_facts(file, frozenset({JoinWay.ROW_GROUPS}), place) for file in files}
    inputs = CompactionInputs(
        kind=CompactionType.MAJOR,
        requested=CompactionType.MAJOR,
        reason="",
        directories=(
            InputDirectory(
                role=Role.DELTA, path="delta_1_1", name=DeltaDir(min_write_id=1, max_write_id=1), files=files
            ),
        ),
        outputs=(BaseDir(write_id=1),),
        publication=Publication.AT_ONCE,
        min_write_id=1,
        max_write_id=1,
        high_water_mark=1,
    )
    units = join_units(inputs, facts, location=at(table), reader=Generation.HIVE4, settings=RewriteSettings())
    return ["".join(file.path for file in unit.inputs) for unit in units]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Seven files of two row groups each, and one of another schema."""
    for name in "abcdefg":
        pq.write_table(pa.table({"x": [1, 2]}), tmp_path / name, row_group_size=1)
    pq.write_table(pa.table({"y": [1, 2]}), tmp_path / "Y")
    return tmp_path


def test_files_that_differ_are_joined_apart_and_in_order(table: Path) -> None:
    assert joined(table, "abYcdefg") == ["abcdefg", "Y"]


def test_a_file_holds_no_more_row_groups_than_readers_number(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acidlib.rewrite.join.MAX_ROW_GROUPS", 8)
    assert joined(table, "abYcdefg") == ["abcd", "Y", "efg"]
    monkeypatch.setattr("acidlib.rewrite.join.MAX_ROW_GROUPS", 1)  # one that has more itself is left as it is
    assert joined(table, "abY") == ["a", "b", "Y"]


def test_a_file_has_no_larger_footer_than_readers_hold(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acidlib.rewrite.join.MAX_JOINED_FOOTER_BYTES", 2 * footer_of(table / "a").size)
    assert joined(table, "abcdefg") == ["ab", "cd", "ef", "g"]
