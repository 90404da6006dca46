"""How often the tail of a file is read: once by the driver, and once by each task that needs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from acid_inputs import COLUMNS, CountedFiles, opened_by
from compaction import MAJOR, MINOR, prepared, units_of
from judges import tables

from acidlib.model.requests import CompactionType
from acidlib.planning.units import delete_files
from acidlib.rewrite.bucket import run_unit
from acidlib.rows.deletes import event_buckets
from acidlib.rows.files import InputFiles

BUCKET = tables.bucket_property(0, 0)
ROWS = [tables.delta_name(number, number) for number in range(1, 8)]
DELETES = [tables.delta_name(number, number, delete=True) for number in (8, 9)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """One bucket of nine files: seven of rows, two of deletes."""
    for number, name in enumerate(ROWS, start=1):
        rows = [(row, f"row {row}") for row in range(10)]
        tables.write_dir(tmp_path, name, COLUMNS, tables.inserts(number, rows))
    for number, name in enumerate(DELETES, start=8):
        tables.write_dir(tmp_path, name, COLUMNS, tables.deletes(number, [(1, BUCKET, number)]))
    return tmp_path


def once(*names: str) -> dict[str, int]:
    return dict.fromkeys((f"{name}/bucket_00000" for name in names), 1)


def test_a_major_compaction_reads_thirteen_tails_of_nine_files(table: Path) -> None:
    driver = CountedFiles()
    found = prepared(table, MAJOR, stores=opened_by(driver))
    assert driver.tails_below(table) == once(ROWS[0], ROWS[-1])  # what proves it full ACID, and what tells the columns
    deletes = delete_files(found.inputs.directories)
    for file in deletes:
        looking = CountedFiles()
        assert event_buckets(file, InputFiles(str(table), looking)) == {0}
        assert looking.tails_below(table) == once(file.directory)
    assert len(deletes) == 2
    [unit] = units_of(found)
    made = table / "made"
    rewriting = CountedFiles()
    run_unit(unit, rewriting, str(made))
    assert rewriting.tails_below(table) == once(*ROWS, *DELETES) | {"made": 1}  # what was made is read back
    assert rewriting.opens == rewriting.tails
    assert rewriting.opened == []


def test_one_file_is_read_once_by_the_driver(table: Path) -> None:
    for name in ROWS[1:]:
        (table / name / "bucket_00000").unlink()
    driver = CountedFiles()
    prepared(table, MAJOR, stores=opened_by(driver))
    assert driver.tails_below(table) == once(ROWS[0])


def test_stated_columns_are_not_looked_for(table: Path) -> None:
    driver = CountedFiles()
    found = prepared(table, MAJOR, stores=opened_by(driver), row_type=COLUMNS)
    assert driver.tails_below(table) == once(ROWS[0])
    [unit] = units_of(found)
    rewriting = CountedFiles()
    run_unit(unit, rewriting, None)
    assert rewriting.tails_below(table) == once(*ROWS, *DELETES)


@pytest.mark.parametrize("kind", [MAJOR, MINOR])
def test_the_columns_may_be_told_by_a_file_that_is_no_input_of_the_unit(table: Path, kind: CompactionType) -> None:
    later = tables.delta_name(10, 10)
    tables.write_dir(table, later, COLUMNS, tables.inserts(10, [(1, "a")], writer=1))
    units = [unit for unit in units_of(prepared(table, kind)) if unit.bucket == 0]
    assert [unit.is_delete for unit in units] == ([False] if kind is MAJOR else [False, True])
    for unit in units:
        files = CountedFiles()
        run_unit(unit, files, str(table / f"made {unit.is_delete}"))
        inputs = DELETES if unit.is_delete else ROWS + DELETES * unit.collapse
        schema = {f"{later}/bucket_00001": 1}
        assert files.tails_below(table) == once(*inputs) | schema | {f"made {unit.is_delete}": 1}
