"""The snapshot reader on every table that real Hive wrote: the rows and row ids that Hive itself answered.

Before any compaction, with each result of Hive's own compactors, and after our minor, major and cleaner.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyorc
import pytest
from integration.harness import Jobs, visible
from judges import arrow_rows, hive_text, merge, tables
from judges.fixtures import Fixture, fixtures
from judges.hive_reader import JudgeError, hive_reader
from pyorc import TypeKind
from snapshot_reads import read_arrow

import acidlib
from acidlib.errors import RefusedError
from conformance.hive_ddl import row_type_of, table_of

FULL, INSERT_ONLY = fixtures(), fixtures(insert_only=True)
TEXT = "hive3/h_mm_textfile"  # only a metastore knows how to read it
EVERY = [*FULL, *(table for table in INSERT_ONLY if table.name != TEXT)]
LAYERED = [pytest.param(table, layer, id=f"{table.name}-{layer}") for table in EVERY for layer in table.layers]
OURS = [
    pytest.param(table, kind, id=f"{table.name}-{kind}")
    for table in EVERY
    for kind in ("minor", "major")
    if (table.name, kind) != ("hive3/j_stream", "minor")  # one delta alone: there is nothing to merge
]
FINER = re.compile(r"(:\d\d\.\d{6})\d+")


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """The jobs, without Spark, on a new queue."""
    monkeypatch.setenv("ACIDLIB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HIVE_CONF_DIR", raising=False)
    return Jobs(queue_url=f"sqlite:///{tmp_path / 'queue.db'}")


def columns_of(table: Fixture) -> str | None:
    """What has to be stated: only ORC tells columns, and not even its footers a type that was changed."""
    stated = {"hive4/schema_evolution", "hive3/i_evol"}
    other = table.name.endswith(("_textfile", "_parquet"))
    return row_type_of(table.folder) if other or table.name in stated else None


def read(table: Fixture, location: Path, *, row_ids: bool, write_ids: str | None = None) -> pa.Table:
    return read_arrow(
        location,
        generation=table.generation,
        write_ids=table.write_ids if write_ids is None else write_ids,
        columns=row_type_of(table.folder) if write_ids else columns_of(table),
        insert_only=table.insert_only,
        row_ids=row_ids,
    )


def lines(table: Fixture, found: pa.Table) -> Counter[str]:
    """The rows as Hive prints them; days are in the proleptic calendar, as Hive's readers hand them out."""
    kinds = kinds_of(table)
    style = table.style
    exact = hive_text.Style(**{f: getattr(style, f) for f in style.__dataclass_fields__} | {"hybrid": False})
    texts: Counter[str] = Counter()
    for row in arrow_rows.table_rows(found):
        cells = [hive_text.render(v, k, exact) for v, k in zip(row, kinds, strict=False)]
        keys = [str(value).removeprefix("s:") for value in row[len(kinds) :]]
        texts["\t".join(_unpadded(cells, kinds) + keys)] += 1
    return texts


def kinds_of(table: Fixture) -> list[Any]:
    """The types of its columns, of pyorc."""
    return list(pyorc.TypeDescription.from_string(row_type_of(table.folder)).fields.values())


def _unpadded(cells: list[str], kinds: list[Any]) -> list[str]:
    is_char = [kind.kind is TypeKind.CHAR for kind in kinds] + [False] * (len(cells) - len(kinds))
    return [cell.rstrip(" ") if char else cell for cell, char in zip(cells, is_char, strict=True)]


def hive_lines(table: Fixture) -> Counter[str]:
    """Hive's rows, with as many digits of a second as Arrow's timestamps have, and CHAR without padding."""
    kinds = kinds_of(table)
    found: Counter[str] = Counter()
    for line, count in table.hive_rows().items():
        cut = FINER.sub(lambda digits: digits[1].rstrip("0").rstrip("."), line)
        found["\t".join(_unpadded(cut.split("\t"), kinds))] += count
    return found


def keys(table: Fixture, found: pa.Table) -> Counter[tuple[str, ...]]:
    """(write id, bucket property, row id, first column) of each row, as in the fixtures' files."""
    kinds = kinds_of(table)
    rows = arrow_rows.keyed_rows(found)
    return Counter((*map(str, key), hive_text.render(row[0], kinds[0], table.style)) for *key, row in rows)


def check(table: Fixture, location: Path, layer: str = "") -> None:
    """Both ways of reading: with row ids, which need the columns of keys, and without."""
    expected = hive_lines(table)
    assert lines(table, read(table, location, row_ids=False)) == expected
    if table.insert_only:
        return
    found = read(table, location, row_ids=True)
    assert lines(table, found.drop_columns([arrow_rows.ROW_ID])) == expected
    known = table.hive_keys(layer)
    if known is not None:
        assert keys(table, found) == known


def test_there_is_something_to_compare() -> None:
    assert (len(FULL), len(INSERT_ONLY)) == (21, 6)
    assert len(LAYERED) == 64
    assert sum(hive_lines(table).total() for table in EVERY) > 170
    assert [table.name for table in FULL if table.hive_keys() is None] == ["hive4/all_types"]


@pytest.mark.parametrize("table", EVERY, ids=lambda table: table.name)
def test_before_any_compaction(table: Fixture, tmp_path: Path) -> None:
    check(table, table.lay(tmp_path / table.folder.name))


@pytest.mark.parametrize(("table", "layer"), LAYERED)
def test_with_a_result_of_hives_own_compactor(table: Fixture, layer: str, tmp_path: Path) -> None:
    """Even where Hive 3.1 cannot read what it made (each delete event lies in every bucket file)."""
    broken = (table.name, layer) == ("hive3/m_multiwriter", "after_minor")
    check(table, table.lay(tmp_path / table.folder.name, layer), "" if broken else layer)


@pytest.mark.parametrize(("table", "kind"), OURS)
def test_after_our_compaction_and_cleaner(table: Fixture, kind: str, jobs: Jobs, tmp_path: Path) -> None:
    location = table.lay(tmp_path / table.folder.name)
    before = {path: visible(path) for path in merge.partitions(location)}
    told = ("--write-ids", table.write_ids) if table.write_ids else ("--all-committed",)
    columns = columns_of(table)
    ran = jobs(
        f"{kind}_compact", "--location", location, *told, "--hive-version", table.generation,
        "--table-kind", "insert-only" if table.insert_only else "full",
        *(("--columns", ", ".join(f"{c.name} {c.type}" for c in table_of(table.folder).storage.columns))
          if columns else ()),
    )  # fmt: skip
    assert ran.status == 0, ran
    made = [name for entry in ran.compactions for name in entry["output_directories"]]
    assert made, ran
    check(table, location)
    jobs.good("cleaner", "--location", location, "--retention", "0s")
    assert any(visible(path) != [*names, *made] and set(names) - set(visible(path)) for path, names in before.items())
    check(table, location)


def test_text_is_refused_where_no_metastore_tells_of_it(tmp_path: Path) -> None:
    (table,) = [table for table in INSERT_ONLY if table.name == TEXT]
    with pytest.raises(RefusedError, match=r"^Cannot read .*: it is neither ORC nor Parquet, and only a metastore"):
        read(table, table.lay(tmp_path / table.folder.name), row_ids=False)


@pytest.mark.parametrize("name", ["hive3/g_orig", "hive3/g2_origbucket", "hive4/original_files"])
def test_original_files_alone_are_read_if_the_kind_is_stated(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Hive's readers read them of a table that was made transactional and has not been written to since."""
    monkeypatch.setenv("ACIDLIB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HIVE_CONF_DIR", raising=False)
    (table,) = (table for table in FULL if table.name == name)
    location = table.lay(tmp_path / "t")
    for directory in filter(Path.is_dir, list(location.iterdir())):
        shutil.rmtree(directory)
    with pytest.raises(RefusedError, match=r"^Cannot read .*: it holds original files only"):
        acidlib.directory(location, all_committed=True).to_arrow()
    stated = acidlib.directory(location, all_committed=True, table_kind="full", hive_version=table.generation)
    expected = merge.read(location, generation=table.generation)
    found = stated.to_arrow(row_ids=True).to_pylist()
    assert [tuple(row["row__id"].values()) for row in found] == [row[:3] for row in expected]
    assert [f"s:{list(row.values())[2]}" for row in found] == [row[3][1] for row in expected]
    with pytest.raises(RefusedError, match="original files only"):
        stated.plan("major")


# --- snapshots --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hive3/a_crud", "hive3/j_stream", "hive4/crud_table", "hive4/aborted"])
def test_every_older_snapshot_is_what_the_naive_reader_sees(name: str, tmp_path: Path) -> None:
    """High-water marks from nothing on, and each write id by turns open and aborted."""
    (table,) = [table for table in FULL if table.name == name]
    location = table.lay(tmp_path / table.folder.name)
    high = 11
    none = f"default.{table.folder.name}:{high}:9223372036854775807::"
    texts = [f"default.{table.folder.name}:{mark}:9223372036854775807::" for mark in range(high)]
    texts += [f"default.{table.folder.name}:{high}:{write_id}:{write_id}:" for write_id in range(1, high)]
    texts += [f"default.{table.folder.name}:{high}:9223372036854775807::{write_id}" for write_id in range(1, high)]
    seen = set()
    for text in (none, *texts):
        found = read(table, location, row_ids=True, write_ids=text)
        columns = row_type_of(table.folder)
        expected = merge.read(location, text, generation=table.generation)
        assert arrow_rows.alike(arrow_rows.keyed_rows(found), columns) == arrow_rows.alike(expected, columns), text
        seen.add(repr(expected))
    assert len(seen) >= 4


@pytest.mark.live
@pytest.mark.parametrize(("name", "rows"), [("delta_0000001_0000001_0000", 3), ("delta_0000001_0000002", None)])
def test_hive_4_looks_for_side_files_in_deltas_of_several_write_ids_alone(
    name: str, rows: int | None, tmp_path: Path
) -> None:
    """A length of 0: Hive 4 reads a delta of one write id to its end, and none of another (its reader fails there)."""
    location = tmp_path / "t"
    events = [
        event for write_id in {1, int(name.split("_")[2])} for event in tables.inserts(write_id, [(write_id,)] * 3)
    ]
    tables.write_dir(location, name, "struct<id:int>", events)
    (location / name / "bucket_00000_flush_length").write_bytes(bytes(8))
    if rows is None:
        with pytest.raises(JudgeError):
            hive_reader(4).rows(location, {"id": "int"})
    else:
        assert len(hive_reader(4).rows(location, {"id": "int"})) == rows
    read = acidlib.directory(
        location, all_committed=True, hive_version=4, table_kind="full", columns="id int"
    ).to_arrow()
    assert read.num_rows == (rows or 0)
