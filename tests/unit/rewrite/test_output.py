"""Options, metadata and the proof of a result file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compaction import MAJOR, MINOR, plan
from judges import tables
from orc_memory import tail_of, tree

from acidlib.errors import CorruptError
from acidlib.model.names import Generation
from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings
from acidlib.orc.proto import Compression
from acidlib.orc.reader import ORC_14, ORC_135, ORC_517, Tail
from acidlib.orc.writer import FileOptions
from acidlib.rewrite.bucket import BucketWriter, run_unit
from acidlib.rewrite.inputs import acid_metadata
from acidlib.rewrite.output import file_options
from acidlib.stores.renaming.local import LocalDataFiles

HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4
SETTINGS = RewriteSettings(stride=4000, block_bytes=1 << 15, compression="ZSTD")
ROOT = tree("struct<a:int>")
BASE = tail_of(tables.orc_bytes("struct<a:int>", [(1,)]))


def tail(length: int, **changes: Any) -> Tail:
    """A file of Java's writer: zlib, 64 KiB blocks, stride 10,000, as long as said."""
    values: dict[str, Any] = {
        "compression": Compression.ZLIB,
        "block_size": 1 << 16,
        "stride": 10_000,
        "writer": 0,
        "writer_version": ORC_517,
        "calendar": 0,
    }
    return replace(BASE, length=length, **{**values, **changes})


def options(*tails: Tail, generation: Generation = HIVE3, settings: RewriteSettings = SETTINGS) -> FileOptions:
    return file_options(ROOT, tails, generation, settings)


def test_codec_and_stride_are_those_of_most_bytes() -> None:
    found = options(
        tail(100), tail(60, compression=Compression.SNAPPY, stride=500), tail(50, compression=Compression.SNAPPY)
    )
    assert (found.compression, found.stride) == (Compression.SNAPPY, 10_000)


def test_files_without_row_index_do_not_decide() -> None:
    """So Hive 3.1's minor compaction writes: uncompressed, whatever the table says."""
    minor = tail(1000, compression=Compression.NONE, block_size=0, stride=0)
    found = options(tail(10), minor)
    assert (found.compression, found.stride, found.block_size) == (Compression.ZLIB, 10_000, 1 << 16)
    alone = options(minor)
    assert (alone.compression, alone.stride, alone.block_size) == (Compression.ZSTD, 4000, 1 << 15)


def test_without_any_input_the_settings_count() -> None:
    found = options()
    assert (found.compression, found.stride, found.block_size) == (Compression.ZSTD, 4000, 1 << 15)
    assert (found.writer_version, found.calendar, found.root) == (ORC_517, 0, ROOT)


def test_a_codec_that_is_only_read_is_not_written() -> None:
    assert options(tail(100, compression=Compression.LZO), tail(1)).compression is Compression.ZLIB


def test_the_block_is_the_largest_of_the_codec() -> None:
    large = tail(1, compression=Compression.SNAPPY, block_size=1 << 20)
    assert options(tail(100), tail(100, block_size=1 << 18), large).block_size == 1 << 18


@pytest.mark.parametrize(
    ("versions", "generation", "expected"),
    [
        ([], HIVE3, ORC_517),
        ([], HIVE4, ORC_14),
        ([ORC_14], HIVE3, ORC_517),
        ([ORC_14], HIVE4, ORC_14),
        ([ORC_14, ORC_135, ORC_517], HIVE4, ORC_135),
        ([ORC_14, ORC_135 - 1], HIVE4, ORC_14),
    ],
)
def test_the_writer_version_is_the_lowest_that_may_be_copied_and_known_to_the_readers(
    versions: list[int], generation: Generation, expected: int
) -> None:
    found = options(*(tail(10, writer_version=version) for version in versions), generation=generation)
    assert found.writer_version == expected
    other = options(tail(10, writer=1, writer_version=1), generation=generation)
    assert other.writer_version == (ORC_517 if generation is HIVE3 else ORC_14)


def test_the_calendar_is_that_of_most_bytes_and_the_rules_those_of_the_generation() -> None:
    found = options(tail(10, calendar=2), tail(9, calendar=0), generation=HIVE4)
    assert (found.calendar, found.generation) == (2, Generation.HIVE4)
    assert options(tail(10)).generation is Generation.HIVE3


def test_the_metadata_is_what_hives_readers_parse() -> None:
    found = acid_metadata([(1, 536870912, 9), (5, 536870912, 0)], inserts=12, deletes=0)
    assert found == {
        "hive.acid.version": b"2",
        "hive.acid.key.index": b"1,536870912,9;5,536870912,0;",
        "hive.acid.stats": b"12,0,0",
    }
    assert acid_metadata([], inserts=0, deletes=7)["hive.acid.stats"] == b"0,0,7"
    assert acid_metadata([], inserts=0, deletes=0)["hive.acid.key.index"] == b""


@pytest.mark.parametrize("kind", [MAJOR, MINOR])
def test_nothing_is_left_of_a_file_whose_proof_fails(
    tmp_path: Path, kind: CompactionType, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns, bucket = "struct<a:int>", tables.bucket_property(0, 0)
    for write_id in (1, 2):
        name = tables.delta_name(write_id, write_id)
        tables.write_dir(tmp_path, name, columns, tables.inserts(write_id, [(1,), (2,)]))
    gone = tables.deletes(3, [(1, bucket, 0)])
    tables.write_dir(tmp_path, tables.delta_name(3, 3, delete=True), columns, gone)
    _, units = plan(tmp_path, kind)
    assert [unit.is_delete for unit in units] == ([False] if kind is MAJOR else [False, True])
    for unit in units:
        path = tmp_path / "_tmp_x" / unit.directory / unit.file_name
        path.parent.mkdir(parents=True)
        assert run_unit(unit, LocalDataFiles(), str(path), lambda: 0.0).path == str(path)
        path.unlink()
        with monkeypatch.context() as patch:
            patch.setattr(BucketWriter, "prove", _fail)
            with pytest.raises(CorruptError, match="the proof"):
                run_unit(unit, LocalDataFiles(), str(path), lambda: 0.0)
        assert not path.exists()


def _fail(*_: Any) -> None:
    raise CorruptError("Cannot publish: because the proof fails")
