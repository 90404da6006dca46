"""Compiles every kernel, so that no job has to wait for it: run once while an environment is set up.

    python -m acidlib.rewrite.warm

It writes a small file with a column of each kind, in memory, reads it back and compares.
"""

from __future__ import annotations

import functools

import numpy as np

from acidlib.acid.names import Generation, Reader
from acidlib.datafiles import SourceFile
from acidlib.errors import DefectError
from acidlib.memory import DEFAULT_MEMORY, Room
from acidlib.orc.alignment import convert
from acidlib.orc.bloom import filter_size
from acidlib.orc.columns import Column, Dictionary, as_direct, canonical, concat_columns, filter_column
from acidlib.orc.kernels.ints import decode_ints
from acidlib.orc.proto import Compression, Kind
from acidlib.orc.reader import ORC_517, StripeReader, read_tail
from acidlib.orc.schema import TypeNode
from acidlib.orc.writer import FileOptions, OrcWriter, encode_column
from acidlib.rewrite.recode import group_bounds
from acidlib.rows.row_ids import Keys, event_order, gather

_ROWS = 1000
_KINDS = (
    Kind.BOOLEAN,
    Kind.BYTE,
    Kind.LONG,
    Kind.DOUBLE,
    Kind.FLOAT,
    Kind.STRING,
    Kind.VARCHAR,
    Kind.DECIMAL,
    Kind.DECIMAL,
    Kind.TIMESTAMP,
    Kind.BINARY,
    Kind.LIST,
)


class MemoryFile:
    """A file in memory: written to, then read from."""

    name = "memory"

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def length(self) -> int:
        """Bytes written so far."""
        return len(self._data)

    position = length
    memory = DEFAULT_MEMORY

    def write(self, data: object) -> None:
        """Append a buffer."""
        self._data += memoryview(data).cast("B")  # type: ignore[arg-type] # any buffer

    def copy(self, source: SourceFile, offset: int, size: int) -> None:
        """Append a range of another source."""
        self.write(source.read(offset, size))

    def read(self, offset: int, size: int) -> bytes:
        """Return a range."""
        return bytes(self._data[offset : offset + size])

    def close(self, *, durable: bool = True) -> None:
        """Keep the content."""

    def abort(self) -> None:
        """Drop the content."""
        self._data.clear()


def main() -> None:
    """Compile everything. Raises DefectError when the columns read back differ from those written."""
    nodes = tuple(_node(column + 1, kind) for column, kind in enumerate(_KINDS))
    root = TypeNode(column=0, kind=Kind.STRUCT, children=nodes, field_names=tuple(f"c{node.column}" for node in nodes))
    options = FileOptions(
        root=root,
        compression=Compression.ZLIB,
        block_size=1 << 16,
        stride=100,
        writer_version=ORC_517,
        calendar=0,
        reader=Reader(Generation.HIVE3),
        filters=dict.fromkeys((node.column for node in nodes), filter_size(100, 0.05)),
    )
    columns = [_column(node, position) for position, node in enumerate(nodes)]
    memory = MemoryFile()
    writer = OrcWriter(memory, options)
    bounds = group_bounds(_ROWS, options)
    rows = Column(kind=Kind.STRUCT, slots=_ROWS, children=tuple(columns))
    writer.write_stripe(encode_column(rows, root, bounds, options, "UTC"), rows=_ROWS, timezone="UTC")
    writer.finish({})
    reader = StripeReader(memory, read_tail(memory), 0)
    keep = np.arange(_ROWS) % 3 > 0
    for node, before in zip(nodes, columns, strict=True):
        after = reader.column(node, _ROWS)
        _compare(node, before, after)
        filter_column(concat_columns([after, before], Room(DEFAULT_MEMORY)), np.concatenate((keep, keep)))
    _compile_conversions()
    keys = Keys.sequence(1, 536870912, 0, _ROWS)
    if not keys.ascending() or int(np.count_nonzero(keys.matches(keys.select(keep)))) != int(keep.sum()):
        raise DefectError("Cannot use the compiled kernels: a search of keys went wrong")
    keys.between((1, 536870912, 5), (1, 536870912, 9))
    order = event_order(keys, np.ones(_ROWS, np.int64))
    if not np.array_equal(gather(keys.row_ids, order), keys.row_ids):
        raise DefectError("Cannot use the compiled kernels: delete events in order were moved")


def _compile_conversions() -> None:
    """Compile the kernels that writing and reading the file did not need.

    Numbers are converted to padded texts, these to texts without their padding, and decimals, dates and real numbers to
    texts; a dictionary is sorted, and integers are decoded from run-length encoding version 1.
    """
    number, char, text = (TypeNode(column=1, kind=k, maximum_length=20) for k in (Kind.LONG, Kind.CHAR, Kind.VARCHAR))
    decimal, wider = (TypeNode(column=1, kind=Kind.DECIMAL, precision=p, scale=p - 28) for p in (30, 38))
    before = _column(number, 3)
    as_hive = functools.partial(convert, reader=Reader(Generation.HIVE4), calendar=0)
    after = as_direct(as_hive(as_hive(before, char, number), text, char))
    texts = b"" if after.data is None else after.data.tobytes()
    if before.values is None or texts.decode() != "".join(map(str, before.values.tolist())):
        raise DefectError("Cannot use the compiled kernels: numbers are converted to wrong texts")
    as_hive(_column(decimal, 1), wider, decimal)
    for kind in (Kind.DATE, Kind.DOUBLE):
        node = TypeNode(column=1, kind=kind)
        as_hive(_column(node, 1), text, node)
    as_hive(_column(decimal, 1), text, decimal)
    two_texts = Dictionary(offsets=np.arange(3), data=np.array([1, 2], np.uint8))
    column = Column(kind=Kind.STRING, slots=_ROWS, values=np.arange(_ROWS) % 2, dictionary=two_texts)
    decoded = decode_ints(np.array([0xFF, 2], np.uint8), 1, signed=True, version=1)
    if canonical(column).dictionary is not two_texts or decoded.tolist() != [1]:
        raise DefectError("Cannot use the compiled kernels: a dictionary or integers went wrong")


def _node(column: int, kind: Kind) -> TypeNode:
    child = (TypeNode(column=column + 1, kind=Kind.INT),) if kind is Kind.LIST else ()
    return TypeNode(column=column, kind=kind, children=child, precision=38, scale=2, maximum_length=20)


def _column(node: TypeNode, position: int) -> Column:
    numbers = np.arange(_ROWS, dtype=np.int64) * (position + 7) % 911
    column = Column(kind=node.kind, slots=_ROWS)
    if node.kind in (Kind.BOOLEAN, Kind.BYTE):
        column.values = (numbers % 2).astype(np.uint8)
    elif node.kind is Kind.DOUBLE:
        column.values = numbers.astype(np.float64).view(np.uint64)
    elif node.kind is Kind.FLOAT:
        column.values = numbers.astype(np.float32).view(np.uint32)
    elif node.kind in (Kind.STRING, Kind.VARCHAR, Kind.BINARY):
        return _strings(node, numbers)
    elif node.kind is Kind.LIST:
        column.lengths = numbers % 3
        total = int(column.lengths.sum())
        column.children = (Column(kind=Kind.INT, slots=total, values=np.arange(total, dtype=np.int64)),)
    else:
        column.values = numbers
        if node.kind in (Kind.DECIMAL, Kind.TIMESTAMP):
            column.secondary = np.full(_ROWS, 2 if node.kind is Kind.DECIMAL else 0, dtype=np.int64)
        if node.kind is Kind.DECIMAL and position % 2:
            column.high = numbers % 5
        if node.kind is Kind.LONG:
            column.present = numbers % 10 > 0
            column.values = numbers[column.present]
    return column


def _strings(node: TypeNode, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Column:
    # unsorted on purpose, so that the dictionary is sorted
    data = np.arange(50, 0, -1, dtype=np.uint8) + 64
    dictionary = Dictionary(offsets=np.arange(0, 51, 5, dtype=np.int64), data=data)
    column = Column(kind=node.kind, slots=_ROWS, values=numbers % 9, dictionary=dictionary)
    return as_direct(column) if node.kind is not Kind.STRING else column


def _compare(node: TypeNode, before: Column, after: Column) -> None:
    pair = [as_direct(column) if column.dictionary else column for column in (before, after)]
    for name in ("values", "high", "secondary", "lengths", "data"):
        written, read = (getattr(column, name) for column in pair)
        if (written is None) != (read is None) or (written is not None and not np.array_equal(written, read)):
            raise DefectError(f"Cannot use the compiled kernels: a column of {node} is not read as it was written")


if __name__ == "__main__":
    main()
