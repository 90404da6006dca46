"""What a property states wins over what the inputs have; nothing is recoded for a default. Units carry columns."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from acid_inputs import COLUMNS
from compaction import MAJOR, MINOR, bucket_files, compact_directory, plan
from judges import merge, tables
from judges import orc_tail as o
from orc_memory import tail_of, tree

from acidlib.model.names import Generation
from acidlib.model.units import RewriteSettings, UnitResult
from acidlib.orc.proto import Compression
from acidlib.orc.reader import Tail
from acidlib.orc.writer import FileOptions
from acidlib.rewrite.output import file_options

BASE = tail_of(tables.orc_bytes("struct<a:int>", [(1,)]))


def tail(length: int, **changes: Any) -> Tail:
    """A file of zlib, 64 KiB blocks and a stride of 10,000."""
    values: dict[str, Any] = {"compression": Compression.ZLIB, "block_size": 1 << 16, "stride": 10_000}
    return replace(BASE, length=length, **{**values, **changes})


def stated(**values: Any) -> RewriteSettings:
    return RewriteSettings(**values, stated=frozenset(values))


def options(settings: RewriteSettings, *tails: Tail) -> FileOptions:
    return file_options(tree("struct<a:int>"), tails, Generation.HIVE4, settings)


def test_a_stated_codec_and_stride_win_over_all_bytes() -> None:
    found = options(stated(compression="ZSTD", stride=5000), tail(1 << 30))
    assert (found.compression, found.stride) == (Compression.ZSTD, 5000)
    assert options(stated(compression="NONE"), tail(9)).stride == 10_000
    assert options(stated(stride=5000), tail(9)).compression is Compression.ZLIB
    unstated = options(RewriteSettings(compression="ZSTD", stride=5000), tail(9))
    assert (unstated.compression, unstated.stride) == (Compression.ZLIB, 10_000)


@pytest.mark.parametrize(
    ("settings", "blocks", "expected"),
    [
        (RewriteSettings(block_bytes=1 << 18), [1 << 16], 1 << 16),
        (stated(block_bytes=1 << 18), [1 << 16], 1 << 18),
        (stated(block_bytes=3141), [1 << 16, 1 << 14, 2048], 3141),
        (stated(block_bytes=1 << 15), [1 << 16, 1 << 14], 1 << 15),
        # larger than Java's writer would make them, and within what is stated
        (stated(block_bytes=1 << 20), [1 << 19, (1 << 20) + 1], 1 << 19),
        (stated(block_bytes=1 << 20), [], 1 << 18),
        (stated(block_bytes=1 << 20, stripe_bytes=1 << 20), [], 1 << 15),
        (replace(stated(block_bytes=1 << 20), block_enforced=True), [], 1 << 20),
        (stated(block_bytes=1 << 12), [], 1 << 12),
        (stated(block_bytes=1 << 12, compression="SNAPPY"), [1 << 16], 1 << 12),
    ],
)
def test_blocks_are_no_larger_than_stated_and_else_the_largest_of_the_inputs(
    settings: RewriteSettings, blocks: list[int], expected: int
) -> None:
    assert options(settings, *(tail(9, block_size=size) for size in blocks)).block_size == expected


def table(location: Path) -> Path:
    for write_id in (1, 2, 3):
        rows = [(i, f"row {i}") for i in range(write_id * 3000)]
        tables.write_dir(location, tables.delta_name(write_id, write_id), COLUMNS, tables.inserts(write_id, rows))
    return location


def compact(location: Path, settings: RewriteSettings) -> tuple[UnitResult, o.OrcFile]:
    made = compact_directory(location, MAJOR, generation=4, settings=settings)
    (path,) = bucket_files(location, made.directories)
    return made.results[0], o.read_orc(path)


COPY = RewriteSettings(copy_bytes=0)


def test_what_is_stated_costs_one_recoding_and_then_none(tmp_path: Path) -> None:
    location = table(tmp_path / "t")
    before = merge.read(location, generation=4)
    snappy = replace(COPY, compression="SNAPPY", stride=1000, stated=frozenset({"compression", "stride"}))
    result, file = compact(location, snappy)
    assert (result.stripes_copied, result.stripes_rewritten) == (0, 3)
    assert "compressed with ZLIB, not SNAPPY" in result.actions[0].reason
    assert (file.compression, file.stride) == (int(Compression.SNAPPY), 1000)
    assert merge.read(location, generation=4, strict=True) == before

    tables.write_dir(location, tables.delta_name(4, 4), COLUMNS, tables.inserts(4, [(1, "x")]))
    result, file = compact(location, snappy)
    assert (result.stripes_copied, result.stripes_rewritten) == (1, 1)
    assert (file.compression, file.stride) == (int(Compression.SNAPPY), 1000)


def test_larger_blocks_than_stated_are_made_smaller_once(tmp_path: Path) -> None:
    location = table(tmp_path / "t")
    before = merge.read(location, generation=4)
    small = replace(COPY, block_bytes=3141, stated=frozenset({"block_bytes"}))
    result, file = compact(location, small)
    assert (result.stripes_copied, result.stripes_rewritten, file.block) == (0, 3, 3141)
    assert "compression blocks of 65,536 bytes, above 3,141" in result.actions[0].reason
    assert merge.read(location, generation=4, strict=True) == before

    more = tables.inserts(4, [(1, "x")])
    tables.write_dir(location, tables.delta_name(4, 4), COLUMNS, more, tables.Layout(block=2048))
    result, file = compact(location, small)
    assert (result.stripes_copied, result.stripes_rewritten, file.block) == (2, 0, 3141)


def test_a_stated_value_that_the_inputs_have_costs_nothing(tmp_path: Path) -> None:
    same = replace(
        COPY,
        compression="ZLIB",
        stride=10_000,
        block_bytes=1 << 16,
        stated=frozenset({"compression", "stride", "block_bytes"}),
    )
    result, _ = compact(table(tmp_path / "t"), same)
    assert (result.stripes_copied, result.stripes_rewritten) == (3, 0)


def test_without_a_statement_the_inputs_decide(tmp_path: Path) -> None:
    result, file = compact(table(tmp_path / "t"), replace(COPY, compression="SNAPPY", stride=1000))
    assert (result.stripes_copied, result.stripes_rewritten) == (3, 0)
    assert (file.compression, file.stride) == (int(Compression.ZLIB), 10_000)


@pytest.mark.parametrize("kind", [MAJOR, MINOR])
def test_every_unit_carries_the_tables_columns(kind: Any, tmp_path: Path) -> None:
    location = table(tmp_path / "t")
    tables.write_dir(location, tables.delta_name(4, 4, delete=True), COLUMNS, tables.deletes(4, [(1, 536870912, 0)]))
    _, units = plan(location, kind, generation=4, row_type="struct<a:bigint,s:string>")
    assert {unit.row_type for unit in units} == {"struct<a:bigint,s:string>"}
    assert pickle.loads(pickle.dumps(units)) == units
    assert {unit.row_type for unit in plan(location, kind, generation=4)[1]} == {None}


def test_delete_files_have_the_tables_columns_too(tmp_path: Path) -> None:
    location = table(tmp_path / "t")
    for write_id in (4, 5):
        gone = tables.deletes(write_id, [(1, 536870912, write_id)])
        tables.write_dir(location, tables.delta_name(write_id, write_id, delete=True), COLUMNS, gone)
    before = merge.read(location, generation=4)
    made = compact_directory(location, MINOR, generation=4, row_type="struct<b:bigint,t:string,more:date>")
    assert len(made.results[0].notes) == 1
    types = [o.read_orc(path).types for path in bucket_files(location, made.directories)]
    assert len(types) == 2
    assert types[0] == types[1]
    assert types[0][types[0][0].children[5]].names == ("b", "t", "more")
    found = merge.read(location, generation=4, strict=True)
    assert found == [(*row[:3], (*row[3], None)) for row in before]
