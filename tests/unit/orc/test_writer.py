"""Whole files: copied and encoded stripes under one tail, as other parsers see them."""

from __future__ import annotations

import io
from typing import Any

import pyarrow.orc
import pyorc
import pytest
from judges import exact_stats, tables, values
from judges import orc_tail as o
from orc_memory import (
    MemorySink,
    MemorySource,
    file_options,
    root_column,
    tail_of,
    tree,
    written,
)

from acidlib.orc.proto import Calendar, Compression
from acidlib.orc.reader import ORC_517, read_tail
from acidlib.orc.writer import OrcWriter, encode_column
from acidlib.rewrite.recode import group_bounds

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
    encoded = encode_column(column, options.root, group_bounds(7, options.stride), options, "UTC")
    writer.write_stripe(encoded, rows=7, timezone="Europe/Berlin")
    assert writer.stripes == 2
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
        tree(SCHEMA),
        compression=Compression.NONE,
        writer_version=ORC_517,
        calendar=int(Calendar.PROLEPTIC_GREGORIAN),
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


def test_chunks_keep_to_the_block_size_that_the_tail_promises() -> None:
    column = root_column(tables.orc_bytes(SCHEMA, OLD))
    data = written([column], file_options(tree(SCHEMA), block_size=64))
    orc = o.read_orc(data)
    assert orc.block == 64
    for stream in orc.stripes[0].streams:
        assert len(orc.stream_bytes(stream)) or stream.kind != o.DATA  # a chunk above the block is refused by the judge
    assert list(pyorc.Reader(io.BytesIO(data))) == OLD


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZLIB])
def test_a_file_without_stripes_is_a_file(codec: Compression) -> None:
    data = written([], file_options(tree(SCHEMA), compression=codec), {"k": b"v"})
    assert list(pyorc.Reader(io.BytesIO(data))) == []
    assert pyarrow.orc.ORCFile(pyarrow.BufferReader(data)).read().num_rows == 0
    tail = tail_of(data)
    assert (tail.rows, tail.stripes, tail.user_metadata) == (0, (), {"k": b"v"})
    assert [found.number_of_values for found in tail.file_statistics] == [0, 0, 0]
    assert exact_stats.check(data, POLICY).problems == []


def test_nothing_is_readable_before_the_end() -> None:
    data, _ = mixed(file_options(tree(SCHEMA), compression=Compression.NONE))
    orc = o.read_orc(data)
    body = len(data) - 1 - sum(orc.tail_lengths)
    with pytest.raises(pyorc.ParseError):
        pyorc.Reader(io.BytesIO(data[:body]))


def test_a_column_of_nulls_without_a_codec_is_written() -> None:
    column = root_column(tables.orc_bytes(SCHEMA, [(None, None)] * 3))
    data = written([column], file_options(tree(SCHEMA), compression=Compression.NONE))
    assert list(values.canonical_rows(data)) == [(None, None)] * 3
