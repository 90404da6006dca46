"""Where files lie and what they are called: originals anywhere, attempts, high statement ids and write ids."""

from __future__ import annotations

from pathlib import Path

import pytest
from compaction import MAJOR, MINOR, bucket_files, compact_directory
from judges import merge, tables
from judges.java_orc import JavaOrc

from acidlib.errors import CorruptError, RefusedError
from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings
from conformance.odd import COPY, KINDS, SETTINGS, compact_judged

COLUMNS = "struct<a:int,s:string>"
STRIPES = tables.Layout(compression="none", stripe_size=1, stride=5, batch=10)


def rows(count: int, first: int = 0) -> list[tuple[int, str | None]]:
    return [(first + i, None if i % 7 == 3 else f"row {first + i}") for i in range(count)]


# --- original files ---------------------------------------------------------------------------------------------------

ORIGINALS = (
    "000000_0",
    "000000_0_copy_1",
    "000000_0_copy_10",
    "000000_0_copy_2",
    "000001_0",
    "HIVE_UNION_SUBDIR_1/000000_0",
    "HIVE_UNION_SUBDIR_1/000001_0",
    "HIVE_UNION_SUBDIR_10/000000_0",
    "HIVE_UNION_SUBDIR_2/000000_0",
    "HIVE_UNION_SUBDIR_2/HIVE_UNION_SUBDIR_1/000000_0_copy_1",
    "a/b/c/000001_1",
    "a/b/c/000000_1000",
    "a-b/000000_0",  # before everything below a/, for - comes before /
)


def originals(location: Path) -> None:
    """Files of 11 to 23 rows without ACID columns; then inserts, and deletes of every ninth row id of both buckets."""
    for number, name in enumerate(ORIGINALS):
        path = location / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tables.orc_bytes(COLUMNS, rows(11 + number, number * 1000), STRIPES))
    for write_id in (1, 3):
        new = tables.inserts(write_id, rows(4, 90_000))
        tables.write_dir(location, tables.delta_name(write_id, write_id), COLUMNS, new, STRIPES)
    keys = [(0, tables.bucket_property(writer, 0), i) for writer in (0, 1) for i in range(4, 50, 9)]
    tables.write_dir(location, tables.delta_name(2, 2, delete=True), COLUMNS, tables.deletes(2, keys), STRIPES)


@pytest.mark.pairs
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_originals_in_any_directory(
    kind: CompactionType, generation: int, settings: RewriteSettings, tmp_path: Path
) -> None:
    location = tmp_path / "t"
    originals(location)
    first = {row[3][0] for row in merge.read(location) if row[:3] == (0, tables.bucket_property(0, 0), 11)}
    assert first == {1000}  # row ids are counted on over the files of a bucket
    compact_judged(location, kind, generation=generation, settings=settings)


def test_an_original_that_tells_no_bucket_is_refused(tmp_path: Path) -> None:
    location = tmp_path / "t"
    originals(location)
    (location / "a" / "part-00000").write_bytes(tables.orc_bytes(COLUMNS, rows(3)))
    before = sorted(location.rglob("*"))
    with pytest.raises(CorruptError, match=r"Cannot read a/part-00000: its name has no bucket number"):
        compact_directory(location, MAJOR)
    assert sorted(location.rglob("*")) == before


# --- attempts ---------------------------------------------------------------------------------------------------------


def attempts(location: Path, *, second_first: int) -> None:
    """Bucket files of several attempts; in the first delta two of one bucket, the other from row id `second_first`."""
    for number, write_id in enumerate((1, 2, 3)):
        layout = tables.Layout(attempt=f"_{number * 7}", stripe_size=1, stride=5, batch=10, compression="none")
        events = [e for writer in (0, 1, 2) for e in tables.inserts(write_id, rows(23, write_id * 100), writer=writer)]
        tables.write_dir(location, tables.delta_name(write_id, write_id), COLUMNS, events, layout)
    more = tables.acid_bytes(COLUMNS, tables.inserts(1, rows(5, 500), first=second_first), STRIPES)
    (location / tables.delta_name(1, 1) / "bucket_00000_1").write_bytes(more)
    keys = [(w, tables.bucket_property(writer, 0), 3 + w) for w in (1, 2) for writer in (0, 1, 2)]
    name = tables.delta_name(4, 4, delete=True)
    tables.write_dir(location, name, COLUMNS, tables.deletes(4, keys), tables.Layout(attempt="_2"))


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_files_of_several_attempts(kind: CompactionType, settings: RewriteSettings, tmp_path: Path) -> None:
    location = tmp_path / "t"
    attempts(location, second_first=23)
    made = compact_judged(location, kind, generation=4, settings=settings)
    names = {path.name for path in bucket_files(location, made.directories)}
    assert names == {"bucket_00000", "bucket_00001", "bucket_00002"}


@pytest.mark.parametrize("kind", KINDS)
def test_attempts_whose_rows_interleave_are_refused(kind: CompactionType, tmp_path: Path) -> None:
    """Both hold the same rows, or rows of the same ids: nobody can tell which are right."""
    location = tmp_path / "t"
    attempts(location, second_first=4)
    with pytest.raises(RefusedError, match=r"bucket_00000_\d: the row ids of its stripe \d interleave with"):
        compact_directory(location, kind, generation=4)


# --- statement ids ----------------------------------------------------------------------------------------------------

STATEMENTS = (0, 1, 2, 9, 10, 999, 1000, 4094, 4095)
WRITERS = (0, 1, 4095)


def statements(location: Path) -> None:
    """One transaction of many statements in three buckets; later ones delete rows of earlier ones, and so does 6."""
    for statement in STATEMENTS:
        events = [
            event
            for writer in WRITERS
            for event in tables.inserts(5, rows(7, statement * 10), writer=writer, statement=statement)
        ]
        tables.write_dir(location, tables.delta_name(5, 5, statement), COLUMNS, events, STRIPES)
    for statement, gone in ((1000, (0, 2)), (4095, (1, 999, 4094))):
        keys = [(5, tables.bucket_property(writer, s), 2) for writer in WRITERS for s in gone]
        name = tables.delta_name(5, 5, statement, delete=True)
        tables.write_dir(location, name, COLUMNS, tables.deletes(5, keys), STRIPES)
    keys = [(5, tables.bucket_property(4095, s), 6) for s in STATEMENTS]
    tables.write_dir(location, tables.delta_name(6, 6, 4095, delete=True), COLUMNS, tables.deletes(6, keys), STRIPES)


@pytest.mark.pairs
@pytest.mark.java
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_statements_up_to_the_last(
    kind: CompactionType, generation: int, settings: RewriteSettings, java: JavaOrc, tmp_path: Path
) -> None:
    location = tmp_path / "t"
    statements(location)
    made = compact_judged(location, kind, generation=generation, settings=settings)
    names = {path.name for path in bucket_files(location, made.directories)}
    assert names == {"bucket_00000", "bucket_00001", "bucket_04095"}
    if kind is MAJOR and settings is not COPY:
        for path in bucket_files(location, made.directories):
            assert [found.lost for found in java.sarg_check_ids(path)] == [()] * 5


# --- write ids --------------------------------------------------------------------------------------------------------

HIGH = (9_999_998, 9_999_999, 10_000_000, 10_000_001, 99_999_999, 100_000_000, 1 << 31, 123_456_789_012, 1 << 61)
ABORTED = 100_000_000


@pytest.mark.pairs
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_write_ids_of_more_than_seven_digits(
    kind: CompactionType, generation: int, settings: RewriteSettings, tmp_path: Path
) -> None:
    """Names are ordered as numbers: as text delta_10000000 comes before delta_9999999."""
    location = tmp_path / "t"
    tables.write_base(location, HIGH[0], COLUMNS, tables.inserts(HIGH[0], rows(25)), STRIPES)
    for write_id in HIGH[1:]:
        tables.write_dir(
            location, tables.delta_name(write_id, write_id), COLUMNS, tables.inserts(write_id, rows(12)), STRIPES
        )
        keys = [(earlier, tables.bucket_property(0, 0), write_id % 11) for earlier in HIGH if earlier < write_id]
        name = tables.delta_name(write_id, write_id, delete=True)
        fresh = [key for key in keys if key[0] == max(k[0] for k in keys)]
        tables.write_dir(location, name, COLUMNS, tables.deletes(write_id, fresh), STRIPES)
    made = compact_judged(
        location, kind, f"default.t:{HIGH[-1]}:9223372036854775807::{ABORTED}", generation=generation, settings=settings
    )
    high, low = HIGH[-1], f"{HIGH[1]:07d}"
    expected = [f"base_{high}"] if kind is MAJOR else [f"delta_{low}_{high}", f"delete_delta_{low}_{high}"]
    assert list(made.directories) == expected
    [path, *_] = bucket_files(location, made.directories)
    found = {event[1] for event in merge.raw_rows(path)}
    assert found == set(HIGH) - {ABORTED} - (set(HIGH[:1]) if kind is MINOR else set())
