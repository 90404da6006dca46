"""Footers: what pyarrow's files say, what is refused, what is damaged, which files stay alone."""

from __future__ import annotations

import base64
import random
import re
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from parquet_joining import columns, edit, footer_of, join, metadata_bytes, with_metadata

from acidlib.errors import AcidError, CorruptError, RefusedError
from acidlib.parquet import footer as footer_module
from acidlib.parquet.footer import File, Region

TABLE = pa.table(
    {
        "id": pa.array(range(300), pa.int64()),
        "name": [f"name {n % 40}" if n % 5 else None for n in range(300)],
        "tags": [[str(n)] * (n % 3) for n in range(300)],
        "pair": [{"a": n, "b": 0.5} for n in range(300)],
    }
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Three row groups of five leaves with everything that has an offset."""
    path = tmp_path / "file"
    pq.write_table(TABLE, path, row_group_size=100, write_page_index=True, bloom_filter_options={"id": {"ndv": 300}})
    return path


def test_a_footer_says_what_pyarrow_reads(file: Path) -> None:
    footer, expected = footer_of(file), pq.read_metadata(file)
    assert (footer.name, footer.length, footer.rows) == (str(file), file.stat().st_size, 300)
    assert footer.struct[File.CREATED_BY] == expected.created_by.encode()
    assert dict(footer.key_values) == expected.metadata
    assert footer.alone == ""
    assert [group.rows for group in footer.row_groups] == [100, 100, 100]
    for number, group in enumerate(footer.row_groups):
        assert len(group.chunks) == expected.num_columns == 5
        for place, chunk in enumerate(group.chunks):
            column = expected.row_group(number).column(place)
            first = min(column.dictionary_page_offset or column.data_page_offset, column.data_page_offset)
            assert chunk.pages == Region(start=first, size=column.total_compressed_size)
            assert chunk.bloom_filter == (column.bloom_filter_offset or 0)
            assert (chunk.offset_index.size > 0, chunk.column_index.size > 0) == (True, True)


def test_a_footer_larger_than_the_first_read(tmp_path: Path) -> None:
    path = tmp_path / "wide"
    pq.write_table(pa.table({f"column {n}": [n] for n in range(1000)}), path)
    footer = footer_of(path)
    assert footer.size > 1 << 16
    assert len(footer.row_groups[0].chunks) == 1000


class _Keys(pe.KmsClient):
    def __init__(self, _: Any) -> None:
        pe.KmsClient.__init__(self)

    def wrap_key(self, key_bytes: bytes, _: str) -> bytes:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: bytes, _: str) -> bytes:
        return base64.b64decode(wrapped_key)


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_an_encrypted_file_is_refused(tmp_path: Path, plaintext_footer: bool) -> None:
    path = tmp_path / "secret"
    options = pe.EncryptionConfiguration(
        footer_key="f", column_keys={"c": ["id"]}, plaintext_footer=plaintext_footer, double_wrapping=False
    )
    properties = pe.CryptoFactory(_Keys).file_encryption_properties(pe.KmsConnectionConfig(), options)
    pq.write_table(TABLE, path, encryption_properties=properties)
    assert path.read_bytes().endswith(b"PAR1" if plaintext_footer else b"PARE")
    with pytest.raises(RefusedError, match="encrypted"):
        footer_of(path)


@pytest.mark.parametrize("field", [8, 9])
def test_an_encrypted_column_is_refused(file: Path, field: int) -> None:
    edit(file, lambda struct: columns(struct)[3].update({field: b"\0" if field == 8 else b"x"}))
    with pytest.raises(RefusedError, match=r"row group 0 of .*: it is encrypted"):
        footer_of(file)


@pytest.mark.parametrize("field", [8, 9])
def test_a_signed_footer_is_refused(file: Path, field: int) -> None:
    edit(file, lambda struct: struct.update({field: b"\0" if field == 8 else b"x"}))
    with pytest.raises(RefusedError, match="it is encrypted"):
        footer_of(file)


def test_a_summary_of_other_files_is_refused(file: Path, tmp_path: Path) -> None:
    collected: list[Any] = []
    pq.write_to_dataset(TABLE, tmp_path / "set", metadata_collector=collected)
    pq.write_metadata(TABLE.schema, tmp_path / "_metadata", metadata_collector=collected)
    with pytest.raises(RefusedError, match=r"its data lie in another file, '.*parquet'"):
        footer_of(tmp_path / "_metadata")


def test_a_footer_beyond_the_limit_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footer_module, "MAX_FOOTER_BYTES", footer_of(file).size)
    footer_of(file)
    monkeypatch.setattr(footer_module, "MAX_FOOTER_BYTES", footer_of(file).size - 1)
    with pytest.raises(RefusedError, match="bytes, more than"):
        footer_of(file)


def test_no_shorter_file_is_read(file: Path) -> None:
    data = file.read_bytes()
    for end in [*range(20), *range(len(data) - 3000, len(data), 37), len(data) // 2]:
        file.write_bytes(data[:end])
        with pytest.raises(CorruptError, match=str(file)):
            footer_of(file)


def test_both_magics_are_needed(file: Path) -> None:
    data = file.read_bytes()
    for broken in (b"PAR2" + data[4:], data[:-4] + b"PAR2", data[:-8] + bytes(4) + b"PAR1"):
        file.write_bytes(broken)
        with pytest.raises(CorruptError):
            footer_of(file)


def _meta(number: int, field: int, value: int) -> Callable[[Any], None]:
    return lambda struct: columns(struct)[number][3].update({field: value})


def _column(number: int, field: int, value: int) -> Callable[[Any], None]:
    return lambda struct: columns(struct)[number].update({field: value})


DAMAGE: dict[str, tuple[str, Callable[[Any], None]]] = {
    "negative rows": ("-1 rows", lambda s: s[4][1].update({3: -1})),
    "a column too few": ("it has 4 columns and its schema 5", lambda s: s[4][0][1].pop()),
    "a column too many": ("it has 6 columns and its schema 5", lambda s: s[4][0][1].append(s[4][0][1][0])),
    "no metadata": ("a column has no metadata", lambda s: columns(s)[2].pop(3)),
    "pages before the data": ("do not lie in the file's data", _meta(0, 11, 3)),
    "pages behind the data": ("do not lie in the file's data", _meta(14, 7, 1 << 40)),
    "no pages": ("do not lie in the file's data", _meta(7, 7, 0)),
    "pages of a negative size": ("do not lie in the file's data", _meta(7, 7, -5)),
    "a data page elsewhere": (r"row group 0 of .*: a page at \d+ does not lie", _meta(0, 9, 3000)),
    "a dictionary elsewhere": ("a page at 1099511627776 does not lie", _meta(0, 11, 1 << 40)),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_footer_is_told(kind: str, file: Path) -> None:
    reason, change = DAMAGE[kind]
    edit(file, change)
    with pytest.raises(CorruptError, match=reason) as caught:
        footer_of(file)
    assert str(file) in str(caught.value)


FORGIVEN: dict[str, tuple[str, Callable[[Any], None]]] = {
    "rows of the file": ("its row groups have 300 rows and its footer says 301", lambda s: s.update({3: 301})),
    "rows of a group": ("its row groups have 299 rows and its footer says 300", lambda s: s[4][1].update({3: 99})),
    "an index page elsewhere": ("an index page of it at 4000 does not lie", _meta(0, 10, 4000)),
    "pages of two columns": (
        "bytes of a column at .* overlap what",
        lambda s: columns(s)[1].update({3: columns(s)[0][3]}),
    ),
    "a size too large": ("bytes of a column at .* overlap what", lambda s: columns(s)[2][3].update({7: 4000})),
    "the last size too large": (
        "overlap what follows",
        lambda s: columns(s)[-1][3].update({7: 1 + columns(s)[-1][3][7]}),
    ),
}


@pytest.mark.parametrize("kind", FORGIVEN)
def test_what_readers_do_not_look_at_keeps_a_file_alone(kind: str, tmp_path: Path) -> None:
    reason, change = FORGIVEN[kind]
    file, copy = tmp_path / "file", tmp_path / "copy"
    pq.write_table(TABLE, file, row_group_size=100)
    edit(file, change)
    assert re.match(f".*{reason}", footer_of(file).alone)
    join(copy, [file])
    assert copy.read_bytes() == file.read_bytes()
    with pytest.raises(RefusedError, match="is copied as a whole"):
        join(tmp_path / "two", [file, file])


NO_INDEX: dict[str, tuple[str, Callable[[Any], None]]] = {
    "a bloom filter elsewhere": ("bloom_filter", _meta(0, 14, 1 << 40)),
    "a bloom filter at the start": ("bloom_filter", _meta(0, 14, 0)),
    "a bloom filter before the start": ("bloom_filter", _meta(0, 14, -1)),
    "an offset index elsewhere": ("offset_index", _column(0, 4, 1 << 40)),
    "an offset index without end": ("offset_index", _column(0, 5, (1 << 31) - 1)),
    "an offset index of nothing at the start": ("offset_index", lambda s: columns(s)[0].update({4: 0, 5: 0})),
    "a column index of nothing": ("column_index", _column(0, 7, 0)),
    "a column index without place": ("column_index", lambda s: columns(s)[0].pop(6)),
}


@pytest.mark.parametrize("kind", NO_INDEX)
def test_an_index_or_filter_that_does_not_lie_in_the_file_is_none(kind: str, file: Path) -> None:
    name, change = NO_INDEX[kind]
    edit(file, change)
    joined = file.with_name("joined")
    join(joined, [file, file])
    for footer, others in ((footer_of(file), 1), (footer_of(joined), 2)):
        first, second = (getattr(group.chunks[0], name) for group in footer.row_groups[:2])
        assert (first, bool(second), footer.alone) == (type(first)(), True, "")
        assert len(footer.row_groups) == 3 * others
    assert pq.read_table(joined) == pa.concat_tables([TABLE, TABLE])
    column = pq.read_metadata(joined).row_group(0).column(0)
    is_there = {
        "bloom_filter": column.bloom_filter_offset is not None,
        "offset_index": column.has_offset_index,
        "column_index": column.has_column_index,
    }
    assert not is_there.pop(name)
    assert all(is_there.values())


@pytest.mark.parametrize(
    "schema",
    [
        b"\x0c",  # nothing
        b"\x1c\x48\x01r\x15\x04\x00",  # a root that lacks its two children
        b"\x2c\x48\x01r\x00\x15\x02\x38\x01a\x00",  # a second root
        b"\x2c\x48\x01r\x00\x48\x01a\x15\x02\x00",  # a second root, with a child too few
        b"\x1c\x48\x01r\x15\x03\x00",  # a negative number of children
    ],
)
def test_a_schema_that_is_no_tree(file: Path, schema: bytes) -> None:
    edit(file, lambda struct: struct.update({2: schema}))
    with pytest.raises(CorruptError, match="its schema is no tree"):
        footer_of(file)


@pytest.mark.parametrize(
    ("number", "header"),
    # as Thrift writes it, and as the example in BinaryProtocolExtensions.md has it, which is another number
    [(32767, b"\x08\xfe\xff\x03"), (-16384, b"\x08\xff\xff\x01")],
)
def test_what_is_not_known_keeps_a_file_alone(file: Path, number: int, header: bytes) -> None:
    data = file.read_bytes()
    file.write_bytes(with_metadata(data, metadata_bytes(data)[:-1] + header + b"\x03abc\x00"))
    assert pq.read_table(file) == TABLE
    assert footer_of(file).alone == f"its footer has unknown fields (FileMetaData field {number})"
    copy = file.with_name("copy")
    assert join(copy, [file]).rows == 300
    assert copy.read_bytes() == file.read_bytes()
    with pytest.raises(RefusedError, match=f"is copied as a whole: .*field {number}"):
        join(file.with_name("two"), [file, file])


def test_a_newer_key_value_keeps_a_file_alone(file: Path) -> None:
    edit(file, lambda struct: struct.update({5: b"\x1c\x18\x01k\x28\x01v\x00"}))
    assert footer_of(file).alone == "its footer has unknown fields (KeyValue field 3)"


def test_bytes_behind_the_metadata_keep_a_file_alone(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(with_metadata(data, metadata_bytes(data) + bytes(3)))
    assert footer_of(file).alone == "3 bytes follow its metadata"


@pytest.mark.parametrize(
    ("writer", "alone"),
    [
        ("parquet-mr", True),
        ("parquet-mr version 1.2.8 (build 1)", True),
        ("parquet-mr version 0.99.0", True),
        ("parquet-mr version 1.2.9", False),
        ("parquet-mr version 1.10.0 (build 1)", False),
        ("parquet-mr version 1.12.0", False),
        ("parquet-mr version " + "9" * 5000, True),
        ("impala version 1.0", False),
        ("", False),
    ],
)
def test_writers_that_understated_sizes(file: Path, writer: str, alone: bool) -> None:
    edit(file, lambda struct: struct.update({6: writer.encode()}))
    assert footer_of(file).alone == ("its writer understated the sizes of columns" if alone else "")


def _mutated(data: bytes, random: random.Random) -> bytes:
    metadata = bytearray(metadata_bytes(data))
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randrange(len(metadata))
        match random.randrange(4):
            case 0:
                metadata[at] = random.randrange(256)
            case 1:
                metadata[at] ^= 1 << random.randrange(8)
            case 2:
                del metadata[at : at + random.choice((1, 2, 10))]
            case _:
                metadata[at:at] = random.choice((b"\xff" * 9, b"\xfc\xff\xff\xff\xff\x07", b"\x1c" * 100, b"\0"))
    return with_metadata(data, bytes(metadata))


@pytest.mark.slow
def test_mutated_footers_give_an_error_or_the_same_rows(file: Path, tmp_path: Path) -> None:
    """Whatever pyarrow reads of a file whose footer is damaged, it reads twice of that file joined with itself."""
    data = file.read_bytes()
    seeded = random.Random(17)
    path, target = tmp_path / "mutant", tmp_path / "joined"
    compared = 0
    for _ in range(1500):
        path.write_bytes(_mutated(data, seeded))
        target.unlink(missing_ok=True)
        try:
            join(target, [path, path])
        except AcidError as error:
            assert str(path) in str(error)  # noqa: PT017 - most of them fail, each with the file's name
            continue
        try:
            rows = pq.read_table(path)
            names = rows.column_names
        except (OSError, pa.ArrowException, ValueError):
            continue
        joined = pq.read_table(target)
        assert (names, joined) == (joined.column_names, pa.concat_tables([rows, rows]))
        compared += 1
    assert compared > 50


def test_mutated_footers_take_little_memory(file: Path, tmp_path: Path) -> None:
    data = file.read_bytes()
    seeded = random.Random(18)
    path = tmp_path / "mutant"
    tracemalloc.start()
    for _ in range(300):
        path.write_bytes(_mutated(data, seeded))
        with suppress(AcidError):
            footer_of(path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
