"""A part of a shared bucket opens what it rewrites and the deletes that may touch it, and nothing else."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from acid_inputs import COLUMNS, STRIPES, CountedFiles, rows, without_stride
from compaction import MAJOR, plan
from judges import tables

from acidlib.errors import CorruptError
from acidlib.model.units import RewriteSettings, Unit
from acidlib.rewrite.bucket import BucketPlan, PartResult, join_parts, plan_bucket, run_part, run_unit

BUCKET = tables.bucket_property(0, 0)
ROWS = [tables.delta_name(number, number) for number in range(1, 8)]
FIRST, SECOND, FAR = (tables.delta_name(number, number, delete=True) for number in (8, 9, 10))
"""Delete deltas: of a row in the second stripe of the second delta, of rows of the fifth, of what is not there."""
COPY = RewriteSettings(copy_bytes=0)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """One bucket: seven deltas of three stripes of ten rows each, and three delete deltas."""
    location = tmp_path / "t"
    for number, name in enumerate(ROWS, start=1):
        tables.write_dir(location, name, COLUMNS, tables.inserts(number, rows(30)), STRIPES)
    gone = {FIRST: [(2, 15)], SECOND: [(5, 3), (5, 4)], FAR: [(6, 1000)]}
    for number, (name, keys) in enumerate(gone.items(), start=8):
        found = tables.deletes(number, [(write_id, BUCKET, row) for write_id, row in keys])
        tables.write_dir(location, name, COLUMNS, found, STRIPES)
    return location


def planned(table: Path) -> tuple[Unit, BucketPlan, list[int]]:
    """A unit, its plan, and the numbers of the actions that rewrite stripes."""
    _, [unit] = plan(table, MAJOR, settings=COPY)
    found = plan_bucket(unit, CountedFiles())
    return unit, found, [number for number, action in found.actions.items() if not action.copy]


def ran(found: BucketPlan, number: int, path: Path) -> tuple[PartResult, CountedFiles]:
    files = CountedFiles()
    return run_part(pickle.loads(pickle.dumps(found.part([number]))), files, str(path)), files


def opened(files: CountedFiles, table: Path) -> dict[str, int]:
    """How often each file of the table was opened, by its directory."""
    return {Path(path).parent.name: count for path, count in files.opens.items() if Path(path).is_relative_to(table)}


def test_a_part_opens_the_files_of_its_stripes_and_the_deletes_near_them(table: Path, tmp_path: Path) -> None:
    _, found, (one, other) = planned(table)
    for number, directories in ((one, {ROWS[1], FIRST}), (other, {ROWS[4], SECOND})):
        _, files = ran(found, number, tmp_path / f"part{number}")
        assert opened(files, table) == dict.fromkeys(directories, 1)
        assert files.tails == files.opens
        assert files.opened == []


def test_joining_opens_the_files_of_copied_stripes_only(table: Path, tmp_path: Path) -> None:
    path = table / ROWS[1] / "bucket_00000"
    path.write_bytes(
        tables.acid_bytes(COLUMNS, tables.inserts(2, rows(30)), tables.Layout(compression="none", stride=5))
    )
    _, found, numbers = planned(table)
    parts = tuple(ran(found, number, tmp_path / f"part{number}")[0] for number in numbers)
    files = CountedFiles()
    join_parts(found, parts, files, str(tmp_path / "joined"))
    assert opened(files, table) == dict.fromkeys([name for name in ROWS if name != ROWS[1]], 1)


@pytest.mark.usefixtures("steady_deflate")
def test_parts_make_the_file_that_one_task_makes(table: Path, tmp_path: Path) -> None:
    unit, found, numbers = planned(table)
    parts = tuple(ran(found, number, tmp_path / f"part{number}")[0] for number in numbers)
    whole = run_unit(unit, CountedFiles(), str(tmp_path / "whole"))
    joined = join_parts(found, parts, CountedFiles(), str(tmp_path / "joined"))
    assert (tmp_path / "joined").read_bytes() == (tmp_path / "whole").read_bytes()
    assert (joined.rows_in, joined.rows_deleted, joined.rows_out) == (210, 3, 207)
    assert (whole.rows_in, whole.rows_deleted, whole.rows_out) == (210, 3, 207)


def test_deletes_whose_statistics_tell_nothing_are_read_by_every_part(table: Path, tmp_path: Path) -> None:
    path = table / SECOND / "bucket_00000"
    path.write_bytes(without_stride(path.read_bytes()))
    _, found, (one, other) = planned(table)
    for number, directories in ((one, {ROWS[1], FIRST, SECOND}), (other, {ROWS[4], SECOND})):
        _, files = ran(found, number, tmp_path / f"part{number}")
        assert opened(files, table) == dict.fromkeys(directories, 1)


def test_a_part_that_misses_a_delete_is_noticed(table: Path, tmp_path: Path) -> None:
    _, found, (one, _) = planned(table)
    with pytest.raises(CorruptError, match="10 rows in less 1 deleted less 0 aborted are not 10 rows out"):
        ran(replace(found, delete_ranges={}), one, tmp_path / "part")
    assert not (tmp_path / "part").exists()
