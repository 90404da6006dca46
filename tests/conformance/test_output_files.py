"""Two judges beside the naive reader on every file that was written: exact statistics, and Java's reader."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from compaction import MAJOR, MINOR, bucket_files, compact_directory
from judges import java_files, merge, tables
from judges import orc_tail as o
from judges.java_orc import JavaOrc
from long_runs import in_a_long_run
from orc_memory import tree

from acidlib.acid.names import Generation
from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings
from acidlib.rewrite.output import file_options
from conformance.checks import java_problems, statistics_problems, statistics_report
from conformance.conftest import Case, Compaction
from conformance.hive_tables import HiveTable, hive_tables_by_kind

KINDS = [pytest.param(MAJOR, id="major"), pytest.param(MINOR, id="minor")]
BY_KIND = [pytest.param(table, kind, id=f"{table}-{kind.label.lower()}") for table, kind in hive_tables_by_kind()]


@pytest.mark.parametrize(("table", "kind"), BY_KIND)
def test_every_statistic_is_exact(table: HiveTable, kind: CompactionType, compacted: Compaction) -> None:
    case = compacted(table, kind)
    assert case.files or not case.before
    for path, copied in files_with_copies(case):
        report = statistics_report(path, table.generation, copied=copied)
        assert report.problems == [], path
        assert report.checked >= 9 * report.stripes


def files_with_copies(case: Case) -> list[tuple[Path, bool]]:
    """Each file, and whether another writer's stripe was copied into it."""
    copied = {(r.directory, r.bucket) for r in case.compacted.results if r.stripes_copied}
    return [(p, (p.parent.name, int(p.name.removeprefix("bucket_"))) in copied) for p in case.files]


@pytest.mark.java
@pytest.mark.parametrize(("table", "kind"), BY_KIND)
def test_java_reads_seeks_and_prunes(
    table: HiveTable, kind: CompactionType, compacted: Compaction, java: JavaOrc
) -> None:
    for path in compacted(table, kind).files:
        assert java_problems(java, path) == [], path


# --- many row groups and stripes --------------------------------------------------------------------------------------

COLUMNS = (
    "struct<id:int,big:bigint,small:smallint,tiny:tinyint,s:string,v:varchar(9),c:char(6),d:double,n:decimal(20,4),"
    "ts:timestamp,day:date,ok:boolean,li:array<int>,m:map<string,bigint>,st:struct<x:int,y:string>>"
)


def wide_row(i: int, rng: random.Random) -> tuple[Any, ...]:
    null = i % 11 == 3 or i >= 2900  # the last row groups hold nothing but nulls in some columns
    return (
        i,
        None if null else (i - 2000) * 10**12 + rng.randrange(1000),
        None if null else i % 30_000 - 5000,
        i // 40 - 50,
        None if null else f"name {i // 7:06d} é",
        f"v{i % 13}",
        f"{chr(97 + i // 200)}x".ljust(6),
        i / 3 - 1000,
        f"{i}.{rng.randrange(10_000):04d}",
        (1_500_000_000 + i * 61, rng.choice([0, 1000, 123_456_789])),
        None if null else 17_000 + i // 10,
        i < 2100,
        None if null else [i, None, rng.randrange(-(2**31), 2**31)],
        {f"k{rng.randrange(5)}": i},
        None if null else (i, f"y{rng.random()}"),
    )


def wide_table(location: Path, codec: str) -> None:
    """A base of 1500 rows, two deltas of 750, every seventh row of the base and some of a delta deleted."""
    rng = random.Random(3)
    rows = [wide_row(i, rng) for i in range(3000)]
    layout = tables.Layout(compression=codec, stripe_size=1, stride=100, batch=500, block=4096, dictionary=0.5)
    tables.write_base(location, 1, COLUMNS, tables.inserts(1, rows[:1500]), layout)
    for write_id, part in ((2, rows[1500:2250]), (3, rows[2250:])):
        tables.write_dir(
            location, tables.delta_name(write_id, write_id), COLUMNS, tables.inserts(write_id, part), layout
        )
    keys = [(1, 536870912, i) for i in range(0, 1000, 7)] + [(3, 536870912, i) for i in (0, 1, 2, 700)]
    tables.write_dir(location, tables.delta_name(4, 4, delete=True), COLUMNS, tables.deletes(4, keys), layout)


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize(
    ("generation", "codec", "settings"),
    [
        # by what becomes of the stripes; the generation decides nothing there
        pytest.param(3, "zlib", RewriteSettings(copy_bytes=0), id="3-some-copied", marks=in_a_long_run),
        pytest.param(4, "zlib", RewriteSettings(copy_bytes=0), id="4-some-copied"),
        pytest.param(3, "zlib", RewriteSettings(copy_bytes=1 << 40), id="3-joined"),
        pytest.param(4, "zstd", RewriteSettings(copy_bytes=1 << 40, stripe_bytes=60_000), id="4-some-joined"),
        pytest.param(3, "none", RewriteSettings(copy_bytes=1 << 40), id="3-uncompressed"),
    ],
)
def test_java_prunes_row_groups_and_loses_no_row(
    codec: str, settings: RewriteSettings, generation: int, java: JavaOrc, tmp_path: Path
) -> None:
    location = tmp_path / "table"
    wide_table(location, codec)
    before = merge.read(location, generation=generation)
    result = compact_directory(location, MAJOR, "", generation, settings=settings)
    assert merge.read(location, generation=generation, strict=True) == before
    [path] = bucket_files(location, result.directories)
    copied = result.results[0].stripes_copied > 0
    assert copied is (settings.copy_bytes == 0)
    assert statistics_problems(path, generation, copied=copied) == []
    assert java_problems(java, path) == []
    seeks = java.seek_check(path)
    assert seeks.tried > 28 * 3
    pruned = {found.column: found for found in (*java.sarg_check(path), *java.sarg_check_ids(path))}
    for name in ("id", "big", "s", "d", "n", "ts", "day", "rowId"):
        assert pruned[name].queries > 0
        assert pruned[name].rows_read < 0.8 * pruned[name].rows_total, pruned[name]


@pytest.mark.java
@pytest.mark.parametrize("codec", ["none", "zlib"])
def test_a_row_group_behind_the_last_value_can_be_sought(codec: str, java: JavaOrc, tmp_path: Path) -> None:
    """The last row group is all null, and its column's stream is full to the last byte of a compression block."""
    location = tmp_path / "table"
    columns = "struct<id:int,d:double>"
    layout = tables.Layout(compression=codec, stride=64, block=1024)
    for write_id in (1, 2):
        rows = [(i, i / 7) for i in range(64)] if write_id == 1 else [(i, i / 7 if i < 64 else None) for i in range(96)]
        tables.write_dir(
            location, tables.delta_name(write_id, write_id), columns, tables.inserts(write_id, rows), layout
        )
    result = compact_directory(location, MAJOR, generation=4, settings=RewriteSettings(copy_bytes=1 << 40))
    [path] = bucket_files(location, result.directories)
    file = o.read_orc(path)
    stream = file.stripes[0].stream(8, o.DATA)
    assert stream is not None
    assert len(file.stripes[0].row_index[8]) == 3
    assert o.packed(file.stripes[0].row_index[8][2][1])[-2 if codec == "zlib" else -1] < stream.length
    assert java_problems(java, path) == []


# --- the size of compression blocks -----------------------------------------------------------------------------------


@pytest.mark.java
@pytest.mark.parametrize("columns", [1, 200, 1000])
def test_a_stated_size_of_blocks_is_taken_as_by_javas_writer(columns: int, java: JavaOrc, tmp_path: Path) -> None:
    row = f"struct<{','.join(f'c{i}:int' for i in range(columns))}>"
    for number, (size, stripe, enforced) in enumerate(
        [(3141, 64 << 20, False), (1 << 20, 64 << 20, False), (1 << 18, 1 << 20, False), (1 << 15, 1 << 20, True)]
    ):
        wanted = java_files.Options(block=size, stripe_size=stripe, enforce=enforced)
        path = java_files.write_orc(java, tmp_path / str(number), row, [[1] * columns], wanted)
        ours = RewriteSettings(
            block_bytes=size, stripe_bytes=stripe, block_enforced=enforced, stated=frozenset({"block_bytes"})
        )
        assert file_options(tree(row), [], Generation.HIVE4, ours).block_size == o.read_orc(path).block


@pytest.mark.java
def test_java_reads_blocks_of_an_odd_size(java: JavaOrc, tmp_path: Path) -> None:
    wide_table(tmp_path, "zlib")
    before = merge.read(tmp_path, generation=3)
    settings = RewriteSettings(block_bytes=3141, copy_bytes=0, stride=1000, stated=frozenset({"block_bytes"}))
    [path] = bucket_files(tmp_path, compact_directory(tmp_path, MAJOR, generation=3, settings=settings).directories)
    assert o.read_orc(path).block == 3141
    assert merge.read(tmp_path, generation=3, strict=True) == before
    assert statistics_problems(path, 3) == []
    assert java_problems(java, path, max_groups=1) == []
