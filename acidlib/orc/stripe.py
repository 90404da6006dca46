"""Reading one stripe: its footer, its streams, and columns, of which encodings are undone and no value interpreted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acidlib.datafiles import SourceFile
from acidlib.errors import AcidError, CorruptError, RefusedError
from acidlib.orc import proto
from acidlib.orc.alignment import Alignment
from acidlib.orc.columns import INTEGER_KINDS, STRING_KINDS, TIMESTAMP_KINDS, Bytes, Column, Dictionary, Longs, Mask
from acidlib.orc.compression import decompress
from acidlib.orc.conversion import convert
from acidlib.orc.kernels.bytes_bits import decode_bits, decode_bytes
from acidlib.orc.kernels.ints import decode_ints
from acidlib.orc.kernels.varints import decode_varints
from acidlib.orc.proto import INDEX_STREAMS, Encoding, Kind, StreamKind
from acidlib.orc.schema import TypeNode
from acidlib.orc.tail import MAX_SLOTS, Stripe, Tail, parse_message

_DATA_STREAMS = frozenset(StreamKind) - INDEX_STREAMS - {StreamKind.ENCRYPTED_INDEX, StreamKind.ENCRYPTED_DATA}
_ENCODINGS = frozenset(Encoding)
_VALUE_TYPES: dict[Kind, np.dtype[Any]] = {
    Kind.BOOLEAN: np.dtype(np.uint8),
    Kind.BYTE: np.dtype(np.uint8),
    Kind.UNION: np.dtype(np.uint8),
    Kind.FLOAT: np.dtype("<u4"),
    Kind.DOUBLE: np.dtype("<u8"),
}
"""Of `Column.values`; int64 where it is not given."""

_GMT = frozenset({"GMT", "UTC", "Etc/UTC", "Etc/GMT", "Z", "Zulu", "Universal", "UCT", "Greenwich"})


def canonical_timezone(name: str) -> str:
    """One name for all spellings of UTC. Others stay as written; so does a missing one, which means the reader's."""
    return "UTC" if name in _GMT else name


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """Offset in the file and length in bytes of one stream."""

    offset: int
    length: int


class StripeReader:
    """One stripe of one file, open for reading columns. What its footer says is checked when it is opened.

    Raises CorruptError and RefusedError that name the file, the stripe and the column.
    """

    def __init__(self, source: SourceFile, tail: Tail, number: int) -> None:
        self.source = source
        self.tail = tail
        self.number = number
        self.stripe: Stripe = tail.stripes[number]
        self.where = f"stripe {number} of {tail.name}"
        self._footer = self._read_footer()
        self.writer_timezone: str = self._footer.writer_timezone
        self.timezone = canonical_timezone(self.writer_timezone)
        self._streams = self._place_streams()

    def _read_footer(self) -> Any:
        stripe = self.stripe
        offset = stripe.offset + stripe.index_length + stripe.data_length
        data = self.source.read(offset, stripe.footer_length)
        footer = parse_message(
            proto.StripeFooter, data, self.tail.compression, self.tail.block_size, f"the footer of {self.where}"
        )
        if footer.encryption:
            raise RefusedError(f"Cannot read {self.where}: because it is encrypted")
        if not isinstance(footer.writer_timezone, str):
            raise CorruptError(f"Cannot read {self.where}: because the name of its time zone is not UTF-8")
        if len(footer.columns) != self.tail.columns:
            raise CorruptError(
                f"Cannot read {self.where}: because it has encodings of {len(footer.columns)} columns "
                f"and the file has {self.tail.columns}"
            )
        for column, encoding in enumerate(footer.columns):
            if encoding.kind not in _ENCODINGS:
                raise RefusedError(
                    f"Cannot read column {column} in {self.where}: because column encoding {encoding.kind} is not known"
                )
        return footer

    def _place_streams(self) -> dict[tuple[int, int], StreamPlace]:
        places: dict[tuple[int, int], StreamPlace] = {}
        offset = self.stripe.offset
        end = offset + self.stripe.index_length + self.stripe.data_length
        for stream in self._footer.streams:
            key = (stream.column, stream.kind)
            if stream.kind not in _DATA_STREAMS and stream.kind not in INDEX_STREAMS:
                raise RefusedError(
                    f"Cannot read column {stream.column} in {self.where}: "
                    f"because stream kind {stream.kind} is not known"
                )
            # without a kind ORC C++ passes over it, and others take it for a PRESENT stream
            outside = stream.column >= self.tail.columns or offset + stream.length > end
            if key in places or outside or not stream.HasField("kind"):
                raise CorruptError(
                    f"Cannot read column {stream.column} in {self.where}: because its stream directory is damaged"
                )
            places[key] = StreamPlace(offset, stream.length)
            offset += stream.length
        if offset != end:
            raise CorruptError(f"Cannot read {self.where}: because its streams end {end - offset} bytes early")
        return places

    def streams(self, column: int, *, index: bool) -> list[tuple[int, StreamPlace]]:
        """The streams of a column, its index or its data, with their kinds, in the order in which they lie there."""
        return [(kind, place) for kind, place in self._by_column[column] if (kind in INDEX_STREAMS) is index]

    @cached_property
    def _by_column(self) -> list[list[tuple[int, StreamPlace]]]:
        found: list[list[tuple[int, StreamPlace]]] = [[] for _ in range(self.tail.columns)]
        for (column, kind), place in self._streams.items():
            found[column].append((kind, place))
        return found

    def encoding(self, column: int) -> Any:
        """The ColumnEncoding message of a column."""
        return self._footer.columns[column]

    def is_nullable(self, column: int) -> bool:
        """Whether a column has a PRESENT stream."""
        return (column, StreamKind.PRESENT) in self._streams

    def bloom_filters(self) -> dict[int, StreamKind]:
        """The columns that have bloom filters, and of which kind; BLOOM_FILTER_UTF8 where a column has both."""
        found: dict[int, StreamKind] = {}
        for kind in (StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8):
            found |= {column: kind for (column, k), place in self._streams.items() if k == kind and place.length}
        return found

    def bloom_filter_index(self, column: int) -> Any | None:
        """The BloomFilterIndex message of a column, of the kind that `bloom_filters` names, or None."""
        kind = self.bloom_filters().get(column)
        if kind is None:
            return None
        place = self._streams[column, kind]
        return parse_message(
            proto.BloomFilterIndex,
            self.source.read(place.offset, place.length),
            self.tail.compression,
            self.tail.block_size,
            f"the bloom filters of column {column} in {self.where}",
        )

    def prove_rows(self) -> None:
        """Decode the smallest of the root's columns: CorruptError unless it has as many rows as the file's footer says.

        For callers that allocate by the number of rows before they decode any. Nulls are bits, eight to a byte: up to
        seven rows too many are not noticed.
        """
        sizes = dict.fromkeys(range(self.tail.columns), 0)
        for (column, _), place in self._streams.items():
            sizes[column] += place.length
        root = self.tail.root
        if root.kind is Kind.STRUCT and root.children:
            smallest = min(root.children, key=lambda child: sum(sizes[node.column] for node in child.walk()))
            self.column(replace(root, children=(smallest,)), self.stripe.rows)

    def column(self, node: TypeNode, slots: int) -> Column:
        """One column with all below it, as the file's own type has it."""
        try:
            return self._column(node, slots)
        except AcidError as error:
            if self.where in str(error):
                raise
            raise type(error)(f"Cannot read column {node.column} in {self.where}: {error}") from None
        except MemoryError:
            raise CorruptError(
                f"Cannot read column {node.column} in {self.where}: because its sizes do not fit in memory"
            ) from None

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

    def _column(self, node: TypeNode, slots: int) -> Column:
        if slots > MAX_SLOTS:
            raise CorruptError(f"because {slots} values are more than a stripe can have")
        present, count = self._present(node, slots)
        column = Column(kind=node.kind, slots=slots, present=present)
        if node.kind in INTEGER_KINDS:
            column.values = self._ints(node, StreamKind.DATA, count, signed=True)
        elif node.kind is Kind.BOOLEAN:
            column.values = decode_bits(self._bytes(node, StreamKind.DATA), count)
        elif node.kind is Kind.BYTE:
            column.values = decode_bytes(self._bytes(node, StreamKind.DATA), count)
        elif node.kind in (Kind.FLOAT, Kind.DOUBLE):
            column.values = self._floats(node, count)
        elif node.kind in STRING_KINDS or node.kind is Kind.BINARY:
            self._strings(node, column, count)
        elif node.kind is Kind.DECIMAL:
            column.values, column.high = decode_varints(self._bytes(node, StreamKind.DATA), count)
            column.secondary = self._ints(node, StreamKind.SECONDARY, count, signed=True)
        elif node.kind in TIMESTAMP_KINDS:
            column.values = self._ints(node, StreamKind.DATA, count, signed=True)
            column.secondary = self._ints(node, StreamKind.SECONDARY, count, signed=False)
        else:
            self._nested(node, column, count)
        return column

    def _nested(self, node: TypeNode, column: Column, count: int) -> None:
        if node.kind is Kind.STRUCT:
            column.children = tuple(self.column(child, count) for child in node.children)
            return
        if node.kind is Kind.UNION:
            tags = decode_bytes(self._bytes(node, StreamKind.DATA), count)
            sizes = np.bincount(tags, minlength=len(node.children))
            if len(sizes) > len(node.children):
                raise CorruptError("because a union tag has no type")
            column.values = tags
            column.children = tuple(
                self.column(child, int(size)) for child, size in zip(node.children, sizes, strict=True)
            )
            return
        column.lengths = self._lengths(node, count)
        total = int(column.lengths.sum())
        column.children = tuple(self.column(child, total) for child in node.children)

    def _present(self, node: TypeNode, slots: int) -> tuple[Mask | None, int]:
        if (node.column, StreamKind.PRESENT) not in self._streams:
            return None, slots
        present = decode_bits(self._bytes(node, StreamKind.PRESENT), slots).view(np.bool_)
        count = int(np.count_nonzero(present))
        return (None if count == slots else present), count

    def _strings(self, node: TypeNode, column: Column, count: int) -> None:
        encoding = self._encoding(node)
        if encoding in (Encoding.DIRECT, Encoding.DIRECT_V2):
            column.lengths = self._lengths(node, count)
            column.data = self._bytes(node, StreamKind.DATA)
            if int(column.lengths.sum()) != len(column.data):
                raise CorruptError("because the lengths of its strings do not add up to its bytes")
            return
        if node.kind is Kind.BINARY:
            raise CorruptError("because a binary column has a dictionary")
        entries = int(self._footer.columns[node.column].dictionary_size)
        data = self._bytes(node, StreamKind.DICTIONARY_DATA)
        lengths = self._ints(node, StreamKind.LENGTH, entries, signed=False)
        if entries and (int(lengths.min()) < 0 or int(lengths.max()) > len(data) or int(lengths.sum()) != len(data)):
            raise CorruptError("because the lengths of its dictionary do not add up to its bytes")
        offsets = np.zeros(entries + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        values = self._ints(node, StreamKind.DATA, count, signed=False)
        if count and (int(values.min()) < 0 or int(values.max()) >= entries):
            raise CorruptError("because an entry number is outside its dictionary")
        column.values = values
        column.dictionary = Dictionary(offsets=offsets, data=data)

    def _floats(self, node: TypeNode, count: int) -> NDArray[Any]:
        dtype = _VALUE_TYPES[node.kind]
        data = self._bytes(node, StreamKind.DATA)
        if len(data) != count * dtype.itemsize:
            raise CorruptError(f"because {len(data)} bytes are not {count} values")
        return np.frombuffer(data, dtype=dtype)

    def _lengths(self, node: TypeNode, count: int) -> Longs:
        lengths = self._ints(node, StreamKind.LENGTH, count, signed=False)
        if count and (int(lengths.min()) < 0 or int(lengths.max()) > MAX_SLOTS or float(lengths.sum()) > MAX_SLOTS):
            raise CorruptError("because a length is out of range")
        return lengths

    def _ints(self, node: TypeNode, kind: StreamKind, count: int, *, signed: bool) -> Longs:
        encoding = self._encoding(node)
        version = 2 if encoding in (Encoding.DIRECT_V2, Encoding.DICTIONARY_V2) else 1
        return decode_ints(self._bytes(node, kind), count, signed=signed, version=version)

    def _encoding(self, node: TypeNode) -> Encoding:
        return Encoding(self._footer.columns[node.column].kind)

    def _bytes(self, node: TypeNode, kind: StreamKind) -> Bytes:
        place = self._streams.get((node.column, kind))
        if place is None or place.length == 0:
            return np.zeros(0, dtype=np.uint8)
        data = self.source.read(place.offset, place.length)
        what = f"the {kind.name} stream of column {node.column} in {self.where}"
        return decompress(data, self.tail.compression, self.tail.block_size, what=what)


def null_column(node: TypeNode, slots: int) -> Column:
    """A column of which every slot is null."""
    column = empty_column(node)
    column.slots = slots
    column.present = np.zeros(slots, dtype=np.bool_) if slots else None
    return column


def empty_column(node: TypeNode) -> Column:
    """A column without slots."""
    values = np.zeros(0, dtype=_VALUE_TYPES.get(node.kind, np.dtype(np.int64)))
    return Column(kind=node.kind, slots=0, values=values, children=tuple(map(empty_column, node.children)))


def under_target(column: Column, alignment: Alignment, source: TypeNode, *, calendar: int) -> Column:
    """Return a column of the source's type under the output's: converted, integers widened, fields in order or null.

    Raises CorruptError for values to convert that are none of the input's type, RefusedError for those that readers
    do not convert alike. `calendar`: that of the file, for dates.
    """
    target = alignment.target
    if alignment.converted is not None:
        try:
            return convert(column, target, source, generation=alignment.converted, calendar=calendar)
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
