"""Streams that hold more than the values of their columns: Hive looks at nothing behind these, and neither do we.

Each file has the same surplus in all its streams at once, of ids and of values, but where Hive's readers differ. They
judge what is in a place, in a snapshot of it, and in its compactions, by copying and by recoding.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyorc
import pytest
from compaction import MAJOR, MINOR, bucket_files, compact_directory, join_plain_files
from judges import java_files, random_orc, surplus, tables
from judges import orc_tail as o
from judges.hive_reader import JudgeError, Row, hive_reader
from judges.java_orc import JavaOrc
from judges.merge import bucket_property
from judges.tables import Event, Layout
from long_runs import LONG, amount

from acidlib.acid.names import Generation
from acidlib.errors import CorruptError
from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings
from conformance.test_snapshot_types import differences, ours

pytestmark = [pytest.mark.java, pytest.mark.live]

COPY, RECODE = RewriteSettings(copy_bytes=0), RewriteSettings(copy_bytes=1 << 40)
FIELDS = (
    *("b:boolean", "t:tinyint", "s:smallint", "i:int", "l:bigint", "f:float", "d:double", "x:string", "v:varchar(9)"),
    *("c:char(5)", "z:binary", "n:decimal(9,2)", "w:decimal(38,10)", "ts:timestamp", "dt:date", "a:array<int>"),
    *("m:map<string,int>", "st:struct<p:int,q:string>", "e:string"),
)
TYPES = f"struct<{','.join(FIELDS)}>"
WITH_UNION = f"struct<{','.join(FIELDS)},u:uniontype<int,string>>"
"""As Java writes them: pyorc cannot write unions that are null."""

ROWS, MORE = 700, 350
GONE = [(1, bucket_property(0, 0), row) for row in range(0, ROWS, 7)]
LONGER_GONE = [(1, bucket_property(0, 0), row) for row in range(0, 2 * ROWS, 7)]
ENDLESS = "values that go on"
"""The surplus of streams of a file of more rows."""

Write = Callable[[list[Event]], bytes]
LAYOUTS: dict[str, Layout | java_files.Options] = {
    "pyorc, none": Layout(compression="none"),
    "pyorc, zlib, dictionaries": Layout(compression="zlib", dictionary=1.0),
    "pyorc, snappy": Layout(compression="snappy"),
    "pyorc, lz4, dictionaries": Layout(compression="lz4", dictionary=1.0),
    "Java, none, version 1, dictionaries": java_files.Options(version="0.11", compression="none", dictionary=1.0),
    "Java, zlib, version 1": java_files.Options(version="0.11", dictionary=0.0),
    "Java, none": java_files.Options(compression="none", dictionary=0.0),
    "Java, zlib, dictionaries": java_files.Options(dictionary=1.0),
    "pyorc, zstd, dictionaries": Layout(compression="zstd", dictionary=1.0),
}
NEW_CODECS = {"pyorc, zstd, dictionaries"}
"""That Hive 3.1 does not know."""

USUAL = {(3, "pyorc, lz4, dictionaries"), (4, "Java, none, version 1, dictionaries"), (4, "Java, zlib, dictionaries")}
CASES = [
    pytest.param(generation, layout, id=f"{generation}, {layout}")
    for layout in LAYOUTS
    for generation in (3, 4)
    if (generation == 4 or layout not in NEW_CODECS) and (LONG or (generation, layout) in USUAL)
]
NAMES = amount(("zeros", "ones", "a chunk", "a damaged chunk", "a cut header"), long=(*surplus.BYTES, *surplus.CHUNKS))
WAYS = amount([(MAJOR, RECODE), (MINOR, COPY)], long=[(kind, way) for kind in (MAJOR, MINOR) for way in (COPY, RECODE)])


def drawn(columns: str, count: int, seed: int) -> list[tuple[Any, ...]]:
    """Rows in canonical form, in which the last plain column is null."""
    found = random_orc.rows(random.Random(seed), columns, count, random_orc.Limits(modern=True))
    place = len(FIELDS) - 1
    return [(*row[:place], None, *row[place + 1 :]) for row in found]


def writer(java: JavaOrc, folder: Path, layout: Layout | java_files.Options) -> tuple[str, Write]:
    """The columns that a writer can write, and how it writes an ACID file."""
    if isinstance(layout, java_files.Options):
        schema = tables.acid_schema(WITH_UNION)

        def by_java(events: list[Event]) -> bytes:
            return java_files.write_orc(java, folder / "file.orc", schema, events, layout, acid=True).read_bytes()

        return WITH_UNION, by_java

    kind = pyorc.TypeDescription.from_string(tables.acid_schema(TYPES))
    return TYPES, lambda events: tables.acid_bytes(TYPES, [random_orc.raw(event, kind) for event in events], layout)


def seen(location: Path, generation: int, columns: str) -> list[Row]:
    """What Hive reads, row by row and in batches alike."""
    types = {name: str(kind) for name, kind in pyorc.TypeDescription.from_string(columns).fields.items()}
    by_row, in_batches = (hive_reader(generation).rows(location, types, vectorized=way) for way in (False, True))
    assert [row[:3] for row in by_row] == [row[:3] for row in in_batches]
    return by_row


class WrittenPlace:
    """A table of two deltas and deletes of rows of the first, whose files are given."""

    def __init__(self, location: Path) -> None:
        self.location = location

    def put(self, first: bytes, second: bytes, deletes: bytes) -> None:
        for number, data in enumerate((first, second, deletes), start=1):
            directory = self.location / tables.delta_name(number, number, delete=data is deletes)
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "_orc_acid_version").write_bytes(b"2")
            (directory / "bucket_00000").write_bytes(data)


def compacted(
    place: Callable[[Path], None], location: Path, kind: CompactionType, settings: RewriteSettings, generation: int
) -> Path:
    """A place after a compaction, without its inputs."""
    place(location)
    names = {path.name for path in location.iterdir()}
    made = compact_directory(location, kind, "", generation, settings=settings)
    assert made.directories
    for name in names - set(made.directories):
        path = location / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return location


@pytest.mark.parametrize(("generation", "layout"), CASES)
def test_what_follows_the_values_is_not_looked_at(generation: int, layout: str, java: JavaOrc, tmp_path: Path) -> None:
    columns, write = writer(java, tmp_path, LAYOUTS[layout])
    rows = [drawn(columns, ROWS + MORE, seed) for seed in (1, 2)]
    clean = [
        *(write(tables.inserts(number, part[:ROWS])) for number, part in enumerate(rows, start=1)),
        write(tables.deletes(3, GONE)),
    ]
    WrittenPlace(tmp_path / "clean").put(*clean)
    expected = seen(tmp_path / "clean", generation, columns)
    assert len(expected) == 2 * ROWS - len(GONE)
    longer = [
        *(write(tables.inserts(number, part)) for number, part in enumerate(rows, start=1)),
        write(tables.deletes(3, LONGER_GONE)),
    ]
    is_compressed = o.read_orc(clean[0]).compression > 0
    for name in (ENDLESS, *(name for name in NAMES if is_compressed or name in surplus.BYTES)):

        def wanted(stream: o.Stream, damages: bool = name in surplus.CHUNKS[1:]) -> bool:
            """Those of dictionaries differ: see the next test."""
            return stream.kind != o.DICTIONARY_DATA or (stream.length > 0 and not (generation == 3 and damages))

        if name == ENDLESS:
            files = [surplus.under_tail(*pair) for pair in zip(longer, clean, strict=True)]
        else:
            files = [surplus.with_surplus(data, name, wanted) for data in clean]
        assert all(data != plain for data, plain in zip(files, clean, strict=True))

        def put(location: Path, files: list[bytes] = files) -> None:
            WrittenPlace(location).put(*files)

        folder = tmp_path / name
        put(folder / "read")
        assert seen(folder / "read", generation, columns) == expected, name
        assert differences(folder / "read", TYPES, generation) == [], name
        for kind, settings in WAYS:
            way = f"{kind.name} {settings.copy_bytes}"
            made = compacted(put, folder / way, kind, settings, generation)
            assert seen(made, generation, columns) == expected, (name, way)


@pytest.mark.parametrize("text", ["s:a text", None])
def test_behind_a_dictionary_we_read_what_any_hive_reads(text: str | None, java: JavaOrc, tmp_path: Path) -> None:
    """Hive 3.1 inflates all of it; neither takes bytes without entries for a column that is null throughout."""
    events = tables.inserts(1, [(row, text) for row in range(ROWS)])
    columns = "struct<i:int,x:string>"
    java_files.write_dir(java, tmp_path, tables.delta_name(1, 1), columns, events, java_files.Options(dictionary=1.0))
    path = tmp_path / tables.delta_name(1, 1) / "bucket_00000"
    expected, clean = seen(tmp_path, 3, columns), path.read_bytes()
    readers: dict[str, list[int]] = {}
    for name in (*surplus.BYTES, *surplus.CHUNKS):
        path.write_bytes(surplus.with_surplus(clean, name, lambda stream: stream.kind == o.DICTIONARY_DATA))
        assert path.read_bytes() != clean
        readers[name] = []
        for generation in (3, 4):
            with suppress(JudgeError):
                assert seen(tmp_path, generation, columns) == expected
                readers[name].append(generation)
        assert ours(tmp_path, columns, 4) == [row[3] for row in expected]
    assert {name for name, read in readers.items() if read == [3, 4]} >= {*surplus.BYTES, "a chunk"}
    assert not any(3 in readers[name] for name in surplus.CHUNKS[1:])
    assert readers["a damaged chunk"] == ([] if text is None else [4])


@pytest.mark.parametrize("generation", [3, 4])
def test_originals_and_joined_files(generation: int, java: JavaOrc, tmp_path: Path) -> None:
    rows = drawn(TYPES, 2 * ROWS, 3)
    parts = {f"00000{number}_0": rows[number * ROWS :][:ROWS] for number in range(2)}
    options = java_files.Options()
    clean = {
        name: java_files.write_orc(java, tmp_path / "clean" / name, TYPES, part, options).read_bytes()
        for name, part in parts.items()
    }
    expected = seen(tmp_path / "clean", generation, TYPES)
    assert len(expected) == 2 * ROWS
    for name in ("zeros", "a run", "a chunk"):

        def put(location: Path, name: str = name) -> None:
            location.mkdir(parents=True)
            for file, data in clean.items():
                (location / file).write_bytes(surplus.with_surplus(data, name))

        put(tmp_path / name / "read")
        assert seen(tmp_path / name / "read", generation, TYPES) == expected
        assert differences(tmp_path / name / "read", TYPES, generation) == []
        made = compacted(put, tmp_path / name / "major", MAJOR, COPY, generation)
        assert seen(made, generation, TYPES) == expected
        for settings in (COPY, RECODE):
            joined = tmp_path / name / f"joined {settings.copy_bytes}" / "000000_0"
            joined.parent.mkdir()
            files = sorted((tmp_path / name / "read").iterdir())
            result = join_plain_files(files, joined, settings=settings, generation=Generation(generation))
            assert {action.action for action in result.actions} == {"copy" if settings is COPY else "rewrite"}
            assert [row[3] for row in seen(joined.parent, generation, TYPES)] == [row[3] for row in expected]


def test_rows_that_a_footer_leaves_out_are_no_surplus(java: JavaOrc, tmp_path: Path) -> None:
    """Hive reads as many as it says: a compaction would lose the others for ever."""
    text = "struct<i:int,x:string>"
    for number in (1, 2):
        events = tables.inserts(number, [(row, f"s:{row}") for row in range(ROWS)])
        java_files.write_dir(java, tmp_path, tables.delta_name(number, number), text, events)
    path = tmp_path / tables.delta_name(1, 1) / "bucket_00000"
    path.write_bytes(surplus.with_fewer_rows(path.read_bytes(), 100))
    assert [len(seen(tmp_path, generation, text)) for generation in (3, 4)] == [2 * ROWS - 100] * 2
    reason = r"statistics of the stripe confirm .* do not confirm 600 rows with 600 values"
    with pytest.raises(CorruptError, match=reason):
        ours(tmp_path, text, 4)
    for settings in (COPY, RECODE):
        with pytest.raises(CorruptError, match=reason):
            compact_directory(tmp_path, MAJOR, "", 4, settings=settings)
    assert bucket_files(tmp_path, ["base_0000001"]) == []
