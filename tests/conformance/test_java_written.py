"""Compaction of files that Java's own ORC writer made: what neither pyorc nor the tables of Hive contain."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compaction import MAJOR, MINOR, Compacted, bucket_files, compact_directory
from judges import java_files
from judges import orc_tail as o
from judges.java_files import Options
from judges.java_orc import JavaOrc
from judges.merge import bucket_property
from judges.tables import delta_name, inserts

from acidlib.errors import RefusedError
from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings
from conformance.checks import java_problems, statistics_problems
from conformance.java_tables import BASE_ROWS, BLOOM, COLUMNS, Written, one_delta_each, row, rows, visible, write_table

pytestmark = pytest.mark.java

COPY = RewriteSettings(copy_bytes=0)
RECODE = RewriteSettings(copy_bytes=1 << 40)

LAYOUTS: dict[str, tuple[Options, ...]] = {
    "zlib": (Options(stripe_rows=2048),),
    "bloom": (Options(stripe_rows=2048, bloom=BLOOM), Options(bloom=BLOOM, bloom_version="original")),
    "no-index-below-zlib": (Options(stride=0, compression="none"), Options()),
    "0.11": (Options(version="0.11", compression="snappy", block=4096),),
    "unsorted-dictionaries": (
        Options(compression="lz4", dictionary_impl="hash", timezone="Asia/Kolkata", stripe_rows=2048, dictionary=1.0),
    ),
    "originals": (Options(compression="zstd", stride=10_000, decimal64=True), Options(compression="zstd", block=1024)),
    "proleptic": (Options(compression="none", proleptic=True, dictionary=0.0, stripe_rows=2048),),
}

MakeTable = Callable[[str], Written]


@pytest.fixture(scope="module")
def made(java: JavaOrc, tmp_path_factory: pytest.TempPathFactory) -> MakeTable:
    """The table of a layout, written once; not to be changed."""
    found: dict[str, Written] = {}

    def make(layout: str) -> Written:
        if layout not in found:
            location = tmp_path_factory.mktemp(layout) / "table"
            found[layout] = write_table(java, location, *LAYOUTS[layout], original=layout == "originals")
        return found[layout]

    return make


@pytest.mark.parametrize("layout", LAYOUTS)
def test_java_reads_what_java_wrote(layout: str, made: MakeTable, java: JavaOrc) -> None:
    """The premise of all below: the tables hold the rows they should."""
    table = made(layout)
    if layout == "originals":
        assert java.rows(table.location / "000000_0") == rows(0, BASE_ROWS)[:2048]
    else:
        found = java.rows(table.location / "base_0000001" / "bucket_00000")
        assert [event[5] for event in found] == rows(0, BASE_ROWS)
    seen = visible(java, table.before, table.aborted, location=table.location)
    assert len(seen) == BASE_ROWS + 1100 + 300 + 40 - 51 - 5


@pytest.mark.parametrize("settings", [pytest.param(COPY, id="copy"), pytest.param(RECODE, id="recode")])
@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("kind", [MAJOR, MINOR], ids=["major", "minor"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_java_sees_the_same_rows(
    layout: str,
    kind: CompactionType,
    generation: int,
    settings: RewriteSettings,
    made: MakeTable,
    java: JavaOrc,
    tmp_path: Path,
) -> None:
    table = made(layout)
    before = visible(java, table.before, table.aborted, location=table.location)
    location = tmp_path / "table"
    shutil.copytree(table.location, location)
    compacted = compact_directory(
        location, kind, table.write_ids, generation, 77 if generation == 4 else None, settings=settings
    )
    outputs = [location / name for name in compacted.directories]
    if kind is MAJOR:
        assert visible(java, outputs) == before
    else:
        below = [location / "base_0000001"] if layout != "originals" else []
        assert visible(java, [*below, *outputs], location=location) == before
    # every pair of kind and settings is judged, each under one generation
    if generation == (4 if (kind is MAJOR) == (settings is COPY) else 3):
        judge(compacted, location, generation, java)


def judge(compacted: Compacted, location: Path, generation: int, java: JavaOrc) -> None:
    """Exact statistics, seeks and search arguments of every file."""
    for result in compacted.results:
        [path] = [p for p in bucket_files(location, [result.directory]) if p.name == f"bucket_{result.bucket:05d}"]
        assert statistics_problems(path, generation, copied=result.stripes_copied > 0) == []
        assert java_problems(java, path) == []


@pytest.mark.parametrize("layout", ["zlib", "unsorted-dictionaries", "proleptic"])
def test_whole_stripes_are_copied(layout: str, made: MakeTable, java: JavaOrc, tmp_path: Path) -> None:
    location = tmp_path / "table"
    shutil.copytree(made(layout).location, location)
    compacted = compact_directory(location, MAJOR, made(layout).write_ids, 4, settings=COPY)
    reasons = [(action.copy, action.rows) for action in compacted.results[0].actions]
    assert reasons == [(True, 2048), (False, 452 + 1100), (False, 0), (True, 300)] or reasons[0] == (True, 2048)
