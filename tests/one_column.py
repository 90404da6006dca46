"""An ORC file struct<a:..> of one stripe around streams given as bytes, and what C++ readers find in it."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.orc
import pyorc
from judges.orc_tail import DATA, ROW_INDEX, STRUCT, Message, encode

DIRECT, DIRECT_V2 = 0, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The column under test. `streams`: kind and bytes as they lie in the file; `positions`: of each row group."""

    kind: int
    encoding: int
    streams: Sequence[tuple[int, bytes]]
    positions: Sequence[Sequence[int]] = ()
    attributes: Message | None = None


def orc_bytes(column: Column, rows: int, *, stride: int = 0) -> bytes:
    """The whole file; `stride` rows to a row group, 0 for no row index."""
    indexes = []
    if stride:
        groups = -(-rows // stride)
        assert len(column.positions) == groups
        empty = encode({1: [b""] * groups})
        full = encode({1: [encode({1: [_packed(p)]}) for p in column.positions]})
        indexes = [(0, ROW_INDEX, empty), (1, ROW_INDEX, full)]
    data = [(1, kind, content) for kind, content in column.streams]
    body = b"ORC" + b"".join(content for _, _, content in indexes + data)
    footer = encode(
        {
            1: [encode({1: [kind], 2: [number], 3: [len(content)]}) for number, kind, content in indexes + data],
            2: [encode({1: [DIRECT]}), encode({1: [column.encoding]})],
            3: [b"UTC"],
        }
    )
    stripe = {
        1: [3],
        2: [sum(len(content) for _, _, content in indexes)],
        3: [sum(len(content) for _, _, content in data)],
        4: [len(footer)],
        5: [rows],
    }
    types = [encode({1: [STRUCT], 2: [b"\x01"], 3: [b"a"]}), encode({1: [column.kind], **(column.attributes or {})})]
    tail = encode({1: [3], 2: [len(body) + len(footer)], 3: [encode(stripe)], 4: types, 6: [rows], 8: [stride]})
    postscript = encode({1: [len(tail)], 2: [0], 3: [1 << 18], 4: [b"\x00\x0c"], 5: [0], 6: [6], 8000: [b"ORC"]})
    return body + footer + tail + postscript + bytes([len(postscript)])


def _packed(numbers: Sequence[int]) -> bytes:
    return b"".join(encode({1: [int(number)]})[1:] for number in numbers)


def read_pyorc(data: bytes) -> list[Any]:
    """All values of the column as pyorc reads them."""
    return [row[0] for row in pyorc.Reader(io.BytesIO(data))]


def read_pyarrow(data: bytes) -> list[Any]:
    """All values of the column as pyarrow reads them."""
    return pyarrow.orc.ORCFile(pyarrow.BufferReader(data)).read().column(0).to_pylist()


def read_from(data: bytes, row: int, count: int) -> list[Any]:
    """`count` values from a row on, found by pyorc through the row index."""
    reader = pyorc.Reader(io.BytesIO(data))
    reader.seek(row)
    return [row[0] for row, _ in zip(reader, range(count), strict=False)]


def int_column(kind: int, encoded: Any) -> Column:
    """A column of one uncompressed integer stream as encode_ints returns it."""
    positions = list(zip(encoded.offsets.tolist(), encoded.skips.tolist(), strict=True))
    return Column(kind=kind, encoding=DIRECT_V2, streams=[(DATA, bytes(encoded.data))], positions=positions)
