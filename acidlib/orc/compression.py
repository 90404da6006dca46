"""Compressed streams: chunks with headers of three bytes. Source: ORC specification, Compression."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import cramjam
import numpy as np
from isal import igzip_lib, isal_zlib

from acidlib.errors import CorruptError, RefusedError
from acidlib.orc.kernels.jit import Bytes, Longs, kernel_bytes, kernel_longs
from acidlib.orc.proto import Compression

_HEADER = 3
_MOST_IN_CHUNK = (1 << 23) - 1
_DEFLATE_LEVEL = 1
_ZSTD_LEVEL = 3
# How much larger than its input a stream is taken to be before it has shown more.
_USUAL_RATIO = 4
_DAMAGE: tuple[type[Exception], ...] = (
    ValueError,
    EOFError,
    cast(type[Exception], cramjam.DecompressionError),
    cast(type[Exception], igzip_lib.IsalError),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compressed:
    """A stream as it lies in a file.

    Chunk i stands for the bytes [i * block_size, (i + 1) * block_size) of the `length` bytes of the stream;
    `chunk_offsets` has the offset of its header in `data`. Without a codec there are no chunks.
    """

    data: bytes | memoryview
    kind: Compression
    block_size: int
    length: int
    chunk_offsets: Longs


def check_supported(kind: int, *, what: str) -> Compression:
    """The codec of this number. Raises RefusedError for LZO and BROTLI, CorruptError for an unknown number."""
    try:
        known = kind if isinstance(kind, Compression) else Compression(kind)
    except ValueError:
        raise CorruptError(f"Cannot read {what}: because there is no compression kind {kind}") from None
    if known in (Compression.LZO, Compression.BROTLI):
        raise RefusedError(f"Cannot read {what}: because compression {known.name} is not supported")
    return known


def decompress(buf: bytes | bytearray | memoryview | Bytes, kind: int, block_size: int, *, what: str) -> Bytes:
    """All bytes of a stream. `what` names the stream in errors (file, stripe, column, kind).

    Memory is bounded by block_size for each chunk. Raises CorruptError if a chunk is cut, damaged, or larger than
    block_size (in bytes, before compression), RefusedError as check_supported does.
    """
    codec = check_supported(kind, what=what)
    if codec is Compression.NONE or not len(buf):
        return kernel_bytes(buf)
    view = np.frombuffer(buf, dtype=np.uint8).data
    chunks = _chunks(view, what)
    out = np.empty(min(len(chunks) * block_size, _USUAL_RATIO * len(view) + block_size), dtype=np.uint8)
    done = 0
    for start, end, original in chunks:
        if len(out) - done < block_size:
            out = _larger(out, done, min(len(chunks) * block_size, 2 * len(out) + block_size))
        try:
            if original:
                size = _copy(view[start:end], out[done : done + block_size])
            else:
                size = _INFLATE[codec](view[start:end], out[done : done + block_size])
        except _DAMAGE as problem:
            raise CorruptError(
                f"Cannot read {what}: because its chunk at byte {start - _HEADER} is damaged ({problem})"
            ) from problem
        done += size
    # what is kept of a small stream is not to keep the room for a whole block
    return out[:done] if _USUAL_RATIO * done > len(out) else out[:done].copy()


def _larger(out: Bytes, done: int, size: int) -> Bytes:
    larger = np.empty(size, dtype=np.uint8)
    larger[:done] = out[:done]
    return larger


def _chunks(view: memoryview, what: str) -> list[tuple[int, int, bool]]:
    """Start and end of each chunk's contents, and whether it is stored as it is."""
    chunks = []
    pos = 0
    while pos < len(view):
        if len(view) - pos < _HEADER:
            raise CorruptError(f"Cannot read {what}: because it ends within the chunk header at byte {pos}")
        header = int.from_bytes(view[pos : pos + _HEADER], "little")
        end = pos + _HEADER + (header >> 1)
        if end > len(view):
            raise CorruptError(f"Cannot read {what}: because it ends within the chunk at byte {pos}")
        chunks.append((pos + _HEADER, end, bool(header & 1)))
        pos = end
    return chunks


def _copy(chunk: memoryview, out: Bytes) -> int:
    if len(chunk) > len(out):
        raise ValueError(f"more than {len(out)} bytes")
    out.data[: len(chunk)] = chunk
    return len(chunk)


def _inflate_zlib(chunk: memoryview, out: Bytes) -> int:
    stream = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE)
    plain = stream.decompress(chunk, max_length=len(out) + 1)
    if len(plain) > len(out):
        raise ValueError(f"more than {len(out)} bytes")
    if not stream.eof:
        raise ValueError("incomplete stream")
    if stream.unused_data:
        raise ValueError(f"{len(stream.unused_data)} bytes follow the end")
    return _copy(memoryview(plain), out)


def _inflate_snappy(chunk: memoryview, out: Bytes) -> int:
    return int(cramjam.snappy.decompress_raw_into(chunk, out.data))


def _inflate_lz4(chunk: memoryview, out: Bytes) -> int:
    return int(cramjam.lz4.decompress_block_into(chunk, out.data, output_len=len(out)))


def _inflate_zstd(chunk: memoryview, out: Bytes) -> int:
    return int(cramjam.zstd.decompress_into(chunk, out.data))


_INFLATE: dict[Compression, Callable[[memoryview, Bytes], int]] = {
    Compression.ZLIB: _inflate_zlib,
    Compression.SNAPPY: _inflate_snappy,
    Compression.LZ4: _inflate_lz4,
    Compression.ZSTD: _inflate_zstd,
}


def _deflate(codec: Compression, block: memoryview) -> bytes:
    if codec is Compression.ZLIB:
        return bytes(isal_zlib.compress(block, _DEFLATE_LEVEL, -15))
    if codec is Compression.SNAPPY:
        return bytes(cramjam.snappy.compress_raw(block))
    if codec is Compression.LZ4:
        return bytes(cramjam.lz4.compress_block(block, store_size=False))
    return bytes(cramjam.zstd.compress(block, level=_ZSTD_LEVEL))


def compress(data: Bytes, kind: int, block_size: int) -> Compressed:
    """The stream in chunks of block_size bytes each but the last; a chunk that would not shrink is stored as it is.

    Raises RefusedError as check_supported does, ValueError for a block size that a chunk header cannot hold.
    """
    codec = check_supported(kind, what="the codec to write")
    plain = kernel_bytes(data)
    none = np.empty(0, dtype=np.int64)
    if codec is Compression.NONE:
        return Compressed(data=plain.data, kind=codec, block_size=block_size, length=len(plain), chunk_offsets=none)
    if not 0 < block_size <= _MOST_IN_CHUNK:
        raise ValueError(f"block size {block_size} is not within 1..{_MOST_IN_CHUNK}")
    view = plain.data
    pieces: list[bytes | memoryview] = []
    sizes = []
    for start in range(0, len(view), block_size):
        block = view[start : start + block_size]
        packed = _deflate(codec, block)
        chunk, original = (packed, 0) if len(packed) < len(block) else (block, 1)
        pieces += ((len(chunk) << 1 | original).to_bytes(_HEADER, "little"), chunk)
        sizes.append(_HEADER + len(chunk))
    offsets = np.cumsum([0, *sizes], dtype=np.int64)[:-1]
    return Compressed(
        data=b"".join(pieces), kind=codec, block_size=block_size, length=len(plain), chunk_offsets=offsets
    )


def position(compressed: Compressed, offsets: Longs) -> tuple[Longs, ...]:
    """The numbers a row index records for bytes of the uncompressed stream, one array for each number.

    With a codec: the offset of the chunk's header, and the offset within the chunk before compression. Without: the
    offset alone. The end of the stream, at the edge of a chunk, is (length of the compressed stream, 0).
    Raises ValueError for an offset outside of 0..length.
    """
    wanted = kernel_longs(offsets)
    if len(wanted) and (wanted.min() < 0 or wanted.max() > compressed.length):
        raise ValueError(f"an offset is not within 0..{compressed.length}")
    if compressed.kind is Compression.NONE:
        return (wanted,)
    starts = np.append(compressed.chunk_offsets, len(compressed.data))
    return starts[wanted // compressed.block_size], wanted % compressed.block_size
