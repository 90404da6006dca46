"""Stripes that are copied with row ids, or with columns that were added later, put beside their bytes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from compaction import MAJOR, bucket_files, compact_directory
from judges import merge, tables
from judges import orc_tail as o
from judges.java_orc import JavaOrc
from long_runs import amount

from acidlib.model.units import ColumnMatching, RewriteSettings
from conformance.checks import java_problems, statistics_problems
from conformance.test_output_files import COLUMNS, wide_row

LAYOUT = tables.Layout(stripe_size=1, stride=100, batch=500, block=4096, dictionary=0.5)
COPY = RewriteSettings(copy_bytes=0)
FIRST = 10_000_001  # the first write id of a converted table
WIDER = COLUMNS.removesuffix(">") + ",extra:string,more:struct<a:int,b:array<double>>>"


def converted(location: Path, *, also_added: bool) -> None:
    """Two original files of 1500 rows in three stripes each; then rows of both are deleted, and some are inserted."""
    rng = random.Random(5)
    rows = [wide_row(i, rng) for i in range(3000)]
    for number, name in enumerate(("000000_0", "000000_0_copy_1")):
        data = tables.orc_bytes(COLUMNS, rows[number * 1500 : (number + 1) * 1500], LAYOUT)
        location.mkdir(exist_ok=True)
        (location / name).write_bytes(data)
    keys = [(0, 536870912, i) for i in (*range(500, 1000, 9), 2999)]
    tables.write_dir(
        location, tables.delta_name(FIRST, FIRST, delete=True), COLUMNS, tables.deletes(FIRST, keys), LAYOUT
    )
    last, columns = wide_row(3000, rng), COLUMNS
    if also_added:
        last, columns = (*last, "new", (7, [1.5, None])), WIDER
    inserted = tables.inserts(FIRST + 1, [last])
    tables.write_dir(location, tables.delta_name(FIRST + 1, FIRST + 1), columns, inserted, LAYOUT)


def grown(location: Path) -> None:
    """A base of three stripes, of which the second loses rows, and a delta with two more columns."""
    rng = random.Random(6)
    rows = [wide_row(i, rng) for i in range(1500)]
    tables.write_base(location, 1, COLUMNS, tables.inserts(1, rows), LAYOUT)
    more = [(*wide_row(i, rng), None if i % 3 else f"x{i}", (i, [i / 2])) for i in range(600)]
    tables.write_dir(location, tables.delta_name(2, 2), WIDER, tables.inserts(2, more), LAYOUT)
    keys = [(1, 536870912, i) for i in range(600, 700)]
    tables.write_dir(location, tables.delta_name(3, 3, delete=True), COLUMNS, tables.deletes(3, keys), LAYOUT)


def data_of(path: Path, stripe: int) -> bytes:
    """The bytes of the data streams of a stripe."""
    found = o.read_orc(path).stripes[stripe]
    start = found.offset + found.index_length
    return path.read_bytes()[start : start + found.data_length]


def judge(path: Path, generation: int, java: JavaOrc) -> None:
    """Statistics and index are right, and readers leave row groups out by them."""
    assert statistics_problems(path, generation, copied=True) == []
    assert java_problems(java, path) == []
    pruned = {found.column: found for found in (*java.sarg_check(path), *java.sarg_check_ids(path))}
    for name in ("id", "big", "s", "ts", "rowId"):
        assert pruned[name].queries > 0
        assert pruned[name].rows_read < 0.8 * pruned[name].rows_total, pruned[name]


@pytest.mark.java
@pytest.mark.parametrize(
    ("made", "generation"),
    [
        ("original files", 4),
        ("original files and added columns", 3),
        *amount([], long=[("original files and added columns", 4), ("added columns", 3)]),
    ],
)
def test_grafted_stripes(made: str, generation: int, java: JavaOrc, tmp_path: Path) -> None:
    location = tmp_path / "table"
    if made == "added columns":
        grown(location)
    else:
        converted(location, also_added=made != "original files")
    before = merge.read(location, generation=generation)
    result = compact_directory(location, MAJOR, "", generation, settings=COPY)
    assert merge.read(location, generation=generation, strict=True) == before
    (unit,) = result.results
    added = {"original files": "row ids", "added columns": "columns"}.get(made, "row ids and columns")
    grafted = [action for action in unit.actions if action.reason == f"unchanged but for {added} that are added"]
    assert len(grafted) == (2 if made == "added columns" else 4)
    assert unit.stripes_rewritten == (1 if made == "added columns" else 2)
    (path,) = bucket_files(location, result.directories)
    first = Path(grafted[0].file)
    assert data_of(first, 0) in data_of(path, 0)
    # no row was ever updated in place: it is of the transaction that wrote it
    assert all(written == current for _, written, _, _, current, _ in merge.raw_rows(path))
    judge(path, generation, java)


MOVED = ("more:struct<a:int,b:array<double>>", "big", "s", "fresh:int", "ts", "id")


@pytest.mark.java
@pytest.mark.parametrize(("made", "generation"), [("original files", 3), ("added columns", 4)])
def test_stripes_are_copied_with_columns_left_out_and_moved(
    made: str, generation: int, java: JavaOrc, tmp_path: Path
) -> None:
    location = tmp_path / "table"
    if made == "added columns":
        grown(location)
    else:
        converted(location, also_added=True)
    fields = dict(field.split(":", 1) for field in split_fields(WIDER))
    wanted = [field if ":" in field else f"{field}:{fields[field]}" for field in MOVED]
    places = [list(fields).index(field.partition(":")[0]) if "fresh" not in field else None for field in wanted]
    before = merge.read(location, generation=generation)
    by_name = ColumnMatching(by_position=False)
    text = f"struct<{','.join(wanted)}>"
    result = compact_directory(location, MAJOR, "", generation, settings=COPY, row_type=text, matching=by_name)
    after = merge.read(location, generation=generation, strict=True)
    padded = [(*row[:3], (*row[3], *[None] * (len(fields) - len(row[3])))) for row in before]
    assert after == [(*row[:3], tuple(None if i is None else row[3][i] for i in places)) for row in padded]
    (unit,) = result.results
    what = "columns that the table does not have, the order of columns"
    assert any(action.reason.endswith(f"that are added, {what}") for action in unit.actions)
    assert unit.stripes_copied == (5 if made == "original files" else 4)
    assert len(unit.notes) == 2
    (path,) = bucket_files(location, result.directories)
    judge(path, generation, java)


def split_fields(row: str) -> list[str]:
    """The fields of a text `struct<...>`."""
    found, depth = [""], 0
    for sign in row.removeprefix("struct<").removesuffix(">"):
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and not depth:
            found.append("")
        else:
            found[-1] += sign
    return found


@pytest.mark.parametrize("damage", ["another stride", "another codec"])
def test_what_cannot_stand_under_the_footer_is_rewritten(damage: str, tmp_path: Path) -> None:
    location = tmp_path / "table"
    converted(location, also_added=False)
    stated = {"another stride": {"stride": 1000}, "another codec": {"compression": "SNAPPY"}}[damage]
    names = frozenset({"stride"} if damage == "another stride" else {"compression"})
    result = compact_directory(location, MAJOR, settings=RewriteSettings(copy_bytes=0, stated=names, **stated))
    assert result.results[0].stripes_copied == 0
