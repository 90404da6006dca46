"""ORC files in memory for the package's own reader and writer: sources, sinks, whole columns in and out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from judges import tables

from acidlib.acid.names import Generation
from acidlib.errors import CorruptError
from acidlib.memory import DEFAULT_MEMORY, Memory
from acidlib.orc.columns import Column
from acidlib.orc.proto import Compression
from acidlib.orc.reader import ORC_14, StripeReader, Tail, read_tail
from acidlib.orc.schema import TypeNode
from acidlib.orc.writer import FileOptions, OrcWriter, encode_column
from acidlib.rewrite.recode import group_bounds


@dataclass(slots=True)
class MemorySource:
    """Bytes as a file; `length` may be below their number. `reads` notes what was asked for."""

    data: bytes
    name: str = "/t/file"
    length: int = -1
    memory: Memory = DEFAULT_MEMORY
    reads: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.length < 0:
            self.length = len(self.data)

    def read(self, offset: int, size: int) -> bytes:
        self.reads.append((offset, size))
        if offset < 0 or size < 0 or offset + size > self.length:
            raise CorruptError(f"Cannot read {self.name}: {offset} to {offset + size} is outside")
        return self.data[offset : offset + size]

    def close(self) -> None:
        """Nothing is held."""


@dataclass(slots=True)
class MemorySink:
    """Bytes that are written."""

    name: str = "/t/out"
    content: bytearray = field(default_factory=bytearray)

    @property
    def position(self) -> int:
        return len(self.content)

    def write(self, data: Any) -> None:
        self.content += bytes(data)

    def copy(self, source: Any, offset: int, size: int) -> None:
        self.write(source.read(offset, size))

    def close(self, *, durable: bool = True) -> None:
        """The content stays."""

    def abort(self) -> None:
        """Nothing is left."""
        self.content.clear()


@dataclass(slots=True)
class MemoryFiles:
    """Data files by path; what is created is in `made`."""

    files: dict[str, bytes]
    made: dict[str, MemorySink] = field(default_factory=dict)

    def open(self, path: str, length: int) -> MemorySource:
        data = bytes(self.made[path].content) if path in self.made else self.files[path]
        return MemorySource(data, path, length)

    def create(self, path: str) -> MemorySink:
        return self.made.setdefault(path, MemorySink(path))


def tail_of(data: bytes, name: str = "/t/file") -> Tail:
    """The tail of a file given as bytes."""
    return read_tail(MemorySource(data, name))


def tree(schema: str) -> TypeNode:
    """The type tree of a schema, as pyorc's writer numbers it."""
    return tail_of(tables.orc_bytes(schema, [])).root


def stripe_reader(data: bytes, number: int = 0) -> StripeReader:
    """One stripe, open for reading."""
    source = MemorySource(data)
    return StripeReader(source, read_tail(source), number)


def root_column(data: bytes, number: int = 0) -> Column:
    """All columns of one stripe."""
    reader = stripe_reader(data, number)
    return reader.column(reader.tail.root, reader.stripe.rows)


def file_options(root: TypeNode, **changes: Any) -> FileOptions:
    """Options of a small file: zlib, row groups of 5 rows."""
    values: dict[str, Any] = {
        "root": root,
        "compression": Compression.ZLIB,
        "block_size": 1 << 16,
        "stride": 5,
        "writer_version": ORC_14,
        "calendar": 0,
        "reader": Generation.HIVE4,
    }
    return FileOptions(**{**values, **changes})


def written(
    columns: Sequence[Column], options: FileOptions, metadata: dict[str, bytes] | None = None, timezone: str = "UTC"
) -> bytes:
    """A file with one stripe for each root column."""
    sink = MemorySink()
    writer = OrcWriter(sink, options)
    for column in columns:
        bounds = group_bounds(column.slots, options)
        encoded = encode_column(column, options.root, bounds, options, timezone)
        writer.write_stripe(encoded, rows=column.slots, timezone=timezone)
    writer.finish(metadata or {})
    return bytes(sink.content)


def longs(*values: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def octets(data: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(data, dtype=np.uint8)
