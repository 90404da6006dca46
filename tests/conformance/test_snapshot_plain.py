"""Insert-only tables in ORC, Parquet and text: a snapshot has the rows of Hive, and of its own readers in process."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyorc
import pytest
from judges import merge
from judges.fixtures import Fixture, fixtures
from judges.hive_text import HIVE3, HIVE4, render
from snapshots import arrow_type, canonical, schema_of, splits_of

from acidlib.model.tables import ORC_INPUT_FORMAT
from acidlib.planning.units import PARQUET_INPUT_FORMAT, TEXT_INPUT_FORMAT
from acidlib.scan.read import read_all
from acidlib.scan.splits import Scan
from acidlib.stores.stores import Stores

FORMATS = {"parquet": PARQUET_INPUT_FORMAT, "textfile": TEXT_INPUT_FORMAT}
LAYERS = [
    pytest.param(table, layer, id=f"{table.name}-{layer or 'before'}")
    for table in fixtures(insert_only=True)
    for layer in ("", *table.layers)
]


def scan_of(types: Mapping[str, str], input_format: str | None, **options: Any) -> Scan:
    kinds = {name: pyorc.TypeDescription.from_string(text) for name, text in types.items()}
    return Scan(
        table="t",
        row_type=f"struct<{','.join(f'{name}:{text}' for name, text in types.items())}>",
        columns=tuple(types),
        schema=schema_of([(name, arrow_type(kind)) for name, kind in kinds.items()]),
        insert_only=True,
        input_format=input_format,
        **options,
    )


def columns_of(table: Fixture) -> dict[str, str]:
    """The columns in the statement that made a table."""
    match = re.search(r"\((.*?)\)\s+(?:partitioned|stored)", (table.folder / "ddl.sql").read_text(), re.I | re.S)
    assert match is not None
    pairs = re.findall(r"(\w+) (\w+(?:\([\d,]+\))?)", match[1])
    return {name: kind.lower() for name, kind in pairs}


@pytest.mark.parametrize(("table", "layer"), LAYERS)
@pytest.mark.parametrize("split_bytes", [pytest.param(128 << 20, id="whole"), pytest.param(200, id="split")])
def test_the_snapshot_has_the_rows_of_hive(table: Fixture, layer: str, split_bytes: int, tmp_path: Path) -> None:
    types = columns_of(table)
    style = HIVE3 if table.generation == 3 else HIVE4
    input_format = next((FORMATS[word] for word in FORMATS if word in table.name), ORC_INPUT_FORMAT)
    scan = scan_of(types, input_format)
    texts: Counter[str] = Counter()
    location = table.lay(tmp_path / "table", layer)
    for place in merge.partitions(location):
        parts = [part.partition("=")[2] for part in place.relative_to(location).parts]
        splits = splits_of(scan, place, table.write_ids, generation=table.generation, split_bytes=split_bytes)
        for row in read_all(scan, splits, Stores()).to_pylist():
            kinds = {name: pyorc.TypeDescription.from_string(text) for name, text in types.items()}
            cells = [render(canonical(row[name], kind), kind, style) for name, kind in kinds.items()]
            texts["\t".join(cells + parts)] += 1
    assert texts == table.hive_rows()
