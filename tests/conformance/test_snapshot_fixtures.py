"""Every table of real Hive, before and after its own compactions: the snapshot has the rows and row ids of Hive."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyorc
import pytest
from judges import merge
from judges.fixtures import Fixture, fixtures, orc_files
from snapshots import arrow_type, canonical, schema_of, splits_of

import acidlib
from acidlib.scan.read import read_all
from acidlib.scan.splits import Scan
from acidlib.stores.stores import Stores

LAYERS = [
    pytest.param(table, layer, id=f"{table.name}-{layer or 'before'}")
    for table in fixtures()
    for layer in ("", *table.layers)
]


INSERT_ONLY = [
    pytest.param(table, layer, id=f"{table.name}-{layer or 'before'}")
    for table in fixtures(insert_only=True)
    for layer in ("", *table.layers)
    if orc_files(f"{table.name}/**/*")
]


def rows(table: Fixture, partition: Path, location: Path) -> list[merge.Row]:
    row_type = pyorc.TypeDescription.from_string(
        f"struct<{','.join(f'{name}:{kind}' for name, kind in table.columns(location).items())}>"
    )
    fields = [(name, arrow_type(kind)) for name, kind in row_type.fields.items()]
    scan = Scan(
        table=table.name,
        row_type=str(row_type),
        columns=tuple(row_type.fields),
        schema=schema_of(fields, row_ids=not table.insert_only),
        row_ids=not table.insert_only,
        insert_only=table.insert_only,
    )
    splits = splits_of(scan, partition, table.write_ids, generation=table.generation)
    return [
        (
            *(row["row__id"][part] if "row__id" in row else 0 for part in ("writeid", "bucketid", "rowid")),
            tuple(canonical(row[name], kind) for name, kind in row_type.fields.items()),
        )
        for row in read_all(scan, splits, Stores()).to_pylist(maps_as_pydicts=None)
    ]


def in_microseconds(text: str) -> str:
    """Times as Spark has them, which Hive prints to the nanosecond."""

    def cut(match: re.Match[str]) -> str:
        return f"{match[1]}.{match[2][:6]}".rstrip("0").rstrip(".")

    return re.sub(r"(\d\d:\d\d:\d\d)\.(\d{7,9})", cut, text)


@pytest.mark.parametrize(("table", "layer"), LAYERS)
def test_the_snapshot_has_the_rows_and_row_ids_of_hive(table: Fixture, layer: str, tmp_path: Path) -> None:
    location = table.lay(tmp_path / "table", layer)
    style = replace(table.style, hybrid=False)  # Arrow's days are those of the proleptic Gregorian calendar
    texts, keys = table.read_by(lambda partition: rows(table, partition, location), location, style)
    assert texts == Counter({in_microseconds(text): count for text, count in table.hive_rows().items()})
    assert table.hive_keys(layer) in (None, keys)


@pytest.mark.parametrize(("table", "layer"), INSERT_ONLY)
def test_the_snapshot_of_an_insert_only_table_has_its_rows(table: Fixture, layer: str, tmp_path: Path) -> None:
    location = table.lay(tmp_path / "table", layer)
    texts, _ = table.read_by(lambda partition: rows(table, partition, location), location, table.style)
    assert texts == table.hive_rows()


@pytest.mark.parametrize("name", ["hive3/g_orig", "hive3/g2_origbucket", "hive4/original_files"])
def test_original_files_alone_are_read_if_the_kind_is_stated(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Hive's readers read them of a table that was made transactional and has not been written to since."""
    monkeypatch.setenv("ACIDLIB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HIVE_CONF_DIR", raising=False)
    (table,) = (table for table in fixtures() if table.name == name)
    location = table.lay(tmp_path / "t")
    for directory in filter(Path.is_dir, list(location.iterdir())):
        shutil.rmtree(directory)
    with pytest.raises(acidlib.RefusedError, match=r"^Cannot read .*: it holds original files only"):
        acidlib.directory(location, all_committed=True).to_arrow()
    stated = acidlib.directory(location, all_committed=True, table_kind="full", hive_version=table.generation)
    expected = merge.read(location, generation=table.generation)
    found = stated.to_arrow(row_ids=True).to_pylist()
    assert [tuple(row["row__id"].values()) for row in found] == [row[:3] for row in expected]
    assert [f"s:{list(row.values())[2]}" for row in found] == [row[3][1] for row in expected]
    with pytest.raises(acidlib.RefusedError, match="original files only"):
        stated.plan("major")


def test_insert_only_tables_of_orc_are_here() -> None:
    assert {str(case.values[0].name) for case in INSERT_ONLY} == {
        "hive3/h2_mm_part",
        "hive3/h_mm_orc",
        "hive4/insert_only_orc",
    }
