"""Which files become one; the same rows and chunks, every place moved, nothing copied that no footer speaks of."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from parquet_joining import DATA, Joined, columns, edit, footer_of, join, prove

from acidlib.errors import CorruptError, DefectError, RefusedError
from acidlib.memory import Memory
from acidlib.parquet.footer import FILE, OFFSET_INDEX, Footer
from acidlib.parquet.join import differences, join_files
from acidlib.parquet.thrift_compact import decode, encode
from acidlib.stores.renaming.local import LocalDataFiles

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), metadata={"PARQUET:field_id": "1"}),
        pa.field("at", pa.timestamp("us")),
        pa.field("f", pa.float64(), nullable=False),
    ],
    metadata={"writer.time.zone": "Etc/UTC", "writer.date.proleptic": "false"},
)


def write(path: Path, schema: pa.Schema = SCHEMA, **options: Any) -> Footer:
    """A file of two rows. Its schema is not stored a second time, for Arrow, so that metadata is what is given."""
    rows = pa.table([pa.array([1, 2], field.type) for field in schema], schema=schema)
    pq.write_table(rows, path, store_schema=False, **options)
    # pyarrow leaves metadata of the schema out with its own copy of it
    pairs = [b"\x18" + bytes([len(k)]) + k + b"\x18" + bytes([len(v)]) + v + b"\0" for k, v in schema.metadata.items()]
    edit(path, lambda struct: struct.update({5: bytes([len(pairs) << 4 | 12]) + b"".join(pairs)}))
    return footer_of(path)


@pytest.fixture
def first(tmp_path: Path) -> Footer:
    return write(tmp_path / "first")


def test_files_of_one_kind_do_not_differ(tmp_path: Path, first: Footer) -> None:
    others = [
        write(tmp_path / "pages", row_group_size=1, data_page_version="2.0", compression="zstd", write_page_index=True),
        write(tmp_path / "order", SCHEMA.with_metadata(dict(reversed(SCHEMA.metadata.items())))),
    ]
    assert [differences(first, other) for other in others] == [(), ()]
    assert others[1].struct[5] != first.struct[5]


def _schema(place: int, field: pa.Field) -> pa.Schema:
    return SCHEMA.set(place, field)


@pytest.mark.parametrize(
    "schema",
    [
        _schema(0, pa.field("id", pa.int32(), metadata={"PARQUET:field_id": "2"})),
        _schema(0, pa.field("ID", pa.int32(), metadata={"PARQUET:field_id": "1"})),
        _schema(0, pa.field("id", pa.int16(), metadata={"PARQUET:field_id": "1"})),
        _schema(0, pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})),
        _schema(1, pa.field("at", pa.timestamp("us", "UTC"))),
        _schema(1, pa.field("at", pa.timestamp("ns"))),
        _schema(2, pa.field("f", pa.float64())),
        SCHEMA.remove(2),
    ],
)
def test_another_schema(tmp_path: Path, first: Footer, schema: pa.Schema) -> None:
    other = write(tmp_path / "other", schema)
    assert "another schema" in differences(first, other)


@pytest.mark.parametrize(
    ("metadata", "keys"),
    [
        ({"writer.time.zone": "Europe/Rome", "writer.date.proleptic": "false"}, "writer.time.zone"),
        ({"writer.time.zone": "Etc/UTC", "writer.date.proleptic": "true"}, "writer.date.proleptic"),
        ({"writer.time.zone": "Etc/UTC"}, "writer.date.proleptic"),
        ({"writer.zone.conversion.legacy": "false"}, "writer.date.proleptic, writer.time.zone, writer.zone.conv"),
    ],
)
def test_other_key_value_metadata(tmp_path: Path, first: Footer, metadata: dict[str, str], keys: str) -> None:
    [reason_found] = differences(first, write(tmp_path / "other", SCHEMA.with_metadata(metadata)))
    assert reason_found.startswith(f"other key-value metadata ({keys}")


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("another writer (parquet-mr version 1.13.1", lambda s: s.update({6: b"parquet-mr version 1.13.1"})),
        ("another writer (none instead of parquet-cpp", lambda s: s.pop(6)),
        ("other column orders", lambda s: s.pop(7)),
        ("another format version", lambda s: s.update({1: 1})),
        ("other key-value metadata (writer.date.proleptic, writer.time.zone)", lambda s: s.pop(5)),
        # one pair there twice
        ("other key-value metadata (a key twice)", lambda s: s.update({5: b"\x3c" + s[5][1:] + s[5][1:29]})),
    ],
)
def test_other_differences(tmp_path: Path, first: Footer, reason: str, change: Callable[[Any], None]) -> None:
    path = tmp_path / "other"
    write(path)
    other = footer_of(edit(path, change))
    [reason_found] = differences(first, other)
    assert reason_found.startswith(reason)
    with pytest.raises(RefusedError, match=r"Cannot join .*other with .*first: they differ in "):
        join(tmp_path / "target", [tmp_path / "first", path])
    assert not (tmp_path / "target").exists()


def test_one_file_holds_no_more_than_the_limits(first: Footer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("acidlib.parquet.join.MAX_ROW_GROUPS", 2)
    with pytest.raises(RefusedError, match="one file cannot hold 3 row groups"):
        join(tmp_path / "target", [Path(first.name)] * 3)
    monkeypatch.undo()
    monkeypatch.setattr("acidlib.parquet.join._MAX_ROWS", 5)
    with pytest.raises(RefusedError, match="3 row groups of 6 rows"):
        join(tmp_path / "target", [Path(first.name)] * 3)


SEED = random.Random(3)


def table(first: int, rows: int) -> pa.Table:
    """Every physical type, nulls, nesting; `id` is sorted and has the even numbers only."""
    numbers = range(first, first + rows)
    ids = pa.array([2 * n for n in numbers], pa.int64())
    nanoseconds = [n * 86_400_000_000_001 - (1 << 61) if n % 9 else None for n in numbers]
    return pa.table(
        {
            "id": ids,
            "name": [f"name {n % 50}" if n % 5 else None for n in numbers],
            "text": [SEED.randbytes(20).hex() for _ in numbers],
            "at": pa.array(nanoseconds, pa.timestamp("ns")),
            "price": pa.array([n - 50 if n % 3 else None for n in numbers], pa.decimal128(20, 4)),
            "day": pa.array([n * 100 for n in numbers], pa.date32()),
            "ratio": [float("nan") if n % 7 == 0 else -n / 3 for n in numbers],
            "flag": [n % 2 == 0 for n in numbers],
            "nothing": pa.nulls(rows, pa.int32()),
            "tags": [[str(n)] * (n % 3) if n % 4 else None for n in numbers],
            "deep": [{"a": n, "m": [(str(n), [n])]} if n % 6 else None for n in numbers],
        },
        schema=pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False),
                ("name", pa.string()),
                ("text", pa.string()),
                ("at", pa.timestamp("ns")),
                ("price", pa.decimal128(20, 4)),
                ("day", pa.date32()),
                ("ratio", pa.float64()),
                ("flag", pa.bool_()),
                ("nothing", pa.int32()),
                ("tags", pa.list_(pa.string())),
                ("deep", pa.struct([("a", pa.int64()), ("m", pa.map_(pa.string(), pa.list_(pa.int64())))])),
            ]
        ),
    )


BLOOM = {"id": {"ndv": 500, "fpp": 0.01}, "text": {"ndv": 500}}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"use_dictionary": False, "compression": "none", "write_statistics": False},
    "snappy": {},
    "gzip, pages v2": {"compression": "gzip", "data_page_version": "2.0"},
    "brotli, page index": {"compression": "brotli", "write_page_index": True, "max_rows_per_page": 40},
    "zstd, all": {"compression": "zstd", "write_page_index": True, "bloom_filter_options": BLOOM, "row_group_size": 90},
    "lz4, bloom filters": {"compression": "lz4", "bloom_filter_options": BLOOM},
    "int96": {"use_deprecated_int96_timestamps": True, "write_page_index": True},
    "version 1": {"version": "1.0", "coerce_timestamps": "us", "allow_truncated_timestamps": True},
    "checksums": {"write_page_checksum": True, "store_decimal_as_integer": True},
    "sorted": {"sorting_columns": [pq.SortingColumn(0)], "row_group_size": 7},
    "delta": {"use_dictionary": False, "column_encoding": {"id": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY"}},
}


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., list[Path]]:
    def write(*sizes: int, **options: Any) -> list[Path]:
        paths, first = [], 0
        for number, rows in enumerate(sizes):
            paths.append(tmp_path / f"input {number}")
            pq.write_table(table(first, rows), paths[-1], **{"row_group_size": 100, **options})
            first += rows
        return paths

    return write


def same(left: pa.Table, right: pa.Table) -> bool:
    """Equal, NaN for NaN."""

    def texts(table: pa.Table) -> list[str]:
        plain = (c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns)
        return [repr(column.to_pylist()) for column in plain]

    return bool(left.schema == right.schema) and texts(left) == texts(right)


@pytest.mark.parametrize("kind", OPTIONS)
def test_all_rows_by_pyarrow(kind: str, make: Callable[..., list[Path]], tmp_path: Path) -> None:
    paths = make(250, 1, 130, **OPTIONS[kind])
    target = tmp_path / "joined"
    joined = join(target, paths)
    footers = [footer_of(path) for path in paths]
    groups = [group for footer in footers for group in footer.row_groups]
    assert (joined.rows, joined.row_groups) == (381, len(groups))
    pages = sum(chunk.pages.size for group in groups for chunk in group.chunks)
    assert pages <= joined.bytes_copied < target.stat().st_size
    expected = pa.concat_tables([pq.read_table(path) for path in paths])
    assert same(pq.read_table(target, page_checksum_verification=True), expected)
    assert pq.ParquetFile(target).schema.equals(pq.ParquetFile(paths[0]).schema)
    for number in (0, 2, 498, 500, 502, 760):
        assert pq.read_table(target, filters=[("id", "=", number)]).num_rows == 1
        assert ds.dataset(target).to_table(filter=ds.field("id") == number + 1).num_rows == 0
    _assert_same_facts(target, paths)


FACTS = (
    *("physical_type", "num_values", "path_in_schema", "compression", "encodings", "has_dictionary_page"),
    *("total_compressed_size", "total_uncompressed_size", "has_column_index", "has_offset_index"),
    "bloom_filter_length",
)
STATISTICS = ("has_min_max", "min_raw", "max_raw", "null_count", "has_null_count", "distinct_count", "num_values")


def _assert_same_facts(target: Path, paths: list[Path]) -> None:
    """What pyarrow says of a chunk of the result is what it says of the input's."""

    def facts(path: Path) -> list[Any]:
        found = pq.read_metadata(path)
        groups = [found.row_group(number) for number in range(found.num_row_groups)]
        facts: list[Any] = [(group.num_rows, group.total_byte_size, group.sorting_columns) for group in groups]
        for column in (group.column(place) for group in groups for place in range(group.num_columns)):
            facts.append([getattr(column, name) for name in FACTS])
            facts.append([getattr(column.statistics, name) for name in STATISTICS if column.is_stats_set])
        return sorted(map(repr, facts))

    assert facts(target) == sorted(text for path in paths for text in facts(path))


def test_page_indexes_and_bloom_filters_are_all_there(make: Callable[..., list[Path]], tmp_path: Path) -> None:
    paths = make(250, 120, **OPTIONS["zstd, all"])
    target = tmp_path / "joined"
    join(target, paths)
    written = footer_of(target)
    chunks = [chunk for group in written.row_groups for chunk in group.chunks]
    inputs = [(path, c) for path in paths for group in footer_of(path).row_groups for c in group.chunks]
    assert sum(chunk.bloom_filter > 0 for chunk in chunks) == 2 * len(written.row_groups)
    data = target.read_bytes()
    for chunk, (path, expected) in zip(chunks, inputs, strict=True):
        old = path.read_bytes()
        index, was = chunk.column_index, expected.column_index
        assert data[index.start : index.end] == old[was.start : was.end] != b""
        places, were = (
            decode(content[c.offset_index.start : c.offset_index.end], OFFSET_INDEX)[0][1]
            for content, c in ((data, chunk), (old, expected))
        )
        shift = chunk.pages.start - expected.pages.start
        assert places == [{**page, 1: page[1] + shift} for page in were]
        size = expected.metadata.get(15, 0)
        assert data[chunk.bloom_filter :][:size] == old[expected.bloom_filter :][:size]
    # pages first, so that what readers want beside the footer lies together before it
    last_page = max(chunk.pages.end for chunk in chunks)
    assert last_page <= min(c.bloom_filter for c in chunks if c.bloom_filter)
    assert last_page <= min(c.column_index.start for c in chunks)


def test_no_rows_and_no_row_groups(make: Callable[..., list[Path]], tmp_path: Path) -> None:
    rows, empty = make(40, 0, row_group_size=100)
    none = tmp_path / "none"
    with pq.ParquetWriter(none, table(0, 1).schema):
        pass
    assert [pq.read_metadata(path).num_row_groups for path in (rows, empty, none)] == [1, 1, 0]
    assert join(tmp_path / "some", [empty, rows, none, rows]).row_groups == 2
    assert same(pq.read_table(tmp_path / "some"), pa.concat_tables([pq.read_table(rows)] * 2))
    assert join(tmp_path / "nothing", [empty, none]) == Joined(0, 0, ())
    assert pq.read_table(tmp_path / "nothing").num_rows == 0
    assert pq.read_table(tmp_path / "nothing").schema == pq.read_table(rows).schema


def test_what_lies_together_is_copied_at_once(make: Callable[..., list[Path]], tmp_path: Path) -> None:
    """The pages of a file, then its column indexes: a copy for each, however many row groups there are."""
    paths = make(100, 100, row_group_size=10, write_page_index=True)
    assert len(join(tmp_path / "target", paths).copies) == 4


def test_one_file_is_copied_as_it_is(make: Callable[..., list[Path]], tmp_path: Path) -> None:
    [path] = make(40)
    assert join(tmp_path / "copy", [path]) == Joined(40, 1, (path.stat().st_size,))
    assert (tmp_path / "copy").read_bytes() == path.read_bytes()


def test_deprecated_and_optional_places(make: Callable[..., list[Path]], tmp_path: Path) -> None:
    """What other writers say: places of chunks and groups, 0 for no dictionary, bloom filters without a length."""
    one, two = make(60, 60, **{**OPTIONS["zstd, all"], "row_group_size": 30})

    def change(struct: Any) -> None:
        for number, group in enumerate(struct[4]):
            fourth = group[1][3][3]
            fourth.update({9: fourth[11], 11: 0})
            group[5] = 999_999  # wrong, as of Java's Parquet 1.12.0
            group[7] = number
            first, second, third = group[1][:3]
            first[2] = first[3][9]
            second[2] = 999_999  # a copy of the metadata elsewhere
            second[3][10] = second[3][9] + 1  # an index page, which no writer makes
            third[2] = third[3][9] = third[3].pop(11)  # the dictionary's place is that of the first page
            first[3].pop(15)

    for path in (one, two):
        edit(path, change)
    target = tmp_path / "joined"
    join(target, [one, two])
    struct: Any = footer_of(target).struct
    assert [group[7] for group in struct[4]] == [0, 1, 2, 3]
    for group in struct[4]:
        starts = [min(place for place in (column[3].get(11, 0), column[3][9]) if place) for column in group[1]]
        assert group[5] == min(starts)
        assert [column[2] for column in group[1][:4]] == [group[1][0][3][9], 0, starts[2], 0]
        assert group[1][3][3][11] == 0
        assert 15 not in group[1][0][3]
        assert group[1][1][3][10] == group[1][1][3][9] + 1
    assert struct[4][0][5] == 4
    assert same(pq.read_table(target), pa.concat_tables([pq.read_table(one), pq.read_table(two)]))


def test_bytes_between_pages_are_left_behind(make: Callable[..., list[Path]], tmp_path: Path) -> None:
    """Chunks in any order, with anything between them: each is found by its own place."""
    [path] = make(120, row_group_size=60)
    data, footer = path.read_bytes(), footer_of(path)
    chunks = [chunk for group in footer.row_groups for chunk in group.chunks]
    body = bytearray(b"PAR1")
    starts = {}
    for number in sorted(range(len(chunks)), key=lambda n: (n * 7) % 11):
        body += bytes(number)
        starts[number] = len(body)
        body += data[chunks[number].pages.start : chunks[number].pages.end]
    for number, column in enumerate(columns(footer.struct)):
        for field in (9, 11):
            if field in column[3]:
                column[3][field] += starts[number] - chunks[number].pages.start
    metadata = encode(footer.struct, FILE)
    mixed = tmp_path / "mixed"
    mixed.write_bytes(body + metadata + len(metadata).to_bytes(4, "little") + b"PAR1")
    assert same(pq.read_table(mixed), pq.read_table(path))
    assert join(tmp_path / "joined", [mixed, path]).bytes_copied == 2 * sum(chunk.pages.size for chunk in chunks)
    assert same(pq.read_table(tmp_path / "joined"), pa.concat_tables([pq.read_table(path)] * 2))


PAGES, BLOOMS = {"has_column_index", "has_offset_index"}, {"bloom_filter_length"}


def _first(change: Callable[[Any], None]) -> Callable[[Any], None]:
    return lambda struct: change(columns(struct)[0])


INDEX_DAMAGE: dict[str, tuple[str, set[str], Callable[[Any], None]]] = {
    "an offset index cut short": ("the offset index at", PAGES, _first(lambda c: c.update({5: c[5] - 1}))),
    "an offset index and more": ("bytes follow it", PAGES, _first(lambda c: c.update({5: c[5] + 1}))),
    "another's offset index": (
        "does not lie in the column's",
        PAGES,
        lambda s: columns(s)[0].update({field: columns(s)[1][field] for field in (4, 5)}),
    ),
    "no bloom filter": ("the bloom filter at", BLOOMS, _first(lambda c: c[3].update({14: c[3][9]}))),
    "another length": ("bytes by the footer", BLOOMS, _first(lambda c: c[3].update({15: c[3][15] + 1}))),
    "both": (
        "the bloom filter at",
        PAGES | BLOOMS,
        _first(lambda c: (c.update({5: c[5] - 1}), c[3].update({14: c[3][9]}))),
    ),
}


def indexes_of(path: Path) -> list[set[str]]:
    """The indexes that pyarrow finds at each chunk."""
    found = pq.read_metadata(path)
    groups = [found.row_group(number) for number in range(found.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    return [{name for name in PAGES | BLOOMS if getattr(chunk, name)} for chunk in chunks]


@pytest.mark.parametrize("kind", INDEX_DAMAGE)
def test_damaged_indexes_are_left_out(kind: str, make: Callable[..., list[Path]], tmp_path: Path) -> None:
    """Of this column chunk alone, as readers do without; a column index is of no use alone."""
    reason, gone, change = INDEX_DAMAGE[kind]
    one, two = make(50, 50, **OPTIONS["zstd, all"])
    expected = indexes_of(one) + indexes_of(two)
    edit(two, change)
    target = tmp_path / "target"
    joined = join(target, [one, two])
    assert re.search(reason, "; ".join(joined.left_out))
    expected[len(indexes_of(one))] -= gone
    assert indexes_of(target) == expected
    assert same(pq.read_table(target), pa.concat_tables([pq.read_table(one), pq.read_table(two)]))


@pytest.mark.parametrize(("bits", "joins"), [(b"\x40", True), (b"\x42", False), (b"\x00", False), (b"\x01", False)])
def test_a_bloom_filter_without_a_length(
    bits: bytes, joins: bool, make: Callable[..., list[Path]], tmp_path: Path
) -> None:
    """32 bytes of bits are there; 33, 0 and -1 cannot be."""
    [path] = make(50)
    data, end = path.read_bytes(), footer_of(path).data_end
    header = b"\x15" + bits + b"\x1c\x1c\x00\x00" * 3 + b"\x00"
    path.write_bytes(data[:end] + header + bytes(32) + data[end:])
    edit(path, _first(lambda c: c[3].update({14: end})))
    joined = join(tmp_path / "target", [path, path])
    assert joined.bytes_copied == 2 * (end - 4 + (len(header) + 32) * joins)
    assert [reason.startswith("the bloom filter at") for reason in joined.left_out] == [True, True] * (not joins)


def test_shared_indexes_cannot_make_a_small_file_large(make: Callable[..., list[Path]], tmp_path: Path) -> None:
    [path] = make(50, **OPTIONS["zstd, all"])
    whole = footer_of(path).data_end - 4

    def share(struct: Any) -> None:
        for column in columns(struct):
            column.update({6: 4, 7: whole})

    shared = edit(path, share, tmp_path / "shared")
    [reason] = join(tmp_path / "target", [shared, path]).left_out
    assert re.fullmatch(r"\d+ bytes of indexes do not lie in it", reason)
    assert indexes_of(tmp_path / "target") == [set() for _ in indexes_of(path)] + indexes_of(path)
    assert (tmp_path / "target").stat().st_size < 3 * path.stat().st_size


def test_offset_indexes_beyond_the_memory_of_a_task_are_left_out(
    make: Callable[..., list[Path]], tmp_path: Path
) -> None:
    """Each page of seven bytes is hundreds once it is decoded."""
    paths = make(50, 50, **OPTIONS["zstd, all"])
    largest = max(chunk.offset_index.size for group in footer_of(paths[0]).row_groups for chunk in group.chunks)
    target = tmp_path / "target"
    for memory, left_out in ((100 * largest, 0), (100 * largest - 1, 2), (2 * largest, 2)):
        data = LocalDataFiles(memory=Memory(memory))
        sink = data.create(str(target))
        carried = join_files(sink, [footer_of(path) for path in paths], data)
        sink.close()
        reasons = [footer.left_out for footer in carried if "acidlib.task.memory" in footer.left_out]
        assert len(reasons) == left_out
        assert same(pq.read_table(target), pa.concat_tables([pq.read_table(path) for path in paths]))
        target.unlink()


def test_an_offset_index_of_a_newer_format_is_left_out(make: Callable[..., list[Path]], tmp_path: Path) -> None:
    [path] = make(50, write_page_index=True)
    chunk = footer_of(path).row_groups[0].chunks[0]
    data = path.read_bytes()
    # field 3, an integer, in the place of the stop; the bytes go to the end of the data
    index = data[chunk.offset_index.start : chunk.offset_index.end - 1] + b"\x26\x02\x00"
    end = footer_of(path).data_end
    path.write_bytes(data[:end] + index + data[end:])
    edit(path, _first(lambda c: c.update({4: end, 5: len(index)})))
    assert pq.read_table(path).num_rows == 50
    joined = join(tmp_path / "target", [path, path])
    assert [reason.endswith("has unknown fields (OffsetIndex field 3)") for reason in joined.left_out] == [True, True]
    assert indexes_of(tmp_path / "target") == 2 * [set(), *indexes_of(path)[1:]]


def test_a_missing_input_is_an_error(make: Callable[..., list[Path]], tmp_path: Path) -> None:
    paths = make(50, 50)
    footers = [footer_of(path) for path in paths]
    paths[1].write_bytes(paths[1].read_bytes()[:-1])
    sink = DATA.create(str(tmp_path / "target"))
    with pytest.raises(CorruptError, match="was listed with"):
        join_files(sink, footers, DATA)
    sink.abort()


def _each(change: Callable[[Any], None]) -> Callable[[Any], None]:
    return lambda struct: change(columns(struct)[-1])


WRONG: dict[str, Callable[[Any], None]] = {
    "a data page": _each(lambda c: c[3].update({9: c[3][9] + 1})),
    "a dictionary": _each(lambda c: c[3].update({11: c[3][11] - 1})),
    "a bloom filter": _first(lambda c: c[3].update({14: c[3][14] + 1})),
    "no bloom filter": _first(lambda c: c[3].pop(14)),
    "a column index too short": _each(lambda c: c.update({7: c[7] - 1})),
    "no offset index": _each(lambda c: (c.pop(4), c.pop(5))),
    "another's offset index": _each(lambda c: c.update({4: c[4] - c[5]})),
    "a size": _each(lambda c: c[3].update({7: c[3][7] - 1})),
    "statistics": _each(lambda c: c[3].pop(12)),
    "an uncompressed size": _each(lambda c: c[3].update({6: c[3][6] + 1})),
    "a codec": _each(lambda c: c[3].update({4: 0})),
    "rows of a group": lambda s: (s[4][0].update({3: s[4][0][3] - 1}), s.update({3: s[3] - 1})),
    "a row group": lambda s: s.update({3: s[3] - s[4].pop()[3]}),
    "order": lambda s: s[4].reverse(),
    "an ordinal": lambda s: s[4][1].update({7: 0}),
    "a group's place": lambda s: s[4][1].update({5: 4}),
    "the schema": lambda s: s.update({2: s[2].replace(b"name", b"game")}),
    "metadata": lambda s: s.pop(5),
}


@pytest.mark.parametrize("fault", WRONG)
def test_the_proof_sees_a_wrong_result(fault: str, make: Callable[..., list[Path]], tmp_path: Path) -> None:
    paths = make(70, 80, **OPTIONS["zstd, all"])
    target = tmp_path / "joined"
    join(target, paths)
    prove(target, paths)
    edit(target, WRONG[fault])
    with pytest.raises(DefectError, match="was written wrong"):
        prove(target, paths)


def test_the_proof_sees_a_copy_that_is_none(make: Callable[..., list[Path]], tmp_path: Path) -> None:
    paths = make(70, 70)
    join(tmp_path / "copy", paths[:1])
    with pytest.raises(DefectError, match="it is no copy of"):
        prove(tmp_path / "copy", paths[1:])
