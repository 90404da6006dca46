"""Much of one thing: stripes of one row, columns, entries of dictionaries, bytes of a stripe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pytest
from acid_inputs import without_key_index
from compaction import MAJOR, MINOR, bucket_files, compact_directory
from judges import merge, tables
from judges import orc_tail as o
from judges.java_orc import JavaOrc
from judges.merge import bucket_property
from long_runs import LONG, amount

from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings
from conformance.byte_orc import acid_ints
from conformance.odd import COPY, RECODE, compact_judged

B0 = bucket_property(0, 0)


def put(location: Path, write_id: int, data: bytes) -> Path:
    """A file as bucket 0 of a delta."""
    directory = location / tables.delta_name(write_id, write_id)
    directory.mkdir(parents=True)
    path = directory / "bucket_00000"
    path.write_bytes(data)
    return path


def delete(location: Path, write_id: int, columns: str, keys: list[tuple[int, int]]) -> None:
    """A delete delta of rows of bucket 0: write id and row id of each."""
    events = tables.deletes(write_id, [(key[0], B0, key[1]) for key in keys])
    tables.write_dir(location, tables.delta_name(write_id, write_id, delete=True), columns, events)


# --- stripes of one row -----------------------------------------------------------------------------------------------


@pytest.mark.java
def test_java_reads_stripes_of_one_row(java: JavaOrc, tmp_path: Path) -> None:
    """The premise of the next test."""
    rows = [(i, None if i % 3 else -i) for i in range(60)]
    path = put(tmp_path, 1, acid_ints(tables.inserts(1, rows), 2, stripe_rows=1))
    assert len(o.read_orc(path).stripes) == 60
    assert java.differences(path) == []
    assert java.seek_check(path, random_rows=5).problems == ()
    assert [event[5] for event in java.rows(path)] == rows


@pytest.mark.parametrize(
    ("kind", "settings", "indexed"),
    [
        pytest.param(MINOR, COPY, True, id="minor"),
        pytest.param(MAJOR, COPY, True, id="major"),
        pytest.param(MAJOR, COPY, False, id="no-key-index"),
        pytest.param(MAJOR, RECODE, True, id="recoded"),
    ],
)
def test_more_than_a_thousand_stripes_of_one_row(
    kind: CompactionType, settings: RewriteSettings, indexed: bool, tmp_path: Path
) -> None:
    location, count = tmp_path / "t", 700
    for write_id in (1, 2):
        rows = [(i, None if i % 3 else -i) for i in range(count)]
        data = acid_ints(tables.inserts(write_id, rows), 2, stripe_rows=1)
        put(location, write_id, data if indexed else without_key_index(data))
    delete(location, 3, "struct<c0:int,c1:int>", [(1, i) for i in range(0, count, 7)])
    made = compact_judged(location, kind, settings=settings)
    [result] = [result for result in made.results if result.rows_out]
    gone = len(range(0, count, 7)) if kind is MAJOR else 0
    assert result.rows_out == 2 * count - gone
    assert result.stripes_copied == (2 * count - gone if settings is COPY else 0)


# --- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.java
def test_thousands_of_columns(java: JavaOrc, tmp_path: Path) -> None:
    location, count = tmp_path / "t", 3000
    for write_id in (1, 2):
        rows = [tuple(None if (i + c) % 5 == 0 else i * c - 9000 for c in range(count)) for i in range(3)]
        path = put(location, write_id, acid_ints(tables.inserts(write_id, rows), count))
        assert java.differences(path) == []
    delete(location, 3, "struct<c0:int>", [(1, 1)])
    before = merge.read(location)
    made = compact_directory(location, MAJOR, settings=COPY)
    assert (made.results[0].stripes_copied, made.results[0].stripes_rewritten) == (1, 1)
    assert merge.read(location, strict=True) == before
    [path] = bucket_files(location, made.directories)
    assert java.differences(path) == []


def test_statistics_of_many_columns(tmp_path: Path) -> None:
    """Recomputing them takes long: for fewer."""
    location, count = tmp_path / "t", 500
    for write_id in (1, 2):
        rows = [tuple(None if (i + c) % 5 == 0 else i * c - 9000 for c in range(count)) for i in range(3)]
        put(location, write_id, acid_ints(tables.inserts(write_id, rows), count))
    delete(location, 3, "struct<c0:int>", [(1, 1)])
    compact_judged(location, MAJOR, settings=COPY)


# --- what pyarrow writes fast -----------------------------------------------------------------------------------------


def event_table(write_id: int, columns: dict[str, pa.Array]) -> pa.Table:
    """Insert events of bucket 0."""
    count = len(next(iter(columns.values())))
    ids = {
        "operation": np.zeros(count, np.int32),
        "originalTransaction": np.full(count, write_id, np.int64),
        "bucket": np.full(count, B0, np.int32),
        "rowId": np.arange(count, dtype=np.int64),
        "currentTransaction": np.full(count, write_id, np.int64),
    }
    return pa.table({**ids, "row": pa.StructArray.from_arrays(list(columns.values()), list(columns))})


def write_events(location: Path, write_id: int, columns: dict[str, pa.Array], compression: str = "zlib") -> pa.Table:
    """One stripe, strings in a dictionary; what was written is given back."""
    table, path = event_table(write_id, columns), put(location, write_id, b"")
    pa.orc.write_table(
        table, str(path), stripe_size=1 << 30, compression=compression, dictionary_key_size_threshold=1.0
    )
    assert len(o.read_orc(path).stripes) == 1
    return table


def kept(parts: list[pa.Table], gone: list[tuple[int, int]]) -> pa.Table:
    """The rows of some tables in order, without those deleted: write id and row id of each."""
    whole = pa.concat_tables(parts)
    for write_id, row_id in gone:
        whole = whole.filter(
            pc.invert(
                pc.and_(pc.equal(whole["originalTransaction"], write_id), pc.equal(whole["rowId"], pa.scalar(row_id)))
            )
        )
    return whole


ENTRIES = amount(1 << 16, long=1 << 20) * 51 // 50


@pytest.mark.slow
@pytest.mark.java
def test_dictionaries_of_many_entries_are_merged(java: JavaOrc, tmp_path: Path) -> None:
    location = tmp_path / "t"
    parts, sizes = [], []
    counts = ENTRIES * 4 // 3, ENTRIES * 2 // 3
    for write_id, count, entries, first in ((1, counts[0], ENTRIES, 0), (2, counts[1], ENTRIES // 2, ENTRIES * 3 // 4)):
        numbers = np.random.default_rng(write_id).permutation(np.arange(count) % entries) + first
        words = pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), 8, "k")
        texts = pc.if_else(pa.array(numbers % 97 == 5), pa.scalar(None, pa.string()), words)
        parts.append(write_events(location, write_id, {"s": texts}))
        stripe = o.read_orc(location / tables.delta_name(write_id, write_id) / "bucket_00000").stripes[0]
        sizes.append(o.one(stripe.encodings[7], 2))
        assert sizes[-1] == pc.count_distinct(texts).as_py()
    assert sizes[0] > 1 << 16
    gone = [(1, 0), (1, ENTRIES * 3 // 4), (2, counts[1] - 1)]
    delete(location, 3, "struct<s:string>", gone)
    made = compact_directory(location, MAJOR, generation=4, settings=RECODE)
    [path] = bucket_files(location, made.directories)
    expected = kept(parts, gone)
    assert pa.orc.read_table(path).cast(expected.schema).equals(expected)
    file, texts = o.read_orc(path), expected["row"].combine_chunks().field(0)
    [stripe] = file.stripes
    assert o.one(stripe.encodings[7], 2) == pc.count_distinct(texts).as_py()
    stream = stripe.stream(7, o.DICTIONARY_DATA)
    assert stream is not None
    assert file.stream_bytes(stream) == "".join(sorted(set(texts.drop_null().to_pylist()))).encode()
    said = o.parse(file.stripe_statistics(0)[7][4][0])
    bounds = pc.min_max(texts).as_py()
    assert (o.one(said, 1), o.one(said, 2)) == (bounds["min"].encode(), bounds["max"].encode())
    assert o.signed(o.one(said, 3)) == pc.sum(pc.binary_length(texts)).as_py()
    wanted = texts[ENTRIES].as_py()
    assert java.look_up(path, "s", wanted)[1] == pc.sum(pc.equal(texts, wanted)).as_py()


@pytest.mark.slow
@pytest.mark.skipif(not LONG, reason="half a minute of computing, in a long run only")
def test_a_stripe_of_256_megabytes(tmp_path: Path) -> None:
    location, count = tmp_path / "t", 2_000_000
    rng = np.random.default_rng(1)
    columns = {f"c{i}": pa.array(rng.integers(-(1 << 62), 1 << 62, count)) for i in range(15)}
    columns["d"] = pa.array(rng.random(count))
    table = write_events(location, 1, columns, "uncompressed")
    [path] = location.glob("*/bucket_00000")
    assert path.stat().st_size > 256_000_000
    more = write_events(location, 2, {name: column[:5] for name, column in columns.items()})
    gone = [(1, i) for i in (0, 999_999, 1_000_000, 1_999_999)]
    row_type = "struct<" + ",".join(f"c{i}:bigint" for i in range(15)) + ",d:double>"
    delete(location, 3, row_type, gone)
    made = compact_directory(location, MAJOR, settings=RewriteSettings(compression="SNAPPY"))
    [path] = bucket_files(location, made.directories)
    expected = kept([table, more], gone)
    assert pa.orc.read_table(path).cast(expected.schema).equals(expected)
