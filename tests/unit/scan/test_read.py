"""Rows of splits: in which order they come, what is read for them, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from acid_inputs import B0, COLUMNS, STRIPES, CountedFiles, opened_by, rows, without_stride
from judges import orc_tail as o
from judges import tables
from snapshots import schema_of
from snapshots import splits_of as splits_of_scan

from acidlib.acid.names import Generation
from acidlib.errors import CorruptError, RefusedError
from acidlib.model.tables import TableColumn
from acidlib.scan import read
from acidlib.scan.predicate import Predicate, parse_predicate
from acidlib.scan.read import read_split, read_stream, read_table
from acidlib.scan.splits import Scan, Split
from acidlib.stores.stores import Stores

FIELDS = {"a": pa.int32(), "s": pa.string()}


def scan_of(*columns: str, row_ids: bool = False, **values: Any) -> Scan:
    fields = [(name, FIELDS.get(name, pa.string())) for name in columns]
    schema = schema_of(fields, row_ids=row_ids)
    return Scan(table="t", row_type=COLUMNS, columns=columns, schema=schema, row_ids=row_ids, **values)


def splits_of(path: Path, *args: Any, row_ids: bool = False, **values: Any) -> tuple[Split, ...]:
    return splits_of_scan(scan_of("a", row_ids=row_ids), path, *args, **values)


def numbers(splits: Sequence[Split], stores: Stores | None = None) -> list[int]:
    """The values of column a, in the order of the splits."""
    return list(read_table(scan_of("a"), splits, stores or Stores()).column("a").to_pylist())


def delta(location: Path, count: int = 30, write_id: int = 1, first: int = 0, layout: tables.Layout = STRIPES) -> None:
    """A delta with stripes of ten rows."""
    events = tables.inserts(write_id, rows(count, first))
    tables.write_dir(location, tables.delta_name(write_id, write_id), COLUMNS, events, layout)


def deleted(location: Path, write_id: int, *row_ids: int, of: int = 1, change: Any = None) -> None:
    events = tables.deletes(write_id, [(of, B0, row_id) for row_id in row_ids])
    found = tables.write_dir(location, tables.delta_name(write_id, write_id, delete=True), COLUMNS, events, STRIPES)
    if change is not None:
        path = found / "bucket_00000"
        path.write_bytes(change(path.read_bytes()))


class Reads(CountedFiles):
    """Local files, with all ranges that are read of them."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges: list[tuple[str, int, int]] = []

    def open(self, path: str, length: int) -> Any:
        source, ranges = super().open(path, length), self.ranges
        true = source.read

        class Noted:
            name = source.name
            length = source.length
            memory = source.memory
            close = source.close

            def read(self, offset: int, size: int) -> bytes:
                ranges.append((path, offset, size))
                return bytes(true(offset, size))

        return Noted()

    def columns_read(self, file: Path) -> set[int]:
        """The columns of a file of which a byte of data was read, other than with the tail."""
        orc = o.read_orc(file.read_bytes())
        ranges = [(start, start + size) for path, start, size in self.ranges if path == str(file)]
        ranges = [(low, high) for low, high in ranges if high < len(orc.data)]
        return {
            stream.column
            for stripe in orc.stripes
            for stream in stripe.streams
            if stream.length
            and any(low < stream.offset + stream.length and stream.offset < high for low, high in ranges)
        }


# --- splits -----------------------------------------------------------------------------------------------------------


def test_each_stripe_is_in_the_one_split_that_its_first_byte_lies_in(tmp_path: Path) -> None:
    delta(tmp_path, 100)
    whole = splits_of(tmp_path)
    assert len(whole) == 1
    assert numbers(whole) == list(range(100))
    size = whole[0].file.length
    for split_bytes in (1, 7, size // 10, size // 2, size - 1):
        parts = splits_of(tmp_path, split_bytes=split_bytes)
        assert len(parts) > 1 or split_bytes == size - 1
        assert numbers(parts) == list(range(100))


def test_a_split_at_the_first_byte_of_a_stripe_has_it(tmp_path: Path) -> None:
    delta(tmp_path, 30)
    (split,) = splits_of(tmp_path)
    orc = o.read_orc(Path(f"/{split.location.path}/{split.file.path}").read_bytes())
    second = orc.stripes[1].offset
    assert numbers([replace(split, end=second)]) == list(range(10))
    assert numbers([replace(split, start=second, end=second + 1)]) == list(range(10, 20))
    assert numbers([replace(split, start=second + 1)]) == list(range(20, 30))


def test_batches_are_of_the_schema_bounded_and_never_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    delta(tmp_path, 25)
    monkeypatch.setattr(read, "BATCH_ROWS", 4)
    scan = scan_of("s", "a", row_ids=True)
    (split,) = splits_of(tmp_path)
    batches = list(read_split(scan, split, Stores()))
    assert [batch.num_rows for batch in batches] == [4, 4, 2, 4, 4, 2, 4, 1]
    assert {batch.schema for batch in batches} == {scan.schema}


def test_rows_of_another_bucket_that_may_be_deleted_are_refused_where_hive_3_applies_it(tmp_path: Path) -> None:
    directory = tmp_path / tables.delta_name(1, 1)
    directory.mkdir()
    events = tables.inserts(1, rows(2, 0), writer=1)
    (directory / "bucket_00000").write_bytes(tables.acid_bytes(COLUMNS, events))
    assert numbers(splits_of(tmp_path, generation=Generation.HIVE3)) == [0, 1]
    deletes = tables.deletes(2, [(1, tables.bucket_property(1, 0), 0)])
    tables.write_dir(tmp_path, tables.delta_name(2, 2, delete=True), COLUMNS, deletes)
    with pytest.raises(CorruptError, match="it holds rows of bucket 1, not only of 0 as its name says"):
        numbers(splits_of(tmp_path, generation=Generation.HIVE3))
    assert numbers(splits_of(tmp_path, generation=Generation.HIVE4)) == [0, 1]  # as Hive 4 shows them


def test_a_table_without_rows_has_the_schema(tmp_path: Path) -> None:
    delta(tmp_path, 3)
    deleted(tmp_path, 2, 0, 1, 2)
    scan = scan_of("a", row_ids=True)
    table = read_table(scan, splits_of(tmp_path), Stores())
    assert table.num_rows == 0
    assert table.schema == scan.schema


def test_another_process_has_them_as_a_stream_in_the_order_of_the_splits(tmp_path: Path) -> None:
    delta(tmp_path, 100)
    splits, scan = splits_of(tmp_path, split_bytes=1), scan_of("a", row_ids=True)
    assert len(splits) > 1
    table = pa.ipc.open_stream(read_stream(scan, splits, Stores(), "attempt")).read_all()
    assert table.column("a").to_pylist() == list(range(100))
    assert table == read_table(scan, splits, Stores())
    (tmp_path / splits[0].file.path).unlink()
    with pytest.raises(CorruptError, match="bucket_00000"):
        read_stream(scan, splits, Stores(), "attempt")


# --- deletes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [None, without_stride], ids=["statistics", "decoded"])
def test_deleted_rows_are_not_seen_in_any_split(tmp_path: Path, change: Any) -> None:
    delta(tmp_path, 40)
    deleted(tmp_path, 2, 0, 9, 10, 39, change=change)
    deleted(tmp_path, 3, 9, 15)
    kept = [number for number in range(40) if number not in (0, 9, 10, 15, 39)]
    for split_bytes in (1, 128 << 20):
        assert numbers(splits_of(tmp_path, split_bytes=split_bytes)) == kept


def test_deletes_count_where_keys_have_no_statistics(tmp_path: Path) -> None:
    delta(tmp_path, 40)
    path = tmp_path / tables.delta_name(1, 1) / "bucket_00000"
    path.write_bytes(without_stride(path.read_bytes()))
    deleted(tmp_path, 2, 0, 9, 10, 39)
    assert numbers(splits_of(tmp_path)) == [number for number in range(40) if number not in (0, 9, 10, 39)]


@pytest.mark.parametrize("change", [None, without_stride], ids=["statistics", "decoded"])
def test_keys_that_do_not_ascend_are_refused_where_a_delete_is_among_them(tmp_path: Path, change: Any) -> None:
    unordered = [(0, 1, B0, row, 1, (row, "x")) for row in (5, 1, 9, 3)]
    data = tables.orc_bytes(tables.acid_schema(COLUMNS), unordered, tables.Layout(stride=1000))
    file = tmp_path / tables.delta_name(1, 1) / "bucket_00000"
    file.parent.mkdir()
    file.write_bytes(data if change is None else change(data))
    deleted(tmp_path, 2, 10)
    assert numbers(splits_of(tmp_path)) == [5, 1, 9, 3]
    for row in (1, 9):  # beyond the first key and the last
        deleted(tmp_path, row + 2, row)
        with pytest.raises(RefusedError, match=r"stripe 0 of \S*bucket_00000: its keys do not ascend"):
            numbers(splits_of(tmp_path))


# --- files without row ids --------------------------------------------------------------------------------------------


def original(path: Path, count: int, first: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tables.orc_bytes(COLUMNS, rows(count, first), STRIPES))


def test_files_without_ids_are_not_counted_where_it_does_not_matter(tmp_path: Path) -> None:
    original(tmp_path / "000000_0", 12, 0)
    original(tmp_path / "000000_0_copy_1", 3, 100)
    files = Reads()
    assert numbers(splits_of(tmp_path)[1:], opened_by(files)) == [100, 101, 102]
    assert set(files.opens) == {str(tmp_path / "000000_0_copy_1")}


# --- what is read -----------------------------------------------------------------------------------------------------

LARGE = tables.Layout(compression="none", stripe_size=1, stride=1000, batch=20_000)
KEY, A, S = {1, 2, 3, 4, 5}, 7, 8


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A base of two large stripes, in which the streams of columns lie apart."""
    events = tables.inserts(
        1, [(number * 7919 % 100_003, f"row {number * 7919 % 100_003}" * 10) for number in range(40_000)]
    )
    tables.write_base(tmp_path, 1, COLUMNS, events, LARGE)
    return tmp_path / "base_0000001" / "bucket_00000"


@pytest.mark.parametrize(("columns", "chosen"), [(("a",), {A}), (("s",), {S}), (("s", "a"), {A, S}), ((), set())])
def test_bytes_of_other_columns_are_not_read(
    large: Path, columns: tuple[str, ...], chosen: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acidlib.scan.source.joined_ranges", lambda ranges: sorted(ranges))
    files = Reads()
    table = read_table(scan_of(*columns), splits_of(large.parents[1]), opened_by(files))
    assert table.num_rows == 40_000
    assert files.columns_read(large) == chosen


def test_keys_are_read_where_they_are_asked_for_or_deletes_may_hit_them(large: Path) -> None:
    location, files = large.parents[1], Reads()
    read_table(scan_of(row_ids=True), splits_of(location), opened_by(files))
    assert files.columns_read(large) == KEY
    deleted(location, 2, 5_000_000)
    files = Reads()
    assert read_table(scan_of(), splits_of(location), opened_by(files)).num_rows == 40_000
    assert files.columns_read(large) == set()
    deleted(location, 3, 25_000)
    files = Reads()
    assert read_table(scan_of(), splits_of(location), opened_by(files)).num_rows == 39_999
    assert files.columns_read(large) == KEY


def test_a_stripe_without_rows_that_are_seen_is_not_read(tmp_path: Path) -> None:
    delta(tmp_path, 20, layout=replace(STRIPES, batch=10))
    deleted(tmp_path, 2, *range(10))
    path = tmp_path / tables.delta_name(1, 1) / "bucket_00000"
    data = bytearray(path.read_bytes())
    orc = o.read_orc(bytes(data))
    for stream in orc.stripes[0].streams:
        if stream.column in (A, S):
            data[stream.offset : stream.offset + stream.length] = b"\xff" * stream.length
    path.write_bytes(data)
    assert numbers(splits_of(tmp_path)) == list(range(10, 20))


def test_rows_are_counted_without_a_column(tmp_path: Path) -> None:
    delta(tmp_path, 30)
    deleted(tmp_path, 2, 4)
    (split,) = splits_of(tmp_path)
    assert sum(batch.num_rows for batch in read_split(scan_of(), split, Stores())) == 29


def test_files_are_closed(tmp_path: Path) -> None:
    delta(tmp_path, 30)
    deleted(tmp_path, 2, 4)
    files = Reads()
    read_table(scan_of("a", row_ids=True), splits_of(tmp_path), opened_by(files))
    assert files.opens
    assert files.opened == []


# --- partitions -------------------------------------------------------------------------------------------------------


def test_partition_keys_are_columns_in_the_order_asked_for(tmp_path: Path) -> None:
    delta(tmp_path, 2)
    keys = (TableColumn(name="ds", type="string"), TableColumn(name="hr", type="string"))
    splits = splits_of(tmp_path, partition="ds=a%2Fb/hr=07")
    table = read_table(scan_of("hr", "a", "ds", partition_keys=keys), splits, Stores())
    assert table.to_pylist() == [{"hr": "07", "a": number, "ds": "a/b"} for number in (0, 1)]


# --- predicates -------------------------------------------------------------------------------------------------------


def where(text: str) -> Predicate:
    return parse_predicate(text, pa.schema([*FIELDS.items(), ("ds", pa.string())]))


def test_rows_that_pass_are_read_by_columns_that_are_not_in_the_result(tmp_path: Path) -> None:
    delta(tmp_path, 30)
    deleted(tmp_path, 2, 12, 25)
    scan = scan_of("s", predicate=where("a in (3, 12, 13, 29)"), row_ids=True)
    table = read_table(scan, splits_of(tmp_path), Stores())
    assert table.to_pylist() == [
        {"row__id": {"writeid": 1, "bucketid": B0, "rowid": row}, "s": f"row {row}"} for row in (3, 13, 29)
    ]


def test_an_inexact_scan_leaves_out_whole_stripes_alone(tmp_path: Path) -> None:
    delta(tmp_path, 30)
    for exact, seen in ((True, [13]), (False, list(range(10, 20)))):
        scan = scan_of("a", predicate=where("a = 13"), exact=exact)
        assert read_table(scan, splits_of(tmp_path), Stores()).column("a").to_pylist() == seen


def test_other_columns_are_not_read_where_no_row_passes(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acidlib.scan.source.joined_ranges", lambda ranges: sorted(ranges))
    files = Reads()
    scan = scan_of("s", predicate=where("a = 50002 and a <> 50002"))
    assert read_table(scan, splits_of(large.parents[1]), opened_by(files)).num_rows == 0
    assert files.columns_read(large) == {A}
    scan = scan_of("s", predicate=where("a > 1000000"))
    assert read_table(scan, splits_of(large.parents[1]), opened_by(files := Reads())).num_rows == 0
    assert files.columns_read(large) == set()


def test_partition_keys_are_tested_too(tmp_path: Path) -> None:
    delta(tmp_path, 5)
    keys = (TableColumn(name="ds", type="string"),)
    splits = splits_of(tmp_path, partition="ds=x")
    for text, seen in (("ds = 'x' and a > 2", [3, 4]), ("ds = 'y' or a = 0", [0]), ("ds is null", [])):
        scan = scan_of("a", predicate=where(text), partition_keys=keys)
        assert read_table(scan, splits, Stores()).column("a").to_pylist() == seen


def test_a_text_on_which_readers_disagree_is_refused_with_its_partition(tmp_path: Path) -> None:
    delta(tmp_path, 5)
    keys = (TableColumn(name="ds", type="string"),)
    splits = splits_of(tmp_path, partition="ds=x%0Ay")
    assert (
        read_table(scan_of("a", predicate=where("ds like 'x%'"), partition_keys=keys), splits, Stores()).num_rows == 5
    )
    for text in ("ds like 'x_y'", "ds not like 'x_y'"):
        with pytest.raises(RefusedError) as refused:
            read_table(scan_of("a", predicate=where(text), partition_keys=keys), splits, Stores())
        assert str(refused.value).startswith(
            f"Cannot read partition ds=x%0Ay of t by {text!r}: a text has an end of a "
        )


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_file_that_is_not_what_its_name_promises_is_corrupt(tmp_path: Path) -> None:
    delta(tmp_path, 2)
    path = tmp_path / tables.delta_name(1, 1) / "bucket_00000"
    path.write_bytes(tables.orc_bytes(COLUMNS, rows(2), STRIPES))
    with pytest.raises(CorruptError, match=rf"Cannot read {path}: it should hold ACID events, and its schema is"):
        numbers(splits_of(tmp_path))


def test_a_damaged_stripe_is_named(tmp_path: Path) -> None:
    delta(tmp_path, 10, layout=replace(STRIPES, compression="zlib"))
    path = tmp_path / tables.delta_name(1, 1) / "bucket_00000"
    data = bytearray(path.read_bytes())
    stream = next(s for s in o.read_orc(bytes(data)).stripes[0].streams if s.column == A and s.kind == 1)
    header = (stream.length - 3 << 1).to_bytes(3, "little")  # of a compressed block
    data[stream.offset : stream.offset + stream.length] = header + b"\xff" * (stream.length - 3)
    path.write_bytes(data)
    with pytest.raises(CorruptError, match=rf"Cannot read column \d in stripe 0 of {path}: "):
        numbers(splits_of(tmp_path))


def test_a_later_file_of_the_same_columns_is_named(tmp_path: Path) -> None:
    delta(tmp_path, 10)
    delta(tmp_path, 10, write_id=2, layout=replace(STRIPES, compression="zlib"))
    path = tmp_path / tables.delta_name(2, 2) / "bucket_00000"
    data = bytearray(path.read_bytes())
    stream = next(s for s in o.read_orc(bytes(data)).stripes[0].streams if s.column == S and s.kind == 1)
    data[stream.offset : stream.offset + 3] = (stream.length - 3 << 1).to_bytes(3, "little")
    data[stream.offset + 3 : stream.offset + stream.length] = b"\xff" * (stream.length - 3)
    path.write_bytes(data)
    scan = scan_of("s")
    with pytest.raises(CorruptError, match=rf"Cannot read column \d in stripe 0 of {path}: "):
        read_table(scan, splits_of(tmp_path), Stores())


def test_without_statistics_only_operations_are_read_where_keys_do_not_matter(large: Path) -> None:
    large.write_bytes(without_stride(large.read_bytes()))
    files = Reads()
    assert read_table(scan_of(), splits_of(large.parents[1]), opened_by(files)).num_rows == 40_000
    assert files.columns_read(large) == {1}


@pytest.mark.parametrize("change", [None, without_stride], ids=["statistics", "decoded"])
def test_updates_of_the_first_acid_version_are_refused(tmp_path: Path, change: Any) -> None:
    events = [(tables.UPDATE, 1, B0, 0, 2, (1, "new"))]
    path = tables.write_dir(tmp_path, tables.delta_name(2, 2), COLUMNS, events, STRIPES) / "bucket_00000"
    if change is not None:
        path.write_bytes(change(path.read_bytes()))
    with pytest.raises(RefusedError, match=r"operation 1 to 1 where only 0 belongs"):
        numbers(splits_of(tmp_path))
