"""Values of every type come out as they went in, bit for bit: extremes, nulls at every level, changed columns."""

from __future__ import annotations

import math
import struct
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from compaction import MAJOR, MINOR, bucket_files, compact_directory
from judges import merge, tables
from judges.java_orc import JavaOrc
from judges.values import canonical_rows, open_orc

from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings
from conformance.checks import java_problems, statistics_problems
from conformance.conftest import Compaction
from conformance.hive_tables import HiveTable, hive_table

ALL_TYPES = [pytest.param(hive_table(name), id=name) for name in ("hive3/d_types", "hive4/all_types")]
EVOLVED = [pytest.param(hive_table(name), id=name) for name in ("hive3/i_evol", "hive4/schema_evolution")]
KINDS = [pytest.param(MAJOR, id="major"), pytest.param(MINOR, id="minor")]
REWRITE_ALL = RewriteSettings(copy_bytes=1 << 40)
COPY_ALL = RewriteSettings(copy_bytes=0)


def events(files: list[Path]) -> dict[tuple[Any, ...], Any]:
    """Every event of some ACID files by its key."""
    return {row[:5]: row[5] for path in files for row in merge.raw_rows(path)}


def inserts_before(table: HiveTable) -> dict[tuple[Any, ...], Any]:
    return events(sorted(table.before.glob("delta_*/bucket_*")))


# --- every type, as Hive wrote it -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", ALL_TYPES)
def test_every_value_of_every_row_is_the_one_that_hive_wrote(
    table: HiveTable, kind: CompactionType, compacted: Compaction
) -> None:
    case = compacted(table, kind)
    before = inserts_before(table)
    after = events([path for path in case.files if not path.parent.name.startswith("delete_")])
    assert after
    assert {key: before[key] for key in after} == after
    assert kind is MAJOR or after == before


@pytest.mark.parametrize("table", ALL_TYPES)
def test_the_minor_kept_the_extremes(table: HiveTable, compacted: Compaction) -> None:
    """The comparison above is of something: what has to be in the data is there, in the result."""
    text = repr(list(events(compacted(table, MINOR).files).values()))
    extremes = ["t:253402300799:999999999", "d:2932896", "f:7ff8000000000000", "f:fff0000000000000", "()", "None"]
    extremes += ["'s:char      '", "d:-719162", "t:-62135596800:0"] if table.generation == 3 else ["'s:ab     '"]
    extremes += [] if table.generation == 3 else ["d:-719164", "t:-62135769600:0"]
    assert [value for value in extremes if value not in text] == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", ALL_TYPES)
def test_the_type_tree_is_kept(table: HiveTable, kind: CompactionType, compacted: Compaction) -> None:
    [before] = {str(open_orc(path).schema) for path in table.before.glob("*/bucket_*")}
    assert {str(open_orc(path).schema) for path in compacted(table, kind).files} == {before}


@pytest.mark.java
@pytest.mark.parametrize("table", ALL_TYPES + EVOLVED)
def test_java_reads_the_values_that_it_read_before(table: HiveTable, compacted: Compaction, java: JavaOrc) -> None:
    before = {row[:5]: row[5] for path in sorted(table.before.glob("delta_*/bucket_*")) for row in java.rows(path)}
    [path] = compacted(table, MAJOR).files
    width = len(open_orc(path).schema.fields["row"].fields)
    after = java.rows(path)
    assert after
    for row in after:
        old = before[row[:5]]
        assert row[5] == old + (None,) * (width - len(old))


# --- changed columns --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", EVOLVED)
def test_older_rows_are_padded_and_widened_and_otherwise_kept(
    table: HiveTable, kind: CompactionType, compacted: Compaction
) -> None:
    case = compacted(table, kind)
    before = inserts_before(table)
    after = events([path for path in case.files if not path.parent.name.startswith("delete_")])
    widths = {len(row) for row in before.values()}
    assert len(widths) > 1
    assert after
    for key, row in after.items():
        assert row == before[key] + (None,) * (max(widths) - len(before[key]))


@pytest.mark.parametrize("table", EVOLVED)
def test_the_columns_are_those_of_the_newest_file(table: HiveTable, compacted: Compaction) -> None:
    newest = max(table.before.glob("delta_*/bucket_*"), key=lambda path: int(path.parent.name.split("_")[1]))
    schemas = {str(open_orc(path).schema) for path in table.before.glob("delta_*/bucket_*")}
    assert len(schemas) > 1
    assert {str(open_orc(path).schema) for path in compacted(table, MAJOR).files} == {str(open_orc(newest).schema)}


# --- extremes that the tables of Hive do not hold ---------------------------------------------------------------------

COLUMNS = (
    "struct<b:boolean,ti:tinyint,si:smallint,i:int,bi:bigint,f:float,d:double,s:string,c:char(5),v:varchar(7),"
    "bin:binary,dt:date,ts:timestamp,tz:timestamp with local time zone,d5:decimal(5,2),d18:decimal(18,18),"
    "d38:decimal(38,10),l:array<int>,m:map<string,double>,st:struct<a:int,l:array<struct<x:timestamp,y:char(3)>>>,"
    "mm:map<int,map<string,array<decimal(20,3)>>>>"
)
FIRST, LAST = -62135596800, 253402300799


def _double(bits: str) -> float:
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    return float(value)


def extreme_rows() -> list[tuple[Any, ...]]:
    nines = "9" * 28 + "." + "9" * 10
    nan_inside = (3, [((FIRST, 1), "a  "), None, ((-2, 500_000_000), "   ")])
    nested = {-1: {"k": ["0.001", None]}, 0: {}, 1: None}
    numbers = [
        (True, -128, -32768, -(2**31), -(2**63), -0.0, -0.0),
        (False, 127, 32767, 2**31 - 1, 2**63 - 1, math.inf, math.inf),
        (None,) * 7,
        (True, 0, 0, 0, 0, math.nan, math.nan),
        (None, 1, 1, 1, 1, 2.0**-126, _double("0000000000000001")),
        (False, -1, -1, -1, -1, -math.inf, -math.inf),
    ]
    texts_and_times = [
        ("", "     ", "", b"", -719162, (FIRST, 0), (FIRST, 1)),
        ("é漢𝄞", "é    ", "é漢", b"\0\xff", 2932896, (LAST, 999_999_999), (LAST, 999_999_999)),
        (None,) * 7,
        ("a\0b", "ab   ", "a ", b"x" * 300, 0, (-2, 500_000_000), (-62135, 1)),
        (" ", "x    ", " ", b"\0", -141428, (0, 1), (1420070400, 1000)),
        ("z" * 1500, "zzzzz", "zzzzzzz", b"", -141427, (1420070399, 999_999), (-1_000_000, 0)),
    ]
    decimals_and_nested = [
        ("-999.99", "-0." + "9" * 18, "-" + nines, [], {}, (None, []), {}),
        ("999.99", "0." + "9" * 18, nines, [None, 0, None], {"": math.nan}, nan_inside, nested),
        (None,) * 7,
        ("0.00", "0." + "0" * 17 + "1", "0.0000000001", [2**31 - 1], {"x": -0.0, "y": None}, None, {5: {"": []}}),
        ("0.01", "0." + "1" * 18, "1.0000000000", [], {"a": 1.0}, (0, None), None),
        ("-0.01", "0." + "0" * 18, "0.0000000000", None, None, (1, None), {}),
    ]
    return [(*chain.from_iterable(parts),) for parts in zip(numbers, texts_and_times, decimals_and_nested, strict=True)]


def extreme_table(location: Path, codec: str) -> str:
    """Six transactions of extreme rows in row groups of two and three stripes each, and one that deletes a few."""
    rows = extreme_rows()
    layout = tables.Layout(compression=codec, stripe_size=1, stride=2, batch=5, block=1024)
    gone = []
    for write_id in range(1, 7):
        inserted = tables.inserts(write_id, rows[write_id - 1 :] + rows + rows)
        tables.write_dir(location, tables.delta_name(write_id, write_id), COLUMNS, inserted, layout)
        gone += [event[1:4] for event in inserted if write_id % 2 and event[3] % 4 == 1]
    tables.write_dir(location, tables.delta_name(7, 7, delete=True), COLUMNS, tables.deletes(7, gone), layout)
    return "default.extremes:7:9223372036854775807::"


@pytest.mark.pairs
@pytest.mark.parametrize("settings", [pytest.param(REWRITE_ALL, id="rewrite"), pytest.param(COPY_ALL, id="copy")])
@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("codec", list(tables.KINDS))
def test_extreme_values(
    codec: str, kind: CompactionType, generation: int, settings: RewriteSettings, tmp_path: Path
) -> None:
    location = tmp_path / "table"
    ids = extreme_table(location, codec)
    before = merge.read(location, ids, generation=generation)
    assert "f:8000000000000000" in repr(before)  # -0.0
    result = compact_directory(location, kind, ids, generation, None, settings=settings)
    assert merge.read(location, ids, generation=generation, strict=True) == before
    copied = sum(unit.stripes_copied for unit in result.results)
    assert (copied > 0) is (settings is COPY_ALL)
    for path in bucket_files(location, result.directories):
        assert statistics_problems(path, generation, copied=copied > 0) == []


@pytest.mark.java
@pytest.mark.parametrize(
    ("codec", "generation", "settings"),
    [
        ("none", 4, REWRITE_ALL),  # Java cannot prune in the uncompressed files of pyorc, hence not in copies of them
        ("zlib", 3, REWRITE_ALL),
        ("zlib", 4, COPY_ALL),
        ("snappy", 4, REWRITE_ALL),
        ("lz4", 3, REWRITE_ALL),
        ("zstd", 4, REWRITE_ALL),
    ],
)
def test_java_reads_extreme_values(
    codec: str, generation: int, settings: RewriteSettings, java: JavaOrc, tmp_path: Path
) -> None:
    location = tmp_path / "table"
    ids = extreme_table(location, codec)
    result = compact_directory(location, MAJOR, ids, generation, settings=settings)
    [path] = bucket_files(location, result.directories)
    assert java_problems(java, path) == []
    assert len(list(canonical_rows(path))) == result.results[0].rows_out
