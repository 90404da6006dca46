"""Which files become one: only those whose rows every reader interprets alike; and the reason why others are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from parquet_joining import edit, footer_of, join

from acidlib.errors import RefusedError
from acidlib.parquet.footer import Footer
from acidlib.parquet.join import differences

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
        ("other key-value metadata (of one key twice)", lambda s: s.update({5: b"\x3c" + s[5][1:] + s[5][1:29]})),
    ],
)
def test_other_differences(tmp_path: Path, first: Footer, reason: str, change: Callable[[Any], None]) -> None:
    path = tmp_path / "other"
    write(path)
    other = footer_of(edit(path, change))
    [reason_found] = differences(first, other)
    assert reason_found.startswith(reason)
    with pytest.raises(RefusedError, match=r"Cannot join .*other with .*first: because of "):
        join(tmp_path / "target", [tmp_path / "first", path])
    assert not (tmp_path / "target").exists()


def test_a_file_of_its_own_kind_is_told(first: Footer) -> None:
    alone = replace(first, name="alone", alone="of its own kind")
    assert differences(first, alone) == ("alone is copied as a whole: of its own kind",)


def test_one_file_holds_no_more_than_the_limits(first: Footer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("acidlib.parquet.join.MOST_ROW_GROUPS", 2)
    with pytest.raises(RefusedError, match="one file cannot hold 3 row groups"):
        join(tmp_path / "target", [Path(first.name)] * 3)
    monkeypatch.undo()
    monkeypatch.setattr("acidlib.parquet.join._MOST_ROWS", 5)
    with pytest.raises(RefusedError, match="3 row groups of 6 rows"):
        join(tmp_path / "target", [Path(first.name)] * 3)
