"""Reading an ORC file: its tail, its stripes and their columns. Encodings are undone, values are not interpreted.

Source: ORC specification, "File Tail", "Stripes", "Column Encodings".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from google.protobuf.message import DecodeError

from acidlib.datafiles import SourceFile
from acidlib.errors import AcidError, CorruptError, RefusedError
from acidlib.memory import Memory, Room
from acidlib.orc import proto
from acidlib.orc.alignment import Alignment, convert
from acidlib.orc.columns import (
    INTEGER_KINDS,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    Bytes,
    Column,
    Dictionary,
    Longs,
)
from acidlib.orc.compression import decompress
from acidlib.orc.kernels.bytes_bits import MAX_RUN_PER_BYTE, Surplus, decode_bits, decode_bytes
from acidlib.orc.kernels.ints import MAX_VALUES_PER_BYTE, decode_ints
from acidlib.orc.kernels.varints import decode_varints
from acidlib.orc.proto import INDEX_STREAMS, Compression, Encoding, Kind, StreamKind
from acidlib.orc.schema import MAX_COLUMNS, TypeNode, parse_types

JAVA_WRITER = 0
CPP_WRITER = 1
ORC_135 = 6
"""First Java writer version with timestamp statistics in UTC."""
ORC_517 = 7
"""The newest Java writer version that Hive 3.1 (ORC 1.5) knows."""
ORC_14 = 9
"""The newest Java writer version there is (ORC 1.6 to 2.x, Hive 4)."""

_FIRST_READ = 16 * 1024
_COMPRESSIONS = frozenset(Compression)
_PARSED = 8
"""Bytes of memory that a byte of a message takes once it is parsed: 6.6 for statistics of integers."""
_PARSED_PART = 256
"""Bytes that a message within a message takes at least, with what is made of it."""
_OPENED = 24
"""Bytes of memory that a byte of a stripe's footer takes, with the places of its streams."""
_DECIMAL_BYTES = 16
"""Bytes of a decoded decimal, but for its scale."""
_LARGE = 1 << 20
"""Bytes of a message whose parts are counted before it is parsed."""
_MAX_ROWS = (1 << 31) - 1
"""Java counts the rows of a stripe in 32 bits."""
MAX_SLOTS = 1 << 31
"""Values that a column of one stripe can have, nulls included."""

_DATA_STREAMS = frozenset(StreamKind) - INDEX_STREAMS - {StreamKind.ENCRYPTED_INDEX, StreamKind.ENCRYPTED_DATA}
_ENCODINGS = frozenset(Encoding)
_VALUE_TYPES: dict[Kind, np.dtype[Any]] = {
    Kind.BOOLEAN: np.dtype(np.uint8),
    Kind.BYTE: np.dtype(np.uint8),
    Kind.UNION: np.dtype(np.uint8),
    Kind.FLOAT: np.dtype("<u4"),
    Kind.DOUBLE: np.dtype("<u8"),
}
"""Of `Column.values`; int64 for other kinds."""

_Values = TypeVar("_Values")

_GMT = frozenset({"GMT", "UTC", "Etc/UTC", "Etc/GMT", "Z", "Zulu", "Universal", "UCT", "Greenwich"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stripe:
    """Place and size of one stripe, in bytes and rows."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int

    @property
    def length(self) -> int:
        """Index, data and footer together, in bytes."""
        return self.index_length + self.data_length + self.footer_length


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The contents of a file's tail: postscript, footer and stripe statistics.

    stride             rows per row group; 0 = no row index
    version            file version, (0, 11) or (0, 12)
    file_statistics    one ColumnStatistics message per column, or empty
    stripe_statistics  per stripe, one ColumnStatistics message per column, or empty
    memory_size        bytes of memory that it takes, about
    """

    name: str
    length: int
    root: TypeNode
    columns: int
    stripes: tuple[Stripe, ...]
    rows: int
    compression: Compression
    block_size: int
    stride: int
    version: tuple[int, int]
    writer: int
    writer_version: int
    calendar: int
    user_metadata: dict[str, bytes]
    file_statistics: Sequence[Any]
    stripe_statistics: tuple[Sequence[Any], ...]
    memory_size: int


def read_tail(source: SourceFile) -> Tail:
    """Read and check the tail of a file.

    Raises CorruptError when it is damaged or truncated, RefusedError for what this version does not understand
    (encryption, an unknown codec, a future file or writer version).
    """
    where = source.name
    size = min(source.length, _FIRST_READ)
    if size < len(proto.MAGIC) + 2:
        raise CorruptError(f"Cannot read {where}: {source.length} bytes are too few for an ORC file")
    end = source.read(source.length - size, size)
    postscript = _postscript(end, where)
    version = tuple(postscript.version) or (0, 11)  # the specification's default
    if version not in ((0, 11), (0, 12)):
        text = ".".join(map(str, version))
        raise RefusedError(f"Cannot read {where}: file version {text} is newer than 0.12")
    codec, block = Compression(postscript.compression), 0
    if codec is not Compression.NONE:
        block = int(postscript.compression_block_size)
        if not 0 < block < 1 << 23:
            raise CorruptError(f"Cannot read {where}: its compression block size is {block}")
    memory = source.memory
    tail_size = 1 + end[-1] + postscript.footer_length + postscript.metadata_length
    if tail_size > source.length - len(proto.MAGIC):
        raise CorruptError(f"Cannot read {where}: its tail is longer than the file")
    if source.read(0, len(proto.MAGIC)) != proto.MAGIC:
        raise CorruptError(f"Cannot read {where}: it does not start with ORC")
    memory.require(_PARSED * tail_size, f"the tail of {where}")
    if tail_size > size:
        end = source.read(source.length - tail_size, tail_size)
    footer_end = len(end) - 1 - end[-1]
    footer_start = footer_end - postscript.footer_length
    metadata_start = footer_start - postscript.metadata_length
    name = f"the footer of {where}"
    plain = inflated_message(end[footer_start:footer_end], codec, block, name, memory)
    _require_few_parts(plain, where, memory)
    footer = parsed(proto.Footer, plain, name)
    if footer.encryption:
        raise RefusedError(f"Cannot read {where}: it is encrypted")
    if footer.writer == JAVA_WRITER and postscript.writer_version > ORC_14:
        raise RefusedError(f"Cannot read {where}: writer version {postscript.writer_version} is newer than {ORC_14}")
    root = parse_types(footer.types, where=where)
    columns = root.columns
    stripes = _stripes(footer, source.length - tail_size, where)
    if not all(isinstance(item.name, str) for item in footer.metadata):  # protobuf gives bytes that are not UTF-8
        raise CorruptError(f"Cannot read {where}: a name in its metadata is not UTF-8")
    name = f"the stripe statistics of {where}"
    statistics = inflated_message(end[metadata_start:footer_start], codec, block, name, memory)
    if len(statistics) > _LARGE:
        parts = parsed(proto.MetadataParts, statistics, name).stripe_stats
        counts = [len(parsed(proto.StripeStatisticsParts, part, name).col_stats) for part in parts]
        memory.require(sum(counts) * _PARSED_PART, name)
        _check_statistics(counts, len(stripes), columns, where)
    by_stripe = parsed(proto.Metadata, statistics, name).stripe_stats
    _check_statistics([len(stripe.col_stats) for stripe in by_stripe], len(stripes), columns, where)
    if len(footer.statistics) not in (0, columns):
        raise _other_columns(len(footer.statistics), columns, where)
    return Tail(
        name=where,
        length=source.length,
        root=root,
        columns=columns,
        stripes=stripes,
        rows=int(footer.number_of_rows),
        compression=codec,
        block_size=block,
        stride=int(footer.row_index_stride),
        version=version,
        writer=int(footer.writer),
        writer_version=int(postscript.writer_version),
        calendar=int(footer.calendar),
        user_metadata={item.name: bytes(item.value) for item in footer.metadata},
        file_statistics=footer.statistics,
        stripe_statistics=tuple(stripe.col_stats for stripe in by_stripe),
        memory_size=_PARSED * (len(plain) + len(statistics)),
    )


def _postscript(end: bytes, where: str) -> Any:
    """Parse the postscript at the end of a file. Raises RefusedError for an unknown codec."""
    length = end[-1]
    if not 0 < length < len(end):
        raise CorruptError(f"Cannot read {where}: its last byte is no postscript length")
    try:
        postscript = proto.PostScript.FromString(end[-1 - length : -1])
    except DecodeError:
        raise CorruptError(f"Cannot read {where}: its postscript is not a valid message") from None
    if postscript.magic != proto.MAGIC.decode():
        raise CorruptError(f"Cannot read {where}: its postscript does not carry the name ORC")
    if postscript.compression not in _COMPRESSIONS:
        raise RefusedError(f"Cannot read {where}: compression kind {postscript.compression} is not known")
    return postscript


def inflated_message(data: bytes, codec: Compression, block: int, name: str, memory: Memory) -> bytes:
    """Return a protobuf message of the file as it was before compression.

    Raises CorruptError that calls it by the `name`, RefusedError where it would take too much memory once it is parsed.
    """
    return bytes(decompress(data, codec, block, name=name, memory=memory, weight=_PARSED))


def parsed(message: Any, data: bytes, name: str) -> Any:
    """Parse a protobuf message. Raises CorruptError that calls it by the `name`."""
    try:
        return message.FromString(data)
    except DecodeError:
        raise CorruptError(f"Cannot read {name}: it is not a valid message") from None


def _require_few_parts(footer: bytes, where: str, memory: Memory) -> None:
    """Raise RefusedError for a footer of so many types, stripes or statistics that they cannot be parsed.

    The least of them has two bytes, and takes a hundred times as much in memory.
    """
    if len(footer) <= _LARGE:
        return
    parts = parsed(proto.FooterParts, footer, f"the footer of {where}")
    if len(parts.types) > MAX_COLUMNS:
        raise RefusedError(f"Cannot read {where}: it has {len(parts.types):,} columns, more than {MAX_COLUMNS:,}")
    count = sum(map(len, (parts.types, parts.stripes, parts.metadata, parts.statistics)))
    memory.require(count * _PARSED_PART, f"the footer of {where}")


def _check_statistics(counts: Sequence[int], stripes: int, columns: int, where: str) -> None:
    """Raise CorruptError unless there are statistics of each stripe and each column, or none.

    counts  for each stripe that has statistics the number of its columns that have
    """
    if counts and len(counts) != stripes:
        raise CorruptError(f"Cannot read {where}: it has {stripes} stripes and statistics of {len(counts)} stripes")
    wrong = next((count for count in counts if count not in (0, columns)), None)
    if wrong is not None:
        raise _other_columns(wrong, columns, where)


def _other_columns(stated: int, columns: int, where: str) -> CorruptError:
    return CorruptError(f"Cannot read {where}: it has statistics of {stated} columns and {columns} columns")


def _stripes(footer: Any, limit: int, where: str) -> tuple[Stripe, ...]:
    stripes = []
    end = len(proto.MAGIC)
    rows = 0
    for number, info in enumerate(footer.stripes):
        if info.HasField("encrypt_stripe_id") or info.encrypted_local_keys:
            raise RefusedError(f"Cannot read stripe {number} of {where}: it is encrypted")
        stripe = Stripe(
            offset=int(info.offset),
            index_length=int(info.index_length),
            data_length=int(info.data_length),
            footer_length=int(info.footer_length),
            rows=int(info.number_of_rows),
        )
        if stripe.offset < end or stripe.offset + stripe.length > limit or stripe.rows > _MAX_ROWS:
            raise CorruptError(
                f"Cannot read stripe {number} of {where}: its {stripe.rows} rows and {stripe.length} bytes at "
                f"{stripe.offset} do not lie inside the file"
            )
        end = stripe.offset + stripe.length
        rows += stripe.rows
        stripes.append(stripe)
    if rows != footer.number_of_rows:
        raise CorruptError(
            f"Cannot read {where}: its stripes have {rows} rows and its footer says {footer.number_of_rows}"
        )
    return tuple(stripes)


class StripeReader:
    """One stripe of one file, open for reading columns. Its footer is checked when it is opened.

    Raises CorruptError and RefusedError that name the file, the stripe and the column.

    memory_size  bytes of memory that it takes, about, without columns
    """

    def __init__(self, source: SourceFile, tail: Tail, number: int) -> None:
        self.source = source
        self.tail = tail
        self.memory = source.memory
        self.number = number
        self.stripe: Stripe = tail.stripes[number]
        self.where = f"stripe {number} of {tail.name}"
        self._footer = self._read_footer()
        self.writer_timezone: str = self._footer.writer_timezone
        # a single name for all spellings of UTC; no name means the reader's zone
        self.timezone = "UTC" if self.writer_timezone in _GMT else self.writer_timezone
        self._streams = self._place_streams()
        self.memory_size: int = _OPENED * self._footer.ByteSize()

    def _read_footer(self) -> Any:
        """Return the StripeFooter message. Raises RefusedError for encryption and unknown column encodings."""
        stripe = self.stripe
        offset = stripe.offset + stripe.index_length + stripe.data_length
        data = self._read(offset, stripe.footer_length, f"the footer of {self.where}")
        footer = self._message(proto.StripeFooter, data, f"the footer of {self.where}")
        if footer.encryption:
            raise RefusedError(f"Cannot read {self.where}: it is encrypted")
        if not isinstance(footer.writer_timezone, str):
            raise CorruptError(f"Cannot read {self.where}: the name of its time zone is not UTF-8")
        if len(footer.columns) != self.tail.columns:
            raise CorruptError(
                f"Cannot read {self.where}: it has encodings of {len(footer.columns)} columns "
                f"and the file has {self.tail.columns}"
            )
        for column, encoding in enumerate(footer.columns):
            if encoding.kind not in _ENCODINGS:
                raise RefusedError(
                    f"Cannot read column {column} in {self.where}: column encoding {encoding.kind} is not known"
                )
        return footer

    def _place_streams(self) -> list[dict[StreamKind, tuple[int, int]]]:
        """Return offset and length of the streams of each column, in the order in which they lie in the file."""
        places: list[dict[StreamKind, tuple[int, int]]] = [{} for _ in range(self.tail.columns)]
        offset = self.stripe.offset
        end = offset + self.stripe.index_length + self.stripe.data_length
        for stream in self._footer.streams:
            if stream.kind not in _DATA_STREAMS and stream.kind not in INDEX_STREAMS:
                raise RefusedError(
                    f"Cannot read column {stream.column} in {self.where}: stream kind {stream.kind} is not known"
                )
            outside = stream.column >= self.tail.columns or offset + stream.length > end
            # a stream without a kind is skipped by ORC C++, and other readers take it for a PRESENT stream
            if outside or stream.kind in places[stream.column] or not stream.HasField("kind"):
                raise CorruptError(
                    f"Cannot read column {stream.column} in {self.where}: its stream directory is damaged"
                )
            places[stream.column][StreamKind(stream.kind)] = offset, stream.length
            offset += stream.length
        if offset != end:
            raise CorruptError(f"Cannot read {self.where}: its streams end {end - offset} bytes early")
        return places

    def streams(self, column: int, *, index: bool) -> list[tuple[StreamKind, int, int]]:
        """Return kind, offset and length of a column's streams, of its index or its data, in their order."""
        streams = self._streams[column].items()
        return [(kind, offset, length) for kind, (offset, length) in streams if (kind in INDEX_STREAMS) is index]

    def encoding(self, column: int) -> Any:
        """Return the ColumnEncoding message of a column."""
        return self._footer.columns[column]

    def is_nullable(self, column: int) -> bool:
        """Return whether a column has a PRESENT stream."""
        return StreamKind.PRESENT in self._streams[column]

    def bloom_filters(self) -> dict[int, StreamKind]:
        """Return the columns that have bloom filters, and their kind; BLOOM_FILTER_UTF8 where a column has both."""
        return {
            column: kind
            for column, streams in enumerate(self._streams)
            for kind in (StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8)
            if streams.get(kind, (0, 0))[1]
        }

    def bloom_filter_index(self, column: int) -> Any | None:
        """Return the BloomFilterIndex message of a column, of the kind that `bloom_filters` names, or None."""
        kind = self.bloom_filters().get(column)
        if kind is None:
            return None
        name = f"the bloom filters of column {column} in {self.where}"
        return self._message(proto.BloomFilterIndex, self._read(*self._streams[column][kind], name), name)

    def _message(self, message: Any, data: bytes, name: str) -> Any:
        tail = self.tail
        return parsed(message, inflated_message(data, tail.compression, tail.block_size, name, self.memory), name)

    def _read(self, offset: int, length: int, name: str) -> bytes:
        """Return bytes of the file, whose length is only stated."""
        self.memory.require(length, name)
        return self.source.read(offset, length)

    def require_memory(self, width: int) -> None:
        """Raise RefusedError if so many bytes of each row, decoded, are too much memory.

        CorruptError for a number of rows that the stripe does not hold.
        """
        needed = width * self.stripe.rows
        if self.memory.excess(needed) is not None:
            self.prove_rows()
            self.memory.require(needed, f"the {self.stripe.rows:,} rows of {self.where}")

    def prove_rows(self) -> None:
        """Decode the smallest of the root's columns that has bytes. CorruptError unless it has the footer's rows.

        For callers that allocate by the number of rows before they decode any. Nulls are bits, eight to a byte: up to
        seven rows too many are not noticed.
        """
        root = self.tail.root
        if root.kind is Kind.STRUCT and root.children:
            lengths = [sum(length for _, length in streams.values()) for streams in self._streams]
            in_file = [sum(lengths[node.column] for node in child.walk()) for child in root.children]
            smallest = min(range(len(in_file)), key=lambda child: in_file[child] or 1 << 63)
            self.column(replace(root, children=(root.children[smallest],)), self.stripe.rows)

    def column(self, node: TypeNode, slots: int) -> Column:
        """Return one column with all below it, of the file's own type."""
        return self._column(node, slots, Room(self.memory))

    def _column(self, node: TypeNode, slots: int, room: Room) -> Column:
        try:
            column, sizes = self._decoded(node, slots, room)
        except AcidError as error:
            raise type(error)(f"Cannot read column {node.column} in {self.where}: {error}") from None
        except MemoryError:
            raise CorruptError(
                f"Cannot read column {node.column} in {self.where}: its sizes do not fit in memory"
            ) from None
        pairs = zip(node.children, sizes, strict=True)
        column.children = tuple(self._column(child, size, room) for child, size in pairs)
        return column

    def aligned(self, alignment: Alignment, slots: int) -> Column:
        """Return one column with all below it, converted, widened and padded to the output's type."""
        if alignment.source is None:
            return null_column(alignment.target, slots)
        column = self.column(alignment.source, slots)
        try:
            return under_target(column, alignment, alignment.source, calendar=self.tail.calendar)
        except CorruptError as error:
            raise CorruptError(f"Cannot convert {self.where}: {error}") from None
        except RefusedError as error:
            raise RefusedError(
                f"Cannot convert {self.where}: {error}; change the type back, or have Hive write anew what it reads "
                "(INSERT OVERWRITE)"
            ) from None

    def _decoded(self, node: TypeNode, slots: int, room: Room) -> tuple[Column, list[int]]:
        """Return one column alone, and the number of slots of each column below it. Errors have the reason alone."""
        if slots > MAX_SLOTS:
            raise CorruptError(f"{slots} values are more than a stripe can have")
        surplus: Surplus = []
        present, count = None, slots
        if self.is_nullable(node.column):
            present = self._bits(node, StreamKind.PRESENT, slots, room, surplus).view(np.bool_)
            count = int(np.count_nonzero(present))
        column = Column(kind=node.kind, slots=slots, present=None if count == slots else present)
        sizes: list[int] = []
        if node.kind in INTEGER_KINDS:
            column.values = self._ints(node, StreamKind.DATA, count, room, surplus, signed=True)
        elif node.kind is Kind.BOOLEAN:
            column.values = self._bits(node, StreamKind.DATA, count, room, surplus)
        elif node.kind is Kind.BYTE:
            column.values = self._octets(node, count, room, surplus)
        elif node.kind in (Kind.FLOAT, Kind.DOUBLE):
            dtype = _VALUE_TYPES[node.kind]
            data = self._raw(node, StreamKind.DATA, count * dtype.itemsize, room, surplus)
            column.values = np.frombuffer(data, dtype=dtype)
        elif node.kind in STRING_KINDS or node.kind is Kind.BINARY:
            self._strings(node, column, count, room, surplus)
        elif node.kind is Kind.DECIMAL:
            column.values, column.high = self._varints(node, count, room, surplus)
            column.secondary = self._ints(node, StreamKind.SECONDARY, count, room, surplus, signed=True)
        elif node.kind in TIMESTAMP_KINDS:
            column.values = self._ints(node, StreamKind.DATA, count, room, surplus, signed=True)
            column.secondary = self._ints(node, StreamKind.SECONDARY, count, room, surplus, signed=False)
        elif node.kind is Kind.STRUCT:
            sizes = [count] * len(node.children)
        elif node.kind is Kind.UNION:
            column.values = self._octets(node, count, room, surplus)
            sizes = np.bincount(column.values, minlength=len(node.children)).tolist()
            if len(sizes) > len(node.children):
                raise CorruptError("a union tag has no type")
        else:
            column.lengths = self._lengths(node, count, room, surplus)
            elements = int(column.lengths.sum())
            room.take(elements)  # for a mask of them
            sizes = [elements] * len(node.children)
        if surplus:
            self._require_confirmed(node, column, count, surplus[0])
        return column, sizes

    def _require_confirmed(self, node: TypeNode, column: Column, count: int, surplus: str) -> None:
        """Raise CorruptError for a column whose streams hold more than its values, unless statistics confirm these.

        Hive reads as many values as the footer has rows and looks at nothing behind them. By that alone, a number of
        rows, a null or a length that is damaged would lose values. So the statistics of the stripe have to state the
        footer's rows, just as many values of the column, and for texts the sum of their lengths.
        """
        statistics = self.tail.stripe_statistics[self.number] if self.tail.stripe_statistics else ()
        if statistics:
            own = statistics[node.column]
            facts = [
                (statistics[0], "number_of_values", self.stripe.rows),
                (own, "number_of_values", count),
            ]
            if count and (node.kind in STRING_KINDS or node.kind is Kind.BINARY):
                lengths = column.lengths
                if column.dictionary is not None:
                    lengths = np.diff(column.dictionary.offsets)[column.values]
                typed = own.binary_statistics if node.kind is Kind.BINARY else own.string_statistics
                facts.append((typed, "sum", int(lengths.sum())))
            if all(message.HasField(name) and getattr(message, name) == value for message, name, value in facts):
                return
        raise CorruptError(
            f"{surplus}; such a file is read where the statistics of the stripe confirm its rows and the values of the "
            f"column, and they do not confirm {self.stripe.rows:,} rows with {count:,} values"
        )

    def _strings(self, node: TypeNode, column: Column, count: int, room: Room, surplus: Surplus) -> None:
        encoding = self.encoding(node.column)
        if encoding.kind in (Encoding.DIRECT, Encoding.DIRECT_V2):
            column.lengths = self._lengths(node, count, room, surplus)
            column.data = self._raw(node, StreamKind.DATA, int(column.lengths.sum()), room, surplus)
            return
        if node.kind is Kind.BINARY:
            raise CorruptError("a binary column has a dictionary")
        entries = int(encoding.dictionary_size)
        lengths = self._lengths(node, entries, room, surplus)
        data = self._raw(node, StreamKind.DICTIONARY_DATA, int(lengths.sum()), room, surplus)
        values = self._ints(node, StreamKind.DATA, count, room, surplus, signed=False)
        if count and (int(values.min()) < 0 or int(values.max()) >= entries):
            raise CorruptError("an entry number is outside its dictionary")
        column.values = values
        column.dictionary = Dictionary.of(data, lengths)

    def _lengths(self, node: TypeNode, count: int, room: Room, surplus: Surplus) -> Longs:
        lengths = self._ints(node, StreamKind.LENGTH, count, room, surplus, signed=False)
        if count and (int(lengths.min()) < 0 or int(lengths.max()) > MAX_SLOTS or float(lengths.sum()) > MAX_SLOTS):
            raise CorruptError("a length is out of range")
        return lengths

    # the decoders of runs refuse a number of values that a stream cannot hold before they allocate anything: only one
    # that it can hold is taken into account

    def _ints(
        self, node: TypeNode, kind: StreamKind, count: int, room: Room, surplus: Surplus, *, signed: bool
    ) -> Longs:
        version = 2 if self.encoding(node.column).kind in (Encoding.DIRECT_V2, Encoding.DICTIONARY_V2) else 1

        def decode(data: Bytes) -> Longs:
            if count <= MAX_VALUES_PER_BYTE * len(data):
                room.take(8 * count)
            return decode_ints(data, count, signed=signed, version=version, surplus=surplus)

        return self._first(node, kind, surplus, decode)

    def _octets(self, node: TypeNode, count: int, room: Room, surplus: Surplus) -> Bytes:
        def decode(data: Bytes) -> Bytes:
            if count <= MAX_RUN_PER_BYTE * len(data):
                room.take(count)
            return decode_bytes(data, count, surplus)

        return self._first(node, StreamKind.DATA, surplus, decode)

    def _bits(self, node: TypeNode, kind: StreamKind, count: int, room: Room, surplus: Surplus) -> Bytes:
        def decode(data: Bytes) -> Bytes:
            if count <= 8 * MAX_RUN_PER_BYTE * len(data):
                room.take(count)
            return decode_bits(data, count, surplus)

        return self._first(node, kind, surplus, decode)

    def _varints(self, node: TypeNode, count: int, room: Room, surplus: Surplus) -> tuple[Longs, Longs | None]:
        def decode(data: Bytes) -> tuple[Longs, Longs | None]:
            if count <= len(data):
                room.take(_DECIMAL_BYTES * count)
            return decode_varints(data, count, surplus)

        return self._first(node, StreamKind.DATA, surplus, decode)

    def _raw(self, node: TypeNode, kind: StreamKind, size: int, room: Room, surplus: Surplus) -> Bytes:
        def decode(data: Bytes) -> Bytes:
            if len(data) != size:
                message = f"its {kind.name} stream has {len(data)} bytes, and its values take {size}"
                if len(data) < size:
                    raise CorruptError(message)
                surplus.append(message)
            room.take(size)
            return data[:size]

        return self._first(node, kind, surplus, decode)

    def _first(self, node: TypeNode, kind: StreamKind, surplus: Surplus, decode: Callable[[Bytes], _Values]) -> _Values:
        """Return what is decoded of the beginning of a stream; a chunk that is damaged behind it is surplus."""
        damage: list[CorruptError] = []
        data = self._bytes(node, kind, damage)
        try:
            values = decode(data)
        except CorruptError:
            if damage:
                raise damage[0] from None
            raise
        if damage:
            surplus.append(str(damage[0]))
        return values

    def _bytes(self, node: TypeNode, kind: StreamKind, damage: list[CorruptError]) -> Bytes:
        offset, length = self._streams[node.column].get(kind, (0, 0))
        if length == 0:
            return np.zeros(0, dtype=np.uint8)
        tail, name = self.tail, f"its {kind.name} stream"
        data = self._read(offset, length, name)
        return decompress(data, tail.compression, tail.block_size, name=name, memory=self.memory, damage=damage)


def null_column(node: TypeNode, slots: int) -> Column:
    """Return a column with a null in every slot; the columns below it have no slots."""
    return Column(
        kind=node.kind,
        slots=slots,
        present=np.zeros(slots, dtype=np.bool_) if slots else None,
        values=np.zeros(0, dtype=_VALUE_TYPES.get(node.kind, np.dtype(np.int64))),
        children=tuple(null_column(child, 0) for child in node.children),
    )


def under_target(column: Column, alignment: Alignment, source: TypeNode, *, calendar: int) -> Column:
    """Return a column of the source's type under the output's: converted, integers widened, fields in order or null.

    Raises CorruptError for values outside the input's type, RefusedError for values that readers convert differently.

    calendar  of the file, for dates
    """
    target = alignment.target
    if alignment.converted is not None:
        try:
            return convert(column, target, source, reader=alignment.converted, calendar=calendar)
        except (CorruptError, RefusedError) as error:
            raise type(error)(f"its column {alignment.path} is {source} and the table's is {target}: {error}") from None
    if column.kind is Kind.BYTE and target.kind is not Kind.BYTE:
        column.values = column.values.view(np.int8).astype(np.int64)
    column.kind = target.kind
    count = column.count
    below = {node.column: child for node, child in zip(source.children, column.children, strict=True)}
    column.children = tuple(
        null_column(part.target, count)
        if part.source is None
        else under_target(below[part.source.column], part, part.source, calendar=calendar)
        for part in alignment.children
    )
    return column
