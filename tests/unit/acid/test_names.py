"""Names of directories and files."""

import pytest

from acidlib.acid.names import (
    LONG_MIN,
    BaseDir,
    BucketFile,
    DeltaDir,
    Generation,
    OriginalFile,
    has_visibility_suffix,
    is_acid_directory_name,
    is_hidden,
    is_side_file,
    parse_directory,
    parse_file,
)
from acidlib.errors import CorruptError, RefusedError

HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4


@pytest.mark.parametrize(
    ("name", "parsed", "canonical"),
    [
        ("base_000123", BaseDir(write_id=123), "base_0000123"),
        ("base_5", BaseDir(write_id=5), "base_0000005"),
        ("base_1234567890", BaseDir(write_id=1234567890), "base_1234567890"),
        ("base_-9223372036854775808", BaseDir(write_id=LONG_MIN), "base_-9223372036854775808"),
        ("delta_000005_000006", DeltaDir(min_write_id=5, max_write_id=6), "delta_0000005_0000006"),
        (
            "delete_delta_0000004_0000004_0001",
            DeltaDir(min_write_id=4, max_write_id=4, statement_id=1, is_delete=True),
            "delete_delta_0000004_0000004_0001",
        ),
        (
            "delta_1234567880_1234567890_0000",
            DeltaDir(min_write_id=1234567880, max_write_id=1234567890, statement_id=0),
            "delta_1234567880_1234567890_0000",
        ),
        ("delta_1_1_9999", DeltaDir(min_write_id=1, max_write_id=1, statement_id=9999), "delta_0000001_0000001_9999"),
    ],
)
def test_directories_of_both_generations(name: str, parsed: BaseDir | DeltaDir, canonical: str) -> None:
    assert parse_directory(name, HIVE3) == parsed
    assert parse_directory(name, HIVE4) == parsed
    assert parsed.name == canonical


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("base_0000005_v0000012", BaseDir(write_id=5, visibility_txn=12)),
        ("base_-9223372036854775808_v0000022", BaseDir(write_id=LONG_MIN, visibility_txn=22)),
        ("delta_0000003_0000009_v123456789", DeltaDir(min_write_id=3, max_write_id=9, visibility_txn=123456789)),
        (
            "delete_delta_0000003_0000009_v0000020",
            DeltaDir(min_write_id=3, max_write_id=9, visibility_txn=20, is_delete=True),
        ),
        (
            "delta_0000003_0000003_0002_v0000020",
            DeltaDir(min_write_id=3, max_write_id=3, statement_id=2, visibility_txn=20),
        ),
    ],
)
def test_visibility_suffix_is_read_by_hive_4_alone(name: str, parsed: BaseDir | DeltaDir) -> None:
    assert parse_directory(name, HIVE4) == parsed
    assert parsed.name == name
    assert has_visibility_suffix(name)
    with pytest.raises(RefusedError, match=name):
        parse_directory(name, HIVE3)


@pytest.mark.parametrize(
    "name",
    [
        "base_",
        "base_x",
        "base_-5",
        "base_5_0",
        "base_5_v",
        "base_+5",
        "base_99999999999999999999",
        "base_9223372036854775808",
        "delta_1",
        "delta_1_",
        "delta_2_1",
        "delta_1_2_3_4",
        "delta_1_2_x",
        "delta_1_2_v3_4",
        "delete_delta_1_\u0661",
        "delta_1_1_0000 ",
    ],
)
def test_what_begins_as_an_acid_directory_has_to_parse(name: str) -> None:
    with pytest.raises(CorruptError, match="does not parse"):
        parse_directory(name, HIVE4)


@pytest.mark.parametrize("name", ["HIVE_UNION_SUBDIR_1", "p=1", "based", "deltas", "delete_deltas_1_1", "", "_tmp_x"])
def test_other_directories(name: str) -> None:
    assert parse_directory(name, HIVE4) is None


@pytest.mark.parametrize("name", ["base_id=1", "base_1=_v2", "delta_kind=a", "delta_1_1=1", "delete_delta_x=1"])
def test_partitions_whose_keys_begin_as_acid_directories_do(name: str) -> None:
    assert not is_acid_directory_name(name)
    assert not has_visibility_suffix(name)
    assert parse_directory(name, HIVE3) is None


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("bucket_00001", BucketFile(bucket=1)),
        ("bucket_123", BucketFile(bucket=123)),
        ("bucket_00001_0", BucketFile(bucket=1, attempt=0)),
        ("bucket_00002_flush_length", None),
        ("bucket_00002_1_flush_length", None),
        ("000123_0", OriginalFile(bucket=123)),
        ("000001_1000", OriginalFile(bucket=1, writer_suffix=1000)),
        ("000000_0_copy_12", OriginalFile(bucket=0, copy=12)),
        ("123456789_0", OriginalFile(bucket=123456789)),
        ("bucket_", None),
        ("bucket_0_1_2", None),
        ("000000_0_copy_", None),
        ("000000_0.orc", None),
        ("random", None),
    ],
)
def test_files(name: str, parsed: object) -> None:
    assert parse_file(name) == parsed
    assert is_side_file(name) == name.endswith("_flush_length")


def test_file_names_as_hive_writes_them() -> None:
    assert BucketFile(bucket=23).name == "bucket_00023"
    assert BucketFile(bucket=23, attempt=0).name == "bucket_00023_0"
    assert OriginalFile(bucket=23).name == "000023_0"
    assert OriginalFile(bucket=123456789, copy=3).name == "123456789_0_copy_3"


def test_hidden_names() -> None:
    assert is_hidden("_tmp_1")
    assert is_hidden(".hive-staging")
    assert not is_hidden("bucket_00000")
