"""Encoded columns: encodings, positions and statistics, judged by other readers and by recomputation."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow.orc
import pyorc
import pytest
from judges import exact_stats, tables, values
from judges import orc_tail as o
from orc_memory import file_options, longs, octets, root_column, tree, written

from acidlib.model.names import Generation
from acidlib.orc.columns import Column
from acidlib.orc.proto import Compression, Encoding, Kind, StreamKind
from acidlib.orc.writer import encode_column

SCHEMA = (
    "struct<i:int,b:boolean,t:tinyint,d:double,s:string,n:decimal(12,2),k:decimal(38,2),ts:timestamp,dt:date,"
    "bin:binary,l:array<struct<x:int>>,m:map<string,int>>"
)
CODECS = [Compression.NONE, Compression.ZLIB, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]


def row(i: int) -> tuple[Any, ...]:
    if i % 11 == 10:
        return (None,) * 12
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
    )


ROWS = [row(i) for i in range(103)]


def source() -> Column:
    return root_column(tables.orc_bytes(SCHEMA, ROWS, tables.Layout(dictionary=1.0)))


def encoded(column: Column, schema: str, bounds: list[int], **changes: Any) -> list[Any]:
    options = file_options(tree(schema), **changes)
    return encode_column(column, options.root, longs(*bounds), options, "UTC")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("generation", [3, 4])
def test_other_readers_find_the_same_values_and_every_statistic_is_exact(codec: Compression, generation: int) -> None:
    data = written(
        [source()], file_options(tree(SCHEMA), compression=codec, block_size=200, generation=Generation(generation))
    )
    assert list(values.canonical_rows(data)) == list(values.canonical_rows(tables.orc_bytes(SCHEMA, ROWS)))
    report = exact_stats.check(data, exact_stats.Policy(generation=generation, acid_metadata=False))
    assert report.problems == []
    assert report.checked > 21 * 15
    table = pyarrow.orc.ORCFile(pyarrow.BufferReader(data)).read(columns=["i", "s", "n"])
    assert table.column("i").to_pylist() == [found[0] for found in ROWS]
    assert table.column("s").to_pylist() == [found[4] for found in ROWS]


@pytest.mark.parametrize("codec", CODECS)
def test_another_reader_seeks_to_every_row(codec: Compression) -> None:
    data = written([source()], file_options(tree(SCHEMA), compression=codec, block_size=64))
    expected = list(values.canonical_rows(data))
    for start in range(0, len(ROWS), 5):  # not between: pyorc fails to skip strings where there are none
        reader = values.open_orc(data)
        kind = reader.schema
        reader.seek(start)
        assert [values.canonical(found, kind) for found in reader] == expected[start:]


def test_each_kind_has_its_encoding() -> None:
    found = {one.column: one for one in encoded(source(), SCHEMA, [0, 103])}
    direct = {Kind.BOOLEAN, Kind.BYTE, Kind.DOUBLE, Kind.STRUCT}
    for node in tree(SCHEMA).walk():
        wanted = Encoding.DIRECT if node.kind in direct else Encoding.DIRECT_V2
        if node.column in (5, 15):  # the strings, and the keys of the maps
            wanted = Encoding.DICTIONARY_V2
        assert found[node.column].encoding is wanted, node
    assert list(found) == [node.column for node in tree(SCHEMA).walk()]
    assert found[5].dictionary_size == len({one[4] for one in ROWS if one[4] is not None})
    assert found[1].dictionary_size == 0


def test_present_is_left_out_with_its_positions_where_there_are_no_nulls() -> None:
    nulls = root_column(tables.orc_bytes("struct<a:int>", [(1,), (None,)]))
    full = root_column(tables.orc_bytes("struct<a:int>", [(1,), (2,)]))
    with_nulls, without = (encoded(column, "struct<a:int>", [0, 2])[1] for column in (nulls, full))
    assert [kind for kind, _ in with_nulls.streams] == [StreamKind.PRESENT, StreamKind.DATA]
    assert [kind for kind, _ in without.streams] == [StreamKind.DATA]
    # chunk, offset, run and bit of PRESENT; chunk, offset and run of DATA
    assert [len(found.index.entry[0].positions) for found in (with_nulls, without)] == [4 + 3, 3]


def test_row_groups_of_children_follow_their_parents() -> None:
    rows = [([1, 2],), ([],), (None,), ([3],), ([4, 5, 6],)]
    column = root_column(tables.orc_bytes("struct<a:array<int>>", rows))
    _, lists, elements = encoded(column, "struct<a:array<int>>", [0, 2, 4, 5])
    assert [entry.statistics.number_of_values for entry in lists.index.entry] == [2, 1, 1]
    assert [entry.statistics.has_null for entry in lists.index.entry] == [False, True, False]
    found = [entry.statistics for entry in elements.index.entry]
    assert [one.number_of_values for one in found] == [2, 1, 3]
    assert [(one.int_statistics.minimum, one.int_statistics.maximum) for one in found] == [(1, 2), (3, 3), (4, 6)]
    assert elements.statistics.int_statistics.sum == 21


@pytest.mark.parametrize("codec", CODECS)
def test_no_position_lies_behind_the_last_byte_of_a_stream(codec: Compression) -> None:
    """The last groups have no values: readers seek there all the same, and must find a byte to stand before."""
    rows = [(i, float(i), "x" * 8, True) for i in range(8)] + [(None,) * 4] * 12
    schema = "struct<a:bigint,b:double,c:string,d:boolean>"
    column = root_column(tables.orc_bytes(schema, rows))
    data = written([column], file_options(tree(schema), compression=codec, block_size=32))
    orc = o.read_orc(data)
    stripe = orc.stripes[0]
    for number in range(1, 5):
        for entry in stripe.row_index[number]:
            positions = o.packed(entry[1])
            for kind, more in exact_stats.position_streams(orc, stripe, number):
                stream = stripe.stream(number, kind)
                assert stream is not None
                assert positions.pop(0) < stream.length
                if codec is not Compression.NONE:
                    positions.pop(0)
                del positions[:more]
            assert positions == []
    reader = pyorc.Reader(io.BytesIO(data))
    for start in range(0, 20, 5):
        reader.seek(start)
        assert list(reader) == rows[start:]


def test_a_union_gets_tags_and_the_groups_of_its_children() -> None:
    union = Column(
        kind=Kind.UNION,
        slots=4,
        present=np.array([True, True, False, True]),
        values=octets(b"\x00\x01\x00"),
        children=(
            Column(kind=Kind.INT, slots=2, values=longs(7, 8)),
            Column(kind=Kind.STRING, slots=1, lengths=longs(1), data=octets(b"x")),
        ),
    )
    schema = "struct<a:uniontype<int,string>>"
    root = Column(kind=Kind.STRUCT, slots=4, children=(union,))
    _, tags, numbers, texts = encoded(root, schema, [0, 2, 4])
    assert tags.encoding is Encoding.DIRECT
    counts = [[entry.statistics.number_of_values for entry in one.index.entry] for one in (tags, numbers, texts)]
    assert counts == [[2, 1], [1, 1], [1, 0]]
    data = written([root], file_options(tree(schema), stride=2))
    assert [found[0] for found in pyorc.Reader(io.BytesIO(data))] == [7, "x", None, 8]


def test_a_stripe_of_no_rows_has_no_groups() -> None:
    column = root_column(tables.orc_bytes("struct<a:int,s:string>", [(1, "x")]))
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
    assert column.slots == 1
