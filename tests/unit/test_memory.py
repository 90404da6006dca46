"""The memory that decoding may take: small files that state or inflate to much are refused before they take it."""

from __future__ import annotations

import gzip
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from acid_inputs import COLUMNS, at_root, write
from compaction import MAJOR, MINOR, plan
from judges import tables
from orc_memory import MemorySource, file_options, tree, written

from acidlib.acid.write_ids import all_committed
from acidlib.errors import AcidError, CorruptError, OverMemoryError, RefusedError
from acidlib.memory import DEFAULT_MEMORY, Memory, Room
from acidlib.orc import proto
from acidlib.orc.columns import Column
from acidlib.orc.compression import compress
from acidlib.orc.proto import Compression, Kind
from acidlib.orc.reader import StripeReader, read_tail
from acidlib.parquet.footer import read_footer, require_memory
from acidlib.rewrite.bucket import run_unit
from acidlib.rewrite.recode import joined_columns
from acidlib.rows.deletes import read_deletes
from acidlib.rows.files import open_inputs
from acidlib.scan.text_lines import TextFormat, split_of_lines
from acidlib.stores.renaming.local import LocalDataFiles

MEBIBYTE = 1 << 20
ROWS = 1_000_000
SCHEMA = "struct<a:bigint,b:array<bigint>,s:string>"


def constant(rows: int = ROWS) -> bytes:
    """A file of some KB with many rows of one value in each column, lists of two elements."""
    ones = np.ones(rows, dtype=np.int64)
    pairs = Column(kind=Kind.LONG, slots=2 * rows, values=np.ones(2 * rows, dtype=np.int64))
    children = (
        Column(kind=Kind.LONG, slots=rows, values=ones),
        Column(kind=Kind.LIST, slots=rows, lengths=2 * ones, children=(pairs,)),
        Column(kind=Kind.STRING, slots=rows, lengths=10 * ones, data=np.full(10 * rows, 65, dtype=np.uint8)),
    )
    root = Column(kind=Kind.STRUCT, slots=rows, children=children)
    return written([root], file_options(tree(SCHEMA), stride=10_000))


CONSTANT = constant()


def stripe(data: bytes, memory: Memory = DEFAULT_MEMORY) -> StripeReader:
    source = MemorySource(data, memory=memory)
    return StripeReader(source, read_tail(source), 0)


def with_footer(change: Any, *, metadata: bytes | None = None, codec: Compression = Compression.ZLIB) -> bytes:
    """A file of two columns whose footer is changed, and its statistics of stripes replaced."""
    data = tables.orc_bytes("struct<a:int,b:int>", [(1, 2)], tables.Layout(compression="none"))
    postscript = proto.PostScript.FromString(data[-1 - data[-1] : -1])
    end = len(data) - 1 - data[-1] - postscript.footer_length
    footer = proto.Footer.FromString(data[end : end + postscript.footer_length])
    change(footer)
    start = end - postscript.metadata_length
    stated = data[start:end] if metadata is None else metadata
    parts = [compress(part, codec, 1 << 18)[0] for part in (stated, footer.SerializeToString())]
    postscript.compression, postscript.compression_block_size = int(codec), 1 << 18
    postscript.metadata_length, postscript.footer_length = map(len, parts)
    text = postscript.SerializeToString()
    return b"".join((data[:start], *map(bytes, parts), text, bytes([len(text)])))


def filled(footer: Any) -> None:
    footer.metadata.add(name="filler", value=bytes(32 * MEBIBYTE))


def test_a_footer_is_inflated_as_far_as_its_memory_goes() -> None:
    data = with_footer(filled)
    assert len(data) < 100_000
    read_tail(MemorySource(data, memory=Memory(512 * MEBIBYTE)))
    tracemalloc.start()
    try:
        reason = r"the footer of /t/file: decoded it takes at least [\d,]+ bytes .* acidlib.task.memory is 16,777,216"
        with pytest.raises(RefusedError, match=reason):
            read_tail(MemorySource(data, memory=Memory(16 * MEBIBYTE)))
        assert tracemalloc.get_traced_memory()[1] < 8 * MEBIBYTE
    finally:
        tracemalloc.stop()


def statistics(stripes: int, columns: int) -> bytes:
    """Statistics of stripes, of two bytes for each column."""
    each = b"\x0a\x00" * columns
    head = b"\x0a"
    size = len(each)
    while size > 127:
        head, size = head + bytes([size & 127 | 128]), size >> 7
    return (head + bytes([size]) + each) * stripes


@pytest.mark.parametrize(
    ("data", "kind", "reason"),
    [
        (with_footer(lambda f: f.types.extend([f.types[1]] * 1_100_000)), RefusedError, "1,100,003 columns, more than"),
        (with_footer(lambda f: f.stripes.extend([type(f.stripes[0])()] * 600_000)), RefusedError, "the footer of"),
        (with_footer(lambda _: None, metadata=statistics(1, 1_000_000)), RefusedError, "the stripe statistics of"),
        (with_footer(lambda _: None, metadata=statistics(200_000, 3)), RefusedError, "the stripe statistics of"),
        (with_footer(lambda _: None, metadata=statistics(2, 3)), CorruptError, "1 stripes and statistics of 2 stripes"),
        (with_footer(lambda _: None, metadata=statistics(1, 4)), CorruptError, "statistics of 4 columns and 3 columns"),
    ],
    ids=["types", "stripes", "statistics of a stripe", "stripes with statistics", "two stripes", "four columns"],
)
def test_the_parts_of_a_tail_are_counted_before_they_are_parsed(
    data: bytes, kind: type[AcidError], reason: str
) -> None:
    with pytest.raises(kind, match=reason):
        read_tail(MemorySource(data, memory=Memory(100 * MEBIBYTE)))


@pytest.mark.parametrize(("number", "needed"), [(0, 8), (1, 8 + 2 + 16), (2, 8 + 10)])
def test_columns_are_refused_before_they_are_decoded(number: int, needed: int) -> None:
    enough = Memory(needed * ROWS)
    reader = stripe(CONSTANT, enough)
    assert reader.column(reader.tail.root.children[number], ROWS).slots == ROWS
    reader = stripe(CONSTANT, Memory(enough.limit - 1))
    with pytest.raises(RefusedError, match=r"Cannot read column \d in stripe 0 of /t/file: .*acidlib\.task\.memory"):
        reader.column(reader.tail.root.children[number], ROWS)


def test_a_number_of_rows_that_a_file_does_not_hold_is_damage_not_size() -> None:
    most = (1 << 31) - 1
    reader = stripe(CONSTANT)
    for node in reader.tail.root.children:
        with pytest.raises(CorruptError, match="cannot hold 2147483647 values"):
            reader.column(node, most)

    def lie(footer: Any) -> None:
        footer.number_of_rows = footer.stripes[0].number_of_rows = most

    with pytest.raises(CorruptError, match="cannot hold 2147483647 values"):
        stripe(with_footer(lie, codec=Compression.NONE)).require_memory(48)
    with pytest.raises(RefusedError, match="the 1,000,000 rows of stripe 0 of /t/file: decoded it takes at least 48,0"):
        stripe(CONSTANT, Memory(47 * ROWS)).require_memory(48)


def test_stripes_that_are_joined_are_held_together() -> None:
    readers = [stripe(CONSTANT, Memory(40 * ROWS)) for _ in range(3)]
    text = readers[0].tail.root.children[2]

    def columns(count: int) -> Column:
        return joined_columns((reader.column(text, ROWS) for reader in readers[:count]), readers[:count])

    assert columns(2).size == 2 * 18 * ROWS
    reason = (
        r"Cannot join the rows of stripe 0 of /t/file and of 2 more: decoded it takes .*acidlib\.task\.memory is 40,"
    )
    with pytest.raises(RefusedError, match=reason):
        columns(3)


def test_what_is_held_together_is_counted_together() -> None:
    room = Room(Memory(10))
    room.take(6)
    room.take(4)
    with pytest.raises(RefusedError, match=r"^decoded it takes at least 11 bytes of memory, and"):
        room.take(1)


def test_tails_and_delete_events_of_a_task_are_counted_together(tmp_path: Path) -> None:
    files = []
    for write_id in (5, 6):
        data = tables.acid_bytes(COLUMNS, tables.deletes(write_id, [(1, 536870912, row) for row in range(300)]))
        path = tmp_path / tables.delta_name(write_id, write_id, delete=True) / "bucket_00000"
        files.append(write(path, data, bucket=0))
    place = at_root()
    size = sum(place.tail(file).memory_size for file in files)

    def events(memory: Memory) -> int:
        with open_inputs(tuple(files), at_root(LocalDataFiles(memory=memory))) as inputs:
            return read_deletes(inputs, 0, all_committed(None)).events_in

    assert events(Memory(max(size, 24_000))) == 600
    with pytest.raises(RefusedError, match=r"the tails of \S*bucket_00000 and 1 more files: .*acidlib\.task\.memory"):
        events(Memory(size - 1))


def test_a_task_gets_its_memory_with_its_files() -> None:
    data = LocalDataFiles(memory=Memory(7))
    assert pickle.loads(pickle.dumps(data)).memory == Memory(7)


# --- text -------------------------------------------------------------------------------------------------------------


def pieces(content: bytes, memory: Memory, **properties: str) -> list[int]:
    """The sizes of the pieces of a compressed text file."""
    source = MemorySource(gzip.compress(content, 1), "/t/000000_0.gz", memory=memory)
    form = TextFormat.of("t", None, properties)
    return [len(piece) for piece in split_of_lines(source, source.name, form, 0, source.length)]


def test_text_is_inflated_in_pieces() -> None:
    lines = b"\n" * (64 * MEBIBYTE)
    found = pieces(lines, Memory(16 * MEBIBYTE))
    assert (sum(found), max(found)) == (len(lines), 8 * MEBIBYTE)


def test_a_line_and_the_last_lines_of_a_file_are_bounded() -> None:
    long = b"a" * (24 * MEBIBYTE)
    assert pieces(long, Memory(200 * MEBIBYTE)) == [len(long) + 1]
    with pytest.raises(RefusedError, match=r"a line of /t/000000_0.gz: .*acidlib\.task\.memory is 67,108,864"):
        pieces(long, Memory(64 * MEBIBYTE))
    with pytest.raises(RefusedError, match=r"the last 999,999,999 lines of /t/000000_0.gz: .*acidlib\.task\.memory"):
        pieces(b"a\n" * MEBIBYTE, Memory(16 * MEBIBYTE), **{"skip.footer.line.count": "999999999"})


# --- Parquet ----------------------------------------------------------------------------------------------------------


def test_a_footer_of_parquet_is_refused_before_it_is_decoded() -> None:
    data = bytes(MEBIBYTE) + MEBIBYTE.to_bytes(4, "little") + b"PAR1"
    source = MemorySource(b"PAR1" + data, memory=Memory(10 * MEBIBYTE - 1))
    for read in (read_footer, require_memory):
        with pytest.raises(RefusedError, match="the footer of /t/file: decoded it takes at least 10,485,760 bytes"):
            read(source)
    require_memory(MemorySource(data, memory=Memory(10 * MEBIBYTE)))


@pytest.mark.parametrize("way", ["rows", "deletes"])
def test_row_indexes_are_written_as_far_as_the_memory_goes(tmp_path: Path, way: str) -> None:
    """An input may state one row a group; a result of the same stride has an entry for each value then."""
    table, gone = tmp_path / "t", [(1, tables.bucket_property(0, 0), number) for number in range(2000)]
    rows, layout = [(number, "x") for number in range(3000)], tables.Layout(stride=1)
    tables.write_dir(table, tables.delta_name(1, 1), COLUMNS, tables.inserts(1, rows), layout=layout)
    tables.write_dir(table, tables.delta_name(2, 2, delete=True), COLUMNS, tables.deletes(2, gone), layout=layout)
    tables.write_dir(table, tables.delta_name(3, 3, delete=True), COLUMNS, tables.deletes(3, gone[:1]), layout=layout)
    _, units = plan(table, MAJOR if way == "rows" else MINOR)
    (unit,) = (unit for unit in units if unit.is_delete is (way == "deletes"))
    path = table / "_tmp_x" / unit.directory / unit.file_name
    path.parent.mkdir(parents=True)
    with pytest.raises(OverMemoryError, match=r"of 9 columns with [12],00[01] rows in groups of 1: decoded"):
        run_unit(unit, LocalDataFiles(memory=Memory(2 * MEBIBYTE)), str(path))
    assert not path.exists()
    run_unit(unit, LocalDataFiles(memory=Memory(64 * MEBIBYTE)), str(path))
