"""What lies outside the pages of a column chunk and is found by its offset: page indexes and bloom filters."""

from __future__ import annotations

from typing import cast

from acidlib.errors import CorruptError, RefusedError
from acidlib.orc.source import ByteSource
from acidlib.parquet import shapes
from acidlib.parquet.footer import Chunk, Footer, Region
from acidlib.parquet.shapes import Metadata
from acidlib.parquet.thrift_compact import DamageError, Decoded, Shape, Struct, decode, encode

_MOST_HEADER = 256
"""Bytes of a bloom filter's header; today it has less than 20. Only the header itself has its length."""


def bloom_filter(source: ByteSource, footer: Footer, chunk: Chunk) -> Region:
    """The header and bitset of a chunk's bloom filter (BloomFilter.md). CorruptError when they are not there.

    The length is the header's, by which every reader reads; `bloom_filter_length` is younger than bloom filters, and
    has to be the same where it is given.
    """
    if not chunk.bloom_filter:
        return Region()
    where = f"the bloom filter at {chunk.bloom_filter} of {source.name}"
    limit = footer.data_end - chunk.bloom_filter
    try:
        header = decode(source.read(chunk.bloom_filter, min(_MOST_HEADER, limit)), shapes.BLOOM_FILTER_HEADER)
    except DamageError as damage:
        raise CorruptError(f"Cannot read {where}: because {damage}") from None
    bits = cast(int, header.struct[shapes.BITSET_SIZE])
    size = header.length + bits
    stated = cast(int, chunk.metadata.get(Metadata.BLOOM_FILTER_LENGTH, size))
    if bits <= 0 or size > limit or size != stated:
        raise CorruptError(
            f"Cannot read {where}: because it has {bits} bytes of bits, and {stated} bytes by the footer"
        )
    return Region(start=chunk.bloom_filter, size=size)


def moved_offset_index(source: ByteSource, chunk: Chunk, shift: int) -> bytes:
    """A chunk's offset index for its pages `shift` bytes further on. The pages have to lie in the chunk: CorruptError.

    RefusedError for one with fields that this version does not know: they could hold places in the file.
    """
    where = f"the offset index at {chunk.offset_index.start} of {source.name}"
    data = source.read(chunk.offset_index.start, chunk.offset_index.size)
    index = _decode_whole(data, shapes.OFFSET_INDEX, where)
    if index.unknown:
        raise RefusedError(f"Cannot read {where}: because this version does not know {', '.join(index.unknown)}")
    pages = []
    for page in cast("list[Struct]", index.struct[shapes.PAGE_LOCATIONS]):
        offset, size = cast(int, page[shapes.PAGE_OFFSET]), cast(int, page[shapes.PAGE_SIZE])
        if offset < chunk.pages.start or size <= 0 or offset + size > chunk.pages.end:
            raise CorruptError(
                f"Cannot read {where}: because a page of {size} bytes at {offset} does not lie in the column's pages"
            )
        pages.append({**page, shapes.PAGE_OFFSET: offset + shift})
    return encode({**index.struct, shapes.PAGE_LOCATIONS: pages}, shapes.OFFSET_INDEX)


def _decode_whole(data: bytes, shape: Shape, where: str) -> Decoded:
    try:
        decoded = decode(data, shape)
    except DamageError as damage:
        raise CorruptError(f"Cannot read {where}: because {damage}") from None
    if decoded.length != len(data):
        raise CorruptError(f"Cannot read {where}: because {len(data) - decoded.length} bytes follow it")
    return decoded
