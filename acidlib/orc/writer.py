"""Writing an ORC file: columns encoded into streams, stripes of encoded or copied columns, and the tail.

Source: ORC specification, "Column Encodings", "Row Index", "File Tail".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from acidlib.acid.names import Reader
from acidlib.datafiles import RangeCopier, SinkFile, SourceFile
from acidlib.memory import DEFAULT_MEMORY, Memory
from acidlib.model.units import FilterSize
from acidlib.orc import proto
from acidlib.orc.bloom import bloom_filters
from acidlib.orc.columns import (
    INTEGER_KINDS,
    NO_VALUES,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    Column,
    Longs,
    canonical,
    offsets_of,
)
from acidlib.orc.compression import compress, positions_in
from acidlib.orc.kernels.bytes_bits import encode_bits, encode_bytes
from acidlib.orc.kernels.ints import encode_ints
from acidlib.orc.kernels.varints import encode_varints
from acidlib.orc.kernels.vectors import Encoded
from acidlib.orc.proto import BloomEncoding, Compression, Encoding, Kind, StreamKind
from acidlib.orc.reader import JAVA_WRITER, StripeReader, Tail
from acidlib.orc.schema import TypeNode, format_types
from acidlib.orc.statistics import group_statistics, merge_statistics

_FILE_VERSION = (0, 12)
_PLAIN_KINDS = (Kind.BOOLEAN, Kind.BYTE, Kind.FLOAT, Kind.DOUBLE, Kind.STRUCT, Kind.UNION)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """Properties of the whole file.

    root            type tree of the result
    compression     kind of every stripe, copied ones included
    block_size      largest uncompressed size of a chunk in bytes, at least that of every copied stripe
    stride          rows per row group, > 0
    writer_version  Java writer version whose rules the file keeps: not above that of any copied stripe
    calendar        of date and timestamp columns, as in the inputs
    reader          of the file, which decides the form of statistics
    filters         the sizes of bloom filters in recoded stripes, by column
    memory          that the row indexes and filters of a stripe may take
    """

    root: TypeNode
    compression: Compression
    block_size: int
    stride: int
    writer_version: int
    calendar: int
    reader: Reader
    filters: Mapping[int, FilterSize] = field(default_factory=dict)
    memory: Memory = DEFAULT_MEMORY


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedColumn:
    """One column of a stripe: streams, encoding, row index, bloom filters if any, and the stripe's statistics of it."""

    column: int
    encoding: Encoding
    dictionary_size: int
    streams: tuple[tuple[StreamKind, Any], ...]
    index: Any
    statistics: Any
    filters: Any | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedColumn:
    """One column of a stripe, copied verbatim from another file's stripe.

    number      its column id there
    statistics  as the result may state them
    """

    reader: StripeReader
    number: int
    statistics: Any


def encode_column(
    column: Column, node: TypeNode, slot_bounds: Longs, options: FileOptions, timezone: str
) -> list[EncodedColumn]:
    """Encode a column and all below it, in column order.

    slot_bounds  int64, groups + 1 ascending slot numbers from 0 to column.slots; each pair is one row group
    timezone     of the stripe's timestamps, as in its footer
    """
    if node.kind in STRING_KINDS:
        column = canonical(column)
    value_bounds = slot_bounds
    if column.present is not None:
        groups = pairwise(slot_bounds.tolist())
        # counting is several times faster than summing flags
        value_bounds = offsets_of([int(np.count_nonzero(column.present[a:b])) for a, b in groups])
    streams = _Streams(options)
    if column.present is not None:
        streams.add_runs(StreamKind.PRESENT, encode_bits(column.present.view(np.uint8), slot_bounds[:-1]))
    encoding = _encode_values(streams, column, node, value_bounds[:-1])
    statistics = group_statistics(column, node, slot_bounds, value_bounds, reader=options.reader, timezone=timezone)
    index = proto.RowIndex()
    places = np.stack(streams.positions, axis=1).tolist() if streams.positions else [[]] * len(statistics)
    for positions, group in zip(places, statistics, strict=True):
        index.entry.add(positions=positions, statistics=group)
    size = options.filters.get(node.column)
    encoded = EncodedColumn(
        column=node.column,
        encoding=encoding,
        dictionary_size=column.dictionary.entries if column.dictionary is not None else 0,
        streams=tuple(streams.stored),
        index=index,
        statistics=merge_statistics(statistics, node, reader=options.reader),
        filters=None if size is None else bloom_filters(column, node, value_bounds, size, timezone=timezone),
    )
    if column.kind in (Kind.LIST, Kind.MAP):
        bounds = [offsets_of(column.lengths)[value_bounds]] * len(column.children)
    elif column.kind is Kind.UNION:
        bounds = [offsets_of(column.values == tag)[value_bounds] for tag in range(len(column.children))]
    else:
        bounds = [value_bounds] * len(column.children)
    below = (
        encode_column(child, child_node, child_bounds, options, timezone)
        for child, child_node, child_bounds in zip(column.children, node.children, bounds, strict=True)
    )
    return [encoded, *(part for parts in below for part in parts)]


class _Streams:
    """The compressed streams of one column, and the positions of its row groups in them."""

    def __init__(self, options: FileOptions) -> None:
        self._options = options
        self.stored: list[tuple[StreamKind, Any]] = []
        self.positions: list[Longs] = []

    def add(self, kind: StreamKind, data: Any, offsets: Longs | None, *further: Longs) -> None:
        """Add a stream with the offsets at which row groups begin in it; None for a stream of the whole stripe."""
        block_size = self._options.block_size
        compressed, chunks = compress(data, self._options.compression, block_size)
        self.stored.append((kind, compressed))
        if offsets is not None:
            self.positions += [*positions_in(chunks, len(data), block_size, offsets), *further]

    def add_runs(self, kind: StreamKind, encoded: Encoded) -> None:
        """Add a stream of runs, within which row groups may begin."""
        further = [encoded.skips] if encoded.bits is None else [encoded.skips, encoded.bits]
        self.add(kind, encoded.data, encoded.offsets, *further)


def _encode_values(streams: _Streams, column: Column, node: TypeNode, marks: Longs) -> Encoding:
    """Add the streams of a column's values and return their encoding; row groups begin at the marks."""
    values = column.values
    if node.kind in (Kind.FLOAT, Kind.DOUBLE):
        data = np.ascontiguousarray(values).view(np.uint8)
        streams.add(StreamKind.DATA, data, marks * values.dtype.itemsize)
    elif node.kind is Kind.BOOLEAN:
        streams.add_runs(StreamKind.DATA, encode_bits(values, marks))
    elif node.kind in (Kind.BYTE, Kind.UNION):
        streams.add_runs(StreamKind.DATA, encode_bytes(values, marks))
    elif node.kind in INTEGER_KINDS:
        streams.add_runs(StreamKind.DATA, encode_ints(values, signed=True, marks=marks))
    elif node.kind in TIMESTAMP_KINDS:
        streams.add_runs(StreamKind.DATA, encode_ints(values, signed=True, marks=marks))
        streams.add_runs(StreamKind.SECONDARY, encode_ints(column.secondary, signed=False, marks=marks))
    elif node.kind is Kind.DECIMAL:
        varints = encode_varints(values, column.high, marks)
        streams.add(StreamKind.DATA, varints.data, varints.offsets)
        streams.add_runs(StreamKind.SECONDARY, encode_ints(column.secondary, signed=True, marks=marks))
    elif column.dictionary is not None:
        streams.add_runs(StreamKind.DATA, encode_ints(values, signed=False, marks=marks))
        lengths = encode_ints(np.diff(column.dictionary.offsets), signed=False, marks=NO_VALUES)
        streams.add(StreamKind.LENGTH, lengths.data, None)
        streams.add(StreamKind.DICTIONARY_DATA, column.dictionary.data, None)
        return Encoding.DICTIONARY_V2
    elif node.kind is not Kind.STRUCT:
        if node.kind not in (Kind.LIST, Kind.MAP):
            streams.add(StreamKind.DATA, column.data, offsets_of(column.lengths)[marks])
        streams.add_runs(StreamKind.LENGTH, encode_ints(column.lengths, signed=False, marks=marks))
    return Encoding.DIRECT if node.kind in _PLAIN_KINDS else Encoding.DIRECT_V2


class OrcWriter:
    """Writes one file, which is readable once `finish` has returned."""

    def __init__(self, sink: SinkFile, options: FileOptions) -> None:
        self.options = options
        self._sink = sink
        self._stripes: list[Any] = []
        self._statistics: list[Sequence[Any]] = []
        sink.write(proto.MAGIC)

    def copy_stripe(self, source: SourceFile, tail: Tail, number: int, statistics: Sequence[Any]) -> None:
        """Append a stripe of another file verbatim; `statistics` are its columns' as the result may state them."""
        stripe = tail.stripes[number]
        offset = self._sink.position
        self._sink.copy(source, stripe.offset, stripe.length)
        lengths = stripe.index_length, stripe.data_length, stripe.footer_length
        self._note_stripe(offset, *lengths, stripe.rows, statistics)

    def write_stripe(self, columns: Sequence[EncodedColumn | CopiedColumn], *, rows: int, timezone: str) -> None:
        """Append a stripe of columns, which must be all of the tree in column order; "" means no time zone."""
        footer = proto.StripeFooter(writer_timezone=timezone or None)
        offset = self._sink.position
        self._put_columns(footer, columns, index=True)
        index_end = self._sink.position
        self._put_columns(footer, columns, index=False)
        data_end = self._sink.position
        data = self._compressed(footer)
        self._sink.write(data)
        lengths = index_end - offset, data_end - index_end, len(data)
        self._note_stripe(offset, *lengths, rows, [column.statistics for column in columns])

    def _put_columns(self, footer: Any, columns: Sequence[EncodedColumn | CopiedColumn], *, index: bool) -> None:
        """Append the index or the data streams of all columns, and list them in the footer; with data the encodings."""
        copier = RangeCopier(self._sink)
        for number, column in enumerate(columns):
            if isinstance(column, CopiedColumn):
                for kind, offset, length in column.reader.streams(column.number, index=index):
                    footer.streams.add(kind=kind, column=number, length=length)
                    copier.place(column.reader.source, offset, length)
                if not index:
                    footer.columns.append(column.reader.encoding(column.number))
                continue
            copier.flush()
            streams: Sequence[tuple[StreamKind, Any]] = sorted(column.streams, key=lambda stream: stream[0])
            if index:
                # readers fetch the two of a column together (ORC specification, "Bloom Filter Index")
                pair = (StreamKind.ROW_INDEX, column.index), (StreamKind.BLOOM_FILTER_UTF8, column.filters)
                streams = [(kind, self._compressed(message)) for kind, message in pair if message is not None]
            for kind, data in streams:
                footer.streams.add(kind=kind, column=number, length=len(data))
                self._sink.write(data)
            if not index:
                footer.columns.add(
                    kind=column.encoding,
                    dictionary_size=column.dictionary_size or None,
                    bloom_encoding=None if column.filters is None else BloomEncoding.UTF8_UTC,
                )
        copier.flush()

    def _note_stripe(
        self, offset: int, index: int, data: int, footer: int, rows: int, statistics: Sequence[Any]
    ) -> None:
        self._stripes.append(
            proto.StripeInformation(
                offset=offset, index_length=index, data_length=data, footer_length=footer, number_of_rows=rows
            )
        )
        self._statistics.append(statistics)

    def finish(self, user_metadata: Mapping[str, bytes]) -> None:
        """Write stripe statistics, footer and postscript. The caller closes the sink."""
        options = self.options
        metadata = proto.Metadata()
        for statistics in self._statistics:
            metadata.stripe_stats.add(col_stats=statistics)
        footer = proto.Footer(
            header_length=len(proto.MAGIC),
            content_length=self._sink.position,
            stripes=self._stripes,
            types=format_types(options.root),
            number_of_rows=sum(stripe.number_of_rows for stripe in self._stripes),
            statistics=[
                merge_statistics([stripe[number] for stripe in self._statistics], node, reader=options.reader)
                for number, node in enumerate(options.root.walk())
            ],
            row_index_stride=options.stride,
            writer=JAVA_WRITER,
        )
        if options.calendar:
            footer.calendar = options.calendar
        for name, value in sorted(user_metadata.items()):
            footer.metadata.add(name=name, value=value)
        metadata_bytes, footer_bytes = self._compressed(metadata), self._compressed(footer)
        postscript = proto.PostScript(
            footer_length=len(footer_bytes),
            compression=int(options.compression),
            version=_FILE_VERSION,
            metadata_length=len(metadata_bytes),
            writer_version=options.writer_version,
            magic=proto.MAGIC.decode(),
        )
        if options.compression is not Compression.NONE:
            postscript.compression_block_size = options.block_size
        postscript_bytes = postscript.SerializeToString()
        for part in (metadata_bytes, footer_bytes, postscript_bytes, bytes([len(postscript_bytes)])):
            self._sink.write(part)

    def _compressed(self, message: Any) -> Any:
        return compress(message.SerializeToString(), self.options.compression, self.options.block_size)[0]
