"""Every name that can be written is read back as what it was."""

from hypothesis import given, settings
from hypothesis import strategies as st

from acidlib.acid.names import (
    LONG_MAX,
    LONG_MIN,
    BaseDir,
    BucketFile,
    DeltaDir,
    Generation,
    OriginalFile,
    parse_directory,
    parse_file,
)
from acidlib.acid.write_ids import RangePart, ValidWriteIdList
from acidlib.model.requests import format_map, parse_map
from acidlib.model.tables import PartitionName, escape_path_name, unescape_path_name
from acidlib.model.units import decode_bucket, encode_bucket

write_ids = st.integers(0, LONG_MAX)
numbers = st.integers(0, 999_999_999)
ids = st.frozensets(st.integers(1, 40), max_size=20)
bounded = settings(max_examples=200)


@bounded
@given(st.one_of(write_ids, st.just(LONG_MIN)), write_ids)
def test_bases(write_id: int, txn: int) -> None:
    base = BaseDir(write_id=write_id, visibility_txn=txn)
    assert parse_directory(base.name, Generation.HIVE4) == base


@bounded
@given(write_ids, write_ids, st.integers(-1, 9999), write_ids, st.booleans())
def test_deltas(one: int, other: int, statement: int, txn: int, is_delete: bool) -> None:
    low, high = sorted((one, other))
    delta = DeltaDir(
        min_write_id=low, max_write_id=high, statement_id=statement, visibility_txn=txn, is_delete=is_delete
    )
    assert parse_directory(delta.name, Generation.HIVE4) == delta


@bounded
@given(numbers, st.none() | numbers, numbers, st.none() | numbers)
def test_files(bucket: int, attempt: int | None, suffix: int, copy: int | None) -> None:
    data = BucketFile(bucket=bucket, attempt=attempt)
    original = OriginalFile(bucket=bucket, writer_suffix=suffix, copy=copy)
    assert parse_file(data.name) == data
    assert parse_file(original.name) == original


@bounded
@given(st.integers(0, 4095), st.integers(0, 4095))
def test_bucket_properties(bucket: int, statement: int) -> None:
    assert decode_bucket(encode_bucket(bucket, statement)) == (bucket, statement, 1)


@bounded
@given(st.text(min_size=1))
def test_partition_values(value: str) -> None:
    escaped = escape_path_name(value)
    assert "/" not in escaped
    assert "=" not in escaped
    assert unescape_path_name(escaped) == value
    name = PartitionName(pairs=(("k", value), ("l", "x")))
    assert PartitionName.parse(name.path) == name


@bounded
@given(st.dictionaries(st.none() | st.text(), st.none() | st.text(), max_size=5))
def test_stringable_maps(entries: dict[str | None, str | None]) -> None:
    assert parse_map(format_map(entries)) == entries


@bounded
@given(ids, ids, st.integers(0, 40), st.integers(1, 40), st.integers(0, 20))
def test_write_id_lists_against_counting(
    opened: frozenset[int], aborted: frozenset[int], mark: int, low: int, size: int
) -> None:
    opened -= aborted
    written = ValidWriteIdList(table="d.t", high_water_mark=mark, open_ids=tuple(opened), aborted_ids=tuple(aborted))
    read = ValidWriteIdList.parse(written.format())
    assert read == written
    high = low + size
    inside = range(low, high + 1)
    assert [read.is_write_id_valid(i) for i in inside] == [i <= mark and i not in opened | aborted for i in inside]
    gone = sum(i in aborted for i in inside)
    expected = RangePart.NONE if gone == 0 or low > mark else RangePart.ALL if gone == len(inside) else RangePart.SOME
    assert read.range_aborted(low, high) is expected
    if high <= mark:
        invalid = sum(i in opened | aborted for i in inside)
        valid = RangePart.ALL if invalid == 0 else RangePart.NONE if invalid == len(inside) else RangePart.SOME
        assert read.range_valid(low, high) is valid
    compactor = read.for_compactor()
    assert compactor.high_water_mark == min([mark, *(i - 1 for i in opened)])
    assert all(compactor.is_write_id_valid(i) == (i not in aborted) for i in range(1, compactor.high_water_mark + 1))
