"""Run-length streams of bytes and bits; packed bits, varints and big-endian numbers for other run-length streams.

Source: ORC specification, Byte and Boolean Run Length Encoding, Run Length Encoding.
"""

from dataclasses import replace
from typing import TypeAlias

import numpy as np

from acidlib.errors import CorruptError
from acidlib.orc.kernels.jit import Bytes, Longs, bit_length, byte_at, entry, kernel, store_word
from acidlib.orc.kernels.vectors import Encoded, note_marks

OK, TRUNCATED, TOO_MANY, TRAILING = range(4)
REASONS = {
    TRUNCATED: "the stream ends before the last value",
    TOO_MANY: "a run holds more values than are left",
    TRAILING: "bytes follow the last value",
}
_SURPLUS = frozenset({TOO_MANY, TRAILING})
_MIN_RUN, _MAX_RUN, _MAX_LITERALS = 3, 130, 128
MAX_RUN_PER_BYTE = _MAX_RUN // 2
"""Values that a byte of a stream can stand for."""


Surplus: TypeAlias = list[str]
"""Takes the reasons for which a stream that holds more than its values would be damaged."""


def report(code: int, message: str, surplus: Surplus | None) -> None:
    """Raise CorruptError with the message for what a decoder found.

    surplus  takes the message instead where the stream holds all its values, and more
    """
    if surplus is None or code not in _SURPLUS:
        raise CorruptError(message)
    surplus.append(message)


def decode_bytes(buf: Bytes, count: int, surplus: Surplus | None = None) -> Bytes:
    """Return the first `count` values of an uncompressed byte stream.

    Raises CorruptError unless it holds so many; without `surplus` also if it holds more.
    """
    if count < 0 or count > MAX_RUN_PER_BYTE * len(buf):
        raise CorruptError(f"Cannot decode bytes: {len(buf)} bytes cannot hold {count} values")
    # a run is decoded as a whole, and the last one may go beyond the values
    out = np.empty(count + _MAX_RUN - 1, dtype=np.uint8)
    code, at = _decode(buf, out)
    if code != OK:
        place = f"(run at byte {at} of {len(buf)}, {count} values wanted)"
        report(code, f"Cannot decode bytes: {REASONS[code]} {place}", surplus)
    return out[:count]


@entry
def _decode(buf: Bytes, out: Bytes) -> tuple[int, int]:
    count = len(out) - (_MAX_RUN - 1)
    pos = 0
    done = 0
    at = 0
    while done < count:
        at = pos
        if pos + 1 >= len(buf):
            return TRUNCATED, at
        control = byte_at(buf, pos)
        length = control + _MIN_RUN if control < 0x80 else 0x100 - control
        pos += 1
        if control < 0x80:
            out[done : done + length] = buf[pos]
            pos += 1
        else:
            if length > len(buf) - pos:
                return TRUNCATED, at
            for i in range(length):
                out[done + i] = buf[pos + i]
            pos += length
        done += length
    if pos < len(buf):
        return TRAILING, pos
    return (OK if done == count else TOO_MANY), at


def encode_bytes(values: Bytes, marks: Longs) -> Encoded:
    """Return the values as an uncompressed byte stream, with a position for each mark (a sorted value index, 0..len).

    Runs and literals are those of Java's RunLengthByteWriter, except for a repetition at a full list of literals.
    """
    return Encoded(*_encode(values, marks))


@entry
def _encode(values: Bytes, marks: Longs) -> tuple[Bytes, Longs, Longs]:
    out = np.empty(len(values) + (len(values) >> 1) + 2, dtype=np.uint8)
    offsets = np.empty_like(marks)
    skips = np.zeros_like(marks)
    start = 0
    pos = 0
    mark = 0
    while start < len(values):
        at = pos
        limit = min(len(values), start + _MAX_RUN)
        end = start + 1
        while end < limit and values[end] == values[start]:
            end += 1
        if end - start >= _MIN_RUN:
            out[pos] = end - start - _MIN_RUN
            out[pos + 1] = values[start]
            pos += 2
        else:
            # literals up to the next run of three
            limit = min(len(values), start + _MAX_LITERALS)
            end = start + 1
            while end < limit and not (
                end + 2 < len(values) and values[end] == values[end + 1] and values[end] == values[end + 2]
            ):
                end += 1
            out[pos] = 0x100 - (end - start)
            for i in range(end - start):
                out[pos + 1 + i] = values[start + i]
            pos += 1 + end - start
        mark = note_marks(marks, mark, start, end, at, offsets, skips)
        start = end
    offsets[mark:] = pos
    return out[:pos], offsets, skips


def decode_bits(buf: Bytes, count: int, surplus: Surplus | None = None) -> Bytes:
    """Return the first `count` values of an uncompressed bit stream as 0 or 1. The bits that fill a byte are ignored.

    Raises CorruptError unless the stream holds as many bytes as these bits need; without `surplus` also if it holds
    more.
    """
    data = decode_bytes(buf, -(-count // 8) if count > 0 else count, surplus)
    return np.unpackbits(data, count=count)


def encode_bits(bits: Bytes, marks: Longs) -> Encoded:
    """Return the bits (0 or 1 each) as an uncompressed bit stream, with a position for each mark (a bit index)."""
    return replace(encode_bytes(np.packbits(bits), marks >> 3), bits=marks & 7)


@kernel
def zigzag(value: int) -> int:
    """Return the pattern with the sign in its lowest bit."""
    return (value << 1) ^ (value >> 63)


@kernel
def width_code(width: int) -> int:
    """Return the five-bit code of a bit width (1..24, 26, 28, 30, 32, 40, 48, 56, 64)."""
    if width <= 24:
        return width - 1
    if width <= 32:
        return 12 + width // 2 - 1
    return 23 + width // 8


@kernel
def varint_size(pattern: int) -> int:
    """Return the bytes of an unsigned varint."""
    return (max(bit_length(pattern), 1) + 6) // 7


@kernel
def big_endian_size(pattern: int) -> int:
    """Return the bytes of a big-endian number, at least one."""
    return (max(bit_length(pattern), 1) + 7) // 8


@kernel
def write_varint(out: Bytes, pos: int, pattern: int) -> int:
    """Write an unsigned varint and return the position behind it."""
    while pattern & ~0x7F:
        out[pos] = (pattern & 0x7F) | 0x80
        pattern = (pattern >> 7) & 0x01FFFFFFFFFFFFFF
        pos += 1
    out[pos] = pattern
    return pos + 1


@kernel
def write_big_endian(out: Bytes, pos: int, pattern: int, size: int) -> int:
    """Write the lowest bytes of a number and return the position behind them."""
    for i in range(size):
        out[pos + i] = (pattern >> (8 * (size - 1 - i))) & 0xFF
    return pos + size


@kernel
def pack_bits(out: Bytes, pos: int, patterns: Longs, length: int, width: int) -> int:
    """Pack patterns of a bit width, padded to a byte, and return the position behind them."""
    done = 0
    if 64 % width == 0:
        share = 64 // width
        done = length - length % share
        for i in range(0, done, share):
            word = patterns[i]
            for k in range(i + 1, i + share):
                word = word << width | patterns[k]
            store_word(out, pos, np.uint64(word))
            pos += 8
    elif width & 7 == 0 and pos + (width >> 3) * length + 8 <= len(out):
        # the bytes written after a value are overwritten by the next value
        for i in range(length):
            store_word(out, pos, np.uint64(patterns[i]) << np.uint64(64 - width))
            pos += width >> 3
        return pos
    # widths are below 57 bits here, so that `held` has fewer than 64
    held = 0
    bits = 0
    for i in range(done, length):
        held = held << width | patterns[i]
        bits += width
        while bits >= 8:
            bits -= 8
            out[pos] = (held >> bits) & 0xFF
            pos += 1
    if bits:
        out[pos] = (held << (8 - bits)) & 0xFF
        pos += 1
    return pos
