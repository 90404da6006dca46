"""Search arguments on results: Hive's own readers leave row groups out, and no row that a query asks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compaction import MAJOR, MINOR, compact_directory
from judges import merge, tables
from judges.hive_reader import hive_reader

from acidlib.model.requests import CompactionType
from acidlib.model.units import ColumnMatching, RewriteSettings

pytestmark = pytest.mark.live

TYPES = {"a": "int", "b": "string"}
TEXT = "struct<a:int,b:string>"
ROWS = 8000
LAYOUT = tables.Layout(stride=1000, stripe_size=1 << 16)
BUCKET = merge.bucket_property(0, 0)
COPY, RECODE = RewriteSettings(copy_bytes=0), RewriteSettings(copy_bytes=1 << 40)
# predicates, the column that they look at, and what they ask for
ASKED: dict[str, tuple[int, Callable[[Any], bool]]] = {
    "a eq 7": (0, lambda a: a == 7),
    "a lt 10": (0, lambda a: a is not None and a < 10),
    "a gt 107990": (0, lambda a: a is not None and a > 107990),
    "a eq 100003": (0, lambda a: a == 100003),
    "a eq 50000": (0, lambda a: a == 50000),
    "a null": (0, lambda a: a is None),
    "b eq w000500": (1, lambda b: b == "s:w000500"),
    "b lt v000002": (1, lambda b: b is not None and b < "s:v000002"),
}


def lay(location: Path) -> None:
    """Two deltas of several stripes and row groups, one row with nulls, and deletes at both ends of them."""
    first = [(None if i == 3000 else i, None if i == 3000 else f"v{i:06d}") for i in range(ROWS)]
    second = [(100_000 + i, f"w{i:06d}") for i in range(ROWS)]
    gone = [(1, BUCKET, 5), (1, BUCKET, ROWS - 1), (2, BUCKET, 0), (2, BUCKET, ROWS - 1)]
    tables.write_dir(location, tables.delta_name(1, 1), TEXT, tables.inserts(1, first), LAYOUT)
    tables.write_dir(location, tables.delta_name(2, 2), TEXT, tables.inserts(2, second), LAYOUT)
    tables.write_dir(location, tables.delta_name(3, 3, delete=True), TEXT, tables.deletes(3, gone), LAYOUT)


@pytest.mark.pairs
@pytest.mark.parametrize("vectorized", [False, True], ids=["rows", "batches"])
@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("settings", [COPY, RECODE], ids=["copy", "recode"])
@pytest.mark.parametrize("kind", [MAJOR, MINOR], ids=["major", "minor"])
def test_a_search_argument_loses_no_row(
    kind: CompactionType, settings: RewriteSettings, generation: int, vectorized: bool, tmp_path: Path
) -> None:
    location = tmp_path / "t"
    lay(location)
    hive = hive_reader(generation)
    before = hive.rows(location, TYPES, vectorized=vectorized)
    visibility = 9 if generation == 4 else None
    compact_directory(location, kind, generation=generation, visibility_txn=visibility, settings=settings)
    assert hive.rows(location, TYPES, vectorized=vectorized) == before
    for predicate, (column, wanted) in ASKED.items():
        found = hive.rows(location, TYPES, vectorized=vectorized, predicate=predicate)
        asked = [row for row in found if wanted(row[3][column])]
        assert asked == [row for row in before if wanted(row[3][column])], predicate
        assert len(found) <= 2000 < len(before), predicate


@pytest.mark.pairs
@pytest.mark.parametrize("vectorized", [False, True], ids=["rows", "batches"])
@pytest.mark.parametrize("generation", [3, 4])
def test_stripes_that_are_copied_with_moved_columns_are_read_and_searched(
    generation: int, vectorized: bool, tmp_path: Path
) -> None:
    """The files have (b, gone, a) and the table (a, b, new), by name."""
    location, old, types = tmp_path / "t", "struct<b:string,gone:bigint,a:int>", {**TYPES, "new": "date"}
    for write_id, letter in ((1, "v"), (2, "w")):
        first = (write_id - 1) * 100_000
        rows = [(f"{letter}{i:06d}", i, first + i) for i in range(ROWS)]
        rows[3000] = (None, None, None)
        tables.write_dir(location, tables.delta_name(write_id, write_id), old, tables.inserts(write_id, rows), LAYOUT)
    hive = hive_reader(generation)
    before = hive.rows(location, types, vectorized=vectorized, positional=False)
    assert before[0][3] == (0, "s:v000000", None)
    made = compact_directory(
        location,
        MAJOR,
        generation=generation,
        visibility_txn=9 if generation == 4 else None,
        settings=COPY,
        row_type="struct<a:int,b:string,new:date>",
        matching=ColumnMatching(by_position=False),
    )
    (result,) = made.results
    assert (result.stripes_rewritten, result.stripes_copied >= 2) == (0, True)
    for positional in (False, True):
        assert hive.rows(location, types, vectorized=vectorized, positional=positional) == before
    for predicate, (column, wanted) in ASKED.items():
        found = hive.rows(location, types, vectorized=vectorized, predicate=predicate)
        asked = [row for row in found if wanted(row[3][column])]
        assert asked == [row for row in before if wanted(row[3][column])], predicate
        assert len(found) <= 2000 < len(before), predicate
