"""Options and metadata of a result file; nothing is left of one whose proof fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from acid_inputs import COLUMNS
from compaction import MAJOR, MINOR, bucket_files, compact_directory, plan
from judges import merge, tables
from judges import orc_tail as o
from orc_memory import tail_of, tree

from acidlib.acid.names import Generation
from acidlib.errors import CorruptError
from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings, UnitResult
from acidlib.orc.proto import Compression
from acidlib.orc.reader import ORC_14, ORC_135, ORC_517, Tail
from acidlib.rewrite.bucket import BucketWriter, run_unit
from acidlib.rewrite.output import file_options
from acidlib.rows.files import acid_metadata
from acidlib.stores.renaming.local import LocalDataFiles

HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4
SETTINGS = RewriteSettings(stride=4000, block_bytes=1 << 15, compression="ZSTD")
ROOT = tree("struct<a:int>")
BASE = tail_of(tables.orc_bytes("struct<a:int>", [(1,)]))
ZLIB, SNAPPY, ZSTD, NONE = Compression.ZLIB, Compression.SNAPPY, Compression.ZSTD, Compression.NONE


def tail(length: int, **changes: Any) -> Tail:
    """A file of Java's writer: zlib, 64 KiB blocks, stride 10,000, as long as said."""
    values: dict[str, Any] = {
        "compression": ZLIB,
        "block_size": 1 << 16,
        "stride": 10_000,
        "writer": 0,
        "writer_version": ORC_517,
        "calendar": 0,
    }
    return replace(BASE, length=length, **{**values, **changes})


def stated(**values: Any) -> RewriteSettings:
    return RewriteSettings(**values, stated=frozenset(values))


# So Hive 3.1's minor compaction writes: uncompressed, whatever the table says
WITHOUT_INDEX = tail(1000, compression=NONE, block_size=0, stride=0)
# tails, settings, generation; the fields of the result's options
OPTIONS: dict[str, tuple[list[Tail], RewriteSettings, Generation, dict[str, Any]]] = {
    "codec and stride of most bytes": (
        [tail(100), tail(60, compression=SNAPPY, stride=500), tail(50, compression=SNAPPY)],
        SETTINGS,
        HIVE3,
        {"compression": SNAPPY, "stride": 10_000, "reader": HIVE3},
    ),
    "files without row index do not decide": (
        [tail(10), WITHOUT_INDEX],
        SETTINGS,
        HIVE3,
        {"compression": ZLIB, "stride": 10_000, "block_size": 1 << 16},
    ),
    "a file without row index alone": (
        [WITHOUT_INDEX],
        SETTINGS,
        HIVE3,
        {"compression": ZSTD, "stride": 4000, "block_size": 1 << 15},
    ),
    "no input": (
        [],
        SETTINGS,
        HIVE3,
        {"compression": ZSTD, "stride": 4000, "block_size": 1 << 15, "calendar": 0, "root": ROOT},
    ),
    "a codec that is only read": (
        [tail(100, compression=Compression.LZO), tail(1)],
        SETTINGS,
        HIVE3,
        {"compression": ZLIB},
    ),
    "the largest block of the codec": (
        [tail(100), tail(100, block_size=1 << 18), tail(1, compression=SNAPPY, block_size=1 << 20)],
        SETTINGS,
        HIVE3,
        {"block_size": 1 << 18},
    ),
    "the calendar of most bytes": (
        [tail(10, calendar=2), tail(9)],
        SETTINGS,
        HIVE4,
        {"calendar": 2, "reader": HIVE4},
    ),
    "what is stated wins": (
        [tail(1 << 30)],
        stated(compression="ZSTD", stride=5000),
        HIVE4,
        {"compression": ZSTD, "stride": 5000},
    ),
    "a codec alone": ([tail(9)], stated(compression="NONE"), HIVE4, {"compression": NONE, "stride": 10_000}),
    "a stride alone": ([tail(9)], stated(stride=5000), HIVE4, {"compression": ZLIB, "stride": 5000}),
    **{
        f"versions {versions} for {generation.name}": (
            [tail(10, writer_version=version) for version in versions],
            SETTINGS,
            generation,
            {"writer_version": expected},
        )
        for versions, generation, expected in (
            ([], HIVE3, ORC_517),
            ([], HIVE4, ORC_14),
            ([ORC_14], HIVE3, ORC_517),
            ([ORC_14, ORC_135, ORC_517], HIVE4, ORC_135),
            ([ORC_14, ORC_135 - 1], HIVE4, ORC_14),
        )
    },
    "versions of another writer": ([tail(10, writer=1, writer_version=1)], SETTINGS, HIVE4, {"writer_version": ORC_14}),
    **{
        f"blocks {blocks} where {settings.block_bytes} are set ({number})": (
            [tail(9, block_size=size) for size in blocks],
            settings,
            HIVE4,
            {"block_size": expected},
        )
        for number, (settings, blocks, expected) in enumerate(
            (
                (RewriteSettings(block_bytes=1 << 18), [1 << 16], 1 << 16),
                (stated(block_bytes=1 << 18), [1 << 16], 1 << 18),
                (stated(block_bytes=3141), [1 << 16, 1 << 14, 2048], 3141),
                # larger than Java's writer would make them, and within what is stated
                (stated(block_bytes=1 << 20), [1 << 19, (1 << 20) + 1], 1 << 19),
                (stated(block_bytes=1 << 20), [], 1 << 18),
                (stated(block_bytes=1 << 20, stripe_bytes=1 << 20), [], 1 << 15),
                (replace(stated(block_bytes=1 << 20), block_enforced=True), [], 1 << 20),
            )
        )
    },
}


@pytest.mark.parametrize("case", OPTIONS.values(), ids=OPTIONS)
def test_options(case: tuple[list[Tail], RewriteSettings, Generation, dict[str, Any]]) -> None:
    tails, settings, generation, expected = case
    found = file_options(ROOT, tails, generation, settings)
    assert {name: getattr(found, name) for name in expected} == expected


def test_the_metadata_is_what_hives_readers_parse() -> None:
    found = acid_metadata([(1, 536870912, 9), (5, 536870912, 0)], inserts=12, deletes=0)
    assert found == {
        "hive.acid.version": b"2",
        "hive.acid.key.index": b"1,536870912,9;5,536870912,0;",
        "hive.acid.stats": b"12,0,0",
    }
    assert acid_metadata([], inserts=0, deletes=7)["hive.acid.stats"] == b"0,0,7"
    assert acid_metadata([], inserts=0, deletes=0)["hive.acid.key.index"] == b""


def table(location: Path) -> Path:
    for write_id in (1, 2, 3):
        rows = [(i, f"row {i}") for i in range(write_id * 3000)]
        tables.write_dir(location, tables.delta_name(write_id, write_id), COLUMNS, tables.inserts(write_id, rows))
    return location


def compact(location: Path, settings: RewriteSettings) -> tuple[UnitResult, o.OrcFile]:
    made = compact_directory(location, MAJOR, generation=4, settings=replace(settings, copy_bytes=0))
    (path,) = bucket_files(location, made.directories)
    return made.results[0], o.read_orc(path)


def test_what_is_stated_costs_one_recoding_and_then_none(tmp_path: Path) -> None:
    location = table(tmp_path / "t")
    before = merge.read(location, generation=4)
    other = stated(compression="SNAPPY", stride=1000, block_bytes=3141)
    result, file = compact(location, other)
    assert (result.stripes_copied, result.stripes_rewritten) == (0, 3)
    assert "compressed with ZLIB, not SNAPPY" in result.actions[0].reason
    assert (file.compression, file.stride, file.block) == (int(SNAPPY), 1000, 3141)
    assert merge.read(location, generation=4, strict=True) == before

    tables.write_dir(location, tables.delta_name(4, 4), COLUMNS, tables.inserts(4, [(1, "x")]))
    result, file = compact(location, other)
    assert (result.stripes_copied, result.stripes_rewritten) == (1, 1)
    assert (file.compression, file.stride) == (int(SNAPPY), 1000)


def test_delete_files_have_the_tables_columns_too(tmp_path: Path) -> None:
    location = table(tmp_path / "t")
    for write_id in (4, 5):
        gone = tables.deletes(write_id, [(1, 536870912, write_id)])
        tables.write_dir(location, tables.delta_name(write_id, write_id, delete=True), COLUMNS, gone)
    made = compact_directory(location, MINOR, generation=4, row_type="struct<b:bigint,t:string,more:date>")
    assert len(made.results[0].notes) == 1
    types = [o.read_orc(path).types for path in bucket_files(location, made.directories)]
    assert len(types) == 2
    assert types[0] == types[1]
    assert types[0][types[0][0].children[5]].names == ("b", "t", "more")


@pytest.mark.parametrize("kind", [MAJOR, MINOR])
def test_nothing_is_left_of_a_file_whose_proof_fails(
    tmp_path: Path, kind: CompactionType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for write_id in (1, 2):
        tables.write_dir(tmp_path, tables.delta_name(write_id, write_id), COLUMNS, tables.inserts(write_id, [(1, "x")]))
    gone = tables.deletes(3, [(1, tables.bucket_property(0, 0), 0)])
    tables.write_dir(tmp_path, tables.delta_name(3, 3, delete=True), COLUMNS, gone)
    _, units = plan(tmp_path, kind)
    assert [unit.is_delete for unit in units] == ([False] if kind is MAJOR else [False, True])

    def fail(*_: Any) -> None:
        raise CorruptError("Cannot publish: the proof fails")

    monkeypatch.setattr(BucketWriter, "prove", fail)
    for unit in units:
        path = tmp_path / "_tmp_x" / unit.directory / unit.file_name
        path.parent.mkdir(parents=True)
        with pytest.raises(CorruptError, match="the proof"):
            run_unit(unit, LocalDataFiles(), str(path))
        assert not path.exists()
