"""The tail, stripe footers and row indexes of an ORC file, parsed by hand from the protobuf wire format.

Messages are plain dicts: field number -> list of raw values (int for varints, bytes for the rest). Field numbers are
those of ``orc_proto.proto``.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cramjam

Message = dict[int, list[Any]]

BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, STRING, BINARY = range(9)
TIMESTAMP, LIST, MAP, STRUCT, UNION, DECIMAL, DATE, VARCHAR, CHAR, TIMESTAMP_INSTANT = range(9, 19)

PRESENT, DATA, LENGTH, DICTIONARY_DATA, DICTIONARY_COUNT, SECONDARY, ROW_INDEX, BLOOM, BLOOM_UTF8 = range(9)
INDEX_STREAMS = (ROW_INDEX, BLOOM, BLOOM_UTF8)


class Fixed64(bytes):
    """Eight bytes that are written as a fixed-width field."""


class BadOrcError(Exception):
    """The container cannot be parsed."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, next offset) of a base-128 varint."""
    value = shift = 0
    while True:
        if at >= len(data):
            raise BadOrcError("a varint runs past the end")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def parse(data: bytes) -> Message:
    """One protobuf message."""
    message: Message = {}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        wire = tag & 7
        value: Any
        if wire == 0:
            value, at = varint(data, at)
        else:
            if wire == 2:
                size, at = varint(data, at)
            elif wire in (1, 5):
                size = 8 if wire == 1 else 4
            else:
                raise BadOrcError(f"wire type {wire}")
            if at + size > len(data):
                raise BadOrcError("a field runs past the end")
            value, at = data[at : at + size], at + size
            if wire == 1:
                value = Fixed64(value)
        message.setdefault(tag >> 3, []).append(value)
    return message


def one(message: Message, number: int, default: Any = None) -> Any:
    """The (last) value of a field, or the default."""
    return message[number][-1] if number in message else default


def signed(value: int) -> int:
    """Undo zigzag."""
    return (value >> 1) ^ -(value & 1)


def double(raw: bytes) -> float:
    """A protobuf double."""
    return float(struct.unpack("<d", raw)[0])


def packed(values: list[Any]) -> list[int]:
    """A repeated integer field, packed or not."""
    found: list[int] = []
    for value in values:
        if isinstance(value, int):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = varint(value, at)
            found.append(number)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """One type of the tree; ``children`` are column ids."""

    column: int
    kind: int
    children: tuple[int, ...]
    names: tuple[str, ...]
    max_length: int
    precision: int
    scale: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One stream of a stripe and where it lies in the file."""

    kind: int
    column: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stripe:
    """One stripe with its parsed footer. ``row_index``: column -> entries (message RowIndexEntry)."""

    number: int
    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int
    streams: tuple[Stream, ...]
    encodings: tuple[Message, ...]
    timezone: str
    row_index: dict[int, list[Message]]

    def stream(self, column: int, kind: int) -> Stream | None:
        return next((s for s in self.streams if s.column == column and s.kind == kind), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcFile:
    """A whole tail."""

    data: bytes
    compression: int
    block: int
    postscript: Message
    footer: Message
    metadata: Message
    types: tuple[Type, ...]
    stripes: tuple[Stripe, ...]
    stride: int
    rows: int
    user: dict[str, bytes]
    tail_lengths: tuple[int, int, int]

    def stripe_statistics(self, number: int) -> list[Message]:
        """Statistics of every column in one stripe; empty if the file has none."""
        entries = self.metadata.get(1, [])
        return [parse(raw) for raw in parse(entries[number]).get(1, [])] if number < len(entries) else []

    def file_statistics(self) -> list[Message]:
        return [parse(raw) for raw in self.footer.get(7, [])]

    def stream_bytes(self, stream: Stream) -> bytes:
        """A stream without its compression."""
        return inflate(self.data[stream.offset : stream.offset + stream.length], self.compression, self.block)


def _chunk(kind: int, chunk: bytes, block: int) -> bytes:
    if kind == 1:
        return zlib.decompress(chunk, -15)
    if kind == 2:
        return bytes(cramjam.snappy.decompress_raw(chunk))
    if kind == 4:
        out = cramjam.Buffer(bytes(block))
        size = cramjam.lz4.decompress_block_into(chunk, out)
        return bytes(out)[:size]
    if kind == 5:
        return bytes(cramjam.zstd.decompress(chunk))
    raise BadOrcError(f"compression {kind}")


def inflate(data: bytes, kind: int, block: int) -> bytes:
    """Undo the compression chunks of a stream or message (kind NONE: the data themselves)."""
    if kind == 0:
        return data
    at, parts = 0, []
    while at < len(data):
        header = int.from_bytes(data[at : at + 3], "little")
        at, size = at + 3, header >> 1
        if at + size > len(data):
            raise BadOrcError("a chunk runs past the end")
        chunk = data[at : at + size]
        parts.append(chunk if header & 1 else _chunk(kind, chunk, block))
        if len(parts[-1]) > block:
            raise BadOrcError(f"a chunk of {len(parts[-1])} bytes in a file with blocks of {block}")
        at += size
    return b"".join(parts)


def stored(data: bytes, kind: int, block: int) -> bytes:
    """The inverse of ``inflate``, storing every chunk as it is."""
    if kind == 0:
        return data
    pieces = [data[at : at + block] for at in range(0, len(data), block)]
    return b"".join((len(p) << 1 | 1).to_bytes(3, "little") + p for p in pieces)


def encode_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode(message: Message) -> bytes:
    """A message again as bytes: fields in order of their first appearance."""
    out = bytearray()
    for number, values in message.items():
        for value in values:
            if isinstance(value, int):
                out += encode_varint(number << 3) + encode_varint(value)
            else:
                fixed = number << 3 | (1 if isinstance(value, Fixed64) else 2)
                out += encode_varint(fixed) + (b"" if isinstance(value, Fixed64) else encode_varint(len(value))) + value
    return bytes(out)


def _types(footer: Message) -> tuple[Type, ...]:
    found = []
    for column, raw in enumerate(footer.get(4, [])):
        message = parse(raw)
        found.append(
            Type(
                column=column,
                kind=one(message, 1, 0),
                children=tuple(packed(message.get(2, []))),
                names=tuple(name.decode() for name in message.get(3, [])),
                max_length=one(message, 4, 0),
                precision=one(message, 5, 0),
                scale=one(message, 6, 0),
            )
        )
    return tuple(found)


def _stripe(data: bytes, number: int, raw: bytes, kind: int, block: int) -> Stripe:
    info = parse(raw)
    offset, index, length, footer_length, rows = (one(info, n, 0) for n in (1, 2, 3, 4, 5))
    start = offset + index + length
    footer = parse(inflate(data[start : start + footer_length], kind, block))
    streams: list[Stream] = []
    at = offset
    row_index: dict[int, list[Message]] = {}
    for raw_stream in footer.get(1, []):
        message = parse(raw_stream)
        stream = Stream(kind=one(message, 1, 0), column=one(message, 2, 0), offset=at, length=one(message, 3, 0))
        streams.append(stream)
        at += stream.length
        if stream.kind == ROW_INDEX:
            entries = parse(inflate(data[stream.offset : at], kind, block)).get(1, [])
            row_index[stream.column] = [parse(entry) for entry in entries]
    return Stripe(
        number=number,
        offset=offset,
        index_length=index,
        data_length=length,
        footer_length=footer_length,
        rows=rows,
        streams=tuple(streams),
        encodings=tuple(parse(e) for e in footer.get(2, [])),
        timezone=one(footer, 3, b"").decode(),
        row_index=row_index,
    )


def read_orc(path: Path | bytes) -> OrcFile:
    """Parse a file (or its bytes) from the end."""
    data = path.read_bytes() if isinstance(path, Path) else path
    if len(data) < 4 or data[:3] != b"ORC":
        raise BadOrcError("no ORC header")
    size = data[-1]
    postscript = parse(data[-1 - size : -1])
    if one(postscript, 8000) != b"ORC":
        raise BadOrcError("no magic in the postscript")
    kind, block = one(postscript, 2, 0), one(postscript, 3, 1 << 18)
    footer_length, metadata_length = one(postscript, 1, 0), one(postscript, 5, 0)
    end = len(data) - 1 - size
    footer = parse(inflate(data[end - footer_length : end], kind, block))
    metadata_end = end - footer_length
    metadata = parse(inflate(data[metadata_end - metadata_length : metadata_end], kind, block))
    user = {one(m, 1).decode(): one(m, 2, b"") for m in map(parse, footer.get(5, []))}
    return OrcFile(
        data=data,
        compression=kind,
        block=block,
        postscript=postscript,
        footer=footer,
        metadata=metadata,
        types=_types(footer),
        stripes=tuple(_stripe(data, n, raw, kind, block) for n, raw in enumerate(footer.get(3, []))),
        stride=one(footer, 8, 0),
        rows=one(footer, 6, 0),
        user=user,
        tail_lengths=(metadata_length, footer_length, size),
    )


def with_tail(orc: OrcFile, footer: Message, metadata: Message | None = None) -> bytes:
    """The file under another footer (and metadata); stripes stay as they are."""
    metadata_length, footer_length, size = orc.tail_lengths
    body = orc.data[: len(orc.data) - 1 - size - footer_length - metadata_length]
    new_footer = stored(encode(footer), orc.compression, orc.block)
    new_metadata = stored(encode(orc.metadata if metadata is None else metadata), orc.compression, orc.block)
    postscript = encode({**orc.postscript, 1: [len(new_footer)], 5: [len(new_metadata)]})
    return body + new_metadata + new_footer + postscript + bytes([len(postscript)])
