"""Compressed streams: chunks with headers of three bytes. Source: ORC specification, Compression."""

from collections.abc import Callable, Iterator
from typing import Any, cast

import cramjam
import numpy as np
from isal import igzip_lib, isal_zlib

from acidlib.errors import CorruptError, RefusedError
from acidlib.memory import Memory
from acidlib.orc.kernels.jit import Bytes, Longs
from acidlib.orc.proto import Compression

_HEADER = 3
_MAX_CHUNK_BYTES = (1 << 23) - 1
_DEFLATE_LEVEL = 1
_ZSTD_LEVEL = 3
# The ratio of a stream to its compressed bytes that is assumed until it proves larger.
_USUAL_RATIO = 4
_DAMAGE: tuple[type[Exception], ...] = (
    ValueError,
    EOFError,
    cast(type[Exception], cramjam.DecompressionError),
    cast(type[Exception], igzip_lib.IsalError),
)


def decompress(
    buf: bytes | bytearray | memoryview | Bytes,
    codec: Compression,
    block_size: int,
    *,
    name: str,
    memory: Memory,
    weight: int = 1,
    damage: list[CorruptError] | None = None,
) -> Bytes:
    """Return all bytes of a stream, which errors call by its `name`.

    weight  bytes of memory that one byte of the stream takes
    damage  takes the CorruptError instead, so that the bytes before the damage are returned

    Raises CorruptError if a chunk is cut, damaged, or larger than block_size (in bytes, before compression),
    RefusedError for a codec that is not supported, and as soon as the stream takes more than the memory.
    """
    if codec == Compression.NONE:
        memory.require(weight * len(buf), name)
        return np.frombuffer(buf, dtype=np.uint8)
    if codec not in _INFLATE:
        raise RefusedError(f"Cannot read {name}: compression {Compression(codec).name} is not supported")
    view = np.frombuffer(buf, dtype=np.uint8).data
    out = np.empty(_USUAL_RATIO * len(view) + block_size, dtype=np.uint8)
    done = 0
    try:
        for start, end, original in _chunks(view, name):
            if len(out) - done < block_size:
                larger = np.empty(2 * len(out) + block_size, dtype=np.uint8)
                larger[:done] = out[:done]
                out = larger
            try:
                if original:
                    size = _copy(view[start:end], out[done : done + block_size])
                else:
                    size = int(_INFLATE[codec](view[start:end], out[done : done + block_size]))
            except _DAMAGE as problem:
                raise CorruptError(
                    f"Cannot read {name}: its chunk at byte {start - _HEADER} is damaged ({problem})"
                ) from problem
            done += size
            memory.require(weight * done, name)
    except CorruptError as error:
        if damage is None:
            raise
        damage.append(error)
    # a small stream must not hold memory for a whole block
    return out[:done] if _USUAL_RATIO * done > len(out) else out[:done].copy()


def _chunks(view: memoryview, name: str) -> Iterator[tuple[int, int, bool]]:
    """Yield start and end of the contents of each chunk, and whether they are stored uncompressed."""
    pos = 0
    while pos < len(view):
        if len(view) - pos < _HEADER:
            raise CorruptError(f"Cannot read {name}: it ends within the chunk header at byte {pos}")
        header = int.from_bytes(view[pos : pos + _HEADER], "little")
        end = pos + _HEADER + (header >> 1)
        if end > len(view):
            raise CorruptError(f"Cannot read {name}: it ends within the chunk at byte {pos}")
        yield pos + _HEADER, end, bool(header & 1)
        pos = end


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


_INFLATE: dict[Compression, Callable[[memoryview, Bytes], Any]] = {
    Compression.ZLIB: _inflate_zlib,
    Compression.SNAPPY: lambda chunk, out: cramjam.snappy.decompress_raw_into(chunk, out.data),
    Compression.LZ4: lambda chunk, out: cramjam.lz4.decompress_block_into(chunk, out.data, output_len=len(out)),
    Compression.ZSTD: lambda chunk, out: cramjam.zstd.decompress_into(chunk, out.data),
}
_DEFLATE: dict[Compression, Callable[[memoryview], Any]] = {
    Compression.ZLIB: lambda block: isal_zlib.compress(block, _DEFLATE_LEVEL, -15),
    Compression.SNAPPY: cramjam.snappy.compress_raw,
    Compression.LZ4: lambda block: cramjam.lz4.compress_block(block, store_size=False),
    Compression.ZSTD: lambda block: cramjam.zstd.compress(block, level=_ZSTD_LEVEL),
}


def compress(data: Bytes | bytes, codec: Compression, block_size: int) -> tuple[bytes | memoryview, Longs | None]:
    """Return a stream as it lies in a file, and the offsets of its chunk headers; None for these without a codec.

    Chunks hold block_size bytes each but the last; a chunk that would not shrink is stored uncompressed.
    Raises RefusedError for a codec that is not supported, ValueError for a block size that a chunk header cannot hold.
    """
    view = np.frombuffer(data, dtype=np.uint8).data
    if codec == Compression.NONE:
        return view, None
    if codec not in _DEFLATE:
        raise RefusedError(f"Cannot write a file: compression {Compression(codec).name} is not supported")
    if not 0 < block_size <= _MAX_CHUNK_BYTES:
        raise ValueError(f"block size {block_size} is not within 1..{_MAX_CHUNK_BYTES}")
    pieces: list[bytes | memoryview] = []
    sizes = []
    for start in range(0, len(view), block_size):
        block = view[start : start + block_size]
        packed = bytes(_DEFLATE[codec](block))
        chunk, original = (packed, 0) if len(packed) < len(block) else (block, 1)
        pieces += ((len(chunk) << 1 | original).to_bytes(_HEADER, "little"), chunk)
        sizes.append(_HEADER + len(chunk))
    return b"".join(pieces), np.cumsum([0, *sizes], dtype=np.int64)[:-1]


def positions_in(chunks: Longs | None, length: int, block_size: int, offsets: Longs) -> tuple[Longs, ...]:
    """Return the numbers that a row index records for offsets in a stream of `length` bytes before compression.

    There is one array for each number. With a codec these are the offset of the chunk's header, by `compress`, and the
    offset within the chunk before compression; without a codec the offset alone. A position at the end of the stream is
    moved before it: a row group there reads nothing, but readers seek to it. Java's reader has only the bytes of the
    row groups that it selected, and fails to seek to the end of a stream (InStream.seek); Trino's refuses a chunk that
    begins there.
    """
    if chunks is None:
        return (np.minimum(offsets, max(length - 1, 0)),)
    if not length:
        return offsets, offsets
    numbers = np.minimum(offsets // block_size, len(chunks) - 1)
    return chunks[numbers], offsets - numbers * block_size
