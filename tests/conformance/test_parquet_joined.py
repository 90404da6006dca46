"""Parquet files that Hive and Java's library wrote, joined: judged by Hive's own rows, by Java and by pyarrow.

Java looks rows up by the page index alone and by bloom filters alone: no row that is there may be lost, and fewer rows
than all may be left to read. Faults put into a result on purpose show that both are really used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judges.fixtures import Fixture, fixtures
from judges.hive_plain import PARQUET, hive_plain
from judges.java_parquet import JavaParquet, shared
from judges.java_process import JudgeError
from parquet_joining import columns, edit, footer_of, join

from acidlib.errors import RefusedError
from acidlib.parquet.footer import Chunk
from acidlib.parquet.join import differences

TABLES = {fixture.name: fixture for fixture in fixtures(insert_only=True) if "parquet" in fixture.name}


@pytest.fixture(scope="module")
def java() -> JavaParquet:
    return shared()


# --- Hive's files ---------------------------------------------------------------------------------------------------


def hive_files(fixture: Fixture) -> list[Path]:
    """The files of all transactions but the aborted one."""
    aborted = {int(number) for number in fixture.write_ids.rpartition(":")[2].split(",") if number}
    directories = sorted((fixture.folder / "before").iterdir())
    return [path / "000000_0" for path in directories if int(path.name.split("_")[1]) not in aborted]


def hive_text(table: pa.Table, generation: int) -> Counter[str]:
    """Rows as Hive's SELECT prints them: the generations differ in nulls and in digits of a second."""
    null = "NULL" if generation == 3 else r"\N"

    def text(value: Any, kind: pa.DataType) -> str:
        if value is None:
            return null
        if not pa.types.is_timestamp(kind):
            return str(value)
        seconds, _, digits = str(value).partition(".")
        return seconds + ("." + digits.rstrip("0")[:6] if digits.strip("0") else "")

    # Hive's nanoseconds are printed as microseconds by 4
    cells = [
        [
            text(value, column.type)
            for value in (
                column.cast(pa.timestamp("us"), safe=False) if pa.types.is_timestamp(column.type) else column
            ).to_pylist()
        ]
        for column in table.columns
    ]
    return Counter("\t".join(row) for row in zip(*cells, strict=True))


@pytest.mark.parametrize("name", TABLES)
def test_hives_rows_after_joining_hives_files(name: str, tmp_path: Path) -> None:
    fixture = TABLES[name]
    paths = hive_files(fixture)
    joined = join(tmp_path / "joined", paths)
    assert (joined.rows, joined.row_groups) == (5, 3)
    table = pq.read_table(tmp_path / "joined")
    assert hive_text(table, fixture.generation) == fixture.hive_rows()
    assert table == pa.concat_tables([pq.read_table(path) for path in paths])


def test_files_of_two_generations_stay_apart(tmp_path: Path) -> None:
    old, new = (hive_files(fixture) for fixture in TABLES.values())
    assert differences(footer_of(old[0]), footer_of(old[1])) == ()
    apart = "; ".join(differences(footer_of(old[0]), footer_of(new[0])))
    assert "another writer (parquet-mr version 1.13.1" in apart
    assert "writer.date.proleptic, writer.model.name, writer.zone.conversion.legacy" in apart
    with pytest.raises(RefusedError, match="another schema"):
        join(tmp_path / "joined", [old[0], new[0]])


@pytest.mark.java
@pytest.mark.parametrize("name", TABLES)
def test_java_reads_hives_files_joined(name: str, java: JavaParquet, tmp_path: Path) -> None:
    paths = hive_files(TABLES[name])
    join(tmp_path / "joined", paths)
    assert java.rows(tmp_path / "joined") == [row for path in paths for row in java.rows(path)]


# --- Java's files ---------------------------------------------------------------------------------------------------

WRITERS: dict[str, dict[str, Any]] = {
    "snappy": {},
    "pages v2": {"version": "PARQUET_2_0", "codec": "ZSTD"},
    "no dictionary": {"dictionary": False, "codec": "GZIP"},
    "no bloom filters": {"bloom": False, "codec": "UNCOMPRESSED"},
}
SIZES = (700, 40, 500)
GROUP, PAGE = 300, 50


@pytest.fixture
def written(java: JavaParquet, tmp_path: Path) -> Callable[..., list[Path]]:
    def write(*sizes: int, **options: Any) -> list[Path]:
        paths, first = [], 0
        for number, rows in enumerate(sizes or SIZES):
            paths.append(tmp_path / f"input {number}")
            java.write(paths[-1], first, rows, group=GROUP, page=PAGE, **options)
            first += rows
        return paths

    return write


def lost(java: JavaParquet, path: Path, mode: str, numbers: range) -> list[int]:
    """The rows that a search by id, or by name where there is one, does not find."""
    found = []
    for n in numbers:
        by_name = n % 7 != 3 and len(java.find(path, mode, "name", f"name {n:06}").rows) != 1
        if by_name or len(java.find(path, mode, "id", 10 * n).rows) != 1:
            found.append(n)
    return found


@pytest.mark.java
@pytest.mark.parametrize("kind", WRITERS)
def test_java_finds_every_row_of_its_files_joined(
    kind: str, java: JavaParquet, written: Callable[..., list[Path]], tmp_path: Path
) -> None:
    paths, target = written(**WRITERS[kind]), tmp_path / "joined"
    joined = join(target, paths)
    assert (joined.rows, joined.row_groups) == (1240, 6)
    assert java.rows(target) == [row for path in paths for row in java.rows(path)]
    assert pq.read_table(target) == pa.concat_tables([pq.read_table(path) for path in paths])
    some = range(0, 1240, 59)
    for mode in ("plain", "pages", "bloom"):
        assert lost(java, target, mode, some) == []
    for n in some:
        assert java.find(target, "plain", "id", 10 * n).left == 1240
        assert java.find(target, "pages", "id", 10 * n).left <= 2 * PAGE
        has, has_not = (java.find(target, "bloom", "id", 10 * n + odd) for odd in (0, 5))
        assert (has.left <= 2 * GROUP, has_not.left <= GROUP) == (kind != "no bloom filters",) * 2


@pytest.mark.java
def test_java_finds_rows_of_pyarrows_files_joined(java: JavaParquet, tmp_path: Path) -> None:
    """pyarrow puts bloom filters between column chunks."""
    paths = []
    for number in range(3):
        numbers = range(500 * number, 500 * number + 500)
        table = pa.table({"id": [10 * n for n in numbers], "name": [f"name {n:06}" for n in numbers]})
        paths.append(tmp_path / f"input {number}")
        options = {"row_group_size": 250, "write_page_index": True, "max_rows_per_page": 50}
        blooms = {"id": {"ndv": 250, "fpp": 0.01}, "name": {"ndv": 250, "fpp": 0.01}}
        pq.write_table(table, paths[-1], **options, bloom_filter_options=blooms)
    target = tmp_path / "joined"
    join(target, paths)
    assert java.rows(target) == [row for path in paths for row in java.rows(path)]
    for mode, most in (("pages", 50), ("bloom", 500)):
        assert lost(java, target, mode, range(3, 1500, 97)) == []
        assert all(java.find(target, mode, "id", 10 * n).left <= most for n in range(3, 1500, 97))


@pytest.mark.java
def test_splits_share_the_rows_of_a_joined_file(
    java: JavaParquet, written: Callable[..., list[Path]], tmp_path: Path
) -> None:
    """A task takes the row groups whose middle is in its split: by their places, and where given by file_offset."""
    target = tmp_path / "joined"
    join(target, written())
    struct: Any = footer_of(target).struct
    assert all(5 in group for group in struct[4])
    size = target.stat().st_size
    for bytes_of_split in (1000, size // 5, size // 2, size + 1):
        assert sum(java.splits(target, bytes_of_split)) == 1240
    assert max(java.splits(target, 1000)) == GROUP


@pytest.mark.java
def test_java_skips_no_row_group_beside_an_empty_one(java: JavaParquet, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64())])
    paths = [tmp_path / name for name in ("some", "none", "more")]
    for path, numbers in zip(paths, ([1, 2], [], [3]), strict=True):
        pq.write_table(pa.table({"id": numbers}, schema=schema), path)
    join(tmp_path / "joined", paths)
    assert java.rows(tmp_path / "joined") == ["id: 1; ", "id: 2; ", "id: 3; "]
    assert pq.read_metadata(tmp_path / "joined").num_row_groups == 2


# --- damaged indexes --------------------------------------------------------------------------------------------------


def damaged(path: Path, places: Callable[[Chunk], Sequence[tuple[int, int]]]) -> None:
    """Overwrite ranges of the file that belong to its chunks."""
    data = bytearray(path.read_bytes())
    for chunk in (chunk for group in footer_of(path).row_groups for chunk in group.chunks):
        for start, size in places(chunk):
            data[start : start + size] = bytes([255]) * size
    path.write_bytes(data)


DAMAGE: dict[str, tuple[str, Callable[[Chunk], Sequence[tuple[int, int]]]]] = {
    "bloom filters": ("bloom", lambda chunk: [(chunk.bloom_filter, 16)] if chunk.bloom_filter else []),
    "offset indexes": ("pages", lambda chunk: [chunk.offset_index]),
    "column indexes": ("pages", lambda chunk: [chunk.column_index]),
}


@pytest.mark.java
@pytest.mark.parametrize("kind", DAMAGE)
def test_files_whose_indexes_cannot_be_read_are_joined_without(
    kind: str, java: JavaParquet, written: Callable[..., list[Path]], tmp_path: Path
) -> None:
    """Both Hives read all rows of such a file, and so they do of the result; Java searches it without the index."""
    mode, places = DAMAGE[kind]
    paths, target = written(), tmp_path / "joined"
    damaged(paths[1], places)
    rows = {generation: [row for path in paths for row in hive_rows(generation, path)] for generation in (3, 4)}
    joined = join(target, paths)
    assert [len(found) for found in (*rows.values(), joined.left_out)] == [1240, 1240, kind != "column indexes"]
    assert {generation: hive_rows(generation, target) for generation in rows} == rows
    assert lost(java, target, mode, range(0, 1240, 59)) == []
    # what is sound is of use still
    assert java.find(target, mode, "id", 10 * 20).left < 1240


def hive_rows(generation: int, path: Path) -> list[tuple[Any, ...]]:
    return hive_plain(generation).rows(path, {"id": "bigint", "name": "string"}, PARQUET)


# --- faults ---------------------------------------------------------------------------------------------------------


def problem(java: JavaParquet, path: Path, mode: str) -> str:
    """What Java shows of a fault: that it fails, loses rows or does not prune any more; or nothing."""
    try:
        if lost(java, path, mode, range(10, 1200, 53)):
            return "lost"
        left = [java.find(path, mode, "id", 10 * n).left for n in range(10, 1200, 53)]
    except JudgeError:
        return "fails"
    # an index that cannot be read is not used, and only a warning is logged
    return "all are read" if mode != "plain" and max(left) >= 1200 else ""


def _with_old(change: Callable[[Any, Any], None]) -> Callable[[list[Any], list[Any]], None]:
    return lambda new, old: [change(*pair) for pair in zip(new, old, strict=True)] and None


def _turned(*fields: int, inside: bool = False) -> Callable[[list[Any], list[Any]], None]:
    """Every row group is given what is the next one's."""

    def change(new: list[Any], _: list[Any]) -> None:
        structs = [column[3] if inside else column for column in new]
        values = [{field: struct[field] for field in fields} for struct in structs]
        for struct, value in zip(structs, values[1:] + values[:1], strict=True):
            struct.update(value)

    return change


# what a reader finds at a place that was not moved is chance
ANY = {"lost", "fails", "all are read"}
FAULTS: dict[str, tuple[str, set[str], Callable[[list[Any], list[Any]], None]]] = {
    "bloom filters not moved": ("bloom", ANY, _with_old(lambda new, old: new[3].update({14: old[3][14]}))),
    "bloom filters of others": ("bloom", {"lost"}, _turned(14, 15, inside=True)),
    "column indexes not moved": ("pages", ANY, _with_old(lambda new, old: new.update({6: old[6]}))),
    "column indexes of others": ("pages", {"lost"}, _turned(6, 7)),
    "offset indexes not moved": ("pages", ANY, _with_old(lambda new, old: new.update({4: old[4]}))),
    "offset indexes of others": ("pages", {"lost"}, _turned(4, 5)),
    "data pages not moved": ("plain", ANY, _with_old(lambda new, old: new[3].update({9: old[3][9]}))),
}


@pytest.mark.java
@pytest.mark.parametrize("fault", FAULTS)
def test_java_sees_wrong_places(
    fault: str, java: JavaParquet, written: Callable[..., list[Path]], tmp_path: Path
) -> None:
    """Of the columns that are searched, in every row group."""
    mode, expected, change = FAULTS[fault]
    # all row groups of one size, as Java does not use an index with another number of pages
    paths, target = written(300, 600, 300, dictionary=False), tmp_path / "joined"
    join(target, paths)
    assert problem(java, target, mode) == ""
    old = [column for path in paths for column in columns(footer_of(path).struct)]

    def damage(struct: Any) -> None:
        for name in (b"\x18\x02id", b"\x18\x04name"):
            pairs = [(c, was) for c, was in zip(columns(struct), old, strict=True) if c[3][3] == name]
            change([new for new, _ in pairs], [was for _, was in pairs])

    edit(target, damage)
    assert problem(java, target, mode) in expected
