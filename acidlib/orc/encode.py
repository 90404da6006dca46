"""Encoding columns into streams, with row index and statistics (ORC specification, "Column Encodings", "Row Index")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from acidlib.model.units import FilterSize
from acidlib.orc import proto
from acidlib.orc.bloom import bloom_filters
from acidlib.orc.columns import (
    INTEGER_KINDS,
    NO_VALUES,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    Column,
    Dictionary,
    Longs,
    Mask,
    canonical,
)
from acidlib.orc.compression import Compressed, compress, position
from acidlib.orc.kernels.bytes_bits import encode_bits, encode_bytes
from acidlib.orc.kernels.ints import encode_ints
from acidlib.orc.kernels.varints import encode_varints
from acidlib.orc.kernels.vectors import Encoded, sums_before
from acidlib.orc.proto import Compression, Encoding, Kind, StreamKind
from acidlib.orc.schema import TypeNode
from acidlib.orc.statistics import StatisticsRules, group_statistics
from acidlib.orc.statistics_merge import merge_statistics

_PLAIN_KINDS = (Kind.BOOLEAN, Kind.BYTE, Kind.FLOAT, Kind.DOUBLE, Kind.STRUCT, Kind.UNION)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodingOptions:
    """How streams are compressed, what statistics must look like, and which columns have bloom filters of what size."""

    compression: Compression
    block_size: int
    rules: StatisticsRules
    filters: Mapping[int, FilterSize] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EncodedStream:
    """One stream as it goes into the stripe."""

    kind: StreamKind
    data: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedColumn:
    """One column of a stripe: streams, encoding, row index, bloom filters if any, and the stripe's statistics of it."""

    column: int
    encoding: Encoding
    dictionary_size: int
    streams: tuple[EncodedStream, ...]
    index: Any
    statistics: Any
    filters: Any | None


def encode_column(column: Column, node: TypeNode, slot_bounds: Longs, options: EncodingOptions) -> list[EncodedColumn]:
    """Encode a column and all below it, in column order.

    slot_bounds: int64, groups + 1 ascending slot numbers from 0 to column.slots; each pair is one row group.
    """
    if node.kind in STRING_KINDS:
        column = canonical(column)
    value_bounds = _value_bounds(column, slot_bounds)
    builder = _Builder(options, len(slot_bounds) - 1)
    if column.present is not None:
        builder.present(column.present, slot_bounds[:-1])
    builder.values(column, node, value_bounds[:-1])
    groups = group_statistics(column, node, slot_bounds, value_bounds, rules=options.rules)
    size = options.filters.get(node.column)
    encoded = EncodedColumn(
        column=node.column,
        encoding=builder.encoding,
        dictionary_size=column.dictionary.entries if column.dictionary is not None else 0,
        streams=tuple(builder.streams),
        index=builder.index(groups),
        statistics=merge_statistics(groups, node, rules=options.rules),
        filters=None if size is None else bloom_filters(column, node, value_bounds, size, rules=options.rules),
    )
    result = [encoded]
    for child, child_node, bounds in zip(
        column.children, node.children, _child_bounds(column, value_bounds), strict=True
    ):
        result += encode_column(child, child_node, bounds, options)
    return result


def _value_bounds(column: Column, slot_bounds: Longs) -> Longs:
    if column.present is None:
        return slot_bounds
    counts = [np.count_nonzero(column.present[a:b]) for a, b in pairwise(slot_bounds.tolist())]
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64))).astype(np.int64)


def _child_bounds(column: Column, value_bounds: Longs) -> list[Longs]:
    if column.kind in (Kind.LIST, Kind.MAP):
        return [sums_before(column.lengths, value_bounds)] * len(column.children)
    if column.kind is Kind.UNION:
        return [
            sums_before((column.values == tag).astype(np.int64), value_bounds) for tag in range(len(column.children))
        ]
    return [value_bounds] * len(column.children)


class _Builder:
    """Collects the streams of one column and the positions of its row groups."""

    def __init__(self, options: EncodingOptions, groups: int) -> None:
        self.options = options
        self.groups = groups
        self.streams: list[EncodedStream] = []
        self.positions: list[Longs] = []
        self.encoding = Encoding.DIRECT_V2

    def present(self, present: Mask, marks: Longs) -> None:
        bits = encode_bits(present.view(np.uint8), marks)
        self._add(StreamKind.PRESENT, bits.data, bits.offsets, bits.skips, bits.bits)

    def values(self, column: Column, node: TypeNode, marks: Longs) -> None:
        if node.kind in _PLAIN_KINDS:
            self.encoding = Encoding.DIRECT
            self._plain(column, node, marks)
        elif node.kind in INTEGER_KINDS:
            self._ints(StreamKind.DATA, column.values, marks, signed=True)
        elif node.kind in TIMESTAMP_KINDS:
            self._ints(StreamKind.DATA, column.values, marks, signed=True)
            self._ints(StreamKind.SECONDARY, column.secondary, marks, signed=False)
        elif node.kind is Kind.DECIMAL:
            varints = encode_varints(column.values, column.high, marks)
            self._add(StreamKind.DATA, varints.data, varints.offsets)
            self._ints(StreamKind.SECONDARY, column.secondary, marks, signed=True)
        elif column.dictionary is not None:
            self._dictionary(column.dictionary, column.values, marks)
        elif node.kind in (Kind.LIST, Kind.MAP):
            self._ints(StreamKind.LENGTH, column.lengths, marks, signed=False)
        else:
            self._add(StreamKind.DATA, column.data, sums_before(column.lengths, marks))
            self._ints(StreamKind.LENGTH, column.lengths, marks, signed=False)

    def _plain(self, column: Column, node: TypeNode, marks: Longs) -> None:
        values = column.values
        if node.kind is Kind.STRUCT:
            return
        if node.kind is Kind.BOOLEAN:
            bits = encode_bits(values, marks)
            self._add(StreamKind.DATA, bits.data, bits.offsets, bits.skips, bits.bits)
        elif node.kind in (Kind.BYTE, Kind.UNION):
            self._encoded(StreamKind.DATA, encode_bytes(values, marks))
        else:
            self._add(StreamKind.DATA, np.ascontiguousarray(values).view(np.uint8), marks * values.dtype.itemsize)

    def _dictionary(self, dictionary: Dictionary, entries: Longs, marks: Longs) -> None:
        self.encoding = Encoding.DICTIONARY_V2
        self._ints(StreamKind.DATA, entries, marks, signed=False)
        lengths = encode_ints(np.diff(dictionary.offsets), signed=False, marks=NO_VALUES)
        # the dictionary belongs to the whole stripe: its streams have no positions
        self.streams.append(EncodedStream(StreamKind.LENGTH, self._compress(lengths.data).data))
        self.streams.append(EncodedStream(StreamKind.DICTIONARY_DATA, self._compress(dictionary.data).data))

    def _ints(self, kind: StreamKind, values: Longs, marks: Longs, *, signed: bool) -> None:
        self._encoded(kind, encode_ints(values, signed=signed, marks=marks))

    def _encoded(self, kind: StreamKind, encoded: Encoded) -> None:
        self._add(kind, encoded.data, encoded.offsets, encoded.skips)

    def _add(self, kind: StreamKind, data: Any, offsets: Longs, *further: Longs) -> None:
        compressed = self._compress(data)
        self.streams.append(EncodedStream(kind, compressed.data))
        self.positions += [*_seekable(compressed, offsets), *further]

    def _compress(self, data: Any) -> Compressed:
        return compress(data, self.options.compression, self.options.block_size)

    def index(self, statistics: list[Any]) -> Any:
        table = np.stack(self.positions, axis=1) if self.positions else np.zeros((self.groups, 0), dtype=np.int64)
        index = proto.RowIndex()
        for places, group in zip(table.tolist(), statistics, strict=True):
            index.entry.add(positions=places, statistics=group)
        return index


def _seekable(compressed: Compressed, offsets: Longs) -> tuple[Longs, ...]:
    """Positions for the row index; one at the end of the stream is moved before it.

    A row group there reads nothing, but readers seek to it: Java's has only the bytes of the row groups it selected,
    and fails to seek to the end of a stream (InStream.seek); Trino's refuses a chunk that begins there.
    """
    length = compressed.length
    if compressed.kind is Compression.NONE:
        return position(compressed, np.minimum(offsets, max(length - 1, 0)))
    starts, within = position(compressed, offsets)
    if length and length % compressed.block_size == 0:
        at_end = offsets == length
        starts = np.where(at_end, compressed.chunk_offsets[-1], starts)
        within = np.where(at_end, compressed.block_size, within)
    return starts, within
