"""Writing an ORC file stripe by stripe: copied ones as they are, recoded ones from encoded columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from acidlib.datafiles import SinkFile, SourceFile
from acidlib.model.units import FilterSize
from acidlib.orc import proto
from acidlib.orc.compression import compress
from acidlib.orc.encode import EncodedColumn
from acidlib.orc.proto import BloomEncoding, Compression, StreamKind
from acidlib.orc.schema import TypeNode, format_types
from acidlib.orc.statistics import StatisticsRules
from acidlib.orc.statistics_merge import merge_statistics
from acidlib.orc.stripe import StripeReader
from acidlib.orc.tail import JAVA_WRITER, Tail

_FILE_VERSION = (0, 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """What is the same for the whole file.

    root            type tree of the result
    compression     kind of every stripe, copied ones included
    block_size      largest uncompressed size of a chunk in bytes, at least that of every copied stripe
    stride          rows per row group, > 0
    writer_version  Java writer version whose rules the file keeps: not above that of any copied stripe
    calendar        of date and timestamp columns, as in the inputs
    rules           what statistics may look like
    filters         the columns that have bloom filters in recoded stripes, and their size
    """

    root: TypeNode
    compression: Compression
    block_size: int
    stride: int
    writer_version: int
    calendar: int
    rules: StatisticsRules
    filters: Mapping[int, FilterSize] = field(default_factory=dict)


class OrcWriter:
    """Writes one file. Nothing is readable before `finish` has returned."""

    def __init__(self, sink: SinkFile, options: FileOptions) -> None:
        self.options = options
        self._sink = sink
        self._stripes: list[Any] = []
        self._statistics: list[Sequence[Any]] = []
        sink.write(proto.MAGIC)

    @property
    def stripes(self) -> int:
        """Number of stripes so far."""
        return len(self._stripes)

    def copy_stripe(self, source: SourceFile, tail: Tail, number: int, statistics: Sequence[Any]) -> None:
        """Append a stripe of another file verbatim; `statistics` are its columns' as the result may state them."""
        stripe = tail.stripes[number]
        offset = self._sink.position
        self._sink.copy(source, stripe.offset, stripe.length)
        self._stripes.append(
            proto.StripeInformation(
                offset=offset,
                index_length=stripe.index_length,
                data_length=stripe.data_length,
                footer_length=stripe.footer_length,
                number_of_rows=stripe.rows,
            )
        )
        self._statistics.append(statistics)

    def regroup_stripe(
        self, reader: StripeReader, columns: Sequence[int | EncodedColumn], statistics: Sequence[Any]
    ) -> None:
        """Append a stripe whose columns are those of another file's stripe, by their ids there, or encoded ones.

        `columns` and `statistics` are of all columns of the result, in order. Streams are copied verbatim.
        """
        footer = proto.StripeFooter(writer_timezone=reader.writer_timezone or None)
        offset = self._sink.position
        self._put_columns(footer, reader, columns, index=True)
        index_end = self._sink.position
        self._put_columns(footer, reader, columns, index=False)
        self._end_stripe(footer, offset, index_end, reader.stripe.rows, statistics)

    def _put_columns(
        self, footer: Any, reader: StripeReader, columns: Sequence[int | EncodedColumn], *, index: bool
    ) -> None:
        """The index or the data of columns; streams that lie side by side in the source are copied in one go."""
        start = end = 0
        for number, column in enumerate(columns):
            if isinstance(column, EncodedColumn):
                self._sink.copy(reader.source, start, end - start)
                start = end
                if index:
                    self._put_index(footer, [column])
                else:
                    self._put_data(footer, [column])
                continue
            for kind, place in reader.streams(column, index=index):
                footer.streams.add(kind=kind, column=number, length=place.length)
                if place.offset != end:
                    self._sink.copy(reader.source, start, end - start)
                    start = place.offset
                end = place.offset + place.length
            if not index:
                footer.columns.append(reader.encoding(column))
        self._sink.copy(reader.source, start, end - start)

    def write_stripe(self, columns: Sequence[EncodedColumn], *, rows: int, timezone: str) -> None:
        """Append a stripe of encoded columns, which must be all of the tree in column order; "" means no time zone."""
        offset = self._sink.position
        footer = proto.StripeFooter(writer_timezone=timezone or None)
        self._put_index(footer, columns)
        index_end = self._sink.position
        self._put_data(footer, columns)
        self._end_stripe(footer, offset, index_end, rows, [column.statistics for column in columns])

    def _put_index(self, footer: Any, columns: Sequence[EncodedColumn]) -> None:
        for column in columns:
            # readers fetch the two of a column together (ORC specification, "Bloom Filter Index")
            for kind, index in ((StreamKind.ROW_INDEX, column.index), (StreamKind.BLOOM_FILTER_UTF8, column.filters)):
                if index is not None:
                    data = self._compressed(index)
                    footer.streams.add(kind=kind, column=column.column, length=len(data))
                    self._sink.write(data)

    def _put_data(self, footer: Any, columns: Sequence[EncodedColumn]) -> None:
        for column in columns:
            for stream in sorted(column.streams, key=lambda stream: stream.kind):
                footer.streams.add(kind=stream.kind, column=column.column, length=len(stream.data))
                self._sink.write(stream.data)
            footer.columns.add(
                kind=column.encoding,
                dictionary_size=column.dictionary_size or None,
                bloom_encoding=None if column.filters is None else BloomEncoding.UTF8_UTC,
            )

    def _end_stripe(self, footer: Any, offset: int, index_end: int, rows: int, statistics: Sequence[Any]) -> None:
        data_end = self._sink.position
        data = self._compressed(footer)
        self._sink.write(data)
        self._stripes.append(
            proto.StripeInformation(
                offset=offset,
                index_length=index_end - offset,
                data_length=data_end - index_end,
                footer_length=len(data),
                number_of_rows=rows,
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
            statistics=self._file_statistics(),
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

    def _file_statistics(self) -> Iterable[Any]:
        for position, node in enumerate(self.options.root.walk()):
            parts = [statistics[position] for statistics in self._statistics]
            yield merge_statistics(parts, node, rules=self.options.rules)

    def _compressed(self, message: Any) -> Any:
        data = np.frombuffer(message.SerializeToString(), dtype=np.uint8)
        return compress(data, self.options.compression, self.options.block_size).data
