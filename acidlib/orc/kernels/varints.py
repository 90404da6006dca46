"""Unbounded varints of decimals. Source: ORC specification, Decimal Columns, and Base 128 Varint."""

import numpy as np

from acidlib.errors import CorruptError
from acidlib.orc.kernels.bytes_bits import (
    OK,
    REASONS,
    TRAILING,
    TRUNCATED,
    Surplus,
    report,
    varint_size,
    write_varint,
    zigzag,
)
from acidlib.orc.kernels.ints import unzigzag
from acidlib.orc.kernels.jit import (
    Bytes,
    Longs,
    bit_length,
    byte_at,
    entry,
    load_word,
    store_word,
    swapped,
)
from acidlib.orc.kernels.vectors import Encoded, note_marks

_TOO_WIDE = 4
_REASONS = {**REASONS, _TOO_WIDE: "a value has more than 128 bits"}
_MAX_BYTES = 19
# Masks of the payload bits in eight bytes of varints, and of neighbours that are drawn together or apart.
_ONE, _TWO, _FOUR = np.uint64(1), np.uint64(2), np.uint64(4)
_HIGH_BITS, _LOW_BITS = np.uint64(0x8080808080808080), np.uint64(0x7F7F7F7F7F7F7F7F)
_LOW_7, _HIGH_7 = np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00)
_LOW_14, _HIGH_14 = np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000)
_LOW_28, _HIGH_28 = np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000)


def decode_varints(buf: Bytes, count: int, surplus: Surplus | None = None) -> tuple[Longs, Longs | None]:
    """Return the first `count` values of an uncompressed stream of zigzag varints, as (low, high).

    A value is the two's complement of 128 bits: `low` has its lower 64 as a bit pattern, `high` the upper. `high` is
    None where every value fits in 64 bits. Raises CorruptError unless the stream holds so many, or if one has more than
    128 bits; without `surplus` also if more follow.
    """
    if count < 0 or count > len(buf):
        raise CorruptError(f"Cannot decode varints: {len(buf)} bytes cannot hold {count} values")
    low, high = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    code, at, is_wide = _decode(buf, low, high)
    if code != OK:
        place = f"(value at byte {at} of {len(buf)}, {count} wanted)"
        report(code, f"Cannot decode varints: {_REASONS[code]} {place}", surplus)
    return low, high if is_wide else None


@entry
def _decode(buf: Bytes, low: Longs, high: Longs) -> tuple[int, int, bool]:
    """Return a code, the position it refers to, and whether a value needs `high`, which is filled in only then."""
    pos = 0
    is_wide = False
    for i in range(len(low)):
        at = pos
        if pos + 8 <= len(buf):
            word = swapped(load_word(buf, pos))
            ends = ~word & _HIGH_BITS
            if ends:
                # the bits up to the first byte that ends a varint; pairs of seven bits are drawn together
                word &= (ends ^ (ends - _ONE)) & _LOW_BITS
                word = (word & _LOW_7) | ((word & _HIGH_7) >> _ONE)
                word = (word & _LOW_14) | ((word & _HIGH_14) >> _TWO)
                word = (word & _LOW_28) | ((word & _HIGH_28) >> _FOUR)
                low[i] = unzigzag(int(np.int64(word)))
                if is_wide:
                    high[i] = low[i] >> 63
                pos += (bit_length(int(np.int64(ends & (~ends + _ONE)))) + 7) >> 3
                continue
        lower = 0
        upper = 0
        shift = 0
        while True:
            if pos >= len(buf):
                return TRUNCATED, at, is_wide
            byte = byte_at(buf, pos)
            pos += 1
            payload = byte & 0x7F
            if shift < 63:
                lower |= payload << shift
            elif shift == 63:
                lower |= payload << 63
                upper = payload >> 1
            elif shift < 126 or (shift == 126 and byte <= 3):
                upper |= payload << (shift - 64)
            else:
                return _TOO_WIDE, at, is_wide
            if byte < 0x80:
                break
            shift += 7
        sign = -(lower & 1)
        low[i] = (((lower >> 1) & 0x7FFFFFFFFFFFFFFF) | (upper & 1) << 63) ^ sign
        top = ((upper >> 1) & 0x7FFFFFFFFFFFFFFF) ^ sign
        if not is_wide and top != low[i] >> 63:
            is_wide = True
            for k in range(i):
                high[k] = low[k] >> 63
        if is_wide:
            high[i] = top
    return (OK if pos == len(buf) else TRAILING), pos, is_wide


def encode_varints(low: Longs, high: Longs | None, marks: Longs) -> Encoded:
    """Return values in the form of decode_varints as an uncompressed stream of zigzag varints.

    A mark's offset is that of its value; all skips are 0.
    """
    return Encoded(*_encode(low, low >> 63 if high is None else high, marks))


@entry
def _encode(low: Longs, high: Longs, marks: Longs) -> tuple[Bytes, Longs, Longs]:
    out = np.empty(_MAX_BYTES * len(low), dtype=np.uint8)
    offsets = np.empty_like(marks)
    skips = np.zeros_like(marks)
    pos = 0
    mark = 0
    for i in range(len(low)):
        mark = note_marks(marks, mark, i, i + 1, pos, offsets, skips)
        if high[i] == low[i] >> 63:
            pattern = zigzag(low[i])
            if bit_length(pattern) > 56:
                pos = write_varint(out, pos, pattern)
                continue
            size = varint_size(pattern)
            word = np.uint64(pattern)
            word = (word & _LOW_28) | ((word << _FOUR) & _HIGH_28)
            word = (word & _LOW_14) | ((word << _TWO) & _HIGH_14)
            word = (word & _LOW_7) | ((word << _ONE) & _HIGH_7)
            # every byte but the last is marked as followed by another; the bytes after it are overwritten
            word |= _HIGH_BITS & ((_ONE << np.uint64(8 * size - 8)) - _ONE)
            store_word(out, pos, swapped(word))
            pos += size
            continue
        sign = high[i] >> 63
        lower = (low[i] << 1) ^ sign
        upper = (high[i] << 1 | (low[i] >> 63 & 1)) ^ sign
        # upper is not 0 here, so the nine lowest groups of seven bits are all written
        for _ in range(9):
            out[pos] = (lower & 0x7F) | 0x80
            lower = (lower >> 7) & 0x01FFFFFFFFFFFFFF
            pos += 1
        # a single bit of lower remains; upper may have all 64
        if bit_length(upper) < 64:
            pos = write_varint(out, pos, upper << 1 | lower)
        else:
            out[pos] = (upper << 1 & 0x7E) | lower | 0x80
            pos = write_varint(out, pos + 1, (upper >> 6) & 0x03FFFFFFFFFFFFFF)
    offsets[mark:] = pos
    return out[:pos], offsets, skips
