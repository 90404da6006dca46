"""Encoded columns and whole files of copied and encoded stripes, judged by other readers and by recomputation."""

from __future__ import annotations

import io
from typing import Any

import pyarrow.orc
import pyorc
import pytest
from judges import exact_stats, tables, values
from judges import orc_tail as o
from orc_memory import MemorySink, MemorySource, file_options, longs, octets, root_column, tail_of, tree, written

from acidlib.acid.names import Generation
from acidlib.orc.columns import Column
from acidlib.orc.proto import Calendar, Compression, Kind
from acidlib.orc.reader import ORC_517, read_tail
from acidlib.orc.writer import OrcWriter, encode_column
from acidlib.rewrite.recode import group_bounds

EVERY_KIND = (
    "struct<i:int,b:boolean,t:tinyint,d:double,s:string,n:decimal(12,2),k:decimal(38,2),ts:timestamp,dt:date,"
    "bin:binary,l:array<struct<x:int>>,m:map<string,int>,u:uniontype<int,string>>"
)
CODECS = [Compression.NONE, Compression.ZLIB, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]


def row(i: int) -> tuple[Any, ...]:
    if i % 11 == 10:
        return (*(None,) * 12, i)  # pyorc writes unions wrongly beside nulls
    return (
        i * i - 50,
        i % 3 == 0,
        i % 100 - 50,
        i / 7,
        f"text {i % 5}" * (i % 4),
        f"{i}.25",
        f"{i << 90}",
        (i * 100_000, i * 1_000_003),
        i - 20,
        bytes([i % 256]) * (i % 6),
        [(j,) if j else None for j in range(i % 4)],
        {f"k{j}": j for j in range(i % 3)},
        i if i % 2 else f"{i}",
    )


ROWS = [row(i) for i in range(103)]


def source() -> Column:
    return root_column(tables.orc_bytes(EVERY_KIND, ROWS, tables.Layout(dictionary=1.0)))


def encoded(column: Column, schema: str, bounds: list[int], **changes: Any) -> list[Any]:
    options = file_options(tree(schema), **changes)
    return encode_column(column, options.root, longs(*bounds), options, "UTC")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("generation", [3, 4])
def test_other_readers_find_the_same_values_and_every_statistic_is_exact(codec: Compression, generation: int) -> None:
    data = written(
        [source()], file_options(tree(EVERY_KIND), compression=codec, block_size=200, reader=Generation(generation))
    )
    assert list(values.canonical_rows(data)) == list(values.canonical_rows(tables.orc_bytes(EVERY_KIND, ROWS)))
    report = exact_stats.check(data, exact_stats.Policy(generation=generation, acid_metadata=False))
    assert report.problems == []
    assert report.checked > 21 * 15
    table = pyarrow.orc.ORCFile(pyarrow.BufferReader(data)).read(columns=["i", "s", "n"])
    assert table.column("i").to_pylist() == [found[0] for found in ROWS]
    assert table.column("s").to_pylist() == [found[4] for found in ROWS]


@pytest.mark.parametrize("codec", CODECS)
def test_another_reader_seeks_to_every_row(codec: Compression) -> None:
    data = written([source()], file_options(tree(EVERY_KIND), compression=codec, block_size=64))
    expected = list(values.canonical_rows(data))
    for start in range(0, len(ROWS), 5):  # not between: pyorc fails to skip strings where there are none
        reader = values.open_orc(data)
        kind = reader.schema
        reader.seek(start)
        assert [values.canonical(found, kind) for found in reader] == expected[start:]


def test_a_stripe_of_no_rows_has_no_groups() -> None:
    empty = Column(
        kind=Kind.STRUCT,
        slots=0,
        children=(
            Column(kind=Kind.INT, slots=0, values=longs()),
            Column(kind=Kind.STRING, slots=0, lengths=longs(), data=octets(b"")),
        ),
    )
    for one in encoded(empty, "struct<a:int,s:string>", [0]):
        assert len(one.index.entry) == 0
        assert one.statistics.number_of_values == 0


SCHEMA = "struct<a:int,s:string>"
LAYOUT = tables.Layout(compression="none", stripe_size=1, stride=5, batch=10)
OLD, NEW = [(i, f"old {i % 3}") for i in range(50)], [(i, None) for i in range(100, 107)]
POLICY = exact_stats.Policy(acid_metadata=False, suppress_present=False, exact_nulls=False)


def mixed(options: Any) -> tuple[bytes, bytes]:
    """The stripes 3 and 1 of a file copied, with one encoded between them; and that file."""
    data = tables.orc_bytes(SCHEMA, OLD, LAYOUT)
    source = MemorySource(data)
    tail = read_tail(source)
    sink = MemorySink()
    writer = OrcWriter(sink, options)
    writer.copy_stripe(source, tail, 3, tail.stripe_statistics[3])
    column = root_column(tables.orc_bytes(SCHEMA, NEW))
    encoded = encode_column(column, options.root, group_bounds(7, options), options, "UTC")
    writer.write_stripe(encoded, rows=7, timezone="Europe/Berlin")
    writer.copy_stripe(source, tail, 1, tail.stripe_statistics[1])
    writer.finish({"b": b"2", "a": b"\xff\x00"})
    return bytes(sink.content), data


def test_copied_stripes_are_the_same_bytes_and_everything_reads_in_order() -> None:
    data, original = mixed(file_options(tree(SCHEMA), compression=Compression.NONE))
    new, old = o.read_orc(data), o.read_orc(original)
    for here, there in ((0, 3), (2, 1)):
        a, b = new.stripes[here], old.stripes[there]
        size = a.index_length + a.data_length + a.footer_length
        assert data[a.offset : a.offset + size] == original[b.offset : b.offset + size]
    expected = OLD[30:40] + NEW + OLD[10:20]
    assert list(pyorc.Reader(io.BytesIO(data))) == expected
    read = pyarrow.orc.ORCFile(pyarrow.BufferReader(data)).read()
    assert list(zip(*(column.to_pylist() for column in read.columns), strict=True)) == expected
    assert exact_stats.check(data, POLICY).problems == []
    assert [stripe.timezone for stripe in new.stripes][1] == "Europe/Berlin"


def test_the_tail_says_what_the_options_say() -> None:
    options = file_options(
        tree(SCHEMA), compression=Compression.NONE, writer_version=ORC_517, calendar=int(Calendar.PROLEPTIC_GREGORIAN)
    )
    tail = tail_of(mixed(options)[0])
    assert (tail.version, tail.writer, tail.writer_version) == ((0, 12), 0, ORC_517)
    assert (tail.stride, tail.calendar, tail.rows) == (5, 2, 27)
    assert tail.user_metadata == {"a": b"\xff\x00", "b": b"2"}
    assert str(tail.root) == SCHEMA
    assert [stripe.rows for stripe in tail.stripes] == [10, 7, 10]
    assert tail.file_statistics[1].int_statistics.sum == sum(row[0] for row in OLD[30:40] + NEW + OLD[10:20])


def test_a_calendar_that_is_not_known_is_not_named() -> None:
    orc = o.read_orc(mixed(file_options(tree(SCHEMA), compression=Compression.NONE))[0])
    assert 11 not in orc.footer
    assert 3 not in orc.postscript


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZLIB])
def test_a_file_without_stripes_is_a_file(codec: Compression) -> None:
    data = written([], file_options(tree(SCHEMA), compression=codec), {"k": b"v"})
    assert list(pyorc.Reader(io.BytesIO(data))) == []
    assert pyarrow.orc.ORCFile(pyarrow.BufferReader(data)).read().num_rows == 0
    tail = tail_of(data)
    assert (tail.rows, tail.stripes, tail.user_metadata) == (0, (), {"k": b"v"})
    assert [found.number_of_values for found in tail.file_statistics] == [0, 0, 0]
    assert exact_stats.check(data, POLICY).problems == []


def test_a_column_of_nulls_without_a_codec_is_written() -> None:
    column = root_column(tables.orc_bytes(SCHEMA, [(None, None)] * 3))
    data = written([column], file_options(tree(SCHEMA), compression=Compression.NONE))
    assert list(values.canonical_rows(data)) == [(None, None)] * 3
