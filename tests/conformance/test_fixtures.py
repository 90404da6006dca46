"""Every table of real Hive, compacted both ways: a reader sees the same rows, and what Hive itself returned."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from compaction import MAJOR, MINOR, Compacted, RefusedPlanError, compact_directory
from judges import hive_text, merge
from judges.acid_dirs import directory_state

from acidlib.acid.names import Generation
from acidlib.model.requests import CompactionType
from conformance.conftest import Case, Compaction
from conformance.hive_tables import HiveTable, hive_results, hive_table, hive_tables, hive_tables_by_kind

TABLES = [pytest.param(table, id=str(table)) for table in hive_tables()]
KINDS = [pytest.param(MAJOR, id="major"), pytest.param(MINOR, id="minor")]
STREAMING = hive_table("hive3/j_stream")
COMPACTED = [pytest.param(table, id=str(table)) for table in hive_tables() if table != STREAMING]
BY_KIND = [pytest.param(table, kind, id=f"{table}-{kind.label.lower()}") for table, kind in hive_tables_by_kind()]


def rows_of(table: HiveTable, location: Path, *, strict: bool = True, write_ids: str | None = None) -> list[merge.Row]:
    ids = table.write_ids if write_ids is None else write_ids
    return merge.read(location, ids, generation=table.generation, strict=strict)


def compact(
    table: HiveTable, location: Path, kind: CompactionType, *, write_ids: str | None = None, txn: int = 0
) -> Compacted:
    ids = table.write_ids if write_ids is None else write_ids
    suffix = None if table.visibility_txn is None else table.visibility_txn + txn
    return compact_directory(location, kind, ids, table.generation, suffix)


def test_all_full_acid_tables_of_hive_are_here() -> None:
    assert len(hive_tables()) == 25
    assert {table.generation for table in hive_tables()} == {3, 4}


# --- the same rows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "kind"), BY_KIND)
def test_a_reader_sees_the_same_rows_and_row_ids(table: HiveTable, kind: CompactionType, compacted: Compaction) -> None:
    case = compacted(table, kind)
    assert case.compacted.inputs.kind is kind
    assert case.rows() == case.before


@pytest.mark.parametrize(("table", "kind"), BY_KIND)
def test_the_rows_are_those_that_hive_returned(table: HiveTable, kind: CompactionType, compacted: Compaction) -> None:
    case = compacted(table, kind)
    texts, keys = table.hive_rows(), table.hive_row_ids()
    rows = case.rows()
    assert Counter(rendered(case, rows)) == texts
    assert keys is None or Counter(row[:3] for row in rows) == keys


@pytest.mark.parametrize(("table", "kind"), BY_KIND)
def test_nothing_that_the_result_covers_is_needed_any_more(
    table: HiveTable, kind: CompactionType, compacted: Compaction, tmp_path: Path
) -> None:
    case = compacted(table, kind)
    location = merge.overlay(tmp_path / "table", case.location)
    for name in case.compacted.directories:  # an overlay leaves out directories without a file
        (location / name).mkdir(exist_ok=True)
    mark = case.compacted.inputs.high_water_mark
    # a cleaner's list: without aborted ids, so that directories of nothing else count as covered too
    covered = directory_state(location, f"t:{mark}:{mark + 1}::", generation=table.generation).obsolete
    assert {path.name for path in covered} >= {entry.path for entry in case.compacted.inputs.directories if entry.path}
    for path in covered:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert rows_of(table, location) == case.before


def rendered(case: Case, rows: list[merge.Row]) -> list[str]:
    style, kind = case.table.style, merge.table_type(case.location)
    values = [part.partition("=")[2] for part in case.table.partition.split("/") if part]
    return [
        "\t".join([hive_text.render(v, k, style) for v, k in zip(row, kind.fields.values(), strict=True)] + values)
        for *_, row in rows
    ]


def test_the_answers_of_hive_are_not_empty() -> None:
    assert sum(table.hive_rows().total() for table in hive_tables()) > 150
    assert [str(table) for table in hive_tables() if not table.hive_rows()] == ["hive3/n_alldeleted"]
    assert [str(table) for table in hive_tables() if table.hive_row_ids() is None] == ["hive4/all_types"]


# --- one after another ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", COMPACTED)
def test_major_after_our_minor(table: HiveTable, compacted: Compaction, tmp_path: Path) -> None:
    case = compacted(table, MINOR)
    location = merge.overlay(tmp_path / "table", case.location)
    if case.compacted.directories == ("delta_0000001_0000002_v9000001",):
        # one delta and no base, nothing deleted: there is nothing that a major could merge
        assert str(table) == "hive4/open_txn"
        with pytest.raises(RefusedPlanError, match="nothing to merge: 1 delta directory and no base"):
            compact(table, location, MAJOR, txn=1)
        return
    if str(table) == "hive4/merge_compactor":
        with pytest.raises(RefusedPlanError, match="nothing to merge: 1 delta directory and no base"):
            compact(table, location, MAJOR, txn=1)
        return
    result = compact(table, location, MAJOR, txn=1)
    ours = set(case.compacted.directories)
    assert ours <= {entry.path for entry in result.inputs.directories}
    assert rows_of(table, location) == case.before


AFTER_HIVE = [
    pytest.param(table, what, id=f"{table}-{what}") for table in hive_tables() for what in hive_results(table, "minor")
]


@pytest.mark.parametrize(("table", "what"), AFTER_HIVE)
def test_major_over_hives_own_minor(table: HiveTable, what: str, tmp_path: Path) -> None:
    """Hive 3.1 leaves files without row index or compression, with false statistics."""
    location = table.copy(tmp_path / "table", what)
    before = rows_of(table, tmp_path / "table", strict=False)
    assert before == rows_of(table, table.before)
    hives = {path.name for path in table.after(what).iterdir()}
    if str(table) != "hive4/open_txn":
        result = compact(table, location, MAJOR)
        assert hives <= {entry.path for entry in result.inputs.directories}
    else:
        with pytest.raises(RefusedPlanError, match="nothing to merge"):
            compact(table, location, MAJOR)
    assert rows_of(table, location) == before


def test_hives_faulty_minor_is_put_right(tmp_path: Path) -> None:
    """Hive 3.1 wrote every delete event into every bucket file and cannot read that any more."""
    table = hive_table("hive3/m_multiwriter")
    location = table.copy(tmp_path / "table", "after_minor")
    with pytest.raises(merge.ReaderError, match="Two readers"):
        rows_of(table, location)
    result = compact(table, location, MAJOR)
    assert sum(unit.duplicate_events for unit in result.results) > 0
    assert rows_of(table, location) == rows_of(table, table.before)


def high_marks(table: HiveTable) -> list[int]:
    """The write ids that deltas end with, up to the mark of a compactor."""
    ids = merge.WriteIds.parse(table.write_ids)
    top = min(ids.high, ids.min_open - 1)
    names = [path.name.split("_") for path in table.before.iterdir() if "delta_" in path.name]
    found = {int(parts[-2 if len(parts[-1]) == 4 else -1]) for parts in names}
    return sorted(mark for mark in found if mark <= top)


def capped(table: HiveTable, mark: int) -> str:
    """The write-id list as it was when `mark` was the highest one."""
    ids = merge.WriteIds.parse(table.write_ids)
    aborted = ",".join(str(i) for i in sorted(ids.aborted) if i <= mark)
    return f"default.{table.folder.name}:{mark}:9223372036854775807::{aborted}"


@pytest.mark.parametrize("table", COMPACTED)
def test_minor_after_minor(table: HiveTable, tmp_path: Path) -> None:
    """First the older half of the transactions, then everything: the first result is an input of the second."""
    marks = high_marks(table)
    location = table.copy(tmp_path / "table")
    before = rows_of(table, location)
    if len(marks) < 3:
        with pytest.raises(RefusedPlanError, match=r"nothing to merge|are of write id"):
            compact(table, location, MINOR, write_ids=capped(table, marks[0]))
        return
    first = compact(table, location, MINOR, write_ids=capped(table, marks[-2]))
    assert rows_of(table, location) == before
    if str(table) == "hive3/n_alldeleted":
        with pytest.raises(RefusedPlanError, match="nothing to merge: one delta and one delete delta directory"):
            compact(table, location, MINOR, txn=1)
        return
    second = compact(table, location, MINOR, txn=1)
    assert set(first.directories) <= {entry.path for entry in second.inputs.directories}
    assert rows_of(table, location) == before


# --- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", TABLES)
def test_a_compacted_table_is_not_compacted_again(
    table: HiveTable, kind: CompactionType, compacted: Compaction, tmp_path: Path
) -> None:
    case = compacted(table, MAJOR)
    location = merge.overlay(tmp_path / "table", case.location)
    for name in case.compacted.directories:
        (location / name).mkdir(exist_ok=True)
    reason = "a base and no delta" if kind is MAJOR else "0 delta directories"
    with pytest.raises(RefusedPlanError, match=reason):
        compact(table, location, kind, txn=1)


@pytest.mark.parametrize("table", COMPACTED)
def test_a_minor_of_a_minors_result_alone_is_refused(table: HiveTable, compacted: Compaction, tmp_path: Path) -> None:
    location = merge.overlay(tmp_path / "table", compacted(table, MINOR).location)
    with pytest.raises(RefusedPlanError, match="there is nothing to merge"):
        compact(table, location, MINOR, txn=1)


# --- streaming ingest -------------------------------------------------------------------------------------------------


def test_a_minor_has_nothing_to_do_for_one_delta(compacted: Compaction) -> None:
    with pytest.raises(RefusedPlanError, match="nothing to merge: 1 delta directory"):
        compacted(STREAMING, MINOR)


def test_a_major_rids_one_delta_of_its_aborted_rows_as_hive_3_does(compacted: Compaction) -> None:
    case = compacted(STREAMING, MAJOR)
    assert case.compacted.directories == ("base_0000005",)
    assert [unit.rows_aborted for unit in case.compacted.results] == [1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("aborted", ["3,5", "3,5,8,9,10", "1,3,5,7", "3,5,6,7,8,9,10"])
def test_streaming_deltas_with_a_side_file(kind: CompactionType, aborted: str, tmp_path: Path) -> None:
    """Only the bytes that the side file vouches for are rows, and aborted rows lie among committed ones."""
    ids = f"default.j_stream:10:9223372036854775807::{aborted}"
    location = STREAMING.copy(tmp_path / "table")
    assert list(location.glob("*/*_flush_length"))
    before = rows_of(STREAMING, location, write_ids=ids)
    result = compact(STREAMING, location, kind, write_ids=ids)
    assert [unit.rows_aborted > 0 for unit in result.results] == [True]
    assert rows_of(STREAMING, location, write_ids=ids) == before
    assert {row[0] for row in before}.isdisjoint(map(int, aborted.split(",")))


# --- names without a visibility suffix --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", [t for t in COMPACTED if t.id.startswith("hive4")])
def test_tables_of_hive_4_without_a_transaction_of_ours(table: HiveTable, kind: CompactionType, tmp_path: Path) -> None:
    """Without a metastore no transaction is invented: a plain name, and a base is marked as compacted."""
    location = table.copy(tmp_path / "table")
    before = rows_of(table, location)
    result = compact_directory(location, kind, table.write_ids, Generation.HIVE4)
    assert not any("_v" in name for name in result.directories)
    assert (location / result.directories[0] / "_metadata_acid").exists() is (kind is MAJOR)
    assert rows_of(table, location) == before
